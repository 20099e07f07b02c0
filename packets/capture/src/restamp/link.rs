//! Check that counts belong to the stretch of the counter that hands are of: by the host's clocks,
//! which were read while capturing, and by the daemon.

use serde::Deserialize;
use truechimer_time::{Count, CountSpan, Period, Rate, Span};
use truechimer_timehands::{Allowed, Passed};

use crate::convert::Continuity;

/// Most that the clocks may be apart by, besides what reading them took. Counter and raw clock are
/// mostly made of the same oscillator; else they are two of one machine.
const APART: Span = Span::from_micros(100);
const RATE: Rate = Rate::from_ppb(50_000);
/// Rate instead of that while the ratio of the two is not known better than nominal.
const NOMINAL: Rate = Rate::from_ppb(1_000_000);
/// A shorter suspend there is not.
const SUSPEND: Span = Span::from_millis(10);
/// The capture tells the ratio if it is this long.
const BASELINE: Span = Span::from_secs(5);
/// Part of that which reading the clocks may take.
const PRECISION: Rate = Rate::from_ppb(10_000);
/// Largest number of references that are kept of each epoch.
const REFERENCES: usize = 1 << 14;

/// The host's clocks at one count, as a daemon read them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reference {
    pub count: Count,
    pub raw_ns: i64,
    pub suspended_ns: i64,
    pub width: CountSpan,
}

impl From<&Continuity> for Reference {
    fn from(continuity: &Continuity) -> Reference {
        let Continuity { count, raw_ns, suspended_ns, width, .. } = *continuity;
        Reference { count, raw_ns, suspended_ns, width }
    }
}

/// Link by the host's clocks between a capture and a stretch of the counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Link {
    /// The counter ran on from the one to the other, and the two are at most this far apart.
    Joined(Span),
    /// Joined, as far as there is anything to tell it by.
    Open,
    /// Not joined.
    Broken,
}

/// Largest number of looks that are taken in of a capture: one every ten seconds makes 120 days.
const LOOKS: usize = 1 << 20;

/// The host's clocks in one epoch of a clock.
#[derive(Debug, Default)]
pub(super) struct References {
    /// The newest from before the first count, the oldest from after the last one.
    outer: [Option<Reference>; 2],
    /// Those between; once settled all of them, in the order of their counts.
    known: Vec<Reference>,
    /// Count that the order is relative to.
    first: Count,
}

impl References {
    /// The clocks were read once more. Of what was read before `first` and after `last` the nearest
    /// stay.
    pub(super) fn add(&mut self, new: Reference, first: Count, last: Count) {
        let [before, after] = &mut self.outer;
        if !new.count.at_or_after(first) {
            if before.is_none_or(|known| new.count.at_or_after(known.count)) {
                *before = Some(new);
            }
            return;
        }
        if !last.at_or_after(new.count) {
            if after.is_none_or(|known| known.count.at_or_after(new.count)) {
                *after = Some(new);
            }
            return;
        }
        if self.known.len() >= REFERENCES {
            let mut index = 0;
            self.known.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
        self.known.push(new);
    }

    /// To be called when all is there.
    pub(super) fn settle(&mut self, first: Count) {
        self.first = first;
        self.known.extend(self.outer.iter_mut().filter_map(Option::take));
        self.known.sort_by_key(|known| (known.count - first).0);
    }

    /// The one that is nearest to a count.
    pub(super) fn nearest(&self, count: Count) -> Option<&Reference> {
        let place = (count - self.first).0;
        let at = self.known.partition_point(|known| (known.count - self.first).0 <= place);
        let around = [at.checked_sub(1), Some(at)].into_iter().flatten();
        let around = around.filter_map(|at| self.known.get(at));
        around.min_by_key(|known| (known.count - count).abs())
    }
}

/// The host's clocks during a capture.
#[derive(Debug)]
pub(super) struct Captured {
    nominal: Period,
    /// In the order of the capture.
    looks: Vec<Reference>,
    /// True if there were more of them.
    more: bool,
    /// Length of a count by the raw clock, and the error that it may have.
    period: (Period, Rate),
}

impl Captured {
    pub(super) fn new(nominal: Period) -> Captured {
        Captured { nominal, looks: Vec::new(), more: false, period: (nominal, NOMINAL) }
    }

    /// The clocks were read once more. If the counter did not run on since the last time, how often
    /// they had been read by then.
    pub(super) fn add(&mut self, continuity: &Continuity) -> Option<usize> {
        if self.looks.len() >= LOOKS {
            self.more = true;
            return None;
        }
        let new = continuity.into();
        let broken = self.looks.last().is_some_and(|last| self.apart(last, &new).is_none());
        self.looks.push(new);
        broken.then(|| self.looks.len() - 1)
    }

    /// To be called when all is there. Returns what is to be said of it.
    pub(super) fn settle(&mut self) -> Option<String> {
        let (first, last) = (self.looks.first()?, self.looks.last()?);
        if self.more {
            return Some(format!(
                "the clock changed more than {LOOKS} times: of packets after that only the hands in \
                 the capture are used; cut it in parts for more"
            ));
        }
        let mut steps = self.looks.iter().zip(self.looks.iter().skip(1));
        if !steps.all(|(one, other)| self.apart(one, other).is_some()) {
            return Some("the counter lost its continuity during the capture".to_owned());
        }
        let raw = Span::from_nanos_wide(i128::from(last.raw_ns) - i128::from(first.raw_ns));
        let width = self.nominal.span(first.width).abs() + self.nominal.span(last.width).abs();
        let fine = raw >= BASELINE && width <= PRECISION.over(raw);
        let learnt = Period::from_ratio(raw, last.count - first.count).filter(|_| fine);
        if let Some(period) = learnt {
            self.period = (period, RATE);
        }
        None
    }

    /// Link between an epoch and packets that so many changes lie before.
    pub(super) fn link(&self, passed: usize, references: &References) -> Link {
        if passed > self.looks.len() {
            return Link::Broken;
        }
        let before = passed.checked_sub(1).and_then(|at| self.looks.get(at));
        // Whether the counter ran on until the packets only the next look can tell.
        let looks = [before, self.looks.get(passed)];
        let Some(near) = looks.iter().flatten().next() else { return Link::Open };
        let Some(nearest) = references.nearest(near.count) else { return Link::Open };
        let mut most = Span::ZERO;
        for look in looks.into_iter().flatten() {
            match self.apart(look, nearest) {
                Some(apart) => most = most.max(apart),
                None => return Link::Broken,
            }
        }
        if looks.iter().all(Option::is_some) { Link::Joined(most) } else { Link::Open }
    }

    /// Most that counter and clocks went apart from one to the other; `None` if the counter did not
    /// run on.
    fn apart(&self, one: &Reference, other: &Reference) -> Option<Span> {
        let (one, other) =
            if other.count.at_or_after(one.count) { (one, other) } else { (other, one) };
        let (period, rate) = self.period;
        let width = self.nominal.span(one.width).abs() + self.nominal.span(other.width).abs();
        let passed = Passed::new(
            period,
            other.count - one.count,
            [one.raw_ns, other.raw_ns],
            [one.suspended_ns, other.suspended_ns],
        );
        let allowed =
            Allowed { suspended: SUSPEND + width, back: Span::ZERO, apart: APART + width, rate };
        match passed.broken(&allowed) {
            Some(_) => None,
            None => Some((passed.counted - passed.raw).abs() + width),
        }
    }
}
