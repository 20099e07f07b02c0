//! Reference clocks: local sources without a path through a network, and what the estimator makes of
//! their samples.
//!
//! A sample is a time that the clock showed at a count that is known to within an error. An edge of a
//! pulse per second shows when a second begins, and not which: the engine numbers it by what the
//! servers vouch for, or where they are lost by the published clock, as long as that is known to well
//! under half a second; else, as while a server is held off, it is numbered by those before it, and
//! may be whole seconds off (see `selection.rs`). Seconds are counted on the leap-free scale: a leap
//! second is a second like any other. The others show the whole time. One that has no vote has to be
//! where those say who vouch for it; one that has is judged as a server is.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use truechimer_feedforward::Refusal::ServerStep;
use truechimer_feedforward::{Estimate, Exchange, RatePrior, TimePrior};
use truechimer_ntp::LeapIndicator;
use truechimer_time::{Count, CountSpan, Instant, Leaps, Period, Span, Stamp};

use crate::backoff::{Backoff, TO_OPEN};
use crate::cause::Cause;
use crate::config::{RefClockConfig, RefClockKind, Scale};
use crate::event::{Action, Level, Shown, SourceId};
use crate::leap::nearer_showing;
use crate::method::{Beginning, Method};
use crate::peer::{Filter, Peer, Role, Sample};
use crate::report::SourceReport;
use crate::source::{Basis, Heard};

/// Seconds are numbered by a clock that is known better than this.
const NUMBERS: Span = Span::from_millis(400);
/// A sample is missed when it is this late.
const GRACE: Span = Span::from_millis(500);
const SECOND: Span = Span::from_secs(1);
/// Samples missed in a row before the user is told.
const SILENCE: u32 = 4;
/// Leap indicator of a clock that is not synchronised.
const UNSYNCHRONISED: u8 = 3;

/// Clock that a sample is held against, and that numbers the seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbering {
    /// The time at the sample.
    pub(crate) time: Instant,
    /// Bound of its error.
    pub(crate) bound: Span,
}

impl Numbering {
    /// True if it tells one second from the next.
    pub(crate) fn is_enough(&self) -> bool {
        self.bound < NUMBERS
    }
}

/// Knowledge of the engine at a sample.
pub(crate) struct Known<'e> {
    /// Clock by others, if there is one.
    pub(crate) clock: Option<Numbering>,
    pub(crate) leaps: Leaps,
    /// Method and rate that a fresh estimator begins with.
    pub(crate) method: &'e dyn Method,
    pub(crate) rate: RatePrior,
}

/// Reason why a sample is not used: its name, and the text.
type Refusal = (&'static str, String);

/// Next thing that a reference clock does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Plan {
    /// Have it opened at that count.
    Open(Count),
    /// Miss a sample at that count.
    Miss(Count),
}

/// A reference clock.
#[derive(Debug)]
pub(crate) struct RefClock {
    pub(crate) config: RefClockConfig,
    pub(crate) peer: Peer,
    /// Prior of time before the first sample.
    prior: Option<TimePrior>,
    plan: Plan,
    /// Waits before it is opened again.
    retry: Backoff,
    /// The number of the newest sample.
    sequence: Option<u64>,
    /// The newest second that an edge was taken for.
    second: Option<i64>,
    /// Samples missed in a row.
    silence: u32,
    /// Time scale that it was found to show, where that is not configured.
    found: Option<Scale>,
    /// News of that for the user.
    news: Option<String>,
    /// The leap indicator of the newest sample.
    leap: Option<u8>,
    /// Error of the newest sample's count.
    stamp_error: Span,
}

impl RefClock {
    pub(crate) fn new(
        id: SourceId,
        config: RefClockConfig,
        method: &dyn Method,
        mut basis: Basis,
        at: Count,
    ) -> RefClock {
        let kind = config.kind;
        let trust = config.trust && kind != RefClockKind::Pulse;
        basis.settings.pulse = kind == RefClockKind::Pulse;
        if trust {
            // What an earlier daemon left is no word of its own.
            basis.time = None;
        } else {
            // Within what the servers vouch for it is believed anyway, beyond that it never is.
            basis.settings.accept_step_after = Span::ZERO;
        }
        let Basis { settings, rate, time, .. } = basis;
        let poll = config.poll.max(1);
        let filter = Filter::new(method, &Beginning { settings, rate, time, poll });
        let role = if trust { Role::Votes } else { Role::Narrows };
        let mut peer = Peer::new(id, config.name.clone(), kind.into(), role, filter);
        peer.is_numbered = kind == RefClockKind::Pulse;
        RefClock {
            peer,
            config,
            prior: time,
            plan: Plan::Open(at),
            retry: Backoff::new(TO_OPEN),
            sequence: None,
            second: None,
            silence: 0,
            found: None,
            news: None,
            leap: None,
            stamp_error: Span::ZERO,
        }
    }

    /// True if `config` is for the same samples, understood in the same way.
    pub(crate) fn is(&self, config: &RefClockConfig) -> bool {
        let RefClockConfig { name, prefer, require, .. } = self.config.clone();
        self.config == RefClockConfig { name, prefer, require, ..config.clone() }
    }

    /// Takes over another configuration of the same samples.
    pub(crate) fn reconfigure(&mut self, config: RefClockConfig) {
        self.peer.name.clone_from(&config.name);
        self.config = config;
    }

    /// True if it has a vote.
    pub(crate) fn votes(&self) -> bool {
        self.peer.votes()
    }

    /// Leap indicator of its newest sample, if those have one.
    pub(crate) fn leap(&self) -> Option<LeapIndicator> {
        self.leap.map(LeapIndicator::from_bits)
    }

    /// News of it that was not yet told.
    pub(crate) fn news(&mut self) -> Option<String> {
        self.news.take()
    }

    /// When it wants to act next.
    pub(crate) fn deadline(&self) -> Count {
        match self.plan {
            Plan::Open(at) | Plan::Miss(at) => at,
        }
    }

    fn after(&self, at: Count, span: Span) -> Count {
        at + self.nominal().counts(span)
    }

    fn nominal(&self) -> Period {
        self.peer.filter.nominal()
    }

    /// Time between samples.
    fn interval(&self) -> Span {
        Span::from_secs(self.peer.filter.poll().into())
    }

    fn is_pulse(&self) -> bool {
        self.config.kind == RefClockKind::Pulse
    }

    /// If its time has come, says what to do.
    pub(crate) fn act(&mut self, at: Count, actions: &mut Vec<Action>) {
        if !at.at_or_after(self.deadline()) {
            return;
        }
        match self.plan {
            Plan::Open(_) => {
                self.plan = Plan::Miss(self.after(at, self.interval() + SECOND + GRACE));
                let RefClockConfig { kind, path, poll, .. } = self.config.clone();
                actions.push(Action::Watch { source: self.peer.id, kind, path, poll });
            }
            Plan::Miss(_) => {
                let next = self.after(at, self.interval());
                self.peer.tally.poll();
                self.peer.tally.miss();
                self.silence = self.silence.saturating_add(1);
                // A segment that was removed and made again is another one.
                let gone = self.config.kind == RefClockKind::Shm;
                let again = gone && self.silence.is_multiple_of(SILENCE);
                self.plan = if again { Plan::Open(next) } else { Plan::Miss(next) };
                let (trouble, sample) = match self.config.kind {
                    RefClockKind::Pulse => {
                        ("no edges: receiver without a fix, or wire or driver at fault", "edge")
                    }
                    RefClockKind::Phc => ("no readings of the card's clock", "reading"),
                    RefClockKind::Vmclock => ("no readings of the hypervisor's page", "reading"),
                    RefClockKind::Shm => (
                        "no samples: nobody writes the segment, or the receiver has no fix",
                        "sample",
                    ),
                    RefClockKind::Sock => {
                        ("no samples: nobody sends any, or the receiver has no fix", "sample")
                    }
                };
                self.peer.trouble = Some(trouble.into());
                if self.silence == SILENCE {
                    let long = i64::from(SILENCE) * i64::from(self.peer.filter.poll());
                    let text = format!("{}: no {sample} for {long} seconds", self.config.name);
                    actions.push(Action::Note { level: Level::Warning, text });
                }
            }
        }
    }

    /// Tries once more, later: it could not be opened, or is gone. Returns the trouble if it is
    /// new.
    pub(crate) fn failed(&mut self, error: String, at: Count) -> Option<String> {
        self.peer.tally.refuse("unreadable");
        let wait = Span::from_secs(self.retry.take().into());
        self.plan = Plan::Open(self.after(at, wait));
        self.peer.note_trouble(error)
    }

    /// A sample came.
    pub(crate) fn sample(
        &mut self,
        (sequence, stamp, shown): (u64, Result<Stamp, &str>, &Shown),
        known: &Known<'_>,
        at: Count,
    ) -> Heard {
        if self.sequence.replace(sequence) == Some(sequence) {
            let text = "a sample of the same number as the last".into();
            return self.refuse(("duplicate", text));
        }
        self.peer.tally.requests = self.peer.tally.requests.saturating_add(1);
        self.retry.reset();
        self.silence = 0;
        self.plan = Plan::Miss(self.after(at, self.interval() + GRACE));
        self.peer.tally.poll();
        if !known.method.takes_pulses() {
            let text = format!("the estimator '{}' takes no reference clocks", known.method.name());
            return self.refuse(("estimator", text));
        }
        let stamp = match stamp {
            Ok(stamp) => stamp,
            Err(why) => {
                return self.refuse(("no-stamp", format!("a sample without a count: {why}")));
            }
        };
        self.leap = Some(shown.leap).filter(|_| !self.is_pulse());
        if shown.leap >= UNSYNCHRONISED {
            let text = "says that it is not synchronised (leap indicator 3)";
            return self.refuse(("unsynchronised", text.into()));
        }
        if !self.is_pulse() && self.error(shown) <= Span::ZERO {
            let text = "nobody states how far it may be off: add `error` to the configuration";
            return self.refuse(("no-error", text.into()));
        }
        self.peer.is_numbered = shown.pulse;
        let time = if shown.pulse {
            self.numbered(&stamp, shown, known)
        } else {
            self.whole(&stamp, shown, known)
        };
        match time {
            Ok(time) => self.use_sample(&stamp, time, shown, known),
            Err(refusal) => self.refuse(refusal),
        }
    }

    /// The time of a sample that does not say which second it is.
    fn numbered(
        &mut self,
        stamp: &Stamp,
        shown: &Shown,
        known: &Known<'_>,
    ) -> Result<Instant, Refusal> {
        let by_others = known.clock.filter(Numbering::is_enough);
        let Some(clock) = by_others.or_else(|| self.numbers_itself(stamp.count)) else {
            let text = "no clock is known well enough to say which second an edge begins";
            return Err(("no-second", text.into()));
        };
        let fraction = Span::from_nanos(shown.unix_ns.rem_euclid(1_000_000_000));
        // Both stamps of the clock's time are at the end of the time that an edge may have happened
        // in.
        let late = if self.is_pulse() { self.config.error.half() } else { Span::ZERO };
        let edge = clock.time - late - self.config.offset - fraction;
        let second = (edge + Span::from_millis(500)).secs();
        let off = edge - Instant::new(second, 0);
        let allowed = clock.bound + self.reach(stamp, shown);
        self.peer.strays = off.abs() > allowed;
        if self.peer.strays {
            let text = format!("the edge is {off:+} off the second, which is known to {allowed}");
            return Err(("off-second", text));
        }
        if self.second == Some(second) {
            return Err(("duplicate", "two edges in a second".into()));
        }
        Ok(Instant::new(second, 0) + fraction + self.config.offset)
    }

    /// The time of a sample that says all of it: where it has no vote, only what others vouch for.
    fn whole(
        &mut self,
        stamp: &Stamp,
        shown: &Shown,
        known: &Known<'_>,
    ) -> Result<Instant, Refusal> {
        let clock = known.clock.or_else(|| self.numbers_itself(stamp.count));
        let word = self.scale(shown)?;
        let time = |scale| Some(on_scale(shown, scale, known, clock)? + self.config.offset);
        let stated = match word {
            Scale::Auto => self.found,
            stated => Some(stated),
        };
        if let Some(scale) = stated.filter(|_| self.votes()) {
            return time(scale).ok_or_else(no_tai);
        }
        if stated == Some(Scale::Tai) && !known.leaps.known {
            return Err(no_tai());
        }
        let Some(clock) = clock else {
            let text = "no clock is known that vouches for its time";
            return Err(("unvouched", text.into()));
        };
        let allowed = clock.bound + self.reach(stamp, shown);
        let off = |scale| time(scale).map(|time| time - clock.time);
        let fits = |scale: &Scale| off(*scale).is_some_and(|off| off.abs() <= allowed);
        let either = [Scale::Utc, Scale::Tai];
        let scale = match word {
            // It may be told by now to show the other one.
            Scale::Auto => stated.filter(fits).or_else(|| either.into_iter().find(fits)),
            stated => Some(stated).filter(fits),
        };
        self.peer.strays = scale.is_none();
        let Some(scale) = scale else {
            let Some(off) = off(stated.unwrap_or(Scale::Utc)) else { return Err(no_tai()) };
            let text = format!("it is {off:+} off the time, which is known to {allowed}");
            let hint = if stated.is_none() && !known.leaps.known && looks_like_tai(off) {
                "; it may show TAI, which nobody can tell here without a list of leap seconds"
            } else {
                ""
            };
            return Err(("off-time", text + hint));
        };
        if word == Scale::Auto && self.found.replace(scale) != Some(scale) {
            self.news = Some(match scale {
                Scale::Tai => {
                    let ahead = known.leaps.offset_at(clock.time);
                    format!("shows TAI, {ahead} s ahead of UTC")
                }
                _ => "shows UTC".into(),
            });
        }
        time(scale).ok_or_else(no_tai)
    }

    /// Time scale by the word of the sample and of the user, which may not differ; `Auto` if neither has one.
    fn scale(&mut self, shown: &Shown) -> Result<Scale, Refusal> {
        match (shown.scale, self.config.scale) {
            (Scale::Auto, configured) => Ok(configured),
            (told, configured) if configured == Scale::Auto || configured == told => {
                self.found = Some(told);
                Ok(told)
            }
            (told, _) => {
                let [shows, stated] =
                    if told == Scale::Tai { ["TAI", "utc"] } else { ["UTC", "tai"] };
                let text = format!(
                    "it says that it shows {shows}, and the configuration has scale = \"{stated}\""
                );
                Err(("scale", text))
            }
        }
    }

    /// Most that a sample may be off, by its stamp and by its own error.
    fn reach(&self, stamp: &Stamp, shown: &Shown) -> Span {
        let error = self.nominal().span(stamp.error).abs();
        let own = if self.is_pulse() {
            self.config.error.half() + self.config.pulse_error
        } else {
            self.error(shown)
        };
        own + error
    }

    /// Bound of its own error: the user's word or that of the sample, whichever is more.
    fn error(&self, shown: &Shown) -> Span {
        self.config.error.max(shown.error)
    }

    /// The time by the samples before, if there were any.
    fn numbers_itself(&self, at: Count) -> Option<Numbering> {
        self.peer.filter.last?;
        let Estimate { time, bound, .. } = self.peer.estimate(at)?;
        Some(Numbering { time, bound }).filter(Numbering::is_enough)
    }

    fn use_sample(
        &mut self,
        stamp: &Stamp,
        time: Instant,
        shown: &Shown,
        known: &Known<'_>,
    ) -> Heard {
        match self.peer.filter.time(stamp.count).map(|known| known - time) {
            Some(_) if !shown.pulse => {}
            Some(apart) if apart.abs() < SECOND.half() => {}
            // Nothing is known yet, or the clock that numbers the seconds has moved by whole ones:
            // which second it is was never the pulse's own word.
            before => {
                let prior = if before.is_none() { self.prior } else { None };
                self.peer.filter.restart(known.method, known.rate, prior);
            }
        }
        self.peer.own_error =
            if self.is_pulse() { self.config.pulse_error } else { self.error(shown) };
        self.stamp_error = self.nominal().span(stamp.error);
        let exchange = self.exchange(*stamp, time, shown);
        let sample = Sample { exchange, reply: None, rtt: None, smear: Span::ZERO };
        match self.peer.filter.exchange(&exchange) {
            Ok(accepted) => {
                self.peer.used(sample);
                if shown.pulse {
                    self.second = Some((time - self.config.offset).secs());
                }
                Heard::Used(accepted)
            }
            Err(refusal) => {
                if self.votes() && refusal == ServerStep {
                    self.peer.heard(sample);
                }
                match self.refuse((refusal.name(), refusal.to_string())) {
                    Heard::Refused(trouble) => Heard::Rejected(trouble),
                    heard => heard,
                }
            }
        }
    }

    /// The sample as an exchange: of an edge one that takes as long as the edge may have happened
    /// in; of the others one of no length. Their own error is in that of its stamps. A root
    /// distance is taken to stay what it is, and receivers and cards stray from sample to sample.
    fn exchange(&self, stamp: Stamp, time: Instant, shown: &Shown) -> Exchange {
        let (before, more) = if self.is_pulse() {
            let [late, own] = [self.config.error, self.config.pulse_error];
            (self.nominal().counts(late), self.nominal().counts(own))
        } else {
            (CountSpan(1), self.nominal().counts(self.error(shown)))
        };
        let received = Stamp { error: CountSpan(stamp.error.0.saturating_add(more.0)), ..stamp };
        let sent = Stamp { count: stamp.count - CountSpan(before.0.max(1)), ..received };
        let [server_received, server_sent] = [time; 2];
        let [root_distance, precision] = [Span::ZERO; 2];
        Exchange { sent, server_received, server_sent, received, root_distance, precision }
    }

    /// Counts it. The user hears of the 1st, 2nd, 4th, 8th … of each reason: samples come every
    /// second.
    fn refuse(&mut self, (name, text): Refusal) -> Heard {
        let tell = self.peer.tally.refuse(name).is_power_of_two();
        self.peer.trouble = Some(text.clone().into());
        Heard::Refused(tell.then_some(text))
    }

    /// The counter broke: begin again.
    pub(crate) fn new_epoch(&mut self, at: Count) {
        self.peer.new_epoch();
        (self.prior, self.second) = (None, None);
        self.plan = match self.plan {
            Plan::Open(_) => Plan::Open(at),
            Plan::Miss(_) => Plan::Miss(self.after(at, self.interval() + GRACE)),
        };
    }

    /// Reason why no sample that could be used has come, as far as that is known.
    pub(crate) fn unreachable(&self) -> Option<Cause> {
        (self.silence > 0).then_some(Cause::NoReply)
    }

    /// Row in `sources`; `reference` is what its offset is shown against.
    pub(crate) fn report(
        &self,
        at: Count,
        reference: Option<&(Instant, Option<String>)>,
    ) -> SourceReport {
        let is_used = self.peer.filter.last.is_some();
        let is_known = self.peer.filter.newest.is_some();
        let width = match self.config.kind {
            RefClockKind::Pulse => self.config.error,
            _ => self.stamp_error + self.stamp_error,
        };
        let name = match (self.config.kind, self.found.unwrap_or(self.config.scale)) {
            (RefClockKind::Pulse, _) => "PPS",
            (RefClockKind::Phc, Scale::Tai) => "PHC on TAI",
            (RefClockKind::Phc, _) => "PHC",
            (RefClockKind::Shm, _) => "SHM",
            (RefClockKind::Sock, _) => "SOCK",
            (RefClockKind::Vmclock, Scale::Tai) => "vmclock on TAI",
            (RefClockKind::Vmclock, _) => "vmclock",
        };
        SourceReport {
            stratum: is_used.then_some(0),
            reference: Some(name.into()),
            leap: self.leap,
            root_distance: is_used.then_some(self.peer.own_error),
            rtt: is_used.then_some(width),
            stamp_errors: is_known.then_some((self.stamp_error, self.stamp_error)),
            ..self.peer.report(at, reference)
        }
    }
}

/// The instant that a sample shows on this scale; `None` where TAI − UTC is not known.
fn on_scale(
    shown: &Shown,
    scale: Scale,
    known: &Known<'_>,
    about: Option<Numbering>,
) -> Option<Instant> {
    let at = Instant::from_nanos(shown.unix_ns.into());
    if scale == Scale::Tai {
        return known.leaps.known.then_some(at);
    }
    let first = known.leaps.instant(at.secs(), at.frac());
    Some(nearer_showing(first, &known.leaps, about.map(|about| about.time)))
}

fn no_tai() -> Refusal {
    ("no-tai", "it shows TAI, and TAI − UTC is not known: a list of leap seconds is needed".into())
}

/// True if TAI may be so far ahead of UTC in our time.
fn looks_like_tai(off: Span) -> bool {
    (Span::from_secs(35)..=Span::from_secs(40)).contains(&off)
}
