//! The beginning: everything is opened, and rights that are not needed are given up.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use truechimer_audit::Kind;
use truechimer_confine::{CapabilitySet, Rules};
use truechimer_counter::{Counter, nominal, realtime_pair, resolution};
use truechimer_engine::{Config, Engine, LeapData, Level, Saved, Start};
use truechimer_time::{CounterKind, Period};
use truechimer_timehands::{PageWriter, places};

use super::{CHANGES, CHORES, Daemon, FIRST_WAIT, same_scale};
use crate::audit::Audit;
use crate::cards::Cards;
use crate::changes::Changes;
use crate::clock_set::ClockSet;
use crate::clockbound::ClockBound;
use crate::config::{Place, Settings};
use crate::control::Server;
use crate::host::Host;
use crate::hypervisor::Hypervisor;
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
use crate::system_clock::SystemClock;
use crate::wander::Wander;
use crate::{audit, clockbound, control, host, leaps, sandbox, state, sys};

impl<'n> Daemon<'n> {
    /// Opens everything and takes the engine's first actions.
    pub(crate) fn start(
        settings: Settings,
        notes: &'n mut dyn FnMut(Level, &str),
    ) -> Result<Daemon<'n>, DaemonError> {
        Daemon::of(Counter::open(settings.counter)?, settings, notes)
    }

    /// Makes one with this counter, whatever the settings say.
    pub(super) fn of(
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
        let (LeapData { leaps, until: leaps_until }, leap_note) =
            match leaps::listed(&settings.leap_file, unix) {
                Ok(listed) => (listed.unwrap_or_else(|| leaps::from_kernel().into()), None),
                Err(why) => (leaps::from_kernel().into(), Some(why)),
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
            leaps_until,
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
        let saved = start.saved.as_ref().map_or(0, |saved| saved.unix);
        let least = u64::try_from(saved.max(crate::RELEASED)).unwrap_or(0);
        let (engine, actions) = Engine::new(settings.engine.clone(), start);
        // While there are rights to do so.
        let sources = settings.engine.sources.iter();
        let ports = sources.filter_map(|source| Some((source.host.as_str(), source.ptp.as_ref()?)));
        let ptp: Vec<_> = ports.map(|(interface, port)| (interface, port.transport)).collect();
        let (wanted, period) = (&settings.hardware_stamps, nominal.period);
        let cards = Cards::open(wanted, &ptp, counter, period, resolution);
        let proofs = Proofs::new(&settings, state.path(), least);
        let mut daemon = Daemon {
            notes,
            configured: settings.engine.clone(),
            changes: Changes::default(),
            counter,
            nominal: nominal.period,
            resolution,
            started,
            engine,
            page,
            epoch: id.epoch,
            host: Host::new(counter, nominal.period, lapses),
            clock_set: ClockSet::watch(),
            net: Net::new(counter, nominal.period, resolution, cards),
            proofs,
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
            page_note: None,
            wander: Wander::default(),
            events: VecDeque::new(),
            fds: Vec::new(),
            options: Options::default(),
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
        // It makes the record's directory, if need be, whose parent is not written any more later.
        daemon.flush_audit();
        let audit = daemon.audit.as_ref().filter(|audit| audit.is_written());
        if let Some(place) = audit.map(Audit::description) {
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
        daemon.note_cards();
        for text in std::mem::take(&mut daemon.settings.left_out) {
            daemon.note(Level::Warning, &text);
        }
        daemon.note_leaps(leap_note);
        daemon.lock_memory();
        // Everything is open, and what follows starts threads, which inherit it.
        daemon.sandbox = Sandbox::enter(daemon.wanted());
        if let Some(text) = daemon.sandbox.note() {
            daemon.note(Level::Info, &text);
        }
        daemon.act(actions);
        Ok(daemon)
    }

    /// Keeps all memory from being paged out, if that is wanted. Where it cannot be done the clock goes on without.
    fn lock_memory(&mut self) {
        if !self.settings.lock_memory {
            return;
        }
        match sys::lock_memory() {
            Ok(()) => self.note(Level::Info, "memory is locked"),
            Err(why) => {
                let text = format!(
                    "memory is not locked: {why}; it takes LimitMEMLOCK=infinity and SystemCallFilter=@memlock in the unit, \
                     or CAP_IPC_LOCK"
                );
                self.note(Level::Warning, &text);
            }
        }
    }

    /// Rights that the daemon needs from now on, unless it is to keep all that it has.
    pub(super) fn wanted(&self) -> Option<Rules> {
        self.rules(&self.settings)
    }

    /// Those that it would need with these settings.
    pub(super) fn rules(&self, settings: &Settings) -> Option<Rules> {
        let state = self.state.path().into_iter().chain(self.beside.as_deref());
        let restores = self.net.restores();
        settings.sandbox.then(|| {
            let mut rules = sandbox::rules(settings, self.page.path(), state);
            if restores {
                rules.keep(CapabilitySet::NET_ADMIN);
            }
            rules
        })
    }

    pub(super) fn introduce(&mut self) {
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

/// The file beside the clock page, unless nothing is to be kept: what is there then is of no use.
pub(super) fn beside(place: &Place, page: &Path) -> Option<PathBuf> {
    let path = state::beside_page(page);
    if *place == Place::None {
        let _ = std::fs::remove_file(&path);
        return None;
    }
    Some(path)
}

/// State that earlier daemons have kept: the rate in `path`, and what goes with the clock page
/// beside that.
pub(super) fn load(path: Option<&Path>, beside: Option<&Path>) -> (Option<Saved>, Option<String>) {
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
            let Saved { counter, nominal, period, error, unix, .. } = saved;
            Some(Saved { counter, nominal, period, error, unix, ..left })
        }
        (saved, left) => saved.or(left),
    };
    (both, note.or(also))
}

fn create_log(
    path: Option<&Path>,
    start: &Start,
    config: &Config,
) -> (Option<truechimer_replay::Log>, Option<String>) {
    let Some(path) = path else { return (None, None) };
    match truechimer_replay::Log::create(path, start, config) {
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
