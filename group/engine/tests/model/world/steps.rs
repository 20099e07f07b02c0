//! The steps that are possible in a state, and what they do.

use truechimer_group::{Event, Member, Phase, Thread};

use super::acts::ODD;
use super::{Caller, Mutation, Node, Outcome, Step, World};
use crate::check::Violation;
use crate::network::{Fate, Item};

impl World {
    /// All steps that are possible here, timers only where nothing else is to be done or the budget
    /// lets them come early; but where it makes no difference who comes first, only one way.
    ///
    /// What happens at one node, the end of its process too, does not depend on what happens at the
    /// others, but for the order of their messages. So where a node has something to take, and
    /// nothing can happen to that any more, all ways that begin elsewhere are also ways that begin
    /// here: only those need to be looked at (a persistent set; no state without anything under way
    /// is left out). What is taken from the budget on a way is the same in either order.
    pub fn steps(&self) -> Vec<Step> {
        if self.case.mutation.is_some() || self.budget.early_timers > 0 {
            return self.all();
        }
        // Whoever is the first to have a value asks whether a majority has it.
        if self.budget.commits > 0 {
            return self.all();
        }
        let sure = (0..self.nodes.len()).find(|&node| self.sure(node));
        sure.map_or_else(|| self.all(), |node| self.local(node))
    }

    /// True where so many programs run that a reply of this one need not wait for ever. Only the one
    /// that is odd stands in the way: between those that are right nothing does, unless too few of
    /// them are left that can tell who is right.
    pub(super) fn may_commit(&self, node: usize) -> bool {
        let engine = self.nodes[node].engine.as_ref();
        let members = engine.map_or_else(Vec::new, |engine| engine.status().members);
        let odd =
            |member: Member| self.case.odd.is_some_and(|odd| member == Member(odd as u32 + 1));
        let differs = members.iter().any(|it| it.differs.is_some());
        let unjudged = members.iter().any(|it| it.differs.is_some() && !it.fenced);
        let run = members.iter().filter(|it| it.program.is_some());
        let right = run.clone().filter(|it| !odd(it.member)).count();
        let alone = self.case.odd != Some(node) && right >= self.case.majority();
        let enough = alone || (run.count() >= self.case.majority() && !differs);
        !unjudged && (!self.case.starts || enough)
    }

    /// True if the node has something to take that nothing else can take away from it. A partition
    /// can: what was sent by a node that parts from this one, since the last configuration.
    fn sure(&self, node: usize) -> bool {
        let blocked = self.nodes[node].dirty && !self.may_flush(node);
        if self.nodes[node].engine.is_none() || blocked {
            return false;
        }
        let inbox = &self.network.links[node].inbox;
        match inbox.front() {
            None | Some(Item::Away) => false,
            Some(Item::Configuration { .. }) => true,
            Some(Item::Message { from, .. }) => {
                let changes = |item: &Item| matches!(item, Item::Configuration { .. });
                self.budget.parts == 0
                    || *from == Member(node as u32 + 1)
                    || inbox.iter().any(changes)
            }
        }
    }

    /// Steps that a node can do by itself.
    fn local(&self, node: usize) -> Vec<Step> {
        let here = &self.nodes[node];
        let mut steps = Vec::new();
        if self.may_flush(node) {
            steps.push(Step::Flush { node });
        }
        if !self.network.links[node].inbox.is_empty() {
            steps.push(Step::Deliver { node });
        }
        if here.live && self.budget.starts > 0 {
            steps.push(Step::Start { node, together: 0 });
            steps.push(Step::Start { node, together: 1 });
        }
        if here.fenced {
            steps.push(Step::Anew { node });
            if self.case.starts {
                steps.push(Step::End { node });
            }
        } else if here.live && here.program {
            for (thread, caller) in (0..).zip(&here.callers) {
                let may = caller.read < self.budget.rounds && self.budget.reads != Some(0);
                if may && !caller.waiting {
                    steps.push(Step::Read { node, thread });
                }
            }
            if self.budget.multicasts > 0 {
                steps.push(Step::Multicast { node });
            }
        }
        if self.budget.crashes > 0 && here.engine.is_some() {
            steps.push(Step::Die { node });
        }
        steps
    }

    /// All that is possible anywhere.
    pub fn all(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut busy = !self.network.quiet();
        let budget = &self.budget;
        for (node, here) in self.nodes.iter().enumerate() {
            let link = &self.network.links[node];
            if link.late {
                steps.push(Step::Notice { node });
            }
            if link.dead {
                busy = true;
                steps.push(Step::Bury { node });
                if !link.outbox.is_empty() {
                    steps.push(Step::Order { node });
                }
                continue;
            }
            if here.engine.is_none() {
                if budget.restarts > 0 && !link.syncing {
                    steps.push(Step::Restart { node });
                }
                continue;
            }
            busy |= here.dirty;
            steps.extend(self.local(node));
            if !link.outbox.is_empty() {
                steps.push(Step::Order { node });
            }
        }
        if budget.parts > 0 && self.network.whole() {
            for node in 0..self.nodes.len() {
                for here in [Fate::Kept, Fate::Lost] {
                    for there in [Fate::Kept, Fate::Lost] {
                        steps.push(Step::Part { node, here, there, late: false });
                        if budget.late {
                            steps.push(Step::Part { node, here, there, late: true });
                        }
                    }
                }
            }
        }
        if budget.heals > 0 && !self.network.whole() {
            steps.push(Step::Heal);
        }
        for node in self.network.syncing() {
            steps.push(Step::Sync { node });
            if budget.agains > 0 && self.network.merged(node) {
                steps.push(Step::Again { node });
            }
        }
        if !busy && !self.pending().is_empty() && self.behind().is_none() {
            steps.push(Step::Wait);
        } else if busy && budget.early_timers > 0 {
            for (node, here) in self.nodes.iter().enumerate() {
                if here.engine.as_ref().is_some_and(|engine| engine.deadline().is_some()) {
                    steps.push(Step::Timer { node });
                }
            }
        }
        steps
    }

    pub(super) fn go(&mut self, step: Step) -> Outcome {
        match step {
            Step::Anew { node } => {
                self.restart(node)?;
                self.after(node)
            }
            Step::Start { node, together } => {
                self.budget.starts = self.budget.starts.saturating_sub(1);
                self.history.start(node);
                let here = &mut self.nodes[node];
                (here.program, here.fenced) = (true, false);
                here.callers.fill(Caller::default());
                self.handle(node, Event::Start { together })
            }
            Step::End { node } => {
                self.history.leave(node);
                let here = &mut self.nodes[node];
                (here.program, here.fenced) = (false, false);
                here.callers.fill(Caller::default());
                self.handle(node, Event::End)
            }
            Step::Read { node, thread } => {
                if let Some(reads) = &mut self.budget.reads {
                    *reads = reads.saturating_sub(1);
                }
                let here = &mut self.nodes[node];
                here.callers[thread as usize].waiting = true;
                // Each clock has moved on by its own measure when the next thread reads it.
                here.physical += self.case.tick * (10 + 7 * node as i64);
                let odd = self.case.odd == Some(node);
                let call = if odd { ODD.0 } else { ODD.1 };
                self.handle(node, Event::Read { thread: Thread(Thread::FIRST.0 + thread), call })
            }
            Step::Multicast { node } => {
                self.budget.multicasts -= 1;
                self.multicast(node, None)
            }
            Step::Causal { node, ahead } => {
                let now = self.reading(node);
                let view = self.nodes[node].engine.as_ref().and_then(|engine| engine.view(now));
                self.multicast(node, view.map(|view| view.0 + ahead))
            }
            Step::Give { node } => {
                self.give(node, 0);
                self.after(node)
            }
            Step::Quorum { node, quorate } => {
                self.nodes[node].doubts = !quorate;
                self.handle(node, Event::Quorum { quorate })?;
                let phase = self.nodes[node].engine.as_ref().map(|engine| engine.phase());
                if !quorate && phase == Some(Phase::Live) {
                    return Err(Violation::Minority(format!("node {} stays live", node + 1)));
                }
                Ok(())
            }
            Step::Order { node } => {
                self.network.order(node);
                Ok(())
            }
            Step::Deliver { node } => self.deliver(node),
            Step::Flush { node } => {
                let now = self.reading(node);
                if let Some(engine) = self.engine(node) {
                    engine.flush(now);
                }
                self.after(node)?;
                if self.nodes[node].dirty {
                    return Err(Violation::Stuck(format!("node {} never has sent all", node + 1)));
                }
                Ok(())
            }
            Step::Timer { node } => {
                self.budget.early_timers -= 1;
                let here = &mut self.nodes[node];
                if let Some(deadline) = here.engine.as_ref().and_then(|engine| engine.deadline()) {
                    here.physical = here.physical.max(deadline);
                }
                self.handle(node, Event::Timer)
            }
            Step::Wait => {
                let Some((wait, node)) = self.next_deadline() else { return Ok(()) };
                self.pass(wait.max(0));
                self.handle(node, Event::Timer)
            }
            Step::Die { node } => {
                self.budget.crashes -= 1;
                self.die(node);
                Ok(())
            }
            Step::Bury { node } => {
                self.bury(node, Fate::Lost);
                Ok(())
            }
            Step::Restart { node } => {
                self.budget.restarts -= 1;
                self.start(node)
            }
            Step::Part { node, here, there, late } => {
                self.budget.parts -= 1;
                let others: Vec<usize> =
                    (0..self.nodes.len()).filter(|&other| other != node).collect();
                self.part(&others, here, there, late);
                Ok(())
            }
            Step::Notice { node } => {
                self.network.notice(node);
                Ok(())
            }
            Step::Heal => {
                self.budget.heals -= 1;
                self.network.heal();
                Ok(())
            }
            Step::Sync { node } => {
                self.network.sync(node);
                Ok(())
            }
            Step::Again { node } => {
                self.budget.agains -= 1;
                self.network.again(node);
                Ok(())
            }
            Step::Pass { ns } => {
                self.pass(ns);
                Ok(())
            }
        }
    }

    fn multicast(&mut self, node: usize, stamp: Option<i64>) -> Outcome {
        let here = &mut self.nodes[node];
        here.tokens += 1;
        let token = here.tokens;
        here.sending.insert(token);
        self.handle(node, Event::Multicast { token, payload: b"hello", stamp })
    }

    fn pass(&mut self, ns: i64) {
        for (k, node) in self.nodes.iter_mut().enumerate() {
            // They drift apart: 40 parts in 10⁶ from one to the next.
            let drift = ns * k as i64 / 25_000;
            node.physical += ns + drift;
            node.utc -= drift;
        }
    }

    /// Time until the earliest deadline, ns, and the node that it is of.
    pub(super) fn next_deadline(&self) -> Option<(i64, usize)> {
        let wait = |node: &Node| {
            let deadline = node.engine.as_ref()?.deadline()?;
            Some(deadline.saturating_sub(node.physical))
        };
        let waits = (0..self.nodes.len()).filter_map(|k| Some((wait(&self.nodes[k])?, k)));
        waits.min()
    }

    pub fn crash(&mut self, node: usize, fate: Fate) {
        self.die(node);
        self.bury(node, fate);
    }

    fn die(&mut self, node: usize) {
        self.network.die(node);
        let here = &mut self.nodes[node];
        here.engine = None;
        here.live = false;
        here.fenced = false;
        here.dirty = false;
        here.amnesiac = true;
        here.excluded = false;
        here.callers.clear();
        here.committing.clear();
        here.sending.clear();
        self.history.leave(node);
    }

    fn bury(&mut self, node: usize, fate: Fate) {
        self.network.detach(node, fate);
        self.exclude();
    }

    /// The nodes go on together, the rest by itself.
    pub fn part(&mut self, nodes: &[usize], here: Fate, there: Fate, late: bool) {
        self.network.part(nodes, here, there, late);
        for node in 0..self.nodes.len() {
            if self.budget.slow && self.nodes[node].engine.is_some() && self.is_alone(node) {
                // Of what it has still to take from that ring something may be lost.
                let inbox = &mut self.network.links[node].inbox;
                let told = inbox.iter().rposition(|item| !matches!(item, Item::Message { .. }));
                inbox.insert(told.map_or(0, |told| told + 1), Item::Away);
                // And it may have more than the others: what it has said of that is nothing to go
                // by either.
                self.network.links[node].doubt();
                self.away(node);
            }
        }
        self.exclude();
    }

    /// Excludes those with no majority around them: they must not count on what they see from now
    /// on.
    fn exclude(&mut self) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].live && self.parted(node) {
                self.nodes[node].excluded = true;
            }
        }
    }

    /// One that is being let in and was cut off may be let in all the same, by what was under way.
    fn away(&mut self, node: usize) {
        let inbox = &mut self.network.links[node].inbox;
        while inbox.front() == Some(&Item::Away) {
            inbox.pop_front();
            self.nodes[node].excluded = true;
        }
    }

    fn deliver(&mut self, node: usize) -> Outcome {
        self.mutate(node);
        let Some(item) = self.network.links[node].inbox.pop_front() else { return Ok(()) };
        match item {
            Item::Message { from, bytes, doubtful, .. } => {
                self.nodes[node].misled = doubtful;
                self.handle(node, Event::Delivered { from, bytes: &bytes })?;
                self.nodes[node].misled = false;
                self.away(node);
                Ok(())
            }
            Item::Away => Ok(()),
            Item::Configuration { members, lost } => {
                let hide = match self.case.mutation {
                    Some(Mutation::HideLoss) => !lost.is_empty(),
                    Some(Mutation::HideAbsence) => lost.len() >= self.case.majority(),
                    _ => false,
                };
                self.nodes[node].seen = members.clone();
                if !hide {
                    self.handle(node, Event::Configuration { members: &members, lost: &lost })?;
                }
                if !self.nodes[node].live {
                    // It begins anew.
                    self.nodes[node].excluded = false;
                    self.exclude();
                }
                self.away(node);
                let here = &self.nodes[node];
                let phase = here.engine.as_ref().map(|engine| engine.phase());
                let few = self.case.few(&members);
                let out = !self.case.few(&lost);
                if phase == Some(Phase::Live) && (few || out) {
                    return Err(Violation::Minority(format!(
                        "node {} stays live with {members:?}, lost {lost:?}",
                        node + 1
                    )));
                }
                Ok(())
            }
        }
    }

    /// The deliberate faults that concern messages.
    fn mutate(&mut self, node: usize) {
        let here = &mut self.nodes[node];
        let inbox = &mut self.network.links[node].inbox;
        let message = |item: Option<&Item>| matches!(item, Some(Item::Message { .. }));
        let both = message(inbox.front()) && message(inbox.get(1));
        if node != 1 || here.mutated || !here.live || !both {
            return;
        }
        match self.case.mutation {
            Some(Mutation::Swap) => inbox.swap(0, 1),
            Some(Mutation::Miss) => drop(inbox.pop_front()),
            _ => return,
        }
        here.mutated = true;
    }
}
