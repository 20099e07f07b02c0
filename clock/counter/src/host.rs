//! The host's own clocks, read against a counter.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use truechimer_time::{Count, CountSpan};

use crate::counter::Counter;
use crate::read;

/// Number of tries of [`host_reading`]: enough to miss an interrupt, few enough to take 1 µs.
const TRIES: u32 = 5;

/// Says, unless empty or `0`, that this process's clocks are simulated.
const SIMULATED: &str = "TRUECHIMER_SIMULATED_CLOCKS";
/// Part of the file name of a library that simulates clocks.
const SIMULATOR: &str = "clknetsim";

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

    /// Counts that reading `CLOCK_REALTIME` took: its count is known to ± half of this.
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
    /// Counts that the whole reading took.
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

/// A pair of `CLOCK_MONOTONIC_RAW` in the place of both clocks, which nobody steps or slews: else as [`realtime_pair`].
#[must_use]
pub fn raw_pair(counter: Counter, tries: u32) -> HostPair {
    let counter = counter.fenced();
    let take = || {
        let before = counter.read();
        let ns = read::clock(libc::CLOCK_MONOTONIC_RAW).unwrap_or(0);
        let after = counter.read();
        HostPair { before, unix_ns: ns, after, monotonic_ns: ns, end: after }
    };
    narrowest(tries, take, HostPair::width)
}

/// The host's clocks together, the narrowest of a few readings: under 1 µs.
///
/// A clock simulator ends a program that asks for a clock it does not have. Inside one
/// `CLOCK_BOOTTIME` is left alone and `suspended_ns` is 0: a suspend does not show. The process is
/// taken to be inside one if `LD_PRELOAD` names a library with `clknetsim` in its file name, or if
/// `TRUECHIMER_SIMULATED_CLOCKS` is set to anything but nothing or `0`; both are looked at once,
/// and neither in a program with more rights than whoever started it. Other preloads change
/// nothing.
#[must_use]
pub fn host_reading(counter: Counter) -> HostReading {
    let counter = counter.fenced();
    let simulated = is_simulated();
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

/// True if this process's clocks are simulated, as [`host_reading`] has it: looked at once.
#[must_use]
pub fn is_simulated() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        !read::is_privileged() && simulated(env::var_os("LD_PRELOAD"), env::var_os(SIMULATED))
    })
}

/// Judges it by the two variables.
fn simulated(preload: Option<OsString>, declared: Option<OsString>) -> bool {
    let is_simulator = |library: &[u8]| {
        let name = Path::new(OsStr::from_bytes(library)).file_name().unwrap_or_default();
        name.as_bytes().windows(SIMULATOR.len()).any(|part| part == SIMULATOR.as_bytes())
    };
    declared.is_some_and(|value| !value.is_empty() && value != "0")
        || preload.is_some_and(|list| {
            // As ld.so(8) has it, separated by spaces or colons.
            list.as_bytes().split(|byte| b" :".contains(byte)).any(is_simulator)
        })
}

/// Result of `take` with the least width that is not negative.
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
    fn only_a_clock_simulator_is_one() {
        let ask = |preload: Option<&str>, declared: Option<&str>| {
            simulated(preload.map(OsString::from), declared.map(OsString::from))
        };
        for preload in [None, Some(""), Some("/lib/libjemalloc.so.2"), Some("/clknetsim/liba.so")] {
            assert!(!ask(preload, None), "{preload:?}");
            assert!(!ask(preload, Some("")) && !ask(preload, Some("0")), "{preload:?}");
            assert!(ask(preload, Some("1")), "{preload:?}");
        }
        for preload in ["clknetsim.so", "./liba.so:../clknetsim.so.1", "/a.so /b/libclknetsim.so"] {
            assert!(ask(Some(preload), None) && ask(Some(preload), Some("0")), "{preload}");
        }
    }

    #[test]
    fn pairs_are_ordered_and_advance() {
        let counter = Counter::open(Choice::Auto).unwrap();
        let a = realtime_pair(counter, 8);
        let b = realtime_pair(counter, 8);
        let raw = raw_pair(counter, 8);
        assert!(raw.before.at_or_after(b.end) && raw.after.at_or_after(raw.before));
        assert_eq!((raw.unix_ns, raw.end), (raw.monotonic_ns, raw.after));
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
