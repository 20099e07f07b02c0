//! Configuration files that no option names.

use std::env;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The file to read where no option names one: the one that the environment says by `variable`, or
/// else, unless the options are enough without a file, the usual one if it is there.
#[must_use]
pub fn unnamed(variable: &str, usual: &Path, enough: bool) -> Option<PathBuf> {
    if let Some(path) = env::var_os(variable).filter(|path| !path.is_empty()) {
        return Some(path.into());
    }
    // One that may not be looked at is there: reading it says why that fails.
    let absent = |why: std::io::Error| why.kind() == ErrorKind::NotFound;
    let there = !enough && !usual.symlink_metadata().is_err_and(absent);
    there.then(|| usual.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_file_is_read_if_it_is_there_and_wanted() {
        let found =
            |usual: &str, enough| unnamed("TRUECHIMER_NO_SUCH_VARIABLE", usual.as_ref(), enough);
        assert_eq!(found("/dev/null", false), Some("/dev/null".into()));
        assert_eq!(found("/dev/null", true), None);
        assert_eq!(found("/nonexistent/truechimer.toml", false), None);
        // Not a folder: whoever reads it hears so.
        assert_eq!(found("/dev/null/x", false), Some("/dev/null/x".into()));
        assert_eq!(
            unnamed("PATH", Path::new("/dev/null"), true),
            env::var_os("PATH").map(Into::into)
        );
    }
}
