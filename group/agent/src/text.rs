//! Small text files that somebody else may have written.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The text of a file, unless it is larger than `limit` bytes or anything but a regular file.
///
/// # Errors
/// If it cannot be read or is none of that.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<String> {
    // A pipe in its place does not hold us up.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("is not a regular file"));
    }
    let mut text = String::new();
    file.take(limit.saturating_add(1)).read_to_string(&mut text)?;
    if text.len() as u64 > limit {
        return Err(io::Error::other(format!("is larger than {limit} bytes")));
    }
    Ok(text)
}

/// A text of others as it can be shown: no control characters, and not too long.
pub(crate) fn printable(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut shown: String =
        text.chars().take(LONGEST).map(|c| if c.is_control() { '?' } else { c }).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_regular_text_is_read() {
        let path =
            std::env::temp_dir().join(format!("truechimer-agent-text-{}", std::process::id()));
        std::fs::write(&path, "123456789").unwrap();
        assert_eq!(read(&path, 9).unwrap(), "123456789");
        assert!(read(&path, 8).unwrap_err().to_string().contains("larger than 8"));
        std::fs::write(&path, b"\xff").unwrap();
        assert_eq!(read(&path, 9).unwrap_err().kind(), io::ErrorKind::InvalidData);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read(&path, 9).unwrap_err().kind(), io::ErrorKind::NotFound);
        for special in ["/", "/dev/null"] {
            assert!(read(Path::new(special), 9).is_err());
        }
    }

    #[test]
    fn what_is_shown_can_be_shown() {
        assert_eq!(printable("a\u{1b}[31m\n"), "a?[31m?");
        assert_eq!(printable(&"ä".repeat(70)), "ä".repeat(60) + "…");
    }
}
