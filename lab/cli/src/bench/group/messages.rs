//! Messages that a round takes: on the wire, and by the agents' own count. The paper's second
//! experiment.

use serde_json::json;
use truechimer_outcome::outcome::{Failure, Goal, Grid, Outcome};
use truechimer_outcome::stats::show_share;
use truechimer_outcome::verdict::{Control, Verdict};
use truechimer_outcome::wakes::Wakes;
use truechimer_testbed::ring::Settings;

use crate::bench::group::bed::{Bed, How};
use crate::bench::group::group_load::Loaded;
use crate::bench::group::load::Load;
use crate::bench::group::options::Options;
use crate::bench::group::placement::Placement;
use crate::bench::group::wire::{Seen, Sniffer};

/// Pauses between readings, µs: the paper's, and none.
const PAUSES: [(u64, u64); 2] = [(60, 400), (0, 0)];

/// One run.
struct Run {
    transport: &'static str,
    pause_us: (u64, u64),
    loaded: Loaded,
    seen: Seen,
    /// Control: who is woken late proposes late; then others have not seen it yet, and propose too.
    control: Control,
}

impl Run {
    fn per_round(&self, count: u64) -> f64 {
        count as f64 / self.loaded.counts.rounds as f64
    }
}

/// Measures it.
///
/// # Errors
/// Where the machine lacks what that takes, or the group fails.
pub fn run(options: &Options) -> Result<Outcome, Failure> {
    let rounds = options.count(10_000, 500) as u64;
    let mut runs = Vec::new();
    for knet in [false, true] {
        let ring =
            Settings { knet, processors: options.placement.processors(), ..Settings::default() };
        let mut bed = Bed::up(How { ring, ..How::usual(&options.truechimer) })?;
        for (n, pause_us) in PAUSES.into_iter().enumerate() {
            let transport = if knet { "knet" } else { "udpu" };
            options.say(&format!("messages: {transport}, pauses of {pause_us:?} µs"));
            let wakes = Wakes::start();
            let sniffer = Sniffer::start(&bed, 1, &format!("wire{n}"))?;
            let first = 1000 * (n as u64 + 1);
            let load =
                Load { first, threads: 1, rounds, pause_us, seed: options.seed, start: None };
            let loaded = bed.load(&load)?;
            let seen = sniffer.finish()?;
            runs.push(Run { transport, pause_us, loaded, seen, control: wakes.end() });
        }
    }
    Ok(outcome(&runs, rounds, &options.placement))
}

fn pauses(pause_us: (u64, u64)) -> String {
    match pause_us {
        (_, 0) => "none".to_owned(),
        (least, most) => format!("{least}–{most} µs"),
    }
}

fn outcome(runs: &[Run], rounds: u64, placement: &Placement) -> Outcome {
    let mut wire = Grid::new(
        "Messages that propose a value, for each round",
        [
            "transport",
            "pauses",
            "rounds",
            "on the wire",
            "per round",
            "by the agents",
            "per round",
            "too late",
            "reports and the like",
        ],
    );
    let mut members = Grid::new(
        "Each member's part",
        ["transport, pauses", "proposals of 1", "of 2", "of 3", "not needed at 1", "at 2", "at 3"],
    );
    let mut goals = Vec::new();
    let mut json = Vec::new();
    for run in runs {
        let counts = run.loaded.counts;
        let on_wire = run.per_round(run.seen.proposals);
        wire.row([
            run.transport.to_owned(),
            pauses(run.pause_us),
            counts.rounds.to_string(),
            run.seen.proposals.to_string(),
            format!("{on_wire:.3}"),
            counts.proposals.to_string(),
            format!("{:.3}", run.per_round(counts.proposals)),
            counts.duplicates.to_string(),
            run.seen.others.to_string(),
        ]);
        let part = |of: fn(&crate::bench::group::group_load::Counts) -> u64| -> Vec<String> {
            let share = |count: u64| show_share(count as f64 / counts.rounds as f64);
            run.loaded.members.iter().map(|member| share(of(member))).collect()
        };
        let name = format!("{}, {}", run.transport, pauses(run.pause_us));
        let parts = part(|c| c.proposals).into_iter().chain(part(|c| c.suppressed));
        members.row([name.clone()].into_iter().chain(parts));
        let most = if run.transport == "udpu" { 1.02 } else { 1.1 };
        goals.push(
            Goal {
                name: format!("messages per round on the wire: {name}"),
                wanted: format!("≤ {most}"),
                measured: format!("{on_wire:.3}"),
                verdict: if on_wire.is_finite() {
                    Verdict::of(on_wire <= most)
                } else {
                    Verdict::all([])
                },
            }
            .under(&run.control),
        );
        json.push(json!({
            "transport": run.transport, "pause_us": [run.pause_us.0, run.pause_us.1],
            "rounds": counts.rounds, "wire_proposals": run.seen.proposals,
            "wire_others": run.seen.others, "wire_packets": run.seen.packets,
            "proposals": counts.proposals, "suppressed": counts.suppressed,
            "duplicates": counts.duplicates,
            "members": run.loaded.members.iter()
                .map(|m| json!({ "proposals": m.proposals, "suppressed": m.suppressed }))
                .collect::<Vec<_>>(),
        }));
    }
    Outcome {
        name: "messages",
        title: "Messages per round".to_owned(),
        about: vec![
            format!(
                "Three members, one logical thread each, {rounds} rounds; before each reading a \
                 random pause of 60 to 400 µs as in the paper, or none. The messages are counted on \
                 the wire: tcpdump at node 1 sees what its Corosync sends and gets, and every \
                 message of the group is found by its head and counted once, however often Corosync \
                 sends it (to each node by itself, and again where it was lost). The agents' own \
                 counts are beside it. 1 is the least that a round can take; three would be sent if \
                 nobody held back. The paper reports 1.0, with an engine that can take a queued \
                 message back; Corosync cannot, so here the members' proposing is staggered."
            ),
            placement.text(),
            "Reports of clocks (at most one a second for each member) and what else the agents say \
             to each other is no part of a round, and stands in its own column."
                .to_owned(),
        ],
        goals,
        grids: vec![wire, members],
        json: json!(json),
        ..Outcome::default()
    }
}
