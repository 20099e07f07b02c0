//! `truechimer sources`: the servers that the daemon follows.

mod asymmetry;
mod change;
mod json;
mod ptp;

use std::collections::BTreeMap;
use std::io::{self, Write};

use truechimer_engine::{
    Asymmetry, Authentication, Learnt, Origin, ReasonKind, SourceKind, SourceReport, SourceStatus,
};
use truechimer_time::{Span, StampMethod};

use crate::daemon;
use crate::daemon::Control;
use clap::Args;
use json::Json;
use truechimer_command::clock::Page;
use truechimer_command::show::{age, json, many, optional, plain};
use truechimer_command::table::{Side, Table};
use truechimer_command::{Ended, Outcome};

/// Options of `truechimer sources`.
#[derive(Args, Debug)]
#[command(after_help = "\
Columns:
  S          status: * selected (it leads), + combined (it has a part in the published time),
             - truechimer (it agrees with the majority, and has no part), x falseticker
             (also one that contradicts the server that you have accepted),
             w candidate (others have yet to answer, or no majority agrees), . unselectable
             (noselect, no proof, another name of a server, a leap smear), ? unreachable;
             h: stale, it lives on old samples; !: its newest samples are held off, as its
             time has moved by more than it may.
             Another one is selected once its part is 2.5 times as large
  part       its share in where the published time stands
  st         stratum: the server's distance from a reference clock
  rch        reach: the last eight polls in octal, 377 = a usable reply to all
  last       time since the last reply that was used, or is held off
  offset     published clock - this server's estimate, positive = published is ahead, and the
             bound of that estimate; of one that is held off, by what it says now. While there
             is no clock yet, the server in the middle takes its place, as the last line says
  floor      what the round trip takes at least just now, estimated: single ones may be shorter
Reference clocks stand behind the servers. Below the table stands what is wrong with a source,
if anything is. In the JSON, kind is server, ptp, pulse, phc, shm, sock or vmclock.

Of the JSON, offset_to says what offset_ns is shown against: clock, or that server's name;
retry_ns when a server that refuses service (DENY, RSTR) is asked again, null if it does not.
status is one of the words above; reason says why, null if there is nothing to say:
  kind            unreachable: no-address, no-keys, no-reply, kiss-code, offline (by your word);
                  unselectable: noselect, unauthenticated, same-server, on-trial (of a pool, in
                  place of one that is of no use, once it has answered), leap-smear;
                  candidate: waiting (for other servers), unvouched (by those with proof or
                  trust), no-majority; falseticker: outvoted, overruled (by 'truechimer accept');
                  truechimer: contradicts-selected, rate-differs, outlier (not where most of
                  the others probably are), stale (nothing usable lately).
                  Held off: step-suspected (its time has moved by more than it may),
                  drift-suspected (and moves on), max-step, min-sources, require (none of those
                  that are required says so), majority-pending (of those that say so too few
                  are believed yet), implausible (by the real-time clock, say)
  text            the same for people
  age_ns          for how long
  by_ns           by how much, where known: held off, its time less what was known; of
                  no-majority what lies between it and the nearest of those that it
                  contradicts; else what lies between it and the others
  replies         how many in a row have said so (step-suspected, drift-suspected)
  accepted_in_ns  how much longer it must say so to be believed (those two); null: until it
                  agrees with the others again, or more servers or 'truechimer accept' say so
selection, why and doubt are status and reason in the words of earlier versions.

Exit status: 0, or 2 on an error (no daemon, say).")]
#[command(args_conflicts_with_subcommands = true)]
pub struct Sources {
    /// A change of the sources; without one they are listed
    #[command(subcommand)]
    pub change: Option<change::What>,
    /// Everything about each server: why it has no part, what was refused and why, poll interval,
    /// stamp errors, root distance
    #[arg(short, long)]
    pub verbose: bool,
    /// Show how the two directions of each server's path differ, as far as the clock knows the time
    /// better than that path can tell it; and how to declare it
    #[arg(long, conflicts_with_all = ["verbose", "json"])]
    pub asymmetry: bool,
    /// Print one JSON array; spans are whole nanoseconds
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub page: Page,
    #[command(flatten)]
    pub control: Control,
}

pub use change::key_as_option;
pub use json::{DoubtJson, ReasonJson};

/// Runs the command.
pub fn run(args: &Sources, out: &mut dyn Write) -> Ended {
    if let Some(what) = &args.change {
        return change::run(what, out);
    }
    let sources = daemon::ask(&args.page, &args.control)?.report.sources;
    if args.json {
        let sources: Vec<_> = sources.iter().map(Json::of).collect();
        writeln!(out, "{}", json(&sources)?)?;
    } else if sources.is_empty() {
        writeln!(out, "no servers are configured")?;
    } else if args.asymmetry {
        asymmetry::write(&sources, out)?;
    } else if args.verbose {
        for source in &sources {
            write_detail(source, out)?;
        }
    } else {
        write_table(&sources, out)?;
    }
    Ok(Outcome::Good)
}

/// The sign that stands for a source's status, as chronyc has it where it has one.
fn mark(status: SourceStatus) -> char {
    match status {
        SourceStatus::Selected => '*',
        SourceStatus::Combined => '+',
        SourceStatus::Truechimer => '-',
        SourceStatus::Falseticker => 'x',
        SourceStatus::Candidate => 'w',
        SourceStatus::Unselectable => '.',
        SourceStatus::Unreachable => '?',
    }
}

/// Meaning of the status, where its word alone does not say it.
fn meaning(source: &SourceReport) -> &'static str {
    let smears = source.reason.as_ref().is_some_and(|reason| reason.kind == ReasonKind::LeapSmear);
    match source.status {
        SourceStatus::Selected | SourceStatus::Combined => "",
        SourceStatus::Truechimer => ": agrees with the majority, has no part in the published time",
        SourceStatus::Falseticker => {
            ": is not where a majority agrees, or the one that you have accepted"
        }
        SourceStatus::Candidate => ": nobody can say yet whether it is right",
        SourceStatus::Unselectable if smears => ": has no part in the published time",
        SourceStatus::Unselectable => ": has no vote and no part in the published time",
        SourceStatus::Unreachable => ": nothing usable from it",
    }
}

fn write_table(sources: &[SourceReport], out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new(&[
        ("S", Side::Left),
        ("server", Side::Left),
        ("part", Side::Right),
        ("st", Side::Right),
        ("rch", Side::Right),
        ("last", Side::Right),
        ("offset", Side::Right),
        ("± bound", Side::Right),
        ("floor", Side::Right),
    ]);
    for source in sources {
        table.row(vec![
            marks(source),
            source.name.clone(),
            share(source),
            number(source.stratum),
            format!("{:o}", source.reach),
            source.last_reply.map_or_else(|| "-".into(), age),
            source.offset.map_or_else(|| "-".into(), |offset| format!("{offset:+}")),
            optional(source.bound.map(Span::rounded_up)),
            optional(source.rtt_floor),
        ]);
    }
    table.write(out)?;
    // A server that gives nothing says why.
    for source in sources {
        if let Some(trouble) = trouble(source) {
            writeln!(out, "{}: {trouble}", source.name)?;
        }
        if let Some(remark) = stamped_by_hand(source) {
            writeln!(out, "{}: {remark}", source.name)?;
        }
    }
    writeln!(out, "* selected  + combined  - truechimer, no part  x falseticker  w candidate")?;
    writeln!(out, ". unselectable  ? unreachable  h stale  ! newest samples held off")?;
    writeln!(out, "offset: {} (-v says why)", reference(sources))
}

/// Clock that the offsets are shown against.
fn reference(sources: &[SourceReport]) -> String {
    match sources.iter().find_map(|source| source.offset_to.as_ref()) {
        Some(name) => format!("{name}'s (in the middle) - the server's: no clock yet"),
        None => "our clock's - the server's".into(),
    }
}

/// Status of the source, and whether its estimate is stale or its newest samples are held off.
fn marks(source: &SourceReport) -> String {
    let more = match source.holdover {
        _ if source.is_held_off() => "!",
        true => "h",
        false => "",
    };
    format!("{}{more}", mark(source.status))
}

/// Share of the source in the published time.
fn share(source: &SourceReport) -> String {
    match source.weight {
        // That of what was known before.
        _ if source.is_held_off() => "-".into(),
        Some(weight) if weight <= 0.0 => "0%".into(),
        Some(weight) if weight < 0.005 => "<1%".into(),
        Some(weight) if weight >= 0.995 && !is_all(weight) => ">99%".into(),
        Some(weight) => format!("{:.0}%", 100.0 * weight),
        None => "-".into(),
    }
}

/// True if that share is the whole.
fn is_all(weight: f64) -> bool {
    weight > 1.0 - 1e-9
}

/// Effect of its share.
fn by_it(source: &SourceReport) -> String {
    if source.is_held_off() {
        return String::new();
    }
    match (source.status, source.weight) {
        (SourceStatus::Selected, None) => ": the published time is by this one alone".into(),
        (SourceStatus::Selected, Some(weight)) if is_all(weight) => {
            ": the published time is by this one alone".into()
        }
        (SourceStatus::Selected, Some(_)) => format!(
            ": {} of where the published time stands is by it; another is selected once its share \
             is 2.5 times as large",
            share(source)
        ),
        (_, Some(weight)) if weight <= 0.0 => {
            ": the published time is by others alone; how it differs from them is learnt".into()
        }
        (_, Some(_)) => format!(": {} of where the published time stands is by it", share(source)),
        (_, None) => String::new(),
    }
}

/// Status of the source in words, with the reason if there is one.
fn status(source: &SourceReport) -> String {
    let why = source.reason.as_ref().map(|reason| plain(&reason.text));
    let (marks, name) = (marks(source), source.status.name());
    if source.is_held_off() && source.status == SourceStatus::Selected {
        return format!("{marks} {name} by what was known before ({})", why.unwrap_or_default());
    }
    let stale = if source.holdover { "; stale" } else { "" };
    // Why nothing usable comes says that nothing does; a request that was refused says more.
    if source.status == SourceStatus::Unreachable
        && let Some(why) = told_as_status(source).or_else(|| why.clone())
    {
        return format!("{marks} {name}: {why}{stale}");
    }
    let by_it = by_it(source);
    let why = why.map_or_else(String::new, |why| format!(" ({why})"));
    format!("{marks} {name}{}{by_it}{why}{stale}", meaning(source))
}

/// The trouble that its status tells, as the reason would only say that nothing has come.
fn told_as_status(source: &SourceReport) -> Option<String> {
    let mute = source.reason.as_ref().is_some_and(|reason| reason.kind == ReasonKind::NoReply);
    trouble(source).filter(|_| mute && source.status == SourceStatus::Unreachable)
}

/// That the kernel did not stamp its packets, if so: it costs accuracy.
fn stamped_by_hand(source: &SourceReport) -> Option<String> {
    let by_hand = |method| method == Some(StampMethod::User);
    let what = match (by_hand(source.sent_method), by_hand(source.received_method)) {
        (false, false) => return None,
        (true, false) => "requests",
        (false, true) => "replies",
        (true, true) => "packets",
    };
    Some(format!("{what} are stamped in user space, as the kernel does not"))
}

/// Trouble of a source, if it has any.
fn trouble(source: &SourceReport) -> Option<String> {
    match (&source.trouble, source.status) {
        (Some(trouble), _) => Some(plain(trouble)),
        (None, SourceStatus::Unselectable | SourceStatus::Candidate) => {
            source.reason.as_ref().map(|reason| plain(&reason.text))
        }
        (None, SourceStatus::Unreachable) if !source.refused.is_empty() => {
            Some(format!("refused: {}", refusals(&source.refused)))
        }
        (None, SourceStatus::Unreachable) if source.timeouts > 0 => Some(match source.kind {
            SourceKind::Server | SourceKind::Ptp => {
                format!("no answer to {}", many(source.timeouts, "request", "requests"))
            }
            SourceKind::Pulse => format!("{} missed", many(source.timeouts, "edge", "edges")),
            _ => format!("{} missed", many(source.timeouts, "sample", "samples")),
        }),
        _ => None,
    }
}

fn write_detail(source: &SourceReport, out: &mut dyn Write) -> io::Result<()> {
    let address = match source.address {
        _ if source.kind.is_refclock() => what(source).into(),
        Some(address) => address.to_string(),
        None => "no address yet".into(),
    };
    writeln!(out, "{} ({address})", source.name)?;
    let last = source.last_reply.map_or_else(|| "never".into(), |span| age(span) + " ago");
    let offset = match (source.offset, source.bound.map(Span::rounded_up), &source.offset_to) {
        (Some(offset), Some(bound), None) => format!("{offset:+} ± {bound}"),
        (Some(_), Some(bound), Some(name)) if *name == source.name => {
            format!("the others' are shown against it; ± {bound}")
        }
        (Some(offset), Some(bound), Some(name)) => {
            format!("{offset:+} ± {bound}, of {name}, as there is no clock")
        }
        _ => "-".into(),
    };
    let stamps = match source.stamp_errors {
        Some((sent, received)) => {
            format!("{}, sent to ± {sent}, received to ± {received}", stamps(source))
        }
        None => stamps(source),
    };
    if source.kind.is_refclock() {
        return write_refclock(source, &last, &offset, out);
    }
    let named = match (source.pool.as_deref(), source.origin) {
        (None, Origin::Configuration) => None,
        (pool, origin) => {
            let of = pool.map(|pool| format!("of the pool {}", plain(pool)));
            let by = match origin {
                Origin::Configuration => None,
                Origin::SourceDir => Some("named by a file in source-dir".to_owned()),
                Origin::RunTime => Some("added at run time, until the daemon ends".to_owned()),
            };
            Some(of.into_iter().chain(by).collect::<Vec<_>>().join("; "))
        }
    };
    let mut lines = vec![
        ("status", status(source)),
        ("server", server(source)),
        ("replies", format!("last {last}; poll {} s, reach {:o}", source.poll, source.reach)),
        (
            "offset",
            format!("{offset} ({}deviation {})", likely(source), optional(source.deviation)),
        ),
        ("skew", source.skew.map_or_else(|| "-".into(), |skew| format!("counter {skew:+}"))),
        (
            "round trip",
            format!("{}, estimated floor {}", optional(source.rtt), optional(source.rtt_floor)),
        ),
        ("stamps", stamps),
        (
            "counted",
            format!(
                "{}, {} accepted, {}",
                many(source.requests, "request", "requests"),
                source.accepted,
                many(source.timeouts, "timeout", "timeouts")
            ),
        ),
        ("refused", refusals(&source.refused)),
    ];
    let proof = match source.authentication {
        Authentication::None => None,
        Authentication::Nts => Some(match &source.aead {
            Some(aead) => format!("NTS ({})", plain(aead)),
            None => "NTS".to_owned(),
        }),
        Authentication::Key(number) => Some(format!("key {number}")),
    };
    lines.extend(named.map(|named| ("named", named)));
    if let Some(proof) = proof {
        let left = match source.cookies {
            Some(1) => "; 1 cookie left".to_owned(),
            Some(left) => format!("; {left} cookies left"),
            None => String::new(),
        };
        let text = format!("by {proof}: replies without proof of who made them are not used{left}");
        lines.push(("proven", text));
    }
    if !source.vote && source.status != SourceStatus::Unselectable {
        let what = if source.kind.is_refclock() {
            "none: it narrows what those that have one leave open"
        } else {
            "none: it places the time within what those with proof or trust leave open"
        };
        lines.push(("vote", what.into()));
    }
    lines.extend(ptp::lines(source));
    if let Some(Asymmetry { by, error }) = source.asymmetry {
        lines
            .push(("asymmetry", format!("{by:+} ± {error}, as declared or learnt (there − back)")));
    }
    if let Some(learnt) = &source.learnt {
        let Learnt { asymmetry: Asymmetry { by, error }, exchanges } = learnt;
        lines.push(("learnt", format!("asymmetry {by:+} ± {error} by {exchanges} exchanges")));
    }
    if let (Some(trouble), None) = (trouble(source), told_as_status(source)) {
        lines.push(("trouble", trouble));
    }
    for (name, text) in lines {
        writeln!(out, "  {name:<11} {text}")?;
    }
    Ok(())
}

/// Likely error of its estimate, if that is less than its bound.
fn likely(source: &SourceReport) -> String {
    source.likely.map_or_else(String::new, |likely| format!("likely ± {}, ", likely.rounded_up()))
}

/// Name of a kind of reference clock, for people.
fn what(source: &SourceReport) -> &'static str {
    match source.kind {
        SourceKind::Server => "server",
        SourceKind::Ptp => "PTP port",
        SourceKind::Pulse => "pulse per second",
        SourceKind::Phc => "PTP hardware clock",
        SourceKind::Shm => "shared memory",
        SourceKind::Sock => "socket",
        SourceKind::Vmclock => "hypervisor",
    }
}

/// The rest of a reference clock.
fn write_refclock(
    source: &SourceReport,
    last: &str,
    offset: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    let stamped = source.received_method.map_or("-", StampMethod::name);
    let stamp_error = source.stamp_errors.map(|(_, stamp)| stamp);
    let pulse = source.kind == SourceKind::Pulse;
    let (sample, samples) = if pulse { ("edge", "edges") } else { ("sample", "samples") };
    let error = optional(if pulse { source.rtt } else { source.root_distance });
    let own = match source.kind {
        SourceKind::Pulse => ("latency", format!("{error} at most, as configured")),
        _ => (
            "own error",
            format!("{error} at most; {}", source.reference.as_deref().unwrap_or("-")),
        ),
    };
    let mut lines = vec![
        ("status", status(source)),
        (samples, format!("last {last}; reach {:o}; every {} s", source.reach, source.poll)),
        (
            "offset",
            format!("{offset} ({}deviation {})", likely(source), optional(source.deviation)),
        ),
        ("skew", source.skew.map_or_else(|| "-".into(), |skew| format!("counter {skew:+}"))),
        own,
        ("stamps", format!("{stamped}, to ± {}", optional(stamp_error))),
        (
            "counted",
            format!(
                "{}, {} accepted, {} missed",
                many(source.requests, sample, samples),
                source.accepted,
                source.timeouts
            ),
        ),
        ("refused", refusals(&source.refused)),
    ];
    if let (Some(trouble), None) = (trouble(source), told_as_status(source)) {
        lines.push(("trouble", trouble));
    }
    for (name, text) in lines {
        writeln!(out, "  {name:<11} {text}")?;
    }
    Ok(())
}

/// Words of the server about itself.
fn server(source: &SourceReport) -> String {
    let leap = match source.leap {
        Some(0) => "no leap second",
        Some(1) => "leap second to insert",
        Some(2) => "leap second to leave out",
        Some(_) => "unsynchronised",
        None => return "has not answered yet".into(),
    };
    let mode = if source.interleaved { ", interleaved mode" } else { "" };
    format!(
        "stratum {}, reference {}, root distance {}, {leap}{mode}",
        number(source.stratum),
        source.reference.as_deref().unwrap_or("-"),
        optional(source.root_distance),
    )
}

/// Methods by which packets were stamped, sent and received.
fn stamps(source: &SourceReport) -> String {
    let name = |method: Option<StampMethod>| method.map_or("-", StampMethod::name);
    format!("{}/{}", name(source.sent_method), name(source.received_method))
}

fn number(n: Option<u8>) -> String {
    n.map_or_else(|| "-".into(), |n| n.to_string())
}

fn refusals(refused: &BTreeMap<String, u64>) -> String {
    let parts: Vec<_> = refused.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
    if parts.is_empty() { "none".into() } else { parts.join(", ") }
}

#[cfg(test)]
pub mod tests;
