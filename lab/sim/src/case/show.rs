//! Presentation of an experiment in a report.

use truechimer_report::{Cell, Chart, FiveNumbers, Histogram, Section, Series, Table, Unit, View};

use truechimer_trace::Errors;
use truechimer_trace::report;

use super::{Experiment, Measure, Outcome, Shows, differences};

/// The section of an experiment; the outcomes are in the order of its scenarios.
pub(super) fn section(experiment: &Experiment, outcomes: &[Vec<Outcome>]) -> Section {
    let section = Section::new(experiment.title).text(experiment.text);
    match experiment.shows {
        Shows::Error => {
            let labels = experiment.scenarios.iter().map(|(label, _)| label.as_str());
            labels.zip(outcomes).fold(section, |section, (label, one)| {
                let of = match label {
                    "" => String::new(),
                    label => format!(" ({} {label})", experiment.apart),
                };
                section
                    .table(table(one, &of))
                    .table(rms(&[("", one.as_slice())], &of))
                    .chart(error_chart(one, &of))
                    .chart(histogram(one, &of))
            })
        }
        Shows::Start => {
            let one = outcomes.first().map_or(&[][..], Vec::as_slice);
            section.table(start_table(one)).chart(start_chart(one))
        }
        Shows::Distributions => section
            .chart(boxes(experiment, outcomes, Measure::Absolute, 1e-5))
            .table(percentiles(experiment, outcomes, &[Measure::Absolute])),
        Shows::Differences => {
            let labels = experiment.scenarios.iter().map(|(label, _)| label.as_str());
            let rows: Vec<_> = labels.zip(outcomes.iter().map(Vec::as_slice)).collect();
            section
                .table(rms(&rows, ""))
                .chart(boxes(experiment, outcomes, Measure::OneSecond, 1e-8))
                .chart(boxes(experiment, outcomes, Measure::ThousandSeconds, 1e-6))
                .table(percentiles(experiment, outcomes, &Measure::ALL[1..]))
        }
    }
}

/// The errors of this measure.
fn errors(outcome: &Outcome, measure: Measure) -> &Errors {
    differences(&outcome.statistics, measure).map_or(&outcome.statistics.error, |d| &d.error)
}

fn boxes(
    experiment: &Experiment,
    outcomes: &[Vec<Outcome>],
    measure: Measure,
    linear_s: f64,
) -> Chart {
    let places = experiment.scenarios.iter().map(|(label, _)| label.clone());
    let title = format!("Percentiles 1, 25, 50, 75 and 99 of the error, {}", measure.name());
    let chart = Chart::places(&title, places)
        .y(quantity(measure), Unit::Seconds)
        .view(View::symmetric_log("both sides of zero, logarithmic", linear_s));
    let clocks = outcomes.first().map_or(&[][..], Vec::as_slice);
    clocks.iter().enumerate().fold(chart, |chart, (index, clock)| {
        let boxes = outcomes.iter().enumerate().filter_map(|(at, outcomes)| {
            let outcome = outcomes.iter().find(|o| o.clock == clock.clock)?;
            Some((at as f64, five(errors(outcome, measure))))
        });
        chart.with(Series::boxes(clock.clock.name(), boxes).colour(index))
    })
}

/// Label of a measure on an axis.
fn quantity(measure: Measure) -> &'static str {
    match measure {
        Measure::Absolute => "clock − truth",
        Measure::OneSecond | Measure::ThousandSeconds => "measured − true interval",
    }
}

fn percentiles(experiment: &Experiment, outcomes: &[Vec<Outcome>], measures: &[Measure]) -> Table {
    let head = [experiment.apart, "of", "clock", "1 %", "25 %", "50 %", "75 %", "99 %", "RMS"];
    let mut table = Table::new("Percentiles of the error").head(head);
    for ((label, _), outcomes) in experiment.scenarios.iter().zip(outcomes) {
        for measure in measures {
            for outcome in outcomes {
                let e = errors(outcome, *measure);
                let values = [e.p1_us, e.p25_us, e.median_us, e.p75_us, e.p99_us, e.rms_us];
                let cells = [Cell::text(measure.name()), Cell::text(outcome.clock.name())];
                let cells = cells.into_iter().chain(values.map(seconds));
                table = table.row(label.as_str(), cells);
            }
        }
    }
    table
}

/// RMS of each measure: of all seeds together, and of the best and the worst one.
fn rms(rows: &[(&str, &[Outcome])], of: &str) -> Table {
    let seeds = rows.iter().find_map(|(_, outcomes)| outcomes.first()).map_or(0, |o| o.each.len());
    let caption = format!(
        "RMS of clock and difference clock{of}: {seeds} seed{} together, and the least and the greatest \
         of one",
        if seeds == 1 { "" } else { "s" }
    );
    let head = std::iter::once(String::new())
        .chain(["clock".into()])
        .chain(Measure::ALL.iter().flat_map(|m| [m.name().to_owned(), "one seed".to_owned()]));
    let mut table = Table::new(&caption).head(head);
    for (label, outcomes) in rows {
        for outcome in *outcomes {
            let cells = Measure::ALL.iter().flat_map(|measure| {
                let (least, most) = outcome.range_us(*measure);
                let show = |us: f64| Unit::Seconds.show(us * 1e-6, 3);
                let range = Cell::text(format!("{} … {}", show(least), show(most)));
                [seconds(outcome.rms_us(*measure)), range]
            });
            let cells = std::iter::once(Cell::text(outcome.clock.name())).chain(cells);
            table = table.row(*label, cells);
        }
    }
    table
}

fn five(e: &Errors) -> FiveNumbers {
    [e.p1_us, e.p25_us, e.median_us, e.p75_us, e.p99_us].map(|us| us * 1e-6)
}

fn seconds(us: f64) -> Cell {
    Cell::number(us * 1e-6, Unit::Seconds)
}

fn table(outcomes: &[Outcome], of: &str) -> Table {
    let head =
        ["clock", "median", "IQR", "1 %", "99 %", "largest", "RMS", "inside its bound", "bound"];
    let mut table =
        Table::new(&format!("Clock − truth once a second, without the time to settle{of}"))
            .head(head);
    for outcome in outcomes {
        let (s, e) = (&outcome.statistics, &outcome.statistics.error);
        let inside = s.inside_bound;
        table = table.row(
            outcome.clock.name(),
            [
                seconds(e.median_us),
                seconds(e.iqr_us),
                seconds(e.p1_us),
                seconds(e.p99_us),
                seconds(e.max_us),
                seconds(e.rms_us),
                report::inside(&inside, outcome.promised),
                seconds(s.bound_median_us),
            ],
        );
    }
    table
}

/// Every clock's error, the first one's bound behind them.
fn error_chart(outcomes: &[Outcome], of: &str) -> Chart {
    let settled = |o: &Outcome| {
        let warm_up = o.warm_up;
        let after = o.errors.iter().filter(move |(at, _)| *at >= warm_up);
        after.fold(0.0_f64, |most, (_, error)| most.max(error.abs()))
    };
    let widest = outcomes.iter().map(settled).fold(1e-6, f64::max) * 1.05;
    let ours = outcomes.first().map_or(widest, |o| 1.05 * settled(o).max(1e-6));
    let mut chart = Chart::time(&format!("Error{of}"))
        .y("clock − truth", Unit::Seconds)
        .view(View::range("after settling", -widest, widest))
        .view(View::range("ours", -ours, ours))
        .view(View::symmetric_log("all, logarithmic", 1e-6));
    if let Some(first) = outcomes.first() {
        let band = first.bounds.iter().map(|&(at, bound)| (at, -bound, bound));
        chart = chart.with(Series::band("bound of ours", band).colour(0).behind().hidden());
    }
    // The quietest on top.
    for (index, outcome) in outcomes.iter().enumerate().rev() {
        let line = Series::line(outcome.clock.name(), outcome.errors.iter().copied());
        chart = chart.with(line.colour(index));
    }
    chart
}

fn histogram(outcomes: &[Outcome], of: &str) -> Chart {
    let all = Histogram::new(&format!("How the errors are distributed{of}"), Unit::Seconds);
    let with = |histogram: Histogram, o: &Outcome| {
        let settled = o.errors.iter().filter(|(at, _)| *at >= o.warm_up).map(|(_, error)| *error);
        histogram.values(o.clock.name(), settled)
    };
    outcomes.iter().fold(all, with).chart()
}

fn start_table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new("From the first request until the error stayed smaller for 300 s");
    let mut head = vec!["clock".to_owned()];
    if let Some(first) = outcomes.first() {
        let threshold =
            |us: f64| if us < 1000.0 { format!("{us} µs") } else { format!("{} ms", us / 1e3) };
        head.extend(first.statistics.converged_s.iter().map(|c| threshold(c.threshold_us)));
    }
    table = table.head(head);
    for outcome in outcomes {
        let took = outcome.statistics.converged_s.iter().map(|c| match c.median_s {
            Some(s) => Cell::number(s, Unit::Seconds),
            None => Cell::text("never"),
        });
        table = table.row(outcome.clock.name(), took);
    }
    table
}

fn start_chart(outcomes: &[Outcome]) -> Chart {
    let chart = Chart::xy("The error's magnitude since the first request")
        .x("since the first request", Unit::Seconds)
        .y("|clock − truth|", Unit::Seconds)
        .log_x()
        .log_y();
    outcomes.iter().enumerate().fold(chart, |chart, (index, outcome)| {
        let rows = outcome.errors.iter().map(|&(at, error)| (at, error.abs()));
        chart.with(Series::line(outcome.clock.name(), rows).colour(index))
    })
}
