//! The line in which a plain file shows the newest edge of a pulse: an edge, none, or an error.
#![no_main]

use truechimer_stamp::pps::parse_line;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some(edge)) = parse_line(bytes) {
        // What was read is what is written, but for zeroes in front and how numbers past 2³¹ − 1
        // look.
        assert!(edge.unix_ns >= 0 && edge.sequence < 1 << 32);
        let (secs, nanos) = (edge.unix_ns / 1_000_000_000, edge.unix_ns % 1_000_000_000);
        let line = format!("{secs}.{nanos:09}#{}\n", edge.sequence);
        assert_eq!(parse_line(line.as_bytes()), Ok(Some(edge)));
    }
});
