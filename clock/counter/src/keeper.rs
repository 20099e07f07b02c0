//! A narrow counter made 64 bits wide, for any number of threads at once and without a lock.
//!
//! An ACPI PM timer of 24 bits rolls over every 4.7 s, an HPET of 32 every few minutes. Whoever
//! knows where the counter was less than half a roll-over ago knows which count a reading stands
//! for; the keeper remembers that, and does not pretend to where it is longer ago.
//!
//! # Why it is right
//! A reading goes: load when the counter was kept and then where, read the device, look at the
//! coarse clock.
//! 1. *Where* was read no earlier than *when*: the clock is asked before the device, and *where*
//!    is stored before *when* (release), and loaded after it (acquire). So an age can only be
//!    overstated.
//! 2. The device is read after *where* was loaded, so after whoever stored that had read it. As
//!    one device counts for all processors, the step is forward: newer keepings by others cannot
//!    make it wrong. A reader that was held up in between sees it by the clock, and begins again.
//! 3. The step is less than three quarters of a roll-over if the age found is less than half of
//!    one. The quarter in between is room for the coarse clock, which lags by a tick (10 ms at
//!    most) and is slewed. The last quarter stands for steps back: a chipset that now and then
//!    reads a little low gives a count that is as low, not one that is a roll-over ahead.
//!
//! Where the age is more than that, there was a lapse, and counting begins anew. Both words carry
//! the number of that beginning in their upper bits, so that a reader from before it can change
//! neither, and a *when* is never taken for that of another *where*. Whoever stores the new *where*
//! has counted the lapse by that very store.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use truechimer_time::Count;

use crate::error::CounterError;
use crate::width::Width;

/// Where a narrow counter was when it was last read, and when: what one process publishes and
/// others continue from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptAt {
    /// The count, widened.
    pub wide: Count,
    /// `CLOCK_MONOTONIC_COARSE` in ns, read before the counter was.
    pub at_ns: i64,
}

/// A word that threads share. A trait so that a model checker can stand in for the machine.
pub(crate) trait Word {
    fn new(value: u64) -> Self;
    /// The value, and with it what was stored before it (acquire).
    fn load(&self) -> u64;
    /// `new` instead of `old`, after all that was stored before; else what is there instead.
    fn swap(&self, old: u64, new: u64) -> Result<u64, u64>;
}

impl Word for AtomicU64 {
    fn new(value: u64) -> Self {
        AtomicU64::new(value)
    }

    fn load(&self) -> u64 {
        self.load(Ordering::Acquire)
    }

    fn swap(&self, old: u64, new: u64) -> Result<u64, u64> {
        self.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
    }
}

/// A value under the number of the beginning that it counts from.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Tagged {
    era: u8,
    value: u64,
}

/// Bits left for the value. In counts, 22 years at 100 MHz; as a time, see [`Tagged::time`].
const VALUE_BITS: u32 = 56;
const VALUE: u64 = (1 << VALUE_BITS) - 1;

impl Tagged {
    fn of(word: u64) -> Tagged {
        Tagged { era: (word >> VALUE_BITS) as u8, value: word & VALUE }
    }

    fn word(self) -> u64 {
        (u64::from(self.era) << VALUE_BITS) | (self.value & VALUE)
    }

    /// A time, rounded down to units of 1024 ns.
    fn time(era: u8, ns: i64) -> Tagged {
        Tagged { era, value: (ns >> 10) as u64 }
    }

    /// The time again, in ns.
    fn ns(self) -> i64 {
        ((self.value << (64 - VALUE_BITS)) as i64 >> (64 - VALUE_BITS)).wrapping_mul(1024)
    }
}

/// The last keeping of one counter in this process.
#[derive(Debug)]
pub(crate) struct Keeper<W = AtomicU64> {
    width: Width,
    /// Where: the largest count that any thread has read since the last beginning.
    wide: W,
    /// When: a time no later than `wide` was read, by `CLOCK_MONOTONIC_COARSE`.
    at: W,
    /// The number of the last beginning, all of it, or of one shortly before it.
    beginnings: W,
    /// Number of them that were asked for, and so are no lapses.
    resumed: AtomicU32,
}

impl<W: Word> Keeper<W> {
    /// Begins with one reading, taken after `at_ns`.
    pub(crate) fn new(width: Width, at_ns: i64, raw: u64) -> Keeper<W> {
        Keeper {
            width,
            wide: W::new(Tagged { era: 0, value: width.first(raw).0 }.word()),
            at: W::new(Tagged::time(0, at_ns).word()),
            beginnings: W::new(0),
            resumed: AtomicU32::new(0),
        }
    }

    /// One reading: `raw` reads the device, `now_ns` the coarse clock, before it and after it.
    pub(crate) fn read(&self, raw: impl Fn() -> u64, now_ns: impl Fn() -> i64) -> KeptAt {
        loop {
            let at = self.at.load();
            let kept = Tagged::of(self.wide.load());
            let when = Tagged::of(at);
            let at_ns = now_ns();
            let raw = raw();
            let age_ns = now_ns().wrapping_sub(when.ns());
            let known = self.width.checked(Count(kept.value), raw, age_ns).ok();
            match known.filter(|wide| when.era == kept.era && wide.0 <= VALUE) {
                Some(wide) => {
                    self.keep(kept.era, wide, at_ns);
                    return KeptAt { wide, at_ns };
                }
                // Somebody has kept it while this thread was held up.
                None if self.at.load() != at => {}
                None => {
                    if let Some(wide) = self.go_on(kept, raw, age_ns, at_ns) {
                        return KeptAt { wide, at_ns };
                    }
                }
            }
        }
    }

    /// Keeps a reading, unless a later one has been or counting has begun anew since.
    fn keep(&self, era: u8, wide: Count, at_ns: i64) {
        for (word, to) in
            [(&self.wide, Tagged { era, value: wide.0 }), (&self.at, Tagged::time(era, at_ns))]
        {
            raise(word, to.word(), |there| {
                let there = Tagged::of(there);
                there.era == era && there.value < to.value
            });
        }
    }

    /// Goes on after a lapse, where the coarse clock says that the counter should be; `None` if
    /// another thread has.
    fn go_on(&self, kept: Tagged, raw: u64, age_ns: i64, at_ns: i64) -> Option<Count> {
        let guess = self.width.guessed(Count(kept.value), raw, age_ns);
        let wide = if guess.0 <= VALUE { guess } else { self.width.first(raw) };
        self.begin(kept, wide, at_ns)
    }

    /// Begins anew with `wide` instead of `kept`, unless another thread has changed that.
    fn begin(&self, kept: Tagged, wide: Count, at_ns: i64) -> Option<Count> {
        let number = self.number(kept.era).wrapping_add(1);
        let next = Tagged { era: number as u8, value: wide.0 };
        self.wide.swap(kept.word(), next.word()).ok()?;
        raise(&self.beginnings, number.into(), |there| newer(number, there as u32));
        raise(&self.at, Tagged::time(next.era, at_ns).word(), |there| {
            (next.era.wrapping_sub(Tagged::of(there).era) as i8) > 0
        });
        Some(wide)
    }

    /// Continues another process's keeping from now on: what this process has read before has
    /// nothing to do with what it reads then.
    ///
    /// # Errors
    /// Where that is stale, or no count that this counter reaches.
    pub(crate) fn resume(
        &self,
        from: &KeptAt,
        raw: impl Fn() -> u64,
        now_ns: impl Fn() -> i64,
    ) -> Result<(), CounterError> {
        let read = || {
            let kept = Tagged::of(self.wide.load());
            let at_ns = now_ns();
            let raw = raw();
            let wide = self.width.checked(from.wide, raw, now_ns().wrapping_sub(from.at_ns))?;
            let reached = (1 << self.width.bits()..=VALUE).contains(&wide.0);
            if reached { Ok((kept, wide, at_ns)) } else { Err(CounterError::Foreign(wide)) }
        };
        let mut next = read()?;
        self.resumed.fetch_add(1, Ordering::AcqRel);
        while self.begin(next.0, next.1, next.2).is_none() {
            next = read()?;
        }
        Ok(())
    }

    /// The whole number of the beginning whose lowest bits are `era`.
    fn number(&self, era: u8) -> u32 {
        let near = self.beginnings.load() as u32;
        near.wrapping_add_signed(i32::from(era.wrapping_sub(near as u8) as i8))
    }

    /// Number of lapses so far.
    pub(crate) fn lapses(&self) -> u32 {
        loop {
            let era = Tagged::of(self.wide.load()).era;
            let lapses = self.number(era).wrapping_sub(self.resumed.load(Ordering::Acquire));
            if Tagged::of(self.wide.load()).era == era {
                return lapses;
            }
        }
    }

    /// Width by which the counter is continued.
    pub(crate) fn width(&self) -> Width {
        self.width
    }
}

/// True if a number is after another one, as they go round.
fn newer(number: u32, than: u32) -> bool {
    (number.wrapping_sub(than) as i32) > 0
}

/// Makes the word `to` while what is there is `older`.
fn raise<W: Word>(word: &W, to: u64, older: impl Fn(u64) -> bool) {
    let mut there = word.load();
    while older(there) {
        match word.swap(there, to) {
            Ok(_) => break,
            Err(other) => there = other,
        }
    }
}

#[cfg(test)]
mod tests;
