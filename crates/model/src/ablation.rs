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
    /// What is left out, in words.
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

    #[test]
    fn each_leaves_out_something_else() {
        let all = Ablation::each();
        for (k, one) in all.iter().enumerate() {
            assert_ne!(one.constants, Constants::DEFAULT, "{}", one.part);
            assert!(all.iter().skip(k + 1).all(|other| other.constants != one.constants));
        }
    }
}
