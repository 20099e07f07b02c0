//! The filter of a source: its estimator, and the newest samples.

use alloc::boxed::Box;

use truechimer_feedforward::{
    Accepted, Estimate, Estimator, Exchange, RatePrior, Refusal, Settings, TimePrior,
};
use truechimer_ntp::Reply;
use truechimer_time::{Count, CountSpan, Instant, Period, Rate, Span};

use super::HoldOff;
use crate::config::Asymmetry;
use crate::method::{Beginning, Method};

/// Requests that may be missed before a source is stale.
const STALE_AFTER_POLLS: i64 = 4;
/// Time that a reply may take beside, s.
const REPLY_S: i64 = 2;

/// The estimator of a source, and the newest samples that it was given.
#[derive(Debug)]
pub(crate) struct Filter {
    settings: Settings,
    pub(crate) estimator: Box<dyn Estimator>,
    /// Seconds between samples.
    poll: u32,
    /// The newest sample that was used.
    pub(crate) last: Option<Sample>,
    /// The newest that could be understood, whether it was used or is held off.
    pub(crate) newest: Option<Sample>,
}

/// One measurement of a source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) exchange: Exchange,
    /// The packet; none of a pulse.
    pub(crate) reply: Option<Reply>,
    /// The round trip, less the server's residence time; none of a pulse.
    pub(crate) rtt: Option<Span>,
    /// Addition to its root distance, as it may have been smeared.
    pub(crate) smear: Span,
}

impl Filter {
    /// A filter with an estimator of this method.
    pub(crate) fn new(method: &dyn Method, beginning: &Beginning) -> Filter {
        let Beginning { settings, poll, .. } = *beginning;
        let estimator = method.estimator(beginning);
        Filter { settings, estimator, poll, last: None, newest: None }
    }

    /// Begins anew with what is known of rate and time; the newest samples stay.
    pub(crate) fn restart(
        &mut self,
        method: &dyn Method,
        rate: RatePrior,
        time: Option<TimePrior>,
    ) {
        let Filter { settings, poll, .. } = *self;
        self.estimator = method.estimator(&Beginning { settings, rate, time, poll });
    }

    /// Takes in the next exchange.
    ///
    /// # Errors
    /// Why it is not used.
    pub(crate) fn exchange(&mut self, exchange: &Exchange) -> Result<Accepted, Refusal> {
        self.estimator.exchange(exchange)
    }

    /// Nominal length of a count.
    pub(crate) fn nominal(&self) -> Period {
        self.settings.nominal
    }

    /// Nominal length of so many counts.
    pub(crate) fn span(&self, counts: CountSpan) -> Span {
        self.nominal().span(counts)
    }

    pub(crate) fn poll(&self) -> u32 {
        self.poll
    }

    /// Samples come every so many seconds from now on.
    pub(crate) fn set_poll(&mut self, seconds: u32) {
        self.poll = seconds;
    }

    pub(crate) fn set_max_wander(&mut self, max_wander: Rate) {
        self.settings.max_wander = max_wander;
        self.estimator.set_max_wander(max_wander);
    }

    pub(crate) fn set_accept_step_after(&mut self, span: Span) {
        self.settings.accept_step_after = span;
        self.estimator.set_accept_step_after(span);
    }

    /// Declares how the path's directions differ from now on.
    pub(crate) fn set_asymmetry(&mut self, asymmetry: Option<Asymmetry>) {
        self.estimator.set_asymmetry(asymmetry.map(declared));
    }

    /// The samples to come are of another server; see [`Estimator::change_server`].
    pub(crate) fn change_server(&mut self, others: bool, asymmetry: Option<Asymmetry>) {
        self.estimator.change_server(others, asymmetry.map(declared));
    }

    pub(crate) fn estimate(&self, at: Count) -> Option<Estimate> {
        self.estimator.estimate(at)
    }

    /// True if there is an estimate at `at`.
    pub(crate) fn knows(&self, at: Count) -> bool {
        self.estimator.knows(at)
    }

    /// The newest samples, if they contradict what is known and are held off.
    pub(crate) fn hold_off(&self, at: Count) -> Option<HoldOff> {
        self.estimator.doubt(at)
    }

    /// Span without a sample that is used after which it is stale.
    pub(crate) fn reach_timeout(&self) -> Span {
        Span::from_secs(i64::from(self.poll) * STALE_AFTER_POLLS + REPLY_S)
    }

    /// The bound of its reference's error, as it claims it.
    pub(crate) fn root_distance(&self) -> Span {
        self.last.map_or(Span::ZERO, |last| last.exchange.root_distance)
    }

    /// The newest round trip, if there is such a thing.
    pub(crate) fn rtt(&self) -> Option<Span> {
        self.last.and_then(|last| last.rtt)
    }

    /// The most that asymmetry and reference may put it off by: the path's part of its bound,
    /// without what passes.
    pub(crate) fn offset_error_bound(&self, estimate: &Estimate) -> Span {
        let most = estimate.path_bound.min(estimate.bound);
        match self.last {
            // That it may smear is known soon.
            Some(last) if last.smear > Span::ZERO => {
                most.min(estimate.rtt_floor.half() + last.exchange.root_distance)
            }
            _ => most,
        }
    }

    /// The last exchange that was used.
    pub(crate) fn last_exchange(&self) -> Option<&Exchange> {
        self.last.as_ref().map(|last| &last.exchange)
    }

    /// True if the newest sample that was used is fresh.
    pub(crate) fn is_fresh(&self, at: Count) -> bool {
        let age = |last: Sample| self.span(at - last.exchange.received.count);
        self.last.is_some_and(|last| age(last) <= self.reach_timeout())
    }

    /// The time at `at`, if an estimate there is known.
    pub(crate) fn time(&self, at: Count) -> Option<Instant> {
        self.estimate(at).map(|estimate| estimate.time)
    }

    /// The counter broke: counts from before mean nothing.
    pub(crate) fn new_epoch(&mut self) {
        (self.last, self.newest) = (None, None);
        self.estimator.new_epoch();
    }
}

/// Asymmetry of the path as the estimator takes it.
pub(crate) fn declared(asymmetry: Asymmetry) -> truechimer_feedforward::Asymmetry {
    let Asymmetry { by, error } = asymmetry;
    truechimer_feedforward::Asymmetry { by, error }
}

/// The skew of a counter that was taken for one of the nominal period and has another: a longer
/// period means that it is slow.
pub(crate) fn skew(period: Period, nominal: Period) -> Rate {
    Rate(period.relative_to(nominal).0.saturating_neg())
}
