//! Kind of path that a scenario asks for.

use core::fmt;

use serde::{Deserialize, Serialize};

use super::recording::Recording;
use crate::limits::{DELAY, Short, TIME, each, interval, within};

/// The longest delay that may be asked for, ms.
const DELAY_MS: f64 = 1e3 * DELAY;

/// One direction of a path. What is left out is not there: the default path takes no time.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct PathSpec {
    /// The least delay, ms.
    pub floor_ms: f64,
    /// Probability that a packet is lost, each by itself.
    pub loss: f64,
    /// Probability that a packet arrives twice; the copy queues by itself.
    pub duplication: f64,
    /// Probability that a packet is held back, so that the next one may overtake it.
    pub reordering: f64,
    /// For how long such a packet is held back, ms.
    pub held_back_ms: f64,
    /// Queues on top of the floor, all added up.
    #[serde(rename = "queue", skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<Queue>,
    /// Changes of the floor, all added up.
    #[serde(rename = "shift", skip_serializing_if = "Vec::is_empty")]
    pub shifts: Vec<Shift>,
    /// When no packet gets through.
    #[serde(rename = "outage", skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<Outage>,
}

/// A part of the delay: a law, and when it is in force.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Queue {
    /// Law of the delay in it.
    pub law: Law,
    /// When.
    #[serde(default)]
    pub when: When,
}

/// The law of a part of the delay. Whatever the law, it is never more than 1000 s.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Law {
    /// Always the same.
    Constant {
        /// Delay, ms.
        ms: f64,
    },
    /// Exponential: a queue that is now and then in use.
    Exponential {
        /// Mean, ms.
        mean_ms: f64,
    },
    /// Gamma: several queues one after the other.
    Gamma {
        /// Shape, 0.01 to 1000: the mean is shape · scale.
        shape: f64,
        /// Scale, ms.
        scale_ms: f64,
    },
    /// Lomax (Pareto from 0): heavy tails.
    Lomax {
        /// Shape, 0.1 to 1000: the smaller, the heavier the tail; up to 1 there is no mean.
        shape: f64,
        /// Scale, ms: the median is scale · (2^(1/shape) − 1).
        scale_ms: f64,
        /// No delay is longer than this, ms.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cap_ms: Option<f64>,
    },
    /// Delays as somebody measured them.
    Recorded {
        /// Where the delays are: see [`super::parse_delays`] for the format.
        file: String,
        /// Contents of the file, once [`PathSpec::resolve`] has been called.
        #[serde(skip)]
        delays: Option<Recording>,
    },
}

/// When a part of the delay is in force: what the law gives is multiplied by 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum When {
    /// Always.
    #[default]
    Always,
    /// Again and again: 1 for `length-s` from `first-s` on, and from then on every `period-s`.
    Bursts {
        /// When the first one begins, s.
        first_s: f64,
        /// Length of each, s.
        length_s: f64,
        /// From the beginning of one to that of the next, s.
        period_s: f64,
    },
    /// The daily load: a cosine with its top, 1, at `peak-s`.
    Daily {
        /// When it is highest, s.
        peak_s: f64,
        /// Value that it falls to between, 0 to 1.
        #[serde(default)]
        low: f64,
        /// Length of the day, s.
        #[serde(default = "day")]
        period_s: f64,
    },
    /// Once: 1 from `from-s` until before `to-s`.
    Between {
        /// Beginning, s.
        from_s: f64,
        /// End, s.
        to_s: f64,
    },
    /// From nothing at `from-s` evenly up to all of it at `to-s`, where it stays.
    Ramp {
        /// Beginning, s.
        from_s: f64,
        /// End, s.
        to_s: f64,
        /// When it is gone at once, s; never if it is not said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until_s: Option<f64>,
    },
}

fn day() -> f64 {
    86_400.0
}

/// The floor changes by `by-ms` at `at-s`: for good, or until `until-s`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Shift {
    /// From when on, s.
    pub at_s: f64,
    /// By how much, ms; it may be negative.
    pub by_ms: f64,
    /// Until when, s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_s: Option<f64>,
}

/// No packet sent from `from-s` until before `to-s` arrives.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Outage {
    /// Beginning, s.
    pub from_s: f64,
    /// End, s.
    pub to_s: f64,
}

impl PathSpec {
    /// A path with this floor and an exponential queue of this mean, both in ms.
    #[must_use]
    pub fn exponential(floor_ms: f64, mean_ms: f64) -> PathSpec {
        let queue = Queue { law: Law::Exponential { mean_ms }, when: When::Always };
        PathSpec { floor_ms, queues: vec![queue], ..PathSpec::default() }
    }

    /// Reads the recorded delays that the path names. `read` gets the file's name and gives its
    /// content, parsed (see [`super::parse_delays`]).
    ///
    /// # Errors
    /// Which queue's file, and whatever `read` says.
    pub fn resolve<E: fmt::Display>(
        &mut self,
        mut read: impl FnMut(&str) -> Result<Recording, E>,
    ) -> Result<(), String> {
        for (i, queue) in self.queues.iter_mut().enumerate() {
            if let Law::Recorded { file, delays } = &mut queue.law {
                let recording =
                    read(file).map_err(|why| format!("queue {}: file = {file:?}: {why}", i + 1));
                *delays = Some(recording?);
            }
        }
        Ok(())
    }

    /// The least delay of a packet sent at `t`, s: the floor with the shifts in force.
    #[must_use]
    pub fn floor_at(&self, t: f64) -> f64 {
        let shifted: f64 = self.shifts.iter().filter(|s| s.holds(t)).map(|s| s.by_ms).sum();
        1e-3 * (self.floor_ms + shifted)
    }

    /// Refuses what is out of range.
    ///
    /// # Errors
    /// Which field, what it is, and what it may be.
    pub fn check(&self) -> Result<(), String> {
        let PathSpec {
            floor_ms,
            loss,
            duplication,
            reordering,
            held_back_ms,
            queues,
            shifts,
            outages,
        } = self;
        within("floor-ms", *floor_ms, 0.0, DELAY_MS)?;
        within("loss", *loss, 0.0, 1.0)?;
        within("duplication", *duplication, 0.0, 1.0)?;
        within("reordering", *reordering, 0.0, 1.0)?;
        within("held-back-ms", *held_back_ms, 0.0, DELAY_MS)?;
        each("queue", queues, Queue::check)?;
        each("shift", shifts, Shift::check)?;
        each("outage", outages, |outage| interval(outage.from_s, outage.to_s))?;
        // The floor changes only where a shift begins or ends.
        each("shift", shifts, |shift| {
            for t in [Some(shift.at_s), shift.until_s].into_iter().flatten() {
                let floor = 1e3 * self.floor_at(t);
                if !(0.0..=DELAY_MS).contains(&floor) {
                    return Err(format!(
                        "by-ms = {}: the floor would be {floor} ms at {t} s; it must be between 0 \
                         and {DELAY_MS}",
                        shift.by_ms
                    ));
                }
            }
            Ok(())
        })
    }
}

impl Shift {
    /// True if it is in force at `t`.
    fn holds(&self, t: f64) -> bool {
        t >= self.at_s && self.until_s.is_none_or(|until| t < until)
    }

    fn check(&self) -> Result<(), String> {
        within("at-s", self.at_s, 0.0, TIME)?;
        within("by-ms", self.by_ms, -DELAY_MS, DELAY_MS)?;
        match self.until_s {
            Some(until) if !(until > self.at_s && until <= TIME) => Err(format!(
                "until-s = {}: must be after at-s = {} and at most {TIME}",
                Short(until),
                self.at_s
            )),
            _ => Ok(()),
        }
    }
}

impl Queue {
    fn check(&self) -> Result<(), String> {
        self.law.check()?;
        self.when.check()
    }
}

impl Law {
    fn check(&self) -> Result<(), String> {
        let ms = |field: &str, value: f64| within(field, value, 0.0, DELAY_MS);
        match self {
            Law::Constant { ms: value } => ms("ms", *value),
            Law::Exponential { mean_ms } => ms("mean-ms", *mean_ms),
            Law::Gamma { shape, scale_ms } => {
                within("shape", *shape, 0.01, 1000.0)?;
                ms("scale-ms", *scale_ms)
            }
            Law::Lomax { shape, scale_ms, cap_ms } => {
                within("shape", *shape, 0.1, 1000.0)?;
                ms("scale-ms", *scale_ms)?;
                cap_ms.map_or(Ok(()), |cap| ms("cap-ms", cap))
            }
            Law::Recorded { file, delays: None } => {
                Err(format!("recorded: the file {file:?} has not been read"))
            }
            Law::Recorded { delays: Some(_), .. } => Ok(()),
        }
    }
}

impl When {
    /// Factor of the law at `t`.
    pub(super) fn factor(&self, t: f64) -> f64 {
        let on = |on: bool| if on { 1.0 } else { 0.0 };
        match *self {
            When::Always => 1.0,
            When::Bursts { first_s, length_s, period_s } => {
                let since = t - first_s;
                on(since >= 0.0 && since - period_s * libm::floor(since / period_s) < length_s)
            }
            When::Daily { peak_s, low, period_s } => {
                let turns = (t - peak_s) / period_s;
                let turn = core::f64::consts::TAU * (turns - libm::floor(turns));
                low + (1.0 - low) * 0.5 * (1.0 + libm::cos(turn))
            }
            When::Between { from_s, to_s } => on(t >= from_s && t < to_s),
            When::Ramp { until_s, .. } if until_s.is_some_and(|until| t >= until) => 0.0,
            When::Ramp { from_s, to_s, .. } => ((t - from_s) / (to_s - from_s)).clamp(0.0, 1.0),
        }
    }

    fn check(&self) -> Result<(), String> {
        match *self {
            When::Always => Ok(()),
            When::Bursts { first_s, length_s, period_s } => {
                within("first-s", first_s, 0.0, TIME)?;
                within("period-s", period_s, 1e-3, TIME)?;
                within("length-s", length_s, 0.0, period_s)
            }
            When::Daily { peak_s, low, period_s } => {
                within("peak-s", peak_s, -TIME, TIME)?;
                within("low", low, 0.0, 1.0)?;
                within("period-s", period_s, 1.0, TIME)
            }
            When::Between { from_s, to_s } => interval(from_s, to_s),
            When::Ramp { from_s, to_s, until_s } => {
                interval(from_s, to_s)?;
                within("until-s", until_s.unwrap_or(to_s), to_s, TIME)
            }
        }
    }
}
