//! A program that does nothing but read the group's clock, in one or several threads, and keeps
//! what it got and when.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use truechimer_group_client::{Call, Replica, Thread, Where};
use truechimer_outcome::outcome::Failure;
use truechimer_outcome::program;
use truechimer_sim::Random;

use crate::bench::group::args::At;
use crate::bench::group::moment::{raw, realtime};
use crate::bench::group::serve::{attach, write};

/// The kernel wakes a sleeper this much late, ns: taken off each pause.
const SLACK_NS: u64 = 55_000;
/// Readings that are kept, of each thread: the first.
const MOST_KEPT: usize = 1 << 20;
/// Time that it waits for its start.
const PATIENCE: Duration = Duration::from_secs(300);

/// Orders of the program.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Orders {
    #[command(flatten)]
    at: At,
    /// Where the figures go
    #[arg(long)]
    out: PathBuf,
    /// Read only when this file is there
    #[arg(long)]
    start: Option<PathBuf>,
    /// The number of the first logical thread
    #[arg(long)]
    first: u64,
    /// Number of threads
    #[arg(long)]
    threads: u64,
    /// Number of rounds in each
    #[arg(long)]
    rounds: u64,
    /// Pauses between readings, at least and at most, µs
    #[arg(long)]
    least_us: u64,
    #[arg(long)]
    most_us: u64,
    /// Where random numbers begin
    #[arg(long)]
    seed: u64,
}

/// Load of programs on a group.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// The number of the first logical thread.
    pub first: u64,
    /// Number of threads.
    pub threads: u64,
    /// Rounds in each.
    pub rounds: u64,
    /// Pauses between readings, at least and at most, µs.
    pub pause_us: (u64, u64),
    /// Where random numbers begin.
    pub seed: u64,
    /// The file that gives the start.
    pub start: Option<PathBuf>,
}

impl Load {
    /// The arguments that say this.
    #[must_use]
    pub fn arguments(&self, place: &Where, out: &std::path::Path) -> Vec<String> {
        let mut all = At::arguments("load", place);
        all.extend([
            format!("--out={}", out.display()),
            format!("--first={}", self.first),
            format!("--threads={}", self.threads),
            format!("--rounds={}", self.rounds),
            format!("--least-us={}", self.pause_us.0),
            format!("--most-us={}", self.pause_us.1),
            format!("--seed={}", self.seed),
        ]);
        all.extend(self.start.iter().map(|path| format!("--start={}", path.display())));
        all
    }
}

/// One reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Time that it took, ns.
    pub took: u64,
    /// The host's CLOCK_MONOTONIC_RAW when it was there, ns.
    pub raw: i64,
    /// CLOCK_REALTIME at this node then, ns since 1970; it may be warped.
    pub real: i64,
    /// The group's time, ns since 1970.
    pub time: i64,
    /// Member whose proposal it was.
    pub synchronizer: u32,
}

/// Figures of a program.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Done {
    /// Time that all of it took, s.
    pub seconds: f64,
    /// The readings of each thread.
    pub threads: Vec<Vec<Sample>>,
}

/// Runs it.
///
/// # Errors
/// Where the group fails.
pub fn run(orders: &Orders) -> Result<(), Failure> {
    let replica = attach(&orders.at.place())?;
    let end = Instant::now() + PATIENCE;
    while orders.start.as_ref().is_some_and(|start| !start.exists()) {
        if Instant::now() > end {
            return Err(Failure("nobody gave the start".to_owned()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let began = Instant::now();
    let threads: Result<Vec<_>, Failure> = std::thread::scope(|scope| {
        let start = |n| {
            let replica = &replica;
            scope.spawn(move || thread(replica, orders, n))
        };
        let all: Vec<_> = (0..orders.threads).map(start).collect();
        all.into_iter().map(program::joined).collect()
    });
    let done = Done { seconds: began.elapsed().as_secs_f64(), threads: threads? };
    write(&orders.out, &done)
}

fn thread(replica: &Replica, orders: &Orders, n: u64) -> Result<Vec<Sample>, Failure> {
    let clock = replica.thread(Thread(orders.first + n));
    let mut random = Random::new(orders.seed, &format!("pauses {} {n}", orders.at.member));
    // Before the first round, so that it costs nothing later.
    let mut samples = Vec::with_capacity(orders.rounds.min(MOST_KEPT as u64) as usize);
    for _ in 0..orders.rounds {
        if orders.most_us > 0 {
            let range = (orders.most_us - orders.least_us.min(orders.most_us)) as f64 * 1e3;
            let pause = orders.least_us * 1000 + (random.uniform() * range) as u64;
            std::thread::sleep(Duration::from_nanos(pause.saturating_sub(SLACK_NS)));
        }
        let began = Instant::now();
        let value = clock
            .now(Call::Group, None)
            .map_err(|error| Failure(format!("reading the group's clock: {error:?}")))?;
        let (raw, real) = (raw(), realtime());
        if samples.len() == MOST_KEPT {
            continue;
        }
        samples.push(Sample {
            took: (began.elapsed().as_nanos() as u64),
            raw,
            real,
            time: value.time.0,
            synchronizer: value.synchronizer.0,
        });
    }
    Ok(samples)
}
