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
        Noise::of([0.1e-6; 2]),
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
