//! The inversion against clocks that are made up, so that the truth is known: whatever happens to
//! `CLOCK_REALTIME`, the true count lies within the stated error.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use truechimer_counter::HostPair;
use truechimer_stamp::{NoStamp, PairLog, Window};
use truechimer_time::{Count, CountSpan, Period, Stamp, StampMethod};

/// Counts per second: the machine that `CLOCK_REALTIME` of these tests runs on.
const HZ: i64 = 2_600_000_000;
/// The counter goes in steps of 10 ns.
const RESOLUTION: i64 = 26;

/// Counts in so many nanoseconds, for a counter of exactly 2.6 GHz.
const fn ns(nanos: i64) -> i64 {
    nanos * 26 / 10
}

/// Random choices of a test case.
struct Dice {
    rng: ChaCha8Rng,
    /// One time in how many reading a clock is held up by up to 20 µs; 0: never.
    held_up: i64,
}

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice { rng: ChaCha8Rng::seed_from_u64(seed), held_up: 0 }
    }

    fn between(&mut self, lo: i64, hi: i64) -> i64 {
        lo + (self.rng.next_u64() % (hi - lo + 1) as u64) as i64
    }

    /// Draws a number, as likely in each factor of two.
    fn log_between(&mut self, lo: i64, hi: i64) -> i64 {
        let share = self.rng.next_u64() as f64 / u64::MAX as f64;
        ((lo as f64) * ((hi as f64) / (lo as f64)).powf(share)) as i64
    }

    fn one_in(&mut self, n: i64) -> bool {
        self.between(1, n) == 1
    }

    fn sign(&mut self) -> i64 {
        if self.one_in(2) { 1 } else { -1 }
    }
}

/// A clock like `CLOCK_REALTIME`: a line with bends and steps. Time runs in counts since the test
/// began, and is quantised where a real counter would be.
struct Clock {
    /// From this count on (ascending), this rate in ppm.
    bends: Vec<(i64, i64)>,
    /// At these counts, so many ns forward.
    steps: Vec<(i64, i64)>,
    /// Value of counters at the beginning.
    origin: u64,
}

/// Time of the clock at first, ns.
const EPOCH: i64 = 1_790_000_000_000_000_000;

impl Clock {
    fn quantised(at: i64) -> i64 {
        at.div_euclid(RESOLUTION) * RESOLUTION
    }

    fn count(&self, at: i64) -> Count {
        Count(self.origin.wrapping_add_signed(Self::quantised(at)))
    }

    /// The count that a perfect counter would show.
    fn truth(&self, at: i64) -> Count {
        Count(self.origin.wrapping_add_signed(at))
    }

    /// `CLOCK_MONOTONIC` since the beginning, in ns.
    fn monotonic(&self, at: i64) -> i64 {
        let at = Self::quantised(at);
        // In units of 10⁻⁶ counts.
        let mut shown = 0i128;
        for (index, (from, ppm)) in self.bends.iter().enumerate() {
            let until = self.bends.get(index + 1).map_or(at, |next| next.0.min(at));
            shown += i128::from((until - from).max(0)) * i128::from(1_000_000 + ppm);
        }
        (shown * 10 / 26_000_000) as i64
    }

    fn realtime(&self, at: i64) -> i64 {
        let stepped = |(when, by): &(i64, i64)| if at >= *when { *by } else { 0 };
        EPOCH + self.monotonic(at) + self.steps.iter().map(stepped).sum::<i64>()
    }

    /// A pair that begins at `at`, as wide as the best of a few are; and when it is done.
    fn pair(&self, dice: &mut Dice, at: i64) -> (HostPair, i64) {
        let mut now = at;
        let mut pass = |lo, hi| {
            let held_up = dice.held_up > 0 && dice.one_in(dice.held_up);
            now += ns(dice.between(lo, if held_up { 20_000 } else { hi }));
            now
        };
        let read = pass(15, 40);
        let after = pass(30, 60);
        let again = pass(15, 40);
        let end = pass(15, 40);
        let pair = HostPair {
            before: self.count(at),
            unix_ns: self.realtime(read),
            after: self.count(after),
            monotonic_ns: self.monotonic(again),
            end: self.count(end),
        };
        (pair, end)
    }
}

/// One exchange with a server: when each thing truly happened, and what a program knows of it.
struct Exchange {
    clock: Clock,
    log: PairLog,
    departure: i64,
    departure_window: Window,
    arrival: i64,
    arrival_window: Window,
}

impl Exchange {
    fn run(dice: &mut Dice, clock: Clock, times: Times) -> Exchange {
        let mut log = PairLog::new(Period::from_hz(HZ as u64), CountSpan(RESOLUTION));
        let (pair, entered) = clock.pair(dice, times.begin);
        log.push(pair);
        let departure = entered + ns(dice.between(1_700, 2_000));
        let stamped = departure + ns(dice.between(5_000, 30_000));
        let (pair, waiting) = clock.pair(dice, stamped);
        log.push(pair);
        let arrival = departure + ns(times.round_trip);
        let received = arrival.max(waiting) + ns(times.wake_up);
        log.push(clock.pair(dice, received).0);
        let window =
            |latest| Window { earliest: clock.count(entered), latest: clock.count(latest) };
        Exchange {
            departure_window: window(stamped),
            arrival_window: window(received),
            clock,
            log,
            departure,
            arrival,
        }
    }

    /// Both stamps, each with what it should be.
    fn stamps(&self) -> [(Result<Stamp, NoStamp>, Count); 2] {
        [(self.departure, self.departure_window), (self.arrival, self.arrival_window)].map(
            |(at, window)| (self.log.invert(self.clock.realtime(at), window), self.clock.truth(at)),
        )
    }
}

/// Times that things take, ns (`begin`: counts).
#[derive(Clone, Copy)]
struct Times {
    begin: i64,
    round_trip: i64,
    wake_up: i64,
}

impl Times {
    /// Round trips from the same machine to the other side of the world; a receiver that is on
    /// the processor at once, or one time in a hundred only after up to 0.2 s.
    fn roll(dice: &mut Dice) -> Times {
        let starved = dice.one_in(100);
        Times {
            begin: ns(dice.between(0, 10_000_000)),
            round_trip: dice.log_between(30_000, 250_000_000),
            wake_up: if starved {
                dice.log_between(100_000, 200_000_000)
            } else {
                dice.between(5_000, 60_000)
            },
        }
    }

    fn end(&self) -> i64 {
        self.begin + ns(self.round_trip + self.wake_up + 100_000)
    }
}

/// Outcome of many exchanges.
#[derive(Default, Debug)]
struct Tally {
    stamps: u32,
    refused: u32,
    within_microsecond: u32,
    worst_error: i64,
}

impl Tally {
    /// Runs `cases` exchanges by clocks that `make` makes up. The truth lies within every bound.
    fn of(seed: u64, cases: u32, make: impl Fn(&mut Dice, Times) -> Clock) -> Tally {
        Tally::by(Dice::new(seed), seed, cases, make)
    }

    fn by(
        mut dice: Dice,
        seed: u64,
        cases: u32,
        make: impl Fn(&mut Dice, Times) -> Clock,
    ) -> Tally {
        let mut tally = Tally::default();
        for case in 0..cases {
            let times = Times::roll(&mut dice);
            let clock = make(&mut dice, times);
            let exchange = Exchange::run(&mut dice, clock, times);
            for (stamp, truth) in exchange.stamps() {
                let Ok(stamp) = stamp else {
                    tally.refused += 1;
                    continue;
                };
                let off = (stamp.count - truth).0;
                assert!(
                    off.abs() <= stamp.error.0,
                    "case {case} of seed {seed}: off by {off} counts, bound {}: bends {:?}, \
                     steps {:?}, {} ns round trip, {} ns to wake up",
                    stamp.error.0,
                    exchange.clock.bends,
                    exchange.clock.steps,
                    times.round_trip,
                    times.wake_up
                );
                assert_eq!(stamp.method, StampMethod::Kernel);
                tally.stamps += 1;
                tally.within_microsecond += u32::from(stamp.error.0 <= ns(1_000));
                tally.worst_error = tally.worst_error.max(stamp.error.0);
            }
        }
        println!("seed {seed}: {tally:?}");
        tally
    }

    fn share_within_microsecond(&self) -> f64 {
        f64::from(self.within_microsecond) / f64::from(self.stamps)
    }
}

/// ±500 ppm, turned round every 3 ms.
fn toggled(dice: &mut Dice, end: i64) -> Vec<(i64, i64)> {
    let phase = ns(dice.between(1, 3_000_000));
    let sign = dice.sign();
    let mut bends = vec![(0, 500 * sign)];
    let mut at = phase;
    while at < end {
        bends.push((at, -bends.last().map_or(500, |bend| bend.1)));
        at += ns(3_000_000);
    }
    bends
}

fn step(dice: &mut Dice, lo: i64, hi: i64, times: Times) -> (i64, i64) {
    let by = dice.log_between(lo, hi) * dice.sign();
    (dice.between(times.begin, times.end()), by)
}

#[test]
fn steady() {
    let tally = Tally::of(1, 40_000, |dice, _| Clock {
        bends: vec![(0, dice.between(-500, 500))],
        steps: vec![],
        origin: dice.rng.next_u64(),
    });
    assert_eq!(tally.refused, 0);
    assert!(tally.share_within_microsecond() >= 0.99, "{tally:?}");
}

#[test]
fn slewed_to_and_fro() {
    let tally = Tally::of(2, 40_000, |dice, times| Clock {
        bends: toggled(dice, times.end()),
        steps: vec![],
        origin: dice.rng.next_u64(),
    });
    assert_eq!(tally.refused, 0);
    assert!(tally.share_within_microsecond() >= 0.99, "{tally:?}");
}

#[test]
fn stepped() {
    for (seed, slewed) in [(3, false), (4, true)] {
        let tally = Tally::of(seed, 40_000, |dice, times| Clock {
            bends: if slewed { toggled(dice, times.end()) } else { vec![(0, 0)] },
            steps: vec![step(dice, 1_000_000, 1_000_000_000, times)],
            origin: dice.rng.next_u64(),
        });
        assert_eq!(tally.refused, 0);
        // Causality tells on which side of the step a stamp is, unless the clock went back and
        // showed the same time twice within the exchange.
        assert!(tally.share_within_microsecond() >= 0.93, "{tally:?}");
    }
}

#[test]
fn stepped_while_reading_is_held_up() {
    // A pair that was interrupted says little about a step's size: it must not claim to.
    let dice = Dice { held_up: 8, ..Dice::new(13) };
    let tally = Tally::by(dice, 13, 40_000, |dice, times| Clock {
        bends: toggled(dice, times.end()),
        steps: vec![step(dice, 25_000, 1_000_000_000, times)],
        origin: dice.rng.next_u64(),
    });
    assert_eq!(tally.refused, 0);
}

#[test]
fn stepped_by_very_little() {
    let tally = Tally::of(5, 20_000, |dice, times| Clock {
        bends: toggled(dice, times.end()),
        steps: vec![step(dice, 500, 1_000_000, times)],
        origin: dice.rng.next_u64(),
    });
    assert_eq!(tally.refused, 0);
}

#[test]
fn slewed_hard_in_one_direction() {
    // As chronyd does it where it may not step: up to 8.3 %, here faster and slower as well.
    let tally = Tally::of(6, 20_000, |dice, times| {
        let sign = dice.sign();
        let mut bends = vec![];
        let mut at = 0;
        while at < times.end() {
            bends.push((at, sign * dice.log_between(1_200, 100_000)));
            at += ns(dice.log_between(1_000_000, 1_000_000_000));
        }
        Clock { bends, steps: vec![], origin: dice.rng.next_u64() }
    });
    assert_eq!(tally.refused, 0);
}

#[test]
fn a_starved_receiver_moves_nothing() {
    // The clock is slewed by 400 ppm all the while: the straight line between the pairs follows.
    let mut dice = Dice::new(7);
    for wake_up in [10_000, 100_000_000] {
        let clock = Clock { bends: vec![(0, 400)], steps: vec![], origin: 5 };
        let times = Times { begin: 0, round_trip: 1_000_000, wake_up };
        let exchange = Exchange::run(&mut dice, clock, times);
        for (stamp, truth) in exchange.stamps() {
            let off = (stamp.unwrap().count - truth).0;
            assert!(off.abs() < ns(100), "{off} counts off, {wake_up} ns to wake up");
        }
    }
}

#[test]
fn a_stamp_of_another_packet_is_refused() {
    let mut dice = Dice::new(8);
    let clock = Clock { bends: vec![(0, 0)], steps: vec![], origin: 5 };
    let times = Times { begin: ns(10_000_000), round_trip: 1_000_000, wake_up: 10_000 };
    let exchange = Exchange::run(&mut dice, clock, times);
    let invert = |unix_ns, window| exchange.log.invert(unix_ns, window);
    for unix_ns in [
        exchange.clock.realtime(times.begin - ns(1_000)), // left before this request was sent
        exchange.clock.realtime(times.end() + ns(1_000)),
        0,
        i64::MIN,
        i64::MAX,
    ] {
        assert_eq!(invert(unix_ns, exchange.arrival_window), Err(NoStamp::NotCausal), "{unix_ns}");
    }
    // A reply cannot have arrived while the request was still on its way out.
    let arrival = exchange.clock.realtime(exchange.arrival);
    assert_eq!(invert(arrival, exchange.departure_window), Err(NoStamp::NotCausal));
}

#[test]
fn windows_outside_the_log_are_refused() {
    let mut dice = Dice::new(9);
    let clock = Clock { bends: vec![(0, 0)], steps: vec![], origin: 5 };
    let window = |lo, hi| Window { earliest: clock.count(lo), latest: clock.count(hi) };
    let mut log = PairLog::new(Period::from_hz(HZ as u64), CountSpan(1));
    let unix_ns = clock.realtime(ns(50_000));
    assert_eq!(log.invert(unix_ns, window(0, 100)), Err(NoStamp::OutOfLog));
    log.push(clock.pair(&mut dice, ns(20_000)).0);
    assert_eq!(log.invert(unix_ns, window(ns(30_000), ns(60_000))), Err(NoStamp::OutOfLog));
    log.push(clock.pair(&mut dice, ns(70_000)).0);
    assert!(log.invert(unix_ns, window(ns(30_000), ns(60_000))).is_ok());
    for (lo, hi) in [(10_000, 60_000), (30_000, 80_000), (60_000, 30_000)] {
        assert_eq!(log.invert(unix_ns, window(ns(lo), ns(hi))), Err(NoStamp::OutOfLog));
    }
    log.clear();
    assert_eq!(log.invert(unix_ns, window(ns(30_000), ns(60_000))), Err(NoStamp::OutOfLog));
}

#[test]
fn a_counter_that_jumps_back_empties_the_log() {
    let mut dice = Dice::new(10);
    let clock = Clock { bends: vec![(0, 0)], steps: vec![], origin: 1 << 40 };
    let mut log = PairLog::new(Period::from_hz(HZ as u64), CountSpan(RESOLUTION));
    for at in [100_000, 200_000, 50_000, 90_000] {
        log.push(clock.pair(&mut dice, ns(at)).0);
    }
    let window = |lo, hi| Window { earliest: clock.count(ns(lo)), latest: clock.count(ns(hi)) };
    let invert = |at, window| log.invert(clock.realtime(ns(at)), window);
    assert_eq!(invert(150_000, window(120_000, 180_000)), Err(NoStamp::OutOfLog));
    assert!(invert(70_000, window(60_000, 80_000)).is_ok());
    // A pair that is itself out of order is not kept.
    let (mut pair, _) = clock.pair(&mut dice, ns(300_000));
    std::mem::swap(&mut pair.before, &mut pair.after);
    log.push(pair);
    assert_eq!(
        log.invert(clock.realtime(ns(70_000)), window(60_000, 80_000)),
        Err(NoStamp::OutOfLog)
    );
}

#[test]
fn a_coarse_counter_is_never_surer_than_its_steps() {
    // Pairs of no width, right at the edge of a step; the packet up to a whole step later.
    let clock = Clock { bends: vec![(0, 0)], steps: vec![], origin: 26 };
    let mut log = PairLog::new(Period::from_hz(HZ as u64), CountSpan(RESOLUTION));
    for at in [0, ns(100_000)] {
        let count = clock.count(at);
        let (unix_ns, monotonic_ns) = (clock.realtime(at), clock.monotonic(at));
        log.push(HostPair { before: count, unix_ns, after: count, monotonic_ns, end: count });
    }
    let window = Window { earliest: clock.count(0), latest: clock.count(ns(100_000)) };
    for at in ns(50)..ns(150) {
        let stamp = log.invert(clock.realtime(at), window).unwrap();
        let off = (stamp.count - clock.truth(at)).abs();
        assert!(off <= stamp.error, "off by {off:?}, bound {:?}", stamp.error);
        assert!(stamp.error.0 <= RESOLUTION + 6, "{:?}", stamp.error);
    }
}

#[test]
fn a_flood_of_packets_does_not_push_the_request_out() {
    let mut dice = Dice::new(11);
    let clock = Clock { bends: toggled(&mut dice, ns(400_000_000)), steps: vec![], origin: 77 };
    let mut log = PairLog::new(Period::from_hz(HZ as u64), CountSpan(RESOLUTION));
    // 100 ms of a packet, and a pair, every 10 µs.
    let mut entered = 0;
    for index in 0..10_000 {
        let (pair, end) = clock.pair(&mut dice, ns(index * 10_000));
        log.push(pair);
        if index == 3 {
            entered = end;
        }
    }
    let window = Window { earliest: clock.count(entered), latest: clock.count(ns(99_980_000)) };
    for at in [60_000, 1_000_000, 50_000_000, 99_600_000, 99_970_000] {
        let stamp = log.invert(clock.realtime(ns(at)), window).unwrap();
        let off = (stamp.count - clock.truth(ns(at))).abs();
        assert!(off <= stamp.error, "{at} ns: off by {off:?}, bound {:?}", stamp.error);
        let recent = at > 99_500_000;
        assert!(!recent || stamp.error.0 <= ns(200), "{at} ns: bound {:?}", stamp.error);
    }
}

#[test]
fn absurd_pairs_do_no_harm() {
    let mut dice = Dice::new(12);
    for _ in 0..20_000 {
        let hz = [2, 1_000, 24_000_000, 2_600_000_000, u64::MAX][dice.between(0, 4) as usize];
        let mut log = PairLog::new(Period::from_hz(hz), CountSpan(dice.rng.next_u64() as i64));
        let mut count = Count(dice.rng.next_u64());
        let mut on = |dice: &mut Dice| {
            let bits = dice.between(0, 62);
            count = count + CountSpan((dice.rng.next_u64() >> (64 - bits.max(1))) as i64);
            count
        };
        let any = |dice: &mut Dice| match dice.between(0, 9) {
            0 => i64::MIN,
            1 => i64::MAX,
            _ => dice.rng.next_u64() as i64 >> dice.between(0, 63),
        };
        let mut first = None;
        for _ in 0..dice.between(1, 6) {
            let before = on(&mut dice);
            first.get_or_insert(before);
            log.push(HostPair {
                before,
                unix_ns: any(&mut dice),
                after: on(&mut dice),
                monotonic_ns: any(&mut dice),
                end: on(&mut dice),
            });
        }
        let earliest = if dice.one_in(2) { first.unwrap() } else { Count(dice.rng.next_u64()) };
        let latest = earliest + CountSpan(dice.rng.next_u64() as i64 >> dice.between(0, 63));
        if let Ok(stamp) = log.invert(any(&mut dice), Window { earliest, latest }) {
            assert!(stamp.error.0 >= 0);
            assert!(stamp.count.at_or_after(earliest) && latest.at_or_after(stamp.count));
        }
    }
}
