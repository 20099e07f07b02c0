//! `truechimer audit`: how well the clock was known over a day or any other span of time, from the
//! record that the daemon keeps.

mod csv;
mod json;
mod page;
mod screen;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use truechimer_audit::{Account, Chain, Hash, StatusTime, Time, is_written, parse_time};
use truechimer_command::{Ended, Failure, Outcome, output, parse, program, show};
use truechimer_time::Span;

/// Directory of the record in the packaged configuration.
const RECORD: &str = "/var/lib/truechimer/audit";
/// Time that a daemon may take to end an interval that is over, ns: it looks at least so often, or readers hold
/// the clock for untended.
const GRACE_NS: i64 = truechimer_timehands::PATIENCE.as_nanos_i64();
/// Length of an interval of a record that does not say any, unless it has longer ones, ns.
const INTERVAL_NS: i64 = 60_000_000_000;
/// The longest that can be configured, ns.
const LONGEST_NS: i64 = 3_600_000_000_000;
const DAY_NS: i64 = 86_400_000_000_000;

/// Words that every report has.
const MEANING: &str = "The chain shows that a line was changed, removed or put in later, unless \
    whoever did it made all hashes after it anew, which takes no more than the right to write these \
    files: the record is not signed. Keep the last hash elsewhere: as long as --verify --hash finds \
    it, all before it is as it was. Where the chain is broken, lines on either side of that place may be \
    made up as well, unless a hash that was kept stands before it.";

/// Options of `truechimer audit`.
#[derive(Args, Debug)]
#[command(after_help = "\
The daemon keeps the record if 'directory' stands under [audit] in its configuration. Without a
span of time the report is of the last 24 hours of the record. Times are UTC. A bound is the worst
of its interval (a minute unless configured), and an interval counts as within a limit only if its
worst bound was. The one that is not over is not in the record yet: shares are of the time up to it.
Time of which the record says nothing (no daemon, a full disk) is time without a bound.

Examples:
  truechimer audit --day yesterday --limit 100us --limit 1ms
  truechimer audit --day 2026-11-27 --limit 100us --html report.html
  truechimer audit --verify --hash 3f0c…     whether nothing up to that hash was changed

The chain of hashes shows that a line was changed, removed or put in later, unless whoever did it
made all hashes after it anew: the record is not signed. Keep the last hash elsewhere.

Exit status: 0 the chain is whole, 1 it is broken or lacks the hash of --hash, 2 error.")]
pub struct Audit {
    /// The directory of the record
    #[arg(long, value_name = "DIRECTORY", default_value = RECORD)]
    record: PathBuf,
    /// A day in UTC, as 2026-11-27, 'today' or 'yesterday'
    #[arg(long, value_name = "DAY", conflicts_with_all = ["from", "to"])]
    day: Option<String>,
    /// The begin of the span, as 2026-11-27T09:30 [default: 24 hours before its end]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    from: Option<Time>,
    /// The end of the span [default: the end of the record]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    to: Option<Time>,
    /// Tell for how much of the time the bound was at most so wide; may be given several times
    #[arg(long, value_name = "SPAN", value_parser = limit)]
    limit: Vec<Span>,
    /// Only check the chain of hashes
    #[arg(long, conflicts_with_all = ["day", "from", "to", "limit", "html", "csv"])]
    verify: bool,
    /// A hash that was kept elsewhere and must be in the record
    #[arg(long, value_name = "HASH")]
    hash: Option<Hash>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Print comma-separated values with a header: a row for each interval, or with =sources for each
    /// stretch of time during which a source was the same
    #[arg(long, value_name = "OF", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "intervals", conflicts_with = "json")]
    csv: Option<Rows>,
    /// Write a report to FILE: one page with plots, to read or to print; - is standard output, in
    /// place of the text
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Rows of comma-separated values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Rows {
    /// Intervals.
    Intervals,
    /// Sources.
    Sources,
}

/// A limit of the bound: 1 ns to a day.
fn limit(text: &str) -> Result<Span, String> {
    let span = parse::positive(text)?;
    if span < Span::from_nanos(1) || span > Span::from_secs(86_400) {
        return Err("must be 1ns to 86400s, as in 100us".into());
    }
    Ok(span)
}

/// All that a report shows.
struct Report<'a> {
    args: &'a Audit,
    account: &'a Account,
    chain: &'a Chain,
    /// Reason why the report ends, or is judged, no later.
    pending: Option<Pending>,
    /// Nothing is in the record from its end on, and the report ends there as nobody asked for another time.
    silent: Option<Silent>,
    limits_ns: Vec<u64>,
}

/// Reason why the record says nothing yet of the time from some moment on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pending {
    /// A daemon is at an interval that began then. True if it should have been over by now.
    Interval(bool),
    /// So it is, or there is no daemon, which nobody can tell before this time.
    Unknown(Time),
    /// That is to come.
    ToCome,
}

impl Pending {
    /// Word for programs.
    fn word(self) -> &'static str {
        match self {
            Pending::Interval(false) => "interval",
            Pending::Interval(true) => "overdue",
            Pending::Unknown(_) => "unknown",
            Pending::ToCome => "to-come",
        }
    }

    /// Words on it, for people, where the record has nothing yet from this time on.
    fn text(self, from: Time) -> String {
        let interval = |rest: &str| format!("the interval that began at {} {rest}", at(from));
        match self {
            Pending::Interval(false) => interval("is in the record when it is over"),
            Pending::Interval(true) => interval(
                "is overdue: a daemon has the record open, and does not run, or the system clock is \
                 ahead of it; what it finds is in the record when it is over",
            ),
            Pending::Unknown(until) => interval(&format!(
                "is not over, or there is no daemon: cannot be told before {} (root and the daemon's \
                 user see it at once)",
                at(until)
            )),
            Pending::ToCome => format!("the time from {} on is to come", at(from)),
        }
    }
}

/// A record to which nothing was added for longer than a daemon at it would let pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Silent {
    /// Time of its last line.
    since: Time,
    /// No daemon has it open; else that is not for this user to know.
    is_closed: bool,
}

impl Silent {
    /// The record of an account, by whether a daemon has it open.
    fn of(account: &Account, is_written: Option<bool>, now: Time) -> Option<Silent> {
        let since = account.last.filter(|last| *last < now)?;
        let is_closed = match is_written {
            Some(true) => return None,
            Some(false) => true,
            None => false,
        };
        let (_, pending) = judged(account, is_written, now);
        (pending == Pending::ToCome).then_some(Silent { since, is_closed })
    }

    fn text(self) -> String {
        let why = match self.is_closed {
            true => "no daemon has the record open",
            false => "whether a daemon has the record open, root and the daemon's user can see",
        };
        format!("nothing was written since {}: {why}", at(self.since))
    }
}

/// Time up to which a record can be judged now, and why no longer. `is_written`: whether a daemon has it open.
fn judged(account: &Account, is_written: Option<bool>, now: Time) -> (Time, Pending) {
    // The system clock may be behind the record. That it once was ahead is no reason to wait for that time.
    let end = now.max(account.last.unwrap_or(now));
    let Some(open) = account.open else { return (end, Pending::ToCome) };
    let interval = account.interval_ns.and_then(|ns| i64::try_from(ns).ok());
    let interval = interval.unwrap_or(account.longest_ns.clamp(INTERVAL_NS, LONGEST_NS));
    let until = Time(open.0.saturating_add(interval).saturating_add(GRACE_NS));
    match is_written {
        // A record of an older version does not say how long its intervals are.
        Some(true) => (open, Pending::Interval(account.interval_ns.is_some() && now > until)),
        None if now < until => (open, Pending::Unknown(until)),
        None | Some(false) => (end, Pending::ToCome),
    }
}

/// Runs the command.
pub fn run(args: &Audit, out: &mut dyn Write) -> Ended {
    let folder = &args.record;
    let unreadable = |why: truechimer_audit::ReadError| Failure::Said(why.to_string());
    if args.verify {
        let chain = truechimer_audit::read(folder, args.hash.as_ref(), &mut |_| {});
        let chain = chain.map_err(unreadable)?;
        if args.json {
            writeln!(out, "{}", show::json(&json::Verified::of(&chain))?)?;
        } else {
            screen::chain(&chain, out)?;
            writeln!(out)?;
            show::wrapped(MEANING, "", out)?;
        }
        return Ok(Outcome::of(chain.is_whole()));
    }
    if args.page_goes_out() && (args.json || args.csv.is_some()) {
        let text = "the page goes to standard output, and so would --json or --csv: name a file for one of them";
        return Err(Failure::new("--html -", text));
    }
    if let Some(path) = args.file() {
        output::ready(path)?;
    }
    let asked = args.asked()?;
    // Asked first: a daemon that ends meanwhile says so at the end of what is read then.
    let is_written = is_written(folder);
    let read = |(from, to)| {
        let mut account = Account::new(from, to);
        let take = &mut |next: Result<_, &_>| account.read(next);
        let chain = truechimer_audit::read(folder, args.hash.as_ref(), take).map_err(unreadable)?;
        Ok::<_, Failure>((account, chain))
    };
    let mut silent = None;
    let (mut account, chain) = match asked {
        Some(span) => read(span)?,
        None => {
            // First its end, then the day before it.
            let (whole, _) = read((Time(i64::MIN), Time(i64::MAX)))?;
            silent = Silent::of(&whole, is_written, now());
            read(args.default_span(&whole, is_written)?)?
        }
    };
    let (end, pending) = judged(&account, is_written, now());
    // Time that is not asked for is no loss; but that an interval is not over is worth a word.
    let is_short = end < account.to || end == account.to && pending != Pending::ToCome;
    let pending = Some(pending).filter(|_| is_short);
    account.judge(end);
    if let Some(pending) = pending.filter(|_| account.judged_ns() == 0) {
        let (from, why) = (account.from, pending.text(end));
        return Err(Failure::Said(format!(
            "the record says nothing yet of the time from {from} on: {why}"
        )));
    }
    let limits_ns = args.limit.iter().map(|limit| limit.as_nanos_i64().unsigned_abs()).collect();
    let report = Report { args, account: &account, chain: &chain, pending, silent, limits_ns };
    if args.page_goes_out() {
        let page = page::page(&report, &program::line()).render();
        out.write_all(page.as_bytes())?;
    } else if args.json {
        writeln!(out, "{}", show::json(&json::Json::of(&report))?)?;
    } else if let Some(rows) = args.csv {
        match rows {
            Rows::Intervals => csv::intervals(&report, out)?,
            Rows::Sources => csv::sources(&report, out)?,
        }
    } else {
        screen::report(&report, out)?;
    }
    if let Some(path) = args.file() {
        output::save_report(path, &page::page(&report, &program::line()))?;
    }
    Ok(Outcome::of(chain.is_whole()))
}

/// Now, as far as the system clock knows.
fn now() -> Time {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Time(since.ok().and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(i64::MAX))
}

impl Audit {
    /// True if the page is all that goes to standard output.
    fn page_goes_out(&self) -> bool {
        self.html.as_deref() == Some(Path::new("-"))
    }

    /// File for the page.
    fn file(&self) -> Option<&Path> {
        self.html.as_deref().filter(|_| !self.page_goes_out())
    }

    /// The span that was asked for; none: the last day of the record, or to its end.
    fn asked(&self) -> Result<Option<(Time, Time)>, Failure> {
        if let Some(day) = &self.day {
            let from = match day.as_str() {
                "today" => now().midnight(),
                "yesterday" => now().midnight().plus_days(-1),
                text => match parse_time(text) {
                    Ok(time) if time == time.midnight() && text.len() == 10 => time,
                    _ => {
                        return Err(Failure::Said(format!(
                            "--day {text}: must be a day, as in 2026-11-27, or 'today' or 'yesterday'"
                        )));
                    }
                },
            };
            return Ok(Some((from, from.plus_days(1))));
        }
        let (Some(from), Some(to)) = (self.from, self.to) else {
            let from = |to: Time| Time(to.0.saturating_sub(DAY_NS));
            return Ok(self.to.map(|to| (from(to), to)));
        };
        if from >= to {
            return Err(Failure::Said(format!("--from {from} is not before --to {to}")));
        }
        Ok(Some((from, to)))
    }

    /// To the end of what can be judged of the record: from where it was asked, or a day.
    fn default_span(
        &self,
        whole: &Account,
        is_written: Option<bool>,
    ) -> Result<(Time, Time), Failure> {
        let (end, _) = judged(whole, is_written, now());
        let some = whole.begins.zip(whole.ends.map(|ends| ends.min(end)));
        let Some((begins, ends)) = some.filter(|(begins, ends)| begins < ends) else {
            let text = "has no interval yet: the first one is in it when it is over \
                        (after a minute unless configured)";
            return Err(Failure::new(self.record.display(), text));
        };
        let from = self.from.unwrap_or(Time(ends.0.saturating_sub(DAY_NS)).max(begins));
        if from >= ends {
            return Err(Failure::Said(format!("--from {from}: the record ends at {ends}")));
        }
        Ok((from, ends))
    }
}

/// Statuses of a source with their reasons, and for how long each.
fn statuses(times: &[StatusTime]) -> String {
    let each = times.iter().map(|StatusTime { status, reason, time_ns }| {
        let reason = reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
        format!("{status}{reason} {}", length(*time_ns))
    });
    each.collect::<Vec<_>>().join(", ")
}

/// A text with a capital letter.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A time to the millisecond.
fn at(time: Time) -> String {
    let text = time.to_string();
    text.get(..23).map_or(text.clone(), |text| format!("{text}Z"))
}

/// A span of ns, ≥ 0, in the unit that fits with three decimals, rounded up as bounds are.
fn short(ns: u64) -> String {
    let up = Span::from_nanos_wide(i128::from(ns)).rounded_up();
    show::nanos(up.as_nanos_i64().try_into().unwrap_or(ns))
}

/// A length of time, exact to the second where it is long.
fn length(ns: i64) -> String {
    let s = ns / 1_000_000_000;
    match s {
        0..120 => Span::from_nanos(ns).to_string(),
        120..7200 => format!("{} min {} s", s / 60, s % 60),
        _ => format!("{} h {} min {} s", s / 3600, s / 60 % 60, s % 60),
    }
}

/// Share of a length in percent, rounded down, so that only all is 100 %.
fn percent(part: i64, whole: i64) -> String {
    let thousandths = i128::from(part) * 100_000 / i128::from(whole.max(1));
    format!("{}.{:03} %", thousandths / 1000, thousandths % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    /// The end of a record is judged by what is known of the daemon, not by how long ago it was.
    #[test]
    fn an_open_interval_is_judged_by_the_daemon_that_may_be_at_it() {
        let at = |second: i64| Time(second * SECOND);
        let mut account = Account::new(at(0), at(10_000));
        (account.begins, account.ends, account.open) = (Some(at(0)), Some(at(100)), Some(at(100)));
        account.interval_ns = Some(240 * SECOND as u64);
        let judge = |account: &Account, is_written, second| judged(account, is_written, at(second));
        // It runs: however long that takes.
        assert_eq!(judge(&account, Some(true), 300), (at(100), Pending::Interval(false)));
        assert_eq!(judge(&account, Some(true), 400), (at(100), Pending::Interval(true)));
        // There is none: at once.
        assert_eq!(judge(&account, Some(false), 101), (at(101), Pending::ToCome));
        // Nobody knows: until an interval would be over.
        let unknown = Pending::Unknown(at(343));
        assert_eq!(judge(&account, None, 342), (at(100), unknown));
        assert_eq!(judge(&account, None, 343), (at(343), Pending::ToCome));
        // A record of an older version says nothing of how long they are.
        (account.interval_ns, account.longest_ns) = (None, 90 * SECOND);
        assert_eq!(judge(&account, None, 101), (at(100), Pending::Unknown(at(193))));
        assert_eq!(judge(&account, Some(true), 9_000), (at(100), Pending::Interval(false)));
        account.open = None;
        assert_eq!(judge(&account, Some(true), 101), (at(101), Pending::ToCome));
        // The system clock was years ahead once; it is behind what was written last.
        (account.ends, account.last) = (Some(at(9_000)), Some(at(150)));
        assert_eq!(judge(&account, Some(false), 120), (at(150), Pending::ToCome));
        // An interval over which the clock was set says nothing of how long they are.
        (account.open, account.longest_ns) = (Some(at(100)), i64::MAX);
        assert_eq!(judge(&account, None, 200), (at(100), Pending::Unknown(at(3703))));
    }

    #[test]
    fn only_all_is_all() {
        assert_eq!(percent(10, 10), "100.000 %");
        assert_eq!(percent(999_999_999, 1_000_000_000), "99.999 %");
        assert_eq!(percent(0, 0), "0.000 %");
    }

    #[test]
    fn lengths_read_well() {
        assert_eq!(length(1_500_000_000), "1.500 s");
        assert_eq!(length(86_399_999_999_999), "23 h 59 min 59 s");
    }

    #[test]
    fn limits_make_sense() {
        for text in ["0", "0s", "-1us", "1", "us", "100000s", "0.1ns", ""] {
            assert!(limit(text).is_err(), "{text}");
        }
        assert_eq!(limit("100us"), Ok(Span::from_micros(100)));
    }
}
