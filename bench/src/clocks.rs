//! The clocks that are compared.

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use truechimer::{Clock, UnixReading};
use truechimer_counter::Counter;
use truechimer_outcome::stats::median;

use crate::c::{ClockBoundC, Failed, Libraries, Reading, TruechimerC, Window};
use crate::stage::Stage;

/// Reads between two looks at whether the time is up.
const BATCH: u64 = 256;

/// A clock to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// The counter, unfenced, and nothing else.
    Counter,
    /// The counter between fences.
    CounterFenced,
    /// Truechimer's client.
    Truechimer,
    /// Truechimer's client, its three times in Unix time as C has them.
    TruechimerUnix,
    /// Truechimer's client with fences.
    TruechimerFenced,
    /// Truechimer's library for C.
    TruechimerC,
    /// ClockBound's client.
    ClockBound,
    /// ClockBound's library for C.
    ClockBoundC,
    /// quanta's scaled time.
    Quanta,
    /// quanta's counts.
    QuantaRaw,
    /// minstant's time.
    Minstant,
    /// `CLOCK_REALTIME`.
    SystemTime,
    /// `CLOCK_MONOTONIC`.
    StdInstant,
}

/// In the order of the table.
pub const ALL: [Peer; 13] = [
    Peer::Counter,
    Peer::CounterFenced,
    Peer::Truechimer,
    Peer::TruechimerUnix,
    Peer::TruechimerFenced,
    Peer::TruechimerC,
    Peer::ClockBound,
    Peer::ClockBoundC,
    Peer::Quanta,
    Peer::QuantaRaw,
    Peer::Minstant,
    Peer::SystemTime,
    Peer::StdInstant,
];

impl Peer {
    /// For tables.
    pub fn name(self) -> &'static str {
        match self {
            Peer::Counter => "bare counter",
            Peer::CounterFenced => "bare counter, fenced",
            Peer::Truechimer => "Truechimer, UTC ± bound",
            Peer::TruechimerUnix => "Truechimer, Unix time",
            Peer::TruechimerFenced => "Truechimer, fenced",
            Peer::TruechimerC => "Truechimer, from C",
            Peer::ClockBound => "ClockBound, UTC ± bound",
            Peer::ClockBoundC => "ClockBound, from C",
            Peer::Quanta => "quanta now",
            Peer::QuantaRaw => "quanta raw",
            Peer::Minstant => "minstant now",
            Peer::SystemTime => "std SystemTime",
            Peer::StdInstant => "std Instant",
        }
    }
}

/// Reads in a stretch of a pair: short beside what else runs on a machine, long beside the two looks at the time around it.
const STRETCH: u32 = 256;

/// Truechimer from Rust and from C by one thread, in stretches one after the other.
pub struct Pairs {
    /// Cost of a read from Rust, ns: the median of the stretches.
    pub rust_ns: f64,
    /// Time that a read takes longer from C, ns: the median over pairs of neighbours.
    pub beyond_ns: f64,
}

/// Reads of one thread in a turn.
pub struct Reads {
    reads: u64,
    from: Instant,
    to: Instant,
}

impl Reads {
    fn none() -> Reads {
        let now = Instant::now();
        Reads { reads: 0, from: now, to: now }
    }

    /// Reads a second of all of them together, from when the first began to when the last was done.
    pub fn rate(all: &[Reads]) -> f64 {
        let ends = all.iter().map(|one| one.from).min().zip(all.iter().map(|one| one.to).max());
        let took = ends.map_or(Duration::MAX, |(from, to)| to - from);
        all.iter().map(|one| one.reads).sum::<u64>() as f64 / took.as_secs_f64()
    }
}

/// State that threads share.
pub struct Clocks<'a> {
    stage: &'a Stage,
    counter: Counter,
    clock: Clock,
    fenced: Clock,
    quanta: quanta::Clock,
    /// Libraries for C, and Truechimer's clock by its own, if they are here.
    c: Option<(&'a Libraries, TruechimerC<'a>)>,
}

/// Clients that each thread has for itself.
pub struct Own<'a> {
    client: clock_bound::Client,
    c: Option<ClockBoundC<'a>>,
}

impl<'a> Clocks<'a> {
    /// Opens all of them.
    pub fn open(
        stage: &'a Stage,
        libraries: Option<&'a Libraries>,
    ) -> Result<Clocks<'a>, Box<dyn Error>> {
        let c = libraries.map(|all| all.truechimer(&stage.page()).map(|clock| (all, clock)));
        Ok(Clocks {
            c: c.transpose()?,
            stage,
            counter: stage.counter(),
            clock: Clock::open_at(stage.page())?,
            fenced: Clock::open_at(stage.page())?.fenced(),
            quanta: quanta::Clock::new(),
        })
    }

    /// True if the libraries for C are here.
    pub fn have_c(&self) -> bool {
        self.c.is_some()
    }

    /// Peers that are here.
    pub fn peers(&self) -> impl Iterator<Item = Peer> {
        let from_c = [Peer::TruechimerC, Peer::ClockBoundC];
        ALL.into_iter().filter(move |peer| self.c.is_some() || !from_c.contains(peer))
    }

    /// Clients for one thread.
    pub fn own(&self) -> Result<Own<'a>, String> {
        let c = self.c.as_ref().map(|(all, _)| all.clock_bound(&self.stage.segment()));
        let c = c.transpose().map_err(|why| why.to_string())?;
        Ok(Own { client: self.clock_bound()?, c })
    }

    /// A client of ClockBound's.
    fn clock_bound(&self) -> Result<clock_bound::Client, String> {
        let path = self.stage.segment();
        let path = path.to_str().ok_or("the name of the directory is no text")?;
        clock_bound::Client::new_with_path(path)
            .map_err(|why| format!("{:?}: {}", why.kind, why.detail))
    }

    /// Reads from Rust and from C by turns for so long, once `begin` returns; `None` where there is no library for C.
    pub fn pairs(&self, time: Duration, begin: impl FnOnce()) -> Option<Pairs> {
        let (_, c) = self.c.as_ref()?;
        let mut reading: Reading = [0; 9];
        let (mut rust_ns, mut beyond_ns) = (Vec::new(), Vec::new());
        let ns = |took: Duration| took.as_secs_f64() * 1e9 / f64::from(STRETCH);
        begin();
        let start = Instant::now();
        loop {
            // Each is first and last as often as the other: what drifts within a pair is the same for both.
            let first = ns(stretch_from_rust(&self.clock));
            let second = ns(stretch_from_c(c, &mut reading));
            let third = ns(stretch_from_c(c, &mut reading));
            let fourth = ns(stretch_from_rust(&self.clock));
            rust_ns.extend([first, fourth]);
            beyond_ns.extend([second - first, third - fourth]);
            if start.elapsed() >= time {
                return Some(Pairs { rust_ns: median(rust_ns), beyond_ns: median(beyond_ns) });
            }
        }
    }

    /// Reads again and again for so long, once `begin` returns.
    pub fn drive(
        &self,
        peer: Peer,
        own: &mut Own<'_>,
        time: Duration,
        begin: impl FnOnce(),
    ) -> Reads {
        let (counter, fenced) = (self.counter, self.counter.fenced());
        begin();
        match peer {
            Peer::Counter => repeat(time, || counter.read()),
            Peer::CounterFenced => repeat(time, || fenced.read()),
            Peer::Truechimer => repeat(time, || self.clock.now()),
            Peer::TruechimerUnix => repeat(time, || in_unix_time(&self.clock)),
            Peer::TruechimerFenced => repeat(time, || self.fenced.now()),
            Peer::ClockBound => repeat(time, || own.client.now()),
            // A function of C's leaves its result in memory by itself.
            Peer::TruechimerC => match &self.c {
                Some((_, clock)) => {
                    let mut reading: Reading = [0; 9];
                    repeat(time, || clock.now(&mut reading))
                }
                None => Reads::none(),
            },
            Peer::ClockBoundC => match &mut own.c {
                Some(client) => {
                    let (mut window, mut failed): (Window, Failed) = ([0; 5], [0; 34]);
                    repeat(time, || client.now(&mut window, &mut failed))
                }
                None => Reads::none(),
            },
            Peer::Quanta => repeat(time, || self.quanta.now()),
            Peer::QuantaRaw => repeat(time, || self.quanta.raw()),
            Peer::Minstant => repeat(time, minstant::Instant::now),
            Peer::SystemTime => repeat(time, SystemTime::now),
            Peer::StdInstant => repeat(time, Instant::now),
        }
    }
}

/// The three times as C has them, from Rust. A new hand, which nobody has examined yet, is examined out of line, as the
/// function of C examines it: else nothing would be read until somebody does.
#[inline(always)]
fn in_unix_time(clock: &Clock) -> Option<UnixReading> {
    let quickly = clock.now_if_usual().and_then(|now| now.unix_if_usual());
    quickly.or_else(|| less_quickly(clock))
}

#[cold]
#[inline(never)]
fn less_quickly(clock: &Clock) -> Option<UnixReading> {
    clock.now().ok().map(|now| now.unix())
}

/// Reads from Rust: a function of its own, as [`stretch_from_c`] is, so that there is one such loop and both are called alike.
#[inline(never)]
fn stretch_from_rust(clock: &Clock) -> Duration {
    let from = Instant::now();
    for _ in 0..STRETCH {
        black_box(&in_unix_time(clock));
    }
    from.elapsed()
}

/// Reads from C.
#[inline(never)]
fn stretch_from_c(clock: &TruechimerC<'_>, reading: &mut Reading) -> Duration {
    let from = Instant::now();
    for _ in 0..STRETCH {
        black_box(&clock.now(reading));
    }
    from.elapsed()
}

/// Calls again and again for so long, each result left in memory.
#[inline(always)]
fn repeat<T>(time: Duration, mut call: impl FnMut() -> T) -> Reads {
    let (from, mut reads) = (Instant::now(), 0_u64);
    loop {
        for _ in 0..BATCH {
            black_box(&call());
        }
        reads += BATCH;
        let to = Instant::now();
        if to - from >= time {
            return Reads { reads, from, to };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_pages_tell_the_same_time_and_bound() {
        let stage = Stage::new().unwrap();
        let clocks = Clocks::open(&stage, None).unwrap();
        let ours = || {
            let now = clocks.clock.now().unwrap().unix();
            (now.earliest.as_nanos(), now.latest.as_nanos())
        };
        let theirs = |time: clock_bound::nix::sys::time::TimeSpec| {
            i128::from(time.tv_sec()) * 1_000_000_000 + i128::from(time.tv_nsec())
        };
        let before = ours();
        let window = clocks.clock_bound().unwrap().now().unwrap();
        let after = ours();
        assert_eq!(window.clock_status, clock_bound::ClockStatus::Synchronized);
        // Doubles and whole nanoseconds on their side; a bound that grows from hand to hand there.
        let near = |from: i128, time: i128, to: i128| from - 5_000 <= time && time <= to + 5_000;
        assert!(near(before.0, theirs(window.earliest), after.0));
        assert!(near(before.1, theirs(window.latest), after.1));
    }

    #[test]
    fn the_page_has_an_ordinary_daemons_leap_seconds_and_is_converted_the_usual_way() {
        let stage = Stage::new().unwrap();
        let clocks = Clocks::open(&stage, None).unwrap();
        let now = clocks.clock.now().unwrap();
        assert!(now.unix_if_usual().is_some());
        let leaps = now.leaps();
        assert!(leaps.known && leaps.last.is_some() && leaps.next.is_none(), "{leaps:?}");
    }

    #[test]
    fn a_new_hand_is_examined_and_then_read_the_usual_way() {
        let stage = Stage::new().unwrap();
        let clocks = Clocks::open(&stage, None).unwrap();
        assert!(clocks.clock.now_if_usual().is_none(), "nobody has examined it");
        assert!(in_unix_time(&clocks.clock).is_some());
        assert!(clocks.clock.now_if_usual().is_some());
    }

    #[test]
    fn every_peer_can_be_read() {
        let stage = Stage::new().unwrap();
        let clocks = Clocks::open(&stage, None).unwrap();
        for peer in clocks.peers() {
            let mut own = clocks.own().unwrap();
            let did = clocks.drive(peer, &mut own, Duration::from_millis(1), || ());
            assert!(did.reads >= BATCH && Reads::rate(&[did]) > 0.0, "{peer:?}");
        }
    }

    #[test]
    fn threads_that_did_not_run_together_are_no_faster_for_it() {
        let start = Instant::now();
        let reads = |from, to| Reads {
            reads: 100,
            from: start + Duration::from_secs(from),
            to: start + Duration::from_secs(to),
        };
        assert_eq!(Reads::rate(&[reads(0, 1), reads(3, 4)]), 50.0);
        assert_eq!(Reads::rate(&[]), 0.0);
    }
}
