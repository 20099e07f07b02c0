//! `truechimer-lab bench` as its users have it.

use crate::support::lab;

#[test]
fn the_daemon_is_small() {
    // After the burst at the start, at its own poll interval. What it needs of a processor depends
    // on what else the machine does, how often it wakes up and what it allocates does not.
    let usage = lab(&["bench", "daemon", "--seconds", "20", "--json"]);
    assert_eq!(usage.code, 0, "{usage:?}");
    let usage = usage.json();
    assert!(usage["anonymous_kib"].as_i64().unwrap() < 4 << 10, "{usage}");
    assert!(usage["wake_ups_per_second"].as_f64().unwrap() < 3.0, "{usage}");
    let int = |part: &str| usage[part].as_i64().unwrap();
    let parts = ["anonymous_kib", "file_kib", "shared_kib"].map(int);
    assert_eq!(parts.iter().sum::<i64>(), int("resident_kib"), "{usage}");
    assert!(usage["processor_ns"].as_u64().unwrap() > 0 && usage["servers"] == 1, "{usage}");
    assert_eq!(usage["poll_s"], 16);
}
