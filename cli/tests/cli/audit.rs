//! Reports from a record that was made up: shares to the nanosecond, gaps, events, a chain.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use truechimer_audit::{Event, Interval, Kind, Limits, Line, SourceState, Sources, Time, Writer};

use crate::headless;
use crate::support::{Dir, truechimer};

/// 2026-11-27.
const DAY: i64 = 1_795_737_600;
const SECOND_NS: i64 = 1_000_000_000;

fn at(second: i64) -> Time {
    Time((DAY + second) * SECOND_NS)
}

/// A day in minutes: none from 06:00 to 06:30, holdover from 12:00 to 12:20, when the bound grows.
/// The bounds come from a generator with a fixed seed. Returned are the minutes within 100 µs.
fn day(folder: &Path) -> i64 {
    let limits = Limits { total_bytes: 10_000_000 };
    let (mut writer, _) = Writer::open(folder, limits, "0.1.0").unwrap();
    let mut append = |line: Line| writer.append(&line).unwrap();
    let event = |second: i64, kind: Kind, text: &str| {
        Line::Event(Event {
            at: at(second),
            count: 9,
            kind,
            text: text.into(),
            bound_ns: Some(20_000),
            by_system_clock: kind == Kind::Start,
            step_ns: (kind == Kind::Step).then_some(-1_500_000),
            torn: None,
            interval_ns: None,
        })
    };
    let source = |name: &str, status: &str, reference: &str| SourceState {
        name: name.into(),
        address: Some("192.0.2.1:123".into()),
        status: status.into(),
        stratum: Some(1),
        reference: Some(reference.into()),
        root_distance_ns: Some(1_200),
        reason: None,
    };
    append(event(0, Kind::Start, "version 0.1.0 on the counter tsc: sources a:123, b:123"));
    append(Line::Sources(Sources {
        at: at(0),
        list: vec![source("a:123", "selected", "GPS"), source("b:123", "combined", "PTP")],
    }));
    let (mut seed, mut within) = (2026u64, 0);
    for minute in 1..=1440 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let noise = (seed >> 33) % 30_000;
        let holdover = (720..740).contains(&minute);
        let bound_ns = match minute {
            361..=390 => {
                if minute == 390 {
                    append(event(390 * 60, Kind::Start, "version 0.1.0 on the counter tsc"));
                }
                continue;
            }
            _ if holdover => 40_000 + (minute - 719) as u64 * 20_000,
            _ => 15_000 + noise,
        };
        match minute {
            720 => append(event(719 * 60, Kind::Status, "holdover: no usable reply from a:123")),
            740 => append(event(739 * 60, Kind::Status, "synchronised: following a:123")),
            900 => append(event(899 * 60, Kind::HoldOff, "b:123 is held off: \"ahead\", by 2 ms")),
            1000 => append(event(999 * 60, Kind::Step, "the system clock\n   was to be stepped")),
            _ => Vec::new(),
        };
        within += i64::from(bound_ns <= 100_000);
        append(Line::Interval(Interval {
            to: at(minute * 60),
            for_ns: 60 * SECOND_NS,
            count: 7,
            status: if holdover { "holdover" } else { "synchronised" }.into(),
            bound_ns: Some(bound_ns),
            source: Some("a:123".into()),
            root_distance_ns: Some(1_200),
            by_system_clock: false,
        }));
    }
    within
}

#[test]
fn a_day_is_accounted_for() {
    let dir = Dir::new();
    let record = dir.join("audit");
    let within = day(Path::new(&record));
    let html = dir.join("report.html");
    let day = ["audit", "--record", &record, "--day", "2026-11-27"];
    let limits = ["--limit", "100us", "--limit", "1ms", "--html", &html];
    let text = truechimer(&[&day[..], &limits[..]].concat());
    assert_eq!(text.code, 0, "{text:?}");
    assert_eq!(text.err, format!("truechimer: report written to {html}\n"));
    for part in [
        "1 ms",
        "23 h 30 min 0 s",
        "97.916 %",
        "2026-11-27T06:00:00.000Z",
        "30 min 0 s",
        "holdover: no usable reply from a:123",
        "GPS",
        "the system clock was to be stepped",
        "is not signed",
        "last hash",
    ] {
        assert!(text.out.contains(part), "{part}: {}", text.out);
    }
    let page = std::fs::read_to_string(&html).unwrap();
    for part in ["Account of the clock", "Traceability", "is held off: &quot;ahead&quot;", "GPS"] {
        assert!(page.contains(part), "{part}");
    }

    let json = truechimer(&[&day[..], &["--limit", "100us", "--json"]].concat());
    let [value] = &json.documented()[..] else { panic!("{json:?}") };
    assert_eq!(value["length_ns"], 86_400 * SECOND_NS);
    assert_eq!(value["bounded_ns"], 84_600 * SECOND_NS);
    assert_eq!(value["limits"][0]["within_ns"], within * 60 * SECOND_NS);
    assert_eq!(value["gaps"][0]["time_ns"], 1_800 * SECOND_NS);
    assert_eq!(value["worst_bound_ns"], 440_000);
    assert_eq!(value["events"].as_array().unwrap().len(), 6);
    assert_eq!(value["events"][5]["step_ns"], -1_500_000);
    // Until nobody looked any more.
    assert_eq!(value["sources"][0]["time_ns"], 6 * 3_600 * SECOND_NS);

    let csv = truechimer(&[&day[..], &["--csv"]].concat());
    let rows: Vec<&str> = csv.out.lines().collect();
    assert_eq!(rows.len(), 1 + 1410 + 1, "the header, the intervals, the gap");
    let gap =
        "2026-11-27T06:00:00.000000000Z,2026-11-27T06:30:00.000000000Z,1800000000000,no-record,,";
    assert_eq!(rows[361], gap);

    // Any other span, and the end of the record.
    let span = ["--from", "2026-11-27T05:59", "--to", "2026-11-27T06:01", "--json"];
    let json = truechimer(&[&["audit", "--record", &record], &span[..]].concat()).json();
    assert_eq!(json["bounded_ns"], 60 * SECOND_NS);
    let json = truechimer(&["audit", "--record", &record, "--json"]).json();
    assert_eq!(
        (&json["to"], &json["length_ns"]),
        (&"2026-11-28T00:00:00.000000000Z".into(), &(86_400 * SECOND_NS).into())
    );
}

/// A record of a daemon that runs, or ran, to this minute: it lacks the interval that is not over.
#[test]
fn the_interval_that_is_not_over_is_named() {
    let dir = Dir::new();
    let record = dir.join("audit");
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let begin = Time(i64::try_from(since.as_nanos()).unwrap() - SECOND_NS);
    let limits = Limits { total_bytes: 10_000_000 };
    let (mut writer, _) = Writer::open(Path::new(&record), limits, "0.1.0").unwrap();
    let event = |at, kind| {
        let (text, bound_ns, step_ns) = (String::new(), None, None);
        let (count, by_system_clock, torn, interval_ns) = (9, true, None, None);
        Line::Event(Event {
            at,
            count,
            kind,
            text,
            bound_ns,
            by_system_clock,
            step_ns,
            torn,
            interval_ns,
        })
    };
    writer.append(&event(begin, Kind::Start)).unwrap();
    truechimer(&["audit", "--record", &record])
        .assert_error(&["no interval yet", "when it is over"]);
    let interval = Interval {
        to: begin,
        for_ns: 2_000_000,
        count: 7,
        status: "unknown".into(),
        bound_ns: None,
        source: None,
        root_distance_ns: None,
        by_system_clock: true,
    };
    writer.append(&Line::Interval(interval)).unwrap();
    let html = dir.join("report.html");
    let running = truechimer(&["audit", "--record", &record, "--html", &html]);
    let told = "not yet       the interval that began at ";
    assert!(running.out.contains(told) && running.out.contains("none held so far"), "{running:?}");
    assert!(std::fs::read_to_string(&html).unwrap().contains("is in the record when it is over"));
    let json = truechimer(&["audit", "--record", &record, "--json"]);
    assert_eq!(json.documented()[0]["unfinished_from"], begin.to_string());
    writer.append(&event(begin, Kind::Stop)).unwrap();
    let ended = truechimer(&["audit", "--record", &record]);
    assert!(!ended.out.contains("not yet") && ended.out.contains("none held at any"), "{ended:?}");
}

/// Record of a daemon that began two minutes ago, with an interval of a second a minute ago as its last; and
/// that time.
fn open_record(record: &str) -> (Writer, Time) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = i64::try_from(since.as_nanos()).unwrap();
    let (begin, last) = (Time(now - 120 * SECOND_NS), Time(now - 60 * SECOND_NS));
    let limits = Limits { total_bytes: 10_000_000 };
    let (mut writer, _) = Writer::open(Path::new(record), limits, "0.1.0").unwrap();
    let start = Event {
        at: begin,
        count: 9,
        kind: Kind::Start,
        text: String::new(),
        bound_ns: None,
        by_system_clock: true,
        step_ns: None,
        torn: None,
        interval_ns: Some(SECOND_NS as u64),
    };
    writer.append(&Line::Event(start)).unwrap();
    let interval = Interval {
        to: last,
        for_ns: 60 * SECOND_NS,
        count: 7,
        status: "synchronised".into(),
        bound_ns: Some(1_000),
        source: None,
        root_distance_ns: None,
        by_system_clock: false,
    };
    writer.append(&Line::Interval(interval)).unwrap();
    (writer, last)
}

/// The span that was asked for stays; what a daemon is at is not judged, and what none is at is no record at once.
#[test]
fn the_end_of_a_span_is_judged_by_whether_a_daemon_is_at_it() {
    let dir = Dir::new();
    let record = dir.join("audit");
    let (writer, last) = open_record(&record);
    let at = |second: i64| Time(last.0 + second * SECOND_NS).to_string();
    let (from, to) = (at(-30), at(30));
    let ask = ["audit", "--record", &record, "--from", &from, "--to", &to, "--limit", "1ms"];
    // Long overdue, and nobody knows what it will say.
    let running = truechimer(&ask);
    let judged = "30.000 s, 50.000 % of the span; shares are of that";
    for part in [judged, "(60.000 s)", "is overdue: a daemon has the record open"] {
        assert!(running.out.contains(part), "{part}: {running:?}");
    }
    let json = truechimer(&[&ask[..], &["--json"]].concat());
    let value = &json.documented()[0];
    assert_eq!((&value["from"], &value["to"]), (&from.as_str().into(), &to.as_str().into()));
    assert_eq!(value["unfinished_from"], at(0));
    assert_eq!(value["unfinished_why"], "overdue");
    assert_eq!(value["judged_ns"], 30 * SECOND_NS);
    assert_eq!((&value["limits"][0]["share"], &value["gaps"]), (&1.0.into(), &[(); 0][..].into()));
    let csv = truechimer(&[&ask[..], &["--csv"]].concat());
    let row = format!("{},{to},30000000000,not-yet,,", at(0));
    assert_eq!(csv.out.lines().last(), Some(row.as_str()));
    // Of the rest alone nothing is known.
    let rest = at(1);
    truechimer(&["audit", "--record", &record, "--from", &rest, "--to", &to])
        .assert_error(&["says nothing yet", "overdue"]);

    // Ended, and killed: nobody has its lock, even if the file is there.
    drop(writer);
    let lock = Path::new(&record).join("record.lock");
    for killed in [false, true] {
        if killed {
            std::fs::write(&lock, "").unwrap();
        }
        let json = truechimer(&[&ask[..], &["--json"]].concat()).json();
        assert_eq!((&json["unfinished_from"], &json["to"]), (&().into(), &to.as_str().into()));
        assert_eq!(
            (&json["judged_ns"], &json["length_ns"]),
            (&json["length_ns"], &(60 * SECOND_NS).into())
        );
        assert_eq!(json["gaps"][0]["time_ns"], 30 * SECOND_NS);
        assert_eq!(json["limits"][0]["share"], 0.5);
    }
    // Without a span the report ends with the record, and says that nothing came since.
    let ended = truechimer(&["audit", "--record", &record]);
    let silent = "nothing was written since ";
    assert!(ended.out.contains(silent), "{ended:?}");
    assert!(ended.out.contains(": no daemon has the record open"), "{ended:?}");
    let json = truechimer(&["audit", "--record", &record, "--json"]);
    assert_eq!(json.documented()[0]["silent_since"], at(0));
    let asked = truechimer(&ask);
    assert!(!asked.out.contains(silent), "{asked:?}");
    std::fs::remove_file(&lock).unwrap();
    let (writer, _) =
        Writer::open(Path::new(&record), Limits { total_bytes: 10_000_000 }, "0.1.0").unwrap();
    let running = truechimer(&["audit", "--record", &record]);
    assert!(!running.out.contains(silent), "{running:?}");
    drop(writer);
    // A day that is not over.
    let today = truechimer(&["audit", "--record", &record, "--day", "today"]);
    assert!(today.out.contains("is to come") && today.out.contains("of the span"), "{today:?}");
}

#[test]
fn how_long_a_source_had_each_status_can_be_read() {
    let dir = Dir::new();
    let record = dir.join("audit");
    day(Path::new(&record));
    let limits = Limits { total_bytes: 10_000_000 };
    let (mut writer, _) = Writer::open(Path::new(&record), limits, "0.1.0").unwrap();
    let mut append = |line: Line| writer.append(&line).unwrap();
    let source = |status: &str, reason: Option<&str>| SourceState {
        name: "c, too:123".into(),
        address: Some("192.0.2.3:123".into()),
        status: status.into(),
        stratum: Some(2),
        reference: None,
        root_distance_ns: Some(7),
        reason: reason.map(Into::into),
    };
    let interval = |second: i64| {
        Line::Interval(Interval {
            to: at(second),
            for_ns: 60 * SECOND_NS,
            count: 7,
            status: "synchronised".into(),
            bound_ns: Some(9),
            source: None,
            root_distance_ns: None,
            by_system_clock: false,
        })
    };
    let begin = 86_400;
    for (minute, status, reason) in [
        (0, "selected", None),
        (1, "truechimer", Some("stale")),
        (2, "unreachable", Some("no-reply")),
        (3, "unreachable", Some("no-reply")),
        (4, "selected", None),
    ] {
        let (at, list) = (at(begin + minute * 60), vec![source(status, reason)]);
        append(Line::Sources(Sources { at, list }));
        append(interval(begin + minute * 60 + 60));
    }
    let span = ["audit", "--record", &record, "--from", "2026-11-28", "--to", "2026-11-28T00:05"];
    let text = truechimer(&span);
    let told = "selected 2 min 0 s, truechimer (stale) 60.000 s, unreachable (no-reply) 2 min 0 s";
    assert!(text.out.contains(told), "{text:?}");
    let json = truechimer(&[&span[..], &["--json"]].concat());
    let sources = &json.documented()[0]["sources"];
    let row = sources.as_array().unwrap().iter().find(|row| row["name"] == "c, too:123").unwrap();
    assert_eq!(row["statuses"], serde_json::json!(["selected", "truechimer", "unreachable"]));
    let stale = serde_json::json!({
        "status": "truechimer", "reason": "stale", "time_ns": 60 * SECOND_NS,
    });
    assert_eq!(row["times"][1], stale);
    let csv = truechimer(&[&span[..], &["--csv=sources"]].concat());
    let rows: Vec<&str> = csv.out.lines().filter(|row| row.contains("c, too")).collect();
    assert_eq!(rows.len(), 4, "{rows:?}");
    let away = "2026-11-28T00:02:00.000000000Z,2026-11-28T00:04:00.000000000Z,120000000000,\"c, too:123\",\
                unreachable,no-reply,192.0.2.3:123,2,,7";
    assert_eq!(rows[2], away);
    assert_eq!(csv.out.lines().next().unwrap().split(',').count(), 10);
}

#[test]
fn the_page_works_in_a_browser_and_prints() {
    let Some(browser) = headless::browser() else { return };
    let folder = headless::Folder::new("audit");
    let record = folder.0.join("audit");
    day(&record);
    let [record, html] =
        [record, folder.0.join("page.html")].map(|path| path.display().to_string());
    let day = ["audit", "--record", &record, "--day", "2026-11-27", "--limit", "100us"];
    let made = truechimer(&[&day[..], &["--html", &html]].concat());
    assert_eq!(made.code, 0, "{made:?}");
    headless::looks_right(&browser, &folder, "page.html", 0);
    let document = headless::open(&browser, &folder, "page.html", 1200, &["--dump-dom"]);
    assert_eq!(document.matches("<canvas").count(), 1, "the bound over time is drawn");
    assert!(document.contains("is held off: \"ahead\"") && !document.contains("<b>"));
    // On paper nothing is cut off: every event and the last hash are there, over several pages.
    let paper = folder.0.join("paper.pdf");
    let print = format!("--print-to-pdf={}", paper.display());
    headless::open(&browser, &folder, "page.html", 1200, &[&print]);
    let paper = std::fs::read(&paper).unwrap();
    assert!(paper.starts_with(b"%PDF-"), "{} bytes", paper.len());
    let text = String::from_utf8_lossy(&paper);
    let pages = text.matches("/Type /Page\n").count();
    assert!((2..=8).contains(&pages), "{pages} pages");
}

/// The page alone goes to standard output for `-`; what ends before it is made leaves no file.
#[test]
fn a_page_goes_out_or_is_whole() {
    let dir = Dir::new();
    let record = dir.join("audit");
    day(Path::new(&record));
    let ask = ["audit", "--record", &record, "--day", "2026-11-27", "--html"];
    let page = truechimer(&[&ask[..], &["-"]].concat());
    assert!(page.out.starts_with("<!DOCTYPE html>") || page.out.starts_with("<!doctype html>"));
    assert!(page.out.trim_end().ends_with("</html>"));
    truechimer(&[&ask[..], &["-", "--json"]].concat()).assert_error(&["--html -", "name a file"]);
    let file = dir.join("report.html");
    truechimer(&["audit", "--record", &record, "--day", "1999-13-01", "--html", &file])
        .assert_error(&["must be a day"]);
    assert!(!Path::new(&file).exists());
}

#[test]
fn a_change_in_the_record_shows() {
    let dir = Dir::new();
    let record = dir.join("audit");
    day(Path::new(&record));
    let verify = ["audit", "--record", &record, "--verify"];
    let whole = truechimer(&verify);
    assert_eq!(whole.code, 0, "{whole:?}");
    assert!(whole.out.contains("chain         whole: ") && whole.out.contains("is not signed"));
    let json = truechimer(&[&verify[..], &["--json"]].concat());
    let hash = json.documented()[0]["last_hash"].as_str().unwrap().to_owned();
    let found = truechimer(&[&verify[..], &["--hash", &hash]].concat());
    assert!(found.code == 0 && found.out.contains("found: nothing before it"), "{found:?}");

    let file = Path::new(&record).join("record-000001.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    // A bad minute is made a good one.
    std::fs::write(&file, text.replace("\"bound_ns\":440000", "\"bound_ns\":44000")).unwrap();
    let broken = truechimer(&verify);
    assert_eq!(broken.code, 1, "{broken:?}");
    assert!(broken.out.contains("BROKEN at 1 place"), "{}", broken.out);
    assert!(broken.out.contains("record-000001.jsonl:"), "{}", broken.out);
    let report = truechimer(&["audit", "--record", &record]);
    assert!(report.code == 1 && report.out.contains("BROKEN"), "{report:?}");
    // What it said is left out, under a heading of its own: that was no daemon's doing.
    let day = ["audit", "--record", &record, "--day", "2026-11-27"];
    let report = truechimer(&day);
    for part in [
        "broken        60.000 s of lines that do not fit",
        "\nBroken (lines there",
        "no record     30 min 0 s",
    ] {
        assert!(report.out.contains(part), "{part}: {report:?}");
    }
    let json = truechimer(&[&day[..], &["--json"]].concat()).json();
    let gap = |n: usize| (&json["gaps"][n]["broken"], &json["gaps"][n]["time_ns"]);
    assert_eq!(gap(0), (&false.into(), &(1_800 * SECOND_NS).into()));
    assert_eq!(gap(1), (&true.into(), &(60 * SECOND_NS).into()));
    let csv = truechimer(&[&day[..], &["--csv"]].concat());
    assert!(csv.out.contains(",60000000000,broken,,\n"), "{csv:?}");
    let html = dir.join("report.html");
    truechimer(&[&day[..], &["--html", &html]].concat());
    assert!(std::fs::read_to_string(&html).unwrap().contains("Broken: lines there do not fit"));

    // Its end is taken away, which only the hash that was kept shows.
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    std::fs::write(&file, lines[..lines.len() - 9].concat()).unwrap();
    assert_eq!(truechimer(&verify).code, 0);
    let lost = truechimer(&[&verify[..], &["--hash", &hash]].concat());
    assert!(lost.code == 1 && lost.out.contains("NOT FOUND"), "{lost:?}");
}

#[test]
fn what_is_wrong_is_named_with_its_mend() {
    let dir = Dir::new();
    let none = dir.join("none");
    truechimer(&["audit", "--record", &none]).assert_error(&[&none, "[audit]", "--record"]);
    let empty = dir.join("");
    truechimer(&["audit", "--record", &empty]).assert_error(&["no record here", "--record"]);
    let record = dir.join("audit");
    day(Path::new(&record));
    for (arguments, says) in [
        (&["--limit", "0"][..], &["--limit", "more than zero"][..]),
        (&["--limit", "5"], &["--limit", "unit"]),
        (&["--limit", "2e9s"], &["--limit"]),
        (&["--day", "tomorrow"], &["--day tomorrow", "2026-11-27"]),
        (&["--day", "2026-02-30"], &["--day 2026-02-30"]),
        (&["--from", "noon"], &["--from", "2026-11-27T09:30"]),
        (&["--from", "2026-11-28", "--to", "2026-11-27"], &["is not before"]),
        (&["--from", "2030-01-01"], &["the record ends at"]),
        (&["--hash", "beef"], &["--hash", "64 digits"]),
        (&["--verify", "--day", "today"], &["--verify", "--day"]),
        (
            &["--html", "/nonexistent/x.html"],
            &[
                "/nonexistent/x.html: No such file",
                "is there a directory /nonexistent? Make it first",
            ],
        ),
    ] {
        let told = truechimer(&[&["audit", "--record", &record], arguments].concat());
        assert_eq!((told.code, told.out.as_str()), (2, ""), "{told:?}");
        assert!(says.iter().all(|part| told.err.contains(part)), "{says:?}: {told:?}");
    }
    dir.write("audit/record-000002.jsonl", b"hello\n");
    truechimer(&["audit", "--record", &record]).assert_error(&["000002", "not a file of a record"]);
    dir.write("audit/record-000002.jsonl", b"{\"record\":{\"format\":9}}\n");
    truechimer(&["audit", "--record", &record]).assert_error(&["format 9", "newer one"]);
}
