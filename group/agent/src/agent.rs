//! The loop: one thread that waits in poll(2) for programs, transports, clocks and disks.

use std::collections::BTreeMap;
use std::fs::{File, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use truechimer_files::{Access, Entry, make_folder};
use truechimer_group::{Member, Own, Refusal};
use truechimer_group_client::agent::{Door, News, Settings as DoorSettings};
use truechimer_group_client::directory_for_agent;
use truechimer_notify::Service;

use crate::clocks::{Clocks, UtcSource};
use crate::config::{Carrier, Membership, Place, Settings};
use crate::error::AgentError;
use crate::floor::{self, Floor};
use crate::metrics::{Metrics, Told};
use crate::notices::Level;
use crate::seat::{Crossing, Foreign, Seat, Turn};
use crate::sys;
use crate::transport::{Corosync, Hub, Transport, TransportError};
use crate::wait::Waiter;

const MS: i64 = 1_000_000;
const S: i64 = 1_000 * MS;
/// The longest wait: the flags are looked at this often even if a signal came just before waiting.
const LONGEST_WAIT: i64 = S;
/// A transport that was full is asked again after this.
const FULL_WAIT: i64 = MS;
/// A transport that may come back is tried again after this, and one that needs mending after that.
const RETRY: i64 = S;
const RETRY_BROKEN: i64 = 10 * S;
/// Longest wait for a transport's first opening; then interval between looks at a later one, ns.
const FIRST_OPENING: Duration = Duration::from_secs(5);
const LOOK: i64 = 50 * MS;
/// Where the state is for root.
const SYSTEM_STATE: &str = "/var/lib/truechimer/group";

/// An agent at work: all its groups on one thread.
pub struct Agent {
    clocks: Clocks,
    chairs: Vec<Chair>,
    fds: Vec<libc::pollfd>,
    waiter: Waiter,
    directory: PathBuf,
    state: Option<PathBuf>,
    metrics: Option<Metrics>,
    lines: Vec<(Level, String)>,
}

/// A place for a member: taken as soon as its transport says who we are.
struct Chair {
    membership: Membership,
    /// For a local group: where its members meet, and which of them this is.
    local: Option<(Hub, Member)>,
    seat: Option<Seat>,
    /// A transport that is being opened.
    opening: Option<Receiver<Opened>>,
    /// When the transport is to be opened again, by the physical clock.
    retry_at: i64,
    /// The members' lock on the state.
    lock: Option<File>,
}

type Opened = Result<Box<dyn Transport>, TransportError>;

impl Agent {
    /// Opens everything.
    ///
    /// # Errors
    /// As [`crate::run`].
    pub fn start(settings: &Settings) -> Result<Agent, AgentError> {
        Agent::start_on(settings, &BTreeMap::new())
    }

    /// Starts with local groups of these names on these hubs: several agents of one process can
    /// share them.
    ///
    /// # Errors
    /// As [`crate::run`].
    pub fn start_on(
        settings: &Settings,
        hubs: &BTreeMap<String, Hub>,
    ) -> Result<Agent, AgentError> {
        let mut lines = Vec::new();
        sys::wake_promptly();
        sys::more_descriptors();
        if let Some(priority) = settings.real_time {
            lines.push(match sys::real_time(priority) {
                Ok(()) => (Level::Info, format!("real-time priority {priority}")),
                Err(why) => (
                    Level::Warning,
                    format!(
                        "no real-time priority ({why}): that takes CAP_SYS_NICE, as root has, or \
                         LimitRTPRIO in a unit file; goes on without"
                    ),
                ),
            });
        }
        let clocks = Clocks::new(settings.utc.clone().unwrap_or(UtcSource::Page(None)));
        lines.push((Level::Info, format!("version {}; {}", crate::VERSION, clocks.description())));
        if let Some(why) = clocks.why_not() {
            lines.push((Level::Warning, no_utc(why)));
        }
        let mut agent = Agent {
            clocks,
            chairs: Vec::new(),
            fds: Vec::new(),
            waiter: Waiter::default(),
            directory: settings.directory.clone().unwrap_or_else(directory_for_agent),
            state: state_directory(&settings.state)?,
            metrics: None,
            lines,
        };
        agent.open_metrics(settings);
        for membership in &settings.groups {
            let chair = |local| Chair {
                membership: membership.clone(),
                local,
                seat: None,
                opening: None,
                retry_at: 0,
                lock: None,
            };
            match &membership.carrier {
                Carrier::Corosync => agent.chairs.push(chair(None)),
                Carrier::Local(members) => {
                    let hub = hubs.get(&membership.group.name).cloned().unwrap_or_default();
                    let each = members.iter().map(|member| chair(Some((hub.clone(), *member))));
                    agent.chairs.extend(each);
                }
            }
        }
        for index in 0..agent.chairs.len() {
            agent.sit(index)?;
        }
        Ok(agent)
    }

    /// Serves metrics if they are wanted. That it cannot is no reason for the groups to stand still.
    fn open_metrics(&mut self, settings: &Settings) {
        let Some(listen) = &settings.metrics else { return };
        match Metrics::start(listen) {
            Ok(metrics) => {
                let text = format!("metrics are served at {}", metrics.place());
                self.lines.push((Level::Info, text));
                self.metrics = Some(metrics);
            }
            Err(why) => self.lines.push((Level::Warning, why)),
        }
    }

    /// Lays down what metrics tell, once a second.
    fn tell_metrics(&mut self, now: i64) {
        let Some(metrics) = self.metrics.as_mut().filter(|metrics| metrics.is_due(now)) else {
            return;
        };
        let seats = self.chairs.iter().filter_map(|chair| chair.seat.as_ref());
        let accounts = seats.map(|seat| seat.figures(&self.clocks)).collect();
        let waiting = self.chairs.iter().filter(|chair| chair.seat.is_none());
        let waiting = waiting.map(|chair| chair.membership.group.name.clone()).collect();
        metrics.lay_down(now, Told { accounts, waiting });
    }

    /// Lines to say since the last time.
    pub fn lines(&mut self) -> Vec<(Level, String)> {
        std::mem::take(&mut self.lines)
    }

    /// Where programs find this agent.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Opens a chair's transport, and all else once it is known who we are.
    fn sit(&mut self, index: usize) -> Result<(), AgentError> {
        let Some(chair) = self.chairs.get_mut(index) else { return Ok(()) };
        let name = chair.membership.group.name.clone();
        let first = chair.seat.is_none();
        let starts = first && chair.retry_at == 0;
        let Some(opened) = chair.open(if starts { FIRST_OPENING } else { Duration::ZERO }) else {
            chair.retry_at = sys::raw_ns() + LOOK;
            if starts {
                let text = format!("{name}: Corosync does not answer yet: waiting for it");
                self.lines.push((Level::Warning, text));
            }
            return Ok(());
        };
        let transport = match opened {
            Ok(transport) => transport,
            Err(why) if why.passing || !first => {
                let wait = if why.passing { RETRY } else { RETRY_BROKEN };
                chair.retry_at = sys::raw_ns() + wait;
                let text = format!("{why}; trying again every {} s", wait / S);
                match &mut chair.seat {
                    Some(seat) => {
                        let mut turn = Turn::new(&self.clocks);
                        seat.say(Level::Warning, "transport", text, &mut turn);
                        self.lines.append(&mut turn.lines);
                    }
                    None => self.lines.push((Level::Warning, format!("{name}: {text}"))),
                }
                return Ok(());
            }
            Err(why) => return Err(AgentError::Transport { group: name, why }),
        };
        if let Some(seat) = &mut chair.seat {
            if seat.member != transport.member() {
                let (was, is) = (seat.member, transport.member());
                return Err(AgentError::System {
                    what: format!("group '{name}'"),
                    why: io::Error::other(format!(
                        "this node's id was {was} and is {is} now: start the agent again"
                    )),
                });
            }
            seat.join(transport);
            let text = format!("{name}, member {}: connected again", seat.member);
            self.lines.push((Level::Info, text));
            return Ok(());
        }
        let mut seat = self.seat(index, &name, transport.as_ref())?;
        let others = seat.membership.group.universe.len();
        self.lines.push((
            Level::Info,
            format!(
                "{name}, member {}: {} of {others}; programs attach at {}",
                seat.member,
                if seat.is_observer() { "an observer" } else { "one" },
                seat.door.path().display()
            ),
        ));
        if seat.is_wanted() {
            seat.join(transport);
        }
        if let Some(chair) = self.chairs.get_mut(index) {
            chair.seat = Some(seat);
        }
        Ok(())
    }

    /// Everything about a member but its transport.
    fn seat(
        &mut self,
        index: usize,
        name: &str,
        transport: &dyn Transport,
    ) -> Result<Seat, AgentError> {
        let member = transport.member();
        let Some(chair) = self.chairs.get_mut(index) else {
            return Err(AgentError::State(format!("group '{name}' is none of ours")));
        };
        let mut membership = chair.membership.clone();
        if membership.group.universe.is_empty() {
            membership.group.universe =
                node_list().map_err(|why| AgentError::Transport { group: name.to_owned(), why })?;
        }
        let (floor, kept) = match &self.state {
            None => (Floor::nowhere(), None),
            Some(directory) => {
                let path = floor::path(directory, name, member);
                chair.lock = Some(lock(&path, name, member)?);
                let kept = floor::load(&path, name, member).map_err(AgentError::State)?;
                let floor =
                    Floor::at(&path, name, member, kept).map_err(|why| unwritable(&path, &why))?;
                (floor, kept)
            }
        };
        let place = membership.group.universe.iter().position(|one| *one == member);
        let settings = DoorSettings {
            place: place.and_then(|place| u8::try_from(place).ok()).unwrap_or_default(),
            mode: membership.group.mode,
            order: membership.group.order,
            permissions: membership.link.permissions(),
            owner: membership.link.owner,
            access_group: membership.link.group,
            ..DoorSettings::new(self.directory.clone(), name, member)
        };
        let door =
            Door::open(settings).map_err(|why| AgentError::Door { group: name.to_owned(), why })?;
        let incarnation = sys::random()
            .map_err(|why| AgentError::System { what: "no random numbers".into(), why })?;
        let own = Own {
            member,
            incarnation,
            stagger_ns: membership.stagger_ns,
            gather_ns: membership.gather_ns,
            report_ns: membership.report_ns,
            buffer: membership.buffer,
            floor: kept,
            checkpoints: membership.checkpoints,
        };
        Seat::new(membership, own, door, floor, sys::raw_ns())
            .map_err(|why| AgentError::Group { group: name.to_owned(), why })
    }

    /// Does all there is to do, then waits until something happens.
    ///
    /// # Errors
    /// If poll(2) fails, or this node has become another member.
    pub fn turn(&mut self) -> Result<(), AgentError> {
        self.work()?;
        let mut fds = std::mem::take(&mut self.fds);
        fds.clear();
        let now = sys::raw_ns();
        let mut until = now + LONGEST_WAIT;
        let mut asleep = true;
        let mut edition = 0;
        for chair in &mut self.chairs {
            let Some(seat) = &mut chair.seat else {
                until = until.min(chair.retry_at);
                continue;
            };
            if !seat.is_joined() && seat.is_wanted() {
                until = until.min(chair.retry_at);
            }
            asleep &= !seat.is_busy();
            if seat.is_full() {
                until = until.min(now + FULL_WAIT);
            }
            if let Some(deadline) = seat.deadline() {
                until = until.min(deadline);
            }
            if let Some(patience) = seat.door.patience() {
                let patience = i64::try_from(patience.as_nanos()).unwrap_or(LONGEST_WAIT);
                until = until.min(now.saturating_add(patience));
            }
            edition += seat.interests(&mut fds);
            asleep &= seat.door.sleep();
        }
        let wait = if asleep { until.saturating_sub(now) } else { 0 };
        let waited = self.waiter.wait(&mut fds, edition, wait);
        self.fds = fds;
        for seat in self.chairs.iter_mut().filter_map(|chair| chair.seat.as_mut()) {
            seat.door.wake();
        }
        match waited {
            // A signal: whoever calls looks at the flags.
            Err(why) if why.kind() == ErrorKind::Interrupted => {
                self.fds.clear();
                Ok(())
            }
            Err(why) => Err(AgentError::System { what: "poll".into(), why }),
            Ok(()) => Ok(()),
        }
    }

    /// All that can be done without waiting.
    fn work(&mut self) -> Result<(), AgentError> {
        match self.clocks.tend() {
            Some(Ok(text)) => self.lines.push((Level::Info, text)),
            Some(Err(why)) => self.lines.push((Level::Warning, no_utc(&why))),
            None => {}
        }
        let now = sys::raw_ns();
        for index in 0..self.chairs.len() {
            let due = self.chairs.get(index).is_some_and(|chair| {
                let idle = |seat: &Seat| seat.is_joined() || !seat.is_wanted();
                now >= chair.retry_at && !chair.seat.as_ref().is_some_and(idle)
            });
            if due {
                self.sit(index)?;
            } else if let Some(chair) = self.chairs.get_mut(index)
                && chair.seat.as_ref().is_some_and(|seat| !seat.is_wanted())
            {
                // What is being opened leaves again.
                chair.opening = None;
            }
        }
        let mut turn = Turn { polled: &self.fds, ..Turn::new(&self.clocks) };
        for index in 0..self.chairs.len() {
            let Some(chair) = self.chairs.get_mut(index) else { continue };
            let Some(seat) = &mut chair.seat else { continue };
            let done = seat.take_in(&mut turn).and_then(|()| seat.give_out(&mut turn));
            if let Err(why) = done {
                chair.retry_at = now + if why.passing { RETRY } else { RETRY_BROKEN };
                let text =
                    format!("{why}; this member is out of the group until it can be joined again");
                seat.say(Level::Warning, "transport", text, &mut turn);
            }
            seat.release(&mut turn);
            for crossing in std::mem::take(&mut turn.crossings) {
                cross(&mut self.chairs, index, crossing, &self.clocks);
            }
        }
        self.lines.append(&mut turn.lines);
        self.tell_metrics(now);
        Ok(())
    }

    /// Leaves all groups and ends.
    pub fn finish(mut self) -> Vec<(Level, String)> {
        let mut turn = Turn::new(&self.clocks);
        for chair in &mut self.chairs {
            let Some(mut seat) = chair.seat.take() else { continue };
            seat.leave(&mut turn);
            let name = seat.name().to_owned();
            turn.lines.push((Level::Info, format!("{name}, member {}: has left", seat.member)));
            seat.settle();
        }
        self.lines.append(&mut turn.lines);
        self.lines
    }
}

impl Chair {
    /// Opens the transport, or looks whether that has been done: none if not within `patience`. A
    /// Corosync that hangs lets whoever connects wait without end: that is another thread's to do,
    /// lest the other groups and this one's programs wait as well.
    fn open(&mut self, patience: Duration) -> Option<Opened> {
        if let Some((hub, member)) = &self.local {
            return Some(hub.join(*member).map(|local| Box::new(local) as Box<dyn Transport>));
        }
        let name = self.membership.group.name.clone();
        let opening = self.opening.take().map_or_else(|| begin_to_open(name), Ok);
        let opening = match opening {
            Ok(opening) => opening,
            Err(why) => return Some(Err(why)),
        };
        match opening.recv_timeout(patience) {
            Ok(opened) => Some(opened),
            Err(RecvTimeoutError::Timeout) => {
                self.opening = Some(opening);
                None
            }
            Err(RecvTimeoutError::Disconnected) => {
                let what = "opening the transport failed in itself".to_owned();
                Some(Err(TransportError { what, passing: true }))
            }
        }
    }
}

fn begin_to_open(name: String) -> Result<Receiver<Opened>, TransportError> {
    let (done, opening) = channel();
    let open = move || {
        let opened = Corosync::open(&name).map(|one| Box::new(one) as Box<dyn Transport>);
        // Nobody waits any more: then it is dropped, and leaves.
        let _ = done.send(opened);
    };
    match std::thread::Builder::new().name("truechimer-open".into()).spawn(open) {
        Ok(_) => Ok(opening),
        Err(why) => {
            Err(TransportError { what: format!("no thread to open it: {why}"), passing: true })
        }
    }
}

/// Carries a message from one group of this agent to another, or the word that it was refused.
fn cross(chairs: &mut [Chair], from: usize, crossing: Crossing, clocks: &Clocks) {
    match crossing {
        Crossing::Message { group, link, token, stamp, payload } => {
            // The other group's members here; with a local group there are several, and one will
            // do.
            let to = chairs.iter_mut().filter_map(|chair| chair.seat.as_mut());
            let to = to.filter(|seat| seat.name() == group).max_by_key(|seat| seat.is_joined());
            match to {
                Some(seat) => {
                    let sender = Foreign { seat: from, link, token };
                    seat.receive_foreign(sender, stamp, &payload, clocks);
                }
                None => refuse(chairs, Foreign { seat: from, link, token }, Refusal::Outside),
            }
        }
        Crossing::Refused { to, why } => refuse(chairs, to, why),
    }
}

fn refuse(chairs: &mut [Chair], to: Foreign, why: Refusal) {
    if let Some(seat) = chairs.get_mut(to.seat).and_then(|chair| chair.seat.as_mut()) {
        seat.door.send(to.link, &News::Refused { token: to.token, why });
    }
}

fn no_utc(why: &str) -> String {
    format!(
        "no UTC here, so that this member only follows the others' ({why}; --system-clock BOUND \
         takes the system clock instead)"
    )
}

/// The members of the ring that Corosync is configured for.
fn node_list() -> Result<Vec<Member>, TransportError> {
    let nodes = truechimer_corosync::nodes()?;
    if nodes.is_empty() {
        return Err(TransportError {
            what: "corosync.conf has no node list: say who the members are (--members 1,2,3, or \
                   `members` in the configuration)"
                .to_owned(),
            passing: false,
        });
    }
    Ok(nodes.iter().map(|node| Member(node.id)).collect())
}

/// Where floors are kept if the user does not say: in `$STATE_DIRECTORY` (which systemd sets), else
/// in `/var/lib/truechimer/group` for root and `$XDG_STATE_HOME/truechimer/group` or
/// `~/.local/state/truechimer/group` for anyone else.
fn state_directory(place: &Place) -> Result<Option<PathBuf>, AgentError> {
    let given = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    match place {
        Place::None => Ok(None),
        Place::At(path) => Ok(Some(path.clone())),
        Place::Default => {
            let own =
                || given("XDG_STATE_HOME").or_else(|| Some(given("HOME")?.join(".local/state")));
            let found = given("STATE_DIRECTORY")
                .or_else(|| (sys::uid() == 0).then(|| SYSTEM_STATE.into()))
                .or_else(|| own().map(|home| home.join("truechimer/group")));
            found.map(Some).ok_or_else(|| {
                AgentError::State(
                    "no place for the clocks' floors: use --state DIR, or none".into(),
                )
            })
        }
    }
}

/// Keeps a second agent from taking the same member's state.
fn lock(floor: &Path, name: &str, member: Member) -> Result<File, AgentError> {
    let directory = floor.parent().unwrap_or(Path::new("."));
    make_folder(directory, 0o755).map_err(|why| unwritable(floor, &why))?;
    let path = floor.with_extension("lock");
    let file = Entry::at(&path).and_then(|entry| entry.open(Access::Write, 0o600));
    let file = file.map_err(|why| unwritable(&path, &why))?;
    // Whoever can open it can lock it. One that an agent of before made was open to all for reading;
    // one of another owner's is that owner's to close.
    let _ = file.set_permissions(Permissions::from_mode(0o600));
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(AgentError::State(format!(
            "{}: another agent is member {member} of group '{name}' here: end it first, or give \
             this one another --state",
            path.display()
        ))),
        Err(TryLockError::Error(why)) => Err(unwritable(&path, &why)),
    }
}

fn unwritable(path: &Path, why: &io::Error) -> AgentError {
    AgentError::State(format!(
        "{}: {why}: name a directory that can be written to with --state, or none (the group's \
         clock can then go back if all members die)",
        path.display()
    ))
}

/// Runs an agent on this thread until `stop` is set.
///
/// `stop` is looked at whenever something happens, and once a second at the latest; a signal whose
/// handler sets it ends the wait at once. `service` is told when
/// programs can attach, or when it is Corosync that is waited for; and on every turn that the loop
/// goes on. `notes` gets what a user should hear, one line at a time,
/// and must not block.
///
/// # Errors
/// If the configuration is wrong; if Corosync's libraries are missing; if another agent has the
/// same member; if a floor that was kept cannot be used. Corosync may come late, stop and come
/// back.
pub fn run(
    settings: &Settings,
    stop: &AtomicBool,
    service: &mut Service,
    notes: &mut dyn FnMut(Level, &str),
) -> Result<(), AgentError> {
    let mut agent = Agent::start(settings)?;
    service.ready();
    let mut ended = Ok(());
    while !stop.load(Ordering::Relaxed) && ended.is_ok() {
        for (level, text) in agent.lines() {
            notes(level, &text);
        }
        service.alive();
        ended = agent.turn();
    }
    service.stopping();
    for (level, text) in agent.finish() {
        notes(level, &text);
    }
    ended
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_lock_of_a_state_is_its_owners_alone() {
        let directory =
            std::env::temp_dir().join(format!("truechimer-agent-lock-{}", std::process::id()));
        let (floor, path) = (directory.join("g.1.floor"), directory.join("g.1.lock"));
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        let first = lock(&floor, "g", Member(1)).unwrap();
        assert_eq!(mode(), 0o600, "whoever can open it can lock it");
        assert!(lock(&floor, "g", Member(1)).unwrap_err().to_string().contains("another agent"));
        drop(first);
        // One that an agent of before left.
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        drop(lock(&floor, "g", Member(1)).unwrap());
        assert_eq!(mode(), 0o600);
        fs::remove_dir_all(directory).unwrap();
    }
}
