//! `truechimer-lab bench group`: cost and survival of the group's clock, on a real Corosync ring
//! in network namespaces.
//!
//! * [`latency`], [`messages`], [`skew`]: the paper's three experiments.
//! * [`read`]: what one reading costs, beside a bare round trip in the same run.
//! * [`sizes`]: groups of three to nine, beside a Raft time oracle in the same run.
//! * [`failover`]: the campaign of fail-overs, what the programs record and the verifier.
//! * [`postgresql`]: a primary and its standby by the group's time, under load.
//! * [`soak`]: rounds and memory over time.
//! * [`drift`]: the group's clock over simulated days.
//! * [`placement`]: which processors the Corosyncs have.
//! * [`bed`], [`service`], [`group_load`], [`wire`]: rings with agents, programs and captures.
//! * [`serve`], [`load`], [`bare`]: what runs at the nodes.

mod args;
mod bare;
pub(crate) mod bed;
mod drift;
mod failover;
mod group_load;
mod latency;
mod load;
mod messages;
mod moment;
mod options;
mod placement;
mod postgresql;
mod read;
mod serve;
mod service;
mod sizes;
mod skew;
mod soak;
mod wire;

use truechimer_outcome::outcome::{Failure, Outcome};
use truechimer_outcome::program::say;

pub use args::BenchGroup;
use args::{Asked, Placed, What};
use bare::Bare;
use options::Options;

/// Runs the command; whether no goal was missed.
///
/// # Errors
/// Where it does not work.
pub fn run(line: &BenchGroup) -> Result<bool, Failure> {
    match &line.what {
        What::Latency(placed) => measure(placed, &[latency::run]),
        What::Messages(placed) => measure(placed, &[messages::run]),
        What::Skew(asked) => show(asked, vec![skew::run(&asked.options()?)?]),
        What::Read(placed) => measure(placed, &[read::run]),
        What::All(placed) => measure(placed, &[latency::run, messages::run, skew::run, read::run]),
        What::Soak(long) => {
            show(&long.asked, vec![soak::run(&long.asked.options()?, &long.wanted)?])
        }
        What::Postgresql(loaded) => {
            let outcome = postgresql::run(&loaded.placed.options()?, &loaded.wanted)?;
            show(&loaded.placed.asked, vec![outcome])
        }
        What::Sizes(sized) => {
            let outcome = sizes::run(&sized.placed.options()?, &sized.wanted)?;
            show(&sized.placed.asked, vec![outcome])
        }
        What::Failover(campaign) => {
            let asked = &campaign.asked;
            show(asked, vec![failover::run(&asked.options()?, &campaign.wanted)?])
        }
        What::Verify { folder } => {
            let verdict = failover::kept::verify(folder)?;
            for violation in &verdict.violations {
                say(&violation.to_string())?;
            }
            say(&format!("{:?}", verdict.tally))?;
            Ok(verdict.violations.is_empty())
        }
        What::Witness(orders) => failover::witness::run(orders).map(|()| true),
        What::Server(orders) => serve::server(orders).map(|()| true),
        What::Client(orders) => serve::client(orders).map(|()| true),
        What::Alone(orders) => serve::alone(orders).map(|()| true),
        What::Listener => Bare::join()?.listen().map(|()| true),
        What::Turns(orders) => sizes::turns::run(orders).map(|()| true),
        What::Oracle(orders) => sizes::oracle::run(orders).map(|()| true),
        What::Load(orders) => load::run(orders).map(|()| true),
    }
}

type Measure = fn(&Options) -> Result<Outcome, Failure>;

fn measure(placed: &Placed, measures: &[Measure]) -> Result<bool, Failure> {
    let options = placed.options()?;
    show(&placed.asked, measures.iter().map(|measure| measure(&options)).collect::<Result<_, _>>()?)
}

fn show(asked: &Asked, outcomes: Vec<Outcome>) -> Result<bool, Failure> {
    for outcome in &outcomes {
        asked.files.print(outcome)?;
    }
    asked.files.finish(args::page(), &outcomes)
}
