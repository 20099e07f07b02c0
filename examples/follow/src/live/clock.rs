//! The engine, what happens to it, and what it wants done.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use truechimer_engine::{
    Action, Config, Engine, Event, RefClockConfig, Shown, SourceConfig, SourceId, Start,
};
use truechimer_ntp::HEADER_LEN;
use truechimer_time::{
    BootId, Count, CountSpan, CounterId, CounterKind, Epoch, Instant, Period, Span, Stamp,
    StampMethod,
};

use crate::Arguments;
use crate::counter;
use crate::heap::HEAP;
use crate::machine::say;
use crate::network::{DATAGRAM, Datagram, Network};
use crate::serial::Mark;

/// The clock of the machine.
pub struct Clock {
    engine: Engine,
    network: Network,
    server: SourceId,
    pulse: Option<SourceId>,
    reply: Event,
    actions: Vec<Action>,
    replies: u32,
    allocating: u32,
}

impl Clock {
    /// Starts it.
    pub fn start(network: Network, arguments: &Arguments) -> Clock {
        let at = counter::now();
        let (engine, actions) = Engine::new(config(arguments), start(at, arguments.seed));
        let mut clock = Clock {
            engine,
            network,
            server: SourceId(0),
            pulse: None,
            reply: Event::Reply {
                source: SourceId(0),
                from: arguments.server,
                sent: stamp(at),
                received: stamp(at),
                packet: Vec::with_capacity(DATAGRAM),
            },
            actions: Vec::new(),
            replies: 0,
            allocating: 0,
        };
        clock.carry_out(actions);
        clock
    }

    /// Takes in what came, and does what is due.
    pub fn run(&mut self) {
        self.network.poll();
        let mut bytes = [0; DATAGRAM];
        while let Some(datagram) = self.network.receive(&mut bytes) {
            self.replied(&datagram, &bytes[..datagram.length]);
        }
        let now = counter::now();
        if self.engine.next_deadline().is_some_and(|due| now.at_or_after(due)) {
            self.give(&Event::Timer);
        }
    }

    fn replied(&mut self, datagram: &Datagram, bytes: &[u8]) {
        let mut reply = core::mem::replace(&mut self.reply, Event::Timer);
        if let Event::Reply { source, from, sent, received, packet } = &mut reply {
            (*source, *from) = (self.server, datagram.from);
            (*sent, *received) = (stamp(datagram.sent), stamp(datagram.received));
            packet.clear();
            packet.extend_from_slice(bytes);
        }
        let given = HEAP.given();
        self.give(&reply);
        self.replies += 1;
        self.allocating += u32::from(HEAP.given() != given);
        self.reply = reply;
    }

    /// A pulse came.
    pub fn pulse(&mut self, mark: Mark) {
        let Some(source) = self.pulse else { return };
        let (sequence, stamp) = (mark.sequence.into(), Ok(stamp(mark.count)));
        self.give(&Event::Sample { source, sequence, stamp, shown: Shown::PULSE });
    }

    fn give(&mut self, event: &Event) {
        let mut actions = core::mem::take(&mut self.actions);
        self.engine.handle_into(counter::now(), event, &mut actions);
        self.carry_out(actions);
    }

    fn carry_out(&mut self, mut actions: Vec<Action>) {
        for action in actions.drain(..) {
            match action {
                Action::Resolve { source, host, port, .. } => {
                    let address = host.parse::<IpAddr>();
                    let result = address.map(|address| vec![SocketAddr::new(address, port)]);
                    let result = result.map_err(|_| "only addresses are known here".into());
                    self.give(&Event::Resolved { source, result });
                }
                Action::Send { source, to, packet, .. } => self.send(source, to, &packet),
                Action::Watch { source, .. } => self.pulse = Some(source),
                Action::Note { text, .. } => say(format_args!("{text}")),
                // The hand in force is the engine's own; there is no other clock to steer.
                _ => {}
            }
        }
        self.actions = actions;
    }

    fn send(&mut self, source: SourceId, to: SocketAddr, packet: &[u8; HEADER_LEN]) {
        self.server = source;
        if let Err(error) = self.network.send(to, packet) {
            self.give(&Event::Undelivered { source, error: error.into() });
        }
    }

    /// Says between which times a count was, as Unix time in ns.
    pub fn tell_time(&self, at: Count) {
        let hand = self.engine.hand();
        if !hand.status.bound_holds() || at.at_or_after(hand.void_after) {
            say(format_args!("at {} {}", at.0, hand.status.name()));
            return;
        }
        let (best, [before, after]) = (hand.time_at(at), hand.reach_at(at));
        let unix = |time: Instant| hand.leaps.utc(time).unix_nanos();
        let [earliest, best, latest] = [best - before, best, best + after].map(unix);
        let status = hand.status.name();
        say(format_args!("at {} earliest {earliest} best {best} latest {latest} {status}", at.0));
    }

    /// Says what each source has come to, and what replies took.
    pub fn tell_sources(&self) {
        let report = self.engine.report(counter::now());
        for source in report.sources {
            let ns = |span: Option<Span>| span.map_or(0, |span| span.as_nanos_up());
            let (status, reach) = (source.status.name(), source.reach);
            let (floor, root) = (ns(source.rtt_floor), ns(source.root_distance));
            say(format_args!(
                "source {} {status} used {} of {} reach {reach:#x} floor {floor} root {root}",
                source.name, source.accepted, source.requests
            ));
        }
        let (replies, allocating, most) = (self.replies, self.allocating, HEAP.most());
        say(format_args!(
            "{replies} replies, {allocating} of them took from the heap: {most} bytes at most"
        ));
    }
}

fn config(arguments: &Arguments) -> Config {
    let Arguments { server, poll, latency, .. } = *arguments;
    let source =
        SourceConfig { port: server.port(), poll, ..SourceConfig::new(format!("{}", server.ip())) };
    let pulse = RefClockConfig { error: latency, ..RefClockConfig::pulse("pulse") };
    Config { sources: vec![source], refclocks: vec![pulse], ..Config::default() }
}

fn start(at: Count, seed: u64) -> Start {
    let mut seeds = [0; 32];
    seeds[..8].copy_from_slice(&seed.to_le_bytes());
    // There is no kind of its own for the board's counter, and nobody else to tell it from.
    let counter =
        CounterId { kind: CounterKind::Simulated, boot: BootId::default(), epoch: Epoch(1) };
    Start::new(at, counter, Period::from_hz(counter::HZ), seeds)
}

/// A stamp of ours: before what leaves, after what comes, and a count is as fine as the counter gets.
fn stamp(count: Count) -> Stamp {
    Stamp { count, error: CountSpan(1), method: StampMethod::Kernel }
}
