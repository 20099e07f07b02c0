//! AF_XDP sockets, one for each receive queue.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use truechimer_stamp::Ready;
use truechimer_time::CountSpan;

use super::attach::Place;
use super::chunk::{Framed, View};
use super::counts::{Astray, XdpCounts};
use super::program::{Counted, Counters, Stamp, redirect};
use super::queue::{Copies, FRAME, Plan, Queue};
use super::socket::Statistics;
use super::stamp::Source;
use super::{ETHERNET, LEAST_SNAP, XdpOptions, failed, guard, queues, system};
use crate::bpf::{Link as Attached, Map, Program};
use crate::filter::Filter;
use crate::link::drops::{Before, Drops};
use crate::link::{Change, Watcher};
use crate::pace::{PACKETS, Pace};
use crate::tap::{Chunk, Facts, Losses, Method, Next, Tap, TapError};

/// Largest number of frames taken out of a ring at a time.
const BATCH: u32 = 512;

/// A packet is in a ring by then, long since.
const ON_THE_WAY: Duration = Duration::from_millis(5);
/// Until we look again so many packets may come that one in so many frames has one.
const MOST_FILLED: u32 = 8;

/// Takes packets off an interface, and away from the host, by AF_XDP.
#[derive(Debug)]
pub struct XdpTap {
    // Goes first: no program, no more packets.
    attached: Option<Attached>,
    program: Arc<Program>,
    counters: Counters,
    sockets: Map,
    queues: Vec<Queue>,
    turn: usize,
    pace: Pace,
    ready: Vec<Ready>,
    watcher: Watcher,
    /// That it was down to begin with has been told, if it was.
    told: bool,
    source: Source,
    filter: Option<Filter>,
    facts: Facts,
    taken: u64,
    refused: u64,
    astray: Astray,
    drops: Option<Drops>,
    stopped: Option<Instant>,
    _promiscuous: Option<OwnedFd>,
}

impl XdpTap {
    /// Opens it; packets are captured from now on.
    ///
    /// # Errors
    /// Without the rights (CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF, CAP_PERFMON), without the
    /// interface, where the host uses it and [`XdpOptions::take`] is not set, where another program
    /// or socket has it, where the driver cannot.
    pub fn open(options: &XdpOptions) -> Result<XdpTap, TapError> {
        let place = Place::find(&options.interface)?;
        guard::check(&place.link, options.take)?;
        let numbers = queues::wanted(options, &place)?;
        XdpTap::at(&place, options, &numbers, Copies::Allowed)
    }

    /// Opens it for queues that are known, of an interface whose packets may be taken.
    pub(super) fn at(
        place: &Place,
        options: &XdpOptions,
        numbers: &[u32],
        copies: Copies,
    ) -> Result<XdpTap, TapError> {
        let source = Source::open(options.stamp, options.counter)?;
        let snap = options.snap_length.max(LEAST_SNAP);
        let last = numbers.iter().copied().max().unwrap_or(0);
        let watcher = place.watch()?;
        let counters = Counters::new().map_err(failed)?;
        let sockets = Map::xsk_map(last.saturating_add(1)).map_err(failed)?;
        // A filter must see the whole packet.
        let cut = options.filter.is_none().then_some(snap);
        let program = redirect(&sockets, &counters, source.stamp(), cut).map_err(failed)?;
        let (attached, mode, regret) = place.attach(&program, options.mode)?;

        let plan = Plan::new(options, place, mode, numbers.len(), copies);
        let mut opened = Vec::new();
        for &number in numbers {
            opened.push(Queue::open(place.link.index, number, &plan)?);
        }
        let promiscuous = place.promiscuous(options.promiscuous)?;
        let zero_copy = opened.iter().filter(|queue| queue.socket.is_zero_copy().unwrap_or(false));
        let copy = if zero_copy.count() == opened.len() { "zero-copy" } else { "copy" };
        for queue in &opened {
            sockets.set_fd(queue.number, queue.socket.as_fd()).map_err(failed)?;
        }

        let pace = Pace::new(PACKETS, source.lateness(), u64::from(plan.frames / MOST_FILLED));

        let many = if opened.len() == 1 { "" } else { "s" };
        let detail = format!("{copy}, {} queue{many}", opened.len());
        let facts = Facts {
            interface: options.interface.clone(),
            method: Method::Xdp,
            detail: place.detail(mode, &detail, regret),
            link_type: ETHERNET,
            snap_length: snap,
            stamped_by: source.described(),
            ring_bytes: u64::from(plan.frames) * u64::from(FRAME) * opened.len() as u64,
            stamp_error: source.error,
        };
        Ok(XdpTap {
            attached: Some(attached),
            program: Arc::new(program),
            counters,
            sockets,
            ready: vec![Ready::default(); opened.len() + 1],
            queues: opened,
            turn: 0,
            pace,
            told: watcher.is_up() || watcher.is_gone(),
            watcher,
            source,
            filter: options.filter.clone(),
            facts,
            taken: 0,
            refused: 0,
            astray: Astray::new(),
            drops: Drops::open(place.link.index, Before::Program),
            stopped: None,
            _promiscuous: promiscuous,
        })
    }

    /// The program, for those who feed it packets by hand.
    #[must_use]
    pub fn program(&self) -> Arc<Program> {
        self.program.clone()
    }

    /// |count − true count| of a stamp is at most this because of the way it was made; 0 unless the
    /// stamp is [`StampAt::Tsc`](super::StampAt::Tsc).
    #[must_use]
    pub fn stamp_error(&self) -> CountSpan {
        self.source.error
    }

    /// Fates of the packets. While they come in, those on their way are in `seen` only.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn counts(&self) -> Result<XdpCounts, TapError> {
        let get = |what| self.counters.get(what).map_err(failed);
        let mut counts = XdpCounts {
            // First: what is counted after it was not seen too few.
            seen: get(Counted::Seen)?,
            elsewhere: get(Counted::Elsewhere)?,
            unnoted: get(Counted::Unnoted)?,
            taken: self.taken,
            refused: self.refused,
            ..XdpCounts::default()
        };
        for queue in &self.queues {
            let statistics = queue.socket.statistics();
            let Statistics { dropped, ring_full, fill_empty, invalid } =
                statistics.map_err(system("asking an AF_XDP socket for its counters", |_| None))?;
            counts.dropped += dropped;
            counts.ring_full += ring_full;
            counts.fill_empty += fill_empty;
            counts.invalid += invalid + queue.intake.astray();
            counts.waiting += u64::from(queue.intake.waiting());
        }
        Ok(counts)
    }

    /// The next chunk, if any packets wait; `Err` with how many were refused if none of them
    /// passed.
    fn take(&mut self) -> Result<Option<Box<dyn Chunk>>, ()> {
        for _ in 0..self.queues.len() {
            let turn = self.turn;
            self.turn = (turn + 1) % self.queues.len();
            let Some(queue) = self.queues.get_mut(turn) else { continue };
            if queue.intake.waiting() == 0 {
                continue;
            }
            let held = queue.intake.take(BATCH);
            let taken = match self.source.stamp() {
                Stamp::None => Some(self.source.counter.read()),
                _ => None,
            };
            let view = View {
                reading: self.source.reading.clone(),
                taken,
                snap: self.facts.snap_length,
                queue: u16::try_from(queue.number).unwrap_or(u16::MAX),
            };
            let all = held.packets() as u64;
            let (chunk, refused) = Framed::new(held, view, self.filter.as_ref());
            self.taken += all;
            self.pace.took(all);
            self.refused += refused;
            return if chunk.is_empty() { Err(()) } else { Ok(Some(Box::new(chunk))) };
        }
        Ok(None)
    }

    /// News of the interface by the kernel, if any.
    fn news(&mut self) -> Result<Option<Next>, TapError> {
        if !std::mem::replace(&mut self.told, true) {
            return Ok(Some(Next::Down));
        }
        let news = self.watcher.next();
        let news = news.map_err(system(format!("watching {}", self.facts.interface), |_| None))?;
        Ok(news.map(|change| match change {
            Change::Down => Next::Down,
            Change::Up => Next::Up,
            Change::Gone => Next::Gone,
        }))
    }

    /// Waits for packets or news.
    fn wait(&mut self, timeout: Duration) -> Result<(), TapError> {
        if let Some(rest) = self.pace.rest(Instant::now()) {
            std::thread::sleep(rest.min(timeout));
            return Ok(());
        }
        let sockets = self.queues.iter().map(|queue| queue.socket.as_fd());
        let all = sockets.chain([self.watcher.as_fd()]);
        truechimer_stamp::any(all, &mut self.ready, timeout)
            .map_err(system("waiting for packets", |_| None))?;
        let broken = self.queues.iter().zip(&self.ready).find(|(_, ready)| ready.errors);
        let Some((queue, _)) = broken else { return Ok(()) };
        // The interface has gone, as a rule, and the message that says so is on its way.
        let number = queue.number;
        if truechimer_stamp::readable(&self.watcher, Duration::from_millis(500)).unwrap_or(false) {
            return Ok(());
        }
        Err(TapError {
            doing: format!("capturing from queue {number} of {}", self.facts.interface),
            why: "the kernel has unbound its socket".to_owned(),
            mend: Some("has the number of queues been changed? Start again".to_owned()),
        })
    }
}

impl Tap for XdpTap {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn next(&mut self, timeout: Duration) -> Result<Next, TapError> {
        let begin = Instant::now();
        loop {
            let left = timeout.saturating_sub(begin.elapsed());
            match self.take() {
                Ok(Some(chunk)) => return Ok(Next::Chunk(chunk)),
                // Refused, all of them: there may be more.
                Err(()) if !left.is_zero() => continue,
                Err(()) => return Ok(Next::Nothing),
                Ok(None) => {}
            }
            if self.watcher.is_gone() {
                return Ok(Next::Gone);
            }
            if let Some(news) = self.news()? {
                return Ok(news);
            }
            if left.is_zero() {
                return self.quiet();
            }
            self.wait(left)?;
        }
    }

    fn losses(&mut self) -> Result<Losses, TapError> {
        let counts = self.counts()?;
        let kernel_lost = self.astray.note(&counts, self.queues.len() as u64, self.is_over());
        let interface = self.drops.as_ref().map_or(0, Drops::lost);
        Ok(Losses { interface, ..counts.losses(kernel_lost) })
    }

    /// From now on packets pass on to the host.
    fn stop(&mut self) -> Result<(), TapError> {
        for queue in &self.queues {
            self.sockets.delete(&queue.number.to_ne_bytes()).map_err(failed)?;
        }
        self.attached = None;
        self.stopped.get_or_insert_with(Instant::now);
        self.drops.as_mut().into_iter().for_each(Drops::end);
        Ok(())
    }
}

impl XdpTap {
    /// True if no packet can be between the program and the rings any more.
    fn is_over(&self) -> bool {
        self.stopped.is_some_and(|stopped| stopped.elapsed() > ON_THE_WAY)
    }

    /// Nothing has come: unless the driver leaves no room for stamps, that is all there is to say.
    fn quiet(&self) -> Result<Next, TapError> {
        if self.taken > 0 {
            return Ok(Next::Nothing);
        }
        let get = |what| self.counters.get(what).map_err(failed);
        if get(Counted::Unnoted)? > 0 && get(Counted::Seen)? == 0 {
            return Err(TapError {
                doing: format!("stamping packets of {} in XDP", self.facts.interface),
                why: "the driver leaves no room for notes beside a packet".to_owned(),
                mend: Some("stamp at dequeue, or use mode generic".to_owned()),
            });
        }
        Ok(Next::Nothing)
    }
}
