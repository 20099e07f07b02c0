//! `truechimer group now`: one agreed reading, for scripts.

use std::io::Write;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use truechimer_group::{Agreed, Call, Member, Rejection, Thread};
use truechimer_group_agent::config;
use truechimer_group_client::link::{ReadError, Role};
use truechimer_group_client::{Options as Attachment, Replica};
use truechimer_time::Span;

use super::{Place, ask, screen};
use crate::args::positive;
use crate::failure::{Ended, Failure, Outcome};
use crate::show;

/// Options of `truechimer group now`.
#[derive(Args, Debug)]
#[command(after_help = "\
The value is agreed on by a round of the group: later than all values that any member has read
before it in the group's order, and the same wherever the same round is read.

With --thread NAME the replicas' scripts share a thread: the first reading of that name on each node
gives one and the same value, so does the second, and so on. A node that is behind gets what the
others have read already. Without, each reading is a new one, and nobody else's.

Example: on each node, in a job that must agree: stamp=$(truechimer group now --group ledger --thread job)

Exit status: 0, 1 no value in time (outside the majority, say), 2 error (no agent, say).")]
pub struct Options {
    /// The group; may be left out if this node has one agent and one group only
    #[arg(long, value_name = "NAME", value_parser = config::name)]
    pub group: Option<String>,
    /// The thread that the replicas' scripts share
    #[arg(long, value_name = "NAME")]
    pub thread: Option<String>,
    /// How long to wait for the value
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = positive)]
    pub timeout: Span,
    /// Print one JSON object; times are whole nanoseconds
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub place: Place,
}

/// Runs the command.
pub fn run(options: &Options, out: &mut dyn Write) -> Ended {
    let found = ask::find(&options.place, options.group.as_deref())?;
    let [place] = found.as_slice() else {
        let all: Vec<String> = found
            .iter()
            .map(|place| match place.member {
                Some(member) => format!("{} of {}", member, place.group),
                None => place.group.clone(),
            })
            .collect();
        return Err(Failure::new(
            "several members are here",
            format!("{}: say which with --group and --member", all.join(", ")),
        ));
    };
    // Beside the program of the member, if there is one: no other's are let in.
    let family = ask::report(place)?.programs.family;
    let family = family.and_then(|text| u64::from_str_radix(&text, 16).ok()).unwrap_or(0);
    let attachment = Attachment { role: Role::Reader, family, ..Attachment::default() };
    let reader =
        Replica::attach_with(place, &attachment).map_err(|why| Failure::Said(why.to_string()))?;
    let member = place.member.unwrap_or(Member(0));
    let thread = thread(options.thread.as_deref(), member);
    let clock = reader.thread(thread);
    let end = Instant::now() + Duration::from_nanos(options.timeout.as_nanos_i64().max(0) as u64);
    let value = loop {
        let patience = end.saturating_duration_since(Instant::now());
        match clock.now(Call::Group, Some(patience)) {
            Ok(value) => break value,
            // Somebody else reads by this name at this moment.
            Err(ReadError::Rejected(Rejection::Busy)) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(ReadError::Late | ReadError::Rejected(Rejection::Outside)) => {
                return no_value(options, &place.group);
            }
            Err(why) => {
                let text = format!("group '{}'", place.group);
                return Err(Failure::new(text, format!("no value: {why}")));
            }
        }
    };
    if options.json {
        writeln!(out, "{}", show::json(&Json::new(&place.group, member, thread, &value))?)?;
    } else {
        writeln!(out, "{}", screen::time(value.time.0))?;
    }
    Ok(Outcome::Good)
}

fn no_value(options: &Options, group: &str) -> Ended {
    let _ = writeln!(
        std::io::stderr(),
        "truechimer: no value of group '{group}' within {}: is a majority of its members connected? \
         'truechimer group status' says",
        options.timeout
    );
    Ok(Outcome::Bad)
}

/// The thread of that name; without one, the member's own.
fn thread(name: Option<&str>, member: Member) -> Thread {
    let text = match name {
        Some(name) => format!("shared {name}"),
        None => format!("own {member}"),
    };
    // FNV-1a: the same on all nodes and in all versions.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // Away from the group's own numbers and a program's first thread.
    Thread(hash | 1 << 63)
}

#[derive(Serialize)]
struct Json<'a> {
    group: &'a str,
    member: u32,
    thread: String,
    time_unix_ns: i64,
    time_utc: String,
    utc_earliest_unix_ns: Option<i64>,
    utc_latest_unix_ns: Option<i64>,
    synchronizer: u32,
    generation: u64,
    index: u64,
}

impl<'a> Json<'a> {
    fn new(group: &'a str, member: Member, thread: Thread, value: &Agreed) -> Json<'a> {
        Json {
            group,
            member: member.0,
            thread: thread.0.to_string(),
            time_unix_ns: value.time.0,
            time_utc: screen::time(value.time.0),
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
        let all = [
            thread(Some("job"), Member(1)),
            thread(Some("jobs"), Member(1)),
            thread(None, Member(1)),
            thread(None, Member(2)),
        ];
        assert_eq!(all[0], thread(Some("job"), Member(2)), "shared by all members");
        for (i, one) in all.iter().enumerate() {
            assert!(one.0 > 1 << 62 && all[..i].iter().all(|other| other != one));
        }
    }
}
