//! The campaign as text, tables and pictures.

use std::time::Duration;

use serde_json::json;
use truechimer_outcome::outcome::{Figure, Goal, Grid, Outcome};
use truechimer_outcome::plot::{Axis, Plot};
use truechimer_outcome::stats::{quantile, show_ns, tail};

use super::campaign::{Recovery, Work};
use super::plan::Fault;
use super::verify::{Kind, Tally, Violation};

/// Setting of a run, and its results.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// Where the plan began.
    pub seed: u64,
    /// The ring's token.
    pub token: Duration,
    /// Number of rings side by side.
    pub rings: u32,
    /// Work of the programs.
    pub work: Work,
    /// Every fail-over.
    pub recoveries: Vec<Recovery>,
    /// All that was seen.
    pub tally: Tally,
    /// The first violations.
    pub violations: Vec<Violation>,
    /// The group's mode.
    pub mode: &'static str,
    /// Number of fail-overs that there were to be.
    pub wanted: u32,
    /// Reason why a ring's campaign ended early.
    pub broken: Vec<String>,
}

const GOALS: [(&str, &[Kind]); 7] = [
    ("roll-backs: of a thread, of the group in its order, over restarts", &[Kind::RollBack]),
    ("readings not later than what was read before they began, at any node", &[Kind::RealTime]),
    ("disagreements: a round or message with two values", &[Kind::Disagreement]),
    ("rounds lost or doubled at a program that went on", &[Kind::LostRound, Kind::SurvivorLost]),
    ("values or messages while outside the primary component", &[Kind::WhileOutside]),
    (
        "messages lost, doubled or out of order",
        &[Kind::MessageLost, Kind::MessageTwice, Kind::MessageOrder],
    ),
    ("committed values that the group did not go on with", &[Kind::CommitLost]),
];

impl Report {
    /// Outcome in the form of every measurement.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        Outcome {
            headline: Vec::new(),
            name: "failover",
            title: "What fail-overs do to the group's clock".to_owned(),
            about: self.about(),
            goals: self.goals(),
            grids: self.grids(),
            figures: self.figures(),
            json: self.to_json(),
        }
    }

    fn about(&self) -> Vec<String> {
        let Work { threads, pause_us, message_us } = self.work;
        let disturbed = self.recoveries.iter().filter(|r| r.disturbed).count();
        let mut about = vec![
            format!(
                "{} fail-overs in random order (seed {}), in the mode {}, on {} of three nodes, token {} ms. At each \
                 node a program of {threads} threads reads the group's clock every {pause_us} µs in \
                 each of them, reads the time at present, sends and takes an ordered message every {message_us} µs, asks for \
                 commits, and records everything it sees. It ends when its member has been outside \
                 the primary component, after it has gone on asking for 40 ms, and is started \
                 again, as a user's program would be.",
                self.recoveries.len(),
                self.seed,
                self.mode,
                if self.rings == 1 {
                    "a real Corosync ring".to_owned()
                } else {
                    format!("{} real Corosync rings side by side, each", self.rings)
                },
                self.token.as_millis()
            ),
            "All records are checked while they come and once more from the files. Corosync's \
             delivery is not uniform: a node that is cut off may still deliver a message of its own \
             that nobody else gets. What a program saw of such a message is an orphan: it is counted, \
             must be the last that this life of the program saw, and must never have been committed."
                .to_owned(),
            "A fail-over's gap is the longest time that any program at a node to which nothing was \
             done had no value. A node is back when its program has the first value that it asked \
             for after the mending. Where the group can go on at all it waits for Corosync: token \
             and consensus, 2.2 times the token."
                .to_owned(),
        ];
        if disturbed > 0 {
            about.push(format!(
                "In {disturbed} of the fail-overs Corosync also lost a node to which nothing had \
                 been done, because this machine did much else; there any node may go outside, and \
                 nothing else is excused."
            ));
        }
        about
    }

    fn goals(&self) -> Vec<Goal> {
        let count = |kinds: &[Kind]| {
            self.violations.iter().filter(|violation| kinds.contains(&violation.kind)).count()
        };
        let mut goals: Vec<Goal> = GOALS
            .iter()
            .map(|(name, kinds)| {
                let found = count(kinds);
                Goal::counted(name, "0", found, found == 0)
            })
            .collect();
        let measured = match self.broken.first() {
            None => self.recoveries.len().to_string(),
            Some(why) => format!("{} ({why})", self.recoveries.len()),
        };
        goals.push(Goal::counted(
            "fail-overs after which all nodes read again",
            &self.wanted.to_string(),
            measured,
            self.broken.is_empty() && self.recoveries.len() >= self.wanted as usize,
        ));
        goals
    }

    fn grids(&self) -> Vec<Grid> {
        let mut recoveries = Grid::new(
            "Recovery, by what was done",
            ["what", "times", "gap p50", "p99", "most", "back p50", "p99", "most"],
        );
        for (fault, primary) in Fault::ALL.into_iter().flat_map(|it| [(it, false), (it, true)]) {
            let is = |r: &&Recovery| r.step.fault == fault && r.primary == primary && !r.disturbed;
            let all: Vec<&Recovery> = self.recoveries.iter().filter(is).collect();
            if all.is_empty() {
                continue;
            }
            let cells = |of: fn(&Recovery) -> i64| {
                let values: Vec<f64> = all.iter().map(|r| of(r) as f64).collect();
                [0.5, 0.99, 1.0].map(|q| show_ns(quantile(&values, q)))
            };
            let whose = if primary { ", the primary's" } else { "" };
            let name = [format!("{}{whose}", fault.name()), all.len().to_string()];
            let figures = cells(|r| r.survivors_ns).into_iter().chain(cells(|r| r.back_ns));
            recoveries.row(name.into_iter().chain(figures));
        }
        let Tally { lives, records, rounds, values, messages, deliveries, commits, .. } =
            self.tally;
        let mut seen = Grid::new("What the programs saw", ["what", "count"]);
        for (name, count) in [
            ("lives of programs", lives),
            ("records", records),
            ("rounds", rounds),
            ("values", values),
            ("readings of the time at present", self.tally.present),
            ("messages", messages),
            ("deliveries", deliveries),
            ("commits", commits),
            ("operations refused outside the primary component", self.tally.refused_outside),
            ("operations that failed because the agent was gone", self.tally.failed),
            ("orphans: seen by a cut-off node alone, never committed", self.tally.orphans),
            ("seen by a cut-off node alone, not contradicted", self.tally.unsure),
        ] {
            seen.row([name.to_owned(), count.to_string()]);
        }
        vec![recoveries, seen]
    }

    fn figures(&self) -> Vec<Figure> {
        let plot = |title: &str, of: fn(&Recovery) -> i64| {
            let line = |fault: &Fault| {
                let mine =
                    self.recoveries.iter().filter(|r| r.step.fault == *fault && !r.disturbed);
                (fault.name().to_owned(), tail(mine.map(|r| of(r) as f64 * 1e-6)))
            };
            let lines = Fault::ALL.iter().map(line).filter(|(_, points)| !points.is_empty());
            Figure::Plot(Plot {
                title: title.to_owned(),
                x: Axis::log("time, ms"),
                y: Axis::linear("share of the fail-overs that take longer"),
                lines: lines.collect(),
            })
        };
        vec![
            plot("Longest time without a value where nothing was done, ms", |r| r.survivors_ns),
            plot("From the mending to the node's first value, ms", |r| r.back_ns),
        ]
    }

    fn to_json(&self) -> serde_json::Value {
        let recoveries: Vec<_> = self
            .recoveries
            .iter()
            .map(|r| {
                json!({
                    "step": r.step.number, "fault": r.step.fault.name(), "node": r.step.node,
                    "hold_ms": r.step.hold.as_millis() as u64,
                    "gap_ns": r.survivors_ns, "back_ns": r.back_ns, "disturbed": r.disturbed,
                    "primary": r.primary,
                })
            })
            .collect();
        let violations: Vec<String> = self.violations.iter().map(|v| v.to_string()).collect();
        let t = self.tally;
        json!({
            "seed": self.seed, "mode": self.mode, "token_ms": self.token.as_millis() as u64, "rings": self.rings,
            "fail_overs": recoveries, "violations": violations, "broken": self.broken,
            "tally": {
                "lives": t.lives, "records": t.records, "rounds": t.rounds, "values": t.values,
                "present": t.present,
                "messages": t.messages, "deliveries": t.deliveries, "commits": t.commits,
                "refused_outside": t.refused_outside, "failed": t.failed, "orphans": t.orphans,
                "unsure": t.unsure,
                "violations": t.violations,
            },
        })
    }
}
