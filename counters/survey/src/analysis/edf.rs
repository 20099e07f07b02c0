//! Equivalent degrees of freedom: how much an estimated variance may be off.
//!
//! The combined method of SP 1065, section 5.4.1, by Greenhall and Riley, "Uncertainty of stability
//! variances based on finite differences" (2003), whose symbols are used here: overlapping
//! estimates (stride S = m) only.

use serde::Serialize;

use super::allan::Deviation;
use super::chi_squared::chi_squared_quantile;
use super::noise::Noise;

/// Up to so many terms the sums are made; beyond, they are approximated.
const MOST: f64 = 100.0;

/// Between which limits the true deviation is, with some confidence.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Limits {
    /// The lower one.
    pub low: f64,
    /// The upper one.
    pub high: f64,
}

impl Limits {
    /// The limits around `deviation`, whose square has `edf` equivalent degrees of freedom, within
    /// which the true one is with the probability `confidence` (0 to 1): as likely above as below.
    #[must_use]
    pub fn of(deviation: f64, edf: f64, confidence: f64) -> Limits {
        let tail = (1.0 - confidence) / 2.0;
        let at = |p: f64| deviation * libm::sqrt(edf / chi_squared_quantile(p, edf));
        Limits { low: at(1.0 - tail), high: at(tail) }
    }
}

/// The equivalent degrees of freedom of an overlapping estimate at τ = `m` intervals that is made
/// of `terms` differences, where this type of noise dominates. At least 1e-3, so that limits exist.
#[must_use]
pub fn degrees_of_freedom(kind: Deviation, noise: Noise, m: usize, terms: usize) -> f64 {
    let (d, terms, m) = (kind.order(), terms.max(1) as f64, m.max(1) as f64);
    let case = Case { noise, d, terms, m, ratio: terms / m };
    let inverse = if kind.is_modified() || m == 1.0 {
        case.modified()
    } else {
        match noise {
            Noise::WhitePhase => case.white_phase(),
            Noise::FlickerPhase => case.flicker_phase(),
            _ => case.frequency(),
        }
    };
    // No more than there are terms, whatever the approximations say.
    let edf = if inverse > 0.0 { 1.0 / inverse } else { terms };
    edf.clamp(1e-3, terms.max(1.0))
}

/// Case that the sums depend on.
struct Case {
    noise: Noise,
    /// Order of the differences.
    d: usize,
    /// M: how many there are.
    terms: f64,
    /// The averaging factor, also the stride.
    m: f64,
    /// r = M/S.
    ratio: f64,
}

impl Case {
    /// J: over how many strides the differences are correlated.
    fn correlated(&self) -> f64 {
        self.terms.min((self.d as f64 + 1.0) * self.m)
    }

    /// True if the estimate is long enough for its asymptotic form.
    fn long(&self) -> bool {
        self.ratio >= self.d as f64 + 1.0
    }

    /// 1/edf by the sum, the filter factor being `filter` (infinite: none).
    fn summed(&self, filter: f64) -> f64 {
        let z0 = self.z(0.0, filter);
        self.sum(self.correlated(), self.terms, self.m, filter) / (z0 * z0 * self.terms)
    }

    /// 1/edf of a short estimate with many terms, thinned to as many as there may be.
    fn thinned(&self, filter: f64, z0: f64) -> f64 {
        self.sum(MOST, MOST, MOST / self.ratio, filter) / (z0 * z0 * MOST)
    }

    fn asymptotic(&self, [a0, a1]: [f64; 2]) -> f64 {
        (a0 - a1 / self.ratio) / self.ratio
    }

    /// Case 1: modified, or τ = one interval.
    fn modified(&self) -> f64 {
        if self.correlated() <= MOST {
            self.summed(1.0)
        } else if self.long() {
            self.asymptotic(match (self.noise, self.d) {
                (Noise::WhitePhase, 3) => [0.880, 0.667],
                (Noise::FlickerPhase, 3) => [1.141, 0.843],
                (Noise::WhiteFrequency, 3) => [1.184, 0.848],
                (Noise::FlickerFrequency, 3) => [1.180, 0.816],
                (Noise::RandomWalkFrequency, 3) => [1.175, 0.777],
                (Noise::WhitePhase, _) => [0.778, 0.500],
                (Noise::FlickerPhase, _) => [0.997, 0.616],
                (Noise::WhiteFrequency, _) => [1.033, 0.607],
                (Noise::FlickerFrequency, _) => [1.048, 0.534],
                (Noise::RandomWalkFrequency, _) => [1.302, 0.535],
            })
        } else {
            self.thinned(1.0, self.z(0.0, 1.0))
        }
    }

    /// Case 2: not modified, noise of the frequency.
    fn frequency(&self) -> f64 {
        if self.correlated() <= MOST {
            let few = self.m * (self.d as f64 + 1.0) <= MOST;
            self.summed(if few { self.m } else { f64::INFINITY })
        } else if self.long() {
            self.asymptotic(match (self.noise, self.d) {
                (Noise::WhiteFrequency, 3) => [0.778, 0.500],
                (Noise::FlickerFrequency, 3) => [0.997, 0.617],
                (_, 3) => [1.033, 0.607],
                (Noise::WhiteFrequency, _) => [0.667, 0.333],
                (Noise::FlickerFrequency, _) => [0.852, 0.375],
                _ => [1.079, 0.368],
            })
        } else {
            self.thinned(f64::INFINITY, self.z(0.0, f64::INFINITY))
        }
    }

    /// Case 3: not modified, flicker of the phase.
    fn flicker_phase(&self) -> f64 {
        if self.correlated() <= MOST {
            return self.summed(self.m);
        }
        let (b0, b1, a) = if self.d == 3 {
            (47.8, 40.0, [9950.0, 6520.0])
        } else {
            (15.23, 12.0, [790.0, 410.0])
        };
        let z0 = b0 + b1 * libm::log(self.m);
        if self.long() {
            self.asymptotic(a) / (z0 * z0)
        } else {
            self.thinned(MOST / self.ratio, z0)
        }
    }

    /// Case 4: not modified, white noise of the phase: differences share whole samples or nothing.
    fn white_phase(&self) -> f64 {
        let d = self.d;
        let whole = choose(2 * d, d);
        let strides = libm::ceil(self.ratio) as usize;
        let inverse = if strides <= d {
            let shared: f64 = (1..strides)
                .map(|k| (1.0 - k as f64 / self.ratio) * choose(2 * d, d - k).powi(2))
                .sum();
            1.0 + 2.0 * shared / (whole * whole)
        } else {
            choose(4 * d, 2 * d) / (whole * whole) - d as f64 / 2.0 / self.ratio
        };
        inverse / self.terms
    }

    /// The sum of squared autocovariances of the differences: `count` of them, `stride` per τ.
    fn sum(&self, correlated: f64, count: f64, stride: f64, filter: f64) -> f64 {
        let square = |j: f64| {
            let z = self.z(j / stride, filter);
            z * z
        };
        let mut sum = square(0.0) + (1.0 - correlated / count) * square(correlated);
        for j in 1..libm::ceil(correlated) as u32 {
            let j = f64::from(j);
            sum += 2.0 * (1.0 - j / count) * square(j);
        }
        sum
    }

    /// Autocovariance of the differences at distance `t` (in τ).
    fn z(&self, t: f64, filter: f64) -> f64 {
        let x = |t: f64| self.x(t, filter);
        if self.d == 3 {
            20.0 * x(t) - 15.0 * (x(t - 1.0) + x(t + 1.0)) + 6.0 * (x(t - 2.0) + x(t + 2.0))
                - x(t - 3.0)
                - x(t + 3.0)
        } else {
            6.0 * x(t) - 4.0 * (x(t - 1.0) + x(t + 1.0)) + x(t - 2.0) + x(t + 2.0)
        }
    }

    /// Generalised autocovariance of the averaged phase.
    fn x(&self, t: f64, filter: f64) -> f64 {
        let alpha = self.noise.alpha();
        if filter.is_infinite() {
            return integrated(t, alpha + 2);
        }
        let step = 1.0 / filter;
        let second =
            2.0 * integrated(t, alpha) - integrated(t - step, alpha) - integrated(t + step, alpha);
        filter * filter * second
    }
}

/// Generalised autocovariance of the integral of the phase, S_w.
fn integrated(t: f64, alpha: i32) -> f64 {
    let t = t.abs();
    let log = if t > 0.0 { libm::log(t) } else { 0.0 };
    match alpha {
        2 => -t,
        1 => t * t * log,
        0 => t.powi(3),
        -1 => -t.powi(4) * log,
        -2 => -t.powi(5),
        // Phase noise is infinite without a filter: no case asks for that.
        _ => f64::NAN,
    }
}

/// The binomial coefficient.
fn choose(n: usize, k: usize) -> f64 {
    (0..k).fold(1.0, |product, i| product * (n - i) as f64 / (i + 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binomials() {
        assert_eq!(
            [choose(4, 2), choose(8, 4), choose(6, 3), choose(5, 0)],
            [6.0, 70.0, 20.0, 1.0]
        );
    }

    #[test]
    fn limits_enclose_and_narrow() {
        let mut before = f64::INFINITY;
        for edf in [0.5, 2.0, 10.0, 100.0, 10_000.0] {
            let limits = Limits::of(1.0, edf, 0.95);
            assert!(limits.low < 1.0 && limits.high > 1.0, "{edf} {limits:?}");
            let width = limits.high / limits.low;
            assert!(width < before, "{edf} {limits:?}");
            before = width;
        }
    }

    #[test]
    fn always_between_almost_none_and_the_number_of_terms() {
        for kind in [Deviation::Allan, Deviation::Modified, Deviation::Hadamard] {
            for noise in Noise::ALL {
                for m in [1, 2, 3, 10, 33, 34, 100, 5000] {
                    for terms in [1, 2, 5, 50, 99, 150, 301, 5000, 1_000_000] {
                        let edf = degrees_of_freedom(kind, noise, m, terms);
                        let most = terms as f64;
                        assert!(edf >= 0.3 && edf <= most, "{kind:?} {noise:?} {m} {terms}: {edf}");
                    }
                }
            }
        }
    }
}
