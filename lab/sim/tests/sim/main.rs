//! Tests of whole runs in virtual time. One program, as each would have the engine and all estimators linked anew.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod absences;
mod addresses;
mod adversity;
mod attacks;
mod bounded;
mod catalogue;
mod creep;
mod difference;
mod drawn;
mod files;
mod found;
mod frozen;
mod golden;
mod honest;
mod intervals;
mod likely;
mod ptp;
mod same;
mod several;
mod shifts;
mod start;
mod stubborn;
mod system_clock;
mod unlike;
mod world;
mod wrong;
