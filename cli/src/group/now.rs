//! `truechimer group now`: one agreed reading, for scripts.

use std::io::Write;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use truechimer_group::{Agreed, Call, Member, Rejection, Thread};
use truechimer_group_agent::{Report, config};
use truechimer_group_client::link::{ReadError, Refused, Role, Together, WhyRefused};
use truechimer_group_client::{AttachError, Closed, Options as Attachment, Replica, Where};
use truechimer_time::Span;

use super::{Place, Wait, ask, screen};
use truechimer_command::parse::positive;
use truechimer_command::show;
use truechimer_command::{Ended, Failure, Outcome};

/// Options of `truechimer group now`.
#[derive(Args, Debug)]
#[command(after_help = "\
It prints TIME ± X: the group's time, and how far the group's clock may be from UTC, as the member
whose proposal it was read its clocks. The value is agreed on by a round of the group: later than
all values that any member has read before it in the group's order, and the same wherever the same
round is read. Before the group's clock is tied to UTC there is no value, unless the agent was
started with --without-utc.

With --thread NAME the replicas' scripts share a thread: the first reading of that name on each
node gives one and the same value, so does the second, and so on. A node that is behind gets what
the others have read already. Without, it is the time at present: the value is kept for no other
node, and is later than what any such reading gave that had ended before, at whichever member (not
in a group with the order published, where a member's times do not follow another's).

With --json, error_bound_ns is X. utc_earliest_unix_ns and utc_latest_unix_ns say where UTC was at
the synchronizer's reading: not an interval around time_unix_ns, which may lie outside, as the
group's clock is steered and does not go back.

Example: on each node, in a job that must agree:
  stamp=$(truechimer group now --json --group ledger --thread job)

Exit status: 0, 1 no value in time (outside the majority, say), 2 error (no agent, say).")]
pub struct Options {
    /// The group; may be left out if this node has one agent and one group only
    #[arg(long, value_name = "NAME", value_parser = config::name)]
    pub group: Option<String>,
    /// The thread that the replicas' scripts share
    #[arg(long, value_name = "NAME")]
    pub thread: Option<String>,
    /// Time to wait for the value
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = positive)]
    pub timeout: Span,
    /// Print one JSON object; times are whole nanoseconds
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub wait: Wait,
}

/// Runs the command.
pub fn run(options: &Options, out: &mut dyn Write) -> Ended {
    let place = &ask::one_awaited(&options.place, options.group.as_deref(), options.wait.end())?;
    let end = Instant::now() + Duration::from_nanos(options.timeout.as_nanos_i64().max(0) as u64);
    let role = if options.thread.is_some() { Role::Reader } else { Role::Passing };
    let (report, mut reader) = attach(place, role, end)?;
    let member = place.member.unwrap_or(Member(0));
    let thread = thread(options.thread.as_deref(), member, &report.group.members)?;
    let value = loop {
        let clock = reader.thread(thread);
        let patience = end.saturating_duration_since(Instant::now());
        match clock.now(Call::Group, Some(patience)) {
            Ok(value) => break value,
            // Somebody else reads by this name at this moment.
            Err(ReadError::Rejected(Rejection::Busy)) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(1));
            }
            // A program has come: this goes on beside it.
            Err(ReadError::Gone) if reader.closed() == Some(Closed::GaveWay) => {
                (_, reader) = attach(place, role, end)?;
            }
            Err(ReadError::Late | ReadError::Rejected(Rejection::Outside)) => {
                return no_value(options, place);
            }
            Err(why) => {
                let text = format!("group '{}'", place.group);
                return Err(Failure::new(text, format!("no value: {why}")));
            }
        }
    };
    if options.json {
        writeln!(
            out,
            "{}",
            show::json(&Json::new(
                &place.group,
                member,
                (thread, options.thread.as_deref()),
                &value
            ))?
        )?;
    } else {
        let bound = match value.error_bound() {
            Some(ns) => format!("± {}", screen::at_most(ns)),
            None => "(its distance from UTC is not known)".to_owned(),
        };
        writeln!(out, "{} {bound}", screen::time(value.time.0))?;
    }
    Ok(Outcome::Good)
}

/// Attaches beside the program of the member, if there is one: no other's are let in. That may come
/// or go meanwhile, as another reading like this one does.
fn attach(place: &Where, role: Role, end: Instant) -> Result<(Report, Replica), Failure> {
    loop {
        let report = ask::report(place)?;
        let family = report.programs.family.clone();
        let family = family.and_then(|text| u64::from_str_radix(&text, 16).ok()).unwrap_or(0);
        let attachment =
            Attachment { role, family, together: Together::Apart, ..Attachment::default() };
        match Replica::attach_with(place, &attachment) {
            Ok(reader) => return Ok((report, reader)),
            Err(AttachError::Refused {
                why: Refused::ByAgent { why: WhyRefused::Taken, .. },
                ..
            }) if Instant::now() < end => std::thread::sleep(Duration::from_millis(1)),
            Err(why) => return Err(Failure::Said(why.to_string())),
        }
    }
}

fn no_value(options: &Options, place: &Where) -> Ended {
    let group = &place.group;
    let why = match ask::report(place) {
        Ok(report) => screen::unwell(&report),
        Err(_) => "its agent does not answer".to_owned(),
    };
    let _ = writeln!(
        std::io::stderr(),
        "truechimer: no value of group '{group}' within {}: {}",
        options.timeout,
        show::plain(&why)
    );
    Ok(Outcome::Bad)
}

/// The thread of that name; without one, the member's alone.
fn thread(name: Option<&str>, member: Member, members: &[u32]) -> Result<Thread, Failure> {
    let place = members.iter().position(|one| *one == member.0);
    match (name, place.and_then(|index| u8::try_from(index).ok())) {
        (Some(name), _) => Ok(ask::thread(&format!("shared {name}"))),
        (None, Some(index)) => Ok(Thread::now(index, 0)),
        (None, None) => Err(Failure::Said(format!(
            "node {member} is an observer: it takes no part in the rounds that readings are"
        ))),
    }
}

#[derive(Serialize)]
struct Json<'a> {
    group: &'a str,
    member: u32,
    /// In hexadecimal.
    thread: String,
    thread_name: Option<&'a str>,
    time_unix_ns: i64,
    time_utc: String,
    error_bound_ns: Option<i64>,
    utc_earliest_unix_ns: Option<i64>,
    utc_latest_unix_ns: Option<i64>,
    synchronizer: u32,
    generation: u64,
    index: u64,
}

impl<'a> Json<'a> {
    fn new(
        group: &'a str,
        member: Member,
        (thread, thread_name): (Thread, Option<&'a str>),
        value: &Agreed,
    ) -> Json<'a> {
        Json {
            group,
            member: member.0,
            thread: thread.to_string(),
            thread_name,
            time_unix_ns: value.time.0,
            time_utc: screen::time(value.time.0),
            error_bound_ns: value.error_bound(),
            utc_earliest_unix_ns: value.utc.map(|bound| bound.earliest),
            utc_latest_unix_ns: value.utc.map(|bound| bound.latest),
            synchronizer: value.synchronizer.0,
            generation: value.point.generation,
            index: value.point.index,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_threads_and_no_name_is_the_members_own() {
        let thread = |name, member| thread(name, Member(member), &[1, 2]).unwrap();
        let all =
            [thread(Some("job"), 1), thread(Some("jobs"), 1), thread(None, 1), thread(None, 2)];
        assert_eq!(all[0], thread(Some("job"), 2), "shared by all members");
        for (i, one) in all.iter().enumerate() {
            assert!(one.0 > 1 << 62 && all[..i].iter().all(|other| other != one));
        }
    }
}
