//! What the clock does, without I/O: events in, actions out.
//!
//! The [`Engine`] is the one glue between packets and the published clock. The daemon feeds it
//! from sockets, a simulator from a model, a replay from a log; none of them decides anything.
#![forbid(unsafe_code)]

mod config;
mod disruption;
mod engine;
mod event;
mod leap;
mod prefer;
mod pulse;
mod report;
mod select;
mod source;
mod steer;
mod voice;

pub use config::{
    Config, DEFAULT_LATENCY, DEFAULT_POLL, EstimatorKind, NTP_PORT, POLL_RANGE, PpsConfig,
    SourceConfig,
};
pub use engine::Engine;
pub use event::{Action, Event, HostCheck, Level, Saved, SourceId, Start, Steer, SystemReading};
pub use report::{Report, Selection, SourceReport};
pub use source::estimator;
