//! Runs as a page for people: pictures, statistics, and how they were made.

mod events;
mod figures;
mod over_time;
mod spread;
#[cfg(test)]
mod tests;

use truechimer_report::{Cell, Page, Section, Tone, Unit, View, quantile};

use crate::statistics::Statistics;
use crate::trace::{Sample, Trace};

/// A run, and what it comes to. With several seeds pooled, the run is one of them.
pub type Shown<'t> = (&'t Trace, Statistics);

/// Points of one line, for one run; several share them.
const DETAIL: usize = 6000;

/// A report of these runs. Runs next to each other that have the same title are one comparison, on
/// identical packets: several estimators in one scenario.
#[must_use]
pub fn page(runs: &[Shown<'_>], command: &str) -> Page {
    let groups: Vec<&[Shown<'_>]> = runs.chunk_by(|a, b| a.0.title == b.0.title).collect();
    let mut page = Page::new(&title(&groups))
        .version(concat!("Truechimer ", env!("CARGO_PKG_VERSION")))
        .command(command)
        .detail(DETAIL / runs.len().clamp(1, 12));
    match groups.as_slice() {
        [only] => {
            if let Some((trace, _)) = only.first() {
                page = page.about(&trace.about);
            }
            if let Some(first) = only.first() {
                let name = if only.len() == 1 { "" } else { &first.0.estimator };
                page = highlights(page, name, first);
            }
            page.sections(sections(only, ""))
        }
        several => several.iter().fold(summary(page, runs), |page, group| {
            let name = group.first().map_or("", |(trace, _)| trace.title.as_str());
            page.sections(sections(group, name))
        }),
    }
}

fn title(groups: &[&[Shown<'_>]]) -> String {
    match groups {
        [] => "No runs".to_owned(),
        [only] => {
            let scenario = only.first().map_or("", |(trace, _)| trace.title.as_str());
            let estimators = only.iter().map(|(trace, _)| trace.estimator.as_str());
            format!("{scenario}: {}", estimators.collect::<Vec<_>>().join(", "))
        }
        several => format!("{} scenarios", several.len()),
    }
}

/// Adds the numbers that one wants to know first: of one run, which is named where there are more.
fn highlights(page: Page, name: &str, (trace, statistics): &Shown<'_>) -> Page {
    let time = |us: f64| Cell::number(us * 1e-6, Unit::Seconds);
    let named = |what: &str| match name {
        "" => what.to_owned(),
        _ => format!("{name}: {what}"),
    };
    let inside = figures::inside(&statistics.inside_bound, trace.honest);
    page.highlight(&named("largest error"), time(statistics.error.max_us))
        .highlight(&named("median bound, ±"), time(statistics.bound_median_us))
        .highlight(&named("truth inside the bound"), inside)
}

/// Adds what several scenarios come to. Bounds are judged where their conditions hold.
fn summary(page: Page, runs: &[Shown<'_>]) -> Page {
    let honest = runs.iter().filter(|(trace, _)| trace.honest);
    let judged = honest.map(|(_, statistics)| &statistics.inside_bound);
    let (seconds, outside) = judged.fold((0, 0), |(seconds, outside), inside| {
        (seconds + inside.seconds, outside + inside.outside)
    });
    let verdict = match (seconds, outside) {
        (0, _) => Cell::missing(),
        (_, 0) => Cell::text("0").tone(Tone::Good),
        _ => Cell::text(outside.to_string()).tone(Tone::Bad),
    };
    page.highlight("runs", runs.len().to_string())
        .highlight("seconds with a bound, judged", seconds.to_string())
        .highlight("of these outside of it", verdict)
}

pub use figures::inside;

/// The parts of a report on runs of one scenario; `prefix` stands before their titles.
#[must_use]
pub fn sections(runs: &[Shown<'_>], prefix: &str) -> Vec<Section> {
    let titled = |title: &str| match prefix {
        "" => {
            let mut letters = title.chars();
            let first = letters.next().into_iter().flat_map(char::to_uppercase);
            Section::new(&first.chain(letters).collect::<String>())
        }
        _ => Section::new(&format!("{prefix}: {title}")),
    };
    let Some((first, _)) = runs.first() else {
        return vec![titled("nothing was run")];
    };
    let about = if prefix.is_empty() { "" } else { &first.about };
    let mut error = titled("the clock against the truth").text(about);
    let marks = events::Marks::of(runs);
    for chart in over_time::errors(runs, &marks) {
        error = error.chart(chart);
    }
    error = error.chart(spread::error(runs));
    let mut sections = vec![error, titled("statistics").table(figures::table(runs))];
    let mut trips = titled("round trips and delays").continues();
    if runs.len() > 1 {
        trips = trips.text(&format!("The exchanges of {}; the floors of all.", name(first)));
    }
    trips = trips.table(figures::sources(runs));
    for chart in over_time::trips(runs, &marks) {
        trips = trips.chart(chart);
    }
    let mut rate = titled("rate").continues();
    for chart in over_time::rates(runs, &marks) {
        rate = rate.chart(chart);
    }
    let mut differences = titled("differences").text(
        "Time spans measured by the difference clock, which never sees a correction of the offset.",
    );
    for chart in spread::differences(runs) {
        differences = differences.chart(chart);
    }
    let mut said = titled("what happened").continues();
    for (title, entries) in events::logs(runs) {
        said = said.log(&title, entries);
    }
    // The time axis is that of the first section; what has none stands last.
    sections.splice(1..1, [trips, rate, said]);
    sections.push(differences);
    sections.push(titled("how it was made").table(figures::parameters(runs)));
    sections
}

/// Name of a run beside others.
fn name(trace: &Trace) -> &str {
    if trace.estimator.is_empty() { "clock" } else { &trace.estimator }
}

/// The seconds after the warm-up; all of them, if there are none after it.
fn settled(trace: &Trace) -> impl Iterator<Item = &Sample> {
    let any = trace.samples.iter().any(|s| s.at >= trace.warm_up);
    trace.samples.iter().filter(move |s| !any || s.at >= trace.warm_up)
}

/// The bound, where one is promised.
fn promised(sample: &Sample) -> f64 {
    if sample.status.bound_holds() { sample.bound } else { f64::NAN }
}

/// A view of the quantiles from `low` to `high` of ascending values, and some space around them.
fn view(title: &str, values: &[f64], low: f64, high: f64) -> View {
    let (low, high) = (quantile(values, low), quantile(values, high));
    let space = (high - low) * 0.25;
    View::range(title, low - space, high + space)
}
