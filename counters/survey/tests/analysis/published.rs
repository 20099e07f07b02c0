//! Against the data sets that others published with their results.

use crate::made::lehmer;
use truechimer_survey::analysis::{Deviation, Noise, degrees_of_freedom};

/// Phases of frequencies that are one second apart.
fn phases(frequencies: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut sum = 0.0;
    let mut phases = vec![0.0];
    phases.extend(frequencies.into_iter().map(|y| {
        sum += y;
        sum
    }));
    phases
}

#[track_caller]
fn same(phase: &[f64], kind: Deviation, m: usize, published: &str) {
    let got = kind.of(phase, 1.0, m).unwrap().value;
    let digits = published.chars().take_while(|c| *c != 'e').filter(char::is_ascii_digit).count();
    let published: f64 = published.parse().unwrap();
    // To within one of the last digit given.
    let step = 10_f64.powf(published.log10().floor() - digits as f64 + 1.0);
    assert!((got - published).abs() < 1.01 * step, "{kind:?} at {m}: {got} for {published}");
}

/// NIST SP 1065, section 12.2: the nine frequencies of NBS Monograph 140, Annex 8.E.
#[test]
fn nbs_nine_points() {
    let phase = phases([892.0, 809.0, 823.0, 798.0, 671.0, 644.0, 883.0, 903.0, 677.0]);
    for (kind, one, two) in [
        (Deviation::Allan, "91.22945", "85.95287"),
        (Deviation::Modified, "91.22945", "74.78849"),
        (Deviation::Time, "52.67135", "86.35831"),
        (Deviation::Hadamard, "70.80607", "85.61487"),
    ] {
        same(&phase, kind, 1, one);
        same(&phase, kind, 2, two);
    }
}

/// SP 1065, section 12.4: a thousand frequencies of a portable generator.
#[test]
fn a_thousand_points() {
    let phase = phases(lehmer().take(1000));
    for (kind, published) in [
        (Deviation::Allan, ["2.922319e-01", "9.159953e-02", "3.241343e-02"]),
        (Deviation::Modified, ["2.922319e-01", "6.172376e-02", "2.170921e-02"]),
        (Deviation::Time, ["1.687202e-01", "3.563623e-01", "1.253382e+00"]),
        (Deviation::Hadamard, ["2.943883e-01", "9.581083e-02", "3.237638e-02"]),
    ] {
        for (m, published) in [1, 10, 100].into_iter().zip(published) {
            same(&phase, kind, m, published);
        }
    }
    // The generator itself, as published: least, greatest and mean.
    let numbers: Vec<f64> = lehmer().take(1000).collect();
    let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-6, "{a} for {b}");
    near(numbers.iter().copied().fold(f64::MAX, f64::min), 1.371760e-3);
    near(numbers.iter().copied().fold(0.0, f64::max), 9.957453e-1);
    near(numbers.iter().sum::<f64>() / 1000.0, 4.897745e-1);
}

fn kind(name: &str) -> Deviation {
    match name {
        "oadev" => Deviation::Allan,
        "mdev" => Deviation::Modified,
        "tdev" => Deviation::Time,
        "ohdev" => Deviation::Hadamard,
        _ => panic!("{name}"),
    }
}

/// Compares with allantools' figures of a series (`allantools.py` beside this).
#[test]
fn as_allantools() {
    let noise: Vec<f64> = lehmer().take(2000).map(|n| n - 0.5).collect();
    let (mut walk, mut sum) = (0.0, 0.0);
    let phase: Vec<f64> = noise
        .iter()
        .enumerate()
        .map(|(i, n)| {
            walk += n;
            sum += walk * 1e-10;
            let i = i as f64;
            3e-9 * n + walk * 1e-10 + sum * 0.01 + 2e-7 * i * 0.5 + 1e-12 * i * i
        })
        .collect();
    let (mut deviations, mut freedoms) = (0, 0);
    for line in include_str!("allantools.txt").lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let n = |k: usize| words[k].parse::<f64>().unwrap();
        let count = |k: usize| words[k].parse::<usize>().unwrap();
        if words[0] == "edf" {
            let noise = Noise::nearest(n(1)).unwrap();
            let (d, modified, m, samples) = (count(2), words[3] == "1", count(4), count(5));
            let kind = match (d, modified) {
                (2, false) => Deviation::Allan,
                (2, true) => Deviation::Modified,
                (3, false) => Deviation::Hadamard,
                // No such deviation here.
                _ => continue,
            };
            let terms = samples - d * m - if modified { m - 1 } else { 0 };
            let got = degrees_of_freedom(kind, noise, m, terms);
            // The coefficients have three digits.
            assert!((got / n(6) - 1.0).abs() < 1e-3, "{line}: {got}");
            freedoms += 1;
        } else {
            let got = kind(words[0]).of(&phase, 0.5, count(1)).unwrap();
            assert_eq!(got.terms, count(3), "{line}");
            assert!((got.value / n(2) - 1.0).abs() < 1e-8, "{line}: {got:?}");
            deviations += 1;
        }
    }
    assert!(deviations > 20 && freedoms > 100, "{deviations} {freedoms}");
}
