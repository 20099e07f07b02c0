//! The soak itself: a few seconds of it, from a fixed seed. Hours are `make soak`.

use std::process::Command;

use serde_json::Value;
use truechimer_testbed::binary;
use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_testbed::process::is_root;

#[test]
fn faults_are_made_undone_and_reported() {
    if !is_root() {
        or_skip::<()>(Err(Lacking("mounts of its own take root".into())));
        return;
    }
    let mut command = Command::new(binary::lab());
    command.args(["soak", "--minutes", "0.15", "--seed", "1", "--json"]);
    command.args(["--only", "server killed,capture killed,agent killed,one server down"]);
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(2) {
        or_skip::<()>(Err(Lacking(said)));
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{said}");
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let figures = &all[0]["figures"];
    assert_eq!(figures["seed"], 1);
    assert!(figures["faults"].as_array().is_some_and(|faults| !faults.is_empty()), "{figures:#}");
    for count in ["page: readings with a bound", "serve: replies", "group: readings"] {
        assert!(figures["counts"][count].as_u64() > Some(100), "{count}: {figures:#}");
    }
    assert!(figures["counts"]["capture: packets in files"].as_u64() > Some(100), "{figures:#}");
}
