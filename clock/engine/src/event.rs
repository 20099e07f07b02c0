//! Events of the engine, and actions that it wants done.
//!
//! Both sides are plain data that serde can write and read, so that a log of events replays every
//! decision. All scheduling is in counts: the engine has no other clock.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

use serde::{Deserialize, Serialize};
use truechimer_ntp::HEADER_LEN;
use truechimer_time::{Count, CountSpan, CounterId, Leaps, Period, Rate, Span, Stamp};
use truechimer_timehands::Hand;

use crate::authentication::Authentication;
use crate::config::{Config, Family, RefClockKind, Scale};
use crate::hold_off::{Agreed, Held};
use crate::ptp::{PtpAction, PtpEvent};
use crate::source::KeptPath;

/// Names a source for as long as the engine lives; never used again after the source is removed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SourceId(pub u32);

/// State that the engine starts from.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Start {
    /// The count of the start.
    pub at: Count,
    /// The counter that all counts are of.
    pub counter: CounterId,
    /// Length of a count as far as is known before the first packet.
    pub nominal: Period,
    /// Bound of the relative error of `nominal`.
    pub nominal_error: Rate,
    /// The smallest step of the counter.
    pub resolution: CountSpan,
    /// Seeds everything random (origin timestamps, poll jitter). Secret while the daemon runs.
    pub seed: [u8; 32],
    /// Leap seconds as known at the start.
    pub leaps: Leaps,
    /// Unix time in s until which a list has all of them ([`LeapData::until`]).
    #[serde(default)]
    pub leaps_until: i64,
    /// The last hand of the daemon before, if the page held one of the same counter, boot and
    /// epoch.
    pub warm: Option<Hand>,
    /// State that an earlier run saved ([`Engine::saved`](crate::Engine::saved)), from any boot.
    pub saved: Option<Saved>,
    /// The release date of the program, Unix time in s: no time is earlier. 0: not known.
    #[serde(default)]
    pub built: i64,
    /// The real-time clock, if the machine has one that can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtc: Option<RtcReading>,
}

impl Start {
    /// Start without history: a rate that is known to 500 ppm, a counter that counts by ones, no idea of leap
    /// seconds or of the date.
    pub fn new(at: Count, counter: CounterId, nominal: Period, seed: [u8; 32]) -> Start {
        Start {
            at,
            counter,
            nominal,
            nominal_error: Rate::from_ppb(500_000),
            resolution: CountSpan(1),
            seed,
            leaps: Leaps::default(),
            leaps_until: 0,
            warm: None,
            saved: None,
            built: 0,
            rtc: None,
        }
    }
}

/// The machine's real-time clock (RTC) at one count: the battery-backed one, or the hypervisor's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RtcReading {
    /// The count.
    pub count: Count,
    /// Time that it shows: UTC, as Unix time in whole seconds.
    pub unix: i64,
    /// The system clock's time (`CLOCK_REALTIME`) then, likewise; `None` if it was not read, as in
    /// the logs of versions that did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<i64>,
    /// Nothing on the machine says that it runs in UTC: it may as well run in local time.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub may_be_local: bool,
}

/// State worth keeping across boots.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    /// The counter's name, as `--counter` takes it.
    pub counter: String,
    /// The nominal period then: saved rates are relative to it.
    pub nominal: Period,
    /// The measured period.
    pub period: Period,
    /// Bound of the relative error of `period` when it was saved.
    pub error: Rate,
    /// Unix time of saving in seconds.
    pub unix: i64,
    /// Hold-offs of the clock against its servers then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Held>,
    /// Which servers agreed with the clock then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreed: Option<Agreed>,
    /// Span that the servers' word alone has moved the time by so far; positive: forward.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub moved: Span,
    /// Real-time clock − the clock, when nothing was in doubt last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtc_offset: Option<Span>,
    /// Paths whose asymmetry was learnt and used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<KeptPath>,
}

pub(crate) fn is_zero(span: &Span) -> bool {
    *span == Span::ZERO
}

/// Something that happened. The count at which the engine hears of it comes beside it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A deadline (see [`Engine::next_deadline`](crate::Engine::next_deadline)) may have come.
    Timer,
    /// The answer to [`Action::Resolve`].
    Resolved {
        /// For which source.
        source: SourceId,
        /// Addresses, or why there are none.
        result: Result<Vec<SocketAddr>, String>,
    },
    /// A datagram came on a source's socket. Nothing in it has been checked, but who made it if the
    /// source has keys: then this is its header alone.
    Reply {
        /// On whose socket.
        source: SourceId,
        /// From where.
        from: SocketAddr,
        /// Departure of the request on that socket.
        sent: Stamp,
        /// When the datagram arrived.
        received: Stamp,
        /// The datagram.
        packet: Vec<u8>,
    },
    /// A request could not be sent, or the network said that it cannot be delivered.
    Undelivered {
        /// On whose socket.
        source: SourceId,
        /// Error of the operating system.
        error: String,
    },
    /// A datagram came on a source's socket that does not prove who made it, though it should.
    Unauthentic {
        /// On whose socket.
        source: SourceId,
        /// Trouble with it, for people.
        error: String,
    },
    /// A request could not be protected: the source needs new keys, which [`Action::Resolve`] brings.
    Unprotected {
        /// For which source.
        source: SourceId,
        /// Reason, for people.
        error: String,
    },
    /// A reference clock showed a time. (Logs of format 6 and before have `edge`: a pulse.)
    #[serde(alias = "edge")]
    Sample {
        /// Which one.
        source: SourceId,
        /// The number of the sample, or of the edge.
        sequence: u64,
        /// When it did, or why that is no count: within the stamp's error of its count. The edge of
        /// a pulse itself was up to the configured latency earlier.
        stamp: Result<Stamp, String>,
        /// Time that it showed.
        #[serde(default)]
        shown: Shown,
    },
    /// A reference clock cannot be read: [`Action::Watch`] failed, or it was lost since. It is asked
    /// for again. (Logs of format 6 and before have `pps-failed`.)
    #[serde(alias = "pps-failed")]
    RefClockFailed {
        /// Which one.
        source: SourceId,
        /// Trouble, for people.
        error: String,
    },
    /// Something happened at a PTP port.
    Ptp(PtpEvent),
    /// The host's own clocks, read together at least once a second while the daemon runs.
    Check(HostCheck),
    /// The caller knows that the counter lost its continuity (another clocksource, say).
    Disruption {
        /// Cause, for the log and for `status`.
        reason: String,
    },
    /// The hypervisor says that the counter is no longer the one it was: the machine was migrated, or
    /// restored from a snapshot. How much time has passed meanwhile nothing on the machine can tell,
    /// the kernel's clocks, which are made of the same counter, least of all.
    Moved {
        /// Word of the hypervisor, for the log and for `status`.
        reason: String,
    },
    /// The real-time clock was read; sent about once a minute where there is one.
    Rtc(RtcReading),
    /// The user wants this source believed now, whatever is held against it.
    Accept {
        /// Which one; see [`Engine::acceptable`](crate::Engine::acceptable).
        source: SourceId,
    },
    /// The configuration was read again.
    Configure(Config),
    /// Leap-second knowledge changed. Ignored, with a note, if UTC now would be another.
    Leaps(LeapData),
    /// The system clock was read; sent about once a second while discipline is on.
    SystemClock(SystemReading),
    /// The caller is about to end. What is left running should be fit to run alone.
    Stop,
}

/// Leap seconds around now, and for how long no other can come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LeapData {
    /// Those around now.
    #[serde(flatten)]
    pub leaps: Leaps,
    /// Unix time in s until which a list has all of them: what sources announce for the time before it is
    /// left aside. 0 without a list.
    #[serde(default)]
    pub until: i64,
}

impl From<Leaps> for LeapData {
    fn from(leaps: Leaps) -> LeapData {
        LeapData { leaps, until: 0 }
    }
}

/// Time that a reference clock showed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Shown {
    /// Unix time in ns by its own time scale.
    pub unix_ns: i64,
    /// Only the fraction of the second is told: others say which second it is.
    pub pulse: bool,
    /// Bound of its error as it states it itself, ≥ 0.
    pub error: Span,
    /// Leap indicator (0 none, 1 insert, 2 delete, 3 unsynchronised).
    pub leap: u8,
    /// Time scale by its own word; `Auto` where it has none.
    #[serde(default = "unsaid", skip_serializing_if = "is_unsaid")]
    pub scale: Scale,
}

fn unsaid() -> Scale {
    Scale::Auto
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_unsaid(scale: &Scale) -> bool {
    *scale == Scale::Auto
}

impl Shown {
    /// The beginning of a second, whichever.
    pub const PULSE: Shown =
        Shown { unix_ns: 0, pulse: true, error: Span::ZERO, leap: 0, scale: Scale::Auto };
}

impl Default for Shown {
    fn default() -> Shown {
        Shown::PULSE
    }
}

fn every_second() -> u32 {
    1
}

/// The host's clocks at one count: what shows a suspend or a jump of the counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HostCheck {
    /// The count.
    pub count: Count,
    /// `CLOCK_MONOTONIC_RAW` at `count`, ns.
    pub raw_ns: i64,
    /// `CLOCK_BOOTTIME` − `CLOCK_MONOTONIC`: the time spent suspended, ns.
    pub suspended_ns: i64,
    /// Counts that reading them took: each belongs to a count within this of `count`.
    pub width: CountSpan,
}

/// The system clock (`CLOCK_REALTIME`) at one count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SystemReading {
    /// The count.
    pub count: Count,
    /// `CLOCK_REALTIME` at `count`, as Unix time in ns.
    pub unix_ns: i64,
    /// `CLOCK_MONOTONIC_RAW` at `count`, ns.
    pub raw_ns: i64,
    /// The frequency that the kernel has been given for it, if it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency: Option<Rate>,
}

/// Something the engine wants done.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(clippy::large_enum_variant)] // They are few, and none is kept for long.
pub enum Action {
    /// Look up `host` and answer with [`Event::Resolved`].
    Resolve {
        /// For which source.
        source: SourceId,
        /// A name or an address, never with a port.
        host: String,
        /// The port to put into the addresses; with [`Authentication::Nts`] that of the key exchange.
        port: u16,
        /// Get its keys as well, by an exchange that says where its NTP server is, or where they are
        /// kept. What is sent to it from then on is to be protected, and what comes is to be proven.
        #[serde(default, skip_serializing_if = "Authentication::is_none")]
        authentication: Authentication,
        /// Network interface that the exchange goes by; `None`: whichever the system chooses.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
        /// Family of the addresses that may be asked for keys; `None`: either.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        family: Option<Family>,
    },
    /// Send `packet` from a fresh socket (random port). Those of its requests before it stay open until a
    /// later one is answered, [`WAITING`](truechimer_ntp::WAITING) in all.
    Send {
        /// For which source.
        source: SourceId,
        /// Where to.
        to: SocketAddr,
        /// Network interface that it is to leave by; `None`: whichever the system chooses.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
        /// The datagram.
        #[serde(with = "crate::request")]
        packet: [u8; HEADER_LEN],
    },
    /// Open the reference clock at `path`, which may be open, and report its samples
    /// ([`Event::Sample`]).
    Watch {
        /// For which source.
        source: SourceId,
        /// Kind of it.
        #[serde(default)]
        kind: RefClockKind,
        /// Place where it is read, as configured.
        path: String,
        /// Seconds between readings of what has to be asked for.
        #[serde(default = "every_second")]
        poll: u32,
    },
    /// Something to do at a PTP port.
    Ptp(PtpAction),
    /// The source is gone: close its sockets, or its reference clock.
    Close {
        /// Which.
        source: SourceId,
    },
    /// Publish this hand.
    Publish(Hand),
    /// Steer the system clock. Only ever asked for if the configuration says so.
    Steer(Steer),
    /// Tell the user.
    Note {
        /// Importance of it.
        level: Level,
        /// One line, without a trailing period.
        text: String,
    },
}

/// Ways to steer the system clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Steer {
    /// Add this span to it at once.
    Step(Span),
    /// Make it run this much faster than the kernel's nominal rate from now on.
    Frequency(Rate),
    /// Tell the kernel what is known of its clock, for those who ask it (`adjtimex`).
    Tell(KernelWord),
}

/// Word that the kernel passes on to all who ask how good its clock is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct KernelWord {
    /// Bound of |system clock − UTC| for the next second; the kernel lets it grow by 500 µs whenever a
    /// second begins. `None`: the clock is not synchronised.
    pub max_error: Option<Span>,
    /// Probable error of the system clock.
    pub estimated_error: Span,
    /// Step at the next midnight, UTC: +1 to insert a second before it, −1 to leave one out, 0 for
    /// nothing.
    pub leap: i8,
    /// TAI − UTC now, s, if it is known.
    pub tai_offset: Option<i32>,
}

/// Importance of a note.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// For those who asked for detail.
    Debug,
    /// Normal course of things.
    Info,
    /// Something the user may want to mend.
    Warning,
}
