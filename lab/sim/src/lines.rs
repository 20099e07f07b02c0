//! Files with a JSON object on each line, as studies keep what they found.

use serde::de::DeserializeOwned;

/// Parses each line.
///
/// # Errors
/// Which line is something else, and why.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, String> {
    let line = |(index, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|why| format!("line {}: {why}", index + 1))
    };
    text.lines().enumerate().map(line).collect()
}
