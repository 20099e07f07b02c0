//! A simulated device and clock: what is read is checked against what was true.

use std::cell::Cell;
use std::sync::atomic::AtomicBool;
use std::thread;

use proptest::prelude::*;
use truechimer_time::{CountSpan, Period, Span};

use super::*;

/// Length of a count, ns: what times are rounded to.
const NS: u64 = 1024;

fn width(bits: u32) -> Width {
    let period = Period::from_ratio(Span::from_nanos(NS as i64), CountSpan(1));
    Width::new(bits, period.unwrap()).unwrap()
}

/// The time of a count.
fn ns(count: u64) -> i64 {
    (count * NS) as i64
}

/// The world of one thread: the truth, and how far the coarse clock is behind it.
struct World {
    truth: Cell<u64>,
    lag: u64,
    read_at: Cell<u64>,
}

impl World {
    fn new(truth: u64, lag: u64) -> World {
        World { truth: Cell::new(truth), lag, read_at: Cell::new(0) }
    }

    fn raw(&self) -> u64 {
        self.read_at.set(self.truth.get());
        self.truth.get()
    }

    /// A tick of `lag`: the clock shows the last one.
    fn coarse(&self) -> i64 {
        ns(self.truth.get() / self.lag * self.lag)
    }

    fn read(&self, keeper: &Keeper) -> KeptAt {
        keeper.read(|| self.raw(), || self.coarse())
    }
}

proptest! {
    #[test]
    fn counts_from_between_lapses_compare(
        bits in 24u32..=40,
        start in 0u64..1 << 44,
        steps in prop::collection::vec((0u64..1 << 41, 0u32..20), 1..200),
    ) {
        let roll_over = 1u64 << bits;
        let world = World::new(start, roll_over / 64);
        let keeper: Keeper = Keeper::new(width(bits), world.coarse(), world.raw());
        let mut last = (world.read(&keeper).wide, world.read_at.get());
        for (step, shift) in steps {
            let step = (step >> shift) % roll_over;
            let lapses = keeper.lapses();
            world.truth.set(world.truth.get() + step);
            let kept = world.read(&keeper);
            let now = (kept.wide, world.read_at.get());
            prop_assert!(kept.at_ns <= ns(now.1));
            // Beyond half a roll-over it is a lapse; a little below, the clock's tick decides.
            if step < roll_over / 2 - roll_over / 32 {
                prop_assert_eq!(keeper.lapses(), lapses);
            } else if step > roll_over / 2 + roll_over / 32 {
                prop_assert_eq!(keeper.lapses(), lapses + 1);
            }
            // The coarse clock is right here, so counts are, even over lapses.
            prop_assert_eq!((now.0 - last.0).0 as u64, now.1 - last.1);
            last = now;
        }
    }

    #[test]
    fn whatever_is_kept_is_continued_or_refused(
        bits in 20u32..=40, truth in 0u64..1 << 44, wide in 0u64..1 << 55, age in 0u64..1 << 40,
    ) {
        let world = World::new(truth + age, 1);
        let keeper: Keeper = Keeper::new(width(bits), world.coarse(), world.raw());
        let mask = (1 << bits) - 1;
        let wide = Count((wide & !mask) | (truth & mask));
        let kept = KeptAt { wide, at_ns: ns(truth) };
        match keeper.resume(&kept, || world.raw(), || world.coarse()) {
            Ok(()) => {
                prop_assert!(age < 1 << (bits - 1));
                prop_assert_eq!((world.read(&keeper).wide - wide).0 as u64, age);
                prop_assert_eq!(keeper.lapses(), 0);
            }
            Err(CounterError::Stale { .. }) => prop_assert!(age + 1 >= 1 << (bits - 1)),
            Err(CounterError::Foreign(count)) => prop_assert!(count.0 <= mask),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}

#[test]
fn more_lapses_than_fit_a_tag_are_counted() {
    let world = World::new(0, 1);
    let keeper: Keeper = Keeper::new(width(24), world.coarse(), world.raw());
    for n in 1..=1000 {
        world.truth.set(world.truth.get() + (1 << 24));
        assert_eq!(world.read(&keeper).wide.0 & 0xff_ffff, world.truth.get() & 0xff_ffff);
        assert_eq!(keeper.lapses(), n);
    }
}

#[test]
fn after_the_last_count_it_begins_again() {
    // The lowest bits of where it is kept are what is read.
    let world = World::new((1 << 24) - 100, 1);
    let keeper: Keeper = Keeper::new(width(24), world.coarse(), world.raw());
    let kept = KeptAt { wide: Count(VALUE - 99), at_ns: world.coarse() };
    keeper.resume(&kept, || world.raw(), || world.coarse()).unwrap();
    assert_eq!((world.read(&keeper).wide, keeper.lapses()), (kept.wide, 0));
    world.truth.set(world.truth.get() + 1000);
    assert_eq!(world.read(&keeper).wide.0 >> 24, 1);
    assert_eq!(keeper.lapses(), 1);
}

/// A machine whose time passes as its threads read it, each reading a count of its own.
struct Machine {
    truth: AtomicU64,
}

impl Machine {
    fn raw(&self, seen: &Cell<u64>) -> u64 {
        seen.set(self.truth.fetch_add(1, Ordering::SeqCst));
        seen.get()
    }

    /// Behind by up to a tick of 16.
    fn coarse(&self) -> i64 {
        ns(self.truth.load(Ordering::SeqCst) & !15)
    }
}

/// Real threads against a device of 12 bits that rolls over every few thousand reads; the
/// scheduler sees to it that some are held up for many roll-overs.
#[test]
fn threads_read_one_device() {
    let machine = Machine { truth: AtomicU64::new(77) };
    let first = Cell::new(0);
    let at_ns = machine.coarse();
    let keeper: Keeper = Keeper::new(width(12), at_ns, machine.raw(&first));
    let compared = AtomicU64::new(0);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let seen = Cell::new(0);
                    let mut last: Option<(Count, u64, u32)> = None;
                    for _ in 0..50_000 {
                        let before = keeper.lapses();
                        let wide = keeper.read(|| machine.raw(&seen), || machine.coarse()).wide;
                        let (truth, after) = (seen.get(), keeper.lapses());
                        // What belongs to one stretch compares with all else of it, exactly.
                        if before == after {
                            if let Some((wide_then, truth_then, _)) = last.filter(|l| l.2 == before)
                            {
                                assert_eq!((wide - wide_then).0, (truth - truth_then) as i64);
                                compared.fetch_add(1, Ordering::Relaxed);
                            }
                            last = Some((wide, truth, before));
                        }
                    }
                })
            })
            .collect();
        // Now and then half a roll-over passes at once, so that there are lapses.
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                machine.truth.fetch_add(1500, Ordering::SeqCst);
                thread::yield_now();
            }
        });
        for reader in readers {
            reader.join().unwrap();
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(compared.into_inner() > 0);
}

mod model {
    //! All interleavings of a few threads, under the memory model of C11.

    use std::cell::Cell;

    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, Ordering};
    use loom::thread;

    use super::super::*;
    use super::{ns, width};

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

    /// A counter of 4 bits whose clock has a tick of 2 counts.
    struct World {
        truth: AtomicU64,
        keeper: Keeper<AtomicU64>,
    }

    const START: u64 = 20;

    impl World {
        fn new() -> Arc<World> {
            let keeper = Keeper::new(width(4), ns(START & !1), START);
            Arc::new(World { truth: AtomicU64::new(START), keeper })
        }

        /// A read of a device or of time itself is always the newest: a read-modify-write.
        fn now(&self) -> u64 {
            self.truth.fetch_add(0, Ordering::SeqCst)
        }

        /// Error of a reading: read − true.
        fn read(&self) -> i64 {
            let seen = Cell::new(0);
            let raw = || {
                seen.set(self.now());
                seen.get()
            };
            let wide = self.keeper.read(raw, || ns(self.now() & !1)).wide;
            (wide.0 as i64) - seen.get() as i64
        }
    }

    /// Two threads read while time makes these jumps, and somebody once more at the end: without
    /// a lapse, all that they read is off by the same.
    fn check(jumps: &'static [u64], preemptions: usize) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(preemptions);
        model.check(move || {
            let world = World::new();
            let readers = [world.clone(), world.clone()].map(|w| thread::spawn(move || w.read()));
            let time = {
                let world = world.clone();
                thread::spawn(move || {
                    for jump in jumps {
                        world.truth.fetch_add(*jump, Ordering::SeqCst);
                    }
                })
            };
            let [one, other] = readers.map(|reader| reader.join().unwrap());
            time.join().unwrap();
            let last = world.read();
            let lapses = world.keeper.lapses();
            if lapses == 0 {
                assert_eq!([one, other, last], [16 - (START as i64 & !15); 3]);
            }
            // One for the time that passed, and one for who is seen half-way through that.
            assert!(lapses <= 2, "{lapses}");
            assert_eq!(world.keeper.lapses(), lapses);
            assert_eq!((world.read(), world.keeper.lapses()), (last, lapses));
        });
    }

    #[test]
    fn time_passes_by_less_than_half_a_roll_over() {
        check(&[6, 6], 3);
    }

    #[test]
    fn time_passes_by_more() {
        check(&[9], 2);
    }
}
