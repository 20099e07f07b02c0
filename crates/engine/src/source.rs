//! One server: its resolver, its schedule, its path, and as a [`Peer`] its filter and how far it is
//! believed.

mod courtesy;
mod leap_smear;
mod path;
mod reply;
mod resolver;
mod row;
mod schedule;

use std::net::SocketAddr;

use truechimer_feedforward::{
    Accepted, Doubt, Estimate, Estimator, NtpPll, Ours, Pi, Published, RatePrior, Settings,
    TimePrior,
};
use truechimer_ntp::{Association, LeapIndicator};
use truechimer_time::{Count, Instant, Leaps, Span};

use crate::config::{EstimatorKind, SourceConfig};
use crate::event::{Action, Level, SourceId};
use crate::hold_off;
use crate::peer::{Filter, Peer, declared};
use leap_smear::LeapSmear;
use path::Path;
use resolver::Resolver;
use schedule::{CHANCE, Due, MISSES_PER_ADDRESS, Plan, Schedule};

/// What the engine knows of the time when a datagram comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// They put the server's UTC onto the leap-free scale.
    pub(crate) leaps: Leaps,
    /// The time at the arrival by the published clock.
    pub(crate) about: Option<Instant>,
    /// The same by dead reckoning since a leap second came near.
    pub(crate) reckoned: Option<(Instant, Span)>,
    /// Other sources tell it as well.
    pub(crate) others: bool,
}

/// What all sources are built with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Basis {
    pub(crate) settings: Settings,
    pub(crate) rate: RatePrior,
    pub(crate) time: Option<TimePrior>,
    /// That time is known to be the server's own.
    pub(crate) own: bool,
}

/// One server.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) config: SourceConfig,
    pub(crate) peer: Peer,
    resolver: Resolver,
    schedule: Schedule,
    association: Option<Association>,
    path: Path,
    smear: LeapSmear,
    /// What the user is to be told of it.
    news: Option<String>,
    /// The user has been told that it drifts.
    stray_told: bool,
}

/// What a reply led to.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Heard {
    /// Used.
    Used(Accepted),
    /// Refused by the protocol; trouble that is new to the user, if any.
    Refused(Option<String>),
    /// Refused by the estimator, whose bound may have widened; trouble likewise.
    Doubted(Option<String>),
}

impl Source {
    /// A source to ask from `at` on; the others wait for its first reply if `awaited`.
    pub(crate) fn new(
        id: SourceId,
        config: SourceConfig,
        kind: EstimatorKind,
        basis: &Basis,
        awaited: bool,
        at: Count,
    ) -> Source {
        let settings = Settings { asymmetry: config.asymmetry.map(declared), ..basis.settings };
        let filter = Filter::new(kind, settings, basis.rate, basis.time, config.poll);
        let mut peer = Peer::new(id, config.name(), false, filter);
        peer.trust.foreign_start = basis.time.is_some() && !basis.own;
        Source {
            peer,
            resolver: Resolver::new(),
            schedule: Schedule::new(&config, basis.settings.nominal, awaited, at),
            association: None,
            path: Path::new(config.asymmetry),
            smear: LeapSmear::default(),
            news: None,
            stray_told: false,
            config,
        }
    }

    pub(crate) fn id(&self) -> SourceId {
        self.peer.id
    }

    /// What the user calls it: host and port.
    pub(crate) fn name(&self) -> String {
        self.peer.name.clone()
    }

    /// What its filter knows at `at`, if anything.
    pub(crate) fn estimate(&self, at: Count) -> Option<Estimate> {
        self.peer.estimate(at)
    }

    /// What its newest samples say, if they contradict what was known by it and are held off.
    pub(crate) fn hold_off(&self, at: Count) -> Option<Doubt> {
        self.peer.hold_off(at)
    }

    /// Whether `config` is for the same server.
    pub(crate) fn is(&self, config: &SourceConfig) -> bool {
        (&self.config.host, self.config.port) == (&config.host, config.port)
    }

    /// Takes over another configuration without forgetting anything; a server that is lost is
    /// looked up at once.
    pub(crate) fn reconfigure(&mut self, config: SourceConfig, at: Count) {
        if self.path.redeclare(config.asymmetry) {
            self.peer.filter.set_asymmetry(config.asymmetry);
        }
        self.schedule.reconfigure(&config, at);
        self.config = config;
        self.peer.filter.set_poll(self.schedule.steady_interval());
        // Whoever has the configuration read again may have mended the name.
        let lost = self.peer.tally.reach == 0 && self.schedule.silence >= MISSES_PER_ADDRESS;
        match self.schedule.plan {
            Plan::Poll(_) if lost => self.look_up(at),
            Plan::Resolve(_) => self.schedule.plan = Plan::Resolve(at),
            Plan::Retry(_) => {
                if self.choose_address(0, at) {
                    self.look_up(at);
                } else {
                    self.wait_for_service(at);
                }
            }
            _ => {}
        }
    }

    /// When it wants to act next.
    pub(crate) fn deadline(&self) -> Option<Count> {
        self.schedule.deadline()
    }

    /// Whether it has neither said anything usable yet, in this epoch, nor had its chance to.
    pub(crate) fn is_to_come(&self, at: Count) -> bool {
        self.votes() && self.schedule.is_awaited() && self.peer.estimate(at).is_none()
    }

    /// The others do not wait for its first reply.
    pub(crate) fn is_not_waited_for(&mut self) {
        self.schedule.is_not_awaited();
    }

    /// What its last usable reply said of leap seconds.
    pub(crate) fn leap(&self) -> Option<LeapIndicator> {
        Some(self.peer.filter.last?.reply?.leap)
    }

    /// Its stratum, by its newest reply.
    pub(crate) fn stratum(&self) -> Option<u8> {
        Some(self.peer.filter.newest?.reply?.stratum)
    }

    /// The address in use.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.association.as_ref().map(Association::server)
    }

    /// Whether it may have a say at all.
    pub(crate) fn votes(&self) -> bool {
        !self.config.no_select
    }

    /// For how long nothing was heard from it, if that is longer than `most`, and than its reach
    /// time-out. Whoever is held off is heard.
    pub(crate) fn is_silent_for(&self, at: Count, most: Span) -> Option<Span> {
        let filter = &self.peer.filter;
        self.peer.estimate(at)?;
        let age = filter.span(at - filter.newest?.exchange.received.count);
        (self.peer.is_proven() && age > most.max(filter.reach_timeout())).then_some(age)
    }

    /// It turned out to be the server that `other` is already.
    pub(crate) fn is_the_same_as(&mut self, other: &str) {
        self.peer.trouble = Some(self.peer.trust.is_the_same_as(other));
    }

    /// No other is asked at its address.
    pub(crate) fn is_itself(&mut self) {
        if self.peer.trust.is_itself() {
            self.peer.trouble = None;
        }
    }

    /// Its time has come: what to do. `random` gives fresh unguessable numbers.
    pub(crate) fn act(&mut self, at: Count, random: &mut dyn FnMut() -> u64) -> Vec<Action> {
        match self.schedule.due(at) {
            Some(Due::LookUp) => {
                self.schedule.plan = Plan::Resolving;
                let (host, port) = (self.config.host.clone(), self.config.port);
                return vec![Action::Resolve { source: self.peer.id, host, port }];
            }
            Some(Due::Poll) => return self.poll(at, random),
            Some(Due::Leave) => self.turned_away(at, random),
            Some(Due::Retry) => self.look_up(at),
            None => {}
        }
        Vec::new()
    }

    fn poll(&mut self, at: Count, random: &mut dyn FnMut() -> u64) -> Vec<Action> {
        let mut notes = Vec::new();
        if self.association.as_ref().is_some_and(Association::is_waiting) {
            if let Some(silence) = self.schedule.missed() {
                self.peer.tally.miss();
                self.peer.trouble =
                    Some("no reply: server down, or packets lost or blocked".into());
                if silence == CHANCE {
                    let name = &self.peer.name;
                    let text = format!("{name}: no reply to {CHANCE} requests in a row");
                    notes.push(Action::Note { level: Level::Warning, text });
                }
            }
            // A server that refuses is there: it is left only for another of its addresses. Where
            // the network refuses there is none, or somebody forged that: it is worth no more than
            // silence, and so hurries nobody.
            let elsewhere = !self.schedule.answered || self.resolver.has_next();
            if self.schedule.misses >= MISSES_PER_ADDRESS && elsewhere {
                self.move_on(at);
                return notes;
            }
        }
        let Some(association) = &mut self.association else {
            self.schedule.plan = Plan::Resolve(at);
            return notes;
        };
        let packet = association.request(random()).to_vec();
        let to = association.server();
        self.peer.tally.requests = self.peer.tally.requests.saturating_add(1);
        self.peer.tally.poll();
        self.schedule.sent(at, random);
        notes.push(Action::Send { source: self.peer.id, to, packet });
        notes
    }

    /// The address in use refused service: the next one, or whatever the name leads to now, or
    /// later.
    fn turned_away(&mut self, at: Count, random: &mut dyn FnMut() -> u64) {
        if let Some(address) = self.address() {
            self.schedule.refused(address, at, random());
        }
        self.schedule.leave();
        if self.choose_address(0, at) {
            self.schedule.plan = Plan::Poll(at);
        } else if self.resolver.looked_up {
            self.wait_for_service(at);
        } else {
            self.look_up(at);
        }
    }

    /// Chooses the first address from this place on that does not refuse service, if there is one.
    fn choose_address(&mut self, from: usize, at: Count) -> bool {
        let courtesy = &self.schedule.courtesy;
        let open = |address| courtesy.left_alone(address, at).is_none();
        let Some(address) = self.resolver.choose(from, open) else { return false };
        self.schedule.misses = 0;
        match &mut self.association {
            Some(association) if association.server() == address => {}
            Some(association) => association.move_to(address),
            none => *none = Some(Association::new(address)),
        }
        true
    }

    /// All addresses refuse service: until the first of them may be asked again.
    fn wait_for_service(&mut self, at: Count) {
        let wait = self.schedule.wait_for_service(self.resolver.addresses(), at);
        self.peer.tally.reach = 0;
        self.news = Some(format!("refuses service; asked again in {}", hold_off::time(wait)));
    }

    /// The address does not answer: the next one, or look the name up again.
    fn move_on(&mut self, at: Count) {
        if self.choose_address(self.resolver.next(), at) {
            self.schedule.plan = Plan::Poll(at);
        } else {
            self.look_up(at);
        }
    }

    fn look_up(&mut self, at: Count) {
        (self.schedule.misses, self.resolver.looked_up) = (0, true);
        if let Some(association) = &mut self.association {
            association.give_up();
        }
        self.schedule.plan = Plan::Resolve(at);
    }

    /// The look-up's answer. Returns why it failed, if that is new.
    pub(crate) fn resolved(
        &mut self,
        result: Result<Vec<SocketAddr>, String>,
        at: Count,
    ) -> Option<String> {
        if self.schedule.plan != Plan::Resolving {
            return None;
        }
        let failure = match result {
            Ok(addresses) if addresses.is_empty() => "the name has no address".to_owned(),
            Ok(addresses) => {
                self.resolver.found(addresses);
                if self.choose_address(0, at) {
                    self.schedule.plan = Plan::Poll(at);
                } else {
                    self.wait_for_service(at);
                }
                return None;
            }
            Err(error) => error,
        };
        self.schedule.silence = self.schedule.silence.max(CHANCE);
        self.schedule.is_not_awaited();
        self.peer.trouble = Some(format!("cannot look up {}: {failure}", self.config.host));
        self.peer.tally.refuse("unresolvable");
        let wait = self.schedule.after(at, self.resolver.wait());
        let soon = self.schedule.after(at, self.schedule.interval());
        if self.resolver.addresses().is_empty() {
            self.schedule.plan = Plan::Resolve(wait);
        } else if self.choose_address(0, at) {
            // Without a name service, what is known may yet come back: another round.
            self.schedule.plan = Plan::Poll(if wait.at_or_after(soon) { soon } else { wait });
        } else {
            self.wait_for_service(at);
        }
        self.resolver.failed(failure)
    }

    /// What there is to be told of it and was not yet.
    pub(crate) fn news(&mut self) -> Option<String> {
        self.news.take()
    }

    /// A request did not get through. The poll goes on; returns the trouble if it is new.
    pub(crate) fn undelivered(&mut self, error: &str) -> Option<String> {
        self.peer.tally.refuse("undelivered");
        // "No reply" would say less.
        self.schedule.undelivered();
        self.peer.note_trouble(format!("request not delivered: {error}"))
    }

    /// Whether it smears a leap second.
    pub(crate) fn smears(&self) -> bool {
        self.smear.is_found()
    }

    /// Whether it is too early to tell if it smears.
    pub(crate) fn may_yet_smear(&self) -> bool {
        self.smear.is_open()
    }

    /// Whether what it says may come of a smear.
    pub(crate) fn may_smear(&self) -> bool {
        self.smear.is_plausible()
    }

    /// The counter broke: begin again, at once.
    pub(crate) fn new_epoch(&mut self, at: Count) {
        // Whoever had something to say before the break is waited for again.
        let awaited = self.peer.filter.newest.is_some();
        self.peer.new_epoch();
        if let Some(association) = &mut self.association {
            association.give_up();
        }
        self.schedule.new_epoch(at, awaited);
    }
}

/// An IPv4 address that is written as one of IPv6 is the same server.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// A new estimator of this kind, as the engine gives to every source, for exchanges every `poll`
/// seconds.
#[must_use]
pub fn estimator(
    kind: EstimatorKind,
    settings: Settings,
    rate: RatePrior,
    time: Option<TimePrior>,
    poll: u32,
) -> Box<dyn Estimator> {
    match kind {
        EstimatorKind::Ours => Box::new(Ours::new(settings, rate, time)),
        // It has no warm restart, and its first idea of the period is its own.
        EstimatorKind::Published => Box::new(Published::new(settings, poll)),
        EstimatorKind::Pi => Box::new(Pi::new(settings, rate, time, poll)),
        EstimatorKind::NtpPll => Box::new(NtpPll::new(settings, rate, time, poll)),
    }
}
