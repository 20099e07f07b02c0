//! Measures of a counter: how long a count lasts, and how finely it counts.

use std::thread;
use std::time::Duration;

use truechimer_time::{Count, CountSpan, Period, Rate, Span};

use crate::counter::Counter;
use crate::error::CounterError;
use crate::read;

/// Length of a count before any server has been asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nominal {
    /// Length of a count.
    pub period: Period,
    /// Bound of its relative error against true seconds, > 0.
    pub error: Rate,
    /// Where `period` comes from.
    pub source: NominalSource,
}

/// Where a nominal period comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NominalSource {
    /// By definition: one nanosecond, or what the specification says of every such timer.
    Definition,
    /// Value that the firmware or the maker left in a register: `CNTFRQ_EL0`, the HPET's
    /// capabilities.
    Register,
    /// Measured against `CLOCK_MONOTONIC_RAW` for a tenth of a second.
    Measured,
}

impl Nominal {
    /// A period that somebody states of hardware that nobody has corrected: to 500 ppm.
    #[must_use]
    pub fn stated(period: Period, source: NominalSource) -> Nominal {
        Nominal::with(period, DERIVED, source)
    }

    fn with(period: Period, extra: Rate, source: NominalSource) -> Nominal {
        Nominal { period, error: Rate(UNCORRECTED.0.saturating_add(extra.0)), source }
    }
}

/// Error that an uncorrected machine may have: a bad crystal (100 ppm), the kernel's calibration of
/// the TSC at boot (some 20 ppm as a rule, a few hundred at worst).
const UNCORRECTED: Rate = Rate::from_ppb(400_000);
/// Addition for what the period was derived from (a register rounded to the nearest MHz, a
/// measurement): the whole makes 500 ppm.
const DERIVED: Rate = Rate::from_ppb(100_000);

/// Time to measure for, at first; and number of tries, each twice as long as the one before, when
/// the measurement was disturbed.
const MEASURE: Duration = Duration::from_millis(60);
const ATTEMPTS: u32 = 3;
/// Number of sandwiches that the narrowest is taken of at either end.
const SANDWICHES: u32 = 32;
/// Number of readings that [`resolution`] takes at a time, and number of times.
const BURST: usize = 256;
const BURSTS: usize = 16;

/// Measures the length of a count, to 500 ppm. Takes no time where somebody states it (all but the
/// TSC, whose frequency the kernel does not tell): there it sleeps for a tenth of a second while it
/// measures. Meant for the start of a daemon: nothing calls this behind the user's back.
///
/// # Errors
/// Where the counter does not advance.
pub fn nominal(counter: Counter) -> Result<Nominal, CounterError> {
    if let Some(stated) = counter.hardware().stated() {
        return Ok(stated);
    }
    let (period, error) = measured(counter).ok_or(CounterError::Stuck)?;
    Ok(Nominal::with(period, error.max(DERIVED), NominalSource::Measured))
}

/// The period against `CLOCK_MONOTONIC_RAW`, and what the measurement itself may be off by.
fn measured(counter: Counter) -> Option<(Period, Rate)> {
    let mut best: Option<(Period, Rate)> = None;
    for attempt in 0..ATTEMPTS {
        let start = sandwich(counter);
        thread::sleep(MEASURE * (1 << attempt));
        let result = slope(start, sandwich(counter));
        best = match (best, result) {
            (Some(a), Some(b)) => Some(if b.1 < a.1 { b } else { a }),
            (a, b) => a.or(b),
        };
        if best.is_some_and(|(_, error)| error <= DERIVED) {
            break;
        }
    }
    best
}

/// A reading of `CLOCK_MONOTONIC_RAW` (ns), the count in the middle of it, and its width.
#[derive(Clone, Copy)]
struct Sandwich {
    count: Count,
    raw_ns: i64,
    width: CountSpan,
}

fn sandwich(counter: Counter) -> Sandwich {
    let counter = counter.fenced();
    let take = || {
        let before = counter.read();
        let raw_ns = read::raw() as i64;
        let after = counter.read();
        Sandwich { count: before.midpoint(after), raw_ns, width: after - before }
    };
    (1..SANDWICHES).fold(take(), |best, _| {
        let next = take();
        if (next.width.0 as u64) < best.width.0 as u64 { next } else { best }
    })
}

/// The period between two sandwiches and the bound that their widths set to its relative error.
fn slope(a: Sandwich, b: Sandwich) -> Option<(Period, Rate)> {
    let counts = b.count - a.count;
    let period = Period::from_ratio(Span::from_nanos(b.raw_ns.checked_sub(a.raw_ns)?), counts)?;
    // Half of either width, rounded up, and a nanosecond's rounding at either end: 2 ns are at
    // most `2 ns / 60 ms` = 33 ppb, which DERIVED has room for.
    let widths = i128::from(a.width.0.max(0)) + i128::from(b.width.0.max(0)) + 2;
    let error = ((widths / 2) << 64) / i128::from(counts.0);
    Some((period, Rate(i64::try_from(error).unwrap_or(i64::MAX))))
}

/// In what steps the counter counts, ≥ 1 count: half of the way it makes while it is read as fast
/// as it can be is made in steps no larger. Takes under 0.2 ms; 20 ms for a device.
///
/// A guest's TSC may advance by some dozen counts at a time. That is more than the smallest
/// difference of two readings would say: some processors add one to a reading that would otherwise
/// repeat the last. A counter finer than a reading takes shows as coarse as that: the result is an
/// upper bound, but for counters of which the step is known
/// ([`Hardware::step`](crate::Hardware::step)).
#[must_use]
pub fn resolution(counter: Counter) -> CountSpan {
    let counter = counter.unfenced();
    if let Some(step) = counter.hardware().step() {
        return step;
    }
    let burst = |_| {
        let mut readings = [Count(0); BURST];
        for reading in &mut readings {
            *reading = counter.read();
        }
        usual_step(&readings)
    };
    // An interruption makes a burst look coarse, never fine.
    (0..BURSTS).map(burst).min().unwrap_or(CountSpan(1))
}

/// The step up to which half of the way is made; 1 if there is no way.
fn usual_step(readings: &[Count]) -> CountSpan {
    let forward = readings.iter().zip(readings.iter().skip(1)).map(|(a, b)| *b - *a);
    let mut steps: Vec<i64> = forward.map(|step| step.0).filter(|step| *step > 0).collect();
    steps.sort_unstable();
    let whole: i128 = steps.iter().map(|step| i128::from(*step)).sum();
    let mut way = 0;
    let half = steps.iter().find(|step| {
        way += i128::from(**step);
        way * 2 >= whole
    });
    CountSpan(half.copied().unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Choice;

    fn at(count: u64, raw_ns: i64, width: i64) -> Sandwich {
        Sandwich { count: Count(count), raw_ns, width: CountSpan(width) }
    }

    #[test]
    fn slope_and_its_error() {
        // 2.5 GHz over 100 ms across the counter's wrap, 100 counts wide at either end.
        let start = u64::MAX - 1000;
        let (period, error) =
            slope(at(start, 5, 100), at(start.wrapping_add(250_000_000), 100_000_005, 100))
                .unwrap();
        assert_eq!(period.hz(), 2_500_000_000);
        assert_eq!(error.as_ppt() / 1000, 404, "101 counts of 250 million, in ppb");
        // Stopped, backwards, or the other clock stopped.
        assert!(slope(at(7, 0, 0), at(7, 100, 0)).is_none());
        assert!(slope(at(7, 0, 0), at(6, 100, 0)).is_none());
        assert!(slope(at(7, 100, 0), at(9, 100, 0)).is_none());
        assert!(slope(at(7, i64::MIN, 0), at(9, i64::MAX, 0)).is_none());
    }

    #[test]
    fn a_register_gives_the_period() {
        for hz in [24_000_000, 25_000_000, 62_500_000, 1_000_000_000] {
            assert_eq!(Period::from_hz(hz).hz(), hz);
        }
    }

    #[test]
    fn steps() {
        let after = |steps: &[i64]| {
            let mut count = Count(u64::MAX - 30);
            let step = |step: &i64| {
                count = count + CountSpan(*step);
                count
            };
            let readings: Vec<Count> = [0].iter().chain(steps).map(step).collect();
            usual_step(&readings)
        };
        assert_eq!(
            after(&[26, 26, 1, 25, 26, 26]),
            CountSpan(26),
            "one added to a repeated reading"
        );
        assert_eq!(
            after(&[1, 1, 1, 1, 96, 1, 1, 1, 97]),
            CountSpan(96),
            "read faster than it steps"
        );
        assert_eq!(after(&[0, 0, 1, 0, 0, 1]), CountSpan(1));
        assert_eq!(after(&[20, 30, 20, 21, -5, 20]), CountSpan(20), "a step back is no step");
        assert_eq!(after(&[0, 0, 0]), CountSpan(1));
        assert_eq!(usual_step(&[]), CountSpan(1));
        assert_eq!(after(&[i64::MAX, i64::MAX, i64::MAX]), CountSpan(i64::MAX));
    }

    #[test]
    fn raw_needs_no_measuring() {
        let raw = Counter::open(Choice::Raw).unwrap();
        let nominal = nominal(raw).unwrap();
        assert_eq!(
            (nominal.period, nominal.source),
            (Period::NANOSECOND, NominalSource::Definition)
        );
        assert_eq!(nominal.error.as_ppt(), 500_000_000);
        assert!(resolution(raw).0 >= 1);
    }

    #[test]
    fn this_machines_counter_is_measured_alike_twice() {
        let counter = Counter::open(Choice::Auto).unwrap();
        let (a, b) = (nominal(counter).unwrap(), nominal(counter).unwrap());
        let apart = a.period.relative_to(b.period).as_ppt().abs();
        assert!(apart <= a.error.as_ppt() + b.error.as_ppt(), "{apart} ppt");
        assert!((1_000_000..20_000_000_000).contains(&a.period.hz()), "{}", a.period.hz());
    }
}
