//! Leap seconds: between the leap-free scale inside and UTC at the edge.

use crate::Instant;

/// One leap second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Leap {
    /// The leap-free second at which the new TAI − UTC begins: 00:00:00 UTC of the day after.
    pub at: i64,
    /// Change of TAI − UTC: +1 (a second is inserted) or −1 (one is left out).
    pub step: i8,
}

/// Leap seconds around now, as far as known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Leaps {
    /// TAI − UTC in seconds between `last` and `next` (0 if not `known`).
    pub tai_offset: i32,
    /// True if `tai_offset` is TAI − UTC; otherwise it only counts leaps since the daemon began.
    pub known: bool,
    /// The leap before, if it is known.
    pub last: Option<Leap>,
    /// The leap to come, if one is announced.
    pub next: Option<Leap>,
}

/// A point in time as UTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Utc {
    /// Unix time in seconds. Within an inserted leap second it stays at 23:59:59.
    pub unix: i64,
    /// The fraction of the second in 2⁻⁶⁴ s.
    pub frac: u64,
    /// Within an inserted leap second (23:59:60).
    pub leap_second: bool,
}

impl Leaps {
    /// TAI − UTC in force at `at`, in seconds; across at most the one leap on either side.
    #[must_use]
    pub fn offset_at(&self, at: Instant) -> i32 {
        match (self.next, self.last) {
            (Some(next), _) if at.secs() >= next.at => {
                self.tai_offset.saturating_add(i32::from(next.step))
            }
            (_, Some(last)) if at.secs() < last.at => {
                self.tai_offset.saturating_sub(i32::from(last.step))
            }
            _ => self.tai_offset,
        }
    }

    /// `at` as UTC.
    #[must_use]
    pub fn utc(&self, at: Instant) -> Utc {
        let secs = at.secs();
        let inserted = [self.last, self.next]
            .into_iter()
            .flatten()
            .any(|leap| leap.step > 0 && secs == leap.at.saturating_sub(1));
        let unix = secs.saturating_sub(i64::from(self.offset_at(at)));
        Utc {
            unix: if inserted { unix.saturating_sub(1) } else { unix },
            frac: at.frac(),
            leap_second: inserted,
        }
    }

    /// The instant of a Unix time. In an inserted leap second Unix time shows the second before it
    /// again: the first showing is returned, and [`Leaps::again`] has the other. A second that is
    /// left out has no instant of its own; it counts as the one after it.
    #[must_use]
    pub fn instant(&self, unix: i64, frac: u64) -> Instant {
        for (leap, offset) in [
            (self.next, self.tai_offset.saturating_add(self.next.map_or(0, |l| i32::from(l.step)))),
            (self.last, self.tai_offset),
        ] {
            let secs = unix.saturating_add(i64::from(offset));
            if leap.is_some_and(|leap| secs >= leap.at) {
                return Instant::new(secs, frac);
            }
        }
        let before = self.last.map_or(0, |l| i32::from(l.step));
        Instant::new(unix.saturating_add(i64::from(self.tai_offset.saturating_sub(before))), frac)
    }

    /// The second showing, within an inserted leap second, of the Unix time of `first`; `None` where
    /// it is shown once.
    #[must_use]
    pub fn again(&self, first: Instant) -> Option<Instant> {
        let inserted = |leap: Leap| leap.step > 0 && first.secs() == leap.at.saturating_sub(2);
        let twice = [self.last, self.next].into_iter().flatten().any(inserted);
        twice.then(|| Instant::new(first.secs().saturating_add(1), first.frac()))
    }

    /// The instant of a Unix time by which it is surely over: the last one that shows it.
    #[must_use]
    pub fn last_instant(&self, unix: i64, frac: u64) -> Instant {
        let first = self.instant(unix, frac);
        self.again(first).unwrap_or(first)
    }

    /// Leaps once `now` has passed the next one.
    #[must_use]
    pub fn advanced(self, now: Instant) -> Leaps {
        match self.next {
            Some(next) if now.secs() >= next.at => Leaps {
                tai_offset: self.tai_offset.saturating_add(i32::from(next.step)),
                known: self.known,
                last: Some(next),
                next: None,
            },
            _ => self,
        }
    }
}

impl Utc {
    /// Unix time in nanoseconds, rounded down.
    #[must_use]
    pub fn unix_nanos(self) -> i128 {
        let frac = (i128::from(self.frac) * 1_000_000_000) >> 64;
        i128::from(self.unix) * 1_000_000_000 + frac
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2017-01-01: TAI − UTC went from 36 to 37.
    const MIDNIGHT: i64 = 1_483_228_800;
    const BEFORE: Leaps = Leaps {
        tai_offset: 36,
        known: true,
        last: None,
        next: Some(Leap { at: MIDNIGHT + 37, step: 1 }),
    };

    #[test]
    fn an_inserted_second_is_second_sixty() {
        let at = |s: i64| BEFORE.utc(Instant::new(s, 5));
        assert_eq!(at(MIDNIGHT + 35), Utc { unix: MIDNIGHT - 1, frac: 5, leap_second: false });
        assert_eq!(at(MIDNIGHT + 36), Utc { unix: MIDNIGHT - 1, frac: 5, leap_second: true });
        assert_eq!(at(MIDNIGHT + 37), Utc { unix: MIDNIGHT, frac: 5, leap_second: false });
    }

    #[test]
    fn the_view_is_the_same_from_after_the_leap() {
        let after = BEFORE.advanced(Instant::new(MIDNIGHT + 37, 0));
        assert_eq!((after.tai_offset, after.next), (37, None));
        for s in -3..3 {
            let at = Instant::new(MIDNIGHT + 36 + s, 0);
            assert_eq!(BEFORE.utc(at), after.utc(at), "{s}");
        }
    }

    #[test]
    fn a_deleted_second_is_skipped() {
        let leaps = Leaps { next: Some(Leap { at: MIDNIGHT + 35, step: -1 }), ..BEFORE };
        assert_eq!(leaps.utc(Instant::new(MIDNIGHT + 34, 0)).unix, MIDNIGHT - 2);
        assert_eq!(leaps.utc(Instant::new(MIDNIGHT + 35, 0)).unix, MIDNIGHT);
    }

    /// Both views of a leap: before it, and after it.
    fn views(next: Leap) -> [Leaps; 2] {
        let before = Leaps { next: Some(next), ..BEFORE };
        [before, before.advanced(Instant::new(next.at, 0))]
    }

    #[test]
    fn an_inserted_second_shows_the_one_before_it_twice() {
        for leaps in views(Leap { at: MIDNIGHT + 37, step: 1 }) {
            let instants = |unix| {
                let first = leaps.instant(unix, 7);
                assert_eq!(first.frac(), 7);
                let last = leaps.last_instant(unix, 7);
                assert_eq!(leaps.again(first), (last != first).then_some(last));
                (first.secs() - MIDNIGHT, last.secs() - MIDNIGHT)
            };
            assert_eq!(instants(MIDNIGHT - 2), (34, 34));
            assert_eq!(instants(MIDNIGHT - 1), (35, 36), "23:59:59 and 23:59:60");
            assert_eq!(instants(MIDNIGHT), (37, 37));
            assert_eq!(leaps.again(Instant::new(MIDNIGHT + 36, 7)), None, "the second showing");
        }
    }

    #[test]
    fn a_deleted_second_counts_as_the_one_after_it() {
        for leaps in views(Leap { at: MIDNIGHT + 35, step: -1 }) {
            let secs = |unix| (leaps.instant(unix, 7).secs(), leaps.last_instant(unix, 7).secs());
            assert_eq!(secs(MIDNIGHT - 2), (MIDNIGHT + 34, MIDNIGHT + 34));
            assert_eq!(secs(MIDNIGHT - 1), (MIDNIGHT + 35, MIDNIGHT + 35), "there is none such");
            assert_eq!(secs(MIDNIGHT), (MIDNIGHT + 35, MIDNIGHT + 35));
            assert_eq!(secs(MIDNIGHT + 1), (MIDNIGHT + 36, MIDNIGHT + 36));
        }
    }

    proptest! {
        #[test]
        fn unix_time_round_trips(s in -10_000i64..10_000, frac: u64, step in 0..2i8) {
            let at = Instant::new(MIDNIGHT + s, frac);
            let leap = Leap { at: MIDNIGHT + 36 + i64::from(2 * step - 1), step: 2 * step - 1 };
            for leaps in views(leap).into_iter().chain([Leaps::default()]) {
                let utc = leaps.utc(at);
                let first = leaps.instant(utc.unix, utc.frac);
                let shown = if utc.leap_second { leaps.again(first) } else { Some(first) };
                prop_assert_eq!(shown, Some(at));
            }
        }
    }
}
