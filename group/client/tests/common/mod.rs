//! An agent without a group: it answers by itself, as the only member would.
#![allow(dead_code, clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use truechimer_group_client::agent::{Door, LinkId, News, Request, Settings, Ticket};
use truechimer_group_client::link::{Answer, Outside};
use truechimer_group_client::{
    Agreed, Bound, GroupTime, Member, Phase, Point, Rejection, Round, Thread, Where,
};

/// A directory of the test's own, removed with it.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tc-link-{}-{next}", std::process::id()));
        // Another test may have no umask just now, for a socket that others may use.
        std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
            .create(&path)
            .unwrap();
        Scratch(path)
    }

    pub fn at(&self) -> Where {
        Where { directory: Some(self.0.clone()), group: "g".into(), member: None }
    }

    pub fn settings(&self) -> Settings {
        Settings::new(self.0.clone(), "g", Member(3))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The value that the mock agrees on as the `n`-th.
pub fn value(n: i64) -> Agreed {
    Agreed {
        time: GroupTime(1_700_000_000_000_000_000 + n * 1_000_000),
        utc: (n % 2 == 0).then_some(Bound { earliest: n, latest: n + 10 }),
        synchronizer: Member(2),
        point: Point { generation: 1, index: n as u64 },
    }
}

pub const LEASE: i64 = 5;

/// Manners of the mock; may be changed while it runs.
#[derive(Default)]
pub struct Manners {
    /// True if it answers no reads.
    pub silent: AtomicBool,
    /// True if it loses what is to be committed.
    pub loses: AtomicBool,
    /// True while it stands still, as one that is stopped.
    pub stands: AtomicBool,
}

/// Orders of the test to it.
pub enum Order {
    Phase(Phase),
    Send(News),
    /// The program has missed something.
    Miss,
    CutOff,
}

/// An agent in a thread.
pub struct Mock {
    pub manners: Arc<Manners>,
    pub requests: Arc<Mutex<Vec<Request>>>,
    orders: Sender<Order>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    pub path: PathBuf,
}

impl Mock {
    pub fn start(settings: Settings) -> Mock {
        Mock::of(Door::open(settings).unwrap())
    }

    pub fn of(door: Door) -> Mock {
        let (manners, requests) = (Arc::<Manners>::default(), Arc::default());
        let (orders, theirs) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let path = door.path().to_owned();
        let thread = {
            let (manners, requests, stop) = (manners.clone(), Arc::clone(&requests), stop.clone());
            std::thread::spawn(move || Engine::new(door, manners, requests, theirs).run(&stop))
        };
        Mock { manners, requests, orders, stop, thread: Some(thread), path }
    }

    pub fn order(&self, order: Order) {
        self.orders.send(order).unwrap();
    }

    /// Waits until it has been asked something.
    pub fn wait_for(&self, what: impl Fn(&Request) -> bool) -> Request {
        eventually(|| self.requests.lock().unwrap().iter().find(|r| what(r)).cloned())
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Waits for something that must come; long, as machines may be slow.
pub fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "it never comes");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Parts that there are of a group.
pub struct Engine {
    door: Door,
    manners: Arc<Manners>,
    seen: Arc<Mutex<Vec<Request>>>,
    orders: Receiver<Order>,
    phase: Phase,
    next: i64,
    rounds: BTreeMap<Thread, u64>,
    waiting: BTreeMap<Ticket, (Thread, Outside)>,
}

impl Engine {
    pub fn new(
        mut door: Door,
        manners: Arc<Manners>,
        seen: Arc<Mutex<Vec<Request>>>,
        orders: Receiver<Order>,
    ) -> Engine {
        door.phase(Phase::Live);
        let (rounds, waiting) = (BTreeMap::new(), BTreeMap::new());
        Engine { door, manners, seen, orders, phase: Phase::Live, next: 1, rounds, waiting }
    }

    pub fn run(mut self, stop: &AtomicBool) {
        let (mut polled, mut requests) = (Vec::new(), Vec::new());
        while !stop.load(Ordering::Relaxed) {
            if self.manners.stands.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            self.door.work(&polled, &mut requests);
            for request in requests.drain(..) {
                self.handle(&request);
                let mut seen = self.seen.lock().unwrap();
                if seen.len() < 10_000 {
                    seen.push(request);
                }
            }
            while let Ok(order) = self.orders.try_recv() {
                self.obey(order);
            }
            if !self.manners.silent.load(Ordering::Relaxed) {
                self.answer();
            }
            polled.clear();
            self.door.descriptors(&mut polled);
            if self.door.sleep() {
                let most = if self.waiting.is_empty() { 20 } else { 1 };
                let patience = self.door.patience().map_or(most, |p| p.as_millis() as i32);
                poll(&mut polled, patience.min(most));
            } else {
                polled.clear();
            }
            self.door.wake();
        }
    }

    fn obey(&mut self, order: Order) {
        let program = self.door.program().or_else(|| self.door.readers().next());
        match (order, program) {
            (Order::Phase(phase), _) => {
                self.phase = phase;
                self.door.phase(phase);
            }
            (Order::Send(news), Some(link)) => {
                self.door.send(link, &news);
            }
            (Order::Miss, Some(link)) => {
                let gap = self.door.miss();
                self.door.send(link, &News::Missed { gap });
            }
            (Order::CutOff, Some(link)) => self.door.cut_off(link, "the test says so"),
            (_, None) => {}
        }
    }

    fn answer(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        for (ticket, (thread, outside)) in waiting {
            match (self.door.missed(), outside) {
                (Some(_), Outside::Resume) => self.door.settle(),
                (Some(_), _) => {
                    self.door.complete(ticket, Err(Rejection::Missed));
                    continue;
                }
                (None, _) => {}
            }
            if self.phase != Phase::Live {
                match outside {
                    Outside::Fail => {
                        self.door.complete(ticket, Err(Rejection::Outside));
                    }
                    Outside::Wait | Outside::Resume => {
                        self.waiting.insert(ticket, (thread, outside));
                    }
                }
                continue;
            }
            let round = self.rounds.entry(thread).or_default();
            let answer = Answer { value: value(self.next), round: Round(*round) };
            (*round, self.next) = (*round + 1, self.next + 1);
            self.door.complete(ticket, Ok(answer));
        }
    }

    fn handle(&mut self, request: &Request) {
        match request {
            Request::Read { ticket, thread, outside, .. } => {
                self.waiting.insert(*ticket, (*thread, *outside));
            }
            Request::Abandon { ticket, .. } => {
                self.waiting.remove(ticket);
            }
            Request::Multicast { link, token, payload } => {
                self.deliver(*link, *token, payload, None);
            }
            Request::SendTo { link, token, payload, stamp, .. } => {
                self.deliver(*link, *token, payload, Some(*stamp));
            }
            Request::Commit { link, token, .. } => {
                let missed = self.door.missed().is_some();
                let news = match missed || self.manners.loses.load(Ordering::Relaxed) {
                    false => News::Committed { token: *token },
                    true => News::Uncommitted { token: *token, missed },
                };
                self.door.send(*link, &news);
            }
            Request::Restarted { gap, .. } | Request::Installed { gap, .. }
                if self.door.missed() == Some(*gap) =>
            {
                self.door.settle();
            }
            Request::Status { link } => {
                let news = News::Status(r#"{"mock":true}"#.into());
                self.door.send(*link, &news);
            }
            _ => {}
        }
    }

    fn deliver(&mut self, link: LinkId, token: u64, payload: &[u8], stamp: Option<i64>) {
        let time = value(self.next);
        self.next += 1;
        let (payload, lease_end) = (payload.to_vec(), time.time.0 + LEASE);
        let news = News::Deliver { from: Member(3), token, payload, time, lease_end, stamp };
        self.door.send(link, &news);
    }
}

pub fn poll(polled: &mut [libc::pollfd], ms: i32) {
    // SAFETY: the slice is as long as it says.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, ms) };
}

pub fn socket_of(at: &Where) -> PathBuf {
    at.socket().unwrap()
}

pub fn exists(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}
