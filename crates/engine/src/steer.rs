//! How to steer the system clock, if the user asks: one step at the start, then slewing.
//!
//! This is a servo on the system clock and on nothing else. Our own stamps are counts, so that
//! whatever it does to `CLOCK_REALTIME` never comes back into an estimate.

use truechimer_time::{Count, Instant, Period, Rate, Span};

use crate::event::Steer;

/// An offset above this at the first reading is stepped away, a smaller one slewed.
const STEP: Span = Span::from_millis(1);
/// The time constant with which an offset is slewed away, s.
const SLEW_SECONDS: i64 = 8;
/// The kernel slews by frequency up to this.
const LIMIT: Rate = Rate::from_ppb(500_000);
/// Share of the newest measurement in the frequency: 1/8.
const GAIN_SHIFT: u32 = 3;
/// Readings closer together than this say too little about the rate.
const MIN_INTERVAL: Span = Span::from_millis(200);
/// Readings further apart than this may have missed a change.
const MAX_INTERVAL: Span = Span::from_secs(64);

/// The servo.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Servo {
    stepped: bool,
    /// The frequency that cancels the system clock's own error.
    frequency: Rate,
    /// How many measurements it rests on.
    measured: u32,
    /// The frequency that was last asked for.
    applied: Option<Rate>,
    /// Count and time of the last reading since the last change other than by `applied`.
    last: Option<(Count, Instant)>,
}

impl Servo {
    /// Takes in what the system clock showed at `count`, and what it should have shown: `ours`,
    /// which counts by `period`.
    pub(crate) fn reading(
        &mut self,
        count: Count,
        system: Instant,
        ours: Instant,
        period: Period,
    ) -> Vec<Steer> {
        let offset = system - ours;
        if !self.stepped {
            self.stepped = true;
            if offset.abs() > STEP {
                self.applied = Some(self.frequency);
                return vec![Steer::Step(-offset), Steer::Frequency(self.frequency)];
            }
        }
        if let (Some(applied), Some((then, before))) = (self.applied, self.last) {
            let interval = period.span(count - then);
            if interval < MIN_INTERVAL {
                return Vec::new();
            }
            if interval <= MAX_INTERVAL {
                // What it gained, less what we made it gain, is its own error. Gained on the rate
                // of our time, that is: a correction of our time is none of its doing.
                let gained = ratio((system - before) - interval, interval);
                let wanted = clamp(i128::from(applied.0) - i128::from(gained.0));
                let shift = self.measured.min(GAIN_SHIFT);
                let change = (i128::from(wanted.0) - i128::from(self.frequency.0)) >> shift;
                self.frequency = clamp(i128::from(self.frequency.0) + change);
                self.measured = self.measured.saturating_add(1);
            }
        }
        self.last = Some((count, system));
        let slew = ratio(offset, Span::from_secs(SLEW_SECONDS));
        let frequency = clamp(i128::from(self.frequency.0) - i128::from(slew.0));
        self.applied = Some(frequency);
        vec![Steer::Frequency(frequency)]
    }

    /// There is nothing to follow: the slew ends, and the system clock goes on at the frequency that
    /// cancels its own error.
    pub(crate) fn rest(&mut self) -> Option<Steer> {
        self.last = None;
        let slewing = self.applied.is_some_and(|applied| applied != self.frequency);
        slewing.then(|| {
            self.applied = Some(self.frequency);
            Steer::Frequency(self.frequency)
        })
    }

    /// The counter or the published time lost its continuity: the next reading starts afresh,
    /// without another step.
    pub(crate) fn interrupt(&mut self) {
        self.last = None;
    }
}

/// `part` / `whole`, within the limit of what the kernel slews.
fn ratio(part: Span, whole: Span) -> Rate {
    // Beyond ±1 ms per second the answer is the limit anyway; that keeps the shift in range.
    let part = part.0.clamp(-(1 << 66), 1 << 66);
    clamp((part << 56) / (whole.0 >> 8).max(1))
}

fn clamp(rate: i128) -> Rate {
    Rate(rate.clamp(-i128::from(LIMIT.0), i128::from(LIMIT.0)) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A system clock that runs `ppb` fast and obeys: returns the offset after `seconds`.
    fn run(start: Span, ppb: i64, seconds: u64) -> (Span, Vec<Steer>) {
        let mut servo = Servo::default();
        let (mut offset, mut frequency) = (start, Rate::ZERO);
        let mut all = Vec::new();
        for second in 0..seconds {
            let count = Count(second * 1_000_000_000);
            let ours = Instant::from_nanos(count.0.into());
            for steer in servo.reading(count, ours + offset, ours, Period::NANOSECOND) {
                match steer {
                    Steer::Step(by) => offset += by,
                    Steer::Frequency(f) => frequency = f,
                }
                all.push(steer);
            }
            offset += (Rate::from_ppb(ppb)).over(Span::from_secs(1));
            offset += frequency.over(Span::from_secs(1));
        }
        (offset, all)
    }

    #[test]
    fn a_large_offset_is_stepped_once_and_the_rest_slewed() {
        let (offset, all) = run(Span::from_secs(3), 80_000, 60);
        assert!(offset.abs() < Span::from_micros(10), "{offset}");
        assert_eq!(all.iter().filter(|s| matches!(s, Steer::Step(_))).count(), 1);
    }

    #[test]
    fn a_small_offset_is_slewed() {
        let (offset, all) = run(Span::from_micros(-800), -30_000, 90);
        assert!(offset.abs() < Span::from_micros(10), "{offset}");
        assert!(all.iter().all(|s| matches!(s, Steer::Frequency(f) if f.0.abs() <= LIMIT.0)));
    }

    #[test]
    fn a_correction_of_our_time_is_followed_but_not_taken_for_a_frequency() {
        let mut servo = Servo::default();
        let mut system = Instant::default();
        for second in 0..60 {
            let count = Count(second * 1_000_000_000);
            let correction = Span::from_micros(if second < 10 { 0 } else { 400 });
            let ours = Instant::from_nanos(count.0.into()) + correction;
            let steers = servo.reading(count, system, ours, Period::NANOSECOND);
            let [Steer::Frequency(frequency)] = steers.as_slice() else { panic!("{steers:?}") };
            assert!((0..=50_000).contains(&(frequency.as_ppt() / 1000)), "{frequency}");
            assert!(servo.frequency.as_ppt().abs() <= 1000, "{}", servo.frequency);
            system = system + Span::from_secs(1) + frequency.over(Span::from_secs(1));
        }
        let last = Instant::new(60, 0) + Span::from_micros(400);
        assert!((system - last).abs() < Span::from_micros(5), "{:+}", system - last);
    }

    #[test]
    fn at_rest_the_slew_ends() {
        let mut servo = Servo::default();
        assert_eq!(servo.rest(), None, "nothing was ever asked for");
        let (system, ours) = (Instant::from_nanos(80_000), Instant::default());
        let steers = servo.reading(Count(0), system, ours, Period::NANOSECOND);
        assert!(matches!(steers.as_slice(), [Steer::Frequency(f)] if f.0 < 0), "{steers:?}");
        assert_eq!(servo.rest(), Some(Steer::Frequency(Rate::ZERO)));
        assert_eq!(servo.rest(), None);
    }

    #[test]
    fn extremes_do_not_panic() {
        let mut servo = Servo::default();
        for (k, offset) in [Span::ZERO, Span::MAX, Span(i128::MIN), Span(1)].into_iter().enumerate()
        {
            let count = Count(k as u64 * 1_000_000_000);
            let (system, ours) = (Instant::default() + offset, Instant::default());
            let _ = servo.reading(count, system, ours, Period::NANOSECOND);
            let _ = servo.reading(count, ours, system, Period::NANOSECOND);
        }
    }
}
