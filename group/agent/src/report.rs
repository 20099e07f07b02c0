//! Report of an agent on a member, for tools: one JSON object.

use serde::{Deserialize, Serialize};

use crate::notices::Noticed;

/// State of things at one member. Counts are since the agent took the member's place; times are in
/// ns, group times and UTC since 1970.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The agent's version.
    pub version: String,
    /// Process of the agent.
    pub pid: u32,
    /// Time since the agent took the member's place, ns.
    pub uptime_ns: i64,
    /// The group.
    pub group: GroupReport,
    /// Member that reports.
    pub member: u32,
    /// Carrier of the group's messages: `corosync` or `local`.
    pub transport: String,
    /// True if the transport is connected now.
    pub connected_to_transport: bool,
    /// Number of times that the transport was connected.
    pub transport_joins: u64,
    /// `outside`, `joining` or `live`.
    pub phase: String,
    /// For how long nothing has been delivered though messages of this member are under way, ns;
    /// if that is longer than it should be.
    pub stalled_ns: Option<i64>,
    /// True if the group's clock is tied to UTC: a majority of the members knew it once.
    pub tied: bool,
    /// True if programs here get times: if not, they wait until those are tied to UTC.
    pub timed: bool,
    /// True if more than half of the group's members are connected.
    pub primary: bool,
    /// Which primary component, from 1.
    pub generation: u64,
    /// Messages delivered since the group began.
    pub index: u64,
    /// The nodes that are connected.
    pub connected: Vec<u32>,
    /// Members that have asked to be let in and have not been yet.
    pub asking: Vec<u32>,
    /// The members.
    pub members: Vec<MemberReport>,
    /// The live member that proposes first: in the modes semi-active and passive, the only one that
    /// proposes.
    pub first: Option<u32>,
    /// The last change of it in those modes, as far as this member has seen one.
    pub handover: Option<HandoverReport>,
    /// The synchronizers of the last rounds, the newest last.
    pub recent_synchronizers: Vec<u32>,
    /// The last value agreed on.
    pub last: Option<ValueReport>,
    /// This member's own view of the group's clock at this moment. Not an agreed value.
    pub view_ns: Option<i64>,
    /// The algorithm's offset: the view − the physical clock, ns.
    pub offset_ns: Option<i64>,
    /// The view − UTC by this member's clock, ns; positive: the group's clock is ahead.
    pub ahead_of_utc_ns: Option<i64>,
    /// UTC by this member's clock was not farther from its best estimate, ns.
    pub utc_bound_ns: Option<i64>,
    /// Largest possible distance of the group's clock from UTC, by this member's view of the one
    /// and its clock for the other, ns.
    pub error_bound_ns: Option<i64>,
    /// Where UTC comes from, or why there is none.
    pub utc: String,
    /// Rate of the group's clock above that of the physical clocks, by steering, parts in 10⁹.
    pub steering_ppb: i64,
    /// Counts.
    pub counts: Counts,
    /// Things that wait.
    pub waiting: Waiting,
    /// The threads that are least up to date here, at most [`MOST_THREADS`].
    pub threads: Vec<ThreadReport>,
    /// Number of threads.
    pub thread_count: usize,
    /// The program and what reads here.
    pub programs: Programs,
    /// The group's clock was never ahead of this, as is on the disk, ns.
    pub floor_ns: Option<i64>,
    /// Notices for the operator.
    pub notices: Vec<Noticed>,
}

/// The most threads in a [`Report`].
pub const MOST_THREADS: usize = 32;

/// Facts that the members have in common.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each is its namesake in the configuration")]
pub struct GroupReport {
    pub name: String,
    pub members: Vec<u32>,
    pub mode: String,
    pub order: String,
    pub rotate: bool,
    pub steering_cap_ppb: u32,
    pub steering_time_ns: u64,
    pub horizon_ns: u64,
    pub lease_ns: u64,
    pub causal_horizon_ns: u64,
    /// The digest of all of them, which must be the same at all members.
    pub digest: String,
}

/// Change of the primary.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HandoverReport {
    /// The former one.
    pub from: u32,
    /// The next one.
    pub to: u32,
    /// `left`, `ended`, `began`, `drained`, `suspect` or `operator`.
    pub cause: String,
    /// The cause in words.
    pub why: String,
    /// Age of the change, ns.
    pub ago_ns: i64,
}

/// A member as seen from here.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MemberReport {
    /// Node of the member.
    pub member: u32,
    /// True if it only observes.
    pub observer: bool,
    /// True if it is connected.
    pub connected: bool,
    /// True if it takes part.
    pub live: bool,
    /// Mark of a member that is connected and stands apart, with other settings or another version of
    /// the protocol.
    pub apart: Option<ApartReport>,
    /// True if its clock contradicts the majority's.
    pub suspect: bool,
    /// View that it has of the group's clock − UTC by its clock, ns, as last reported; positive:
    /// the group's clock is ahead.
    pub ahead_of_utc_ns: Option<i64>,
    /// Age of its last report by the group's clock, ns.
    pub report_age_ns: Option<i64>,
    /// Rounds that it was the synchronizer of.
    pub won: u64,
    /// Place in the order in which the live members propose, from 0.
    pub rank: Option<usize>,
    /// True if its program reads; also where its agent does not tell of programs, as with
    /// checkpoints.
    pub program: bool,
    /// True if an operator has drained it.
    pub drained: bool,
    /// Mark of a program that has missed something or differs, and gets nothing until it is
    /// started anew.
    pub fenced: bool,
    /// Difference of its program from others'.
    pub differs: Option<DifferenceReport>,
}

/// A member that is connected and stands apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ApartReport {
    /// Version of the protocol that it speaks; none: it speaks ours, and has other settings.
    pub version: Option<u16>,
    /// True if it was live in a group of its own at its last word.
    pub live: bool,
}

/// First known difference of a program from others.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DifferenceReport {
    /// Which thread.
    pub thread: String,
    /// Which of its rounds.
    pub round: u64,
    /// Call by which this program has read it.
    pub call: String,
    /// Call by which a majority has; of a program that is not fenced, call that it was agreed for.
    pub others: String,
    /// The group's time when this was known, ns.
    pub since_ns: i64,
}

/// A value of the group's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ValueReport {
    /// The time, ns.
    pub time_ns: i64,
    /// Largest possible distance of the group's clock from UTC when the synchronizer read its
    /// clocks, ns.
    pub error_bound_ns: Option<i64>,
    /// UTC was not before this when the synchronizer read its clocks, ns. That is no interval
    /// around `time_ns`, which may lie outside it.
    pub utc_earliest_ns: Option<i64>,
    /// Nor after this, ns.
    pub utc_latest_ns: Option<i64>,
    /// Member whose proposal it was.
    pub synchronizer: u32,
}

/// Counts at this member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Rounds decided.
    pub rounds: u64,
    /// Messages sent, of all kinds.
    pub messages_sent: u64,
    /// Messages delivered, foreign ones too.
    pub messages_delivered: u64,
    /// Foreign or broken messages delivered.
    pub foreign: u64,
    /// Proposals for rounds sent.
    pub proposals_sent: u64,
    /// Operations that needed no proposal from here.
    pub suppressed: u64,
    /// Proposals delivered for rounds that had been decided.
    pub duplicates: u64,
    /// Proposals that were cut.
    pub cuts: u64,
    /// Reports of clocks delivered.
    pub reports: u64,
    /// Number of times that this member had missed part of the stream.
    pub gaps: u64,
    /// Number of times that it has asked to be let in.
    pub joins_sent: u64,
    /// Number of times that it has heard itself ask, while it was not live.
    pub joins_heard: u64,
    /// Parts of a state that came for it, in answer to that.
    pub state_parts: u64,
    /// And such as were made for an earlier request or at another place of the stream.
    pub state_parts_unfit: u64,
    /// Messages for the program while there was none.
    pub unheard: u64,
}

/// Things that wait at this member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Waiting {
    /// Operations for a value, or for a majority to have it.
    pub operations: usize,
    /// For how long the program's oldest operation has waited, ns.
    pub longest_ns: Option<i64>,
    /// True where that is a reading of the time at present.
    #[serde(default)]
    pub longest_is_now: bool,
    /// Replies for a majority.
    pub commits: usize,
    /// Messages to be sent.
    pub messages: usize,
    /// Causal messages for the group's clock.
    pub causal: usize,
    /// Values for threads that have not read them.
    pub values: usize,
    /// Values for the disk to keep a floor.
    pub disk: usize,
}

/// A thread.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ThreadReport {
    /// Number in hexadecimal, as in all that is shown; a program's first thread is 10.
    pub thread: String,
    /// Rounds that were read here.
    pub read: u64,
    /// Rounds that the group has decided.
    pub decided: u64,
    /// Decided and not read here.
    pub surplus: u64,
    /// True if an operation waits here.
    pub waits: bool,
}

/// Programs attached here.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Programs {
    /// True if the member's program is here, which takes part in the group's messages.
    pub program: bool,
    /// True if the member leaves the group while its program is not here, as with checkpoints its
    /// state is the program's.
    pub wanted: bool,
    /// The family of processes that reads here, in hexadecimal: another one is not let in.
    pub family: Option<String>,
    /// The processes that are attached, at most [`MOST_PROCESSES`].
    pub processes: Vec<ProcessReport>,
    /// True if it has missed part of the group's stream, and gets no values until it is started
    /// anew.
    pub missed: bool,
    /// Start of the program among those of the other members: `waits` for them, `together` with
    /// them, or `late`, while they were running; empty where that is not known, or there is none.
    pub began: String,
    /// The members whose programs have gone on since the one here ended.
    pub left_behind_by: Vec<u32>,
    /// Attachments so far.
    pub attached: u64,
    /// Attachments refused.
    pub refused: u64,
    /// Attachments cut off.
    pub cut_off: u64,
    /// Reads that came.
    pub reads: u64,
    /// Reads answered.
    pub answers: u64,
    /// Reads of dead processes.
    pub reclaimed: u64,
}

/// A process that is attached.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProcessReport {
    /// Number of the process, as the agent sees it; 0 if it cannot.
    pub pid: u32,
    /// Name of the process; empty if that is not known.
    pub name: String,
    /// True if it takes part in the group's messages.
    pub messages: bool,
    /// Readings, those of its forked children included.
    pub reads: u64,
}

/// The most processes in a [`Report`].
pub const MOST_PROCESSES: usize = 16;

impl Report {
    /// True if this member gives times: it is live, its messages come through, and programs get
    /// times. Other things that are not as they should be: [`Report::troubles`].
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.phase == "live" && self.stalled_ns.is_none() && self.timed
    }

    /// One line of JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Plain structs of numbers and text: nothing in them can fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// From what an agent said.
    ///
    /// # Errors
    /// If it is not one of ours, or of another version.
    pub fn from_json(text: &str) -> Result<Report, String> {
        serde_json::from_str(text).map_err(|why| why.to_string())
    }
}
