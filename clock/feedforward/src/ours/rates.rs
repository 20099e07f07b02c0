//! Distance that the rate may have from what is believed of it.

use truechimer_model::States;
use truechimer_time::Count;

use super::state::State;
use super::{Ours, SIGMAS, WANDER_ROOM};
use crate::causal_rate::PAST_SECONDS;
use crate::corridor::BoundedRate;
use crate::number::fraction;

/// The promise about the oscillator is one about the recent past: within `max-wander` of its mean
/// over up to 2.8 hours. A rate that moves evenly may so move by `max-wander` in half of that, s.
pub(super) const WANDER_SECONDS: f64 = PAST_SECONDS / 2.0;

impl Ours {
    /// Distance of the rate from the model's that is likely at most, by its own word.
    pub(super) fn likely_slack(&self, now: &States) -> f64 {
        SIGMAS * libm::sqrt(now.rate_variance) + fraction(self.settings.max_wander)
    }

    /// Distance by which the rate may have strayed from what was measured, `stale` seconds after the last
    /// exchange that was used: by the promise about its recent past, which recedes.
    pub(super) fn wander(&self, stale: f64) -> f64 {
        fraction(self.settings.max_wander) * (1.0 + stale.max(0.0) / WANDER_SECONDS)
    }

    /// The model's rate, and how far the rate may be from it, whatever the path did to the model: no
    /// less than what causality leaves open, and no more than an oscillator may stray that breaks
    /// its promise.
    pub(super) fn bounded_rate(&self, now: &States, stale: f64) -> BoundedRate {
        let causal = self.causal.rate();
        let open = (causal.rate - now.rate).abs() + causal.error;
        let most = open + (WANDER_ROOM - 1.0) * fraction(self.settings.max_wander);
        let error = (SIGMAS * libm::sqrt(now.rate_variance)).min(most).max(open);
        BoundedRate { rate: now.rate, error }.wider(self.wander(stale))
    }

    /// That rate at a count, as the newest exchange left it.
    pub(super) fn newest_rate(&self, state: &State, at: Count) -> BoundedRate {
        self.bounded_rate(state.model.now(), self.seconds(state.last_used, at))
    }

    /// Where the rate is `at` a count, but for `max-wander`, by causality and what the oscillator
    /// promises: by all pairs of exchanges, of which each is of a past that recedes.
    pub(super) fn confined_rate(&self, at: Count) -> BoundedRate {
        self.causal.confined_rate(|near| self.wander(self.seconds(near, at)) - self.wander(0.0))
    }

    /// The difference clock's rate: the model's mean rate, kept where causality and the oscillator's
    /// promise leave it; and how far the rate of any interval of the recent past may be from it.
    ///
    /// By proof. An interval's mean rate is a mean of the rates within it; of each of these the
    /// oscillator promises that it is within `max-wander` of the mean rate of any stretch of the
    /// recent past. The mean rate of a stretch between two exchanges is confined by causality
    /// alone, to between (low of the later − high of the earlier) and (high of the later − low of
    /// the earlier) over the time between. So the rate lies within `max-wander` of each of these
    /// ranges, and thus within `max-wander` of where all of them meet. No delay floor comes in, no
    /// model, and no correction of the offset.
    pub(super) fn difference(&self, state: &State, now: &States, at: Count) -> BoundedRate {
        let confined = self.confined_rate(at);
        let open = confined.error + self.wander(self.seconds(state.last_used, at));
        let kept = now.mean_rate.max(confined.rate - open).min(confined.rate + open);
        let rate = if state.promise.broken.is_some() { now.mean_rate } else { kept };
        BoundedRate { rate, error: (confined.rate - rate).abs() + open }
    }
}
