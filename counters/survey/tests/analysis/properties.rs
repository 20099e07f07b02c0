//! Properties that hold for any samples.

use proptest::prelude::*;
use truechimer_survey::analysis::{
    Deviation, Options, PhaseFile, Taus, analyse, chi_squared_cdf, chi_squared_quantile, write_row,
};

const KINDS: [Deviation; 4] =
    [Deviation::Allan, Deviation::Modified, Deviation::Time, Deviation::Hadamard];

/// Phases of a nanosecond or so, some of them gaps.
fn phases() -> impl Strategy<Value = Vec<f64>> {
    let sample = prop_oneof![9 => -1.0..1.0_f64, 1 => Just(f64::NAN)];
    proptest::collection::vec(sample.prop_map(|v| v * 1e-9), 0..120)
}

fn close(a: Option<f64>, b: Option<f64>, slack: f64) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= slack + 1e-9 * a.abs(),
        (a, b) => a.is_none() && b.is_none(),
    }
}

proptest! {
    #[test]
    fn scaling(phase in phases(), m in 0..50_usize, factor in 0.01..100.0_f64, tau0 in 0.01..100.0_f64) {
        for kind in KINDS {
            let value = |phase: &[f64], tau0| kind.of(phase, tau0, m).map(|e| e.value);
            let one = value(&phase, 1.0);
            // Twice the phase is twice the deviation, ...
            let scaled: Vec<f64> = phase.iter().map(|x| x * factor).collect();
            prop_assert!(close(value(&scaled, 1.0), one.map(|v| v * factor), 1e-20));
            // ... and twice the time half of it, but for the time deviation.
            let over = if kind == Deviation::Time { 1.0 } else { tau0 };
            prop_assert!(close(value(&phase, tau0), one.map(|v| v / over), 1e-20));
        }
    }

    #[test]
    fn blind_to_offsets(
        phase in phases(), m in 1..50_usize, x in -1e-3..1e-3_f64, y in -1e-6..1e-6_f64,
        drift in -1e-9..1e-9_f64,
    ) {
        for kind in KINDS {
            let value = |phase: &[f64]| kind.of(phase, 1.0, m).map(|e| e.value);
            // The Hadamard deviation does not see drift either.
            let drift = if kind == Deviation::Hadamard { drift } else { 0.0 };
            let moved: Vec<f64> = phase
                .iter()
                .enumerate()
                .map(|(i, v)| { let i = i as f64; v + x + y * i + drift * i * i })
                .collect();
            prop_assert!(close(value(&moved), value(&phase), 1e-17), "{kind:?}");
        }
    }

    #[test]
    fn time_may_run_backwards(phase in phases(), m in 1..50_usize) {
        let reversed: Vec<f64> = phase.iter().rev().copied().collect();
        for kind in KINDS {
            let value = |phase: &[f64]| kind.of(phase, 1.0, m).map(|e| e.value);
            prop_assert!(close(value(&reversed), value(&phase), 1e-20), "{kind:?}");
        }
    }

    #[test]
    fn quick_sums_are_those_by_definition(phase in phases(), m in 1..12_usize) {
        let n = phase.len();
        let (mut sum, mut terms) = (0.0, 0);
        for j in 0..(n + 1).saturating_sub(3 * m) {
            let second = |i: usize| phase[i + 2 * m] - 2.0 * phase[i + m] + phase[i];
            let mean = (j..j + m).map(second).sum::<f64>() / m as f64;
            if mean.is_finite() {
                sum += mean * mean;
                terms += 1;
            }
        }
        let slow = (terms > 0).then(|| (sum / (2.0 * f64::from(terms))).sqrt() / m as f64);
        let quick = Deviation::Modified.of(&phase, 1.0, m);
        prop_assert!(close(quick.map(|e| e.value), slow, 1e-22));
        prop_assert_eq!(quick.map_or(0, |e| e.terms), terms as usize);
    }

    #[test]
    fn analysis_is_sound(phase in phases(), tau0 in 0.001..1000.0_f64, confidence in 0.5..0.999_f64) {
        let options = Options { taus: Taus::All, confidence, ..Options::default() };
        let analysis = analyse(&phase, tau0, &options);
        for point in &analysis.points {
            let limits = point.adev_limits;
            prop_assert!(limits.low <= point.adev && point.adev <= limits.high, "{point:?}");
            prop_assert!(point.edf > 0.0 && point.edf <= point.terms as f64);
        }
        if let Some(fit) = &analysis.fit {
            prop_assert!(fit.levels.iter().all(|l| l.h > 0.0 && l.deviation_1s.is_finite()));
        }
        if let Some(minimum) = analysis.minimum {
            prop_assert!(analysis.points.iter().all(|p| p.adev == 0.0 || p.adev >= minimum.deviation));
        }
    }

    #[test]
    fn quantiles(p in 0.001..0.999_f64, edf in 0.2..1e5_f64) {
        let x = chi_squared_quantile(p, edf);
        prop_assert!((chi_squared_cdf(x, edf) - p).abs() < 1e-7, "{x}");
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[-0-9naN.e,;:#%= \n\ttau]{0,200}") {
        match PhaseFile::read(text.as_bytes()) {
            Ok(file) => {
                prop_assert!(!file.rows.is_empty());
                let mut again = Vec::new();
                for row in &file.rows {
                    write_row(&mut again, row.time_s, row.phase_s).unwrap();
                }
                let again = PhaseFile::read(&again[..]).unwrap();
                for (a, b) in file.rows.iter().zip(&again.rows) {
                    prop_assert_eq!(a.time_s, b.time_s);
                    prop_assert_eq!(a.phase_s.to_bits(), b.phase_s.to_bits());
                }
                if let Ok((samples, interval)) = file.samples(None) {
                    prop_assert!(interval > 0.0 && !samples.is_empty());
                }
            }
            Err(error) => prop_assert!(!error.to_string().chars().any(char::is_control)),
        }
    }
}
