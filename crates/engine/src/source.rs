//! One server: when to ask it, what it answered, what its estimator makes of that.

mod address;
mod asymmetry;
mod courtesy;
mod reply;
mod stray;
mod word;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use truechimer_feedforward::{
    Accepted, Doubt, Estimator, Exchange, RatePrior, Settings, TimePrior,
};
use truechimer_ntp::{Association, LeapIndicator, Reply};
use truechimer_time::{Count, CountSpan, Instant, Leaps, Period, Rate, Span, Utc};

use crate::bar::{self, Bar};
use crate::config::{Asymmetry, SourceConfig};
use crate::doubt;
use crate::event::{Action, Level, SourceId};
use crate::method::{Beginning, Method};
use crate::ramp::{self, Ramp};
use crate::report::Selection;
use crate::smear::Smear;
use crate::voice::Voice;
use crate::why::Why;
use courtesy::Courtesy;

/// After so many breaks of the counter in a row servers are not asked at once any more, but
/// [`ramp::FIRST_INTERVAL`] later: a counter that breaks with every look must not make a flood of
/// it.
const AT_ONCE: u32 = 3;
/// So many requests in a row without a usable reply, and the next address is tried; once round,
/// the name is looked up again.
const MISSES_PER_ADDRESS: u32 = 8;
/// So many in a row, and the user is told; a source that never answered has then had its chance.
const CHANCE: u32 = 4;
/// First and longest wait between look-ups that fail, s.
const RESOLVE_RETRY: (u32, u32) = (2, 1024);
/// The era of NTP timestamps is chosen nearest to this Unix time (2050-01-01): right for
/// 1982–2118.
const ERA_PIVOT: i64 = 2_524_608_000;

/// After so many replies since its smear was found a server is as doubtful as any other.
const RESETTLES: u32 = 32;

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
    /// That time is known to be the server's own word.
    pub(crate) own: bool,
}

impl Basis {
    /// An estimator for exchanges every `poll` seconds.
    pub(crate) fn estimator(&self, method: &dyn Method, poll: u32) -> Box<dyn Estimator> {
        let Basis { settings, rate, time, .. } = *self;
        method.estimator(&Beginning { settings, rate, time, poll })
    }
}

/// One server.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) id: SourceId,
    pub(crate) config: SourceConfig,
    pub(crate) selection: Selection,
    nominal: Period,
    addresses: Vec<SocketAddr>,
    address_index: usize,
    association: Option<Association>,
    /// Whom the estimator has heard last.
    known_at: Option<SocketAddr>,
    /// Whose path is declared.
    declared_at: Option<SocketAddr>,
    /// What the user is to be told of it.
    news: Option<String>,
    estimator: Box<dyn Estimator>,
    plan: Plan,
    ramp: Ramp,
    /// After how many more breaks the server is asked at once.
    at_once: u32,
    /// What servers asked of us.
    courtesy: Courtesy,
    /// The name was looked up since a server last served us.
    looked_up: bool,
    resolve_wait: u32,
    /// Why the last look-up failed.
    unresolvable: Option<String>,
    /// Requests in a row without a usable reply, to this address and in all.
    misses: u32,
    silence: u32,
    /// How many more requests may fail before the others no longer wait for its first word.
    chances: u32,
    /// Whether the server answered the newest request, if only to refuse.
    answered: bool,
    /// Whether the network said that it could not be delivered.
    undelivered: bool,
    reach: u8,
    last: Option<Last>,
    /// The newest reply that could be understood, whether it was used or is held off.
    newest: Option<Last>,
    /// Its estimator began with the time of a clock page, and nobody knows that this was its word.
    hearsay: bool,
    /// It is known to have agreed with that, by what an earlier daemon has kept.
    pub(crate) agreed: bool,
    requests: u64,
    accepted: u64,
    timeouts: u64,
    /// Refusals of estimator and network; those of the protocol are in `association`.
    refused: BTreeMap<String, u64>,
    trouble: Option<String>,
    /// The server that it turned out to be.
    twin: Option<Twin>,
    /// Its share in the published time, and why it has none.
    weight: Option<f64>,
    why: Option<Why>,
    /// What it says now was found to be false, until it is used again.
    accused: bool,
    /// When the others' word last made it believed where it had moved to.
    pub(crate) moved: Option<Count>,
    /// Why what it says now is not accepted by itself, if it is held off for that.
    pub(crate) bar: Option<Bar>,
    /// When it is accepted at the latest, as others vouch for it.
    pub(crate) vouched: Option<Count>,
    /// The user has told to believe another that contradicts it: no vote until it agrees.
    pub(crate) overruled: bool,
    smear: Smear,
    /// So many more replies may contradict what was known before a smear was found.
    resettles: u32,
    /// What is declared of the path, unless it cannot be.
    asymmetry: Option<Asymmetry>,
    /// The round trip that a declaration cannot be true of.
    impossible: Option<Span>,
    /// The user has been told what is wrong with it.
    asymmetry_told: bool,
    /// The user has been told that it strays.
    stray_told: bool,
}

/// What a source does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Plan {
    /// Look the name up at that count.
    Resolve(Count),
    /// Wait for the look-up.
    Resolving,
    /// Ask at that count.
    Poll(Count),
    /// The server refused service at that count: look for another.
    Refused(Count),
    /// No address is left that does not refuse service: look again at that count.
    Retry(Count),
}

/// Another source's server.
#[derive(Debug)]
struct Twin {
    of: String,
    told: bool,
}

/// The last usable reply.
#[derive(Clone, Copy, Debug)]
struct Last {
    reply: Reply,
    exchange: Exchange,
    rtt: Span,
    /// What was added to its root distance, as it may have been smeared.
    smear: Span,
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
    /// A source to ask from `at` on, with an estimator of this method; the others wait for its
    /// first word if `awaited`.
    pub(crate) fn new(
        id: SourceId,
        config: SourceConfig,
        method: &dyn Method,
        basis: &Basis,
        awaited: bool,
        at: Count,
    ) -> Source {
        Source {
            id,
            ramp: if config.burst { Ramp::WHOLE } else { Ramp::NONE },
            at_once: AT_ONCE,
            estimator: {
                let asymmetry = config.asymmetry.map(declared);
                let settings = Settings { asymmetry, ..basis.settings };
                Basis { settings, ..*basis }.estimator(method, config.poll)
            },
            asymmetry: config.asymmetry,
            config,
            selection: Selection::Unusable,
            nominal: basis.settings.nominal,
            addresses: Vec::new(),
            address_index: 0,
            association: None,
            known_at: None,
            declared_at: None,
            news: None,
            plan: Plan::Resolve(at),
            courtesy: Courtesy::default(),
            looked_up: true,
            resolve_wait: RESOLVE_RETRY.0,
            unresolvable: None,
            misses: 0,
            silence: 0,
            chances: if awaited { CHANCE } else { 0 },
            answered: true,
            undelivered: false,
            reach: 0,
            last: None,
            newest: None,
            hearsay: basis.time.is_some() && !basis.own,
            agreed: false,
            requests: 0,
            accepted: 0,
            timeouts: 0,
            refused: BTreeMap::new(),
            trouble: None,
            twin: None,
            weight: None,
            why: None,
            accused: false,
            moved: None,
            bar: None,
            vouched: None,
            overruled: false,
            smear: Smear::default(),
            resettles: 0,
            impossible: None,
            asymmetry_told: false,
            stray_told: false,
        }
    }

    /// Whether `config` is for the same server.
    pub(crate) fn is(&self, config: &SourceConfig) -> bool {
        (&self.config.host, self.config.port) == (&config.host, config.port)
    }

    /// Takes over another poll interval without forgetting anything; a server that is lost is
    /// looked up at once.
    pub(crate) fn reconfigure(&mut self, config: SourceConfig, at: Count) {
        let faster = config.poll < self.config.poll;
        if config.asymmetry != self.config.asymmetry {
            self.estimator.set_asymmetry(config.asymmetry.map(declared));
            (self.asymmetry, self.impossible) = (config.asymmetry, None);
            self.declared_at = self.known_at;
            self.asymmetry_told = false;
        }
        self.config = config;
        if let (true, Plan::Poll(next)) = (faster, self.plan) {
            let soon = self.after(at, self.interval());
            self.plan = Plan::Poll(if next.at_or_after(soon) { soon } else { next });
        }
        self.courtesy.hurry(at, self.nominal);
        // Whoever has the configuration read again may have mended the name.
        let lost = self.reach == 0 && self.silence >= MISSES_PER_ADDRESS;
        match self.plan {
            Plan::Poll(_) if lost => self.look_up(at),
            Plan::Resolve(_) => self.plan = Plan::Resolve(at),
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

    pub(crate) fn set_max_wander(&mut self, max_wander: Rate) {
        self.estimator.set_max_wander(max_wander);
    }

    pub(crate) fn set_accept_step_after(&mut self, span: Span) {
        self.estimator.set_accept_step_after(span);
    }

    /// What it says and is not believed, if there is anything.
    pub(crate) fn doubt(&self, at: Count) -> Option<Doubt> {
        let doubt = self.estimator.doubt(at)?;
        let vouched = self.vouched.map(|then| self.nominal.span(then - at).max(Span::ZERO));
        Some(Doubt { left: vouched.unwrap_or(doubt.left).min(doubt.left), ..doubt })
    }

    /// Since when what it is known by has been known, and until when it agreed with that.
    pub(crate) fn known(&self) -> Option<(Count, Count)> {
        self.estimator.known()
    }

    /// Others vouch for that: it is believed from now on.
    pub(crate) fn believe(&mut self) -> Option<Accepted> {
        let accepted = self.estimator.believe()?;
        (self.trouble, self.hearsay, self.last) = (None, false, self.newest);
        Some(accepted)
    }

    /// Whether it contradicts the time that its estimator began with, and that is not known to have
    /// been its word.
    pub(crate) fn is_misrepresented(&self, at: Count) -> bool {
        self.hearsay && self.last.is_none() && self.doubt(at).is_some()
    }

    /// When it wants to act next.
    pub(crate) fn deadline(&self) -> Option<Count> {
        match self.plan {
            Plan::Resolve(at) | Plan::Poll(at) | Plan::Refused(at) | Plan::Retry(at) => Some(at),
            Plan::Resolving => None,
        }
    }

    /// The poll interval in force, s.
    fn interval(&self) -> u32 {
        self.ramp.interval(self.steady_interval())
    }

    /// The poll interval after the start, s.
    fn steady_interval(&self) -> u32 {
        self.courtesy.interval(self.config.poll)
    }

    /// When a server that refuses service is asked again, if no other could be found.
    fn retry(&self) -> Option<Count> {
        if let Plan::Retry(at) = self.plan { Some(at) } else { None }
    }

    /// Whether it has neither said anything usable yet, in this epoch, nor had its chance to.
    pub(crate) fn is_to_come(&self, at: Count) -> bool {
        self.votes() && self.chances > 0 && self.retry().is_none() && self.estimate(at).is_none()
    }

    /// The others do not wait for its first word.
    pub(crate) fn is_not_waited_for(&mut self) {
        self.chances = 0;
    }

    /// What its last usable reply said of leap seconds.
    pub(crate) fn leap(&self) -> Option<LeapIndicator> {
        self.last.map(|last| last.reply.leap)
    }

    /// The last exchange that was used.
    pub(crate) fn last_exchange(&self) -> Option<&Exchange> {
        self.last.as_ref().map(|last| &last.exchange)
    }

    /// The address in use.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.association.as_ref().map(Association::server)
    }

    /// Whether it may have a say at all.
    pub(crate) fn votes(&self) -> bool {
        !self.config.no_select
    }

    /// It turned out to be the server that `other` is already.
    pub(crate) fn is_the_same_as(&mut self, other: &str) {
        if self.twin.as_ref().is_none_or(|twin| twin.of != other) {
            self.twin = Some(Twin { of: other.to_owned(), told: false });
        }
        self.trouble = Some(format!("the same address as {other}: counted once"));
    }

    /// No other is asked at its address.
    pub(crate) fn is_itself(&mut self) {
        if self.twin.take().is_some() {
            self.trouble = None;
        }
    }

    /// Whether it is the server that another source is already.
    pub(crate) fn is_twin(&self) -> bool {
        self.twin.is_some()
    }

    /// What is to be told of its being the server that another is already, once.
    pub(crate) fn twin_news(&mut self) -> Option<String> {
        let twin = self.twin.as_mut().filter(|twin| !twin.told)?;
        twin.told = true;
        let (name, of) = (self.config.name(), &twin.of);
        Some(format!(
            "{name}: is at the same address as {of}: the two count as one server, so this one has no \
             vote and no part in the time"
        ))
    }

    fn after(&self, at: Count, seconds: u32) -> Count {
        at + self.nominal.counts(Span::from_secs(i64::from(seconds)))
    }

    /// Its time has come: what to do. `random` gives fresh unguessable numbers.
    pub(crate) fn act(&mut self, at: Count, random: &mut dyn FnMut() -> u64) -> Vec<Action> {
        match self.plan {
            Plan::Resolve(due) if at.at_or_after(due) => {
                self.plan = Plan::Resolving;
                let (host, port) = (self.config.host.clone(), self.config.port);
                vec![Action::Resolve { source: self.id, host, port }]
            }
            Plan::Poll(due) if at.at_or_after(due) => self.poll(at, random),
            Plan::Refused(due) if at.at_or_after(due) => {
                self.turned_away(at, random);
                Vec::new()
            }
            Plan::Retry(due) if at.at_or_after(due) => {
                self.look_up(at);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn poll(&mut self, at: Count, random: &mut dyn FnMut() -> u64) -> Vec<Action> {
        let mut notes = Vec::new();
        if self.association.as_ref().is_some_and(Association::is_waiting) {
            self.misses = self.misses.saturating_add(1);
            self.silence = self.silence.saturating_add(1);
            self.chances = self.chances.saturating_sub(1);
            if !self.answered && !self.undelivered {
                self.timeouts = self.timeouts.saturating_add(1);
                self.trouble = Some("no reply: server down, or packets lost or blocked".into());
                if self.silence == CHANCE {
                    let text = format!("{}: no reply to {CHANCE} requests in a row", self.name());
                    notes.push(Action::Note { level: Level::Warning, text });
                }
            }
            // A server that refuses is there: it is left only for another of its addresses. Where
            // the network refuses there is none, or somebody forged that: it is worth no more than
            // silence, and so hurries nobody.
            let elsewhere = !self.answered || self.address_index + 1 < self.addresses.len();
            if self.misses >= MISSES_PER_ADDRESS && elsewhere {
                self.move_on(at);
                return notes;
            }
        }
        let Some(association) = &mut self.association else {
            self.plan = Plan::Resolve(at);
            return notes;
        };
        let packet = association.request(random());
        let to = association.server();
        self.requests = self.requests.saturating_add(1);
        (self.answered, self.undelivered) = (false, false);
        self.reach <<= 1;
        self.ramp.step();
        // Up to 1/64 early, so that many clients do not ask in step and polls do not beat with
        // whatever else the host does periodically.
        let interval = self.nominal.counts(Span::from_secs(i64::from(self.interval()))).0.max(1);
        let early = (random() % (interval.unsigned_abs() / 64).max(1)) as i64;
        self.plan = Plan::Poll(at + CountSpan(interval - early));
        if self.ramp.is_beyond(CHANCE + 1) {
            self.at_once = AT_ONCE;
        }
        notes.push(Action::Send { source: self.id, to, packet: packet.to_vec() });
        notes
    }

    /// A usable reply came from this address. If the one before came from another, it is another
    /// machine that its name leads to now, and another path: `others` tell the time as well. What
    /// it is known by goes on with the name, unless others tell another time. What is declared of
    /// the path does not.
    fn recognise(&mut self, from: SocketAddr, at: Count, others: bool) {
        let from = canonical(from);
        let declared_at = *self.declared_at.get_or_insert(from);
        let Some(before) = self.known_at.replace(from).filter(|before| *before != from) else {
            return;
        };
        let mut news = format!("answers from {from} now, another server than {before}");
        self.asymmetry = self.config.asymmetry.filter(|_| from == declared_at);
        if self.config.asymmetry.is_some() && self.asymmetry.is_none() {
            news += "; the declared asymmetry is not of the path to it, and not used";
        }
        (self.news, self.impossible, self.asymmetry_told) = (Some(news), None, false);
        let agrees = matches!(
            self.selection,
            Selection::Selected | Selection::Combined | Selection::Truechimer
        );
        self.estimator.change_server(others && !agrees, self.asymmetry.map(declared));
        // What that one wanted, smeared or was accused of is not this one's doing.
        self.courtesy.forget_rate();
        (self.smear, self.resettles) = (Smear::default(), 0);
        (self.accused, self.moved, self.agreed, self.trouble) = (false, None, false, None);
        (self.bar, self.vouched) = (None, None);
        if self.config.burst && matches!(self.plan, Plan::Poll(_)) {
            self.ramp = Ramp::WHOLE;
            self.plan = Plan::Poll(self.after(at, self.interval()));
        }
    }

    /// What there is to be told of it and was not yet.
    pub(crate) fn news(&mut self) -> Option<String> {
        self.news.take()
    }

    /// A request did not get through. The poll goes on; returns the trouble if it is new.
    pub(crate) fn undelivered(&mut self, error: &str) -> Option<String> {
        *self.refused.entry("undelivered".into()).or_insert(0) += 1;
        // "No reply" would say less.
        self.undelivered = true;
        self.note_trouble(format!("request not delivered: {error}"))
    }

    fn note_trouble(&mut self, trouble: String) -> Option<String> {
        let new = self.trouble.as_ref() != Some(&trouble);
        self.trouble = Some(trouble);
        self.trouble.clone().filter(|_| new)
    }

    /// What is wrong with it now, which is `utc` if that is known.
    pub(crate) fn trouble(&self, at: Count, utc: Option<Utc>) -> Option<String> {
        let outvoted = self.selection == Selection::Falseticker;
        if let Some(doubt) = self.doubt(at) {
            let who = (&*self.name(), self.bar.as_ref());
            return Some(doubt::told(&doubt, who, at, self.nominal, utc, outvoted));
        }
        if let Some(Why::Held(by)) = self.why {
            let name = self.name();
            return Some(match by {
                Some(by) => format!(
                    "held: its time is {by:+} off what was known: not used{}",
                    bar::remedies(&name)
                ),
                None => {
                    format!("held: not published; to believe it now: {}", bar::remedy(&name))
                }
            });
        }
        let why = self.why.as_ref().filter(|_| outvoted);
        if let Some(why) = why {
            return Some(format!("falseticker: {why}: no part until it agrees again"));
        }
        if let (Some(due), Some(trouble)) = (self.retry(), &self.trouble) {
            let wait = self.nominal.span(due - at).max(Span::ZERO);
            return Some(format!("{trouble}; asked again in {}", doubt::time(wait)));
        }
        self.trouble.clone().or_else(|| self.stray_trouble()).or_else(|| self.asymmetry_trouble())
    }

    /// The server wants fewer requests.
    fn slow(&mut self, at: Count) {
        self.ramp = Ramp::NONE;
        self.courtesy.slow(self.steady_interval());
        self.plan = Plan::Poll(self.after(at, self.interval()));
    }

    /// Tells the estimator how often the server is asked.
    pub(crate) fn tell_interval(&mut self, method: &dyn Method) {
        let seconds = self.steady_interval();
        method.polls(self.estimator.as_mut(), seconds);
    }

    /// The counter broke: begin again, at once.
    pub(crate) fn new_epoch(&mut self, at: Count) {
        // Whoever had something to say before the break is waited for again.
        if self.newest.take().is_some() {
            self.chances = CHANCE;
        }
        (self.last, self.hearsay, self.agreed) = (None, false, false);
        self.estimator.new_epoch();
        self.selection = Selection::Unusable;
        // Neither is a count of before worth anything, nor a doubt about what was said then.
        (self.moved, self.why) = (None, None);
        (self.bar, self.vouched) = (None, None);
        if let Some(association) = &mut self.association {
            association.give_up();
        }
        // One more than the chances: that the last was missed shows when the next is sent.
        self.ramp = if self.config.burst { Ramp::WHOLE } else { Ramp::of(CHANCE + 1) };
        if self.courtesy.is_slow(self.config.poll) {
            // Who wants fewer requests gets no burst, and so keeps nobody waiting.
            (self.ramp, self.chances) = (Ramp::NONE, 0);
        }
        self.courtesy.new_epoch(at, self.nominal);
        let due = match self.at_once.checked_sub(1) {
            Some(left) => {
                self.at_once = left;
                at
            }
            None => at + self.nominal.counts(Span::from_secs(ramp::FIRST_INTERVAL.into())),
        };
        match self.plan {
            Plan::Poll(_) => self.plan = Plan::Poll(due),
            Plan::Resolve(_) => self.plan = Plan::Resolve(due),
            Plan::Refused(_) => self.plan = Plan::Refused(due),
            Plan::Retry(_) => self.plan = Plan::Retry(at + self.nominal.counts(courtesy::RETRY)),
            Plan::Resolving => {}
        }
    }
}

/// An IPv4 address that is written as one of IPv6 is the same server.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// What the estimator is told of the path.
fn declared(asymmetry: Asymmetry) -> truechimer_feedforward::Asymmetry {
    let Asymmetry { by, error } = asymmetry;
    truechimer_feedforward::Asymmetry { by, error }
}

/// The skew of a counter that was taken for one of the nominal period and has another: a longer
/// period means that it is slow.
pub(crate) fn skew(period: Period, nominal: Period) -> Rate {
    Rate(period.relative_to(nominal).0.saturating_neg())
}
