//! Check that what the programs saw is what one clock would have shown them.
//!
//! Every record of every program's life goes in, in the order of its file; the verifier knows
//! nothing of the engine and trusts no member's word about another.
//!
//! One thing is allowed, and counted: Corosync's delivery is not uniform, so that a node that is
//! cut off may still deliver a message of its own that nobody else ever gets. What its program saw
//! then is an *orphan*. It must be the end of what that life saw, must never have been committed,
//! and nothing that left the group may rest on it.

mod order;
mod present;
#[cfg(test)]
mod tests;
mod violation;

use std::collections::HashMap;

use truechimer_group::{Agreed, Member, Phase, Point};

use super::record::{Cause, Record, What};
pub use violation::{Kind, Violation};

/// More violations than this are counted, not kept.
const MOST_KEPT: usize = 100;
/// The group's clock may run ahead of the host's by this much more than at the beginning, ns.
const MOST_AHEAD_NS: i64 = 500_000_000;

/// One life of one node's program, as [`Verifier::life`] gave it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LifeId(u32);

/// When which nodes may lose their place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// From when, ns of CLOCK_MONOTONIC.
    pub from: i64,
    /// Until when.
    pub to: i64,
    /// Which node; none: all.
    pub node: Option<u32>,
}

/// A message's place: several may come together, and differ in their times alone.
type Place = (Point, i64);

/// Life as far as known.
#[derive(Debug)]
struct Life {
    node: u32,
    number: u32,
    /// For each thread the last round and its value.
    threads: HashMap<u64, (u64, Agreed)>,
    /// For each thread how many readings were refused since its last value: each of them may have
    /// been a round.
    refused: HashMap<u64, u64>,
    /// For each thread the first value.
    first: HashMap<u64, Agreed>,
    /// For each thread the moment of its last record; and that of the life's first.
    heard: HashMap<u64, i64>,
    since: Option<i64>,
    last_message: Option<Place>,
    /// The messages' places, to see what is missing.
    messages: Vec<Place>,
    /// The latest generation of which something was seen.
    generation: u64,
    committed: Option<Point>,
    /// Since when it is outside.
    outside: Option<i64>,
    /// True if the messages that came last were followed by its going outside.
    turned_out: bool,
    records: u64,
}

/// A value or message, and the lives that saw it.
#[derive(Clone, Debug)]
struct Seen<T> {
    what: T,
    lives: Vec<LifeId>,
    /// When the first of them asked for it, and when the first of them had it, ns of CLOCK_MONOTONIC.
    began: i64,
    done: i64,
}

/// Identity of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Message {
    from: Member,
    content: u64,
    value: Agreed,
}

/// Checks records as they come, and all together in the end.
#[derive(Debug, Default)]
pub struct Verifier {
    lives: Vec<Life>,
    values: HashMap<(u64, u64), Vec<Seen<Agreed>>>,
    messages: HashMap<(Member, u64), Vec<Seen<Message>>>,
    /// Readings of the time at present: when each began and was done, and by which life.
    present: Vec<(i64, i64, Agreed, LifeId)>,
    windows: Vec<Window>,
    /// Refusals and losses, to be held against the windows: node, when, text.
    losses: Vec<(u32, i64, String)>,
    /// Host's time − group's at the first value.
    origin: Option<i64>,
    kept: Vec<Violation>,
    tally: Tally,
}

/// Counts of what was seen and found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Lives of programs.
    pub lives: u64,
    /// Records in all.
    pub records: u64,
    /// Rounds that gave a value somewhere.
    pub rounds: u64,
    /// Values that programs got.
    pub values: u64,
    /// Readings of the time at present.
    pub present: u64,
    /// Messages in the group's order.
    pub messages: u64,
    /// Times that one was delivered.
    pub deliveries: u64,
    /// Commits that came through.
    pub commits: u64,
    /// Operations refused because the member was outside.
    pub refused_outside: u64,
    /// Operations that failed otherwise.
    pub failed: u64,
    /// Values and messages that only a cut-off node saw, the others having gone on with other ones;
    /// none of them committed.
    pub orphans: u64,
    /// Those that only a cut-off node saw, of which nobody knows otherwise: the others never asked
    /// for that round, or had nothing else at that place.
    pub unsure: u64,
    /// Violations: what must not be.
    pub violations: u64,
}

impl Tally {
    /// The sum of both.
    pub fn add(&mut self, other: &Tally) {
        let Tally {
            lives,
            records,
            rounds,
            values,
            present,
            messages,
            deliveries,
            commits,
            refused_outside,
            failed,
            orphans,
            unsure,
            violations,
        } = other;
        self.present += present;
        self.lives += lives;
        self.records += records;
        self.rounds += rounds;
        self.values += values;
        self.messages += messages;
        self.deliveries += deliveries;
        self.commits += commits;
        self.refused_outside += refused_outside;
        self.failed += failed;
        self.orphans += orphans;
        self.unsure += unsure;
        self.violations += violations;
    }
}

impl Verifier {
    /// A new life of the program at `node`, its `number`-th.
    pub fn life(&mut self, node: u32, number: u32) -> LifeId {
        self.lives.push(Life {
            node,
            number,
            threads: HashMap::new(),
            refused: HashMap::new(),
            first: HashMap::new(),
            heard: HashMap::new(),
            since: None,
            last_message: None,
            messages: Vec::new(),
            generation: 0,
            committed: None,
            outside: None,
            turned_out: false,
            records: 0,
        });
        self.tally.lives += 1;
        LifeId(self.lives.len() as u32 - 1)
    }

    /// A time in which a node may lose its place.
    pub fn allow(&mut self, window: Window) {
        self.windows.push(window);
    }

    /// The next record of a life.
    pub fn record(&mut self, id: LifeId, record: &Record) {
        let Some(life) = self.lives.get_mut(id.0 as usize) else { return };
        life.records += 1;
        life.since.get_or_insert(record.began);
        self.tally.records += 1;
        match record.what {
            What::Present { value } => {
                self.tally.present += 1;
                self.present.push((record.began, record.done, value, id));
            }
            What::Value { thread, round, value } => self.value(id, record, thread, round, value),
            What::Message { from, content, value } => {
                self.message(id, record, Message { from, content, value });
            }
            What::Refused { thread, cause } => {
                match cause {
                    Cause::Outside => self.tally.refused_outside += 1,
                    Cause::Gone | Cause::Late | Cause::Other => self.tally.failed += 1,
                }
                *life.refused.entry(thread).or_default() += 1;
                let text = format!("thread {thread} refused: {cause:?}");
                self.losses.push((life.node, record.done, text));
            }
            What::Committed { point } => {
                life.committed = life.committed.max(Some(point));
                self.tally.commits += 1;
            }
            What::Turn(phase) => life.turned_out = phase == Phase::Outside,
            What::Phase(phase) => {
                life.outside = (phase == Phase::Outside).then_some(record.done);
                if phase == Phase::Outside {
                    self.losses.push((life.node, record.done, "went outside".to_owned()));
                }
            }
        }
    }

    /// The life ended.
    pub fn ended(&mut self, id: LifeId, at: i64) {
        if let Some(life) = self.lives.get(id.0 as usize) {
            self.losses.push((life.node, at, "the program ended".to_owned()));
        }
    }

    fn value(&mut self, id: LifeId, record: &Record, thread: u64, round: u64, value: Agreed) {
        self.tally.values += 1;
        let what = format!("thread {thread} round {round}");
        let this = self.says(id, value);
        let Some(life) = self.lives.get_mut(id.0 as usize) else { return };
        life.generation = life.generation.max(value.point.generation);
        life.first.entry(thread).or_insert(value);
        life.heard.insert(thread, record.done);
        let last = life.threads.insert(thread, (round, value));
        let refused = life.refused.insert(thread, 0).unwrap_or(0);
        if let Some(since) = life.outside.filter(|since| record.began > *since) {
            let other = format!("outside since {since}, asked at {}", record.began);
            self.violation(Kind::WhileOutside, &what, this.clone(), other);
        }
        if let Some((before, earlier)) = last {
            let other = format!("round {before}: {}", self.says(id, earlier));
            let next = before.saturating_add(1);
            if round < next || round > next.saturating_add(refused) {
                self.violation(Kind::LostRound, &what, this.clone(), other);
            } else if value.time <= earlier.time || value.point <= earlier.point {
                self.violation(Kind::RollBack, &what, this.clone(), other);
            }
        }
        let ahead = value.time.0.saturating_sub(record.done);
        let origin = *self.origin.get_or_insert(ahead);
        if ahead.saturating_sub(origin) > MOST_AHEAD_NS {
            let other = format!("{} ns more ahead of the host than at first", ahead - origin);
            self.violation(Kind::Ahead, &what, this, other);
        }
        let seen = self.values.entry((thread, round)).or_default();
        self.tally.rounds += u64::from(seen.is_empty());
        note(seen, value, id, record);
    }

    fn message(&mut self, id: LifeId, record: &Record, message: Message) {
        self.tally.deliveries += 1;
        let Agreed { point, time, .. } = message.value;
        let own = (point, time.0);
        let what = message_name(&message);
        let this = self.says(id, message.value);
        let Some(life) = self.lives.get_mut(id.0 as usize) else { return };
        life.generation = life.generation.max(point.generation);
        life.messages.push(own);
        let last = life.last_message.replace(own);
        if life.turned_out {
            let other = "it had turned outside before".to_owned();
            self.violation(Kind::WhileOutside, &what, this.clone(), other);
        }
        if let Some(last) = last.filter(|last| *last >= own) {
            let other = format!("after {} at {}", last.1, place(last.0));
            self.violation(Kind::MessageOrder, &what, this.clone(), other);
        }
        let seen = self.messages.entry((message.from, message.content)).or_default();
        self.tally.messages += u64::from(seen.is_empty());
        let twice = seen.iter().any(|seen| seen.lives.contains(&id));
        note(seen, message, id, record);
        if twice {
            self.violation(Kind::MessageTwice, &what, this, "the same life".to_owned());
        }
    }

    /// Everything together: to be called once, when all has been put in.
    #[must_use]
    pub fn finish(mut self) -> Verdict {
        self.check_losses();
        self.check_order();
        Verdict { tally: self.tally, violations: self.kept }
    }

    /// Violations found so far.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.kept
    }

    /// Counts so far.
    #[cfg(test)]
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    fn check_losses(&mut self) {
        let losses = std::mem::take(&mut self.losses);
        for (node, at, text) in losses {
            let allowed = self.windows.iter().any(|window| {
                window.node.is_none_or(|hit| hit == node) && (window.from..=window.to).contains(&at)
            });
            if !allowed {
                let this = format!("node {node} at {at}");
                self.violation(Kind::SurvivorLost, &text, this, "nothing was done to it".into());
            }
        }
    }

    fn violation(&mut self, kind: Kind, what: &str, this: String, other: String) {
        self.tally.violations += 1;
        if self.kept.len() < MOST_KEPT {
            self.kept.push(Violation { kind, what: what.to_owned(), this, other });
        }
    }

    /// A value as a life saw it, for people.
    fn says(&self, id: LifeId, value: Agreed) -> String {
        let life = self.lives.get(id.0 as usize);
        let (node, number) = life.map_or((0, 0), |life| (life.node, life.number));
        format!(
            "node {node} life {number}: {} by {} at {}",
            value.time.0,
            value.synchronizer,
            place(value.point)
        )
    }
}

/// Verdict on all of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The counts.
    pub tally: Tally,
    /// The first of what must not be.
    pub violations: Vec<Violation>,
}

fn note<T: PartialEq>(seen: &mut Vec<Seen<T>>, what: T, life: LifeId, record: &Record) {
    let &Record { began, done, .. } = record;
    match seen.iter_mut().find(|seen| seen.what == what) {
        Some(seen) => {
            seen.lives.push(life);
            (seen.began, seen.done) = (seen.began.min(began), seen.done.min(done));
        }
        None => seen.push(Seen { what, lives: vec![life], began, done }),
    }
}

fn message_name(message: &Message) -> String {
    format!("message {:x} of {}", message.content, message.from)
}

fn place(point: Point) -> String {
    format!("{}.{}", point.generation, point.index)
}
