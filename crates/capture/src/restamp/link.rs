//! Whether counts belong to the stretch of the counter that hands are of: by the host's clocks, which
//! were read while capturing, and by the daemon.

use serde::Deserialize;
use truechimer_time::{Count, CountSpan, Period, Rate, Span};
use truechimer_timehands::{Allowed, Passed};

use crate::convert::Continuity;

/// What the clocks may be apart by, besides what reading them took. Counter and raw clock are mostly
/// made of the same oscillator; else they are two of one machine.
const APART: Span = Span::from_micros(100);
const RATE: Rate = Rate::from_ppb(50_000);
/// The same while the ratio of the two is not known better than nominal.
const NOMINAL: Rate = Rate::from_ppb(1_000_000);
/// A shorter suspend there is not.
const SUSPEND: Span = Span::from_millis(10);
/// The capture tells the ratio if it is this long.
const BASELINE: Span = Span::from_secs(5);
/// What reading the clocks took may be this part of it.
const PRECISION: Rate = Rate::from_ppb(10_000);
/// So many references are kept of each epoch.
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

/// What the host's clocks say of a capture and of a stretch of the counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Link {
    /// The counter ran on from the one to the other, and the two are at most this far apart.
    Joined(Span),
    /// It did, as far as there is anything to tell it by.
    Open,
    /// It did not.
    Broken,
}

/// The host's clocks in one epoch of a clock.
#[derive(Debug, Default)]
pub(super) struct References(Vec<Reference>);

impl References {
    /// The clocks were read once more. Of what was read before `first` and after `last` the nearest
    /// stay.
    pub(super) fn add(&mut self, new: Reference, first: Count, last: Count) {
        let side = |reference: &Reference| {
            let count = reference.count;
            i32::from(!last.at_or_after(count)) - i32::from(!count.at_or_after(first))
        };
        let known = &mut self.0;
        let new_side = side(&new);
        if new_side != 0
            && let Some(other) = known.iter_mut().find(|other| side(other) == new_side)
        {
            let later = new.count.at_or_after(other.count);
            if later == (new_side < 0) {
                *other = new;
            }
            return;
        }
        if known.len() >= REFERENCES {
            let mut index = 0;
            known.retain(|reference| {
                index += 1;
                index % 2 == 1 || side(reference) != 0
            });
        }
        known.push(new);
    }
}

/// The host's clocks during a capture.
#[derive(Debug)]
pub(super) struct Captured {
    nominal: Period,
    /// In the order of the capture.
    looks: Vec<Reference>,
    /// How long a count lasts by the raw clock, and how well that is known.
    period: (Period, Rate),
}

impl Captured {
    pub(super) fn new(nominal: Period) -> Captured {
        Captured { nominal, looks: Vec::new(), period: (nominal, NOMINAL) }
    }

    pub(super) fn add(&mut self, continuity: &Continuity) {
        self.looks.push(continuity.into());
    }

    /// To be called when all is there. Returns what is to be said of it.
    pub(super) fn settle(&mut self) -> Option<String> {
        let (first, last) = (self.looks.first()?, self.looks.last()?);
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

    /// How packets that so many changes lie before go with an epoch.
    pub(super) fn link(&self, passed: usize, references: &References) -> Link {
        let before = passed.checked_sub(1).and_then(|at| self.looks.get(at));
        // Whether the counter ran on until the packets only the next look can tell.
        let looks = [before, self.looks.get(passed)];
        let Some(near) = looks.iter().flatten().next() else { return Link::Open };
        let nearest = references.0.iter().min_by_key(|one| (one.count - near.count).abs());
        let Some(nearest) = nearest else { return Link::Open };
        let mut most = Span::ZERO;
        for look in looks.into_iter().flatten() {
            match self.apart(look, nearest) {
                Some(apart) => most = most.max(apart),
                None => return Link::Broken,
            }
        }
        if looks.iter().all(Option::is_some) { Link::Joined(most) } else { Link::Open }
    }

    /// How far apart counter and clocks went from one to the other at the most; `None` if the
    /// counter did not run on.
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
