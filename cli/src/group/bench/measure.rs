//! The measurements.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use truechimer_group::{Call, Member, Thread};
use truechimer_group_agent::Report;
use truechimer_group_client::link::ReadError;
use truechimer_group_client::{Event, Replica};

use super::ask;
use truechimer_command::Failure;

/// Readings before those that count.
const WARM_UP: u32 = 20;
/// Readings of one message's lease.
const LEASED: u32 = 4;
/// Content of our messages.
const PAYLOAD: &[u8] = b"truechimer group bench";

/// Plan of what is to be measured.
pub struct Plan {
    pub count: u32,
    pub threads: u32,
    /// For any one value, ns.
    pub patience: u64,
    /// True if messages may be sent.
    pub messages: bool,
    /// The thread that is this member's alone.
    pub alone: Thread,
}

/// Reason why there are no figures.
pub enum Broken {
    /// A reading failed.
    Read(ReadError),
    /// A message did not come back.
    NoValue,
    /// The agent does not say how things stand.
    Asking(Failure),
}

impl From<ReadError> for Broken {
    fn from(why: ReadError) -> Broken {
        Broken::Read(why)
    }
}

/// Times that something took, ns.
#[derive(Clone, Copy, Serialize)]
pub struct Spread {
    pub count: usize,
    #[serde(rename = "p50_ns")]
    pub p50: u64,
    #[serde(rename = "p90_ns")]
    pub p90: u64,
    #[serde(rename = "p99_ns")]
    pub p99: u64,
    #[serde(rename = "most_ns")]
    pub most: u64,
}

impl Spread {
    fn of(mut spans: Vec<u64>) -> Spread {
        spans.sort_unstable();
        let at = |percent| truechimer_report::percentile(&spans, percent).unwrap_or(0);
        Spread { count: spans.len(), p50: at(50), p90: at(90), p99: at(99), most: at(100) }
    }
}

/// Rounds for a while, by the agent.
pub struct Rounds {
    /// Rounds that were agreed on: ours, and others' in the same time.
    pub rounds: u64,
    /// Proposals that were delivered and came too late, for single rounds; else messages sent.
    messages: u64,
    ours: u64,
    took: Duration,
}

impl Rounds {
    /// Ours.
    pub fn per_second(&self) -> f64 {
        self.ours as f64 / self.took.as_secs_f64().max(1e-9)
    }

    pub fn per_round(&self) -> Option<f64> {
        (self.rounds > 0).then(|| self.messages as f64 / self.rounds as f64)
    }
}

/// All figures.
pub struct Figures {
    one_round: Spread,
    at_once: Spread,
    threads: u32,
    pub single: Rounds,
    pub several: Rounds,
    message: Option<Spread>,
    pub riding: Option<Spread>,
    leased: Option<Spread>,
}

impl Figures {
    /// Those that are spreads, with their names.
    pub fn lines(&self) -> impl Iterator<Item = (String, Spread)> {
        let named = |name: &str, spread: Option<Spread>| Some((name.to_owned(), spread?));
        [
            named("one round", Some(self.one_round)),
            Some((format!("one round, {} threads", self.threads), self.at_once)),
            named("message", self.message),
            named("riding", self.riding),
            named("leased", self.leased),
        ]
        .into_iter()
        .flatten()
    }

    /// For programs.
    pub fn json(&self, report: &Report) -> serde_json::Value {
        let rounds = |rounds: &Rounds| {
            json!({
                "rounds": rounds.rounds,
                "rounds_per_s": rounds.per_second(),
                "messages_per_round": rounds.per_round(),
            })
        };
        json!({
            "group": report.group.name,
            "member": report.member,
            "members": report.group.members,
            "mode": report.group.mode,
            "transport": report.transport,
            "one_round": self.one_round,
            "single": rounds(&self.single),
            "threads": self.threads,
            "one_round_threads": self.at_once,
            "several": rounds(&self.several),
            "message": self.message,
            "riding": self.riding,
            "leased": self.leased,
            "experiments": "truechimer-lab bench group",
        })
    }
}

/// Measures. `report` asks the agent.
pub fn run(
    replica: &Replica,
    plan: &Plan,
    report: impl Fn() -> Result<Report, Failure>,
) -> Result<Figures, Broken> {
    let member = replica.attached().member;
    type Work<'w> = &'w mut dyn FnMut() -> Result<Vec<u64>, Broken>;
    let counted = |work: Work<'_>, shared: bool| -> Result<(Rounds, Spread), Broken> {
        let before = report().map_err(Broken::Asking)?.counts;
        let began = Instant::now();
        let spans = work()?;
        let took = began.elapsed();
        let after = report().map_err(Broken::Asking)?.counts;
        let rounds = after.rounds.saturating_sub(before.rounds);
        let messages = if shared {
            after.messages_delivered.saturating_sub(before.messages_delivered)
        } else {
            rounds.saturating_add(after.duplicates.saturating_sub(before.duplicates))
        };
        Ok((Rounds { rounds, messages, ours: spans.len() as u64, took }, Spread::of(spans)))
    };
    read(replica, plan.alone, WARM_UP, plan)?;
    let (single, one_round) = counted(&mut || read(replica, plan.alone, plan.count, plan), false)?;
    let (several, at_once) = counted(&mut || at_once(replica, member, plan), true)?;
    let [message, riding, leased] = match plan.messages {
        true => messages(replica, plan)?.map(Some),
        false => [None; 3],
    };
    let threads = plan.threads;
    Ok(Figures { one_round, at_once, threads, single, several, message, riding, leased })
}

fn thread(member: Member, number: u32) -> Thread {
    ask::thread(&format!("bench {member} {number}"))
}

fn read(replica: &Replica, thread: Thread, count: u32, plan: &Plan) -> Result<Vec<u64>, Broken> {
    let clock = replica.thread(thread);
    let patience = Some(Duration::from_nanos(plan.patience));
    let mut spans = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let began = Instant::now();
        clock.now(Call::Group, patience)?;
        spans.push(nanos(began));
    }
    Ok(spans)
}

fn at_once(replica: &Replica, member: Member, plan: &Plan) -> Result<Vec<u64>, Broken> {
    let each = (plan.count / plan.threads).max(1);
    std::thread::scope(|scope| {
        let start = |n| scope.spawn(move || read(replica, thread(member, n), each, plan));
        let all: Vec<_> = (1..=plan.threads).map(start).collect();
        let mut spans = Vec::new();
        for thread in all {
            // A thread that panicked has said so.
            spans.append(&mut thread.join().map_err(|_| Broken::NoValue)??);
        }
        Ok(spans)
    })
}

/// One message at a time: until it is back, the first reading, and those after it.
fn messages(replica: &Replica, plan: &Plan) -> Result<[Spread; 3], Broken> {
    let (mut way, mut riding, mut leased) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..plan.count {
        let began = Instant::now();
        let token = replica.multicast(PAYLOAD).map_err(|_| Broken::NoValue)?;
        let own = replica.attached().member;
        let mut message = loop {
            let left = Duration::from_nanos(plan.patience).saturating_sub(began.elapsed());
            match replica.next(Some(left)) {
                Ok(Some(Event::Delivered(it))) if (it.from, it.token) == (own, token) => break it,
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return Err(Broken::NoValue),
            }
        };
        way.push(nanos(began));
        let began = Instant::now();
        message.now()?;
        riding.push(nanos(began));
        for _ in 0..LEASED {
            let began = Instant::now();
            message.now()?;
            leased.push(nanos(began));
        }
    }
    Ok([way, riding, leased].map(Spread::of))
}

fn nanos(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_its_quantiles() {
        let spread = Spread::of((1..=1000).rev().collect());
        assert_eq!((spread.count, spread.p50, spread.p99, spread.most), (1000, 501, 991, 1000));
        let none = Spread::of(Vec::new());
        assert_eq!((none.count, none.p50, none.most), (0, 0, 0));
    }

    #[test]
    fn rounds_are_counted_per_second_and_messages_per_round() {
        let rounds = |rounds, messages| Rounds {
            rounds,
            messages,
            ours: 50,
            took: Duration::from_millis(500),
        };
        assert_eq!(rounds(100, 102).per_round(), Some(1.02));
        assert_eq!(rounds(0, 3).per_round(), None);
        assert!((rounds(1, 1).per_second() - 100.0).abs() < 1e-9);
    }
}
