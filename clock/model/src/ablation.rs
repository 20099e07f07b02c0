//! Parts of the model, each switched off by its constants to see what it buys.

use crate::constants::Constants;

/// Rate of what never happens.
const NEVER: f64 = 0.0;
/// Threshold that nothing reaches.
const BEYOND: f64 = 1e9;
/// Share of a scale that is as good as none of it.
const NOTHING: f64 = 1e-6;

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
    #[must_use]
    pub fn each() -> [Ablation; 13] {
        let all = Constants::DEFAULT;
        let still = all.floor_walk;
        let parts = [
            ("the delay law's hidden state", Constants { law_change: 1.0, ..all }),
            (
                "packets below the floor",
                Constants { undercut: 0.0, undercut_scale: NOTHING, ..all },
            ),
            ("blurred floors", Constants { blur: 0.0, ..all }),
            ("several walks of the rate", Constants { walk_step: 1.0, ..all }),
            ("the floors' walk", Constants { floor_walk: 0.0, ..all }),
            ("slow queues", Constants { tide_slow: still, tide_fast: still, ..all }),
            ("the first stamps in the light of all", Constants { stretch: 0.0, ..all }),
            ("changes of the path", Constants { path: NEVER, ..all }),
            ("longer paths", Constants { late: BEYOND, less_late: BEYOND, ..all }),
            ("hidden floors", Constants { hidden: NOTHING, ..all }),
            ("changes of the oscillator", Constants { oscillator: NEVER, ..all }),
            ("steps of the server", Constants { server: NEVER, ..all }),
            ("wander of the server", Constants { wander: NEVER, ..all }),
        ];
        parts.map(|(part, constants)| Ablation { part, constants })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Known, Model, Sample};

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
            let mut model = Model::new(offset, rate, floor, [0.3e-6; 2], constants);
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
        let all = Ablation::each();
        for (k, one) in all.iter().enumerate() {
            assert_ne!(one.constants, Constants::DEFAULT, "{}", one.part);
            assert!(all.iter().skip(k + 1).all(|other| other.constants != one.constants));
        }
    }
}
