//! Three replicas, their programs' threads and the network: a state, and the steps out of it.

mod acts;
mod print;
mod shared;
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use truechimer_group::{
    Action, Agreed, Bound, Engine, Event, Group, Member, Own, Phase, Reading, Utc,
};

use crate::check::{History, Violation};
use crate::explore::Prints;
use crate::network::{Fate, Item, Network};
pub use print::{Print, print};
pub use shared::Shared;

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
    /// Loss of what was kept durably.
    ForgetFloor,
}

/// Acts that a case may do, and how often.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Budget {
    /// Rounds that each thread reads.
    pub rounds: u64,
    /// Reads in all, by whichever threads; none: as many as there are rounds.
    pub reads: Option<u8>,
    pub crashes: u8,
    pub restarts: u8,
    pub parts: u8,
    pub heals: u8,
    /// True if a part may leave a node behind that does not notice.
    pub late: bool,
    /// True if the synchronisation after a change of the ring takes time, and number of rings that
    /// may break during it and form again of the same nodes.
    pub slow: bool,
    pub agains: u8,
    /// Timers that may come early, while something else is still to be done.
    pub early_timers: u8,
    pub multicasts: u8,
    pub commits: u8,
    /// Programs that start, in place of the one that is there; none is there before.
    pub starts: u8,
}

impl Budget {
    pub const NONE: Budget = Budget {
        rounds: 2,
        reads: None,
        crashes: 0,
        restarts: 0,
        parts: 0,
        heals: 0,
        late: false,
        slow: false,
        agains: 0,
        early_timers: 0,
        multicasts: 0,
        commits: 0,
        starts: 0,
    };
}

/// Settings of a case.
#[derive(Clone, Debug)]
pub struct Case {
    pub nodes: usize,
    pub threads: u64,
    pub group: Group,
    pub stagger_ns: u64,
    pub report_ns: u64,
    /// True if the nodes know UTC.
    pub utc: bool,
    pub mutation: Option<Mutation>,
    /// True if programs give and take checkpoints.
    pub checkpoints: bool,
    /// True if programs start and end; else each is there as long as its agent.
    pub starts: bool,
    /// Node whose program reads by another call than the others'.
    pub odd: Option<usize>,
    /// Factor of the clocks' steps from one read to the next, tens of ns. At 0 they stand:
    /// proposals collide, and many ways come to the same state.
    pub tick: i64,
    /// True if messages may be under way for seconds.
    pub stalls: bool,
    /// True if time may go back from one thread to another, as it may in the published algorithm.
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
            starts: false,
            odd: None,
            tick: 0,
            stalls: false,
            across: false,
        }
    }

    pub fn majority(&self) -> usize {
        self.group.universe.len() / 2 + 1
    }

    /// True if the node counts; false if it only looks on.
    pub fn counts(&self, node: usize) -> bool {
        node < self.group.universe.len()
    }

    /// True if these have no majority among them.
    fn few(&self, members: &[Member]) -> bool {
        let counted = members.iter().filter(|member| self.group.universe.contains(member));
        counted.count() < self.majority()
    }
}

/// One step from a state to the next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// A program starts, in place of what is there, and is to begin with so many.
    Start { node: usize, together: u8 },
    /// The program ends.
    End { node: usize },
    /// The program that is fenced begins anew.
    Anew { node: usize },
    /// A thread reads the clock.
    Read { node: usize, thread: u64 },
    /// A program sends a message into the order.
    Multicast { node: usize },
    /// A passive primary's program gives its state of its own accord.
    Give { node: usize },
    /// And one that another group's clock has stamped, so far ahead of this group's, ns.
    Causal { node: usize, ahead: i64 },
    /// Change in what the layer below says of the majority.
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
    /// A process dies. What it had queued still takes its place in the order, until the others
    /// learn of it.
    Die { node: usize },
    /// The layer below has noticed that; what it had not sent by then is never sent.
    Bury { node: usize },
    /// Restart with what was kept durably.
    Restart { node: usize },
    /// One node is parted from the others.
    Part { node: usize, here: Fate, there: Fate, late: bool },
    /// A node that was cut off learns of it.
    Notice { node: usize },
    /// All come together again.
    Heal,
    /// The synchronisation of this node's ring comes to its end.
    Sync { node: usize },
    /// The ring of this node breaks during its synchronisation, and forms again of the same nodes.
    Again { node: usize },
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
    /// True if what it takes now was sent by one that was cut off and had not found out.
    misled: bool,
    /// Has lost its memory and not been let in since.
    pub amnesiac: bool,
    pub live: bool,
    tokens: u64,
    /// Messages sent of which nothing has been heard.
    sending: BTreeSet<u64>,
    /// The layer below says that there is no majority.
    pub doubts: bool,
    /// Where programs take checkpoints: all messages that its program, or those from whose
    /// checkpoints it started, got; and a digest of them.
    messages: Vec<u64>,
    log: u64,
    /// True if there is a program.
    pub program: bool,
    /// The program is fenced, and has yet to begin anew.
    fenced: bool,
    /// True if its program started from a checkpoint when the node was last let in.
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
    pub nodes: Vec<Shared<Node>>,
    pub history: History,
    /// Number of times that a member has heard that a program is fenced.
    pub fenced: u64,
    /// Words said, where a run is told.
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

/// In so long whoever was cut off and was not told finds out, once the others speak, ns.
const FINDS_OUT_NS: i64 = 2_000_000_000;

/// A message's short name.
fn mark(bytes: &[u8]) -> String {
    format!("message {:06x} of {} bytes", print(&bytes) >> 40, bytes.len())
}

impl Node {
    /// Sets its UTC that much back from now on, ns.
    pub fn set_back(&mut self, ns: i64) {
        self.utc -= ns;
    }

    /// Lets its program begin without a state.
    fn forget(&mut self) {
        self.log = 0;
        self.messages.clear();
    }
}

type Outcome = Result<(), Violation>;

impl World {
    /// All nodes without a process.
    pub fn new(case: &Rc<Case>, budget: Budget) -> World {
        let node = |k: usize| {
            Shared::new(Node {
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
                misled: false,
                amnesiac: false,
                live: false,
                tokens: 0,
                sending: BTreeSet::new(),
                doubts: false,
                messages: Vec::new(),
                log: 0,
                program: false,
                fenced: false,
                installed: false,
                committing: BTreeMap::new(),
                mutated: true,
            })
        };
        World {
            case: Rc::clone(case),
            network: Network::new(case.nodes, budget.slow),
            budget,
            nodes: (0..case.nodes).map(node).collect(),
            history: History::new(case),
            fenced: 0,
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
            gather_ns: 10_000,
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
        here.forget();
        here.installed = false;
        here.committing.clear();
        here.sending.clear();
        here.program = !self.case.starts;
        here.fenced = false;
        let quorate = !here.doubts;
        self.network.attach(node);
        if self.case.starts {
            self.handle(node, Event::End)?;
        }
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

    /// True if the engine would send, and its agent lets it: not where something waits to be sent.
    fn may_flush(&self, node: usize) -> bool {
        self.nodes[node].dirty && self.network.links[node].waiting.is_empty()
    }

    /// True if nothing goes on by itself, timers apart.
    pub fn quiet(&self) -> bool {
        self.network.quiet() && self.nodes.iter().all(|node| !node.dirty || node.engine.is_none())
    }

    /// The nodes where a thread waits or that wait to be let in, in a component that has a
    /// majority.
    pub fn pending(&self) -> Vec<usize> {
        let waits = |&node: &usize| {
            let here = &self.nodes[node];
            here.engine.is_some()
                && !self.is_alone(node)
                && !self.network.together(node).iter().any(|&other| self.nodes[other].doubts)
                && (!here.live
                    || here.callers.iter().any(|caller| caller.waiting)
                    || (!here.committing.is_empty() && self.may_commit(node))
                    || !here.sending.is_empty())
        };
        (0..self.nodes.len()).filter(waits).collect()
    }

    pub fn take(&mut self, step: Step) -> Outcome {
        if let Some(told) = &mut self.told {
            told.push(format!("{step:?}"));
        }
        self.go(step)?;
        self.compare()
    }

    /// True if the node has no majority around it.
    fn is_alone(&self, node: usize) -> bool {
        let together = self.network.together(node);
        together.iter().filter(|&&other| self.case.counts(other)).count() < self.case.majority()
    }

    /// True if the node has no majority around it, or had none in a ring that it has yet to learn
    /// of.
    fn parted(&self, node: usize) -> bool {
        let few = |item: &Item| match item {
            Item::Configuration { members, .. } => self.case.few(members),
            Item::Message { .. } | Item::Away => false,
        };
        let link = &self.network.links[node];
        link.late || self.is_alone(node) || link.inbox.iter().any(few)
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
        self.settle_by(&mut Prints::default()).map(|_| ())
    }

    /// Programs start at all that are live, at once, and read: the same.
    fn start_all(&mut self) -> Outcome {
        let live = |node: &usize| {
            let here = &self.nodes[*node];
            let may = here.live && !here.excluded && !here.doubts;
            may && self.case.counts(*node) && !self.is_alone(*node)
        };
        let live: Vec<usize> = (0..self.nodes.len()).filter(live).collect();
        for &node in &live {
            self.take(Step::Start { node, together: 0 })?;
        }
        for thread in 0..self.case.threads {
            for &node in &live {
                self.take(Step::Read { node, thread })?;
            }
        }
        self.settle()
    }

    /// Settles no farther than to a state from where it is known to come to its end; notes those
    /// that it has come through. Whether it came to an end that was not known.
    pub fn settle_by(&mut self, known: &mut Prints) -> Result<bool, Violation> {
        let mut through = Vec::new();
        for _ in 0..5_000 {
            if let Some(node) = self.nodes.iter().position(|node| node.fenced) {
                self.take(Step::Anew { node })?;
            }
            if self.quiet() {
                let here = print(self);
                through.push(here);
                if known.contains(&here) || self.pending().is_empty() {
                    let new = !known.contains(&here);
                    known.extend(through);
                    return Ok(new);
                }
            }
            let mut moved = false;
            for node in self.network.syncing() {
                self.take(Step::Sync { node })?;
                moved = true;
            }
            for node in 0..self.nodes.len() {
                if self.network.links[node].late {
                    self.take(Step::Notice { node })?;
                    moved = true;
                }
                if self.network.links[node].dead {
                    self.take(Step::Bury { node })?;
                    moved = true;
                }
                while self.nodes[node].engine.is_some() {
                    let step = if !self.network.links[node].inbox.is_empty() {
                        Step::Deliver { node }
                    } else if self.may_flush(node) {
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
            return Ok(true);
        }
        Err(Violation::Stuck(waiting.join(", ")))
    }

    /// Lets all replicas that have a majority read all rounds that any has read, and one more: what
    /// has happened before shows in what they get. Who was cut off and is back, and has not found
    /// out by then, has no excuse any more.
    pub fn read_all(&mut self) -> Outcome {
        let whole = self.network.whole();
        for thread in 0..self.case.threads {
            let reads = |world: &World, node: usize| {
                let here = &world.nodes[node];
                let counts = !here.excluded || whole;
                let may =
                    here.live && here.program && counts && !here.doubts && !world.is_alone(node);
                here.callers.get(thread as usize).filter(|_| may).map(|caller| caller.read)
            };
            let Some(last) = (0..self.nodes.len()).filter_map(|node| reads(self, node)).max()
            else {
                continue;
            };
            for round in 0..=last {
                for node in 0..self.nodes.len() {
                    if reads(self, node) == Some(round) {
                        self.take(Step::Read { node, thread })?;
                    }
                }
                self.settle()?;
            }
        }
        if whole && self.budget.slow {
            self.wait(FINDS_OUT_NS)?;
        }
        if self.case.starts {
            self.start_all()?;
        }
        if whole {
            self.nodes.iter_mut().for_each(|node| node.excluded = false);
        }
        self.compare()
    }

    /// Lets so much time pass, and all come to its end that happens meanwhile.
    fn wait(&mut self, mut ns: i64) -> Outcome {
        while let Some((wait, _)) = self.next_deadline().filter(|(wait, _)| *wait <= ns) {
            ns -= wait.max(1);
            self.take(Step::Wait)?;
            self.settle()?;
        }
        Ok(())
    }

    /// True if the node was cut off and is not known to have found out.
    fn strays(&self, node: usize) -> bool {
        self.nodes[node].excluded || self.network.links[node].inbox.contains(&Item::Away)
    }

    /// True if any node was.
    pub fn doubtful(&self) -> bool {
        (0..self.nodes.len()).any(|node| self.strays(node))
    }

    /// An error if one that was cut off, or had not heard that the group began anew, goes on though
    /// all is quiet.
    pub fn all_found_out(&self) -> Outcome {
        let strays = |node: &usize| self.nodes[*node].live && self.nodes[*node].excluded;
        match (0..self.nodes.len()).find(strays) {
            None => Ok(()),
            Some(node) => Err(Violation::Stuck(format!("node {} never finds out", node + 1))),
        }
    }

    /// Nodes whose sight counts.
    fn sound(&self) -> Vec<bool> {
        self.nodes.iter().map(|node| node.live && !node.excluded).collect()
    }

    /// Compares what those have.
    fn compare(&mut self) -> Outcome {
        self.history.compare(&self.sound())
    }
}
