//! The agent that makes a node a member of groups: one thread and one `poll(2)` loop around the
//! engines of its groups.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use truechimer_group_agent::config::{Membership, Options};
//! use truechimer_group_agent::{Service, run};
//!
//! // Three members without a ring, all of them here: for development.
//! let group = Membership::new("ledger").local(3);
//! let options = Options { group: Some(group), ..Options::default() };
//! // Set by a signal handler or by another thread.
//! let stop = AtomicBool::new(false);
//! let mut service = Service::none();
//! run(&options.settings()?, &stop, &mut service, &mut |level, text| eprintln!("{level:?}: {text}"))?;
//! # Ok::<(), truechimer_group_agent::AgentError>(())
//! ```
//!
//! * [`config`]: what an agent is told, by a file or by options.
//! * [`run`], [`Agent`]: the agent. It installs no signal handlers.
//! * [`Report`]: what it says of a member to tools.
//! * [`transport`]: what carries a group's messages.
//!
//! Programs reach it by `truechimer_group_client`.
#![deny(unsafe_code)]

mod agent;
mod clocks;
pub mod config;
mod error;
mod floor;
mod metrics;
mod notices;
mod report;
mod seat;
mod sys;
pub mod transport;
mod troubles;
mod wait;

pub use agent::{Agent, run};
pub use config::{ConfigError, Options, Settings};
pub use error::AgentError;
pub use notices::{Level, Noticed};
pub use report::{
    ApartReport, Counts, DifferenceReport, GroupReport, HandoverReport, MOST_PROCESSES,
    MOST_THREADS, MemberReport, ProcessReport, Programs, Report, ThreadReport, ValueReport,
    Waiting,
};
pub use troubles::Trouble;
pub use truechimer_notify::Service;

/// The version of the program.
const VERSION: &str = env!("CARGO_PKG_VERSION");
