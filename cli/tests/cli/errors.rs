//! Wrong input gets one line that says what is wrong, and exit status 2.

use std::net::UdpSocket;

use serde_json::Value;

use crate::support::{Dir, Process, command, config, daemon, truechimer};

#[test]
fn without_a_clock_every_reader_says_what_to_start() {
    let dir = Dir::new();
    let page = dir.join("clock");
    for name in ["now", "status", "sources"] {
        truechimer(&[name, "--page", &page]).assert_error(&[&page, "truechimer run --server"]);
    }
    // Waiting for it is no error until the time is over, and then an answer.
    let wait = truechimer(&["waitsync", "--timeout", "50ms", "--page", &page]);
    assert_eq!((wait.code, wait.err.as_str()), (1, ""), "{wait:?}");
    assert!(wait.out.contains(&page) && wait.out.contains("truechimer run"), "{wait:?}");
    let wait = truechimer(&["waitsync", "--timeout", "0", "--json", "--page", &page]);
    assert_eq!(wait.code, 1);
    assert_eq!(wait.json()["synchronised"], false);
}

#[test]
fn a_file_that_is_no_clock_page_is_refused_and_left_alone() {
    let dir = Dir::new();
    for (name, contents) in [("foreign", vec![0x5a; 10_000]), ("short", b"TRUE".to_vec())] {
        let page = dir.write(name, &contents);
        for command in [&["now"][..], &["status"], &["waitsync", "--timeout", "10s"]] {
            truechimer(&[command, &["--page", &page]].concat()).assert_error(&[&page]);
        }
        let config = config(&dir, &[("127.0.0.1", 1)]);
        truechimer(&["run", "--config", &config, "--page", &page]).assert_error(&[&page]);
        assert_eq!(std::fs::read(&page).unwrap(), contents);
    }
    let page = dir.join("");
    truechimer(&["now", "--page", &page]).assert_error(&[&page]);
}

/// Reads configurations from a pipe as well.
#[test]
fn a_configuration_of_chronys_without_a_usable_server_says_so() {
    let dir = Dir::new();
    let made = |text: &str| {
        let file = std::fs::File::open(dir.write("chrony.conf", text.as_bytes())).unwrap();
        let output = command(&["import-chrony", "-"]).stdin(file).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, out, err) = made("server a iburst");
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.starts_with("# Made from standard input by") && out.contains("host = \"a\""));
    let (code, out, err) = made("rtcsync\npeer a");
    assert_eq!(code, Some(1));
    let told = "no server was carried over: see \"Not carried over\" (standard input:2: peer a: ";
    assert!(err.contains(told) && err.lines().count() == 1, "{err}");
    assert!(out.contains("# standard input:2: peer a\n"), "{out}");
}

#[test]
fn what_cannot_be_meant_is_named() {
    for (arguments, says) in [
        (&["now", "--jsn"][..], &["'--jsn'", "'--json'"][..]),
        (&["statsu"], &["'statsu'", "'status'"]),
        (&["tracking"], &["'tracking' is a command of chronyc's", "'truechimer status'"]),
        (&["ntpdata", "192.0.2.7"], &["'truechimer sources -v'"]),
        (&["makestep"], &["'step' in [system-clock]", "'truechimer accept'"]),
        (&["sources", "add", "a", "--poll", "1"], &["--poll is no option", "write poll=1"]),
        (&["man", "waitsync"], &["'truechimer help waitsync'", "./waitsync"]),
        (&["waitsync", "--timeout", "5"], &["--timeout", "its unit is missing: s, ms, us or ns"]),
        (&["waitsync", "--max-bound", "10"], &["--max-bound", "missing", "as in 10ms"]),
        (&["waitsync", "--max-bound", "10m"], &["the unit must be s, ms, us or ns"]),
        (&["waitsync", "--timeout", "-5s"], &["--timeout", "negative"]),
        (&["waitsync", "--max-bound", "0"], &["--max-bound", "more than zero"]),
        (&["waitsync", "--max-bound", "1e3s"], &["--max-bound"]),
        (&["waitsync", "--system-clock", "-1s"], &["--system-clock", "more than zero"]),
        (&["run", "--server", "a", "--poll", "0"], &["--poll", "1 to 1024"]),
        (&["run", "--server", "a", "--counter", "8254"], &["--counter", "'8254'", "tsc-fenced"]),
        (&["serve", "--stratum", "16"], &["--stratum"]),
        (&["serve", "--listen", "localhost"], &["--listen", "127.0.0.1:11123"]),
        (&["serve", "--skew-ppm", "fast"], &["--skew-ppm", "not a decimal number"]),
        (
            &["serve", "--clock", "system", "--allow", "192.0.2.0/24"],
            &["--allow goes with --clock page only"],
        ),
        (&["sources", "--control", "none"], &["--control none", "not asked"]),
        (&["capture", "-i", "lo", "-w", "f", "--host", "a\nb"], &["--host", "has no '\\n'"]),
        (&["serve", "--offset", "1s"], &["--offset", "--clock system only", "as without --clock"]),
        (&["serve", "--allow", "192.0.2.1/24"], &["--allow", "did you mean 192.0.2.0/24?"]),
        (&["serve", "--deny", "host"], &["--deny", "'host' is no IP address"]),
        (&["serve", "--threads", "65"], &["--threads", "must be 1 to 64"]),
        (&["serve", "--require-proof"], &["--require-proof", "--nts-cert or --keys"]),
        (&["serve", "--clock", "system", "--keys", "k"], &["--keys", "--clock page only"]),
        (
            &["serve", "--listen", "127.0.0.1:0", "--keys", "/no/keys"],
            &["/no/keys: cannot be read: No such file"],
        ),
        (&["serve", "--rate", "0.5"], &["--rate", ": must be a whole number"]),
        (
            &["demo", "--seconds", "1"],
            &["--seconds", "must be 3 to 86400", "truechimer demo --help"],
        ),
        (&["sources", "add", "--bogus"], &["try 'truechimer sources add --help'."]),
        (&["help", "bogus"], &["try 'truechimer --help'."]),
        (&["interval", "--", "now"], &["try 'truechimer interval --help'."]),
    ] {
        let answer = truechimer(arguments);
        assert_eq!((answer.code, answer.out.as_str()), (2, ""), "{answer:?}");
        assert!(answer.err.starts_with("truechimer: "), "{answer:?}");
        for part in says {
            assert!(answer.err.contains(part), "{part:?} is missing in {answer:?}");
        }
    }
}

#[test]
fn servers_must_look_like_servers() {
    for (server, says) in [
        ("::1:123:x", "[::1]:123"),
        ("[::1", "]"),
        ("host:99999", "99999"),
        ("ntp example", "ntp example"),
        ("", "--server"),
    ] {
        truechimer(&["run", "--check", "--server", server]).assert_error(&["--server", says]);
    }
    truechimer(&["run", "--check"]).assert_error(&["--server HOST"]);
    let good = truechimer(&["run", "--check", "--server", "[::1]:123", "--server", "a.example"]);
    assert_eq!((good.code, good.out.as_str()), (0, "the configuration is good: 2 servers\n"));
    // The file that the environment names, as /etc/truechimer.toml would be read.
    let dir = Dir::new();
    let file = dir.write("c.toml", "[[source]]\nhost = \"a\"\n");
    let found = command(&["run", "--check"]).env("TRUECHIMER_CONFIG", &file).output().unwrap();
    let said = format!("the configuration {file} is good: 1 server\n");
    assert_eq!(String::from_utf8(found.stdout).unwrap(), said);
}

#[test]
fn a_mistake_in_the_configuration_is_shown_with_its_line() {
    let dir = Dir::new();
    let file = dir.write("a.toml", "counter = \"raw\"\n[[source]]\nhost = \"a\"\npol = 4\n");
    truechimer(&["run", "--check", "--config", &file]).assert_error(&[
        "a.toml:4:",
        "`pol`",
        "`poll`",
    ]);
    let file = dir.write("b.toml", "control = [\n");
    truechimer(&["run", "--config", &file]).assert_error(&["b.toml:"]);
    let absent = dir.join("absent.toml");
    truechimer(&["run", "--config", &absent]).assert_error(&[&absent, "No such file"]);
}

#[test]
fn an_address_in_use_is_named() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    truechimer(&["serve", "--clock", "system", "--listen", &listen]).assert_error(&[
        &listen,
        "in use",
        "another address or port",
    ]);
    truechimer(&["serve", "--clock", "system", "--listen", "192.0.2.1:0"])
        .assert_error(&["192.0.2.1", "--listen"]);
}

#[test]
fn a_server_without_an_address_shows_in_sources_and_a_second_daemon_is_refused() {
    let dir = Dir::new();
    let _first = daemon(&dir, &[("no-such-host.invalid", 1)]);
    let page = dir.join("clock");
    let json = wait_for_trouble(&page);
    assert_eq!(json["selection"], "unusable");
    let shown = truechimer(&["sources", "--page", &page]);
    assert_eq!(shown.code, 0);
    let row = shown.out.lines().find(|line| line.starts_with('?')).unwrap();
    assert!(row.contains("no-such-host.invalid:123"), "{}", shown.out);
    assert!(shown.out.contains("\nno-such-host.invalid:123: "), "{}", shown.out);
    assert!(!shown.out.contains("os error"), "{}", shown.out);

    // The clock was never set, which is not the same as having none.
    let why = "no usable reply yet: no-such-host.invalid:123: ";
    let told = format!("best      not known\nstatus    unknown: {why}");
    // A daemon that is slow to answer is not waited for, and there is no reason then.
    until(|| {
        let now = truechimer(&["now", "--page", &page]);
        assert_eq!(now.code, 1, "{now:?}");
        now.out.contains(&told)
    });
    let mut last = Value::Null;
    until(|| {
        last = truechimer(&["now", "--json", "--page", &page]).documented()[0].clone();
        !last["reason"].is_null()
    });
    let now = &last;
    assert!(now["reason"].as_str().unwrap().starts_with(why), "{now}");
    assert_eq!((&now["status"], &now["best_unix_ns"]), (&"unknown".into(), &Value::Null));
    let status = truechimer(&["status", "--page", &page]);
    assert_eq!(status.code, 1, "{status:?}");
    assert!(status.out.starts_with("status       unknown"), "{status:?}");
    let wait = truechimer(&["waitsync", "--timeout", "50ms", "--page", &page]);
    assert_eq!(wait.code, 1, "{wait:?}");

    let config = config(&dir, &[("127.0.0.1", 1)]);
    truechimer(&["run", "--config", &config, "--page", &page]).assert_error(&[
        &page,
        "another daemon",
        "process",
    ]);
    // The first goes on.
    assert_eq!(truechimer(&["sources", "--page", &page]).code, 0);
}

/// The only source, once something is wrong with it.
fn wait_for_trouble(page: &str) -> Value {
    let mut first = Value::Null;
    until(|| {
        first = truechimer(&["sources", "--json", "--page", page]).json()[0].clone();
        first["trouble"].is_string()
    });
    first
}

/// Waits until that is so.
fn until(mut is_so: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + crate::support::SOON;
    while !is_so() {
        assert!(std::time::Instant::now() < end, "it never came to be");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn a_server_of_its_own_time_says_at_the_end_what_it_did() {
    let dir = Dir::new();
    let listen = ["serve", "--clock", "system", "--json", "--listen", "127.0.0.1:0"];
    let mut server = Process::start(&dir, "serve.log", &listen);
    server.wait_for("}\n");
    // What it says for people, of its rights, is in the same file.
    let output = server.output();
    let ready: serde_json::Value = serde_json::from_str(output.lines().next().unwrap()).unwrap();
    let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(ready["listen"].as_str().unwrap()).unwrap();
    client.set_read_timeout(Some(crate::support::SOON)).unwrap();
    // One that is none, and a request of version 4.
    client.send(&[1, 2, 3]).unwrap();
    let mut request = [0; 48];
    request[0] = 0x23;
    client.send(&request).unwrap();
    assert_eq!(client.recv(&mut [0; 64]).unwrap(), 48);
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    let output = server.output();
    let end: serde_json::Value = serde_json::from_str(output.lines().last().unwrap()).unwrap();
    assert_eq!((&end["received"], &end["answered"]), (&2.into(), &1.into()), "{output}");
}

#[test]
fn a_signal_ends_a_server_that_nobody_asks() {
    let dir = Dir::new();
    let mut server = Process::start(
        &dir,
        "serve.log",
        &["serve", "--clock", "system", "--listen", "127.0.0.1:0"],
    );
    server.wait_for("serving on 127.0.0.1:");
    server.signal("INT");
    assert_eq!(server.wait().code(), Some(0));
    assert!(server.output().ends_with("\nreceived 0, answered 0\n"), "{}", server.output());
}

#[test]
fn an_end_in_order_is_one_however_many_signals_ask_for_it() {
    let dir = Dir::new();
    let mut daemon = daemon(&dir, &[("127.0.0.1", 1)]);
    // While it is stopped, so that they come together when it goes on.
    for signal in ["STOP", "INT", "TERM", "CONT"] {
        daemon.signal(signal);
    }
    assert_eq!(daemon.wait().code(), Some(0), "{}", daemon.output());
    assert!(daemon.output().contains("ended"), "{}", daemon.output());
}

#[test]
fn a_daemon_says_where_its_rate_is_kept() {
    let dir = Dir::new();
    let home = |command: &mut std::process::Command| {
        command.env_remove("STATE_DIRECTORY").env("XDG_STATE_HOME", dir.join("home"));
    };
    let arguments =
        ["run", "--server", "127.0.0.1:1", "--page", &dir.join("clock"), "--control", "none"];
    let mut trial = Process::start_in(&dir, "trial.log", &arguments, home);
    trial.wait_for("is kept beside the clock page alone: the clock page is not at");
    trial.signal("TERM");
    assert_eq!(trial.wait().code(), Some(0));
    // Where the service's manager wants it.
    let mut service = Process::start_in(&dir, "service.log", &arguments, |command| {
        command.env("STATE_DIRECTORY", dir.join(""));
    });
    service.wait_for(&format!("is kept in {}", dir.join("rate.json")));
}
