//! The clocks that are compared.

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use truechimer::Clock;
use truechimer_counter::Counter;

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
    /// Truechimer's client with fences.
    TruechimerFenced,
    /// ClockBound's client.
    ClockBound,
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
pub const ALL: [Peer; 10] = [
    Peer::Counter,
    Peer::CounterFenced,
    Peer::Truechimer,
    Peer::TruechimerFenced,
    Peer::ClockBound,
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
            Peer::TruechimerFenced => "Truechimer, fenced",
            Peer::ClockBound => "ClockBound, UTC ± bound",
            Peer::Quanta => "quanta now",
            Peer::QuantaRaw => "quanta raw",
            Peer::Minstant => "minstant now",
            Peer::SystemTime => "std SystemTime",
            Peer::StdInstant => "std Instant",
        }
    }
}

/// Reads of one thread in a turn.
pub struct Reads {
    reads: u64,
    from: Instant,
    to: Instant,
}

impl Reads {
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
}

impl Clocks<'_> {
    /// Opens all of them.
    pub fn open(stage: &Stage) -> Result<Clocks<'_>, Box<dyn Error>> {
        Ok(Clocks {
            stage,
            counter: stage.counter(),
            clock: Clock::open_at(stage.page())?,
            fenced: Clock::open_at(stage.page())?.fenced(),
            quanta: quanta::Clock::new(),
        })
    }

    /// A client of ClockBound's.
    pub fn clock_bound(&self) -> Result<clock_bound::Client, String> {
        let path = self.stage.segment();
        let path = path.to_str().ok_or("the name of the directory is no text")?;
        clock_bound::Client::new_with_path(path)
            .map_err(|why| format!("{:?}: {}", why.kind, why.detail))
    }

    /// Reads again and again for so long, once `begin` returns.
    pub fn drive(
        &self,
        peer: Peer,
        client: &mut clock_bound::Client,
        time: Duration,
        begin: impl FnOnce(),
    ) -> Reads {
        let (counter, fenced) = (self.counter, self.counter.fenced());
        begin();
        match peer {
            Peer::Counter => repeat(time, || counter.read()),
            Peer::CounterFenced => repeat(time, || fenced.read()),
            Peer::Truechimer => repeat(time, || self.clock.now()),
            Peer::TruechimerFenced => repeat(time, || self.fenced.now()),
            Peer::ClockBound => repeat(time, || client.now()),
            Peer::Quanta => repeat(time, || self.quanta.now()),
            Peer::QuantaRaw => repeat(time, || self.quanta.raw()),
            Peer::Minstant => repeat(time, minstant::Instant::now),
            Peer::SystemTime => repeat(time, SystemTime::now),
            Peer::StdInstant => repeat(time, Instant::now),
        }
    }
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
        let clocks = Clocks::open(&stage).unwrap();
        let ours = |at: fn(&truechimer::Reading) -> truechimer::Instant| {
            at(&clocks.clock.now().unwrap()).as_nanos()
        };
        let theirs = |time: clock_bound::nix::sys::time::TimeSpec| {
            i128::from(time.tv_sec()) * 1_000_000_000 + i128::from(time.tv_nsec())
        };
        let before = (ours(|r| r.earliest), ours(|r| r.latest));
        let window = clocks.clock_bound().unwrap().now().unwrap();
        let after = (ours(|r| r.earliest), ours(|r| r.latest));
        assert_eq!(window.clock_status, clock_bound::ClockStatus::Synchronized);
        // Doubles and whole nanoseconds on their side; a bound that grows from hand to hand there.
        let near = |from: i128, time: i128, to: i128| from - 5_000 <= time && time <= to + 5_000;
        assert!(near(before.0, theirs(window.earliest), after.0));
        assert!(near(before.1, theirs(window.latest), after.1));
    }

    #[test]
    fn every_peer_can_be_read() {
        let stage = Stage::new().unwrap();
        let clocks = Clocks::open(&stage).unwrap();
        for peer in ALL {
            let mut client = clocks.clock_bound().unwrap();
            let did = clocks.drive(peer, &mut client, Duration::from_millis(1), || ());
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
