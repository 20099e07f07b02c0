//! `truechimer-lab bench serve`: how many requests an NTP server of ours answers, beside chronyd.

mod servers;

use std::io::{self, Write};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use truechimer_counter::affinity::Cpus;
use truechimer_outcome::interval::Interval;
use truechimer_outcome::outcome::times;
use truechimer_serve::Load;

use crate::bench::usage::processor_time;
use servers::Contestant;
use truechimer_command::show::{json, nanos};
use truechimer_command::signals;
use truechimer_command::table::{Side, Table};
use truechimer_command::{Ended, Failure, Outcome};

/// Options of `truechimer-lab bench serve`.
#[derive(Args, Debug)]
#[command(after_help = "\
Starts a daemon that follows a server of our own on loopback, 'truechimer serve --clock page' on its
clock and, if it can be found, chronyd as a server of the system clock (-x: it does not touch that).
Each is asked in turn by the same program over loopback, once with one request at a time and once
with many on the way, which is as fast as it answers without losing any. Servers run on one
processor and who asks on another, if there are two.

Columns:
  one at a time  the response time, from before the request is sent until the reply is received:
                 the half and 99 of 100 are within that
  answers/s      with many on the way: the median of the rounds; 'lost' of them all
  busy           processor time of the server for each answer, in its own process and in the kernel
                 on its behalf; while it is less than 1/answers, who asks is the limit
The ratio is the median of the rounds' ratios; in parentheses an interval, by six rounds and more,
that holds the true median with 95 %.

Exit status: 0, or 2 on an error.")]
pub struct BenchServe {
    /// Time for which each server is asked in each round and manner, in tenths of a second
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=600))]
    pub turn: u32,
    /// Number of rounds, one server after the other in each
    #[arg(long, value_name = "N", default_value_t = 6)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Number of requests that are on the way when there are many
    #[arg(long, value_name = "N", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub many: u32,
    /// Number of threads of our server
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=64))]
    pub threads: u8,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Figures of one server in one round.
#[derive(Clone, Copy, Default)]
struct Turn {
    single_p50_ns: u64,
    single_p99_ns: u64,
    rate: f64,
    many_p50_ns: u64,
    many_p99_ns: u64,
    lost: u64,
    busy_ns: f64,
}

/// All that was measured of one server: medians over the rounds.
#[derive(Serialize)]
struct Row {
    server: &'static str,
    single_p50_ns: u64,
    single_p99_ns: u64,
    answers_per_second: f64,
    lost: u64,
    many_p50_ns: u64,
    many_p99_ns: u64,
    processor_ns_per_answer: f64,
}

/// Figures as measured.
#[derive(Serialize)]
struct Figures {
    rounds: u32,
    many: u32,
    /// Servers and who asks each have a processor of their own.
    apart: bool,
    servers: Vec<Row>,
    /// Reason why chronyd is not among them.
    chronyd: Option<String>,
    /// Answers a second: ours ÷ chronyd's, of the rounds.
    ratio: Option<Interval>,
}

/// Runs the command.
pub fn run(args: &BenchServe, out: &mut dyn Write) -> Ended {
    let stop = signals::stop()?;
    let before = Cpus::allowed().map_err(|why| Failure::new("the processors", why))?;
    let own: Vec<usize> = before.iter().collect();
    let apart = own.len() > 1;
    if let (true, Some(first)) = (apart, own.first()) {
        pin(*first)?;
    }
    let set = servers::start(args.threads)?;
    if let (true, Some(last)) = (apart, own.last()) {
        pin(*last)?;
    }
    if !args.json {
        let turns = u64::from(args.rounds) * set.servers.len() as u64 * 2;
        writeln!(io::stderr(), "this takes {} s", turns * u64::from(args.turn) / 10)?;
    }
    let time = Duration::from_millis(u64::from(args.turn) * 100);
    let mut turns = vec![Vec::new(); set.servers.len()];
    for round in 0..args.rounds as usize {
        // Whoever is first in one round is last in the next.
        for i in 0..set.servers.len() {
            let at = if round % 2 == 0 { i } else { set.servers.len() - 1 - i };
            if let (Some(server), Some(turns)) = (set.servers.get(at), turns.get_mut(at)) {
                turns.push(turn(server, time, args.many as usize, &stop)?);
            }
        }
    }
    // What the user's shell gave us, for whoever runs after.
    let _ = before.apply();
    let figures = Figures {
        rounds: args.rounds,
        many: args.many,
        apart,
        servers: set
            .servers
            .iter()
            .zip(&turns)
            .map(|(server, turns)| Row::of(server.name, turns))
            .collect(),
        ratio: ratio(&turns),
        chronyd: set.chronyd,
    };
    if args.json {
        writeln!(out, "{}", json(&figures)?)?;
    } else {
        figures.write(out)?;
    }
    Ok(Outcome::Good)
}

fn pin(cpu: usize) -> Result<(), Failure> {
    Cpus::one(cpu).apply().map_err(|why| Failure::new(format!("processor {cpu}"), why))
}

/// Asks one server, first one request at a time, then many.
fn turn(
    server: &Contestant,
    time: Duration,
    many: usize,
    stop: &AtomicBool,
) -> Result<Turn, Failure> {
    let failed = |why: io::Error| Failure::new(format!("asking {}", server.name), why);
    let ask = |in_flight| {
        Load::new(server.address, in_flight)
            .and_then(|mut load| load.run(time, stop))
            .map_err(failed)
    };
    let single = ask(1)?;
    let before = processor_time(server.pid).map_err(failed)?;
    let measured = ask(many)?;
    let busy = processor_time(server.pid).map_err(failed)?.saturating_sub(before);
    if stop.load(std::sync::atomic::Ordering::Relaxed) {
        return Err(Failure::Said("interrupted: nothing was measured".into()));
    }
    if single.answered == 0 || measured.answered == 0 {
        return Err(Failure::Said(format!("{} does not answer", server.name)));
    }
    Ok(Turn {
        single_p50_ns: single.quantile(0.5),
        single_p99_ns: single.quantile(0.99),
        rate: measured.rate(),
        many_p50_ns: measured.quantile(0.5),
        many_p99_ns: measured.quantile(0.99),
        lost: single.lost + measured.lost,
        busy_ns: busy.as_nanos() as f64 / measured.answered as f64,
    })
}

/// Ours ÷ the other's answers a second.
fn ratio(turns: &[Vec<Turn>]) -> Option<Interval> {
    let [ours, other] = turns else { return None };
    let ratios: Vec<_> = ours.iter().zip(other).map(|(a, b)| a.rate / b.rate.max(1e-9)).collect();
    Some(Interval::of(&ratios))
}

impl Row {
    fn of(server: &'static str, turns: &[Turn]) -> Row {
        let median = |of: fn(&Turn) -> f64| truechimer_report::median(turns.iter().map(of));
        Row {
            server,
            single_p50_ns: median(|turn| turn.single_p50_ns as f64) as u64,
            single_p99_ns: median(|turn| turn.single_p99_ns as f64) as u64,
            answers_per_second: median(|turn| turn.rate),
            lost: turns.iter().map(|turn| turn.lost).sum(),
            many_p50_ns: median(|turn| turn.many_p50_ns as f64) as u64,
            many_p99_ns: median(|turn| turn.many_p99_ns as f64) as u64,
            processor_ns_per_answer: median(|turn| turn.busy_ns),
        }
    }
}

impl Figures {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut table = Table::new(&[
            ("server", Side::Left),
            ("one at a time p50", Side::Right),
            ("p99", Side::Right),
            ("answers/s", Side::Right),
            ("lost", Side::Right),
            ("p50", Side::Right),
            ("p99", Side::Right),
            ("busy", Side::Right),
        ]);
        for row in &self.servers {
            table.row(vec![
                row.server.into(),
                nanos(row.single_p50_ns),
                nanos(row.single_p99_ns),
                format!("{:.0}", row.answers_per_second),
                row.lost.to_string(),
                nanos(row.many_p50_ns),
                nanos(row.many_p99_ns),
                nanos(row.processor_ns_per_answer as u64),
            ]);
        }
        table.write(out)?;
        if let Some(ratio) = &self.ratio {
            writeln!(out, "answers a second, ours ÷ chronyd's: {}", times(ratio))?;
            if ratio.is_known() && ratio.low <= 1.0 && ratio.high >= 1.0 {
                writeln!(out, "which of the two answers more cannot be judged by this run")?;
            }
        }
        if let Some(why) = &self.chronyd {
            writeln!(out, "chronyd is left out: {why}")?;
        }
        if !self.apart {
            writeln!(out, "all on one processor: who asks takes its share of it")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_that_of_each_round() {
        let turns = |rates: [f64; 3]| rates.map(|rate| Turn { rate, ..Turn::default() }).to_vec();
        // A slow round is slow for both.
        let both = [turns([100.0, 10.0, 100.0]), turns([50.0, 4.0, 40.0])];
        assert_eq!(ratio(&both).map(|ratio| ratio.median), Some(2.5));
        assert_eq!(ratio(&both[..1]), None);
        assert_eq!(Row::of("x", &both[0]).answers_per_second, 100.0);
    }
}
