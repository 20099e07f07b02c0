//! Agents on threads, a hub between them, and a directory that vanishes.

pub mod service;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use truechimer_group::Member;
use truechimer_group_agent::config::{Carrier, Membership, Place, UtcSource};
use truechimer_group_agent::transport::Hub;
use truechimer_group_agent::{Agent, Report, Settings};
use truechimer_group_client::{Replica, Watcher, Where};

/// Longest time for anything that should happen soon, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(300);

const GROUP: &str = "test";

/// Waits until something is so.
#[track_caller]
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Where agents meet.
pub struct Bed {
    pub dir: PathBuf,
    pub hub: Hub,
}

/// An agent on a thread of its own; it leaves when dropped.
pub struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Running {
    fn start(settings: Settings, hubs: BTreeMap<String, Hub>) -> Running {
        let stop = Arc::new(AtomicBool::new(false));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (flag, said) = (Arc::clone(&stop), Arc::clone(&lines));
        let (ready, is_ready) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut agent = Agent::start_on(&settings, &hubs).unwrap();
            ready.send(()).unwrap();
            let keep = |lines: Vec<(_, String)>| {
                said.lock().unwrap().extend(lines.into_iter().map(|(_, text)| text));
            };
            while !flag.load(Ordering::Relaxed) {
                agent.turn().unwrap();
                keep(agent.lines());
            }
            keep(agent.finish());
        });
        is_ready.recv().expect("the agent starts");
        Running { stop, thread: Some(thread), lines }
    }

    /// Ends it in good order.
    pub fn stop(mut self) {
        self.end();
    }

    /// Lines that it has said so far.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.expect("the agent ends well");
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
        if std::thread::panicking() {
            eprintln!("{:#?}", self.lines());
        }
    }
}

impl Bed {
    pub fn new() -> Bed {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir =
            std::env::temp_dir().join(format!("truechimer-agents-{}-{n}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        Bed { dir, hub: Hub::new() }
    }

    fn settings(&self, membership: Membership, state: &Path) -> Settings {
        Settings {
            directory: Some(self.dir.join("agents")),
            state: Place::At(state.to_owned()),
            utc: Some(UtcSource::SystemClock { bound_ns: 1_000_000 }),
            groups: vec![membership],
            ..Settings::default()
        }
    }

    fn membership(member: u32) -> Membership {
        let mut membership = Membership::new(GROUP);
        membership.group.universe = (1..=3).map(Member).collect();
        membership.carrier = Carrier::Local(vec![Member(member)]);
        membership
    }

    /// An agent with one member of the group of three.
    pub fn agent(&self, member: u32) -> Running {
        self.agent_with(member, |_| {})
    }

    /// Starts an agent with other settings.
    pub fn agent_with(&self, member: u32, change: impl FnOnce(&mut Membership)) -> Running {
        let mut membership = Bed::membership(member);
        change(&mut membership);
        let hubs = BTreeMap::from([(GROUP.to_owned(), self.hub.clone())]);
        Running::start(self.settings(membership, &self.dir.join("state")), hubs)
    }

    /// Starts an agent with UTC from there.
    pub fn agent_by(&self, member: u32, utc: UtcSource) -> Running {
        let mut settings = self.settings(Bed::membership(member), &self.dir.join("state"));
        settings.utc = Some(utc);
        let hubs = BTreeMap::from([(GROUP.to_owned(), self.hub.clone())]);
        Running::start(settings, hubs)
    }

    /// One with all members of local groups of these names, and with other settings.
    pub fn agent_of(&self, groups: &[(&str, u32)], change: impl FnOnce(&mut Settings)) -> Running {
        let all = groups.iter().map(|(name, count)| Membership::new(*name).local(*count));
        let mut settings = self.settings(Bed::membership(1), &self.dir.join("state"));
        settings.groups = all.collect();
        change(&mut settings);
        Running::start(settings, BTreeMap::new())
    }

    /// An agent with one member of the group of three, and a state directory of its own.
    pub fn agent_by_itself(&self, member: u32) -> (Running, PathBuf) {
        let state = self.dir.join(format!("state{member}"));
        let hubs = BTreeMap::from([(GROUP.to_owned(), self.hub.clone())]);
        (Running::start(self.settings(Bed::membership(member), &state), hubs), state)
    }

    /// Starts an agent that must not start. Returns the reason.
    pub fn refused(&self, member: u32, state: &Path) -> String {
        // Another hub, as if it were another process: its transport would have it.
        let settings = self.settings(Bed::membership(member), state);
        match Agent::start(&settings) {
            Ok(_) => panic!("it has started"),
            Err(why) => why.to_string(),
        }
    }

    /// An agent with all members of a group, and of one more group.
    pub fn local(&self, group: &str, count: u32) -> Running {
        let first = Membership::new(group).local(count);
        let mut settings = self.settings(first, &self.dir.join("state"));
        settings.groups.push(Membership::new("more").local(1));
        Running::start(settings, BTreeMap::new())
    }

    pub fn place(&self, group: &str, member: u32) -> Where {
        Where {
            directory: Some(self.dir.join("agents")),
            group: group.to_owned(),
            member: Some(Member(member)),
        }
    }

    /// A program at this member.
    pub fn attach(&self, member: u32) -> Replica {
        self.attach_to(GROUP, member)
    }

    pub fn attach_to(&self, group: &str, member: u32) -> Replica {
        Replica::attach(&self.place(group, member)).unwrap()
    }

    /// Report of the member's agent.
    pub fn report(&self, member: u32) -> Report {
        self.report_of(GROUP, member)
    }

    pub fn report_of(&self, group: &str, member: u32) -> Report {
        let mut watcher = Watcher::attach(&self.place(group, member)).unwrap();
        Report::from_json(&watcher.status(PATIENCE).unwrap().expect("in time")).unwrap()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
