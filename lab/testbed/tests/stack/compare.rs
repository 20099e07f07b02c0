//! The comparison with other daemons: everybody takes part, and the truth is the truth. How good
//! anybody is depends on what else the machine does, so no test asks.

use std::process::Command;

use serde_json::Value;
use truechimer_testbed::binary;
use truechimer_testbed::chrony::installed;
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::namespace::Pair;

#[test]
fn comparison_reads_everybody_against_the_same_truth() {
    if or_skip(Pair::new()).is_none() || or_skip(installed()).is_none() {
        return;
    }
    let mut command = Command::new(binary::lab());
    command.arg("compare").args([
        "--scenario=quiet,loss",
        "--rounds=2",
        "--minutes=0.3",
        "--warm-up=8",
        "--poll=1",
    ]);
    let output = command.args(["--json", "--quiet"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    // Whether a goal is met is no matter here.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{:?}: {error}", output.status);
    let outcomes: Value = serde_json::from_slice(&output.stdout).unwrap();
    for outcome in outcomes.as_array().unwrap().iter().skip(1) {
        let scenario = &outcome["measurement"];
        for clock in outcome["figures"].as_array().unwrap() {
            println!("{scenario}: {clock}");
        }
        for name in ["Truechimer", "chronyd"] {
            let clocks = outcome["figures"].as_array().unwrap();
            let clock = clocks.iter().find(|clock| clock["clock"] == name).unwrap();
            let number = |key: &str| clock[key].as_f64().unwrap();
            // The server is 10 ms ahead of the system clock and gains 17 ppm: whoever were judged
            // by another truth, or read with the wrong sign, would be far outside half a round
            // trip.
            assert!(number("readings") >= 5.0, "{scenario}: {clock}");
            assert_eq!(number("bounded"), number("readings"), "{scenario}: {clock}");
            assert!(number("median_ns") <= number("median_bound_ns"), "{scenario}: {clock}");
            // Ours is a promise; chronyd's is its root distance.
            if name == "Truechimer" {
                assert_eq!(number("inside"), number("bounded"), "{scenario}: {clock}");
            }
        }
    }
}

#[test]
fn comparison_says_what_it_cannot_do() {
    for (arguments, wanted) in [
        (["--scenario", "none"], "there are quiet, "),
        (["--minutes", "0.1"], "from 0.17"),
        (["--poll", "3"], "1, 2, 4, 8 or 16"),
        (["--clockbound", "/nonexistent/clockbound"], "no such file"),
    ] {
        let output = Command::new(binary::lab()).arg("compare").args(arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(wanted), "{arguments:?}: {error}");
    }
}
