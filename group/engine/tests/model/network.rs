//! A group communication system as Corosync's is: one total order in each configuration, members
//! that stay together see the same, and no more than that.
//!
//! A message is *ordered* when it is taken from its sender's outbox and put into the inbox of every
//! member of the sender's ring at once; each member takes from its inbox at its own pace. When a
//! ring breaks, what a departed member sent and nobody of a component has delivered yet may be lost
//! to that component, while the departed member has delivered it: delivery is not uniform. A member
//! that is cut off may go on in the dead ring by itself before it learns of that (`late`), and may
//! learn of it and of the merged ring in one breath.
//!
//! Members learn of a ring from Corosync's own *synchronisation*, which takes messages of its own
//! and is broken off by the next change of the ring. Each node keeps whom it last synchronised with
//! and whose processes it knows. At the end of a synchronisation, who was there then and did not
//! come here together with it from the ring before *this* one is lost to it; the others say who is
//! there, and who is not named has left. So whoever was away in a ring in between is told of that
//! only if none of the synchronisations since was broken off (Corosync 3.1, exec/cpg.c and
//! exec/sync.c). Until the end, what was queued in the old ring is sent and delivered to all who
//! know the sender, and processes cannot send. With `slow` that end is a step of its own, else it
//! comes at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use truechimer_group::Member;

use crate::world::Shared;

/// Item that a member takes from its inbox.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Item {
    /// `doubtful`: from one that was cut off and had not found out. `ring`: in which it took its
    /// place.
    Message {
        from: Member,
        bytes: Rc<[u8]>,
        doubtful: bool,
        ring: u32,
    },
    Configuration {
        members: Vec<Member>,
        lost: Vec<Member>,
    },
    /// Nothing: here the node was cut off, and may never be told.
    Away,
}

/// A message, and whether it is from one that was cut off and had not found out.
type Sent = (Rc<[u8]>, bool);

/// One node's connection.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Link {
    /// True if a process is attached.
    pub up: bool,
    /// Which ring the node is in.
    ring: u32,
    /// True if it is still in a ring that the others have left.
    pub late: bool,
    /// True if the process has ended, and the others have yet to learn of it.
    pub dead: bool,
    pub outbox: VecDeque<Sent>,
    pub inbox: VecDeque<Item>,
    /// True while the ring's synchronisation is under way; what its process cannot send meanwhile.
    pub syncing: bool,
    pub waiting: VecDeque<Sent>,
    /// Whom the node last synchronised with, and who came with it from the ring before this one.
    before: BTreeSet<usize>,
    together: BTreeSet<usize>,
    /// Processes that it knows, by node, and the number of its own.
    known: BTreeMap<usize, u32>,
    life: u32,
}

/// Fate of what departed members sent, where it can reach those who stay and can be lost.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fate {
    Kept,
    Lost,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Network {
    /// By node, from member 1.
    pub links: Vec<Shared<Link>>,
    /// True if synchronisations take time, and so can be broken off.
    slow: bool,
    rings: u32,
}

impl Link {
    fn comes(&mut self, item: Item) {
        if self.up && !self.dead {
            self.inbox.push_back(item);
        }
    }

    /// The process sends.
    pub fn send(&mut self, bytes: Rc<[u8]>, doubtful: bool) {
        let queue = if self.syncing { &mut self.waiting } else { &mut self.outbox };
        queue.push_back((bytes, doubtful));
    }

    /// Marks what the process has sent and has not taken its place as from one that is cut off.
    pub fn doubt(&mut self) {
        let sent = self.outbox.iter_mut().chain(&mut self.waiting);
        sent.for_each(|(_, doubtful)| *doubtful = true);
    }

    /// The process is told whom the node knows.
    fn announce(&mut self, lost: &[usize]) {
        let members = self.known.keys().copied().map(member).collect();
        let lost = lost.iter().copied().map(member).collect();
        self.comes(Item::Configuration { members, lost });
    }
}

fn member(node: usize) -> Member {
    Member(node as u32 + 1)
}

impl Network {
    pub fn new(nodes: usize, slow: bool) -> Network {
        let link = Shared::new(Link { before: (0..nodes).collect(), ..Link::default() });
        Network { links: vec![link; nodes], slow, rings: 0 }
    }

    /// Those with a process in the ring of `node`, which see what it sends.
    pub fn together(&self, node: usize) -> Vec<usize> {
        let here = &self.links[node];
        let same = |&other: &usize| {
            let link = &self.links[other];
            link.up && link.ring == here.ring && (!here.late && !link.late || other == node)
        };
        (0..self.links.len()).filter(same).collect()
    }

    /// The nodes of the ring of `node`, with or without a process.
    pub fn ring(&self, node: usize) -> Vec<usize> {
        let here = &self.links[node];
        let same = |&other: &usize| {
            let link = &self.links[other];
            link.ring == here.ring && (!here.late && !link.late || other == node)
        };
        (0..self.links.len()).filter(same).collect()
    }

    pub fn quiet(&self) -> bool {
        let silent = |link: &Link| !link.up || link.inbox.is_empty() && link.outbox.is_empty();
        let settled = |link: &Link| !link.late && !link.dead && !link.syncing;
        self.links.iter().all(|link| silent(link) && settled(link))
    }

    /// The next message of `node` takes its place in the order.
    pub fn order(&mut self, node: usize) {
        let Some((bytes, doubtful)) = self.links[node].outbox.pop_front() else { return };
        for other in self.ring(node) {
            let link = &mut self.links[other];
            let ring = link.ring;
            if link.known.contains_key(&node) {
                let (from, bytes) = (member(node), Rc::clone(&bytes));
                link.comes(Item::Message { from, bytes, doubtful, ring });
            }
        }
    }

    /// A process attaches.
    pub fn attach(&mut self, node: usize) {
        let link = &mut self.links[node];
        link.up = true;
        link.life += 1;
        link.inbox.clear();
        link.outbox.clear();
        link.waiting.clear();
        let life = link.life;
        for other in self.ring(node) {
            self.links[other].known.insert(node, life);
            self.links[other].announce(&[]);
        }
    }

    /// The process ends. What it had queued may still be sent.
    pub fn die(&mut self, node: usize) {
        let link = &mut self.links[node];
        link.dead = true;
        link.inbox.clear();
    }

    /// The others learn of that; what it had queued is sent before or not.
    pub fn detach(&mut self, node: usize, fate: Fate) {
        if fate == Fate::Kept {
            while !self.links[node].outbox.is_empty() {
                self.order(node);
            }
        }
        let link = &mut self.links[node];
        link.up = false;
        link.dead = false;
        link.inbox.clear();
        link.outbox.clear();
        link.waiting.clear();
        for other in self.ring(node) {
            self.links[other].known.remove(&node);
            self.links[other].announce(&[]);
        }
    }

    /// A new ring of these nodes.
    fn form(&mut self, nodes: &[usize]) {
        let came: Vec<BTreeSet<usize>> = nodes
            .iter()
            .map(|&node| self.ring(node).into_iter().filter(|it| nodes.contains(it)).collect())
            .collect();
        self.rings += 1;
        for (&node, together) in nodes.iter().zip(came) {
            let link = &mut self.links[node];
            link.ring = self.rings;
            link.late = false;
            link.together = together;
            link.syncing = true;
        }
        if !self.slow
            && let Some(&node) = nodes.first()
        {
            self.sync(node);
        }
    }

    /// The synchronisation of the ring of `node` comes to its end.
    pub fn sync(&mut self, node: usize) {
        let ring = self.ring(node);
        let lives: BTreeMap<usize, u32> = ring
            .iter()
            .filter(|&&node| self.links[node].up)
            .map(|&node| (node, self.links[node].life))
            .collect();
        for &node in &ring {
            let link = &mut self.links[node];
            link.syncing = false;
            let waiting = std::mem::take(&mut link.waiting);
            link.outbox.extend(waiting);
            let gone = |it: &usize| link.before.contains(it) && !link.together.contains(it);
            let lost: Vec<usize> = link.known.keys().copied().filter(gone).collect();
            link.before = ring.iter().copied().collect();
            if !lost.is_empty() {
                link.known.retain(|node, _| !lost.contains(node));
                link.announce(&lost);
            }
            for (&other, &life) in &lives {
                if link.known.get(&other).is_some_and(|&known| known != life) {
                    // Its process is another.
                    link.known.remove(&other);
                    link.announce(&[]);
                }
                if link.known.insert(other, life).is_none() {
                    link.announce(&[]);
                }
            }
            while let Some(&other) = link.known.keys().find(|&it| !lives.contains_key(it)) {
                link.known.remove(&other);
                link.announce(&[]);
            }
        }
    }

    /// The ring of `node` breaks and forms again, of the same nodes.
    pub fn again(&mut self, node: usize) {
        self.form(&self.ring(node));
    }

    /// True if the ring of `node` came of several.
    pub fn merged(&self, node: usize) -> bool {
        self.links[node].together.len() < self.ring(node).len()
    }

    /// One node of each ring whose synchronisation is under way.
    pub fn syncing(&self) -> Vec<usize> {
        let first = |&node: &usize| self.ring(node).first() == Some(&node);
        (0..self.links.len()).filter(first).filter(|&node| self.links[node].syncing).collect()
    }

    /// The ring of `nodes[0]` breaks: `nodes` go on together, the rest of it by itself. With
    /// `late`, the rest must be a single node, and does not notice yet.
    pub fn part(&mut self, nodes: &[usize], here: Fate, there: Fate, late: bool) {
        let rest: Vec<usize> =
            self.ring(nodes[0]).into_iter().filter(|other| !nodes.contains(other)).collect();
        self.forget(nodes, &rest, here);
        self.forget(&rest, nodes, there);
        self.form(nodes);
        if late && rest.len() == 1 {
            self.links[rest[0]].late = true;
        } else if !rest.is_empty() {
            self.form(&rest);
        }
    }

    /// A node that was cut off and did not notice does.
    pub fn notice(&mut self, node: usize) {
        self.form(&[node]);
    }

    /// All nodes come together in one ring.
    pub fn heal(&mut self) {
        for node in 0..self.links.len() {
            if self.links[node].late {
                self.notice(node);
            }
        }
        if !self.whole() {
            self.form(&(0..self.links.len()).collect::<Vec<_>>());
        }
    }

    /// True if all nodes are in one ring.
    pub fn whole(&self) -> bool {
        self.links.iter().all(|link| !link.late && link.ring == self.links[0].ring)
    }

    /// Loses to `nodes` what `departed` sent and none of them has taken from its inbox.
    fn forget(&mut self, nodes: &[usize], departed: &[usize], fate: Fate) {
        if fate == Fate::Kept {
            return;
        }
        for &sender in departed {
            let from = member(sender);
            let waiting = |link: &Link| {
                let of_sender = |item: &&Item| matches!(item, Item::Message { from: other, .. } if *other == from);
                let in_ring =
                    |item: &&Item| matches!(item, Item::Message { ring, .. } if *ring == link.ring);
                link.inbox.iter().rev().take_while(in_ring).filter(of_sender).count()
            };
            let up = || nodes.iter().copied().filter(|&node| self.links[node].up);
            let untaken = up().map(|node| waiting(&self.links[node])).min().unwrap_or(0);
            for node in up().collect::<Vec<_>>() {
                let inbox = &mut self.links[node].inbox;
                for _ in 0..untaken {
                    let of_sender = |item: &Item| matches!(item, Item::Message { from: other, .. } if *other == from);
                    if let Some(last) = inbox.iter().rposition(of_sender) {
                        inbox.remove(last);
                    }
                }
            }
        }
    }
}
