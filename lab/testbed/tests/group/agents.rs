//! Agents at the nodes of a ring, and programs that read by them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use truechimer_group::{Call, Member, Thread};
use truechimer_group_agent::Report;
use truechimer_group_client::link::{ReadError, Together};
use truechimer_group_client::{Began, Options, Replica, Watcher, Where};
use truechimer_testbed::binary;
use truechimer_testbed::process::{Process, Signal};
use truechimer_testbed::ring::Ring;

/// The group that the tests are about.
pub const GROUP: &str = "ledger";
/// Longest time for anything that should happen soon, on a machine that does much else.
pub const PATIENCE: Duration = Duration::from_secs(300);
/// Longest wait for a reading that must not succeed.
pub const SHORT: Duration = Duration::from_millis(500);

/// A thread of the program, by number.
pub fn number(n: u64) -> Thread {
    Thread(Thread::FIRST.0 + n)
}

/// Waits until something is so.
#[track_caller]
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An agent at a node.
pub struct Agent {
    pub node: u32,
    pub process: Process,
    directory: PathBuf,
}

impl Agent {
    /// One whose members are nodes 1 to 3 unless the options name others.
    pub fn start(ring: &Ring, node: u32, options: &[&str]) -> Agent {
        Agent::start_in(ring, node, options, &[])
    }

    /// One whose system clock is that far ahead of the others', ns.
    pub fn start_ahead(ring: &Ring, node: u32, offset_ns: i64, options: &[&str]) -> Agent {
        let library = binary::warp().display().to_string();
        let warp = format!("epoch=0,offset={offset_ns}ns");
        let environment = [("LD_PRELOAD", library), ("TRUECHIMER_WARP", warp)];
        Agent::start_in(ring, node, options, &environment)
    }

    fn start_in(ring: &Ring, node: u32, options: &[&str], environment: &[(&str, String)]) -> Agent {
        let directory = ring.dir().join("agents");
        let mut command = ring.command(node, binary::truechimer());
        command.args(["group", "agent", "--group", GROUP]);
        if !options.contains(&"--members") {
            command.args(["--members", "1,2,3"]);
        }
        command.arg("--directory").arg(&directory);
        command.arg("--state").arg(ring.dir().join(&format!("state{node}")));
        if !options.contains(&"--page") {
            command.args(["--system-clock", "1ms"]);
        }
        command.args(options);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let process = Process::start(command, &ring.dir().join(&format!("agent{node}.log")));
        Agent { node, process, directory }
    }

    /// At each of the first three nodes.
    pub fn at_all(ring: &Ring) -> Vec<Agent> {
        let agents: Vec<_> = (1..=3).map(|node| Agent::start(ring, node, &[])).collect();
        for agent in &agents {
            agent.wait_for("live");
        }
        agents
    }

    /// Output of `truechimer group status` about it.
    pub fn status(&self) -> String {
        let mut command = std::process::Command::new(binary::truechimer());
        command.args(["group", "status", "--group", GROUP, "--member", &self.node.to_string()]);
        command.arg("--directory").arg(&self.directory);
        let output = command.output().unwrap();
        format!("{output:?}").replace("\\n", "\n")
    }

    fn place(&self) -> Where {
        Where {
            directory: Some(self.directory.clone()),
            group: GROUP.to_owned(),
            member: Some(Member(self.node)),
        }
    }

    /// A program at this node.
    pub fn attach(&self) -> Replica {
        self.attach_with(Together::All)
    }

    /// A program at the node of each, which start together however long one of them takes.
    pub fn attach_all(agents: &[Agent]) -> Vec<Replica> {
        let all = u8::try_from(agents.len()).unwrap();
        agents.iter().map(|agent| agent.attach_with(Together::Count(all))).collect()
    }

    fn attach_with(&self, together: Together) -> Replica {
        let options = Options { wait_for_agent: Some(PATIENCE), together, ..Options::default() };
        Replica::attach_with(&self.place(), &options)
            .unwrap_or_else(|why| panic!("node {}: {why}\n{}", self.node, self.process.output()))
    }

    /// Report of the agent; none while it makes none.
    pub fn try_report(&self) -> Option<Report> {
        let mut watcher = Watcher::attach(&self.place()).ok()?;
        let text = watcher.status(Duration::from_secs(5)).ok()??;
        Some(Report::from_json(&text).unwrap_or_else(|why| panic!("{why}: {text}")))
    }

    /// Report of the agent.
    pub fn report(&self) -> Report {
        let mut watcher = Watcher::attach(&self.place()).unwrap_or_else(|why| panic!("{why}"));
        let text = watcher.status(PATIENCE).unwrap_or_else(|why| panic!("{why}"));
        let text = text.expect("the agent answers");
        Report::from_json(&text).unwrap_or_else(|why| panic!("{why}: {text}"))
    }

    /// Waits until it stands so.
    #[track_caller]
    pub fn wait_for(&self, phase: &str) {
        self.wait_until(phase, |report| report.phase == phase);
    }

    /// Waits until what it says is so.
    #[track_caller]
    pub fn wait_until(&self, what: &str, is: impl Fn(&Report) -> bool) {
        let end = Instant::now() + PATIENCE;
        loop {
            let report = self.try_report();
            if report.as_ref().is_some_and(&is) {
                return;
            }
            assert!(
                Instant::now() < end,
                "node {}: not in time: {what}: {report:#?}\n{}",
                self.node,
                self.process.output()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it in good order.
    pub fn stop(&mut self) {
        self.process.signal(Signal::Term);
        let status = self.process.wait(PATIENCE);
        assert!(status.is_some_and(|status| status.success()), "{}", self.process.output());
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.process.signal(Signal::Kill);
        assert!(self.process.wait(PATIENCE).is_some());
    }
}

/// Says that this program starts without a checkpoint, and waits until that is known and it has
/// begun.
pub fn restarted(replica: &Replica) {
    replica.restarted().unwrap();
    replica.status(PATIENCE).unwrap().expect("in time");
    until("it begins", || replica.began() != Began::Waits);
}

/// One reading; none if there is no value in that time.
pub fn read(replica: &Replica, thread: u64, patience: Duration) -> Option<i64> {
    match replica.thread(number(thread)).now(Call::Group, Some(patience)) {
        Ok(value) => Some(value.time.0),
        Err(ReadError::Late) => None,
        Err(why) => panic!("{why:?}"),
    }
}

/// Values by thread and round.
pub type Values = BTreeMap<(u64, usize), i64>;

/// Lets each of the replicas read so many rounds in each of these threads, all at once. What they
/// read must be the same, and never go back.
pub fn agree(replicas: &[&Replica], threads: std::ops::Range<u64>, rounds: usize) -> Values {
    let mut all: Vec<Values> = Vec::new();
    std::thread::scope(|scope| {
        let mut readers = Vec::new();
        for replica in replicas {
            let of_one = threads.clone().map(|n| {
                scope.spawn(move || {
                    let value = || read(replica, n, PATIENCE).expect("a value in time");
                    (0..rounds).map(|round| ((n, round), value())).collect::<Values>()
                })
            });
            readers.push(of_one.collect::<Vec<_>>());
        }
        for of_one in readers {
            let values = of_one.into_iter().map(|reader| reader.join().unwrap());
            all.push(values.flatten().collect());
        }
    });
    for (replica, values) in all.iter().enumerate() {
        for (key, value) in values {
            assert_eq!(*value, all[0][key], "thread and round {key:?} at replica {replica}");
        }
    }
    for n in threads {
        let times: Vec<i64> = all[0].range((n, 0)..(n + 1, 0)).map(|(_, time)| *time).collect();
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "thread {n} goes back");
    }
    all.swap_remove(0)
}
