//! Unmodified programs, replicated by fronts: the same answers from all replicas with the group's
//! time, different ones without.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_testbed::process::{Process, Signal, command};
use truechimer_testbed::ring::{Ring, Settings};
use truechimer_testbed::{binary, ports, temp};

use crate::agents::{Agent, GROUP, PATIENCE, until};

const MEMBERS: [u32; 3] = [1, 2, 3];

/// A file of the examples.
fn example(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/group")).join(name)
}

/// Path of a program, if it can be run here.
pub fn runs(program: &str) -> Result<PathBuf, Lacking> {
    let path = binary::system(program);
    let ran = Command::new(&path).arg("--version").output();
    ran.map(|_| path).map_err(|why| Lacking(format!("{program}: {why}")))
}

/// Runner of the programs: `truechimer`, and the user if it must not be this one.
pub struct Runner {
    pub truechimer: PathBuf,
    pub user: Option<u32>,
}

impl Runner {
    pub fn command(&self, program: &Path) -> Command {
        let Some(user) = self.user else { return command(program) };
        let user = user.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--reuid", &user, "--regid", &user]);
        command.args(["--clear-groups", "--"]).arg(program).current_dir("/");
        command
    }
}

/// One agent with three members on this machine, a front and a program for each.
pub struct Local {
    pub fronts: BTreeMap<u32, Process>,
    pub programs: BTreeMap<u32, Process>,
    agent: Process,
    pub listen: Vec<u16>,
    pub connect: Vec<u16>,
    runner: Runner,
    dir: temp::Dir,
}

impl Local {
    /// With programs that `program` starts at a port, in a folder.
    pub fn start(program: impl Fn(u16, &Path) -> Vec<String>, options: &[&str]) -> Local {
        let runner = Runner { truechimer: binary::truechimer(), user: None };
        Local::start_by(runner, temp::Dir::new(), program, options)
    }

    /// An agent with all members, in a folder.
    pub fn agent(runner: &Runner, dir: &temp::Dir) -> Process {
        let mut agent = runner.command(&runner.truechimer);
        agent.args(["group", "agent", "--group", GROUP, "--local", "3", "--state", "none"]);
        agent.args(["--system-clock", "1s"]).env("TRUECHIMER_GROUP_DIR", dir.path());
        let agent = Process::start(agent, &dir.join("agent.log"));
        let socket = |member: &u32| dir.join(GROUP).join(format!("{member}.sock"));
        until("the agent's sockets", || MEMBERS.iter().map(socket).all(|path| path.exists()));
        agent
    }

    /// Starts it by a runner, in a folder.
    pub fn start_by(
        runner: Runner,
        dir: temp::Dir,
        program: impl Fn(u16, &Path) -> Vec<String>,
        options: &[&str],
    ) -> Local {
        let agent = Local::agent(&runner, &dir);
        let mut ports = ports::free(6);
        let connect = ports.split_off(3);
        let mut local = Local {
            fronts: BTreeMap::new(),
            programs: BTreeMap::new(),
            agent,
            listen: ports,
            connect,
            runner,
            dir,
        };
        for member in MEMBERS {
            local.front(member, options);
            let own = local.dir.join(&format!("own{member}"));
            std::fs::create_dir_all(&own).unwrap();
            let line = program(local.connect[member as usize - 1], &own);
            local.program(member, &line);
        }
        local.wait_ready(&MEMBERS);
        local
    }

    fn command(&self, what: &str, member: u32) -> Command {
        let mut command = self.runner.command(&self.runner.truechimer);
        command.args(["group", what, "--group", GROUP, "--member", &member.to_string()]);
        command.env("TRUECHIMER_GROUP_DIR", self.dir.path());
        command
    }

    /// `truechimer group status` of all members: its exit status and the troubles, in words.
    pub fn status(&self) -> (i32, Vec<String>) {
        Local::status_at(&self.runner, &self.dir)
    }

    /// Exit status and troubles likewise, of an agent in a folder.
    pub fn status_at(runner: &Runner, dir: &temp::Dir) -> (i32, Vec<String>) {
        let mut command = runner.command(&runner.truechimer);
        command.args(["group", "status", "--group", GROUP, "--json"]);
        let output = command.env("TRUECHIMER_GROUP_DIR", dir.path()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let reports = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let troubles = reports.flat_map(|report: serde_json::Value| {
            report["troubles"].as_array().unwrap().clone().into_iter()
        });
        let words = |one: serde_json::Value| {
            format!("member {}: {}", one["member"], one["why"].as_str().unwrap())
        };
        (output.status.code().unwrap(), troubles.map(words).collect())
    }

    fn front(&mut self, member: u32, options: &[&str]) {
        let at = member as usize - 1;
        let mut front = self.command("front", member);
        front.args(["--listen", &format!("127.0.0.1:{}", self.listen[at])]);
        front.args(["--connect", &format!("127.0.0.1:{}", self.connect[at])]);
        front.arg("--record").arg(self.record(member)).args(options);
        let log = self.dir.join(&format!("front{member}.log"));
        self.fronts.insert(member, Process::start(front, &log));
    }

    fn program(&mut self, member: u32, line: &[String]) {
        let mut program = self.command("exec", member);
        program.args(["--reads", "delivery", "--"]).args(line);
        let log = self.dir.join(&format!("program{member}.log"));
        self.programs.insert(member, Process::start(program, &log));
    }

    fn record(&self, member: u32) -> PathBuf {
        self.dir.join(&format!("record{member}"))
    }

    fn wait_ready(&mut self, members: &[u32]) {
        for member in members {
            let front = self.fronts.get_mut(member).unwrap();
            front.expect_output("replicas are ready", PATIENCE);
        }
    }

    pub fn client(&self, member: u32) -> Client {
        let mut client = None;
        until("a front's listener", || {
            client = self.client_if_there(member);
            client.is_some()
        });
        client.unwrap()
    }

    pub fn client_if_there(&self, member: u32) -> Option<Client> {
        let port = self.listen[member as usize - 1];
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Some(Client { lines: BufReader::new(stream.try_clone().unwrap()), stream })
    }

    /// Contents of these replicas' records, once they have so many lines; ends the fronts.
    pub fn records(mut self, members: &[u32], lines: usize) -> Vec<String> {
        until("all replicas have processed all requests", || {
            let text = |member| std::fs::read_to_string(self.record(member)).unwrap_or_default();
            members.iter().all(|member| text(*member).lines().count() >= lines)
        });
        for member in members {
            let front = self.fronts.get_mut(member).unwrap();
            front.signal(Signal::Term);
            let status = front.wait(PATIENCE);
            assert!(status.is_some_and(|status| status.success()), "{}", front.output());
        }
        assert!(self.agent.is_running(), "{}", self.agent.output());
        members.iter().map(|m| std::fs::read_to_string(self.record(*m)).unwrap()).collect()
    }
}

pub struct Client {
    pub stream: TcpStream,
    pub lines: BufReader<TcpStream>,
}

impl Client {
    /// One line there, one line back; none if the connection was closed.
    pub fn ask(&mut self, line: &str) -> Option<String> {
        self.stream.write_all(format!("{line}\n").as_bytes()).ok()?;
        let mut answer = String::new();
        self.lines.read_line(&mut answer).ok().filter(|length| *length > 0)?;
        Some(answer)
    }

    /// One line there, one back; none if neither that nor the end of the connection comes in time.
    pub fn ask_in_time(&mut self, line: &str) -> Option<Option<String>> {
        if self.stream.write_all(format!("{line}\n").as_bytes()).is_err() {
            return Some(None);
        }
        let mut answer = String::new();
        match self.lines.read_line(&mut answer) {
            Ok(0) => Some(None),
            Ok(_) => Some(Some(answer)),
            Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => None,
            Err(_) => Some(None),
        }
    }
}

const SERVICE: [&str; 6] = ["NOW", "LOGIN ann", "WHO", "PAY ann 5", "BOOK", "NOW"];

fn service(python: &Path) -> impl Fn(u16, &Path) -> Vec<String> {
    let python = python.to_str().unwrap().to_string();
    move |port, _| {
        let script = example("service.py").to_str().unwrap().to_string();
        vec![python.clone(), script, port.to_string()]
    }
}

fn redis(program: &Path) -> impl Fn(u16, &Path) -> Vec<String> {
    let program = program.to_str().unwrap().to_string();
    move |port, own| {
        let (port, own) = (port.to_string(), own.to_str().unwrap());
        let line = [&program, "--port", &port, "--bind", "127.0.0.1", "--save", "", "--dir", own];
        line.iter().map(|word| (*word).to_string()).collect()
    }
}

/// Lets a client at each front ask all of `lines`, `rounds` times.
fn ask_all(local: &Local, lines: &[&str], rounds: usize) {
    std::thread::scope(|scope| {
        for member in MEMBERS {
            scope.spawn(move || {
                let mut client = local.client(member);
                for _ in 0..rounds {
                    for line in lines {
                        let answer = client.ask(line);
                        assert!(answer.is_some(), "{line} at {member}");
                    }
                }
            });
        }
    });
}

#[test]
fn a_python_service_gives_the_same_answers_everywhere() {
    let Some(python) = or_skip(runs("python3")) else { return };
    let local = Local::start(service(&python), &[]);
    ask_all(&local, &SERVICE, 20);
    let records = local.records(&MEMBERS, 360);
    assert_eq!(records[0].lines().count(), 360);
    assert_eq!(records[0], records[1]);
    assert_eq!(records[0], records[2]);
    let times: Vec<i64> =
        records[0].lines().map(|line| line.split(' ').nth(1).unwrap().parse().unwrap()).collect();
    assert!(times.is_sorted_by(|a, b| a < b), "each request has a later time");
    // The program saw the time of its request, to the nanosecond.
    for line in records[0].lines().filter(|line| line.contains('T')) {
        let mut words = line.split(' ');
        let (time, reply) = (words.nth(1).unwrap(), words.nth(1).unwrap());
        if reply.len() == time.len() && reply.bytes().all(|byte| byte.is_ascii_digit()) {
            assert_eq!(time, reply, "{line}");
        }
    }
}

#[test]
fn without_the_groups_time_the_answers_differ_and_that_is_noticed() {
    let Some(python) = or_skip(runs("python3")) else { return };
    let mut local = Local::start(service(&python), &["--own-clocks"]);
    ask_all(&local, &SERVICE, 3);
    for front in local.fronts.values_mut() {
        front.expect_output("differ", PATIENCE);
    }
    let records = local.records(&MEMBERS, 54);
    let order = |record: &String| -> Vec<String> {
        record.lines().map(|line| line.split(' ').take(3).collect()).collect()
    };
    assert_eq!(order(&records[0]), order(&records[1]), "the same order all the same");
    assert_ne!(records[0], records[1]);
}

#[test]
fn redis_gives_the_same_answers_everywhere() {
    let Some(server) = or_skip(runs("redis-server")) else { return };
    let local = Local::start(redis(&server), &["--protocol", "resp"]);
    let lines = [
        "SET key value PX 30",
        "PEXPIRETIME key",
        "PTTL key",
        "EVAL \"local t = redis.call('TIME') redis.call('SET', 'at', t[1] .. t[2]) return tonumber(t[2])\" 0",
        "EXISTS key",
        // Not DBSIZE: that counts keys which have expired until a timer of Redis' own takes them away, by the host's
        // time and not by the group's order. What a program's own timers do is not replicated, as the documentation
        // for users says.
        "STRLEN at",
        "INCR count",
    ];
    ask_all(&local, &lines, 20);
    let records = local.records(&MEMBERS, 420);
    assert_eq!(records[0], records[1]);
    assert_eq!(records[0], records[2]);
}

#[test]
fn commands_of_a_pipeline_are_one_request_with_one_time() {
    let Some(server) = or_skip(runs("redis-server")) else { return };
    let local = Local::start(redis(&server), &["--protocol", "resp"]);
    let time = "EVAL \"local t = redis.call('TIME') return t[1] * 1000000 + t[2]\" 0\n";
    let (long, rounds) = (16, 20);
    std::thread::scope(|scope| {
        for member in MEMBERS {
            let local = &local;
            scope.spawn(move || {
                let mut client = local.client(member);
                for _ in 0..rounds {
                    client.stream.write_all(time.repeat(long).as_bytes()).unwrap();
                    let mut answers = vec![String::new(); long];
                    for answer in &mut answers {
                        client.lines.read_line(answer).unwrap();
                    }
                    assert!(answers[0].starts_with(':'), "{answers:?}");
                    assert!(answers.iter().all(|it| *it == answers[0]), "{answers:?}");
                }
            });
        }
    });
    let records = local.records(&MEMBERS, 3 * rounds);
    assert_eq!(records[0].lines().count(), 3 * rounds);
    assert_eq!(records[0], records[1]);
    assert_eq!(records[0], records[2]);
}

/// Fifty connections, with pipelines of any length: the requests of many are one message, and are found at one look by
/// each replica's loop.
#[test]
fn fifty_connections_to_a_loop_are_answered_alike() {
    let Some(server) = or_skip(runs("redis-server")) else { return };
    let local = Local::start(redis(&server), &["--protocol", "resp", "--event-loop"]);
    let (conns, rounds) = (50, 20);
    std::thread::scope(|scope| {
        for conn in 0..conns {
            let local = &local;
            scope.spawn(move || {
                let mut client = local.client(MEMBERS[conn % 3]);
                for round in 0..rounds {
                    let long = 1 + (conn * 7 + round * 3) % 16;
                    let key = round % 5;
                    let line = match (conn + round) % 4 {
                        0 => format!("APPEND key{key} {conn},\n"),
                        1 => "EVAL \"return redis.call('TIME')[2]\" 0\n".into(),
                        2 => format!("SET gone{key} {conn} PX 2\n"),
                        _ => format!("INCR count{key}\n"),
                    };
                    client.stream.write_all(line.repeat(long).as_bytes()).unwrap();
                    for _ in 0..long {
                        let mut answer = String::new();
                        client.lines.read_line(&mut answer).unwrap();
                        assert!(!answer.starts_with('-') && !answer.is_empty(), "{answer:?}");
                        if answer.starts_with('$') {
                            client.lines.read_line(&mut answer).unwrap();
                        }
                    }
                }
            });
        }
    });
    let asked = "EVAL \"return redis.call('GET', 'key1') .. redis.call('EXISTS', 'gone2')\" 0";
    let states = MEMBERS.map(|member| {
        let mut client = local.client(member);
        let first = client.ask(asked).unwrap();
        let mut state = String::new();
        client.lines.read_line(&mut state).unwrap();
        first + &state
    });
    assert_eq!(states[0], states[1]);
    let lines = conns * rounds + 3;
    let records = local.records(&MEMBERS, lines);
    assert!(records[0].lines().count() >= lines);
    assert_eq!(records[0], records[1]);
    assert_eq!(records[0], records[2]);
    let times: Vec<&str> = records[0].lines().map(|line| line.split(' ').nth(1).unwrap()).collect();
    let together = times.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert!(together > 0, "some were given at once");
}

#[test]
fn a_redis_that_died_comes_back_with_the_state_of_another() {
    comes_back("--commit=majority");
}

#[test]
fn a_redis_that_is_a_loop_comes_back_with_the_state_of_another() {
    comes_back("--event-loop");
}

/// Something changes the Redis of member 2 behind its front's back: it gives another answer than the others, is out, and
/// follows again once it is started anew with another's state.
#[test]
fn a_redis_that_differed_comes_back_with_the_state_of_another() {
    let Some(server) = or_skip(runs("redis-server")) else { return };
    let Some(cli) = or_skip(runs("redis-cli")) else { return };
    let checkpoint = example("redis-checkpoint").display().to_string();
    let mut local = Local::start(redis(&server), &["--checkpoint-command", &checkpoint]);
    let mut client = local.client(1);
    assert_eq!(client.ask("INCR n").as_deref(), Some(":1\r\n"));
    let port = local.connect[1].to_string();
    let set = command(&cli).args(["-p", &port, "SET", "n", "7"]).status().unwrap();
    assert!(set.success());
    let mut lost = local.client(2);
    assert_eq!(client.ask("INCR n").as_deref(), Some(":2\r\n"), "what a majority has");
    let out = local.fronts.get_mut(&2).unwrap().wait(PATIENCE);
    assert_eq!(out.and_then(|status| status.code()), Some(1), "it differs");
    assert_eq!(lost.ask("INCR n"), None, "its clients are cut off");
    let (status, troubles) = local.status();
    assert!(status == 1 && troubles.iter().any(|it| it.contains("member 2")), "{troubles:?}");
    let mut differs = local.programs.remove(&2).unwrap();
    differs.signal(Signal::Kill);
    differs.wait(PATIENCE);

    let own = local.dir.join("again2");
    let again = restoring(&checkpoint, &own);
    local.front(2, &again.each_ref().map(String::as_str));
    local.wait_ready(&[2]);
    assert_eq!(local.client(2).ask("INCR n").as_deref(), Some(":3\r\n"));
    let mut troubles = Vec::new();
    until("all is well again", || {
        let (status, found) = local.status();
        troubles = found;
        status == 0
    });
    assert_eq!(troubles, [""; 0]);
    end_redis(&own);
}

/// Options of a front that starts member 2's Redis, in that folder, from another's state.
fn restoring(checkpoint: &str, own: &Path) -> [String; 4] {
    let (script, own) = (example("redis-restore"), own.display());
    let restore = format!("{} {GROUP} 2 {own}", script.display());
    let programs = binary::truechimer().parent().unwrap().display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let restore = format!("PATH={programs}:{path} {restore}");
    ["--checkpoint-command".into(), checkpoint.into(), "--restore-command".into(), restore]
}

/// Ends the Redis that the script has started there, which is no child of ours.
fn end_redis(own: &Path) {
    let pid = std::fs::read_to_string(own.join("redis.pid")).unwrap();
    assert!(Command::new("kill").arg(pid.trim()).status().unwrap().success());
}

fn comes_back(how: &str) {
    let Some(server) = or_skip(runs("redis-server")) else { return };
    let Some(_) = or_skip(runs("redis-cli")) else { return };
    let checkpoint = example("redis-checkpoint").display().to_string();
    let mut local = Local::start(redis(&server), &["--checkpoint-command", &checkpoint, how]);
    let mut client = local.client(1);
    assert_eq!(client.ask("SET kept yes PX 100000000").as_deref(), Some("+OK\r\n"));
    let expiry = client.ask("PEXPIRETIME kept").unwrap();
    let mut lost = local.client(2);
    assert_eq!(lost.ask("INCR n").as_deref(), Some(":1\r\n"));
    for processes in [&mut local.fronts, &mut local.programs] {
        let mut killed = processes.remove(&2).unwrap();
        killed.signal(Signal::Kill);
        killed.wait(PATIENCE);
    }
    assert_eq!(lost.ask("INCR n"), None, "its clients are cut off");
    assert_eq!(client.ask("INCR n").as_deref(), Some(":2\r\n"), "the others go on");

    let own = local.dir.join("again2");
    let again = restoring(&checkpoint, &own);
    let again = [&again[0], &again[1], &again[2], &again[3], how];
    local.front(2, &again);
    local.wait_ready(&[2]);
    let mut client = local.client(2);
    // It has had other connections than the others, whose numbers are left out where answers are compared.
    let mut line = client.ask("HELLO 3").unwrap();
    // Its modules come last: none.
    while line != "*0\r\n" {
        line.clear();
        assert!(client.lines.read_line(&mut line).unwrap() > 0, "cut off");
    }
    assert_eq!(client.ask("PEXPIRETIME kept"), Some(expiry));
    assert_eq!(client.ask("INCR n").as_deref(), Some(":3\r\n"));
    assert_eq!(local.client(3).ask("INCR n").as_deref(), Some(":4\r\n"));
    // Once more, over the Redis that the script has started, which removes its file as it ends.
    let mut second = local.fronts.remove(&2).unwrap();
    second.signal(Signal::Term);
    assert!(second.wait(PATIENCE).is_some_and(|status| status.success()), "{}", second.output());
    assert_eq!(local.client(3).ask("INCR n").as_deref(), Some(":5\r\n"));
    local.front(2, &again);
    local.wait_ready(&[2]);
    assert_eq!(local.client(2).ask("INCR n").as_deref(), Some(":6\r\n"));
    for front in local.fronts.values() {
        assert!(!front.output().contains("cat:"), "{}", front.output());
    }
    end_redis(&own);
}

/// One that is stopped answers nobody: its fronts end and say so, and leave no client to hang; also where so much is to
/// be sent to it that it does not go.
#[test]
fn an_agent_that_stands_still_ends_its_fronts() {
    let Some(python) = or_skip(runs("python3")) else { return };
    for crowd in [0, 400] {
        let mut local = Local::start(service(&python), &["--patience", "2s"]);
        let mut clients = MEMBERS.map(|member| local.client(member));
        local.agent.signal(Signal::Stop);
        std::thread::sleep(Duration::from_secs(1));
        local.agent.signal(Signal::Continue);
        assert!(
            clients.iter_mut().all(|client| client.ask("NOW").is_some()),
            "it was stopped for a moment only"
        );
        local.agent.signal(Signal::Stop);
        for client in &mut clients {
            client.stream.write_all(b"NOW\n").unwrap();
        }
        // As many as come before it has ended.
        let mut crowd: Vec<Client> = (0..crowd).map_while(|_| local.client_if_there(1)).collect();
        for front in local.fronts.values_mut() {
            let status = front.wait(PATIENCE);
            assert_eq!(status.and_then(|status| status.code()), Some(2), "{}", front.output());
            assert!(
                front.output().contains("agent on this node stands still"),
                "{}",
                front.output()
            );
        }
        for client in clients.iter_mut().chain(&mut crowd) {
            let mut rest = String::new();
            let came = client.lines.read_line(&mut rest);
            let cut = |why: std::io::ErrorKind| why == std::io::ErrorKind::ConnectionReset;
            assert!(
                came.as_ref().map_or_else(|why| cut(why.kind()), |length| *length == 0),
                "{came:?}"
            );
        }
        local.agent.signal(Signal::Continue);
    }
}

/// The number of another process, and of one that has ended and whom nobody has looked for, are no
/// Redis to be ended or waited for.
#[test]
fn redis_restore_ends_no_other_process_and_waits_for_none_that_has_ended() {
    let Some(_) = or_skip(runs("redis-server")) else { return };
    let Some(_) = or_skip(runs("redis-cli")) else { return };
    let dir = temp::Dir::new();
    // In the place of `truechimer`: no clock, only the program.
    let stand_in = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift\nexec \"$@\"\n";
    std::fs::write(dir.join("truechimer"), stand_in).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.join("truechimer"), executable).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let ports: Vec<String> = ports::free(2).iter().map(u16::to_string).collect();
    let [port, other] = ports.as_slice() else { panic!("two were asked for") };
    let own = dir.join("own");
    std::fs::create_dir(&own).unwrap();
    let mut sleeper = command("sleep").arg("1000").spawn().unwrap();
    let mut ended = command("true").spawn().unwrap();
    let mut redis = command("redis-server");
    redis.args(["--port", other, "--bind", "127.0.0.1", "--save", "", "--daemonize", "no"]);
    let mut stopped = Process::start(redis, &dir.join("stopped.log"));
    stopped.expect_output("Ready to accept connections", PATIENCE);
    stopped.signal(Signal::Stop);
    let mut earlier = None;
    for old in [sleeper.id(), ended.id(), stopped.pid()] {
        std::fs::write(own.join("redis.pid"), format!("{old}\n")).unwrap();
        let mut restore = command(example("redis-restore"));
        restore.args(["g", "1"]).arg(&own).env("TRUECHIMER_FRONT_CONNECT", format!("x:{port}"));
        restore.env("PATH", format!("{}:{path}", dir.path().display()));
        // Nothing in it, and no checksum.
        std::fs::write(dir.join("empty.rdb"), b"REDIS0009\xff\0\0\0\0\0\0\0\0").unwrap();
        let state = std::fs::File::open(dir.join("empty.rdb")).unwrap();
        let output = restore.stdin(state).output().unwrap();
        let log = std::fs::read_to_string(own.join("redis.log"));
        assert!(output.status.success(), "{output:?} {log:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{old}");
        let pid = std::fs::read_to_string(own.join("redis.pid")).unwrap();
        let killed = Command::new("kill").arg(pid.trim()).status().unwrap();
        assert!(killed.success());
        // It removes its file last.
        until("it ends", || !own.join("redis.pid").exists());
        earlier = Some(pid);
    }
    assert!(earlier.is_some());
    assert!(stopped.wait(PATIENCE).is_some(), "one that is stopped is ended");
    assert!(sleeper.try_wait().unwrap().is_none(), "it is none of ours");
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    ended.wait().unwrap();
}

/// A client at a node of a ring: asks, and prints what it got, until told to stop or cut off.
const CLIENT: &str = "
import socket, sys, time
for attempt in range(600):
    try:
        stream = socket.create_connection(('127.0.0.1', 7001), 60)
        break
    except OSError:
        time.sleep(0.1)
lines = stream.makefile('rb')
for number in range(int(sys.argv[1])):
    try:
        stream.sendall(b'PAY ann %d\\n' % number if number % 2 else b'NOW\\n')
        answer = lines.readline()
    except ConnectionError:
        answer = b''
    if not answer.endswith(b'\\n'):
        sys.exit('cut off')
    print(answer.decode().strip(), flush=True)
print('all', flush=True)
";

/// Clients of a Redis with many connections and pipelines.
const CLIENTS: &str = "
import socket, sys, threading, time
printing = threading.Lock()
def connect():
    for attempt in range(600):
        try:
            return socket.create_connection(('127.0.0.1', 7001), 60)
        except OSError:
            time.sleep(0.1)
def ask(long):
    stream = connect()
    lines = stream.makefile('rb')
    for number in range(int(sys.argv[1])):
        try:
            stream.sendall(b'INCR count\\r\\n' * long)
            answers = [lines.readline() for _ in range(long)]
        except ConnectionError:
            answers = [b'']
        with printing:
            for answer in answers:
                if answer.endswith(b'\\n'):
                    print(answer.decode().strip() + '\\\\r\\\\n', flush=True)
        if not answers[-1].endswith(b'\\n'):
            sys.exit('cut off')
    done.append(long)
done = []
threads = [threading.Thread(target=ask, args=(1 + number % 5,)) for number in range(17)]
for thread in threads: thread.start()
for thread in threads: thread.join()
if len(done) < len(threads): sys.exit('cut off')
print('all', flush=True)
";

#[test]
fn on_a_ring_two_go_on_as_one_when_the_third_is_killed() {
    let Some(python) = or_skip(runs("python3")) else { return };
    let script = example("service.py").display().to_string();
    let program = [python.display().to_string(), script, "7000".into()];
    let case = Killed { program: &program, options: &[], client: CLIENT, asks: 600, lines: 1200 };
    let Some(record) = case.run() else { return };
    let times = times_of(&record);
    assert!(times.is_sorted_by(|a, b| a < b), "never back, over the fail-over");
}

/// Messages with requests of many connections are under way as the ring changes.
#[test]
fn on_a_ring_many_connections_to_two_loops_go_on_when_the_third_is_killed() {
    let Some(server) = or_skip(runs("redis-server")) else { return };
    let server = server.display().to_string();
    let line = [&server, "--port", "7000", "--bind", "127.0.0.1", "--save", "", "--dir", "/tmp"];
    let program = line.map(str::to_string);
    let options = ["--protocol", "resp", "--event-loop"];
    let case = Killed {
        program: &program,
        options: &options,
        client: CLIENTS,
        asks: 60,
        lines: 2 * 17 * 60,
    };
    let Some(record) = case.run() else { return };
    let times = times_of(&record);
    assert!(times.is_sorted(), "never back, over the fail-over");
    assert!(times.windows(2).any(|pair| pair[0] == pair[1]), "some were given at once");
}

pub fn times_of(record: &str) -> Vec<i64> {
    record.lines().map(|line| line.split(' ').nth(1).unwrap().parse().unwrap()).collect()
}

/// A service on a ring, one of whose nodes is killed while clients at all of them ask it.
pub struct Killed<'a> {
    pub program: &'a [String],
    pub options: &'a [&'a str],
    /// A client's script, how often it asks at the other nodes, and how many requests that makes at least.
    pub client: &'a str,
    pub asks: u32,
    pub lines: usize,
}

impl Killed<'_> {
    /// Returns what the other two have on record alike; none where there can be no ring.
    pub fn run(&self) -> Option<String> {
        let python = or_skip(runs("python3"))?;
        let ring = or_skip(Ring::up(&Settings::brisk()))?;
        let mut agents = Agent::at_all(&ring);
        let log = |what: &str, node: u32| ring.dir().join(&format!("{what}{node}.log"));
        let record = |node: u32| ring.dir().join(&format!("record{node}"));
        let directory = ring.dir().join("agents");
        let (mut fronts, mut programs) = (Vec::new(), Vec::new());
        for node in MEMBERS {
            let start = |what: &str| {
                let mut command = ring.command(node, binary::truechimer());
                command.args(["group", what, "--group", GROUP, "--member", &node.to_string()]);
                command.arg("--directory").arg(&directory);
                command
            };
            let mut front = start("front");
            front.args(["--listen", "127.0.0.1:7001", "--connect", "127.0.0.1:7000"]);
            front.arg("--record").arg(record(node)).args(self.options);
            fronts.push(Process::start(front, &log("front", node)));
            let mut program = start("exec");
            program.args(["--together", "3", "--reads", "delivery", "--"]).args(self.program);
            programs.push(Process::start(program, &log("program", node)));
        }
        for front in &mut fronts {
            front.expect_output("replicas are ready", PATIENCE);
        }
        let client = |node: u32, count: u32| {
            let mut command = ring.command(node, &python);
            command.args(["-c", self.client, &count.to_string()]);
            Process::start(command, &log("client", node))
        };
        let mut clients = [client(1, self.asks), client(2, 100_000_000), client(3, self.asks)];
        until("the second replica has answered something", || {
            clients[1].output().lines().count() > 50
        });
        agents[1].kill();
        for processes in [&mut fronts, &mut programs] {
            processes[1].signal(Signal::Kill);
            processes[1].wait(PATIENCE);
        }
        assert!(clients[1].wait(PATIENCE).is_some(), "its client is cut off");
        for at in [0, 2] {
            clients[at].expect_output("all\n", PATIENCE);
        }
        let text = |node: u32| std::fs::read_to_string(record(node)).unwrap();
        let told: String = clients.iter().map(Process::output).collect();
        let is_answer = |line: &&str| line.contains('T') || line.starts_with(':');
        let answers: Vec<&str> = told.lines().filter(is_answer).collect();
        until("the survivors have all that clients were told", || {
            [1, 3].map(text).iter().all(|had| answers.iter().all(|answer| had.contains(answer)))
        });
        for at in [0, 2] {
            fronts[at].signal(Signal::Term);
            assert!(fronts[at].wait(PATIENCE).is_some_and(|status| status.success()));
        }
        let (first, third) = (text(1), text(3));
        // The one that ended first may not have come to the end.
        let length = first.len().min(third.len());
        assert_eq!(first[..length], third[..length]);
        assert!(length > 0 && first.lines().count() >= self.lines);
        Some(first)
    }
}

/// A program whose answers are its node's, if it is asked for that, and that hangs if asked to.
const UNLIKE: &str = "
import socket, sys, time
node = int(sys.argv[1])
listener = socket.create_server(('127.0.0.1', 7000))
while True:
    stream = listener.accept()[0]
    for line in stream.makefile('rb'):
        if line == b'HANG\\n' and node > 1:
            time.sleep(1000)
        odd = (line == b'ODD\\n' and node == 2) or line == b'UNLIKE\\n'
        stream.sendall(b'%d\\n' % (node if odd else 0))
    stream.close()
";

/// A program of one loop that hangs at replica 2 if asked to, one way or the other.
const HANGS: &str = "
import selectors, socket, sys, threading
port, second = int(sys.argv[1]), sys.argv[2].endswith('2')
lock, count = threading.Lock(), 0
listener = socket.create_server(('127.0.0.1', port))
waits = selectors.DefaultSelector()
waits.register(listener, selectors.EVENT_READ)
while True:
    for key, _ in waits.select():
        if key.fileobj is listener:
            stream = listener.accept()[0]
            stream.setblocking(False)
            waits.register(stream, selectors.EVENT_READ)
            continue
        data = key.fileobj.recv(1000)
        if not data:
            waits.unregister(key.fileobj)
            key.fileobj.close()
        for line in data.splitlines():
            while line == b'LOOP' and second: pass
            if line == b'LOCK' and second: lock.acquire(), lock.acquire()
            count += 1
            key.fileobj.sendall(b'%d\\n' % count)
";

/// Stopped, in an endless loop or in a dead lock: the others answer at once, and who hangs is named.
#[test]
fn a_program_that_hangs_holds_up_nobody_and_is_named() {
    let Some(python) = or_skip(runs("python3")) else { return };
    for (how, option) in
        [("STOP", "--event-loop"), ("LOOP", "--event-loop"), ("LOCK", "--commit=majority")]
    {
        let program = |port: u16, own: &Path| {
            let python = python.to_str().unwrap();
            let own = own.to_str().unwrap();
            [python, "-c", HANGS, &port.to_string(), own].map(str::to_string).to_vec()
        };
        let options = ["--protocol", "line", "--patience", "1500ms", option];
        let mut local = Local::start(program, &options);
        let (mut one, mut two, mut three) = (local.client(1), local.client(2), local.client(3));
        let mut count = 0;
        let mut asks = |client: &mut Client, line: &str| {
            count += 1;
            assert_eq!(client.ask(line), Some(format!("{count}\n")), "{how}");
        };
        asks(&mut two, "first");
        match how {
            "STOP" => local.programs.get_mut(&2).unwrap().signal(Signal::Stop),
            how => asks(&mut one, how),
        }
        for _ in 0..20 {
            asks(&mut one, "next");
            asks(&mut three, "next");
        }
        // Of its own clients nobody is left to wait.
        assert_eq!(two.ask("next"), None, "{how}");
        until("it is named", || {
            let (code, troubles) = local.status();
            // One in a dead lock waits for a thread, as far as anybody can see: it has left out its replies.
            let what = if how == "LOCK" { "program's replies differ" } else { "program is stuck" };
            code == 1 && troubles.iter().any(|one| one.contains(what))
        });
        if how == "STOP" {
            local.programs.get_mut(&2).unwrap().signal(Signal::Continue);
            until("it has caught up", || local.status().0 == 0);
            let asked = local.client(2).ask("again");
            assert_eq!(
                asked,
                local
                    .client(1)
                    .ask("again")
                    .map(|next| { format!("{}\n", next.trim().parse::<u64>().unwrap() - 1) })
            );
        }
    }
}

/// Asks its lines at node 1's front, and prints what it got.
const ASKER: &str = "
import socket, sys
stream = socket.create_connection(('127.0.0.1', 7001), 60)
lines = stream.makefile('rb')
for line in sys.argv[1:]:
    stream.sendall(line.encode() + b'\\n')
    try:
        answer = lines.readline().decode().strip()
    except ConnectionError:
        answer = ''
    print(answer or 'cut off', flush=True)
    if not answer:
        break
print('all', flush=True)
";

/// Result of `truechimer group status` at a node: its exit status and the troubles, in words.
fn status(ring: &Ring, node: u32) -> (i32, String) {
    let mut command = ring.command(node, binary::truechimer());
    command.args(["group", "status", "--group", GROUP, "--member", &node.to_string(), "--json"]);
    let output = command.arg("--directory").arg(ring.dir().join("agents")).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    (output.status.code().unwrap(), report["troubles"].to_string())
}

#[test]
fn on_a_ring_who_differs_is_out_and_without_a_majority_of_programs_nobody_is_answered() {
    let Some(python) = or_skip(runs("python3")) else { return };
    for (ask, said) in [
        ("UNLIKE", "gives the same replies"),
        (
            "HANG",
            "not answering: 1 of 3 replicas' programs follow; replica 2: its program is stuck",
        ),
    ] {
        let Some(ring) = or_skip(Ring::up(&Settings::brisk())) else { return };
        let _agents = Agent::at_all(&ring);
        let log = |what: &str, node: u32| ring.dir().join(&format!("{what}{node}.log"));
        let (mut fronts, mut programs) = (Vec::new(), Vec::new());
        for node in MEMBERS {
            let start = |what: &str| {
                let mut command = ring.command(node, binary::truechimer());
                command.args(["group", what, "--group", GROUP, "--member", &node.to_string()]);
                command.arg("--directory").arg(ring.dir().join("agents"));
                command
            };
            let mut front = start("front");
            front.args(["--listen", "127.0.0.1:7001", "--connect", "127.0.0.1:7000"]);
            front.args(["--protocol", "line", "--patience", "1500ms"]);
            fronts.push(Process::start(front, &log("front", node)));
            let mut program = start("exec");
            program
                .args(["--together", "3", "--reads", "delivery", "--"])
                .arg(&python)
                .args(["-c", UNLIKE]);
            program.arg(node.to_string());
            programs.push(Process::start(program, &log("program", node)));
        }
        for front in &mut fronts {
            front.expect_output("answering: 3 of 3", PATIENCE);
        }
        until("no trouble", || status(&ring, 1).0 == 0);
        let asker = |name: &str, lines: &[&str]| {
            let mut command = ring.command(1, &python);
            command.args(["-c", ASKER]).args(lines);
            let mut asker = Process::start(command, &log(name, 1));
            asker.expect_output("all\n", PATIENCE);
            asker.output()
        };
        if ask == "UNLIKE" {
            assert_eq!(asker("first", &["SAME", "ODD", "SAME"]), "0\n0\n0\nall\n");
            fronts[1]
                .expect_output("this replica cannot go on: its program's replies differ", PATIENCE);
            assert_eq!(fronts[1].wait(PATIENCE).and_then(|status| status.code()), Some(1));
            until("who is out is named", || {
                let (code, troubles) = status(&ring, 3);
                code == 1
                    && troubles.contains("its program's replies differ from those of replica 1, 3")
            });
            assert!(status(&ring, 2).1.contains("its front has stopped"), "{:?}", status(&ring, 2));
        }
        // Two of three have no like answer, or none: all agents are live.
        assert_eq!(asker("second", &["SAME", ask]), "0\ncut off\nall\n");
        for node in [1, 3] {
            if ask == "UNLIKE" {
                fronts[node - 1].expect_output(said, PATIENCE);
                assert_eq!(fronts[node - 1].wait(PATIENCE).and_then(|one| one.code()), Some(1));
            }
        }
        fronts[0].expect_output(said, PATIENCE);
        let part = if ask == "HANG" { "its front answers nobody: 1 of 3" } else { said };
        until("status says so", || {
            let (code, troubles) = status(&ring, 1);
            code == 1 && troubles.contains(part)
        });
    }
}
