//! Statistics of one source: its newest samples, and a line through them.

use std::collections::VecDeque;

use super::Measured;

/// Samples in a register, at most (`maxsamples`).
const SAMPLES: usize = 64;
/// Precision of the local clock, s.
const PRECISION: f64 = 25e-9;
/// Number of samples that a line is drawn through at least.
const LEAST: usize = 3;
/// Number of samples from which on delays are tested.
const TESTED: usize = 6;
/// Number of samples from which on runs are tested.
const RUNS: usize = 8;
/// Deviations that a delay may be longer by (`maxdelaydevratio`).
const DELAY_DEVIATIONS: f64 = 10.0;
/// Skew where nothing is known, as a fraction.
const WORST_SKEW: f64 = 2000e-6;
/// The least skew, as a fraction.
const LEAST_SKEW: f64 = 1e-12;
/// Ratio of the median distance above the least to the samples' deviation.
const DEVIATION_RATIO: f64 = 0.7;
/// Student's t for a probability of 0.001 on both sides together, 1 to 10 degrees of freedom.
const STUDENT: [f64; 10] = [636.6, 31.6, 12.92, 8.61, 6.869, 5.959, 5.408, 5.041, 4.781, 4.587];

/// The newest samples, oldest first, and the line.
#[derive(Clone, Debug, Default)]
pub(super) struct Register {
    samples: VecDeque<Sample>,
    line: Option<Line>,
    /// Which sample says most about where the source is now.
    best: usize,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: f64,
    offset: f64,
    delay: f64,
    distance: f64,
    root_delay: f64,
    root_dispersion: f64,
}

impl Sample {
    fn root_distance(&self) -> f64 {
        self.root_dispersion + 0.5 * self.root_delay
    }
}

/// A line through the samples; `at` is the newest.
#[derive(Clone, Copy, Debug)]
struct Line {
    at: f64,
    offset: f64,
    offset_deviation: f64,
    frequency: f64,
    skew: f64,
    deviation: f64,
}

/// Interval that a source takes the true offset to be in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) distance: f64,
}

/// Values that a clock is steered by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tracking {
    pub(super) at: f64,
    pub(super) offset: f64,
    pub(super) frequency: f64,
    pub(super) skew: f64,
    pub(super) root_delay: f64,
    pub(super) root_dispersion: f64,
    pub(super) distance: f64,
}

impl Register {
    /// Takes a sample, unless its delay is too long.
    pub(super) fn take(&mut self, measured: &Measured) -> bool {
        let delay = measured.delay.max(PRECISION);
        if !self.is_good(measured, delay) {
            return false;
        }
        let skew = self.line.map_or(WORST_SKEW, |line| line.skew.min(WORST_SKEW));
        let dispersion = PRECISION + skew * measured.waited;
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample {
            at: measured.at,
            offset: measured.offset,
            delay,
            distance: dispersion + 0.5 * delay,
            root_delay: delay + measured.root_delay,
            root_dispersion: dispersion + measured.root_dispersion,
        });
        self.draw();
        true
    }

    /// True if the delay is as short as others, or the offset tells more than the delay could.
    fn is_good(&self, measured: &Measured, delay: f64) -> bool {
        let Some(line) = self.line.filter(|_| self.samples.len() >= TESTED) else { return true };
        let least = self.samples.iter().map(|s| s.delay).fold(f64::INFINITY, f64::min);
        let age = measured.at - line.at;
        let most = DELAY_DEVIATIONS * line.deviation + line.skew * age;
        let longer = 0.5 * (delay - least);
        let off = (measured.offset - line.offset - line.frequency * age).abs();
        longer <= most || off - longer > most
    }

    /// Draws the line, and forgets the samples that do not fit one.
    fn draw(&mut self) {
        let distances = || self.samples.iter().map(|s| s.distance);
        let least = distances().fold(f64::INFINITY, f64::min);
        let mut sorted: Vec<f64> = distances().collect();
        sorted.sort_by(f64::total_cmp);
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or(least);
        let deviation = ((median - least) / DEVIATION_RATIO).max(PRECISION).min(least);
        let weights: Vec<f64> = distances()
            .map(|d| {
                let times = 1.0 + ((d - least - PRECISION) / deviation).max(0.0);
                1.0 / (times * times)
            })
            .collect();
        let samples: Vec<Sample> = self.samples.iter().copied().collect();
        let mut start = 0;
        self.line = None;
        while start + LEAST <= samples.len() {
            let (Some(samples), Some(weights)) = (samples.get(start..), weights.get(start..))
            else {
                break;
            };
            let (line, runs) = line(samples, weights);
            self.line = Some(line);
            if samples.len() < RUNS || runs as f64 > critical(samples.len()) {
                break;
            }
            start += 1;
        }
        if self.line.is_some() {
            let keep = self.samples.len().min((samples.len() - start).max(LEAST));
            self.samples.drain(..self.samples.len() - keep);
        }
        let now = self.newest().unwrap_or(0.0);
        let skew = self.line.map_or(WORST_SKEW, |line| line.skew);
        let distance = |s: &Sample| s.root_distance() + skew * (now - s.at);
        let best = self.samples.iter().map(distance).enumerate();
        self.best = best.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(index, _)| index);
    }

    /// Deviation of the samples from the line, s.
    pub(super) fn deviation(&self) -> f64 {
        self.line.map_or(f64::INFINITY, |line| line.deviation)
    }

    pub(super) fn oldest(&self) -> Option<f64> {
        self.samples.front().map(|sample| sample.at)
    }

    /// True if it has samples, and too few for a line.
    pub(super) fn is_gathering(&self) -> bool {
        !self.samples.is_empty() && self.line.is_none()
    }

    pub(super) fn newest(&self) -> Option<f64> {
        self.samples.back().map(|sample| sample.at)
    }

    /// Where the source is at `at`, by its best sample.
    pub(super) fn interval(&self, at: f64) -> Option<Interval> {
        let (line, best) = (self.line?, self.samples.get(self.best)?);
        let age = at - best.at;
        let offset = best.offset + age * line.frequency;
        let distance = best.root_distance() + age.abs() * line.skew;
        Some(Interval { low: offset - distance, high: offset + distance, distance })
    }

    pub(super) fn tracking(&self) -> Option<Tracking> {
        let (line, best) = (self.line?, self.samples.get(self.best)?);
        let grown = line.skew * (line.at - best.at) + line.offset_deviation;
        Some(Tracking {
            at: line.at,
            offset: line.offset,
            frequency: line.frequency,
            skew: line.skew,
            root_delay: best.root_delay,
            root_dispersion: best.root_dispersion + grown,
            distance: best.root_distance() + line.skew * (line.at - best.at),
        })
    }
}

/// The number of runs of signs that three or more samples have at most by chance in one case of twenty.
fn critical(samples: usize) -> f64 {
    let n = samples as f64;
    (n + 1.0) / 2.0 - 1.645 * libm::sqrt((n - 1.0) / 4.0)
}

/// The line of least squares, and how many runs of one sign the rest has.
fn line(samples: &[Sample], weights: &[f64]) -> (Line, usize) {
    let at = samples.last().map_or(0.0, |s| s.at);
    let all = || samples.iter().zip(weights).map(|(s, w)| (s.at - at, s.offset, *w));
    let sum: f64 = all().map(|(_, _, w)| w).sum();
    let [x, y] = [all().map(|(x, _, w)| w * x).sum::<f64>(), all().map(|(_, y, w)| w * y).sum()]
        .map(|total: f64| total / sum);
    let spread: f64 = all().map(|(t, _, w)| w * (t - x) * (t - x)).sum();
    let slope = all().map(|(t, o, w)| w * (t - x) * (o - y)).sum::<f64>() / spread;
    let rest = |t: f64, o: f64| o - y - slope * (t - x);
    let free = samples.len() - 2;
    let variance =
        all().map(|(t, o, w)| w * rest(t, o) * rest(t, o)).sum::<f64>() / free.max(1) as f64;
    let signs: Vec<bool> = all().map(|(t, o, _)| rest(t, o) >= 0.0).collect();
    let runs = 1 + signs.windows(2).filter(|pair| pair.first() != pair.last()).count();
    let skew = libm::sqrt(variance / spread) * student(free);
    let drawn = Line {
        at,
        offset: y - slope * x,
        offset_deviation: libm::sqrt(variance / sum + x * x * variance / spread),
        frequency: slope,
        skew: skew.max(LEAST_SKEW),
        deviation: libm::sqrt(variance).max(PRECISION),
    };
    (drawn, runs)
}

/// Student's t; beyond the table by the first terms of its expansion.
fn student(free: usize) -> f64 {
    let z = 3.29;
    let n = free as f64;
    let cubed = z * z * z;
    let expanded = || {
        z + (cubed + z) / (4.0 * n)
            + (5.0 * cubed * z * z + 16.0 * cubed + 3.0 * z) / (96.0 * n * n)
    };
    STUDENT.get(free.saturating_sub(1)).copied().unwrap_or_else(expanded)
}
