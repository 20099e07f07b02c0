//! The NTP server under any datagram, and a server that limits, refuses and remembers under any row
//! of them: the checks are in the drivers, which the tests of `clock/ntp` and `clock/serve`
//! share.
#![no_main]

#[allow(dead_code)]
#[path = "../../clock/ntp/tests/wire/drive.rs"]
mod drive;
#[path = "../../clock/serve/tests/wire/drive.rs"]
mod responder;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    drive::request(bytes);
    responder::requests(bytes);
});
