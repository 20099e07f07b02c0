//! Oscillators, paths, servers and faults, all seeded, around the very engine that the daemon runs.
//!
//! * A [`Scenario`] is a world: an [`oscillator`], a [`host`], [`server`]s and a [`path`] to each. The [`catalogue`] has those by name,
//!   files have others, and [`drawn`] draws path-days from ranges.
//! * [`world`] lets it run and shows every clock the same packets; [`figures`] and [`coverage`](Coverage) sum up what came out.
//! * [`wrong`] has lone servers that lie, [`attack`] attackers of many kinds.
//! * [`stamps`] writes and [`replay`] repeats files of exchanges.
//!
//! Runs of one seed are alike, to the last bit. Not here: real packets and real time (`truechimer-testbed`), and the commands
//! (`truechimer-lab`).
#![forbid(unsafe_code)]

pub mod attack;
pub mod case;
mod catalogue;
mod conditions;
mod coverage;
pub mod direct;
pub mod drawn;
pub mod figures;
pub mod host;
mod limits;
mod lines;
pub mod omniscient;
pub mod oscillator;
pub mod outage;
pub mod path;
pub mod pps;
pub mod random;
pub mod replay;
pub mod scenario;
pub mod server;
pub mod stamps;
pub mod sync;
pub mod system_clock;
pub mod told;
pub mod width;
pub mod world;
pub mod wrong;

pub use catalogue::{UnknownScenario, catalogue, find};
pub use coverage::{AtDoubt, Coverage, DOUBTS};
pub use host::HostSpec;
pub use oscillator::{Oscillator, OscillatorSpec};
pub use path::{DelayError, Passage, Path, PathSpec, parse_delays};
pub use pps::PpsSpec;
pub use random::Random;
pub use scenario::{Scenario, ScenarioError};
pub use server::{AddressSpec, ServerSpec};
pub use stamps::{Reference, Stamped, write_stamps};
pub use system_clock::SystemClockSpec;
pub use told::told;
pub use truechimer_trace::{Exchanged, Interval, Noted, Sample, Statistics, SystemSample, Trace};
pub use world::{Marked, Options, Planned, PollPlan, Run, simulate, simulate_alike};

/// The guide for estimators, whose example is tested.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/use/estimators.md")]
pub struct Guide;
