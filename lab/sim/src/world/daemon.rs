//! The daemon's part: what wakes it, what it does then, and in which order.
//!
//! What the engine is told, and when, follows the loop of the daemon: a look at the host's clocks
//! comes before replies and about once a second; each request has a socket of its own, open
//! while it waits for its reply; one datagram of each socket is read in a turn; the timer comes last.

use std::collections::VecDeque;
use std::net::SocketAddr;

use truechimer_engine::{
    Action, Engine, Event, Level, PtpAction, Shown, SourceId, SourceReport, SourceStatus, Start,
    Steer,
};
use truechimer_ntp::{HEADER_LEN, Packet};
use truechimer_time::{BootId, Count, CounterId, CounterKind, Epoch, Rate, Span, Stamp};
use truechimer_timehands::{Allowed, Hand, Passed};

use super::{Happening, Marked, Planned, Request, World};
use crate::host::{Arrival, Departure, as_heard};
use crate::pps::PulseEdge;
use crate::random::Random;
use crate::scenario::Restart;
use crate::server::{Answered, Sender};
use truechimer_feedforward::number::seconds;
use truechimer_trace::Exchanged;

/// The boot that all runs are of.
const BOOT: BootId = BootId(*b"simulated boot\0\0");
/// A look at the host's clocks is due so long after the last one.
const CHECK: Span = Span::from_millis(900);
/// The longest wait, s.
const LONGEST_WAIT: f64 = 1.0;
/// Precision with which it is worked out when something is due, s.
const EARLY: f64 = 1e-6;
/// Limits for the time without a daemon (as in the daemon): how far counter and raw clock may have
/// come apart, at what rate, and how much sleep there may have been.
const CONTINUITY: Allowed = Allowed {
    suspended: Span::from_millis(1),
    back: Span::ZERO,
    apart: Span::from_micros(100),
    rate: Rate::from_ppb(50_000),
};

/// A daemon.
#[derive(Debug)]
pub(super) struct Daemon {
    pub(super) engine: Engine,
    /// Which of them it is.
    life: u64,
    /// Sources that the servers of a pool were last, in the servers' order. Without a pool each server is the source of its
    /// number.
    members: Option<Vec<Option<SourceId>>>,
    /// Sockets of each source's requests that wait for replies, the oldest first.
    links: Vec<VecDeque<Link>>,
    pub(super) events: VecDeque<Event>,
    checked: Option<Count>,
    /// Which pulses are open.
    watched: Vec<bool>,
    /// Number of times that its next waking was fixed: earlier ones no longer count.
    alarm: u64,
    /// Number of replies of each source that the estimator has accepted.
    pub(super) accepted: Vec<u64>,
}

/// The socket of a request.
#[derive(Debug)]
struct Link {
    request: u64,
    departure: Departure,
    inbox: VecDeque<(Datagram, Arrival)>,
    /// Number of replies so far.
    heard: u32,
    /// True if one of them answered the request.
    answered: bool,
}

impl Daemon {
    /// The socket of that request of the source's, if it is open.
    fn link(&mut self, source: usize, request: u64) -> Option<&mut Link> {
        self.links.get_mut(source)?.iter_mut().find(|link| link.request == request)
    }

    /// Source that a server is.
    fn source_of(&self, server: usize) -> SourceId {
        let member = self.members.as_ref().and_then(|members| *members.get(server)?);
        member.unwrap_or(SourceId(server as u32))
    }

    /// Server that a source is.
    fn server_of(&self, source: SourceId) -> usize {
        match &self.members {
            Some(members) => members.iter().position(|m| *m == Some(source)).unwrap_or(usize::MAX),
            None => source.0 as usize,
        }
    }

    /// The source asks the server at that address from now on.
    fn asks(&mut self, source: SourceId, to: &SocketAddr) {
        let server = server_at(to);
        if let Some(place) = self.members.as_mut().and_then(|members| members.get_mut(server)) {
            *place = Some(source);
        }
    }

    /// Opens the socket of the source's newest request, and closes those whose replies would be too late.
    fn open(&mut self, source: SourceId, link: Link) {
        let waiting = self.engine.waiting(source);
        let server = self.server_of(source);
        let Some(links) = self.links.get_mut(server) else { return };
        links.push_back(link);
        links.drain(..links.len().saturating_sub(waiting.max(1)));
    }
}

/// A reply on its way, with all that is known of its request.
#[derive(Clone, Debug)]
pub(super) struct Datagram {
    pub(super) source: usize,
    machine: usize,
    number: u64,
    pub(super) answered: Answered,
    /// True delays there and back, s.
    delays: (f64, f64),
}

/// Reception of a reply by the engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    pub(super) received: Stamp,
    /// The true time that the stamp's count is of.
    pub(super) stamped: f64,
}

impl Datagram {
    /// The answer to a request that came to the server at `received` and comes back at `back`.
    pub(super) fn new(
        request: &Request,
        answered: &Answered,
        received: f64,
        back: f64,
    ) -> Datagram {
        Datagram {
            source: request.source,
            machine: request.machine,
            number: request.number,
            answered: answered.clone(),
            delays: (received - request.departure.wire, back - answered.left),
        }
    }
}

/// The address of a machine of the server of this number.
pub(super) fn address(source: usize, machine: usize) -> SocketAddr {
    let byte = |number: usize| u8::try_from(number).unwrap_or(u8::MAX);
    SocketAddr::from(([192, 0, byte(2 + machine), byte(source + 1)], truechimer_engine::NTP_PORT))
}

/// Number of the server that has this address.
fn server_at(address: &SocketAddr) -> usize {
    match address {
        SocketAddr::V4(v4) => usize::from(v4.ip().octets()[3]).wrapping_sub(1),
        SocketAddr::V6(_) => usize::MAX,
    }
}

/// Which machine of a server has this address.
fn machine_at(address: &SocketAddr) -> usize {
    match address {
        SocketAddr::V4(v4) => usize::from(v4.ip().octets()[2]).wrapping_sub(2),
        SocketAddr::V6(_) => usize::MAX,
    }
}

impl World<'_> {
    /// A daemon starts.
    pub(super) fn begin(&mut self, t: f64, restart: Option<Restart>) {
        if self.daemon.is_some() {
            return;
        }
        self.lives += 1;
        let mut random = Random::new(self.options.seed, &format!("engine {}", self.lives));
        let mut seed = [0; 32];
        for bytes in seed.chunks_mut(8) {
            bytes.copy_from_slice(&random.bits().to_le_bytes());
        }
        let (counter, warm) = self.continued(t);
        let truth =
            self.truth.leaps.advanced(self.truth.origin + truechimer_feedforward::number::span(t));
        let sources = self.scenario.servers.len();
        let start = Start {
            leaps: self.scenario.known_leaps(truth),
            warm,
            saved: self.saved.take().filter(|_| restart.is_some_and(|r| r.saved_rate)),
            ..Start::new(self.host.count(t), counter, self.host.nominal(), seed)
        };
        let (engine, actions) =
            Engine::with_method(self.config.clone(), start, self.options.estimator.method());
        self.daemon = Some(Daemon {
            engine,
            life: self.lives,
            members: self.scenario.pool.map(|_| vec![None; sources]),
            links: (0..sources).map(|_| VecDeque::new()).collect(),
            events: VecDeque::new(),
            checked: None,
            alarm: 0,
            accepted: vec![0; sources + self.scenario.pulses.len()],
            watched: vec![false; self.scenario.pulses.len()],
        });
        self.act(t, actions);
        self.turn(t);
    }

    /// The identity of the counter, and the hand to go on from, if there is one.
    fn continued(&mut self, t: f64) -> (CounterId, Option<Hand>) {
        let kind = CounterKind::Simulated;
        let Some((hand, then)) = self.reader.page() else {
            let epoch = Epoch(u32::try_from(self.lives).unwrap_or(u32::MAX));
            return (CounterId { kind, boot: BOOT, epoch }, None);
        };
        let now = self.host.made(t);
        let passed = Passed::new(
            hand.period,
            now.count - then.count,
            [then.raw_ns, now.raw_ns],
            [then.suspended_ns, now.suspended_ns],
        );
        if passed.broken(&CONTINUITY).is_none() {
            return (hand.counter, Some(hand));
        }
        let epoch = Epoch(hand.counter.epoch.0.wrapping_add(1));
        (CounterId { epoch, ..hand.counter }, None)
    }

    /// The daemon ends.
    pub(super) fn stop(&mut self, t: f64, restart: Option<Restart>) {
        let count = self.host.count(t);
        let Some(mut daemon) = self.daemon.take() else { return };
        self.saved = daemon.engine.saved(count);
        for action in daemon.engine.handle(count, Event::Stop) {
            if let Action::Steer(steer) = action {
                self.steer(t, steer);
            }
        }
        self.reader.end();
        if restart.is_some_and(|restart| !restart.warm) {
            self.reader.clear();
        }
        self.note(t, Level::Info, "the daemon ends".to_owned());
    }

    /// The configuration is read again.
    pub(super) fn configure(&mut self, t: f64) {
        let config = self.config.clone();
        self.handle(t, Event::Configure(config));
        self.drain(t);
        self.set_alarm(t);
    }

    /// A look-up has an answer.
    pub(super) fn resolved(&mut self, t: f64, life: u64, source: u32) {
        let result = self.looked_up(t - self.scenario.resolve.takes_s, source);
        let Some(daemon) = self.daemon.as_mut().filter(|daemon| daemon.life == life) else {
            return;
        };
        daemon.events.push_back(Event::Resolved { source: SourceId(source), result });
        self.drain(t);
        self.set_alarm(t);
    }

    /// A reply arrives at the host.
    pub(super) fn receive(&mut self, t: f64, datagram: Datagram) {
        let Some(daemon) = &mut self.daemon else { return };
        // The socket of an older request is closed.
        let Some(link) = daemon.link(datagram.source, datagram.number) else { return };
        let arrival = self.host.receive(datagram.number, link.heard > 0, t);
        link.heard += 1;
        link.inbox.push_back((datagram, arrival));
        self.queue.push(arrival.woken, Happening::Wake(None));
    }

    /// An edge is there to be seen.
    pub(super) fn edge(&mut self, t: f64, pulse: usize, edge: PulseEdge) {
        let watched = self.daemon.as_ref().and_then(|daemon| daemon.watched.get(pulse));
        if watched != Some(&true) {
            return;
        }
        self.check(t);
        let stamp = self.host.edge(edge.stamped, edge.noise, edge.stated(t));
        let source = self.servers.len() + pulse;
        let id = SourceId(source as u32);
        let (sequence, shown) = (edge.sequence, Shown::PULSE);
        self.handle(t, Event::Sample { source: id, sequence, stamp: Ok(stamp), shown });
        self.keep_edge(t, source, &edge, stamp);
        self.drain(t);
        self.set_alarm(t);
    }

    /// Keeps an edge for the trace, as an exchange that takes as long as it may have been late.
    fn keep_edge(&mut self, t: f64, source: usize, edge: &PulseEdge, stamp: Stamp) {
        let Some((said, used)) = self.reported(t, source) else { return };
        let Some(daemon) = &self.daemon else { return };
        let hand = daemon.engine.hand();
        let Some(latency) = said.rtt.filter(|_| hand.status.bound_holds()) else { return };
        let time = hand.time_at(stamp.count);
        let second = (time + Span::from_millis(500)).secs();
        let backward = time - truechimer_time::Instant::new(second, 0);
        self.keep_one(edge.stamped, source, &said, used, latency, [latency - backward, backward]);
    }

    /// Report of a source, and whether the daemon has used something of it since the last one.
    pub(super) fn reported(&mut self, t: f64, source: usize) -> Option<(SourceReport, bool)> {
        let count = self.host.count(t);
        let daemon = self.daemon.as_mut()?;
        let said = daemon.engine.source_report(SourceId(source as u32), count)?;
        let accepted = daemon.accepted.get_mut(source)?;
        let used = said.accepted > std::mem::replace(accepted, said.accepted);
        Some((said, used))
    }

    /// Keeps an exchange for the trace: its round trip, and its delays forward and backward.
    pub(super) fn keep_one(
        &mut self,
        at: f64,
        source: usize,
        said: &SourceReport,
        used: bool,
        rtt: Span,
        delays: [Span; 2],
    ) {
        let [forward, backward] = delays.map(seconds);
        self.trace.exchanges.push(Exchanged {
            at,
            source,
            rtt: seconds(rtt),
            floor: seconds(said.rtt_floor.unwrap_or(rtt)),
            forward,
            backward,
            true_delays: None,
            used,
            selected: said.status == SourceStatus::Selected,
        });
    }

    /// The daemon wakes up: because of its alarm of that number, or of a packet.
    pub(super) fn wake(&mut self, t: f64, alarm: Option<u64>) {
        let current = self.daemon.as_ref().map(|daemon| daemon.alarm);
        if current.is_some() && (alarm.is_none() || alarm == current) {
            self.turn(t);
        }
    }

    /// Everything that is to be done at `t`.
    fn turn(&mut self, t: f64) {
        loop {
            let replies = self.replies(t);
            let count = self.host.count(t);
            if !replies.is_empty() || self.is_check_due(count) {
                self.check(t);
            }
            let more = !replies.is_empty();
            for (datagram, arrival) in replies {
                self.hear(t, datagram, arrival);
            }
            self.drain(t);
            let count = self.host.count(t);
            let due = self.daemon.as_ref().and_then(|daemon| daemon.engine.next_deadline());
            if due.is_some_and(|due| count.at_or_after(due)) {
                self.handle(t, Event::Timer);
                self.drain(t);
            }
            if !more {
                break;
            }
        }
        self.set_alarm(t);
    }

    /// One datagram from each socket that has one.
    fn replies(&mut self, t: f64) -> Vec<(Datagram, Arrival)> {
        let Some(daemon) = &mut self.daemon else { return Vec::new() };
        let links = daemon.links.iter_mut().flatten();
        links
            .filter_map(|link| {
                let (_, arrival) = link.inbox.front()?;
                if arrival.stamped.max(arrival.passed) <= t { link.inbox.pop_front() } else { None }
            })
            .collect()
    }

    fn is_check_due(&self, now: Count) -> bool {
        let checked = self.daemon.as_ref().and_then(|daemon| daemon.checked);
        checked.is_none_or(|last| {
            let due = last + self.host.nominal().counts(CHECK);
            !now.at_or_after(last) || now.at_or_after(due)
        })
    }

    pub(super) fn check(&mut self, t: f64) {
        let check = self.host.check(t);
        self.handle(t, Event::Check(check));
        if let Some(daemon) = &mut self.daemon {
            daemon.checked = Some(check.count);
        }
        self.reader.heartbeat(check.count);
        if let Some(system) = &mut self.system {
            let reading = system.read(t, &mut self.host);
            self.handle(t, Event::SystemClock(reading));
        }
    }

    /// Fixes when the daemon wakes up next if nothing else happens.
    pub(super) fn set_alarm(&mut self, t: f64) {
        let Some(daemon) = &mut self.daemon else { return };
        daemon.alarm += 1;
        let alarm = daemon.alarm;
        let check = daemon.checked.map(|last| last + self.host.nominal().counts(CHECK));
        let deadline = daemon.engine.next_deadline();
        let mut at = t + LONGEST_WAIT;
        for due in [check, deadline].into_iter().flatten() {
            at = at.min(self.host.time_of(due, t) - EARLY);
        }
        let at = self.host.wakes_at(at.max(t.next_up()));
        self.queue.push(at, Happening::Wake(Some(alarm)));
    }

    pub(super) fn drain(&mut self, t: f64) {
        while let Some(event) = self.daemon.as_mut().and_then(|daemon| daemon.events.pop_front()) {
            self.handle(t, event);
        }
    }

    pub(super) fn handle(&mut self, t: f64, event: Event) {
        let count = self.host.count(t);
        let Some(daemon) = &mut self.daemon else { return };
        let actions = daemon.engine.handle(count, event);
        self.act(t, actions);
    }

    fn act(&mut self, t: f64, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Resolve { source, host, .. } => self.resolve(t, source, &host),
                Action::Send { source, to, packet, .. } => self.send(t, source, &to, &packet),
                Action::Watch { source, .. } => self.watch(source, true),
                Action::Ptp(PtpAction::Ask { source, packet, .. }) => self.ask(t, source, packet),
                // Each port hears its master all the time, and all is multicast.
                Action::Ptp(_) => {}
                Action::Close { source } => {
                    self.watch(source, false);
                    let Some(daemon) = &mut self.daemon else { continue };
                    let server = daemon.server_of(source);
                    if let Some(links) = daemon.links.get_mut(server) {
                        links.clear();
                    }
                }
                Action::Publish(hand) => {
                    let made = self.host.made(t);
                    self.reader.publish(hand, made);
                    let daemon = self.daemon.as_ref();
                    self.reader.deviate(daemon.and_then(|d| d.engine.difference_deviation()));
                }
                Action::Steer(steer) => self.steer(t, steer),
                Action::Note { level, text } => self.note(t, level, text),
            }
        }
    }

    fn steer(&mut self, t: f64, steer: Steer) {
        if let Some(system) = &mut self.system {
            system.steer(t, steer, &mut self.host);
        }
    }

    fn watch(&mut self, source: SourceId, open: bool) {
        let pulse = (source.0 as usize).checked_sub(self.servers.len());
        let watched = self.daemon.as_mut().map(|daemon| &mut daemon.watched);
        if let Some(place) = pulse.and_then(|pulse| watched?.get_mut(pulse)) {
            *place = open;
        }
    }

    /// Result of a look-up that begins at `t`.
    fn looked_up(&self, t: f64, source: u32) -> Result<Vec<SocketAddr>, String> {
        if t < self.scenario.resolve.fails_until_s {
            return Err("the look-up failed".to_owned());
        }
        let (source, servers) = (source as usize, &self.scenario.servers);
        if self.scenario.pool.is_some() {
            return Ok((0..servers.len()).map(|server| address(server, 0)).collect());
        }
        let other = servers.get(source).and_then(|server| server.led_to(t));
        if let Some(other) = other.and_then(|name| servers.iter().position(|s| s.name == name)) {
            return Ok(vec![address(other, 0)]);
        }
        let machines = servers.get(source).map(|server| server.looked_up(t));
        Ok(machines.unwrap_or_default().into_iter().map(|m| address(source, m)).collect())
    }

    fn resolve(&mut self, t: f64, source: SourceId, host: &str) {
        let life = self.lives;
        let resolve = self.scenario.resolve;
        // A server of a pool, whose address the engine knows.
        let its = host.parse().ok().filter(|_| self.scenario.pool.is_some());
        if let (Some(ip), Some(daemon)) = (its, &mut self.daemon) {
            let result = Ok(vec![SocketAddr::new(ip, truechimer_engine::NTP_PORT)]);
            daemon.events.push_back(Event::Resolved { source, result });
            return;
        }
        if resolve.takes_s > 0.0 {
            let source = source.0;
            self.queue.push(t + resolve.takes_s, Happening::Resolved { life, source });
            return;
        }
        let result = self.looked_up(t, source.0);
        if let Some(daemon) = &mut self.daemon {
            daemon.events.push_back(Event::Resolved { source, result });
        }
    }

    /// Sends a request from a socket of its own.
    fn send(&mut self, t: f64, source: SourceId, to: &SocketAddr, packet: &[u8]) {
        let number = self.requests;
        self.requests += 1;
        let departure = self.host.send(number, t);
        self.first_request.get_or_insert(departure.wire);
        let link =
            Link { request: number, departure, inbox: VecDeque::new(), heard: 0, answered: false };
        let Some(daemon) = &mut self.daemon else { return };
        daemon.asks(source, to);
        daemon.open(source, link);
        let (source, machine) = (daemon.server_of(source), machine_at(to));
        // Another server's, which knows no keys of this one.
        if *to != address(source, machine) {
            return;
        }
        let Some(packet) = packet.first_chunk::<HEADER_LEN>().copied() else { return };
        let machines = self.servers.get_mut(source);
        let Some(server) = machines.and_then(|m| m.get_mut(machine)) else { return };
        for at in server.forward.pass(departure.wire).arrivals() {
            let request = Request { source, machine, number, departure, packet };
            self.queue.push(at, Happening::Request(request));
        }
    }

    /// Tells the engine of a reply, and keeps what came of it.
    fn hear(&mut self, t: f64, datagram: Datagram, arrival: Arrival) {
        let source = datagram.source;
        let daemon = self.daemon.as_mut();
        // It may have been closed by what the engine did about another reply.
        let Some(link) = daemon.and_then(|d| d.link(source, datagram.number)) else { return };
        let departure = link.departure;
        let proof = self.scenario.servers.get(source).is_some_and(|server| server.proof);
        let by = datagram.answered.by;
        let answers = by == Sender::Server || by == Sender::Forger && !proof;
        let first = answers && !link.answered;
        link.answered |= answers;
        let before = self.reader.page().map(|(hand, _)| hand).filter(|h| h.status.bound_holds());
        let received = as_heard(&arrival, &departure);
        let id = self.daemon.as_ref().map_or(SourceId(0), |daemon| daemon.source_of(source));
        let from = address(source, datagram.machine);
        let event = if proof && matches!(by, Sender::Forger | Sender::Guesser) {
            Event::Unauthentic { source: id, error: "a reply that is not protected".to_owned() }
        } else {
            let packet = datagram.answered.packet.to_vec();
            Event::Reply { source: id, from, sent: departure.stamp, received, packet }
        };
        self.handle(t, event);
        let kiss = Packet::decode(&datagram.answered.packet).is_some_and(|(p, _)| p.stratum == 0);
        if first && (datagram.answered.claims || !kiss) {
            let heard = Heard { received, stamped: arrival.stamped };
            self.keep(t, &datagram, &departure, &heard, before);
        }
        self.adapt(t, source);
    }

    /// Keeps an exchange for the trace and the stamp file.
    fn keep(
        &mut self,
        t: f64,
        datagram: &Datagram,
        departure: &Departure,
        heard: &Heard,
        before: Option<Hand>,
    ) {
        let source = datagram.source;
        let count = self.host.count(t);
        let Some(daemon) = &mut self.daemon else { return };
        let report = daemon.engine.report(count);
        let is_pool = daemon.members.is_some();
        let number = |(place, said): (usize, &SourceReport)| {
            if is_pool { said.address.as_ref().map_or(usize::MAX, server_at) } else { place }
        };
        for (place, said) in report.sources.iter().enumerate() {
            let source = number((place, said));
            let last = self.marks.iter().rfind(|mark| mark.source == source);
            if last.is_none_or(|last| last.status != said.status) {
                self.marks.push(Marked { at: t, source, status: said.status });
            }
        }
        let mut rows = report.sources.iter().enumerate();
        let Some((_, said)) = rows.find(|row| number(*row) == source) else { return };
        let Some(accepted) = daemon.accepted.get_mut(source) else { return };
        let used = said.accepted > std::mem::replace(accepted, said.accepted);
        let answered = &datagram.answered;
        let residence = answered.sent_stamp - answered.received_stamp;
        let nominal = self.host.nominal();
        let rtt = nominal.span(heard.received.count - departure.stamp.count) - residence;
        let hand = before.or(report.hand.filter(|hand| hand.status.bound_holds()));
        // Before there is any clock, half of the round trip is as much as anybody can tell.
        let (forward, backward) = hand.map_or((rtt.half(), rtt.half()), |hand| {
            let there = answered.received_stamp - hand.time_at(departure.stamp.count);
            (there, hand.time_at(heard.received.count) - answered.sent_stamp)
        });
        self.trace.exchanges.push(Exchanged {
            at: heard.stamped,
            source,
            rtt: seconds(rtt),
            floor: seconds(said.rtt_floor.unwrap_or(rtt)),
            forward: seconds(forward),
            backward: seconds(backward),
            true_delays: Some(datagram.delays),
            used,
            selected: said.status == SourceStatus::Selected,
        });
        if answered.claims {
            self.keep_stamps(datagram, departure, heard);
        }
    }

    /// The poll interval, where it is the estimator's to choose.
    fn adapt(&mut self, t: f64, source: usize) {
        let Some([low, high]) = self.scenario.adaptive else { return };
        let mut changed = false;
        if let Some(plan) = &self.options.poll_plan {
            while let Some(planned) = plan.0.get(self.carried_out).filter(|p| p.at <= t) {
                self.carried_out += 1;
                changed |= self.set_poll(*planned);
            }
        } else {
            let id = SourceId(source as u32);
            let estimator = self.daemon.as_ref().and_then(|daemon| daemon.engine.estimator(id));
            let advice = estimator.and_then(|e| self.options.estimator.poll_advice(e));
            if let Some(poll) = advice {
                changed = self.set_poll(Planned { at: t, source, poll: poll.clamp(low, high) });
            }
        }
        if changed {
            let config = self.config.clone();
            self.handle(t, Event::Configure(config));
        }
    }

    /// Sets a source's poll interval as planned; true if that is a change.
    fn set_poll(&mut self, planned: Planned) -> bool {
        let Some(source) = self.config.sources.get_mut(planned.source) else { return false };
        let changed = source.poll != planned.poll;
        if changed {
            source.poll = planned.poll;
            self.plan.0.push(planned);
        }
        changed
    }
}
