//! Behaviour of the library where there is no agreed time, or nothing to do.

use crate::agent::lock;
use crate::stage::{Stage, is_group, run, said, until, wait};

fn host_or_group(text: &str) -> &'static str {
    if is_group(text.parse().expect("a number")) { "group" } else { "host" }
}

#[test]
fn who_is_left_out_keeps_the_hosts_clock() {
    let stage = Stage::new(1);
    let leave_out: [(&str, &str); 3] = [
        ("TRUECHIMER_GROUP_OFF", "1"),
        ("TRUECHIMER_GROUP_EXCEPT", "top,date"),
        ("TRUECHIMER_GROUP", ""),
    ];
    for (name, value) in leave_out {
        let text = said(stage.command("date").arg("+%s").env(name, value));
        assert_eq!(host_or_group(&text), "host", "{name}");
    }
    assert_eq!(lock(&stage.agreement).rounds(), 0);
    // A shell of the group that leaves a program out, and one that it does not.
    let script = "TRUECHIMER_GROUP_OFF=1 date +%s; date +%s";
    let text = said(stage.command("bash").args(["-c", script]));
    assert_eq!(text.lines().map(host_or_group).collect::<Vec<_>>(), ["host", "group"]);
    let mut command = stage.command("bash");
    command.args(["-c", "printf '%(%s)T\\n'; date +%s; echo $LD_PRELOAD"]);
    let text = said(command.env("TRUECHIMER_GROUP_CHILDREN", "none"));
    assert_eq!(text.lines().map(host_or_group).collect::<Vec<_>>(), ["group", "host"]);
}

#[test]
fn wrong_settings_are_named() {
    let stage = Stage::new(1);
    let output = run(stage.command("date").env("TRUECHIMER_GROUP_OUTSIDE", "maybe"));
    assert_eq!(output.status.code(), Some(78));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("TRUECHIMER_GROUP_OUTSIDE") && text.contains("block, exit or resume"),
        "{text}"
    );
    let output = run(stage.command("date").env("TRUECHIMER_GROUP_MODE", "passive"));
    assert_eq!(output.status.code(), Some(78));
    assert!(output.stdout.is_empty());
}

#[test]
fn without_an_agent_nothing_is_told() {
    let stage = Stage::new(1);
    let nobody = stage.folder.join("nobody.sock");
    let mut command = stage.command("date");
    command.env("TRUECHIMER_GROUP_SOCKET", &nobody).env("TRUECHIMER_GROUP_OUTSIDE", "exit");
    let output = run(&mut command);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(75), 0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no agent"), "{output:?}");
}

#[test]
fn an_agent_that_comes_later_is_waited_for() {
    let mut stage = Stage::new(1);
    let mut command = stage.command("date");
    stage.agents.clear();
    let mut child = command.arg("+%s").spawn().expect("it starts");
    std::thread::sleep(std::time::Duration::from_millis(60));
    assert!(child.try_wait().expect("our child").is_none(), "it waits");
    let folder = stage.folder.clone();
    stage.agents.push(crate::agent::Agent::start(
        folder,
        1,
        std::sync::Arc::clone(&stage.agreement),
    ));
    let output = wait(child);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(host_or_group(text.trim()), "group");
}

#[test]
fn outside_the_primary_component() {
    let stage = Stage::new(1);
    stage.agent().outside(true);
    let output = run(stage.command("date").env("TRUECHIMER_GROUP_OUTSIDE", "exit"));
    assert_eq!((output.status.code(), output.stdout.len()), (Some(75), 0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("outside"), "{output:?}");
    let output = run(stage.command("date").env("TRUECHIMER_GROUP_PATIENCE", "50"));
    assert_eq!((output.status.code(), output.stdout.len()), (Some(75), 0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("patience"), "{output:?}");
    let child = stage.command("date").arg("+%s").spawn().expect("it starts");
    until("it reads", || stage.agent().waiting() > 0);
    stage.agent().outside(false);
    let output = wait(child);
    assert_eq!(host_or_group(String::from_utf8_lossy(&output.stdout).trim()), "group");
}

#[test]
fn a_read_that_waits_for_long_says_so_and_says_that_it_goes_on() {
    use std::io::{BufRead, BufReader};
    let (stage, other) = (Stage::new(1), Stage::new(1));
    stage.agent().outside(true);
    other.agent().outside(true);
    let mut command = stage.command("date");
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().expect("it starts");
    let mut quiet = other.command("date");
    let quiet = quiet.env("TRUECHIMER_GROUP_QUIET", "1").spawn().expect("it starts");
    let mut said = BufReader::new(child.stderr.take().expect("piped")).lines();
    let line = said.next().expect("a line").expect("text");
    assert!(line.contains("waiting for the group's time: this member is outside"), "{line}");
    stage.agent().outside(false);
    let line = said.next().expect("another line").expect("text");
    assert!(line.contains("no longer waiting"), "{line}");
    assert!(wait(child).status.success());
    other.agent().outside(false);
    let output = wait(quiet);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

/// Reads a line, then the clock, as often as there are lines.
const READER: &str = "
import sys, time
for line in sys.stdin: print(int(time.time()), flush=True)
";

#[test]
fn what_was_missed_ends_the_program_unless_it_resumes() {
    use std::io::{BufRead, BufReader, Write};
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        eprintln!("no python3: not tested");
        return;
    }
    for (outside, resumes) in [(None, false), (Some("exit"), false), (Some("resume"), true)] {
        let stage = Stage::new(1);
        let mut command = stage.command("python3");
        command.args(["-c", READER]).stdin(std::process::Stdio::piped());
        if let Some(outside) = outside {
            command.env("TRUECHIMER_GROUP_OUTSIDE", outside);
        }
        let mut child = command.spawn().expect("it starts");
        let mut input = child.stdin.take().expect("piped");
        let mut said = BufReader::new(child.stdout.take().expect("piped"));
        let mut ask = || {
            input.write_all(b"\n").expect("it reads");
            let mut line = String::new();
            said.read_line(&mut line).expect("text");
            line.trim().to_owned()
        };
        assert_eq!(host_or_group(&ask()), "group");
        // It was not asked for anything while the member was out.
        stage.agent().miss();
        until("the gap", || stage.agent().has_missed());
        let answer = ask();
        if resumes {
            assert_eq!(host_or_group(&answer), "group");
            assert_eq!(host_or_group(&ask()), "group");
            drop(input);
            assert!(wait(child).status.success());
        } else {
            assert_eq!(answer, "", "{outside:?}");
            let output = wait(child);
            assert_eq!(output.status.code(), Some(75), "{output:?}");
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(text.contains("goes on without") && text.contains("start it anew"), "{text}");
        }
    }
}

#[test]
fn an_agent_that_dies_ends_its_program() {
    let mut stage = Stage::new(1);
    stage.agent().hold(true);
    let child = stage.command("date").spawn().expect("it starts");
    until("it reads", || stage.agent().waiting() > 0);
    stage.agents.clear();
    let output = wait(child);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(75), 0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("agent is gone"), "{output:?}");
}
