//! Where the page is.

use std::env;
use std::path::PathBuf;

use super::map;

/// Names the page for daemon and readers alike.
pub const VARIABLE: &str = "TRUECHIMER_PAGE";
/// The page of the machine's own daemon.
pub const SYSTEM: &str = "/run/truechimer/clock";

/// Where a reader looks if it is not told, in this order: `$TRUECHIMER_PAGE` and nowhere else if
/// that is set, or else `$XDG_RUNTIME_DIR/truechimer/clock`, then `/run/truechimer/clock`.
#[must_use]
pub fn for_readers() -> Vec<PathBuf> {
    match named() {
        Some(path) => vec![path],
        None => own().into_iter().chain([PathBuf::from(SYSTEM)]).collect(),
    }
}

/// Where a daemon puts its page if it is not told: `$TRUECHIMER_PAGE` if that is set, or else
/// `/run/truechimer/clock` for root, `$XDG_RUNTIME_DIR/truechimer/clock` for anyone else.
#[must_use]
pub fn for_daemon() -> PathBuf {
    let system = || PathBuf::from(SYSTEM);
    match named() {
        Some(path) => path,
        None if map::effective_user() == 0 => system(),
        None => own().unwrap_or_else(system),
    }
}

fn named() -> Option<PathBuf> {
    env::var_os(VARIABLE).filter(|v| !v.is_empty()).map(PathBuf::from)
}

/// The page of the user's own daemon. As the XDG base directory specification has it, a path that
/// is not absolute is ignored.
fn own() -> Option<PathBuf> {
    let directory = PathBuf::from(env::var_os("XDG_RUNTIME_DIR")?);
    directory.is_absolute().then(|| directory.join("truechimer/clock"))
}
