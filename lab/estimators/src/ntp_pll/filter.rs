//! The clock filter of RFC 5905 (§10, Appendix A.5.2): of the last eight samples the one with the
//! least delay counts.

use truechimer_time::Count;

/// Stages of the filter (NSTAGE).
const STAGES: usize = 8;
/// Dispersion of a stage that holds nothing, s (MAXDISP).
const MAX_DISPERSION: f64 = 16.0;
/// A spike is beyond so many jitters (SGATE).
const SPIKE_GATE: f64 = 3.0;
/// Dispersions grow by so much each second (PHI: 15 ppm).
pub(super) const PHI: f64 = 15e-6;
/// Beyond this distance a server is not fit, s (MAXDIST).
pub(super) const MAX_DISTANCE: f64 = 1.0;

/// One measurement. Offsets have the RFC's sign: server − clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) at: Count,
    pub(super) offset: f64,
    pub(super) delay: f64,
    pub(super) dispersion: f64,
}

/// The filter and what came out of it last.
#[derive(Clone, Debug)]
pub(super) struct ClockFilter {
    /// Newest first.
    stages: [Option<Sample>; STAGES],
    pub(super) offset: f64,
    pub(super) delay: f64,
    pub(super) dispersion: f64,
    pub(super) jitter: f64,
    /// p.t: the last sample that was used.
    used: Option<Count>,
}

impl ClockFilter {
    pub(super) fn new() -> ClockFilter {
        ClockFilter {
            stages: [None; STAGES],
            offset: 0.0,
            delay: MAX_DISPERSION,
            dispersion: MAX_DISPERSION,
            jitter: 0.0,
            used: None,
        }
    }

    /// After a step of the clock all that it holds is void.
    pub(super) fn clear(&mut self) {
        *self = ClockFilter::new();
    }

    /// Takes in a sample. Returns the count of the best one if it may be used: newer than the last
    /// one used, and no spike. Before the clock is `set` anything goes. `seconds` is the time
    /// between two counts, `poll` in seconds.
    pub(super) fn push(
        &mut self,
        sample: Sample,
        set: bool,
        (precision, poll): (f64, f64),
        seconds: impl Fn(Count, Count) -> f64,
    ) -> Option<Count> {
        let since = self.stages[0].map_or(0.0, |newest| seconds(newest.at, sample.at).max(0.0));
        self.stages.rotate_right(1);
        for stage in self.stages.iter_mut().flatten() {
            stage.dispersion += PHI * since;
        }
        self.stages[0] = Some(sample);
        let (offset, jitter, dispersion) = (self.offset, self.jitter, self.dispersion);
        let best = self.sort(precision)?;
        let after = |used: Count| seconds(used, best.at);
        if set && self.used.is_some_and(|used| after(used) <= 0.0) {
            return None;
        }
        // The jitter before this sample, as with it a spike would excuse itself.
        let spike = (best.offset - offset).abs() > SPIKE_GATE * jitter.max(precision);
        let settled = dispersion < MAX_DISTANCE;
        if settled && spike && self.used.is_some_and(|used| after(used) < 2.0 * poll) {
            return None;
        }
        self.used = Some(best.at);
        Some(best.at)
    }

    /// By delay, least first; the statistics of the sorted list. Returns the best.
    fn sort(&mut self, precision: f64) -> Option<Sample> {
        let mut sorted = self.stages;
        let delay = |s: &Option<Sample>| {
            let valid = s.filter(|s| s.dispersion < MAX_DISPERSION);
            valid.map_or(MAX_DISPERSION, |s| s.delay)
        };
        sorted.sort_by(|a, b| delay(a).total_cmp(&delay(b)));
        let best = sorted.iter().flatten().next().copied()?;
        let mut share = 1.0;
        self.dispersion = 0.0;
        let (mut squares, mut others) = (0.0, 0.0);
        for stage in &sorted {
            share /= 2.0;
            let known = stage.filter(|s| s.dispersion < MAX_DISPERSION);
            self.dispersion += share * known.map_or(MAX_DISPERSION, |s| s.dispersion);
            if let Some(s) = known {
                squares += (s.offset - best.offset) * (s.offset - best.offset);
                others += 1.0;
            }
        }
        let others: f64 = others - 1.0;
        self.jitter = libm::sqrt(squares / others.max(1.0)).max(precision);
        (self.offset, self.delay) = (best.offset, best.delay);
        Some(best)
    }

    /// Root distance without what the server claims: half of delay, dispersion, jitter.
    pub(super) fn distance(&self) -> f64 {
        self.delay / 2.0 + self.dispersion + self.jitter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(filter: &mut ClockFilter, t: i64, offset: f64, delay: f64) -> Option<i64> {
        let sample = Sample { at: Count(t as u64), offset, delay, dispersion: 1e-6 };
        let used = filter.push(sample, true, (1e-9, 16.0), |a, b| (b - a).0 as f64);
        used.map(|c| (c - Count(0)).0)
    }

    #[test]
    fn the_sample_with_the_least_delay_is_used_and_only_once() {
        let mut filter = ClockFilter::new();
        assert_eq!(push(&mut filter, 16, 1e-3, 2e-3), Some(16));
        assert_eq!(push(&mut filter, 32, 5e-3, 9e-3), None, "the older one is still the best");
        assert_eq!(filter.offset, 1e-3);
        assert_eq!(push(&mut filter, 48, 2e-3, 1e-3), Some(48));
        assert_eq!((filter.offset, filter.delay), (2e-3, 1e-3));
    }

    #[test]
    fn dispersion_falls_as_the_stages_fill_and_ages() {
        let mut filter = ClockFilter::new();
        let mut before = MAX_DISPERSION;
        for k in 1..=8 {
            let _ = push(&mut filter, 16 * k, 1e-3, 1e-3);
            assert!(filter.dispersion < before);
            before = filter.dispersion;
            assert_eq!(k >= 4, filter.dispersion < MAX_DISTANCE, "four make it fit");
        }
        let _ = push(&mut filter, 10_128, 1e-3, 1e-3);
        assert!(filter.dispersion > 0.07 && filter.dispersion < 0.16, "{}", filter.dispersion);
    }

    #[test]
    fn a_spike_is_suppressed_until_it_lasts() {
        let mut filter = ClockFilter::new();
        for k in 1..=10 {
            let wiggle = if k % 2 == 0 { 1e-5 } else { -1e-5 };
            let _ = push(&mut filter, 16 * k, wiggle, 1e-3);
        }
        assert_eq!(push(&mut filter, 176, 0.05, 0.9e-3), None);
        assert!(push(&mut filter, 192, 0.05, 0.8e-3).is_some());
    }
}
