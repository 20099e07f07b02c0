//! Three replicas, their programs' threads and the network: a state, and the steps out of it.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use truechimer_group::{
    Action, Agreed, Bound, Call, Engine, Event, Group, Member, Mode, Notice, Own, Phase, Reading,
    Rejection, Round, Thread, Utc,
};

use crate::check::{History, Violation};
use crate::network::{Fate, Item, Network};

/// A deliberate fault of the layers below the engine, for showing that the checks see it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mutation {
    /// One node gets two messages the wrong way round.
    Swap,
    /// One node misses a message.
    Miss,
    /// A node that is cut off is told that all are still there.
    HideLoss,
    /// A node that was cut off learns of the merged ring only.
    HideAbsence,
    /// What was kept durably is forgotten.
    ForgetFloor,
}

/// What a case may do, and how often.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Budget {
    /// Rounds that each thread reads.
    pub rounds: u64,
    pub crashes: u8,
    pub restarts: u8,
    pub parts: u8,
    pub heals: u8,
    /// Whether a part may leave a node behind that does not notice.
    pub late: bool,
    /// Timers that may come early, while something else is still to be done.
    pub early_timers: u8,
    pub multicasts: u8,
    pub commits: u8,
}

impl Budget {
    pub const NONE: Budget = Budget {
        rounds: 2,
        crashes: 0,
        restarts: 0,
        parts: 0,
        heals: 0,
        late: false,
        early_timers: 0,
        multicasts: 0,
        commits: 0,
    };
}

/// What a case is.
#[derive(Clone, Debug)]
pub struct Case {
    pub nodes: usize,
    pub threads: u64,
    pub group: Group,
    pub stagger_ns: u64,
    pub report_ns: u64,
    /// Whether the nodes know UTC.
    pub utc: bool,
    pub mutation: Option<Mutation>,
    /// Whether programs give and take checkpoints.
    pub checkpoints: bool,
    /// Whether the clocks move on at all from one read to the next. Where they do not, proposals
    /// collide, and many ways come to the same state.
    pub tick: i64,
    /// Whether time may go back from one thread to another, as it may in the published algorithm.
    pub across: bool,
}

impl Case {
    /// Three replicas with two threads each, who all propose at once.
    pub fn small() -> Case {
        let universe: Vec<Member> = (1..=3).map(Member).collect();
        Case {
            nodes: 3,
            threads: 2,
            group: Group { lease_ns: 0, ..Group::new("model", &universe) },
            stagger_ns: 0,
            report_ns: 100_000_000_000_000,
            utc: true,
            mutation: None,
            checkpoints: false,
            tick: 0,
            across: false,
        }
    }

    pub fn majority(&self) -> usize {
        self.group.universe.len() / 2 + 1
    }

    /// Whether the node counts, or only looks on.
    pub fn counts(&self, node: usize) -> bool {
        node < self.group.universe.len()
    }

    /// Whether these have no majority among them.
    fn few(&self, members: &[Member]) -> bool {
        let counted = members.iter().filter(|member| self.group.universe.contains(member));
        counted.count() < self.majority()
    }
}

/// One step from a state to the next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// A thread reads the clock.
    Read { node: usize, thread: u64 },
    /// A program sends a message into the order.
    Multicast { node: usize },
    /// And one that another group's clock has stamped, so far ahead of this group's, ns.
    Causal { node: usize, ahead: i64 },
    /// What the layer below says of the majority changes.
    Quorum { node: usize, quorate: bool },
    /// The node's next message takes its place in the order.
    Order { node: usize },
    /// The node takes what comes next.
    Deliver { node: usize },
    /// The agent has handled what was there and lets the engine send.
    Flush { node: usize },
    /// The engine's timer comes, though the others' time has not passed.
    Timer { node: usize },
    /// Nothing is to be done before the earliest deadline, which comes.
    Wait,
    /// A process dies.
    Crash { node: usize, fate: Fate },
    /// It starts again with what it kept durably.
    Restart { node: usize },
    /// One node is parted from the others.
    Part { node: usize, here: Fate, there: Fate, late: bool },
    /// A node that was cut off learns of it.
    Notice { node: usize },
    /// All come together again.
    Heal,
    /// Time passes everywhere (random runs only), ns.
    Pass { ns: i64 },
}

/// A thread of a program.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Caller {
    /// Rounds read.
    pub read: u64,
    pub waiting: bool,
}

/// An engine that is copied only when something happens to it, and its digest.
#[derive(Clone, Debug)]
pub struct Replica {
    engine: Rc<Engine>,
    print: u64,
}

impl Hash for Replica {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.print.hash(state);
    }
}

impl std::ops::Deref for Replica {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

#[derive(Clone, Hash, Debug)]
pub struct Node {
    pub engine: Option<Replica>,
    pub physical: i64,
    /// UTC − physical.
    utc: i64,
    life: u64,
    pub floor: Option<i64>,
    pub callers: Vec<Caller>,
    /// Something was handled since the engine was last let send.
    dirty: bool,
    /// The members of the last configuration that was handled.
    pub seen: Vec<Member>,
    /// Parted from a majority; until the engine has said so itself.
    pub excluded: bool,
    /// Has lost its memory and not been let in since.
    pub amnesiac: bool,
    pub live: bool,
    tokens: u64,
    /// Messages sent of which nothing has been heard.
    sending: BTreeSet<u64>,
    /// The layer below says that there is no majority.
    pub doubts: bool,
    /// Digest of all messages that its program, or those from whose checkpoints it started, got.
    log: u64,
    /// Its program started from a checkpoint when it was last let in.
    installed: bool,
    committing: BTreeMap<u64, Agreed>,
    /// The deliberate fault has happened, or is not to happen yet.
    mutated: bool,
}

#[derive(Clone, Debug)]
pub struct World {
    pub case: Rc<Case>,
    pub budget: Budget,
    pub network: Network,
    pub nodes: Vec<Node>,
    pub history: History,
    /// What was said, where a run is told.
    pub told: Option<Vec<String>>,
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.budget.hash(state);
        self.network.hash(state);
        self.nodes.hash(state);
        self.history.hash(state);
    }
}

/// A message's short name.
fn mark(bytes: &[u8]) -> String {
    format!("message {:06x} of {} bytes", print(&bytes) >> 40, bytes.len())
}

/// A digest of all that there is to a state.
pub fn print(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Node {
    /// Its UTC is from now on that much behind what it was, ns.
    pub fn set_back(&mut self, ns: i64) {
        self.utc -= ns;
    }
}

type Outcome = Result<(), Violation>;

impl World {
    /// All nodes without a process.
    pub fn new(case: &Rc<Case>, budget: Budget) -> World {
        let node = |k: usize| Node {
            engine: None,
            physical: 1_000_000 * (k as i64 + 1),
            // Their clocks are some tens of ns apart.
            utc: 1_000_000_000_000 - 1_000_000 * (k as i64 + 1) - 15 * k as i64,
            life: 0,
            floor: None,
            callers: Vec::new(),
            dirty: false,
            seen: Vec::new(),
            excluded: false,
            amnesiac: false,
            live: false,
            tokens: 0,
            sending: BTreeSet::new(),
            doubts: false,
            log: 0,
            installed: false,
            committing: BTreeMap::new(),
            mutated: true,
        };
        World {
            case: Rc::clone(case),
            budget,
            network: Network::new(case.nodes),
            nodes: (0..case.nodes).map(node).collect(),
            history: History::new(case),
            told: None,
        }
    }

    /// The given nodes up, and settled.
    pub fn formed(case: &Rc<Case>, budget: Budget, up: &[usize]) -> Result<World, Violation> {
        let mut world = World::new(case, budget);
        for &node in up {
            world.start(node)?;
        }
        world.settle()?;
        for &node in up {
            world.nodes[node].mutated = false;
            let phase = world.nodes[node].engine.as_ref().map(|engine| engine.phase());
            if phase != Some(Phase::Live) {
                return Err(Violation::Stuck(format!(
                    "node {} is {phase:?} after forming",
                    node + 1
                )));
            }
        }
        Ok(world)
    }

    pub fn start(&mut self, node: usize) -> Outcome {
        let here = &mut self.nodes[node];
        here.life += 1;
        let floor =
            if self.case.mutation == Some(Mutation::ForgetFloor) { None } else { here.floor };
        let own = Own {
            stagger_ns: self.case.stagger_ns,
            report_ns: self.case.report_ns,
            buffer: 64,
            floor,
            checkpoints: self.case.checkpoints,
            ..Own::new(Member(node as u32 + 1), here.life)
        };
        let engine = Engine::new(self.case.group.clone(), own)
            .map_err(|why| Violation::Stuck(format!("settings: {why:?}")))?;
        here.engine = Some(Replica { engine: Rc::new(engine), print: 0 });
        let threads = if self.case.counts(node) { self.case.threads } else { 0 };
        here.callers = vec![Caller::default(); threads as usize];
        here.dirty = false;
        here.seen.clear();
        here.live = false;
        here.log = 0;
        here.installed = false;
        here.committing.clear();
        here.sending.clear();
        self.network.attach(node);
        let quorate = !here.doubts;
        self.handle(node, Event::Quorum { quorate })
    }

    fn engine(&mut self, node: usize) -> Option<&mut Engine> {
        Some(Rc::make_mut(&mut self.nodes[node].engine.as_mut()?.engine))
    }

    fn reading(&self, node: usize) -> Reading {
        let here = &self.nodes[node];
        let best = here.physical + here.utc;
        let bound = Bound { earliest: best - 100_000, latest: best + 100_000 };
        let utc = self.case.utc.then_some(Utc { best, bound });
        Reading { physical: here.physical, utc }
    }

    /// All steps that are possible here, timers only where nothing else is to be done or the budget
    /// lets them come early.
    ///
    /// What happens at one node does not depend on what happens at the others, but for the order of
    /// their messages. So where a node has something to take, and nothing can happen to what is
    /// under way any more, all ways that begin elsewhere are also ways that begin here: only those
    /// need to be looked at (a persistent set; no state without anything under way is left out).
    pub fn steps(&self) -> Vec<Step> {
        let calm =
            self.budget.crashes == 0 && self.budget.parts == 0 && self.case.mutation.is_none();
        let timers = self.budget.early_timers > 0;
        let busy = |&node: &usize| {
            self.nodes[node].engine.is_some() && !self.network.links[node].inbox.is_empty()
        };
        match (0..self.nodes.len()).find(busy) {
            Some(node) if calm && !timers => self.local(node),
            _ => self.all(),
        }
    }

    /// What a node can do by itself.
    fn local(&self, node: usize) -> Vec<Step> {
        let here = &self.nodes[node];
        let mut steps = Vec::new();
        if here.dirty {
            steps.push(Step::Flush { node });
        }
        if !self.network.links[node].inbox.is_empty() {
            steps.push(Step::Deliver { node });
        }
        if here.live {
            for (thread, caller) in (0..).zip(&here.callers) {
                if !caller.waiting && caller.read < self.budget.rounds {
                    steps.push(Step::Read { node, thread });
                }
            }
            if self.budget.multicasts > 0 {
                steps.push(Step::Multicast { node });
            }
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
            let Some(_) = &here.engine else {
                if budget.restarts > 0 {
                    steps.push(Step::Restart { node });
                }
                continue;
            };
            busy |= here.dirty;
            steps.extend(self.local(node));
            if !link.outbox.is_empty() {
                steps.push(Step::Order { node });
            }
            if budget.crashes > 0 {
                steps.push(Step::Crash { node, fate: Fate::Kept });
                if !link.outbox.is_empty() {
                    steps.push(Step::Crash { node, fate: Fate::Lost });
                }
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

    /// Whether nothing goes on by itself, timers apart.
    pub fn quiet(&self) -> bool {
        self.network.quiet() && self.nodes.iter().all(|node| !node.dirty || node.engine.is_none())
    }

    /// The nodes where a thread waits or that wait to be let in, in a component that has a majority.
    pub fn pending(&self) -> Vec<usize> {
        let waits = |&node: &usize| {
            let here = &self.nodes[node];
            here.engine.is_some()
                && !self.is_alone(node)
                && !self.network.together(node).iter().any(|&other| self.nodes[other].doubts)
                && (!here.live
                    || here.callers.iter().any(|caller| caller.waiting)
                    || !here.committing.is_empty()
                    || !here.sending.is_empty())
        };
        (0..self.nodes.len()).filter(waits).collect()
    }

    pub fn take(&mut self, step: Step) -> Outcome {
        if let Some(told) = &mut self.told {
            told.push(format!("{step:?}"));
        }
        self.go(step)?;
        let sound: Vec<bool> = self.nodes.iter().map(|node| node.live && !node.excluded).collect();
        self.history.compare(&sound)
    }

    fn go(&mut self, step: Step) -> Outcome {
        match step {
            Step::Read { node, thread } => {
                let here = &mut self.nodes[node];
                here.callers[thread as usize].waiting = true;
                // Each clock has moved on by its own measure when the next thread reads it.
                here.physical += self.case.tick * (10 + 7 * node as i64);
                let call = Call::ClockGettime;
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
            Step::Crash { node, fate } => {
                self.budget.crashes -= 1;
                self.crash(node, fate);
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

    /// How long until the earliest deadline, ns, and whose it is.
    fn next_deadline(&self) -> Option<(i64, usize)> {
        let wait = |node: &Node| {
            let deadline = node.engine.as_ref()?.deadline()?;
            Some(deadline.saturating_sub(node.physical))
        };
        let waits = (0..self.nodes.len()).filter_map(|k| Some((wait(&self.nodes[k])?, k)));
        waits.min()
    }

    pub fn crash(&mut self, node: usize, fate: Fate) {
        self.network.detach(node, fate);
        let here = &mut self.nodes[node];
        here.engine = None;
        here.live = false;
        here.amnesiac = true;
        here.excluded = false;
        here.callers.clear();
        here.committing.clear();
        here.sending.clear();
        self.history.leave(node);
        self.exclude();
    }

    /// The nodes go on together, the rest by itself.
    pub fn part(&mut self, nodes: &[usize], here: Fate, there: Fate, late: bool) {
        self.network.part(nodes, here, there, late);
        self.exclude();
    }

    /// Who has no majority around it must not count on what it sees from now on.
    fn exclude(&mut self) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].live && self.parted(node) {
                self.nodes[node].excluded = true;
            }
        }
    }

    /// Whether the node has no majority around it.
    fn is_alone(&self, node: usize) -> bool {
        let together = self.network.together(node);
        together.iter().filter(|&&other| self.case.counts(other)).count() < self.case.majority()
    }

    /// Whether the node has no majority around it, or had none in a ring that it has yet to learn of.
    fn parted(&self, node: usize) -> bool {
        let few = |item: &Item| match item {
            Item::Configuration { members, .. } => self.case.few(members),
            Item::Message { .. } => false,
        };
        let link = &self.network.links[node];
        link.late || self.is_alone(node) || link.inbox.iter().any(few)
    }

    fn deliver(&mut self, node: usize) -> Outcome {
        self.mutate(node);
        let Some(item) = self.network.links[node].inbox.pop_front() else { return Ok(()) };
        match item {
            Item::Message { from, bytes } => {
                self.handle(node, Event::Delivered { from, bytes: &bytes })
            }
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

    fn handle(&mut self, node: usize, event: Event<'_>) -> Outcome {
        let now = self.reading(node);
        if let Some(told) = &mut self.told {
            let event = match &event {
                Event::Delivered { from, bytes } => format!("{from}'s {}", mark(bytes)),
                event => format!("{event:?}"),
            };
            told.push(format!("  node {} gets {event}", node + 1));
        }
        if let Some(engine) = self.engine(node) {
            engine.handle(now, event);
        }
        self.after(node)
    }

    /// Does what the engine wants, and finds out whether it would send if it were let.
    fn after(&mut self, node: usize) -> Outcome {
        self.drain(node)?;
        let now = self.reading(node);
        let here = &mut self.nodes[node];
        if let Some(replica) = &mut here.engine {
            replica.print = print(&*replica.engine);
            let mut flushed = Engine::clone(&replica.engine);
            flushed.flush(now);
            here.dirty = print(&flushed) != replica.print;
        }
        Ok(())
    }

    fn drain(&mut self, node: usize) -> Outcome {
        loop {
            let Some(engine) = self.engine(node) else { return Ok(()) };
            let Some(action) = engine.next_action() else { return Ok(()) };
            if let Some(told) = &mut self.told {
                let action = match &action {
                    Action::Send(bytes) => format!("sends {}", mark(bytes)),
                    action => format!("{action:?}"),
                };
                told.push(format!("  node {} does: {action}", node + 1));
            }
            self.act(node, action)?;
        }
    }

    fn act(&mut self, node: usize, action: Action) -> Outcome {
        let alone = self.case.few(&self.nodes[node].seen);
        // One that catches up gets what is due to it before it is live.
        let excluded = self.nodes[node].excluded || !self.nodes[node].live && self.parted(node);
        let here = &mut self.nodes[node];
        match action {
            Action::Send(bytes) => self.network.links[node].outbox.push_back(bytes.into()),
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
                self.history.returned(node, excluded, thread, round, value)?;
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
                if !caller.waiting || why != Rejection::Outside {
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
                here.log = print(&(here.log, from, token, time.time));
                let log = self.case.checkpoints.then_some(here.log);
                self.history.delivered(node, excluded, from, token, time, lease_end, log)?;
            }
            Action::Refused { token, .. } => drop(here.sending.remove(&token)),
            Action::Committed { token } => {
                if let Some(value) = here.committing.remove(&token) {
                    if here.excluded && alone {
                        return Err(Violation::Minority(format!("node {} committed", node + 1)));
                    }
                    self.history.committed(node, value)?;
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
            Action::Phase(phase) => self.phase(node, phase)?,
            Action::Notice(notice @ (Notice::Revived { .. } | Notice::Began { .. })) => {
                if let Notice::Began { .. } = notice {
                    here.log = 0;
                }
                // The first to hear of it: nobody else is live yet.
                let first = !self.nodes.iter().any(|node| node.live && !node.excluded);
                let amnesia = |node: &Node| node.amnesiac && node.engine.is_some();
                let counted = &self.nodes[..self.case.group.universe.len()];
                if first && counted.iter().any(amnesia) {
                    self.history.weaken();
                }
            }
            Action::Notice(Notice::Malformed { from, what }) => {
                return Err(Violation::Stray(format!("a message of {from} is {what}")));
            }
            Action::Notice(Notice::OtherGroup { .. } | Notice::Version { .. }) => {
                return Err(Violation::Stray("strangers in a group of friends".into()));
            }
            Action::TakeCheckpoint { join } => self.give(node, join),
            Action::InstallCheckpoint { data, position } => self.install(node, &data, &position)?,
            Action::Notice(_) => {}
        }
        Ok(())
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

    /// A new program, whose threads go on where the group's are.
    fn restart(&mut self, node: usize) -> Outcome {
        let now = self.reading(node);
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
    fn give(&mut self, node: usize, join: u64) {
        let here = &self.nodes[node];
        let reads = (Thread::FIRST.0..).zip(&here.callers);
        let position: Vec<(Thread, Round)> =
            reads.map(|(thread, caller)| (Thread(thread), Round(caller.read))).collect();
        let data = here.log.to_le_bytes();
        let now = self.reading(node);
        if let Some(engine) = self.engine(node) {
            engine.handle(now, Event::Checkpoint { join, data: &data, position: &position });
        }
    }

    /// The program here starts from another's state.
    fn install(&mut self, node: usize, data: &[u8], position: &[(Thread, Round)]) -> Outcome {
        let log = data.try_into().map(u64::from_le_bytes);
        let here = &mut self.nodes[node];
        here.log = log.map_err(|_| Violation::Stray(format!("a checkpoint of {data:?}")))?;
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
                here.excluded |= parted;
                here.amnesiac = false;
                if !here.installed {
                    return self.restart(node);
                }
            }
            Phase::Outside => {
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
    fn behind(&self) -> Option<Step> {
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

    /// The nodes whose deadline has come.
    pub fn due(&self) -> Vec<usize> {
        let due = |&node: &usize| {
            let here = &self.nodes[node];
            let deadline = here.engine.as_ref().and_then(|engine| engine.deadline());
            deadline.is_some_and(|deadline| deadline <= here.physical)
        };
        (0..self.nodes.len()).filter(due).collect()
    }

    /// Lets everything that goes on by itself come to its end, timers too, without new faults or
    /// reads. An error if operations of a majority's members do not end.
    pub fn settle(&mut self) -> Outcome {
        for _ in 0..5_000 {
            if self.quiet() && self.pending().is_empty() {
                return Ok(());
            }
            let mut moved = false;
            for node in 0..self.nodes.len() {
                if self.network.links[node].late {
                    self.take(Step::Notice { node })?;
                    moved = true;
                }
                while self.nodes[node].engine.is_some() {
                    let step = if !self.network.links[node].inbox.is_empty() {
                        Step::Deliver { node }
                    } else if self.nodes[node].dirty {
                        Step::Flush { node }
                    } else if !self.network.links[node].outbox.is_empty() {
                        Step::Order { node }
                    } else {
                        break;
                    };
                    self.take(step)?;
                    moved = true;
                }
            }
            if !moved {
                if let Some(read) = self.behind() {
                    self.take(read)?;
                    continue;
                }
                if self.next_deadline().is_none() {
                    break;
                }
                self.take(Step::Wait)?;
            }
        }
        let waiting: Vec<String> = self
            .pending()
            .into_iter()
            .map(|node| {
                let here = &self.nodes[node];
                format!(
                    "node {} ({:?}, callers {:?}, commits {:?}, messages {:?})",
                    node + 1,
                    here.engine.as_ref().map(|engine| engine.phase()),
                    here.callers,
                    here.committing,
                    here.sending
                )
            })
            .collect();
        if waiting.is_empty() {
            return Ok(());
        }
        Err(Violation::Stuck(waiting.join(", ")))
    }
}
