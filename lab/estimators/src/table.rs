//! The estimators that can be compared.

use truechimer_feedforward::Ours;

use crate::{Kind, NtpPll, Pi, Published, Row};

/// Estimator that the daemon runs.
pub const OURS: Kind = Kind::of(
    &Row::new("ours", "Truechimer's own", |b| Ours::new(b.settings, b.rate, b.time)).bounded(),
);

/// The RADclock algorithm. It has no warm restart, and its first idea of the period is its own.
pub const PUBLISHED: Kind = Kind::of(
    &Row::new("published", "the published RADclock algorithm", |b| {
        Published::new(b.settings, b.poll)
    })
    .without_pulses(),
);

/// A textbook loop.
pub const NTP_PLL: Kind =
    Kind::of(&Row::new("ntp-pll", "the textbook loop of RFC 5905, steering a system clock", |b| {
        NtpPll::new(b.settings, b.rate, b.time, b.poll)
    }));

/// A textbook servo.
pub const PI: Kind =
    Kind::of(&Row::new("pi", "a textbook PI servo steering a system clock", |b| {
        Pi::new(b.settings, b.rate, b.time, b.poll)
    }));

/// All of them, in the order in which they are shown. The daemon's own is the first.
///
/// To add one, add its line: `Kind::of(&Row::new(NAME, DESCRIPTION, CONSTRUCTOR))`.
pub const TABLE: &[Kind] = &[OURS, PUBLISHED, NTP_PLL, PI];
