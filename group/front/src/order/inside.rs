//! Effects of a message at a front that is in: the same at all of them.

use std::collections::VecDeque;

use truechimer_group::{Digest, Member};

use crate::wire::Message;

use super::{Conn, FrontId, GAP_NS, Op, Order, Peer, QUIET_NS, Request, Standing, Step};

impl Order {
    /// A message at a front that is in: the same at all of them.
    pub(super) fn apply(
        &mut self,
        from: Member,
        time: i64,
        incarnation: u64,
        message: Message,
        steps: &mut Vec<Step>,
    ) {
        // A message's requests may have been given times beyond the next message's.
        let first = time.max(self.state.time.saturating_add(1));
        self.pass_time(from, time, incarnation, steps);
        if self.standing != Standing::In {
            return;
        }
        let time = self.state.time;
        let id = FrontId { member: from, incarnation };
        match message {
            Message::Hello { serial, position } => {
                if self.peer(id).is_some_and(|peer| peer.ready) {
                    // Let in by an earlier one.
                    return;
                }
                let state = self.state.clone();
                let same = position == state.position;
                if same {
                    self.welcome(id, steps);
                } else {
                    self.drop_peer(from, "its front begins anew", steps);
                }
                steps.push(Step::Send(Message::Here { to: id, serial, state }));
                return;
            }
            Message::Join { serial, giver } => {
                if self.peer(giver).is_some_and(|peer| peer.ready) {
                    self.close_all(|_| true, steps);
                    let peer = Peer::new(incarnation, false, self.state.position.count);
                    self.state.peers.insert(from, peer);
                    if giver == self.me {
                        let state = self.state.clone();
                        steps.push(Step::Run(Op::Checkpoint { to: id, serial, state }, time));
                    }
                }
                return;
            }
            _ => {}
        }
        let ready = match self.peer(id) {
            Some(peer) => peer.ready,
            None => return,
        };
        match message {
            Message::Ready => {
                if let Some(peer) = self.state.peers.get_mut(&from) {
                    peer.ready = true;
                    peer.quiet_ns = 0;
                    self.lost.remove(&from);
                    steps.push(Step::Joined);
                }
            }
            Message::Leave => self.drop_peer(from, "its front has ended", steps),
            Message::Open(conns) if ready => {
                let mut new = Vec::new();
                for number in conns {
                    let conn = Conn { member: from, number };
                    if self.conns.insert(conn, ()).is_none() {
                        self.count(1, conn, &[]);
                        new.push(conn);
                    }
                }
                if !new.is_empty() {
                    steps.push(Step::Run(Op::Open(new), time));
                }
            }
            Message::Requests(requests) => {
                let mut all = VecDeque::new();
                for (conn, bytes) in requests {
                    let conn = Conn { member: from, number: conn };
                    if self.has(conn) && !bytes.is_empty() {
                        self.count(2, conn, &bytes);
                        self.state.requests += 1;
                        all.push_back(Request { conn, number: self.state.requests, bytes });
                    }
                }
                if !all.is_empty() {
                    // Each may have a time of its own, 1 ns after the last one's, as a lease's readings have.
                    self.state.time = first.saturating_add(all.len() as i64 - 1);
                    steps.push(Step::Run(Op::Requests(all), first));
                }
            }
            Message::Close { conn } => {
                let conn = Conn { member: from, number: conn };
                self.close_all(|other| *other == conn, steps);
            }
            Message::Tick => steps.push(Step::Run(Op::Time, time)),
            Message::Done { count, replied } => {
                self.done(from, count);
                steps.push(Step::Compare { from, done: count, replied });
            }
            Message::Differs { from: other, conn, length } if ready => {
                self.differs(from, other, conn, length, steps);
            }
            _ => {}
        }
    }

    /// Puts out whoever has been quiet for long: agreed, since it goes by the agreed time.
    fn pass_time(&mut self, from: Member, time: i64, incarnation: u64, steps: &mut Vec<Step>) {
        let gap = time.saturating_sub(self.state.time).clamp(0, GAP_NS);
        self.state.time = self.state.time.max(time);
        for (member, peer) in &mut self.state.peers {
            peer.quiet_ns = peer.quiet_ns.saturating_add(gap);
            if *member == from && peer.incarnation == incarnation {
                peer.quiet_ns = 0;
            }
        }
        let peers = self.state.peers.iter();
        // One whose program starts has nothing to say yet.
        let quiet = peers.filter(|(_, peer)| peer.ready && peer.quiet_ns > QUIET_NS);
        let quiet = quiet.map(|(member, _)| *member);
        for member in quiet.collect::<Vec<_>>() {
            steps.push(Step::Report(format!("the front of member {member} has fallen silent")));
            self.drop_peer(member, "its front has fallen silent", steps);
        }
        self.pass_stuck(gap);
    }

    pub(super) fn peer(&self, id: FrontId) -> Option<&Peer> {
        self.state.peers.get(&id.member).filter(|peer| peer.incarnation == id.incarnation)
    }

    /// A front that has what all have is in.
    pub(super) fn welcome(&mut self, id: FrontId, steps: &mut Vec<Step>) {
        self.drop_peer(id.member, "its front begins anew", steps);
        let peer = Peer::new(id.incarnation, true, self.state.position.count);
        self.state.peers.insert(id.member, peer);
        self.lost.remove(&id.member);
        steps.push(Step::Joined);
    }

    pub(super) fn drop_peer(&mut self, member: Member, why: &str, steps: &mut Vec<Step>) {
        let Some(peer) = self.state.peers.remove(&member) else { return };
        self.state.pairs.retain(|(one, other)| *one != member && *other != member);
        self.lose(member, false, why.into());
        self.close_all(|conn| conn.member == member, steps);
        if member == self.me.member && peer.incarnation == self.me.incarnation {
            self.drop_out("the others had not heard of this front for long", steps);
        }
    }

    pub(super) fn close_all(&mut self, which: impl Fn(&Conn) -> bool, steps: &mut Vec<Step>) {
        let conns: Vec<Conn> = self.conns.keys().copied().filter(which).collect();
        for conn in conns {
            self.conns.remove(&conn);
            self.count(3, conn, &[]);
            steps.push(Step::Run(Op::Close(conn), self.state.time));
        }
    }

    fn count(&mut self, kind: u64, conn: Conn, bytes: &[u8]) {
        let position = &mut self.state.position;
        position.count += 1;
        let chain = Digest(position.chain).and_number(kind).and_number(u64::from(conn.member.0));
        position.chain = chain.and_number(u64::from(conn.number)).and(bytes).0;
    }
}
