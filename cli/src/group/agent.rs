//! `truechimer group agent`: a member of groups, in the foreground.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use truechimer_group::{Member, Mode, Order};
use truechimer_group_agent::config::{self, Carrier, Membership, UtcSource};
use truechimer_group_agent::{Level, Service, Settings, run as run_agent};

use truechimer_command::log::{self, Priority};
use truechimer_command::{Ended, Failure, Outcome};
use truechimer_command::{parse, show, signals};

/// Words of --mode.
const MODES: [&str; 3] = ["active", "semi-active", "passive"];
/// Words of --order.
const ORDERS: [&str; 2] = ["monotone", "published"];

/// Options of `truechimer group agent`.
#[derive(Args, Debug)]
#[command(after_help = "\
Quick start without a ring, as any user:
  truechimer group agent --group demo --local 3 --system-clock 1s
  truechimer group watch --group demo

On each node of a Corosync ring:
  truechimer group agent --group ledger
  truechimer group agent              with the groups of /etc/truechimer-group.toml

Members, mode, order, rotate, steering, horizon, lease and causal horizon must be the same on all
nodes, or they do not let each other in. All other options are each node's own.

Programs on this node reach the agent by DIRECTORY/GROUP/ID.sock: this user and root may. UTC comes
from a Truechimer clock page as soon as there is one; without it, this member follows the others'.
Where no member knows UTC, programs' readings and messages wait, unless --without-utc is given. With
--order published the clock is never tied to UTC.

The floor of each group's clock is kept in the state directory, so that the clock does not go back
even if all members die: $STATE_DIRECTORY, or /var/lib/truechimer/group for root, or
$XDG_STATE_HOME/truechimer/group (~/.local/state/truechimer/group).

Signals: TERM and INT leave all groups and end the agent.

Exit status: 0 ended by a signal, or --check found nothing that keeps it from starting, 2 error.")]
pub struct Options {
    /// The group to take part in
    #[arg(long, value_name = "NAME", value_parser = config::name)]
    pub group: Option<String>,
    /// Read the configuration from FILE, with any number of groups (options for the node as a whole
    /// come on top) [default: $TRUECHIMER_GROUP_CONFIG; else, unless there is a --group,
    /// /etc/truechimer-group.toml if that is there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub own: Own,
    #[command(flatten)]
    pub node: Node,
    /// Check the configuration, say what is wrong with it, and end
    #[arg(long)]
    pub check: bool,
    /// Say more about what is going on
    #[arg(short, long)]
    pub verbose: bool,
}

/// Settings that must be the same on all nodes.
#[derive(Args, Debug)]
#[command(next_help_heading = "The group, the same on all nodes")]
pub struct Common {
    /// All members that there can be: more than half of them must be connected [default: the ring's
    /// node list]
    #[arg(long, value_name = "ID,…", value_parser = members, requires = "group")]
    pub members: Option<Members>,
    /// Division of the work among the replicas: active, semi-active or passive [default: active]
    #[arg(long, value_name = "MODE", requires = "group")]
    #[arg(value_parser = parse::one_of(MODES, config::mode), hide_possible_values = true)]
    pub mode: Option<Mode>,
    /// Order of the values that are made of proposals: monotone for the whole group, or as
    /// published, for each thread only [default: monotone]
    #[arg(long, value_name = "ORDER", requires = "group")]
    #[arg(value_parser = parse::one_of(ORDERS, config::order), hide_possible_values = true)]
    pub order: Option<Order>,
    /// Let the order in which members propose go round with the rounds
    #[arg(long, requires = "group")]
    pub rotate: bool,
    /// The fastest that the group's clock is steered [default: 500]
    #[arg(long, value_name = "PPM", value_parser = config::steering_cap, requires = "group")]
    pub steering_cap_ppm: Option<u32>,
    /// In which time steering takes away an offset [default: 8s]
    #[arg(long, value_name = "SPAN", value_parser = config::steering_time, requires = "group")]
    pub steering_time: Option<u64>,
    /// Limit of how far ahead of the members' reports a proposal may be [default: 5s]
    #[arg(long, value_name = "SPAN", value_parser = config::horizon, requires = "group")]
    pub horizon: Option<u64>,
    /// Time that a message reserves for further readings while it is processed [default: 1us]
    #[arg(long, value_name = "SPAN", value_parser = config::lease, requires = "group")]
    pub lease: Option<u64>,
    /// Limit of how far ahead another group's message may be stamped [default: 10s]
    #[arg(long, value_name = "SPAN", value_parser = config::causal_horizon, requires = "group")]
    pub causal_horizon: Option<u64>,
}

/// Settings that each member chooses for itself.
#[derive(Args, Debug)]
#[command(next_help_heading = "This member")]
pub struct Own {
    /// No ring: N members, all of them in this agent; for development and tests
    #[arg(long, value_name = "N", requires = "group")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64))]
    pub local: Option<u32>,
    /// Time that each further replica waits with its proposal [default: 400us]
    #[arg(long, value_name = "SPAN", value_parser = config::stagger, requires = "group")]
    pub stagger: Option<u64>,
    /// Time that a program that starts here waits for those of the other live members, unless it
    /// says with how many it starts ('exec --together') [default: 1s]
    #[arg(long, value_name = "SPAN", value_parser = config::gather, requires = "group")]
    pub gather: Option<u64>,
    /// The least time between two reports of this member's clock [default: 1s]
    #[arg(long, value_name = "SPAN", value_parser = config::report_interval, requires = "group")]
    pub report_interval: Option<u64>,
    /// Programs here give and take checkpoints: a member takes part while its program is there
    #[arg(long, requires = "group")]
    pub checkpoints: bool,
    /// Give programs times even while neither the group's clock nor this member's is tied to UTC:
    /// such a clock begins anywhere, as in 1970. Otherwise they wait
    #[arg(long, requires = "group")]
    pub without_utc: bool,
}

/// Settings of the agent as a whole.
#[derive(Args, Debug)]
#[command(next_help_heading = "This node")]
pub struct Node {
    /// Where programs find the agent [default: $TRUECHIMER_GROUP_DIR, else /run/truechimer/group
    /// for root, $XDG_RUNTIME_DIR/truechimer/group for others]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Where the floors of the groups' clocks are kept; or none
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// The clock page to take UTC from, or none [default: $TRUECHIMER_PAGE, else
    /// $XDG_RUNTIME_DIR/truechimer/clock or /run/truechimer/clock]
    #[arg(long, value_name = "PATH")]
    pub page: Option<PathBuf>,
    /// Take UTC from the system clock, which is never farther than BOUND from it
    #[arg(long, value_name = "BOUND", value_parser = config::system_clock)]
    #[arg(conflicts_with = "page")]
    pub system_clock: Option<u64>,
    /// Real-time priority of the agent, 1 to 99
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "10")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=99))]
    pub realtime: Option<u8>,
    /// Serve metrics for Prometheus at ADDR, as 127.0.0.1:9926, or at PATH, a Unix socket
    #[arg(long, value_name = "ADDR|PATH")]
    pub metrics: Option<config::Listen>,
}

/// List of members that clap takes for one value.
#[derive(Clone, Debug)]
pub struct Members(Vec<Member>);

fn members(text: &str) -> Result<Members, String> {
    config::members(text).map(Members)
}

impl Options {
    /// Wishes of the command line, and the configuration file.
    fn wishes(&self) -> config::Options {
        let utc = match (&self.node.page, self.node.system_clock) {
            (_, Some(ns)) => {
                Some(UtcSource::SystemClock { bound_ns: i64::try_from(ns).unwrap_or(i64::MAX) })
            }
            (Some(page), None) if page.as_os_str() == "none" => Some(UtcSource::None),
            (Some(page), None) => Some(UtcSource::Page(Some(page.clone()))),
            (None, None) => None,
        };
        let mut options = config::Options {
            config: self.config.clone(),
            group: self.group.as_deref().map(|name| self.membership(name)),
            directory: self.node.directory.clone(),
            state: self.node.state.clone(),
            utc,
            real_time: self.node.realtime,
            metrics: self.node.metrics.clone(),
        };
        options.find_config();
        options
    }

    fn membership(&self, name: &str) -> Membership {
        let mut made = Membership::new(name);
        let Common {
            members,
            mode,
            order,
            rotate,
            steering_cap_ppm,
            steering_time,
            horizon,
            lease,
            causal_horizon,
        } = &self.common;
        let group = &mut made.group;
        group.rotate = *rotate;
        set(&mut group.universe, &members.as_ref().map(|members| members.0.clone()));
        set(&mut group.mode, mode);
        set(&mut group.order, order);
        set(&mut group.steering_cap_ppb, steering_cap_ppm);
        set(&mut group.steering_time_ns, steering_time);
        set(&mut group.horizon_ns, horizon);
        set(&mut group.lease_ns, lease);
        set(&mut group.causal_horizon_ns, causal_horizon);
        let Own { local, stagger, gather, report_interval, checkpoints, without_utc } = &self.own;
        set(&mut made.stagger_ns, stagger);
        set(&mut made.gather_ns, gather);
        set(&mut made.report_ns, report_interval);
        made.checkpoints = *checkpoints;
        made.without_utc = *without_utc;
        match local {
            Some(count) => made.local(*count),
            None => made,
        }
    }
}

fn set<T: Clone>(place: &mut T, given: &Option<T>) {
    if let Some(value) = given {
        place.clone_from(value);
    }
}

/// Runs the command.
pub fn run(options: Options, out: &mut dyn Write) -> Ended {
    let wishes = options.wishes();
    let settings = wishes.settings().map_err(|why| Failure::Said(why.to_string()))?;
    if options.check {
        let file = wishes.config.map(|path| format!(" {}", path.display())).unwrap_or_default();
        writeln!(out, "the configuration{} is good: {}", show::plain(&file), described(&settings))?;
        return Ok(Outcome::Good);
    }
    let stop = signals::stop()?;
    let least = if options.verbose { Level::Debug } else { Level::Info };
    let say = |level: Level, text: &str| {
        let (priority, name) = match level {
            _ if level < least => return,
            Level::Debug => (Priority::Debug, "debug"),
            Level::Info => (Priority::Info, "info"),
            Level::Warning => (Priority::Warning, "warning"),
        };
        log::say(priority, &format!("truechimer: {name}: {text}"));
    };
    // As with the daemon.
    let mut read = wishes.config.as_ref().map(|path| format!("configuration {}", path.display()));
    let mut note = |level: Level, text: &str| {
        log::begin();
        if let Some(read) = read.take() {
            say(Level::Info, &read);
        }
        say(level, text);
    };
    let mut service = Service::of_environment();
    run_agent(&settings, &stop, &mut service, &mut note)
        .map_err(|why| Failure::Said(why.to_string()))?;
    Ok(Outcome::Good)
}

fn described(settings: &Settings) -> String {
    let one = |membership: &Membership| {
        let Membership { group, carrier, .. } = membership;
        let members: Vec<String> = group.universe.iter().map(ToString::to_string).collect();
        let members = match members.is_empty() {
            true => "the ring's nodes".to_owned(),
            false => members.join(","),
        };
        let carrier = match carrier {
            Carrier::Corosync => "by Corosync",
            Carrier::Local(_) => "without a ring",
        };
        format!("group '{}' of {members} {carrier}", group.name)
    };
    settings.groups.iter().map(one).collect::<Vec<_>>().join("; ")
}
