//! The audit record: a real daemon follows a real chronyd, is killed, starts again and ends, and the
//! report accounts for all of it.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use truechimer::Status;
use truechimer_testbed::chrony::Chronyd;
use truechimer_testbed::daemon::{SOON, Setup};
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::namespace::Pair;
use truechimer_testbed::process::Signal;
use truechimer_testbed::truth::Truth;
use truechimer_testbed::{binary, temp};

use crate::number;

/// Exit status and output of `truechimer audit`.
fn audit(dir: &temp::Dir, arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(binary::truechimer());
    command.args(["audit", "--record"]).arg(dir.join("audit")).args(arguments);
    let output = command.output().unwrap();
    let (out, err) = (output.stdout, output.stderr);
    let text = String::from_utf8_lossy(&[out, err].concat()).into_owned();
    (output.status.code().unwrap(), text)
}

fn report(dir: &temp::Dir) -> Value {
    let (code, text) = audit(dir, &["--limit", "10ms", "--limit", "1ns", "--json"]);
    assert_eq!(code, 0, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_record_outlives_its_daemon_and_the_report_says_so() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(_server) = or_skip(Chronyd::start(&net.server, &dir, "")) else { return };
    let place = dir.join("audit");
    let sections = format!("[audit]\ndirectory = {place:?}\ninterval = \"1s\"\n");
    let setup =
        Setup { network: Some(&net.client), sections: &sections, ..Setup::new(&dir, "192.0.2.1") };
    let mut daemon = setup.start();
    let mut watch = daemon.watch(Truth::host());
    watch.run(Duration::from_secs(5));
    // Stopped: readers see holdover, and so does the record, once it goes on.
    daemon.process.signal(Signal::Stop);
    watch.run_until_status(Status::Holdover, SOON);
    watch.run(Duration::from_secs(2));
    daemon.process.signal(Signal::Continue);
    watch.run_until_status(Status::Synchronised, SOON);
    watch.run(Duration::from_secs(2));
    let running = report(&dir);
    // On a busy machine the look at it may be late.
    let why = &running["unfinished_why"];
    assert!(why == "interval" || why == "overdue", "{running:#}");
    daemon.process.signal(Signal::Kill);
    daemon.process.wait(SOON).expect("it ends");
    // Nobody is at what it was at.
    let killed = report(&dir);
    assert!(killed["unfinished_from"].is_null(), "{killed:#}");
    let (code, text) = audit(&dir, &["--verify"]);
    assert!(code == 0 && text.contains("chain         whole"), "{text}");
    let hash = text.lines().find_map(|line| line.strip_prefix("last hash     ")).unwrap();

    // Nobody is there for a while, and what a crash leaves is put at the end.
    watch.run(Duration::from_secs(3));
    let file = place.join("record-000001.jsonl");
    let left = std::fs::read(&file).unwrap();
    std::fs::write(&file, [&left[..], b"{\"interval\":{\"to\""].concat()).unwrap();
    let mut daemon = setup.start();
    daemon.process.expect_output("the last line was cut off after 17 bytes", SOON);
    watch.run_until_status(Status::Synchronised, SOON);
    watch.run(Duration::from_secs(5));
    // Two daemons do not write one record.
    let second = Setup { name: "second", ..setup };
    let mut other = second.start();
    other.process.expect_output("another daemon writes this record", SOON);
    drop(other);
    daemon.process.signal(Signal::Term);
    daemon.process.wait(SOON).expect("it ends");

    let value = report(&dir);
    println!("{value:#}");
    let chain = &value["chain"];
    assert!(chain["whole"] == true && chain["torn"][0]["told"] == true, "{chain:#}");
    assert_eq!(audit(&dir, &["--verify", "--hash", hash]).0, 0);
    let kinds: Vec<&str> =
        value["events"].as_array().unwrap().iter().map(|e| e["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "start").count(), 2, "{kinds:?}");
    let stood = "holdover: no daemon tended the clock, as it did not run for ";
    let said = |event: &&Value| event["text"].as_str().unwrap().starts_with(stood);
    assert_eq!(value["events"].as_array().unwrap().iter().filter(said).count(), 1, "{value:#}");
    let held = value["statuses"].as_array().unwrap().iter().find(|s| s["name"] == "holdover");
    assert!(number(held.unwrap(), "time_ns") >= 1_900_000_000, "{held:?}");
    for kind in ["status", "torn", "stop"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    let gaps: i64 = value["gaps"].as_array().unwrap().iter().map(|g| number(g, "time_ns")).sum();
    assert!(gaps >= 3_000_000_000, "{gaps}");
    let (all, bounded) = (number(&value, "length_ns"), number(&value, "bounded_ns"));
    assert_eq!(number(&value, "recorded_ns") + gaps, all);
    assert!(bounded >= 8_000_000_000 && bounded <= all - gaps, "{bounded} of {all}");
    let within = number(&value["limits"][0], "within_ns");
    assert!(within <= bounded && number(&value["limits"][1], "within_ns") == 0);
    assert_eq!(value["selected"][0]["name"], "192.0.2.1:123");
    let seen = value["sources"].as_array().unwrap();
    assert!(seen.iter().any(|s| s["stratum"].is_u64() && s["reference"].is_string()), "{seen:?}");
    // Times of the record are the published clock's: they are true.
    let truth = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let to = truechimer_audit::parse_time(value["to"].as_str().unwrap()).unwrap();
    let late = i64::try_from(truth.as_nanos()).unwrap() - to.0;
    assert!((0..60_000_000_000).contains(&late), "{late}");
    println!("{}", audit(&dir, &["--limit", "100us"]).1);
}
