//! A card's clock for stamps, by its number.

use std::io;
use std::path::Path;

use truechimer_counter::{Counter, nominal, resolution};
pub use truechimer_stamp::phc::DeviceClock;

use crate::tap::TapError;

/// Opens `/dev/ptpN`, to be compared with a counter.
///
/// # Errors
/// If there is none, it may not be read, or the counter's rate is not known.
pub fn open_clock(number: u32, counter: Counter) -> Result<DeviceClock, TapError> {
    let path = format!("/dev/ptp{number}");
    let failed = |why: io::Error| TapError {
        doing: format!("opening the card's clock, {path}"),
        mend: (why.kind() == io::ErrorKind::PermissionDenied)
            .then(|| format!("run as root, or `sudo chmod a+r {path}`")),
        why: why.to_string(),
    };
    let period = nominal(counter).map_err(|why| failed(io::Error::other(why.to_string())))?.period;
    DeviceClock::open(Path::new(&path), counter, period, resolution(counter)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_such_clock() {
        let counter = Counter::open(truechimer_counter::Choice::Raw).unwrap();
        let why = open_clock(4_000_000_000, counter).unwrap_err();
        assert!(why.to_string().contains("/dev/ptp4000000000"), "{why}");
    }
}
