//! The engine's doors: what happens to a member, and what it wants done.

use core::fmt;

use crate::types::{Agreed, Call, Fence, Member, Phase, Point, Post, Round, Thread};

/// Happenings at a member. Each comes with a [`Reading`](crate::Reading) of the moment.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Event<'a> {
    /// A thread reads the clock. It has at most one operation at a time.
    Read {
        /// Which thread.
        thread: Thread,
        /// By which call.
        call: Call,
    },
    /// The thread's patience is at an end: it gets no value, and the round counts as read.
    Abandon {
        /// Which thread.
        thread: Thread,
    },
    /// A program sends a message into the group's order, with a proposal riding on it.
    Multicast {
        /// The sender's own number for it.
        token: u64,
        /// Contents; at most [`LARGEST_PAYLOAD`] bytes.
        payload: &'a [u8],
        /// If it comes from another group: what that group's clock said when it was sent, ns.
        stamp: Option<i64>,
    },
    /// A reply that depends on the group's state up to there wants to leave the group: asks to be
    /// told when a majority has that.
    Commit {
        /// The asker's own number for it.
        token: u64,
        /// The place of what the reply depends on.
        point: Point,
    },
    /// A message of the group's stream, in order, our own included.
    Delivered {
        /// Sender, by the transport's word.
        from: Member,
        /// The message.
        bytes: &'a [u8],
    },
    /// The transport's configuration changed. Comes in order with the messages.
    Configuration {
        /// Members connected now, ourselves included.
        members: &'a [Member],
        /// Members that have left because their node or the network is gone (not by their own will,
        /// and not only their process).
        lost: &'a [Member],
    },
    /// A second opinion: whether the layer below takes this node to be part of the majority.
    Quorum {
        /// Word of the layer below.
        quorate: bool,
    },
    /// The program here has made the checkpoint that [`Action::TakeCheckpoint`] asked for; or, in
    /// the passive mode at the primary, one of its own accord: the backups' programs that take
    /// checkpoints get it by [`Action::InstallCheckpoint`], and their log of values begins there.
    Checkpoint {
        /// For which join; 0 for one of its own accord.
        join: u64,
        /// The program's state.
        data: &'a [u8],
        /// Number of rounds that each thread has read at that point.
        position: &'a [(Thread, Round)],
    },
    /// A program starts here, as one of a service's replicas. It has its first value when it
    /// [begins](Action::Begun): its reads wait until then. Where no program's start is ever told,
    /// whatever reads is taken to be there since the group began.
    Start {
        /// With how many in all (itself counted, at most all members) it is to begin; 0: with all
        /// live members, or with as many as have started in time
        /// ([`gather_ns`](crate::Own::gather_ns)).
        together: u8,
    },
    /// The program here has ended.
    End,
    /// An operator says where a member is to stand in the order of those that propose: answered by
    /// [`Action::Shifted`].
    Shift {
        /// The asker's own number for it.
        token: u64,
        /// Member concerned.
        member: Member,
        /// Where to.
        to: Post,
    },
    /// The program here has taken over the checkpoint of [`Action::InstallCheckpoint`].
    Installed,
    /// The program here has missed part of the stream, or is fenced: it gets nothing, and counts as
    /// none, until it is [restarted](Event::Restarted).
    Missed,
    /// A new program starts here without a checkpoint: its threads go on where the group's are.
    Restarted,
    /// The time that the engine's deadline asked for has come (coming early or late does no harm).
    Timer,
}

/// The longest payload of one message, bytes.
pub const LARGEST_PAYLOAD: usize = 256 << 10;

/// Actions that a member wants done, in this order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Multicast this in the group's order.
    Send(Vec<u8>),
    /// The thread's operation is done.
    Return {
        /// Which thread.
        thread: Thread,
        /// Which of its rounds.
        round: Round,
        /// The value.
        value: Agreed,
    },
    /// The thread's operation fails.
    Reject {
        /// Which thread.
        thread: Thread,
        /// Reason.
        why: Rejection,
    },
    /// A message for the program here, with the time of its delivery.
    Deliver {
        /// Sender.
        from: Member,
        /// The sender's number for it.
        token: u64,
        /// Contents.
        payload: Vec<u8>,
        /// The group's time at its delivery.
        time: Agreed,
        /// The last value that reads during its processing may have without a round.
        lease_end: i64,
        /// The sending group's time, for a message from another group.
        stamp: Option<i64>,
    },
    /// A message that we sent was refused everywhere alike.
    Refused {
        /// Our number for it.
        token: u64,
        /// Reason.
        why: Refusal,
    },
    /// A majority has what [`Event::Commit`] asked about.
    Committed {
        /// The asker's number for it.
        token: u64,
    },
    /// That place is lost: the reply must not be sent.
    Uncommitted {
        /// The asker's number for it.
        token: u64,
    },
    /// Keep durably, before anything that comes after it takes effect: the group's clock will not
    /// be ahead of this, ns.
    Keep {
        /// The new floor.
        floor: i64,
    },
    /// The program here is to make a checkpoint when it has processed all messages before this.
    TakeCheckpoint {
        /// For which join.
        join: u64,
    },
    /// The program here is to start from this checkpoint.
    InstallCheckpoint {
        /// The program's state at the member that gave it.
        data: Vec<u8>,
        /// Number of rounds that each thread had read at that point.
        position: Vec<(Thread, Round)>,
    },
    /// The program that [started](Event::Start) here begins, at the same place of the stream as
    /// those that started with it: its rounds are those that are agreed on from here on, the same
    /// at each of them, with values that are later than all of their starts.
    Begun {
        /// The members whose programs were running already, ascending: they have read rounds that
        /// this one has not, and have a state that it lacks. Empty: it lacks nothing.
        running: Vec<Member>,
    },
    /// Outcome of [`Event::Shift`].
    Shifted {
        /// The asker's number for it.
        token: u64,
        /// Success if it has taken effect, at each member alike.
        outcome: Result<(), Unshifted>,
    },
    /// Where this member stands has changed. After [`Phase::Outside`] the program here has missed
    /// part of the stream.
    Phase(Phase),
    /// Something that the operator should know.
    Notice(Notice),
}

/// Reason why an operation gets no value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rejection {
    /// This member is outside the primary component.
    Outside,
    /// The thread is so far behind that its values had to be forgotten: only a checkpoint helps.
    Behind,
    /// The thread has an operation already.
    Busy,
    /// More threads wait, or gave up, at once than can be; or the number is none of a program's.
    TooManyThreads,
    /// This member is an observer.
    Observer,
    /// This member was out of the majority and others may have gone on: the program has not seen
    /// what they did. Said by those who know the programs (see
    /// [`Engine::gaps`](crate::Engine::gaps)); by the engine only where the primary's checkpoint
    /// takes the place of a backup's program.
    Missed,
    /// Too many wait for time that is tied to UTC. Said by those who know the programs.
    Full,
}

/// Reason why an operator's word has not taken effect; each with its number on the link between
/// agents and programs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Unshifted {
    /// This member is outside the primary component; or it left that before it had the answer, and
    /// whether the word has taken effect is not known.
    Outside = 1,
    /// This member is an observer.
    Observer = 2,
    /// Too many wait.
    Busy = 3,
    /// The member concerned is none of the group's live ones.
    NotLive = 4,
    /// In the mode active there is no primary.
    NoPrimary = 5,
    /// The member concerned has no program.
    NoProgram = 6,
    /// A clock that contradicts the majority's.
    Suspect = 7,
    /// No other member has a program and is not drained.
    NobodyElse = 8,
    /// Whoever asks may not: said by those who know who asks, never by the engine.
    Denied = 9,
}

impl Unshifted {
    /// The one with this number.
    pub fn of(number: u8) -> Option<Unshifted> {
        use Unshifted::*;
        [Outside, Observer, Busy, NotLive, NoPrimary, NoProgram, Suspect, NobodyElse, Denied]
            .into_iter()
            .find(|why| *why as u8 == number)
    }
}

impl fmt::Display for Unshifted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Unshifted::Outside => {
                "the member that was asked is not in the majority: look at the group's status when it is back, as the word may have reached the others"
            }
            Unshifted::Observer => "the member that was asked only observes: ask another's agent",
            Unshifted::Busy => "too many such words are under way: try again",
            Unshifted::NotLive => "that member is not live",
            Unshifted::NoPrimary => "in the mode active there is no primary",
            Unshifted::NoProgram => "that member has no program that reads: start one first",
            Unshifted::Suspect => "that member's clock contradicts the majority's",
            Unshifted::NobodyElse => {
                "no other member could take over: none has a program and is not drained"
            }
            Unshifted::Denied => "only root and the agent's own user may",
        })
    }
}

/// Change of the primary, as a member has seen it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handover {
    /// Former primary.
    pub from: Member,
    /// Next one.
    pub to: Member,
    /// Reason.
    pub cause: Cause,
    /// Time since the change, by this member's physical clock, ns.
    pub ago_ns: i64,
}

impl Handover {
    /// True if it is the same change, whenever it was.
    pub fn is_same(&self, other: &Handover) -> bool {
        Handover { ago_ns: other.ago_ns, ..*self } == *other
    }
}

/// Reason, in words.
impl fmt::Display for Handover {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = self.from;
        match self.cause {
            Cause::Left => write!(out, "member {from} is gone"),
            Cause::Ended => write!(out, "the program of member {from} has ended"),
            Cause::Began => write!(out, "member {from} had no program"),
            Cause::Drained => write!(out, "an operator has drained member {from}"),
            Cause::Suspect => write!(out, "the clock of member {from} contradicts the majority's"),
            Cause::Operator => write!(out, "an operator has taken that from member {from}"),
            Cause::Fenced => {
                write!(
                    out,
                    "the program of member {from} is fenced: it has missed something, or differs"
                )
            }
        }
    }
}

/// Reason why another member became the primary; each with its number in the memory that programs
/// see.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Cause {
    /// The former is not live any more: its agent or node is gone, or the network to it.
    Left = 1,
    /// A program that has ended.
    Ended = 2,
    /// A member without a program, when the next one's began.
    Began = 3,
    /// An operator has drained it.
    Drained = 4,
    /// A clock that contradicts the majority's.
    Suspect = 5,
    /// An operator has promoted the next one, or demoted the former.
    Operator = 6,
    /// A program that is there and has missed something, or differs from a majority's.
    Fenced = 7,
}

impl Cause {
    /// The one with this number.
    pub fn of(number: u8) -> Option<Cause> {
        use Cause::*;
        let all = [Left, Ended, Began, Drained, Suspect, Operator, Fenced];
        all.into_iter().find(|cause| *cause as u8 == number)
    }
}

/// Reason why a message was refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refusal {
    /// Stamp farther ahead than [`causal_horizon_ns`](crate::Group::causal_horizon_ns).
    StampTooFarAhead,
    /// This member is outside the primary component.
    Outside,
    /// Too long, or too many wait.
    TooMuch,
}

/// Notices for the operator. Each is counted; the agent says each kind at a bounded rate.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Notice {
    /// A message of the stream that is not ours or broken; ignored.
    Malformed {
        /// Sender.
        from: Member,
        /// Fault found.
        what: &'static str,
    },
    /// Another version of the protocol; ignored.
    Version {
        /// Speaker.
        from: Member,
        /// Which.
        version: u16,
    },
    /// A member of this name has other settings; it is not let in.
    OtherGroup {
        /// Member concerned.
        from: Member,
    },
    /// This program's operation is not the one that the round was agreed for: the replicas' threads
    /// do different work.
    Divergence {
        /// Which thread.
        thread: Thread,
        /// Which round.
        round: Round,
        /// Call of the round's synchronizer.
        theirs: Call,
        /// Call made here.
        ours: Call,
        /// Synchronizer of the round.
        synchronizer: Member,
    },
    /// A member's program reads otherwise than a majority's, which is certain from here on: it gets
    /// nothing until it begins anew.
    Fenced {
        /// Member concerned.
        member: Member,
        /// Which reading.
        fence: Fence,
    },
    /// A proposal was too far ahead and was cut.
    Cut {
        /// Member that proposed.
        from: Member,
        /// By how much, ns.
        by_ns: i64,
    },
    /// A member's clock contradicts the majority's: its proposals no longer move the group's clock
    /// ahead.
    Suspect {
        /// Member concerned.
        member: Member,
        /// Or no longer.
        suspected: bool,
    },
    /// All members had lost their state; the group starts again from here.
    Began {
        /// The group's clock is not below this, ns; none if nobody had kept anything.
        floor: Option<i64>,
    },
    /// A member that wants to come in needs a checkpoint, and no live one has a program that gives
    /// any: it waits until that changes.
    NoCheckpoint {
        /// Member that waits.
        member: Member,
    },
    /// Majority lost for what this member has (so many others have delivered something else, or do
    /// not take it for one of theirs), though nobody said that it was out: it comes in anew.
    Missed {
        /// One of them.
        from: Member,
        /// True if that has delivered something else; if not, it has spoken for long as one that
        /// is not where this member is.
        differs: bool,
    },
    /// This member has asked to be let in and nobody does: said again as long as it lasts.
    NotLetIn {
        /// For how long, ns.
        for_ns: i64,
        /// True if it needs a checkpoint, which a program elsewhere has to give.
        checkpoint: bool,
    },
    /// A majority of the members know UTC, for the first time since the group began: its clock is
    /// tied to that from now on.
    Tied {
        /// By how much it was set ahead at once, ns, 0 or more; what is left is steered away.
        ahead_ns: i64,
    },
    /// No member went on while the primary component was lost; those with the latest state go on
    /// with it.
    Revived {
        /// Number of members that go on.
        members: usize,
    },
}
