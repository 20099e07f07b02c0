//! How far the rate may be from what is believed of it.

use truechimer_model::States;
use truechimer_time::Count;

use super::state::State;
use super::{Ours, RATE_SIGMAS, WANDER_ROOM};
use crate::number::fraction;
use crate::slow::{FloorKnown, PAST_SECONDS, SlowRate};

/// In the first hour the model's rate is doubted if it is so many standard deviations from that of
/// a pair.
const YOUNG: f64 = 3600.0;
const ODD: f64 = 4.0;
/// The promise about the oscillator is one about the recent past: within `max-wander` of its mean
/// over up to 2.8 hours. A rate that moves evenly may so move by `max-wander` in half of that, s.
pub(super) const WANDER_SECONDS: f64 = PAST_SECONDS / 2.0;

impl Ours {
    /// How far the rate is likely to be from the model's: by its own word, and by the pairs of
    /// exchanges near the floor.
    pub(super) fn likely_slack(&self, now: &States, floor: FloorKnown) -> f64 {
        let slow = self.slow.rate(floor);
        let apart = (slow.rate - now.rate).abs() + slow.error;
        (RATE_SIGMAS * libm::sqrt(now.rate_variance)).max(apart)
            + fraction(self.settings.max_wander)
    }

    /// How far the rate may have strayed from what was measured, `stale` seconds after the last
    /// exchange that was used: by the promise about its recent past, which recedes.
    pub(super) fn wander(&self, stale: f64) -> f64 {
        fraction(self.settings.max_wander) * (1.0 + stale.max(0.0) / WANDER_SECONDS)
    }

    /// How far the rate may be from the model's, whatever the path did to the model: no less than
    /// what causality leaves open, and no more than an oscillator may stray that breaks its
    /// promise.
    pub(super) fn rate_slack(&self, now: &States, stale: f64) -> f64 {
        let causal = self.slow.causal_rate();
        let open = (causal.rate - now.rate).abs() + causal.error;
        let most = open + (WANDER_ROOM - 1.0) * fraction(self.settings.max_wander);
        (RATE_SIGMAS * libm::sqrt(now.rate_variance)).min(most).max(open) + self.wander(stale)
    }

    /// Where the rate is `at` a count, but for `max-wander`, by causality and what the oscillator
    /// promises: by all pairs of exchanges, of which each is of a past that recedes.
    pub(super) fn confined_rate(&self, at: Count) -> SlowRate {
        self.slow.confined_rate(|near| self.wander(self.seconds(near, at)) - self.wander(0.0))
    }

    /// The difference clock's rate: the model's, for the last 1000 s, as soon as it knows all of
    /// them. Till then the pair's; in the first hour also where that is likely to be nearer, or far
    /// from the model's for what either may be off.
    pub(super) fn difference_rate(&self, state: &State, now: &States) -> f64 {
        let floor = state.floor_known();
        let pair = self.slow.difference(floor).rate;
        let variance =
            self.slow.difference_variance(floor, |near| self.seconds(near, state.last_used));
        let apart = pair - now.mean_rate;
        let odd = apart * apart > ODD * ODD * (variance + now.mean_rate_variance);
        let young = self.seconds(state.first, state.last_used) < YOUNG;
        let better = variance < now.mean_rate_variance || odd;
        if !state.model.knows_past() || young && better { pair } else { now.mean_rate }
    }

    /// How far the rate of any interval of the recent past may be from a `difference` rate, `stale`
    /// seconds after the last exchange that was used.
    ///
    /// By proof. An interval's mean rate is a mean of the rates within it; of each of these the
    /// oscillator promises that it is within `max-wander` of the mean rate of any stretch of the
    /// recent past. The mean rate of a stretch between two exchanges is confined by causality
    /// alone, to between (low of the later − high of the earlier) and (high of the later − low of
    /// the earlier) over the time between. So the rate lies within `max-wander` of each of these
    /// ranges, and thus within `max-wander` of where all of them meet. No delay floor comes in, no
    /// model, and no correction of the offset.
    pub(super) fn difference_error(&self, difference: f64, at: Count, stale: f64) -> f64 {
        let confined = self.confined_rate(at);
        (confined.rate - difference).abs() + confined.error + self.wander(stale)
    }
}
