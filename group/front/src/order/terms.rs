//! The words of what fronts agree on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use truechimer_group::Member;

use crate::wire::Message;

/// One life of a front.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FrontId {
    /// On which member's node.
    pub member: Member,
    /// Which of its lives.
    pub incarnation: u64,
}

/// A client's connection: the same word at all fronts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Conn {
    /// To whose front.
    pub member: Member,
    /// The front's own number for it.
    pub number: u32,
}

impl fmt::Display for Conn {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_beside() {
            return write!(out, "{} of those that only read", self.number);
        }
        write!(out, "{}.{}", self.member, self.number)
    }
}

impl Conn {
    /// Member of connections to the program that are in no order: none has that number.
    const BESIDE: Member = Member(0);

    /// The connection of a client that only reads.
    pub(crate) fn beside(number: u32) -> Conn {
        Conn { member: Conn::BESIDE, number }
    }

    /// True if it is in no order.
    pub(crate) fn is_beside(self) -> bool {
        self.member == Conn::BESIDE
    }
}

/// Measure of what a program has been given: equal if it was the same.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Position {
    /// Number of openings, requests and ends.
    pub count: u64,
    /// A hash of all of them.
    pub chain: u64,
    /// True if many requests have one time, as the program answers from one event loop.
    pub event_loop: bool,
}

/// A front that is in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Which of its lives.
    pub incarnation: u64,
    /// True if its program has what the others have.
    pub ready: bool,
    /// Time for which it has said nothing, ns of agreed time.
    pub quiet_ns: i64,
    /// Number of openings, requests and ends that its program has dealt with, by its last word.
    pub done: u64,
    /// Time for which that has been the same while another's program was ahead, ns of agreed time.
    pub stuck_ns: i64,
}

impl Peer {
    /// One whose program has dealt with so much.
    pub fn new(incarnation: u64, ready: bool, done: u64) -> Peer {
        Peer { incarnation, ready, quiet_ns: 0, done, stuck_ns: 0 }
    }
}

/// State of a program's side of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum End {
    /// The program has not ended it.
    Open,
    /// The program has ended it in good order: there is no more.
    Finished,
    /// The program has cut it: what it wrote last may be lost.
    Cut,
}

/// Bytes that a program has written on a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replied {
    /// On which.
    pub conn: Conn,
    /// Length of all of it, bytes.
    pub length: u64,
    /// A hash of all of it.
    pub hash: u64,
    /// State of the program's side: open if more may come.
    pub end: End,
}

/// State that a front needs to go on from a place of the stream; without connections.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct State {
    /// Place up to which the programs have been given things.
    pub position: Position,
    /// Number of requests so far.
    pub requests: u64,
    /// The agreed time of the last message, ns.
    pub time: i64,
    /// Members that are in.
    pub peers: BTreeMap<Member, Peer>,
    /// Pairs of those whose programs have given different replies, the lesser member first.
    pub pairs: BTreeSet<(Member, Member)>,
}

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// On which connection.
    pub conn: Conn,
    /// Number of all requests up to it, from 1.
    pub number: u64,
    /// Bytes that the client sent.
    pub bytes: Vec<u8>,
}

/// Something for the program, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// The program has to be there from now on; it has dealt with so much.
    Start(u64),
    /// Connections that begin, in their order: several only where the program answers from one event loop.
    Open(Vec<Conn>),
    /// Requests of one message, in their order: that time is the first one's, and each has one of its own, 1 ns after
    /// the one before; or all have it, where the program answers from one event loop.
    Requests(VecDeque<Request>),
    /// The end of a connection.
    Close(Conn),
    /// Nothing but the time.
    Time,
    /// A checkpoint for this front.
    Checkpoint {
        /// Which.
        to: FrontId,
        /// Which of its attempts.
        serial: u32,
        /// The fronts' state at that place.
        state: State,
    },
}

/// Steps to be done, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Multicast this.
    Send(Message),
    /// The program is to do this at that agreed time (ns).
    Run(Op, i64),
    /// This front is in: clients may come.
    Entered,
    /// Another is in, which may not know how far our program is.
    Joined,
    /// Out: clients must go.
    Dropped(String),
    /// Start the program from this checkpoint, then say [`Order::restored`].
    Restore(Vec<u8>),
    /// This front cannot go on.
    Unfit(String),
    /// For the operator.
    Report(String),
    /// Another's program has dealt with so much, and written this.
    Compare {
        /// Member concerned.
        from: Member,
        /// Number of openings, requests and ends.
        done: u64,
        /// Replies that are new.
        replied: Vec<Replied>,
    },
}
