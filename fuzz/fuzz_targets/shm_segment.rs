//! A segment of ntpd's shared memory: a sample, none, or an error.
#![no_main]

use truechimer_stamp::shm::{SIZE, parse};
use truechimer_time::Span;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut segment = [0; SIZE];
    for (to, from) in segment.iter_mut().zip(bytes) {
        *to = *from;
    }
    if let Ok(Some(sample)) = parse(&segment) {
        assert!(sample.leap <= 3 && sample.unix_ns >= 0 && sample.true_ns >= 0);
        assert!(sample.precision > Span::ZERO && sample.precision <= Span::from_secs(64));
    }
});
