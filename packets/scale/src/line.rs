//! True time at any stamp of one clock, as far as anchors and a rate that is limited leave open.

use crate::scales::DISORDER;

/// Runs that may hold at one stamp; where there are more, nothing is known.
const RUNS: usize = 16;

/// A moment at which something is known of true time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Anchor {
    /// Stamp, ns by the clock in question.
    pub at: i64,
    /// True time was not before this, ns.
    pub earliest: Option<i64>,
    /// True time was not after this, ns.
    pub latest: Option<i64>,
}

impl Anchor {
    /// Anchor with both sides.
    #[must_use]
    pub fn between(at: i64, earliest: i64, latest: i64) -> Anchor {
        Anchor { at, earliest: Some(earliest), latest: Some(latest) }
    }
}

/// Limits of a clock's rate, in parts per 10⁹, none below zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The rate is within this of nominal.
    pub rate_ppb: i64,
    /// The rate is within this of its average between the first and the last anchor; `None` where
    /// nobody promises that, as for a clock that is steered.
    pub wander_ppb: Option<i64>,
}

impl Default for Limits {
    /// 1100 ppm: an oscillator within 100 ppm, whose clock the kernel steers by up to 500 ppm in
    /// frequency and slews by as much again (adjtimex(2), adjtime(3)). A daemon that slews through
    /// the length of a tick, as chronyd does, is faster.
    fn default() -> Limits {
        Limits { rate_ppb: 1_100_000, wander_ppb: None }
    }
}

/// True time at a stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Told {
    /// Not before this, ns; `None` where nothing tells.
    pub earliest: Option<i64>,
    /// Not after this, ns; `None` where nothing tells.
    pub latest: Option<i64>,
    /// Anchors near it contradict each other, so that the clock was stepped there, or one of them is
    /// wrong: all that any of them leaves open is within the two.
    pub contradicted: bool,
}

impl Told {
    /// The middle, and the bound of its error, ns; `None` while a side is open.
    #[must_use]
    pub fn middle(&self) -> Option<(i64, u64)> {
        let (earliest, latest) = (self.earliest?, self.latest?);
        let width = i128::from(latest) - i128::from(earliest);
        let middle = i128::from(earliest) + width / 2;
        Some((i64::try_from(middle).ok()?, u64::try_from(width - width / 2).ok()?))
    }

    /// All that this or `other` leaves open.
    pub(crate) fn or(self, other: Told) -> Told {
        let both = |a: Option<i64>, b: Option<i64>, of: fn(i64, i64) -> i64| Some(of(a?, b?));
        Told {
            earliest: both(self.earliest, other.earliest, i64::min),
            latest: both(self.latest, other.latest, i64::max),
            contradicted: true,
        }
    }

    /// Times that both leave open, if any.
    pub(crate) fn and(self, other: Told) -> Option<Told> {
        let one = |a: Option<i64>, b: Option<i64>, of: fn(i64, i64) -> i64| match (a, b) {
            (Some(a), Some(b)) => Some(of(a, b)),
            (a, b) => a.or(b),
        };
        let earliest = one(self.earliest, other.earliest, i64::max);
        let latest = one(self.latest, other.latest, i64::min);
        let empty = earliest.zip(latest).is_some_and(|(earliest, latest)| earliest > latest);
        let contradicted = self.contradicted || other.contradicted;
        (!empty).then_some(Told { earliest, latest, contradicted })
    }
}

impl From<&Anchor> for Told {
    fn from(anchor: &Anchor) -> Told {
        Told { earliest: anchor.earliest, latest: anchor.latest, contradicted: false }
    }
}

/// Rate of true time against the clock: deviations from 1, in parts per 10⁹.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slopes {
    least: i64,
    most: i64,
}

/// 10⁹.
const BILLION: i128 = 1_000_000_000;

impl Slopes {
    pub(crate) fn of(limits: Limits) -> Slopes {
        // A clock that gains by r shows true time at 1 / (1 + r), which is within 1 ± r / (1 − r).
        let rate = i128::from(limits.rate_ppb.clamp(0, 500_000_000));
        let most = (rate * BILLION).div_euclid(BILLION - rate) + 1;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        Slopes { least: -most, most }
    }

    /// Narrowed to `wander_ppb` around the average between two moments.
    fn around(self, wander_ppb: i64, (from, at): (Told, i64), (to, until): (Told, i64)) -> Slopes {
        let span = i128::from(until) - i128::from(at);
        let average = |to: Option<i64>, from: Option<i64>| {
            let change = i128::from(to?) - i128::from(from?) - span;
            Some((change * BILLION, span)).filter(|(_, span)| *span > 0)
        };
        let wander = i128::from(wander_ppb.max(0));
        let least = average(to.earliest, from.latest)
            .map(|(change, span)| change.div_euclid(span) - 1 - wander)
            .and_then(|least| i64::try_from(least).ok());
        let most = average(to.latest, from.earliest)
            .map(|(change, span)| change.div_euclid(span) + 1 + wander)
            .and_then(|most| i64::try_from(most).ok());
        let narrowed = Slopes {
            least: least.map_or(self.least, |least| least.max(self.least)),
            most: most.map_or(self.most, |most| most.min(self.most)),
        };
        if narrowed.least <= narrowed.most { narrowed } else { self }
    }

    /// Longest true time, ns, in which the clock goes on by `unit_ns`.
    pub(crate) fn longest(self, unit_ns: i64) -> i64 {
        let told = Told { latest: Some(0), ..Told::default() };
        self.carry(told, 0, unit_ns).latest.unwrap_or(i64::MAX)
    }

    /// Knowledge at `from`, as of `to`, before or after it.
    fn carry(self, told: Told, from: i64, to: i64) -> Told {
        let span = i128::from(to) - i128::from(from);
        let (slow, fast) = (i128::from(self.least), i128::from(self.most));
        // Backwards the faster rate leads to the earlier time.
        let (slow, fast) = if span >= 0 { (slow, fast) } else { (fast, slow) };
        let moved = |time: Option<i64>, rate: i128, up: i128| {
            let drift = (span * rate).div_euclid(BILLION) + up;
            i64::try_from(i128::from(time?) + span + drift).ok()
        };
        Told {
            earliest: moved(told.earliest, slow, 0),
            latest: moved(told.latest, fast, i128::from(span != 0)),
            contradicted: told.contradicted,
        }
    }
}

/// Anchors between which the clock ran on without a break, each with what those before it and those
/// after it leave open there.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Run {
    slopes: Slopes,
    stamps: Vec<i64>,
    from_before: Vec<Told>,
    from_after: Vec<Told>,
}

impl Run {
    fn new(anchors: &[Anchor], slopes: Slopes) -> Option<Run> {
        let from_before = sweep(anchors.iter(), slopes)?;
        let mut from_after = sweep(anchors.iter().rev(), slopes)?;
        from_after.reverse();
        let stamps = anchors.iter().map(|anchor| anchor.at).collect();
        Some(Run { slopes, stamps, from_before, from_after })
    }

    /// Narrower, where the rate keeps to its average.
    fn narrowed(self, anchors: &[Anchor], wander_ppb: Option<i64>) -> Run {
        let (Some(wander), Some(first), Some(last)) =
            (wander_ppb, self.from_after.first(), self.from_before.last())
        else {
            return self;
        };
        let (Some(from), Some(until)) = (self.stamps.first(), self.stamps.last()) else {
            return self;
        };
        let slopes = self.slopes.around(wander, (*first, *from), (*last, *until));
        // Where the anchors refute what was promised, they are believed.
        Run::new(anchors, slopes).unwrap_or(self)
    }

    fn at(&self, at: i64) -> Told {
        let after = self.stamps.partition_point(|stamp| *stamp <= at);
        let before = after.checked_sub(1);
        let known = |index: Option<usize>, of: &[Told]| {
            let index = index?;
            Some(self.slopes.carry(*of.get(index)?, *self.stamps.get(index)?, at))
        };
        let before = known(before, &self.from_before).unwrap_or_default();
        let after = known(Some(after), &self.from_after).unwrap_or_default();
        before.and(after).unwrap_or_else(|| before.or(after))
    }
}

/// Goes through anchors in their order; `None` where they contradict each other.
fn sweep<'a>(anchors: impl Iterator<Item = &'a Anchor>, slopes: Slopes) -> Option<Vec<Told>> {
    let mut all: Vec<Told> = Vec::new();
    let mut last: Option<(Told, i64)> = None;
    for anchor in anchors {
        let here = Told::from(anchor);
        let told = match last {
            Some((told, at)) => slopes.carry(told, at, anchor.at).and(here)?,
            None => here,
        };
        last = Some((told, anchor.at));
        all.push(told);
    }
    Some(all)
}

/// True time at any stamp of one clock.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Line {
    runs: Vec<Run>,
    /// Least and greatest stamp at which each run may hold, but for [`DISORDER`]; neither goes back.
    reach: Vec<(i64, i64)>,
    anchors: usize,
}

impl Line {
    /// By anchors in any order.
    #[must_use]
    pub fn new(mut anchors: Vec<Anchor>, limits: Limits) -> Line {
        anchors.retain(|anchor| {
            // One that contradicts itself tells nothing.
            Told::from(anchor).and(Told::default()).is_some()
        });
        anchors.sort_by_key(|anchor| anchor.at);
        let slopes = Slopes::of(limits);
        let (mut runs, mut reach): (Vec<Run>, Vec<(i64, i64)>) = Default::default();
        let (mut before, mut rest): (&[Anchor], _) = (&[], anchors.as_slice());
        while let Some(first) = rest.first() {
            let (those, others) = rest.split_at(unbroken(rest.iter(), slopes));
            if let Some(run) = Run::new(those, slopes) {
                runs.push(run.narrowed(those, limits.wander_ppb));
                if let Some((_, to)) = reach.last_mut() {
                    *to = first.at;
                }
                reach.push((parted(before, first, slopes), i64::MAX));
                before = those;
            }
            rest = others;
        }
        excursions(&runs, &mut reach);
        Line { runs, reach, anchors: anchors.len() }
    }

    /// True time at a stamp.
    #[must_use]
    pub fn at(&self, at: i64) -> Told {
        // After a step back stamps are as far before anchors of before it, and those of before as
        // far after anchors of after it.
        let begin = self.reach.partition_point(|(_, to)| to.saturating_add(DISORDER) < at);
        let end = self.reach.partition_point(|(from, _)| from.saturating_sub(DISORDER) <= at);
        let runs = self.runs.get(begin..end).unwrap_or_default();
        if runs.len() > RUNS {
            return Told { contradicted: true, ..Told::default() };
        }
        runs.iter().map(|run| run.at(at)).reduce(Told::or).unwrap_or_default()
    }

    /// Times at which the clock was stepped, or anchors are wrong.
    #[must_use]
    pub fn breaks(&self) -> usize {
        self.runs.len().saturating_sub(1)
    }

    /// Anchors that it is made of.
    #[must_use]
    pub fn anchors(&self) -> usize {
        self.anchors
    }

    /// First and last stamp that an anchor has.
    #[must_use]
    pub fn range(&self) -> Option<(i64, i64)> {
        let first = self.runs.first()?.stamps.first()?;
        Some((*first, *self.runs.last()?.stamps.last()?))
    }
}

/// Count of these anchors, from the first on, that do not contradict each other.
fn unbroken<'a>(anchors: impl Iterator<Item = &'a Anchor>, slopes: Slopes) -> usize {
    let mut last: Option<(Told, i64)> = None;
    let mut count = 0;
    for anchor in anchors {
        let here = Told::from(anchor);
        let told = match last {
            Some((told, at)) => slopes.carry(told, at, anchor.at).and(here),
            None => Some(here),
        };
        let Some(told) = told else { break };
        last = Some((told, anchor.at));
        count += 1;
    }
    count
}

/// Stamp of the last anchor of a run that the run from `first` on cannot have: those after it may
/// be of either, as a request tells one side only.
fn parted(before: &[Anchor], first: &Anchor, slopes: Slopes) -> i64 {
    let backwards = std::iter::once(first).chain(before.iter().rev());
    let kept = unbroken(backwards, slopes);
    let parts = before.len().checked_sub(kept).and_then(|index| before.get(index));
    parts.or(before.first()).map_or(i64::MIN, |anchor| anchor.at)
}

/// Widens the reach of runs that come back: if a later one goes on where an earlier one left off,
/// those between them are no step for sure.
fn excursions(runs: &[Run], reach: &mut [(i64, i64)]) {
    for (index, run) in runs.iter().enumerate() {
        let [next, later @ ..] = runs.get(index + 1..).unwrap_or_default() else { break };
        let later = later.get(..later.len().min(RUNS / 2)).unwrap_or_default();
        let Some(back) = later.iter().rposition(|back| comes_back(run, next, back)) else {
            continue;
        };
        let back = index + 2 + back;
        let from = reach.get(index + 1).map_or(i64::MIN, |(from, _)| *from);
        let to = runs.get(back).and_then(|run| run.stamps.first()).map_or(i64::MAX, |at| *at);
        if let Some(reach) = reach.get_mut(index) {
            reach.1 = reach.1.max(to);
        }
        if let Some(reach) = reach.get_mut(back) {
            reach.0 = reach.0.min(from);
        }
    }
    let mut most = i64::MIN;
    for (_, to) in &mut *reach {
        most = most.max(*to);
        *to = most;
    }
    let mut least = i64::MAX;
    for (from, _) in reach.iter_mut().rev() {
        least = least.min(*from);
        *from = least;
    }
}

/// True if `back` goes on where `run` left off, and shows that `next` did not.
fn comes_back(run: &Run, next: &Run, back: &Run) -> bool {
    let Some((at, there)) = back.stamps.first().zip(back.from_after.first()) else { return false };
    let before = run.at(*at);
    before.and(*there).is_some() && before.and(next.at(*at)).is_none()
}
