//! `truechimer-lab replay` of stamp files, and of what is neither these nor logs.

use crate::headless::{Folder, browser, headed, looks_right};
use crate::support::{Dir, Process, daemon, lab, lab_command, truechimer};

use std::fs::File;
use std::process::Stdio;
use std::time::Duration;

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
    for estimator in truechimer_estimators::TABLE.iter().map(|kind| kind.name()) {
        let shown = lab(&["replay", "--estimator", estimator, &file]);
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
    let json = lab(&["replay", "--json", &file]);
    assert_eq!(json.code, 0, "{json:?}");
    let lines: Vec<Value> = json.out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let summary = &lines[340]["summary"];
    assert_eq!((lines.len(), &summary["rows"], &summary["used"]), (341, &340.into(), &340.into()));
    let reference = &summary["reference"];
    assert_eq!((&reference["offset_s"], &reference["inside_bound"]), (&(-37).into(), &1.0.into()));
    assert!(reference["error"]["rms_us"].as_f64().unwrap() < 20.0, "{reference}");
    assert!((summary["skew_ppb"].as_f64().unwrap() - 40_000.0).abs() < 100.0, "{summary}");

    let only = lab(&["replay", "--json", "--summary", &file]);
    assert_eq!(&only.json(), &lines[340]);

    let csv = lab(&["replay", "--csv", &file]);
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
    let mut piped = lab_command(&["replay", "--csv", "-"]);
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
            dir.write("i", format!("{good}# nominal-hz: 5\n# nominal-hz: 5\n")),
            &["line 343: expected 'nominal-hz:' once, found it again, after line 342"],
        ),
        (dir.write("j", format!("\n# nominal-hz: 5\n{good}")), &["by the comment in line 2, but"]),
        (
            dir.write("k", format!("{good}+123 2 3 4 5 6\n")),
            &["line 342, column 1 (Ta)", "write it without the sign"],
        ),
        (dir.write("l", format!("{good}1 nan 3 4 5 6\n")), &["column 2 (Tb)", "leave the row out"]),
        (
            dir.write("h", "{\"truechimer-replay\":2,\"version\":\"0\"}\n"),
            &["its format is 2, known are 3 to 14: repeat it with version \"0\""],
        ),
    ] {
        let answer = lab(&["replay", &file]);
        answer.assert_error(says);
        assert!(answer.err.contains(&file), "{answer:?}");
    }
    let answer = lab(&["replay", "--hz", "24000000", &dir.write("ok", &good)]);
    answer.assert_error(&["24000000 counts per second by --hz, but about 1000000000"]);
}

#[test]
fn what_was_found_before_an_error_is_shown() {
    let dir = Dir::new();
    let file = dir.write("cut", stamps() + "5 6\n");
    // The head is read before the first row comes out; make it longer than that.
    let rows: String = stamps().lines().skip(1).map(|line| format!("{line}\n")).collect();
    let long = dir.write("long", format!("{rows}{rows}{rows}{rows}5 6\n"));
    assert_eq!(lab(&["replay", "--csv", &file]).code, 2);
    let answer = lab(&["replay", "--csv", &long]);
    assert_eq!((answer.code, answer.out.lines().count()), (2, 4 * 340 + 1), "{}", answer.err);
    assert!(answer.err.contains("line 1361: expected 4 columns"), "{}", answer.err);
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let dir = Dir::new();
    let file = dir.write("lan.stamps", stamps());
    let typo = lab(&["replay", "--estimator", "publishd", &file]);
    assert_eq!(typo.code, 2);
    assert!(typo.err.contains("'published'"), "{typo:?}");
    for arguments in [
        &["--csv", "--json"][..],
        &["--csv", "--summary"],
        &["--hz", "1"],
        &["--hz", "2.4e9"],
        &["--settle", "-1"],
        &["--poll", "0"],
        &["--stamp-error", "-1us"],
        &["--max-wander", "fast"],
        &["--max-wander=-1"],
    ] {
        let answer = lab(&[&["replay", &file], arguments].concat());
        assert_eq!((answer.code, answer.out.as_str()), (2, ""), "{arguments:?} {answer:?}");
    }
    let hz = lab(&["replay", "--hz", "2.4e9", &file]);
    assert!(hz.err.contains("whole counts per second") && hz.err.contains("2400000000"), "{hz:?}");
    let log = dir.write("log", "{\"truechimer-replay\":3,\"version\":\"0\"}\n");
    lab(&["replay", "--hz", "1000", &log]).assert_error(&["--hz", "is for stamp files"]);
}

/// The fields of row `i`, from 0.
fn alter(text: &str, i: usize, change: impl FnOnce(&mut Vec<String>)) -> String {
    let mut lines: Vec<String> = text.lines().map(Into::into).collect();
    let mut fields: Vec<String> = lines[i + 1].split(' ').map(Into::into).collect();
    change(&mut fields);
    lines[i + 1] = fields.join(" ");
    lines.join("\n") + "\n"
}

fn summary(arguments: &[&str]) -> Value {
    lab(&[&["replay", "--json", "--summary"], arguments].concat()).json()["summary"].take()
}

#[test]
fn one_row_the_wrong_way_round_spoils_nothing() {
    let dir = Dir::new();
    let clean = summary(&[&dir.write("clean", stamps())]);
    let bad = summary(&[&dir.write("bad", alter(&stamps(), 99, |fields| fields.swap(0, 3)))]);
    assert_eq!(
        (&bad["used"], &bad["refused"]["counter-backwards"]["rows"]),
        (&339.into(), &1.into())
    );
    let rms = |summary: &Value| summary["reference"]["error"]["rms_us"].as_f64().unwrap();
    assert!((rms(&bad) / rms(&clean) - 1.0).abs() < 0.1, "{} {}", rms(&bad), rms(&clean));
}

#[test]
fn few_rows_used_is_said_and_fails() {
    let dir = Dir::new();
    // All replies before their requests; then two in three.
    let backwards = |every: bool| {
        (0..340).fold(stamps(), |text, i| {
            let wrong = every || i % 3 != 0;
            if wrong { alter(&text, i, |fields| fields.swap(0, 3)) } else { text }
        })
    };
    let none = dir.write("none", backwards(true));
    let shown = lab(&["replay", "--hz", "1000000000", &none]);
    assert_eq!((shown.code, shown.err.as_str()), (1, ""), "{shown:?}");
    let text: String = shown.out.split_whitespace().map(|word| format!("{word} ")).collect();
    for says in [
        "none of 340 rows was used",
        "duration - h,",
        "path -,",
        "bound -",
        "inside - %",
        "clock - reference - - - - - - naive - reference - - - - - - clock - naive - - - - - -",
        "mostly counter-backwards, first in line 2",
    ] {
        assert!(text.contains(says), "{says}: {}", shown.out);
    }
    let json = lab(&["replay", "--hz", "1000000000", "--json", "--summary", &none]);
    let sum = &json.json()["summary"];
    assert_eq!((json.code, &sum["used"]), (1, &0.into()));
    for value in
        [&sum["bound"], &sum["rtt_least_us"], &sum["duration_s"], &sum["reference"]["error"]]
    {
        assert!(value.is_null(), "{sum}");
    }
    assert!(json.err.contains("none of 340 rows was used"), "{json:?}");

    let some = dir.write("some", backwards(false));
    let csv = lab(&["replay", "--hz", "1000000000", "--csv", &some]);
    assert_eq!((csv.code, csv.out.lines().count()), (1, 341));
    assert!(csv.err.contains("only 114 of 340 rows were used, fewer than half"), "{}", csv.err);

    // There would be rows, but all of them are left out.
    let file = dir.write("lan", stamps());
    let late = lab(&["replay", "--settle", "86400", &file]);
    assert!(late.code == 1 && late.out.contains("which --settle leaves out"), "{late:?}");
    let settled = summary(&["--settle", "1600", &file]);
    assert_eq!(
        (&settled["rows"], &settled["reference"]["error"]["count"]),
        (&340.into(), &240.into())
    );
}

#[test]
fn a_counter_that_begins_again_is_followed() {
    let dir = Dir::new();
    let text = (200..340).fold(stamps(), |text, i| {
        let less = |count: &str| (count.parse::<u64>().unwrap() - 3_200_000_000_000).to_string();
        alter(&text, i, |fields| {
            fields[0] = less(&fields[0]);
            fields[3] = less(&fields[3]);
        })
    });
    let file = dir.write("reboot", text);
    let shown = lab(&["replay", &file]);
    assert_eq!((shown.code, shown.err.as_str()), (0, ""), "{shown:?}");
    assert!(
        shown.out.contains("restarts   the counter began again 1 time (in line 202)"),
        "{}",
        shown.out
    );
    assert!(shown.out.lines().skip(1).all(|line| line.chars().count() <= 80), "{}", shown.out);
    let sum = summary(&[&file]);
    assert_eq!((&sum["used"], &sum["restarts"]["lines"][0]), (&340.into(), &202.into()));
    assert_eq!(sum["nominal"]["hz"], 1_000_000_000);
    assert!((sum["duration_s"].as_f64().unwrap() - 339.0 * 16.0).abs() < 1.0, "{sum}");
    let csv = lab(&["replay", "--csv", &file]).out;
    let epochs: Vec<_> = csv.lines().skip(1).map(|row| row.rsplit(',').next().unwrap()).collect();
    assert_eq!((epochs[199], epochs[200], epochs[339]), ("1", "2", "2"));
}

#[test]
fn seconds_since_1900_are_named() {
    let dir = Dir::new();
    let shift = |field: &mut String| {
        let (whole, rest) = field.split_once('.').unwrap();
        *field = format!("{}.{rest}", whole.parse::<u64>().unwrap() + 2_208_988_800);
    };
    let text = (0..340).fold(stamps(), |text, i| {
        alter(&text, i, |fields| {
            shift(&mut fields[1]);
            shift(&mut fields[2]);
        })
    });
    let file = dir.write("ntp", text);
    let shown = lab(&["replay", &file]).out;
    let shown: String = shown.split_whitespace().map(|word| format!("{word} ")).collect();
    assert!(shown.contains("look like seconds since 1900"), "{shown}");
    assert!(shown.contains("it keeps TAI, the server counts from 1900"), "{shown}");
    assert_eq!(summary(&[&file])["since_1900"], true);
}

#[test]
fn several_estimators_come_into_one_report() {
    let dir = Dir::new();
    let file = dir.write("lan.stamps", stamps());
    let folder = Folder::new("replay");
    let page = folder.0.join("page.html").display().to_string();
    let shown = lab(&["replay", "--estimator", "ours,published,pi", "--report", &page, &file]);
    let written = format!("truechimer-lab: report written to {page}\n");
    assert_eq!((shown.code, shown.err), (0, written), "{}", shown.out);
    for name in ["ours", "published", "pi"] {
        assert!(shown.out.contains(&format!("'{name}' over 340 rows")), "{}", shown.out);
    }
    let page = std::fs::read_to_string(&page).unwrap();
    for part in ["The clock - the reference", "without a filter", "Bound", "published", "</html>"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("the clock in the log"), "there is none");
    headed(&page, &["host", "time"]);
    if let Some(browser) = browser() {
        looks_right(&browser, &folder, "page.html", 0);
    }
    let both = ["replay", "--estimator", "ours,pi"];
    let lines = lab(&[&both[..], &["--json", "--summary", &file]].concat()).out;
    let names: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["summary"]["estimator"].clone())
        .collect();
    assert_eq!(names, ["ours", "pi"]);
    for (arguments, says) in [
        (&["--csv", &file][..], "--csv: takes one estimator at a time"),
        (&["--json", &file], "--json: prints rows of one estimator at a time: add --summary"),
        (&["-"], "--estimator: standard input can be read only once: name a file"),
        (&["--report", "/nonexistent/x.html", &file], "/nonexistent/x.html"),
    ] {
        let told = lab(&[&both[..], arguments].concat());
        assert!(told.code == 2 && told.err.contains(says), "{told:?}");
    }
    let again = lab(&["replay", "--stamps", &dir.join("again"), &file]);
    assert!(again.code == 2 && again.err.contains("is a stamp file already"), "{again:?}");
}

#[test]
fn a_log_tells_how_far_another_estimator_is_from_it() {
    let dir = Dir::new();
    let mut server = Process::start(
        &dir,
        "serve.log",
        &["serve", "--clock", "system", "--json", "--listen", "127.0.0.1:0"],
    );
    server.wait_for("}\n");
    let output = server.output();
    let ready: Value = serde_json::from_str(output.lines().next().unwrap()).unwrap();
    let mut daemon = daemon(&dir, &[(ready["listen"].as_str().unwrap(), 1)]);
    let page = dir.join("clock");
    assert_eq!(truechimer(&["waitsync", "--page", &page]).code, 0);
    std::thread::sleep(Duration::from_secs(5));
    daemon.signal("TERM");
    assert!(daemon.wait().success());
    let log = dir.join("replay");

    // Its own estimator is where the log is, and of others the distance is told.
    let ours = lab(&["replay", "--json", "--estimator", "ours", &log]);
    let last: Value = serde_json::from_str(ours.out.lines().last().unwrap()).unwrap();
    let logged = &last["other"]["logged"];
    assert_eq!((ours.code, &logged["max_us"]), (0, &0.0.into()), "{last}");
    assert!(logged["count"].as_u64().unwrap() >= 4, "{last}");
    let shown = lab(&["replay", "--estimator", "published", &log]);
    assert_eq!((shown.code, shown.err.as_str()), (0, ""), "{shown:?}");
    for says in ["median", "iqr", "rms", "clock - logged  ", "it would have sent the very requests"]
    {
        assert!(shown.out.contains(says), "{says}: {}", shown.out);
    }
    assert!(shown.out.lines().skip(1).all(|line| line.chars().count() <= 80), "{}", shown.out);
    let settled = lab(&["replay", "--estimator", "published", "--settle", "999", &log]);
    assert!(settled.out.contains("clock - logged       -"), "{}", settled.out);

    // What it used of its source is a stamp file like any other.
    let stamps = dir.join("day.stamps");
    let taken = lab(&["replay", "--stamps", &stamps, &log]);
    assert_eq!((taken.code, taken.err.as_str()), (0, ""), "{taken:?}");
    let text = std::fs::read_to_string(&stamps).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#')).count();
    assert!(text.contains("# nominal-hz: ") && text.contains("# root-distance: "), "{text}");
    let again = lab(&["replay", "--json", "--summary", &stamps]);
    let sum: Value = serde_json::from_str(again.out.lines().last().unwrap()).unwrap();
    let sum = &sum["summary"];
    assert!(rows >= 4 && sum["rows"] == rows && sum["used"] == rows, "{rows}: {again:?}");
    assert!(sum["bound"]["median_us"].as_f64().unwrap() < 1e6, "the same machine's clock: {sum}");
    let wrong = lab(&["replay", "--stamps", &stamps, "--source", "nobody", &log]);
    assert!(wrong.code == 2 && wrong.err.contains("`nobody` is not in"), "{wrong:?}");
    let page = dir.join("log.html");
    let both = lab(&["replay", "--estimator", "ours,published", "--report", &page, &log]);
    assert_eq!(both.code, 0, "{both:?}");
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("the clock in the log") && !page.contains("the reference"));

    // The naive offset is no zero, as that from the only source is.
    let csv = lab(&["replay", "--csv", "--estimator", "published", &log]).out;
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let at = |name: &str| rows[0].iter().position(|column| *column == name).unwrap();
    let replies: Vec<_> = rows[1..].iter().filter(|row| row[at("outcome")] == "used").collect();
    let told =
        |name: &str| replies.iter().filter(|row| !["", "0.000"].contains(&row[at(name)])).count();
    assert!(replies.len() >= 4 && told("offset_ns") * 2 > replies.len(), "{csv}");
    assert!(told("logged_ns") > 0 && told("source_offset_ns") == 0, "{csv}");
    assert!(rows.iter().all(|row| row.len() == rows[0].len() || row.len() > at("text")), "{csv}");

    // Garbage has a line and a column; what differs is one field.
    let text = std::fs::read_to_string(&log).unwrap();
    let garbage = dir.write("garbage", format!("{text}x\n"));
    let line = format!("line {}, column 1: expected value\n", text.lines().count() + 1);
    let answer = lab(&["replay", &garbage]);
    assert!(answer.code == 2 && answer.err.ends_with(&line), "{answer:?}");
    let at = text.lines().position(|line| line.starts_with("{\"hand\":")).unwrap() + 1;
    let other = dir.write("other", text.replacen("\"base\":", "\"base\":1", 1));
    let answer = lab(&["replay", &other]);
    let says = format!("line {at}: hand.base differs: logged 1");
    assert!(answer.code == 1 && answer.out.contains(&says), "{answer:?}");
    assert!(answer.out.lines().count() == 1 && answer.out.len() < 300, "{answer:?}");
    let json = lab(&["replay", "--json", "--summary", &other]);
    assert_eq!((json.code, &json.json()["differs"]["field"]), (1, &"hand.base".into()));
    let old = text.replacen("\"base\":", "\"base\":1", 1);
    let this = format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION"));
    let old = dir.write("old", old.replacen(&this, "\"version\":\"0.0.1\"", 1));
    assert!(lab(&["replay", &old]).out.contains("version 0.0.1 (format 14) wrote the log"));

    // A log that holds nothing yet.
    let lines: Vec<&str> = text.lines().take(2).collect();
    for head in [format!("{}\n", lines[0]), format!("{}\n{}\n", lines[0], lines[1])] {
        let answer = lab(&["replay", &dir.write("head", head)]);
        assert!(answer.code == 1 && answer.out.contains("the log holds no event"), "{answer:?}");
        assert!(!answer.out.contains("the same"), "{answer:?}");
    }
}

#[test]
fn logs_that_are_none_are_refused() {
    let dir = Dir::new();
    let file = dir.write("log", "hello\n");
    lab(&["replay", &file]).assert_error(&[&file, "neither a replay log"]);
    let file = dir.write("other", "{}\n");
    lab(&["replay", &file]).assert_error(&[&file, "not a replay log"]);
    let absent = dir.join("absent");
    lab(&["replay", &absent]).assert_error(&[&absent, "No such file"]);
}
