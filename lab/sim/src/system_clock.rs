//! The system clock of a host whose daemon steers it: what a kernel does with `adjtimex`.
//!
//! It counts the time that the kernel's raw clock and sleep add up to, by a rate of its own. That a
//! real kernel hands out a correction of its frequency in ticks is left out: a few nanoseconds.

use serde::{Deserialize, Serialize};
use truechimer_engine::{KernelWord, Steer, StepPolicy, SystemReading};
use truechimer_time::{Instant, Leaps, Rate, Span};

use crate::host::Host;
use crate::limits::{TIME, each, within};
use crate::random::Random;
use truechimer_feedforward::number::{fraction, seconds};
use truechimer_trace::SystemSample;

const NANOS: i64 = 1_000_000_000;
const DAY: i64 = 86_400;
/// Largest frequency that the kernel takes, ppm.
const MOST_PPM: f64 = 500.0;
/// Growth of the kernel's idea of its error each second, s.
const GROWTH: f64 = 500e-6;
/// So close to a leap second, s, Unix time is no measure of a clock.
const LEAPING: i64 = 3;

/// A system clock that the daemon steers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct SystemClockSpec {
    /// Ahead of the truth by this at the start, ms.
    pub offset_ms: f64,
    /// Skew that the kernel gives it against the counter's nominal rate, ppm; positive: fast.
    pub skew_ppm: f64,
    /// The frequency that it was given before the start, ppm.
    pub frequency_ppm: f64,
    /// When it may be stepped.
    pub step: StepPolicy,
    /// Above which offset, ms.
    pub step_above_ms: f64,
    /// Standard deviation of what reading it beside the counter misses by, ns.
    pub noise_ns: f64,
    /// When somebody else sets it.
    #[serde(rename = "set", skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<Set>,
}

/// Somebody sets the system clock.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Set {
    /// When, s.
    pub at_s: f64,
    /// By how much, ms; negative: back.
    pub by_ms: f64,
}

impl Default for SystemClockSpec {
    fn default() -> SystemClockSpec {
        SystemClockSpec {
            offset_ms: 0.0,
            skew_ppm: 0.0,
            frequency_ppm: 0.0,
            step: StepPolicy::default(),
            step_above_ms: 1.0,
            noise_ns: 10.0,
            sets: Vec::new(),
        }
    }
}

impl SystemClockSpec {
    pub(crate) fn check(&self) -> Result<(), String> {
        within("offset-ms", self.offset_ms, -1e9, 1e9)?;
        within("skew-ppm", self.skew_ppm, -MOST_PPM, MOST_PPM)?;
        within("frequency-ppm", self.frequency_ppm, -MOST_PPM, MOST_PPM)?;
        within("step-above-ms", self.step_above_ms, 0.01, 86.4e6)?;
        within("noise-ns", self.noise_ns, 0.0, 1e5)?;
        each("set", &self.sets, |set| {
            within("at-s", set.at_s, 0.0, TIME)?;
            within("by-ms", set.by_ms, -1e9, 1e9)
        })
    }

    pub(crate) fn step_above(&self) -> Span {
        truechimer_feedforward::number::span(self.step_above_ms * 1e-3)
    }
}

/// System clock at work.
#[derive(Debug)]
pub(crate) struct SystemClock {
    skew: f64,
    noise_ns: f64,
    random: Random,
    sets: Vec<Set>,
    /// Unix time that it showed, ns, and the host's clocks then, ns.
    anchor: (i64, i64),
    frequency: Rate,
    /// Word that the kernel was told last, and what it showed then, Unix ns.
    told: Option<(KernelWord, i64)>,
    /// The midnight, Unix s, and what happens there.
    leap: Option<(i64, i8)>,
    /// Number of steps by the daemon.
    steps: u32,
}

/// Time that the host's own clocks show, sleep included, ns.
fn elapsed(host: &mut Host, t: f64) -> i64 {
    let check = host.check(t);
    check.raw_ns.saturating_add(check.suspended_ns)
}

impl SystemClock {
    /// System clock at the start of a run, which is at `origin`.
    pub(crate) fn new(
        spec: &SystemClockSpec,
        seed: u64,
        origin: Instant,
        leaps: &Leaps,
        host: &mut Host,
    ) -> SystemClock {
        let unix = leaps.utc(origin).unix * NANOS + (spec.offset_ms * 1e6) as i64;
        let mut sets = spec.sets.clone();
        sets.sort_by(|a, b| b.at_s.total_cmp(&a.at_s));
        SystemClock {
            skew: spec.skew_ppm * 1e-6,
            noise_ns: spec.noise_ns,
            random: Random::new(seed, "host/system clock"),
            sets,
            anchor: (unix, elapsed(host, 0.0)),
            frequency: Rate::from_ppb((spec.frequency_ppm * 1e3) as i64),
            told: None,
            leap: None,
            steps: 0,
        }
    }

    /// Unix time that it shows at `t`, in ns; moves the anchor there.
    fn show(&mut self, t: f64, host: &mut Host) -> i64 {
        let now = elapsed(host, t);
        let passed = now - self.anchor.1;
        let gained = passed as f64 * (self.skew + fraction(self.frequency));
        let mut unix = self.anchor.0 + passed + libm::rint(gained) as i64;
        while let Some(set) = self.sets.pop_if(|set| set.at_s <= t) {
            unix += libm::rint(set.by_ms * 1e6) as i64;
        }
        if let Some((midnight, step)) = self.leap {
            // An inserted second is the one before midnight once more.
            let at = if step > 0 { midnight } else { midnight - 1 };
            if unix >= at * NANOS {
                unix -= i64::from(step) * NANOS;
                self.leap = None;
            }
        }
        self.anchor = (unix, now);
        unix
    }

    /// Reading by the daemon.
    pub(crate) fn read(&mut self, t: f64, host: &mut Host) -> SystemReading {
        let shown = self.show(t, host);
        let unix_ns = shown + libm::rint(self.random.normal() * self.noise_ns) as i64;
        let check = host.check(t);
        let frequency = Some(self.frequency);
        SystemReading { count: check.count, unix_ns, raw_ns: check.raw_ns, frequency }
    }

    /// Does as the daemon asks.
    pub(crate) fn steer(&mut self, t: f64, steer: Steer, host: &mut Host) {
        let unix = self.show(t, host);
        match steer {
            Steer::Step(by) => {
                self.anchor.0 = unix.saturating_add(by.as_nanos_i64());
                self.steps += 1;
            }
            // The kernel knows it in units of 2⁻¹⁶ ppm.
            Steer::Frequency(rate) => {
                let units = libm::rint(fraction(rate) * 65_536e6);
                self.frequency = Rate((units * (1u64 << 48) as f64 / 1e6) as i64);
            }
            Steer::Tell(word) => {
                let midnight = (unix.div_euclid(NANOS * DAY) + 1) * DAY;
                let armed = self.told.is_some_and(|(before, _)| before.leap == word.leap);
                if word.leap == 0 {
                    self.leap = None;
                } else if !armed {
                    self.leap = Some((midnight, word.leap));
                }
                self.told = Some((word, self.anchor.0));
            }
        }
    }

    /// Sample of its worth at `t`; nothing within a leap second. `ours` is the published clock.
    pub(crate) fn sample(
        &mut self,
        t: f64,
        truth: (Instant, &Leaps),
        ours: Option<Instant>,
        host: &mut Host,
    ) -> Option<SystemSample> {
        let unix = self.show(t, host);
        let (right, leaps) = truth;
        let leaping = |at: i64| (at - right.secs()).abs() <= LEAPING;
        if [leaps.last, leaps.next].into_iter().flatten().any(|leap| leaping(leap.at)) {
            return None;
        }
        let frac = Instant::from_nanos(unix.rem_euclid(NANOS).into()).frac();
        let system = leaps.instant(unix.div_euclid(NANOS), frac);
        let bound = self.told.and_then(|(word, then)| {
            // The kernel lets it grow where a second of its clock begins.
            let turns = self.anchor.0.div_euclid(NANOS) - then.div_euclid(NANOS);
            let grown = turns.max(0) as f64 * GROWTH;
            Some(seconds(word.max_error?) + grown)
        });
        Some(SystemSample {
            at: t,
            error: seconds(system - right),
            against_ours: ours.map(|ours| seconds(system - ours)),
            bound,
            frequency: fraction(self.frequency),
            steps: self.steps,
        })
    }
}
