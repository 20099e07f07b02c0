//! Messages between members, as plain structs; [`wire`](crate::wire) turns them into bytes.

use crate::compared::Compared;
use crate::digest::Digest;
use crate::joining::Joined;
use crate::steer::Steering;
use crate::types::{
    Agreed, Bound, Call, Fence, GroupTime, Member, Point, Post, Round, Thread, Utc,
};

/// The most entries of one message.
pub(crate) const MOST_ENTRIES: usize = 1024;
/// The longest part of a state, bytes.
pub(crate) const LONGEST_PART: usize = 60 << 10;
/// The most parts of a state (960 MiB).
pub(crate) const MOST_PARTS: u32 = 16_384;
/// The most logical threads whose rounds a group remembers.
pub(crate) const MOST_THREADS: usize = 65_536;
/// The most members that may be live or joining at a time, observers included.
pub(crate) const MOST_MEMBERS: usize = 1024;
/// The most causal messages that are held at a time.
pub(crate) const MOST_HELD: usize = 4096;
/// The most bytes of payload in all held causal messages together.
pub(crate) const MOST_HELD_BYTES: usize = 8 << 20;

/// One message of the group's stream.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Message {
    /// Digest of the settings that all members have in common.
    pub(crate) group: u64,
    /// Which life of its sender it comes from.
    pub(crate) incarnation: u64,
    /// Place up to which the sender had delivered when it sent this; an acknowledgement. All 0 if
    /// it is not live.
    pub(crate) point: Point,
    /// Digest of what that has come to, step by step. 0 if it is not live.
    pub(crate) history: u64,
    /// True if the sender has heard more than half of the universe as live members of
    /// `point.generation`: only then does `point` count as an acknowledgement.
    pub(crate) established: bool,
    /// Contents, in this order; at most [`MOST_ENTRIES`]. May be empty: the header itself is an
    /// acknowledgement.
    pub(crate) entries: Vec<Entry>,
}

impl Message {
    /// Tells apart the places of the stream at which newcomers and states made for them meet.
    ///
    /// How many messages came before is no good for that: with Corosync it may be one more at some
    /// members than at others. The messages at those places are joins, and of these each life of a
    /// member numbers every one that it sends.
    pub(crate) fn mark(from: Member, message: Option<&Message>) -> u64 {
        let mut digest = Digest::default();
        digest.number(from.0.into());
        if let Some(message) = message {
            digest.number(message.incarnation);
            digest.number(message.point.generation);
            digest.number(message.point.index);
            if let Some(Entry::Join(join)) = message.entries.first() {
                digest.number(join.number);
                digest.number(join.attempt);
            }
        }
        digest.0
    }
}

/// One thing that a message says.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Entry {
    /// A value for a thread's round.
    Propose(Proposal),
    /// A program's message.
    User(User),
    /// Lets the sender in.
    Join(Join),
    /// A part of the state for a member that joins.
    State(Part),
    /// Report of the sender's clock.
    Report(Report),
    /// The sender asks everybody for an acknowledgement of this place.
    Ask(Point),
    /// The sender takes part no longer, though it is still connected.
    Leave,
    /// A part of the state of the primary's program, for the backups' log to begin from.
    Checkpoint(Piece),
    /// Fate of the sender's program.
    Program(Program),
    /// Those that wait since this value of the group's clock wait no longer.
    Begin(GroupTime),
    /// An operator's word on where a member stands in the order.
    Shift(Shift),
    /// A call by which the sender's program has read a round.
    Vote(Vote),
}

/// A call by which the sender's program has read a round that programs have read unlike.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Vote {
    /// Which of the sender's programs: number as in [`Program`].
    pub(crate) serial: u64,
    /// Which thread.
    pub(crate) thread: Thread,
    /// Which of its rounds.
    pub(crate) round: Round,
    /// Place of the stream at which that was decided.
    pub(crate) at: Point,
    /// Call that it was decided for.
    pub(crate) decided: Call,
    /// Call of the sender's program; none: it has not read the round, and will not.
    pub(crate) call: Option<Call>,
}

/// A round that programs have read unlike.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Contest {
    /// Which thread.
    pub(crate) thread: Thread,
    /// Which of its rounds.
    pub(crate) round: Round,
    /// Place of the stream at which that was decided.
    pub(crate) at: Point,
    /// Call that it was decided for.
    pub(crate) decided: Call,
    /// The group's time when this was found.
    pub(crate) since: GroupTime,
    /// The programs' votes, ascending by member.
    pub(crate) ballots: Vec<Ballot>,
}

/// A program's vote.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Ballot {
    /// At which member.
    pub(crate) member: Member,
    /// Which of its programs.
    pub(crate) serial: u64,
    /// Call as in [`Vote`].
    pub(crate) call: Option<Call>,
}

/// An operator's word on where a member stands in the order of those that propose.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Shift {
    /// The sender's number for it.
    pub(crate) token: u64,
    /// Member concerned.
    pub(crate) member: Member,
    /// Where to.
    pub(crate) to: Post,
}

/// Fate of the sender's program.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Program {
    /// Number of times that its program has started or ended, in this life of the sender.
    pub(crate) serial: u64,
    /// Stage that it has come to.
    pub(crate) stage: Stage,
    /// Number with which it wants to begin; 0: with all that are live.
    pub(crate) together: u8,
    /// The proposal that rides on it: no value of a program that starts here is older.
    pub(crate) time: Time,
    /// Difference for which it is fenced.
    pub(crate) fence: Option<Fence>,
}

/// Stage that a member's program has come to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub(crate) enum Stage {
    /// There is none.
    #[default]
    None = 0,
    /// Started, and waiting for the others.
    Waits = 1,
    /// Reading.
    Runs = 2,
    /// There, and without values until it begins anew: it has missed something, or differs.
    Fenced = 3,
}

/// A live member's program, as all know it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Run {
    /// Number as in [`Program`]; 0: nothing was said of it.
    pub(crate) serial: u64,
    /// Stage that it has come to.
    pub(crate) stage: Stage,
    /// Number as in [`Program`].
    pub(crate) together: u8,
    /// The value of the group's clock at its start.
    pub(crate) since: GroupTime,
}

impl Run {
    /// Serial of it, if the program has begun and not ended.
    pub(crate) fn running(self) -> Option<u64> {
        (self.stage == Stage::Runs && self.serial > 0).then_some(self.serial)
    }

    /// True if there is a program that reads; also where nothing was said of any.
    pub(crate) fn is_there(self) -> bool {
        (self.serial == 0 && self.stage == Stage::None) || self.stage == Stage::Runs
    }
}

/// A part of a [`Checkpoint`] that the primary gives of its own accord.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Piece {
    /// Which part, from 0.
    pub(crate) part: u32,
    /// Number of them; at most [`MOST_PARTS`].
    pub(crate) parts: u32,
    /// A piece of an encoded [`Checkpoint`]; at most [`LONGEST_PART`] bytes.
    pub(crate) bytes: Vec<u8>,
}

/// A value for a thread's round.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Proposal {
    /// Which thread.
    pub(crate) thread: Thread,
    /// Which of its rounds.
    pub(crate) round: Round,
    /// By which call.
    pub(crate) call: Call,
    /// The proposed time.
    pub(crate) time: Time,
}

/// A proposed time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Time {
    /// The proposer's view of the group's clock, ns.
    pub(crate) group: i64,
    /// UTC by the proposer's clock at that moment, if synchronised.
    pub(crate) utc: Option<Bound>,
    /// The group's last value that the proposer knew, ns.
    pub(crate) last: i64,
}

/// A program's message.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct User {
    /// The sender's number for it.
    pub(crate) token: u64,
    /// The proposal that rides on it.
    pub(crate) time: Time,
    /// For a message from another group: that group's time when it was sent, ns.
    pub(crate) stamp: Option<i64>,
    /// Contents, at most [`LARGEST_PAYLOAD`](crate::LARGEST_PAYLOAD) bytes.
    pub(crate) payload: Vec<u8>,
}

/// Lets its sender in.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Join {
    /// Number of times that this life of the sender has been let in (or may have been), and 1:
    /// a join that is
    /// not greater than the one by which it was let in is a stale one.
    pub(crate) number: u64,
    /// Number of joins that this life of the sender has sent, this one counted.
    pub(crate) attempt: u64,
    /// Rest of the group's state that the sender still has.
    pub(crate) standing: Option<Standing>,
    /// The group's clock was never ahead of this, as far as the sender ever kept, ns.
    pub(crate) floor: Option<i64>,
    /// Report of the sender's clock; none if it has neither UTC nor a view of the group's clock.
    pub(crate) report: Option<Report>,
    /// True if it wants a checkpoint of the program.
    pub(crate) checkpoint: bool,
    /// True if an operator has drained it.
    pub(crate) drained: bool,
    /// Difference for which its program was fenced, of which it has not been rid since.
    pub(crate) fence: Option<Fence>,
}

/// Rest of the group's state that a member that is not live still has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Standing {
    /// The group's time when it began: tells beginnings apart.
    pub(crate) epoch: i64,
    /// The last generation in which it heard more than half of the universe as live members.
    pub(crate) established: u64,
    /// The greatest place that any message delivered to it acknowledged in its last generation.
    pub(crate) confirmed: u64,
    /// Where its state stands.
    pub(crate) point: Point,
    /// Digest of what that has come to, step by step, as in [`Message`].
    pub(crate) history: u64,
    /// True if more than half of the universe have gone another way: what it has from there on no
    /// majority has acknowledged.
    pub(crate) outnumbered: bool,
    /// The group's last value that it knows, ns.
    pub(crate) last: i64,
    /// Digest of its state.
    pub(crate) digest: u64,
}

/// A part of the state for a member that joins. The last part decides the joining round.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Part {
    /// Member that joins.
    pub(crate) joiner: Member,
    /// In which life.
    pub(crate) incarnation: u64,
    /// By which of its joins.
    pub(crate) number: u64,
    /// And which sending of it: a state that was made in an earlier configuration may come in this
    /// one, and must not be taken for an answer.
    pub(crate) attempt: u64,
    /// The place in the stream at which the state was taken: the [mark](Message::mark) of the
    /// message that was delivered there.
    pub(crate) at: u64,
    /// Which part, from 0.
    pub(crate) part: u32,
    /// Number of them; at most [`MOST_PARTS`].
    pub(crate) parts: u32,
    /// The proposal for the joining round.
    pub(crate) time: Time,
    /// A piece of an encoded [`Transfer`]; at most [`LONGEST_PART`] bytes.
    pub(crate) bytes: Vec<u8>,
}

/// All that a newcomer gets.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Transfer {
    /// The replicated state.
    pub(crate) snapshot: Snapshot,
    /// Members that had asked to be let in by then and had not been, ascending.
    pub(crate) joins: Vec<(Member, Joined)>,
    /// The program's, if the newcomer wants it.
    pub(crate) checkpoint: Option<Checkpoint>,
}

/// The program's state.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Checkpoint {
    /// Bytes as the program made them.
    pub(crate) data: Vec<u8>,
    /// Number of rounds that each thread had read.
    pub(crate) position: Vec<(Thread, Round)>,
    /// Values that had been agreed on at the snapshot's place and that the program had not read.
    pub(crate) values: Vec<Kept>,
}

/// A value that has been agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Kept {
    /// For which thread.
    pub(crate) thread: Thread,
    /// For which of its rounds.
    pub(crate) round: Round,
    /// The synchronizer's call.
    pub(crate) call: Call,
    /// The value.
    pub(crate) value: Agreed,
}

/// Report of a member's clock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Report {
    /// The member's own view of the group's clock, ns.
    pub(crate) view: i64,
    /// UTC by its clock at the same instant, if synchronised.
    pub(crate) utc: Option<Utc>,
    /// And how that stands to the others'; nothing of that in a join.
    pub(crate) compared: Compared,
}

impl Report {
    /// True if this member's clock has moved against its view of the group's since that report by
    /// more than both of its bounds allow.
    pub(crate) fn is_set_since(&self, before: &Report) -> bool {
        let gain = |report: &Report| {
            let utc = report.utc?;
            let width = i128::from(utc.bound.latest) - i128::from(utc.bound.earliest);
            Some((i128::from(utc.best) - i128::from(report.view), width))
        };
        gain(self).zip(gain(before)).is_some_and(|((now, a), (then, b))| {
            (now - then).abs() > a + b + i128::from(crate::steer::SPREAD_NS)
        })
    }

    /// One of a member that has heard nobody.
    pub(crate) fn of(view: i64, utc: Option<Utc>) -> Report {
        Report { view, utc, compared: Compared::default() }
    }
}

/// The replicated state, the same at every live member at the same place of the stream.
/// All lists ascend by member or thread, but `held`, which is in stream order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Snapshot {
    /// The group's time when it began, ns.
    pub(crate) epoch: i64,
    /// Where in the stream.
    pub(crate) point: Point,
    /// The last value of the group's clock (with what leases reserved), ns.
    pub(crate) last: i64,
    /// Digest of all that made it.
    pub(crate) history: u64,
    /// True if the clock has been set by the members' UTC since the group began.
    pub(crate) tied: bool,
    /// State of the clock's steering.
    pub(crate) steering: Steering,
    /// Live members (observers too).
    pub(crate) live: Vec<Peer>,
    /// The newest time that most members' reports have borne out, ns.
    pub(crate) vouched: Option<i64>,
    /// The next round of a thread that is not known.
    pub(crate) base: u64,
    /// Places of the threads that there are.
    pub(crate) threads: Vec<(Thread, Progress)>,
    /// Causal messages that wait.
    pub(crate) held: Vec<Held>,
    /// Rounds that programs have read unlike.
    pub(crate) contests: Vec<Contest>,
}

/// Place of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Progress {
    /// Next round of it.
    pub(crate) next: u64,
    /// At which message of the stream its last one was decided.
    pub(crate) at: u64,
}

/// A live member.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Peer {
    /// Member concerned.
    pub(crate) member: Member,
    /// Which life.
    pub(crate) incarnation: u64,
    /// By which of its joins it was let in.
    pub(crate) number: u64,
    /// At which message of the stream.
    pub(crate) since: u64,
    /// Place among those with a program that an operator has not drained: the least is the primary
    /// of the modes semi-active and passive. The message of the stream at which it was let in, its
    /// program began or it was demoted; one promoted is put before all others.
    pub(crate) place: i64,
    /// True if an operator has drained it.
    pub(crate) drained: bool,
    /// True if its program can give a checkpoint.
    pub(crate) gives: bool,
    /// True if its clock contradicts the majority's.
    pub(crate) suspect: bool,
    /// Last report of it.
    pub(crate) report: Option<Report>,
    /// Program of it.
    pub(crate) run: Run,
    /// Difference for which that is fenced.
    pub(crate) fence: Option<Fence>,
}

/// A causal message that waits until the group's clock has reached its stamp (or until those before
/// it from the same sender are released).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Held {
    /// Sender.
    pub(crate) from: Member,
    /// The sender's number for it.
    pub(crate) token: u64,
    /// The sending group's time, if it came from another group.
    pub(crate) stamp: Option<i64>,
    /// Contents.
    pub(crate) payload: Vec<u8>,
}
