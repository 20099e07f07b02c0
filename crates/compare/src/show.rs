//! Tables, plots and goals.

use std::fmt::Write;

use serde_json::{Value, json};
use truechimer_outcome::outcome::{Figure, Goal, Grid, Outcome};
use truechimer_outcome::plot::{Axis, Plot};
use truechimer_outcome::program;
use truechimer_outcome::stats::{median, show_share};
use truechimer_report::{Chart, Marker, Page, Series, Unit};

use crate::args::{self, Options};
use crate::figures::{Figures, STEADY, Sample, settled};
use crate::followers::OURS;
use crate::trial::{Followed, Trial};

/// Points of a line in a document.
const POINTS: usize = 120;
/// A clock that has the time for less than this share of a run is marked.
const MOST_OF_THE_TIME: f64 = 0.97;
/// How far a clock may go with a server that goes wrong, ns.
const STUBBORN_NS: f64 = 100_000.0;
/// How far from a straight line the system clock may be before somebody else must be steering it,
/// ns.
const STRAIGHT_NS: f64 = 2_000.0;

/// How the report begins.
#[must_use]
pub fn page() -> Page {
    program::page(args::NAME, "Truechimer beside chronyd and ClockBound")
}

/// Everything, the summary first.
#[must_use]
pub fn outcomes(options: &Options, trials: &[Trial]) -> Vec<Outcome> {
    let each = trials.iter().map(|trial| outcome(options, trial));
    std::iter::once(summary(options, trials)).chain(each).collect()
}

fn summary(options: &Options, trials: &[Trial]) -> Outcome {
    let names: Vec<&str> = trials
        .first()
        .map(|trial| trial.clocks.iter().map(|clock| clock.name.as_str()).collect())
        .unwrap_or_default();
    let mut rms = Grid::new(
        "RMS error, µs, of all readings after the warm-up that the clock had a time for",
        std::iter::once("scenario").chain(names.iter().copied()),
    );
    let mut inside = Grid::new(
        "Share of the readings within the clock's own bound, and the median of that bound",
        std::iter::once("scenario").chain(names.iter().copied()),
    );
    let caption =
        format!("Seconds until the error stayed below 100 µs, and below 10 µs, for {STEADY} s");
    let mut settles = Grid::new(&caption, std::iter::once("scenario").chain(names.iter().copied()));
    for trial in trials {
        let cells = trial.clocks.iter().map(|clock| {
            let after = |most| settled(&clock.samples, most);
            [1e5, 1e4]
                .map(|most| after(most).map_or("–".to_owned(), |s| format!("{s:.0}")))
                .join("; ")
        });
        settles.row(std::iter::once(trial.scenario.name.to_owned()).chain(cells));
        let all: Vec<Figures> = trial.clocks.iter().map(|c| judged(options, c)).collect();
        let row = |show: &dyn Fn(&Figures) -> String| -> Vec<String> {
            let cells = all.iter().map(show);
            std::iter::once(trial.scenario.name.to_owned()).chain(cells).collect()
        };
        let most = all.iter().map(|figures| figures.readings).max().unwrap_or(0) as f64;
        rms.row(row(&|figures| match figures.readings as f64 / most {
            share if share < MOST_OF_THE_TIME && share > 0.0 => {
                format!("{} ({} of the time)", us(figures.rms), show_share(share))
            }
            _ => us(figures.rms),
        }));
        inside.row(row(&bounds));
    }
    Outcome {
        name: "compare",
        title: "Truechimer beside chronyd and ClockBound on the same path".to_owned(),
        about: about(options, trials),
        goals: trials.iter().flat_map(|trial| goals(options, trial)).collect(),
        grids: vec![rms, inside, settles],
        figures: Vec::new(),
        json: json!({ "length_s": options.length, "warm_up_s": options.warm_up, "poll_s": options.poll }),
    }
}

/// How it was done, as far as this run is concerned; the document has the rest.
fn about(options: &Options, trials: &[Trial]) -> Vec<String> {
    let width = median(&trials.iter().map(|trial| trial.width_ns / 2.0).collect::<Vec<_>>());
    let order = if options.one_by_one { "one after the other" } else { "side by side" };
    let mut about = vec![format!(
        "Scenarios of {:.0} s, {order}, the first {:.0} s not judged; all ask every {} s. Clocks are \
         read at one count, where the truth is known to {width:.0} ns. docs/compare.md says how, and \
         what is unfair to whom.",
        options.length, options.warm_up, options.poll,
    )];
    if options.clockbound.is_none() {
        about.push(
            "ClockBound did not take part: it is neither in PATH nor named by --clockbound \
             (scripts/compare builds it)."
                .to_owned(),
        );
    }
    let bent = trials.iter().map(|trial| trial.bent_ns).fold(0.0, f64::max);
    if bent > STRAIGHT_NS {
        about.push(format!(
            "Something else steers this machine's system clock: it was up to {} µs off a straight \
             line. That is unfair to chronyd, which takes its time from it.",
            us(bent)
        ));
    }
    about
}

/// The figures after the warm-up.
fn judged(options: &Options, clock: &Followed) -> Figures {
    Figures::of(&clock.samples, options.warm_up, options.length)
}

fn outcome(options: &Options, trial: &Trial) -> Outcome {
    let scenario = &trial.scenario;
    let head = ["clock", "RMS", "mean", "median", "99 %", "most", "readings", "inside; bound"];
    let mut grid = Grid::new("Errors in µs", head);
    let mut figures = Vec::new();
    for phase in scenario.phases() {
        let from = (phase.from * options.length).max(options.warm_up);
        let to = phase.to * options.length;
        for clock in &trial.clocks {
            let of = Figures::of(&clock.samples, from, to);
            let name = match phase.name {
                "all" => clock.name.clone(),
                phase => format!("{}, {phase}", clock.name),
            };
            figures.push(to_json(&clock.name, phase.name, &of));
            let Figures { rms, mean, spread, readings, .. } = of;
            let errors = [rms, mean, spread.p50, spread.p99, spread.most].map(us);
            let rest = [readings.to_string(), bounds(&of)];
            grid.row(std::iter::once(name).chain(errors).chain(rest));
        }
    }
    Outcome {
        name: scenario.name,
        title: scenario.name.to_owned(),
        about: vec![format!("{}.", scenario.about)],
        goals: Vec::new(),
        grids: vec![grid],
        figures: vec![
            Figure::Plot(plot(options, trial)),
            Figure::Chart(Box::new(chart(options, trial))),
        ],
        json: Value::Array(figures),
    }
}

fn to_json(clock: &str, phase: &str, figures: &Figures) -> Value {
    let Figures { readings, rms, spread, mean, bounded, inside, bound } = *figures;
    json!({
        "clock": clock, "phase": phase, "readings": readings, "rms_ns": rms, "mean_ns": mean,
        "median_ns": spread.p50, "p99_ns": spread.p99, "most_ns": spread.most,
        "bounded": bounded, "inside": inside, "median_bound_ns": bound,
    })
}

fn goals(options: &Options, trial: &Trial) -> Vec<Goal> {
    let scenario = &trial.scenario;
    let is_ours = |clock: &&Followed| clock.name == OURS;
    let Some(clock) = trial.clocks.iter().find(is_ours) else {
        return Vec::new();
    };
    let ours = judged(options, clock);
    let mut goals = Vec::new();
    if scenario.is_honest() && !scenario.is_blind() {
        let others = trial.clocks.iter().filter(|clock| !is_ours(clock));
        let best = others
            .map(|other| (beside(options, clock, other), other.name.as_str()))
            .filter(|((ours, theirs, _), _)| (ours / theirs).is_finite())
            .max_by(|((a, b, _), _), ((c, d, _), _)| (a / b).total_cmp(&(c / d)));
        if let Some(((own, rms, share), name)) = best {
            let title = format!("{}: RMS error beside the best other", scenario.name);
            let mut note = format!("{} µs; {name} {} µs", us(own), us(rms));
            if share < MOST_OF_THE_TIME {
                let _ = write!(note, ", {} of the time", show_share(share));
            }
            goals.push(Goal::at_most(&title, 1.0, own / rms).note(&note));
        }
    }
    if scenario.is_honest() {
        goals.push(Goal {
            name: format!("{}: readings within Truechimer's bound", scenario.name),
            wanted: "all".to_owned(),
            measured: format!("{} of {}", ours.inside, ours.bounded),
            met: (ours.bounded > 0).then_some(ours.inside == ours.bounded),
        });
    } else {
        goals.push(Goal {
            name: format!("{}: Truechimer stays with the truth", scenario.name),
            wanted: format!("≤ {} µs", us(STUBBORN_NS)),
            measured: format!("{} µs", us(ours.spread.most)),
            met: (ours.readings > 0).then_some(ours.spread.most <= STUBBORN_NS),
        });
    }
    goals
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

/// The error of each clock over time, for a document.
fn plot(options: &Options, trial: &Trial) -> Plot {
    let window = options.length / POINTS as f64;
    let line = |clock: &Followed| {
        let at = |n: usize| {
            let from = n as f64 * window;
            let figures = Figures::of(&clock.samples, from, from + window);
            (from + window / 2.0, figures.rms * 1e-3)
        };
        let points = (0..POINTS).map(at).filter(|(_, rms)| *rms > 0.0).collect();
        (clock.name.clone(), points)
    };
    Plot {
        title: format!("{}: RMS error of {window:.0} s each", trial.scenario.name),
        x: Axis::linear("seconds since the start"),
        y: Axis::log("µs"),
        lines: trial.clocks.iter().map(line).collect(),
    }
}

/// Every reading, for a report.
fn chart(options: &Options, trial: &Trial) -> Chart {
    let scenario = &trial.scenario;
    let mut chart = Chart::xy(&format!("{}: clock − truth", scenario.name))
        .x("since the start", Unit::Seconds)
        .y("clock − truth", Unit::Seconds)
        .about("The bands are the clocks' own bounds.");
    for (n, clock) in trial.clocks.iter().enumerate() {
        let points = |of: fn(&Sample) -> f64| clock.samples.iter().map(move |s| (s.at, of(s)));
        let line = Series::line(&clock.name, points(|sample| sample.error * 1e-9)).colour(n);
        let band = clock.samples.iter().filter_map(|sample| {
            let bound = sample.bound?;
            Some((sample.at, (sample.error - bound) * 1e-9, (sample.error + bound) * 1e-9))
        });
        let band = Series::band(&format!("bound of {}", clock.name), band).colour(n);
        let band = if clock.name == OURS { band } else { band.hidden() };
        chart = chart.with(line).with(band.behind());
    }
    let events = scenario.phases().into_iter().skip(1);
    chart = chart.markers(events.map(|phase| Marker::new(phase.from * options.length, phase.name)));
    chart.marker(Marker::new(options.warm_up, "judged from here"))
}

/// Which share of the readings was within the bounds, and these.
fn bounds(figures: &Figures) -> String {
    if figures.bounded == 0 {
        return "–".to_owned();
    }
    let share = match figures.inside {
        inside if inside == figures.bounded => "all".to_owned(),
        0 => "none".to_owned(),
        _ => show_share(figures.inside_share()),
    };
    format!("{share}; ± {}", us(figures.bound))
}

/// Ns as µs with three digits or so.
fn us(ns: f64) -> String {
    match (ns * 1e-3, (ns * 1e-3).abs()) {
        (us, _) if !us.is_finite() => "–".to_owned(),
        (us, 0.0..10.0) => format!("{us:.2}"),
        (us, 10.0..100.0) => format!("{us:.1}"),
        (us, _) => format!("{us:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    fn trial(name: &str, errors: [f64; 2]) -> Trial {
        let clock = |name: &str, error: f64| Followed {
            name: name.to_owned(),
            samples: (0..100)
                .map(|n| Sample { at: f64::from(n), error, bound: Some(20_000.0) })
                .collect(),
        };
        Trial {
            scenario: Scenario::named(name).unwrap(),
            clocks: vec![clock(OURS, errors[0]), clock("chronyd", errors[1])],
            width_ns: 80.0,
            bent_ns: 0.0,
        }
    }

    fn options() -> Options {
        Options {
            scenarios: Vec::new(),
            length: 100.0,
            warm_up: 20.0,
            poll: 2,
            one_by_one: false,
            seed: 1,
            clockbound: None,
            progress: false,
        }
    }

    fn met(trial: &Trial) -> Vec<Option<bool>> {
        goals(&options(), trial).iter().map(|goal| goal.met).collect()
    }

    #[test]
    fn goals_compare_with_the_best_other() {
        assert_eq!(met(&trial("quiet", [1000.0, 2000.0])), [Some(true), Some(true)]);
        assert_eq!(met(&trial("quiet", [3000.0, 2000.0])), [Some(false), Some(true)]);
        assert_eq!(met(&trial("quiet", [30_000.0, 2000.0])), [Some(false), Some(false)]);
        // Nobody can see a change in one direction: only the bound counts.
        assert_eq!(met(&trial("route-back", [3000.0, 2000.0])), [Some(true)]);
        assert_eq!(met(&trial("server-step", [99_000.0, 1.0])), [Some(true)]);
        assert_eq!(met(&trial("server-step", [150e6, 1.0])), [Some(false)]);
    }

    #[test]
    fn only_readings_of_both_are_compared() {
        let mut trial = trial("quiet", [1000.0, 900.0]);
        // Far off while the other has no time at all.
        trial.clocks[0].samples[30].error = 1e6;
        trial.clocks[1].samples.remove(30);
        let (own, theirs, share) = beside(&options(), &trial.clocks[0], &trial.clocks[1]);
        assert_eq!((own, theirs), (1000.0, 900.0));
        assert!((share - 79.0 / 80.0).abs() < 1e-9);
        trial.clocks[1].samples.truncate(50);
        let goals = goals(&options(), &trial);
        assert!(goals[0].measured.contains("chronyd 0.90 µs, 38 % of the time"), "{goals:?}");
    }

    #[test]
    fn the_summary_names_all_and_says_who_was_not_there() {
        let outcomes = outcomes(&options(), &[trial("quiet", [1000.0, 2000.0])]);
        let text = outcomes[0].text();
        assert!(text.contains("ClockBound did not take part"), "{text}");
        // The figures are what one wants to see.
        assert!(text.lines().take_while(|line| !line.is_empty()).count() <= 7, "{text}");
        assert!(text.contains("1.00") && text.contains("all; ± 20.0"), "{text}");
        assert_eq!(outcomes[1].plots().count(), 1);
        assert!(outcomes[1].markdown().contains("| Truechimer | 1.00 |"));
        let html = page().sections(outcomes.iter().map(Outcome::section)).render();
        assert!(html.contains("server-step") || html.contains("quiet"));
    }
}
