//! Small files of `/sys` that the daemon reads every second.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// The most that the kernel writes into such a file.
const PAGE: usize = 4096;

/// A file that stays open once it could be opened: to read it again takes one system call instead
/// of five, and no look at its path. The kernel writes a file of `/sys` anew for each reading from
/// its beginning, and never puts another one in its place.
#[derive(Debug)]
pub(crate) struct Kept {
    path: &'static str,
    file: OnceLock<File>,
}

impl Kept {
    /// The file at this path, which is opened when it is read first.
    pub(crate) const fn new(path: &'static str) -> Kept {
        Kept { path, file: OnceLock::new() }
    }

    /// Contents now; `None` if it cannot be read.
    pub(crate) fn read(&self) -> Option<String> {
        let Some(file) = self.file.get() else {
            let file = File::open(self.path).ok()?;
            let text = read(&file);
            let _ = self.file.set(file);
            return text.or_else(|| fs::read_to_string(self.path).ok());
        };
        read(file).or_else(|| fs::read_to_string(self.path).ok())
    }
}

/// All of it, if it fits and is text.
fn read(file: &File) -> Option<String> {
    let mut buffer = [0; PAGE];
    let length = file.read_at(&mut buffer, 0).ok().filter(|length| *length < PAGE)?;
    Some(std::str::from_utf8(buffer.get(..length)?).ok()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_anew_each_time() {
        let path = std::env::temp_dir().join(format!("truechimer-kept-{}", std::process::id()));
        let text: &'static str = Box::leak(path.display().to_string().into_boxed_str());
        let kept = Kept::new(text);
        assert_eq!(kept.read(), None);
        fs::write(&path, "tsc\n").unwrap();
        assert_eq!(kept.read().as_deref(), Some("tsc\n"));
        // The same file with other content, as those of /sys are.
        fs::write(&path, "hpet\n").unwrap();
        assert_eq!(kept.read().as_deref(), Some("hpet\n"));
        fs::write(&path, "x".repeat(PAGE + 1)).unwrap();
        assert_eq!(kept.read().map(|text| text.len()), Some(PAGE + 1));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn the_kernel_says_what_it_says_to_others() {
        let path = "/sys/devices/system/cpu/online";
        let kept = Kept::new(path);
        for _ in 0..3 {
            assert_eq!(kept.read(), fs::read_to_string(path).ok());
        }
    }
}
