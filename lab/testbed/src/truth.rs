//! True time, known without any clock under test.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use truechimer_counter::{Choice, Counter};

/// The time that a server on this machine serves: the host's system clock, perhaps with an offset
/// and a skew.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Truth {
    /// Ahead of the system clock by this at the origin, ns.
    pub offset_ns: i64,
    /// Gains this on the system clock, in parts per 10⁹.
    pub skew_ppb: f64,
    /// `CLOCK_MONOTONIC_RAW` at the origin, ns.
    pub origin_raw_ns: i64,
}

impl Truth {
    /// The system clock itself, as chronyd serves it.
    #[must_use]
    pub fn host() -> Truth {
        Truth::default()
    }

    /// Unix time now, ns.
    #[must_use]
    pub fn now_ns(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let system = i64::try_from(since.as_nanos()).expect("before 2262");
        if *self == Truth::host() {
            return system;
        }
        let gained = (raw_ns() - self.origin_raw_ns) as f64 * self.skew_ppb / 1e9;
        system + self.offset_ns + gained.round() as i64
    }
}

/// `CLOCK_MONOTONIC_RAW`, ns.
#[must_use]
pub fn raw_ns() -> i64 {
    static RAW: OnceLock<Counter> = OnceLock::new();
    let raw = RAW.get_or_init(|| Counter::open(Choice::Raw).expect("the kernel has a raw clock"));
    raw.read().0 as i64
}
