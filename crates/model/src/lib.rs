//! Statistical model of a free-running oscillator behind a queueing path, and its inference.
//!
//! See `docs/algorithm.md`.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod constants;
mod delay;
mod difference;
mod events;
pub mod gaussian;
mod hypothesis;
mod oscillator;
mod start;
mod tail;

pub use crate::constants::{Constant, Constants};
use crate::difference::Past;
use crate::events::{Circumstances, Events};
use crate::gaussian::{ALIKE, APART, FLOORS, Gaussian, OFFSET, RATE, SERVER, unit};
pub use crate::hypothesis::{Event, Hypothesis};
use crate::start::Start;

/// One exchange as the model sees it.
#[derive(Clone, Copy, Default, Debug)]
pub struct Sample {
    /// θ + delay of the request at its departure, and delay of the reply − θ at its arrival, s.
    pub above: [f64; 2],
    /// From departure to arrival, s.
    pub duration: f64,
}

/// A mean and a standard deviation.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub deviation: f64,
}

/// See the crate's text.
#[derive(Clone, Debug)]
pub struct Model {
    start: Option<Start>,
    events: Events,
    past: Past,
    noise: [f64; 2],
    gap: f64,
    /// Time since the beginning, s.
    age: f64,
    c: Constants,
}

impl Model {
    /// Knows this before the first exchange: both directions take `floor`; stamps have this noise,
    /// s.
    #[must_use]
    pub fn new(theta: Known, rate: Known, floor: Known, noise: [f64; 2], c: Constants) -> Model {
        let x = [theta.mean, rate.mean, floor.mean, floor.mean, 0.0];
        let mut law = Gaussian::new(x, [theta.deviation, rate.deviation, 0.0, 0.0, 0.0]);
        law.inflate(&ALIKE, floor.deviation * floor.deviation);
        let start = Start::new(law, noise, 2.0 * floor.mean);
        let first = Hypothesis::new(law, start.laws(rate.mean), &c);
        let past = Past::default();
        Model { start: Some(start), events: Events::new(first), past, noise, gap: 0.0, age: 0.0, c }
    }

    /// Moves on by `dt` seconds.
    pub fn predict(&mut self, dt: f64) {
        self.gap = dt;
        self.age += dt;
        self.past.predict(&self.events.now(), dt);
        self.events.predict(dt, &self.c);
    }

    /// Takes in an exchange. The oscillator may change by `strays` (relative) at once, by its
    /// promise; that the `server` moved is asked only if that matters. Returns the change of the round trip's floor, s, if the path is known to have
    /// changed.
    pub fn take(&mut self, sample: Sample, strays: f64, server: bool) -> Option<f64> {
        let Some(start) = &mut self.start else {
            let before = self.events.now();
            let changed = self.events.take(&sample, Circumstances { strays, server }, &self.c);
            self.past.learn(&before, &self.events.now());
            return changed;
        };
        let rate = self.events.now().x[RATE];
        let first = start.take(self.gap, sample, rate, &self.c);
        if start.is_over() {
            self.start = None;
        }
        self.events = Events::new(first);
        self.past = Past::default();
        None
    }

    /// The states.
    #[must_use]
    pub fn now(&self) -> Gaussian {
        self.events.now()
    }

    /// Mean rate of the last 1000 s, for an interval that ends halfway to the next exchange, its
    /// variance, and that halfway, s.
    #[must_use]
    pub fn mean_rate(&self) -> (f64, f64, f64) {
        let ahead = self.gap / 2.0;
        let walk = self.best().filter.walk();
        let (rate, variance) = self.past.mean_rate(&self.events.now(), walk, ahead);
        (rate, variance, ahead)
    }

    /// The likeliest hypothesis.
    #[must_use]
    pub fn best(&self) -> &Hypothesis {
        self.events.best()
    }

    /// How far ahead the server is, s, if its time has moved more likely than not.
    #[must_use]
    pub fn ahead(&self) -> Option<f64> {
        self.events.ahead()
    }

    /// Time since the beginning, s.
    #[must_use]
    pub fn age(&self) -> f64 {
        self.age
    }

    /// The offset is proven to be `by` less, so neither it nor the rate was worth its variance.
    pub fn refute(&mut self, by: f64, slack: f64) {
        self.past.shift(-by, by * by);
        self.each(|law| {
            law.shift(&unit(OFFSET), -by);
            law.inflate(&unit(OFFSET), by * by);
            law.inflate(&unit(RATE), slack * slack);
        });
    }

    /// The offset is `by` less, and the path shared otherwise.
    pub fn turn(&mut self, by: f64) {
        self.past.shift(-by, 0.0);
        self.each(|law| {
            law.shift(&unit(OFFSET), -by);
            law.shift(&APART, by);
        });
    }

    /// The server, which is `by` ahead, is believed.
    pub fn go_ahead(&mut self, by: f64) {
        self.events.settle();
        self.past.shift(by, 0.0);
        self.each(|law| {
            law.shift(&unit(OFFSET), by);
            law.replace(SERVER, 0.0, 0.0);
        });
    }

    /// The rate is proven to lie in `low..=high`.
    pub fn confine(&mut self, low: f64, high: f64) {
        self.each(|law| {
            let rate = law.x[RATE].max(low).min(high);
            let by = law.x[RATE] - rate;
            if by != 0.0 {
                law.x[RATE] = rate;
                law.p[RATE][RATE] += by * by;
            }
            let most = (high - low) * (high - low);
            if law.p[RATE][RATE] > most {
                law.scale(RATE, libm::sqrt(most / law.p[RATE][RATE]));
            }
        });
    }

    /// The path is another one from the exchange to come on. θ is `theta` by its standard, or none
    /// if it stays what it was.
    pub fn begin_path(&mut self, sample: Sample, theta: Option<Known>) {
        self.events.settle();
        let was = self.events.now();
        let rtt = (sample.above[0] + sample.above[1] + was.x[RATE] * sample.duration).max(0.0);
        let noise = self.noise[0] + self.noise[1];
        let floor = |late: f64| Known { mean: late, deviation: late.abs() / 4.0 + noise };
        let floors = match theta {
            Some(_) => [floor(rtt / 2.0); 2],
            None => [
                floor(sample.above[0] + was.x[RATE] * sample.duration - was.x[OFFSET]),
                floor(sample.above[1] + was.x[OFFSET]),
            ],
        };
        let mut law = was;
        if let Some(theta) = theta {
            law.shift(&unit(OFFSET), theta.mean - was.x[OFFSET]);
            law.inflate(&unit(OFFSET), theta.deviation * theta.deviation);
        }
        for (i, floor) in FLOORS.into_iter().zip(floors) {
            law.replace(i, floor.mean, if theta.is_some() { 0.0 } else { floor.deviation });
        }
        if theta.is_some() {
            law.inflate(&ALIKE, floors[0].deviation * floors[0].deviation);
        }
        let start = Start::new(law, self.noise, rtt);
        self.events = Events::new(Hypothesis::new(law, start.laws(was.x[RATE]), &self.c));
        self.start = Some(start);
    }

    fn each(&mut self, f: impl FnMut(&mut Gaussian) + Copy) {
        self.events.each(f);
    }
}
