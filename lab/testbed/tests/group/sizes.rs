//! The comparison with a Raft time oracle runs, by small numbers of members and of times.

use std::process::Command;

use serde_json::Value;
use truechimer_testbed::binary;
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::ring::{Ring, Settings};

use crate::front::runs;

#[test]
fn groups_of_three_and_five_are_measured_beside_etcd() {
    // What a ring takes may be missing here, or etcd.
    let Some(ring) = or_skip(Ring::bare(&Settings::default())) else { return };
    drop(ring);
    if or_skip(runs("etcd")).is_none() {
        return;
    }
    let mut command = Command::new(binary::lab());
    command.args(["bench", "group", "sizes", "--quick", "--quiet", "--json", "--sizes", "3,5"]);
    command.arg("--truechimer").arg(binary::truechimer());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let figures: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("no figures ({error}): {said}"));
    let goals = figures.pointer("/0/goals").unwrap().as_array().unwrap();
    // Those that are counted; the others are of a machine that does nothing else.
    let counted = goals.iter().filter(|goal| goal["wanted"] == "0");
    assert_eq!(counted.filter(|goal| goal["met"] == true).count(), 2, "{goals:#?}");
    let sizes = figures.pointer("/0/figures").unwrap().as_array().unwrap();
    assert_eq!(sizes.iter().map(|size| &size["members"]).collect::<Vec<_>>(), [3, 5]);
    for size in sizes {
        let ways = size["ways"].as_array().unwrap();
        let names: Vec<_> = ways.iter().filter_map(|way| way["way"].as_str()).collect();
        assert_eq!(names, ["bare", "round", "write", "local", "oracle"]);
        for way in ways {
            assert!(way["count"] == 200 && way["p50_ns"].as_f64() > Some(0.0), "{size:#}");
            // A way over the network and back.
            assert!(way["way"] == "local" || way["packets"].as_f64() >= Some(2.0), "{size:#}");
        }
        // Where one reads, nobody else proposes.
        let alone = size["proposals_per_round_alone"].as_f64();
        assert!(alone >= Some(0.98) && alone <= Some(1.02), "{size:#}");
        assert!(size["all"]["rounds"].as_u64() >= Some(200), "{size:#}");
        assert!(size["all"]["proposals"].as_u64() >= Some(200), "{size:#}");
    }
}
