//! Feed-forward estimation: exchanges of stamps in, clock parameters and an error bound out.
//!
//! Nothing here steers anything. A counter runs free; an [`Estimator`] watches exchanges of
//! packets that were stamped in raw counts at this end and in time at the server's end, and works
//! out what time it is at a count and how long a count lasts. Whatever is published from it, no
//! part of it ever comes back in.
//!
//! An estimator knows no packets, no sockets and no clock of its own: the same exchanges give the
//! same estimates to the last bit, on every machine (floating point is used, but only the
//! operations that IEEE 754 defines exactly, and `libm` for roots, exponentials and logarithms).
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod causal_rate;
mod corridor;
mod declared;
mod likely;
pub mod number;
mod ours;
mod quarantine;

use core::any::Any;
use core::fmt;

use truechimer_time::{Count, CountSpan, Instant, Period, Rate, Span, Stamp};

pub use declared::SMALLEST;
pub use likely::{LIKELY_DOUBT, Spread};
pub use ours::Ours;

/// One exchange with a server: a request left, the server received and answered it, the reply
/// arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// When the request left, in counts.
    pub sent: Stamp,
    /// When the server received it, by the server's clock.
    pub server_received: Instant,
    /// When the server sent the reply, by the server's clock.
    pub server_sent: Instant,
    /// When the reply arrived, in counts.
    pub received: Stamp,
    /// Bound of the server's own error as it claims it: half its root delay, its root dispersion
    /// and the resolution of its stamps.
    pub root_distance: Span,
    /// Resolution of the server's stamps as it claims it, which is part of that: how far either of
    /// them may be off.
    pub precision: Span,
}

/// Settings that an estimator is told once, before the first exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Length of a count, nominally. Rates are kept relative to it.
    pub nominal: Period,
    /// The smallest step of the counter.
    pub resolution: CountSpan,
    /// The most that the oscillator's rate may stray from its recent average.
    pub max_wander: Rate,
    /// Time for which exchanges that contradict what is known must agree with one another before
    /// they are believed. What was known for less needs no more; eight in a row always have to.
    pub accept_step_after: Span,
    /// Difference of the path's two directions, if the user knows. The exchanges come corrected by
    /// it.
    pub asymmetry: Option<Asymmetry>,
    /// There are no requests, only arrivals at a known time (a pulse): what is called the departure
    /// is the earliest that the arrival may have been.
    pub pulse: bool,
}

/// Difference of the two directions of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asymmetry {
    /// Least time of a request − least time of a reply.
    pub by: Span,
    /// Bound of the error of `by`, ≥ 0.
    pub error: Span,
}

/// [`Settings::accept_step_after`] if nobody has set it: one hour.
pub const ACCEPT_STEP_AFTER: Span = Span::from_secs(3600);

/// Without another exchange for so long, four times the longest poll interval, a published clock
/// promises nothing, and statistics say nothing.
pub const VOID_AFTER: Span = Span::from_secs(4096);

/// Knowledge of the counter's rate before an estimator has measured it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RatePrior {
    /// Length of a count.
    pub period: Period,
    /// Bound of the relative error of `period`.
    pub error: Rate,
}

/// Knowledge of time before an estimator has measured it: a clock that was synchronised in this
/// epoch of this counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimePrior {
    /// A count.
    pub count: Count,
    /// The time at that count.
    pub time: Instant,
    /// Bound of the error of `time`.
    pub bound: Span,
    /// Since when that had been known, and when the last exchange came that agreed with it. `None`:
    /// nobody knows; it counts as known for as long as anything.
    pub known: Option<(Count, Count)>,
    /// Doubt that was open then.
    pub doubted: Option<Disputed>,
}

/// Word that was not believed when an earlier clock was left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disputed {
    /// A step of this server: since when, and by how much its time was ahead.
    Step(Count, Span),
    /// Something that reached so much farther than the bound of what was known, in either
    /// direction.
    Beyond(Span),
}

/// Reason for which an exchange was not used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Refusal {
    /// The reply's count is not after the request's, or lies before an earlier reply's.
    CounterBackwards,
    /// The server claims to have held the packet for longer than the whole exchange took.
    ImpossibleRoundTrip,
    /// The server's time has moved by more than it, the path and our oscillator together may:
    /// held off until it lasts.
    ServerStep,
}

impl Refusal {
    /// The name that `sources` counts it under.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Refusal::CounterBackwards => "counter-backwards",
            Refusal::ImpossibleRoundTrip => "impossible-round-trip",
            Refusal::ServerStep => "server-step",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::CounterBackwards => "the counter went backwards during the exchange",
            Refusal::ImpossibleRoundTrip => {
                "the server claims to have held the packet for longer than the exchange took"
            }
            Refusal::ServerStep => {
                "the server's time moved by more than path and oscillator allow; held off"
            }
        })
    }
}

/// Effect of an exchange that was used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Accepted {
    /// Estimate refined.
    Refined,
    /// Last piece of evidence that packets take another, longer route: new floor of the round trip − old.
    Shifted(Span),
    /// Last piece of evidence of another floor of the round trip: new − old. Which need be no other route: a
    /// shorter one may have been hidden by queues, and a change by as much as before within a day is a habit of
    /// the path.
    FloorMoved(Span),
    /// Last piece of lasting evidence that the server's time had moved, and the estimate now
    /// follows: new estimate − old.
    Stepped(Span),
}

/// Exchanges that contradict what is known, and are not believed yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Doubt {
    /// When the first of them arrived.
    pub since: Count,
    /// Number of them.
    pub exchanges: u32,
    /// Their time − the estimate, by the newest; positive: the server is ahead.
    pub step: Span,
    /// They agree by the rate of the counter that is known.
    pub steady: bool,
    /// Time for which they must go on agreeing with one another to be believed.
    pub left: Span,
    /// Where they put the time: from, to.
    pub newcomers: (Instant, Instant),
    /// Where what they contradict puts it: from, to.
    pub held: (Instant, Instant),
    /// Hull of `held` and of where time may be if that had gone wrong long before: from, to.
    pub open: (Instant, Instant),
}

/// Estimate at one count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Estimate {
    /// The count that the estimate is for.
    pub base: Count,
    /// Time at `base`.
    pub time: Instant,
    /// Length of a count now.
    pub period: Period,
    /// Length of a count, for the difference clock.
    pub difference: Period,
    /// Bound of the relative error of `difference`.
    pub difference_error: Rate,
    /// Standard uncertainty of `difference` as the rate of an interval that ends at `base`: by the
    /// measured noise alone, promised by nothing.
    pub difference_deviation: Rate,
    /// Bound of |`time` − true time|, all in all.
    pub bound: Span,
    /// Distance by which true time may be farther after `time` than before it; negative: less far.
    /// `bound` is the larger of the two. At most twice `bound`, either way.
    pub imbalance: Span,
    /// The part of `bound` that no filtering removes: half the smallest round trip and the
    /// server's root distance. At most `bound`.
    pub path_bound: Span,
    /// Growth of the bound away from `base`.
    pub growth: Rate,
    /// Standard uncertainty of `time` from noise alone: no asymmetry, no root distance.
    pub deviation: Span,
    /// Floor of the round trips, as far as it is known, less the server's residence time, ≥ 0.
    pub rtt_floor: Span,
    /// Parts of the likely error beside `deviation`.
    pub spread: Spread,
    /// When the newest exchange that was used arrived.
    pub last_used: Count,
    /// When the newest exchange arrived that is not held off. One of a server that is only suspected
    /// of having moved narrows nothing, but is heard.
    pub heard: Count,
}

impl Estimate {
    /// Distances of true time before `time` and after it at most, at `base`.
    #[must_use]
    pub fn reach(&self) -> [Span; 2] {
        let Span(imbalance) = self.imbalance;
        [imbalance, imbalance.saturating_neg()].map(|by| self.bound - Span(by.max(0)))
    }
}

/// Turns the exchanges with one server into time.
///
/// The order of calls is the order of arrival. The difference clock's part of the estimate must
/// never depend on corrections of the offset.
///
/// These are the questions of the daemon. What only a comparison asks is in the laboratory
/// (`lab/estimators`), which knows its own estimators again by [`Any`].
pub trait Estimator: Any + fmt::Debug + Send {
    /// Takes in the next exchange.
    ///
    /// # Errors
    /// A [`Refusal`] says why it was left out; the estimate is then as before, but its bound may
    /// have widened.
    fn exchange(&mut self, exchange: &Exchange) -> Result<Accepted, Refusal>;

    /// A further reply to the request of the last exchange that was taken in, or to one before; it came since,
    /// tells of its own direction alone, and is used with the next exchange.
    fn further(&mut self, exchange: &Exchange) {
        let _ = exchange;
    }

    /// Estimate at `at`, which may lie before or after the last exchange. `None` before the first.
    fn estimate(&self, at: Count) -> Option<Estimate>;

    /// True if there is an estimate at `at`.
    fn knows(&self, at: Count) -> bool {
        self.estimate(at).is_some()
    }

    /// The counter lost its continuity: counts before and after have nothing to do with each
    /// other. Forgets all but a rough idea of the rate.
    fn new_epoch(&mut self);

    /// The exchanges to come are with another server, over another path: its name has another
    /// address now. What is known of the oscillator stays, and what is known of time, unless
    /// `others` tell that as well: then the new server's word is to be its own. Its path has this
    /// `asymmetry` ([`Settings::asymmetry`]).
    fn change_server(&mut self, others: bool, asymmetry: Option<Asymmetry>) {
        let _ = others;
        self.set_asymmetry(asymmetry);
    }

    /// Changes the bound of the oscillator's wander from now on.
    fn set_max_wander(&mut self, max_wander: Rate);

    /// Changes [`Settings::accept_step_after`] from now on, for estimators that hold out against a
    /// step of the server.
    fn set_accept_step_after(&mut self, span: Span) {
        let _ = span;
    }

    /// Exchanges that it does not believe yet, at `at`, if there are any.
    fn doubt(&self, at: Count) -> Option<Doubt> {
        let _ = at;
        None
    }

    /// Since when what it holds has been known, and when the last exchange came that agreed with
    /// it, for estimators that hold out against a step of the server; see [`TimePrior::known`].
    fn known(&self) -> Option<(Count, Count)> {
        None
    }

    /// Somebody else vouches for what is doubted: it is believed at once. `None` if nothing is.
    fn believe(&mut self) -> Option<Accepted> {
        None
    }

    /// Changes [`Settings::asymmetry`] from now on: the exchanges to come are corrected by that.
    fn set_asymmetry(&mut self, asymmetry: Option<Asymmetry>) {
        let _ = asymmetry;
    }

    /// True if the path was seen not to be what [`Settings::asymmetry`] says.
    fn contradicts_asymmetry(&self) -> bool {
        false
    }

    /// True if the exchanges contradict [`Settings::max_wander`], by the server's fault or the
    /// oscillator's: the bound covers both then.
    fn strays(&self) -> bool {
        false
    }
}
