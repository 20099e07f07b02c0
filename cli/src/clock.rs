//! The clock as the commands open it.

use std::path::Path;
use std::time::Duration;

use truechimer::{Clock, ReadError, Reading, View};

use crate::args;
use crate::failure::Failure;

/// Opens the clock that the user means.
pub fn open(page: &args::Page) -> Result<Clock, Failure> {
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

/// What cannot be read is a failure.
pub fn unreadable(why: ReadError) -> Failure {
    Failure::Said(why.to_string())
}
