//! The engine itself: events to sources, sources to one published clock.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use truechimer_feedforward::{Accepted, Estimate, Exchange, RatePrior, Settings, TimePrior};
use truechimer_time::{Count, CounterId, Epoch, Instant, Leaps, Period, Rate, Span};
use truechimer_timehands::{Hand, Status};

use crate::combination::Combination;
use crate::config::{Config, EstimatorKind};
use crate::disruption::Watch;
use crate::doubt::{self, Held, Opinion};
use crate::event::{Action, Event, HostCheck, Level, Saved, SourceId, Start, Steer, SystemReading};
use crate::kernel::{self, Kernel};
use crate::leap::Announced;
use crate::prefer::{self, Preferred};
use crate::pulse::{Numbering, Pulse};
use crate::report::{Report, Selection, SourceReport};
use crate::smear;
use crate::source::{self, Basis, Clock, Heard, Source, skew};
use crate::steer::{self, Servo};
use crate::voice::{self, Chosen, Said, Voice};

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

/// A rate that is known this well tells a smear (11.6 ppm) from the oscillator.
const KNOWS: Rate = Rate::from_ppb(1_000);

/// A clock that goes on by itself.
#[derive(Clone, Copy, Debug)]
struct Reckoning {
    count: Count,
    time: Instant,
    period: Period,
    error: Rate,
}

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
    combination: Combination,
    /// The clock as it was when a leap second came near, to go on by dead reckoning: count, time and
    /// the slow period then.
    reckoning: Option<Reckoning>,
    watch: Watch,
    servo: Servo,
    kernel: Kernel,
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
            accept_step_after: config.accept_step_after,
            asymmetry: None,
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
            combination: Combination::default(),
            reckoning: None,
            watch: Watch::default(),
            servo: Servo::default(),
            kernel: Kernel::default(),
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
        let of_page =
            |w: &Hand| TimePrior { count: w.base, time: w.time, bound: w.bound(), doubted: None };
        let known = Known {
            time: warm.as_ref().map(of_page),
            held: warm
                .map(|w| {
                    let held = start.saved.iter().flat_map(|saved| &saved.held);
                    held.filter_map(|held| Some((held.server.clone(), held.prior(&w)?))).collect()
                })
                .unwrap_or_default(),
        };
        let mut actions = vec![Action::Publish(hand)];
        engine.configure(config, &known, start.at, &mut actions);
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
                let others = self.sources.iter().filter(|other| other.id != source);
                let taken: Vec<SocketAddr> =
                    others.filter_map(Source::address).map(canonical).collect();
                if let Some(source) = self.source(source) {
                    let name = source.name();
                    let failed = result.as_ref().err().cloned();
                    // Names of a pool may have the same addresses: each source takes one of its own.
                    let result = result.map(|mut addresses| {
                        addresses.sort_by_key(|address| taken.contains(&canonical(*address)));
                        addresses
                    });
                    source.resolved(result, at);
                    if let Some(error) = failed {
                        note(&mut actions, Level::Warning, format!("{name}: {error}"));
                    }
                }
            }
            Event::Reply { source, from, sent, received, packet } => {
                let (leaps, known) = (self.leaps, self.hand.status.bound_holds());
                let about = known.then(|| self.hand.time_at(received.count));
                let reckoned = about.and_then(|about| self.reckoned(received.count, about));
                if let Some(source) = self.source(source) {
                    let clock = Clock { leaps, about, reckoned };
                    let smeared = source.smears();
                    let heard = source.heard(from, sent, received, &packet, &clock);
                    let name = source.name();
                    if source.smears() != smeared {
                        let text = if smeared { "no longer smears" } else { "smears" };
                        let text = format!("{name}: {text} the leap second");
                        note(&mut actions, Level::Warning, text);
                    }
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
            Event::Configure(config) => {
                self.configure(config, &Known::default(), at, &mut actions);
            }
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
            reason: self.reason(now),
            sources: servers.chain(pulses).collect(),
        }
    }

    /// Why the status is what it is: above all that the source it rests on is in doubt.
    fn reason(&self, now: Count) -> String {
        let selected = self.sources.iter().find(|s| s.selection == Selection::Selected);
        let doubted = selected.and_then(|source| Some((source, source.doubt(now)?)));
        doubted.map_or_else(
            || self.reason.clone(),
            |(source, doubt)| {
                let told = doubt::told(&doubt, now, self.settings.nominal);
                format!("holding the time against {}: {told}", source.name())
            },
        )
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

    /// What it holds against servers whose time has moved by more than it may.
    #[must_use]
    pub fn held(&self, now: Count) -> Vec<Held> {
        let held = |source: &Source| {
            let (estimate, doubt) = (source.estimate(now)?, source.doubt(now)?);
            Some(Held::new(source.name(), self.counter, now, &estimate, &doubt))
        };
        self.sources.iter().filter_map(held).collect()
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
            held: self.held(now),
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
                    self.hear_vouchers(at, actions);
                }
                if republish {
                    self.publish(at, actions);
                }
            }
        }
    }

    /// Believes the servers whose time moved and for whom others vouch.
    fn hear_vouchers(&mut self, at: Count, actions: &mut Vec<Action>) {
        let doubts: Vec<_> = self.sources.iter().map(|source| source.doubt(at)).collect();
        let votes = self.votes(at);
        let Some(origin) = votes.iter().flatten().map(|e| e.time).next() else { return };
        let (mut who, mut opinions) = (Vec::new(), Vec::new());
        for (index, (vote, doubt)) in votes.iter().zip(&doubts).enumerate() {
            if let Some(estimate) = vote {
                who.push(index);
                opinions.push(Opinion::new(estimate, doubt.as_ref(), origin));
            }
        }
        for (one, index) in who.into_iter().enumerate() {
            // Servers that smear a leap second alike are no witnesses of each other.
            let smears = self.sources.get(index).is_some_and(Source::may_smear);
            if !smears
                && doubt::vouched(one, &opinions)
                && let Some(source) = self.sources.get_mut(index)
                && let Some(Accepted::Stepped(by)) = source.believe()
            {
                let name = source.name();
                self.servo.interrupt();
                let text = format!(
                    "{name}: its time moved by {by:+}, and other servers agree: the counter jumped"
                );
                note(actions, Level::Warning, text);
            }
        }
    }

    /// Works out which sources agree, and publishes what they come to.
    fn publish(&mut self, at: Count, actions: &mut Vec<Action>) {
        let Some(Chosen { index, estimate, others, patience }) = self.select(at) else {
            return self.without_source(at, actions);
        };
        let Some(source) = self.voices().nth(index) else { return };
        let age = source.age(&estimate, at);
        let status = if patience.is_negative() { Status::Holdover } else { Status::Synchronised };
        let reason = match (status, source.is_pulse(), others) {
            (Status::Synchronised, _, 0) => format!("following {}", source.name()),
            (Status::Synchronised, ..) => format!("following {} and {others} more", source.name()),
            (_, false, _) => format!("no usable reply from {} for {age}", source.name()),
            (_, true, _) => format!("no usable edge from {} for {age}", source.name()),
        };
        let smears = self.sources.get(index).is_some_and(Source::smears);
        let smears =
            if smears { "; all smear the leap second: the smear is taken off" } else { "" };
        let reason = format!("{reason}{smears}");
        // Sooner if patience ends before, so that holdover is said when it begins.
        let renew = source.renew_after();
        self.reason = reason;
        let wait = if patience.is_negative() { renew } else { renew.min(patience + MOMENT) };
        self.renew_at = Some(at + estimate.period.counts(wait));
        self.leaps = self.leaps.advanced(estimate.time);
        let believed = |s: &&Source| {
            use Selection::{Combined, Selected, Truechimer};
            matches!(s.selection, Truechimer | Combined | Selected)
        };
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

    /// Marks every source's part, and works out what they come to.
    fn select(&mut self, at: Count) -> Option<Chosen> {
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
            let (index, estimate) = prefer::mark(&mut voices, id)?;
            let voice = &voices.get(index)?.voice;
            let patience = voice.patience() - voice.age(&estimate, at);
            return Some(Chosen { index, estimate, others: 0, patience });
        }
        // The feedback clocks are shown as they are: one at a time.
        let combination =
            (self.config.estimator == EstimatorKind::Ours).then_some(&mut self.combination);
        let chosen = voice::choose(&mut voices, combination, to_come, at);
        let follows = chosen.as_ref().map(|chosen| chosen.index);
        let follows = follows.and_then(|index| self.sources.get(index)).is_some_and(Source::smears);
        for source in self.sources.iter_mut().filter(|source| source.smears() && !follows) {
            source.mark(Selection::Smeared);
            source.weigh(None, Some("it smears the leap second; others do not".into()));
        }
        chosen
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

    /// The time at `count` by dead reckoning since a leap second came near, if one is: a server that
    /// smears it may have taken our clock along. `about` is the time by that.
    fn reckoned(&mut self, count: Count, about: Instant) -> Option<(Instant, Span)> {
        if smear::expected(&self.leaps, about).is_none() {
            self.reckoning = None;
            return None;
        }
        let (period, error) = (self.hand.difference, self.hand.difference_error);
        let now = Reckoning { count, time: about, period, error };
        let begun = *self.reckoning.get_or_insert(now);
        // A rate that was hardly known then says nothing: begin anew as long as it becomes better.
        let smeared = self.sources.iter().any(|s| s.smears() || s.may_smear());
        let better = error.0 < begun.error.0 / 2 && !(smeared && begun.error <= KNOWS);
        let begun = if better { now } else { begun };
        self.reckoning = Some(begun);
        let Reckoning { count: base, time, period, error } = begun;
        let since = period.span(count - base);
        // An untended oscillator strays as the bound has it.
        let times = since.abs().0 / STRAYS.0;
        let strayed =
            i128::from(self.settings.max_wander.0).saturating_mul(times.saturating_add(1));
        let rate = i128::from(error.0).saturating_add(strayed).min(i128::from(i64::MAX));
        Some((time + since, Rate(rate as i64).over(since).abs()))
    }

    /// What each source says. Two that turn out to be the same server have one vote.
    fn votes(&mut self, at: Count) -> Vec<Option<Estimate>> {
        let mut seen: BTreeMap<SocketAddr, String> = BTreeMap::new();
        // Those that smear are not mixed with those that do not.
        let plain = |source: &Source| !source.smears() && source.estimate(at).is_some();
        let unmixed = self.sources.iter().any(plain);
        let vote = |source: &mut Source| {
            let estimate = source.estimate(at).filter(|_| !unmixed || !source.smears())?;
            let address = canonical(source.address()?);
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
        self.combination.forget();
        self.reckoning = None;
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

    fn configure(&mut self, config: Config, known: &Known, at: Count, actions: &mut Vec<Action>) {
        self.settings.max_wander = config.max_wander;
        self.settings.accept_step_after = config.accept_step_after;
        // Who joins later starts from what is known by then.
        let basis = Basis { settings: self.settings, rate: self.known_rate(), time: known.time };
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
                    source.set_accept_step_after(config.accept_step_after);
                    source
                }
                None => {
                    let id = SourceId(self.next_id);
                    self.next_id += 1;
                    let time = known.held.get(&source::name(wanted)).copied().or(known.time);
                    let basis = Basis { time, ..basis };
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
            actions.extend(self.kernel.nothing().map(Action::Steer));
        }
        self.config = config;
        let there: Vec<SourceId> = self.voices().map(Voice::id).collect();
        self.combination.keep(|id| there.contains(&SourceId(id)));
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

    /// The clock once synchronised is followed for as long as its bound holds.
    fn steer(&mut self, reading: SystemReading, actions: &mut Vec<Action>) {
        if !self.config.discipline {
            return;
        }
        let follow = match self.hand.status {
            Status::Synchronised => true,
            Status::Holdover => self.kernel.is_told(),
            _ => false,
        };
        if !follow {
            actions.extend(self.servo.rest().map(Action::Steer));
            actions.extend(self.kernel.nothing().map(Action::Steer));
            return;
        }
        let ours = self.hand.time_at(reading.count);
        if kernel::is_leaping(&self.leaps, ours) {
            // Unix time says the same twice, and the kernel sees to the leap itself.
            self.servo.interrupt();
            return;
        }
        let unix_ns = i128::from(reading.unix_ns);
        let (secs, ns) = (unix_ns.div_euclid(1_000_000_000), unix_ns.rem_euclid(1_000_000_000));
        let frac = Instant::from_nanos(ns).frac();
        let system = self.leaps.instant(i64::try_from(secs).unwrap_or(0), frac);
        let seen = steer::Reading {
            count: reading.count,
            system,
            ours,
            period: self.hand.period,
            applied: reading.frequency,
        };
        let steers = self.servo.reading(&seen, self.config.step, self.config.step_above);
        let stepped = steers.iter().any(|steer| matches!(steer, Steer::Step(_)));
        let offset = if stepped { Span::ZERO } else { system - ours };
        let word = self.kernel.word(&self.hand, reading.count, offset);
        actions.extend(steers.into_iter().chain([word]).map(Action::Steer));
    }
}

/// An IPv4 address that is written as one of IPv6 is the same server.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// What a daemon before has left of the time: to all servers, and to those that it doubted.
#[derive(Debug, Default)]
struct Known {
    time: Option<TimePrior>,
    held: BTreeMap<String, TimePrior>,
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
