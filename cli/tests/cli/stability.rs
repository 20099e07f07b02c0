//! `truechimer counters stability` as its users have it.

use std::time::Duration;

use crate::support::{Dir, Process, truechimer};

use serde_json::Value;

fn stability(arguments: &[&str]) -> crate::support::Answer {
    truechimer(&[&["counters", "stability"], arguments].concat())
}

/// A phase file of white phase noise with a gap, by the generator of SP 1065.
fn noise(dir: &Dir) -> String {
    let mut n = 1_234_567_890_u64;
    let mut text = String::from("# counter: quartz\n# tau0: 2\n");
    for i in 0..1000 {
        n = 16_807 * n % 2_147_483_647;
        match i {
            400..410 => text += "nan\n",
            _ => {
                text += &format!(
                    "{:e}\n",
                    (n as f64 / 2_147_483_647.0 - 0.5) * 1e-9 + 1e-7 * f64::from(i)
                )
            }
        }
    }
    dir.write("noise.phase", text)
}

#[test]
fn a_phase_file_is_analysed() {
    let dir = Dir::new();
    let file = noise(&dir);
    let against = format!("FILE:{file}");
    let found = stability(&["--against", &against, "--json"]);
    assert_eq!((found.code, found.err.as_str()), (0, ""), "{found:?}");
    let found = found.json();
    let analysis = &found["analysis"];
    assert_eq!((&found["counter"], &analysis["interval_s"]), (&"quartz".into(), &2.0.into()));
    assert_eq!((&analysis["samples"], &analysis["missing"]), (&990.into(), &10.into()));
    let frequency = analysis["trend"]["frequency"].as_f64().unwrap();
    assert!((frequency - 0.5e-7).abs() < 1e-12, "{frequency}");
    let point = &analysis["points"][0];
    // Uniform over 1 ns: variance 1e-18/12, and σ² = 3·variance/τ².
    let wanted = (3e-18_f64 / 12.0).sqrt() / 2.0;
    assert!((point["adev"].as_f64().unwrap() / wanted - 1.0).abs() < 0.1, "{point}");
    assert_eq!((&point["noise"], &point["identified"]), (&"white-phase".into(), &true.into()));
    assert_eq!(analysis["fit"]["levels"][0]["noise"], "white-phase");
    assert_eq!(analysis["still_falling"], true);

    let shown = stability(&["--against", &against, "--taus", "decade", "--confidence", "0.683"]);
    assert!(shown.out.contains("68.3 % limits") && shown.out.contains("white PM"), "{}", shown.out);
    assert!(shown.out.lines().all(|line| line.chars().count() <= 80), "{}", shown.out);

    // What is written is read as the same, and the report has its plots.
    let (copy, report) = (dir.join("copy.phase"), dir.join("report.html"));
    let written =
        stability(&["--against", &against, "--phase-file", &copy, "--report", &report, "--json"]);
    assert_eq!(written.code, 0, "{written:?}");
    let again = stability(&["--against", &format!("file:{copy}"), "--json"]).json();
    assert_eq!(again["analysis"], found["analysis"]);
    let page = std::fs::read_to_string(&report).unwrap();
    for part in ["Allan deviation", "Frequency error", "Phase", "white phase", "</html>"] {
        assert!(page.contains(part), "{part}");
    }
    // Another interval than the file says.
    let other = stability(&["--against", &against, "--interval", "1s", "--json"]).json();
    assert_eq!(other["analysis"]["points"][0]["tau_s"], 1.0);
}

#[test]
fn what_is_wrong_is_told_in_a_line() {
    let dir = Dir::new();
    let bad = dir.write("bad.phase", "# tau0: 1\n1e-9\n2e-9\noops\n");
    let bare = dir.write("bare.phase", "1e-9\n2e-9\n");
    let at = |path: &str| format!("file:{path}");
    for (arguments, says) in [
        (vec!["--against", &*at(&bad)], vec!["bad.phase: line 4: \"oops\""]),
        (vec!["--against", &*at(&bare)], vec!["bare.phase", "tau0"]),
        (vec!["--against", &*at(&dir.join("none"))], vec!["none: No such file"]),
        (vec!["--against", &*at(&bad), "--stress", "cpu"], vec!["not measured"]),
        (vec!["--counter", "raw", "--against", "raw"], vec!["itself"]),
        (vec!["--counter", "raw", "--against", "phc:/dev/null"], vec!["phc:/dev/null", "ethtool"]),
        (vec!["--counter", "raw", "--against", "pps:/dev/no-such"], vec!["/dev/no-such"]),
        (
            "--counter raw --against realtime --interval 1h --duration 1ms".split(' ').collect(),
            vec!["measure longer"],
        ),
        (vec!["--counter", "raw", "--against", "realtime", "--interval", "10us"], vec!["interval"]),
        (
            vec!["--against", "realtime", "--interval", "1ms", "--duration", "3h"],
            vec!["10800000 samples", "every 0.001 s or less"],
        ),
        (
            vec!["--against", "realtime", "--interval", "1s", "--stress", "cpu", "--phase", "1.5s"],
            vec!["phases of 1.5 s", "longer"],
        ),
        (
            vec!["--counter", "raw", "--against", "realtime", "--resume", "--log", &*bad],
            vec!["bad.phase cannot be continued", "line 4"],
        ),
        (
            vec!["--counter", "raw", "--against", "realtime", "--resume", "--log", &*bare],
            vec!["bare.phase cannot be continued", "no log"],
        ),
        (
            vec!["--counter", "raw", "--against", "realtime", "--log", &*bare],
            vec!["bare.phase cannot be continued", "--resume"],
        ),
    ] {
        stability(&arguments).assert_error(&says);
    }
    for (option, value, says) in [
        ("--against", "sundial", "counter:NAME"),
        ("--against", "ntp", "ntp:192.0.2.7"),
        ("--duration", "10", "500ms"),
        ("--confidence", "2", "0.999"),
        ("--taus", "some", "octave"),
        ("--remove", "all", "drift"),
    ] {
        let answer = stability(&[option, value]);
        assert!(answer.code == 2 && answer.err.contains(says), "{answer:?}");
    }
}

#[test]
fn a_measurement_is_logged_and_goes_on() {
    let dir = Dir::new();
    let log = dir.join("raw.phase");
    let all = ["--counter", "raw", "--against", "realtime", "--interval", "20ms"];
    let measure = |more: &[&str]| {
        let answer =
            stability(&[&all[..], &["--log", &log, "--json", "--duration", "1s"], more].concat());
        assert_eq!(answer.code, 0, "{answer:?}");
        answer.json()
    };
    let first = measure(&[]);
    assert_eq!((&first["counter"], &first["reference"]), (&"raw".into(), &"realtime".into()));
    assert_eq!(first["nominal_hz"], 1_000_000_000);
    let samples = |found: &Value| found["analysis"]["samples"].as_u64().unwrap();
    assert!(samples(&first) >= 2, "{first}");
    assert!(first["reading_s"].as_f64().unwrap() < 1e-3, "{first}");
    assert!(first["notes"][0].as_str().unwrap().contains("CLOCK_REALTIME"), "{first}");
    std::thread::sleep(Duration::from_millis(300));
    let second = measure(&["--resume"]);
    assert!(samples(&second) > samples(&first), "{second}");
    assert!(second["analysis"]["span_s"].as_f64() > first["analysis"]["span_s"].as_f64());
    assert!(second["analysis"]["missing"].as_u64().unwrap() >= 1, "the gap: {second}");
    // The log is a phase file.
    let file = stability(&["--against", &format!("file:{log}"), "--json"]).json();
    assert_eq!(file["analysis"], second["analysis"]);
    // Half a line, as after a crash, is cut off; what no clock does is not continued.
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, format!("{text}3.25 -1.2e")).unwrap();
    let third = measure(&["--resume"]);
    assert!(samples(&third) > samples(&second), "{third}");
    let origin = text.lines().find(|line| line.starts_with("# origin-count: ")).unwrap();
    let other = dir.write("other.phase", text.replace(origin, "# origin-count: 5"));
    let asked = ["--interval", "20ms", "--log", &other, "--resume"];
    let answer = stability(&[&["--counter", "raw", "--against", "realtime"], &asked[..]].concat());
    answer.assert_error(&["other.phase cannot be continued: the phase has jumped by"]);
    assert_eq!(std::fs::read_to_string(&other).unwrap().matches("resumed").count(), 1);
    // Of another interval it is not continued.
    let other = ["--interval", "50ms", "--log", &log, "--resume"];
    let answer = stability(&[&["--counter", "raw", "--against", "realtime"], &other[..]].concat());
    answer.assert_error(&["raw.phase", "0.02 s then and is 0.05 s now"]);
}

#[test]
fn interrupted_it_says_what_there_was() {
    let dir = Dir::new();
    let log = dir.join("log");
    let arguments = ["counters", "stability", "--counter", "raw", "--against", "realtime"];
    let more = ["--interval", "10ms", "--duration", "1h", "--log", &log];
    let mut process = Process::start(&dir, "out", &[&arguments[..], &more].concat());
    let enough = || std::fs::read_to_string(&log).is_ok_and(|text| text.lines().count() > 30);
    while !enough() {
        std::thread::sleep(Duration::from_millis(20));
    }
    process.signal("INT");
    assert!(process.wait().success());
    let output = process.output();
    assert!(output.contains("ended early") && output.contains("adev"), "{output}");
}

#[test]
fn a_server_is_a_reference() {
    let dir = Dir::new();
    let server = Process::start(
        &dir,
        "serve",
        &["serve", "--clock", "system", "--listen", "127.0.0.1:0", "--skew-ppm", "100", "--json"],
    );
    let mut server = server;
    server.wait_for("127.0.0.1:");
    let said = server.output();
    let at = said.find("127.0.0.1:").unwrap();
    let address: String =
        said[at..].chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c)).collect();
    let found = stability(&[
        "--counter",
        "raw",
        "--against",
        &format!("NTP:{address}"),
        "--interval",
        "50ms",
        "--best-of",
        "2",
        "--duration",
        "2s",
        "--json",
    ]);
    assert_eq!(found.code, 0, "{found:?}");
    let found = found.json();
    let exchanges = &found["exchanges"];
    assert!(exchanges["answered"].as_u64().unwrap() >= 2, "{found}");
    assert!(exchanges["round_trip_min_s"].as_f64().unwrap() > 0.0, "{found}");
    // The server gains 100 ppm on the system clock, so that the counter loses about as much; the
    // system clock may itself be slewed, and a busy machine adds milliseconds.
    let frequency = found["analysis"]["trend"]["frequency"].as_f64().unwrap();
    assert!(frequency > -0.1 && frequency < 0.1, "{frequency}");
}

#[test]
fn loads_are_told_apart() {
    let found = stability(&[
        "--counter",
        "raw",
        "--against",
        "realtime",
        "--interval",
        "20ms",
        "--stress",
        "cpu",
        "--phase",
        "500ms",
        "--duration",
        "2s",
        "--json",
    ]);
    assert_eq!(found.code, 0, "{found:?}");
    let found = found.json();
    let stressed = &found["stressed"];
    assert_eq!((&stressed["stress"], &stressed["phase_s"]), (&"cpu".into(), &0.5.into()));
    let loads: Vec<&str> =
        stressed["loads"].as_array().unwrap().iter().map(|l| l["load"].as_str().unwrap()).collect();
    assert!(loads.contains(&"quiet"), "{found}");
}
