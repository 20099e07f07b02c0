//! The rounds of all scenarios, everybody in each.

use std::time::{Duration, Instant};

use truechimer_outcome::outcome::Failure;
use truechimer_outcome::program;
use truechimer_testbed::chrony;

use crate::compare::args::Options;
use crate::compare::bed::Bed;
use crate::compare::figures::Sample;
use crate::compare::followers::Follower;
use crate::compare::followers::chrony::Chrony;
use crate::compare::followers::clockbound::ClockBound;
use crate::compare::followers::truechimer::Truechimer;
use crate::compare::line::Line;
use crate::compare::moment::Counters;
use crate::compare::scenario::Scenario;

/// Between readings: no multiple of any poll interval.
const STEP: Duration = Duration::from_millis(487);
/// The true time is ahead of the system clock at the start by so much, ns …
const AHEAD_NS: i64 = 10_000_000;
/// … and gains so much on the machine's oscillator, parts in 10⁹.
const GAIN_PPB: i64 = 17_000;
/// Directive that one chronyd has beside the defaults.
const PICKY: &str = "maxdelayquant 0.5";
/// Between words on how far things are.
const WORD: Duration = Duration::from_secs(60);

/// Record of one clock.
#[derive(Clone, Debug)]
pub struct Followed {
    /// Name of the clock.
    pub name: String,
    /// Readings of the clock.
    pub samples: Vec<Sample>,
}

/// All rounds of one scenario.
#[derive(Clone, Debug)]
pub struct Runs {
    /// Scenario that was run.
    pub scenario: Scenario,
    /// The rounds.
    pub rounds: Vec<Trial>,
}

/// A round.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Clocks that took part, always in the same order.
    pub clocks: Vec<Followed>,
    /// Median width of the readings of the clocks, ns: how well the truth is known.
    pub width_ns: f64,
    /// Largest distance of the system clock from a straight line, ns: somebody steers it if that is
    /// more than the reading.
    pub bent_ns: f64,
}

/// Runs all rounds of all scenarios. Of later rounds one that fails is left out, and said to be.
///
/// # Errors
/// Where the first round fails.
pub fn run_all(options: &Options) -> Result<Vec<Runs>, Failure> {
    chrony::installed().map_err(|lacking| Failure(lacking.to_string()))?;
    let new = |scenario: &Scenario| Runs { scenario: scenario.clone(), rounds: Vec::new() };
    let mut all: Vec<Runs> = options.scenarios.iter().map(new).collect();
    for number in 0..options.rounds {
        match round(options, number) {
            Ok(trials) => {
                for (runs, trial) in all.iter_mut().zip(trials) {
                    runs.rounds.push(trial);
                }
            }
            Err(why) if number == 0 => return Err(why),
            Err(why) => eprintln!("round {} is left out: {why}", number + 1),
        }
    }
    Ok(all)
}

/// All scenarios once.
fn round(options: &Options, number: usize) -> Result<Vec<Trial>, Failure> {
    if options.one_by_one {
        let mut trials: Vec<Option<Trial>> = vec![None; options.scenarios.len()];
        for (n, place) in order(options.scenarios.len(), number).into_iter().enumerate() {
            if let (Some(scenario), Some(trial)) =
                (options.scenarios.get(place), trials.get_mut(place))
            {
                *trial = Some(run(options, scenario, number, n == 0)?);
            }
        }
        return Ok(trials.into_iter().flatten().collect());
    }
    std::thread::scope(|scope| {
        let start = |(n, scenario)| scope.spawn(move || run(options, scenario, number, n == 0));
        let running: Vec<_> = options.scenarios.iter().enumerate().map(start).collect();
        running.into_iter().map(program::joined).collect()
    })
}

/// In which order `count` have their turn in a round: who is first in one is last in the next, and
/// every other round begins with another. What the place in the order does, and a load that
/// comes or goes, is the same to all in the long run.
fn order(count: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.rotate_left(round / 2 % count.max(1));
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// Runs one scenario once; says how far it is if it `tells`.
fn run(
    options: &Options,
    scenario: &Scenario,
    round: usize,
    tells: bool,
) -> Result<Trial, Failure> {
    let counters = Counters::open()?;
    let begin = counters.now();
    let line = Line {
        origin_raw_ns: begin.raw_ns,
        origin_unix_ns: begin.realtime_ns + AHEAD_NS,
        gain_ppb: GAIN_PPB,
    };
    let seed = options.seed.wrapping_add(round as u64);
    let bed = Bed::new(line, scenario.name, options.length, seed)?;
    let places = order(3 + usize::from(options.clockbound.is_some()), round);
    let mut followers = start(&bed, options, &places)?;
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
            eprintln!(
                "round {} of {}, {}: {:.0} of {:.0} s",
                round + 1,
                options.rounds,
                scenario.name,
                at,
                options.length
            );
        }
    }
    let mut placed: Vec<(usize, Followed)> = places.into_iter().zip(clocks).collect();
    placed.sort_by_key(|(place, _)| *place);
    Ok(Trial {
        clocks: placed.into_iter().map(|(_, clock)| clock).collect(),
        width_ns: truechimer_outcome::stats::median(&widths),
        bent_ns: bent(&system),
    })
}

/// Starts the clocks of these places, one after the other.
fn start(
    bed: &Bed,
    options: &Options,
    places: &[usize],
) -> Result<Vec<Box<dyn Follower>>, Failure> {
    let mut followers: Vec<Box<dyn Follower>> = Vec::new();
    for place in places {
        followers.push(match (place, &options.clockbound) {
            (0, _) => Box::new(Truechimer::start(bed, options.poll)?),
            (1, _) => Box::new(Chrony::start(bed, "chronyd", options.poll, "")?),
            (3, Some(program)) => Box::new(ClockBound::start(bed, program)?),
            _ => Box::new(Chrony::start(bed, "chronyd, picky", options.poll, PICKY)?),
        });
    }
    Ok(followers)
}

/// Largest distance of points from the straight line through the first and the last.
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
    fn everybody_has_every_place_alike() {
        assert_eq!([0, 1, 2, 3].map(|round| order(3, round)[0]), [0, 2, 1, 0]);
        for count in [1, 2, 3, 4] {
            let mut sums = vec![0; count];
            for round in 0..2 * count {
                for (place, who) in order(count, round).into_iter().enumerate() {
                    sums[who] += place;
                }
                // Two rounds that follow each other are each other's mirror.
                let (one, mut other) = (order(count, round & !1), order(count, round | 1));
                other.reverse();
                assert_eq!(one, other);
            }
            assert!(sums.iter().all(|sum| *sum == sums[0]), "{count}: {sums:?}");
        }
        assert!(order(0, 7).is_empty());
    }

    #[test]
    fn a_bend_shows() {
        assert_eq!(bent(&[(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]), 0.0);
        assert_eq!(bent(&[(0.0, 0.0), (1.0, 5.0), (2.0, 0.0)]), 5.0);
        assert_eq!(bent(&[]), 0.0);
    }
}
