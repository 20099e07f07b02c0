//! How a pulse per second is written.

use truechimer_time::Span;

/// The least and the most that stamps may be late.
const LATENCY: (Span, Span) = (Span::from_nanos(100), Span::from_millis(100));
/// A pulse that is half a second off begins no second.
const OFFSET: Span = Span::from_millis(500);
/// The longest name, in letters.
const NAME: usize = 63;

/// The path of a device or plain file.
pub(crate) fn path(text: &str) -> Result<String, String> {
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err("must be a path, as \"/dev/pps0\" or \"/sys/class/pps/pps0/assert\"".into());
    }
    Ok(text.to_owned())
}

pub(crate) fn latency(span: Span) -> Result<Span, String> {
    if span < LATENCY.0 || span > LATENCY.1 {
        return Err("must be 100ns to 100ms: the most by which a stamp may be late".into());
    }
    Ok(span)
}

pub(crate) fn offset(span: Span) -> Result<Span, String> {
    if span.abs() >= OFFSET {
        return Err("must be less than 500ms, either way".into());
    }
    Ok(span)
}

pub(crate) fn name(text: &str) -> Result<String, String> {
    let fits = text.chars().count() <= NAME;
    let is_plain = text.chars().all(|c| !c.is_control() && !c.is_whitespace());
    if text.is_empty() || !fits || !is_plain {
        return Err(format!("must be one word of up to {NAME} letters"));
    }
    Ok(text.to_owned())
}
