//! `truechimer group`: one clock for a group of replicas.

mod agent;
mod ask;
mod bench;
mod exec;
mod front;
mod now;
mod screen;
mod shift;
mod status;
mod watch;

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use truechimer_group::{Member, Post};
use truechimer_group_agent::config;
use truechimer_time::Span;

use truechimer_command::Ended;
use truechimer_command::parse::not_negative;

/// Options of `truechimer group`.
#[derive(Args, Debug)]
pub struct Group {
    /// Command to run.
    #[command(subcommand)]
    pub what: What,
}

/// Commands of `truechimer group`.
#[derive(Subcommand, Debug)]
pub enum What {
    /// Make this node a member of groups (in the foreground)
    Agent(agent::Options),
    /// Show how things stand with the groups of this node
    Status(status::Options),
    /// Watch a group: members, synchronizers, offsets, messages
    Watch(watch::Options),
    /// Make a member the primary (modes semi-active and passive)
    Promote(shift::Options),
    /// Put a member behind all others that have a program
    Demote(shift::Options),
    /// Hand over what a member does, so that it can be stopped
    Drain(shift::Options),
    /// Run a program, unmodified, that reads the group's clock
    Exec(exec::Options),
    /// Replicate a program that serves TCP: its requests in one order, one time for each
    Front(front::Options),
    /// Take one reading of a group's clock: the same for all members that take it
    Now(now::Options),
    /// Measure what readings of a group's clock cost here
    Bench(bench::Options),
}

/// Runs the command.
pub fn run(args: Group, out: &mut dyn Write) -> Ended {
    match args.what {
        What::Agent(options) => agent::run(options, out),
        What::Status(options) => status::run(&options, out),
        What::Watch(options) => watch::run(&options, out),
        What::Promote(options) => shift::run(&options, Post::First, out),
        What::Demote(options) => shift::run(&options, Post::Last, out),
        What::Drain(options) => shift::run(&options, Post::Drained, out),
        What::Exec(options) => exec::run(&options, out),
        What::Front(options) => front::run(&options, out),
        What::Now(options) => now::run(&options, out),
        What::Bench(options) => bench::run(&options, out),
    }
}

/// Where the agents are.
#[derive(Args, Clone, Debug)]
pub struct Place {
    /// The directory with the agents' sockets [default: $TRUECHIMER_GROUP_DIR, else
    /// $XDG_RUNTIME_DIR/truechimer/group and /run/truechimer/group]
    #[arg(long, value_name = "DIR", help_heading = "Which agent")]
    pub directory: Option<PathBuf>,
    /// Which member, where this node has several (as with 'group agent --local')
    #[arg(long, value_name = "ID", value_parser = member, help_heading = "Which agent")]
    pub member: Option<Member>,
}

/// Time to wait for an agent that has just been started.
#[derive(Args, Clone, Debug)]
pub struct Wait {
    /// Time to wait for an agent, and for its member to be live, before it is said that there is
    /// none
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = not_negative)]
    #[arg(help_heading = "Which agent")]
    pub wait: Span,
}

impl Wait {
    /// Until when.
    pub fn end(&self) -> Instant {
        let span = Duration::from_nanos(self.wait.as_nanos_i64().max(0) as u64);
        Instant::now() + span
    }
}

fn member(text: &str) -> Result<Member, String> {
    match config::members(text)?.as_slice() {
        [one] => Ok(*one),
        _ => Err("must be one node id".to_owned()),
    }
}
