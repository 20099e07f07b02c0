//! A ring with an agent at each node, and the programs that use it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use truechimer_group_client::{Member, Watcher, Where};
use truechimer_outcome::outcome::Failure;
use truechimer_testbed::process::Process;
use truechimer_testbed::ring::{Ring, Settings};

/// The group that everything here is about.
pub const GROUP: &str = "bench";
/// Members of the group: nodes 1 to this; what is beyond observes.
pub const MEMBERS: u32 = 3;
/// The agents' real-time priority, below Corosync's, as docs/use/group-setup.md has it. Where that is
/// not permitted they go on without.
const PRIORITY: u8 = 10;
/// Time that anything may take on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time that an agent has to say how things stand.
const STATUS_PATIENCE: Duration = Duration::from_secs(20);

/// Settings of a bed.
#[derive(Clone, Debug)]
pub struct How {
    /// The ring.
    pub ring: Settings,
    /// Members of the group: nodes 1 to this.
    pub members: u32,
    /// Lines of the group's section in the agents' configuration.
    pub group: String,
    /// Where the agents' UTC comes from: a line of the configuration.
    pub utc: String,
    /// Environment of each node's agent, node 1 first; none for the rest.
    pub environment: Vec<Vec<(&'static str, String)>>,
    /// The command truechimer.
    pub truechimer: PathBuf,
}

impl How {
    /// Three members on udpu, UTC by the system clock.
    #[must_use]
    pub fn usual(truechimer: &Path) -> How {
        How {
            ring: Settings::default(),
            members: MEMBERS,
            group: String::new(),
            utc: "system-clock = \"10ms\"".to_owned(),
            environment: Vec::new(),
            truechimer: truechimer.to_owned(),
        }
    }
}

/// A ring with agents; all of it ends when it is dropped. What it starts dies with the thread that
/// starts it.
#[derive(Debug)]
pub struct Bed {
    agents: BTreeMap<u32, Process>,
    how: How,
    // The last to go.
    ring: Ring,
}

impl Bed {
    /// Starts it.
    ///
    /// # Errors
    /// Where this machine lacks what that takes, or an agent does not come up.
    pub fn up(how: How) -> Result<Bed, Failure> {
        let ring =
            Ring::up(&how.ring).map_err(|lacking| Failure::of("starting a ring", lacking))?;
        let mut bed = Bed { agents: BTreeMap::new(), how, ring };
        std::fs::create_dir_all(bed.sockets()).map_err(|e| Failure::of("a folder", e))?;
        let nodes: Vec<u32> = bed.ring.nodes().collect();
        for node in nodes {
            bed.start_agent(node)?;
        }
        Ok(bed)
    }

    /// The ring.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Number of the group's members: nodes 1 to this.
    #[must_use]
    pub fn members(&self) -> u32 {
        self.how.members
    }

    /// Log of a node's Corosync, whether it runs or not.
    #[must_use]
    pub fn log_of_ring(&self, node: u32) -> String {
        let path = self.ring.dir().join("ring").join(format!("node{node}/log"));
        String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
    }

    /// All that was written at a node, by file name.
    #[must_use]
    pub fn logs(&self, node: u32) -> Vec<(String, String)> {
        let read = |name: String| {
            let text = std::fs::read(self.ring.dir().join(&name)).unwrap_or_default();
            (name, String::from_utf8_lossy(&text).into_owned())
        };
        vec![
            (format!("corosync{node}.log"), self.log_of_ring(node)),
            read(format!("agent{node}.log")),
            read(format!("witness{node}.log")),
        ]
    }

    /// The ring, to do something to it.
    pub fn ring_mut(&mut self) -> &mut Ring {
        &mut self.ring
    }

    /// Where the agents' sockets are.
    #[must_use]
    pub fn sockets(&self) -> PathBuf {
        self.ring.dir().join("sockets")
    }

    /// Where a program of a node finds its agent.
    #[must_use]
    pub fn place(&self, node: u32) -> Where {
        Where {
            directory: Some(self.sockets()),
            group: GROUP.to_owned(),
            member: Some(Member(node)),
        }
    }

    fn configuration(&self, node: u32) -> String {
        let members: Vec<String> =
            (1..=self.how.members).map(|member| member.to_string()).collect();
        format!(
            "directory = {:?}\nstate = {:?}\nrealtime = {PRIORITY}\n{}\n\n[[group]]\n\
             name = {GROUP:?}\nmembers = [{}]\n{}\n",
            self.sockets(),
            self.ring.dir().join(&format!("state{node}")),
            self.how.utc,
            members.join(", "),
            self.how.group,
        )
    }

    /// Starts a node's agent, without waiting for anything.
    ///
    /// # Errors
    /// Where its configuration cannot be written.
    pub fn start_agent(&mut self, node: u32) -> Result<(), Failure> {
        let file = self.ring.dir().join(&format!("agent{node}.toml"));
        let state = self.ring.dir().join(&format!("state{node}"));
        std::fs::create_dir_all(&state).map_err(|e| Failure::of(state.display(), e))?;
        std::fs::write(&file, self.configuration(node))
            .map_err(|error| Failure::of(file.display(), error))?;
        let mut command = self.ring.command(node, &self.how.truechimer);
        command.args(["group", "agent", "--config"]).arg(&file);
        let environment = self.how.environment.get(node as usize - 1);
        command.envs(environment.into_iter().flatten().map(|(name, value)| (name, value)));
        let log = self.ring.dir().join(&format!("agent{node}.log"));
        self.agents.insert(node, Process::start(command, &log));
        Ok(())
    }

    /// A node's agent.
    ///
    /// # Errors
    /// Where there is none.
    pub fn agent(&mut self, node: u32) -> Result<&mut Process, Failure> {
        self.agents.get_mut(&node).ok_or_else(|| Failure(format!("node {node} has no agent")))
    }

    /// Ends a node's agent as if it had crashed.
    pub fn kill_agent(&mut self, node: u32) {
        self.agents.remove(&node);
    }

    /// Agents that have ended by themselves, with what they said.
    pub fn dead_agents(&mut self) -> Vec<(u32, String)> {
        let mut dead = Vec::new();
        for (node, agent) in &mut self.agents {
            if !agent.is_running() {
                dead.push((*node, agent.output()));
            }
        }
        for (node, _) in &dead {
            self.agents.remove(node);
        }
        dead
    }

    /// A command that runs `program` at a node.
    #[must_use]
    pub fn command(&self, node: u32, program: &Path) -> Command {
        self.ring.command(node, program)
    }

    /// Starts this very program at a node, with these arguments, its output in `NAME.log`.
    ///
    /// # Errors
    /// Where it does not know its own path.
    pub fn program<S: AsRef<std::ffi::OsStr>>(
        &self,
        node: u32,
        name: &str,
        args: impl IntoIterator<Item = S>,
    ) -> Result<Process, Failure> {
        let own = std::env::current_exe().map_err(|e| Failure::of("this program's own path", e))?;
        let mut command = self.command(node, &own);
        command.args(["bench", "group"]).args(args);
        Ok(Process::start(command, &self.ring.dir().join(&format!("{name}.log"))))
    }

    /// Makes these nodes members of the process group of bare round trips: its messages have as far
    /// to go then as the group's. Not until they are, but as good as at once.
    ///
    /// # Errors
    /// Where it does not know its own path.
    pub fn listeners(&self, nodes: std::ops::RangeInclusive<u32>) -> Result<Vec<Process>, Failure> {
        nodes.map(|node| self.program(node, &format!("listener{node}"), ["listener"])).collect()
    }

    /// Waits until nodes 1 to `nodes` have their programs, and all of them are live.
    ///
    /// # Errors
    /// Where they do not come.
    pub fn wait_for_programs(&mut self, nodes: u32) -> Result<(), Failure> {
        self.wait("programs at all nodes", |bed| {
            for node in 1..=nodes {
                // An agent that has just been started does not answer yet.
                let Ok(report) = bed.report(node) else { return Ok(false) };
                let there = report.pointer("/programs/program") == Some(&true.into());
                if !there || report.get("phase") != Some(&"live".into()) {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// Waits until a program has ended well.
    ///
    /// # Errors
    /// With what it said, if it did not.
    pub fn wait_for_end(&mut self, node: u32, process: &mut Process) -> Result<(), Failure> {
        loop {
            if let Some(status) = process.wait(Duration::from_millis(200)) {
                if status.success() {
                    return Ok(());
                }
                let said = process.output();
                return Err(Failure(format!("the program at node {node} ended: {}", said.trim())));
            }
            if let Some((node, said)) = self.dead_agents().pop() {
                return Err(Failure(format!("the agent of node {node} has ended: {said}")));
            }
        }
    }

    /// Report of a node's agent on itself.
    ///
    /// # Errors
    /// Where it does not answer.
    pub fn report(&mut self, node: u32) -> Result<serde_json::Value, Failure> {
        let failed =
            |why: &dyn std::fmt::Display| Failure(format!("the status of node {node}: {why}"));
        let mut watcher = Watcher::attach(&self.place(node)).map_err(|why| failed(&why))?;
        let text = watcher.status(STATUS_PATIENCE).map_err(|why| failed(&why))?;
        let text = text.ok_or_else(|| failed(&"no answer"))?;
        serde_json::from_str(&text).map_err(|why| failed(&why))
    }

    /// Runs `until` again and again until it is true.
    ///
    /// # Errors
    /// Where it does not become true, in time, or an agent ends.
    pub fn wait(
        &mut self,
        what: &str,
        mut until: impl FnMut(&mut Bed) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let end = Instant::now() + PATIENCE;
        loop {
            if until(self)? {
                return Ok(());
            }
            if let Some((node, said)) = self.dead_agents().pop() {
                return Err(Failure(format!("the agent of node {node} has ended: {said}")));
            }
            if Instant::now() > end {
                return Err(Failure(format!("{what}: not in {} s", PATIENCE.as_secs())));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
