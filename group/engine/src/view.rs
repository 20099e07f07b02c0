//! A member's own view of the group's clock between rounds: its physical clock and the published
//! offset, steered.

use crate::steer;
use crate::types::{Bound, Reading};

/// Rate at which a view is drawn back (or on) to the group's clock, parts in 10⁹.
const DRAW_PPB: i128 = 500_000;

/// Longest time for which a message may be under way without a sign that this member's view is
/// ahead, ns.
const LONGEST_WAY_NS: i64 = 1_000_000;

/// The group's clock as this member has it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct View {
    /// The physical clock at the last change.
    physical: i64,
    /// The group's clock then.
    group: i64,
    rate_ppb: i32,
    /// Since when the view may be drawn (physical).
    drawn: i64,
}

impl View {
    pub(crate) fn new(physical: i64, group: i64) -> View {
        View { physical, group, rate_ppb: 0, drawn: physical }
    }

    /// The group's clock when the physical one says this.
    pub(crate) fn at(&self, physical: i64) -> i64 {
        let elapsed = physical.saturating_sub(self.physical);
        self.group.saturating_add(steer::advance(elapsed, self.rate_ppb))
    }

    /// Earliest reading of the physical clock when the group's says this.
    pub(crate) fn when(&self, group: i64) -> i64 {
        let ahead = i128::from(group) - i128::from(self.group);
        let rate = 1_000_000_000 + i128::from(self.rate_ppb);
        let elapsed = ahead * 1_000_000_000 / rate.max(1);
        let at = i128::from(self.physical) + elapsed;
        at.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// Steers from now on.
    pub(crate) fn steer(&mut self, physical: i64, rate_ppb: i32) {
        if rate_ppb != self.rate_ppb {
            self.set(physical, self.at(physical));
            self.rate_ppb = rate_ppb;
        }
    }

    /// Sets the published offset: group − physical.
    pub(crate) fn set(&mut self, physical: i64, group: i64) {
        self.physical = physical;
        self.group = group;
    }

    /// Never below the group's clock.
    pub(crate) fn at_least(&mut self, physical: i64, group: i64) {
        if self.at(physical) < group {
            self.set(physical, group);
        }
    }

    /// Goes slowly, in either direction, to where the group's clock can be.
    pub(crate) fn draw(&mut self, physical: i64, least: i64, most: i64) {
        let elapsed = i128::from(physical) - i128::from(self.drawn);
        let pace = (elapsed * DRAW_PPB / 1_000_000_000).clamp(0, i64::MAX.into()) as i64;
        self.drawn = physical;
        let here = self.at(physical);
        let group = here.clamp(least, most.max(least));
        let by = group.saturating_sub(here).clamp(-pace, pace);
        if by != 0 {
            self.set(physical, here.saturating_add(by));
        }
    }
}

/// Time that a message was under way, at least and at most, ns, as far as two synchronised clocks
/// can be sure of it. Best estimates would not do: where the clocks differ, each message would move
/// the view of the member whose clock is ahead.
pub(crate) fn way(sent: Option<Bound>, now: &Reading) -> (i64, i64) {
    let Some((sent, now)) = sent.zip(now.utc) else { return (0, LONGEST_WAY_NS) };
    let least = now.bound.earliest.saturating_sub(sent.latest).clamp(0, LONGEST_WAY_NS);
    let most = now.bound.latest.saturating_sub(sent.earliest).clamp(least, LONGEST_WAY_NS);
    (least, most)
}
