//! A scenario file: any text is a scenario, which goes back to text and is read again, or a fault.
#![no_main]

use truechimer_sim::{Scenario, parse_delays};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = parse_delays(text);
    match Scenario::from_toml(text) {
        Ok(scenario) => {
            let again = Scenario::from_toml(&scenario.to_toml()).expect("what we wrote");
            assert_eq!(again, scenario);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
