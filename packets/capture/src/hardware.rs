//! The network card's own clock: stamps by it, and pairs of it with the counter.
//!
//! A card that can do it stamps packets as they pass the wire, by a clock of its own (PTP hardware
//! clock, `/dev/ptpN`) that has nothing to do with the host's. [`Stamping`] has it do so, and
//! [`open_clock`] reads that clock beside the counter.
//!
//! Tried against made-up cards and clocks alone: no machine that this was written on has one.

mod card;
mod clock;

pub use card::{Claims, Stamping, claims};
pub use clock::{DeviceClock, open_clock};
pub use truechimer_stamp::ptp::read as read_clock;
