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

/// Length of a sleep between looks.
const PAUSE: Duration = Duration::from_millis(20);

/// The longest sleep of [`Clock::wait_after`]: then the clock is looked at anew, for it may have
/// learned better, and the machine may have been suspended.
const LONGEST: Duration = Duration::from_secs(1);

/// Rest of a wait that is waited for without sleep: an ordinary sleep ends so much too late, and now
/// and then by more, which matters to a wait that must not end after its time.
const SPIN: Duration = Duration::from_micros(60);
const SPIN_BEFORE: Duration = Duration::from_micros(200);

/// Span before its time at which a wait ends that must not end after it: no look at the clock takes
/// longer, but one during which the thread is stopped.
const LEAD: Span = Span::from_micros(1);

/// Length of a sleep that ends within `span`, or later by less than `spin`. It is by the kernel's clock, which whoever keeps
/// the system clock may slow by a tenth (`tick` of adjtimex(2)); what is left of a long one is slept for anew.
fn slept_in(span: Duration, spin: Duration) -> Duration {
    if span > 8 * spin { span - span / 8 } else { span }
}

/// On which side of its time a wait ends: the choice of who waits, as the time is only known to lie
/// between `earliest` and `latest`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// While it is surely not over: as soon as `latest` is within a microsecond of it. Whether there
    /// was anything left to wait for, and whether the thread was woken in time, the reading says:
    /// `reading.latest < time`.
    Before,
    /// When it is likely to be: as soon as `best` has reached it.
    Best,
    /// When it is surely over: as soon as `earliest` is after it (commit wait).
    After,
}

impl Side {
    /// Time until a wait ends, by this reading; below 0: it is over.
    fn left(self, time: Instant, reading: &Reading) -> Span {
        match self {
            Side::Before => time - reading.latest - LEAD,
            Side::Best => time - reading.best - Span(1),
            Side::After => time - reading.earliest,
        }
    }
}

/// The clock did not become good enough, or the time did not come, before the wait was over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitError {
    /// Time for which it was waited for.
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
        self.wait_for(time, Side::After, timeout)
    }

    /// Waits for a time, on the side of it that `side` says. Whatever the system clock does
    /// meanwhile, slews, steps or stands, is of no matter; what is learnt about the time counts. After
    /// a suspend of the machine it is looked at within a second.
    ///
    /// # Errors
    /// Those of [`Clock::wait_after`].
    #[doc(alias = "sleep_until")]
    pub fn wait_for(
        &self,
        time: Instant,
        side: Side,
        timeout: Option<Duration>,
    ) -> Result<Reading, WaitError> {
        self.wait_until(|_| time, side, timeout)
    }

    /// Waits as [`Clock::wait_for`] for a time in UTC, as Unix time: `unix` in seconds and `frac` in
    /// 2⁻⁶⁴ s. Of a time that a leap second repeats the later one is meant.
    ///
    /// # Errors
    /// Those of [`Clock::wait_after`].
    #[doc(alias = "sleep_until")]
    pub fn wait_for_utc(
        &self,
        (unix, frac): (i64, u64),
        side: Side,
        timeout: Option<Duration>,
    ) -> Result<Reading, WaitError> {
        self.wait_until(|leaps| leaps.last_instant(unix, frac), side, timeout)
    }

    /// Waits as [`Clock::wait_after`] for a time in UTC, as Unix time: `unix` in seconds and `frac`
    /// in 2⁻⁶⁴ s. Of a time that a leap second repeats the later one is meant. What the daemon
    /// learns of leap seconds meanwhile counts.
    ///
    /// # Errors
    /// Those of [`Clock::wait_after`].
    pub fn wait_after_utc(
        &self,
        unix: i64,
        frac: u64,
        timeout: Option<Duration>,
    ) -> Result<Reading, WaitError> {
        self.wait_for_utc((unix, frac), Side::After, timeout)
    }

    pub(crate) fn wait_until(
        &self,
        time: impl Fn(&Leaps) -> Instant,
        side: Side,
        timeout: Option<Duration>,
    ) -> Result<Reading, WaitError> {
        let start = HostInstant::now();
        loop {
            let last = self.now();
            let mut pause = PAUSE;
            if let Ok(reading) = &last
                && reading.status.bound_holds()
            {
                let left = side.left(time(&reading.leaps()), reading);
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
            let spin = if side == Side::Before { SPIN_BEFORE } else { SPIN };
            if pause > spin {
                sleep(slept_in((pause - spin).min(LONGEST), spin).min(rest));
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

/// Times at even distances, to be waited for one after the other: a timer that keeps to true time and
/// never drifts.
///
/// ```no_run
/// use truechimer::{Clock, Side, Span, Timer};
///
/// let clock = Clock::open()?;
/// let first = clock.now()?.latest;
/// let mut timer = Timer::new(&clock, first, Span::from_millis(10), Side::After);
/// let tick = timer.tick(None)?;
/// println!("{:?} came, {} were missed", tick.time, tick.missed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Timer<'a> {
    clock: &'a Clock,
    next: Instant,
    period: Span,
    side: Side,
}

/// A time of a timer that has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tick {
    /// The time.
    pub time: Instant,
    /// The reading that ended the wait.
    pub reading: Reading,
    /// Number of earlier times that had come already when it was asked for, and were left out.
    pub missed: u64,
}

impl Timer<'_> {
    /// A timer for `first` and every `period` after it, on that side of each. A period below 1 µs
    /// counts as that.
    #[must_use]
    pub fn new(clock: &Clock, first: Instant, period: Span, side: Side) -> Timer<'_> {
        Timer { clock, next: first, period: period.max(Span::from_micros(1)), side }
    }

    /// Waits for the next time. Of times that have come already only the last is given out, so that
    /// a program that was held up catches up at once.
    ///
    /// # Errors
    /// Those of [`Clock::wait_for`]; the same time is then waited for once more.
    pub fn tick(&mut self, timeout: Option<Duration>) -> Result<Tick, WaitError> {
        let reading = self.clock.wait_for(self.next, self.side, timeout)?;
        let late = -self.side.left(self.next, &reading);
        let missed = u64::try_from(late.0 / self.period.0).unwrap_or(0);
        let time = self.next + Span(self.period.0.saturating_mul(missed as i128));
        self.next = time + self.period;
        Ok(Tick { time, reading, missed })
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
