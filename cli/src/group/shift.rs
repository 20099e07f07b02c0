//! `truechimer group promote`, `demote` and `drain`: where a member stands.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use truechimer_command::{Ended, Failure, Outcome};
use truechimer_group::Member;
use truechimer_group_agent::config;
use truechimer_group_client::{Post, Watcher};

use super::{Place, ask, member};

/// Time that the group's order may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Options of all three.
#[derive(Args, Debug)]
#[command(after_help = "\
The word goes through the group's order, so it takes effect at one place of it, the same at all
members. It reaches them by any agent of the group on this node, of which only its own user and
root may ask that. It holds as long as the member's agent lives (with checkpoints: its program).

  promote  the member is the primary from now on (modes semi-active and passive); it must have a
           program. Ends a drain.
  demote   the member comes after all others that have a program: the next one is the primary.
           Ends a drain.
  drain    the member is the primary only where no other has a program, and a program that starts
           there does not begin: what runs there can be stopped. In the mode active it proposes
           last. A front there goes on: its clients are to be sent elsewhere first.

Exit status: 0 it has taken effect; 2 it has not, and why.")]
pub struct Options {
    /// The group
    #[arg(value_name = "GROUP", value_parser = config::name)]
    pub group: String,
    /// The member [default: that of the agent on this node]
    #[arg(value_name = "MEMBER", value_parser = member)]
    pub whom: Option<Member>,
    /// The directory with the agents' sockets [default: $TRUECHIMER_GROUP_DIR, else
    /// $XDG_RUNTIME_DIR/truechimer/group and /run/truechimer/group]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

/// Runs one of them.
pub fn run(options: &Options, to: Post, out: &mut dyn Write) -> Ended {
    let Options { group, whom, directory } = options;
    let place = Place { directory: directory.clone(), member: None };
    let mut found = ask::find(&place, Some(group))?;
    let whom = match (*whom, found.as_slice()) {
        (Some(member), _) => member,
        (None, [only]) => only.member.ok_or_else(|| Failure::new(group, "no member is here"))?,
        (None, _) => {
            return Err(Failure::new(group, "several members are here: name one"));
        }
    };
    // That member's own agent, if it is here.
    found.sort_by_key(|one| one.member != Some(whom));
    let said = |why: &dyn std::fmt::Display| Failure::Said(why.to_string());
    let first = found.first().ok_or_else(|| Failure::new(group, "no agent is here"))?;
    let mut operator = Watcher::attach(first).map_err(|why| said(&why))?;
    let outcome = operator.shift(whom, to, PATIENCE).map_err(|why| said(&why))?;
    let what = match to {
        Post::First => "promoted",
        Post::Last => "demoted",
        Post::Drained => "drained",
    };
    match outcome {
        Some(Ok(())) => {
            let report = ask::report(first)?;
            let primary = report.first.filter(|_| report.group.mode != "active");
            let primary = primary.map_or_else(String::new, |it| format!("; the primary is {it}"));
            writeln!(out, "member {whom} of {group} is {what}{primary}")?;
            Ok(Outcome::of(true))
        }
        Some(Err(why)) => {
            let text = format!("member {whom} is not {what}: {why}");
            Err(Failure::new(group, text))
        }
        None => Err(Failure::new(
            group,
            "no answer from the group in 10 s: does its ring stand still? \
             `truechimer group status` says more",
        )),
    }
}
