//! A normal quantity that is cut off on one side.

/// 1/√(2π): density of a standard normal quantity at its mean.
const NORMAL: f64 = 0.398_942_280_401_432_7;
/// Least share of a variance that a measurement leaves: rounding may not make it vanish. √ε: half of the digits that a number has.
pub const LEAST_LEFT: f64 = 1.0 / (1 << 26) as f64;

/// A standard normal quantity, given that it is above some depth.
///
/// Where z = y + e was seen, y is normal and e ≥ 0 exponential, y is normal about its mean +
/// variance / scale and cut off at z; so e is what is left above the depth = deviation / scale −
/// (z − mean) / deviation. Lengths are in deviations of y.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tail {
    /// Φ(−depth) · exp(depth²/2) · `lowest`: what the density of z is proportional to.
    pub mass: f64,
    /// Mean of e: of the quantity, less the depth.
    pub excess: f64,
    /// Variance of the quantity.
    pub variance: f64,
}

impl Tail {
    /// `peak` is exp(depth²/2) · `lowest`, which is of use only if the depth is negative. Without
    /// branches and calls, so that several tails are worked out at once.
    #[inline]
    pub fn above(depth: f64, peak: f64, lowest: f64) -> Tail {
        let beyond = mean_beyond(depth.abs());
        let share = NORMAL * lowest / (depth.abs() + beyond);
        let is_far = depth >= 0.0;
        let mass = if is_far { share } else { peak - share };
        let cut = NORMAL * lowest / mass;
        let hazard = if is_far { depth + beyond } else { cut };
        let excess = if is_far { beyond } else { cut - depth };
        let left = 1.0 - hazard * excess;
        Tail { mass, excess, variance: if left > LEAST_LEFT { left } else { LEAST_LEFT } }
    }
}

/// Mean of a standard normal quantity that is beyond `t` ≥ 0, less `t`, to 8 digits: the rational
/// function of this degree that is nearest everywhere.
#[inline]
fn mean_beyond(t: f64) -> f64 {
    // Beyond that rounding leaves nothing of it beside `t`; powers would overflow.
    let t = if t < 1.0 / f64::EPSILON { t } else { 1.0 / f64::EPSILON };
    let sum = |terms: &[f64]| terms.iter().fold(1.0, |sum, term| sum * t + term);
    sum(&ABOVE) / sum(&BELOW)
}

/// Coefficients of its numerator and denominator, from the highest power on, which has 1.
const ABOVE: [f64; 5] = [
    12.839_663_492_950_475,
    81.978_826_436_956_78,
    312.082_756_449_276_6,
    709.424_271_130_124_7,
    806.751_014_620_377_1,
];
const BELOW: [f64; 6] = [
    12.839_662_227_603_494,
    83.979_026_088_068_89,
    337.751_490_374_712_6,
    867.659_131_763_352_4,
    1_349.621_827_067_845_3,
    1_011.112_454_315_165_2,
];

#[cfg(test)]
mod tests {
    use super::*;
    use core::f64::consts::FRAC_1_SQRT_2;

    #[test]
    fn the_mean_beyond_is_that_of_the_error_function() {
        for k in 0..1500 {
            let t = f64::from(k) * 0.01;
            let tail = libm::erfc(t * FRAC_1_SQRT_2) / 2.0;
            let exact = NORMAL * libm::exp(-t * t / 2.0) / tail - t;
            assert!((mean_beyond(t) / exact - 1.0).abs() < 1e-8, "{t}: {} {exact}", mean_beyond(t));
        }
        for t in [1e3, 1e9, 1e300] {
            assert!(
                (mean_beyond(t) * t.min(1.0 / f64::EPSILON) - 1.0).abs() < 3.0 / (t * t) + 1e-8,
                "{t}"
            );
        }
    }

    /// Tail by adding up: y in deviations, e = distance − y.
    fn summed(distance: f64, deviation: f64, scale: f64) -> (f64, f64, f64) {
        let (mut mass, mut first, mut second) = (0.0, 0.0, 0.0);
        let step = 1e-4;
        for k in 0..400_000 {
            let e = (f64::from(k) + 0.5) * step;
            let y = distance - e;
            let weight = NORMAL * libm::exp(-y * y / 2.0 - e * deviation / scale) / scale * step;
            mass += weight;
            first += weight * e;
            second += weight * e * e;
        }
        let mean = first / mass;
        (libm::log(mass), mean, second / mass - mean * mean)
    }

    fn above(depth: f64) -> Tail {
        let square = if depth < 0.0 { depth * depth } else { 0.0 };
        Tail::above(depth, 1.0, libm::exp(-square / 2.0))
    }

    #[test]
    fn it_agrees_with_the_integral() {
        for (distance, deviation, scale) in [
            (0.0, 1.0, 1.0),
            (-3.0, 1.0, 2.0),
            (5.0, 1.0, 10.0),
            (1.0, 11.5, 1.0),
            (1.0, 13.5, 1.0),
            (4.0, 1.0, 2.0),
            (9.0, 1.0, 4.0),
        ] {
            let depth: f64 = deviation / scale - distance;
            let tail = above(depth);
            let (log, mean, variance) = summed(distance, deviation, scale);
            // exp(tilt²/2 − tilt·distance) Φ(−depth) / scale.
            let less = depth.min(0.0);
            let exponent = (less * less - distance * distance) / 2.0;
            let density = exponent + libm::log(tail.mass / scale);
            assert!((density - log).abs() < 1e-4, "{distance}: {tail:?} {log}");
            assert!((tail.excess / mean - 1.0).abs() < 1e-4, "{distance}: {tail:?} {mean}");
            assert!((tail.variance / variance - 1.0).abs() < 1e-3, "{distance}: {tail:?}");
        }
    }

    #[test]
    fn the_ends_are_finite() {
        for depth in [-1e18, -40.0, 0.0, 40.0, 1e18] {
            let tail = above(depth);
            assert!(tail.excess.is_finite() && tail.excess >= 0.0, "{tail:?}");
            assert!((LEAST_LEFT..=1.0).contains(&tail.variance), "{tail:?}");
            assert!((0.0..=1.0).contains(&tail.mass), "{tail:?}");
        }
    }
}
