//! Charts against time.

use truechimer_report::{Chart, Series, Unit, View, quantile, sorted};

use super::events::Marks;
use super::{Shown, name, promised, settled, view};
use crate::trace::{Exchanged, Sample, Trace};

/// Stretches into which a run is divided to show the largest error in each.
const STRETCHES: usize = 1000;
/// Sources that have charts of their own.
const MOST_SOURCES: usize = 8;
/// The colour of the bound: the palette's grey.
const GREY: usize = 7;
/// The colour of what must not be.
const ALARM: usize = 1;

/// The error itself, close up, and its size beside the bound.
pub(super) fn errors(runs: &[Shown<'_>], marks: &Marks) -> Vec<Chart> {
    let truth = runs.iter().any(|(t, _)| t.samples.iter().any(|s| s.error.is_finite()));
    let charts = match runs {
        [(trace, _)] if truth => vec![within(trace), close_up(runs), sizes(runs)],
        _ if truth => vec![close_up(runs), sizes(runs)],
        // Nobody knows the truth: the bound is all there is to see.
        _ => vec![sizes(runs)],
    };
    charts.into_iter().map(|chart| chart.markers(marks.all())).collect()
}

fn error(trace: &Trace) -> impl Iterator<Item = (f64, f64)> {
    trace.samples.iter().map(|s| (s.at, s.error))
}

/// Where the truth was outside of the bound that was promised.
fn outside(trace: &Trace) -> Vec<(f64, f64)> {
    let beyond = |s: &&Sample| s.error.is_finite() && s.error.abs() > promised(s);
    trace.samples.iter().filter(beyond).map(|s| (s.at, s.error)).collect()
}

/// The error in its band.
fn within(trace: &Trace) -> Chart {
    let bounds = sorted(settled(trace).map(promised));
    let (middle, most) = (quantile(&bounds, 0.5), quantile(&bounds, 0.99));
    // A bound that grows for hours in an outage shall not flatten the rest.
    let reach = 1.2 * if most <= 6.0 * middle { most } else { 3.0 * middle };
    let band = trace.samples.iter().map(|s| (s.at, -promised(s), promised(s)));
    let mut chart = Chart::time("Error within its bound")
        .about(
            "Clock less truth: positive is ahead. Shaded: the bound that the clock \
             promised. At first the y axis shows the bound as it is after the warm-up. Time runs \
             from the first request.",
        )
        .unit(Unit::Seconds);
    if reach > 0.0 {
        chart = chart.view(View::range("bound", -reach, reach));
    }
    chart = chart
        .view(View::all("everything"))
        .view(View::symmetric_log("log", log_threshold(trace)))
        .with(Series::band("bound", band).colour(GREY))
        .with(Series::line("error", error(trace)).colour(0));
    with_outside(chart, trace)
}

/// Marks what is outside the bound, if anything is.
fn with_outside(chart: Chart, trace: &Trace) -> Chart {
    let outside = outside(trace);
    if outside.is_empty() {
        return chart;
    }
    chart.with(Series::points("outside the bound", outside).colour(ALARM))
}

/// Below which a logarithmic axis is linear: about the size of the error.
fn log_threshold(trace: &Trace) -> f64 {
    let sizes = sorted(settled(trace).map(|s| s.error.abs()));
    let typical = quantile(&sizes, 0.5);
    let fitting = [1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2].into_iter();
    fitting.rev().find(|t| *t <= typical).unwrap_or(1e-9)
}

/// The error as large as it goes.
fn close_up(runs: &[Shown<'_>]) -> Chart {
    let errors = |trace: &Trace| sorted(settled(trace).map(|s| s.error));
    let mut chart =
        Chart::time(if runs.len() > 1 { "Errors on identical packets" } else { "Error, close up" })
            .about("Clock less truth: positive is ahead.")
            .unit(Unit::Seconds);
    if let [(trace, _)] = runs {
        chart = chart.view(view("error", &errors(trace), 0.002, 0.998));
    } else {
        let all = sorted(runs.iter().flat_map(|(trace, _)| errors(trace)));
        chart = chart.view(view("all clocks", &all, 0.002, 0.998));
        for (trace, _) in runs {
            chart = chart.view(view(name(trace), &errors(trace), 0.002, 0.998));
        }
    }
    chart = chart.view(View::all("everything"));
    for (n, (trace, _)) in runs.iter().enumerate() {
        let label = if runs.len() > 1 { name(trace) } else { "error" };
        chart = chart.with(Series::line(label, error(trace)).colour(n));
    }
    match runs {
        [(trace, _)] => with_outside(chart, trace),
        _ => chart,
    }
}

/// Marks where the error of any clock was larger than the bound of that same second.
fn with_broken(chart: Chart, runs: &[Shown<'_>]) -> Chart {
    let broken = runs.iter().map(|(trace, _)| {
        let points: Vec<_> = outside(trace).iter().map(|(at, e)| (*at, e.abs())).collect();
        let label = match runs {
            [_] => "outside the bound".to_owned(),
            _ => format!("{}: outside the bound", name(trace)),
        };
        (label, points)
    });
    broken.filter(|(_, points)| !points.is_empty()).fold(chart, |chart, (label, points)| {
        chart.with(Series::points(&label, points).colour(ALARM))
    })
}

/// The largest of each stretch: |error|, the bound and its statistical part, on a logarithmic axis.
fn sizes(runs: &[Shown<'_>]) -> Chart {
    let mut chart = Chart::time("Size of the error, and its bound")
        .unit(Unit::Seconds)
        .view(View::log("log"))
        .view(View::all("linear"));
    let mut span = 0.0_f64;
    for (n, (trace, _)) in runs.iter().enumerate() {
        let of = |what: &str| match runs {
            [_] => what.to_owned(),
            _ => format!("{}: {what}", name(trace)),
        };
        let stretch = trace.samples.len().div_ceil(STRETCHES).max(1);
        if let [first, .., last] = trace.samples.as_slice() {
            span = span.max((last.at - first.at) / trace.samples.len() as f64 * stretch as f64);
        }
        let largest = |value: fn(&Sample) -> f64| {
            trace.samples.chunks(stretch).filter_map(move |stretch| {
                let values = stretch.iter().map(value).filter(|v| v.is_finite());
                let middle = stretch.get(stretch.len() / 2)?.at;
                Some((middle, values.reduce(f64::max).unwrap_or(f64::NAN)))
            })
        };
        let colour = if runs.len() > 1 { n } else { GREY };
        let mut bound = Series::line(&of("bound"), largest(promised)).colour(colour).dashed();
        if n > 0 {
            bound = bound.hidden();
        }
        chart = chart.with(bound);
        if let [_] = runs {
            let statistical =
                largest(|s| if s.status.bound_holds() { s.statistical } else { f64::NAN });
            chart = chart.with(Series::line("statistical part", statistical).colour(2).dashed());
        }
        chart = chart.with(Series::line(&of("|error|"), largest(|s| s.error.abs())).colour(n));
    }
    if span > 1.5 {
        chart = chart.about(&format!("Of each the largest within {span:.0} s."));
    }
    with_broken(chart, runs)
}

/// Round trips, and the delays there and back; for every source.
pub(super) fn trips(runs: &[Shown<'_>], marks: &Marks) -> Vec<Chart> {
    let Some((first, _)) = runs.first() else { return Vec::new() };
    let mut charts = Vec::new();
    if first.sources.len() > 1 {
        charts.push(selection(runs));
    }
    let sources = first.sources.iter().map(String::as_str).enumerate();
    for (source, label) in sources.take(MOST_SOURCES) {
        let of = |what: &str| match first.sources.len() {
            0 | 1 => what.to_owned(),
            _ => format!("{what}: {label}"),
        };
        charts.push(round_trips(runs, source, &of("Round trips")));
        charts.push(delays(first, source, &of("Delays there and back")));
    }
    if first.sources.len() > MOST_SOURCES {
        let more = first.sources.len() - MOST_SOURCES;
        charts = charts
            .into_iter()
            .enumerate()
            .map(|(n, chart)| match n {
                0 => chart.about(&format!("{more} more sources have no charts here.")),
                _ => chart,
            })
            .collect();
    }
    charts.into_iter().map(|chart| chart.markers(marks.all())).collect()
}

fn exchanges(trace: &Trace, source: usize) -> impl Iterator<Item = &Exchanged> {
    trace.exchanges.iter().filter(move |e| e.source == source)
}

/// Round trips used and refused, and the floors of all estimators.
fn round_trips(runs: &[Shown<'_>], source: usize, title: &str) -> Chart {
    let Some((first, _)) = runs.first() else { return Chart::time(title) };
    let all = || exchanges(first, source);
    let rtts = sorted(all().flat_map(|e| [e.rtt, e.floor]));
    let mut chart = Chart::time(title)
        .about("Less the time that the server took.")
        .unit(Unit::Seconds)
        .view(view("most", &rtts, 0.0, 0.9))
        .view(View::all("everything"))
        .view(View::log("log"))
        .with(Series::points("used", all().filter(|e| e.used).map(|e| (e.at, e.rtt))).colour(0));
    if all().any(|e| !e.used) {
        let refused = all().filter(|e| !e.used).map(|e| (e.at, e.rtt));
        chart = chart.with(Series::points("refused", refused).colour(ALARM));
    }
    for (n, (trace, _)) in runs.iter().enumerate() {
        let floor = exchanges(trace, source).map(|e| (e.at, e.floor));
        let (label, colour) = match runs {
            [_] => ("floor".to_owned(), 2),
            // The first two colours are taken.
            _ => (format!("floor, {}", name(trace)), n + 2),
        };
        chart = chart.with(Series::line(&label, floor).colour(colour).dashed());
    }
    chart
}

/// Delays by the stamps, and the true ones where they are known.
fn delays(trace: &Trace, source: usize, title: &str) -> Chart {
    let all = || exchanges(trace, source);
    let values = sorted(all().flat_map(|e| [e.forward, e.backward]));
    let mut chart = Chart::time(title)
        .about(
            "By the clock as it was then: an error of the clock makes one of them longer and the \
             other shorter.",
        )
        .unit(Unit::Seconds)
        .view(view("most", &values, 0.02, 0.9))
        .view(View::all("everything"))
        .with(Series::points("there", all().map(|e| (e.at, e.forward))).colour(0))
        .with(Series::points("back", all().map(|e| (e.at, e.backward))).colour(4));
    if all().any(|e| e.true_delays.is_some()) {
        let truth = |pick: fn((f64, f64)) -> f64| {
            all().map(move |e| (e.at, e.true_delays.map_or(f64::NAN, pick)))
        };
        chart = chart
            .with(Series::points("there, in truth", truth(|d| d.0)).colour(3).hidden())
            .with(Series::points("back, in truth", truth(|d| d.1)).colour(2).hidden());
    }
    chart
}

/// Which source the clock followed.
fn selection(runs: &[Shown<'_>]) -> Chart {
    let names = runs.first().map_or(&[][..], |(trace, _)| &trace.sources);
    let chart = Chart::time("Source followed").y_names(names);
    runs.iter().enumerate().fold(chart, |chart, (n, (trace, _))| {
        let label = if runs.len() > 1 { name(trace) } else { "followed" };
        let followed = trace.exchanges.iter().filter(|e| e.selected);
        let followed = followed.map(|e| (e.at, e.source as f64));
        chart.with(Series::points(label, followed).colour(n))
    })
}

/// The rates' errors, and what the counter itself did.
pub(super) fn rates(runs: &[Shown<'_>], marks: &Marks) -> Vec<Chart> {
    let values = sorted(runs.iter().flat_map(|(t, _)| settled(t).map(|s| s.rate_error)));
    let mut error = Chart::time("Error of the rate")
        .about("Of the published period: positive, the clock runs fast.")
        .unit(Unit::Rate)
        .view(view("settled", &values, 0.002, 0.998))
        .view(View::all("everything"));
    for (n, (trace, _)) in runs.iter().enumerate() {
        let label = if runs.len() > 1 { name(trace) } else { "error of the rate" };
        let rows = trace.samples.iter().map(|s| (s.at, s.rate_error));
        error = error.with(Series::line(label, rows).colour(n));
    }
    let mut charts = vec![error.markers(marks.all())];
    if let Some((trace, _)) = runs.first() {
        let skew = Chart::time("Skew of the counter")
            .about("What its true rate was against the nominal one: positive, it is fast.")
            .unit(Unit::Rate)
            .line("skew", trace.samples.iter().map(|s| (s.at, s.skew)));
        if !skew.is_empty() {
            charts.push(skew);
        }
    }
    charts
}
