//! A program at one node that gets its time in several ways, in turn.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use truechimer_group_client::{Call, Replica, Thread, ThreadClock, Where};
use truechimer_outcome::outcome::Failure;
use truechimer_sim::Random;

use crate::bench::group::args::At;
use crate::bench::group::bare::Bare;
use crate::bench::group::serve::{attach, write};
use crate::bench::group::sizes::etcd::{self, Etcd};
use crate::bench::group::sizes::oracle;

/// Turns before those that count.
pub const WARM_UP: u64 = 100;
/// Key of the timestamps in etcd ("t" in base64), and a value of 20 bytes.
const KEY: &str = "dA==";
const VALUE: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODk=";

/// Way to a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Nothing but a message of Corosync's and back.
    Bare,
    /// A round of the group's clock.
    Round,
    /// A write in etcd's log.
    Write,
    /// A read of the node's own etcd, which asks nobody.
    Local,
    /// The oracle at another node.
    Oracle,
}

impl Kind {
    /// Those that take nothing but the ring.
    pub const GROUP: [Kind; 2] = [Kind::Bare, Kind::Round];
    /// All of them, in their turn.
    pub const ALL: [Kind; 5] = [Kind::Bare, Kind::Round, Kind::Write, Kind::Local, Kind::Oracle];

    /// Name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Bare => "bare round trip",
            Kind::Round => "group's clock, one round",
            Kind::Write => "etcd, a write",
            Kind::Local => "etcd, a read without Raft",
            Kind::Oracle => "oracle at another node",
        }
    }
}

/// Orders of the program.
#[derive(clap::Args, Clone, Debug)]
pub struct Orders {
    #[command(flatten)]
    at: At,
    /// Where the figures go
    #[arg(long)]
    out: PathBuf,
    /// Ways, in their turn
    #[arg(long, value_enum, value_delimiter = ',')]
    kinds: Vec<Kind>,
    /// Turns of each
    #[arg(long)]
    count: u64,
    /// Number of nodes
    #[arg(long)]
    nodes: u32,
    /// Pauses before each, at most, µs
    #[arg(long)]
    most_us: u64,
    /// The logical thread
    #[arg(long)]
    thread: u64,
    /// Node of the oracle
    #[arg(long)]
    oracle: u32,
}

/// Orders of the program, to be written as arguments.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Ways, in their turn.
    pub kinds: &'a [Kind],
    /// Turns of each.
    pub count: u64,
    /// Number of nodes.
    pub nodes: u32,
    /// Pauses before each, at most, µs.
    pub most_us: u64,
    /// The logical thread.
    pub thread: u64,
    /// Node of the oracle.
    pub oracle: u32,
}

impl Wanted<'_> {
    /// The arguments that say this.
    #[must_use]
    pub fn arguments(&self, place: &Where, out: &Path) -> Vec<String> {
        let kinds: Vec<String> = self
            .kinds
            .iter()
            .filter_map(|kind| Some(kind.to_possible_value()?.get_name().to_owned()))
            .collect();
        let mut all = At::arguments("turns", place);
        all.extend([
            format!("--out={}", out.display()),
            format!("--kinds={}", kinds.join(",")),
            format!("--count={}", self.count),
            format!("--nodes={}", self.nodes),
            format!("--most-us={}", self.most_us),
            format!("--thread={}", self.thread),
            format!("--oracle={}", self.oracle),
        ]);
        all
    }
}

/// Measurements of one way.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Taken {
    /// Which.
    pub kind: Kind,
    /// Time that each took, ns.
    pub ns: Vec<u64>,
    /// Times that were not after the one before.
    pub back: u64,
}

/// A way that is open.
enum Way {
    Bare(Bare),
    Round(ThreadClock),
    Write(Etcd),
    Local(Etcd),
    Oracle(oracle::Client),
}

impl Way {
    fn open(kind: Kind, orders: &Orders, replica: &Replica) -> Result<Way, Failure> {
        Ok(match kind {
            Kind::Bare => {
                let mut bare = Bare::join()?;
                bare.wait_for(orders.nodes as usize)?;
                Way::Bare(bare)
            }
            Kind::Round => Way::Round(replica.thread(Thread(orders.thread))),
            Kind::Write => Way::Write(Etcd::connect(orders.at.member)?),
            Kind::Local => Way::Local(Etcd::connect(orders.at.member)?),
            Kind::Oracle => Way::Oracle(oracle::Client::connect(orders.oracle)?),
        })
    }

    /// A time; none where what is measured has none.
    fn time(&mut self) -> Result<Option<i64>, Failure> {
        Ok(match self {
            Way::Bare(bare) => bare.round_trip().map(|_| None)?,
            Way::Round(clock) => {
                let value = clock.now(Call::Group, None);
                let failed = |why| Failure(format!("reading the group's clock: {why:?}"));
                Some(value.map_err(failed)?.time.0)
            }
            Way::Write(etcd) => Some(etcd.put(KEY, VALUE)?),
            Way::Local(etcd) => etcd.get(KEY, true).map(|_| None)?,
            Way::Oracle(client) => Some(client.time()?),
        })
    }
}

/// Runs it.
///
/// # Errors
/// Where the group fails, or what it is compared with.
pub fn run(orders: &Orders) -> Result<(), Failure> {
    let replica = attach(&orders.at.place())?;
    if orders.kinds.contains(&Kind::Write) {
        // The best place for a leader: the client's own node.
        etcd::lead(orders.at.member, orders.nodes)?;
    }
    let mut ways = Vec::new();
    for kind in &orders.kinds {
        let taken = Taken { kind: *kind, ns: Vec::new(), back: 0 };
        ways.push((Way::open(*kind, orders, &replica)?, taken, i64::MIN));
    }
    let mut random = Random::new(1, "pauses in turns");
    for count in 0..orders.count + WARM_UP {
        for (way, taken, last) in &mut ways {
            if orders.most_us > 0 {
                let pause = random.uniform() * orders.most_us as f64;
                std::thread::sleep(Duration::from_nanos((pause * 1e3) as u64));
            }
            let began = Instant::now();
            let time = way.time()?;
            let took = began.elapsed().as_nanos() as u64;
            if let Some(time) = time {
                taken.back += u64::from(time <= *last);
                *last = time;
            }
            if count >= WARM_UP {
                taken.ns.push(took);
            }
        }
    }
    let all: Vec<Taken> = ways.into_iter().map(|(_, taken, _)| taken).collect();
    write(&orders.out, &all)
}
