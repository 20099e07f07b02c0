use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use truechimer_time::{CountSpan, Period};

use super::*;

/// A host and a card in made-up time, by a counter of nanoseconds.
#[derive(Clone)]
struct World(Arc<Mutex<State>>);

struct State {
    /// The count.
    now: i64,
    /// Rate by which `CLOCK_REALTIME` runs fast, ppm, and its time at count 0, ns.
    host_ppm: i64,
    host_at_0: i64,
    /// Rate by which the card runs fast, and its time at count 0.
    device_ppm: i64,
    device_at_0: i64,
    /// At this count `CLOCK_REALTIME` is stepped by so much.
    step: Option<(i64, i64)>,
    /// Delays at the beginning and the end of each call, in turn, counts.
    delays: Vec<i64>,
    used: usize,
    /// Which calls there are.
    has_precise: bool,
    has_extended: bool,
    /// True while the driver's readings may stand between two of the raw clock.
    has_raw: bool,
    /// The counts at which the card was read, with what it showed.
    truth: Vec<(i64, i64)>,
}

impl State {
    fn pass(&mut self) {
        let delay = self.delays.get(self.used % self.delays.len().max(1)).copied().unwrap_or(30);
        self.used += 1;
        self.now += delay;
    }

    fn realtime(&self) -> i64 {
        let step = self.step.filter(|(at, _)| self.now >= *at).map_or(0, |(_, by)| by);
        self.host_at_0 + self.now + self.now * self.host_ppm / 1_000_000 + step
    }

    /// The raw clock is off from the counter's nominal rate, and nobody touches it.
    fn raw(&self) -> i64 {
        5_000_000_000 + self.now - self.now / 20_000
    }

    fn clock(&self, of: Beside) -> i64 {
        match of {
            Beside::Realtime => self.realtime(),
            Beside::Raw => self.raw(),
        }
    }

    fn device(&mut self) -> i64 {
        let shown = self.device_at_0 + self.now + self.now * self.device_ppm / 1_000_000;
        self.truth.push((self.now, shown));
        shown
    }
}

impl Host for World {
    fn pair(&mut self, of: Beside) -> HostPair {
        let mut state = self.0.lock().unwrap();
        let before = Count(state.now as u64);
        state.pass();
        let unix_ns = state.clock(of);
        state.pass();
        let after = Count(state.now as u64);
        if of == Beside::Raw {
            return HostPair { before, unix_ns, after, monotonic_ns: unix_ns, end: after };
        }
        let monotonic_ns = state.now + state.now * state.host_ppm / 1_000_000;
        state.pass();
        HostPair { before, unix_ns, after, monotonic_ns, end: Count(state.now as u64) }
    }

    fn count(&mut self) -> Count {
        let mut state = self.0.lock().unwrap();
        state.pass();
        Count(state.now as u64)
    }
}

fn lacking<T>() -> io::Result<T> {
    Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
}

impl Device for World {
    fn precise(&mut self) -> io::Result<[Option<i64>; 2]> {
        let mut state = self.0.lock().unwrap();
        if !state.has_precise {
            return lacking();
        }
        state.pass();
        let both = [Some(state.device()), Some(state.raw())];
        state.pass();
        Ok(both)
    }

    fn extended(&mut self, beside: Beside) -> io::Result<Vec<[Option<i64>; 3]>> {
        let mut state = self.0.lock().unwrap();
        if beside == Beside::Raw && !state.has_raw {
            // As Linux before 6.12 has it.
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        if !state.has_extended {
            return lacking();
        }
        let mut one = || {
            state.pass();
            let before = state.clock(beside);
            state.pass();
            let device = state.device();
            state.pass();
            [Some(before), Some(device), Some(state.clock(beside))]
        };
        Ok((0..5).map(|_| one()).collect())
    }

    fn read(&mut self) -> io::Result<i64> {
        let mut state = self.0.lock().unwrap();
        state.pass();
        let shown = state.device();
        state.pass();
        Ok(shown)
    }
}

fn world(has_precise: bool, has_extended: bool, has_raw: bool) -> World {
    World(Arc::new(Mutex::new(State {
        now: 1_000_000_000,
        host_ppm: 37,
        host_at_0: 1_700_000_000_000_000_000,
        device_ppm: -120,
        device_at_0: 1_700_000_037_000_000_000,
        step: None,
        delays: vec![30],
        used: 0,
        has_precise,
        has_extended,
        has_raw,
        truth: Vec::new(),
    })))
}

fn clock(world: &World) -> DeviceClock {
    let log = PairLog::new(Period::NANOSECOND, CountSpan(1));
    DeviceClock::new(Box::new(world.clone()), Box::new(world.clone()), log)
}

/// Says that the pair holds the count at which the card showed what it says.
fn holds(world: &World, pair: DevicePair) -> bool {
    let state = world.0.lock().unwrap();
    state.truth.iter().any(|(count, shown)| {
        let count = Count(*count as u64);
        *shown == pair.device_ns && count.at_or_after(pair.before) && pair.after.at_or_after(count)
    })
}

fn width(pair: DevicePair) -> i64 {
    (pair.after - pair.before).0
}

#[test]
fn the_best_way_that_there_is() {
    for (has, way, widest) in [
        ((true, true, true), Way::Precise, 70),
        ((false, true, true), Way::Extended(Beside::Raw), 130),
        ((false, true, false), Way::Extended(Beside::Realtime), 130),
        ((false, false, false), Way::Around, 90),
    ] {
        let world = world(has.0, has.1, has.2);
        let mut clock = clock(&world);
        let pair = clock.pair().unwrap();
        assert!(holds(&world, pair) && width(pair) <= widest, "{way:?}: {}", width(pair));
        assert_eq!(clock.way, way);
        assert!(!clock.way().is_empty());
    }
}

#[test]
fn the_narrowest_reading_counts() {
    let world = world(false, true, false);
    // The card takes 20 µs over each of its readings but the third.
    let mut delays = vec![30; 5];
    (0..5).for_each(|number| delays.extend([30, if number == 2 { 40 } else { 20_000 }, 30]));
    let mut clock = clock(&world);
    clock.way = Way::Extended(Beside::Realtime);
    // Four waits before the first of them: three of the host's pair, one of the count.
    delays.remove(0);
    world.0.lock().unwrap().delays = delays;
    let pair = clock.pair().unwrap();
    assert!(holds(&world, pair) && width(pair) < 1000, "{}", width(pair));
}

#[test]
fn a_failing_clock_is_an_error() {
    struct Gone;
    impl Device for Gone {
        fn precise(&mut self) -> io::Result<[Option<i64>; 2]> {
            Err(io::Error::from_raw_os_error(libc::ENODEV))
        }
        fn extended(&mut self, _: Beside) -> io::Result<Vec<[Option<i64>; 3]>> {
            Err(io::Error::from_raw_os_error(libc::ENODEV))
        }
        fn read(&mut self) -> io::Result<i64> {
            panic!("the way before failed, and is not lacking")
        }
    }
    let log = PairLog::new(Period::NANOSECOND, CountSpan(1));
    let mut clock = DeviceClock::new(Box::new(Gone), Box::new(world(true, true, true)), log);
    assert_eq!(clock.pair().unwrap_err().raw_os_error(), Some(libc::ENODEV));
}

#[test]
fn where_both_clocks_cannot_be_read_at_once_the_driver_reads_the_card() {
    /// A card whose hardware answers so.
    struct Failing(World, i32);
    impl Device for Failing {
        fn precise(&mut self) -> io::Result<[Option<i64>; 2]> {
            Err(io::Error::from_raw_os_error(self.1))
        }
        fn extended(&mut self, beside: Beside) -> io::Result<Vec<[Option<i64>; 3]>> {
            self.0.extended(beside)
        }
        fn read(&mut self) -> io::Result<i64> {
            self.0.read()
        }
    }
    // Another clocksource: for good. A time-out of igc's, a card that is being reset: for once.
    for (errno, way) in [
        (libc::ENODEV, Way::Extended(Beside::Raw)),
        (libc::ETIMEDOUT, Way::Precise),
        (libc::EBUSY, Way::Precise),
    ] {
        for has_extended in [true, false] {
            let world = world(true, has_extended, has_extended);
            let log = PairLog::new(Period::NANOSECOND, CountSpan(1));
            let failing = Failing(world.clone(), errno);
            let mut clock = DeviceClock::new(Box::new(failing), Box::new(world.clone()), log);
            for _ in 0..2 {
                let pair = clock.pair().unwrap();
                assert!(holds(&world, pair), "{errno}");
            }
            let lacking = way != Way::Precise && !has_extended;
            assert_eq!(clock.way, if lacking { Way::Around } else { way }, "{errno}");
        }
    }
}

#[test]
fn what_no_clock_shows_is_no_reading() {
    struct Odd(World);
    impl Device for Odd {
        fn precise(&mut self) -> io::Result<[Option<i64>; 2]> {
            Ok([None, Some(5)])
        }
        fn extended(&mut self, beside: Beside) -> io::Result<Vec<[Option<i64>; 3]>> {
            let mut all = self.0.extended(beside)?;
            all[0] = [Some(9), Some(5), Some(8)];
            all[1] = [Some(i64::MIN), Some(5), None];
            Ok(all)
        }
        fn read(&mut self) -> io::Result<i64> {
            lacking()
        }
    }
    let world = world(true, true, true);
    let log = PairLog::new(Period::NANOSECOND, CountSpan(1));
    let mut clock = DeviceClock::new(Box::new(Odd(world.clone())), Box::new(world.clone()), log);
    assert!(clock.pair_by(Way::Precise).is_err_and(|why| why.kind() == io::ErrorKind::InvalidData));
    assert!(holds(&world, clock.pair().unwrap()));
    assert_eq!(clock.way, Way::Precise);
}

#[test]
fn there_is_no_such_clock() {
    let counter = Counter::open(truechimer_counter::Choice::Raw).unwrap();
    let open = |path: &str| {
        DeviceClock::open(path.as_ref(), counter, Period::NANOSECOND, CountSpan(1)).unwrap_err()
    };
    assert_eq!(open("/dev/ptp4000000000").kind(), io::ErrorKind::NotFound);
    // It is a device, and can be read neither way.
    assert!(open("/dev/null").raw_os_error().is_some());
}

#[test]
fn clocks_are_found_by_path_name_and_interface() {
    let classes = std::env::temp_dir().join(format!("truechimer-phc-{}", std::process::id()));
    let make = |path: &str, text: &str| {
        let path = classes.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let found = |name: &str| find_in(&classes, name).map(|path| path.display().to_string());
    assert!(found("x").unwrap_err().contains("this machine has none"));
    make("ptp/ptp0/clock_name", "KVM virtual PTP\n");
    make("ptp/ptp1/clock_name", "mlx5_ptp\n");
    make("ptp/ptp2/clock_name", "mlx5_ptp\n");
    make("net/eth0/device/ptp/ptp2/clock_name", "mlx5_ptp\n");
    make("net/lo/mtu", "");
    assert_eq!(found("/dev/ptp7"), Ok("/dev/ptp7".into()));
    assert_eq!(found("KVM virtual PTP"), Ok("/dev/ptp0".into()));
    assert_eq!(found("eth0"), Ok("/dev/ptp2".into()));
    assert!(found("mlx5_ptp").unwrap_err().contains("/dev/ptp1 and /dev/ptp2 are called mlx5_ptp"));
    let none = found("lo").unwrap_err();
    assert!(none.contains("called lo; there are /dev/ptp0 (KVM virtual PTP), /dev/ptp1"), "{none}");
    assert!(found("../net/eth0").is_err());
    std::fs::remove_dir_all(classes).unwrap();
}

#[test]
fn errors_that_drivers_state() {
    assert_eq!(parse_error("17123\n"), Span::from_nanos(17_123));
    for text in ["", "0", "-1", "x", "99999999999"] {
        assert_eq!(parse_error(text), Span::ZERO, "{text}");
    }
    assert_eq!(stated_error("/dev/null".as_ref()), None);
    // As the ENA driver has it, of the device and of a link to it; and a card whose driver has no such file.
    let classes = std::env::temp_dir().join(format!("truechimer-stated-{}", std::process::id()));
    let (of_ena, bare) = (classes.join("ptp/ptp0/device"), classes.join("ptp/ptp1/device"));
    for folder in [&of_ena, &bare] {
        std::fs::create_dir_all(folder).unwrap();
    }
    let [first, second, link] = ["ptp0", "ptp1", "ptp_ena"].map(|name| classes.join(name));
    std::fs::write(&first, "").unwrap();
    std::fs::write(&second, "").unwrap();
    std::os::unix::fs::symlink(&first, &link).unwrap();
    for (text, error) in [("21500\n", Span::from_nanos(21_500)), ("0\n", Span::ZERO)] {
        std::fs::write(of_ena.join("phc_error_bound"), text).unwrap();
        for device in [&first, &link] {
            assert_eq!(stated_in(&classes, device), Some(error));
        }
    }
    assert_eq!(stated_in(&classes, &second), None);
    assert_eq!(stated_in(&classes, &classes.join("ptp7")), None);
    std::fs::remove_dir_all(classes).unwrap();
}

#[test]
fn a_pair_as_a_stamp() {
    for (before, after) in [(10, 10), (10, 11), (10, 20)] {
        let pair = DevicePair { before: Count(before), device_ns: 0, after: Count(after) };
        let Stamp { count, error, .. } = pair.stamp(CountSpan(2));
        let reaches = (count - error, count + error);
        assert!(pair.before.at_or_after(reaches.0) && reaches.1.at_or_after(pair.after));
        assert!(error.0 <= (after - before) as i64 / 2 + 3);
    }
}

proptest! {
    /// However the clocks run, whatever takes how long, and if the host's is stepped meanwhile:
    /// the card showed what the pair says at a count within it.
    #[test]
    fn a_pair_holds_the_truth(
        (has_precise, has_extended, has_raw) in any::<(bool, bool, bool)>(),
        (host_ppm, device_ppm) in (-1000_i64..1000, -1000_i64..1000),
        delays in prop::collection::vec(prop_oneof![10_i64..100, 100_i64..200_000], 1..40),
        step in prop::option::of((0_i64..2_000_000, -10_000_000_i64..10_000_000)),
    ) {
        let world = world(has_precise, has_extended, has_raw);
        {
            let mut state = world.0.lock().unwrap();
            (state.host_ppm, state.device_ppm) = (host_ppm, device_ppm);
            state.delays = delays;
            let now = state.now;
            state.step = step.map(|(after, by)| (now + after, by));
        }
        let mut clock = clock(&world);
        for _ in 0..3 {
            let pair = clock.pair().unwrap();
            prop_assert!(holds(&world, pair), "{pair:?}");
        }
    }
}
