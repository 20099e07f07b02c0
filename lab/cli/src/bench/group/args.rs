//! The command line.

use std::path::PathBuf;

use crate::bench::group::failover::witness;
use crate::bench::group::options::Options;
use crate::bench::group::placement::Placement;
use crate::bench::group::{failover, load, postgresql, serve, sizes, soak};
use clap::{Args, Subcommand};
use truechimer_group_client::{Member, Where};
use truechimer_outcome::files::Files;
use truechimer_outcome::outcome::Failure;
use truechimer_outcome::program;
use truechimer_report::Page;
use truechimer_testbed::binary;

/// Options of `truechimer-lab bench group`.
#[derive(Args, Debug)]
#[command(after_help = "\
Corosync is needed, and root or user namespaces; everything happens in namespaces that vanish with
the program. What is compared has its turn in the same run.

Figures by the clock are judged by an interval over the parts of the run that holds the true median
with 95 %, and not at all while a sleeping thread is woken late: the machine is busy then.

Exit status: 0 no goal was missed, 1 one was, 2 error.")]
pub struct BenchGroup {
    /// Measurement to make.
    #[command(subcommand)]
    pub what: What,
}

/// Measurements of `truechimer-lab bench group`.
#[derive(Subcommand, Debug)]
pub enum What {
    /// End to end: a server of three replicas with and without the group's clock
    Latency(Placed),
    /// Messages per round, on the wire and by the agents' count
    Messages(Placed),
    /// Skew and drift: published and steered, on the ring and over simulated days
    Skew(Asked),
    /// One reading beside a bare round trip; riding, leased, in several threads
    Read(Placed),
    /// Groups of 3, 5, 7 and 9 members, beside a Raft time oracle (etcd) of the same size
    Sizes(Sizes),
    /// PostgreSQL's primary and standby by the group's time and by the host's, pgbench at work
    Postgresql(Postgresql),
    /// Rounds and memory over time
    Soak(Soak),
    /// latency, messages, skew and read
    All(Placed),
    /// A campaign of fail-overs, and everything that programs saw of it checked
    Failover(Failover),
    /// Check the records of a campaign again
    Verify {
        /// The folder of one ring's campaign
        folder: PathBuf,
    },
    /// Read all the time (what the other commands start at the nodes)
    #[command(hide = true)]
    Witness(witness::Orders),
    /// Answer requests (what the other commands start at the nodes)
    #[command(hide = true)]
    Server(serve::Orders),
    /// Make requests (what the other commands start at the nodes)
    #[command(hide = true)]
    Client(serve::Orders),
    /// Read and make bare round trips (what the other commands start at the nodes)
    #[command(hide = true)]
    Alone(serve::Orders),
    /// Be there for bare round trips (what the other commands start at the nodes)
    #[command(hide = true)]
    Listener,
    /// Get the time in several ways in turn (what the other commands start at the nodes)
    #[command(hide = true)]
    Turns(sizes::turns::Orders),
    /// Hand out times from memory (what the other commands start at the nodes)
    #[command(hide = true)]
    Oracle(sizes::oracle::Orders),
    /// Read as fast as one may (what the other commands start at the nodes)
    #[command(hide = true)]
    Load(load::Orders),
}

/// Settings of a measurement, and where the figures go.
#[derive(Args, Debug)]
pub struct Asked {
    /// Less of everything: to see that it works, not for figures
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    pub files: Files,
    /// Where random numbers begin: the same seed, the same delays and fail-overs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of operations or fail-overs
    #[arg(short = 'n', long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    count: Option<u32>,
    /// The command truechimer [default: beside this program]
    #[arg(long, value_name = "PATH")]
    truechimer: Option<PathBuf>,
    /// Say nothing on the way
    #[arg(short, long)]
    quiet: bool,
}

/// A measurement for which it matters where things run.
#[derive(Args, Debug)]
pub struct Placed {
    #[command(flatten)]
    pub asked: Asked,
    /// Corosyncs, agents and programs on any processor [default: the Corosyncs have one of their
    /// own, where two may be used]
    #[arg(long)]
    together: bool,
}

/// A soak.
#[derive(Args, Debug)]
pub struct Soak {
    #[command(flatten)]
    pub asked: Asked,
    #[command(flatten)]
    pub wanted: soak::Wanted,
}

/// Groups of several sizes.
#[derive(Args, Debug)]
pub struct Sizes {
    #[command(flatten)]
    pub placed: Placed,
    #[command(flatten)]
    pub wanted: sizes::Wanted,
}

/// A database at work.
#[derive(Args, Debug)]
pub struct Postgresql {
    #[command(flatten)]
    pub placed: Placed,
    #[command(flatten)]
    pub wanted: postgresql::Wanted,
}

/// A campaign.
#[derive(Args, Debug)]
pub struct Failover {
    #[command(flatten)]
    pub asked: Asked,
    #[command(flatten)]
    pub wanted: failover::Wanted,
}

impl Asked {
    /// Turns this into the options of a measurement.
    ///
    /// # Errors
    /// Where the command is not there.
    pub fn options(&self) -> Result<Options, Failure> {
        let truechimer = binary::named_or_found(self.truechimer.as_deref(), "truechimer");
        Ok(Options {
            quick: self.quick,
            truechimer: truechimer.map_err(|lacking| Failure(lacking.0))?,
            seed: self.seed,
            count: self.count.map(|count| count as usize),
            placement: Placement::Together,
            progress: !self.quiet,
        })
    }
}

impl Placed {
    /// Turns this into the options of a measurement.
    ///
    /// # Errors
    /// Where the kernel does not say which processors there are, or the command is not there.
    pub fn options(&self) -> Result<Options, Failure> {
        let placement = if self.together { Placement::Together } else { Placement::apart()? };
        Ok(Options { placement, ..self.asked.options()? })
    }
}

/// The member at which a program runs.
#[derive(Args, Clone, Debug, Default)]
pub struct At {
    /// Where the agents' sockets are
    #[arg(long)]
    directory: PathBuf,
    /// The group
    #[arg(long)]
    group: String,
    /// Which member
    #[arg(long)]
    pub member: u32,
}

impl At {
    /// The arguments that start a program at this place.
    #[must_use]
    pub fn arguments(program: &str, place: &Where) -> Vec<String> {
        let directory = place.directory.clone().unwrap_or_default();
        vec![
            program.to_owned(),
            format!("--directory={}", directory.display()),
            format!("--group={}", place.group),
            format!("--member={}", place.member.map_or(0, |member| member.0)),
        ]
    }

    /// The place, as a client has it.
    #[must_use]
    pub fn place(&self) -> Where {
        Where {
            directory: Some(self.directory.clone()),
            group: self.group.clone(),
            member: Some(Member(self.member)),
        }
    }
}

/// Beginning of the report.
pub fn page() -> Page {
    program::page("The group's clock: what it costs and survives")
}
