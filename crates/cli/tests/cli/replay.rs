//! `truechimer replay` of stamp files, and of what is neither these nor logs.

use crate::support::{Dir, command, truechimer};

use std::fs::File;
use std::process::Stdio;

use serde_json::Value;

/// Rows every 16 s for an hour and a half: a counter of nanoseconds that is 40 ppm fast, 0.2 ms
/// there and back and up to 20 µs more, and a reference that keeps TAI.
fn stamps() -> String {
    let mut text = String::from("# Ta Tb Te Tf RefIn RefOut\n");
    let count = |ns: u64| 5_000_000_000 + ns + ns / 25_000;
    let time = |ns: u64, scale: u64| {
        format!("{}.{:09}", 1_750_000_000 + scale + ns / 1_000_000_000, ns % 1_000_000_000)
    };
    for i in 0..340u64 {
        let sent = i * 16_000_000_000;
        let there = sent + 200_000 + i * 7919 % 20_000;
        let back = there + 215_000 + i * 104_729 % 20_000;
        text.push_str(&format!(
            "{} {} {} {} {} {}\n",
            count(sent),
            time(there, 0),
            time(there + 15_000, 0),
            count(back),
            time(sent, 37),
            time(back, 37)
        ));
    }
    text
}

#[test]
fn a_stamp_file_gives_a_summary_that_fits_a_terminal() {
    let dir = Dir::new();
    let file = dir.write("lan.stamps", stamps());
    for estimator in ["ours", "published", "pi", "ntp-pll"] {
        let shown = truechimer(&["replay", "--estimator", estimator, &file]);
        assert_eq!((shown.code, shown.err.as_str()), (0, ""), "{shown:?}");
        assert!(shown.out.contains(&format!("'{estimator}' over 340 rows")), "{}", shown.out);
        assert!(shown.out.contains("37 s ahead of the server's timescale: it keeps TAI"));
        // The first line names the file, however long that is.
        assert!(shown.out.lines().skip(1).all(|line| line.chars().count() <= 80), "{}", shown.out);
    }
}

#[test]
fn rows_come_as_json_and_as_csv() {
    let dir = Dir::new();
    let file = dir.write("lan.stamps", stamps());
    let json = truechimer(&["replay", "--json", &file]);
    assert_eq!(json.code, 0, "{json:?}");
    let lines: Vec<Value> = json.out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let summary = &lines[340]["summary"];
    assert_eq!((lines.len(), &summary["rows"], &summary["used"]), (341, &340.into(), &340.into()));
    let reference = &summary["reference"];
    assert_eq!((&reference["offset_s"], &reference["inside_bound"]), (&(-37).into(), &1.0.into()));
    assert!(reference["error"]["rms_us"].as_f64().unwrap() < 20.0, "{reference}");
    assert!((summary["skew_ppb"].as_f64().unwrap() - 40_000.0).abs() < 100.0, "{summary}");

    let only = truechimer(&["replay", "--json", "--summary", &file]);
    assert_eq!(&only.json(), &lines[340]);

    let csv = truechimer(&["replay", "--csv", &file]);
    let rows: Vec<Vec<&str>> = csv.out.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!((rows.len(), csv.err.as_str()), (341, ""));
    let at = |name: &str| rows[0].iter().position(|column| *column == name).unwrap();
    for (row, line) in rows[1..].iter().zip(&lines) {
        assert_eq!(row.len(), rows[0].len());
        assert_eq!(row[at("line")], line["line"].to_string());
        assert_eq!(row[at("time_s")], line["time"].as_str().unwrap());
        assert_eq!(row[at("error_ns")].replace('.', "").parse().ok(), line["error_ps"].as_i64());
    }

    // Standard input does as well.
    let mut piped = command(&["replay", "--csv", "-"]);
    let output = piped.stdin(Stdio::from(File::open(&file).unwrap())).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), csv.out);
}

#[test]
fn bad_stamp_files_are_named_with_the_place_and_the_mend() {
    let dir = Dir::new();
    let good = stamps();
    let with = |line: &str| dir.write("bad", format!("{good}{line}\n"));
    for (file, says) in [
        (dir.write("a", ""), &["it is empty: expected rows of Ta Tb Te Tf"][..]),
        (with("1 2 3"), &["line 342: expected 4 columns (Ta Tb Te Tf) or 6", "found 3"]),
        (
            dir.write("b", "1 1.7e9 3 4\n"),
            &["line 1, column 2 (Tb)", "'1.7e9'", "write all of them"],
        ),
        (dir.write("c", "-1 2 3 4\n"), &["column 1 (Ta)", "counts are unsigned"]),
        (dir.write("d", "1 2 3 4\n"), &["the counter's rate cannot be told", "--hz"]),
        (dir.write("e", b"\x1f\x8b\x08\x00rest"), &["packed (gzip)", "gzip -dc FILE | truechimer"]),
        (dir.write("f", b"\x7fELF\x02\x01"), &["binary"]),
        (dir.write("g", "Ta Tb Te Tf\n"), &["neither a replay log", "nor a stamp file"]),
        (
            dir.write("h", "{\"truechimer-replay\":2,\"version\":\"0\"}\n"),
            &["its format is 2, known is 3"],
        ),
    ] {
        let answer = truechimer(&["replay", &file]);
        answer.assert_error(says);
        assert!(answer.err.contains(&file), "{answer:?}");
    }
    let answer = truechimer(&["replay", "--hz", "24000000", &dir.write("ok", &good)]);
    answer.assert_error(&["24000000 counts per second by --hz, but about 1000000000"]);
}

#[test]
fn what_was_found_before_an_error_is_shown() {
    let dir = Dir::new();
    let file = dir.write("cut", stamps() + "5 6\n");
    // The head is read before the first row comes out; make it longer than that.
    let rows: String = stamps().lines().skip(1).map(|line| format!("{line}\n")).collect();
    let long = dir.write("long", format!("{rows}{rows}{rows}{rows}5 6\n"));
    assert_eq!(truechimer(&["replay", "--csv", &file]).code, 2);
    let answer = truechimer(&["replay", "--csv", &long]);
    assert_eq!((answer.code, answer.out.lines().count()), (2, 4 * 340 + 1), "{}", answer.err);
    assert!(answer.err.contains("line 1361: expected 4 columns"), "{}", answer.err);
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let dir = Dir::new();
    let file = dir.write("lan.stamps", stamps());
    let typo = truechimer(&["replay", "--estimator", "publishd", &file]);
    assert_eq!(typo.code, 2);
    assert!(typo.err.contains("'published'"), "{typo:?}");
    for arguments in [
        &["--csv", "--json"][..],
        &["--csv", "--summary"],
        &["--hz", "1"],
        &["--poll", "0"],
        &["--stamp-error", "-1us"],
        &["--max-wander", "fast"],
        &["--max-wander=-1"],
    ] {
        let answer = truechimer(&[&["replay", &file], arguments].concat());
        assert_eq!((answer.code, answer.out.as_str()), (2, ""), "{arguments:?} {answer:?}");
    }
    let log = dir.write("log", "{\"truechimer-replay\":3,\"version\":\"0\"}\n");
    truechimer(&["replay", "--hz", "1000", &log]).assert_error(&["--hz", "is for stamp files"]);
}
