//! Pulses per second: when their edges come, and when they are stamped.

use serde::{Deserialize, Serialize};
use truechimer_engine::RefClockConfig;

use crate::limits::{each, interval, within};
use crate::random::Random;
use crate::server::{Lie, Ramp, Stretch, during, is_word};
use truechimer_feedforward::number::span;

/// A pulse this far off is never taken for good where servers say what time it is, ms.
const PLAINLY_OFF: f64 = 50.0;
/// The edge is looked for so long after it came, s.
const LOOK: f64 = 500e-6;
/// Rate at which somebody may be slewing the system clock, between the stamp and the look: part of
/// the stated error.
const SLEW: f64 = 1.1e-3;

/// One pulse per second. All times are in seconds since the start of the run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct PpsSpec {
    /// Name, one word.
    pub name: String,
    /// The most by which a stamp may be late, as the daemon is told, µs.
    pub latency_us: f64,
    /// Lateness of the stamps: the mean of an exponential distribution, µs. None is later than
    /// `latency-us`.
    pub late_us: f64,
    /// Edges − the true seconds, ms, all the time.
    pub offset_ms: f64,
    /// Share of edges that are lost.
    pub loss: f64,
    /// Stretches in which its edges gain on the truth (positive: they come late); what was gained
    /// stays.
    #[serde(rename = "ramp", skip_serializing_if = "Vec::is_empty")]
    pub ramps: Vec<Ramp>,
    /// Stretches in which its edges are off, and then right again.
    #[serde(rename = "lie", skip_serializing_if = "Vec::is_empty")]
    pub lies: Vec<Lie>,
    /// Stretches without edges.
    #[serde(rename = "silence", skip_serializing_if = "Vec::is_empty")]
    pub silences: Vec<Stretch>,
}

impl Default for PpsSpec {
    fn default() -> PpsSpec {
        PpsSpec {
            name: "pps".into(),
            latency_us: 10.0,
            late_us: 1.0,
            offset_ms: 0.0,
            loss: 0.0,
            ramps: Vec::new(),
            lies: Vec::new(),
            silences: Vec::new(),
        }
    }
}

impl PpsSpec {
    /// Refuses what is out of range.
    ///
    /// # Errors
    /// Which field, what it is, and what it may be.
    pub fn check(&self) -> Result<(), String> {
        if !is_word(&self.name) {
            return Err(format!(
                "name = {:?}: must be one word of up to 63 letters, digits, `-`, `.` and `_`",
                self.name
            ));
        }
        within("latency-us", self.latency_us, 0.1, 1e5)?;
        within("late-us", self.late_us, 0.0, 1e5)?;
        within("offset-ms", self.offset_ms, -499.0, 499.0)?;
        within("loss", self.loss, 0.0, 1.0)?;
        each("ramp", &self.ramps, |ramp| {
            interval(ramp.from_s, ramp.to_s)?;
            within("ppm", ramp.ppm, -1e5, 1e5)
        })?;
        each("lie", &self.lies, |lie| {
            interval(lie.from_s, lie.to_s)?;
            within("by-ms", lie.by_ms, -499.0, 499.0)
        })?;
        each("silence", &self.silences, |silence| interval(silence.from_s, silence.to_s))
    }

    /// Configuration as the engine is told it.
    pub(crate) fn config(&self) -> RefClockConfig {
        RefClockConfig {
            name: self.name.clone(),
            error: span(self.latency_us * 1e-6),
            ..RefClockConfig::pulse(self.name.clone())
        }
    }

    /// Edges − the true seconds, s, at `t`.
    fn offset_at(&self, t: f64) -> f64 {
        let gained = |r: &Ramp| (t - r.from_s).clamp(0.0, r.to_s - r.from_s) * r.ppm * 1e-3;
        let lies = self.lies.iter().filter(|l| during(t, l.from_s, l.to_s)).map(|l| l.by_ms);
        1e-3 * self.ramps.iter().map(gained).chain(lies).fold(self.offset_ms, |sum, by| sum + by)
    }

    /// True if its edges will be right, to within the latency, all the time.
    #[must_use]
    pub fn is_honest(&self) -> bool {
        let right = |by_ms: f64| by_ms == 0.0;
        right(self.offset_ms)
            && self.lies.iter().all(|lie| right(lie.by_ms))
            && self.ramps.iter().all(|ramp| right(ramp.ppm))
    }

    /// True if no edge of it will ever be wrong and believed: it is honest, or never anywhere near
    /// a second.
    #[must_use]
    pub fn is_harmless(&self) -> bool {
        let plain = self.lies.is_empty() && self.ramps.is_empty();
        self.is_honest() || (plain && self.offset_ms.abs() >= PLAINLY_OFF)
    }

    /// When things begin that happen at a time of their own, s.
    pub(crate) fn beginnings(&self) -> impl Iterator<Item = f64> {
        let ramps = self.ramps.iter().map(|r| r.from_s);
        ramps
            .chain(self.lies.iter().map(|l| l.from_s))
            .chain(self.silences.iter().map(|s| s.from_s))
    }
}

/// A pulse at work.
#[derive(Debug)]
pub(crate) struct Pulse {
    spec: PpsSpec,
    random: Random,
    /// Number of edges so far.
    sequence: u64,
}

/// An edge that is there to be seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PulseEdge {
    pub(crate) sequence: u64,
    /// The true time at which it was stamped, s.
    pub(crate) stamped: f64,
    /// When it is looked for, s.
    pub(crate) looked: f64,
    /// A standard normal number, for the error of the stamp.
    pub(crate) noise: f64,
}

impl PulseEdge {
    /// Stated error of the stamp besides what turning it into a count leaves, s.
    pub(crate) fn stated(&self, seen: f64) -> f64 {
        SLEW * (seen - self.stamped).max(0.0)
    }
}

impl Pulse {
    pub(crate) fn new(spec: &PpsSpec, seed: u64, name: &str) -> Pulse {
        Pulse { spec: spec.clone(), random: Random::new(seed, name), sequence: 0 }
    }

    /// The edge of this second, if there is one.
    pub(crate) fn edge(&mut self, second: u64) -> Option<PulseEdge> {
        let at = second as f64;
        self.random.seek(second);
        let late = self.random.exponential(1e-6) * self.spec.late_us;
        let lost = self.random.chance(self.spec.loss);
        let noise = self.random.normal();
        if lost || self.spec.silences.iter().any(|s| during(at, s.from_s, s.to_s)) {
            return None;
        }
        self.sequence += 1;
        let stamped = at + self.spec.offset_at(at) + late.min(self.spec.latency_us * 1e-6);
        Some(PulseEdge { sequence: self.sequence, stamped, looked: stamped + LOOK, noise })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_late_within_the_promise_and_the_same_for_a_seed() {
        let spec = PpsSpec { late_us: 5.0, loss: 0.25, ..PpsSpec::default() };
        let run = |seed| {
            let mut pulse = Pulse::new(&spec, seed, "pulse 0");
            (1..4000).map(|second| (second, pulse.edge(second))).collect::<Vec<_>>()
        };
        let edges = run(1);
        let came: Vec<(u64, PulseEdge)> =
            edges.iter().filter_map(|(second, edge)| Some((*second, (*edge)?))).collect();
        assert!((2900..3100).contains(&came.len()), "{}", came.len());
        let late: Vec<f64> =
            came.iter().map(|(second, edge)| edge.stamped - *second as f64).collect();
        assert!(late.iter().all(|late| (-1e-9..10.001e-6).contains(late)));
        let mean = truechimer_report::mean(&late);
        assert!((4.0e-6..4.7e-6).contains(&mean), "{mean}");
        assert!(came.windows(2).all(|pair| pair[1].1.sequence == pair[0].1.sequence + 1));
        let again = run(1);
        assert!(edges.iter().zip(&again).all(|((_, a), (_, b))| {
            a.map(|e| e.stamped.to_bits()) == b.map(|e| e.stamped.to_bits())
        }));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let with = |change: fn(&mut PpsSpec)| {
            let mut spec = PpsSpec::default();
            change(&mut spec);
            spec.check().unwrap_err()
        };
        assert!(with(|s| s.name = "two words".into()).starts_with("name = "));
        assert!(with(|s| s.latency_us = 0.0).starts_with("latency-us = 0"));
        assert!(with(|s| s.offset_ms = 500.0).starts_with("offset-ms = 500"));
        let lie = |s: &mut PpsSpec| s.lies = vec![Lie { from_s: 2.0, to_s: 1.0, by_ms: 1.0 }];
        assert!(with(lie).starts_with("lie 1: to-s = 1"));
    }

    #[test]
    fn only_a_little_off_does_harm() {
        let off = |offset_ms| PpsSpec { offset_ms, ..PpsSpec::default() };
        assert!(off(0.0).is_honest() && off(0.0).is_harmless());
        assert!(!off(1.0).is_honest() && !off(1.0).is_harmless());
        assert!(!off(300.0).is_honest() && off(300.0).is_harmless());
    }
}
