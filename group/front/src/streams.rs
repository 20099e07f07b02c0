//! The replicas' replies, compared: by what each program has written on a connection since that
//! began, so that it does not matter in which pieces and at which moments it came. No I/O.
//!
//! Of each connection a front keeps its own program's bytes as far as others have not confirmed
//! them. Another's word is a length and a hash of all bytes up to there; it is looked at when our
//! own program has written as much.
//!
//! Connections end at other moments at other replicas. Where a client has ended one, a program need
//! not have written as much as another's. Where the program has ended it in good order it has to;
//! where it has cut it the kernel may have dropped what it wrote last, but nothing may come
//! elsewhere by later requests. A program that has dealt with all that the bytes are the answer to,
//! and has not written them for long, has left them out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use truechimer_group::{Digest, Member};

use crate::mask::Mask;
use crate::order::{Conn, End, Replied};

/// Words of another that wait for our own program, on all connections, shared out among these
/// (32 MiB); and what each connection has at least and at most.
const MOST_PENDING_OF_ALL: usize = 1 << 20;
const LEAST_PENDING: usize = 64;
const MOST_PENDING: usize = 64 << 10;
/// Bytes of a connection that are kept for others to confirm. Later words confirm the earlier ones.
const MOST_KEPT: usize = 8 << 20;
/// Largest number of bytes of all connections, shared out among those of which somebody has not confirmed all;
/// and what each has at least.
const MOST_OF_ALL: usize = 64 << 20;
const LEAST_KEPT: usize = 16 << 10;
/// After so much agreed time it is looked who leaves out replies, ns; more often where patience is less than a second.
const LOOK_NS: i64 = 10_000_000;
/// Connections that are remembered after their end.
const MOST_ENDED: usize = 16 << 10;

/// Another program's replies differ from ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Member whose program it is.
    pub with: Member,
    /// On which connection.
    pub conn: Conn,
    /// Within how many bytes.
    pub length: u64,
}

/// Words of another on a connection.
#[derive(Debug, Default)]
struct Other {
    agreed: u64,
    pending: VecDeque<Replied>,
    /// End by its program: after how many bytes, having dealt with how much.
    end: Option<(End, u64, u64)>,
    /// Time for which it has been short of what we have, ns of agreed time.
    short_ns: i64,
    differs: bool,
}

/// One connection.
#[derive(Debug)]
struct Stream {
    mask: Mask,
    /// Number of bytes before the tail, and their hash.
    base: u64,
    base_hash: Digest,
    tail: Vec<u8>,
    hash: Digest,
    end: End,
    /// Count that came with the last bytes: how much had been dealt with then.
    last: u64,
    /// The client has ended it: after how many of our bytes, and which place that has.
    closed: Option<(u64, u64)>,
    told: (u64, End),
    others: BTreeMap<Member, Other>,
}

/// All connections.
#[derive(Debug, Default)]
pub struct Streams {
    all: BTreeMap<Conn, Stream>,
    /// Those of which the others have not been told all.
    untold: BTreeSet<Conn>,
    /// Those of which somebody has not confirmed all.
    open: BTreeSet<Conn>,
    /// Agreed time since it was looked last who leaves out replies, ns.
    passed_ns: i64,
    /// Those whose word counts, but for ourselves, and how much they have dealt with.
    counted: BTreeMap<Member, u64>,
    /// Words that were confirmed.
    pub same: u64,
    /// Words that differed.
    pub different: u64,
    /// Words that were forgotten, as too many waited for our own program.
    pub forgotten: u64,
}

impl Stream {
    fn new() -> Stream {
        Stream {
            mask: Mask::default(),
            base: 0,
            base_hash: Digest::default(),
            tail: Vec::new(),
            hash: Digest::default(),
            end: End::Open,
            last: 0,
            closed: None,
            told: (0, End::Open),
            others: BTreeMap::new(),
        }
    }

    fn length(&self) -> u64 {
        self.base + self.tail.len() as u64
    }

    /// The hash of the first so many bytes, if these are still there.
    fn hash_at(&self, length: u64) -> Option<Digest> {
        if length == self.length() {
            return Some(self.hash);
        }
        let more = usize::try_from(length.checked_sub(self.base)?).ok()?;
        Some(self.base_hash.and(self.tail.get(..more)?))
    }

    /// Bytes up to there need not be kept.
    fn trim(&mut self, length: u64) {
        if let Some(hash) = self.hash_at(length)
            && let Some(more) = length.checked_sub(self.base)
        {
            self.tail.drain(..(more as usize).min(self.tail.len()));
            (self.base, self.base_hash) = (length, hash);
        }
    }

    /// Number of replicas that agree on the first so many bytes, ourselves among them.
    fn agreeing(&self, counted: &BTreeMap<Member, u64>, until: u64) -> usize {
        let agreed = |member: &&Member| self.others.get(member).map_or(0, |other| other.agreed);
        let others = counted.keys().filter(|member| agreed(member) >= until).count();
        others + usize::from(self.length() >= until)
    }

    /// True if its end is among the first so many to be dealt with.
    fn is_over(&self, until: u64) -> bool {
        self.closed.is_some_and(|(_, at)| at <= until)
    }

    /// Looks at what another has said, or all have, as far as that is possible: who differs, and the length within which
    /// it does.
    fn check(&mut self, with: Option<Member>, same: &mut u64) -> Vec<(Member, u64)> {
        let length = self.length();
        let mut differences = Vec::new();
        let mut others = std::mem::take(&mut self.others);
        for (member, other) in others.iter_mut().filter(|(m, _)| with.is_none_or(|w| w == **m)) {
            let differs = self.compare(other, length, same);
            other.differs |= differs.is_some();
            differences.extend(differs.map(|length| (*member, length)));
        }
        self.others = others;
        differences
    }

    fn compare(&self, other: &mut Other, length: u64, same: &mut u64) -> Option<u64> {
        if other.differs {
            return None;
        }
        while let Some(word) = other.pending.front()
            && word.length <= length
        {
            // What is not kept any more is confirmed by a later word.
            if let Some(hash) = self.hash_at(word.length) {
                if hash.0 != word.hash {
                    return Some(word.length);
                }
                *same += 1;
                if word.length > other.agreed {
                    other.short_ns = 0;
                    other.agreed = word.length;
                }
            }
            other.pending.pop_front();
        }
        let (end, theirs, done) = other.end?;
        let differs = match end {
            End::Open => false,
            End::Finished => self.closed.map_or(length, |(length, _)| length) > theirs,
            End::Cut => length > theirs && self.last > done,
        };
        differs.then_some(theirs)
    }
}

impl Streams {
    /// None, as after another's state was taken over.
    pub fn clear(&mut self) {
        self.all.clear();
        self.untold.clear();
        self.open.clear();
    }

    /// A connection begins, by the group's order.
    pub fn begin(&mut self, conn: Conn) {
        self.all.insert(conn, Stream::new());
    }

    /// Notes what a client asks.
    pub fn asked(&mut self, conn: Conn, request: &[u8]) {
        if let Some(stream) = self.all.get_mut(&conn) {
            stream.mask.asked(request);
        }
    }

    /// Our program has written this, while working on what has that place or after it.
    #[must_use]
    pub fn wrote(&mut self, conn: Conn, bytes: &[u8], place: u64) -> Vec<Difference> {
        let Some(stream) = self.all.get_mut(&conn).filter(|_| !bytes.is_empty()) else {
            return Vec::new();
        };
        let from = stream.tail.len();
        stream.tail.extend(bytes);
        stream.mask.apply(&mut stream.tail, from);
        stream.hash = stream.hash.and(stream.tail.get(from..).unwrap_or_default());
        if stream.closed.is_none() {
            stream.last = place;
        }
        self.untold.insert(conn);
        self.open.insert(conn);
        // Many clients and one slow replica must not use up the memory.
        let most = (MOST_OF_ALL / self.open.len().max(1)).clamp(LEAST_KEPT, MOST_KEPT);
        if stream.tail.len() > most {
            stream.trim(stream.length() - most as u64 / 2);
            stream.tail.shrink_to(most);
        }
        self.check(conn)
    }

    /// Length of what our program has written on it, bytes.
    pub fn length(&self, conn: Conn) -> u64 {
        self.all.get(&conn).map_or(0, Stream::length)
    }

    /// Our program has ended it.
    pub fn ended(&mut self, conn: Conn, end: End) {
        if let Some(stream) = self.all.get_mut(&conn)
            && stream.closed.is_none()
        {
            stream.end = end;
            self.untold.insert(conn);
        }
    }

    /// Our program is told that the client has ended it; that has this place.
    pub fn closed(&mut self, conn: Conn, place: u64) {
        if let Some(stream) = self.all.get_mut(&conn) {
            stream.closed = stream.closed.or(Some((stream.length(), place)));
        }
    }

    /// News for the others, at most so much.
    pub fn news(&mut self, most: usize) -> Vec<Replied> {
        let mut news = Vec::new();
        while news.len() < most
            && let Some(conn) = self.untold.pop_first()
        {
            let Some(stream) = self.all.get_mut(&conn) else { continue };
            let now = (stream.length(), stream.end);
            if std::mem::replace(&mut stream.told, now) != now {
                news.push(Replied { conn, length: now.0, hash: stream.hash.0, end: now.1 });
            }
        }
        news
    }

    /// The others may not know what they were told.
    pub fn tell_again(&mut self) {
        for (conn, stream) in &mut self.all {
            stream.told = (0, End::Open);
            self.untold.insert(*conn);
        }
    }

    /// True if there is any.
    pub fn has_news(&self) -> bool {
        !self.untold.is_empty()
    }

    /// Another has dealt with so much, and has these replies.
    #[must_use]
    pub fn heard(&mut self, from: Member, done: u64, replied: Vec<Replied>) -> Vec<Difference> {
        let mut differences = Vec::new();
        let share = MOST_PENDING_OF_ALL / self.all.len().max(1);
        let most = share.clamp(LEAST_PENDING, MOST_PENDING);
        for word in replied {
            let (conn, length) = (word.conn, word.length);
            let Some(stream) = self.all.get_mut(&conn) else { continue };
            let other = stream.others.entry(from).or_default();
            if word.end != End::Open {
                other.end.get_or_insert((word.end, length, done));
            }
            // The newest confirms what the last one did, once our program has written as much.
            if other.pending.len() >= most {
                other.pending.pop_back();
                self.forgotten += 1;
            }
            other.pending.push_back(word);
            for (with, length) in stream.check(Some(from), &mut self.same) {
                differences.push(Difference { with, conn, length });
            }
            self.tidy(conn);
        }
        self.different += differences.len() as u64;
        differences
    }

    fn check(&mut self, conn: Conn) -> Vec<Difference> {
        let Some(stream) = self.all.get_mut(&conn) else { return Vec::new() };
        let differences = stream.check(None, &mut self.same).into_iter();
        let differences = differences.map(|(with, length)| Difference { with, conn, length });
        let differences: Vec<Difference> = differences.collect();
        self.different += differences.len() as u64;
        self.tidy(conn);
        differences
    }

    /// Forgets the bytes that all have confirmed.
    fn tidy(&mut self, conn: Conn) {
        let Some(stream) = self.all.get_mut(&conn) else { return };
        let agreed = |member| stream.others.get(member).map_or(0, |other| other.agreed);
        let least = self.counted.keys().map(agreed).min().unwrap_or(stream.length());
        stream.trim(least);
        if least >= stream.length() {
            self.open.remove(&conn);
        }
    }

    /// Those whose word counts from now on, without ourselves, and how much they have dealt with.
    pub fn count(&mut self, counted: BTreeMap<Member, u64>) {
        self.counted = counted;
    }

    /// True if a majority of so many replicas, ourselves among them, has the first `until` bytes;
    /// none if it never will, as all are done with the connection. `done` is how much we have dealt
    /// with.
    pub fn may_go(&self, conn: Conn, until: u64, majority: usize, done: u64) -> Option<bool> {
        let stream = self.all.get(&conn)?;
        // An end before the first byte says nothing that could differ.
        let agreed = until == 0 || stream.agreeing(&self.counted, until) >= majority;
        (agreed || !stream.is_over(self.least(done))).then_some(agreed)
    }

    /// Least number of things dealt with by any whose word counts.
    fn least(&self, done: u64) -> u64 {
        self.counted.values().copied().chain([done]).min().unwrap_or(done)
    }

    /// So much agreed time has passed: who has left out a reply for longer than `patience_ns`.
    #[must_use]
    pub fn pass(&mut self, ns: i64, patience_ns: i64) -> Vec<Difference> {
        let mut differences = Vec::new();
        self.passed_ns = self.passed_ns.saturating_add(ns);
        if self.passed_ns < LOOK_NS.min(patience_ns / 100) {
            return differences;
        }
        let ns = std::mem::take(&mut self.passed_ns);
        for conn in &self.open {
            let Some(stream) = self.all.get_mut(conn).filter(|stream| stream.closed.is_none())
            else {
                continue;
            };
            let length = stream.length();
            for (with, done) in &self.counted {
                let other = stream.others.entry(*with).or_default();
                let both = other.end.is_some() && stream.end != End::Open;
                // Who has written more than we have leaves nothing out.
                let fits = other.agreed >= length || !other.pending.is_empty();
                if fits || *done < stream.last || both || other.differs {
                    other.short_ns = 0;
                    continue;
                }
                other.short_ns = other.short_ns.saturating_add(ns);
                if other.short_ns > patience_ns {
                    other.differs = true;
                    differences.push(Difference { with: *with, conn: *conn, length });
                }
            }
        }
        self.different += differences.len() as u64;
        differences
    }

    /// Forgets the connections that all are done with, but for those whose replies wait; `done` is
    /// how much we have dealt with.
    pub fn forget(&mut self, done: u64, waiting: &BTreeSet<Conn>) {
        let least = self.least(done);
        let ended = self.all.values().filter(|stream| stream.is_over(done)).count();
        let mut surplus = ended.saturating_sub(MOST_ENDED);
        self.all.retain(|conn, stream| {
            let goes = stream.is_over(least) || (surplus > 0 && stream.is_over(done));
            surplus = surplus.saturating_sub(usize::from(goes));
            if goes && !self.untold.contains(conn) && !waiting.contains(conn) {
                self.open.remove(conn);
                return false;
            }
            true
        });
    }
}

#[cfg(test)]
mod tests;
