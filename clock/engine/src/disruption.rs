//! Has the counter lost its continuity? Judged from the host's own clocks.

use alloc::format;
use alloc::string::String;

use truechimer_time::{Count, Period, Rate, Span};
use truechimer_timehands::{Allowed, Break, PATIENCE, Passed};

use crate::event::HostCheck;

/// More time spent suspended than this between two checks is a suspend.
const SUSPEND: Span = Span::from_millis(10);
/// Limits to how far counter and raw clock may part between two checks, beyond what reading them
/// took, and their rates, while their ratio is known no better than the nominal period.
const JUMP: Span = Span::from_millis(1);
const RATE: Rate = Rate::from_ppb(1_000_000);
/// Limits once their ratio has been learnt. Mostly the raw clock is made of the counter, and they
/// part only when one of them jumps; else there are two oscillators of one machine.
const LEARNT_JUMP: Span = Span::from_micros(20);
const LEARNT_RATE: Rate = Rate::from_ppb(50_000);
/// The ratio is learnt from checks at least this far apart,
const BASELINE: Span = Span::from_secs(8);
/// and only if what reading the clocks took is at most this part of it.
const PRECISION: Rate = Rate::from_ppb(10_000);

/// Compares each check with the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watch {
    last: Option<HostCheck>,
    /// The first check since the counter last broke: the ratio is learnt from here on.
    first: Option<HostCheck>,
    /// Length of a count by the raw clock, once that is known.
    learnt: Option<Period>,
    /// End and length of the last time without a check that was longer than readers wait for one.
    absence: Option<(Count, Span)>,
}

impl Watch {
    /// Finds what broke between the last check and this one, if anything did.
    pub(crate) fn check(&mut self, now: HostCheck, nominal: Period) -> Option<String> {
        let Some(last) = self.last.replace(now) else {
            self.first = Some(now);
            return None;
        };
        let silence = nominal.span(now.count - last.count);
        if silence > PATIENCE {
            self.absence = Some((now.count, silence));
        }
        let period = self.learnt.unwrap_or(nominal);
        let (jump, rate) =
            if self.learnt.is_some() { (LEARNT_JUMP, LEARNT_RATE) } else { (JUMP, RATE) };
        let passed = passed(period, &last, &now);
        let broken = passed.broken(&Allowed {
            suspended: SUSPEND,
            back: Span::ZERO,
            apart: jump + widths(period, &last, &now),
            rate,
        });
        let Some(broken) = broken else {
            self.learn(now, nominal);
            return None;
        };
        *self = Watch { last: Some(now), first: Some(now), learnt: None, absence: None };
        Some(match broken {
            Break::Suspended(span) => format!("the machine was suspended for {span}"),
            Break::Back(by) => format!("the counter went back by {by}"),
            Break::Apart(by) => {
                let raw = passed.raw;
                format!("the counter jumped by {by:+} against the kernel's raw clock in {raw}")
            }
        })
    }

    /// Length of the last time without a check, if it ended after this count.
    pub(crate) fn absence_since(&self, count: Count) -> Option<Span> {
        self.absence.filter(|(end, _)| (*end - count).0.is_positive()).map(|(_, span)| span)
    }

    /// True if `at` lies so far before the last check that the counter must have gone back. (The
    /// counters of two processors may differ by a little.)
    pub(crate) fn is_before(&self, at: Count, nominal: Period) -> bool {
        self.last.is_some_and(|last| nominal.span(at - last.count) < -JUMP)
    }

    /// Works out the ratio anew from the longest baseline there is, if that makes it any better.
    fn learn(&mut self, now: HostCheck, nominal: Period) {
        let Some(first) = self.first else { return };
        let raw = passed(nominal, &first, &now).raw;
        if raw >= BASELINE && widths(nominal, &first, &now) <= PRECISION.over(raw) {
            self.learnt = Period::from_ratio(raw, now.count - first.count).or(self.learnt);
        }
    }
}

fn passed(period: Period, from: &HostCheck, to: &HostCheck) -> Passed {
    Passed::new(
        period,
        to.count - from.count,
        [from.raw_ns, to.raw_ns],
        [from.suspended_ns, to.suspended_ns],
    )
}

/// Uncertainty by the readings at either end. A negative width says nothing of that kind.
fn widths(period: Period, from: &HostCheck, to: &HostCheck) -> Span {
    let of = |check: &HostCheck| period.span(check.width).max(Span::ZERO);
    of(from) + of(to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_time::CountSpan;

    const START: HostCheck = HostCheck {
        count: Count(5_000_000_000),
        raw_ns: 9,
        suspended_ns: 7,
        width: CountSpan(300),
    };
    const SECOND: i64 = 1_000_000_000;

    fn later(check: HostCheck, counts: i64, raw_ns: i64, suspended_ns: i64) -> HostCheck {
        HostCheck {
            count: check.count + CountSpan(counts),
            raw_ns: check.raw_ns + raw_ns,
            suspended_ns: check.suspended_ns + suspended_ns,
            ..check
        }
    }

    fn after(counts: i64, raw_ns: i64, suspended_ns: i64) -> Option<String> {
        let mut watch = Watch::default();
        assert_eq!(watch.check(START, Period::NANOSECOND), None);
        watch.check(later(START, counts, raw_ns, suspended_ns), Period::NANOSECOND)
    }

    #[test]
    fn only_breaks_are_breaks() {
        assert_eq!(after(SECOND, SECOND, 0), None);
        assert_eq!(after(SECOND, SECOND + 400_000, 100), None, "400 ppm is a rate");
        assert!(after(SECOND, SECOND, 60 * SECOND).unwrap().contains("suspended"));
        assert!(after(SECOND, SECOND + 3_000_000, 0).unwrap().contains("jumped"));
        assert!(after(-SECOND, SECOND, 0).unwrap().contains("back"));
    }

    /// A watch of `seconds` of a counter that gains 400 ppm on the raw clock, and its last check.
    fn watched(seconds: u32, width: i64) -> (Watch, HostCheck) {
        let (mut watch, mut check) = (Watch::default(), START);
        check.width = CountSpan(width);
        assert_eq!(watch.check(check, Period::NANOSECOND), None);
        for _ in 0..seconds {
            check = later(check, SECOND + 400_000, SECOND, 0);
            assert_eq!(watch.check(check, Period::NANOSECOND), None);
        }
        (watch, check)
    }

    /// True if a jump of `ns` within the next second is seen.
    fn sees(mut watch: Watch, check: HostCheck, ns: i64) -> bool {
        let next = later(check, SECOND + 400_000 + ns, SECOND, 0);
        watch.check(next, Period::NANOSECOND).is_some()
    }

    #[test]
    fn once_the_ratio_is_known_a_small_jump_is_seen() {
        let (watch, check) = watched(7, 300);
        assert!(!sees(watch, check, 100_000) && sees(watch, check, 2_000_000));
        for seconds in [8, 9, 1000] {
            let (watch, check) = watched(seconds, 300);
            assert!(!sees(watch, check, 65_000) && !sees(watch, check, -65_000), "{seconds} s");
            assert!(sees(watch, check, 75_000) && sees(watch, check, -75_000), "{seconds} s");
        }
    }

    #[test]
    fn a_reading_that_took_long_says_less() {
        // 80 µs is more than 10 ppm of 8 s at both ends together, not of 16 s.
        let (watch, check) = watched(8, 80_000);
        assert!(!sees(watch, check, 300_000));
        let (watch, check) = watched(16, 80_000);
        assert!(!sees(watch, check, 220_000) && sees(watch, check, 240_000));
        let (watch, mut check) = watched(9, 300);
        check.width = CountSpan(1_000_000);
        assert!(!sees(watch, check, 1_000_000));
    }

    #[test]
    fn after_a_break_it_learns_anew() {
        let (mut watch, mut check) = watched(20, 300);
        check = later(check, SECOND + 100_000_000, SECOND, 0);
        assert!(watch.check(check, Period::NANOSECOND).is_some());
        // Another ratio from now on, within what the nominal period leaves open.
        for _ in 0..20 {
            check = later(check, SECOND - 400_000, SECOND, 0);
            assert_eq!(watch.check(check, Period::NANOSECOND), None);
        }
        check = later(check, SECOND - 300_000, SECOND, 0);
        assert!(watch.check(check, Period::NANOSECOND).is_some());
    }

    #[test]
    fn hostile_readings_do_not_panic() {
        let mut watch = Watch::default();
        for (count, raw_ns, suspended_ns, width) in [
            (0, i64::MIN, i64::MAX, i64::MIN),
            (u64::MAX, i64::MAX, i64::MIN, i64::MAX),
            (1 << 63, 0, 0, -1),
            (1 << 62, i64::MAX, 0, 0),
        ] {
            let (count, width) = (Count(count), CountSpan(width));
            let check = HostCheck { count, raw_ns, suspended_ns, width };
            let _ = watch.check(check, Period::NANOSECOND);
            let _ = watch.check(check, Period::from_hz(2));
        }
    }

    #[test]
    fn a_long_time_between_checks_is_an_absence_unless_the_counter_broke() {
        let mut watch = Watch::default();
        let mut now = START;
        let mut check = |seconds: i64, jump: i64| {
            let before = now.count;
            now = later(now, seconds * SECOND + jump, seconds * SECOND, 0);
            (watch.check(now, Period::NANOSECOND).is_some(), watch.absence_since(before))
        };
        assert_eq!(check(1, 0), (false, None));
        assert_eq!(check(3, 0), (false, None));
        let long = Period::NANOSECOND.span(CountSpan(90 * SECOND));
        assert_eq!(check(90, 0), (false, Some(long)));
        assert_eq!(check(1, 0), (false, None), "it ended before");
        assert_eq!(check(90, 5 * SECOND), (true, None));
    }
}
