//! What the demonstration shows: a line a second, and a summary.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;
use truechimer_engine::SourceReport;
use truechimer_time::{Span, StampMethod};

use super::tally::{Sample, Summary};
use super::truth::Rates;
use crate::show::{optional, ppb};

/// Everything that one line shows.
pub struct Line<'a> {
    /// The newest reading.
    pub sample: Sample,
    /// Clock − system clock.
    pub lead: Span,
    /// Rates since the beginning.
    pub rates: Option<Rates>,
    /// What the daemon says of its server.
    pub source: Option<&'a SourceReport>,
}

/// The names of the columns.
pub fn header(out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{:>5}  {:12}  {:>16}  {:>13}  {:>11}  {:>13}  {:>11}",
        "time", "status", "clock - system", "rate", "RTT floor", "bound", "true error",
    )
}

/// A row for before the first reading.
pub fn write_waiting(at: Duration, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{:>3} s  {:12}  {:>16}", at.as_secs(), "unknown", "-")
}

impl Line<'_> {
    /// Writes it as a row of the table.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let Sample { at, status, bound, error } = self.sample;
        let seconds = at.as_nanos() / 1_000_000_000;
        write!(out, "{seconds:>3} s  {status:12}  ")?;
        if !status.bound_holds() {
            return writeln!(out, "{:>16}", "-");
        }
        writeln!(
            out,
            "{:>16}  {:>13}  {:>11}  {:>13}  {:>11}  {}",
            seconds_with_micros(self.lead),
            self.rates.map_or_else(|| "-".into(), |rates| format!("{:+}", rates.clock)),
            optional(self.floor()),
            format!("± {bound}"),
            format!("{error:+}"),
            if self.sample.inside() { "inside" } else { "OUTSIDE" },
        )
    }

    fn floor(&self) -> Option<Span> {
        self.source.and_then(|source| source.rtt_floor)
    }

    /// The same for programs.
    pub fn json(&self) -> impl Serialize {
        let ns = Span::as_nanos_i64;
        LineJson {
            at_ns: ns(self.sample.at),
            status: self.sample.status.name(),
            clock_minus_system_ns: ns(self.lead),
            rate_ppb: self.rates.map(|rates| ppb(rates.clock)),
            server_rate_ppb: self.rates.map(|rates| ppb(rates.server)),
            rtt_floor_ns: self.floor().map(ns),
            bound_ns: ns(self.sample.bound),
            error_ns: ns(self.sample.error),
            inside: self.sample.status.bound_holds() && self.sample.inside(),
        }
    }
}

#[derive(Serialize)]
struct LineJson {
    at_ns: i64,
    status: &'static str,
    clock_minus_system_ns: i64,
    rate_ppb: Option<f64>,
    server_rate_ppb: Option<f64>,
    rtt_floor_ns: Option<i64>,
    bound_ns: i64,
    error_ns: i64,
    inside: bool,
}

/// What there is to say at the end.
pub struct End<'a> {
    /// About the readings; `None` if the clock never synchronised.
    pub summary: Option<Summary>,
    /// Everything about the last one.
    pub line: Option<Line<'a>>,
}

impl End<'_> {
    /// Whether all went well.
    pub fn good(&self) -> bool {
        self.summary.is_some_and(|summary| summary.good())
    }

    /// Writes it for people.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let Some(summary) = &self.summary else {
            return writeln!(out, "\nNot good: the clock did not synchronise.");
        };
        writeln!(out)?;
        let mut say = |name: &str, text: String| writeln!(out, "{name:<18}{text}");
        say("synchronised", format!("{} after the start", summary.first.at))?;
        if let Some(line) = &self.line {
            say(
                "followed",
                format!(
                    "its server and not the system clock: {} from that",
                    seconds_with_micros(line.lead)
                ),
            )?;
            if let Some(rates) = line.rates {
                say(
                    "rate",
                    format!(
                        "{:+}, the server's {:+}: error {:+}",
                        rates.clock, rates.server, rates.error
                    ),
                )?;
            }
            if let Some(source) = line.source {
                say("packet stamps", stamps(source))?;
            }
        }
        say(
            "at the end",
            format!("error {:+}, bound ± {}", summary.last.error, summary.last.bound),
        )?;
        say(
            "over all",
            format!(
                "error {} (median) to {} (worst), bound {} (median)",
                summary.median_error, summary.worst_error, summary.median_bound
            ),
        )?;
        say(
            "inside the bound",
            format!(
                "{} of {} readings ({} %)",
                summary.inside,
                summary.readings,
                percent(summary.inside, summary.readings)
            ),
        )?;
        let verdict = if self.good() {
            "Good: the clock synchronised, and the truth was always within its bound."
        } else {
            "Not good: the truth was not always within the bound, or the bound was withdrawn."
        };
        writeln!(out, "\n{verdict}")
    }

    /// The same for programs.
    pub fn json(&self) -> impl Serialize {
        let ns = Span::as_nanos_i64;
        let rates = self.line.as_ref().and_then(|line| line.rates);
        let summary = self.summary.as_ref();
        EndJson {
            synchronised: summary.is_some(),
            good: self.good(),
            first_reading_ns: summary.map(|s| ns(s.first.at)),
            readings: summary.map_or(0, |s| s.readings),
            inside: summary.map_or(0, |s| s.inside),
            final_error_ns: summary.map(|s| ns(s.last.error)),
            final_bound_ns: summary.map(|s| ns(s.last.bound)),
            median_error_ns: summary.map(|s| ns(s.median_error)),
            worst_error_ns: summary.map(|s| ns(s.worst_error)),
            median_bound_ns: summary.map(|s| ns(s.median_bound)),
            clock_minus_system_ns: self.line.as_ref().map(|line| ns(line.lead)),
            rate_ppb: rates.map(|r| ppb(r.clock)),
            server_rate_ppb: rates.map(|r| ppb(r.server)),
            rate_error_ppb: rates.map(|r| ppb(r.error)),
        }
    }
}

#[derive(Serialize)]
struct EndJson {
    synchronised: bool,
    good: bool,
    first_reading_ns: Option<i64>,
    readings: usize,
    inside: usize,
    final_error_ns: Option<i64>,
    final_bound_ns: Option<i64>,
    median_error_ns: Option<i64>,
    worst_error_ns: Option<i64>,
    median_bound_ns: Option<i64>,
    clock_minus_system_ns: Option<i64>,
    rate_ppb: Option<f64>,
    server_rate_ppb: Option<f64>,
    rate_error_ppb: Option<f64>,
}

/// `+1.500 037 s`: so that the last microseconds of an offset of seconds can be seen to grow.
fn seconds_with_micros(span: Span) -> String {
    let us = (span.as_nanos() + 500).div_euclid(1_000);
    let (sign, us) = (if us < 0 { '-' } else { '+' }, us.unsigned_abs());
    let rest = us % 1_000_000;
    format!("{sign}{}.{:03} {:03} s", us / 1_000_000, rest / 1_000, rest % 1_000)
}

/// Rounded down: 100 only if all of them were.
fn percent(part: usize, whole: usize) -> String {
    let tenths = (part * 1000).checked_div(whole).unwrap_or(0);
    if tenths == 1000 { "100".into() } else { format!("{}.{}", tenths / 10, tenths % 10) }
}

fn stamps(source: &SourceReport) -> String {
    let name = |method: Option<StampMethod>| match method {
        Some(StampMethod::Kernel) => "the kernel",
        Some(StampMethod::User) => "user space",
        None => "nobody",
    };
    let errors = source.stamp_errors;
    let error = errors
        .map_or_else(String::new, |(sent, received)| format!(", to ± {} and ± {}", sent, received));
    format!(
        "sent by {}, received by {}{error}",
        name(source.sent_method),
        name(source.received_method)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_timehands::Status;

    #[test]
    fn offsets_of_seconds_show_their_microseconds() {
        assert_eq!(seconds_with_micros(Span::from_nanos(1_500_036_600)), "+1.500 037 s");
        assert_eq!(seconds_with_micros(Span::from_micros(-2_000_001)), "-2.000 001 s");
    }

    #[test]
    fn a_hundred_percent_is_all_of_them() {
        assert_eq!(percent(1200, 1200), "100");
        assert_eq!(percent(1199, 1200), "99.9");
        assert_eq!(percent(0, 0), "0.0");
    }

    #[test]
    fn columns_stand_under_their_names() {
        let sample = Sample {
            at: Span::from_millis(12_100),
            status: Status::Synchronised,
            bound: Span::from_micros(61),
            error: Span::from_nanos(-812),
        };
        let line = Line { sample, lead: Span::from_millis(1500), rates: None, source: None };
        let mut out = Vec::new();
        header(&mut out).unwrap();
        line.write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let widths: Vec<_> = text.lines().map(|l| l.chars().count()).collect();
        assert_eq!(widths[0] + "  inside".len(), widths[1], "{text}");
    }
}
