//! The clocks that are compared, and how each of them is read.

use std::hint::{black_box, spin_loop};
use std::path::Path;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant as HostInstant, SystemTime};

use serde::Serialize;
use truechimer::{Clock, Count, Instant, Period, Span};
use truechimer_counter::Counter;
use truechimer_survey::affinity::{Cpus, Pinned};
use truechimer_timehands::{Glance, Packed, SharedWords, WORDS, Word};

use super::contest::Reads;
use truechimer_command::Failure;
use truechimer_command::clock;

/// Reads between two looks at whether the time is up.
const BATCH: u64 = 256;
/// Number of looks at a lock before the processor is left to others.
const SPINS: u32 = 100;
const NANOS: u64 = 1_000_000_000;
/// Number of times that the writer leaves the processor to others for the ticket lock before it
/// takes whoever holds it to be dead.
const PATIENCE: u32 = 100_000;

/// Words of the shared file: the dummy counter; the seqlock; the locked clock. Each begins a pair
/// of cache lines.
const DUMMY: usize = 0;
const SEQLOCK: usize = 16;
const LOCKED: usize = 64;
const SHARED: usize = 80;

/// The file with these words that the writer of the stage writes.
pub const TENDED: &str = "words";
/// And the one that writers leave behind in the middle of an update.
pub const HALFWAY: &str = "halfway";

/// Keeps the calling thread, the `place`th of its kind, to a processor of its own while there are
/// enough of them: left to the scheduler, threads that live for milliseconds share one. Where the
/// system does not let us it is left so.
pub fn on_its_own(place: u16) -> Option<Pinned> {
    let allowed: Vec<usize> = Cpus::allowed().ok()?.iter().collect();
    let cpu = allowed.get(usize::from(place) % allowed.len().max(1))?;
    Pinned::to(Some(*cpu)).ok()
}

/// A clock to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// The counter and nothing else.
    Counter,
    /// Truechimer's: the client's `now` over a ring of hands.
    Timehands,
    /// A hand like those, behind a sequence number: readers wait while the writer is at it.
    Seqlock,
    /// Nanoseconds in 64 bits, worked out by a division under a mutex: the old way.
    Mutex,
    /// Division under a lock that is spun for, first come, first served: what kernels take.
    TicketLock,
    /// The system's clock by way of the vDSO.
    Realtime,
    /// The system's monotonic clock by way of the vDSO.
    Monotonic,
}

/// In the order of the tables.
pub const ALL: [Subject; 7] = [
    Subject::Counter,
    Subject::Timehands,
    Subject::Seqlock,
    Subject::Realtime,
    Subject::Monotonic,
    Subject::TicketLock,
    Subject::Mutex,
];

impl Subject {
    /// For tables.
    pub fn name(self) -> &'static str {
        match self {
            Subject::Counter => "bare counter",
            Subject::Timehands => "timehands",
            Subject::Seqlock => "seqlock",
            Subject::Mutex => "mutex, 64-bit ns",
            Subject::TicketLock => "ticket lock, 64-bit ns",
            Subject::Realtime => "vDSO CLOCK_REALTIME",
            Subject::Monotonic => "vDSO CLOCK_MONOTONIC",
        }
    }

    /// True if it can be read over a counter that is only a word in memory.
    pub fn takes_dummy(self) -> bool {
        !matches!(self, Subject::Realtime | Subject::Monotonic)
    }

    /// True if processes can share it.
    pub fn is_shared(self) -> bool {
        self != Subject::Mutex
    }
}

/// Contents of the locked clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Old {
    base: u64,
    nanos: u64,
    hz: u64,
}

impl Old {
    /// A clock that says so many nanoseconds at `base`.
    pub fn new(base: Count, time: Instant, period: Period) -> Old {
        Old { base: base.0, nanos: time.as_nanos() as u64, hz: period.hz() }
    }

    /// The nanoseconds at this count. The product holds for seven seconds at 2.6 GHz.
    #[inline(always)]
    pub fn at(self, count: u64) -> u64 {
        let counts = count.wrapping_sub(self.base);
        self.nanos.wrapping_add(counts.wrapping_mul(NANOS) / self.hz.max(1))
    }
}

/// All of them over the same counter.
pub struct Clocks {
    clock: Clock,
    counter: Counter,
    shared: SharedWords,
    mutex: Mutex<Old>,
}

impl Clocks {
    /// Over the page and one of the files in this directory, which [`Clocks::prepare`] made.
    pub fn open(directory: &Path, file: &str) -> Result<Clocks, Failure> {
        let failed = |what, why: &dyn std::fmt::Display| Failure::new(what, why);
        let path = directory.join("clock");
        let clock = clock::open(&clock::Page { page: Some(path) })?;
        let kind = clock.view().map_err(clock::unreadable)?.hand.counter.kind;
        let counter = Counter::of_kind(kind).map_err(|why| failed("the counter", &why))?;
        let shared = SharedWords::open(directory.join(file))
            .map_err(|why| failed("the shared words", &why))?;
        if shared.len() < SHARED {
            return Err(Failure::Said("the shared words are too few".into()));
        }
        Ok(Clocks { clock, counter, shared, mutex: Mutex::default() })
    }

    /// Makes the files for [`Clocks::open`].
    pub fn prepare(directory: &Path) -> Result<(), Failure> {
        for file in [TENDED, HALFWAY] {
            SharedWords::create(directory.join(file), SHARED)
                .map_err(|why| Failure::new("cannot make shared words", why))?;
        }
        Ok(())
    }

    /// The counter that is read.
    pub fn counter(&self) -> Counter {
        self.counter
    }

    /// Length of a count, as the newest hand has it.
    pub fn period(&self) -> Period {
        self.clock.view().map_or(Period::NANOSECOND, |view| view.hand.period)
    }

    /// The mutex of the old way.
    pub fn mutex(&self) -> &Mutex<Old> {
        &self.mutex
    }

    /// Publishes to all but the page.
    pub fn publish(&self, words: &Packed, old: Old) {
        self.word(DUMMY).store(old.base, Relaxed);
        self.seqlock().publish(words, || ());
        self.locked(PATIENCE, |record| {
            for (word, value) in record.iter().zip([old.base, old.nanos, old.hz]) {
                word.store(value, Relaxed);
            }
        });
        *self.mutex.lock().unwrap_or_else(PoisonError::into_inner) = old;
    }

    /// Publishes to the seqlock and stands still half-way; or takes the lock and keeps it.
    pub fn publish_halfway(&self, subject: Subject, words: &Packed, stand: impl Fn()) {
        match subject {
            Subject::TicketLock => {
                self.locked(PATIENCE, |_| stand());
            }
            _ => self.seqlock().publish(words, stand),
        }
    }

    /// Reads again and again for so long.
    pub fn drive(&self, subject: Subject, dummy: bool, time: Duration) -> Reads {
        let from = self.counter.read();
        let reads = self.drive_for(subject, dummy, time);
        Reads { reads, from, to: self.counter.read() }
    }

    fn drive_for(&self, subject: Subject, dummy: bool, time: Duration) -> u64 {
        match (subject, dummy) {
            (Subject::Timehands, false) => repeat(time, || self.clock.now().is_ok()),
            (Subject::Timehands, true) => repeat(time, || self.hands(self.dummy())),
            (Subject::Realtime, _) => repeat(time, SystemTime::now),
            (Subject::Monotonic, _) => repeat(time, HostInstant::now),
            (subject, false) if self.counter.is_fenced() => {
                let counter = black_box(self.counter);
                self.drive_over(subject, time, || counter.read().0)
            }
            // As the client does it: the compiler drops all other ways to read a counter from here.
            (subject, false) => {
                let counter = self.counter;
                self.drive_over(subject, time, || counter.read().0)
            }
            (subject, true) => self.drive_over(subject, time, || self.dummy()),
        }
    }

    fn drive_over(&self, subject: Subject, time: Duration, count: impl Fn() -> u64) -> u64 {
        match subject {
            Subject::Seqlock => {
                let seqlock = self.seqlock();
                repeat(time, || seqlock.read(&count))
            }
            Subject::Mutex => repeat(time, || {
                let old = self.mutex.lock().unwrap_or_else(PoisonError::into_inner);
                old.at(count())
            }),
            Subject::TicketLock => {
                repeat(time, || self.locked(u32::MAX, |record| old(record).at(count())))
            }
            _ => repeat(time, count),
        }
    }

    /// True if the seqlock or the ticket lock can be read once within this time.
    pub fn try_once(&self, subject: Subject, time: Duration) -> bool {
        let end = HostInstant::now() + time;
        let seqlock = self.seqlock();
        while HostInstant::now() < end {
            let read = match subject {
                Subject::TicketLock => self.try_locked(|_| ()).is_some(),
                _ => seqlock.try_read(&|| self.counter.read().0).is_some(),
            };
            if read {
                return true;
            }
        }
        false
    }

    /// Reads the clock as the client does, over the dummy counter.
    #[inline(always)]
    fn hands(&self, count: u64) -> Option<(Instant, Span)> {
        let ring = self.clock.page().ring();
        let look = ring.look()?;
        let (hand, heartbeat) = (Glance(look.words(), look.beside()), ring.heartbeat());
        let count = Count(count);
        let told = hand.at(count);
        (hand.stands_at(count, heartbeat) && look.held()).then_some(told)
    }

    #[inline(always)]
    fn dummy(&self) -> u64 {
        self.word(DUMMY).load(Relaxed)
    }

    #[inline(always)]
    fn word(&self, at: usize) -> &AtomicU64 {
        static NONE: AtomicU64 = AtomicU64::new(0);
        // `open` saw to it that they are all there.
        self.shared.get(at).unwrap_or(&NONE)
    }

    #[inline(always)]
    fn seqlock(&self) -> Seqlock<'_> {
        static NONE: [Word; WORDS] = [const { Word::new(0) }; WORDS];
        let words = self.shared.get(SEQLOCK + 1..SEQLOCK + 1 + WORDS);
        let words = words.and_then(|words| words.try_into().ok()).unwrap_or(&NONE);
        Seqlock { sequence: self.word(SEQLOCK), words }
    }

    /// Does something with the record of the ticket lock, once all who came before are done; unless
    /// that takes more patience than there is.
    #[inline(always)]
    fn locked<T>(&self, patience: u32, section: impl FnOnce(&[AtomicU64]) -> T) -> Option<T> {
        let ticket = self.word(LOCKED).fetch_add(1, Relaxed);
        let serving = self.word(LOCKED + 1);
        let mut waits = 0_u32;
        while serving.load(Acquire) != ticket {
            waits = waits.saturating_add(1);
            if !waits.is_multiple_of(SPINS) {
                spin_loop();
            } else if waits / SPINS < patience {
                thread::yield_now();
            } else {
                return None;
            }
        }
        Some(self.served(ticket, section))
    }

    /// Does something with that record if nobody else is there.
    fn try_locked<T>(&self, section: impl FnOnce(&[AtomicU64]) -> T) -> Option<T> {
        let ticket = self.word(LOCKED + 1).load(Acquire);
        let next = ticket.wrapping_add(1);
        self.word(LOCKED).compare_exchange(ticket, next, Acquire, Relaxed).ok()?;
        Some(self.served(ticket, section))
    }

    #[inline(always)]
    fn served<T>(&self, ticket: u64, section: impl FnOnce(&[AtomicU64]) -> T) -> T {
        let result = section(self.shared.get(LOCKED + 2..LOCKED + 5).unwrap_or_default());
        self.word(LOCKED + 1).store(ticket.wrapping_add(1), Release);
        result
    }
}

/// The record of the ticket lock.
#[inline(always)]
fn old(record: &[AtomicU64]) -> Old {
    let word = |at: usize| record.get(at).map_or(0, |word| word.load(Relaxed));
    Old { base: word(0), nanos: word(1), hz: word(2) }
}

/// One hand behind a sequence number that is odd while the writer is at it.
struct Seqlock<'a> {
    sequence: &'a AtomicU64,
    words: &'a [Word; WORDS],
}

impl Seqlock<'_> {
    fn publish(&self, words: &Packed, halfway: impl FnOnce()) {
        let sequence = self.sequence.load(Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Relaxed);
        fence(Release);
        let mut halfway = Some(halfway);
        for (at, (word, value)) in self.words.iter().zip(words).enumerate() {
            if at == WORDS / 2
                && let Some(halfway) = halfway.take()
            {
                halfway();
            }
            word.store(*value, Relaxed);
        }
        self.sequence.store(sequence.wrapping_add(2), Release);
    }

    #[inline(always)]
    fn try_read(&self, count: &impl Fn() -> u64) -> Option<(Instant, Span)> {
        let sequence = self.sequence.load(Relaxed);
        if sequence & 1 != 0 {
            return None;
        }
        fence(Acquire);
        let told = Glance(self.words, None).at(Count(count()));
        fence(Acquire);
        (self.sequence.load(Relaxed) == sequence).then_some(told)
    }

    #[inline(always)]
    fn read(&self, count: &impl Fn() -> u64) -> (Instant, Span) {
        loop {
            if let Some(told) = self.try_read(count) {
                return told;
            }
            spin_loop();
        }
    }
}

/// Calls again and again for so long, each result left in memory. How often.
#[inline(always)]
fn repeat<T>(time: Duration, call: impl Fn() -> T) -> u64 {
    let (start, mut calls) = (HostInstant::now(), 0_u64);
    loop {
        for _ in 0..BATCH {
            black_box(&call());
        }
        calls += BATCH;
        if start.elapsed() >= time {
            return calls;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::bench::timehands::stage::Stage;

    #[test]
    fn every_clock_can_be_read_and_tells_the_same_time() {
        let stage = Stage::new().unwrap();
        let clocks = stage.clocks();
        for subject in ALL {
            for dummy in [false, true] {
                let did = clocks.drive(subject, dummy, Duration::from_millis(1));
                assert!(did.reads >= BATCH && (did.to - did.from).0 > 0, "{subject:?}");
            }
        }
        // All at the dummy's count.
        let count = clocks.dummy();
        let hands = clocks.hands(count).unwrap().0.as_nanos();
        let seqlock = clocks.seqlock().read(&|| count).0.as_nanos();
        let locked = clocks.locked(1000, |record| old(record).at(count)).unwrap();
        let mutex = clocks.mutex.lock().unwrap().at(count);
        assert_eq!(hands, seqlock);
        assert_eq!((i128::from(locked), locked), (hands, mutex));
    }

    #[test]
    fn a_writer_that_stands_still_holds_up_seqlock_and_lock_only() {
        let stage = Stage::new().unwrap();
        let clocks = stage.clocks();
        let short = Duration::from_millis(2);
        for subject in [Subject::Seqlock, Subject::TicketLock] {
            assert!(clocks.try_once(subject, Duration::from_secs(20)));
            let read = Cell::new(None);
            clocks.publish_halfway(subject, &[0; WORDS], || {
                read.set(Some((clocks.try_once(subject, short), clocks.clock.now().is_ok())));
            });
            assert_eq!(read.get(), Some((false, true)));
            assert!(clocks.try_once(subject, Duration::from_secs(20)));
        }
    }

    #[test]
    fn the_old_way_counts_nanoseconds() {
        let old = Old::new(Count(100), Instant::new(7, 0), Period::from_hz(2_000_000_000));
        assert_eq!(old.at(100), 7_000_000_000);
        assert_eq!(old.at(100 + 3_000_000_001), 8_500_000_000);
    }
}
