//! The first exchanges beside what can be known of them exactly. Fixed seeds.
//!
//! With a known rate, floors that are alike and exponential waits of mean m, the least measurement
//! of a direction is all that n exchanges say of it: y = least − m/n ± m/n. The offset is half of the
//! difference, ± m/(n √2). The model has to find m out as well.
#![allow(clippy::indexing_slicing)]

mod random;

use random::Random;
use truechimer_model::{Constants, Known, Model, Noise, Sample};

const FLOOR: f64 = 2e-3;
const WAIT: f64 = 300e-6;

/// Error of the offset after `n` exchanges, what the model says of it, the error of what can be
/// known, and that one's standard deviation, s.
fn begun(seed: u64, n: usize) -> [f64; 4] {
    let mut random = Random(seed);
    let known = |mean, deviation| Known { mean, deviation };
    let trip = FLOOR + WAIT;
    let mut model = Model::new(
        known(0.0, trip / 2.0),
        known(0.0, 1e-9),
        known(trip, trip / 2.0),
        Noise::of(0.1e-6),
        Constants::DEFAULT,
    );
    let mut least = [f64::INFINITY; 2];
    for k in 0..n {
        if k > 0 {
            model.predict(1.0);
        }
        let above = [0, 1].map(|_| FLOOR + random.exponential(WAIT));
        least = [0, 1].map(|d| above[d].min(least[d]));
        let _ = model.take(Sample { above, duration: above[0] + above[1] }, 0.6e-6, false);
    }
    let now = model.now();
    let exact = WAIT / n as f64 / 2.0_f64.sqrt();
    [now.offset, now.offset_variance.sqrt(), (least[0] - least[1]) / 2.0, exact]
}

#[test]
fn the_start_is_as_good_as_what_can_be_known() {
    for n in [8, 16, 30] {
        let runs: Vec<[f64; 4]> = (1..=200).map(|seed| begun(seed, n)).collect();
        let rms = |i: usize| (runs.iter().map(|run| run[i] * run[i]).sum::<f64>() / 200.0).sqrt();
        let [error, claimed, least, exact] = [0, 1, 2, 3].map(rms);
        assert!((0.85..1.15).contains(&(least / exact)), "{n}: the yardstick is off");
        assert!(error < 1.05 * least, "{n}: {error} s, and {least} s can be known");
        // The waits' mean is a guess, so that what is claimed is up to a quarter too little.
        assert!((0.7..1.2).contains(&(claimed / error)), "{n}: {claimed} s of {error} s");
        let within = runs.iter().filter(|run| run[0].abs() < 3.0 * run[1]).count();
        assert!(within >= 176, "{n}: {within} of 200 within three standard deviations");
    }
}

/// Error of the offset after `n` exchanges `poll` s apart whose requests and replies wait as `waits` says; the
/// oscillator walks, and stamps are far better than is stated.
fn quiet(seed: u64, poll: f64, n: usize, waits: impl Fn(&mut Random) -> [f64; 2]) -> f64 {
    const OWN: f64 = 17e-6;
    let mut random = Random(seed);
    let known = |mean, deviation| Known { mean, deviation };
    let (offset, skew, floor) = (known(0.0, 20e-6), known(0.0, 25e-6), known(OWN, OWN / 2.0));
    let noise = Noise::of(350e-9);
    let mut model = Model::new(offset, skew, floor, noise, Constants::DEFAULT);
    let (mut theta, mut rate) = (0.0, 4e-6);
    let stamp = |random: &mut Random| 10e-9 * (random.exponential(1.0) - random.exponential(1.0));
    for k in 0..n {
        let gap = poll.min(if k < 8 { 2.0 } else { 8.0 });
        let gap = if k < 20 { gap } else { poll };
        if k > 0 {
            model.predict(gap);
            theta += rate * gap;
            // 0.7e-9 /√s.
            rate += 0.5e-9 * gap.sqrt() * (random.exponential(1.0) - random.exponential(1.0));
        }
        let waits = waits(&mut random).map(|wait| OWN + wait + stamp(&mut random));
        let duration = 54e-6;
        let above = [theta - rate * duration + waits[0], waits[1] - theta];
        let _ = model.take(Sample { above, duration }, 0.6e-6, false);
    }
    model.now().offset - theta
}

/// Root mean square over seeds.
fn over_seeds(error: impl Fn(u64) -> f64) -> f64 {
    ((1..=20).map(|seed| error(seed) * error(seed)).sum::<f64>() / 20.0).sqrt()
}

#[test]
fn stamps_are_known_by_the_direction_that_never_waits() {
    let even = over_seeds(|seed| quiet(seed, 1.0, 1000, |random| [0.0, random.even() * 15e-6]));
    let exponential =
        over_seeds(|seed| quiet(seed, 1.0, 1000, |random| [0.0, random.exponential(5e-6)]));
    assert!(even < 100e-9 && exponential < 30e-9, "{even} s and {exponential} s");
}

#[test]
fn a_path_without_queues_is_known_to_its_stamps() {
    for n in [10, 16, 24, 32, 64, 200] {
        let error = over_seeds(|seed| quiet(seed, 16.0, n, |_| [0.0; 2]));
        assert!(error < 250e-9, "{n}: {error} s");
    }
}

#[test]
fn a_floor_that_many_packets_are_below_is_not_kept() {
    let waits = |random: &mut Random| [0.0, random.even() * 15e-6];
    let mut errors: Vec<f64> = (1..=60).map(|seed| quiet(seed, 1.0, 600, waits).abs()).collect();
    errors.sort_by(f64::total_cmp);
    assert!(errors[54] < 300e-9 && errors[59] < 900e-9, "{} s, {} s", errors[54], errors[59]);
}
