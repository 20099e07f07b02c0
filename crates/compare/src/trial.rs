//! One run of one scenario, with everybody in it.

use std::time::{Duration, Instant};

use truechimer_outcome::outcome::Failure;
use truechimer_testbed::chrony;

use crate::args::Options;
use crate::bed::Bed;
use crate::figures::Sample;
use crate::followers::Follower;
use crate::followers::chrony::Chrony;
use crate::followers::clockbound::ClockBound;
use crate::followers::truechimer::Truechimer;
use crate::line::Line;
use crate::moment::Counters;
use crate::scenario::Scenario;

/// Between readings: no multiple of any poll interval.
const STEP: Duration = Duration::from_millis(487);
/// The true time is ahead of the system clock at the start by so much, ns …
const AHEAD_NS: i64 = 10_000_000;
/// … and gains so much on the machine's oscillator, parts in 10⁹.
const GAIN_PPB: i64 = 17_000;
/// What one chronyd has beside the defaults.
const PICKY: &str = "maxdelayquant 0.5";
/// Between words on how far things are.
const WORD: Duration = Duration::from_secs(60);

/// What one clock did.
#[derive(Clone, Debug)]
pub struct Followed {
    /// What it is called.
    pub name: String,
    /// Its readings.
    pub samples: Vec<Sample>,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What happened.
    pub scenario: Scenario,
    /// Who took part.
    pub clocks: Vec<Followed>,
    /// How well the truth is known: the median width of the readings of the clocks, ns.
    pub width_ns: f64,
    /// How far the system clock was off a straight line at most, ns: somebody steers it if that is
    /// more than the reading.
    pub bent_ns: f64,
}

/// Runs all scenarios.
///
/// # Errors
/// Where one cannot be run.
pub fn run_all(options: &Options) -> Result<Vec<Trial>, Failure> {
    chrony::installed().map_err(|lacking| Failure(lacking.to_string()))?;
    if options.one_by_one {
        let scenarios = options.scenarios.iter().enumerate();
        return scenarios.map(|(n, scenario)| run(options, scenario, n == 0)).collect();
    }
    std::thread::scope(|scope| {
        let start = |(n, scenario)| scope.spawn(move || run(options, scenario, n == 0));
        let running: Vec<_> = options.scenarios.iter().enumerate().map(start).collect();
        let ended = running.into_iter().map(|thread| match thread.join() {
            Ok(trial) => trial,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.collect()
    })
}

/// Runs one; says how far it is if it `tells`.
fn run(options: &Options, scenario: &Scenario, tells: bool) -> Result<Trial, Failure> {
    let counters = Counters::open()?;
    let begin = counters.now();
    let line = Line {
        origin_raw_ns: begin.raw_ns,
        origin_unix_ns: begin.realtime_ns + AHEAD_NS,
        gain_ppb: GAIN_PPB,
    };
    let bed = Bed::new(line, scenario.name, options.length, options.seed)?;
    let mut followers = start(&bed, options)?;
    let mut clocks: Vec<Followed> = followers
        .iter()
        .map(|follower| Followed { name: follower.name().to_owned(), samples: Vec::new() })
        .collect();
    let (mut widths, mut system) = (Vec::new(), Vec::new());
    let mut told = Instant::now();
    loop {
        std::thread::sleep(STEP);
        followers.iter_mut().for_each(|follower| follower.ask(&counters));
        let moment = counters.now();
        let at = line.seconds(moment.raw_ns);
        if at >= options.length {
            break;
        }
        let truth = line.unix_ns(moment.raw_ns);
        for (follower, clock) in followers.iter_mut().zip(&mut clocks) {
            if let Some(said) = follower.said(&counters, &moment) {
                let error = (said.unix_ns - truth) as f64;
                clock.samples.push(Sample { at, error, bound: said.bound_ns });
            }
        }
        widths.push(moment.width_ns);
        system.push((at, (moment.realtime_ns - begin.realtime_ns) as f64 - at * 1e9));
        if tells && options.progress && told.elapsed() >= WORD {
            told = Instant::now();
            eprintln!("{}: {:.0} of {:.0} s", scenario.name, at, options.length);
        }
    }
    Ok(Trial {
        scenario: scenario.clone(),
        clocks,
        width_ns: truechimer_outcome::stats::median(&widths),
        bent_ns: bent(&system),
    })
}

fn start(bed: &Bed, options: &Options) -> Result<Vec<Box<dyn Follower>>, Failure> {
    let mut followers: Vec<Box<dyn Follower>> = vec![
        Box::new(Truechimer::start(bed, options.poll)?),
        Box::new(Chrony::start(bed, "chronyd", options.poll, "")?),
        Box::new(Chrony::start(bed, "chronyd, picky", options.poll, PICKY)?),
    ];
    if let Some(program) = &options.clockbound {
        followers.push(Box::new(ClockBound::start(bed, program)?));
    }
    Ok(followers)
}

/// How far points are off the straight line through the first and the last, at most.
fn bent(points: &[(f64, f64)]) -> f64 {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return 0.0 };
    let slope = (last.1 - first.1) / (last.0 - first.0).max(f64::MIN_POSITIVE);
    let off = |point: &(f64, f64)| (point.1 - first.1 - slope * (point.0 - first.0)).abs();
    points.iter().map(off).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bend_shows() {
        assert_eq!(bent(&[(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]), 0.0);
        assert_eq!(bent(&[(0.0, 0.0), (1.0, 5.0), (2.0, 0.0)]), 5.0);
        assert_eq!(bent(&[]), 0.0);
    }
}
