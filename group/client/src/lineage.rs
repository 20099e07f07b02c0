//! Numbers for a program's threads that are the same at every replica: by who created whom as the
//! how-manieth, not by when.
//!
//! The first thread has [`FIRST`]. Each other has a 64-bit hash of its parent's number, of what
//! kind of child it is and of how many of that kind the parent had before ([`child`]). So the
//! numbers agree wherever each thread creates its own children in the same order, however the
//! threads of different parents are interleaved.
//!
//! Two of k threads have the same number with odds of about k² ÷ 2⁶⁵: 3 in 10¹⁴ for 1000 threads,
//! 3 in 10¹⁰ for 100 000 (each thread that ever was counts). It would show as two threads that
//! read the clock in each other's rounds; where they do so at once, as
//! [`Busy`](truechimer_group::Rejection::Busy).

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use truechimer_group::Thread;

/// The first thread of a program.
pub const FIRST: Thread = Thread::FIRST;

/// The thread that handles the group's messages, unless a program says otherwise.
pub const MESSAGES: Thread = child(FIRST, 0, Kind::Messages);

/// Kinds of children.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A thread of the same process.
    Thread = 1,
    /// The first thread of a child process.
    Process = 2,
    /// Signal handler that has interrupted a read of this thread: the 0-th; a handler that
    /// interrupts that one's read the 1-st, and so on. Only hashed: which reads are interrupted is
    /// no two replicas' in common ([`Thread::of_member`]).
    Signal = 3,
    /// The thread that handles the group's messages (of the first thread, the 0-th).
    Messages = 4,
}

/// The number of `parent`'s `nth` child of that kind (from 0). Pure: it allocates nothing and may
/// be called from anywhere.
#[must_use]
pub const fn child(parent: Thread, nth: u64, kind: Kind) -> Thread {
    // A step of each is a bijection of 64 bits, so that one parent's children of one kind differ.
    let of_parent = mix(parent.0.wrapping_add(0x9e37_79b9_7f4a_7c15));
    let of_kind = mix(of_parent ^ (kind as u64));
    let number = mix(of_kind.wrapping_add(nth));
    // The numbers up to the first thread's are given already, the highest to what is no program's.
    match number > FIRST.0 {
        true if Thread(number).is_programs() => Thread(number),
        true => Thread(number & !(1 << 63)),
        false => Thread(number + FIRST.0 + 1),
    }
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014; constants by Stafford's "Mix13"): every bit of the input changes half of the
/// output's.
const fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A thread that numbers its children.
#[derive(Debug)]
pub struct Line {
    thread: Thread,
    threads: AtomicU64,
    processes: AtomicU64,
}

impl Line {
    /// A thread without children yet.
    #[must_use]
    pub const fn new(thread: Thread) -> Line {
        Line::with(thread, 0, 0)
    }

    /// A thread that has had so many child threads and processes: one that goes on after `exec`.
    #[must_use]
    pub const fn with(thread: Thread, threads: u64, processes: u64) -> Line {
        Line { thread, threads: AtomicU64::new(threads), processes: AtomicU64::new(processes) }
    }

    /// Number of the thread itself.
    #[must_use]
    pub fn thread(&self) -> Thread {
        self.thread
    }

    /// Numbers of child threads and of child processes that it has had.
    #[must_use]
    pub fn children(&self) -> (u64, u64) {
        (self.threads.load(Relaxed), self.processes.load(Relaxed))
    }

    /// The number of its next child thread.
    #[must_use]
    pub fn next_thread(&self) -> Thread {
        child(self.thread, self.threads.fetch_add(1, Relaxed), Kind::Thread)
    }

    /// The number of the first thread of its next child process. To be taken before the fork, so
    /// that parent and child have the same count.
    #[must_use]
    pub fn next_process(&self) -> Thread {
        child(self.thread, self.processes.fetch_add(1, Relaxed), Kind::Process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn numbers_are_what_they_have_always_been() {
        // Replicas of different releases must agree: these are for ever.
        let of = |nth, kind| child(FIRST, nth, kind).0;
        assert_eq!(of(0, Kind::Thread), GOLDEN[0]);
        assert_eq!(of(1, Kind::Thread), GOLDEN[1]);
        assert_eq!(of(0, Kind::Process), GOLDEN[2]);
        assert_eq!(of(0, Kind::Signal), GOLDEN[3]);
        assert_eq!(MESSAGES.0, GOLDEN[4]);
        assert_eq!(child(Thread(GOLDEN[0]), 7, Kind::Thread).0, GOLDEN[5]);
    }

    /// Worked out by another program in another language.
    const GOLDEN: [u64; 6] = [
        0x11b1_7331_3eed_5ef1,
        0x7d8b_11c5_9bcb_50b6,
        0x8bca_b9c6_2d6d_19a1,
        0xa054_acf8_33b8_a44c,
        0x3b35_d9d3_7ddc_7f44,
        0x27d2_f050_e577_4980,
    ];

    #[test]
    fn relatives_have_different_numbers() {
        let mut seen = HashSet::from([FIRST]);
        let mut generation = vec![FIRST];
        for _ in 0..3 {
            let mut next = Vec::new();
            for parent in generation {
                for kind in [Kind::Thread, Kind::Process, Kind::Signal, Kind::Messages] {
                    for nth in 0..10 {
                        let number = child(parent, nth, kind);
                        assert!(number > FIRST && seen.insert(number), "{number:?}");
                        next.push(number);
                    }
                }
            }
            generation = next;
        }
    }

    #[test]
    fn numbers_do_not_depend_on_the_order_between_parents() {
        let run = |second_first: bool| {
            let first = Line::new(FIRST);
            let (a, b) = (Line::new(first.next_thread()), Line::new(first.next_thread()));
            let mut grandchildren = [Thread(0); 2];
            for i in if second_first { [1, 0] } else { [0, 1] } {
                grandchildren[i] = [&a, &b][i].next_thread();
            }
            (grandchildren, a.next_process(), first.children())
        };
        assert_eq!(run(false), run(true));
        assert_eq!(run(false).2, (2, 0));
    }

    #[test]
    fn neighbours_differ_in_half_of_their_bits() {
        let mut differing = 0;
        for nth in 0..1000 {
            let [a, b] = [nth, nth + 1].map(|nth| child(FIRST, nth, Kind::Thread).0);
            differing += (a ^ b).count_ones();
        }
        assert!((31_000..33_000).contains(&differing), "{differing}");
    }
}
