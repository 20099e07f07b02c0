//! The case for feed-forward, redone: the experiments by which the paper made it (Ridoux, Veitch,
//! Broomhead, "The Case for Feed-Forward Clock Synchronization"), in simulation, with feed-forward
//! and feedback clocks on identical packets.
//!
//! The paper's machines stood beside a GPS reference; here the truth is known exactly. Its feedback
//! clock was ntpd; here it is the textbook loop of RFC 5905, and a PI servo beside it.

mod experiments;
mod show;

use truechimer_estimators::Kind;
use truechimer_report::{Cell, Page, Section, Unit};

use crate::world::simulate_alike;
use crate::{Scenario, ScenarioError};
use truechimer_trace::Trace;
use truechimer_trace::{Differences, Statistics};

pub use experiments::experiments;

/// One experiment: clocks side by side in one or several scenarios.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Title of the experiment.
    pub title: &'static str,
    /// Description: what is done, and what to look for.
    pub text: &'static str,
    /// Difference between the scenarios.
    apart: &'static str,
    /// The scenarios, each with what tells it from the others.
    pub scenarios: Vec<(String, Scenario)>,
    shows: Shows,
}

/// View that an experiment shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shows {
    /// The error over time, and how it is distributed.
    Error,
    /// Fall of the error at the start.
    Start,
    /// Distribution of the error, from scenario to scenario.
    Distributions,
    /// Errors of intervals by the difference clock, from scenario to scenario.
    Differences,
}

/// Errors of a clock that are measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// The absolute clock: its error once a second.
    Absolute,
    /// The difference clock: the error of intervals of 1 s.
    OneSecond,
    /// The difference clock: the error of intervals of 1000 s.
    ThousandSeconds,
}

impl Measure {
    /// All of them.
    pub const ALL: [Measure; 3] = [Measure::Absolute, Measure::OneSecond, Measure::ThousandSeconds];

    /// A name for tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Measure::Absolute => "clock",
            Measure::OneSecond => "1 s interval",
            Measure::ThousandSeconds => "1000 s interval",
        }
    }

    /// The RMS of this error, µs.
    #[must_use]
    pub fn rms_us(self, statistics: &Statistics) -> f64 {
        match self {
            Measure::Absolute => statistics.error.rms_us,
            Measure::OneSecond => statistics.one_second.error.rms_us,
            Measure::ThousandSeconds => statistics.thousand_seconds.error.rms_us,
        }
    }
}

/// Results of one clock in one scenario, under all seeds.
#[derive(Clone, Debug)]
pub struct Outcome {
    clock: Kind,
    /// All seeds pooled.
    statistics: Statistics,
    /// Each seed by itself: RMS by [`Measure::ALL`], µs.
    each: Vec<[f64; 3]>,
    /// Second and error, s, of the first seed; empty where only distributions are shown.
    errors: Vec<(f64, f64)>,
    /// Second and ± bound, s, likewise.
    bounds: Vec<(f64, f64)>,
    warm_up: f64,
    /// True if the bound has to hold.
    promised: bool,
}

impl Outcome {
    /// Root mean square of the error under all seeds, µs.
    #[must_use]
    pub fn rms_us(&self, measure: Measure) -> f64 {
        measure.rms_us(&self.statistics)
    }

    /// The least and the greatest RMS of a single seed, µs.
    #[must_use]
    pub fn range_us(&self, measure: Measure) -> (f64, f64) {
        let at = Measure::ALL.iter().position(|m| *m == measure).unwrap_or(0);
        let of = || self.each.iter().filter_map(|rms| rms.get(at).copied());
        (of().fold(f64::INFINITY, f64::min), of().fold(0.0, f64::max))
    }

    fn of(clock: Kind, traces: &[Trace], shows: Shows) -> Outcome {
        let all: Vec<&Trace> = traces.iter().collect();
        let each = all.iter().map(|trace| {
            let alone = Statistics::of(&[*trace]);
            Measure::ALL.map(|measure| measure.rms_us(&alone))
        });
        let kept = match (shows, traces.first()) {
            (Shows::Error | Shows::Start, Some(first)) => first.samples.as_slice(),
            _ => &[],
        };
        let known = || kept.iter().filter(|s| s.error.is_finite());
        Outcome {
            clock,
            statistics: Statistics::of(&all),
            each: each.collect(),
            errors: known().map(|s| (s.at, s.error)).collect(),
            bounds: known().filter(|s| s.status.bound_holds()).map(|s| (s.at, s.bound)).collect(),
            warm_up: traces.first().map_or(0.0, |trace| trace.warm_up),
            promised: traces.iter().all(|trace| trace.honest),
        }
    }
}

impl Experiment {
    /// Virtual hours of its scenarios, all together.
    #[must_use]
    pub fn hours(&self) -> f64 {
        self.scenarios.iter().map(|(_, scenario)| scenario.hours).sum()
    }

    /// Runs each clock in one of its scenarios with each seed, all on the same packets.
    ///
    /// # Errors
    /// If the scenario cannot be run.
    pub fn run(
        &self,
        scenario: &Scenario,
        clocks: &[Kind],
        seeds: &[u64],
    ) -> Result<Vec<Outcome>, ScenarioError> {
        let outcome = |clock: &Kind| {
            let trace = |seed: &u64| Ok(simulate_alike(scenario, *clock, *seed)?.trace);
            let traces = seeds.iter().map(trace).collect::<Result<Vec<Trace>, ScenarioError>>()?;
            Ok(Outcome::of(*clock, &traces, self.shows))
        };
        clocks.iter().map(outcome).collect()
    }

    /// Section of the report; the outcomes are in the order of the scenarios.
    #[must_use]
    pub fn section(&self, outcomes: &[Vec<Outcome>]) -> Section {
        show::section(self, outcomes)
    }
}

/// The difference clock's figures of this measure.
fn differences(statistics: &Statistics, measure: Measure) -> Option<&Differences> {
    match measure {
        Measure::Absolute => None,
        Measure::OneSecond => Some(&statistics.one_second),
        Measure::ThousandSeconds => Some(&statistics.thousand_seconds),
    }
}

/// The report on all experiments, each `scale` times as long as in full.
#[must_use]
pub fn page(
    sections: Vec<Section>,
    clocks: &[Kind],
    scale: f64,
    command: &str,
    version: &str,
) -> Page {
    let page = Page::new("The case for feed-forward, redone")
        .highlight("experiments", sections.len().to_string())
        .highlight("clocks", clocks.len().to_string())
        .highlight("of the full length", Cell::number(scale, Unit::Share));
    let shortened = if scale < 1.0 {
        " The experiments were shortened: the hours named in the texts are those of the full length, \
         and the feedback clocks had less time to settle than they need."
    } else {
        ""
    };
    let clocks = clocks.iter().map(|kind| format!("{}: {}", kind.name(), kind.about()));
    let clocks = clocks.collect::<Vec<_>>().join("; ");
    page.about(&format!(
            "The experiments of Ridoux, Veitch and Broomhead, \"The Case for Feed-Forward Clock \
             Synchronization\", in simulation. {clocks}. Feed-forward clocks leave the counter \
             alone; feedback clocks, which steer a system clock, take their stamps from it. The \
             packets are the same for all. Intervals are measured by the difference clock, which \
             the feedback clocks do not have: theirs are by the steered clock, corrections and all. \
             Curves are of the first seed, figures of all together.{shortened}"
        ))
        .command(command)
        .version(version)
        .detail(1500)
        .sections(sections)
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_estimators::{NTP_PLL, OURS};

    #[test]
    fn every_experiment_runs_and_is_shown() {
        let all = experiments(0.02).unwrap();
        assert_eq!(all.len(), 11);
        let mut sections = Vec::new();
        // One of each kind of picture; the others differ by their scenarios only.
        let chosen: Vec<&Experiment> = [Shows::Error, Shows::Start, Shows::Distributions]
            .into_iter()
            .chain([Shows::Differences])
            .filter_map(|shows| all.iter().find(|e| e.shows == shows))
            .collect();
        assert_eq!(chosen.len(), 4);
        let clocks = [OURS, NTP_PLL];
        for experiment in chosen {
            let scenarios: Vec<_> = experiment.scenarios.iter().step_by(7).collect();
            let run = |(_, scenario): &&(String, Scenario)| {
                experiment.run(scenario, &clocks, &[1, 2]).unwrap()
            };
            let outcomes: Vec<_> = scenarios.iter().map(run).collect();
            assert!(outcomes.iter().all(|outcomes| outcomes.len() == clocks.len()));
            assert!(outcomes.iter().flatten().all(|o| o.statistics.error.seconds > 600));
            for outcome in outcomes.iter().flatten() {
                let (least, most) = outcome.range_us(Measure::Absolute);
                let all = outcome.rms_us(Measure::Absolute);
                assert!(least < most && least <= all && all <= most, "{least} {all} {most}");
            }
            let shown = Experiment {
                scenarios: scenarios.into_iter().cloned().collect(),
                ..experiment.clone()
            };
            sections.push(shown.section(&outcomes));
        }
        let page = page(sections, &clocks, 0.02, "truechimer-lab simulate case", "1");
        assert_eq!(page.charts(), 6);
        let html = page.render();
        for clock in clocks {
            assert!(html.contains(clock.name()));
        }
        for measure in Measure::ALL {
            assert!(html.contains(measure.name()), "{}", measure.name());
        }
    }

    #[test]
    fn all_scenarios_are_sound_at_any_length() {
        for scale in [0.02, 0.3, 1.0] {
            for experiment in experiments(scale).unwrap() {
                assert!(!experiment.scenarios.is_empty());
                for (label, scenario) in &experiment.scenarios {
                    scenario.check().unwrap_or_else(|why| panic!("{label}: {why}"));
                }
            }
        }
    }
}
