//! The error of a clock behind a PTP master, beside the least that anybody can have of the same stamps.
//!
//! The path always takes as long, so that all noise is of the stamps and of the oscillator, which walks. Both are Gaussian, and the best
//! estimator is a Kalman filter that is told the walk, the stamps' noise and the path. Its variance does not depend on what it measures:
//! it is computed, and is the Bayesian limit of the mean square error.

use truechimer_estimators::Kind;
use truechimer_report::rms;

use crate::host::StampSpec;
use crate::path::PathSpec;
use crate::scenario::{Scenario, ScenarioError};
use crate::world::{Options, simulate};

/// Intervals between two `Sync`, s.
pub const SYNCS: [f64; 5] = [1.0 / 128.0, 1.0 / 16.0, 0.25, 1.0, 2.0];
/// Standard deviations of a stamp, ns.
pub const STAMPS_NS: [f64; 3] = [8.0, 100.0, 5000.0];

/// The shortest interval between two questions for the delay, s.
const QUESTIONS: f64 = 1.0;
/// Hours, and of those what is left out at the beginning.
const HOURS: (f64, f64) = (1.25, 0.25);
/// Delay of each way, ms.
const PATH_MS: f64 = 0.1;

/// Errors of a clock in one run, and the limits, s.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Error {
    /// RMS error.
    pub clock: f64,
    /// Limit of the pairs of a question and the `Sync` that it is used with.
    pub pairs: f64,
    /// Limit of all questions and every `Sync`.
    pub all: f64,
    /// Readings whose error was beyond the bound.
    pub outside: usize,
}

/// A master with so many seconds between two `Sync`, and a host whose stamps are off by so many ns.
///
/// # Errors
/// Never, as long as the catalogue has a LAN.
pub fn scenario(sync: f64, stamp_ns: f64) -> Result<Scenario, ScenarioError> {
    let mut scenario = crate::find("lan").map_err(|why| ScenarioError::new(why.to_string()))?;
    scenario.name = "sync-limit".into();
    (scenario.hours, scenario.warm_up_hours) = HOURS;
    // Of 10 000 normal numbers one is beyond four deviations.
    scenario.host.stamps =
        StampSpec { noise_ns: stamp_ns, stated_ns: 4.0 * stamp_ns, ..StampSpec::default() };
    for server in &mut scenario.servers {
        server.ptp_sync_s = Some(sync);
        let path = PathSpec { floor_ms: PATH_MS, ..PathSpec::default() };
        (server.forward, server.backward) = (path.clone(), path);
    }
    Ok(scenario)
}

/// One run.
///
/// # Errors
/// If the scenario makes no sense.
pub fn error(estimator: Kind, sync: f64, stamp_ns: f64, seed: u64) -> Result<Error, ScenarioError> {
    let scenario = scenario(sync, stamp_ns)?;
    let walk = scenario.oscillator.walk_per_root_s;
    let run = simulate(&scenario, &Options { estimator, seed, ..Options::default() })?;
    let late = run.trace.samples.iter().filter(|sample| sample.at > 3600.0 * HOURS.1);
    let stamp = stamp_ns * 1e-9;
    let question = QUESTIONS.max(sync);
    Ok(Error {
        clock: rms(late.clone().map(|sample| sample.error)),
        pairs: limit(walk, stamp / libm::sqrt(2.0), question),
        // Questions are worth as much as that many more Sync.
        all: limit(walk, stamp / libm::sqrt(1.0 + sync / question), sync),
        outside: late.filter(|sample| sample.error.abs() > sample.reach()).count(),
    })
}

/// Least RMS error of a clock, s, averaged over time, that measures its offset with this standard deviation, s, at this
/// interval, s; its rate walks by `walk` per √s.
#[must_use]
pub fn limit(walk: f64, measured: f64, interval: f64) -> f64 {
    let (r, q) = (measured * measured, walk * walk);
    let after = |[theta, both, rate]: [f64; 3], dt: f64| {
        [
            theta + dt * (2.0 * both + dt * rate) + q * dt * dt * dt / 3.0,
            both + dt * rate + q * dt * dt / 2.0,
            rate + q * dt,
        ]
    };
    let mut p = [1.0, 0.0, 1e-8];
    let (rounds, parts) = ((3600.0 / interval) as u32, 8);
    for _ in 0..rounds {
        let [theta, both, rate] = after(p, interval);
        let total = theta + r;
        p = [theta * r / total, both * r / total, rate - both * both / total];
    }
    let between = (0..parts).map(|n| (f64::from(n) + 0.5) / f64::from(parts) * interval);
    let mean = between.map(|dt| after(p, dt)[0]).sum::<f64>() / f64::from(parts);
    libm::sqrt(mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_estimators::OURS;

    /// For a walk that is slow beside the interval the steady state is known: θ's variance is √2 · q^¼ · (r·t)^¾.
    #[test]
    fn the_limit_is_that_of_theory() {
        for (walk, measured, interval) in [(1e-9, 5e-6, 1.0), (1e-9, 1e-7, 1.0 / 128.0)] {
            let (q, s) = (walk * walk, measured * measured * interval);
            let theory = libm::sqrt(libm::sqrt(2.0) * libm::pow(q, 0.25) * libm::pow(s, 0.75));
            let found = limit(walk, measured, interval);
            assert!((found / theory - 1.0).abs() < 0.05, "{found} {theory}");
        }
    }

    #[test]
    fn nobody_is_better_than_the_limit_and_ours_not_much_worse_with_the_same_stamps() {
        for (stamp, most) in STAMPS_NS.into_iter().zip([1.4, 1.4, 1.5]) {
            let Error { clock, pairs, all, outside } = error(OURS, 1.0, stamp, 1).unwrap();
            println!("{stamp} ns: {clock} s, limit {pairs} s");
            assert_eq!((outside, pairs), (0, all), "each Sync has a question of its own");
            assert!((0.8..most).contains(&(clock / pairs)), "{stamp} ns: {clock} {pairs}");
        }
    }

    #[test]
    fn more_sync_than_questions_allow_for_less() {
        let limits = SYNCS.map(|sync| limit(1e-9, 1e-7 / libm::sqrt(1.0 + sync.min(1.0)), sync));
        assert!(limits.windows(2).all(|two| two[0] < two[1]), "{limits:?}");
    }
}
