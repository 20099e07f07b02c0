//! Conditions on the values that the replicas' programs get.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use truechimer_group::{Agreed, Fence, GroupTime, Member, Order, Point, Round, Thread};

use crate::world::{Case, Shared};

/// Violations found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Violation {
    /// Two replicas got different values in the same round.
    Disagreement(String),
    /// Time went back for a thread, or at a replica.
    RollBack(String),
    /// Time went back from one thread to another, in the order of delivery.
    CrossThread(String),
    /// A replica without a majority advanced.
    Minority(String),
    /// A program that starts got what was read before, or begins elsewhere than those with it.
    Stale(String),
    /// Two programs that differ were both told that they may reply.
    Unlike(String),
    /// A value that nobody waited for, a second one, or a broken message.
    Stray(String),
    /// Operations did not end though a majority lived.
    Stuck(String),
    /// The case has more states than it should.
    TooMany(usize),
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self:?}")
    }
}

/// A clock operation's place: a thread's round, or a message with a value riding on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Place {
    Round(Thread, Round),
    Message(Member, u64),
}

/// Values that programs got.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct History {
    order: Order,
    /// True if time may go back from one thread to another.
    across: bool,
    majority: usize,
    /// Number of nodes that count, the first ones.
    counted: usize,
    /// By node, since it was let in: what its program got.
    got: Vec<Shared<BTreeMap<Place, Agreed>>>,
    /// Values that a majority had at once, or was told to be settled: they stand for ever.
    settled: BTreeMap<Place, Agreed>,
    /// Those of them that somebody was told of.
    committed: BTreeSet<Place>,
    /// Differences between programs that nobody had judged when a reply that depends on the round
    /// was let out, and whether the one that differs from most replied.
    replied: BTreeSet<(Thread, Round, GroupTime, bool)>,
    /// By node, for each message: until when its lease is.
    leases: Vec<Shared<BTreeMap<Place, (i64, i64)>>>,
    /// By node, for each message: what its program had got with it, if that can be known.
    logs: Vec<Shared<BTreeMap<Place, u64>>>,
    /// By node: the newest time that stood when its program started, and what any program had then
    /// that was newer and might still be lost with the one that had it.
    starts: Vec<(Option<i64>, BTreeMap<Place, i64>)>,
    /// Where programs have begun, and how many rounds of each thread had been decided there.
    begun: BTreeMap<Point, Vec<u64>>,
    stood: usize,
    /// The newest time that stood when the rounds were gone.
    top: Option<i64>,
}

impl History {
    pub fn new(case: &Case) -> History {
        History {
            order: case.group.order,
            across: case.across,
            majority: case.majority(),
            counted: case.group.universe.len(),
            got: vec![Shared::default(); case.nodes],
            settled: BTreeMap::new(),
            committed: BTreeSet::new(),
            replied: BTreeSet::new(),
            leases: vec![Shared::default(); case.nodes],
            logs: vec![Shared::default(); case.nodes],
            starts: vec![(None, BTreeMap::new()); case.nodes],
            begun: BTreeMap::new(),
            stood: 0,
            top: None,
        }
    }

    /// Number of operations that have come to stand.
    pub fn stood(&self) -> usize {
        self.stood
    }

    /// Forgets all but the newest operations, for long runs.
    pub fn trim(&mut self) {
        let mut points: Vec<Point> = self.settled.values().map(|value| value.point).collect();
        points.sort_unstable();
        let Some(&from) = points.iter().rev().nth(40) else { return };
        self.settled.retain(|_, value| value.point >= from);
        self.committed.retain(|place| self.settled.contains_key(place));
        for got in &mut self.got {
            got.retain(|_, value| value.point >= from);
        }
        for (leases, got) in self.leases.iter_mut().zip(&self.got) {
            leases.retain(|place, _| got.contains_key(place));
        }
        for (logs, got) in self.logs.iter_mut().zip(&self.got) {
            logs.retain(|place, _| got.contains_key(place));
        }
    }

    /// The node's program has ended.
    pub fn leave(&mut self, node: usize) {
        self.got[node].clear();
        self.leases[node].clear();
        self.logs[node].clear();
    }

    /// A program starts there: nothing that any program has got by now may come to it.
    pub fn start(&mut self, node: usize) {
        let stood = self.settled.values().map(|value| value.time.0).max();
        let all =
            self.got.iter().flat_map(|got| got.iter()).map(|(place, value)| (*place, value.time.0));
        self.starts[node] = (stood, all.filter(|(_, time)| Some(*time) > stood).collect());
        self.leave(node);
    }

    /// True if a program that started there may not get this any more. What one had that was cut
    /// off, and that has not come to stand, is lost.
    fn is_stale(&self, node: usize, value: Agreed, sound: &[bool]) -> bool {
        let (stood, ref newer) = self.starts[node];
        let lasts = |place: &Place, time: i64| {
            let having = self.got.iter().zip(sound).filter(|(_, sound)| **sound);
            let mut having = having.filter_map(|(got, _)| got.get(place));
            let stands = self.settled.get(place);
            having.any(|it| it.time.0 == time) || stands.is_some_and(|it| it.time.0 == time)
        };
        stood.is_some_and(|stood| value.time.0 <= stood)
            || newer.iter().any(|(place, &time)| value.time.0 <= time && lasts(place, time))
    }

    /// Notes a beginning, at this place and with these rounds: as all do that begin there.
    pub fn begins(&mut self, node: usize, at: Point, next: Vec<u64>) -> Result<(), Violation> {
        let first = self.begun.entry(at).or_insert_with(|| next.clone());
        if *first == next {
            return Ok(());
        }
        Err(Violation::Stale(format!(
            "node {} begins at {at:?} with {next:?}, not {first:?}",
            node + 1
        )))
    }

    /// Members without memory have made a majority: the rounds that others had may be gone, and
    /// only time must not go back.
    pub fn weaken(&mut self) {
        let newest = self.settled.values().map(|value| value.time.0).max();
        self.top = self.top.max(newest);
        self.settled.clear();
        self.committed.clear();
        self.begun.clear();
    }

    /// All have come in anew, as their streams differed: what a majority had is known to stand only
    /// where somebody was told so.
    pub fn doubt(&mut self) {
        let newest = self.settled.values().map(|value| value.time.0).max();
        self.top = self.top.max(newest);
        self.settled.retain(|place, _| self.committed.contains(place));
        self.begun.clear();
    }

    pub fn returned(
        &mut self,
        node: usize,
        excluded: bool,
        thread: Thread,
        round: Round,
        value: Agreed,
        sound: &[bool],
    ) -> Result<(), Violation> {
        for (place, before) in self.got[node].iter() {
            let Place::Round(other, earlier) = *place else { continue };
            if other != thread {
                continue;
            }
            if earlier >= round {
                return Err(Violation::Stray(format!(
                    "node {} got {round:?} of {thread:?} after {earlier:?}",
                    node + 1
                )));
            }
            if before.time > value.time {
                return Err(Violation::RollBack(format!(
                    "{thread:?} at node {}: {before:?} in {earlier:?}, {value:?} in {round:?}",
                    node + 1
                )));
            }
        }
        if !excluded && self.is_stale(node, value, sound) {
            return Err(Violation::Stale(format!("node {} got {value:?}", node + 1)));
        }
        self.got(node, excluded, Place::Round(thread, round), value)
    }

    #[allow(clippy::too_many_arguments)]
    pub fn delivered(
        &mut self,
        node: usize,
        excluded: bool,
        from: Member,
        token: u64,
        value: Agreed,
        lease_end: i64,
        log: Option<u64>,
    ) -> Result<(), Violation> {
        let place = Place::Message(from, token);
        let later = Place::Message(from, token)..=Place::Message(from, u64::MAX);
        if let Some((other, _)) = self.got[node].range(later).next() {
            let what = format!("node {} got {place:?} after {other:?}", node + 1);
            return Err(Violation::Stray(what));
        }
        self.leases[node].insert(place, (value.time.0, lease_end));
        self.logs[node].extend(log.map(|log| (place, log)));
        self.got(node, excluded, place, value)
    }

    fn got(
        &mut self,
        node: usize,
        excluded: bool,
        place: Place,
        value: Agreed,
    ) -> Result<(), Violation> {
        self.in_order(&self.got[node], place, value)?;
        self.got[node].insert(place, value);
        self.not_leased(node, place)?;
        if excluded {
            // Its ring is dead: nothing that it sees counts.
            return Ok(());
        }
        if let Some(stands) = self.settled.get(&place) {
            same(place, *stands, value)?;
        }
        Ok(())
    }

    /// The times that a message's lease gives out are nobody else's.
    fn not_leased(&self, node: usize, place: Place) -> Result<(), Violation> {
        let (got, leases) = (&self.got[node], &self.leases[node]);
        let within = |(start, end): (i64, i64), value: &Agreed| {
            (start + 1..=end).contains(&value.time.0) && self.order == Order::Monotone
        };
        let new = got.get(&place).and_then(|value| {
            leases.iter().find(|&(other, &lease)| *other != place && within(lease, value))
        });
        let old = leases.get(&place).and_then(|&lease| {
            got.iter().find(|&(other, value)| *other != place && within(lease, value))
        });
        if new.is_none() && old.is_none() {
            return Ok(());
        }
        Err(Violation::CrossThread(format!("{place:?} and a lease: {new:?}, {old:?}")))
    }

    /// Compares what the nodes have that see what counts; what a majority has stands.
    pub fn compare(&mut self, sound: &[bool]) -> Result<(), Violation> {
        let mut having: BTreeMap<Place, (usize, Agreed)> = BTreeMap::new();
        let nodes = self.got.iter().zip(sound).enumerate();
        for (node, (got, _)) in nodes.filter(|(_, (_, sound))| **sound) {
            for (place, value) in got.iter() {
                let entry = having.entry(*place).or_insert((0, *value));
                same(*place, entry.1, *value)?;
                entry.0 += usize::from(node < self.counted);
            }
        }
        let mut logs: BTreeMap<Place, u64> = BTreeMap::new();
        for (had, _) in self.logs.iter().zip(sound).filter(|(_, sound)| **sound) {
            for (place, log) in had.iter() {
                if *logs.entry(*place).or_insert(*log) != *log {
                    let what = format!("what programs had got with {place:?}");
                    return Err(Violation::Disagreement(what));
                }
            }
        }
        for (place, (number, value)) in having {
            if number >= self.majority {
                self.stand(place, value)?;
            }
        }
        Ok(())
    }

    /// A member was told that a majority has all up to there. One that is cut off may be told late
    /// of what stood when the rounds were gone.
    pub fn committed(
        &mut self,
        node: usize,
        excluded: bool,
        value: Agreed,
    ) -> Result<(), Violation> {
        let top = self.top.filter(|_| excluded);
        let upto = |(_, got): &(&Place, &Agreed)| {
            got.point <= value.point && top.is_none_or(|top| got.time.0 > top)
        };
        let all: Vec<(Place, Agreed)> =
            self.got[node].iter().filter(upto).map(|(place, value)| (*place, *value)).collect();
        for (place, value) in all {
            self.stand(place, value)?;
            self.committed.insert(place);
        }
        Ok(())
    }

    /// A program may reply from that place on, where it is known that programs differ and not who is
    /// right. Of two that differ one may at most.
    pub fn replies(&mut self, fence: Fence, odd: bool, point: Point) -> Result<(), Violation> {
        let Fence { thread, round, since, .. } = fence;
        let place = Place::Round(thread, round);
        // It may have been read elsewhere as well, where somebody strayed.
        let read = self.got.iter().filter_map(|got| got.get(&place));
        let last = read.chain(self.settled.get(&place)).map(|value| value.point).max();
        if last.is_none_or(|last| last > point) {
            return Ok(());
        }
        self.replied.insert((thread, round, since, odd));
        if self.replied.contains(&(thread, round, since, !odd)) {
            return Err(Violation::Unlike(format!("{fence}, and both may reply at {point:?}")));
        }
        Ok(())
    }

    /// Checks that the value fits between those that were agreed on before and after it.
    fn in_order(
        &self,
        others: &BTreeMap<Place, Agreed>,
        place: Place,
        value: Agreed,
    ) -> Result<(), Violation> {
        for (other, theirs) in others.iter().filter(|(other, _)| **other != place) {
            let what = || format!("{other:?}: {theirs:?}, {place:?}: {value:?}");
            if let (Place::Round(one, before), Place::Round(two, after)) = (*other, place)
                && one == two
                && before.cmp(&after) != theirs.time.cmp(&value.time)
                && (self.order == Order::Monotone || theirs.time != value.time)
            {
                return Err(Violation::RollBack(what()));
            }
            if self.across {
                continue;
            }
            let order = theirs.time.cmp(&value.time);
            let across = match theirs.point.cmp(&value.point) {
                // Of one message, whose parts this cannot tell the order of.
                Ordering::Equal => order == Ordering::Equal,
                expected => order != expected,
            };
            let across = across && (self.order == Order::Monotone || order != Ordering::Equal);
            if across {
                return Err(Violation::CrossThread(what()));
            }
        }
        Ok(())
    }

    fn stand(&mut self, place: Place, value: Agreed) -> Result<(), Violation> {
        if let Some(stands) = self.settled.get(&place) {
            return same(place, *stands, value);
        }
        self.in_order(&self.settled, place, value)?;
        if self.top.is_some_and(|top| value.time.0 <= top) {
            let top = self.top;
            return Err(Violation::RollBack(format!(
                "{place:?}: {value:?}, but {top:?} was before"
            )));
        }
        self.settled.insert(place, value);
        self.stood += 1;
        Ok(())
    }
}

fn same(place: Place, one: Agreed, other: Agreed) -> Result<(), Violation> {
    if one == other {
        return Ok(());
    }
    Err(Violation::Disagreement(format!("{place:?}: {one:?} and {other:?}")))
}
