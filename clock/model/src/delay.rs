//! Law of one direction's delays above their floor, learnt as packets come.
//!
//! A mixture of exponential laws of means four times apart, finer ones where a path is as quiet as
//! good stamps, and of packets below the floor that was thought to be there. The law in force is a hidden Markov state: mostly that of the
//! packet before, else drawn from the long run. The floor under them is sharp, or blurred where
//! several queues in a row let hardly any packet find all of them empty; which of the two is a
//! property of the path.

use crate::constants::Constants;
use crate::hypothesis::QUIET;
use crate::tail::{LEAST_LEFT, Tail};

/// Number of exponential laws.
pub const SCALES: usize = 11;
/// Means of the laws at first, s: 0.25 µs, which is below what most stamps resolve, to 0.26 s.
const SCALE: [f64; SCALES] = {
    let mut scale = [0.25e-6; SCALES];
    let mut k = 1;
    while k < SCALES {
        scale[k] = scale[k - 1] * STEP;
        k += 1;
    }
    scale
};
/// Ratio of the means of neighbouring laws.
const STEP: f64 = Constants::DEFAULT.step;
/// ln 4.
const LN_STEP: f64 = 2.0 * core::f64::consts::LN_2;
/// Sides of the floor that the components lie on.
const SIDE: Weights = {
    let mut side = [1.0; PARTS];
    side[UNDERCUT] = -1.0;
    side
};
/// Components: the laws, and packets below the floor that was thought to be there.
pub const PARTS: usize = SCALES + 1;
/// The last of them.
const UNDERCUT: usize = SCALES;
/// Largest share of packets below the floor: one in as many exchanges as a mode lasts.
const MOST_UNDERCUTS: f64 = 1.0 / QUIET as f64;

/// Probability of each component.
pub type Weights = [f64; PARTS];

/// Components of a law for the packet to come.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    probability: Weights,
    /// One by the mean distance of each from the floor, 1/s.
    rate: Weights,
}

/// Law of one direction's delays.
#[derive(Clone, Copy, Debug)]
pub struct Law {
    now: Weights,
    long_run: Weights,
    /// Means of the laws by those at first.
    unit: f64,
    /// Number of exchanges that it rests on.
    pub count: f64,
}

/// Word of a delay on the quantity y under it.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Natural logarithm of the density of the measurement, 1/s.
    pub log_density: f64,
    /// Posterior mean of y − its prior mean, s.
    pub shift: f64,
    /// Posterior variance of y, s².
    pub variance: f64,
    /// Posterior mean of the stamp noise's square, s².
    pub noise: f64,
    /// Posterior probability of each component.
    pub weights: Weights,
}

impl Reading {
    /// Shift and variance of y, whose prior has this `variance`, if the word counts as the part `worth` of one.
    #[must_use]
    pub fn as_part(&self, worth: f64, variance: f64) -> (f64, f64) {
        let more = 1.0 / self.variance.min(variance) - 1.0 / variance;
        let after = 1.0 / (1.0 / variance + worth * more);
        (worth * self.shift * after / self.variance, after)
    }
}

impl Expected {
    /// Reads a measurement `above` the mean of y; y has this `variance`, what is measured has `noise`, s², and the
    /// floor is blurred by the standard deviation `blur`, s.
    #[must_use]
    pub fn read(&self, above: f64, variance: f64, noise: f64, blur: f64) -> Reading {
        let total = variance + noise + blur * blur;
        let deviation = libm::sqrt(total);
        let distance = above / deviation;
        let depth: Weights =
            core::array::from_fn(|k| deviation * self.rate[k] - SIDE[k] * distance);
        let mut weights = self.probability;
        let undercut = if weights[UNDERCUT] > 0.0 { depth[UNDERCUT] } else { 0.0 };
        let lowest = depth[SCALES - 1].min(undercut).min(0.0);
        // All densities by the highest peak, which would overflow far from the floor.
        let top = lowest * lowest / 2.0;
        let peaks = peaks(deviation * self.rate[SCALES - 1], distance, &mut weights);
        let beside = libm::exp(-top);
        let tails: [Tail; PARTS] =
            core::array::from_fn(|k| Tail::above(depth[k], peaks[k], beside));
        let (mut sum, mut mean, mut square, mut left) = (0.0, 0.0, 0.0, 0.0);
        for (k, tail) in tails.iter().enumerate() {
            weights[k] *= tail.mass * self.rate[k];
            let by = above - deviation * SIDE[k] * tail.excess;
            sum += weights[k];
            mean += weights[k] * by;
            square += weights[k] * by * by;
            left += weights[k] * tail.variance;
        }
        weights.iter_mut().for_each(|weight| *weight /= sum);
        let (mean, square, left) = (mean / sum, square / sum, left / sum);
        // Of what is normal, y and the noise have their shares.
        let (gain, share) = (variance / total, noise / total);
        let after = variance * (1.0 - gain * (1.0 - left)) + gain * gain * (square - mean * mean);
        Reading {
            log_density: top - distance * distance / 2.0 + libm::log(sum),
            shift: gain * mean,
            variance: after.max(LEAST_LEFT * variance),
            noise: share * share * (total * left + square) + noise * (1.0 - share),
            weights,
        }
    }
}

impl Law {
    /// A law with these weights, which rest on `count` exchanges.
    #[must_use]
    pub fn new(weights: Weights, count: usize) -> Law {
        Law { now: weights, long_run: weights, unit: 1.0, count: count as f64 }
    }

    /// Components for the next packet.
    #[must_use]
    pub fn expected(&self, c: &Constants) -> Expected {
        let probability =
            core::array::from_fn(|k| self.now[k] + c.law_change * (self.long_run[k] - self.now[k]));
        // Finer laws of waits make no packet that comes too early less likely.
        let undercut = c.undercut_scale * self.idle(c) / self.unit;
        let rate = core::array::from_fn(|k| 1.0 / SCALE.get(k).map_or(undercut, |s| s * self.unit));
        Expected { probability, rate }
    }

    /// Components for a packet that is not below the floor.
    #[must_use]
    pub fn never_below(&self, c: &Constants) -> Expected {
        let mut expected = self.expected(c);
        expected.probability[UNDERCUT] = 0.0;
        expected
    }

    /// Forgets which component is in force.
    pub fn forget_now(&mut self) {
        self.now = self.long_run;
    }

    /// Typical delay of the idle path above its floor, s.
    #[must_use]
    pub fn idle(&self, c: &Constants) -> f64 {
        let wanted = c.idle_quantile * self.long_run[..SCALES].iter().sum::<f64>();
        let mut below = 0.0;
        for (weight, scale) in self.long_run.iter().zip(SCALE) {
            if below + weight >= wanted {
                return scale * self.unit * libm::exp(((wanted - below) / weight - 1.0) * LN_STEP);
            }
            below += weight;
        }
        SCALE[SCALES - 1] * self.unit
    }

    /// Learns from a packet which component it followed; stamps have `noise`, s².
    pub fn learn(&mut self, weights: &Weights, noise: f64, c: &Constants) {
        self.count += 1.0;
        let gain = (1.0 / (self.count + 1.0)).max(1.0 / c.law_memory);
        for (long_run, new) in self.long_run.iter_mut().zip(weights) {
            *long_run = (*long_run + gain * (new - *long_run)).max(c.law_least);
        }
        // A floor that more than a few packets are below is none, and an event has to explain them.
        self.long_run[UNDERCUT] = self.long_run[UNDERCUT].clamp(c.rare(), MOST_UNDERCUTS);
        // One packet below the floor foretells no other, and hides which law is in force.
        let all: f64 = self.long_run.iter().sum();
        let rare = self.long_run[UNDERCUT] / all;
        let hidden = weights[UNDERCUT] / (all - self.long_run[UNDERCUT]);
        self.now =
            core::array::from_fn(|k| (1.0 - rare) * (weights[k] + hidden * self.long_run[k]));
        self.now[UNDERCUT] = rare;
        self.fit_scales(noise, c);
    }

    /// Makes all laws a step finer where most packets follow the finest, and that is wider than the stamps'
    /// noise: as a law of waits it would take noise for waits. A step coarser again where the finest has
    /// nothing left.
    fn fit_scales(&mut self, noise: f64, c: &Constants) {
        let finest = SCALE[0] * self.unit;
        if self.long_run[0] > 0.5 && finest * finest > noise {
            self.unit /= STEP;
            for weights in [&mut self.now, &mut self.long_run] {
                weights[SCALES - 2] += weights[SCALES - 1];
                weights.copy_within(..SCALES - 1, 1);
                weights[1] /= 2.0;
                weights[0] = weights[1];
            }
        } else if self.unit < 1.0 && self.long_run[0] <= c.law_least {
            self.unit *= STEP;
            for weights in [&mut self.now, &mut self.long_run] {
                weights[1] += weights[0];
                weights.copy_within(1..SCALES, 0);
                weights[SCALES - 1] = c.law_least;
            }
        }
    }
}

/// Peak of each component whose depth is negative, exp(depth²/2), by that of the largest scale. What
/// rounding would take from that loses its weight. `least` is the deviation by the largest scale,
/// `distance` how late the packet is, in deviations.
///
/// With the deviation by a scale a, its depth is a − distance; a is ever four times that of the next
/// scale. So each peak is a power of the one before, and takes no exponential function of its own.
fn peaks(least: f64, distance: f64, weights: &mut Weights) -> Weights {
    let mut peaks = [1.0; PARTS];
    let mut a = 4.0 * least;
    if a >= distance {
        return peaks;
    }
    let fourth = |x: f64| (x * x) * (x * x);
    // exp(−a · distance) and exp(a²/2), by those of the largest scale.
    let (mut product, mut square) = (1.0, 1.0);
    let more = (libm::exp(-3.0 * least * distance), libm::exp(7.5 * least * least));
    for k in (0..SCALES - 1).rev() {
        if a >= distance {
            break;
        }
        (product, square) = (fourth(product) * more.0, fourth(fourth(square)) * more.1);
        // Where the square is infinite the product is 0.
        match product * square {
            peak if peak > f64::EPSILON => peaks[k] = peak,
            _ => weights[k] = 0.0,
        }
        a *= 4.0;
    }
    peaks
}

/// Mixture that fits some delays above their floor (expectation and maximisation). Beforehand all
/// scales from a 300th of the round trip `rtt` (s) to the whole are as likely.
#[must_use]
pub fn fitted(delays: impl Iterator<Item = f64> + Clone, rtt: f64, c: &Constants) -> Weights {
    const ROUNDS: usize = 8;
    let likely = SCALE.map(|s| if s > rtt / 300.0 && s < rtt { 1.0 } else { 0.01 });
    let sum: f64 = likely.iter().sum();
    // The prior counts as much as one delay that was seen.
    let prior = likely.map(|p| p / sum);
    let mut weights = prior;
    let n = delays.clone().count() as f64;
    for _ in 0..ROUNDS {
        let mut counts = prior;
        for delay in delays.clone() {
            let shares: [f64; SCALES] =
                core::array::from_fn(|k| weights[k] / SCALE[k] * libm::exp(-delay / SCALE[k]));
            let sum = shares.iter().sum::<f64>().max(f64::MIN_POSITIVE);
            for (count, share) in counts.iter_mut().zip(shares) {
                *count += share / sum;
            }
        }
        weights = counts.map(|count| count / (n + 1.0));
    }
    let undercut = c.rare();
    let rest = 1.0 - undercut;
    core::array::from_fn(|k| weights.get(k).map_or(undercut, |w| rest * w))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(parts: &[(usize, f64)]) -> Weights {
        let mut all = [0.0; PARTS];
        for (k, w) in parts {
            all[*k] = *w;
        }
        all
    }

    /// Density of y + noise + blur + queueing, and moments of y given it, added up numerically.
    fn summed(w: &Weights, above: f64, variance: f64, noise: f64, blur: f64) -> [f64; 3] {
        let normal =
            |x: f64, v: f64| libm::exp(-x * x / (2.0 * v)) / libm::sqrt(core::f64::consts::TAU * v);
        let (sd, n) = (libm::sqrt(variance), 4000);
        let (mut sum, mut mean, mut square) = (0.0, 0.0, 0.0);
        for i in -n..=n {
            let y = 8.0 * sd * f64::from(i) / f64::from(n);
            let spread = libm::sqrt(noise + blur * blur);
            let mut likely = 0.0;
            for j in -60..=60 {
                let e = spread * f64::from(j) / 10.0;
                let late = above - y - e;
                if late >= 0.0 {
                    let density: f64 =
                        w.iter().zip(SCALE).map(|(w, s)| w / s * libm::exp(-late / s)).sum();
                    likely += normal(e, spread * spread) * density * spread / 10.0;
                }
            }
            let p = normal(y, variance) * likely * 8.0 * sd / f64::from(n);
            (sum, mean, square) = (sum + p, mean + p * y, square + p * y * y);
        }
        mean /= sum;
        [libm::log(sum), mean, square / sum - mean * mean]
    }

    #[test]
    fn a_reading_has_the_moments_of_the_exact_posterior() {
        let w = weights(&[(1, 0.2), (3, 0.5), (5, 0.3)]);
        let law = Law::new(w, 1);
        for above in [-8e-6, 0.0, 5e-6, 40e-6, 300e-6] {
            for blur in [0.0, 8e-6] {
                let rate = law.expected(&Constants::DEFAULT).rate;
                let expected = Expected { probability: w, rate };
                let read = expected.read(above, 36e-12, 4e-12, blur);
                let [log, mean, variance] = summed(&w, above, 36e-12, 4e-12, blur);
                assert!((read.log_density - log).abs() < 0.01, "{above} {blur}: {read:?} {log}");
                assert!((read.shift - mean).abs() < 0.05e-6, "{above} {blur}: {read:?} {mean}");
                assert!((read.variance / variance - 1.0).abs() < 0.03, "{above} {blur} {variance}");
            }
        }
    }

    #[test]
    fn a_path_as_quiet_as_good_stamps_has_finer_laws_until_it_is_not() {
        let c = Constants::DEFAULT;
        let mut law = Law::new(weights(&[(0, 1.0)]), 32);
        let first = law.idle(&c);
        for _ in 0..3000 {
            law.learn(&weights(&[(0, 1.0)]), 1e-16, &c);
        }
        assert!(law.idle(&c) < first / 50.0, "{law:?}");
        let undercut = 1.0 / law.expected(&c).rate[UNDERCUT] / c.undercut_scale;
        assert!(undercut > first / 4.0 && undercut < first * 4.0, "{undercut} {first}");
        let all = |law: &Law| law.expected(&c).probability.iter().sum::<f64>();
        assert!((all(&law) - 1.0).abs() < 0.01, "{law:?}");
        for _ in 0..9000 {
            law.learn(&weights(&[(6, 1.0)]), 1e-16, &c);
        }
        assert_eq!(law.unit, 1.0);
        assert!((all(&law) - 1.0).abs() < 0.01, "{law:?}");
        // Where stamps are worse than that, finer laws would take noise for waits.
        for _ in 0..3000 {
            law.learn(&weights(&[(0, 1.0)]), 1e-12, &c);
        }
        assert_eq!(law.unit, 1.0);
    }

    #[test]
    fn a_part_of_a_reading_says_as_much_less() {
        let law = Law::new(weights(&[(3, 1.0)]), 1);
        let expected = law.expected(&Constants::DEFAULT);
        let reading = expected.read(-3e-6, 36e-12, 4e-12, 0.0);
        let (shift, left) = reading.as_part(1.0, 36e-12);
        assert!((shift / reading.shift - 1.0).abs() < 1e-9 && left == reading.variance);
        let (less, more) = reading.as_part(0.25, 36e-12);
        assert!(less / shift > 0.0 && less / shift < 1.0 && more > left && more < 36e-12);
        assert_eq!(reading.as_part(0.0, 36e-12), (0.0, 36e-12));
    }

    #[test]
    fn the_mixture_is_found_again() {
        // A hundred quantiles of an exponential law of 16 µs.
        let delays = (0..100).map(|i| -16e-6 * libm::log((f64::from(i) + 0.5) / 100.0));
        let w = fitted(delays, 2e-3, &Constants::DEFAULT);
        assert!(w[2] + w[3] + w[4] > 0.95, "{w:?}");
        assert!(w[3] > 0.6, "{w:?}");
    }
}
