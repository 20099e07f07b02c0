//! The daemon as a library: one thread and one `poll(2)` loop around the engine.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use truechimer_daemon::{Options, Service, run};
//!
//! let options = Options { servers: vec!["ntp.example.org".into()], ..Options::default() };
//! // Set by a signal handler or by another thread.
//! let (stop, reload) = (AtomicBool::new(false), AtomicBool::new(false));
//! let mut service = Service::none();
//! run(&options, &stop, &reload, &mut service, &mut |level, text| eprintln!("{level:?}: {text}"))?;
//! # Ok::<(), truechimer_daemon::DaemonError>(())
//! ```
//!
//! * [`Options`] is what the user asked for: a configuration file and what comes on top of it;
//!   [`Options::settings`] reads and checks both ([`config`] explains the file).
//! * [`run`] follows the servers until told to stop. It installs no signal handlers.
//! * [`control`] asks a running daemon what it knows.
//!
//! A daemon's decisions are repeated from its log by `truechimer-replay`.
#![deny(unsafe_code)]

mod audit;
mod cards;
mod changes;
mod check;
mod clock_set;
mod clockbound;
pub mod config;
pub mod control;
mod cpus;
mod daemon;
mod device;
mod host;
mod hypervisor;
mod leaps;
mod metrics;
mod net;
#[cfg(feature = "nts")]
mod nts;
#[cfg(not(feature = "nts"))]
#[path = "nts/without.rs"]
mod nts;
mod options;
mod proof;
mod ptp;
mod ratio;
mod refclocks;
mod resolve;
mod rtc;
mod run;
mod sandbox;
mod sock_out;
mod source_dir;
mod state;
mod sys;
mod system_clock;
mod wander;

pub use audit::Wanted as AuditRecord;
pub use cards::{CardReport, Tally as StampTally};
pub use clockbound::{
    PageReport as ClockBoundPage, PageState as ClockBoundState, Wanted as ClockBoundPages,
};
pub use config::{ConfigError, Place, Settings};
pub use options::Options;
pub use run::{DaemonError, run};
pub use sys::lock_memory;
pub use truechimer_engine::{Level, Reason, ReasonKind, Report, SourceReport, SourceStatus};
pub use truechimer_metrics::Listen as MetricsListen;
pub use truechimer_notify::Service;

/// No time is earlier than this, Unix time in s: 2026-01-01, before the first release. (A date of
/// the source and not of the build, which is to give the same program again.)
const RELEASED: i64 = 1_767_225_600;
/// The version of the program.
const VERSION: &str = env!("CARGO_PKG_VERSION");
