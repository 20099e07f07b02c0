//! Reports for `sources` and `status`: a snapshot of the engine, as plain data.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::SocketAddr;

use serde::{Deserialize, Serialize};
use truechimer_time::{Count, Rate, Span, StampMethod};
use truechimer_timehands::Hand;

use crate::authentication::Authentication;
use crate::cause::Cause;
use crate::config::{Asymmetry, Origin, RefClockKind};
use crate::hold_off;
use crate::peer::HoldOff;
use crate::ptp::PtpReport;
pub use crate::source::{KeptPath, Learnt};

/// The whole engine at one count.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// When it was made.
    pub at: Count,
    /// The hand in force, if any was published yet.
    pub hand: Option<Hand>,
    /// Measured skew of the counter against its nominal period; positive: the counter is fast.
    pub skew: Option<Rate>,
    /// Reason for the status, in one line.
    pub reason: String,
    /// The part of the statistical bound that is there only because it covers samples that are held
    /// off as well.
    #[serde(default)]
    pub disputed: Option<Span>,
    /// Every source, in the order of the configuration.
    pub sources: Vec<SourceReport>,
}

/// Kinds of sources.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// A server of NTP.
    #[default]
    Server,
    /// A PTP port.
    Ptp,
    /// A pulse per second.
    Pulse,
    /// A PTP hardware clock.
    Phc,
    /// Shared memory.
    Shm,
    /// A socket that samples come from.
    Sock,
    /// The hypervisor's time in a vmclock page.
    Vmclock,
}

impl SourceKind {
    /// True if it is a reference clock: read on this machine, with no path to it.
    #[must_use]
    pub const fn is_refclock(self) -> bool {
        !matches!(self, SourceKind::Server | SourceKind::Ptp)
    }

    /// The word for it, as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SourceKind::Server => "server",
            SourceKind::Ptp => "ptp",
            SourceKind::Pulse => "pulse",
            SourceKind::Phc => "phc",
            SourceKind::Shm => "shm",
            SourceKind::Sock => "sock",
            SourceKind::Vmclock => "vmclock",
        }
    }
}

impl From<RefClockKind> for SourceKind {
    fn from(kind: RefClockKind) -> SourceKind {
        match kind {
            RefClockKind::Pulse => SourceKind::Pulse,
            RefClockKind::Phc => SourceKind::Phc,
            RefClockKind::Shm => SourceKind::Shm,
            RefClockKind::Sock => SourceKind::Sock,
            RefClockKind::Vmclock => SourceKind::Vmclock,
        }
    }
}

/// Statuses of sources, in the terms of RFC 5905 and chrony (docs/reference/words.md).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceStatus {
    /// Has no estimate, or nothing usable came from it for too long.
    Unreachable,
    /// May not be selected, whatever it says: as configured, as it smears, say.
    Unselectable,
    /// Has an estimate, and selection cannot decide: others have yet to answer, or no majority
    /// agrees.
    Candidate,
    /// Has an interval that does not meet the majority's, or newest samples whose interval does
    /// not; or contradicts the source that the user has accepted.
    Falseticker,
    /// Agrees with the majority, and has no part in the published time.
    Truechimer,
    /// Has a part in the published time.
    Combined,
    /// The one that leads: the only one, or the one with the largest part in it. (Another has to
    /// have a much larger one to take its place.)
    Selected,
}

impl SourceStatus {
    /// The word for it, as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SourceStatus::Unreachable => "unreachable",
            SourceStatus::Unselectable => "unselectable",
            SourceStatus::Candidate => "candidate",
            SourceStatus::Falseticker => "falseticker",
            SourceStatus::Truechimer => "truechimer",
            SourceStatus::Combined => "combined",
            SourceStatus::Selected => "selected",
        }
    }

    /// True if the majority agrees with it.
    #[must_use]
    pub const fn agrees(self) -> bool {
        use SourceStatus::{Combined, Selected, Truechimer};
        matches!(self, Truechimer | Combined | Selected)
    }
}

/// One source.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SourceReport {
    /// Name as configured: host and port, or the name of a reference clock.
    pub name: String,
    /// Kind of it. Of a reference clock, requests are samples, and the round trip is the time that
    /// one may have happened in.
    #[serde(default)]
    pub kind: SourceKind,
    /// The address in use.
    pub address: Option<SocketAddr>,
    /// Pool that it is a server of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Place where it, or its pool, was named.
    #[serde(default)]
    pub origin: Origin,
    /// Status: how far it is believed.
    pub status: SourceStatus,
    /// Reason for that status, or why the clock does not go along with its newest samples.
    pub reason: Option<Reason>,
    /// Share in where the published time stands, 0 to 1; those of all sources add up to 1.
    #[serde(default)]
    pub weight: Option<f64>,
    /// True if it has said nothing usable for longer than it may: what it says now is worked out
    /// from before.
    #[serde(default)]
    pub holdover: bool,
    /// Proof of who made its replies, without which none is used.
    #[serde(default)]
    pub authentication: Authentication,
    /// Cookies that are left for requests to it, of a server that proves itself by NTS and has given keys. The engine
    /// knows of none: whoever keeps them adds this.
    #[serde(default)]
    pub cookies: Option<usize>,
    /// Algorithm that its requests and replies are proven by, likewise.
    #[serde(default)]
    pub aead: Option<String>,
    /// True if it has a vote on what time it is. One without is believed within what those vouch
    /// for that have one, unless it is unselectable.
    #[serde(default)]
    pub vote: bool,
    /// The last eight polls, newest in the lowest bit: 1 = a reply that was used, or is held off.
    pub reach: u8,
    /// Polls that `reach` tells of: eight, or as many as there have been.
    #[serde(default)]
    pub polls: u8,
    /// Seconds between requests.
    pub poll: u32,
    /// Time until a server is asked again that refuses service (`DENY`, `RSTR`), if it does and no
    /// other address of it does not.
    #[serde(default)]
    pub retry: Option<Span>,
    /// Time since the last such reply.
    pub last_reply: Option<Span>,
    /// The server's stratum.
    pub stratum: Option<u8>,
    /// The server's reference identifier, as text.
    pub reference: Option<String>,
    /// True if its last reply was in interleaved mode (RFC 9769).
    #[serde(default)]
    pub interleaved: bool,
    /// The server's leap indicator (0 none, 1 insert, 2 delete, 3 unsynchronised).
    pub leap: Option<u8>,
    /// The server's root distance: half its root delay plus its root dispersion.
    pub root_distance: Option<Span>,
    /// The last round trip, less the server's residence time.
    pub rtt: Option<Span>,
    /// Floor of the round trip just now, as far as is known.
    pub rtt_floor: Option<Span>,
    /// Published clock − this source's estimate: positive, the published clock is ahead of it. If
    /// what it says now is held off, that is what counts here. While there is no published clock
    /// another source takes its place: see `offset_to`.
    pub offset: Option<Span>,
    /// The source that `offset` is shown against; `None`: the published clock.
    #[serde(default)]
    pub offset_to: Option<String>,
    /// Bound of this source's own estimate now; if what it says now is held off, of that.
    pub bound: Option<Span>,
    /// Likely error of this source's own estimate, at `likely-confidence`: statistics with a prior,
    /// which promise nothing. `None` if they say no less than the bound.
    #[serde(default)]
    pub likely: Option<Span>,
    /// Standard uncertainty of this source's own estimate (statistical only).
    pub deviation: Option<Span>,
    /// Skew of the counter by this source; positive: the counter is fast.
    pub skew: Option<Rate>,
    /// Method by which the last request's departure was stamped.
    pub sent_method: Option<StampMethod>,
    /// Method by which the last reply's arrival was stamped.
    pub received_method: Option<StampMethod>,
    /// Error bound of those two stamps: departure, arrival.
    pub stamp_errors: Option<(Span, Span)>,
    /// Requests sent.
    pub requests: u64,
    /// Replies that the estimator accepted.
    pub accepted: u64,
    /// Requests that the server did not reply to in time.
    pub timeouts: u64,
    /// Refusals, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Difference between the two directions of its path, as the user declared.
    #[serde(default)]
    pub asymmetry: Option<Asymmetry>,
    /// Difference between them by its exchanges, while the published clock knows the time better
    /// than its path can tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learnt: Option<Learnt>,
    /// The newest trouble with this source, for people.
    pub trouble: Option<String>,
    /// Master of a PTP port, and what else is heard there; `None` of other sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ptp: Option<PtpReport>,
}

/// Reason for a source's status, or why the clock does not go along with its newest samples.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reason {
    /// In one word.
    pub kind: ReasonKind,
    /// For people.
    pub text: String,
    /// For how long it has been so.
    pub age: Span,
    /// By how much it is off, where that is known. Of a hold-off: its time − what was known,
    /// positive if it is ahead; without a majority: what lies between it and the nearest of those
    /// that it contradicts, > 0, none if it contradicts nobody; of the other kinds: what lies
    /// between it and the others, ≥ 0.
    pub by: Option<Span>,
    /// Number of its samples that have said so in a row, of a suspected step or drift.
    pub replies: Option<u32>,
    /// Span for which it must go on saying so to be believed, of a suspected step or drift
    /// (`accept-step-after`); zero: when a few more samples agree. `None`: until it agrees with the
    /// others again, or until the user's word or more servers' where that is what it takes; the clock
    /// would not follow it.
    pub left: Option<Span>,
}

/// The words for reasons (docs/reference/words.md).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReasonKind {
    /// Unreachable: its name cannot be looked up.
    NoAddress,
    /// Unreachable: there are no keys for it, without which nothing is asked.
    NoKeys,
    /// Unreachable: nothing usable came in answer to its requests.
    NoReply,
    /// Unreachable: it refuses service (`DENY`, `RSTR`).
    KissCode,
    /// Unreachable: it is not asked for now, by the user's word.
    Offline,
    /// Nothing usable came from it for longer than it may.
    Stale,
    /// Unselectable: only asked and shown, as configured.
    Noselect,
    /// Unselectable: it does not prove who it is, which is required.
    Unauthenticated,
    /// Candidate: no source that is authenticated or trusted has an estimate, and it is believed
    /// only within theirs.
    Unvouched,
    /// Unselectable: another source was heard from its address before.
    SameServer,
    /// Unselectable: it is asked beside a server of its pool, whose place it takes once it has answered.
    OnTrial,
    /// Unselectable: it smears a leap second, and votes; it has no part beside one that does not and agrees.
    LeapSmear,
    /// Falseticker: the user has accepted another, which it contradicts: no vote until it agrees.
    Overruled,
    /// Candidate: other servers have yet to answer.
    Waiting,
    /// Candidate: no majority agrees on anything.
    NoMajority,
    /// Falseticker: it, or what its newest samples say, is not where the majority agrees.
    Outvoted,
    /// Contradicts the one that leads.
    ContradictsSelected,
    /// Runs at another rate than a majority of the servers.
    RateDiffers,
    /// Within what the majority leaves open, but not where most of the others probably are.
    Outlier,
    /// Hold-off: its time has moved by more than it may, and stays there; what was known stands.
    StepSuspected,
    /// Hold-off: the same, and it moves on, by a rate that the counter is not known to have.
    DriftSuspected,
    /// Hold-off: servers alone would have moved the time by more than `max-step`.
    MaxStep,
    /// Hold-off: fewer servers than `min-sources` say so.
    MinSources,
    /// Hold-off: no source with `require` says so.
    Require,
    /// Hold-off: of a majority that says so too few are believed there yet.
    MajorityPending,
    /// Hold-off: a witness on this machine contradicts it.
    Implausible,
}

impl ReasonKind {
    /// True if the newest samples are held off: what was known before stands.
    #[must_use]
    pub const fn is_hold_off(self) -> bool {
        use ReasonKind::{
            DriftSuspected, Implausible, MajorityPending, MaxStep, MinSources, Require,
            StepSuspected,
        };
        matches!(
            self,
            StepSuspected
                | DriftSuspected
                | MaxStep
                | MinSources
                | Require
                | MajorityPending
                | Implausible
        )
    }
}

impl Reason {
    /// Reason of a source whose newest samples are held off, for that long; one that is `barred` is
    /// not believed by itself.
    pub(crate) fn held_off(hold_off: &HoldOff, barred: bool, age: Span) -> Reason {
        Reason {
            kind: match hold_off.steady {
                true => ReasonKind::StepSuspected,
                false => ReasonKind::DriftSuspected,
            },
            text: hold_off::in_short(hold_off),
            age,
            by: Some(hold_off.step),
            replies: Some(hold_off.exchanges),
            left: Some(hold_off.left).filter(|_| !barred),
        }
    }

    /// By the cause of its status, for that long.
    pub(crate) fn of(cause: &Cause, age: Span) -> Reason {
        let (kind, text, by) = (cause.kind(), cause.to_string(), cause.by());
        Reason { kind, text, age, by, replies: None, left: None }
    }
}

impl SourceReport {
    /// One that nothing is known of.
    #[must_use]
    pub fn new(name: String, kind: SourceKind) -> SourceReport {
        SourceReport {
            name,
            kind,
            address: None,
            pool: None,
            origin: Origin::Configuration,
            status: SourceStatus::Unreachable,
            reason: None,
            weight: None,
            holdover: false,
            authentication: Authentication::None,
            cookies: None,
            aead: None,
            vote: false,
            reach: 0,
            polls: 0,
            poll: 0,
            retry: None,
            last_reply: None,
            stratum: None,
            reference: None,
            interleaved: false,
            leap: None,
            root_distance: None,
            rtt: None,
            rtt_floor: None,
            offset: None,
            offset_to: None,
            bound: None,
            likely: None,
            deviation: None,
            skew: None,
            sent_method: None,
            received_method: None,
            stamp_errors: None,
            requests: 0,
            accepted: 0,
            timeouts: 0,
            refused: BTreeMap::new(),
            asymmetry: None,
            learnt: None,
            trouble: None,
            ptp: None,
        }
    }

    /// True if its newest samples are held off: what was known before stands.
    #[must_use]
    pub fn is_held_off(&self) -> bool {
        self.reason.as_ref().is_some_and(|reason| reason.kind.is_hold_off())
    }
}
