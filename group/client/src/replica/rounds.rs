//! Rounds that each of the program's threads has read: what a checkpoint says of them.
//!
//! The group itself remembers no more than [`MOST_THREADS`] threads; a program that has a thread
//! for each request has more than that in time. So threads that no clock is held of any more are
//! forgotten, the oldest first, once there are many. A checkpoint that says nothing of a thread
//! means that it has read all that was agreed on for it but for what its agent still keeps for it,
//! and that the agent knows by itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use truechimer_group::{Round, Thread};

use crate::message::MOST_THREADS;

struct Entry {
    read: Arc<AtomicU64>,
    /// When a clock of it was last made, or seen to be held, in clocks made.
    used: u64,
}

impl Entry {
    fn is_held(&self) -> bool {
        // Clocks are made under the lock that this is looked at under.
        Arc::strong_count(&self.read) > 1
    }
}

/// The threads' rounds.
pub(super) struct Rounds {
    all: BTreeMap<Thread, Entry>,
    made: u64,
    /// Number remembered at most, besides those whose clocks are held.
    most: usize,
    /// Number at which it is looked for some to be forgotten.
    full: usize,
}

impl Default for Rounds {
    fn default() -> Rounds {
        Rounds::remembering(MOST_THREADS)
    }
}

impl Rounds {
    fn remembering(most: usize) -> Rounds {
        Rounds { all: BTreeMap::new(), made: 0, most, full: 2 * most }
    }

    /// The count of a thread, for a clock.
    pub(super) fn of(&mut self, thread: Thread) -> Arc<AtomicU64> {
        if self.all.len() >= self.full && !self.all.contains_key(&thread) {
            self.forget();
        }
        self.made += 1;
        let used = self.made;
        let entry = self.all.entry(thread).or_insert_with(|| Entry { read: Arc::default(), used });
        entry.used = used;
        entry.read.clone()
    }

    /// Those that have read anything: no more than there may be, the newest of those that are not
    /// held.
    pub(super) fn position(&mut self) -> Vec<(Thread, Round)> {
        if self.all.len() > self.most {
            self.forget();
        }
        let read = |(thread, entry): (&Thread, &Entry)| {
            let rounds = entry.read.load(Relaxed);
            (rounds > 0).then_some((*thread, Round(rounds)))
        };
        self.all.iter().filter_map(read).collect()
    }

    fn forget(&mut self) {
        let mut idle: Vec<(u64, Thread)> = Vec::new();
        for (&thread, entry) in &mut self.all {
            if entry.is_held() {
                entry.used = self.made;
            } else {
                idle.push((entry.used, thread));
            }
        }
        idle.sort_unstable();
        let surplus = self.all.len().saturating_sub(self.most);
        for (_, thread) in idle.iter().take(surplus) {
            self.all.remove(thread);
        }
        // Those that are held cost their holder as much: it is not looked at each of them often.
        self.full = 2 * self.most.max(self.all.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rounds: &mut Rounds, thread: u64, round: u64) {
        rounds.of(Thread(thread)).store(round, Relaxed);
    }

    #[test]
    fn threads_that_have_ended_are_forgotten_the_oldest_first() {
        let mut rounds = Rounds::remembering(100);
        let held = rounds.of(Thread(16));
        held.store(7, Relaxed);
        for n in 0..100_000 {
            read(&mut rounds, 1000 + n, n + 1);
            // One that is made anew for each reading is not idle.
            read(&mut rounds, 17, n + 1);
            assert!(rounds.all.len() <= 200, "{}", rounds.all.len());
        }
        let position = rounds.position();
        assert_eq!(position.len(), 100);
        assert_eq!(position[..2], [(Thread(16), Round(7)), (Thread(17), Round(100_000))]);
        let newest = (99_902..100_000).map(|n| (Thread(1000 + n), Round(n + 1)));
        assert!(position[2..].iter().copied().eq(newest));
        // Once it is let go of it is still one of the newest.
        drop(held);
        for n in 0..90 {
            read(&mut rounds, 500_000 + n, 1);
        }
        assert!(rounds.position().contains(&(Thread(16), Round(7))));
    }

    #[test]
    fn what_is_held_is_never_forgotten() {
        let mut rounds = Rounds::remembering(100);
        let held: Vec<_> = (0..1000).map(|n| rounds.of(Thread(16 + n))).collect();
        for (n, count) in (1..).zip(&held) {
            count.store(n, Relaxed);
        }
        for n in 0..10_000 {
            read(&mut rounds, 5000 + n, 1);
            assert!(rounds.all.len() <= 2200);
        }
        // So many that a checkpoint cannot name them: as many as the program itself holds.
        assert_eq!(rounds.position().len(), 1000);
        for (n, count) in (0..).zip(&held) {
            assert!(Arc::ptr_eq(count, &rounds.of(Thread(16 + n))));
        }
        drop(held);
        assert_eq!(rounds.position().len(), 100);
    }

    #[test]
    fn what_was_never_read_is_not_in_a_checkpoint() {
        let mut rounds = Rounds::default();
        rounds.of(Thread(16));
        read(&mut rounds, 17, 3);
        assert_eq!(rounds.position(), [(Thread(17), Round(3))]);
    }
}
