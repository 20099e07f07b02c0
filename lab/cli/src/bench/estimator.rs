//! `truechimer-lab bench estimator`: what an exchange and a source cost.

use std::fs;
use std::hint::black_box;
use std::io::{self, Write};
use std::thread;
use std::time::Instant;

use serde::Serialize;
use truechimer_estimators::{Kind, OURS};
use truechimer_feedforward::{Estimator, Exchange};
use truechimer_outcome::interval::Interval;
use truechimer_outcome::outcome::times;
use truechimer_outcome::stats::{median, quantile};
use truechimer_sim::direct::Packets;
use truechimer_sim::{Scenario, find, simulate_alike};

use truechimer_command::show::json;
use truechimer_command::table::{Side, Table};
use truechimer_command::{Ended, Failure, Outcome};

/// Poll intervals, s.
const POLLS: [u32; 5] = [1, 16, 64, 256, 1024];
/// The least length of a run, h: all that an estimator remembers is filled by then.
const HOURS: f64 = 12.0;
/// The least number of exchanges of a run.
const EXCHANGES: f64 = 1000.0;
/// The reference is computed after each so many exchanges.
const REFERENCE_EVERY: usize = 8;
/// Steps of the reference, which are some microseconds.
const REFERENCE_STEPS: u32 = 100;
/// Estimators whose memory is measured together: pages are 4 KiB.
const MEASURED: usize = 64;
/// The poll interval that memory is measured at, s: the daemon's own.
const MEASURED_POLL: u32 = truechimer_engine::DEFAULT_POLL;

/// Options of `truechimer-lab bench estimator`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Simulates a scenario at polls of 1, 16, 64, 256 and 1024 s, for at least 12 hours and 1000
exchanges, and then gives its stamps to an estimator by itself, several times over. Timed is what
the daemon has done for each reply: the exchange is taken in, and the time worked out at its
arrival. Nothing waits for anything, so the quickest round of each exchange counts: 'median' and
'slowest' are over the exchanges. The reference is a fixed computation in the same round, between
the exchanges: 100 steps of a Kalman filter with two states. The ratio of the medians is what to
compare between machines; in parentheses an interval, by six rounds and more, that holds the true
one with 95 %.

'state' is the size of one estimator without what it has on the heap; 'memory' is what one takes in
all, after 1000 exchanges, by the pages of 64 of them.

Exit status: 0, or 2 on an error.")]
pub struct BenchEstimator {
    /// Which estimators, separated by commas
    #[arg(long, value_name = "NAME", value_parser = crate::estimator(), value_delimiter = ',')]
    #[arg(default_value = "ours")]
    pub estimator: Vec<Kind>,
    /// Which scenario the stamps are of: one with a single server
    #[arg(long, value_name = "NAME", default_value = "lan")]
    pub scenario: String,
    /// Number of times that the exchanges are taken in
    #[arg(long, value_name = "N", default_value_t = 6)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Print one JSON object a line for each estimator
    #[arg(long)]
    pub json: bool,
}

/// Figures at one poll interval.
#[derive(Serialize)]
struct Row {
    poll_s: u32,
    exchanges: usize,
    median_ns: f64,
    slowest_ns: f64,
    /// Median exchange ÷ reference, by rounds.
    of_reference: Interval,
}

/// Figures as measured.
#[derive(Serialize)]
struct Figures {
    estimator: &'static str,
    scenario: String,
    rounds: u32,
    reference_ns: f64,
    polls: Vec<Row>,
    state_bytes: usize,
    memory_bytes: Option<u64>,
}

/// Runs the command.
pub fn run(args: &BenchEstimator, out: &mut dyn Write) -> Ended {
    let scenario = find(&args.scenario).map_err(|why| Failure::Said(why.to_string()))?;
    // A terminal that cannot be written to is nobody's loss.
    let _ = writeln!(io::stderr(), "simulating {} at {} polls", scenario.name, POLLS.len());
    let each = POLLS.into_iter().map(|poll| Ok((poll, packets(&scenario, poll)?)));
    let packets = each.collect::<Result<Vec<(u32, Packets)>, Failure>>()?;
    for estimator in &args.estimator {
        let figures = Figures::of(*estimator, &scenario, &packets, args.rounds);
        if args.json {
            writeln!(out, "{}", json(&figures)?)?;
        } else {
            figures.write(out)?;
        }
    }
    Ok(Outcome::Good)
}

/// The stamps of the scenario at this poll interval.
fn packets(scenario: &Scenario, poll: u32) -> Result<Packets, Failure> {
    let hours = HOURS.max(EXCHANGES * f64::from(poll) / 3600.0);
    let longer = scenario.clone().with_poll(poll).and_then(|s| s.with_hours(hours));
    let failed = |why: String| Failure::new(&scenario.name, why);
    let longer = longer.map_err(|why| failed(why.to_string()))?;
    let run = simulate_alike(&longer, OURS, 1).map_err(|w| failed(w.to_string()))?;
    Packets::of(&longer, 1, &run)
        .ok_or_else(|| failed("takes a scenario with one server and an unbroken counter".into()))
}

struct Bench<'p> {
    kind: Kind,
    poll: u32,
    packets: &'p Packets,
}

/// Times of each exchange and of each computation of the reference, ns.
struct Round {
    exchanges: Vec<f64>,
    references: Vec<f64>,
}

impl Bench<'_> {
    fn estimator(&self) -> Box<dyn Estimator> {
        self.kind.estimator(&self.packets.beginning(self.poll))
    }

    fn round(&self) -> Round {
        let mut estimator = self.estimator();
        let mut round = Round { exchanges: Vec::new(), references: Vec::new() };
        for (index, exchange) in self.packets.exchanges().enumerate() {
            round.exchanges.push(timed(|| take_in(&mut *estimator, exchange)));
            if index % REFERENCE_EVERY == 0 {
                round.references.push(timed(reference));
            }
        }
        round
    }

    /// Memory that one estimator takes, bytes; none where the kernel does not say.
    fn memory(&self) -> Option<u64> {
        // A new thread allocates from pages of its own, not from what was freed before.
        let measured = || {
            let mut all: Vec<Box<dyn Estimator>> = Vec::with_capacity(MEASURED);
            let before = anonymous()?;
            for _ in 0..MEASURED {
                let mut estimator = self.estimator();
                for exchange in self.packets.exchanges().take(EXCHANGES as usize) {
                    take_in(&mut *estimator, exchange);
                }
                all.push(estimator);
            }
            let after = anonymous()?;
            // What is freed would be there for the next one to use, and not be seen again.
            std::mem::forget(all);
            Some(after.saturating_sub(before) / MEASURED as u64)
        };
        thread::scope(|scope| scope.spawn(measured).join().ok().flatten())
    }
}

impl Round {
    fn reference_ns(&self) -> f64 {
        median(&self.references)
    }

    fn of_reference(&self) -> f64 {
        median(&self.exchanges) / self.reference_ns()
    }
}

impl Row {
    fn of(poll_s: u32, rounds: &[Round]) -> Row {
        let count = rounds.first().map_or(0, |round| round.exchanges.len());
        let quickest = |index: usize| {
            let of = rounds.iter().filter_map(|round| round.exchanges.get(index));
            of.copied().fold(f64::INFINITY, f64::min)
        };
        let quickest: Vec<f64> = (0..count).map(quickest).collect();
        let ratios: Vec<f64> = rounds.iter().map(Round::of_reference).collect();
        Row {
            poll_s,
            exchanges: count,
            median_ns: median(&quickest),
            slowest_ns: quantile(&quickest, 1.0),
            of_reference: Interval::of(&ratios),
        }
    }
}

impl Figures {
    fn of(kind: Kind, scenario: &Scenario, packets: &[(u32, Packets)], rounds: u32) -> Figures {
        let (mut polls, mut references, mut size) = (Vec::new(), Vec::new(), (0, None));
        for (poll, packets) in packets {
            let bench = Bench { kind, poll: *poll, packets };
            if *poll == MEASURED_POLL {
                size = (size_of_val(&*bench.estimator()), bench.memory());
            }
            let rounds: Vec<Round> = (0..rounds).map(|_| bench.round()).collect();
            references.extend(rounds.iter().map(Round::reference_ns));
            polls.push(Row::of(*poll, &rounds));
        }
        Figures {
            estimator: kind.name(),
            scenario: scenario.name.clone(),
            rounds,
            reference_ns: median(&references),
            polls,
            state_bytes: size.0,
            memory_bytes: size.1,
        }
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let Figures { estimator, scenario, rounds, reference_ns, .. } = self;
        writeln!(
            out,
            "{estimator} on {scenario}, {rounds} rounds; the reference takes {:.2} µs; {} build",
            reference_ns / 1e3,
            if cfg!(debug_assertions) { "debug" } else { "release" },
        )?;
        let mut table = Table::new(&[
            ("poll", Side::Right),
            ("exchanges", Side::Right),
            ("median", Side::Right),
            ("slowest", Side::Right),
            ("median ÷ reference", Side::Left),
        ]);
        for row in &self.polls {
            table.row(vec![
                format!("{} s", row.poll_s),
                row.exchanges.to_string(),
                format!("{:.1} µs", row.median_ns / 1e3),
                format!("{:.1} µs", row.slowest_ns / 1e3),
                times(&row.of_reference),
            ]);
        }
        table.write(out)?;
        let kib = |bytes: u64| format!("{:.1} KiB", bytes as f64 / 1024.0);
        let memory = self.memory_bytes.map_or_else(|| "unknown".to_owned(), kib);
        writeln!(out, "state {}; memory {memory}", kib(self.state_bytes as u64))
    }
}

/// Does the daemon's work for a reply.
fn take_in(estimator: &mut dyn Estimator, exchange: &Exchange) {
    // A refusal costs as well.
    let _ = black_box(estimator.exchange(exchange));
    black_box(estimator.estimate(exchange.received.count));
}

/// Time that it takes, ns.
fn timed(what: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    what();
    begun.elapsed().as_nanos() as f64
}

/// A filter for time and rate takes in a hundred measurements.
fn reference() {
    let (mut time, mut rate) = (0.0_f64, 0.0_f64);
    let (mut var, mut cov, mut rate_var) = (1.0_f64, 0.0_f64, 1.0_f64);
    let mut measured = black_box(1.0_f64);
    for _ in 0..REFERENCE_STEPS {
        time += rate;
        var += 2.0 * cov + rate_var + 1e-3;
        cov += rate_var;
        rate_var += 1e-4;
        let innovation = var + 0.1;
        let (gain, rate_gain) = (var / innovation, cov / innovation);
        let residual = measured - time;
        time += gain * residual;
        rate += rate_gain * residual;
        rate_var -= rate_gain * cov;
        cov -= gain * cov;
        var -= gain * var;
        measured = 0.5 - 0.9 * measured;
    }
    black_box(time);
}

/// Memory of this process that is of no file, bytes.
fn anonymous() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
