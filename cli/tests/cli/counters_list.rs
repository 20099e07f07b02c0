//! `counters list`: on this machine, and on others from their files.

use std::fs;

use crate::support::{Dir, truechimer};

#[test]
fn this_machine_is_listed() {
    let answer = truechimer(&["counters", "list", "-v", "--seconds", "0.2"]);
    assert_eq!((answer.code, answer.err.as_str()), (0, ""), "{answer:?}");
    for part in ["machine  ", "hypervisor  ", "Counters: ", "clock_gettime", "raw ", "Advice\n"] {
        assert!(answer.out.contains(part), "{part:?} is missing in {}", answer.out);
    }
}

#[test]
fn as_json_it_has_everything_by_name() {
    let json = truechimer(&["counters", "list", "--json", "--seconds", "0.1"]).json();
    let inventory = &json["inventory"];
    for name in [
        "architecture",
        "cpus",
        "host",
        "clocksources",
        "counters",
        "auto",
        "clock_calls",
        "agreement",
        "boot",
        "idle",
        "log",
        "unknown",
    ] {
        assert!(inventory.get(name).is_some(), "{name} is missing in {inventory:#}");
    }
    assert_eq!(inventory["architecture"], std::env::consts::ARCH);
    let counters = inventory["counters"].as_array().unwrap();
    let raw = counters.iter().find(|counter| counter["name"] == "raw").unwrap();
    assert!(raw["unusable"].is_string() || raw["read_ns"].as_f64().unwrap() > 0.0, "{raw}");
    let auto = counters.iter().find(|counter| counter["name"] == inventory["auto"]).unwrap();
    assert!(auto["unusable"].is_null() && auto["step"]["counts"].as_i64().unwrap() >= 1, "{auto}");
    for call in inventory["clock_calls"].as_array().unwrap() {
        assert!(call["libc_ns"].as_f64().unwrap() > 0.0, "{call}");
        let paths = ["vdso", "system-call", "unclear"];
        assert!(paths.contains(&call["path"].as_str().unwrap()), "{call}");
    }
    for advice in json["advice"].as_array().unwrap() {
        let severities = ["problem", "note", "good"];
        assert!(severities.contains(&advice["severity"].as_str().unwrap()), "{advice}");
        assert!(advice["title"].is_string() && advice["why"].is_string(), "{advice}");
    }
}

#[test]
fn nothing_is_measured_in_no_time() {
    let json = truechimer(&["counters", "list", "--json", "--seconds", "0"]).json();
    assert_eq!(json["inventory"]["clock_calls"].as_array().unwrap().len(), 0);
    for counter in json["inventory"]["counters"].as_array().unwrap() {
        assert!(counter["measured"].is_null() && counter["read_ns"].is_null(), "{counter}");
    }
}

#[test]
fn another_machine_is_described_from_its_files() {
    let dir = Dir::new();
    let clocksources = "sys/devices/system/clocksource/clocksource0";
    for (path, text) in [
        (format!("{clocksources}/current_clocksource"), "hpet\n"),
        (format!("{clocksources}/available_clocksource"), "tsc hpet acpi_pm \n"),
        ("proc/cmdline".into(), "quiet clocksource=hpet \u{1b}[31mtsc=\u{1b}c\n"),
        ("proc/cpuinfo".into(), "processor\t: 0\nflags\t: tsc constant_tsc nonstop_tsc\n"),
        (
            "dev/kmsg".into(),
            "[    0.000001] tsc: Detected 2400.000 MHz processor\n[   1.0] hpet: \\x1b[2J\n",
        ),
    ] {
        let path = dir.join(&path);
        fs::create_dir_all(std::path::Path::new(&path).parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let root = dir.join("");
    let answer = truechimer(&["counters", "list", "-v", "--root", &root]);
    assert_eq!(answer.code, 0, "{answer:?}");
    for part in [
        "\n*  hpet ",
        "\n+  tsc ",
        "2.4 GHz",
        "PROBLEM   The TSC is there and steady",
        "truechimer counters select tsc",
        "Not found out\n",
    ] {
        assert!(answer.out.contains(part), "{part:?} is missing in {}", answer.out);
    }
    assert!(!answer.out.contains('\u{1b}'), "{:?}", answer.out);
    let long: Vec<&str> = answer.out.lines().filter(|l| l.chars().count() > 80).collect();
    assert!(long.iter().all(|line| line.contains(&root)), "{long:?}");
    assert!(!answer.out.contains("clock_gettime"), "nothing of this machine: {}", answer.out);

    let json = truechimer(&["counters", "list", "--json", "--root", &root]).json();
    assert_eq!(json["inventory"]["clocksources"][0]["name"], "hpet");
    assert_eq!(json["advice"][0]["severity"], "problem");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    truechimer(&["counters", "list", "--root", "/nonexistent"])
        .assert_error(&["/nonexistent", "no such directory"]);
    for bad in ["-1", "1h", "nan", "inf", "3601"] {
        let answer = truechimer(&["counters", "list", &format!("--seconds={bad}")]);
        assert_eq!((answer.code, answer.out.as_str()), (2, ""), "{answer:?}");
        assert!(
            answer.err.contains("'--seconds <S>': must be a number from 0 to 3600"),
            "{answer:?}"
        );
    }
}
