//! Noise made to order: told for what it is, measured as it was made.

use crate::made::{power_law, white};
use truechimer_survey::analysis::{
    Deviation, Noise, NoiseFit, Options, Removal, Taus, analyse, noise_exponent,
};

const COUNT: usize = 3000;

#[test]
fn every_type_is_identified_at_every_time() {
    for noise in Noise::ALL {
        for seed in [1, 22, 333] {
            let phase = power_law(noise.alpha(), seed, COUNT);
            for m in [1, 2, 4, 16, 40] {
                // Every mth sample of flicker noise of the phase is whiter than all of them.
                if noise == Noise::FlickerPhase && m > 2 {
                    continue;
                }
                let alpha = noise_exponent(&phase, m).unwrap();
                // Few spans of τ leave the exponent uncertain.
                let allowed = 0.25 + 0.08 * f64::sqrt(m as f64);
                // Made of steps at every sample, they are not quite what they are over longer
                // times.
                let stepped = m < 4 && noise.alpha() < 0;
                let allowed = if stepped { 0.5 } else { allowed };
                let wanted = f64::from(noise.alpha());
                assert!((alpha - wanted).abs() < allowed, "{noise:?} {seed} {m}: {alpha}");
            }
        }
    }
}

#[test]
fn deviations_have_the_slopes_of_their_noise() {
    // SP 1065, table 2: exponents of τ in the Allan and the modified Allan deviation.
    for (noise, allan, modified) in [
        (Noise::WhitePhase, -1.0, -1.5),
        // By the formula of table 3 with its logarithm, from τ = 2 to 32.
        (Noise::FlickerPhase, -0.85, -1.0),
        (Noise::WhiteFrequency, -0.5, -0.5),
        (Noise::FlickerFrequency, 0.0, 0.0),
        (Noise::RandomWalkFrequency, 0.5, 0.5),
    ] {
        for (kind, slope) in [(Deviation::Allan, allan), (Deviation::Modified, modified)] {
            let steps = [5_u64, 77, 1234].map(|seed| {
                let phase = power_law(noise.alpha(), seed, COUNT);
                let at = |m| kind.of(&phase, 1.0, m).unwrap().value.ln();
                (at(32) - at(2)) / f64::ln(16.0)
            });
            let mean = steps.iter().sum::<f64>() / 3.0;
            assert!((mean - slope).abs() < 0.13, "{noise:?} {kind:?}: {mean} for {slope}");
        }
    }
}

/// Checks how often the limits hold, over many made-up clocks whose true deviation is known.
#[test]
fn limits_enclose_the_truth_as_often_as_they_say() {
    // White noise of the phase, variance 1: σ² = 3/τ². Of the frequency: σ² = 1/τ.
    for (noise, truth) in [
        (Noise::WhitePhase, (|m| f64::sqrt(3.0) / m) as fn(f64) -> f64),
        (Noise::WhiteFrequency, |m| 1.0 / f64::sqrt(m)),
    ] {
        for m in [1, 4, 16] {
            let mut inside = 0;
            for seed in 1..=200 {
                let phase = power_law(noise.alpha(), 7919 * seed, 130);
                let analysis =
                    analyse(&phase, 1.0, &Options { confidence: 0.9, ..Options::default() });
                let point = analysis.points.iter().find(|p| p.m == m).unwrap();
                let truth = truth(m as f64);
                inside +=
                    u32::from(point.adev_limits.low <= truth && truth <= point.adev_limits.high);
            }
            assert!((168..=192).contains(&inside), "{noise:?} {m}: {inside} of 200 for 180");
        }
    }
}

#[test]
fn a_mixture_is_taken_apart() {
    // White noise of the phase of 1 ns, white frequency noise and a random walk, at 1 Hz.
    let count = 40_000;
    let parts = [power_law(2, 3, count), power_law(0, 4, count), power_law(-2, 5, count)];
    let phase: Vec<f64> = (0..count)
        .map(|i| 1e-9 * parts[0][i] + 1e-10 * parts[1][i] + 1e-13 * parts[2][i] + 5e-6 * i as f64)
        .collect();
    let analysis = analyse(&phase, 1.0, &Options::default());
    let fit = analysis.fit.as_ref().unwrap();
    let wanted = [
        (Noise::WhitePhase, f64::sqrt(3.0) * 1e-9),
        (Noise::WhiteFrequency, 1e-10),
        // The Allan variance of a random walk of the frequency in steps of s is s²·τ/3, for long τ.
        (Noise::RandomWalkFrequency, 1e-13 / f64::sqrt(3.0)),
    ];
    let found: Vec<Noise> = fit.levels.iter().map(|level| level.noise).collect();
    assert_eq!(found, wanted.map(|(noise, _)| noise), "{fit:?}");
    for (level, (_, sigma)) in fit.levels.iter().zip(wanted) {
        let off = (level.deviation_1s / sigma - 1.0).abs();
        assert!(off < 4.0 * level.relative_error + 0.02 && off < 0.4, "{level:?} for {sigma}");
    }
    // White frequency noise against the walk: σ₀²/τ = s²τ/3.
    let tau = f64::sqrt(3.0) * 1e-10 / 1e-13;
    let minimum = analysis.fitted_minimum.unwrap();
    assert!(minimum.tau_s > tau / 2.0 && minimum.tau_s < tau * 2.0, "{minimum:?} for {tau}");
    let seen = analysis.minimum.unwrap();
    assert!(seen.tau_s > tau / 4.0 && seen.tau_s < tau * 4.0, "{seen:?}");
    assert!(!analysis.still_falling);
    assert!((analysis.trend.unwrap().frequency - 5e-6).abs() < 1e-8);
    assert_eq!(analysis.points[0].noise, Some(Noise::WhitePhase));
    let last = analysis.points.iter().rfind(|p| p.identified).unwrap();
    assert!(last.noise >= Some(Noise::FlickerFrequency), "{last:?}");
}

#[test]
fn pure_noise_is_not_taken_for_a_mixture() {
    for noise in [Noise::WhitePhase, Noise::WhiteFrequency, Noise::RandomWalkFrequency] {
        let mut strays = 0;
        for seed in 1..=20 {
            let phase = power_law(noise.alpha(), 104_729 * seed, COUNT);
            let fit: NoiseFit = analyse(&phase, 1.0, &Options::default()).fit.unwrap();
            assert!(fit.levels.iter().any(|level| level.noise == noise), "{fit:?}");
            // A walk in steps is not quite one at the time of a few steps.
            let share = fit.share(noise, 8.0) / fit.deviation(8.0);
            assert!(share > 0.9, "{noise:?} {seed}: {fit:?}");
            strays += fit
                .levels
                .iter()
                .filter(|l| fit.share(l.noise, 64.0) > 0.3 * fit.deviation(64.0))
                .count()
                - 1;
        }
        assert!(strays <= 10, "{noise:?}: {strays} of 20");
    }
}

#[test]
fn drift_is_seen_and_can_be_removed() {
    let phase: Vec<f64> = white(9, COUNT)
        .iter()
        .enumerate()
        .map(|(i, w)| 1e-9 * w + 0.5 * 1e-12 * (i * i) as f64)
        .collect();
    let with = |removal| analyse(&phase, 1.0, &Options { removal, ..Options::default() });
    let (kept, removed) = (with(Removal::Offset), with(Removal::Drift));
    assert!((kept.trend.unwrap().drift_per_s / 1e-12 - 1.0).abs() < 1e-3);
    let last = |a: &truechimer_survey::analysis::Analysis| a.points.last().unwrap().adev;
    // A drift D gives σ = D·τ/√2.
    let tau = kept.points.last().unwrap().tau_s;
    assert!((last(&kept) / (1e-12 * tau / f64::sqrt(2.0)) - 1.0).abs() < 0.05);
    assert!(last(&removed) < 0.1 * last(&kept));
}

#[test]
fn gaps_cost_precision_and_nothing_else() {
    let whole = power_law(0, 42, COUNT);
    let mut holed = whole.clone();
    for i in (0..COUNT).filter(|i| i % 11 == 0 || (900..1100).contains(i)) {
        holed[i] = f64::NAN;
    }
    let options = Options { taus: Taus::Decade, ..Options::default() };
    let (whole, holed) = (analyse(&whole, 1.0, &options), analyse(&holed, 1.0, &options));
    for (a, b) in whole.points.iter().zip(&holed.points).take(6) {
        assert!((a.adev / b.adev - 1.0).abs() < 0.1, "{a:?} {b:?}");
        assert!(b.edf < a.edf && b.noise == Some(Noise::WhiteFrequency), "{a:?} {b:?}");
    }
    assert!(holed.missing > 450);
}
