//! Bytes that a client writes to the daemon's control socket: any bytes, in any pieces, from one who may change the daemon and
//! one who may not.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| truechimer_daemon::control::check_requests(bytes));
