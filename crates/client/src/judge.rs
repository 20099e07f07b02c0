//! Whether a hand still stands, by the host's own clocks: what a reader asks when no daemon has
//! looked for a while, and once for every new hand.

use truechimer_counter::HostReading;
use truechimer_time::{Count, Rate, Span};
use truechimer_timehands::{Hand, Made, PATIENCE, Status};

/// How far the counter and `CLOCK_MONOTONIC_RAW` may drift apart. Ten times what any crystal or
/// calibration is off by, so that only a broken counter exceeds it.
const DRIFT: Rate = Rate::from_ppb(1_000_000);
/// How far they may be apart to begin with: far more than it takes to read both.
const APART: Span = Span::from_millis(1);
/// A shorter suspend than this there is not; what reading the clocks takes is less.
const SUSPEND: Span = Span::from_millis(10);

/// What a hand is worth at one count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Verdict {
    pub status: Status,
    /// Why, if the status is not the one in the hand.
    pub reason: Option<&'static str>,
}

/// Judges a hand that was made when `made` says, by a later reading of the host's clocks, given
/// the count at which the daemon last looked.
pub(crate) fn judge(hand: &Hand, made: &Made, heartbeat: Count, host: &HostReading) -> Verdict {
    let verdict = |status, reason| Verdict { status, reason: Some(reason) };
    let width = hand.difference.span(host.width).abs();
    let by_counter = hand.difference.span(host.count - made.count);
    let by_kernel = Span::from_nanos(host.raw_ns.wrapping_sub(made.raw_ns));
    let suspended = Span::from_nanos(host.suspended_ns.wrapping_sub(made.suspended_ns));

    if suspended.abs() > SUSPEND + width {
        return verdict(Status::Disrupted, "the machine was suspended since");
    }
    if by_counter < -(APART + width) {
        return verdict(Status::Disrupted, "the counter went back");
    }
    if (by_counter - by_kernel).abs() > APART + width + DRIFT.over(by_kernel.abs()) {
        return verdict(Status::Disrupted, "the counter and the kernel's clock went apart");
    }
    if !hand.void_after.at_or_after(host.count) {
        return verdict(Status::Unknown, "the clock page is too old");
    }
    let silence = hand.period.span(host.count - heartbeat).abs();
    if hand.status == Status::Synchronised && silence > PATIENCE {
        return verdict(Status::Holdover, "no daemon tends the clock");
    }
    Verdict { status: hand.status, reason: None }
}
