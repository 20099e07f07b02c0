//! A member's report as text, 80 columns wide.

use std::io::{self, Write};

use truechimer_group_agent::{MemberReport, Report};
use truechimer_time::{Rate, Span, Utc};

use crate::show;
use crate::table::{Side, Table};

/// Where the values begin.
const INDENT: &str = "             ";
/// Threads and notices shown.
const FEW: usize = 5;

/// Writes it all.
pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for (name, value) in lines(report) {
        show::wrapped(&format!("{name:<12} {value}"), INDENT, out)?;
    }
    writeln!(out)?;
    members(report).write(out)?;
    threads(report, out)?;
    if !report.notices.is_empty() {
        writeln!(out)?;
    }
    for notice in report.notices.iter().rev().take(FEW) {
        let ago = show::age(Span::from_nanos(notice.age_ns));
        let often = match notice.count {
            1 => format!("{ago} ago"),
            n => format!("{n} times, last {ago} ago"),
        };
        show::wrapped(&format!("{} ({often})", notice.last), "  ", out)?;
    }
    Ok(())
}

fn lines(report: &Report) -> Vec<(&'static str, String)> {
    let group = &report.group;
    let members: Vec<String> = group.members.iter().map(ToString::to_string).collect();
    let rotate = if group.rotate { ", proposing in turn" } else { "" };
    let counts = &report.counts;
    vec![
        (
            "group",
            format!(
                "{}: {}, {}{rotate}; members {}",
                group.name,
                group.mode,
                group.order,
                members.join(" ")
            ),
        ),
        (
            "member",
            format!(
                "{}, {}; {}",
                report.member,
                standing(report),
                match (report.transport.as_str(), report.connected_to_transport) {
                    ("local", true) => "without a ring".to_owned(),
                    (name, true) => format!("by {name}"),
                    (name, false) => format!("not connected to {name}"),
                }
            ),
        ),
        ("clock", clock(report)),
        (
            "rounds",
            format!(
                "{}, {} messages per round{}",
                counts.rounds,
                per_round(report).map_or_else(|| "-".to_owned(), |n| format!("{n:.3}")),
                recent(report)
            ),
        ),
        (
            "messages",
            format!(
                "{} sent; proposals {} sent, {} suppressed, {} duplicates",
                counts.messages_sent, counts.proposals_sent, counts.suppressed, counts.duplicates
            ),
        ),
        ("waiting", waiting(report)),
        ("programs", programs(report)),
        (
            "agent",
            format!(
                "version {}, process {}, up {}",
                report.version,
                report.pid,
                show::age(Span::from_nanos(report.uptime_ns))
            ),
        ),
    ]
}

/// Where the member stands.
pub fn standing(report: &Report) -> String {
    match report.phase.as_str() {
        "outside" => "outside: no majority is connected".to_owned(),
        phase => {
            format!("{phase}, primary component {}, message {}", report.generation, report.index)
        }
    }
}

fn clock(report: &Report) -> String {
    let Some(view) = report.view_ns else {
        return format!("none yet ({})", report.utc);
    };
    let utc = match (report.ahead_of_utc_ns, report.utc_bound_ns) {
        (Some(ahead), Some(bound)) => format!(
            "{:+} from UTC (known to ±{})",
            Span::from_nanos(ahead),
            Span::from_nanos(bound)
        ),
        _ => format!("no UTC here: {}", report.utc),
    };
    let steered = Rate::from_ppb(report.steering_ppb);
    format!("{} by this member's view, {utc}, steered by {steered:+}", time(view))
}

/// Group time as text.
pub fn time(ns: i64) -> String {
    let fraction = ns.rem_euclid(1_000_000_000);
    // Rounded up to the unit of the fraction, so that the nanoseconds come out as they went in.
    let frac = ((i128::from(fraction) << 64) + 999_999_999) / 1_000_000_000;
    let frac = u64::try_from(frac).unwrap_or(u64::MAX);
    show::utc(Utc { unix: ns.div_euclid(1_000_000_000), frac, leap_second: false })
}

/// Proposals that were delivered for each round.
pub fn per_round(report: &Report) -> Option<f64> {
    let counts = &report.counts;
    let delivered = counts.rounds.saturating_add(counts.duplicates);
    (counts.rounds > 0).then(|| delivered as f64 / counts.rounds as f64)
}

/// The synchronizers of the last rounds, the newest last.
fn recent(report: &Report) -> String {
    let last: Vec<String> =
        report.recent_synchronizers.iter().rev().take(16).rev().map(u32::to_string).collect();
    match last.is_empty() {
        true => String::new(),
        false => format!("; last synchronizers {}", last.join(" ")),
    }
}

fn waiting(report: &Report) -> String {
    let waiting = &report.waiting;
    let parts = [
        (waiting.operations, "readings"),
        (waiting.commits, "replies for a majority"),
        (waiting.messages, "messages to be sent"),
        (waiting.causal, "messages from other groups"),
        (waiting.values, "values for threads that are behind"),
        (waiting.disk, "values for the disk"),
    ];
    let some = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}"));
    let some: Vec<String> = some.collect();
    if some.is_empty() { "nothing".to_owned() } else { some.join(", ") }
}

fn programs(report: &Report) -> String {
    let programs = &report.programs;
    let program = if programs.program { "the member's program is here" } else { "none" };
    let gap = if programs.missed { " (has missed something: to be started anew)" } else { "" };
    let mut text = format!("{program}{gap}; {} readings, {} answered", programs.reads, programs.answers);
    for (n, what) in [
        (programs.refused, "attachments refused"),
        (programs.cut_off, "cut off"),
        (programs.reclaimed, "readings of dead processes"),
        (report.counts.unheard, "messages that no program was there for"),
        (report.counts.gaps, "times part of the stream was missed"),
    ] {
        if n > 0 {
            text += &format!(", {n} {what}");
        }
    }
    text
}

/// The members, as a table.
pub fn members(report: &Report) -> Table {
    let mut table = Table::new(&[
        ("member", Side::Left),
        ("state", Side::Left),
        ("offset", Side::Right),
        ("reported", Side::Right),
        ("won", Side::Right),
    ]);
    for member in &report.members {
        let ours = if member.member == report.member { " *" } else { "" };
        table.row(vec![
            format!("{}{ours}", member.member),
            state(member).to_owned(),
            member
                .ahead_of_utc_ns
                .map_or_else(|| "-".to_owned(), |ns| format!("{:+}", Span::from_nanos(ns))),
            member
                .report_age_ns
                .map_or_else(|| "-".to_owned(), |ns| show::age(Span::from_nanos(ns.max(0)))),
            member.won.to_string(),
        ]);
    }
    table
}

fn state(member: &MemberReport) -> &'static str {
    match member {
        MemberReport { connected: false, .. } => "away",
        MemberReport { suspect: true, .. } => "suspect",
        MemberReport { observer: true, live: true, .. } => "observer",
        MemberReport { live: true, .. } => "live",
        _ => "joining",
    }
}

fn threads(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let behind: Vec<_> = report.threads.iter().filter(|thread| thread.surplus > 0).collect();
    if behind.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nthreads that are behind here (of {})", report.thread_count)?;
    for thread in behind.iter().take(FEW) {
        let (number, read) = (&thread.thread, thread.read);
        writeln!(out, "  {number}: {read} of {} rounds read", thread.decided)?;
    }
    if let Some(more) = behind.len().checked_sub(FEW).filter(|more| *more > 0) {
        writeln!(out, "  and {more} more")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_times_are_shown_to_the_nanosecond() {
        for (ns, text) in [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (1_800_000_000_123_456_789, "2027-01-15T08:00:00.123456789Z"),
            (1_800_000_000_999_999_999, "2027-01-15T08:00:00.999999999Z"),
            (1_800_000_000_000_000_001, "2027-01-15T08:00:00.000000001Z"),
            (-1, "1969-12-31T23:59:59.999999999Z"),
        ] {
            assert_eq!(time(ns), text);
        }
    }
}
