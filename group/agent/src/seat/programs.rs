//! Requests of programs, and what they are told.

use truechimer_group::{Action, Call, Event, Phase, Refusal, Rejection, Thread, Unshifted};
use truechimer_group_client::agent::{LinkId, News, Request, Ticket};
use truechimer_group_client::link::{Answer, Outside, Role};

use super::gate::Asked;
use super::{Crossing, FOREIGN, Install, Seat, Turn, Waiting};
use crate::notices::Level;

/// Questions after places that may be open at a time.
const MOST_COMMITS: usize = 1 << 16;

impl Seat {
    pub(super) fn request(&mut self, request: Request, turn: &mut Turn<'_>) {
        match request {
            Request::Attached { link, role, pid, uid, new, together } => {
                if new {
                    self.missed.anew();
                    self.notices.forget("divergence");
                    self.start(together, turn);
                }
                if role == Role::Program {
                    self.speak(Level::Info, &format!("program {pid} of user {uid} has come"), turn);
                    if let Some(Install { data, position }) = self.install.take() {
                        let gap = self.replace();
                        self.door.send(link, &News::InstallCheckpoint { gap, data, position });
                    }
                }
            }
            Request::Detached { role, why, last, .. } => {
                if last {
                    // Nothing runs any more that could differ.
                    self.notices.forget("divergence");
                    self.end(turn.clocks);
                }
                if role == Role::Program && last {
                    self.speak(Level::Info, &format!("the program has gone: {why}"), turn);
                    if self.membership.checkpoints {
                        self.forget(turn);
                    }
                }
            }
            Request::Read { ticket, thread, call, outside } => {
                self.read(ticket, thread, call, outside, false, turn);
            }
            Request::Abandon { ticket, thread } => {
                self.abandoned(&[Request::Abandon { ticket, thread }], turn);
            }
            Request::Multicast { token, payload, .. } => {
                let token = token & !FOREIGN;
                if self.is_shut() {
                    self.tell_program(&News::Refused { token, why: Refusal::Outside });
                    return;
                }
                self.ask(Asked::Multicast { token, payload, stamp: None }, turn.clocks);
            }
            Request::SendTo { link, token, .. } if self.is_shut() => {
                self.door.send(link, &News::Refused { token, why: Refusal::Outside });
            }
            Request::SendTo { link, group, token, stamp, payload } => {
                turn.crossings.push(Crossing::Message { group, link, token, stamp, payload });
            }
            Request::Commit { link, token, point } => {
                let missed = self.door.missed().is_some();
                if missed || self.commits.len() >= MOST_COMMITS {
                    self.door.send(link, &News::Uncommitted { token, missed });
                    return;
                }
                self.next_commit += 1;
                self.commits.insert(self.next_commit, (link, token));
                let event = Event::Commit { token: self.next_commit, point };
                self.engine.handle(turn.clocks.read(), event);
            }
            // Another's program would go on with that state. Who wants it asks again.
            Request::Checkpoint { .. } if self.is_shut() => {}
            Request::Checkpoint { join, data, position, .. } => {
                let event = Event::Checkpoint { join, data: &data, position: &position };
                self.engine.handle(turn.clocks.read(), event);
            }
            Request::Installed { gap, .. } => {
                // Or a later checkpoint is on its way.
                if self.settle_gap(gap) {
                    self.engine.handle(turn.clocks.read(), Event::Installed);
                }
            }
            Request::Restarted { gap, .. } => {
                // Or it has missed something since, of which it is being told.
                if self.settle_gap(gap) {
                    self.restart(turn);
                }
            }
            Request::Status { link } => {
                let text = self.account(turn.clocks).to_json();
                self.door.send(link, &News::Status(text));
            }
            Request::Shift { link, member, to } => self.shift(link, member, to, turn),
            Request::Denied { link } => {
                self.door.send(link, &News::Shifted(Err(Unshifted::Denied)));
            }
            other => {
                let text = format!("a request that this agent does not know: {other:?}");
                self.say(Level::Debug, "request", text, turn);
            }
        }
        self.act(turn);
    }

    /// True for a program that has missed something or differs: nothing that it says may go.
    fn is_shut(&self) -> bool {
        self.door.missed().is_some() || self.engine.fence().is_some()
    }

    /// A thread reads the clock. One that has a read under way is looked at a second time: that one
    /// may have been given up, which is not seen in order.
    pub(super) fn read(
        &mut self,
        ticket: Ticket,
        thread: Thread,
        call: Call,
        outside: Outside,
        again: bool,
        turn: &Turn<'_>,
    ) {
        if self.is_now(thread) {
            return self.read_now(ticket, outside);
        }
        if let Some(gap) = self.door.missed() {
            // One that differs may not go on by itself, whatever it says of its state.
            let differs = self.engine.fence().is_some();
            if outside != Outside::Resume || self.membership.checkpoints || differs {
                self.door.complete(ticket, Err(Rejection::Missed));
                return;
            }
            self.settle_gap(gap);
            self.restart(turn);
        }
        if self.reads.contains_key(&thread) && !again {
            self.second.push((ticket, thread, call, outside));
        } else if self.reads.contains_key(&thread) {
            self.door.complete(ticket, Err(Rejection::Busy));
        } else if outside == Outside::Fail && self.phase == Phase::Outside {
            self.door.complete(ticket, Err(Rejection::Outside));
        } else {
            self.missed.shares();
            self.start_by_reading(thread, turn);
            let since = crate::sys::raw_ns();
            self.reads.insert(thread, Waiting { ticket, call, outside, since });
            self.ask(Asked::Read { thread, call }, turn.clocks);
        }
    }

    /// Reads that were seen before and are given up now.
    pub(super) fn abandoned(&mut self, requests: &[Request], turn: &Turn<'_>) {
        for request in requests {
            let Request::Abandon { ticket, thread } = request else { continue };
            self.second.retain(|(other, ..)| other != ticket);
            self.abandon_now(*ticket);
            if self.reads.get(thread).is_some_and(|waiting| waiting.ticket == *ticket) {
                self.abandon(*thread, turn);
            }
        }
    }

    /// The program begins at the group's place. Reads of its that came by the other way before this
    /// word are asked for again, from there.
    fn restart(&mut self, turn: &Turn<'_>) {
        self.gate.forget_reads();
        self.engine.handle(turn.clocks.read(), Event::Restarted);
        self.begin_rounds_anew(turn.clocks);
        let returned = |thread: &Thread| {
            self.held.iter().any(
                |action| matches!(action, Action::Return { thread: other, .. } if other == thread),
            )
        };
        let again = self.reads.iter().filter(|(thread, _)| !returned(thread));
        let again: Vec<(Thread, Call)> = again.map(|(it, read)| (*it, read.call)).collect();
        for (thread, call) in again {
            self.ask(Asked::Read { thread, call }, turn.clocks);
        }
    }

    /// The thread's read gets nothing any more; neither does what already waits for the disk.
    fn abandon(&mut self, thread: Thread, turn: &Turn<'_>) {
        self.reads.remove(&thread);
        self.held.retain(|action| match action {
            Action::Return { thread: other, .. } | Action::Reject { thread: other, .. } => {
                *other != thread
            }
            _ => true,
        });
        self.ask(Asked::Abandon { thread }, turn.clocks);
    }

    /// Tells programs what came of what they asked.
    pub(super) fn tell(&mut self, action: Action, turn: &mut Turn<'_>) {
        match action {
            Action::Return { thread, round, value } if thread.is_now() => {
                self.end_round(thread, Ok((round, value)), turn);
            }
            Action::Reject { thread, why } if thread.is_now() && self.is_now(thread) => {
                self.end_round(thread, Err(why), turn);
            }
            Action::Return { thread, round, value } => {
                if let Some(waiting) = self.reads.remove(&thread) {
                    self.door.complete(waiting.ticket, Ok(Answer { value, round }));
                    let waited = crate::sys::raw_ns().saturating_sub(waiting.since);
                    self.waits.add(crate::metrics::seconds(waited));
                }
            }
            Action::Reject { thread, why } => {
                if let Some(waiting) = self.reads.remove(&thread) {
                    self.door.complete(waiting.ticket, Err(why));
                }
            }
            Action::Deliver { from, token, payload, time, lease_end, stamp } => {
                let news = News::Deliver { from, token, payload, time, lease_end, stamp };
                if self.missed.withholds() || !self.tell_program(&news) {
                    self.unheard += 1;
                }
            }
            Action::Refused { token, why } if token & FOREIGN != 0 => {
                if let Some(to) = self.foreign.remove(&token) {
                    turn.crossings.push(Crossing::Refused { to, why });
                }
            }
            Action::Refused { token, why } => {
                self.tell_program(&News::Refused { token, why });
            }
            Action::Committed { token } => {
                if let Some((link, token)) = self.commits.remove(&token) {
                    self.door.send(link, &News::Committed { token });
                }
            }
            Action::Uncommitted { token } => {
                if let Some((link, token)) = self.commits.remove(&token) {
                    self.door.send(link, &News::Uncommitted { token, missed: false });
                }
            }
            Action::TakeCheckpoint { join } => {
                self.tell_program(&News::TakeCheckpoint { join });
            }
            Action::InstallCheckpoint { data, position } => match self.door.program() {
                Some(link) => {
                    let gap = self.replace();
                    self.door.send(link, &News::InstallCheckpoint { gap, data, position });
                }
                None => self.install = Some(Install { data, position }),
            },
            Action::Shifted { token, outcome } => self.shifted(token, outcome),
            Action::Begun { running } => self.begun(&running, turn),
            Action::Phase(phase) => self.enter(phase, turn),
            Action::Send(_) | Action::Keep { .. } | Action::Notice(_) => {}
        }
    }

    pub(super) fn tell_program(&mut self, news: &News) -> bool {
        self.door.program().is_some_and(|link: LinkId| self.door.send(link, news))
    }

    fn enter(&mut self, phase: Phase, turn: &mut Turn<'_>) {
        let before = std::mem::replace(&mut self.phase, phase);
        self.door.phase(phase);
        if phase == before {
            return;
        }
        let text = match phase {
            Phase::Outside => {
                "outside: no majority of the group's members is connected, or this one has \
                             just come back; readings wait or fail"
            }
            Phase::Joining => "joining: waiting for the round that lets it in",
            Phase::Live => "live",
        };
        let level = if phase == Phase::Outside { Level::Warning } else { Level::Info };
        self.speak(level, text, turn);
        if phase == Phase::Outside {
            self.fail_reads(turn);
        }
    }

    /// Those that shall not wait.
    fn fail_reads(&mut self, turn: &Turn<'_>) {
        self.fail_now();
        let failing = self.reads.iter().filter(|(_, read)| read.outside == Outside::Fail);
        let failing: Vec<Thread> = failing.map(|(thread, _)| *thread).collect();
        for thread in failing {
            if let Some(waiting) = self.reads.remove(&thread) {
                self.door.complete(waiting.ticket, Err(Rejection::Outside));
                self.ask(Asked::Abandon { thread }, turn.clocks);
            }
        }
    }
}
