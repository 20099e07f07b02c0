//! Coverage of the truth by likely intervals, and how much narrower they are than bounds.

use serde::Serialize;
use truechimer_feedforward::Estimate;
use truechimer_feedforward::number::seconds;

use truechimer_trace::{Sample, Trace};

/// The doubts that likely intervals are judged at: one less the confidence.
pub const DOUBTS: [f64; 3] = [1e-2, 1e-4, 1e-6];

/// Likely intervals read once a second. Where there is none the bound counts for it.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Coverage {
    /// Readings with a bound.
    pub seconds: usize,
    /// Of these, those without a likely interval.
    pub silent: usize,
    /// At each of [`DOUBTS`].
    pub at: [AtDoubt; DOUBTS.len()],
}

/// Likely intervals at one doubt.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct AtDoubt {
    /// Seconds that were read.
    seconds: usize,
    /// Of these, those with the truth outside.
    pub outside: usize,
    /// The largest error there, in half-widths; 0 if there was none.
    pub most: f64,
    /// Sum of the logarithms of bound over half-width.
    narrower: f64,
}

impl AtDoubt {
    fn read(&mut self, error: f64, half: f64, bound: f64) {
        self.seconds += 1;
        if error.abs() > half {
            self.outside += 1;
            self.most = self.most.max(error.abs() / half);
        }
        self.narrower += libm::log(bound / half).max(0.0);
    }
}

impl Coverage {
    /// Takes in an estimate that is off by `error`, s.
    pub fn read(&mut self, error: f64, estimate: &Estimate) {
        let bound = seconds(estimate.bound);
        self.seconds += 1;
        self.silent += usize::from(!estimate.spread.is_known);
        for (at, doubt) in self.at.iter_mut().zip(DOUBTS) {
            let likely = estimate.spread.within(doubt).map_or(bound, |(half, _)| seconds(half));
            at.read(error, likely.min(bound), bound);
        }
    }

    /// The likely intervals of a published clock, which has one confidence: in the last place.
    #[must_use]
    pub fn of_trace(trace: &Trace) -> Coverage {
        let mut coverage = Coverage::default();
        let promised = |s: &&Sample| s.status.bound_holds() && s.at >= trace.warm_up;
        for s in trace.samples.iter().filter(promised) {
            coverage.seconds += 1;
            coverage.silent += usize::from(s.likely.is_none());
            let likely = s.likely.unwrap_or(s.bound);
            if let Some(at) = coverage.at.last_mut() {
                at.read(s.error, likely, s.bound);
            }
        }
        coverage
    }

    /// Both together.
    #[must_use]
    pub fn plus(mut self, other: &Coverage) -> Coverage {
        self.seconds += other.seconds;
        self.silent += other.silent;
        for (at, other) in self.at.iter_mut().zip(&other.at) {
            at.seconds += other.seconds;
            at.outside += other.outside;
            at.most = at.most.max(other.most);
            at.narrower += other.narrower;
        }
        self
    }

    /// True if anything was read at the how manyth of [`DOUBTS`].
    #[must_use]
    pub fn is_read(&self, which: usize) -> bool {
        self.at.get(which).is_some_and(|at| at.seconds > 0)
    }

    /// The share of the seconds with the truth outside, at the how manyth of [`DOUBTS`].
    #[must_use]
    pub fn outside(&self, which: usize) -> f64 {
        let at = self.at.get(which).copied().unwrap_or_default();
        at.outside as f64 / self.seconds.max(1) as f64
    }

    /// Bound over half-width, there: the geometric mean.
    #[must_use]
    pub fn narrower(&self, which: usize) -> f64 {
        let at = self.at.get(which).copied().unwrap_or_default();
        libm::exp(at.narrower / self.seconds.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_add_up() {
        let one = |error: f64, half: f64| {
            let mut coverage = Coverage { seconds: 1, ..Coverage::default() };
            coverage.at.iter_mut().for_each(|at| at.read(error, half, 8.0));
            coverage
        };
        let both = one(-3.0, 2.0).plus(&one(1.0, 8.0));
        assert_eq!((both.seconds, both.at[0].outside, both.at[2].most), (2, 1, 1.5));
        assert_eq!(both.outside(1), 0.5);
        assert!((both.narrower(0) - 2.0).abs() < 1e-12, "4 times and once");
    }
}
