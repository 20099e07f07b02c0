//! The whole: a server with a time of its own, a daemon that follows it, and readers.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use truechimer::{Clock, CounterKind, Period, Span, Status};
use truechimer_counter::{Choice, Counter};
use truechimer_serve::{Sandwich, ServedClock};

use crate::support::{Dir, Process, SOON, config, daemon, lab, truechimer};

/// The embedded server in a process of its own.
struct Server {
    _process: Process,
    address: String,
    served: ServedClock,
    counter: Counter,
}

impl Server {
    fn start(dir: &Dir, listen: &str, offset: &str, skew_ppm: &str) -> Server {
        let arguments = [
            "serve",
            "--clock",
            "system",
            "--json",
            "--listen",
            listen,
            "--offset",
            offset,
            "--skew-ppm",
            skew_ppm,
        ];
        let mut process = Process::start(dir, "serve.log", &arguments);
        process.wait_for("}\n");
        // Into a file, each line of the log with its time.
        process.wait_for("Z truechimer: info: sandbox: ");
        let ready: Value = serde_json::from_str(process.output().lines().next().unwrap()).unwrap();
        Server {
            _process: process,
            address: ready["listen"].as_str().unwrap().into(),
            served: ServedClock {
                offset: offset.parse().unwrap(),
                skew: skew_ppm.parse().unwrap(),
                origin_raw_ns: ready["origin_raw_ns"].as_i64().unwrap(),
            },
            counter: Counter::open(Choice::Auto).unwrap(),
        }
    }

    fn truth(&self) -> Sandwich {
        self.served.sandwich(self.counter)
    }

    /// Length that a count really had since then.
    fn period_since(&self, then: &Sandwich) -> Period {
        let now = self.truth();
        let span = Span::from_nanos(now.unix_ns - then.unix_ns);
        Period::from_ratio(span, now.count() - then.count()).unwrap()
    }
}

/// Reads the clock and holds it against the truth before and after.
fn check(clock: &Clock, server: &Server) -> Span {
    let before = server.truth().unix_ns;
    let reading = clock.now().unwrap();
    let after = server.truth().unix_ns;
    assert!(reading.status.bound_holds(), "{reading:?}");
    let utc = |at| reading.leaps().utc(at).unix_nanos();
    assert!(utc(reading.earliest) <= i128::from(after), "{reading:?} {after}");
    assert!(utc(reading.latest) + 1 >= i128::from(before), "{reading:?} {before}");
    reading.bound().unwrap()
}

fn int(json: &Value, name: &str) -> i64 {
    json[name].as_i64().unwrap_or_else(|| panic!("no {name} in {json}"))
}

#[test]
fn a_daemon_follows_its_server_in_offset_and_rate_and_every_command_tells() {
    let dir = Dir::new();
    let server = Server::start(&dir, "127.0.0.1:0", "1.5s", "37");
    let page = dir.join("clock");
    let _daemon = daemon(&dir, &[(&server.address, 1)]);
    let wait = truechimer(&["waitsync", "--page", &page, "--json"]);
    assert_eq!(wait.code, 0, "{wait:?}");
    assert!(int(&wait.documented()[0], "bound_ns") <= 1_000_000);
    assert_eq!(wait.documented()[0]["system_offset_ns"], Value::Null);
    // The server is 1.5 s ahead of the system clock, which nobody steers.
    let near = |most| {
        let asked = ["--system-clock", most, "--timeout", "100ms", "--json"];
        let wait = truechimer(&[&["waitsync", "--page", &page], &asked[..]].concat());
        let ahead = int(&wait.documented()[0], "system_offset_ns");
        assert!((-1_600_000_000..-1_400_000_000).contains(&ahead), "{wait:?}");
        wait.code
    };
    assert_eq!((near("2s"), near("1s")), (0, 1));
    let wait = ["waitsync", "--page", &page, "--system-clock", "1s", "--timeout", "0s"];
    let told = truechimer(&wait).out;
    assert!(told.contains("the system clock is 1.") && told.contains(" s behind"), "{told}");

    // Every reading is right, and the rate is followed within a minute.
    let clock = Clock::open_at(&page).unwrap();
    let (begun, first) = (Instant::now(), server.truth());
    let mut rate_error = i64::MAX;
    while begun.elapsed() < Duration::from_secs(12)
        || (rate_error.abs() > 500_000 && begun.elapsed() < Duration::from_secs(60))
    {
        check(&clock, &server);
        let followed = clock.view().unwrap().hand.period;
        rate_error = followed.relative_to(server.period_since(&first)).as_ppt();
        sleep(Duration::from_millis(20));
    }
    assert!(rate_error.abs() <= 500_000, "{rate_error} parts in 10^12");
    // It is the server that is followed and not the system clock.
    let truth = server.truth();
    let lead = truth.unix_ns - truth.system_ns;
    assert!(lead > 1_500_000_000 + 400_000, "{lead}");

    now_tells(&page, &server);
    status_tells(&page);
    sources_tell(&page, &server.address);
}

fn now_tells(page: &str, server: &Server) {
    let before = server.truth();
    let now = truechimer(&["now", "--json", "--page", page]);
    let after = server.truth();
    assert_eq!(now.code, 0, "{now:?}");
    let now = now.documented().remove(0);
    assert_eq!(now["status"], "synchronised");
    // The truth at the very count of the reading, which lay between the two sandwiches.
    let count = truechimer::Count(now["count"].as_u64().unwrap());
    let period = server.period_since(&before);
    let truth = before.unix_ns + period.span(count - before.count()).as_nanos_i64();
    assert!(count.at_or_after(before.before) && after.after.at_or_after(count));
    let [earliest, best, latest] =
        ["earliest_unix_ns", "best_unix_ns", "latest_unix_ns"].map(|name| int(&now, name));
    assert!(earliest <= best && best <= latest);
    assert!(earliest <= truth + 100 && truth - 100 <= latest, "{truth} {now}");
    let parts = ["path_bound_ns", "statistical_bound_ns", "growth_bound_ns"];
    let sum: i64 = parts.map(|name| int(&now, name)).iter().sum();
    assert!((sum - int(&now, "bound_ns")).abs() <= 3, "{now}");
    let farther = (latest - best).max(best - earliest);
    assert!((farther - int(&now, "bound_ns")).abs() <= 2, "{now}");
    assert!(now["best_utc"].as_str().unwrap().ends_with('Z'));
    assert_eq!((&now["tai_offset"], &now["leap_next"]), (&Value::Null, &Value::Null));
    // No leap second file, no TAI.
    truechimer(&["now", "--tai", "--page", page]).assert_error(&["TAI is not known"]);
    let text = truechimer(&["now", "--page", page]).out;
    for name in ["earliest", "best", "latest", "bound", "status"] {
        assert!(text.lines().any(|line| line.starts_with(name)), "{text}");
    }
}

/// Memory of a process that is no file's, bytes.
fn own_memory(pid: i64) -> i64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<i64>().unwrap() * 1024
}

fn status_tells(page: &str) {
    let status = truechimer(&["status", "--json", "--page", page]);
    assert_eq!(status.code, 0, "{status:?}");
    let status = status.documented().remove(0);
    assert_eq!(status["status"], "synchronised");
    assert!(int(&status["daemon"], "uptime_ns") > 10_000_000_000);
    // Of its own it has little; the rest is the program's file, which is large where it is not optimised.
    let own = own_memory(int(&status["daemon"], "pid"));
    assert!(own < 3 << 20, "{own} bytes: {status}");
    let resident = int(&status["daemon"], "memory_bytes");
    assert!((own..24 << 20).contains(&resident), "{status}");
    let text = truechimer(&["status", "--page", page]).out;
    for name in ["bound", "counter", "rate", "hand", "follows", "daemon"] {
        assert!(text.lines().any(|line| line.starts_with(name)), "{text}");
    }
    // Without the control socket the page alone speaks, and says so.
    let alone = truechimer(&["status", "--page", page, "--control", "/nowhere"]);
    assert_eq!(alone.code, 0, "{alone:?}");
    assert!(alone.out.contains("only the clock page is shown"), "{alone:?}");
    let alone = truechimer(&["status", "--json", "--page", page, "--control", "/nowhere"]).json();
    assert_eq!((&alone["daemon"], &alone["status"]), (&Value::Null, &"synchronised".into()));
}

fn sources_tell(page: &str, address: &str) {
    let sources = truechimer(&["sources", "--json", "--page", page]).documented().remove(0);
    let source = &sources[0];
    assert_eq!(source["name"], address);
    assert_eq!(source["selection"], "selected");
    assert_eq!((int(source, "stratum"), int(source, "poll_s")), (10, 1));
    assert!(int(source, "accepted") >= 8, "{source}");
    assert_eq!(source["sent_stamp"], "kernel");
    assert_eq!(source["received_stamp"], "kernel");
    assert!(int(source, "rtt_floor_ns") > 0);
    let table = truechimer(&["sources", "--page", page]).out;
    let row = table.lines().nth(1).unwrap();
    assert!(row.starts_with('*') && !table.contains("user space"), "{table}");
    let detail = truechimer(&["sources", "-v", "--page", page]).out;
    assert!(detail.contains("refused     none") && detail.contains("accepted"), "{detail}");
}

#[test]
fn a_reload_keeps_what_was_learnt_and_the_log_repeats_it() {
    let dir = Dir::new();
    let server = Server::start(&dir, "[::1]:0", "-3s", "-100");
    let page = dir.join("clock");
    let mut daemon = daemon(&dir, &[(&server.address, 1)]);
    assert_eq!(truechimer(&["waitsync", "--page", &page]).code, 0);
    let clock = Clock::open_at(&page).unwrap();
    let accepted = || {
        let sources = truechimer(&["sources", "--json", "--page", &page]).json();
        int(&sources[0], "accepted")
    };
    let wait_until = |n: i64| {
        let end = Instant::now() + SOON;
        while accepted() < n {
            check(&clock, &server);
            assert!(Instant::now() < end, "{} accepted", accepted());
            sleep(Duration::from_millis(50));
        }
    };
    wait_until(4);
    let before = accepted();
    let bound = check(&clock, &server);

    config(&dir, &[(&server.address, 2), ("no-such-host.invalid", 1)]);
    daemon.signal("HUP");
    daemon.wait_for("configuration was read again");
    let sources = truechimer(&["sources", "--json", "--page", &page]).json();
    assert_eq!((int(&sources[0], "poll_s"), sources.as_array().unwrap().len()), (2, 2));
    assert!(accepted() >= before, "{} {before}", accepted());
    assert!(check(&clock, &server) < bound * 4 + Span::from_micros(100));
    wait_until(before + 2);

    // A mistake leaves all as it was.
    dir.write("truechimer.toml", "sauce = 1\n");
    daemon.signal("HUP");
    daemon.wait_for("unknown key `sauce`");
    let reload = || truechimer(&["sources", "reload", "--page", &page]);
    let told = reload();
    assert!(told.code == 2 && told.out.is_empty(), "{told:?}");
    assert!(
        told.err.contains("stays as it was")
            && told.err.contains("truechimer.toml:1: unknown key `sauce`"),
        "{told:?}"
    );
    wait_until(before + 3);
    assert_eq!(clock.status(), Ok(Status::Synchronised));
    config(&dir, &[(&server.address, 2), ("no-such-host.invalid", 1)]);
    let told = reload();
    assert_eq!((told.code, told.err.as_str()), (0, ""), "{told:?}");
    let text = std::fs::read_to_string(dir.join("truechimer.toml")).unwrap();
    dir.write("truechimer.toml", (text + "[metrics]\nlisten = \"127.0.0.1:0\"\n").as_bytes());
    let told = reload();
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.err.contains("only at the next start: metrics"), "{told:?}");

    daemon.signal("TERM");
    assert_eq!(daemon.wait().code(), Some(0), "{}", daemon.output());
    assert!(!daemon.output().contains("os error"), "{}", daemon.output());
    check(&clock, &server);
    let replay = lab(&["replay", "--json", "--summary", &dir.join("replay")]);
    assert_eq!(replay.code, 0, "{replay:?}");
    assert!(int(&replay.json()["same"], "hands") >= before, "{replay:?}");
}

#[test]
fn what_is_held_off_stays_so_over_a_restart_without_state() {
    let (dir, other) = (Dir::new(), Dir::new());
    let honest = Server::start(&dir, "127.0.0.1:0", "0s", "0");
    let stepped = Server::start(&other, "127.0.0.1:0", "5s", "0");
    let page = dir.join("clock");
    let status = || truechimer(&["status", "--json", "--page", &page]).json();
    let ends = |mut daemon: Process| {
        daemon.signal("TERM");
        assert_eq!(daemon.wait().code(), Some(0), "{}", daemon.output());
    };
    let first = daemon(&dir, &[(&honest.address, 1)]);
    assert_eq!(truechimer(&["waitsync", "--page", &page]).code, 0);
    assert_eq!(int(&status(), "disputed_bound_ns"), 0);
    ends(first);
    let clock = Clock::open_at(&page).unwrap();
    // The second daemon holds off what contradicts the page, the third what the second held off.
    for _ in 0..2 {
        let daemon = daemon(&dir, &[(&stepped.address, 1)]);
        let end = Instant::now() + SOON;
        let sources = || truechimer(&["sources", "--json", "--page", &page]).json();
        while int(&sources()[0], "reach") < 0o37 {
            for server in [&honest, &stepped] {
                check(&clock, server);
            }
            assert!(Instant::now() < end, "{}", daemon.output());
            sleep(Duration::from_millis(50));
        }
        assert_eq!(int(&sources()[0], "accepted"), 0);
        let status = status();
        assert_eq!(status["status"], "holdover");
        let held = format!("held against {}, which says +", stepped.address);
        assert!(status["reason"].as_str().unwrap().starts_with(&held), "{status}");
        let disputed = int(&status, "disputed_bound_ns");
        assert!((4_800_000_000..5_050_000_000).contains(&disputed), "{status}");
        ends(daemon);
        // The page alone says so too.
        let now = truechimer(&["now", "--page", &page]);
        assert!(now.code == 0 && now.out.contains(" + disputed "), "{now:?}");
        let disputed = clock.view().unwrap().disputed().unwrap();
        assert!(disputed > Span::from_millis(4_800), "{disputed}");
    }
}

/// Length and bound of a line such as `93.417526310 s ± 47.206 µs`: the length in ns.
fn length(line: &str) -> i64 {
    let (length, bound) = line.trim_end().split_once(" s ± ").unwrap();
    let (whole, digits) = length.trim_start_matches('-').split_once('.').unwrap();
    assert!(digits.len() == 9 && bound.ends_with('s') && !bound.starts_with('-'), "{line}");
    let ns = whole.parse::<i64>().unwrap() * 1_000_000_000 + digits.parse::<i64>().unwrap();
    if length.starts_with('-') { -ns } else { ns }
}

/// (It stayed with the page of the daemon that had ended until its time was over.)
#[test]
fn waiting_goes_on_with_the_page_that_a_daemon_tends() {
    let dir = Dir::new();
    let server = Server::start(&dir, "127.0.0.1:0", "1s", "5");
    let page = dir.join("clock");
    let mut first = daemon(&dir, &[(&server.address, 1)]);
    assert_eq!(truechimer(&["waitsync", "--page", &page]).code, 0);
    first.signal("TERM");
    assert_eq!(first.wait().code(), Some(0), "{}", first.output());
    let wait = ["waitsync", "--timeout", "120s", "--page", &page];
    let mut wait = Process::start(&dir, "wait.log", &wait);
    wait.wait_mapped(&page);
    std::fs::remove_file(&page).unwrap();
    let _second = daemon(&dir, &[(&server.address, 1)]);
    assert_eq!(wait.wait().code(), Some(0), "{}", wait.output());
    // Of which page it is told, and in one meaning of the word.
    let tight = ["waitsync", "--timeout", "0s", "--max-bound", "1ns", "--page", &page];
    let told = truechimer(&tight).out;
    let begins =
        format!("not good enough after 0 s: {page}: the status is synchronised, the bound ");
    assert!(told.starts_with(&begins), "{told}");
}

#[test]
fn a_script_measures_an_interval_between_two_moments() {
    let dir = Dir::new();
    let server = Server::start(&dir, "127.0.0.1:0", "-2s", "150");
    let page = dir.join("clock");
    let mut daemon = daemon(&dir, &[(&server.address, 1)]);
    assert_eq!(truechimer(&["waitsync", "--page", &page]).code, 0);
    let interval = |words: &[&str]| truechimer(&[&["interval", "--page", &page], words].concat());
    let moment = || {
        let said = interval(&[]);
        assert_eq!(said.code, 0, "{said:?}");
        said.out.trim_end().to_owned()
    };
    // The two moments lie between these readings of the truth, 50 ms apart at least.
    let before = server.truth().unix_ns;
    let from = moment();
    let begun = server.truth().unix_ns;
    sleep(Duration::from_millis(50));
    let ended = server.truth().unix_ns;
    let to = moment();
    let after = server.truth().unix_ns;
    // As the page has it, and any shell: one word.
    assert!(!from.contains(|c: char| !c.is_ascii_hexdigit() && c != '.'), "{from}");
    let till_now = length(&interval(&[&from]).out);
    let word = interval(&["--json"]).documented()[0]["moment"].as_str().unwrap().to_owned();
    assert_eq!(interval(&[&from, &word]).code, 0);
    // No hand comes any more: the same moments give the same length from here on.
    daemon.signal("TERM");
    assert_eq!(daemon.wait().code(), Some(0), "{}", daemon.output());
    let wait = truechimer(&["waitsync", "--timeout", "0s", "--page", &page]);
    let dead = "the status is holdover, the bound ";
    assert!(wait.code == 1 && wait.out.contains(dead), "{wait:?}");
    assert!(wait.out.ends_with(": no daemon tends the clock\n"), "{wait:?}");
    let json = interval(&["--json", &from, &to]).documented().remove(0);
    let (elapsed, bound) = (int(&json, "elapsed_ns"), int(&json, "bound_ns"));
    assert!(bound > 0 && elapsed + bound >= ended - begun, "{json}: {begun} to {ended}");
    assert!(elapsed - bound <= after - before, "{json}: {before} to {after}");
    assert_eq!(length(&interval(&[&from, &to]).out), elapsed);
    assert_eq!(length(&interval(&[&to, &from]).out), -elapsed);
    assert_eq!(length(&interval(&[&from, &from]).out), 0);
    assert!(till_now > elapsed && length(&interval(&[&from]).out) > till_now);
    // A moment of another stretch of the counter, and what is none.
    let [count, stretch, boot] = from.split('.').collect::<Vec<_>>()[..] else { panic!("{from}") };
    let [there, tag] = [stretch, boot].map(|word| u64::from_str_radix(word, 16).unwrap());
    let other = |stretch: u64, boot: u64| format!("{count}.{stretch:x}.{boot:08x}");
    for (word, why) in [
        (other(there + (1 << 32), tag), "the counter lost its continuity in between"),
        (other(there & !0xffff | CounterKind::Simulated as u64, tag), "of the counter simulated"),
        (other(there, tag ^ 1), "of another boot"),
        (format!("{:x}.{stretch}.{boot}", u64::MAX >> 2), "not over yet, or it is of another boot"),
    ] {
        interval(&[&word]).assert_error(&["these moments cannot be compared", why]);
        interval(&[&from, &word]).assert_error(&["these moments cannot be compared", why]);
    }
    let old = interval(&[&format!("{count}.{stretch}")]);
    assert!(old.code == 2 && old.err.contains("of an earlier release"), "{old:?}");
    let none = interval(&[""]);
    assert!(
        none.code == 2 && none.err.contains("not a moment that 'truechimer interval'"),
        "{none:?}"
    );
}

#[test]
fn the_demonstration_is_good_and_says_why() {
    let seconds = Instant::now();
    let demo = truechimer(&["demo", "--seconds", "6", "--json", "--counter", "raw"]);
    assert!(seconds.elapsed() < SOON);
    assert_eq!(demo.code, 0, "{demo:?}");
    let lines: Vec<Value> =
        demo.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (end, rows) = lines.split_last().unwrap();
    assert!(rows.len() >= 3, "{demo:?}");
    for row in rows {
        assert_eq!(row["inside"], true, "{row}");
    }
    assert_eq!((&end["good"], &end["readings"]), (&true.into(), &end["inside"]), "{end}");
    let lead = int(end, "clock_minus_system_ns");
    assert!((1_500_000_000..1_502_000_000).contains(&lead), "{end}");

    let text = truechimer(&["demo", "--seconds", "3", "--offset", "-2s", "--skew-ppm", "-400"]);
    assert_eq!(text.code, 0, "{text:?}");
    assert!(text.out.contains("-2.00") && text.out.ends_with("within its bound.\n"), "{text:?}");
}
