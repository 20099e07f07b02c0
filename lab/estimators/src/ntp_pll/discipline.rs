//! The clock discipline of RFC 5905 (§11.3, §12, Appendix A.5.5.6, A.5.6.1): a state machine around
//! a hybrid of phase-lock and frequency-lock loop.

use truechimer_feedforward::number::{seconds, span};
use truechimer_time::{Count, Instant, Period};

use crate::steered::Steered;

/// Offsets beyond this are stepped, once they last, s (STEPT).
const STEP: f64 = 0.128;
/// Time that they must last, and for which the frequency is measured, s (WATCH).
const STEPOUT: f64 = 900.0;
/// Time constant of the PLL in polls. Appendix A says 65536, with which the loop would take months;
/// programs that run it themselves have 16; kernels, to which daemons usually leave it, have 2²
/// (SHIFT_PLL), which is what today's daemons show.
const PLL: f64 = 4.0;
/// Loop gain of the FLL: MAXPOLL + 1, where MAXPOLL is 17.
const FLL: f64 = 18.0;
/// Averaging constant (AVG).
const AVERAGE: f64 = 4.0;
/// Compromise Allan intercept, s (ALLAN).
const ALLAN: f64 = 1500.0;
/// Limit of the frequency (MAXFREQ).
const MAX_FREQUENCY: f64 = 500e-6;
/// Threshold of the poll adjustment (LIMIT) and its gate in jitters (PGATE).
const POLL_LIMIT: i32 = 30;
const POLL_GATE: f64 = 4.0;
/// Exponents of the poll interval that may be advised, and that a loop is run at.
const ADVISED: (u32, u32) = (4, 10);
const MAX_EXPONENT: u32 = 10;

/// The states of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Never set.
    NeverSet,
    /// The frequency is known from before.
    FrequencySet,
    /// Measuring the frequency.
    Frequency,
    /// A spike was seen.
    Spike,
    /// Synchronised.
    Synchronised,
}

/// Outcome of an update.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Verdict {
    /// Left out while the frequency is measured.
    Ignored,
    /// Left out because it is too far off.
    Outlier,
    /// The clock is slewed.
    Slewed,
    /// The clock was stepped by so many seconds.
    Stepped(f64),
}

/// The loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Discipline {
    pub(super) state: State,
    /// c.freq: what the clock is made to gain on nominal time.
    pub(super) frequency: f64,
    /// c.last: the last offset.
    last: f64,
    pub(super) jitter: f64,
    pub(super) wander: f64,
    /// s.t: the sample of the last update.
    updated: Count,
    /// Exponent of the poll interval in force, and of the one that the loop would like.
    exponent: u32,
    advised: u32,
    count: i32,
}

/// 2^exponent seconds.
fn interval(exponent: u32) -> f64 {
    f64::from(1u32 << exponent.min(MAX_EXPONENT))
}

fn exponent(poll: u32) -> u32 {
    poll.max(1).ilog2().min(MAX_EXPONENT)
}

impl Discipline {
    pub(super) fn new(state: State, frequency: f64, poll: u32) -> Discipline {
        let exponent = exponent(poll);
        Discipline {
            state,
            frequency,
            last: 0.0,
            jitter: 0.0,
            wander: 0.0,
            updated: Count(0),
            exponent,
            advised: exponent.clamp(ADVISED.0, ADVISED.1),
            count: 0,
        }
    }

    /// True if it has had a first update.
    pub(super) fn is_set(&self) -> bool {
        !matches!(self.state, State::NeverSet | State::FrequencySet)
    }

    /// The clock that it is to steer.
    pub(super) fn clock(&self, nominal: Period, at: Count, time: Instant) -> Steered {
        Steered::new(nominal, at, time, self.frequency)
    }

    /// The poll interval in force, s.
    pub(super) fn poll(&self) -> f64 {
        interval(self.exponent)
    }

    pub(super) fn set_poll(&mut self, poll: u32) {
        if exponent(poll) != self.exponent {
            self.exponent = exponent(poll);
            self.advised = self.exponent.clamp(ADVISED.0, ADVISED.1);
            self.count = 0;
        }
    }

    /// The poll interval that the jiggle counter asks for, s.
    pub(super) fn advice(&self) -> u32 {
        1 << self.advised
    }

    /// An offset (server − clock, s) of the sample at `sampled`, at the count `at`.
    pub(super) fn update(
        &mut self,
        clock: &mut Steered,
        (at, sampled): (Count, Count),
        offset: f64,
        (precision, nominal): (f64, Period),
    ) -> Verdict {
        let elapsed = seconds(nominal.span(sampled - self.updated)).max(0.0);
        let rest = clock.left(at);
        let mut change = 0.0;
        if offset.abs() > STEP {
            match self.state {
                State::Synchronised => {
                    self.state = State::Spike;
                    return Verdict::Outlier;
                }
                State::Frequency | State::Spike if elapsed < STEPOUT => return Verdict::Outlier,
                State::Frequency => change = (offset - rest) / elapsed,
                State::Spike | State::NeverSet | State::FrequencySet => {}
            }
            self.count = 0;
            self.advised = ADVISED.0;
            self.retune(change);
            clock.step(at, span(offset));
            clock.steer(at, self.frequency, 0.0, 0.0);
            let next = match self.state {
                State::NeverSet => State::Frequency,
                _ => State::Synchronised,
            };
            self.restart(next, sampled, 0.0);
            return Verdict::Stepped(offset);
        }
        let difference = (offset - self.last).abs().max(precision);
        self.jitter = averaged(self.jitter, difference);
        match self.state {
            State::NeverSet => {
                self.slew(clock, at, offset);
                self.restart(State::Frequency, sampled, offset);
                return Verdict::Slewed;
            }
            State::Frequency if elapsed < STEPOUT => return Verdict::Ignored,
            State::Frequency => change = (offset - rest) / elapsed,
            State::FrequencySet => {}
            State::Spike | State::Synchronised => {
                let poll = self.poll();
                if poll > ALLAN / 2.0 {
                    let gain = (FLL - f64::from(self.exponent)).max(AVERAGE);
                    change += (offset - rest) / (elapsed.max(ALLAN) * gain);
                }
                let constant = 4.0 * PLL * poll;
                change += offset * elapsed.min(poll) / (constant * constant);
            }
        }
        self.retune(change);
        self.slew(clock, at, offset);
        self.restart(State::Synchronised, sampled, offset);
        self.adjust_poll(offset);
        Verdict::Slewed
    }

    fn retune(&mut self, change: f64) {
        let before = self.frequency;
        self.frequency = (before + change).clamp(-MAX_FREQUENCY, MAX_FREQUENCY);
        self.wander = averaged(self.wander, self.frequency - before);
    }

    /// Works the offset off, by the share that clock_adjust takes each second.
    fn slew(&self, clock: &mut Steered, at: Count, offset: f64) {
        let share = 1.0 / (PLL * self.poll().min(ALLAN));
        clock.steer(at, self.frequency, offset, share);
    }

    fn restart(&mut self, state: State, sampled: Count, offset: f64) {
        (self.state, self.updated, self.last) = (state, sampled, offset);
    }

    fn adjust_poll(&mut self, offset: f64) {
        let by = self.exponent as i32;
        if offset.abs() < POLL_GATE * self.jitter {
            self.count += by;
            if self.count > POLL_LIMIT {
                self.count = 0;
                self.advised = (self.exponent + 1).clamp(ADVISED.0, ADVISED.1);
            }
        } else {
            self.count -= 2 * by;
            if self.count < -POLL_LIMIT {
                self.count = 0;
                self.advised = self.exponent.saturating_sub(1).clamp(ADVISED.0, ADVISED.1);
            }
        }
    }
}

/// The exponential mean of squares, as a root.
fn averaged(mean: f64, value: f64) -> f64 {
    let square = mean * mean;
    libm::sqrt(square + (value * value - square) / AVERAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOMINAL: Period = Period::NANOSECOND;

    fn at(seconds: u64) -> Count {
        Count(seconds * 1_000_000_000)
    }

    fn begun(state: State) -> (Discipline, Steered) {
        let loop_ = Discipline::new(state, 0.0, 16);
        let clock = loop_.clock(NOMINAL, at(0), Instant::new(0, 0));
        (loop_, clock)
    }

    fn update(loop_: &mut Discipline, clock: &mut Steered, t: u64, offset: f64) -> Verdict {
        loop_.update(clock, (at(t), at(t)), offset, (1e-9, NOMINAL))
    }

    #[test]
    fn the_first_thing_is_to_measure_the_frequency() {
        let (mut loop_, mut clock) = begun(State::NeverSet);
        assert_eq!(update(&mut loop_, &mut clock, 16, 0.0), Verdict::Slewed);
        // The clock loses 10 µs a second.
        for k in 2..=57 {
            let t = 16 * k;
            let v = update(&mut loop_, &mut clock, t, 10e-6 * (t - 16) as f64);
            assert_eq!(v, if t - 16 < 900 { Verdict::Ignored } else { Verdict::Slewed }, "{t}");
        }
        let v = update(&mut loop_, &mut clock, 928, 10e-6 * 912.0);
        assert_eq!((v, loop_.state), (Verdict::Slewed, State::Synchronised));
        assert!((loop_.frequency - 10e-6).abs() < 1e-8, "{}", loop_.frequency);
    }

    #[test]
    fn an_outlier_must_last_for_the_stepout() {
        let (mut loop_, mut clock) = begun(State::FrequencySet);
        assert_eq!(update(&mut loop_, &mut clock, 16, 1e-3), Verdict::Slewed);
        assert_eq!(update(&mut loop_, &mut clock, 32, 0.5), Verdict::Outlier);
        assert_eq!(loop_.state, State::Spike);
        assert_eq!(update(&mut loop_, &mut clock, 48, 1e-3), Verdict::Slewed, "it was a spike");
        for k in 4..=59 {
            assert_eq!(update(&mut loop_, &mut clock, 16 * k, 0.5), Verdict::Outlier);
        }
        assert_eq!(update(&mut loop_, &mut clock, 960, 0.5), Verdict::Stepped(0.5));
        let shown = seconds(clock.reading(at(960)) - Instant::new(960, 0));
        assert!((shown - 0.5 - 2e-3).abs() < 1e-3, "{shown}");
    }

    #[test]
    fn quiet_asks_for_longer_intervals_and_trouble_for_shorter_ones() {
        let (mut loop_, mut clock) = begun(State::FrequencySet);
        loop_.set_poll(64);
        for k in 1..20 {
            let _ = update(&mut loop_, &mut clock, 64 * k, if k % 2 == 0 { 1e-5 } else { -1e-5 });
        }
        assert_eq!(loop_.advice(), 128);
        loop_.set_poll(128);
        assert_eq!(loop_.advice(), 128);
        for k in 20..40 {
            let _ = update(&mut loop_, &mut clock, 128 * k, 1e-2);
        }
        assert_eq!(loop_.advice(), 64);
    }
}
