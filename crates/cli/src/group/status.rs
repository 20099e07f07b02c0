//! `truechimer group status`: how things stand.

use std::io::Write;

use clap::Args;
use truechimer_group_agent::config;

use super::{Place, ask, screen};
use crate::failure::{Ended, Outcome};
use crate::show;

/// Options of `truechimer group status`.
#[derive(Args, Debug)]
#[command(after_help = "\
Counts are this member's, since its agent has started. An offset from UTC is the group's clock - UTC
by the member's own clock, as it last reported; positive: the group's clock is ahead. Messages per
round are the proposals that were delivered for each decided round: 1 is the least, unless
proposals ride on programs' messages.

Columns:
  member    its node; * is the one that was asked
  state     live; joining; away (not connected); suspect (its clock contradicts the majority's,
            and no longer moves the group's clock ahead); observer
  offset    the group's clock - UTC by its clock
  reported  how long ago that was
  won       rounds of which it was the synchronizer

Exit status: 0 all members that were asked are live, 1 some are not, 2 error (no agent, say).")]
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
    Ok(Outcome::of(reports.iter().all(|report| report.phase == "live")))
}
