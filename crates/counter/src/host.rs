//! The host's own clocks, read against a counter.

use std::env;

use truechimer_time::{Count, CountSpan, CounterKind};

use crate::counter::Counter;
use crate::read;

/// How often [`host_reading`] tries: enough to miss an interrupt, few enough to take 1 µs.
const TRIES: u32 = 5;

/// `CLOCK_REALTIME` between two readings of a counter, and `CLOCK_MONOTONIC` right after.
///
/// The clock read `unix_ns` at some count from `before` to `after`. `CLOCK_MONOTONIC` was read
/// from `after` to `end`: the two clocks are slewed alike but only the first is ever stepped, so
/// the change of their difference from pair to pair tells a step from a slew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostPair {
    /// The count before.
    pub before: Count,
    /// `CLOCK_REALTIME`: Unix time in ns.
    pub unix_ns: i64,
    /// The count after; not earlier than `before` unless the counter is at fault.
    pub after: Count,
    /// `CLOCK_MONOTONIC` in ns.
    pub monotonic_ns: i64,
    /// The count after that.
    pub end: Count,
}

impl HostPair {
    /// The count half-way between `before` and `after`: the best guess for `unix_ns`.
    #[must_use]
    pub fn mid(&self) -> Count {
        self.before.midpoint(self.after)
    }

    /// How long reading `CLOCK_REALTIME` took: its count is known to ± half of this.
    #[must_use]
    pub fn width(&self) -> CountSpan {
        self.after - self.before
    }
}

/// The host's clocks at one count, each within `width` of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostReading {
    /// The count.
    pub count: Count,
    /// `CLOCK_MONOTONIC_RAW` in ns: the clocksource as it runs.
    pub raw_ns: i64,
    /// Time spent suspended since boot in ns (`CLOCK_BOOTTIME` − `CLOCK_MONOTONIC`), ± the time
    /// that reading took; 0 where the host does not say.
    pub suspended_ns: i64,
    /// `CLOCK_MONOTONIC` in ns: slewed, never stepped, stopped in suspend.
    pub monotonic_ns: i64,
    /// How long the whole reading took, in counts.
    pub width: CountSpan,
}

/// The narrowest of `tries` pairs (at least one is made): about 0.1 µs each. Reads are fenced
/// whatever the counter's own choice is.
#[must_use]
pub fn realtime_pair(counter: Counter, tries: u32) -> HostPair {
    let counter = counter.fenced();
    let take = || {
        let before = counter.read();
        let unix_ns = read::clock(libc::CLOCK_REALTIME).unwrap_or(0);
        let after = counter.read();
        let monotonic_ns = read::clock(libc::CLOCK_MONOTONIC).unwrap_or(0);
        HostPair { before, unix_ns, after, monotonic_ns, end: counter.read() }
    };
    narrowest(tries, take, |pair| pair.end - pair.before)
}

/// The host's clocks together, the narrowest of a few readings: under 1 µs.
///
/// If the counter is `raw` and `LD_PRELOAD` is set, the process may be inside a clock simulator,
/// and those end a program that asks for a clock they do not have. `CLOCK_BOOTTIME` is then left
/// alone and `suspended_ns` is 0: a suspend does not show.
#[must_use]
pub fn host_reading(counter: Counter) -> HostReading {
    let counter = counter.fenced();
    let simulated = counter.kind() == CounterKind::Raw && env::var_os("LD_PRELOAD").is_some();
    let take = || {
        let before = counter.read();
        let monotonic = read::clock(libc::CLOCK_MONOTONIC).unwrap_or(0);
        let raw_ns = read::clock(libc::CLOCK_MONOTONIC_RAW).unwrap_or(0);
        let boot = if simulated { None } else { read::clock(libc::CLOCK_BOOTTIME).ok() };
        let again = read::clock(libc::CLOCK_MONOTONIC).unwrap_or(0);
        let after = counter.read();
        // Half-way between its two readings, as `raw_ns` and `boot` are on either side of it.
        let monotonic_ns = monotonic.wrapping_add(again.wrapping_sub(monotonic) / 2);
        HostReading {
            count: before.midpoint(after),
            raw_ns,
            suspended_ns: boot.map_or(0, |boot| boot.wrapping_sub(monotonic_ns)),
            monotonic_ns,
            width: after - before,
        }
    };
    narrowest(TRIES, take, |reading| reading.width)
}

/// What `take` gives with the least width that is not negative.
fn narrowest<T>(tries: u32, take: impl Fn() -> T, width: impl Fn(&T) -> CountSpan) -> T {
    // As an unsigned number a negative width, a counter going backwards, is the widest of all.
    let rank = |value: &T| width(value).0 as u64;
    let mut best = take();
    for _ in 1..tries {
        let next = take();
        if rank(&next) < rank(&best) {
            best = next;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Choice;
    use std::cell::Cell;

    #[test]
    fn the_narrowest_wins_and_a_negative_one_loses() {
        let widths = [90, -5, 40, 60];
        let next = Cell::new(0);
        let take = || widths[next.replace(next.get() + 1)];
        assert_eq!(narrowest(4, take, |w| CountSpan(*w)), 40);
        next.set(0);
        assert_eq!(narrowest(0, take, |w| CountSpan(*w)), 90);
    }

    #[test]
    fn pairs_are_ordered_and_advance() {
        let counter = Counter::open(Choice::Auto).unwrap();
        let a = realtime_pair(counter, 8);
        let b = realtime_pair(counter, 8);
        for pair in [a, b] {
            assert!(pair.width().0 >= 0 && pair.end.at_or_after(pair.after));
            assert!(pair.mid().at_or_after(pair.before) && pair.after.at_or_after(pair.mid()));
        }
        assert!(b.before.at_or_after(a.end));
        assert!(b.monotonic_ns >= a.monotonic_ns);
    }

    #[test]
    fn the_hosts_clocks_go_together() {
        let counter = Counter::open(Choice::Raw).unwrap();
        let reading = host_reading(counter);
        let apart = (reading.count.0 as i64).wrapping_sub(reading.raw_ns).abs();
        assert!(apart <= reading.width.0, "{apart} ns, width {:?}", reading.width);
        assert!(reading.suspended_ns > -1_000_000);
    }
}
