//! The frequency under load, phase by phase.

use serde::Serialize;

use crate::analysis::median;
use crate::stress::{Load, Phases, Stress};

/// The frequency error of the phases of one load, relative to its mean over all.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LoadFrequency {
    /// The load.
    pub load: Load,
    /// Number of intervals between samples that were under it alone.
    pub intervals: usize,
    /// Their mean, ppm: positive, the counter ran faster than on average.
    pub mean_ppm: f64,
    /// Their median.
    pub median_ppm: f64,
    /// Their standard deviation.
    pub deviation_ppm: f64,
    /// The least.
    pub min_ppm: f64,
    /// The greatest.
    pub max_ppm: f64,
}

/// Effect of alternating loads on the frequency.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Stressed {
    /// Which loads alternated.
    pub stress: Stress,
    /// Length of each phase, s.
    pub phase_s: f64,
    /// Frequency under each.
    pub loads: Vec<LoadFrequency>,
}

/// Instantaneous frequency errors in ppm, by where each interval begins (s), from phases
/// `interval_s` apart, less their mean; intervals with a gap at either end are left out.
#[must_use]
pub fn instantaneous(phase: &[f64], interval_s: f64) -> Vec<(f64, f64)> {
    let mut errors: Vec<(f64, f64)> = phase
        .windows(2)
        .enumerate()
        .filter_map(|(i, pair)| match pair {
            [a, b] if a.is_finite() && b.is_finite() => {
                Some((i as f64 * interval_s, (b - a) / interval_s * 1e6))
            }
            _ => None,
        })
        .collect();
    let mean = errors.iter().map(|e| e.1).sum::<f64>() / errors.len().max(1) as f64;
    errors.iter_mut().for_each(|error| error.1 -= mean);
    errors
}

impl Stressed {
    /// Sorts the intervals by their load; those that a change of load falls into are left out, the
    /// last one of each phase among them, as the load may change a little early.
    #[must_use]
    pub fn of(phases: Phases, phase: &[f64], interval_s: f64) -> Stressed {
        let errors = instantaneous(phase, interval_s);
        let at = |time_s: f64| {
            std::time::Duration::try_from_secs_f64(time_s).map_or(Load::Quiet, |at| phases.at(at))
        };
        // Not only the same load at either end: short phases come and go in between.
        let each_s = phases.each.as_secs_f64();
        let nth = |time_s: f64| if each_s > 0.0 { (time_s / each_s).floor() } else { 0.0 };
        let alone = |time_s: f64| {
            phases.stress.loads().len() < 2 || nth(time_s) == nth(time_s + interval_s)
        };
        let loads = phases.stress.loads().iter().filter_map(|&load| {
            let own: Vec<f64> = errors
                .iter()
                .filter(|(time, _)| at(*time) == load && alone(*time))
                .map(|error| error.1)
                .collect();
            let n = own.len() as f64;
            let mean_ppm = own.iter().sum::<f64>() / n;
            let squares: f64 = own.iter().map(|e| (e - mean_ppm) * (e - mean_ppm)).sum();
            Some(LoadFrequency {
                load,
                intervals: own.len(),
                mean_ppm,
                median_ppm: median(own.iter().copied())?,
                deviation_ppm: (squares / (n - 1.0).max(1.0)).sqrt(),
                min_ppm: own.iter().copied().reduce(f64::min)?,
                max_ppm: own.iter().copied().reduce(f64::max)?,
            })
        });
        Stressed {
            stress: phases.stress,
            phase_s: phases.each.as_secs_f64(),
            loads: loads.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn each_load_has_its_own_frequency() {
        // Two seconds quiet, two busy, and so on; 1 ppm faster while busy.
        let phases = Phases { stress: Stress::Cpu, each: Duration::from_secs(2) };
        let mut sum = 0.0;
        let phase: Vec<f64> = (0..=40)
            .map(|i| {
                let before = sum;
                sum += if i / 4 % 2 == 1 { 1.5e-6 } else { 0.5e-6 } * 0.5;
                if i == 13 { f64::NAN } else { before }
            })
            .collect();
        let stressed = Stressed::of(phases, &phase, 0.5);
        let [quiet, busy] = stressed.loads.as_slice() else { panic!("{stressed:?}") };
        assert_eq!((quiet.load, busy.load), (Load::Quiet, Load::Cpu));
        assert!((busy.mean_ppm - quiet.mean_ppm - 1.0).abs() < 1e-6, "{stressed:?}");
        assert!(quiet.deviation_ppm < 1e-6 && quiet.intervals >= 13, "{stressed:?}");
        assert!((busy.median_ppm - busy.max_ppm).abs() < 1e-6);
        assert_eq!(Stressed::of(phases, &[], 0.5).loads, []);
        // Of phases that come and go between two samples nothing can be said.
        let short = Phases { stress: Stress::Cpu, each: Duration::from_millis(250) };
        assert_eq!(Stressed::of(short, &phase, 0.5).loads, []);
        let none = Phases { stress: Stress::None, ..short };
        assert_eq!(Stressed::of(none, &phase, 0.5).loads.len(), 1);
    }
}
