//! A group communication system as Corosync's is: one total order in each configuration, members
//! that stay together see the same, and no more than that.
//!
//! A message is *ordered* when it is taken from its sender's outbox and put into the inbox of every
//! member of the sender's ring at once; each member takes from its inbox at its own pace. When a
//! ring breaks, what a departed member sent and nobody of a component has delivered yet may be lost
//! to that component, while the departed member has delivered it: delivery is not uniform. A member
//! that is cut off may go on in the dead ring by itself before it learns of that (`late`), and may
//! learn of it and of the merged ring in one breath.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use truechimer_group::Member;

/// What a member takes from its inbox.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Item {
    Message { from: Member, bytes: Rc<[u8]> },
    Configuration { members: Vec<Member>, lost: Vec<Member> },
}

/// One node's connection.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Link {
    /// Whether a process is attached.
    pub up: bool,
    /// Which ring the node is in.
    ring: u32,
    /// Whether it is still in a ring that the others have left.
    pub late: bool,
    /// Whether the process has ended, and the others have yet to learn of it.
    pub dead: bool,
    pub outbox: VecDeque<Rc<[u8]>>,
    pub inbox: VecDeque<Item>,
}

/// How much of what departed members sent reaches those who stay, where both is possible.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fate {
    Kept,
    Lost,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Network {
    /// By node, from member 1.
    pub links: Vec<Link>,
    rings: u32,
}

impl Link {
    fn comes(&mut self, item: Item) {
        if !self.dead {
            self.inbox.push_back(item);
        }
    }
}

fn member(node: usize) -> Member {
    Member(node as u32 + 1)
}

impl Network {
    pub fn new(nodes: usize) -> Network {
        Network { links: vec![Link::default(); nodes], rings: 0 }
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
        let settled = |link: &Link| !link.late && !link.dead;
        self.links.iter().all(|link| silent(link) && settled(link))
    }

    /// The next message of `node` takes its place in the order.
    pub fn order(&mut self, node: usize) {
        let Some(bytes) = self.links[node].outbox.pop_front() else { return };
        for other in self.together(node) {
            let item = Item::Message { from: member(node), bytes: Rc::clone(&bytes) };
            self.links[other].comes(item);
        }
    }

    /// All who have a process in the ring of `node` learn who they are.
    fn announce(&mut self, node: usize, lost: &[usize]) {
        let together = self.together(node);
        let members: Vec<Member> = together.iter().map(|&node| member(node)).collect();
        let lost: Vec<Member> = lost.iter().map(|&node| member(node)).collect();
        for other in together {
            let (members, lost) = (members.clone(), lost.clone());
            self.links[other].comes(Item::Configuration { members, lost });
        }
    }

    /// A process attaches.
    pub fn attach(&mut self, node: usize) {
        let link = &mut self.links[node];
        link.up = true;
        link.inbox.clear();
        link.outbox.clear();
        self.announce(node, &[]);
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
        let others: Vec<usize> =
            self.together(node).into_iter().filter(|&other| other != node).collect();
        let link = &mut self.links[node];
        link.up = false;
        link.dead = false;
        link.inbox.clear();
        link.outbox.clear();
        if let Some(&other) = others.first() {
            self.announce(other, &[]);
        }
    }

    /// The ring of `nodes[0]` breaks: `nodes` go on together, the rest of it by itself. With
    /// `late`, the rest must be a single node, and does not notice yet.
    pub fn part(&mut self, nodes: &[usize], here: Fate, there: Fate, late: bool) {
        let rest: Vec<usize> =
            self.ring(nodes[0]).into_iter().filter(|other| !nodes.contains(other)).collect();
        self.forget(nodes, &rest, here);
        self.forget(&rest, nodes, there);
        self.rings += 1;
        for &node in nodes {
            self.links[node].ring = self.rings;
        }
        if let Some(&first) = nodes.iter().find(|&&node| self.links[node].up) {
            let lost: Vec<usize> =
                rest.iter().copied().filter(|&node| self.links[node].up).collect();
            self.announce(first, &lost);
        }
        if late && rest.len() == 1 {
            self.links[rest[0]].late = true;
        } else if let Some(&first) = rest.iter().find(|&&node| self.links[node].up) {
            let lost: Vec<usize> =
                nodes.iter().copied().filter(|&node| self.links[node].up).collect();
            self.announce(first, &lost);
        }
    }

    /// A node that was cut off and did not notice does.
    pub fn notice(&mut self, node: usize) {
        self.rings += 1;
        self.links[node].late = false;
        self.links[node].ring = self.rings;
        if self.links[node].up {
            // Whom it takes to be lost: those of its last configuration.
            let others: Vec<usize> = (0..self.links.len()).filter(|&other| other != node).collect();
            self.announce(node, &others);
        }
    }

    /// All nodes come together in one ring.
    pub fn heal(&mut self) {
        for node in 0..self.links.len() {
            if self.links[node].late {
                self.notice(node);
            }
        }
        let rings: BTreeSet<u32> = self.links.iter().map(|link| link.ring).collect();
        if rings.len() < 2 {
            return;
        }
        self.rings += 1;
        for link in &mut self.links {
            link.ring = self.rings;
        }
        if let Some(first) = self.links.iter().position(|link| link.up) {
            self.announce(first, &[]);
        }
    }

    /// Whether all nodes are in one ring.
    pub fn whole(&self) -> bool {
        self.links.iter().all(|link| !link.late && link.ring == self.links[0].ring)
    }

    /// What `departed` sent and none of `nodes` has taken from its inbox is lost to them.
    fn forget(&mut self, nodes: &[usize], departed: &[usize], fate: Fate) {
        if fate == Fate::Kept {
            return;
        }
        for &sender in departed {
            let from = member(sender);
            let waiting = |link: &Link| {
                let of_sender = |item: &&Item| matches!(item, Item::Message { from: other, .. } if *other == from);
                let in_ring = link.inbox.iter().rev();
                in_ring
                    .take_while(|item| matches!(item, Item::Message { .. }))
                    .filter(of_sender)
                    .count()
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
