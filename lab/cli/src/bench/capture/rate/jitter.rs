//! Distance of stamps from a constant delay after the sender's own.

use serde_json::{Value, json};
use truechimer_outcome::interval::Interval;

use super::JITTER;
use crate::bench::capture::contest::Contest;
use crate::bench::capture::generator::{Order, Source};
use crate::bench::capture::peers;
use crate::bench::capture::trial::Found;
use truechimer_outcome::outcome::{Goal, Grid, Outcome};
use truechimer_outcome::stats::{Spread, range, show_ns};

const SIZE: usize = 140;
const RATE: f64 = 20e3;
const SECONDS: f64 = 2.0;
const QUICK_SECONDS: f64 = 0.5;
/// The default's jitter may be so much more than tcpdump's before it counts as worse: both read
/// the same kernel's stamp, and two measurements of the same thing differ.
const ALLOWED: f64 = 1.1;
/// Those that are compared have so many rounds at least: from one stretch of rounds to the next the
/// p99 of the same program differs by half, on a machine that has others' work to do.
const FEWEST_COMPARED: usize = 32;
const COMPARED: [&str; 2] = [peers::TCPDUMP_NANO, peers::PACKET];

/// One tool's stamps, a figure for each round.
struct Row {
    tool: &'static str,
    /// |difference of two stamps − difference of the times sent|, ns.
    spreads: Vec<Spread>,
    /// |difference of two stamps − the gap|, ns.
    gaps: Vec<Spread>,
}

/// All of them.
pub(super) struct Jitter {
    rows: Vec<Row>,
}

pub(super) fn measure(contest: &mut Contest<'_>) -> Jitter {
    let options = contest.options;
    let seconds = if options.quick { QUICK_SECONDS } else { SECONDS };
    let frames = (RATE * seconds) as u32;
    let order =
        Order { rate: RATE, burst: 1, timed: true, ..Order::new(Source::Driver, SIZE, frames) };
    let tools = contest.tools(&JITTER);
    let mut rows: Vec<Row> = tools
        .iter()
        .map(|tool| Row { tool: tool.name, spreads: Vec::new(), gaps: Vec::new() })
        .collect();
    let few = options.rounds(7, 2);
    for round in 0..few.max(FEWEST_COMPARED) {
        let mut turns: Vec<_> = tools.iter().zip(&mut rows).collect();
        if round >= few {
            turns.retain(|(tool, _)| COMPARED.contains(&tool.name));
        }
        // Who came first comes last: the machine may be getting busier, or less so.
        if round % 2 == 1 {
            turns.reverse();
        }
        for (tool, row) in turns {
            let Some(trial) = contest.trial(tool, &order, true) else { continue };
            let (of_stamps, of_gaps) = deviations(&trial.found, 1e9 / RATE);
            let spread = Spread::of(of_stamps);
            options.say(&format!(
                "round {}, jitter, {}: p50 {}, p99 {}",
                round + 1,
                tool.name,
                show_ns(spread.p50),
                show_ns(spread.p99)
            ));
            row.spreads.push(spread);
            row.gaps.push(Spread::of(of_gaps));
        }
    }
    rows.retain(|row| !row.spreads.is_empty());
    Jitter { rows }
}

/// Of each two frames that were sent one after the other: how much more or less time lies between
/// their stamps than between their times of sending, and than `gap_ns`.
fn deviations(found: &[Found], gap_ns: f64) -> (Vec<f64>, Vec<f64>) {
    let pairs = found.iter().zip(found.iter().skip(1)).filter(|(a, b)| b.number == a.number + 1);
    pairs
        .map(|(a, b)| {
            let stamps = b.time_ns.wrapping_sub(a.time_ns) as f64;
            let sent = b.sent_ns.wrapping_sub(a.sent_ns).cast_signed() as f64;
            (stamps - sent, stamps - gap_ns)
        })
        .unzip()
}

impl Jitter {
    pub(super) fn about(&self) -> String {
        let rounds = self.rows.iter().map(|row| row.spreads.len()).max().unwrap_or(0);
        format!(
            "Jitter: single frames of {SIZE} bytes at {} kpps, each with the time at which the \
             generator let go of it. Of two frames that follow each other, the difference of the \
             stamps in the file minus that of the times in the frames is the jitter of the stamp \
             alone, whatever the sender did; minus the nominal gap it is the jitter of the \
             arrivals as the file has them. tcpdump and truechimer packet have the same stamp of \
             the kernel's in their files, to the bit, as there is no clock page here: what one has \
             more than the other is what its presence does to the machine, or chance. These two \
             have {rounds} rounds, in turn, each other round in reverse order.",
            RATE / 1e3
        )
    }

    /// In each round, how much larger one's p99 is than another's.
    fn ratios(&self, tool: &str, other: &str) -> Vec<f64> {
        let row = |name: &str| self.rows.iter().find(|row| row.tool == name);
        match (row(tool), row(other)) {
            (Some(tool), Some(other)) => {
                let pairs = tool.spreads.iter().zip(&other.spreads);
                pairs.map(|(a, b)| a.p99 / b.p99).collect()
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn report(&self, outcome: &mut Outcome) {
        let mut grid = Grid::new(
            "Jitter at a constant 20 kpps: medians over the rounds",
            [
                "program",
                "stamp p50",
                "p99",
                "least – greatest",
                "p99.9",
                "worst",
                "arrival p50",
                "p99",
                "p99.9",
            ],
        );
        for row in &self.rows {
            let (stamp, gap) = (Spread::median(&row.spreads), Spread::median(&row.gaps));
            let p99s: Vec<f64> = row.spreads.iter().map(|spread| spread.p99).collect();
            let (least, greatest) = range(&p99s);
            let range = format!("{} – {}", show_ns(least), show_ns(greatest));
            let front = [row.tool.to_owned(), show_ns(stamp.p50), show_ns(stamp.p99), range];
            let rest = [stamp.p999, stamp.most, gap.p50, gap.p99, gap.p999];
            grid.row(front.into_iter().chain(rest.map(show_ns)));
        }
        outcome.grids.push(grid);
        let ratios = self.ratios(peers::PACKET, peers::TCPDUMP_NANO);
        outcome.goals.push(Goal::at_most(
            "jitter p99 of packet's stamp against tcpdump's",
            ALLOWED,
            &Interval::of(&ratios),
        ));
    }

    pub(super) fn to_json(&self) -> Value {
        let spread = |spread: &Spread| json!({ "p50": spread.p50, "p99": spread.p99, "p999": spread.p999, "worst": spread.most });
        self.rows
            .iter()
            .map(|row| {
                json!({
                    "program": row.tool, "pps": RATE, "bytes": SIZE,
                    "stamp_ns": row.spreads.iter().map(spread).collect::<Value>(),
                    "arrival_ns": row.gaps.iter().map(spread).collect::<Value>(),
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_frames_that_follow_each_other_count() {
        let found = |number, time_ns, sent_ns| Found { number, time_ns, sent_ns };
        let all = [found(0, 100, 10), found(1, 205, 110), found(3, 400, 310), found(4, 499, 410)];
        assert_eq!(deviations(&all, 100.0), (vec![5.0, -1.0], vec![5.0, -1.0]));
        assert_eq!(deviations(&[], 100.0), (vec![], vec![]));
    }
}
