//! Waiting for the clock to be good enough.

use std::fmt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant as HostInstant};

use truechimer_time::{Instant, Leaps, Span};
use truechimer_timehands::{PageError, Status};

use crate::clock::Clock;
use crate::error::{OpenError, ReadError};
use crate::reading::Reading;

/// How long to sleep between looks.
const PAUSE: Duration = Duration::from_millis(20);

/// The longest sleep of [`Clock::wait_after`]: then the clock is looked at anew, for it may have
/// learned better, and the machine may have been suspended.
const LONGEST: Duration = Duration::from_secs(1);

/// Rest of a wait that is waited for without sleep: an ordinary sleep ends so much too late.
const SPIN: Duration = Duration::from_micros(60);

/// The clock did not become good enough, or the time did not come, before the wait was over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitError {
    /// How long it was waited for.
    pub timeout: Duration,
    /// Last word of the clock.
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

    /// Waits until `time` is over for sure: until the reading's `earliest` is after it. That is the
    /// commit wait of databases which order transactions by time: what any machine's clock says
    /// from then on is later. Returns the reading that was.
    ///
    /// Sleeps for most of the time and turns round for the last 60 µs of it. A clock that promises
    /// nothing (yet) is looked at fifty times a second.
    ///
    /// # Errors
    /// What the clock said last, if that is not so within `timeout`; without one it is waited for
    /// for ever.
    pub fn wait_after(
        &self,
        time: Instant,
        timeout: Option<Duration>,
    ) -> Result<Reading, WaitError> {
        self.wait_until(|_| time, timeout)
    }

    /// Waits as [`Clock::wait_after`] for a time in UTC, as Unix time: `unix` in seconds and `frac`
    /// in 2⁻⁶⁴ s. Of a time that a leap second repeats the later one is meant. What the daemon
    /// learns of leap seconds meanwhile counts.
    ///
    /// # Errors
    /// As [`Clock::wait_after`].
    pub fn wait_after_utc(
        &self,
        unix: i64,
        frac: u64,
        timeout: Option<Duration>,
    ) -> Result<Reading, WaitError> {
        self.wait_until(|leaps| leaps.instant(unix, frac), timeout)
    }

    fn wait_until(
        &self,
        time: impl Fn(&Leaps) -> Instant,
        timeout: Option<Duration>,
    ) -> Result<Reading, WaitError> {
        let start = HostInstant::now();
        loop {
            let last = self.now();
            let mut pause = PAUSE;
            if let Ok(reading) = &last
                && reading.status.bound_holds()
            {
                let left = time(&reading.leaps()) - reading.earliest;
                if left.is_negative() {
                    return Ok(*reading);
                }
                pause = Duration::from_nanos(left.as_nanos_i64().unsigned_abs());
            }
            let waited = start.elapsed();
            if timeout.is_some_and(|timeout| waited >= timeout) {
                return Err(WaitError { timeout: timeout.unwrap_or_default(), last });
            }
            let rest = timeout.map_or(LONGEST, |timeout| timeout - waited);
            if pause > SPIN {
                sleep((pause - SPIN).min(LONGEST).min(rest));
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "waited {:?} in vain: ", self.timeout)?;
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
