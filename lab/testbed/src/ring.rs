//! A real Corosync ring on this machine, as `scripts/ring` makes it: each node in namespaces of
//! its own, joined by a switch that can be cut.
//!
//! The script keeps namespaces and switch for as long as we hold its input; the nodes are our own
//! children. So everything vanishes with the test, however that ends.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::lacking::Lacking;
use crate::process::{self, MORTAL, NO_CLOCK, Process, Signal};
use crate::temp;

/// Longest time for anything that a ring does, on a machine that does much else.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Largest number of rings at once in a process: nodes have real-time priority, and many would starve each
/// other. Who wants one more waits.
pub const MOST: usize = 2;

/// Settings of a ring.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Number of nodes, numbered from 1.
    pub nodes: u32,
    /// By knet instead of udpu.
    pub knet: bool,
    /// With knet's packets encrypted.
    pub crypto: bool,
    /// After how long a silent node is lost, ms; by default, what `scripts/ring` finds safe here.
    pub token_ms: Option<u32>,
    /// Time that the others take to agree on it, ms; by default, 1.2 times that.
    pub consensus_ms: Option<u32>,
    /// Use of a user namespace, as an ordinary user does it, even as root.
    pub user_namespace: bool,
    /// Another user whose programs may connect.
    pub user: Option<u32>,
    /// Where the Corosyncs run, as in `1` or `2,4-5`, and what else is started at the nodes does
    /// not, unless that leaves it none; by default all run wherever there is room.
    pub processors: Option<String>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            nodes: 3,
            knet: false,
            crypto: false,
            token_ms: None,
            consensus_ms: None,
            user_namespace: false,
            user: None,
            processors: None,
        }
    }
}

impl Settings {
    /// Three nodes that notice a loss as soon as this machine can do without false alarms: without
    /// real-time scheduling that is not soon.
    #[must_use]
    pub fn brisk() -> Settings {
        Settings { token_ms: process::is_root().then_some(500), ..Settings::default() }
    }
}

/// A ring; it ends when dropped. Like all processes of the test bed, its nodes die with the thread
/// that starts them.
#[derive(Debug)]
pub struct Ring {
    running: BTreeMap<u32, Process>,
    nodes: u32,
    /// Keeper of the switch, which goes when this child's input ends.
    keeper: Child,
    state: PathBuf,
    corosync: PathBuf,
    libraries: String,
    user_namespace: bool,
    /// Where the Corosyncs run, and the others; empty: where we do.
    processors: String,
    others: String,
    // The last to go.
    dir: temp::Dir,
    _turn: Turn,
}

/// One of the [`MOST`].
#[derive(Debug)]
struct Turn;

static TURNS: (Mutex<usize>, Condvar) = (Mutex::new(MOST), Condvar::new());

impl Turn {
    fn wait() -> Turn {
        let (left, freed) = &TURNS;
        let left = left.lock().unwrap_or_else(PoisonError::into_inner);
        let left = freed.wait_while(left, |left| *left == 0);
        *left.unwrap_or_else(PoisonError::into_inner) -= 1;
        Turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *TURNS.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        TURNS.1.notify_one();
    }
}

impl Ring {
    /// Starts one, and waits until each node sees all.
    pub fn up(settings: &Settings) -> Result<Ring, Lacking> {
        let mut ring = Ring::bare(settings)?;
        let all: Vec<u32> = ring.nodes().collect();
        for node in &all {
            ring.start(*node);
        }
        for node in &all {
            ring.wait_for(*node, &all);
        }
        Ok(ring)
    }

    /// The namespaces and the switch, no node started.
    pub fn bare(settings: &Settings) -> Result<Ring, Lacking> {
        let turn = Turn::wait();
        let dir = temp::Dir::new();
        let state = dir.join("ring");
        let mut up = script(&state);
        up.args(["up", "--bare", "--attached", "--nodes", &settings.nodes.to_string()]);
        up.args(["--transport", if settings.knet { "knet" } else { "udpu" }]);
        for (option, wanted) in
            [("--crypto", settings.crypto), ("--user-namespace", settings.user_namespace)]
        {
            up.args(wanted.then_some(option));
        }
        for (option, value) in [
            ("--token", settings.token_ms),
            ("--consensus", settings.consensus_ms),
            ("--user", settings.user),
        ] {
            if let Some(value) = value {
                up.args([option, &value.to_string()]);
            }
        }
        if let Some(processors) = &settings.processors {
            up.args(["--processors", processors]);
        }
        up.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut keeper = up.spawn().map_err(|error| Lacking(format!("scripts/ring: {error}")))?;
        let mut line = String::new();
        if let Some(output) = keeper.stdout.take() {
            let _ = BufReader::new(output).read_line(&mut line);
        }
        if !line.starts_with("ring of ") {
            let mut why = String::new();
            if let Some(mut errors) = keeper.stderr.take() {
                let _ = errors.read_to_string(&mut why);
            }
            let _ = keeper.wait();
            return Err(Lacking(why.trim().to_owned()));
        }
        let settings = std::fs::read_to_string(state.join("settings")).expect("it was just made");
        let kept = |name: &str| {
            let value =
                settings.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            value.unwrap_or_else(|| panic!("no {name} in {settings}")).to_owned()
        };
        Ok(Ring {
            running: BTreeMap::new(),
            nodes: kept("nodes").parse().expect("a number"),
            keeper,
            corosync: kept("corosync").into(),
            libraries: kept("libraries"),
            processors: kept("processors"),
            others: kept("others"),
            user_namespace: kept("means") == "user",
            state,
            dir,
            _turn: turn,
        })
    }

    /// The nodes' numbers.
    pub fn nodes(&self) -> impl Iterator<Item = u32> + use<> {
        1..=self.nodes
    }

    /// True if we made it as root, and may so be any user at its nodes.
    #[must_use]
    pub fn is_by_root(&self) -> bool {
        !self.user_namespace
    }

    /// A folder that lasts as long as the ring; the same at all nodes.
    #[must_use]
    pub fn dir(&self) -> &temp::Dir {
        &self.dir
    }

    /// A command that runs `program` at a node, where Corosync's clients find it. It dies with the
    /// thread that starts it. `/run` and `/dev/shm` are the node's own, all other files the host's.
    #[must_use]
    pub fn command(&self, node: u32, program: impl AsRef<OsStr>) -> Command {
        self.command_on(&self.others, node, program)
    }

    /// The processors that what is started at the nodes runs on, if it is kept from the Corosyncs'.
    #[must_use]
    pub fn others(&self) -> Option<&str> {
        Some(self.others.as_str()).filter(|others| !others.is_empty())
    }

    /// Makes the command on these processors; anywhere if none are named.
    fn command_on(&self, processors: &str, node: u32, program: impl AsRef<OsStr>) -> Command {
        let holder = self.state.join(format!("node{node}/holder"));
        let holder = std::fs::read_to_string(&holder)
            .unwrap_or_else(|error| panic!("{}: {error}", holder.display()));
        let holder = holder.split(' ').next().expect("a split has a first");
        let mut command = Command::new("nsenter");
        command.args(["--target", holder, "--net", "--mount", "--wdns=."]);
        if self.user_namespace {
            command.args(["--user", "--preserve-credentials"]);
        }
        // Entering a user namespace clears the death signal, so it is set inside.
        command.arg("--");
        if !processors.is_empty() {
            command.args(["taskset", "--cpu-list", processors]);
        }
        command.arg("setpriv").args(MORTAL).args(NO_CLOCK).arg("--").arg(program);
        if !self.libraries.is_empty() {
            command.env("LD_LIBRARY_PATH", &self.libraries);
        }
        command
    }

    /// A node's `corosync.conf`, which is read when it is started.
    #[must_use]
    pub fn configuration(&self, node: u32) -> PathBuf {
        self.state.join(format!("node{node}/corosync.conf"))
    }

    /// Starts a node's Corosync, without waiting for anything.
    pub fn start(&mut self, node: u32) {
        assert!(!self.running.contains_key(&node), "node {node} runs");
        let folder = self.state.join(format!("node{node}"));
        let mut command = self.command_on(&self.processors, node, &self.corosync);
        command.arg("-f").arg("-c").arg(self.configuration(node));
        self.running.insert(node, Process::start(command, &folder.join("log")));
    }

    /// Ends a node's Corosync in good order.
    pub fn stop(&mut self, node: u32) {
        let mut process = self.take(node);
        process.signal(Signal::Term);
        assert!(process.wait(PATIENCE).is_some(), "node {node}'s Corosync does not end");
    }

    /// Kills a node's Corosync.
    pub fn kill(&mut self, node: u32) {
        let mut process = self.take(node);
        process.signal(Signal::Kill);
        assert!(process.wait(PATIENCE).is_some(), "node {node}'s Corosync cannot be killed");
    }

    /// Stops a node's Corosync in its tracks.
    pub fn pause(&self, node: u32) {
        self.process(node).signal(Signal::Stop);
    }

    /// Ends [`Ring::pause`].
    pub fn cont(&self, node: u32) {
        self.process(node).signal(Signal::Continue);
    }

    /// A node's Corosync, for what else one may want to know of it.
    #[must_use]
    pub fn process(&self, node: u32) -> &Process {
        self.running.get(&node).unwrap_or_else(|| panic!("node {node} does not run"))
    }

    fn take(&mut self, node: u32) -> Process {
        self.running.remove(&node).unwrap_or_else(|| panic!("node {node} does not run"))
    }

    /// Cuts the ring into these parts. The nodes notice when the token's time is out.
    pub fn partition(&self, parts: &[&[u32]]) {
        let parts: Vec<String> = parts
            .iter()
            .map(|part| part.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
            .collect();
        let mut words = vec!["partition"];
        words.extend(parts.iter().map(String::as_str));
        self.tell(&words);
    }

    /// Makes the ring whole.
    pub fn heal(&self) {
        self.tell(&["heal"]);
    }

    /// Pulls a node's cable.
    pub fn cut(&self, node: u32) {
        self.tell(&["cut", &node.to_string()]);
    }

    /// Plugs it in again.
    pub fn plug(&self, node: u32) {
        self.tell(&["plug", &node.to_string()]);
    }

    fn tell(&self, words: &[&str]) {
        let output = script(&self.state).args(words).output().expect("scripts/ring runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "scripts/ring {words:?}: {said}");
    }

    /// Which nodes a node sees, itself included; none while it does not answer.
    #[must_use]
    pub fn members(&self, node: u32) -> Vec<u32> {
        let tool = self.corosync.with_file_name("corosync-quorumtool");
        let output = self.command(node, tool).arg("-s").output().expect("nsenter runs");
        let said = String::from_utf8_lossy(&output.stdout);
        // Lines of the table have the node's id and its votes first.
        let row = |line: &str| {
            let mut words = line.split_whitespace();
            let (id, votes) = (words.next()?.parse().ok()?, words.next()?.parse::<u32>());
            votes.is_ok().then_some(id)
        };
        said.lines().filter_map(row).collect()
    }

    /// Waits until a node sees just these.
    pub fn wait_for(&self, node: u32, members: &[u32]) {
        let end = Instant::now() + PATIENCE;
        loop {
            let sees = self.members(node);
            if sees == members {
                return;
            }
            assert!(Instant::now() < end, "node {node} sees {sees:?}, not {members:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.running.clear();
        // Its input ends, and with it the namespaces.
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

fn script(state: &Path) -> Command {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/ring");
    let mut command = Command::new(script);
    command.arg("--state").arg(state).stdin(Stdio::null());
    command
}
