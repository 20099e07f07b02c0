//! The member's own clocks, read together.

use std::path::PathBuf;

use truechimer::{Clock, Reading as ClockReading, Status, UnixNanos};
use truechimer_group::{Bound, Reading, Utc};

use crate::sys;

/// Where UTC comes from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum UtcSource {
    /// From Truechimer's clock page: this one, or where it is by default.
    Page(Option<PathBuf>),
    /// From `CLOCK_REALTIME`, which the user vouches to be within so many ns of UTC.
    SystemClock {
        /// The farthest that it is from UTC, ns.
        bound_ns: i64,
    },
    /// From nowhere: the member runs free.
    #[default]
    None,
}

/// Interval between looks for a page, ns.
const LOOK_EVERY: i64 = 1_000_000_000;

/// The clocks of this host.
pub(crate) struct Clocks {
    source: UtcSource,
    clock: Option<Clock>,
    /// When the page is to be looked for again, by [`sys::raw_ns`].
    look_at: i64,
    /// Reason why there is no UTC, as last found out.
    why_not: Option<String>,
}

impl Clocks {
    /// Clocks with UTC from there. A page that is not there yet is looked for again and again.
    pub(crate) fn new(source: UtcSource) -> Clocks {
        let mut clocks = Clocks { source, clock: None, look_at: 0, why_not: None };
        clocks.look();
        clocks
    }

    /// All clocks now.
    pub(crate) fn read(&self) -> Reading {
        let utc = match &self.source {
            UtcSource::Page(_) => self.clock.as_ref().and_then(|clock| of(&clock.now().ok()?)),
            UtcSource::SystemClock { bound_ns } => Some(around(sys::realtime_ns(), *bound_ns)),
            UtcSource::None => None,
        };
        Reading { physical: sys::raw_ns(), utc }
    }

    /// Looks for the page if there is none, or none that is any good, at most once a second. Says
    /// something if what there is to be said has changed: whether there is UTC, and why not.
    pub(crate) fn tend(&mut self) -> Option<Result<String, String>> {
        let now = sys::raw_ns();
        if now < self.look_at {
            return None;
        }
        self.look_at = now + LOOK_EVERY;
        let before = std::mem::take(&mut self.why_not);
        self.look();
        match (&self.why_not, before) {
            (None, Some(_)) => Some(Ok(self.description())),
            (Some(now), before) if Some(now) != before.as_ref() => Some(Err(now.clone())),
            _ => None,
        }
    }

    /// Reason why there is no UTC.
    pub(crate) fn why_not(&self) -> Option<&str> {
        self.why_not.as_deref()
    }

    fn look(&mut self) {
        let UtcSource::Page(path) = &self.source else { return };
        if self.clock.as_ref().is_some_and(|clock| clock.now().is_ok_and(|now| of(&now).is_some()))
        {
            self.why_not = None;
            return;
        }
        // A new daemon may have put its page in another place, or in the place of the old one.
        match path.as_ref().map_or_else(Clock::open, Clock::open_at) {
            Ok(clock) => {
                self.why_not = match clock.now() {
                    Ok(now) if of(&now).is_some() => None,
                    Ok(now) => Some(format!(
                        "the clock at {} is {}",
                        clock.page().path().display(),
                        now.status.name()
                    )),
                    Err(why) => Some(why.to_string()),
                };
                self.clock = Some(clock);
            }
            Err(why) => {
                self.clock = None;
                self.why_not = Some(why.to_string());
            }
        }
    }

    /// Description of the clocks, for people.
    pub(crate) fn description(&self) -> String {
        match (&self.source, &self.clock) {
            (UtcSource::Page(_), Some(clock)) => {
                format!("UTC from the clock at {}", clock.page().path().display())
            }
            (UtcSource::Page(_), None) => "no UTC yet".to_owned(),
            (UtcSource::SystemClock { bound_ns }, _) => {
                let bound = truechimer_time::Span::from_nanos_wide(i128::from(*bound_ns));
                format!("UTC from the system clock, taken to be within {bound}")
            }
            (UtcSource::None, _) => "no UTC: this member runs free".to_owned(),
        }
    }
}

/// UTC by this reading, unless its bound does not hold. Times within a leap second repeat, as POSIX
/// has it.
fn of(reading: &ClockReading) -> Option<Utc> {
    if !matches!(reading.status, Status::Synchronised | Status::Holdover) {
        return None;
    }
    let shown = reading.unix();
    let nanos = |time: UnixNanos| i64::try_from(time.as_nanos()).ok();
    let (earliest, best, latest) =
        (nanos(shown.earliest)?, nanos(shown.best)?, nanos(shown.latest)?);
    Some(Utc { best, bound: Bound { earliest, latest } })
}

fn around(best: i64, bound_ns: i64) -> Utc {
    let bound =
        Bound { earliest: best.saturating_sub(bound_ns), latest: best.saturating_add(bound_ns) };
    Utc { best, bound }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_is_within_what_the_user_says() {
        let clocks = Clocks::new(UtcSource::SystemClock { bound_ns: 1_000 });
        let (before, reading, after) = (sys::realtime_ns(), clocks.read(), sys::realtime_ns());
        let utc = reading.utc.unwrap();
        assert!((before..=after).contains(&utc.best), "{before} {utc:?} {after}");
        assert_eq!(utc.bound.latest - utc.bound.earliest, 2_000);
        assert!(clocks.description().contains("1.000 µs"));
    }

    #[test]
    fn without_a_page_there_is_no_utc_and_a_reason() {
        let mut clocks = Clocks::new(UtcSource::Page(Some("/nonexistent/clock".into())));
        assert_eq!(clocks.read().utc, None);
        assert!(clocks.why_not().is_some_and(|why| why.contains("/nonexistent/clock")));
        // Nothing new, and not again within the second.
        assert_eq!(clocks.tend(), None);
        let look_at = clocks.look_at;
        assert_eq!((clocks.tend(), clocks.look_at), (None, look_at));
    }

    #[test]
    fn the_physical_clock_goes_on_without_any_utc() {
        let clocks = Clocks::new(UtcSource::None);
        let (first, second) = (clocks.read(), clocks.read());
        assert!(second.physical >= first.physical && second.utc.is_none());
    }
}
