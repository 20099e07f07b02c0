//! The RADclock algorithm as it was published and as its implementation has it.
//!
//! Veitch, Babu, Pasztor (IMC 2004); Veitch, Ridoux, Korada (IEEE/ACM ToN 17(2), 2009). Written
//! from the description and from what the implementation was measured to do, not from its code;
//! nothing is improved on. The layers, each using only those before it:
//!
//! 1. [`baseline`]: the round trip's floor R̂ in counts, its history, shifts of its level;
//! 2. [`rate`]: p̂, the long-term period, from two good stamps far apart;
//! 3. [`local`]: p_l, the period of the last hour;
//! 4. [`offset`]: θ̂, the error of the uncorrected clock C(T) = p̂ T + K, by stamps weighted with
//!    their queueing and their age;
//! 5. [`penalty`]: how bad the path is, for the choice among several servers.
//!
//! `docs/explanation/published.md` says what is left out: what the interface does not show, and what are
//! accidents of the implementation.

mod baseline;
mod clock;
mod constants;
mod history;
mod local;
mod offset;
mod penalty;
mod rate;
mod windows;

use truechimer_feedforward::number::{rate, span};
use truechimer_feedforward::{Accepted, Estimate, Estimator, Exchange, Refusal, Settings};
use truechimer_time::{Count, Period, Rate, Span};

use baseline::{Baseline, Shift, Slide, Slides};
use clock::{Reference, Uncorrected};
pub use constants::HostClass;
use constants::{Class, DROP_TOLD, NEAR, RTT_LEAST, SHIFT_DELTAS, SHIFT_FAR, STAMP_LATENCY};
use history::{History, Record};
use local::Local;
use offset::{Below, Offset, Outcome};
use penalty::Penalty;
use rate::LongTerm;
use windows::Windows;

use crate::{Compared, stated};

/// Stamps that are remembered at most, if warm-up is served again and again.
const HISTORY_LIMIT: u64 = 16_384;

/// The published algorithm. See the module's text.
///
/// Its `bound` is the error that the algorithm publishes: no bound of anything. It has no part for
/// the asymmetry of the path, none for the server's own error, none for the stamps; `path_bound` is
/// therefore zero. An exchange that is refused as [`Refusal::ServerStep`] leaves the offset as it
/// was, but may have refined the rate.
#[derive(Clone, Debug)]
pub struct Published {
    settings: Settings,
    class: Class,
    initial: Period,
    windows: Windows,
    state: Option<State>,
}

/// State since the first stamp.
#[derive(Clone, Debug)]
struct State {
    windows: Windows,
    history: History,
    /// True while warm-up lasts; the stamp that it lasts to.
    warming_up: bool,
    warm_end: u64,
    far_server: bool,
    /// By how much a round trip must rise to be a shift, counts; frozen at the end of warm-up.
    shift_threshold: i64,
    slides: Slides,
    baseline: Baseline,
    clock: Uncorrected,
    rate: LongTerm,
    local: Local,
    offset: Offset,
    average: Average,
    penalty: Penalty,
    /// T_last: arrival of the newest stamp.
    last: Count,
    last_used: Count,
}

/// Mean of the published error over the history window, forgotten by halves.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    sum: f64,
    count: f64,
    next: (f64, f64),
}

impl Average {
    fn push(&mut self, error: f64) {
        self.sum += error;
        self.count += 1.0;
        self.next = (self.next.0 + error, self.next.1 + 1.0);
    }

    fn slide(&mut self, slide: Slide) {
        if slide == Slide::Slid {
            (self.sum, self.count) = self.next;
        }
        if slide != Slide::None {
            self.next = (0.0, 0.0);
        }
    }

    fn mean(&self) -> f64 {
        if self.count > 0.0 { self.sum / self.count } else { 0.0 }
    }
}

impl Published {
    /// The period that the implementation starts from: 1 ns, whatever the counter.
    pub const INITIAL_PERIOD: Period = Period::NANOSECOND;

    /// Estimator as it comes: class "good", first idea of the period 1 ns. `poll` is the poll
    /// period in seconds, which all windows are derived from.
    #[must_use]
    pub fn new(settings: Settings, poll: u32) -> Published {
        Published::with_class(settings, poll, HostClass::default(), Published::INITIAL_PERIOD)
    }

    /// Estimator as it can be configured: another class of host, another first idea of the period.
    #[must_use]
    pub fn with_class(
        settings: Settings,
        poll: u32,
        class: HostClass,
        initial: Period,
    ) -> Published {
        let class = class.values();
        Published { settings, class, initial, windows: Windows::new(poll, &class), state: None }
    }

    fn first(&self, x: &Exchange) -> State {
        let record = Record::new(0, x);
        let reference = Reference::new(self.settings.nominal, record.ta, record.tb);
        let clock = Uncorrected::new(reference, reference.ratio(self.initial));
        let mut history = History::new(self.windows.warm_up);
        history.push(record);
        let mut penalty = Penalty::new();
        penalty.push(&self.class, self.windows.poll, 0, (clock.seconds(record.rtt), 0.0), None);
        State {
            windows: self.windows,
            history,
            warming_up: true,
            warm_end: self.windows.warm_up,
            far_server: false,
            shift_threshold: i64::MAX,
            slides: Slides::new(&self.windows),
            baseline: Baseline::new(record.rtt),
            clock,
            rate: LongTerm::new(&self.class),
            local: Local::new(clock.ratio),
            offset: Offset::new(),
            average: Average::default(),
            penalty,
            last: record.tf,
            last_used: record.tf,
        }
    }
}

/// Black stamps are dropped before the algorithm sees them.
fn refused(x: &Exchange, last: Option<&Record>) -> Option<Refusal> {
    let rtt = (x.received.count - x.sent.count).0;
    let again = last.is_some_and(|last| (x.sent.count - last.ta).0 <= 0);
    if again || rtt < 0 || x.sent.count == Count(0) || x.received.count == Count(0) {
        return Some(Refusal::CounterBackwards);
    }
    let zero = x.server_received.0 == 0 || x.server_sent.0 == 0;
    (zero || x.server_sent < x.server_received || rtt < RTT_LEAST)
        .then_some(Refusal::ImpossibleRoundTrip)
}

impl State {
    /// Takes in the next stamp.
    fn push(&mut self, x: &Exchange, class: &Class) -> Result<Accepted, Refusal> {
        let Some(previous) = self.history.last().copied() else {
            return Err(Refusal::CounterBackwards);
        };
        let index = previous.index + 1;
        let mut record = Record::new(index, x);
        self.history.push(record);
        let shift = self.push_rtt(&record);
        self.push_rates(&record, previous.ta, class);
        record.baseline = self.baseline.floor;
        record.theta = self.clock.theta(&record);
        if let Some(newest) = self.history.last_mut() {
            *newest = record;
        }
        self.last = record.tf;
        let outcome = self.push_offset(index, class);
        self.average.push(self.error(record.tf, class));
        let least = self.offset.accepted.filter(|_| outcome == Outcome::Accepted).map(|a| a.least);
        let floor = self.clock.seconds(self.baseline.floor);
        let change = self.clock.seconds(shift.0);
        let gap = self.clock.seconds((record.ta - previous.ta).0) / f64::from(self.windows.poll);
        let missing = (gap + 0.5).max(1.0) as u64 - 1;
        self.penalty.push(class, self.windows.poll, missing, (floor, change), least);
        if self.warming_up && index + 1 >= self.warm_end {
            self.end_warm_up();
        }
        if outcome == Outcome::Insane {
            return Err(Refusal::ServerStep);
        }
        self.last_used = record.tf;
        Ok(match shift.1 {
            Some(Shift::Up(by, _) | Shift::Down(by)) => {
                Accepted::Shifted(span(self.clock.seconds(by)))
            }
            None => Accepted::Refined,
        })
    }

    /// History and baseline. Returns the change of the baseline in counts, and a shift if it is
    /// worth telling.
    fn push_rtt(&mut self, record: &Record) -> (i64, Option<Shift>) {
        let slide = self.slides.at(&self.windows, record.index);
        let before = self.baseline.floor;
        self.baseline.slide(slide, record.rtt);
        self.average.slide(slide);
        let drop = self.baseline.push(record.rtt);
        if slide != Slide::None {
            let first = slide == Slide::HalfWay;
            self.rate.begin_half(record, &self.clock, self.baseline.floor, first);
        }
        let mut shift = None;
        if !self.warming_up {
            if drop < -(self.shift_threshold / DROP_TOLD) {
                shift = Some(Shift::Down(drop));
            }
            let up = self.baseline.detect(&self.history, self.windows.shift, self.shift_threshold);
            if let Some(Shift::Up(_, since)) = up {
                shift = up;
                let floor = self.baseline.floor;
                self.rate.shifted(since, &self.clock, floor);
                let window = (record.index + 1).saturating_sub(self.windows.offset);
                for r in self.history.range_mut(since.max(window), record.index + 1) {
                    r.baseline = floor;
                }
            }
            let (floor, window) = (self.baseline.floor, self.windows.warm_up);
            self.rate.seek_next(record, &self.clock, floor, window);
        }
        (self.baseline.floor - before, shift)
    }

    /// p̂ and p_l.
    fn push_rates(&mut self, record: &Record, previous: Count, class: &Class) {
        let floor = self.baseline.floor;
        let ratio = if self.warming_up {
            self.rate.warm_up(&self.history, &self.clock, floor)
        } else {
            self.rate.full(record, &self.clock, floor, class)
        };
        if let Some(ratio) = ratio {
            self.clock.retune(ratio, previous);
        }
        if self.warming_up {
            self.local.follow(&self.clock, self.rate.error);
        } else {
            self.local.full(
                &self.history,
                &self.windows,
                &self.clock,
                floor,
                class,
                self.far_server,
            );
        }
    }

    fn push_offset(&mut self, index: u64, class: &Class) -> Outcome {
        let width = self.offset.width(index, self.windows.offset);
        let below = Below {
            history: &self.history,
            clock: &self.clock,
            class,
            baseline: self.baseline.floor,
            local: Some(self.local.ratio).filter(|_| !self.warming_up && self.local.filled),
            warming_up: self.warming_up,
            far_server: self.far_server,
        };
        self.offset.update(&below, width)
    }

    /// From now on the full algorithm: near or far, the shift threshold, the left stamp.
    fn end_warm_up(&mut self) {
        self.warming_up = false;
        let floor = self.baseline.floor;
        for r in self.history.range_mut(0, u64::MAX) {
            r.baseline = floor;
        }
        self.rate.begin(&self.history, &self.clock, floor);
        self.history.resize(self.windows.warm_up);
        self.far_server = self.clock.seconds(floor) >= NEAR;
        let threshold =
            SHIFT_DELTAS * STAMP_LATENCY * if self.far_server { SHIFT_FAR } else { 1.0 };
        self.shift_threshold = (threshold / self.clock.seconds(1)) as i64;
    }

    /// The published error at a count: E2 of the last update, and drift since.
    fn error(&self, at: Count, class: &Class) -> f64 {
        match self.offset.accepted {
            Some(a) => {
                a.second.max(0.0) + class.rate_bound * self.clock.seconds((at - a.at).0).abs()
            }
            // There is none before the first update; what is certain is the round trip.
            None => self.clock.seconds(self.baseline.floor),
        }
    }

    /// Another poll period, without losing history.
    fn resize(&mut self, windows: Windows) {
        let Some(index) = self.history.last().map(|r| r.index) else { return };
        let before = self.offset.width(index, self.windows.offset);
        self.offset.resize(index, before);
        self.slides.resize(&windows, index);
        self.baseline.restart_shift(index);
        self.local.park(index);
        if self.warming_up {
            // It is served again from here, on top of what there is.
            self.warm_end = index + 1 + windows.warm_up;
            self.history.resize(self.warm_end.min(HISTORY_LIMIT));
        } else {
            self.history.resize(windows.warm_up.max(before));
        }
        self.windows = windows;
    }
}

impl Estimator for Published {
    fn exchange(&mut self, x: &Exchange) -> Result<Accepted, Refusal> {
        let last = self.state.as_ref().and_then(|s| s.history.last());
        if let Some(refusal) = refused(x, last) {
            return Err(refusal);
        }
        if let Some(state) = &mut self.state {
            return state.push(x, &self.class);
        }
        self.state = Some(self.first(x));
        Ok(Accepted::Refined)
    }

    /// The absolute clock with the local rate, as the library reads it.
    fn estimate(&self, at: Count) -> Option<Estimate> {
        let state = self.state.as_ref()?;
        let (clock, reference) = (&state.clock, &state.clock.reference);
        let local = (state.local.ratio - clock.ratio) * reference.nominal_seconds(at - state.last);
        let period = reference.period(state.local.ratio);
        let time = clock.reading_less(at, state.offset.theta - local);
        Some(Estimate {
            difference_error: rate(state.local.error.abs()),
            difference_deviation: rate(state.local.error.abs()),
            growth: rate(self.class.rate_bound),
            deviation: span(state.average.mean()),
            rtt_floor: span(clock.seconds(state.baseline.floor)),
            ..stated(at, time, period, span(state.error(at, &self.class)), state.last_used)
        })
    }

    /// There is no warm restart: everything is forgotten.
    fn new_epoch(&mut self) {
        self.state = None;
    }

    /// The class of host says how far the oscillator may wander; this is not listened to.
    fn set_max_wander(&mut self, _max_wander: Rate) {}
}

impl Compared for Published {
    fn set_poll(&mut self, seconds: u32) {
        let windows = Windows::new(seconds, &self.class);
        if windows != self.windows {
            self.windows = windows;
            if let Some(state) = &mut self.state {
                state.resize(windows);
            }
        }
    }

    fn penalty(&self, at: Count) -> Option<Span> {
        let state = self.state.as_ref()?;
        let age = state.clock.seconds((at - state.last).0);
        Some(span(state.penalty.total(&self.class, age)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_time::{CountSpan, Instant, Stamp, StampMethod};

    fn exact(k: u64) -> Exchange {
        let stamp = |count| Stamp { count, error: CountSpan(0), method: StampMethod::Kernel };
        let sent = Count(k * 1_000_000_000);
        let time = Instant::new(1000, 0) + Span::from_secs(k as i64);
        Exchange {
            sent: stamp(sent),
            server_received: time + Span::from_micros(100),
            server_sent: time + Span::from_micros(120),
            received: stamp(sent + CountSpan(220_000)),
            root_distance: Span::ZERO,
            precision: Span::ZERO,
        }
    }

    /// However often warm-up is served again, and however long the clock runs.
    #[test]
    fn memory_is_bounded() {
        let settings = Settings {
            nominal: Period::NANOSECOND,
            resolution: CountSpan(1),
            max_wander: Rate::ZERO,
            accept_step_after: Span::ZERO,
            asymmetry: None,
            pulse: false,
        };
        let mut clock = Published::new(settings, 1);
        let held = |c: &Published| c.state.as_ref().unwrap().history.range(0, u64::MAX).count();
        for k in 1..40_000 {
            assert!(clock.exchange(&exact(k)).is_ok());
            if k % 3000 == 0 {
                clock.set_poll(1 + (k / 3000 % 2) as u32);
            }
            assert!(held(&clock) as u64 <= HISTORY_LIMIT);
        }
        assert!(clock.state.as_ref().unwrap().warming_up);
        for k in 40_000..60_000 {
            assert!(clock.exchange(&exact(k)).is_ok());
        }
        assert!(!clock.state.as_ref().unwrap().warming_up);
        assert_eq!(held(&clock) as u64, clock.windows.warm_up);
        let e = clock.estimate(Count(60_000_000_000_000)).unwrap();
        let truth = Instant::new(61_000, 0);
        assert!((e.time - truth).abs() < Span::from_nanos(20), "{}", e.time - truth);
    }
}
