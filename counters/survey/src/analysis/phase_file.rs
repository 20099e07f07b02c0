//! Phase files: samples of the phase as text, as Stable32 and allantools read and write them.
//!
//! One phase in seconds a line, or a time and a phase in seconds, with blanks, tabs or a comma
//! between. `#`, `%`, `;` and `!` begin a comment. Before the first sample any line that begins
//! with a letter is a heading. Comments and headings may hold `key: value` or `key = value`;
//! `tau0`, `tau` or `interval` says how many seconds the samples are apart. `nan` is a gap, and so
//! is a time that is missing from the row.

use std::fmt;
use std::io::{self, BufRead, Read, Write};

/// More samples than this (four months, one a second) are refused, gaps included.
pub const MOST_SAMPLES: usize = 10_000_000;
const MOST: usize = MOST_SAMPLES;
/// Longer lines are refused.
const LONGEST_LINE: u64 = 1000;
/// Number of headings that are kept.
const MOST_FIELDS: usize = 100;
/// One in so many samples may be too close to its neighbour; more, and the interval is wrong.
const CROWDED: usize = 10;

/// Fault of a phase file, and its place.
#[derive(Debug)]
pub struct PhaseFileError {
    /// In which line, counting from 1, if in one.
    pub line: Option<u64>,
    /// Fault that it is.
    pub fault: Fault,
}

/// Faults of a phase file, or of rows of samples.
#[derive(Debug)]
pub enum Fault {
    /// File that cannot be read.
    Io(io::Error),
    /// The line is too long or is no text.
    NotText,
    /// This is no number.
    NotANumber(String),
    /// Wrong number of columns; one or two are right, and all lines must have the same.
    Columns(usize),
    /// The declared interval is no positive number.
    Interval(String),
    /// The time is not later than the one before.
    Order,
    /// Too many samples, or too large a gap.
    TooMany,
    /// No sample in it.
    Empty,
    /// The interval is not known.
    NoInterval,
    /// Number of times that fall on one that is taken: they are not this many seconds apart.
    Crowded(usize, f64),
}

impl fmt::Display for PhaseFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        match &self.fault {
            Fault::Io(why) => write!(f, "{why}"),
            Fault::NotText => {
                write!(f, "longer than {LONGEST_LINE} bytes, or not UTF-8: no phase file")
            }
            Fault::NotANumber(text) => write!(
                f,
                "{text:?} is no finite number; a line holds a phase in seconds, or a time and a phase"
            ),
            Fault::Columns(n) => write!(
                f,
                "{n} columns; every line must hold a phase, or every line a time and a phase"
            ),
            Fault::Interval(text) => {
                write!(f, "the interval {text:?} is no positive number of seconds")
            }
            Fault::Order => f.write_str("the time is not later than the one before"),
            Fault::TooMany => write!(f, "more than {MOST} samples, counting those in gaps"),
            Fault::Empty => f.write_str("there are no phases in it"),
            Fault::NoInterval => f.write_str(
                "nothing says how far apart the samples are; write '# tau0: SECONDS' before them",
            ),
            Fault::Crowded(n, interval) => write!(
                f,
                "{n} samples are nearer to each other than the interval of {interval} s: state the \
                 interval at which they were taken"
            ),
        }
    }
}

impl std::error::Error for PhaseFileError {}

impl Fault {
    fn at(self, line: u64) -> PhaseFileError {
        PhaseFileError { line: Some(line), fault: self }
    }

    fn anywhere(self) -> PhaseFileError {
        PhaseFileError { line: None, fault: self }
    }
}

/// Header before the samples.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Header {
    /// Seconds between samples, if it says so.
    pub interval_s: Option<f64>,
    /// All that was `key: value` or `key = value`, in order; keys in small letters.
    pub fields: Vec<(String, String)>,
}

impl Header {
    /// The first value of this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.fields.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
    }
}

/// One sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Row {
    /// The line it stands in; 0 if in none.
    pub line: u64,
    /// When, s since whenever; `None` if there is no such column.
    pub time_s: Option<f64>,
    /// The phase, s; not a number for a gap.
    pub phase_s: f64,
}

/// A phase file that was read.
#[derive(Clone, PartialEq, Debug)]
pub struct PhaseFile {
    /// Header of the file.
    pub header: Header,
    /// Samples: all with a time, or all without.
    pub rows: Vec<Row>,
}

impl PhaseFile {
    /// Reads one.
    ///
    /// # Errors
    /// The first thing that is wrong, and its line.
    pub fn read(mut from: impl BufRead) -> Result<PhaseFile, PhaseFileError> {
        let mut file = PhaseFile { header: Header::default(), rows: Vec::new() };
        let mut bytes = Vec::new();
        for line in 1.. {
            bytes.clear();
            let limited = &mut (&mut from).take(LONGEST_LINE + 1);
            let read = limited.read_until(b'\n', &mut bytes);
            if read.map_err(|why| Fault::Io(why).at(line))? == 0 {
                break;
            }
            let text = std::str::from_utf8(&bytes).map_err(|_| Fault::NotText.at(line))?;
            if bytes.len() as u64 > LONGEST_LINE {
                return Err(Fault::NotText.at(line));
            }
            file.take(text, line)?;
        }
        if file.rows.is_empty() { Err(Fault::Empty.anywhere()) } else { Ok(file) }
    }

    fn take(&mut self, text: &str, line: u64) -> Result<(), PhaseFileError> {
        // A byte order mark, as some editors write.
        let text = text.trim_start_matches('\u{feff}').trim();
        let Some(first) = text.chars().next() else { return Ok(()) };
        if matches!(first, '#' | '%' | ';' | '!') {
            return self.heading(text.trim_start_matches(['#', '%', ';', '!']), line);
        }
        let (data, comment) = match text.find(['#', '%', ';', '!']) {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        let mut words =
            data.split(|c: char| c.is_whitespace() || c == ',').filter(|w| !w.is_empty());
        let (one, two, rest) = (words.next(), words.next(), words.count());
        let Some(one) = one else { return Ok(()) };
        if self.rows.is_empty() && first.is_alphabetic() && !is_gap(one) {
            return self.heading(text, line);
        }
        if rest > 0 {
            return Err(Fault::Columns(rest + 2).at(line));
        }
        let (time_s, phase_s) = match two {
            Some(phase) => (Some(number(one, line)?), phase),
            None => (None, one),
        };
        let phase_s = if is_gap(phase_s) { f64::NAN } else { number(phase_s, line)? };
        if let Some(last) = self.rows.last() {
            match (last.time_s, time_s) {
                (Some(before), Some(now)) if now <= before => return Err(Fault::Order.at(line)),
                (Some(_), None) => return Err(Fault::Columns(1).at(line)),
                (None, Some(_)) => return Err(Fault::Columns(2).at(line)),
                _ => {}
            }
        }
        if self.rows.len() >= MOST {
            return Err(Fault::TooMany.at(line));
        }
        self.rows.push(Row { line, time_s, phase_s });
        if comment.is_empty() { Ok(()) } else { self.heading(&comment[1..], line) }
    }

    /// A comment or heading, which may say something.
    fn heading(&mut self, text: &str, line: u64) -> Result<(), PhaseFileError> {
        let Some((key, value)) = text.split_once([':', '=']) else { return Ok(()) };
        let (key, value) = (key.trim().to_lowercase(), value.trim());
        if matches!(key.as_str(), "tau0" | "tau" | "interval") && self.header.interval_s.is_none() {
            let digits = value.trim_end_matches(|c: char| c == 's' || c.is_whitespace());
            let interval = digits.parse().ok().filter(|v: &f64| *v > 0.0 && v.is_finite());
            let wrong = || Fault::Interval(short(value)).at(line);
            self.header.interval_s = Some(interval.ok_or_else(wrong)?);
        }
        if self.header.fields.len() < MOST_FIELDS {
            self.header.fields.push((key, value.to_owned()));
        }
        Ok(())
    }

    /// The samples `interval` seconds apart (what the file says, if `None`; else the median
    /// distance of its times), and that interval. Times are put in order as [`regular`] does.
    ///
    /// # Errors
    /// Without an interval, or if the times do not go with it.
    pub fn samples(&self, interval: Option<f64>) -> Result<(Vec<f64>, f64), PhaseFileError> {
        let interval = interval.or(self.header.interval_s).or_else(|| self.median_distance());
        let interval = interval.ok_or_else(|| Fault::NoInterval.anywhere())?;
        if self.rows.iter().any(|row| row.time_s.is_some()) {
            Ok((regular(&self.rows, interval)?, interval))
        } else {
            Ok((self.rows.iter().map(|row| row.phase_s).collect(), interval))
        }
    }

    fn median_distance(&self) -> Option<f64> {
        let times = self.rows.windows(2).filter_map(|pair| match pair {
            [a, b] => Some(b.time_s? - a.time_s?),
            _ => None,
        });
        super::outliers::median(times)
    }
}

/// Samples taken at about every `interval` seconds as samples taken at exactly every `interval`,
/// from the first one on: each is moved to the nearest such time along the mean slope of the phase,
/// and what is missing becomes a gap. Of two that fall on the same place the nearer one counts.
/// Rows must have times, in order.
///
/// # Errors
/// If there are too many, counting gaps, or if more than a few fall on the same place.
pub fn regular(rows: &[Row], interval: f64) -> Result<Vec<f64>, PhaseFileError> {
    if !(interval > 0.0 && interval.is_finite()) {
        return Err(Fault::Interval(interval.to_string()).anywhere());
    }
    let start = rows.iter().find_map(|row| row.time_s).unwrap_or(0.0);
    let slope = slope(rows, start);
    let mut phase: Vec<f64> = Vec::new();
    let (mut crowded, mut off_before) = (0, 0.0);
    for row in rows {
        let Some(time) = row.time_s else { continue };
        let place = libm::round((time - start) / interval);
        let off = time - start - place * interval;
        if !(place >= 0.0 && place < MOST as f64) {
            return Err(Fault::TooMany.at(row.line));
        }
        let moved = row.phase_s - slope * off;
        if (place as usize) < phase.len() {
            crowded += 1;
            let Some(last) = phase.last_mut() else { continue };
            if off.abs() < f64::abs(off_before) || last.is_nan() {
                (*last, off_before) = (moved, off);
            }
        } else {
            phase.resize(place as usize, f64::NAN);
            phase.push(moved);
            off_before = off;
        }
    }
    if crowded > 1 + rows.len() / CROWDED {
        return Err(Fault::Crowded(crowded, interval).anywhere());
    }
    Ok(phase)
}

/// The slope of the straight line through the samples, by least squares; 0 where there is none.
fn slope(rows: &[Row], start: f64) -> f64 {
    let points = || {
        let point = |row: &Row| Some((row.time_s? - start, row.phase_s));
        rows.iter().filter_map(point).filter(|(_, x)| x.is_finite())
    };
    let n = points().count() as f64;
    let (t, x) = points().fold((0.0, 0.0), |(t, x), point| (t + point.0 / n, x + point.1 / n));
    let (up, along) = points().fold((0.0, 0.0), |(up, along), point| {
        (up + (point.0 - t) * (point.1 - x), along + (point.0 - t) * (point.0 - t))
    });
    let slope = up / along;
    if slope.is_finite() { slope } else { 0.0 }
}

/// Writes one sample: what is written is read back to the last bit.
///
/// # Errors
/// Those of writing.
pub fn write_row(out: &mut impl Write, time_s: Option<f64>, phase_s: f64) -> io::Result<()> {
    if let Some(time) = time_s {
        write!(out, "{time} ")?;
    }
    if phase_s.is_finite() { writeln!(out, "{phase_s:e}") } else { writeln!(out, "nan") }
}

fn is_gap(word: &str) -> bool {
    word.eq_ignore_ascii_case("nan")
}

fn number(word: &str, line: u64) -> Result<f64, PhaseFileError> {
    let value = word.parse().ok().filter(|v: &f64| v.is_finite());
    value.ok_or_else(|| Fault::NotANumber(short(word)).at(line))
}

/// Shortens it to what a message has room for.
fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<PhaseFile, PhaseFileError> {
        PhaseFile::read(text.as_bytes())
    }

    fn fault(text: &str) -> String {
        let failed = read(text).and_then(|file| file.samples(None).map(drop));
        failed.unwrap_err().to_string()
    }

    #[test]
    fn the_forms_that_are_about() {
        let plain = read("# tau0: 10\n1e-9\n 2.5E-9 ; so so\n\nNaN\n-1\n").unwrap();
        let (samples, interval) = plain.samples(None).unwrap();
        assert_eq!((samples.len(), interval, samples[1]), (4, 10.0, 2.5e-9));
        assert!(samples[2].is_nan());
        assert_eq!(plain.samples(Some(3.0)).unwrap().1, 3.0);
        // As Stable32 begins its files.
        let headed = "File: PHASE.DAT\r\nDate: 02/01/05 08:30:10\r\nType: Phase\r\n\
                      Data Points 1 thru 3 of 3\r\nTau=1.00000e-01\r\n1.0\r\n2.0\r\n4.0\r\n";
        let headed = read(headed).unwrap();
        assert_eq!(headed.samples(None).unwrap(), (vec![1.0, 2.0, 4.0], 0.1));
        assert_eq!(headed.header.get("type"), Some("Phase"));
        let timed = read("% MJD in s\n100 1\n101,2\n102\t3\n104 5\n").unwrap();
        let (samples, interval) = timed.samples(None).unwrap();
        assert_eq!(interval, 1.0);
        assert_eq!(
            samples.iter().map(|v| v.is_nan()).collect::<Vec<_>>(),
            [false, false, false, true, false]
        );
    }

    #[test]
    fn late_samples_are_moved_along_the_slope() {
        // A clock that gains 1e-3, looked at at uneven times.
        let times = [0.0, 1.2, 1.9, 3.0, 5.3];
        let rows = times.map(|t| Row { line: 0, time_s: Some(t), phase_s: 1e-3 * t });
        let phase = regular(&rows, 1.0).unwrap();
        for (i, value) in phase.iter().enumerate() {
            let gap = i == 4;
            assert!(
                value.is_nan() == gap && (gap || (value - 1e-3 * i as f64).abs() < 1e-12),
                "{phase:?}"
            );
        }
        // Two on one place: the nearer one.
        let rows = [0.0, 1.0, 1.4].map(|t| Row {
            line: 0,
            time_s: Some(t),
            phase_s: if t == 1.4 { 9.0 } else { 0.0 },
        });
        assert_eq!(regular(&rows, 1.0).unwrap().len(), 2);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, says) in [
            ("", "no phases"),
            ("# tau0: 1\n", "no phases"),
            ("1\n2\n3\n", "# tau0"),
            ("1\nx\n", "line 2: \"x\" is no finite number"),
            ("1\n2\ninf\n", "line 3: \"inf\""),
            ("tau = 0\n1\n", "line 1: the interval \"0\""),
            ("1 2\n3\n", "line 2: 1 columns"),
            ("1\n2 3\n", "line 2: 2 columns"),
            ("1 2 3\n", "line 1: 3 columns"),
            ("1 2\n1 3\n", "line 2: the time is not later"),
            ("nan 1\n", "line 1: \"nan\""),
            ("# tau0: 1\n0 1\n1e9 1\n", "line 3: more than"),
            ("# tau0: 100\n0 1\n1 1\n2 2\n3 3\n", "state the interval"),
        ] {
            let got = fault(text);
            assert!(got.contains(says), "{text:?}: {got}");
        }
        let long = "1".repeat(2000);
        assert!(fault(&long).contains("line 1: longer than"), "{}", fault(&long));
        let bytes: &[u8] = b"1\n\xff\xfe\n";
        assert!(PhaseFile::read(bytes).unwrap_err().to_string().starts_with("line 2: "));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let rows = [(0.0, 1e-300), (1.000_000_123, -0.1), (2.5, f64::NAN), (3.0, 12_345.678_9)];
        for timed in [true, false] {
            let mut bytes = b"# tau0: 1\n".to_vec();
            for (time, phase) in rows {
                write_row(&mut bytes, timed.then_some(time), phase).unwrap();
            }
            let again = PhaseFile::read(&bytes[..]).unwrap().rows;
            for (row, (time, phase)) in again.iter().zip(rows) {
                assert_eq!(row.time_s, timed.then_some(time));
                assert!(row.phase_s == phase || (phase.is_nan() && row.phase_s.is_nan()));
            }
        }
    }
}
