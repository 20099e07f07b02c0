//! The clock by dead reckoning while a leap second is near.

use truechimer_time::{Count, Instant, Period, Rate, Span};

use super::{Engine, STRAYS};
use crate::event::SourceId;
use crate::smear::{self, Doubt};

/// A rate that is known this well tells a smear (11.6 ppm) from the oscillator.
const KNOWS: Rate = Rate::from_ppb(1_000);

/// A clock that goes on by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reckoning {
    count: Count,
    time: Instant,
    period: Period,
    error: Rate,
    bound: Span,
}

impl Engine {
    /// The time at `count` by dead reckoning since a leap second came near, if one is: a server
    /// that smears it may have taken our clock along. `about` is the time by that, when `speaker`
    /// replied.
    pub(super) fn reckoned(
        &mut self,
        speaker: SourceId,
        count: Count,
        about: Instant,
    ) -> Option<(Instant, Doubt)> {
        if smear::expected(&self.leaps, about).is_none() {
            self.reckoning = None;
            return None;
        }
        let (period, error) = (self.hand.difference, self.hand.difference_error);
        let bound = self.hand.bound_at(count);
        let now = Reckoning { count, time: about, period, error, bound };
        let begun = *self.reckoning.get_or_insert(now);
        // A rate that was hardly known then says nothing: begin anew as long as it becomes better.
        let smeared = self.sources.iter().any(|s| s.votes() && (s.smears() || s.may_smear()));
        // As long as it is open whether somebody smears, a better rate may be that of a smear; but
        // not of one who has been silent for so long that the others went on without.
        let mut open = self.sources.iter().filter(|s| s.votes() && s.may_yet_smear());
        let open = open
            .any(|s| s.id() == speaker || s.peer.trust.is_part() || s.peer.filter.is_fresh(count));
        let better = error.0 < begun.error.0 / 2 && !open && !(smeared && begun.error <= KNOWS);
        let begun = if better { now } else { begun };
        self.reckoning = Some(begun);
        let Reckoning { count: base, time, period, error, bound } = begun;
        let since = period.span(count - base);
        // An untended oscillator strays as the bound has it.
        let times = since.abs().0 / STRAYS.0;
        let strayed =
            i128::from(self.settings.max_wander.0).saturating_mul(times.saturating_add(1));
        let rate = i128::from(error.0).saturating_add(strayed).min(i128::from(i64::MAX));
        let strayed = Rate(rate as i64).over(since).abs();
        Some((time + since, Doubt { strayed, begun: bound }))
    }
}
