//! Does to a ring what the plan says, while a witness runs at each node.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;
use truechimer_group::Phase;
use truechimer_outcome::outcome::Failure;
use truechimer_testbed::binary;
use truechimer_testbed::process::{Process, Signal};

use super::kept;
use super::plan::{Fault, Step};
use super::record::{Reader, Record, What};
use super::verify::{LifeId, Verdict, Verifier, Window};
use crate::bench::group::args::At;
use crate::bench::group::bed::{Bed, How, MEMBERS};
use crate::bench::group::moment::monotonic;

/// Time that a fail-over may take until all is well again.
const PATIENCE: Duration = Duration::from_secs(90);
/// Time between looks at files and processes.
const LOOK: Duration = Duration::from_millis(4);
/// Time to wait before a program is started again that could not attach.
const ATTACH_PAUSE: Duration = Duration::from_millis(50);

/// Work of the witnesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Work {
    /// Reading threads at each node.
    pub threads: u64,
    /// Pause of each between readings, µs.
    pub pause_us: u64,
    /// Pause of a sender between messages, µs.
    pub message_us: u64,
}

/// Result of one fail-over.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Recovery {
    /// Step that was done.
    pub step: Step,
    /// The longest time without a value at any node to which nothing was done, ns; of
    /// [`Fault::Scatter`]: from the mending to the first value anywhere.
    pub survivors_ns: i64,
    /// From the mending to the first value at the node (of [`Fault::Scatter`]: at all), ns.
    pub back_ns: i64,
    /// Corosync itself lost a node to which nothing had been done: this machine was too busy.
    pub disturbed: bool,
    /// True if it was done to the primary's node.
    pub primary: bool,
}

/// Environment of each node's agent, so that its system clock can be stepped: by a file of its own in `dir`.
///
/// # Errors
/// Where that has no absolute path.
pub fn clocks(dir: &Path) -> Result<Vec<Vec<(&'static str, String)>>, Failure> {
    let dir = std::path::absolute(dir).map_err(|error| Failure::of(dir.display(), error))?;
    let of_node = |node: u32| {
        vec![
            ("LD_PRELOAD", binary::warp().display().to_string()),
            ("TRUECHIMER_WARP_STATE", dir.join(format!("clock{node}")).display().to_string()),
        ]
    };
    Ok((1..=MEMBERS).map(of_node).collect())
}

/// One ring's campaign.
pub struct Campaign {
    bed: Bed,
    work: Work,
    dir: PathBuf,
    log: File,
    nodes: BTreeMap<u32, Node>,
    verifier: Verifier,
    progress: bool,
    told: usize,
}

/// A node's program.
struct Node {
    process: Option<Process>,
    /// Number of the program among the lives.
    life: u32,
    id: LifeId,
    path: PathBuf,
    reader: Option<Reader<File>>,
    phase: Option<Phase>,
    /// When the last value was there, and when that was asked for.
    last: i64,
    last_began: i64,
    /// The longest time without one since it was set to 0.
    gap: i64,
    /// The first value asked for after this moment…
    since: i64,
    /// …was there then.
    first_after: Option<i64>,
    /// Not to be started before.
    not_before: Option<Instant>,
    /// Not to be started at all.
    held: bool,
}

impl Campaign {
    /// Starts ring, agents and witnesses, and waits until all read; records go to `dir`.
    ///
    /// # Errors
    /// Where they do not.
    pub fn start(how: How, work: Work, dir: &Path, progress: bool) -> Result<Campaign, Failure> {
        std::fs::create_dir_all(dir).map_err(|error| Failure::of(dir.display(), error))?;
        let log = File::create(dir.join(kept::LOG)).map_err(|e| Failure::of(dir.display(), e))?;
        let bed = Bed::up(how)?;
        let mut campaign = Campaign {
            bed,
            work,
            dir: dir.to_owned(),
            log,
            nodes: BTreeMap::new(),
            verifier: Verifier::default(),
            progress,
            told: 0,
        };
        let began = monotonic();
        for node in 1..=MEMBERS {
            campaign.start_program(node, 0)?;
        }
        campaign.wait_until_all_read(began, "at the beginning")?;
        campaign.allow(Window { from: began, to: monotonic(), node: None }, None)?;
        Ok(campaign)
    }

    fn start_program(&mut self, node: u32, life: u32) -> Result<(), Failure> {
        let path = self.dir.join(kept::name(node, life));
        let mut args = At::arguments("witness", &self.bed.place(node));
        args.extend([
            format!("--life={life}"),
            format!("--records={}", path.display()),
            format!("--threads={}", self.work.threads),
            format!("--pause-us={}", self.work.pause_us),
            format!("--message-us={}", self.work.message_us),
        ]);
        let process = self.bed.program(node, &format!("witness{node}"), args)?;
        let before = self.nodes.get(&node).map(|node| (node.last, node.gap, node.since));
        let (last, gap, since) = before.unwrap_or((monotonic(), 0, 0));
        let fresh = Node {
            process: Some(process),
            life,
            id: self.verifier.life(node, life),
            path,
            reader: None,
            phase: None,
            last,
            last_began: 0,
            gap,
            since,
            first_after: self.nodes.get(&node).and_then(|node| node.first_after),
            not_before: None,
            held: false,
        };
        self.nodes.insert(node, fresh);
        Ok(())
    }

    /// Takes in what the programs have recorded, and starts those again that have ended.
    fn look(&mut self) -> Result<(), Failure> {
        let mut again = Vec::new();
        for (&number, node) in &mut self.nodes {
            let status = node.process.as_mut().map(|process| process.wait(Duration::ZERO));
            node.take(&mut self.verifier)?;
            if let Some(Some(status)) = status {
                let process = node.process.take();
                let at = monotonic();
                self.verifier.ended(node.id, at);
                let entry = json!({ "ended": number, "life": node.life, "at": at });
                writeln!(self.log, "{entry}").map_err(|e| Failure::of("the log", e))?;
                match status.code() {
                    Some(3 | 4) | None => {}
                    // It found no agent, or one that still had its predecessor.
                    Some(2) => node.not_before = Some(Instant::now() + ATTACH_PAUSE),
                    Some(code) => {
                        let said = process.map(|p| p.output()).unwrap_or_default();
                        let said = said.lines().last().unwrap_or_default().to_owned();
                        return Err(Failure(format!(
                            "the program at node {number} ended with {code}: {said}"
                        )));
                    }
                }
            }
            let waits = node.not_before.is_some_and(|moment| moment > Instant::now());
            if node.process.is_none() && !node.held && !waits {
                again.push((number, node.life + 1));
            }
        }
        for (node, life) in again {
            self.start_program(node, life)?;
        }
        if self.progress {
            for violation in self.verifier.violations().iter().skip(self.told) {
                eprintln!("{violation}");
            }
        }
        self.told = self.verifier.violations().len();
        if let Some((node, said)) = self.bed.dead_agents().pop() {
            let said = said.lines().last().unwrap_or_default().to_owned();
            return Err(Failure(format!("the agent of node {node} has ended by itself: {said}")));
        }
        Ok(())
    }

    fn watch(&mut self, time: Duration) -> Result<(), Failure> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.look()?;
            std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }

    /// Until every node's program has had a value that it asked for after `since`.
    fn wait_until_all_read(&mut self, since: i64, what: &str) -> Result<(), Failure> {
        let end = Instant::now() + PATIENCE;
        loop {
            self.look()?;
            let well = |node: &Node| {
                node.process.is_some() && node.phase == Some(Phase::Live) && node.last_began > since
            };
            if self.nodes.values().all(well) {
                return Ok(());
            }
            if Instant::now() > end {
                let stuck = self.nodes.iter().filter(|(_, node)| !well(node));
                let stuck: Vec<String> = stuck
                    .map(|(n, node)| format!("node {n} life {} is {:?}", node.life, node.phase))
                    .collect();
                let wait = PATIENCE.as_secs();
                return Err(Failure(format!(
                    "{what}: not all read again within {wait} s: {}",
                    stuck.join(", ")
                )));
            }
            std::thread::sleep(LOOK);
        }
    }

    fn allow(&mut self, window: Window, step: Option<&Step>) -> Result<(), Failure> {
        self.verifier.allow(window);
        let Window { from, to, node } = window;
        let text = step.map(Step::to_string);
        let entry = json!({ "from": from, "to": to, "node": node, "step": text });
        writeln!(self.log, "{entry}").map_err(|error| Failure::of("the log", error))
    }

    /// One fail-over, until all is well again, and the calm after it.
    ///
    /// # Errors
    /// Where it does not get well: this is a failure of the group as well.
    pub fn step(&mut self, step: &Step) -> Result<Recovery, Failure> {
        let logs: Vec<(u32, usize)> =
            (1..=MEMBERS).map(|node| (node, self.ring_log(node).len())).collect();
        self.look()?;
        let primary = self.is_primary(step.node);
        let from = monotonic();
        for node in self.nodes.values_mut() {
            node.gap = 0;
            node.last = from;
        }
        self.strike(step)?;
        self.watch(step.hold)?;
        let mended = monotonic();
        for node in self.nodes.values_mut() {
            (node.since, node.first_after) = (mended, None);
        }
        self.mend(step)?;
        let well = self.wait_until_all_read(mended, &step.to_string());
        if well.is_ok() {
            self.watch(step.calm)?;
            self.wait_until_all_read(monotonic(), &format!("after {step}"))?;
        }
        let disturbed = logs.iter().any(|&(node, before)| {
            node != step.node
                && !step.fault.hits_all()
                && lost_others(self.ring_log(node).get(before..).unwrap_or_default(), step.node)
        });
        let node = (!step.fault.hits_all() && !disturbed).then_some(step.node);
        self.allow(Window { from, to: monotonic(), node }, Some(step))?;
        well?;
        let after = |node: &Node| node.first_after.unwrap_or(i64::MAX).saturating_sub(mended);
        let others = || self.nodes.iter().filter(|(number, _)| **number != step.node);
        let all = self.nodes.values();
        let (survivors, back) = if step.fault.hits_all() {
            (all.clone().map(after).min(), all.map(after).max())
        } else {
            let own = self.nodes.get(&step.node).map(after);
            (others().map(|(_, node)| node.gap).max(), own)
        };
        Ok(Recovery {
            step: *step,
            survivors_ns: survivors.unwrap_or_default(),
            back_ns: back.unwrap_or_default(),
            disturbed,
            primary,
        })
    }

    /// True for the node of the primary, where there is one.
    fn is_primary(&mut self, node: u32) -> bool {
        let report = self.bed.report(node).unwrap_or_default();
        let active = report.pointer("/group/mode").is_none_or(|mode| mode == "active");
        !active && report.get("first") == Some(&node.into())
    }

    /// Steps the clock that a node's agent reads.
    fn set_clock(&self, node: u32, by: &str) -> Result<(), Failure> {
        let mut command = self.bed.command(node, Path::new("date"));
        let clocks = clocks(&self.dir)?;
        let clock = clocks.into_iter().nth(node as usize - 1).unwrap_or_default();
        command.args(["-s", by]).envs(clock).stdout(std::process::Stdio::null());
        let status = command.status().map_err(|error| Failure::of("date", error))?;
        if status.success() { Ok(()) } else { Err(Failure(format!("date -s: {status}"))) }
    }

    fn ring_log(&self, node: u32) -> String {
        // A node that has just been killed has no process, but its log is still there.
        self.bed.log_of_ring(node)
    }

    fn strike(&mut self, step: &Step) -> Result<(), Failure> {
        let node = step.node;
        match step.fault {
            Fault::KillAgent => self.bed.kill_agent(node),
            Fault::KillCorosync => self.bed.ring_mut().kill(node),
            Fault::StopAgent => self.bed.agent(node)?.signal(Signal::Stop),
            Fault::StopCorosync | Fault::Hiccup => self.bed.ring().pause(node),
            Fault::Link => self.bed.ring().cut(node),
            Fault::Partition => {
                let others: Vec<u32> = (1..=MEMBERS).filter(|other| *other != node).collect();
                self.bed.ring().partition(&[&others, &[node]]);
            }
            Fault::Scatter => {
                let all: Vec<[u32; 1]> = (1..=MEMBERS).map(|node| [node]).collect();
                let parts: Vec<&[u32]> = all.iter().map(|part| part.as_slice()).collect();
                self.bed.ring().partition(&parts);
            }
            Fault::Restart => {
                if let Some(node) = self.nodes.get_mut(&node) {
                    node.held = true;
                    if let Some(process) = &node.process {
                        process.signal(Signal::Kill);
                    }
                }
            }
            Fault::Clock => self.set_clock(node, steps_by(step)[0])?,
        }
        Ok(())
    }

    fn mend(&mut self, step: &Step) -> Result<(), Failure> {
        let node = step.node;
        match step.fault {
            Fault::KillAgent => self.bed.start_agent(node)?,
            Fault::KillCorosync => self.bed.ring_mut().start(node),
            Fault::StopAgent => self.bed.agent(node)?.signal(Signal::Continue),
            Fault::StopCorosync | Fault::Hiccup => self.bed.ring().cont(node),
            Fault::Link => self.bed.ring().plug(node),
            Fault::Partition | Fault::Scatter => self.bed.ring().heal(),
            Fault::Restart => {
                if let Some(node) = self.nodes.get_mut(&node) {
                    node.held = false;
                }
            }
            Fault::Clock => self.set_clock(node, steps_by(step)[1])?,
        }
        Ok(())
    }

    /// Copies the logs of rings, agents and programs beside the records, and what the agents say
    /// of themselves.
    ///
    /// # Errors
    /// Where they cannot be copied.
    pub fn keep_logs(&mut self) -> Result<(), Failure> {
        for node in 1..=MEMBERS {
            let path = self.dir.join(format!("status{node}.json"));
            let said = match self.bed.report(node) {
                Ok(report) => format!("{report:#}"),
                Err(why) => why.0,
            };
            std::fs::write(&path, said).map_err(|e| Failure::of(path.display(), e))?;
            for (name, text) in self.bed.logs(node) {
                let path = self.dir.join(name);
                std::fs::write(&path, text).map_err(|e| Failure::of(path.display(), e))?;
            }
        }
        Ok(())
    }

    /// Ends the programs, and gives the verdict over all that was recorded.
    ///
    /// # Errors
    /// Where records cannot be read.
    pub fn finish(mut self) -> Result<Verdict, Failure> {
        for node in self.nodes.values_mut() {
            if let Some(mut process) = node.process.take() {
                process.signal(Signal::Kill);
                let _ = process.wait(PATIENCE);
            }
            node.take(&mut self.verifier)?;
        }
        Ok(self.verifier.finish())
    }
}

impl Node {
    /// Takes in what has been recorded since the last time.
    fn take(&mut self, verifier: &mut Verifier) -> Result<(), Failure> {
        if self.reader.is_none() {
            self.reader = File::open(&self.path).ok().map(Reader::new);
        }
        let Some(mut reader) = self.reader.take() else { return Ok(()) };
        let read = reader.read(|record| {
            verifier.record(self.id, &record);
            self.note(&record);
        });
        self.reader = Some(reader);
        read.map_err(|broken| Failure::of(self.path.display(), broken))
    }

    fn note(&mut self, record: &Record) {
        match record.what {
            What::Value { .. } => {
                self.gap = self.gap.max(record.done - self.last);
                self.last = record.done;
                self.last_began = self.last_began.max(record.began);
                if record.began > self.since {
                    self.first_after.get_or_insert(record.done);
                }
            }
            What::Phase(phase) => self.phase = Some(phase),
            _ => {}
        }
    }
}

/// Words by which a clock is stepped, and back.
fn steps_by(step: &Step) -> [&'static str; 2] {
    if step.number.is_multiple_of(2) {
        ["2 seconds", "2 seconds ago"]
    } else {
        ["2 seconds ago", "2 seconds"]
    }
}

/// True if Corosync wrote that another node than this left.
fn lost_others(log: &str, node: u32) -> bool {
    let left = log.lines().filter_map(|line| line.split_once("left: ").map(|(_, rest)| rest));
    let named =
        left.flat_map(|rest| rest.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    named.map_while(|word| word.parse::<u32>().ok()).any(|other| other != node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_corosync_lost_is_read_from_its_log() {
        let log = "Nov 22 06:00:00.1 [1] n1 corosync notice  [TOTEM ] A new membership (1.2c) was \
                   formed. Members left: 3\n";
        assert!(!lost_others(log, 3));
        assert!(lost_others(log, 2));
        assert!(lost_others("Members joined: 1 left: 3 2", 3));
        assert!(!lost_others("Members joined: 1 2 3", 3));
    }
}
