//! Beginnings of reports: host, time, clock and command, which whoever was not there has to be told.

use truechimer::Clock;
use truechimer_report::Page;
use truechimer_time::Date;

use crate::clock::{self, look};
use crate::{program, show};

/// Clock as it was when a measurement began, for the report on it.
#[derive(Debug)]
pub struct Watch {
    clock: clock::Page,
    begin: String,
}

impl Watch {
    /// Looks at the clock now.
    #[must_use]
    pub fn begin(clock: &clock::Page) -> Watch {
        Watch { clock: clock.clone(), begin: state(clock) }
    }

    /// Looks at the machine's clock now, wherever its page usually is.
    #[must_use]
    pub fn usual() -> Watch {
        Watch::begin(&clock::Page::default())
    }

    /// State and bound then and now.
    #[must_use]
    pub fn told(&self) -> String {
        let end = state(&self.clock);
        if self.begin == end {
            return end;
        }
        format!("at the begin {}; at the end {end}", self.begin)
    }
}

/// Page with the host's name, the time since the program was started, its command and its version.
#[must_use]
pub fn page(title: &str) -> Page {
    let page = Page::new(title).version(concat!("Truechimer ", env!("CARGO_PKG_VERSION")));
    placed(page.command(&program::line()))
}

/// Adds the host's name, and the time since the program was started.
#[must_use]
pub fn placed(page: Page) -> Page {
    page.fact("host", &host()).fact("time", &between(program::begun_ns(), program::now_ns()))
}

/// Name of this host as the kernel has it; empty where it does not say.
#[must_use]
pub fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// State of the clock, and its bound where it promises one.
fn state(page: &clock::Page) -> String {
    let read = clock::open(page).and_then(|clock: Clock| look(&clock).map_err(clock::unreadable));
    let Ok((reading, _)) = read else { return "none: no clock page".to_owned() };
    match reading.bound() {
        Some(bound) => {
            let ns = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
            format!("{}, ± {}", reading.status, show::nanos(ns))
        }
        None => format!("{}, without a bound", reading.status),
    }
}

/// Two times (Unix ns) to the second, in UTC; the day of the second only where it is another.
#[must_use]
pub fn between(from_ns: i64, to_ns: i64) -> String {
    const SECOND: i64 = 1_000_000_000;
    let parts = |ns: i64| {
        let (day, second) =
            (ns.div_euclid(86_400 * SECOND), ns.rem_euclid(86_400 * SECOND) / SECOND);
        let Date { year, month, day: of_month } = Date::of(day);
        let time = format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
        (format!("{year:04}-{month:02}-{of_month:02}"), time)
    };
    let ((day, from), (last, to)) = (parts(from_ns), parts(to_ns));
    match (day == last, from == to) {
        (true, true) => format!("{day} {from} UTC"),
        (true, false) => format!("{day} {from} to {to} UTC"),
        (false, _) => format!("{day} {from} to {last} {to} UTC"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_of_time_names_its_days() {
        // 2026-11-28 23:59:50 UTC
        let zero = 1_795_910_390_000_000_000;
        let second = 1_000_000_000;
        assert_eq!(between(zero, zero), "2026-11-28 23:59:50 UTC");
        assert_eq!(between(zero, zero + 3 * second), "2026-11-28 23:59:50 to 23:59:53 UTC");
        let next = between(zero, zero + 10 * second);
        assert_eq!(next, "2026-11-28 23:59:50 to 2026-11-29 00:00:00 UTC");
    }

    #[test]
    fn a_page_says_that_no_clock_promised_anything() {
        let nowhere = clock::Page { page: Some("/nowhere/clock".into()) };
        let page = page("t").fact("clock", &Watch::begin(&nowhere).told()).render();
        assert!(page.contains("<dt>clock</dt><dd>none: no clock page</dd>"));
        assert!(page.contains("<dt>host</dt>") && page.contains(" UTC</dd>"));
    }
}
