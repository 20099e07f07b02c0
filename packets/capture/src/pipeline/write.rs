//! The conversion thread: counts, times, and the sink.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::queue::{Batch, Got, Item, Pair, Put, Queue};
use super::take::Outlet;
use super::{Convert, Progress, Tally, WhenFull};
use crate::Chunk;
use crate::sink::{Sink, SinkError, Written};

/// While nothing comes, what is held back is handed on so often.
const FLUSH: Duration = Duration::from_millis(100);
/// Interval at which the others are told what the stamps are worth.
const BETWEEN_TALLIES: Duration = Duration::from_millis(100);
/// Time that the capture thread waits for room between two looks at the clocks.
const WAIT: Duration = Duration::from_millis(10);

/// Converts and writes.
pub(super) struct Writer<'a, C> {
    converter: C,
    sink: Box<dyn Sink>,
    progress: &'a Progress,
    count: Option<NonZeroU64>,
    /// Packets that may still be written: those that were lost to a full disk leave room for others.
    room: u64,
    tally: Tally,
    told: Instant,
    failed: Option<SinkError>,
}

/// Result of the writing.
pub(super) struct Finished {
    pub written: Written,
    pub error: Option<SinkError>,
}

impl<'a, C: Convert> Writer<'a, C> {
    pub fn new(
        converter: C,
        sink: Box<dyn Sink>,
        count: Option<NonZeroU64>,
        progress: &'a Progress,
    ) -> Writer<'a, C> {
        Writer {
            converter,
            sink,
            progress,
            count,
            room: count.map_or(u64::MAX, NonZeroU64::get),
            tally: Tally::default(),
            told: Instant::now(),
            failed: None,
        }
    }

    /// Writes a batch; false if nothing more can be written, or is wanted.
    fn batch(&mut self, batch: Batch) -> bool {
        for pair in batch.pairs {
            match pair {
                Pair::Host(pair) => self.converter.pair(pair),
                Pair::Device(pair) => self.converter.device_pair(pair),
            }
        }
        if let Some(quiet) = batch.quiet {
            self.converter.quiet(quiet);
        }
        if self.failed.is_none()
            && let Err(error) = self.converter.refresh(&mut *self.sink)
        {
            self.failed = Some(error);
        }
        for item in batch.items {
            match item {
                Item::Chunk(chunk) => self.chunk(&*chunk),
                Item::Mark(mark) if self.failed.is_none() => {
                    self.failed = self.sink.mark(mark).err();
                }
                Item::Mark(_) => {}
            }
        }
        if let Some(losses) = &batch.losses {
            self.sink.losses(losses, self.progress.dropped.load(Ordering::Relaxed));
        }
        self.flush();
        self.look();
        self.failed.is_none() && self.room > 0
    }

    /// Takes from the sink how many packets are lost, those included that it had taken before.
    fn look(&mut self) {
        let written = self.sink.written();
        self.progress.unwritten.store(written.unwritten, Ordering::Relaxed);
        self.room =
            self.count.map_or(u64::MAX, |count| count.get().saturating_sub(written.packets));
    }

    fn chunk(&mut self, chunk: &dyn Chunk) {
        let (mut written, mut unwritten, mut bytes) = (0, 0, 0);
        chunk.for_each(&mut |packet| {
            if self.failed.is_some() || written == self.room {
                return;
            }
            let stamped = self.converter.convert(packet.stamp);
            match self.sink.packet(packet, &stamped) {
                Ok(true) => {
                    written += 1;
                    bytes +=
                        packet.data.len() as u64 + packet.tag.map_or(0, |tag| tag.len() as u64);
                    self.tally.add(&stamped);
                }
                Ok(false) => unwritten += 1,
                Err(error) => self.failed = Some(error),
            }
        });
        let add = |number: &AtomicU64, more: u64| number.fetch_add(more, Ordering::Relaxed);
        // First, so that nobody sees packets as written that are not.
        add(&self.progress.unwritten, unwritten);
        add(&self.progress.written, written + unwritten);
        add(&self.progress.bytes, bytes);
        let rest = (chunk.len() as u64).saturating_sub(written + unwritten);
        reject(self.progress, self.count, rest);
        self.room -= written;
    }

    fn flush(&mut self) {
        if self.failed.is_none() {
            self.failed = self.sink.flush().err();
        }
        if self.told.elapsed() >= BETWEEN_TALLIES {
            self.tell();
        }
    }

    fn tell(&mut self) {
        self.told = Instant::now();
        self.progress.worth(&self.tally);
        self.progress.sink(self.sink.written());
    }

    /// Writes what comes until there is nothing more.
    pub fn run(&mut self, queue: &Queue) {
        // However this ends, a panic included, nobody shall wait for it.
        let _closing = Closing(queue, self.progress, self.count);
        loop {
            match queue.get(FLUSH) {
                Got::Batch(batch) => {
                    self.progress.queued.store(queue.packets(), Ordering::Relaxed);
                    if !self.batch(batch) {
                        break;
                    }
                }
                Got::Nothing => {
                    self.flush();
                    if self.failed.is_some() {
                        break;
                    }
                }
                Got::Over => break,
            }
        }
    }

    /// Ends the file, unless that has failed already.
    pub fn finish(mut self) -> Finished {
        let written = match self.failed {
            None => self.converter.finish(&mut *self.sink).and_then(|()| self.sink.finish()),
            Some(error) => Err(error),
        };
        let (written, error) = match written {
            Ok(written) => (written, None),
            Err(error) => (self.sink.written().clone(), Some(error)),
        };
        self.progress.worth(&self.tally);
        self.progress.sink(&written);
        Finished { written, error }
    }
}

impl<C: Convert> Outlet for Writer<'_, C> {
    fn hand_on(&mut self, batch: Batch, _last: bool, _meanwhile: &mut dyn FnMut()) -> bool {
        self.batch(batch)
    }

    fn idle(&mut self) -> bool {
        self.flush();
        self.failed.is_none()
    }
}

/// The queue, as the capture thread has it.
pub(super) struct Threaded<'a> {
    queue: &'a Queue,
    when_full: WhenFull,
    count: Option<NonZeroU64>,
    progress: &'a Progress,
    /// Remains of batches whose packets were dropped.
    kept: Batch,
}

impl<'a> Threaded<'a> {
    pub fn new(
        queue: &'a Queue,
        when_full: WhenFull,
        count: Option<NonZeroU64>,
        progress: &'a Progress,
    ) -> Threaded<'a> {
        Threaded { queue, when_full, count, progress, kept: Batch::default() }
    }

    /// Waits until the sink has all that was handed on; whether it takes more.
    fn settle(&self, meanwhile: &mut dyn FnMut()) -> bool {
        loop {
            match self.queue.settled(WAIT) {
                Some(takes_more) => return takes_more,
                None => meanwhile(),
            }
        }
    }

    /// Drops a batch's packets; all else goes with the next one.
    fn strip(&mut self, mut batch: Batch) {
        self.progress.dropped.fetch_add(batch.packets, Ordering::Relaxed);
        batch.packets = 0;
        batch.items.retain(|item| matches!(item, Item::Mark(_)));
        self.kept = batch;
    }
}

impl Outlet for Threaded<'_> {
    fn hand_on(&mut self, batch: Batch, last: bool, meanwhile: &mut dyn FnMut()) -> bool {
        let batch = std::mem::take(&mut self.kept).and(batch);
        let mut result = self.queue.put(batch, Duration::ZERO);
        if matches!(result, Put::Full(_)) {
            self.progress.waits.fetch_add(1, Ordering::Relaxed);
        }
        loop {
            let batch = match result {
                Put::Done if last => return self.settle(meanwhile),
                Put::Done => return true,
                Put::Closed(batch) => {
                    reject(self.progress, self.count, batch.packets);
                    return false;
                }
                Put::Full(batch) => batch,
            };
            if self.when_full == WhenFull::Drop && !last {
                self.strip(batch);
                return true;
            }
            meanwhile();
            result = self.queue.put(batch, WAIT);
        }
    }

    fn idle(&mut self) -> bool {
        true
    }
}

/// Nothing more is taken out of the queue once this is dropped.
struct Closing<'a>(&'a Queue, &'a Progress, Option<NonZeroU64>);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let packets = self.0.close().iter().map(|batch| batch.packets).sum();
        reject(self.1, self.2, packets);
    }
}

/// Counts packets that will not be written: as surplus if there are as many as were wanted.
fn reject(progress: &Progress, count: Option<NonZeroU64>, packets: u64) {
    let counter = if progress.has(count) { &progress.surplus } else { &progress.dropped };
    counter.fetch_add(packets, Ordering::Relaxed);
}
