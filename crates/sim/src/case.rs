//! The case for feed-forward, redone: the experiments by which the paper made it (Ridoux, Veitch,
//! Broomhead, "The Case for Feed-Forward Clock Synchronization"), in simulation, with feed-forward
//! and feedback clocks on identical packets.
//!
//! The paper's machines stood beside a GPS reference; here the truth is known exactly. Its feedback
//! clock was ntpd; here it is the textbook loop of RFC 5905, and a PI servo beside it.

use truechimer_engine::EstimatorKind;
use truechimer_report::{
    Cell, Chart, FiveNumbers, Histogram, Page, Section, Series, Table, Unit, View,
};

use crate::catalogue::find;
use crate::host::{Load, RequestDelay};
use crate::path::Outage;
use crate::report;
use crate::statistics::Statistics;
use crate::world::{Run, simulate_alike};
use crate::{Scenario, ScenarioError};

/// The clocks, feed-forward first.
pub const CLOCKS: [EstimatorKind; 4] =
    [EstimatorKind::Ours, EstimatorKind::Published, EstimatorKind::NtpPll, EstimatorKind::Pi];

/// One experiment: clocks side by side in one or several scenarios.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// What it is called.
    pub title: &'static str,
    /// What is done, and what to look for.
    pub text: &'static str,
    /// What tells the scenarios apart.
    apart: &'static str,
    /// The scenarios, each with what tells it from the others.
    pub scenarios: Vec<(String, Scenario)>,
    shows: Shows,
}

/// What there is to see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shows {
    /// The error over time, and how it is distributed.
    Error,
    /// How fast it becomes small.
    Start,
    /// How it is distributed, from scenario to scenario.
    Distributions,
}

/// What one clock did in one scenario.
#[derive(Clone, Debug)]
pub struct Outcome {
    clock: EstimatorKind,
    statistics: Statistics,
    /// Second and error, s; empty where only distributions are shown.
    errors: Vec<(f64, f64)>,
    /// Second and ± bound, s, likewise.
    bounds: Vec<(f64, f64)>,
    warm_up: f64,
    /// Whether the bound has to hold.
    promised: bool,
}

/// All experiments, each `scale` times as long as in full. At least 0.01.
///
/// # Errors
/// If that makes one of them too short or too long to be run.
pub fn experiments(scale: f64) -> Result<Vec<Experiment>, ScenarioError> {
    let scaled = |scenario: Scenario, hours: f64| scenario.with_hours((hours * scale).max(0.5));
    let known = |name: &str| find(name).map_err(|why| ScenarioError::new(why.to_string()));
    let one = |scenario: Scenario| vec![(String::new(), scenario)];

    let mut loaded = known("lan-bursts-both")?;
    loaded.name = "congestion-and-load".into();
    loaded.host.stamps = known("noisy-host")?.host.stamps;
    loaded.host.loads = bursts(28.0)
        .map(|(from_s, to_s)| Load { from_s, to_s, factor: 20.0, stalls: 0.05, stall_ms: 20.0 })
        .collect();
    let mut start = known("lan")?;
    start.warm_up_hours = 0.0;
    let mut delayed = known("lan")?;
    delayed.name = "small-delays".into();
    delayed.host.request_delays = [100.0, 300.0, 1000.0]
        .into_iter()
        .zip([6.0, 12.0, 18.0])
        .map(|(by_us, hour)| RequestDelay {
            from_s: 3600.0 * hour * scale,
            to_s: 3600.0 * (hour + 2.0) * scale,
            by_us,
        })
        .collect();
    let mut gone = known("lan")?;
    gone.name = "two-hours-away".into();
    for server in &mut gone.servers {
        for path in [&mut server.forward, &mut server.backward] {
            path.outages = vec![Outage { from_s: 36_000.0 * scale, to_s: 43_200.0 * scale }];
        }
    }
    let mut experiments = vec![
        Experiment {
            title: "A quiet LAN",
            text: "Nothing disturbs anybody. The width of the histograms is what each clock makes of \
                   the same packets.",
            scenarios: one(scaled(known("lan")?, 28.0)?),
            apart: "",
            shows: Shows::Error,
        },
        Experiment {
            title: "Congestion",
            text: "Seven minutes in every seventeen, both directions queue for a millisecond on \
                   average. A feedback clock that believes its newest packet is pushed about.",
            scenarios: one(scaled(known("lan-bursts-both")?, 28.0)?),
            apart: "",
            shows: Shows::Error,
        },
        Experiment {
            title: "Congestion and a busy host",
            text: "The same, while the host takes twenty times as long to stamp and to wake, and is held \
                   up for as much as 20 ms now and then.",
            scenarios: one(scaled(loaded, 28.0)?),
            apart: "",
            shows: Shows::Error,
        },
        Experiment {
            title: "Start-up",
            text: "The first hour, from the first request. No clock knows anything but the nominal \
                   rate of the counter, which is 10 ppm wrong.",
            scenarios: one(start.with_hours(1.0)?),
            apart: "",
            shows: Shows::Start,
        },
        Experiment {
            title: "Two hours without a server",
            text: "The network is gone from hour 10 to hour 12 and then comes back. While it is gone \
                   the clocks live on the rate that they know; when it is back a feedback loop has an \
                   error to work off, and a feed-forward clock has new data.",
            scenarios: one(scaled(gone, 28.0)?),
            apart: "",
            shows: Shows::Error,
        },
        Experiment {
            title: "Small delays added to the client's packets",
            text: "From hour 6, 12 and 18 on, for two hours each, the client's requests are held up by \
                   0.1, 0.3 and 1 ms after they have been stamped. Half of that cannot be told from an \
                   offset by anybody; what a clock adds to it is its own doing.",
            scenarios: one(scaled(delayed, 28.0)?),
            apart: "",
            shows: Shows::Error,
        },
        Experiment {
            title: "A long run at a slow poll",
            text: "A week at one request in 256 s.",
            scenarios: one(scaled(known("lan")?.with_poll(256)?, 168.0)?),
            apart: "",
            shows: Shows::Error,
        },
    ];
    let mut several = Vec::new();
    for adaptive in [None, Some([64, 1024])] {
        for servers in 1..=5 {
            let mut scenario = servers_of(known("city-64")?, servers);
            scenario.adaptive = adaptive;
            let poll = adaptive.map_or("64 s", |_| "adaptive");
            let scenario = scaled(scenario.with_poll(64)?, 48.0)?;
            several.push((format!("{servers}, {poll}"), scenario));
        }
    }
    experiments.push(Experiment {
        title: "One to five servers, fixed and adaptive polling",
        text: "Servers in the same city, at a poll of 64 s, or of 64 to 1024 s as the loop of RFC 5905 \
               chooses; all clocks get the packets that it asked for. A feedback loop has \
               one system clock for each server here, and one of them is followed at a time; a real \
               daemon has one in all.",
        apart: "servers, poll",
        scenarios: several,
        shows: Shows::Distributions,
    });
    let mut far = Vec::new();
    for (place, rtt) in [("near", "0.3 ms"), ("city", "0.9 ms"), ("far", "38 ms")] {
        for poll in [16, 64, 256, 1024] {
            let scenario = scaled(known(&format!("{place}-{poll}"))?, 96.0)?;
            far.push((format!("{rtt}, {poll} s"), scenario));
        }
    }
    experiments.push(Experiment {
        title: "Near and far, fast and slow",
        text: "A server near by (a round trip of 0.3 ms), in the same city (0.9 ms), and far away \
               (38 ms), asked every 16 to 1024 s.",
        apart: "round trip, poll",
        scenarios: far,
        shows: Shows::Distributions,
    });
    Ok(experiments)
}

/// The bursts of the reference scenarios within so many hours.
fn bursts(hours: f64) -> impl Iterator<Item = (f64, f64)> {
    (0..)
        .map(|n| 600.0 + 1020.0 * f64::from(n))
        .map(|from| (from, from + 420.0))
        .take_while(move |(_, to)| *to < hours * 3600.0)
}

/// The same scenario with so many servers like its first.
fn servers_of(mut scenario: Scenario, servers: usize) -> Scenario {
    if let Some(first) = scenario.servers.first().cloned() {
        scenario.servers = (0..servers)
            .map(|n| {
                let mut server = first.clone();
                server.name = format!("{}-{}", first.name, n + 1);
                server
            })
            .collect();
    }
    scenario
}

impl Outcome {
    /// Root mean square of the error, µs.
    #[must_use]
    pub fn rms_us(&self) -> f64 {
        self.statistics.error.rms_us
    }
}

impl Experiment {
    /// How many virtual hours its scenarios last, all together.
    #[must_use]
    pub fn hours(&self) -> f64 {
        self.scenarios.iter().map(|(_, scenario)| scenario.hours).sum()
    }

    /// Runs every clock in one of its scenarios, all on the same packets.
    ///
    /// # Errors
    /// If the scenario cannot be run.
    pub fn run(&self, scenario: &Scenario, seed: u64) -> Result<Vec<Outcome>, ScenarioError> {
        let outcome = |clock| Ok(self.reduced(clock, &simulate_alike(scenario, clock, seed)?));
        CLOCKS.into_iter().map(outcome).collect()
    }

    /// What will be shown of a run.
    fn reduced(&self, clock: EstimatorKind, run: &Run) -> Outcome {
        let trace = &run.trace;
        let kept = if self.shows == Shows::Distributions { &[][..] } else { &trace.samples };
        let known = || kept.iter().filter(|s| s.error.is_finite());
        Outcome {
            clock,
            statistics: Statistics::of(&[trace]),
            errors: known().map(|s| (s.at, s.error)).collect(),
            bounds: known().filter(|s| s.status.bound_holds()).map(|s| (s.at, s.bound)).collect(),
            warm_up: trace.warm_up,
            promised: trace.honest,
        }
    }

    /// Its part of the report; the outcomes are in the order of the scenarios.
    #[must_use]
    pub fn section(&self, outcomes: &[Vec<Outcome>]) -> Section {
        let section = Section::new(self.title).text(self.text);
        match (self.shows, outcomes) {
            (Shows::Error, [one]) => {
                section.table(table(one)).chart(error_chart(one)).chart(histogram(one))
            }
            (Shows::Start, [one]) => section.table(start_table(one)).chart(start_chart(one)),
            _ => section.chart(self.boxes(outcomes)).table(self.percentiles(outcomes)),
        }
    }

    fn boxes(&self, outcomes: &[Vec<Outcome>]) -> Chart {
        let places = self.scenarios.iter().map(|(label, _)| label.clone());
        let chart = Chart::places("Percentiles 1, 25, 50, 75 and 99 of the error", places)
            .y("clock − truth", Unit::Seconds)
            .view(View::symmetric_log("both sides of zero, logarithmic", 1e-5));
        CLOCKS.iter().enumerate().fold(chart, |chart, (index, &clock)| {
            let boxes = outcomes.iter().enumerate().filter_map(|(at, outcomes)| {
                let outcome = outcomes.iter().find(|o| o.clock == clock)?;
                Some((at as f64, five(&outcome.statistics)))
            });
            chart.with(Series::boxes(name(clock), boxes).colour(index))
        })
    }

    fn percentiles(&self, outcomes: &[Vec<Outcome>]) -> Table {
        let head = [self.apart, "clock", "1 %", "25 %", "50 %", "75 %", "99 %", "RMS"];
        let mut table = Table::new("Percentiles of clock − truth").head(head);
        for ((label, _), outcomes) in self.scenarios.iter().zip(outcomes) {
            for outcome in outcomes {
                let s = &outcome.statistics.error;
                let values = [s.p1_us, s.p25_us, s.median_us, s.p75_us, s.p99_us, s.rms_us];
                let cells = std::iter::once(Cell::text(name(outcome.clock)))
                    .chain(values.map(|us| Cell::number(us * 1e-6, Unit::Seconds)));
                table = table.row(label.as_str(), cells);
            }
        }
        table
    }
}

/// The name that the command line knows a clock by.
#[must_use]
pub fn name(clock: EstimatorKind) -> &'static str {
    match clock {
        EstimatorKind::Ours => "ours",
        EstimatorKind::Published => "published",
        EstimatorKind::Pi => "pi",
        EstimatorKind::NtpPll => "ntp-pll",
    }
}

/// The report on all experiments, each `scale` times as long as in full.
#[must_use]
pub fn page(sections: Vec<Section>, scale: f64, command: &str, version: &str) -> Page {
    let mut page = Page::new("The case for feed-forward, redone");
    if scale != 1.0 {
        page = page.highlight("of the full length", Cell::number(scale, Unit::Share));
    }
    let shortened = if scale < 1.0 {
        " The experiments were shortened: the hours named in the texts are those of the full length, \
         and the feedback clocks had less time to settle than they need."
    } else {
        ""
    };
    page.about(&format!(
            "{}{shortened}",
            "The experiments of Ridoux, Veitch and Broomhead, \"The Case for Feed-Forward Clock \
             Synchronization\", in simulation. ours: Truechimer's own estimator; published: the \
             RADclock algorithm; ntp-pll: the textbook loop of RFC 5905; pi: a textbook PI servo. The \
             first two leave the counter alone; the last two steer a system clock and take their \
             stamps from it. The packets are the same for all."
        ))
        .command(command)
        .version(version)
        .detail(1500)
        .sections(sections)
}

fn five(statistics: &Statistics) -> FiveNumbers {
    let e = &statistics.error;
    [e.p1_us, e.p25_us, e.median_us, e.p75_us, e.p99_us].map(|us| us * 1e-6)
}

fn seconds(us: f64) -> Cell {
    Cell::number(us * 1e-6, Unit::Seconds)
}

fn table(outcomes: &[Outcome]) -> Table {
    let head =
        ["clock", "median", "IQR", "1 %", "99 %", "largest", "RMS", "inside its bound", "bound"];
    let mut table =
        Table::new("Clock − truth once a second, without the time to settle").head(head);
    for outcome in outcomes {
        let (s, e) = (&outcome.statistics, &outcome.statistics.error);
        let inside = s.inside_bound;
        table = table.row(
            name(outcome.clock),
            [
                seconds(e.median_us),
                seconds(e.iqr_us),
                seconds(e.p1_us),
                seconds(e.p99_us),
                seconds(e.max_us),
                seconds(e.rms_us),
                report::inside(&inside, outcome.promised),
                seconds(s.bound_median_us),
            ],
        );
    }
    table
}

/// Every clock's error, the first one's bound behind them.
fn error_chart(outcomes: &[Outcome]) -> Chart {
    let settled = |o: &Outcome| {
        let warm_up = o.warm_up;
        let after = o.errors.iter().filter(move |(at, _)| *at >= warm_up);
        after.fold(0.0_f64, |most, (_, error)| most.max(error.abs()))
    };
    let widest = outcomes.iter().map(settled).fold(1e-6, f64::max) * 1.05;
    let ours = outcomes.first().map_or(widest, |o| 1.05 * settled(o).max(1e-6));
    let mut chart = Chart::time("Error")
        .y("clock − truth", Unit::Seconds)
        .view(View::range("after settling", -widest, widest))
        .view(View::range("ours", -ours, ours))
        .view(View::symmetric_log("all, logarithmic", 1e-6));
    if let Some(first) = outcomes.first() {
        let band = first.bounds.iter().map(|&(at, bound)| (at, -bound, bound));
        chart = chart.with(Series::band("bound of ours", band).colour(0).behind().hidden());
    }
    // The quietest on top.
    for (index, outcome) in outcomes.iter().enumerate().rev() {
        let line = Series::line(name(outcome.clock), outcome.errors.iter().copied());
        chart = chart.with(line.colour(index));
    }
    chart
}

fn histogram(outcomes: &[Outcome]) -> Chart {
    let all = Histogram::new("How the errors are distributed", Unit::Seconds);
    let with = |histogram: Histogram, o: &Outcome| {
        let settled = o.errors.iter().filter(|(at, _)| *at >= o.warm_up).map(|(_, error)| *error);
        histogram.values(name(o.clock), settled)
    };
    outcomes.iter().fold(all, with).chart()
}

fn start_table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new("From the first request until the error stayed smaller for 300 s");
    let mut head = vec!["clock".to_owned()];
    if let Some(first) = outcomes.first() {
        let threshold =
            |us: f64| if us < 1000.0 { format!("{us} µs") } else { format!("{} ms", us / 1e3) };
        head.extend(first.statistics.converged_s.iter().map(|c| threshold(c.threshold_us)));
    }
    table = table.head(head);
    for outcome in outcomes {
        let took = outcome.statistics.converged_s.iter().map(|c| match c.median_s {
            Some(s) => Cell::number(s, Unit::Seconds),
            None => Cell::text("never"),
        });
        table = table.row(name(outcome.clock), took);
    }
    table
}

fn start_chart(outcomes: &[Outcome]) -> Chart {
    let chart = Chart::xy("The error's magnitude since the first request")
        .x("since the first request", Unit::Seconds)
        .y("|clock − truth|", Unit::Seconds)
        .log_x()
        .log_y();
    outcomes.iter().enumerate().fold(chart, |chart, (index, outcome)| {
        let rows = outcome.errors.iter().map(|&(at, error)| (at, error.abs()));
        chart.with(Series::line(name(outcome.clock), rows).colour(index))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_runs_and_is_shown() {
        let all = experiments(0.02).unwrap();
        assert_eq!(all.len(), 9);
        let mut sections = Vec::new();
        // One of each kind of picture; the others differ by their scenarios only.
        for experiment in [&all[0], &all[3], &all[7]] {
            let scenarios: Vec<_> = experiment.scenarios.iter().step_by(7).collect();
            let outcomes: Vec<_> =
                scenarios.iter().map(|(_, s)| experiment.run(s, 1).unwrap()).collect();
            assert!(outcomes.iter().all(|clocks| clocks.len() == CLOCKS.len()));
            assert!(outcomes.iter().flatten().all(|o| o.statistics.error.seconds > 600));
            let shown = Experiment {
                scenarios: scenarios.into_iter().cloned().collect(),
                ..experiment.clone()
            };
            sections.push(shown.section(&outcomes));
        }
        let page = page(sections, 0.02, "truechimer simulate case", "1");
        assert_eq!(page.charts(), 4);
        let html = page.render();
        for clock in CLOCKS {
            assert!(html.contains(name(clock)));
        }
    }

    #[test]
    fn all_scenarios_are_sound_at_any_length() {
        for scale in [0.02, 0.3, 1.0] {
            for experiment in experiments(scale).unwrap() {
                assert!(!experiment.scenarios.is_empty());
                for (label, scenario) in &experiment.scenarios {
                    scenario.check().unwrap_or_else(|why| panic!("{label}: {why}"));
                }
            }
        }
    }
}
