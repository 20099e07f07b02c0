//! Distribution of numbers, in little memory.

/// Number of buckets to each power of two: a quantile is exact to one part in 64.
const PARTS: u32 = 64;
const PART_BITS: u32 = PARTS.ilog2();
const BUCKETS: usize = ((64 - PART_BITS + 1) * PARTS) as usize;

/// A histogram of whole numbers, finer where they are small: exact below 128, to one part in 64
/// above.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spread {
    counts: Box<[u64; BUCKETS]>,
    count: u64,
    max: u64,
}

impl Default for Spread {
    fn default() -> Spread {
        Spread { counts: Box::new([0; BUCKETS]), count: 0, max: 0 }
    }
}

impl Spread {
    /// Takes a number in.
    pub fn add(&mut self, value: u64) {
        if let Some(bucket) = self.counts.get_mut(bucket(value)) {
            *bucket += 1;
        }
        self.count += 1;
        self.max = self.max.max(value);
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The largest, exactly; 0 of none.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The number that a share of `quantile` (from 0 to 1) of all does not exceed, never too small,
    /// and never larger than the largest; `None` of none.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let wanted = (self.count as f64 * quantile).ceil().max(1.0) as u64;
        let mut below = 0;
        for (index, bucket) in self.counts.iter().enumerate() {
            below += bucket;
            if below >= wanted {
                return Some(top(index).min(self.max));
            }
        }
        Some(self.max)
    }

    /// Difference since it was as `earlier`, which must be an earlier state of the same. Its
    /// largest is exact only where that is the largest of all.
    #[must_use]
    pub fn since(&self, earlier: &Spread) -> Spread {
        let mut counts = self.counts.clone();
        let mut highest = 0;
        for (index, (now, then)) in counts.iter_mut().zip(earlier.counts.iter()).enumerate() {
            *now = now.saturating_sub(*then);
            if *now > 0 {
                highest = top(index);
            }
        }
        let count = self.count.saturating_sub(earlier.count);
        Spread { counts, count, max: highest.min(self.max) }
    }
}

fn bucket(value: u64) -> usize {
    let Some(power) = value.checked_ilog2() else { return 0 };
    if power < PART_BITS {
        return value as usize;
    }
    // The bits after the leading one tell the part.
    let part = (value >> (power - PART_BITS)) as u32 & (PARTS - 1);
    ((power - PART_BITS + 1) * PARTS + part) as usize
}

/// The largest number of a bucket.
fn top(bucket: usize) -> u64 {
    let (row, part) = (bucket as u32 / PARTS, u64::from(bucket as u32 % PARTS));
    if row == 0 {
        return part;
    }
    let shift = row - 1;
    let first = (u64::from(PARTS) + part) << shift;
    first + ((1_u64 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_number_is_within_its_bucket() {
        assert_eq!(top(BUCKETS - 1), u64::MAX);
        for value in (0..5000).chain([u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1, 1 << 32]) {
            let bucket = bucket(value);
            assert!(bucket < BUCKETS && value <= top(bucket), "{value}");
            assert!(bucket == 0 || value > top(bucket - 1), "{value}");
        }
    }

    #[test]
    fn nothing_has_no_median() {
        assert_eq!(Spread::default().quantile(0.5), None);
    }

    #[test]
    fn what_came_since() {
        let mut spread = Spread::default();
        spread.add(1000);
        let before = spread.clone();
        assert_eq!(spread.since(&before).quantile(1.0), None);
        for _ in 0..3 {
            spread.add(7);
        }
        let since = spread.since(&before);
        assert_eq!((since.count(), since.max(), since.quantile(0.5)), (3, 7, Some(7)));
    }

    proptest! {
        #[test]
        fn quantiles_are_as_of_the_sorted_list(
            mut values in proptest::collection::vec(any::<u64>(), 1..200),
            quantile in 0.0..=1.0_f64,
        ) {
            let mut spread = Spread::default();
            values.iter().for_each(|&value| spread.add(value));
            values.sort_unstable();
            let wanted = ((values.len() as f64 * quantile).ceil() as usize).max(1) - 1;
            let exact = values[wanted];
            let told = spread.quantile(quantile).unwrap();
            prop_assert!(told >= exact && told - exact <= exact / 64, "{told}, {exact}");
        }
    }
}
