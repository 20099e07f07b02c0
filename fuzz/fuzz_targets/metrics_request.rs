//! Bytes that a scraper of metrics writes. However they come in pieces, the answer is the same.
#![no_main]

#[allow(dead_code, unreachable_pub)]
#[path = "../../common/metrics/src/request.rs"]
mod request;

use request::{Asked, MAX_REQUEST, asked, found, refused};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // No more is read.
    let bytes = bytes.get(..MAX_REQUEST).unwrap_or(bytes);
    let whole = asked(bytes);
    let first = (0..=bytes.len())
        .map(|length| asked(bytes.get(..length).unwrap_or_default()))
        .find(|asked| *asked != Asked::Unfinished);
    assert_eq!(first.unwrap_or(Asked::Unfinished), whole);
    match whole {
        Asked::Unfinished => {}
        Asked::For(form) => assert!(found(form, "x 1\n").ends_with(b"\r\n\r\nx 1\n")),
        Asked::Refused(status) => assert!(refused(status).starts_with(b"HTTP/1.1 4")),
    }
});
