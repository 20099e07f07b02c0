//! A filter that is told the truth about its oscillator and its path, as a measure for the others.
//!
//! It knows how far the oscillator's rate walks, both floors, and that what comes on top is
//! exponential, with which mean. What it makes of the stamps is, but for the moments that are all
//! it keeps of a belief, the best that can be made of them; no clock is told as much.

#![allow(clippy::indexing_slicing)] // All indices run over arrays of a fixed length.

use truechimer_time::{Count, Instant, Rate, Span};

use crate::bank::Belief;
use crate::filter::{Filter, Known, sums};
use crate::number::{rate, seconds, span};
use crate::tail::Cut;
use crate::{Accepted, Estimate, Estimator, Exchange, Refusal, Settings};

/// What it does not know before the first exchange: the offset, s, and the rate.
const OFFSET: f64 = 1.0;
const RATE: f64 = 1e-4;

/// What it is told.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Truth {
    /// Random walk of the oscillator's rate, per √s.
    pub walk: f64,
    /// The least delay of a request and of a reply, s.
    pub floors: [f64; 2],
    /// The mean of what comes on top, exponentially, s.
    pub queues: [f64; 2],
    /// Noise of a stamp, s.
    pub noise: f64,
}

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Told {
    settings: Settings,
    truth: Truth,
    filter: Filter,
    anchor: Option<(Count, Instant)>,
    at: Count,
}

impl Told {
    /// One that knows so much.
    #[must_use]
    pub fn new(settings: Settings, truth: Truth) -> Told {
        let known = |deviation| Known { mean: 0.0, deviation };
        let filter = Filter::new(known(OFFSET), known(RATE), known(0.0), truth.walk);
        Told { settings, truth, filter, anchor: None, at: Count::default() }
    }

    fn seconds(&self, from: Count, to: Count) -> f64 {
        seconds(self.settings.nominal.span(to - from))
    }
}

impl Estimator for Told {
    fn exchange(&mut self, x: &Exchange) -> Result<Accepted, Refusal> {
        if (x.received.count - x.sent.count).0 <= 0 {
            return Err(Refusal::CounterBackwards);
        }
        let first = self.anchor.is_none();
        let anchor = *self.anchor.get_or_insert((x.received.count, x.server_sent));
        if !first {
            self.filter.predict(self.seconds(self.at, x.received.count), 0.0);
        }
        self.at = x.received.count;
        let shown = |count: Count| anchor.1 + self.settings.nominal.span(count - anchor.0);
        let late = [
            seconds(x.server_received - shown(x.sent.count)),
            seconds(shown(x.received.count) - x.server_sent),
        ];
        let duration = self.seconds(x.sent.count, x.received.count);
        for (d, sum) in sums(duration).iter().enumerate() {
            let known = self.filter.project(sum);
            let total = known.variance + self.truth.noise * self.truth.noise;
            let deviation = libm::sqrt(total);
            let over = late[d] - self.truth.floors[d] - known.mean;
            let cut = Cut::new(over / deviation, deviation, self.truth.queues[d]);
            let by = over - deviation * cut.excess;
            self.filter.absorb(&known, total, by, total * (1.0 - cut.variance));
        }
        Ok(Accepted::Refined)
    }

    fn estimate(&self, at: Count) -> Option<Estimate> {
        let (count, time) = self.anchor?;
        let now = Belief::of(&self.filter).later(self.seconds(self.at, at));
        let nominal = self.settings.nominal;
        let deviation = span(libm::sqrt(now.theta_var));
        Some(Estimate {
            base: at,
            time: time + nominal.span(at - count) + span(now.theta),
            period: nominal.scaled(rate(now.rate)),
            difference: nominal.scaled(rate(now.mean_rate)),
            difference_error: rate(libm::sqrt(now.mean_rate_var)),
            difference_deviation: rate(libm::sqrt(now.mean_rate_var)),
            bound: deviation,
            path_bound: Span::ZERO,
            growth: Rate::from_ppb(0),
            deviation,
            rtt_floor: span(self.truth.floors.iter().sum()),
            last_used: self.at,
        })
    }

    fn new_epoch(&mut self) {
        *self = Told::new(self.settings, self.truth);
    }

    fn set_max_wander(&mut self, _: Rate) {}
}
