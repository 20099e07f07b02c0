//! The first exchanges: they are worked through again with each that comes, as each tells more of
//! the path.
//!
//! In the beginning neither offset nor rate nor floor nor the law of the delays is known, and what
//! an early exchange said was understood with a wrong law. The round trips alone show the law,
//! whatever the clock: so the filter begins anew with what they show by now.

use crate::bank::{Bank, Seen};
use crate::delay::{Law, fitted};
use crate::filter::{Filter, THETA};

/// How many exchanges are worked through again: seven minutes at 16 s, while the daemon's first
/// eight come 2 s apart.
const FIRST: usize = 32;
/// With a blurred floor, the noise is at first this share of the typical delay.
const BLUR: f64 = 0.5;

/// What was known before the first exchange, and the exchanges since.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    filter: Filter,
    noise: [f64; 2],
    rtt: f64,
    /// Each with the time since the one before, s.
    seen: Vec<(f64, Seen)>,
}

impl Start {
    /// Random walk of the rate meanwhile, per √s: it matters little beside how little is known.
    pub(crate) const WALK: f64 = 1e-8;

    pub(crate) fn new(filter: Filter, noise: [f64; 2], rtt: f64) -> Start {
        Start { filter, noise, rtt, seen: Vec::new() }
    }

    /// The law of the delays as the round trips show it, for a counter of this rate.
    pub(crate) fn laws(&self, rate: f64, soft: bool) -> [Law; 2] {
        let trip = |seen: &Seen| seen.late.iter().sum::<f64>() + rate * seen.duration;
        let mut trips: Vec<f64> = self.seen.iter().map(|(_, seen)| trip(seen)).collect();
        trips.sort_by(f64::total_cmp);
        // The fastest is the floor, and shows nothing of what is above it.
        let least = trips.first().copied().unwrap_or(0.0);
        let delays: Vec<f64> = trips.iter().skip(1).map(|t| (t - least) / 2.0).collect();
        let weights = fitted(&delays, self.rtt);
        let sharp = Law::new(weights, self.seen.len(), 0.0);
        let least = if soft { BLUR * sharp.idle() } else { 0.0 };
        self.noise.map(|noise| Law::new(weights, self.seen.len(), noise.max(least)))
    }
}

impl Bank {
    /// Takes in one of the first exchanges.
    pub(super) fn take_first(&mut self, seen: Seen) {
        let Some(mut start) = self.start.take() else { return };
        start.seen.push((self.gap, seen));
        self.work_through(&start);
        if start.seen.len() < FIRST {
            self.start = Some(start);
        }
    }

    fn work_through(&mut self, start: &Start) {
        let laws = start.laws(self.now.rate, self.is_soft());
        self.begin(start.filter);
        for (k, (gap, seen)) in start.seen.iter().enumerate() {
            self.laws = laws.clone();
            if k > 0 {
                self.advance(*gap);
            }
            let evidence = self.absorb(*seen);
            self.set_evidence(evidence);
        }
        self.laws.iter_mut().for_each(Law::forget_now);
        self.spread();
        if start.seen.len() == 1 {
            // One exchange alone says that either direction took half of it, and no more.
            for filter in &mut self.members {
                filter.x[THETA] = start.filter.x[THETA];
            }
            self.combine();
        }
    }
}
