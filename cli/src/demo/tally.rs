//! Readings that the demonstration remembers.

use truechimer_report::percentile;
use truechimer_time::Span;
use truechimer_timehands::Status;

/// One reading of the clock, judged by the truth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Since the demonstration began.
    pub at: Span,
    /// Status that the clock gave.
    pub status: Status,
    /// The bound that it claimed.
    pub bound: Span,
    /// Clock − truth.
    pub error: Span,
}

impl Sample {
    /// True if the truth lay within the bound.
    pub fn inside(&self) -> bool {
        self.error.abs() <= self.bound
    }
}

/// All readings so far.
#[derive(Clone, Default, Debug)]
pub struct Tally {
    samples: Vec<Sample>,
}

/// Summary at the end, once the clock has synchronised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Summary {
    /// The first reading whose bound held.
    pub first: Sample,
    /// The last reading.
    pub last: Sample,
    /// Number of readings since the first.
    pub readings: usize,
    /// Number of them that were within their bound, and promised to be.
    pub inside: usize,
    /// Median of |error|.
    pub median_error: Span,
    /// The largest |error|.
    pub worst_error: Span,
    /// Median of the bound.
    pub median_bound: Span,
}

impl Summary {
    /// True if every reading was within its bound.
    pub fn good(&self) -> bool {
        self.inside == self.readings
    }
}

impl Tally {
    /// Takes in a reading. Until one says that its bound holds, nothing is promised; from then on
    /// every reading counts, and one that withdraws the promise counts as outside.
    pub fn add(&mut self, sample: Sample) {
        if !self.samples.is_empty() || sample.status.bound_holds() {
            self.samples.push(sample);
        }
    }

    /// The summary; `None` if the clock never synchronised.
    pub fn summary(&self) -> Option<Summary> {
        let (first, last) = (*self.samples.first()?, *self.samples.last()?);
        let errors = sorted(self.samples.iter().map(|s| s.error.abs()));
        let bounds = sorted(self.samples.iter().map(|s| s.bound));
        let kept = |s: &&Sample| s.status.bound_holds() && s.inside();
        Some(Summary {
            first,
            last,
            readings: self.samples.len(),
            inside: self.samples.iter().filter(kept).count(),
            median_error: percentile(&errors, 50).unwrap_or_default(),
            worst_error: errors.last().copied().unwrap_or_default(),
            median_bound: percentile(&bounds, 50).unwrap_or_default(),
        })
    }
}

fn sorted(spans: impl Iterator<Item = Span>) -> Vec<Span> {
    let mut spans: Vec<_> = spans.collect();
    spans.sort_unstable();
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: i64, status: Status, bound: i64, error: i64) -> Sample {
        Sample {
            at: Span::from_secs(at),
            status,
            bound: Span::from_micros(bound),
            error: Span::from_micros(error),
        }
    }

    #[test]
    fn nothing_counts_before_the_first_promise() {
        let mut tally = Tally::default();
        tally.add(sample(0, Status::Unknown, 0, 1_500_000));
        assert_eq!(tally.summary(), None);
        for (at, bound, error) in [(1, 50, -7), (2, 40, 1), (3, 30, 2)] {
            tally.add(sample(at, Status::Synchronised, bound, error));
        }
        let summary = tally.summary().unwrap();
        assert_eq!(summary.first.at, Span::from_secs(1));
        assert_eq!((summary.readings, summary.inside), (3, 3));
        assert_eq!(summary.median_error, Span::from_micros(2));
        assert_eq!(summary.worst_error, Span::from_micros(7));
        assert_eq!(summary.median_bound, Span::from_micros(40));
        assert!(summary.good());
    }

    #[test]
    fn an_error_outside_its_bound_and_a_promise_withdrawn_both_spoil_it() {
        for spoilt in [sample(2, Status::Synchronised, 5, 6), sample(2, Status::Disrupted, 50, 1)] {
            let mut tally = Tally::default();
            tally.add(sample(1, Status::Synchronised, 5, -5));
            tally.add(spoilt);
            assert!(!tally.summary().unwrap().good());
        }
    }
}
