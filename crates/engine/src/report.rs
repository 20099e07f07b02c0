//! What `sources` and `status` show: a snapshot of the engine, as plain data.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use truechimer_feedforward::Doubt;
use truechimer_time::{Count, Rate, Span, StampMethod};
use truechimer_timehands::Hand;

use crate::config::Asymmetry;
use crate::why::Why;

/// The whole engine at one count.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// When it was made.
    pub at: Count,
    /// The hand in force, if any was published yet.
    pub hand: Option<Hand>,
    /// Measured skew of the counter against its nominal period; positive: the counter is fast.
    pub skew: Option<Rate>,
    /// Why the status is what it is, in one line.
    pub reason: String,
    /// The part of the statistical bound that is there only because it covers words that are held
    /// off as well.
    #[serde(default)]
    pub disputed: Option<Span>,
    /// Every source, in the order of the configuration.
    pub sources: Vec<SourceReport>,
}

/// What part a source has in the published time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selection {
    /// No estimate yet, or none that counts: too few sources have answered, or it is the same
    /// server as another source.
    Unusable,
    /// Only watched, as configured (`noselect`): it is asked and shown, and has no vote.
    Watched,
    /// Its interval does not meet the majority's, or what it says now does not; or it contradicts
    /// the one that the user has accepted, and has no vote until it agrees.
    Falseticker,
    /// There is no majority that agrees: nobody can say who is right.
    NoMajority,
    /// It smears a leap second, and others do not: it tells another time.
    Smeared,
    /// Agrees with the majority, and has no part in the published time.
    Truechimer,
    /// Has a part in the published time.
    Combined,
    /// The one that leads: the only one, or the one with the largest part in it. (Another has to
    /// have a much larger one to take its place.)
    Selected,
}

/// One source.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SourceReport {
    /// As configured: host and port, or the name of a pulse.
    pub name: String,
    /// Whether it is a pulse per second: requests are then edges, the round trip is the time that
    /// an edge may have happened in.
    #[serde(default)]
    pub is_pulse: bool,
    /// The address in use.
    pub address: Option<SocketAddr>,
    /// Its part in the published time.
    pub selection: Selection,
    /// Its share in where the published time stands, 0 to 1; those of all sources add up to 1.
    #[serde(default)]
    pub weight: Option<f64>,
    /// Why it has no part, for people, if it is not for want of an estimate.
    #[serde(default)]
    pub why: Option<String>,
    /// Whether it has said nothing usable for longer than it may: what it says now is worked out
    /// from before.
    #[serde(default)]
    pub holdover: bool,
    /// The last eight polls, newest in the lowest bit: 1 = a reply that was used, or is held off.
    pub reach: u8,
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
    /// The server's leap indicator (0 none, 1 insert, 2 delete, 3 unsynchronised).
    pub leap: Option<u8>,
    /// The server's root distance: half its root delay plus its root dispersion.
    pub root_distance: Option<Span>,
    /// The last round trip, less the server's residence time.
    pub rtt: Option<Span>,
    /// The smallest round trip of the recent past.
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
    /// Standard uncertainty of this source's own estimate (statistical only).
    pub deviation: Option<Span>,
    /// Skew of the counter by this source; positive: the counter is fast.
    pub skew: Option<Rate>,
    /// How the last request's departure was stamped.
    pub sent_method: Option<StampMethod>,
    /// How the last reply's arrival was stamped.
    pub received_method: Option<StampMethod>,
    /// Error bound of those two stamps: departure, arrival.
    pub stamp_errors: Option<(Span, Span)>,
    /// Requests sent.
    pub requests: u64,
    /// Replies that the estimator accepted.
    pub accepted: u64,
    /// Requests that the server did not reply to in time.
    pub timeouts: u64,
    /// What was refused, by reason.
    pub refused: BTreeMap<String, u64>,
    /// How the two directions of its path differ, as the user declared.
    #[serde(default)]
    pub asymmetry: Option<Asymmetry>,
    /// The newest trouble with this source, for people.
    pub trouble: Option<String>,
    /// Why the clock does not go along with what it says, if so.
    #[serde(default)]
    pub doubt: Option<Doubted>,
}

/// Why the clock does not go along with what a source says: for programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Doubted {
    /// Of which kind the doubt is.
    pub kind: DoubtKind,
    /// For how long it has been so.
    pub age: Span,
    /// By how much it is off, where that is known. Of a step or drift: its time − what is held,
    /// positive if it is ahead, and so where it is held; without a majority: what lies between it and the nearest of those
    /// that it contradicts, > 0, none if it contradicts nobody; of the other kinds: what lies
    /// between it and the others, ≥ 0.
    pub by: Option<Span>,
    /// How many of its replies have said so in a row, of a step or drift.
    pub replies: Option<u32>,
    /// How much longer it must go on saying so to be believed, of a step or drift
    /// (`accept-step-after`); zero: when a few more replies agree. `None`: until it agrees with the
    /// others again, or until the user's word or more servers' where that is what it takes.
    pub left: Option<Span>,
}

/// Kinds of doubt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DoubtKind {
    /// Its time has moved by more than it may, and stays there: what was known before is held.
    ServerStep,
    /// The same, and it moves on, by a rate that the counter is not known to have.
    ServerDrift,
    /// It, or what it says now, is not where the majority agrees, or where the one is that the user
    /// has accepted.
    Falseticker,
    /// No majority agrees on anything.
    NoMajority,
    /// It contradicts whoever is followed.
    Contradiction,
    /// It is within what the majority leaves open, but not where most of the others probably are.
    Improbable,
    /// It has said nothing usable for longer than it may.
    Silent,
    /// It smears a leap second, and others do not.
    Smear,
    /// It is further off what was known than the clock goes by itself (`max-step`), or too few say
    /// so (`min-sources`): what was known is held until the user's word, or more servers'.
    Held,
}

impl Doubted {
    /// What its estimator holds against it, for that long.
    /// One that is `barred` is not believed by itself.
    pub(crate) fn held(doubt: &Doubt, barred: bool, age: Span) -> Doubted {
        let kind = if doubt.steady { DoubtKind::ServerStep } else { DoubtKind::ServerDrift };
        let left = Some(doubt.left).filter(|_| !barred);
        let (by, replies) = (Some(doubt.step), Some(doubt.exchanges));
        Doubted { kind, age, by, replies, left }
    }

    /// Why it has no part, for that long.
    pub(crate) fn of(why: &Why, age: Span) -> Doubted {
        Doubted { kind: why.kind(), age, by: why.by(), replies: None, left: None }
    }
}
