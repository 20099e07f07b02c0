//! Cost of reading the clock with Truechimer and with its peers, in one run.

mod c;
mod clocks;
mod segment;
mod stage;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use clap::Parser;
use serde::Serialize;
use truechimer_outcome::interval::Interval;
use truechimer_outcome::outcome::times;
use truechimer_outcome::stats::median;
use truechimer_outcome::verdict::{Verdict, counter_scaled};
use truechimer_survey::affinity::{Cpus, Pinned};

use c::Libraries;
use clocks::{Clocks, Pairs, Peer, Reads};
use stage::Stage;

/// Truechimer is read at least so many times as often as ClockBound.
const GOAL: f64 = 3.0;
/// A reading from C takes at most so much longer than one in Unix time from Rust, ns.
const GOAL_C_NS: f64 = 3.0;

/// Cost of reading the clock with Truechimer and with its peers
#[derive(Parser, Debug)]
#[command(
    version,
    after_help = "\
Every round gives each its turn; figures are medians of rounds, ratios medians of ratios within a
round.

The goals, for each number of threads: Truechimer is read at least 3 times as often as ClockBound,
and from C within 3 ns of Rust with the same three Unix times, where the libraries for C are here
('make bench ARGS=peers' builds them). Each is judged by an interval over the rounds that holds the true median with 95 %, and only where the bare
counter itself scales as it must: a busy machine cannot judge.

Exit status: 0 no goal was missed, 1 one was, 2 error."
)]
struct Options {
    /// Numbers of threads that read at once, one after the other [default: 1, 2, 4 … up to the
    /// number of processors]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Vec<u16>,
    /// Turns of each
    #[arg(long, value_name = "N", default_value_t = 400)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=10_000))]
    rounds: u16,
    /// Length of a turn, ms: short, so that what else runs falls on few of them
    #[arg(long, value_name = "MS", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    turn: u32,
    /// Where libtruechimer_c.so and libclockbound.so are [default: beside this program; without
    /// them nothing is read from C]
    #[arg(long, value_name = "DIR")]
    libraries: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Findings of a run.
#[derive(Serialize)]
struct Report {
    counter: &'static str,
    processors: usize,
    rounds: u16,
    turn_ms: u32,
    results: Vec<Measured>,
    /// For each number of threads: reads of Truechimer's clock for each of ClockBound's.
    truechimer_to_clock_bound: Vec<Beside>,
    /// Ratio with Truechimer's reads of the counter fenced as ClockBound's are; no goal.
    truechimer_fenced_to_clock_bound: Vec<(u16, Interval)>,
    /// Ratio by the libraries for C; no goal.
    truechimer_c_to_clock_bound_c: Vec<(u16, Interval)>,
    goal: f64,
    /// Time that a reading takes longer from C than from Rust with the same Unix times, ns.
    c_beyond_rust_ns: Vec<BeyondRust>,
    /// Time that it takes longer than one that stays in the client's own instants, ns; no goal.
    c_beyond_instants_ns: Vec<(u16, Interval)>,
    goal_c_ns: f64,
}

/// Truechimer from C beside Truechimer from Rust, by so many threads.
#[derive(Serialize)]
struct BeyondRust {
    threads: u16,
    /// Cost of a read from Rust beside it.
    rust_ns: f64,
    ns: Interval,
    #[serde(flatten)]
    verdict: Verdict,
}

/// Truechimer beside ClockBound, by so many threads.
#[derive(Serialize)]
struct Beside {
    threads: u16,
    times: Interval,
    #[serde(flatten)]
    verdict: Verdict,
}

/// One clock, read by so many threads.
#[derive(Serialize)]
struct Measured {
    peer: Peer,
    threads: u16,
    /// All threads together.
    reads_per_second: f64,
    /// Cost of a read to the thread that makes it.
    ns_per_read: f64,
    /// Times as many as by one thread alone.
    scaling: Option<f64>,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(why) => {
            eprintln!("peers: {why}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<bool, Box<dyn Error>> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let mut threads = options.threads.clone();
    if threads.is_empty() {
        let most = u16::try_from(processors)?.min(1024);
        let doubling = std::iter::successors(Some(1_u16), |n| n.checked_mul(2));
        threads = doubling.take_while(|n| *n < most).chain([most]).collect();
    }
    threads.sort_unstable();
    threads.dedup();
    let stage = Stage::new()?;
    let beside = std::env::current_exe()?;
    let folder = options.libraries.as_deref().or(beside.parent()).unwrap_or(Path::new("."));
    let libraries = Libraries::load(folder)?;
    if options.libraries.is_some() && libraries.is_none() {
        let why = "libtruechimer_c.so and libclockbound.so are not both there: 'make bench ARGS=peers' builds them";
        return Err(format!("{}: {why}", folder.display()).into());
    }
    let clocks = Clocks::open(&stage, libraries.as_ref())?;
    let (rows, beyond) = contest(&clocks, &threads, options)?;
    let report = Report::of(&rows, &beyond, &threads, options, &stage, processors);
    if options.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        report.print(&threads);
    }
    let verdicts = report.truechimer_to_clock_bound.iter().map(|one| &one.verdict);
    Ok(!verdicts
        .chain(report.c_beyond_rust_ns.iter().map(|one| &one.verdict))
        .any(Verdict::is_missed))
}

/// One clock by so many threads: reads a second of each round.
struct Row {
    peer: Peer,
    threads: u16,
    rates: Vec<f64>,
}

/// From C beside from Rust, by so many threads: a figure of each round, the mean of the threads.
struct Beyond {
    threads: u16,
    rust_ns: Vec<f64>,
    beyond_ns: Vec<f64>,
}

fn contest(
    clocks: &Clocks<'_>,
    threads: &[u16],
    options: &Options,
) -> Result<(Vec<Row>, Vec<Beyond>), String> {
    let of = |threads: &u16| {
        let threads = *threads;
        clocks.peers().map(move |peer| Row { peer, threads, rates: Vec::new() })
    };
    let mut rows: Vec<Row> = threads.iter().flat_map(of).collect();
    let mut beyond: Vec<Beyond> = Vec::new();
    if clocks.have_c() {
        let none = |threads: &u16| Beyond {
            threads: *threads,
            rust_ns: Vec::new(),
            beyond_ns: Vec::new(),
        };
        beyond.extend(threads.iter().map(none));
    }
    let turn = Duration::from_millis(options.turn.into());
    for _ in 0..options.rounds {
        for row in &mut rows {
            // Opened before anybody starts: they are opened once and read often.
            let clients = (0..row.threads).map(|_| clocks.own()).collect::<Result<Vec<_>, _>>()?;
            let reads = all_at_once(clients, |mut own, begin| {
                clocks.drive(row.peer, &mut own, turn, begin)
            })?;
            row.rates.push(Reads::rate(&reads));
        }
        for one in &mut beyond {
            let threads = vec![(); one.threads.into()];
            let pairs = all_at_once(threads, |(), begin| clocks.pairs(turn, begin))?;
            let pairs: Vec<Pairs> = pairs.into_iter().flatten().collect();
            one.rust_ns.push(mean(pairs.iter().map(|pairs| pairs.rust_ns)));
            one.beyond_ns.push(mean(pairs.iter().map(|pairs| pairs.beyond_ns)));
        }
    }
    Ok((rows, beyond))
}

/// Runs a thread for each client, each on a processor of its own; what each found. Each is to call
/// what it is given when it is ready, and goes on with all others.
fn all_at_once<C: Send, T: Send>(
    clients: Vec<C>,
    read: impl Fn(C, &dyn Fn()) -> T + Sync,
) -> Result<Vec<T>, String> {
    let start = &Barrier::new(clients.len());
    let read = &read;
    thread::scope(|scope| {
        let reader = |(place, client): (usize, C)| {
            scope.spawn(move || {
                // Left to the scheduler, threads that live for milliseconds share a processor.
                let _pinned = on_its_own(place);
                read(client, &|| {
                    start.wait();
                })
            })
        };
        let readers: Vec<_> = clients.into_iter().enumerate().map(reader).collect();
        let join = |reader: thread::ScopedJoinHandle<'_, T>| {
            reader.join().map_err(|_| "a thread panicked".to_owned())
        };
        readers.into_iter().map(join).collect()
    })
}

/// Keeps the calling thread to a processor, one for each while there are enough of them.
fn on_its_own(place: usize) -> Option<Pinned> {
    let allowed: Vec<usize> = Cpus::allowed().ok()?.iter().collect();
    let cpu = allowed.get(place % allowed.len().max(1))?;
    Pinned::to(Some(*cpu)).ok()
}

impl Report {
    fn of(
        rows: &[Row],
        beyond: &[Beyond],
        threads: &[u16],
        options: &Options,
        stage: &Stage,
        processors: usize,
    ) -> Report {
        let find = |peer, threads| rows.iter().find(|r| (r.peer, r.threads) == (peer, threads));
        let results = rows.iter().map(|row| {
            let reads_per_second = median(&row.rates);
            let alone = find(row.peer, 1).map(|alone| ratio(row, alone));
            Measured {
                peer: row.peer,
                threads: row.threads,
                reads_per_second: reads_per_second.round(),
                ns_per_read: hundredths(1e9 * f64::from(row.threads) / reads_per_second),
                scaling: alone.map(hundredths),
            }
        });
        let beside = |ours, theirs| -> Vec<(u16, Interval)> {
            let of = |threads: &u16| {
                let (ours, theirs) = (find(ours, *threads)?, find(theirs, *threads)?);
                Some((*threads, Interval::of_ratios(&ours.rates, &theirs.rates)))
            };
            threads.iter().filter_map(of).collect()
        };
        let control = |threads| {
            let bare = find(Peer::Counter, threads).zip(find(Peer::Counter, 1));
            let bare = bare.map_or(Vec::new(), |(all, alone)| ratios(all, alone));
            counter_scaled(&bare, threads, processors)
        };
        let judged = |(threads, times): (u16, Interval)| Beside {
            threads,
            times,
            verdict: Verdict::at_least(GOAL, &times).under(&control(threads)),
        };
        let beyond_instants = |threads: &u16| {
            let (c, rust) = (find(Peer::TruechimerC, *threads)?, find(Peer::Truechimer, *threads)?);
            let ns = |rate: &f64| 1e9 * f64::from(*threads) / rate;
            let beyond = c.rates.iter().zip(&rust.rates).map(|(c, rust)| ns(c) - ns(rust));
            Some((*threads, Interval::of(&beyond.collect::<Vec<_>>())))
        };
        let from_c = |Beyond { threads, rust_ns, beyond_ns }: &Beyond| {
            let ns = Interval::of(beyond_ns);
            let verdict = Verdict::at_most(GOAL_C_NS, &ns).under(&control(*threads));
            BeyondRust { threads: *threads, rust_ns: hundredths(median(rust_ns)), ns, verdict }
        };
        let truechimer_to_clock_bound = beside(Peer::Truechimer, Peer::ClockBound);
        Report {
            counter: stage.counter().kind().name(),
            processors,
            rounds: options.rounds,
            turn_ms: options.turn,
            results: results.collect(),
            goal: GOAL,
            truechimer_to_clock_bound: truechimer_to_clock_bound.into_iter().map(judged).collect(),
            truechimer_fenced_to_clock_bound: beside(Peer::TruechimerFenced, Peer::ClockBound),
            truechimer_c_to_clock_bound_c: beside(Peer::TruechimerC, Peer::ClockBoundC),
            c_beyond_rust_ns: beyond.iter().map(from_c).collect(),
            c_beyond_instants_ns: threads.iter().filter_map(beyond_instants).collect(),
            goal_c_ns: GOAL_C_NS,
        }
    }

    fn print(&self, threads: &[u16]) {
        println!(
            "counter {}, {} processors; medians of {} rounds with turns of {} ms\n",
            self.counter, self.processors, self.rounds, self.turn_ms
        );
        print!("{:<24}", "ns a read, by threads");
        for n in threads {
            print!("{n:>8}");
        }
        println!("{:>10}", "scaling");
        let first = |one: &&Measured| Some(&one.threads) == threads.first();
        for peer in self.results.iter().filter(first).map(|one| one.peer) {
            print!("{:<24}", peer.name());
            let of = |n| self.results.iter().find(|one| (one.peer, one.threads) == (peer, n));
            for n in threads {
                print!("{:>8.1}", of(*n).map_or(f64::NAN, |one| one.ns_per_read));
            }
            let most = threads.last().and_then(|n| of(*n)).and_then(|one| one.scaling);
            println!("{:>10}", most.map_or_else(|| "-".into(), |scaling| format!("{scaling:.2}")));
        }
        println!();
        let threads = |n: u16| format!("{n} thread{}", if n == 1 { "" } else { "s" });
        println!(
            "times as often as ClockBound is read (interval that holds the true median with 95 %)"
        );
        for one in &self.truechimer_to_clock_bound {
            println!("Truechimer, {}: {}", threads(one.threads), times(&one.times));
        }
        for (n, found) in &self.truechimer_fenced_to_clock_bound {
            println!("Truechimer, fenced, {}: {}", threads(*n), times(found));
        }
        for (n, found) in &self.truechimer_c_to_clock_bound_c {
            println!(
                "Truechimer beside ClockBound, both from C, {}: {}",
                threads(*n),
                times(found)
            );
        }
        println!("\ngoal: at least {GOAL} times as often, unfenced");
        for one in &self.truechimer_to_clock_bound {
            println!("{}: {}", threads(one.threads), one.verdict.text());
        }
        if self.c_beyond_rust_ns.is_empty() {
            println!("\nnothing was read from C: 'make bench ARGS=peers' builds the libraries");
            return;
        }
        for (n, Interval { median, low, high, .. }) in &self.c_beyond_instants_ns {
            let n = threads(*n);
            println!(
                "from C longer than Rust's instants, {n}: {median:.1} ({low:.1} to {high:.1}) ns"
            );
        }
        println!(
            "\ngoal: from C at most {GOAL_C_NS} ns longer than from Rust in Unix time, by stretches in turn"
        );
        for BeyondRust { threads: n, rust_ns, ns, verdict } in &self.c_beyond_rust_ns {
            let (n, Interval { median, low, high, .. }) = (threads(*n), ns);
            println!(
                "{n}: {median:.2} ({low:.2} to {high:.2}) ns beyond {rust_ns:.1} ns, {}",
                verdict.text()
            );
        }
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count)
}

/// The median of the ratios within a round.
fn ratio(one: &Row, other: &Row) -> f64 {
    median(ratios(one, other))
}

fn ratios(one: &Row, other: &Row) -> Vec<f64> {
    one.rates.iter().zip(&other.rates).map(|(one, other)| one / other).collect()
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_within_a_round() {
        let row = |rates: &[f64]| Row { peer: Peer::Counter, threads: 1, rates: rates.to_vec() };
        assert_eq!(ratio(&row(&[8.0, 1.0, 9.0]), &row(&[4.0, 0.5, 1.0])), 2.0);
    }
}
