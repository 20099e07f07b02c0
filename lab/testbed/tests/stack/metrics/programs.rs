//! Metrics of the programs beside the daemon: NTP server, group's agent, capture.

use std::net::SocketAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use truechimer_testbed::daemon::SOON;
use truechimer_testbed::exchange::exchange;
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::namespace::{Namespace, Pair};
use truechimer_testbed::process::{self, Process, Signal};
use truechimer_testbed::{binary, temp};

use super::{PLACE, REQUEST, ask, checked, sample, scrape_of, tool};
use crate::capture::tools::truechimer;
use crate::capture::traffic::{inject, last, numbered};
use crate::serve::Chain;

/// Group of the agents here.
const GROUP: &str = "metered";

/// Place of a program's metrics, as its output has it.
fn place(process: &mut Process) -> String {
    process.expect_output(PLACE, SOON);
    let output = process.output();
    let (_, rest) = output.split_once(PLACE).unwrap();
    rest.lines().next().unwrap().to_owned()
}

/// A scrape at a place: the text of the metrics.
fn scrape(place: &str) -> String {
    let answer = match place.parse::<SocketAddr>() {
        Ok(address) => ask(super::connect(address), REQUEST),
        Err(_) => ask(UnixStream::connect(place).unwrap(), REQUEST),
    };
    scrape_of(&answer)
}

/// Scrapes that hang: one in the midst of its request, others that never read their answer.
fn hang(place: &str) -> Vec<UnixStream> {
    let connect = |n: usize| {
        let mut stream = UnixStream::connect(place).unwrap();
        let request = if n == 0 { &REQUEST[..15] } else { REQUEST };
        std::io::Write::write_all(&mut stream, request).unwrap();
        stream
    };
    (0..8).map(connect).collect()
}

/// An agent with three members on this machine.
fn agent(command: Command, dir: &temp::Dir, metrics: &str) -> Process {
    let mut agent = command;
    agent.args(["group", "agent", "--group", GROUP, "--local", "3", "--state", "none"]);
    agent.args(["--system-clock", "1s", "--metrics", metrics]);
    agent.arg("--directory").arg(dir.join("agents"));
    let mut agent = Process::start(agent, &dir.join("agent.log"));
    agent.expect_output("member 3: live", SOON);
    agent
}

/// A value of the group's clock.
fn group_now(command: Command, dir: &temp::Dir) -> Value {
    let mut now = command;
    now.args(["group", "now", "--group", GROUP, "--member", "1", "--json", "--directory"]);
    let output = now.arg(dir.join("agents")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_str(text.lines().next().unwrap()).unwrap()
}

fn ours() -> Command {
    process::command(binary::truechimer())
}

/// A server of a clock that is not there.
fn server(dir: &temp::Dir, metrics: &str) -> Process {
    let mut command = ours();
    command.args(["serve", "--clock", "page", "--listen", "127.0.0.1:0", "--metrics", metrics]);
    command.arg("--page").arg(dir.join("no-clock"));
    Process::start(command, &dir.join("server.log"))
}

/// The address at which a server serves.
fn serving(process: &Process) -> SocketAddr {
    let output = process.output();
    let line = output.lines().find_map(|line| line.split_once("serving on ")).unwrap().1;
    line.parse().unwrap_or_else(|_| panic!("no address in {output}"))
}

#[test]
fn a_hanging_scrape_holds_up_no_server() {
    let dir = temp::Dir::new();
    let path = dir.join("metrics");
    let mut process = server(&dir, path.to_str().unwrap());
    let place = place(&mut process);
    let hanging = hang(&place);
    let address = serving(&process);
    for n in 0..20 {
        let said = exchange(address).unwrap();
        assert_eq!(said["synchronised"], false, "{n}: {said:#}");
    }
    let end = Instant::now() + SOON;
    let text = loop {
        let text = scrape(&place);
        if sample(&text, "truechimer_serve_received_total") >= 20.0 {
            break text;
        }
        assert!(Instant::now() < end, "{text}");
        std::thread::sleep(Duration::from_millis(200));
    };
    assert!(text.contains("truechimer_serve_status{status=\"unknown\"} 1"), "{text}");
    assert!(text.contains("truechimer_serve_answered_total{version=\"4\"} 20"), "{text}");
    assert_eq!(sample(&text, "truechimer_serve_synchronised"), 0.0);
    checked(&text);
    drop(hanging);
    process.signal(Signal::Term);
    assert_eq!(process.wait(SOON).and_then(|status| status.code()), Some(0));
    assert!(!path.exists(), "the name goes with the server");
}

#[test]
fn a_hanging_scrape_holds_up_no_agent() {
    let dir = temp::Dir::new();
    let path = dir.join("metrics");
    let mut agent = agent(ours(), &dir, path.to_str().unwrap());
    let place = place(&mut agent);
    let hanging = hang(&place);
    let begun = Instant::now();
    for _ in 0..5 {
        group_now(ours(), &dir);
    }
    println!("five programs with a reading each in {:?}", begun.elapsed());
    let labels = format!("{{group=\"{GROUP}\",member=\"1\"}}");
    let end = Instant::now() + SOON;
    let text = loop {
        let text = scrape(&place);
        let answers = format!("truechimer_group_answers_total{labels}");
        if text.contains(&answers) && sample(&text, &answers) >= 5.0 {
            break text;
        }
        assert!(Instant::now() < end, "{text}");
        std::thread::sleep(Duration::from_millis(200));
    };
    for (name, least) in [("rounds_total", 5.0), ("read_wait_seconds_count", 5.0), ("primary", 1.0)]
    {
        let name = format!("truechimer_group_{name}{labels}");
        assert!(sample(&text, &name) >= least, "{name}: {text}");
    }
    checked(&text);
    drop(hanging);
    agent.signal(Signal::Term);
    assert_eq!(agent.wait(SOON).and_then(|status| status.code()), Some(0));
    assert!(!path.exists(), "the name goes with the agent");
}

#[test]
fn a_hanging_scrape_holds_up_no_capture() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let path = dir.join("metrics");
    let mut capture =
        truechimer(&net.client, &dir, "metered", &["--metrics", path.to_str().unwrap()]);
    let place = place(&mut capture.process);
    let hanging = hang(&place);
    let frames: Vec<_> = (0..50).map(|n| numbered(n, 100)).chain([last()]).collect();
    inject(&net.server, &frames);
    capture.until_last();
    let end = Instant::now() + SOON;
    let text = loop {
        let text = scrape(&place);
        let of = |name: &str| sample(&text, &format!("truechimer_capture_{name}"));
        if of("written_packets_total") >= 51.0 && of("file_bytes_total") > 5_100.0 {
            break text;
        }
        assert!(Instant::now() < end, "{text}");
        std::thread::sleep(Duration::from_millis(200));
    };
    assert_eq!(sample(&text, "truechimer_capture_files_total"), 1.0);
    assert!(text.contains("interface=\"wire\""), "{text}");
    checked(&text);
    drop(hanging);
    assert!(capture.end().success(), "{}", capture.process.output());
    assert!(!path.exists(), "the name goes with the capture");
}

/// One socket that somebody has, and a file that is somebody's.
fn in_the_way(dir: &temp::Dir) -> [(PathBuf, &'static str); 2] {
    let (socket, file) = (dir.join("socket"), dir.join("file"));
    std::mem::forget(UnixListener::bind(&socket).unwrap());
    std::fs::write(&file, "precious").unwrap();
    [(socket, "another daemon answers there"), (file, "something else is in its place")]
}

#[test]
fn what_is_in_the_way_of_metrics_is_named_and_left_alone() {
    let dir = temp::Dir::new();
    for (path, why) in in_the_way(&dir) {
        let place = path.to_str().unwrap();
        let (socket, file) = (dir.join("socket"), dir.join("file"));
        let told = |output: &str| {
            let line =
                output.lines().find(|line| line.contains("no metrics: ")).unwrap_or_default();
            let whole = line.contains(why) && line.contains(place) && line.contains("--metrics");
            assert!(whole, "{output}");
        };
        // Whoever asks for it on the command line is told at once.
        let mut server = server(&dir, place);
        assert_eq!(server.wait(SOON).and_then(|status| status.code()), Some(2));
        told(&server.output());
        let mut capture = ours();
        capture.args(["capture", "-i", "lo", "-w"]).arg(dir.join("never.pcapng"));
        let output = capture.args(["--metrics", place]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        told(&String::from_utf8_lossy(&output.stderr));
        // A group goes on.
        let agent = agent(ours(), &dir, place);
        told(&agent.output());
        group_now(ours(), &dir);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
        assert!(UnixStream::connect(&socket).is_ok());
        std::fs::remove_file(dir.join("agent.log")).unwrap();
        std::fs::remove_file(dir.join("server.log")).unwrap();
    }
}

/// The value of a query, by promtool in the same network.
fn query(network: &Namespace, expression: &str) -> Option<f64> {
    let mut command = network.command(binary::system("promtool"));
    command.args(["query", "instant", "http://127.0.0.1:9090", expression]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // As in: name{labels} => 1 @[1795000000]
    let value = text.lines().next()?.split_once("=> ")?.1;
    value.split(' ').next()?.parse().ok()
}

#[test]
fn a_real_prometheus_scrapes_server_agent_and_capture() {
    let Some(program) = tool("prometheus") else { return };
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let here = || net.server.command(binary::truechimer());
    let _chain = Chain::start(&net.server, &dir, &["--metrics", "127.0.0.1:9925"]);
    let _agent = agent(here(), &dir, "127.0.0.1:9926");
    let arguments = ["--metrics", "127.0.0.1:9927"];
    let _capture = truechimer(&net.server, &dir, "scraped", &arguments);
    group_now(here(), &dir);
    inject(&net.client, &[last()]);
    let rules = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let rules = rules.join("../../contrib/prometheus/rules.yml");
    let job = |name: &str, port: u16| {
        format!(" - {{job_name: {name}, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}\n")
    };
    let jobs = [
        job("truechimer-serve", 9925),
        job("truechimer-group", 9926),
        job("truechimer-capture", 9927),
    ];
    let configuration = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{rules:?}]\n\
         scrape_configs:\n{}",
        jobs.concat()
    );
    std::fs::write(dir.join("prometheus.yml"), configuration).unwrap();
    let mut command = net.server.command(program);
    command.arg(format!("--config.file={}", dir.join("prometheus.yml").display()));
    command.arg(format!("--storage.tsdb.path={}", dir.join("data").display()));
    command.arg("--web.listen-address=127.0.0.1:9090").current_dir(dir.path());
    let mut prometheus = Process::start(command, &dir.join("prometheus.log"));
    let end = Instant::now() + 3 * SOON;
    for (expression, range) in [
        ("sum(up)", 3.0..4.0),
        ("truechimer_serve_bound_seconds", 1e-9..1.0),
        ("sum(truechimer_serve_heartbeat_age_seconds)", 0.0..600.0),
        ("sum(truechimer_group_rounds_total)", 1.0..1e6),
        ("sum(truechimer_group_read_wait_seconds_count)", 1.0..1e6),
        ("count(truechimer:group_failovers:changes1h)", 3.0..4.0),
        ("sum(truechimer_capture_written_packets_total)", 1.0..1e9),
    ] {
        loop {
            let found = query(&net.server, expression);
            if let Some(value) = found
                && range.contains(&value)
            {
                println!("{expression}: {value}");
                break;
            }
            let (running, output) = (prometheus.is_running(), prometheus.output());
            assert!(running && Instant::now() < end, "{expression}: {found:?}\n{output}");
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}
