//! Samples that do not belong.

use serde::Serialize;

/// Distance of an outlier, in median deviations: SP 1065, section 10.11, has 5.
pub const USUAL_FACTOR: f64 = 5.0;

/// Outliers of the phase.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Outliers {
    /// Single samples that are off while their neighbours agree: bad readings. The number of each.
    pub spikes: Vec<usize>,
    /// Samples from which on the phase is another: steps. The number of the first after each.
    pub steps: Vec<usize>,
}

impl Outliers {
    /// Those of the phase: where its first differences lie further from their median than `factor`
    /// times their median absolute deviation, which is scaled to be the standard deviation of
    /// normal noise (MAD/0.6745). Two in a row that undo each other are a spike, any other is a
    /// step.
    ///
    /// Nothing stands out where more than half of the differences are the same.
    #[must_use]
    pub fn of(phase: &[f64], factor: f64) -> Outliers {
        let differences: Vec<f64> = phase
            .windows(2)
            .map(|pair| match pair {
                [a, b] => b - a,
                _ => f64::NAN,
            })
            .collect();
        let Some((middle, scale)) = spread(&differences) else { return Outliers::default() };
        let far = |difference: f64| (difference - middle).abs() > factor * scale;
        let mut found = Outliers::default();
        let mut skip = false;
        for (i, &difference) in differences.iter().enumerate() {
            if core::mem::take(&mut skip) || !far(difference) {
                continue;
            }
            // The difference before sample i + 1; does the next one take it back?
            let next = differences.get(i + 1).copied().filter(|next| far(*next));
            let undone = next
                .is_some_and(|next| !far(((difference - middle) + (next - middle)) / 2.0 + middle));
            if undone {
                found.spikes.push(i + 1);
                skip = true;
            } else {
                found.steps.push(i + 1);
            }
        }
        found
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spikes.is_empty() && self.steps.is_empty()
    }
}

/// Median and scaled median absolute deviation of what is finite; `None` if that is nothing, or if
/// it does not vary.
fn spread(values: &[f64]) -> Option<(f64, f64)> {
    let middle = median(values.iter().copied())?;
    let scale = median(values.iter().map(|v| (v - middle).abs()))? / 0.6745;
    (scale > 0.0).then_some((middle, scale))
}

/// The median of what is finite.
#[must_use]
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.filter(|v| v.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let (low, high) =
        (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some(low + (high - low) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wavy() -> Vec<f64> {
        (0..200).map(|i| libm::sin(f64::from(i * i)) + 0.3 * f64::from(i)).collect()
    }

    #[test]
    fn spikes_and_steps_are_told_apart() {
        let mut phase = wavy();
        assert!(Outliers::of(&phase, USUAL_FACTOR).is_empty());
        phase[50] += 100.0;
        phase.iter_mut().skip(120).for_each(|v| *v -= 100.0);
        phase[150] = f64::NAN;
        let found = Outliers::of(&phase, USUAL_FACTOR);
        assert_eq!((found.spikes, found.steps), (vec![50], vec![120]));
    }

    #[test]
    fn nothing_to_judge_by() {
        for phase in [&[][..], &[1.0], &[f64::NAN; 20], &[2.0; 20]] {
            assert!(Outliers::of(phase, USUAL_FACTOR).is_empty(), "{phase:?}");
        }
        assert_eq!(median([].into_iter()), None);
        assert_eq!(median([3.0, 1.0, 2.0, 10.0].into_iter()), Some(2.5));
    }
}
