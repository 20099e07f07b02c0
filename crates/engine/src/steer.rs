//! How to steer the system clock, if the user asks: one step at the start, then slewing.
//!
//! This is a servo on the system clock and on nothing else. Our own stamps are counts, so that
//! whatever it does to `CLOCK_REALTIME` never comes back into an estimate.

use truechimer_time::{Count, Period, Rate, Span};

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
    /// Count and offset of the last reading since the last change other than by `applied`.
    last: Option<(Count, Span)>,
}

impl Servo {
    /// Takes in the system clock's offset (system clock − ours) at `count`.
    pub(crate) fn reading(&mut self, count: Count, offset: Span, period: Period) -> Vec<Steer> {
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
                // What it gained, less what we made it gain, is its own error.
                let gained = ratio(offset - before, interval);
                let wanted = clamp(i128::from(applied.0) - i128::from(gained.0));
                let shift = self.measured.min(GAIN_SHIFT);
                let change = (i128::from(wanted.0) - i128::from(self.frequency.0)) >> shift;
                self.frequency = clamp(i128::from(self.frequency.0) + change);
                self.measured = self.measured.saturating_add(1);
            }
        }
        self.last = Some((count, offset));
        let slew = ratio(offset, Span::from_secs(SLEW_SECONDS));
        let frequency = clamp(i128::from(self.frequency.0) - i128::from(slew.0));
        self.applied = Some(frequency);
        vec![Steer::Frequency(frequency)]
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
            for steer in servo.reading(count, offset, Period::NANOSECOND) {
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
    fn extremes_do_not_panic() {
        let mut servo = Servo::default();
        for (k, offset) in [Span::ZERO, Span::MAX, Span(i128::MIN), Span(1)].into_iter().enumerate()
        {
            let _ = servo.reading(Count(k as u64 * 1_000_000_000), offset, Period::NANOSECOND);
        }
    }
}
