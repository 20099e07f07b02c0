//! One time from the sources that agree: weighted, and handed over without steps.
//!
//! Every source's time is truth + its *lean* + noise. The lean is what the asymmetry of its path
//! and the error of its reference make: it hardly changes, and no exchange shows it. The noise is
//! what its estimator says (`deviation`).
//!
//! Two weightings follow. What the time *does* from exchange to exchange goes by the noise alone (1
//! / variance): the sources' news add up. It is the noise of the last half hour that counts: a
//! deviation falls with each exchange and grows until the next, and weights that followed it would
//! change hands with every reply, which adds more noise than it takes. Where the time *stands* goes
//! by what a lean can be: a fifth of the path's part of the bound, for a standard deviation (of
//! public servers few lean by more), and what the source was seen to jump by. Who may lean by much
//! more than the best counts even less: large leans are no bell curve.
//!
//! As only news add up, a source that comes, goes or changes its weight moves nothing: the
//! published time is continuous, and only glides to where the sources of now put it. It glides fast
//! if they know better than whoever it was learnt from, and slowly, as paths change, if they know
//! less: what a near server has taught of the others' leans outlives it.
//!
//! A source that is not heard any more, while others are, foretells what the time does, as long as it
//! does that better than they: what a new source says at first is mostly what it did not know before.

mod verdict;

use truechimer_feedforward::Estimate;
use truechimer_time::{Count, Instant, Period, Span};

use truechimer_feedforward::number::{fraction, rate, seconds, span};

use self::verdict::{judge, vote};
use crate::drift::{Movement, Path};
use crate::few::Few;

/// Standard deviation of a lean, as a share of the path's part of the bound. RADclock takes 0.2 of
/// the round trip for the worst asymmetry there is; the bound has half of the round trip.
const LEAN: f64 = 0.2;
/// No estimate is better than this, s: the noise of a stamp.
const LEAST: f64 = 50e-9;
/// Standard deviation of what a reference does from exchange to exchange, as a share of its root
/// distance: that is a bound, mostly of what stands still, and rounded up to 15 µs on the wire.
const REFERENCE: f64 = 0.02;
/// Over how long the noise of a source is averaged for its weight, s, all alike until then: what
/// was not known at first is soon forgotten ...
const NOISE: f64 = 1800.0;
/// ... unless it is so many times that by now: it has gone silent.
const SILENT: f64 = 4.0;
/// Ratio of a level's variance to that of the best at which it has half of the weight that it would
/// have; beyond, ever less.
const FAR: f64 = 16.0;
/// Before this age nothing is taught: the time is the weighted mean as it stands, s.
const YOUNG: f64 = 64.0;
/// Time constant with which the time glides to those that know better, s.
const FAST: f64 = 256.0;
/// Time constant to those that know less, s: routes keep for days, and one that changes shows it.
const SLOW: f64 = 604_800.0;
/// Factor by which the variance is less.
const WORSE: f64 = 1.5;
/// Time constant with which what a change of weights has left over is worked off, s.
const LEFT_OVER: f64 = 256.0;
/// Over how long a lean is averaged at most, s …
const LEANS: f64 = 14_400.0;
/// … and for how long an estimator's errors stay alike, s: that much is one measurement of it.
const ALIKE: f64 = 256.0;
/// Of whose rate so many times more is unknown than of another's: it has begun anew.
const LOST: f64 = 64.0;
/// Over how long it is averaged what a source is used to, for the vote on who drifts, s.
const DAY: f64 = 86_400.0;

/// A source that takes part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) id: u32,
    pub(crate) estimate: Estimate,
    /// The bound of its reference's error, as it claims it.
    pub(crate) root_distance: Span,
    /// The most that it may lean by.
    pub(crate) lean: Span,
    /// Silent: only learns where it leans, as there is something better, such as a pulse.
    pub(crate) silent: bool,
    /// Not heard of late, unlike others, and foretold since: a word in what the time does, as long as
    /// it knows that as well as they do, and none in where it stands.
    pub(crate) coasts: bool,
    /// The newest round trip.
    pub(crate) rtt: Option<Span>,
}

/// Result of combining them.
#[derive(Clone, Debug)]
pub(crate) struct Combined {
    pub(crate) time: Instant,
    pub(crate) period: Period,
    pub(crate) difference: Period,
    /// The parts' shares in where the time stands, in their order; they add up to 1.
    pub(crate) weights: Few<f64>,
    /// By how much they have moved against the majority of the others, if they are left out for it.
    pub(crate) outvoted: Few<Option<Span>>,
}

/// Memory from one combination to the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Combination {
    level: Option<Level>,
    /// With the numbers of their sources.
    members: Few<(u32, Member)>,
}

/// Where the time stands.
#[derive(Clone, Copy, Debug)]
struct Level {
    begun: Count,
    at: Count,
    time: Instant,
    period: Period,
    /// Variance of `time`, s².
    variance: f64,
}

/// Source as the combination knows it.
#[derive(Clone, Copy, Debug, Default)]
struct Member {
    /// Source's time − the combined one, in the long run, s.
    lean: f64,
    /// Information about `lean`, s / s².
    known: f64,
    /// Lean over a day, s, and for how long it has been averaged, s.
    used_to: f64,
    used: f64,
    /// Offset from there after the last combination, s; `None` if it had no part in it.
    off: Option<f64>,
    /// Mean variance of its noise, s², and how long that has been averaged, s.
    noise: Option<f64>,
    averaged: f64,
    /// Jump that was seen, s².
    jumped: f64,
    /// Count of a jump that was seen, and nobody has told yet whose it was.
    suspect: Option<Count>,
    /// Waits: off by more than its noise, and came there slowly.
    waits: bool,
    /// A majority of the others stands where this one does not.
    outvoted: Option<Outvoted>,
    path: Path,
    heard: Option<Count>,
    coasts: bool,
}

/// Since when a source has been outvoted.
#[derive(Clone, Copy, Debug)]
struct Outvoted {
    /// The count.
    since: Count,
    /// Since when it has been where it is now, and how far that is from what it was used to, s.
    here: Count,
    by: f64,
    /// The others have said so again since it showed.
    sure: bool,
}

/// A part, in seconds from where the time was foretold to be.
#[derive(Clone, Copy, Debug)]
struct Put {
    id: u32,
    offset: f64,
    /// Variance of its noise, and of what its reference may do, s².
    noise: f64,
    /// Noise now and in the mean, with what its reference does from exchange to exchange, s².
    quick: f64,
    mean: f64,
    /// The least variance of anybody's level, s².
    best: f64,
    /// Variance of what its lean may be, s².
    lean: f64,
    heard: Count,
    /// Uncertainty of its rate, and the least of anybody's.
    growth: f64,
    surest: f64,
    silent: bool,
    coasts: bool,
    /// Weight of one that coasts in what the time does.
    foretold: f64,
    member: Member,
}

impl Combination {
    /// The counter broke: nothing of before counts.
    pub(crate) fn forget(&mut self) {
        *self = Combination::default();
    }

    /// Only these sources are left.
    pub(crate) fn keep(&mut self, is_there: impl Fn(u32) -> bool) {
        self.members.retain(|(id, _)| is_there(*id));
    }

    /// The time at `at`, moved into `low..=high` as far as that is needed; those that coast come
    /// last. `None` of nothing.
    pub(crate) fn combine(
        &mut self,
        parts: &[Part],
        at: Count,
        (low, high): (Instant, Instant),
    ) -> Option<Combined> {
        let first = parts.first()?;
        let since = |from: Count, period: Period| seconds(period.span(at - from)).max(0.0);
        let foretold = self.level.map(|l| l.time + l.period.span(at - l.at));
        let origin = foretold.unwrap_or(first.estimate.time);
        let dt = self.level.map_or(0.0, |l| since(l.at, l.period));
        let age = self.level.map_or(0.0, |l| since(l.begun, l.period));
        let mut put: Few<Put> = parts.iter().map(|part| self.put(part, origin)).collect();
        let elapsed = |count: Count| self.level.map_or(0.0, |l| since(count, l.period));
        let heard = put.iter().filter(|p| !p.coasts).count();
        if self.level.is_some() && age >= YOUNG {
            vote(put.split_at_mut(heard).0, at, elapsed);
        }
        let speak = || put.iter().filter(|p| p.speaks()).map(Put::level_variance);
        let variance = 1.0 / speak().map(|variance| 1.0 / variance).sum::<f64>();
        let best = speak().fold(f64::INFINITY, f64::min);
        let surest = put.iter().map(|p| p.growth).fold(f64::INFINITY, f64::min);
        put.iter_mut().for_each(|p| (p.best, p.surest) = (best, surest));
        let raw = weighted(&put, Put::level_weight, |p| p.offset);
        let grown = self.level.filter(|_| age >= YOUNG);
        let (stands, known) = match grown {
            None => (raw, variance),
            Some(level) => {
                judge(put.split_at_mut(heard).0, at);
                foretell(&mut put);
                let news = weighted(&put, Put::news_weight, Put::news);
                let left = weighted(&put, Put::news_weight, Put::off) - news;
                let level_now = news + left * (dt / (dt + LEFT_OVER));
                let better = ((level.variance - variance) / level.variance).clamp(0.0, 1.0);
                let worse = variance > WORSE * level.variance;
                let slow = if worse { SLOW } else { age.min(SLOW) };
                let pull = dt * (1.0 / slow + better / FAST);
                let share = pull / (1.0 + pull);
                let glide = (raw - level_now) * share;
                // All lean by so much less then, whoever is not there now as well.
                self.lean_by(&mut put, -glide);
                let known = level.variance + (variance - level.variance) * share;
                (level_now + glide, known)
            }
        };
        let free = origin + span(stands);
        let time = Instant(free.0.clamp(low.0, high.0.max(low.0)));
        let pushed = seconds(time - free);
        if pushed.abs() > seconds(high - low) && self.level.is_some() {
            // The counter jumped, say. What was learnt before is of no use.
            self.forget();
            return self.combine(parts, at, (low, high));
        }
        self.lean_by(&mut put, -pushed);
        self.members.iter_mut().for_each(|(_, member)| member.off = None);
        for p in &mut put {
            p.learn(stands + pushed, dt, grown.is_none());
            match self.members.iter_mut().find(|(id, _)| *id == p.id) {
                Some((_, member)) => *member = p.member,
                None => self.members.push((p.id, p.member)),
            }
        }
        let mean = |of: fn(&Estimate) -> Period, shares: &[f64]| {
            let first = of(&first.estimate);
            let each = parts.iter().map(|part| fraction(of(&part.estimate).relative_to(first)));
            let off: f64 = each.zip(shares).map(|(off, share)| off * share).sum();
            if off == 0.0 { first } else { first.scaled(rate(off)) }
        };
        let news = shares(&put, Put::news_weight);
        let period = mean(|e| e.period, &news);
        let difference = mean(|e| e.difference, &news);
        let begun = self.level.map_or(at, |level| level.begun);
        self.level = Some(Level { begun, at, time, period, variance: known });
        let outvoted =
            put.iter().map(|p| (!p.foretells() && !p.silent).then(|| span(p.moved().abs())));
        let (weights, outvoted) = (shares(&put, Put::level_weight), outvoted.collect());
        Some(Combined { time, period, difference, weights, outvoted })
    }

    fn lean_by(&mut self, put: &mut [Put], by: f64) {
        let members = self.members.iter_mut().map(|(_, member)| member);
        let all = members.chain(put.iter_mut().map(|p| &mut p.member));
        all.for_each(|member| {
            member.lean += by;
            member.used_to += by;
        });
    }

    fn put(&self, part: &Part, origin: Instant) -> Put {
        let e = &part.estimate;
        let offset = seconds(e.time - origin);
        let own = seconds(e.deviation).max(LEAST);
        let root = seconds(part.root_distance);
        let lean = LEAN * seconds(part.lean);
        // Whoever is new agrees with what is known, for all that is known.
        let new = Member { lean: offset, used_to: offset, ..Member::default() };
        let known = self.members.iter().find(|(id, _)| *id == part.id);
        let mut member = known.map_or(new, |(_, member)| *member);
        if member.coasts && !part.coasts {
            // What it has learnt since is where it stands, and no news of the time.
            member.off = None;
        }
        if part.coasts {
            (member.suspect, member.waits) = (None, false);
        }
        member.coasts = part.coasts;
        if let Some(rtt) = part.rtt
            && member.heard != Some(e.last_used)
        {
            let before = member.heard.replace(e.last_used).unwrap_or(e.last_used);
            member.path.take(seconds(rtt), seconds(e.period.span(e.last_used - before)).max(0.0));
        }
        let with = |share: f64| own * own + share * share * root * root;
        let (noise, quick) = (with(LEAN), with(REFERENCE));
        let mean = member.noise.unwrap_or(quick).max(quick / SILENT);
        let (id, heard, silent, coasts) = (part.id, e.last_used, part.silent, part.coasts);
        let (lean, best) = (lean * lean, f64::INFINITY);
        let (growth, surest) = (fraction(e.growth), f64::INFINITY);
        Put {
            id,
            offset,
            noise,
            quick,
            mean,
            best,
            lean,
            heard,
            growth,
            surest,
            silent,
            coasts,
            foretold: 0.0,
            member,
        }
    }
}

impl Put {
    /// Offset from where it should be, s.
    fn off(&self) -> f64 {
        self.offset - self.member.lean
    }

    /// By how much it has moved since the last combination that it had a part in.
    fn news(&self) -> f64 {
        self.off() - self.member.off.unwrap_or(self.off())
    }

    /// Variance of `off`: its noise, and what is not known of its lean yet.
    fn variance(&self) -> f64 {
        self.noise + self.unlearnt()
    }

    /// Variance of what is not known of its lean yet.
    fn unlearnt(&self) -> f64 {
        ALIKE / self.member.known.max(ALIKE * 1e-3)
    }

    /// Offset from what it was used to, s.
    fn moved(&self) -> f64 {
        self.offset - self.member.used_to
    }

    /// True if it has a part.
    fn speaks(&self) -> bool {
        !self.coasts && self.foretells()
    }

    /// True if it has one, or has had one until it was not heard any more.
    fn foretells(&self) -> bool {
        !self.silent && !self.member.outvoted.is_some_and(|outvoted| outvoted.sure)
    }

    /// Standard deviation of how far it is from what it was used to.
    fn restless(&self) -> f64 {
        libm::sqrt(self.quick.max(self.mean) + self.unlearnt())
    }

    fn news_weight(&self) -> f64 {
        let lost = self.growth > LOST * self.surest;
        if self.coasts {
            self.foretold
        } else if !self.speaks() || lost || self.member.suspect.is_some() || self.member.waits {
            0.0
        } else {
            1.0 / (self.mean + self.unlearnt())
        }
    }

    /// Variance of where it puts the level.
    fn level_variance(&self) -> f64 {
        self.noise + self.lean + self.member.jumped
    }

    fn level_weight(&self) -> f64 {
        let variance = self.level_variance();
        if !self.speaks() { 0.0 } else { 1.0 / (variance * (1.0 + variance / (FAR * self.best))) }
    }

    fn movement(&self) -> Movement {
        Movement {
            by: self.moved(),
            deviation: self.restless(),
            hidden: self.member.path.change(),
            outvoted: self.member.outvoted.is_some(),
        }
    }

    /// Learns its lean from where the time stands now.
    fn learn(&mut self, stands: f64, dt: f64, young: bool) {
        let precision = 1.0 / self.noise;
        let off = self.off() - stands;
        let member = &mut self.member;
        match member.noise {
            Some(before) if dt > 0.0 && !member.coasts => {
                let over = member.averaged.min(NOISE);
                member.noise = Some(before + (self.quick - before) * (dt / (over + dt)));
                member.averaged += dt;
            }
            Some(_) => {}
            None => member.noise = Some(self.quick),
        }
        if young {
            (member.lean, member.known, member.off) =
                (member.lean + off, YOUNG * precision, Some(0.0));
            (member.used_to, member.used) = (member.lean, YOUNG);
            return;
        }
        if member.suspect.is_some() {
            // What it moved by is still to be judged.
            member.off = member.off.map(|before| before - stands);
            return;
        }
        if member.coasts || member.waits || member.outvoted.is_some() {
            // It teaches nothing while it says nothing, or while it is not known whose fault that is.
            member.off = Some(off);
            return;
        }
        member.jumped *= 1.0 - (dt / SLOW).min(1.0);
        member.used = (member.used + dt).min(DAY);
        if member.used > 0.0 {
            member.used_to += (self.offset - stands - member.used_to) * (dt / member.used).min(1.0);
        }
        let news = dt * precision;
        member.known = (member.known + news).min(LEANS * precision);
        let learnt = if member.known > 0.0 { off * (news / member.known).min(1.0) } else { 0.0 };
        member.lean += learnt;
        member.off = Some(off - learnt);
    }
}

/// Weighs those that coast by their noise at present against that of the heaviest of those that are heard, as if both had been
/// measured for as long.
fn foretell(put: &mut [Put]) {
    let heard = put.iter().filter(|p| !p.coasts && p.news_weight() > 0.0);
    let heaviest = heard.max_by(|a, b| a.news_weight().total_cmp(&b.news_weight()));
    let of = |p: &Put| p.news_weight() * p.mean.min(SILENT * p.quick);
    let all = heaviest.map_or(1.0, of);
    for p in put.iter_mut().filter(|p| p.coasts) {
        p.foretold = if p.foretells() { all / p.quick } else { 0.0 };
    }
}

/// Shares of weights, that add up to 1; alike where nobody has any.
fn shares(put: &[Put], weight: impl Fn(&Put) -> f64) -> Few<f64> {
    let total: f64 = put.iter().map(&weight).sum();
    let alike = put.len() as f64;
    put.iter().map(|p| if total > 0.0 { weight(p) / total } else { 1.0 / alike }).collect()
}

fn weighted(put: &[Put], weight: impl Fn(&Put) -> f64, value: impl Fn(&Put) -> f64) -> f64 {
    shares(put, weight).iter().zip(put).map(|(share, p)| share * value(p)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Estimators know little at first, and say so.
    #[test]
    fn what_was_not_known_at_first_is_soon_forgotten() {
        let mut put = Put {
            id: 1,
            offset: 0.0,
            noise: 1e-12,
            quick: 0.0,
            mean: 0.0,
            best: 1e-12,
            lean: 0.0,
            heard: Count(0),
            growth: 0.0,
            surest: 0.0,
            silent: false,
            coasts: false,
            foretold: 0.0,
            member: Member::default(),
        };
        // Half an hour.
        for exchanges in 1..=113 {
            put.quick = 1e-8 / f64::from(exchanges * exchanges);
            put.learn(0.0, 16.0, exchanges < 5);
        }
        let mean = put.member.noise.unwrap();
        assert!((0.5e-10..2e-10).contains(&mean), "{mean}");
    }
}
