//! Cost of one reading of the group's clock to a program: beside a bare round trip of Corosync in
//! the same run, by riding on a message, by a lease, by several threads at once.

use std::time::Duration;

use serde_json::json;
use truechimer_outcome::interval::Interval;
use truechimer_outcome::outcome::{Failure, Figure, Goal, Grid, Outcome};
use truechimer_outcome::plot::{Axis, Plot};
use truechimer_outcome::stats::{median, quantile, show_ns, tail};
use truechimer_outcome::verdict::{Control, Verdict};
use truechimer_outcome::wakes::Wakes;
use truechimer_testbed::ring::Settings;

use crate::bench::group::bed::{Bed, How, MEMBERS};
use crate::bench::group::group_load::Loaded;
use crate::bench::group::load::{Done, Load};
use crate::bench::group::options::Options;
use crate::bench::group::placement::Placement;
use crate::bench::group::serve::{self, Way};
use crate::bench::group::service::{self, Alone, Alones, Service};

const THREADS: [u64; 4] = [1, 4, 16, 64];
/// Pauses before each operation of a program that is alone, at most, µs: the paper's longest.
const PAUSE_US: u64 = 400;
/// A program that is alone.
const USUAL: Alone =
    Alone { name: "udpu, alone", knet: false, nodes: MEMBERS, most_us: PAUSE_US, together: false };
/// Measurements of one; the first two are those of the goals.
const ALONE: [Alone; 5] = [
    USUAL,
    Alone { name: "knet, alone", knet: true, ..USUAL },
    Alone { name: "udpu, alone, on any processor", together: true, ..USUAL },
    Alone { name: "udpu, alone, without pauses", most_us: 0, ..USUAL },
    Alone { name: "one node by itself", nodes: 1, ..USUAL },
];

/// One number of threads.
struct Batch {
    threads: u64,
    loaded: Loaded,
}

impl Batch {
    fn per_second(&self) -> f64 {
        let seconds = self.loaded.nodes.iter().map(|done| done.seconds).fold(0.0, f64::max);
        self.loaded.counts.rounds as f64 / seconds
    }

    fn per_round(&self) -> f64 {
        self.loaded.counts.messages as f64 / self.loaded.counts.rounds as f64
    }
}

/// Measures it.
///
/// # Errors
/// Where the machine lacks what that takes, or the group fails.
pub fn run(options: &Options) -> Result<Outcome, Failure> {
    let count = options.count(5000, 300) as u64;
    options.say("read: beside a bare round trip, alone");
    let processors = options.placement.processors();
    // Where they may run anywhere anyway, that is measured once.
    let ways = ALONE.into_iter().filter(|how| processors.is_some() || !how.together);
    let mut alone = Vec::new();
    for how in ways {
        let wakes = Wakes::start();
        alone.push((service::alone(options, count, how)?, wakes.end()));
    }
    options.say("read: in a server, udpu");
    let wakes = Wakes::start();
    let udpu = Service::run(options, count, false)?;
    let control = wakes.end();
    options.say("read: in a server, knet");
    let knet = Service::run(options, count, true)?;
    let rounds = options.count(20_000, 1000) as u64;
    let ring = Settings { processors, ..Settings::default() };
    let mut bed = Bed::up(How { ring, ..How::usual(&options.truechimer) })?;
    let mut batches = Vec::new();
    for (n, threads) in THREADS.into_iter().enumerate() {
        options.say(&format!("read: {threads} threads at once"));
        let load = Load {
            first: 1000 * (n as u64 + 1),
            threads,
            rounds: (rounds / threads).max(50),
            seed: options.seed,
            ..Load::default()
        };
        batches.push(Batch { threads, loaded: bed.load(&load)? });
    }
    options.say("read: the link alone");
    let link = link(&mut bed, rounds.min(5000))?;
    let mut outcome = outcome(&alone, (&udpu, &control), &knet, &batches, &link, count);
    outcome.about.insert(1, placed(&options.placement));
    Ok(outcome)
}

/// Cost of being told a value that the group has agreed on already: the way from program to agent
/// and back, ns. Two nodes read; when they have ended, the third does.
fn link(bed: &mut Bed, rounds: u64) -> Result<Vec<f64>, Failure> {
    let start = bed.ring().dir().join("start-link");
    let load = Load { first: 9000, threads: 1, rounds, ..Load::default() };
    let late = Load { start: Some(start.clone()), ..load.clone() };
    let (mut last, out) = bed.start_load(MEMBERS, &late)?;
    bed.wait("the program at the last node", |bed| {
        let report = bed.report(MEMBERS)?;
        Ok(report.pointer("/programs/program") == Some(&true.into()))
    })?;
    let mut others = Vec::new();
    for node in 1..MEMBERS {
        others.push((node, bed.start_load(node, &load)?.0));
    }
    for (node, process) in &mut others {
        bed.wait_for_end(*node, process)?;
    }
    // What was on its way then has come.
    std::thread::sleep(Duration::from_millis(100));
    std::fs::write(&start, "").map_err(|error| Failure::of(start.display(), error))?;
    bed.wait_for_end(MEMBERS, &mut last)?;
    let done: Done = serve::read(&out)?;
    Ok(done.threads.iter().flatten().map(|sample| sample.took as f64).collect())
}

/// Where things run, and which rows that is about.
fn placed(placement: &Placement) -> String {
    let but = match placement {
        Placement::Apart { .. } => {
            " In the rows \"on any processor\" all run on whichever has room. The goals are about \
             the others."
        }
        Placement::Together | Placement::One => "",
    };
    format!("{}{but}", placement.text())
}

fn outcome(
    alone: &[(Alones, Control)],
    (udpu, control): (&Service, &Control),
    knet: &Service,
    batches: &[Batch],
    link: &[f64],
    count: u64,
) -> Outcome {
    let mut grid =
        Grid::new("One reading", ["what", "p50", "p90", "p99", "p99.9", "÷ bare round trip"]);
    let mut json = Vec::new();
    let mut row = |name: &str, ns: &[f64], bare: Option<f64>| {
        let at = |q| quantile(ns, q);
        let ratio = bare.map_or("–".to_owned(), |bare| format!("{:.2}", at(0.5) / bare));
        let cells = [0.5, 0.9, 0.99, 0.999].map(|q| show_ns(at(q)));
        grid.row([name.to_owned()].into_iter().chain(cells).chain([ratio]));
        json.push(json!({
            "what": name, "p50_ns": at(0.5), "p90_ns": at(0.9), "p99_ns": at(0.99),
            "p999_ns": at(0.999), "to_bare": bare.map(|bare| at(0.5) / bare),
        }));
    };
    let mut goals = Vec::new();
    for (n, (Alones { how, round, bare }, control)) in alone.iter().enumerate() {
        let (name, bare_p50) = (how.name, median(bare));
        row(&format!("{name}: bare round trip"), bare, None);
        row(&format!("{name}: one-round read"), round, Some(bare_p50));
        if n < 2 {
            let goal = format!("one-round read ÷ bare round trip, medians, {name}");
            let ratio = Interval::of_blocks([round, bare], |[a, b]| median(a) / median(b));
            goals.push(Goal::at_most(&goal, 1.2, &ratio).under(control));
        }
    }
    for (name, service) in [("udpu", udpu), ("knet", knet)] {
        let bare = median(service.at(1, Way::Bare));
        row(
            &format!("{name}, server: bare round trip at node 1, the others wait for it"),
            &service.at(1, Way::Bare),
            None,
        );
        for node in 1..=MEMBERS as usize {
            let rank = if node == 1 { ", which proposes first" } else { "" };
            let ns = service.at(node, Way::Round);
            row(&format!("{name}, server: one-round read at node {node}{rank}"), &ns, Some(bare));
        }
    }
    let riding: Vec<f64> = (1..=MEMBERS as usize).flat_map(|n| udpu.at(n, Way::Riding)).collect();
    row("riding read", &riding, None);
    row("leased read", &udpu.leased(), None);
    row("a value agreed on before: program to agent and back", link, None);
    let each: Vec<Vec<f64>> = (1..=MEMBERS as usize).map(|n| udpu.at(n, Way::Riding)).collect();
    // The members' readings of the same time side by side, so that a part of them is one of time.
    let in_turn = (0..count as usize).flat_map(|n| each.iter().filter_map(move |ns| ns.get(n)));
    let in_turn: Vec<f64> = in_turn.copied().collect();
    let ride = Interval::of_blocks([&in_turn], |[part]| median(part));
    goals.push(
        Goal {
            name: "riding read, median".to_owned(),
            wanted: "≤ 1 µs".to_owned(),
            measured: ride.text(show_ns),
            verdict: Verdict::at_most(1000.0, &ride),
        }
        .under(control),
    );
    let mut batching = Grid::new(
        "Several threads at once, without a pause, udpu",
        ["threads", "rounds/s", "messages per round", "one reading, p50", "p99"],
    );
    for batch in batches {
        let took: Vec<f64> = (1..=MEMBERS as usize)
            .flat_map(|node| batch.loaded.samples(node))
            .map(|sample| sample.took as f64)
            .collect();
        batching.row([
            batch.threads.to_string(),
            format!("{:.0}", batch.per_second()),
            format!("{:.3}", batch.per_round()),
            show_ns(median(&took)),
            show_ns(quantile(&took, 0.99)),
        ]);
        json.push(json!({
            "threads": batch.threads, "rounds_per_s": batch.per_second(),
            "messages_per_round": batch.per_round(), "p50_ns": median(&took),
        }));
    }
    let micro = |ns: Vec<f64>| tail(ns.into_iter().map(|ns| ns * 1e-3));
    let lines = vec![
        ("bare, udpu".to_owned(), micro(udpu.at(1, Way::Bare))),
        ("one round, udpu".to_owned(), micro(udpu.at(1, Way::Round))),
        ("bare, knet".to_owned(), micro(knet.at(1, Way::Bare))),
        ("one round, knet".to_owned(), micro(knet.at(1, Way::Round))),
        ("riding".to_owned(), micro(riding)),
        ("leased".to_owned(), micro(udpu.leased())),
        ("link alone".to_owned(), micro(link.to_vec())),
    ];
    Outcome {
        headline: Vec::new(),
        name: "read",
        title: "What one reading of the group's clock costs".to_owned(),
        about: vec![
            format!(
                "Alone: a program at node 1, which has the first rank, reads the group's clock by a \
                 round and makes a bare round trip in turn, {count} times each, after a random pause \
                 of up to {PAUSE_US} µs before each; the other members have agents, and no program. \
                 Without pauses each begins when the one before has ended, so always at the same \
                 place of the token's way round the ring: then a bare round trip that follows a \
                 reading finds the token on its way to it, and the reading that follows that has just \
                 missed it. One node by itself is a ring of one: the same program, agent and Corosync \
                 without other nodes' processes on this machine's processors. A bare round trip is a message of 96 bytes in a process \
                 group of its own, with a member at each node as the agents' has, by libcpg and \
                 nothing else, until it is back: what the ring itself takes. The agents have \
                 real-time priority below Corosync's, as docs/use/group-setup.md advises, where this \
                 user may give it."
            ),
            format!(
                "Server: a server of three active replicas is asked {count} times in each way, one request \
                 at a time, by a client on a fourth node; figures are what the replica's thread \
                 waits for its time. In its turn, node 1's process sends a bare message at the place \
                 where it would read the clock, and all three wait for it, as they would for a \
                 round: the row says how long node 1 does."
            ),
            "Node 1 has the first rank and proposes at once; the others wait for its message. A \
             riding read takes the time of the message that is being processed, a leased read is \
             one of those that come after it; neither sends or waits."
                .to_owned(),
            "The last table has as many rounds as threads are busy with, from programs that do \
             nothing else: proposals of several threads go in one message. Messages are those that \
             the agents sent, of all kinds."
                .to_owned(),
        ],
        goals,
        grids: vec![grid, batching],
        figures: vec![Figure::Plot(Plot {
            title: "One reading, µs: share that takes longer".to_owned(),
            x: Axis::log("time of one reading, µs"),
            y: Axis::log("share of the readings that take longer"),
            lines,
        })],
        json: json!(json),
    }
}
