//! Scales of time that are known without a clock under test, by name.

use std::str::FromStr;
use std::sync::OnceLock;

use truechimer_counter::{Choice, Counter};
use truechimer_time::Count;

use crate::truth::{Truth, raw_ns};

/// A time that is a straight line over `CLOCK_MONOTONIC_RAW`: nothing that is done to the system
/// clock moves it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// Unix time when the raw clock shows 0, ns.
    pub unix_ns: i64,
    /// Gain on the raw clock, parts in 10⁹.
    pub ppb: i64,
    /// The Unix second before which a leap second is inserted, if one is.
    pub leap: Option<i64>,
}

impl Line {
    /// The Unix time when the raw clock shows `raw_ns`. In an inserted leap second it repeats the
    /// second before, as the kernel does.
    #[must_use]
    pub fn unix_ns(&self, raw_ns: i64) -> i64 {
        let gained = (i128::from(raw_ns) * i128::from(self.ppb)).div_euclid(1_000_000_000);
        let smooth = self.unix_ns.saturating_add(raw_ns).saturating_add(gained as i64);
        if self.leap.is_some_and(|at| smooth >= at.saturating_mul(1_000_000_000)) {
            smooth - 1_000_000_000
        } else {
            smooth
        }
    }

    /// True if its leap second lies within the day to come.
    #[must_use]
    pub fn leap_announced(&self, unix_ns: i64) -> bool {
        self.leap.is_some_and(|at| (1..=86_400).contains(&(at - unix_ns.div_euclid(1_000_000_000))))
    }
}

impl FromStr for Line {
    type Err = String;

    /// `UNIX_S`, `UNIX_S+PPB`, `UNIX_S-PPB`, each with `,leap=UNIX_S` if there is one.
    fn from_str(text: &str) -> Result<Line, String> {
        let wrong = || {
            format!("`{text}` is no line: wanted UNIX_S[+PPB|-PPB][,leap=UNIX_S], whole numbers")
        };
        let number = |text: &str| text.parse::<i64>().map_err(|_| wrong());
        let (line, leap) = match text.split_once(",leap=") {
            Some((line, leap)) => (line, Some(number(leap)?)),
            None => (text, None),
        };
        let sign = line.rfind(['+', '-']).filter(|at| *at > 0);
        let (base, rate) = line.split_at(sign.unwrap_or(line.len()));
        let ppb = if rate.is_empty() { 0 } else { number(rate)? };
        let unix_ns = number(base)?.checked_mul(1_000_000_000).ok_or_else(wrong)?;
        Ok(Line { unix_ns, ppb, leap })
    }
}

/// A time that is a straight line over a counter, through two points of it: in a virtual machine, its host's over the TSC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CountLine {
    /// A count, and Unix time then, ns.
    pub first: (i64, i64),
    /// A later one.
    pub second: (i64, i64),
}

impl CountLine {
    /// The Unix time at that count.
    #[must_use]
    pub fn unix_ns(&self, count: i64) -> i64 {
        let wide = |from: i64, to: i64| i128::from(to) - i128::from(from);
        let per = (wide(self.first.1, self.second.1), wide(self.first.0, self.second.0));
        let since = wide(self.first.0, count);
        self.first.1.saturating_add((since * per.0).div_euclid(per.1) as i64)
    }
}

impl FromStr for CountLine {
    type Err = String;

    /// `COUNT=UNIX_NS,COUNT=UNIX_NS`.
    fn from_str(text: &str) -> Result<CountLine, String> {
        let point = |text: &str| {
            let (count, unix_ns) = text.split_once('=')?;
            Some((count.parse().ok()?, unix_ns.parse().ok()?))
        };
        text.split_once(',')
            .and_then(|(first, second)| {
                Some(CountLine { first: point(first)?, second: point(second)? })
            })
            .filter(|line| line.second.0 > line.first.0)
            .ok_or_else(|| {
                format!(
                    "`{text}` is no line: wanted COUNT=UNIX_NS,COUNT=UNIX_NS, the earlier first"
                )
            })
    }
}

/// The TSC's count now.
fn tsc() -> i64 {
    static TSC: OnceLock<Counter> = OnceLock::new();
    let open =
        || Counter::open(Choice::Tsc { fenced: true }).expect("the kernel vouches for the TSC");
    TSC.get_or_init(open).read().0 as i64
}

/// Reference that a clock is held against.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Reference {
    /// A time made of the system clock.
    System(Truth),
    /// A time of its own.
    Line(Line),
    /// One over the TSC.
    Tsc(CountLine),
    /// One over the counter of the clock itself, which is the TSC: known at the very count of each reading.
    Count(CountLine),
}

impl Reference {
    /// Unix time now, ns.
    #[must_use]
    pub fn now_ns(&self) -> i64 {
        match self {
            Reference::System(truth) => truth.now_ns(),
            Reference::Line(line) => line.unix_ns(raw_ns()),
            Reference::Tsc(line) | Reference::Count(line) => line.unix_ns(tsc()),
        }
    }

    /// Unix time at this count of the clock's counter, ns, if it is known.
    #[must_use]
    pub fn at_ns(&self, count: Count) -> Option<i64> {
        match self {
            Reference::Count(line) => Some(line.unix_ns(count.0 as i64)),
            _ => None,
        }
    }
}

impl FromStr for Reference {
    type Err = String;

    /// `system`, `line:` and a [`Line`], `tsc:` or `count:` and a [`CountLine`].
    fn from_str(text: &str) -> Result<Reference, String> {
        match text.split_once(':') {
            Some(("line", line)) => line.parse().map(Reference::Line),
            Some(("tsc", line)) => line.parse().map(Reference::Tsc),
            Some(("count", line)) => line.parse().map(Reference::Count),
            None if text == "system" => Ok(Reference::System(Truth::host())),
            _ => Err(format!(
                "`{text}` is no reference: wanted `system`, `line:…`, `tsc:…` or `count:…`"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_gains_by_its_rate_and_repeats_the_leap_second() {
        let line: Line = "100-500,leap=103".parse().unwrap();
        assert_eq!(line, Line { unix_ns: 100_000_000_000, ppb: -500, leap: Some(103) });
        assert_eq!(line.unix_ns(2_000_000_000), 102_000_000_000 - 1_000);
        assert_eq!(line.unix_ns(3_000_001_502), 102_000_000_001);
        assert!(line.leap_announced(102_999_999_999) && !line.leap_announced(103_000_000_000));
    }

    #[test]
    fn a_line_over_counts_goes_through_its_points() {
        let line: CountLine = "-1000=7000,3000=9000".parse().unwrap();
        assert_eq!(
            [-1000, -999, 3000, 5001].map(|at| line.unix_ns(at)),
            [7000, 7000, 9000, 10_000]
        );
        let reference: Reference = "count:-1000=7000,3000=9000".parse().unwrap();
        assert_eq!(reference.at_ns(Count(1000)), Some(8000));
        for text in ["", "1=2", "1=2,1=3", "2=2,1=3", "1=2,3", "1=2,3=x"] {
            assert!(text.parse::<CountLine>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_line_is_refused() {
        for text in ["", "x", "1+", "1+x", "1,leap=", "9223372036854775807", "--1"] {
            assert!(text.parse::<Line>().is_err(), "{text}");
        }
        assert!("lines:1".parse::<Reference>().is_err());
        assert_eq!("system".parse(), Ok(Reference::System(Truth::host())));
        assert_eq!(
            "line:-7+3".parse::<Reference>().map(|r| matches!(r, Reference::Line(_))),
            Ok(true)
        );
    }
}
