//! Status: which sources agree, which of those have a part in the published time, and what they
//! come to.
//!
//! Servers vote, and reference clocks that the user trusts: the truth lies where a majority of them
//! agrees. The other reference clocks have no vote. A pulse knows no second by itself and is numbered
//! by what the servers say; a card may be set by anybody. But each is the user's own, and is believed
//! within what the majority vouches for. There it narrows the interval, also for a while after its
//! samples have stopped. Servers without proof beside servers with it, or with trust, have no vote
//! either, and narrow nothing, as they may all be one liar: where the others agree is a fence, within
//! which they may have a part in where the time stands. While samples of a server are held off a pulse
//! tells where a second begins, not which one that is: if both what was known and those samples fit,
//! the interval covers both.

mod put;

use smallvec::smallvec;
use truechimer_feedforward::Estimate;
use truechimer_time::{Count, Instant, Period, Rate, Span};
use truechimer_timehands::Likely;

use crate::cause::Cause;
use crate::combination::Combination;
use crate::drift::CROWD;
use crate::event::SourceId;
use crate::few::Few;
use crate::likely::{Place, likely};
use crate::method::Candidate;
use crate::peer::Peer;
use crate::report::SourceStatus as Status;
use crate::select::{Claim, agreement, agreement_among};
use put::{best, better, combined};

/// Where a source probably is: within so many deviations and half of the path's part of its bound.
/// Paths of which one direction takes three quarters are rare.
const PROBABLE: i128 = 4;

/// A little more, for what reading a counter rounds off.
const ROUNDED: Span = Span::from_micros(1);

/// A source, and what its filter knows if that may count.
pub(crate) struct Voter<'v> {
    pub(crate) peer: &'v mut Peer,
    pub(crate) estimate: Option<Estimate>,
    /// A smear of a leap second is taken off its replies.
    pub(crate) smears: bool,
}

impl Voter<'_> {
    /// True if it says something, has a vote, and does not smear.
    pub(crate) fn is_plain(&self) -> bool {
        self.estimate.is_some() && self.peer.votes() && !self.smears
    }

    /// Candidate that a method may prefer.
    pub(crate) fn candidate(&self) -> Option<Candidate<'_>> {
        let Peer { id, filter, tally, .. } = &*self.peer;
        let (source, used, estimator) = (*id, tally.accepted, filter.estimator.as_ref());
        self.estimate.map(|_| Candidate { source, used, estimator })
    }
}

/// Sets every source's status where the method prefers one: all that have an estimate are believed,
/// and that one is followed. Returns it.
pub(crate) fn follow(voters: &mut [Voter<'_>], id: SourceId) -> Option<(usize, Estimate)> {
    let mut followed = None;
    for (index, Voter { peer, estimate, .. }) in voters.iter_mut().enumerate() {
        peer.trust.mark(match estimate {
            None => Status::Unreachable,
            Some(e) if peer.id == id => {
                followed = Some((index, *e));
                Status::Selected
            }
            Some(_) => Status::Truechimer,
        });
    }
    followed
}

/// Where the truth is, as far as the voters go.
struct Agreed {
    all: Claim,
    /// One without a vote has narrowed it.
    narrowed: bool,
}

/// Where the truth is by one source: in one of these, if it says anything.
type Claims<'c> = dyn Fn(&Voter<'_>) -> Option<Few<Claim>> + 'c;

/// Claim of an estimate, on the scale that begins at `origin`.
fn claim(estimate: &Estimate, origin: Instant) -> Claim {
    let middle = (estimate.time - origin).0;
    let [Span(before), Span(after)] = estimate.reach();
    Claim { low: middle.saturating_sub(before), high: middle.saturating_add(after) }
}

/// Where a majority of these servers puts the time: its middle, and how far it may be off.
pub(crate) fn vouched(estimates: &[Option<Estimate>], to_come: usize) -> Option<(Instant, Span)> {
    let origin = estimates.iter().flatten().map(|e| e.time).next()?;
    let claims: Few<Claim> = estimates.iter().flatten().map(|e| claim(e, origin)).collect();
    let Claim { low, high } = agreement(&claims, to_come)?;
    let half = high.saturating_sub(low) / 2;
    Some((origin + Span(low.saturating_add(half)), Span(half.saturating_add(1))))
}

/// Choice of the voters.
pub(crate) struct Chosen {
    /// The one with the most weight, in the order of the voters.
    pub(crate) index: usize,
    /// The time, with a bound that holds whoever of the majority is right.
    pub(crate) estimate: Estimate,
    /// Likely error of the time.
    pub(crate) likely: Option<Likely>,
    /// Part of that bound that is there only because it covers samples that are held off.
    pub(crate) disputed: Span,
    /// Number of others that have a part in it that is worth mentioning.
    pub(crate) others: usize,
    /// Span for which one of those that the bound rests on stays fresh without a sample; not
    /// positive: none is.
    pub(crate) patience: Span,
    /// Which one that is, in the order of the voters.
    pub(crate) freshest: usize,
}

/// Marks every source's part, and works out the published time: the combination of those that agree,
/// or without one the estimate of the best. The bound reaches to the ends of where they agree, however
/// little anybody claims for himself. `to_come` servers are waited for.
pub(crate) fn choose(
    voters: &mut [Voter<'_>],
    combination: Option<&mut Combination>,
    to_come: usize,
    likely_doubt: Rate,
    at: Count,
) -> Option<Chosen> {
    let estimates = voters.iter().filter_map(|voter| voter.estimate);
    let origin = estimates.map(|e| e.time).next().unwrap_or_default();
    let news = news(voters, origin, at);
    let agree = |claims: &Claims<'_>| {
        let servers = vouched_by(voters, claims, to_come);
        let agreed = servers.as_ref().and_then(|servers| narrowed(voters, claims, servers, &news));
        (servers, agreed)
    };
    let (servers, agreed) = agree(&|voter| claims(voter, origin, at));
    let held = || agree(&|voter| known(voter, origin, at)).1;
    let held =
        if voters.iter().any(|voter| voter.peer.known(at).is_some()) { held() } else { None };
    let is_vouched = voters.iter().any(|voter| voter.peer.votes() && voter.estimate.is_some());
    let apart = if agreed.is_none() { apart(voters, origin, at) } else { Few::new() };
    let mut parted = Few::with_capacity(voters.len());
    for (place, Voter { peer, estimate, .. }) in voters.iter_mut().enumerate() {
        let (part, why) = match estimate {
            None => (Status::Unreachable, None),
            // Who is a falseticker shows when the others have had their chance.
            Some(_) if agreed.is_none() && to_come > 0 => (Status::Candidate, Some(Cause::Waiting)),
            Some(_) if agreed.is_none() && peer.is_fenced() && !is_vouched => {
                (Status::Candidate, Some(Cause::Unvouched))
            }
            Some(_) if agreed.is_none() => {
                let by = apart.get(place).copied().flatten();
                (Status::Candidate, Some(Cause::NoMajority(by)))
            }
            Some(e) => part(peer, e, at, origin, servers.as_ref(), agreed.as_ref()),
        };
        if part != Status::Truechimer || peer.trust.status() != Status::Selected {
            peer.trust.mark(part);
        }
        parted.push(peer.trust.was_part());
        peer.trust.weigh(None, why);
    }
    let Agreed { all, .. } = agreed.as_ref()?;
    let crowd = if combination.is_some() { CROWD } else { usize::MAX };
    let (parts, coasting) = parts(voters, &parted, crowd, origin, at);
    let (index, others, (time, period, difference)) = match combination {
        Some(combination) => combined(voters, &parts, &coasting, combination, at, origin, all)?,
        None => best(voters, &parts)?,
    };
    for (place, voter) in voters.iter_mut().enumerate() {
        if place == index {
            voter.peer.trust.mark(Status::Selected);
        } else if voter.peer.trust.status() == Status::Selected {
            voter.peer.trust.mark(Status::Truechimer);
        }
    }
    let (patience, freshest) = freshest(voters, &parts, index, at)?;
    let mut estimate = voters.get(index)?.estimate?;
    let strayed = estimate.difference.relative_to(difference).0.saturating_abs();
    let deviation = estimate.difference_deviation.0.saturating_add(strayed);
    let place = (time - origin).0.clamp(all.low, all.high);
    (estimate.time, estimate.period, estimate.difference) =
        (origin + Span(place), period, difference);
    estimate.bound = Span(all.reach(place));
    let (before, after) = (place.saturating_sub(all.low), all.high.saturating_sub(place));
    estimate.imbalance = Span(after.saturating_sub(before));
    let claims = |half: fn(&Estimate) -> Span| {
        move |e: &Estimate| Claim::around((e.time - origin).0, half(e).0)
    };
    let path = vouchers(voters, to_come, claims(|e| e.path_bound.min(e.bound)));
    let known = held.map(|Agreed { all, .. }| Span(all.reach(place)));
    let own = estimate.path_bound;
    estimate.path_bound = path.map_or(own, |path| Span(path.reach(place))).min(estimate.bound);
    let rates = |e: &Estimate| rate_claim(e, period);
    let differences = |e: &Estimate| {
        let apart = e.difference.relative_to(difference);
        Claim::around(apart.0.into(), e.difference_error.0.into())
    };
    estimate.growth = reach(voters, to_come, rates);
    estimate.difference_error = reach(voters, to_come, differences);
    estimate.difference_deviation = Rate(deviation).min(estimate.difference_error);
    let disputed = known.map_or(Span::ZERO, |known| estimate.bound - known);
    let disputed = disputed.min(estimate.bound - estimate.path_bound).max(Span::ZERO);
    let likely = likely_of(voters, &parts, &estimate, likely_doubt);
    Some(Chosen { index, estimate, likely, disputed, others, patience, freshest })
}

/// Span for which one of the parts stays fresh, and which: the one at `index`, unless that is
/// fenced. What is fenced keeps no bound: where there are no other parts it goes by those that
/// agree.
fn freshest(
    voters: &[Voter<'_>],
    parts: &[usize],
    index: usize,
    at: Count,
) -> Option<(Span, usize)> {
    let left = |place: usize| {
        let voter = voters.get(place).filter(|voter| !voter.peer.is_fenced())?;
        Some((voter.peer.left(&voter.estimate?, at), place))
    };
    let agrees = |place: &usize| voters.get(*place).is_some_and(|voter| voter.peer.trust.agrees());
    let of_parts = parts.iter().filter_map(|place| left(*place)).max();
    let (longest, which) =
        of_parts.or_else(|| (0..voters.len()).filter(agrees).filter_map(left).max())?;
    Some((longest, left(index).map_or(which, |_| index)))
}

/// Likely error of the chosen time: by the reference clocks that lead, or else by the servers.
fn likely_of(
    voters: &[Voter<'_>],
    parts: &[usize],
    chosen: &Estimate,
    doubt: Rate,
) -> Option<Likely> {
    let Estimate { time, period, bound, .. } = *chosen;
    let place = Place { time, period, bound };
    let leading = better(voters, parts);
    let leading: Few<&Voter<'_>> = leading.iter().filter_map(|part| voters.get(*part)).collect();
    if !leading.iter().all(|voter| voter.peer.has_statistics()) {
        return None;
    }
    let leading: Few<Estimate> = leading.iter().filter_map(|voter| voter.estimate).collect();
    if !leading.is_empty() {
        return likely(&leading, &place, doubt);
    }
    let servers = voters.iter().filter(|voter| voter.peer.votes());
    let servers = servers.filter(|voter| voter.peer.has_statistics());
    let servers: Few<Estimate> = servers.filter_map(|voter| voter.estimate).collect();
    likely(&servers, &place, doubt)
}

/// Part of a source, and why none.
fn part(
    peer: &mut Peer,
    e: &Estimate,
    at: Count,
    origin: Instant,
    servers: Option<&Option<Claim>>,
    agreed: Option<&Agreed>,
) -> (Status, Option<Cause>) {
    let own = claim(e, origin);
    let with = match (servers, agreed) {
        (Some(servers), Some(agreed)) if peer.is_fenced() => servers.or(Some(agreed.all)),
        (Some(servers), Some(_)) if peer.votes() => *servers,
        (_, Some(agreed)) if agreed.narrowed => Some(agreed.all),
        (_, Some(_)) => return (Status::Falseticker, Some(Cause::MeetsNobody)),
        (_, None) => return (Status::Candidate, Some(Cause::NoMajority(None))),
    };
    let Some(with) = with else { return (Status::Truechimer, None) };
    if !own.meets(&with) {
        return (Status::Falseticker, Some(Cause::Outvoted(Span(own.gap(&with)))));
    }
    let Some((from, to)) = peer.newest(at) else {
        peer.trust.is_newest_false = false;
        return (Status::Truechimer, None);
    };
    let newest = Claim { low: (from - origin).0, high: (to - origin).0 };
    if !newest.meets(&with) {
        peer.trust.is_newest_false = true;
        return (Status::Falseticker, Some(Cause::NewestOutvoted(Span(newest.gap(&with)))));
    }
    if peer.trust.is_newest_false {
        return (Status::Falseticker, Some(Cause::LastOutvoted));
    }
    (Status::Truechimer, None)
}

/// Those who agree and have a part: those that do not smear a leap second, and those that were sampled
/// lately, if there are any, and of several servers those that are where most of them probably are. With
/// them those that only were not sampled lately.
fn parts(
    voters: &mut [Voter<'_>],
    parted: &[bool],
    crowd: usize,
    origin: Instant,
    at: Count,
) -> (Few<usize>, Few<usize>) {
    let agrees = |voter: &Voter<'_>| {
        matches!(voter.peer.trust.status(), Status::Truechimer | Status::Selected)
    };
    let all = voters.iter().enumerate().filter(|(_, voter)| agrees(voter));
    let mut parts: Few<usize> = all.map(|(index, _)| index).collect();
    let age = |voter: &Voter<'_>| voter.estimate.map(|e| voter.peer.age(&e, at));
    let stale =
        |voter: &Voter<'_>| age(voter).is_some_and(|age| age > voter.peer.filter.reach_timeout());
    let probable = |place: usize, voter: &Voter<'_>, e: &Estimate| {
        let lean = voter.peer.filter.offset_error_bound(e).half();
        let half = lean.0.saturating_add(e.deviation.0.saturating_mul(PROBABLE));
        // Whoever was left out has to come a little nearer than it had to leave.
        let was = parted.get(place).copied().unwrap_or(false);
        Claim::around((e.time - origin).0, if was { half } else { half / 4 * 3 })
    };
    // What such a one held until now was not followed, and what it says now is not known yet.
    let stepped = |place: &usize| {
        let was = parted.get(*place).copied().unwrap_or(false);
        !was && voters.get(*place).is_some_and(|voter| voter.peer.newest(at).is_some())
    };
    let (mut stepped, others): (Few<usize>, Few<usize>) = parts.iter().copied().partition(stepped);
    if others.is_empty() {
        stepped.clear();
    } else {
        parts = others;
    }
    // A smear that is taken off is known less well than a time without one: it has its vote, and no part.
    let plain = |p: &usize| voters.get(*p).is_some_and(|voter| voter.is_plain() && !stale(voter));
    let unmixed = parts.iter().any(plain);
    let smears = |p: &usize| unmixed && voters.get(*p).is_some_and(|voter| voter.smears);
    let (smearing, others): (Few<usize>, Few<usize>) = parts.iter().copied().partition(smears);
    parts = others;
    let left = stepped.into_iter().map(|place| (place, Cause::StepWithoutPart));
    for (place, why) in left.chain(smearing.into_iter().map(|place| (place, Cause::LeapSmear))) {
        if let Some(voter) = voters.get_mut(place) {
            voter.peer.trust.weigh(None, Some(why));
        }
    }
    let leader = leader(voters, parted, &parts, origin);
    let servers = parts.iter().filter_map(|p| Some((*p, voters.get(*p)?)));
    let servers = servers.filter(|(_, voter)| voter.peer.votes());
    let claims: Few<Claim> = servers
        .filter_map(|(place, voter)| Some(probable(place, voter, &voter.estimate?)))
        .collect();
    let most = agreement(&claims, 0);
    let rates = rates(voters, &parts);
    // Two that vote tell nothing of one another; any tell whether what is fenced is like them.
    let is_crowd = claims.len() >= crowd;
    let counts = |voter: &Voter<'_>| voter.peer.is_fenced() || (voter.peer.votes() && is_crowd);
    let mut leave = |why: &dyn Fn(usize, &[Voter<'_>]) -> Option<Cause>| {
        let each = parts.iter().map(|p| why(*p, voters));
        let reasons: Few<Option<Cause>> = each.collect();
        if reasons.iter().all(Option::is_some) {
            return;
        }
        for (place, reason) in parts.iter().zip(&reasons) {
            if let (Some(reason), Some(voter)) = (reason, voters.get_mut(*place)) {
                voter.peer.trust.weigh(None, Some(reason.clone()));
            }
        }
        let mut reasons = reasons.iter();
        parts.retain(|_| reasons.next().is_some_and(Option::is_none));
    };
    leave(&|place, voters| {
        let voter = voters.get(place)?;
        let (first, most) = rates.as_ref().filter(|_| counts(voter))?;
        let gap = rate_claim(&voter.estimate?, *first).gap(most);
        let by = Rate(i64::try_from(gap).unwrap_or(i64::MAX));
        (gap > 0).then_some(Cause::RateDiffers(by))
    });
    leave(&|place, voters| {
        let (leader, leads) = leader.as_ref()?;
        let gap = claim(&voters.get(place)?.estimate?, origin).gap(leads);
        let name = &voters.get(*leader)?.peer.name;
        (gap > 0).then(|| Cause::ContradictsSelected(name.clone(), Span(gap)))
    });
    leave(&|place, voters| {
        let voter = voters.get(place)?;
        let (most, e) = (most?, voter.estimate?);
        let gap = probable(place, voter, &e).gap(&most);
        // The user's preference counts for more than what is probable.
        let preferred = voter.peer.preferred && !voter.peer.is_fenced();
        (gap > 0 && counts(voter) && !preferred).then_some(Cause::Outlier(Span(gap)))
    });
    let is_stale = |place: &usize| voters.get(*place).is_some_and(stale);
    let (coasting, heard): (Few<usize>, Few<usize>) = parts.iter().copied().partition(is_stale);
    if heard.is_empty() {
        return (coasting, Few::new());
    }
    for place in &coasting {
        if let Some(voter) = voters.get_mut(*place) {
            voter.peer.trust.weigh(None, age(voter).map(Cause::Stale));
        }
    }
    (heard, coasting)
}

/// Where a majority of those among these that vote puts the rate, against the first one's.
fn rates(voters: &[Voter<'_>], parts: &[usize]) -> Option<(Period, Claim)> {
    let servers = parts.iter().filter_map(|p| voters.get(*p));
    let servers = servers.filter(|voter| voter.peer.votes());
    let each: Few<Estimate> = servers.filter_map(|voter| voter.estimate).collect();
    let first = each.first()?.period;
    let claims: Few<Claim> = each.iter().map(|e| rate_claim(e, first)).collect();
    Some((first, agreement(&claims, 0)?))
}

/// Claim of an estimate about the rate, against another one.
fn rate_claim(e: &Estimate, other: Period) -> Claim {
    Claim::around(e.period.relative_to(other).0.into(), e.growth.0.into())
}

/// The one that the others must not contradict, where some of those that agree with a majority
/// contradict each other: a wide interval may be all that holds it together. Whoever was followed
/// until now, if there is one, else the one that agrees with the most of them; one that is preferred
/// before others, and one that is fenced after them.
fn leader(
    voters: &[Voter<'_>],
    parted: &[bool],
    parts: &[usize],
    origin: Instant,
) -> Option<(usize, Claim)> {
    let of = |place: &usize| Some((*place, claim(&voters.get(*place)?.estimate?, origin)));
    let claims: Few<(usize, Claim)> = parts.iter().filter_map(of).collect();
    let met = |one: &Claim| claims.iter().filter(|(_, other)| other.meets(one)).count();
    if claims.iter().all(|(_, one)| met(one) == claims.len()) {
        return None;
    }
    let (place, leads) = claims.iter().max_by_key(|(place, one)| {
        let selected = |voter: &Voter<'_>| voter.peer.trust.status() == Status::Selected;
        let was_selected = voters.get(*place).is_some_and(selected);
        let peer = |is: fn(&Peer) -> bool| voters.get(*place).is_some_and(|v| is(v.peer));
        let (of_others, preferred) = (peer(|peer| !peer.is_fenced()), peer(|peer| peer.preferred));
        (of_others, preferred, was_selected, parted.get(*place).copied().unwrap_or(false), met(one))
    })?;
    Some((*place, *leads))
}

/// Where a majority of those that vote puts something, narrowed by what the others that are believed
/// say of it.
fn vouchers(
    voters: &[Voter<'_>],
    to_come: usize,
    claim: impl Fn(&Estimate) -> Claim,
) -> Option<Claim> {
    let of = |believed: fn(&Peer) -> bool| -> Few<Claim> {
        let believed = voters.iter().filter(|voter| believed(voter.peer));
        believed.filter_map(|voter| voter.estimate).map(|e| claim(&e)).collect()
    };
    let voted = agreement(&of(Peer::votes), to_come);
    let narrower = agreement(&of(|peer| peer.narrows() && peer.trust.agrees()), 0);
    match (voted, narrower) {
        (Some(voted), Some(narrower)) => voted.intersection(&narrower).or(Some(voted)),
        (voted, narrower) => voted.or(narrower),
    }
}

/// Most that a rate may differ from that of the published time: as much as a majority of the
/// servers leaves open, else as much as anybody who is believed says.
fn reach(voters: &[Voter<'_>], to_come: usize, claim: impl Fn(&Estimate) -> Claim) -> Rate {
    let most = vouchers(voters, to_come, &claim).map(|most| most.reach(0)).unwrap_or_else(|| {
        let believed =
            voters.iter().filter(|voter| voter.peer.trust.status() != Status::Falseticker);
        let each = believed.filter_map(|voter| voter.estimate).map(|e| claim(&e).reach(0));
        each.max().unwrap_or(i128::MAX)
    });
    Rate(i64::try_from(most).unwrap_or(i64::MAX))
}

/// Where the servers put the time; `Some(None)` if there is no server to ask.
#[allow(clippy::option_option)]
fn vouched_by(voters: &[Voter<'_>], claims: &Claims<'_>, to_come: usize) -> Option<Option<Claim>> {
    let servers = voters.iter().filter(|voter| voter.peer.votes());
    let claims: Few<Few<Claim>> = servers.filter_map(claims).collect();
    if claims.is_empty() && to_come == 0 {
        return Some(None);
    }
    let each: Few<&[Claim]> = claims.iter().map(Few::as_slice).collect();
    agreement_among(&each, to_come).map(Some)
}

/// Where the truth is by one server: where it says, and if its time has stepped, either where it
/// was or where it is, but not between.
fn claims(voter: &Voter<'_>, origin: Instant, at: Count) -> Option<Few<Claim>> {
    let all = claim(&voter.estimate?, origin);
    let Some(ends) = voter.peer.before_and_after(at) else { return Some(smallvec![all]) };
    let [one, other] = ends.map(|(from, to)| {
        let (low, high) = ((from - origin).0, (to - origin).0);
        let more = (high.saturating_sub(low) / 64).saturating_add(ROUNDED.0);
        Claim { low: low.saturating_sub(more), high: high.saturating_add(more) }
    });
    Some(if one.meets(&other) { smallvec![all] } else { smallvec![one, other] })
}

/// Where the truth is by what a source is known by: where it says, or where it was before its
/// newest samples came to be held off.
fn known(voter: &Voter<'_>, origin: Instant, at: Count) -> Option<Few<Claim>> {
    let all = claim(&voter.estimate?, origin);
    let held = |(from, to): (Instant, Instant)| Claim {
        low: (from - ROUNDED - origin).0,
        high: (to + ROUNDED - origin).0,
    };
    Some(smallvec![voter.peer.known(at).map_or(all, held)])
}

/// Distance of each from the nearest of those that it contradicts.
fn apart(voters: &[Voter<'_>], origin: Instant, at: Count) -> Few<Option<Span>> {
    let all: Few<Few<Claim>> =
        voters.iter().map(|voter| claims(voter, origin, at).unwrap_or_default()).collect();
    let gap = |one: &[Claim], other: &[Claim]| {
        one.iter().flat_map(|one| other.iter().map(|other| one.gap(other))).min()
    };
    let nearest = |one: &Few<Claim>| {
        all.iter().filter_map(|other| gap(one, other)).filter(|gap| *gap > 0).min().map(Span)
    };
    all.iter().map(nearest).collect()
}

/// Where servers put the time by what is held off.
fn news(voters: &[Voter<'_>], origin: Instant, at: Count) -> Few<Claim> {
    let speaks = voters.iter().filter(|voter| voter.estimate.is_some() && voter.peer.votes());
    let claim = |(from, to): (Instant, Instant)| Claim {
        low: (from - ROUNDED - origin).0,
        high: (to + ROUNDED - origin).0,
    };
    speaks.filter_map(|voter| voter.peer.newest(at)).map(claim).collect()
}

/// Claim whole seconds away, where it meets what is held off there.
fn seconds_away(claim: &Claim, news: &Claim) -> Option<Claim> {
    let Span(second) = Span::from_secs(1);
    let middle = |claim: &Claim| claim.low / 2 + claim.high / 2;
    let seconds = (middle(news) - middle(claim) + second / 2).div_euclid(second);
    let by = seconds * second;
    let there = Claim { low: claim.low.saturating_add(by), high: claim.high.saturating_add(by) };
    (seconds != 0 && there.meets(news)).then_some(there)
}

/// Agreement that those without a vote leave of that: a majority of those that lie within it. While
/// there is `news` that is held off, only of those whose samples fit.
fn narrowed(
    voters: &[Voter<'_>],
    claims: &Claims<'_>,
    servers: &Option<Claim>,
    news: &[Claim],
) -> Option<Agreed> {
    let within = |claim: &Claim| servers.as_ref().is_none_or(|servers| servers.meets(claim));
    let fits = |voter: &&Voter<'_>| news.is_empty() || !voter.peer.strays;
    let narrows = voters.iter().filter(|voter| voter.peer.narrows()).filter(fits);
    let in_seconds = |voter: &Voter<'_>| -> Option<Few<Claim>> {
        let own = claims(voter)?;
        let news = if voter.peer.is_numbered { news } else { &[] };
        let away = own.iter().flat_map(|own| news.iter().filter_map(|n| seconds_away(own, n)));
        let away: Few<Claim> = away.collect();
        Some(own.into_iter().chain(away).filter(within).collect())
    };
    let claims: Few<Few<Claim>> = narrows.filter_map(in_seconds).collect();
    let each: Few<&[Claim]> =
        claims.iter().filter(|claims| !claims.is_empty()).map(Few::as_slice).collect();
    match (agreement_among(&each, 0), servers) {
        (Some(all), None) => Some(Agreed { all, narrowed: true }),
        (Some(all), Some(servers)) if all.meets(servers) => {
            let low = all.low.max(servers.low);
            let high = all.high.min(servers.high);
            Some(Agreed { all: Claim { low, high }, narrowed: true })
        }
        (_, Some(Claim { low, high })) => {
            Some(Agreed { all: Claim { low: *low, high: *high }, narrowed: false })
        }
        (None, None) => None,
    }
}
