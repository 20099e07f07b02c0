//! The engine's decisions, one by one, over a small network in total order.

mod checkpoints;
mod commit;
mod hostile;
mod joining;
mod likeness;
mod modes;
mod now;
mod paper;
mod posts;
mod rounds;
mod starts;
mod threads;
mod time;
mod untold;
mod versions;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::*;

pub(crate) const MS: i64 = 1_000_000;
pub(crate) const S: i64 = 1_000_000_000;

/// One node: its engine, if it is up, and what its program and disk have.
pub(crate) struct Node {
    pub(crate) engine: Option<Engine>,
    pub(crate) lives: u64,
    /// Physical clock − true time.
    pub(crate) physical: i64,
    /// UTC by its clock − true time and half the bound's width, if synchronised.
    pub(crate) utc: Option<(i64, i64)>,
    pub(crate) floor: Option<i64>,
    pub(crate) actions: Vec<Action>,
    /// Version of the protocol that it speaks.
    version: u16,
    /// Which ring it is in, and what that has still to give it.
    inbox: VecDeque<Item>,
    ring: Vec<u32>,
}

enum Item {
    Message(u32, Vec<u8>),
    Configuration(Vec<u32>, Vec<u32>),
}

/// Nodes in rings; each ring delivers in the same order to all its members.
pub(crate) struct Net {
    pub(crate) group: Group,
    pub(crate) nodes: BTreeMap<u32, Node>,
    /// True time, ns since 1970.
    pub(crate) now: i64,
    pub(crate) checkpoints: bool,
    pub(crate) buffer: usize,
    /// Time that a message is under way, ns.
    pub(crate) way: i64,
    /// Version of the protocol that is started.
    pub(crate) version: u16,
}

/// A message as one that speaks another version than this code has it: its own version is this one's, which is
/// another, and of what another one says only the head means something.
fn translated(bytes: &[u8], own: u16) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let said = bytes.get(4..6).map(|said| u16::from_le_bytes([said[0], said[1]]));
    let version = match said {
        Some(said) if said == own => wire::VERSION,
        Some(wire::VERSION) => own,
        Some(said) => said,
        None => return bytes,
    };
    bytes[4..6].copy_from_slice(&version.to_le_bytes());
    if version != wire::VERSION {
        bytes.iter_mut().skip(wire::HEAD).for_each(|byte| *byte = !*byte);
    }
    bytes
}

pub(crate) const START: i64 = 1_700_000_000 * S;

pub(crate) fn members(ids: &[u32]) -> Vec<Member> {
    ids.iter().map(|&id| Member(id)).collect()
}

impl Net {
    pub(crate) fn new(universe: &[u32]) -> Net {
        Net::of(Group::new("test", &members(universe)))
    }

    pub(crate) fn of(group: Group) -> Net {
        Net {
            group,
            nodes: BTreeMap::new(),
            now: START,
            checkpoints: false,
            buffer: 1 << 20,
            way: 0,
            version: wire::VERSION,
        }
    }

    /// A group whose members are all up and live.
    pub(crate) fn formed(universe: &[u32]) -> Net {
        let mut net = Net::new(universe);
        net.boot(universe);
        net
    }

    pub(crate) fn boot(&mut self, ids: &[u32]) {
        ids.iter().for_each(|&id| self.start(id));
        self.join(ids);
        self.settle();
    }

    /// Starts a node, alone in its ring.
    pub(crate) fn start(&mut self, id: u32) {
        let node = self.nodes.entry(id).or_insert(Node {
            engine: None,
            lives: 0,
            physical: -START + i64::from(id) * 1000 * S,
            utc: Some((0, MS)),
            floor: None,
            actions: Vec::new(),
            version: self.version,
            inbox: VecDeque::new(),
            ring: Vec::new(),
        });
        node.lives += 1;
        node.version = self.version;
        let own = Own {
            floor: node.floor,
            checkpoints: self.checkpoints,
            buffer: self.buffer,
            ..Own::new(Member(id), node.lives)
        };
        node.engine = Some(Engine::new(self.group.clone(), own).unwrap());
        node.inbox.clear();
        node.ring = vec![];
        node.actions.clear();
    }

    /// The node's process ends.
    pub(crate) fn kill(&mut self, id: u32) {
        self.nodes.get_mut(&id).unwrap().engine = None;
        let rest: Vec<u32> =
            self.nodes[&id].ring.iter().copied().filter(|&other| other != id).collect();
        self.configure(&rest, &[]);
        self.nodes.get_mut(&id).unwrap().ring = vec![];
    }

    /// These are now a ring; each has lost those that it was with and are not in it.
    pub(crate) fn join(&mut self, ids: &[u32]) {
        self.configure(ids, &[]);
    }

    pub(crate) fn configure(&mut self, ids: &[u32], gone: &[u32]) {
        for &id in ids {
            let node = self.nodes.get_mut(&id).unwrap();
            let mut lost: Vec<u32> =
                node.ring.iter().copied().filter(|other| !ids.contains(other)).collect();
            lost.extend_from_slice(gone);
            node.ring = ids.to_vec();
            node.inbox.push_back(Item::Configuration(ids.to_vec(), lost));
        }
    }

    /// The network falls into these parts.
    pub(crate) fn split(&mut self, parts: &[&[u32]]) {
        parts.iter().for_each(|part| self.configure(part, &[]));
    }

    pub(crate) fn reading(&self, id: u32) -> Reading {
        let node = &self.nodes[&id];
        let utc = node.utc.map(|(off, half)| Utc {
            best: self.now + off,
            bound: Bound { earliest: self.now + off - half, latest: self.now + off + half },
        });
        Reading { physical: self.now + node.physical, utc }
    }

    pub(crate) fn event(&mut self, id: u32, event: Event<'_>) {
        let now = self.reading(id);
        let node = self.nodes.get_mut(&id).unwrap();
        if let Some(engine) = node.engine.as_mut() {
            engine.handle(now, event);
        }
        self.act(id);
    }

    /// Carries the actions out: what is sent goes to all of the node's ring.
    pub(crate) fn act(&mut self, id: u32) {
        loop {
            let node = self.nodes.get_mut(&id).unwrap();
            let Some(action) = node.engine.as_mut().and_then(Engine::next_action) else { break };
            match &action {
                Action::Send(bytes) => {
                    let mut bytes = bytes.clone();
                    bytes[4..6].copy_from_slice(&node.version.to_le_bytes());
                    for other in node.ring.clone() {
                        let message = Item::Message(id, bytes.clone());
                        self.nodes.get_mut(&other).unwrap().inbox.push_back(message);
                    }
                    continue;
                }
                Action::Keep { floor } => node.floor = Some(*floor),
                _ => {}
            }
            node.actions.push(action);
        }
    }

    /// Delivers one thing to a node; whether there was one.
    pub(crate) fn step(&mut self, id: u32) -> bool {
        let node = self.nodes.get_mut(&id).unwrap();
        let Some(item) = node.inbox.pop_front() else { return false };
        match item {
            Item::Message(from, bytes) => {
                let bytes = translated(&bytes, node.version);
                self.event(id, Event::Delivered { from: Member(from), bytes: &bytes });
            }
            Item::Configuration(ids, lost) => {
                let (ids, lost) = (members(&ids), members(&lost));
                self.event(id, Event::Configuration { members: &ids, lost: &lost });
            }
        }
        true
    }

    pub(crate) fn deliver(&mut self) {
        let ids: Vec<u32> = self.nodes.keys().copied().collect();
        loop {
            let mut any = false;
            for &id in &ids {
                any |= self.step(id);
            }
            if !any {
                break;
            }
        }
    }

    pub(crate) fn flush(&mut self, id: u32) {
        let now = self.reading(id);
        if let Some(engine) = self.nodes.get_mut(&id).unwrap().engine.as_mut() {
            engine.flush(now);
        }
        self.act(id);
    }

    /// Lets everybody who is due send, and delivers, until nobody is due now.
    pub(crate) fn settle(&mut self) {
        let ids: Vec<u32> = self.nodes.keys().copied().collect();
        for turn in 0.. {
            assert!(turn < 10_000, "the group does not come to rest");
            self.deliver();
            let due = ids.iter().copied().find(|&id| {
                let physical = self.reading(id).physical;
                let engine = self.nodes[&id].engine.as_ref();
                engine.and_then(Engine::deadline).is_some_and(|due| due <= physical)
            });
            match due {
                Some(id) => {
                    self.flush(id);
                    self.now += self.way;
                }
                None => break,
            }
        }
    }

    /// Lets time pass, in steps of a tenth of a millisecond up to 2 ms, else of 100 ms.
    pub(crate) fn pass(&mut self, time: i64) {
        let until = self.now + time;
        while self.now < until {
            let step = if time <= 20 * MS { MS / 10 } else { 100 * MS };
            self.now = (self.now + step).min(until);
            self.settle();
        }
    }

    pub(crate) fn read(&mut self, id: u32, thread: u64) {
        self.event(id, Event::Read { thread: Thread(thread), call: Call::Group });
    }

    pub(crate) fn engine(&self, id: u32) -> &Engine {
        self.nodes[&id].engine.as_ref().unwrap()
    }

    pub(crate) fn phase(&self, id: u32) -> Phase {
        self.engine(id).phase()
    }

    pub(crate) fn all_live(&self, ids: &[u32]) {
        for &id in ids {
            assert_eq!(self.phase(id), Phase::Live, "{id}");
        }
        let states: BTreeSet<String> =
            ids.iter().map(|&id| format!("{:?}", self.engine(id).state)).collect();
        assert_eq!(states.len(), 1, "{states:#?}");
    }

    /// All values that the node's program got, by thread and round.
    pub(crate) fn values(&self, id: u32) -> Vec<(u64, u64, Agreed)> {
        let value = |action: &Action| match action {
            Action::Return { thread, round, value } => Some((thread.0, round.0, *value)),
            _ => None,
        };
        self.nodes[&id].actions.iter().filter_map(value).collect()
    }

    /// All of them read the same thread, and get the same value: that.
    pub(crate) fn all_read(&mut self, ids: &[u32], thread: u64) -> Agreed {
        for &id in ids {
            self.read(id, thread);
        }
        self.settle();
        self.pass(2 * MS);
        let values: BTreeSet<_> = ids
            .iter()
            .map(|&id| {
                let (.., value) = *self.values(id).last().unwrap();
                (value.time, value.synchronizer, value.point)
            })
            .collect();
        assert_eq!(values.len(), 1, "{values:?}");
        self.values(ids[0]).last().unwrap().2
    }

    pub(crate) fn notices(&self, id: u32) -> Vec<Notice> {
        let notice = |action: &Action| match action {
            Action::Notice(notice) => Some(notice.clone()),
            _ => None,
        };
        self.nodes[&id].actions.iter().filter_map(notice).collect()
    }
}
