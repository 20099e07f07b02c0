//! Scenarios whose figures are kept: the catalogue, the start, and the end of an outage.

use super::Figure;
use crate::catalogue::catalogue;
use crate::outage;
use crate::scenario::{Scenario, ScenarioError};

/// Scenarios of the reference figures: nothing may make them worse.
const HEADLINE: [&str; 23] = [
    "lan",
    "lan-bursts-down",
    "lan-bursts-up",
    "lan-bursts-both",
    "wan",
    "temperature",
    "outage",
    "loss-20",
    "lan-poll-64",
    "lan-poll-256",
    "lan-poll-1024",
    "wan-poll-64",
    "wan-poll-256",
    "wan-poll-1024",
    "shift-up-forward",
    "shift-up-backward",
    "shift-up-both",
    "shift-down-forward",
    "shift-down-backward",
    "shift-down-both",
    "heavy-tail",
    "server-step-150ms",
    "server-step-1ms",
];
/// Scenarios whose start is looked at by itself.
const STARTS: [&str; 4] = ["lan", "temperature", "lan-poll-64", "wan"];
/// Length of the start that is looked at, h.
const START_HOURS: f64 = 0.5;
/// Runs of a short case for each seed: chance rules it.
const SHORT_RUNS: usize = 20;

/// A scenario, and what is kept of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Case {
    /// The scenario.
    pub scenario: Scenario,
    /// True if it is one of the reference figures.
    pub is_headline: bool,
    /// Runs for each seed that is asked for.
    pub runs_per_seed: usize,
    /// The figures that say something of it.
    pub figures: &'static [Figure],
}

impl Case {
    fn short(scenario: Scenario, figures: &'static [Figure]) -> Case {
        Case { scenario, is_headline: true, runs_per_seed: SHORT_RUNS, figures }
    }

    /// Seeds of the case, when so many are asked for.
    pub fn seeds(&self, asked: usize) -> impl Iterator<Item = u64> + use<> {
        1..=(asked * self.runs_per_seed) as u64
    }
}

/// All cases, in the order of a table.
///
/// # Errors
/// Never, as long as the catalogue has what the short cases are made of.
pub fn cases() -> Result<Vec<Case>, ScenarioError> {
    let whole = |scenario: Scenario| Case {
        is_headline: HEADLINE.contains(&scenario.name.as_str()),
        scenario,
        runs_per_seed: 1,
        figures: &Figure::ALL,
    };
    let mut all: Vec<Case> = catalogue().into_iter().map(whole).collect();
    for name in STARTS {
        let known = crate::find(name).map_err(|why| ScenarioError::new(why.to_string()))?;
        let scenario = Scenario {
            name: format!("{name}-start"),
            hours: START_HOURS,
            warm_up_hours: 0.0,
            ..known
        };
        const FIGURES: &[Figure] = &[Figure::Below500UsS, Figure::Below100UsS, Figure::Below10UsS];
        all.push(Case::short(scenario, FIGURES));
    }
    all.push(Case::short(outage::scenario()?, &[Figure::OutageEndUs]));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_is_a_case_and_every_headline_is_one_of_them() {
        let all = cases().unwrap();
        let names: Vec<&str> = all.iter().map(|case| case.scenario.name.as_str()).collect();
        for scenario in catalogue() {
            let of_it = names.iter().filter(|name| **name == scenario.name).count();
            assert_eq!(of_it, 1, "{}", scenario.name);
        }
        for name in HEADLINE {
            assert!(names.contains(&name), "{name}");
        }
        let headline = all.iter().filter(|case| case.is_headline).count();
        assert_eq!(headline, HEADLINE.len() + STARTS.len() + 1);
        for case in &all {
            assert_eq!(case.scenario.check(), Ok(()));
            assert!(case.figures.is_sorted());
        }
    }
}
