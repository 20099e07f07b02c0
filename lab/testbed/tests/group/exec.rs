//! Unmodified programs under `group exec`, with real agents: every read of the clock is a round.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use truechimer_group_agent::Report;
use truechimer_group_client::{Member, Watcher, Where};
use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_testbed::process::{Process, command};
use truechimer_testbed::ring::{Ring, Settings};
use truechimer_testbed::{binary, temp};

use crate::agents::{Agent, GROUP, PATIENCE, until};

/// Service whose threads answer requests by the time. They share nothing else: which of them goes
/// on first is the processor's choice.
const SERVICE: &str = "
import threading, time, random, datetime
answers = {}
def serve(request):
    begun = time.time_ns()
    drawn = random.Random(time.time_ns()).getrandbits(64)
    answers[request] = begun, drawn, datetime.datetime.now().isoformat()
for request in range(20):
    threads = [threading.Thread(target=serve, args=(request * 3 + i,)) for i in range(3)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
print(sorted(answers.items()))
";

/// However long one of them takes to start.
const TOGETHER: &[&str] = &["--together", "3"];

pub fn python() -> Result<(), Lacking> {
    let ran = Command::new("python3").arg("--version").output();
    ran.map(|_| ()).map_err(|why| Lacking(format!("python3: {why}")))
}

/// One agent with three members on this machine.
pub fn local() -> (temp::Dir, Process) {
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

/// Answers of three replicas of the service.
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
    let with = answers(|member| exec(dir.path(), member, TOGETHER, &service));
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
        exec.args(TOGETHER).arg("--directory").arg(&directory);
        exec.args(["--", "python3", "-c", SERVICE]);
        exec.output().expect("it starts")
    });
    assert!(with[0].len() > 1000 && with[0] == with[1] && with[0] == with[2], "{with:#?}");
    drop(agents);
}

/// Says the time, ns since 1970, as often as it gets a line.
const CLOCK: &str = "
import sys, time
for line in sys.stdin: print(time.time_ns(), flush=True)
";

/// A program under `exec` that says the time when it is asked.
struct Clock {
    child: Child,
    answers: Receiver<String>,
}

impl Clock {
    fn start(mut exec: Command) -> Clock {
        exec.args(["--", "python3", "-c", CLOCK]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = exec.spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (says, answers) = channel();
        std::thread::spawn(move || {
            lines.map_while(Result::ok).try_for_each(|line| says.send(line))
        });
        Clock { child, answers }
    }

    fn ask(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"?\n").unwrap();
    }

    fn answer(&mut self) -> i64 {
        let line = self.answers.recv_timeout(PATIENCE).expect("it lives, and does not hang");
        line.parse().expect("a time")
    }

    fn read(&mut self) -> i64 {
        self.ask();
        self.answer()
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Each of them reads once: the value, the same at all.
fn same(clocks: &mut [Clock]) -> i64 {
    clocks.iter_mut().for_each(Clock::ask);
    let values: Vec<i64> = clocks.iter_mut().map(Clock::answer).collect();
    assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
    values[0]
}

/// Programs are equal and read what is true now, after any uneven history. `exec` is the command
/// for a member; `report` what a member's agent says.
fn uneven_histories(exec: impl Fn(u32) -> Command, report: impl Fn(u32) -> Report) {
    let start = |member, together| {
        until("no program is there", || report(member).programs.family.is_none());
        let mut exec = exec(member);
        exec.args(["--together", together]);
        exec
    };
    let all = || (1..=3).map(|member| Clock::start(start(member, "3"))).collect::<Vec<Clock>>();
    let last = || (1..=3).filter_map(|it| report(it).last).map(|it| it.time_ns).max().unwrap_or(0);
    let together = || {
        let before = last();
        let mut clocks = all();
        let value = same(&mut clocks);
        assert!(value > before, "older than their start: {value}, {before}");
        clocks
    };
    // Three alone at one member, then all at once.
    for _ in 0..3 {
        let before = last();
        let mut clock = Clock::start(start(1, "1"));
        let value = clock.read();
        assert!(value > before, "older than its start: {value}, {before}");
        clock.kill();
    }
    let mut clocks = together();
    // They are not equally far when all are killed, and started again.
    for clock in [1, 1, 2] {
        clocks[clock].read();
    }
    clocks.drain(..).for_each(Clock::kill);
    let mut clocks = together();
    for _ in 0..3 {
        same(&mut clocks);
    }
    // One is started again beside the others: it reads what is true now, and says what it lacks.
    clocks.pop().into_iter().for_each(Clock::kill);
    let before = same(&mut clocks);
    let mut late = start(3, "1");
    late.stderr(Stdio::piped());
    clocks.push(Clock::start(late));
    assert!(clocks[2].read() > before);
    assert_eq!(report(3).programs.began, "late");
    let mut errors = clocks[2].child.stderr.take().unwrap();
    clocks.drain(..).for_each(Clock::kill);
    let mut said = String::new();
    errors.read_to_string(&mut said).unwrap();
    assert_eq!(said.matches("needs their state").count(), 1, "{said}");
}

#[test]
fn programs_that_start_together_are_equal_whatever_one_has_read_alone() {
    let Some(()) = or_skip(python()) else { return };
    let (dir, _agent) = local();
    let command = |member: u32| {
        let mut exec = command(binary::truechimer());
        exec.args(["group", "exec", "--group", GROUP, "--member", &member.to_string()]);
        exec.arg("--directory").arg(dir.path());
        exec
    };
    let report = |member| {
        let place = Where {
            directory: Some(dir.path().to_owned()),
            member: Some(Member(member)),
            ..Where::group(GROUP)
        };
        let text = Watcher::attach(&place).unwrap().status(PATIENCE).unwrap();
        Report::from_json(&text.expect("the agent answers")).unwrap()
    };
    uneven_histories(command, report);
}

#[test]
fn and_so_they_are_on_a_ring() {
    let Some(()) = or_skip(python()) else { return };
    let Some(ring) = or_skip(Ring::up(&Settings::brisk())) else { return };
    let agents = Agent::at_all(&ring);
    let directory = ring.dir().join("agents");
    let command = |node: u32| {
        let mut exec = ring.command(node, binary::truechimer());
        exec.args(["group", "exec", "--group", GROUP, "--member", &node.to_string()]);
        exec.arg("--directory").arg(&directory);
        exec
    };
    uneven_histories(command, |node| agents[node as usize - 1].report());
}

/// The primary's program is killed while its agent lives, and so is the next one's: another takes over, with what was
/// read before, and time does not go back.
fn the_next_program_takes_over(mode: &str) {
    let Some(()) = or_skip(python()) else { return };
    let Some(ring) = or_skip(Ring::up(&Settings::brisk())) else { return };
    let start = |node| Agent::start(&ring, node, &["--mode", mode]);
    let agents: Vec<Agent> = (1..=3).map(start).collect();
    agents.iter().for_each(|agent| agent.wait_for("live"));
    let directory = ring.dir().join("agents");
    let start = |node: u32| {
        let mut exec = ring.command(node, binary::truechimer());
        exec.args(["group", "exec", "--group", GROUP, "--member", &node.to_string()]);
        exec.args(["--mode", mode, "--together", "3"]).arg("--directory").arg(&directory);
        Clock::start(exec)
    };
    let mut clocks: BTreeMap<u32, Clock> = (1..=3).map(|node| (node, start(node))).collect();
    let report = |node: u32| agents[node as usize - 1].report();
    let all_run = |report: Report| report.members.iter().all(|member| member.program);
    until("all programs are there", || (1..=3).all(|node| all_run(report(node))));
    let mut last = 0;
    while clocks.len() > 1 {
        let first = report(1).first.expect("there is a primary");
        let mut primary = clocks.remove(&first).expect("whose program is there");
        let values: Vec<i64> = (0..5).map(|_| primary.read()).collect();
        assert!(values[0] > last && values.is_sorted_by(|one, next| one < next), "{values:?}");
        for clock in clocks.values_mut() {
            assert_eq!((0..5).map(|_| clock.read()).collect::<Vec<_>>(), values, "{mode}");
        }
        // They wait for the primary's next reading, which does not come.
        clocks.values_mut().for_each(Clock::ask);
        let of_backup = |node: &u32| report(*node).waiting.operations > 0;
        until("all backups wait", || clocks.keys().all(of_backup));
        let killed = Instant::now();
        primary.kill();
        let next: Vec<i64> = clocks.values_mut().map(Clock::answer).collect();
        let gap = killed.elapsed();
        assert!(next.iter().all(|value| *value == next[0] && *value > values[4]), "{next:?}");
        last = next[0];
        let handover = report(first).handover.expect("its agent lives, and knows of it");
        assert_eq!((handover.from, handover.cause.as_str()), (first, "ended"), "{mode}");
        assert!(clocks.contains_key(&handover.to), "{mode}: {handover:?}");
        assert_eq!(report(first).phase, "live");
        let gap = gap.as_secs_f64() * 1000.0;
        println!(
            "{mode}: {gap:.1} ms from the end of member {first}'s program to the others' values"
        );
    }
}

#[test]
fn where_the_primarys_program_is_killed_the_next_takes_over_semi_active() {
    the_next_program_takes_over("semi-active");
}

#[test]
fn where_the_primarys_program_is_killed_the_next_takes_over_passive() {
    the_next_program_takes_over("passive");
}

/// Without a word about how many: all that are live, or after a second those that are there.
#[test]
fn a_program_does_not_wait_for_ever_for_the_others() {
    let (dir, _agent) = local();
    let date = ["date", "+%s%N"];
    let value =
        |text: &str| text.trim().parse::<i64>().unwrap_or_else(|why| panic!("{why}: {text}"));
    let alone = exec(dir.path(), 2, &[], &date);
    assert!(alone.status.success(), "{alone:?}");
    let values = answers(|member| exec(dir.path(), member, TOGETHER, &date));
    assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
    assert!(value(&values[0]) > value(&text(&alone.stdout)));
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
fn where_time_goes_back_there_is_none_at_present() {
    let dir = temp::Dir::new();
    let mut agent = command(binary::truechimer());
    agent.args(["group", "agent", "--group", GROUP, "--local", "1", "--state", "none"]);
    agent.args(["--order", "published", "--directory"]).arg(dir.path());
    let _agent = Process::start(agent, &dir.join("agent.log"));
    let now = ["--reads", "now", "--wait", "20s"];
    let output = exec(dir.path(), 1, &now, &["date"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(78), "{said}");
    assert!(said.contains("order is published") && said.contains("--reads now"), "{said}");
    let together = [&now[..], &["--together", "3"]].concat();
    assert_eq!(exec(dir.path(), 1, &together, &["date"]).status.code(), Some(2));
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
