//! Small text files that somebody else may have written, and texts of others in messages.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;

/// The text of a file, unless it is larger than `limit` bytes or anything but a regular file:
/// opening or reading a pipe could wait for ever.
///
/// # Errors
/// If it cannot be read or is none of that.
pub fn read(path: &Path, limit: u64) -> io::Result<String> {
    text(&open(path, OFlags::empty())?, limit)
}

/// Reads, like [`read`], a file that lies where others may write: through no link, and nobody else's.
///
/// # Errors
/// Like [`read`], and if it is a symbolic link or another user's.
pub fn read_own(path: &Path, limit: u64) -> io::Result<String> {
    text(&own(path)?, limit)
}

/// Reads, like [`read_own`], a file of secrets, as bytes: its group may read it, and others nothing.
///
/// # Errors
/// Like [`read_own`], and if more is permitted to the group or to others.
pub fn read_secret(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = own(path)?;
    if file.metadata()?.mode() & 0o037 != 0 {
        let why = "others may read or change it: chmod 600, or 640 for its group to read it";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    bytes(&file, limit)
}

fn own(path: &Path) -> io::Result<File> {
    let file = open(path, OFlags::NOFOLLOW).map_err(|why| match Errno::from_io_error(&why) {
        Some(Errno::LOOP) => io::Error::other("it is a symbolic link, which is not followed here"),
        _ => why,
    })?;
    match file.metadata()?.uid() {
        uid if uid == geteuid().as_raw() || uid == 0 => Ok(file),
        _ => Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is another user's")),
    }
}

/// Opens without waiting for the other end of a pipe.
fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | flags).bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

fn text(file: &File, limit: u64) -> io::Result<String> {
    String::from_utf8(bytes(file, limit)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is no text in UTF-8"))
}

fn bytes(file: &File, limit: u64) -> io::Result<Vec<u8>> {
    let status = file.metadata()?;
    if !status.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    // All at once, so that no copies of a secret are left behind by a buffer that grew.
    let mut bytes = Vec::with_capacity(usize::try_from(status.len().min(limit)).unwrap_or(0) + 2);
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("it is larger than {limit} bytes")));
    }
    Ok(bytes)
}

/// A text of others as it can be shown: no control characters, and not too long.
#[must_use]
pub fn printable(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut shown: String =
        text.chars().take(LONGEST).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_small_regular_text_is_read() {
        let path = std::env::temp_dir().join(format!("truechimer-text-{}", std::process::id()));
        let error = |limit| read(&path, limit).unwrap_err().to_string();
        assert_eq!(read(&path, 9).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::write(&path, "123456789").unwrap();
        assert_eq!(read(&path, 9).unwrap(), "123456789");
        assert_eq!(error(8), "it is larger than 8 bytes");
        fs::write(&path, b"\xff").unwrap();
        assert_eq!(read(&path, 9).unwrap_err().kind(), io::ErrorKind::InvalidData);
        // A link may be followed where only we can have laid it.
        let link = path.with_extension("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        fs::write(&path, "123456789").unwrap();
        assert_eq!(read(&link, 9).unwrap(), "123456789");
        assert_eq!(read_own(&path, 9).unwrap(), "123456789");
        let refused = read_own(&link, 9).unwrap_err().to_string();
        assert!(refused.contains("symbolic link"), "{refused}");
        for (mode, secret) in [(0o600, true), (0o640, true), (0o644, false), (0o660, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let read = read_secret(&path, 9);
            assert_eq!(read.is_ok(), secret, "{mode:o}: {read:?}");
        }
        assert!(read_secret(&link, 9).unwrap_err().to_string().contains("symbolic link"));
        fs::remove_file(&link).unwrap();
        fs::remove_file(&path).unwrap();
        for special in ["/", "/dev/null"] {
            assert!(read(Path::new(special), 9).is_err());
        }
    }

    #[test]
    fn what_is_shown_can_be_shown() {
        assert_eq!(printable("a\u{1b}[31m\n"), "a\u{fffd}[31m\u{fffd}");
        assert_eq!(printable(&"ä".repeat(70)), "ä".repeat(60) + "…");
    }
}
