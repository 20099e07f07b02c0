//! The averaging times at which a deviation is looked at.

use serde::{Deserialize, Serialize};

/// More of them than this are thinned: nobody sees more, and the work grows with their number.
const MOST: usize = 1000;

/// Which averaging times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Taus {
    /// 1, 2, 4, 8 … intervals.
    #[default]
    Octave,
    /// 1, 2, 4, 10, 20, 40, 100 … intervals.
    Decade,
    /// Every number of intervals; of more than a thousand, about a thousand evenly spaced by their
    /// logarithms.
    All,
}

impl Taus {
    /// The averaging factors for `samples` samples of phase, ascending: as far as three spans of τ
    /// fit into them.
    #[must_use]
    pub fn factors(self, samples: usize) -> Vec<usize> {
        let last = samples.saturating_sub(1) / 3;
        match self {
            Taus::Octave => (0..usize::BITS).map(|n| 1 << n).take_while(|m| *m <= last).collect(),
            Taus::Decade => (0..usize::MAX.ilog10())
                .flat_map(|n| [1, 2, 4].map(|step| step * 10_usize.pow(n)))
                .take_while(|m| *m <= last)
                .collect(),
            Taus::All if last <= MOST => (1..=last).collect(),
            Taus::All => {
                let step = libm::log(last as f64) / (MOST - 1) as f64;
                let mut factors: Vec<usize> =
                    (0..MOST).map(|n| libm::round(libm::exp(n as f64 * step)) as usize).collect();
                factors.dedup();
                factors.retain(|m| *m <= last);
                factors
            }
        }
    }
}

impl core::str::FromStr for Taus {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Taus, &'static str> {
        match text {
            "octave" => Ok(Taus::Octave),
            "decade" => Ok(Taus::Decade),
            "all" => Ok(Taus::All),
            _ => Err("must be octave, decade or all"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        assert_eq!(Taus::Octave.factors(100), [1, 2, 4, 8, 16, 32]);
        assert_eq!(Taus::Decade.factors(301), [1, 2, 4, 10, 20, 40, 100]);
        assert_eq!(Taus::All.factors(16), [1, 2, 3, 4, 5]);
        for taus in [Taus::Octave, Taus::Decade, Taus::All] {
            assert!(taus.factors(0).is_empty() && taus.factors(3).is_empty());
            assert_eq!(taus.factors(4), [1]);
        }
    }

    #[test]
    fn very_many_are_thinned() {
        let factors = Taus::All.factors(3_000_001);
        assert!(factors.len() <= MOST && factors.len() > MOST / 2, "{}", factors.len());
        assert!(factors.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!((factors[0], factors[1]), (1, 2));
        assert!(factors.last().unwrap() > &990_000);
    }
}
