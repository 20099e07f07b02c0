//! One server, or PTP port: its resolver, its schedule, its path, and as a [`Peer`] its filter and how far it is
//! believed.

mod act;
mod courtesy;
mod interleaved;
mod leap_smear;
mod learnt;
mod path;
mod pool;
mod ptp;
mod reply;
mod resolver;
mod row;
mod schedule;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

use truechimer_feedforward::{Accepted, Estimate, RatePrior, Settings, TimePrior};
use truechimer_ntp::{Association, LeapIndicator, Reply, WAITING};
use truechimer_time::{Count, Instant, Leaps, Span};

use crate::config::SourceConfig;
use crate::event::SourceId;
use crate::method::{Beginning, Method};
use crate::peer::{Filter, HoldOff, Peer, Role, declared};
use crate::ptp::{Port, PtpConfig};
use crate::report::{SourceKind, SourceStatus};
use crate::smear::Doubt;
use interleaved::Open;
use leap_smear::LeapSmear;
pub use learnt::{KeptPath, Learnt};
use path::Path;
pub(crate) use pool::Pool;
use resolver::Resolver;
use schedule::{MISSES_PER_ADDRESS, Plan, Schedule};

/// Knowledge of the time when a datagram comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// They put the server's UTC onto the leap-free scale.
    pub(crate) leaps: Leaps,
    /// The time at the arrival by the published clock.
    pub(crate) about: Option<Instant>,
    /// Time at the arrival by dead reckoning since a leap second came near.
    pub(crate) reckoned: Option<(Instant, Doubt)>,
    /// Other sources tell it as well.
    pub(crate) others: bool,
    /// Ordinal of the event, of all that the engine took in.
    pub(crate) ordinal: u64,
}

/// Basis that all sources are built with.
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
    /// When its last requests were made, the newest first.
    requested: [Option<Count>; WAITING],
    path: Path,
    /// Exchanges of interleaved mode that are not complete.
    open: Open,
    smear: LeapSmear,
    /// PTP port, of a source that is none of NTP.
    ptp: Option<Port>,
    /// News of it for the user.
    news: Option<String>,
    /// The user has been told that it drifts.
    stray_told: bool,
    undelivered: Undelivered,
    /// Place that it has in a pool.
    pub(crate) member: Option<Member>,
    /// Others answer and agree.
    pub(crate) others_speak: bool,
    /// Requests in a row that were sent while it was of no use.
    useless_requests: u32,
}

/// Place of a server in a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Member {
    pub(crate) pool: SourceId,
    /// Address there.
    pub(crate) address: SocketAddr,
    /// The server whose place it takes once it has answered; until then it has no vote.
    pub(crate) instead_of: Option<SourceId>,
}

/// Effect of a reply.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Heard {
    /// Used.
    Used(Accepted),
    /// Refused by the protocol; trouble that is new to the user, if any.
    Refused(Option<String>),
    /// Refused by the estimator, whose bound may have widened; trouble likewise.
    Rejected(Option<String>),
}

/// Number of different words of the network that the user is told while requests do not get through:
/// anybody may forge one.
const UNDELIVERED_TOLD: usize = 4;
/// Number of replies in a row by which requests get through again.
const DELIVERED_AGAIN: u32 = 4;

/// Word that requests do not get through.
#[derive(Default, Debug)]
struct Undelivered {
    /// Troubles that the user has been told.
    told: Vec<String>,
    /// Number of replies since the last one.
    replies: u32,
}

impl Source {
    /// A source to ask from `at` on, with an estimator of this method; the others wait for its
    /// first reply if `awaited`.
    pub(crate) fn new(
        id: SourceId,
        config: SourceConfig,
        method: &dyn Method,
        basis: &Basis,
        awaited: bool,
        at: Count,
    ) -> Source {
        let is_ptp = config.ptp.is_some();
        let settings = Settings { asymmetry: config.asymmetry.map(declared), ..basis.settings };
        let Basis { rate, time, .. } = *basis;
        let beginning = Beginning { settings, rate, time, poll: config.poll };
        let filter = Filter::new(method, &beginning);
        let kind = if is_ptp { SourceKind::Ptp } else { SourceKind::Server };
        let mut peer = Peer::new(id, config.name(), kind, Role::Votes, filter);
        peer.trust.foreign_start = basis.time.is_some() && !basis.own;
        let mut schedule = Schedule::new(&config, basis.settings.nominal, awaited, at);
        if is_ptp {
            // There is no name to look up, and the port has a schedule of its own.
            schedule.plan = Plan::Resolving;
        }
        Source {
            peer,
            resolver: Resolver::new(),
            schedule,
            association: None,
            requested: [None; WAITING],
            path: Path::new(config.asymmetry),
            open: Open::default(),
            smear: LeapSmear::default(),
            ptp: config.ptp.is_some().then(|| Port::new(at)),
            news: None,
            stray_told: false,
            undelivered: Undelivered::default(),
            member: None,
            others_speak: false,
            useless_requests: 0,
            config,
        }
    }

    pub(crate) fn id(&self) -> SourceId {
        self.peer.id
    }

    /// Name that the user gave it: host and port.
    pub(crate) fn name(&self) -> &str {
        &self.peer.name
    }

    /// Estimate of its filter at `at`, if any.
    pub(crate) fn estimate(&self, at: Count) -> Option<Estimate> {
        self.peer.estimate(at)
    }

    /// Hold-off of its newest samples, if they contradict what was known by it.
    pub(crate) fn hold_off(&self, at: Count) -> Option<HoldOff> {
        self.peer.hold_off(at)
    }

    /// True if `config` is for the same server.
    pub(crate) fn is(&self, config: &SourceConfig) -> bool {
        let SourceConfig { host, port, authentication, .. } = config;
        (&self.config.host, self.config.port, self.config.authentication)
            == (host, *port, *authentication)
            && self.config.ptp.as_ref().map(PtpConfig::identity)
                == config.ptp.as_ref().map(PtpConfig::identity)
    }

    /// Takes over another configuration without forgetting anything; a server that is lost is
    /// looked up at once.
    pub(crate) fn reconfigure(&mut self, config: SourceConfig, at: Count) {
        let goes_on_learning = config.learn_asymmetry && self.config.learn_asymmetry;
        if !goes_on_learning && self.path.redeclare(config.asymmetry) {
            self.peer.filter.set_asymmetry(config.asymmetry);
        }
        self.schedule.reconfigure(&config, at);
        if config.offline
            && let Some(association) = &mut self.association
        {
            // What is not waited for is not missed.
            association.give_up();
        }
        if self.config.offline && !config.offline || self.config.interface != config.interface {
            self.forget_path();
        }
        let family_changed = self.config.family != config.family;
        self.config = config;
        if self.ptp.is_some() {
            return;
        }
        self.peer.filter.set_poll(self.schedule.steady_interval());
        // Whoever has the configuration read again may have mended the name.
        let lost = family_changed
            || self.peer.tally.reach == 0 && self.schedule.silence >= MISSES_PER_ADDRESS;
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
        if let Some(port) = &self.ptp {
            return port.deadline();
        }
        self.schedule.deadline()
    }

    /// True if it has neither said anything usable yet, in this epoch, nor had its chance to.
    pub(crate) fn is_to_come(&self, at: Count) -> bool {
        self.votes() && self.schedule.is_awaited() && !self.peer.filter.knows(at)
    }

    /// The others do not wait for its first reply.
    pub(crate) fn is_not_waited_for(&mut self) {
        self.schedule.is_not_awaited();
    }

    /// True if another server of the pool that it is of should take its place: it refuses service,
    /// is another source's server, or was of no use for [`MISSES_PER_ADDRESS`] requests.
    pub(crate) fn is_spent(&self, at: Count) -> bool {
        self.useless_requests >= MISSES_PER_ADDRESS && self.is_useless(at)
            || self.schedule.retry().is_some() && self.is_expendable(at)
            || self.peer.trust.same_server().is_some()
    }

    /// True while it is asked beside a server of its pool, whose place it is to take.
    pub(crate) fn is_on_trial(&self) -> bool {
        self.member.is_some_and(|member| member.instead_of.is_some())
    }

    /// True if nothing is lost with it: it knows nothing, or others answer and agree.
    fn is_expendable(&self, at: Count) -> bool {
        self.others_speak || !self.peer.filter.knows(at)
    }

    /// True if it is of no use just now: a falseticker, or silent.
    fn is_useless(&self, at: Count) -> bool {
        self.peer.trust.status() == SourceStatus::Falseticker
            || self.peer.tally.reach == 0 && self.is_expendable(at)
    }

    /// Leap indicator of its last usable reply.
    pub(crate) fn leap(&self) -> Option<LeapIndicator> {
        if let Some(port) = &self.ptp {
            return port.leap();
        }
        Some(self.peer.filter.last?.reply?.leap)
    }

    /// Last reply that was used.
    pub(crate) fn reply(&self) -> Option<Reply> {
        self.peer.filter.last?.reply
    }

    /// Stratum, by its newest reply.
    pub(crate) fn stratum(&self) -> Option<u8> {
        if let Some(port) = &self.ptp {
            return port.stratum();
        }
        Some(self.peer.filter.newest?.reply?.stratum)
    }

    /// The address in use.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        if let Some(port) = &self.ptp {
            return port.address();
        }
        self.association.as_ref().map(Association::server)
    }

    /// Address of the server that its estimate is of: whose replies were used last, wherever the next request goes.
    pub(crate) fn heard_from(&self) -> Option<SocketAddr> {
        if self.ptp.is_some() {
            return self.address();
        }
        self.path.heard_from().or_else(|| self.address().map(canonical))
    }

    /// Rank among the sources of one address, of which the least counts: one that has a vote, one that was heard, one that
    /// the user named before a pool's, and the one that has been heard from there for longest. A name that is led to the
    /// address of another source must not take that one's vote, whatever becomes of either meanwhile.
    pub(crate) fn precedence(&self) -> ([bool; 3], Option<u64>) {
        let since = self.path.heard_since();
        ([!self.votes(), since.is_none(), self.member.is_some()], since)
    }

    /// Number of its newest requests that wait for their replies.
    pub(crate) fn waiting(&self) -> usize {
        self.association.as_ref().map_or(0, Association::waiting)
    }

    /// True if it has a vote.
    pub(crate) fn votes(&self) -> bool {
        self.peer.votes()
    }

    /// True if it may have a say at all.
    pub(crate) fn is_heard(&self) -> bool {
        self.votes() || self.peer.is_fenced()
    }

    /// For how long nothing was heard from it, if that is longer than `most`, and than its reach
    /// time-out. Whoever is held off is heard.
    pub(crate) fn is_silent_for(&self, at: Count, most: Span) -> Option<Span> {
        let filter = &self.peer.filter;
        let age = filter.span(at - filter.newest?.exchange.received.count);
        (self.peer.is_proven() && filter.knows(at) && age > most.max(filter.reach_timeout()))
            .then_some(age)
    }

    /// Takes it for the server that `other` is already.
    pub(crate) fn take_for(&mut self, other: &str) {
        self.peer.trouble = Some(self.peer.trust.take_for(other).into());
    }

    /// Takes it for a server of its own: no other source counts before it at its address.
    pub(crate) fn take_for_itself(&mut self) {
        if self.peer.trust.take_for_itself() {
            self.peer.trouble = None;
        }
    }

    /// News of it that was not yet told.
    pub(crate) fn news(&mut self) -> Option<String> {
        self.news.take()
    }

    /// A request did not get through. The poll goes on; returns the trouble if it is new.
    pub(crate) fn undelivered(&mut self, error: &str) -> Option<String> {
        self.peer.tally.refuse("undelivered");
        // "No reply" would say less.
        match &mut self.ptp {
            Some(port) => port.undelivered(),
            None => self.schedule.undelivered(),
        }
        let trouble = format!("request not delivered: {error}");
        self.peer.trouble = Some(trouble.clone().into());
        let Undelivered { told, replies } = &mut self.undelivered;
        *replies = 0;
        let is_new = told.len() < UNDELIVERED_TOLD && !told.contains(&trouble);
        is_new.then(|| {
            told.push(trouble.clone());
            trouble
        })
    }

    /// A reply came: when a few have in a row, requests get through again.
    fn delivered(&mut self) {
        let Undelivered { told, replies } = &mut self.undelivered;
        *replies += u32::from(!told.is_empty());
        if *replies >= DELIVERED_AGAIN {
            self.undelivered = Undelivered::default();
            self.news.get_or_insert_with(|| "requests are delivered again".into());
        }
    }

    /// True if it smears a leap second.
    pub(crate) fn smears(&self) -> bool {
        self.smear.is_found()
    }

    /// True if it is too early to tell if it smears.
    pub(crate) fn may_yet_smear(&self) -> bool {
        // A PTP master tells TAI, or UTC in steps.
        self.ptp.is_none() && self.smear.is_open()
    }

    /// True if what it says may come of a smear.
    pub(crate) fn may_smear(&self) -> bool {
        self.smear.is_plausible()
    }

    /// Tells the estimator how often the server is asked.
    pub(crate) fn tell_interval(&mut self, method: &dyn Method) {
        let seconds = self.schedule.steady_interval();
        method.polls(self.peer.filter.estimator.as_mut(), seconds);
    }

    /// The path may be another one now, or the clock was wrong that it was learnt by: forgets what is
    /// learnt of it.
    pub(crate) fn forget_path(&mut self) {
        self.path.forget();
        if self.config.learn_asymmetry && self.path.redeclare(None) {
            self.peer.filter.set_asymmetry(None);
        }
    }

    /// Path to it for the next daemon: if its asymmetry was learnt, and nothing has shown since that
    /// the path is another.
    pub(crate) fn kept_path(&self) -> Option<KeptPath> {
        let is_kept =
            self.config.learn_asymmetry && !self.peer.filter.estimator.contradicts_asymmetry();
        is_kept.then(|| self.path.kept(self.name())).flatten()
    }

    /// Hears what a daemon before had learnt of the path to it.
    pub(crate) fn remember_path(&mut self, kept: KeptPath) {
        self.path.remember(kept);
    }

    /// The counter broke: begin again, at once.
    pub(crate) fn new_epoch(&mut self, at: Count) {
        // Whoever had something to say before the break is waited for again.
        let awaited = self.peer.filter.newest.is_some();
        self.peer.new_epoch();
        self.open = Open::default();
        self.forget_path();
        if let Some(association) = &mut self.association {
            association.give_up();
        }
        self.schedule.new_epoch(at, awaited);
        // As after a sleep: what failed before says little of what fails now.
        self.resolver.wait.reset();
        if let Some(port) = &mut self.ptp {
            port.new_epoch(at);
        }
    }
}

/// An IPv4 address that is written as one of IPv6 is the same server.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
