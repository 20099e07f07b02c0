//! The first exchanges: they are worked through again with each that comes, as each tells more of
//! the path.
//!
//! In the beginning neither offset nor rate nor floor nor the law of the delays is known, and what
//! an early exchange said was understood with a wrong law. The round trips alone show the law,
//! whatever the clock: so the filter begins anew with what they show by now.

use alloc::vec::Vec;

use crate::bank::{Bank, Seen};
use crate::delay::{Law, fitted};
use crate::filter::{Filter, RATE, THETA, sums};
use crate::revisit::{Site, Stamped, revisit};

/// How many exchanges are worked through again at most ...
const FIRST: usize = 32;
/// ... and how many at least.
const FEW: usize = 16;
/// The stamps of the first so many seconds are worked out again from all the others, for a rate
/// that does not walk meanwhile. The start is over with it, if it has shown enough.
const STRETCH: f64 = 128.0;
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
    /// What the stamps of the first stretch say, request and reply.
    sites: Vec<[Site; 2]>,
}

impl Start {
    /// Random walk of the rate meanwhile, per √s: that of quartz in still air.
    pub(crate) const WALK: f64 = 2e-9;

    pub(crate) fn new(filter: Filter, noise: [f64; 2], rtt: f64) -> Start {
        Start { filter, noise, rtt, seen: Vec::new(), sites: Vec::new() }
    }

    fn is_over(&self) -> bool {
        let time: f64 = self.seen.iter().skip(1).map(|(gap, _)| gap).sum();
        let count = self.seen.len();
        count >= FIRST || (count >= FEW && time > STRETCH)
    }

    /// Works out again what the stamps of the first stretch say: within it, the rate hardly walks.
    fn revisit(&mut self, laws: &[Law; 2]) {
        let mut at = 0.0;
        let mut stamps = Vec::new();
        let times: Vec<f64> = (self.seen.iter())
            .map(|(gap, _)| {
                at += gap;
                at
            })
            .take_while(|at| *at <= STRETCH)
            .collect();
        let end = times.last().copied().unwrap_or(0.0);
        self.sites.resize(times.len(), [Site::default(); 2]);
        for ((time, (_, seen)), sites) in times.iter().zip(&self.seen).zip(&self.sites) {
            let both = sums(seen.duration).into_iter().zip(seen.late).zip(*sites);
            for (direction, ((mut sum, late), site)) in both.enumerate() {
                sum[RATE] += sum[THETA] * (time - end);
                stamps.push(Stamped { sum, late, direction, site });
            }
        }
        let mut filter = Filter { walk: 0.0, ..self.filter };
        filter.predict(end, 0.0);
        revisit(&mut stamps, filter, laws);
        for (sites, stamps) in self.sites.iter_mut().zip(stamps.chunks(2)) {
            for (site, stamp) in sites.iter_mut().zip(stamps) {
                *site = stamp.site;
            }
        }
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
        self.work_through(&mut start);
        if !start.is_over() {
            self.start = Some(start);
        }
    }

    fn work_through(&mut self, start: &mut Start) {
        let laws = start.laws(self.now.rate, self.is_soft());
        if self.parts.revisit {
            start.revisit(&laws);
        }
        self.begin(start.filter);
        for (k, (gap, seen)) in start.seen.iter().enumerate() {
            self.laws = laws.clone();
            if k > 0 {
                self.advance(*gap);
            }
            let before = self.members[0];
            let sites = start.sites.get(k);
            if sites.is_none() || k + 1 == start.seen.len() {
                let evidence = self.absorb(*seen);
                self.set_evidence(evidence);
            }
            if let Some(sites) = sites {
                self.members[0] = before;
                for (sum, site) in sums(seen.duration).iter().zip(sites) {
                    self.members[0].tell(sum, *site);
                }
            }
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
