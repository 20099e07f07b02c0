//! Instants as Unix time in whole nanoseconds, so rounded that an interval keeps what is in it.
#![forbid(unsafe_code)]

use std::ffi::c_long;

use libc::{time_t, timespec};
use truechimer::{Instant, Leaps, UnixNanos};

const NANOS: u64 = 1_000_000_000;

/// The first moment of the scale.
pub(crate) const FIRST: timespec = timespec { tv_sec: time_t::MIN, tv_nsec: 0 };
/// The last moment of the scale.
pub(crate) const LAST: timespec = timespec { tv_sec: time_t::MAX, tv_nsec: 999_999_999 };

/// An interval and an estimate within it.
#[derive(Clone, Copy)]
pub(crate) struct Three {
    pub earliest: timespec,
    pub best: timespec,
    pub latest: timespec,
    /// TAI − UTC at `best`, s.
    pub offset: i32,
    /// `best` lies within an inserted leap second.
    pub leap_second: bool,
}

/// The Unix times of `earliest <= best <= latest`: the first two rounded down, the last up. `None`
/// where a leap second is so near that it takes more.
#[inline(always)]
pub(crate) fn three([earliest, best, latest]: [Instant; 3], leaps: &Leaps) -> Option<Three> {
    let after = leaps.last.is_none_or(|leap| earliest.secs() >= leap.at);
    let before = leaps.next.is_none_or(|leap| latest.secs() < leap.at.wrapping_sub(1));
    // Both are worked out: branches would be two of a dozen, and each is nearly always true.
    (after & before).then(|| {
        let offset = leaps.tai_offset;
        let [earliest, best] = [earliest, best].map(|at| down(at, offset));
        Three { earliest, best, latest: up(latest, offset), offset, leap_second: false }
    })
}

/// Conversion like [`three`], wherever leap seconds are.
pub(crate) fn three_anywhere(times: [Instant; 3], leaps: &Leaps) -> Three {
    three(times, leaps).unwrap_or_else(|| three_around_a_leap(times, leaps))
}

/// Unix times where some of the three are at or before the last leap, or at or after the next.
/// One second is shown twice there: the ends of an interval need not be the ends of what Unix
/// time showed in it.
#[cold]
fn three_around_a_leap([earliest, best, latest]: [Instant; 3], leaps: &Leaps) -> Three {
    let utc = leaps.utc(best);
    let shown = |at: Instant, round: fn(Instant, i32) -> timespec| {
        let utc = leaps.utc(at);
        round(Instant::new(utc.unix, utc.frac), 0)
    };
    let (mut low, mut high) = (shown(earliest, down), shown(latest, up));
    for leap in [leaps.last, leaps.next].into_iter().flatten().filter(|leap| leap.step > 0) {
        // Where the inserted second begins, Unix time goes back from the end of 23:59:59 to its
        // beginning.
        let begins = Instant::new(leap.at.saturating_sub(1), 0);
        if earliest < begins && latest >= begins {
            low = least(low, shown(begins, down));
            let end = timespec { tv_sec: leaps.utc(begins).unix, tv_nsec: 999_999_999 };
            high = most(high, end);
        }
    }
    Three {
        earliest: low,
        best: shown(best, down),
        latest: high,
        offset: leaps.offset_at(best),
        leap_second: utc.leap_second,
    }
}

fn least(one: timespec, other: timespec) -> timespec {
    if (one.tv_sec, one.tv_nsec) <= (other.tv_sec, other.tv_nsec) { one } else { other }
}

fn most(one: timespec, other: timespec) -> timespec {
    if (one.tv_sec, one.tv_nsec) >= (other.tv_sec, other.tv_nsec) { one } else { other }
}

/// `at − offset`, the nanoseconds rounded down.
#[inline(always)]
fn down(at: Instant, offset: i32) -> timespec {
    let nanos = (u128::from(at.frac()) * u128::from(NANOS)) >> 64;
    let seconds = at.secs().wrapping_sub(i64::from(offset));
    timespec { tv_sec: seconds as time_t, tv_nsec: nanos as c_long }
}

/// `at − offset`, the nanoseconds rounded up.
#[inline(always)]
fn up(at: Instant, offset: i32) -> timespec {
    let product = u128::from(at.frac()) * u128::from(NANOS);
    let nanos = ((product >> 64) as u64).wrapping_add(u64::from(product as u64 != 0));
    let carry = nanos == NANOS;
    let seconds = at.secs().wrapping_sub(i64::from(offset)).wrapping_add(i64::from(carry));
    timespec { tv_sec: seconds as time_t, tv_nsec: if carry { 0 } else { nanos as c_long } }
}

/// The time in the client's words; `None` if the nanoseconds are out of range.
pub(crate) fn time(from: &timespec) -> Option<UnixNanos> {
    let nanos = u32::try_from(from.tv_nsec).ok().filter(|nanos| u64::from(*nanos) < NANOS)?;
    Some(UnixNanos { seconds: from.tv_sec, nanos })
}

/// A time of the client's as C has it.
pub(crate) fn timespec_of(from: UnixNanos) -> timespec {
    timespec { tv_sec: from.seconds as time_t, tv_nsec: from.nanos as c_long }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer::{Leap, Span};

    /// 2017-01-01: TAI − UTC went from 36 to 37.
    const MIDNIGHT: i64 = 1_483_228_800;

    fn around() -> [Leaps; 2] {
        let leap = Some(Leap { at: MIDNIGHT + 37, step: 1 });
        [
            Leaps { tai_offset: 36, known: true, last: None, next: leap },
            Leaps { tai_offset: 37, known: true, last: leap, next: None },
        ]
    }

    fn nanos(time: timespec) -> i128 {
        assert!((0..1_000_000_000).contains(&time.tv_nsec));
        i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
    }

    #[test]
    fn ends_are_rounded_outwards_and_by_less_than_a_nanosecond() {
        let leaps = Leaps { tai_offset: 37, known: true, last: None, next: None };
        let fractions = [0, 1, u64::MAX, 1 << 63, (1 << 63) + 1, 18_446_744_073, 18_446_744_074];
        for (secs, frac) in
            [-2, -1, 0, 37, 1_790_000_000].into_iter().flat_map(|s| fractions.map(|f| (s, f)))
        {
            let at = Instant::new(secs, frac);
            let three = three_anywhere([at; 3], &leaps);
            let exact = leaps.utc(at).unix_nanos();
            let whole = (u128::from(frac) * 1_000_000_000) as u64 == 0;
            assert_eq!((nanos(three.earliest), nanos(three.best)), (exact, exact));
            assert_eq!(nanos(three.latest), exact + i128::from(!whole));
            assert_eq!((three.offset, three.leap_second), (37, false));
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
                    let said = three_anywhere([at(from), at((from + to) / 2), at(to)], &leaps);
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
        let said = three_anywhere([34, 35, 36].map(|s| Instant::new(MIDNIGHT + s, 0)), &leaps);
        let seconds = [said.earliest, said.best, said.latest].map(|at| at.tv_sec - MIDNIGHT);
        assert_eq!((seconds, said.offset), ([-2, 0, 1], 35));
    }

    #[test]
    fn times_go_through_as_they_are() {
        for tv_nsec in [0, 1, 999_999_999] {
            let said = time(&timespec { tv_sec: -5, tv_nsec }).unwrap();
            assert_eq!(nanos(timespec_of(said)), said.as_nanos());
            assert_eq!((said.seconds, said.nanos), (-5, tv_nsec as u32));
        }
        for tv_nsec in [-1, 1_000_000_000, c_long::MIN, c_long::MAX] {
            assert_eq!(time(&timespec { tv_sec: 1, tv_nsec }), None);
        }
    }
}
