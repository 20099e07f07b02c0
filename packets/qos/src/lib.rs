//! Quality of a path, told by its packets: flows, one-way delay and round trips with their bounds,
//! jitter, loss, duplicates, reordering, rate; between two points, at one, and between the layers
//! of one host.
//!
//! An [`Engine`] takes [`Observation`]s, packets with the time at which they passed a point, and
//! keeps [`Flow`]s. [`Report`] says what came of it. Nothing is read or written here. Memory is
//! bounded ([`Options`]), and what had to be given up for that is counted ([`GivenUp`]).
//!
//! Delays and their differences are in ns, positive: later; bounds are of both stamps together. The
//! definitions are those of the IETF's IP performance metrics (RFC 7679, 7680, 5481, 4737, 5560,
//! 3357), of RFC 5236 for reorder density and of RFC 3550 for jitter, and of ITU-T G.107 for voice;
//! each is cited where it is computed.
#![forbid(unsafe_code)]

mod at;
pub mod bins;
mod density;
mod distribution;
mod engine;
mod flow;
mod group;
mod identity;
mod jitter;
mod layers;
mod loss;
mod notes;
mod parse;
mod path;
mod pattern;
mod reorder;
mod report;
pub mod rtp;
mod rtt;
mod sequence;
mod table;
mod totals;
mod voice;

pub use at::{At, Counted, DifferenceClock, Measured};
pub use bins::{Bin, Bins};
pub use density::{Densities, Density};
pub use distribution::Distribution;
pub use engine::{Engine, GivenUp, Observation, Options, PointTotals, RtpChoice};
pub use flow::{Flow, FlowKey, Seen};
pub use group::{FEW, Group, GroupKey, Groups};
pub use identity::identity;
pub use jitter::Jitter;
pub use layers::{Layer, LayerReport, Layered, Layers, LayersReport};
pub use loss::{Losses, NOTICEABLE};
pub use parse::{Ip, Parsed, Tcp, Transport, link, parse};
pub use path::{Bounds, Evidence, Path, Way};
pub use pattern::Pattern;
pub use reorder::Reordering;
pub use report::{
    FlowReport, GroupReport, LossReport, Note, NumbersReport, PathReport, PointReport, Quantile,
    ReorderReport, Report, RtpReport, RttReport, SeenReport, Severity, Spread, WayReport,
};
pub use rtt::{Kind, Rtt};
pub use sequence::{Fate, Sequence};
pub use totals::{Totals, WayTotals};
pub use voice::{Codec, IN_TIME, Voice, VoiceReport};

/// Which way a packet went at a point.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Direction {
    /// Arrived there.
    In,
    /// Sent from there.
    Out,
    /// Nobody says.
    #[default]
    Unknown,
}
