//! Figures of readings.

use truechimer_outcome::stats::{Spread, median};
use truechimer_report::{mean, rms};

/// Time for which an error must stay below a limit to be called settled, s.
pub const STEADY: f64 = 20.0;

/// A reading of one clock, judged by the truth.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    /// Seconds since the beginning.
    pub at: f64,
    /// The clock − true time, ns.
    pub error: f64,
    /// Bound that it stated of this, ns; `None` if it said nothing.
    pub bound: Option<f64>,
}

/// The figures of one clock over some time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figures {
    /// Number of readings.
    pub readings: usize,
    /// The root of the mean square of the error, ns.
    pub rms: f64,
    /// Quantiles of its magnitude, ns.
    pub spread: Spread,
    /// The mean, ns: what a path that differs in its two directions does.
    pub mean: f64,
    /// Number of readings that had a bound.
    pub bounded: usize,
    /// Number of these that were within it.
    pub inside: usize,
    /// The median of the bounds, ns.
    pub bound: f64,
}

impl Figures {
    /// Of the readings from `from` to `to`, s.
    #[must_use]
    pub fn of(samples: &[Sample], from: f64, to: f64) -> Figures {
        let part = || samples.iter().filter(|sample| (from..to).contains(&sample.at));
        let errors = || part().map(|sample| sample.error);
        let bounds: Vec<f64> = part().filter_map(|sample| sample.bound).collect();
        let inside = |s: &&Sample| s.bound.is_some_and(|bound| s.error.abs() <= bound);
        Figures {
            readings: part().count(),
            rms: rms(errors()),
            spread: Spread::of(errors()),
            mean: mean(errors()),
            bounded: bounds.len(),
            inside: part().filter(inside).count(),
            bound: median(&bounds),
        }
    }

    /// Of several rounds: counts are added, everything else is the median of the rounds that have
    /// readings.
    #[must_use]
    pub fn over(rounds: &[Figures]) -> Figures {
        let some: Vec<&Figures> = rounds.iter().filter(|one| one.readings > 0).collect();
        let of = |part: fn(&Figures) -> f64| median(some.iter().map(|one| part(one)));
        let sum = |part: fn(&Figures) -> usize| some.iter().map(|one| part(one)).sum();
        Figures {
            readings: sum(|one| one.readings),
            rms: of(|one| one.rms),
            spread: Spread::median(&some.iter().map(|one| one.spread).collect::<Vec<_>>()),
            mean: of(|one| one.mean),
            bounded: sum(|one| one.bounded),
            inside: sum(|one| one.inside),
            bound: of(|one| one.bound),
        }
    }

    /// The share of the readings with a bound that were within it; not a number of none.
    #[must_use]
    pub fn inside_share(&self) -> f64 {
        self.inside as f64 / self.bounded as f64
    }
}

/// From when on the error stays below `most`, ns, for `STEADY` seconds; `None` if it never does.
#[must_use]
pub fn settled(samples: &[Sample], most: f64) -> Option<f64> {
    let mut since = None;
    for sample in samples {
        if sample.error.abs() > most {
            since = None;
        } else {
            let since = *since.get_or_insert(sample.at);
            if sample.at - since >= STEADY {
                return Some(since);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_part_asked_for_counts() {
        let sample = |at, error, bound| Sample { at, error, bound };
        let samples = [
            sample(1.0, 1e6, None),
            sample(10.0, 3.0, Some(4.0)),
            sample(11.0, -4.0, Some(3.0)),
            sample(12.0, 0.0, None),
            sample(20.0, 1e6, Some(1.0)),
        ];
        let figures = Figures::of(&samples, 10.0, 20.0);
        assert_eq!((figures.readings, figures.bounded, figures.inside), (3, 2, 1));
        assert!((figures.rms - (25.0_f64 / 3.0).sqrt()).abs() < 1e-9);
        assert_eq!((figures.spread.most, figures.bound), (4.0, 3.5));
        assert_eq!(figures.inside_share(), 0.5);
        let none = Figures::of(&samples, 50.0, 60.0);
        assert!(none.rms.is_nan());
        let louder = Figures { rms: figures.rms + 2.0, ..figures };
        let over = Figures::over(&[figures, none, louder]);
        assert_eq!((over.readings, over.bounded, over.inside), (6, 4, 2));
        assert!((over.rms - figures.rms - 1.0).abs() < 1e-9);
    }

    #[test]
    fn settled_is_who_stays_below() {
        let at = |n: u32, error| Sample { at: f64::from(n), error, bound: None };
        let error = |n| if n < 5 || n == 12 { 50.0 } else { -1.0 };
        let samples: Vec<_> = (0..60).map(|n| at(n, error(n))).collect();
        assert_eq!(settled(&samples, 10.0), Some(13.0));
        assert_eq!(settled(&samples, 100.0), Some(0.0));
        assert_eq!(settled(&samples, 0.5), None);
        assert_eq!(settled(&samples[..20], 10.0), None);
    }
}
