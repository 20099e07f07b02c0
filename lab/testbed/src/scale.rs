//! Scales of time that are known without a clock under test, by name.

use std::str::FromStr;

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

/// Reference that a clock is held against.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Reference {
    /// A time made of the system clock.
    System(Truth),
    /// A time of its own.
    Line(Line),
}

impl Reference {
    /// Unix time now, ns.
    #[must_use]
    pub fn now_ns(&self) -> i64 {
        match self {
            Reference::System(truth) => truth.now_ns(),
            Reference::Line(line) => line.unix_ns(raw_ns()),
        }
    }
}

impl FromStr for Reference {
    type Err = String;

    /// `system`, or `line:` and a [`Line`].
    fn from_str(text: &str) -> Result<Reference, String> {
        match text.strip_prefix("line:") {
            Some(line) => line.parse().map(Reference::Line),
            None if text == "system" => Ok(Reference::System(Truth::host())),
            None => Err(format!("`{text}` is no reference: wanted `system` or `line:…`")),
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
