//! The daemon under test, and the commands that ask it.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use truechimer::{Clock, Status};

use crate::namespace::Namespace;
use crate::process::{self, Process};
use crate::truth::Truth;
use crate::watch::Watch;
use crate::{binary, temp};

/// Longest time for anything that should happen soon, on a machine with other things to do.
pub const SOON: Duration = Duration::from_secs(40);

/// Settings to run a daemon with.
#[derive(Debug)]
pub struct Setup<'a> {
    /// Where its page, sockets, configuration and log go.
    pub dir: &'a temp::Dir,
    /// Tells its files from those of others in the same place.
    pub name: &'a str,
    /// Where it runs; `None`: on the host, for loopback only.
    pub network: Option<&'a Namespace>,
    /// The servers to follow, as `HOST:PORT`.
    pub servers: Vec<String>,
    /// Seconds between requests.
    pub poll: u32,
    /// More lines at the top of the configuration.
    pub settings: &'a str,
    /// More lines at its end.
    pub sections: &'a str,
    /// Variables for its environment.
    pub environment: Vec<(&'a str, String)>,
}

impl<'a> Setup<'a> {
    /// A daemon on the host that asks one server every second.
    #[must_use]
    pub fn new(dir: &'a temp::Dir, server: impl Into<String>) -> Setup<'a> {
        Setup {
            dir,
            name: "clock",
            network: None,
            servers: vec![server.into()],
            poll: 1,
            settings: "",
            sections: "",
            environment: Vec::new(),
        }
    }

    /// A daemon in a network, with no sources but those in these lines of its configuration.
    #[must_use]
    pub fn within(network: &'a Namespace, dir: &'a temp::Dir, sections: &'a str) -> Setup<'a> {
        Setup { network: Some(network), servers: Vec::new(), sections, ..Setup::new(dir, "") }
    }

    fn page(&self) -> PathBuf {
        self.dir.join(self.name)
    }

    /// Writes the configuration; a running daemon reads it again at SIGHUP.
    pub fn write(&self) -> PathBuf {
        let page = self.page();
        let state = if self.settings.contains("state = ") { "" } else { "state = \"none\"\n" };
        let mut text = format!("page = {page:?}\n{state}{}\n", self.settings);
        for server in &self.servers {
            let _ = writeln!(text, "[[source]]\nhost = {server:?}\npoll = {}", self.poll);
        }
        text.push_str(self.sections);
        let path = self.dir.join(&format!("{}.toml", self.name));
        std::fs::write(&path, text).expect("the configuration can be written");
        path
    }

    /// The command that runs it.
    #[must_use]
    pub fn command(&self) -> Command {
        let program = binary::truechimer();
        let mut command = match self.network {
            Some(network) => network.command(program),
            None => process::command(program),
        };
        command.args(["run", "--config"]).arg(self.write());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts it.
    #[must_use]
    pub fn start(&self) -> Daemon {
        // The first command of all waits until Cargo has built the programs.
        self.run(self.command())
    }

    /// Starts it by this command, made of [`Setup::command`].
    #[must_use]
    pub fn run(&self, command: Command) -> Daemon {
        let log = self.dir.join(&format!("{}.log", self.name));
        let started = Instant::now();
        Daemon { process: Process::start(command, &log), page: self.page(), started }
    }
}

/// A running daemon.
#[derive(Debug)]
pub struct Daemon {
    /// Process of the daemon.
    pub process: Process,
    /// Page of the daemon.
    pub page: PathBuf,
    /// When it was started.
    pub started: Instant,
}

impl Daemon {
    /// Opens its clock, once there is one.
    #[must_use]
    pub fn clock(&mut self) -> Clock {
        loop {
            match Clock::open_within(Some(&self.page), Duration::from_millis(100)) {
                Ok(clock) => return clock,
                Err(error) => {
                    let (runs, elapsed) = (self.process.is_running(), self.started.elapsed());
                    let output = || self.process.output();
                    assert!(runs, "it ended: {error}\n{}", output());
                    assert!(elapsed < SOON, "no clock in {elapsed:?}: {error}\n{}", output());
                }
            }
        }
    }

    /// Watches its clock: the first sample is of when it is synchronised.
    #[must_use]
    pub fn watch(&mut self, truth: Truth) -> Watch {
        let mut watch = Watch::new(self.clock(), truth, self.started);
        assert!(
            watch.run_until(SOON, |sample| sample.status == Status::Synchronised),
            "not synchronised within {SOON:?}: {:#}",
            self.ask(&["sources"]).json
        );
        // However many there were before.
        watch.samples.drain(..watch.samples.len() - 1);
        watch
    }

    /// Runs `truechimer COMMAND… --json` against it.
    #[must_use]
    pub fn ask(&self, arguments: &[&str]) -> Answer {
        ask(&self.page, arguments)
    }

    /// Only source of the daemon, as `sources --json` shows it.
    #[must_use]
    pub fn source(&self) -> Value {
        let answer = self.ask(&["sources"]);
        match answer.json {
            Value::Array(mut sources) if sources.len() == 1 => sources.remove(0),
            _ => panic!("not one source: {answer:?}"),
        }
    }

    /// Waits until its only source is as wanted, and returns it.
    pub fn source_when(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + SOON;
        loop {
            assert!(self.process.is_running(), "the daemon has ended:\n{}", self.process.output());
            if std::fs::exists(&self.page).is_ok_and(|there| there)
                && self.ask(&["sources"]).code == 0
            {
                let source = self.source();
                if wanted(&source) {
                    return source;
                }
                assert!(Instant::now() < end, "the source is not as wanted: {source:#}");
            }
            assert!(Instant::now() < end, "nothing to ask:\n{}", self.process.output());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Answer of a command.
#[derive(Debug)]
pub struct Answer {
    /// Exit status.
    pub code: i32,
    /// Output on standard output; null if that is not JSON.
    pub json: Value,
    /// Output on standard error.
    pub error: String,
}

/// Runs `truechimer COMMAND… --json --page PAGE`.
#[must_use]
pub fn ask(page: &Path, arguments: &[&str]) -> Answer {
    let mut command = Command::new(binary::truechimer());
    command.args(arguments).args(["--json", "--page"]).arg(page);
    let Output { status, stdout, stderr } = command.output().expect("truechimer runs");
    Answer {
        code: status.code().unwrap_or(-1),
        json: serde_json::from_slice(&stdout).unwrap_or(Value::Null),
        error: String::from_utf8_lossy(&stderr).into_owned(),
    }
}

/// The embedded server.
#[derive(Debug)]
pub struct Server {
    /// Process of the server.
    pub process: Process,
    /// Where it listens.
    pub address: String,
    /// Time that it serves.
    pub truth: Truth,
}

impl Server {
    /// Starts `truechimer serve` with these further arguments.
    #[must_use]
    pub fn start(dir: &temp::Dir, arguments: &[&str]) -> Server {
        let mut command = process::command(binary::truechimer());
        command.args(["serve", "--clock", "system", "--json"]).args(arguments);
        let mut process = Process::start(command, &dir.join("serve.log"));
        process.expect_output("}\n", SOON);
        let output = process.output();
        // What it says for people comes after that.
        let line = output.lines().next().expect("a line");
        let ready: Value = serde_json::from_str(line).expect("a line of JSON");
        let int = |name: &str| ready.get(name).and_then(Value::as_i64).expect("a number");
        Server {
            address: ready.get("listen").and_then(Value::as_str).expect("an address").to_owned(),
            truth: Truth {
                offset_ns: int("offset_ns"),
                skew_ppb: ready.get("skew_ppb").and_then(Value::as_f64).expect("a rate"),
                origin_raw_ns: int("origin_raw_ns"),
            },
            process,
        }
    }
}
