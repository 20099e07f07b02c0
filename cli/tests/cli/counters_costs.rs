//! Cost of reading counters, and the kernel's choice among them: the commands as a user has them.

use std::fs;
use std::time::{Duration, Instant};

use crate::support::{Dir, Process, SOON, truechimer};

/// A folder as that of the kernel's clocksources. It follows every write, as the kernel does.
fn kernel(dir: &Dir, current: &str, available: &str) -> String {
    dir.write("available_clocksource", format!("{available}\n"));
    dir.write("current_clocksource", format!("{current}\n"));
    dir.join("")
}

fn current(dir: &Dir) -> String {
    fs::read_to_string(dir.join("current_clocksource")).unwrap().trim().to_owned()
}

fn fits(text: &str) {
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn every_command_says_how_it_ends() {
    for name in ["bench", "select", "latency"] {
        let help = truechimer(&["counters", name, "--help"]);
        assert_eq!(help.code, 0);
        assert!(help.out.contains("Exit status: 0"), "{}", help.out);
        assert!(help.out.contains("Examples:"), "{}", help.out);
        assert!(!help.out.contains("clocksources"), "{name}: for tests alone: {}", help.out);
    }
}

#[test]
fn the_comparison_has_every_way_and_changes_nothing_unasked() {
    let dir = Dir::new();
    let folder = kernel(&dir, "tsc", "tsc hpet");
    let all = ["counters", "bench", "--reads", "2k", "--clocksources", &folder];
    let found = truechimer(&[&all[..], &["--json"]].concat());
    assert_eq!((found.code, found.err.as_str()), (0, ""), "{found:?}");
    let found = found.json();
    assert_eq!((&found["reads"], &found["clocksource"]), (&2000.into(), &"tsc".into()));
    assert_eq!(found["not_selected"][0], "hpet");
    let costs = found["sources"][0]["costs"].as_array().unwrap();
    for (by, what) in [
        ("vdso", "CLOCK_REALTIME"),
        ("vdso", "CLOCK_MONOTONIC_RAW"),
        ("vdso", "CLOCK_MONOTONIC_COARSE"),
        ("vdso", "gettimeofday"),
        ("vdso", "time"),
        ("system-call", "CLOCK_MONOTONIC"),
    ] {
        let cost = costs.iter().find(|cost| cost["by"] == by && cost["what"] == what);
        let cost = cost.unwrap_or_else(|| panic!("{by} {what} is missing in {found}"));
        for figure in ["real_s", "ns", "ratio"] {
            assert!(cost[figure].as_f64().unwrap() > 0.0, "{figure}: {cost}");
        }
        assert!(cost["user_s"].as_f64().unwrap() >= 0.0 && cost["system_s"].is_number(), "{cost}");
    }
    assert!(found["coarse"][0]["said_ns"].as_u64().unwrap() > 0);

    let report = dir.join("bench.html");
    let shown = truechimer(&[&all[..], &["--report", &report]].concat());
    assert_eq!(shown.code, 0, "{shown:?}");
    fits(&shown.out);
    assert!(shown.out.contains("without --switch: hpet"), "{}", shown.out);
    assert!(fs::read_to_string(&report).unwrap().contains("CLOCK_MONOTONIC_RAW"));
    assert_eq!(current(&dir), "tsc");
}

#[test]
fn every_clocksource_is_compared_and_the_first_put_back() {
    let dir = Dir::new();
    let folder = kernel(&dir, "hpet", "tsc hpet acpi_pm");
    let all = ["counters", "bench", "--switch", "--reads", "1e3", "--clocksources", &folder];
    let found = truechimer(&all);
    assert_eq!(found.code, 0, "{found:?}");
    fits(&found.out);
    fits(&found.err);
    for name in ["clocksource hpet", "clocksource tsc", "clocksource acpi_pm", "by clocksource:"] {
        assert!(found.out.contains(name), "{name} is missing in {}", found.out);
    }
    // Said before, with the way back.
    let warning = found.err.replace('\n', " ");
    assert!(warning.contains("from hpet to tsc, acpi_pm"), "{warning}");
    assert!(warning.contains("echo hpet > ") && warning.contains("killed"), "{warning}");
    assert_eq!(current(&dir), "hpet");
    let found = truechimer(&[&all[..], &["--json"]].concat()).json();
    let names: Vec<_> = found["sources"].as_array().unwrap().iter().collect();
    assert_eq!(names.len(), 3);
    assert_eq!((current(&dir).as_str(), &names[1]["clocksource"]), ("hpet", &"tsc".into()));
}

/// Runs the comparison until it has changed the clocksource, sends these signals, and looks that
/// all is as before.
fn interrupted(signals: &[&str]) {
    let dir = Dir::new();
    // About a second for each, and many of them: the signals come in the middle.
    let folder =
        kernel(&dir, "tsc", "tsc hpet acpi_pm kvm-clock a b c d e f g h i j k l m n o p q");
    let arguments = ["counters", "bench", "--switch", "--reads", "1M", "--clocksources", &folder];
    let mut bench = Process::start(&dir, "bench.log", &arguments);
    let end = Instant::now() + 3 * SOON;
    while current(&dir) == "tsc" {
        assert!(Instant::now() < end, "{}", bench.output());
        std::thread::sleep(Duration::from_millis(5));
    }
    for signal in signals {
        bench.signal(signal);
    }
    assert_eq!(bench.wait().code(), Some(2), "{}", bench.output());
    assert!(bench.output().contains("interrupted; the clocksource is tsc again"));
    assert_eq!(current(&dir), "tsc");
}

#[test]
fn control_c_puts_it_back() {
    interrupted(&["INT"]);
}

#[test]
fn so_does_a_second_one_and_the_others() {
    interrupted(&["INT", "INT"]);
    interrupted(&["TERM", "HUP"]);
    if !hears_nothing_of_hup() {
        interrupted(&["HUP"]);
    }
    interrupted(&["TSTP", "INT"]);
}

/// True if these tests run under nohup, and so do the programs that they start.
fn hears_nothing_of_hup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 == 1
}

#[test]
fn numbers_of_readings_are_checked() {
    for (reads, says) in [("0", "1 or more"), ("ten", "not a number"), ("1.5", "whole number")] {
        let answer = truechimer(&["counters", "bench", "--reads", reads]);
        assert_eq!((answer.code, answer.out.as_str()), (2, ""), "{answer:?}");
        assert!(answer.err.contains("--reads") && answer.err.contains(says), "{answer:?}");
    }
    let dir = Dir::new();
    let folder = dir.join("absent");
    let switch = ["counters", "bench", "--switch", "--reads", "1k", "--clocksources", &folder];
    truechimer(&switch).assert_error(&["current_clocksource", "No such file"]);
}

#[test]
fn selecting_is_explained_verified_and_refused_where_it_makes_no_sense() {
    let dir = Dir::new();
    let folder = kernel(&dir, "tsc", "tsc hpet acpi_pm");
    let select = |words: &[&str]| {
        truechimer(&[&["counters", "select", "--clocksources", &folder], words].concat())
    };
    let shown = select(&[]);
    assert_eq!((shown.code, shown.out.as_str()), (0, "current    tsc\navailable  hpet acpi_pm\n"));
    select(&["htep", "--yes"]).assert_error(&["'htep'", "'hpet'", "tsc hpet acpi_pm"]);
    let same = select(&["tsc", "--yes"]);
    assert!(same.code == 0 && same.out.contains("already"), "{same:?}");

    // Nobody there to say yes.
    let unasked = select(&["hpet"]);
    assert_eq!((unasked.code, unasked.out.as_str()), (2, ""), "{unasked:?}");
    assert!(unasked.err.contains("nothing was changed") && unasked.err.contains("--yes"));
    assert_eq!(current(&dir), "tsc");

    let changed = select(&["hpet", "--yes"]);
    assert_eq!(changed.code, 0, "{changed:?}");
    fits(&changed.out);
    fits(&changed.err);
    for part in ["new epoch", "CLOCK_MONOTONIC_RAW", "whole machine"] {
        assert!(changed.err.contains(part), "{part} is missing in {changed:?}");
    }
    for part in ["the clocksource is hpet", "select tsc", "clocksource=hpet"] {
        assert!(changed.out.contains(part), "{part} is missing in {changed:?}");
    }
    assert_eq!(current(&dir), "hpet");
}

#[test]
fn latencies_are_a_distribution_for_every_way_and_load() {
    let dir = Dir::new();
    let report = dir.join("latency.html");
    let all = ["counters", "latency", "--stress", "all", "--samples", "500", "--phase", "0.05"];
    let found = truechimer(&[&all[..], &["--json", "--report", &report]].concat());
    let says = format!("truechimer: report written to {report}\n");
    assert_eq!((found.code, found.err.as_str()), (0, says.as_str()), "{found:?}");
    let found = found.json();
    assert_eq!(found["stress"], "all");
    let loads = found["loads"].as_array().unwrap();
    let names: Vec<_> = loads.iter().map(|of| of["load"].as_str().unwrap()).collect();
    assert_eq!(names, ["quiet", "cpu", "net"]);
    for of in loads {
        let ways = of["ways"].as_array().unwrap();
        assert_eq!(ways[0]["way"], "nothing");
        for way in ways {
            let readings = way["readings"].as_u64().unwrap() + way["backwards"].as_u64().unwrap();
            assert_eq!(readings, 500, "{way}");
            let at = |name: &str| way[name].as_f64().unwrap();
            assert!(at("min_ns") <= at("median_ns") && at("median_ns") <= at("max_ns"), "{way}");
        }
        for name in ["vdso raw", "vdso realtime", "vdso monotonic", "syscall raw"] {
            assert!(ways.iter().any(|way| way["way"] == name), "{name} is missing in {of}");
        }
    }
    let page = fs::read_to_string(&report).unwrap();
    assert!(page.contains("net: how many take longer"), "{page}");

    let shown = truechimer(&["counters", "latency", "--seconds", "0.3", "--cpu", "0"]);
    if shown.code == 0 {
        fits(&shown.out);
        assert!(shown.out.contains("on processor 0"), "{}", shown.out);
    } else {
        // Where this machine does not let us use its first one.
        shown.assert_error(&["processor 0", "Cpus_allowed_list"]);
    }
}

#[test]
fn what_latency_cannot_do_is_said() {
    let answer = truechimer(&["counters", "latency", "--stress", "gpu"]);
    assert_eq!(answer.code, 2);
    assert!(answer.err.contains("use none, cpu, net or all"), "{answer:?}");
    truechimer(&["counters", "latency", "--stress", "net", "--seconds", "1", "--phase", "0.6"])
        .assert_error(&["--phase", "2 phases of 0.6 s"]);
    truechimer(&["counters", "latency", "--cpu", "8191"]).assert_error(&["processor 8191"]);
    let dir = Dir::new();
    let nowhere = dir.join("absent/latency.html");
    truechimer(&["counters", "latency", "--report", &nowhere]).assert_error(&["absent"]);
}

#[test]
fn an_interrupted_measurement_shows_what_there_is() {
    let dir = Dir::new();
    let arguments = ["counters", "latency", "--stress", "all", "--seconds", "3600"];
    let mut latency = Process::start(&dir, "latency.log", &arguments);
    latency.wait_for("this takes 3600 s");
    // Some of it; on a busy machine perhaps nothing yet.
    std::thread::sleep(Duration::from_millis(700));
    latency.signal("INT");
    let code = latency.wait().code();
    let output = latency.output();
    if output.contains("nothing was measured") {
        // A machine so busy that it had not even begun.
        assert_eq!(code, Some(2), "{output}");
    } else {
        assert_eq!(code, Some(0), "{output}");
        assert!(output.contains("interrupted: this is what"), "{output}");
    }
}
