//! The program at each member that reads all the time, in several threads, sends and takes ordered
//! messages, commits what it has seen, and keeps a record of everything.
//!
//! It does as a user's program should: when its member has been outside the primary component, it
//! has missed part of the group's stream, and ends, to be started anew. Before it does, it goes on
//! asking for a moment: it must get nothing.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use truechimer_group_client::link::{Outside, ReadError, Together};
use truechimer_group_client::{
    Call, Event, NextError, Options, Phase, Point, Rejection, Replica, Thread, ThreadClock,
};
use truechimer_outcome::outcome::Failure;

use super::record::{Cause, Record, What};
use crate::bench::group::args::At;
use crate::bench::group::moment::{monotonic, realtime};

/// The first of the threads.
pub const FIRST_THREAD: u64 = 100;
/// Time for which it goes on asking once it is outside.
const LAST_TRIES: Duration = Duration::from_millis(40);
/// A thread whose value is older than this does not pause before the next: it catches up.
const BEHIND_NS: i64 = 50_000_000;
/// Time that a new program waits for its agent.
const AGENT_PATIENCE: Duration = Duration::from_secs(30);
/// Pause before each commit.
const COMMIT_EVERY: Duration = Duration::from_millis(10);
/// Time that a commit may take.
const COMMIT_PATIENCE: Duration = Duration::from_secs(10);

/// Orders of the program.
#[derive(clap::Args, Clone, Debug)]
pub struct Orders {
    #[command(flatten)]
    at: At,
    /// The how-manieth program of that member
    #[arg(long)]
    life: u32,
    /// Where the records go
    #[arg(long)]
    records: PathBuf,
    /// Number of threads that read
    #[arg(long)]
    threads: u64,
    /// Pause of each between two readings, µs
    #[arg(long)]
    pause_us: u64,
    /// Pause of the sender between two messages, µs
    #[arg(long)]
    message_us: u64,
}

/// State that all threads share.
struct Witness {
    replica: Replica,
    orders: Orders,
    file: Mutex<(File, Option<Phase>)>,
    /// Flag: it is outside, and will end.
    ending: AtomicBool,
    /// Flag: it was live.
    was_live: AtomicBool,
    /// The latest place that it saw.
    latest: Mutex<Point>,
    /// When something was recorded last.
    recorded: AtomicI64,
}

/// Reason why the program ends: its exit status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// The member was outside.
    Outside = 3,
    /// The agent is gone.
    Gone = 4,
    /// Nothing can be written.
    File = 5,
    /// The agent does something that it must not.
    Agent = 6,
}

fn end(why: End, text: &str) -> ! {
    eprintln!("ends: {why:?} {text}");
    std::process::exit(why as i32)
}

/// Runs until the member goes outside or the agent is gone; then the process ends.
///
/// # Errors
/// Where it cannot attach, or not write its records.
pub fn run(orders: &Orders) -> Result<(), Failure> {
    let file = File::create_new(&orders.records)
        .map_err(|error| Failure::of(orders.records.display(), error))?;
    let options = Options {
        outside: Outside::Fail,
        together: Together::Count(1),
        wait_for_agent: Some(AGENT_PATIENCE),
        ..Options::default()
    };
    let replica = Replica::attach_with(&orders.at.place(), &options)
        .map_err(|error| Failure::of("attaching to the agent", error))?;
    replica.restarted().map_err(|error| Failure::of("starting", error))?;
    let witness = Witness {
        replica,
        orders: orders.clone(),
        file: Mutex::new((file, None)),
        ending: AtomicBool::new(false),
        was_live: AtomicBool::new(false),
        latest: Mutex::new(Point::default()),
        recorded: AtomicI64::new(monotonic()),
    };
    std::thread::scope(|scope| {
        scope.spawn(|| witness.events());
        while !witness.was_live.load(Ordering::Acquire) {
            witness.see_phase();
            std::thread::sleep(Duration::from_millis(1));
        }
        for n in 0..orders.threads {
            let witness = &witness;
            scope.spawn(move || witness.read(Thread(FIRST_THREAD + n)));
        }
        scope.spawn(|| witness.read_present());
        scope.spawn(|| witness.send());
        scope.spawn(|| witness.commit());
    });
    Ok(())
}

impl Witness {
    fn write(&self, began: i64, what: What) {
        self.see_phase();
        let Ok(mut kept) = self.file.lock() else { end(End::File, "the lock is broken") };
        // Within the lock, so that the moments of a file are in order.
        let done = monotonic();
        put(&mut kept.0, &Record { began, done, what });
        self.recorded.store(done, Ordering::Relaxed);
    }

    /// Records the phase if it has changed: before anything that came after that.
    fn see_phase(&self) {
        let Ok(mut kept) = self.file.lock() else { end(End::File, "the lock is broken") };
        let phase = self.replica.phase();
        if phase == kept.1 {
            return;
        }
        kept.1 = phase;
        let Some(phase) = phase else { return };
        let now = monotonic();
        put(&mut kept.0, &Record { began: now, done: now, what: What::Phase(phase) });
        match phase {
            Phase::Live => self.was_live.store(true, Ordering::Release),
            _ if self.was_live.load(Ordering::Acquire) => {
                self.ending.store(true, Ordering::Release);
            }
            _ => {}
        }
    }

    fn events(&self) {
        let mut outside_since = None;
        loop {
            let began = monotonic();
            match self.replica.next(Some(Duration::from_millis(5))) {
                Ok(Some(Event::Delivered(message))) => {
                    let content = message.payload.first_chunk().map(|b| u64::from_le_bytes(*b));
                    let Some(content) = content else {
                        end(End::Agent, "a message that nobody sent")
                    };
                    self.saw(message.time.point);
                    self.write(
                        began,
                        What::Message { from: message.from, content, value: message.time },
                    );
                }
                Ok(Some(Event::Phase(phase))) => self.write(began, What::Turn(phase)),
                Ok(Some(_) | None) => self.see_phase(),
                // It was outside, whether the phase shows that any more or not.
                Err(NextError::Missed) => {
                    self.ending.store(true, Ordering::Release);
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) => end(End::Gone, &error.to_string()),
            }
            if self.ending.load(Ordering::Acquire) {
                let since = *outside_since.get_or_insert(std::time::Instant::now());
                if since.elapsed() > LAST_TRIES {
                    end(End::Outside, "");
                }
            }
        }
    }

    fn saw(&self, point: Point) {
        if let Ok(mut latest) = self.latest.lock() {
            *latest = point.max(*latest);
        }
    }

    fn read(&self, thread: Thread) {
        let clock: ThreadClock = self.replica.thread(thread);
        loop {
            // Back in the group, but not with this program.
            while self.ending.load(Ordering::Acquire)
                && self.replica.phase() != Some(Phase::Outside)
            {
                std::thread::sleep(LAST_TRIES);
            }
            let began = monotonic();
            match clock.now(Call::Group, None) {
                Ok(value) => {
                    let round = clock.rounds().0.wrapping_sub(1);
                    self.saw(value.point);
                    self.write(began, What::Value { thread: thread.0, round, value });
                    if realtime() - value.time.0 > BEHIND_NS {
                        continue;
                    }
                }
                Err(error) => {
                    let cause = match error {
                        ReadError::Rejected(
                            Rejection::Behind
                            | Rejection::Busy
                            | Rejection::TooManyThreads
                            | Rejection::Full
                            | Rejection::Observer,
                        ) => Cause::Other,
                        // It is outside, or has been.
                        ReadError::Rejected(_) => Cause::Outside,
                        ReadError::Gone => Cause::Gone,
                        ReadError::Late => Cause::Late,
                        _ => Cause::Other,
                    };
                    self.write(began, What::Refused { thread: thread.0, cause });
                    match cause {
                        Cause::Gone => end(End::Gone, "while reading"),
                        Cause::Other => end(End::Agent, &format!("{error:?}")),
                        // It was outside, whether the phase shows that any more or not.
                        _ => self.ending.store(true, Ordering::Release),
                    }
                }
            }
            std::thread::sleep(Duration::from_micros(self.orders.pause_us));
        }
    }

    /// Reads the time at present, of which nothing is missed, to the end.
    fn read_present(&self) {
        let Ok(place) = u8::try_from(self.orders.at.member.saturating_sub(1)) else { return };
        let clock: ThreadClock = self.replica.thread(Thread::now(place, 0));
        loop {
            let began = monotonic();
            match clock.now(Call::Group, None) {
                Ok(value) => self.write(began, What::Present { value }),
                Err(ReadError::Gone) => end(End::Gone, "while reading"),
                // It is outside.
                Err(_) => {}
            }
            std::thread::sleep(Duration::from_micros(self.orders.pause_us));
        }
    }

    fn send(&self) {
        let mut count = 0_u64;
        loop {
            let content = u64::from(self.orders.life) << 32 | count;
            count += 1;
            match self.replica.multicast(&content.to_le_bytes()) {
                Ok(_) => {}
                Err(_) if self.ending.load(Ordering::Acquire) => {}
                Err(error) => end(End::Gone, &error.to_string()),
            }
            std::thread::sleep(Duration::from_micros(self.orders.message_us));
        }
    }

    fn commit(&self) {
        loop {
            std::thread::sleep(COMMIT_EVERY);
            let Ok(point) = self.latest.lock().map(|latest| *latest) else { return };
            let began = monotonic();
            if self.replica.commit(point, Some(COMMIT_PATIENCE)).is_ok() {
                self.write(began, What::Committed { point });
            }
        }
    }
}

fn put(file: &mut File, record: &Record) {
    if let Err(error) = file.write_all(&record.encode()) {
        end(End::File, &error.to_string());
    }
}
