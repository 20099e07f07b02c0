//! Stability of an oscillator, from samples of its phase: pure mathematics, no I/O.
//!
//! Phase is time error in seconds: the clock in question − the reference; positive means ahead.
//! Samples are evenly spaced; one that is no finite number is a gap.
//!
//! * [`Deviation`]: the Allan deviation and its kin, at one averaging time;
//! * [`degrees_of_freedom`] and [`Limits`]: how far an estimate may be off;
//! * [`noise_exponent`], [`identify`] and [`NoiseFit`]: which noise, and how much of it;
//! * [`Trend`] and [`Outliers`]: what is not noise;
//! * [`analyse`]: all of it in one;
//! * [`PhaseFile`]: samples as text, as other programs read and write them.
//!
//! Section numbers are those of Riley and Howe, "Handbook of Frequency Stability Analysis", NIST
//! Special Publication 1065 (2008).
#![forbid(unsafe_code)]

mod allan;
mod chi_squared;
mod edf;
mod fit;
mod noise;
mod outliers;
mod phase_file;
mod taus;
mod trend;
mod whole;

pub use allan::{Deviation, Estimate};
pub use chi_squared::{chi_squared_cdf, chi_squared_quantile};
pub use edf::{Limits, degrees_of_freedom};
pub use fit::{Level, Minimum, NoiseFit, Observed};
pub use noise::{Noise, SPANS, identify, noise_exponent};
pub use outliers::{Outliers, USUAL_FACTOR, median};
pub use phase_file::{
    Fault, Header, MOST_SAMPLES, PhaseFile, PhaseFileError, Row, regular, write_row,
};
pub use taus::Taus;
pub use trend::{Removal, Trend};
pub use whole::{Analysis, Options, Point, analyse};
