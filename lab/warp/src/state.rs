//! The steered clock as processes share it: a log of all steering, and the stamps last warped.
//!
//! The file is mapped whole and read and written as atomics; zeros are a valid beginning. Layout,
//! in 64-bit words of the machine's byte order:
//!
//! | word | content |
//! |---|---|
//! | 0 | number of stamps warped so far, *n* |
//! | 1 … 128 | the last 64 of them: (host ns, warped ns); stamp *k* (from 0) is at 1 + 2 (*k* mod 64) |
//! | 129 | number of steering segments |
//! | 130 … | the segments: (start in host ns, slewed and stepped by then in ns, frequency in 2⁻¹⁶ ppm, status) |
//!
//! Segments are only ever appended, so that a stamp taken before a change and read after it is
//! warped as the clock was then. One process steers; its threads take turns.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::ahead::Ahead;

/// Number of stamps that the file remembers.
pub const STAMPS: usize = 64;
/// Number of changes of the steering that fit: four hours at one a second.
pub const SEGMENTS: usize = 16_384;

/// The whole file.
#[repr(C)]
pub struct State {
    stamped: AtomicU64,
    stamps: [[AtomicI64; 2]; STAMPS],
    steered: AtomicU64,
    segments: [[AtomicI64; 5]; SEGMENTS],
}

/// From `start_ns` on the clock is ahead by `ahead` and gains `frequency` · 2⁻¹⁶ ppm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// Host time, Unix ns.
    pub start_ns: i64,
    /// The steering at `start_ns`.
    pub ahead: Ahead,
    /// In 2⁻¹⁶ ppm, as `adjtimex` has it.
    pub frequency: i64,
    /// The kernel's status flags (`STA_…`).
    pub status: i64,
}

impl Segment {
    /// The steering at a later host time.
    #[must_use]
    pub fn at(&self, real_ns: i64) -> Ahead {
        let since = i128::from(real_ns.saturating_sub(self.start_ns));
        let gained = (since * i128::from(self.frequency)).div_euclid(1_000_000 << 16);
        self.ahead + Ahead { slewed: gained as i64, stepped: 0 }
    }
}

static TURN: Mutex<()> = Mutex::new(());

impl State {
    /// The steering at host time `real_ns`.
    #[must_use]
    pub fn at(&self, real_ns: i64) -> Ahead {
        let mut n = self.steered.load(Ordering::Acquire);
        while n > 0 {
            n -= 1;
            let segment = self.segment(n);
            if segment.start_ns <= real_ns {
                return segment.at(real_ns);
            }
        }
        Ahead::default()
    }

    /// The newest segment.
    #[must_use]
    pub fn newest(&self) -> Segment {
        match self.steered.load(Ordering::Acquire) {
            0 => Segment::default(),
            n => self.segment(n - 1),
        }
    }

    /// Appends what `next` makes of the newest segment. False if the log is full.
    pub fn append(&self, next: impl FnOnce(Segment) -> Segment) -> bool {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let n = self.steered.load(Ordering::Relaxed);
        let Some(slot) = self.segments.get(n as usize) else { return false };
        let Segment { start_ns, ahead: Ahead { slewed, stepped }, frequency, status } =
            next(self.newest());
        for (word, value) in slot.iter().zip([start_ns, slewed, stepped, frequency, status]) {
            word.store(value, Ordering::Relaxed);
        }
        self.steered.store(n + 1, Ordering::Release);
        true
    }

    /// Remembers a stamp: what the kernel said, and what the process was told.
    pub fn remember(&self, real_ns: i64, warped_ns: i64) {
        let n = self.stamped.load(Ordering::Relaxed);
        if let Some([real, warped]) = self.stamps.get(n as usize % STAMPS) {
            real.store(real_ns, Ordering::Relaxed);
            warped.store(warped_ns, Ordering::Relaxed);
        }
        self.stamped.store(n + 1, Ordering::Release);
    }

    fn segment(&self, n: u64) -> Segment {
        let Some(slot) = self.segments.get(n as usize) else { return Segment::default() };
        let [start_ns, slewed, stepped, frequency, status] =
            slot.each_ref().map(|word| word.load(Ordering::Relaxed));
        Segment { start_ns, ahead: Ahead { slewed, stepped }, frequency, status }
    }
}

#[cfg(test)]
pub(crate) fn fresh() -> Box<State> {
    Box::new(State {
        stamped: AtomicU64::new(0),
        stamps: [const { [const { AtomicI64::new(0) }; 2] }; STAMPS],
        steered: AtomicU64::new(0),
        segments: [const { [const { AtomicI64::new(0) }; 5] }; SEGMENTS],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_past_stays_as_it_was() {
        let state = fresh();
        assert_eq!(state.at(5), Ahead::default());
        let step = |start_ns, stepped| {
            move |was: Segment| Segment { start_ns, ahead: Ahead { slewed: 0, stepped }, ..was }
        };
        assert!(state.append(step(1_000, 50)));
        assert!(state.append(step(2_000, -7)));
        let seen = [999, 1_000, 1_999, 2_000, 9_000].map(|t| state.at(t).total());
        assert_eq!(seen, [0, 50, 50, -7, -7]);
    }

    #[test]
    fn a_frequency_accumulates() {
        let ahead = Ahead { slewed: 10, stepped: 7 };
        let segment = Segment { start_ns: 0, ahead, frequency: 100 << 16, status: 0 };
        assert_eq!(segment.at(1_000_000_000), Ahead { slewed: 10 + 100_000, stepped: 7 });
        let slow = Segment { frequency: -(100 << 16), ..segment };
        assert_eq!(slow.at(1_000_000_000), Ahead { slewed: 10 - 100_000, stepped: 7 });
    }
}
