//! Cost of a lock to those who want it: how long they wait for it and how long they have it.

use std::hint::black_box;
use std::sync::{Barrier, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant as HostInstant};

use serde::Serialize;
use truechimer::Period;
use truechimer_time::CountSpan;

use super::clocks::{Clocks, on_its_own};
use super::figures::tenths;

/// The profile of the mutex in the old way, for so many threads. Times are in ns and contain two
/// or one reading of the counter each, as `reading_ns` has it.
#[derive(Clone, Debug, Serialize)]
pub struct Profile {
    /// Number of threads.
    pub threads: u16,
    /// Number of times that the lock was taken.
    pub acquisitions: u64,
    /// Number of times that it was somebody else's just then.
    pub contended: u64,
    /// Time that it took to get it: mean, ns.
    pub acquire_mean_ns: f64,
    /// At most.
    pub acquire_max_ns: f64,
    /// Time for which it was held, a reading of the counter and a division: mean, ns.
    pub section_mean_ns: f64,
    /// At most.
    pub section_max_ns: f64,
    /// Cost of reading the counter, and thus what is too much in the above.
    pub reading_ns: f64,
}

/// In counts.
#[derive(Clone, Copy, Default)]
struct Sum {
    acquisitions: u64,
    contended: u64,
    acquire: i64,
    acquire_max: i64,
    section: i64,
    section_max: i64,
}

impl Sum {
    fn with(self, other: Sum) -> Sum {
        Sum {
            acquisitions: self.acquisitions + other.acquisitions,
            contended: self.contended + other.contended,
            acquire: self.acquire + other.acquire,
            acquire_max: self.acquire_max.max(other.acquire_max),
            section: self.section + other.section,
            section_max: self.section_max.max(other.section_max),
        }
    }
}

/// One profile for each number of threads.
pub fn profiles(clocks: &Clocks, threads: &[u16], time: Duration) -> Vec<Profile> {
    threads.iter().map(|threads| profile(clocks, *threads, time)).collect()
}

fn profile(clocks: &Clocks, threads: u16, time: Duration) -> Profile {
    let start = &Barrier::new(threads.into());
    let sum = thread::scope(|scope| {
        let work = |place| {
            move || {
                let _pinned = on_its_own(place);
                start.wait();
                lock_again_and_again(clocks, time)
            }
        };
        let workers: Vec<_> = (0..threads).map(|place| scope.spawn(work(place))).collect();
        let sums = workers.into_iter().filter_map(|worker| worker.join().ok());
        sums.fold(Sum::default(), Sum::with)
    });
    let period = clocks.period();
    let each = |counts: i64| tenths(nanos(period, counts) / sum.acquisitions.max(1) as f64);
    let once = |counts: i64| tenths(nanos(period, counts));
    Profile {
        threads,
        acquisitions: sum.acquisitions,
        contended: sum.contended,
        acquire_mean_ns: each(sum.acquire),
        acquire_max_ns: once(sum.acquire_max),
        section_mean_ns: each(sum.section),
        section_max_ns: once(sum.section_max),
        reading_ns: tenths(reading(clocks)),
    }
}

fn lock_again_and_again(clocks: &Clocks, time: Duration) -> Sum {
    let (counter, mutex) = (clocks.counter(), clocks.mutex());
    let (begin, mut sum) = (HostInstant::now(), Sum::default());
    while begin.elapsed() < time {
        for _ in 0..64 {
            let wanted = counter.read();
            let mut contended = 0;
            let old = match mutex.try_lock() {
                Ok(old) => old,
                Err(TryLockError::Poisoned(old)) => old.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    contended = 1;
                    mutex.lock().unwrap_or_else(PoisonError::into_inner)
                }
            };
            let got = counter.read();
            black_box(old.at(counter.read().0));
            let done = counter.read();
            drop(old);
            // Of two processors' counters one may be behind by a little.
            let (acquire, section) = ((got - wanted).0.max(0), (done - got).0.max(0));
            sum = sum.with(Sum {
                acquisitions: 1,
                contended,
                acquire,
                acquire_max: acquire,
                section,
                section_max: section,
            });
        }
    }
    sum
}

/// Cost of one reading of the counter, ns.
fn reading(clocks: &Clocks) -> f64 {
    let (counter, reads) = (clocks.counter(), 100_000);
    let begin = HostInstant::now();
    for _ in 0..reads {
        black_box(counter.read());
    }
    begin.elapsed().as_nanos() as f64 / f64::from(reads)
}

fn nanos(period: Period, counts: i64) -> f64 {
    period.span(CountSpan(counts)).as_picos() as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::timehands::stage::Stage;

    #[test]
    fn a_lock_of_ones_own_is_never_contended() {
        let stage = Stage::new().unwrap();
        let [alone, two] = profiles(stage.clocks(), &[1, 2], Duration::from_millis(5))
            .try_into()
            .unwrap_or_else(|_| panic!("two profiles"));
        // But for the writer, once a second.
        assert!(alone.acquisitions >= 64 && alone.contended <= 1);
        assert!(alone.acquire_mean_ns > 0.0 && alone.acquire_mean_ns <= alone.acquire_max_ns);
        assert!(two.section_mean_ns > 0.0 && two.section_mean_ns <= two.section_max_ns);
    }
}
