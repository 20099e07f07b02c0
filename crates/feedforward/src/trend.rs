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
const BY_CHANCE: f64 = 2.0;

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
