//! Medians of many numbers in little memory.

use std::collections::BTreeMap;

/// Numbers, sorted into buckets that are 1/64 wide: a median is right to within 1.6 %.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    buckets: BTreeMap<u64, u64>,
    /// How many there were.
    pub count: u64,
    /// The largest.
    pub largest: Option<u64>,
}

/// A bucket keeps so many of the uppermost bits.
const BITS: u32 = 7;

impl Spread {
    /// Takes one in, if it is one.
    pub fn add(&mut self, number: Option<u64>) {
        let Some(number) = number else { return };
        let spare = (u64::BITS - number.leading_zeros()).saturating_sub(BITS);
        *self.buckets.entry(number >> spare << spare).or_default() += 1;
        self.count += 1;
        self.largest = self.largest.max(Some(number));
    }

    /// The middle one, rounded down to its bucket.
    pub fn median(&self) -> Option<u64> {
        let mut left = self.count.div_ceil(2);
        for (&bucket, &many) in &self.buckets {
            if many >= left {
                return (self.count > 0).then_some(bucket);
            }
            left -= many;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_near_enough() {
        let mut spread = Spread::default();
        assert_eq!((spread.median(), spread.largest), (None, None));
        spread.add(Some(0));
        assert_eq!((spread.median(), spread.largest), (Some(0), Some(0)));
        for n in 1..=100_001u64 {
            spread.add(Some(n * 1000));
        }
        spread.add(None);
        let median = spread.median().unwrap() as f64;
        assert!((median / 50_000_000.0 - 1.0).abs() < 1.0 / 64.0, "{median}");
        assert_eq!((spread.count, spread.largest), (100_002, Some(100_001_000)));
        assert!(spread.buckets.len() < 64 * 40);
    }
}
