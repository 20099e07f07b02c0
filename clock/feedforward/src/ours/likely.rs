//! Likely error of the estimate.
//!
//! The prior's scales are here, and what is seen of the path that they go by. It was calibrated on
//! the drawn paths (`docs/results/bound.md` has the table): their routes are up to 5 % asymmetric, and what
//! their access networks add to one direction is seen by how it scatters.

use truechimer_model::States;
use truechimer_time::Count;

use super::state::State;
use super::{Measured, Ours};
use crate::VOID_AFTER;
use crate::corridor::Corridor;
use crate::declared::Declared;
use crate::likely::Spread;
use crate::number::{rate, seconds, span};

/// Scale of the route's asymmetry, as a share of half the floor round trip.
const ASYMMETRY: f64 = 0.012;
/// Scale of the same asymmetry, as a share of how far the estimate is from the middle of what
/// causality allows: it claims an asymmetry then.
const OFF_MIDDLE: f64 = 0.2;
/// Scale of what an access network adds to one direction, as a share of how unevenly packets wait.
const UNEVEN: f64 = 0.4;
/// Packets that come earlier than the floors allow show that these are wrong: so many times as
/// uneven as those that come late.
const EARLY: f64 = 8.0;
/// An exponential law has this standard deviation in its scale.
const EXPONENTIAL: f64 = core::f64::consts::SQRT_2;
/// Number of the newest waits that are kept of each direction: 17 minutes at a poll of 16 s. Before
/// there are so many nothing is known of the path.
const KEPT: usize = 64;
/// Of these, the ones in this place by size count as the earliest, and as a floor that is hardly
/// ever met.
const EARLIEST: usize = KEPT / 20;
const QUARTER: usize = KEPT / 4;

/// Waits beyond their direction's floor of the newest packets, there and back, s.
#[derive(Clone, Debug)]
pub(super) struct Waits {
    newest: [[f64; KEPT]; 2],
    count: usize,
    /// Unevenness that they show, s, once there are enough.
    uneven: Option<f64>,
}

impl Waits {
    pub(super) fn new() -> Waits {
        Waits { newest: [[0.0; KEPT]; 2], count: 0, uneven: None }
    }

    /// Takes in an exchange that the model has seen.
    pub(super) fn take(&mut self, m: &Measured, now: &States) {
        let [forward, backward] = now.floors;
        let late = [
            m.forward + now.rate * m.duration - now.offset - forward,
            now.offset - m.backward - backward,
        ];
        for (newest, late) in self.newest.iter_mut().zip(late) {
            if let Some(place) = newest.get_mut(self.count % KEPT) {
                *place = late;
            }
        }
        self.count += 1;
        if self.count >= KEPT {
            self.uneven = Some(self.unevenness());
        }
    }

    /// Unevenness of the waits, s: by how much one direction waits longer than the other, what
    /// three quarters of them wait at least, and what came too early.
    fn unevenness(&self) -> f64 {
        let of = |waits: &[f64; KEPT]| {
            let mut parted = *waits;
            let (first, quarter, _) = parted.select_nth_unstable_by(QUARTER, f64::total_cmp);
            let (_, earliest, _) = first.select_nth_unstable_by(EARLIEST, f64::total_cmp);
            let mean = waits.iter().map(|wait| wait.max(0.0)).sum::<f64>() / KEPT as f64;
            (mean, quarter.abs() + EARLY * (-*earliest).max(0.0))
        };
        let [(there, hidden_there), (back, hidden_back)] =
            [0, 1].map(|way| self.newest.get(way).map_or((0.0, 0.0), of));
        (there - back).abs() + hidden_there + hidden_back
    }
}

impl Ours {
    /// Parts of the likely error at a count, where the model knows this and causality allows
    /// `corridor`.
    pub(super) fn spread(
        &self,
        state: &State,
        now: &States,
        corridor: &Corridor,
        at: Count,
    ) -> Spread {
        let is_doubted =
            state.quarantine.is_some() || state.promise.broken.is_some() || state.unproven;
        let void_after = seconds(VOID_AFTER);
        let is_stale = self.seconds(state.last_used, at) > void_after;
        let Some(uneven) = state.waits.uneven.filter(|_| !is_doubted && !is_stale) else {
            return Spread::default();
        };
        let noise = libm::sqrt(now.offset_variance) / EXPONENTIAL;
        let off = (corridor.middle() - now.offset).abs();
        // Who knows the path's asymmetry needs no prior for it.
        let declared = state.declared.as_ref().and_then(Declared::half_error);
        let (route, access, known) = match declared {
            Some(half_error) => (0.0, 0.0, half_error),
            None => (ASYMMETRY * state.one_way() + OFF_MIDDLE * off, UNEVEN * uneven, 0.0),
        };
        let walk = libm::sqrt(now.walk * void_after / 3.0);
        Spread {
            is_known: true,
            route: span(route + noise),
            access: span(access),
            server: span(state.root_distance + known),
            rate: rate((libm::sqrt(now.rate_variance) + walk) / EXPONENTIAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_that_differ_are_uneven_and_those_that_are_too_early_more_so() {
        let uneven = |there: fn(usize) -> f64, back: fn(usize) -> f64| {
            let newest = [core::array::from_fn(there), core::array::from_fn(back)];
            Waits { newest, count: KEPT, uneven: None }.unevenness()
        };
        let (mean, quarter) = (31.5, 16.0);
        // In any order.
        let alike = uneven(|n| n as f64, |n| (KEPT - 1 - n) as f64);
        assert_eq!(alike, 2.0 * quarter);
        assert_eq!(uneven(|n| n as f64, |_| 0.0), mean + quarter);
        // Four of 64 are the twentieth part, but for one in that place.
        let early = |n: usize| if n < 4 { -1.0 } else { 0.0 };
        assert_eq!(uneven(early, |_| 0.0), EARLY);
    }
}
