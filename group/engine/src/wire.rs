//! The members' messages as bytes, version 8.
//!
//! All numbers are little-endian and of fixed length; a list or text has its length before it (4
//! bytes), an option or a choice one byte that says which. What is written is read back the same,
//! and each message has only one form: whatever decodes encodes to the very bytes it came from.
//!
//! ```text
//!  0  4  "TCGR"
//!  4  2  version
//!  6  8  digest of the group's settings
//! 14  8  the sender's incarnation
//! 22 16  what it has delivered: generation, index
//! 38  8  digest of what that has come to
//! 46  1  whether it counts as an acknowledgement
//! 47  4  how many entries follow; each begins with one byte that says its kind
//! ```
//!
//! The first 38 bytes mean the same in all versions from 8 on: members of two versions stand apart
//! as those of unlike settings do, and have to know of each other whether they are live.
//!
//! Bytes from the network are hostile: whatever is wrong has a name, nothing is allocated that the
//! message is not long enough for, and every limit of [`message`](crate::message) is checked here.

use crate::compared::Compared;
use crate::event::LARGEST_PAYLOAD;
use crate::joining::Joined;
use crate::likeness::MOST_CONTESTS;
use crate::message::{
    Ballot, Checkpoint, Contest, Entry, Held, Join, Kept, LONGEST_PART, MOST_ENTRIES, MOST_HELD,
    MOST_HELD_BYTES, MOST_MEMBERS, MOST_PARTS, MOST_THREADS, Message, Part, Peer, Piece, Program,
    Progress, Proposal, Report, Run, Shift, Snapshot, Stage, Standing, Time, Transfer, User, Vote,
};
use crate::state::NEVER;
use crate::steer::Steering;
use crate::types::{
    Agreed, Bound, Call, Fence, GroupTime, Member, Point, Post, Round, Thread, Utc,
};

mod form;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use form::Broken;
use form::{Form, Item, Reader, named, plain};

const MAGIC: &[u8; 4] = b"TCGR";

/// No group gets as far as this: from here on each place must still differ from the next.
pub(crate) const FARTHEST: u64 = 1 << 61;

/// The version of the protocol that this is.
pub(crate) const VERSION: u16 = 8;

/// Length of the head, which is the same in all versions from 8 on: up to the place that the sender has delivered.
pub(crate) const HEAD: usize = 38;

/// True if a message of another version says, in its head, that its sender is live; also where it has none.
pub(crate) fn is_of_live(bytes: &[u8]) -> bool {
    let place = bytes.get(HEAD - 16..HEAD);
    place.is_none_or(|place| place.iter().any(|byte| *byte != 0))
}

/// A message's bytes.
pub(crate) fn encode(message: &Message) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    out.extend_from_slice(MAGIC);
    VERSION.put(&mut out);
    message.put(&mut out);
    out
}

/// The message that these bytes are.
pub(crate) fn decode(bytes: &[u8]) -> Result<Message, Broken> {
    let mut from = Reader::new(bytes);
    if from.array().ok().as_ref() != Some(MAGIC) {
        return Err(Broken::Foreign);
    }
    versioned(from)
}

/// A state's bytes, to be sent in [`Part`]s.
pub(crate) fn encode_transfer(transfer: &Transfer) -> Vec<u8> {
    let mut out = Vec::new();
    VERSION.put(&mut out);
    transfer.put(&mut out);
    out
}

/// The state that these bytes, put together of all its [`Part`]s, are.
pub(crate) fn decode_transfer(bytes: &[u8]) -> Result<Transfer, Broken> {
    versioned(Reader::new(bytes))
}

/// The bytes of a checkpoint that is to be sent in [`Piece`]s.
pub(crate) fn encode_checkpoint(checkpoint: &Checkpoint) -> Vec<u8> {
    let mut out = Vec::new();
    VERSION.put(&mut out);
    checkpoint.put(&mut out);
    out
}

/// The checkpoint that these bytes, put together of all its [`Piece`]s, are.
pub(crate) fn decode_checkpoint(bytes: &[u8]) -> Result<Checkpoint, Broken> {
    versioned(Reader::new(bytes))
}

/// A snapshot's bytes: equal states have equal bytes, so that their digests can be compared.
pub(crate) fn encode_snapshot(snapshot: &Snapshot) -> Vec<u8> {
    let mut out = Vec::new();
    snapshot.put(&mut out);
    out
}

fn versioned<T: Form>(mut from: Reader<'_>) -> Result<T, Broken> {
    let version = u16::take(&mut from)?;
    if version != VERSION {
        return Err(Broken::Version(version));
    }
    let value = T::take(&mut from)?;
    from.end()?;
    Ok(value)
}

/// Checks what holds for any bytes at all: they are refused, or written back as they came.
#[cfg(any(test, fuzzing))]
pub fn check(bytes: &[u8]) {
    match decode(bytes) {
        Ok(message) => assert_eq!(encode(&message), bytes),
        Err(why) => assert!(!why.to_string().is_empty()),
    }
    match decode_transfer(bytes) {
        Ok(transfer) => assert_eq!(encode_transfer(&transfer), bytes),
        Err(why) => assert!(!why.to_string().is_empty()),
    }
    match decode_checkpoint(bytes) {
        Ok(checkpoint) => assert_eq!(encode_checkpoint(&checkpoint), bytes),
        Err(why) => assert!(!why.to_string().is_empty()),
    }
}

named!(Thread: u64, Round: u64, GroupTime: i64);

plain!(Message { group, incarnation, point, history, established, entries });
plain!(Point { generation, index });
plain!(Proposal { thread, round, call, time });
plain!(Time { group, utc, last });
plain!(
    User { token, time, stamp, payload },
    |user| user.payload.len() <= LARGEST_PAYLOAD,
    "a payload longer than can be"
);
plain!(
    Join { number, attempt, standing, floor, report, checkpoint, drained, fence },
    |join| join.number > 0,
    "a join without a number"
);
plain!(
    Standing { epoch, established, confirmed, point, history, outnumbered, last, digest },
    |standing| standing.point.generation.max(standing.point.index) < FARTHEST,
    "a place in the stream that never comes"
);
plain!(
    Part { joiner, incarnation, number, attempt, at, part, parts, time, bytes },
    |part| part.number > 0
        && part.part < part.parts
        && part.parts <= MOST_PARTS
        && part.bytes.len() <= LONGEST_PART,
    "a part of a state that cannot be"
);
plain!(
    Piece { part, parts, bytes },
    |piece| piece.part < piece.parts
        && piece.parts <= MOST_PARTS
        && piece.bytes.len() <= LONGEST_PART,
    "a part of a checkpoint that cannot be"
);
plain!(Report { view, utc, compared });
plain!(
    Compared { possible, ahead },
    |compared| compared.is_sound(),
    "a clock that is possible and is not"
);
plain!(
    Transfer { snapshot, joins, checkpoint },
    |transfer| ascending(&transfer.joins, |&(member, _)| member),
    "requests that are out of order"
);
plain!(Joined { incarnation, at, join });
plain!(
    Checkpoint { data, position, values },
    |checkpoint| ascending(&checkpoint.position, |&(thread, _)| thread)
        && ascending(&checkpoint.values, |value| (value.thread, value.round)),
    "a checkpoint that is out of order"
);
plain!(Kept { thread, round, call, value });
plain!(Agreed { time, utc, synchronizer, point });
plain!(
    Snapshot {
        epoch,
        point,
        last,
        history,
        tied,
        steering,
        live,
        vouched,
        base,
        threads,
        held,
        contests
    },
    |state| ascending(&state.live, |peer| peer.member)
        && ascending(&state.threads, |&(thread, _)| thread)
        && ascending(&state.contests, |contest| (contest.thread, contest.round))
        && state.held.iter().map(|held| held.payload.len()).sum::<usize>() <= MOST_HELD_BYTES
        && state.last < NEVER
        && state.point.generation.max(state.point.index) < 2 * FARTHEST,
    "a state that is out of order, too large or from the end of time"
);
plain!(
    Steering { rate_ppb, trend_ppt, updated },
    |steering| steering.rate_ppb > -1_000_000_000,
    "steering that would turn time back"
);
plain!(Progress { next, at });
plain!(Peer {
    member,
    incarnation,
    number,
    since,
    place,
    drained,
    gives,
    suspect,
    report,
    run,
    fence
});
plain!(Fence { thread, round, ours, theirs, since });
plain!(Vote { serial, thread, round, at, decided, call });
plain!(
    Contest { thread, round, at, decided, since, ballots },
    |contest| ascending(&contest.ballots, |ballot| ballot.member),
    "votes that are out of order"
);
plain!(Ballot { member, serial, call });
plain!(Shift { token, member, to });
plain!(Run { serial, stage, together, since });
plain!(
    Program { serial, stage, together, time, fence },
    |program| (1..FARTHEST).contains(&program.serial),
    "a program that has started too often"
);
plain!(
    Held { from, token, stamp, payload },
    |held| held.payload.len() <= LARGEST_PAYLOAD,
    "a payload longer than can be"
);
plain!(
    Bound { earliest, latest },
    |bound| bound.earliest <= bound.latest,
    "a bound the wrong way round"
);
plain!(
    Utc { best, bound },
    |utc| (utc.bound.earliest..=utc.bound.latest).contains(&utc.best),
    "a time outside its bound"
);

impl Item for Entry {
    const MOST: usize = MOST_ENTRIES;
}
impl Item for (Thread, Round) {
    const MOST: usize = MOST_THREADS;
}
impl Item for (Thread, Progress) {
    /// The group's own come on top.
    const MOST: usize = MOST_THREADS + Thread::FIRST.0 as usize;
}
impl Item for (Member, Joined) {
    const MOST: usize = MOST_MEMBERS;
}
impl Item for Kept {
    const MOST: usize = u32::MAX as usize;
}
impl Item for Peer {
    const MOST: usize = MOST_MEMBERS;
}
impl Item for Contest {
    const MOST: usize = MOST_CONTESTS;
}
impl Item for Ballot {
    const MOST: usize = MOST_MEMBERS;
}
impl Item for Held {
    const MOST: usize = MOST_HELD;
}

/// True if each is beyond the one before it.
fn ascending<T, K: Ord>(values: &[T], key: impl Fn(&T) -> K) -> bool {
    values.iter().zip(values.iter().skip(1)).all(|(one, next)| key(one) < key(next))
}

impl Form for Member {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Member, Broken> {
        match u32::take(from)? {
            0 => Err(Broken::Wrong("a member without a number")),
            number => Ok(Member(number)),
        }
    }

    #[cfg(test)]
    fn any(random: &mut tests::Random) -> Member {
        Member(u32::any(random).max(1))
    }
}

impl Form for Call {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }

    fn take(from: &mut Reader<'_>) -> Result<Call, Broken> {
        Call::from_number(u8::take(from)?).ok_or(Broken::Wrong("a call that does not exist"))
    }

    #[cfg(test)]
    fn any(random: &mut tests::Random) -> Call {
        Call::take(&mut Reader::new(&[u8::any(random) & 7])).unwrap()
    }
}

impl Form for Stage {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }

    fn take(from: &mut Reader<'_>) -> Result<Stage, Broken> {
        Ok(match u8::take(from)? {
            0 => Stage::None,
            1 => Stage::Waits,
            2 => Stage::Runs,
            3 => Stage::Fenced,
            _ => return Err(Broken::Wrong("a program that is nowhere")),
        })
    }

    #[cfg(test)]
    fn any(random: &mut tests::Random) -> Stage {
        Stage::take(&mut Reader::new(&[u8::any(random) % 4])).unwrap()
    }
}

impl Form for Post {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }

    fn take(from: &mut Reader<'_>) -> Result<Post, Broken> {
        let wrong = Broken::Wrong("a place in the order that does not exist");
        Post::of(u8::take(from)?).ok_or(wrong)
    }

    #[cfg(test)]
    fn any(random: &mut tests::Random) -> Post {
        Post::take(&mut Reader::new(&[u8::any(random) % 3])).unwrap()
    }
}

impl Form for Entry {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Entry::Propose(proposal) => kind(1, proposal, out),
            Entry::User(user) => kind(2, user, out),
            Entry::Join(join) => kind(3, join, out),
            Entry::State(part) => kind(4, part, out),
            Entry::Report(report) => kind(5, report, out),
            Entry::Ask(point) => kind(6, point, out),
            Entry::Leave => out.push(7),
            Entry::Checkpoint(piece) => kind(8, piece, out),
            Entry::Program(program) => kind(9, program, out),
            Entry::Begin(since) => kind(10, since, out),
            Entry::Shift(shift) => kind(11, shift, out),
            Entry::Vote(vote) => kind(12, vote, out),
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Entry, Broken> {
        Ok(match u8::take(from)? {
            1 => Entry::Propose(Form::take(from)?),
            2 => Entry::User(Form::take(from)?),
            3 => Entry::Join(Form::take(from)?),
            4 => Entry::State(Form::take(from)?),
            5 => Entry::Report(Form::take(from)?),
            6 => Entry::Ask(Form::take(from)?),
            7 => Entry::Leave,
            8 => Entry::Checkpoint(Form::take(from)?),
            9 => Entry::Program(Form::take(from)?),
            10 => Entry::Begin(Form::take(from)?),
            11 => Entry::Shift(Form::take(from)?),
            12 => Entry::Vote(Form::take(from)?),
            _ => return Err(Broken::Wrong("an entry of no known kind")),
        })
    }

    #[cfg(test)]
    fn any(random: &mut tests::Random) -> Entry {
        match random.number() % 12 {
            0 => Entry::Propose(Form::any(random)),
            1 => Entry::User(Form::any(random)),
            2 => Entry::Join(Form::any(random)),
            3 => Entry::State(Form::any(random)),
            4 => Entry::Report(Form::any(random)),
            5 => Entry::Ask(Form::any(random)),
            6 => Entry::Checkpoint(Form::any(random)),
            7 => Entry::Program(Form::any(random)),
            8 => Entry::Begin(Form::any(random)),
            9 => Entry::Shift(Form::any(random)),
            10 => Entry::Vote(Form::any(random)),
            _ => Entry::Leave,
        }
    }
}

fn kind<T: Form>(kind: u8, value: &T, out: &mut Vec<u8>) {
    out.push(kind);
    value.put(out);
}
