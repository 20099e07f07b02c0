//! A member's report as text, 80 columns wide.

use std::collections::BTreeMap;
use std::io::{self, Write};

use truechimer_group_agent::{MemberReport, ProcessReport, Report};
use truechimer_group_front::{FrontReport, State};
use truechimer_time::{Span, Utc};

use super::ask::Found;
use truechimer_command::show::{self, many};
use truechimer_command::table::{Side, Table};

/// Where the values begin.
const INDENT: &str = "             ";
/// Threads and notices shown.
const FEW: usize = 5;

/// Writes it all.
pub fn write(found: &Found, out: &mut dyn Write) -> io::Result<()> {
    let report = &found.report;
    let mut lines = lines(report);
    if let Some(front) = &found.front {
        lines.push(("front", self::front(front)));
    }
    for trouble in &found.troubles {
        lines.push(("trouble", format!("member {}: {}", trouble.member, trouble.why)));
    }
    for (name, value) in lines {
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
        let over = notice.kind == "transport" && report.connected_to_transport;
        let before = if over { "before it was connected: " } else { "" };
        show::wrapped(&format!("{before}{} ({often})", notice.last), "  ", out)?;
    }
    Ok(())
}

fn lines(report: &Report) -> Vec<(&'static str, String)> {
    let group = &report.group;
    let members: Vec<String> = group.members.iter().map(ToString::to_string).collect();
    let rotate = if group.rotate { ", proposing in turn" } else { "" };
    let counts = &report.counts;
    let mut lines = vec![
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
                "{}{}{}",
                counts.rounds,
                per_round(report).map_or_else(String::new, |n| format!(", {n:.2} messages each")),
                recent(report)
            ),
        ),
        (
            "messages",
            format!(
                "{} sent; proposals: {} sent, {} suppressed, {}",
                counts.messages_sent,
                counts.proposals_sent,
                counts.suppressed,
                many(counts.duplicates, "duplicate", "duplicates")
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
    ];
    if let Some(primary) = report.first.filter(|_| report.group.mode != "active") {
        let why = report.handover.as_ref().filter(|handover| handover.to == primary);
        let why = why.map_or_else(String::new, |handover| {
            let ago = show::age(Span::from_nanos(handover.ago_ns));
            format!(" since {ago}: {}", handover.why)
        });
        lines.insert(2, ("primary", format!("member {primary}{why}")));
    }
    if report.phase == "live" && !report.timed {
        lines.insert(3, ("time", UNTIMED.to_owned()));
    }
    lines
}

/// Advice where there is no UTC.
const UNTIMED: &str = "none for programs: they wait, as the group's clock is not tied to UTC. Run \
    `truechimer run` on the nodes, or start the agents with --system-clock BOUND (or, for a clock \
    without UTC, with --without-utc)";

/// Reason why a member's readings get no value.
pub fn unwell(report: &Report) -> String {
    match report.stalled_ns {
        _ if report.phase != "live" => format!("this member is {}", standing(report)),
        Some(_) => format!("this member is {}", standing(report)),
        None if !report.timed => format!("time: {UNTIMED}"),
        None => report.why_blocked(),
    }
}

/// A span to three significant digits, in the unit that fits: `9 ns`, `1.23 ms`, `-45.6 s`.
pub fn short(ns: i64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1, "ns"), (1_000, "µs"), (1_000_000, "ms"), (1_000_000_000, "s")];
    let sign = if ns < 0 { "-" } else { "" };
    let size = ns.unsigned_abs();
    if size == 0 {
        return "0 s".to_owned();
    }
    for (index, (unit, name)) in UNITS.iter().enumerate() {
        let number = digits(size as f64 / *unit as f64);
        // What is rounded up to a thousand is one of the next unit.
        if (index == UNITS.len() - 1) || number.parse().is_ok_and(|number: f64| number < 1000.0) {
            return format!("{sign}{number} {name}");
        }
    }
    String::new()
}

/// Three significant digits, or all of those before the point.
fn digits(number: f64) -> String {
    let decimals = match number {
        _ if number < 9.995 => 2,
        _ if number < 99.95 => 1,
        _ => 0,
    };
    let text = format!("{number:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A bound to three significant digits, rounded up: it holds as it is shown.
pub fn at_most(ns: i64) -> String {
    let size = ns.unsigned_abs();
    let step = 10_u64.pow(size.checked_ilog10().unwrap_or(0).saturating_sub(2));
    let up = size.div_ceil(step).saturating_mul(step);
    short(i64::try_from(up).unwrap_or(i64::MAX))
}

/// Shows it with a sign.
pub fn signed(ns: i64) -> String {
    if ns > 0 { format!("+{}", short(ns)) } else { short(ns) }
}

/// A steering rate, ppm.
pub fn rate(ppb: i64) -> String {
    let text = digits(ppb.unsigned_abs() as f64 / 1000.0);
    let sign = match ppb {
        _ if text == "0" => "",
        1.. => "+",
        _ => "-",
    };
    format!("{sign}{text} ppm")
}

/// Where the member stands.
pub fn standing(report: &Report) -> String {
    match (report.phase.as_str(), report.standing()) {
        (phase, Some((_, why))) if phase != "live" => format!("{phase}: {why}"),
        (phase, _) => {
            let stalled = report.stalled_ns.map_or_else(String::new, |ns| {
                let for_ = show::age(Span::from_nanos(ns));
                format!(", but stalled: nothing delivered for {for_} (does Corosync hang?)")
            });
            format!(
                "{phase}{stalled}, primary component {}, message {}",
                report.generation, report.index
            )
        }
    }
}

fn clock(report: &Report) -> String {
    let Some(view) = report.view_ns else {
        return format!("none yet ({})", report.utc);
    };
    let utc = match (report.error_bound_ns, report.ahead_of_utc_ns) {
        (Some(bound), Some(ahead)) => {
            format!("within {} of UTC (offset {})", at_most(bound), signed(ahead))
        }
        _ => format!("no UTC here: {}", report.utc),
    };
    let steered = rate(report.steering_ppb);
    format!("{} by this member's view, {utc}, steered by {steered}", time(view))
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

/// Number of the last rounds that each member was the synchronizer of.
fn recent(report: &Report) -> String {
    let last: Vec<u32> = report.recent_synchronizers.iter().rev().take(16).copied().collect();
    let mut counts = BTreeMap::new();
    last.iter().for_each(|member| *counts.entry(*member).or_insert(0_usize) += 1);
    let each: Vec<String> =
        counts.iter().map(|(member, n)| format!("{member}: {n} of {}", last.len())).collect();
    match each.is_empty() {
        true => String::new(),
        false => format!("; last synchronizers {}", each.join(", ")),
    }
}

fn waiting(report: &Report) -> String {
    let waiting = &report.waiting;
    let parts = [
        (waiting.operations, "reading", "readings"),
        (waiting.commits, "reply for a majority", "replies for a majority"),
        (waiting.messages, "message to be sent", "messages to be sent"),
        (waiting.causal, "message from another group", "messages from other groups"),
        (waiting.values, "value for a thread that is behind", "values for threads that are behind"),
        (waiting.disk, "value for the disk", "values for the disk"),
    ];
    let some = parts.iter().filter(|(n, ..)| *n > 0);
    let some: Vec<String> = some.map(|(n, one, more)| many(*n as u64, one, more)).collect();
    if some.is_empty() { "nothing".to_owned() } else { some.join(", ") }
}

fn programs(report: &Report) -> String {
    let programs = &report.programs;
    let mut here: Vec<String> = programs.processes.iter().map(process).collect();
    if here.is_empty() {
        here.push("none".to_owned());
    }
    let mut text = here.join(", ");
    text += match programs.began.as_str() {
        "waits" => " (waits for those of other members to start)",
        "late" => " (began while others were running)",
        _ => "",
    };
    if programs.missed {
        text += " (has missed something: to be started anew)";
    }
    text += &format!(
        "; {} so far, {} answered",
        many(programs.reads, "reading", "readings"),
        programs.answers
    );
    for (n, one, more) in [
        (programs.refused, "attachment refused", "attachments refused"),
        (programs.cut_off, "cut off", "cut off"),
        (programs.reclaimed, "reading of a dead process", "readings of dead processes"),
        (
            report.counts.unheard,
            "message that no program was there for",
            "messages that no program was there for",
        ),
    ] {
        if n > 0 {
            text += &format!(", {}", many(n, one, more));
        }
    }
    if report.counts.gaps > 0 {
        text +=
            &format!(", part of the stream missed {}", many(report.counts.gaps, "time", "times"));
    }
    text
}

fn front(front: &FrontReport) -> String {
    let FrontReport { pid, state, replicas, following, count, done, reads, .. } = front;
    let state = match state {
        State::Outside => "not in",
        State::Answering => "answers clients",
        State::Waiting => "answers nobody",
        State::Stopped => "has stopped",
    };
    let mut text = format!(
        "process {pid}, {state}; {following} of {replicas} replicas' programs follow; the one here \
         has dealt with {done} of {count} openings, requests and ends"
    );
    if *reads > 0 {
        text += &format!(", and with {} beside the order", many(*reads, "request", "requests"));
    }
    text
}

fn process(process: &ProcessReport) -> String {
    let ProcessReport { pid, name, messages, reads } = process;
    let who = match (*pid, name.is_empty()) {
        (0, _) => "a process that cannot be seen from here".to_owned(),
        (pid, true) => format!("process {pid}"),
        (pid, false) => format!("{name} ({pid})"),
    };
    let messages = if *messages { ", the group's messages" } else { "" };
    format!("{who}: {}{messages}", many(*reads, "reading", "readings"))
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
            state(member, report.group.mode != "active").to_owned(),
            member.ahead_of_utc_ns.map_or_else(|| "-".to_owned(), signed),
            member
                .report_age_ns
                .map_or_else(|| "-".to_owned(), |ns| show::age(Span::from_nanos(ns.max(0)))),
            member.won.to_string(),
        ]);
    }
    table
}

fn state(member: &MemberReport, leads: bool) -> &'static str {
    match member {
        MemberReport { connected: false, .. } => "away",
        MemberReport { apart: Some(_), .. } => "apart",
        MemberReport { suspect: true, .. } => "suspect",
        MemberReport { observer: true, live: true, .. } => "observer",
        MemberReport { live: true, fenced: true, .. } => "live, fenced",
        MemberReport { live: true, drained: true, .. } => "drained",
        MemberReport { live: true, program: false, .. } if leads => "live, no program",
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
        writeln!(out, "  thread {number}: {read} of {} rounds read", thread.decided)?;
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
    fn three_digits_are_enough() {
        for (ns, text) in [
            (0, "0 s"),
            (-9, "-9 ns"),
            (999, "999 ns"),
            (1_234, "1.23 µs"),
            (45_678, "45.7 µs"),
            (999_960, "1 ms"),
            (-50_000_000, "-50 ms"),
            (12_345_678_900, "12.3 s"),
            (1_800_000_000_000_000_000, "1800000000 s"),
            (i64::MIN, "-9223372037 s"),
        ] {
            assert_eq!(short(ns), text);
        }
        assert_eq!([at_most(50_000_001), at_most(999_001)], ["50.1 ms", "1 ms"]);
        assert_eq!([at_most(0), at_most(7), at_most(1_000)], ["0 s", "7 ns", "1 µs"]);
        assert_eq!([signed(7), signed(-7), signed(0)], ["+7 ns", "-7 ns", "0 s"]);
        assert_eq!([rate(0), rate(-1_234), rate(500_000)], ["0 ppm", "-1.23 ppm", "+500 ppm"]);
        assert_eq!(rate(-1), "0 ppm");
        assert_eq!([many(1, "day", "days"), many(0, "day", "days")], ["1 day", "0 days"]);
    }

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
