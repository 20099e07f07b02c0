//! A simulated system clock: what a feedback daemon steers, and takes its stamps from.
//!
//! It reads nominal time from the counter, at a frequency of its own, and may be slewed (a rest
//! that is worked off by a share each second, as `adjtime` and RFC 5905's clock_adjust do) and
//! stepped. A stamp taken a while ago shows what the clock showed *then*: the last few changes of
//! course are remembered.

use std::collections::VecDeque;

use truechimer_feedforward::number::{rate, seconds, span};
use truechimer_time::{Count, Instant, Period, Span};

/// Changes of course that are remembered: more than can fall into one exchange.
const REMEMBERED: usize = 16;

/// The clock's course from a count on.
#[derive(Clone, Copy, Debug)]
struct Segment {
    from: Count,
    time: Instant,
    /// Gain on nominal time, as a fraction.
    frequency: f64,
    /// Slew still to be added, s, and the share of it that is added each second.
    slew: f64,
    share: f64,
}

impl Segment {
    /// Rest of the slew after so many whole seconds.
    fn left(&self, elapsed: f64) -> f64 {
        if elapsed <= 0.0 {
            return self.slew;
        }
        self.slew * libm::pow(1.0 - self.share, libm::floor(elapsed))
    }

    /// Gain on nominal time since it began.
    fn gained(&self, elapsed: f64) -> f64 {
        let left = self.left(elapsed);
        let part = (elapsed - libm::floor(elapsed)) * self.share;
        let slewed = if elapsed <= 0.0 { 0.0 } else { self.slew - left + left * part };
        self.frequency * elapsed + slewed
    }
}

/// The clock.
#[derive(Clone, Debug)]
pub(crate) struct Steered {
    nominal: Period,
    segments: VecDeque<Segment>,
}

impl Steered {
    /// A clock that shows `time` at `at` and gains by `frequency` (a fraction) on nominal time.
    pub(crate) fn new(nominal: Period, at: Count, time: Instant, frequency: f64) -> Steered {
        let first = Segment { from: at, time, frequency, slew: 0.0, share: 0.0 };
        Steered { nominal, segments: VecDeque::from([first]) }
    }

    fn segment(&self, at: Count) -> Option<&Segment> {
        self.segments.iter().rev().find(|s| at.at_or_after(s.from)).or(self.segments.front())
    }

    fn elapsed(&self, segment: &Segment, at: Count) -> f64 {
        seconds(self.nominal.span(at - segment.from))
    }

    /// Time that it shows, or showed, at a count.
    pub(crate) fn reading(&self, at: Count) -> Instant {
        let Some(segment) = self.segment(at) else { return Instant::default() };
        let nominal: Span = self.nominal.span(at - segment.from);
        segment.time + nominal + span(segment.gained(self.elapsed(segment, at)))
    }

    /// Rest of a slew at a count, s.
    pub(crate) fn left(&self, at: Count) -> f64 {
        self.segment(at).map_or(0.0, |s| s.left(self.elapsed(s, at)))
    }

    /// Length of a count by it at a count, the slew in it.
    pub(crate) fn period(&self, at: Count) -> Period {
        let gain =
            self.segment(at).map_or(0.0, |s| s.frequency + s.left(self.elapsed(s, at)) * s.share);
        self.nominal.scaled(rate(gain))
    }

    /// From `at` on another frequency, and `slew` seconds to add by a `share` (0..1) each second.
    /// What was left of an earlier slew is dropped.
    pub(crate) fn steer(&mut self, at: Count, frequency: f64, slew: f64, share: f64) {
        self.turn(at, Span::ZERO, |_| (frequency, slew, share));
    }

    /// At `at` it is put forward (back if negative) at once. What was left of a slew is dropped.
    pub(crate) fn step(&mut self, at: Count, by: Span) {
        self.turn(at, by, |s| (s.frequency, 0.0, 0.0));
    }

    fn turn(&mut self, at: Count, by: Span, course: impl Fn(&Segment) -> (f64, f64, f64)) {
        let Some(newest) = self.segments.back().copied() else { return };
        // The past is not steered.
        let from = at.latest(newest.from);
        let (frequency, slew, share) = course(&newest);
        let time = self.reading(from) + by;
        self.segments.push_back(Segment { from, time, frequency, slew, share });
        if self.segments.len() > REMEMBERED {
            self.segments.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_time::CountSpan;

    fn clock() -> Steered {
        Steered::new(Period::NANOSECOND, Count(0), Instant::new(1000, 0), 0.0)
    }

    fn at(seconds: f64) -> Count {
        Count(0) + CountSpan((seconds * 1e9) as i64)
    }

    fn shown(clock: &Steered, t: f64) -> f64 {
        seconds(clock.reading(at(t)) - Instant::new(1000, 0))
    }

    #[test]
    fn the_past_is_read_as_it_was_steered_then() {
        let mut clock = clock();
        clock.steer(at(10.0), 1e-4, 0.0, 0.0);
        clock.step(at(20.0), Span::from_millis(5));
        for (t, expected) in [(5.0, 5.0), (10.0, 10.0), (15.0, 15.0005), (25.0, 25.0065)] {
            assert!((shown(&clock, t) - expected).abs() < 1e-12, "{t}: {}", shown(&clock, t));
        }
        assert_eq!(clock.period(at(30.0)), Period::NANOSECOND.scaled(rate(1e-4)));
    }

    #[test]
    fn a_slew_is_worked_off_by_a_share_each_second() {
        let mut clock = clock();
        clock.steer(at(0.0), 0.0, 1e-3, 0.25);
        for (t, left) in [(0.0, 1e-3), (0.5, 0.875e-3), (1.0, 0.75e-3), (2.0, 0.5625e-3)] {
            assert!((shown(&clock, t) - t - (1e-3 - left)).abs() < 1e-12, "{t}");
        }
        assert!((clock.left(at(2.0)) - 0.5625e-3).abs() < 1e-15);
        assert!((shown(&clock, 200.0) - 200.001).abs() < 1e-12);
        // Steering anew goes on from where the clock is.
        clock.steer(at(2.0), 0.0, 0.0, 0.0);
        assert!((shown(&clock, 3.0) - 3.000_437_5).abs() < 1e-12);
    }

    #[test]
    fn memory_is_bounded_and_the_past_is_not_steered() {
        let mut clock = clock();
        for k in 0..1000u32 {
            clock.steer(at(f64::from(k)), 1e-6, 0.0, 0.0);
        }
        assert!(clock.segments.len() <= REMEMBERED);
        let before = shown(&clock, 999.0);
        clock.step(at(5.0), Span::from_secs(1));
        assert!((shown(&clock, 999.0) - before - 1.0).abs() < 1e-9);
        assert!(shown(&clock, 998.0) < before);
    }
}
