//! Output of the demonstration: a line a second, and a summary.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;
use truechimer_engine::SourceReport;
use truechimer_time::{Rate, Span, StampMethod};

use super::tally::{Sample, Summary};
use super::truth::Rates;
use truechimer_command::show::ppb;

/// Everything that one line shows.
pub struct Line<'a> {
    /// The newest reading.
    pub sample: Sample,
    /// Clock − system clock.
    pub lead: Span,
    /// Rates since the beginning.
    pub rates: Option<Rates>,
    /// Report of the daemon on its server.
    pub source: Option<&'a SourceReport>,
}

/// The names of the columns, and their units.
pub fn header(out: &mut dyn Write) -> io::Result<()> {
    row(out, ["time", "status", "clock-system", "rate", "RTT floor", "bound", "true error"], "")?;
    row(out, ["s", "", "s", "ppm", "µs", "± µs", "µs"], "")
}

/// A row before the first reading.
pub fn write_waiting(at: Duration, out: &mut dyn Write) -> io::Result<()> {
    row(out, [&at.as_secs().to_string(), "unknown", "-", "-", "-", "-", "-"], "")
}

/// No more than 80 columns wide, as long as errors are below 100 ms.
fn row(out: &mut dyn Write, cells: [&str; 7], remark: &str) -> io::Result<()> {
    let [at, status, lead, rate, floor, bound, error] = cells;
    let line = format!(
        "{at:>4} {status:12} {lead:>12} {rate:>9} {floor:>9} {bound:>9} {error:>10} {remark}"
    );
    writeln!(out, "{}", line.trim_end())
}

impl Line<'_> {
    /// Writes it as a row of the table.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let Sample { at, status, bound, error } = self.sample;
        let at = (at.as_nanos() / 1_000_000_000).to_string();
        if !status.bound_holds() {
            return row(out, [&at, status.name(), "-", "-", "-", "-", "-"], "");
        }
        let rate = self.rates.map_or_else(|| "-".into(), |rates| ppm(rates.clock));
        let cells = [
            &at,
            status.name(),
            &seconds(self.lead),
            &rate,
            &self.floor().map_or_else(|| "-".into(), micros),
            &micros(bound),
            &signed(error),
        ];
        row(out, cells, if self.sample.inside() { "inside" } else { "OUTSIDE" })
    }

    fn floor(&self) -> Option<Span> {
        self.source.and_then(|source| source.rtt_floor)
    }

    /// Line for programs.
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

/// Words at the end.
pub struct End<'a> {
    /// About the readings; `None` if the clock never synchronised.
    pub summary: Option<Summary>,
    /// Everything about the last one.
    pub line: Option<Line<'a>>,
}

impl End<'_> {
    /// True if all went well.
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
                format!("its server and not the system clock: {} s from that", seconds(line.lead)),
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
        writeln!(
            out,
            "\nAn error that stays is the asymmetry of the path, which no client can see: a reply \
             leaves\nsome µs after the server has read its clock for it. The bound allows for \
             that.\n\n{verdict}"
        )
    }

    /// End for programs.
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

/// `+1.500 037`: so that the last microseconds of an offset of seconds can be seen to grow.
fn seconds(span: Span) -> String {
    let us = (span.as_nanos() + 500).div_euclid(1_000);
    let (sign, us) = (if us < 0 { '-' } else { '+' }, us.unsigned_abs());
    let rest = us % 1_000_000;
    format!("{sign}{}.{:03} {:03}", us / 1_000_000, rest / 1_000, rest % 1_000)
}

/// Microseconds with three decimals.
fn micros(span: Span) -> String {
    let ns = span.as_nanos();
    let sign = if ns < 0 { "-" } else { "" };
    let ns = ns.unsigned_abs();
    format!("{sign}{}.{:03}", ns / 1_000, ns % 1_000)
}

/// Writes it with its sign, whichever it is.
fn signed(span: Span) -> String {
    if span.is_negative() { micros(span) } else { format!("+{}", micros(span)) }
}

/// With its sign and without its unit.
fn ppm(rate: Rate) -> String {
    format!("{rate:+}").trim_end_matches(" ppm").to_owned()
}

/// Rounded down: 100 only if all of them were.
fn percent(part: usize, whole: usize) -> String {
    let tenths = (part * 1000).checked_div(whole).unwrap_or(0);
    if tenths == 1000 { "100".into() } else { format!("{}.{}", tenths / 10, tenths % 10) }
}

fn stamps(source: &SourceReport) -> String {
    let name = |method: Option<StampMethod>| match method {
        Some(StampMethod::Hardware) => "the network card",
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
        assert_eq!(seconds(Span::from_nanos(1_500_036_600)), "+1.500 037");
        assert_eq!(seconds(Span::from_micros(-2_000_001)), "-2.000 001");
        assert_eq!(signed(Span::from_nanos(-39_718)), "-39.718");
        assert_eq!(signed(Span::from_nanos(12)), "+0.012");
        assert_eq!(ppm(Rate::from_ppb(37_000)), "+37.0000");
    }

    #[test]
    fn a_hundred_percent_is_all_of_them() {
        assert_eq!(percent(1200, 1200), "100");
        assert_eq!(percent(1199, 1200), "99.9");
        assert_eq!(percent(0, 0), "0.0");
    }

    #[test]
    fn the_table_fits_an_ordinary_terminal() {
        let sample = Sample {
            at: Span::from_millis(12_100),
            status: Status::Synchronised,
            bound: Span::from_nanos(99_999_999),
            error: Span::from_nanos(-99_999_999),
        };
        let source = None;
        let line = Line { sample, lead: Span::from_millis(-1500), rates: None, source };
        let mut out = Vec::new();
        header(&mut out).unwrap();
        write_waiting(Duration::from_secs(1), &mut out).unwrap();
        line.write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.ends_with("-99999.999 inside\n"), "{text}");
    }
}
