//! Stamp files: exchanges with one server as plain text, a row each.
//!
//! Columns `Ta Tb Te Tf`, and where a reference tap on the client's wire stamped the same packets
//! `RefIn RefOut` as well: counts as unsigned integers, times as Unix seconds with any number of
//! decimals. `docs/reference/stamp-files.md` has the whole format.
//!
//! Times never pass through a float: a decimal number goes to the nearest multiple of 2⁻⁶⁴ s, and
//! what [`write_stamps`] writes is read back to the last bit.

use core::fmt;
use std::io::{self, BufRead};

use truechimer_time::{Count, Instant, Rate, Span};

mod decimal;
mod fault;

pub use decimal::{Digits, unix_seconds};
pub use fault::{Fault, StampError};

/// The longest line that is read, in bytes.
pub const MAX_LINE: usize = 4096;
/// The columns, in their order.
pub const COLUMNS: [&str; 6] = ["Ta", "Tb", "Te", "Tf", "RefIn", "RefOut"];
/// Columns without and with a reference.
const WIDTHS: [usize; 2] = [4, 6];
/// Keys that comments may declare.
const KEYS: [&str; 5] =
    ["nominal-hz", "nominal-error", "stamp-error", "root-distance", "precision"];
/// 2200-01-01: nothing later is a Unix time in seconds.
pub const LATEST: u64 = 7_258_118_400;

/// One row: an exchange in raw counts and Unix seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamped {
    /// Ta: the request left.
    pub sent: Count,
    /// Tb: the server received it, by the server's clock.
    pub server_received: Instant,
    /// Te: the server sent the reply, by the server's clock.
    pub server_sent: Instant,
    /// Tf: the reply arrived.
    pub received: Count,
    /// When the same packets passed the reference, if there was one.
    pub reference: Option<Reference>,
}

/// The packets of an exchange as a reference tap on the client's wire saw them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reference {
    /// RefIn: the request.
    pub sent: Instant,
    /// RefOut: the reply.
    pub received: Instant,
}

/// A row and where it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// The number of its line, from 1.
    pub line: u64,
    /// Contents of the row.
    pub stamped: Stamped,
}

/// Declarations in the comments of a file: `# nominal-hz: 1000000000`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Declared {
    /// Counts per second, nominally.
    pub nominal_hz: Option<u64>,
    /// Bound of what the true rate may differ from the nominal one.
    pub nominal_error: Option<Rate>,
    /// Bound of the error of each count.
    pub stamp_error: Option<Span>,
    /// The server's root distance.
    pub root_distance: Option<Span>,
    /// Resolution of the server's stamps, which is part of that.
    pub precision: Option<Span>,
}

/// Reads a stamp file row by row, in memory that does not depend on its length.
///
/// It ends with the first error. A file without a single row is an error.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    line: u64,
    /// Columns of the first row, and its line.
    width: Option<(usize, u64)>,
    declared: Declared,
    /// The lines in which [`KEYS`] were declared.
    declared_in: [Option<u64>; KEYS.len()],
    buffer: Vec<u8>,
    ended: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads from `input`.
    pub fn new(input: R) -> Reader<R> {
        Reader {
            input,
            line: 0,
            width: None,
            declared: Declared::default(),
            declared_in: [None; KEYS.len()],
            buffer: Vec::new(),
            ended: false,
        }
    }

    /// Declarations of the comments so far. Those that stand before the first row are known once
    /// that has been read.
    pub fn declared(&self) -> Declared {
        self.declared
    }

    /// The line in which this key was declared.
    pub fn declared_in(&self, key: &str) -> Option<u64> {
        let at = KEYS.iter().position(|known| *known == key)?;
        *self.declared_in.get(at)?
    }

    /// The next line into the buffer, without its end. `false` at the end of the file.
    fn fill(&mut self) -> Result<bool, StampError> {
        self.buffer.clear();
        loop {
            let chunk = match self.input.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(StampError::Unreadable(error)),
            };
            if chunk.is_empty() {
                self.line += u64::from(!self.buffer.is_empty());
                return Ok(!self.buffer.is_empty());
            }
            let end = chunk.iter().position(|&byte| byte == b'\n');
            let part = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or(chunk);
            if self.buffer.len() + part.len() > MAX_LINE {
                self.line += 1;
                return Err(Fault {
                    line: self.line,
                    column: None,
                    expected: format!("at most {MAX_LINE} bytes in a line"),
                    found: "more".into(),
                    mend: "is this a stamp file, with a row per line?",
                }
                .into());
            }
            self.buffer.extend_from_slice(part);
            let used = part.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_some() {
                self.line += 1;
                return Ok(true);
            }
        }
    }

    fn next_row(&mut self) -> Result<Option<Row>, StampError> {
        while self.fill()? {
            let mut text = self.buffer.as_slice();
            if self.line == 1 {
                text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
            }
            if text.contains(&0) {
                return Err(Fault {
                    line: self.line,
                    column: None,
                    expected: "text".into(),
                    found: "a zero byte".into(),
                    mend: "is it binary, compressed or UTF-16? Give plain ASCII or UTF-8",
                }
                .into());
            }
            let comment = text.iter().position(|&byte| byte == b'#' || byte == b'%');
            if let Some(comment) = comment.and_then(|at| text.get(at + 1..)) {
                declare(&mut self.declared, &mut self.declared_in, comment, self.line)?;
            }
            let data = text.get(..comment.unwrap_or(text.len())).unwrap_or(text);
            let (fields, columns) = split(data);
            if columns == 0 {
                continue;
            }
            let stamped = self.row(&fields, columns)?;
            self.width.get_or_insert((columns, self.line));
            return Ok(Some(Row { line: self.line, stamped }));
        }
        if self.width.is_none() { Err(StampError::Empty { lines: self.line }) } else { Ok(None) }
    }

    fn row(&self, fields: &[&[u8]; 6], columns: usize) -> Result<Stamped, StampError> {
        let line = self.line;
        if !WIDTHS.contains(&columns) {
            return Err(fault::wrong_width(line, columns, fields).into());
        }
        if let Some((width, first)) = self.width
            && width != columns
        {
            return Err(fault::changed_width(line, columns, width, first).into());
        }
        let [ta, tb, te, tf, ref_in, ref_out] = *fields;
        let count = |column, text| fault::count(text).map_err(|why| why.at(line, column));
        let time = |column, text| fault::time(text).map_err(|why| why.at(line, column));
        Ok(Stamped {
            sent: count(0, ta)?,
            server_received: time(1, tb)?,
            server_sent: time(2, te)?,
            received: count(3, tf)?,
            reference: match columns {
                6 => Some(Reference { sent: time(4, ref_in)?, received: time(5, ref_out)? }),
                _ => None,
            },
        })
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Row, StampError>;

    fn next(&mut self) -> Option<Result<Row, StampError>> {
        if self.ended {
            return None;
        }
        let row = self.next_row();
        self.ended = !matches!(row, Ok(Some(_)));
        row.transpose()
    }
}

/// The first six fields, and how many there are.
fn split(data: &[u8]) -> ([&[u8]; 6], usize) {
    let mut fields: [&[u8]; 6] = [b""; 6];
    let mut columns = 0;
    let data = data.strip_suffix(b"\r").unwrap_or(data);
    for field in data.split(|&byte| byte == b' ' || byte == b'\t').filter(|f| !f.is_empty()) {
        if let Some(place) = fields.get_mut(columns) {
            *place = field;
        }
        columns += 1;
    }
    (fields, columns)
}

/// Takes in a comment of the form `key: value` if the key is one of ours. All other comments say
/// nothing to us.
fn declare(
    declared: &mut Declared,
    declared_in: &mut [Option<u64>; KEYS.len()],
    comment: &[u8],
    line: u64,
) -> Result<(), Fault> {
    let Ok(comment) = core::str::from_utf8(comment) else { return Ok(()) };
    let Some((key, value)) = comment.split_once(':') else { return Ok(()) };
    let key = key.trim().to_ascii_lowercase();
    let known = KEYS.iter().position(|known| *known == key);
    let Some(before) = known.and_then(|at| declared_in.get_mut(at)) else { return Ok(()) };
    if let Some(before) = before.replace(line) {
        return Err(Fault {
            line,
            column: None,
            expected: format!("'{key}:' once"),
            found: format!("it again, after line {before}"),
            mend: "leave one of the two out; where files were joined, replay them one by one",
        });
    }
    let value = value.trim();
    let wrong = |expected: &str, mend| Fault {
        line,
        column: None,
        expected: expected.into(),
        found: fault::shown(value.as_bytes()),
        mend,
    };
    let span = |key: &str| match value.parse::<Span>() {
        Ok(span) if !span.is_negative() => Ok(Some(span)),
        _ => Err(wrong(&format!("a span of time after '{key}:'"), "write it as in 20us or 150ns")),
    };
    match key.as_str() {
        "nominal-hz" => match value.parse::<u64>() {
            Ok(hz) if hz >= 2 => declared.nominal_hz = Some(hz),
            _ => {
                let mend = "write it as in 1000000000, or leave the comment out";
                return Err(wrong("whole counts per second, 2 or more, after 'nominal-hz:'", mend));
            }
        },
        "nominal-error" => match value.parse::<Rate>() {
            Ok(error) if error > Rate::ZERO => declared.nominal_error = Some(error),
            _ => return Err(wrong("a rate after 'nominal-error:'", "write it as in 500 ppm")),
        },
        "stamp-error" => declared.stamp_error = span("stamp-error")?,
        "root-distance" => declared.root_distance = span("root-distance")?,
        "precision" => declared.precision = span("precision")?,
        _ => {}
    }
    Ok(())
}

/// Writes a header: what the columns are, and what is known of them.
///
/// # Errors
/// If `out` takes no more.
pub fn write_header(declared: &Declared, reference: bool, out: &mut dyn fmt::Write) -> fmt::Result {
    let names = COLUMNS.get(..if reference { 6 } else { 4 }).unwrap_or(&COLUMNS);
    writeln!(out, "# {}", names.join(" "))?;
    writeln!(out, "# counts, and Unix seconds to 2^-64 s")?;
    if let Some(hz) = declared.nominal_hz {
        writeln!(out, "# nominal-hz: {hz}")?;
    }
    if let Some(error) = declared.nominal_error {
        writeln!(out, "# nominal-error: {error}")?;
    }
    let spans = [
        ("stamp-error", declared.stamp_error),
        ("root-distance", declared.root_distance),
        ("precision", declared.precision),
    ];
    for (key, span) in spans {
        if let Some(span) = span {
            writeln!(out, "# {key}: {}s", Digits(Instant::default() + span))?;
        }
    }
    Ok(())
}

/// Writes rows, without a header. Times before 1970 are written as 0.
///
/// # Errors
/// If `out` takes no more.
pub fn write_stamps(stamps: &[Stamped], out: &mut dyn fmt::Write) -> fmt::Result {
    for stamped in stamps {
        let Stamped { sent, server_received, server_sent, received, reference } = stamped;
        let (tb, te) = (Digits(*server_received), Digits(*server_sent));
        write!(out, "{} {tb} {te} {}", sent.0, received.0)?;
        if let Some(Reference { sent, received }) = reference {
            write!(out, " {} {}", Digits(*sent), Digits(*received))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
