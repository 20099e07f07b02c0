//! The first exchange, beside what may be known of time from an earlier clock.

use alloc::boxed::Box;

use truechimer_model::Known;

use super::further::Further;
use super::likely::Waits;
use super::measured::Measured;
use super::past::Past;
use super::promise::Promise;
use super::state::State;
use super::{FLOOR_NOISE, Ours, SIGMAS, prior_rate};
use crate::causal_rate::UNKNOWN_RATE;
use crate::corridor::{BoundedRate, Corridor};
use crate::number::{fraction, seconds};
use crate::quarantine::Quarantine;
use crate::{Accepted, Disputed, Exchange, Refusal, TimePrior};

/// Before the first exchange the rate is thought to be known to this, however wide its bound:
/// crystals and the kernel's calibration are seldom off by more than twice as much.
const FIRST_RATE: f64 = 25e-6;

impl Ours {
    /// The first exchange: time is known to half the round trip at once. If it contradicts the time
    /// that was known before, that stands, and the exchange begins a quarantine.
    pub(super) fn first(&self, x: &Exchange) -> (Box<State>, Result<Accepted, Refusal>) {
        // θ is counted from what is held, so that it stays small if the server is far off.
        let held = |prior: TimePrior| {
            prior.time + self.settings.nominal.span(x.received.count - prior.count)
        };
        let anchor = (x.received.count, self.time_prior.map_or(x.server_sent, held));
        let m = self.measure(anchor, x);
        let prior = prior_rate(self.prior, self.settings.nominal);
        let rate = prior.wider(fraction(self.settings.max_wander));
        let own = m.corridor(rate);
        let middle = own.clamp(m.middle(rate.rate));
        let known = self.time_prior.map(|time| (self.known_before(&time, &m, rate), time));
        let contradicted = known.filter(|(known, time)| {
            known.intersection(&own).is_none() || is_doubted_again(time, known, &own, middle)
        });
        let corridor = match (contradicted, known) {
            (Some((known, _)), _) => known,
            (None, known) => known.and_then(|(known, _)| known.intersection(&own)).unwrap_or(own),
        };
        let rtt = m.round_trip(rate.rate).max(0.0);
        let (theta, deviation) = match contradicted {
            Some(_) => (corridor.middle(), corridor.width() / 2.0),
            None => {
                (corridor.clamp(m.middle(rate.rate)), rtt / 2.0 + m.stamp_errors() + FLOOR_NOISE)
            }
        };
        let before = self.time_prior.and_then(|time| time.known);
        let mut state = Box::new(State {
            anchor,
            model: m.model(
                Known { mean: theta, deviation: deviation / 2.0 },
                Known { mean: rate.rate, deviation: (prior.error / SIGMAS).min(FIRST_RATE) },
                self.constants,
            ),
            at: m.received,
            corridor,
            promise: Promise::new(m.received, corridor),
            further: Further::default(),
            quarantine: None,
            unproven: contradicted.is_some(),
            before,
            strayed: 0.0,
            excess: rtt / 2.0,
            waits: Waits::new(),
            root_distance: m.root_distance,
            declared: self.declared(),
            past: Past::new(self.settings.nominal),
            begun: before.map_or(m.received, |(since, _)| since),
            last_used: m.received,
        });
        if let Some((_, time)) = contradicted {
            state.last_used = time.count;
            state.quarantine = Some(self.contradicting(&time, m, own, corridor, middle));
            return (state, Err(Refusal::ServerStep));
        }
        if let Some(declared) = &mut state.declared {
            declared.take(rtt, state.excess, &state.corridor, 0.0, rate);
        }
        state.model.take(m.sample(), rate.error, false);
        state.clamp(rate.error);
        (state, Ok(Accepted::Refined))
    }

    /// Where θ is at an exchange by what was known of time before.
    fn known_before(&self, time: &TimePrior, m: &Measured, rate: BoundedRate) -> Corridor {
        let bound = seconds(time.bound);
        let dt = self.seconds(time.count, m.received);
        Corridor { low: -bound, high: bound }.later(dt, rate)
    }

    /// Quarantine of a first exchange, by which θ is at `middle`, that contradicts what was `known`.
    fn contradicting(
        &self,
        time: &TimePrior,
        m: Measured,
        own: Corridor,
        known: Corridor,
        middle: f64,
    ) -> Quarantine {
        let step = middle - known.middle();
        let mut quarantine = Quarantine::new(m, own, known.shifted(-known.middle()), step);
        quarantine.suspected = false;
        if let Some(Disputed::Step(since, before)) = time.doubted {
            let drifted = fraction(UNKNOWN_RATE) * self.seconds(time.count, m.received).abs();
            if (step - seconds(before)).abs() <= own.width() + drifted {
                // They have said so since then, to somebody else.
                (quarantine.steady.since, quarantine.loose.since) = (since, since);
            }
        }
        quarantine
    }
}

/// True if a first exchange, by which θ is at `middle`, says again what was in doubt before: that
/// stays so, even if what is known has become as vague meanwhile.
fn is_doubted_again(time: &TimePrior, known: &Corridor, own: &Corridor, middle: f64) -> bool {
    let centre = known.middle();
    let step = middle - centre;
    match time.doubted {
        Some(Disputed::Step(_, before)) => (step - seconds(before)).abs() < step.abs(),
        // Nearer to the end of what was covered then than to that of what was known.
        Some(Disputed::Beyond(by)) => {
            own.clamp(centre) != centre && step.abs() > seconds(time.bound) + seconds(by) / 2.0
        }
        None => false,
    }
}
