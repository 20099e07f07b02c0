//! Replies on their way out: each waits until a majority has what it depends on.

use std::collections::VecDeque;

use truechimer_group::Point;

use crate::commit::Commits;

use super::Front;

/// One of them.
#[derive(Debug)]
struct Reply {
    point: Point,
    client: u32,
    bytes: Vec<u8>,
    /// The client is to go after it.
    last: bool,
}

/// All of them, in order.
#[derive(Debug)]
pub struct Replies {
    waiting: VecDeque<Reply>,
    commits: Option<Commits>,
}

impl Replies {
    /// None yet. Without `commits` they do not wait.
    pub fn new(commits: Option<Commits>) -> Replies {
        Replies { waiting: VecDeque::new(), commits }
    }

    /// This depends on the stream up to `point`.
    pub fn push(&mut self, point: Point, client: u32, bytes: &[u8], last: bool) {
        if let Some(reply) = self.waiting.back_mut()
            && reply.client == client
            && reply.point == point
            && !reply.last
        {
            reply.bytes.extend(bytes);
            reply.last = last;
            return;
        }
        self.waiting.push_back(Reply { point, client, bytes: bytes.into(), last });
    }

    /// They must not be sent.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }
}

impl Front {
    /// Sends the replies that may go.
    pub(super) fn release(&mut self) -> Result<(), String> {
        let mut until = None;
        if let Some(commits) = &mut self.replies.commits {
            match commits.answer() {
                Some((point, Ok(()))) => until = Some(point),
                Some((point, Err(why))) => self.lose(point, &why)?,
                None => {}
            }
        } else {
            until = self.replies.waiting.back().map(|reply| reply.point);
        }
        while let Some(reply) = self.replies.waiting.front() {
            if until.is_none_or(|until| reply.point > until) {
                break;
            }
            let Some(reply) = self.replies.waiting.pop_front() else { break };
            if !self.order.may_answer() {
                // Too few replicas have the state: whoever asked may have lost its request.
                self.clients.remove(reply.client);
                self.close(reply.client)?;
                continue;
            }
            self.clients.reply(reply.client, &reply.bytes);
            if reply.last {
                self.clients.go(reply.client);
            }
        }
        if let (Some(commits), Some(reply)) =
            (&mut self.replies.commits, self.replies.waiting.back())
        {
            commits.ask(reply.point);
        }
        for client in self.clients.unserved() {
            self.serve(client)?;
        }
        Ok(())
    }

    /// What was up to there must not be answered.
    fn lose(&mut self, point: Point, why: &str) -> Result<(), String> {
        let all = std::mem::take(&mut self.replies.waiting);
        let (lost, rest) = all.into_iter().partition(|reply: &Reply| reply.point <= point);
        self.replies.waiting = rest;
        let lost: VecDeque<Reply> = lost;
        self.says.push(format!("{} replies are withheld: {why}", lost.len()));
        for reply in lost {
            self.clients.remove(reply.client);
            self.close(reply.client)?;
        }
        Ok(())
    }
}
