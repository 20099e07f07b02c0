//! Runs side by side.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Instant;

/// Results that may wait for an earlier one, for each worker: they can be large.
const WAITING: usize = 4;
/// Largest number of reports of how far a study has come.
const REPORTS: usize = 50;
/// Number of runs below which a study is soon done.
const FEW_RUNS: usize = 10;

/// Workers: as many as there are cores, if the user has not said.
pub fn width(wanted: Option<u32>) -> usize {
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    wanted.map_or_else(cores, |jobs| jobs as usize).max(1)
}

/// Does `work` on every item, `width` of them at a time, and hands each result to `take` in the
/// order of the items, as soon as all before it are done. After an error of `take` no new work is
/// begun.
pub fn each<T: Sync, R: Send, E>(
    items: &[T],
    width: usize,
    work: impl Fn(&T) -> R + Sync,
    mut take: impl FnMut(&T, R) -> Result<(), E>,
) -> Result<(), E> {
    let ahead = width.max(1) * WAITING;
    let (give, given) = mpsc::channel();
    let given = Mutex::new(given);
    let next = || given.lock().unwrap_or_else(PoisonError::into_inner).recv().ok();
    let (sender, results) = mpsc::channel();
    let worker = |sender: mpsc::Sender<_>| {
        while let Some((index, item)) = next() {
            // A worker that is gone without a word would be waited for.
            let result = catch_unwind(AssertUnwindSafe(|| work(item)));
            if sender.send((index, result)).is_err() {
                break;
            }
        }
    };
    let worker = &worker;
    thread::scope(|scope| {
        for _ in 0..width.max(1) {
            let sender = sender.clone();
            scope.spawn(move || worker(sender));
        }
        // Dropped at the end, whatever that is: then the workers end as well.
        let (give, results) = (give, results);
        let mut coming = items.iter().enumerate();
        let mut begin = |count: usize| {
            for item in coming.by_ref().take(count) {
                // It is taken for as long as any result is waited for.
                let _ = give.send(item);
            }
        };
        begin(ahead);
        let mut done = BTreeMap::new();
        for (expected, item) in items.iter().enumerate() {
            let result = loop {
                if let Some(result) = done.remove(&expected) {
                    break result;
                }
                let Ok((index, result)) = results.recv() else { return Ok(()) };
                done.insert(index, result);
            };
            take(item, result.unwrap_or_else(|panic| resume_unwind(panic)))?;
            begin(1);
        }
        Ok(())
    })
}

/// Progress of a study, in the terminal: minutes pass.
#[derive(Debug)]
pub struct Progress {
    what: &'static str,
    all: usize,
    done: usize,
    begun: Instant,
}

impl Progress {
    /// Of so many runs, which are called `what`.
    pub fn of(what: &'static str, all: usize) -> Progress {
        Progress { what, all, done: 0, begun: Instant::now() }
    }

    /// One more is done.
    pub fn one_more(&mut self) {
        self.done += 1;
        let Progress { what, all, done, begun } = *self;
        if done.is_multiple_of(all.div_ceil(REPORTS).max(FEW_RUNS)) {
            let left = begun.elapsed().as_secs_f64() / done as f64 * (all - done) as f64;
            // A terminal that cannot be written to is nobody's loss.
            let _ = writeln!(io::stderr(), "{done} of {all} {what}, {left:.0} s left");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn results_come_in_order_and_an_error_ends_it() {
        let items: Vec<u32> = (0..23).collect();
        for width in [1, 4, 64] {
            let mut seen = Vec::new();
            let all = each(
                &items,
                width,
                |n| n * n,
                |n, square| {
                    seen.push((*n, square));
                    Ok::<(), ()>(())
                },
            );
            assert_eq!(all, Ok(()));
            assert!(seen.iter().enumerate().all(|(i, s)| *s == (i as u32, (i * i) as u32)));
            assert_eq!(seen.len(), 23);
        }
        let (mut taken, begun) = (0, AtomicUsize::new(0));
        let stopped = each(
            &items,
            1,
            |n| {
                begun.fetch_add(1, Ordering::Relaxed);
                *n
            },
            |_, n| {
                taken += 1;
                if n == 5 { Err(n) } else { Ok(()) }
            },
        );
        assert_eq!((stopped, taken), (Err(5), 6));
        assert!(begun.into_inner() <= 6 + WAITING, "no new work");
    }

    #[test]
    fn a_panic_of_the_work_comes_through() {
        let panics = || each(&[1, 2, 3], 2, |n| assert!(*n != 2), |_, ()| Ok::<(), ()>(()));
        assert!(catch_unwind(panics).is_err());
    }
}
