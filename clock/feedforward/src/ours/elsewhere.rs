//! Another server takes the place of the one that was asked, on another path.
//!
//! What is known of the oscillator has nothing to do with servers. What is known of time does: each
//! word is as good as its path and its root distance. A far server cannot tell where time is as
//! well as a near one did, but how its path is shared shows by what the near one said; a nearer one
//! tells better, and the clock goes there at once. Either way no more of θ is left open than both
//! allow.

use truechimer_model::Known;

use super::Ours;
use super::agreement::Arrival;
use super::likely::Waits;
use super::past::SHARE;
use super::state::State;
use crate::RatePrior;
use crate::causal_rate::CausalRate;
use crate::corridor::{BoundedRate, Corridor};
use crate::number::rate;

impl Ours {
    /// See [`Estimator::change_server`](crate::Estimator::change_server).
    pub(super) fn leave_server(&mut self, others: bool) {
        self.elsewhere = self.state.is_some() && !others;
        if let Some(state) = &mut self.state {
            state.further.clear();
        }
        let Some(state) = self.state.take_if(|_| others) else { return };
        let now = state.model.now();
        let known = BoundedRate { rate: now.rate, error: self.likely_slack(now) };
        let period = self.settings.nominal.scaled(rate(known.rate));
        self.prior = RatePrior { period, error: rate(known.error) };
        self.time_prior = None;
        self.causal = CausalRate::new(known);
    }

    /// The exchange is the first with another server; it leaves `both` of what was known open.
    pub(super) fn begin_path(&self, state: &mut State, a: &Arrival, both: &Corridor) {
        let Arrival { m, rate, before, own, .. } = a;
        let rtt = m.round_trip(rate.rate).max(0.0);
        let middle = m.middle(rate.rate);
        let theta = Known { mean: both.clamp(middle), deviation: rtt / 4.0 + m.of_stamps() };
        let nearer = own.width() < SHARE * before.width();
        let theta = nearer.then_some(theta);
        state.model.begin_path(m.sample(), theta, m.noise());
        state.excess = rtt / 2.0;
        state.waits = Waits::new();
        state.past.forget();
        state.declared = self.declared();
    }
}
