//! The network card's own clock: stamps by it, and pairs of it with the counter.
//!
//! A card that can do it stamps packets as they pass the wire, by a clock of its own (PTP hardware
//! clock, `/dev/ptpN`) that has nothing to do with the host's. [`enable`] has it do so, and
//! [`open_clock`] reads that clock beside the counter.
//!
//! Tried against made-up cards and clocks alone: no machine that this was written on has one.

mod clock;

pub use clock::{DeviceClock, open_clock};
pub use truechimer_stamp::card::{Claims, Stamping, claims};
use truechimer_stamp::card::{Cure, Unable, Wish};
pub use truechimer_stamp::ptp::read as read_clock;

use crate::tap::TapError;

/// Asks the card of an interface to stamp all packets it receives. Takes CAP_NET_ADMIN unless
/// it does so already.
///
/// # Errors
/// If it cannot, or must not be asked.
pub fn enable(interface: &str) -> Result<Stamping, TapError> {
    Stamping::enable(interface, Wish::Arrivals).map_err(|Unable { why, cure }| TapError {
        doing: format!("asking {interface} for hardware stamps"),
        why,
        mend: cure.map(|cure| {
            let mend = match cure {
                Cure::Kernel => {
                    "use the kernel's stamps: `--method packet`; `ethtool -T` shows what a card can"
                }
                Cure::Rights => {
                    "run as root or with CAP_NET_ADMIN, or set it before: `hwstamp_ctl -r 1`"
                }
            };
            mend.to_owned()
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_none() {
        let why = enable("lo").unwrap_err();
        assert!(why.doing.contains("lo") && why.mend.unwrap().contains("--method packet"));
        assert!(enable("no-such-link").is_err());
    }
}
