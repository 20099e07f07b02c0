//! Losses and how they cluster.

use crate::Distribution;

/// A loss at most this many packets after the one before is noticeable: the loss constraint that
/// RFC 3357 has for an example.
pub const NOTICEABLE: u64 = 99;

/// Losses of a stream, in the order in which its packets were sent: RFC 7680 and RFC 3357.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Losses {
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets that were lost.
    pub lost: u64,
    /// Losses of which the one before is at most [`NOTICEABLE`] packets ago (RFC 3357).
    pub noticeable: u64,
    run: u64,
    since_loss: u64,
    seen_loss: bool,
    runs: Distribution,
    distances: Distribution,
}

impl Losses {
    /// The next packets sent have arrived.
    pub fn arrived(&mut self, packets: u64) {
        if packets == 0 {
            return;
        }
        self.arrived += packets;
        if self.run > 0 {
            self.runs.add(clamped(self.run));
            self.run = 0;
        }
        self.since_loss += packets;
    }

    /// The next packets sent were lost.
    pub fn lost(&mut self, packets: u64) {
        if packets == 0 {
            return;
        }
        self.lost += packets;
        self.run += packets;
        // Distance (RFC 3357 section 5.4): how many packets after the loss before.
        if self.seen_loss {
            let distance = self.since_loss + 1;
            self.distances.add(clamped(distance));
            self.noticeable += u64::from(distance <= NOTICEABLE);
        }
        self.distances.add_times(1, packets - 1);
        self.noticeable += packets - 1;
        self.seen_loss = true;
        self.since_loss = 0;
    }

    /// A stretch of packets of which nothing can be said: a run does not reach over it.
    pub fn interrupted(&mut self) {
        if self.run > 0 {
            self.runs.add(clamped(self.run));
        }
        self.run = 0;
        self.seen_loss = false;
        self.since_loss = 0;
    }

    /// Lost ÷ sent.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let sent = self.arrived + self.lost;
        (sent > 0).then(|| self.lost as f64 / sent as f64)
    }

    /// The lengths of the runs of losses (loss periods, RFC 3357 section 5.4), in packets.
    #[must_use]
    pub fn runs(&self) -> Distribution {
        let mut runs = self.runs.clone();
        if self.run > 0 {
            runs.add(clamped(self.run));
        }
        runs
    }

    /// The distances from one loss to the next (RFC 3357 section 5.4), in packets.
    #[must_use]
    pub fn distances(&self) -> &Distribution {
        &self.distances
    }
}

fn clamped(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_the_rfc() {
        // RFC 3357's own: ten packets, five of them lost, the last two one after the other.
        let lost = [2, 5, 7, 9, 10];
        let mut losses = Losses::default();
        for packet in 1..=10 {
            if lost.contains(&packet) { losses.lost(1) } else { losses.arrived(1) }
        }
        let of = |d: &Distribution| d.buckets().collect::<Vec<_>>();
        assert_eq!(of(losses.distances()), [(1, 1), (2, 2), (3, 1)]);
        assert_eq!(of(&losses.runs()), [(1, 3), (2, 1)]);
        assert_eq!((losses.lost, losses.arrived, losses.noticeable), (5, 5, 4));
    }

    proptest! {
        #[test]
        fn as_counted_by_hand(fates in prop::collection::vec(prop::bool::weighted(0.8), 0..400)) {
            let mut losses = Losses::default();
            for arrived in &fates {
                if *arrived { losses.arrived(1) } else { losses.lost(1) }
            }
            let at: Vec<usize> = (0..fates.len()).filter(|i| !fates[*i]).collect();
            let distances: Vec<i64> = at.windows(2).map(|w| (w[1] - w[0]) as i64).collect();
            let runs: Vec<i64> = fates
                .split(|arrived| *arrived)
                .map(|run| run.len() as i64)
                .filter(|n| *n > 0)
                .collect();
            let of = |values: &[i64]| {
                let mut made = Distribution::default();
                values.iter().for_each(|v| made.add(*v));
                made
            };
            prop_assert_eq!(losses.lost, at.len() as u64);
            prop_assert_eq!(losses.runs(), of(&runs));
            prop_assert!(losses.distances().buckets().eq(of(&distances).buckets()));
            let noticeable = distances.iter().filter(|d| **d <= NOTICEABLE as i64).count();
            prop_assert_eq!(losses.noticeable, noticeable as u64);
        }

        #[test]
        fn many_at_once_are_as_one_by_one(steps in prop::collection::vec((any::<bool>(), 0u64..9), 0..50)) {
            let (mut one, mut many) = (Losses::default(), Losses::default());
            for (arrived, n) in steps {
                if arrived { many.arrived(n) } else { many.lost(n) }
                for _ in 0..n {
                    if arrived { one.arrived(1) } else { one.lost(1) }
                }
            }
            prop_assert_eq!(one, many);
        }
    }
}
