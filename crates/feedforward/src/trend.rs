//! Queues that grow or drain steadily.
//!
//! A queue of one direction that grows for minutes looks like a clock that drifts, if the other
//! direction is taken for the one that waits; and two queues that grow alike look like one and a
//! drift. The round trip, which no clock can change, shows that queues change; which of them, only
//! what is known of the clock from before can tell.

/// Share of the newest exchange in what is known of the round trip's changes.
const GAIN: f64 = 1.0 / 16.0;
/// Steadily means that the square of the mean change is so much of the mean square. Delays that
/// are drawn anew for every packet give 0.002 (the gain squared, halved), a single step the gain.
const STEADY: f64 = 0.1;
/// The first few changes may agree by chance.
const BY_CHANCE: f64 = 8.0;

/// How the round trip changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trend {
    last: Option<f64>,
    count: f64,
    mean: f64,
    square: f64,
}

impl Trend {
    pub(crate) fn new() -> Trend {
        Trend { last: None, count: 0.0, mean: 0.0, square: 0.0 }
    }

    /// Takes in a round trip, s.
    pub(crate) fn push(&mut self, rtt: f64) {
        if let Some(last) = self.last.replace(rtt) {
            let change = rtt - last;
            self.count += 1.0;
            let gain = (1.0 / self.count).max(GAIN);
            self.mean += gain * (change - self.mean);
            self.square += gain * (change * change - self.square);
        }
    }

    /// The round trip grows or shrinks steadily.
    pub(crate) fn steady(&self) -> bool {
        let chance = BY_CHANCE / (self.count * self.count).max(1.0);
        self.mean * self.mean > (STEADY + chance) * self.square
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(rtt: impl Fn(u32) -> f64) -> u32 {
        let mut trend = Trend::new();
        let counted = (0..200).filter(|k| {
            trend.push(rtt(*k));
            trend.steady()
        });
        counted.count() as u32
    }

    #[test]
    fn only_what_goes_on_is_steady() {
        let jitter = |k: u32| 20e-6 * f64::from(k.wrapping_mul(2_654_435_761) >> 22) / 1024.0;
        assert_eq!(steady(jitter), 0, "jitter");
        assert_eq!(steady(|k| jitter(k) + if k < 100 { 0.0 } else { 2e-3 }), 0, "a step");
        assert!(steady(|k| jitter(k) + 50e-6 * f64::from(k)) > 180, "a queue that grows");
        assert!(steady(|k| 20e-3 - jitter(k) - 1e-3 * f64::from(k / 5)) > 180, "one that drains");
    }
}
