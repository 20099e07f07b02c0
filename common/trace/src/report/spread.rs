//! Distribution of errors.

use truechimer_report::{Chart, Histogram, Unit, View};

use super::{Shown, name, settled};
use crate::trace::{Interval, Sample};

/// The error after the warm-up.
pub(super) fn error(runs: &[Shown<'_>]) -> Chart {
    chart("How the error is distributed", runs, |s| s.error).about("After the warm-up.")
}

/// The errors of the difference clock, where there are any.
pub(super) fn differences(runs: &[Shown<'_>]) -> Vec<Chart> {
    let error = |interval: Option<Interval>| interval.map_or(f64::NAN, |i| i.error);
    vec![
        chart("Error over one second", runs, |s| error(s.second)),
        chart("Error over 1000 s", runs, |s| error(s.thousand)),
    ]
}

fn chart(title: &str, runs: &[Shown<'_>], value: impl Fn(&Sample) -> f64) -> Chart {
    let histogram = Histogram::new(title, Unit::Seconds);
    let histogram = runs.iter().fold(histogram, |histogram, (trace, _)| {
        let label = if runs.len() > 1 { name(trace) } else { "error" };
        histogram.values(label, settled(trace).map(&value))
    });
    histogram.chart().view(View::all("linear")).view(View::log("log"))
}
