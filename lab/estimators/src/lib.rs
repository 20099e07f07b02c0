//! The laboratory: estimators to compare with the daemon's own, on the same packets.
//!
//! [`TABLE`] lists them. `truechimer-lab simulate`, its studies and `truechimer-lab replay` take
//! their choice, their help and their columns from it. To add one, write its file beside these, and add
//! its line to the table: `docs/use/estimators.md` is the guide, with an example.
//!
//! An estimator of the laboratory implements [`Estimator`], which is all that the daemon's engine
//! asks of one, and [`Compared`], which is what only a comparison asks.
//!
//! Not here: the daemon's own estimator, in `truechimer-feedforward`, and the packets, in `truechimer-sim`.
#![forbid(unsafe_code)]

mod ablation;
mod chrony;
mod comparison;
mod kind;
mod ntp_pll;
mod pi;
mod prefer;
mod published;
mod steered;
mod table;
mod told;

use truechimer_engine::RENEW_AFTER;
use truechimer_feedforward::{Estimate, Estimator, Ours, Spread};
use truechimer_time::{Count, Instant, Period, Rate, Span};

pub use ablation::Ablation;
pub use chrony::{ChronyModel, Measured};
pub use kind::{Kind, Row};
pub use ntp_pll::NtpPll;
pub use pi::Pi;
pub use published::{HostClass, Published};
pub use table::{NTP_PLL, OURS, PI, PUBLISHED, TABLE};
pub use told::{Told, Truth};

/// Methods that only a comparison asks of an estimator. All of them may be left as they are.
pub trait Compared: Estimator {
    /// The poll interval from now on, s, for estimators whose windows or gains depend on it.
    fn set_poll(&mut self, seconds: u32) {
        let _ = seconds;
    }

    /// The poll interval, s, that it would choose if it were asked (RFC 5905 adapts it).
    fn poll_advice(&self) -> Option<u32> {
        None
    }

    /// Time that an estimate stays fit to be extended in a straight line while no exchange comes.
    fn renew_after(&self) -> Span {
        RENEW_AFTER
    }

    /// Penalty of the path, ≥ 0, for estimators whose selection among servers goes by that and not
    /// by the agreement of their bounds.
    fn penalty(&self, at: Count) -> Option<Span> {
        let _ = at;
        None
    }
}

impl Compared for Ours {}

/// Estimate for the count `base` of a clock that states no more than these, from exchanges of which the newest
/// arrived at `heard`: its one rate has no error, and the time is within `bound`.
#[must_use]
pub fn stated(base: Count, time: Instant, period: Period, bound: Span, heard: Count) -> Estimate {
    Estimate {
        base,
        time,
        period,
        difference: period,
        difference_error: Rate::ZERO,
        difference_deviation: Rate::ZERO,
        bound,
        imbalance: Span::ZERO,
        path_bound: Span::ZERO,
        growth: Rate::ZERO,
        deviation: bound,
        rtt_floor: Span::ZERO,
        spread: Spread::default(),
        last_used: heard,
        heard,
    }
}
