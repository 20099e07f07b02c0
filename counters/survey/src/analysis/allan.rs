//! Allan deviations of phase samples and their kin: how stable an oscillator is over a time span.
//!
//! Definitions as in Riley and Howe, "Handbook of Frequency Stability Analysis", NIST Special
//! Publication 1065 (2008), sections 5.2.4 (overlapping), 5.2.5 (modified), 5.2.6 (time) and 5.2.9
//! (overlapping Hadamard).
//!
//! A sample that is no finite number is a gap: every difference that would need it is left out.

use serde::{Deserialize, Serialize};

/// Which deviation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deviation {
    /// The overlapping Allan deviation: the usual one. Blind to a constant offset of the frequency.
    Allan,
    /// The modified Allan deviation: tells white from flicker phase noise.
    Modified,
    /// The time deviation, s: τ/√3 times the modified one.
    Time,
    /// The overlapping Hadamard deviation: blind to a constant drift of the frequency as well.
    Hadamard,
}

/// An estimate from samples.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// The deviation; of [`Deviation::Time`] in seconds, of all others a bare ratio.
    pub value: f64,
    /// Of how many differences it is the root mean square, ≥ 1.
    pub terms: usize,
}

impl Deviation {
    /// The deviation at τ = `m` · `interval` (s), of phase samples (s) that are `interval` apart.
    ///
    /// Nothing if `m` is 0, or if the samples are too few or too full of gaps for even one
    /// difference.
    #[must_use]
    pub fn of(self, phase: &[f64], interval: f64, m: usize) -> Option<Estimate> {
        let tau = m as f64 * interval;
        let (squares, divisor) = match self {
            Deviation::Allan => (squares(differences::<3>(phase, m)?, 1)?, 2.0 * tau * tau),
            Deviation::Hadamard => (squares(differences::<4>(phase, m)?, 1)?, 6.0 * tau * tau),
            Deviation::Modified | Deviation::Time => {
                let averages = (m as f64) * (m as f64);
                (squares(differences::<3>(phase, m)?, m)?, 2.0 * tau * tau * averages)
            }
        };
        let (sum, terms) = squares;
        let value = libm::sqrt(sum / (divisor * terms as f64));
        let value = if self == Deviation::Time { value * tau / libm::sqrt(3.0) } else { value };
        Some(Estimate { value, terms })
    }

    /// The order of the differences of the phase that it is made of.
    #[must_use]
    pub fn order(self) -> usize {
        if self == Deviation::Hadamard { 3 } else { 2 }
    }

    /// True if the phase is averaged over τ first.
    #[must_use]
    pub fn is_modified(self) -> bool {
        matches!(self, Deviation::Modified | Deviation::Time)
    }
}

/// Differences of the order `POINTS` − 1 over `m` samples, for all places in turn: not finite where
/// a gap is in the way. Nothing where there is no room for even one.
pub(crate) fn differences<const POINTS: usize>(
    phase: &[f64],
    m: usize,
) -> Option<impl Iterator<Item = f64> + '_> {
    // (1 − B)^k by its binomial coefficients, the newest sample first.
    const ROWS: [&[f64]; 4] = [&[1.0], &[1.0, -1.0], &[1.0, -2.0, 1.0], &[1.0, -3.0, 3.0, -1.0]];
    let row = ROWS.get(POINTS.checked_sub(1)?)?;
    let reach = m.checked_mul(POINTS - 1)?;
    if (m == 0 && POINTS > 1) || reach >= phase.len() {
        return None;
    }
    let newest = phase.get(reach..)?;
    Some(newest.iter().enumerate().map(move |(i, _)| {
        row.iter().enumerate().fold(0.0, |sum, (k, factor)| {
            sum + factor * phase.get(i + reach - k * m).copied().unwrap_or(f64::NAN)
        })
    }))
}

/// The sum of the squares of the sums over `window` neighbours each, and how many there are: those
/// without a gap.
fn squares(values: impl Iterator<Item = f64>, window: usize) -> Option<(f64, usize)> {
    let (mut sum, mut terms) = (0.0, 0_usize);
    if window == 1 {
        for value in values.filter(|value| value.is_finite()) {
            sum += value * value;
            terms += 1;
        }
    } else {
        let values: Vec<f64> = values.collect();
        let (mut inside, mut gaps) = (0.0, 0_usize);
        let leaving = core::iter::repeat_n(0.0, window).chain(values.iter().copied());
        for (i, (&entering, leaving)) in values.iter().zip(leaving).enumerate() {
            for (value, sign) in [(entering, 1.0), (leaving, -1.0)] {
                match (value.is_finite(), sign > 0.0) {
                    (true, _) => inside += sign * value,
                    (false, true) => gaps += 1,
                    (false, false) => gaps -= 1,
                }
            }
            if i + 1 >= window && gaps == 0 {
                sum += inside * inside;
                terms += 1;
            }
        }
    }
    (terms > 0).then_some((sum, terms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(deviation: Deviation, phase: &[f64], interval: f64, m: usize) -> Option<f64> {
        deviation.of(phase, interval, m).map(|estimate| estimate.value)
    }

    #[test]
    fn by_hand() {
        // Second differences of 0, 1, 4, 9, 16 are 2 each (m = 1), and 8 (m = 2).
        let phase = [0.0, 1.0, 4.0, 9.0, 16.0];
        assert_eq!(value(Deviation::Allan, &phase, 1.0, 1), Some(libm::sqrt(2.0)));
        assert_eq!(value(Deviation::Allan, &phase, 10.0, 1), Some(libm::sqrt(2.0) / 10.0));
        assert_eq!(value(Deviation::Allan, &phase, 1.0, 2), Some(libm::sqrt(32.0) / 2.0));
        assert_eq!(value(Deviation::Modified, &phase, 1.0, 1), Some(libm::sqrt(2.0)));
        // With six samples there are two second differences of 8, whose mean is 8.
        let phase = [0.0, 1.0, 4.0, 9.0, 16.0, 25.0];
        assert_eq!(value(Deviation::Modified, &phase, 1.0, 2), Some(libm::sqrt(32.0) / 2.0));
        // Third differences of the cubes are 6 each.
        let phase = [0.0, 1.0, 8.0, 27.0, 64.0];
        assert_eq!(value(Deviation::Hadamard, &phase, 1.0, 1), Some(libm::sqrt(6.0)));
    }

    #[test]
    fn a_constant_rate_does_not_count() {
        let phase: Vec<f64> = (0..100).map(|i| 3.0 + 0.5 * f64::from(i)).collect();
        assert_eq!(value(Deviation::Allan, &phase, 1.0, 7), Some(0.0));
        let drifting: Vec<f64> = (0..100).map(|i| 0.5 * f64::from(i * i)).collect();
        assert_eq!(value(Deviation::Hadamard, &drifting, 1.0, 7), Some(0.0));
    }

    #[test]
    fn too_few_samples() {
        for m in [0, 3, 50, usize::MAX] {
            assert_eq!(value(Deviation::Allan, &[1.0; 6], 1.0, m), None, "{m}");
            assert_eq!(value(Deviation::Hadamard, &[1.0; 9], 1.0, m), None, "{m}");
        }
        assert!(value(Deviation::Allan, &[1.0; 7], 1.0, 3).is_some());
        assert_eq!(value(Deviation::Modified, &[1.0; 8], 1.0, 3), None);
        assert!(value(Deviation::Modified, &[1.0; 9], 1.0, 3).is_some());
        assert_eq!(value(Deviation::Allan, &[], 1.0, 1), None);
    }

    #[test]
    fn gaps_are_left_out() {
        let whole = [0.0, 1.0, 4.0, 9.0, 16.0, 25.0, 36.0, 49.0, 64.0];
        for kind in [Deviation::Allan, Deviation::Modified] {
            let all = kind.of(&whole, 1.0, 2).unwrap();
            let mut gap = whole;
            gap[8] = f64::NAN;
            let some = kind.of(&gap, 1.0, 2).unwrap();
            assert_eq!((some.value, some.terms), (all.value, all.terms - 1), "{kind:?}");
            gap[4] = f64::INFINITY;
            gap[3] = f64::NAN;
            let few = kind.of(&gap, 1.0, 2);
            assert!(few.is_none_or(|few| few.value == all.value && few.terms < some.terms));
        }
        assert_eq!(value(Deviation::Allan, &[f64::NAN; 100], 1.0, 3), None);
        assert_eq!(value(Deviation::Time, &[f64::NAN; 100], 1.0, 3), None);
    }
}
