//! The line of a plain file: `SECONDS.NANOSECONDS#SEQUENCE`, as sysfs writes it.

use std::fmt;

use super::{Edge, LONGEST};

/// Fault of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineError {
    /// Newline missing at the end within the length that a line can have.
    NoNewline,
    /// Something follows the line.
    More,
    /// There is no `.` or no `#` where one belongs.
    NoMark(char),
    /// The seconds are not a whole number of at least 0, or beyond the year 2262.
    Seconds,
    /// The nanoseconds are not nine digits.
    Nanoseconds,
    /// The sequence is not a whole number of 32 bits.
    Sequence,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LineError::NoNewline => f.write_str("no end of line"),
            LineError::More => f.write_str("more than one line"),
            LineError::NoMark(mark) => write!(f, "no '{mark}'"),
            LineError::Seconds => f.write_str("the seconds"),
            LineError::Nanoseconds => f.write_str("the nanoseconds: nine digits"),
            LineError::Sequence => f.write_str("the sequence: a number of 32 bits"),
        }
    }
}

impl std::error::Error for LineError {}

/// The edge that a file shows; `None` if it is empty, or no edge has come yet (all zeroes).
pub(super) fn parse(bytes: &[u8]) -> Result<Option<Edge>, LineError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let end = bytes.iter().position(|byte| *byte == b'\n').filter(|end| *end < LONGEST);
    let (line, rest) = bytes.split_at(end.ok_or(LineError::NoNewline)?);
    if rest != b"\n" {
        return Err(LineError::More);
    }
    let (secs, rest) = split(line, '.')?;
    let (nanos, sequence) = split(rest, '#')?;
    let secs = digits(secs).ok_or(LineError::Seconds)?;
    if nanos.len() != 9 {
        return Err(LineError::Nanoseconds);
    }
    let nanos = digits(nanos).ok_or(LineError::Nanoseconds)?;
    let unix_ns = secs
        .checked_mul(1_000_000_000)
        .and_then(|ns| ns.checked_add(nanos))
        .ok_or(LineError::Seconds)?;
    let sequence = self::sequence(sequence).ok_or(LineError::Sequence)?;
    let none_yet = unix_ns == 0 && sequence == 0;
    Ok((!none_yet).then_some(Edge { sequence, unix_ns }))
}

fn split(bytes: &[u8], mark: char) -> Result<(&[u8], &[u8]), LineError> {
    let mut parts = bytes.splitn(2, |byte| char::from(*byte) == mark);
    match (parts.next(), parts.next()) {
        (Some(before), Some(after)) => Ok((before, after)),
        _ => Err(LineError::NoMark(mark)),
    }
}

/// The number of the edge. The kernel counts in 32 bits and prints them as signed ones.
fn sequence(bytes: &[u8]) -> Option<u64> {
    match bytes.strip_prefix(b"-") {
        None => digits(bytes).and_then(|n| u32::try_from(n).ok()).map(u64::from),
        Some(rest) => {
            let negative = digits(rest).filter(|n| (1..=1 << 31).contains(n))?;
            Some(((1i64 << 32) - negative).unsigned_abs())
        }
    }
}

/// Decimal digits only, at least one.
fn digits(bytes: &[u8]) -> Option<i64> {
    if bytes.is_empty() {
        return None;
    }
    bytes.iter().try_fold(0i64, |sum, byte| {
        let digit = char::from(*byte).to_digit(10)?;
        sum.checked_mul(10)?.checked_add(i64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(line: &str) -> Result<Option<(u64, i64)>, LineError> {
        parse(line.as_bytes()).map(|edge| edge.map(|edge| (edge.sequence, edge.unix_ns)))
    }

    #[test]
    fn lines_as_the_kernel_writes_them() {
        assert_eq!(edge("1700000000.000012345#17\n"), Ok(Some((17, 1_700_000_000_000_012_345))));
        assert_eq!(edge("0.000000001#0\n"), Ok(Some((0, 1))));
        assert_eq!(edge("9223372036.854775807#1\n"), Ok(Some((1, i64::MAX))));
        assert_eq!(edge("1.999999999#4294967295\n"), Ok(Some((4_294_967_295, 1_999_999_999))));
        // Past 2³¹ − 1, as sysfs prints it.
        assert_eq!(edge("1.000000000#-2147483648\n"), Ok(Some((1 << 31, 1_000_000_000))));
        assert_eq!(edge("1.000000000#-1\n"), Ok(Some(((1 << 32) - 1, 1_000_000_000))));
    }

    #[test]
    fn none_yet() {
        assert_eq!(edge(""), Ok(None));
        assert_eq!(edge("0.000000000#0\n"), Ok(None));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let long = format!("1.000000000#{}\n", "0".repeat(LONGEST));
        for (line, why) in [
            ("1700000000.000012345#17", LineError::NoNewline),
            (long.as_str(), LineError::NoNewline),
            ("\n", LineError::NoMark('.')),
            ("1700000000\n", LineError::NoMark('.')),
            ("1.000000000\n", LineError::NoMark('#')),
            ("1#000000000.1\n", LineError::NoMark('#')),
            ("1.000000000#1\n\n", LineError::More),
            ("1.000000000#1\n1.000000000#2\n", LineError::More),
            (".000000000#1\n", LineError::Seconds),
            ("-1.000000000#1\n", LineError::Seconds),
            ("+1.000000000#1\n", LineError::Seconds),
            (" 1.000000000#1\n", LineError::Seconds),
            ("9223372036.854775808#1\n", LineError::Seconds),
            ("99999999999999999999.000000000#1\n", LineError::Seconds),
            ("1.0#1\n", LineError::Nanoseconds),
            ("1.0000000000#1\n", LineError::Nanoseconds),
            ("1.00000000x#1\n", LineError::Nanoseconds),
            ("1.000000000#\n", LineError::Sequence),
            ("1.000000000#-\n", LineError::Sequence),
            ("1.000000000#-0\n", LineError::Sequence),
            ("1.000000000#4294967296\n", LineError::Sequence),
            ("1.000000000#-2147483649\n", LineError::Sequence),
            ("1.000000000#1 \n", LineError::Sequence),
            ("1.000000000#1\r\n", LineError::Sequence),
        ] {
            assert_eq!(edge(line), Err(why), "{line:?}");
        }
        assert_eq!(parse(&[0xff, b'\n']), Err(LineError::NoMark('.')));
    }
}
