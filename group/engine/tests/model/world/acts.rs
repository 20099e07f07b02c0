//! Actions that an engine wants done, and whether it may want them.

use truechimer_group::{
    Action, Agreed, Call, Event, Member, Mode, Notice, Phase, Rejection, Round, Thread,
};

use super::{Caller, Node, Outcome, Shared, Step, World, print};
use crate::check::Violation;

/// Calls of the program that differs, and of the others.
pub(super) const ODD: (Call, Call) = (Call::Time, Call::ClockGettime);

impl World {
    pub(super) fn act(&mut self, node: usize, action: Action) -> Outcome {
        let alone = self.case.few(&self.nodes[node].seen);
        // One that catches up gets what is due to it before it is live.
        let here = &self.nodes[node];
        let excluded = here.excluded || !here.live && (here.misled || self.parted(node));
        let strays = self.strays(node);
        let here = &mut self.nodes[node];
        match action {
            Action::Send(bytes) => self.network.links[node].send(bytes.into(), strays),
            Action::Return { thread, round, value } => {
                if alone || here.doubts {
                    return Err(Violation::Minority(format!(
                        "node {} returned {value:?} with {:?} connected",
                        node + 1,
                        here.seen
                    )));
                }
                let Some(caller) = here.callers.get_mut((thread.0 - Thread::FIRST.0) as usize)
                else {
                    return Err(Violation::Stray(format!("a value for {thread:?}")));
                };
                if !caller.waiting {
                    return Err(Violation::Stray(format!(
                        "node {} got {round:?} of {thread:?}, which does not wait",
                        node + 1
                    )));
                }
                caller.waiting = false;
                caller.read = round.0 + 1;
                let sound = self.sound();
                self.history.returned(node, excluded, thread, round, value, &sound)?;
                if self.budget.commits > 0 && !excluded {
                    self.budget.commits -= 1;
                    self.commit(node, value)?;
                }
            }
            Action::Reject { thread, why } => {
                let caller = &mut here.callers[(thread.0 - Thread::FIRST.0) as usize];
                if caller.waiting && why == Rejection::Behind {
                    return self.restart(node);
                }
                let installs = why == Rejection::Missed && self.case.checkpoints;
                if !caller.waiting || why != Rejection::Outside && !installs {
                    return Err(Violation::Stray(format!(
                        "node {} refused {thread:?}: {why:?}",
                        node + 1
                    )));
                }
                caller.waiting = false;
            }
            Action::Deliver { from, token, time, lease_end, stamp, .. } => {
                if stamp.is_some_and(|stamp| stamp > time.time.0) {
                    return Err(Violation::Stray(format!(
                        "node {} got a message of {stamp:?} at {time:?}",
                        node + 1
                    )));
                }
                if from == Member(node as u32 + 1) {
                    here.sending.remove(&token);
                }
                let message = print(&(from, token, time.time));
                here.log = print(&(here.log, message));
                let checkpoints = self.case.checkpoints;
                let log = checkpoints.then_some(here.log);
                here.messages.extend(checkpoints.then_some(message));
                self.history.delivered(node, excluded, from, token, time, lease_end, log)?;
            }
            Action::Refused { token, .. } => drop(here.sending.remove(&token)),
            Action::Committed { token } => {
                if let Some(value) = here.committing.remove(&token) {
                    if here.excluded && alone {
                        return Err(Violation::Minority(format!("node {} committed", node + 1)));
                    }
                    if here.excluded {
                        self.outnumber(node);
                    }
                    self.replies(node, excluded, value)?;
                    self.history.committed(node, excluded, value)?;
                }
            }
            Action::Uncommitted { token } => drop(here.committing.remove(&token)),
            Action::Keep { floor } => {
                if here.floor.is_some_and(|kept| kept > floor) {
                    return Err(Violation::RollBack(format!(
                        "node {} lowered its floor",
                        node + 1
                    )));
                }
                here.floor = Some(floor);
            }
            Action::Begun { .. } => self.begun(node, excluded)?,
            Action::Shifted { .. } => {}
            Action::Phase(phase) => self.phase(node, phase)?,
            Action::Notice(notice @ (Notice::Revived { .. } | Notice::Began { .. })) => {
                if let Notice::Began { .. } = notice {
                    here.forget();
                }
                // The first to hear of it: nobody else is live yet, but for one that only looks on
                // and has not heard of it.
                let counted = &self.nodes[..self.case.group.universe.len()];
                let first = !counted.iter().any(|node| node.live && !node.excluded);
                let amnesia = |node: &Shared<Node>| node.amnesiac && node.engine.is_some();
                if first && counted.iter().any(amnesia) {
                    self.history.weaken();
                } else if first && self.budget.slow {
                    self.history.doubt();
                }
                if first {
                    self.look_on();
                }
            }
            // Who has missed something may take it for that, as long as it has not found out.
            Action::Notice(Notice::Malformed { what, .. })
                if self.budget.slow && what == "a proposal that no member makes" => {}
            Action::Notice(Notice::Malformed { from, what }) => {
                return Err(Violation::Stray(format!("a message of {from} is {what}")));
            }
            Action::Notice(Notice::OtherGroup { .. } | Notice::Version { .. }) => {
                return Err(Violation::Stray("strangers in a group of friends".into()));
            }
            // To come in anew is never wrong, but where nobody lies it is needless. Who speaks for
            // long from an earlier place is no less honest where messages may take that long.
            Action::Notice(Notice::Missed { from, differs })
                if !self.budget.slow
                    && self.case.mutation.is_none()
                    && (differs || !self.case.stalls) =>
            {
                let what = format!("node {} differs from {from}, and has missed nothing", node + 1);
                return Err(Violation::Stray(what));
            }
            Action::Notice(Notice::Fenced { member, fence }) => {
                let odd = self.case.odd.map(|odd| Member(odd as u32 + 1));
                // What one that is cut off hears holds nowhere else: it comes in anew.
                let known = odd == Some(member) && (fence.ours, fence.theirs) == ODD;
                if !excluded && !known {
                    let what = format!("{member} is fenced, which reads as most do: {fence}");
                    return Err(Violation::Stray(what));
                }
                self.fenced += 1;
                // It begins anew or ends at some later step.
                let here = &mut self.nodes[node];
                let fenced = here.engine.as_ref().is_some_and(|it| it.fence().is_some());
                if self.case.odd == Some(node) && fenced {
                    here.fenced = true;
                    here.callers.fill(Caller::default());
                }
            }
            Action::TakeCheckpoint { join } => self.give(node, join),
            Action::InstallCheckpoint { data, position } => self.install(node, &data, &position)?,
            Action::Notice(_) => {}
        }
        Ok(())
    }

    /// The group begins anew. Those that only look on and have not heard so may have what was
    /// proposed before and is nobody else's: the joins of all replicas are on their way to them.
    fn look_on(&mut self) {
        for node in self.nodes.iter_mut().skip(self.case.group.universe.len()) {
            if node.live {
                node.excluded = true;
            }
        }
    }

    /// One that was cut off has let others in before it found out, they are a majority, and it is
    /// told that they have what it has. So that stands, and whoever has come another way is astray.
    fn outnumber(&mut self, node: usize) {
        let Some(here) = self.nodes[node].engine.clone() else { return };
        let with = |other: &Shared<Node>| {
            other.live
                && other.excluded
                && other.engine.as_ref().is_some_and(|there| here.has_come_with(there))
        };
        let counted = &self.nodes[..self.case.group.universe.len()];
        if counted.iter().filter(|node| with(node)).count() >= self.case.majority() {
            for node in self.nodes.iter_mut().filter(|node| node.live && !with(node)) {
                node.excluded = true;
            }
        }
    }

    fn commit(&mut self, node: usize, value: Agreed) -> Outcome {
        let here = &mut self.nodes[node];
        here.tokens += 1;
        let token = here.tokens;
        here.committing.insert(token, value);
        let now = self.reading(node);
        if let Some(engine) = self.engine(node) {
            engine.handle(now, Event::Commit { token, point: value.point });
        }
        Ok(())
    }

    /// Knowledge of one that is cut off about the others is nothing to them.
    fn replies(&mut self, node: usize, excluded: bool, value: Agreed) -> Outcome {
        let Some(engine) = self.nodes[node].engine.as_ref().filter(|_| !excluded) else {
            return Ok(());
        };
        let odd = self.case.odd == Some(node);
        let members = engine.status().members;
        let differ = members.iter().filter(|it| !it.fenced).filter_map(|it| it.differs);
        differ
            .collect::<Vec<_>>()
            .into_iter()
            .try_for_each(|fence| self.history.replies(fence, odd, value.point))
    }

    /// The program here begins, where all do that begin with it.
    fn begun(&mut self, node: usize, excluded: bool) -> Outcome {
        let Some(engine) = &self.nodes[node].engine else { return Ok(()) };
        let (at, known) = (engine.point(), engine.status().threads);
        let threads = Thread::FIRST.0..Thread::FIRST.0 + self.case.threads;
        let next = |thread| known.get(&Thread(thread)).map_or(0, |it| it.decided.0);
        let next: Vec<u64> = threads.map(next).collect();
        for (caller, read) in self.nodes[node].callers.iter_mut().zip(&next) {
            caller.read = *read;
        }
        // What one that is cut off sees is nothing to the others.
        if excluded { Ok(()) } else { self.history.begins(node, at, next) }
    }

    /// A new program, whose threads go on where the group's are.
    pub(super) fn restart(&mut self, node: usize) -> Outcome {
        let now = self.reading(node);
        self.nodes[node].fenced = false;
        if let Some(engine) = self.engine(node) {
            engine.handle(now, Event::Restarted);
        }
        let threads = self.nodes[node].engine.as_ref().map(|it| it.status().threads);
        for (thread, caller) in (Thread::FIRST.0..).zip(&mut self.nodes[node].callers) {
            let known = threads.as_ref().and_then(|known| known.get(&Thread(thread)));
            *caller = Caller { read: known.map_or(0, |it| it.read.0), waiting: false };
        }
        Ok(())
    }

    /// The program here gives its state.
    pub(super) fn give(&mut self, node: usize, join: u64) {
        let here = &self.nodes[node];
        let reads = (Thread::FIRST.0..).zip(&here.callers);
        let position: Vec<(Thread, Round)> =
            reads.map(|(thread, caller)| (Thread(thread), Round(caller.read))).collect();
        let data: Vec<u8> = here.messages.iter().flat_map(|it| it.to_le_bytes()).collect();
        let now = self.reading(node);
        if let Some(engine) = self.engine(node) {
            engine.handle(now, Event::Checkpoint { join, data: &data, position: &position });
        }
    }

    /// The program here starts from another's state.
    fn install(&mut self, node: usize, data: &[u8], position: &[(Thread, Round)]) -> Outcome {
        let had = data.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
        let here = &mut self.nodes[node];
        // What the primary gave of its own accord is as old as that; what has come since stays. One
        // that joins has nothing.
        let own = here.live || here.installed;
        let since = here.messages.drain(..).skip(had.len()).filter(|_| own);
        here.messages = had.chain(since.collect::<Vec<_>>()).collect();
        here.log = here.messages.iter().fold(0, |log, message| print(&(log, *message)));
        if own {
            self.history.leave(node);
        }
        let here = &mut self.nodes[node];
        here.installed = true;
        for (thread, caller) in (Thread::FIRST.0..).zip(&mut here.callers) {
            let read = position.iter().find(|(other, _)| other.0 == thread);
            *caller = Caller { read: read.map_or(0, |(_, read)| read.0), waiting: false };
        }
        let now = self.reading(node);
        if let Some(engine) = self.engine(node) {
            engine.handle(now, Event::Installed);
        }
        Ok(())
    }

    fn phase(&mut self, node: usize, phase: Phase) -> Outcome {
        let alone = self.case.few(&self.nodes[node].seen);
        let parted = self.parted(node);
        let here = &mut self.nodes[node];
        match phase {
            Phase::Live => {
                if alone {
                    return Err(Violation::Minority(format!("node {} is let in", node + 1)));
                }
                here.live = true;
                // It may be let in by what came before a break that it has not seen yet.
                here.excluded |= parted || here.misled;
                here.amnesiac = false;
                if !here.installed {
                    return self.restart(node);
                }
            }
            Phase::Outside => {
                here.fenced = false;
                // The program that was here has missed something: it is ended.
                here.live = false;
                here.installed = false;
                here.excluded = false;
                here.committing.clear();
                here.sending.clear();
                for thread in 0..here.callers.len() as u64 {
                    if std::mem::take(&mut self.nodes[node].callers[thread as usize].waiting) {
                        let now = self.reading(node);
                        let thread = Thread(Thread::FIRST.0 + thread);
                        if let Some(engine) = self.engine(node) {
                            engine.handle(now, Event::Abandon { thread });
                        }
                    }
                }
                self.history.leave(node);
            }
            Phase::Joining => here.live = false,
        }
        Ok(())
    }

    /// Where only the primary proposes, the others' operations wait for its program to come as far:
    /// the first read of a program that is behind.
    pub(super) fn behind(&self) -> Option<Step> {
        if self.case.group.mode == Mode::Active {
            return None;
        }
        (0..self.case.threads).find_map(|thread| {
            let callers = self.nodes.iter().filter(|node| node.live);
            let callers = callers.filter_map(|node| node.callers.get(thread as usize));
            let most = callers.filter(|it| it.waiting).map(|it| it.read).max()?;
            let node = self.nodes.iter().position(|node| {
                let idle = |caller: &Caller| !caller.waiting && caller.read <= most;
                node.live && node.callers.get(thread as usize).is_some_and(idle)
            })?;
            Some(Step::Read { node, thread })
        })
    }
}
