//! First exchanges: worked through again with each that comes.
//!
//! The law of the delays is not known yet, but round trips alone show it, whatever the clock does.
//! A filter understands a stamp by those before it; at the start these say next to nothing. So
//! each stamp of the first stretch is held as a normal law about the projection that it measures
//! (a *site*), and is worked out again from all the others: expectation propagation (Minka 2001).

use arrayvec::ArrayVec;

use crate::Sample;
use crate::constants::Constants;
use crate::delay::{Expected, Law, fitted};
use crate::gaussian::{Gaussian, OFFSET, Projection, RATE, Vector, Walks};
use crate::hypothesis::{FEW, Hypothesis, PATIENCE, WINDOW, sums};

/// Rounds for each new exchange: the sites are nearly right from the exchange before.
const ROUNDS: usize = 2;
/// Share of the way gone at once: mixtures of laws could swing.
const STEP: f64 = 0.7;
/// Least share of the precision that is left without a site.
const LEAST: f64 = 1e-6;

/// Word of a stamp on the projection it measures: precision, and precision × mean.
#[derive(Clone, Copy, Default, Debug)]
struct Site {
    precision: f64,
    information: f64,
}

impl Site {
    /// The part `by` of it.
    fn less(self, by: f64) -> Site {
        Site { precision: by * self.precision, information: by * self.information }
    }

    /// Tells `law` of it.
    fn tell(self, law: &mut Gaussian, sum: &Vector) {
        let known = law.project(sum);
        let left = 1.0 + self.precision * known.variance;
        if left > LEAST && known.variance > 0.0 {
            let by = known.variance * (self.information - self.precision * known.mean) / left;
            law.absorb(&known, by, known.variance / left, OFFSET);
        }
    }

    /// Step towards what the others, without which the stamp's projection is not `known`, make of
    /// that stamp.
    fn step(&self, known: &Projection, above: f64, law: &Law, e: &Expected) -> Option<Site> {
        let left = 1.0 - self.precision * known.variance;
        if left < LEAST || known.variance <= 0.0 {
            return None;
        }
        let variance = known.variance / left;
        let mean = (known.mean - self.information * known.variance) / left;
        let reading = law.read(e, above - mean, variance, 0.0);
        let after = reading.variance.min(variance).max(LEAST * variance);
        let precision = 1.0 / after - 1.0 / variance - self.precision;
        let information = (mean + reading.shift) / after - mean / variance - self.information;
        Some(Site { precision, information }.less(STEP))
    }
}

/// One of the first exchanges.
#[derive(Clone, Debug)]
struct Seen {
    /// Time since the one before and since the first of them, s.
    gap: f64,
    at: f64,
    sample: Sample,
    sites: [Site; 2],
}

/// Exchanges since the beginning of a path, and what was known before.
#[derive(Clone, Debug)]
pub struct Start {
    before: Gaussian,
    noise: [f64; 2],
    rtt: f64,
    seen: ArrayVec<Seen, PATIENCE>,
}

/// Moves on where the rate walks so far only, 1/√s.
fn go_on(law: &mut Gaussian, dt: f64, walk: f64) {
    law.predict(dt, &Walks { rate: walk * walk, alike: 0.0 });
}

impl Start {
    /// Nothing was exchanged yet; stamps have this noise, s, and a round trip takes `rtt` s.
    pub fn new(before: Gaussian, noise: [f64; 2], rtt: f64) -> Start {
        Start { before, noise, rtt, seen: ArrayVec::new() }
    }

    /// True if enough is known.
    pub fn is_over(&self, c: &Constants) -> bool {
        let long = self.seen.last().is_some_and(|last| last.at > c.stretch);
        self.seen.is_full() || (self.seen.len() >= WINDOW && long)
    }

    /// Law of the delays as the round trips show it, for a counter of this rate.
    pub fn laws(&self, rate: f64, c: &Constants) -> [Law; 2] {
        let trips = self.seen.iter().map(|x| x.sample.trip(rate).unwrap_or(0.0));
        let mut trips: ArrayVec<f64, PATIENCE> = trips.collect();
        trips.sort_unstable_by(f64::total_cmp);
        let least = trips.first().copied().unwrap_or(0.0);
        // The fastest is the floor, and shows nothing of what is above it.
        let weights = fitted(trips.iter().skip(1).map(|t| (t - least) / 2.0), self.rtt, c);
        self.noise.map(|noise| Law::new(weights, self.seen.len(), noise))
    }

    /// Takes in an exchange `gap` seconds after the one before; returns what all of them say.
    pub fn take(&mut self, gap: f64, sample: Sample, rate: f64, c: &Constants) -> Hypothesis {
        if !self.seen.is_full() {
            let (gap, at) = self.seen.last().map_or((0.0, 0.0), |last| (gap, last.at + gap));
            self.seen.push(Seen { gap, at, sample, sites: Default::default() });
        }
        if let Some(slow) = self.filtered(rate, c) {
            return slow;
        }
        let laws = self.laws(rate, c);
        let stretch = self.revisit(&laws, c);
        let (first, rest) = self.seen.split_at(stretch);
        let mut law = self.before;
        for x in first {
            go_on(&mut law, x.gap, c.walk);
            for (sum, site) in sums(x.sample.duration).iter().zip(x.sites) {
                site.less(c.start_worth).tell(&mut law, sum);
            }
        }
        let mut all = Hypothesis::new(law, laws, c);
        for x in rest {
            all.predict(x.gap, c);
            all.laws = laws;
            all.update(&x.sample, c);
        }
        all.laws.iter_mut().for_each(Law::forget_now);
        if self.seen.len() == 1 {
            // One exchange alone says that either direction took half of it, and no more.
            all.filter.each(|law| law.x[OFFSET] = self.before.x[OFFSET]);
        }
        all
    }

    /// Account of the filter alone, if both queues have probably been growing or draining slowly
    /// and a wide law foretells less well; or where there are no round trips.
    fn filtered(&self, rate: f64, c: &Constants) -> Option<Hypothesis> {
        let round = self.seen[0].sample.trip(0.0).is_some();
        if round && self.seen.len() < FEW {
            return None;
        }
        let weights = fitted(core::iter::empty(), self.rtt, c);
        let laws = self.noise.map(|noise| Law::new(weights, 0, noise));
        let all = self.filter(laws, c);
        let tide = all.filter.share(|mode| mode.tide > 0);
        let slow = !round || tide > 0.5 && all.log > self.filter(self.laws(rate, c), c).log;
        slow.then_some(all)
    }

    /// The exchanges taken in one after the other, from these laws on.
    fn filter(&self, laws: [Law; 2], c: &Constants) -> Hypothesis {
        let mut all = Hypothesis::new(self.before, laws, c);
        for (k, x) in self.seen.iter().enumerate() {
            if k > 0 {
                all.predict(x.gap, c);
            }
            all.update(&x.sample, c);
        }
        all
    }

    /// Works the sites of the first stretch out again; returns how many exchanges are in it.
    fn revisit(&mut self, laws: &[Law; 2], c: &Constants) -> usize {
        let n = self.seen.iter().position(|x| x.at > c.stretch).unwrap_or(self.seen.len());
        let seen = &mut self.seen[..n];
        let end = seen[n - 1].at;
        let mut law = self.before;
        go_on(&mut law, end, 0.0);
        // Projections of the states at the end that its stamps measure.
        let stamps = |x: &Seen| {
            sums(x.sample.duration).map(|mut sum| {
                sum[RATE] += sum[OFFSET] * (x.at - end);
                sum
            })
        };
        for x in seen.iter() {
            stamps(x).iter().zip(x.sites).for_each(|(sum, site)| site.tell(&mut law, sum));
        }
        let expected = [laws[0].never_below(c), laws[1].never_below(c)];
        for k in (0..ROUNDS).flat_map(|_| 0..n) {
            let x = &mut seen[k];
            for (d, (sum, site)) in stamps(x).iter().zip(&mut x.sites).enumerate() {
                let known = law.project(sum);
                let step = site.step(&known, x.sample.above[d], &laws[d], &expected[d]);
                let Some(step) = step else { continue };
                step.tell(&mut law, sum);
                site.precision += step.precision;
                site.information += step.information;
            }
        }
        n
    }
}
