//! Stability of a counter against a reference.
//!
//! The phase is that of a clock which counts with the counter, each count lasting its nominal
//! period, less the reference's time: positive means that the counter is ahead. Both are 0 at the
//! first sample.

mod against;
mod error;
mod loads;
mod log;
mod meaning;
mod measure;
mod ntp;
mod reference;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use truechimer_counter::Choice;

use crate::analysis::{Analysis, Options, PhaseFile, analyse};
use crate::stress::Phases;

pub use against::Against;
pub use error::StabilityError;
pub use loads::{LoadFrequency, Stressed, instantaneous};
pub use measure::measure;
pub use reference::Exchanges;

/// The shortest interval between samples, s.
pub const SHORTEST_INTERVAL_S: f64 = 0.001;
/// The longest.
pub const LONGEST_INTERVAL_S: f64 = 3600.0;

/// Setup of a measurement.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The counter.
    pub counter: Choice,
    /// Reference that it is compared with.
    pub against: Against,
    /// Seconds between samples.
    pub interval_s: f64,
    /// Length of the measurement; of a resumed one, its length from now on.
    pub duration: Duration,
    /// Exchanges with an NTP server for each sample, of which the one with the shortest round trip
    /// counts; 1 for others.
    pub best_of: u32,
    /// Loads that alternate meanwhile.
    pub phases: Phases,
    /// Where samples are written as they come.
    pub log: Option<PathBuf>,
    /// True to go on with that file.
    pub resume: bool,
    /// Options of the analysis.
    pub options: Options,
}

/// Progress of a measurement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress {
    /// Time for which it has been measured, s.
    pub elapsed_s: f64,
    /// Time for which it will be measured, s.
    pub duration_s: f64,
    /// Samples so far, those of a resumed log included.
    pub samples: usize,
    /// The newest phase, s.
    pub phase_s: f64,
}

/// Findings of a measurement.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Stability {
    /// The counter; `None` where a file was analysed that does not say.
    pub counter: Option<String>,
    /// Nominal frequency: that of which the frequency offset is an offset.
    pub nominal_hz: Option<u64>,
    /// Reference that it was compared with.
    pub reference: String,
    /// The kernel's clocksource, if it says.
    pub clocksource: Option<String>,
    /// Notes on what the comparison shows, in plain words, and what happened that one must know.
    pub notes: Vec<String>,
    /// True if it was ended before its time.
    pub ended_early: bool,
    /// Number of times that the reference gave no sample when it was asked for one.
    pub missed: u64,
    /// Median of how far single samples may be off by the way they are read, s: half of what
    /// reading the counter, the reference, the counter took, half of an NTP round trip.
    pub reading_s: Option<f64>,
    /// Exchanges with the NTP server.
    pub exchanges: Option<Exchanges>,
    /// The analysis.
    pub analysis: Analysis,
    /// The frequency under alternating loads.
    pub stressed: Option<Stressed>,
    /// The phases themselves, evenly spaced; gaps are no numbers.
    #[serde(skip)]
    pub phase: Vec<f64>,
    /// Which load there was at which time, for plots.
    #[serde(skip)]
    pub phases: Option<Phases>,
}

/// Analyses a phase file; `interval_s` overrides what it says of itself.
///
/// # Errors
/// What is wrong with the file.
pub fn analyse_file(
    path: &Path,
    interval_s: Option<f64>,
    options: &Options,
) -> Result<Stability, StabilityError> {
    let failed = |why| StabilityError::File(path.into(), why);
    let file = File::open(path).map_err(|why| {
        failed(crate::analysis::PhaseFileError {
            line: None,
            fault: crate::analysis::Fault::Io(why),
        })
    })?;
    let file = PhaseFile::read(BufReader::new(file)).map_err(failed)?;
    let (phase, interval_s) = file.samples(interval_s).map_err(failed)?;
    let said = |key: &str| file.header.get(key).map(str::to_owned);
    Ok(Stability {
        counter: said("counter"),
        nominal_hz: None,
        reference: said("reference").unwrap_or_else(|| format!("file:{}", path.display())),
        clocksource: said("clocksource"),
        notes: Vec::new(),
        ended_early: false,
        missed: 0,
        reading_s: None,
        exchanges: None,
        analysis: analyse(&phase, interval_s, options),
        stressed: None,
        phase,
        phases: None,
    })
}
