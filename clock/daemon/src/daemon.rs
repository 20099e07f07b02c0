//! The loop around the engine: what happens becomes an event, what the engine wants is done.

use std::collections::{BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use truechimer_audit::Kind;
use truechimer_counter::Counter;
use truechimer_engine::{Config, Engine, Event, Level};
use truechimer_time::{Count, CountSpan, Epoch, Leaps, Period, Rate, Span};
use truechimer_timehands::{Hand, Kept, Mended, PageWriter};

use crate::audit::Audit;
use crate::changes::{Change, Changes};
use crate::clock_set::ClockSet;
use crate::clockbound::ClockBound;
use crate::config::Settings;
use crate::control::{Accepted, Answer, Changed, DaemonInfo, Handler, Reloaded, Server};
use crate::host::{Checked, Host};
use crate::metrics::{self, Snapshot};
use crate::net::Net;
use crate::options::Options;
use crate::proof::Proofs;
use crate::ptp::PtpPorts;
use crate::refclocks::RefClocks;
use crate::resolve::Resolver;
use crate::rtc::Rtc;
use crate::run::DaemonError;
use crate::sandbox::Sandbox;
use crate::sock_out::SockOut;
use crate::state::{Keeping, Retry};
use crate::sys;
use crate::system_clock::{self, SystemClock};
use crate::wander::{self, Wander};

mod act;
mod begin;
mod keep;

/// The longest wait, ms: the flags are looked at this often even if a signal came just before
/// waiting began.
const MAX_WAIT: i32 = 1000;
/// The wait while a name is being looked up, ms: the answer comes by another way than poll(2).
const LOOK_UP_WAIT: i32 = 50;
/// Before anything else the daemon waits for this long if the counter is `CLOCK_MONOTONIC_RAW`,
/// ms: in clock simulators time moves in poll(2) only, and has to have moved.
const FIRST_WAIT: i32 = 150;
/// Interval at which the rate is saved and the list of leap seconds read again.
const CHORES: Span = Span::from_secs(3600);
/// A server that comes and goes with every reply does not make for more writing than this.
const CHANGES: Span = Span::from_secs(16);
/// The most events that are handled in one turn; what is left comes first in the next.
const EVENTS_PER_TURN: usize = 256;

/// The daemon at work.
pub(crate) struct Daemon<'n> {
    notes: &'n mut dyn FnMut(Level, &str),
    settings: Settings,
    /// The engine's part of the settings as it was read, and the changes since that lie over it.
    configured: Config,
    changes: Changes,
    counter: Counter,
    nominal: Period,
    resolution: CountSpan,
    started: Count,
    engine: Engine,
    page: PageWriter,
    epoch: Epoch,
    host: Host,
    clock_set: Option<ClockSet>,
    net: Net,
    proofs: Proofs,
    ptp: PtpPorts,
    refclocks: RefClocks,
    resolver: Resolver,
    system_clock: SystemClock,
    rtc: Option<Rtc>,
    control: Option<Server>,
    metrics: Option<truechimer_metrics::Server>,
    clockbound: Option<ClockBound>,
    sock_out: Option<SockOut>,
    log: Option<truechimer_replay::Log>,
    audit: Option<Audit>,
    state: Keeping,
    /// Where it says whose word the clock page is, and what is held against whom.
    beside: Option<PathBuf>,
    chores: Count,
    /// State that was kept last: whether the clock is held against its server, and who agrees with
    /// it; and when that was.
    kept: (bool, Vec<String>, Count),
    /// State that is left beside the page, likewise.
    told: (bool, Vec<String>),
    /// When a state that could not be kept is tried again.
    retry: Retry,
    /// The last thing said about leap seconds, so that it is said once.
    leap_note: Option<String>,
    /// Fault of the page that was said last, likewise.
    page_note: Option<String>,
    wander: Wander,
    events: VecDeque<Event>,
    fds: Vec<sys::pollfd>,
    /// Wishes by which the configuration is read again.
    options: Options,
    sandbox: Sandbox,
}

impl<'n> Daemon<'n> {
    /// Waits until something happens, and does all that is to be done then.
    pub(crate) fn turn(&mut self) -> Result<(), DaemonError> {
        if let Some(log) = &mut self.log {
            log.flush();
        }
        self.flush_audit();
        let mut fds = std::mem::take(&mut self.fds);
        fds.clear();
        // Whoever sends faster than events are handled waits in the kernel's queues.
        if self.events.len() < EVENTS_PER_TURN {
            self.net.interests(&mut fds);
            self.ptp.interests(&mut fds);
        }
        let sockets_end = fds.len();
        self.refclocks.interests(&mut fds, self.counter.read());
        let receivers = fds.len();
        if let Some(control) = &self.control {
            control.interests(&mut fds);
        }
        if let Some(metrics) = &self.metrics {
            metrics.interests(&mut fds);
        }
        let watched = fds.len();
        fds.extend(self.clock_set.as_ref().map(ClockSet::interest));
        let happened = match sys::poll(&mut fds, self.wait()) {
            Ok(happened) => happened,
            // A signal: whoever calls looks at the flags.
            Err(why) if why.kind() == ErrorKind::Interrupted => return Ok(()),
            Err(why) => return Err(DaemonError::System { what: "poll", why }),
        };
        self.look_after_page();
        let clock_set = fds.get(watched).is_some_and(|fd| fd.revents != 0);
        if clock_set {
            self.clock_set = self.clock_set.take().and_then(ClockSet::again);
        }
        let (sockets, clients) = fds.split_at(receivers);
        let (sockets, receivers) = sockets.split_at(sockets_end);
        let replies = sockets.iter().any(|fd| fd.revents != 0);
        let now = self.counter.read();
        self.refclocks.arrived(receivers, now);
        // A check comes before replies, so that none is used whose round trip saw the counter
        // break; and whenever a wait ran out, because a counter that stands still is never due.
        let ran_out = !happened && !self.resolver.is_waiting();
        let due = self.host.has_lapsed() || now.at_or_after(self.host.due(now));
        if replies || ran_out || clock_set || due {
            self.check()?;
        }
        if replies {
            // What it says of a break it says with the first of the events: see `handle`.
            let mut events = self.net.receive(sockets);
            events.iter_mut().for_each(|event| self.proofs.check(event));
            events.extend(self.ptp.receive(sockets, self.net.cards()));
            self.note_cards();
            // By a counter that stands still a round trip takes no time at all.
            let still = self.host.is_still();
            self.events.extend(events.into_iter().filter(|event| !still || !has_counts(event)));
        }
        self.look_for_samples(now)?;
        while let Some((source, found)) = self.resolver.answer() {
            self.found(source, found);
        }
        self.events.extend(self.rtc.as_mut().and_then(|rtc| rtc.look(now, self.nominal)));
        self.drain();
        let now = self.counter.read();
        if self.engine.next_deadline().is_some_and(|due| now.at_or_after(due)) {
            self.handle(now, Event::Timer);
            self.drain();
        }
        self.answer(clients);
        self.page.deviate(self.engine.difference_deviation());
        // The page goes on saying what it said while nobody is followed.
        if let reference @ Some(_) = self.engine.followed() {
            self.page.follow(reference);
        }
        self.keep_up(now);
        self.net.cards().renew(now);
        if now.at_or_after(self.chores) {
            self.chores = now + self.nominal.counts(CHORES);
            self.tell_next(now);
            self.save();
            self.read_leaps();
        }
        self.fds = fds;
        Ok(())
    }

    /// Time until something is to be done, ms.
    fn wait(&self) -> i32 {
        if !self.events.is_empty() {
            return 0;
        }
        if self.host.is_still() {
            return MAX_WAIT;
        }
        let now = self.counter.read();
        let deadlines =
            [Some(self.host.due(now)), self.engine.next_deadline(), self.refclocks.due(now)];
        let next = deadlines.into_iter().flatten().map(|due| due - now).min();
        let next = self.nominal.span(next.unwrap_or(CountSpan(i64::MAX)));
        // Rounded up. Never zero: where time stands still between waits, it has to move on.
        let ms = (next.as_nanos().saturating_add(999_999) / 1_000_000).clamp(1, MAX_WAIT.into());
        let ms = i32::try_from(ms).unwrap_or(MAX_WAIT);
        if self.resolver.is_waiting() { ms.min(LOOK_UP_WAIT) } else { ms }
    }

    /// Takes the samples of reference clocks that are due.
    fn look_for_samples(&mut self, now: Count) -> Result<(), DaemonError> {
        if !self.refclocks.due(now).is_some_and(|due| now.at_or_after(due)) {
            return Ok(());
        }
        let events = self.refclocks.look(now);
        if !events.is_empty() {
            // None is used if the counter broke since the sample before.
            let epoch = self.epoch;
            self.check()?;
            let unbroken = epoch == self.epoch && !self.host.is_still();
            self.events.extend(events.into_iter().filter(|event| unbroken || !has_counts(event)));
        }
        Ok(())
    }

    /// Compares the host's clocks, and tells readers that somebody does.
    fn check(&mut self) -> Result<(), DaemonError> {
        // Readers of the system clock should hear first of all if somebody has set it.
        self.with_clockbound(ClockBound::look);
        let Checked { count, kept, events, warnings, lost } = self.host.check();
        for event in events {
            self.handle(count, event);
        }
        if let Some(reason) = lost {
            return Err(DaemonError::CounterLost { reason });
        }
        for text in warnings {
            self.note(Level::Warning, &text);
        }
        self.tend(count, kept);
        if let Some(control) = &mut self.control {
            control.resume();
        }
        if let Some(metrics) = &mut self.metrics {
            metrics.resume();
        }
        let is_held = self.clockbound.as_ref().is_some_and(ClockBound::holds_steering);
        if self.system_clock.is_steered() && !is_held {
            let reading = system_clock::read(self.counter, self.nominal);
            if !self.host.is_withheld() {
                self.handle(reading.count, Event::SystemClock(reading));
            }
        }
        self.tell_clockbound();
        self.send_sample();
        self.look_for_audit(count);
        self.look_for_wander(count);
        Ok(())
    }

    /// Keeps the rate of the counter now and then, once it is known so well that how it changes is
    /// the oscillator's doing.
    fn look_for_wander(&mut self, at: Count) {
        let is_of_use = !self.host.has_lapsed() && !self.host.is_still();
        if !is_of_use || !self.wander.is_due(at, self.nominal) {
            return;
        }
        let most = Rate(self.settings.engine.max_wander.0 / wander::MARGIN);
        if self.engine.difference_deviation().is_some_and(|deviation| deviation <= most)
            && let Some(rate) = self.engine.report(at).skew
        {
            self.wander.keep(at, rate, self.nominal);
        }
    }

    /// Sends a sample of the clock, if somebody wants any.
    fn send_sample(&mut self) {
        if self.host.has_lapsed() || self.host.is_still() || self.host.is_withheld() {
            return;
        }
        let (counter, nominal) = (self.counter, self.nominal);
        let (hand, out) = (*self.engine.hand(), self.sock_out.as_mut());
        if let Some(text) = out.and_then(|out| out.tell(&hand, counter, nominal)) {
            self.note(Level::Warning, &text);
        }
    }

    /// Records how well the clock is known, after the host's clocks were found in order.
    fn look_for_audit(&mut self, at: Count) {
        let Some(mut audit) = self.audit.take() else { return };
        if !self.host.has_lapsed() && !self.host.is_still() {
            let held = self.held(at);
            let has_turned = audit.has_turned(at, self.engine.standings(at));
            if has_turned || audit.wants_report(at) || !audit.is_held(&held) {
                audit.sources(&self.engine.report(at), held);
            }
            audit.look(at);
            let holds = audit.holds(at);
            let reason = || match holds {
                true => "a daemon tends the clock again",
                false => "no news before the bound of the last hand ran out",
            };
            if audit.announce(at, || reason().into()) {
                audit.sources(&self.engine.report(at), self.held(at));
            }
        }
        self.audit = Some(audit);
    }

    /// Records an event.
    fn record(&mut self, kind: Kind, text: impl FnOnce(&Self) -> String) {
        let Some(mut audit) = self.audit.take() else { return };
        audit.event(self.counter.read(), kind, text(self));
        self.audit = Some(audit);
    }

    fn flush_audit(&mut self) {
        if let Some((level, text)) = self.audit.as_mut().and_then(Audit::flush) {
            self.note(level, &text);
        }
    }

    /// Sees to it that what is written next goes into a page that readers find.
    fn look_after_page(&mut self) {
        let tended = self.page.tend();
        let path = self.page.path().display();
        let text = match tended {
            Ok(None) => {
                self.page_note = None;
                return;
            }
            Ok(Some(Mended::Content)) => format!(
                "somebody had shortened or overwritten the clock page {path}: it is whole again; \
                 programs that read a shortened one ended by SIGBUS"
            ),
            Ok(Some(Mended::Name)) => format!(
                "the clock page {path} was removed, and is there again; the one of before is written \
                 on for programs that have it open"
            ),
            Err(why) => why.to_string(),
        };
        if self.page_note.as_ref() != Some(&text) {
            self.note(Level::Warning, &text);
            self.page_note = Some(text);
        }
    }

    /// Tells readers that the clocks are in order, and where the counter is.
    fn tend(&mut self, count: Count, kept: Option<Kept>) {
        // Not if what was just read is of no use any more: the next check tells.
        if self.host.has_lapsed() {
            return;
        }
        match kept {
            Some(kept) => self.page.keep(kept),
            None => self.page.heartbeat(count),
        }
        if self.host.has_news() {
            let hand = *self.engine.hand();
            self.publish(&hand);
        }
    }

    /// Handles the events that wait, and those that come of them, within reason.
    fn drain(&mut self) {
        for _ in 0..EVENTS_PER_TURN {
            let Some(event) = self.events.pop_front() else { return };
            self.handle(self.counter.read(), event);
        }
    }

    fn handle(&mut self, at: Count, event: Event) {
        if let Some(lapse) = self.host.lapsed() {
            let at = self.counter.read();
            self.tell(at, lapse);
            if !has_counts(&event) {
                self.tell(at, event);
            }
            return;
        }
        self.tell(at, event);
    }

    fn tell(&mut self, at: Count, event: Event) {
        if let Some(log) = &mut self.log {
            log.event(at, &event);
        }
        let actions = self.engine.handle(at, event);
        self.act(actions);
        if let Some(text) = self.engine.warning() {
            self.note(Level::Warning, &text);
        }
    }

    /// Records a hand, and the sources where it brings another status.
    fn record_hand(&mut self, hand: &Hand) {
        let Some(mut audit) = self.audit.take() else { return };
        let now = self.counter.read();
        audit.publish(hand, now);
        let has_turned = audit.has_turned(now, self.engine.standings(now));
        if audit.announce(now, || self.engine.report(now).reason) || has_turned {
            audit.sources(&self.engine.report(now), self.held(now));
        }
        self.audit = Some(audit);
    }

    /// Names of the servers that are held off.
    fn held(&self, at: Count) -> BTreeSet<String> {
        self.engine.held(at).into_iter().map(|held| held.server).collect()
    }

    fn answer(&mut self, clients: &[sys::pollfd]) {
        let ready = |fd| clients.iter().any(|client| client.fd == fd && client.revents != 0);
        if let Some(mut server) = self.control.take() {
            server.serve(ready, self.counter.read(), self);
            self.control = Some(server);
        }
        if let Some(mut server) = self.metrics.take() {
            server.serve(ready, &mut || metrics::families(&self.snapshot()));
            self.metrics = Some(server);
        }
    }

    /// All that metrics tell, now.
    fn snapshot(&mut self) -> Snapshot {
        let hand = *self.engine.hand();
        let system = system_clock::read(self.counter, self.nominal);
        let ours = hand.leaps.utc(hand.time_at(system.count)).unix_nanos();
        let offset = Span::from_nanos_wide(i128::from(system.unix_ns) - ours);
        let made = self.page.last_hand().map(|(_, made)| made.count);
        let heartbeat = self.page.last_heartbeat();
        let answer = self.report();
        Snapshot {
            counter: self.counter.kind(),
            hand_age: made.map(|made| hand.period.span(answer.report.at - made)),
            heartbeat_age: made.map(|_| hand.period.span(answer.report.at - heartbeat)),
            max_wander: self.settings.engine.max_wander,
            wander: self.wander.measured(),
            difference_deviation: self.engine.difference_deviation(),
            system_offset: hand.status.bound_holds().then_some(offset),
            is_steered: self.system_clock.is_steered(),
            audit_lost: self.audit.as_ref().map(Audit::lost),
            answer,
        }
    }

    /// Tells what is new of the cards that stamp.
    fn note_cards(&mut self) {
        for (level, text) in self.net.cards().notes() {
            self.note(level, &text);
        }
    }

    fn note(&mut self, level: Level, text: &str) {
        if let Some(audit) = &mut self.audit {
            audit.note(self.counter.read(), self.engine.hand().status, level, text);
        }
        (self.notes)(level, text);
    }
}

impl Handler for Daemon<'_> {
    fn report(&mut self) -> Answer {
        let now = self.counter.read();
        let mut report = self.engine.report(now);
        for (shown, id) in report.sources.iter_mut().zip(self.engine.servers()) {
            (shown.cookies, shown.aead) = self.proofs.cookies(id).unzip();
        }
        Answer {
            daemon: DaemonInfo {
                version: crate::VERSION.into(),
                pid: std::process::id(),
                counter: format!("{} ({})", self.counter.kind(), self.counter.description()),
                resolution: self.nominal.span(self.resolution),
                uptime: self.nominal.span(now - self.started),
                memory: sys::resident(),
                page: self.page.path().into(),
                replay_log: self.log.as_ref().and(self.settings.replay_log.clone()),
                state: self.state.path().map(Path::to_owned),
                system_clock: self.system_clock.description(),
                floods: self.net.floods(),
                cards: self.net.cards().reports(),
                clockbound: self.clockbound.as_ref().map(ClockBound::reports).unwrap_or_default(),
            },
            report,
        }
    }

    fn reload(&mut self) -> Result<Reloaded, String> {
        self.read_again().map(|warnings| Reloaded { reloading: true, warnings })
    }

    fn accept(&mut self, source: Option<&str>) -> Result<Accepted, String> {
        let now = self.counter.read();
        let id = self.engine.acceptable(source, now)?;
        let accepted = self.engine.source_report(id, now).map_or_else(String::new, |s| s.name);
        self.handle(now, Event::Accept { source: id });
        // The next daemon should know, however this one ends.
        self.tell_next(now);
        self.save();
        let reason = self.engine.report(self.counter.read()).reason;
        Ok(Accepted { accepted, status: format!("{}: {reason}", self.engine.hand().status) })
    }

    fn change(&mut self, change: Change, source: Option<&str>) -> Result<Changed, String> {
        self.make_change(change, source).map(|changed| Changed { changed })
    }
}

/// True if the event tells of counts, which mean nothing in another epoch.
fn has_counts(event: &Event) -> bool {
    matches!(
        event,
        Event::Reply { .. }
            | Event::Sample { .. }
            | Event::Ptp(_)
            | Event::Check(_)
            | Event::SystemClock(_)
            | Event::Rtc(_)
    )
}

/// True if an instant means the same under both: then one can take the place of the other.
fn same_scale(a: &Leaps, b: &Leaps, hand: &Hand) -> bool {
    a.known == b.known && (!a.known || a.offset_at(hand.time) == b.offset_at(hand.time))
}

#[cfg(test)]
mod moved;
#[cfg(test)]
mod narrow;

#[cfg(test)]
mod tests;
