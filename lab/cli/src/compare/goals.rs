//! Verdicts of the rounds on the goals.

use std::fmt::Write;

use truechimer_outcome::interval::Interval;
use truechimer_outcome::outcome::{Goal, times};
use truechimer_outcome::stats::median;
use truechimer_outcome::verdict::Verdict;

use crate::compare::args::Options;
use crate::compare::figures::Figures;
use crate::compare::followers::OURS;
use crate::compare::show::{judged, us};
use crate::compare::trial::{Followed, Runs, Trial};

/// A clock that has the time for less than this share of a round is no measure for others in it: a
/// filter that lets a few of the best packets through and has no time for the rest would be.
pub const MOST_OF_THE_TIME: f64 = 0.97;
/// Limit of how far a clock may go with a server that goes wrong, ns.
const STUBBORN_NS: f64 = 100_000.0;
/// Limit of the system clock's distance from a straight line, ns. Beyond it somebody else must be
/// steering it: then chronyd, which takes its time from it, is not judged by.
pub const STRAIGHT_NS: f64 = 2_000.0;
/// Limit of how uncertain the truth may be in a round that is judged: a small part of what is
/// compared, ns either way.
pub const TRUTH_NS: f64 = 200.0;

/// One other clock beside ours, over the rounds.
struct Rival<'a> {
    name: &'a str,
    /// Our RMS error over its own, over the readings that both have.
    ratio: Interval,
    /// Medians of the rounds' RMS errors over these readings, ns.
    ours: f64,
    theirs: f64,
}

impl Rival<'_> {
    fn verdict(&self) -> Verdict {
        Verdict::at_most(1.0, &self.ratio)
    }

    /// The worse for us the greater.
    fn rank(&self) -> (u8, f64) {
        let rank = match self.verdict() {
            Verdict::Met => 0,
            Verdict::Open(_) => 1,
            Verdict::NotMet => 2,
        };
        (rank, self.ratio.median)
    }
}

/// True if a round can be judged by: the control is the truth itself, and a system clock that is
/// left alone.
#[must_use]
pub fn is_fair(trial: &Trial) -> bool {
    trial.bent_ns <= STRAIGHT_NS && trial.width_ns / 2.0 <= TRUTH_NS
}

/// The goals of a scenario.
#[must_use]
pub fn goals(options: &Options, runs: &Runs) -> Vec<Goal> {
    let scenario = &runs.scenario;
    let ours = |trial: &Trial| trial.clocks.iter().find(|clock| clock.name == OURS).cloned();
    let own: Vec<Figures> =
        runs.rounds.iter().filter_map(ours).map(|clock| judged(options, &clock)).collect();
    if own.is_empty() {
        return Vec::new();
    }
    let mut goals = Vec::new();
    if scenario.is_honest() && !scenario.is_blind() {
        goals.push(beside_others(options, runs));
    }
    if scenario.is_honest() {
        let all = Figures::over(&own);
        let mut goal = Goal::counted(
            &format!("{}: readings within Truechimer's bound", scenario.name),
            "all",
            format!("{} of {}", all.inside, all.bounded),
            all.inside == all.bounded,
        );
        if all.bounded == 0 {
            goal.verdict = Verdict::all([]);
        }
        goals.push(goal);
    } else {
        let most: Vec<f64> = own.iter().map(|figures| figures.spread.most).collect();
        let most = Interval::of(&most);
        goals.push(Goal {
            name: format!("{}: Truechimer stays with the truth", scenario.name),
            wanted: format!("≤ {} µs", us(STUBBORN_NS)),
            measured: most.text(|ns| format!("{} µs", us(ns))),
            verdict: Verdict::at_most(STUBBORN_NS, &most),
        });
    }
    goals
}

/// Ours beside the clock that is hardest to beat, of those that had the time.
fn beside_others(options: &Options, runs: &Runs) -> Goal {
    let names: Vec<&str> = runs.rounds.first().map_or(Vec::new(), |trial| {
        trial.clocks.iter().map(|clock| clock.name.as_str()).filter(|name| *name != OURS).collect()
    });
    let fair = runs.rounds.iter().filter(|trial| is_fair(trial)).count();
    let (timely, absent): (Vec<Rival<'_>>, Vec<Rival<'_>>) = names
        .into_iter()
        .map(|name| rival(options, runs, name))
        .partition(|rival| rival.ratio.rounds >= fair.min(Interval::LEAST_ROUNDS));
    let hardest = timely.iter().max_by(|a, b| {
        let ((a, a_ratio), (b, b_ratio)) = (a.rank(), b.rank());
        a.cmp(&b).then(a_ratio.total_cmp(&b_ratio))
    });
    let mut measured = match hardest {
        Some(rival) => format!(
            "{}; {} µs, {} {} µs",
            times(&rival.ratio),
            us(rival.ours),
            rival.name,
            us(rival.theirs)
        ),
        None => "not measured".to_owned(),
    };
    for rival in &absent {
        let _ =
            write!(measured, "; {} had the time in {} of {fair}", rival.name, rival.ratio.rounds);
    }
    Goal {
        name: format!("{}: RMS error beside each other clock", runs.scenario.name),
        wanted: "≤ 1 ×".to_owned(),
        measured,
        verdict: Verdict::all(timely.iter().map(Rival::verdict)),
    }
}

fn rival<'a>(options: &Options, runs: &Runs, name: &'a str) -> Rival<'a> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for trial in runs.rounds.iter().filter(|trial| is_fair(trial)) {
        let find = |name: &str| trial.clocks.iter().find(|clock| clock.name == name);
        let (Some(own), Some(other)) = (find(OURS), find(name)) else { continue };
        let (own, other, share) = beside(options, own, other);
        if share >= MOST_OF_THE_TIME {
            ours.push(own);
            theirs.push(other);
        }
    }
    Rival {
        name,
        ratio: Interval::of_ratios(&ours, &theirs),
        ours: median(&ours),
        theirs: median(&theirs),
    }
}

/// The RMS error of ours and of another clock over the readings that both have, ns, and which share
/// of ours that is.
fn beside(options: &Options, ours: &Followed, other: &Followed) -> (f64, f64, f64) {
    let has = |clock: &Followed, at: f64| {
        clock.samples.binary_search_by(|sample| sample.at.total_cmp(&at)).is_ok()
    };
    let common = |clock: &Followed, with: &Followed| {
        let samples = clock.samples.iter().filter(|sample| has(with, sample.at));
        Figures::of(&samples.copied().collect::<Vec<_>>(), options.warm_up, options.length)
    };
    let (own, theirs) = (common(ours, other), common(other, ours));
    let share = own.readings as f64 / judged(options, ours).readings as f64;
    (own.rms, theirs.rms, share)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::compare::figures::Sample;
    use crate::compare::scenario::Scenario;

    /// Rounds in which ours and chronyd have these errors all the time, ns.
    pub fn runs(name: &str, rounds: &[[f64; 2]]) -> Runs {
        let clock = |name: &str, error: f64| Followed {
            name: name.to_owned(),
            samples: (0..100)
                .map(|n| Sample { at: f64::from(n), error, bound: Some(20_000.0) })
                .collect(),
        };
        let trial = |errors: &[f64; 2]| Trial {
            clocks: vec![clock(OURS, errors[0]), clock("chronyd", errors[1])],
            width_ns: 80.0,
            bent_ns: 0.0,
        };
        Runs {
            scenario: Scenario::named(name).unwrap(),
            rounds: rounds.iter().map(trial).collect(),
        }
    }

    pub fn options() -> Options {
        Options {
            scenarios: Vec::new(),
            rounds: 6,
            length: 100.0,
            warm_up: 20.0,
            poll: 2,
            one_by_one: false,
            seed: 1,
            clockbound: None,
            progress: false,
        }
    }

    fn met(runs: &Runs) -> Vec<Option<bool>> {
        goals(&options(), runs).iter().map(|goal| goal.verdict.met()).collect()
    }

    #[test]
    fn goals_compare_with_the_others_over_the_rounds() {
        assert_eq!(met(&runs("quiet", &[[1000.0, 2000.0]; 6])), [Some(true), Some(true)]);
        assert_eq!(met(&runs("quiet", &[[3000.0, 2000.0]; 6])), [Some(false), Some(true)]);
        assert_eq!(met(&runs("quiet", &[[30_000.0, 2000.0]; 6])), [Some(false), Some(false)]);
        // Nobody can see a change in one direction: only the bound counts.
        assert_eq!(met(&runs("route-back", &[[3000.0, 2000.0]; 6])), [Some(true)]);
        assert_eq!(met(&runs("server-step", &[[99_000.0, 1.0]; 6])), [Some(true)]);
        assert_eq!(met(&runs("server-step", &[[150e6, 1.0]; 6])), [Some(false)]);
    }

    #[test]
    fn one_bad_round_does_not_make_a_goal_missed() {
        // Five rounds at 0.6 ×, and one that came out at 4.4 ×.
        let mut rounds = vec![[1200.0, 2000.0]; 5];
        rounds.push([8800.0, 2000.0]);
        let goals = goals(&options(), &runs("bursts-both", &rounds));
        assert_eq!(goals[0].verdict.text(), "cannot judge: 1 lies within the interval");
        let measured = "0.60 × (0.60 × to 4.40 ×, 6 rounds); 1.20 µs, chronyd 2.00 µs";
        assert_eq!(goals[0].measured, measured);
        // By itself it says nothing at all.
        assert_eq!(met(&runs("bursts-both", &rounds[5..])), [None, Some(true)]);
        // A broken promise is one, whenever.
        rounds[0] = [30_000.0, 2000.0];
        assert_eq!(met(&runs("bursts-both", &rounds))[1], Some(false));
    }

    #[test]
    fn only_readings_of_both_are_compared() {
        let mut runs = runs("quiet", &[[1000.0, 900.0]]);
        let trial = &mut runs.rounds[0];
        // Far off while the other has no time at all.
        trial.clocks[0].samples[30].error = 1e6;
        trial.clocks[1].samples.remove(30);
        let (own, theirs, share) = beside(&options(), &trial.clocks[0], &trial.clocks[1]);
        assert_eq!((own, theirs), (1000.0, 900.0));
        assert!((share - 79.0 / 80.0).abs() < 1e-9);
    }

    #[test]
    fn who_has_the_time_now_and_then_is_no_measure() {
        let mut runs = runs("quiet", &[[1000.0, 100.0]; 6]);
        for trial in &mut runs.rounds {
            let mut steady = trial.clocks[1].clone();
            steady.name = "steady".to_owned();
            steady.samples.iter_mut().for_each(|sample| sample.error = 2000.0);
            trial.clocks[1].samples.truncate(50);
            trial.clocks.push(steady);
        }
        let goal = &goals(&options(), &runs)[0];
        assert_eq!(goal.verdict, Verdict::Met, "{goal:?}");
        assert!(goal.measured.contains("; chronyd had the time in 0 of 6"), "{goal:?}");
    }

    #[test]
    fn rounds_that_cannot_be_judged_by_are_not() {
        let mut runs = runs("quiet", &[[3000.0, 2000.0]; 7]);
        runs.rounds[0].bent_ns = 5000.0;
        assert_eq!(met(&runs)[0], Some(false));
        runs.rounds[1].width_ns = 5000.0;
        let goal = &goals(&options(), &runs)[0];
        assert_eq!(goal.verdict.met(), None, "{goal:?}");
    }
}
