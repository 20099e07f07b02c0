//! One account of what has happened, and how it foretells exchanges.

use crate::Sample;
use crate::constants::Constants;
use crate::delay::{Law, PARTS};
use crate::further::Reply;
use crate::gaussian::{FLOORS, Gaussian, OFFSET, SERVER, Vector, unit};
use crate::oscillator::{MODE, MODES, Oscillator, walk};

/// Event by which a hypothesis differs from the one that it came of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// None: queues and noise explain all.
    None,
    /// The path became longer or shorter, in one direction or both.
    Path,
    /// The floor had been hidden by queues so far.
    Floor,
    /// The server's time moved.
    Server,
    /// The server's time, or how the path is shared, wanders about.
    Wander,
    /// The oscillator changed.
    Oscillator,
}

/// See the module's text.
#[derive(Clone, Copy, Debug)]
pub struct Hypothesis {
    /// States.
    pub filter: Oscillator,
    /// Delays of requests and replies.
    pub laws: [Law; 2],
    /// Variance of what is not queueing and has either sign, s²: stamps, which are by the same two clocks in both
    /// directions. Where all of one direction's packets wait, only the other shows it.
    pub noise: f64,
    /// Logarithm of how likely it is.
    pub log: f64,
    /// Newest event.
    pub event: Event,
    /// Exchanges since then.
    pub age: usize,
    /// Variance of the server's time while that wanders, s².
    pub wander: f64,
    /// Logarithm of how much likelier each direction by itself is if the server has moved than if the
    /// other direction alone has changed.
    pub witness: [f64; 2],
    /// Sum of the floors before the event, s.
    pub before: f64,
    /// Lateness of the newest exchanges in either direction, s.
    pub late: [[f64; 2]; WINDOW],
}

/// Least variance of a stamp, s².
const LEAST_NOISE: f64 = 1e-16;
/// Exchanges in a row that are no chance if all of them say much ...
pub const FEW: usize = WINDOW / 4;
/// ... and if all of them say a little.
pub const WINDOW: usize = 16;
/// Time for an event to show itself, exchanges. Later it is the law of the delays that is judged.
pub const PATIENCE: usize = 2 * WINDOW;
/// Exchanges without a proposal after which only the likeliest is left; and those that a mode lasts, or a
/// server that has moved is wrong, on average. A queue that hides the floor from the first exchange on
/// seldom lasts longer.
pub const QUIET: usize = 2 * PATIENCE;

/// Correlation time of a server's time that wanders, s: as clocks are steered, and as loads swing.
const STEERED: f64 = Constants::DEFAULT.stretch;

/// Linear combinations of states that an exchange of some duration (s) measures from above.
#[must_use]
pub fn sums(duration: f64) -> [Vector; 2] {
    [[1.0, -duration, 1.0, 0.0, 1.0], [-1.0, 0.0, 0.0, 1.0, -1.0]]
}

impl Hypothesis {
    /// Nothing has happened yet; stamps have `noise`, s².
    #[must_use]
    pub fn new(law: Gaussian, laws: [Law; 2], noise: f64, c: &Constants) -> Hypothesis {
        let noise = noise.max(LEAST_NOISE);
        let (filter, event, late) = (Oscillator::new(law, c), Event::None, [[0.0; 2]; WINDOW]);
        let (log, age, wander, witness, before) = (0.0, 0, 0.0, [0.0; 2], 0.0);
        let mut new =
            Hypothesis { filter, laws, noise, log, event, age, wander, witness, before, late };
        new.before = new.floors();
        new
    }

    /// Sum of both floors, s.
    #[must_use]
    pub fn floors(&self) -> f64 {
        FLOORS.iter().map(|i| self.filter.now().x[*i]).sum()
    }

    /// True if it is the server whose time is another one.
    #[must_use]
    pub fn is_servers(&self) -> bool {
        matches!(self.event, Event::Server | Event::Wander)
    }

    /// True if the server's time has moved and both directions say so by themselves.
    #[must_use]
    pub fn is_witnessed(&self, c: &Constants) -> bool {
        self.event == Event::Server && self.witness[0].min(self.witness[1]) > c.hold / 2.0
    }

    /// Takes what the server has moved by for a change of the one direction that says so.
    pub fn blame_path(&mut self) {
        let d = usize::from(self.witness[1] >= self.witness[0]);
        let sign = sums(0.0)[d][SERVER];
        self.filter.each(|law| law.become_part(SERVER, FLOORS[d], sign));
        self.event = Event::None;
    }

    /// Typical delay of the idle path, s.
    #[must_use]
    pub fn idle(&self, c: &Constants) -> f64 {
        (self.laws[0].idle(c) + self.laws[1].idle(c)) / 2.0
    }

    /// Moves on by `dt` seconds.
    pub fn predict(&mut self, dt: f64, c: &Constants) {
        self.filter.predict(dt, self.idle(c), c);
        if self.event == Event::Wander {
            let kept = libm::exp(-dt / STEERED);
            let gained = self.wander * (1.0 - kept * kept);
            self.filter.each(|law| {
                law.x[SERVER] *= kept;
                law.scale(SERVER, kept);
                law.inflate(&unit(SERVER), gained);
            });
        }
    }

    /// Takes in replies between exchanges, each as the part `worth` of one. They are no events, and teach no
    /// law: both go at the pace of exchanges.
    pub fn between(&mut self, replies: &[Reply], worth: f64, c: &Constants) {
        let mut logs = [0.0; MODES];
        let (expected, blur) = (self.laws[1].expected(c), c.blur * self.idle(c));
        for ((state, mode), log) in self.filter.modes.iter_mut().zip(&MODE).zip(&mut logs) {
            let blur = if mode.blurred { blur * blur } else { 0.0 };
            let walk = walk(mode, c);
            for reply in replies {
                let known = state.project(&reply.sum());
                let walked = walk * walk * reply.ago * reply.ago * reply.ago / 3.0;
                let above = reply.above - known.mean;
                let blur = libm::sqrt(blur + walked);
                let reading = expected.read(above, known.variance, self.noise, blur);
                let (shift, variance) = reading.as_part(worth, known.variance);
                state.absorb(&known, shift, variance, OFFSET);
                *log += worth * reading.log_density;
            }
        }
        self.filter.weigh(&logs);
    }

    /// Takes in an exchange, and becomes as much likelier as it had foretold that.
    pub fn update(&mut self, sample: &Sample, c: &Constants) {
        let mut logs = [0.0; MODES];
        // What a server that has moved says of the time is nothing to learn from.
        let first = if self.event == Event::Server { FLOORS[0] } else { OFFSET };
        // The same for both: unlike floors are an offset that nothing shows.
        let blur = c.blur * self.idle(c);
        let (mut square, mut packets) = (0.0, 0.0);
        for (d, sum) in sums(sample.duration).iter().enumerate().filter(|(d, _)| sample.has(*d)) {
            let expected = self.laws[d].expected(c);
            if self.event == Event::Server {
                let log = |sum: &Vector| {
                    let known = self.filter.now().project(sum);
                    let above = sample.above[d] - known.mean;
                    expected.read(above, known.variance, self.noise, 0.0).log_density
                };
                let mut unmoved = *sum;
                unmoved[SERVER] = 0.0;
                self.witness[d] += log(sum) - log(&unmoved);
            }
            let mut weights = [0.0; PARTS];
            let modes = self.filter.modes.iter_mut().zip(&self.filter.weights).zip(&MODE);
            for (((state, w), mode), log) in modes.zip(&mut logs) {
                let known = state.project(sum);
                let above = sample.above[d] - known.mean;
                let blur = if mode.blurred { blur } else { 0.0 };
                let reading = expected.read(above, known.variance, self.noise, blur);
                state.absorb(&known, reading.shift, reading.variance, first);
                *log += reading.log_density;
                square += w * reading.noise;
                for (all, one) in weights.iter_mut().zip(reading.weights) {
                    *all += w * one;
                }
            }
            self.laws[d].learn(&weights, self.noise, c);
            packets += 1.0;
        }
        if packets > 0.0 {
            // Stated noise counts as a window of exchanges.
            let seen = self.laws[0].count.max(self.laws[1].count) + WINDOW as f64;
            let gain = (1.0 / seen).max(1.0 / c.law_memory);
            self.noise = (self.noise + gain * (square / packets - self.noise)).max(LEAST_NOISE);
        }
        self.log += self.filter.weigh(&logs);
        if self.log.is_nan() {
            // Its sign is another one on another processor, and all are sorted by it.
            self.log = f64::NEG_INFINITY;
        }
        self.age = self.age.saturating_add(1);
        if self.event == Event::Wander {
            let known = self.filter.now().project(&unit(SERVER));
            let square = known.mean * known.mean + known.variance;
            let gain = (1.0 / (self.age as f64 + 1.0)).max(1.0 / c.law_memory);
            self.wander += gain * (square - self.wander);
        }
    }
}
