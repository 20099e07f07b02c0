//! The random part of an oscillator: realised once a second, whenever it is asked.

use std::collections::VecDeque;

use super::flicker::Flicker;
use super::spec::OscillatorSpec;
use crate::random::Random;

/// For how many seconds back the realisation is kept.
const KEPT: usize = 64;
/// White phase noise is realised so many times a second: stamps that are farther apart than that
/// are independent, and in between the noise moves evenly, so that the counter never runs back.
const WHITE_HZ: f64 = 1000.0;

/// The realisation at a whole second, and how it goes on until the next.
#[derive(Clone, Copy, Debug)]
struct Knot {
    /// Relative frequency: the walk.
    rate: f64,
    /// Sum of rate and white frequency noise, s.
    phase: f64,
    /// Flicker phase noise, s.
    flicker: f64,
    /// By how much the walk changes until the next knot.
    rate_step: f64,
    /// Addition of the walk to the next knot's phase over an even change of the rate, s: without it
    /// the walk would be too smooth within its second, and its Allan deviation too low at 1 s.
    bulge: f64,
    /// White frequency noise until the next knot.
    white: f64,
}

/// Streams that the knots are drawn from, one after the other.
#[derive(Clone, Debug)]
struct Streams {
    walk: Random,
    white_frequency: Random,
    flicker: Flicker,
}

/// All noise of an oscillator: a function of time and of the seed alone.
#[derive(Clone, Debug)]
pub(super) struct Noise {
    walk_level: f64,
    white_frequency_level: f64,
    /// Standard deviation of the white phase noise, s.
    white_phase: f64,
    white: Random,
    streams: Streams,
    /// The streams as they were at time 0: for whoever asks about times long past.
    start: Streams,
    /// The knots at seconds `first`, `first` + 1, …: two at least.
    first: u64,
    knots: VecDeque<Knot>,
}

impl Noise {
    pub(super) fn new(spec: &OscillatorSpec, seed: u64, name: &str) -> Noise {
        let stream = |what: &str| Random::new(seed, &format!("{name}/{what}"));
        let start = Streams {
            walk: stream("walk"),
            white_frequency: stream("white-frequency"),
            flicker: Flicker::new(spec.flicker_phase_at_1s, stream("flicker")),
        };
        let mut noise = Noise {
            walk_level: spec.walk_per_root_s,
            white_frequency_level: spec.white_frequency_at_1s,
            // A second difference of such noise has the variance 6σ², half of which is the Allan
            // variance at 1 s.
            white_phase: spec.white_phase_at_1s / libm::sqrt(3.0),
            white: stream("white-phase"),
            streams: start.clone(),
            start,
            first: 0,
            knots: VecDeque::with_capacity(KEPT),
        };
        noise.restart();
        noise
    }

    /// Realises everything anew from time 0.
    fn restart(&mut self) {
        self.streams = self.start.clone();
        self.first = 0;
        self.knots.clear();
        let start = self.knot(0.0, 0.0);
        self.knots.push_back(start);
        let next = self.after(start);
        self.knots.push_back(next);
    }

    /// A knot with this rate and phase.
    fn knot(&mut self, rate: f64, phase: f64) -> Knot {
        let mut knot = Knot { rate, phase, flicker: 0.0, rate_step: 0.0, bulge: 0.0, white: 0.0 };
        knot.flicker = self.streams.flicker.step();
        if self.walk_level > 0.0 {
            // The change of a Wiener process over a second, and the part of its integral that does
            // not depend on it: variance 1/12.
            knot.rate_step = self.walk_level * self.streams.walk.normal();
            knot.bulge = self.walk_level * self.streams.walk.normal() / libm::sqrt(12.0);
        }
        if self.white_frequency_level > 0.0 {
            knot.white = self.white_frequency_level * self.streams.white_frequency.normal();
        }
        knot
    }

    /// The knot a second after this one.
    fn after(&mut self, knot: Knot) -> Knot {
        let phase = knot.phase + knot.rate + 0.5 * knot.rate_step + knot.bulge + knot.white;
        self.knot(knot.rate + knot.rate_step, phase)
    }

    /// The knots on both sides of a time, and the share of the second that is over.
    fn around(&mut self, t: f64) -> (Knot, Knot, f64) {
        // Before time 0 noise stands still.
        let t = if t > 0.0 { t } else { 0.0 };
        let second = libm::floor(t);
        let index = second as u64;
        if index < self.first {
            self.restart();
        }
        loop {
            let at = (index - self.first) as usize;
            if let (Some(&before), Some(&after)) = (self.knots.get(at), self.knots.get(at + 1)) {
                return (before, after, t - second);
            }
            if let Some(&last) = self.knots.back() {
                let next = self.after(last);
                if self.knots.len() == KEPT {
                    self.knots.pop_front();
                    self.first += 1;
                }
                self.knots.push_back(next);
            }
        }
    }

    /// Time that noise has added to the counter, s.
    pub(super) fn phase_at(&mut self, t: f64) -> f64 {
        let (before, after, u) = self.around(t);
        let walk = before.phase
            + u * (before.rate + before.white)
            + 0.5 * u * u * before.rate_step
            + u * u * (3.0 - 2.0 * u) * before.bulge;
        walk + before.flicker + u * (after.flicker - before.flicker) + self.white_at(t)
    }

    /// The relative frequency as walk and white frequency noise have it.
    pub(super) fn rate_at(&mut self, t: f64) -> f64 {
        let (before, _, u) = self.around(t);
        before.rate + before.white + u * before.rate_step + 6.0 * u * (1.0 - u) * before.bulge
    }

    /// White phase noise, s: drawn for each point of its grid from that point's own place of the
    /// stream, as nobody could keep them all.
    fn white_at(&mut self, t: f64) -> f64 {
        if self.white_phase <= 0.0 {
            return 0.0;
        }
        let place = if t > 0.0 { t * WHITE_HZ } else { 0.0 };
        let before = libm::floor(place);
        let mut draw = |point: u64| {
            self.white.seek(point);
            self.white.normal()
        };
        let (a, b) = (draw(before as u64), draw(before as u64 + 1));
        self.white_phase * (a + (place - before) * (b - a))
    }
}
