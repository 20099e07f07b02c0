//! Watching a clock: reading it again and again between two readings of the truth.

use std::time::{Duration, Instant};

use truechimer::{Clock, ReadError, Reading, Status};

use crate::truth::Truth;

/// Interval between readings of a clock.
const EVERY: Duration = Duration::from_millis(50);
/// Readings each time, of which the one with the narrowest truth is kept.
const TRIES: usize = 5;

/// One reading. Times are Unix ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Since the watch began.
    pub at: Duration,
    /// Status by the clock itself.
    pub status: Status,
    /// The truth just before and just after the reading.
    pub truth: (i64, i64),
    /// Time by the clock: earliest, best, latest.
    pub said: (i64, i64, i64),
}

impl Sample {
    /// Reads the clock between two readings of the time by `now_ns`, and says what it read.
    ///
    /// # Errors
    /// If the clock cannot be read.
    pub fn look(
        clock: &Clock,
        now_ns: impl Fn() -> i64,
        start: Instant,
    ) -> Result<(Sample, Reading), ReadError> {
        let before = now_ns();
        let reading = clock.now()?;
        let after = now_ns();
        let sample = Sample {
            at: start.elapsed(),
            status: reading.status,
            truth: (before, after),
            said: unix(&reading),
        };
        Ok((sample, reading))
    }

    fn take(clock: &Clock, truth: &Truth, start: Instant, beyond_ns: i64) -> Option<Sample> {
        let (sample, reading) = Sample::look(clock, || truth.now_ns(), start).ok()?;
        // However late the scheduler let us read the truth again: it was between these two.
        assert!(
            !reading.status.bound_holds() || sample.outside_ns() <= beyond_ns,
            "a broken promise: off by {} ns beyond the bound of {} ns\n{sample:?}\n{reading:?}",
            sample.outside_ns(),
            sample.bound_ns(),
        );
        Some(sample)
    }

    /// Distance of the truth from the interval promised, ns; 0 if within.
    #[must_use]
    pub fn outside_ns(&self) -> i64 {
        let (earliest, _, latest) = self.said;
        (earliest - self.truth.1).max(self.truth.0 - latest).max(0)
    }

    /// Best estimate − truth, ns, to about half of [`Sample::width_ns`].
    #[must_use]
    pub fn error_ns(&self) -> i64 {
        self.said.1 - self.truth.0 - self.width_ns() / 2
    }

    /// Half of the interval promised, ns.
    #[must_use]
    pub fn bound_ns(&self) -> i64 {
        (self.said.2 - self.said.0 + 1) / 2
    }

    /// Time that the reading took, ns.
    #[must_use]
    pub fn width_ns(&self) -> i64 {
        self.truth.1 - self.truth.0
    }
}

/// Earliest, best and latest as Unix ns, rounded outwards.
fn unix(reading: &Reading) -> (i64, i64, i64) {
    if !reading.status.bound_holds() {
        return (i64::MIN / 4, 0, i64::MAX / 4);
    }
    let [earliest, best, latest] = [reading.earliest, reading.best, reading.latest]
        .map(|t| i64::try_from(reading.leaps().utc(t).unix_nanos()).expect("before 2262"));
    (earliest, best, latest + 1)
}

/// A clock under watch. Any reading whose status promises a bound that does not hold fails the
/// test at once.
pub struct Watch {
    clock: Clock,
    truth: Truth,
    start: Instant,
    /// Distance by which the truth may be outside the bound, ns: 0 but where a lie cannot be told from the truth.
    pub beyond_ns: i64,
    /// All that was seen so far.
    pub samples: Vec<Sample>,
}

impl Watch {
    /// Begins to watch; `start` is what the samples' times count from.
    #[must_use]
    pub fn new(clock: Clock, truth: Truth, start: Instant) -> Watch {
        Watch { clock, truth, start, beyond_ns: 0, samples: Vec::new() }
    }

    /// Looks for this long.
    pub fn run(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    /// Looks for this long or until a sample is as wanted; says whether one was.
    pub fn run_until(&mut self, time: Duration, wanted: impl Fn(&Sample) -> bool) -> bool {
        let end = Instant::now() + time;
        while Instant::now() < end {
            let tries = (0..TRIES)
                .filter_map(|_| Sample::take(&self.clock, &self.truth, self.start, self.beyond_ns));
            if let Some(sample) = tries.min_by_key(Sample::width_ns) {
                self.samples.push(sample);
                if wanted(&sample) {
                    return true;
                }
            }
            std::thread::sleep(EVERY);
        }
        false
    }

    /// Looks until the status is this one.
    pub fn run_until_status(&mut self, status: Status, within: Duration) {
        assert!(
            self.run_until(within, |sample| sample.status == status),
            "not {status} within {within:?}, but {:?}",
            self.samples.last()
        );
    }

    /// Looks until something else is so.
    #[track_caller]
    pub fn run_until_so(&mut self, within: Duration, what: &str, mut is: impl FnMut() -> bool) {
        let end = Instant::now() + within;
        while !is() {
            assert!(Instant::now() < end, "not within {within:?}: {what}");
            self.run(2 * EVERY);
        }
    }

    /// The samples from this time on.
    #[must_use]
    pub fn since(&self, at: Duration) -> &[Sample] {
        self.samples.get(self.samples.partition_point(|s| s.at < at)..).unwrap_or_default()
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The figures, for the log: all samples with a promise, and how the truth lay in it.
    #[must_use]
    pub fn summary(&self) -> String {
        let held: Vec<_> = self.samples.iter().filter(|s| s.status.bound_holds()).collect();
        let median = |of: fn(&Sample) -> i64| median(held.iter().map(|s| of(s)));
        let worst = held
            .iter()
            .map(|s| s.error_ns().abs() as f64 / s.bound_ns().max(1) as f64)
            .fold(0.0, f64::max);
        format!(
            "{} of {} readings with a bound, all within {} ns of it; median bound {} ns, median |error| {} ns, \
             worst |error|/bound {worst:.3}, median sandwich {} ns",
            held.len(),
            self.samples.len(),
            self.beyond_ns,
            median(Sample::bound_ns),
            median(|s| s.error_ns().abs()),
            median(Sample::width_ns),
        )
    }
}

/// The median; 0 of nothing.
#[must_use]
pub fn median(values: impl Iterator<Item = i64>) -> i64 {
    let mut values: Vec<i64> = values.collect();
    values.sort_unstable();
    truechimer_report::percentile(&values, 50).unwrap_or(0)
}

/// Time to watch: `usual`, or the seconds in `TRUECHIMER_SOAK` if those are more.
#[must_use]
pub fn long(usual: Duration) -> Duration {
    let soak = std::env::var("TRUECHIMER_SOAK").ok().and_then(|text| text.parse().ok());
    usual.max(Duration::from_secs(soak.unwrap_or(0)))
}
