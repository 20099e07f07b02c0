//! Readings as Unix time in whole nanoseconds, so rounded that an interval keeps what is in it.

use truechimer_time::{Instant, Leaps};

use crate::reading::Reading;
use crate::unix::UnixNanos;

/// A reading in Unix time, as most interfaces and other languages have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnixReading {
    /// Unix time showed nothing before this, rounded down; [`UnixNanos::FIRST`] if nothing is
    /// promised.
    pub earliest: UnixNanos,
    /// The best estimate, rounded down.
    pub best: UnixNanos,
    /// Unix time showed nothing after this, rounded up; [`UnixNanos::LAST`] if nothing is promised.
    pub latest: UnixNanos,
    /// TAI − UTC at `best`, s; see [`Leaps::known`].
    pub tai_offset: i32,
    /// True if `best` lies within an inserted leap second (23:59:60), in which Unix time shows
    /// 23:59:59 once more.
    pub leap_second: bool,
}

impl Reading {
    /// The reading in Unix time. Around an inserted leap second, which Unix time shows as a second
    /// 23:59:59, the ends are the first and the last that it showed in the interval.
    #[must_use]
    #[inline]
    pub fn unix(&self) -> UnixReading {
        self.unix_if_usual().unwrap_or_else(|| self.unix_unusually())
    }

    /// The reading in Unix time if something is promised and no leap second is near, as nearly
    /// always; else [`Reading::unix`] has it. For libraries in other languages: in line, the times
    /// go from registers to where they are wanted.
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    pub fn unix_if_usual(&self) -> Option<UnixReading> {
        let leaps = self.leaps();
        let interval = usual([self.earliest, self.best, self.latest], &leaps)?;
        self.status.bound_holds().then_some(interval)
    }

    #[cold]
    fn unix_unusually(&self) -> UnixReading {
        let leaps = self.leaps();
        if self.status.bound_holds() {
            return anywhere([self.earliest, self.best, self.latest], &leaps);
        }
        let best = anywhere([self.best; 3], &leaps);
        UnixReading { earliest: UnixNanos::FIRST, latest: UnixNanos::LAST, ..best }
    }
}

/// Unix times of `earliest <= best <= latest`; `None` where a leap second is so near that it takes
/// more.
#[inline(always)]
fn usual([earliest, best, latest]: [Instant; 3], leaps: &Leaps) -> Option<UnixReading> {
    let after = leaps.last.is_none_or(|leap| earliest.secs() >= leap.at);
    let before = leaps.next.is_none_or(|leap| latest.secs() < leap.at.wrapping_sub(1));
    // Both are worked out: branches would be two of a dozen, and each is nearly always true.
    (after & before).then(|| {
        let offset = leaps.tai_offset;
        let [earliest, best] = [earliest, best].map(|at| UnixNanos::down(at, offset));
        let latest = UnixNanos::up(latest, offset);
        UnixReading { earliest, best, latest, tai_offset: offset, leap_second: false }
    })
}

/// Unix times as [`usual`] has them, wherever leap seconds are.
fn anywhere(times: [Instant; 3], leaps: &Leaps) -> UnixReading {
    usual(times, leaps).unwrap_or_else(|| around_a_leap(times, leaps))
}

/// Unix times where some of the three are at or before the last leap, or at or after the next.
/// One second is shown twice there: the ends of an interval need not be the ends of what Unix
/// time showed in it.
fn around_a_leap([earliest, best, latest]: [Instant; 3], leaps: &Leaps) -> UnixReading {
    let utc = leaps.utc(best);
    let shown = |at: Instant, round: fn(Instant, i32) -> UnixNanos| {
        let utc = leaps.utc(at);
        round(Instant::new(utc.unix, utc.frac), 0)
    };
    let (mut low, mut high) = (shown(earliest, UnixNanos::down), shown(latest, UnixNanos::up));
    for leap in [leaps.last, leaps.next].into_iter().flatten().filter(|leap| leap.step > 0) {
        // Where the inserted second begins, Unix time goes back from the end of 23:59:59 to its
        // beginning.
        let begins = Instant::new(leap.at.saturating_sub(1), 0);
        if earliest < begins && latest >= begins {
            let again = shown(begins, UnixNanos::down);
            low = low.min(again);
            high = high.max(UnixNanos { nanos: UnixNanos::LAST.nanos, ..again });
        }
    }
    UnixReading {
        earliest: low,
        best: shown(best, UnixNanos::down),
        latest: high,
        tai_offset: leaps.offset_at(best),
        leap_second: utc.leap_second,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_time::{Count, Leap, Span};
    use truechimer_timehands::Status;

    /// 2017-01-01: TAI − UTC went from 36 to 37.
    const MIDNIGHT: i64 = 1_483_228_800;

    fn around() -> [Leaps; 2] {
        let leap = Some(Leap { at: MIDNIGHT + 37, step: 1 });
        [
            Leaps { tai_offset: 36, known: true, last: None, next: leap },
            Leaps { tai_offset: 37, known: true, last: leap, next: None },
        ]
    }

    fn nanos(time: UnixNanos) -> i128 {
        assert!(time.nanos < 1_000_000_000);
        time.as_nanos()
    }

    #[test]
    fn ends_are_rounded_outwards_and_by_less_than_a_nanosecond() {
        let leaps = Leaps { tai_offset: 37, known: true, last: None, next: None };
        let fractions = [0, 1, u64::MAX, 1 << 63, (1 << 63) + 1, 18_446_744_073, 18_446_744_074];
        for (secs, frac) in
            [-2, -1, 0, 37, 1_790_000_000].into_iter().flat_map(|s| fractions.map(|f| (s, f)))
        {
            let at = Instant::new(secs, frac);
            let shown = anywhere([at; 3], &leaps);
            let exact = leaps.utc(at).unix_nanos();
            let whole = (u128::from(frac) * 1_000_000_000) as u64 == 0;
            assert_eq!((nanos(shown.earliest), nanos(shown.best)), (exact, exact));
            assert_eq!(nanos(shown.latest), exact + i128::from(!whole));
            assert_eq!((shown.tai_offset, shown.leap_second), (37, false));
        }
    }

    /// Whatever Unix time showed between the ends is between what is said of them.
    #[test]
    fn an_interval_keeps_what_is_in_it_through_a_leap_second() {
        let start = Instant::new(MIDNIGHT + 34, 0);
        let at = |tenth: i64| start + Span::from_millis(100 * tenth);
        for leaps in around() {
            for from in 0..40 {
                for to in from..40 {
                    let said = anywhere([at(from), at((from + to) / 2), at(to)], &leaps);
                    let (low, high) = (nanos(said.earliest), nanos(said.latest));
                    assert!(low <= nanos(said.best) && nanos(said.best) <= high);
                    for inside in from..=to {
                        let shown = leaps.utc(at(inside)).unix_nanos();
                        assert!(low <= shown && shown <= high, "{from} {inside} {to}");
                    }
                    // And no more than that, but for the gaps between tenths.
                    let all: Vec<_> = (from..=to).map(|i| leaps.utc(at(i)).unix_nanos()).collect();
                    let (least, most) = (all.iter().min().unwrap(), all.iter().max().unwrap());
                    assert!(least - low <= 100_000_000 && high - most <= 100_000_000);
                    let best = leaps.utc(at((from + to) / 2));
                    assert_eq!(said.leap_second, best.leap_second);
                }
            }
        }
    }

    #[test]
    fn a_deleted_second_is_passed_over() {
        let leap = Some(Leap { at: MIDNIGHT + 35, step: -1 });
        let leaps = Leaps { tai_offset: 36, known: true, last: None, next: leap };
        let said = anywhere([34, 35, 36].map(|s| Instant::new(MIDNIGHT + s, 0)), &leaps);
        let seconds = [said.earliest, said.best, said.latest].map(|at| at.seconds - MIDNIGHT);
        assert_eq!((seconds, said.tai_offset), ([-2, 0, 1], 35));
    }

    #[test]
    fn where_nothing_is_promised_the_ends_are_those_of_the_scale() {
        let [leaps, _] = around();
        let best = Instant::new(MIDNIGHT, 1 << 63);
        let reading = |status| Reading {
            count: Count(1),
            earliest: best - Span::from_millis(1),
            best,
            latest: best + Span::from_millis(1),
            status,
            leaps: leaps.into(),
        };
        let shown = reading(Status::Unknown).unix();
        assert_eq!((shown.earliest, shown.latest), (UnixNanos::FIRST, UnixNanos::LAST));
        let [seconds, nanos] = [MIDNIGHT - 36, 500_000_000];
        assert_eq!(shown.best.as_nanos(), i128::from(seconds) * 1_000_000_000 + i128::from(nanos));
        assert_eq!(reading(Status::Unknown).unix_if_usual(), None);
        let shown = reading(Status::Synchronised).unix();
        let (down, up) = (shown.best.as_nanos() - 1_000_000, shown.best.as_nanos() + 1_000_000);
        assert!(shown.earliest.as_nanos() <= down && up <= shown.latest.as_nanos());
        assert!(shown.latest.as_nanos() - shown.earliest.as_nanos() <= 2_000_002);
    }
}
