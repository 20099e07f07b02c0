//! A clock log: what a clock showed at moments whose true time was known.
//!
//! Text, a line each: [`HEADER`], then `KIND STAMP EARLIEST LATEST` with KIND `system` or `card` and
//! three times in ns since 1970, UTC but for the stamp. `truechimer capture check --clock-log`
//! writes it.

use std::io::{BufRead, Read};

use crate::Anchor;
use crate::scales::{ANCHORS, DISORDER};

/// First line of every clock log.
pub const HEADER: &str = "truechimer clock log 1";

/// Longest line that is read, in bytes.
const LINE: u64 = 256;

/// Line of a log, without its end.
#[must_use]
pub fn line(kind: &str, anchor: (i64, i64, i64)) -> String {
    let (stamp, earliest, latest) = anchor;
    format!("{kind} {stamp} {earliest} {latest}")
}

/// Reads what a log says of one kind of clock.
///
/// # Errors
/// If a line is none, with its number, or the clock was set back in the midst.
pub fn read(mut log: impl BufRead, kind: &str) -> Result<Vec<Anchor>, String> {
    let mut anchors: Vec<Anchor> = Vec::new();
    let mut text = Vec::new();
    for number in 1u64.. {
        text.clear();
        let read = log.by_ref().take(LINE).read_until(b'\n', &mut text);
        read.map_err(|why| format!("cannot be read: {why}"))?;
        if text.is_empty() {
            break;
        }
        let wrong = |what: &str| format!("line {number}: {what}");
        let words = std::str::from_utf8(&text).map_err(|_| wrong("no text"))?;
        if number == 1 {
            if words.trim_end() != HEADER {
                return Err(format!("no clock log: its first line is not '{HEADER}'"));
            }
            continue;
        }
        // One that is being written may end in the midst of a line.
        if !words.ends_with('\n') && (text.len() as u64) < LINE {
            break;
        }
        let (of, anchor) = parse(words).ok_or_else(|| {
            wrong("must be 'system' or 'card' and three times in ns: stamp, earliest, latest")
        })?;
        if of != kind {
            continue;
        }
        if anchors.last().is_some_and(|last| anchor.at < last.at.saturating_sub(DISORDER)) {
            return Err(wrong("the clock was set back here: take the lines before or those after"));
        }
        if anchors.len() >= ANCHORS {
            return Err(wrong("more lines than a capture needs: cut the log to its time"));
        }
        anchors.push(anchor);
    }
    if anchors.is_empty() {
        return Err(format!("it says nothing of the {kind} clock"));
    }
    Ok(anchors)
}

fn parse(line: &str) -> Option<(&str, Anchor)> {
    let mut words = line.split_ascii_whitespace();
    let kind = words.next().filter(|kind| matches!(*kind, "system" | "card"))?;
    let mut time = || words.next()?.parse::<i64>().ok();
    let (at, earliest, latest) = (time()?, time()?, time()?);
    let is_whole = words.next().is_none() && earliest <= latest;
    is_whole.then(|| (kind, Anchor::between(at, earliest, latest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_by_kind_and_faults_are_named() {
        let log = |lines: &str| format!("{HEADER}\n{lines}");
        let good = log("system 5 1 9\ncard 37 2 3\nsystem 6 2 10\ncard 40 1");
        assert_eq!(
            read(good.as_bytes(), "system"),
            Ok(vec![Anchor::between(5, 1, 9), Anchor::between(6, 2, 10)])
        );
        assert_eq!(read(good.as_bytes(), "card"), Ok(vec![Anchor::between(37, 2, 3)]));
        let written = line("card", (7, 1, 2)) + "\n";
        assert!(read(log(&written).as_bytes(), "card").is_ok());
        let long = "x".repeat(1000);
        for (text, part) in [
            (String::new(), "nothing of the system"),
            ("something else\n".into(), "no clock log"),
            (log("system 5 9 1\n"), "line 2: must be"),
            (log("system 5 1 9\nphone 5 1 9\n"), "line 3: must be"),
            (log("system 5 1\n"), "line 2: must be"),
            (log("system 5 1 9 9\n"), "line 2: must be"),
            (log(&long), "line 2: must be"),
            (log("card 1 1 1\n"), "nothing of the system"),
            (log("system 9000000000 1 2\nsystem 5 3 4\n"), "line 3: the clock was set back"),
        ] {
            let why = read(text.as_bytes(), "system").unwrap_err();
            assert!(why.contains(part), "{text:.40}: {why}");
        }
    }
}
