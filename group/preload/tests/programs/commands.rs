//! Programs that any system has, or many.

use std::path::Path;
use std::process::Command;

use crate::agent::lock;
use crate::stage::{Stage, is_group, run, said};

fn is_there(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        println!("not here: {program}");
    }
    there
}

/// The time in s that a program tells in one word.
fn told(stage: &Stage, program: &str, arguments: &[&str]) -> f64 {
    let text = said(stage.command(program).args(arguments));
    text.parse().unwrap_or_else(|_| panic!("{program} said '{text}'"))
}

#[test]
fn they_tell_the_groups_time() {
    let stage = Stage::new(1);
    let programs: [(&str, &[&str]); 7] = [
        ("date", &["+%s"]),
        ("bash", &["-c", "printf '%(%s)T'"]),
        ("bash", &["-c", "echo $EPOCHREALTIME"]),
        ("dash", &["-c", "date +%s"]),
        ("awk", &["BEGIN{srand(); srand(); print srand()}"]),
        ("perl", &["-MTime::HiRes", "-e", "print Time::HiRes::time"]),
        ("python3", &["-c", "import time; print(time.time())"]),
    ];
    for (program, arguments) in programs {
        if is_there(program) {
            let time = told(&stage, program, arguments);
            assert!(is_group(time), "{program} {arguments:?}: {time}");
        }
    }
}

#[test]
fn python_by_all_its_ways() {
    if !is_there("python3") {
        return;
    }
    let stage = Stage::new(1);
    let program = "\
import time, datetime, os
print(time.time())
print(time.time_ns() / 1e9)
print(time.clock_gettime(time.CLOCK_REALTIME))
print(datetime.datetime.now().timestamp())
print(int(time.strftime('%s', time.localtime())))
";
    let text = said(stage.command("python3").args(["-c", program]));
    let times: Vec<f64> = text.lines().map(|line| line.parse().expect("a number")).collect();
    assert!(times.len() == 5 && times.iter().all(|time| is_group(*time)), "{text}");
    assert!(times.windows(2).take(3).all(|pair| pair[0] <= pair[1]), "{text}");
    assert!(lock(&stage.agreement).rounds() >= 5, "each read was a round");
}

#[test]
fn monotonic_clocks_are_the_groups_by_option_only() {
    if !is_there("python3") {
        return;
    }
    let stage = Stage::new(1);
    let arguments = ["-c", "import time; print(time.monotonic())"];
    let host = said(stage.command("python3").args(arguments)).parse::<f64>().expect("a number");
    assert!(!is_group(host));
    let mut command = stage.command("python3");
    command.env("TRUECHIMER_GROUP_MONOTONIC", "1").args(arguments);
    assert!(is_group(said(&mut command).parse().expect("a number")));
    // Waits of an event loop and of threads go by that clock.
    let program = "\
import threading, queue, time
begin = time.monotonic()
try: queue.Queue().get(timeout=0.05)
except queue.Empty: pass
threading.Event().wait(0.05)
lock = threading.Lock()
lock.acquire()
lock.acquire(timeout=0.05)
time.sleep(0.05)
print(time.monotonic() - begin >= 0.2)
";
    let mut command = stage.command("python3");
    command.env("TRUECHIMER_GROUP_MONOTONIC", "1").args(["-c", program]);
    assert_eq!(said(&mut command), "True");
}

#[test]
fn this_very_language() {
    // The test itself is a program in Rust: run again, with this one test.
    if std::env::var_os("TRUECHIMER_GROUP").is_some() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let other = std::thread::spawn(std::time::SystemTime::now).join().expect("it ends");
        let now = now.expect("after 1970").as_secs_f64();
        let other = other.duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        // The agents' own clock is the host's in there, so it is told here what is expected.
        let expected: f64 = std::env::var("EXPECTED").expect("set").parse().expect("a number");
        assert!((now - expected).abs() < 900.0 && (other.as_secs_f64() - now).abs() < 900.0);
        return;
    }
    let stage = Stage::new(1);
    let host = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let expected = host.expect("after 1970").as_secs_f64() + 3600.0;
    let own = std::env::current_exe().expect("a test knows its own path");
    let mut command = stage.command(own);
    command.args(["--exact", "commands::this_very_language"]);
    command.env("EXPECTED", expected.to_string());
    let output = run(&mut command);
    assert!(output.status.success(), "{output:?}");
    assert!(lock(&stage.agreement).rounds() >= 2);
}

/// PostgreSQL 15 where it is installed; nothing installs it for this, so that elsewhere this test
/// says so and tells nothing.
#[test]
fn postgresql_where_it_is_installed() {
    let folder = Path::new("/usr/lib/postgresql/15/bin");
    if !folder.join("postgres").exists() {
        println!("not here: PostgreSQL 15");
        return;
    }
    // SAFETY: takes nothing.
    let root = unsafe { libc::geteuid() } == 0;
    if root && !is_there("setpriv") {
        return;
    }
    let stage = Stage::new(1);
    let data = stage.folder.join("data");
    // It refuses to run as root.
    let command = |name: &str| {
        let program = folder.join(name);
        if !root {
            return stage.command(program);
        }
        let mut command = stage.command("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]);
        command.arg(program);
        command
    };
    if root {
        let socket = &stage.agent().socket;
        for path in [stage.folder.as_path(), socket.parent().expect("a folder"), socket] {
            std::os::unix::fs::chown(path, Some(65534), Some(65534)).expect("root may");
        }
    }
    let mut init = command("initdb");
    init.args(["-A", "trust", "-U", "test", "-E", "UTF8", "--no-locale", "-N", "-D"]).arg(&data);
    // Making the database needs no group.
    let output = run(init.env("TRUECHIMER_GROUP_OFF", "1"));
    assert!(output.status.success(), "{output:?}");
    let mut single = command("postgres");
    single.args(["--single", "-D"]).arg(&data).arg("postgres").stdin(std::process::Stdio::piped());
    let mut child = single.spawn().expect("it starts");
    std::io::Write::write_all(
        &mut child.stdin.take().expect("asked for"),
        b"select extract(epoch from now()) as told\n",
    )
    .expect("it reads");
    let output = crate::stage::wait(child);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = text.split("told = \"").nth(1).and_then(|rest| rest.split('"').next());
    let told: f64 = told.and_then(|told| told.parse().ok()).unwrap_or_else(|| panic!("{output:?}"));
    assert!(is_group(told), "{told}");
}
