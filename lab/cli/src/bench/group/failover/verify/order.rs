//! The order of everything, once all is known.

use std::collections::HashMap;

use truechimer_group::{Agreed, Point};

use super::present::{self, Reading};
use super::{Kind, LifeId, Place, Seen, Verifier, message_name, place};

/// True if what these lives saw may be an orphan: they are all of one node (what two of three have
/// is the majority's), none of them saw anything of a later generation, and there was one.
fn may_be_orphan(verifier: &Verifier, lives: &[LifeId], point: Point, newest: u64) -> bool {
    let life = |id: &LifeId| verifier.lives.get(id.0 as usize);
    let node = lives.first().and_then(life).map(|life| life.node);
    let ended = |id: &LifeId| {
        life(id).is_some_and(|life| Some(life.node) == node && life.generation <= point.generation)
    };
    point.generation < newest && lives.iter().all(ended)
}

/// True if one of them was told that a majority has it.
fn committed(verifier: &Verifier, lives: &[LifeId], point: Point) -> bool {
    let by = |id: &LifeId| verifier.lives.get(id.0 as usize).and_then(|life| life.committed);
    lives.iter().any(|id| by(id) >= Some(point))
}

/// The versions of one thing that are part of the group's history, and those that are orphans
/// because another version is.
struct Sorted<'a, T> {
    true_ones: Vec<&'a Seen<T>>,
    contradicted: Vec<&'a Seen<T>>,
}

/// Where each life left the history.
#[derive(Default)]
struct Ends {
    first_orphan: HashMap<LifeId, Point>,
    last_true: HashMap<LifeId, Point>,
}

impl Ends {
    /// Notes orphans; how many.
    fn orphans<'a, T: 'a>(&mut self, all: impl Iterator<Item = (&'a Seen<T>, Point)>) -> u64 {
        let mut count = 0;
        for (seen, point) in all {
            count += 1;
            for life in &seen.lives {
                let first = self.first_orphan.entry(*life).or_insert(point);
                *first = point.min(*first);
            }
        }
        count
    }

    fn history(&mut self, lives: &[LifeId], point: Point) {
        for life in lives {
            let last = self.last_true.entry(*life).or_insert(point);
            *last = point.max(*last);
        }
    }

    /// Finds parts of the history that came after an orphan: none may.
    fn check(&self, verifier: &Verifier, found: &mut Vec<(Kind, String, String, String)>) {
        for (id, orphan) in &self.first_orphan {
            let Some(after) = self.last_true.get(id).filter(|last| *last > orphan) else {
                continue;
            };
            let Some(life) = verifier.lives.get(id.0 as usize) else { continue };
            let what = format!("node {} life {}", life.node, life.number);
            let this = format!("what it saw at {} is no part of the history", place(*orphan));
            let other = format!("what it saw at {} is", place(*after));
            found.push((Kind::Disagreement, what, this, other));
        }
    }
}

impl Verifier {
    pub(super) fn check_order(&mut self) {
        let newest = self.lives.iter().map(|life| life.generation).max().unwrap_or(0);
        let mut found: Vec<(Kind, String, String, String)> = Vec::new();
        // Every value and message of the history, with its name.
        let mut history: Vec<(Agreed, String)> = Vec::new();
        // The places of messages, for what was missed.
        let mut places: Vec<Place> = Vec::new();
        let (mut orphans, mut unsure) = (0, 0);
        let mut ends = Ends::default();
        let mut read = self.present_readings();
        for ((thread, round), seen) in &self.values {
            let name = || format!("thread {thread} round {round}");
            let sorted = self.sort(seen, |value| *value, newest, &name, &mut found);
            orphans += ends.orphans(sorted.contradicted.iter().map(|s| (*s, s.what.point)));
            for seen in sorted.true_ones {
                if may_be_orphan(self, &seen.lives, seen.what.point, newest) {
                    // Nobody who went on has it: no part of the history that can be relied on.
                    unsure += 1;
                } else {
                    ends.history(&seen.lives, seen.what.point);
                    read.push(self.reading_of(*thread, *round, seen));
                    history.push((seen.what, name()));
                }
            }
        }
        for seen in self.messages.values() {
            let name = || seen.first().map_or_else(String::new, |s| message_name(&s.what));
            let sorted = self.sort(seen, |message| message.value, newest, &name, &mut found);
            let contradicted = sorted.contradicted.iter();
            orphans += ends.orphans(contradicted.map(|s| (*s, s.what.value.point)));
            for seen in sorted.true_ones {
                let point = seen.what.value.point;
                if may_be_orphan(self, &seen.lives, point, newest) {
                    unsure += 1;
                } else {
                    places.push((point, seen.what.value.time.0));
                    read.push(Reading { began: None, done: seen.done, value: seen.what.value });
                    ends.history(&seen.lives, point);
                    history.push((seen.what.value, name()));
                }
            }
        }
        ends.check(self, &mut found);
        self.check_times(history, &mut found);
        present::check(read, &mut found);
        places.sort_unstable();
        self.check_messages(&places, &mut found);
        self.tally.orphans = orphans;
        self.tally.unsure = unsure;
        self.check_restarts(&mut found);
        for (kind, what, this, other) in found {
            self.violation(kind, &what, this, other);
        }
    }

    /// Which versions of one thing stand.
    fn sort<'a, T>(
        &self,
        seen: &'a [Seen<T>],
        value: fn(&T) -> Agreed,
        newest: u64,
        name: &dyn Fn() -> String,
        found: &mut Vec<(Kind, String, String, String)>,
    ) -> Sorted<'a, T> {
        let says = |seen: &Seen<T>| {
            seen.lives.first().map_or_else(String::new, |id| self.says(*id, value(&seen.what)))
        };
        let mut all: Vec<&Seen<T>> = seen.iter().collect();
        all.sort_by_key(|seen| value(&seen.what).point);
        let Some(last) = all.pop() else {
            return Sorted { true_ones: Vec::new(), contradicted: Vec::new() };
        };
        let mut contradicted = Vec::new();
        for other in all {
            let point = value(&other.what).point;
            if !may_be_orphan(self, &other.lives, point, newest)
                || point.generation == value(&last.what).point.generation
            {
                found.push((Kind::Disagreement, name(), says(other), says(last)));
            } else if committed(self, &other.lives, point) {
                found.push((Kind::CommitLost, name(), says(other), says(last)));
            }
            contradicted.push(other);
        }
        Sorted { true_ones: vec![last], contradicted }
    }

    /// In the group's order every value is greater than all before it.
    fn check_times(
        &self,
        mut history: Vec<(Agreed, String)>,
        found: &mut Vec<(Kind, String, String, String)>,
    ) {
        history.sort_by_key(|(value, _)| (value.point, value.time));
        for pair in history.windows(2) {
            let [(a, first), (b, second)] = pair else { continue };
            if b.time <= a.time {
                let says = |value: &Agreed, name: &str| {
                    format!("{name}: {} at {}", value.time.0, place(value.point))
                };
                let what = "the group's order".to_owned();
                found.push((Kind::RollBack, what, says(b, second), says(a, first)));
            }
        }
    }

    /// Between the first and the last message that a life got it got all.
    fn check_messages(&self, places: &[Place], found: &mut Vec<(Kind, String, String, String)>) {
        for life in &self.lives {
            let own = &life.messages;
            let (Some(first), Some(last)) = (own.first(), own.last()) else { continue };
            let range = places.partition_point(|place| place < first)
                ..places.partition_point(|place| place <= last);
            let own: std::collections::HashSet<&Place> = own.iter().collect();
            let all = places.get(range).unwrap_or_default();
            if let Some(missed) = all.iter().find(|place| !own.contains(place)) {
                let what = "a message of the order".to_owned();
                let this = format!("node {} life {}", life.node, life.number);
                let other = format!("it got messages before and after {}", place(missed.0));
                found.push((Kind::MessageLost, what, this, other));
            }
        }
    }

    /// From life to life of one node no thread goes back.
    fn check_restarts(&self, found: &mut Vec<(Kind, String, String, String)>) {
        let mut last: HashMap<(u32, u64), (u32, Agreed)> = HashMap::new();
        let mut lives: Vec<_> = self.lives.iter().collect();
        lives.sort_by_key(|life| (life.node, life.number));
        for life in lives {
            for (thread, (_, value)) in &life.threads {
                let first = life.first.get(thread).unwrap_or(value);
                if let Some((number, before)) = last.get(&(life.node, *thread))
                    && first.time <= before.time
                {
                    let name = format!("thread {thread} over a restart of node {}", life.node);
                    let says = |number: u32, value: &Agreed| {
                        format!("life {number}: {} at {}", value.time.0, place(value.point))
                    };
                    let pair = (says(life.number, first), says(*number, before));
                    found.push((Kind::RollBack, name, pair.0, pair.1));
                }
                last.insert((life.node, *thread), (life.number, *value));
            }
        }
    }
}
