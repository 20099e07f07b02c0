//! Face of the clock at one moment, and what a server says of it.

use truechimer::{Clock, Hand, ReadBy, View};
use truechimer_counter::Counter;
use truechimer_ntp::server::ServerState;
use truechimer_ntp::{LeapIndicator, Log2, RefId, Short, Timestamp};
use truechimer_time::{Count, CounterKind, Instant, Leaps, Period, Span};

use crate::Upstream;

/// Error that a reply's timestamps may have, as times of our clock: stamps that are known to half
/// of this, and the allowance for the time to the wire.
const STAMPING: Span = Span::from_micros(1);
/// Precision of the clock's readings: what one takes, rounded up to 2⁻²⁴ s.
const PRECISION: Span = Span::from_nanos(50);
/// A leap second is announced for so long before it (RFC 5905 has the last minute of the day).
const ANNOUNCED: i64 = 86_400;
/// The largest distance that the protocol knows (RFC 5905 Figure 7, MAXDISP): beyond it a clock is
/// not synchronised.
const MOST: Span = Span::from_secs(16);
/// Not synchronised (yet): as other servers say it.
const INIT: RefId = RefId(*b"INIT");

/// The clock at one moment, and how to get from there to moments close by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Face {
    /// The count, by the counter with which datagrams are stamped.
    pub count: Count,
    /// The time at it.
    pub time: Instant,
    /// Length of a count.
    pub period: Period,
    /// Leap seconds, to get to UTC.
    pub leaps: Leaps,
    /// Bound of the time's error; `None` where nothing is promised.
    pub bound: Option<Bound>,
}

/// Bound of the time's error, and since when it is what it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bound {
    /// Altogether.
    pub whole: Span,
    /// Of that what no filter removes: the path to the source and the source's own distance.
    pub path: Span,
    /// When the clock last learnt something.
    pub since: Instant,
}

/// By which counter datagrams are to be stamped for this view: its own, or the kernel's where it is
/// a device, each reading of which takes some microseconds.
pub(crate) fn stamped_by(view: &View) -> CounterKind {
    match view.read_by {
        ReadBy::Counter => view.hand.counter.kind,
        _ => CounterKind::Raw,
    }
}

impl Face {
    /// Face of the clock by `counter`, which is the one of [`stamped_by`].
    pub fn look(clock: &Clock, counter: Counter, view: View) -> Face {
        if view.read_by == ReadBy::Counter {
            return Face::of(&view, view.count, view.hand.period, Span::ZERO);
        }
        // The same moment by both, as well as it goes: half of what it took may be wrong.
        let before = counter.read();
        let view = clock.view().unwrap_or(view);
        let after = counter.read();
        let error = Period::NANOSECOND.span(after - before);
        Face::of(&view, before.midpoint(after), Period::NANOSECOND, error)
    }

    /// Face of the clock at `count`, which is that of the view by another counter and may be
    /// `error` off.
    pub fn of(view: &View, count: Count, period: Period, error: Span) -> Face {
        let hand: &Hand = &view.hand;
        let reading = view.reading(view.count, view.status);
        let bound = reading.bound().map(|whole| Bound {
            whole: whole + error,
            path: hand.path_bound,
            since: hand.time.min(reading.best),
        });
        Face { count, time: reading.best, period, leaps: hand.leaps, bound }
    }

    /// A time of which nothing is promised: the system clock's.
    pub fn unknown(count: Count, unix_ns: i64, period: Period) -> Face {
        let time = Instant::from_nanos(unix_ns.into());
        Face { count, time, period, leaps: Leaps::default(), bound: None }
    }

    /// Timestamp of the clock at another count, not far away.
    pub fn timestamp(&self, count: Count) -> Timestamp {
        let at = self.time + self.period.span(count - self.count);
        Timestamp::from_instant(at, &self.leaps)
    }

    /// State that a server of this clock tells, which follows `upstream`.
    ///
    /// A client believes such a server to be within half the root delay + the root dispersion of
    /// true time: together they are the bound, and no less for being rounded.
    pub fn state(&self, upstream: Option<Upstream>) -> ServerState {
        let precision = Log2::at_least(PRECISION);
        let stratum = upstream.map_or(0, |upstream| upstream.served_stratum());
        let bound = self.bound.filter(|bound| bound.whole <= MOST && (1..16).contains(&stratum));
        let (Some(bound), Some(upstream)) = (bound, upstream) else {
            return ServerState {
                leap: LeapIndicator::Unsynchronised,
                stratum: 16,
                precision,
                root_delay: Short::default(),
                root_dispersion: Short::at_least(MOST),
                reference_id: INIT,
                reference_timestamp: Timestamp::UNKNOWN,
            };
        };
        // What rounding adds to the delay is taken off the dispersion, which may leave nothing: a
        // client adds them up.
        let path = bound.path.min(bound.whole);
        let root_delay = Short::at_least(path + path);
        ServerState {
            leap: self.leap(),
            stratum,
            precision,
            root_delay,
            root_dispersion: Short::at_least(bound.whole + STAMPING - root_delay.span().half()),
            reference_id: upstream.reference_id,
            reference_timestamp: Timestamp::from_instant(bound.since, &self.leaps),
        }
    }

    /// The leap second of the day to come, if there is one.
    fn leap(&self) -> LeapIndicator {
        match self.leaps.next {
            Some(leap) if (1..=ANNOUNCED).contains(&leap.at.saturating_sub(self.time.secs())) => {
                if leap.step > 0 {
                    LeapIndicator::Insert
                } else {
                    LeapIndicator::Delete
                }
            }
            _ => LeapIndicator::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use truechimer_time::Leap;

    const BEHIND: Upstream = Upstream { stratum: 2, reference_id: RefId([192, 0, 2, 1]) };

    fn face(path: Span, whole: Span) -> Face {
        Face {
            count: Count(1_000_000),
            time: Instant::new(1_800_000_000, 0),
            period: Period::NANOSECOND,
            leaps: Leaps { tai_offset: 37, known: true, ..Leaps::default() },
            bound: Some(Bound { whole, path, since: Instant::new(1_799_999_990, 0) }),
        }
    }

    #[test]
    fn what_is_said_of_a_good_clock() {
        let state = face(Span::from_millis(5), Span::from_millis(6)).state(Some(BEHIND));
        assert_eq!((state.leap, state.stratum), (LeapIndicator::None, 3));
        assert_eq!(state.reference_id, BEHIND.reference_id);
        assert_eq!(state.reference_timestamp, Timestamp::from_unix(1_799_999_990 - 37, 0));
        // 10 ms and 1 ms in units of 15 µs, rounded up.
        assert_eq!((state.root_delay, state.root_dispersion), (Short(656), Short(66)));
    }

    #[test]
    fn what_promises_nothing_is_not_synchronised() {
        let good = face(Span::ZERO, Span::from_millis(1));
        let unsynchronised = |face: Face, upstream| {
            let state = face.state(upstream);
            assert_eq!((state.stratum, state.reference_id), (16, INIT));
            state.leap == LeapIndicator::Unsynchronised
        };
        assert!(unsynchronised(Face { bound: None, ..good }, Some(BEHIND)));
        assert!(unsynchronised(good, None));
        assert!(unsynchronised(good, Some(Upstream { stratum: 15, ..BEHIND })));
        assert!(unsynchronised(good, Some(Upstream { stratum: 255, ..BEHIND })));
        let far = face(Span::ZERO, Span::from_secs(16) + Span(1));
        assert!(unsynchronised(far, Some(BEHIND)));
        let pulse = Upstream { stratum: 0, reference_id: RefId(*b"PPS\0") };
        assert_eq!(good.state(Some(pulse)).stratum, 1);
    }

    #[test]
    fn a_leap_second_is_announced_for_a_day() {
        let mut face = face(Span::ZERO, Span::ZERO);
        let now = face.time.secs();
        for (at, step, said) in [
            (now + 86_400, 1, LeapIndicator::Insert),
            (now + 86_400, -1, LeapIndicator::Delete),
            (now + 1, 1, LeapIndicator::Insert),
            (now + 86_401, 1, LeapIndicator::None),
            (now, 1, LeapIndicator::None),
            (i64::MIN, 1, LeapIndicator::None),
            (i64::MAX, 1, LeapIndicator::None),
        ] {
            face.leaps.next = Some(Leap { at, step });
            assert_eq!(face.state(Some(BEHIND)).leap, said, "{at}");
        }
    }

    fn a_client_hears_of(path: Span, whole: Span) -> Result<(), TestCaseError> {
        prop_assume!(whole <= MOST);
        let state = face(path, whole).state(Some(BEHIND));
        let distance = state.root_delay.span().half() + state.root_dispersion.span();
        prop_assert!(distance >= whole + STAMPING);
        prop_assert!(distance <= whole + STAMPING + Span::from_micros(16));
        Ok(())
    }

    proptest! {
        /// Whatever is rounded: half the delay and the dispersion cover the bound, and not by much.
        #[test]
        fn a_client_hears_of_the_whole_bound(
            path in 0i128..1 << 67,
            rest in 0i128..1 << 66,
            near in 0i64..60_000,
        ) {
            // Far from the path's part, near it, and less than it.
            for whole in [Span(path + rest), Span(path) + Span::from_nanos(near), Span(path / 2)] {
                a_client_hears_of(Span(path), whole)?;
            }
        }

        #[test]
        fn times_near_the_moment_are_of_the_clock(ns in -1_000_000i64..1_000_000_000) {
            let face = face(Span::ZERO, Span::ZERO);
            let at = face.timestamp(Count(1_000_000u64.wrapping_add_signed(ns)));
            let expected = Timestamp::from_unix(1_800_000_000 - 37, 0).since(at) + Span::from_nanos(ns);
            prop_assert!(expected.abs() <= Span::from_nanos(1));
        }
    }
}
