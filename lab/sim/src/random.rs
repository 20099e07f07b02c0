//! Seeded random numbers: a stream of its own for everything that draws.
//!
//! Each stream has its own key, made from the seed and the stream's name, so that no consumer
//! disturbs another: a scenario with one more server, or with one noise switched off, draws the
//! same numbers everywhere else. Everything goes through `libm` and IEEE's four operations: the
//! same numbers on every machine and in every build profile.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// Words (32 bits) of the stream between two places that [`Random::seek`] can name.
const WORDS_PER_PLACE: u128 = 256;

/// One stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    words: ChaCha8Rng,
    /// Normal numbers come in pairs: the second one of the last pair.
    spare: Option<f64>,
}

impl Random {
    /// The stream of this name.
    #[must_use]
    pub fn new(seed: u64, stream: &str) -> Random {
        // The cipher itself mixes seed and name: each piece of the name is written over the second
        // half of the key, and the first block under that key is the next key. The length goes in
        // first, so that padding cannot make two names alike.
        let mut key = [0; 32];
        put(&mut key, 0, &seed.to_le_bytes());
        put(&mut key, 8, &(stream.len() as u64).to_le_bytes());
        for piece in stream.as_bytes().chunks(16) {
            put(&mut key, 16, &[0; 16]);
            put(&mut key, 16, piece);
            ChaCha8Rng::from_seed(key).fill_bytes(&mut key);
        }
        Random { words: ChaCha8Rng::from_seed(key), spare: None }
    }

    /// Goes to a place of the stream: what is drawn from there on depends on `place` alone, not on
    /// what was drawn before. Places are 128 numbers of 64 bits apart.
    pub fn seek(&mut self, place: u64) {
        self.words.set_word_pos(u128::from(place) * WORDS_PER_PLACE);
        self.spare = None;
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.words.next_u64()
    }

    /// Uniform in (0, 1], in steps of 2⁻⁵³.
    pub fn uniform(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True if something of this probability happens. One draw, always; never at 0, always at 1.
    pub fn chance(&mut self, probability: f64) -> bool {
        // 1 - uniform is in [0, 1).
        1.0 - self.uniform() < probability
    }

    /// Exponential with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(self.uniform())
    }

    /// Normal with mean 0 and variance 1 (Marsaglia's polar method).
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let x = 2.0 * self.uniform() - 1.0;
            let y = 2.0 * self.uniform() - 1.0;
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let factor = libm::sqrt(-2.0 * libm::log(square) / square);
                self.spare = Some(y * factor);
                return x * factor;
            }
        }
    }

    /// Gamma with mean `shape`·`scale` and variance `shape`·`scale`² (Marsaglia and Tsang, "A
    /// simple method for generating gamma variables", ACM TOMS 26(3), 2000). `shape` > 0.
    pub fn gamma(&mut self, shape: f64, scale: f64) -> f64 {
        if shape < 1.0 {
            // Their section 6: a gamma of shape + 1, times a power of a uniform number.
            let above = self.gamma_of_one_or_more(shape + 1.0);
            return scale * above * libm::pow(self.uniform(), 1.0 / shape);
        }
        scale * self.gamma_of_one_or_more(shape)
    }

    fn gamma_of_one_or_more(&mut self, shape: f64) -> f64 {
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / libm::sqrt(9.0 * d);
        loop {
            let x = self.normal();
            let root = 1.0 + c * x;
            if root <= 0.0 {
                continue;
            }
            let v = root * root * root;
            if libm::log(self.uniform()) < 0.5 * x * x + d - d * v + d * libm::log(v) {
                return d * v;
            }
        }
    }

    /// Lomax (Pareto of the second kind, from 0): exceeds x with probability
    /// (1 + x/`scale`)^−`shape`. Its mean is `scale`/(`shape` − 1) where `shape` > 1, and infinite
    /// otherwise.
    pub fn lomax(&mut self, shape: f64, scale: f64) -> f64 {
        scale * libm::expm1(-libm::log(self.uniform()) / shape)
    }
}

/// Copies `from` into `key`, from byte `at` on.
fn put(key: &mut [u8; 32], at: usize, from: &[u8]) {
    for (to, from) in key.iter_mut().skip(at).zip(from) {
        *to = *from;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Kolmogorov and Smirnov: the largest distance between the samples' distribution and a law's,
    /// times √n. It exceeds 2.2 once in 8000 samples of that law.
    pub(crate) fn distance(mut samples: Vec<f64>, law: impl Fn(f64) -> f64) -> f64 {
        samples.sort_by(f64::total_cmp);
        let n = samples.len() as f64;
        let far = samples.iter().enumerate().map(|(i, x)| {
            let below = law(*x);
            (below - i as f64 / n).abs().max(((i + 1) as f64 / n - below).abs())
        });
        far.fold(0.0, f64::max) * n.sqrt()
    }

    /// A checksum of numbers, to the last bit.
    pub(crate) fn checksum(numbers: impl Iterator<Item = f64>) -> u64 {
        numbers.fold(0, |sum, x| {
            (sum.rotate_left(7) ^ x.to_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        })
    }

    fn samples(stream: &str, mut draw: impl FnMut(&mut Random) -> f64) -> Vec<f64> {
        let mut random = Random::new(7, stream);
        (0..20_000).map(|_| draw(&mut random)).collect()
    }

    fn mean_and_variance(samples: &[f64]) -> (f64, f64) {
        let mean = truechimer_report::mean(samples);
        (mean, truechimer_report::mean(samples.iter().map(|x| (x - mean) * (x - mean))))
    }

    #[track_caller]
    fn assert_law(samples: Vec<f64>, law: impl Fn(f64) -> f64) {
        let distance = distance(samples, law);
        assert!(distance < 2.2, "{distance}");
    }

    #[test]
    fn each_law_is_itself() {
        assert_law(samples("uniform", Random::uniform), |x| x);
        assert_law(samples("exponential", |r| r.exponential(3.0)), |x| 1.0 - libm::exp(-x / 3.0));
        assert_law(samples("normal", Random::normal), |x| 0.5 * libm::erfc(-x / libm::sqrt(2.0)));
        assert_law(samples("lomax", |r| r.lomax(1.5, 2.0)), |x| {
            1.0 - libm::pow(1.0 + x / 2.0, -1.5)
        });
        // Half a chi-square of one degree of freedom, an exponential, and the sum of two.
        assert_law(samples("gamma 1/2", |r| r.gamma(0.5, 1.0)), |x| libm::erf(libm::sqrt(x)));
        assert_law(samples("gamma 1", |r| r.gamma(1.0, 2.0)), |x| 1.0 - libm::exp(-x / 2.0));
        assert_law(samples("gamma 2", |r| r.gamma(2.0, 1.0)), |x| 1.0 - libm::exp(-x) * (1.0 + x));
    }

    #[test]
    fn a_wrong_law_is_told_from_the_right_one() {
        let normal = samples("normal", |r| 1.1 * r.normal());
        assert!(distance(normal, |x| 0.5 * libm::erfc(-x / libm::sqrt(2.0))) > 2.2);
    }

    #[test]
    fn means_and_variances_of_gamma() {
        for shape in [0.3, 0.9, 2.5, 40.0] {
            let (mean, variance) =
                mean_and_variance(&samples(&format!("gamma {shape}"), |r| r.gamma(shape, 2.0)));
            // Four standard deviations of the mean; the variance's depends on the kurtosis.
            let spread = libm::sqrt(shape * 4.0 / 20_000.0);
            assert!((mean - 2.0 * shape).abs() < 4.0 * spread, "{shape}: {mean}");
            let spread = shape * 4.0 * libm::sqrt((2.0 + 6.0 / shape) / 20_000.0);
            assert!((variance - 4.0 * shape).abs() < 4.0 * spread, "{shape}: {variance}");
        }
    }

    #[test]
    fn chance_at_its_ends() {
        let mut random = Random::new(1, "chance");
        for _ in 0..1000 {
            assert!(!random.chance(0.0));
            assert!(random.chance(1.0));
        }
    }

    #[test]
    fn streams_are_their_own() {
        let first = |seed, name| Random::new(seed, name).bits();
        let names = ["", "\0", "a", "b", "ab", "path/a", "exactly sixteen.", "exactly sixteen.\0"];
        let mut seen = Vec::new();
        for name in names {
            for seed in 0..4 {
                let bits = first(seed, name);
                assert!(!seen.contains(&bits), "{seed} {name:?}");
                seen.push(bits);
                assert_eq!(first(seed, name), bits);
            }
        }
        let other = |name: &str| samples(name, Random::normal);
        let product: f64 = other("a").iter().zip(other("b")).map(|(a, b)| a * b).sum();
        assert!(product.abs() / 20_000.0 < 4.0 / 20_000f64.sqrt(), "{product}");
    }

    #[test]
    fn a_place_is_found_whatever_was_drawn_before() {
        let mut straight = Random::new(3, "seek");
        straight.seek(1000);
        let expected = [straight.normal(), straight.normal(), straight.uniform()];
        let mut wild = Random::new(3, "seek");
        for _ in 0..7 {
            wild.normal();
        }
        wild.seek(1000);
        assert_eq!([wild.normal(), wild.normal(), wild.uniform()], expected);
        wild.seek(0);
        assert_eq!(wild.bits(), Random::new(3, "seek").bits());
    }

    #[test]
    fn the_same_to_the_last_bit_everywhere() {
        let mut random = Random::new(42, "golden");
        let numbers = (0..1000).map(|i| match i % 5 {
            0 => random.uniform(),
            1 => random.exponential(1.0),
            2 => random.normal(),
            3 => random.gamma(0.7, 1.0),
            _ => random.lomax(1.2, 1.0),
        });
        assert_eq!(checksum(numbers), 2_257_320_000_846_998_163);
    }
}
