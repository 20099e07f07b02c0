//! `truechimer group watch`: a group as it goes on.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use truechimer_group_agent::{Report, config};
use truechimer_time::Span;

use super::ask::Found;
use super::{Place, Wait, ask, screen};
use truechimer_command::parse::positive;
use truechimer_command::table::{Side, Table};
use truechimer_command::{Ended, Failure, Outcome};
use truechimer_command::{show, signals};

/// Time between looks at the flag.
const GLANCE: Duration = Duration::from_millis(50);
/// Members that are shown on one screen.
const LINES: usize = 18;
/// Notices that are shown with several members are no older, ns.
const NEWS_NS: i64 = 60_000_000_000;
/// Columns of the lines that are written where there is no terminal.
const COLUMNS: [(&str, usize); 12] = [
    ("uptime", 8),
    ("group", 12),
    ("member", 6),
    ("phase", 7),
    ("live", 4),
    ("rounds/s", 9),
    ("sent/s", 9),
    ("suppr/s", 9),
    ("dupl/s", 7),
    ("offset", 9),
    ("within", 9),
    ("steering", 10),
];

/// Options of `truechimer group watch`.
#[derive(Args, Debug)]
#[command(after_help = "\
On a terminal it shows what 'truechimer group status' does, with rates, again and again; where this
node has several members, one line for each. Elsewhere it writes a line for each member of this node
and each interval.

Columns of the lines:
  uptime    of the member's place, s
  phase     outside, joining, live; stalled: nothing delivered for more than 2 s; no UTC: programs
            wait until the group's clock is tied to UTC; trouble: see 'truechimer group status'
  live      how many members take part
  rounds/s  rounds decided, sent/s messages that this member sent, suppr/s its operations that
            needed no proposal from it, dupl/s proposals for decided rounds: since the line before
  offset    the group's clock - UTC by this member's clock; positive: the group's clock is ahead
  within    how far the group's clock may be from UTC
  steering  how much faster than the physical clocks the group's clock is made to go

Exit status: 0 ended by a signal, or --once found no trouble (see 'truechimer group status --help');
1 --once found some; 2 error (no agent, say).")]
pub struct Options {
    /// Only this group
    #[arg(long, value_name = "NAME", value_parser = config::name)]
    pub group: Option<String>,
    /// Time to wait in between
    #[arg(long, value_name = "SPAN", default_value = "1s", value_parser = positive)]
    pub interval: Span,
    /// Look twice, so that there are rates, and end
    #[arg(long)]
    pub once: bool,
    /// JSON lines, each as of 'truechimer group status --json' with its rates
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub wait: Wait,
}

/// Runs the command.
pub fn run(options: &Options, out: &mut dyn Write) -> Ended {
    let stop = signals::stop()?;
    let terminal = io::stdout().is_terminal() && !options.json && !options.once;
    let mut watch = Watch { options, before: BTreeMap::new(), headed: false };
    let look = || ask::reports(&options.place, options.group.as_deref());
    let stopped = || stop.load(Ordering::Relaxed);
    ask::awaited(&options.place, options.group.as_deref(), options.wait.end(), &stopped)?;
    watch.remember(&look()?);
    loop {
        if !rest(&stop, options.interval) {
            return Ok(Outcome::Good);
        }
        let reports = match look() {
            Ok(reports) => reports,
            // It may come back, as members do.
            Err(Failure::Said(why)) if terminal => {
                write!(out, "\x1b[H\x1b[J{why}\r\n")?;
                out.flush()?;
                continue;
            }
            Err(why) => return Err(why),
        };
        if terminal {
            write!(out, "\x1b[H\x1b[J")?;
        }
        watch.show(&reports, terminal, out)?;
        out.flush()?;
        watch.remember(&reports);
        if options.once {
            return Ok(Outcome::of(reports.iter().all(|found| found.troubles.is_empty())));
        }
    }
}

/// Waits, and says whether to go on.
fn rest(stop: &AtomicBool, span: Span) -> bool {
    let span = Duration::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
    let begin = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let left = span.saturating_sub(begin.elapsed());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(GLANCE));
    }
    false
}

struct Watch<'o> {
    options: &'o Options,
    /// The last report of each member of each group.
    before: BTreeMap<(String, u32), Report>,
    headed: bool,
}

/// Events in a second, on the average.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Rates {
    rounds_per_s: f64,
    sent_per_s: f64,
    suppressed_per_s: f64,
    duplicates_per_s: f64,
}

impl Rates {
    /// Between two reports of the same life of an agent.
    fn between(before: &Report, now: &Report) -> Option<Rates> {
        let ns = now.uptime_ns.checked_sub(before.uptime_ns).filter(|ns| *ns > 0)?;
        if before.pid != now.pid {
            return None;
        }
        let (then, since) = (&before.counts, &now.counts);
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 * 1e9 / ns as f64;
        Some(Rates {
            rounds_per_s: rate(since.rounds, then.rounds),
            sent_per_s: rate(since.messages_sent, then.messages_sent),
            suppressed_per_s: rate(since.suppressed, then.suppressed),
            duplicates_per_s: rate(since.duplicates, then.duplicates),
        })
    }
}

#[derive(Serialize)]
struct Line<'r> {
    #[serde(flatten)]
    report: &'r Found,
    rates: Option<Rates>,
}

impl Watch<'_> {
    fn remember(&mut self, reports: &[Found]) {
        let key = |report: &Report| (report.group.name.clone(), report.member);
        self.before =
            reports.iter().map(|found| (key(&found.report), found.report.clone())).collect();
    }

    fn rates(&self, report: &Report) -> Option<Rates> {
        let before = self.before.get(&(report.group.name.clone(), report.member))?;
        Rates::between(before, report)
    }

    fn show(
        &mut self,
        reports: &[Found],
        terminal: bool,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        if !terminal && !self.options.json && !self.headed {
            self.headed = true;
            row(COLUMNS.map(|(name, _)| name.to_owned()), out)?;
        }
        if terminal && reports.len() > 1 {
            return Ok(self.table(reports, out)?);
        }
        for report in reports {
            let rates = self.rates(&report.report);
            if self.options.json {
                writeln!(out, "{}", show::json(&Line { report, rates })?)?;
            } else if terminal {
                screen::write(report, out)?;
                if let Some(rates) = rates {
                    writeln!(out, "\n{}", in_words(&rates))?;
                }
                writeln!(out)?;
            } else {
                row(cells(report, rates), out)?;
            }
        }
        Ok(())
    }
}

impl Watch<'_> {
    /// Several members on one screen of 24 lines of 80 columns, as far as they fit.
    fn table(&self, reports: &[Found], out: &mut dyn Write) -> io::Result<()> {
        let mut table = Table::new(&[
            ("group", Side::Left),
            ("member", Side::Right),
            ("phase", Side::Left),
            ("live", Side::Right),
            ("rounds/s", Side::Right),
            ("sent/s", Side::Right),
            ("offset", Side::Right),
            ("within", Side::Right),
            ("steering", Side::Right),
        ]);
        for report in reports.iter().take(LINES) {
            let cells = cells(report, self.rates(&report.report));
            let [_, group, member, phase, live, rounds, sent, _, _, offset, within, steering] =
                cells;
            let group: String = group.chars().take(12).collect();
            table.row(vec![group, member, phase, live, rounds, sent, offset, within, steering]);
        }
        table.write(out)?;
        if let Some(more) = reports.len().checked_sub(LINES).filter(|more| *more > 0) {
            writeln!(out, "and {more} more: see --group and --member")?;
        }
        let room = (LINES + 2).saturating_sub(reports.len());
        for (text, members, age) in news(reports).into_iter().take(room) {
            let when = match age {
                NOW => "now".to_owned(),
                ns => format!("{} ago", show::age(Span::from_nanos(ns))),
            };
            let text = show::plain(&format!("{}: {text} ({when})", members.join(" ")));
            let text: String = text.chars().take(79).collect();
            writeln!(out, "{text}")?;
        }
        Ok(())
    }
}

/// Age of a trouble, ns: it comes before all notices.
const NOW: i64 = -1;

/// The troubles, then the notices that are not old, each once: the text, whose it is, and how old
/// it is, ns.
fn news(reports: &[Found]) -> Vec<(&str, Vec<String>, i64)> {
    let mut news: Vec<(&str, Vec<String>, i64)> = Vec::new();
    for trouble in reports.iter().flat_map(|found| &found.troubles) {
        let member = trouble.member.to_string();
        match news.iter_mut().find(|(text, ..)| *text == trouble.why) {
            Some((_, members, _)) if members.contains(&member) => {}
            Some((_, members, _)) => members.push(member),
            None => news.push((&trouble.why, vec![member], NOW)),
        }
    }
    for report in reports {
        for notice in report.report.notices.iter().filter(|notice| notice.age_ns <= NEWS_NS) {
            let member = report.report.member.to_string();
            match news.iter_mut().find(|(text, ..)| *text == notice.last) {
                Some((_, members, age)) => {
                    members.push(member);
                    *age = notice.age_ns.min(*age);
                }
                None => news.push((&notice.last, vec![member], notice.age_ns)),
            }
        }
    }
    news.sort_by_key(|(.., age)| *age);
    news
}

fn in_words(rates: &Rates) -> String {
    format!(
        "a second: {:.1} rounds, {:.1} messages sent, {:.1} proposals suppressed, {:.1} duplicates",
        rates.rounds_per_s, rates.sent_per_s, rates.suppressed_per_s, rates.duplicates_per_s
    )
}

fn cells(found: &Found, rates: Option<Rates>) -> [String; 12] {
    let report = &found.report;
    let rate = |of: fn(&Rates) -> f64| {
        rates.as_ref().map_or_else(|| "-".to_owned(), |rates| format!("{:.1}", of(rates)))
    };
    let live = report.members.iter().filter(|m| m.live && !m.observer).count();
    [
        format!("{:.1}", report.uptime_ns as f64 / 1e9),
        report.group.name.clone(),
        report.member.to_string(),
        match report.phase.as_str() {
            "live" if report.stalled_ns.is_some() => "stalled".to_owned(),
            "live" if !report.timed => "no UTC".to_owned(),
            "live" if !found.troubles.is_empty() => "trouble".to_owned(),
            phase => phase.to_owned(),
        },
        format!("{live}/{}", report.group.members.len()),
        rate(|rates| rates.rounds_per_s),
        rate(|rates| rates.sent_per_s),
        rate(|rates| rates.suppressed_per_s),
        rate(|rates| rates.duplicates_per_s),
        report.ahead_of_utc_ns.map_or_else(|| "-".to_owned(), screen::signed),
        report.error_bound_ns.map_or_else(|| "-".to_owned(), screen::at_most),
        screen::rate(report.steering_ppb),
    ]
}

fn row(cells: [String; 12], out: &mut dyn Write) -> io::Result<()> {
    let mut line = String::new();
    for (cell, (_, width)) in cells.iter().zip(COLUMNS) {
        line.push_str(&format!("{cell:>width$} "));
    }
    writeln!(out, "{}", line.trim_end())
}
