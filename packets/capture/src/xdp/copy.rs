//! Copies of packets by way of a BPF ring buffer; the packets pass, or end there.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use truechimer_time::CountSpan;

use super::attach::Place;
use super::chunk::Copied;
use super::program::{self, Counted, Counters, Fate, Record};
use super::stamp::Source;
use super::{ETHERNET, LEAST_SNAP, StampAt, XdpOptions, failed, system};
use crate::bpf::{Link as Attached, Program, RingBuffer};
use crate::filter::Filter;
use crate::link::drops::{Before, Drops};
use crate::link::{Change, Watcher};
use crate::pace::{PACKETS, Pace};
use crate::tap::{Chunk, Direction, Facts, Losses, Method, Next, Packet, RawStamp, Tap, TapError};

/// Longest wait for the ring buffer before the interface is looked at again.
const GLANCE: Duration = Duration::from_millis(100);
/// Largest number of records taken at a time.
const BATCH: usize = 512;
/// Bytes of ring buffer that make one packet that may come while we sleep.
const ROOMY: u64 = 16 << 10;
/// The largest ring buffer, in bytes.
const MOST_RING: u64 = 1 << 30;

/// Copies the first bytes of packets by an XDP program, and lets the packets pass to the host, or
/// takes them away from it.
#[derive(Debug)]
pub struct XdpCopyTap {
    // Goes first: no program, no more packets.
    attached: Option<Attached>,
    program: Arc<Program>,
    counters: Counters,
    ring: RingBuffer,
    pace: Pace,
    /// The size of the last batch.
    last: (usize, usize),
    watcher: Watcher,
    /// That it was down to begin with has been told, if it was.
    told: bool,
    source: Source,
    filter: Option<Filter>,
    facts: Facts,
    keep: u32,
    taken: u64,
    refused: u64,
    drops: Option<Drops>,
    _promiscuous: Option<OwnedFd>,
}

/// Fate of the copies so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CopyCounts {
    /// Packets that the program saw.
    pub seen: u64,
    /// Their copies were taken out of the ring buffer.
    pub taken: u64,
    /// Of those: refused by the filter.
    pub refused: u64,
    /// There was no room in the ring buffer.
    pub lost: u64,
}

impl XdpCopyTap {
    /// Opens it; packets are copied from now on, and pass. Of the options, `take`, `zero_copy`,
    /// `queues` and `huge_pages` mean nothing here.
    ///
    /// # Errors
    /// Without the rights (CAP_NET_ADMIN, CAP_BPF, CAP_PERFMON; CAP_NET_RAW for promiscuity),
    /// without the interface, where another program has it, where stamps at dequeue were asked for.
    pub fn open(options: &XdpOptions) -> Result<XdpCopyTap, TapError> {
        let place = Place::find(&options.interface)?;
        if options.stamp == StampAt::Dequeue {
            return Err(TapError {
                doing: format!("copying packets of {}", options.interface),
                why: "copies are stamped where they are made".to_owned(),
                mend: Some(
                    "leave the place of the stamp alone, or use the method `xdp`".to_owned(),
                ),
            });
        }
        XdpCopyTap::at(&place, options, Fate::Pass)
    }

    /// Opens it, but packets of this queue go no further than here. (The caller has made sure that
    /// they may be taken.)
    pub(super) fn taking(
        place: &Place,
        options: &XdpOptions,
        queue: u32,
    ) -> Result<XdpCopyTap, TapError> {
        XdpCopyTap::at(place, options, Fate::End(queue))
    }

    fn at(place: &Place, options: &XdpOptions, fate: Fate) -> Result<XdpCopyTap, TapError> {
        let source = Source::open(options.stamp, options.counter)?;
        let watcher = place.watch()?;
        let snap = options.snap_length.max(LEAST_SNAP);
        // A filter must see the whole packet, or what a frame of this interface can hold of it.
        let keep = if options.filter.is_some() { u32::from(u16::MAX) } else { snap };
        let keep = keep.min(u32::from(u16::MAX));
        let bytes = options.ring_bytes.clamp(1 << 17, MOST_RING) as u32;
        // The size is a power of two: the one below, not to take more than was allowed.
        let bytes = 1 << bytes.ilog2();
        let counters = Counters::new().map_err(failed)?;
        let ring = RingBuffer::new(bytes).map_err(failed)?;
        let program = program::copy(&ring, &counters, source.stamp(), keep, fate);
        let program = program.map_err(failed)?;
        let (attached, mode, regret) = place.attach(&program, options.mode)?;
        let promiscuous = place.promiscuous(options.promiscuous)?;
        let (method, what) = match fate {
            Fate::Pass => (Method::XdpCopy, "packets pass".to_owned()),
            Fate::End(queue) => (Method::Xdp, format!("copied by the program, queue {queue}")),
        };
        let facts = Facts {
            interface: options.interface.clone(),
            method,
            detail: place.detail(mode, &what, regret),
            link_type: ETHERNET,
            snap_length: snap,
            stamped_by: source.described(),
            ring_bytes: u64::from(bytes),
            stamp_error: source.error,
        };
        Ok(XdpCopyTap {
            attached: Some(attached),
            program: Arc::new(program),
            counters,
            ring,
            pace: Pace::new(PACKETS, source.lateness(), u64::from(bytes) / ROOMY),
            last: (0, 0),
            told: watcher.is_up() || watcher.is_gone(),
            watcher,
            source,
            filter: options.filter.clone(),
            facts,
            keep,
            taken: 0,
            refused: 0,
            drops: Drops::open(place.link.index, Before::Program),
            _promiscuous: promiscuous,
        })
    }

    /// The program, for those who feed it packets by hand.
    #[must_use]
    pub fn program(&self) -> Arc<Program> {
        self.program.clone()
    }

    /// See [`super::XdpTap::stamp_error`].
    #[must_use]
    pub fn stamp_error(&self) -> CountSpan {
        self.source.error
    }

    /// Fate of the copies. What is seen and neither taken nor lost is in the ring buffer.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn counts(&self) -> Result<CopyCounts, TapError> {
        Ok(CopyCounts {
            seen: self.counters.get(Counted::Seen).map_err(failed)?,
            taken: self.taken,
            refused: self.refused,
            lost: self.counters.get(Counted::Lost).map_err(failed)?,
        })
    }

    /// Takes what is in the ring buffer, up to a batch; and tells whether there was anything.
    fn take(&mut self) -> Result<(Copied, bool), TapError> {
        let mut copied = Copied::like(self.last);
        let (mut all, mut refused, mut broken) = (0, 0, 0);
        let (keep, snap) = (self.keep, self.facts.snap_length as usize);
        let (source, filter) = (&self.source, self.filter.as_ref());
        self.ring
            .consume_some(BATCH, |record| {
                let Some(Record { stamp, length, cpu, queue, bytes }) = Record::read(record, keep)
                else {
                    broken += 1;
                    return;
                };
                all += 1;
                if filter.is_some_and(|filter| !filter.matches(bytes, length)) {
                    refused += 1;
                    return;
                }
                copied.push(&Packet {
                    stamp: source.reading.stamp(stamp, cpu),
                    data: bytes.get(..snap).unwrap_or(bytes),
                    tag: None,
                    length,
                    direction: Direction::In,
                    queue,
                });
            })
            .map_err(failed)?;
        if broken > 0 {
            return Err(TapError {
                doing: format!("reading copies of packets of {}", self.facts.interface),
                why: format!("{broken} records make no sense"),
                mend: None,
            });
        }
        if source.is_at_dequeue() {
            // Read last: no packet may be stamped before it has come.
            copied.stamp(RawStamp::Count(source.counter.read()));
        }
        self.last = copied.size();
        self.taken += all;
        self.pace.took(all);
        self.refused += refused;
        Ok((copied, all > 0))
    }
}

impl Tap for XdpCopyTap {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn next(&mut self, timeout: Duration) -> Result<Next, TapError> {
        let begin = Instant::now();
        loop {
            let left = timeout.saturating_sub(begin.elapsed());
            match self.take()? {
                (copied, _) if !copied.is_empty() => return Ok(Next::Chunk(Box::new(copied))),
                // Refused, all of them: there may be more.
                (_, true) if !left.is_zero() => continue,
                _ => {}
            }
            if self.watcher.is_gone() {
                return Ok(Next::Gone);
            }
            if !std::mem::replace(&mut self.told, true) {
                return Ok(Next::Down);
            }
            let news = self.watcher.next();
            match news.map_err(system(format!("watching {}", self.facts.interface), |_| None))? {
                Some(Change::Down) => return Ok(Next::Down),
                Some(Change::Up) => return Ok(Next::Up),
                Some(Change::Gone) => return Ok(Next::Gone),
                None if left.is_zero() => return Ok(Next::Nothing),
                None => match self.pace.rest(Instant::now()) {
                    Some(rest) => std::thread::sleep(rest.min(left)),
                    None => self.ring.wait(left.min(GLANCE)).map_err(failed).map(drop)?,
                },
            }
        }
    }

    fn losses(&mut self) -> Result<Losses, TapError> {
        let CopyCounts { taken, refused, lost, .. } = self.counts()?;
        let interface = self.drops.as_ref().map_or(0, Drops::lost);
        Ok(Losses { received: taken - refused + lost, ring: lost, kernel: 0, interface })
    }

    fn stop(&mut self) -> Result<(), TapError> {
        self.attached = None;
        self.drops.as_mut().into_iter().for_each(Drops::end);
        Ok(())
    }
}
