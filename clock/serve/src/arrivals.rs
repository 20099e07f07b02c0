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
    /// True if the kernel's stamp says so. Else it is when the datagram was in our hands.
    pub by_kernel: bool,
}

/// Conversion of kernel stamps into counts.
#[derive(Debug)]
pub(crate) struct Arrivals {
    counter: Counter,
    log: PairLog,
    last: Option<HostPair>,
    stretches: VecDeque<Stretch>,
    /// Part of every error: the counter's steps, and the largest step of the clock that may have
    /// gone unseen in one of the stretches.
    unseen: CountSpan,
    /// Count after which everything in the sockets' queues arrived.
    empty: Count,
    /// Since then the clock did something strange.
    strange: bool,
}

/// Stretch of the system clock between two pairs, if nothing strange happened.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// The system clock at its ends, ns.
    from_ns: i64,
    to_ns: i64,
    /// The count at its end.
    to: Count,
    /// Counts in a ns by the system clock, in 2⁻³².
    rate: i128,
    /// Error bound of the pairs' own counts.
    width: CountSpan,
    /// Step that the clock may have made without showing.
    slack: CountSpan,
    /// True if nothing strange happened.
    ordinary: bool,
}

impl Arrivals {
    /// Stamps by the counter of this kind, whose counts last `period`.
    pub fn new(kind: CounterKind, period: Period) -> Result<Arrivals, CounterError> {
        let counter = Counter::of_kind(kind)?.fenced();
        let mut arrivals = Arrivals::by(counter, PairLog::new(period, resolution(counter)));
        arrivals.pair();
        Ok(arrivals)
    }

    /// Stamps by this counter and an empty log.
    fn by(counter: Counter, log: PairLog) -> Arrivals {
        Arrivals {
            counter,
            unseen: log.resolution(),
            log,
            last: None,
            stretches: VecDeque::with_capacity(STRETCHES),
            empty: counter.read(),
            strange: false,
        }
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
        self.push(realtime_pair(self.counter, TRIES));
    }

    fn push(&mut self, pair: HostPair) {
        self.log.push(pair);
        if let Some(last) = self.last.replace(pair) {
            if self.stretches.len() >= STRETCHES {
                self.stretches.pop_front();
            }
            let stretch = Stretch::between(self.log.period(), &last, &pair);
            self.strange |= !stretch.ordinary;
            self.stretches.push_back(stretch);
            // Such a step shows a time twice, perhaps in two stretches: that of either counts.
            let slack = self.stretches.iter().map(|stretch| stretch.slack).max();
            self.unseen = self.log.resolution() + slack.unwrap_or_default();
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
        let (count, error) = stretch.place(unix_ns);
        Some((count, error + self.unseen))
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
            slack: period.counts(interval.slack()),
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

    /// Counts by which the counter goes on.
    const RESOLUTION: i64 = 20;

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
        by_steps_of(RESOLUTION, pairs)
    }

    /// Arrivals by these pairs and a counter of this resolution.
    fn by_steps_of(resolution: i64, pairs: &[HostPair]) -> Arrivals {
        let counter = Counter::of_kind(CounterKind::Raw).unwrap();
        let log = PairLog::new(Period::NANOSECOND, CountSpan(resolution));
        let mut arrivals = Arrivals::by(counter, log);
        pairs.iter().for_each(|pair| arrivals.push(*pair));
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

    /// Checks that what is told quickly of a stamp agrees with the log, and is no surer.
    fn quick_agrees_with_the_log(gap: u64, slew: i64, part: f64, resolution: i64) {
        let gained = gap as i64 * slew / 1_000_000;
        let (left, mut right) = (pair(0, 0), pair(gap, gained));
        right.monotonic_ns += gained;
        let arrivals = by_steps_of(resolution, &[left, right]);
        let unix_ns = 100 + ((right.unix_ns - 150) as f64 * part) as i64;
        let window = Window { earliest: left.after, latest: right.before };
        let stamp = arrivals.log.invert(unix_ns, window).expect("shown in between");
        let (count, error) = arrivals.ordinarily(unix_ns).expect("nothing strange");
        // The line between the pairs begins within them, the window after the first.
        let apart = (count - stamp.count).0.abs();
        let inside = window.latest.at_or_after(count) && count.at_or_after(window.earliest);
        assert!(apart <= if inside { 2 } else { 51 }, "{count:?} {stamp:?}");
        assert!(error.0 + apart + 2 >= stamp.error.0, "{count:?} {error:?} {stamp:?}");
    }

    #[test]
    fn the_quick_way_is_no_surer_than_the_counters_steps() {
        // A counter that looked coarse while the machine was busy.
        for resolution in [1, 20, 150, 500, 5_000] {
            quick_agrees_with_the_log(256_987, 285, 0.700_772_841_565_087_6, resolution);
        }
    }

    #[test]
    fn the_quick_way_allows_for_a_step_that_passes_for_none() {
        // 2 µs forward just before the third pair, whose reading was held up by 3 µs.
        let mut pairs = [pair(0, 0), pair(100_000, 0), pair(200_000, 2_000), pair(300_000, 2_000)];
        pairs[2].end = pairs[2].end + CountSpan(3_000);
        let arrivals = arrivals(&pairs);
        for (at, ahead) in [(199_000, 0), (150_000, 0), (250_000, 2_000), (201_000, 2_000)] {
            let (count, error) = arrivals.ordinarily(at + ahead).expect("nothing strange");
            assert!((count - Count(at as u64)).abs() <= error, "{at}: {count:?} {error:?}");
        }
    }

    /// A clock that bends and is stepped where nobody sees it, by true counts, each a ns.
    struct Clock {
        /// From this count on (ascending, from 0), this rate in ppm, after this step in ns.
        bends: Vec<(i64, i64, i64)>,
        /// In what steps the counter goes on.
        resolution: i64,
    }

    impl Clock {
        fn count(&self, at: i64) -> Count {
            Count((at - at.rem_euclid(self.resolution)) as u64)
        }

        /// `CLOCK_REALTIME`, and `CLOCK_MONOTONIC`.
        fn shows(&self, at: i64) -> (i64, i64) {
            let (mut shown, mut stepped) = (0, 0);
            for (index, (from, ppm, step)) in self.bends.iter().enumerate() {
                let until = self.bends.get(index + 1).map_or(at, |next| next.0.min(at));
                shown += (until - from).max(0) * (1_000_000 + ppm);
                stepped += if at >= *from { *step } else { 0 };
            }
            (shown.div_euclid(1_000_000) + stepped, shown.div_euclid(1_000_000))
        }

        /// A pair from `at` on, of which each part takes so long.
        fn pair(&self, at: i64, parts: [i64; 4]) -> HostPair {
            let [read, after, again, end] = parts.map({
                let mut now = at;
                move |part| {
                    now += part;
                    now
                }
            });
            HostPair {
                before: self.count(at),
                unix_ns: self.shows(read).0,
                after: self.count(after),
                monotonic_ns: self.shows(again).1,
                end: self.count(end),
            }
        }
    }

    proptest! {
        #[test]
        fn the_quick_way_agrees_with_the_log(
            gap in 1_000u64..1_000_000, slew in -400i64..400, part in 0.0f64..1.0,
            resolution in 1i64..1_000,
        ) {
            quick_agrees_with_the_log(gap, slew, part, resolution);
        }

        /// The truth lies within what either says of a stamp.
        #[test]
        fn the_truth_is_within_the_error(
            stretches in prop::collection::vec(
                (
                    10_000i64..1_000_000,
                    prop::array::uniform4(prop_oneof![4 => 0i64..60, 1 => 0i64..2_000]),
                    prop::array::uniform2((0.0f64..1.0, -1_000i64..1_000)),
                    prop_oneof![2 => Just(0i64), 1 => -3_000i64..3_000],
                ),
                2..6,
            ),
            stamps in prop::collection::vec(0.0f64..1.0, 20),
            resolution in 1i64..500,
        ) {
            let mut clock = Clock { bends: vec![(0, 0, 0)], resolution };
            let mut begins = vec![];
            let mut at = 1_000_000;
            for (index, (gap, parts, mut bends, step)) in stretches.iter().cloned().enumerate() {
                begins.push((at, parts));
                bends.sort_by(|a, b| a.0.total_cmp(&b.0));
                let room = gap - parts.iter().sum::<i64>();
                let within = |share: f64| at + gap - (room as f64 * (1.0 - share)) as i64;
                clock.bends.extend(bends.map(|(share, ppm)| (within(share), ppm, 0)));
                // As much as there is of a step shows: what the pairs' reading adds is of its sign.
                let took = |parts: [i64; 4]| parts[1] + parts[2];
                let added = stretches.get(index + 1).map_or(0, |next| took(parts) - took(next.1));
                let sign = if added == 0 { step.signum() } else { added.signum() };
                clock.bends.last_mut().unwrap().2 = step.abs() * sign;
                at += gap;
            }
            let pairs: Vec<_> = begins.iter().map(|(at, parts)| clock.pair(*at, *parts)).collect();
            let arrivals = by_steps_of(resolution, &pairs);
            let (first, last) = (pairs[0], pairs[pairs.len() - 1]);
            let window = Window { earliest: first.after, latest: last.before };
            for share in stamps {
                let (from, to) = (window.earliest.0 as i64 + resolution, window.latest.0 as i64);
                let at = from + ((to - from) as f64 * share) as i64;
                let unix_ns = clock.shows(at).0;
                let told = arrivals.ordinarily(unix_ns);
                let logged = arrivals.log.invert(unix_ns, window);
                prop_assert!(logged.is_ok(), "{logged:?} of {at}");
                let logged = logged.map(|stamp| (stamp.count, stamp.error));
                for (count, error) in told.into_iter().chain(logged) {
                    let off = (count - Count(at as u64)).abs();
                    prop_assert!(off <= error, "{told:?} and {logged:?} of {at}");
                }
            }
        }
    }
}
