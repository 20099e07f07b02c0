//! The truth as a card's clock shows it, read by cross stamps of hardware at the same moment as a clock of the host's.

use std::fs::File;
use std::io;

use truechimer_stamp::ptp::{self, Beside};

/// A PTP hardware clock ahead of UTC by a whole number of seconds.
pub struct CardClock {
    clock: File,
    ahead_ns: i64,
}

impl CardClock {
    /// Opens a clock which shows UTC and so many seconds more.
    ///
    /// # Errors
    /// If it cannot be opened, or the number is none.
    pub fn open(device: &str, ahead_s: &str) -> Result<CardClock, String> {
        let seconds: i64 = ahead_s.parse().map_err(|_| format!("`{ahead_s}` is no number"))?;
        let clock = File::open(device).map_err(|error| format!("{device}: {error}"))?;
        Ok(CardClock { clock, ahead_ns: seconds * 1_000_000_000 })
    }

    /// Unix time by it, and what that clock of the host's shows, ns.
    ///
    /// # Errors
    /// If the hardware cannot read both at once.
    pub fn beside(&self, host: Beside) -> io::Result<[i64; 2]> {
        match ptp::precise(&self.clock, host)? {
            [Some(card), Some(host)] => Ok([card - self.ahead_ns, host]),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}
