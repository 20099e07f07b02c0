//! Reordering by RFC 4737.

use std::collections::{BTreeMap, VecDeque};

use crate::Distribution;

/// Number of arrivals back that reordering is looked for. A packet that is later than that has at
/// least this extent, and is counted in [`Reordering::beyond`].
pub const REACH: usize = 1024;

/// A packet that was the highest when it arrived.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Summit {
    sequence: u64,
    arrival: u64,
    at_ns: i64,
}

/// The metrics of RFC 4737 over one stream. Duplicates must be left out.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Reordering {
    /// Packets taken in.
    pub arrived: u64,
    /// Reordered packets: those with a number below one that arrived before.
    pub reordered: u64,
    /// Of them those that were later than can be told exactly.
    pub beyond: u64,
    next_expected: u64,
    summits: VecDeque<Summit>,
    recent: VecDeque<u64>,
    extents: Distribution,
    late: Distribution,
    degrees: BTreeMap<u64, u64>,
    run: u64,
    runs: Distribution,
}

impl Reordering {
    /// The next packet that arrives: its place in the order of sending, and when it arrived, ns.
    pub fn arrived(&mut self, sequence: u64, at_ns: i64) {
        let arrival = self.arrived;
        self.arrived += 1;
        if sequence >= self.next_expected {
            self.next_expected = sequence.saturating_add(1);
            self.run += 1;
            push(&mut self.summits, Summit { sequence, arrival, at_ns });
        } else {
            self.late(sequence, arrival, at_ns);
        }
        push(&mut self.recent, sequence);
    }

    fn late(&mut self, sequence: u64, arrival: u64, at_ns: i64) {
        self.reordered += 1;
        self.runs.add(i64::try_from(self.run).unwrap_or(i64::MAX));
        self.run = 0;
        // The earliest arrival with a greater number was the highest so far.
        let first = self.summits.partition_point(|summit| summit.sequence <= sequence);
        if let Some(summit) = self.summits.get(first) {
            let oldest = self.summits.len() == REACH && first == 0;
            self.beyond += u64::from(oldest);
            let extent = arrival - summit.arrival;
            self.extents.add(i64::try_from(extent).unwrap_or(i64::MAX));
            self.late.add(at_ns.saturating_sub(summit.at_ns));
        }
        // n-reordering: how many right before it have greater numbers.
        let degree = self.recent.iter().rev().take_while(|other| **other > sequence).count() as u64;
        *self.degrees.entry(degree).or_default() += 1;
    }

    /// Reordered ÷ arrived: the reordered ratio.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        (self.arrived > 0).then(|| self.reordered as f64 / self.arrived as f64)
    }

    /// Reordering extents, in packets: how far back the first arrival with a greater number is.
    #[must_use]
    pub fn extents(&self) -> &Distribution {
        &self.extents
    }

    /// Late-time offsets, ns: how long after the first packet with a greater number.
    #[must_use]
    pub fn late_times(&self) -> &Distribution {
        &self.late
    }

    /// Number of packets that are `n`-reordered: `n` packets right before them have greater
    /// numbers. With n = 3 a TCP sender takes them for lost.
    #[must_use]
    pub fn n_reordered(&self, n: u64) -> u64 {
        self.degrees.range(n..).map(|(_, packets)| packets).sum()
    }

    /// Runs of packets in order between reordered ones, in packets.
    #[must_use]
    pub fn free_runs(&self) -> &Distribution {
        &self.runs
    }
}

fn push<T>(ring: &mut VecDeque<T>, item: T) {
    if ring.len() == REACH {
        ring.pop_front();
    }
    ring.push_back(item);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(order: &[(u64, i64)]) -> Reordering {
        let mut made = Reordering::default();
        order.iter().for_each(|(s, at)| made.arrived(*s, *at));
        made
    }

    fn values(distribution: &Distribution) -> Vec<(i64, u64)> {
        distribution.buckets().collect()
    }

    #[test]
    fn one_packet_reordered() {
        let table = [
            (1, 68),
            (2, 88),
            (3, 108),
            (5, 148),
            (6, 168),
            (7, 188),
            (8, 208),
            (4, 210),
            (9, 228),
            (10, 248),
        ];
        let made = of(&table);
        assert_eq!((made.reordered, made.ratio()), (1, Some(0.1)));
        assert_eq!(values(made.extents()), [(4, 1)]);
        assert_eq!(values(made.late_times()), [(62, 1)]);
        assert_eq!([1, 2, 3, 4, 5].map(|n| made.n_reordered(n)), [1, 1, 1, 1, 0]);
    }

    #[test]
    fn two_packets_reordered() {
        let order = [1, 2, 3, 4, 7, 5, 6, 8, 9, 10];
        let made = of(&order.map(|s| (s, s as i64)));
        assert_eq!(made.reordered, 2);
        assert_eq!(values(made.extents()), [(1, 1), (2, 1)]);
        // Packet 5 is 1-reordered; before packet 6 stands 5, so that it is not even that.
        assert_eq!([1, 2].map(|n| made.n_reordered(n)), [1, 0]);
    }

    #[test]
    fn three_packets_reordered() {
        let order = [1, 2, 3, 7, 8, 9, 10, 4, 5, 6, 11];
        let made = of(&order.map(|s| (s, s as i64)));
        assert_eq!(made.reordered, 3);
        assert_eq!(values(made.extents()), [(4, 1), (5, 1), (6, 1)]);
        assert_eq!([1, 4, 5].map(|n| made.n_reordered(n)), [1, 1, 0]);
    }

    #[test]
    fn memory_is_bounded_and_what_is_beyond_is_counted() {
        let mut made = of(&(10..5_000).map(|s| (s, s as i64)).collect::<Vec<_>>());
        made.arrived(3, 9_000);
        assert_eq!((made.summits.len(), made.recent.len()), (REACH, REACH));
        assert_eq!((made.reordered, made.beyond), (1, 1));
        assert_eq!(made.extents().min(), Some(REACH as i64));
    }

    proptest! {
        #[test]
        fn as_the_definitions_say(moves in prop::collection::vec(0i64..12, 1..300)) {
            // Each packet is sent a ns apart and delayed by up to 12: distinct numbers, any order.
            let mut order: Vec<(u64, i64)> =
                moves.iter().enumerate().map(|(i, d)| (i as u64, (i as i64 + d) * 10)).collect();
            order.sort_by_key(|(_, at)| *at);
            let made = of(&order);
            let (mut extents, mut late, mut runs) =
                (Distribution::default(), Distribution::default(), Distribution::default());
            let (mut degrees, mut run, mut reordered) = (vec![0u64; 20], 0, 0);
            for (i, (s, at)) in order.iter().enumerate() {
                let Some(j) = order[..i].iter().position(|(other, _)| other > s) else {
                    run += 1;
                    continue;
                };
                reordered += 1;
                runs.add(run);
                run = 0;
                extents.add((i - j) as i64);
                late.add(at - order[j].1);
                for (n, packets) in degrees.iter_mut().enumerate().skip(1) {
                    let all = i >= n && order[i - n..i].iter().all(|(other, _)| other > s);
                    *packets += u64::from(all);
                }
            }
            prop_assert_eq!(made.reordered, reordered);
            prop_assert_eq!(made.beyond, 0);
            prop_assert_eq!(made.extents(), &extents);
            prop_assert_eq!(made.late_times(), &late);
            prop_assert_eq!(made.free_runs(), &runs);
            for (n, packets) in degrees.iter().enumerate().skip(1) {
                prop_assert_eq!(made.n_reordered(n as u64), *packets);
            }
        }
    }
}
