//! The command line.

use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use truechimer_outcome::files::Files;
use truechimer_outcome::program;
use truechimer_report::Page;
use truechimer_testbed::binary;
use truechimer_testbed::relay::{self, Path};

use crate::bench::capture::generator::Order;
use crate::bench::capture::options::{Options, Part};
use crate::bench::capture::peers;
use crate::bench::capture::trial::Stage;
use truechimer_outcome::outcome::Failure;
use truechimer_outcome::stats::{show_rate, show_share};

/// Options of `truechimer-lab bench capture`.
#[derive(Args, Debug)]
#[command(after_help = "\
Root is needed, for BPF and network namespaces; all traffic stays in namespaces that vanish with
the program. Everything that is compared has its turn in every round.

Figures by the clock are judged by an interval over the rounds that holds the true median with
95 %, which takes six; where it does not say, nothing is judged.

Exit status: 0 no goal was missed, 1 one was, 2 error.")]
pub struct BenchCapture {
    /// Measurement to make.
    #[command(subcommand)]
    pub what: What,
}

/// Measurements of `truechimer-lab bench capture`.
#[derive(Subcommand, Debug)]
pub enum What {
    /// Cost of a stamp in the kernel, and how that varies
    Overhead(Asked),
    /// The kernel's time against the raw count, by size and gap of packets
    Crossed(Asked),
    /// Precision of each kind of stamp at a constant rate
    Arrival(Asked),
    /// Loss, rate and jitter beside tcpdump, dumpcap and netsniff-ng
    Rate(Asked),
    /// A thread for conversion against conversion inline
    Conversion(Asked),
    /// One-way delays against a path of known delay
    Accuracy(Asked),
    /// All of that
    All(Asked),
    /// One trial of one program, to look into it
    Once(Once),
    /// Make frames (what the other commands start in their namespaces)
    #[command(hide = true)]
    Generate(Order),
    /// Hold datagrams up (what the other commands start in their namespaces)
    #[command(hide = true)]
    Relay(Relay),
}

/// A relay of datagrams.
#[derive(Args, Debug)]
pub struct Relay {
    listen: SocketAddr,
    to: SocketAddr,
    there: Path,
    back: Path,
}

impl Relay {
    /// Runs until a socket fails.
    ///
    /// # Errors
    /// When that happens.
    pub fn run(&self) -> Result<(), Failure> {
        let failed = |error| Failure::of(format!("relaying from {}", self.listen), error);
        let relay = relay::Relay {
            socket: UdpSocket::bind(self.listen).map_err(failed)?,
            server: self.to,
            there: self.there,
            back: self.back,
            seed: 1,
        };
        relay.run().map_err(failed)
    }
}

/// Measurement to make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    Overhead,
    Crossed,
    Arrival,
    Rate,
    Conversion,
    Accuracy,
}

impl Measure {
    /// In the order in which they make most sense.
    pub const ALL: [Measure; 6] = [
        Measure::Overhead,
        Measure::Crossed,
        Measure::Arrival,
        Measure::Rate,
        Measure::Conversion,
        Measure::Accuracy,
    ];
}

/// Settings of a measurement, and where the figures go.
#[derive(Args, Debug)]
pub struct Asked {
    /// Fewer sizes, rounds and packets: to see that it works, not for figures
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    pub files: Files,
    /// Number of times that everything is repeated
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// Frame sizes, bytes without the frame check sequence
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u16).range(60..=1514))]
    sizes: Vec<u16>,
    /// Only programs whose names contain one of these
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    only: Vec<String>,
    /// Only these parts of the rates
    #[arg(long, value_name = "PART,...", value_delimiter = ',', value_enum)]
    parts: Vec<Part>,
    /// The command truechimer [default: beside this program]
    #[arg(long, value_name = "PATH")]
    truechimer: Option<PathBuf>,
    /// Say nothing on the way
    #[arg(short, long)]
    quiet: bool,
}

impl Asked {
    /// Turns this into the options of a measurement.
    ///
    /// # Errors
    /// Where the command is not there.
    pub fn options(&self) -> Result<Options, Failure> {
        Ok(Options {
            quick: self.quick,
            truechimer: command(self.truechimer.as_deref())?,
            rounds: self.rounds.map(usize::from),
            sizes: self.sizes.iter().copied().map(usize::from).collect(),
            only: self.only.clone(),
            parts: self.parts.clone(),
            progress: !self.quiet,
        })
    }
}

/// The command truechimer: this one, or that beside this program.
fn command(named: Option<&std::path::Path>) -> Result<PathBuf, Failure> {
    binary::named_or_found(named, "truechimer").map_err(|lacking| Failure(lacking.0))
}

/// Beginning of the report.
pub fn page() -> Page {
    program::page("Packet capture: cost, loss, rate and accuracy")
}

/// One trial.
#[derive(Args, Debug)]
pub struct Once {
    /// The program, by its name in the tables
    tool: String,
    #[command(flatten)]
    order: Order,
    /// Number of trials, one after the other
    #[arg(long, default_value_t = 1)]
    times: u32,
    /// The command truechimer [default: beside this program]
    #[arg(long, value_name = "PATH")]
    truechimer: Option<PathBuf>,
}

impl Once {
    /// Runs it and says what came of it.
    ///
    /// # Errors
    /// Where there is no such program, or it does not work.
    pub fn run(&self) -> Result<(), Failure> {
        let tools = peers::all();
        let tool = tools.iter().find(|tool| tool.name == self.tool).ok_or_else(|| {
            let names: Vec<&str> = tools.iter().map(|tool| tool.name).collect();
            Failure(format!("no program `{}`; there are: {}", self.tool, names.join(", ")))
        })?;
        let truechimer = command(self.truechimer.as_deref())?;
        let stage = Stage::new(1, &truechimer)?;
        for _ in 0..self.times {
            let trial = stage.trial(tool, &self.order, false)?;
            println!(
                "sent {} at {}, held up {} times; captured {}, lost {} ({}), disordered {}; its \
                 own word: {:?}\n{:?}\n{}",
                trial.sent.frames,
                show_rate(trial.sent.rate()),
                trial.sent.held_up,
                trial.captured,
                trial.lost(),
                show_share(trial.loss()),
                trial.disordered,
                trial.own_word,
                trial.threads,
                trial.said.trim()
            );
        }
        Ok(())
    }
}
