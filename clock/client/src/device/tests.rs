//! A device, its daemon and a reader in made-up time: whatever the daemon, the machine and the
//! scheduler do, a count is right or there is none.

use std::cell::{Cell, RefCell};

use proptest::prelude::*;
use truechimer_time::{BootId, CounterId, Epoch, Instant};
use truechimer_timehands::ByRaw;

use super::*;

/// The device's name where the kernel keeps time by it.
const CLOCKSOURCE: &str = "acpi_pm";
/// The kernel's tick, ns: the coarse clock stands still in between.
const TICK: i64 = 4_000_000;
/// Number of counts that a pair's count and raw clock may be apart.
const PAIR: i64 = 9;

/// State that a daemon has published.
#[derive(Clone, Copy)]
struct Published {
    generation: u64,
    /// Difference of its counts − the true ones, a multiple of the roll-over.
    ahead: u64,
    hand: Hand,
    made: Made,
}

/// The world, in which time moves whenever somebody looks at something.
struct World {
    bits: u32,
    period: Period,
    /// True counts since the device was made.
    truth: Cell<u64>,
    random: Cell<u64>,
    /// True if waits may be long, and the daemon may be stopped.
    rough: bool,
    may_read: bool,
    clocksource: RefCell<&'static str>,
    published: Cell<Published>,
    kept: Cell<Option<Kept>>,
    /// When the daemon was last at work, and when it will be again (true counts).
    daemon: Cell<(u64, u64)>,
    /// Where the device was read last.
    read_at: Cell<u64>,
    /// Gain of the raw clock while the kernel kept time by something else, ns.
    gained: Cell<i64>,
    /// Amount by which counts are ahead, generation by generation.
    rows: RefCell<Vec<(u64, u64)>>,
}

impl World {
    fn new(bits: u32, hz: u64, seed: u64, rough: bool, may_read: bool) -> World {
        let period = Period::from_hz(hz);
        let first = Published { generation: 0, ahead: 0, hand: hand(period), made: MADE };
        let world = World {
            bits,
            period,
            truth: Cell::new(seed >> 20),
            random: Cell::new(seed | 1),
            rough,
            may_read,
            clocksource: RefCell::new(CLOCKSOURCE),
            published: Cell::new(first),
            kept: Cell::new(None),
            daemon: Cell::new((seed >> 20, 0)),
            read_at: Cell::new(0),
            gained: Cell::new(0),
            rows: RefCell::new(Vec::new()),
        };
        world.publish(seed & 7);
        world
    }

    fn random(&self, below: u64) -> u64 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        (x >> 11) % below.max(1)
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    fn counts(&self, ms: u64) -> u64 {
        self.period.counts(Span::from_millis(ms as i64)).0 as u64
    }

    fn now_ns(&self) -> i64 {
        self.period.span(CountSpan(self.truth.get() as i64)).as_nanos_i64()
    }

    fn coarse_ns(&self) -> i64 {
        (self.now_ns() / TICK + 1) * TICK
    }

    fn raw_ns(&self) -> i64 {
        // As the kernel has it: some other origin.
        self.now_ns() - 77_777 + self.gained.get()
    }

    fn limit_ns(&self) -> i64 {
        self.period.span(CountSpan(1 << (self.bits - 1).min(62))).as_nanos_i64()
    }

    /// A moment passes, or some seconds do; whatever the daemon does meanwhile is done.
    fn pass(&self) {
        let most = match self.random(20) {
            0 if self.rough => self.counts(20_000),
            1 if self.rough => self.counts(2_400),
            2..4 => self.counts(300),
            _ => 40,
        };
        self.truth.set(self.truth.get() + self.random(most));
        if self.rough && self.random(40) == 0 {
            let names = [CLOCKSOURCE, "tsc"];
            *self.clocksource.borrow_mut() = names[self.random(2) as usize];
        }
        self.work();
    }

    /// The daemon keeps the counter, unless it is stopped.
    fn work(&self) {
        let (last, next) = self.daemon.get();
        let now = self.truth.get();
        if now < next {
            return;
        }
        let age = self.period.span(CountSpan((now - last) as i64)).as_nanos_i64();
        if self.bits < 64 && age >= self.limit_ns() - 2 * TICK {
            self.kept.set(None);
            self.publish(1 + self.random(3));
        } else if self.random(5) == 0 {
            self.publish(0);
        }
        let wide = Count(now + self.published.get().ahead);
        self.kept.set(Some(Kept { wide, at_ns: self.coarse_ns() - TICK }));
        let stopped = if self.rough && self.random(6) == 0 { 15_000 } else { 900 };
        self.daemon.set((now, now + self.random(self.counts(stopped))));
    }

    /// Publishes a hand whose counts are `rows` roll-overs ahead of those before.
    fn publish(&self, rows: u64) {
        let old = self.published.get();
        let roll_over = if self.bits == 64 { 0 } else { 1u64 << self.bits };
        let ahead = old.ahead + rows * roll_over;
        let count = Count(self.truth.get() + ahead);
        let off = self.random(2 * PAIR as u64) as i64 - PAIR;
        let by_raw = ByRaw { period: self.period, error: Rate::from_ppb(1), pair: CountSpan(PAIR) };
        let by_raw = (*self.clocksource.borrow() == CLOCKSOURCE).then_some(by_raw);
        let made = Made {
            count: count + CountSpan(off),
            raw_ns: self.raw_ns(),
            device: Some(Said { bits: self.bits, by_raw }),
            ..MADE
        };
        let void_after = count + CountSpan(self.counts(4_000_000) as i64);
        let hand = Hand { base: count, void_after, ..old.hand };
        let generation = old.generation + 1;
        self.rows.borrow_mut().push((generation, ahead));
        self.published.set(Published { generation, ahead, hand, made });
    }
}

const MADE: Made =
    Made { count: Count(0), monotonic_ns: 0, raw_ns: 0, suspended_ns: 0, device: None };

fn hand(period: Period) -> Hand {
    let kind = CounterKind::AcpiPm;
    Hand {
        difference_error: Rate::from_ppb(100),
        path_bound: Span::from_micros(50),
        statistical_bound: Span::from_micros(5),
        growth: Rate::from_ppb(500),
        ..Hand::exact(
            CounterId { kind, boot: BootId::default(), epoch: Epoch(3) },
            Count(0),
            Instant::new(1_700_000_000, 0),
            period,
            Count(0),
        )
    }
}

impl Page for World {
    fn generation(&self) -> u64 {
        self.pass();
        self.published.get().generation
    }

    fn kept(&self) -> Option<Kept> {
        self.pass();
        self.kept.get()
    }

    fn heartbeat(&self) -> Count {
        self.pass();
        self.kept.get().map_or(Count(0), |kept| kept.wide)
    }
}

impl Machine for World {
    /// Reads it as `Counter::read_from` does.
    fn device(&self, bits: u32, kept: Option<Kept>) -> Result<Count, NoDevice> {
        assert_eq!(bits, self.bits);
        if !self.may_read {
            return Err(NoDevice::Counter(CounterError::NotHere(CounterKind::AcpiPm)));
        }
        self.pass();
        let truth = self.truth.get();
        self.read_at.set(truth);
        let Some(kept) = kept else { return Ok(Count(truth + self.published.get().ahead)) };
        let ahead = (truth & self.mask()).wrapping_sub(kept.wide.0) & self.mask();
        self.pass();
        let age = self.coarse_ns() - kept.at_ns;
        if !(0..self.limit_ns()).contains(&age) {
            return Err(NoDevice::NotKept);
        }
        Ok(Count(kept.wide.0 + ahead))
    }

    fn clocks(&self) -> HostReading {
        self.pass();
        let raw_ns = self.raw_ns();
        self.read_at.set(self.truth.get());
        HostReading {
            count: Count(raw_ns as u64),
            raw_ns,
            suspended_ns: 0,
            monotonic_ns: raw_ns,
            width: CountSpan(0),
        }
    }

    fn clocksource(&self) -> Option<String> {
        // As quickly as it may be: what it was meanwhile is the test of another day.
        Some((*self.clocksource.borrow()).to_owned())
    }
}

/// One look, as the clock does it. `None`: to be done again, or no count at all.
fn look_once(world: &World, vetted: bool) -> Result<Option<Look>, NoDevice> {
    world.pass();
    let Published { generation, hand, made, .. } = world.published.get();
    let sight = Sight { page: world, machine: world, generation, hand: &hand, made: &made };
    match look(&sight, CLOCKSOURCE, vetted) {
        Ok(look) => {
            let row = world.rows.borrow().iter().find(|(g, _)| *g == generation).unwrap().1;
            // The last reading of the device or of the clock is the one that counts.
            let truth = Count(world.read_at.get() + row);
            let off = (look.count - truth).abs();
            assert!(off <= look.error, "{look:?} is off by {off:?} in generation {generation}");
            Ok(Some(look))
        }
        Err(Trouble::Changed) => Ok(None),
        Err(Trouble::Unreadable(why, _)) => Err(why),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_count_is_right_or_there_is_none(
        (bits, hz) in prop::sample::select(vec![
            (24, 3_579_545), (32, 3_579_545), (32, 14_318_180), (64, 100_000_000),
        ]),
        seed: u64,
        may_read: bool,
        vetted: bool,
    ) {
        let world = World::new(bits, hz, seed, true, may_read);
        for _ in 0..60 {
            let _ = look_once(&world, vetted);
        }
    }

    #[test]
    fn where_all_is_well_there_is_a_count(
        (bits, hz) in prop::sample::select(vec![(24, 3_579_545), (32, 14_318_180)]),
        seed: u64,
        may_read: bool,
    ) {
        let world = World::new(bits, hz, seed, false, may_read);
        // The daemon's first check.
        while world.kept.get().is_none() {
            world.pass();
        }
        let mut looks = 0;
        for _ in 0..60 {
            let look = look_once(&world, false).unwrap();
            let by = if may_read { ReadBy::Device } else { ReadBy::RawClock };
            prop_assert!(look.is_none_or(|look| look.read_by == by && look.host.is_some()));
            looks += i32::from(look.is_some());
        }
        prop_assert!(looks > 30, "{looks} looks of 60");
    }
}

#[test]
fn a_stopped_daemon_leaves_a_count_for_half_a_roll_over_or_to_the_raw_clock() {
    let world = World::new(24, 3_579_545, 12_345, false, true);
    while world.kept.get().is_none() {
        world.pass();
    }
    world.daemon.set((world.truth.get(), u64::MAX));
    let after = |ms| {
        world.truth.set(world.truth.get() + world.counts(ms));
        look_once(&world, true).map(|look| look.unwrap().read_by)
    };
    assert_eq!(after(1_000), Ok(ReadBy::Device));
    assert_eq!(after(2_400), Ok(ReadBy::RawClock));
    *world.clocksource.borrow_mut() = "tsc";
    assert_eq!(after(1), Err(NoDevice::NotKept));
    *world.clocksource.borrow_mut() = CLOCKSOURCE;
    assert_eq!(after(9_000), Ok(ReadBy::RawClock));
}

#[test]
fn another_clocksource_that_nobody_saw_is_in_the_error() {
    let world = World::new(24, 3_579_545, 12_345, false, false);
    while world.kept.get().is_none() {
        world.pass();
    }
    let tended = look_once(&world, true).unwrap().unwrap();
    assert!(world.period.span(tended.error) < Span::from_micros(10), "{tended:?}");
    world.daemon.set((world.truth.get(), u64::MAX));
    let after = |ms, gained| {
        world.truth.set(world.truth.get() + world.counts(ms));
        world.gained.set(gained);
        // It fails if the error is not in it.
        look_once(&world, true).unwrap().unwrap()
    };
    // The kernel kept time by another one, half a part in a thousand off, and does no longer.
    for seconds in 1..4000 {
        let look = after(1_000, 450_000 * i64::from(seconds >= 4) * (seconds - 3));
        assert_eq!(look.read_by, ReadBy::RawClock);
        let error = world.period.span(look.error);
        assert!(error < Span::from_micros(seconds * 1_400 + 2_000), "{error} after {seconds} s");
        // A suspend shows however large that is.
        assert!(world.period.span(look.host.unwrap().width) < Span::from_millis(1));
    }
}

#[test]
fn a_daemon_that_just_keeps_another_count_is_asked_again() {
    /// Says nothing every other time.
    struct Busy<'w>(&'w World, Cell<u32>);

    impl Page for Busy<'_> {
        fn generation(&self) -> u64 {
            self.0.published.get().generation
        }

        fn kept(&self) -> Option<Kept> {
            self.1.set(self.1.get() + 1);
            self.0.kept().filter(|_| self.1.get().is_multiple_of(2))
        }

        fn heartbeat(&self) -> Count {
            Page::heartbeat(self.0)
        }
    }

    let world = World::new(24, 3_579_545, 99, false, true);
    while world.kept.get().is_none() {
        world.pass();
    }
    // Nothing else will do.
    *world.clocksource.borrow_mut() = "tsc";
    world.daemon.set((world.truth.get(), u64::MAX));
    let page = Busy(&world, Cell::new(0));
    let Published { generation, hand, made, .. } = world.published.get();
    let sight = Sight { page: &page, machine: &world, generation, hand: &hand, made: &made };
    for vetted in [true, false, true] {
        assert_eq!(look(&sight, CLOCKSOURCE, vetted).unwrap().read_by, ReadBy::Device);
    }
}

#[test]
fn a_hand_that_was_vetted_and_is_tended_takes_one_reading() {
    let world = World::new(24, 3_579_545, 99, false, true);
    while world.kept.get().is_none() {
        world.pass();
    }
    let find = |vetted| loop {
        if let Some(look) = look_once(&world, vetted).unwrap() {
            break look;
        }
    };
    assert!(find(true).host.is_none() && find(false).host.is_some());
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let why = |device, raw| Unreadable { kind: CounterKind::AcpiPm, device, raw }.to_string();
    let now = Some("tsc".to_owned());
    let text = why(NoDevice::NotKept, NoRawClock::Clocksource { now, wanted: CLOCKSOURCE });
    for part in ["acpi-pm", "is tsc, not acpi_pm", "root", "--counter raw", "select acpi_pm"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = why(NoDevice::Width { here: 32, page: 24 }, NoRawClock::NotSaid);
    assert!(text.contains("32 bits here, and 24") && text.contains("in a second"), "{text}");
}
