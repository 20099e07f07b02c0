//! A free-running oscillator and the counter that it drives.
//!
//! What the counter gains is a function of true time, of the specification and of the seed, and of
//! nothing else: whoever asks, in whatever order and however often, sees the same oscillator. Skew
//! and temperature are integrated in closed form. Random noise is realised on a grid of whole
//! seconds and interpolated between its points, so that the counter is continuous and its rate
//! finite:
//!
//! - *random-walk frequency*: exact at whole seconds (the joint law of a Wiener process and its
//!   integral); in between the rate moves evenly, with a hump that makes its integral right;
//! - *white frequency*: exact at whole seconds (independent steps of the phase); in between the
//!   rate is constant;
//! - *flicker phase*: 1/f from 0.5 Hz down to 10⁻⁷ Hz; straight lines in between;
//! - *white phase*: independent from millisecond to millisecond, straight lines in between.
//!
//! White phase noise is what differs from one reading to the next. Drawn anew for every question
//! asked, it would make the counter depend on the questions, and run backwards. So it has a grid of
//! its own, fine enough that the two stamps of an exchange are independent on all but the shortest
//! paths.

mod flicker;
mod noise;
mod spec;
#[cfg(test)]
mod tests;

use core::f64::consts::{PI, TAU};

use truechimer_time::{Count, CountSpan};

use noise::Noise;
pub use spec::{OscillatorSpec, Ramp, Sine, Step};

/// One part per million.
const PPM: f64 = 1e-6;

/// A realisation of an [`OscillatorSpec`].
#[derive(Clone, Debug)]
pub struct Oscillator {
    spec: OscillatorSpec,
    noise: Noise,
}

impl Oscillator {
    /// The host's oscillator under this seed.
    #[must_use]
    pub fn new(spec: &OscillatorSpec, seed: u64) -> Oscillator {
        Oscillator::named(spec, seed, "oscillator")
    }

    /// An oscillator of its own under this seed: another name, another realisation.
    #[must_use]
    pub fn named(spec: &OscillatorSpec, seed: u64, name: &str) -> Oscillator {
        Oscillator { spec: spec.clone(), noise: Noise::new(spec, seed, name) }
    }

    /// Gain of the counter on true time since time 0, in seconds, at true time `t` (s).
    ///
    /// Times may go back: by up to a minute at no cost; by more, and the noise is worked out anew
    /// from time 0. The way forward costs 35 to 120 ns per second passed, by the number of noises.
    pub fn phase_at(&mut self, t: f64) -> f64 {
        self.course(t) + self.noise.phase_at(t)
    }

    /// The relative error of the counter's rate at `t`: positive, it gains. Of noise it has the
    /// walk and white frequency noise; phase noise is an error of the reading, not of the rate.
    pub fn skew_at(&mut self, t: f64) -> f64 {
        let OscillatorSpec { skew_ppm, sines, ramps, steps, .. } = &self.spec;
        let mut ppm = *skew_ppm;
        for sine in sines {
            ppm += sine.amplitude_ppm * libm::sin(sine.angle(t));
        }
        for ramp in ramps {
            ppm += ramp.ppm * ((t - ramp.from_s) / (ramp.to_s - ramp.from_s)).clamp(0.0, 1.0);
        }
        for step in steps.iter().filter(|step| t >= step.at_s) {
            ppm += step.ppm;
        }
        PPM * ppm + self.noise.rate_at(t)
    }

    /// Reading of the counter at `t`, if it reads `offset` at a perfect time 0 and counts `hz` a
    /// second: the last full count. Exact but for the rounding of `t` and of the phase, as the
    /// whole seconds are counted in integers.
    pub fn count_at(&mut self, t: f64, hz: u64, offset: Count) -> Count {
        let seconds = libm::floor(t);
        let rest = (t - seconds) + self.phase_at(t);
        let whole = (seconds as i64).wrapping_mul(hz as i64);
        let part = libm::floor(rest * hz as f64) as i64;
        offset + CountSpan(whole.wrapping_add(part))
    }

    /// The part of the phase that is not random.
    pub(crate) fn course(&self, t: f64) -> f64 {
        let OscillatorSpec { skew_ppm, sines, ramps, steps, .. } = &self.spec;
        let mut gained = skew_ppm * t;
        for sine in sines {
            let turned = libm::cos(sine.angle(0.0)) - libm::cos(sine.angle(t));
            gained += sine.amplitude_ppm * sine.period_s / TAU * turned;
        }
        for ramp in ramps {
            let length = ramp.to_s - ramp.from_s;
            let rising = (t - ramp.from_s).max(0.0).min(length);
            let risen = (t - ramp.to_s).max(0.0);
            gained += ramp.ppm * (0.5 * rising * rising / length + risen);
        }
        for step in steps {
            gained += step.ppm * (t - step.at_s).max(0.0);
        }
        PPM * gained
    }
}

impl Sine {
    /// Where in its cycle it is at `t`, in radians.
    fn angle(&self, t: f64) -> f64 {
        let turns = t / self.period_s;
        TAU * (turns - libm::floor(turns)) + self.phase_deg * (PI / 180.0)
    }
}
