//! One front: the loop around all of it.

mod early;
mod readers;
mod replies;
mod requests;
mod votes;
mod work;

use std::collections::{BTreeMap, VecDeque};
use std::ffi::CString;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use truechimer_group::{Phase, Point};
use truechimer_group_client::delivery::{self, Page};

use crate::clients::{Clients, Did};
use crate::cut::Protocol;
use crate::order::{Conn, FrontId, Op, Order, Step};
use crate::program::Program;
use crate::record::Record;
use crate::ring::{Ring, RingEvent};
use crate::streams::Streams;
use crate::sys::{self, Poll};
use crate::transfer::{Gave, Shell};
use crate::waker::{Waker, Woken, waker};
use crate::wire::Message;
use early::Early;
use readers::Readers;
pub use readers::{MOST_READERS, ReadOnly};
use replies::Replies;
use requests::Requests;
use votes::Votes;
use work::Work;

/// Interval at which a program that starts is brought the time, and looked for.
const KNOCK: Duration = Duration::from_millis(200);
/// Interval at which a front that says nothing else says that it lives.
const ALIVE: Duration = Duration::from_secs(2);
/// Longest time for a checkpoint to come before another is asked for.
const CHECKPOINT: Duration = Duration::from_secs(300);
/// Largest number of operations that may wait for the program before clients are no longer read.
const MOST_OPERATIONS: usize = 4096;

/// Settings of a front.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where the program listens.
    pub connect: SocketAddr,
    /// Number of replicas of the group in all.
    pub replicas: usize,
    /// The page for the program ([`delivery`]).
    pub page: PathBuf,
    /// The program's clock is the agreed time (else its own, for comparison).
    pub clock: bool,
    /// Where requests' numbers, times and replies are written.
    pub record: Option<PathBuf>,
    /// After how long without a message the time goes on by itself.
    pub tick: Duration,
    /// Rule that tells requests apart.
    pub protocol: Protocol,
    /// Replies wait until a majority has what they depend on.
    pub commit: bool,
    /// Writes the program's state to standard output.
    pub checkpoint_command: Option<String>,
    /// Starts the program from the state on standard input.
    pub restore_command: Option<String>,
    /// Succeeds once the program serves: one may listen before it does.
    pub ready_command: Option<String>,
    /// After how long a program that is not done is reported, and counts no more where others are.
    pub patience: Duration,
    /// Bytes that may be kept for all clients together, those too that only read ([`crate::MOST_KEPT`]).
    pub most_kept: usize,
    /// The program answers from one event loop, and gets several connections' requests at once.
    pub event_loop: bool,
    /// Requests that change nothing, of an event loop: they are asked of this replica alone.
    pub read_only: Option<ReadOnly>,
}

/// End of a front, if nothing failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ended {
    /// Stopped as asked.
    Stopped,
    /// Unfit to go on, for this reason.
    Unfit(String),
}

/// Message of ours that is under way.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Sent {
    /// For clients: of each what it asks, or its opening.
    Asks(Vec<u32>),
    /// The end of a client's connection.
    Ends(u32),
    /// Word of the front's own.
    Own,
}

/// A front.
pub struct Front {
    settings: Settings,
    ring: Box<dyn Ring>,
    listener: TcpListener,
    order: Order,
    program: Program,
    clients: Clients,
    readers: Option<Readers>,
    early: Early,
    replies: Replies,
    work: Work,
    record: Option<Record>,
    streams: Streams,
    votes: Votes,
    shell: Shell,
    /// The command that tells whether the program serves, while it runs.
    ready_check: Option<Gave>,
    ready_checked: Instant,
    waker: Waker,
    woken: Woken,
    poll: Poll,
    phase: Option<Phase>,
    /// Messages of ours that are under way, by token, and when each was sent, by [`sys::boot_time`].
    under_way: BTreeMap<u64, (Sent, Duration)>,
    /// Requests for the next message.
    requests: Requests,
    /// Connections whose end we have said.
    said: VecDeque<Conn>,
    /// The place of the message that came last, and when that was here.
    point: Point,
    last: Instant,
    spoke: Instant,
    knocked: Instant,
    looked: Instant,
    checkpoint_asked: Instant,
    /// Words to be said.
    says: Vec<String>,
    ended: Option<Ended>,
}

impl Front {
    /// A front that listens, and makes the page for its program.
    ///
    /// # Errors
    /// What does not work, and for which address or file.
    pub fn new(settings: Settings, ring: Box<dyn Ring>) -> Result<Front, String> {
        let to = settings.connect.ip().to_canonical();
        if !to.is_loopback() && !to.is_unspecified() {
            return Err(format!(
                "the program is to be on this host, where its connections are seen: --connect takes an address of \
                 127.0.0.0/8, [::1], 0.0.0.0 or [::], and not {}",
                settings.connect
            ));
        }
        let failed = |what: String| move |why: std::io::Error| format!("{what}: {why}");
        let listener = TcpListener::bind(settings.listen)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(failed(format!("cannot listen on {}", settings.listen)))?;
        let page = CString::new(settings.page.as_os_str().as_bytes())
            .map_err(|_| "the page's path contains a zero byte".to_string())?;
        let flag = |is: bool, flag| if is { flag } else { 0 };
        let flags =
            flag(settings.clock, delivery::CLOCK) | flag(settings.event_loop, delivery::LOOP);
        let page = Page::create(&page, flags)
            .map_err(failed(format!("cannot make {}", settings.page.display())))?;
        let record = settings.record.as_deref().map(|path| {
            Record::create(path).map_err(failed(format!("cannot write {}", path.display())))
        });
        let record = record.transpose()?;
        let descriptors = sys::more_descriptors();
        let clients = || Clients::new(settings.protocol);
        let readers =
            settings.read_only.clone().map(|how| Readers::new(how, clients(), descriptors));
        let readers = readers.transpose()?;
        let (waker, woken) = waker().map_err(failed("cannot make a socket pair".into()))?;
        let now = Instant::now();
        let me = FrontId { member: ring.member(), incarnation: incarnation() };
        let can_restore = settings.restore_command.is_some();
        let patience_ns = i64::try_from(settings.patience.as_nanos()).unwrap_or(i64::MAX);
        let shell = Shell { connect: settings.connect, page: settings.page.clone() };
        Ok(Front {
            order: Order::new(me, settings.replicas, can_restore, patience_ns)
                .with_event_loop(settings.event_loop),
            program: Program::new(settings.connect, page, settings.ready_command.is_some())
                .map_err(failed("cannot make an epoll instance".into()))?,
            clients: clients(),
            readers,
            early: Early::default(),
            replies: Replies::new(settings.commit),
            work: Work::default(),
            phase: ring.phase(),
            settings,
            ring,
            listener,
            record,
            streams: Streams::default(),
            votes: Votes::default(),
            shell,
            ready_check: None,
            ready_checked: now - KNOCK,
            waker,
            woken,
            poll: Poll::default(),
            under_way: BTreeMap::new(),
            requests: Requests::default(),
            said: VecDeque::new(),
            point: Point::default(),
            last: now,
            spoke: now,
            knocked: now - KNOCK,
            looked: now,
            checkpoint_asked: now,
            says: Vec::new(),
            ended: None,
        })
    }

    /// Where clients connect (the port, if any was asked for).
    ///
    /// # Errors
    /// Error of the system.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Where clients connect that only read (the port, if any was asked for); none if there is no such place.
    ///
    /// # Errors
    /// Error of the system.
    pub fn read_only_address(&self) -> std::io::Result<Option<SocketAddr>> {
        self.readers.as_ref().map(Readers::address).transpose()
    }

    /// Works until `stop`, or until it cannot. What the operator should know goes to `say`.
    ///
    /// # Errors
    /// If the group's agent is gone or stands still, or a file cannot be written.
    pub fn run(&mut self, stop: &AtomicBool, say: &mut dyn FnMut(&str)) -> Result<Ended, String> {
        let ended = loop {
            if let Err(why) = self.turn() {
                self.report_end(&Ended::Unfit(why.clone()));
                return Err(why);
            }
            self.says.drain(..).for_each(|line| say(&line));
            if let Some(ended) = self.ended.take() {
                break ended;
            }
            if stop.load(Ordering::Relaxed) {
                break Ended::Stopped;
            }
        };
        // It may be that nobody hears it.
        let _ = self.send(&Message::Leave);
        self.flush_record()?;
        let (same, different) = (self.streams.same, self.streams.different);
        say(&format!(
            "{} requests; replies compared with other replicas': {same} the same, {different} not",
            self.order.requests()
        ));
        self.report_end(&ended);
        if matches!(ended, Ended::Unfit(_)) && self.settings.clock {
            // Its program is not to go on with a clock that stands still.
            self.program.page().fence();
        }
        // The file only: a program that still runs keeps what it has mapped.
        let _ = truechimer_files::remove(&self.settings.page);
        Ok(ended)
    }

    /// Takes all that has come, does all that can be done, and waits for more.
    fn turn(&mut self) -> Result<(), String> {
        while let Some(event) = self.ring.next()? {
            self.event(event)?;
            if self.ended.is_some() {
                return Ok(());
            }
        }
        self.ring.look(self.settings.patience)?;
        self.work()?;
        self.vote()?;
        self.release()?;
        self.ask()?;
        self.renew()?;
        self.timers()?;
        if self.ended.is_none() && self.says.is_empty() {
            self.wait()?;
        }
        Ok(())
    }

    fn event(&mut self, event: RingEvent) -> Result<(), String> {
        match event {
            RingEvent::Delivered { from, token, time, point, payload } => {
                self.last = Instant::now();
                self.point = point;
                let own = from == self.order.me().member;
                let own = own.then(|| self.under_way.remove(&token)).flatten();
                if from == self.order.me().member {
                    self.spoke = self.last;
                }
                if let Some((Sent::Asks(clients), _)) = &own {
                    clients.iter().for_each(|client| self.clients.delivered(*client));
                }
                let before = self.order.time();
                let steps = self.order.delivered(from, time, &payload);
                self.count(before);
                if !self.order.is_in() && self.work.is_idle() {
                    // A program that starts needs some time.
                    self.program.set_time(time);
                }
                self.steps(steps)?;
                if let (Some(readers), Some((_, sent))) = (&mut self.readers, own)
                    && self.order.is_in()
                {
                    readers.delivered(point, sent);
                }
            }
            RingEvent::Refused(token) => self.refused(token),
            RingEvent::Phase(phase) => {
                self.phase = Some(phase);
                if phase != Phase::Live {
                    let steps = self.order.interrupted();
                    self.steps(steps)?;
                }
            }
            RingEvent::Other => {}
        }
        Ok(())
    }

    /// Cuts off clients whose requests nobody gets; all else is said again.
    fn refused(&mut self, token: u64) {
        match self.under_way.remove(&token).map(|(sent, _)| sent) {
            Some(Sent::Asks(clients)) => {
                for client in clients {
                    self.clients.remove(client);
                    self.requests.forget(client);
                    self.close(client);
                }
            }
            Some(Sent::Ends(client)) => self.requests.close(client),
            Some(Sent::Own) | None => self.tell_again(),
        }
    }

    fn steps(&mut self, steps: Vec<Step>) -> Result<(), String> {
        for step in steps {
            match step {
                Step::Send(message) => self.send(&message)?,
                Step::Run(op, time) => {
                    if let Op::Open(conns) = &op {
                        conns.iter().for_each(|conn| self.streams.begin(*conn));
                    }
                    self.work.push(op, time, self.point);
                }
                Step::Joined => self.tell_again(),
                Step::Entered => {
                    self.tell_again();
                    let (ready, all) = (self.order.ready(), self.settings.replicas);
                    self.says.push(format!("in: {ready} of {all} replicas are ready"));
                }
                Step::Dropped(why) => {
                    self.clients.clear();
                    self.replies.clear();
                    self.said.clear();
                    self.under_way.clear();
                    self.requests.clear();
                    if let Some(readers) = &mut self.readers {
                        readers.drop_out();
                    }
                    self.says.push(format!("out: {why}; the clients' connections are closed"));
                }
                Step::Restore(data) => self.restore(data)?,
                Step::Unfit(why) => self.ended = Some(Ended::Unfit(why)),
                Step::Report(text) => self.says.push(text),
                Step::Compare { from, done, replied } => {
                    if from != self.order.me().member {
                        let differences = self.streams.heard(from, done, replied);
                        self.differ(differences)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn send(&mut self, message: &Message) -> Result<(), String> {
        self.send_for(message, Sent::Own).map(drop)
    }

    /// Sends it, and notes for whom.
    fn send_for(&mut self, message: &Message, sent: Sent) -> Result<u64, String> {
        let incarnation = self.order.me().incarnation;
        // Not later than it goes: states are as old as messages that they contain.
        let at = sys::boot_time();
        let token = self.ring.multicast(&message.encode(incarnation))?;
        self.under_way.insert(token, (sent, at));
        Ok(token)
    }

    /// The others are to close that connection of ours, too.
    fn close(&mut self, client: u32) {
        let conn = Conn { member: self.order.me().member, number: client };
        if self.order.is_in() && !self.said.contains(&conn) {
            self.said.push_back(conn);
            if self.said.len() > 2 * crate::clients::MOST {
                self.said.pop_front();
            }
            self.requests.close(client);
        }
    }

    fn timers(&mut self) -> Result<(), String> {
        let now = Instant::now();
        self.look_who_is_early(now);
        if !self.order.is_in() {
            return self.timers_outside(now);
        }
        // The first one that is in lets time pass; the next one, if it does not, and so on.
        let wait = self.settings.tick.mul_f64(1.0 + 0.5 * self.order.rank() as f64);
        let idle = now.saturating_duration_since(self.last.max(self.knocked));
        if idle >= wait && self.under_way.is_empty() {
            self.knocked = now;
            self.send(&Message::Tick)?;
        }
        if now.saturating_duration_since(self.spoke) >= ALIVE {
            self.tell_done(Vec::new())?;
        }
        if now.saturating_duration_since(self.looked) >= ALIVE {
            self.looked = now;
            self.flush_record()?;
            if self.work.is_started()
                && let Some(why) = self.program.misses()
            {
                self.ended = Some(Ended::Unfit(format!("the program has ended: {why}")));
            }
        }
        Ok(())
    }

    /// Asks a program that listens whether it serves by now.
    fn ask_ready(&mut self) -> Result<(), String> {
        let Some(command) = &self.settings.ready_command else { return Ok(()) };
        if !self.program.is_asked_for() {
            self.ready_check = None;
            return Ok(());
        }
        let Some(check) = &self.ready_check else {
            if self.ready_checked.elapsed() < KNOCK {
                return Ok(());
            }
            self.ready_checked = Instant::now();
            let check = self.shell.take(command, &self.waker);
            self.ready_check = Some(check.map_err(|why| format!("cannot start a thread: {why}"))?);
            return Ok(());
        };
        match check.try_recv() {
            Ok(said) => self.program.set_ready(said.map(drop)),
            Err(TryRecvError::Empty) => return Ok(()),
            Err(TryRecvError::Disconnected) => {}
        }
        self.ready_check = None;
        Ok(())
    }

    fn timers_outside(&mut self, now: Instant) -> Result<(), String> {
        if self.phase != Some(Phase::Live) {
            return Ok(());
        }
        if now.saturating_duration_since(self.knocked) >= KNOCK {
            self.knocked = now;
            self.ask_ready()?;
            let misses = self.program.misses();
            if misses.is_none() || self.settings.restore_command.is_some() {
                let steps = self.order.ask();
                self.steps(steps)?;
            } else if self.under_way.is_empty() {
                self.send(&Message::Knock)?;
            }
            let waits = self.order.waits_for().or(misses.map(|why| format!("the program: {why}")));
            if let Some(what) = waits
                && now.saturating_duration_since(self.looked) >= self.settings.patience
            {
                self.looked = now;
                self.says.push(format!("waiting for {what}"));
            }
        }
        if now.saturating_duration_since(self.checkpoint_asked) >= CHECKPOINT {
            self.checkpoint_asked = now;
            let steps = self.order.ask_again();
            self.steps(steps)?;
        }
        Ok(())
    }

    /// Waits for whatever comes next, and takes what clients have sent.
    fn wait(&mut self) -> Result<(), String> {
        let patience = self.patience();
        let patience = self.work.wait(&mut self.program, patience);
        self.poll.clear();
        if let Some(ring) = self.ring.descriptor() {
            self.poll.add(ring, true, false);
        }
        let woken = self.poll.add(self.woken.descriptor(), true, false);
        let takes = self.takes();
        if takes {
            self.early.take().into_iter().for_each(|(_, stream)| self.add(stream));
        }
        let listener = takes.then(|| self.poll.add(self.listener.as_raw_fd(), true, false));
        for (descriptor, writes) in self.program.descriptors() {
            self.poll.add(descriptor, true, writes);
        }
        let clients = self.clients.poll(&mut self.poll, takes);
        let readers = self.poll_readers();
        self.poll.wait(patience);
        if self.poll.came(woken) {
            self.woken.clear();
        }
        if let Some(readers) = readers {
            self.serve_readers(readers);
        }
        if listener.is_some_and(|at| self.poll.came(at)) {
            self.accept();
        }
        for number in self.clients.came(&self.poll, &clients) {
            self.serve(number, takes && self.requests.has_room());
        }
        self.ask()?;
        self.renew()
    }

    /// True if clients may be read.
    fn takes(&self) -> bool {
        let room = self.work.waiting() < MOST_OPERATIONS && self.requests.has_room();
        self.order.may_answer() && room
    }

    fn patience(&self) -> Duration {
        self.settings.tick.min(KNOCK) / 4
    }

    fn accept(&mut self) {
        // An error concerns one client that has gone again, or descriptors that are used up.
        while let Ok((stream, _)) = self.listener.accept() {
            self.add(stream);
        }
    }

    fn add(&mut self, stream: TcpStream) {
        if let Some(number) = self.clients.add(stream) {
            self.requests.open(number);
        }
    }

    /// Command that starts the program.
    fn command(&self) -> String {
        let page = &self.settings.page;
        let group = page.parent().and_then(|directory| directory.file_name());
        let group = group.map_or_else(|| "NAME".into(), |name| name.to_string_lossy());
        let member = self.order.me().member;
        format!(
            "truechimer group exec --group {group} --member {member} --reads delivery -- PROGRAM"
        )
    }

    fn serve(&mut self, number: u32, reads: bool) {
        for did in self.clients.serve(number, reads) {
            match did {
                Did::Request(number, bytes) => self.requests.push(number, bytes),
                Did::End(number) | Did::Gone(number) => self.close(number),
                Did::Slow(number, unread) => {
                    self.says.push(slow(number, unread));
                    self.close(number);
                }
            }
        }
    }

    /// Sends the slowest clients away if too much is kept for all of them.
    fn shed(&mut self) {
        let slow = self.clients.shed(self.settings.most_kept);
        self.tell_shed(&slow);
        for (number, _) in slow {
            self.close(number);
        }
    }

    /// Says that clients were sent away, as too much was kept for them, and how much that was.
    fn tell_shed(&mut self, slow: &[(u32, usize)]) {
        let Some(most) = slow.iter().map(|(_, bytes)| *bytes).max() else { return };
        self.says.push(format!(
            "{} client(s) sent away, the slowest first: replies that clients leave unread and \
             requests that they do not finish took more than {}; {} of that was one's",
            slow.len(),
            mib(self.settings.most_kept),
            mib(most)
        ));
    }

    fn flush_record(&mut self) -> Result<(), String> {
        self.record.as_mut().map_or(Ok(()), Record::flush).map_err(|why| self.unwritten(&why))
    }

    fn unwritten(&self, why: &std::io::Error) -> String {
        let record = self.settings.record.as_deref().unwrap_or_else(|| "".as_ref());
        format!("cannot write {}: {why}", record.display())
    }
}

/// Words on a client that was sent away, as it does not read its replies.
fn slow(number: u32, unread: usize) -> String {
    format!("client {number} sent away: it has left {} of replies unread", mib(unread))
}

/// Bytes, for people.
fn mib(bytes: usize) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// A number that no earlier front here had.
fn incarnation() -> u64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    since.as_nanos() as u64 ^ (u64::from(std::process::id()) << 40)
}
