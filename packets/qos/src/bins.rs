//! Figures over time, in bounded memory.

/// Largest number of bins of one series.
const MOST: usize = 512;

/// Bytes that each Ethernet frame has on the wire and not in a capture: preamble and start (8),
/// checksum (4), least gap (12); IEEE 802.3.
const BESIDES: u64 = 24;
/// The shortest Ethernet frame without its checksum.
const SHORTEST: u64 = 60;

/// One bin.
#[derive(Clone, Copy, PartialEq, Debug, Default, serde::Serialize)]
pub struct Bin {
    /// Packets.
    pub packets: u64,
    /// Their bytes, as long as they were at the point of capture.
    pub bytes: u64,
    /// Bytes of time on an Ethernet: with preamble, padding, checksum and gap.
    pub wire_bytes: u64,
    /// Packets of this bin that were lost.
    pub lost: u64,
    /// Values (delays), and their sum, least and greatest, ns.
    pub values: u64,
    /// Sum.
    #[serde(skip)]
    pub sum: i128,
    /// Least, ns.
    pub least: i64,
    /// Greatest, ns.
    pub greatest: i64,
    /// The greatest bound of a value, ns; `None` if one had no bound, or there were no values.
    pub bound: Option<u64>,
}

impl Bin {
    fn merge(&mut self, other: &Bin) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.wire_bytes += other.wire_bytes;
        self.lost += other.lost;
        if other.values > 0 {
            self.bound = match self.values {
                0 => other.bound,
                _ => self.bound.zip(other.bound).map(|(a, b)| a.max(b)),
            };
            (self.least, self.greatest) = match self.values {
                0 => (other.least, other.greatest),
                _ => (self.least.min(other.least), self.greatest.max(other.greatest)),
            };
            self.values += other.values;
            self.sum += other.sum;
        }
    }

    /// The mean of the values, ns.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.values > 0).then(|| self.sum as f64 / self.values as f64)
    }
}

/// A packet's bin of one.
#[must_use]
pub fn packet(length: u32) -> Bin {
    let bytes = u64::from(length);
    Bin { packets: 1, bytes, wire_bytes: bytes.max(SHORTEST) + BESIDES, ..Bin::default() }
}

/// A value's bin of one.
#[must_use]
pub fn value(ns: i64, bound: Option<u64>) -> Bin {
    Bin { values: 1, sum: ns.into(), least: ns, greatest: ns, bound, ..Bin::default() }
}

/// A lost packet's bin of one.
#[must_use]
pub fn loss() -> Bin {
    Bin { lost: 1, ..Bin::default() }
}

/// A series of bins of the same width, of which there are at most 512: when more are needed the
/// width is doubled.
#[derive(Clone, PartialEq, Debug)]
pub struct Bins {
    width_ns: i64,
    first: i64,
    bins: std::collections::VecDeque<Bin>,
    /// Number of those that would have stretched the series beyond any width.
    pub outside: u64,
}

impl Bins {
    /// An empty series.
    #[must_use]
    pub fn new(width_ns: i64) -> Bins {
        Bins { width_ns: width_ns.max(1), first: 0, bins: Default::default(), outside: 0 }
    }

    /// Adds to the bin of a time.
    pub fn add(&mut self, at_ns: i64, what: &Bin) {
        loop {
            let bin = at_ns.div_euclid(self.width_ns);
            if self.bins.is_empty() {
                self.first = bin;
            }
            let last = self.first + self.bins.len() as i64 - 1;
            let (low, high) = (self.first.min(bin), last.max(bin));
            if high - low >= MOST as i64 {
                if !self.widen() {
                    self.outside += 1;
                    return;
                }
                continue;
            }
            while self.first > bin {
                self.bins.push_front(Bin::default());
                self.first -= 1;
            }
            while (self.bins.len() as i64) <= bin - self.first {
                self.bins.push_back(Bin::default());
            }
            if let Some(bin) = self.bins.get_mut((bin - self.first) as usize) {
                bin.merge(what);
            }
            return;
        }
    }

    fn widen(&mut self) -> bool {
        let Some(width) = self.width_ns.checked_mul(2) else { return false };
        self.width_ns = width;
        let old = std::mem::take(&mut self.bins);
        let begin = self.first;
        self.first = begin.div_euclid(2);
        for (n, bin) in old.iter().enumerate() {
            let at = ((begin + n as i64).div_euclid(2) - self.first) as usize;
            while self.bins.len() <= at {
                self.bins.push_back(Bin::default());
            }
            if let Some(wide) = self.bins.get_mut(at) {
                wide.merge(bin);
            }
        }
        true
    }

    /// The width of a bin, ns.
    #[must_use]
    pub fn width_ns(&self) -> i64 {
        self.width_ns
    }

    /// The bins with the times at which they begin, Unix ns.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (i64, &Bin)> {
        self.bins
            .iter()
            .enumerate()
            .map(|(n, bin)| ((self.first + n as i64).saturating_mul(self.width_ns), bin))
    }

    /// Adds the bins of another series.
    pub fn merge(&mut self, other: &Bins) {
        while self.width_ns < other.width_ns && self.widen() {}
        other.iter().for_each(|(at, bin)| self.add(at, bin));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_is_lost_and_everything_is_in_its_place(
            packets in prop::collection::vec((-4_000_000_000i64..4_000_000_000, 40u32..1500), 1..300),
            width in 1i64..2_000_000_000,
        ) {
            let mut bins = Bins::new(width);
            packets.iter().for_each(|(at, length)| bins.add(*at, &packet(*length)));
            prop_assert!(bins.iter().count() <= MOST);
            for (from, bin) in bins.iter() {
                let inside = packets.iter().filter(|(at, _)| {
                    (from..from + bins.width_ns()).contains(at)
                });
                let bytes: u64 = inside.clone().map(|(_, length)| u64::from(*length)).sum();
                prop_assert_eq!((bin.packets, bin.bytes), (inside.count() as u64, bytes));
            }
            let all: u64 = bins.iter().map(|(_, bin)| bin.packets).sum();
            prop_assert_eq!(all, packets.len() as u64);
        }
    }

    #[test]
    fn any_time_is_taken() {
        let mut bins = Bins::new(1);
        for at in [0, i64::MAX, i64::MIN, 5] {
            bins.add(at, &packet(60));
        }
        let all: u64 = bins.iter().map(|(_, bin)| bin.packets).sum();
        assert_eq!(all + bins.outside, 4);
    }

    #[test]
    fn wire_bytes_are_those_of_the_wire() {
        // 64 bytes with checksum take 84 byte times, 1518 take 1538.
        assert_eq!((packet(60).wire_bytes, packet(14).wire_bytes), (84, 84));
        assert_eq!(packet(1514).wire_bytes, 1538);
    }
}
