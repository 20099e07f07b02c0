//! Word of a server after its time moved by more than it may.
//!
//! Beyond what causality leaves open there are two explanations: the server is wrong, or the
//! counter jumped unseen. The stamps of one server cannot tell them apart. So its newcomers are
//! kept here and change nothing: no offset, no rate, no floor. They are believed once they have
//! agreed with one another for as long as the user wants, or once somebody else vouches for them
//! (several servers whose time moves alike at once: then it was the counter).
//!
//! There are two ways to agree. *Steady*: by the rate of the counter that is known. *Loose*: by
//! some rate that a counter may have. A server that drifts away agrees with itself only loosely; so
//! does an honest one if the counter is another one now.

use truechimer_time::{Count, Period};

use crate::ACCEPT_STEP_AFTER;
use crate::causal_rate::UNKNOWN_RATE;
use crate::corridor::{BoundedRate, Corridor};
use crate::number::{between, fraction, seconds};
use crate::ours::{Measured, Memory};

/// However short the time is that the user wants, so many in a row must agree: by the known rate, if
/// the newcomers were restless ...
pub(crate) const LEAST: u32 = 8;
/// ... or, at polls so slow that they take longer than anybody wants, so many.
const FEW: u32 = 3;
/// Where newcomers and what is known meet at last, because the latter's bound has grown, an
/// exchange is a newcomer if it is so many standard deviations from where the clock is likely to
/// have gone, or nearer to the others of them.
pub(crate) const LIKELY_SIGMAS: f64 = 6.0;

/// Exchanges in a row that agree with one another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) since: Count,
    pub(crate) count: u32,
    /// Where they put θ, at the newest.
    pub(crate) corridor: Corridor,
}

impl Run {
    /// The run with one more, if that agrees.
    fn with(&self, own: &Corridor, dt: f64, rate: BoundedRate) -> Option<Run> {
        let corridor = self.corridor.later(dt, rate).intersection(own)?;
        Some(Run { corridor, count: self.count.saturating_add(1), ..*self })
    }
}

/// True if so many in a row that have lasted for so long are believed, if that is to take `wanted`
/// s.
pub(crate) fn enough(count: u32, lasted: f64, wanted: f64) -> bool {
    let long = seconds(ACCEPT_STEP_AFTER);
    lasted >= wanted && (count >= LEAST || count >= FEW && lasted >= long)
}

/// Newcomers, and what they contradict.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quarantine {
    /// The newest exchange.
    pub(crate) newest: Measured,
    /// Where that puts θ by itself.
    own: Corridor,
    /// Distance of that from the estimate, s; positive: the server is ahead of it.
    pub(crate) step: f64,
    /// Those that agree by the known rate, ...
    pub(crate) steady: Run,
    /// ... and by some rate.
    pub(crate) loose: Run,
    /// Corridor that they contradict, as it was when they began, from the estimate on, s.
    pub(crate) known: Corridor,
    /// Memory from before whatever they contradict may have gone wrong.
    pub(crate) earlier: Option<Memory>,
    /// No more than a suspicion.
    pub(crate) suspected: bool,
    /// Number that could be of either opinion since the newest of the newcomers.
    pub(crate) between: u32,
}

/// Event that there is enough evidence of.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Evidence {
    /// The server's time moved.
    Step,
    /// And the counter's rate is another one.
    OtherRate,
}

impl Quarantine {
    /// The first of them, and what it contradicts; see the fields.
    pub(crate) fn new(newest: Measured, own: Corridor, known: Corridor, step: f64) -> Quarantine {
        let run = Run { since: newest.received, count: 1, corridor: own };
        let (steady, loose, earlier) = (run, run, None);
        Quarantine { newest, own, step, steady, loose, known, earlier, suspected: true, between: 0 }
    }

    /// These and one more, `dt` seconds after the newest. If it agrees with none of the others, the
    /// evidence begins anew.
    pub(crate) fn with(self, one: Quarantine, dt: f64, rate: BoundedRate) -> Quarantine {
        let Quarantine { newest, own, step, .. } = one;
        let unknown = BoundedRate { error: fraction(UNKNOWN_RATE), ..rate };
        let loose = self.loose.with(&own, dt, unknown);
        let steady = loose.and(self.steady.with(&own, dt, rate)).unwrap_or(one.steady);
        Quarantine { newest, own, step, steady, loose: loose.unwrap_or(one.loose), ..self }
    }

    /// All that is kept is `by` higher on the scale of θ, s.
    pub(crate) fn shift(&mut self, by: f64) {
        let runs = [&mut self.steady.corridor, &mut self.loose.corridor];
        for corridor in runs.into_iter().chain([&mut self.own, &mut self.known]) {
            *corridor = corridor.shifted(by);
        }
        self.earlier = self.earlier.map(|earlier| earlier.shifted(by));
    }

    /// They agree only by another rate than the known one: they may go anywhere.
    pub(crate) fn restless(&self) -> bool {
        self.steady.count < self.loose.count.min(LEAST)
    }

    /// The beginning of the agreement that will be believed first.
    pub(crate) fn counts_from(&self) -> Count {
        if self.restless() { self.loose.since } else { self.steady.since }
    }

    /// Where they put θ, `dt` seconds after the newest. As long as nobody knows whether they agree
    /// because the known rate is theirs, or only nearly, what the newest says by itself counts as
    /// well.
    pub(crate) fn corridor(&self, dt: f64, rate: BoundedRate) -> Corridor {
        let unknown = BoundedRate { error: rate.error.max(fraction(UNKNOWN_RATE)), ..rate };
        let rate = if self.restless() { unknown } else { rate };
        self.steady.corridor.hull(&self.own).later(dt, rate)
    }

    /// Evidence of those that have lasted for `wanted` seconds; a count lasts `nominal`.
    pub(crate) fn evidence(&self, wanted: f64, nominal: Period) -> Option<Evidence> {
        let lasted = |run: &Run| between(nominal, run.since, self.newest.received);
        let enough = |run: &Run| enough(run.count, lasted(run), wanted);
        if enough(&self.steady) {
            return Some(Evidence::Step);
        }
        let other = enough(&self.loose) && lasted(&self.steady) < lasted(&self.loose) / 2.0;
        other.then_some(Evidence::OtherRate)
    }
}
