//! One hand over simulated timers: up and down, with the roll-over and the interrupt at every
//! point of a read, late interrupts, missed ticks, and callers that break the rules.
//!
//! The cells of the clock are simulated too: time can pass, and the interrupt come, at each load
//! and each store.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use std::cell::{Cell as StdCell, RefCell};
use std::sync::atomic::{AtomicU32, Ordering};

use common::derived;
use proptest::prelude::*;
use truechimer_time::{Count, CountSpan, Period, Span};
use truechimer_timehands::{Cell, Counting, Hand, OneHand, Status, TickCounter, Told, Untold};

const ALL: [Counting; 3] = [Counting::Up, Counting::Down, Counting::DownToZero];

/// A machine with one processor and one timer.
struct World {
    counting: Counting,
    interval: u32,
    /// True counts since the start.
    now: u64,
    pending: bool,
    /// Steps until the interrupt is let in again.
    masked: usize,
    serving: bool,
    /// By how much time passes at each of the steps to come.
    plan: Vec<u64>,
    steps: usize,
    /// Ticks that came while one was pending.
    overrun: u32,
    /// True if the interrupt knows of those.
    knows: bool,
    clock: &'static OneHand<Simulated>,
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

fn world<T>(look: impl FnOnce(&mut World) -> T) -> T {
    WORLD.with_borrow_mut(|world| look(world.as_mut().unwrap()))
}

impl World {
    fn pass(&mut self, counts: u64) {
        let begun = |now| now / u64::from(self.interval);
        let ticks = begun(self.now + counts) - begun(self.now);
        self.now += counts;
        let late = ticks.saturating_sub(u64::from(!self.pending));
        self.overrun += late as u32;
        self.pending |= ticks > 0;
    }
}

/// One step of the machine: time passes as planned, and an interrupt that may comes.
fn step() {
    if WORLD.with_borrow(Option::is_none) {
        return;
    }
    let serve = world(|w| {
        let counts = w.plan.get(w.steps).copied().unwrap_or(0);
        w.steps += 1;
        w.pass(counts);
        w.masked = w.masked.saturating_sub(1);
        let serve = w.pending && w.masked == 0 && !w.serving;
        w.serving |= serve;
        serve
    });
    if serve {
        interrupt();
        world(|w| w.serving = false);
    }
}

fn interrupt() {
    let (clock, missed) = world(|w| (w.clock, if w.knows { w.overrun } else { 0 }));
    let acknowledge = || {
        world(|w| (w.pending, w.overrun) = (false, 0));
    };
    clock.tick(&Timer, 1 + missed, acknowledge).unwrap();
}

/// A cell whose every access is a step.
struct Simulated(AtomicU32);

impl Cell for Simulated {
    const LARGEST: u64 = u32::MAX as u64;

    fn new(value: u64) -> Self {
        Simulated(AtomicU32::new(value as u32))
    }

    fn load(&self, order: Ordering) -> u64 {
        step();
        Cell::load(&self.0, order)
    }

    fn store(&self, value: u64, order: Ordering) {
        Cell::store(&self.0, value, order);
        step();
    }

    fn fence(_: Ordering) {}
}

/// The timer of the world; asking it is a step.
struct Timer;

impl TickCounter for Timer {
    fn interval(&self) -> u32 {
        world(|w| w.interval)
    }

    fn counting(&self) -> Counting {
        world(|w| w.counting)
    }

    fn value(&self) -> u32 {
        step();
        world(|w| {
            let into = (w.now % u64::from(w.interval)) as u32;
            match w.counting {
                Counting::Up => into,
                Counting::Down => w.interval - 1 - into,
                Counting::DownToZero => (w.interval - into) % w.interval,
            }
        })
    }

    fn pending(&self) -> bool {
        step();
        world(|w| w.pending)
    }
}

/// A new world, in which `now` counts have passed and every tick was counted.
fn start(counting: Counting, interval: u32, now: u64) -> &'static OneHand<Simulated> {
    WORLD.set(None);
    let clock: &'static OneHand<Simulated> = Box::leak(Box::new(OneHand::with_cells()));
    WORLD.set(Some(World {
        counting,
        interval,
        now: 0,
        pending: false,
        masked: 0,
        serving: false,
        plan: Vec::new(),
        steps: 0,
        overrun: 0,
        knows: false,
        clock,
    }));
    clock.tick(&Timer, (now / u64::from(interval)) as u32, || ()).unwrap();
    world(|w| w.now = now);
    clock
}

/// Plans what happens from now on.
fn plan(plan: Vec<u64>, masked: usize) {
    world(|w| (w.plan, w.steps, w.masked) = (plan, 0, masked));
}

/// One read: the count lies between the true ones before and after.
fn read(clock: &OneHand<Simulated>) -> u64 {
    let before = world(|w| w.now);
    let count = clock.count(&Timer).unwrap().0;
    let after = world(|w| w.now);
    assert!(before <= count && count <= after, "{count} not in {before}..={after}");
    count
}

/// Number of steps that a read takes when nothing comes in between: generation, count in two cells,
/// the timer twice, generation; and one more where a tick is pending.
const STEPS: usize = 7;

#[test]
fn the_tick_may_come_at_any_point_of_a_read() {
    let interval = 10;
    for counting in ALL {
        for phase in 0..u64::from(interval) {
            for at in 0..STEPS {
                for by in 1..=u64::from(interval) {
                    // The interrupt comes at once, within the read, or after it.
                    for masked in 0..2 * STEPS {
                        let clock = start(counting, interval, 1000 + phase);
                        let first = read(clock);
                        let mut passing = vec![0; STEPS + 1];
                        passing[at] = by;
                        plan(passing, masked);
                        let second = read(clock);
                        let third = read(clock);
                        assert!(first <= second && second <= third);
                    }
                }
            }
        }
    }
}

#[test]
fn an_interrupt_may_be_late_by_all_but_an_interval() {
    for counting in ALL {
        let clock = start(counting, 100, 99);
        plan(Vec::new(), usize::MAX);
        let mut last = read(clock);
        // One tick becomes pending, and nearly the next.
        for _ in 0..100 {
            world(|w| w.pass(1));
            let count = read(clock);
            assert_eq!(count, last + 1);
            last = count;
        }
        plan(Vec::new(), 0);
        assert_eq!(read(clock), last);
        assert!(!world(|w| w.pending));
    }
}

#[test]
fn missed_ticks_are_whole_ones_and_can_be_told() {
    for counting in ALL {
        for knows in [false, true] {
            let clock = start(counting, 100, 0);
            plan(Vec::new(), usize::MAX);
            world(|w| w.pass(350));
            world(|w| w.knows = knows);
            plan(Vec::new(), 0);
            // Three ticks became pending; the interrupt comes once.
            let count = (clock.count(&Timer), clock.count(&Timer).unwrap().0).1;
            assert_eq!(count, if knows { 350 } else { 150 });
        }
    }
}

#[test]
fn a_reader_that_interrupts_the_writer_is_told_so() {
    let clock = start(Counting::Up, 100, 5);
    clock.publish(&hand(1_000_000), |section| section()).unwrap();
    let mut seen = None;
    clock.tick(&Timer, 1, || seen = Some(clock.count(&Timer))).unwrap();
    assert_eq!(seen, Some(Err(Untold::Interrupted)));
    let mut seen = None;
    clock.tick(&Timer, 1, || seen = Some(clock.now(&Timer))).unwrap();
    assert_eq!(seen, Some(Err(Untold::Interrupted)));
    assert_eq!(clock.count(&Timer), Ok(Count(205)));
}

#[test]
fn writers_that_collide_are_told_so() {
    let clock = start(Counting::Up, 100, 5);
    // A tick in the middle of a tick.
    let mut seen = None;
    clock.tick(&Timer, 1, || seen = Some(clock.tick(&Timer, 1, || ()))).unwrap();
    assert_eq!(seen, Some(Err(Untold::Interrupted)));
    // A mask that never calls.
    assert_eq!(clock.publish(&hand(1_000_000), |_| ()), Err(Untold::Interrupted));
    assert_eq!(clock.now(&Timer), Err(Untold::Empty));
    assert_eq!(clock.elapsed(Count(0), Count(9)), Err(Untold::Empty));
}

/// A hand of so many hertz.
fn hand(hz: u64) -> Hand {
    let period = Period::from_hz(hz);
    let void_after = Count(u64::MAX >> 2);
    Hand { period, difference: period, void_after, ..derived(8).0 }
}

#[test]
fn it_tells_what_the_hand_says() {
    for generation in 1..200 {
        let clock = start(Counting::Down, 1000, generation * 7919);
        let (mut hand, _) = derived(generation);
        hand.void_after = Count(generation * 8000);
        clock.publish(&hand, |section| section()).unwrap();
        let count = Count(generation * 7919);
        let (time, bound) = (hand.time_at(count), hand.bound_at(count));
        let status = hand.status;
        assert_eq!(clock.now(&Timer), Ok(Told { count, time, bound, status }));
        let later = count + CountSpan(123_456);
        assert_eq!(clock.elapsed(count, later), Ok(hand.elapsed(CountSpan(123_456))));
        // Later than it is good for.
        let ticks = generation as u32;
        clock.tick(&Timer, ticks, || ()).unwrap();
        assert_eq!(clock.now(&Timer).unwrap().status, Status::Unknown);
    }
}

#[test]
fn counts_go_on_past_32_bits() {
    for counting in ALL {
        let clock = start(counting, u32::MAX, 0);
        for tick in 1..5 {
            clock.tick(&Timer, 1, || ()).unwrap();
            assert_eq!(clock.count(&Timer), Ok(Count(tick * u64::from(u32::MAX))));
        }
    }
}

#[test]
fn values_that_no_such_timer_shows_do_not_panic() {
    struct Odd(u32, u32, Counting, StdCell<bool>);
    impl TickCounter for Odd {
        fn interval(&self) -> u32 {
            self.0
        }
        fn counting(&self) -> Counting {
            self.2
        }
        fn value(&self) -> u32 {
            self.1
        }
        fn pending(&self) -> bool {
            self.3.replace(!self.3.get())
        }
    }
    for counting in ALL {
        for interval in [0, 1, 2, u32::MAX] {
            for value in [0, 1, 2, 3, u32::MAX - 1, u32::MAX] {
                let timer = Odd(interval, value, counting, StdCell::new(false));
                let clock = OneHand::new();
                clock.tick(&timer, u32::MAX, || ()).unwrap();
                let begun = u64::from(interval.max(1)) * u64::from(u32::MAX);
                for _ in 0..2 {
                    let counted = clock.count(&timer).unwrap().0;
                    let limit = 2 * u64::from(interval.max(1));
                    assert!((begun..begun + limit).contains(&counted));
                }
            }
        }
    }
}

proptest! {
    /// Any machine, any passing of time, any lateness of the interrupt below an interval: every
    /// reading lies between the true counts before and after, and none goes back.
    #[test]
    fn no_reading_goes_back_or_is_off(
        counting in prop::sample::select(ALL.to_vec()),
        interval in 64u32..200,
        phase in 0u64..200,
        passing in prop::collection::vec((0u64..3, 0usize..12), 40),
    ) {
        let clock = start(counting, interval, 5000 + phase % u64::from(interval));
        let mut last = 0;
        for (each, masked) in passing {
            // At most 12 masked steps of 2 counts and the interrupt's own: below an interval.
            plan(vec![each; 1000], masked);
            let count = read(clock);
            plan(Vec::new(), 0);
            step();
            prop_assert!(count >= last, "{count} after {last}");
            last = count;
        }
    }

    /// The time told is exact to below 0.1 ns of what the count is by its hertz, and monotone
    /// while the hand stays, even if the tick comes in between.
    #[test]
    fn time_follows_the_count(
        counting in prop::sample::select(ALL.to_vec()),
        hz in 1_000u64..200_000_000,
        days in 0u64..366,
        passing in prop::collection::vec(0u64..40, 30),
    ) {
        let interval = (hz / 100).clamp(100, 1 << 24) as u32;
        let ticks = hz * days * 86_400 / u64::from(interval);
        let clock = start(counting, interval, 0);
        // As many ticks as fit at a time.
        let mut left = ticks;
        while left > 0 {
            let some = left.min(u32::MAX.into()) as u32;
            clock.tick(&Timer, some, || ()).unwrap();
            left -= u64::from(some);
        }
        world(|w| w.now = ticks * u64::from(interval));
        let mut hand = hand(hz);
        hand.base = Count(0);
        clock.publish(&hand, |section| section()).unwrap();
        let mut last = None;
        for each in passing {
            plan(vec![each], 0);
            let told = clock.now(&Timer).unwrap();
            let count = u128::from(told.count.0);
            let (whole, rest) = (count / u128::from(hz), count % u128::from(hz));
            let exact = ((whole << 64) + (rest << 64) / u128::from(hz)) as i128;
            let error = (told.time - hand.time) - Span(exact);
            prop_assert!(error.abs() < Span(Span::from_nanos(1).0 / 10), "{error}");
            prop_assert!(last <= Some(told.time));
            last = Some(told.time);
        }
    }
}
