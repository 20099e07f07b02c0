//! Whose word the published time is: what servers and pulses have in common, and how one of them
//! is chosen.
//!
//! Servers vote: the truth lies where a majority of them agrees. A pulse has no vote, as it knows
//! no second by itself and is numbered by what the servers say; but it is the user's own wire, and
//! is believed within what the majority vouches for. There it narrows the interval, also for a while
//! after its edges have stopped.

use truechimer_feedforward::Estimate;
use truechimer_time::{Count, Instant, Period, Rate, Span};

use crate::event::SourceId;
use crate::report::Selection;
use crate::select::{Claim, agreement};

/// Another source must be this much better, as a fraction of the bound (5/8), to be selected
/// instead.
const SWITCH: (i64, i64) = (5, 8);

/// Somebody who says what time it is.
pub(crate) trait Voice {
    fn id(&self) -> SourceId;
    /// As the user knows it.
    fn name(&self) -> String;
    /// Whether it is a pulse: it has no vote.
    fn is_pulse(&self) -> bool;
    fn selection(&self) -> Selection;
    fn mark(&mut self, selection: Selection);
    fn estimate(&self, at: Count) -> Option<Estimate>;
    /// How long without a used exchange before its word counts as stale.
    fn patience(&self) -> Span;
    /// How long a hand made of its estimate stays good while nothing new comes.
    fn renew_after(&self) -> Span;
    /// How bad its path is, and how many exchanges say so, if its estimator is selected that way.
    fn penalty(&self, at: Count) -> Option<(Span, u64)>;

    /// How long ago it said something usable.
    fn age(&self, estimate: &Estimate, at: Count) -> Span {
        estimate.period.span(at - estimate.last_used)
    }
}

/// A voice, and what it says if it may speak.
pub(crate) struct Said<'v> {
    pub(crate) voice: &'v mut dyn Voice,
    pub(crate) estimate: Option<Estimate>,
}

/// Where the truth is, as far as the voices go.
struct Agreed {
    all: Claim,
    /// Some of it is a pulse's word.
    narrowed: bool,
}

/// What an estimate claims, on the scale that begins at `origin`.
fn claim(estimate: &Estimate, origin: Instant) -> Claim {
    let middle = (estimate.time - origin).0;
    let bound = estimate.bound.0;
    Claim { low: middle.saturating_sub(bound), high: middle.saturating_add(bound) }
}

/// Where a majority of these servers puts the time: its middle, and how far it may be off.
pub(crate) fn vouched(estimates: &[Option<Estimate>], to_come: usize) -> Option<(Instant, Span)> {
    let origin = estimates.iter().flatten().map(|e| e.time).next()?;
    let claims: Vec<Claim> = estimates.iter().flatten().map(|e| claim(e, origin)).collect();
    let Claim { low, high } = agreement(&claims, to_come)?;
    let half = high.saturating_sub(low) / 2;
    Some((origin + Span(low.saturating_add(half)), Span(half.saturating_add(1))))
}

/// Marks every voice's part. Returns the index of the selected one and its estimate, which is
/// brought to what the others vouch for: the bound reaches to the ends of where they agree, however
/// little the selected one claims for itself. `to_come` servers are waited for.
pub(crate) fn choose(
    voices: &mut [Said<'_>],
    to_come: usize,
    at: Count,
) -> Option<(usize, Estimate)> {
    let estimates = voices.iter().filter_map(|said| said.estimate);
    let origin = estimates.map(|e| e.time).next().unwrap_or_default();
    let servers = vouched_by(voices, origin, to_come);
    let agreed = servers.as_ref().and_then(|servers| narrowed(voices, origin, servers));
    let mut best: Option<(bool, Span, usize, Estimate)> = None;
    for (index, Said { voice, estimate }) in voices.iter_mut().enumerate() {
        let Some(e) = estimate else {
            voice.mark(Selection::Unusable);
            continue;
        };
        let was_selected = voice.selection() == Selection::Selected;
        let own = claim(e, origin);
        let agrees = match (&servers, &agreed) {
            (Some(servers), Some(_)) if !voice.is_pulse() => {
                servers.as_ref().is_none_or(|servers| own.meets(servers))
            }
            (_, Some(agreed)) => agreed.narrowed && own.meets(&agreed.all),
            _ => false,
        };
        if !agrees {
            voice.mark(Selection::Falseticker);
            continue;
        }
        voice.mark(Selection::Truechimer);
        let stale = voice.age(e, at) > voice.patience();
        let handicap = if was_selected { SWITCH.0 } else { SWITCH.1 };
        let bound = e.bound / SWITCH.1 * handicap;
        if best.is_none_or(|(s, least, ..)| (stale, bound) < (s, least)) {
            best = Some((stale, bound, index, *e));
        }
    }
    let (.., index, mut selected) = best?;
    let Agreed { all, narrowed } = agreed?;
    voices.get_mut(index)?.voice.mark(Selection::Selected);
    let time = (selected.time - origin).0.clamp(all.low, all.high);
    let reach = all.high.saturating_sub(time).max(time.saturating_sub(all.low));
    selected.time = origin + Span(time);
    selected.bound = Span(reach);
    selected.path_bound = selected.path_bound.min(selected.bound);
    // The bound must hold for whoever of them is right, at the selected one's rates: the pulses, if
    // they are believed, else any of the servers.
    let (period, difference) = (selected.period, selected.difference);
    for Said { voice, estimate } in voices.iter() {
        let counts = voice.is_pulse() || !narrowed;
        if let (true, Selection::Truechimer, Some(e)) = (counts, voice.selection(), estimate) {
            let apart = |own: Period, at: Period| own.relative_to(at).0.saturating_abs();
            let growth = e.growth.0.saturating_add(apart(e.period, period));
            let error = e.difference_error.0.saturating_add(apart(e.difference, difference));
            selected.growth = selected.growth.max(Rate(growth));
            selected.difference_error = selected.difference_error.max(Rate(error));
        }
    }
    Some((index, selected))
}

/// Where the servers put the time; `Some(None)` if there is no server to ask.
#[allow(clippy::option_option)]
fn vouched_by(voices: &[Said<'_>], origin: Instant, to_come: usize) -> Option<Option<Claim>> {
    let servers = voices.iter().filter(|said| !said.voice.is_pulse());
    let claims: Vec<Claim> =
        servers.filter_map(|said| said.estimate).map(|e| claim(&e, origin)).collect();
    if claims.is_empty() && to_come == 0 {
        return Some(None);
    }
    agreement(&claims, to_come).map(Some)
}

/// What the pulses leave of that: a majority of those that lie within it.
fn narrowed(voices: &[Said<'_>], origin: Instant, servers: &Option<Claim>) -> Option<Agreed> {
    let within = |claim: &Claim| servers.as_ref().is_none_or(|servers| servers.meets(claim));
    let pulses = voices.iter().filter(|said| said.voice.is_pulse());
    let claims: Vec<Claim> =
        pulses.filter_map(|said| said.estimate).map(|e| claim(&e, origin)).filter(within).collect();
    match (agreement(&claims, 0), servers) {
        (Some(pulses), None) => Some(Agreed { all: pulses, narrowed: true }),
        (Some(pulses), Some(servers)) if pulses.meets(servers) => {
            let low = pulses.low.max(servers.low);
            let high = pulses.high.min(servers.high);
            Some(Agreed { all: Claim { low, high }, narrowed: true })
        }
        (_, Some(Claim { low, high })) => {
            Some(Agreed { all: Claim { low: *low, high: *high }, narrowed: false })
        }
        (None, None) => None,
    }
}
