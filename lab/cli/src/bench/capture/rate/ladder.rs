//! Loss against the rate that is offered: the gap between frames.

use serde_json::{Value, json};

use super::RATES;
use crate::bench::capture::contest::Contest;
use crate::bench::capture::generator::{Order, Source};
use truechimer_outcome::outcome::{Figure, Grid, Outcome};
use truechimer_outcome::plot::{Axis, Plot};
use truechimer_outcome::stats::{median, range, show_rate, show_share};

/// Bytes of the frames.
const SIZE: usize = 64;
/// Rates offered, packets a second.
const RATES_OFFERED: [f64; 6] = [0.25e6, 0.5e6, 1e6, 1.5e6, 2e6, 3e6];
const QUICK: [f64; 2] = [0.5e6, 1.5e6];
/// Size that a socket is asked for: as much as it can.
const SOCKET_FRAMES: u32 = 400_000;

/// One tool at one rate.
struct Step {
    tool: &'static str,
    source: Source,
    asked: f64,
    offered: Vec<f64>,
    losses: Vec<f64>,
}

/// All of them.
pub(super) struct Ladder {
    steps: Vec<Step>,
}

pub(super) fn measure(contest: &mut Contest<'_>) -> Ladder {
    let options = contest.options;
    let rates: &[f64] = if options.quick { &QUICK } else { &RATES_OFFERED };
    let seconds = if options.quick { 0.4 } else { 1.0 };
    let orders = rates
        .iter()
        .map(|rate| Order::new(Source::Driver, SIZE, (rate * seconds) as u32).at(*rate))
        .chain([Order::new(Source::Wire, SIZE, (2e6 * seconds) as u32)])
        .chain([Order::new(Source::Socket, SIZE, SOCKET_FRAMES)]);
    let orders: Vec<_> = orders.collect();
    let mut steps: Vec<Step> = Vec::new();
    for round in 0..options.rounds(5, 1) {
        for order in &orders {
            for tool in contest.tools(&RATES) {
                let Some(trial) = contest.trial(&tool, order, false) else { continue };
                let (asked, source) = (order.rate, order.source);
                options.say(&format!(
                    "round {}, {source:?} {} offered, {}: {} lost",
                    round + 1,
                    show_rate(trial.sent.rate()),
                    tool.name,
                    show_share(trial.loss())
                ));
                let same = |step: &&mut Step| {
                    step.tool == tool.name && step.asked == asked && step.source == source
                };
                match steps.iter_mut().find(same) {
                    Some(step) => step.took(trial.sent.rate(), trial.loss()),
                    None => {
                        let mut step = Step {
                            tool: tool.name,
                            source,
                            asked,
                            offered: Vec::new(),
                            losses: Vec::new(),
                        };
                        step.took(trial.sent.rate(), trial.loss());
                        steps.push(step);
                    }
                }
            }
        }
    }
    Ladder { steps }
}

impl Step {
    fn took(&mut self, offered: f64, loss: f64) {
        self.offered.push(offered);
        self.losses.push(loss);
    }

    fn text(&self) -> String {
        let (_, worst) = range(&self.losses);
        let loss = format!("{} ({})", show_share(median(&self.losses)), show_share(worst));
        // A receive path that cannot take so much holds the generator up.
        let offered = median(&self.offered);
        if offered < self.asked * 0.95 || self.asked == 0.0 {
            format!("{loss} at {}", show_rate(offered))
        } else {
            loss
        }
    }
}

impl Ladder {
    fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<&str> = Vec::new();
        for step in &self.steps {
            if !names.contains(&step.tool) {
                names.push(step.tool);
            }
        }
        names
    }

    pub(super) fn report(&self, outcome: &mut Outcome) {
        let mut columns: Vec<(Source, f64)> = Vec::new();
        for step in &self.steps {
            if !columns.contains(&(step.source, step.asked)) {
                columns.push((step.source, step.asked));
            }
        }
        let head = columns.iter().map(|(source, rate)| match source {
            Source::Driver => format!("{} ({:.0} ns apart)", show_rate(*rate), 1e9 / rate),
            Source::Wire => "through the peer, unpaced".to_owned(),
            Source::Socket => "one socket, unpaced".to_owned(),
        });
        let mut grid = Grid::new(
            "Loss against the rate offered, frames of 64 bytes in bursts of 64: median (greatest), \
             and the rate where it was not what was asked for",
            std::iter::once("program".to_owned()).chain(head),
        );
        for name in self.names() {
            let cells = columns.iter().map(|column| {
                let same = |step: &&Step| step.tool == name && (step.source, step.asked) == *column;
                self.steps.iter().find(same).map_or_else(|| "–".to_owned(), Step::text)
            });
            grid.row(std::iter::once(name.to_owned()).chain(cells));
        }
        outcome.grids.push(grid);
        let lines = self.names().into_iter().map(|name| {
            let of_tool =
                self.steps.iter().filter(|step| step.tool == name && step.source == Source::Driver);
            let points =
                of_tool.map(|step| (median(&step.offered) / 1e6, median(&step.losses) * 100.0));
            (name.to_owned(), points.collect())
        });
        outcome.figures.push(Figure::Plot(Plot {
            title: "Loss (%) against the rate offered, frames of 64 bytes".to_owned(),
            x: Axis::linear("million packets a second"),
            y: Axis::linear("lost, %"),
            lines: lines.collect(),
        }));
        outcome.about.push(
            "Beside the generator in the driver's place there are two others: the same frames sent \
             through the veth peer, which costs the generator's processor more for each, and one \
             ordinary UDP socket on the other side. A socket cannot overload anything: that nobody \
             loses from it shows nothing about capture. Frames through the peer that the veth ring \
             itself dropped count as lost."
                .to_owned(),
        );
    }

    pub(super) fn to_json(&self) -> Value {
        self.steps
            .iter()
            .map(|step| {
                json!({
                    "program": step.tool, "source": format!("{:?}", step.source).to_lowercase(),
                    "bytes": SIZE, "asked_pps": step.asked, "offered_pps": step.offered,
                    "lost": step.losses,
                })
            })
            .collect()
    }
}
