//! Course of the timings over time.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::distribution::Ruler;
use crate::stress::Load;

/// After so many slots, the next ones are twice as long: however long it takes, there are some
/// thousands at most.
const SLOTS: usize = 500;
/// Longer timings, in counts, are taken as this long.
const LONGEST: u64 = 1 << 40;

/// A stretch of time under one load.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Slot {
    /// From this time since the start, s.
    pub from_s: f64,
    /// To this time, s.
    pub to_s: f64,
    /// The load.
    pub load: Load,
    /// For each way, what its readings took.
    pub ways: Vec<Spread>,
}

/// Spread of the times that readings took in a short time, ns; the median and the 99 % are good to
/// 1 %.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Spread {
    /// The shortest.
    pub min_ns: f64,
    /// Half of them took no longer.
    pub median_ns: f64,
    /// 99 % took no longer.
    pub p99_ns: f64,
    /// The longest.
    pub max_ns: f64,
}

/// A slot in counts: minimum, median, 99 %, maximum of each way.
struct Raw {
    from: Duration,
    to: Duration,
    load: Load,
    ways: Vec<[u64; 4]>,
}

/// Makes slots.
pub(super) struct Tracer {
    length: Duration,
    counts: Vec<Histogram<u32>>,
    from: Duration,
    load: Option<Load>,
    /// When the last slot that was kept of each load began.
    kept: Vec<(Load, Duration)>,
    slots: Vec<Raw>,
}

impl Tracer {
    pub(super) fn new(ways: usize, length: Duration) -> Tracer {
        let one = || {
            Histogram::new_with_max(LONGEST, 2).expect("it takes up to 5 digits, and any maximum")
        };
        let counts = (0..ways).map(|_| one()).collect();
        Tracer {
            length,
            counts,
            from: Duration::ZERO,
            load: None,
            kept: Vec::new(),
            slots: Vec::new(),
        }
    }

    /// Another load begins.
    pub(super) fn begin(&mut self, load: Load, at: Duration) {
        self.close(at);
        self.load = Some(load);
    }

    /// A timing of the nth way; one that went back is left out.
    #[inline]
    pub(super) fn record(&mut self, nth: usize, counts: i64) {
        if let (Some(histogram), Ok(counts)) = (self.counts.get_mut(nth), u64::try_from(counts)) {
            histogram.saturating_record(counts);
        }
    }

    /// So much time has passed.
    pub(super) fn tick(&mut self, at: Duration) {
        if at.saturating_sub(self.from) >= self.length {
            self.close(at);
        }
    }

    fn close(&mut self, at: Duration) {
        let from = std::mem::replace(&mut self.from, at);
        let Some(load) = self.load else { return };
        if self.counts.iter().all(Histogram::is_empty) {
            return;
        }
        // Where the load changes so often that there would be more and more of them, some stand
        // for all.
        let before = self.kept.iter().find(|(of, _)| *of == load).map(|(_, began)| *began);
        let crowded = before.is_some_and(|began| from.saturating_sub(began) < self.length);
        if crowded && self.slots.len() >= SLOTS {
            self.counts.iter_mut().for_each(Histogram::clear);
            return;
        }
        self.kept.retain(|(of, _)| *of != load);
        self.kept.push((load, from));
        let of = |h: &Histogram<u32>| {
            let at = |q| h.value_at_quantile(q).min(h.max());
            [h.min(), at(0.5), at(0.99), h.max()]
        };
        let ways = self.counts.iter().map(of).collect();
        self.counts.iter_mut().for_each(Histogram::clear);
        self.slots.push(Raw { from, to: at, load, ways });
        if self.slots.len().is_multiple_of(SLOTS) {
            self.length *= 2;
        }
    }

    /// All of them, with the one under way.
    pub(super) fn finish(&mut self, ruler: &Ruler) -> Vec<Slot> {
        self.close(self.from + self.length);
        let nanos = |counts: u64| ruler.nanos(i64::try_from(counts).unwrap_or(i64::MAX));
        let spread = |[min, median, p99, max]: &[u64; 4]| Spread {
            min_ns: nanos(*min),
            median_ns: nanos(*median),
            p99_ns: nanos(*p99),
            max_ns: nanos(*max),
        };
        let slot = |raw: &Raw| Slot {
            from_s: raw.from.as_secs_f64(),
            to_s: raw.to.as_secs_f64(),
            load: raw.load,
            ways: raw.ways.iter().map(spread).collect(),
        };
        self.slots.iter().map(slot).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_time::Period;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn slots_end_with_their_time_or_their_load() {
        let mut tracer = Tracer::new(2, 10 * MS);
        tracer.begin(Load::Quiet, Duration::ZERO);
        for ms in 0..25 {
            tracer.record(0, 100 + i64::from(ms));
            tracer.record(1, -1);
            tracer.record(2, 5);
            tracer.tick(ms * MS);
        }
        tracer.begin(Load::Cpu, 25 * MS);
        tracer.tick(90 * MS);
        tracer.record(0, 7);
        let slots = tracer.finish(&Ruler::new(Period::NANOSECOND));
        let seen: Vec<_> = slots.iter().map(|s| (s.load, (s.to_s * 1e3).round())).collect();
        assert_eq!(
            seen,
            [(Load::Quiet, 10.0), (Load::Quiet, 20.0), (Load::Quiet, 25.0), (Load::Cpu, 100.0)]
        );
        let first = slots[0].ways[0];
        assert!((first.min_ns - 100.0).abs() < 0.1 && (first.max_ns - 110.0).abs() < 1.1);
        assert!((slots[3].ways[0].median_ns - 7.0).abs() < 0.1);
        assert_eq!(slots[0].ways[1].max_ns, 0.0);
    }

    #[test]
    fn a_long_run_has_few_slots() {
        let mut tracer = Tracer::new(1, MS);
        tracer.begin(Load::Quiet, Duration::ZERO);
        for ms in 0..200_000 {
            tracer.record(0, 1);
            tracer.tick(ms * MS);
        }
        let slots = tracer.finish(&Ruler::new(Period::NANOSECOND));
        assert!((2 * SLOTS..10 * SLOTS).contains(&slots.len()), "{}", slots.len());
    }

    #[test]
    fn so_has_one_of_many_short_phases() {
        let mut tracer = Tracer::new(1, MS);
        for ms in 0..200_000 {
            tracer.begin(Load::ALL[ms as usize % 3], ms * MS);
            tracer.record(0, 1);
        }
        let slots = tracer.finish(&Ruler::new(Period::NANOSECOND));
        assert!((2 * SLOTS..20 * SLOTS).contains(&slots.len()), "{}", slots.len());
        let last = &slots[slots.len() - 30..];
        for load in Load::ALL {
            assert!(last.iter().any(|slot| slot.load == load), "{load}");
        }
    }
}
