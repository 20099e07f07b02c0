//! Steering of the system clock, if the user asks: a step where that is allowed, else slewing.
//!
//! This is a servo on the system clock and on nothing else. Our own stamps are counts, so that
//! whatever it does to `CLOCK_REALTIME` never comes back into an estimate. It need not find the
//! system clock's frequency by its offsets, as a feedback loop does: what the clock gained within a
//! second on ours, less what it was made to gain, is its own error. So there is nothing to wind up,
//! and no overshoot.

use smallvec::smallvec;
use truechimer_time::{Count, Instant, Period, Rate, Span};

use crate::config::StepPolicy;
use crate::event::Steer;
use crate::few::Few;

/// An offset up to this, such as each correction of our own clock leaves, is slewed away within
/// seconds;
const SMALL: Span = Span::from_micros(100);
/// namely with this time constant, s: a few readings, which come about once a second.
const SMALL_SECONDS: i64 = 2;
/// Time constant for the rest, s: should the daemon be held up or killed meanwhile, the slew goes
/// on.
const LARGE_SECONDS: i64 = 8;
/// The kernel slews by frequency up to this.
const LIMIT: Rate = Rate::from_ppb(500_000);
/// An offset is slewed away no faster: a daemon that is killed meanwhile leaves a clock that strays
/// more slowly than the kernel's word of its error grows (500 ppm), with something for what is not
/// known of its own rate.
const MAX_SLEW: Rate = Rate::from_ppb(450_000);
/// Share of the newest measurement in the frequency: 1/8.
const GAIN_SHIFT: u32 = 3;
/// Readings closer together than this say too little about the rate.
const MIN_INTERVAL: Span = Span::from_millis(200);
/// Readings further apart than this may have missed a change.
const MAX_INTERVAL: Span = Span::from_secs(64);
/// A known frequency does not change by more within a second; what looks like it is a step by
/// somebody else,
const SURPRISE: Rate = Rate::from_ppb(1000);
/// unless it happens so often in a row: the kernel counts by another clocksource, say.
const INSISTENCE: u32 = 4;

/// Time that the system clock showed, and what it should have shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) count: Count,
    /// The system clock at `count`.
    pub(crate) system: Instant,
    /// Our clock at `count`, which counts by `period`.
    pub(crate) ours: Instant,
    pub(crate) period: Period,
    /// The frequency that the kernel has been given, if it was asked.
    pub(crate) applied: Option<Rate>,
}

/// The servo.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Servo {
    begun: bool,
    /// The frequency that cancels the system clock's own error.
    frequency: Rate,
    /// Number of measurements that it rests on.
    measured: u32,
    /// Number of them in a row that were no frequency that one would have believed.
    surprises: u32,
    /// The frequency that was last asked for.
    applied: Option<Rate>,
    /// Count and time of the last reading since the last change other than by `applied`.
    last: Option<(Count, Instant)>,
}

impl Servo {
    /// Takes in a reading; it may step if the offset is above `above` and `policy` allows it.
    pub(crate) fn reading(
        &mut self,
        reading: &Reading,
        policy: StepPolicy,
        above: Span,
    ) -> Few<Steer> {
        let Reading { count, system, ours, period, applied } = *reading;
        let offset = system - ours;
        let first = !core::mem::replace(&mut self.begun, true);
        if first && let Some(applied) = applied {
            // What an earlier run, or another daemon, has found: better than to begin with none.
            (self.frequency, self.applied) = (clamp(applied.0.into()), Some(applied));
        }
        let may_step = match policy {
            StepPolicy::Start => first,
            StepPolicy::Always => true,
            StepPolicy::Never => false,
        };
        if may_step && offset.abs() > above {
            (self.applied, self.last) = (Some(self.frequency), None);
            return smallvec![Steer::Step(-offset), Steer::Frequency(self.frequency)];
        }
        if let (Some(applied), Some((then, before))) = (self.applied, self.last) {
            let interval = period.span(count - then);
            if interval < MIN_INTERVAL {
                return Few::new();
            }
            if interval <= MAX_INTERVAL {
                // Gained on the rate of our time, that is: a correction of our time is none of its
                // doing.
                let gained = ratio((system - before) - interval, interval);
                self.measure(i128::from(applied.0) - i128::from(gained.0));
            }
        }
        self.last = Some((count, system));
        let frequency = clamp(i128::from(self.frequency.0) - slew(offset));
        self.applied = Some(frequency);
        smallvec![Steer::Frequency(frequency)]
    }

    /// Takes in the frequency that would have cancelled the clock's error lately.
    fn measure(&mut self, wanted: i128) {
        let change = i128::from(clamp(wanted).0) - i128::from(self.frequency.0);
        let surprising = change.abs() > i128::from(SURPRISE.0);
        self.surprises = if surprising { self.surprises + 1 } else { 0 };
        if self.measured > 0 && surprising {
            if self.surprises < INSISTENCE {
                return;
            }
            (self.measured, self.surprises) = (0, 0);
        }
        let shift = self.measured.min(GAIN_SHIFT);
        self.frequency = clamp(i128::from(self.frequency.0) + (change >> shift));
        self.measured = self.measured.saturating_add(1);
    }

    /// Rate by which the clock may gain or lose, beside its slew, until the next reading.
    pub(crate) fn unknown(&self) -> Rate {
        if self.measured == 0 { LIMIT } else { SURPRISE }
    }

    /// There is nothing to follow: the slew ends, and the system clock goes on at the frequency
    /// that cancels its own error.
    pub(crate) fn rest(&mut self) -> Option<Steer> {
        self.last = None;
        let slewing = self.applied.is_some_and(|applied| applied != self.frequency);
        slewing.then(|| {
            self.applied = Some(self.frequency);
            Steer::Frequency(self.frequency)
        })
    }

    /// The counter or the published time lost its continuity: the next reading starts afresh, and
    /// is no first one.
    pub(crate) fn interrupt(&mut self) {
        self.last = None;
    }
}

/// Rate by which the clock has to run slower to lose its offset.
fn slew(offset: Span) -> i128 {
    let small = offset.clamp(-SMALL, SMALL);
    let [fast, slow] = [(small, SMALL_SECONDS), (offset - small, LARGE_SECONDS)]
        .map(|(part, seconds)| i128::from(ratio(part, Span::from_secs(seconds)).0));
    (fast + slow).clamp(-i128::from(MAX_SLEW.0), MAX_SLEW.0.into())
}

/// `part` / `whole`, within twice the limit of what the kernel slews: a gain may be the difference
/// of two frequencies.
fn ratio(part: Span, whole: Span) -> Rate {
    // Beyond ±1 ms per second the answer is the limit anyway; that keeps the shift in range.
    let part = part.0.clamp(-(1 << 66), 1 << 66);
    let most = 2 * i128::from(LIMIT.0);
    Rate(((part << 56) / (whole.0 >> 8).max(1)).clamp(-most, most) as i64)
}

fn clamp(rate: i128) -> Rate {
    Rate(rate.clamp(-i128::from(LIMIT.0), i128::from(LIMIT.0)) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const ABOVE: Span = Span::from_millis(1);

    /// A system clock that obeys.
    struct System {
        servo: Servo,
        policy: StepPolicy,
        second: u64,
        /// Ahead of ours by this.
        offset: Span,
        /// Error of its rate, without the servo.
        skew: Rate,
        frequency: Rate,
        steps: u32,
        /// The offset after each second.
        shown: Vec<Span>,
    }

    impl System {
        fn new(offset: Span, ppb: i64) -> System {
            System {
                servo: Servo::default(),
                policy: StepPolicy::Start,
                second: 0,
                offset,
                skew: Rate::from_ppb(ppb),
                frequency: Rate::ZERO,
                steps: 0,
                shown: Vec::new(),
            }
        }

        fn run(&mut self, seconds: u64) -> Span {
            for _ in 0..seconds {
                let count = Count(self.second * 1_000_000_000);
                let ours = Instant::from_nanos(count.0.into());
                let reading = Reading {
                    count,
                    system: ours + self.offset,
                    ours,
                    period: Period::NANOSECOND,
                    applied: Some(self.frequency),
                };
                for steer in self.servo.reading(&reading, self.policy, ABOVE) {
                    match steer {
                        Steer::Step(by) => {
                            self.offset += by;
                            self.steps += 1;
                        }
                        Steer::Frequency(f) => {
                            assert!(f.0.abs() <= LIMIT.0, "{f}");
                            self.frequency = f;
                        }
                        Steer::Tell(_) => unreachable!("the servo tells nothing"),
                    }
                }
                for rate in [self.skew, self.frequency] {
                    self.offset += rate.over(Span::from_secs(1));
                }
                self.second += 1;
                self.shown.push(self.offset);
            }
            self.offset
        }
    }

    #[test]
    fn a_large_offset_is_stepped_once_and_the_rest_slewed() {
        let mut system = System::new(Span::from_secs(3), 80_000);
        assert!(system.run(60).abs() < Span::from_micros(1), "{}", system.offset);
        assert_eq!(system.steps, 1);
        system.offset += Span::from_secs(1);
        system.run(60);
        assert_eq!(system.steps, 1, "the start is over");
    }

    #[test]
    fn steps_are_as_configured() {
        let mut never =
            System { policy: StepPolicy::Never, ..System::new(Span::from_millis(5), 0) };
        assert!(never.run(90).abs() < Span::from_micros(1), "{}", never.offset);
        assert_eq!(never.steps, 0);
        let mut always = System { policy: StepPolicy::Always, ..System::new(Span::ZERO, 20_000) };
        always.run(60);
        for n in 1..4 {
            always.offset += Span::from_millis(-700);
            assert!(always.run(5).abs() < Span::from_micros(1), "{}", always.offset);
            assert_eq!(always.steps, n);
        }
    }

    #[test]
    fn a_small_offset_is_slewed_without_overshoot() {
        for ppb in [-100_000, -30_000, 0, 100_000] {
            // As an earlier run left it: the kernel has the frequency that it needs.
            let mut system = System::new(Span::from_micros(-800), ppb);
            system.frequency = Rate::from_ppb(-ppb);
            assert!(system.run(90).abs() < Span::from_micros(1), "{}", system.offset);
            let most = system.shown.iter().max().expect("some");
            assert!(*most < Span::from_nanos(100), "{ppb} ppb: overshot by {most}");
        }
    }

    #[test]
    fn a_clock_that_is_left_in_a_slew_strays_less_than_the_kernel_says() {
        for ppb in [-300_000, -40_000, 0, 40_000, 300_000] {
            let mut system =
                System { policy: StepPolicy::Never, ..System::new(Span::from_secs(-3), ppb) };
            system.frequency = Rate::from_ppb(-ppb);
            system.run(20);
            let before = system.offset;
            system.run(1);
            let strays = (system.offset - before).abs();
            assert!(strays < Span::from_micros(455), "{ppb} ppb: {strays} a second");
        }
    }

    #[test]
    fn a_step_by_somebody_else_is_not_taken_for_a_frequency() {
        let mut system = System::new(Span::ZERO, 40_000);
        system.run(60);
        let known = system.servo.frequency;
        for by in [100, -300, 20_000] {
            system.offset += Span::from_micros(by);
            system.run(1);
            let apart = (system.servo.frequency.0 - known.0).abs();
            assert!(apart < Rate::from_ppb(100).0, "{}", Rate(apart));
            system.run(400);
        }
        // But another clocksource is.
        system.skew = Rate::from_ppb(-90_000);
        assert!(system.run(90).abs() < Span::from_micros(1), "{}", system.offset);
        assert_eq!(system.steps, 0);
    }

    #[test]
    fn a_correction_of_our_time_is_followed_but_not_taken_for_a_frequency() {
        let mut servo = Servo::default();
        let mut system = Instant::default();
        for second in 0..60 {
            let count = Count(second * 1_000_000_000);
            let correction = Span::from_micros(if second < 10 { 0 } else { 400 });
            let ours = Instant::from_nanos(count.0.into()) + correction;
            let reading =
                Reading { count, system, ours, period: Period::NANOSECOND, applied: None };
            let steers = servo.reading(&reading, StepPolicy::Start, ABOVE);
            let [Steer::Frequency(frequency)] = steers.as_slice() else { panic!("{steers:?}") };
            assert!((0..=90_000).contains(&(frequency.as_ppt() / 1000)), "{frequency}");
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
        let reading = Reading {
            count: Count(0),
            system: Instant::from_nanos(80_000),
            ours: Instant::default(),
            period: Period::NANOSECOND,
            applied: None,
        };
        let steers = servo.reading(&reading, StepPolicy::Start, ABOVE);
        assert!(matches!(steers.as_slice(), [Steer::Frequency(f)] if f.0 < 0), "{steers:?}");
        assert_eq!(servo.rest(), Some(Steer::Frequency(Rate::ZERO)));
        assert_eq!(servo.rest(), None);
    }

    proptest! {
        #[test]
        fn whatever_the_clocks_show_the_frequency_stays_within_the_limit(
            readings in prop::collection::vec(
                (any::<u64>(), any::<i128>(), any::<i128>(), any::<Option<i64>>()), 1..20),
            policy in prop::sample::select(
                &[StepPolicy::Start, StepPolicy::Never, StepPolicy::Always][..]),
        ) {
            let mut servo = Servo::default();
            for (count, system, ours, applied) in readings {
                let reading = Reading {
                    count: Count(count),
                    system: Instant::default() + Span(system),
                    ours: Instant::default() + Span(ours),
                    period: Period::NANOSECOND,
                    applied: applied.map(Rate),
                };
                for steer in servo.reading(&reading, policy, ABOVE).into_iter().chain(servo.rest()) {
                    if let Steer::Frequency(rate) = steer {
                        prop_assert!(rate.0.abs() <= LIMIT.0);
                    }
                }
            }
        }
    }
}
