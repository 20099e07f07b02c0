//! One member's place in one group: its engine between a transport and a door for programs.

mod account;
mod flow;
mod gate;
mod missed;
mod now;
mod posts;
mod programs;
mod starts;

use std::collections::{HashMap, VecDeque};

use truechimer_group::{Action, Call, Engine, Event, Member, Notice, Own, Phase, Round, Thread};
use truechimer_group_client::agent::{Door, LinkId, Request, Ticket};
use truechimer_group_client::link::Outside;
use truechimer_group_client::{Began, Lead};

use crate::clocks::Clocks;
use crate::config::Membership;
use crate::floor::Floor;
use crate::notices::{Level, Notices};
use crate::transport::{Incoming, Sent, Transport, TransportError};

/// Tools of a seat: the clocks, and what leaves it on other ways than door and transport.
pub(crate) struct Turn<'t> {
    pub(crate) clocks: &'t Clocks,
    /// Answers of poll(2) to what it was asked.
    pub(crate) polled: &'t [libc::pollfd],
    /// Wishes of seats to each other.
    pub(crate) crossings: Vec<Crossing>,
    /// Lines for the log.
    pub(crate) lines: Vec<(Level, String)>,
}

impl<'t> Turn<'t> {
    pub(crate) fn new(clocks: &'t Clocks) -> Turn<'t> {
        Turn { clocks, polled: &[], crossings: Vec::new(), lines: Vec::new() }
    }
}

/// Largest number of actions that may wait for the disk before the program is given up.
const MOST_HELD: usize = 1 << 16;
/// Batches that are received in one turn; what is left comes in the next.
const BATCHES: usize = 8;
/// Messages that come no farther apart than this are many, ns.
const DENSE_NS: i64 = 50_000;

/// A member at work.
pub(crate) struct Seat {
    pub(crate) membership: Membership,
    pub(crate) member: Member,
    own: Own,
    engine: Engine,
    transport: Option<Box<dyn Transport>>,
    pub(crate) door: Door,
    pub(crate) floor: Floor,
    notices: Notices,
    /// Phase as far as programs know.
    phase: Phase,
    /// Messages that the transport has not taken yet.
    outbox: VecDeque<Vec<u8>>,
    /// Actions that programs are to be told of when a floor has reached the disk, in order.
    held: VecDeque<Action>,
    /// Reads under way.
    reads: HashMap<Thread, Waiting>,
    /// Reads of the time at present.
    now: now::Now,
    /// Reads of threads that have one under way, which may turn out to be given up.
    second: Vec<(Ticket, Thread, Call, Outside)>,
    /// Link and place of each question, by the engine's number for it.
    commits: HashMap<u64, (LinkId, u64)>,
    next_commit: u64,
    /// Messages to other groups under way, by the receiving engine's number for it.
    pub(crate) foreign: HashMap<u64, Foreign>,
    next_foreign: u64,
    /// Links of operators' words under way, by the engine's number for each.
    shifts: HashMap<u64, LinkId>,
    next_shift: u64,
    /// The primary as programs were last told.
    lead: Lead,
    /// A checkpoint for a program that has not come yet.
    install: Option<Install>,
    requests: Vec<Request>,
    incoming: Vec<Incoming>,
    /// True if the transport may have more that was not looked for in this turn.
    unseen: bool,
    /// Messages that no program was there for.
    unheard: u64,
    /// Number of times that a transport was opened.
    joins: u64,
    started: i64,
    missed: missed::Missed,
    /// With whom the program here starts, if that is not under way yet.
    together: Option<u8>,
    /// Start of the program here among the others'.
    began: Began,
    /// The programs of other members that ran when the last one here ended: member and number.
    ended_beside: Vec<(Member, u64)>,
    gate: gate::Gate,
    flow: flow::Flow,
    /// Times from readings to their values.
    waits: truechimer_metrics::Histogram,
}

/// A program's state as another member gave it.
struct Install {
    data: Vec<u8>,
    /// Number of rounds that each thread had read.
    position: Vec<(Thread, Round)>,
}

/// A read under way.
struct Waiting {
    ticket: Ticket,
    call: Call,
    /// Fate of it when the primary component is lost.
    outside: Outside,
    /// When it came, by the physical clock, ns.
    since: i64,
}

/// Sender of a message to another group.
#[derive(Clone, Copy)]
pub(crate) struct Foreign {
    /// The sender's seat.
    pub(crate) seat: usize,
    pub(crate) link: LinkId,
    pub(crate) token: u64,
}

/// Wish of one seat to another.
pub(crate) enum Crossing {
    /// A message for another group.
    Message { group: String, link: LinkId, token: u64, stamp: i64, payload: Vec<u8> },
    /// The other group has refused it.
    Refused { to: Foreign, why: truechimer_group::Refusal },
}

/// Tells tokens of messages from other groups from those of our own program.
const FOREIGN: u64 = 1 << 63;
/// Messages to other groups of which a refusal can still be told.
const MOST_FOREIGN: usize = 4096;

impl Seat {
    /// A seat with everything but a transport.
    pub(crate) fn new(
        membership: Membership,
        own: Own,
        door: Door,
        floor: Floor,
        now: i64,
    ) -> Result<Seat, truechimer_group::SettingsError> {
        let member = own.member;
        let engine = Engine::new(membership.group.clone(), own.clone())?;
        let mut seat = Seat {
            membership,
            member,
            own,
            engine,
            transport: None,
            door,
            floor,
            notices: Notices::default(),
            phase: Phase::Outside,
            outbox: VecDeque::new(),
            held: VecDeque::new(),
            reads: HashMap::new(),
            now: now::Now::default(),
            second: Vec::new(),
            commits: HashMap::new(),
            next_commit: 0,
            foreign: HashMap::new(),
            next_foreign: 0,
            shifts: HashMap::new(),
            next_shift: 0,
            lead: Lead::default(),
            install: None,
            requests: Vec::new(),
            incoming: Vec::new(),
            unseen: false,
            unheard: 0,
            joins: 0,
            started: now,
            missed: missed::Missed::default(),
            together: None,
            began: Began::Unknown,
            ended_beside: Vec::new(),
            gate: gate::Gate::default(),
            flow: flow::Flow::default(),
            waits: crate::metrics::no_waits(),
        };
        seat.no_program(now);
        Ok(seat)
    }

    /// The group's name.
    pub(crate) fn name(&self) -> &str {
        &self.membership.group.name
    }

    /// Takes part by way of this transport from now on.
    pub(crate) fn join(&mut self, transport: Box<dyn Transport>) {
        self.outbox.clear();
        self.flow.anew();
        self.transport = Some(transport);
        self.joins += 1;
    }

    /// True if it should take part now: a member whose program gives and takes checkpoints is none
    /// without its program.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.membership.checkpoints || self.door.program().is_some()
    }

    /// Leaves the group and forgets all that it had of it, for the program has gone and its state
    /// with it: the next one gets another member's.
    fn forget(&mut self, turn: &mut Turn<'_>) {
        self.leave(turn);
        let own = Own {
            incarnation: self.own.incarnation.wrapping_add(1),
            floor: self.floor.kept().max(self.own.floor),
            ..self.own.clone()
        };
        // The settings are those that were taken before.
        if let Ok(engine) = Engine::new(self.membership.group.clone(), own.clone()) {
            self.engine = engine;
            self.own = own;
            self.missed.forget();
        }
        self.held.clear();
        self.gate = gate::Gate::default();
        drop(self.now.begin_anew());
        self.install = None;
        self.commits.clear();
    }

    /// True if there is a transport.
    pub(crate) fn is_joined(&self) -> bool {
        self.transport.is_some()
    }

    /// Adds what to wait for. Returns the edition of the list: a greater one whenever a descriptor
    /// has been opened, which may have the number of one that was closed.
    pub(crate) fn interests(&self, fds: &mut Vec<libc::pollfd>) -> u64 {
        use std::os::fd::AsRawFd;
        self.door.descriptors(fds);
        if let Some(transport) = &self.transport {
            let all = transport.descriptors();
            fds.extend(all.iter().map(|fd| crate::sys::readable(fd.as_raw_fd())));
        }
        if !self.held.is_empty() || !self.vouches() {
            fds.extend(self.floor.fd().map(crate::sys::readable));
        }
        1 + self.joins + self.door.opened()
    }

    /// True if something is to be said at once.
    fn speaks(&self) -> bool {
        let now = crate::sys::raw_ns();
        !self.outbox.is_empty() || self.engine.deadline().is_some_and(|due| due <= now)
    }

    /// When something is to be said even if nothing happens: by the physical clock, ns.
    pub(crate) fn deadline(&self) -> Option<i64> {
        let speaks = self.is_joined() && !self.is_full() && self.vouches();
        self.engine.deadline().filter(|_| speaks)
    }

    /// True if there is more to do without anything happening.
    pub(crate) fn is_busy(&self) -> bool {
        !self.second.is_empty() || self.now.is_due()
    }

    /// True if something waits for the transport to take more.
    pub(crate) fn is_full(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// True if the disk has a floor not below what this member has delivered, or all that was asked
    /// for. Messages of this member acknowledge what it has delivered: if all die then, and only
    /// some come back, the clock must not go back behind what they have acknowledged.
    fn vouches(&self) -> bool {
        let last = self.engine.last().filter(|_| self.engine.phase() == Phase::Live);
        last.is_none_or(|last| self.floor.covers_if_asked(last))
    }

    /// Takes in all that has come from programs and from the transport, without waiting. An error
    /// is the end of the transport.
    pub(crate) fn take_in(&mut self, turn: &mut Turn<'_>) -> Result<(), TransportError> {
        // Where the group's order takes no more, programs wait with theirs.
        self.door.pause(!self.outbox.is_empty());
        let mut requests = std::mem::take(&mut self.requests);
        self.door.work(turn.polled, &mut requests);
        // A thread may have given up one read and begun the next, which was seen first.
        self.abandoned(&requests, turn);
        for (ticket, thread, call, outside) in std::mem::take(&mut self.second) {
            self.read(ticket, thread, call, outside, true, turn);
        }
        for request in requests.drain(..) {
            self.request(request, turn);
        }
        self.requests = requests;
        self.begin_round(turn.clocks);
        let mut end = Ok(());
        let mut incoming = std::mem::take(&mut self.incoming);
        if let Some(transport) = &mut self.transport {
            transport.polled(turn.polled);
        }
        self.unseen = false;
        for _ in 0..BATCHES {
            let Some(transport) = &mut self.transport else { break };
            let mut more = false;
            end = transport.receive(&mut incoming).map(|there| more = there);
            let mut dense = false;
            for event in incoming.drain(..) {
                let own = matches!(&event, Incoming::Message { from, .. } if *from == self.member);
                let configuration = matches!(event, Incoming::Configuration { .. });
                let now = turn.clocks.read();
                dense |= self.flow.came(own, configuration, now.physical) < DENSE_NS;
                self.engine.handle(now, event.event());
                self.act(turn);
            }
            if end.is_err() || !more {
                break;
            }
            // Looking for more is a system call for nothing where messages come singly, on the way
            // of whoever runs next; and it matters only to what is to be said.
            self.unseen = !dense && !self.speaks();
            if self.unseen {
                break;
            }
        }
        self.incoming = incoming;
        self.open_gate(turn);
        if let Err(why) = end {
            self.transport = None;
            return Err(why);
        }
        Ok(())
    }

    /// Lets the engine speak, if the transport takes it, and sends.
    pub(crate) fn give_out(&mut self, turn: &mut Turn<'_>) -> Result<(), TransportError> {
        let mut end = self.send();
        let may = self.outbox.is_empty() && self.transport.is_some() && self.vouches();
        // What has not been looked at may decide what would be proposed.
        if end.is_ok() && may && !self.unseen {
            self.engine.flush(turn.clocks.read());
            self.act(turn);
            end = self.send();
        }
        if end.is_err() {
            self.lose(turn);
            self.act(turn);
        }
        end
    }

    /// Leaves the group, of our own will.
    pub(crate) fn leave(&mut self, turn: &mut Turn<'_>) {
        if self.transport.is_some() {
            let said = turn.lines.len();
            self.lose(turn);
            self.act(turn);
            // That it is outside then is no news.
            turn.lines.truncate(said);
        }
    }

    /// The transport is gone: we are by ourselves, without a majority even if one suffices.
    fn lose(&mut self, turn: &Turn<'_>) {
        self.transport = None;
        self.outbox.clear();
        let others: Vec<Member> =
            self.membership.group.universe.iter().copied().filter(|m| *m != self.member).collect();
        let members = [self.member];
        let alone = Event::Configuration { members: &members, lost: &others };
        self.engine.handle(turn.clocks.read(), alone);
    }

    fn send(&mut self) -> Result<(), TransportError> {
        let Some(transport) = &mut self.transport else {
            self.outbox.clear();
            return Ok(());
        };
        while let Some(message) = self.outbox.front() {
            match transport.send(message)? {
                Sent::Taken => {
                    self.flow.sent();
                    self.outbox.pop_front();
                }
                Sent::Later => break,
            }
        }
        Ok(())
    }

    /// Does what the engine wants.
    fn act(&mut self, turn: &mut Turn<'_>) {
        self.see_gap(turn);
        while let Some(action) = self.engine.next_action() {
            match action {
                Action::Send(message) => {
                    if self.transport.is_some() {
                        self.flow.wanted(self.outbox.is_empty(), crate::sys::raw_ns());
                        self.outbox.push_back(message);
                    }
                }
                Action::Keep { floor } => self.floor.keep(floor),
                Action::Notice(notice) => self.notice(&notice, turn),
                action if self.held.is_empty() && self.is_kept(&action) => {
                    self.tell(action, turn);
                }
                action => self.hold(action, turn),
            }
        }
        self.see_primary(turn);
    }

    /// True if no value in it is beyond the floor on the disk.
    fn is_kept(&self, action: &Action) -> bool {
        match action {
            Action::Return { value, .. } => self.floor.covers(value.time.0),
            Action::Deliver { lease_end, .. } => self.floor.covers(*lease_end),
            _ => true,
        }
    }

    fn hold(&mut self, action: Action, turn: &mut Turn<'_>) {
        self.held.push_back(action);
        if self.held.len() <= MOST_HELD {
            return;
        }
        // Without the disk no value may be used, and what waits must not grow without end.
        self.held.clear();
        self.begin_rounds_anew(turn.clocks);
        if let Some(program) = self.door.program() {
            self.door.cut_off(program, "the disk does not take the clock's floor");
        }
        let text = "the disk does not take the clock's floor (see --state): the program was cut \
                    off, as too much waited for it";
        self.say(Level::Warning, "disk", text.to_owned(), turn);
    }

    /// Tells what waited for the disk, as far as it has it.
    pub(crate) fn release(&mut self, turn: &mut Turn<'_>) {
        if let Some(why) = self.floor.failure() {
            let text = format!("{why}: no values beyond what is on the disk until it takes more");
            self.say(Level::Warning, "disk", text, turn);
        }
        if self.held.is_empty() && self.vouches() {
            return;
        }
        self.floor.wake();
        while let Some(action) = self.held.pop_front() {
            if !self.is_kept(&action) {
                self.held.push_front(action);
                return;
            }
            self.tell(action, turn);
        }
    }

    fn notice(&mut self, notice: &Notice, turn: &mut Turn<'_>) {
        if let Notice::Fenced { .. } = notice {
            // It is known now whose program it is that differs.
            self.notices.forget("divergence");
        }
        if let Some((level, text)) = self.notices.take(notice, crate::sys::raw_ns()) {
            self.speak(level, &text, turn);
        }
    }

    /// Says something of this kind, at a bounded rate.
    pub(crate) fn say(
        &mut self,
        level: Level,
        kind: &'static str,
        text: String,
        turn: &mut Turn<'_>,
    ) {
        if let Some((level, text)) = self.notices.note(level, kind, text, crate::sys::raw_ns()) {
            self.speak(level, &text, turn);
        }
    }

    fn speak(&self, level: Level, text: &str, turn: &mut Turn<'_>) {
        turn.lines.push((level, format!("{}, member {}: {text}", self.name(), self.member)));
    }

    /// A message of another group's program for this one.
    pub(crate) fn receive_foreign(
        &mut self,
        from: Foreign,
        stamp: i64,
        payload: &[u8],
        clocks: &Clocks,
    ) {
        if self.foreign.len() >= MOST_FOREIGN {
            // The oldest number; of that a refusal is no longer told.
            let oldest = self.foreign.keys().min().copied();
            oldest.map(|oldest| self.foreign.remove(&oldest));
        }
        let token = FOREIGN | self.next_foreign;
        self.next_foreign = (self.next_foreign + 1) & !FOREIGN;
        self.foreign.insert(token, from);
        let payload = payload.to_vec();
        self.ask(gate::Asked::Multicast { token, payload, stamp: Some(stamp) }, clocks);
    }

    /// True if it is none of the group's members.
    pub(crate) fn is_observer(&self) -> bool {
        !self.membership.group.universe.contains(&self.member)
    }

    /// Ends: keeps exactly what the group's clock has reached, as far as this member knows.
    pub(crate) fn settle(self) {
        match self.engine.status().last {
            Some(last) => {
                let reserved = i64::try_from(self.membership.group.lease_ns).unwrap_or(i64::MAX);
                self.floor.settle(last.time.0.saturating_add(reserved));
            }
            None => drop(self.floor),
        }
    }
}
