//! The highest rate without loss, and the loss at overload.

use serde_json::{Value, json};
use truechimer_outcome::interval::Interval;
use truechimer_outcome::verdict::Verdict;

use super::RATES;
use crate::bench::capture::contest::Contest;
use crate::bench::capture::generator::{Order, Source};
use crate::bench::capture::options::Options;
use crate::bench::capture::peers::{self, Tool};
use crate::bench::capture::search::{Found, Search};
use crate::bench::capture::trial::Trial;
use truechimer_outcome::outcome::{Figure, Goal, Grid, Outcome};
use truechimer_outcome::plot::{Axis, Plot};
use truechimer_outcome::stats::{median, range, show_rate, show_share};

/// A rate found is right to within this.
const TOLERANCE: f64 = 0.05;
/// Nobody is asked for less.
const LEAST: f64 = 20e3;
/// Time for which frames come, s: long enough that no ring holds them all.
const SECONDS: f64 = 1.0;
const QUICK_SECONDS: f64 = 0.4;
/// The most frames of one trial, which bounds the memory they take.
const MOST_FRAMES: f64 = 6e6;
const LARGE_FRAMES: f64 = 1.2e6;

/// Results of one tool with one size of frames.
#[derive(Clone, PartialEq, Debug)]
struct Row {
    tool: &'static str,
    size: usize,
    /// For each round the highest rate without loss.
    rates: Vec<f64>,
    /// In how many rounds even the unpaced generator made it lose nothing.
    unbeaten: usize,
    /// Rates of the unpaced generator, packets a second, a trial each.
    offered: Vec<f64>,
    /// The share of that that was lost.
    losses: Vec<f64>,
    /// The greatest of these in each round.
    overloads: Vec<f64>,
    /// The share that the tool says it lost.
    own_words: Vec<f64>,
    /// Frames of each trial that were lost, and those that the tool says it lost, if it says any.
    silent: Vec<(u64, Option<u64>)>,
}

/// All of them.
pub(super) struct Most {
    rows: Vec<Row>,
}

pub(super) fn about(options: &Options) -> String {
    format!(
        "The highest rate without loss is searched for by bisection to within {} %, with {} s of \
         frames for each try; that a rate loses is believed when it does so twice. Where the \
         unpaced generator makes a program lose nothing, its rate is what is found (marked *).",
        TOLERANCE * 100.0,
        seconds(options)
    )
}

fn seconds(options: &Options) -> f64 {
    if options.quick { QUICK_SECONDS } else { SECONDS }
}

/// Number of frames for the time that is wanted.
fn frames(options: &Options, size: usize, rate: f64) -> u32 {
    let most = if size > 300 { LARGE_FRAMES } else { MOST_FRAMES };
    (rate * seconds(options)).clamp(10e3, most) as u32
}

pub(super) fn measure(contest: &mut Contest<'_>) -> Most {
    let options = contest.options;
    let sizes = options.sizes(&[64, 128, 256, 512, 1024, 1500], &[64, 1500]);
    let mut rows: Vec<Row> = Vec::new();
    for round in 0..options.rounds(Interval::LEAST_ROUNDS, 1) {
        for &size in &sizes {
            let mut tools = contest.tools(&RATES);
            // Who came first comes last: the machine may be getting busier, or less so.
            if round % 2 == 1 {
                tools.reverse();
            }
            for tool in tools {
                let place = rows.iter().position(|row| row.tool == tool.name && row.size == size);
                let place = place.unwrap_or_else(|| {
                    rows.push(Row::new(tool.name, size));
                    rows.len() - 1
                });
                let Some(row) = rows.get_mut(place) else { continue };
                let before = row.losses.len();
                let Some(found) = search(row, contest, &tool) else { continue };
                let new = row.losses.get(before..).unwrap_or_default();
                row.overloads.push(new.iter().copied().fold(f64::NAN, f64::max));
                options.say(&format!(
                    "round {}, {size} bytes, {}: {}, {} lost unpaced",
                    round + 1,
                    tool.name,
                    show_rate(found.rate()),
                    show_share(row.losses.last().copied().unwrap_or(f64::NAN)),
                ));
                row.rates.push(found.rate());
                row.unbeaten += usize::from(matches!(found, Found::AtLeast(_)));
            }
        }
    }
    rows.retain(|row| !row.rates.is_empty());
    Most { rows }
}

/// Overload first; then, if that was too much, bisection. `None` if the tool does not work.
fn search(row: &mut Row, contest: &mut Contest<'_>, tool: &Tool) -> Option<Found> {
    let options = contest.options;
    let guess = if row.offered.is_empty() { 2e6 } else { median(&row.offered) };
    let size = row.size;
    let mut try_at = |rate: f64| {
        let frames = frames(options, size, if rate > 0.0 { rate } else { guess });
        contest.trial(tool, &Order::new(Source::Driver, size, frames).at(rate), false)
    };
    let mut offered = 0.0;
    for _ in 0..2 {
        let trial = try_at(0.0)?;
        row.took(&trial);
        offered = trial.sent.rate();
        if trial.lost() == 0 {
            return Some(Found::AtLeast(offered));
        }
    }
    let mut search = Search::below(offered, LEAST, TOLERANCE);
    while let Some(rate) = search.next() {
        let trial = try_at(rate)?;
        search.tried(trial.sent.rate(), trial.lost() > 0);
    }
    Some(search.found().unwrap_or(Found::Below(LEAST)))
}

impl Row {
    fn new(tool: &'static str, size: usize) -> Row {
        Row {
            tool,
            size,
            rates: Vec::new(),
            unbeaten: 0,
            offered: Vec::new(),
            losses: Vec::new(),
            overloads: Vec::new(),
            own_words: Vec::new(),
            silent: Vec::new(),
        }
    }

    fn took(&mut self, trial: &Trial) {
        self.offered.push(trial.sent.rate());
        self.losses.push(trial.loss());
        let own = trial.own_word.map_or(f64::NAN, |lost| lost as f64);
        self.own_words.push(own / trial.sent.frames as f64);
        self.silent.push((trial.lost(), trial.own_word));
    }
}

impl Most {
    fn row(&self, tool: &str, size: usize) -> Option<&Row> {
        self.rows.iter().find(|row| row.tool == tool && row.size == size)
    }

    fn sizes(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.rows.iter().map(|row| row.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !names.contains(&row.tool) {
                names.push(row.tool);
            }
        }
        names
    }

    /// In each round, how much more one does than the better of the others.
    fn ratios(&self, tool: &str, others: &[&str], size: usize) -> Interval {
        let rates = |tool: &str| self.row(tool, size).map(|row| row.rates.as_slice());
        let Some(own) = rates(tool) else { return Interval::of(&[]) };
        let others: Option<Vec<&[f64]>> = others.iter().map(|other| rates(other)).collect();
        let ratio = |(n, own): (usize, &f64)| {
            let theirs = others.iter().flatten().map(|rates| rates.get(n).copied());
            let best = theirs.flatten().fold(f64::NAN, f64::max);
            own / best
        };
        Interval::of(&own.iter().enumerate().map(ratio).collect::<Vec<_>>())
    }

    /// In each round, how much more of the overload one loses than another.
    fn excess(&self, tool: &str, other: &str, size: usize) -> Interval {
        let losses = |tool| self.row(tool, size).map_or(&[][..], |row: &Row| &row.overloads);
        let pairs = losses(tool).iter().zip(losses(other));
        Interval::of(&pairs.map(|(a, b)| a - b).collect::<Vec<_>>())
    }

    pub(super) fn report(&self, outcome: &mut Outcome) {
        let sizes = self.sizes();
        let mut rates = Grid::new(
            "Highest rate without loss: median over the rounds (least – greatest)",
            std::iter::once("program".to_owned())
                .chain(sizes.iter().map(|size| format!("{size} B"))),
        );
        let mut losses = Grid::new(
            "Loss at overload (unpaced generator): packets offered a second; lost, median (greatest); lost by its own word, median",
            std::iter::once("program".to_owned())
                .chain(sizes.iter().map(|size| format!("{size} B"))),
        );
        for name in self.names() {
            let rows = || sizes.iter().map(|&size| self.row(name, size));
            let named = || std::iter::once(name.to_owned());
            let rate = |row: Option<&Row>| row.map_or_else(|| "–".to_owned(), Row::rate_text);
            let loss = |row: Option<&Row>| row.map_or_else(|| "–".to_owned(), Row::loss_text);
            rates.row(named().chain(rows().map(rate)));
            losses.row(named().chain(rows().map(loss)));
        }
        outcome.grids.extend([rates, losses]);
        let lines = self.names().into_iter().map(|name| {
            let points = sizes.iter().filter_map(|&size| {
                Some((size as f64, median(&self.row(name, size)?.rates) / 1e6))
            });
            (name.to_owned(), points.collect())
        });
        outcome.figures.push(Figure::Plot(Plot {
            title: "Highest rate without loss, million frames a second".to_owned(),
            x: Axis::linear("bytes of a frame"),
            y: Axis::linear("million packets a second"),
            lines: lines.collect(),
        }));
        self.goals(outcome);
    }

    fn goals(&self, outcome: &mut Outcome) {
        let sizes = self.sizes();
        for &size in &sizes {
            outcome.goals.push(Goal::at_least(
                &format!("packet against tcpdump with the same ring, {size} bytes"),
                1.0 - TOLERANCE,
                &self.ratios(peers::PACKET, &[peers::TCPDUMP_RING], size),
            ));
        }
        let excesses =
            sizes.iter().map(|&size| self.excess(peers::PACKET, peers::TCPDUMP_RING, size));
        let excesses: Vec<Interval> = excesses.collect();
        let worst = excesses.iter().max_by(|a, b| a.median.total_cmp(&b.median)).copied();
        let percent = |share: f64| format!("{:+.2} %", share * 100.0);
        outcome.goals.push(Goal {
            name: "packet's loss at overload, at the worst size".to_owned(),
            wanted: "≤ tcpdump's with the same ring + 0.1 %".to_owned(),
            measured: worst.unwrap_or_else(|| Interval::of(&[])).text(percent),
            verdict: Verdict::all(excesses.iter().map(|one| Verdict::at_most(1e-3, one))),
        });
        outcome.goals.extend(self.silences());
        let what = "without loss at 64 bytes, against tcpdump's better ring";
        let rings = ["tcpdump", peers::TCPDUMP_RING];
        for (name, tool, wanted) in [
            ("xdp with the stamp in XDP", peers::XDP_STAMP, 2.0),
            ("xdp with the stamp at dequeue", peers::XDP_DEQUEUE, 2.5),
            ("aim: xdp with the stamp in XDP", peers::XDP_STAMP, 3.5),
            ("aim: packet", peers::PACKET, 1.3),
        ] {
            outcome.goals.push(Goal::at_least(
                &format!("{name} {what}"),
                wanted,
                &self.ratios(tool, &rings, 64),
            ));
        }
    }

    /// Goals that our ways to capture must keep: nothing is lost in silence, and at every size more than
    /// tcpdump. The first is decided by one trial.
    fn silences(&self) -> Vec<Goal> {
        let ours = [peers::PACKET, peers::XDP_STAMP, peers::XDP_DEQUEUE, peers::XDP_COPY];
        let rows = self.rows.iter().filter(|row| ours.contains(&row.tool));
        let trials: Vec<_> = rows.flat_map(|row| &row.silent).collect();
        let differ = trials.iter().filter(|(lost, word)| Some(*lost) != *word).count();
        let mut silence = Goal::counted(
            "no silent loss: what ours say that they lost is what was lost, in every trial",
            "0 trials that differ",
            format!("{differ} of {}", trials.len()),
            differ == 0,
        );
        if trials.is_empty() {
            silence.verdict = Verdict::Open("not measured".to_owned());
        }
        let rings = ["tcpdump", peers::TCPDUMP_RING];
        let ratios = self.sizes().into_iter().map(|size| {
            let name = format!(
                "aim: xdp with the stamp in XDP, more than tcpdump's better ring, {size} bytes"
            );
            Goal::at_least(&name, 1.0, &self.ratios(peers::XDP_STAMP, &rings, size))
        });
        std::iter::once(silence).chain(ratios).collect()
    }

    /// Rates without loss at the smallest size: ours by either way, and tcpdump's better ring.
    pub(super) fn headline(&self) -> Vec<(String, String)> {
        let size = self.sizes().first().copied().unwrap_or(64);
        let rate = |tool: &str| self.row(tool, size).map(|row| median(&row.rates));
        let tcpdump = ["tcpdump", peers::TCPDUMP_RING].into_iter().filter_map(rate);
        let tcpdump = tcpdump.reduce(f64::max);
        [("xdp", rate(peers::XDP_STAMP)), ("packet", rate(peers::PACKET)), ("tcpdump", tcpdump)]
            .into_iter()
            .filter_map(|(name, rate)| {
                Some((format!("{name}, {size} bytes, without loss"), show_rate(rate?)))
            })
            .collect()
    }

    pub(super) fn to_json(&self) -> Value {
        self.rows
            .iter()
            .map(|row| {
                json!({
                    "program": row.tool, "bytes": row.size, "without_loss_pps": row.rates,
                    "rounds_without_any_loss": row.unbeaten, "offered_pps": row.offered,
                    "lost": row.losses, "lost_by_own_word": row.own_words,
                })
            })
            .collect()
    }
}

impl Row {
    fn rate_text(&self) -> String {
        let (low, high) = range(&self.rates);
        let star = if self.unbeaten * 2 > self.rates.len() { "*" } else { "" };
        format!("{}{star} ({} – {})", show_rate(median(&self.rates)), mega(low), mega(high))
    }

    fn loss_text(&self) -> String {
        format!(
            "{}; {} ({}); {}",
            show_rate(median(&self.offered)),
            show_share(median(&self.losses)),
            show_share(range(&self.losses).1),
            show_share(median(&self.own_words))
        )
    }
}

fn mega(rate: f64) -> String {
    format!("{:.2}", rate / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tool: &'static str, rates: &[f64], overloads: &[f64]) -> Row {
        Row { rates: rates.to_vec(), overloads: overloads.to_vec(), ..Row::new(tool, 64) }
    }

    fn met(rows: Vec<Row>) -> Vec<Option<bool>> {
        let mut outcome = Outcome::default();
        Most { rows }.goals(&mut outcome);
        outcome.goals.iter().map(|goal| goal.verdict.met()).collect()
    }

    #[test]
    fn programs_are_judged_within_rounds() {
        // A slow round is slow for both.
        let theirs = [1.5e6, 0.5e6, 1.5e6, 1.5e6, 1.5e6, 1.5e6];
        let rows = |share: f64, loss: f64| {
            let ours = theirs.map(|rate| rate * share);
            vec![
                row(peers::TCPDUMP_RING, &theirs, &[0.1; 6]),
                row("tcpdump", &theirs.map(|rate| rate / 2.0), &[0.2; 6]),
                row(peers::PACKET, &ours, &[0.1 + loss; 6]),
                row(peers::XDP_STAMP, &theirs.map(|rate| rate * 2.2), &[0.0; 6]),
            ]
        };
        let some =
            |met: Vec<Option<bool>>| [met[0], met[1], met[3], met[4], met[5], met[6], met[7]];
        let [yes, no] = [Some(true), Some(false)];
        // Against tcpdump, at overload; more at 64 bytes; 2 times, 2.5 times; the aims of 3.5 and 1.3 times.
        assert_eq!(some(met(rows(0.98, 0.0))), [yes, yes, yes, yes, None, no, no]);
        assert_eq!(some(met(rows(0.90, 0.05))), [no, no, yes, yes, None, no, no]);
        // One round that lost decides nothing, nor do five rounds.
        let mut once = rows(0.98, 0.0);
        once[2].overloads[3] = 0.9;
        once[2].rates[3] = 0.1e6;
        assert_eq!(met(once)[..2], [None, None]);
        let mut few = rows(0.90, 0.05);
        few.iter_mut().for_each(|row| row.rates.truncate(5));
        assert_eq!(met(few)[0], None);
    }

    #[test]
    fn one_packet_that_is_lost_in_silence_is_enough() {
        let judged = |silent: &[(u64, Option<u64>)]| {
            let rows = vec![
                Row { silent: silent.to_vec(), ..row(peers::PACKET, &[1e6; 6], &[0.1; 6]) },
                Row { silent: vec![(5, Some(4))], ..row("tcpdump", &[1e6; 6], &[0.1; 6]) },
            ];
            Most { rows }.silences()[0].verdict.met()
        };
        assert_eq!(judged(&[(0, Some(0)), (7, Some(7))]), Some(true));
        assert_eq!(judged(&[(0, Some(0)), (7, Some(6))]), Some(false));
        assert_eq!(judged(&[(0, Some(0)), (7, Some(8))]), Some(false));
        assert_eq!(judged(&[(7, None)]), Some(false));
        assert_eq!(judged(&[]), None, "nothing was measured");
    }
}
