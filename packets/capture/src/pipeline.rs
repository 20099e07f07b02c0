//! Capturing on one thread, conversion and writing on another.
//!
//! ```text
//! tap ──► capture thread ──► queue of batches ──► conversion thread ──► sink
//!         takes (count, clock) pairs              counts, then times
//! ```
//!
//! The capture thread only moves chunks: it neither looks at packets nor turns a stamp into
//! anything. What it adds is a [`HostPair`] after every chunk, about one a millisecond under load:
//! chunks that come within that millisecond share one, and travel as one batch, so that the
//! conversion thread is woken a thousand times a second at the most.
//!
//! # Nothing is lost in silence
//! Chunks hold the memory of the ring that they came in, so the ring is the one bound of memory;
//! the queue's own limits only say how much of it may be on its way. When the queue is full, by
//! default the capture thread [waits](WhenFull::Wait): the ring fills up behind it, and the kernel
//! drops packets one by one and counts them, which is cheaper than fetching a packet to throw it
//! away, and loses no stamp of those that stay, as they were stamped when they arrived. Packets
//! that are stamped when they are fetched would get the time of the end of the waiting, so
//! for them whole batches are [dropped](WhenFull::Drop) instead, and counted. Always:
//!
//! ```text
//! received = written + ring + kernel + dropped + surplus + left
//! ```
//! where `left` is 0 unless the end was the tap's or the sink's: in the end the tap is
//! [stopped](crate::Tap::stop), and what it still holds is taken.
//!
//! # How old a packet may be that is taken
//! A clock that was stepped back has shown the same time twice, and a stamp by it may be of either
//! time. The pipeline takes it that a packet can be fetched half a second after it was stamped at
//! the latest; the kernel needs a few milliseconds. Nothing else rests on that.

mod progress;
mod queue;
mod reader;
mod spread;
mod take;
#[cfg(test)]
mod tests;
mod write;

use std::fmt;
use std::io;
use std::num::NonZeroU64;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use truechimer_counter::affinity::Pinned;
use truechimer_counter::{Counter, HostPair};
use truechimer_time::{Count, CountSpan, Span};

use crate::convert::{Converter, DevicePair};
use crate::sink::{Sink, SinkError, Written};
use crate::{Facts, RawStamp, Stamped, Tap, TapError};

pub use progress::{Live, Progress, Tally};
pub use queue::Limits;
use queue::Queue;
pub use reader::is_unread;
pub use spread::Spread;
use take::{Ended, Taker};
use write::{Finished, Threaded, Writer};

/// A packet can be fetched so long after it was stamped, at the latest.
const MOST_ON_THE_WAY: Span = Span::from_millis(500);

/// Options of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// All on the calling thread, without another one for conversion and writing.
    pub inline: bool,
    /// End after so many packets, exactly. Those that find no room on the disk do not count, but for those that are
    /// on their way to it at the end.
    pub count: Option<NonZeroU64>,
    /// End after so long.
    pub duration: Option<Duration>,
    /// Most that may be between the threads, one batch always; `None`: what suits the ring.
    pub limits: Option<Limits>,
    /// Behaviour when that is reached.
    pub when_full: WhenFull,
    /// The processor that the capture thread, which is the calling one, is kept on meanwhile.
    pub capture_cpu: Option<usize>,
    /// The processor that the conversion thread is kept on.
    pub convert_cpu: Option<usize>,
}

/// Behaviour of the capture thread when the conversion thread is behind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum WhenFull {
    /// Waits, and the kernel drops what the ring has no room for.
    #[default]
    Wait,
    /// Drops what it has taken: for packets that are stamped when they are taken.
    Drop,
}

impl Options {
    fn limits(&self, facts: &Facts) -> Limits {
        // Small packets in a packet socket's ring take a hundred bytes, in AF_XDP's a frame of 2
        // or 4 KiB. A quarter of the frames is enough to keep the other thread busy, and leaves
        // the kernel the rest.
        let packets = match self.when_full {
            WhenFull::Wait => (facts.ring_bytes / (4 * 4096)).clamp(256, 65_536),
            // Who drops by himself does no better than the kernel does when the frames are gone.
            WhenFull::Drop => u64::MAX,
        };
        self.limits.unwrap_or(Limits { items: 1024, packets })
    }
}

/// Outcome of a run.
#[derive(Debug)]
pub struct Summary {
    /// Reason why it ended.
    pub end: End,
    /// Facts about what was captured from.
    pub facts: Facts,
    /// Time that it took.
    pub elapsed: Duration,
    /// All that was counted. `received = written + ring + kernel + dropped + surplus + left`, where
    /// received, ring and kernel are the [`losses`](Live::losses).
    pub live: Live,
    /// Packets that the kernel had received and that nobody took any more. 0 unless the tap or the
    /// sink failed.
    pub left: u64,
    /// Report of the sink. Of [`Live::written`] it could not write [`Written::unwritten`].
    pub written: Written,
}

/// Reason why a run ended.
#[derive(Debug)]
pub enum End {
    /// There are as many packets as were asked for.
    Count,
    /// The time is over.
    Duration,
    /// Stopped as told.
    Stopped,
    /// Nobody reads the packets any more.
    Unread,
    /// The interface has vanished. All that it had given is written.
    Gone,
    /// Nothing can be captured any more. All that came before is written.
    Tap(TapError),
    /// Nothing can be written any more.
    Sink(SinkError),
    /// The conversion thread has failed: a fault of this program.
    Fault(String),
}

impl End {
    /// True if all went as it should.
    #[must_use]
    pub fn is_good(&self) -> bool {
        matches!(self, End::Count | End::Duration | End::Stopped | End::Unread)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Count => f.write_str("as many packets as were asked for"),
            End::Duration => f.write_str("the time is over"),
            End::Stopped => f.write_str("stopped"),
            End::Unread => f.write_str("nobody reads the packets any more"),
            End::Gone => f.write_str("the interface is gone"),
            End::Tap(why) => why.fmt(f),
            End::Sink(why) => why.fmt(f),
            End::Fault(what) => write!(f, "the conversion thread has failed: {what}"),
        }
    }
}

/// Part of a [`Converter`] that the pipeline needs; that is the only one outside of tests.
trait Convert: Send {
    /// See [`Converter::pair`].
    fn pair(&mut self, pair: HostPair);

    /// See [`Converter::device_pair`].
    fn device_pair(&mut self, pair: DevicePair);

    /// The counter that pairs are to be taken by.
    fn counter(&self) -> Counter;

    /// Looks at the clock, and tells the sink what has changed.
    ///
    /// # Errors
    /// The sink's.
    fn refresh(&mut self, sink: &mut dyn Sink) -> Result<(), SinkError>;

    /// Packets that are converted from here on could not be fetched yet at this count. As
    /// [`Converter::not_before`].
    fn quiet(&mut self, count: Count);

    /// See [`Converter::stamp_error`].
    fn stamp_error(&mut self, error: CountSpan);

    /// See [`Converter::convert`].
    fn convert(&mut self, stamp: RawStamp) -> Stamped;

    /// Tells the sink how the clock is in the end.
    ///
    /// # Errors
    /// The sink's.
    fn finish(&mut self, sink: &mut dyn Sink) -> Result<(), SinkError>;
}

impl Convert for Converter {
    fn pair(&mut self, pair: HostPair) {
        Converter::pair(self, pair);
    }

    fn device_pair(&mut self, pair: DevicePair) {
        Converter::device_pair(self, pair);
    }

    fn counter(&self) -> Counter {
        Converter::counter(self)
    }

    fn refresh(&mut self, sink: &mut dyn Sink) -> Result<(), SinkError> {
        match Converter::refresh(self) {
            Some(change) => sink.change(&change),
            None => Ok(()),
        }
    }

    fn quiet(&mut self, count: Count) {
        let way = self.identity().period.counts(MOST_ON_THE_WAY);
        self.not_before(count - way);
    }

    fn stamp_error(&mut self, error: CountSpan) {
        Converter::stamp_error(self, error);
    }

    fn convert(&mut self, stamp: RawStamp) -> Stamped {
        Converter::convert(self, stamp)
    }

    fn finish(&mut self, sink: &mut dyn Sink) -> Result<(), SinkError> {
        sink.change(&Converter::finish(self))
    }
}

/// Reads the network card's clock beside the counter.
pub type Device = Box<dyn FnMut() -> io::Result<DevicePair> + Send>;

/// Takes packets off `tap` and writes them to `sink`, until `stop` is set or the options say that
/// it is enough, or something ends it. What the tap's ring holds when it is stopped is still
/// written, however long that takes. The sink is finished in any case but that of
/// its own failure. The calling thread is the capture thread. Where packets are stamped by the
/// network card, `device` is to read its clock.
pub fn run(
    tap: Box<dyn Tap>,
    device: Option<Device>,
    converter: Converter,
    sink: Box<dyn Sink>,
    options: &Options,
    stop: &AtomicBool,
    progress: &Progress,
) -> Summary {
    // Here, so that it is compiled in this crate, with its settings.
    run_with(tap, device, converter, sink, options, stop, progress)
}

/// Runs like [`run`], with any converter.
fn run_with<C: Convert>(
    tap: Box<dyn Tap>,
    device: Option<Device>,
    mut converter: C,
    sink: Box<dyn Sink>,
    options: &Options,
    stop: &AtomicBool,
    progress: &Progress,
) -> Summary {
    let began = Instant::now();
    let facts = tap.facts().clone();
    converter.stamp_error(facts.stamp_error);
    let count = options.count;
    let _pinned = pin(options.capture_cpu, "capture", progress);
    let mut taker = Taker::new(tap, device, converter.counter(), options, progress);
    let mut writer = Writer::new(converter, sink, count, progress);
    let (ended, finished) = if options.inline {
        let ended = taker.run(&mut writer, stop);
        (ended, Ok(writer.finish()))
    } else {
        let queue = Queue::new(options.limits(&facts));
        std::thread::scope(|scope| {
            let other = std::thread::Builder::new().name("convert".into());
            let other = other.spawn_scoped(scope, || {
                let _pinned = pin(options.convert_cpu, "conversion", progress);
                writer.run(&queue);
                writer.finish()
            });
            let other = match other {
                Ok(other) => other,
                Err(why) => return (Ended::Refused, Err(format!("it cannot be started: {why}"))),
            };
            let mut outlet = Threaded::new(&queue, options.when_full, count, progress);
            // A tap that panics must not leave the other thread waiting.
            let ending = queue.ending();
            let ended = taker.run(&mut outlet, stop);
            drop(ending);
            (ended, other.join().map_err(|panic| words(&*panic)))
        })
    };
    // Its chunks are gone, and with them all that kept its memory.
    drop(taker);
    summarise(ended, finished, facts, began.elapsed(), progress)
}

fn summarise(
    ended: Ended,
    finished: Result<Finished, String>,
    facts: Facts,
    elapsed: Duration,
    progress: &Progress,
) -> Summary {
    let end = match ended {
        Ended::Count => End::Count,
        Ended::Duration => End::Duration,
        // By the writer, which says why.
        Ended::Stopped | Ended::Refused => End::Stopped,
        Ended::Gone => End::Gone,
        Ended::Failed(why) => End::Tap(why),
    };
    let (written, end) = match finished {
        Ok(Finished { written, error: None | Some(SinkError::Elsewhere) }) => (written, end),
        Ok(Finished { written, error: Some(SinkError::Closed) }) => (written, End::Unread),
        Ok(Finished { written, error: Some(why) }) => (written, End::Sink(why)),
        Err(what) => {
            // Whatever it had in hand is lost.
            progress.drop_rest();
            (Written::default(), End::Fault(what))
        }
    };
    let live = progress.live();
    let lost = live.losses.ring.saturating_add(live.losses.kernel);
    let left = live.losses.received.saturating_sub(live.taken).saturating_sub(lost);
    Summary { end, facts, elapsed, live, left, written }
}

/// Keeps this thread on a processor, if one is asked for. That this does not work is no reason not
/// to capture.
fn pin(cpu: Option<usize>, thread: &str, progress: &Progress) -> Option<Pinned> {
    let cpu = cpu?;
    match Pinned::to(Some(cpu)) {
        Ok(pinned) => Some(pinned),
        Err(why) => {
            progress.note(format!(
                "the {thread} thread cannot be kept on CPU {cpu} ({why}): it runs anywhere"
            ));
            None
        }
    }
}

/// Words of a panic.
fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
