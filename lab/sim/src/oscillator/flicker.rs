//! Flicker noise: a power spectrum that falls with 1/f.

use crate::random::Random;

/// First-order sections of the filter. With poles a factor of [`RATIO`] apart they reach from
/// 0.5 Hz down to 10⁻⁷ Hz.
const SECTIONS: usize = 12;
/// Of the corners of neighbouring sections.
const RATIO: f64 = 4.0;
/// Corner of the fastest pole, 1/s. At this value (found by trial) the Allan deviation is within
/// 0.2 % of that of exact 1/f noise from 1 s to 10⁵ s.
const FASTEST: f64 = 1.85;

/// White noise, once a second, through a cascade of first-order sections: poles, and half-way (by
/// ratio) between them zeros. On average over the octaves that is half an integration: amplitude
/// 1/√f. One random number and some multiplications a second, whatever the time span.
#[derive(Clone, Debug)]
pub(super) struct Flicker {
    /// Factor of the white noise.
    gain: f64,
    random: Random,
    sections: [Section; SECTIONS],
}

/// y\[n\] = pole · y\[n−1\] + x\[n\] − zero · x\[n−1\]
#[derive(Clone, Copy, Debug, Default)]
struct Section {
    pole: f64,
    zero: f64,
    input: f64,
    output: f64,
}

impl Section {
    fn step(&mut self, input: f64) -> f64 {
        self.output = self.pole * self.output + input - self.zero * self.input;
        self.input = input;
        self.output
    }
}

impl Flicker {
    /// Flicker phase noise with this Allan deviation at 1 s.
    pub(super) fn new(level: f64, random: Random) -> Flicker {
        let mut sections = [Section::default(); SECTIONS];
        let mut corner = FASTEST;
        for section in &mut sections {
            section.pole = libm::exp(-corner);
            section.zero = libm::exp(-corner * libm::sqrt(RATIO));
            corner /= RATIO;
        }
        let mut flicker = Flicker { gain: 0.0, random, sections };
        if level > 0.0 {
            flicker.gain = level / flicker.deviation_at_1s();
        }
        flicker
    }

    /// The Allan deviation at 1 s of the cascade fed with white noise of variance 1: the squares of
    /// the second difference of its impulse response, added up.
    fn deviation_at_1s(&self) -> f64 {
        let mut sections = self.sections;
        let (mut last, mut last_but_one, mut sum) = (0.0, 0.0, 0.0);
        // The terms fall with n^-5: what is beyond a thousand is lost in rounding.
        for n in 0..1000 {
            let impulse = if n == 0 { 1.0 } else { 0.0 };
            let response = cascade(&mut sections, impulse);
            let second = response - 2.0 * last + last_but_one;
            sum += second * second;
            (last_but_one, last) = (last, response);
        }
        libm::sqrt(0.5 * sum)
    }

    /// The noise of the next second.
    pub(super) fn step(&mut self) -> f64 {
        if self.gain <= 0.0 {
            return 0.0;
        }
        let white = self.gain * self.random.normal();
        cascade(&mut self.sections, white)
    }
}

fn cascade(sections: &mut [Section], input: f64) -> f64 {
    sections.iter_mut().fold(input, |signal, section| section.step(signal))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The Allan deviation at `m` s of exact 1/f phase noise, over that at 1 s. In discrete time
    /// its spectrum is 1/|2 sin(ω/2)| (Kasdin, "Discrete simulation of colored noise", Proc. IEEE
    /// 83(5), 1995). So, but for a factor, its increments over m samples have the variance v(m) =
    /// sum of 1/(2k − 1), k = 1 … m, and the second difference has 4 v(m) − v(2m).
    pub(in crate::oscillator) fn theory(m: usize) -> f64 {
        let increment = |m: usize| (1..=m).map(|k| 1.0 / (2 * k - 1) as f64).sum::<f64>();
        let second = |m: usize| libm::sqrt(4.0 * increment(m) - increment(2 * m));
        second(m) / (second(1) * m as f64)
    }

    #[test]
    fn the_cascade_is_half_an_integration() {
        const LENGTH: usize = 1 << 20;
        let flicker = Flicker::new(1.0, Random::new(0, "unused"));
        let mut sections = flicker.sections;
        let response: Vec<f64> = (0..LENGTH)
            .map(|n| flicker.gain * cascade(&mut sections, if n == 0 { 1.0 } else { 0.0 }))
            .collect();
        for m in [1, 2, 3, 5, 10, 30, 100, 1000, 10_000, 100_000] {
            let at = |i: usize| response.get(i).copied().unwrap_or(0.0);
            let squares = (0..LENGTH).map(|i| {
                let second = at(i) - 2.0 * at(i.wrapping_sub(m)) + at(i.wrapping_sub(2 * m));
                second * second
            });
            let deviation = libm::sqrt(0.5 * squares.sum::<f64>()) / m as f64;
            let ratio = deviation / theory(m);
            assert!((ratio - 1.0).abs() < if m == 1 { 1e-9 } else { 2e-3 }, "at {m} s: {ratio}");
        }
    }
}
