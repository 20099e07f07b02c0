//! How long something may take, as people write it.

use truechimer_time::Span;

/// The longest: a week.
const LONGEST: Span = Span::from_secs(7 * 86_400);

/// A length of time with its unit: a whole or decimal number of `h`, `min`, `s` or less, not
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
    let span = match (text.strip_suffix("min"), text.strip_suffix('h')) {
        (Some(minutes), _) => of(minutes, 60)?,
        (_, Some(hours)) => of(hours, 3600)?,
        _ => text.parse().map_err(|why| format!("{why} (or min, or h)"))?,
    };
    if span.is_negative() || span > LONGEST {
        return Err("must be 0s to 168h (a week)".into());
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
        ] {
            assert_eq!(parse(text), Ok(Span::from_secs(seconds)), "{text}");
        }
        assert_eq!(parse("250ms"), Ok(Span::from_millis(250)));
        for (text, says) in [
            ("", "unit"),
            ("1", "unit"),
            ("1 day", "(or min, or h)"),
            ("h", "number"),
            ("-1h", "0s to 168h"),
            ("169h", "0s to 168h"),
            ("99999999999999999999h", ""),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }
}
