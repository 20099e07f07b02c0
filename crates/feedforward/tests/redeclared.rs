//! An asymmetry that is declared, changed or taken back while the clock runs: the bound holds.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)] // It has more than is used here.
mod common;

use common::{HZ, instant, settings, stamp};
use truechimer_feedforward::{Asymmetry, Estimator, Exchange, Ours, RatePrior, Settings};
use truechimer_time::{Count, Period, Rate, Span};

/// 9 ms there and 1 ms back, and a little more now and then.
fn exchange(n: u32) -> Exchange {
    let t = 16.0 * f64::from(n) + 1.0;
    let (there, back) = (9e-3 + 1e-5 * f64::from(n % 3), 1e-3 + 1e-5 * f64::from(n % 5));
    let count = |t: f64| Count((t * HZ as f64) as u64);
    Exchange {
        sent: stamp(count(t)),
        server_received: instant(t + there),
        server_sent: instant(t + there),
        received: stamp(count(t + there + back)),
        root_distance: Span::from_micros(1),
    }
}

/// Declared are so many µs first, and then others; each declaration is true to within 0.1 ms, or
/// there is none.
fn holds(first: Option<i64>, then: Option<i64>) {
    let declared = |us: Option<i64>| {
        us.map(|us| Asymmetry { by: Span::from_micros(us), error: Span::from_micros(100) })
    };
    let prior = RatePrior { period: Period::from_hz(HZ), error: Rate::from_ppb(500_000) };
    let settings = Settings { asymmetry: declared(first), ..settings() };
    let mut clock = Ours::new(settings, prior, None);
    let mut now = first;
    for n in 0..400 {
        if n == 200 {
            clock.set_asymmetry(declared(then));
            now = then;
        }
        let x = exchange(n);
        // As the engine does: half of what is declared is taken off the server's stamps.
        let half = Span::from_micros(now.unwrap_or(0)).half();
        let corrected = Exchange {
            server_received: x.server_received - half,
            server_sent: x.server_sent - half,
            ..x
        };
        let _ = clock.exchange(&corrected);
        let at = x.received.count;
        let e = clock.estimate(at).unwrap();
        let off = (e.time - instant(at.0 as f64 / HZ as f64)).abs();
        // A false declaration promises nothing.
        let honest =
            now.is_none_or(|us| us == 8000) && (n < 200 || first.is_none_or(|us| us == 8000));
        assert!(!honest || off <= e.bound, "{first:?}, then {then:?}, {n}: {off} of {}", e.bound);
    }
}

#[test]
fn one_that_is_taken_back() {
    holds(Some(8000), None);
}

#[test]
fn one_that_comes_late() {
    holds(None, Some(8000));
}
