//! Parts of the model of the daemon's estimator, each switched off by its constants to see what it
//! buys.

use truechimer_model::Constants;

/// Share of a scale that is as good as none of it.
const NOTHING: f64 = 1e-6;

/// Change of the constants that leaves out a part.
type Change = fn(&mut Constants);

/// Parts of the model, and what leaves each out.
const PARTS: [(&str, Change); 13] = [
    ("the delay law's hidden state", |c| c.law_change = 1.0),
    ("packets below the floor", |c| c.undercut_scale = NOTHING),
    ("blurred floors", |c| c.blur = 0.0),
    ("several walks of the rate", |c| c.step = 1.0),
    ("the floors' walk", |c| c.floor_walk = 0.0),
    ("slow queues", |c| (c.tide_slow, c.tide_fast) = (c.floor_walk, c.floor_walk)),
    ("the first stamps in the light of all", |c| c.stretch = 0.0),
    ("changes of the path", |c| c.asked.path = false),
    ("longer paths", |c| c.asked.longer = false),
    ("hidden floors", |c| c.asked.floor = false),
    ("changes of the oscillator", |c| c.asked.oscillator = false),
    ("steps of the server", |c| c.asked.server = false),
    ("wander of the server", |c| c.asked.wander = false),
];

/// Constants that leave out one part of the model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ablation {
    /// Name of the part that is left out.
    pub part: &'static str,
    /// Constants of the rest.
    pub constants: Constants,
}

impl Ablation {
    /// All parts, each left out in turn.
    pub fn each() -> impl Iterator<Item = Ablation> {
        PARTS.iter().map(|(part, change)| {
            let mut constants = Constants::DEFAULT;
            change(&mut constants);
            Ablation { part, constants }
        })
    }

    /// Constants with all parts of these names left out.
    #[must_use]
    pub fn without<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Constants {
        let mut constants = Constants::DEFAULT;
        for (_, change) in PARTS.iter().filter(|(part, _)| names.clone().any(|n| n == *part)) {
            change(&mut constants);
        }
        constants
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_model::{Known, Model, Noise, Sample};

    /// A clock that gains 5 ppm, packets of 100 µs and a little more, and later a longer path.
    #[test]
    fn what_is_left_follows_a_clock() {
        let known = |mean, deviation| Known { mean, deviation };
        for Ablation { part, constants } in Ablation::each() {
            let mut random = 1_u64;
            let mut wait = || {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                -10e-6 * libm::log(((random >> 40) as f64 + 0.5) / 16_777_216.0)
            };
            let (floor, offset, rate) = (known(100e-6, 50e-6), known(0.0, 1e-4), known(0.0, 25e-6));
            let mut model = Model::new(offset, rate, floor, Noise::of(0.3e-6), constants);
            for k in 0..300 {
                if k > 0 {
                    model.predict(16.0);
                }
                let theta = 5e-6 * 16.0 * f64::from(k);
                let floor = if k < 200 { 100e-6 } else { 150e-6 };
                let [there, back] = [floor + wait(), floor + wait()];
                let duration = there + back;
                let sample = Sample { above: [theta + there, back - theta], duration };
                model.take(sample, 0.6e-6, true);
                let off = model.now().offset - theta;
                assert!(k < 30 || off.abs() < 30e-6, "{part}: {off} s at {k}");
            }
        }
    }

    #[test]
    fn each_leaves_out_something_else() {
        for (k, one) in Ablation::each().enumerate() {
            assert_ne!(one.constants, Constants::DEFAULT, "{}", one.part);
            assert!(Ablation::each().skip(k + 1).all(|other| other.constants != one.constants));
            assert_eq!(Ablation::without([one.part].into_iter()), one.constants);
        }
    }
}
