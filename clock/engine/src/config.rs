//! The part of the configuration that decides what the clock does.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::SocketAddr;

use serde::{Deserialize, Serialize};
use truechimer_feedforward::LIKELY_DOUBT;
use truechimer_feedforward::number::rate;
pub use truechimer_ntp::{NTP_PORT, NTS_PORT};
use truechimer_time::{Rate, Span};

use crate::authentication::Authentication;
use crate::peer::Role;
use crate::ptp::PtpConfig;

/// Limits of the poll interval in seconds.
pub const POLL_RANGE: core::ops::RangeInclusive<u32> = 1..=1024;
/// The poll interval if none is set, s.
pub const DEFAULT_POLL: u32 = 16;

/// Limits of the servers of a pool.
pub const MAX_SOURCES_RANGE: core::ops::RangeInclusive<u32> = 1..=16;
/// Servers of a pool if no number is set, as chrony has it.
pub const DEFAULT_MAX_SOURCES: u32 = 4;

/// Configuration of the engine. All of it can change at run time ([`crate::Event::Configure`]).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Config {
    /// The servers to follow.
    pub sources: Vec<SourceConfig>,
    /// The reference clocks to follow beside them.
    #[serde(default, alias = "pps", skip_serializing_if = "Vec::is_empty")]
    pub refclocks: Vec<RefClockConfig>,
    /// Bound of how fast the oscillator's rate may differ from its own recent average: the floor
    /// under the growth of every bound.
    pub max_wander: Rate,
    /// Time for which the replies of a server whose time has moved by more than it may must agree
    /// with one another before they are believed; until then what was known stands, and the bound
    /// covers both.
    #[serde(default = "accept_step_after")]
    pub accept_step_after: Span,
    /// The furthest that servers may move the time after the first synchronisation without the
    /// user's word, forward or back, all such moves added up. `None`: without limit; if `min_sources`
    /// is 1 as well, a move that a majority shares is believed at once, as by versions that had
    /// neither, so that their logs repeat.
    #[serde(default)]
    pub max_step: Option<Span>,
    /// Number of servers that must agree before their time is published, and wherever it moves.
    /// `None`: two if three or more have a vote, else one.
    #[serde(default = "one")]
    pub min_sources: Option<u32>,
    /// Part of servers without proof. Logs of before have none: there it made no difference.
    #[serde(default = "AuthenticationMode::none")]
    pub authentication: AuthenticationMode,
    /// One less the confidence of likely intervals, above 0.
    #[serde(default = "likely_doubt")]
    pub likely_doubt: Rate,
    /// True to steer the system clock.
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

/// Part that servers without proof of who they are may have (chrony: `authselectmode`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuthenticationMode {
    /// Beside servers with proof they have no vote: where those agree is a fence, which holds the
    /// time and is its bound.
    #[default]
    Mix,
    /// None: they are asked and shown.
    Require,
    /// A vote like any other.
    Ignore,
}

impl AuthenticationMode {
    fn none() -> AuthenticationMode {
        AuthenticationMode::Ignore
    }
}

/// One server, or one PTP port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SourceConfig {
    /// A name or an address, without a port; of a PTP port, the network interface.
    pub host: String,
    /// The UDP port; with [`Authentication::Nts`] the TCP port of the key exchange.
    pub port: u16,
    /// Seconds between requests, within [`POLL_RANGE`].
    pub poll: u32,
    /// Seconds between requests at the most, while fewer make little difference; `None`: as `poll`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_poll: Option<u32>,
    /// Family of the addresses that are asked; `None`: either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<Family>,
    /// Network interface that requests leave by and replies come by; `None`: whichever the system chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// True to begin with eight requests two seconds apart.
    pub burst: bool,
    /// True to ask when the reply before left, exactly (interleaved mode, RFC 9769).
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub interleaved: bool,
    /// Difference between the two directions of the path, if the user knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asymmetry: Option<Asymmetry>,
    /// True to use what its exchanges show of that, as if the user had declared it.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub learn_asymmetry: bool,
    /// Proof of who it is, without which nothing of it is used.
    #[serde(default, skip_serializing_if = "Authentication::is_none")]
    pub authentication: Authentication,
    /// Asked and shown only, with no vote and no part in the time.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub no_select: bool,
    /// Vouched for by the user: beside such servers the others have no vote, as beside those with
    /// proof.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub trust: bool,
    /// Followed before the others, where it agrees with those that vote.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub prefer: bool,
    /// Without one of those that are required there is no time, and no move.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub require: bool,
    /// Not a server, but whichever PTP master is the best on the network interface `host`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ptp: Option<PtpConfig>,
    /// Not one server, but up to so many of those that `host` leads to, within [`MAX_SOURCES_RANGE`]:
    /// each a source by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<u32>,
    /// Not asked for now.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub offline: bool,
    /// Place where it was named.
    #[serde(default, skip_serializing_if = "Origin::is_configuration")]
    pub origin: Origin,
}

/// Family of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// The addresses of IPv4, also where they are written as IPv6.
    Ipv4,
    /// The other addresses of IPv6.
    Ipv6,
}

impl Family {
    /// True for addresses of this family.
    #[must_use]
    pub fn has(self, address: SocketAddr) -> bool {
        address.ip().to_canonical().is_ipv4() == (self == Family::Ipv4)
    }

    /// Those of these addresses that are of this family.
    ///
    /// # Errors
    /// If there is none.
    pub fn of(self, mut addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, String> {
        addresses.retain(|address| self.has(*address));
        match (addresses.is_empty(), self) {
            (false, _) => Ok(addresses),
            (true, Family::Ipv4) => Err("the name has no IPv4 address".into()),
            (true, Family::Ipv6) => Err("the name has no IPv6 address".into()),
        }
    }
}

/// Place where a source was named.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The configuration or the command line.
    #[default]
    Configuration,
    /// A file in the directory of sources.
    SourceDir,
    /// The control socket, since the start.
    RunTime,
}

impl Origin {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
    fn is_configuration(&self) -> bool {
        *self == Origin::Configuration
    }

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Origin::Configuration => "configuration",
            Origin::SourceDir => "source-dir",
            Origin::RunTime => "run-time",
        }
    }
}

/// Difference between the two directions of a path: half of it is taken off the offset, and no more
/// than half of its error is left of the path's part of the bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asymmetry {
    /// Time of the fastest request − that of the fastest reply.
    pub by: Span,
    /// Bound of the error of `by`, ≥ 0.
    pub error: Span,
}

/// A reference clock: a local source, without a path through a network.
///
/// Configurations of logs from before there were others are read as pulses.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RefClockConfig {
    /// Kind of it.
    #[serde(default)]
    pub kind: RefClockKind,
    /// Place where it is read: the device, the plain file that shows a pulse's newest assert edge,
    /// the number of the segment, or the socket.
    pub path: String,
    /// Name that the user gave it.
    pub name: String,
    /// Bound of its own error, above 0: the bound of the clock is only as true as this. Of a pulse
    /// the most by which the stamp of an edge may be later than the edge (interrupt latency); of the
    /// others the most by which what it shows may be off, to either side.
    #[serde(alias = "latency")]
    pub error: Span,
    /// Bound of a pulse's own error, to either side, beside that: of the receiver, and of `offset`; ≥ 0. Of no use
    /// with the others.
    #[serde(default, skip_serializing_if = "crate::event::is_zero")]
    pub pulse_error: Span,
    /// True time − what it shows: how long after the beginning of the true second an edge comes, by
    /// cables and the receiver; negative: before it. Less than half a second.
    pub offset: Span,
    /// Seconds between its samples, within [`REFCLOCK_POLL_RANGE`].
    #[serde(default = "every_second")]
    pub poll: u32,
    /// Time scale that it shows.
    #[serde(default)]
    pub scale: Scale,
    /// True if it has a vote, as a server has. Else it is believed within what the servers vouch
    /// for. A pulse never has one: it does not know which second it is.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub trust: bool,
    /// Followed before the others, as of a server.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub prefer: bool,
    /// Without one of those that are required there is no time, and no move, as of a server.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub require: bool,
}

/// Kinds of reference clocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefClockKind {
    /// A pulse per second. Which second an edge begins is for others to say.
    #[default]
    Pulse,
    /// A PTP hardware clock.
    Phc,
    /// Shared memory, as ntpd's driver 28 has it.
    Shm,
    /// A socket that a program sends samples to, as chrony's SOCK.
    Sock,
    /// The hypervisor's time in a vmclock page, for the machine's own counter. It says its scale.
    Vmclock,
}

/// Time scale of what a reference clock shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// UTC, with its leap seconds.
    #[default]
    Utc,
    /// International atomic time.
    Tai,
    /// One of the two: the one that others vouch for, once they do.
    Auto,
}

/// The latency of a pulse if none is set.
pub const DEFAULT_LATENCY: Span = Span::from_micros(10);
/// Limits of the seconds between samples of a reference clock.
pub const REFCLOCK_POLL_RANGE: core::ops::RangeInclusive<u32> = 1..=64;

fn every_second() -> u32 {
    1
}

impl RefClockConfig {
    /// A pulse that is called by its path, with the default latency and no offset.
    #[must_use]
    pub fn pulse(path: impl Into<String>) -> RefClockConfig {
        RefClockConfig::new(RefClockKind::Pulse, path, DEFAULT_LATENCY)
    }

    /// A reference clock that is called by its path, without a vote; the scale of a card and of a vmclock is found out.
    #[must_use]
    pub fn new(kind: RefClockKind, path: impl Into<String>, error: Span) -> RefClockConfig {
        let path = path.into();
        let found_out = matches!(kind, RefClockKind::Phc | RefClockKind::Vmclock);
        let scale = if found_out { Scale::Auto } else { Scale::Utc };
        RefClockConfig {
            kind,
            name: path.clone(),
            path,
            error,
            pulse_error: Span::ZERO,
            offset: Span::ZERO,
            poll: every_second(),
            scale,
            trust: false,
            prefer: false,
            require: false,
        }
    }

    /// True if both are the same clock, whatever is said of it.
    #[must_use]
    pub fn is_same_clock(&self, other: &RefClockConfig) -> bool {
        (self.kind, &self.path) == (other.kind, &other.path)
    }
}

impl RefClockKind {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            RefClockKind::Pulse => "pulse",
            RefClockKind::Phc => "phc",
            RefClockKind::Shm => "shm",
            RefClockKind::Sock => "sock",
            RefClockKind::Vmclock => "vmclock",
        }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            sources: Vec::new(),
            refclocks: Vec::new(),
            max_wander: Rate::from_ppb(500),
            accept_step_after: accept_step_after(),
            max_step: Some(DEFAULT_MAX_STEP),
            min_sources: None,
            authentication: AuthenticationMode::default(),
            likely_doubt: likely_doubt(),
            discipline: false,
            step: StepPolicy::default(),
            step_above: DEFAULT_STEP_ABOVE,
        }
    }
}

impl Config {
    /// Part that one of its servers has in finding out what time it is. By the configuration alone:
    /// whoever keeps servers with proof from answering gains no vote by that.
    pub(crate) fn role(&self, source: &SourceConfig) -> Role {
        if !self.may_select(source) {
            return Role::Watched;
        }
        let fence =
            || self.sources.iter().any(|other| self.may_select(other) && self.fences(other));
        if self.fences(source) || !fence() { Role::Votes } else { Role::Fenced }
    }

    /// True if this server has a vote.
    #[must_use]
    pub fn votes(&self, source: &SourceConfig) -> bool {
        self.role(source) == Role::Votes
    }

    /// True if what it says may count at all.
    #[must_use]
    pub fn may_select(&self, source: &SourceConfig) -> bool {
        let proof = self.authentication != AuthenticationMode::Require || source.is_authenticated();
        !source.no_select && proof
    }

    /// True if others have no vote beside it.
    fn fences(&self, source: &SourceConfig) -> bool {
        let proof = self.authentication == AuthenticationMode::Mix && source.is_authenticated();
        proof || source.trust
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
            max_poll: None,
            family: None,
            interface: None,
            burst: true,
            interleaved: false,
            asymmetry: None,
            learn_asymmetry: false,
            authentication: Authentication::None,
            no_select: false,
            trust: false,
            prefer: false,
            require: false,
            ptp: None,
            pool: None,
            offline: false,
            origin: Origin::Configuration,
        }
    }

    /// A pool of the default size.
    #[must_use]
    pub fn pool(host: impl Into<String>) -> SourceConfig {
        SourceConfig { pool: Some(DEFAULT_MAX_SOURCES), ..SourceConfig::new(host) }
    }

    /// The server at one address of this pool.
    pub(crate) fn member(&self, address: SocketAddr) -> SourceConfig {
        let (host, port) = (address.ip().to_string(), address.port());
        SourceConfig { host, port, pool: None, ..self.clone() }
    }

    /// True if it proves who it is, so that nothing without proof is used of it.
    #[must_use]
    pub const fn is_authenticated(&self) -> bool {
        !self.authentication.is_none()
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
