//! Delays that somebody measured.

use core::fmt;

use crate::limits::DELAY;

/// The farthest time that a recording may name, s: Unix times will do.
const FARTHEST: f64 = 1e11;
/// A packet on its way for longer than this, s, is a rarity: one may be where others are quick.
const LONG: f64 = 10.0;
/// Delay that half of the others have to stay below for that, s.
const QUICK: f64 = 0.1;
/// No path has a median delay above this, s: it is in another unit.
const MEDIAN: f64 = 2.0;

/// Recorded delays of one direction, gone through again and again.
#[derive(Clone, PartialEq, Debug)]
pub struct Recording {
    /// Never empty.
    delays: Vec<f64>,
    /// When each was measured, strictly rising; empty: one delay for each packet.
    times: Vec<f64>,
}

impl Recording {
    /// The delays, s.
    #[must_use]
    pub fn delays(&self) -> &[f64] {
        &self.delays
    }

    /// The delay of the packet of this number, sent at `t` (s since the start): with times, the
    /// entry in force then, the first one at time 0; without, one after the other.
    pub(super) fn delay(&self, number: u64, t: f64) -> f64 {
        let index = match (self.times.first(), self.times.last()) {
            (Some(first), Some(last)) if last > first => {
                // The last entry is in force for as long as the others are on average.
                let cycle = (last - first) * (1.0 + 1.0 / (self.times.len() - 1) as f64);
                let turns = t / cycle;
                let at = first + cycle * (turns - libm::floor(turns));
                self.times.partition_point(|time| *time <= at).saturating_sub(1)
            }
            (Some(_), _) => 0,
            (None, _) => (number % self.delays.len().max(1) as u64) as usize,
        };
        self.delays.get(index).copied().unwrap_or(0.0)
    }
}

/// Reason why recorded delays could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DelayError {
    /// The line, counted from 1; 0 if it is about the whole text.
    pub line: usize,
    /// Fault in it, and what was expected.
    pub what: String,
}

impl fmt::Display for DelayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.what),
            line => write!(f, "line {line}: {}", self.what),
        }
    }
}

impl std::error::Error for DelayError {}

/// Reads recorded delays: a line each, with the delay in seconds, or with two columns: the time in
/// seconds and the delay, also in seconds. What follows `#` or `%` is a comment.
///
/// With one column each packet takes the next delay. With two, a packet takes the delay in force
/// when it is sent, counted from the first time in the recording. Either begins again at its end.
///
/// # Errors
/// With the line: what is not a number, a delay below 0 or above 1000 s, times that do not rise,
/// a number of columns that is not 1 or 2 or changes; text without any delay; and what is plainly
/// not in seconds: a median above 2 s, or any delay above 10 s unless the median is below 0.1 s.
pub fn parse_delays(text: &str) -> Result<Recording, DelayError> {
    let mut recording = Recording { delays: Vec::new(), times: Vec::new() };
    let mut columns = 0;
    // The line of the first delay that is long.
    let mut long = None;
    for (i, line) in text.lines().enumerate() {
        let wrong = |what: String| DelayError { line: i + 1, what };
        let line = if i == 0 { line.trim_start_matches('\u{feff}') } else { line };
        let content = line.split(['#', '%']).next().unwrap_or("");
        let mut fields = content.split_whitespace();
        let (time, delay) = match (fields.next(), fields.next(), fields.next()) {
            (None, _, _) => continue,
            (Some(delay), None, _) => (None, delay),
            (Some(time), Some(delay), None) => (Some(time), delay),
            _ => {
                let what = "more than two columns: expected a delay, or a time and a delay, in \
                            seconds, separated by blanks";
                return Err(wrong(what.to_owned()));
            }
        };
        let found = 1 + usize::from(time.is_some());
        if columns != 0 && found != columns {
            let what = format!(
                "{found} column(s), where the lines before have {columns}: expected a delay on each \
                 line, or a time and a delay, in seconds"
            );
            return Err(wrong(what));
        }
        columns = found;
        if let Some(time) = time {
            let time = number("column 1: the time", time, -FARTHEST, FARTHEST).map_err(wrong)?;
            if let Some(last) = recording.times.last().filter(|last| **last >= time) {
                let what = format!(
                    "column 1: the time {time} is not after {last}: of two columns the first one is \
                     the time and the second one the delay, both in seconds"
                );
                return Err(wrong(what));
            }
            recording.times.push(time);
        }
        let column = format!("column {columns}: the delay");
        let delay = number(&column, delay, 0.0, DELAY).map_err(wrong)?;
        if delay > LONG && long.is_none() {
            long = Some((i + 1, delay));
        }
        recording.delays.push(delay);
    }
    if recording.delays.is_empty() {
        let what = "no delay at all: expected one in seconds on each line".to_owned();
        return Err(DelayError { line: 0, what });
    }
    in_seconds(&recording.delays, long)?;
    Ok(recording)
}

/// Refuses delays that are plainly in another unit. `long` are the line and the value of the first
/// one that is longer than [`LONG`].
fn in_seconds(delays: &[f64], long: Option<(usize, f64)>) -> Result<(), DelayError> {
    let mut sorted = delays.to_vec();
    let middle = sorted.len() / 2;
    let (_, median, _) = sorted.select_nth_unstable_by(middle, f64::total_cmp);
    let hint = "delays are in seconds; divide milliseconds by 1000";
    if *median > MEDIAN {
        return Err(DelayError { line: 0, what: format!("the median delay is {median}: {hint}") });
    }
    match long {
        Some((line, delay)) if *median > QUICK => {
            let what = format!("the delay {delay} is far above the median of {median}: {hint}");
            Err(DelayError { line, what })
        }
        _ => Ok(()),
    }
}

/// A number within a range.
fn number(what: &str, text: &str, low: f64, high: f64) -> Result<f64, String> {
    let shown: String = text.chars().take(40).collect();
    match text.parse::<f64>() {
        Ok(value) if value >= low && value <= high => Ok(value),
        Ok(_) => Err(format!("{what} {shown:?} must be between {low} and {high} s")),
        Err(_) if text.contains(',') => Err(format!(
            "{what} {shown:?} is not a number: write a decimal point, and separate columns by blanks"
        )),
        Err(_) => Err(format!("{what} {shown:?} is not a number")),
    }
}
