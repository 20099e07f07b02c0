//! Clock without I/O: events in, actions out.
//!
//! The [`Engine`] is the one glue between packets and the published clock. The daemon feeds it
//! from sockets, a simulator from a model, a replay from a log; none of them decides anything.
//!
//! Not here: sockets, files, threads, and the counter itself. Time passes only by the counts of the events; the estimator behind it is
//! `truechimer-feedforward`'s, or any that implements its trait.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod authentication;
mod backoff;
mod bar;
mod cause;
mod change_log;
mod combination;
mod config;
mod disruption;
mod drift;
mod engine;
mod event;
mod few;
mod hold_off;
mod kernel;
mod leap;
mod likely;
mod method;
mod peer;
mod ptp;
mod ramp;
mod refclock;
mod report;
mod request;
mod select;
mod selection;
mod smear;
mod source;
mod steer;

pub use authentication::Authentication;
pub use config::{
    Asymmetry, AuthenticationMode, Config, DEFAULT_LATENCY, DEFAULT_MAX_SOURCES, DEFAULT_MAX_STEP,
    DEFAULT_POLL, DEFAULT_STEP_ABOVE, Family, MAX_SOURCES_RANGE, NTP_PORT, NTS_PORT, Origin,
    POLL_RANGE, REFCLOCK_POLL_RANGE, RefClockConfig, RefClockKind, Scale, SourceConfig, StepPolicy,
};
pub use engine::Engine;
pub use event::{
    Action, Event, HostCheck, KernelWord, LeapData, Level, RtcReading, Saved, Shown, SourceId,
    Start, Steer, SystemReading,
};
pub use hold_off::{Agreed, Held};
pub use method::{Beginning, Candidate, Method, RENEW_AFTER, Standard};
pub use ptp::{
    AskedReport, Delay, MasterReport, PTP_ERROR_LIMIT, PTP_MASTERS_LIMIT, Profile, PtpAction,
    PtpConfig, PtpEvent, PtpReport, Timescale, Transport,
};
pub use report::{
    KeptPath, Learnt, Reason, ReasonKind, Report, SourceKind, SourceReport, SourceStatus,
};
