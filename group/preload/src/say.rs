//! Messages to standard error, made without allocating: they may come from a signal handler.

use core::ffi::CStr;
use core::fmt::{self, Write};

use crate::kernel;

/// The exit status when there is no agreed time to be had.
pub const NO_TIME: i32 = 75;
/// The exit status when the settings in the environment are wrong.
pub const WRONG_SETTINGS: i32 = 78;

struct Line {
    text: [u8; 400],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            // One place is kept for the end of the line.
            if self.length + 1 < self.text.len()
                && let Some(at) = self.text.get_mut(self.length)
            {
                *at = if byte.is_ascii_control() { b'?' } else { byte };
                self.length += 1;
            }
        }
        Ok(())
    }
}

/// One line on standard error.
pub fn line(what: fmt::Arguments<'_>) {
    let mut line = Line { text: [0; 400], length: 0 };
    let _ = write!(line, "truechimer-group[{}]: {what}", kernel::pid());
    if let Some(end) = line.text.get_mut(line.length) {
        *end = b'\n';
        line.length += 1;
    }
    kernel::complain(line.text.get(..line.length).unwrap_or_default());
}

/// One line on standard error, and the end of the process.
pub fn fail(status: i32, what: fmt::Arguments<'_>) -> ! {
    line(what);
    kernel::end(status)
}

/// A short text with a zero at its end.
pub struct Text([u8; 32]);

impl Text {
    /// The text, or as much of it as fits.
    pub fn of(what: fmt::Arguments<'_>) -> Text {
        let mut line = Line { text: [0; 400], length: 0 };
        let _ = line.write_fmt(what);
        let mut text = Text([0; 32]);
        for (to, from) in text.0.iter_mut().take(31).zip(line.text) {
            *to = from;
        }
        text
    }

    /// String as C has it.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}
