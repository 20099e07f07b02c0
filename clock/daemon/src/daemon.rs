//! The loop around the engine: what happens becomes an event, what the engine wants is done.

use std::collections::{BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use truechimer_audit::Kind;
use truechimer_confine::Rules;
use truechimer_counter::{Counter, nominal, realtime_pair, resolution};
use truechimer_engine::{
    Action, Config, Engine, Event, Level, PtpAction, Saved, SourceId, Start, Steer,
};
use truechimer_time::{Count, CountSpan, CounterKind, Epoch, Leaps, Period, Span};
use truechimer_timehands::{Hand, Kept, PageWriter, places};

use crate::audit::{self, Audit};
use crate::clock_set::ClockSet;
use crate::clockbound::{self, ClockBound};
use crate::config::{ConfigError, Place, Settings};
use crate::control::{self, Accepted, Answer, DaemonInfo, Handler, Server};
use crate::host::{self, Checked, Host};
use crate::hypervisor::Hypervisor;
use crate::metrics::{self, Snapshot};
use crate::net::Net;
use crate::nts::Nts;
use crate::ptp::PtpPorts;
use crate::refclocks::RefClocks;
use crate::replay;
use crate::resolve::{Found, Resolver};
use crate::rtc::Rtc;
use crate::run::DaemonError;
use crate::sandbox::Sandbox;
use crate::sock_out::SockOut;
use crate::state::{self, Keeping, Retry};
use crate::system_clock::{self, SystemClock};
use crate::{leaps, sandbox, sys};

/// The longest wait, ms: the flags are looked at this often even if a signal came just before
/// waiting began.
const MAX_WAIT: i32 = 1000;
/// The wait while a name is being looked up, ms: the answer comes by another way than poll(2).
const LOOK_UP_WAIT: i32 = 50;
/// Before anything else the daemon waits for this long if the counter is `CLOCK_MONOTONIC_RAW`,
/// ms: in clock simulators time moves in poll(2) only, and has to have moved.
const FIRST_WAIT: i32 = 150;
/// How often the rate is saved and the list of leap seconds read again.
const CHORES: Span = Span::from_secs(3600);
/// A server that comes and goes with every reply does not make for more writing than this.
const CHANGES: Span = Span::from_secs(16);
/// The most events that are handled in one turn; what is left comes first in the next.
const EVENTS_PER_TURN: usize = 256;

/// The daemon at work.
pub(crate) struct Daemon<'n> {
    notes: &'n mut dyn FnMut(Level, &str),
    settings: Settings,
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
    nts: Nts,
    ptp: PtpPorts,
    refclocks: RefClocks,
    resolver: Resolver,
    system_clock: SystemClock,
    rtc: Option<Rtc>,
    control: Option<Server>,
    metrics: Option<truechimer_metrics::Server>,
    clockbound: Option<ClockBound>,
    sock_out: Option<SockOut>,
    log: Option<replay::Log>,
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
    events: VecDeque<Event>,
    fds: Vec<sys::pollfd>,
    reload: bool,
    sandbox: Sandbox,
}

impl<'n> Daemon<'n> {
    /// Opens everything and takes the engine's first actions.
    pub(crate) fn start(
        settings: Settings,
        notes: &'n mut dyn FnMut(Level, &str),
    ) -> Result<Daemon<'n>, DaemonError> {
        Daemon::of(Counter::open(settings.counter)?, settings, notes)
    }

    /// Makes one with this counter, whatever the settings say.
    fn of(
        counter: Counter,
        settings: Settings,
        notes: &'n mut dyn FnMut(Level, &str),
    ) -> Result<Daemon<'n>, DaemonError> {
        let page = settings.page.clone().unwrap_or_else(places::for_daemon);
        // No link on the way to it that another user could have put there; `create` follows none
        // in its place. What is not there yet, `create` makes or names.
        match truechimer_files::Entry::itself(&page) {
            Err(why) if why.kind() != ErrorKind::NotFound => {
                return Err(DaemonError::PagePlace { path: page, why });
            }
            _ => {}
        }
        let page = PageWriter::create(page)?;
        // Before the first count: what it says later is said of that.
        let (hypervisor, hypervisor_note) = Hypervisor::open(&settings.vmclock);
        let marker = hypervisor.as_ref().map(Hypervisor::marker);
        if counter.kind() == CounterKind::Raw {
            // Cut short by a signal or not at all: nothing depends on it but simulators.
            let _ = sys::poll(&mut [], FIRST_WAIT);
        }
        let nominal = nominal(counter)?;
        let resolution = resolution(counter);
        let clockbound = open_clockbound(&settings, counter.kind(), nominal.period)?;
        let mut seed = [0; 32];
        sys::random(&mut seed)
            .map_err(|why| DaemonError::System { what: "no random numbers", why })?;

        let unix = realtime_pair(counter, 1).unix_ns.div_euclid(1_000_000_000);
        let (leaps, leap_note) = match leaps::listed(&settings.leap_file, unix) {
            Ok(leaps) => (leaps.unwrap_or_else(leaps::from_kernel), None),
            Err(why) => (leaps::from_kernel(), Some(why)),
        };
        // From here on counts are kept: what is read before a lapse is of no use after it.
        let lapses = counter.lapses();
        let moved = host::has_moved(page.marker(), marker);
        let (id, left) =
            host::identity(counter, page.last_hand(), page.last_kept(), settings.fresh || moved)?;
        let warm = left.filter(|hand| same_scale(&hand.leaps, &leaps, hand));
        let state = Keeping::at(&settings.state, page.path(), &settings.engine);
        let beside = beside(&settings.state, page.path());
        let (saved, state_note) = if settings.fresh {
            (None, Some("what the clock page and the state say is forgotten (--fresh)".into()))
        } else {
            load(state.path(), beside.as_deref())
        };
        let (rtc, rtc_note) = Rtc::open(counter);
        let (rtc, reading) = rtc.unzip();
        let start = Start {
            at: counter.read(),
            counter: id,
            nominal: nominal.period,
            nominal_error: nominal.error,
            resolution,
            seed,
            leaps,
            warm,
            saved,
            built: if truechimer_counter::is_simulated() { 0 } else { crate::RELEASED },
            rtc: reading,
        };
        let (log, log_note) = create_log(settings.replay_log.as_deref(), &start, &settings.engine);
        let wanted = settings.audit.clone();
        let audit = wanted.map(|wanted| Audit::new(wanted, counter, nominal.period));
        let (control, control_note) = bind(&settings.control, page.path());
        let (metrics, metrics_note) = open_metrics(&settings);
        let sock_out = settings.sock_out.as_deref().map(SockOut::new).transpose();
        let sock_out = sock_out
            .map_err(|why| DaemonError::System { what: "no socket for `sock-out`", why })?;
        let mut system_clock = SystemClock::default();
        system_clock.configure(settings.engine.discipline);
        let started = start.at;
        let (engine, actions) = Engine::new(settings.engine.clone(), start);
        let nts = Nts::new(&settings, state.path());
        let mut daemon = Daemon {
            notes,
            counter,
            nominal: nominal.period,
            resolution,
            started,
            engine,
            page,
            epoch: id.epoch,
            host: Host::new(counter, nominal.period, lapses),
            clock_set: ClockSet::watch(),
            net: Net::new(counter, nominal.period, resolution),
            nts,
            ptp: PtpPorts::new(counter, nominal.period, resolution),
            refclocks: RefClocks::new(counter, nominal.period, resolution),
            resolver: Resolver::new(),
            system_clock,
            rtc,
            control,
            metrics,
            clockbound,
            sock_out,
            log,
            audit: None,
            state,
            beside,
            chores: started + nominal.period.counts(CHORES),
            // The first change is kept at once.
            kept: (false, Vec::new(), started - nominal.period.counts(CHANGES)),
            told: (false, Vec::new()),
            retry: Retry::None,
            leap_note: None,
            events: VecDeque::new(),
            fds: Vec::new(),
            reload: false,
            sandbox: Sandbox::default(),
            settings,
        };
        daemon.introduce();
        daemon.audit = audit;
        daemon.record(Kind::Start, |daemon| {
            format!(
                "version {} on the counter {}: {}",
                crate::VERSION,
                daemon.counter.kind(),
                audit::configured(&daemon.settings.engine)
            )
        });
        if let Some(place) = daemon.audit.as_ref().map(Audit::description) {
            daemon.note(Level::Info, &format!("audit record: {place}"));
        }
        let (level, text) = daemon.state.note();
        daemon.note(level, &text);
        daemon.host.hear(hypervisor);
        if let Some((level, text)) = hypervisor_note {
            daemon.note(level, &text);
        }
        let looks = daemon.settings.clockbound.as_ref().is_some_and(|wanted| wanted.vmclock);
        if looks && daemon.host.marker().is_none_or(|marker| marker.device != 0) {
            let text = "[clockbound] has vmclock = true, but /dev/vmclock0 is not what is looked at \
                        here: clients of ClockBound are not told to look at it";
            daemon.note(Level::Warning, text);
        }
        if moved {
            let text = "the machine was migrated or restored since the last daemon wrote the clock \
                        page (vmclock): its time means nothing any more";
            daemon.note(Level::Warning, text);
        }
        if let Some(note) = rtc_note {
            daemon.note(Level::Info, &note);
        }
        for note in [state_note, log_note, control_note, metrics_note].into_iter().flatten() {
            daemon.note(Level::Warning, &note);
        }
        daemon.note_leaps(leap_note);
        // It makes the record's directory, if need be, whose parent is not written any more.
        daemon.flush_audit();
        // Everything is open, and what follows starts threads, which inherit it.
        daemon.sandbox = Sandbox::enter(daemon.wanted());
        if let Some(text) = daemon.sandbox.note() {
            daemon.note(Level::Info, &text);
        }
        daemon.act(actions);
        Ok(daemon)
    }

    /// Rights that the daemon needs from now on, unless it is to keep all that it has.
    fn wanted(&self) -> Option<Rules> {
        let state = self.state.path().into_iter().chain(self.beside.as_deref());
        self.settings.sandbox.then(|| sandbox::rules(&self.settings, self.page.path(), state))
    }

    fn introduce(&mut self) {
        let text = format!(
            "version {}; counter {} ({}), nominally {} Hz, in steps of {}; clock page {}",
            crate::VERSION,
            self.counter.kind(),
            self.counter.description(),
            self.nominal.hz(),
            self.nominal.span(self.resolution),
            self.page.path().display()
        );
        self.note(Level::Info, &text);
        if let Some(pages) = self.clockbound.as_ref().map(ClockBound::description) {
            self.note(Level::Info, &format!("pages for clients of ClockBound: {pages}"));
        }
        if let Some(place) = self.metrics.as_ref().map(truechimer_metrics::Server::place) {
            self.note(Level::Info, &format!("metrics are served at {place}"));
        }
    }

    /// Waits until something happens, and does all that is to be done then.
    pub(crate) fn turn(&mut self) -> Result<(), DaemonError> {
        if let Some(log) = &mut self.log {
            log.flush();
        }
        self.flush_audit();
        let mut fds = std::mem::take(&mut self.fds);
        fds.clear();
        self.net.interests(&mut fds);
        self.ptp.interests(&mut fds);
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
            events.iter_mut().for_each(|event| self.nts.check(event));
            events.extend(self.ptp.receive(sockets));
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
        if now.at_or_after(self.chores) {
            self.chores = now + self.nominal.counts(CHORES);
            self.tell_next(now);
            self.save();
            self.read_leaps();
        }
        self.fds = fds;
        Ok(())
    }

    /// Saves who agrees and who is held off, if that has changed: the next daemon should know,
    /// however this one ends.
    fn keep_up(&mut self, now: Count) {
        let (holds, agreed) = (!self.engine.held(now).is_empty(), self.engine.agreed(now));
        let (held, kept, at) = &self.kept;
        let changed = agreed != *kept && self.nominal.span(now - *at) >= CHANGES;
        let changed = holds != *held || changed;
        if changed && self.told != (holds, agreed.clone()) {
            self.tell_next(now);
            self.told = (holds, agreed.clone());
        }
        let changed = self.retry == Retry::None && changed;
        if (changed || self.retry.is_due(now)) && self.save() {
            self.kept = (holds, agreed, now);
        }
    }

    /// Leaves beside the clock page what the next daemon on it should know, whoever that follows.
    fn tell_next(&mut self, now: Count) {
        let left = self.engine.left(now);
        let Some((path, left)) = self.beside.as_ref().zip(left) else { return };
        if let Err(why) = state::save(path, &left) {
            let text = format!(
                "whose word the clock page is cannot be kept in {}: {why}; the next daemon will not \
                 know it",
                path.display()
            );
            self.beside = None;
            self.note(Level::Warning, &text);
        }
    }

    /// How long nothing is to be done, in ms.
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
        if self.system_clock.is_steered() {
            let reading = system_clock::read(self.counter, self.nominal);
            self.handle(reading.count, Event::SystemClock(reading));
        }
        self.tell_clockbound();
        self.send_sample();
        self.look_for_audit(count);
        Ok(())
    }

    /// Sends a sample of the clock, if somebody wants any.
    fn send_sample(&mut self) {
        if self.host.has_lapsed() || self.host.is_still() {
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
            let held = self.engine.held(at);
            let names = || held.iter().map(|held| held.server.as_str());
            if audit.wants_report(at) || !audit.is_held(names()) {
                let names: BTreeSet<String> = names().map(str::to_owned).collect();
                audit.sources(&self.engine.report(at), names);
            }
            audit.look(at);
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
        self.announce();
    }

    /// Records another status, unless a line of the log has done so.
    fn announce(&mut self) {
        let now = self.counter.read();
        if let Some(audit) = &mut self.audit {
            audit.announce(now, || self.engine.report(now).reason);
        }
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            if let Some(log) = &mut self.log {
                log.action(&action);
            }
            self.carry_out(action);
        }
        if let Some(why) = self.log.as_mut().and_then(replay::Log::trouble) {
            self.log = None;
            self.note(Level::Warning, &format!("the replay log ends here: {why}"));
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Resolve { source, host, port, nts } => self.resolve(source, (&host, port), nts),
            Action::Send { source, to, packet } => {
                let event = match self.nts.protect(source, &packet) {
                    Ok(packet) => self.net.send(source, &to, &packet),
                    Err(error) => Some(Event::Unprotected { source, error }),
                };
                self.events.extend(event);
            }
            Action::Watch { source, kind, path, poll } => {
                self.events.extend(self.refclocks.watch(source, kind, &path, poll));
            }
            Action::Ptp(PtpAction::Listen { source, interface, delay }) => {
                self.events.extend(self.ptp.listen(source, &interface, delay));
            }
            Action::Ptp(PtpAction::Ask { source, packet }) => {
                self.events.extend(self.ptp.ask(source, &packet));
            }
            Action::Close { source } => {
                self.net.close(source);
                self.nts.close(source);
                self.ptp.close(source);
                self.refclocks.close(source);
            }
            Action::Publish(hand) => self.publish(&hand),
            Action::Steer(steer) => {
                self.with_clockbound(|pages, counter| pages.before(steer, counter));
                let result = self.system_clock.steer(steer);
                if let Some(pages) = &mut self.clockbound {
                    pages.after(steer);
                }
                if let (Steer::Step(by), Some(audit)) = (steer, &mut self.audit) {
                    let more = result.as_ref();
                    let more = more.map_or_else(String::new, |(_, text)| format!(": {text}"));
                    audit.step(self.counter.read(), by, &more);
                }
                if let Some((level, text)) = result {
                    self.note(level, &text);
                }
            }
            Action::Note { level, text } => self.note(level, &text),
        }
    }

    /// Looks a server up; one that is to prove itself, by an exchange of keys, unless those of the daemon
    /// before will do.
    fn resolve(&mut self, source: SourceId, (host, port): (&str, u16), nts: bool) {
        let answer = if !nts {
            self.nts.close(source);
            self.resolver.begin(source, (host, port), None)
        } else if let Some(kept) = self.nts.kept(host, port) {
            Some((source, Ok(kept)))
        } else {
            match self.nts.exchange() {
                Ok(exchange) => self.resolver.begin(source, (host, port), Some(exchange)),
                Err(why) => Some((source, Err(why))),
            }
        };
        if nts {
            self.nts.expect(source);
        }
        if let Some((source, found)) = answer {
            self.found(source, found);
        }
    }

    fn found(&mut self, source: SourceId, found: Result<Found, String>) {
        let result = found.map(|found| {
            if let Some(session) = found.session {
                self.nts.begin(source, session);
            }
            found.addresses
        });
        self.events.push_back(Event::Resolved { source, result });
    }

    fn publish(&mut self, hand: &Hand) {
        if let Some(audit) = &mut self.audit {
            audit.publish(hand, self.counter.read());
        }
        if hand.counter.epoch != self.epoch {
            self.epoch = hand.counter.epoch;
            self.net.forget();
            self.ptp.forget();
            self.refclocks.forget();
            if let Some(out) = &mut self.sock_out {
                out.forget();
            }
            if let Some(rtc) = &mut self.rtc {
                rtc.forget();
            }
            self.events.retain(|event| !has_counts(event));
            // The old count may be years away by the new epoch's.
            self.chores = self.counter.read() + self.nominal.counts(CHORES);
            self.kept.2 = self.counter.read();
            self.retry = self.retry.in_new_epoch(self.counter.read());
            if let Some(pages) = &mut self.clockbound {
                pages.forget();
            }
        }
        let made = self.host.made();
        // A hand of counts that are over is of no use: the next event begins a new epoch.
        if !self.host.has_lapsed() {
            self.page.mark(self.host.marker());
            self.page.publish(hand, &made);
            self.refresh_clockbound(hand);
        }
    }

    /// Writes the pages for clients of ClockBound, of which they know how old they are.
    fn tell_clockbound(&mut self) {
        let hand = *self.engine.hand();
        if !self.host.has_lapsed() {
            self.refresh_clockbound(&hand);
        }
    }

    fn refresh_clockbound(&mut self, hand: &Hand) {
        let steered = self.system_clock.is_steered();
        let marker = self.host.marker();
        self.with_clockbound(|pages, counter| {
            pages.mark(marker);
            pages.refresh(hand, counter, steered)
        });
    }

    fn with_clockbound(&mut self, act: impl FnOnce(&mut ClockBound, Counter) -> Vec<String>) {
        let Some(pages) = &mut self.clockbound else { return };
        for text in act(pages, self.counter) {
            self.note(Level::Warning, &text);
        }
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
            difference_deviation: self.engine.difference_deviation(),
            system_offset: hand.status.bound_holds().then_some(offset),
            is_steered: self.system_clock.is_steered(),
            audit_lost: self.audit.as_ref().map(Audit::lost),
            answer,
        }
    }

    /// Whether somebody asked over the control socket to read the configuration again.
    pub(crate) fn wants_reload(&mut self) -> bool {
        std::mem::take(&mut self.reload)
    }

    /// Takes over a configuration that was read again, if it is any good.
    pub(crate) fn configure(&mut self, settings: Result<Settings, ConfigError>) {
        let new = match settings {
            Ok(new) => new,
            Err(why) => {
                return self.note(
                    Level::Warning,
                    &format!(
                        "the configuration stays as it was, because the new one is wrong: {why}"
                    ),
                );
            }
        };
        let old = &self.settings;
        let fixed: Vec<&str> = [
            ("counter", old.counter != new.counter),
            ("page", old.page != new.page),
            ("control", old.control != new.control),
            ("replay-log", old.replay_log != new.replay_log),
            ("clockbound", old.clockbound != new.clockbound),
            ("sock-out", old.sock_out != new.sock_out),
            ("metrics", old.metrics != new.metrics),
            ("audit", old.audit != new.audit),
            ("sandbox", old.sandbox != new.sandbox),
            ("vmclock", old.vmclock != new.vmclock),
        ]
        .into_iter()
        .filter_map(|(key, changed)| changed.then_some(key))
        .collect();
        if !fixed.is_empty() {
            let text = format!("changed, but only at the next start: {}", fixed.join(", "));
            self.note(Level::Warning, &text);
        }
        let difference = audit::difference(&self.settings.engine, &new.engine);
        self.record(Kind::Configuration, |_| format!("read again: {difference}"));
        self.nts.configure(&new);
        self.settings.nts_ca = new.nts_ca;
        self.settings.leap_file = new.leap_file;
        self.settings.engine = new.engine;
        if let Some(pages) = &mut self.clockbound {
            pages.configure(self.settings.engine.step_above);
        }
        self.settings.state = new.state;
        let state = Keeping::at(&self.settings.state, self.page.path(), &self.settings.engine);
        if self.state != state {
            self.state = state;
            // Nothing is in the new place yet.
            (self.kept.0, self.kept.1, self.retry) = (false, Vec::new(), Retry::None);
            let (level, text) = self.state.note();
            self.note(level, &text);
        }
        let discipline = self.settings.engine.discipline;
        if discipline {
            self.system_clock.configure(true);
        }
        if let Some(text) = self.wanted().and_then(|wanted| self.sandbox.shut_out(&wanted)) {
            self.note(Level::Warning, &text);
        }
        self.note(Level::Info, "the configuration was read again");
        self.read_leaps();
        self.handle(self.counter.read(), Event::Configure(self.settings.engine.clone()));
        if !discipline {
            // Only now: the engine has just ended the slew that was under way.
            self.system_clock.configure(false);
        }
    }

    /// Reads the list of leap seconds again. What it says is used if it fits what is in force: the
    /// time scale itself must not change under those who read it.
    fn read_leaps(&mut self) {
        let hand = *self.engine.hand();
        if !hand.status.bound_holds() {
            return;
        }
        let now = hand.leaps.utc(hand.time_at(self.counter.read())).unix;
        let leaps = match leaps::listed(&self.settings.leap_file, now) {
            Ok(Some(leaps)) if leaps != hand.leaps => leaps,
            Ok(_) => return self.note_leaps(None),
            Err(why) => return self.note_leaps(Some(why)),
        };
        if same_scale(&hand.leaps, &leaps, &hand) {
            self.note_leaps(None);
            self.handle(self.counter.read(), Event::Leaps(leaps));
        } else {
            self.note_leaps(Some("a new list will be used from the next start on".into()));
        }
    }

    /// Tells the user what is new about leap seconds.
    fn note_leaps(&mut self, note: Option<String>) {
        if note != self.leap_note {
            if let Some(text) = &note {
                let tai = if self.engine.hand().leaps.known { "stays known" } else { "not known" };
                self.note(Level::Warning, &format!("leap seconds: {text} (TAI: {tai})"));
            }
            self.leap_note = note;
        }
    }

    /// Saves what is worth it; `false` if nothing is yet, or it could not be.
    fn save(&mut self) -> bool {
        let Some(path) = self.state.path() else { return true };
        let kept = self.nts.save();
        let now = self.counter.read();
        let Some(saved) = self.engine.saved(now) else { return false };
        let attempt = state::save(path, &saved);
        let (retry, note) = self.retry.after(&attempt, path, now, self.nominal);
        self.retry = retry;
        if let Some((level, text)) = note {
            self.note(level, &text);
        }
        if let Some(why) = kept {
            self.note(Level::Warning, &why);
        }
        attempt.is_ok()
    }

    /// Leaves everything in order.
    pub(crate) fn finish(mut self) {
        let now = self.counter.read();
        self.handle(now, Event::Stop);
        self.tell_clockbound();
        self.tell_next(now);
        self.save();
        if let Some(log) = &mut self.log {
            log.flush();
        }
        if let Some(audit) = &mut self.audit {
            audit.finish(self.counter.read());
        }
        self.flush_audit();
        self.audit = None;
        self.note(Level::Info, "ended");
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
            },
            report: self.engine.report(now),
        }
    }

    fn reload(&mut self) {
        self.reload = true;
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
}

/// The pages for clients of ClockBound, if they are wanted.
fn open_clockbound(
    settings: &Settings,
    kind: CounterKind,
    nominal: Period,
) -> Result<Option<ClockBound>, DaemonError> {
    let Some(wanted) = &settings.clockbound else { return Ok(None) };
    let unfit = wanted.pages.iter().find_map(|page| clockbound::unfit(*page, kind));
    if let Some(reason) = unfit.or_else(|| clockbound::running(wanted)) {
        return Err(DaemonError::NoClockBound { reason });
    }
    let pages = ClockBound::open(wanted, nominal, settings.engine.step_above);
    pages.map(Some).map_err(DaemonError::ClockBound)
}

/// Whether the event tells of counts, which mean nothing in another epoch.
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

/// Whether an instant means the same under both: then one can take the place of the other.
fn same_scale(a: &Leaps, b: &Leaps, hand: &Hand) -> bool {
    a.known == b.known && (!a.known || a.offset_at(hand.time) == b.offset_at(hand.time))
}

/// The file beside the clock page, unless nothing is to be kept: what is there then is of no use.
fn beside(place: &Place, page: &Path) -> Option<PathBuf> {
    let path = state::beside_page(page);
    if *place == Place::None {
        let _ = std::fs::remove_file(&path);
        return None;
    }
    Some(path)
}

/// State that earlier daemons have kept: the rate in `path`, and what goes with the clock page
/// beside that.
fn load(path: Option<&Path>, beside: Option<&Path>) -> (Option<Saved>, Option<String>) {
    let of = |path: Option<&Path>, load: fn(&Path) -> std::io::Result<Option<Saved>>| {
        let Some(path) = path else { return (None, None) };
        match load(path) {
            Ok(saved) => (saved, None),
            Err(why) => {
                (None, Some(format!("the saved state is ignored: {}: {why}", path.display())))
            }
        }
    };
    let ((saved, note), (left, also)) = (of(path, state::load), of(beside, state::load_own));
    let both = match (saved, left) {
        (Some(saved), Some(left)) => {
            let Saved { held, agreed, moved, rtc_offset, .. } = left;
            Some(Saved { held, agreed, moved, rtc_offset, ..saved })
        }
        (saved, left) => saved.or(left),
    };
    (both, note.or(also))
}

fn create_log(
    path: Option<&Path>,
    start: &Start,
    config: &Config,
) -> (Option<replay::Log>, Option<String>) {
    let Some(path) = path else { return (None, None) };
    match replay::Log::create(path, start, config) {
        Ok(log) => (Some(log), None),
        Err(why) => (None, Some(format!("no replay log: {}: {why}", path.display()))),
    }
}

fn bind(place: &Place, page: &Path) -> (Option<Server>, Option<String>) {
    let path = match place {
        Place::None => return (None, None),
        Place::At(path) => path.clone(),
        Place::Default => control::default_path(page),
    };
    match Server::bind(&path) {
        Ok(server) => (Some(server), None),
        Err(why) => {
            let note = format!("no control socket: {}: {why}", path.display());
            (None, Some(note))
        }
    }
}

fn open_metrics(settings: &Settings) -> (Option<truechimer_metrics::Server>, Option<String>) {
    let Some(listen) = &settings.metrics else { return (None, None) };
    match truechimer_metrics::Server::bind(listen) {
        Ok(server) => (Some(server), None),
        Err(why) => {
            let option = "`listen` in [metrics] and restart";
            (None, Some(truechimer_metrics::unbound(listen, &why, option)))
        }
    }
}

#[cfg(test)]
mod moved;
#[cfg(test)]
mod narrow;

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::io;
    use std::net::SocketAddr;
    use std::path::PathBuf;

    use truechimer_counter::Choice;
    use truechimer_engine::{SourceConfig, Steer};
    use truechimer_serve::{ServedClock, Server as NtpServer};
    use truechimer_time::{Instant, Rate};
    use truechimer_timehands::{PageReader, Status};

    thread_local! {
        /// Requests to a system clock that is none.
        static ASKED: RefCell<Vec<Steer>> = const { RefCell::new(Vec::new()) };
    }

    fn ask(steer: Steer) -> io::Result<()> {
        ASKED.with_borrow_mut(|asked| asked.push(steer));
        Ok(())
    }

    fn asked() -> usize {
        ASKED.with_borrow(Vec::len)
    }

    /// A daemon that follows `server`, with its page in a directory of this name.
    fn daemon<'n>(
        name: &str,
        server: SocketAddr,
        notes: &'n mut dyn FnMut(Level, &str),
    ) -> (PathBuf, Daemon<'n>) {
        let directory =
            std::env::temp_dir().join(format!("truechimer-daemon-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut source = SourceConfig::new(server.ip().to_string());
        source.port = server.port();
        let settings = Settings {
            engine: Config { sources: vec![source], ..Config::default() },
            counter: Choice::Raw,
            page: Some(directory.join("clock")),
            control: Place::None,
            state: Place::None,
            leap_file: Place::None,
            sandbox: false,
            ..Settings::default()
        };
        (directory, Daemon::start(settings, notes).unwrap())
    }

    #[test]
    fn the_chores_do_not_wait_for_a_count_of_the_old_epoch() {
        let mut ignore = |_: Level, _: &str| ();
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let (directory, mut daemon) = daemon("chores", silent.local_addr().unwrap(), &mut ignore);
        daemon.chores = daemon.chores + CountSpan(1 << 60);
        let reason = "the counter went back".into();
        daemon.handle(daemon.counter.read(), Event::Disruption { reason });
        let wait = daemon.nominal.span(daemon.chores - daemon.counter.read());
        assert!(wait <= CHORES && !wait.is_negative(), "{wait}");
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_counter_that_rolled_over_unseen_begins_a_new_epoch_before_anything_else_is_used() {
        let mut notes = Vec::new();
        let mut note = |_: Level, text: &str| notes.push(text.to_owned());
        let served = ServedClock::starting_now(Span::ZERO, Rate::ZERO).unwrap();
        let server = NtpServer::bind("127.0.0.1:0".parse().unwrap(), served, 3).unwrap();
        let server = server.start().unwrap();
        let (directory, mut daemon) = daemon("lapse", server.address(), &mut note);
        let has_rtc = daemon.rtc.is_some();
        let begun = std::time::Instant::now();
        while daemon.engine.hand().status != Status::Synchronised {
            daemon.turn().unwrap();
            assert!(begun.elapsed().as_secs() < 40);
        }
        let newest = |daemon: &Daemon<'_>| daemon.page.last_hand().unwrap().0;
        let before = newest(&daemon);
        assert_eq!(before.status, Status::Synchronised);
        // Found just when a hand was to be published: that one is of counts that are over.
        daemon.host.lapse();
        daemon.publish(&Hand { time: Instant::default(), ..before });
        assert_eq!(newest(&daemon), before);
        daemon.tend(daemon.counter.read(), None);
        // What is heard next comes after the break, and stamps from before are of no use.
        let reading = system_clock::read(daemon.counter, daemon.nominal);
        daemon.events.push_back(Event::SystemClock(reading));
        daemon.handle(daemon.counter.read(), Event::SystemClock(reading));
        let after = newest(&daemon);
        assert_eq!((after.status, after.counter.epoch.0), (Status::Disrupted, 1));
        assert!(daemon.events.is_empty(), "{:?}", daemon.events);
        // And all is well again.
        let begun = std::time::Instant::now();
        while newest(&daemon).status != Status::Synchronised {
            daemon.turn().unwrap();
            assert!(begun.elapsed().as_secs() < 40);
        }
        assert_eq!(newest(&daemon).counter.epoch.0, 1);
        // A counter that is given up is no holdover, and its end says so: what `check` does, and
        // `run` after it.
        let page = PageReader::open(daemon.page.path()).unwrap();
        let reason = "the kernel has found the TSC unstable".into();
        daemon.handle(daemon.counter.read(), Event::Disruption { reason });
        daemon.finish();
        assert_eq!(page.read().unwrap().0.status, Status::Disrupted);
        assert!(!page.tended());
        assert!(notes.iter().any(|note| note.contains("rolled over")), "{notes:?}");
        // It has no state either.
        let alone = notes.iter().filter(|note| note.contains("the first time comes from")).count();
        assert!(has_rtc || alone == 1, "{notes:?}");
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn what_lies_beside_the_page_goes_with_the_page() {
        let directory =
            std::env::temp_dir().join(format!("truechimer-daemon-beside-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (page, main) = (directory.join("clock"), directory.join("rate.json"));
        let path = beside(&Place::Default, &page).unwrap();
        assert_eq!(path, directory.join("clock.state"));
        let saved = |rate: u64, moved| Saved {
            counter: "tsc".into(),
            nominal: Period::NANOSECOND,
            period: Period::from_hz(1_000_000_000 + rate),
            error: Rate::from_ppb(20),
            unix: 1_800_000_000,
            held: Vec::new(),
            agreed: None,
            moved: Span::from_secs(moved),
            rtc_offset: None,
        };
        assert_eq!(load(Some(&main), Some(&path)), (None, None));
        state::save(&path, &saved(7, 2)).unwrap();
        assert_eq!(load(Some(&main), Some(&path)).0, Some(saved(7, 2)));
        // The rate is the machine's; the rest is of whoever wrote the page last.
        state::save(&main, &saved(5, 0)).unwrap();
        assert_eq!(load(Some(&main), Some(&path)).0, Some(saved(5, 2)));
        assert_eq!(load(Some(&main), None).0, Some(saved(5, 0)));
        std::fs::write(&path, "{").unwrap();
        let (both, note) = load(Some(&main), Some(&path));
        assert!(both == Some(saved(5, 0)) && note.unwrap().contains("clock.state: "));
        // Where nothing is to be kept, what is there is not of the next page.
        assert_eq!(beside(&Place::None, &page), None);
        assert!(!path.exists());
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn discipline_turned_off_ends_the_slew_first() {
        // 0.5 ms off: to be slewed, not stepped.
        let served = ServedClock::starting_now(Span::from_micros(500), Rate::ZERO).unwrap();
        let server = NtpServer::bind("127.0.0.1:0".parse().unwrap(), served, 3).unwrap();
        let server = server.start().unwrap();
        let mut ignore = |_: Level, _: &str| ();
        let (directory, mut daemon) = daemon("slew", server.address(), &mut ignore);
        let with = |discipline| Settings {
            engine: Config { discipline, ..daemon.settings.engine.clone() },
            ..daemon.settings.clone()
        };
        let (on, off) = (with(true), with(false));
        daemon.system_clock = SystemClock::through(ask);
        daemon.configure(Ok(on));
        let begun = std::time::Instant::now();
        while asked() < 2 {
            daemon.turn().unwrap();
            assert!(begun.elapsed().as_secs() < 40, "{} asked", asked());
        }
        let before = asked();
        daemon.configure(Ok(off));
        assert_eq!(asked(), before + 2, "the slew ends, and the kernel is told");
        assert!(!daemon.system_clock.is_steered());
        daemon.finish();
        assert_eq!(asked(), before + 2, "and nothing after that");
        std::fs::remove_dir_all(directory).unwrap();
    }
}
