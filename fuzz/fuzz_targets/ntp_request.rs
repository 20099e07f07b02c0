//! The NTP server under any datagram: the checks are in the driver, which the tests of
//! `crates/ntp` share.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/ntp/tests/wire/drive.rs"]
mod drive;

libfuzzer_sys::fuzz_target!(|datagram: &[u8]| drive::request(datagram));
