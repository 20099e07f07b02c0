//! The part of the configuration that decides what the clock does.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use truechimer_feedforward::LIKELY_DOUBT;
use truechimer_feedforward::number::rate;
use truechimer_time::{Rate, Span};

use crate::ptp::PtpConfig;

/// Limits of the poll interval in seconds.
pub const POLL_RANGE: core::ops::RangeInclusive<u32> = 1..=1024;
/// The poll interval if none is set, s.
pub const DEFAULT_POLL: u32 = 16;
/// The NTP port.
pub const NTP_PORT: u16 = 123;

/// Configuration of the engine. All of it can change at run time ([`crate::Event::Configure`]).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Config {
    /// The servers to follow.
    pub sources: Vec<SourceConfig>,
    /// The pulses per second to follow beside them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pps: Vec<PpsConfig>,
    /// Bound of how fast the oscillator's rate may differ from its own recent average: the floor
    /// under the growth of every bound.
    pub max_wander: Rate,
    /// How long the replies of a server whose time has moved by more than it may must agree with
    /// one another before they are believed; until then what was known stands, and the bound covers
    /// both.
    #[serde(default = "accept_step_after")]
    pub accept_step_after: Span,
    /// The furthest that servers may move the time after the first synchronisation without the
    /// user's word, forward or back, all such moves added up. `None`: without limit; if `min_sources`
    /// is 1 as well, a move that a majority shares is believed at once, as by versions that had
    /// neither, so that their logs repeat.
    #[serde(default)]
    pub max_step: Option<Span>,
    /// How many servers must agree before their time is published, and wherever it moves. `None`:
    /// two if three or more have a vote, else one.
    #[serde(default = "one")]
    pub min_sources: Option<u32>,
    /// One less the confidence of likely intervals, above 0.
    #[serde(default = "likely_doubt")]
    pub likely_doubt: Rate,
    /// Whether to steer the system clock.
    pub discipline: bool,
    /// When the system clock may be stepped instead of slewed.
    #[serde(default)]
    pub step: StepPolicy,
    /// Above this offset it is stepped, where `step` allows it. Above 0.
    #[serde(default = "default_step_above")]
    pub step_above: Span,
}

/// The furthest that servers may move the time if no limit is set: the panic threshold of ntpd.
pub const DEFAULT_MAX_STEP: Span = Span::from_secs(1000);

fn one() -> Option<u32> {
    Some(1)
}

/// When the system clock may be stepped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepPolicy {
    /// Once, at the first reading after the start.
    #[default]
    Start,
    /// Never: whatever the offset, it is slewed away, at 500 ppm at most.
    Never,
    /// Whenever the offset is too large.
    Always,
}

/// The offset above which the system clock may be stepped if none is set.
pub const DEFAULT_STEP_ABOVE: Span = Span::from_millis(1);

fn default_step_above() -> Span {
    DEFAULT_STEP_ABOVE
}

/// One server, or one PTP port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SourceConfig {
    /// A name or an address, without a port; of a PTP port, the network interface.
    pub host: String,
    /// The UDP port.
    pub port: u16,
    /// Seconds between requests, within [`POLL_RANGE`].
    pub poll: u32,
    /// Whether to begin with eight requests two seconds apart.
    pub burst: bool,
    /// How the two directions of the path differ, if the user knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asymmetry: Option<Asymmetry>,
    /// Asked and shown only, with no vote and no part in the time.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub no_select: bool,
    /// Not a server, but whichever PTP master is the best on the network interface `host`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ptp: Option<PtpConfig>,
}

/// How the two directions of a path differ: half of it is taken off the offset, and no more than
/// half of its error is left of the path's part of the bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asymmetry {
    /// Time of the fastest request − that of the fastest reply.
    pub by: Span,
    /// Bound of the error of `by`, ≥ 0.
    pub error: Span,
}

/// A pulse per second. Which second an edge begins is for the servers to say.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PpsConfig {
    /// The device, or the plain file that shows its newest assert edge.
    pub path: String,
    /// Name that the user gave it.
    pub name: String,
    /// The most by which the stamp of an edge may be later than the edge: interrupt latency. Above
    /// 0; the bound of the clock is only as true as this.
    pub latency: Span,
    /// How long after the beginning of the true second the edge comes, by cables and the receiver;
    /// negative: before it. Less than half a second.
    pub offset: Span,
}

/// The latency of a pulse if none is set.
pub const DEFAULT_LATENCY: Span = Span::from_micros(10);

impl PpsConfig {
    /// A pulse that is called by its path, with the default latency and no offset.
    #[must_use]
    pub fn new(path: impl Into<String>) -> PpsConfig {
        let path = path.into();
        PpsConfig { name: path.clone(), path, latency: DEFAULT_LATENCY, offset: Span::ZERO }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            sources: Vec::new(),
            pps: Vec::new(),
            max_wander: Rate::from_ppb(500),
            accept_step_after: accept_step_after(),
            max_step: Some(DEFAULT_MAX_STEP),
            min_sources: None,
            likely_doubt: likely_doubt(),
            discipline: false,
            step: StepPolicy::default(),
            step_above: DEFAULT_STEP_ABOVE,
        }
    }
}

fn likely_doubt() -> Rate {
    rate(LIKELY_DOUBT)
}

fn accept_step_after() -> Span {
    truechimer_feedforward::ACCEPT_STEP_AFTER
}

impl SourceConfig {
    /// A server with the default port, poll interval and burst.
    #[must_use]
    pub fn new(host: impl Into<String>) -> SourceConfig {
        SourceConfig {
            host: host.into(),
            port: NTP_PORT,
            poll: DEFAULT_POLL,
            burst: true,
            asymmetry: None,
            no_select: false,
            ptp: None,
        }
    }

    /// Name of the server: host and port; of a PTP port: interface and domain.
    #[must_use]
    pub fn name(&self) -> String {
        if let Some(ptp) = &self.ptp {
            return ptp.name(&self.host);
        }
        let SourceConfig { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}
