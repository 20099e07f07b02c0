//! Queue of what is going to happen, in the order of true time.

use core::cmp::Ordering;
use std::collections::BinaryHeap;

/// Things to happen, the earliest first; of those at the same time, the one that was put in first.
#[derive(Debug)]
pub(super) struct Queue<T> {
    heap: BinaryHeap<Entry<T>>,
    next: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: f64,
    number: u64,
    what: T,
}

impl<T> Queue<T> {
    pub(super) fn new() -> Queue<T> {
        Queue { heap: BinaryHeap::new(), next: 0 }
    }

    pub(super) fn push(&mut self, at: f64, what: T) {
        self.heap.push(Entry { at, number: self.next, what });
        self.next += 1;
    }

    pub(super) fn pop(&mut self) -> Option<(f64, T)> {
        self.heap.pop().map(|entry| (entry.at, entry.what))
    }
}

/// The heap gives the greatest first: that is the earliest.
impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Entry<T>) -> Ordering {
        other.at.total_cmp(&self.at).then(other.number.cmp(&self.number))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Entry<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Entry<T>) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_ties_keep_their_order() {
        let mut queue = Queue::new();
        for (at, what) in [(2.0, 'c'), (1.0, 'a'), (2.0, 'd'), (1.5, 'b'), (2.0, 'e')] {
            queue.push(at, what);
        }
        let order: String = std::iter::from_fn(|| queue.pop()).map(|(_, what)| what).collect();
        assert_eq!(order, "abcde");
    }
}
