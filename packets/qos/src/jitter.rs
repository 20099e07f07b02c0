//! Interarrival jitter by RFC 3550.

/// The estimator of RFC 3550 section 6.4.1 and appendix A.8, in ns rather than in units of the RTP
/// timestamp, and without the rounding to integers of A.8: J ← J + (|D| − J) ÷ 16, where D is the
/// difference between the transit times of a packet and the one that arrived before it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Jitter {
    transit: Option<i128>,
    jitter: f64,
    sum: f64,
    greatest: f64,
    n: u64,
}

impl Jitter {
    /// The next packet that arrives: its transit time, ns, from any origin.
    pub fn arrived(&mut self, transit_ns: i128) -> Option<f64> {
        let before = self.transit.replace(transit_ns)?;
        let difference = (transit_ns - before) as f64;
        self.jitter += (difference.abs() - self.jitter) / 16.0;
        self.greatest = self.greatest.max(self.jitter);
        self.sum += self.jitter;
        self.n += 1;
        Some(difference)
    }

    /// A stream that begins anew.
    pub fn interrupted(&mut self) {
        self.transit = None;
    }

    /// The jitter after the last packet, ns.
    #[must_use]
    pub fn last(&self) -> Option<f64> {
        (self.n > 0).then_some(self.jitter)
    }

    /// Mean over all packets, ns.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum / self.n as f64)
    }

    /// Greatest value, ns.
    #[must_use]
    pub fn max(&self) -> Option<f64> {
        (self.n > 0).then_some(self.greatest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The algorithm of A.8, in timestamp units of 125 µs (8 kHz), with floating point as the
        /// RFC's text has it.
        #[test]
        fn as_appendix_a_8(steps in prop::collection::vec((1u32..400, 1u32..400), 2..200)) {
            let (mut timestamp, mut arrival) = (u32::MAX - 1000, 77u32);
            let mut ours = Jitter::default();
            let (mut theirs, mut transit) = (0.0f64, None::<i32>);
            let (mut sent_ns, mut arrived_ns) = (0i128, 0i128);
            for (sent, arrived) in steps {
                timestamp = timestamp.wrapping_add(sent);
                arrival = arrival.wrapping_add(arrived);
                let now = arrival.wrapping_sub(timestamp) as i32;
                if let Some(before) = transit.replace(now) {
                    let d = now.wrapping_sub(before).abs();
                    theirs += (1.0 / 16.0) * (f64::from(d) - theirs);
                }
                sent_ns += i128::from(sent) * 125_000;
                arrived_ns += i128::from(arrived) * 125_000;
                ours.arrived(arrived_ns - sent_ns);
            }
            prop_assert!((ours.last().unwrap() / 125_000.0 - theirs).abs() < 1e-6);
            prop_assert!(ours.max().unwrap() >= ours.mean().unwrap());
        }
    }
}
