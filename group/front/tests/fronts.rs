//! Three fronts over a stream in memory, each with a program that counts its input as the preloaded
//! library does, and clients.
// What panics in a test fails it.
#![allow(clippy::indexing_slicing, clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::CString;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use truechimer_group::{Member, Phase, Point};
use truechimer_group_client::delivery::Page;
use truechimer_group_front::{
    Commands, Committing, Ended, Front, FrontReport, MOST_KEPT, MOST_READERS, Protocol, ReadOnly,
    Ring, RingEvent, Settings, State,
};

/// True for a message that is refused.
type Refuses = Box<dyn FnMut(&[u8]) -> bool + Send>;

/// The group: everybody gets everything, in one order.
struct Hub {
    log: Vec<RingEvent>,
    wakers: Vec<UnixStream>,
    /// Advance of the agreed time with each message, ns.
    step: i64,
    /// Messages that are refused.
    refuses: Refuses,
    /// Refusals are not told yet.
    holds: bool,
    /// The member to which nothing is delivered.
    held_up: Option<Member>,
    /// Number of times that each front has found nothing more.
    turns: BTreeMap<Member, u64>,
    /// A majority is heard of up to there at most.
    commits: u64,
}

impl Default for Hub {
    fn default() -> Hub {
        Hub {
            log: Vec::new(),
            wakers: Vec::new(),
            step: 1_000_003,
            refuses: Box::new(|_| false),
            holds: false,
            held_up: None,
            turns: BTreeMap::new(),
            commits: u64::MAX,
        }
    }
}

struct MemoryRing {
    member: Member,
    hub: Arc<Mutex<Hub>>,
    at: usize,
    token: u64,
    woken: UnixStream,
    refused: VecDeque<u64>,
    /// Majorities have been heard of up to here.
    committed: Arc<AtomicU64>,
    /// Set from outside: what happens to the phase.
    phase: Arc<Mutex<Vec<Phase>>>,
}

impl MemoryRing {
    fn new(member: u32, hub: &Arc<Mutex<Hub>>, phase: &Arc<Mutex<Vec<Phase>>>) -> MemoryRing {
        let (waker, woken) = UnixStream::pair().unwrap();
        waker.set_nonblocking(true).unwrap();
        woken.set_nonblocking(true).unwrap();
        let mut locked = hub.lock().unwrap();
        locked.wakers.push(waker);
        let at = locked.log.len();
        drop(locked);
        MemoryRing {
            member: Member(member),
            hub: Arc::clone(hub),
            at,
            token: 0,
            woken,
            refused: VecDeque::new(),
            committed: Arc::default(),
            phase: Arc::clone(phase),
        }
    }
}

impl Ring for MemoryRing {
    fn member(&self) -> Member {
        self.member
    }

    fn phase(&self) -> Option<Phase> {
        Some(Phase::Live)
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.woken.as_raw_fd())
    }

    fn next(&mut self) -> Result<Option<RingEvent>, String> {
        if let Some(phase) = self.phase.lock().unwrap().pop() {
            return Ok(Some(RingEvent::Phase(phase)));
        }
        let mut buffer = [0; 64];
        while self.woken.read(&mut buffer).is_ok_and(|length| length == 64) {}
        let mut hub = self.hub.lock().unwrap();
        if !hub.holds
            && let Some(token) = self.refused.pop_front()
        {
            return Ok(Some(RingEvent::Refused(token)));
        }
        let event = hub.log.get(self.at).filter(|_| hub.held_up != Some(self.member)).cloned();
        self.at += usize::from(event.is_some());
        *hub.turns.entry(self.member).or_default() += u64::from(event.is_none());
        self.committed.store(hub.commits.min(self.at as u64), Ordering::Release);
        Ok(event)
    }

    fn multicast(&mut self, payload: &[u8]) -> Result<u64, String> {
        self.token += 1;
        let mut hub = self.hub.lock().unwrap();
        if (hub.refuses)(payload) {
            self.refused.push_back(self.token);
            return Ok(self.token);
        }
        let index = hub.log.len() as u64 + 1;
        let time = 1_700_000_000_000_000_000 + index as i64 * hub.step;
        hub.log.push(RingEvent::Delivered {
            from: self.member,
            token: self.token,
            time,
            point: Point { generation: 1, index },
            payload: payload.to_vec(),
        });
        for mut waker in &hub.wakers {
            let _ = waker.write(&[1]);
        }
        Ok(self.token)
    }

    fn commit(&mut self, point: Point) -> Result<Committing, String> {
        let committed = Arc::clone(&self.committed);
        Ok(Box::new(move || (committed.load(Ordering::Acquire) >= point.index).then_some(Ok(()))))
    }

    fn look(&mut self, _: Duration) -> Result<(), String> {
        Ok(())
    }
}

/// A service: `ADD text` keeps it, `LOG` shows what was kept with the times, `TIME` the time, by
/// `odd` ns off. Its own state lies in a file too, for checkpoints. `LATER text` is kept when
/// `RELEASE` comes, in an order that is the replica's own. `ONLY number` is answered by that replica, by a thread that
/// the front knows nothing of, once there is a file `release`.
struct Service {
    address: SocketAddr,
    started: Arc<AtomicBool>,
    /// While it is held the service hangs in its next request.
    gate: Arc<Mutex<()>>,
}

fn service(page: PathBuf, state: PathBuf, odd: i64) -> Service {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let started = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&started);
    let gate = Arc::<Mutex<()>>::default();
    let hangs = Arc::clone(&gate);
    std::thread::spawn(move || {
        let path = CString::new(page.to_str().unwrap()).unwrap();
        let page = loop {
            match Page::open(&path) {
                Ok(page) if flag.load(Ordering::Acquire) => break Arc::new(page),
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        let kept = Arc::new(Mutex::new(fs::read_to_string(&state).unwrap_or_default()));
        // No process has that number: nobody is seen to rest.
        page.attached(i32::MAX as u32);
        loop {
            let (stream, peer) = listener.accept().unwrap();
            page.busy_up();
            page.took_accept(peer.port());
            let (page, kept, state) = (Arc::clone(&page), Arc::clone(&kept), state.clone());
            let gate = Arc::clone(&hangs);
            page.busy_down();
            std::thread::spawn(move || {
                serve(stream, peer.port(), &page, &kept, &state, (odd, &gate))
            });
        }
    });
    Service { address, started, gate }
}

fn serve(
    mut stream: TcpStream,
    port: u16,
    page: &Page,
    kept: &Mutex<String>,
    state: &Path,
    (odd, gate): (i64, &Mutex<()>),
) {
    let mut input = Vec::new();
    let mut buffer = [0; 100];
    loop {
        let length = stream.read(&mut buffer).unwrap_or(0);
        page.busy_up();
        if length == 0 {
            page.took_end(port);
            drop(stream);
            page.took_close(port);
            page.busy_down();
            return;
        }
        page.took(port, length as u64);
        input.extend(&buffer[..length]);
        while let Some(end) = input.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = input.drain(..=end).collect();
            let line = String::from_utf8(line).unwrap();
            drop(gate.lock().unwrap());
            let mut kept = kept.lock().unwrap();
            let time = page.time().unwrap();
            let reply = match line.trim().split_once(' ') {
                Some(("ADD", text)) => {
                    kept.push_str(&format!("{text}@{time};"));
                    fs::write(state, &*kept).unwrap();
                    "kept\n".to_string()
                }
                Some(("LATER", text)) => {
                    kept.push_str(&format!("({text})"));
                    "later\n".to_string()
                }
                Some(("ONLY", number)) => {
                    if state.file_stem().unwrap() == number {
                        let (mut late, file) = (stream.try_clone().unwrap(), release(state));
                        std::thread::spawn(move || {
                            while !file.exists() {
                                std::thread::sleep(Duration::from_millis(1));
                            }
                            late.write_all(b"mine\n").unwrap();
                        });
                    }
                    String::new()
                }
                _ if line.trim() == "RELEASE" => {
                    // By the page's name: another order at each replica.
                    let at = state.file_stem().unwrap().to_str().unwrap().parse().unwrap();
                    let later: String = kept.drain(..).collect();
                    let mut later: Vec<&str> = later.split_inclusive(')').collect();
                    later.rotate_left(at);
                    *kept = later.concat();
                    "released\n".to_string()
                }
                _ if line.trim() == "LOG" => format!("{kept}\n"),
                _ if line.trim() == "QUIT" => {
                    stream.write_all(b"bye\n").unwrap();
                    page.took_close(port);
                    drop(stream);
                    page.busy_down();
                    return;
                }
                _ => format!("{}\n", time + odd),
            };
            stream.write_all(reply.as_bytes()).unwrap();
        }
        page.busy_down();
    }
}

/// The file for which answers wait, beside a service's own.
fn release(state: &Path) -> PathBuf {
    state.with_file_name("release")
}

struct Running {
    address: SocketAddr,
    read_only: Option<SocketAddr>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Ended, String>>,
    said: Arc<Mutex<Vec<String>>>,
    phase: Arc<Mutex<Vec<Phase>>>,
}

struct World {
    dir: PathBuf,
    hub: Arc<Mutex<Hub>>,
}

impl World {
    fn new(name: &str) -> World {
        let name = format!("truechimer-fronts-{}-{name}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).unwrap();
        World { dir, hub: Arc::default() }
    }

    fn page(&self, member: u32) -> PathBuf {
        self.dir.join(format!("{member}.front"))
    }

    fn state(&self, member: u32) -> PathBuf {
        self.dir.join(format!("{member}.state"))
    }

    fn record(&self, member: u32) -> PathBuf {
        self.dir.join(format!("{member}.record"))
    }

    fn settings(&self, member: u32, connect: SocketAddr) -> Settings {
        Settings {
            listen: "127.0.0.1:0".parse().unwrap(),
            connect,
            replicas: 3,
            page: self.page(member),
            clock: true,
            record: Some(self.record(member)),
            tick: Duration::from_millis(20),
            protocol: Protocol::Line,
            commit: true,
            checkpoint_command: Some(format!("cat {}", self.state(member).display())),
            restore_command: None,
            ready_command: None,
            patience: Duration::from_secs(5),
            most_kept: MOST_KEPT,
            event_loop: false,
            read_only: None,
        }
    }

    fn start(
        &self,
        member: u32,
        connect: SocketAddr,
        change: impl FnOnce(&mut Settings),
    ) -> Running {
        let mut settings = self.settings(member, connect);
        change(&mut settings);
        let phase = Arc::default();
        let ring = MemoryRing::new(member, &self.hub, &phase);
        let mut front = Front::new(settings, Box::new(ring)).unwrap();
        let address = front.address().unwrap();
        let read_only = front.read_only_address().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let said = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&said);
        let thread = std::thread::spawn(move || {
            front.run(&flag, &mut |line| {
                eprintln!("{member}: {line}");
                lines.lock().unwrap().push(line.to_string());
            })
        });
        Running { address, read_only, stop, thread, said, phase }
    }

    fn with_service(&self, member: u32, odd: bool) -> Running {
        let _ = fs::remove_file(self.state(member));
        let service = service(self.page(member), self.state(member), odd.into());
        let front = self.start(member, service.address, |_| {});
        service.started.store(true, Ordering::Release);
        front
    }

    fn stop(self, fronts: Vec<Running>) -> Vec<Vec<String>> {
        let mut all = Vec::new();
        for front in fronts {
            front.stop.store(true, Ordering::Relaxed);
            assert_eq!(front.thread.join().unwrap(), Ok(Ended::Stopped));
            all.push(front.said.lock().unwrap().clone());
        }
        fs::remove_dir_all(&self.dir).unwrap();
        all
    }
}

/// A client.
struct Client {
    stream: TcpStream,
    lines: BufReader<TcpStream>,
}

impl Client {
    fn of(front: &Running) -> Client {
        Client::at(front.address)
    }

    /// One that only reads.
    fn reader(front: &Running) -> Client {
        Client::at(front.read_only.unwrap())
    }

    fn at(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(100))).unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap());
        Client { stream, lines }
    }

    /// After how long the front closes the connection, which has got no answer.
    fn closed(mut self) -> Duration {
        let since = Instant::now();
        match self.stream.read(&mut [0]) {
            Ok(0) => {}
            Err(why) if why.kind() == ErrorKind::ConnectionReset => {}
            other => panic!("{other:?} after {:?}", since.elapsed()),
        }
        since.elapsed()
    }

    /// Nothing has come.
    fn has_nothing(&mut self) {
        self.stream.set_nonblocking(true).unwrap();
        let came = self.stream.read(&mut [0]).map_err(|why| why.kind());
        assert_eq!(came, Err(ErrorKind::WouldBlock));
        self.stream.set_nonblocking(false).unwrap();
    }

    fn ask(&mut self, line: &str) -> String {
        self.stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        self.line()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }
}

/// Time beyond its patience that a front on a busy machine may take.
const MARGIN: Duration = Duration::from_secs(20);

/// A record without its last lines, which another replica may not have reached.
fn records(world: &World, members: &[u32], least: usize) -> Vec<String> {
    loop {
        let read = |member: &u32| fs::read_to_string(world.record(*member)).unwrap();
        let all: Vec<String> = members.iter().map(read).collect();
        if all.iter().all(|record| record.lines().count() >= least) {
            return all;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn replicas_give_the_same_answers_at_the_same_times() {
    let world = World::new("same");
    let fronts: Vec<Running> = (1..=3).map(|member| world.with_service(member, false)).collect();
    let askers = fronts.iter().enumerate().map(|(i, front)| {
        let mut client = Client::of(front);
        std::thread::spawn(move || {
            let mut times = Vec::new();
            for round in 0..50 {
                assert_eq!(client.ask(&format!("ADD {i}-{round}")), "kept\n");
                times.push(client.ask("TIME").trim().parse::<i64>().unwrap());
            }
            assert!(times.is_sorted_by(|a, b| a < b));
            // Requests of one write, each with a time of its own.
            client.stream.write_all(b"TIME\nTIME\nTI").unwrap();
            let (one, two) = (client.line(), client.line());
            assert_ne!(one, two);
            client.stream.write_all(b"ME\n").unwrap();
            assert!(client.line() > two);
            assert_eq!(client.ask("QUIT"), "bye\n");
            assert_eq!(client.line(), "", "the program has closed it");
            times
        })
    });
    let all: Vec<Vec<i64>> =
        askers.collect::<Vec<_>>().into_iter().map(|a| a.join().unwrap()).collect();
    let distinct: BTreeSet<i64> = all.iter().flatten().copied().collect();
    assert_eq!(distinct.len(), 150, "each request has its own time");
    let logs: Vec<String> = fronts.iter().map(|front| Client::of(front).ask("LOG")).collect();
    assert!(logs.iter().all(|log| *log == logs[0] && log.matches("kept").count() == 0));
    assert_eq!(logs[0].matches(';').count(), 150);
    let records = records(&world, &[1, 2, 3], 3 * 104 + 3);
    assert!(records.iter().all(|record| *record == records[0]));
    let said = world.stop(fronts);
    assert!(said.iter().flatten().all(|line| !line.contains("differ from")), "{said:?}");
}

/// The service stands for a loop: its connections are marked as the library marks a loop's. What fronts write of
/// requests' numbers, times and replies is the same at all, and so is the time of all that came in one write.
#[test]
fn a_loop_is_given_many_at_once() {
    let world = World::new("loop");
    let start = |member: u32| {
        let _ = fs::remove_file(world.state(member));
        let service = service(world.page(member), world.state(member), 0);
        let front = world.start(member, service.address, |settings| settings.event_loop = true);
        service.started.store(true, Ordering::Release);
        front
    };
    let fronts: Vec<Running> = (1..=3).map(start).collect();
    let pages: Vec<Page> = (1..=3)
        .map(|member| {
            let path = CString::new(world.page(member).to_str().unwrap()).unwrap();
            Page::open(&path).unwrap()
        })
        .collect();
    let mut clients: Vec<Client> = (0..8).map(|_| Client::of(&fronts[0])).collect();
    clients.iter_mut().for_each(|client| drop(client.ask("TIME")));
    for page in &pages {
        (1..=u16::MAX)
            .filter(|port| page.taken(*port).accepted)
            .for_each(|port| page.set_looped(port, true));
    }
    for _ in 0..20 {
        clients.iter_mut().for_each(|client| client.stream.write_all(b"TIME\n").unwrap());
        clients.iter_mut().for_each(|client| assert!(client.line().len() > 2));
    }
    // Of one connection, so one after the other, but at one time.
    clients[0].stream.write_all(b"TIME\nTIME\nTIME\n").unwrap();
    let times = [(); 3].map(|()| clients[0].line());
    assert!(times.iter().all(|time| *time == times[0]), "{times:?}");
    let records = records(&world, &[1, 2, 3], 8 * 21 + 3);
    assert!(records.iter().all(|record| *record == records[0]));
    let said = world.stop(fronts);
    assert!(said.iter().flatten().all(|line| !line.contains("differ from")), "{said:?}");
}

/// Waits until a front has said a line with this in it.
fn until_said(front: &Running, part: &str) {
    while !front.said.lock().unwrap().iter().any(|line| line.contains(part)) {
        assert!(!front.thread.is_finished(), "{part:?}: {:?}", front.said.lock().unwrap());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn unfit(front: Running) -> String {
    match front.thread.join().unwrap() {
        Ok(Ended::Unfit(why)) => why,
        other => panic!("{other:?}: {:?}", front.said.lock().unwrap()),
    }
}

#[test]
fn a_replica_that_differs_is_out_and_its_answers_reach_nobody() {
    let world = World::new("odd");
    let mut fronts: Vec<Running> =
        (1..=3).map(|member| world.with_service(member, member == 2)).collect();
    let mut client = Client::of(&fronts[0]);
    assert_eq!(client.ask("ADD x"), "kept\n");
    // A client of the odd one: what it sends is answered by nobody.
    let mut its = Client::of(&fronts[1]);
    assert_eq!(its.ask("ADD y"), "kept\n", "so far they agree");
    assert_eq!(its.ask("TIME"), "", "cut off without an answer");
    let why = unfit(fronts.remove(1));
    assert!(why.contains("its program's replies differ from those of replica 1, 3"), "{why}");
    let report = FrontReport::read(&world.page(2)).unwrap().unwrap();
    let trouble = report.trouble(false, FrontReport::now_ns()).unwrap();
    assert!(trouble.starts_with("its front has stopped: its program's replies"), "{trouble}");
    for front in &fronts {
        until_said(front, "replica 2 is out: its program's replies differ");
    }
    // The others go on.
    let time = client.ask("TIME").trim().parse::<i64>().unwrap();
    assert_eq!((time - 1_700_000_000_000_000_000) % 1_000_003, 0, "its own is off");
    let standing = |report: &FrontReport| {
        report.peers.iter().find(|peer| peer.member == 2).map(|peer| peer.standing.clone())
    };
    let report = loop {
        let report = FrontReport::read(&world.page(1)).unwrap().unwrap();
        if standing(&report).as_deref() == Some("diverged") {
            break report;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!((report.state, report.following), (State::Answering, 2));
    let pages = [1, 3].map(|member| world.page(member));
    world.stop(fronts);
    assert!(pages.iter().all(|page| FrontReport::read(page).unwrap().is_none()));
}

#[test]
fn without_a_majority_of_like_answers_all_stop() {
    let world = World::new("unlike");
    let fronts: Vec<Running> = (1..=3)
        .map(|member| {
            let service = service(world.page(member), world.state(member), member.into());
            let front = world.start(member, service.address, |_| {});
            service.started.store(true, Ordering::Release);
            front
        })
        .collect();
    let mut client = Client::of(&fronts[0]);
    assert_eq!(client.ask("ADD x"), "kept\n");
    assert_eq!(client.ask("TIME"), "", "no answer is borne out");
    let whys: Vec<String> = fronts.into_iter().map(unfit).collect();
    let all = "no majority of the 3 replicas' programs gives the same replies";
    assert!(whys.iter().filter(|why| why.contains(all)).count() >= 2, "{whys:?}");
    fs::remove_dir_all(&world.dir).unwrap();
}

#[test]
fn where_no_majority_of_programs_follows_nobody_is_answered() {
    let world = World::new("stuck");
    // Few messages bring the group past a patience that is long enough for a client that is early.
    world.hub.lock().unwrap().step = 20_000_000;
    let patience = Duration::from_secs(3);
    let start = |member: u32| {
        let service = service(world.page(member), world.state(member), 0);
        let front = world.start(member, service.address, |settings| {
            settings.patience = patience;
        });
        service.started.store(true, Ordering::Release);
        (front, service.gate)
    };
    let (fronts, gates): (Vec<Running>, Vec<Arc<Mutex<()>>>) = (1..=3).map(start).unzip();
    let mut client = Client::of(&fronts[0]);
    assert_eq!(client.ask("ADD x"), "kept\n");
    // One program hangs: the other two are a majority.
    let third = gates[2].lock().unwrap();
    assert_eq!(client.ask("ADD y"), "kept\n");
    until_report(&world, 1, |report| report.following == 2);
    assert_eq!(client.ask("ADD z"), "kept\n");
    // Two do: all three agents are live, and one program is none.
    let second = gates[1].lock().unwrap();
    assert_eq!(client.ask("ADD lost"), "", "one program's answer is no answer");
    until_said(
        &fronts[0],
        "not answering: 1 of 3 replicas' programs follow; replica 2: its program",
    );
    let report = until_report(&world, 1, |report| report.state == State::Waiting);
    let trouble = report.trouble(true, FrontReport::now_ns()).unwrap();
    for part in ["answers nobody: 1 of 3", "replica 2: its program is stuck", "replica 3: its"] {
        assert!(trouble.contains(part), "{trouble}");
    }
    // Who comes now is not left to hang, whether it sends something or not.
    let (silent, mut speaks) = (Client::of(&fronts[0]), Client::of(&fronts[0]));
    speaks.stream.write_all(b"ADD never\n").unwrap();
    for waited in [silent.closed(), speaks.closed()] {
        assert!(waited < patience + MARGIN, "{waited:?}");
    }
    until_said(&fronts[0], "client(s) sent away: not answering: 1 of 3 replicas' programs");
    // They go on, and catch up: what was not answered was done all the same. Who came shortly
    // before is served.
    let mut early = Client::of(&fronts[0]);
    drop((second, third));
    assert!(early.ask("TIME").trim().parse::<i64>().is_ok());
    until_report(&world, 1, |report| (report.state, report.following) == (State::Answering, 3));
    let log = Client::of(&fronts[0]).ask("LOG");
    assert_eq!(log, Client::of(&fronts[2]).ask("LOG"));
    assert_eq!(log.matches(';').count(), 4, "{log}");
    world.stop(fronts);
}

fn until_report(world: &World, member: u32, fits: impl Fn(&FrontReport) -> bool) -> FrontReport {
    loop {
        if let Ok(Some(report)) = FrontReport::read(&world.page(member))
            && fits(&report)
        {
            return report;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until that front has taken all that came so many times more, and done what it could.
fn until_turns(world: &World, member: u32, many: u64) {
    let turns = || world.hub.lock().unwrap().turns.get(&Member(member)).copied().unwrap_or(0);
    let enough = turns() + many;
    while turns() < enough {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A client asks and ends its side; its request and then the word of its end are refused. The connection is closed at
/// every replica all the same.
#[test]
fn a_refused_end_is_said_again() {
    /// Kind of a message, in its fourth byte: the end of a connection.
    const CLOSE: u8 = 11;
    let world = World::new("refused");
    let fronts: Vec<Running> = (1..=3).map(|member| world.with_service(member, false)).collect();
    let mut client = Client::of(&fronts[0]);
    assert_eq!(client.ask("ADD kept"), "kept\n");
    // Refused are one request, and the first end after it.
    let mut refused = 0;
    let mut hub = world.hub.lock().unwrap();
    hub.refuses = Box::new(move |payload| {
        let asks = payload.windows(7).any(|part| part == b"refused");
        let refuses = asks || (refused == 1 && payload.get(3) == Some(&CLOSE));
        refused += usize::from(refuses);
        refuses
    });
    hub.holds = true;
    drop(hub);
    client.stream.write_all(b"ADD refused\n").unwrap();
    client.stream.shutdown(Shutdown::Write).unwrap();
    // The front is to see the end while the request is under way.
    until_turns(&world, 1, 4);
    world.hub.lock().unwrap().holds = false;
    assert_eq!(client.line(), "", "cut off without an answer");
    // An opening, a request and an end.
    for member in 1..=3 {
        until_report(&world, member, |report| (report.count, report.done) == (3, 3));
    }
    assert_eq!(Client::of(&fronts[1]).ask("LOG").matches(';').count(), 1);
    world.stop(fronts);
}

/// The program of one replica hangs: what its front's clients ask goes into the order all the same.
#[test]
fn who_lags_still_asks() {
    for event_loop in [false, true] {
        let world = World::new(&format!("lags-{event_loop}"));
        let start = |member: u32| {
            let _ = fs::remove_file(world.state(member));
            let service = service(world.page(member), world.state(member), 0);
            let change = |settings: &mut Settings| settings.event_loop = event_loop;
            let front = world.start(member, service.address, change);
            service.started.store(true, Ordering::Release);
            (front, service.gate)
        };
        let (fronts, gates): (Vec<Running>, Vec<Arc<Mutex<()>>>) = (1..=3).map(start).unzip();
        let mut lags = Client::of(&fronts[2]);
        assert_eq!(lags.ask("ADD first"), "kept\n");
        let gate = gates[2].lock().unwrap();
        let mut client = Client::of(&fronts[0]);
        assert_eq!(client.ask("ADD second"), "kept\n");
        for text in ["one", "two"] {
            lags.stream.write_all(format!("ADD {text}\n").as_bytes()).unwrap();
            let there = (0..5000).any(|_| client.ask("LOG").contains(text));
            assert!(there, "{text} with {event_loop}");
        }
        drop(gate);
        assert_eq!((lags.line(), lags.line()), ("kept\n".into(), "kept\n".into()));
        world.stop(fronts);
    }
}

/// A program whose answers depend on which of two connections a thread of its own serves first.
#[test]
fn answers_that_depend_on_the_interleaving_stop_the_group() {
    let world = World::new("interleaving");
    let fronts: Vec<Running> = (1..=3)
        .map(|member| {
            let service = service(world.page(member), world.state(member), 0);
            let front = world.start(member, service.address, |_| {});
            service.started.store(true, Ordering::Release);
            front
        })
        .collect();
    let mut clients: Vec<Client> = fronts.iter().map(Client::of).collect();
    // Held back until the next request, and then kept by a thread that the front knows nothing of,
    // in an order of each replica's own.
    for (at, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.ask(&format!("LATER {at}")), "later\n");
    }
    assert_eq!(clients[0].ask("RELEASE"), "released\n");
    let answer = clients[0].ask("LOG");
    assert_eq!(answer, "", "no two replicas have the same log");
    fronts.into_iter().for_each(|front| drop(unfit(front)));
    fs::remove_dir_all(&world.dir).unwrap();
}

/// Two of three replicas are left, and each goes on with another client's request when all of them have been dealt with:
/// nothing more comes, and no answer is a majority's.
#[test]
fn answers_that_one_gives_late_and_another_never_leave_nobody_to_hang() {
    let world = World::new("late");
    world.hub.lock().unwrap().step = 20_000_000;
    let start = |member: u32| {
        let service = service(world.page(member), world.state(member), 0);
        let front = world.start(member, service.address, |settings| {
            settings.patience = Duration::from_secs(1);
        });
        service.started.store(true, Ordering::Release);
        front
    };
    let mut fronts: Vec<Running> = (1..=3).map(start).collect();
    fronts.iter().for_each(|front| until_said(front, "answering: 3 of 3"));
    let second = fronts.remove(1);
    second.stop.store(true, Ordering::Relaxed);
    assert_eq!(second.thread.join().unwrap(), Ok(Ended::Stopped));
    let mut clients: Vec<Client> = fronts.iter().map(Client::of).collect();
    for (client, number) in clients.iter_mut().zip([1, 3]) {
        client.stream.write_all(format!("ONLY {number}\n").as_bytes()).unwrap();
    }
    for member in [1, 3] {
        until_report(&world, member, |report| (report.count, report.done) == (4, 4));
    }
    fs::write(release(&world.state(1)), "").unwrap();
    for client in clients {
        client.closed();
    }
    let all = "no majority of the 3 replicas' programs gives the same replies";
    for why in fronts.into_iter().map(unfit) {
        assert!(why.contains(all), "{why}");
    }
    fs::remove_dir_all(&world.dir).unwrap();
}

#[test]
fn one_that_dies_is_replaced_with_the_state() {
    replaced(false);
}

#[test]
fn a_loop_that_dies_is_replaced_with_the_state() {
    replaced(true);
}

fn replaced(event_loop: bool) {
    let world = World::new(&format!("join-{event_loop}"));
    let start = |member: u32| {
        let _ = fs::remove_file(world.state(member));
        let service = service(world.page(member), world.state(member), 0);
        let change = |settings: &mut Settings| settings.event_loop = event_loop;
        let front = world.start(member, service.address, change);
        service.started.store(true, Ordering::Release);
        front
    };
    let mut fronts: Vec<Running> = (1..=3).map(start).collect();
    let mut clients: Vec<Client> = fronts.iter().map(Client::of).collect();
    for (i, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.ask(&format!("ADD first-{i}")), "kept\n");
    }
    let second = fronts.remove(1);
    second.stop.store(true, Ordering::Relaxed);
    assert_eq!(second.thread.join().unwrap(), Ok(Ended::Stopped));
    assert_eq!(clients[1].line(), "", "its clients are cut off");
    assert_eq!(clients[0].ask("ADD second"), "kept\n", "two of three go on");

    // One without a way to restore is not let in.
    let other = service(world.page(2), world.state(2), 0);
    let refused = world.start(2, other.address, |settings| settings.event_loop = event_loop);
    other.started.store(true, Ordering::Release);
    let ended = refused.thread.join().unwrap();
    assert!(matches!(ended, Ok(Ended::Unfit(why)) if why.contains("--restore-command")));

    let _ = fs::remove_file(world.state(2));
    let new = service(world.page(2), world.state(2), 0);
    let command = format!("cat > {0}.new && mv {0}.new {0}", world.state(2).display());
    let second = world.start(2, new.address, |settings| {
        settings.restore_command = Some(command);
        settings.event_loop = event_loop;
    });
    let state = world.state(2);
    while !state.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    // As if the command had started it.
    new.started.store(true, Ordering::Release);
    assert_eq!(clients[0].line(), "", "a join cuts all clients off");
    let mut client = Client::of(&fronts[0]);
    assert_eq!(client.ask("ADD third"), "kept\n");
    let log = Client::of(&second).ask("LOG");
    assert_eq!(log, client.ask("LOG"));
    assert_eq!(log.matches(';').count(), 5, "{log}");
    // Its program has been given less of what clients ask at once than the others', if anything, and goes on as they do.
    let mut clients: Vec<Client> = [&fronts[0], &second].map(Client::of).into();
    for round in 0..20 {
        for (at, client) in clients.iter_mut().enumerate() {
            client.stream.write_all(format!("ADD {at}-{round}\nTIME\n").as_bytes()).unwrap();
        }
        for client in &mut clients {
            assert_eq!((client.line(), client.line().len()), ("kept\n".into(), 20));
        }
    }
    let log = clients[1].ask("LOG");
    assert_eq!(log, clients[0].ask("LOG"));
    assert_eq!(log.matches(';').count(), 45, "{log}");
    fronts.push(second);
    world.stop(fronts);
}

#[test]
fn outside_the_majority_nobody_is_answered() {
    let world = World::new("outside");
    let fronts: Vec<Running> = (1..=3).map(|member| world.with_service(member, false)).collect();
    let mut client = Client::of(&fronts[2]);
    assert_eq!(client.ask("ADD a"), "kept\n");
    // Taken from the end: it is out, then back, and has missed nothing.
    *fronts[2].phase.lock().unwrap() = vec![Phase::Live, Phase::Outside];
    assert_eq!(client.line(), "", "cut off");
    let mut client = Client::of(&fronts[2]);
    assert_eq!(client.ask("ADD b"), "kept\n", "back");
    assert_eq!(client.ask("LOG"), Client::of(&fronts[0]).ask("LOG"));
    // It is out for longer: who comes then is not left to hang.
    fronts[2].phase.lock().unwrap().push(Phase::Outside);
    assert_eq!(client.line(), "", "cut off");
    let waited = Client::of(&fronts[2]).closed();
    assert!(waited < Duration::from_secs(5) + MARGIN, "{waited:?}");
    until_said(&fronts[2], "1 client(s) sent away: this member is outside the majority");
    world.stop(fronts);
}

/// Clients that ask and do not read use up no memory without end: the slowest are sent away, and
/// others go on.
#[test]
fn who_reads_nothing_is_sent_away_before_the_memory_is_full() {
    let world = World::new("unread");
    let start = |member| {
        let _ = fs::remove_file(world.state(member));
        let service = service(world.page(member), world.state(member), 0);
        let front = world.start(member, service.address, |settings| settings.most_kept = 1 << 20);
        service.started.store(true, Ordering::Release);
        front
    };
    let fronts: Vec<Running> = (1..=3).map(start).collect();
    let mut reader = Client::of(&fronts[0]);
    assert_eq!(reader.ask(&format!("ADD {}", "x".repeat(60_000))), "kept\n");
    let mut idle = Client::of(&fronts[0]);
    // Some MB of the replies wait in the kernel.
    let mut gone = false;
    while !gone {
        let asked = idle.stream.write_all(&b"LOG\n".repeat(20));
        assert_eq!(reader.ask("LOG").matches('x').count(), 60_000);
        gone = asked.is_err() || fronts[0].said.lock().unwrap().iter().any(|s| s.contains("away"));
    }
    until_said(&fronts[0], "1 client(s) sent away, the slowest first");
    until_said(&fronts[0], "took more than 1.0 MiB");
    assert_eq!(reader.ask("ADD y"), "kept\n");
    world.stop(fronts);
}

impl World {
    /// A front of a loop with clients that only read.
    fn with_readers(&self, member: u32, odd: bool, age: Duration) -> Running {
        self.with_such_readers(member, odd, |_, how| how.age = age).0
    }

    /// A front of that kind with other settings, and its program's gate.
    fn with_such_readers(
        &self,
        member: u32,
        odd: bool,
        change: impl FnOnce(&mut Settings, &mut ReadOnly),
    ) -> (Running, Arc<Mutex<()>>) {
        let _ = fs::remove_file(self.state(member));
        let service = service(self.page(member), self.state(member), odd.into());
        let front = self.start(member, service.address, |settings| {
            let listen = "127.0.0.1:0".parse().unwrap();
            let most = MOST_READERS;
            let mut how = ReadOnly { listen, age: SECOND, commands: None, most };
            settings.event_loop = true;
            change(settings, &mut how);
            settings.read_only = Some(how);
        });
        service.started.store(true, Ordering::Release);
        (front, service.gate)
    }
}

/// A second, far longer than anything here takes but for a machine that stands still.
const SECOND: Duration = Duration::from_secs(1);

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(100_000);

fn number(line: &str) -> i64 {
    line.trim().parse().unwrap_or_else(|_| panic!("{line:?}"))
}

/// Each read has the time of a place in the order, and the state there; of it nothing is in the order.
#[test]
fn who_only_reads_is_answered_beside_the_order() {
    let world = World::new("readers");
    let fronts: Vec<Running> =
        (1..=3).map(|member| world.with_readers(member, false, SECOND)).collect();
    let mut writer = Client::of(&fronts[0]);
    assert_eq!(writer.ask("ADD first"), "kept\n");
    let mut own = Client::reader(&fronts[0]);
    let readers: Vec<_> = fronts
        .iter()
        .map(|front| {
            let mut reader = Client::reader(front);
            std::thread::spawn(move || {
                let (mut last, mut seen) = (0, 0);
                for _ in 0..200 {
                    let time = number(&reader.ask("TIME"));
                    assert!(time >= last, "{time} after {last}");
                    let log = reader.ask("LOG");
                    let kept = log.trim().split_terminator(';');
                    let times: Vec<i64> =
                        kept.map(|one| number(one.split_once('@').unwrap().1)).collect();
                    assert!(times.is_sorted() && times.len() >= seen, "{log}");
                    (last, seen) = (times.last().copied().unwrap_or(0).max(time), times.len());
                }
                reader
            })
        })
        .collect();
    for round in 0..50 {
        assert_eq!(writer.ask(&format!("ADD {round}")), "kept\n");
        // Who is answered by a front finds that at the same front.
        assert!(own.ask("LOG").contains(&format!("{round}@")), "{round}");
    }
    let mut readers: Vec<Client> = readers.into_iter().map(|one| one.join().unwrap()).collect();
    // An opening and 51 requests; no opening, request or end of a reader.
    for member in 1..=3 {
        let report = until_report(&world, member, |report| {
            (report.count, report.done) == (52, 52) && report.reads >= 400
        });
        assert!(report.time_ns.is_some() && report.different == 0, "{report:?}");
    }
    // Its end is the program's business alone, and so is one that the program ends.
    assert_eq!(readers[1].ask("QUIT"), "bye\n");
    assert_eq!(readers[1].line(), "", "the program has closed it");
    drop(readers);
    assert_eq!(writer.ask("ADD last"), "kept\n");
    let records = records(&world, &[1, 2, 3], 52);
    assert!(records.iter().all(|record| *record == records[0] && record.lines().count() == 52));
    world.stop(fronts);
}

/// With an age of nothing each read finds all that was answered before, at whatever front. Where nothing comes it waits.
#[test]
fn no_read_is_older_than_the_age() {
    let world = World::new("age");
    let fronts: Vec<Running> =
        (1..=3).map(|member| world.with_readers(member, false, Duration::ZERO)).collect();
    let mut writers: Vec<Client> = fronts.iter().map(Client::of).collect();
    writers.iter_mut().for_each(|writer| assert!(number(&writer.ask("TIME")) > 0));
    let mut readers: Vec<Client> = fronts.iter().map(Client::reader).collect();
    for round in 0..30 {
        assert_eq!(writers[round % 3].ask(&format!("ADD {round}")), "kept\n");
        let reader = &mut readers[(round + 1) % 3];
        assert!(reader.ask("LOG").contains(&format!("{round}@")), "{round}");
    }
    world.hub.lock().unwrap().held_up = Some(Member(3));
    assert_eq!(writers[0].ask("ADD newer"), "kept\n");
    readers[2].stream.write_all(b"LOG\n").unwrap();
    until_turns(&world, 3, 4);
    readers[2].has_nothing();
    world.hub.lock().unwrap().held_up = None;
    assert!(readers[2].line().contains("newer@"));
    world.stop(fronts);
}

/// A state may be as old as the age, and no older: a front that hears nothing answers from what it has for so long.
#[test]
fn a_state_that_has_grown_too_old_answers_nobody() {
    let world = World::new("readers-old");
    let age = Duration::from_millis(200);
    let fronts: Vec<Running> = [LONG, LONG, age]
        .iter()
        .zip(1..)
        .map(|(age, member)| world.with_readers(member, false, *age))
        .collect();
    let mut writer = Client::of(&fronts[0]);
    assert_eq!(writer.ask("ADD x"), "kept\n");
    let mut readers: Vec<Client> = fronts[1..].iter().map(Client::reader).collect();
    // Their replicas may have it later than the first, and may answer before.
    for reader in &mut readers {
        let found = (0..100_000).find(|_| reader.ask("LOG").contains("x@"));
        assert!(found.is_some(), "the replica has it at last");
    }
    world.hub.lock().unwrap().held_up = Some(Member(2));
    assert_eq!(writer.ask("ADD y"), "kept\n");
    let log = readers[0].ask("LOG");
    assert!(log.contains("x@") && !log.contains("y@"), "{log}");
    world.hub.lock().unwrap().held_up = Some(Member(3));
    // One that is behind by more than it may be asks for news.
    std::thread::sleep(2 * age);
    readers[1].stream.write_all(b"LOG\n").unwrap();
    until_turns(&world, 3, 4);
    readers[1].has_nothing();
    assert_eq!(writer.ask("ADD z"), "kept\n");
    world.hub.lock().unwrap().held_up = None;
    assert!(readers[1].line().contains("y@"));
    world.stop(fronts);
}

#[test]
fn there_are_so_many_readers_and_no_more() {
    let world = World::new("readers-many");
    let start = |member| world.with_such_readers(member, false, |_, how| how.most = 2).0;
    let fronts: Vec<Running> = (1..=3).map(start).collect();
    assert_eq!(Client::of(&fronts[0]).ask("ADD x"), "kept\n");
    let mut readers = [(); 2].map(|()| Client::reader(&fronts[0]));
    readers.iter_mut().for_each(|reader| assert!(reader.ask("LOG").contains("x@")));
    Client::reader(&fronts[0]).closed();
    until_said(&fronts[0], "clients that only read are sent away (--read-only): there are 2");
    let [mut one, other] = readers;
    assert!(one.ask("LOG").contains("x@"), "the others stay");
    drop(other);
    let again = || {
        let mut again = Client::reader(&fronts[0]);
        let mut line = String::new();
        let asked = again.stream.write_all(b"LOG\n");
        asked.and_then(|()| again.lines.read_line(&mut line)).is_ok() && line.contains("x@")
    };
    while !again() {}
    world.stop(fronts);
}

/// Room for what is kept for all clients together is not there twice.
#[test]
fn readers_have_the_memory_that_the_others_leave() {
    let world = World::new("readers-memory");
    let start = |member| {
        let change = |settings: &mut Settings, _: &mut ReadOnly| settings.most_kept = 1 << 20;
        world.with_such_readers(member, false, change).0
    };
    let fronts: Vec<Running> = (1..=3).map(start).collect();
    // Lines that have no end yet, nearly so much in all.
    let begun = [b'x'; 64_000];
    let mut others = [(); 16].map(|()| Client::of(&fronts[0]));
    others.iter_mut().for_each(|other| assert!(number(&other.ask("TIME")) > 0));
    others.iter_mut().for_each(|other| other.stream.write_all(&begun).unwrap());
    let mut reader = Client::reader(&fronts[0]);
    assert!(number(&reader.ask("TIME")) > 0);
    reader.stream.write_all(&begun).unwrap();
    reader.closed();
    until_said(&fronts[0], "1 client(s) sent away, the slowest first");
    others.iter_mut().for_each(|other| assert!(number(&other.ask("")) > 0));
    world.stop(fronts);
}

/// Readers that do not read, and answers for which no majority speaks, use up no memory without end.
#[test]
fn answers_to_readers_that_cannot_go_are_kept_up_to_a_limit() {
    let world = World::new("readers-unread");
    let start = |member| {
        let change = |settings: &mut Settings, _: &mut ReadOnly| {
            settings.most_kept = if member == 1 { 1 << 20 } else { MOST_KEPT };
        };
        world.with_such_readers(member, false, change).0
    };
    let fronts: Vec<Running> = (1..=3).map(start).collect();
    let mut writer = Client::of(&fronts[0]);
    assert_eq!(writer.ask(&format!("ADD {}", "x".repeat(60_000))), "kept\n");
    let (mut reader, mut idle) = (Client::reader(&fronts[0]), Client::reader(&fronts[0]));
    let mut gone = false;
    while !gone {
        let asked = idle.stream.write_all(&b"LOG\n".repeat(20));
        assert_eq!(reader.ask("LOG").matches('x').count(), 60_000);
        gone = asked.is_err() || fronts[0].said.lock().unwrap().iter().any(|s| s.contains("away"));
    }
    until_said(&fronts[0], "1 client(s) sent away, the slowest first");
    assert_eq!(writer.ask("ADD y"), "kept\n");
    let mut waits = Client::reader(&fronts[1]);
    assert_eq!(waits.ask("LOG").matches('x').count(), 60_000);
    world.hub.lock().unwrap().commits = 0;
    writer.stream.write_all(b"ADD z\n").unwrap();
    let log = loop {
        let kept = fs::read_to_string(world.state(2)).unwrap();
        if kept.contains("z@") {
            break kept + "\n";
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let most = 1 + ((16 << 20) / log.len() + 1) as u64;
    waits.stream.write_all(&b"LOG\n".repeat(1000)).unwrap();
    until_report(&world, 2, |report| report.reads >= most);
    until_turns(&world, 2, 50);
    let after = FrontReport::now_ns();
    assert_eq!(until_report(&world, 2, |report| report.at_ns > after).reads, most);
    world.hub.lock().unwrap().commits = u64::MAX;
    (0..1000).for_each(|_| assert!(waits.line() == log));
    assert_eq!(writer.line(), "kept\n");
    world.stop(fronts);
}

/// The message that makes the state new enough comes after the last thing that the program was given, and brings it
/// nothing: the answer depends on it all the same.
#[test]
fn no_read_is_answered_before_a_majority_has_what_makes_it_new() {
    let world = World::new("readers-commit");
    let start = |member| {
        // Nothing but words of what was done.
        let change = |settings: &mut Settings, how: &mut ReadOnly| {
            (settings.tick, how.age) = (LONG, LONG);
        };
        world.with_such_readers(member, false, change).0
    };
    let fronts: Vec<Running> = (1..=3).map(start).collect();
    // It stays: the end of its connection would be something to do.
    let mut writer = Client::of(&fronts[0]);
    assert_eq!(writer.ask("ADD x"), "kept\n");
    let is_word = |event: &RingEvent| matches!(event, RingEvent::Delivered { from: Member(3), .. });
    let is_request = |event: &RingEvent| match event {
        RingEvent::Delivered { payload, .. } => payload.windows(5).any(|part| part == b"ADD x"),
        _ => false,
    };
    loop {
        let mut hub = world.hub.lock().unwrap();
        let request = hub.log.iter().position(is_request).unwrap();
        if hub.log[request..].iter().any(is_word) {
            hub.commits = request as u64 + 1;
            break;
        }
        drop(hub);
        std::thread::sleep(Duration::from_millis(1));
    }
    until_turns(&world, 3, 2);
    let mut reader = Client::reader(&fronts[2]);
    // The second one is given when the first one is done.
    reader.stream.write_all(b"LOG\nLOG\n").unwrap();
    until_report(&world, 3, |report| report.reads == 2);
    until_turns(&world, 3, 2);
    reader.has_nothing();
    world.hub.lock().unwrap().commits = u64::MAX;
    assert!(reader.line().contains("x@"));
    world.stop(fronts);
}

/// A program hangs, maybe at what a reader asks: those who wait are cut off while it does.
#[test]
fn readers_of_a_program_that_hangs_are_cut_off() {
    let world = World::new("readers-hang");
    world.hub.lock().unwrap().step = 20_000_000;
    let start =
        |member| world.with_such_readers(member, false, |settings, _| settings.patience = SECOND);
    let (fronts, gates): (Vec<Running>, Vec<Arc<Mutex<()>>>) = (1..=3).map(start).unzip();
    let mut writer = Client::of(&fronts[0]);
    assert_eq!(writer.ask("ADD x"), "kept\n");
    let mut readers = [(); 2].map(|()| Client::reader(&fronts[2]));
    readers.iter_mut().for_each(|reader| assert!(reader.ask("LOG").contains("x@")));
    let gate = gates[2].lock().unwrap();
    for reader in &mut readers {
        reader.stream.write_all(b"LOG\n").unwrap();
    }
    assert_eq!(writer.ask("ADD y"), "kept\n");
    readers.iter_mut().for_each(|reader| assert_eq!(reader.line(), "", "cut off"));
    until_report(&world, 3, |report| report.state == State::Waiting);
    drop(gate);
    until_report(&world, 3, |report| (report.state, report.following) == (State::Answering, 3));
    assert!(Client::reader(&fronts[2]).ask("LOG").contains("y@"));
    world.stop(fronts);
}

#[test]
fn a_replica_that_is_out_answers_no_reader() {
    let world = World::new("readers-out");
    let mut fronts: Vec<Running> =
        (1..=3).map(|member| world.with_readers(member, member == 2, SECOND)).collect();
    let mut client = Client::of(&fronts[0]);
    assert_eq!(client.ask("ADD x"), "kept\n");
    // Outside the majority.
    let mut reader = Client::reader(&fronts[2]);
    assert!(reader.ask("LOG").contains("x@"));
    fronts[2].phase.lock().unwrap().push(Phase::Outside);
    assert_eq!(reader.line(), "", "cut off");
    Client::reader(&fronts[2]).closed();
    fronts[2].phase.lock().unwrap().push(Phase::Live);
    assert!(Client::of(&fronts[2]).ask("LOG").contains("x@"), "back");
    assert!(Client::reader(&fronts[2]).ask("LOG").contains("x@"));
    // The second one gives other answers.
    let mut odd = Client::reader(&fronts[1]);
    assert!(odd.ask("LOG").contains("x@"));
    assert!(client.ask("TIME").trim().parse::<i64>().is_ok());
    let why = unfit(fronts.remove(1));
    assert!(why.contains("its program's replies differ"), "{why}");
    assert_eq!(odd.line(), "", "cut off");
    world.stop(fronts);
}

/// A request that is not among the commands ends the connection, after the answers to what came before. So does a program that is
/// no loop.
#[test]
fn what_may_not_be_asked_beside_the_order_is_refused() {
    let world = World::new("readers-refused");
    let start = |member: u32| {
        world.with_such_readers(member, false, |settings, how| {
            settings.protocol = Protocol::Resp;
            how.commands = Some("LOG".parse::<Commands>().unwrap());
        })
    };
    let (fronts, gates): (Vec<Running>, Vec<Arc<Mutex<()>>>) = (1..=3).map(start).unzip();
    assert_eq!(Client::of(&fronts[0]).ask("ADD x"), "kept\n");
    let log = "*1\r\n$3\r\nLOG\r\n";
    for wrong in ["*2\r\n$3\r\nADD\r\n$1\r\ny\r\n", "ADD y\r\n", "*1\r\n$999999\r\n"] {
        let mut reader = Client::reader(&fronts[0]);
        let _ = reader.stream.write_all(format!("{log}{wrong}{log}").as_bytes());
        reader.stream.shutdown(Shutdown::Write).unwrap();
        // The service answers each line.
        let lines = [(); 3].map(|()| reader.line());
        assert!(lines[2].starts_with("x@"), "{lines:?}");
        assert!(reader.line().starts_with("-ERR "), "{wrong:?}");
        assert_eq!(reader.line(), "");
    }
    // What comes after that is dropped, also where the answers take long.
    let gate = gates[0].lock().unwrap();
    let mut reader = Client::reader(&fronts[0]);
    for _ in 0..3 {
        reader.stream.write_all(format!("{log}ADD y\r\n").as_bytes()).unwrap();
        until_turns(&world, 1, 6);
    }
    drop(gate);
    assert!([(); 3].map(|()| reader.line())[2].starts_with("x@"));
    assert!(reader.line().starts_with("-ERR "));
    assert_eq!(reader.line(), "");
    assert!(!Client::of(&fronts[1]).ask("LOG").contains('y'));
    let mut reader = Client::reader(&fronts[0]);
    reader.stream.write_all(log.as_bytes()).unwrap();
    assert!([(); 3].map(|()| reader.line())[2].starts_with("x@"));
    let path = CString::new(world.page(1).to_str().unwrap()).unwrap();
    let page = Page::open(&path).unwrap();
    assert!(page.loops(1) && !page.loops(2));
    while !reader.line().is_empty() {}
    until_said(&fronts[0], "are sent away (--read-only): several of its threads");
    Client::reader(&fronts[0]).closed();
    assert!(Client::of(&fronts[0]).ask("LOG").contains("x@"), "all else goes on");
    world.stop(fronts);
}

/// Connections to it would not be seen.
#[test]
fn a_program_elsewhere_is_refused() {
    let world = World::new("elsewhere");
    let new = |connect: &str| {
        let ring = MemoryRing::new(1, &world.hub, &Arc::default());
        let front = Front::new(world.settings(1, connect.parse().unwrap()), Box::new(ring));
        front.map(drop)
    };
    for connect in ["192.0.2.1:7000", "[2001:db8::1]:7000", "[::ffff:192.0.2.1]:7000"] {
        let why = new(connect).unwrap_err();
        assert!(why.contains("--connect") && why.contains(connect), "{why}");
    }
    for connect in ["127.0.0.2:7000", "[::1]:7000", "0.0.0.0:7000", "[::ffff:127.0.0.1]:7000"] {
        new(connect).unwrap();
    }
}
