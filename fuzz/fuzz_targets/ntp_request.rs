//! The NTP server under any datagram, and a server that limits, refuses and remembers under any row
//! of them: the checks are in the drivers, which the tests of `crates/ntp` and `crates/serve`
//! share.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/ntp/tests/wire/drive.rs"]
mod drive;
#[path = "../../crates/serve/tests/wire/drive.rs"]
mod responder;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    drive::request(bytes);
    responder::requests(bytes);
});
