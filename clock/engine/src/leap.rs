//! Leap seconds by the servers' word, where no list knows of them.
//!
//! A server announces a leap second by its leap indicator, for the end of the month in course
//! (RFC 5905 §7.3; leap seconds happen at no other time). A majority of those that are believed
//! has to say so, and the announcement may be withdrawn until it happens. A list is always right: until it
//! expires nobody announces what it has not.

use alloc::format;
use alloc::string::String;

use truechimer_ntp::LeapIndicator;
use truechimer_time::{Date, Instant, Leap, Leaps, Span};

const DAY: i64 = 86_400;
/// This shortly before a leap its announcement stands, s: a server whose clock is ahead has the
/// leap behind it a moment earlier than we.
const SETTLED: i64 = 10;

/// The instant of a server's timestamp that was read as `first`. In an inserted leap second NTP
/// shows the second before again: of the two showings, the one nearer to `about`.
pub(crate) fn nearer_showing(first: Instant, leaps: &Leaps, about: Option<Instant>) -> Instant {
    let late = about.is_some_and(|about| about - first > Span::from_millis(500));
    leaps.again(first).filter(|_| late).unwrap_or(first)
}

/// Announcements of leap seconds, and for how long a list decides instead.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Announced {
    /// The leap that a majority has announced.
    leap: Option<Leap>,
    /// Unix time until which a list has all leaps; 0 without one.
    until: i64,
    /// The end of the month, Unix time, for which an announcement was called in question.
    told: Option<i64>,
}

impl Announced {
    /// A list has all leaps until that Unix time.
    pub(crate) fn listed(&mut self, until: i64) {
        self.until = until;
    }

    /// Unix time until which a list has all leaps; 0 without one.
    pub(crate) fn until(&self) -> i64 {
        self.until
    }

    /// Leaps as known after hearing what the servers in use announce at `now`.
    pub(crate) fn heard(
        &mut self,
        leaps: Leaps,
        now: Instant,
        indicators: impl Iterator<Item = LeapIndicator> + Clone,
    ) -> Leaps {
        let unix = leaps.utc(now).unix;
        let month_end = next_month(unix);
        if self.until >= month_end || leaps.next.is_some() && leaps.next != self.leap {
            return leaps;
        }
        let settled = |next: Leap| next.at.saturating_sub(now.secs()) <= SETTLED;
        let all = indicators.clone().count();
        if all == 0 || leaps.next.is_some_and(settled) {
            return leaps;
        }
        let announce = |kind| indicators.clone().filter(|i| *i == kind).count() * 2 > all;
        let step = match (announce(LeapIndicator::Insert), announce(LeapIndicator::Delete)) {
            (true, _) => 1,
            (_, true) => -1,
            _ => 0,
        };
        self.leap = (step != 0 && !is_stale(unix)).then(|| leap_at(month_end, &leaps, step));
        Leaps { next: self.leap, ..leaps }
    }

    /// Words about one of `sources` that announces what the list has not, once a month at most. `leaps` are
    /// those known at `now`.
    pub(crate) fn contradiction<'a>(
        &mut self,
        leaps: &Leaps,
        now: Instant,
        mut sources: impl Iterator<Item = (&'a str, LeapIndicator)>,
    ) -> Option<String> {
        let unix = leaps.utc(now).unix;
        let month_end = next_month(unix);
        if self.until < month_end || is_stale(unix) || self.told == Some(month_end) {
            return None;
        }
        let listed = |step| leaps.next == Some(leap_at(month_end, leaps, step));
        let (name, kind) = sources.find(|(_, indicator)| match indicator {
            LeapIndicator::Insert => !listed(1),
            LeapIndicator::Delete => !listed(-1),
            LeapIndicator::None | LeapIndicator::Unsynchronised => false,
        })?;
        self.told = Some(month_end);
        let what = if kind == LeapIndicator::Insert { "inserted" } else { "left out" };
        Some(format!(
            "{name} announces a leap second (one {what} at the end of this month) that our list has not: \
             the list is used"
        ))
    }
}

/// True if a warning may be left over at Unix time `unix`: some servers go on for a while after the leap.
fn is_stale(unix: i64) -> bool {
    next_month(unix.saturating_sub(DAY)) != next_month(unix)
}

/// The leap at that end of a month, Unix time, with `leaps` before it.
fn leap_at(month_end: i64, leaps: &Leaps, step: i8) -> Leap {
    let offset = i64::from(leaps.tai_offset) + i64::from(step);
    Leap { at: month_end.saturating_add(offset), step }
}

/// The Unix time at which the month after that of `unix` begins, UTC.
fn next_month(unix: i64) -> i64 {
    Date::of(unix.div_euclid(DAY)).next_month().days().saturating_mul(DAY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use LeapIndicator::{Delete, Insert, None as Quiet};

    /// 2017-01-01T00:00:00 UTC; TAI − UTC was 36 s before.
    const MIDNIGHT: i64 = 1_483_228_800;
    const KNOWN: Leaps = Leaps { tai_offset: 36, known: true, last: None, next: None };

    fn at(unix: i64) -> Instant {
        Instant::new(unix + 36, 0)
    }

    #[test]
    fn months_end_where_the_calendar_says() {
        for (unix, next) in [
            (0, 31 * DAY),
            (MIDNIGHT - 1, MIDNIGHT),
            (MIDNIGHT, MIDNIGHT + 31 * DAY),
            // February 2000 had 29 days, February 2100 has 28, February 2028 has 29.
            (951_782_399, 951_868_800),
            (4_105_123_200, 4_107_542_400),
            (1_835_395_200, 1_835_481_600),
            (-1, 0),
        ] {
            assert_eq!(next_month(unix), next, "{unix}");
        }
    }

    #[test]
    fn a_majority_announces_and_withdraws() {
        let mut announced = Announced::default();
        let mut hear = |unix, votes: &[LeapIndicator]| {
            announced.heard(KNOWN, at(unix), votes.iter().copied()).next
        };
        let day_before = MIDNIGHT - DAY / 2;
        assert_eq!(hear(day_before, &[Insert, Quiet]), None, "half is no majority");
        let inserted = Some(Leap { at: MIDNIGHT + 37, step: 1 });
        assert_eq!(hear(day_before, &[Insert, Insert, Quiet]), inserted);
        assert_eq!(hear(day_before, &[Quiet, Insert, Quiet]), None, "withdrawn");
        let deleted = Some(Leap { at: MIDNIGHT + 35, step: -1 });
        assert_eq!(hear(day_before, &[Delete]), deleted);
        assert_eq!(hear(MIDNIGHT + DAY / 2, &[Insert]), None, "left over from the month before");
    }

    #[test]
    fn a_list_is_right() {
        let listed = Leaps { next: Some(Leap { at: MIDNIGHT + 37, step: 1 }), ..KNOWN };
        let mut announced = Announced::default();
        for votes in [[Quiet; 3], [Delete; 3]] {
            assert_eq!(announced.heard(listed, at(MIDNIGHT - 9), votes.into_iter()), listed);
        }
    }

    #[test]
    fn a_list_without_a_leap_is_right_until_it_expires() {
        let (day_before, inserted) = (at(MIDNIGHT - DAY / 2), Leap { at: MIDNIGHT + 37, step: 1 });
        for (until, next) in [(MIDNIGHT, None), (MIDNIGHT - 1, Some(inserted)), (0, Some(inserted))]
        {
            let mut announced = Announced::default();
            announced.listed(until);
            let leaps = announced.heard(KNOWN, day_before, [Insert; 3].into_iter());
            assert_eq!(leaps.next, next, "{until}");
            let mut says = |kind, at| {
                let sources = [("s1", Quiet), ("s2", kind)].into_iter();
                announced.contradiction(&leaps, at, sources)
            };
            let text = says(Insert, day_before);
            assert_eq!(text.is_some(), next.is_none(), "{text:?}");
            assert!(text.is_none_or(|text| text.starts_with("s2 announces a leap second (one inserted")));
            assert_eq!(says(Insert, day_before), None, "it is told once");
        }
    }

    #[test]
    fn only_what_the_list_has_not_is_called_in_question() {
        let listed = Leaps { next: Some(Leap { at: MIDNIGHT + 37, step: 1 }), ..KNOWN };
        let says = |leaps, kind, unix| {
            let mut announced = Announced { until: MIDNIGHT + 40 * DAY, ..Announced::default() };
            announced.contradiction(leaps, at(unix), [("s1", kind)].into_iter()).is_some()
        };
        let before = MIDNIGHT - DAY / 2;
        assert!(!says(&listed, Insert, before), "it has that one");
        assert!(says(&listed, Delete, before), "it has another");
        assert!(!says(&KNOWN, Quiet, before));
        assert!(says(&KNOWN, Delete, before));
        assert!(!says(&KNOWN, Insert, MIDNIGHT + DAY / 2), "left over from the month before");
    }

    #[test]
    fn extremes_do_not_panic() {
        for unix in [i64::MIN, i64::MAX] {
            let _ = Announced::default().heard(KNOWN, Instant::new(unix, 0), [Insert].into_iter());
            let _ = next_month(unix);
        }
    }
}
