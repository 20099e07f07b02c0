//! A normal quantity that is cut off on one side.

use core::f64::consts::FRAC_1_SQRT_2;

/// √(2/π).
const SQRT_2_OVER_PI: f64 = 0.797_884_560_802_865_4;
/// ln √(2π).
const LN_SQRT_2_PI: f64 = 0.918_938_533_204_672_8;
/// From here on a continued fraction is exact enough for the tail, and `erfc` soon underflows.
const FAR: f64 = 12.0;

/// What z says about y, where z = y + e was seen, y is normal and e ≥ 0 exponential.
///
/// Given z, y is normal about its mean + variance / scale, and cut off at z.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Natural logarithm of the density of z, in 1/s.
    pub log_density: f64,
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
        let (log_density, hazard, excess) = if depth < FAR {
            let tail = libm::erfc(depth * FRAC_1_SQRT_2);
            let hazard = SQRT_2_OVER_PI * libm::exp(-depth * depth / 2.0) / tail;
            let log = tilt * (tilt - 2.0 * distance) / 2.0 + libm::log(tail / (2.0 * scale));
            (log, hazard, hazard - depth)
        } else {
            let t = depth;
            let excess = 1.0 / (t + 2.0 / (t + 3.0 / (t + 4.0 / (t + 5.0 / (t + 6.0 / t)))));
            let hazard = depth + excess;
            let log = -distance * distance / 2.0 - LN_SQRT_2_PI - libm::log(hazard * scale);
            (log, hazard, excess)
        };
        Cut { log_density, excess, variance: (1.0 - hazard * excess).clamp(1e-9, 1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ] {
            let cut = Cut::new(distance, deviation, scale);
            let (log, mean, variance) = summed(distance, deviation, scale);
            assert!((cut.log_density - log).abs() < 1e-4, "{distance}: {cut:?} {log}");
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
