//! Tables and plots.

use std::fmt::Write;

use serde_json::{Value, json};
use truechimer_outcome::interval::Interval;
use truechimer_outcome::outcome::{Figure, Grid, Outcome};
use truechimer_outcome::plot::{Axis, Plot};
use truechimer_outcome::program;
use truechimer_outcome::stats::{median, range, show_share};
use truechimer_report::{Chart, Marker, Page, Series, Unit};

use crate::compare::args::Options;
use crate::compare::figures::{Figures, STEADY, Sample, settled};
use crate::compare::followers::OURS;
use crate::compare::goals::{MOST_OF_THE_TIME, STRAIGHT_NS, TRUTH_NS, goals, is_fair};
use crate::compare::scenario::Scenario;
use crate::compare::trial::{Followed, Runs, Trial};

/// Points of a line in a document.
const POINTS: usize = 120;

/// Beginning of the report.
#[must_use]
pub fn page() -> Page {
    program::page("Truechimer beside chronyd and ClockBound")
}

/// Everything, the summary first.
#[must_use]
pub fn outcomes(options: &Options, all: &[Runs]) -> Vec<Outcome> {
    let each = all.iter().map(|runs| outcome(options, runs));
    std::iter::once(summary(options, all)).chain(each).collect()
}

fn names(runs: &Runs) -> impl Iterator<Item = &str> {
    let clocks = runs.rounds.first().into_iter().flat_map(|trial| &trial.clocks);
    clocks.map(|clock| clock.name.as_str())
}

/// One clock's readings in each round.
fn clock<'a>(runs: &'a Runs, name: &'a str) -> impl Iterator<Item = &'a Followed> {
    let clocks = runs.rounds.iter().flat_map(|trial| &trial.clocks);
    clocks.filter(move |clock| clock.name == name)
}

fn summary(options: &Options, all: &[Runs]) -> Outcome {
    let head: Vec<&str> =
        std::iter::once("scenario").chain(all.first().into_iter().flat_map(names)).collect();
    let mut rms = Grid::new(
        "RMS error, µs, of the readings after the warm-up that the clock had a time for: median of \
         the rounds (least – greatest)",
        head.iter().copied(),
    );
    let mut inside = Grid::new(
        "Share of the readings within the clock's own bound, and the median of that bound, µs",
        head.iter().copied(),
    );
    let caption = format!(
        "Seconds until the error stayed below 100 µs, and below 10 µs, for {STEADY} s: medians"
    );
    let mut settles = Grid::new(&caption, head.iter().copied());
    for runs in all {
        let row = |show: &dyn Fn(&str) -> String| -> Vec<String> {
            let cells = names(runs).map(show);
            std::iter::once(runs.scenario.name.to_owned()).chain(cells).collect()
        };
        settles.row(row(&|name| {
            let after = |most| -> Vec<f64> {
                clock(runs, name)
                    .map(|clock| settled(&clock.samples, most).unwrap_or(f64::INFINITY))
                    .collect()
            };
            [1e5, 1e4]
                .map(|most| {
                    let median = Interval::of(&after(most)).median;
                    if median.is_finite() { format!("{median:.0}") } else { "–".to_owned() }
                })
                .join("; ")
        }));
        let of = |name: &str| -> Vec<Figures> {
            clock(runs, name).map(|clock| judged(options, clock)).collect()
        };
        let most = names(runs).map(|name| Figures::over(&of(name)).readings).max().unwrap_or(0);
        rms.row(row(&|name| {
            let (each, over) = (of(name), Figures::over(&of(name)));
            let (least, greatest) = range(&each.iter().map(|one| one.rms).collect::<Vec<_>>());
            let mut text = us(over.rms);
            if each.len() > 1 && over.readings > 0 {
                let _ = write!(text, " ({} – {})", us(least), us(greatest));
            }
            match over.readings as f64 / most as f64 {
                share if share < MOST_OF_THE_TIME && share > 0.0 => {
                    format!("{text}, {} of the time", show_share(share))
                }
                _ => text,
            }
        }));
        inside.row(row(&|name| bounds(&Figures::over(&of(name)))));
    }
    Outcome {
        headline: Vec::new(),
        name: "compare",
        title: "Truechimer beside chronyd and ClockBound on the same path".to_owned(),
        about: about(options, all),
        goals: all.iter().flat_map(|runs| goals(options, runs)).collect(),
        grids: vec![rms, inside, settles],
        figures: Vec::new(),
        json: json!({
            "rounds": options.rounds, "length_s": options.length, "warm_up_s": options.warm_up,
            "poll_s": options.poll,
        }),
    }
}

/// Description of how it was done, as far as this run is concerned; the document has the rest.
fn about(options: &Options, all: &[Runs]) -> Vec<String> {
    let trials = || all.iter().flat_map(|runs| &runs.rounds);
    let width = median(trials().map(|trial| trial.width_ns / 2.0));
    let order = if options.one_by_one { "one after the other" } else { "side by side" };
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut about = vec![
        format!(
            "Rounds: {}, each of the scenarios for {:.0} s, {order}, the first {:.0} s not judged; all \
             ask every {} s. Clocks are read at one count, where the truth is known to {width:.0} ns. \
             docs/results/compare.md says how, and what is unfair to whom. {} processors; load at the end {}.",
            options.rounds,
            options.length,
            options.warm_up,
            options.poll,
            std::thread::available_parallelism().map_or(1, usize::from),
            load.split_whitespace().next().unwrap_or("unknown"),
        ),
        format!(
            "A ratio is the median of the ratios within the rounds, and behind it the interval that \
             holds the true median with {:.0} %, from the order of the rounds' ratios alone. Met, or \
             not, is what all of the interval says; else this run cannot judge. Left out are rounds \
             in which a clock had the time for less than {:.0} % of the readings, or in which the \
             truth was not known to {TRUTH_NS:.0} ns.",
            Interval::CONFIDENCE * 100.0,
            MOST_OF_THE_TIME * 100.0,
        ),
    ];
    if options.clockbound.is_none() {
        about.push(
            "ClockBound did not take part: it is neither in PATH nor named by --clockbound \
             (scripts/compare builds it)."
                .to_owned(),
        );
    }
    let lost = trials().filter(|trial| !is_fair(trial)).count();
    if lost > 0 {
        about.push(format!("{lost} of {} runs are left out.", trials().count()));
    }
    let bent = trials().map(|trial| trial.bent_ns).fold(0.0, f64::max);
    if bent > STRAIGHT_NS {
        about.push(format!(
            "Something else steers this machine's system clock: it was up to {} µs off a straight \
             line. That is unfair to chronyd, which takes its time from it; such runs are left out.",
            us(bent)
        ));
    }
    about
}

/// The figures after the warm-up.
pub fn judged(options: &Options, clock: &Followed) -> Figures {
    Figures::of(&clock.samples, options.warm_up, options.length)
}

fn outcome(options: &Options, runs: &Runs) -> Outcome {
    let scenario = &runs.scenario;
    let head = ["clock", "RMS", "mean", "median", "99 %", "most", "readings", "inside; bound"];
    let mut grid = Grid::new("Errors in µs, medians of the rounds", head);
    let mut figures = Vec::new();
    for phase in scenario.phases() {
        let from = (phase.from * options.length).max(options.warm_up);
        let to = phase.to * options.length;
        for name in names(runs) {
            let each: Vec<Figures> =
                clock(runs, name).map(|clock| Figures::of(&clock.samples, from, to)).collect();
            let over = Figures::over(&each);
            let row = match phase.name {
                "all" => name.to_owned(),
                phase => format!("{name}, {phase}"),
            };
            figures.push(to_json(name, phase.name, &over, &each));
            let Figures { rms, mean, spread, readings, .. } = over;
            let errors = [rms, mean, spread.p50, spread.p99, spread.most].map(us);
            let rest = [readings.to_string(), bounds(&over)];
            grid.row(std::iter::once(row).chain(errors).chain(rest));
        }
    }
    let mut pictures = vec![Figure::Plot(plot(options, runs))];
    pictures.extend(
        runs.rounds.first().map(|trial| Figure::Chart(Box::new(chart(options, scenario, trial)))),
    );
    Outcome {
        headline: Vec::new(),
        name: scenario.name,
        title: scenario.name.to_owned(),
        about: vec![format!("{}.", scenario.about)],
        goals: Vec::new(),
        grids: vec![grid],
        figures: pictures,
        json: Value::Array(figures),
    }
}

fn to_json(clock: &str, phase: &str, figures: &Figures, rounds: &[Figures]) -> Value {
    let Figures { readings, rms, spread, mean, bounded, inside, bound } = *figures;
    json!({
        "clock": clock, "phase": phase, "readings": readings, "rms_ns": rms, "mean_ns": mean,
        "median_ns": spread.p50, "p99_ns": spread.p99, "most_ns": spread.most,
        "bounded": bounded, "inside": inside, "median_bound_ns": bound,
        "rounds_rms_ns": rounds.iter().map(|one| one.rms).collect::<Vec<_>>(),
    })
}

/// The error of each clock over time, for a document.
fn plot(options: &Options, runs: &Runs) -> Plot {
    let window = options.length / POINTS as f64;
    let line = |name: &str| {
        let at = |n: usize| {
            let from = n as f64 * window;
            let of = |clock: &Followed| Figures::of(&clock.samples, from, from + window);
            let over = Figures::over(&clock(runs, name).map(of).collect::<Vec<_>>());
            (from + window / 2.0, over.rms * 1e-3)
        };
        let points = (0..POINTS).map(at).filter(|(_, rms)| *rms > 0.0).collect();
        (name.to_owned(), points)
    };
    Plot {
        title: format!("{}: RMS error of {window:.1} s each, median", runs.scenario.name),
        x: Axis::linear("seconds since the start"),
        y: Axis::log("µs"),
        lines: names(runs).map(line).collect(),
    }
}

/// Every reading of a round, for a report.
fn chart(options: &Options, scenario: &Scenario, trial: &Trial) -> Chart {
    let mut chart = Chart::xy(&format!("{}: clock − truth, first round", scenario.name))
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
pub fn us(ns: f64) -> String {
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
    use crate::compare::goals::tests::{options, runs};

    #[test]
    fn the_summary_names_all_and_says_who_was_not_there() {
        let outcomes = outcomes(&options(), &[runs("quiet", &[[1000.0, 2000.0]; 6])]);
        let text = outcomes[0].text();
        assert!(text.contains("ClockBound did not take part"), "{text}");
        // The figures are what one wants to see.
        assert!(text.lines().take_while(|line| !line.is_empty()).count() <= 12, "{text}");
        assert!(text.contains("1.00 (1.00 – 1.00)") && text.contains("all; ± 20.0"), "{text}");
        assert!(text.contains("0.50 × (0.50 × to 0.50 ×, 6 rounds); 1.00 µs, chronyd"), "{text}");
        assert_eq!(outcomes[1].plots().count(), 1);
        assert!(outcomes[1].markdown().contains("| Truechimer | 1.00 |"));
        let html = page().sections(outcomes.iter().map(Outcome::section)).render();
        assert!(html.contains("server-step") || html.contains("quiet"));
    }
}
