//! A datagram of chrony's SOCK: a sample, or an error.
#![no_main]

use truechimer_stamp::sock::{parse, write};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(sample) = parse(bytes) {
        assert!(sample.leap <= 3 && sample.unix_ns >= 0 && sample.true_ns >= 0);
        // What was read is what is written, as near as a float of seconds tells.
        let again = parse(&write(&sample)).expect("a sample");
        let error = (sample.true_ns - sample.unix_ns).unsigned_abs() >> 50;
        assert!((again.true_ns - sample.true_ns).unsigned_abs() <= error + 1);
        assert_eq!(
            (again.unix_ns, again.pulse, again.leap),
            (sample.unix_ns, sample.pulse, sample.leap)
        );
    }
});
