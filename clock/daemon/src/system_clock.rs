//! Steering `CLOCK_REALTIME`: only if the user asks, and only as the engine says.
//!
//! When the daemon ends, the kernel keeps the frequency that was set last: it is the best guess
//! for the time after.

use std::io;

use truechimer_counter::{Counter, host_reading, realtime_pair};
use truechimer_engine::{KernelWord, Level, Steer, SystemReading};
use truechimer_time::Period;

use crate::sys;

/// Out of how many pairs the narrowest is taken.
const TRIES: u32 = 8;
/// Failures of other kinds than a missing privilege in a row, after which no more is tried.
const PATIENCE: u32 = 8;

/// The system clock as far as we have to do with it.
#[derive(Debug)]
pub(crate) struct SystemClock {
    /// Way of a steer to the kernel.
    through: fn(Steer) -> io::Result<()>,
    discipline: bool,
    failures: u32,
    /// Reason why it is left alone although it should be steered.
    given_up: Option<String>,
    /// Last word to the kernel on it.
    told: Option<KernelWord>,
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::through(|steer| match steer {
            Steer::Step(span) => sys::step(span),
            Steer::Frequency(rate) => sys::set_frequency(rate),
            Steer::Tell(word) => sys::tell_kernel(&word),
        })
    }
}

impl SystemClock {
    /// One that is left alone until configured, and steered by way of this.
    pub(crate) fn through(through: fn(Steer) -> io::Result<()>) -> SystemClock {
        SystemClock { through, discipline: false, failures: 0, given_up: None, told: None }
    }

    /// Sets whether to steer it, from now on. A failure before is forgotten.
    pub(crate) fn configure(&mut self, discipline: bool) {
        *self = SystemClock { discipline, ..SystemClock::through(self.through) };
    }

    /// True if it is being steered, so that the engine must be told what it reads.
    pub(crate) fn is_steered(&self) -> bool {
        self.discipline && self.given_up.is_none()
    }

    /// Does as the engine says, and has perhaps something to tell the user.
    pub(crate) fn steer(&mut self, steer: Steer) -> Option<(Level, String)> {
        if !self.is_steered() {
            return None;
        }
        match (self.through)(steer) {
            Ok(()) => {
                self.failures = 0;
                self.done(steer)
            }
            Err(error) => self.failed(&error).map(|text| (Level::Warning, text)),
        }
    }

    /// Note on it, if any.
    fn done(&mut self, steer: Steer) -> Option<(Level, String)> {
        match steer {
            Steer::Step(span) => Some((Level::Info, format!("system clock: stepped by {span:+}"))),
            Steer::Frequency(rate) => {
                Some((Level::Debug, format!("system clock: frequency {rate:+}")))
            }
            Steer::Tell(word) => {
                let before = self.told.replace(word);
                if sys::is_unsynchronised(&word) {
                    let news = !before.is_some_and(|before| sys::is_unsynchronised(&before));
                    let text = "system clock: the kernel takes it for not synchronised";
                    return news.then(|| (Level::Warning, text.into()));
                }
                let what = match word.leap {
                    1 => "insert a second at",
                    -1 => "leave a second out before",
                    _ => return None,
                };
                (before.is_none_or(|before| before.leap != word.leap)).then(|| {
                    (
                        Level::Info,
                        format!("system clock: the kernel will {what} the next midnight, UTC"),
                    )
                })
            }
        }
    }

    fn failed(&mut self, error: &io::Error) -> Option<String> {
        self.failures += 1;
        let why = if error.kind() == io::ErrorKind::PermissionDenied {
            "not permitted to steer it: that takes CAP_SYS_TIME, as root has (the unit of systemd \
             takes truechimer-discipline.conf as a drop-in, which has AmbientCapabilities=CAP_SYS_TIME \
             and what goes with it); or set discipline = false"
                .to_owned()
        } else if self.failures < PATIENCE {
            return (self.failures == 1).then(|| format!("system clock: {error}"));
        } else {
            error.to_string()
        };
        let text = format!("system clock: left alone: {why}");
        self.given_up = Some(why);
        Some(text)
    }

    /// Part in the daemon's account of itself.
    pub(crate) fn description(&self) -> String {
        match (&self.given_up, self.discipline) {
            (Some(why), _) => format!("left alone: {why}"),
            (None, true) => "steered".into(),
            (None, false) => "left alone".into(),
        }
    }
}

/// Reads the system clock and the kernel's raw clock at one count.
pub(crate) fn read(counter: Counter, nominal: Period) -> SystemReading {
    let host = host_reading(counter);
    let pair = realtime_pair(counter, TRIES);
    // The two readings are microseconds apart: the nominal period is good enough between them.
    let apart = nominal.span(pair.mid() - host.count).as_nanos_i64();
    SystemReading {
        count: pair.mid(),
        unix_ns: pair.unix_ns,
        raw_ns: host.raw_ns.saturating_add(apart),
        frequency: sys::kernel_frequency().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_time::Span;

    #[test]
    fn it_is_left_alone_unless_configured() {
        let mut clock = SystemClock::default();
        // If this reached the kernel, the machine's clock would be off by a year.
        assert_eq!(clock.steer(Steer::Step(Span::from_secs(31_536_000))), None);
        assert_eq!((clock.is_steered(), clock.description().as_str()), (false, "left alone"));
    }

    #[test]
    fn without_the_privilege_it_gives_up_at_once_and_says_what_is_missing() {
        let mut clock = SystemClock::default();
        clock.configure(true);
        assert!(clock.is_steered());
        let told = clock.failed(&io::Error::from_raw_os_error(libc::EPERM)).unwrap();
        assert!(
            told.contains("CAP_SYS_TIME") && told.contains("truechimer-discipline.conf"),
            "{told}"
        );
        assert!(!clock.is_steered() && clock.description().contains("CAP_SYS_TIME"));
        clock.configure(true);
        assert!(clock.is_steered(), "a reload tries again");
    }

    #[test]
    fn other_failures_are_told_once_and_end_it_when_they_persist() {
        let mut clock = SystemClock::default();
        clock.configure(true);
        let told: Vec<_> = (0..PATIENCE)
            .map(|_| clock.failed(&io::Error::from_raw_os_error(libc::EINVAL)))
            .collect();
        assert_eq!(told.iter().flatten().count(), 2);
        assert!(!clock.is_steered());
    }

    #[test]
    fn that_the_kernel_knows_nothing_is_told_once() {
        let mut clock = SystemClock::through(|_| Ok(()));
        clock.configure(true);
        let mut notes = |max_error| {
            let word =
                KernelWord { max_error, estimated_error: Span::ZERO, leap: 0, tai_offset: None };
            clock.steer(Steer::Tell(word)).map(|(level, _)| level)
        };
        let good = Some(Span::from_micros(30));
        assert_eq!(notes(good), None);
        assert_eq!(notes(Some(Span::from_secs(20))), Some(Level::Warning), "further than 16 s off");
        assert_eq!(notes(Some(Span::from_secs(19))), None, "once");
        assert_eq!(notes(good), None);
        assert_eq!(notes(None), Some(Level::Warning));
    }

    #[test]
    fn a_reading_goes_together() {
        let counter = Counter::open(truechimer_counter::Choice::Raw).unwrap();
        let reading = read(counter, Period::NANOSECOND);
        let apart = (reading.count.0 as i64).wrapping_sub(reading.raw_ns).abs();
        assert!(apart < 1_000_000, "{apart} ns");
        assert!(reading.unix_ns > 1_700_000_000_000_000_000);
    }
}
