//! Replies on their way out: each waits until a majority has what it depends on.

use std::collections::{BTreeSet, VecDeque};

use truechimer_group::{Member, Point};

use crate::order::Conn;
use crate::ring::Committing;

use super::Front;

/// One of them.
#[derive(Debug)]
struct Reply {
    point: Point,
    client: u32,
    bytes: Vec<u8>,
    /// Bytes that the program has written on the connection up to its end; none to a client that only reads, with
    /// whose answers no others are compared.
    until: Option<u64>,
    /// The client is to go after it.
    last: bool,
}

/// All of them, in order.
pub struct Replies {
    waiting: VecDeque<Reply>,
    /// They wait for a majority.
    waits: bool,
    /// The question that is open, about that place.
    asked: Option<(Point, Committing)>,
    /// A majority has the stream up to there.
    committed: Point,
    /// Bytes of those that wait for clients that only read.
    read: usize,
}

impl Replies {
    /// None yet, and whether they wait.
    pub fn new(waits: bool) -> Replies {
        let committed = Point::default();
        Replies { waiting: VecDeque::new(), waits, asked: None, committed, read: 0 }
    }

    /// This depends on the stream up to `point`, and ends after so much on its connection.
    pub fn push(
        &mut self,
        point: Point,
        client: u32,
        bytes: &[u8],
        until: Option<u64>,
        last: bool,
    ) {
        if until.is_none() {
            self.read += bytes.len();
        }
        if let Some(reply) = self.waiting.back_mut()
            && reply.client == client
            && reply.point == point
            && reply.until.is_some() == until.is_some()
            && !reply.last
        {
            reply.bytes.extend(bytes);
            (reply.last, reply.until) = (last, until);
            return;
        }
        self.waiting.push_back(Reply { point, client, bytes: bytes.into(), until, last });
    }

    /// True if they wait.
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// The connections that they are for, of this member's front.
    pub fn waiting_of(&self, member: Member) -> BTreeSet<Conn> {
        let ordered = self.waiting.iter().filter(|reply| reply.until.is_some());
        ordered.map(|reply| Conn { member, number: reply.client }).collect()
    }

    /// Bytes that wait for clients that only read.
    pub fn read(&self) -> usize {
        self.read
    }

    /// They must not be sent.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.read = 0;
    }
}

impl Front {
    /// Sends the replies that may go.
    pub(super) fn release(&mut self) -> Result<(), String> {
        if let Some((point, committing)) = &self.replies.asked
            && let Some(answer) = committing()
        {
            let point = *point;
            self.replies.asked = None;
            match answer {
                Ok(()) => self.replies.committed = self.replies.committed.max(point),
                Err(why) => self.lose(point, &why),
            }
        }
        let (waits, votes) = (self.replies.waits, self.votes());
        let committed = self.replies.committed;
        let (me, majority) = (self.order.me().member, self.order.majority());
        let may_answer = self.order.may_answer();
        for reply in std::mem::take(&mut self.replies.waiting) {
            let conn = Conn { member: me, number: reply.client };
            let waits = waits && reply.point > committed;
            let agreed = match reply.until {
                Some(until) if votes && !waits => {
                    self.streams.may_go(conn, until, majority, self.work.done())
                }
                _ => Some(true),
            };
            if waits || agreed == Some(false) {
                self.replies.waiting.push_back(reply);
                continue;
            }
            if !may_answer || agreed.is_none() {
                // Too few replicas have the state, and whoever asked may have lost its request; or
                // no majority has given this answer.
                self.send_away(&reply);
                continue;
            }
            let clients = match (&mut self.readers, reply.until) {
                (Some(readers), None) => readers.clients(),
                _ => &mut self.clients,
            };
            clients.reply(reply.client, &reply.bytes);
            if reply.last {
                clients.go(reply.client);
            }
        }
        let read = self.replies.waiting.iter().filter(|reply| reply.until.is_none());
        self.replies.read = read.map(|reply| reply.bytes.len()).sum();
        if let Some(reply) = self.replies.waiting.back()
            && waits
            && self.replies.asked.is_none()
            && reply.point > committed
        {
            self.replies.asked = Some((reply.point, self.ring.commit(reply.point)?));
        }
        for client in self.clients.unserved() {
            // What it has sent is read when it is its turn.
            self.serve(client, false);
        }
        self.shed();
        self.release_readers();
        Ok(())
    }

    /// Closes the connection of a client that must not be answered.
    fn send_away(&mut self, reply: &Reply) {
        match &mut self.readers {
            Some(readers) if reply.until.is_none() => {
                readers.clients().remove(reply.client);
                readers.end(reply.client, Vec::new());
            }
            _ => {
                self.clients.remove(reply.client);
                self.close(reply.client);
            }
        }
    }

    /// Gives up what was up to there: it must not be answered.
    fn lose(&mut self, point: Point, why: &str) {
        let all = std::mem::take(&mut self.replies.waiting);
        let (lost, rest) = all.into_iter().partition(|reply: &Reply| reply.point <= point);
        self.replies.waiting = rest;
        let lost: VecDeque<Reply> = lost;
        self.says.push(format!("{} replies are withheld: {why}", lost.len()));
        lost.iter().for_each(|reply| self.send_away(reply));
    }
}
