//! Edges as counts.

use truechimer_counter::{Counter, HostPair};
use truechimer_time::{Count, CountSpan, Period, Span, Stamp};

use super::Edge;
use crate::log::{NoStamp, PairLog, Window};

/// This long before a look that showed no new edge, there was none: whoever shows edges does not
/// take longer over it. The kernel takes microseconds; a program that writes a plain file is
/// allowed what a scheduler may do.
const SHOWN: Span = Span::from_millis(250);
/// Looks that are remembered; of more, every second one of the older half goes.
const LOOKS: usize = 64;

/// Turns the kernel's stamps of edges into counts.
///
/// Take a pair before each look for an edge, and ask for the stamp right after one came: the
/// nearer the pair after it, the smaller the error (1.1 µs for a millisecond, as somebody may be
/// slewing the clock).
///
/// ```no_run
/// use std::{path::Path, time::Duration};
/// use truechimer_counter::{Choice, Counter, nominal, resolution};
/// use truechimer_stamp::pps::{EdgeLog, Pps};
///
/// let counter = Counter::open(Choice::Auto)?;
/// let mut log = EdgeLog::new(counter, nominal(counter)?.period, resolution(counter));
/// let mut pps = Pps::open(Path::new("/dev/pps0"))?;
/// loop {
///     log.look();
///     if let Some(edge) = pps.wait(Duration::from_secs(2))?
///         && let Ok(stamp) = log.stamp(&edge)
///     {
///         println!("edge {} at count {:?} ± {:?}", edge.sequence, stamp.count, stamp.error);
///     }
/// }
/// # #[allow(unreachable_code)]
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct EdgeLog {
    counter: Counter,
    log: PairLog,
    /// Length of [`SHOWN`] in counts.
    shown: CountSpan,
    /// When nothing new was there, in order.
    looks: Vec<Count>,
}

impl EdgeLog {
    /// An empty log; `period` and `resolution` as for [`PairLog::new`].
    #[must_use]
    pub fn new(counter: Counter, period: Period, resolution: CountSpan) -> EdgeLog {
        EdgeLog {
            counter,
            log: PairLog::new(period, resolution),
            shown: period.counts(SHOWN),
            looks: Vec::with_capacity(LOOKS),
        }
    }

    /// A log of what may be shown this much later than it happened: a program may take its time.
    #[must_use]
    pub fn shown_within(self, shown: Span) -> EdgeLog {
        EdgeLog { shown: self.log.period().counts(shown), ..self }
    }

    /// Takes a pair: to be called before each look for an edge.
    pub fn look(&mut self) -> HostPair {
        let pair = self.log.take(self.counter);
        self.note(pair.before);
        pair
    }

    /// The count of an edge that has just been shown, with the bound of its error: it lies within
    /// that of the count at which the kernel took the stamp. What the kernel was late by (interrupt
    /// latency) is not in it.
    ///
    /// # Errors
    /// If the clock showed no such time since the looks before, as when it was stepped more than
    /// once, or the edge is an old one.
    pub fn stamp(&mut self, edge: &Edge) -> Result<Stamp, NoStamp> {
        let pair = self.log.take(self.counter);
        self.find(edge, pair.after)
    }

    /// Forgets everything: for when the counter lost its continuity.
    pub fn clear(&mut self) {
        self.log.clear();
        self.looks.clear();
    }

    fn note(&mut self, count: Count) {
        if self.looks.last().is_some_and(|last| !count.at_or_after(*last)) {
            self.looks.clear();
        }
        if let Some(last) = self.looks.last().copied() {
            // One that is long enough before the last is enough of a beginning.
            let old = self.looks.iter().take_while(|look| self.is_settled(**look, last)).count();
            self.looks.drain(..old.saturating_sub(1));
        }
        if self.looks.len() >= LOOKS {
            let mut index = 0;
            self.looks.retain(|_| {
                index += 1;
                index > LOOKS / 2 || index % 2 == 1
            });
        }
        self.looks.push(count);
    }

    /// True if what happened before `look` was shown to a look at `later`.
    fn is_settled(&self, look: Count, later: Count) -> bool {
        later.at_or_after(look + self.shown)
    }

    fn find(&self, edge: &Edge, latest: Count) -> Result<Stamp, NoStamp> {
        // The newest look is the one that showed the edge; the one before it did not.
        let before = self.looks.iter().rev().nth(1).or(self.looks.first());
        let before = *before.ok_or(NoStamp::OutOfLog)?;
        let settled = self.looks.iter().rev().find(|look| self.is_settled(**look, before));
        let earliest = settled.or(self.looks.first()).copied().ok_or(NoStamp::OutOfLog)?;
        self.log.invert(edge.unix_ns, Window { earliest, latest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_counter::Choice;

    const SECOND: i64 = 1_000_000_000;
    const MS: i64 = 1_000_000;

    /// A log of a counter of nanoseconds, and a clock that is this far ahead of it.
    struct Bench {
        log: EdgeLog,
        ahead: i64,
    }

    impl Bench {
        fn new() -> Bench {
            let counter = Counter::open(Choice::Raw).unwrap();
            let log = EdgeLog::new(counter, Period::NANOSECOND, CountSpan(1));
            Bench { log, ahead: 1_700_000_000 * SECOND }
        }

        fn pair(&self, at: i64) -> HostPair {
            let count = |ns| Count((at + ns) as u64);
            HostPair {
                before: count(0),
                unix_ns: at + 20 + self.ahead,
                after: count(40),
                monotonic_ns: at + 60,
                end: count(80),
            }
        }

        fn look(&mut self, at: i64) {
            let pair = self.pair(at);
            self.log.log.push(pair);
            self.log.note(pair.before);
        }

        /// Stamps an edge of now, and looks for it at `at`.
        fn edge(&mut self, unix_ns: i64, at: i64) -> Result<Stamp, NoStamp> {
            let pair = self.pair(at);
            self.log.log.push(pair);
            self.log.find(&Edge { sequence: 1, unix_ns }, pair.after)
        }
    }

    #[test]
    fn an_edge_a_second_is_a_count_a_second() {
        let mut bench = Bench::new();
        for second in 1..2000 {
            bench.look(second * SECOND);
            let at = second * SECOND + 400 * MS;
            let stamp = bench.edge(at + bench.ahead, at + 2 * MS).unwrap();
            let error = (stamp.count.0 as i64 - at).abs();
            assert!(error <= stamp.error.0 && stamp.error.0 < 2_400, "{error} {stamp:?}");
            assert!(bench.log.looks.len() <= 3, "{}", bench.log.looks.len());
        }
    }

    #[test]
    fn many_looks_leave_the_window_open() {
        let mut bench = Bench::new();
        let mut shown = 0;
        for at in (0..20 * SECOND).step_by(3_000_000) {
            bench.look(at);
            if at / SECOND > shown {
                // The one who shows it took 200 ms.
                shown = at / SECOND;
                let edge = at - 200 * MS;
                let stamp = bench.edge(edge + bench.ahead, at + MS).unwrap();
                assert!((stamp.count.0 as i64 - edge).abs() <= stamp.error.0);
            }
            assert!(bench.log.looks.len() <= LOOKS);
        }
    }

    #[test]
    fn an_old_edge_has_no_count() {
        let mut bench = Bench::new();
        assert_eq!(bench.edge(bench.ahead, MS), Err(NoStamp::OutOfLog), "no look before");
        for second in 0..5 {
            bench.look(second * SECOND);
        }
        let at = 4 * SECOND + MS;
        assert_eq!(bench.edge(SECOND + bench.ahead, at), Err(NoStamp::NotCausal));
        assert_eq!(bench.edge(at + 2 * MS + bench.ahead, at + MS), Err(NoStamp::NotCausal));
    }

    #[test]
    fn a_step_gives_no_wrong_count() {
        for step in [-3600 * SECOND, -SECOND, -300 * MS, 300 * MS, SECOND, 3600 * SECOND] {
            let mut bench = Bench::new();
            bench.look(0);
            bench.look(SECOND);
            let edge = SECOND + 500 * MS;
            let unix_ns = edge + bench.ahead;
            // After the edge, before it was looked for.
            bench.ahead += step;
            if let Ok(stamp) = bench.edge(unix_ns, edge + 100 * MS) {
                let error = (stamp.count.0 as i64 - edge).abs();
                assert!(error <= stamp.error.0, "{step}: {error} {stamp:?}");
            }
            // Once the step is out of the window all is as good as ever.
            for second in 2..6 {
                bench.look(second * SECOND);
            }
            let edge = 5 * SECOND + 500 * MS;
            let stamp = bench.edge(edge + bench.ahead, edge + MS).unwrap();
            let error = (stamp.count.0 as i64 - edge).abs();
            assert!(error <= stamp.error.0 && stamp.error.0 < 2_000, "{step}: {stamp:?}");
        }
    }

    #[test]
    fn a_counter_that_went_back_begins_anew() {
        let mut bench = Bench::new();
        bench.look(9 * SECOND);
        bench.look(SECOND);
        let edge = SECOND + 500 * MS;
        assert!(bench.edge(edge + bench.ahead, edge + MS).is_ok());
        bench.log.clear();
        assert_eq!(bench.edge(edge + bench.ahead, edge + 2 * MS), Err(NoStamp::OutOfLog));
    }
}
