//! `truechimer-lab bench timehands` as a whole, with its processes: what it shows, not how fast it
//! is.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

/// The command, with this directory for its temporary files.
fn command(directory: &PathBuf, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_truechimer-lab"));
    command.args(["bench", "timehands"]).args(arguments).stdin(Stdio::null());
    command.env("TMPDIR", directory).env_remove("TRUECHIMER_PAGE").env_remove("XDG_RUNTIME_DIR");
    command
}

fn scratch(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("bench-timehands-{name}-{}", std::process::id()));
    fs::create_dir(&path).unwrap();
    path
}

#[test]
fn it_shows_that_readers_do_not_wait_and_leaves_nothing_behind() {
    let outside = scratch("figures");
    let directory = outside.join("tmp");
    fs::create_dir(&directory).unwrap();
    let (report, plot) = (outside.join("report.html"), outside.join("plot.svg"));
    let arguments = ["--threads", "1,2", "--rounds", "2", "--turn", "2", "--json", "--report"];
    let mut command = command(&directory, &arguments);
    let output = command.arg(&report).arg("--plot").arg(&plot).output().unwrap();
    let says = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{says}");
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();

    let standing = &figures["standing"];
    assert_eq!(standing["timehands_readers"], 2, "{standing}");
    assert!(standing["timehands_reads"].as_u64().unwrap() >= 2);
    assert!(standing["writing"].as_u64().unwrap() > 8);
    assert_eq!(
        (&standing["seqlock_readers"], &standing["ticket_lock_readers"]),
        (&0.into(), &0.into())
    );

    let turns = figures["turns"].as_array().unwrap();
    for clock in
        ["counter", "timehands", "seqlock", "mutex", "ticket-lock", "realtime", "monotonic"]
    {
        for (who, readers) in [("threads", 1), ("threads", 2), ("processes", 1), ("processes", 2)] {
            let found = turns.iter().find(|turn| {
                (turn["clock"] == clock && turn["who"] == who)
                    && (turn["readers"] == readers && turn["dummy"] == false)
            });
            assert_eq!(found.is_some(), clock != "mutex" || who == "threads", "{clock} {who}");
            let rate = found.map(|turn| turn["reads_per_second"].as_f64().unwrap());
            assert!(rate.is_none_or(|rate| rate > 0.0));
        }
    }
    let goals = figures["goals"].as_array().unwrap();
    let verdicts: Vec<&str> = goals.iter().map(|goal| goal["verdict"].as_str().unwrap()).collect();
    // Two rounds judge nothing; what is counted is.
    assert_eq!(verdicts, ["open", "open", "open", "met"], "{goals:?}");
    assert!(goals[0]["reason"].as_str().is_some_and(|reason| !reason.is_empty()));
    assert_eq!(figures["renewals"][0]["least_hz"], 18.2);
    assert!(fs::read_to_string(&report).unwrap().contains("<h1>Timehands</h1>"));
    let plot = fs::read_to_string(&plot).unwrap();
    assert!(plot.starts_with("<svg ") && plot.ends_with("</svg>\n"));
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    fs::remove_dir_all(outside).unwrap();
}

#[test]
fn its_table_is_as_wide_as_a_terminal() {
    let directory = scratch("table");
    let arguments = ["--threads", "1,2,3", "--rounds", "6", "--turn", "1"];
    let output = command(&directory, &arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("timehands") && text.contains("scaling to 3 threads"), "{text}");
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 80, "{widest}:\n{text}");
    assert!(text.contains("\ngoals: ") && text.contains("at least 0.95\n"), "{text}");
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn what_makes_no_sense_is_refused() {
    let directory = scratch("refused");
    for arguments in [
        ["--threads", "0"].as_slice(),
        &["--rounds", "0"],
        &["--child", "nobody", "nowhere"],
        &["--child", "reader", "/nonexistent"],
        &["--report", "/nonexistent/report.html", "--rounds", "1", "--turn", "1", "--threads", "1"],
    ] {
        let output = command(&directory, arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let says = String::from_utf8_lossy(&output.stderr);
        assert!(says.starts_with("truechimer-lab: "), "{arguments:?}: {says}");
    }
    fs::remove_dir_all(directory).unwrap();
}
