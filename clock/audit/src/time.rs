//! Times as the record has them: UTC in nanoseconds, written by RFC 3339.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use truechimer_time::Date;

const SECOND_NS: i64 = 1_000_000_000;
const DAY_S: i64 = 86_400;

/// UTC as Unix time, ns. An inserted leap second is the second after it once more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Time(pub i64);

impl Time {
    /// Midnight at which the day of this time began.
    #[must_use]
    pub fn midnight(self) -> Time {
        Time(self.0.saturating_sub(self.0.rem_euclid(DAY_S * SECOND_NS)))
    }

    /// A time so many days later, or earlier if negative.
    #[must_use]
    pub fn plus_days(self, days: i64) -> Time {
        Time(self.0.saturating_add(days.saturating_mul(DAY_S * SECOND_NS)))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, ns) = (self.0.div_euclid(SECOND_NS), self.0.rem_euclid(SECOND_NS));
        let Date { year, month, day } = Date::of(seconds.div_euclid(DAY_S));
        let s = seconds.rem_euclid(DAY_S);
        let (hour, minute, second) = (s / 3600, s / 60 % 60, s % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ns:09}Z")
    }
}

impl FromStr for Time {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Time, &'static str> {
        parse_time(text)
    }
}

/// A time in UTC, as far as it is written out: `2026-11-27`, `2026-11-27T09:30`,
/// `2026-11-27T09:30:00.5Z`; a space may stand in place of the T, and the Z may be missing.
///
/// # Errors
/// If it is none, or not between the years 1678 and 2261.
pub fn parse_time(text: &str) -> Result<Time, &'static str> {
    parsed(text).ok_or(
        "must be a time in UTC, as in 2026-11-27, 2026-11-27T09:30 or 2026-11-27T09:30:00.5Z",
    )
}

fn parsed(text: &str) -> Option<Time> {
    let (date, clock) = match text.split_once(['T', ' ']) {
        Some((date, clock)) => (date, clock.strip_suffix('Z').unwrap_or(clock)),
        None => (text, "00:00"),
    };
    let mut parts = date.split('-');
    let (year, month, day) =
        (number(parts.next()?, 4)?, number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    if parts.next().is_some() {
        return None;
    }
    let date = Date { year, month, day };
    if !(1..=12).contains(&month) || day < 1 || Date::of(date.days()) != date {
        return None;
    }
    let mut parts = clock.split(':');
    let (hour, minute) = (number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let (second, ns) = match parts.next() {
        None => (0, 0),
        Some(text) => match text.split_once('.') {
            None => (number(text, 2)?, 0),
            Some((second, fraction)) => (number(second, 2)?, fraction_ns(fraction)?),
        },
    };
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds =
        date.days().checked_mul(DAY_S)?.checked_add(hour * 3600 + minute * 60 + second)?;
    Some(Time(seconds.checked_mul(SECOND_NS)?.checked_add(ns)?))
}

/// Exactly so many digits.
fn number(text: &str, digits: usize) -> Option<i64> {
    let all = text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
    if all { text.parse().ok() } else { None }
}

fn fraction_ns(text: &str) -> Option<i64> {
    let good = (1..=9).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if good { format!("{text:0<9}").parse().ok() } else { None }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_read_as_far_as_they_are_written() {
        let day = 1_795_737_600;
        for (text, s, ns) in [
            ("2026-11-27", 0, 0),
            ("2026-11-27T09:30", 34_200, 0),
            ("2026-11-27 09:30:01", 34_201, 0),
            ("2026-11-27T09:30:01.5Z", 34_201, 500_000_000),
        ] {
            assert_eq!(parse_time(text), Ok(Time((day + s) * SECOND_NS + ns)), "{text}");
        }
        for text in [
            "",
            "2026",
            "2026-13-01",
            "2026-02-30",
            "2026-11-27T24:00",
            "2026-11-27T1:00",
            "2026-11-27T09:30:00.",
            "2026-11-27T09:30:00.1234567890",
            "9999-01-01",
            "+026-11-27",
        ] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_time_is_read_as_it_was_written(ns in -8_000_000_000_000_000_000i64..9_000_000_000_000_000_000) {
            prop_assert_eq!(Time(ns).to_string().parse(), Ok(Time(ns)));
        }
    }
}
