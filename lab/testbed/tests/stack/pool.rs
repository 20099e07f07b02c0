//! A pool of chronyd's, and sources that come and go at run time.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use truechimer_testbed::chrony::Chronyd;
use truechimer_testbed::daemon::{Answer, Daemon, SOON, Setup, ask};
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::namespace::{Namespace, Pair};
use truechimer_testbed::truth::Truth;
use truechimer_testbed::{binary, temp};

/// Gives the server so many addresses more, from 192.0.2.11 on, or takes one away.
fn address(server: &Namespace, what: &str, number: u32) {
    let mut command = server.command(binary::system("ip"));
    command.args(["address", what, &format!("192.0.2.{number}/24"), "dev", "wire"]);
    assert!(command.status().unwrap().success());
}

/// The command of a daemon for which the name `pool` leads to these addresses.
fn with_names(setup: &Setup<'_>, numbers: &[u32]) -> Command {
    let network = setup.network.unwrap();
    let lines: Vec<String> = numbers.iter().map(|n| format!("192.0.2.{n} pool\n")).collect();
    let write = |name: &str, text: &str| {
        let path = setup.dir.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (hosts, all) = (write("hosts", &lines.concat()), write("host.conf", "multi on\n"));
    let switch = write("nsswitch.conf", "hosts: files\n");
    let script = "set -e; for f in hosts host.conf nsswitch.conf; do
        [ -e /etc/$f ] || continue; mount --bind \"$1\" /etc/$f; shift; done; exec \"$@\"";
    let mut command = network.command("unshare");
    command.args(["-m", "--", "sh", "-c", script, "sh"]).args([hosts, all, switch]);
    command.arg(binary::truechimer()).args(["run", "--config"]).arg(setup.write());
    command
}

/// Waits until the sources are as wanted, and returns them.
fn when(daemon: &mut Daemon, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let end = Instant::now() + SOON;
    loop {
        let answer = daemon.ask(&["sources"]);
        let found = answer.json.as_array().cloned().unwrap_or_default();
        if wanted(&found) {
            return found;
        }
        let output = || daemon.process.output();
        assert!(Instant::now() < end, "{found:#?}\n{}", output());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn names(sources: &[Value]) -> Vec<&str> {
    sources.iter().filter_map(|source| source["name"].as_str()).collect()
}

fn all_agree(sources: &[Value]) -> bool {
    let agrees = |s: &Value| {
        ["selected", "combined", "truechimer"].contains(&s["status"].as_str().unwrap_or_default())
    };
    !sources.is_empty() && sources.iter().all(agrees)
}

#[test]
fn a_pool_of_chronyds_replaces_the_one_that_goes() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    (11..=13).for_each(|number| address(&net.server, "add", number));
    let Some(_chronyd) = or_skip(Chronyd::start(&net.server, &dir, "")) else { return };
    let setup = Setup::within(
        &net.client,
        &dir,
        "[[source]]\npool = \"pool\"\nmax-sources = 2\npoll = 1\n",
    );
    // Nobody answers at the first, which goes at once.
    let mut daemon = setup.run(with_names(&setup, &[99, 11, 12, 13]));
    let clock = daemon.clock();
    let found = when(&mut daemon, |found| found.len() == 2 && all_agree(found));
    assert_eq!(names(&found), ["192.0.2.11:123", "192.0.2.12:123"], "{found:#?}");
    assert!(found.iter().all(|s| s["pool"] == "pool:123" && s["origin"] == "configuration"));
    let mut watch = daemon.watch(Truth::host());
    watch.run(Duration::from_secs(5));
    address(&net.server, "del", 11);
    when(&mut daemon, |found| {
        names(found) == ["192.0.2.12:123", "192.0.2.13:123"] && all_agree(found)
    });
    watch.run(Duration::from_secs(3));
    println!("{}", watch.summary());
    let log = daemon.process.output();
    let told = "pool:123: 192.0.2.13:123 takes the place of 192.0.2.11:123";
    assert_eq!(log.matches(told).count(), 1, "{log}");
    assert!(clock.now().unwrap().status.bound_holds());
}

#[test]
fn chronyd_tells_when_a_reply_left_and_who_does_not_is_asked_as_ever() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(_chronyd) = or_skip(Chronyd::start(&net.server, &dir, "")) else { return };
    let _others = crate::nts::alike(&net.server, &dir, "0ms");
    let source = |host: &str, interleaved: bool| {
        format!("[[source]]\nhost = \"{host}\"\npoll = 1\ninterleaved = {interleaved}\n")
    };
    let sections = source("192.0.2.1", true)
        + &source("192.0.2.1:1123", true)
        + &source("192.0.2.1:1124", false);
    let setup = Setup::within(&net.client, &dir, &sections);
    let mut daemon = setup.start();
    let mut watch = daemon.watch(Truth::host());
    watch.run(Duration::from_secs(10));
    println!("{}", watch.summary());
    let found = when(&mut daemon, |found| {
        let many = |s: &Value| s["accepted"].as_u64().is_some_and(|n| n > 8);
        found.len() == 3 && all_agree(found) && found.iter().all(many)
    });
    let modes: Vec<&Value> = found.iter().map(|source| &source["interleaved"]).collect();
    // The embedded server knows the basic mode alone.
    assert_eq!(modes, [true, false, false], "{found:#?}");
    assert!(found.iter().all(|source| source["refused"] == serde_json::json!({})), "{found:#?}");
}

/// Command run as nobody in particular, if we may become that.
fn as_nobody(daemon: &Daemon, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--clear-groups", "--"]).arg(binary::truechimer());
    let output = command.args(arguments).arg("--page").arg(&daemon.page).output().ok()?;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    (!error.contains("setpriv") && output.status.code() == Some(2)).then_some(error)
}

#[test]
fn sources_come_and_go_at_run_time() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    (11..=13).for_each(|number| address(&net.server, "add", number));
    let Some(_chronyd) = or_skip(Chronyd::start(&net.server, &dir, "")) else { return };
    let more = dir.join("more");
    let settings = format!("source-dir = {more:?}");
    let setup = Setup {
        network: Some(&net.client),
        settings: &settings,
        servers: vec!["192.0.2.1".into()],
        ..Setup::new(&dir, "")
    };
    let mut daemon = setup.start();
    let mut watch = daemon.watch(Truth::host());
    let page = daemon.page.clone();
    let good = |arguments: &[&str]| -> Value {
        let Answer { code, json, error } = ask(&page, arguments);
        assert_eq!((code, error.as_str()), (0, ""), "{arguments:?}");
        json
    };
    let bad = |arguments: &[&str], why: &str| {
        let Answer { code, error, .. } = ask(&page, arguments);
        assert!(code == 2 && error.contains(why), "{arguments:?}: {code} {error}");
    };
    let added = good(&["sources", "add", "192.0.2.11", "poll=1"]);
    assert_eq!(added["changed"][0], "192.0.2.11:123");
    let found = when(&mut daemon, |found| found.len() == 2 && all_agree(found));
    assert_eq!((&found[1]["origin"], &found[1]["poll_s"]), (&"run-time".into(), &1.into()));
    bad(&["sources", "add", "192.0.2.11"], "192.0.2.11:123 is a source already");
    bad(&["sources", "add", "x", "pol=1"], "unknown key `pol`; did you mean `poll`");
    bad(&["sources", "add", "--pool", "x", "nts=true"], "`nts` is not for a pool");
    bad(&["sources", "delete", "x"], "by the name x; there are 192.0.2.1:123, 192.0.2.11:123");
    if let Some(told) = as_nobody(&daemon, &["sources", "offline"]) {
        assert!(told.contains("only root and the daemon's own user may change"), "{told}");
    }

    // By one interface, once that is wanted; by none that is not there.
    good(&["sources", "add", "192.0.2.13", "poll=1", "interface=wire", "offline=true"]);
    let found = when(&mut daemon, |found| found.len() == 3);
    assert!(found[2]["trouble"].as_str().unwrap().starts_with("offline"), "{found:#?}");
    good(&["sources", "online", "192.0.2.13"]);
    when(&mut daemon, |found| found.len() == 3 && all_agree(found));
    good(&["sources", "delete", "192.0.2.13"]);
    good(&["sources", "add", "192.0.2.13", "poll=1", "interface=wire9"]);
    let trouble = |found: &[Value]| found.get(2)?["trouble"].as_str().map(str::to_owned);
    let found = when(&mut daemon, |found| trouble(found).is_some());
    assert_eq!(trouble(&found).unwrap(), "request not delivered: interface wire9: No such device");
    good(&["sources", "delete", "192.0.2.13"]);

    // What a program for DHCP leaves, once the daemon is told of it.
    std::fs::create_dir(&more).unwrap();
    let write = |name: &str, text: &str| std::fs::write(more.join(name), text).unwrap();
    write("eth0.toml", "[[source]]\nhost = \"192.0.2.12\"\npoll = 1\n");
    write("eth1.toml", "[[source]]\nhost = \"two words\"\n");
    let partly = || {
        let Answer { code, json, error } = ask(&page, &["sources", "reload"]);
        let warnings = json["warnings"].as_array().map(Vec::len);
        assert_eq!((code, warnings), (1, Some(1)), "{error}");
        assert!(error.contains("eth1.toml is left out: "), "{error}");
    };
    partly();
    let found = when(&mut daemon, |found| found.len() == 3 && all_agree(found));
    assert_eq!(names(&found), ["192.0.2.1:123", "192.0.2.12:123", "192.0.2.11:123"]);
    assert_eq!(found[1]["origin"], "source-dir");
    let log = daemon.process.output();
    assert!(log.contains("eth1.toml is left out: "), "{log}");
    std::fs::remove_file(more.join("eth0.toml")).unwrap();
    partly();
    when(&mut daemon, |found| names(found) == ["192.0.2.1:123", "192.0.2.11:123"]);

    good(&["sources", "offline"]);
    let before = when(&mut daemon, |found| found.len() == 2);
    watch.run(Duration::from_secs(5));
    let after = when(&mut daemon, |found| found.len() == 2);
    let requests = |found: &[Value]| -> Vec<Value> {
        found.iter().map(|source| source["requests"].clone()).collect()
    };
    assert_eq!(requests(&before), requests(&after));
    assert!(after[0]["trouble"].as_str().unwrap().starts_with("offline"), "{after:#?}");
    good(&["sources", "online", "192.0.2.1"]);
    let asked = requests(&after)[0].as_u64().unwrap();
    when(&mut daemon, |found| found[0]["requests"].as_u64().unwrap() > asked + 2);
    good(&["sources", "online"]);
    good(&["sources", "delete", "192.0.2.1"]);
    when(&mut daemon, |found| names(found) == ["192.0.2.11:123"] && all_agree(found));
    bad(&["sources", "delete", "192.0.2.11"], "nothing left to follow");
    watch.run(Duration::from_secs(3));
    println!("{}", watch.summary());
    let log = daemon.process.output();
    assert!(log.contains("192.0.2.1:123: deleted by the control socket"), "{log}");
}
