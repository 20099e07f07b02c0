//! Kernel stamps as counts, many a second.
//!
//! A [`PairLog`] can say of any stamp what there is to say, at a microsecond or so each. Here is
//! the ordinary case, for a few nanoseconds: the system clock was not stepped, and ran between two
//! pairs at the rate that they show. Whatever is not ordinary goes to the log.

use std::collections::VecDeque;

use truechimer_counter::{Counter, CounterError, HostPair, realtime_pair, resolution};
use truechimer_stamp::{Interval, PairLog, Window};
use truechimer_time::{Count, CountSpan, CounterKind, Period, Span};

/// Stretches between pairs that are looked through for a stamp.
const STRETCHES: usize = 16;
/// Readings that a pair is the narrowest of: 0.5 µs in all.
const TRIES: u32 = 4;
/// A stamp known to within this is taken for what it most likely is, and the root dispersion allows
/// for it; of a worse one the latest that it can be is taken, so that the client counts the doubt
/// as delay.
const GOOD: Span = Span::from_nanos(500);

/// When a datagram arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arrival {
    pub count: Count,
    /// Whether the kernel's stamp says so. Else it is when the datagram was in our hands.
    pub by_kernel: bool,
}

/// What turns kernel stamps into counts.
#[derive(Debug)]
pub(crate) struct Arrivals {
    counter: Counter,
    log: PairLog,
    last: Option<HostPair>,
    stretches: VecDeque<Stretch>,
    /// What is in the sockets' queues arrived after this.
    empty: Count,
    /// Since then the clock did something strange.
    strange: bool,
}

/// What the system clock did between two pairs, if nothing strange.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// The system clock at its ends, ns.
    from_ns: i64,
    to_ns: i64,
    /// The count at its end.
    to: Count,
    /// Counts in a ns by the system clock, in 2⁻³².
    rate: i128,
    /// How far the pairs' own counts may be off.
    width: CountSpan,
    /// Whether nothing strange happened.
    ordinary: bool,
}

impl Arrivals {
    /// Stamps by the counter of this kind, whose counts last `period`.
    pub fn new(kind: CounterKind, period: Period) -> Result<Arrivals, CounterError> {
        let counter = Counter::of_kind(kind)?.fenced();
        let mut arrivals = Arrivals {
            counter,
            log: PairLog::new(period, resolution(counter)),
            last: None,
            stretches: VecDeque::with_capacity(STRETCHES),
            empty: counter.read(),
            strange: false,
        };
        arrivals.pair();
        Ok(arrivals)
    }

    /// The counter, fenced.
    pub fn counter(&self) -> Counter {
        self.counter
    }

    /// The system clock at the newest pair: its count, Unix ns, and how long a count lasts.
    pub fn system_clock(&self) -> (Count, i64, Period) {
        let pair = self.last.unwrap_or_else(|| realtime_pair(self.counter, 1));
        (pair.mid(), pair.unix_ns, self.log.period())
    }

    /// Takes a pair now: what arrived before can be told.
    pub fn pair(&mut self) {
        let pair = realtime_pair(self.counter, TRIES);
        self.log.push(pair);
        if let Some(last) = self.last.replace(pair) {
            if self.stretches.len() >= STRETCHES {
                self.stretches.pop_front();
            }
            let stretch = Stretch::between(self.log.period(), &last, &pair);
            self.strange |= !stretch.ordinary;
            self.stretches.push_back(stretch);
        }
    }

    /// Nothing was in the queues any more at `count`, before the newest pair.
    pub fn emptied(&mut self, count: Count) {
        self.empty = count;
        // What the newest stretch has of it may have been after that.
        self.strange = self.stretches.back().is_some_and(|newest| !newest.ordinary);
    }

    /// When the datagram with this stamp arrived that was received before `latest`, of which the
    /// newest pair is not before.
    pub fn arrived(&self, unix_ns: Option<i64>, latest: Count) -> Arrival {
        let told = unix_ns.and_then(|unix_ns| {
            self.ordinarily(unix_ns).or_else(|| {
                let window = Window { earliest: self.empty, latest };
                self.log.invert(unix_ns, window).ok().map(|stamp| (stamp.count, stamp.error))
            })
        });
        let Some((count, error)) = told else { return Arrival { count: latest, by_kernel: false } };
        let doubtful = self.log.period().span(error) > GOOD;
        let count = if doubtful { count + error } else { count };
        let count = if latest.at_or_after(count) { count } else { latest };
        Arrival { count, by_kernel: true }
    }

    /// When the reply with this stamp left, which was between these.
    pub fn departed(&self, unix_ns: i64, window: Window) -> Option<Count> {
        let stamp = self.log.invert(unix_ns, window).ok()?;
        (self.log.period().span(stamp.error) <= GOOD).then_some(stamp.count)
    }

    /// The count of a stamp and its error, in the ordinary case.
    fn ordinarily(&self, unix_ns: i64) -> Option<(Count, CountSpan)> {
        // Had the clock been stepped, the stamp might be of the time before.
        if self.strange {
            return None;
        }
        let within = |s: &&Stretch| (s.from_ns..=s.to_ns).contains(&unix_ns);
        let stretch = self.stretches.iter().rev().find(within)?;
        Some(stretch.place(unix_ns))
    }
}

impl Stretch {
    fn between(period: Period, left: &HostPair, right: &HostPair) -> Stretch {
        let interval = Interval::new(right.mid(), period, left, right);
        let (ns, counts) = (right.unix_ns.saturating_sub(left.unix_ns), right.mid() - left.mid());
        let rate = (i128::from(counts.0) << 32).checked_div(i128::from(ns)).unwrap_or(0);
        Stretch {
            from_ns: left.unix_ns,
            to_ns: right.unix_ns,
            to: right.mid(),
            rate,
            width: CountSpan(left.width().0.max(right.width().0)),
            ordinary: !interval.is_stepped() && interval.is_ordinary() && ns > 0,
        }
    }

    /// The count at which the clock showed `unix_ns`, one of this stretch, with its error: on the
    /// straight line, from which ordinary slewing (0.11 %) takes it the farther the farther the
    /// nearer end is.
    fn place(&self, unix_ns: i64) -> (Count, CountSpan) {
        let counts = |ns: i64| CountSpan(((i128::from(ns) * self.rate) >> 32) as i64);
        let (since, until) = (unix_ns - self.from_ns, self.to_ns - unix_ns);
        let slewed = since.min(until) / 450 + 2;
        (self.to - counts(until), counts(slewed) + self.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A pair of 100 ns by a counter of nanoseconds, and a system clock that is `ahead` of it.
    fn pair(at: u64, ahead: i64) -> HostPair {
        HostPair {
            before: Count(at),
            unix_ns: at as i64 + 50 + ahead,
            after: Count(at + 100),
            monotonic_ns: at as i64 + 150,
            end: Count(at + 200),
        }
    }

    fn arrivals(pairs: &[HostPair]) -> Arrivals {
        let mut arrivals = Arrivals::new(CounterKind::Raw, Period::NANOSECOND).unwrap();
        arrivals.log.clear();
        arrivals.stretches.clear();
        arrivals.last = None;
        for pair in pairs {
            arrivals.log.push(*pair);
            if let Some(last) = arrivals.last.replace(*pair) {
                arrivals.stretches.push_back(Stretch::between(Period::NANOSECOND, &last, pair));
            }
        }
        arrivals.strange = arrivals.stretches.iter().any(|stretch| !stretch.ordinary);
        arrivals.empty = pairs[0].after;
        arrivals
    }

    #[test]
    fn an_ordinary_stamp_is_told_to_the_pairs_width() {
        let arrivals = arrivals(&[pair(0, 7_000_000), pair(100_000, 7_000_000)]);
        for at in [200u64, 10_000, 99_000] {
            let arrival = arrivals.arrived(Some(at as i64 + 7_000_000), Count(100_000));
            assert!(arrival.by_kernel && (arrival.count - Count(at)).0.abs() <= 1, "{arrival:?}");
        }
    }

    #[test]
    fn a_doubtful_stamp_is_as_late_as_it_can_be() {
        // In the middle of a tenth of a second, ordinary slewing may have made 0.1 ms of it.
        let arrivals = arrivals(&[pair(0, 0), pair(100_000_000, 0)]);
        let arrival = arrivals.arrived(Some(50_000_000), Count(100_000_000));
        assert!((100_000..130_000).contains(&(arrival.count - Count(50_000_000)).0), "{arrival:?}");
        // Never later than it was in our hands.
        let arrival = arrivals.arrived(Some(50_000_000), Count(50_000_100));
        assert_eq!(arrival.count, Count(50_000_100));
    }

    #[test]
    fn what_was_stamped_before_a_step_is_told_or_taken_for_late() {
        // Back by 1 ms between the second and the third pair.
        let (before, after) = (5_000_000, 4_000_000);
        let pairs = [
            pair(0, before),
            pair(2_000_000, before),
            pair(2_100_000, after),
            pair(4_000_000, after),
        ];
        let arrivals = arrivals(&pairs);
        let latest = Count(4_000_000);
        // Shown twice, 1 ms apart: the later of the two it is, or later.
        let arrival = arrivals.arrived(Some(1_500_000 + before), latest);
        assert!(arrival.count.at_or_after(Count(2_490_000)), "{arrival:?}");
        // Of before the step, and only of then.
        let arrival = arrivals.arrived(Some(500_000 + before), latest);
        assert!((arrival.count - Count(500_000)).0.abs() < 2_000, "{arrival:?}");
        // Nothing the clock ever showed.
        let arrival = arrivals.arrived(Some(77), latest);
        assert_eq!(arrival, Arrival { count: latest, by_kernel: false });
        assert!(!arrivals.arrived(None, latest).by_kernel);
    }

    proptest! {
        /// What is told quickly agrees with what the log says of the same stamp.
        #[test]
        fn the_quick_way_agrees_with_the_log(
            gap in 1_000u64..1_000_000, slew in -400i64..400, part in 0.0f64..1.0,
        ) {
            let gained = gap as i64 * slew / 1_000_000;
            let (left, mut right) = (pair(0, 0), pair(gap, gained));
            right.monotonic_ns += gained;
            let arrivals = arrivals(&[left, right]);
            let unix_ns = 100 + ((right.unix_ns - 150) as f64 * part) as i64;
            let window = Window { earliest: left.after, latest: right.before };
            let stamp = arrivals.log.invert(unix_ns, window);
            prop_assume!(stamp.is_ok());
            let stamp = stamp.unwrap();
            let (count, error) = arrivals.ordinarily(unix_ns).expect("nothing strange");
            prop_assert!((count - stamp.count).0.abs() <= 101, "{count:?} {stamp:?}");
            // It never claims to know what the log does not.
            prop_assert!(error.0 + 110 >= stamp.error.0 - 1, "{error:?} {stamp:?}");
        }
    }
}
