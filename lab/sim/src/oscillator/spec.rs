//! Kind of oscillator that a scenario asks for.

use serde::{Deserialize, Serialize};

use crate::limits::{TIME, each, interval, within};

/// The most that all parts together may ever amount to, ppm: the counter never runs backwards.
const TOTAL_PPM: f64 = 100_000.0;
/// The highest level of any noise.
const LEVEL: f64 = 1e-6;

/// An oscillator. What is left out is not there: the default one is perfect.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct OscillatorSpec {
    /// Constant error of the rate, parts per million: positive, the counter gains. −10⁵ to 10⁵.
    pub skew_ppm: f64,
    /// Random walk of the frequency, per √s: in τ seconds the relative frequency moves by this
    /// times √τ (standard deviation). Its Allan deviation is this times √(τ/3). 0 to 10⁻⁶.
    pub walk_per_root_s: f64,
    /// White frequency noise, stated as its Allan deviation at 1 s; it falls with 1/√τ. 0 to 10⁻⁶.
    pub white_frequency_at_1s: f64,
    /// Flicker phase noise, stated as its Allan deviation at 1 s; it falls a little less than 1/τ.
    /// 0 to 10⁻⁶.
    pub flicker_phase_at_1s: f64,
    /// White phase noise, stated as its Allan deviation at 1 s; it falls with 1/τ. At every
    /// whole millisecond the reading is off by this over √3, in seconds (standard deviation), with
    /// straight lines in between: on average over all moments, by √⅔ of that. 0 to 10⁻⁶.
    pub white_phase_at_1s: f64,
    /// Temperature cycles.
    #[serde(rename = "sine", skip_serializing_if = "Vec::is_empty")]
    pub sines: Vec<Sine>,
    /// Slow changes of the temperature.
    #[serde(rename = "ramp", skip_serializing_if = "Vec::is_empty")]
    pub ramps: Vec<Ramp>,
    /// Sudden changes of the frequency.
    #[serde(rename = "step", skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
}

/// A cycle of the frequency: `amplitude-ppm` · sin(2π · t / `period-s` + `phase-deg`).
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Sine {
    /// From the mean to the peak, ppm.
    pub amplitude_ppm: f64,
    /// Length of a cycle, s. At least 1.
    pub period_s: f64,
    /// Where in the cycle it begins at time 0, degrees.
    #[serde(default)]
    pub phase_deg: f64,
}

/// The frequency moves evenly by `ppm` between two times, and stays there.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Ramp {
    /// Until when nothing of it is there, s.
    pub from_s: f64,
    /// From when all of it is there, s.
    pub to_s: f64,
    /// By how much, ppm.
    pub ppm: f64,
}

/// The frequency changes by `ppm` at once, for good.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Step {
    /// When, s.
    pub at_s: f64,
    /// By how much, ppm.
    pub ppm: f64,
}

impl OscillatorSpec {
    /// The oscillator of the reference figures: 10 ppm fast, with a walk of 10⁻⁹ per √s.
    #[must_use]
    pub fn reference() -> OscillatorSpec {
        OscillatorSpec { skew_ppm: 10.0, walk_per_root_s: 1e-9, ..OscillatorSpec::default() }
    }

    /// Refuses what is out of range.
    ///
    /// # Errors
    /// Which field, what it is, and what it may be.
    pub fn check(&self) -> Result<(), String> {
        let OscillatorSpec {
            skew_ppm,
            walk_per_root_s,
            white_frequency_at_1s,
            flicker_phase_at_1s,
            white_phase_at_1s,
            sines,
            ramps,
            steps,
        } = self;
        let ppm = |field: &str, value: f64| within(field, value, -TOTAL_PPM, TOTAL_PPM);
        ppm("skew-ppm", *skew_ppm)?;
        within("walk-per-root-s", *walk_per_root_s, 0.0, LEVEL)?;
        within("white-frequency-at-1s", *white_frequency_at_1s, 0.0, LEVEL)?;
        within("flicker-phase-at-1s", *flicker_phase_at_1s, 0.0, LEVEL)?;
        within("white-phase-at-1s", *white_phase_at_1s, 0.0, LEVEL)?;
        each("sine", sines, |sine| {
            ppm("amplitude-ppm", sine.amplitude_ppm)?;
            within("period-s", sine.period_s, 1.0, TIME)?;
            within("phase-deg", sine.phase_deg, -360.0, 360.0)
        })?;
        each("ramp", ramps, |ramp| {
            ppm("ppm", ramp.ppm)?;
            interval(ramp.from_s, ramp.to_s)
        })?;
        each("step", steps, |step| {
            ppm("ppm", step.ppm)?;
            within("at-s", step.at_s, 0.0, TIME)
        })?;
        let total = skew_ppm.abs()
            + sines.iter().map(|s| s.amplitude_ppm.abs()).sum::<f64>()
            + ramps.iter().map(|r| r.ppm.abs()).sum::<f64>()
            + steps.iter().map(|s| s.ppm.abs()).sum::<f64>();
        within("skew, sines, ramps and steps together, in ppm", total, 0.0, TOTAL_PPM)
    }
}
