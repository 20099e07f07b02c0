//! Packets of every link type, as `truechimer qos` looks at them: any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for link_type in [0, 1, 101, 108, 113, 228, 229, 276, 65_535] {
        let _ = truechimer_qos::parse(link_type, bytes);
    }
});
