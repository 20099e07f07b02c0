//! All of it together, of one row of phase samples.

use serde::Serialize;

use super::allan::Deviation;
use super::edf::{Limits, degrees_of_freedom};
use super::fit::{Minimum, NoiseFit, Observed};
use super::noise::{Noise, identify};
use super::outliers::{Outliers, USUAL_FACTOR};
use super::taus::Taus;
use super::trend::{Removal, Trend};

/// Options of an analysis.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Options {
    /// Which averaging times.
    pub taus: Taus,
    /// Trend that is taken away first.
    pub removal: Removal,
    /// The probability that the limits enclose the true deviation, between 0 and 1.
    pub confidence: f64,
    /// True if single bad readings ([`Outliers::spikes`]) are made gaps first.
    pub drop_spikes: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            taus: Taus::default(),
            removal: Removal::default(),
            confidence: 0.95,
            drop_spikes: false,
        }
    }
}

/// Stability at one averaging time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Point {
    /// The averaging factor: τ in intervals.
    pub m: usize,
    /// The averaging time, s.
    pub tau_s: f64,
    /// The overlapping Allan deviation.
    pub adev: f64,
    /// Limits of the true Allan deviation, with the confidence asked for.
    pub adev_limits: Limits,
    /// Equivalent degrees of freedom of the Allan variance.
    pub edf: f64,
    /// Number of differences that it is the mean of.
    pub terms: usize,
    /// The modified Allan deviation, where there are samples enough.
    pub mdev: Option<f64>,
    /// Limits of the true modified Allan deviation.
    pub mdev_limits: Option<Limits>,
    /// The time deviation, s.
    pub tdev_s: Option<f64>,
    /// The overlapping Hadamard deviation.
    pub hdev: Option<f64>,
    /// The dominant type of noise, if any could be told. The limits rest on it; white noise of the
    /// frequency is assumed where it is missing.
    pub noise: Option<Noise>,
    /// True if the type was identified at this τ. If not, that of a shorter τ is taken to go on.
    pub identified: bool,
}

/// Results of the analysis of the samples' stability.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Analysis {
    /// Seconds between samples.
    pub interval_s: f64,
    /// Samples, without the gaps.
    pub samples: usize,
    /// Samples that are missing between the first and the last.
    pub missing: usize,
    /// From the first to the last sample, s.
    pub span_s: f64,
    /// Offset and drift of the frequency; `None` with fewer than three samples.
    pub trend: Option<Trend>,
    /// Trend that was removed.
    pub removed: Removal,
    /// Samples that do not belong.
    pub outliers: Outliers,
    /// True if its spikes were made gaps.
    pub spikes_dropped: bool,
    /// The confidence of the limits.
    pub confidence: f64,
    /// By averaging time, ascending; empty with fewer than four samples.
    pub points: Vec<Point>,
    /// The smallest Allan deviation of those.
    pub minimum: Option<Minimum>,
    /// True if that is at the longest τ: the true minimum may be further on.
    pub still_falling: bool,
    /// Amount of each type of noise.
    pub fit: Option<NoiseFit>,
    /// The minimum by the fit, if it is among the τ looked at.
    pub fitted_minimum: Option<Minimum>,
}

/// Analyses phase samples (s, the clock − the reference), `interval_s` seconds apart; those that
/// are no finite numbers are gaps.
#[must_use]
pub fn analyse(phase: &[f64], interval_s: f64, options: &Options) -> Analysis {
    let present = |phase: &[f64]| phase.iter().filter(|v| v.is_finite()).count();
    let first = phase.iter().position(|v| v.is_finite()).unwrap_or(0);
    let last = phase.iter().rposition(|v| v.is_finite()).map_or(first, |last| last + 1);
    let mut phase = phase.get(first..last).unwrap_or_default().to_vec();
    let outliers = Outliers::of(&phase, USUAL_FACTOR);
    if options.drop_spikes {
        for &spike in &outliers.spikes {
            if let Some(sample) = phase.get_mut(spike) {
                *sample = f64::NAN;
            }
        }
    }
    let samples = present(&phase);
    let trend = Trend::of(&phase, interval_s);
    if let Some(trend) = &trend {
        trend.remove(&mut phase, options.removal);
    }
    let factors = options.taus.factors(phase.len());
    let types = identify(&phase, &factors);
    let points: Vec<Point> = factors
        .iter()
        .zip(types)
        .filter_map(|(&m, kind)| point(&phase, interval_s, m, kind, options.confidence))
        .collect();
    let minimum = points
        .iter()
        .filter(|p| p.adev > 0.0)
        .min_by(|a, b| a.adev.total_cmp(&b.adev))
        .map(|p| Minimum { tau_s: p.tau_s, deviation: p.adev });
    let longest = points.last().map_or(0.0, |p| p.tau_s);
    let fit = fit(&points, interval_s);
    Analysis {
        interval_s,
        samples,
        missing: phase.len() - samples,
        span_s: phase.len().saturating_sub(1) as f64 * interval_s,
        trend,
        removed: options.removal,
        outliers,
        spikes_dropped: options.drop_spikes,
        confidence: options.confidence,
        still_falling: minimum.is_some_and(|m| m.tau_s >= longest),
        minimum,
        fitted_minimum: fit.as_ref().and_then(|fit| fit.minimum(interval_s, longest)),
        fit,
        points,
    }
}

fn point(
    phase: &[f64],
    interval_s: f64,
    m: usize,
    kind: Option<(Noise, bool)>,
    confidence: f64,
) -> Option<Point> {
    let noise = kind.map_or(Noise::WhiteFrequency, |(noise, _)| noise);
    let limits = |which: Deviation, value: f64, terms: usize| {
        let edf = degrees_of_freedom(which, noise, m, terms);
        (Limits::of(value, edf, confidence), edf)
    };
    let allan = Deviation::Allan.of(phase, interval_s, m)?;
    let (adev_limits, edf) = limits(Deviation::Allan, allan.value, allan.terms);
    let modified = Deviation::Modified.of(phase, interval_s, m);
    Some(Point {
        m,
        tau_s: m as f64 * interval_s,
        adev: allan.value,
        adev_limits,
        edf,
        terms: allan.terms,
        mdev: modified.map(|e| e.value),
        mdev_limits: modified.map(|e| limits(Deviation::Modified, e.value, e.terms).0),
        tdev_s: Deviation::Time.of(phase, interval_s, m).map(|e| e.value),
        hdev: Deviation::Hadamard.of(phase, interval_s, m).map(|e| e.value),
        noise: kind.map(|(noise, _)| noise),
        identified: kind.is_some_and(|(_, identified)| identified),
    })
}

/// Allan variances hardly tell white from flicker noise of the phase: only what was identified
/// somewhere is allowed, white phase noise if nothing was.
fn fit(points: &[Point], interval_s: f64) -> Option<NoiseFit> {
    let seen = |noise: Noise| points.iter().any(|p| p.identified && p.noise == Some(noise));
    let flicker = seen(Noise::FlickerPhase);
    let allowed: Vec<Noise> = Noise::ALL
        .into_iter()
        .filter(|noise| match noise {
            Noise::WhitePhase => seen(Noise::WhitePhase) || !flicker,
            Noise::FlickerPhase => flicker,
            _ => true,
        })
        .collect();
    // Octaves are enough, and count the same samples less often.
    let mut next = 0;
    let observed: Vec<Observed> = points
        .iter()
        .filter(|p| {
            let take = p.m >= next;
            if take {
                next = p.m.saturating_mul(2);
            }
            take
        })
        .map(|p| Observed { tau_s: p.tau_s, deviation: p.adev, edf: p.edf })
        .collect();
    NoiseFit::of(&observed, interval_s, &allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_can_be_analysed() {
        let nan = f64::NAN;
        for phase in [
            &[][..],
            &[1.0],
            &[nan; 5],
            &[nan, 1.0, 2.0, nan],
            &[1.0; 100],
            &[1.0, nan, nan, nan, nan, nan, nan, 5.0],
            &[f64::MAX, f64::MIN, 0.0, f64::MAX, f64::MIN, 1.0, f64::INFINITY],
            &[0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0],
        ] {
            for taus in [Taus::Octave, Taus::Decade, Taus::All] {
                for drop_spikes in [false, true] {
                    let options = Options { taus, drop_spikes, ..Options::default() };
                    let analysis = analyse(phase, 1.0, &options);
                    assert!(analysis.samples + analysis.missing <= phase.len(), "{analysis:?}");
                    assert!(serde_json::to_string(&analysis).is_ok());
                }
            }
        }
    }

    #[test]
    fn gaps_at_the_ends_do_not_count() {
        let nan = f64::NAN;
        let analysis = analyse(&[nan, 1.0, 2.5, nan, 3.0, 4.0, nan, nan], 2.0, &Options::default());
        assert_eq!((analysis.samples, analysis.missing, analysis.span_s), (4, 1, 8.0));
    }
}
