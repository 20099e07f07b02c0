//! Directories that vanish with their owner.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A new directory under the system's temporary one, removed with all its content when dropped.
#[derive(Debug)]
pub struct Dir(PathBuf);

impl Dir {
    /// Makes one.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it does something")]
    pub fn new() -> Dir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let base = std::env::temp_dir();
        loop {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = base.join(format!("truechimer-test-{}-{n}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Dir(path),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A path in it.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // A failed test leaves its logs for whoever looks into it.
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
