//! Types of noise, and which one it is.

use serde::{Deserialize, Serialize};

use super::allan::differences;
use super::trend::Trend;

/// Fewer spans of τ than this, and the type is not identified.
pub const SPANS: usize = 30;

/// A power law of the spectral density of the frequency, S_y(f) = h_α·f^α.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Noise {
    /// α = 2: reading errors, each by itself.
    WhitePhase,
    /// α = 1: electronics, slow changes of delays.
    FlickerPhase,
    /// α = 0: the phase walks at random.
    WhiteFrequency,
    /// α = −1: the floor of an oscillator.
    FlickerFrequency,
    /// α = −2: the frequency walks at random: temperature, ageing.
    RandomWalkFrequency,
}

impl Noise {
    /// All of them, α descending.
    pub const ALL: [Noise; 5] = [
        Noise::WhitePhase,
        Noise::FlickerPhase,
        Noise::WhiteFrequency,
        Noise::FlickerFrequency,
        Noise::RandomWalkFrequency,
    ];

    /// The exponent, 2 to −2.
    #[must_use]
    pub fn alpha(self) -> i32 {
        match self {
            Noise::WhitePhase => 2,
            Noise::FlickerPhase => 1,
            Noise::WhiteFrequency => 0,
            Noise::FlickerFrequency => -1,
            Noise::RandomWalkFrequency => -2,
        }
    }

    /// The type with the nearest exponent; `None` for what is no number.
    #[must_use]
    pub fn nearest(alpha: f64) -> Option<Noise> {
        if alpha.is_nan() {
            return None;
        }
        let place = 2.0 - libm::round(alpha.clamp(-2.0, 2.0));
        Noise::ALL.get(place as usize).copied()
    }

    /// Name by which people call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Noise::WhitePhase => "white phase",
            Noise::FlickerPhase => "flicker phase",
            Noise::WhiteFrequency => "white frequency",
            Noise::FlickerFrequency => "flicker frequency",
            Noise::RandomWalkFrequency => "random walk",
        }
    }

    /// Abbreviation of it in the field.
    #[must_use]
    pub fn short(self) -> &'static str {
        match self {
            Noise::WhitePhase => "white PM",
            Noise::FlickerPhase => "flicker PM",
            Noise::WhiteFrequency => "white FM",
            Noise::FlickerFrequency => "flicker FM",
            Noise::RandomWalkFrequency => "random walk FM",
        }
    }
}

/// The exponent α of the noise that dominates at τ = `m` intervals, by the autocorrelation of
/// neighbours: SP 1065, section 5.5.6; Riley and Greenhall, "Power law noise identification using
/// the lag 1 autocorrelation" (2004).
///
/// The phase at every `m`th sample is differenced until it is stationary; what it is then follows
/// from r₁/(1 + r₁). Here all `m` ways to choose every `m`th sample count together. `None` with
/// fewer than [`SPANS`] spans of τ, but for a few lost to gaps, or where nothing varies. Flicker
/// noise of the phase is often taken for white at long τ, where every `m`th sample of it nearly is.
///
/// A trend hides noise: identify after [`Trend::remove`] has taken away drift.
#[must_use]
pub fn noise_exponent(phase: &[f64], m: usize) -> Option<f64> {
    if m == 0 || phase.len() / m < SPANS {
        return None;
    }
    const LAST: usize = 2;
    for order in 0..=LAST {
        let values = match order {
            0 => phase.to_vec(),
            1 => differences::<2>(phase, m)?.collect(),
            _ => differences::<3>(phase, m)?.collect(),
        };
        let (r, pairs) = lag_one(&values, m);
        if pairs / m < SPANS - 1 - LAST || !r.is_finite() {
            return None;
        }
        let delta = r / (1.0 + r);
        if delta < 0.25 || order == LAST {
            return Some(calibrated(2.0 - 2.0 * (delta + order as f64)));
        }
    }
    None
}

/// Exponent as it would be if neighbours correlated as in the sums of a discrete process, for which
/// the formula holds. Means over τ of continuous noise of the frequency correlate otherwise: by
/// their autocovariance (t² ln t and t³ under fourth differences), r₁ is −0.217 instead of −1/3 for
/// flicker noise and 1/4 instead of 0 for a random walk.
fn calibrated(alpha: f64) -> f64 {
    const FLICKER: f64 = -1.446;
    const WALK: f64 = -2.4;
    if alpha >= 0.0 {
        alpha
    } else if alpha >= FLICKER {
        alpha / -FLICKER
    } else {
        -1.0 - (alpha - FLICKER) / (WALK - FLICKER)
    }
}

/// The types of noise at all these τ (in intervals): drift is taken out first. Where the samples
/// are too few to tell, the type at the τ before is taken to go on; the flag says whether it was
/// identified.
#[must_use]
pub fn identify(phase: &[f64], factors: &[usize]) -> Vec<Option<(Noise, bool)>> {
    let mut straight = phase.to_vec();
    if let Some(trend) = Trend::of(phase, 1.0) {
        trend.remove_drift(&mut straight);
    }
    let mut before = None;
    factors
        .iter()
        .map(|&m| {
            let found = noise_exponent(&straight, m).and_then(Noise::nearest);
            before = found.or(before);
            before.map(|noise| (noise, found.is_some()))
        })
        .collect()
}

/// The autocorrelation of values `m` apart, and over how many pairs.
fn lag_one(values: &[f64], m: usize) -> (f64, usize) {
    let (sum, n) = values
        .iter()
        .filter(|v| v.is_finite())
        .fold((0.0, 0.0), |(sum, n), value| (sum + value, n + 1.0));
    let mean = sum / n;
    let variance: f64 =
        values.iter().filter(|v| v.is_finite()).map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
    let (mut products, mut pairs) = (0.0, 0_usize);
    for (a, b) in values.iter().zip(values.get(m..).unwrap_or_default()) {
        let product = (a - mean) * (b - mean);
        if product.is_finite() {
            products += product;
            pairs += 1;
        }
    }
    // As the biased estimate has it: the sum over one pair less than there are values.
    let share = pairs as f64 / (pairs + m) as f64;
    (products / pairs as f64 * share / variance, pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_become_types() {
        for noise in Noise::ALL {
            assert_eq!(Noise::nearest(f64::from(noise.alpha()) + 0.4), Some(noise));
        }
        assert_eq!(Noise::nearest(-7.0), Some(Noise::RandomWalkFrequency));
        assert_eq!(Noise::nearest(f64::INFINITY), Some(Noise::WhitePhase));
        assert_eq!(Noise::nearest(f64::NAN), None);
    }

    #[test]
    fn continuous_noise_is_told_as_such() {
        for (alpha, calibrated_to) in [(2.0, 2.0), (0.0, 0.0), (-1.446, -1.0), (-2.4, -2.0)] {
            assert!((calibrated(alpha) - calibrated_to).abs() < 1e-12);
        }
    }

    #[test]
    fn too_little_to_tell() {
        assert_eq!(noise_exponent(&[1.0; 29], 1), None);
        assert_eq!(noise_exponent(&[1.0; 100], 1), None, "nothing varies");
        assert_eq!(noise_exponent(&[f64::NAN; 100], 1), None);
        assert_eq!(noise_exponent(&[1.0; 100], 0), None);
    }
}
