//! The clock as the commands open it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use truechimer::{Clock, ReadError, Reading, View};

use crate::Failure;

/// Options that say where the clock is.
#[derive(Args, Clone, Debug, Default)]
pub struct Page {
    /// The clock page [default: $TRUECHIMER_PAGE, else $XDG_RUNTIME_DIR/truechimer/clock or
    /// /run/truechimer/clock]
    #[arg(long, value_name = "PATH", help_heading = "Where the clock is")]
    pub page: Option<PathBuf>,
}

/// Opens the clock that the user means.
pub fn open(page: &Page) -> Result<Clock, Failure> {
    page.page
        .as_deref()
        .map_or_else(Clock::open, Clock::open_at)
        .map_err(|why| Failure::Said(why.to_string()))
}

/// Opens the clock at `page`, which a daemon that has just been started is about to make.
pub fn open_within(page: &Path, timeout: Duration) -> Result<Clock, Failure> {
    Clock::open_within(Some(page), timeout).map_err(|why| Failure::Said(why.to_string()))
}

/// The time, and what is behind it.
pub fn look(clock: &Clock) -> Result<(Reading, View), ReadError> {
    clock.view().map(|view| (view.reading(view.count, view.status), view))
}

/// Failure of a clock that cannot be read.
pub fn unreadable(why: ReadError) -> Failure {
    Failure::Said(why.to_string())
}

/// Failure of a clock that cannot be read, with the name of its page.
pub fn unreadable_at(clock: &Clock, why: ReadError) -> Failure {
    Failure::new(clock.page().path().display(), why)
}
