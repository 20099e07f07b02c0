//! Metrics: a real Prometheus reads them, its tools find no fault with them, and nobody who means no
//! good is in anybody's way.

mod programs;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use truechimer_testbed::daemon::{Daemon, SOON, Server, Setup};
use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_testbed::process::{self, Process};
use truechimer_testbed::watch::Watch;
use truechimer_testbed::{binary, temp};

/// A port that the system chooses.
const LISTEN: &str = "[metrics]\nlisten = \"127.0.0.1:0\"\n";
/// Where its choice stands in the log.
const PLACE: &str = "metrics are served at ";

/// A program of the Debian package prometheus.
fn tool(name: &str) -> Option<PathBuf> {
    let program = binary::system(name);
    let runs = Command::new(&program).arg("--version").output();
    or_skip(match runs {
        Ok(output) if output.status.success() => Ok(program),
        Ok(output) => Err(Lacking(String::from_utf8_lossy(&output.stderr).into_owned())),
        Err(why) => Err(Lacking(format!("{name} (package prometheus): {why}"))),
    })
}

/// A server and a synchronised daemon that serves metrics.
fn serve(dir: &temp::Dir) -> (Server, Daemon, Watch, SocketAddr) {
    let server = Server::start(dir, &["--listen", "127.0.0.1:0", "--offset", "-2.5s"]);
    let mut daemon = Setup { sections: LISTEN, ..Setup::new(dir, &*server.address) }.start();
    let watch = daemon.watch(server.truth);
    let log = daemon.process.output();
    let (_, rest) = log.split_once(PLACE).unwrap_or_else(|| panic!("no metrics:\n{log}"));
    let address = rest.lines().next().unwrap().parse().unwrap();
    (server, daemon, watch, address)
}

/// All that comes back for a request; an error of the connection ends it.
fn ask(mut stream: impl Read + Write, request: &[u8]) -> String {
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        answer.extend_from_slice(&buffer[..n]);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.set_write_timeout(Some(SOON)).unwrap();
    stream
}

const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";

/// The text of a scrape, and how long it took.
fn scrape(address: SocketAddr) -> (String, Duration) {
    let begun = Instant::now();
    let answer = ask(connect(address), REQUEST);
    let took = begun.elapsed();
    (scrape_of(&answer), took)
}

/// Metrics of a daemon that serves them at this socket.
pub fn at_socket(path: &Path) -> String {
    scrape_of(&ask(UnixStream::connect(path).unwrap(), REQUEST))
}

/// The text in an answer.
fn scrape_of(answer: &str) -> String {
    let (head, text) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let length = format!("Content-Length: {}\r\n", text.len());
    assert!(head.contains(&length), "{head}");
    text.to_owned()
}

/// Asserts that promtool has nothing against the text, where there is one.
fn checked(text: &str) {
    let Some(promtool) = tool("promtool") else { return };
    let mut check = Command::new(promtool);
    check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut check = check.stderr(Stdio::piped()).spawn().unwrap();
    check.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let told = check.wait_with_output().unwrap();
    let told = [told.stdout, told.stderr].concat();
    assert!(told.is_empty(), "promtool: {}", String::from_utf8_lossy(&told));
}

/// The value of a sample with this name, and these labels if it has any.
pub fn sample(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in:\n{text}")).parse().unwrap()
}

/// Metrics, `status` and `sources` say the same, and promtool has nothing against the text.
#[test]
fn metrics_say_what_status_says() {
    let dir = temp::Dir::new();
    let (_server, daemon, mut watch, address) = serve(&dir);
    watch.run(Duration::from_secs(3));
    let before = daemon.ask(&["status"]).json["bound_ns"].as_f64().unwrap();
    let (text, took) = scrape(address);
    let after = daemon.ask(&["status"]).json["bound_ns"].as_f64().unwrap();
    let bound = sample(&text, "truechimer_bound_seconds") * 1e9;
    println!("a scrape took {took:?}; bound {before} ns, {bound} ns, {after} ns; {} B", text.len());
    let (low, high) = (before.min(after), before.max(after));
    assert!(bound > low / 4.0 && bound < high * 4.0, "{before} {bound} {after}");
    let parts = ["path_bound", "statistical_bound", "growth_bound"];
    let sum: f64 =
        parts.map(|part| sample(&text, &format!("truechimer_{part}_seconds"))).iter().sum();
    assert!((sum * 1e9 - bound).abs() < 1.0, "{sum} s");
    let offset = sample(&text, "truechimer_system_clock_offset_seconds");
    // The server serves the system clock less 2.5 s.
    assert!((offset - 2.5).abs() < 1.0, "{offset} s");
    assert!(text.contains("truechimer_status{status=\"synchronised\"} 1"), "{text}");
    checked(&text);
    println!("{}", watch.summary());
}

#[test]
fn the_rules_do_as_they_are_meant_to() {
    let Some(promtool) = tool("promtool") else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/prometheus");
    for arguments in [["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]] {
        let told = Command::new(&promtool).args(arguments).current_dir(&folder).output().unwrap();
        let text = [told.stdout, told.stderr].concat();
        assert!(told.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&text));
    }
}

/// The first series of Prometheus' answer to a query.
fn query(prometheus: SocketAddr, query: &str) -> Value {
    answer(prometheus, query)["data"]["result"][0].clone()
}

/// Prometheus' whole answer to a query, null while there is none.
fn answer(prometheus: SocketAddr, query: &str) -> Value {
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let request = format!("GET /api/v1/query?query={encoded} HTTP/1.0\r\n\r\n");
    let answer = match TcpStream::connect(prometheus) {
        Ok(stream) => ask(stream, request.as_bytes()),
        Err(_) => return Value::Null,
    };
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    serde_json::from_str(body).unwrap_or_default()
}

/// Asks what each panel of the dashboard asks, with its variables as Grafana sets them: each is a query, and what the
/// daemon shows by itself has a value.
fn panels_are_answered(prometheus: SocketAddr, scraped: &str) {
    let dashboard = include_str!("../../../../contrib/prometheus/dashboard.json");
    let dashboard: Value = serde_json::from_str(dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    // A row of panels asks nothing.
    let asked = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let events = dashboard["annotations"]["list"].as_array().unwrap().iter();
    let mut shown = 0;
    for expression in asked.chain(events).map(|target| target["expr"].as_str().unwrap()) {
        let mut query = expression.to_owned();
        for (variable, value) in [
            ("$job", "truechimer"),
            ("$instance", ".+"),
            ("$other", ".+"),
            ("$__rate_interval", "1m"),
            ("$__interval", "1m"),
        ] {
            query = query.replace(variable, value);
        }
        let answer = answer(prometheus, &query);
        assert_eq!(answer["status"], "success", "{expression}: {answer:#}");
        let name = expression.split(['{', '(']).next().unwrap();
        let is_told = scraped.lines().any(|line| line.starts_with(&format!("{name}{{")))
            || scraped.lines().any(|line| line.starts_with(&format!("{name} ")));
        let is_shown = !answer["data"]["result"][0].is_null();
        assert!(is_shown || !is_told, "{expression}: nothing to show");
        shown += usize::from(is_shown);
    }
    assert!(shown >= 15, "{shown} queries have a value");
}

#[test]
fn a_real_prometheus_scrapes_it() {
    let Some(program) = tool("prometheus") else { return };
    let dir = temp::Dir::new();
    let (_server, _daemon, mut watch, address) = serve(&dir);
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/prometheus/rules.yml");
    let configuration = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
         rule_files: [{rules:?}]\n\
         scrape_configs: [{{job_name: truechimer, static_configs: [{{targets: ['{address}']}}]}}]\n"
    );
    std::fs::write(dir.join("prometheus.yml"), configuration).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = free.local_addr().unwrap();
    drop(free);
    let mut command = process::command(program);
    command.arg(format!("--config.file={}", dir.join("prometheus.yml").display()));
    command.arg(format!("--storage.tsdb.path={}", dir.join("data").display()));
    command.arg(format!("--web.listen-address={own}"));
    command.current_dir(dir.path());
    let mut prometheus = Process::start(command, &dir.join("prometheus.log"));
    let end = Instant::now() + 3 * SOON;
    for name in ["truechimer_bound_seconds", "truechimer:agreeing_sources:count"] {
        let found = loop {
            watch.run(Duration::from_millis(500));
            let found = query(own, name);
            if !found.is_null() {
                break found;
            }
            let (running, output) = (prometheus.is_running(), prometheus.output());
            assert!(running && Instant::now() < end, "no {name}:\n{output}");
        };
        assert_eq!(found["metric"]["job"], "truechimer", "{found:#}");
        let value: f64 = found["value"][1].as_str().unwrap().parse().unwrap();
        println!("{name}: {value}");
        match name {
            "truechimer_bound_seconds" => assert!(value > 0.0 && value < 1.0, "{found:#}"),
            _ => assert!((value - 1.0).abs() < 0.5, "{found:#}"),
        }
    }
    let up = query(own, "up");
    assert_eq!(up["value"][1], "1", "{up:#}");
    panels_are_answered(own, scrape(address).0.as_str());
    println!("{}", watch.summary());
}

#[test]
fn whoever_means_no_good_is_in_nobodys_way() {
    let dir = temp::Dir::new();
    let (_server, mut daemon, mut watch, address) = serve(&dir);
    let status = |request: &[u8]| {
        let answer = ask(connect(address), request);
        answer.lines().next().unwrap_or_default().to_owned()
    };
    for (request, expected) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "HTTP/1.1 404 Not Found"),
        (
            b"POST /metrics HTTP/1.1\r\nContent-Length: 4\r\n\r\nabcd",
            "HTTP/1.1 405 Method Not Allowed",
        ),
        (b"\x16\x03\x01\x02\r\n\r\n", "HTTP/1.1 400 Bad Request"),
    ] {
        assert_eq!(status(request), expected);
    }
    // Headers of 1 MiB: told so, unless it is still writing when it is hung up on.
    let huge = [b"GET /metrics HTTP/1.1\r\nX: ", vec![b'x'; 1 << 20].as_slice()].concat();
    let told = status(&huge);
    assert!(told.is_empty() || told.starts_with("HTTP/1.1 431 "), "{told}");
    scrape(address);

    // One that never ends its request is hung up on, and others do not notice.
    let mut hanging = connect(address);
    hanging.write_all(b"GET /metrics HT").unwrap();
    scrape(address);
    watch.run(Duration::from_secs(3));
    let begun = Instant::now();
    assert_eq!(ask(hanging, b""), "");
    println!("hung up on after {:?} more", begun.elapsed());

    // Some that never read, and a thousand that say nothing.
    let deaf: Vec<TcpStream> = (0..8).map(|_| connect(address)).collect();
    for mut stream in &deaf {
        stream.write_all(REQUEST).unwrap();
    }
    let begun = Instant::now();
    let idle: Vec<TcpStream> = (0..1000).map(|_| connect(address)).collect();
    println!("a thousand connections in {:?}", begun.elapsed());
    let mut longest = Duration::ZERO;
    for _ in 0..10 {
        longest = longest.max(scrape(address).1);
        watch.run(Duration::from_millis(300));
    }
    println!("the longest of ten scrapes beside them took {longest:?}");
    assert!(longest < SOON);
    let memory = daemon.ask(&["status"]).json["daemon"]["memory_bytes"].as_f64().unwrap();
    println!("{:.1} MiB resident", memory / f64::from(1 << 20));
    assert!(memory < 50e6 && daemon.process.is_running());
    drop((idle, deaf));
    let last = watch.samples[watch.samples.len() - 1];
    assert_eq!(last.status, truechimer::Status::Synchronised);
    println!("{}", watch.summary());
}

#[test]
fn a_socket_of_its_own_serves_them_too_and_a_link_is_refused() {
    let dir = temp::Dir::new();
    let server = Server::start(&dir, &["--listen", "127.0.0.1:0"]);
    let socket = dir.join("metrics");
    let sections = format!("[metrics]\nlisten = {socket:?}\n");
    let setup = Setup { sections: &sections, ..Setup::new(&dir, &*server.address) };
    std::os::unix::fs::symlink(dir.join("elsewhere"), &socket).unwrap();
    let mut daemon = setup.start();
    daemon.process.expect_output("no metrics: ", SOON);
    drop(daemon);
    assert!(!dir.join("elsewhere").exists());
    std::fs::remove_file(&socket).unwrap();
    let mut daemon = setup.start();
    daemon.process.expect_output(&format!("{PLACE}{}", socket.display()), SOON);
    assert!(sample(&at_socket(&socket), "truechimer_uptime_seconds") >= 0.0);
}
