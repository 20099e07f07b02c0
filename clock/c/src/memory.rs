//! Text from C and to C.

use std::ffi::{CStr, OsStr, c_char};
use std::fmt::{self, Display, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The path that a string of C names; `None` for a null pointer.
pub(crate) fn path<'a>(text: *const c_char) -> Option<&'a Path> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null, and by the function's contract a string that ends with a zero byte and stays
    // as it is during the call; the reference does not outlive that.
    let text = unsafe { CStr::from_ptr(text) };
    Some(Path::new(OsStr::from_bytes(text.to_bytes())))
}

/// Puts a text into a buffer of `size` bytes, cut off where that is too small, with a zero byte at
/// its end. Does nothing for a null pointer or a size of 0. Nothing is allocated.
pub(crate) fn put(text: impl Display, buffer: *mut c_char, size: usize) {
    if buffer.is_null() || size == 0 {
        return;
    }
    let mut rest = Rest { at: buffer, size };
    // Fails where it is cut off.
    let _ = rest.write_str("").and_then(|()| write!(rest, "{text}"));
}

/// Rest of a buffer of the caller's: not null, and one byte at least.
struct Rest {
    at: *mut c_char,
    size: usize,
}

impl Write for Rest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let length = text.floor_char_boundary_before(self.size);
        // SAFETY: by the function's contract `size` > `length` bytes that may be written; the text is
        // ours and lies elsewhere.
        self.at = unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), self.at, length);
            let end = self.at.add(length);
            end.write(0);
            end
        };
        self.size -= length;
        if length < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

/// Length of the part of a text that goes before a zero byte.
trait Boundary {
    fn floor_char_boundary_before(&self, size: usize) -> usize;
}

impl Boundary for str {
    fn floor_char_boundary_before(&self, size: usize) -> usize {
        let most = self.len().min(size.saturating_sub(1));
        (0..=most).rev().find(|at| self.is_char_boundary(*at)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_a_character_and_ended() {
        for (size, expected) in [(1, ""), (2, "a"), (3, "a"), (4, "aß"), (5, "aßc"), (9, "aßc")]
        {
            let mut buffer = [0x55_i8 as c_char; 9];
            put(format_args!("{}ß{}", 'a', 'c'), buffer.as_mut_ptr(), size);
            let end = expected.len();
            let bytes = buffer.map(|byte| byte as u8);
            assert_eq!((&bytes[..end], bytes[end]), (expected.as_bytes(), 0), "{size}");
            assert!(bytes[size.min(end + 1)..].iter().all(|byte| *byte == 0x55), "{size}");
        }
        put("abc", std::ptr::null_mut(), 9);
    }
}
