//! A bank of filters, one for each idea of how restless the oscillator is.
//!
//! They see the same exchanges, and each is believed as far as it foretold them.

#![allow(clippy::indexing_slicing)] // All indices run over arrays of a fixed length.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::delay::{Law, Weights, read};
use crate::filter::{FLOORS, Filter, Known, RATE, THETA, Vector, sums};
use crate::moved::Suspicion;
use crate::parts::Parts;
use crate::past::INTERVAL;
use crate::shift::Recent;
use crate::start::Start;

/// Random walks of the oscillator's rate, per √s, four times apart: from an oven to a fan that
/// stops (4·10⁻⁷ is 1 ppm within seconds).
const WALKS: [f64; MEMBERS] = [1e-10, 4e-10, 1.6e-9, 6.4e-9, 2.56e-8, 1.024e-7, 4.096e-7];
const MEMBERS: usize = 7;
/// The one that is left without the others.
const ONE_WALK: f64 = 2e-9;
/// Logarithms of how likely each is beforehand: most hosts have quartz in still air.
const PRIOR: [f64; MEMBERS] = [-1.0, 0.0, 0.0, 0.0, -1.0, -3.0, -9.0];
/// Memory of how well each foretold, exchanges: a quarter of an hour at 16 s, since air
/// conditioning comes and goes.
const MEMORY: f64 = 64.0;
/// However badly one foretold, it counts again after one exchange that no other explains.
const LEAST_LOG: f64 = -12.0;
/// One that is not believed starts again from the best when they are so many standard deviations
/// apart.
const APART: f64 = 4.0;
/// The floors' random walk per exchange, as a share of the typical delay on the idle path. It
/// keeps them open to small changes.
const FLOOR_WALK: f64 = 1e-3;
/// With a blurred floor, the noise is never less than this share of the typical delay.
const LEAST_BLUR: f64 = 0.15;
/// A round trip that exceeds its floor by so many times what is usual says nothing of the
/// oscillator.
const FAR: f64 = 8.0;
/// The usual is this quantile of what round trips exceed their floor by; ...
const QUANTILE: f64 = 0.3;
/// ... it follows so fast per exchange (tenfold takes four hours at 16 s) ...
const QUIET_GAIN: f64 = 1.0 / 128.0;
/// ... and is never less, s.
const LEAST_QUIET: f64 = 1e-7;
/// For so many exchanges after a change of the path, what its first packets said of the floors is
/// doubted before the clock is.
const SETTLING: u32 = 16;
/// Memory of how often the clock itself was surprised, exchanges.
const SURPRISE_MEMORY: f64 = 16.0;
/// So many surprises of late mean that the estimate is lost.
const LOST: f64 = 3.0;

/// An exchange as the filters see it: what the request's stamps say of θ + floor, and the reply's
/// of floor − θ, both too large by what queueing adds, s; and how long the exchange took, s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) late: [f64; 2],
    pub(crate) duration: f64,
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(crate) struct Bank {
    pub(super) members: [Filter; MEMBERS],
    /// How many of the members are in use: at the very start one will do.
    active: usize,
    logs: [f64; MEMBERS],
    /// What was known of them before the path began.
    walks: [f64; MEMBERS],
    weights: [f64; MEMBERS],
    pub(super) laws: [Law; 2],
    /// The floor is thought to be blurred, not sharp.
    soft: bool,
    /// The path is known to have sharp floors: what is early is news.
    pub(super) sharp: bool,
    pub(super) parts: Parts,
    pub(super) now: Belief,
    /// Logarithm of how likely the newest exchange was: each direction, and both.
    pub(super) densities: [f64; 2],
    evidence: f64,
    /// Time since the first exchange and since the one before, s.
    pub(super) time: f64,
    pub(super) gap: f64,
    /// How often of late the clock itself was surprised.
    surprises: f64,
    pub(super) recent: VecDeque<Recent>,
    /// The exchange in hand says nothing of the oscillator.
    pub(super) held: bool,
    /// What round trips exceed the floors by when the path is quiet, s.
    quiet: f64,
    /// How many exchanges it has seen since its start.
    pub(super) count: u32,
    /// The first of these after the path has changed last.
    pub(super) changed: Option<u32>,
    pub(super) start: Option<Start>,
    /// It may be the server that has moved.
    pub(super) suspicion: Option<Suspicion>,
    /// How far our rate may stray; none, if steps of the server are not looked for.
    pub(super) strays: Option<f64>,
}

/// What all of them together know at one instant.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Belief {
    pub(crate) theta: f64,
    pub(crate) rate: f64,
    pub(crate) floors: [f64; 2],
    pub(crate) theta_var: f64,
    pub(crate) covariance: f64,
    pub(crate) rate_var: f64,
    /// Variance that the rate gains per second.
    pub(crate) walk: f64,
    /// The mean rate of the last 1000 s, and its variance: for an interval that ends so far ahead,
    /// s.
    pub(crate) mean_rate: f64,
    pub(crate) mean_rate_var: f64,
    pub(crate) ahead: f64,
}

impl Belief {
    /// The belief `dt` seconds later (or earlier).
    #[must_use]
    pub(crate) fn later(&self, dt: f64) -> Belief {
        let noise = dt.abs();
        let variance = self.theta_var
            + 2.0 * dt * self.covariance
            + dt * dt * self.rate_var
            + self.walk * noise * noise * noise / 3.0;
        // The newest of the interval is as now.
        let newer = ((dt - 2.0 * self.ahead) / INTERVAL).clamp(0.0, 1.0);
        Belief {
            mean_rate: self.mean_rate + newer * (self.rate - self.mean_rate),
            theta: self.theta + self.rate * dt,
            theta_var: variance.max(0.0),
            covariance: self.covariance + dt * self.rate_var + self.walk * dt * noise / 2.0,
            rate_var: self.rate_var + self.walk * noise,
            ..*self
        }
    }

    /// Whether two clocks will be told apart by where they go.
    pub(super) fn is_apart(&self, other: &Belief) -> bool {
        let by = self.theta - other.theta;
        by * by > self.theta_var.min(other.theta_var)
    }

    /// What is known if each of some beliefs is right with a probability.
    pub(crate) fn mixed(beliefs: impl Iterator<Item = (f64, Belief)> + Clone) -> Belief {
        let mut all = Belief::default();
        for (w, b) in beliefs.clone() {
            all.theta += w * b.theta;
            all.rate += w * b.rate;
            all.floors[0] += w * b.floors[0];
            all.floors[1] += w * b.floors[1];
            all.mean_rate += w * b.mean_rate;
        }
        for (w, b) in beliefs {
            let (theta, rate) = (b.theta - all.theta, b.rate - all.rate);
            all.theta_var += w * (b.theta_var + theta * theta);
            all.covariance += w * (b.covariance + theta * rate);
            all.rate_var += w * (b.rate_var + rate * rate);
            all.walk += w * b.walk;
            all.ahead += w * b.ahead;
            let mean = b.mean_rate - all.mean_rate;
            all.mean_rate_var += w * (b.mean_rate_var + mean * mean);
        }
        all
    }

    pub(crate) fn of(filter: &Filter) -> Belief {
        let mean = filter.mean_rate();
        Belief {
            mean_rate: mean.rate,
            mean_rate_var: mean.variance,
            ahead: filter.ahead(),
            theta: filter.x[THETA],
            rate: filter.x[RATE],
            floors: FLOORS.map(|i| filter.x[i]),
            theta_var: filter.p[THETA][THETA],
            covariance: filter.p[THETA][RATE],
            rate_var: filter.p[RATE][RATE],
            walk: filter.walk * filter.walk,
        }
    }
}

impl Bank {
    /// A bank that knows so much before its first exchange; `noise` is that of either direction's
    /// stamps, s.
    pub(crate) fn new(
        theta: Known,
        rate: Known,
        floor: Known,
        noise: [f64; 2],
        soft: bool,
        parts: Parts,
    ) -> Bank {
        let filter = Filter::new(theta, rate, floor, Start::WALK);
        let start = Start::new(filter, noise, 2.0 * floor.mean);
        let mut bank = Bank {
            members: [filter; MEMBERS],
            active: MEMBERS,
            logs: PRIOR,
            walks: PRIOR,
            weights: [1.0 / MEMBERS as f64; MEMBERS],
            laws: start.laws(rate.mean, soft),
            soft,
            sharp: false,
            parts,
            now: Belief::default(),
            densities: [0.0; 2],
            evidence: 0.0,
            time: 0.0,
            gap: 0.0,
            surprises: 0.0,
            recent: VecDeque::new(),
            held: false,
            quiet: 0.0,
            count: 0,
            changed: None,
            start: Some(start),
            suspicion: None,
            strays: None,
        };
        if !parts.start {
            bank.start = None;
            bank.spread();
        }
        bank.combine();
        bank
    }

    /// What is known now.
    pub(crate) fn now(&self) -> Belief {
        self.now
    }

    /// Logarithm of how likely the newest exchange was, 0 at the start.
    pub(crate) fn evidence(&self) -> f64 {
        self.evidence
    }

    /// The clock has been surprised so often that its past is no guide.
    pub(crate) fn lost(&self) -> bool {
        self.surprises > LOST
    }

    /// Moves on by `dt` seconds, to the arrival of the next exchange.
    pub(crate) fn predict(&mut self, dt: f64) {
        self.advance(dt);
        self.time += dt;
        // What is not learnt from leaves the clock to itself.
        self.gap = if self.suspects() { self.gap + dt } else { dt };
        self.combine();
    }

    /// Takes in an exchange that has just arrived; the rate is known to `slack`. What comes back
    /// is the change of the round trip's floor, s, if it has shifted; and, if the exchange is a
    /// surprise, banks for what else may have happened.
    pub(crate) fn take(&mut self, seen: Seen, slack: f64) -> (Option<f64>, Vec<Bank>) {
        if self.start.is_some() {
            self.take_first(seen);
            return (None, Vec::new());
        }
        let suspicion = self.suspicion;
        if let Some(evidence) = self.suspect(seen) {
            self.evidence = evidence;
            return (None, Vec::new());
        }
        let besides = suspicion.and_then(|suspicion| self.on_a_shorter_path(seen, suspicion));
        self.hold(seen);
        self.count = self.count.saturating_add(1);
        let mut after = self.without_past();
        after.evidence = after.absorb(seen);
        let mut others = self.surprise(seen, slack, &mut after);
        others.extend(besides);
        let recent = core::mem::take(&mut self.recent);
        *self = after;
        if others.is_empty() {
            self.recent = recent;
        }
        self.surprises *= 1.0 - 1.0 / SURPRISE_MEMORY;
        for other in &mut others {
            other.surprises *= 1.0 - 1.0 / SURPRISE_MEMORY;
            let _ = other.shifted(seen);
        }
        (self.shifted(seen), others)
    }

    /// What waited long says nothing of the oscillator: a queue that grows looks like a drift.
    fn hold(&mut self, seen: Seen) {
        let floors: f64 = self.now.floors.iter().sum();
        let excess = seen.late.iter().sum::<f64>() + self.now.rate * seen.duration - floors;
        let idle = self.laws[0].idle() + self.laws[1].idle();
        if self.quiet == 0.0 {
            self.quiet = idle;
        }
        self.held = excess > FAR * self.quiet || self.settling();
        let step = if excess > self.quiet { QUANTILE } else { QUANTILE - 1.0 };
        self.quiet = (self.quiet * (1.0 + step * QUIET_GAIN)).max(LEAST_QUIET);
    }

    /// The path has just changed: what strays says more of its floors than of the clock.
    pub(super) fn settling(&self) -> bool {
        self.changed.is_some_and(|count| self.count - count < SETTLING)
    }

    /// The offset is proven to be at least `by` off: so neither it nor the rate was worth what its
    /// variance said.
    pub(crate) fn refute(&mut self, by: f64, slack: f64) {
        self.surprises += 1.0;
        for filter in &mut self.members {
            filter.correct(&[by, 0.0, 0.0, 0.0], -1.0, 1.0);
            filter.inflate(&[0.0, slack, 0.0, 0.0], 1.0);
        }
        self.combine();
    }

    /// See [`Panel::go_ahead`](crate::panel::Panel::go_ahead).
    pub(crate) fn go_ahead(&mut self, by: f64, variance: f64) {
        self.suspicion = None;
        for filter in &mut self.members {
            filter.correct(&[1.0, 0.0, 0.0, 0.0], by, variance);
        }
        self.combine();
    }

    /// See [`Panel::turn`](crate::panel::Panel::turn).
    pub(crate) fn turn(&mut self, by: f64) {
        for filter in &mut self.members {
            filter.correct(&[-by, 0.0, by, -by], 1.0, 0.0);
        }
        self.combine();
    }

    /// See [`Panel::begin_path`](crate::panel::Panel::begin_path).
    pub(crate) fn begin_path(
        &mut self,
        floors: [Known; 2],
        theta: Option<Known>,
        noise: [f64; 2],
        rtt: f64,
    ) {
        for filter in &mut self.members {
            if let Some(theta) = theta {
                let by = theta.mean - filter.x[THETA];
                filter.correct(&[1.0, 0.0, 0.0, 0.0], by, theta.deviation * theta.deviation);
            }
            filter.begin_path(floors, theta.is_some());
        }
        (self.recent, self.quiet, self.suspicion) = (VecDeque::new(), 0.0, None);
        if self.start.is_none() {
            self.walks = self.logs;
        }
        let start = Start::new(*self.best(), noise, rtt);
        self.laws = start.laws(self.now.rate, self.soft);
        self.start = Some(start);
        self.combine();
    }

    /// The rate is proven to lie in `low..=high`.
    pub(crate) fn confine(&mut self, low: f64, high: f64) {
        for filter in &mut self.members {
            filter.confine(low, high);
        }
        self.combine();
    }

    /// The member that foretold best.
    pub(super) fn best(&self) -> &Filter {
        let best =
            (1..self.active).fold(0, |a, b| if self.weights[b] > self.weights[a] { b } else { a });
        &self.members[best]
    }

    /// The same without the memory of earlier exchanges.
    pub(super) fn without_past(&self) -> Bank {
        Bank { recent: VecDeque::new(), start: None, laws: self.laws.clone(), ..*self }
    }

    pub(super) fn tried(mut self, seen: Seen) -> Bank {
        self.evidence = self.absorb(seen);
        self
    }

    pub(super) fn evidence_less(&mut self, cost: f64) {
        self.evidence -= cost;
    }

    pub(super) fn set_evidence(&mut self, evidence: f64) {
        self.evidence = evidence;
    }

    /// The first exchanges are over.
    pub(crate) fn started(&self) -> bool {
        self.start.is_none()
    }

    pub(super) fn count_surprise(&mut self) {
        self.surprises += 1.0;
    }

    /// Leaves one member, which knows no more than this.
    pub(super) fn begin(&mut self, filter: Filter) {
        self.members[0] = filter;
        self.weights = [0.0; MEMBERS];
        self.weights[0] = 1.0;
        self.active = 1;
    }

    /// All members go on from the first.
    pub(super) fn spread(&mut self) {
        let walks = if self.parts.walks { WALKS } else { [ONE_WALK; MEMBERS] };
        self.members = walks.map(|walk| Filter { walk, ..self.members[0] });
        self.active = MEMBERS;
        self.logs = self.walks;
        self.weigh();
        self.combine();
    }

    /// Whether floors are known to be sharp on this path, and how far our rate may stray, if steps
    /// of the server are to be told from that.
    pub(crate) fn expect(&mut self, sharp: bool, strays: Option<f64>) {
        (self.sharp, self.strays) = (sharp, strays);
    }

    pub(super) fn is_soft(&self) -> bool {
        self.soft
    }

    pub(super) fn advance(&mut self, dt: f64) {
        let typical = (self.laws[0].idle() + self.laws[1].idle()) / 2.0;
        let floor_walk = if self.parts.floor_walk { FLOOR_WALK * typical } else { 0.0 };
        for filter in &mut self.members[..self.active] {
            filter.predict(dt, floor_walk);
        }
    }

    /// Lets every member take in an exchange; what comes back is the logarithm of how likely it
    /// was.
    pub(super) fn absorb(&mut self, seen: Seen) -> f64 {
        let mut logs = [0.0; MEMBERS];
        for (d, sum) in sums(seen.duration).iter().enumerate() {
            self.densities[d] = 0.0;
            self.absorb_direction(d, sum, seen.late[d], &mut logs);
        }
        if self.soft {
            // Different blurs would make the floors different, which nothing can tell from θ.
            let least = self.laws[0].noise.min(self.laws[1].noise);
            self.laws.iter_mut().for_each(|law| law.noise = least);
        }
        let logs = &logs[..self.active];
        let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let likely: f64 =
            logs.iter().zip(self.weights).map(|(log, w)| w * libm::exp(log - top)).sum();
        for (m, log) in logs.iter().enumerate().filter(|_| !self.held) {
            self.logs[m] += (PRIOR[m] - self.logs[m]) / MEMORY + log;
        }
        if self.active == MEMBERS {
            self.weigh();
            self.reset_strays();
        }
        self.combine();
        top + libm::log(likely)
    }

    fn absorb_direction(&mut self, d: usize, sum: &Vector, late: f64, logs: &mut [f64; MEMBERS]) {
        let noise = self.laws[d].noise;
        let predicted = match self.parts.law_state {
            true => self.laws[d].predicted(),
            false => self.laws[d].long_run(),
        };
        let mut weights = Weights::default();
        let mut squared_noise = 0.0;
        for (m, filter) in self.members[..self.active].iter_mut().enumerate() {
            let known = filter.project(sum);
            let total = known.variance + noise;
            let deviation = libm::sqrt(total);
            let reading = read(&predicted, (late - known.mean) / deviation, deviation);
            let by = late - known.mean - deviation * reading.excess;
            filter.absorb(&known, total, by, total * (1.0 - reading.variance));
            logs[m] += reading.log_density;
            // What the members think, each as far as it is believed.
            let (w, share) = (self.weights[m], noise / total);
            self.densities[d] += w * reading.log_density;
            squared_noise +=
                w * (known.variance * share + share * share * (total * reading.variance + by * by));
            for (all, one) in weights.iter_mut().zip(reading.weights) {
                *all += w * one;
            }
        }
        self.laws[d].learn(&weights, squared_noise);
        if self.soft {
            let least = LEAST_BLUR * self.laws[d].idle();
            self.laws[d].noise = self.laws[d].noise.max(least * least);
        }
    }

    /// Turns what the members foretold into weights.
    fn weigh(&mut self) {
        let top = self.logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        self.logs = self.logs.map(|log| (log - top).max(LEAST_LOG));
        self.weights = self.logs.map(libm::exp);
        let sum: f64 = self.weights.iter().sum();
        self.weights = self.weights.map(|w| w / sum);
    }

    /// A member that is not believed and far from the best is of no use where it is.
    fn reset_strays(&mut self) {
        let best = *self.best();
        for (filter, log) in self.members.iter_mut().zip(self.logs) {
            let apart = |i: usize| {
                let by = filter.x[i] - best.x[i];
                by * by > APART * APART * (filter.p[i][i] + best.p[i][i])
            };
            if log <= LEAST_LOG && (apart(THETA) || apart(RATE)) {
                *filter = Filter { walk: filter.walk, ..best };
            }
        }
    }

    pub(super) fn combine(&mut self) {
        let beliefs = self.members[..self.active].iter().zip(self.weights);
        self.now = Belief::mixed(beliefs.map(|(filter, w)| (w, Belief::of(filter))));
    }
}
