//! A stamp file: any bytes are rows or a named fault, and any rows can be replayed.
#![no_main]

use truechimer_estimators::TABLE;
use truechimer_sim::replay::{ReplayOptions, replay_stamps, write_csv, write_json};
use truechimer_sim::stamps::{Reader, write_stamps};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut before = 0;
    for row in Reader::new(bytes) {
        match row {
            Ok(row) => {
                assert!(row.line > before, "lines in order");
                before = row.line;
                // What is written is read back to the last bit.
                let mut text = String::new();
                write_stamps(&[row.stamped], &mut text).expect("a string takes all");
                let again =
                    Reader::new(text.as_bytes()).next().expect("a row").expect("a good one");
                assert_eq!(again.stamped, row.stamped);
            }
            Err(error) => assert!(!error.to_string().chars().any(char::is_control), "{error:?}"),
        }
    }
    for estimator in TABLE {
        let options = ReplayOptions { estimator: *estimator, ..ReplayOptions::default() };
        let mut rows = 0;
        let done = replay_stamps(bytes, &options, &mut |judged| {
            rows += 1;
            if let Some(clock) = judged.clock {
                assert!(!clock.bound.is_negative() && !clock.floor.is_negative(), "{judged:?}");
            }
            let mut text = String::new();
            write_csv(judged, &mut text).expect("a string takes all");
            write_json(judged, &mut text).expect("a string takes all");
            Ok(())
        });
        if let Ok(done) = done {
            let refused: u64 = done.refused.values().map(|refusals| refusals.rows).sum();
            assert_eq!((done.rows, done.used + refused), (rows, rows));
        }
    }
});
