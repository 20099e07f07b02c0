//! `truechimer counters report`: all that the other commands find out, in one HTML page.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use truechimer_counter::Choice;
use truechimer_report::Page;
use truechimer_survey::advice::Severity;
use truechimer_survey::analysis;
use truechimer_survey::bench::{Plan as BenchPlan, parse_reads};
use truechimer_survey::clocksource::{Clocksources, FOLDER};
use truechimer_survey::inventory::{Sources, State};
use truechimer_survey::latency::{Amount, Plan as LatencyPlan};
use truechimer_survey::stability::{Against, Setup};
use truechimer_survey::stress::{Phases, Stress};

use super::{bench, latency, list, stability, stress};
use crate::run;
use truechimer_command::output::{ready, save};
use truechimer_command::report::{self, Watch};
use truechimer_command::signals;
use truechimer_command::{Ended, Failure, Outcome};

/// Over how many seconds frequencies are measured.
const FREQUENCIES_S: f64 = 2.0;

/// Options of `truechimer counters report`.
#[derive(Args, Debug)]
#[command(after_help = "\
Runs list, bench, latency and stability one after the other, each as it runs by itself, and writes
what they find with plots into one page that needs no network. Half of the time goes to latency,
half to stability; both under the load asked for, in phases.

Examples:
  truechimer counters report clocks.html
  sudo truechimer counters report clocks.html --switch --minutes 10 --stress all
  truechimer counters report clocks.html --minutes 60 --against ntp:ntp.example.org

Exit status: 0 (also if interrupted while it measured latency or stability: with what there was by
then), 2 on an error.")]
pub struct Options {
    /// The page to write
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Time to measure latency and stability, together, 0.1 to 10000
    #[arg(long, value_name = "MIN", default_value_t = 2.0, value_parser = minutes)]
    pub minutes: f64,
    /// Number of readings of each clock to compare: 1M, 500k
    #[arg(long, value_name = "N", default_value = "1M", value_parser = parse_reads)]
    pub reads: u64,
    /// Compare all clocksources: each becomes that of the whole machine for a while; needs root
    #[arg(long)]
    pub switch: bool,
    /// The counter whose stability is measured
    #[arg(long, value_name = "NAME", default_value = "auto")]
    #[arg(value_parser = run::counter(), hide_possible_values = true)]
    pub counter: Choice,
    /// Reference that it is compared with, as 'truechimer counters stability --help' lists it
    #[arg(long, value_name = "REFERENCE", default_value = "realtime")]
    pub against: Against,
    /// Between samples of the stability, s, 0.01 to 3600 [default: 1; with NTP 16]
    #[arg(long, value_name = "S", value_parser = interval)]
    pub interval: Option<f64>,
    /// Which loads alternate with quiet: none, cpu, net or all
    #[arg(long, value_name = "LOAD", default_value = "all")]
    #[arg(value_parser = stress(), hide_possible_values = true)]
    pub stress: Stress,
}

fn minutes(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(minutes) if (0.1..=10_000.0).contains(&minutes) => Ok(minutes),
        _ => Err("must be a number of minutes from 0.1 to 10000".into()),
    }
}

fn interval(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("must be a number of seconds from 0.01 to 3600".into()),
    }
}

impl Options {
    /// Time that latency and stability each take.
    fn half(&self) -> Duration {
        Duration::from_secs_f64(self.minutes * 30.0)
    }

    fn latency(&self) -> LatencyPlan {
        let phases = f64::from(self.stress.loads().len() as u32);
        let each = (self.half().as_secs_f64() / (3.0 * phases)).min(1.0);
        LatencyPlan {
            phases: Phases { stress: self.stress, each: Duration::from_secs_f64(each) },
            amount: Amount::Time(self.half()),
            cpu: None,
        }
    }

    fn stability(&self) -> Setup {
        let usual = if matches!(self.against, Against::Ntp(..)) { 16.0 } else { 1.0 };
        let interval_s = self.interval.unwrap_or(usual);
        // Phases of at least five samples, and each load three times if there is time for that.
        let phases = f64::from(self.stress.loads().len() as u32);
        let each = (self.half().as_secs_f64() / (3.0 * phases)).max(5.0 * interval_s);
        Setup {
            counter: self.counter,
            against: self.against.clone(),
            interval_s,
            duration: self.half(),
            best_of: 1,
            phases: Phases { stress: self.stress, each: Duration::from_secs_f64(each) },
            log: None,
            resume: false,
            options: analysis::Options::default(),
        }
    }
}

/// Runs the command.
pub fn run(options: &Options, out: &mut dyn Write) -> Ended {
    if matches!(options.against, Against::File(_)) {
        let why = "a file is not measured: 'truechimer counters stability --against file:…'";
        return Err(Failure::Said(why.into()));
    }
    ready(&options.file)?;
    let stop = signals::interrupted()?;
    if options.switch {
        signals::no_stop()?;
    }
    let clock = Watch::usual();
    let page = measure(options, &stop)?.fact("clock", &clock.told());
    save(&options.file, &page.render())?;
    writeln!(out, "{}", options.file.display())?;
    Ok(Outcome::Good)
}

/// Runs each of the commands.
fn measure(options: &Options, stop: &AtomicBool) -> Result<Page, Failure> {
    say("1 of 4: what there is");
    let listed = list::measure(&Sources::here(), FREQUENCIES_S);
    say("2 of 4: what readings cost");
    let plan = BenchPlan {
        reads: options.reads,
        switch: options.switch,
        clocksources: Clocksources::at(FOLDER),
    };
    let costs = bench::measure(&plan, stop)?;
    let half = options.half().as_secs_f64();
    say(&format!("3 of 4: how long readings take, {half:.0} s"));
    let latencies = latency::measure(&options.latency(), stop)?;
    say(&format!("4 of 4: how stable the counter is, {half:.0} s"));
    let steadiness = stability::measure(&options.stability(), stop)?;

    let problems = listed.advice.iter().filter(|a| a.severity == Severity::Problem).count();
    let verdict = match problems {
        0 => "none".to_owned(),
        n => n.to_string(),
    };
    let current =
        listed.inventory.clocksources.iter().find(|source| source.state == State::Current);
    let current = current.map_or("not known", |source| &source.name);
    let mut page = report::page("Counters and clocks")
        .about("What time is made of on this machine: measured, not looked up.")
        .highlight("clocksource", current)
        .highlight("problems found", verdict);
    if let Some(least) = steadiness.analysis.minimum {
        let name = format!("least Allan deviation, at {:.0} s", least.tau_s);
        page = page.highlight(&name, format!("{:.2e}", least.deviation));
    }
    Ok(page
        .section(list::section(&listed))
        .section(bench::section(&costs))
        .section(latency::section(&latencies))
        .section(stability::section(&steadiness)))
}

/// There is nobody to tell if that fails.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn options(line: &str) -> Options {
        Line::try_parse_from(line.split_whitespace()).map(|line| line.options).unwrap()
    }

    #[test]
    fn the_time_is_shared_out() {
        let asked = options("report x.html --minutes 6 --stress all");
        let (latency, stability) = (asked.latency(), asked.stability());
        assert_eq!(latency.amount, Amount::Time(Duration::from_secs(180)));
        assert_eq!(stability.duration, Duration::from_secs(180));
        assert_eq!(latency.phases.each, Duration::from_secs(1));
        let loads = asked.stress.loads().len() as u32;
        assert_eq!(stability.phases.each * 3 * loads, Duration::from_secs(180));
    }

    #[test]
    fn a_phase_has_some_samples_however_short_the_time_is() {
        let asked = options("report x.html --minutes 0.1 --interval 2");
        assert_eq!(asked.stability().phases.each, Duration::from_secs(10));
        assert!(asked.latency().phases.each < Duration::from_secs(1));
        assert!((options("report x --against ntp:h").stability().interval_s - 16.0).abs() < 1e-9);
    }
}
