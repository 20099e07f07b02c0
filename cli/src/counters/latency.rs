//! `truechimer counters latency`: how long readings take, as a distribution.

mod section;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use truechimer_survey::bench::parse_reads;
use truechimer_survey::latency::{self, Amount, Distribution, Latency, NOTHING, Plan};
use truechimer_survey::stress::{Phases, Stress};

use super::bench::{grouped, not_read};
use super::stress;
use truechimer_command::output::{ready, save_report};
use truechimer_command::report::{self, Watch};
use truechimer_command::show::{json, wrapped};
use truechimer_command::signals;
use truechimer_command::table::{Side, Table};
use truechimer_command::{Ended, Failure, Outcome};

use section::highlights;
pub use section::section;

/// The longest that anybody may ask for, s: a day.
const DAY: f64 = 86_400.0;
/// Length of phases, s, unless asked for; if there is time for this many rounds of them.
const PHASE: f64 = 1.0;
const ROUNDS: f64 = 3.0;

/// Options of `truechimer counters latency`.
#[derive(Args, Debug)]
#[command(after_help = "\
Each reading is timed by the finest counter of the machine, read with fences before and after it.
The figures contain that: the row 'nothing' is what timing itself takes, and is not subtracted. All
ways have their turn one after the other, on one processor, so that noise hits all alike; what is
read within a twentieth of a second after the load has changed is left out.

Load: cpu is arithmetic and cache misses on every processor; net sends small UDP packets over
loopback from every processor, which makes soft interrupts, but no hardware interrupts. Both have
the priority of any other program, and end with this one.

Columns, all in ns:
  min, median, p95, p99, p99.9, max
         so much took the shortest reading, half of them at most, 95 % at most, …
  iqr    from the 25th to the 75th percentile
  >10x   how many took more than ten times the median

Examples:
  truechimer counters latency
  truechimer counters latency --stress all --seconds 60 --report latency.html
  truechimer counters latency --stress cpu --samples 1M --phase 0.5 --json

Figures 14 to 16 of 'The Case for Feed-Forward Clock Synchronization' are of this kind, from other
machines.

Exit status: 0 (also if interrupted: with what there was by then), 2 on an error.")]
pub struct Options {
    /// Which loads alternate with quiet: none, cpu, net or all
    #[arg(long, value_name = "LOAD", default_value = "none")]
    #[arg(value_parser = stress(), hide_possible_values = true)]
    pub stress: Stress,
    /// Time to measure, all phases together [default: 10]
    #[arg(long, value_name = "S", value_parser = seconds, conflicts_with = "samples")]
    pub seconds: Option<Duration>,
    /// Measure until there are N readings of each way under each load: 500k, 1e6
    #[arg(long, value_name = "N", value_parser = parse_reads)]
    pub samples: Option<u64>,
    /// Length of each phase of the load [default: 1, less where time is short]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub phase: Option<Duration>,
    /// The processor to read on [default: where the program happens to be]
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,
    /// Print one JSON object; times end in _s or _ns
    #[arg(long)]
    pub json: bool,
    /// Write a report to FILE: one HTML page with plots
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// Seconds, from a hundredth to a day.
fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.trim().strip_suffix('s').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(seconds) if (0.01..=DAY).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        Ok(_) => Err(format!("'{text}' is not from 0.01 to {DAY:.0} seconds")),
        Err(_) => Err(format!("'{text}' is not a number of seconds: write 10 or 0.5")),
    }
}

impl Options {
    fn plan(&self) -> Result<Plan, Failure> {
        let loads = self.stress.loads().len() as u32;
        let all = self.seconds.unwrap_or(Duration::from_secs(10));
        let each = match (self.phase, self.samples) {
            (Some(phase), Some(_)) => phase,
            (None, Some(_)) => Duration::from_secs_f64(PHASE),
            (Some(phase), None) if phase.saturating_mul(loads) > all => {
                return Err(Failure::new(
                    "--phase",
                    format!(
                        "{loads} phases of {} s are more than the {} s that it shall take: \
                         shorten them, or take more --seconds",
                        phase.as_secs_f64(),
                        all.as_secs_f64()
                    ),
                ));
            }
            (Some(phase), None) => phase,
            (None, None) => {
                let fitting = all.as_secs_f64() / (ROUNDS * f64::from(loads));
                Duration::from_secs_f64(fitting.min(PHASE))
            }
        };
        let amount = self.samples.map_or(Amount::Time(all), Amount::Samples);
        Ok(Plan { phases: Phases { stress: self.stress, each }, amount, cpu: self.cpu })
    }
}

/// Runs the command.
pub fn run(options: &Options, out: &mut dyn Write) -> Ended {
    let plan = options.plan()?;
    if let Some(path) = &options.report {
        ready(path)?;
    }
    let stop = signals::interrupted()?;
    let clock = Watch::usual();
    let found = measure(&plan, &stop)?;
    if options.json {
        writeln!(out, "{}", json(&found)?)?;
    } else {
        write(&found, out)?;
    }
    if let Some(path) = &options.report {
        let page = report::page("What reading a counter takes")
            .about("The distribution of the time that one reading takes, on this machine.")
            .fact("clock", &clock.told());
        save_report(path, &highlights(page, &found).section(section(&found)))?;
    }
    Ok(Outcome::Good)
}

/// Measures, and says on standard error how long that takes and, on a terminal, how far it is.
pub fn measure(plan: &Plan, stop: &AtomicBool) -> Result<Latency, Failure> {
    let mut stderr = io::stderr();
    let shown = stderr.is_terminal();
    let mut tell = |share: f64| {
        if let (Amount::Time(all), true) = (plan.amount, share == 0.0) {
            let _ = writeln!(stderr, "this takes {} s", all.as_secs_f64());
        }
        if shown {
            // There is nobody to tell if that fails.
            let _ = match share {
                1.0.. => write!(stderr, "\r            \r"),
                _ => write!(stderr, "\rlatency {:3.0} %", share * 100.0),
            };
        }
    };
    latency::run(plan, &mut tell, stop).map_err(|why| Failure::Said(why.to_string()))
}

/// The terminal's view.
fn write(found: &Latency, out: &mut dyn Write) -> io::Result<()> {
    for line in circumstances(found) {
        wrapped(&line, "  ", out)?;
    }
    for of in &found.loads {
        let each = of.ways.first().map_or(0, |way| way.readings);
        writeln!(out, "\n{}: {} readings of each, ns", of.load, grouped(each))?;
        table(&of.ways).write(out)?;
    }
    writeln!(out)?;
    for remark in remarks(found) {
        wrapped(&remark, "  ", out)?;
    }
    Ok(())
}

/// Conditions that the figures depend on.
fn circumstances(found: &Latency) -> Vec<String> {
    let on = match found.cpu {
        Some(cpu) => format!("on processor {cpu}"),
        None => "on no processor in particular".to_owned(),
    };
    let clocksource = found.clocksource.as_deref().unwrap_or("not known");
    let mut lines = vec![
        format!("clocksource {clocksource}, {on}, {:.1} s", found.seconds),
        format!(
            "timed by the {}: {}, steps of {} ns",
            found.ruler,
            truechimer_command::show::frequency(found.ruler_hz),
            figure(found.ruler_step_ns)
        ),
    ];
    if found.stress != Stress::None {
        lines.push(format!(
            "stress {}: phases of {} s on {}",
            found.stress,
            (found.phase_s * 1000.0).round() / 1000.0,
            match found.loaded_cpus {
                1 => "one processor".to_owned(),
                n => format!("{n} processors"),
            }
        ));
    }
    if found.cut_short {
        lines.push("interrupted: this is what had been measured by then".to_owned());
    }
    lines
}

/// Remarks below the figures.
fn remarks(found: &Latency) -> Vec<String> {
    let mut remarks =
        vec![format!("the row '{NOTHING}' is what the timing itself takes: it is in all figures")];
    remarks.extend(not_read(&found.unreadable));
    let backwards: u64 = found.loads.iter().flat_map(|of| &of.ways).map(|way| way.backwards).sum();
    if backwards > 0 {
        remarks.push(format!(
            "the ruler went back during {backwards} readings, which are left out: do not trust it"
        ));
    }
    remarks.extend(found.notes.iter().cloned());
    remarks
}

fn table(ways: &[Distribution]) -> Table {
    let columns = ["min", "median", "iqr", "p95", "p99", "p99.9", "max", ">10x"];
    let columns: Vec<_> = std::iter::once(("", Side::Left))
        .chain(columns.into_iter().map(|name| (name, Side::Right)))
        .collect();
    let mut table = Table::new(&columns);
    for way in ways {
        let outliers = [way.outliers.to_string()];
        let cells = spans_ns(way).map(figure).into_iter().chain(outliers);
        table.row(std::iter::once(way.way.clone()).chain(cells).collect());
    }
    table
}

/// The figures that are times, in the order of the tables' columns, ns.
fn spans_ns(way: &Distribution) -> [f64; 7] {
    [way.min_ns, way.median_ns, way.iqr_ns, way.p95_ns, way.p99_ns, way.p999_ns, way.max_ns]
}

/// ns to one decimal while that tells anything.
fn figure(ns: f64) -> String {
    if ns < 99.95 { format!("{ns:.1}") } else { format!("{ns:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_survey::latency::OfLoad;
    use truechimer_survey::stress::Load;

    fn options(words: &[&str]) -> Options {
        use clap::{Command, FromArgMatches};
        let command = Options::augment_args(Command::new("latency"));
        let words = std::iter::once("latency").chain(words.iter().copied());
        Options::from_arg_matches(&command.try_get_matches_from(words).unwrap()).unwrap()
    }

    #[test]
    fn every_load_has_its_time() {
        let each = |words: &[&str]| options(words).plan().unwrap().phases.each.as_secs_f64();
        assert_eq!(each(&[]), 1.0);
        assert_eq!(each(&["--stress", "all"]), 1.0);
        assert_eq!(each(&["--stress", "cpu", "--seconds", "0.6"]), 0.1);
        assert_eq!(each(&["--stress", "all", "--samples", "10k"]), 1.0);
        assert_eq!(each(&["--stress", "all", "--seconds", "9", "--phase", "2.5s"]), 2.5);
        let short = options(&["--stress", "all", "--seconds", "2", "--phase", "1"]).plan();
        let Err(Failure::Said(why)) = short else { panic!("{short:?}") };
        assert!(why.contains("3 phases of 1 s are more than the 2 s"), "{why}");
    }

    #[test]
    fn seconds_are_within_reason() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(seconds("2s"), Ok(Duration::from_secs(2)));
        for (text, says) in [
            ("0", "from 0.01"),
            ("-1", "from 0.01"),
            ("1e9", "from 0.01"),
            ("nan", "from 0.01"),
            ("inf", "from 0.01"),
            ("ten", "not a number"),
            ("", "not a number"),
        ] {
            let why = seconds(text).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }

    pub(super) fn found() -> Latency {
        let way = |name: &str, scale: f64| Distribution {
            way: name.to_owned(),
            readings: 12_345_678,
            backwards: 1,
            min_ns: 18.5 * scale,
            p1_ns: 18.5 * scale,
            p25_ns: 18.5 * scale,
            median_ns: 19.0 * scale,
            p75_ns: 20.5 * scale,
            iqr_ns: 2.0 * scale,
            p95_ns: 30.0 * scale,
            p99_ns: 50.0 * scale,
            p999_ns: 700.0 * scale,
            max_ns: 1_234_567.0 * scale,
            mean_ns: 20.0 * scale,
            outliers: 12_345,
            bins: Vec::new(),
        };
        let loads = [Load::Quiet, Load::Net].map(|load| OfLoad {
            load,
            ways: vec![way(NOTHING, 1.0), way("vdso monotonic", 10.0)],
        });
        Latency {
            clocksource: Some("tsc".to_owned()),
            ruler: "time stamp counter, fenced".to_owned(),
            ruler_hz: 2_596_000_000,
            ruler_step_ns: 10.015,
            cpu: Some(1),
            loaded_cpus: 2,
            stress: Stress::Net,
            phase_s: 1.0,
            seconds: 10.0,
            cut_short: true,
            ways: vec![NOTHING.to_owned(), "vdso monotonic".to_owned()],
            loads: loads.into(),
            unreadable: Vec::new(),
            trace: Vec::new(),
            notes: vec!["a note".to_owned()],
        }
    }

    #[test]
    fn the_tables_are_no_wider_than_a_terminal() {
        let mut out = Vec::new();
        write(&found(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for part in [
            "clocksource tsc",
            "steps of 10.0 ns",
            "stress net: phases of 1 s on 2 processors",
            "interrupted",
            "net: 12 345 678 readings",
            "went back during 4 readings",
            "a note",
        ] {
            assert!(text.contains(part), "{part:?} is missing in {text}");
        }
    }
}
