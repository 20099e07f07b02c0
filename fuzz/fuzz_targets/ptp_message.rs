//! PTP messages of any bytes, and a slave under any script of them: the checks are in the driver, which
//! the tests of `clock/ptp` share.
#![no_main]

#[allow(dead_code)]
#[path = "../../clock/ptp/tests/wire/drive.rs"]
mod drive;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    drive::message(bytes);
    drive::slave(bytes);
});
