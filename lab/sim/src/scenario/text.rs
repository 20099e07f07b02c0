//! From text to a scenario, with the place of what is wrong.

mod wording;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ScenarioError;

/// The longest text that is read: 4 MiB.
const LONGEST: usize = 4 << 20;
/// How much of what serde says is looked at, in letters: it may quote a whole value.
const MESSAGE: usize = 4000;

/// Reads what serde can make of the text.
pub(super) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, ScenarioError> {
    if text.len() > LONGEST {
        return Err(ScenarioError::new(format!("longer than {LONGEST} bytes")));
    }
    match toml::from_str(text) {
        Ok(parsed) => match DeTable::parse(text).ok().and_then(|d| odd_list(d.get_ref(), text)) {
            Some(error) => Err(error),
            None => Ok(parsed),
        },
        Err(error) => Err(explained::<T>(text, &error)),
    }
}

/// Explains what is wrong with the text, by what was said of it.
fn explained<T: DeserializeOwned>(text: &str, error: &toml::de::Error) -> ScenarioError {
    let message: String = error.message().chars().take(MESSAGE).collect();
    let Some(span) = error.span() else { return ScenarioError::new(printable(&message)) };
    let what = match DeTable::parse(text) {
        Ok(document) => wording::of_value(&message, text, &span, document.get_ref(), &known::<T>()),
        Err(_) => wording::of_syntax(&message, text, &span),
    };
    ScenarioError { line: Some(line_of(text, span.start)), what: printable(&what) }
}

/// The keys of a structure: serde lists them to whoever asks for one that cannot be.
fn known<T: DeserializeOwned>() -> Vec<String> {
    let error = toml::from_str::<T>("'' = 0").err();
    let keys = |error: toml::de::Error| {
        wording::quoted(error.message()).skip(1).map(str::to_owned).collect()
    };
    error.map(keys).unwrap_or_default()
}

/// A list that serde takes and that cannot have been meant: it reads a list as the values of a
/// table without their keys, and passes over what is too many. Of a scenario's lists all but
/// one are made of tables.
fn odd_list(table: &DeTable<'_>, text: &str) -> Option<ScenarioError> {
    table.iter().find_map(|(key, value)| match value.get_ref() {
        DeValue::Table(inner) => odd_list(inner, text),
        DeValue::Array(array) => {
            let key = key.get_ref().as_ref();
            let is_pair = key == "adaptive";
            let tables = || {
                array.iter().map(|entry| match entry.get_ref() {
                    DeValue::Table(inner) => Ok(inner),
                    _ => Err(()),
                })
            };
            let (is_wrong, must) = if is_pair {
                (array.len() != 2, "a list of two")
            } else {
                (tables().any(|entry| entry.is_err()), "made of tables, each with its keys")
            };
            if is_wrong {
                let line = Some(line_of(text, value.span().start));
                let what = printable(&format!("{key}: must be {must}"));
                return Some(ScenarioError { line, what });
            }
            tables().flatten().find_map(|inner| odd_list(inner, text))
        }
        _ => None,
    })
}

/// Without what a terminal would take for a command.
fn printable(message: &str) -> String {
    message.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// The line, from 1, of a byte of the text.
fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|b| **b == b'\n').count()
}

/// Finds the line of what is wrong by what is said of it: `server 2: forward: queue 1: mean-ms =
/// …` is the key `mean-ms` in the first `queue` of `forward` in the second `server`.
pub(super) fn located(text: &str, what: String) -> ScenarioError {
    let line = DeTable::parse(text).ok().and_then(|document| {
        let at = find(document.get_ref(), &what)?;
        Some(line_of(text, at))
    });
    ScenarioError { line, what }
}

/// The byte at which the innermost thing begins that `what` names. A table that only says of what
/// kind something is goes without a name there: it is looked into.
fn find(table: &DeTable<'_>, what: &str) -> Option<usize> {
    let end = what.find([':', '=', ' ']).unwrap_or(what.len());
    let (name, rest) = what.split_at(end);
    let named = table.iter().find(|(key, _)| key.get_ref().as_ref() == name);
    match named {
        Some((key, value)) => Some(inside(value, rest.trim_start()).unwrap_or(key.span().start)),
        None => table.iter().find_map(|(_, inner)| match inner.get_ref() {
            DeValue::Table(inner) => find(inner, what),
            _ => None,
        }),
    }
}

/// Finds the byte in a value: `1: …` is its first entry, `: …` something in it.
fn inside(value: &Spanned<DeValue<'_>>, rest: &str) -> Option<usize> {
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (number, rest) = rest.split_at(digits);
    let rest = rest.trim_start_matches(':').trim_start();
    match value.get_ref() {
        DeValue::Table(table) => find(table, rest),
        DeValue::Array(array) => {
            let entry = array.get(number.parse::<usize>().ok()?.checked_sub(1)?)?;
            let DeValue::Table(table) = entry.get_ref() else { return Some(entry.span().start) };
            Some(find(table, rest).unwrap_or(entry.span().start))
        }
        _ => None,
    }
}
