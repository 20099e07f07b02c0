//! Error of a clock at the end of two hours without its server, beside one that is told the truth
//! about oscillator and path and sees the same packets.

use truechimer_estimators::Kind;
use truechimer_report::mean;

use crate::direct::Packets;
use crate::omniscient::Omniscient;
use crate::path::Outage;
use crate::scenario::{Scenario, ScenarioError};
use crate::world::simulate_alike;

/// Time with a server before, h: long enough to know the rate as well as it can be known.
const BEFORE: f64 = 6.0;
/// Time without one, h.
const WITHOUT: f64 = 2.0;

/// The error at the end, s, of each of some estimators and of the omniscient one.
#[derive(Clone, PartialEq, Debug)]
pub struct Ends {
    /// Clock − truth, in the order in which they were asked for.
    pub clocks: Vec<f64>,
    /// That of the omniscient filter.
    pub omniscient: f64,
}

/// The LAN of the reference figures, whose server is away when the run ends.
///
/// # Errors
/// Never, as long as the catalogue has a LAN.
pub fn scenario() -> Result<Scenario, ScenarioError> {
    let mut scenario = crate::find("lan").map_err(|why| ScenarioError::new(why.to_string()))?;
    scenario.name = "outage-end".into();
    scenario.hours = BEFORE + WITHOUT;
    scenario.warm_up_hours = 1.0;
    let away = Outage { from_s: 3600.0 * BEFORE, to_s: 3600.0 * (BEFORE + WITHOUT) };
    for server in &mut scenario.servers {
        for path in [&mut server.forward, &mut server.backward] {
            path.outages = vec![away];
        }
    }
    Ok(scenario)
}

/// One run of each.
///
/// # Errors
/// If the scenario makes no sense.
pub fn ends(estimators: &[Kind], seed: u64) -> Result<Ends, ScenarioError> {
    let scenario = scenario()?;
    let mut clocks = Vec::new();
    let mut omniscient = f64::NAN;
    for estimator in estimators {
        let run = simulate_alike(&scenario, *estimator, seed)?;
        clocks.push(run.trace.samples.last().map_or(f64::NAN, |sample| sample.error));
        if !omniscient.is_nan() {
            continue;
        }
        let packets = Packets::of(&scenario, seed, &run)
            .ok_or_else(|| ScenarioError::new("no packets to show to the omniscient filter"))?;
        let mut filter = Omniscient::new(&scenario, packets.known()).map_err(ScenarioError::new)?;
        let trace = packets.run(&mut filter);
        omniscient = trace.samples.last().map_or(f64::NAN, |sample| sample.error);
    }
    Ok(Ends { clocks, omniscient })
}

/// The ratio of two root mean squares over the same seeds, and the factor that it is uncertain by
/// (95 %): the seeds left out one at a time (jackknife) show how far the logarithm strays.
#[must_use]
pub fn ratio(clock: &[f64], reference: &[f64]) -> (f64, f64) {
    let square = |errors: &[f64]| errors.iter().map(|e| e * e).sum::<f64>();
    let (all, all_reference) = (square(clock), square(reference));
    let pairs = clock.iter().zip(reference);
    let without: Vec<f64> =
        pairs.map(|(a, b)| libm::log((all - a * a) / (all_reference - b * b)) / 2.0).collect();
    let n = without.len() as f64;
    let mean = mean(&without);
    let spread = without.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() * (n - 1.0) / n;
    (libm::sqrt(all / all_reference), libm::exp(1.96 * libm::sqrt(spread)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_estimators::OURS;
    use truechimer_report::rms;

    #[test]
    fn the_ratio_of_what_is_twice_as_large_is_two() {
        let reference = [1.0, -2.0, 0.5, 3.0];
        let twice = reference.map(|e| -2.0 * e);
        let (found, factor) = ratio(&twice, &reference);
        assert!((found - 2.0).abs() < 1e-12 && (factor - 1.0).abs() < 1e-9, "{found} {factor}");
        let other = [1.0, 1.0, -4.0, 0.2];
        assert!(ratio(&other, &reference).1 > 1.2, "few and different: uncertain");
    }

    #[test]
    fn after_two_hours_ours_is_as_good_as_one_that_knows_all() {
        let runs: Vec<Ends> = (1..=40).map(|seed| ends(&[OURS], seed).unwrap()).collect();
        let ours: Vec<f64> = runs.iter().filter_map(|run| run.clocks.first().copied()).collect();
        let omniscient: Vec<f64> = runs.iter().map(|run| run.omniscient).collect();
        // The walk alone makes 353 µs, and what is not known of the rate some more.
        assert!((250e-6..480e-6).contains(&rms(&omniscient)), "{}", rms(&omniscient));
        let (found, factor) = ratio(&ours, &omniscient);
        assert!(found < 1.1, "{found} (± factor {factor})");
        assert!(found > 0.5, "too good to be true: {found}");
    }
}
