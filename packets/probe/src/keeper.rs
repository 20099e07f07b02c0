//! Stamps as times of the clock, with their bounds.

use truechimer::{Clock, ReadBy, View};
use truechimer_counter::{Counter, CounterError, resolution};
use truechimer_ntp::Timestamp;
use truechimer_qos::{Counted, DifferenceClock};
use truechimer_stamp::PairLog;
use truechimer_time::{
    Count, CountSpan, CounterKind, Epoch, Instant, Leaps, Period, Rate, Span, Stamp,
};

/// Error of the rate of `CLOCK_MONOTONIC_RAW`: the most that the kernel lets anybody correct an oscillator by
/// (adjtimex(2)).
const RAW_RATE: Rate = Rate::from_ppb(500_000);

/// Longest time since something that was stamped just now.
const A_MOMENT: Span = Span::from_secs(1);

/// Source of a time of day.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The Truechimer clock.
    Page,
    /// The system clock: there is no other, or it cannot be read.
    System,
}

/// A moment by the clock.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Timed {
    /// The time.
    pub time: Instant,
    /// True time is within this of it; `None` if nothing is promised.
    pub bound: Option<Span>,
    /// Leap seconds, by which it becomes UTC.
    pub leaps: Leaps,
    /// Source of `time`: those of two sources differ by anything.
    pub source: Source,
    /// Count of that moment, for spans on this host.
    pub counted: Counted,
}

impl Timed {
    /// Moment of a clock that counts nanoseconds since 1970, right to within `bound` ns: for tests and examples.
    #[must_use]
    pub fn at_nanos(ns: i64, bound: i64) -> Timed {
        let counted =
            Counted { count: Count(ns as u64), error: CountSpan::ZERO, epoch: Epoch::default() };
        let (time, bound) = (Instant::from_nanos(ns.into()), Some(Span::from_nanos(bound)));
        Timed { time, bound, leaps: Leaps::default(), source: Source::Page, counted }
    }

    /// Timestamp of the wire.
    #[must_use]
    pub fn stamp(&self) -> Timestamp {
        Timestamp::from_instant(self.time, &self.leaps)
    }

    /// Bound of what [`Timed::stamp`] gives, which is cut to 2⁻³² s.
    #[must_use]
    pub fn stamped_bound(&self) -> Option<Span> {
        self.bound.map(|bound| bound + Span(1 << 32))
    }
}

/// A clock and the counter that packets are stamped by.
pub struct Keeper {
    clock: Option<Clock>,
    kind: CounterKind,
    counter: Counter,
    log: PairLog,
    /// Counters that there were before this one.
    generation: u32,
}

/// Bits of an epoch that are the daemon's; those above tell counters apart.
const EPOCH_BITS: u32 = 24;

impl Keeper {
    /// Stamps by this clock; without one by the system clock, of which nothing is promised.
    ///
    /// # Errors
    /// If there is no counter to stamp with.
    pub fn new(clock: Option<Clock>) -> Result<Keeper, CounterError> {
        let view = clock.as_ref().and_then(|clock| clock.view().ok());
        let (kind, counter, log) = stamped_by(view.as_ref())?;
        Ok(Keeper { clock, kind, counter, log, generation: 0 })
    }

    /// Tells whether there is a clock.
    #[must_use]
    pub fn has_clock(&self) -> bool {
        self.clock.is_some()
    }

    /// Stamps by this clock from now on.
    ///
    /// # Errors
    /// Those of [`Keeper::new`].
    pub fn set_clock(&mut self, clock: Clock) -> Result<(), CounterError> {
        let generation = self.generation.wrapping_add(1);
        *self = Keeper { generation, ..Keeper::new(Some(clock))? };
        Ok(())
    }

    /// Number of the counter that it stamps by: another one if that has changed, after which sockets are to be told
    /// ([`Socket::recount`](truechimer_stamp::Socket::recount)).
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// The counter, and the log that stamps are told by.
    pub fn parts(&mut self) -> (Counter, &mut PairLog) {
        (self.counter, &mut self.log)
    }

    /// Clock that spans on this host go by; `None` if the page that says how long counts last cannot be read.
    #[must_use]
    pub fn difference(&self) -> Option<DifferenceClock> {
        difference(self.view().as_ref(), self.kind)
    }

    fn view(&self) -> Option<View> {
        self.clock.as_ref().and_then(|clock| clock.view().ok())
    }

    /// The time now.
    pub fn now(&mut self) -> Timed {
        let count = self.counter.read();
        self.at(count, CountSpan::ZERO)
    }

    /// Time of a stamp by the counter, not long ago.
    pub fn of(&mut self, stamp: &Stamp) -> Timed {
        self.at(stamp.count, stamp.error)
    }

    fn at(&mut self, count: Count, error: CountSpan) -> Timed {
        if let Some(view) = self.view() {
            let (kind, _) = counted_by(&view);
            if kind == self.kind {
                return match view.read_by {
                    ReadBy::Counter => {
                        let counted = self.counted(count, error, view.hand.counter.epoch);
                        by_counter(&view, counted)
                    }
                    _ => self.by_device(count, error),
                };
            }
            // The daemon counts by another counter from now on: of what was stamped by the old one it is known that it was
            // a moment ago.
            if let Ok((kind, counter, log)) = stamped_by(Some(&view)) {
                (self.kind, self.counter, self.log) = (kind, counter, log);
                self.generation = self.generation.wrapping_add(1);
                let ago = self.log.period().counts(A_MOMENT);
                return self.by_system_clock(self.counter.read(), ago);
            }
        }
        self.by_system_clock(count, error)
    }

    /// Count of this counter, in this epoch of the daemon's.
    fn counted(&self, count: Count, error: CountSpan, epoch: Epoch) -> Counted {
        let epoch = Epoch(self.generation << EPOCH_BITS | epoch.0 & ((1 << EPOCH_BITS) - 1));
        Counted { count, error, epoch }
    }

    /// By a clock whose counter is a device: that is looked at between two readings of ours.
    fn by_device(&mut self, count: Count, error: CountSpan) -> Timed {
        let before = self.counter.read();
        let Some(view) = self.view() else { return self.by_system_clock(count, error) };
        let after = self.counter.read();
        let middle = before.midpoint(after);
        let reading = view.reading(view.count, view.status);
        let away = count - middle;
        let ns = |counts: CountSpan| Span::from_nanos(counts.0);
        let drift = ns(away).0.abs() / 2000;
        let doubt = ns(after - before) + ns(error) + Span(drift);
        Timed {
            time: reading.best + ns(away),
            bound: reading.bound().map(|bound| bound + doubt),
            leaps: reading.leaps(),
            source: Source::Page,
            counted: self.counted(count, error, view.hand.counter.epoch),
        }
    }

    fn by_system_clock(&mut self, count: Count, error: CountSpan) -> Timed {
        let pair = self.log.take(self.counter);
        let since = self.log.period().span(count - pair.mid());
        Timed {
            time: Instant::from_nanos(pair.unix_ns.into()) + since,
            bound: None,
            leaps: Leaps::default(),
            source: Source::System,
            counted: self.counted(count, error, Epoch::default()),
        }
    }
}

/// Clock that spans by [`Timed::at_nanos`] go by.
#[cfg(test)]
pub(crate) fn nanoseconds() -> DifferenceClock {
    DifferenceClock { period: Period::NANOSECOND, error: Rate::ZERO }
}

fn by_counter(view: &View, counted: Counted) -> Timed {
    let reading = view.reading(counted.count, view.status_at(counted.count));
    let lasts = view.hand.period.span(counted.error);
    // The two periods and the true one differ by far less than a part in a thousand.
    let lasts = Span(lasts.0 + (lasts.0 >> 10));
    Timed {
        time: reading.best,
        bound: reading.bound().map(|bound| bound + lasts),
        leaps: reading.leaps(),
        source: Source::Page,
        counted,
    }
}

/// Clock by which counts of this kind become spans: the view's for its own counter; else only the kernel's, which counts
/// nanoseconds, need no view.
fn difference(view: Option<&View>, kind: CounterKind) -> Option<DifferenceClock> {
    match view {
        Some(view) if view.read_by == ReadBy::Counter && view.hand.counter.kind == kind => {
            Some(DifferenceClock {
                period: view.hand.difference,
                error: view.hand.difference_error,
            })
        }
        _ => (kind == CounterKind::Raw)
            .then_some(DifferenceClock { period: Period::NANOSECOND, error: RAW_RATE }),
    }
}

/// Counter to stamp by for this view, and how long its counts last: its own, or the kernel's where it is a device, each
/// reading of which takes some microseconds.
fn counted_by(view: &View) -> (CounterKind, Period) {
    match view.read_by {
        ReadBy::Counter if view.hand.counter.kind != CounterKind::Raw => {
            (view.hand.counter.kind, view.hand.period)
        }
        _ => (CounterKind::Raw, Period::NANOSECOND),
    }
}

fn stamped_by(view: Option<&View>) -> Result<(CounterKind, Counter, PairLog), CounterError> {
    let (kind, period) = view.map_or((CounterKind::Raw, Period::NANOSECOND), counted_by);
    let counter = Counter::of_kind(kind)?.fenced();
    Ok((kind, counter, PairLog::new(period, resolution(counter))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_no_known_length_make_no_span() {
        let raw = DifferenceClock { period: Period::NANOSECOND, error: RAW_RATE };
        assert_eq!(difference(None, CounterKind::Raw), Some(raw));
        for kind in [CounterKind::Tsc, CounterKind::ArmGeneric] {
            assert_eq!(difference(None, kind), None);
        }
    }
}
