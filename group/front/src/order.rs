//! Order that all fronts agree on, as a function of the group's stream: who is in, which
//! connections there are, what the programs have processed. No I/O.

mod inside;
mod terms;
mod votes;

use std::collections::BTreeMap;

use truechimer_group::Member;

use crate::wire::Message;
pub use terms::{Conn, End, FrontId, Op, Peer, Position, Replied, Request, State, Step};
pub use votes::Standing as PeerStanding;

/// A front that says nothing for so long of agreed time is out, ns.
const QUIET_NS: i64 = 10_000_000_000;
/// Longest part of a silence of the whole group that counts, ns: while nobody could speak nobody is
/// late.
const GAP_NS: i64 = 1_000_000_000;
/// The longest checkpoint, bytes.
pub const LARGEST_CHECKPOINT: u64 = 256 << 20;
/// Largest number of bytes of the stream that are kept for a front that waits for a checkpoint.
const KEPT_BYTES: usize = 256 << 20;

/// Where this front stands.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Standing {
    /// Out, and has not asked.
    Out,
    /// Has said hello.
    Asked,
    /// Has chosen who gives the checkpoint; and whether that was delivered.
    Joining(bool),
    /// Starts its program from the checkpoint, with this state.
    Restoring(State),
    /// In.
    In,
}

/// A message kept for later.
type Kept = (Member, i64, u64, Message);

/// A front that is not in any more.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Lost {
    /// Mark of a program whose replies differ from a majority's.
    diverged: bool,
    why: String,
    found: Found,
}

/// Place in the order at which something was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// The agreed time, ns since 1970.
    pub since_ns: i64,
    /// Number of requests by then.
    pub request: u64,
}

/// The fronts' common state, as one of them has it.
#[derive(Debug)]
pub struct Order {
    me: FrontId,
    size: usize,
    can_restore: bool,
    /// A program that is stuck for longer does not follow, ns of agreed time.
    patience_ns: i64,
    standing: Standing,
    serial: u32,
    state: State,
    conns: BTreeMap<Conn, ()>,
    hellos: BTreeMap<Member, (u64, u32, Position)>,
    since: Vec<Kept>,
    since_bytes: usize,
    /// Where in `since` the places of this front's own hellos are.
    marks: Vec<(u32, usize)>,
    parts: Option<(State, u64, Vec<u8>)>,
    /// Reasons why fronts are not in any more that were.
    lost: BTreeMap<Member, Lost>,
}

impl Order {
    /// A front that is out. `size` is how many replicas the group has in all.
    pub fn new(me: FrontId, size: usize, can_restore: bool, patience_ns: i64) -> Order {
        Order {
            me,
            size: size.max(1),
            can_restore,
            patience_ns,
            standing: Standing::Out,
            serial: 0,
            state: State::default(),
            conns: BTreeMap::new(),
            hellos: BTreeMap::new(),
            since: Vec::new(),
            since_bytes: 0,
            marks: Vec::new(),
            parts: None,
            lost: BTreeMap::new(),
        }
    }

    /// True: the program answers from one event loop, as all replicas' fronts are to say.
    #[must_use]
    pub fn with_event_loop(mut self, event_loop: bool) -> Order {
        self.state.position.event_loop = event_loop;
        self
    }

    /// Which life of which front this is.
    pub fn me(&self) -> FrontId {
        self.me
    }

    /// True if this front is in.
    pub fn is_in(&self) -> bool {
        self.standing == Standing::In
    }

    /// Number of fronts that are in whose programs have the state.
    pub fn ready(&self) -> usize {
        self.state.peers.values().filter(|peer| peer.ready).count()
    }

    /// Number of fronts that are in and come before this one.
    pub fn rank(&self) -> usize {
        self.state.peers.range(..self.me.member).count()
    }

    /// Number of requests so far.
    pub fn requests(&self) -> u64 {
        self.state.requests
    }

    /// True if there is this connection.
    pub fn has(&self, conn: Conn) -> bool {
        self.conns.contains_key(&conn)
    }

    /// Member that waits to be let in and what for, in words.
    pub fn waits_for(&self) -> Option<String> {
        match &self.standing {
            Standing::Asked => Some(format!(
                "the other fronts ({} of {} are here; a group begins with all of them)",
                self.hellos.len(),
                self.size
            )),
            Standing::Joining(_) => Some("a checkpoint".into()),
            _ => None,
        }
    }

    /// The stream was interrupted here: something may have been missed.
    pub fn interrupted(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        match self.standing {
            Standing::Restoring(_) => steps.push(Step::Unfit(
                "the group was lost while the program started from a checkpoint".into(),
            )),
            Standing::Out => {}
            _ => self.drop_out("this member is outside the majority", &mut steps),
        }
        steps
    }

    /// Asks to be let in, if that is not under way.
    pub fn ask(&mut self) -> Vec<Step> {
        match self.standing {
            Standing::Out => vec![self.hello()],
            _ => Vec::new(),
        }
    }

    /// Asks again, since no checkpoint came: who was to give it may have ended.
    pub fn ask_again(&mut self) -> Vec<Step> {
        match self.standing {
            Standing::Joining(_) => {
                self.forget_since();
                vec![self.hello()]
            }
            _ => Vec::new(),
        }
    }

    /// The program has started from the checkpoint.
    pub fn restored(&mut self) -> Vec<Step> {
        let Standing::Restoring(state) = &self.standing else { return Vec::new() };
        self.state = state.clone();
        self.conns.clear();
        let mut steps = Vec::new();
        self.enter(&mut steps);
        steps.push(Step::Send(Message::Ready));
        self.catch_up(&mut steps);
        steps
    }

    /// A message of the stream, with the agreed time of its delivery (ns).
    pub fn delivered(&mut self, from: Member, time: i64, payload: &[u8]) -> Vec<Step> {
        let mut steps = Vec::new();
        let Some((incarnation, message)) = Message::decode(payload) else {
            steps.push(Step::Report(format!(
                "member {from} sends what is no message of a front of this version; ignored"
            )));
            return steps;
        };
        if self.standing == Standing::In {
            self.apply(from, time, incarnation, message, &mut steps);
        } else {
            self.outside(from, time, incarnation, message, payload.len(), &mut steps);
        }
        steps
    }

    fn hello(&mut self) -> Step {
        self.serial += 1;
        self.standing = Standing::Asked;
        self.parts = None;
        Step::Send(Message::Hello { serial: self.serial, position: self.state.position })
    }

    fn forget_since(&mut self) {
        self.since.clear();
        self.since_bytes = 0;
        self.marks.clear();
    }

    fn drop_out(&mut self, why: &str, steps: &mut Vec<Step>) {
        self.standing = Standing::Out;
        // What was sent in this life and comes late counts no more.
        self.me.incarnation += 1;
        self.hellos.clear();
        self.forget_since();
        self.parts = None;
        steps.push(Step::Dropped(why.into()));
    }

    fn enter(&mut self, steps: &mut Vec<Step>) {
        self.standing = Standing::In;
        self.hellos.clear();
        self.parts = None;
        steps.push(Step::Run(Op::Start(self.state.position.count), self.state.time));
        steps.push(Step::Entered);
    }

    /// Takes up what was kept while it was not known from where to go on.
    fn catch_up(&mut self, steps: &mut Vec<Step>) {
        self.since_bytes = 0;
        self.marks.clear();
        for (from, time, incarnation, message) in std::mem::take(&mut self.since) {
            if self.standing == Standing::In {
                self.apply(from, time, incarnation, message, steps);
            }
        }
    }

    /// A message while this front is not in.
    fn outside(
        &mut self,
        from: Member,
        time: i64,
        incarnation: u64,
        message: Message,
        length: usize,
        steps: &mut Vec<Step>,
    ) {
        let id = FrontId { member: from, incarnation };
        let mine = id == self.me;
        match &message {
            Message::Hello { serial, position } | Message::Waiting { serial, position } => {
                let hello = matches!(message, Message::Hello { .. });
                if mine && hello && self.standing == Standing::Asked {
                    self.marks.push((*serial, self.since.len()));
                }
                let before = self.hellos.insert(from, (incarnation, *serial, *position));
                let known = before.is_some_and(|(known, _, _)| known == incarnation);
                if !mine && !known && self.standing == Standing::Asked {
                    // It came too late for our own.
                    let (serial, position) = (self.serial, self.state.position);
                    steps.push(Step::Send(Message::Waiting { serial, position }));
                }
                self.begin_if_all(steps);
            }
            Message::Here { to, serial, state }
                if *to == self.me
                    && self.standing == Standing::Asked
                    && self.marks.iter().any(|(mark, _)| mark == serial) =>
            {
                let mark = self.marks.iter().find(|(mark, _)| mark == serial);
                let place = mark.map_or(0, |(_, place)| *place);
                if state.position.event_loop != self.state.position.event_loop {
                    steps.push(self.unlike());
                } else if state.position == self.state.position {
                    self.state.peers.clone_from(&state.peers);
                    self.state.pairs.clone_from(&state.pairs);
                    self.state.time = state.time;
                    self.state.requests = state.requests;
                    self.enter(steps);
                    self.welcome(self.me, steps);
                    // The hello itself is done with.
                    self.since.drain(..(place + 1).min(self.since.len()));
                    self.since.push((from, time, incarnation, message));
                    self.catch_up(steps);
                } else if self.can_restore {
                    self.standing = Standing::Joining(false);
                    self.forget_since();
                    let serial = self.serial;
                    steps.push(Step::Send(Message::Join { serial, giver: id }));
                } else {
                    steps.push(Step::Unfit(format!(
                        "the group's programs have processed {} messages, this one {}, and without \
                         --restore-command it cannot have their state: start all replicas anew, or \
                         give --checkpoint-command and --restore-command",
                        state.position.count, self.state.position.count
                    )));
                }
                return;
            }
            Message::Begin { fronts, position } => {
                self.begun(fronts, *position, time, steps);
                return;
            }
            Message::Join { serial, .. } if mine && *serial == self.serial => {
                if self.standing == Standing::Joining(false) {
                    self.standing = Standing::Joining(true);
                    self.forget_since();
                }
                return;
            }
            Message::Part { to, serial, total, at, state, bytes }
                if *to == self.me && *serial == self.serial =>
            {
                self.part(*total, *at, state.as_ref(), bytes, steps);
            }
            Message::Failed { to, serial, why } if *to == self.me && *serial == self.serial => {
                let why = format!("member {from} could not make a checkpoint: {why}");
                steps.push(Step::Unfit(why));
            }
            _ => {}
        }
        let keeps = match self.standing {
            Standing::Asked => !self.marks.is_empty(),
            Standing::Joining(there) => there,
            Standing::Restoring(_) => true,
            Standing::Out | Standing::In => false,
        };
        if keeps {
            self.since_bytes += length + size_of::<Kept>();
            if self.since_bytes > KEPT_BYTES {
                steps.push(Step::Unfit("more came than can be kept until a checkpoint".into()));
                self.forget_since();
                self.standing = Standing::Out;
                return;
            }
            self.since.push((from, time, incarnation, message));
        }
    }

    /// All replicas' fronts are out: those with the latest state go on with it.
    fn begin_if_all(&mut self, steps: &mut Vec<Step>) {
        let own = self.hellos.get(&self.me.member);
        let current = own.is_some_and(|(incarnation, serial, _)| {
            *incarnation == self.me.incarnation && *serial == self.serial
        });
        if !current || self.hellos.len() < self.size {
            return;
        }
        let event_loop = self.state.position.event_loop;
        if self.hellos.values().any(|(_, _, position)| position.event_loop != event_loop) {
            steps.push(self.unlike());
            return;
        }
        let Some(latest) = self.hellos.values().map(|(_, _, position)| position.count).max() else {
            return;
        };
        let with = |position: &Position| position.count == latest;
        let mut chosen = self.hellos.values().filter(|(_, _, position)| with(position));
        let Some((_, _, position)) = chosen.next().copied() else { return };
        if chosen.any(|(_, _, other)| *other != position) {
            steps.push(Step::Unfit(
                "the replicas have processed equally many messages, but not the same ones: start \
                 all of them anew"
                    .into(),
            ));
            return;
        }
        let fronts = self.hellos.iter().filter(|(_, (_, _, other))| *other == position);
        let fronts = fronts.map(|(member, (incarnation, serial, _))| {
            (FrontId { member: *member, incarnation: *incarnation }, *serial)
        });
        steps.push(Step::Send(Message::Begin { fronts: fronts.collect(), position }));
    }

    fn unlike(&self) -> Step {
        let how = if self.state.position.event_loop { "with" } else { "without" };
        Step::Unfit(format!(
            "this front was started {how} --event-loop, and another one was not: start all alike"
        ))
    }

    fn begun(
        &mut self,
        fronts: &[(FrontId, u32)],
        position: Position,
        time: i64,
        steps: &mut Vec<Step>,
    ) {
        if self.standing != Standing::Asked {
            return;
        }
        if !fronts.contains(&(self.me, self.serial)) || position != self.state.position {
            // The others have begun, and did not answer our hello if it came before this.
            self.hellos.clear();
            if self.marks.iter().any(|(serial, _)| *serial == self.serial) {
                steps.push(self.hello());
            }
            return;
        }
        let peers = fronts
            .iter()
            .map(|(front, _)| (front.member, Peer::new(front.incarnation, true, position.count)));
        self.state.peers = peers.collect();
        self.state.pairs.clear();
        self.lost.clear();
        self.state.time = time;
        self.forget_since();
        self.enter(steps);
        self.close_all(|_| true, steps);
    }

    fn part(
        &mut self,
        total: u64,
        at: u64,
        state: Option<&State>,
        bytes: &[u8],
        steps: &mut Vec<Step>,
    ) {
        if self.standing != Standing::Joining(true) {
            return;
        }
        if let (0, Some(state)) = (at, state) {
            self.parts = Some((state.clone(), total, Vec::new()));
        }
        let Some((_, expected, data)) = &mut self.parts else { return };
        let whole = *expected == total && total <= LARGEST_CHECKPOINT && at == data.len() as u64;
        if !whole || at + bytes.len() as u64 > total {
            steps.push(Step::Unfit("the checkpoint's pieces do not fit together".into()));
            return;
        }
        data.extend(bytes);
        if data.len() as u64 == total
            && let Some((state, _, data)) = self.parts.take()
        {
            self.standing = Standing::Restoring(state);
            steps.push(Step::Restore(data));
        }
    }
}

#[cfg(test)]
mod tests;
