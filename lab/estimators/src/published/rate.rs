//! p̂: the long-term period, for the difference clock (ToN §5; warm-up and full estimator).

use super::clock::Uncorrected;
use super::constants::{
    Class, RATE_DELTAS, RATE_GOOD, RATE_GOOD_LATER, RATE_SANITY, STAMP_LATENCY, WARM_UP_ENDS,
};
use super::history::{History, Record};
use truechimer_feedforward::number::seconds;

/// A stamp at the far end of the long-term rate, with its quality when it was chosen.
#[derive(Clone, Copy, Debug)]
struct Left {
    record: Record,
    /// Time that it was queued, s.
    point_error: f64,
    /// The baseline in force then, counts.
    baseline: i64,
}

impl Left {
    fn new(record: &Record, clock: &Uncorrected, baseline: i64) -> Left {
        let point_error = clock.seconds(record.rtt - baseline);
        Left { record: *record, point_error, baseline }
    }
}

/// The long-term rate's memory; the rate itself is the clock's.
#[derive(Clone, Copy, Debug)]
pub(super) struct LongTerm {
    /// perr: its own idea of its relative error.
    pub(super) error: f64,
    /// Which stamps the warm-up's estimate is made of: far, near.
    pair: Option<(u64, u64)>,
    left: Option<Left>,
    /// L': the successor, and the stamp from which on another may be chosen.
    next: Option<Left>,
    next_from: u64,
    /// Ep_qual: an estimate this good replaces any other.
    good: f64,
}

impl LongTerm {
    pub(super) fn new(class: &Class) -> LongTerm {
        LongTerm {
            error: 0.0,
            pair: None,
            left: None,
            next: None,
            next_from: 0,
            good: class.rate_bound / RATE_GOOD,
        }
    }

    /// The warm-up estimator: the best stamps of two end windows of a quarter of the data each.
    /// Returns the ratio if it changed.
    pub(super) fn warm_up(
        &mut self,
        history: &History,
        clock: &Uncorrected,
        baseline: i64,
    ) -> Option<f64> {
        let (from, index) = (history.first_index(), history.last()?.index);
        let width = 1 + index.saturating_sub(from) / WARM_UP_ENDS;
        let far = history.best(from, from + width)?;
        let near = history.best(index + 1 - width, index + 1)?;
        if self.pair == Some((far.index, near.index)) {
            return None;
        }
        let ratio = clock.reference.pair(far, near)?;
        self.pair = Some((far.index, near.index));
        let mut tuned = *clock;
        tuned.ratio = ratio;
        self.error = pair_error(far, near, &tuned, baseline)?;
        Some(ratio)
    }

    /// The end of warm-up: its best stamp stays the left one.
    pub(super) fn begin(&mut self, history: &History, clock: &Uncorrected, baseline: i64) {
        let ends = self.pair.and_then(|(far, near)| {
            Some((history.best(far, far + 1)?, history.best(near, near + 1)?))
        });
        if let Some(error) = ends.and_then(|(far, near)| pair_error(far, near, clock, baseline)) {
            self.error = error;
        }
        self.left =
            history.best(0, u64::MAX).map(|r| Left { record: *r, point_error: 0.0, baseline });
    }

    /// The second half of a history window begins with this stamp.
    pub(super) fn begin_half(
        &mut self,
        record: &Record,
        clock: &Uncorrected,
        baseline: i64,
        first: bool,
    ) {
        if first {
            self.good /= RATE_GOOD_LATER;
        } else if self.next.is_some() {
            self.left = self.next;
        }
        self.next = Some(Left::new(record, clock, baseline));
        self.next_from = record.index;
    }

    /// The best of the first stamps of the second half is to be the next left one.
    pub(super) fn seek_next(
        &mut self,
        record: &Record,
        clock: &Uncorrected,
        baseline: i64,
        window: u64,
    ) {
        if let Some(next) = &mut self.next
            && record.index < self.next_from + window
            && record.rtt < next.record.rtt
        {
            *next = Left::new(record, clock, baseline);
        }
    }

    /// The level shifted upward from stamp `since` on: a successor of that time is judged anew.
    pub(super) fn shifted(&mut self, since: u64, clock: &Uncorrected, baseline: i64) {
        if let Some(next) = self.next.as_mut().filter(|n| n.record.index >= since) {
            *next = Left::new(&next.record, clock, baseline);
        }
    }

    /// The full estimator. Returns the ratio if it changed.
    pub(super) fn full(
        &mut self,
        near: &Record,
        clock: &Uncorrected,
        baseline: i64,
        class: &Class,
    ) -> Option<f64> {
        let left = self.left?;
        let point_error = clock.seconds(near.rtt - baseline);
        if point_error >= RATE_DELTAS * STAMP_LATENCY {
            return None;
        }
        let apart = seconds(near.tb - left.record.tb);
        if apart <= 0.0 {
            return None;
        }
        let moved = clock.seconds((baseline - left.baseline).abs());
        let error = (point_error.abs() + left.point_error.abs() + moved) / apart;
        // The second test keeps an over-optimistic error from locking everything else out.
        if error >= self.error && error >= self.good {
            return None;
        }
        let ratio = clock.reference.pair(&left.record, near)?;
        let step = (ratio - clock.ratio).abs() / (1.0 + clock.ratio);
        if step > RATE_SANITY * class.rate_bound {
            return None;
        }
        self.error = error;
        Some(ratio)
    }
}

/// By how much queueing may have falsified the period between two stamps, relative. `None` if the
/// server's time did not go on between them.
pub(super) fn pair_error(
    far: &Record,
    near: &Record,
    clock: &Uncorrected,
    baseline: i64,
) -> Option<f64> {
    let apart = seconds(near.tb - far.tb);
    let excess = clock.seconds(far.rtt - baseline) + clock.seconds(near.rtt - baseline);
    (apart > 0.0).then(|| excess / apart)
}
