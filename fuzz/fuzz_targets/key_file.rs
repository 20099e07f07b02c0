//! Files of symmetric keys, as chronyd's keyfile: what is read is used, and what is not is said with its line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use truechimer_keys::Keys;

fuzz_target!(|text: &str| match Keys::parse(text, "keys") {
    Ok(keys) => assert!(keys.len() <= text.lines().count()),
    Err(why) => assert!(why.problems().iter().all(|problem| problem.line().is_some())),
});
