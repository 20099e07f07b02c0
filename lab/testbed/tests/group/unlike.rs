//! Real programs that differ from the others, and such as only seem to.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;
use truechimer_testbed::binary;
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::process::command;
use truechimer_testbed::ring::{Ring, Settings};

use crate::agents::{Agent, GROUP, PATIENCE, until};
use crate::exec::{local, python};
use crate::front::{Local, runs};

/// Says its process and the time for each line that it gets: in seconds by time(2) for `time`.
const PROGRAM: &str = "
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
libc.time.restype = ctypes.c_long
for line in sys.stdin:
    now = libc.time(None) if line == 'time\\n' else time.time_ns()
    print(os.getpid(), now, flush=True)
";

struct Program {
    child: Child,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start(mut exec: Command) -> Program {
        exec.args(["--together", "3", "--outside", "resume", "--", "python3", "-c", PROGRAM]);
        exec.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = exec.spawn().expect("it starts");
        let answers = BufReader::new(child.stdout.take().unwrap()).lines();
        Program { child, answers }
    }

    /// The time that it says; none if it has ended.
    fn ask(&mut self, line: &str) -> Option<i64> {
        self.child.stdin.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
        let answer = self.answers.next()?.unwrap();
        let (process, time) = answer.split_once(' ').expect("two words");
        assert!(process.parse::<u32>().is_ok(), "{answer}");
        Some(time.parse().expect("a time"))
    }
}

/// Exit status of `truechimer group status` of one member, and its report.
fn status(mut command: Command, member: u32, directory: &Path) -> (i32, Value) {
    command.args(["group", "status", "--group", GROUP, "--member", &member.to_string(), "--json"]);
    let output = command.arg("--directory").arg(directory).output().unwrap();
    let report = serde_json::from_slice(&output.stdout);
    (output.status.code().unwrap(), report.expect("a report"))
}

/// One of three programs reads by another call: it is fenced, all say so, the others go on.
fn one_differs(truechimer: impl Fn(u32) -> Command, directory: &Path) {
    let of = |member| status(truechimer(member), member, directory);
    let start = |member: u32| {
        let mut exec = truechimer(member);
        exec.args(["group", "exec", "--group", GROUP, "--member", &member.to_string()]);
        exec.arg("--directory").arg(directory);
        Program::start(exec)
    };
    let mut programs: Vec<Program> = (1..=3).map(start).collect();
    for line in ["now", "time", "now"] {
        let times: Vec<_> = programs.iter_mut().map(|program| program.ask(line)).collect();
        assert!(times[0].is_some() && times.iter().all(|time| *time == times[0]), "{times:?}");
    }
    // They write unlike process ids all the time.
    for member in 1..=3 {
        // On a loaded machine one may wait for the others for a while, and say so.
        until("no trouble", || {
            let (code, report) = of(member);
            code == 0 && report["troubles"] == Value::Array(Vec::new())
        });
    }
    // It is the first to read, so that the round goes by its call.
    for (at, line) in [(1, "time"), (0, "now"), (2, "now")] {
        programs[at].ask(line).expect("a value");
    }
    for member in 1..=3 {
        until("all know who differs", || of(member).1["members"][1]["fenced"] == true);
        let (code, report) = of(member);
        assert_eq!(code, 1, "{report}");
        let differs = &report["members"][1]["differs"];
        assert_eq!(
            (&differs["call"], &differs["others"]),
            (&"time".into(), &"clock_gettime".into())
        );
        assert!(
            differs["since_ns"].as_i64().unwrap() > 0 && differs["round"].is_u64(),
            "{differs}"
        );
        let diverged: Vec<&Value> = report["troubles"].as_array().unwrap().iter().collect();
        let named = |trouble: &&Value| trouble["kind"] == "diverged" && trouble["member"] == 2;
        assert!(!diverged.is_empty() && diverged.iter().all(named), "{report}");
        let fenced = report["notices"].as_array().unwrap().iter().find(|it| it["kind"] == "fenced");
        assert_eq!(fenced.expect("it is in the log")["count"], 1);
    }
    // No value more, whatever it would do outside of the majority.
    assert_eq!(programs[1].ask("now"), None);
    let mut odd = programs.remove(1);
    assert_eq!(odd.child.wait().unwrap().code(), Some(75));
    let mut said = String::new();
    odd.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("it differs from a majority's"), "{said}");
    for _ in 0..5 {
        let times: Vec<_> = programs.iter_mut().map(|program| program.ask("now")).collect();
        assert!(times[0].is_some() && times[0] == times[1], "{times:?}");
    }
    until("nobody differs any more", || of(1).1["members"][1]["differs"].is_null());
    for program in &mut programs {
        program.child.kill().unwrap();
        program.child.wait().unwrap();
    }
    until("all is well", || (1..=3).all(|member| of(member).0 == 0));
}

#[test]
fn whoever_reads_by_another_call_is_fenced_and_told() {
    let Some(()) = or_skip(python()) else { return };
    let (dir, _agent) = local();
    one_differs(|_| command(binary::truechimer()), dir.path());
}

#[test]
fn and_so_it_is_on_a_ring() {
    let Some(()) = or_skip(python()) else { return };
    let Some(ring) = or_skip(Ring::up(&Settings::brisk())) else { return };
    let _agents = Agent::at_all(&ring);
    one_differs(|node| ring.command(node, binary::truechimer()), &ring.dir().join("agents"));
}

/// A server that closes each connection after one line, and reads the clock also when idle. The
/// second replica's answers `ODD` by its process id.
const SERVER: &str = "
import os, socketserver, sys, threading, time
lock = threading.Lock()
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        line = self.rfile.readline()
        odd = line == b'ODD\\n' and sys.argv[2].endswith('2')
        with lock:
            answer = b'%d %d\\n' % (time.time_ns(), os.getpid() if odd else 0)
            self.wfile.write(answer * (2000 if line == b'LONG\\n' else 1))
def idle():
    while time.time_ns():
        time.sleep(0.1)
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
print(os.getpid(), flush=True)
threading.Thread(target=idle, daemon=True).start()
Server(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
";

#[test]
fn a_server_whose_connections_end_early_differs_in_nothing_and_one_that_says_its_pid_does() {
    let Some(python) = or_skip(runs("python3")) else { return };
    let line = |port: u16, own: &Path| {
        let words = [python.to_str().unwrap(), "-c", SERVER, &port.to_string()];
        words.into_iter().chain(own.to_str()).map(str::to_owned).collect()
    };
    let mut local = Local::start(line, &["--protocol", "line", "--patience", "60s"]);
    for round in 0..30 {
        let mut client = local.client(round % 3 + 1);
        let more = ["LONG\nand more\n", "NOW\n", "LONG\n"][round as usize / 3 % 3];
        client.stream.write_all(more.as_bytes()).unwrap();
        if round % 2 == 0 {
            let mut answer = String::new();
            client.lines.read_line(&mut answer).unwrap();
            assert!(answer.ends_with(" 0\n"), "{answer}");
        }
        // Most of the answer is never read, or no word of it.
    }
    until("no trouble", || local.status() == (0, Vec::new()));
    let answer = local.client(1).ask("ODD");
    assert!(answer.is_some_and(|answer| answer.ends_with(" 0\n")), "a majority's");
    let front = local.fronts.get_mut(&2).unwrap();
    assert_eq!(front.wait(PATIENCE).and_then(|status| status.code()), Some(1));
    let mut told = (0, Vec::new());
    until("the others say so", || {
        told = local.status();
        told.1.iter().any(|one| one.starts_with("member 2: its program's replies differ from"))
    });
    assert_eq!(told.0, 1);
    assert!(
        told.1.iter().any(|one| one.contains("bytes, by request ") && one.contains("), since 20")),
        "{told:?}"
    );
    // It gets no time any more either.
    let program = local.programs.get_mut(&2).unwrap();
    assert_eq!(program.wait(PATIENCE).and_then(|status| status.code()), Some(75));
    assert!(program.output().contains("differ from a majority's"), "{}", program.output());
    assert!(local.client(3).ask("NOW").is_some(), "the others go on");
}
