//! Waiting for the clock to be good enough.

use std::fmt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant as HostInstant};

use truechimer_time::Span;
use truechimer_timehands::{PageError, Status};

use crate::clock::Clock;
use crate::error::{OpenError, ReadError};
use crate::reading::Reading;

/// How long to sleep between looks.
const PAUSE: Duration = Duration::from_millis(20);

/// The clock did not become good enough in time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitError {
    /// How long it was waited for.
    pub timeout: Duration,
    /// What the clock said last.
    pub last: Result<Reading, ReadError>,
}

impl Clock {
    /// Opens the clock, as [`Clock::open_at`] if a path is given or else as [`Clock::open`], and
    /// gives a daemon that is just starting until `timeout` to make its page.
    ///
    /// # Errors
    /// As those, after `timeout` or at once where waiting cannot help.
    pub fn open_within(path: Option<&Path>, timeout: Duration) -> Result<Clock, OpenError> {
        let start = HostInstant::now();
        loop {
            let error = match path.map_or_else(Clock::open, Clock::open_at) {
                Ok(clock) => return Ok(clock),
                Err(error) => error,
            };
            let starting = matches!(
                error,
                OpenError::NoPage { .. }
                    | OpenError::OtherBoot { .. }
                    | OpenError::Page(PageError::Unfinished { .. })
            );
            if !starting || start.elapsed() >= timeout {
                return Err(error);
            }
            sleep(PAUSE.min(timeout));
        }
    }

    /// Waits until the clock is [`Status::Synchronised`], with a bound of at most `max_bound` if
    /// one is given, and returns the reading that was. Looks fifty times a second.
    ///
    /// # Errors
    /// What the clock said last, if it did not get there within `timeout`.
    pub fn wait_synchronised(
        &self,
        max_bound: Option<Span>,
        timeout: Duration,
    ) -> Result<Reading, WaitError> {
        let start = HostInstant::now();
        loop {
            let last = self.now();
            if let Ok(reading) = &last
                && reading.status == Status::Synchronised
                && max_bound.is_none_or(|max| reading.bound().is_some_and(|bound| bound <= max))
            {
                return Ok(*reading);
            }
            if start.elapsed() >= timeout {
                return Err(WaitError { timeout, last });
            }
            sleep(PAUSE.min(timeout));
        }
    }
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not synchronised within {:?}: ", self.timeout)?;
        match &self.last {
            Ok(reading) => {
                write!(f, "the status is {}", reading.status)?;
                reading.bound().map_or(Ok(()), |bound| write!(f, ", the bound {bound}"))
            }
            Err(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for WaitError {}
