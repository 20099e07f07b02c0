//! Values of options.

use std::ffi::{OsStr, OsString};
use std::str::FromStr;

use clap::Args;
use clap::builder::{PossibleValue, TypedValueParser};
use truechimer_time::{Rate, Span};

/// Options of one command, of these words.
///
/// # Errors
/// If there are no such options.
pub fn options<T: Args>(
    words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<T, clap::Error> {
    let command = T::augment_args(clap::Command::new("truechimer")).no_binary_name(true);
    T::from_arg_matches(&command.try_get_matches_from(words)?)
}

/// Parser of an option that takes one of these words, for shells to complete; `parse` has the last
/// word on what it takes, and says what is wrong.
pub fn one_of<T, E>(
    words: impl IntoIterator<Item = &'static str>,
    parse: fn(&str) -> Result<T, E>,
) -> OneOf<T, E> {
    OneOf { words: words.into_iter().collect(), parse }
}

/// Parser of [`one_of`].
#[derive(Clone)]
pub struct OneOf<T, E> {
    words: Vec<&'static str>,
    parse: fn(&str) -> Result<T, E>,
}

impl<T, E> TypedValueParser for OneOf<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Into<Box<dyn std::error::Error + Send + Sync>> + Clone + 'static,
{
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        option: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        self.parse.parse_ref(command, option, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.words.iter().map(PossibleValue::new)))
    }
}

/// A span of time, more than zero.
///
/// # Errors
/// If it is not.
pub fn positive(text: &str) -> Result<Span, String> {
    let span = Span::from_str(text).map_err(|why| why.to_string())?;
    if span > Span::ZERO { Ok(span) } else { Err("must be more than zero".into()) }
}

/// A rate in ppm, more than zero.
///
/// # Errors
/// If it is not.
pub fn positive_rate(text: &str) -> Result<Rate, String> {
    let rate = Rate::from_str(text).map_err(|why| why.to_string())?;
    if rate > Rate::ZERO { Ok(rate) } else { Err("must be more than zero".into()) }
}

/// A span of time, zero or more.
///
/// # Errors
/// If it is not.
pub fn not_negative(text: &str) -> Result<Span, String> {
    let span = Span::from_str(text).map_err(|why| why.to_string())?;
    if span.is_negative() { Err("must not be negative".into()) } else { Ok(span) }
}

/// A poll interval, 1 to 1024 s.
///
/// # Errors
/// If it is not.
pub fn poll(text: &str) -> Result<u32, String> {
    let seconds: Option<u32> = text.trim().parse().ok();
    seconds
        .filter(|seconds| (1..=1024).contains(seconds))
        .ok_or_else(|| "must be a whole number of seconds, 1 to 1024, without a unit".to_owned())
}

/// A number of hours, 0.01 to 10 000.
///
/// # Errors
/// If it is not.
pub fn hours(text: &str) -> Result<f64, String> {
    let hours: f64 = text.parse().map_err(|_| "not a number of hours".to_owned())?;
    if (0.01..=10_000.0).contains(&hours) {
        Ok(hours)
    } else {
        Err("must be from 0.01 to 10000 hours".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_interval_says_what_it_may_be() {
        assert_eq!((poll("1"), poll("1024")), (Ok(1), Ok(1024)));
        for text in ["1.5", "0", "1025", "16s", "", "-1"] {
            assert!(
                poll(text).unwrap_err().contains("whole number of seconds, 1 to 1024"),
                "{text}"
            );
        }
    }
}
