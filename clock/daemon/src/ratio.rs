//! Length of a device's count by `CLOCK_MONOTONIC_RAW`, while that is made of the device: for
//! readers that may not read it.
//!
//! The kernel makes the raw clock of its clocksource by one multiplication with a number that never
//! changes. So there is one true ratio for as long as the clocksource stays, and whatever pairs say
//! of it holds from then on.

use truechimer_counter::Counter;
use truechimer_time::{Count, CountSpan, Period, Rate, Span};
use truechimer_timehands::ByRaw;

/// The narrowest of so many pairs is taken.
const TRIES: u32 = 3;
/// A ratio is worth saying from here on.
const WORST: Rate = Rate::from_ppb(100_000);
/// Pairs closer than this say nothing of it.
const SHORTEST: Span = Span::from_millis(100);
/// A pair further apart than this is of no use to readers: they would take a second for damage.
const LOOSEST: Span = Span::from_millis(100);
/// No device, and no calibration of the kernel's, is off by more: readers take 1 % for damage.
const FARTHEST: Rate = Rate::from_ppb(5_000_000);
/// The raw clock shows whole nanoseconds, at either end.
const ROUNDING: Span = Span::from_nanos(2);

/// A count and the raw clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pair {
    pub(crate) count: Count,
    /// `CLOCK_MONOTONIC_RAW`, ns.
    pub(crate) raw_ns: i64,
    /// Between the counts on either side of it, half-way between which `count` is.
    pub(crate) width: CountSpan,
}

impl Pair {
    /// The narrowest of a few.
    pub(crate) fn take(counter: Counter, raw: Counter) -> Pair {
        let take = || {
            let before = counter.read();
            let raw_ns = raw.read().0 as i64;
            let after = counter.read();
            Pair { count: before.midpoint(after), raw_ns, width: after - before }
        };
        // A negative width is the widest of all.
        (1..TRIES).map(|_| take()).fold(take(), |best, next| {
            if (next.width.0 as u64) < best.width.0 as u64 { next } else { best }
        })
    }

    /// The raw clock read `raw_ns` within this of `count`.
    pub(crate) fn bound(&self) -> CountSpan {
        CountSpan(self.width.0.max(0) / 2 + 1)
    }

    fn passed_since(&self, earlier: &Pair) -> (CountSpan, Span) {
        let ns = i128::from(self.raw_ns) - i128::from(earlier.raw_ns);
        (self.count - earlier.count, Span::from_nanos_wide(ns))
    }
}

/// Ratio as far as known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ratio {
    /// Where the baseline begins.
    anchor: Option<Pair>,
    last: Option<Pair>,
    /// The period, and the bound of its relative error.
    known: Option<(Period, Rate)>,
}

impl Ratio {
    /// Learns from another pair, of a counter of which a count lasts `nominal` or so. One that
    /// contradicts what was known makes all of that void: the clocksource must have been another
    /// one for a while.
    pub(crate) fn learn(&mut self, pair: Pair, nominal: Period) {
        if pair.width.0 < 0 {
            return;
        }
        let uncertain =
            |from: &Pair| nominal.span(from.bound() + pair.bound() + CountSpan(1)) + ROUNDING;
        if let (Some(last), Some((period, error))) = (self.last, self.known) {
            let (counts, raw) = pair.passed_since(&last);
            let apart = (period.span(counts) - raw).abs();
            if apart > error.over(raw.abs()) + uncertain(&last) {
                *self = Ratio::default();
            }
        }
        self.last = Some(pair);
        let Some(anchor) = self.anchor else {
            self.anchor = Some(pair);
            return;
        };
        let (counts, raw) = pair.passed_since(&anchor);
        if raw < SHORTEST {
            return;
        }
        let error = share(uncertain(&anchor), raw);
        if error <= WORST && self.known.is_none_or(|(_, least)| error < least) {
            let likely = |period: &Period| {
                let apart = period.relative_to(nominal);
                Rate(-FARTHEST.0) <= apart && apart <= FARTHEST
            };
            let period = Period::from_ratio(raw, counts).filter(likely);
            self.known = period.map(|period| (period, error)).or(self.known);
        }
        if pair.width.0 < anchor.width.0 / 4 {
            self.anchor = Some(pair);
        }
    }

    /// The clocksource is or was another one, or the counts are a row of their own.
    pub(crate) fn forget(&mut self) {
        *self = Ratio::default();
    }

    /// Bound of its relative error, if it is known.
    pub(crate) fn error(&self) -> Option<Rate> {
        self.known.map(|(_, error)| error)
    }

    /// Facts that readers need besides `pair`.
    pub(crate) fn by_raw(&self, pair: &Pair) -> Option<ByRaw> {
        let (period, error) = self.known?;
        let usable = pair.width.0 >= 0 && period.span(pair.bound()) <= LOOSEST;
        usable.then_some(ByRaw { period, error, pair: pair.bound() })
    }
}

/// Share of `part` (≥ 0) in `whole` (≥ 0.1 s), rounded up.
fn share(part: Span, whole: Span) -> Rate {
    let whole = (whole.0 >> 32).max(1);
    let share = part.0.checked_mul(1 << 32).map_or(i128::from(i64::MAX), |part| part / whole + 2);
    Rate(i64::try_from(share).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use truechimer_time::Instant;
    use truechimer_timehands::Made;

    const HZ: u64 = 3_579_545;

    /// A device that runs `ppb` faster than it should by the raw clock, and pairs of the two.
    struct World {
        period: Period,
    }

    impl World {
        fn new(ppb: i64) -> World {
            World { period: Period::from_hz(HZ).scaled(Rate::from_ppb(-ppb)) }
        }

        /// The raw clock at a count.
        fn raw_ns(&self, count: i64) -> i64 {
            let at = Instant::default() + self.period.span(CountSpan(count));
            i64::try_from(at.as_nanos()).unwrap()
        }

        /// A pair read between `count` and `count + width`, really at `part` / 8 of it.
        fn pair(&self, count: i64, width: i64, part: i64) -> Pair {
            let raw_ns = self.raw_ns(count + width * part / 8);
            let middle = Count(count as u64).midpoint(Count((count + width) as u64));
            Pair { count: middle, raw_ns, width: CountSpan(width) }
        }
    }

    fn made(pair: &Pair, by_raw: ByRaw) -> (Made, ByRaw) {
        let Pair { count, raw_ns, .. } = *pair;
        (Made { count, raw_ns, monotonic_ns: 0, suspended_ns: 0, device: None }, by_raw)
    }

    proptest! {
        /// Whatever the pairs were like, what is said of counts by the raw clock is so.
        #[test]
        fn what_is_said_holds(
            ppb in -200_000i64..200_000,
            steps in prop::collection::vec((1_000_000i64..10_000_000, 0i64..60, 0i64..=8), 1..40),
            later in 0i64..230_000_000,
        ) {
            let (world, mut ratio, mut count) = (World::new(ppb), Ratio::default(), 1_000);
            for (step, width, part) in steps {
                count += step;
                let pair = world.pair(count, width, part);
                ratio.learn(pair, Period::from_hz(HZ));
                let Some(by_raw) = ratio.by_raw(&pair) else { continue };
                let (made, by_raw) = made(&pair, by_raw);
                let truth = count + width + later;
                let (told, error) = by_raw.count(&made, world.raw_ns(truth)).unwrap();
                let off = (told - Count(truth as u64)).abs();
                prop_assert!(off <= error, "off by {off:?}, said to be within {error:?}");
            }
        }
    }

    #[test]
    fn it_is_said_from_the_second_pair_on_and_gets_better() {
        let (world, mut ratio) = (World::new(40_000), Ratio::default());
        let mut errors = Vec::new();
        for second in 0..200 {
            let pair = world.pair(second * HZ as i64, 8, second % 9);
            ratio.learn(pair, Period::from_hz(HZ));
            assert_eq!(ratio.by_raw(&pair).is_some(), second > 0);
            errors.extend(ratio.by_raw(&pair).map(|by_raw| by_raw.error));
        }
        assert!(errors.is_sorted_by(|a, b| a >= b));
        assert!(errors.first() < Some(&Rate::from_ppb(5_000)), "{errors:?}");
        assert!(errors.last() < Some(&Rate::from_ppb(25)), "{errors:?}");
    }

    #[test]
    fn another_clocksource_for_a_while_makes_all_of_it_void() {
        let (world, mut ratio) = (World::new(0), Ratio::default());
        for second in 0..20 {
            ratio.learn(world.pair(second * HZ as i64, 8, 4), Period::from_hz(HZ));
        }
        // The raw clock lost 20 µs.
        let lost = |second: i64| {
            let pair = world.pair(second * HZ as i64, 8, 4);
            Pair { raw_ns: pair.raw_ns - 20_000, ..pair }
        };
        ratio.learn(lost(20), Period::from_hz(HZ));
        assert_eq!(ratio.by_raw(&lost(20)), None);
        ratio.learn(lost(21), Period::from_hz(HZ));
        assert!(ratio.by_raw(&lost(21)).is_some());
    }

    #[test]
    fn wide_pairs_give_way_to_a_narrow_one() {
        let (world, mut ratio) = (World::new(0), Ratio::default());
        ratio.learn(world.pair(0, 20_000, 0), Period::from_hz(HZ));
        for second in 1..100 {
            ratio.learn(world.pair(second * HZ as i64, 8, 8), Period::from_hz(HZ));
        }
        let by_raw = ratio.by_raw(&world.pair(0, 8, 0)).unwrap();
        assert!(by_raw.error < Rate::from_ppb(60), "{:?}", by_raw.error);
    }

    /// A hand whose words readers take for damage is worse than one that says less.
    #[test]
    fn what_readers_would_take_for_damage_is_not_said() {
        let (world, mut ratio) = (World::new(0), Ratio::default());
        for second in 0..9 {
            ratio.learn(world.pair(second * HZ as i64, 8, 4), Period::from_hz(HZ));
        }
        assert!(ratio.by_raw(&world.pair(0, 8, 0)).is_some());
        // The daemon had no processor for seconds, whenever it read the two.
        assert_eq!(ratio.by_raw(&world.pair(0, 4 * HZ as i64, 0)), None);
        let mut ratio = Ratio::default();
        for second in 0..9 {
            ratio.learn(world.pair(second * HZ as i64, 8, 4), Period::from_hz(HZ + HZ / 90));
        }
        assert_eq!(ratio.by_raw(&world.pair(0, 8, 0)), None);
    }

    #[test]
    fn hostile_pairs_do_not_panic() {
        let mut ratio = Ratio::default();
        for n in [0, i64::MAX, i64::MIN, 7, -7] {
            for width in [0, i64::MIN, i64::MAX, 5] {
                let pair = Pair { count: Count(n as u64), raw_ns: n, width: CountSpan(width) };
                ratio.learn(pair, Period::from_hz(HZ));
                let _ = ratio.by_raw(&pair);
            }
        }
    }
}
