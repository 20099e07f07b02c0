//! Offset and drift of the frequency: what is taken away before noise is looked at.

use serde::{Deserialize, Serialize};

/// Trend that is taken away from the phase before it is analysed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Removal {
    /// Nothing.
    None,
    /// The mean offset of the frequency, to which Allan deviations are blind anyway.
    #[default]
    Offset,
    /// The offset and a constant drift of the frequency.
    Drift,
}

impl core::str::FromStr for Removal {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Removal, &'static str> {
        match text {
            "none" => Ok(Removal::None),
            "offset" => Ok(Removal::Offset),
            "drift" => Ok(Removal::Drift),
            _ => Err("must be none, offset or drift"),
        }
    }
}

/// A parabola through the phase by least squares, and a straight line.
///
/// The drift is an estimate by SP 1065, section 5.20.3 (quadratic fit to the phase): the best one
/// where white phase noise dominates.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Trend {
    /// The frequency offset, by the straight line: positive, the clock gains on the reference.
    pub frequency: f64,
    /// The drift of the frequency per second, by the parabola.
    pub drift_per_s: f64,
    /// Seconds between samples.
    #[serde(skip)]
    interval: f64,
    /// Middle and half of the samples' numbers: what makes them −1 to 1.
    #[serde(skip)]
    middle: f64,
    #[serde(skip)]
    half: f64,
    /// Coefficients of 1 and u, and of 1, u and u².
    #[serde(skip)]
    line: [f64; 2],
    #[serde(skip)]
    parabola: [f64; 3],
}

impl Trend {
    /// That of phase samples (s) `interval` seconds apart, gaps left out. `None` with fewer than
    /// three samples.
    #[must_use]
    pub fn of(phase: &[f64], interval: f64) -> Option<Trend> {
        let half = (phase.len() as f64 - 1.0) / 2.0;
        let middle = half;
        let place = |i: usize| (i as f64 - middle) / half;
        // Powers of u up to 4, and their products with x.
        let (mut u, mut x) = ([0.0; 5], [0.0; 3]);
        // Far from zero, where the sums would lose digits.
        let near = phase.iter().copied().find(|v| v.is_finite())?;
        let mut samples = 0;
        for (i, value) in phase.iter().enumerate().filter(|(_, v)| v.is_finite()) {
            let (at, mut power) = (place(i), 1.0);
            for (n, sum) in u.iter_mut().enumerate() {
                *sum += power;
                if let Some(sum) = x.get_mut(n) {
                    *sum += power * (value - near);
                }
                power *= at;
            }
            samples += 1;
        }
        if samples < 3 {
            return None;
        }
        let [u0, u1, u2, u3, u4] = u;
        let [x0, x1, _] = x;
        let two = u0 * u2 - u1 * u1;
        let line = [near + (x0 * u2 - x1 * u1) / two, (u0 * x1 - u1 * x0) / two];
        // Cramer's rule: well conditioned, as u runs from −1 to 1.
        let det = |a: [f64; 3], b: [f64; 3], c: [f64; 3]| {
            a[0] * (b[1] * c[2] - b[2] * c[1]) - b[0] * (a[1] * c[2] - a[2] * c[1])
                + c[0] * (a[1] * b[2] - a[2] * b[1])
        };
        let (a, b, c) = ([u0, u1, u2], [u1, u2, u3], [u2, u3, u4]);
        let whole = det(a, b, c);
        let parabola = [near + det(x, b, c) / whole, det(a, x, c) / whole, det(a, b, x) / whole];
        let all = line.iter().chain(&parabola);
        let (first, second) = (half * interval, half * half * interval * interval);
        let trend = Trend {
            frequency: line[1] / first,
            drift_per_s: 2.0 * parabola[2] / second,
            interval,
            middle,
            half,
            line,
            parabola,
        };
        all.chain([&trend.frequency, &trend.drift_per_s]).all(|v| v.is_finite()).then_some(trend)
    }

    /// Takes from `phase`, the samples it is the trend of, what is to be removed.
    pub fn remove(&self, phase: &mut [f64], what: Removal) {
        match what {
            Removal::None => {}
            Removal::Offset => self.subtract(phase, &self.line),
            Removal::Drift => self.remove_drift(phase),
        }
    }

    /// Takes the parabola away.
    pub fn remove_drift(&self, phase: &mut [f64]) {
        self.subtract(phase, &self.parabola);
    }

    fn subtract(&self, phase: &mut [f64], coefficients: &[f64]) {
        for (i, value) in phase.iter_mut().enumerate() {
            let u = (i as f64 - self.middle) / self.half;
            *value -= coefficients.iter().rev().fold(0.0, |sum, c| sum * u + c);
        }
    }

    /// Seconds between the samples it was made from.
    #[must_use]
    pub fn interval(&self) -> f64 {
        self.interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parabola(gaps: bool) -> Vec<f64> {
        (0..1000)
            .map(|i| {
                let t = f64::from(i) * 10.0;
                if gaps && i % 7 == 3 { f64::NAN } else { 5.0 + 2e-6 * t + 0.5 * 3e-12 * t * t }
            })
            .collect()
    }

    #[test]
    fn offset_and_drift_are_found_and_removed() {
        for gaps in [false, true] {
            let phase = parabola(gaps);
            let trend = Trend::of(&phase, 10.0).unwrap();
            assert!((trend.drift_per_s / 3e-12 - 1.0).abs() < 1e-6, "{trend:?}");
            // The line follows the middle of the parabola.
            assert!((trend.frequency / (2e-6 + 3e-12 * 4995.0) - 1.0).abs() < 1e-4, "{trend:?}");
            let mut rest = phase.clone();
            trend.remove(&mut rest, Removal::Drift);
            assert!(rest.iter().all(|v| v.is_nan() || v.abs() < 1e-14));
            let mut rest = phase.clone();
            trend.remove(&mut rest, Removal::None);
            assert_eq!(rest.first(), phase.first());
            trend.remove(&mut rest, Removal::Offset);
            let mean = rest.iter().filter(|v| v.is_finite()).sum::<f64>() / 1000.0;
            assert!(mean.abs() < 1e-12, "{mean}");
        }
    }

    #[test]
    fn too_few_have_no_trend() {
        for phase in [&[][..], &[1.0], &[1.0, 2.0], &[f64::NAN; 9], &[1.0, f64::NAN, 2.0]] {
            assert_eq!(Trend::of(phase, 1.0), None, "{phase:?}");
        }
        assert_eq!(Trend::of(&[f64::MAX, -f64::MAX, f64::MAX], 1.0), None);
    }
}
