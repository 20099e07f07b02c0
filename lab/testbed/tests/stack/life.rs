//! Daemons that are killed, stopped, restarted and doubled under their readers.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use truechimer::Status;
use truechimer_testbed::daemon::{Daemon, SOON, Server, Setup, ask};
use truechimer_testbed::process::{self, Signal};
use truechimer_testbed::watch::{Sample, Watch, long, median};
use truechimer_testbed::{binary, temp};

use crate::number;

fn serve(dir: &temp::Dir) -> Server {
    serve_from(dir, "-2.5s")
}

fn serve_from(dir: &temp::Dir, offset: &str) -> Server {
    Server::start(dir, &["--listen", "127.0.0.1:0", "--offset", offset, "--skew-ppm", "-60"])
}

#[test]
fn readers_outlive_a_daemon_that_is_killed_and_follow_its_successor() {
    let dir = temp::Dir::new();
    let server = serve(&dir);
    let setup = Setup::new(&dir, &*server.address);
    let mut daemon = setup.start();
    // One mapping for all that follows.
    let mut watch = daemon.watch(server.truth);
    let generation = |watch: &Watch| watch.clock().view().expect("a hand").generation;
    let end = Instant::now() + long(Duration::from_secs(20));
    for round in 0.. {
        // Not in step with anything the daemon does.
        watch.run(Duration::from_millis(2_000 + 370 * (round % 8)));
        if Instant::now() > end {
            break;
        }
        daemon.process.signal(Signal::Kill);
        daemon.process.wait(SOON).expect("it ends");
        let left = generation(&watch);
        watch.run(Duration::from_secs(1));
        assert!(watch.samples[watch.samples.len() - 1].status.bound_holds(), "gone too soon");
        daemon = setup.start();
        let patience = Instant::now() + SOON;
        while generation(&watch) == left {
            assert!(Instant::now() < patience, "no word from the successor");
            watch.run(Duration::from_millis(100));
        }
        watch.run_until_status(Status::Synchronised, SOON);
    }
    println!("{}", watch.summary());
}

#[test]
fn the_bound_of_an_orphan_grows_and_its_status_says_so() {
    let dir = temp::Dir::new();
    let server = serve(&dir);
    let mut daemon = Setup::new(&dir, &*server.address).start();
    let mut watch = daemon.watch(server.truth);
    watch.run(Duration::from_secs(10));
    daemon.process.signal(Signal::Kill);
    daemon.process.wait(SOON).expect("it ends");
    let died = watch.samples[watch.samples.len() - 1];
    watch.run_until_status(Status::Holdover, SOON);
    watch.run(Duration::from_secs(10));
    let last = watch.samples[watch.samples.len() - 1];
    println!("holdover; the bound went from {} to {} ns", died.bound_ns(), last.bound_ns());
    assert!(last.bound_ns() > died.bound_ns());
    println!("{}", watch.summary());
}

#[test]
fn a_stopped_daemon_stops_no_reader() {
    let dir = temp::Dir::new();
    let server = serve(&dir);
    let mut daemon = Setup::new(&dir, &*server.address).start();
    let mut watch = daemon.watch(server.truth);
    for round in 0..6 {
        watch.run(Duration::from_millis(1_100 + 170 * round));
        daemon.process.signal(Signal::Stop);
        watch.run(Duration::from_secs(2));
        daemon.process.signal(Signal::Continue);
    }
    watch.run_until_status(Status::Synchronised, SOON);
    watch.run(Duration::from_secs(5));
    println!("{}", watch.summary());
}

#[test]
fn a_second_daemon_is_refused() {
    let dir = temp::Dir::new();
    let server = serve(&dir);
    let setup = Setup::new(&dir, &*server.address);
    let mut first = setup.start();
    let mut watch = first.watch(server.truth);
    let second = Setup::new(&dir, &*server.address).command().output().expect("it runs");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    println!("{}", said.trim());
    assert_eq!(second.status.code(), Some(2), "{said}");
    assert!(said.contains("clock"), "which page? {said}");
    watch.run(Duration::from_secs(3));
    assert!(first.process.is_running());
}

#[test]
fn anyone_may_read() {
    let dir = temp::Dir::new();
    let server = serve(&dir);
    let mut daemon = Setup::new(&dir, &*server.address).start();
    let mut watch = daemon.watch(server.truth);
    watch.run(Duration::from_secs(1));
    let mode = std::fs::metadata(&daemon.page).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644, "{mode:o}");
    // Where nobody can be expected to reach the folder of the build.
    let program = dir.join("truechimer");
    // Not by our own hand: a process that another test starts meanwhile would hold it open.
    let copied = Command::new("cp").arg(binary::truechimer()).arg(&program).status().unwrap();
    assert!(copied.success());
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let mut reader = if process::is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"]);
        command.args(["--no-new-privs", "--"]).arg(&program);
        command
    } else {
        // We have no privilege to begin with; without the right to write it must do as well.
        std::fs::set_permissions(&daemon.page, PermissionsExt::from_mode(0o444)).unwrap();
        Command::new(&program)
    };
    let output = reader.args(["now", "--json", "--page"]).arg(&daemon.page).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{}", said.trim());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("synchronised"), "{said}");
}

#[test]
fn term_ends_it_cleanly_and_hangup_reads_the_configuration_again() {
    let dir = temp::Dir::new();
    let (server, other_dir) = (serve(&dir), temp::Dir::new());
    // A second off: were it microseconds, it would have a say within the bounds of both.
    let other = serve_from(&other_dir, "-1.5s");
    let mut daemon = Setup::new(&dir, &*server.address).start();
    let mut watch = daemon.watch(server.truth);
    watch.run(Duration::from_secs(20));
    let before = median(watch.since(Duration::from_secs(15)).iter().map(Sample::bound_ns));
    let requests = number(&daemon.source(), "requests");

    // A second server that serves another time: our clock stays with the one it knows.
    let servers = vec![server.address.clone(), other.address.clone()];
    Setup { servers, ..Setup::new(&dir, "") }.write();
    daemon.process.signal(Signal::Hangup);
    let count = |daemon: &Daemon| daemon.ask(&["sources"]).json.as_array().map_or(0, Vec::len);
    watch.run_until_so(SOON, "SIGHUP adds a server", || count(&daemon) == 2);
    let kept = number(&daemon.ask(&["sources"]).json[0], "requests");
    assert!(kept >= requests, "{kept} requests, {requests} before");

    // And back, with an error in between, which must change nothing.
    std::fs::write(dir.join("clock.toml"), "poll = [").unwrap();
    daemon.process.signal(Signal::Hangup);
    watch.run(Duration::from_secs(1));
    assert_eq!(count(&daemon), 2, "{}", daemon.process.output());
    Setup::new(&dir, &*server.address).write();
    daemon.process.signal(Signal::Hangup);
    watch.run_until_so(SOON, "SIGHUP removes a server", || count(&daemon) == 1);
    assert!(number(&daemon.source(), "requests") >= kept, "all was forgotten");
    let at = watch.samples[watch.samples.len() - 1].at;
    watch.run(Duration::from_secs(5));
    let after = median(watch.since(at).iter().map(Sample::bound_ns));
    println!("median bound {before} ns before, {after} ns after");
    assert!(after <= before * 2, "what was learnt is lost: {before} ns, then {after} ns");

    daemon.process.signal(Signal::Term);
    let status = daemon.process.wait(SOON).expect("SIGTERM ends it");
    assert_eq!(status.code(), Some(0), "{}", daemon.process.output());
    println!("{}", watch.summary());
}

/// Asks for the status until the reason says this; meanwhile it is never synchronised.
fn never_synchronised_until(daemon: &mut Daemon, reason: &str) -> serde_json::Value {
    let pid = i64::from(daemon.process.pid());
    let end = Instant::now() + SOON;
    loop {
        let status = daemon.ask(&["status"]).json;
        if status["daemon"]["pid"] == pid {
            assert_ne!(status["status"], "synchronised", "{status:#}");
            if status["reason"].as_str().is_some_and(|said| said.contains(reason)) {
                return status;
            }
        }
        assert!(Instant::now() < end, "not so: {status:#}\n{}", daemon.process.output());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_restart_makes_no_majority_of_servers_that_disagree() {
    let dirs = [(); 3].map(|()| temp::Dir::new());
    let start = |dir, offset| Server::start(dir, &["--listen", "127.0.0.1:0", "--offset", offset]);
    let servers = [start(&dirs[0], "0s"), start(&dirs[1], "50.1ms"), start(&dirs[2], "-80ms")];
    let dir = &dirs[0];
    let names = || servers.iter().map(|server| server.address.clone()).collect::<Vec<_>>();
    let all = Setup { servers: names(), ..Setup::new(dir, "") };
    let ends = |mut daemon: Daemon| {
        daemon.process.signal(Signal::Term);
        daemon.process.wait(SOON).expect("it ends");
        daemon.process.output()
    };

    // From the beginning: the log, the sources and waitsync say why.
    let mut daemon = all.start();
    let _ = daemon.clock();
    let status = never_synchronised_until(&mut daemon, "no majority of the 3 servers agrees: ");
    assert_eq!(status["status"], "unknown");
    let sources = daemon.ask(&["sources"]).json;
    let sources = sources.as_array().unwrap();
    for (source, behind_ns) in sources.iter().zip([0, -50_100_000, 80_000_000]) {
        assert_eq!(source["offset_to"], servers[0].address, "{source:#}");
        let off = number(source, "offset_ns") - behind_ns;
        let bounds = number(&sources[0], "bound_ns") + number(source, "bound_ns");
        assert!(off.abs() <= bounds && bounds < 40_000_000, "off by {off} ns: {source:#}");
    }
    let waited = daemon.ask(&["waitsync", "--timeout", "0s"]);
    assert!(waited.code == 1 && waited.json["why"].as_str().unwrap().contains("no majority"));
    let log = ends(daemon);
    assert_eq!(log.matches("unknown: no majority of the 3").count(), 1, "{log}");

    // One alone is followed; with the others there is no majority again, and its clock goes on.
    let setup = Setup::new(dir, &*servers[0].address);
    let mut daemon = setup.start();
    let mut watch = daemon.watch(servers[0].truth);
    ends(daemon);
    let mut daemon = all.start();
    let status = never_synchronised_until(&mut daemon, "no majority of the 3 servers agrees: ");
    assert_eq!(status["status"], "holdover");
    watch.run(Duration::from_secs(3));
    never_synchronised_until(&mut daemon, "no majority");
    let log = ends(daemon);
    assert!(
        log.contains("has a vote of its own") && log.contains("holdover: no majority"),
        "{log}"
    );

    // One that is elsewhere is held off from the first reply on, and says so everywhere.
    let mut daemon = Setup::new(dir, &*servers[1].address).start();
    let held = format!("held against {}, which says +50.", servers[1].address);
    let status = never_synchronised_until(&mut daemon, &held);
    let disputed = number(&status, "disputed_bound_ns");
    assert!((30_000_000..51_000_000).contains(&disputed), "{status:#}");
    let source = daemon.source_when(|source| number(source, "reach") >= 7);
    let why = source["why"].as_str().unwrap();
    assert!(why.starts_with("held off") && why.contains(": its time moved by +50."), "{why}");
    assert_eq!((&source["stratum"], number(&source, "accepted")), (&10.into(), 0), "{source:#}");
    assert!((-51_000_000..-49_000_000).contains(&number(&source, "offset_ns")), "{source:#}");
    watch.run(Duration::from_secs(3));
    never_synchronised_until(&mut daemon, &held);
    println!("{}", watch.summary());
}

/// All that a daemon writes beside the page lies on a disk that fills up under it, and has room again later.
#[test]
fn a_full_disk_ends_neither_the_time_nor_the_daemon() {
    if !process::is_root() {
        return println!("SKIPPED a full disk: a file system is mounted for it, by root");
    }
    let dir = temp::Dir::new();
    let server = serve(&dir);
    let small = dir.join("small");
    std::fs::create_dir(&small).unwrap();
    let settings = format!(
        "state = {:?}\nreplay-log = {:?}\n",
        small.join("rate.json"),
        small.join("replay.log")
    );
    let sections = format!("[audit]\ndirectory = {:?}\ninterval = \"1s\"\n", small.join("audit"));
    let setup =
        Setup { settings: &settings, sections: &sections, ..Setup::new(&dir, &*server.address) };
    // In a mount namespace of its own, which is there as long as the daemon is.
    let run = setup.command();
    let mut command = process::command("unshare");
    let script = "mount -t tmpfs -o size=512k none \"$0\" && mkdir \"$0/audit\" && exec \"$@\"";
    command.args(["-m", "sh", "-c", script]).arg(&small).arg(run.get_program());
    command.args(run.get_args());
    let mut daemon = setup.run(command);
    let mut watch = daemon.watch(server.truth);
    watch.run_until_status(Status::Synchronised, SOON);
    let inside = format!("/proc/{}/root", daemon.process.pid());
    let inside = PathBuf::from(inside + small.to_str().unwrap());
    let fill = inside.join("fill");
    let full = std::fs::write(&fill, vec![0; 1 << 20]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    for told in [
        "audit record: cannot be written in ",
        "cannot be saved in ",
        "the replay log ends here: No space left on device",
    ] {
        daemon.process.expect_output(told, SOON);
    }
    let before = watch.clock().view().unwrap().generation;
    watch.run(Duration::from_secs(3));
    assert!(watch.clock().view().unwrap().generation > before, "it goes on");
    let last = watch.samples[watch.samples.len() - 1];
    assert_eq!(last.status, Status::Synchronised);
    // With room again, what was lost is counted, and all else is there.
    std::fs::remove_file(&fill).unwrap();
    daemon.process.expect_output("; it can be written again", SOON);
    daemon.process.expect_output("rate.json could be written again", SOON);
    let mut audit = process::command(binary::truechimer());
    let audit = audit.args(["audit", "--json", "--record"]).arg(inside.join("audit"));
    let audit = audit.output().unwrap();
    let said = String::from_utf8_lossy(&audit.stdout).into_owned();
    assert!(audit.status.success() && said.contains("lost"), "{said}");
    println!("{}", watch.summary());
    daemon.process.signal(Signal::Term);
    assert!(daemon.process.wait(SOON).expect("it ends").success());
}

#[test]
fn what_cannot_work_says_why() {
    let dir = temp::Dir::new();
    // No daemon ever.
    let nowhere = dir.join("nowhere");
    for command in ["now", "status", "sources"] {
        let answer = ask(&nowhere, &[command]);
        assert_eq!(answer.code, 2, "{command}: {answer:?}");
        assert!(answer.error.contains("truechimer run"), "{command} does not say what to start");
    }
    // A file that is none of ours.
    std::fs::write(&nowhere, [7; 20_000]).unwrap();
    let answer = ask(&nowhere, &["now"]);
    assert_eq!(answer.code, 2, "{answer:?}");
    // An address in use.
    let server = serve(&dir);
    let mut again = process::command(binary::truechimer());
    let again =
        again.args(["serve", "--clock", "system", "--listen", &server.address]).output().unwrap();
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(again.status.code() == Some(2) && said.contains(&server.address), "{said}");
    // A folder that we may not write to, or that is not there.
    let absent = temp::Dir::new();
    let page = absent.join("no/such/folder/clock");
    let mut lost = process::command(binary::truechimer());
    let lost = lost.args(["run", "--server", &server.address, "--page"]).arg(&page);
    let lost = lost.args(["--control", "none"]).output().unwrap();
    println!("{}", String::from_utf8_lossy(&lost.stderr).trim());
    assert_eq!(lost.status.code(), Some(2));
    // A key that does not exist, with its line and the one that was meant.
    let config = dir.join("typo.toml");
    std::fs::write(&config, "[[source]]\nhost = \"127.0.0.1\"\npol = 4\n").unwrap();
    let mut typo = process::command(binary::truechimer());
    let typo = typo.args(["run", "--check", "--config"]).arg(&config).output().unwrap();
    let said = String::from_utf8_lossy(&typo.stderr).into_owned();
    println!("{}", said.trim());
    assert!(
        typo.status.code() == Some(2) && said.contains(":3") && said.contains("poll"),
        "{said}"
    );
}
