//! Results of the oscillator against theory.

use super::*;
use crate::random::tests::checksum;
use crate::scenario::parse;
use truechimer_survey::analysis::Deviation;

/// Seconds of each realisation, and how many of them.
const LENGTH: usize = 20_000;
const SEEDS: u64 = 8;

/// A deviation at `m` s: the root of the mean variance over the seeds.
fn pooled(spec: &OscillatorSpec, m: usize, deviation: Deviation) -> f64 {
    let variances = (0..SEEDS).map(|seed| {
        let mut oscillator = Oscillator::new(spec, seed);
        let phase: Vec<f64> = (0..LENGTH).map(|t| oscillator.phase_at(t as f64)).collect();
        let deviation = deviation.of(&phase, 1.0, m).unwrap().value;
        deviation * deviation
    });
    (variances.sum::<f64>() / SEEDS as f64).sqrt()
}

/// Checks the deviation against a law of τ. There are at least `LENGTH` / m independent second
/// differences a seed or so; the margin is four standard deviations of that.
fn assert_law(spec: &OscillatorSpec, law: impl Fn(f64) -> f64) {
    for m in [1, 3, 10, 30, 100, 300] {
        let ratio = pooled(spec, m, Deviation::Allan) / law(m as f64);
        let margin = 4.0 / (2.0 * SEEDS as f64 * (LENGTH / m) as f64).sqrt();
        assert!((ratio - 1.0).abs() < margin, "at {m} s: {ratio} of what it should be");
    }
}

#[test]
fn random_walk_frequency() {
    let walk = 1e-9;
    let spec = OscillatorSpec { walk_per_root_s: walk, ..OscillatorSpec::default() };
    assert_law(&spec, |tau| walk * (tau / 3.0).sqrt());
}

#[test]
fn white_frequency() {
    let spec = OscillatorSpec { white_frequency_at_1s: 2e-10, ..OscillatorSpec::default() };
    assert_law(&spec, |tau| 2e-10 / tau.sqrt());
    // Averaging the phase lowers it by half, NIST SP 1065, table 2 ("Mod" ratios for large m).
    let modified = pooled(&spec, 64, Deviation::Modified);
    assert!((modified / (2e-10 / 8.0) - 0.5f64.sqrt()).abs() < 0.03, "{modified}");
}

#[test]
fn white_phase() {
    let spec = OscillatorSpec { white_phase_at_1s: 5e-9, ..OscillatorSpec::default() };
    assert_law(&spec, |tau| 5e-9 / tau);
    let modified = pooled(&spec, 100, Deviation::Modified);
    assert!((modified / (5e-9 / 1000.0) - 1.0).abs() < 0.1, "{modified}");
}

#[test]
fn flicker_phase() {
    let spec = OscillatorSpec { flicker_phase_at_1s: 5e-9, ..OscillatorSpec::default() };
    assert_law(&spec, |tau| 5e-9 * flicker::tests::theory(tau as usize));
}

#[test]
fn a_sine_has_its_closed_form() {
    let sine = Sine { amplitude_ppm: 0.1, period_s: 200.0, phase_deg: 30.0 };
    let spec = OscillatorSpec { sines: vec![sine], ..OscillatorSpec::default() };
    let mut oscillator = Oscillator::new(&spec, 1);
    for m in [1, 10, 50, 100, 130, 170] {
        // Over whole periods the mean square of the second difference is exact.
        let phase: Vec<f64> = (0..400 + 2 * m).map(|t| oscillator.phase_at(t as f64)).collect();
        let x = PI * m as f64 / 200.0;
        let expected = 1e-7 * x.sin().powi(2) / x;
        let deviation = Deviation::Allan.of(&phase, 1.0, m).unwrap().value;
        assert!((deviation / expected - 1.0).abs() < 1e-6, "{m}: {deviation} {expected}");
    }
}

/// All that there is.
fn everything() -> OscillatorSpec {
    OscillatorSpec {
        skew_ppm: -12.5,
        walk_per_root_s: 1e-8,
        white_frequency_at_1s: 1e-8,
        flicker_phase_at_1s: 1e-9,
        white_phase_at_1s: 1e-9,
        sines: vec![
            Sine { amplitude_ppm: 0.1, period_s: 200.0, phase_deg: 0.0 },
            Sine { amplitude_ppm: 1.0, period_s: 86_400.0, phase_deg: -90.0 },
        ],
        ramps: vec![Ramp { from_s: 100.0, to_s: 160.0, ppm: 3.0 }],
        steps: vec![Step { at_s: 120.25, ppm: -2.0 }],
    }
}

#[test]
fn ramps_and_steps_by_hand() {
    let spec = OscillatorSpec {
        skew_ppm: 1.0,
        ramps: vec![Ramp { from_s: 100.0, to_s: 200.0, ppm: 4.0 }],
        steps: vec![Step { at_s: 300.0, ppm: -5.0 }],
        ..OscillatorSpec::default()
    };
    let mut oscillator = Oscillator::new(&spec, 1);
    for (t, phase, skew) in [
        (0.0, 0.0, 1.0),
        (100.0, 100.0, 1.0),
        (150.0, 150.0 + 50.0, 3.0),
        (200.0, 200.0 + 200.0, 5.0),
        (300.0, 300.0 + 600.0, 0.0),
        (400.0, 900.0, 0.0),
    ] {
        assert!((oscillator.phase_at(t) - 1e-6 * phase).abs() < 1e-15, "phase at {t}");
        assert!((oscillator.skew_at(t) - 1e-6 * skew).abs() < 1e-15, "skew at {t}");
    }
}

#[test]
fn skew_is_the_slope_of_the_phase() {
    // Phase noise is no part of the skew.
    let spec = OscillatorSpec { flicker_phase_at_1s: 0.0, white_phase_at_1s: 0.0, ..everything() };
    let mut oscillator = Oscillator::new(&spec, 5);
    for i in 0..2000 {
        let t = 0.1 * f64::from(i) + 0.0501;
        let slope = (oscillator.phase_at(t + 1e-4) - oscillator.phase_at(t - 1e-4)) / 2e-4;
        let skew = oscillator.skew_at(t);
        assert!((slope - skew).abs() < 1e-11, "at {t}: {slope} {skew}");
    }
}

#[test]
fn whoever_asks_sees_the_same_oscillator() {
    let mut often = Oscillator::new(&everything(), 9);
    let phases: Vec<f64> = (0..30_000).map(|i| often.phase_at(0.01 * f64::from(i))).collect();
    // Seldom; forwards and backwards; from far away; and after a skew and a count.
    let mut seldom = Oscillator::new(&everything(), 9);
    for i in [7, 12_345, 12_300, 29_999, 29_000, 3, 29_998] {
        seldom.skew_at(0.01 * f64::from(i) + 3.0);
        seldom.count_at(0.01 * f64::from(i), 1_000_000_000, Count(0));
        assert_eq!(seldom.phase_at(0.01 * f64::from(i)), phases[i as usize], "{i}");
    }
    assert_ne!(Oscillator::new(&everything(), 10).phase_at(50.0), phases[5000]);
    assert_ne!(Oscillator::named(&everything(), 9, "server").phase_at(50.0), phases[5000]);
}

#[test]
fn one_noise_does_not_disturb_another() {
    let with = |flicker| {
        let spec = OscillatorSpec {
            walk_per_root_s: 1e-9,
            flicker_phase_at_1s: flicker,
            ..OscillatorSpec::default()
        };
        Oscillator::new(&spec, 4).skew_at(1234.5)
    };
    assert_eq!(with(0.0), with(1e-8));
}

#[test]
fn counts_are_exact() {
    let mut perfect = Oscillator::new(&OscillatorSpec::default(), 1);
    assert_eq!(perfect.count_at(0.0, 1_000_000_000, Count(77)), Count(77));
    let base = Count(u64::MAX - 5);
    assert_eq!(perfect.count_at(1.0, 10, base), Count(4), "counts roll over");
    // 10⁷ s and a count of 3 GHz are more than a float can tell apart.
    let late = perfect.count_at(1e7 + 0.5, 3_000_000_001, Count(0));
    assert_eq!(late, Count(30_000_000_010_000_000 + 1_500_000_000));
    let mut fast =
        Oscillator::new(&OscillatorSpec { skew_ppm: 500.0, ..OscillatorSpec::default() }, 1);
    let late = fast.count_at(1e6, 1_000_000_000, Count(0)) - Count(1_000_500_000_000_000);
    assert!(late.abs().0 <= 1, "{late:?}");
    assert_eq!(perfect.count_at(-0.5, 1000, Count(600)), Count(100));
}

#[test]
fn the_counter_never_runs_backwards() {
    let noisy = OscillatorSpec {
        walk_per_root_s: 1e-6,
        white_frequency_at_1s: 1e-6,
        flicker_phase_at_1s: 1e-6,
        white_phase_at_1s: 1e-6,
        skew_ppm: -100_000.0,
        ..OscillatorSpec::default()
    };
    let mut oscillator = Oscillator::new(&noisy, 3);
    let mut last = oscillator.count_at(0.0, 1_000_000_000, Count(0));
    for i in 1..200_000 {
        let count = oscillator.count_at(3.7e-5 * f64::from(i), 1_000_000_000, Count(0));
        assert!((count - last).0 > 0, "{i}");
        last = count;
    }
}

#[test]
fn stamps_a_millisecond_apart_have_noise_of_their_own() {
    let spec = OscillatorSpec { white_phase_at_1s: 3f64.sqrt(), ..OscillatorSpec::default() };
    let mut oscillator = Oscillator::new(&spec, 3);
    let noise: Vec<f64> = (0..20_000).map(|i| oscillator.phase_at(f64::from(i) / 1000.0)).collect();
    let variance = noise.iter().map(|x| x * x).sum::<f64>() / 2e4;
    assert!((variance - 1.0).abs() < 0.04, "{variance}");
    let lagged = noise.iter().zip(&noise[1..]).map(|(a, b)| a * b).sum::<f64>() / 2e4;
    assert!(lagged.abs() < 0.03, "{lagged}");
}

#[test]
fn the_same_to_the_last_bit_everywhere() {
    let mut oscillator = Oscillator::new(&everything(), 42);
    let numbers = (0..5000).map(|i| oscillator.phase_at(0.37 * f64::from(i)));
    assert_eq!(checksum(numbers), 17_883_793_179_448_434_992);
}

#[test]
fn what_is_left_out_is_not_there() {
    let spec: OscillatorSpec = parse(
        "skew-ppm = 10\nwalk-per-root-s = 1e-9\n[[sine]]\namplitude-ppm = 0.1\nperiod-s = 200\n",
    )
    .unwrap();
    let sine = Sine { amplitude_ppm: 0.1, period_s: 200.0, phase_deg: 0.0 };
    assert_eq!(spec, OscillatorSpec { sines: vec![sine], ..OscillatorSpec::reference() });
    let mut nothing = Oscillator::new(&parse("").unwrap(), 1);
    assert_eq!(nothing.phase_at(1e5), 0.0);
    assert_eq!(nothing.skew_at(1e5), 0.0);
    let text = toml::to_string(&everything()).unwrap();
    assert_eq!(parse::<OscillatorSpec>(&text).unwrap(), everything(), "{text}");
}

#[test]
fn what_cannot_be_is_refused() {
    everything().check().unwrap();
    for (text, expected) in [
        ("skew-ppm = nan", "skew-ppm = NaN: must be between -100000 and 100000"),
        ("walk-per-root-s = -1e-9", "walk-per-root-s = -1e-9: must be between 0 and 1e-6"),
        ("white-frequency-at-1s = 1", "white-frequency-at-1s = 1: must be"),
        ("flicker-phase-at-1s = inf", "flicker-phase-at-1s = inf: must be"),
        ("white-phase-at-1s = 0.1", "white-phase-at-1s = 0.1: must be"),
        ("[[sine]]\namplitude-ppm = 1\nperiod-s = 0", "sine 1: period-s = 0: must be between 1"),
        ("[[sine]]\namplitude-ppm = nan\nperiod-s = 9", "sine 1: amplitude-ppm = NaN"),
        ("[[sine]]\namplitude-ppm = 1\nperiod-s = 9\nphase-deg = 361", "sine 1: phase-deg = 361"),
        ("[[ramp]]\nfrom-s = 5\nto-s = 5\nppm = 1", "ramp 1: to-s = 5: must be after from-s = 5"),
        ("[[ramp]]\nfrom-s = -5\nto-s = 5\nppm = 1", "ramp 1: from-s = -5: must be"),
        ("[[step]]\nat-s = -1\nppm = 1", "step 1: at-s = -1: must be between 0"),
        (
            "skew-ppm = 60000\n[[step]]\nat-s = 1\nppm = -50000",
            "skew, sines, ramps and steps together, in ppm = 110000: must be",
        ),
    ] {
        let spec: OscillatorSpec = parse(text).unwrap();
        let error = spec.check().unwrap_err();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    let step = Step { at_s: 1.0, ppm: 0.0 };
    let many = OscillatorSpec { steps: vec![step; 1001], ..OscillatorSpec::default() };
    assert_eq!(many.check().unwrap_err(), "step: 1001 entries; at most 1000 are taken");
    assert!(parse::<OscillatorSpec>("skew = 10").is_err());
    assert!(parse::<OscillatorSpec>("[[step]]\nat-s = 1\nppm = 1\nx = 2").is_err());
}
