//! Groups of three to nine members: one reading, its messages and its packets, beside a bare round trip of
//! Corosync, a write in etcd and a timestamp oracle over it, in the same run and on the same nodes.

pub mod etcd;
pub mod oracle;
pub mod turns;

use std::path::Path;

use serde_json::{Value, json};
use truechimer_outcome::interval::Interval;
use truechimer_outcome::outcome::{Failure, Figure, Goal, Grid, Outcome};
use truechimer_outcome::plot::{Axis, Plot};
use truechimer_outcome::stats::{median, quantile, show_ns, tail};
use truechimer_outcome::verdict::{Control, Verdict};
use truechimer_outcome::wakes::Wakes;
use truechimer_testbed::ring::Settings;

use crate::bench::group::bed::{Bed, How};
use crate::bench::group::group_load::{Loaded, counts};
use crate::bench::group::load::Load;
use crate::bench::group::options::Options;
use crate::bench::group::placement::Placement;
use crate::bench::group::serve;
use crate::bench::group::sizes::turns::{Kind, Taken, Wanted as Turns};

/// Pauses before each turn, at most, µs; and between the readings of all members (the paper's).
const PAUSE_US: u64 = 400;
const PAUSES_US: (u64, u64) = (60, 400);
/// Node of the oracle; the client is at node 1.
const ORACLE: u32 = 2;
/// First logical thread of the programs in turns.
const THREAD: u64 = 300;
/// Largest number of messages for each round.
const MOST_MESSAGES: f64 = 1.02;

/// Sizes of the groups; presence of etcd.
#[derive(clap::Args, Clone, Debug)]
pub struct Wanted {
    /// Numbers of members
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "3,5,7,9")]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=32))]
    sizes: Vec<u32>,
    /// Only the group and its ring, no etcd and no oracle
    #[arg(long)]
    alone: bool,
}

/// One size.
struct Size {
    members: u32,
    /// In turn.
    turns: Vec<Taken>,
    /// Packets on the links of all nodes for each, one way at a time.
    packets: Vec<(Kind, f64)>,
    /// Proposals for each round where only node 1 reads.
    alone: f64,
    /// All members' programs read the same rounds.
    all: Loaded,
    control: Control,
}

impl Size {
    fn ns(&self, kind: Kind) -> Vec<f64> {
        let of = self.turns.iter().filter(|taken| taken.kind == kind);
        of.flat_map(|taken| taken.ns.iter().map(|ns| *ns as f64)).collect()
    }

    fn packets(&self, kind: Kind) -> Option<f64> {
        self.packets.iter().find(|(of, _)| *of == kind).map(|(_, packets)| *packets)
    }

    fn per_round(&self) -> f64 {
        self.all.counts.proposals as f64 / self.all.counts.rounds as f64
    }

    /// Rounds that two of the members read as different times.
    fn unlike(&self) -> usize {
        let times = |node| self.all.samples(node).map(|sample| sample.time);
        let others = 2..=self.members as usize;
        others.map(|node| times(1).zip(times(node)).filter(|(a, b)| a != b).count()).sum()
    }
}

/// Measures it.
///
/// # Errors
/// Where the machine lacks what that takes, or the group fails, or etcd.
pub fn run(options: &Options, wanted: &Wanted) -> Result<Outcome, Failure> {
    if !wanted.alone {
        etcd::program()?;
    }
    let count = options.count(5000, 200) as u64;
    let mut all = Vec::new();
    for members in &wanted.sizes {
        all.push(size(options, count, *members, wanted.alone)?);
    }
    Ok(outcome(&all, count, &options.placement, wanted.alone))
}

fn size(options: &Options, count: u64, members: u32, alone: bool) -> Result<Size, Failure> {
    options.say(&format!("sizes: {members} members"));
    let processors = options.placement.processors();
    let ring = Settings { nodes: members, processors: processors.clone(), ..Settings::default() };
    let mut bed = Bed::up(How { ring, members, ..How::usual(&options.truechimer) })?;
    let listeners = bed.listeners(2..=members)?;
    let mut beside = Vec::new();
    if !alone {
        options.say("sizes: etcd and the oracle start");
        beside.append(&mut etcd::up(&bed, processors.as_deref())?);
        let node = format!("--node={ORACLE}");
        beside.push(bed.program(ORACLE, "oracle", ["oracle", &node])?);
    }
    let kinds = if alone { &Kind::GROUP[..] } else { &Kind::ALL };
    let turns =
        Turns { kinds, count, nodes: members, most_us: PAUSE_US, thread: THREAD, oracle: ORACLE };
    options.say("sizes: in turn");
    let wakes = Wakes::start();
    let in_turn = take(&mut bed, &turns)?;
    let control = wakes.end();
    options.say("sizes: packets of each");
    let mut packets = Vec::new();
    let mut proposals = f64::NAN;
    for (n, kind) in (1..).zip(kinds.iter().filter(|kind| **kind != Kind::Local)) {
        let before = (sent(&bed)?, counts(&mut bed, 1)?);
        let only = Turns { kinds: &[*kind], most_us: 0, thread: THREAD + n, ..turns };
        let taken = take(&mut bed, &only)?;
        let after = (sent(&bed)?, counts(&mut bed, 1)?);
        let took: u64 = taken.iter().map(|taken| taken.ns.len() as u64 + turns::WARM_UP).sum();
        packets.push((*kind, (after.0 - before.0) as f64 / took as f64));
        if *kind == Kind::Round {
            let its = after.1.since(before.1);
            proposals = its.proposals as f64 / its.rounds as f64;
        }
    }
    // Nothing but the group has the processors from here on.
    drop((listeners, beside));
    options.say("sizes: all members read");
    let load = Load {
        first: 1000,
        threads: 1,
        rounds: count,
        pause_us: PAUSES_US,
        seed: options.seed,
        start: None,
    };
    let wakes = Wakes::start();
    let all = bed.load(&load)?;
    let control = control.and(wakes.end());
    Ok(Size { members, turns: in_turn, packets, alone: proposals, all, control })
}

/// Runs the program at node 1, and fetches what it measured.
fn take(bed: &mut Bed, turns: &Turns<'_>) -> Result<Vec<Taken>, Failure> {
    let name = format!("turns{}", turns.thread);
    let path = bed.ring().dir().join(&format!("{name}.json"));
    let mut program = bed.program(1, &name, turns.arguments(&bed.place(1), &path))?;
    bed.wait_for_end(1, &mut program)?;
    serve::read(&path)
}

/// Packets that all nodes have sent on their links.
fn sent(bed: &Bed) -> Result<u64, Failure> {
    let mut sum = 0;
    for node in bed.ring().nodes() {
        let path = "/proc/self/net/dev";
        let output = bed.command(node, Path::new("cat")).arg(path).output();
        let output = output.map_err(|why| Failure::of(path, why))?;
        let packets = packets(&String::from_utf8_lossy(&output.stdout), "eth0");
        sum += packets.ok_or_else(|| Failure(format!("{path}: no eth0 at node {node}")))?;
    }
    Ok(sum)
}

/// Packets that a link has sent, by the kernel's table.
fn packets(table: &str, link: &str) -> Option<u64> {
    let mut lines = table.lines().map(str::trim_start);
    let figures = lines.find_map(|line| line.strip_prefix(link)?.strip_prefix(':'))?;
    // Eight of what was received, then bytes and packets sent.
    figures.split_whitespace().nth(9)?.parse().ok()
}

fn outcome(all: &[Size], count: u64, placement: &Placement, alone: bool) -> Outcome {
    let mut grid = Grid::new(
        "One time, at node 1",
        ["members, way", "p50", "p99", "÷ bare round trip", "packets"],
    );
    let mut messages = Grid::new(
        "All members' programs read the same rounds",
        ["members", "rounds", "messages per round", "all messages, per round", "p50", "p99"],
    );
    let mut json = Vec::new();
    let mut lines = Vec::new();
    for size in all {
        let members = size.members;
        let bare = size.ns(Kind::Bare);
        let mut ways = Vec::new();
        for taken in &size.turns {
            let (kind, ns) = (taken.kind, size.ns(taken.kind));
            let ratio = Interval::of_blocks([&ns, &bare], |[a, b]| median(a) / median(b));
            let ratio_text = match kind {
                Kind::Bare => "–".to_owned(),
                _ => ratio.text(|ratio| format!("{ratio:.2}")),
            };
            grid.row([
                format!("{members}: {}", kind.name()),
                show_ns(median(&ns)),
                show_ns(quantile(&ns, 0.99)),
                ratio_text,
                size.packets(kind).map_or("–".to_owned(), |packets| format!("{packets:.1}")),
            ]);
            ways.push(json!({
                "way": kind, "p50_ns": median(&ns), "p99_ns": quantile(&ns, 0.99),
                "to_bare": ratio.median, "packets": size.packets(kind), "back": taken.back,
                "count": ns.len(),
            }));
            lines.push((
                format!("{members}: {}", kind.name()),
                tail(ns.into_iter().map(|ns| ns * 1e-3)),
            ));
        }
        let took: Vec<f64> = (1..=members as usize)
            .flat_map(|node| size.all.samples(node))
            .map(|sample| sample.took as f64)
            .collect();
        let counts = size.all.counts;
        messages.row([
            members.to_string(),
            counts.rounds.to_string(),
            format!("{:.3}", size.per_round()),
            format!("{:.3}", counts.messages as f64 / counts.rounds as f64),
            show_ns(median(&took)),
            show_ns(quantile(&took, 0.99)),
        ]);
        json.push(json!({
            "members": members, "ways": ways, "proposals_per_round_alone": size.alone,
            "all": {
                "rounds": counts.rounds, "proposals": counts.proposals,
                "messages": counts.messages, "duplicates": counts.duplicates,
                "p50_ns": median(&took), "p99_ns": quantile(&took, 0.99),
                "unlike": size.unlike(),
            },
        }));
    }
    Outcome {
        headline: Vec::new(),
        name: "sizes",
        title: "Groups of several sizes, beside a Raft time oracle".to_owned(),
        about: about(count, placement, alone),
        goals: goals(all),
        grids: vec![grid, messages],
        figures: vec![Figure::Plot(Plot {
            title: "One time, µs: share that takes longer".to_owned(),
            x: Axis::log("one time, µs"),
            y: Axis::log("share that takes longer"),
            lines,
        })],
        json: Value::from(json),
    }
}

fn goals(all: &[Size]) -> Vec<Goal> {
    let mut goals = Vec::new();
    for size in all {
        let per_round = size.per_round();
        goals.push(
            Goal {
                name: format!("messages per round, all of {} members read", size.members),
                wanted: format!("≤ {MOST_MESSAGES}"),
                measured: format!("{per_round:.3}"),
                verdict: if per_round.is_finite() {
                    Verdict::of(per_round <= MOST_MESSAGES)
                } else {
                    Verdict::all([])
                },
            }
            .under(&size.control),
        );
    }
    let unlike: usize = all.iter().map(Size::unlike).sum();
    let name = "rounds that two members read as different times";
    goals.push(Goal::counted(name, "0", unlike, unlike == 0));
    let back: u64 = all.iter().flat_map(|size| &size.turns).map(|taken| taken.back).sum();
    let name = "times that were not after the one before, in any way";
    goals.push(Goal::counted(name, "0", back, back == 0));
    goals
}

fn about(count: u64, placement: &Placement, alone: bool) -> Vec<String> {
    let mut all = vec![
        format!(
            "A ring of so many nodes by udpu, an agent at each. A program at node 1, which has the \
             first rank, gets {count} times in each way, in turn, with a random pause of up to \
             {PAUSE_US} µs before each; the other members have agents and no program. A bare round \
             trip is a message of 96 bytes in a process group of its own. Packets are those that \
             the kernels of all nodes count on their links, token and acknowledgements included, \
             in a run of that way alone without pauses."
        ),
        placement.text(),
        format!(
            "In the second table all members' programs read {count} rounds, with pauses of {} to {} \
             µs, and nothing else runs. Messages per round are proposals by the agents' count: 1 is \
             the least, as many as there are members would be sent if nobody held back. All \
             messages: reports of clocks (at most one a second for each member) and what else the \
             agents say too. All nodes share this machine's processors, so the time of a reading \
             grows by the other agents' and programs' work as well as by the token's way.",
            PAUSES_US.0, PAUSES_US.1
        ),
    ];
    if !alone {
        all.push(
            "etcd: a cluster of the same size at the same nodes, its leader at node 1, the client's \
             own node, and on the Corosyncs' processors; its log in memory, so that no disk is in \
             the figures (as shipped each write waits for a majority's disks besides). A time is \
             the number of a write that a majority has in its log, by etcd's JSON over HTTP; what \
             that way costs by itself is the row of a read without Raft, by the same way from the \
             same etcd."
                .to_owned(),
        );
        all.push(format!(
            "Oracle: one process at node {ORACLE}, asked over TCP, as TiKV's placement driver has \
             its own: it hands out its host's clock from memory, never twice the same, within a \
             window of 3 s that it has reserved by a write in etcd."
        ));
        all.push(
            "They do not promise the same. The group: a value that all members read alike for the \
             same round, that no single clock moves beyond what a majority bears out, tied to UTC \
             with a bound; a majority goes on when any node is lost, as soon as Corosync has \
             noticed. etcd: an order, and no time. The oracle: times in an order, one client's \
             unlike another's, so replicas that ask for the same thing get different times; they \
             are one host's clock, as wrong as that is, without a bound; it stands while another \
             leader is elected, and what another hands out first is after the window that was \
             reserved. Its request is a way over the network and back: it does not grow with the \
             members."
                .to_owned(),
        );
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_those_that_the_link_has_sent() {
        let table = "Inter-|   Receive                            |  Transmit\n \
                     face |bytes    packets errs drop fifo frame compressed multicast|bytes\n    \
                     lo:    10  11  0    0    0     0          0         0     12  13    0 0 0 0 0 0\n  \
                     eth0: 1000      20    0    0    0     0          0         0     3000      42    \
                     0    0    0     0       0          0\n";
        assert_eq!(packets(table, "eth0"), Some(42));
        assert_eq!(packets(table, "lo"), Some(13));
        assert_eq!(packets(table, "eth1"), None);
        assert_eq!(packets("eth0: 1 2", "eth0"), None);
    }
}
