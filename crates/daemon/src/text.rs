//! Small text files that somebody else wrote.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// The text of a file, unless it is larger than `limit` bytes or anything but a regular file:
/// opening or reading a pipe could wait for ever, and the time path does not wait.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<String> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("is not a regular file"));
    }
    let mut text = String::new();
    File::open(path)?.take(limit.saturating_add(1)).read_to_string(&mut text)?;
    if text.len() as u64 > limit {
        return Err(io::Error::other(format!("is larger than {limit} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        fs::remove_file(&path).unwrap();
        for special in ["/", "/dev/null"] {
            assert!(read(Path::new(special), 9).is_err());
        }
    }
}
