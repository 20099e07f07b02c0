//! Reorder density and reorder buffer-occupancy density by RFC 5236.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The threshold of displacement and of the buffer, in packets, unless another is chosen.
pub const THRESHOLD: u64 = 64;

/// RD and RBD of one stream. Duplicates must be left out.
///
/// Each packet that arrives is given a receive index, 1, 2, …, that leaves out the numbers of lost
/// packets; its displacement is that index minus its number: positive, it was late. A packet is
/// lost if it is not among those that have arrived by the time that it would be displaced by more
/// than the threshold; one that comes later still, or comes earlier than by the threshold, is left
/// out and counted.
#[derive(Clone, PartialEq, Debug)]
pub struct Density {
    threshold: u64,
    /// Numbers of the arrivals that have no receive index yet.
    window: VecDeque<u64>,
    waiting: BTreeSet<u64>,
    /// Numbers that came before their index.
    early: BTreeSet<u64>,
    index: Option<u64>,
    displacements: BTreeMap<i64, u64>,
    counted: u64,
    outside: u64,
    buffer: Buffer,
}

/// The buffer that a receiver would need to put the packets in order.
#[derive(Clone, PartialEq, Debug, Default)]
struct Buffer {
    size: u64,
    expected: u64,
    held: BTreeSet<u64>,
    occupancies: BTreeMap<u64, u64>,
}

impl Default for Density {
    fn default() -> Density {
        Density::new(THRESHOLD, None)
    }
}

impl Density {
    /// With a threshold of displacement, which is the size of the buffer too. `first` is the number
    /// of the first packet sent; where that is not known it is the least of the first arrivals.
    #[must_use]
    pub fn new(threshold: u64, first: Option<u64>) -> Density {
        Density {
            threshold,
            window: VecDeque::new(),
            waiting: BTreeSet::new(),
            early: BTreeSet::new(),
            index: first,
            displacements: BTreeMap::new(),
            counted: 0,
            outside: 0,
            buffer: Buffer { size: threshold, expected: first.unwrap_or(0), ..Buffer::default() },
        }
    }

    /// The number of the next packet that arrives.
    pub fn arrived(&mut self, sequence: u64) {
        if !self.waiting.insert(sequence) {
            return;
        }
        self.window.push_back(sequence);
        while self.window.len() as u64 > self.threshold {
            self.step();
        }
    }

    /// Gives the first packet of the window its index.
    fn step(&mut self) {
        let Some(index) = self.index else {
            let least = self.waiting.first().copied().unwrap_or(0);
            self.index = Some(least);
            self.buffer.expected = least;
            return self.step();
        };
        // The indices of lost packets are left out.
        let next = self.waiting.range(index..).next().copied();
        let next = [next, self.early.range(index..).next().copied()].into_iter().flatten().min();
        let Some(sequence) = self.window.pop_front() else { return };
        self.waiting.remove(&sequence);
        // No number from here on is in sight: what is left came too late.
        let Some(index) = next else {
            self.outside += 1;
            return;
        };
        let displacement = i128::from(index) - i128::from(sequence);
        if displacement.unsigned_abs() > u128::from(self.threshold) {
            self.outside += 1;
            self.index = Some(index);
            return;
        }
        *self.displacements.entry(displacement as i64).or_default() += 1;
        self.counted += 1;
        if sequence > index {
            self.early.insert(sequence);
        }
        self.early.remove(&index);
        self.index = Some(index.saturating_add(1));
        self.buffer.arrived(sequence);
    }

    /// Both densities over what arrived so far.
    #[must_use]
    pub fn densities(&self) -> Densities {
        let mut all = self.clone();
        while !all.window.is_empty() {
            all.step();
        }
        let share = |n: u64| n as f64 / (all.counted.max(1)) as f64;
        Densities {
            threshold: all.threshold,
            packets: all.counted,
            outside: all.outside,
            displacement: all.displacements.iter().map(|(d, n)| (*d, share(*n))).collect(),
            occupancy: all.buffer.occupancies.iter().map(|(b, n)| (*b, share(*n))).collect(),
        }
    }
}

impl Buffer {
    fn arrived(&mut self, sequence: u64) {
        if sequence > self.expected {
            self.held.insert(sequence);
            // Full: what is expected is given up for lost.
            if self.held.len() as u64 > self.size {
                self.expected = self.held.first().copied().unwrap_or(self.expected);
            }
        } else if sequence == self.expected {
            self.expected = self.expected.saturating_add(1);
        }
        while self.held.first() == Some(&self.expected) {
            self.held.pop_first();
            self.expected = self.expected.saturating_add(1);
        }
        *self.occupancies.entry(self.held.len() as u64).or_default() += 1;
    }
}

/// RD and RBD: shares of the packets, each summing to one.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize)]
pub struct Densities {
    /// The threshold of displacement and size of the buffer, in packets.
    pub threshold: u64,
    /// Packets they are made of.
    pub packets: u64,
    /// Packets left out because they were displaced by more than the threshold.
    pub outside: u64,
    /// Displacement (positive: late) and its share, ascending: RD.
    pub displacement: Vec<(i64, f64)>,
    /// Packets in the buffer after an arrival, and the share of the arrivals, ascending: RBD.
    pub occupancy: Vec<(u64, f64)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(threshold: u64, order: &[u64]) -> Densities {
        let mut made = Density::new(threshold, Some(1));
        order.iter().for_each(|s| made.arrived(*s));
        made.densities()
    }

    #[test]
    fn no_loss() {
        let made = of(4, &[1, 4, 2, 5, 3, 6, 7, 8]);
        let rd = [(-2, 0.125), (-1, 0.125), (0, 0.5), (1, 0.125), (2, 0.125)];
        assert_eq!(made.displacement, rd);
        assert_eq!(made.occupancy, [(0, 0.625), (1, 0.25), (2, 0.125)]);
    }

    #[test]
    fn a_lost_packet_displaces_no_other() {
        let made = of(3, &[1, 2, 4, 5, 6, 7]);
        assert_eq!(made.displacement, [(0, 1.0)]);
        let sixth = 1.0 / 6.0;
        assert_eq!(made.occupancy, [(0, 0.5), (1, sixth), (2, sixth), (3, sixth)]);
    }

    #[test]
    fn beyond_the_threshold_is_left_out() {
        let made = of(2, &[1, 900, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!((made.outside, made.packets), (1, 10));
        assert_eq!(made.displacement, [(0, 1.0)]);
        let made = of(2, &[1, 3, 4, 5, 6, 7, 2, 8]);
        assert_eq!((made.outside, made.packets), (1, 7));
    }

    #[test]
    fn numbers_far_apart_cost_no_time() {
        let made = of(3, &[1, u64::MAX - 5, u64::MAX - 4, u64::MAX, 1 << 40]);
        assert_eq!(made.packets + made.outside, 5);
    }

    /// Straight from the definition: indices over the packets that were not lost.
    fn brute(threshold: i64, order: &[u64]) -> (BTreeMap<i64, u64>, BTreeMap<u64, u64>) {
        let mut index = 1u64;
        let mut rd = BTreeMap::new();
        for (i, s) in order.iter().enumerate() {
            while !order[i.saturating_sub(200)..].contains(&index) {
                index += 1;
            }
            assert!((index as i64 - *s as i64).abs() <= threshold);
            *rd.entry(index as i64 - *s as i64).or_default() += 1;
            index += 1;
        }
        let mut rbd = BTreeMap::new();
        for i in 0..order.len() {
            // What waits for one that is still to come.
            let missing = order[i + 1..].iter().min().copied().unwrap_or(u64::MAX);
            let held = order[..=i].iter().filter(|s| **s > missing).count() as u64;
            *rbd.entry(held).or_default() += 1;
        }
        (rd, rbd)
    }

    proptest! {
        #[test]
        fn as_the_definition_says(delays in prop::collection::vec(0i64..10, 1..120)) {
            let mut order: Vec<(u64, i64)> =
                delays.iter().enumerate().map(|(i, d)| (i as u64 + 1, i as i64 + d)).collect();
            order.sort_by_key(|(_, at)| *at);
            let order: Vec<u64> = order.into_iter().map(|(s, _)| s).collect();
            let made = of(32, &order);
            let (rd, rbd) = brute(32, &order);
            let share = |n: &u64| *n as f64 / order.len() as f64;
            prop_assert_eq!(made.outside, 0);
            let rd: Vec<_> = rd.iter().map(|(d, n)| (*d, share(n))).collect();
            prop_assert_eq!(made.displacement, rd);
            let rbd: Vec<_> = rbd.iter().map(|(b, n)| (*b, share(n))).collect();
            prop_assert_eq!(made.occupancy, rbd);
        }
    }

    #[test]
    fn without_a_first_number_the_least_of_the_first_is_taken() {
        let mut made = Density::new(4, None);
        [102, 100, 101, 103, 104, 105, 106].iter().for_each(|s| made.arrived(*s));
        let made = made.densities();
        assert_eq!(made.displacement.iter().map(|(d, _)| *d).collect::<Vec<_>>(), [-2, 0, 1]);
    }
}
