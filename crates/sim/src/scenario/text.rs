//! From text to a scenario, with the place of what is wrong.

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ScenarioError;
use crate::nearest::nearest;

/// The longest text that is read: 4 MiB.
const LONGEST: usize = 4 << 20;

/// Reads what serde can make of the text.
pub(super) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, ScenarioError> {
    if text.len() > LONGEST {
        return Err(ScenarioError::new(format!("longer than {LONGEST} bytes")));
    }
    toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| line_of(text, span.start));
        ScenarioError { line, what: mended(error.message()) }
    })
}

/// The line, from 1, of a byte of the text.
fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|b| **b == b'\n').count()
}

/// serde's words for an unknown key or variant list all that are known: the nearest comes first.
fn mended(message: &str) -> String {
    let printable: String = message
        .chars()
        .take(2000)
        .map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c })
        .collect();
    // What stands between backquotes: the unknown one, then those that are known.
    let mut quoted = printable.split('`').skip(1).step_by(2);
    let unknown = printable.starts_with("unknown ");
    let (Some(found), true) = (quoted.next(), unknown) else { return printable };
    let known: Vec<&str> = quoted.collect();
    match nearest(found, &known) {
        Some(near) => {
            let what = printable.split('`').next().unwrap_or("unknown ");
            format!("{what}`{found}`; did you mean `{near}`? Known are: {}", known.join(", "))
        }
        None => printable,
    }
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

/// The same in a value: `1: …` is its first entry, `: …` something in it.
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
