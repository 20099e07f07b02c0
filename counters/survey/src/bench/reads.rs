//! Numbers of readings as people write them.

/// More than anybody waits for.
const MOST: u64 = 100_000_000_000;

/// A number of readings: `10000000`, `10_000_000`, `10M`, `1.5M`, `1k` or `1e6`; from 1 to 10¹¹.
///
/// # Errors
/// What is wrong with it, in words.
pub fn parse_reads(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("'{text}' is not a number of readings: write 10000000, 10M, 500k or 1e7");
    let digits = text.trim().replace('_', "");
    let (number, power) = if let Some((number, exponent)) = digits.split_once(['e', 'E']) {
        (
            number,
            exponent.strip_prefix('+').unwrap_or(exponent).parse::<u32>().map_err(|_| wrong())?,
        )
    } else {
        let suffixed = |suffixes: [char; 2], power| Some((digits.strip_suffix(suffixes)?, power));
        suffixed(['k', 'K'], 3)
            .or_else(|| suffixed(['m', 'M'], 6))
            .or_else(|| suffixed(['g', 'G'], 9))
            .unwrap_or((&digits, 0))
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let plain = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !plain(whole) || !plain(part) {
        return Err(wrong());
    }
    let part = part.trim_end_matches('0');
    if part.len() > power as usize {
        return Err(format!("'{text}' is not a whole number of readings"));
    }
    // As digits: the parts joined, and as many zeros as the power has left.
    let joined = format!("{whole}{part}");
    let joined = joined.trim_start_matches('0');
    let zeros = power as usize - part.len();
    let reads = match joined.len() + zeros {
        _ if joined.is_empty() => Some(0),
        0..=18 => joined.parse::<u64>().ok().map(|n| n * 10_u64.pow(zeros as u32)),
        _ => None,
    };
    match reads {
        Some(0) => Err("no readings, nothing to measure: take 1 or more".into()),
        Some(reads) if reads <= MOST => Ok(reads),
        _ => Err(format!("'{text}' readings would take hours: take 100G or fewer")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn people_write_numbers_in_many_ways() {
        for (text, reads) in [
            ("1", 1),
            ("10000000", 10_000_000),
            ("10_000_000", 10_000_000),
            ("10M", 10_000_000),
            ("10m", 10_000_000),
            ("1k", 1000),
            ("1.5M", 1_500_000),
            ("1e6", 1_000_000),
            ("2.50E+3", 2500),
            ("0.5k", 500),
            ("100G", 100_000_000_000),
            ("3.0", 3),
        ] {
            assert_eq!(parse_reads(text), Ok(reads), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_is_told_apart_from_what_is_too_many() {
        for (text, says) in [
            ("", "not a number"),
            ("M", "not a number"),
            ("ten", "not a number"),
            ("-1", "not a number"),
            ("1e-3", "not a number"),
            ("1ee3", "not a number"),
            ("1.", "not a number"),
            (".5M", "not a number"),
            ("10Mi", "not a number"),
            ("1.5", "not a whole number"),
            ("1.0005k", "not a whole number"),
            ("0", "1 or more"),
            ("0e99", "1 or more"),
            ("101G", "100G or fewer"),
            ("1e99999999", "100G or fewer"),
            ("99999999999999999999999", "100G or fewer"),
        ] {
            let why = parse_reads(text).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "\\PC{0,30}") {
            let _ = parse_reads(&text);
        }

        #[test]
        fn a_suffix_is_as_good_as_zeros(n in 1..100_000_u64) {
            prop_assert_eq!(parse_reads(&format!("{n}k")), Ok(n * 1000));
            prop_assert_eq!(parse_reads(&format!("{n}e3")), Ok(n * 1000));
            prop_assert_eq!(parse_reads(&format!("{n}000")), Ok(n * 1000));
        }
    }
}
