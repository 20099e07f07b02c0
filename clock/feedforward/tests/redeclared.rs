//! An asymmetry that is declared, changed or taken back while the clock runs: the bound holds.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)] // It has more than is used here.
mod common;

use common::{HZ, instant, settings, stamp};
use truechimer_feedforward::{Accepted, Asymmetry, Estimator, Exchange, Ours, RatePrior, Settings};
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
        precision: Span::ZERO,
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

/// Declaring the path meanwhile takes no weight from what it says against what was known.
#[test]
fn a_step_in_doubt_stays_in_doubt() {
    let prior = RatePrior { period: Period::from_hz(HZ), error: Rate::from_ppb(500_000) };
    let settings = Settings { accept_step_after: Span::from_secs(1600), ..settings() };
    let mut clock = Ours::new(settings, prior, None);
    let (mut half, mut accepted) = (Span::ZERO, None);
    for n in 0..600 {
        if n == 350 {
            let since = clock.doubt(exchange(n).sent.count).map(|doubt| doubt.since);
            clock.set_asymmetry(Some(Asymmetry {
                by: Span::from_micros(8000),
                error: Span::from_micros(100),
            }));
            half = Span::from_micros(4000);
            let still = clock.doubt(exchange(n).sent.count).map(|doubt| doubt.since);
            assert!(since.is_some() && still == since, "{still:?}");
        }
        // It is 50 ms ahead from the 300th on.
        let by = Span::from_millis(if n < 300 { 0 } else { 50 }) - half;
        let x = exchange(n);
        let (server_received, server_sent) = (x.server_received + by, x.server_sent + by);
        let result = clock.exchange(&Exchange { server_received, server_sent, ..x });
        if let Ok(Accepted::Stepped(step)) = result {
            accepted = accepted.or(Some((n, step)));
        }
    }
    let (n, step) = accepted.unwrap();
    assert_eq!(n, 400, "1600 s after the first");
    assert!((step - Span::from_millis(50)).abs() < Span::from_millis(1), "{step}");
    // The first 300 told no asymmetry: the time is where the declaration puts it.
    let last = exchange(599).received.count;
    let e = clock.estimate(last).unwrap();
    let off = e.time - instant(last.0 as f64 / HZ as f64) - Span::from_millis(50);
    assert!(off.abs() <= e.bound && e.bound < Span::from_millis(2), "{off:+} of {}", e.bound);
}

/// Thousands of years away a second is still a second.
#[test]
fn after_a_huge_step_the_time_is_as_good_as_before() {
    for years in [-50_000, 3, 30_000] {
        let prior = RatePrior { period: Period::from_hz(HZ), error: Rate::from_ppb(500_000) };
        let settings = Settings { accept_step_after: Span::from_secs(800), ..settings() };
        let mut clock = Ours::new(settings, prior, None);
        let step = Span::from_secs(31_557_600 * years);
        for n in 0..600 {
            let x = exchange(n);
            let by = if n < 300 { Span::ZERO } else { step };
            let (server_received, server_sent) = (x.server_received + by, x.server_sent + by);
            let _ = clock.exchange(&Exchange { server_received, server_sent, ..x });
        }
        // The path takes 4 ms longer there than half of the round trip, both ways as always.
        let at = |n: u32| {
            let at = exchange(n).received.count;
            let e = clock.estimate(at).unwrap();
            e.time - instant(at.0 as f64 / HZ as f64) - step - Span::from_millis(4)
        };
        let (one, other) = (at(599), at(598));
        assert!((one - other).abs() < Span::from_nanos(100), "{years}: {one} {other}");
        assert!(one.abs() < Span::from_micros(30), "{years}: {one}");
    }
}
