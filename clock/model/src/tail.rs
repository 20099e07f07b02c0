//! A normal quantity that is cut off on one side.

use core::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// √(2/π).
const SQRT_2_OVER_PI: f64 = 0.797_884_560_802_865_4;
/// From here on a continued fraction is exact enough for the tail.
const FAR: f64 = 12.0;
/// From here on the cut is no matter.
const NEAR: f64 = -9.0;

/// What z says about y, where z = y + e was seen, y is normal and e ≥ 0 exponential.
///
/// Given z, y is normal about its mean + variance / scale, and cut off at z.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Density of z, in 1/s, over exp(`exponent`), which may be too small for a number.
    pub density: f64,
    /// See `density`.
    pub exponent: f64,
    /// Mean of e given z, in deviations of y.
    pub excess: f64,
    /// Variance of y given z, as a share of what it was before.
    pub variance: f64,
}

impl Cut {
    /// For a z that lies `distance` deviations above the mean of y; `deviation` is that of y, and
    /// `scale` the mean of e, both in s.
    pub fn new(distance: f64, deviation: f64, scale: f64) -> Cut {
        let tilt = deviation / scale;
        // How far the cut lies below the tilted mean of y, in deviations.
        let depth = tilt - distance;
        let far = -distance * distance / 2.0;
        // The density is exp(tilt²/2 − tilt·distance) Φ(−depth) / scale.
        let (density, exponent, hazard, excess) = if depth >= FAR {
            let excess = far_excess(depth);
            let hazard = depth + excess;
            (SQRT_2_OVER_PI / (2.0 * scale * hazard), far, hazard, excess)
        } else if depth >= 0.0 {
            let tail = erfcx(depth * FRAC_1_SQRT_2);
            let hazard = SQRT_2_OVER_PI / tail;
            (tail / (2.0 * scale), far, hazard, hazard - depth)
        } else {
            let (normal, above) = if depth > NEAR {
                let normal = libm::exp(-depth * depth / 2.0);
                (normal, 1.0 - normal * erfcx(-depth * FRAC_1_SQRT_2) / 2.0)
            } else {
                (0.0, 1.0)
            };
            let hazard = SQRT_2_OVER_PI / 2.0 * normal / above;
            (above / scale, tilt * (tilt - 2.0 * distance) / 2.0, hazard, hazard - depth)
        };
        let variance = (1.0 - hazard * excess).clamp(1e-9, 1.0);
        Cut { density, exponent, excess, variance }
    }
}

/// Mean of a standard normal quantity above `depth`, less that: six levels of the continued
/// fraction 1/(t + 2/(t + 3/(t + …))), as one fraction.
fn far_excess(depth: f64) -> f64 {
    let square = 1.0 / (depth * depth);
    let above = 1.0 + square * (18.0 + square * 57.0);
    let below = 1.0 + square * (20.0 + square * (87.0 + square * 48.0));
    above / (depth * below)
}

/// exp(x²) erfc(x) for x ≥ 0, to 14 digits: rational approximations of W. J. Cody, Mathematics of
/// Computation 23 (1969), 631.
fn erfcx(x: f64) -> f64 {
    let fraction = |numerator: &[f64], denominator: &[f64], at: f64| {
        let sum = |terms: &[f64]| terms.iter().fold(0.0, |sum, term| sum * at + term);
        sum(numerator) / sum(denominator)
    };
    if x < 0.468_75 {
        let erf = x * fraction(&SMALL.0, &SMALL.1, x * x);
        (1.0 - erf) * libm::exp(x * x)
    } else if x < 4.0 {
        fraction(&MIDDLE.0, &MIDDLE.1, x)
    } else {
        let square = 1.0 / (x * x);
        (FRAC_2_SQRT_PI / 2.0 - square * fraction(&LARGE.0, &LARGE.1, square)) / x
    }
}

/// Numerator and denominator of erf(x) / x by x², from the highest power on.
const SMALL: ([f64; 5], [f64; 5]) = (
    [
        1.857_777_061_846_031_5e-1,
        3.161_123_743_870_565_5,
        1.138_641_541_510_501_6e2,
        3.774_852_376_853_02e2,
        3.209_377_589_138_469_4e3,
    ],
    [
        1.0,
        2.360_129_095_234_412_2e1,
        2.440_246_379_344_441_7e2,
        1.282_616_526_077_372_3e3,
        2.844_236_833_439_171e3,
    ],
);
/// Coefficients of exp(x²) erfc(x) by x.
const MIDDLE: ([f64; 9], [f64; 9]) = (
    [
        2.153_115_354_744_038_3e-8,
        5.641_884_969_886_701e-1,
        8.883_149_794_388_377,
        6.611_919_063_714_163e1,
        2.986_351_381_974_001e2,
        8.819_522_212_417_69e2,
        1.712_047_612_634_070_7e3,
        2.051_078_377_826_071_6e3,
        1.230_339_354_797_997_2e3,
    ],
    [
        1.0,
        1.574_492_611_070_983_5e1,
        1.176_939_508_913_125e2,
        5.371_811_018_620_099e2,
        1.621_389_574_566_690_3e3,
        3.290_799_235_733_459_7e3,
        4.362_619_090_143_247e3,
        3.439_367_674_143_721_6e3,
        1.230_339_354_803_749_5e3,
    ],
);
/// Coefficients of x² (1/√π − x exp(x²) erfc(x)) by 1/x².
const LARGE: ([f64; 6], [f64; 6]) = (
    [
        1.631_538_713_730_209_7e-2,
        3.053_266_349_612_323_6e-1,
        3.603_448_999_498_044_5e-1,
        1.257_817_261_112_292_6e-1,
        1.608_378_514_874_227_5e-2,
        6.587_491_615_298_378e-4,
    ],
    [
        1.0,
        2.568_520_192_289_822,
        1.872_952_849_923_460_4,
        5.279_051_029_514_285e-1,
        6.051_834_131_244_132e-2,
        2.335_204_976_268_691_8e-3,
    ],
);

#[cfg(test)]
mod tests {
    use super::*;

    const LN_SQRT_2_PI: f64 = 0.918_938_533_204_672_8;

    #[test]
    fn the_scaled_complement_is_that_of_libm() {
        for k in 0..2500 {
            let x = f64::from(k) * 0.01;
            let exact = libm::exp(x * x) * libm::erfc(x);
            assert!((erfcx(x) / exact - 1.0).abs() < 1e-12, "{x}: {} {exact}", erfcx(x));
        }
    }

    /// The same by adding up: y in deviations, e = distance − y.
    fn summed(distance: f64, deviation: f64, scale: f64) -> (f64, f64, f64) {
        let (mut mass, mut first, mut second) = (0.0, 0.0, 0.0);
        let step = 1e-4;
        for k in 0..400_000 {
            let e = (f64::from(k) + 0.5) * step;
            let y = distance - e;
            let weight =
                libm::exp(-y * y / 2.0 - LN_SQRT_2_PI - e * deviation / scale) / scale * step;
            mass += weight;
            first += weight * e;
            second += weight * e * e;
        }
        let mean = first / mass;
        (libm::log(mass), mean, second / mass - mean * mean)
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
            let cut = Cut::new(distance, deviation, scale);
            let (log, mean, variance) = summed(distance, deviation, scale);
            assert!(
                (cut.exponent + libm::log(cut.density) - log).abs() < 1e-4,
                "{distance}: {cut:?} {log}"
            );
            assert!((cut.excess / mean - 1.0).abs() < 1e-4, "{distance}: {cut:?} {mean}");
            assert!((cut.variance / variance - 1.0).abs() < 1e-3, "{distance}: {cut:?} {variance}");
        }
    }

    #[test]
    fn the_ends_are_finite() {
        for (distance, deviation, scale) in
            [(-1e6, 1.0, 1e-6), (1e6, 1.0, 1e6), (0.0, 1e9, 1e-9), (1e9, 1e-9, 1e-9)]
        {
            let cut = Cut::new(distance, deviation, scale);
            assert!(cut.excess.is_finite() && cut.excess >= 0.0, "{cut:?}");
            assert!((1e-9..=1.0).contains(&cut.variance), "{cut:?}");
        }
    }
}
