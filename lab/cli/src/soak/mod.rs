//! `truechimer-lab soak`: daemon, NTP server, capture and group under random faults, with
//! invariants checked all the time.
//!
//! * [`world`]: the bed, in namespaces of its own.
//! * [`fault`]: the faults, and how they are drawn, made and undone.
//! * [`watch`], [`captured`], [`resources`]: the invariants.
//! * [`ledger`]: what all of them know of each other.
//! * [`report`]: what came of it.

mod captured;
mod fault;
mod ledger;
mod report;
mod resources;
mod watch;
mod world;

use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use truechimer_daemon::control::{default_path, report as ask};
use truechimer_outcome::files::Files;
use truechimer_outcome::outcome::Failure;
use truechimer_sim::Random;
use truechimer_testbed::namespace::{CLIENT, Means, Pair};
use truechimer_testbed::process::Process;
use truechimer_testbed::temp;

use crate::bench::group::bed::MEMBERS;
use captured::End;
use fault::{Fault, Kind, Targets};
use ledger::{Done, Ledger};
use watch::Rounds;
use world::{LOAD_PORT, Places, World};

/// Time within which all must be well again.
const RECOVERY: Duration = Duration::from_secs(120);
/// Age of a capture beyond which its files are looked at.
const CAPTURE: Duration = Duration::from_secs(150);
/// Probability that a second fault is drawn for the same time.
const TWO: f64 = 0.25;
/// Sizes of the disks of the records and of the captures.
const DISKS: [&str; 2] = ["size=256m", "size=64m"];

/// Options of `truechimer-lab soak`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Three chronyd behind relays, the daemon with audit record, replay log and metrics, 'truechimer
serve' of its page, a capture of an interface under load, and three members of a group on a ring,
all in namespaces that vanish with the program. Faults are drawn from the seed; now and then two are
in force at once. It takes root, ip, chronyd, corosync and mounts of its own; nobody touches the
system clock.

What must hold all the time:
  page      the truth (the clock that the servers serve) is within every bound; readers are told of
            an outage in time; now_monotone never goes back
  serve     the truth is within the root distance of every reply that promises one
  capture   files are whole, hold as many packets as the summary says, and nothing is lost untold;
            the moment of sending fits each packet's bound
  group     members have the same value of each round, and no value goes back
  all       the control socket answers; memory and open files do not grow; no zombies, no panics, no
            unexpected end; all is well 120 s after the end of a fault at the latest

'system clock stepped' is a preloaded library under the daemon alone. Suspend takes a machine of its
own: scripts/vm.

Ctrl-C ends it with the report of what was seen so far.

Exit status: 0 everything held, 1 something did not, 2 error.")]
pub struct Soak {
    /// Length of the soak
    #[arg(long, value_name = "MINUTES", default_value_t = 60.0)]
    minutes: f64,
    /// Where random numbers begin: the same seed, the same faults in the same order [default: drawn]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Only faults whose names contain one of these words
    #[arg(long, value_name = "WORD,...", value_delimiter = ',')]
    only: Vec<String>,
    /// Say nothing on the way but violations
    #[arg(short, long)]
    quiet: bool,
    /// Keep logs and records in this folder, which is made
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    #[command(flatten)]
    files: Files,
}

/// Variable that names the folder of disks that this program has mounted for itself.
const INSIDE: &str = "TRUECHIMER_SOAK_INSIDE";

/// Runs the command; whether everything held.
///
/// # Errors
/// Where the machine lacks what it takes.
pub fn run(line: &Soak) -> Result<bool, Failure> {
    // Of this process: those that it starts inherit the variable.
    let dir = std::env::temp_dir().join(format!("truechimer-soak-{}", std::process::id()));
    let places = Places { dir };
    if std::env::var_os(INSIDE).is_none_or(|inside| inside != *places.dir) {
        return Err(enter(&places));
    }
    let done = soak(line, &places);
    for disk in [places.disk(), places.captures()] {
        let _ = Command::new("umount").arg("-l").arg(disk).status();
    }
    let _ = std::fs::remove_dir_all(places.dir);
    done
}

/// Goes on in a mount namespace of its own, with two small disks and names of its own; returns only
/// where that does not work.
fn enter(places: &Places) -> Failure {
    let prepared = || -> std::io::Result<PathBuf> {
        for folder in [places.disk(), places.captures()] {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(places.hosts(), "127.0.0.1 localhost\n")?;
        std::fs::write(places.resolver(), "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")?;
        std::env::current_exe()
    };
    let program = match prepared() {
        Ok(program) => program,
        Err(why) => return Failure::of("preparing a folder", why),
    };
    let script = "mount -t tmpfs -o \"$1\" soak \"$2\" && mount -t tmpfs -o \"$3\" soak \"$4\" &&
        mount --bind \"$5\" /etc/hosts && mount --bind \"$6\" /etc/resolv.conf || exit 2
        shift 6; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh", DISKS[0]]).arg(places.disk());
    command.arg(DISKS[1]).arg(places.captures()).arg(places.hosts()).arg(places.resolver());
    // No option: the report names the command as it was given.
    command.arg(program).args(std::env::args_os().skip(1)).env(INSIDE, &places.dir);
    Failure::of("unshare", command.exec())
}

fn soak(line: &Soak, places: &Places) -> Result<bool, Failure> {
    let stop = truechimer_command::signals::stop().map_err(|why| Failure(format!("{why:?}")))?;
    let seed = line.seed.unwrap_or_else(drawn_seed);
    eprintln!("soak: {} minutes, --seed {seed}", line.minutes);
    let net = Pair::by(Means::Root).map_err(|lacking| Failure(format!("as root: {lacking}")))?;
    let (dirs, logs) = ([(); 3].map(|()| temp::Dir::new()), temp::Dir::new());
    let ledger = Arc::new(Ledger::new(stop, !line.quiet));
    let mut world = World::up(&net, &dirs, &logs, places, seed)?;
    let watchers = watchers(&ledger, &world, &net)?;
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        drive(line, seed, &ledger, &mut world, &net)
    }));
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(Failure(why))) => ledger.found("bed: it works", why),
        Err(why) => ledger.found("bed: it works", words(&*why)),
    }
    ledger.stop.store(true, Ordering::Relaxed);
    for watcher in watchers {
        let _ = watcher.join();
    }
    finish(&ledger, &mut world, places);
    if let Some(keep) = &line.keep {
        let copied = Command::new("cp").arg("-a").arg(logs.path()).arg(keep).status();
        let records = Command::new("cp").arg("-a").arg(places.disk()).arg(keep).status();
        if !copied.is_ok_and(|s| s.success()) || !records.is_ok_and(|s| s.success()) {
            eprintln!("{}: not all could be kept", keep.display());
        }
    }
    let outcome = report::outcome(&ledger, seed);
    line.files.print(&outcome)?;
    let page = truechimer_outcome::program::page("Under faults");
    line.files.finish(page, &[outcome])
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let said = panic.downcast_ref::<String>().cloned();
    said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// A seed for those who name none: the time, s.
fn drawn_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |since| since.as_secs())
}

fn watchers(
    ledger: &Arc<Ledger>,
    world: &World<'_>,
    net: &Pair,
) -> Result<Vec<JoinHandle<()>>, Failure> {
    let mut all = Vec::new();
    let mut start = |name: &str, work: Box<dyn FnOnce(&Ledger) + Send>| {
        let ledger = Arc::clone(ledger);
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || work(&ledger));
        thread.map(|thread| all.push(thread)).map_err(|why| Failure::of("a thread", why))
    };
    let page = world.page();
    for n in 0..2 {
        let page = page.clone();
        start(&format!("page{n}"), Box::new(move |ledger| watch::page(ledger, &page)))?;
    }
    let socket = default_path(&page);
    start("control", Box::new(move |ledger| watch::control(ledger, &socket)))?;
    start("resources", Box::new(resources::watch))?;
    let way = net.server.way();
    let served = SocketAddr::new(CLIENT, 123);
    let within = way.clone();
    start(
        "served",
        Box::new(move |ledger| {
            if within.enter().is_ok() {
                watch::served(ledger, served);
            }
        }),
    )?;
    let load = load();
    start(
        "load",
        Box::new(move |ledger| {
            if way.enter().is_ok() {
                captured::send(ledger, load);
            }
        }),
    )?;
    let rounds = Arc::new(Rounds::default());
    for node in 1..=MEMBERS {
        let (place, rounds) = (world.bed.place(node), Arc::clone(&rounds));
        let member = node as usize - 1;
        start(
            &format!("member{node}"),
            Box::new(move |ledger| {
                watch::member(ledger, &place, member, &rounds);
            }),
        )?;
    }
    Ok(all)
}

fn load() -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 2], LOAD_PORT))
}

/// The faults, one after the other, until the time is over.
fn drive(
    line: &Soak,
    seed: u64,
    ledger: &Ledger,
    world: &mut World<'_>,
    net: &Pair,
) -> Result<(), Failure> {
    let mut random = Random::new(seed, "faults");
    let targets =
        Targets { serve: SocketAddr::new(CLIENT, 123), load: load(), way: net.server.way() };
    let wanted = |name: &str| {
        line.only.is_empty() || line.only.iter().any(|word| name.contains(word.as_str()))
    };
    let numbers: Vec<usize> =
        (0..fault::ALL.len()).filter(|n| fault::ALL.get(*n).is_some_and(|f| wanted(f.1))).collect();
    if numbers.is_empty() {
        return Err(Failure("--only: no fault has such a name".to_owned()));
    }
    let end = Instant::now() + Duration::from_secs_f64(line.minutes.max(0.0) * 60.0);
    if well_again(ledger, world)?.is_none() {
        ledger.violation(RECOVERS, "not even after the start".to_owned());
    }
    let mut deck: Vec<usize> = Vec::new();
    while !ledger.ends() && Instant::now() < end {
        pause(ledger, world, Duration::from_secs_f64(1.0 + 4.0 * random.uniform()));
        if world.capture_age() > CAPTURE {
            turn_capture(ledger, world);
            continue;
        }
        let mut faults = Vec::new();
        faults.extend(Fault::draw(next(&mut deck, &numbers, &mut random), &mut random));
        if random.chance(TWO) {
            let other = Fault::draw(next(&mut deck, &numbers, &mut random), &mut random);
            let apart = |other: &Fault| faults.iter().all(|one: &Fault| one.part != other.part);
            faults.extend(other.filter(apart));
        }
        if ledger.ends() || Instant::now() >= end {
            break;
        }
        round(ledger, world, faults, &targets)?;
    }
    Ok(())
}

const RECOVERS: &str = "all: well again in time after each fault";
const ENDS: &str = "all: nothing ends by itself";

/// The next card; each comes before any comes again.
fn next(deck: &mut Vec<usize>, all: &[usize], random: &mut Random) -> usize {
    if deck.is_empty() {
        deck.extend(all);
    }
    let place = random.bits() as usize % deck.len();
    deck.swap_remove(place)
}

/// Makes these faults, waits, undoes them, and waits until all is well.
fn round(
    ledger: &Ledger,
    world: &mut World<'_>,
    faults: Vec<Fault>,
    targets: &Targets,
) -> Result<(), Failure> {
    let two = faults.len() > 1;
    let at = ledger.began.elapsed().as_secs_f64();
    let mut forces = Vec::new();
    for fault in faults {
        ledger.say(&format!("{} for {:.1} s", fault.name, fault.lasts.as_secs_f64()));
        let until = Instant::now() + fault.lasts;
        forces.push((until, Instant::now(), fault::make(world, ledger, fault, targets)?));
        world.tell(ledger);
    }
    let mut over = Vec::new();
    forces.sort_by_key(|force| std::cmp::Reverse(force.0));
    while let Some((until, began, force)) = forces.pop() {
        pause(ledger, world, until.saturating_duration_since(Instant::now()));
        let fault = force.fault.clone();
        fault::undo(world, ledger, force)?;
        world.tell(ledger);
        over.push((fault, began.elapsed().as_secs_f64(), Instant::now()));
    }
    if over.iter().any(|(fault, ..)| fault.kind == Kind::CaptureDiskFull) {
        turn_capture(ledger, world);
    }
    let recovered = well_again(ledger, world)?;
    if recovered.is_none() && !ledger.ends() {
        let names: Vec<&str> = over.iter().map(|(fault, ..)| fault.name).collect();
        ledger.violation(RECOVERS, format!("{}: {}", names.join(" and "), ill(ledger, world)));
    }
    for (fault, lasted, ended) in over {
        let recovered = recovered.map(|at| at.saturating_duration_since(ended).as_secs_f64());
        ledger.done(Done { kind: fault.name, at, lasted, recovered, with_another: two });
    }
    Ok(())
}

/// Waits, and looks after the processes meanwhile.
fn pause(ledger: &Ledger, world: &mut World<'_>, time: Duration) {
    let end = Instant::now() + time;
    loop {
        attend(ledger, world);
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || ledger.ends() {
            return;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

/// Ends a capture, looks at its files, and begins another.
fn turn_capture(ledger: &Ledger, world: &mut World<'_>) {
    if let Some(run) = world.end_capture(End::Asked) {
        captured::check(ledger, &run);
    }
    world.start_capture();
    world.tell(ledger);
}

/// Nothing ends unless it is told to; what does is started again.
fn attend(ledger: &Ledger, world: &mut World<'_>) {
    ledger.checks(ENDS);
    let ended = |process: &mut Option<Process>| {
        let it = process.as_mut()?;
        (!it.is_running()).then(|| last_words(&it.output()))
    };
    if let Some(said) = ended(&mut world.daemon) {
        ledger.violation(ENDS, format!("the daemon: {said}"));
        world.start_daemon(None);
        world.tell(ledger);
    }
    if let Some(said) = ended(&mut world.serve) {
        ledger.violation(ENDS, format!("the server: {said}"));
        world.start_serve();
        world.tell(ledger);
    }
    if let Some(said) = ended(&mut world.capture) {
        if !world.captures_were_full {
            ledger.violation(ENDS, format!("the capture: {said}"));
        }
        turn_capture(ledger, world);
    }
    for (node, said) in world.bed.dead_agents() {
        ledger.violation(ENDS, format!("the agent of node {node}: {}", last_words(&said)));
        if world.bed.start_agent(node).is_err() {
            return;
        }
        world.tell(ledger);
    }
}

fn last_words(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines.iter().rev().take(4).rev().copied().collect::<Vec<_>>().join(" / ")
}

/// Part of the bed that is not well; empty if all is.
fn ill(ledger: &Ledger, world: &mut World<'_>) -> String {
    let page = world.page();
    let clock = truechimer::Clock::open_within(Some(&page), Duration::from_millis(100));
    let status = clock.ok().and_then(|clock| Some(clock.now().ok()?.status));
    if status != Some(truechimer::Status::Synchronised) {
        return format!("the clock is {status:?}");
    }
    let socket = default_path(&page);
    match ask(&socket, Duration::from_secs(1)) {
        Err(why) => return why.to_string(),
        Ok(answer) => {
            let silent = answer.report.sources.iter().find(|source| source.reach & 3 == 0);
            if let Some(source) = silent {
                return format!("{} is not heard: {:?}", source.name, source.address);
            }
        }
    }
    let recently = Duration::from_millis(500);
    if ledger.seen_for("served").is_none_or(|ago| ago > recently) {
        return "the server answers nobody".to_owned();
    }
    if !ledger.members_read_within(recently) {
        return "not all members of the group read".to_owned();
    }
    let said = world.capture.as_ref().map(Process::output).unwrap_or_default();
    if !said.contains("\"start\"") {
        return "the capture has not begun".to_owned();
    }
    String::new()
}

/// Waits until all is well; since when. None if it is not in time.
fn well_again(ledger: &Ledger, world: &mut World<'_>) -> Result<Option<Instant>, Failure> {
    ledger.checks(RECOVERS);
    world.tell(ledger);
    let end = Instant::now() + RECOVERY;
    while Instant::now() < end && !ledger.ends() {
        if ill(ledger, world).is_empty() {
            ledger.settle();
            return Ok(Some(Instant::now()));
        }
        pause(ledger, world, Duration::from_millis(200));
    }
    Ok(None)
}

/// Looks at what is left when all is over.
fn finish(ledger: &Ledger, world: &mut World<'_>, places: &Places) {
    const PANICS: &str = "all: no panics in the logs";
    const AUDIT: &str = "audit: the record is whole";
    [PANICS, AUDIT].iter().for_each(|check| ledger.checks(check));
    if let Some(run) = world.end_capture(End::Asked) {
        captured::check(ledger, &run);
    }
    for (name, text) in world.logs() {
        for line in text.lines().filter(|line| line.contains("panicked at")) {
            ledger.found(PANICS, format!("{name}: {line}"));
        }
    }
    if let Some(mut daemon) = world.daemon.take() {
        daemon.signal(truechimer_testbed::process::Signal::Term);
        let _ = daemon.wait(Duration::from_secs(10));
    }
    verify(ledger, AUDIT, &places.disk().join("audit"));
}

fn verify(ledger: &Ledger, check: &'static str, record: &Path) {
    let mut command = Command::new(truechimer_testbed::binary::truechimer());
    match command.args(["audit", "--verify", "--record"]).arg(record).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            ledger.found(check, last_words(&String::from_utf8_lossy(&said)));
        }
        Err(why) => ledger.found(check, why.to_string()),
    }
}
