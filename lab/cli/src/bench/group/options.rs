//! Options that every measurement has.

use std::path::PathBuf;

use crate::bench::group::placement::Placement;

/// Options that every measurement has.
#[derive(Clone, Debug)]
pub struct Options {
    /// Less of everything: to see that it works, not for figures.
    pub quick: bool,
    /// The command `truechimer`.
    pub truechimer: PathBuf,
    /// Where random numbers begin.
    pub seed: u64,
    /// Number of operations, instead of what the measurement thinks best.
    pub count: Option<usize>,
    /// Which processors the Corosyncs have, where the measurement leaves that open.
    pub placement: Placement,
    /// Say on standard error what is going on.
    pub progress: bool,
}

impl Options {
    /// Number of operations: as many as were asked for, else `full`, or `quick`.
    #[must_use]
    pub fn count(&self, full: usize, quick: usize) -> usize {
        self.count.unwrap_or(if self.quick { quick } else { full }).max(1)
    }

    /// Says what is going on.
    pub fn say(&self, text: &str) {
        if self.progress {
            eprintln!("{text}");
        }
    }
}
