//! The chi-squared distribution: what an estimated variance has.

/// Iterations that both expansions below need at most, for the degrees of freedom that occur.
const MOST: u32 = 10_000;

/// The probability that a chi-squared variable with `edf` degrees of freedom (> 0, not necessarily
/// whole) is at most `x`.
#[must_use]
pub fn chi_squared_cdf(x: f64, edf: f64) -> f64 {
    if !(x > 0.0 && edf > 0.0) {
        return if x.is_nan() || edf.is_nan() { f64::NAN } else { 0.0 };
    }
    if x.is_infinite() {
        return 1.0;
    }
    lower_gamma(edf / 2.0, x / 2.0)
}

/// The value that a chi-squared variable with `edf` degrees of freedom (> 0) stays below with the
/// probability `p`; not a number unless 0 < `p` < 1 and `edf` is positive and finite.
#[must_use]
pub fn chi_squared_quantile(p: f64, edf: f64) -> f64 {
    if !(p > 0.0 && p < 1.0 && edf > 0.0 && edf.is_finite()) {
        return f64::NAN;
    }
    // A bracket, then halving it in its logarithm: slow and sure.
    let (mut low, mut high) = (edf, edf);
    while chi_squared_cdf(low, edf) > p && low > f64::MIN_POSITIVE {
        low /= 4.0;
    }
    while chi_squared_cdf(high, edf) < p && high < f64::MAX / 4.0 {
        high = 2.0 * high + 1.0;
    }
    for _ in 0..200 {
        let middle =
            if high > 4.0 * low { libm::sqrt(low) * libm::sqrt(high) } else { (low + high) / 2.0 };
        if middle <= low || middle >= high {
            break;
        }
        if chi_squared_cdf(middle, edf) < p { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// The regularised lower incomplete gamma function P(a, x): Abramowitz and Stegun, 6.5.29 (series)
/// and 6.5.31 (continued fraction, by Lentz's method).
fn lower_gamma(a: f64, x: f64) -> f64 {
    let front = libm::exp(a * libm::log(x) - x - libm::lgamma(a));
    if x < a + 1.0 {
        let (mut term, mut sum) = (1.0 / a, 1.0 / a);
        for n in 1..MOST {
            term *= x / (a + f64::from(n));
            sum += term;
            if term < sum * f64::EPSILON {
                break;
            }
        }
        (front * sum).min(1.0)
    } else {
        const TINY: f64 = 1e-300;
        let mut b = x + 1.0 - a;
        let (mut c, mut d) = (1.0 / TINY, 1.0 / b);
        let mut fraction = d;
        for n in 1..MOST {
            let n = f64::from(n);
            let factor = -n * (n - a);
            b += 2.0;
            let not_zero = |v: f64| if v.abs() < TINY { TINY } else { v };
            d = 1.0 / not_zero(factor * d + b);
            c = not_zero(b + factor / c);
            fraction *= d * c;
            if (d * c - 1.0).abs() < f64::EPSILON {
                break;
            }
        }
        (1.0 - front * fraction).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Percentage points as every statistical table has them.
    #[test]
    fn as_in_the_tables() {
        for (p, edf, value) in [
            (0.025, 1.0, 0.000_982_069),
            (0.95, 1.0, 3.841_459),
            (0.5, 2.0, 1.386_294),
            (0.025, 5.0, 0.831_212),
            (0.975, 5.0, 12.832_502),
            (0.05, 10.0, 3.940_299),
            (0.95, 10.0, 18.307_038),
            (0.025, 30.0, 16.790_772),
            (0.975, 30.0, 46.979_242),
            (0.975, 100.0, 129.561_197),
            (0.99, 100.0, 135.806_723),
        ] {
            let got = chi_squared_quantile(p, edf);
            assert!((got / value - 1.0).abs() < 1e-6, "{p} {edf}: {got} for {value}");
        }
    }

    #[test]
    fn quantiles_undo_probabilities() {
        for edf in [0.3, 1.0, 2.5, 7.0, 99.0, 12_345.6, 1e6] {
            for p in [1e-6, 0.025, 0.16, 0.5, 0.84, 0.975, 0.999_999] {
                let x = chi_squared_quantile(p, edf);
                assert!((chi_squared_cdf(x, edf) - p).abs() < 1e-8, "{p} {edf}: {x}");
            }
        }
    }

    #[test]
    fn nonsense_is_not_a_number() {
        for (p, edf) in [(0.0, 1.0), (1.0, 1.0), (0.5, 0.0), (0.5, f64::NAN), (f64::NAN, 1.0)] {
            assert!(chi_squared_quantile(p, edf).is_nan(), "{p} {edf}");
        }
        assert_eq!(chi_squared_cdf(-1.0, 3.0), 0.0);
        assert_eq!(chi_squared_cdf(f64::INFINITY, 3.0), 1.0);
    }
}
