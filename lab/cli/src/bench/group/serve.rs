//! The replicated server, its client on a node that only observes, and what they measured.
//!
//! The client sends requests into the group's order, one at a time; each replica processes it in
//! one of several [`Way`]s, which come in turn, and answers in the same order. The client takes the
//! first answer; the others must say the same.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use truechimer_files::{Durable, Entry};
use truechimer_group_client::link::{Outside, Together};
use truechimer_group_client::{
    Call, Delivered, Event, Options, Phase, Replica, Thread, ThreadClock, Where,
};
use truechimer_outcome::outcome::Failure;
use truechimer_sim::Random;

use crate::bench::group::args::At;
use crate::bench::group::bare::Bare;
use crate::bench::group::bed::MEMBERS;
use crate::bench::group::moment::realtime;

/// Requests before those that count.
const WARM_UP: u64 = 100;
/// Time that anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The logical thread that processes requests.
const WORKER: Thread = Thread(200);
/// The logical thread of a program that is alone.
const ALONE: Thread = Thread(201);
/// Readings of one lease.
pub const LEASED: usize = 9;

/// Way in which a replica gets the time for its answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Way {
    /// Not at all.
    None,
    /// By a round of the group's clock.
    Round,
    /// By the proposal that rode on the request.
    Riding,
    /// Riding on the request, and nine more times.
    Lease,
    /// By the host's clock, each its own.
    System,
    /// Not at all; but node 1 sends a bare message, and none answers before it has that.
    Bare,
}

impl Way {
    /// All of them, in their turn.
    pub const ALL: [Way; 6] =
        [Way::None, Way::Round, Way::Riding, Way::Lease, Way::System, Way::Bare];

    /// Name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Way::None => "no clock",
            Way::Round => "one-round read",
            Way::Riding => "riding read",
            Way::Lease => "riding read and 9 leased ones",
            Way::System => "system clock",
            Way::Bare => "bare message of node 1 instead",
        }
    }

    fn of(number: u8) -> Option<Way> {
        Way::ALL.get(usize::from(number)).copied()
    }
}

/// Measurements of one way.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Which.
    pub way: Way,
    /// At the client: from sending to the first answer. At a replica: getting the time. ns.
    pub ns: Vec<u64>,
    /// At a replica: the first reading alone, of those that make several, ns.
    pub further: Vec<u64>,
    /// At the client: requests to which all replicas gave the same answer.
    pub same: u64,
}

/// Orders for server or client.
#[derive(clap::Args, Clone, Debug)]
pub struct Orders {
    #[command(flatten)]
    at: At,
    /// Where the figures go
    #[arg(long)]
    out: PathBuf,
    /// Number of requests of each way (the client's)
    #[arg(long, default_value_t = 0)]
    count: u64,
    /// Number of nodes that take part in bare round trips
    #[arg(long, default_value_t = 1)]
    nodes: u32,
    /// Pauses before each operation of a program that is alone, at most, µs
    #[arg(long, default_value_t = 0)]
    most_us: u64,
}

impl Orders {
    /// The arguments that say this.
    #[must_use]
    pub fn arguments(what: &str, place: &Where, out: &Path, count: u64, nodes: u32) -> Vec<String> {
        let mut all = At::arguments(what, place);
        all.extend([
            format!("--out={}", out.display()),
            format!("--count={count}"),
            format!("--nodes={nodes}"),
        ]);
        all
    }

    fn attach(&self) -> Result<Replica, Failure> {
        attach(&self.at.place())
    }

    fn bare(&self) -> Result<Bare, Failure> {
        let mut bare = Bare::join()?;
        bare.wait_for(self.nodes as usize)?;
        Ok(bare)
    }

    fn write(&self, measured: &[Measured]) -> Result<(), Failure> {
        write(&self.out, measured)
    }
}

/// Writes figures so that a reader sees all or nothing.
pub(crate) fn write<T: Serialize + ?Sized>(path: &Path, figures: &T) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::of(path.display(), error);
    let text = serde_json::to_string(figures).map_err(|error| failed(&error))?;
    let replaced = Entry::at(path).and_then(|entry| {
        let mut new = entry.replace(0o644)?;
        new.write_all(text.as_bytes())?;
        new.commit(Durable::No)
    });
    replaced.map_err(|error| failed(&error))
}

/// Reads what a program has written.
pub(crate) fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::of(path.display(), error);
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    serde_json::from_str(&text).map_err(|error| failed(&error))
}

/// Attaches as a program without state of its own, and waits until the member is live.
pub(crate) fn attach(place: &Where) -> Result<Replica, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::of("attaching to the agent", error);
    // Whoever is there by the first reading has the same rounds: nobody need wait for the others.
    let options = Options {
        outside: Outside::Wait,
        together: Together::Count(1),
        wait_for_agent: Some(PATIENCE),
        ..Options::default()
    };
    let replica = Replica::attach_with(place, &options).map_err(|error| failed(&error))?;
    replica.restarted().map_err(|error| failed(&error))?;
    let end = Instant::now() + PATIENCE;
    while replica.phase() != Some(Phase::Live) {
        if Instant::now() > end {
            let phase = replica.phase();
            return Err(Failure(format!("the member is not live in a minute, but {phase:?}")));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(replica)
}

fn request(way: Way, count: u64) -> Vec<u8> {
    [&[1, way as u8][..], &count.to_le_bytes()].concat()
}

/// A request or answer: kind, way, count, and the answer's time.
fn parse(payload: &[u8]) -> Option<(u8, Way, u64, Option<i64>)> {
    let (head, rest) = payload.split_at_checked(2)?;
    let way = Way::of(*head.get(1)?)?;
    let (count, rest) = rest.split_first_chunk()?;
    let value = rest.first_chunk().map(|bytes| i64::from_le_bytes(*bytes));
    Some((*head.first()?, way, u64::from_le_bytes(*count), value))
}

/// The replica's side: until the client says that it is done.
///
/// # Errors
/// Where the group fails.
pub fn server(orders: &Orders) -> Result<(), Failure> {
    let replica = orders.attach()?;
    let mut worker = Worker {
        clock: replica.thread(WORKER),
        bare: orders.bare()?,
        first: orders.at.member == 1,
        measured: Way::ALL.map(|way| Measured {
            way,
            ns: Vec::new(),
            further: Vec::new(),
            same: 0,
        }),
    };
    loop {
        let event = replica.next(None).map_err(|error| Failure::of("the agent", error))?;
        let Some(Event::Delivered(mut message)) = event else { continue };
        match parse(&message.payload) {
            Some((1, way, count, _)) => {
                let value = worker.process(way, count, &mut message)?;
                let mut answer = request(way, count);
                if let Some(kind) = answer.first_mut() {
                    *kind = 2;
                }
                answer.extend_from_slice(&value.to_le_bytes());
                replica.multicast(&answer).map_err(|error| Failure::of("answering", error))?;
            }
            Some((3, ..)) => return orders.write(&worker.measured),
            _ => {}
        }
    }
}

/// A program that is alone at its node with its agent: readings by a round and bare round trips in
/// turn, nothing else going on. Before each a random pause, where one was asked for: without it an
/// operation begins when the one before has ended, so always at the same place of the token's way
/// round, and how long it waits for the token is no matter of chance.
///
/// # Errors
/// Where the group fails.
pub fn alone(orders: &Orders) -> Result<(), Failure> {
    let replica = orders.attach()?;
    let clock = replica.thread(ALONE);
    let mut bare = orders.bare()?;
    let mut measured = [Way::Round, Way::Bare].map(|way| Measured {
        way,
        ns: Vec::new(),
        further: Vec::new(),
        same: 0,
    });
    let mut random = Random::new(1, "pauses alone");
    for count in 0..orders.count + WARM_UP {
        for measured in &mut measured {
            if orders.most_us > 0 {
                let pause = random.uniform() * orders.most_us as f64;
                std::thread::sleep(Duration::from_nanos((pause * 1e3) as u64));
            }
            let began = Instant::now();
            if measured.way == Way::Round {
                clock
                    .now(Call::Group, None)
                    .map_err(|why| Failure(format!("reading the group's clock: {why:?}")))?;
            } else {
                bare.round_trip()?;
            }
            if count >= WARM_UP {
                measured.ns.push(began.elapsed().as_nanos() as u64);
            }
        }
    }
    orders.write(&measured)
}

struct Worker {
    clock: ThreadClock,
    bare: Bare,
    /// True if this is the replica that sends bare messages.
    first: bool,
    measured: [Measured; 6],
}

impl Worker {
    /// The answer's time, gotten in this way.
    fn process(&mut self, way: Way, count: u64, message: &mut Delivered) -> Result<i64, Failure> {
        let failed = |error| Failure(format!("reading the group's clock: {error:?}"));
        let mut further = Vec::new();
        let began = Instant::now();
        let value = match way {
            Way::None => 0,
            Way::Round => self.clock.now(Call::Group, None).map_err(failed)?.time.0,
            Way::Riding => message.now().map_err(failed)?.time.0,
            Way::Lease => {
                let mut last = message.now().map_err(failed)?.time.0;
                for _ in 0..LEASED {
                    let began = Instant::now();
                    last = message.now().map_err(failed)?.time.0;
                    further.push(began.elapsed().as_nanos() as u64);
                }
                last
            }
            Way::System => realtime(),
            Way::Bare if self.first => self.bare.round_trip().map(|_| 0)?,
            Way::Bare => self.bare.follow().map(|()| 0)?,
        };
        let took = began.elapsed().as_nanos() as u64;
        if count >= WARM_UP
            && let Some(measured) = self.measured.get_mut(way as usize)
        {
            measured.ns.push(took);
            measured.further.append(&mut further);
        }
        Ok(value)
    }
}

/// The client's side: `count` requests of each way, in turn.
///
/// # Errors
/// Where the group fails.
pub fn client(orders: &Orders) -> Result<(), Failure> {
    let replica = orders.attach()?;
    let mut measured =
        Way::ALL.map(|way| Measured { way, ns: Vec::new(), further: Vec::new(), same: 0 });
    for count in 0..orders.count + WARM_UP {
        for measured in &mut measured {
            let (took, same) = one(&replica, measured.way, count)?;
            if count >= WARM_UP {
                measured.ns.push(took.as_nanos() as u64);
                measured.same += u64::from(same);
            }
        }
    }
    replica.multicast(&[&[3, 0][..], &[0; 8]].concat()).map_err(|e| Failure::of("ending", e))?;
    // Until it has come back, so that it is sure to have been sent.
    loop {
        if let Some((3, ..)) = parse(&next(&replica)?.payload) {
            break;
        }
    }
    orders.write(&measured)
}

/// One request: the time until the first answer, and whether all answers were the same.
fn one(replica: &Replica, way: Way, count: u64) -> Result<(Duration, bool), Failure> {
    let began = Instant::now();
    replica.multicast(&request(way, count)).map_err(|e| Failure::of("a request", e))?;
    let mut took = None;
    let mut answers = Vec::new();
    // All answers, so that the next request finds the servers at rest.
    while answers.len() < MEMBERS as usize {
        let message = next(replica)?;
        if let Some((2, its, number, value)) = parse(&message.payload)
            && (its, number) == (way, count)
        {
            took.get_or_insert_with(|| began.elapsed());
            answers.push(value);
        }
    }
    answers.dedup();
    Ok((took.unwrap_or_default(), answers.len() == 1))
}

fn next(replica: &Replica) -> Result<Delivered, Failure> {
    let end = Instant::now() + PATIENCE;
    loop {
        let event =
            replica.next(Some(Duration::from_secs(1))).map_err(|e| Failure::of("the agent", e))?;
        match event {
            Some(Event::Delivered(message)) => return Ok(message),
            Some(Event::Phase(phase)) if phase != Phase::Live => {
                return Err(Failure("the client's node fell out of the ring".to_owned()));
            }
            _ if Instant::now() > end => {
                return Err(Failure("no answer in a minute".to_owned()));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_are_read_back() {
        for way in Way::ALL {
            assert_eq!(parse(&request(way, 7)), Some((1, way, 7, None)));
        }
        let answer = [request(Way::Round, 9), (-5_i64).to_le_bytes().to_vec()].concat();
        assert_eq!(parse(&answer), Some((1, Way::Round, 9, Some(-5))));
        assert_eq!(parse(&[1, 99, 0, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(parse(&[1]), None);
    }
}
