//! Whose word the published time is: what servers and pulses have in common, who of them is
//! believed, and what those that are believed come to.
//!
//! Servers vote: the truth lies where a majority of them agrees. A pulse has no vote, as it knows
//! no second by itself and is numbered by what the servers say; but it is the user's own wire, and
//! is believed within what the majority vouches for. There it narrows the interval, also for a
//! while after its edges have stopped. While a server's word is held off it tells where a second
//! begins, not which of the two words has the right one: if both fit, the interval covers both.

use truechimer_feedforward::{Estimate, Estimator};
use truechimer_time::{Count, Instant, Period, Rate, Span};

use crate::combination::{Combination, Part};
use crate::event::SourceId;
use crate::method::Candidate;
use crate::report::Selection;
use crate::select::{Claim, agreement, agreement_among};
use crate::why::Why;

/// Another source must be this much better, as a fraction of the bound (5/8), to be selected
/// instead.
const SWITCH: (i64, i64) = (5, 8);
/// The same for weights, which go as 1 / bound².
const HEAVIER: f64 = 2.56;
/// Where a source probably is: within so many deviations and half of the path's part of its bound.
/// Paths of which one direction takes three quarters are rare.
const PROBABLE: i128 = 4;
/// A smaller share than this is not worth mentioning.
const SHARE: f64 = 0.01;
/// So many servers must agree before it counts what is probable.
const CROWD: usize = 3;

/// A little more, for what reading a counter rounds off.
const ROUNDED: Span = Span::from_micros(1);

/// Somebody who says what time it is.
pub(crate) trait Voice {
    fn id(&self) -> SourceId;
    /// As the user knows it.
    fn name(&self) -> String;
    /// Whether it is a pulse: it has no vote.
    fn is_pulse(&self) -> bool;
    fn selection(&self) -> Selection;
    fn mark(&mut self, selection: Selection);
    /// Its share in the published time, and why it has none if it could have.
    fn weigh(&mut self, weight: Option<f64>, why: Option<Why>);
    /// What [`Voice::weigh`] said last.
    fn weight(&self) -> (Option<f64>, Option<&Why>);
    /// Whether it had a part in the published time.
    fn was_part(&self) -> bool;
    /// The bound of its reference's error, as it claims it.
    fn root_distance(&self) -> Span;
    /// The most that it may lean by: the path's part of its bound, without what passes.
    fn lean_bound(&self, estimate: &Estimate) -> Span {
        estimate.path_bound.min(estimate.bound)
    }
    /// The newest round trip, if there is such a thing.
    fn rtt(&self) -> Option<Span> {
        None
    }
    /// Whether its newest edge did not fit, if it is a pulse.
    fn strays(&self) -> bool {
        false
    }
    /// Whether anything that it said was used, since the start or since the counter broke.
    fn is_proven(&self) -> bool {
        true
    }
    /// What it says now is false, until it is used again; or no longer.
    fn accuse(&mut self, yes: bool);
    fn is_accused(&self) -> bool;
    /// Where it says that the time is now, if its estimator does not believe it: from, to.
    fn doubted(&self, at: Count) -> Option<(Instant, Instant)>;
    /// Where it puts the time, from and to, if its time has stepped: as it did before, and does
    /// now.
    fn torn(&self, at: Count) -> Option<[(Instant, Instant); 2]>;
    /// Where it puts the time by what it said before, from and to, if what it says now is held off.
    fn held(&self, at: Count) -> Option<(Instant, Instant)>;
    fn estimate(&self, at: Count) -> Option<Estimate>;
    /// How long without a used exchange before its word counts as stale.
    fn patience(&self) -> Span;
    /// Its estimator.
    fn estimator(&self) -> &dyn Estimator;
    /// How many exchanges were used.
    fn used(&self) -> u64;

    /// How much longer it is fresh without another word; not positive: it is not.
    fn left(&self, estimate: &Estimate, at: Count) -> Span {
        let left = self.patience() - self.age(estimate, at);
        // What an earlier daemon left is no word of its own, however fresh.
        if self.is_proven() { left } else { left.min(Span(-1)) }
    }

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

impl Said<'_> {
    /// What a method may prefer.
    pub(crate) fn candidate(&self) -> Option<Candidate<'_>> {
        let (source, used) = (self.voice.id(), self.voice.used());
        self.estimate.map(|_| Candidate { source, used, estimator: self.voice.estimator() })
    }
}

/// Marks every voice's part where the method prefers one: all that say something are believed, and
/// that one is followed. Returns it.
pub(crate) fn follow(voices: &mut [Said<'_>], id: SourceId) -> Option<(usize, Estimate)> {
    let mut followed = None;
    for (index, Said { voice, estimate }) in voices.iter_mut().enumerate() {
        voice.mark(match estimate {
            None => Selection::Unusable,
            Some(e) if voice.id() == id => {
                followed = Some((index, *e));
                Selection::Selected
            }
            Some(_) => Selection::Truechimer,
        });
    }
    followed
}

/// Where the truth is, as far as the voices go.
struct Agreed {
    all: Claim,
    /// Some of it is a pulse's word.
    narrowed: bool,
}

/// Where the truth is by one voice: in one of these, if it says anything.
type Claims<'c> = dyn Fn(&Said<'_>) -> Option<Vec<Claim>> + 'c;

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

/// What the voices come to.
pub(crate) struct Chosen {
    /// The one with the most weight, in the order of the voices.
    pub(crate) index: usize,
    /// The time, with a bound that holds whoever of the majority is right.
    pub(crate) estimate: Estimate,
    /// What of that bound is there only because it covers words that are held off.
    pub(crate) disputed: Span,
    /// How many others have a part in it that is worth mentioning.
    pub(crate) others: usize,
    /// How much longer one of those that have a part is fresh without a word; not positive: none
    /// is.
    pub(crate) patience: Span,
}

/// Marks every voice's part, and works out the published time: the combination of those that agree,
/// or without one the word of the best. The bound reaches to the ends of where they agree, however
/// little anybody claims for himself. `to_come` servers are waited for.
pub(crate) fn choose(
    voices: &mut [Said<'_>],
    combination: Option<&mut Combination>,
    to_come: usize,
    at: Count,
) -> Option<Chosen> {
    let estimates = voices.iter().filter_map(|said| said.estimate);
    let origin = estimates.map(|e| e.time).next().unwrap_or_default();
    let news = news(voices, origin, at);
    let agree = |claims: &Claims<'_>| {
        let servers = vouched_by(voices, claims, to_come);
        let agreed = servers.as_ref().and_then(|servers| narrowed(voices, claims, servers, &news));
        (servers, agreed)
    };
    let (servers, agreed) = agree(&|said| claims(said, origin, at));
    let held = || agree(&|said| known(said, origin, at)).1;
    let held = if voices.iter().any(|said| said.voice.held(at).is_some()) { held() } else { None };
    let apart = if agreed.is_none() { apart(voices, origin, at) } else { Vec::new() };
    let mut parted = Vec::with_capacity(voices.len());
    for (place, Said { voice, estimate }) in voices.iter_mut().enumerate() {
        let (part, why) = match estimate {
            None => (Selection::Unusable, None),
            // Who is a falseticker shows when the others have had their chance.
            Some(_) if agreed.is_none() && to_come > 0 => (Selection::Unusable, None),
            Some(_) if agreed.is_none() => {
                let by = apart.get(place).copied().flatten();
                (Selection::NoMajority, Some(Why::NoMajority(by)))
            }
            Some(e) => part(&mut **voice, e, at, origin, servers.as_ref(), agreed.as_ref()),
        };
        if part != Selection::Truechimer || voice.selection() != Selection::Selected {
            voice.mark(part);
        }
        parted.push(voice.was_part());
        voice.weigh(None, why);
    }
    let Agreed { all, .. } = agreed.as_ref()?;
    let crowd = if combination.is_some() { CROWD } else { usize::MAX };
    let parts = parts(voices, &parted, crowd, origin, at);
    let (index, others, (time, period, difference)) = match combination {
        Some(combination) => combined(voices, &parts, combination, at, origin, all)?,
        None => best(voices, &parts)?,
    };
    for (place, said) in voices.iter_mut().enumerate() {
        if place == index {
            said.voice.mark(Selection::Selected);
        } else if said.voice.selection() == Selection::Selected {
            said.voice.mark(Selection::Truechimer);
        }
    }
    let left = |said: &Said<'_>| Some(said.voice.left(&said.estimate?, at));
    let patience = parts.iter().filter_map(|p| left(voices.get(*p)?)).max()?;
    let mut estimate = voices.get(index)?.estimate?;
    let strayed = estimate.difference.relative_to(difference).0.saturating_abs();
    let deviation = estimate.difference_deviation.0.saturating_add(strayed);
    let place = (time - origin).0.clamp(all.low, all.high);
    (estimate.time, estimate.period, estimate.difference) =
        (origin + Span(place), period, difference);
    estimate.bound = Span(all.reach(place));
    let claims = |half: fn(&Estimate) -> Span| {
        move |e: &Estimate| Claim::around((e.time - origin).0, half(e).0)
    };
    let path = vouchers(voices, to_come, claims(|e| e.path_bound.min(e.bound)));
    let known = held.map(|Agreed { all, .. }| Span(all.reach(place)));
    let own = estimate.path_bound;
    estimate.path_bound = path.map_or(own, |path| Span(path.reach(place))).min(estimate.bound);
    let rates =
        |e: &Estimate| Claim::around(e.period.relative_to(period).0.into(), e.growth.0.into());
    let differences = |e: &Estimate| {
        let apart = e.difference.relative_to(difference);
        Claim::around(apart.0.into(), e.difference_error.0.into())
    };
    estimate.growth = reach(voices, to_come, rates);
    estimate.difference_error = reach(voices, to_come, differences);
    estimate.difference_deviation = Rate(deviation).min(estimate.difference_error);
    let disputed = known.map_or(Span::ZERO, |known| estimate.bound - known);
    let disputed = disputed.min(estimate.bound - estimate.path_bound).max(Span::ZERO);
    Some(Chosen { index, estimate, disputed, others, patience })
}

/// What part a voice has, and why none.
fn part(
    voice: &mut dyn Voice,
    e: &Estimate,
    at: Count,
    origin: Instant,
    servers: Option<&Option<Claim>>,
    agreed: Option<&Agreed>,
) -> (Selection, Option<Why>) {
    let own = claim(e, origin);
    let with = match (servers, agreed) {
        (Some(servers), Some(_)) if !voice.is_pulse() => *servers,
        (_, Some(agreed)) if agreed.narrowed => Some(agreed.all),
        (_, Some(_)) => return (Selection::Falseticker, Some(Why::MeetsNone)),
        (_, None) => return (Selection::NoMajority, Some(Why::NoMajority(None))),
    };
    let Some(with) = with else { return (Selection::Truechimer, None) };
    if !own.meets(&with) {
        return (Selection::Falseticker, Some(Why::Apart(Span(own.gap(&with)))));
    }
    let Some((from, to)) = voice.doubted(at) else {
        voice.accuse(false);
        return (Selection::Truechimer, None);
    };
    let newest = Claim { low: (from - origin).0, high: (to - origin).0 };
    if !newest.meets(&with) {
        voice.accuse(true);
        return (Selection::Falseticker, Some(Why::NewsApart(Span(newest.gap(&with)))));
    }
    if voice.is_accused() {
        return (Selection::Falseticker, Some(Why::LastApart));
    }
    (Selection::Truechimer, None)
}

/// Who of those that agree has a part: those that have said something lately, if there are any, and
/// of several servers those that are where most of them probably are.
fn parts(
    voices: &mut [Said<'_>],
    parted: &[bool],
    crowd: usize,
    origin: Instant,
    at: Count,
) -> Vec<usize> {
    let agrees = |said: &Said<'_>| {
        matches!(said.voice.selection(), Selection::Truechimer | Selection::Selected)
    };
    let all = voices.iter().enumerate().filter(|(_, said)| agrees(said));
    let mut parts: Vec<usize> = all.map(|(index, _)| index).collect();
    let age = |said: &Said<'_>| said.estimate.map(|e| said.voice.age(&e, at));
    let stale = |said: &Said<'_>| age(said).is_some_and(|age| age > said.voice.patience());
    let probable = |place: usize, said: &Said<'_>, e: &Estimate| {
        let lean = said.voice.lean_bound(e).half();
        let half = lean.0.saturating_add(e.deviation.0.saturating_mul(PROBABLE));
        // Whoever was left out has to come a little nearer than it had to leave.
        let was = parted.get(place).copied().unwrap_or(false);
        Claim::around((e.time - origin).0, if was { half } else { half / 4 * 3 })
    };
    // What such a one held until now was not followed, and what it says now is not known yet.
    let torn = |place: &usize| {
        let was = parted.get(*place).copied().unwrap_or(false);
        !was && voices.get(*place).is_some_and(|said| said.voice.doubted(at).is_some())
    };
    let (mut torn, others): (Vec<usize>, Vec<usize>) = parts.iter().copied().partition(torn);
    if others.is_empty() {
        torn.clear();
    } else {
        parts = others;
    }
    for place in torn {
        if let Some(said) = voices.get_mut(place) {
            said.voice.weigh(None, Some(Why::Torn));
        }
    }
    let leader = leader(voices, parted, &parts, origin);
    let servers = parts.iter().filter_map(|p| Some((*p, voices.get(*p)?)));
    let servers = servers.filter(|(_, said)| !said.voice.is_pulse());
    let claims: Vec<Claim> =
        servers.filter_map(|(place, said)| Some(probable(place, said, &said.estimate?))).collect();
    let most = if claims.len() >= crowd { agreement(&claims, 0) } else { None };
    let rates = rates(voices, &parts, crowd);
    let mut leave = |why: &dyn Fn(usize, &Said<'_>) -> Option<Why>| {
        let reasons: Vec<Option<Why>> =
            parts.iter().map(|p| voices.get(*p).and_then(|said| why(*p, said))).collect();
        if reasons.iter().all(Option::is_some) {
            return;
        }
        for (place, reason) in parts.iter().zip(&reasons) {
            if let (Some(reason), Some(said)) = (reason, voices.get_mut(*place)) {
                said.voice.weigh(None, Some(reason.clone()));
            }
        }
        let mut reasons = reasons.iter();
        parts.retain(|_| reasons.next().is_some_and(Option::is_none));
    };
    leave(&|place, _| {
        let (claims, most) = rates.as_ref()?;
        let gap = claims.iter().find(|(of, _)| *of == place)?.1.gap(most);
        let by = Rate(i64::try_from(gap).unwrap_or(i64::MAX));
        (gap > 0).then_some(Why::OtherRate(by))
    });
    leave(&|_, said| {
        let (name, leads) = leader.as_ref()?;
        let gap = claim(&said.estimate?, origin).gap(leads);
        (gap > 0).then(|| Why::Contradicts(name.clone(), Span(gap)))
    });
    leave(&|place, said| {
        let (most, e) = (most?, said.estimate?);
        let gap = probable(place, said, &e).gap(&most);
        let off = gap > 0 && !said.voice.is_pulse();
        off.then_some(Why::Improbable(Span(gap)))
    });
    leave(&|_, said| {
        let age = age(said)?;
        stale(said).then_some(Why::Silent(age))
    });
    parts
}

/// The rates of the servers among these, and where a majority of them agrees.
#[allow(clippy::type_complexity)]
fn rates(
    voices: &[Said<'_>],
    parts: &[usize],
    crowd: usize,
) -> Option<(Vec<(usize, Claim)>, Claim)> {
    let servers = parts.iter().filter_map(|p| Some((*p, voices.get(*p)?)));
    let servers = servers.filter(|(_, said)| !said.voice.is_pulse());
    let each: Vec<(usize, Estimate)> =
        servers.filter_map(|(place, said)| Some((place, said.estimate?))).collect();
    let first = each.first()?.1.period;
    let claim =
        |e: &Estimate| Claim::around(e.period.relative_to(first).0.into(), e.growth.0.into());
    let claims: Vec<(usize, Claim)> = each.iter().map(|(place, e)| (*place, claim(e))).collect();
    let only: Vec<Claim> = claims.iter().map(|(_, claim)| *claim).collect();
    let most = agreement(&only, 0).filter(|_| only.len() >= crowd)?;
    Some((claims, most))
}

/// The one that the others must not contradict, where some of those that agree with a majority
/// contradict each other: a wide interval may be all that holds it together. Whoever was followed
/// until now, if there is one, else the one that agrees with the most of them.
fn leader(
    voices: &[Said<'_>],
    parted: &[bool],
    parts: &[usize],
    origin: Instant,
) -> Option<(String, Claim)> {
    let of = |place: &usize| Some((*place, claim(&voices.get(*place)?.estimate?, origin)));
    let claims: Vec<(usize, Claim)> = parts.iter().filter_map(of).collect();
    let met = |one: &Claim| claims.iter().filter(|(_, other)| other.meets(one)).count();
    if claims.iter().all(|(_, one)| met(one) == claims.len()) {
        return None;
    }
    let (place, leads) = claims.iter().max_by_key(|(place, one)| {
        let selected = |said: &Said<'_>| said.voice.selection() == Selection::Selected;
        let was_selected = voices.get(*place).is_some_and(selected);
        (was_selected, parted.get(*place).copied().unwrap_or(false), met(one))
    })?;
    Some((voices.get(*place)?.voice.name(), *leads))
}

/// A time, and the two rates.
type Put = (Instant, Period, Period);

/// Combines the parts. Returns which one has the most weight, how many others have a part, and what
/// they come to.
fn combined(
    voices: &mut [Said<'_>],
    parts: &[usize],
    combination: &mut Combination,
    at: Count,
    origin: Instant,
    all: &Claim,
) -> Option<(usize, usize, Put)> {
    let pulse = parts.iter().filter_map(|p| voices.get(*p)).any(|said| said.voice.is_pulse());
    let of = |index: &usize| {
        let said = voices.get(*index)?;
        let root_distance = said.voice.root_distance();
        let silent = pulse && !said.voice.is_pulse();
        let (id, estimate) = (said.voice.id().0, said.estimate?);
        let lean = said.voice.lean_bound(&estimate);
        let rtt = said.voice.rtt();
        Some(Part { id, estimate, root_distance, lean, silent, rtt })
    };
    let taking: Vec<Part> = parts.iter().filter_map(of).collect();
    let within = (origin + Span(all.low), origin + Span(all.high));
    let done = combination.combine(&taking, at, within)?;
    let mut heaviest: Option<(f64, usize)> = None;
    let out = |part: usize| done.outvoted.get(part).copied().flatten();
    for (part, (index, weight)) in parts.iter().zip(&done.weights).enumerate() {
        let said = voices.get_mut(*index)?;
        if let Some(by) = out(part) {
            said.voice.weigh(None, Some(Why::Improbable(by)));
            continue;
        }
        let was_selected = said.voice.selection() == Selection::Selected;
        let handicapped = if was_selected { weight * HEAVIER } else { *weight };
        if heaviest.is_none_or(|(most, _)| handicapped > most) {
            heaviest = Some((handicapped, *index));
        }
        said.voice.mark(if was_selected { Selection::Selected } else { Selection::Combined });
        said.voice.weigh(Some(*weight), None);
    }
    let (_, index) = heaviest?;
    for (_, place) in parts.iter().enumerate().filter(|(part, _)| out(*part).is_none()) {
        let said = voices.get_mut(*place)?;
        said.voice.mark(if *place == index { Selection::Selected } else { Selection::Combined });
    }
    let weights = parts.iter().zip(&done.weights);
    let others = weights.filter(|(part, w)| **part != index && **w >= SHARE).count();
    Some((index, others, (done.time, done.period, done.difference)))
}

/// The one of the parts with the smallest bound; the one that was selected before keeps its place
/// against those that are little better.
fn best(voices: &[Said<'_>], parts: &[usize]) -> Option<(usize, usize, Put)> {
    let handicapped = |index: &&usize| {
        let said = voices.get(**index)?;
        let was_selected = said.voice.selection() == Selection::Selected;
        let handicap = if was_selected { SWITCH.0 } else { SWITCH.1 };
        Some(said.estimate?.bound / SWITCH.1 * handicap)
    };
    let index = *parts.iter().min_by_key(handicapped)?;
    let e = voices.get(index)?.estimate?;
    Some((index, 0, (e.time, e.period, e.difference)))
}

/// Where a majority of the servers puts something, narrowed by what the pulses that are believed
/// say of it.
fn vouchers(
    voices: &[Said<'_>],
    to_come: usize,
    claim: impl Fn(&Estimate) -> Claim,
) -> Option<Claim> {
    let of = |pulses: bool| -> Vec<Claim> {
        let said = voices.iter().filter(|said| said.voice.is_pulse() == pulses);
        let believed = said.filter(|said| {
            !pulses
                || !matches!(
                    said.voice.selection(),
                    Selection::Falseticker | Selection::NoMajority | Selection::Unusable
                )
        });
        believed.filter_map(|said| said.estimate).map(|e| claim(&e)).collect()
    };
    let (servers, pulses) = (agreement(&of(false), to_come), agreement(&of(true), 0));
    match (servers, pulses) {
        (Some(servers), Some(pulses)) => servers.intersection(&pulses).or(Some(servers)),
        (servers, pulses) => servers.or(pulses),
    }
}

/// How far a rate may be from that of the published time: as far as a majority of the servers
/// leaves open, else as far as anybody who is believed says.
fn reach(voices: &[Said<'_>], to_come: usize, claim: impl Fn(&Estimate) -> Claim) -> Rate {
    let most = vouchers(voices, to_come, &claim).map(|most| most.reach(0)).unwrap_or_else(|| {
        let believed =
            voices.iter().filter(|said| said.voice.selection() != Selection::Falseticker);
        let each = believed.filter_map(|said| said.estimate).map(|e| claim(&e).reach(0));
        each.max().unwrap_or(i128::MAX)
    });
    Rate(i64::try_from(most).unwrap_or(i64::MAX))
}

/// Where the servers put the time; `Some(None)` if there is no server to ask.
#[allow(clippy::option_option)]
fn vouched_by(voices: &[Said<'_>], claims: &Claims<'_>, to_come: usize) -> Option<Option<Claim>> {
    let servers = voices.iter().filter(|said| !said.voice.is_pulse());
    let claims: Vec<Vec<Claim>> = servers.filter_map(claims).collect();
    if claims.is_empty() && to_come == 0 {
        return Some(None);
    }
    let each: Vec<&[Claim]> = claims.iter().map(Vec::as_slice).collect();
    agreement_among(&each, to_come).map(Some)
}

/// Where the truth is by one server: where it says, and if its time has stepped, either where it
/// was or where it is, but not between.
fn claims(said: &Said<'_>, origin: Instant, at: Count) -> Option<Vec<Claim>> {
    let all = claim(&said.estimate?, origin);
    let Some(ends) = said.voice.torn(at) else { return Some(vec![all]) };
    let [one, other] = ends.map(|(from, to)| {
        let (low, high) = ((from - origin).0, (to - origin).0);
        let more = (high.saturating_sub(low) / 64).saturating_add(ROUNDED.0);
        Claim { low: low.saturating_sub(more), high: high.saturating_add(more) }
    });
    Some(if one.meets(&other) { vec![all] } else { vec![one, other] })
}

/// Where the truth is by what a voice is known by: where it says, or where it was before its word
/// came to be held off.
fn known(said: &Said<'_>, origin: Instant, at: Count) -> Option<Vec<Claim>> {
    let all = claim(&said.estimate?, origin);
    let held = |(from, to): (Instant, Instant)| Claim {
        low: (from - ROUNDED - origin).0,
        high: (to + ROUNDED - origin).0,
    };
    Some(vec![said.voice.held(at).map_or(all, held)])
}

/// How far each is from the nearest of those that it contradicts.
fn apart(voices: &[Said<'_>], origin: Instant, at: Count) -> Vec<Option<Span>> {
    let all: Vec<Vec<Claim>> =
        voices.iter().map(|said| claims(said, origin, at).unwrap_or_default()).collect();
    let gap = |one: &[Claim], other: &[Claim]| {
        one.iter().flat_map(|one| other.iter().map(|other| one.gap(other))).min()
    };
    let nearest = |one: &Vec<Claim>| {
        all.iter().filter_map(|other| gap(one, other)).filter(|gap| *gap > 0).min().map(Span)
    };
    all.iter().map(nearest).collect()
}

/// Where servers put the time by what is held off.
fn news(voices: &[Said<'_>], origin: Instant, at: Count) -> Vec<Claim> {
    let speaks = voices.iter().filter(|said| said.estimate.is_some() && !said.voice.is_pulse());
    let claim = |(from, to): (Instant, Instant)| Claim {
        low: (from - ROUNDED - origin).0,
        high: (to + ROUNDED - origin).0,
    };
    speaks.filter_map(|said| said.voice.doubted(at)).map(claim).collect()
}

/// The same whole seconds away, where it meets what is held off there.
fn seconds_away(claim: &Claim, news: &Claim) -> Option<Claim> {
    let Span(second) = Span::from_secs(1);
    let middle = |claim: &Claim| claim.low / 2 + claim.high / 2;
    let seconds = (middle(news) - middle(claim) + second / 2).div_euclid(second);
    let by = seconds * second;
    let there = Claim { low: claim.low.saturating_add(by), high: claim.high.saturating_add(by) };
    (seconds != 0 && there.meets(news)).then_some(there)
}

/// What the pulses leave of that: a majority of those that lie within it. While there is `news`
/// that is held off, only of those whose edges fit.
fn narrowed(
    voices: &[Said<'_>],
    claims: &Claims<'_>,
    servers: &Option<Claim>,
    news: &[Claim],
) -> Option<Agreed> {
    let within = |claim: &Claim| servers.as_ref().is_none_or(|servers| servers.meets(claim));
    let fits = |said: &&Said<'_>| news.is_empty() || !said.voice.strays();
    let pulses = voices.iter().filter(|said| said.voice.is_pulse()).filter(fits);
    let in_seconds = |own: Vec<Claim>| -> Vec<Claim> {
        let away = own.iter().flat_map(|own| news.iter().filter_map(|n| seconds_away(own, n)));
        let away: Vec<Claim> = away.collect();
        own.into_iter().chain(away).filter(within).collect()
    };
    let claims: Vec<Vec<Claim>> = pulses.filter_map(claims).map(in_seconds).collect();
    let each: Vec<&[Claim]> =
        claims.iter().filter(|claims| !claims.is_empty()).map(Vec::as_slice).collect();
    match (agreement_among(&each, 0), servers) {
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
