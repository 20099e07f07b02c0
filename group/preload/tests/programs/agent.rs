//! Agents for tests: the real doors, and behind them a group whose members agree at once, with a
//! clock that is an hour ahead and goes by what is asked of it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use truechimer_group_client::agent::{Door, Request, Settings, Ticket};
use truechimer_group_client::link::{Answer, Outside};
use truechimer_group_client::{
    Agreed, Call, GroupTime, Member, Phase, Point, Rejection, Round, Thread,
};

/// Lead of the group's clock over the host's, s.
pub const AHEAD: i64 = 3600;

/// Agreement of all members.
#[derive(Default)]
pub struct Agreement {
    decided: HashMap<(Thread, Round), (i64, Call)>,
    last: i64,
    /// Calls that were not what the round was agreed for.
    pub diverged: Vec<(Thread, Round)>,
}

impl Agreement {
    fn value(&mut self, thread: Thread, round: Round, call: Call) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let proposal = now.as_nanos() as i64 + AHEAD * 1_000_000_000;
        let next = proposal.max(self.last + 1);
        let (value, agreed) = *self.decided.entry((thread, round)).or_insert((next, call));
        if agreed != call {
            self.diverged.push((thread, round));
        }
        self.last = self.last.max(value);
        value
    }

    /// Number of rounds that have been agreed on.
    pub fn rounds(&self) -> usize {
        self.decided.len()
    }

    /// The threads that have read, with how many rounds each.
    pub fn threads(&self) -> HashMap<Thread, u64> {
        self.decided.keys().fold(HashMap::new(), |mut threads, (thread, _)| {
            *threads.entry(*thread).or_default() += 1;
            threads
        })
    }
}

/// Things that one member's agent is told, and tells.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// No read is answered while this is set.
    hold: AtomicBool,
    outside: AtomicBool,
    /// True until the agent takes in that its program has missed something.
    miss: AtomicBool,
    missed: AtomicBool,
    waiting: AtomicU64,
    readers: AtomicU64,
}

/// One member's agent, in a thread of the test.
pub struct Agent {
    pub socket: PathBuf,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The agreement of these members; poisoned by nobody's fault.
pub fn lock(agreement: &Mutex<Agreement>) -> MutexGuard<'_, Agreement> {
    agreement.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Agent {
    pub fn start(directory: PathBuf, member: u32, agreement: Arc<Mutex<Agreement>>) -> Agent {
        let mut settings = Settings::new(directory, "test", Member(member));
        settings.links = 256;
        settings.place = member as u8 - 1;
        let door = Door::open(settings).expect("a door");
        let socket = door.path().to_owned();
        let shared = Arc::new(Shared::default());
        let ours = Arc::clone(&shared);
        let thread = std::thread::spawn(move || serve(door, member, &ours, &agreement));
        Agent { socket, shared, thread: Some(thread) }
    }

    /// From now on reads wait (or no longer).
    pub fn hold(&self, hold: bool) {
        self.shared.hold.store(hold, Ordering::SeqCst);
    }

    /// From now on the member is outside the primary component (or no longer).
    pub fn outside(&self, outside: bool) {
        self.shared.outside.store(outside, Ordering::SeqCst);
    }

    /// The member's program has missed something.
    pub fn miss(&self) {
        self.shared.miss.store(true, Ordering::SeqCst);
    }

    /// True if the program is taken to have missed something.
    pub fn has_missed(&self) -> bool {
        self.shared.missed.load(Ordering::SeqCst)
    }

    /// Reads that wait for an answer.
    pub fn waiting(&self) -> u64 {
        self.shared.waiting.load(Ordering::SeqCst)
    }

    /// Processes that are attached.
    pub fn readers(&self) -> u64 {
        self.shared.readers.load(Ordering::SeqCst)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(mut door: Door, member: u32, shared: &Shared, agreement: &Mutex<Agreement>) {
    let mut read: HashMap<Thread, u64> = HashMap::new();
    let mut waiting: Vec<(Ticket, Thread, Call, Outside)> = Vec::new();
    let (mut polled, mut requests) = (Vec::new(), Vec::new());
    let mut phase = Phase::Outside;
    while !shared.stop.load(Ordering::SeqCst) {
        let outside = shared.outside.load(Ordering::SeqCst);
        let now = if outside { Phase::Outside } else { Phase::Live };
        if now != phase {
            phase = now;
            door.phase(phase);
        }
        if shared.miss.swap(false, Ordering::SeqCst) {
            door.miss();
        }
        door.work(&polled, &mut requests);
        for request in requests.drain(..) {
            match request {
                Request::Read { ticket, thread, call, outside } => {
                    waiting.push((ticket, thread, call, outside));
                }
                Request::Abandon { ticket, .. } => waiting.retain(|(one, ..)| *one != ticket),
                // A new program begins anew.
                Request::Attached { new: true, .. } => read.clear(),
                _ => {}
            }
        }
        if !shared.hold.load(Ordering::SeqCst) {
            waiting.retain(|&(ticket, thread, call, on_outside)| {
                match (door.missed(), on_outside) {
                    (Some(_), Outside::Resume) => door.settle(),
                    (Some(_), _) => {
                        door.complete(ticket, Err(Rejection::Missed));
                        return false;
                    }
                    (None, _) => {}
                }
                if outside {
                    if on_outside == Outside::Fail {
                        door.complete(ticket, Err(Rejection::Outside));
                    }
                    return on_outside != Outside::Fail;
                }
                let next = read.entry(thread).or_default();
                let round = Round(*next);
                *next += 1;
                let time = GroupTime(lock(agreement).value(thread, round, call));
                let synchronizer = Member(member);
                let point = Point { generation: 1, index: 0 };
                let value = Agreed { time, utc: None, synchronizer, point };
                door.complete(ticket, Ok(Answer { value, round }));
                false
            });
        }
        shared.missed.store(door.missed().is_some(), Ordering::SeqCst);
        shared.waiting.store(waiting.len() as u64, Ordering::SeqCst);
        shared.readers.store(door.readers().count() as u64, Ordering::SeqCst);
        polled.clear();
        door.descriptors(&mut polled);
        if door.sleep() {
            let most = door.patience().unwrap_or(Duration::MAX).min(Duration::from_millis(5));
            // SAFETY: the descriptors are the vector's own memory.
            unsafe {
                libc::poll(polled.as_mut_ptr(), polled.len() as _, most.as_millis().max(1) as i32)
            };
        }
        door.wake();
    }
}
