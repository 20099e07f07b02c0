//! Whether counts that were taken without a clock belong to an epoch of one: by the host's clocks,
//! which were read while capturing, and by the daemon.

use std::collections::BTreeMap;

use serde::Deserialize;
use truechimer_time::{Count, CountSpan, Epoch, Period, Rate, Span};
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

/// All that says what belongs together.
#[derive(Debug)]
pub(super) struct Links {
    nominal: Period,
    /// From the capture, in its order.
    captured: Vec<Reference>,
    epochs: BTreeMap<Epoch, Vec<Reference>>,
    /// How long a count lasts by the raw clock, and how well that is known.
    period: (Period, Rate),
    /// Of the packets that so many changes lie before: their epoch, and what it adds to the bound.
    found: Option<(usize, Option<(Epoch, Span)>)>,
}

impl Links {
    pub(super) fn new(nominal: Period) -> Links {
        let (captured, epochs) = (Vec::new(), BTreeMap::new());
        Links { nominal, captured, epochs, period: (nominal, NOMINAL), found: None }
    }

    pub(super) fn recorded(&mut self, continuity: &Continuity) {
        self.captured.push(continuity.into());
    }

    /// A daemon read the clocks in this epoch. Of those from before `first` and after `last` the
    /// nearest stay.
    pub(super) fn reference(&mut self, epoch: Epoch, new: Reference, first: Count, last: Count) {
        let known = self.epochs.entry(epoch).or_default();
        let side = |reference: &Reference| {
            let count = reference.count;
            i32::from(!last.at_or_after(count)) - i32::from(!count.at_or_after(first))
        };
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

    /// To be called when all is there. Returns what is to be said of it.
    pub(super) fn settle(&mut self) -> Vec<String> {
        if let (Some(first), Some(last)) = (self.captured.first(), self.captured.last())
            && self
                .captured
                .iter()
                .zip(self.captured.iter().skip(1))
                .all(|(one, other)| self.apart(one, other).is_some())
        {
            let raw = i128::from(last.raw_ns) - i128::from(first.raw_ns);
            let raw = Span::from_nanos_wide(raw);
            let learnt = Period::from_ratio(raw, last.count - first.count);
            let width = self.nominal.span(first.width).abs() + self.nominal.span(last.width).abs();
            let fine = raw >= BASELINE && width <= PRECISION.over(raw);
            if let Some(period) = learnt.filter(|_| fine) {
                self.period = (period, RATE);
            }
        } else if self.captured.len() > 1 {
            return vec!["the counter lost its continuity during the capture".to_owned()];
        }
        Vec::new()
    }

    /// The epoch of packets between this change and the next, counted from 1, with what it adds to
    /// their bound. `None` where it cannot be shown.
    pub(super) fn epoch(&mut self, passed: usize) -> Option<(Epoch, Span)> {
        match self.found {
            Some((at, found)) if at == passed => found,
            _ => {
                let found = self.find(passed);
                self.found = Some((passed, found));
                found
            }
        }
    }

    fn find(&self, passed: usize) -> Option<(Epoch, Span)> {
        let before = self.captured.get(passed.checked_sub(1)?)?;
        // Whether the counter ran on until the packets only the next look can tell.
        let after = self.captured.get(passed)?;
        let apart = |epoch: &Epoch, references: &Vec<Reference>| {
            let nearest = references.iter().min_by_key(|one| (one.count - before.count).abs())?;
            let apart = self.apart(before, nearest)?.max(self.apart(after, nearest)?);
            Some((*epoch, apart))
        };
        let all = self.epochs.iter().filter_map(|(epoch, known)| apart(epoch, known));
        all.min_by_key(|(_, apart)| *apart)
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
