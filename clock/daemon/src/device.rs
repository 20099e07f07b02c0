//! A counter that is a device: what its readers have to be told.

use truechimer_counter::Counter;
use truechimer_time::{CounterKind, Period, Rate};
use truechimer_timehands::{ByRaw, Device as Said, Made};

use crate::ratio::{Pair, Ratio};

/// The counter, and the raw clock that may be made of it.
#[derive(Debug)]
pub(crate) struct Device {
    counter: Counter,
    /// `CLOCK_MONOTONIC_RAW`, if it can be read.
    raw: Option<Counter>,
    nominal: Period,
    /// The kernel's name of it.
    clocksource: &'static str,
    /// True if that is what the kernel keeps time by.
    current: bool,
    ratio: Ratio,
    /// Error bound of the ratio that readers were told last, if they were.
    said: Option<Rate>,
}

impl Device {
    /// `None` if the counter is no device: then there is nothing to tell.
    pub(crate) fn of(counter: Counter, nominal: Period) -> Option<Device> {
        let clocksource = match counter.kind() {
            CounterKind::Hpet => "hpet",
            CounterKind::AcpiPm => "acpi_pm",
            _ => return None,
        };
        let raw = Counter::of_kind(CounterKind::Raw).ok();
        let (ratio, said) = (Ratio::default(), None);
        Some(Device { counter, raw, nominal, clocksource, current: false, ratio, said })
    }

    /// Looks at device and raw clock, while the kernel keeps time by `current`.
    pub(crate) fn look(&mut self, current: Option<&str>) {
        self.current = current == Some(self.clocksource);
        match self.raw {
            Some(raw) if self.current => {
                self.ratio.learn(Pair::take(self.counter, raw), self.nominal);
            }
            _ => self.ratio.forget(),
        }
    }

    /// The counts are a row of their own from now on.
    pub(crate) fn forget(&mut self) {
        self.ratio.forget();
    }

    /// True if readers should hear of the ratio: it is known now and was not, or is twice as well;
    /// or it no longer is.
    pub(crate) fn has_news(&self) -> bool {
        news(self.said, self.ratio.error())
    }

    /// Adds to the host's clocks what the readers of this counter need.
    pub(crate) fn made(&mut self, made: Made) -> Made {
        let pair = self.raw.map(|raw| Pair::take(self.counter, raw));
        let by_raw = pair.as_ref().and_then(|pair| self.ratio.by_raw(pair));
        self.said = by_raw.map(|ByRaw { error, .. }| error);
        let device = Some(Said { bits: self.counter.bits(), by_raw });
        match pair {
            // The narrower pair: the other clocks need not be known to the microsecond.
            Some(Pair { count, raw_ns, .. }) => {
                let later = raw_ns.wrapping_sub(made.raw_ns);
                let monotonic_ns = made.monotonic_ns.wrapping_add(later);
                Made { count, raw_ns, monotonic_ns, device, ..made }
            }
            None => Made { device, ..made },
        }
    }
}

/// True if it is news that a ratio is known to within `now` where `said` was said.
fn news(said: Option<Rate>, now: Option<Rate>) -> bool {
    match (said, now) {
        (Some(said), Some(now)) => now.0 <= said.0 / 2,
        (said, now) => said.is_some() != now.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_news() {
        let ppb = |ppb| Some(Rate::from_ppb(ppb));
        assert!(!news(None, None) && !news(ppb(10), ppb(10)) && !news(ppb(10), ppb(6)));
        assert!(news(None, ppb(10)) && news(ppb(10), None) && news(ppb(10), ppb(4)));
        assert!(!news(ppb(10), ppb(90)), "worse is not known, once better was");
    }

    #[test]
    fn other_counters_have_nothing_to_tell() {
        let raw = Counter::of_kind(CounterKind::Raw).unwrap();
        assert!(Device::of(raw, Period::NANOSECOND).is_none());
    }
}
