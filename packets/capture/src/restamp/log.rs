//! A daemon's replay log, as anybody may have written it: read line by line, for its hands and for
//! what the host's clocks said.

use std::io::{self, BufRead, Read};

use serde::Deserialize;
use serde::de::IgnoredAny;
use truechimer_time::Count;
use truechimer_timehands::Hand;

use super::link::Reference;

/// The versions of the format in which hands look alike.
const FORMATS: std::ops::RangeInclusive<u32> = 3..=14;
/// The longest line that is read, in bytes.
const MAX_LINE: u64 = 4 << 20;
/// Beginnings of the lines that matter.
const HAND: &str = "{\"hand\":";
const CHECK: &str = "\"event\":{\"check\":";

/// Contents of a log.
pub(super) enum Said {
    /// The engine published this.
    Hand(Box<Hand>),
    /// The host's clocks were looked at.
    Check(Reference),
}

#[derive(Deserialize)]
struct Header {
    #[serde(rename = "truechimer-replay")]
    format: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HandLine {
    hand: Hand,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckLine {
    #[serde(rename = "at")]
    _at: Count,
    event: Check,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Check {
    check: Reference,
}

/// Reads a log; a last line that is cut off, as when the daemon was killed, is left out.
pub(super) fn read(
    log: impl BufRead,
    each: &mut dyn FnMut(Said) -> Result<(), String>,
) -> Result<(), String> {
    let mut lines = Lines { log, number: 0, text: Vec::new() };
    let header = lines.next()?.ok_or("it is empty: that is no replay log")?;
    let Header { format } = serde_json::from_str(header).map_err(|_| {
        "it does not begin as a replay log does ({\"truechimer-replay\":…}): it takes what \
         `truechimer run --replay-log FILE` writes"
            .to_owned()
    })?;
    if !FORMATS.contains(&format) {
        return Err(format!(
            "it is a replay log of format {format}, this program reads {} to {}",
            FORMATS.start(),
            FORMATS.end()
        ));
    }
    while let Some(text) = lines.next()? {
        let said = if text.starts_with(HAND) {
            serde_json::from_str(text).map(|HandLine { hand }| Some(Said::Hand(Box::new(hand))))
        } else if text.contains(CHECK) {
            let check = serde_json::from_str(text);
            check.map(|CheckLine { event, .. }| Some(Said::Check(event.check)))
        } else {
            serde_json::from_str(text).map(|IgnoredAny| None)
        };
        let said =
            said.map_err(|why| why.to_string()).and_then(|said| said.map_or(Ok(()), &mut *each));
        said.map_err(|why| format!("line {}: {}", lines.number, column(&why)))?;
    }
    Ok(())
}

/// The parser takes every line for its first.
fn column(why: &str) -> String {
    why.replacen(" at line 1 column ", ", column ", 1)
}

struct Lines<R> {
    log: R,
    number: u64,
    text: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    /// The next complete line.
    fn next(&mut self) -> Result<Option<&str>, String> {
        self.text.clear();
        let read = self.log.by_ref().take(MAX_LINE).read_until(b'\n', &mut self.text);
        read.map_err(|why: io::Error| format!("cannot be read: {why}"))?;
        self.number += 1;
        if self.text.last() != Some(&b'\n') {
            return match self.text.len() as u64 >= MAX_LINE {
                true => Err(format!("line {} is longer than 4 MiB", self.number)),
                false => Ok(None),
            };
        }
        let text = std::str::from_utf8(&self.text);
        text.map(Some).map_err(|_| format!("line {} is no text", self.number))
    }
}
