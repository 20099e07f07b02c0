//! Runs side by side.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

/// As many as there are cores, if the user has not said.
pub fn width(wanted: Option<u32>) -> usize {
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    wanted.map_or_else(cores, |jobs| jobs as usize).max(1)
}

/// Does `work` on every item, `width` of them at a time, and hands each result to `take` in the
/// order of the items, as soon as all before it are done.
pub fn each<T: Sync, R: Send, E>(
    items: &[T],
    width: usize,
    work: impl Fn(&T) -> R + Sync,
    mut take: impl FnMut(&T, R) -> Result<(), E>,
) -> Result<(), E> {
    // A row at a time keeps at most as many results as are being worked on: they can be large.
    for row in items.chunks(width.max(1)) {
        let next = AtomicUsize::new(0);
        let done: Vec<Mutex<Option<R>>> = row.iter().map(|_| Mutex::new(None)).collect();
        thread::scope(|scope| {
            for _ in row {
                scope.spawn(|| {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if let (Some(item), Some(slot)) = (row.get(index), done.get(index)) {
                        let result = work(item);
                        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
                    }
                });
            }
        });
        for (item, slot) in row.iter().zip(done) {
            if let Some(result) = slot.into_inner().unwrap_or_else(PoisonError::into_inner) {
                take(item, result)?;
            }
        }
    }
    Ok(())
}

/// Does `work` on every item, `width` of them at a time, and hands each result to `take` as soon as
/// it is there, in any order. After an error of `take` no new work is begun.
pub fn as_done<T: Sync, R: Send, E>(
    items: &[T],
    width: usize,
    work: impl Fn(&T) -> R + Sync,
    mut take: impl FnMut(&T, R) -> Result<(), E>,
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::channel();
    let worker = |sender: mpsc::Sender<_>| {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            if sender.send((item, work(item))).is_err() {
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
        drop(sender);
        results.into_iter().try_for_each(|(item, result)| take(item, result))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut taken = 0;
        let stopped = each(
            &items,
            4,
            |n| *n,
            |_, n| {
                taken += 1;
                if n == 5 { Err(n) } else { Ok(()) }
            },
        );
        assert_eq!((stopped, taken), (Err(5), 6));
    }

    #[test]
    fn results_come_as_they_are_done_and_an_error_ends_it() {
        let items: Vec<u32> = (0..23).collect();
        for width in [1, 4, 64] {
            let mut seen = Vec::new();
            let take = |n: &u32, square| {
                seen.push((*n, square));
                Ok::<(), ()>(())
            };
            assert_eq!(as_done(&items, width, |n| n * n, take), Ok(()));
            seen.sort_unstable();
            assert!(seen.iter().zip(&items).all(|(s, n)| *s == (*n, n * n)) && seen.len() == 23);
        }
        let stopped = as_done(&items, 4, |n| *n, |_, n| if n == 5 { Err(n) } else { Ok(()) });
        assert_eq!(stopped, Err(5));
    }
}
