//! Publication: the best estimate, and what is open around it.

use truechimer_model::{INTERVAL, States};
use truechimer_time::{Count, Instant};

use super::Ours;
use super::state::State;
use crate::Estimate;
use crate::causal_rate::UNKNOWN_RATE;
use crate::corridor::{BoundedRate, Corridor};
use crate::declared::Declared;
use crate::number::{fraction, rate, seconds, span};
use crate::quarantine::Quarantine;

impl Ours {
    /// See [`Estimator::estimate`](crate::Estimator::estimate).
    pub(super) fn estimated(&self, state: &State, at: Count) -> Estimate {
        let dt = self.seconds(state.at, at);
        let now = state.model.now().later(dt);
        let rates = self.bounded_rate(&now, self.seconds(state.last_used, at));
        let corridor = state.corridor.later(dt, rates);
        let declared = state.declared.as_ref().and_then(Declared::known);
        let known = declared.and_then(|known| known.later(dt, rates).intersection(&corridor));
        let corridor = known.unwrap_or(corridor);
        let theta = corridor.clamp(now.offset);
        let (all, growth) = self.open(state, &now, rates.error, corridor, at);
        let mut sides = [theta - all.low, all.high - theta]
            .map(|side| side + seconds(self.settings.nominal.span(self.settings.resolution)))
            // What is no number bounds nothing.
            .map(|side| if side.is_nan() { f64::INFINITY } else { side });
        if declared.is_some() {
            // A declaration is no proof: the nearer end is not better than the farther one.
            sides = [sides[0].max(sides[1]); 2];
        }
        let [before, after] = sides;
        let bound = before.max(after);
        let difference = self.doubted_difference(state, &now, growth, at);
        let deviation = deviation(state, &now, difference.rate).min(difference.error);
        let nominal = self.settings.nominal;
        Estimate {
            base: at,
            time: self.time(state, at, theta),
            period: nominal.scaled(rate(now.rate)),
            difference: nominal.scaled(rate(difference.rate)),
            difference_error: rate(difference.error),
            difference_deviation: rate(deviation),
            bound: span(bound),
            imbalance: span(after - before),
            path_bound: span(bound.min(state.path() + state.root_distance)),
            growth: rate(growth),
            deviation: span(libm::sqrt(now.offset_variance)),
            rtt_floor: span(2.0 * state.one_way()),
            spread: self.spread(state, &now, &all, at),
            last_used: state.last_used,
            heard: state.newest(),
        }
    }

    /// Time at a count where θ is `theta`.
    pub(super) fn time(&self, state: &State, at: Count, theta: f64) -> Instant {
        state.anchor.1 + self.settings.nominal.span(at - state.anchor.0) + span(theta)
    }

    /// All that is open at a count, where the estimate's `corridor` grows by `slack`, and how fast
    /// that grows.
    fn open(
        &self,
        state: &State,
        now: &States,
        slack: f64,
        corridor: Corridor,
        at: Count,
    ) -> (Corridor, f64) {
        // Newcomers whose rate is another one may be anywhere that a counter may take them.
        let restless = state.quarantine.is_some_and(|q| q.restless());
        let growth = if restless { slack.max(fraction(UNKNOWN_RATE)) } else { slack };
        let newest = |q: Quarantine| {
            let rate = BoundedRate { rate: state.model.now().rate, error: slack };
            q.corridor(self.seconds(q.newest.received, at), rate)
        };
        // Where the exchanges left what the oscillator promises, that may still be where time is.
        let promised = state.promise.broken.map(|broken| {
            let parting = (broken.rate.rate - now.rate).abs() + broken.rate.error;
            (self.promised(state, at), parting + self.promised_wander(state, at))
        });
        // And where they contradict it, it may have gone wrong before.
        let wide = [promised, self.earlier(state, now, at)];
        let growth = wide.iter().flatten().fold(growth, |all, (_, parting)| all.max(*parting));
        let wide = wide.into_iter().flatten().map(|(open, _)| open);
        let all = wide.chain(state.quarantine.map(newest));
        (all.fold(corridor, |all, open| all.hull(&open)), growth)
    }

    /// The difference clock's rate, and its bound where what is open parts by `growth`: where it is
    /// in doubt what keeps its promise, the rate may be either's.
    fn doubted_difference(
        &self,
        state: &State,
        now: &States,
        growth: f64,
        at: Count,
    ) -> BoundedRate {
        let BoundedRate { rate, error } = self.difference(state, now, at);
        let restless = state.quarantine.is_some_and(|q| q.restless());
        let is_doubted = restless || state.promise.broken.is_some();
        let either = if is_doubted { (rate - now.rate).abs() + growth } else { 0.0 };
        BoundedRate { rate, error: error.max(either) }
    }
}

/// Standard uncertainty of the difference clock's `rate`. The rate of the moment may be near that
/// mean by chance: it moves between exchanges, and walks away from the mean of an interval by a
/// third of what it gains in that.
fn deviation(state: &State, now: &States, rate: f64) -> f64 {
    let strayed = ((now.rate - rate) * (now.rate - rate)).max(now.walk * INTERVAL / 3.0);
    libm::sqrt(strayed.max(state.strayed) + now.rate_variance)
}
