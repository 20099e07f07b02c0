//! One kernel clock against the counter: its pairs of the recent past, and stamps by it turned into
//! counts.

use std::collections::VecDeque;

use truechimer_counter::HostPair;
use truechimer_stamp::{Interval, Region};
use truechimer_time::{Count, CountSpan, Period, Rate, Span};

use super::segment::Segment;

/// Number of pairs kept: some seconds where one is taken each millisecond.
const PAIRS: usize = 4096;
/// Largest deviation of the counter's rate from a clock's nominal one: `adjtimex` changes the
/// tick by up to 10 % and the frequency by 500 ppm, `adjtime` slews at 500 ppm more, the nominal
/// period is good to 500 ppm. A clock that is 10.15 % slow sees a counter that is 11.3 % fast.
pub(crate) const HARDEST: Rate = Rate::from_ppb(120_000_000);
/// So far beyond its pairs a clock that may be stepped is still believed, ns: pairs and stamps are
/// made on different processors, and the order of things is no sharper.
const NEAR: u64 = 10_000;
/// Such a limit for a clock that is never stepped: 1 s.
const FAR: u64 = 1_000_000_000;

/// A stretch may reach so far beyond its pairs before it is looked at for every stamp, ns: where
/// the kernel's clock is slow to read any two pairs may hide a step of as much as that takes.
const WIDE: i64 = 1_000_000;

/// Events that may happen to a clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Nature {
    /// Stepped, and `CLOCK_MONOTONIC` beside it tells: `CLOCK_REALTIME`.
    Stepped,
    /// Never stepped: `CLOCK_MONOTONIC` itself.
    Steady,
    /// Stepped perhaps, and nothing tells.
    Unwatched,
}

/// Knowledge of one stretch between two pairs.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    reach: [Option<(i64, i64)>; 2],
}

impl Stretch {
    fn reaches(&self, ns: i64) -> bool {
        self.reach.iter().flatten().any(|(lo, hi)| (*lo..=*hi).contains(&ns))
    }
}

/// The pairs of one clock.
#[derive(Debug)]
pub(crate) struct Track {
    nature: Nature,
    period: Period,
    own: CountSpan,
    pairs: VecDeque<HostPair>,
    /// One between each two pairs.
    stretches: VecDeque<Stretch>,
    /// The number of the first stretch, of all there ever were.
    first: u64,
    /// The numbers of stretches on which the clock was stepped or went back: between them its
    /// readings ascend.
    odd: VecDeque<u64>,
    /// The most that a stretch which is not odd reaches beyond its pairs, ns.
    slack: i64,
    /// The lines of the stretches that were asked for last.
    lines: [Option<Segment>; 2],
    /// No stamp is from before this.
    earliest: Option<Count>,
    /// Number of stamps for which no line would do.
    pub(crate) slow: u64,
}

impl Track {
    pub(crate) fn new(nature: Nature, period: Period, own: CountSpan) -> Track {
        Track {
            nature,
            period,
            own,
            pairs: VecDeque::new(),
            stretches: VecDeque::new(),
            first: 0,
            odd: VecDeque::new(),
            slack: 0,
            lines: [None; 2],
            earliest: None,
            slow: 0,
        }
    }

    /// Keeps a pair; its `unix_ns` is the clock's reading. One that is not later than the last
    /// makes all before it forgotten.
    pub(crate) fn push(&mut self, pair: HostPair) {
        if !pair.after.at_or_after(pair.before) {
            self.clear();
            return;
        }
        if self.pairs.back().is_some_and(|last| !pair.before.at_or_after(last.after)) {
            self.clear();
        }
        self.lines = [None; 2];
        if let Some(last) = self.pairs.back() {
            let interval = self.interval(last, &pair);
            let reach = interval.reach();
            let beyond = |(lo, hi): (i64, i64)| {
                last.unix_ns.saturating_sub(lo).max(hi.saturating_sub(pair.unix_ns))
            };
            let beyond = reach.into_iter().flatten().map(beyond).max().unwrap_or(0);
            let odd = interval.is_surely_stepped() || pair.unix_ns < last.unix_ns || beyond > WIDE;
            if odd {
                self.odd.push_back(self.first + self.stretches.len() as u64);
            } else {
                self.slack = self.slack.max(beyond.saturating_add(1));
            }
            self.stretches.push_back(Stretch { reach });
        }
        if self.pairs.len() >= PAIRS {
            self.pairs.pop_front();
            self.stretches.pop_front();
            self.first += 1;
            if self.odd.front().is_some_and(|number| *number < self.first) {
                self.odd.pop_front();
            }
        }
        self.pairs.push_back(pair);
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.first += self.stretches.len() as u64;
        self.pairs.clear();
        self.stretches.clear();
        self.odd.clear();
        self.slack = 0;
        self.lines = [None; 2];
        self.earliest = None;
    }

    /// Number of stretches that are looked at for every stamp that no line tells of.
    #[cfg(test)]
    pub(crate) fn odd_ones(&self) -> usize {
        self.odd.len()
    }

    /// No stamp that is asked for from here on is from before this count.
    pub(crate) fn not_before(&mut self, count: Count) {
        // What was known to be over stays so.
        self.earliest = Some(self.earliest.map_or(count, |known| known.latest(count)));
        // A clock that only went forward shows no time twice.
        if !self.odd.is_empty() {
            self.lines = [None; 2];
        }
    }

    /// The count at which the clock showed `ns`, and the bound of its error; `None` where that
    /// cannot be told.
    #[inline(always)]
    pub(crate) fn count(&mut self, ns: i64) -> Option<(Count, CountSpan)> {
        let [one, other] = &self.lines;
        for line in [one, other].into_iter().flatten() {
            if let Some(found) = line.count(ns) {
                return Some(found);
            }
        }
        self.search(ns)
    }

    /// Finds it by all that there is; keeps a line for those that come after, if there can be one.
    #[cold]
    #[inline(never)]
    fn search(&mut self, ns: i64) -> Option<(Count, CountSpan)> {
        if let Some(line) = self.line(ns) {
            let found = line.count(ns);
            let [one, other] = &mut self.lines;
            *other = one.replace(line);
            if found.is_some() {
                return found;
            }
        }
        self.slow += 1;
        self.place(ns)
    }

    /// Works out the place by the mathematics of the stamps, over all stretches that may have shown
    /// `ns`.
    pub(crate) fn place(&self, ns: i64) -> Option<(Count, CountSpan)> {
        let origin = self.pairs.front()?.before;
        // A clock that only went forward shows no time twice.
        let earliest = self.earliest.filter(|_| !self.odd.is_empty());
        let earliest = earliest.map_or(i128::MIN, |count| i128::from((count - origin).0));
        let causal = |place: Region| place.within(earliest, i128::MAX);
        let mut found: Option<Region> = None;
        let (mut any, mut torn) = (false, false);
        self.candidates(ns, |index| {
            let Some(interval) = self.stretch(index) else { return };
            any = true;
            if interval.extent().1 < earliest {
                return;
            }
            torn |= interval.is_torn();
            for place in interval.places(ns).into_iter().flatten().filter_map(causal) {
                found = Some(found.map_or(place, |known| known.hull(place)));
            }
        });
        if torn {
            return None;
        }
        let found = match found {
            None if !any => self.beyond(ns).and_then(causal),
            found => found,
        }?;
        let span = |counts: i128| i64::try_from(counts).ok().map(CountSpan);
        let error = span((found.best - found.lo).max(found.hi - found.best))?;
        Some((origin + span(found.best)?, error + self.own))
    }

    /// Before the first pair or after the last one, near enough to it that the clock can be relied
    /// on.
    fn beyond(&self, ns: i64) -> Option<Region> {
        let (first, last) = (self.pairs.front()?, self.pairs.back()?);
        let (pair, ahead) = match (ns > last.unix_ns, ns < first.unix_ns) {
            (true, false) => (last, i128::from(ns.abs_diff(last.unix_ns))),
            (false, true) => (first, -i128::from(ns.abs_diff(first.unix_ns))),
            // A single pair's very reading.
            (false, false) if self.pairs.len() == 1 => (last, 0),
            _ => return None,
        };
        let limit = if self.nature == Nature::Steady { FAR } else { NEAR };
        if ahead.unsigned_abs() > u128::from(limit) {
            return None;
        }
        let away = Span::from_nanos_wide(ahead);
        let spread = HARDEST.over(away.abs()) + Span::from_nanos(1);
        let counts = |span: Span| i128::from(self.period.counts(span).0);
        let position = |count: Count| i128::from((count - first.before).0);
        let lo = position(pair.before) + counts(away - spread) - 1;
        let hi = position(pair.after) + counts(away + spread) + 1;
        let best = (position(pair.mid()) + counts(away)).clamp(lo, hi);
        Some(Region { lo, best, hi })
    }

    /// The line of the one stretch that can have shown `ns`, for all readings of which the same is
    /// true.
    fn line(&self, ns: i64) -> Option<Segment> {
        let mut only = None;
        let mut several = false;
        self.candidates(ns, |index| several |= only.replace(index).is_some());
        let index = only.filter(|_| !several)?;
        let (left, right) = (self.pairs.get(index)?, self.pairs.get(index + 1)?);
        let before = |earliest| !left.before.at_or_after(earliest);
        if !self.odd.is_empty() && self.earliest.is_some_and(before) {
            return None;
        }
        let (mut lo, mut hi) = (left.unix_ns, right.unix_ns);
        if !(lo..=hi).contains(&ns) {
            return None;
        }
        // What others reach is not for this line.
        let mut without = |from: i64, to: i64| {
            if to < ns {
                lo = lo.max(to.saturating_add(1));
            } else if from > ns {
                hi = hi.min(from.saturating_sub(1));
            }
        };
        let mut others = |other: usize| {
            if let Some(stretch) = self.stretches.get(other).filter(|_| other != index) {
                stretch.reach.into_iter().flatten().for_each(|(from, to)| without(from, to));
            }
        };
        // Readings ascend from one odd stretch to the next: of those rows only the near part of our
        // own and the ends of all come into question.
        let slack = self.slack.unsigned_abs().saturating_mul(2);
        let near = |pair: Option<&HostPair>, bound: i64| {
            pair.is_some_and(|pair| pair.unix_ns.abs_diff(bound) <= slack)
        };
        let mut other = index;
        while other > 0 && near(self.pairs.get(other), left.unix_ns) {
            other -= 1;
            others(other);
        }
        other = index + 1;
        while other < self.stretches.len() && near(self.pairs.get(other), right.unix_ns) {
            others(other);
            other += 1;
        }
        self.odd().for_each(&mut others);
        let ends = self.odd().flat_map(|odd| [odd, odd + 1]);
        for end in ends.chain([0, self.pairs.len() - 1]) {
            if let Some(pair) = self.pairs.get(end).filter(|_| end != index && end != index + 1) {
                without(pair.unix_ns, pair.unix_ns);
            }
        }
        let interval = self.interval(left, right);
        Segment::new(&interval, (left, right), self.period, self.own, (lo, hi))
    }

    /// Where the odd stretches are.
    fn odd(&self) -> impl Iterator<Item = usize> {
        let index = |number: &u64| usize::try_from(number.checked_sub(self.first)?).ok();
        self.odd.iter().filter_map(index)
    }

    /// Calls `each` with every stretch that may have shown `ns`.
    fn candidates(&self, ns: i64, mut each: impl FnMut(usize)) {
        let mut start = 0;
        let mut look = |index: usize| {
            if self.stretches.get(index).is_some_and(|stretch| stretch.reaches(ns)) {
                each(index);
            }
        };
        for index in self.odd() {
            self.run(start, index, ns, &mut look);
            look(index);
            start = index + 1;
        }
        self.run(start, self.stretches.len(), ns, &mut look);
    }

    /// Calls `look` from stretch `start` to before `end`, where readings ascend.
    fn run(&self, start: usize, end: usize, ns: i64, look: &mut impl FnMut(usize)) {
        let reading = |index: usize| self.pairs.get(index).map_or(i64::MAX, |pair| pair.unix_ns);
        let (mut lo, mut hi) = (start, end);
        while lo < hi {
            let middle = lo + (hi - lo) / 2;
            if reading(middle + 1).saturating_add(self.slack) < ns {
                lo = middle + 1;
            } else {
                hi = middle;
            }
        }
        while lo < end && reading(lo).saturating_sub(self.slack) <= ns {
            look(lo);
            lo += 1;
        }
    }

    fn stretch(&self, index: usize) -> Option<Interval<'_>> {
        Some(self.interval(self.pairs.get(index)?, self.pairs.get(index + 1)?))
    }

    fn interval<'a>(&self, left: &'a HostPair, right: &'a HostPair) -> Interval<'a> {
        let make = match self.nature {
            Nature::Stepped => Interval::new,
            Nature::Steady => Interval::steady,
            Nature::Unwatched => Interval::unwatched,
        };
        make(self.pairs.front().map_or(left.before, |pair| pair.before), self.period, left, right)
    }
}
