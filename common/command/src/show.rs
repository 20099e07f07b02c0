//! Times and spans as people read them.

use std::io::{self, Write};

use serde::Serialize;
use truechimer_time::{Date, Instant, Rate, Span, Utc};

use crate::Failure;

/// The width of an ordinary terminal.
const WIDTH: usize = 80;

/// RFC 3339 with nanoseconds, rounded down; second 60 within an inserted leap second.
pub fn utc(utc: Utc) -> String {
    let nanos = utc.unix_nanos().rem_euclid(1_000_000_000);
    civil(utc.unix, nanos, utc.leap_second) + "Z"
}

/// This form for TAI, which has no zone designator.
pub fn tai(instant: Instant) -> String {
    let nanos = (u128::from(instant.frac()) * 1_000_000_000) >> 64;
    civil(instant.secs(), nanos as i128, false)
}

fn civil(secs: i64, nanos: i128, leap_second: bool) -> String {
    let (days, second) = (secs.div_euclid(86_400), secs.rem_euclid(86_400));
    let Date { year, month, day } = Date::of(days);
    if !(0..=9999).contains(&year) {
        // No calendar to show it in.
        return format!("@{secs}.{nanos:09}");
    }
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let second = if leap_second { 60 } else { second % 60 };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}")
}

/// A span in the unit that fits, to three decimals; `-` where there is none.
pub fn optional(span: Option<Span>) -> String {
    span.map_or_else(|| "-".into(), |span| span.to_string())
}

/// Whole nanoseconds in the unit that fits, without decimals that say nothing: `148 ns`, `8.2 µs`.
pub fn nanos(ns: u64) -> String {
    let text = Span::from_nanos_wide(i128::from(ns)).to_string();
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

/// A number with its noun, which has this form for one and that for more.
pub fn many(n: u64, one: &str, more: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { more })
}

/// Text for an age or a length of time, to the nearest unit that people count in.
pub fn age(span: Span) -> String {
    let ms = span.as_nanos() / 1_000_000;
    let s = ms / 1000;
    match s {
        ..0 => span.to_string(),
        0..10 => format!("{}.{} s", s, ms % 1000 / 100),
        10..120 => format!("{s} s"),
        120..7200 => format!("{} min", s / 60),
        7200..172_800 => format!("{} h", s / 3600),
        _ => format!("{} d", s / 86_400),
    }
}

/// A rate in parts per 10⁹, for JSON: exact to the third decimal.
pub fn ppb(rate: Rate) -> f64 {
    rate.as_ppt() as f64 / 1000.0
}

/// One line of JSON.
pub fn json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|why| Failure::new("JSON", why))
}

/// Words of the system, less the number in it, which means nothing to people: of
/// `Connection refused (os error 111)` the first two words.
pub fn plain(text: &str) -> String {
    let mut rest = text;
    let mut plain = String::with_capacity(text.len());
    while let Some((before, after)) = rest.split_once(" (os error ") {
        plain.push_str(before);
        match after.split_once(')') {
            Some((number, after)) if number.bytes().all(|b| b.is_ascii_digit()) => rest = after,
            _ => {
                plain.push_str(" (os error ");
                rest = after;
            }
        }
    }
    plain + rest
}

/// Hertz in the unit that fits.
pub fn frequency(hz: u64) -> String {
    match hz {
        0..1_000 => format!("{hz} Hz"),
        1_000..1_000_000 => format!("{}.{:03} kHz", hz / 1_000, hz % 1_000),
        1_000_000..1_000_000_000 => {
            format!("{}.{:03} MHz", hz / 1_000_000, hz / 1_000 % 1_000)
        }
        _ => format!("{}.{:06} GHz", hz / 1_000_000_000, hz / 1_000 % 1_000_000),
    }
}

/// Rounded up to the whole nanosecond: for the latest end of an interval.
pub fn round_up(instant: Instant) -> Instant {
    instant + (Span::from_nanos(1) - Span(1))
}

/// A text in lines of up to 80 columns, all but the first indented.
pub fn wrapped(text: &str, indent: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut line = String::new();
    for word in text.split(' ') {
        let begun = !line.trim_start().is_empty();
        if begun && line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(out, "{line}")?;
            line = indent.to_owned();
        } else if begun {
            line.push(' ');
        }
        line.push_str(word);
    }
    writeln!(out, "{line}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_time::{Leap, Leaps};

    #[test]
    fn a_leap_second_is_shown_as_such() {
        let leaps = Leaps {
            tai_offset: 36,
            known: true,
            last: None,
            next: Some(Leap { at: 1_483_228_800 + 37, step: 1 }),
        };
        let half = 1 << 63;
        let at = |s: i64| utc(leaps.utc(Instant::new(1_483_228_800 + s, half)));
        assert_eq!(at(35), "2016-12-31T23:59:59.500000000Z");
        assert_eq!(at(36), "2016-12-31T23:59:60.500000000Z");
        assert_eq!(at(37), "2017-01-01T00:00:00.500000000Z");
        assert_eq!(tai(Instant::new(1_483_228_800 + 37, half)), "2017-01-01T00:00:37.500000000");
    }

    #[test]
    fn times_out_of_any_calendar_are_still_shown() {
        for instant in [Instant(i128::MAX), Instant(i128::MIN)] {
            assert!(utc(Leaps::default().utc(instant)).contains('.'));
            assert!(tai(instant).starts_with('@'));
        }
        assert_eq!(
            utc(Leaps::default().utc(Instant::new(-1, 0))),
            "1969-12-31T23:59:59.000000000Z"
        );
    }

    #[test]
    fn ages_read_well() {
        for (ms, text) in [
            (0, "0.0 s"),
            (1_250, "1.2 s"),
            (59_999, "59 s"),
            (3_600_000, "60 min"),
            (86_400_000, "24 h"),
            (864_000_000, "10 d"),
        ] {
            assert_eq!(age(Span::from_millis(ms)), text);
        }
    }

    #[test]
    fn what_the_system_says_is_made_plain() {
        for (text, shown) in [
            ("a: Connection refused (os error 111), says b", "a: Connection refused, says b"),
            ("x (os error 2) and y (os error 13)", "x and y"),
            ("(os error 2)", "(os error 2)"),
            ("x (os error no) y (os error ", "x (os error no) y (os error "),
        ] {
            assert_eq!(plain(text), shown);
        }
    }

    #[test]
    fn frequencies_read_well() {
        assert_eq!(frequency(2_596_123_456), "2.596123 GHz");
        assert_eq!(frequency(24_000_000), "24.000 MHz");
        assert_eq!(frequency(50), "50 Hz");
    }

    #[test]
    fn the_latest_end_rounds_up() {
        let fine = Instant::from_nanos(5) + Span(1);
        assert_eq!(round_up(fine).as_nanos(), 6);
        let exact = Instant::new(7, 0);
        assert_eq!(utc(Leaps::default().utc(round_up(exact))), "1970-01-01T00:00:07.000000000Z");
    }
}
