//! The engine of the daemon in a made-up world: virtual time, and the truth at hand.
//!
//! The engine is the very one that the daemon runs. It gets its events as the daemon would feed
//! them to it, and what it wants done is done: requests travel, servers answer real NTP packets,
//! replies come back to the socket of the newest request only. What happens is decided by the
//! scenario and the seed alone; two estimators under one seed see identical packets (where the
//! poll interval is the estimator's to choose, the second one has to be given the first one's
//! [`PollPlan`]).

mod daemon;
mod master;
mod queue;
mod reader;

use truechimer_engine::{
    Authentication, Config, DEFAULT_STEP_ABOVE, Saved, SourceConfig, SourceStatus,
};
use truechimer_estimators::{Kind, NTP_PLL};
use truechimer_ntp::HEADER_LEN;
use truechimer_time::{Instant, Period, Rate, Span};

use crate::host::{Departure, Host};
use crate::pps::{Pulse, PulseEdge};
use crate::scenario::{Scenario, ScenarioError};
use crate::server::{Answered, Server};
use crate::stamps::{Declared, Reference, Stamped};
use crate::system_clock::{SystemClock, SystemClockSpec};
use daemon::{Daemon, Datagram};
use queue::Queue;
use reader::{Reader, Truth};
use truechimer_feedforward::number::span;
use truechimer_trace::{Noted, Trace};

/// When in each second of true time the clock is read.
const READ_AT: f64 = 0.5;
/// Error of the counter's rate as known before it is measured.
pub(crate) const NOMINAL_ERROR: Rate = Rate::from_ppb(500_000);

/// Settings of a run of a scenario.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Options {
    /// With which estimator.
    pub estimator: Kind,
    /// Everything random comes from this.
    pub seed: u64,
    /// The poll intervals to go by where the scenario leaves them to the estimator.
    pub poll_plan: Option<PollPlan>,
}

/// Poll intervals that an estimator chose, in the order of time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PollPlan(pub Vec<Planned>);

/// A change of a poll interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Planned {
    /// When, s since the start of the run.
    pub at: f64,
    /// Of which source.
    pub source: usize,
    /// Seconds between requests from then on.
    pub poll: u32,
}

/// Result of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// The clock, with the truth beside it.
    pub trace: Trace,
    /// The exchanges as a stamp file has them, one list for each source.
    pub stamps: Vec<Vec<Stamped>>,
    /// Declarations of all of these, for each source: the largest errors that were stated.
    pub declared: Vec<Declared>,
    /// The poll intervals that were chosen, where they were the estimator's to choose.
    pub poll_plan: PollPlan,
    /// Which of the servers were honest in each of their replies.
    pub honest: Vec<bool>,
    /// Statuses that the sources were taken for, oldest first.
    pub marks: Vec<Marked>,
}

/// A source is taken for something else from now on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Marked {
    /// Since when, s since the first request.
    pub at: f64,
    /// Which source.
    pub source: usize,
    /// Status that it is taken for now.
    pub status: SourceStatus,
}

/// Runs a scenario.
///
/// # Errors
/// If it makes no sense: see [`Scenario::check`].
pub fn simulate(scenario: &Scenario, options: &Options) -> Result<Run, ScenarioError> {
    scenario.check()?;
    scenario.check_pool()?;
    let mut world = World::new(scenario, options);
    world.run();
    Ok(world.result())
}

/// Runs a scenario so that every estimator sees the same packets: where the poll interval is the
/// estimator's to choose, the loop of RFC 5905 chooses it for all.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_alike(
    scenario: &Scenario,
    estimator: Kind,
    seed: u64,
) -> Result<Run, ScenarioError> {
    let mut options = Options { estimator: NTP_PLL, seed, poll_plan: None };
    if scenario.adaptive.is_some() {
        options.poll_plan = Some(simulate(scenario, &options)?.poll_plan);
    }
    simulate(scenario, &Options { estimator, ..options })
}

/// Event that is going to happen.
#[derive(Debug)]
enum Happening {
    /// A program reads the clock.
    Reading,
    /// The daemon wakes up, unless it has been told since to wake up at another time.
    Wake(Option<u64>),
    /// A request arrives at a server.
    Request(Request),
    /// A reply arrives at the host.
    Reply(Datagram),
    /// The edge of this second of a pulse, if there is one.
    Second { pulse: usize, second: u64 },
    /// A PTP master says what time it is.
    Sync { source: usize, sequence: u16 },
    /// Something happens between a PTP master and its port.
    Ptp(master::Passing),
    /// An edge of a pulse is there to be seen.
    Edge { pulse: usize, edge: PulseEdge },
    /// A look-up has an answer, for the daemon of that number.
    Resolved { life: u64, source: u32 },
    /// The configuration changes: the change of this number.
    Change(usize),
    /// The daemon ends: the restart of this number.
    Stop(usize),
    /// The daemon begins.
    Begin(Option<usize>),
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
struct Request {
    source: usize,
    /// To which of its machines.
    machine: usize,
    number: u64,
    departure: Departure,
    packet: [u8; HEADER_LEN],
}

struct World<'s> {
    scenario: &'s Scenario,
    options: &'s Options,
    truth: Truth,
    end: f64,
    queue: Queue<Happening>,
    host: Host,
    system: Option<SystemClock>,
    /// The machines of each server: its own, and those at the other addresses of its name.
    servers: Vec<Vec<Server>>,
    pulses: Vec<Pulse>,
    config: Config,
    daemon: Option<Daemon>,
    /// Number of daemons so far.
    lives: u64,
    saved: Option<Saved>,
    reader: Reader,
    /// Number of requests so far, of all sources.
    requests: u64,
    first_request: Option<f64>,
    plan: PollPlan,
    /// Number of entries of the given plan that have been carried out.
    carried_out: usize,
    trace: Trace,
    stamps: Vec<Vec<Stamped>>,
    declared: Vec<Declared>,
    marks: Vec<Marked>,
}

impl<'s> World<'s> {
    fn new(scenario: &'s Scenario, options: &'s Options) -> World<'s> {
        let seed = options.seed;
        let machines = |(i, spec): (usize, &crate::server::ServerSpec)| -> Vec<Server> {
            let named =
                |k: usize| if k == 0 { format!("server {i}") } else { format!("server {i}.{k}") };
            let leap = scenario.leap_second();
            let machine = |(k, spec)| Server::new(spec, seed, &named(k), leap);
            spec.machines().enumerate().map(machine).collect()
        };
        let source = |spec: &crate::server::ServerSpec| match spec.ptp() {
            Some(ptp) => SourceConfig {
                asymmetry: spec.declared(),
                ptp: Some(ptp),
                ..SourceConfig::ptp(spec.name.clone())
            },
            None => SourceConfig {
                poll: spec.poll.unwrap_or(scenario.poll),
                burst: scenario.burst,
                asymmetry: spec.declared(),
                authentication: if spec.proof { Authentication::Nts } else { Authentication::None },
                ..SourceConfig::new(spec.name.clone())
            },
        };
        let pool = |size| SourceConfig {
            pool: Some(size),
            poll: scenario.poll,
            burst: scenario.burst,
            ..SourceConfig::pool("pool")
        };
        let sources = match scenario.pool {
            Some(size) => vec![pool(size)],
            None => scenario.servers.iter().map(source).collect(),
        };
        let pulse = |(i, spec): (usize, &crate::pps::PpsSpec)| {
            Pulse::new(spec, seed, &format!("pulse {i}"))
        };
        let mut poll_bounds = String::new();
        if let Some([low, high]) = scenario.adaptive {
            poll_bounds = format!("{low}–{high} s, adaptive");
        }
        let poll = format!("{} s", scenario.poll);
        let parameters = [
            ("hours", format!("{}", scenario.hours)),
            ("warm-up hours", format!("{}", scenario.warm_up_hours)),
            ("poll", if poll_bounds.is_empty() { poll } else { poll_bounds }),
            ("max-wander", format!("{} ppm", scenario.max_wander_ppm)),
            ("counter", format!("{} Hz", scenario.host.counter_hz)),
        ];
        World {
            truth: Truth { origin: Instant::new(scenario.origin(), 0), leaps: scenario.leaps() },
            end: scenario.hours * 3600.0,
            queue: Queue::new(),
            host: Host::new(&scenario.host, &scenario.oscillator, seed),
            servers: scenario.servers.iter().enumerate().map(machines).collect(),
            pulses: scenario.pulses.iter().enumerate().map(pulse).collect(),
            system: None,
            config: Config {
                sources,
                refclocks: scenario.pulses.iter().map(crate::pps::PpsSpec::config).collect(),
                max_wander: rate_of_ppm(scenario.max_wander_ppm),
                accept_step_after: truechimer_feedforward::number::span(
                    scenario.accept_step_after_s,
                ),
                max_step: Some(truechimer_feedforward::number::span(scenario.max_step_s)),
                min_sources: scenario.min_sources,
                authentication: scenario.authentication,
                likely_doubt: truechimer_feedforward::number::rate(
                    truechimer_feedforward::LIKELY_DOUBT,
                ),
                discipline: scenario.system_clock.is_some(),
                step: scenario.system_clock.as_ref().map_or_else(Default::default, |s| s.step),
                step_above: scenario
                    .system_clock
                    .as_ref()
                    .map_or(DEFAULT_STEP_ABOVE, SystemClockSpec::step_above),
            },
            daemon: None,
            lives: 0,
            saved: None,
            reader: Reader::new(),
            requests: 0,
            first_request: None,
            plan: PollPlan::default(),
            carried_out: 0,
            trace: Trace {
                title: scenario.name.clone(),
                about: scenario.about.clone(),
                estimator: options.estimator.name().to_owned(),
                seed: Some(seed),
                parameters: parameters.map(|(name, value)| (name.to_owned(), value)).to_vec(),
                warm_up: scenario.warm_up_hours * 3600.0,
                sources: (scenario.servers.iter().map(|s| s.name.clone()))
                    .chain(scenario.pulses.iter().map(|p| p.name.clone()))
                    .collect(),
                ..Trace::default()
            },
            stamps: vec![Vec::new(); scenario.servers.len()],
            declared: vec![
                Declared {
                    nominal_hz: Some(scenario.host.counter_hz),
                    ..Declared::default()
                };
                scenario.servers.len()
            ],
            marks: Vec::new(),
            scenario,
            options,
        }
    }

    fn run(&mut self) {
        let (seed, Truth { origin, leaps }) = (self.options.seed, self.truth);
        let spec = self.scenario.system_clock.as_ref();
        self.system = spec.map(|s| SystemClock::new(s, seed, origin, &leaps, &mut self.host));
        self.queue.push(0.0, Happening::Begin(None));
        self.queue.push(READ_AT, Happening::Reading);
        for (source, server) in self.scenario.servers.iter().enumerate() {
            if server.ptp_sync_s.is_some() {
                self.queue.push(0.0, Happening::Sync { source, sequence: 0 });
            }
        }
        for pulse in 0..self.pulses.len() {
            self.queue.push(READ_AT, Happening::Second { pulse, second: 1 });
        }
        for (i, change) in self.scenario.changes.iter().enumerate() {
            self.queue.push(change.at_s, Happening::Change(i));
        }
        for (i, restart) in self.scenario.restarts.iter().enumerate() {
            self.queue.push(restart.at_s, Happening::Stop(i));
            self.queue.push(restart.at_s + restart.gap_s, Happening::Begin(Some(i)));
        }
        while let Some((t, happening)) = self.queue.pop() {
            if t > self.end {
                break;
            }
            self.happen(t, happening);
        }
    }

    fn happen(&mut self, t: f64, happening: Happening) {
        let asleep = self.host.asleep_until(t);
        match happening {
            Happening::Reading => {
                self.queue.push(t + 1.0, Happening::Reading);
                if asleep.is_none() && self.first_request.is_some() {
                    let sample = self.reader.read(t, &self.truth, &mut self.host);
                    self.trace.samples.push(sample);
                    self.sample_system(t);
                }
            }
            Happening::Second { pulse, second } => self.second(t, pulse, second),
            // Nobody is there to stamp it.
            Happening::Edge { .. } if asleep.is_some() => {}
            Happening::Edge { pulse, edge } => self.edge(t, pulse, edge),
            Happening::Sync { source, sequence } => self.sync(t, source, sequence),
            // Nobody is there to stamp it.
            Happening::Ptp(passing) if asleep.is_some() && !passing.is_question() => {}
            Happening::Ptp(passing) => self.pass(t, passing),
            Happening::Request(request) => self.serve(t, request),
            // Nobody is there to stamp it.
            Happening::Reply(_) if asleep.is_some() => {}
            Happening::Reply(datagram) => self.receive(t, datagram),
            other => match asleep {
                Some(until) => self.queue.push(until, other),
                None => self.awake(t, other),
            },
        }
    }

    /// Does what only happens while the host is awake.
    fn awake(&mut self, t: f64, happening: Happening) {
        match happening {
            Happening::Begin(restart) => {
                let restart = restart.and_then(|i| self.scenario.restarts.get(i));
                self.begin(t, restart.copied());
            }
            Happening::Stop(restart) => {
                let restart = self.scenario.restarts.get(restart);
                self.stop(t, restart.copied());
            }
            Happening::Change(change) => {
                if let Some(change) = self.scenario.changes.get(change) {
                    if let Some(ppm) = change.max_wander_ppm {
                        self.config.max_wander = rate_of_ppm(ppm);
                    }
                    for source in &mut self.config.sources {
                        source.poll = change.poll.unwrap_or(source.poll);
                    }
                    self.configure(t);
                }
            }
            Happening::Wake(number) => self.wake(t, number),
            Happening::Resolved { life, source } => self.resolved(t, life, source),
            Happening::Reading
            | Happening::Request(_)
            | Happening::Reply(_)
            | Happening::Second { .. }
            | Happening::Sync { .. }
            | Happening::Ptp(_)
            | Happening::Edge { .. } => {}
        }
    }

    /// Looks at the system clock beside the published one.
    fn sample_system(&mut self, t: f64) {
        let Some(system) = &mut self.system else { return };
        let count = self.host.count(t);
        let hand = self.reader.page().map(|(hand, _)| hand);
        let ours = hand.filter(|hand| hand.status.bound_holds()).map(|hand| hand.time_at(count));
        let right = (self.truth.origin + span(t), &self.truth.leaps);
        self.trace.system.extend(system.sample(t, right, ours, &mut self.host));
    }

    /// Half a second before the next one begins: when the edge is looked for, if there is one.
    fn second(&mut self, t: f64, pulse: usize, second: u64) {
        self.queue.push(t + 1.0, Happening::Second { pulse, second: second + 1 });
        let Some(edge) = self.pulses.get_mut(pulse).and_then(|pulse| pulse.edge(second)) else {
            return;
        };
        let at = self.host.wakes_at(edge.looked.max(t));
        if self.host.asleep_until(edge.stamped).is_none() {
            self.queue.push(at, Happening::Edge { pulse, edge });
        }
    }

    /// A request arrives at its server.
    fn serve(&mut self, t: f64, request: Request) {
        let machines = self.servers.get_mut(request.source);
        let Some(server) = machines.and_then(|m| m.get_mut(request.machine)) else { return };
        let Truth { origin, leaps } = self.truth;
        let Some(answered) = server.answer(t, &request.packet, origin, &leaps) else { return };
        for interposed in server.interposed(t, &answered, origin, &leaps) {
            // Whoever is near the host, or quick.
            let at = interposed.left;
            self.queue.push(at, Happening::Reply(Datagram::new(&request, &interposed, t, at)));
        }
        for at in server.backward.pass(answered.left).arrivals() {
            self.queue.push(at, Happening::Reply(Datagram::new(&request, &answered, t, at)));
        }
    }

    fn note(&mut self, t: f64, level: truechimer_engine::Level, text: String) {
        self.trace.notes.push(Noted { at: t, level, text });
    }

    /// Keeps what a stamp file has of an exchange.
    fn keep_stamps(&mut self, datagram: &Datagram, departure: &Departure, heard: &daemon::Heard) {
        // Stamp files have Unix seconds without leaps: UTC as of the start goes on.
        let unix = |at: Instant| at - Span::from_secs(self.scenario.leaps().tai_offset.into());
        let instant = |t: f64| unix(self.truth.origin + span(t));
        let answered: &Answered = &datagram.answered;
        let stamped = Stamped {
            sent: departure.stamp.count,
            server_received: unix(answered.received_stamp),
            server_sent: unix(answered.sent_stamp),
            received: heard.received.count,
            reference: Some(Reference {
                sent: instant(departure.stamped),
                received: instant(heard.stamped),
            }),
        };
        if let Some(stamps) = self.stamps.get_mut(datagram.source) {
            stamps.push(stamped);
        }
        if let Some(declared) = self.declared.get_mut(datagram.source) {
            let period = Period::from_hz(self.scenario.host.counter_hz);
            let errors = [departure.stamp.error, heard.received.error].map(|e| period.span(e));
            let stated = errors.into_iter().chain(declared.stamp_error).max();
            declared.stamp_error = stated;
            declared.root_distance = declared.root_distance.max(Some(answered.distance));
        }
    }

    fn result(mut self) -> Run {
        let begun = self.first_request.unwrap_or(0.0);
        let trace = &mut self.trace;
        trace.begun = (self.truth.origin + span(begun)).secs();
        trace.samples.iter_mut().for_each(|sample| sample.at -= begun);
        trace.exchanges.iter_mut().for_each(|exchange| exchange.at -= begun);
        trace.notes.iter_mut().for_each(|note| note.at -= begun);
        self.marks.iter_mut().for_each(|mark| mark.at -= begun);
        trace.system.iter_mut().for_each(|sample| sample.at -= begun);
        let is_honest = |machines: &Vec<Server>| machines.iter().all(|machine| machine.honest);
        let honest: Vec<bool> = self.servers.iter().map(is_honest).collect();
        trace.honest = honest.iter().all(|honest| *honest);
        Run {
            trace: self.trace,
            stamps: self.stamps,
            declared: self.declared,
            poll_plan: self.plan,
            honest,
            marks: self.marks,
        }
    }
}

/// Parts per million as a rate.
fn rate_of_ppm(ppm: f64) -> Rate {
    Rate::from_ppb(libm::rint(ppm * 1000.0) as i64)
}
