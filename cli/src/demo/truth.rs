//! The truth about a clock that follows a server of our own.

use truechimer_counter::{Counter, host_reading};
use truechimer_serve::{Sandwich, ServedClock};
use truechimer_time::{Count, CountSpan, Period, Rate, Span};

/// Time that the server shows, known without asking it over the network.
#[derive(Clone, Copy, Debug)]
pub struct Truth {
    served: ServedClock,
    counter: Counter,
    start: Moment,
}

/// The served time and the raw clock, each at a count.
#[derive(Clone, Copy, Debug)]
struct Moment {
    served: (Count, i64),
    raw: (Count, i64),
}

/// Rates of clocks against the host's `CLOCK_MONOTONIC_RAW`, averaged since the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rates {
    /// The clock in question.
    pub clock: Rate,
    /// The server.
    pub server: Rate,
    /// The clock against the server: positive, it gains.
    pub error: Rate,
}

impl Truth {
    /// Rates are averaged from now on.
    pub fn new(served: ServedClock, counter: Counter) -> Truth {
        Truth { served, counter, start: Moment::now(served, counter) }
    }

    /// The served time between two counts, now.
    pub fn sandwich(&self) -> Sandwich {
        self.served.sandwich(self.counter)
    }

    /// The rates of a clock whose counts last `period`, and of the server. They are good to some
    /// 100 ns of reading error over the time since the beginning; `None` at the beginning itself.
    pub fn rates(&self, period: Period) -> Option<Rates> {
        let now = Moment::now(self.served, self.counter);
        let server = lasting(self.start.served, now.served)?;
        let raw = lasting(self.start.raw, now.raw)?;
        Some(Rates {
            clock: period.relative_to(raw),
            server: server.relative_to(raw),
            error: period.relative_to(server),
        })
    }
}

impl Moment {
    fn now(served: ServedClock, counter: Counter) -> Moment {
        let sandwich = served.sandwich(counter);
        let host = host_reading(counter);
        Moment { served: (sandwich.count(), sandwich.unix_ns), raw: (host.count, host.raw_ns) }
    }
}

/// Length of a count between two readings (count, ns) of the same clock.
fn lasting(from: (Count, i64), to: (Count, i64)) -> Option<Period> {
    let counts: CountSpan = to.0 - from.0;
    Period::from_ratio(Span::from_nanos(to.1.checked_sub(from.1)?), counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_counter::Choice;

    #[test]
    fn a_clock_with_the_servers_period_has_no_rate_error() {
        let counter = Counter::open(Choice::Raw).unwrap();
        let served =
            ServedClock::starting_now(Span::from_secs(1), Rate::from_ppb(400_000_000)).unwrap();
        let truth = Truth::new(served, counter);
        std::thread::sleep(std::time::Duration::from_millis(50));
        // The raw counter's own period is 1 ns: the server gains 40 % on it.
        let rates = truth.rates(Period::NANOSECOND).unwrap();
        assert!(rates.clock.as_ppt().abs() < 100_000_000, "{rates:?}");
        assert!((rates.server.as_ppt() - 400_000_000_000).abs() < 1_000_000_000, "{rates:?}");
        assert!(rates.error < Rate::from_ppb(-280_000_000), "{rates:?}");
        let followed = Period::NANOSECOND.scaled(Rate::from_ppb(400_000_000));
        assert!(truth.rates(followed).unwrap().error.as_ppt().abs() < 1_000_000_000);
    }
}
