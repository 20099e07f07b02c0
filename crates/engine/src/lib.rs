//! What the clock does, without I/O: events in, actions out.
//!
//! The [`Engine`] is the one glue between packets and the published clock. The daemon feeds it
//! from sockets, a simulator from a model, a replay from a log; none of them decides anything.
#![forbid(unsafe_code)]

mod bar;
mod bulletin;
mod combination;
mod config;
mod disruption;
mod doubt;
mod drift;
mod engine;
mod event;
mod kernel;
mod leap;
mod peer;
mod prefer;
mod pulse;
mod ramp;
mod report;
mod select;
mod selection;
mod smear;
mod source;
mod steer;
mod why;

pub use config::{
    Asymmetry, Config, DEFAULT_LATENCY, DEFAULT_MAX_STEP, DEFAULT_POLL, DEFAULT_STEP_ABOVE,
    EstimatorKind, NTP_PORT, POLL_RANGE, PpsConfig, SourceConfig, StepPolicy,
};
pub use doubt::{Agreed, Held};
pub use engine::Engine;
pub use event::{
    Action, Event, HostCheck, KernelWord, Level, RtcReading, Saved, SourceId, Start, Steer,
    SystemReading,
};
pub use report::{DoubtKind, Doubted, Report, Selection, SourceReport};
pub use source::estimator;
