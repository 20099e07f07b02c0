//! Has the counter lost its continuity? Judged from the host's own clocks.

use truechimer_time::{Count, Period, Rate, Span};

use crate::event::HostCheck;

/// More time spent suspended than this between two checks is a suspend.
const SUSPEND: Span = Span::from_millis(10);
/// How far counter and raw clock may part between two checks, apart from their rates. The raw
/// clock is made of the counter, so that they part only when one of them jumps.
const JUMP: Span = Span::from_millis(1);
/// How far their rates may differ: the nominal period is this good.
const RATE: Rate = Rate::from_ppb(1_000_000);

/// Compares each check with the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watch {
    last: Option<HostCheck>,
}

impl Watch {
    /// What broke between the last check and this one, if anything did.
    pub(crate) fn check(&mut self, now: HostCheck, nominal: Period) -> Option<String> {
        let last = self.last.replace(now)?;
        let suspended =
            Span::from_nanos_wide(i128::from(now.suspended_ns) - i128::from(last.suspended_ns));
        if suspended.abs() > SUSPEND {
            return Some(format!("the machine was suspended for {suspended}"));
        }
        let counted = nominal.span(now.count - last.count);
        if counted.is_negative() {
            return Some(format!("the counter went back by {}", -counted));
        }
        let raw = Span::from_nanos_wide(i128::from(now.raw_ns) - i128::from(last.raw_ns));
        let apart = counted - raw;
        (apart.abs() > JUMP + RATE.over(raw.abs())).then(|| {
            format!("the counter jumped by {apart:+} against the kernel's raw clock in {raw}")
        })
    }

    /// Whether `at` lies so far before the last check that the counter must have gone back. (The
    /// counters of two processors may differ by a little.)
    pub(crate) fn is_before(&self, at: Count, nominal: Period) -> bool {
        self.last.is_some_and(|last| nominal.span(at - last.count) < -JUMP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: HostCheck = HostCheck { count: Count(5_000_000_000), raw_ns: 9, suspended_ns: 7 };

    fn after(counts: u64, raw_ns: i64, suspended_ns: i64) -> Option<String> {
        let mut watch = Watch::default();
        assert_eq!(watch.check(START, Period::NANOSECOND), None);
        watch.check(
            HostCheck {
                count: Count(START.count.0.wrapping_add(counts)),
                raw_ns: START.raw_ns + raw_ns,
                suspended_ns: START.suspended_ns + suspended_ns,
            },
            Period::NANOSECOND,
        )
    }

    #[test]
    fn only_breaks_are_breaks() {
        let second = 1_000_000_000;
        assert_eq!(after(second, 1_000_000_000, 0), None);
        assert_eq!(after(second, 1_000_400_000, 100), None, "400 ppm is a rate");
        assert!(after(second, 1_000_000_000, 60_000_000_000).unwrap().contains("suspended"));
        assert!(after(second, 1_003_000_000, 0).unwrap().contains("jumped"));
        assert!(after(second.wrapping_neg(), 1_000_000_000, 0).unwrap().contains("back"));
    }

    #[test]
    fn hostile_readings_do_not_panic() {
        let mut watch = Watch::default();
        for check in [
            HostCheck { count: Count(0), raw_ns: i64::MIN, suspended_ns: i64::MAX },
            HostCheck { count: Count(u64::MAX), raw_ns: i64::MAX, suspended_ns: i64::MIN },
            HostCheck { count: Count(1 << 63), raw_ns: 0, suspended_ns: 0 },
        ] {
            let _ = watch.check(check, Period::NANOSECOND);
        }
    }
}
