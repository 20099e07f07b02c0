//! Statistical model of a free-running oscillator behind a queueing path, and its inference.
//!
//! States are offset and rate of the oscillator, the floors under the delays of both directions,
//! and how far ahead the server is. Delays follow a learnt law; paths, servers and oscillators
//! change by events, which are hypotheses weighed by their posterior odds.
//! `docs/explanation/algorithm.md` has the equations, in the order of the files: `tail`, `delay`,
//! `gaussian`, `oscillator`, `hypothesis`, `events`, `start`, `difference`, `further`. What is *not* here: any
//! bound (that rests on causality alone), packets, clocks, I/O.
//!
//! ```
//! use truechimer_model::{Constants, Known, Model, Noise, Sample};
//!
//! let known = |mean, deviation| Known { mean, deviation };
//! let floor = known(100e-6, 50e-6);
//! let offset = known(0.0, 1e-4);
//! let rate = known(0.0, 25e-6);
//! let mut model = Model::new(offset, rate, floor, Noise::of(0.3e-6), Constants::DEFAULT);
//! for second in 0..20 {
//!     if second > 0 {
//!         model.predict(1.0);
//!     }
//!     // The request took 110 µs and the reply 105 µs, and θ is 40 µs.
//!     let sample = Sample { above: [150e-6, 65e-6], duration: 215e-6 };
//!     let changed = model.take(sample, 0.6e-6, true);
//!     assert_eq!(changed, None);
//! }
//! assert!((model.now().offset - 40e-6).abs() < 5e-6);
//! ```
#![no_std]
#![forbid(unsafe_code)]
// Indices run over arrays of a fixed length; there is always one hypothesis, and one exchange in a start.
#![allow(clippy::indexing_slicing)]

mod constants;
mod delay;
mod difference;
mod events;
mod further;
mod gaussian;
mod hypothesis;
mod oscillator;
mod start;
mod tail;

pub use crate::constants::{Asked, Constant, Constants};
pub use crate::difference::INTERVAL;
use crate::difference::Smoother;
pub use crate::events::Change;
use crate::events::Events;
use crate::further::Likeness;
pub use crate::further::Reply;
use crate::gaussian::{ALIKE, APART, FLOORS, Gaussian, OFFSET, RATE, SERVER, unit};
use crate::hypothesis::Hypothesis;
use crate::start::Start;

/// One exchange as the model sees it.
#[derive(Clone, Copy, Default, Debug)]
pub struct Sample {
    /// θ + delay of the request at its departure, and delay of the reply − θ at its arrival, s. +∞
    /// for a packet that there was not (a pulse has no request): it says nothing.
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

/// Noise of the stamps of an exchange: standard deviations, s.
#[derive(Clone, Copy, Debug)]
pub struct Noise {
    /// Noise as far as is known.
    pub own: f64,
    /// Noise that the server claims for its own at most.
    pub claimed: f64,
}

/// Knowledge of the model at one instant.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct States {
    /// Offset θ: true time − the counter at its nominal period, s.
    pub offset: f64,
    /// Rate of θ, s/s.
    pub rate: f64,
    /// Floors under the delays of requests and of replies, s.
    pub floors: [f64; 2],
    /// Variance of the offset, s².
    pub offset_variance: f64,
    /// Covariance of offset and rate, s.
    pub covariance: f64,
    /// Variance of the rate.
    pub rate_variance: f64,
    /// Variance that the rate gains per second, 1/s.
    pub walk: f64,
    /// Mean rate of the last 1000 s, for an interval that ends `ahead` seconds from now.
    pub mean_rate: f64,
    /// Half of the time between the newest two exchanges, s.
    pub ahead: f64,
}

/// See the crate's text.
#[derive(Clone, Debug)]
pub struct Model {
    now: States,
    start: Option<Start>,
    events: Events,
    smoother: Smoother,
    likeness: Likeness,
    gap: f64,
    /// Moves of the server are told.
    server: bool,
    c: Constants,
}

impl States {
    /// States `dt` seconds later (or earlier).
    #[must_use]
    pub fn later(&self, dt: f64) -> States {
        let time = dt.abs();
        let variance = self.offset_variance
            + 2.0 * dt * self.covariance
            + dt * dt * self.rate_variance
            + self.walk * time * time * time / 3.0;
        // The newest of the interval is as now.
        let newer = ((dt - 2.0 * self.ahead) / INTERVAL).clamp(0.0, 1.0);
        States {
            mean_rate: self.mean_rate + newer * (self.rate - self.mean_rate),
            offset: self.offset + self.rate * dt,
            offset_variance: variance.max(0.0),
            covariance: self.covariance + dt * self.rate_variance + self.walk * dt * time / 2.0,
            rate_variance: self.rate_variance + self.walk * time,
            ..*self
        }
    }

    /// True if a double holds them: exchanges may be beyond all reason.
    #[must_use]
    pub fn are_finite(&self) -> bool {
        let States { offset, rate, offset_variance, rate_variance, .. } = *self;
        [offset, rate, offset_variance, rate_variance].iter().all(|x| x.is_finite())
    }
}

impl Noise {
    /// Stamps of which nobody claims more than is known.
    #[must_use]
    pub fn of(own: f64) -> Noise {
        Noise { own, claimed: 0.0 }
    }

    /// Noise if all that is claimed is true, s.
    fn largest(&self) -> f64 {
        self.own.max(self.claimed)
    }
}

impl Sample {
    /// True if there was a packet in this direction.
    fn has(&self, d: usize) -> bool {
        self.above[d].is_finite()
    }

    /// Measurement of a direction, s, with θ at the arrival for a counter of this rate.
    fn measured(&self, d: usize, rate: f64) -> f64 {
        self.above[d] + if d == 0 { rate * self.duration } else { 0.0 }
    }

    /// Round trip for a counter of this rate, s, if there was one.
    fn trip(&self, rate: f64) -> Option<f64> {
        let trip = self.above[0] + self.above[1] + rate * self.duration;
        trip.is_finite().then_some(trip)
    }
}

impl Model {
    /// Knows this before the first exchange: both directions take `floor`.
    #[must_use]
    pub fn new(theta: Known, rate: Known, floor: Known, noise: Noise, c: Constants) -> Model {
        let x = [theta.mean, rate.mean, floor.mean, floor.mean, 0.0];
        let mut law = Gaussian::new(x, [theta.deviation, rate.deviation, 0.0, 0.0, 0.0]);
        law.inflate(&ALIKE, floor.deviation * floor.deviation);
        let (now, events, smoother) = (States::default(), Events::default(), Smoother::default());
        let (start, likeness, gap, server) = (None, Likeness::default(), 0.0, false);
        let mut model = Model { now, start, events, smoother, likeness, gap, server, c };
        model.begin(law, rate.mean, 2.0 * floor.mean, noise);
        model
    }

    /// Knows `law` before the first exchange of a path on which a round trip takes `rtt` s.
    fn begin(&mut self, law: Gaussian, rate: f64, rtt: f64, noise: Noise) {
        let start = Start::new(law, noise, rtt);
        let (delays, stamps) = start.delays(rate, &self.c);
        self.events.begin(Hypothesis::new(law, delays, stamps, &self.c));
        (self.start, self.likeness) = (Some(start), Likeness::default());
        self.sum_up();
    }

    /// Moves on by `dt` seconds.
    pub fn predict(&mut self, dt: f64) {
        self.gap = dt;
        self.smoother.predict(&self.events.now(), dt);
        self.events.predict(dt, &self.c);
        self.sum_up();
    }

    /// Takes in an exchange. The oscillator may change by `strays` (relative) at once, by its
    /// promise; that the `server` moved is asked only if that matters. Returns the change of the
    /// round trip's floor if one is certain.
    pub fn take(&mut self, sample: Sample, strays: f64, server: bool) -> Option<Change> {
        self.server = server;
        let before = self.events.now();
        let mut changed = None;
        if let Some(start) = &mut self.start {
            let first = start.take(self.gap, sample, before.x[RATE], &self.c);
            if start.is_over(&self.c) {
                self.start = None;
            }
            self.events.begin(first);
            self.smoother = Smoother::default();
        } else {
            changed = self.events.take(&sample, self.gap, strays, server, &self.c);
            self.smoother.learn(&before, &self.events.now());
        }
        self.sum_up();
        changed
    }

    /// Takes in replies that came between the exchange before and the newest, which was taken in, the oldest
    /// first.
    pub fn between(&mut self, replies: &[Reply]) {
        if self.start.is_some() || replies.is_empty() {
            return;
        }
        let worth = self.likeness.take(replies, self.events.best(), &self.c);
        let Some(worth) = worth else { return };
        let before = self.events.now();
        self.events.between(replies, worth, &self.c);
        self.smoother.learn(&before, &self.events.now());
        self.sum_up();
    }

    /// States now.
    #[must_use]
    pub fn now(&self) -> &States {
        &self.now
    }

    fn sum_up(&mut self) {
        let (law, ahead) = (self.events.now(), self.gap / 2.0);
        self.now = States {
            offset: law.x[OFFSET],
            rate: law.x[RATE],
            floors: FLOORS.map(|i| law.x[i]),
            offset_variance: law.p[OFFSET][OFFSET],
            covariance: law.p[OFFSET][RATE],
            rate_variance: law.p[RATE][RATE],
            walk: self.events.best().filter.walk(&self.c),
            mean_rate: self.smoother.mean_rate(&law, ahead),
            ahead,
        };
    }

    /// Changes the states by all hypotheses.
    fn each(&mut self, change: impl FnMut(&mut Gaussian)) {
        self.events.each(change);
        self.sum_up();
    }

    /// Distance by which the server is ahead, s, if its time has moved more likely than not, and that
    /// matters.
    #[must_use]
    pub fn ahead(&self) -> Option<f64> {
        self.events.ahead().filter(|_| self.server)
    }

    /// True if that is so certain that the server is to be held off.
    #[must_use]
    pub fn has_moved(&self) -> bool {
        self.server && self.events.has_moved(&self.c)
    }

    /// The offset is proven to be `by` less, so neither it nor the rate was worth its variance.
    pub fn refute(&mut self, by: f64, slack: f64) {
        self.smoother.shift(-by, by * by);
        self.each(|law| {
            law.shift(&unit(OFFSET), -by);
            law.inflate(&unit(OFFSET), by * by);
            law.inflate(&unit(RATE), slack * slack);
        });
    }

    /// The offset is `by` less, and the path shared otherwise.
    pub fn turn(&mut self, by: f64) {
        self.smoother.shift(-by, 0.0);
        self.each(|law| {
            law.shift(&unit(OFFSET), -by);
            law.shift(&APART, by);
        });
    }

    /// The server, which is `by` ahead, is believed.
    pub fn go_ahead(&mut self, by: f64) {
        self.events.settle_moved();
        self.smoother.shift(by, 0.0);
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
    pub fn begin_path(&mut self, sample: Sample, theta: Option<Known>, noise: Noise) {
        self.events.settle();
        let was = self.events.now();
        let late = [
            sample.above[0] + was.x[RATE] * sample.duration - was.x[OFFSET],
            sample.above[1] + was.x[OFFSET],
        ];
        let rtt = sample.trip(was.x[RATE]).unwrap_or(2.0 * late[1]).max(0.0);
        let deviation = |late: f64| late.abs() / 4.0 + 2.0 * noise.largest();
        let mut law = was;
        law.replace(SERVER, 0.0, 0.0);
        if let Some(theta) = theta {
            law.shift(&unit(OFFSET), theta.mean - was.x[OFFSET]);
            law.inflate(&unit(OFFSET), theta.deviation * theta.deviation);
            FLOORS.into_iter().for_each(|i| law.replace(i, rtt / 2.0, 0.0));
            law.inflate(&ALIKE, deviation(rtt / 2.0) * deviation(rtt / 2.0));
        } else {
            FLOORS.into_iter().zip(late).for_each(|(i, late)| {
                law.replace(i, late, deviation(late));
            });
        }
        self.begin(law, was.x[RATE], rtt, noise);
    }
}
