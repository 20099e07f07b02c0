//! Helpers that the tests of the estimator share.

use truechimer_feedforward::{Ours, RatePrior, Settings};
use truechimer_time::{Count, CountSpan, Instant, Period, Rate, Span, Stamp, StampMethod};

/// The counter's nominal rate.
pub const HZ: u64 = 2_596_000_000;

/// True time, `t` seconds into the run.
pub fn instant(t: f64) -> Instant {
    Instant::new(1_800_000_000, 0) + Span((t * 2f64.powi(64)) as i128)
}

pub fn settings() -> Settings {
    Settings {
        nominal: Period::from_hz(HZ),
        resolution: CountSpan(26),
        max_wander: Rate::from_ppb(500),
        accept_step_after: truechimer_feedforward::ACCEPT_STEP_AFTER,
        asymmetry: None,
        pulse: false,
    }
}

pub fn estimator() -> Ours {
    let prior = RatePrior { period: Period::from_hz(HZ), error: Rate::from_ppb(500_000) };
    Ours::new(settings(), prior, None)
}

pub fn stamp(count: Count) -> Stamp {
    Stamp { count, error: CountSpan(260), method: StampMethod::Kernel }
}
