//! From text to a scenario, with the place of what is wrong.

mod fault;
mod reading;
mod value;

use core::cell::Cell;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use self::fault::Fault;
use self::value::{Document, Value, excerpt};
use super::ScenarioError;

/// The longest text that is read: 4 MiB.
const LONGEST: usize = 4 << 20;

/// Reads what serde can make of the text.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, ScenarioError> {
    if text.len() > LONGEST {
        return Err(ScenarioError::new(format!("longer than {LONGEST} bytes")));
    }
    let table = DeTable::parse(text).map_err(|error| no_toml(text, &error))?;
    let whole = Spanned::new(table.span(), DeValue::Table(table.into_inner()));
    let document = Document { text, keys: Cell::new(&[]) };
    T::deserialize(Value { document: &document, value: &whole, way: None }).map_err(|fault| {
        match fault {
            Fault::At(error) => error,
            fault => ScenarioError::new(fault.to_string()),
        }
    })
}

/// Explains the parser's words on text that is no TOML.
fn no_toml(text: &str, error: &toml::de::Error) -> ScenarioError {
    let message = error.message();
    let message = message.strip_suffix(", expected nothing").unwrap_or(message);
    let Some(span) = error.span() else {
        return ScenarioError::new(without_controls(message));
    };
    let found = excerpt(text, &span);
    let found = found.lines().next().unwrap_or("").trim();
    let what = if message == "duplicate key" {
        format!("`{found}` is there twice; each table of a list has a heading in [[ ]]")
    } else if message.starts_with("string values must be quoted") {
        let what = if found.is_empty() { "nothing".into() } else { format!("`{found}`") };
        format!(
            "{what} where a value has to be: a number, true or false, text in quotation marks, or \
             a list in square brackets"
        )
    } else {
        message.to_owned()
    };
    ScenarioError { line: Some(line_of(text, span.start)), what: without_controls(&what) }
}

/// Without what a terminal would take for a command.
fn without_controls(message: &str) -> String {
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
