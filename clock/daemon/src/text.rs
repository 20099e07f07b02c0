//! Small text files that somebody else wrote.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::sys;

/// The text of a file, unless it is larger than `limit` bytes or anything but a regular file:
/// opening or reading a pipe could wait for ever, and the time path does not wait.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<String> {
    text(&open(path, 0)?, limit)
}

/// Reads, like [`read`], a file that lies where others may write: through no link, and nobody else's.
pub(crate) fn read_own(path: &Path, limit: u64) -> io::Result<String> {
    let file = open(path, libc::O_NOFOLLOW).map_err(|why| match why.raw_os_error() {
        Some(libc::ELOOP) => io::Error::other("it is a symbolic link, which is not followed here"),
        _ => why,
    })?;
    match file.metadata()?.uid() {
        uid if uid == sys::uid() || uid == 0 => text(&file, limit),
        _ => Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is another user's")),
    }
}

/// Opens without waiting for the other end of a pipe.
fn open(path: &Path, flags: i32) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | flags).open(path)
}

fn text(file: &File, limit: u64) -> io::Result<String> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_small_regular_text_is_read() {
        let path = std::env::temp_dir().join(format!("truechimer-text-{}", std::process::id()));
        let error = |limit| read(&path, limit).unwrap_err().to_string();
        assert_eq!(read(&path, 9).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::write(&path, "123456789").unwrap();
        assert_eq!(read(&path, 9).unwrap(), "123456789");
        assert_eq!(error(8), "is larger than 8 bytes");
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
        fs::remove_file(&link).unwrap();
        fs::remove_file(&path).unwrap();
        for special in ["/", "/dev/null"] {
            assert!(read(Path::new(special), 9).is_err());
        }
    }
}
