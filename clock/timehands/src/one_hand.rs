//! The clock of a machine without a free-running counter: one hand, and the periodic timer behind
//! the clock tick for a counter.
//!
//! Such a timer counts through its interval, 0 … `interval` − 1, and asks for an interrupt each
//! time it begins anew. The count of the clock is the count at which the current interval began,
//! kept by the interrupt, plus what the timer has done since. When the timer has begun anew and
//! the interrupt has not been served yet, one interval more has passed than was kept: so a reader
//! asks the timer for its value, then whether a tick is pending, and if so for its value again,
//! which is now certainly one of the new interval.
//!
//! There is one hand and no ring: it is made for one processor, where the interrupt that writes
//! cannot be interrupted by those that read. A generation, odd while the writer is at it, tells a
//! reader that was interrupted to begin again:
//!
//! ```text
//! writer                                    reader
//!   generation := g + 1                       g := generation            (odd: writer at work)
//!   fence(release)                   ──╮  ╭── fence(acquire)
//!   words      := …                    │  │   … := words; the timer's value
//!   generation := g + 2  (release)   ──╯  ╰─  fence(acquire)
//!                                             generation = g?            (else: again)
//! ```
//!
//! All of it is in 32-bit words that are loaded and stored, never exchanged: every processor that
//! Rust knows can do that.
//!
//! # What the platform has to see to
//! * **One writer at a time.** [`OneHand::tick`] runs in the tick's interrupt;
//!   [`OneHand::publish`] takes a function that masks this interrupt.
//! * **No reader between the interrupt's acknowledgement and the count's.** Where software clears
//!   the pending flag, [`OneHand::tick`] does it at the right moment. Where the processor clears
//!   it on entry (Arm's SysTick), readers must not have a higher priority than the tick.
//! * **The interrupt is served within one interval.** Past that the timer looks as it did an
//!   interval ago, and nothing in it can tell: the clock loses whole ticks. An interrupt that
//!   knows of missed ticks (an overrun flag, another clock) says so to [`OneHand::tick`].

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use truechimer_time::{Count, CountSpan, Instant, Period, Span};

use crate::cell::Cell;
use crate::hand::share;
use crate::{Hand, Status};

/// Number of tries of a read, with the tick or a new hand in between each time, before it takes the
/// memory to be damaged.
const TRIES: u32 = 100;

/// Words of 32 bits that the hand and the count take.
const CELLS: usize = 25;

/// Ways of a periodic timer through its interval. With each, the tick becomes pending at the first
/// count of an interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counting {
    /// 0, 1, … `interval` − 1, and the tick when it is back at 0.
    Up,
    /// `interval` − 1, … 1, 0, and the tick when it is reloaded with `interval` − 1.
    Down,
    /// Down likewise, but with the tick already when it comes to 0, a count before it is reloaded:
    /// Arm's SysTick.
    DownToZero,
}

/// The periodic timer behind the clock tick.
///
/// Both questions are asked of the hardware each time, in the order of the calls (registers that
/// are read volatile).
pub trait TickCounter {
    /// Number of counts from tick to tick, ≥ 1: the reload value plus one.
    fn interval(&self) -> u32;
    /// Which way it counts.
    fn counting(&self) -> Counting;
    /// Value it stands at now.
    fn value(&self) -> u32;
    /// True if it has begun a new interval whose tick has not been served.
    fn pending(&self) -> bool;
}

/// Reasons why a clock with one hand does not tell the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Untold {
    /// No hand was published yet.
    Empty,
    /// The caller has interrupted the writer, which goes on only when the caller is done; or, far
    /// less likely, the memory is damaged.
    Interrupted,
}

/// Reading of a clock with one hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// The count of the reading.
    pub count: Count,
    /// The best estimate of time then.
    pub time: Instant,
    /// Bound of its error, for what it is worth by `status`; ≥ 0.
    pub bound: Span,
    /// The hand's status, or [`Status::Unknown`] once the hand is void.
    pub status: Status,
}

/// A clock with a single hand over the periodic timer behind the clock tick.
///
/// ```
/// use core::cell::Cell;
/// use truechimer_timehands::{Counting, OneHand, TickCounter};
///
/// /// A timer of 1 MHz that ticks every millisecond, downwards.
/// struct Timer(Cell<u32>);
///
/// impl TickCounter for Timer {
///     fn interval(&self) -> u32 { 1000 }
///     fn counting(&self) -> Counting { Counting::Down }
///     fn value(&self) -> u32 { self.0.get() }
///     fn pending(&self) -> bool { false }
/// }
///
/// static CLOCK: OneHand = OneHand::new();
/// let timer = Timer(Cell::new(999));
/// // In the tick's interrupt, 1 for the tick that is served:
/// CLOCK.tick(&timer, 1, || ()).unwrap();
/// timer.0.set(999 - 41);
/// assert_eq!(CLOCK.count(&timer).unwrap().0, 1041);
/// ```
pub struct OneHand<C = AtomicU32> {
    generation: C,
    cells: [C; CELLS],
}

impl OneHand {
    /// A clock without a hand whose counting begins at 0, for a `static`.
    #[must_use]
    pub const fn new() -> OneHand {
        OneHand { generation: AtomicU32::new(0), cells: [const { AtomicU32::new(0) }; CELLS] }
    }
}

impl Default for OneHand {
    fn default() -> OneHand {
        OneHand::new()
    }
}

// Where each word is, in cells.
const BEGUN: usize = 0;
const BASE: usize = 2;
const TIME: usize = 4;
const MANTISSA: usize = 8;
const BOUND: usize = 10;
const GROWTH: usize = 14;
const VOID_AFTER: usize = 16;
/// The shift of the period in the low byte, the status in the next, and whether there is a hand.
const STATE: usize = 18;
const DIFFERENCE: usize = 19;
const DIFFERENCE_ERROR: usize = 21;
/// The shift of the difference period, in two cells as all that `store` stores.
const DIFFERENCE_SHIFT: usize = 23;
const A_HAND: u32 = 1 << 16;

impl<C: Cell> OneHand<C> {
    /// Makes a clock with cells of another kind.
    #[must_use]
    pub fn with_cells() -> OneHand<C> {
        OneHand { generation: C::new(0), cells: core::array::from_fn(|_| C::new(0)) }
    }

    /// Counts ticks: to be called once in each interrupt of the timer. `ticks` is 1 unless the
    /// interrupt knows that it comes late by more than an interval. `acknowledge` makes the timer
    /// no longer pending, where that is for software to do.
    ///
    /// # Errors
    /// If it interrupts a writer, against the rules above: nothing was counted.
    pub fn tick(
        &self,
        timer: &impl TickCounter,
        ticks: u32,
        acknowledge: impl FnOnce(),
    ) -> Result<(), Untold> {
        let more = u64::from(ticks).wrapping_mul(timer.interval().max(1).into());
        self.write(|| {
            self.store(BEGUN, self.two(BEGUN).wrapping_add(more));
            acknowledge();
        })
    }

    /// Publishes a hand. `masked` calls what it is given with the tick's interrupt masked.
    ///
    /// # Errors
    /// If it interrupts a writer, or `masked` does not call: nothing was published.
    pub fn publish(
        &self,
        hand: &Hand,
        masked: impl FnOnce(&mut dyn FnMut()),
    ) -> Result<(), Untold> {
        let mut done = Err(Untold::Interrupted);
        masked(&mut || done = self.write(|| self.store_hand(hand)));
        done
    }

    /// The count now. It never goes back from one call to the next, whatever the tick's interrupt
    /// does in between.
    ///
    /// # Errors
    /// If the caller has interrupted the writer.
    pub fn count(&self, timer: &impl TickCounter) -> Result<Count, Untold> {
        self.read(|| Count(self.two(BEGUN)) + elapsed(timer))
    }

    /// The time now, with the bound of its error. It does not go back while the hand stays.
    ///
    /// # Errors
    /// If there is no hand yet, or the caller has interrupted the writer.
    pub fn now(&self, timer: &impl TickCounter) -> Result<Told, Untold> {
        let (count, hand) =
            self.read(|| (Count(self.two(BEGUN)) + elapsed(timer), self.load_hand()))?;
        let (state, period) = hand.kept.ok_or(Untold::Empty)?;
        let span = period.span(count - hand.base);
        let stands = hand.void_after.at_or_after(count);
        Ok(Told {
            count,
            time: hand.time + span,
            bound: hand.bound + Span(share(span.0, hand.growth)),
            status: if stands { state } else { Status::Unknown },
        })
    }

    /// Length of the time from one count to another by the difference clock, with the bound of the
    /// error that its period makes in that.
    ///
    /// # Errors
    /// As [`OneHand::now`].
    pub fn elapsed(&self, from: Count, to: Count) -> Result<(Span, Span), Untold> {
        let (period, error) = self.read(|| {
            let there = self.one(STATE) & A_HAND != 0;
            let period = self.period(DIFFERENCE, self.one(DIFFERENCE_SHIFT));
            (period.filter(|_| there), self.two(DIFFERENCE_ERROR))
        })?;
        let span = period.ok_or(Untold::Empty)?.span(to - from);
        Ok((span, Span(share(span.0, error))))
    }

    /// Runs `change` with the generation odd.
    fn write(&self, change: impl FnOnce()) -> Result<(), Untold> {
        let generation = self.generation.load(Relaxed) as u32;
        if generation & 1 != 0 {
            return Err(Untold::Interrupted);
        }
        self.generation.store(generation.wrapping_add(1).into(), Relaxed);
        C::fence(Release);
        change();
        self.generation.store(generation.wrapping_add(2).into(), Release);
        Ok(())
    }

    /// Returns what `gather` gathers while no writer is at work.
    fn read<T>(&self, gather: impl Fn() -> T) -> Result<T, Untold> {
        for _ in 0..TRIES {
            let generation = self.generation.load(Relaxed);
            if generation & 1 != 0 {
                // On one processor the writer waits for us, so there is nothing to wait for.
                return Err(Untold::Interrupted);
            }
            C::fence(Acquire);
            let gathered = gather();
            C::fence(Acquire);
            if self.generation.load(Relaxed) == generation {
                return Ok(gathered);
            }
        }
        Err(Untold::Interrupted)
    }

    fn store_hand(&self, hand: &Hand) {
        self.store(BASE, hand.base.0);
        self.store_four(TIME, hand.time.0);
        self.store(MANTISSA, hand.period.mantissa());
        self.store_four(BOUND, hand.bound().0);
        self.store(GROWTH, hand.growth.0 as u64);
        self.store(VOID_AFTER, hand.void_after.0);
        self.store(DIFFERENCE, hand.difference.mantissa());
        self.store(DIFFERENCE_ERROR, hand.difference_error.0 as u64);
        self.store(DIFFERENCE_SHIFT, hand.difference.shift().into());
        let status = u32::from(hand.status as u8) << 8;
        let state = u32::from(hand.period.shift()) | status | A_HAND;
        if let Some(cell) = self.cells.get(STATE) {
            cell.store(state.into(), Relaxed);
        }
    }

    fn load_hand(&self) -> Kept {
        let state = self.one(STATE);
        let status = Status::from_u8((state >> 8) as u8).filter(|_| state & A_HAND != 0);
        Kept {
            base: Count(self.two(BASE)),
            time: Instant(self.four(TIME)),
            bound: Span(self.four(BOUND)),
            growth: self.two(GROWTH),
            void_after: Count(self.two(VOID_AFTER)),
            kept: status.zip(self.period(MANTISSA, state & 0xff)),
        }
    }

    fn period(&self, mantissa: usize, shift: u32) -> Option<Period> {
        Period::from_parts(self.two(mantissa), u8::try_from(shift).ok()?)
    }

    fn one(&self, at: usize) -> u32 {
        self.cells.get(at).map_or(0, |cell| cell.load(Relaxed) as u32)
    }

    fn two(&self, at: usize) -> u64 {
        u64::from(self.one(at)) | (u64::from(self.one(at + 1)) << 32)
    }

    fn four(&self, at: usize) -> i128 {
        (u128::from(self.two(at)) | (u128::from(self.two(at + 2)) << 64)) as i128
    }

    fn store(&self, at: usize, value: u64) {
        for (cell, half) in self.cells.iter().skip(at).zip([value as u32, (value >> 32) as u32]) {
            cell.store(half.into(), Relaxed);
        }
    }

    fn store_four(&self, at: usize, value: i128) {
        self.store(at, value as u64);
        self.store(at + 2, (value >> 64) as u64);
    }
}

/// A hand as it was loaded, which means nothing until the generation was found unchanged.
struct Kept {
    base: Count,
    time: Instant,
    bound: Span,
    growth: u64,
    void_after: Count,
    /// Status and period, if there is a hand.
    kept: Option<(Status, Period)>,
}

/// Counts that the timer is past the tick that was counted last.
fn elapsed(timer: &impl TickCounter) -> CountSpan {
    let interval = timer.interval().max(1);
    let within = |value: u32| match timer.counting() {
        Counting::Up => value,
        Counting::Down => (interval - 1).saturating_sub(value),
        Counting::DownToZero if value == 0 => 0,
        Counting::DownToZero => interval.saturating_sub(value),
    };
    // A value beyond the interval, as a timer may show before its first reload, is its last.
    let within = |value| i64::from(within(value).min(interval - 1));
    let first = within(timer.value());
    CountSpan(if timer.pending() { i64::from(interval) + within(timer.value()) } else { first })
}
