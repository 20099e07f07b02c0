//! A private directory for as long as a command runs.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A directory that only this user can enter; removed with all that is in it when dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one below the system's directory for temporary files.
    pub fn new() -> io::Result<Scratch> {
        let base = std::env::temp_dir();
        let pid = std::process::id();
        for n in 0..1000 {
            let path = base.join(format!("truechimer-{pid}-{n}"));
            // Fails if anything is there already, so that nobody can have prepared it.
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Scratch(path)),
            }
        }
        Err(io::Error::other("too many directories of this name already"))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is left to whoever cleans that directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn it_is_private_and_gone_afterwards() {
        let (one, two) = (Scratch::new().unwrap(), Scratch::new().unwrap());
        assert_ne!(one.path(), two.path());
        let mode = std::fs::metadata(one.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let path = one.path().to_owned();
        std::fs::write(path.join("file"), "x").unwrap();
        drop(one);
        assert!(!path.exists());
    }
}
