//! Amount of each type of noise.

use serde::Serialize;

use super::noise::Noise;

/// Rounds of re-weighting; the levels stand still long before.
const ROUNDS: usize = 30;
/// By how much a further type of noise must better the fit (of −2 log likelihood) to be believed.
const WORTH: f64 = 4.0;

/// One estimate of the Allan deviation, as the fit takes it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Observed {
    /// The averaging time, s.
    pub tau_s: f64,
    /// The Allan deviation.
    pub deviation: f64,
    /// Equivalent degrees of freedom of its square.
    pub edf: f64,
}

/// The level of one type of noise.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Level {
    /// The type.
    pub noise: Noise,
    /// Allan deviation of this noise alone at τ = 1 s (extrapolated, if τ began later).
    pub deviation_1s: f64,
    /// h_α of S_y(f) = h_α·f^α, in Hz^(−1−α).
    pub h: f64,
    /// Standard error of `deviation_1s`, relative to it. Estimates at neighbouring τ share samples,
    /// which makes it somewhat too small.
    pub relative_error: f64,
}

/// Noise that the Allan variance is made of: the sum of these.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NoiseFit {
    /// The types of which there is some, α descending. Types that do not better the fit are not
    /// among them: there may be a little of each.
    pub levels: Vec<Level>,
    /// Seconds between samples, on which phase noise depends: bandwidth is 1/(2·interval).
    pub interval_s: f64,
}

/// The smallest Allan deviation and where it is.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Minimum {
    /// The averaging time, s: up to there averaging helps. It is the τ* of feed-forward clocks, the
    /// longest span over which the rate may be taken as constant.
    pub tau_s: f64,
    /// The Allan deviation there.
    pub deviation: f64,
}

impl NoiseFit {
    /// The fit to these estimates by maximum likelihood (each squared deviation being chi-squared
    /// distributed with its degrees of freedom), with the types of `allowed` noise that it takes.
    /// `None` without any estimate above zero.
    #[must_use]
    pub fn of(points: &[Observed], interval_s: f64, allowed: &[Noise]) -> Option<NoiseFit> {
        let usable = |p: &&Observed| {
            p.deviation > 0.0 && p.deviation.is_finite() && p.edf > 0.0 && p.tau_s > 0.0
        };
        let points: Vec<Observed> = points.iter().filter(usable).copied().collect();
        let mut best: Option<(f64, Vec<Level>)> = None;
        for choice in 1_u32..1 << allowed.len().min(Noise::ALL.len()) {
            let chosen: Vec<Noise> = allowed
                .iter()
                .enumerate()
                .filter(|(n, _)| choice >> n & 1 == 1)
                .map(|(_, noise)| *noise)
                .collect();
            if chosen.len() > points.len() {
                continue;
            }
            let Some((misfit, levels)) = fit(&points, interval_s, &chosen) else { continue };
            let misfit = misfit + WORTH * chosen.len() as f64;
            if best.as_ref().is_none_or(|(least, _)| misfit < *least) {
                best = Some((misfit, levels));
            }
        }
        best.map(|(_, levels)| NoiseFit { levels, interval_s })
    }

    /// The Allan deviation at τ by the fit.
    #[must_use]
    pub fn deviation(&self, tau_s: f64) -> f64 {
        let variance: f64 =
            self.levels.iter().map(|l| l.h * variance_per_h(l.noise, tau_s, self.interval_s)).sum();
        libm::sqrt(variance)
    }

    /// The share of one type in it.
    #[must_use]
    pub fn share(&self, noise: Noise, tau_s: f64) -> f64 {
        let of = |l: &&Level| l.noise == noise;
        self.levels.iter().find(of).map_or(0.0, |level| {
            libm::sqrt(level.h * variance_per_h(noise, tau_s, self.interval_s))
        })
    }

    /// The minimum of the fit between these τ, unless it is at an end: then the deviation still
    /// falls, or has only risen.
    #[must_use]
    pub fn minimum(&self, shortest_s: f64, longest_s: f64) -> Option<Minimum> {
        const STEPS: u32 = 2000;
        if !(shortest_s > 0.0 && longest_s > shortest_s) {
            return None;
        }
        let ratio = libm::log(longest_s / shortest_s) / f64::from(STEPS);
        let at = |n: u32| {
            let tau_s = shortest_s * libm::exp(f64::from(n) * ratio);
            Minimum { tau_s, deviation: self.deviation(tau_s) }
        };
        let (n, minimum) = (0..=STEPS)
            .map(|n| (n, at(n)))
            .min_by(|(_, a), (_, b)| a.deviation.total_cmp(&b.deviation))?;
        (n > 0 && n < STEPS).then_some(minimum)
    }
}

/// Levels of the chosen types and −2 log likelihood (up to a constant), if all levels are positive.
fn fit(points: &[Observed], interval_s: f64, chosen: &[Noise]) -> Option<(f64, Vec<Level>)> {
    let basis = |noise: &Noise, tau: f64| variance_per_h(*noise, tau, interval_s);
    // First as if each estimate were right, then by what the fit itself expects.
    let mut expected: Vec<f64> = points.iter().map(|p| p.deviation * p.deviation).collect();
    let mut solved = None;
    for _ in 0..ROUNDS {
        let rows = points.iter().zip(&expected).map(|(point, expected)| {
            // The variance of an estimate is 2·σ⁴/edf.
            let weight = libm::sqrt(point.edf / 2.0) / expected;
            let row: Vec<f64> =
                chosen.iter().map(|noise| basis(noise, point.tau_s) * weight).collect();
            (row, point.deviation * point.deviation * weight)
        });
        let (h, errors) = least_squares(rows, chosen.len())?;
        for (expected, point) in expected.iter_mut().zip(points) {
            let variance: f64 =
                chosen.iter().zip(&h).map(|(noise, h)| h * basis(noise, point.tau_s)).sum();
            // Not below a sliver of what was seen, so that a round that overshoots can come back.
            *expected = variance.max(1e-6 * point.deviation * point.deviation);
        }
        solved = Some((h, errors));
    }
    let (h, errors) = solved?;
    if h.iter().any(|h| *h <= 0.0 || !h.is_finite()) {
        return None;
    }
    let misfit: f64 = points
        .iter()
        .zip(&expected)
        .map(|(point, expected)| {
            let ratio = point.deviation * point.deviation / expected;
            point.edf * (ratio - 1.0 - libm::log(ratio))
        })
        .sum();
    let levels = chosen.iter().zip(h.iter().zip(&errors)).map(|(noise, (h, error))| Level {
        noise: *noise,
        deviation_1s: libm::sqrt(h * variance_per_h(*noise, 1.0, interval_s)),
        h: *h,
        relative_error: error / h / 2.0,
    });
    misfit.is_finite().then(|| (misfit, levels.collect()))
}

/// The Allan variance at τ for h_α = 1 and samples of the phase `interval` seconds apart, which
/// bound the bandwidth: SP 1065, table 3. For phase noise τ must not be below the interval.
fn variance_per_h(noise: Noise, tau: f64, interval: f64) -> f64 {
    use core::f64::consts::{LN_2, PI};
    let bandwidth = 0.5 / interval;
    let phase = 4.0 * PI * PI * tau * tau;
    match noise {
        Noise::WhitePhase => 3.0 * bandwidth / phase,
        Noise::FlickerPhase => {
            // Not below what it is at τ = interval, where the formula ends.
            let turns = libm::log(2.0 * PI * bandwidth * tau.max(interval));
            (1.038 + 3.0 * turns) / phase
        }
        Noise::WhiteFrequency => 0.5 / tau,
        Noise::FlickerFrequency => 2.0 * LN_2,
        Noise::RandomWalkFrequency => 2.0 * PI * PI / 3.0 * tau,
    }
}

/// Solves rows · h = values by least squares; with standard errors for values of variance 1.
fn least_squares(
    rows: impl Iterator<Item = (Vec<f64>, f64)>,
    n: usize,
) -> Option<(Vec<f64>, Vec<f64>)> {
    let rows: Vec<(Vec<f64>, f64)> = rows.collect();
    // Columns of length 1: they differ by many powers of ten.
    let lengths: Vec<f64> = (0..n)
        .map(|k| libm::sqrt(rows.iter().filter_map(|(row, _)| row.get(k)).map(|v| v * v).sum()))
        .collect();
    if lengths.iter().any(|length| !(*length > 0.0 && length.is_finite())) {
        return None;
    }
    // Normal equations, with the identity beside them, by Gauss and Jordan.
    let mut table: Vec<Vec<f64>> = (0..n)
        .map(|a| {
            let cell = |row: &[f64], k: usize| {
                row.get(k).zip(lengths.get(k)).map_or(0.0, |(value, length)| value / length)
            };
            let mut line: Vec<f64> =
                (0..n).map(|b| rows.iter().map(|(r, _)| cell(r, a) * cell(r, b)).sum()).collect();
            line.push(rows.iter().map(|(r, value)| cell(r, a) * value).sum());
            line.extend((0..n).map(|b| if a == b { 1.0 } else { 0.0 }));
            line
        })
        .collect();
    for k in 0..n {
        let entry = |line: &Vec<f64>| line.get(k).copied().unwrap_or(0.0);
        let pivot = (k..n).max_by(|a, b| {
            let size = |i: &usize| table.get(*i).map_or(0.0, |line| entry(line).abs());
            size(a).total_cmp(&size(b))
        })?;
        table.swap(k, pivot);
        let mut line = table.get(k)?.clone();
        let leading = entry(&line);
        if leading.abs() < 1e-13 {
            return None;
        }
        line.iter_mut().for_each(|v| *v /= leading);
        for (i, other) in table.iter_mut().enumerate() {
            let factor = entry(other);
            if i == k {
                other.clone_from(&line);
            } else {
                other.iter_mut().zip(&line).for_each(|(v, l)| *v -= factor * l);
            }
        }
    }
    let h = table.iter().zip(&lengths).map(|(line, length)| line.get(n).map(|v| v / length));
    let errors = table
        .iter()
        .zip(&lengths)
        .enumerate()
        .map(|(k, (line, length))| line.get(n + 1 + k).map(|v| libm::sqrt(v.abs()) / length));
    Some((h.collect::<Option<_>>()?, errors.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(levels: &[(Noise, f64)], interval_s: f64, edf: f64) -> Vec<Observed> {
        (0..14)
            .map(|n| {
                let tau_s = interval_s * f64::from(1 << n);
                let variance: f64 = levels
                    .iter()
                    .map(|(noise, h)| h * variance_per_h(*noise, tau_s, interval_s))
                    .sum();
                Observed { tau_s, deviation: libm::sqrt(variance), edf: edf / f64::from(1 << n) }
            })
            .collect()
    }

    #[test]
    fn exact_mixtures_are_taken_apart() {
        let levels = [
            (Noise::WhitePhase, 1e-18),
            (Noise::WhiteFrequency, 1e-21),
            (Noise::RandomWalkFrequency, 1e-25),
        ];
        for interval_s in [0.1, 1.0, 16.0] {
            let fit =
                NoiseFit::of(&made(&levels, interval_s, 1e9), interval_s, &Noise::ALL).unwrap();
            assert_eq!(fit.levels.len(), 3, "{fit:?}");
            for (level, (noise, h)) in fit.levels.iter().zip(levels) {
                assert_eq!(level.noise, noise);
                assert!((level.h / h - 1.0).abs() < 1e-6, "{level:?}");
            }
        }
    }

    #[test]
    fn the_minimum_is_where_the_slopes_meet() {
        let levels = [(Noise::WhiteFrequency, 1e-20), (Noise::RandomWalkFrequency, 1e-26)];
        let fit = NoiseFit::of(&made(&levels, 1.0, 1e9), 1.0, &Noise::ALL).unwrap();
        // h0/2τ = (2π²/3)·h₋₂·τ
        let tau = libm::sqrt(0.5 * 1e-20 / (2.0 * core::f64::consts::PI.powi(2) / 3.0 * 1e-26));
        let minimum = fit.minimum(1.0, 8192.0).unwrap();
        assert!((minimum.tau_s / tau - 1.0).abs() < 0.01, "{minimum:?} for {tau}");
        assert_eq!(fit.minimum(1.0, 50.0), None, "still falling");
        assert_eq!(fit.minimum(1000.0, 8192.0), None, "only rising");
        let whole = fit.deviation(30.0);
        let shares = Noise::ALL.map(|noise| fit.share(noise, 30.0).powi(2)).iter().sum::<f64>();
        assert!((whole * whole / shares - 1.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_to_fit() {
        assert_eq!(NoiseFit::of(&[], 1.0, &Noise::ALL), None);
        let zero = Observed { tau_s: 1.0, deviation: 0.0, edf: 10.0 };
        assert_eq!(NoiseFit::of(&[zero; 5], 1.0, &Noise::ALL), None);
        let one = Observed { tau_s: 1.0, deviation: 1e-9, edf: 10.0 };
        let fit = NoiseFit::of(&[one], 1.0, &Noise::ALL).unwrap();
        assert!((fit.deviation(1.0) / 1e-9 - 1.0).abs() < 1e-6, "{fit:?}");
        assert_eq!(NoiseFit::of(&[one; 5], 1.0, &[]), None);
    }
}
