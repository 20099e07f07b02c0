//! The words that engine, transports, programs and tools share.

use core::fmt;

/// A member of the group: the number of its node in the ring (Corosync's node id), 1 or more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Member(pub u32);

/// A logical thread: the same number at every replica for the thread that does the same work.
///
/// 0 to 15 are the group's own (see [`Thread::JOIN`] and the like); programs' threads come after.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Thread(pub u64);

/// The highest 16 bits of a thread that is one member's alone, ...
const APART: u64 = 0xffff << 48;
/// ... and of one that members share though it is no program's.
const SHARED: u64 = 0xfffe << 48;
/// Bit of those that are one member's alone that tells hashed numbers from those of readings of the
/// time at present.
const HASHED: u64 = 1 << 39;

impl Thread {
    /// The rounds that are taken immediately before a checkpoint, for a member that joins.
    pub const JOIN: Thread = Thread(1);
    /// The rounds that a message from another group waits for.
    pub const CAUSAL: Thread = Thread(2);
    /// The first number for threads of programs.
    pub const FIRST: Thread = Thread(16);

    /// A thread of one member alone, the `index`-th of the universe from 0: its rounds are the
    /// group's, but no other member keeps their values. 39 bits of `hash` count.
    #[must_use]
    pub const fn of_member(index: u8, hash: u64) -> Thread {
        let hash = hash & (HASHED - 1);
        Thread(APART | (index as u64) << 40 | HASHED | hash)
    }

    /// A thread for readings of the time *at present*, this member's alone; 39 bits of `number`
    /// count. Such a reading is done when a majority has its value, so it is never earlier than
    /// one that was done at any member before it began. A number of which a reading was rejected or
    /// given up is not to be used again: what was proposed for that one may still come.
    #[must_use]
    pub const fn now(index: u8, number: u64) -> Thread {
        Thread(APART | (index as u64) << 40 | (number & (HASHED - 1)))
    }

    /// True for a thread whose readings are of the time [at present](Thread::now).
    #[must_use]
    pub const fn is_now(self) -> bool {
        self.0 & (APART | HASHED) == APART
    }

    /// The thread of readings that are no program's: those that come to it at the members, at
    /// whatever times, get the same values one after the other. 48 bits of `hash` count.
    #[must_use]
    pub const fn shared(hash: u64) -> Thread {
        Thread(SHARED | (hash & !APART))
    }

    /// True if it belongs to a program, whose start and end are its own: it is neither a member's
    /// [alone](Thread::of_member) nor [shared](Thread::shared).
    #[must_use]
    pub const fn is_programs(self) -> bool {
        self.0 & APART < SHARED
    }

    /// Which member's alone this is, if it is any's.
    pub(crate) fn owner(self) -> Option<usize> {
        (self.0 & APART == APART).then_some((self.0 >> 40 & 0xff) as usize)
    }
}

/// In hexadecimal, as all tools show it.
impl fmt::Display for Thread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:x}", self.0)
    }
}

/// The how-manieth clock operation of a logical thread, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Round(pub u64);

/// Group time: nanoseconds since 1970-01-01 00:00 UTC as POSIX counts them, without leap seconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct GroupTime(pub i64);

/// Between which two moments true time (UTC, in the unit of [`GroupTime`]) was, when a member read
/// its clocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Bound {
    /// Not before this, ns.
    pub earliest: i64,
    /// Not after this, ns; never less than `earliest`.
    pub latest: i64,
}

/// Readings of a member's own clocks at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reading {
    /// The physical clock, ns from any origin: local to the host, never steered or stepped. The
    /// published algorithm reads this and nothing else.
    pub physical: i64,
    /// UTC as the host's Truechimer clock has it; none while that is not synchronised.
    pub utc: Option<Utc>,
}

/// UTC by a member's own clock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Utc {
    /// The best estimate, ns since 1970, within `bound`.
    pub best: i64,
    /// Bound that it is sure of.
    pub bound: Bound,
}

/// A place in the group's ordered stream, the same at every member. It counts messages on the wire:
/// values, and programs' messages, that travelled in one have the same place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Point {
    /// Which primary component, counted from 1 since the group began.
    pub generation: u64,
    /// Messages delivered since the group began.
    pub index: u64,
}

/// A value of the group clock: the same at every replica.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Agreed {
    /// The group's time.
    pub time: GroupTime,
    /// Where UTC was when the synchronizer read its clocks; none if its clock was not synchronised,
    /// or contradicted the majority's.
    /// Not an interval around `time`, which may lie outside it: the group's clock is steered, and
    /// does not go back. See [`error_bound`](Agreed::error_bound).
    pub utc: Option<Bound>,
    /// Member whose proposal it is.
    pub synchronizer: Member,
    /// Where in the stream it was agreed on.
    pub point: Point,
}

impl Agreed {
    /// Largest possible distance of the group's clock from UTC, at that reading of the
    /// synchronizer's, ns, 0 or more: the greater of the ways from `time` to the ends of `utc`.
    /// None without UTC.
    pub fn error_bound(&self) -> Option<i64> {
        let Bound { earliest, latest } = self.utc?;
        let below = self.time.0.saturating_sub(earliest).saturating_abs();
        Some(latest.saturating_sub(self.time.0).saturating_abs().max(below))
    }
}

/// Which call of the C library an operation stands for; checked to be the same at all replicas.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Call {
    /// The group's own API.
    Group = 0,
    ClockGettime = 1,
    Gettimeofday = 2,
    Time = 3,
    Ftime = 4,
    TimespecGet = 5,
    /// A monotonic clock, where the user asked for that.
    Monotonic = 6,
    /// A deadline that had to be translated.
    Deadline = 7,
}

impl Call {
    /// Call of this number, in messages of the group and on the link to a program; `None`: there is none.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Call> {
        Some(match number {
            0 => Call::Group,
            1 => Call::ClockGettime,
            2 => Call::Gettimeofday,
            3 => Call::Time,
            4 => Call::Ftime,
            5 => Call::TimespecGet,
            6 => Call::Monotonic,
            7 => Call::Deadline,
            _ => return None,
        })
    }
}

/// Name in the C library.
impl fmt::Display for Call {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Call::Group => "a reading of the group's own",
            Call::ClockGettime => "clock_gettime",
            Call::Gettimeofday => "gettimeofday",
            Call::Time => "time",
            Call::Ftime => "ftime",
            Call::TimespecGet => "timespec_get",
            Call::Monotonic => "a monotonic clock",
            Call::Deadline => "a deadline",
        })
    }
}

/// Division of the work among replicas.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Mode {
    /// All replicas do it, and any may become a round's synchronizer.
    #[default]
    Active = 0,
    /// All replicas do it, only the primary (the first live member) proposes.
    SemiActive = 1,
    /// Only the primary does it; the others keep its rounds since the last checkpoint.
    Passive = 2,
}

/// Name in the configuration.
impl fmt::Display for Mode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Mode::Active => "active",
            Mode::SemiActive => "semi-active",
            Mode::Passive => "passive",
        })
    }
}

/// Rule by which a round's value comes of the proposal that was delivered first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Order {
    /// The greater of it and the last group value + 1 ns: monotone for the whole group.
    #[default]
    Monotone = 0,
    /// Order as published: monotone for each thread only.
    Published = 1,
}

/// Name in the configuration.
impl fmt::Display for Order {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Order::Monotone => "monotone",
            Order::Published => "published",
        })
    }
}

/// Where an operator puts a member in the order of those that propose; the first is the primary
/// of the modes semi-active and passive.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Post {
    /// Before all others: promoted. Ends a drain.
    First = 0,
    /// After all others that have a program and are not drained: demoted. Ends a drain.
    Last = 1,
    /// After all others that have a program, and without new work: a program that starts there does
    /// not begin.
    Drained = 2,
}

impl Post {
    /// The one with this number.
    pub fn of(number: u8) -> Option<Post> {
        [Post::First, Post::Last, Post::Drained].into_iter().find(|post| *post as u8 == number)
    }
}

/// Where a member stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    /// Not in a primary component, or only just back in one: has nothing to say.
    Outside,
    /// In a primary component, waiting for the round that lets it in.
    Joining,
    /// Has the group's state and takes part.
    Live,
}

impl fmt::Display for Member {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// First difference by which a program was found to read otherwise than a majority's, and when.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fence {
    /// Which thread.
    pub thread: Thread,
    /// Which of its rounds.
    pub round: Round,
    /// Call by which the program has read it.
    pub ours: Call,
    /// Call by which a majority has.
    pub theirs: Call,
    /// The group's time when that was known.
    pub since: GroupTime,
}

/// Which reading, in words.
impl fmt::Display for Fence {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fence { thread, round, ours, theirs, .. } = self;
        write!(
            out,
            "it read round {} of thread {thread} by {ours}, a majority by {theirs}",
            round.0
        )
    }
}
