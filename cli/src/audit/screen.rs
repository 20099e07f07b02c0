//! The report as text.

use std::io::{self, Write};

use truechimer_audit::Chain;
use truechimer_command::show::{self, many};
use truechimer_command::table::{Side, Table};
use truechimer_report::Unit;

use super::{MEANING, Report, at, length, percent, short};

/// Headings of stretches without a record: of lines that do not fit, or not.
const GAPS: [(bool, &str); 2] = [
    (false, "No record (no daemon, one that was killed or stood still, or it could not write)"),
    (true, "Broken (lines there do not fit the chain: what they say is left out; see below)"),
];

/// The whole report.
pub fn report(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let account = report.account;
    let all = account.judged_ns();
    line(out, "from", &at(account.from))?;
    line(out, "to", &format!("{} ({})", at(account.to), length(account.length_ns())))?;
    if account.judged() < account.to {
        let (end, share) = (at(account.judged()), percent(all, account.length_ns()));
        let text = format!("to {end}: {}, {share} of the span; shares are of that", length(all));
        line(out, "judged", &text)?;
    }
    if let Some(pending) = report.pending {
        line(out, "not yet", &pending.text(account.judged()))?;
    }
    if let Some(silent) = report.silent {
        line(out, "silent", &silent.text())?;
    }
    let begins = account.begins.map_or_else(String::new, |time| format!(", from {} on", at(time)));
    line(out, "record", &format!("{}{begins}", report.args.record.display()))?;
    let (recorded, bounded) = (account.recorded_ns(), account.bounded_ns());
    line(out, "with a bound", &format!("{} ({})", length(bounded), percent(bounded, all)))?;
    line(out, "without one", &length(recorded - bounded))?;
    let broken = account.broken_ns();
    line(out, "no record", &length(all - recorded - broken))?;
    if report.chain.fault_count > 0 {
        let text = "of lines that do not fit the chain, and are left out of all sums";
        line(out, "broken", &format!("{} {text}", length(broken)))?;
    }
    match account.worst() {
        None if report.pending.is_some() => line(out, "bound", "none held so far")?,
        None => line(out, "bound", "none held at any time")?,
        Some(worst) => {
            let bound = worst.bound_ns.map_or_else(String::new, short);
            line(out, "worst bound", &format!("{bound}, until {}", at(worst.to)))?;
            let of = |percent| account.percentile_ns(percent).map_or_else(String::new, short);
            let text = format!("half of the time, {} for 95 %, {} for 99 %", of(95), of(99));
            line(out, "bound", &format!("at most {} for {text}", of(50)))?;
        }
    }
    if !report.limits_ns.is_empty() {
        let mut table = Table::new(&[
            ("limit", Side::Right),
            ("within it", Side::Right),
            ("beyond it", Side::Right),
            ("share within", Side::Right),
        ]);
        for share in account.shares(&report.limits_ns) {
            table.row(vec![
                short(share.limit_ns),
                length(share.within_ns),
                length(all - share.within_ns),
                percent(share.within_ns, all),
            ]);
        }
        headed("Limits (beyond: a wider bound, none, or no record)", &table, out)?;
    }
    let mut table =
        Table::new(&[("status", Side::Left), ("time", Side::Right), ("share", Side::Right)]);
    for (status, ns) in account.by_status() {
        table.row(vec![status.into(), length(ns), percent(ns, all)]);
    }
    headed("Status", &table, out)?;
    for (is_broken, title) in GAPS {
        let mut gaps = account.gaps();
        gaps.retain(|gap| gap.is_broken == is_broken);
        if gaps.is_empty() {
            continue;
        }
        let mut table =
            Table::new(&[("from", Side::Left), ("to", Side::Left), ("time", Side::Right)]);
        for gap in gaps {
            table.row(vec![at(gap.from), at(gap.to), length(gap.length_ns())]);
        }
        headed(title, &table, out)?;
    }
    sources(report, out)?;
    if !account.events().is_empty() {
        writeln!(out, "\nEvents (UTC; ~: by the system clock, as no bound held)")?;
        for event in account.events() {
            let by = if event.by_system_clock { "~" } else { " " };
            let lines: Vec<&str> = event.text.lines().map(str::trim).collect();
            let text = show::plain(&lines.join(" "));
            writeln!(out, "{by}{}  {:<13}  {text}", at(event.at), event.kind.name())?;
        }
    }
    writeln!(out)?;
    chain(report.chain, out)?;
    show::wrapped(MEANING, "", out)
}

/// Sources and where their time comes from.
fn sources(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let account = report.account;
    let selected = account.by_source();
    if !selected.is_empty() {
        let mut table = Table::new(&[
            ("selected source", Side::Left),
            ("time", Side::Right),
            ("share", Side::Right),
            ("root distance", Side::Right),
        ]);
        for (source, (ns, distance)) in selected {
            let distance = distance.map_or_else(|| "-".into(), |ns| format!("≤ {}", short(ns)));
            table.row(vec![source.into(), length(ns), percent(ns, account.judged_ns()), distance]);
        }
        headed("Selected", &table, out)?;
    }
    let seen = account.sources();
    if seen.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&[
        ("source", Side::Left),
        ("address", Side::Left),
        ("stratum", Side::Right),
        ("refid", Side::Left),
        ("root distance", Side::Right),
        ("from", Side::Left),
        ("to", Side::Left),
        ("time", Side::Right),
        ("status, and for how long", Side::Left),
    ]);
    for seen in seen {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        table.row(vec![
            seen.name,
            or_dash(seen.address),
            or_dash(seen.stratum.map(|stratum| stratum.to_string())),
            or_dash(seen.reference),
            or_dash(seen.root_distance_ns.map(|ns| format!("≤ {}", short(ns)))),
            at(seen.first),
            at(seen.last),
            length(seen.time_ns),
            super::statuses(&seen.statuses),
        ]);
    }
    headed("Sources, as they were seen", &table, out)
}

/// Findings on the chain.
pub fn chain(chain: &Chain, out: &mut dyn Write) -> io::Result<()> {
    let size = Unit::Bytes.show(chain.bytes as f64, 3);
    let lines = many(chain.lines, "line", "lines");
    let files = format!("{lines} in {}, {size}", many(chain.files, "file", "files"));
    if chain.fault_count == 0 {
        line(out, "chain", &format!("whole: {files}"))?;
    } else {
        let places = many(chain.fault_count, "place", "places");
        line(out, "chain", &format!("BROKEN at {places}: {files}"))?;
        for fault in &chain.faults {
            line(out, "", &fault.to_string())?;
        }
    }
    if chain.first_file > 1 {
        let text =
            format!("with file {}: older ones were removed, as they are when", chain.first_file);
        line(out, "begins", &format!("{text} the record is full"))?;
    }
    for torn in &chain.torn {
        let told = if torn.is_told {
            "a crash or a full disk; the daemon said so when it went on"
        } else {
            "a crash, a full disk, or the daemon is writing it just now"
        };
        let place = format!("{}:{}", torn.file, torn.line);
        line(out, "cut off", &format!("{place}, after {} bytes: {told}", torn.bytes))?;
    }
    match chain.contains {
        Some(true) => line(out, "hash", "found: nothing before it was changed since")?,
        Some(false) if chain.is_after_fault => line(
            out,
            "hash",
            "NOT PROVEN: it stands at or after a place that does not fit, and what is before that may \
             be made up",
        )?,
        Some(false) if chain.is_named => line(
            out,
            "hash",
            "NOT FOUND: the oldest file says that it was the last one before it, which proves \
             nothing of what is left",
        )?,
        Some(false) => line(
            out,
            "hash",
            "NOT FOUND: it was removed as the record was full, or the record was written anew",
        )?,
        None => {}
    }
    line(out, "last hash", &chain.last.to_string())
}

fn line(out: &mut dyn Write, name: &str, text: &str) -> io::Result<()> {
    writeln!(out, "{name:<13} {text}")
}

fn headed(title: &str, table: &Table, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{title}")?;
    table.write(out)
}
