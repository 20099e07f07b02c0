//! `truechimer capture check`: the stamps of an interface against each other.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use truechimer_capture::check::{self, Measured, Plan};
use truechimer_report::{Chart, Histogram, Page as Html, Section, Unit};
use truechimer_time::Span;

use truechimer_command::clock::Page;
use truechimer_command::output::{ready, save_report};
use truechimer_command::report::{self, Watch};
use truechimer_command::table::{Side, Table};
use truechimer_command::{Ended, Outcome, parse, show, signals};

mod compare;
mod log;

use compare::{Comparison, Finding, comparisons, findings};
pub use compare::{Tally, tallies};

/// Options of `truechimer capture check`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Frames of 60 bytes are sent on the interface, to the nearest bridge, which passes them on to nobody
(EtherType 88b5, for experiments), and what arrives meanwhile is looked at. Of each frame all stamps
are compared that the kernel and the card give: 'queue' as it enters the interface's queue, 'driver'
as the driver hands it on, 'card' by the card's clock, 'kernel' as it is received; 'program' is when
a program sent or had it, by the system clock. If the card can stamp all that it receives, it is
asked to, and its setting put back. Whether it stamps what is sent is left as it is set ('ethtool
--get-hwtimestamp-cfg', hwstamp_ctl).

offset   median of the later stamp less the earlier one; of a card, how far its clock is off as
         well: 37 s more is TAI
jitter   between the 1st and the 99th percentile
rate     of the one clock against the other, ppm, with 95 % of its statistical error

It takes the rights of 'truechimer capture'.

Examples:
  sudo truechimer capture check eth0
  sudo truechimer capture check eth0 --duration 60s --html eth0.html
  sudo truechimer capture check eth0 --silent                sends nothing
  sudo truechimer capture check eth0 --silent --duration 3600s --clock-log day.clocks

Exit status: 0 all stamps that the driver claims came, in their order; 1 not so, or nothing could be
seen; 2 error.")]
pub struct Check {
    /// The interface
    #[arg(value_name = "NAME")]
    interface: String,
    /// Time to measure
    #[arg(long, value_name = "SPAN", value_parser = parse::positive, default_value = "3s")]
    duration: Span,
    /// Time between frames
    #[arg(long, value_name = "SPAN", value_parser = parse::positive, default_value = "10ms")]
    interval: Span,
    /// Send nothing: look at what arrives
    #[arg(long)]
    silent: bool,
    /// Write a page with pictures to FILE
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write what the system clock and the card's show beside true time to FILE, ten times a second:
    /// 'truechimer restamp --clock' gives captures by them true time
    #[arg(long, value_name = "FILE")]
    clock_log: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    page: Page,
}

/// Outcome.
#[derive(Serialize)]
struct Report<'a> {
    interface: &'a str,
    sent: usize,
    arrived: usize,
    stamps: &'a [Tally],
    comparisons: &'a [Comparison],
    findings: &'a [Finding],
    notes: &'a [String],
    good: bool,
}

/// Runs the command.
pub fn run(args: &Check, out: &mut dyn Write) -> Ended {
    if let Some(file) = &args.html {
        ready(file)?;
    }
    let span =
        |span: Span| Duration::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
    let plan = Plan {
        interface: args.interface.clone(),
        duration: span(args.duration).min(Duration::from_secs(86_400)),
        every: (!args.silent).then(|| span(args.interval).max(Duration::from_micros(50))),
    };
    let stop = signals::interrupted()?;
    let clock = Watch::begin(&args.page);
    let mut log = match &args.clock_log {
        Some(file) => Some(log::Log::create(file, &args.page, &args.interface)?),
        None => None,
    };
    let over = AtomicBool::new(false);
    let (measured, logged) = std::thread::scope(|scope| {
        let keeper = log.as_mut().map(|log| scope.spawn(|| log.keep(&over)));
        let measured = check::measure(&plan, &stop).map_err(super::said);
        over.store(true, Ordering::Relaxed);
        let logged = keeper.map(std::thread::ScopedJoinHandle::join);
        (measured, logged)
    });
    let mut measured = measured?;
    if let Some(logged) = logged {
        let lines = logged.map_err(|_| super::said("the thread of the clock log has failed"))??;
        measured.notes.push(lines);
    }
    let (stamps, comparisons) = (tallies(&measured), comparisons(&measured));
    let findings = findings(&measured, &stamps, &comparisons);
    let report = Report {
        interface: &args.interface,
        sent: measured.sent.len(),
        arrived: measured.arrived.len(),
        stamps: &stamps,
        comparisons: &comparisons,
        findings: &findings,
        notes: &measured.notes,
        good: findings.iter().all(|finding| finding.good),
    };
    if args.json {
        writeln!(out, "{}", show::json(&report)?)?;
    } else {
        report.write(out)?;
    }
    if let Some(file) = &args.html {
        save_report(file, &report.page(&measured, &clock.told()))?;
    }
    Ok(Outcome::of(report.good))
}

impl Report<'_> {
    fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        writeln!(out, "{}: {} frames sent, {} arrived\n", self.interface, self.sent, self.arrived)?;
        let mut table =
            Table::new(&[("stamp", Side::Left), ("claimed", Side::Left), ("came", Side::Right)]);
        for Tally { stamp, claimed, came, of } in self.stamps {
            let claimed = if *claimed { "yes" } else { "no" };
            table.row(vec![(*stamp).into(), claimed.into(), format!("{came} of {of}")]);
        }
        table.write(out)?;
        writeln!(out)?;
        let mut table = Table::new(&[
            ("from", Side::Left),
            ("to", Side::Left),
            ("frames", Side::Right),
            ("offset", Side::Right),
            ("jitter", Side::Right),
            ("rate, ppm", Side::Right),
            ("backwards", Side::Right),
        ]);
        for c in self.comparisons {
            let rate = match c.rate_ppm.zip(c.rate_error_ppm) {
                Some((rate, error)) => format!("{rate:+.3} ± {error:.3}"),
                None => "-".to_owned(),
            };
            table.row(vec![
                c.from.into(),
                c.to.into(),
                c.frames.to_string(),
                signed(c.offset_ns),
                show::nanos(c.jitter_ns),
                rate,
                c.backwards.map_or_else(|| "-".to_owned(), |n| n.to_string()),
            ]);
        }
        table.write(out)?;
        writeln!(out)?;
        for Finding { good, text } in self.findings {
            let word = if *good { "verdict   " } else { "verdict ! " };
            show::wrapped(&format!("{word}{text}"), "          ", out)?;
        }
        for note in self.notes {
            show::wrapped(&format!("note      {note}"), "          ", out)?;
        }
        Ok(())
    }

    /// Page with the differences over time and their distributions.
    fn page(&self, measured: &Measured, clock: &str) -> Html {
        let verdict = if self.good { "as claimed" } else { "not as claimed" };
        let mut page = report::page(&format!("Stamps of {}", self.interface))
            .about("Stamps of one frame against each other, frame by frame.")
            .fact("interface", self.interface)
            .fact("clock", clock)
            .highlight("stamps", verdict)
            .highlight("frames sent", self.sent.to_string())
            .highlight("frames arrived", self.arrived.to_string());
        let mut section = Section::new("Verdict");
        for Finding { text, .. } in self.findings {
            section = section.text(text);
        }
        for note in self.notes {
            section = section.text(note);
        }
        page = page.section(section);
        for (comparison, (first_ns, points)) in
            self.comparisons.iter().zip(compare::points(measured))
        {
            let offset = comparison.offset_ns;
            let title = format!("From {} to {}", comparison.from, comparison.to);
            let about = format!(
                "Median {}, which is taken off; {} frames, jitter {}.",
                signed(offset),
                comparison.frames,
                show::nanos(comparison.jitter_ns)
            );
            let rest = |ns: i64| ns.saturating_sub(offset) as f64 / 1e9;
            let rows = points.iter().map(|(at_s, ns)| (*at_s, rest(*ns)));
            let over_time = Chart::time("Difference over time")
                .y("beside the median", Unit::Seconds)
                .points("difference", rows);
            let distribution = Histogram::new("Distribution", Unit::Seconds)
                .values("difference", points.iter().map(|(_, ns)| rest(*ns)))
                .chart();
            let section = Section::new(&title).since(first_ns).text(&about);
            page = page.section(section.chart(over_time).chart(distribution));
        }
        page
    }
}

/// Nanoseconds in the unit that fits, with their sign where they are less than zero.
fn signed(ns: i64) -> String {
    const SECOND: u64 = 1_000_000_000;
    let (sign, ns) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
    // Of clocks that are 37 s apart the nanoseconds count as well.
    if ns >= SECOND {
        return format!("{sign}{}.{:09} s", ns / SECOND, ns % SECOND);
    }
    format!("{sign}{}", show::nanos(ns))
}

#[cfg(test)]
mod tests;
