//! The truth: a straight line over the machine's own unsteered clock.

use std::fmt;
use std::str::FromStr;

/// True time: a function of `CLOCK_MONOTONIC_RAW` and of nothing else, so that whoever reads that
/// clock knows it, whatever becomes of the system clock meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// `CLOCK_MONOTONIC_RAW` where the line begins, ns.
    pub origin_raw_ns: i64,
    /// The true Unix time then, ns.
    pub origin_unix_ns: i64,
    /// True time gains so much on the raw clock, in parts in 10⁹.
    pub gain_ppb: i64,
}

impl Line {
    /// The true Unix time, ns, when the raw clock shows this. Saturates.
    #[must_use]
    pub fn unix_ns(&self, raw_ns: i64) -> i64 {
        let since = i128::from(raw_ns) - i128::from(self.origin_raw_ns);
        let gained = (since * i128::from(self.gain_ppb)).div_euclid(1_000_000_000);
        let unix = i128::from(self.origin_unix_ns) + since + gained;
        unix.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    /// Seconds since the beginning.
    #[must_use]
    pub fn seconds(&self, raw_ns: i64) -> f64 {
        (raw_ns - self.origin_raw_ns) as f64 * 1e-9
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.origin_raw_ns, self.origin_unix_ns, self.gain_ppb)
    }
}

impl FromStr for Line {
    type Err = String;

    fn from_str(text: &str) -> Result<Line, String> {
        let numbers: Result<Vec<i64>, _> = text.split(',').map(str::parse).collect();
        match numbers.as_deref() {
            Ok(&[origin_raw_ns, origin_unix_ns, gain_ppb]) => {
                Ok(Line { origin_raw_ns, origin_unix_ns, gain_ppb })
            }
            _ => Err(format!("`{text}` is not RAW_NS,UNIX_NS,PPB")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_gains_and_is_read_back() {
        let line =
            Line { origin_raw_ns: 5, origin_unix_ns: 1_700_000_000_000_000_000, gain_ppb: 20_000 };
        assert_eq!(line.unix_ns(5), 1_700_000_000_000_000_000);
        assert_eq!(line.unix_ns(1_000_000_005), 1_700_000_001_000_020_000);
        assert_eq!(line.to_string().parse(), Ok(line));
        assert!("1,2".parse::<Line>().is_err());
        let far = Line { origin_raw_ns: i64::MIN, ..line };
        assert_eq!(far.unix_ns(i64::MAX), i64::MAX);
    }
}
