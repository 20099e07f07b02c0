//! Events, as marks in the charts and as logs.

use truechimer_engine::Level;
use truechimer_report::{Entry, Marker, Tone, Unit};
use truechimer_timehands::Status;

use super::{Shown, name};
use crate::trace::Trace;

/// Excursions from the bound that a log lists.
const MOST_EXCURSIONS: usize = 100;

/// Marks for the charts of one comparison.
pub(super) struct Marks(Vec<Marker>);

impl Marks {
    /// Marks what is worth it: what the first clock said and its status. With several clocks only
    /// what is worth a look, as most of it is about the network that they share.
    pub(super) fn of(runs: &[Shown<'_>]) -> Marks {
        let mut marks = Vec::new();
        let Some((trace, _)) = runs.first() else { return Marks(marks) };
        if trace.warm_up > 0.0 {
            marks.push(Marker::new(trace.warm_up, "statistics begin here").tone(Tone::Quiet));
        }
        for entry in said(trace) {
            let grave = matches!(entry.tone, Tone::Warning | Tone::Bad);
            if entry.tone == Tone::Quiet || (runs.len() > 1 && !grave) {
                continue;
            }
            let text = match runs {
                [_] => entry.text,
                _ => format!("{}: {}", name(trace), entry.text),
            };
            marks.push(Marker::new(entry.at, &text).tone(entry.tone));
        }
        Marks(marks)
    }

    /// A copy of them for a chart.
    pub(super) fn all(&self) -> impl Iterator<Item = Marker> {
        self.0.iter().cloned()
    }
}

/// A log for every run that had something to say.
pub(super) fn logs(runs: &[Shown<'_>]) -> Vec<(String, Vec<Entry>)> {
    let title = |trace: &Trace| match runs {
        [_] => "What the clock said, its status, and when the truth left its bound".to_owned(),
        _ => format!("What {} said, its status, and when the truth left its bound", name(trace)),
    };
    let entries = |trace: &Trace| {
        let mut entries = said(trace);
        entries.extend(excursions(trace));
        entries.sort_by(|a, b| a.at.total_cmp(&b.at));
        entries
    };
    runs.iter().map(|(trace, _)| (title(trace), entries(trace))).collect()
}

/// Notes and changes of status.
fn said(trace: &Trace) -> Vec<Entry> {
    let mut entries: Vec<Entry> = (trace.notes.iter())
        .map(|note| {
            let tone = match note.level {
                Level::Debug => Tone::Quiet,
                Level::Info => Tone::Plain,
                Level::Warning => Tone::Warning,
            };
            Entry { at: note.at, tone, text: note.text.clone() }
        })
        .collect();
    let mut before = None;
    for sample in &trace.samples {
        if before != Some(sample.status) {
            let tone = match (sample.status, before) {
                (Status::Synchronised, _) => Tone::Good,
                (Status::Holdover, _) => Tone::Warning,
                (Status::Unknown, None) => Tone::Quiet,
                (Status::Unknown | Status::Disrupted, _) => Tone::Bad,
            };
            let text = format!("status: {}", sample.status);
            entries.push(Entry { at: sample.at, tone, text });
            before = Some(sample.status);
        }
    }
    entries
}

/// Stretches of time in which the truth was outside of the bound that was promised.
fn excursions(trace: &Trace) -> Vec<Entry> {
    let mut found: Vec<(f64, usize, f64)> = Vec::new();
    let mut inside = true;
    for sample in &trace.samples {
        let beyond = sample.error.abs() - super::promised(sample);
        if beyond > 0.0 {
            match found.last_mut() {
                Some((_, samples, worst)) if !inside => {
                    *samples += 1;
                    *worst = worst.max(beyond);
                }
                _ => found.push((sample.at, 1, beyond)),
            }
        }
        inside = beyond.is_nan() || beyond <= 0.0;
    }
    let more = found.len().saturating_sub(MOST_EXCURSIONS);
    let entry = |(n, &(at, samples, worst)): (usize, &(f64, usize, f64))| {
        let by = Unit::Seconds.show(worst, 3);
        let rest = match (n + 1 == MOST_EXCURSIONS, more) {
            (true, 1..) => format!(" (and {more} more times, which are not listed)"),
            _ => String::new(),
        };
        let readings = if samples == 1 { "reading" } else { "readings" };
        let text = format!("outside the bound for {samples} {readings}, by up to {by}{rest}");
        Entry { at, tone: Tone::Bad, text }
    };
    found.iter().take(MOST_EXCURSIONS).enumerate().map(entry).collect()
}
