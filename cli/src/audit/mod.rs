//! `truechimer audit`: how well the clock was known over a day or any other span of time, from the
//! record that the daemon keeps.

mod csv;
mod json;
mod page;
mod screen;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use truechimer_audit::{Account, Chain, Hash, Time, parse_time};
use truechimer_command::{Ended, Failure, Outcome, output, parse, program, show};
use truechimer_time::Span;

/// Directory of the record in the packaged configuration.
const RECORD: &str = "/var/lib/truechimer/audit";
/// The record's end may lag behind now by so much without a gap: two intervals as packaged.
const LAG_NS: i64 = 120_000_000_000;
const DAY_NS: i64 = 86_400_000_000_000;

/// Words that every report has.
const MEANING: &str = "The chain shows that a line was changed, removed or put in later, unless \
    whoever did it made all hashes after it anew, which takes no more than the right to write these \
    files: the record is not signed. Keep the last hash elsewhere: as long as --verify --hash finds \
    it, all before it is as it was.";

/// Options of `truechimer audit`.
#[derive(Args, Debug)]
#[command(after_help = "\
The daemon keeps the record if 'directory' stands under [audit] in its configuration. Without a
span of time the report is of the last 24 hours of the record. Times are UTC. A bound is the worst
of its interval (a minute unless configured), and an interval counts as within a limit only if its
worst bound was. The one that is not over is not in the record yet. Time of which the record says
nothing (no daemon, a full disk) is time without a bound.

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
    /// Print a row for each interval, as comma-separated values with a header
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Write a report to FILE: one page with plots, to read or to print
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
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
    /// Begin of the interval that is not over, if the report reaches so far.
    unfinished: Option<Time>,
    limits_ns: Vec<u64>,
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
    if let Some(path) = &args.html {
        output::ready(path)?;
    }
    let asked = args.asked()?;
    let (mut account, chain) = match asked {
        Some((from, to)) => {
            let mut account = Account::new(from, to);
            let take = &mut |line| account.take(line);
            let chain = truechimer_audit::read(folder, args.hash.as_ref(), take);
            (account, chain.map_err(unreadable)?)
        }
        None => {
            // First its end, then the day before it.
            let mut whole = Account::new(Time(i64::MIN), Time(i64::MAX));
            let take = &mut |line| whole.take(line);
            truechimer_audit::read(folder, None, take).map_err(unreadable)?;
            let (from, to) = args.default_span(&whole)?;
            let mut account = Account::new(from, to);
            let take = &mut |line| account.take(line);
            let chain = truechimer_audit::read(folder, args.hash.as_ref(), take);
            (account, chain.map_err(unreadable)?)
        }
    };
    // An interval that is not over yet is no gap.
    let now = now();
    let last = account.covers.unwrap_or(account.from);
    let is_fresh = asked.is_none() || now.0.saturating_sub(last.0) <= LAG_NS;
    if account.to > last && account.ends.is_none_or(|ends| account.to >= ends) && is_fresh {
        account.to = last;
    } else {
        account.to = account.to.min(now.max(last));
    }
    let unfinished = unfinished(&account, now).filter(|begin| *begin == account.to);
    if account.to <= account.from {
        let text = format!(
            "the record says nothing yet of the time from {} on: an interval is in it when it is over \
             (after a minute unless configured)",
            account.from
        );
        return Err(Failure::Said(text));
    }
    let limits_ns = args.limit.iter().map(|limit| limit.as_nanos_i64().unsigned_abs()).collect();
    let report = Report { args, account: &account, chain: &chain, unfinished, limits_ns };
    if args.json {
        writeln!(out, "{}", show::json(&json::Json::of(&report))?)?;
    } else if args.csv {
        csv::rows(&report, out)?;
    } else {
        screen::report(&report, out)?;
    }
    if let Some(path) = &args.html {
        output::save_report(path, &page::page(&report, &program::line()))?;
    }
    Ok(Outcome::of(chain.is_whole()))
}

/// Begin of the interval that a daemon is at: of the last one's end, unless the daemon ended since or
/// has not been heard of for two of its intervals.
fn unfinished(account: &Account, now: Time) -> Option<Time> {
    let longest = account.pieces().map(|piece| piece.length_ns()).max().unwrap_or(0);
    let lag = longest.saturating_mul(2).max(LAG_NS);
    let begin = account.covers.or(account.begins).filter(|_| !account.is_ended)?;
    (0..=lag).contains(&now.0.saturating_sub(begin.0)).then_some(begin)
}

/// Now, as far as the system clock knows.
fn now() -> Time {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Time(since.ok().and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(i64::MAX))
}

impl Audit {
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

    /// To the end of the record: from where it was asked, or a day.
    fn default_span(&self, whole: &Account) -> Result<(Time, Time), Failure> {
        let some = whole.begins.zip(whole.ends);
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

/// A time to the millisecond.
fn at(time: Time) -> String {
    let text = time.to_string();
    text.get(..23).map_or(text.clone(), |text| format!("{text}Z"))
}

/// A span of ns, ≥ 0, in the unit that fits.
fn short(ns: u64) -> String {
    show::nanos(ns)
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
