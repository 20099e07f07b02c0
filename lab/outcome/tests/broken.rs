//! A test bed that breaks down says why. By itself: panics are silent for the whole program from then on.

use truechimer_outcome::program::{caught, joined};

#[test]
fn a_panic_in_a_thread_is_told_in_its_own_words() {
    let broken = |text: &'static str| {
        caught(|| std::thread::scope(|scope| joined(scope.spawn(move || panic!("{text}")))))
    };
    let told = broken("no program corosync").expect_err("it panicked").to_string();
    assert_eq!(told, "the test bed broke down: no program corosync");
    let done = caught(|| std::thread::scope(|scope| joined(scope.spawn(|| Ok(true)))));
    assert!(done.is_ok_and(|met| met));
}
