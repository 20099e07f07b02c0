//! First exchanges: worked through again with each that comes.
//!
//! The law of the delays is not known yet, but round trips alone show it, whatever the clock does.
//! A filter understands a stamp by those before it; at the start these say next to nothing. So
//! each stamp of the first stretch is held as a normal law about the projection that it measures
//! (a *site*), and is worked out again from all the others: expectation propagation (Minka 2001).

use arrayvec::ArrayVec;

use crate::constants::{Constants, SURE};
use crate::delay::{Expected, Law, fitted};
use crate::gaussian::{Gaussian, OFFSET, Projection, RATE, STATES, Vector, Walks};
use crate::hypothesis::{FEW, Hypothesis, PATIENCE, WINDOW, sums};
use crate::tail::LEAST_LEFT;
use crate::{Noise, Sample};

/// Rounds for each new exchange. The sites are nearly right from the exchange before, but for one that moves the line far:
/// after fewer rounds those that held it would still do so, and each by the others' word be surer than all of them.
const ROUNDS: usize = 6;
/// Share of the way gone at once: mixtures of laws could swing.
const STEP: f64 = 0.7;

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
        if left > LEAST_LEFT && known.variance > 0.0 {
            let by = known.variance * (self.information - self.precision * known.mean) / left;
            law.absorb(&known, by, known.variance / left, OFFSET);
        }
    }

    /// Step towards what the others, without which the stamp's projection is not `known`, make of
    /// that stamp.
    fn step(&self, known: &Projection, above: f64, noise: f64, e: &Expected) -> Option<Site> {
        let left = 1.0 - self.precision * known.variance;
        if left < LEAST_LEFT || known.variance <= 0.0 {
            return None;
        }
        let variance = known.variance / left;
        let mean = (known.mean - self.information * known.variance) / left;
        let reading = e.read(above - mean, variance, noise, 0.0);
        let after = reading.variance.min(variance).max(LEAST_LEFT * variance);
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
    noise: Noise,
    /// Claimed noise is believed.
    coarse: bool,
    rtt: f64,
    seen: ArrayVec<Seen, PATIENCE>,
}

/// Moves on where the rate walks so far only, 1/√s.
fn go_on(law: &mut Gaussian, dt: f64, walk: f64) {
    law.predict(dt, &Walks { rate: walk * walk, alike: 0.0 });
}

impl Start {
    /// Nothing was exchanged yet; a round trip takes `rtt` s.
    pub fn new(before: Gaussian, noise: Noise, rtt: f64) -> Start {
        let coarse = noise.own != noise.largest();
        Start { before, noise, coarse, rtt, seen: ArrayVec::new() }
    }

    /// True if enough is known.
    pub fn is_over(&self, c: &Constants) -> bool {
        let long = self.seen.last().is_some_and(|last| last.at > c.stretch);
        self.seen.is_full() || (self.seen.len() >= WINDOW && long)
    }

    /// Laws of the delays as the round trips show them, for a counter of this rate; with the variance of the stamps, s².
    pub fn delays(&self, rate: f64, c: &Constants) -> ([Law; 2], f64) {
        (self.laws(rate, c), self.noise_of(rate))
    }

    /// Law of the waits of both directions, which the round trips have halves of.
    fn laws(&self, rate: f64, c: &Constants) -> [Law; 2] {
        let trips = self.seen.iter().map(|x| x.sample.trip(rate).unwrap_or(0.0));
        let mut trips: ArrayVec<f64, PATIENCE> = trips.collect();
        trips.sort_unstable_by(f64::total_cmp);
        let least = trips.first().copied().unwrap_or(0.0);
        // The fastest is the floor, and shows nothing of what is above it.
        let weights = fitted(trips.iter().skip(1).map(|t| (t - least) / 2.0), self.rtt, c);
        [Law::new(weights, self.seen.len()); 2]
    }

    /// Noise that is supposed, s.
    fn supposed(&self) -> f64 {
        if self.coarse { self.noise.largest() } else { self.noise.own }
    }

    /// Believes in claimed noise unless the exchanges are foretold far better without: stamps are often finer than their
    /// server says.
    fn judge_noise(&mut self, rate: f64, c: &Constants) {
        let both = [self.noise.own, self.noise.largest()];
        self.coarse = both[0] != both[1];
        if !self.coarse || self.seen.len() < FEW {
            return;
        }
        let laws = self.laws(rate, c);
        let [fine, coarse] = both.map(|noise| self.filter(laws, noise, c).log);
        self.coarse = coarse + SURE > fine;
    }

    /// Variance of the stamps, s²: what is stated, or less if what was measured in either direction lies nearer than that
    /// to the line between its neighbours, in which neither offset nor rate is. Good stamps would take an hour to be known
    /// by the filter.
    fn noise_of(&self, rate: f64) -> f64 {
        let stated = self.supposed() * self.supposed();
        // Coarse stamps of a server that is asked at even times may be off alike for long.
        if self.coarse || self.seen.len() < WINDOW {
            return stated;
        }
        let measured = [0, 1].map(|d| {
            let squares = self.seen.windows(3).map(|three| {
                let [first, middle, last] = [0, 1, 2].map(|k| three[k].sample.measured(d, rate));
                let share = three[2].gap / (three[1].gap + three[2].gap);
                let apart = middle - share * first - (1.0 - share) * last;
                apart * apart / (1.0 + share * share + (1.0 - share) * (1.0 - share))
            });
            squares.sum::<f64>() / (self.seen.len() - 2) as f64
        });
        // No number where there were no packets in a direction.
        stated.min(measured[0]).min(measured[1])
    }

    /// Takes in an exchange `gap` seconds after the one before; returns what all of them say.
    pub fn take(&mut self, gap: f64, sample: Sample, rate: f64, c: &Constants) -> Hypothesis {
        if !self.seen.is_full() {
            let (gap, at) = self.seen.last().map_or((0.0, 0.0), |last| (gap, last.at + gap));
            self.seen.push(Seen { gap, at, sample, sites: Default::default() });
        }
        self.judge_noise(rate, c);
        if let Some(slow) = self.filtered(rate, c) {
            return slow;
        }
        let (laws, noise) = self.delays(rate, c);
        let (line, stretch) = self.revisit(&laws, noise, c);
        let mut all = Hypothesis::new(line, laws, noise, c);
        let noise = all.noise;
        for x in &self.seen[stretch..] {
            all.predict(x.gap, c);
            (all.laws, all.noise) = (laws, noise);
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
        let wide = Law::new(fitted(core::iter::empty(), self.rtt, c), 0);
        let noise = self.supposed();
        let all = self.filter([wide; 2], noise, c);
        let tide = all.filter.share(|mode| mode.tide > 0);
        let slow = !round || tide > 0.5 && all.log > self.filter(self.laws(rate, c), noise, c).log;
        slow.then_some(all)
    }

    /// The exchanges taken in one after the other, from these laws and this noise (s) on.
    fn filter(&self, laws: [Law; 2], noise: f64, c: &Constants) -> Hypothesis {
        let mut all = Hypothesis::new(self.before, laws, noise * noise, c);
        for (k, x) in self.seen.iter().enumerate() {
            if k > 0 {
                all.predict(x.gap, c);
            }
            all.update(&x.sample, c);
        }
        all
    }

    /// Works the sites of the first stretch out again; returns the states at its end, and how many exchanges are in it.
    fn revisit(&mut self, laws: &[Law; 2], noise: f64, c: &Constants) -> (Gaussian, usize) {
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
                let step = site.step(&known, x.sample.above[d], noise, &expected[d]);
                let Some(step) = step else { continue };
                step.tell(&mut law, sum);
                site.precision += step.precision;
                site.information += step.information;
            }
        }
        // They hold together for a rate that stays; what it has walked meanwhile comes on top.
        let mut line = self.before;
        go_on(&mut line, end, 0.0);
        for x in seen.iter() {
            let sites = x.sites.map(|site| site.less(c.start_worth));
            stamps(x).iter().zip(sites).for_each(|(sum, site)| site.tell(&mut line, sum));
        }
        let mut walked = Gaussian::new([0.0; STATES], [0.0; STATES]);
        go_on(&mut walked, end, c.walk);
        let more = walked.p.as_flattened();
        line.p.as_flattened_mut().iter_mut().zip(more).for_each(|(p, q)| *p += q);
        (line, n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise that the first 32 exchanges a second apart show, ns: `sample` makes each of two
    /// numbers between −1 and 1.
    fn noise(sample: impl Fn([f64; 2]) -> Sample) -> f64 {
        noise_where(0.0, sample)
    }

    /// That noise where the server claims as much as `claimed`, s.
    fn noise_where(claimed: f64, sample: impl Fn([f64; 2]) -> Sample) -> f64 {
        let mut mixed = 1_u64;
        let mut random = || {
            mixed = mixed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            ((mixed >> 40) as f64 / f64::from(1 << 23)) - 1.0
        };
        let before = Gaussian::new([0.0, 0.0, 1e-4, 1e-4, 0.0], [1e-5, 1e-5, 0.0, 0.0, 0.0]);
        let mut start = Start::new(before, Noise { own: 300e-9, claimed }, 2e-4);
        for _ in 0..PATIENCE {
            start.take(1.0, sample([random(), random()]), 0.0, &Constants::DEFAULT);
        }
        1e9 * libm::sqrt(start.delays(0.0, &Constants::DEFAULT).1)
    }

    fn above(request: f64, reply: f64) -> Sample {
        Sample { above: [1e-4 + 1e-9 * request, 1e-4 + 1e-9 * reply], duration: 2e-4 }
    }

    #[test]
    fn good_stamps_are_known_for_it_at_once() {
        // Even between −1 and 1: a third is the variance.
        let both = noise(|[a, b]| above(50.0 * a, 50.0 * b));
        // The replies wait; requests show how good the stamps are.
        let one = noise(|[a, b]| above(50.0 * a, 9000.0 * b.abs()));
        assert!([both, one].iter().all(|noise| (20.0..40.0).contains(noise)), "{both} {one}");
    }

    #[test]
    fn what_is_not_of_the_stamps_makes_none_of_them_better() {
        let server = noise(|[a, ..]| above(2000.0 * a, -2000.0 * a));
        let queues = noise(|[a, b]| above(9000.0 * a.abs(), 9000.0 * b.abs()));
        for (of, found) in [("a server whose time is off", server), ("queues", queues)] {
            assert_eq!(found.round(), 300.0, "{of}");
        }
    }

    #[test]
    fn coarse_stamps_are_believed_and_fine_ones_that_are_said_to_be_coarse_are_not() {
        // A server's stamps to 200 µs: both at once are off by up to half of that.
        let coarse = noise_where(100e-6, |[a, ..]| above(100_000.0 * a, -100_000.0 * a));
        assert!(coarse > 30_000.0, "{coarse:?}");
        let fine = noise_where(100e-6, |[a, b]| above(9000.0 * a.abs(), 9000.0 * b.abs()));
        assert_eq!(fine.round(), 300.0);
    }
}
