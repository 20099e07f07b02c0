//! An NTP association under any sequence of requests and datagrams: the checks are in the driver,
//! which the tests of `clock/ntp` share.
#![no_main]

#[allow(dead_code)]
#[path = "../../clock/ntp/tests/wire/drive.rs"]
mod drive;

libfuzzer_sys::fuzz_target!(|script: &[u8]| drive::reply(script));
