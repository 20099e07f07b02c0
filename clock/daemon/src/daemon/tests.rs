//! The daemon within a test: its chores, a counter that rolls over, what lies beside the page.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use truechimer_counter::Choice;
use truechimer_engine::{Action, Config, Saved, SourceConfig, SourceStatus, Steer};
use truechimer_serve::{ServedClock, Server as NtpServer};
use truechimer_time::{Instant, Rate};
use truechimer_timehands::{PageReader, Status};

use super::begin::{beside, load};
use super::*;
use crate::config::Place;
use crate::state;

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
    let (directory, settings) = settings(name, server);
    (directory, Daemon::start(settings, notes).unwrap())
}

/// Settings of such a daemon, and that directory.
fn settings(name: &str, server: SocketAddr) -> (PathBuf, Settings) {
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
    (directory, settings)
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
        paths: Vec::new(),
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
    daemon.configure(on);
    let begun = std::time::Instant::now();
    while asked() < 2 {
        daemon.turn().unwrap();
        assert!(begun.elapsed().as_secs() < 40, "{} asked", asked());
    }
    let before = asked();
    daemon.configure(off);
    assert_eq!(asked(), before + 2, "the slew ends, and the kernel is told");
    assert!(!daemon.system_clock.is_steered());
    daemon.finish();
    assert_eq!(asked(), before + 2, "and nothing after that");
    std::fs::remove_dir_all(directory).unwrap();
}

/// Turns until it is so.
fn until(daemon: &mut Daemon<'_>, what: &str, is_so: impl Fn(&Daemon<'_>) -> bool) {
    let begun = std::time::Instant::now();
    while !is_so(daemon) {
        daemon.turn().unwrap();
        assert!(begun.elapsed().as_secs() < 40, "{what}");
    }
}

/// Events of this kind in a record, in order.
fn recorded(directory: &Path, kind: Kind) -> Vec<truechimer_audit::Event> {
    let mut events = Vec::new();
    let chain = truechimer_audit::read(directory, None, &mut |line| {
        if let Ok(truechimer_audit::Line::Event(event)) = line {
            events.push(event);
        }
    });
    assert!(chain.unwrap().is_whole());
    events.retain(|event| event.kind == kind);
    events
}

#[test]
fn steps_hold_offs_and_leap_seconds_are_in_the_record() {
    let serve = |address: &str, seconds| {
        let served = ServedClock::starting_now(Span::from_secs(seconds), Rate::ZERO).unwrap();
        NtpServer::bind(address.parse().unwrap(), served, 3).unwrap().start().unwrap()
    };
    let server = serve("127.0.0.1:0", 5);
    let address = server.address();
    let mut ignore = |_: Level, _: &str| ();
    let (directory, mut settings) = settings("record", address);
    let (record, list) = (directory.join("audit"), directory.join("leap-seconds"));
    // TAI − UTC since 2017, and later a leap second at the end of the year 2099.
    let known = "#$ 3692217600\n#@ 6400000000\n3692217600 37\n";
    std::fs::write(&list, known).unwrap();
    let wanted = crate::audit::Wanted {
        directory: record.clone(),
        interval: Span::from_secs(60),
        max_mb: 1,
    };
    (settings.audit, settings.leap_file) = (Some(wanted), Place::At(list.clone()));
    settings.engine.sources[0].poll = 1;
    let disciplined = Settings {
        engine: Config { discipline: true, ..settings.engine.clone() },
        ..settings.clone()
    };
    let mut daemon = Daemon::start(settings, &mut ignore).unwrap();
    daemon.system_clock = SystemClock::through(ask);
    daemon.configure(disciplined);
    let steps = || {
        ASKED.with_borrow(|asked| {
            asked.iter().filter(|steer| matches!(steer, Steer::Step(_))).count()
        })
    };
    until(&mut daemon, "a step", |_| steps() > 0);
    std::fs::write(&list, format!("{known}6311433600 38\n")).unwrap();
    daemon.read_leaps();

    // Its time moves; the user takes it as it is.
    drop(server);
    let _server = serve(&address.to_string(), 8);
    let held = |daemon: &Daemon<'_>| !daemon.engine.held(daemon.counter.read()).is_empty();
    until(&mut daemon, "a hold-off", held);
    let noted = |daemon: &Daemon<'_>| !daemon.audit.as_ref().unwrap().is_held(&Default::default());
    until(&mut daemon, "the hold-off is seen", noted);
    Handler::accept(&mut daemon, None).unwrap();
    until(&mut daemon, "its end is seen", |daemon| !noted(daemon));
    // A step that is not permitted is none.
    daemon.system_clock = SystemClock::through(|_| Err(io::ErrorKind::PermissionDenied.into()));
    daemon.system_clock.configure(true);
    daemon.carry_out(Action::Steer(Steer::Step(Span::from_secs(3))));
    let reason = "the counter went back".into();
    daemon.handle(daemon.counter.read(), Event::Disruption { reason });
    daemon.turn().unwrap();
    daemon.make_change(Change::Add, Some("[[source]]\nhost = '192.0.2.7'")).unwrap();
    daemon.finish();

    let of = |kind| recorded(&record, kind);
    // The first seconds agree: by one clock, and the source is what it is from then on.
    let begun = &of(Kind::Status)[0];
    assert!(begun.text.starts_with("synchronised: ") && !begun.by_system_clock, "{begun:?}");
    let apart = of(Kind::Log).into_iter().find(|event| event.text.contains("behind this clock"));
    assert!(apart.unwrap().text.starts_with("times before this line are the system clock's"));
    let mut selected = Vec::new();
    let chain = truechimer_audit::read(&record, None, &mut |line| {
        if let Ok(truechimer_audit::Line::Sources(sources)) = line
            && sources.list.iter().any(|source| source.status == "selected")
        {
            selected.push(sources.at);
        }
    });
    assert!(chain.unwrap().is_whole());
    assert_eq!(selected[0], begun.at);
    let stepped = of(Kind::Step);
    assert_eq!(stepped.len(), steps(), "{stepped:?}");
    let by = stepped[0].step_ns.unwrap();
    assert!((by - 5_000_000_000).abs() < 100_000_000, "{by}");
    assert!(stepped[0].text.starts_with("step of the system clock by +"), "{stepped:?}");
    let refused =
        of(Kind::Warning).into_iter().filter(|event| event.text.contains("not permitted"));
    assert_eq!(refused.count(), 1);
    let name = address.to_string();
    let [held] = &of(Kind::HoldOff)[..] else { panic!("{:?}", of(Kind::HoldOff)) };
    assert!(held.text.starts_with(&format!("{name} is held off: its time mov")), "{held:?}");
    let [released] = &of(Kind::Released)[..] else { panic!("{:?}", of(Kind::Released)) };
    assert_eq!(released.text, format!("{name} is not held off any more"));
    let [broken] = &of(Kind::Disruption)[..] else { panic!("{:?}", of(Kind::Disruption)) };
    assert!(broken.text.contains("the counter went back"), "{broken:?}");
    let changes: Vec<String> =
        of(Kind::Configuration).into_iter().map(|event| event.text).collect();
    let added = "192.0.2.7:123: added by the control socket, until the daemon ends";
    assert_eq!(changes, ["read again: [system-clock] discipline: false → true", added]);
    assert!(of(Kind::Log).iter().all(|event| event.text != added), "it is said once");
    let leaps: Vec<String> = of(Kind::Leap).into_iter().map(|event| event.text).collect();
    let offset = "TAI − UTC = 37 s";
    let next = "a leap second is to be inserted before 2100-01-01T00:00:00";
    assert_eq!(leaps.len(), 2, "{leaps:?}");
    assert_eq!(leaps[0], format!("{offset}; no leap second is announced"));
    assert!(leaps[1].starts_with(&format!("{offset}; {next}")), "{leaps:?}");
    std::fs::remove_dir_all(directory).unwrap();
}

/// Settings of a daemon with a record in this directory, an interval of an hour.
fn with_record(settings: Settings, directory: &Path) -> Settings {
    let (directory, interval, max_mb) = (directory.to_owned(), Span::from_secs(3600), 1);
    let wanted = crate::audit::Wanted { directory, interval, max_mb };
    Settings { audit: Some(wanted), ..settings }
}

#[test]
fn a_daemon_that_did_not_run_says_so_itself() {
    let served = ServedClock::starting_now(Span::ZERO, Rate::ZERO).unwrap();
    let server = NtpServer::bind("127.0.0.1:0".parse().unwrap(), served, 3).unwrap();
    let server = server.start().unwrap();
    let mut notes = Vec::new();
    let mut note = |_: Level, text: &str| notes.push(text.to_owned());
    let (directory, mut settings) = settings("stood", server.address());
    settings.engine.sources[0].poll = 1;
    let record = directory.join("audit");
    let mut daemon = Daemon::start(with_record(settings, &record), &mut note).unwrap();
    let is_synchronised = |daemon: &Daemon<'_>| daemon.engine.hand().status == Status::Synchronised;
    until(&mut daemon, "the first time", is_synchronised);
    daemon.turn().unwrap();
    // Nobody turns: as long as readers wait, and what is silence after that.
    std::thread::sleep(std::time::Duration::from_millis(7_500));
    daemon.turn().unwrap();
    until(&mut daemon, "the time again", is_synchronised);
    daemon.finish();
    let told: Vec<_> =
        recorded(&record, Kind::Status).into_iter().map(|event| event.text).collect();
    let stood = "holdover: no daemon tended the clock, as it did not run for ";
    let place = told.iter().position(|text| text.starts_with(stood)).expect("it is told");
    assert!(told[place..].iter().any(|text| text.starts_with("synchronised: ")), "{told:?}");
    let mut silent = 0;
    let chain = truechimer_audit::read(&record, None, &mut |line| {
        if let Ok(truechimer_audit::Line::Interval(interval)) = line
            && interval.status == "holdover"
        {
            silent += interval.for_ns;
        }
    });
    assert!(chain.unwrap().is_whole());
    assert!(silent > 4_000_000_000, "{silent}");
    let says = |part: &str| notes.iter().any(|note| note.contains(part));
    assert!(says("the daemon did not run for "), "{notes:?}");
    assert!(says(", of which the daemon did not run for"), "{notes:?}");
    std::fs::remove_dir_all(directory).unwrap();
}

/// Not before it has been tried: another daemon has this one, say.
#[test]
fn a_record_is_told_of_once_it_can_be_written() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let (directory, settings) = settings("taken", silent.local_addr().unwrap());
    let record = directory.join("audit");
    let settings = with_record(settings, &record);
    let started = || {
        let mut notes = Vec::new();
        let mut note = |_: Level, text: &str| {
            notes.extend(text.strip_prefix("audit record: ").map(ToOwned::to_owned));
        };
        drop(Daemon::start(settings.clone(), &mut note).unwrap());
        notes
    };
    let limits = truechimer_audit::Limits { total_bytes: 1_000_000 };
    let (other, _) = truechimer_audit::Writer::open(&record, limits, "0").unwrap();
    let [told] = &started()[..] else { panic!("one line") };
    assert!(told.starts_with("cannot be written in "), "{told}");
    drop(other);
    assert_eq!(started(), [format!("{}, 1 MB at most", record.display())]);
    std::fs::remove_dir_all(directory).unwrap();
}

/// Long before the interval is over.
#[test]
fn a_server_that_begins_to_lie_is_in_the_record_at_once() {
    let serve = |address: &str, offset| {
        let served = ServedClock::starting_now(offset, Rate::ZERO).unwrap();
        NtpServer::bind(address.parse().unwrap(), served, 3).unwrap().start().unwrap()
    };
    let servers = ["127.0.0.1:0", "127.0.0.2:0", "127.0.0.3:0"];
    let [a, b, liar] = servers.map(|address| serve(address, Span::ZERO));
    let mut ignore = |_: Level, _: &str| ();
    let (directory, mut settings) = settings("liar", a.address());
    let sources = [a.address(), b.address(), liar.address()].map(|server| SourceConfig {
        port: server.port(),
        poll: 1,
        ..SourceConfig::new(server.ip().to_string())
    });
    settings.engine.sources = sources.into();
    let record = directory.join("audit");
    let wanted = crate::audit::Wanted {
        directory: record.clone(),
        interval: Span::from_secs(3600),
        max_mb: 1,
    };
    settings.audit = Some(wanted);
    let mut daemon = Daemon::start(settings, &mut ignore).unwrap();
    let name = liar.address().to_string();
    let has = |daemon: &Daemon<'_>, is: fn(SourceStatus) -> bool| {
        daemon
            .engine
            .standings(daemon.counter.read())
            .any(|(other, status, _)| other == name && is(status))
    };
    until(&mut daemon, "all agree", |daemon| has(daemon, SourceStatus::agrees));
    drop(liar);
    let _liar = serve(&name, Span::from_millis(50));
    let is_false = |status| status == SourceStatus::Falseticker;
    until(&mut daemon, "a falseticker", |daemon| has(daemon, is_false));
    daemon.turn().unwrap();
    daemon.finish();
    let mut seen = Vec::new();
    let chain = truechimer_audit::read(&record, None, &mut |line| {
        if let Ok(truechimer_audit::Line::Sources(sources)) = line {
            seen.push(sources.list[2].status.clone());
        }
    });
    assert!(chain.unwrap().is_whole());
    let agreed = seen.iter().position(|status| status != "unreachable" && status != "candidate");
    assert_eq!(seen.last().unwrap(), "falseticker");
    assert!(agreed.is_some_and(|place| seen[place] != "falseticker"), "{seen:?}");
    std::fs::remove_dir_all(directory).unwrap();
}
