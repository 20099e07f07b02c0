//! Allan deviations of phase samples: how stable an oscillator is over a time span.
//!
//! Definitions as in Riley and Howe, "Handbook of Frequency Stability Analysis", NIST Special
//! Publication 1065, sections 5.2.4 (overlapping) and 5.2.5 (modified).

/// The overlapping Allan deviation at τ = `m` · `interval`, from phase samples (s) that are
/// `interval` seconds apart. Nothing if there are fewer than 2`m` + 1 samples, or `m` is 0.
#[must_use]
pub fn allan_deviation(phase: &[f64], interval: f64, m: usize) -> Option<f64> {
    let seconds = second_differences(phase, m)?;
    let (mut sum, mut n) = (0.0, 0.0);
    for second in seconds {
        sum += second * second;
        n += 1.0;
    }
    Some(libm::sqrt(sum / (2.0 * n)) / (m as f64 * interval))
}

/// The modified Allan deviation at τ = `m` · `interval`: the second differences are averaged over
/// `m` samples first, which tells white from flicker phase noise. Nothing if there are fewer than
/// 3`m` samples, or `m` is 0.
#[must_use]
pub fn modified_allan_deviation(phase: &[f64], interval: f64, m: usize) -> Option<f64> {
    let seconds: Vec<f64> = second_differences(phase, m)?.collect();
    if seconds.len() < m {
        return None;
    }
    let (mut window, mut sum, mut n) = (0.0, 0.0, 0.0);
    let leaving = core::iter::repeat_n(0.0, m).chain(seconds.iter().copied());
    for (i, (entering, leaving)) in seconds.iter().zip(leaving).enumerate() {
        window += entering - leaving;
        if i + 1 >= m {
            sum += window * window;
            n += 1.0;
        }
    }
    let m = m as f64;
    Some(libm::sqrt(sum / (2.0 * n)) / (m * m * interval))
}

/// x\[i + 2m\] − 2x\[i + m\] + x\[i\] for all i; at least one.
fn second_differences(phase: &[f64], m: usize) -> Option<impl Iterator<Item = f64>> {
    let (middle, last) = (phase.get(m..)?, phase.get(m.checked_mul(2)?..)?);
    if m == 0 || last.is_empty() {
        return None;
    }
    Some(last.iter().zip(middle).zip(phase).map(|((c, b), a)| c - 2.0 * b + a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // Second differences of 0, 1, 4, 9, 16 are 2 each (m = 1), and 8 (m = 2).
        let phase = [0.0, 1.0, 4.0, 9.0, 16.0];
        assert_eq!(allan_deviation(&phase, 1.0, 1), Some(libm::sqrt(2.0)));
        assert_eq!(allan_deviation(&phase, 10.0, 1), Some(libm::sqrt(2.0) / 10.0));
        assert_eq!(allan_deviation(&phase, 1.0, 2), Some(libm::sqrt(32.0) / 2.0));
        assert_eq!(modified_allan_deviation(&phase, 1.0, 1), Some(libm::sqrt(2.0)));
        // With six samples there are two second differences of 8, whose mean is 8.
        let phase = [0.0, 1.0, 4.0, 9.0, 16.0, 25.0];
        assert_eq!(modified_allan_deviation(&phase, 1.0, 2), Some(libm::sqrt(32.0) / 2.0));
    }

    #[test]
    fn a_constant_rate_does_not_count() {
        let phase: Vec<f64> = (0..100).map(|i| 3.0 + 0.5 * f64::from(i)).collect();
        assert_eq!(allan_deviation(&phase, 1.0, 7), Some(0.0));
    }

    #[test]
    fn too_few_samples() {
        for m in [0, 3, 50, usize::MAX] {
            assert_eq!(allan_deviation(&[1.0; 6], 1.0, m), None, "{m}");
        }
        assert!(allan_deviation(&[1.0; 7], 1.0, 3).is_some());
        assert_eq!(modified_allan_deviation(&[1.0; 8], 1.0, 3), None);
        assert!(modified_allan_deviation(&[1.0; 9], 1.0, 3).is_some());
        assert_eq!(allan_deviation(&[], 1.0, 1), None);
    }
}
