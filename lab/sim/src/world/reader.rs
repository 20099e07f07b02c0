//! The clock page, and a program that reads it: the same judgement as that of the client library.

use truechimer_time::{Count, CountSpan, Epoch, Instant, Leaps, Period, Rate, Span};
use truechimer_timehands::{Allowed, Hand, Made, PATIENCE, Passed, Status};

use crate::host::Host;
use truechimer_feedforward::number::{fraction, seconds, span};
use truechimer_trace::{Interval, Sample};

/// The longest span measured by the difference clock, in readings.
const READINGS: usize = 1000;
/// Limits of the counter's continuity for a reader (see the client library).
const DRIFT: Rate = Rate::from_ppb(1_000_000);
const APART: Span = Span::from_micros(100);
const SUSPEND: Span = Span::from_millis(10);

/// The page, and who reads it.
#[derive(Debug)]
pub(super) struct Reader {
    page: Option<(Hand, Made)>,
    /// Standard uncertainty of the difference clock's rate, beside it.
    deviation: Option<Rate>,
    generation: u64,
    heartbeat: Count,
    /// The newest hand that was looked at with the host's clocks.
    vetted: u64,
    /// Counts of the last readings, and of which epoch they were taken to be.
    past: Vec<Option<Moment>>,
    readings: usize,
}

/// A reading to measure spans from.
#[derive(Clone, Copy, Debug)]
struct Moment {
    at: f64,
    count: Count,
    epoch: Epoch,
}

/// The truth, as far as a reading is compared with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Truth {
    pub(super) origin: Instant,
    pub(super) leaps: Leaps,
}

impl Reader {
    pub(super) fn new() -> Reader {
        Reader {
            page: None,
            deviation: None,
            generation: 0,
            heartbeat: Count::default(),
            vetted: 0,
            past: vec![None; READINGS + 1],
            readings: 0,
        }
    }

    pub(super) fn publish(&mut self, hand: Hand, made: Made) {
        self.page = Some((hand, made));
        self.generation += 1;
    }

    /// Says how uncertain the difference clock's rate is.
    pub(super) fn deviate(&mut self, deviation: Option<Rate>) {
        self.deviation = deviation;
    }

    /// The page is gone.
    pub(super) fn clear(&mut self) {
        self.page = None;
        self.generation += 1;
    }

    pub(super) fn heartbeat(&mut self, count: Count) {
        self.heartbeat = count;
    }

    /// The daemon ends, and says so in the page.
    pub(super) fn end(&mut self) {
        let Some((hand, made)) = &mut self.page else { return };
        self.heartbeat = made.count + CountSpan(i64::MIN);
        if hand.status == Status::Synchronised {
            hand.status = Status::Holdover;
            self.generation += 1;
        }
    }

    pub(super) fn page(&self) -> Option<(Hand, Made)> {
        self.page
    }

    /// Status of the clock at `t`.
    fn status(
        &mut self,
        hand: &Hand,
        made: &Made,
        count: Count,
        t: f64,
        host: &mut Host,
    ) -> Status {
        let silence = hand.period.span(count - self.heartbeat).abs();
        let stands = silence <= PATIENCE && hand.void_after.at_or_after(count);
        if stands && self.vetted == self.generation && hand.status.bound_holds() {
            return hand.status;
        }
        let now = host.check(t);
        let width = hand.difference.span(now.width).abs();
        let passed = Passed::new(
            hand.difference,
            count - made.count,
            [made.raw_ns, now.raw_ns],
            [made.suspended_ns, now.suspended_ns],
        );
        let allowed = Allowed {
            suspended: SUSPEND + width,
            back: APART + width,
            apart: APART + width,
            rate: DRIFT,
        };
        if passed.broken(&allowed).is_some() {
            return Status::Disrupted;
        }
        if !hand.void_after.at_or_after(count) {
            return Status::Unknown;
        }
        if hand.status == Status::Synchronised && silence > PATIENCE {
            return Status::Holdover;
        }
        if hand.status.bound_holds() {
            self.vetted = self.generation;
        }
        hand.status
    }

    /// Reads the clock at `t`.
    pub(super) fn read(&mut self, t: f64, truth: &Truth, host: &mut Host) -> Sample {
        let (count, skew) = (host.count(t), host.skew_at(t));
        let mut sample = Sample {
            at: t,
            error: f64::INFINITY,
            bound: f64::INFINITY,
            imbalance: 0.0,
            likely: None,
            statistical: f64::INFINITY,
            status: Status::Unknown,
            rate_error: skew,
            skew,
            second: None,
            thousand: None,
        };
        let here = self.readings % self.past.len();
        self.readings += 1;
        let Some((hand, made)) = self.page else {
            self.remember(here, None);
            return sample;
        };
        sample.status = self.status(&hand, &made, count, t, host);
        sample.rate_error = rate_error(hand.period, host.nominal(), skew);
        // A hand that was never set tells no time.
        if hand.path_bound < Span::MAX {
            sample.error = error(&hand, count, t, truth);
        }
        if sample.status.bound_holds() {
            let bound = hand.bound_at(count);
            sample.bound = seconds(bound);
            sample.statistical = seconds(bound - hand.path_bound);
            sample.imbalance = seconds(hand.imbalance);
            sample.likely = hand.likely_at(count).map(seconds);
        }
        let void = !hand.void_after.at_or_after(count);
        if sample.status != Status::Disrupted && !void {
            sample.second = self.elapsed(&hand, count, t, 1);
            sample.thousand = self.elapsed(&hand, count, t, READINGS);
        }
        let interrupted = sample.status == Status::Disrupted && hand.status != Status::Disrupted;
        let moment = Moment { at: t, count, epoch: hand.counter.epoch };
        self.remember(here, (!interrupted).then_some(moment));
        sample
    }

    fn remember(&mut self, here: usize, moment: Option<Moment>) {
        if let Some(place) = self.past.get_mut(here) {
            *place = moment;
        }
    }

    /// Interval since `ago` readings before, by the difference clock.
    fn elapsed(&self, hand: &Hand, count: Count, t: f64, ago: usize) -> Option<Interval> {
        let from = self.readings.checked_sub(1 + ago)? % self.past.len();
        let from = self.past.get(from).copied().flatten()?;
        if from.epoch != hand.counter.epoch || t - from.at != ago as f64 {
            return None;
        }
        let (measured, error) = hand.elapsed(count - from.count);
        // Both counts may be old by up to a step of the counter, which is one count.
        let step = hand.elapsed(truechimer_time::CountSpan(1)).0;
        Some(Interval {
            error: seconds(measured - span(t - from.at)),
            bound: seconds(error + step + Span(3)),
            deviation: self.deviation.map_or(f64::NAN, |rate| seconds(rate.over(measured))),
        })
    }
}

/// Clock − truth, s, in UTC: whoever has the wrong idea of leap seconds is off by a second.
fn error(hand: &Hand, count: Count, t: f64, truth: &Truth) -> f64 {
    let (shown, right) = (hand.time_at(count), truth.origin + span(t));
    let apart = hand.leaps.offset_at(shown) - truth.leaps.offset_at(right);
    seconds((shown - right) - Span::from_secs(apart.into()))
}

/// The relative error of a period of a counter that is fast by `skew`: positive, the clock is fast.
fn rate_error(period: Period, nominal: Period, skew: f64) -> f64 {
    let longer = fraction(period.relative_to(nominal));
    longer + skew + longer * skew
}
