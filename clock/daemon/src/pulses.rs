//! The pulses per second: looked at when an edge is due, never waited for.

use std::path::PathBuf;

use truechimer_counter::Counter;
use truechimer_engine::{Event, SourceId};
use truechimer_stamp::pps::{EdgeLog, Pps, PpsError};
use truechimer_time::{Count, CountSpan, Period, Span};

/// How often a pulse is looked at whose edges come nobody knows when.
const SEARCH: Span = Span::from_millis(100);
/// An edge is looked for so long after it is due: it has to have come, and the sooner it is found
/// the better its count is known.
const AFTER: Span = Span::from_micros(500);
/// Not yet there, it is looked for again so much later, then twice as much, and so on.
const AGAIN: Span = Span::from_millis(1);
/// A second by the counter may be so far off: 1 %.
const OFF: i64 = 100;
/// A plain file that is being written may show half a line, but not so often in a row.
const HALF_LINES: u32 = 8;

/// All pulses.
#[derive(Debug)]
pub(crate) struct Pulses {
    counter: Counter,
    nominal: Period,
    resolution: CountSpan,
    watched: Vec<Watched>,
}

/// One that is open.
#[derive(Debug)]
struct Watched {
    source: SourceId,
    pps: Pps,
    log: EdgeLog,
    /// When it is looked at next.
    due: Count,
    /// Looks since the last edge.
    looks: u32,
    half_lines: u32,
    /// The newest edge, and how long after the one before it came, if that was a second.
    last: Option<Count>,
    second: CountSpan,
}

impl Pulses {
    pub(crate) fn new(counter: Counter, nominal: Period, resolution: CountSpan) -> Pulses {
        Pulses { counter, nominal, resolution, watched: Vec::new() }
    }

    /// Opens the pulse at `path`. If that fails, this is what the engine should hear.
    pub(crate) fn watch(&mut self, source: SourceId, path: &str) -> Option<Event> {
        self.close(source);
        match Pps::open(&PathBuf::from(path)) {
            Ok(pps) => {
                let mut log = EdgeLog::new(self.counter, self.nominal, self.resolution);
                let pair = log.look();
                self.watched.push(Watched {
                    source,
                    pps,
                    log,
                    due: pair.end,
                    looks: 0,
                    half_lines: 0,
                    last: None,
                    second: self.nominal.counts(Span::from_secs(1)),
                });
                None
            }
            Err(why) => Some(Event::PpsFailed { source, error: why.to_string() }),
        }
    }

    /// Closes it.
    pub(crate) fn close(&mut self, source: SourceId) {
        self.watched.retain(|watched| watched.source != source);
    }

    /// Forgets all counts: the counter lost its continuity.
    pub(crate) fn forget(&mut self) {
        let now = self.counter.read();
        for watched in &mut self.watched {
            watched.log.clear();
            watched.due = now;
            watched.last = None;
        }
    }

    /// When [`Pulses::look`] is wanted next, if ever.
    pub(crate) fn due(&self, now: Count) -> Option<Count> {
        self.watched.iter().map(|watched| watched.due).min_by_key(|due| (*due - now).0)
    }

    /// Looks at those that are due.
    pub(crate) fn look(&mut self, now: Count) -> Vec<Event> {
        let nominal = self.nominal;
        let mut events = Vec::new();
        self.watched.retain_mut(|watched| {
            if !now.at_or_after(watched.due) {
                return true;
            }
            match watched.look(nominal) {
                Ok(event) => {
                    events.extend(event);
                    true
                }
                Err(why) => {
                    let error = why.to_string();
                    events.push(Event::PpsFailed { source: watched.source, error });
                    false
                }
            }
        });
        events
    }
}

impl Watched {
    fn look(&mut self, nominal: Period) -> Result<Option<Event>, PpsError> {
        let now = self.log.look().end;
        let edge = match self.pps.fetch() {
            Err(PpsError::Line { .. }) if self.half_lines < HALF_LINES => {
                self.half_lines += 1;
                None
            }
            fetched => {
                self.half_lines = 0;
                fetched?
            }
        };
        let Some(edge) = edge else {
            let wait = AGAIN * (1 << self.looks.min(7));
            self.looks = self.looks.saturating_add(1);
            self.due = now + nominal.counts(wait.min(SEARCH));
            return Ok(None);
        };
        self.looks = 0;
        let stamp = self.log.stamp(&edge).map_err(|why| why.to_string());
        self.due = match &stamp {
            Ok(stamp) => self.next(stamp.count, now, nominal),
            Err(_) => now + nominal.counts(SEARCH),
        };
        Ok(Some(Event::Edge { source: self.source, sequence: edge.sequence, stamp }))
    }

    /// When to look for the edge after that at `count`.
    fn next(&mut self, count: Count, now: Count, nominal: Period) -> Count {
        let nominally = nominal.counts(Span::from_secs(1));
        let apart = self.last.replace(count).map(|last| count - last);
        let is_second = |apart: &CountSpan| (apart.0 - nominally.0).abs() <= nominally.0 / OFF;
        match apart.filter(is_second) {
            Some(second) => self.second = second,
            // Nobody knows yet whether they come every second.
            None => return now + nominal.counts(SEARCH),
        }
        let due = count + CountSpan(self.second.0) + nominal.counts(AFTER);
        if due.at_or_after(now) { due } else { now + nominal.counts(SEARCH) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_counter::{Choice, realtime_pair};

    #[test]
    fn edges_are_found_and_then_expected() {
        let path = std::env::temp_dir().join(format!("truechimer-pulse-{}", std::process::id()));
        let text = path.to_str().unwrap().to_owned();
        let counter = Counter::open(Choice::Raw).unwrap();
        let mut pulses = Pulses::new(counter, Period::NANOSECOND, CountSpan(1));
        let id = SourceId(7);
        let missing = pulses.watch(id, &text);
        assert!(matches!(missing, Some(Event::PpsFailed { source, .. }) if source == id));
        assert_eq!(pulses.due(counter.read()), None);
        std::fs::write(&path, "0.000000000#0\n").unwrap();
        assert_eq!(pulses.watch(id, &text), None);
        for sequence in 1..4u64 {
            // The edges of a clock of which a second is a moment.
            let unix_ns = realtime_pair(counter, 8).unix_ns;
            let line = format!(
                "{}.{:09}#{sequence}\n",
                unix_ns.div_euclid(1_000_000_000),
                unix_ns.rem_euclid(1_000_000_000)
            );
            std::fs::write(&path, line).unwrap();
            let due = pulses.due(counter.read()).unwrap();
            let events = pulses.look(due);
            let [Event::Edge { source, sequence: found, stamp: Ok(stamp) }] = events.as_slice()
            else {
                panic!("{events:?}")
            };
            assert_eq!((*source, *found), (id, sequence));
            assert!(counter.read().at_or_after(stamp.count));
            let due = pulses.due(counter.read()).unwrap();
            assert!(pulses.look(due).is_empty(), "once only");
        }
        std::fs::write(&path, "nonsense\n").unwrap();
        let mut failed = Vec::new();
        for _ in 0..=HALF_LINES {
            assert!(failed.is_empty());
            let due = pulses.due(counter.read()).unwrap();
            failed = pulses.look(due);
        }
        assert!(matches!(failed.as_slice(), [Event::PpsFailed { .. }]), "{failed:?}");
        assert_eq!(pulses.due(counter.read()), None, "closed");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn the_next_edge_is_looked_for_a_second_later() {
        let path = std::env::temp_dir().join(format!("truechimer-next-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        let counter = Counter::open(Choice::Raw).unwrap();
        let mut pulses = Pulses::new(counter, Period::NANOSECOND, CountSpan(1));
        pulses.watch(SourceId(0), path.to_str().unwrap());
        let watched = pulses.watched.first_mut().unwrap();
        const SECOND: u64 = 1_000_000_000;
        let mut next = |at: u64, late: u64| {
            let now = Count(at + late);
            (watched.next(Count(at), now, Period::NANOSECOND) - Count(at)).0
        };
        assert_eq!(next(SECOND, 0), 100_000_000, "the first");
        // 300 ppm fast.
        assert_eq!(next(2 * SECOND + 300_000, 1_000_000), 1_000_800_000);
        assert_eq!(next(3 * SECOND, 0), 1_000_200_000);
        assert_eq!(next(7 * SECOND, 0), 100_000_000, "some are missing");
        assert_eq!(next(7 * SECOND + SECOND / 2, 0), 100_000_000, "2 Hz");
        assert_eq!(next(8 * SECOND + SECOND / 2, 2 * SECOND), 2_100_000_000, "looked too late");
        std::fs::remove_file(&path).unwrap();
    }
}
