//! Unmodified programs under `group exec`, with real agents: every read of the clock is a round.

use std::path::Path;
use std::process::{Command, Output};

use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_testbed::process::{Process, command};
use truechimer_testbed::ring::{Ring, Settings};
use truechimer_testbed::{binary, temp};

use crate::agents::{Agent, GROUP, until};

/// Its threads answer requests by the time.
const SERVICE: &str = "
import threading, time, random, datetime
answers = {}
def serve(request):
    begun = time.time_ns()
    random.seed(time.time_ns())
    answers[request] = begun, random.getrandbits(64), datetime.datetime.now().isoformat()
for request in range(20):
    threads = [threading.Thread(target=serve, args=(request * 3 + i,)) for i in range(3)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
print(sorted(answers.items()))
";

fn python() -> Result<(), Lacking> {
    let ran = Command::new("python3").arg("--version").output();
    ran.map(|_| ()).map_err(|why| Lacking(format!("python3: {why}")))
}

/// One agent with three members on this machine.
fn local() -> (temp::Dir, Process) {
    let dir = temp::Dir::new();
    let mut agent = command(binary::truechimer());
    agent.args(["group", "agent", "--group", GROUP, "--local", "3", "--state", "none"]);
    agent.args(["--system-clock", "1s"]).arg("--directory").arg(dir.path());
    let agent = Process::start(agent, &dir.join("agent.log"));
    let socket = |member| dir.join(GROUP).join(format!("{member}.sock"));
    until("the agent's sockets", || (1..=3).map(socket).all(|path| path.exists()));
    (dir, agent)
}

fn exec(directory: &Path, member: u32, options: &[&str], program: &[&str]) -> Output {
    let mut exec = command(binary::truechimer());
    exec.args(["group", "exec", "--group", GROUP, "--member", &member.to_string()]);
    exec.arg("--directory").arg(directory).args(options).arg("--").args(program);
    exec.output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What three replicas of the service say.
fn answers(run: impl Fn(u32) -> Output + Sync) -> Vec<String> {
    std::thread::scope(|scope| {
        let run = &run;
        let replicas: Vec<_> = (1..=3).map(|member| scope.spawn(move || run(member))).collect();
        let outputs = replicas.into_iter().map(|replica| replica.join().expect("it ends"));
        outputs
            .map(|output| {
                assert!(output.status.success(), "{output:?}");
                text(&output.stdout)
            })
            .collect()
    })
}

#[test]
fn three_replicas_answer_alike_with_it_and_not_without() {
    let Some(()) = or_skip(python()) else { return };
    let (dir, _agent) = local();
    let service = ["python3", "-c", SERVICE];
    let with = answers(|member| exec(dir.path(), member, &[], &service));
    assert!(with[0].len() > 1000, "{}", with[0]);
    assert!(with[0] == with[1] && with[0] == with[2], "{with:#?}");
    let without = answers(|_| Command::new("python3").args(["-c", SERVICE]).output().unwrap());
    assert!(without[0] != without[1] && without[0] != without[2] && without[1] != without[2]);
}

#[test]
fn and_over_a_ring() {
    let Some(()) = or_skip(python()) else { return };
    let Some(ring) = or_skip(Ring::up(&Settings::brisk())) else { return };
    let agents = Agent::at_all(&ring);
    let directory = ring.dir().join("agents");
    let with = answers(|node| {
        let mut exec = ring.command(node, binary::truechimer());
        exec.args(["group", "exec", "--group", GROUP, "--member", &node.to_string()]);
        exec.arg("--directory").arg(&directory).args(["--", "python3", "-c", SERVICE]);
        exec.output().expect("it starts")
    });
    assert!(with[0].len() > 1000 && with[0] == with[1] && with[0] == with[2], "{with:#?}");
    drop(agents);
}

#[test]
fn what_is_wrong_is_said() {
    let (dir, _agent) = local();
    let fails = |options: &[&str], program: &[&str], words: &[&str]| {
        let output = exec(dir.path(), 1, options, program);
        assert!(output.stdout.is_empty(), "{output:?}");
        let said = text(&output.stderr);
        assert!(words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
        output.status.code()
    };
    assert_eq!(fails(&[], &["/no/such/program"], &["no such program"]), Some(2));
    let missing = ["--library", "/no/such/library.so"];
    assert_eq!(fails(&missing, &["date"], &["/no/such/library.so", "no such library"]), Some(2));
    assert_eq!(fails(&["--mode", "passive"], &["date"], &["mode"]), Some(78));
    assert_eq!(fails(&["--patience", "0"], &["date"], &["--patience"]), Some(2));
    let elsewhere = temp::Dir::new();
    let output = exec(elsewhere.path(), 1, &[], &["date"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no agent"), "{output:?}");
}

#[test]
fn what_is_preloaded_already_stays() {
    let (dir, _agent) = local();
    let mut exec = command(binary::truechimer());
    exec.args(["group", "exec", "--group", GROUP, "--member", "1", "--directory"]);
    exec.arg(dir.path()).args(["--", "sh", "-c", "echo $LD_PRELOAD"]);
    let output = exec.env("LD_PRELOAD", binary::warp()).output().unwrap();
    let said = text(&output.stdout);
    assert!(said.contains("libtruechimer_group.so:"), "{output:?}");
    assert!(said.contains("libtruechimer_warp.so"), "{output:?}");
}
