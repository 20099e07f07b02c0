//! One moment, by the machine's counter and clocks.

use truechimer_counter::{Choice, Counter, realtime_pair};
use truechimer_outcome::outcome::Failure;
use truechimer_time::{Count, CountSpan};

/// Number of readings of the clocks at a moment, for one that nothing came between.
const TRIES: u32 = 8;

/// The counters by which all clocks are read.
#[derive(Clone, Copy, Debug)]
pub struct Counters {
    /// Counter of the daemon and of ClockBound.
    pub native: Counter,
    /// `CLOCK_MONOTONIC_RAW`.
    raw: Counter,
    /// Length of a native count, ns: only used over some milliseconds.
    pub ns_per_count: f64,
}

/// A moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Moment {
    /// The native counter.
    pub count: Count,
    /// `CLOCK_MONOTONIC_RAW` at that count, ns.
    pub raw_ns: i64,
    /// `CLOCK_REALTIME` at that count, ns.
    pub realtime_ns: i64,
    /// By how much the count of the raw clock may be off, ns.
    pub width_ns: f64,
}

impl Counters {
    /// Opens them; takes a tenth of a second.
    ///
    /// # Errors
    /// Where they cannot be read.
    pub fn open() -> Result<Counters, Failure> {
        let open =
            |choice| Counter::open(choice).map_err(|why| Failure::of("reading a counter", why));
        let (native, raw) = (open(Choice::Auto)?.fenced(), open(Choice::Raw)?);
        let mut counters = Counters { native, raw, ns_per_count: 0.0 };
        let first = counters.raw_pair();
        std::thread::sleep(std::time::Duration::from_millis(100));
        let last = counters.raw_pair();
        counters.ns_per_count = (last.1 - first.1) as f64 / (last.0 - first.0).0 as f64;
        Ok(counters)
    }

    /// `CLOCK_MONOTONIC_RAW` now, ns.
    #[must_use]
    pub fn raw_ns(&self) -> i64 {
        self.raw.read().0 as i64
    }

    /// The native count and the raw clock then, and how many counts reading that took: the
    /// narrowest of several readings.
    fn raw_pair(&self) -> (Count, i64, CountSpan) {
        let take = |_| {
            let before = self.native.read();
            let raw = self.raw_ns();
            let after = self.native.read();
            (before.midpoint(after), raw, after - before)
        };
        (1..TRIES).map(take).fold(take(0), |best, next| if next.2 < best.2 { next } else { best })
    }

    /// A span of counts, ns.
    #[must_use]
    pub fn ns(&self, span: CountSpan) -> f64 {
        span.0 as f64 * self.ns_per_count
    }

    /// All clocks now. Everything is referred to one count; between the clocks lie some µs.
    #[must_use]
    pub fn now(&self) -> Moment {
        let pair = realtime_pair(self.native, TRIES);
        let (count, raw_ns, width) = self.raw_pair();
        let later = self.ns(count - pair.mid());
        Moment {
            count,
            raw_ns,
            realtime_ns: pair.unix_ns + later.round() as i64,
            width_ns: self.ns(width),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_agree_between_moments() {
        let counters = Counters::open().unwrap();
        let first = counters.now();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let last = counters.now();
        let raw = last.raw_ns - first.raw_ns;
        let counted = counters.ns(last.count - first.count);
        assert!(raw >= 20_000_000);
        // Both are the same oscillator; a calibration over 100 ms is good to parts in 10⁴.
        assert!((raw as f64 - counted).abs() < raw as f64 * 1e-3, "{raw} {counted}");
    }
}
