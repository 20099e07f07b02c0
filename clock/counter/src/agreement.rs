//! Agreement of the processors on a counter.
//!
//! Two threads, each on a processor of its own, pass a word to and fro and read the counter in
//! between: what the other one reads was read, by the first one's counter, between two of its own
//! readings. Each exchange bounds the difference of the two from both sides; what all of them
//! leave is known to about half an exchange, 50 to 200 ns between two cores.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fmt, hint, io, thread};

use truechimer_time::{Count, CountSpan};

use crate::affinity;
use crate::counter::Counter;

/// Number of exchanges that are enough, and time after which fewer have to be: on a busy machine
/// each may have to wait for its processor.
const EXCHANGES: u32 = 2000;
const LONGEST: Duration = Duration::from_millis(100);
/// After how long the other is taken never to get its processor.
const PATIENCE: Duration = Duration::from_secs(2);
/// Number of looks for the other's answer before the processor is given up to whoever wants it.
const SPINS: u32 = 1000;

/// By how much a counter differs from processor to processor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Agreement {
    /// The processor that the others are compared with.
    pub reference: u32,
    /// Each of the others.
    pub cpus: Vec<CpuOffset>,
}

/// By how much one processor's counter is ahead of the reference's, in counts: from `lower` to
/// `upper`.
///
/// `lower` above `upper` says that no single offset explains what was read: the counters differ
/// in rate, or jumped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CpuOffset {
    /// Which processor.
    pub cpu: u32,
    /// The bounds, and from how many exchanges; or why there are none: errno of what failed
    /// (EINVAL: this process may not run there, or it is offline).
    pub offset: Result<OffsetBounds, i32>,
}

/// Result of the exchanges with one processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OffsetBounds {
    /// The offset is this or more.
    pub lower: CountSpan,
    /// The offset is this or less.
    pub upper: CountSpan,
    /// Number of exchanges that say so.
    pub exchanges: u32,
}

impl OffsetBounds {
    /// True if the counters may be equal.
    #[must_use]
    pub fn may_agree(&self) -> bool {
        self.lower.0 <= 0 && self.upper.0 >= 0
    }

    /// True if there is an offset that explains everything that was read.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        self.lower <= self.upper
    }

    /// By how much the counters differ at least, whichever way.
    #[must_use]
    pub fn least(&self) -> CountSpan {
        // Both where they contradict each other: then the larger.
        self.lower.max(-self.upper).max(CountSpan::ZERO)
    }

    /// By how much they differ at most, whichever way.
    #[must_use]
    pub fn most(&self) -> CountSpan {
        self.upper.max(-self.lower).max(self.least())
    }

    /// Bounds after one more exchange: it began at `before` and ended at `after` by the reference,
    /// and the other read `there` in between.
    fn exchanged(self, before: Count, there: Count, after: Count) -> OffsetBounds {
        OffsetBounds {
            lower: self.lower.max(there - after),
            upper: self.upper.min(there - before),
            exchanges: self.exchanges + 1,
        }
    }
}

impl Agreement {
    /// True if all processors that could be compared may have the same counter.
    #[must_use]
    pub fn may_agree(&self) -> bool {
        self.compared().all(OffsetBounds::may_agree)
    }

    /// By how much two of them differ at least (0 where they may agree) and may differ at most,
    /// each compared with the reference.
    #[must_use]
    pub fn range(&self) -> (CountSpan, CountSpan) {
        (
            self.compared().map(OffsetBounds::least).max().unwrap_or_default(),
            self.compared().map(OffsetBounds::most).max().unwrap_or_default(),
        )
    }

    fn compared(&self) -> impl Iterator<Item = &OffsetBounds> {
        self.cpus.iter().filter_map(|cpu| cpu.offset.as_ref().ok())
    }
}

/// Reasons why the processors cannot be compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AgreementError {
    /// The kernel does not say where this process may run: errno.
    Affinity(i32),
    /// No thread can be kept on the reference processor: its number, errno.
    Reference(u32, i32),
}

impl fmt::Display for AgreementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AgreementError::Affinity(errno) => write!(
                f,
                "where this process may run cannot be told (sched_getaffinity): {}",
                io::Error::from_raw_os_error(*errno)
            ),
            AgreementError::Reference(cpu, errno) => write!(
                f,
                "no thread can be kept on CPU {cpu} (sched_setaffinity): {}: is it online, and in \
                 this process's cpuset?",
                io::Error::from_raw_os_error(*errno)
            ),
        }
    }
}

impl std::error::Error for AgreementError {}

/// Compares the counter of every processor that this process may run on with that of the first.
///
/// Takes some milliseconds for each, a tenth of a second at most, and keeps two threads of its own
/// busy; no other thread's affinity is touched. One processor alone agrees with itself.
///
/// # Errors
/// Where no thread can be kept on a processor.
pub fn agreement(counter: Counter) -> Result<Agreement, AgreementError> {
    let allowed = affinity::allowed().map_err(|error| AgreementError::Affinity(errno(&error)))?;
    match allowed.split_first() {
        Some((first, others)) => agreement_of(counter, *first, others),
        None => Err(AgreementError::Affinity(libc::ESRCH)),
    }
}

/// Compares the counters of these processors with that of `reference`.
///
/// # Errors
/// Where no thread can be kept on the reference.
pub fn agreement_of(
    counter: Counter,
    reference: u32,
    cpus: &[u32],
) -> Result<Agreement, AgreementError> {
    let read = |_| counter.fenced().read();
    let compare = |cpu: &u32| Ok(CpuOffset { cpu: *cpu, offset: compare(&read, reference, *cpu)? });
    let cpus = cpus.iter().filter(|cpu| **cpu != reference).map(compare);
    Ok(Agreement { reference, cpus: cpus.collect::<Result<_, _>>()? })
}

/// Table over which two threads take turns.
#[derive(Default)]
struct Table {
    /// Odd: it is the other's turn.
    turn: AtomicU64,
    there: AtomicU64,
    over: AtomicBool,
}

impl Table {
    /// Waits until it is the turn of those with this parity; `None` when the other has left, or
    /// the time is up.
    fn wait(&self, odd: bool, until: Option<Instant>) -> Option<u64> {
        let mut spins = 0;
        loop {
            let turn = self.turn.load(Ordering::Acquire);
            if (turn % 2 == 1) == odd {
                return Some(turn);
            }
            if self.over.load(Ordering::Acquire) {
                return None;
            }
            spins += 1;
            if spins % SPINS != 0 {
                hint::spin_loop();
            } else if until.is_some_and(|until| Instant::now() > until) {
                return None;
            } else {
                thread::yield_now();
            }
        }
    }
}

/// Tells the other thread that this one has left, however it did.
struct Leaving<'a>(&'a Table);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
    }
}

/// The exchanges between two processors; `read` takes whether it is the other one that reads.
fn compare(
    read: &(impl Fn(bool) -> Count + Sync),
    reference: u32,
    other: u32,
) -> Result<Result<OffsetBounds, i32>, AgreementError> {
    let table = Table::default();
    let here = || {
        let _leaving = Leaving(&table);
        affinity::pin(reference).map_err(|error| errno(&error))?;
        Ok(ask(&table, read))
    };
    let there = || {
        let _leaving = Leaving(&table);
        affinity::pin(other).map_err(|error| errno(&error))?;
        answer(&table, read);
        Ok(())
    };
    let (here, there) = thread::scope(|scope| {
        let start = thread::Builder::new().name("agreement".into()).spawn_scoped(scope, there);
        let there = start.map_err(|error| errno(&error));
        if there.is_err() {
            table.over.store(true, Ordering::Release);
        }
        let start = thread::Builder::new().name("agreement".into()).spawn_scoped(scope, here);
        let here = start.map_err(|error| {
            table.over.store(true, Ordering::Release);
            errno(&error)
        });
        // A panic in either is a panic here, when the scope ends.
        let here = here.and_then(|thread| thread.join().unwrap_or(Err(libc::ECANCELED)));
        (here, there.and_then(|thread| thread.join().unwrap_or(Err(libc::ECANCELED))))
    });
    let bounds = here.map_err(|errno| AgreementError::Reference(reference, errno))?;
    // Without a single exchange the other thread has failed, or never had its processor.
    Ok(there.and(bounds.ok_or(libc::ETIMEDOUT)))
}

/// The reference's part.
fn ask(table: &Table, read: &impl Fn(bool) -> Count) -> Option<OffsetBounds> {
    let nothing =
        OffsetBounds { lower: CountSpan(i64::MIN), upper: CountSpan(i64::MAX), exchanges: 0 };
    let mut bounds = nothing;
    let begun = Instant::now();
    while bounds.exchanges < EXCHANGES && begun.elapsed() < LONGEST {
        let turn = table.turn.load(Ordering::Acquire);
        let before = read(false);
        table.turn.store(turn + 1, Ordering::SeqCst);
        let Some(_) = table.wait(false, Some(begun + PATIENCE)) else { break };
        let after = read(false);
        bounds = bounds.exchanged(before, Count(table.there.load(Ordering::Acquire)), after);
    }
    (bounds != nothing).then_some(bounds)
}

/// The other's part.
fn answer(table: &Table, read: &impl Fn(bool) -> Count) {
    while let Some(turn) = table.wait(true, None) {
        table.there.store(read(true).0, Ordering::Relaxed);
        table.turn.store(turn + 1, Ordering::SeqCst);
    }
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Choice;

    fn bounds(lower: i64, upper: i64) -> OffsetBounds {
        OffsetBounds { lower: CountSpan(lower), upper: CountSpan(upper), exchanges: 1 }
    }

    #[test]
    fn what_bounds_say() {
        for (lower, upper, agree, least, most) in [
            (-5, 9, true, 0, 9),
            (0, 0, true, 0, 0),
            (3, 9, false, 3, 9),
            (-9, -3, false, 3, 9),
            (7, -2, false, 7, 7),
            (i64::MIN, i64::MAX, true, 0, i64::MAX),
        ] {
            let bounds = bounds(lower, upper);
            assert_eq!(
                (bounds.may_agree(), bounds.least().0, bounds.most().0),
                (agree, least, most),
                "{lower} {upper}"
            );
            assert_eq!(bounds.is_consistent(), lower <= upper);
        }
    }

    #[test]
    fn exchanges_narrow_the_bounds() {
        // The other is 100 ahead, over the counter's wrap.
        let at = |count: i64| Count(0) + CountSpan(count);
        let after = [(-20, 90, 5), (0, 104, 30), (50, 170, 75)]
            .into_iter()
            .fold(bounds(i64::MIN, i64::MAX), |bounds, (before, there, after)| {
                bounds.exchanged(at(before), at(there), at(after))
            });
        assert_eq!((after.lower.0, after.upper.0), (95, 104));
        assert!(after.exchanged(at(0), at(120), at(1)).lower > after.upper, "it jumped");
    }

    #[test]
    fn an_offset_between_two_processors_is_found() {
        let allowed = affinity::allowed().unwrap();
        let (first, last) = (allowed[0], *allowed.last().unwrap());
        let raw = Counter::open(Choice::Raw).unwrap();
        for ahead in [0, 70_000_000_000, -70_000_000_000] {
            let read = |other| raw.read() + CountSpan(if other { ahead } else { 0 });
            let bounds = compare(&read, first, last).unwrap().unwrap();
            assert!(bounds.is_consistent() && bounds.exchanges > 0, "{bounds:?}");
            assert!((bounds.lower.0..=bounds.upper.0).contains(&ahead), "{ahead} {bounds:?}");
            assert_eq!(bounds.may_agree(), ahead == 0, "{bounds:?}");
        }
    }

    #[test]
    fn this_machines_processors_agree() {
        let counter = Counter::open(Choice::Auto).unwrap();
        let all = agreement(counter).unwrap();
        assert_eq!(all.cpus.len() + 1, affinity::allowed().unwrap().len());
        assert!(all.may_agree(), "{all:?}");
        assert!(all.range().0 == CountSpan::ZERO && all.range().1.0 >= 0);
    }

    #[test]
    fn processors_that_are_not_there_are_named() {
        let raw = Counter::open(Choice::Raw).unwrap();
        let first = affinity::allowed().unwrap()[0];
        let found = agreement_of(raw, first, &[8191, first]).unwrap();
        assert_eq!(found.cpus, [CpuOffset { cpu: 8191, offset: Err(libc::EINVAL) }]);
        assert!(found.may_agree() && found.range() == (CountSpan::ZERO, CountSpan::ZERO));
        let error = agreement_of(raw, 8191, &[first]).unwrap_err();
        assert_eq!(error, AgreementError::Reference(8191, libc::EINVAL));
        assert!(error.to_string().contains("CPU 8191"), "{error}");
    }
}
