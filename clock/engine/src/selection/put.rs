//! Where those that agree put the time, and by which of them it goes.

use truechimer_time::{Count, Instant, Period, Span};

use super::Voter;
use crate::cause::Cause;
use crate::combination::{Combination, Part};
use crate::few::Few;
use crate::report::{SourceKind, SourceStatus as Status};
use crate::select::Claim;

/// Another source must be this much better, as a fraction of the bound (5/8), to be selected
/// instead.
const SWITCH: (i64, i64) = (5, 8);
/// Factor for weights, which go as 1 / bound².
const HEAVIER: f64 = 2.56;
/// A smaller share than this is not worth mentioning.
const SHARE: f64 = 0.01;

/// A time, and the two rates.
pub(super) type Put = (Instant, Period, Period);

/// The parts that the time goes by, while the others only learn where they lean: those that the
/// user prefers, if there are any.
fn leading(voters: &[Voter<'_>], parts: &[usize]) -> Few<usize> {
    let preferred = |place: &&usize| voters.get(**place).is_some_and(|v| v.peer.preferred);
    let preferred: Few<usize> = parts.iter().filter(preferred).copied().collect();
    if preferred.is_empty() { better(voters, parts) } else { preferred }
}

/// The parts without a vote that are better than whoever votes: the pulses, and those that are known
/// better.
pub(super) fn better(voters: &[Voter<'_>], parts: &[usize]) -> Few<usize> {
    let bound = |place: &usize| Some(voters.get(*place)?.estimate?.bound);
    let narrows = |place: &usize| voters.get(*place).is_some_and(|voter| voter.peer.narrows());
    let best = parts.iter().filter(|place| !narrows(place)).filter_map(bound).min();
    let leads = |place: &&usize| {
        let of = |place: &usize| voters.get(*place).map(|voter| voter.peer.kind);
        let pulse = of(place) == Some(SourceKind::Pulse);
        narrows(place) && (pulse || best.is_none_or(|best| bound(place).is_some_and(|b| b < best)))
    };
    parts.iter().filter(leads).copied().collect()
}

/// Combines the parts. Returns which one has the most weight, how many others have a part, and what
/// they come to. What is `coasting` has no part in that but to foretell what the time does.
pub(super) fn combined(
    voters: &mut [Voter<'_>],
    parts: &[usize],
    coasting: &[usize],
    combination: &mut Combination,
    at: Count,
    origin: Instant,
    all: &Claim,
) -> Option<(usize, usize, Put)> {
    let leaders = leading(voters, parts);
    let led = leading(voters, coasting);
    let of = |index: &usize, coasts: bool| {
        let voter = voters.get(*index)?;
        let root_distance = voter.peer.filter.root_distance();
        let leads = if coasts { led.contains(index) } else { leaders.contains(index) };
        let is_alone = !coasts && parts.len() == 1;
        let silent = !leads && (!leaders.is_empty() || (voter.peer.narrows() && !is_alone));
        let (id, estimate) = (voter.peer.id.0, voter.estimate?);
        let lean = voter.peer.filter.offset_error_bound(&estimate);
        let rtt = voter.peer.filter.rtt();
        Some(Part { id, estimate, root_distance, lean, silent, coasts, rtt })
    };
    let heard = parts.iter().filter_map(|index| of(index, false));
    let taking: Few<Part> =
        heard.chain(coasting.iter().filter_map(|index| of(index, true))).collect();
    let within = (origin + Span(all.low), origin + Span(all.high));
    let done = combination.combine(&taking, at, within)?;
    let mut heaviest: Option<(f64, usize)> = None;
    let out = |part: usize| done.outvoted.get(part).copied().flatten();
    for (part, (index, weight)) in parts.iter().zip(&done.weights).enumerate() {
        let voter = voters.get_mut(*index)?;
        if let Some(by) = out(part) {
            voter.peer.trust.weigh(None, Some(Cause::Outlier(by)));
            continue;
        }
        let was_selected = voter.peer.trust.status() == Status::Selected;
        let handicapped = if was_selected { weight * HEAVIER } else { *weight };
        if heaviest.is_none_or(|(most, _)| handicapped > most) {
            heaviest = Some((handicapped, *index));
        }
        voter.peer.trust.mark(if was_selected { Status::Selected } else { Status::Combined });
        voter.peer.trust.weigh(Some(*weight), None);
    }
    let (_, index) = heaviest?;
    for (_, place) in parts.iter().enumerate().filter(|(part, _)| out(*part).is_none()) {
        let voter = voters.get_mut(*place)?;
        voter.peer.trust.mark(if *place == index { Status::Selected } else { Status::Combined });
    }
    let weights = parts.iter().zip(&done.weights);
    let others = weights.filter(|(part, w)| **part != index && **w >= SHARE).count();
    Some((index, others, (done.time, done.period, done.difference)))
}

/// The one of the parts with the smallest bound; the one that was selected before keeps its place
/// against those that are little better.
pub(super) fn best(voters: &[Voter<'_>], parts: &[usize]) -> Option<(usize, usize, Put)> {
    let handicapped = |index: &&usize| {
        let voter = voters.get(**index)?;
        let was_selected = voter.peer.trust.status() == Status::Selected;
        let handicap = if was_selected { SWITCH.0 } else { SWITCH.1 };
        Some(voter.estimate?.bound / SWITCH.1 * handicap)
    };
    let preferred = |index: &&usize| voters.get(**index).is_some_and(|v| v.peer.preferred);
    let preferred = parts.iter().filter(preferred).min_by_key(handicapped);
    let index = *preferred.or_else(|| parts.iter().min_by_key(handicapped))?;
    let e = voters.get(index)?.estimate?;
    Some((index, 0, (e.time, e.period, e.difference)))
}
