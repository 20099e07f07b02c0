//! The engine itself: events to sources, sources to one published clock.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use truechimer_feedforward::{Accepted, Estimate, Exchange, RatePrior, Settings, TimePrior};
use truechimer_time::{Count, CounterId, Epoch, Instant, Leaps, Period, Rate, Span};
use truechimer_timehands::{Hand, Status};

use crate::config::Config;
use crate::disruption::Watch;
use crate::event::{Action, Event, HostCheck, Level, Saved, SourceId, Start, SystemReading};
use crate::leap::Announced;
use crate::prefer::{self, Preferred};
use crate::pulse::{Numbering, Pulse};
use crate::report::{Report, Selection, SourceReport};
use crate::source::{Basis, Heard, Source, skew};
use crate::steer::Servo;
use crate::voice::{self, Said, Voice};

/// A hand promises nothing after this long: four times the longest poll interval.
const VOID_AFTER: Span = Span::from_secs(4096);
/// Just past a deadline.
const MOMENT: Span = Span::from_millis(1);
/// What a saved rate may have lost since: ageing, temperature, and the hypervisor's or kernel's
/// own calibration at each boot.
const SAVED_RATE_LOSS: Rate = Rate::from_ppb(50_000);
/// An untended oscillator may stray by `max_wander` in every such span: half of the 2.8 hours that the
/// promise about it is over.
const STRAYS: Span = Span::from_secs(5040);
/// Only a rate known this well is worth saving.
const WORTH_SAVING: Rate = Rate::from_ppb(20_000);

/// The engine: what a clock does, without I/O.
///
/// It holds no socket, thread, clock or source of randomness. The caller feeds it [`Event`]s with
/// the count at which each was noticed, carries out the [`Action`]s it returns in their order, and
/// sends [`Event::Timer`] when [`Engine::next_deadline`] has come. The same start, configuration
/// and events give the same actions to the last bit.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    settings: Settings,
    rate_prior: RatePrior,
    /// What is known of the rate without having measured it.
    nominal: RatePrior,
    counter: CounterId,
    leaps: Leaps,
    announced: Announced,
    random: ChaCha20Rng,
    sources: Vec<Source>,
    pulses: Vec<Pulse>,
    next_id: u32,
    preferred: Preferred,
    watch: Watch,
    servo: Servo,
    hand: Hand,
    reason: String,
    renew_at: Option<Count>,
    last_at: Count,
}

impl Engine {
    /// Starts the engine; the actions are the first to carry out.
    #[must_use]
    pub fn new(config: Config, start: Start) -> (Engine, Vec<Action>) {
        let settings = Settings {
            nominal: start.nominal,
            resolution: start.resolution,
            max_wander: config.max_wander,
        };
        let warm = start.warm.filter(|w| w.status.bound_holds() && w.counter == start.counter);
        let nominal = RatePrior { period: start.nominal, error: start.nominal_error };
        let rate_prior = warm
            .map(|w| aged_rate(&w, &config, &start))
            .or_else(|| start.saved.as_ref().and_then(|s| trusted_rate(s, &start)))
            .unwrap_or(nominal);
        // A word that is too old to stand still tells the rate.
        let warm = warm.filter(|w| w.void_after.at_or_after(start.at));
        let hand = match warm {
            // The old word stands until there is a new one, but nobody tends it yet.
            Some(warm) => Hand { status: Status::Holdover, ..warm },
            None => unknown_hand(&start, rate_prior),
        };
        let mut engine = Engine {
            settings,
            rate_prior,
            nominal,
            counter: start.counter,
            leaps: start.leaps,
            announced: Announced::default(),
            random: ChaCha20Rng::from_seed(start.seed),
            sources: Vec::new(),
            pulses: Vec::new(),
            next_id: 0,
            preferred: Preferred::default(),
            watch: Watch::default(),
            servo: Servo::default(),
            reason: if warm.is_some() {
                "continuing the previous daemon's clock; waiting for a first reply".into()
            } else {
                "waiting for a first reply".into()
            },
            hand,
            renew_at: None,
            last_at: start.at,
            config: Config { sources: Vec::new(), pps: Vec::new(), ..config.clone() },
        };
        let time = warm.map(|w| TimePrior { count: w.base, time: w.time, bound: w.bound() });
        let mut actions = vec![Action::Publish(hand)];
        engine.configure(config, time, start.at, &mut actions);
        engine.act(start.at, &mut actions);
        (engine, actions)
    }

    /// Takes in an event that the caller noticed at count `at`, and says what to do about it.
    #[must_use]
    pub fn handle(&mut self, at: Count, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        let tells = matches!(event, Event::Check(_) | Event::Disruption { .. });
        if !tells && self.watch.is_before(at, self.settings.nominal) {
            self.disrupt("the counter went back".into(), at, &mut actions);
            self.watch = Watch::default();
        }
        self.last_at = at;
        let to_come = self.to_come(at);
        match event {
            Event::Timer => {}
            Event::Resolved { source, result } => {
                if let Some(source) = self.source(source) {
                    let name = source.name();
                    let failed = result.as_ref().err().cloned();
                    source.resolved(result, at);
                    if let Some(error) = failed {
                        note(&mut actions, Level::Warning, format!("{name}: {error}"));
                    }
                }
            }
            Event::Reply { source, from, sent, received, packet } => {
                let (leaps, known) = (self.leaps, self.hand.status.bound_holds());
                let about = known.then(|| self.hand.time_at(received.count));
                if let Some(source) = self.source(source) {
                    let heard = source.heard(from, sent, received, &packet, &leaps, about);
                    let name = source.name();
                    self.after_reply(&name, heard, at, &mut actions);
                }
            }
            Event::Undelivered { source, error } => {
                if let Some(source) = self.source(source)
                    && let Some(trouble) = source.undelivered(&error)
                {
                    let text = format!("{}: {trouble}", source.name());
                    note(&mut actions, Level::Warning, text);
                }
            }
            Event::Edge { source, sequence, stamp } => {
                let clock = stamp.as_ref().ok().and_then(|stamp| self.numbering(stamp.count));
                let rate = self.known_rate();
                if let Some(pulse) = self.pulse(source) {
                    let name = pulse.name();
                    let heard = pulse.edge(sequence, stamp, clock, rate, at);
                    self.after_reply(&name, heard, at, &mut actions);
                }
            }
            Event::PpsFailed { source, error } => {
                if let Some(pulse) = self.pulse(source)
                    && let Some(trouble) = pulse.failed(error, at)
                {
                    note(&mut actions, Level::Warning, format!("{}: {trouble}", pulse.name()));
                }
            }
            Event::Check(check) => self.check(check, at, &mut actions),
            Event::Disruption { reason } => {
                // Whoever knows that much knows that counts from before cannot be compared.
                self.watch = Watch::default();
                self.disrupt(reason, at, &mut actions);
            }
            Event::Configure(config) => self.configure(config, None, at, &mut actions),
            Event::Leaps(leaps) => self.learn_leaps(leaps, at, &mut actions),
            Event::SystemClock(reading) => self.steer(reading, &mut actions),
            Event::Stop => {
                // A slew that nobody ends would run on.
                actions.extend(self.servo.rest().map(Action::Steer));
                return actions;
            }
        }
        self.act(at, &mut actions);
        // Whoever has had its chance no longer keeps the others waiting.
        if self.to_come(at) < to_come && self.hand.base != at {
            self.publish(at, &mut actions);
        }
        self.renew(at, &mut actions);
        actions
    }

    /// When [`Event::Timer`] is wanted next, if ever.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Count> {
        let pulses = self.pulses.iter().map(Pulse::deadline);
        let servers = self.sources.iter().filter_map(Source::deadline);
        let deadlines = servers.chain(pulses).chain(self.renew_at);
        deadlines.min_by_key(|at| (*at - self.last_at).0)
    }

    /// What the engine knows, for `sources` and `status`.
    #[must_use]
    pub fn report(&self, now: Count) -> Report {
        let ours = self.hand.time_at(now);
        let known = self.hand.status != Status::Unknown;
        let measured = self.selected().and_then(|voice| voice.estimate(now));
        let offset = |e: &Option<Estimate>| e.as_ref().filter(|_| known).map(|e| ours - e.time);
        let servers = self.sources.iter().map(|source| {
            let estimate = source.estimate(now);
            source.report(now, estimate.as_ref(), offset(&estimate))
        });
        let pulses = self.pulses.iter().map(|pulse| {
            let estimate = pulse.estimate(now);
            pulse.report(now, estimate.as_ref(), offset(&estimate))
        });
        Report {
            at: now,
            hand: Some(self.hand),
            skew: measured.map(|e| skew(e.period, self.settings.nominal)),
            reason: self.reason.clone(),
            sources: servers.chain(pulses).collect(),
        }
    }

    /// What the engine knows of one source, if there is such a one.
    #[must_use]
    pub fn source_report(&self, id: SourceId, now: Count) -> Option<SourceReport> {
        let estimate = self.voices().find(|voice| voice.id() == id)?.estimate(now);
        let known = self.hand.status != Status::Unknown;
        let offset = estimate.filter(|_| known).map(|e| self.hand.time_at(now) - e.time);
        let server = self.sources.iter().find(|s| s.id == id);
        let pulse = self.pulses.iter().find(|p| p.id() == id);
        server
            .map(|server| server.report(now, estimate.as_ref(), offset))
            .or_else(|| Some(pulse?.report(now, estimate.as_ref(), offset)))
    }

    /// The last exchange with this source that was used.
    #[must_use]
    pub fn last_exchange(&self, id: SourceId) -> Option<&Exchange> {
        let pulse = self.pulses.iter().find(|p| p.id() == id);
        let server = self.sources.iter().find(|s| s.id == id);
        server.map_or_else(|| pulse?.last_exchange(), Source::last_exchange)
    }

    /// What is worth keeping across boots, if anything is.
    #[must_use]
    pub fn saved(&self, now: Count) -> Option<Saved> {
        let estimate = self.selected()?.estimate(now)?;
        (estimate.difference_error <= WORTH_SAVING).then(|| Saved {
            counter: self.counter.kind.name().to_owned(),
            nominal: self.settings.nominal,
            period: estimate.difference,
            error: estimate.difference_error,
            unix: self.leaps.utc(estimate.time).unix,
        })
    }

    /// The poll interval, s, that the estimator of this source would choose, if it has an opinion.
    #[must_use]
    pub fn poll_advice(&self, source: SourceId) -> Option<u32> {
        self.sources.iter().find(|s| s.id == source)?.poll_advice()
    }

    /// The hand in force.
    #[must_use]
    pub fn hand(&self) -> &Hand {
        &self.hand
    }

    fn source(&mut self, id: SourceId) -> Option<&mut Source> {
        self.sources.iter_mut().find(|s| s.id == id)
    }

    fn pulse(&mut self, id: SourceId) -> Option<&mut Pulse> {
        self.pulses.iter_mut().find(|p| p.id() == id)
    }

    /// All who say what time it is: servers first.
    fn voices(&self) -> impl Iterator<Item = &dyn Voice> {
        let servers = self.sources.iter().map(|source| source as &dyn Voice);
        servers.chain(self.pulses.iter().map(|pulse| pulse as &dyn Voice))
    }

    fn selected(&self) -> Option<&dyn Voice> {
        self.voices().find(|voice| voice.selection() == Selection::Selected)
    }

    /// Lets every source do what is due.
    fn act(&mut self, at: Count, actions: &mut Vec<Action>) {
        for source in &mut self.sources {
            // Moving on to another address or a look-up is a step of its own: a few at most.
            for _ in 0..4 {
                let due = source.deadline().is_some_and(|due| at.at_or_after(due));
                if !due {
                    break;
                }
                actions.extend(source.act(at, &mut || self.random.next_u64()));
            }
        }
        for pulse in &mut self.pulses {
            actions.extend(pulse.act(at));
        }
    }

    fn after_reply(&mut self, name: &str, heard: Heard, at: Count, actions: &mut Vec<Action>) {
        // A doubted exchange may have widened the bound; a refused datagram costs a count, no more.
        let republish = matches!(heard, Heard::Doubted(_)) && self.hand.status.bound_holds();
        match heard {
            Heard::Used(accepted) => {
                if let Accepted::Stepped(by) = accepted {
                    self.servo.interrupt();
                    note(
                        actions,
                        Level::Warning,
                        format!(
                            "{name}: its time moved by {by:+} and stayed there: taken for its time from now on"
                        ),
                    );
                }
                if let Accepted::Shifted(by) = accepted {
                    let text = format!("{name}: the path changed: round trips {by:+}");
                    note(actions, Level::Info, text);
                }
                self.publish(at, actions);
            }
            Heard::Refused(trouble) | Heard::Doubted(trouble) => {
                if let Some(trouble) = trouble {
                    note(actions, Level::Warning, format!("{name}: {trouble}"));
                }
                if republish {
                    self.publish(at, actions);
                }
            }
        }
    }

    /// Works out which sources agree, and publishes the best of them.
    fn publish(&mut self, at: Count, actions: &mut Vec<Action>) {
        let Some((index, estimate)) = self.select(at) else {
            return self.without_source(at, actions);
        };
        let Some(source) = self.voices().nth(index) else { return };
        let age = source.age(&estimate, at);
        let status = if age > source.patience() { Status::Holdover } else { Status::Synchronised };
        let reason = match (status, source.is_pulse()) {
            (Status::Synchronised, _) => format!("following {}", source.name()),
            (_, false) => format!("no usable reply from {} for {age}", source.name()),
            (_, true) => format!("no usable edge from {} for {age}", source.name()),
        };
        // Sooner if patience ends before, so that holdover is said when it begins.
        let patience = source.patience() - age;
        let renew = source.renew_after();
        self.reason = reason;
        let wait = if patience.is_negative() { renew } else { renew.min(patience + MOMENT) };
        self.renew_at = Some(at + estimate.period.counts(wait));
        self.leaps = self.leaps.advanced(estimate.time);
        let believed =
            |s: &&Source| matches!(s.selection, Selection::Truechimer | Selection::Selected);
        let indicators = self.sources.iter().filter(believed).filter_map(Source::leap);
        self.leaps = self.announced.heard(self.leaps, estimate.time, indicators);
        let before = self.hand.status;
        self.hand = Hand {
            counter: self.counter,
            base: estimate.base,
            time: estimate.time,
            period: estimate.period,
            difference: estimate.difference,
            difference_error: estimate.difference_error,
            path_bound: estimate.path_bound,
            statistical_bound: estimate.bound - estimate.path_bound,
            growth: estimate.growth,
            status,
            leaps: self.leaps,
            void_after: at + estimate.period.counts(VOID_AFTER),
        };
        self.announce(before, actions);
        actions.push(Action::Publish(self.hand));
    }

    /// No source is fit to follow: hold what was published last.
    fn without_source(&mut self, at: Count, actions: &mut Vec<Action>) {
        let usable = self.sources.iter().filter(|s| s.estimate(at).is_some()).count();
        self.reason = if self.to_come(at) > 0 {
            format!("{usable} of {} sources answered so far", self.sources.len())
        } else if usable > 0 {
            format!("{usable} sources and no majority of them agrees")
        } else {
            "no source has answered yet".into()
        };
        if self.hand.status == Status::Synchronised {
            let before = self.hand.status;
            self.hand.status = Status::Holdover;
            self.announce(before, actions);
            actions.push(Action::Publish(self.hand));
        }
        self.renew_at = None;
    }

    fn announce(&self, before: Status, actions: &mut Vec<Action>) {
        if before != self.hand.status {
            let level =
                if self.hand.status == Status::Synchronised { Level::Info } else { Level::Warning };
            note(
                actions,
                level,
                format!("{}: {}; bound {}", self.hand.status, self.reason, self.hand.bound()),
            );
        }
    }

    /// Marks every source's part. Returns which one is selected, in the order of `voices`, and its
    /// estimate, brought to what the others vouch for.
    fn select(&mut self, at: Count) -> Option<(usize, Estimate)> {
        let votes = self.votes(at);
        let to_come = self.to_come(at);
        let (nominal, all) = (self.settings.nominal, self.sources.len() + self.pulses.len());
        let servers = self.sources.iter_mut().zip(votes);
        let servers = servers.map(|(voice, estimate)| Said { voice, estimate });
        let pulses = self.pulses.iter_mut().map(|pulse| {
            let estimate = pulse.estimate(at);
            Said { voice: pulse, estimate }
        });
        let mut voices: Vec<Said<'_>> = servers.chain(pulses).collect();
        if let Some(candidates) = prefer::candidates(&voices, at) {
            let id = self.preferred.choose(&candidates, all, at, nominal)?;
            return prefer::mark(&mut voices, id);
        }
        voice::choose(&mut voices, to_come, at)
    }

    /// What the second of an edge at count `at` is told by: what the servers vouch for, where they
    /// do; else by the published clock, as long as its bound holds.
    fn numbering(&mut self, at: Count) -> Option<Numbering> {
        let votes = self.votes(at);
        let vouched = voice::vouched(&votes, self.to_come(at));
        let servers = vouched.map(|(time, bound)| Numbering { time, bound });
        let published = self
            .hand
            .status
            .bound_holds()
            .then(|| Numbering { time: self.hand.time_at(at), bound: self.hand.bound_at(at) });
        servers.filter(|clock| clock.is_enough()).or(published)
    }

    /// What is known of the rate by now.
    fn known_rate(&self) -> RatePrior {
        match self.hand.status {
            Status::Synchronised => RatePrior { period: self.hand.period, error: self.hand.growth },
            _ => self.rate_prior,
        }
    }

    /// How many sources are waited for.
    fn to_come(&self, at: Count) -> usize {
        self.sources.iter().filter(|s| s.is_to_come(at)).count()
    }

    /// What each source says. Two that turn out to be the same server have one vote.
    fn votes(&mut self, at: Count) -> Vec<Option<Estimate>> {
        let mut seen: BTreeMap<SocketAddr, String> = BTreeMap::new();
        let vote = |source: &mut Source| {
            let estimate = source.estimate(at)?;
            let address = source.address()?;
            if let Some(first) = seen.get(&address) {
                source.is_the_same_as(first);
                return None;
            }
            seen.insert(address, source.name());
            Some(estimate)
        };
        self.sources.iter_mut().map(vote).collect()
    }

    /// Renews a hand that no reply has renewed for a while.
    fn renew(&mut self, at: Count, actions: &mut Vec<Action>) {
        if self.renew_at.is_some_and(|due| at.at_or_after(due)) {
            self.publish(at, actions);
        }
    }

    fn check(&mut self, check: HostCheck, at: Count, actions: &mut Vec<Action>) {
        if let Some(reason) = self.watch.check(check, self.settings.nominal) {
            self.disrupt(reason, at, actions);
        }
    }

    /// The counter lost its continuity: a new epoch, and no promise until a reply is used.
    fn disrupt(&mut self, reason: String, at: Count, actions: &mut Vec<Action>) {
        note(actions, Level::Warning, format!("disrupted: {reason}"));
        let Epoch(epoch) = self.counter.epoch;
        self.counter.epoch = Epoch(epoch.wrapping_add(1));
        for source in &mut self.sources {
            source.new_epoch(at);
        }
        for pulse in &mut self.pulses {
            pulse.new_epoch(at);
        }
        // The machine may be another one now.
        self.rate_prior = self.nominal;
        self.servo.interrupt();
        self.reason = reason;
        self.renew_at = None;
        let status = match self.hand.status {
            Status::Unknown => Status::Unknown,
            _ => Status::Disrupted,
        };
        let time = self.hand.time_at(at);
        self.hand = Hand { counter: self.counter, base: at, time, status, ..self.hand };
        actions.push(Action::Publish(self.hand));
    }

    fn configure(
        &mut self,
        config: Config,
        time: Option<TimePrior>,
        at: Count,
        actions: &mut Vec<Action>,
    ) {
        self.settings.max_wander = config.max_wander;
        // Who joins later starts from what is known by then.
        let basis = Basis { settings: self.settings, rate: self.known_rate(), time };
        // A clock that is synchronised does not wait for those that join it.
        let stays = |s: &Source| {
            s.selection == Selection::Selected && config.sources.iter().any(|w| s.is(w))
        };
        let awaited = !self.sources.iter().any(stays);
        let mut old: BTreeMap<u32, Source> =
            std::mem::take(&mut self.sources).into_iter().map(|s| (s.id.0, s)).collect();
        for wanted in &config.sources {
            if self.sources.iter().any(|s| s.is(wanted)) {
                continue;
            }
            let kept = old.iter().find(|(_, s)| s.is(wanted)).map(|(id, _)| *id);
            let source = match kept.and_then(|id| old.remove(&id)) {
                Some(mut source) => {
                    source.reconfigure(wanted.clone(), at);
                    source.set_max_wander(config.max_wander);
                    source
                }
                None => {
                    let id = SourceId(self.next_id);
                    self.next_id += 1;
                    Source::new(id, wanted.clone(), config.estimator, &basis, awaited, at)
                }
            };
            self.sources.push(source);
        }
        let mut lost_selected = old.values().any(|s| s.selection == Selection::Selected);
        actions.extend(old.values().map(|s| Action::Close { source: s.id }));
        let mut old = std::mem::take(&mut self.pulses);
        for wanted in &config.pps {
            if self.pulses.iter().any(|p| p.config.path == wanted.path) {
                continue;
            }
            let kept = old.iter().position(|p| p.is(wanted)).map(|index| old.remove(index));
            let pulse = match kept {
                Some(mut pulse) => {
                    pulse.config = wanted.clone();
                    pulse.set_max_wander(config.max_wander);
                    pulse
                }
                None => {
                    let id = SourceId(self.next_id);
                    self.next_id += 1;
                    Pulse::new(id, wanted.clone(), config.estimator, basis, at)
                }
            };
            self.pulses.push(pulse);
        }
        lost_selected |= old.iter().any(|p| p.selection() == Selection::Selected);
        actions.extend(old.iter().map(|p| Action::Close { source: p.id() }));
        if self.config.discipline && !config.discipline {
            actions.extend(self.servo.rest().map(Action::Steer));
        }
        self.config = config;
        if lost_selected {
            self.publish(at, actions);
        }
    }

    /// Leap seconds to come may be learnt at any time; the scale that everything is counted on may
    /// not change under a running clock.
    fn learn_leaps(&mut self, leaps: Leaps, at: Count, actions: &mut Vec<Action>) {
        let now = self.hand.time_at(at);
        if leaps.offset_at(now) != self.leaps.offset_at(now) && self.hand.status != Status::Unknown
        {
            let text = "the new leap-second data puts UTC elsewhere; it is used after a restart";
            return note(actions, Level::Warning, text.into());
        }
        self.leaps = leaps;
        self.hand.leaps = leaps;
        actions.push(Action::Publish(self.hand));
    }

    fn steer(&mut self, reading: SystemReading, actions: &mut Vec<Action>) {
        if !self.config.discipline {
            return;
        }
        if self.hand.status != Status::Synchronised {
            actions.extend(self.servo.rest().map(Action::Steer));
            return;
        }
        let ours = self.hand.time_at(reading.count);
        let unix_ns = i128::from(reading.unix_ns);
        let (secs, ns) = (unix_ns.div_euclid(1_000_000_000), unix_ns.rem_euclid(1_000_000_000));
        let frac = Instant::from_nanos(ns).frac();
        let system = self.leaps.instant(i64::try_from(secs).unwrap_or(0), frac);
        let steers = self.servo.reading(reading.count, system, ours, self.hand.period);
        actions.extend(steers.into_iter().map(Action::Steer));
    }
}

fn note(actions: &mut Vec<Action>, level: Level, text: String) {
    actions.push(Action::Note { level, text });
}

/// The rate of a hand that nobody has tended since it was made.
fn aged_rate(hand: &Hand, config: &Config, start: &Start) -> RatePrior {
    let times = hand.period.span(start.at - hand.base).abs().0 / STRAYS.0;
    let strayed = i128::from(config.max_wander.0).saturating_mul(times.saturating_add(1));
    let error = strayed.saturating_add(hand.growth.0.into());
    let most = i128::from(start.nominal_error.0.max(hand.growth.0));
    RatePrior { period: hand.period, error: Rate(error.min(most) as i64) }
}

/// The rate that an earlier run saved, if it can be of this counter.
fn trusted_rate(saved: &Saved, start: &Start) -> Option<RatePrior> {
    let same = saved.counter == start.counter.kind.name();
    let apart = saved.period.relative_to(start.nominal);
    let error = Rate(saved.error.0.max(0).saturating_add(SAVED_RATE_LOSS.0));
    let limit = start.nominal_error.0.saturating_add(error.0);
    (same && apart.0.saturating_abs() <= limit && error < start.nominal_error)
        .then_some(RatePrior { period: saved.period, error })
}

/// What is published before anything is known.
fn unknown_hand(start: &Start, rate: RatePrior) -> Hand {
    let period: Period = rate.period;
    Hand {
        counter: start.counter,
        base: start.at,
        time: Instant::default(),
        period,
        difference: period,
        difference_error: rate.error,
        path_bound: Span::MAX,
        statistical_bound: Span::ZERO,
        growth: rate.error,
        status: Status::Unknown,
        leaps: start.leaps,
        void_after: start.at + period.counts(VOID_AFTER),
    }
}
