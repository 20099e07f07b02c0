//! The engine itself: events to sources, sources to one published clock.

mod account;
mod configuration;
mod course;
mod gate;
mod likeness;
mod pool;
mod ptp;
mod publication;
mod reckoning;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddr;

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use truechimer_feedforward::{Disputed, RatePrior, Settings, TimePrior, VOID_AFTER};
use truechimer_time::{
    Count, CountSpan, CounterId, Epoch, Instant, Leaps, Period, Rate, Span, Stamp,
};
use truechimer_timehands::{Hand, Status};

use crate::change_log::ChangeLog;
use crate::combination::Combination;
use crate::config::Config;
use crate::disruption::Watch;
use crate::event::{
    Action, Event, HostCheck, LeapData, Level, Saved, Shown, SourceId, Start, Steer, SystemReading,
};
use crate::hold_off::Held;
use crate::kernel::Kernel;
use crate::leap::Announced;
use crate::method::{Method, Standard};
use crate::peer::Peer;
use crate::refclock::{self, RefClock};
use crate::source::{Clock, Heard, KeptPath, Pool, Source};
use crate::steer::Servo;
use crate::{kernel, steer};
use configuration::strangers;
use gate::Gate;
use likeness::Likeness;
use reckoning::Reckoning;

/// Just past a deadline.
const MOMENT: Span = Span::from_millis(1);
/// Loss of a saved rate's precision since: ageing, temperature, and the hypervisor's or kernel's
/// own calibration at each boot.
const SAVED_RATE_LOSS: Rate = Rate::from_ppb(50_000);
/// An untended oscillator may stray by `max_wander` in every such span: half of the 2.8 hours that
/// the promise about it is over.
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
    method: Box<dyn Method>,
    config: Config,
    settings: Settings,
    rate_prior: RatePrior,
    /// Prior of the rate without having measured it.
    nominal: RatePrior,
    counter: CounterId,
    leaps: Leaps,
    announced: Announced,
    random: ChaCha20Rng,
    sources: Vec<Source>,
    pools: Vec<Pool>,
    refclocks: Vec<RefClock>,
    next_id: u32,
    combination: Combination,
    change_log: ChangeLog,
    likeness: Likeness,
    /// The clock as it was when a leap second came near, to go on by dead reckoning: count, time
    /// and the slow period then.
    reckoning: Option<Reckoning>,
    watch: Watch,
    servo: Servo,
    kernel: Kernel,
    hand: Hand,
    reason: String,
    /// Source that said nothing usable, and since when, if that is the reason.
    quiet: Option<publication::Quiet>,
    /// Nobody's word could be used so far, and nobody is waited for.
    unanswered: bool,
    /// Number of sources that have a part in the published time beside the one that leads.
    others: usize,
    renew_at: Option<Count>,
    last_at: Count,
    /// Hold-offs of servers that are no longer asked, or have yet to answer this daemon.
    inherited: Vec<Held>,
    /// Beginning of those servers of pools that join before there is a time of our own.
    known: Known,
    /// Standard uncertainty of the published difference clock's rate, once one was measured.
    deviation: Option<Rate>,
    /// The last rate that was worth keeping, and its error: a server that drifts away puts it in
    /// doubt.
    kept_rate: Option<(Period, Rate)>,
    /// The log says that no majority agrees.
    split_told: bool,
    /// Number of events that were taken in.
    events: u64,
    gate: Gate,
}

impl Engine {
    /// Starts the engine; the actions are the first to carry out.
    #[must_use]
    pub fn new(config: Config, start: Start) -> (Engine, Vec<Action>) {
        Engine::with_method(config, start, Box::new(Standard))
    }

    /// Starts an engine with another method, to compare it.
    #[must_use]
    pub fn with_method(
        config: Config,
        mut start: Start,
        method: Box<dyn Method>,
    ) -> (Engine, Vec<Action>) {
        let strangers = strangers(&config, &start);
        if strangers.is_some() {
            // What they had told has no credit with those that are followed now.
            (start.warm, start.saved) = (None, None);
        }
        let mut gate = Gate::new(&start);
        let settings = Settings {
            nominal: start.nominal,
            resolution: start.resolution,
            max_wander: config.max_wander,
            accept_step_after: config.accept_step_after,
            asymmetry: None,
            pulse: false,
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
            Some(warm) => Hand { status: Status::Holdover, likely: None, ..warm },
            None => unknown_hand(&start, rate_prior),
        };
        let mut announced = Announced::default();
        announced.listed(start.leaps_until);
        let mut engine = Engine {
            method,
            settings,
            rate_prior,
            nominal,
            counter: start.counter,
            leaps: start.leaps,
            announced,
            random: ChaCha20Rng::from_seed(start.seed),
            sources: Vec::new(),
            pools: Vec::new(),
            refclocks: Vec::new(),
            next_id: 0,
            combination: Combination::default(),
            change_log: ChangeLog::default(),
            likeness: Likeness::default(),
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
            others: 0,
            renew_at: None,
            last_at: start.at,
            inherited: Vec::new(),
            known: Known::default(),
            deviation: None,
            kept_rate: None,
            split_told: false,
            events: 0,
            quiet: None,
            unanswered: false,
            gate: Gate::default(),
            config: Config { sources: Vec::new(), refclocks: Vec::new(), ..config.clone() },
        };
        let agreed = start.saved.as_ref().and_then(|saved| saved.agreed.as_ref()).zip(warm);
        // What was known, without what the page covers because somebody was held off.
        let of_page = |w: &Hand| {
            let bound = w.undisputed_bound();
            let beyond = w.bound() - bound;
            let doubted = (beyond > Span::ZERO).then_some(Disputed::Beyond(beyond));
            TimePrior { count: w.base, time: w.time, bound, known: None, doubted }
        };
        let known = Known {
            time: warm.as_ref().map(of_page),
            agreed: agreed.map_or_else(BTreeMap::new, |(agreed, warm)| agreed.of(&warm)),
            overruled: agreed.map_or_else(Vec::new, |(a, warm)| a.overruled(&warm).to_vec()),
            paths: start.saved.as_ref().map(|saved| saved.paths.clone()).unwrap_or_default(),
        };
        gate.told_by = agreed.map_or_else(Vec::new, |(a, warm)| a.tellers(&warm).to_vec());
        engine.gate = gate;
        let held = start.saved.map(|saved| saved.held).unwrap_or_default();
        let goes = |held: &Held| warm.is_some_and(|warm| held.prior(&warm).is_some());
        engine.inherited = held.into_iter().filter(goes).collect();
        let mut actions = vec![Action::Publish(hand)];
        if let Some(names) = strangers {
            let text = format!(
                "the clock page has the word of {names}, not of a server that is followed now: it is \
                 not held against them"
            );
            note(&mut actions, Level::Info, text);
        }
        engine.configure(config, &known, start.at, &mut actions);
        engine.known = known;
        engine.act(start.at, &mut actions);
        (engine, actions)
    }

    /// Takes in an event that the caller noticed at count `at`, and says what to do about it.
    #[must_use]
    pub fn handle(&mut self, at: Count, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.handle_into(at, &event, &mut actions);
        actions
    }

    /// Handles an event for callers that keep event and list from one time to the next, and so
    /// allocate nothing: adds what is to be done to `actions`.
    pub fn handle_into(&mut self, at: Count, event: &Event, actions: &mut Vec<Action>) {
        let tells =
            matches!(event, Event::Check(_) | Event::Disruption { .. } | Event::Moved { .. });
        if !tells && self.watch.is_before(at, self.settings.nominal) {
            self.disrupt("the counter went back".into(), at, actions);
            self.watch = Watch::default();
        }
        self.last_at = at;
        self.events = self.events.saturating_add(1);
        let to_come = self.to_come(at);
        self.take_in(event, at, actions);
        if matches!(event, Event::Stop) {
            return;
        }
        self.act(at, actions);
        // Whoever has had its chance no longer keeps the others waiting.
        if self.to_come(at) < to_come && self.hand.base != at {
            self.publish(at, actions);
        }
        self.renew(at, actions);
    }

    fn take_in(&mut self, event: &Event, at: Count, actions: &mut Vec<Action>) {
        match event {
            Event::Timer => {}
            Event::Resolved { source, result } => self.resolved(*source, result, at, actions),
            Event::Reply { source, from, sent, received, packet } => {
                self.replied(*source, (*from, *sent, *received, packet), at, actions);
            }
            Event::Undelivered { source, error } => {
                if let Some(source) = self.source(*source)
                    && let Some(trouble) = source.undelivered(error)
                {
                    let text = format!("{}: {trouble}", source.name());
                    note(actions, Level::Warning, text);
                }
            }
            Event::Unprotected { source, error } => {
                let early = self.random.next_u64();
                if let Some(source) = self.source(*source)
                    && let Some(trouble) = source.unprotected(error, at, early)
                {
                    let text = format!("{}: {trouble}", source.name());
                    note(actions, Level::Info, text);
                }
            }
            Event::Unauthentic { source, error } => {
                if let Some(source) = self.source(*source) {
                    source.unauthentic(error);
                }
            }
            Event::Sample { source, sequence, stamp, shown } => {
                let stamp = stamp.as_ref().map_err(String::as_str).copied();
                self.showed(*source, (*sequence, stamp, shown), at, actions);
            }
            Event::RefClockFailed { source, error } => {
                if let Some(refclock) = self.refclock(*source)
                    && let Some(trouble) = refclock.failed(error.clone(), at)
                {
                    let name = &refclock.peer.name;
                    // Without a name of its own it has that of the device, which the error begins with.
                    let has_name = trouble.strip_prefix(name.as_str());
                    let text = match has_name.filter(|rest| rest.starts_with([':', ' '])) {
                        Some(_) => trouble,
                        None => format!("{name}: {trouble}"),
                    };
                    note(actions, Level::Warning, text);
                }
            }
            Event::Ptp(event) => self.ptp_event(event, at, actions),
            Event::Check(check) => self.check(*check, at, actions),
            Event::Disruption { reason } => {
                // Whoever knows that much knows that counts from before cannot be compared.
                self.watch = Watch::default();
                self.disrupt(reason.clone(), at, actions);
            }
            Event::Moved { reason } => {
                self.watch = Watch::default();
                self.gate.moved_on(&self.leaps);
                self.disrupt(reason.clone(), at, actions);
            }
            Event::Rtc(reading) => self.rtc_read(*reading, at, actions),
            Event::Accept { source } => self.accept(*source, at, actions),
            Event::Configure(config) => {
                self.configure(config.clone(), &Known::default(), at, actions);
            }
            Event::Leaps(leaps) => self.learn_leaps(*leaps, at, actions),
            Event::SystemClock(reading) => self.steer(*reading, actions),
            Event::Stop => {
                actions.extend(self.sources.iter().flat_map(Source::farewell));
                // A slew that nobody ends would run on, and a leap second that is withdrawn would
                // come.
                actions.extend(self.servo.rest().map(Action::Steer));
                actions.extend(self.kernel.disarm(&self.hand, at).map(Action::Steer));
            }
        }
    }

    fn replied(
        &mut self,
        id: SourceId,
        (from, sent, received, packet): (SocketAddr, Stamp, Stamp, &[u8]),
        at: Count,
        actions: &mut Vec<Action>,
    ) {
        let (leaps, hand, known) = (self.leaps, self.hand, self.hand.status.bound_holds());
        let about = known.then(|| self.hand.time_at(received.count));
        let reckoned = about.and_then(|about| self.reckoned(id, received.count, about));
        let tells = |peer: &Peer| peer.id != id && peer.trust.is_part();
        let others = self.peers().any(tells);
        let ordinal = self.events;
        let Some(source) = self.source(id) else { return };
        let clock = Clock { leaps, about, reckoned, others, ordinal };
        let smeared = source.smears();
        let heard = source.heard(from, sent, received, packet, &clock);
        let learnt = matches!(heard, Heard::Used(_)).then(|| source.learn(&hand)).flatten();
        for text in source.news().into_iter().chain(learnt) {
            note(actions, Level::Info, format!("{}: {text}", source.name()));
        }
        if source.smears() != smeared {
            let text = if smeared { "no longer smears" } else { "smears" };
            let text = format!("{}: {text} the leap second", source.name());
            note(actions, Level::Warning, text);
        }
        for text in [source.news_of_straying(), source.news_of_asymmetry()].into_iter().flatten() {
            note(actions, Level::Warning, format!("{}: {text}", source.name()));
        }
        let used = matches!(heard, Heard::Used(_)).then(|| source.reply()).flatten();
        self.tell_intervals();
        self.after_reply(id, heard, at, actions);
        if let Some(reply) = used {
            self.tell_likeness(id, &reply, actions);
        }
    }

    /// A reference clock showed a time.
    fn showed(
        &mut self,
        id: SourceId,
        sample: (u64, Result<Stamp, &str>, &Shown),
        at: Count,
        actions: &mut Vec<Action>,
    ) {
        let clock = sample.1.ok().and_then(|stamp| self.numbering(stamp.count));
        let (leaps, rate) = (self.leaps, self.known_rate());
        let known = refclock::Known { clock, leaps, method: &*self.method, rate };
        let Some(refclock) = self.refclocks.iter_mut().find(|r| r.peer.id == id) else { return };
        let heard = refclock.sample(sample, &known, at);
        if let Some(text) = refclock.news() {
            note(actions, Level::Info, format!("{}: {text}", refclock.peer.name));
        }
        self.after_reply(id, heard, at, actions);
    }

    /// When [`Event::Timer`] is wanted next, if ever.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Count> {
        let refclocks = self.refclocks.iter().map(RefClock::deadline);
        let servers = self.sources.iter().filter_map(Source::deadline);
        let pools = self.pools.iter().filter_map(Pool::deadline);
        let deadlines = servers.chain(pools).chain(refclocks).chain(self.renew_at);
        deadlines.min_by_key(|at| (*at - self.last_at).0)
    }

    /// The hand in force.
    #[must_use]
    pub fn hand(&self) -> &Hand {
        &self.hand
    }

    /// Leap seconds as known.
    #[must_use]
    pub fn leaps(&self) -> LeapData {
        LeapData { leaps: self.leaps, until: self.announced.until() }
    }

    fn source(&mut self, id: SourceId) -> Option<&mut Source> {
        self.sources.iter_mut().find(|s| s.peer.id == id)
    }

    fn refclock(&mut self, id: SourceId) -> Option<&mut RefClock> {
        self.refclocks.iter_mut().find(|r| r.peer.id == id)
    }

    /// All sources: servers first.
    fn peers(&self) -> impl Iterator<Item = &Peer> + Clone {
        let servers = self.sources.iter().map(|source| &source.peer);
        servers.chain(self.refclocks.iter().map(|refclock| &refclock.peer))
    }

    /// Tells the estimators how often their servers are asked.
    fn tell_intervals(&mut self) {
        for source in &mut self.sources {
            source.tell_interval(&*self.method);
        }
    }

    fn selected(&self) -> Option<&Peer> {
        self.peers().find(|peer| peer.trust.is_selected())
    }

    /// Lets every source do what is due.
    fn act(&mut self, at: Count, actions: &mut Vec<Action>) {
        self.tend_pools(at, actions);
        for source in &mut self.sources {
            // Moving on to another address or a look-up is a step of its own: a few at most.
            for _ in 0..4 {
                let due = source.deadline().is_some_and(|due| at.at_or_after(due));
                if !due {
                    break;
                }
                source.act(at, &mut || self.random.next_u64(), actions);
            }
            if let Some(text) = source.news() {
                note(actions, Level::Info, format!("{}: {text}", source.name()));
            }
        }
        for refclock in &mut self.refclocks {
            refclock.act(at, actions);
        }
    }

    fn check(&mut self, check: HostCheck, at: Count, actions: &mut Vec<Action>) {
        let before = check.count - CountSpan(1);
        let broken = self.watch.check(check, self.settings.nominal);
        let breaks = broken.is_some();
        if let Some(reason) = broken {
            self.disrupt(reason, at, actions);
        }
        if let Some(span) = self.watch.absence_since(before) {
            let text = format!(
                "the daemon did not run for {span} (stopped, or no processor was left for it): nobody \
                 was asked meanwhile"
            );
            note(actions, Level::Warning, text);
        }
        self.checked(&check, breaks, at, actions);
    }

    /// The counter lost its continuity: a new epoch, and no promise until a reply is used.
    fn disrupt(&mut self, reason: String, at: Count, actions: &mut Vec<Action>) {
        note(actions, Level::Warning, format!("disrupted: {reason}"));
        let Epoch(epoch) = self.counter.epoch;
        self.counter.epoch = Epoch(epoch.wrapping_add(1));
        for source in &mut self.sources {
            source.new_epoch(at);
        }
        for pool in &mut self.pools {
            pool.new_epoch(at);
        }
        for refclock in &mut self.refclocks {
            refclock.new_epoch(at);
        }
        self.combination.forget();
        self.change_log.new_epoch(at);
        self.reckoning = None;
        self.inherited.clear();
        self.known = Known::default();
        self.gate.new_epoch();
        self.kept_rate = None;
        // The machine may be another one now.
        self.rate_prior = self.nominal;
        self.servo.interrupt();
        (self.reason, self.unanswered) = (reason, false);
        self.renew_at = None;
        let status = match self.hand.status {
            Status::Unknown => Status::Unknown,
            _ => Status::Disrupted,
        };
        let time = self.hand.time_at(at);
        let disputed = Span::ZERO;
        self.hand = Hand { counter: self.counter, base: at, time, status, disputed, ..self.hand };
        actions.push(Action::Publish(self.hand));
    }

    /// Leap seconds to come may be learnt at any time; the scale that everything is counted on may
    /// not change under a running clock.
    fn learn_leaps(&mut self, data: LeapData, at: Count, actions: &mut Vec<Action>) {
        let LeapData { leaps, until } = data;
        let now = self.hand.time_at(at);
        if leaps.offset_at(now) != self.leaps.offset_at(now) && self.hand.status != Status::Unknown
        {
            let text = "the new leap-second data puts UTC elsewhere; it is used after a restart";
            return note(actions, Level::Warning, text.into());
        }
        self.leaps = leaps;
        self.announced.listed(until);
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
        // A step is one of Unix time: a system clock that is set beyond a leap second, or before the
        // last, differs from ours by what it shows, not by the second that lies between them too.
        let secs = i64::try_from(secs).unwrap_or(0);
        let system = Instant::new(secs.saturating_add(self.leaps.offset_at(ours).into()), frac);
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
        let seen = kernel::Seen { offset, drift: self.servo.unknown() };
        let word = self.kernel.word(&self.hand, reading.count, seen);
        actions.extend(steers.into_iter().chain([word]).map(Action::Steer));
    }
}

/// Time that a daemon before has left, and which servers agreed with that, with since when and
/// until when it was known.
#[derive(Clone, Debug, Default)]
struct Known {
    time: Option<TimePrior>,
    agreed: BTreeMap<String, Option<(Count, Count)>>,
    /// The servers that the user's word overruled.
    overruled: Vec<String>,
    /// Paths that it had learnt.
    paths: Vec<KeptPath>,
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

/// Hand that is published before anything is known.
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
        disputed: Span::ZERO,
        growth: rate.error,
        imbalance: Span::ZERO,
        likely: None,
        status: Status::Unknown,
        leaps: start.leaps,
        void_after: start.at + period.counts(VOID_AFTER),
    }
}
