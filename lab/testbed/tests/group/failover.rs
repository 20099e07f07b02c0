//! Fail-overs in random order, with programs at every node that read, send and commit all the time:
//! a short campaign of the one that `truechimer-lab bench group failover` makes.

use std::process::Command;

use truechimer_testbed::binary;
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::ring::{Ring, Settings};

#[test]
fn thirty_fail_overs_and_every_value_the_same_everywhere() {
    // What a ring takes may be missing here.
    let Some(ring) = or_skip(Ring::bare(&Settings::default())) else { return };
    drop(ring);
    let mut command = Command::new(binary::lab());
    command.args(["bench", "group", "failover", "--quick", "--quiet", "--json", "--token", "1000"]);
    command.arg("--truechimer").arg(binary::truechimer());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let figures: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("no figures ({error}): {said}"));
    let goals = figures.pointer("/0/goals").unwrap();
    assert_eq!(output.status.code(), Some(0), "{goals:#}\n{said}");
    // That it was a campaign at all, and something to check.
    let count = |name: &str| figures.pointer(name).and_then(|n| n.as_u64()).unwrap();
    assert!(figures.pointer("/0/figures/fail_overs").unwrap().as_array().unwrap().len() >= 30);
    assert!(count("/0/figures/tally/rounds") > 1000, "{figures:#}");
    assert!(count("/0/figures/tally/messages") > 100, "{figures:#}");
    assert!(count("/0/figures/tally/commits") > 100, "{figures:#}");
    assert!(count("/0/figures/tally/refused_outside") > 0, "{figures:#}");
}
