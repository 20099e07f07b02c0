//! A thread for conversion against conversion inline: processor time, and loss at overload.

use serde_json::{Value, json};

use crate::bench::capture::contest::Contest;
use crate::bench::capture::generator::{Order, Source};
use crate::bench::capture::options::Options;
use crate::bench::capture::peers::{self, PACKET, PACKET_INLINE, XDP_INLINE, XDP_STAMP};
use crate::bench::capture::trial::{Places, Trial};
use truechimer_outcome::outcome::{Failure, Grid, Outcome};
use truechimer_outcome::stats::{median, range, show_rate, show_share};

const TOOLS: [&str; 4] = [PACKET, PACKET_INLINE, XDP_STAMP, XDP_INLINE];
const SIZE: usize = 64;
/// A rate that nobody should lose anything at.
const EASY: f64 = 300e3;

/// One tool, one way to give it processors, one rate.
#[derive(Default)]
struct Row {
    tool: &'static str,
    apart: bool,
    paced: bool,
    /// Ns of processor time for each packet written: by thread, and of all; a figure for each
    /// round.
    threads: Vec<(String, Vec<f64>)>,
    total: Vec<f64>,
    offered: Vec<f64>,
    losses: Vec<f64>,
}

/// Measures it.
///
/// # Errors
/// Where the bed cannot be made.
pub fn run(options: &Options) -> Result<Outcome, Failure> {
    let mut contest = Contest::new(options)?;
    let seconds = if options.quick { 0.5 } else { 1.5 };
    let split = Places::split();
    let free = Places { tool: None, ..split.clone() };
    let mut rows: Vec<Row> = Vec::new();
    for round in 0..options.rounds(7, 1) {
        for (apart, places) in [(true, &split), (false, &free)] {
            contest.stage.places = places.clone();
            for rate in [EASY, 0.0] {
                let frames = if rate > 0.0 { rate * seconds } else { 3e6 * seconds };
                let order = Order::new(Source::Driver, SIZE, frames as u32).at(rate);
                for tool in contest.tools(&TOOLS) {
                    let Some(trial) = contest.trial(&tool, &order, false) else { continue };
                    let paced = rate > 0.0;
                    if !rows.iter().any(|row| row.is(tool.name, apart, paced)) {
                        rows.push(Row { tool: tool.name, apart, paced, ..Row::default() });
                    }
                    let same = |row: &&mut Row| row.is(tool.name, apart, paced);
                    let Some(row) = rows.iter_mut().find(same) else { continue };
                    row.took(&trial);
                    options.say(&format!(
                        "round {}, {}: {:.0} ns a packet, {} lost at {}",
                        round + 1,
                        row.name(),
                        row.total.last().copied().unwrap_or(f64::NAN),
                        show_share(trial.loss()),
                        show_rate(trial.sent.rate())
                    ));
                }
            }
        }
    }
    Ok(outcome(&rows, &contest, &split))
}

impl Row {
    fn is(&self, tool: &str, apart: bool, paced: bool) -> bool {
        self.tool == tool && self.apart == apart && self.paced == paced
    }

    fn name(&self) -> String {
        let places = if self.apart { "own processors" } else { "any processor" };
        format!("{}, {places}", self.tool)
    }

    fn took(&mut self, trial: &Trial) {
        let each = |seconds: f64| seconds * 1e9 / (trial.captured as f64).max(1.0);
        for (name, seconds) in &trial.threads {
            match self.threads.iter_mut().find(|(known, _)| known == name) {
                Some((_, figures)) => figures.push(each(*seconds)),
                None => self.threads.push((name.clone(), vec![each(*seconds)])),
            }
        }
        self.total.push(each(trial.threads.iter().map(|(_, seconds)| seconds).sum()));
        self.offered.push(trial.sent.rate());
        self.losses.push(trial.loss());
    }

    fn threads_text(&self) -> String {
        let all = self.threads.iter().map(|(name, figures)| (name, median(figures)));
        let all = all.filter(|(_, ns)| *ns >= 1.0);
        all.map(|(name, ns)| format!("{name} {ns:.0}")).collect::<Vec<_>>().join(" + ")
    }
}

fn outcome(rows: &[Row], contest: &Contest<'_>, split: &Places) -> Outcome {
    let mut about = vec![
        format!(
            "Frames of {SIZE} bytes are captured into memory (tmpfs), once at {}, which nobody \
             loses anything of, and once as fast as they can be made. The processor time of each \
             of the program's threads (schedstat) is divided by the packets in the file; it \
             contains all that the program does: taking, converting, encoding, writing.",
            show_rate(EASY)
        ),
        split.text(),
        "On \"any processor\" the program's threads may also run on the generator's, which takes \
         time from the receive path. With so few processors as here, two threads of one program \
         share one processor while the generator is busy: a machine with a processor for each \
         would show the thread at its best, this one shows it at its worst."
            .to_owned(),
    ];
    about.extend(contest.missing());
    let mut grid = Grid::new(
        "Conversion in a thread of its own, or inline: medians over the rounds",
        ["program", "load", "ns a packet", "by thread", "offered", "lost (greatest)"],
    );
    for row in rows {
        grid.row([
            row.name(),
            if row.paced { "easy" } else { "overload" }.to_owned(),
            format!("{:.0}", median(&row.total)),
            row.threads_text(),
            show_rate(median(&row.offered)),
            format!("{} ({})", show_share(median(&row.losses)), show_share(range(&row.losses).1)),
        ]);
    }
    about.push(verdict(rows));
    let json: Value = rows
        .iter()
        .map(|row| {
            json!({
                "program": row.tool, "own_processors": row.apart, "paced": row.paced,
                "ns_a_packet": row.total, "offered_pps": row.offered, "lost": row.losses,
                "threads": row.threads.iter().map(|(name, ns)| json!({ "name": name, "ns": ns }))
                    .collect::<Value>(),
            })
        })
        .collect();
    Outcome {
        name: "conversion",
        title: "Conversion in a thread of its own, or inline".to_owned(),
        headline: headline(rows),
        about,
        grids: vec![grid],
        json,
        ..Outcome::default()
    }
}

/// Processor time a packet by thread and inline at an easy load, and the greatest loss there.
fn headline(rows: &[Row]) -> Vec<(String, String)> {
    let easy = |tool: &str| rows.iter().find(|row| row.is(tool, true, true));
    let time = |tool: &str| easy(tool).map(|row| format!("{:.0} ns", median(&row.total)));
    let losses: Vec<f64> =
        rows.iter().filter(|row| row.paced).flat_map(|r| r.losses.clone()).collect();
    let named = |name: &str, value: Option<String>| Some((name.to_owned(), value?));
    [
        named("packet, a packet, by a thread", time(PACKET)),
        named("packet, a packet, inline", time(PACKET_INLINE)),
        named("greatest loss at an easy load", Some(show_share(range(&losses).1))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Which of the two loses less at overload, in words.
fn verdict(rows: &[Row]) -> String {
    let pairs = [(PACKET, PACKET_INLINE), (peers::XDP_STAMP, XDP_INLINE)];
    let mut said = Vec::new();
    for (thread, inline) in pairs {
        for apart in [true, false] {
            let of = |tool: &str| rows.iter().find(|row| row.is(tool, apart, false));
            let (Some(a), Some(b)) = (of(thread), of(inline)) else { continue };
            let pairs = a.losses.iter().zip(&b.losses);
            let less = pairs.clone().filter(|(a, b)| a < b).count();
            let more = pairs.filter(|(a, b)| a > b).count();
            said.push(format!(
                "{}: the thread lost less than inline in {less} of {} rounds at overload and more \
                 in {more}, and costs {:.2} × the processor time a packet",
                a.name(),
                a.losses.len().min(b.losses.len()),
                median(&a.total) / median(&b.total)
            ));
        }
    }
    if said.is_empty() { "Nothing to compare.".to_owned() } else { format!("{}.", said.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_counts_rounds() {
        let row = |tool, losses: &[f64], cost| Row {
            tool,
            apart: true,
            paced: false,
            threads: Vec::new(),
            total: vec![cost; losses.len()],
            offered: Vec::new(),
            losses: losses.to_vec(),
        };
        let rows =
            [row(PACKET, &[0.0, 0.1, 0.3], 150.0), row(PACKET_INLINE, &[0.1, 0.1, 0.2], 100.0)];
        let text = verdict(&rows);
        assert!(text.contains("less than inline in 1 of 3 rounds"), "{text}");
        assert!(text.contains("more in 1") && text.contains("1.50 ×"), "{text}");
        assert_eq!(verdict(&[]), "Nothing to compare.");
    }
}
