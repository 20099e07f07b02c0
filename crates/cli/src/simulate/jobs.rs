//! Runs side by side.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
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
}
