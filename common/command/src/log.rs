//! Lines that a daemon writes: with a priority for the journal, with a time for a file or a pipe,
//! and as they are for a terminal.
//!
//! ```
//! use truechimer_command::log::{Form, Priority};
//!
//! assert_eq!(Form::Journal.line(Priority::Warning, "a: held off", 0), "<4>a: held off\n");
//! assert_eq!(Form::Timed.line(Priority::Info, "a", 0), "1970-01-01T00:00:00.000Z a\n");
//! assert_eq!(Form::Bare.line(Priority::Info, "a", 0), "a\n");
//! ```

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use truechimer_time::Utc;

use crate::show;

/// Device and inode of the journal's socket, as systemd tells them.
const VARIABLE: &str = "JOURNAL_STREAM";

/// Form of what goes to standard error; set by a program that keeps a log there.
static ERRORS: OnceLock<Form> = OnceLock::new();

/// Gravity of a line: the number in front of it is that of syslog(3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Priority {
    /// Failure that ends the program.
    Error = 3,
    /// Somebody should look after it.
    Warning = 4,
    /// Normal course of things.
    Info = 6,
    /// For those who look for a fault.
    Debug = 7,
}

/// Form of lines, by their reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Each line with its priority, as sd-daemon(3) has it; the journal adds the time.
    Journal,
    /// Each with the time.
    Timed,
    /// Nothing added.
    Bare,
}

impl Form {
    /// Form that suits this stream.
    pub fn of(stream: &(impl AsFd + IsTerminal)) -> Form {
        if is_journal(stream) {
            Form::Journal
        } else if stream.is_terminal() {
            Form::Bare
        } else {
            Form::Timed
        }
    }

    /// A text as it is to be written, of that Unix time in ns. Of several lines each gets what the
    /// first one gets, so that none passes for a line of its own.
    #[must_use]
    pub fn line(self, priority: Priority, text: &str, unix_ns: i64) -> String {
        let before = match self {
            Form::Journal => format!("<{}>", priority as u8),
            Form::Timed => time(unix_ns) + " ",
            Form::Bare => String::new(),
        };
        text.lines().map(|line| format!("{before}{line}\n")).collect()
    }

    /// Text of this moment, likewise.
    #[must_use]
    pub fn now(self, priority: Priority, text: &str) -> String {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.line(priority, text, i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
    }
}

/// Declares that standard error is this program's log from now on, its last words included. Of a
/// program that ends before, whoever started it is told as by any other.
pub fn begin() {
    ERRORS.get_or_init(|| Form::of(&io::stderr()));
}

/// Writes to standard error. Nobody may be listening any more: the program goes on.
pub fn say(priority: Priority, text: &str) {
    // One write, so that no line of another thread or process comes in between.
    let line = errors().now(priority, &show::plain(text));
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Form of lines on standard error: without a log, a time would be in the way.
fn errors() -> Form {
    let without = || if is_journal(&io::stderr()) { Form::Journal } else { Form::Bare };
    ERRORS.get().copied().unwrap_or_else(without)
}

/// True if this stream is the one that the journal reads.
fn is_journal(stream: &impl AsFd) -> bool {
    let Ok(named) = std::env::var(VARIABLE) else { return false };
    let there = stream.as_fd().try_clone_to_owned().and_then(|own| File::from(own).metadata());
    there.is_ok_and(|there| named == format!("{}:{}", there.dev(), there.ino()))
}

/// To the millisecond.
fn time(unix_ns: i64) -> String {
    let (unix, nanos) = (unix_ns.div_euclid(1_000_000_000), unix_ns.rem_euclid(1_000_000_000));
    // Rounded up, as showing it rounds down.
    let frac = (((nanos as u128) << 64) / 1_000_000_000 + 1) as u64;
    let whole = show::utc(Utc { unix, frac, leap_second: false });
    let cut = whole.len().saturating_sub("000000Z".len());
    whole.get(..cut).map(|cut| format!("{cut}Z")).unwrap_or(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_its_priority_or_its_time() {
        let text = "truechimer: warning: held off\n<0>forged";
        assert_eq!(
            Form::Journal.line(Priority::Warning, text, 7),
            "<4>truechimer: warning: held off\n<4><0>forged\n"
        );
        let at = 1_795_789_854_123_456_789;
        assert_eq!(
            Form::Timed.line(Priority::Error, "a\nb", at),
            "2026-11-27T14:30:54.123Z a\n2026-11-27T14:30:54.123Z b\n"
        );
        assert_eq!(Form::Bare.line(Priority::Info, text, at), format!("{text}\n"));
    }

    #[test]
    fn a_pipe_that_is_not_the_journals_gets_times() {
        let (reader, _writer) = io::pipe().unwrap();
        assert_eq!(Form::of(&std::os::fd::OwnedFd::from(reader)), Form::Timed);
    }
}
