//! True time at any stamp of one clock, as far as anchors and a rate that is limited leave open.

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
    /// 500 ppm: no oscillator in use is farther off, and the kernel slews no faster by itself
    /// (adjtimex(2)).
    fn default() -> Limits {
        Limits { rate_ppb: 500_000, wander_ppb: None }
    }
}

/// True time at a stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Told {
    /// Not before this, ns; `None` where nothing tells.
    pub earliest: Option<i64>,
    /// Not after this, ns; `None` where nothing tells.
    pub latest: Option<i64>,
    /// The anchors before and after contradict each other, so that the clock was stepped between
    /// them, or one of them is wrong: all that either leaves open is within the two.
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

    /// Both what this and what `other` leaves open.
    fn or(self, other: Told) -> Told {
        let both = |a: Option<i64>, b: Option<i64>, of: fn(i64, i64) -> i64| Some(of(a?, b?));
        Told {
            earliest: both(self.earliest, other.earliest, i64::min),
            latest: both(self.latest, other.latest, i64::max),
            contradicted: true,
        }
    }

    /// What both leave open, if anything.
    fn and(self, other: Told) -> Option<Told> {
        let one = |a: Option<i64>, b: Option<i64>, of: fn(i64, i64) -> i64| match (a, b) {
            (Some(a), Some(b)) => Some(of(a, b)),
            (a, b) => a.or(b),
        };
        let earliest = one(self.earliest, other.earliest, i64::max);
        let latest = one(self.latest, other.latest, i64::min);
        let empty = earliest.zip(latest).is_some_and(|(earliest, latest)| earliest > latest);
        (!empty).then_some(Told { earliest, latest, contradicted: false })
    }
}

impl From<&Anchor> for Told {
    fn from(anchor: &Anchor) -> Told {
        Told { earliest: anchor.earliest, latest: anchor.latest, contradicted: false }
    }
}

/// Rate of true time against the clock: deviations from 1, in parts per 10⁹.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Slopes {
    least: i64,
    most: i64,
}

/// 10⁹.
const BILLION: i128 = 1_000_000_000;

impl Slopes {
    fn of(limits: Limits) -> Slopes {
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

    /// What is known at `from`, as of `to`, before or after it.
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
        let mut runs = Vec::new();
        let mut rest = anchors.as_slice();
        while !rest.is_empty() {
            let (those, others) = rest.split_at(unbroken(rest, slopes));
            rest = others;
            if let Some(run) = Run::new(those, slopes) {
                runs.push(run.narrowed(those, limits.wander_ppb));
            }
        }
        Line { runs, anchors: anchors.len() }
    }

    /// True time at a stamp.
    #[must_use]
    pub fn at(&self, at: i64) -> Told {
        let begins = |run: &Run| run.stamps.first().is_some_and(|first| *first <= at);
        let next = self.runs.partition_point(begins);
        let after = self.runs.get(next);
        let Some(run) = next.checked_sub(1).and_then(|index| self.runs.get(index)) else {
            return after.map_or_else(Told::default, |run| run.at(at));
        };
        let inside = run.stamps.last().is_some_and(|last| at <= *last);
        match after.filter(|_| !inside) {
            // The break is somewhere between: the packet is on either side of it.
            Some(after) => run.at(at).or(after.at(at)),
            None => run.at(at),
        }
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

/// How many of these anchors, from the first on, do not contradict each other.
fn unbroken(anchors: &[Anchor], slopes: Slopes) -> usize {
    let mut last: Option<(Told, i64)> = None;
    for (index, anchor) in anchors.iter().enumerate() {
        let here = Told::from(anchor);
        let told = match last {
            Some((told, at)) => slopes.carry(told, at, anchor.at).and(here),
            None => Some(here),
        };
        let Some(told) = told else { return index };
        last = Some((told, anchor.at));
    }
    anchors.len()
}
