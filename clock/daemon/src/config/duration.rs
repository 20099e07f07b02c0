//! Lengths of time, as people write them.

use truechimer_time::Span;

/// The longest: a week.
const LONGEST: Span = Span::from_secs(7 * 86_400);

/// A length of time with its unit: a whole or decimal number of `d`, `h`, `min`, `s` or less, not
/// negative, up to a week.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse(text: &str) -> Result<Span, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("needs a number and a unit, as in \"1h\"".into());
    }
    let of = |number: &str, seconds: i128| -> Result<Span, String> {
        let span: Span = format!("{}s", number.trim()).parse().map_err(|why| format!("{why}"))?;
        Ok(Span(span.0.saturating_mul(seconds)))
    };
    let long = [("min", 60), ("h", 3600), ("d", 86_400)].into_iter();
    let mut long = long.filter_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let span = match long.next() {
        Some((number, seconds)) => of(number, seconds)?,
        None => text.parse().map_err(|why| format!("{why} (or min, h or d)"))?,
    };
    if span.is_negative() || span > LONGEST {
        return Err("must not be negative, and at most 7d (168h)".into());
    }
    Ok(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_and_minutes_are_understood() {
        for (text, seconds) in [
            ("1h", 3600),
            ("1.5 h", 5400),
            ("90min", 5400),
            ("600s", 600),
            ("0", 0),
            ("168h", 604_800),
            ("3d", 259_200),
            ("0.5 d", 43_200),
            ("7d", 604_800),
        ] {
            assert_eq!(parse(text), Ok(Span::from_secs(seconds)), "{text}");
        }
        assert_eq!(parse("250ms"), Ok(Span::from_millis(250)));
        for (text, says) in [
            ("", "unit"),
            ("1", "unit"),
            ("1 day", "(or min, h or d)"),
            ("h", "number"),
            ("-1h", "at most 7d"),
            ("8d", "at most 7d"),
            ("169h", "at most 7d"),
            ("99999999999999999999h", ""),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }
}
