//! Locks on files: what one process at a time may do.

use std::fs::{File, TryLockError};

/// Locks an open file for this process, as long as it stays open; false where another process (or
/// another opening of it in this one) has locked it. Nobody is kept from reading or writing it
/// but by asking here. Where files cannot be locked, everybody may.
pub(crate) fn lock(file: &File) -> bool {
    !matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let name = format!("truechimer-survey-{}-lock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let first = File::create(&path).unwrap();
        let second = File::open(&path).unwrap();
        assert!(lock(&first) && lock(&first));
        assert!(!lock(&second));
        drop(first);
        assert!(lock(&second));
        std::fs::remove_file(&path).unwrap();
    }
}
