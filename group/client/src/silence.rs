//! Silence of an agent: how long it has shown no sign of life.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

/// Longest time between two looks that counts: where this process was stopped as well, the rest is no
/// silence of the agent's.
const LOOK: Duration = Duration::from_millis(200);
/// Shortest silence that means anything: an agent that is well shows life once a second, and a
/// machine may be busy.
const LEAST: Duration = Duration::from_secs(3);

/// Time for which an agent's sign of life in the attachment's memory has stayed as it was. The agent
/// renews it once a second, whatever its disk, the ring and other programs do.
#[derive(Clone, Copy, Debug)]
pub struct Silence {
    beat: u64,
    lasts: Duration,
    looked: Instant,
}

impl Silence {
    /// From now on, by the newest sign of life.
    #[must_use]
    pub fn since(beat: u64) -> Silence {
        Silence { beat, lasts: Duration::ZERO, looked: Instant::now() }
    }

    /// Looks again; the length of the silence if it is longer than that, and than three seconds.
    pub fn longer_than(&mut self, patience: Duration, beat: u64) -> Option<Duration> {
        let now = Instant::now();
        self.lasts += now.saturating_duration_since(self.looked).min(LOOK);
        self.looked = now;
        if beat != self.beat {
            (self.beat, self.lasts) = (beat, Duration::ZERO);
        }
        Some(self.lasts).filter(|lasts| *lasts >= patience.max(LEAST))
    }
}
