//! The part of the configuration that decides what the clock does.

use serde::{Deserialize, Serialize};
use truechimer_time::Rate;

/// Limits of the poll interval in seconds.
pub const POLL_RANGE: core::ops::RangeInclusive<u32> = 1..=1024;
/// The poll interval if none is set, s.
pub const DEFAULT_POLL: u32 = 16;
/// The NTP port.
pub const NTP_PORT: u16 = 123;

/// What the engine is to do. All of it can change at run time ([`crate::Event::Configure`]).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Config {
    /// The servers to follow.
    pub sources: Vec<SourceConfig>,
    /// Bound of how fast the oscillator's rate may differ from its own recent average: the floor
    /// under the growth of every bound.
    pub max_wander: Rate,
    /// Which estimator every source gets.
    pub estimator: EstimatorKind,
    /// Whether to steer the system clock.
    pub discipline: bool,
}

/// One server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SourceConfig {
    /// A name or an address, without a port.
    pub host: String,
    /// The UDP port.
    pub port: u16,
    /// Seconds between requests, within [`POLL_RANGE`].
    pub poll: u32,
    /// Whether to begin with eight requests two seconds apart.
    pub burst: bool,
}

/// The estimators.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EstimatorKind {
    /// Ours: floors per direction, a two-state filter, a bound from the corridor of causality.
    #[default]
    Ours,
    /// The published RADclock algorithm.
    Published,
    /// A textbook PI servo steering a system clock that its own stamps are taken from.
    Pi,
    /// A textbook RFC 5905 loop with clock filter, likewise.
    NtpPll,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            sources: Vec::new(),
            max_wander: Rate::from_ppb(500),
            estimator: EstimatorKind::default(),
            discipline: false,
        }
    }
}

impl SourceConfig {
    /// A server with the default port, poll interval and burst.
    #[must_use]
    pub fn new(host: impl Into<String>) -> SourceConfig {
        SourceConfig { host: host.into(), port: NTP_PORT, poll: DEFAULT_POLL, burst: true }
    }
}
