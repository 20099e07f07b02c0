//! A path whose asymmetry the user knows.
//!
//! Stamps cannot tell how the round trip is shared between there and back; a user may: the fastest
//! request takes D longer than the fastest reply, D = `by` ± `error`. The stamps come here with
//! half of `by` taken off already, so that both directions seem to take S/2, give or take
//! `error`/2, where S is what both take at least together. So θ is at least (S − `error`)/2 inside
//! of what either direction alone allows. S is at most the smallest round trip ever, and hardly
//! much less: the smallest of n round trips, each of which has waited in two queues, exceeds S by
//! the mean wait times √(2/n), or more with probability exp(−x²).
//!
//! What is known so is carried forward like the corridor. If an exchange contradicts it, the path
//! is no longer what was declared: what was known then stands, and nothing new is concluded from
//! the declaration.

use crate::corridor::{BoundedRate, Corridor};

/// The smallest of n round trips is at most so many times the mean wait / √n above S. For two queues
/// 5 would do (more with a probability of 4·10⁻⁶); where several follow one another it is farther.
pub const SMALLEST: f64 = 8.0;

/// See the module's text. All in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Declared {
    by: f64,
    error: f64,
    /// The smallest round trip, and of how many.
    rtt: Option<(f64, u32)>,
    known: Option<Corridor>,
    broken: bool,
}

impl Declared {
    pub(crate) fn new(by: f64, error: f64) -> Declared {
        Declared { by, error: error.abs(), rtt: None, known: None, broken: false }
    }

    /// Reach of causality beyond the stamps of a request and of a reply: both delays are positive,
    /// and differ by what is declared.
    pub(crate) fn beyond(&self) -> (f64, f64) {
        let half = self.by / 2.0;
        let forward = (self.by - self.error).max(0.0);
        let backward = (-self.by - self.error).max(0.0);
        (half + backward, half - forward)
    }

    /// Takes in an exchange with this round trip. `excess` is what packets wait on average,
    /// `corridor` what causality allows for θ now, `dt` seconds after the one before at this `rate`.
    pub(crate) fn take(
        &mut self,
        rtt: f64,
        excess: f64,
        corridor: &Corridor,
        dt: f64,
        rate: BoundedRate,
    ) {
        let known = self.known.map(|known| known.later(dt, rate));
        if self.broken {
            self.known = known.and_then(|known| known.intersection(corridor));
            return;
        }
        let doubt = |n: u32| SMALLEST * excess / libm::sqrt(f64::from(n));
        self.rtt = match self.rtt {
            // A floor that is lower by more than was thought possible is of another path.
            Some((least, n)) if rtt < least - doubt(n) => Some((rtt, 1)),
            Some((least, n)) => Some((least.min(rtt), n.saturating_add(1))),
            None => Some((rtt, 1)),
        };
        let both = self.rtt.map_or(0.0, |(least, n)| least - doubt(n));
        let inside = ((both - self.error) / 2.0).max(0.0);
        let (low, high) = self.beyond();
        let now = Corridor {
            low: (corridor.low - low + inside).max(corridor.low),
            high: (corridor.high - high - inside).min(corridor.high),
        };
        let agreed = match known {
            Some(known) => known.intersection(&now),
            None => (now.low <= now.high).then_some(now),
        };
        match agreed {
            Some(agreed) => self.known = Some(agreed),
            None => {
                self.broken = known.is_some();
                self.known = known.and_then(|known| known.intersection(corridor));
            }
        }
    }

    /// Corridor of θ by the declaration, if any.
    pub(crate) fn known(&self) -> Option<Corridor> {
        self.known
    }

    /// Half of how far the declaration may be off, as long as it tells anything.
    pub(crate) fn half_error(&self) -> Option<f64> {
        self.known.filter(|_| !self.broken).map(|_| self.error / 2.0)
    }

    /// The path is no longer what was declared.
    pub(crate) fn broken(&self) -> bool {
        self.broken
    }

    /// Forgets what time it is, but not the path.
    pub(crate) fn forget(&mut self) {
        self.known = None;
    }
}
