//! `truechimer group status`: how things stand.

use std::io::Write;

use clap::Args;
use truechimer_group_agent::config;

use super::{Place, ask, screen};
use truechimer_command::show;
use truechimer_command::{Ended, Outcome};

/// Options of `truechimer group status`.
#[derive(Args, Debug)]
#[command(after_help = "\
Counts are this member's, since its agent has started. 'within X of UTC' is how far the group's
clock may be from UTC now, by this member's view of the one and its own clock for the other. An
offset is the group's clock - UTC by a member's clock; positive: the group's clock is ahead.
Messages per round are the proposals that were delivered for each decided round: 1 is the least,
unless proposals ride on programs' messages.

Columns:
  member    its node; * is the one that was asked
  state     live; joining; away (not connected); apart (connected, with other settings or another
            version of the protocol); suspect (its clock contradicts the majority's, and no
            longer moves the group's clock ahead); observer; drained (by an operator);
            live, no program (in the modes semi-active and passive it is a backup then)
  offset    the group's clock - UTC by its clock
  reported  how long ago that was
  won       rounds of which it was the synchronizer

Threads are numbered in hexadecimal; a program's first thread is 10. In JSON the last value's
utc_earliest_ns and utc_latest_ns say where UTC was when the synchronizer read its clocks: not an
interval around the value. error_bound_ns is the greater distance from the value to these.

What is not as it should be is said as 'trouble', with the member and the reason, as far as those
that were asked know; in JSON in troubles, with its kind:
  outside    no majority of the members is connected, or this one is out
  apart      a member has other settings or another version of the protocol, and is not let in
  away       another member is not connected
  stateless  a member lacks the group's state, or its program that of the others
  stalled    nothing is delivered for more than 2 s
  untimed    the group's clock is not tied to UTC, and programs wait
  missed     a program has missed something, and is to be started anew
  diverged   a program gives other answers than a majority, or reads the clock for something else
  blocked    a program has waited for a reading for more than 2 s, or is stuck behind the front
  gone       a program has ended, and those that ran beside it go on
  front      a front has stopped (until it is started anew), is gone, or answers nobody: no majority
             of the programs follows

Exit status: 0 there is no trouble; 1 there is; 2 error (no agent, say).")]
pub struct Options {
    /// Only this group
    #[arg(long, value_name = "NAME", value_parser = config::name)]
    pub group: Option<String>,
    /// Print one JSON object a line for each member of this node; spans are whole nanoseconds
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub place: Place,
}

/// Runs the command.
pub fn run(options: &Options, out: &mut dyn Write) -> Ended {
    let reports = ask::reports(&options.place, options.group.as_deref())?;
    for (index, report) in reports.iter().enumerate() {
        if options.json {
            writeln!(out, "{}", show::json(report)?)?;
            continue;
        }
        if index > 0 {
            writeln!(out)?;
        }
        screen::write(report, out)?;
    }
    Ok(Outcome::of(reports.iter().all(|found| found.troubles.is_empty())))
}
