//! `truechimer-lab simulate` as its users have it.

use crate::headless::{Folder, browser, headed, looks_right};
use crate::support::{Dir, lab};

use serde_json::Value;
use truechimer_estimators::TABLE;

fn rows(arguments: &[&str]) -> Vec<Value> {
    let answer = lab(arguments);
    assert_eq!((answer.code, answer.err.as_str()), (0, ""), "{answer:?}");
    answer.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_same_seed_gives_the_same_and_another_one_does_not() {
    let names: Vec<&str> = TABLE.iter().map(|kind| kind.name()).collect();
    let with = |seed: &str| {
        let all = ["simulate", "lan", "wan", "--hours", "2", "--json", "--estimator"];
        lab(&[&all[..], &[&names.join(","), "--seed", seed]].concat()).out
    };
    let first = with("3");
    assert_eq!(first.lines().count(), 2 * names.len());
    assert_eq!(first, with("3"));
    assert_ne!(first, with("4"));
}

#[test]
fn the_help_has_every_estimator_of_the_table() {
    for command in ["simulate", "replay"] {
        let help = lab(&[command, "--help"]).out;
        for kind in TABLE {
            let line = format!("- {}: ", kind.name());
            assert!(help.lines().any(|l| l.trim_start().starts_with(&line)), "{help}");
        }
    }
}

#[test]
fn seeds_are_pooled_whatever_runs_side_by_side() {
    let with = |jobs: &str| {
        let all = ["simulate", "lan", "--hours", "1", "--seeds", "5", "--json", "--jobs", jobs];
        rows(&all).remove(0)
    };
    let one = with("1");
    assert_eq!(one, with("3"));
    assert_eq!(
        (&one["runs"], &one["scenario"], &one["poll_s"]),
        (&5.into(), &"lan".into(), &16.into())
    );
    let inside = &one["inside_bound"];
    assert_eq!((&inside["share"], &inside["outside"]), (&1.0.into(), &0.into()), "{one}");
    // Five hours, each but for the first moment.
    assert!(inside["seconds"].as_u64().unwrap() > 5 * 3590, "{inside}");
    let rms = one["rms_us"].as_f64().unwrap();
    assert!(rms > 0.1 && rms < 4.0, "{one}");
}

#[test]
fn the_table_fits_a_terminal_and_the_exit_status_is_a_verdict() {
    let good = lab(&["simulate", "lan", "--hours", "1", "--estimator", "ours,published"]);
    assert_eq!(good.code, 0, "{good:?}");
    assert!(good.out.lines().all(|line| line.chars().count() <= 80), "{}", good.out);
    let ours = good.out.lines().find(|line| line.starts_with("ours ")).unwrap();
    assert!(ours.contains(" 100 "), "{ours}");
    // An oscillator far beyond what the bound allows for: it breaks, and nobody promised.
    let dir = Dir::new();
    let wild = lab(&["simulate", "lan", "--hours", "1", "--print"]).out;
    let (before, rest) = wild.split_once("walk-per-root-s = ").unwrap();
    let (_, after) = rest.split_once('\n').unwrap();
    let file = dir.write("wild.toml", format!("{before}walk-per-root-s = 1e-6\n{after}"));
    let bad = lab(&["simulate", &file]);
    assert_eq!(bad.code, 0, "{bad:?}");
    assert!(bad.out.contains("outside the bound in"), "{}", bad.out);
    assert!(bad.out.contains("the oscillator walks"), "{}", bad.out);
}

#[test]
fn what_a_shortened_run_misses_is_said() {
    let short = lab(&["simulate", "outage", "--hours", "1"]);
    assert!(short.out.contains("2 things that it is about happen after its end"), "{}", short.out);
    let whole = lab(&["simulate", "lan", "--hours", "1"]);
    assert!(!whole.out.contains("note:"), "{}", whole.out);
    let mute = lab(&["simulate", "lan", "--hours", "1", "--print"]).out;
    let dir = Dir::new();
    let file = dir.write("mute.toml", mute.replace("loss = 0.0", "loss = 1.0"));
    let mute = lab(&["simulate", &file]);
    assert!(mute.out.contains("never had anything to say"), "{}", mute.out);
}

#[test]
fn every_reading_can_be_had() {
    let dir = Dir::new();
    let file = dir.join("lan.csv");
    assert_eq!(lab(&["simulate", "lan", "--hours", "1", "--csv", &file]).code, 0);
    let text = std::fs::read_to_string(&file).unwrap();
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("at_s,status,error_ns,bound_ns"));
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert!(rows.len() >= 3599 && rows.iter().all(|row| row.len() == 7));
    let number = |text: &str| text.parse::<f64>().unwrap();
    assert!(rows[100..].iter().all(|row| number(row[2]).abs() < number(row[3])));
}

#[test]
fn a_scenario_can_be_printed_changed_and_run() {
    let dir = Dir::new();
    let printed = lab(&["simulate", "wan", "--hours", "1", "--print"]);
    assert_eq!(printed.code, 0, "{printed:?}");
    let file = dir.write("mine.toml", &printed.out);
    let as_named = ["simulate", "wan", "--hours", "1", "--json"];
    assert_eq!(rows(&["simulate", &file, "--json"]), rows(&as_named));
    // Its delays as somebody recorded them, in a file beside it.
    dir.write("delays.txt", "# s\n0.018\n0.0185\n0.019\n0.0181\n");
    let law = "law = { recorded = { file = \"delays.txt\" } }";
    let own = format!(
        "name = \"own\"\nhours = 1\nwarm-up-hours = 0.2\n[[server]]\nname = \"a\"\n\
         [[server.forward.queue]]\n{law}\n[[server.backward.queue]]\n{law}\n"
    );
    let file = dir.write("own.toml", own.as_str());
    let row = rows(&["simulate", &file, "--json"]).remove(0);
    assert!(row["bound_median_us"].as_f64().unwrap() > 18_000.0, "{row}");
    dir.write("delays.txt", "0.018\n-1\n");
    lab(&["simulate", &file]).assert_error(&["own.toml", "delays.txt", "line 2"]);
}

#[test]
fn stamps_go_to_replay_and_give_the_same_clock() {
    let dir = Dir::new();
    let file = dir.join("lan.stamps");
    let simulated = rows(&["simulate", "lan", "--hours", "3", "--json", "--stamps", &file]);
    let replayed = lab(&["replay", &file, "--json", "--summary"]).json();
    let reference = &replayed["summary"]["reference"];
    assert_eq!(reference["inside_bound"], 1.0, "{replayed}");
    // What the file says of its stamps holds for the worst of them.
    for scenario in ["server-wander", "user-stamps"] {
        let file = dir.join(scenario);
        rows(&["simulate", scenario, "--hours", "4", "--json", "--stamps", &file]);
        let replayed = lab(&["replay", &file, "--json", "--summary"]).json();
        assert_eq!(replayed["summary"]["reference"]["inside_bound"], 1.0, "{replayed}");
    }
    // At the replies alone, and from the beginning: not the same number, but the same clock.
    let (of_replay, of_simulation) = (&reference["error"]["rms_us"], &simulated[0]["rms_us"]);
    let (a, b) = (of_replay.as_f64().unwrap(), of_simulation.as_f64().unwrap());
    assert!((a / b).ln().abs() < 1.0, "{a} and {b}");
}

/// The page in that folder, which is right in a browser too.
fn looked(folder: &Folder, empty: usize) -> String {
    let page = std::fs::read_to_string(folder.0.join("page.html")).unwrap();
    headed(&page, &["host", "time"]);
    if let Some(browser) = browser() {
        looks_right(&browser, folder, "page.html", empty);
    }
    page
}

#[test]
fn a_report_of_several_scenarios_looks_right() {
    let folder = Folder::new("several");
    let page = folder.0.join("page.html").display().to_string();
    let two =
        ["simulate", "lan", "wan", "--hours", "0.5", "--estimator", "ours", "--report", &page];
    assert_eq!(lab(&two).code, 0);
    looked(&folder, 0);
}

#[test]
fn a_report_is_one_page() {
    let folder = Folder::new("simulate");
    let page = folder.0.join("page.html").display().to_string();
    let both = ["simulate", "lan", "--hours", "1", "--estimator", "ours,pi", "--report", &page];
    assert_eq!(lab(&both).code, 0);
    let html = looked(&folder, 0);
    assert!(html.contains("truechimer-lab simulate lan --hours 1 --estimator ours,pi --report"));
    assert!(!html.contains("src=\"http") && !html.contains("href=\"http"), "it loads nothing");
    let case = ["simulate", "case", "--hours", "0.6", "--report", &page];
    let case = lab(&case);
    assert_eq!(case.code, 0, "{case:?}");
    assert!(case.out.lines().all(|line| line.chars().count() <= 80));
    assert!(case.err.ends_with(&format!("report written to {page}\n")), "{}", case.err);
    let html = looked(&folder, 0);
    for title in ["A quiet LAN", "Congestion and a busy host", "Near and far, fast and slow"] {
        assert!(html.contains(title), "{title}");
    }
}

/// Kept figures agree with themselves, and not with those of a clock that is worse.
#[test]
fn kept_figures_are_compared() {
    let dir = Dir::new();
    let study = ["simulate", "figures", "--only", "growing-queue-both", "--seeds", "2"];
    let kept = lab(&study);
    assert_eq!((kept.code, kept.out.lines().count()), (0, 1), "{kept:?}");
    assert_eq!(kept.err, "", "two runs are soon done");
    let file = dir.write("kept.jsonl", &kept.out);
    let beside = |more: &[&str]| lab(&[&study[..], &["--against", &file], more].concat());
    let same = beside(&[]);
    assert_eq!(same.code, 0, "{same:?}");
    assert!(same.out.contains("growing-queue-both: bound held, %"), "{same:?}");
    assert!(same.out.contains("1.000  1.000 to 1.000") && !same.out.contains("NOT MET\n"));
    let worse = beside(&["--estimator", "published"]);
    assert_eq!(worse.code, 1, "{worse:?}");
    assert!(worse.out.starts_with("published beside ours\n"), "{worse:?}");
    assert!(worse.out.contains("growing-queue-both: RMS, µs") && worse.out.contains("NOT MET\n"));
    let markdown = beside(&["--markdown"]).out;
    assert!(markdown.contains("|  | was | is | ratio | 95 % |  |"), "{markdown}");
    let row = beside(&["--json"]).out;
    let row: Value = serde_json::from_str(&row).unwrap();
    assert_eq!(row["figures"][0]["scenario"], "growing-queue-both");
    assert_eq!(row["figures"][0]["met"], true);
}

#[test]
fn mistakes_are_named() {
    let dir = Dir::new();
    let page = dir.join("no/such/place.html");
    let typo = dir.write("typo.toml", "name = \"x\"\nhuors = 1\n[[server]]\nname = \"a\"\n");
    let absurd = dir.write("absurd.toml", "name = \"x\"\npoll = 0\n[[server]]\nname = \"a\"\n");
    let broken = dir.write("broken.toml", "name = \n");
    for (arguments, says) in [
        (&["simulate", "lam"][..], &["`lam`", "did you mean `lan`"][..]),
        (&["simulate", "nothing-like-it"], &["nothing-like-it", "--list"]),
        (&["simulate", "absent.toml"], &["absent.toml", "No such file"]),
        (&["simulate", &typo], &["typo.toml", "line 2", "huors", "hours"]),
        (&["simulate", &absurd], &["absurd.toml", "line 2", "poll", "1024"]),
        (&["simulate", &broken], &["broken.toml", "line 1"]),
        (&["simulate", "lan", "case"], &["case", "by itself"]),
        (&["simulate", "case"], &["--report"]),
        (&["simulate", "case", "--poll", "16", "--report", "x"], &["--poll", "the study"]),
        (&["simulate", "lan", "--seeds", "10000"], &["lan", "GB", "fewer"]),
        (&["simulate", "lan", "wan", "--stamps", "x"], &["--stamps", "one scenario"]),
        (&["simulate", "lan", "--hours", "0.1", "--report", &page], &["place.html"]),
        (&["bench", "estimator", "--scenario", "lam"], &["`lam`", "did you mean `lan`"]),
        (&["simulate", "figures", "--only", "lam"], &["--only", "--list"]),
        (&["simulate", "figures", "--against", "absent"], &["absent", "No such file"]),
        (&["simulate", "figures", "--against", &typo], &["typo.toml", "line 1"]),
    ] {
        lab(arguments).assert_error(says);
    }
    for (arguments, says) in [
        (&["simulate", "lan", "--estimator", "our"][..], "ours"),
        (&["simulate", "lan", "--hours", "0"], "0.01"),
        (&["simulate", "lan", "--poll", "2000"], "1024"),
        (&["simulate"], "SCENARIO"),
        (&["simulate", "lan", "--seed", "1", "--seeds", "2"], "--seed"),
    ] {
        let answer = lab(arguments);
        assert_eq!(answer.code, 2, "{answer:?}");
        assert!(answer.err.contains(says), "{answer:?}");
    }
}

#[test]
fn a_drawn_day_is_the_same_by_itself_and_can_be_replayed() {
    let all = ["simulate", "drawn", "--hours", "2", "--technology", "docsis", "--json"];
    // Two days decide no goal.
    let two = rows(&[&all[..], &["--days", "2"]].concat());
    let (summary, days) = two.split_last().unwrap();
    assert_eq!(days.len(), 8, "two days, four estimators");
    let goals = summary["goals"].as_array().unwrap();
    assert!(goals.len() > 3 && goals.iter().all(|goal| goal["met"].is_null()), "{goals:?}");
    for (row, estimator) in days.iter().zip(["ours", "published", "ntp-pll", "pi"]) {
        assert_eq!((&row["technology"], &row["estimator"]), (&"docsis".into(), &estimator.into()));
    }
    assert_eq!(days[0]["outside_s"], 0);
    let day = days[4]["day"].to_string();
    let by_itself = ["simulate", "drawn", "--hours", "2", "--day", &day, "--json"];
    assert_eq!(rows(&by_itself), days[4..]);

    let dir = Dir::new();
    let file = dir.join("day.stamps");
    let shown = lab(&[&by_itself[..5], &["1", "--stamps", &file]].concat());
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(shown.out.contains("MAP cycle") && shown.out.contains("ours "), "{shown:?}");
    assert_eq!(lab(&["replay", &file]).code, 0);
}

#[test]
fn an_attack_is_the_same_by_itself_and_can_be_written_down() {
    let two = ["simulate", "attacks", "--kind", "forged", "--attacks", "2", "--json"];
    let two = rows(&two);
    assert_eq!(
        (two.len(), &two[0]["kind"], &two[1]["outside_s"]),
        (2, &"forged".into(), &0.into())
    );
    let number = two[1]["attack"].to_string();
    let one = ["simulate", "attacks", "--attack", &number];
    assert_eq!(rows(&[&one[..], &["--json"]].concat()), two[1..]);
    let shown = lab(&one);
    assert!(shown.code == 0 && shown.out.contains("model of chrony"), "{shown:?}");
    let dir = Dir::new();
    let [file, kept] = ["attack.toml", "rows.jsonl"].map(|name| dir.join(name));
    std::fs::write(&file, lab(&[&one[..], &["--print"]].concat()).out).unwrap();
    assert_eq!(lab(&["simulate", &file]).code, 0);
    let lines: Vec<String> = two.iter().map(ToString::to_string).collect();
    std::fs::write(&kept, lines.join("\n")).unwrap();
    let page = lab(&["simulate", "attacks", "--rows", &kept, "--markdown"]);
    let met = "0 of 2 attacks outside";
    assert!(page.out.contains(met) && page.out.contains("cannot judge"), "{page:?}");
    std::fs::write(&kept, "{}").unwrap();
    let wrong = lab(&["simulate", "attacks", "--rows", &kept]);
    assert!(wrong.code == 2 && wrong.err.contains("line 1"), "{wrong:?}");
}

#[test]
fn a_part_of_the_model_is_left_out_on_drawn_days() {
    let whole = ["simulate", "drawn", "--hours", "3", "--days", "1", "--json"];
    let part = [&whole[..], &["--without", "blurred floors", "--without", "slow queues"]].concat();
    let ([ours, others @ .., _], [less, same @ .., about]) = (&rows(&whole)[..], &rows(&part)[..])
    else {
        panic!("rows of a day, and a summary");
    };
    assert_ne!(ours["rms_us"], less["rms_us"]);
    assert_eq!(others, same, "only ours has such parts");
    assert!(about.to_string().contains("lacks parts here: blurred floors, slow queues"), "{about}");
}

#[test]
fn what_drawn_days_cannot_be_is_said() {
    for (arguments, says) in [
        (&["lan", "--days", "3"][..], &["--days"][..]),
        (&["drawn", "--technology", "isdn"], &["isdn", "docsis"]),
        (&["drawn", "--seeds", "3"], &["--seeds", "--seed"]),
        (&["drawn", "--stamps", "x"], &["--stamps", "--day <N>"]),
        (&["drawn", "--day", "1", "--technology", "lte"], &["--technology", "day 1", "docsis"]),
        (&["lan", "drawn"], &["drawn", "run it by itself"]),
        (&["drawn", "--hours", "300"], &["--hours", "240"]),
        (&["drawn", "--without", "wheels"], &["wheels", "hidden floors"]),
        (&["drawn", "--estimator", "pi", "--without", "slow queues"], &["--without", "'ours'"]),
    ] {
        let answer = lab(&[&["simulate"], arguments].concat());
        assert_eq!((answer.code, answer.out.as_str()), (2, ""), "{answer:?}");
        assert!(says.iter().all(|part| answer.err.contains(part)), "{answer:?}");
    }
}

#[test]
fn likely_intervals_are_a_table_of_coverage() {
    let study = ["simulate", "likely"];
    let told = lab(&[&study[..], &["--days", "1", "--only", "drawn"]].concat());
    assert_eq!(told.code, 0, "{told:?}");
    let row = told.out.lines().find(|line| line.starts_with("| ethernet |")).unwrap();
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    assert_eq!((cells[2], &cells[4..7]), ("24", &["0"; 3][..]), "a day, all of it inside: {row}");
    let narrower: f64 = cells[8].trim_end_matches(" ×").parse().unwrap();
    assert!(narrower > 1.0, "{row}");
    assert!(!told.out.contains("wrong"), "{}", told.out);

    for (arguments, says) in [
        (&["likely", "--only", "drawing"][..], &["--only", "wrong-servers"][..]),
        (&["likely", "--days", "0"], &["--days"]),
        (&["lan", "likely"], &["likely", "run it by itself"]),
        (&["bound", "--poll", "4"], &["--poll", "'bound'"]),
    ] {
        let answer = lab(&[&["simulate"], arguments].concat());
        assert_eq!((answer.code, answer.out.as_str()), (2, ""), "{answer:?}");
        assert!(says.iter().all(|part| answer.err.contains(part)), "{answer:?}");
    }
}

#[test]
fn wrong_servers_are_tables_rows_and_single_runs() {
    let study = ["simulate", "wrong-servers"];
    let few = ["--only", "step-10ms,oscillator-30ppm", "--path", "lan", "--seeds", "2"];
    let tables = lab(&[&study[..], &few].concat());
    assert_eq!((tables.code, tables.err.as_str()), (0, ""), "{tables:?}");
    let held = tables.out.lines().find(|l| l.starts_with("| step-10ms | lan | 100 | 100 |"));
    assert!(held.is_some(), "{}", tables.out);
    assert!(tables.out.contains("### oscillator") && !tables.out.contains("### ramp"));

    let dial = ["--accept-step-after", "3600s,0"];
    let dialled = lab(&[&study[..], &few, &dial].concat()).out;
    assert!(dialled.contains("| what | path | 0 s | 1 h |"), "{dialled}");

    let json = lab(&[&study[..], &few, &["--json"]].concat());
    let row: Value = serde_json::from_str(json.out.lines().next().unwrap()).unwrap();
    assert_eq!((&row["case"], &row["held"]["count"]), (&"step-10ms".into(), &2.into()), "{row}");

    let dir = Dir::new();
    let before = dir.write("before.json", json.out.clone());
    let same = lab(&[&study[..], &few, &["--against", &before]].concat());
    assert_eq!(same.code, 0, "{same:?}");
    assert!(same.out.starts_with("Nothing has changed."), "{}", same.out);
    let better = json.out.replace("\"held_long\":{\"count\":2", "\"held_long\":{\"count\":0");
    assert_ne!(better, json.out);
    let before = dir.write("better.json", better);
    let worse = lab(&[&study[..], &few, &["--against", &before]].concat());
    assert!(worse.out.contains("held off for long while right, %"), "{}", worse.out);

    let one = ["--case", "step-10ms", "--path", "lan", "--seed", "3"];
    let shown = lab(&[&study[..], &one].concat()).out;
    assert!(shown.contains("held off: server-step, +") && shown.contains("used again"), "{shown}");
    let stamps = dir.join("run.stamps");
    assert_eq!(lab(&[&study[..], &one, &["--stamps", &stamps]].concat()).code, 0);
    let replayed = lab(&["replay", "--summary", "--json", &stamps]);
    assert_eq!(replayed.code, 0, "{replayed:?}");
    let printed = lab(&[&study[..], &one, &["--print"]].concat()).out;
    let file = dir.write("run.toml", printed);
    assert_eq!(lab(&["simulate", &file, "--hours", "0.2"]).code, 0);

    for (bad, said) in [
        (&["--only", "nowhere"][..], "no case has any of these"),
        (&["--path", "moon"], "must be one of lan, 4ms, 36ms"),
        (&["--case", "moon"], "must be one of step-0.03ms"),
        (&["--case", "step-1ms", "--print"], "one --path"),
    ] {
        let refused = lab(&[&study[..], bad].concat());
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.err.contains(said), "{}", refused.err);
    }
}
