//! Servers that prove who they are (NTS, RFC 8915): chronyd and ntpd (ntpsec) at the other end.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use truechimer::Status;
use truechimer_testbed::binary;
use truechimer_testbed::certificates::Certificates;
use truechimer_testbed::chrony::{Chronyd, WITH_GCM_SIV};
use truechimer_testbed::daemon::{self, Answer, Daemon, SOON, Setup};
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::namespace::{CLIENT, Namespace, Pair, SERVER};
use truechimer_testbed::process::{Process, Signal};
use truechimer_testbed::temp;
use truechimer_testbed::truth::Truth;

use crate::metrics::{at_socket, sample};
use crate::number;
use crate::serve::{Chain, Client, ask, ntpd, ntpd_follows};
use crate::warp::warped;

/// Lines for a chronyd that serves NTS, and keeps its keys in a folder.
fn served(by: &Certificates, keys: &Path, more: &str) -> String {
    std::fs::create_dir_all(keys).unwrap();
    let Certificates { certificate, key, .. } = by;
    let (certificate, key, keys) = (certificate.display(), key.display(), keys.display());
    format!("ntsservercert {certificate}\nntsserverkey {key}\nntsdumpdir {keys}\n{more}")
}

/// A source that proves itself, by this authority.
fn proven(host: &str, authority: &Path) -> String {
    format!("[[source]]\nhost = {host:?}\nnts = true\npoll = 1\n[nts]\nca = {authority:?}\n")
}

fn ends(daemon: &mut Daemon) {
    daemon.process.signal(Signal::Term);
    assert!(daemon.process.wait(SOON).is_some(), "it does not end");
}

#[test]
fn a_server_that_proves_itself_is_followed_and_its_keys_outlive_the_daemon() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(by) = or_skip(Certificates::make(&dir, "ours", "192.0.2.1")) else { return };
    let keys = dir.join("keys");
    let Some(mut server) = or_skip(Chronyd::start(&net.server, &dir, &served(&by, &keys, "")))
    else {
        return;
    };
    let metrics = dir.join("metrics");
    let sections =
        proven("192.0.2.1", &by.authority) + &format!("[metrics]\nlisten = {metrics:?}\n");
    let state = format!("state = {:?}\nseccomp = \"kill\"", dir.join("state.json"));
    let setup = Setup { settings: &state, ..Setup::within(&net.client, &dir, &sections) };
    let mut daemon = setup.start();
    let mut watch = daemon.watch(Truth::host());
    watch.run_until_status(Status::Synchronised, SOON);
    watch.run(Duration::from_secs(20));
    println!("{}", watch.summary());
    let source = daemon.source();
    assert_eq!(source["authentication"], "nts", "{source:#}");
    assert_eq!(source["aead"], "AES-SIV-CMAC-256", "what both have");
    let log = daemon.process.output();
    assert!(log.contains("keys of 192.0.2.1:4460 (NTS, AES-SIV-CMAC-256, 8 cookies)"), "{log}");
    assert!(number(&source, "accepted") > 5, "{source:#}");
    assert_eq!(number(&source, "timeouts"), 0, "{source:#}");
    assert_eq!(source["address"], "192.0.2.1:123", "{source:#}");
    let text = at_socket(&metrics);
    let name = source["name"].as_str().unwrap();
    let cookies = sample(&text, &format!("truechimer_source_cookies{{source=\"{name}\"}}"));
    assert!((1.0..=8.0).contains(&cookies), "{cookies}");
    assert!(text.contains("authentication=\"nts\"} 1\n"), "{text}");
    ends(&mut daemon);
    // No exchange is possible now, and none is needed: the server knows the cookies by the keys it has kept.
    server.stop();
    drop(server);
    let elsewhere = served(&by, &keys, "ntsport 4461\n");
    let Some(mut server) = or_skip(Chronyd::start(&net.server, &dir, &elsewhere)) else { return };
    let mut daemon = setup.start();
    let mut watch = daemon.watch(Truth::host());
    watch.run_until_status(Status::Synchronised, SOON);
    let source = daemon.source();
    assert!(source["refused"].as_object().is_some_and(serde_json::Map::is_empty), "{source:#}");
    // Another key: the cookies are unknown, and new ones are fetched by themselves.
    server.stop();
    drop(server);
    let anew = served(&by, &dir.join("others"), "");
    let Some(_server) = or_skip(Chronyd::start(&net.server, &dir, &anew)) else { return };
    let before = number(&daemon.source(), "accepted");
    let source = daemon.source_when(|source| {
        source["refused"]["unprotected"].as_i64() > Some(0)
            && number(source, "accepted") > before + 3
    });
    let refused = &source["refused"];
    assert!(number(refused, "unauthentic") > 0, "{refused:#}");
    watch.run(Duration::from_secs(5));
    println!("{}", watch.summary());
}

/// Authorities of the system count where no file is named: an administrator adds his own to them.
#[test]
fn the_systems_own_authorities_are_believed() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(by) = or_skip(Certificates::make(&dir, "ours", "192.0.2.1")) else { return };
    let lines = served(&by, &dir.join("keys"), "");
    let Some(_server) = or_skip(Chronyd::start(&net.server, &dir, &lines)) else { return };
    let sections = "[[source]]\nhost = \"192.0.2.1\"\nnts = true\npoll = 1\n";
    let of_system = |name, authority: Option<&Path>| {
        let setup = Setup { name, ..Setup::within(&net.client, &dir, sections) };
        let script = "set -e; mount -t tmpfs none /etc/ssl; mkdir /etc/ssl/certs
            [ -z \"$1\" ] || cp \"$1\" /etc/ssl/certs/ca-certificates.crt; shift; exec \"$@\"";
        let mut command = net.client.command("unshare");
        command.args(["-m", "--", "sh", "-c", script, "sh"]);
        command.arg(authority.unwrap_or(Path::new("")));
        command.arg(binary::truechimer()).args(["run", "--config"]).arg(setup.write());
        setup.run(command)
    };
    let mut daemon = of_system("with", Some(&by.authority));
    let source = daemon.source_when(|source| number(source, "accepted") > 3);
    assert_eq!(source["authentication"], "nts", "{source:#}");
    ends(&mut daemon);
    let mut daemon = of_system("without", None);
    let source = daemon.source_when(|source| {
        source["trouble"].as_str().is_some_and(|trouble| trouble.contains("no keys from"))
    });
    assert_eq!(number(&source, "requests"), 0, "{source:#}");
    ends(&mut daemon);
}

/// The exchange is at another port, and names an NTP server at another address.
#[test]
fn the_exchange_says_where_the_server_is() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    ip(&net.server, &["address", "add", "192.0.2.11/24", "dev", "wire"]);
    let Some(by) = or_skip(Certificates::make(&dir, "ours", "192.0.2.1")) else { return };
    let more = "ntsport 4461\nntsntpserver 192.0.2.11\n";
    let lines = served(&by, &dir.join("keys"), more);
    let Some(_server) = or_skip(Chronyd::start(&net.server, &dir, &lines)) else { return };
    let sections = proven("192.0.2.1:4461", &by.authority);
    let setup = Setup {
        network: Some(&net.client),
        servers: Vec::new(),
        sections: &sections,
        ..Setup::new(&dir, "")
    };
    let mut daemon = setup.start();
    let mut watch = daemon.watch(Truth::host());
    watch.run_until_status(Status::Synchronised, SOON);
    let source = daemon.source();
    assert_eq!(source["address"], "192.0.2.11:123", "{source:#}");
    assert_eq!(source["name"], "192.0.2.1:4461", "{source:#}");
    watch.run(Duration::from_secs(3));
    println!("{}", watch.summary());
}

/// No server proved itself when the daemon began.
#[test]
fn a_server_that_proves_itself_is_followed_when_it_is_added_at_run_time() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(by) = or_skip(Certificates::make(&dir, "ours", "192.0.2.1")) else { return };
    let lines = served(&by, &dir.join("keys"), "");
    let Some(_server) = or_skip(Chronyd::start(&net.server, &dir, &lines)) else { return };
    let settings = format!("source-dir = {:?}", dir.join("more"));
    let sections = format!("[nts]\nca = {:?}\n", by.authority);
    let setup = Setup {
        network: Some(&net.client),
        servers: Vec::new(),
        settings: &settings,
        sections: &sections,
        ..Setup::new(&dir, "")
    };
    let mut daemon = setup.start();
    // It has nothing to follow yet.
    daemon.process.expect_output("sandbox: ", SOON);
    let add = ["sources", "add", "192.0.2.1", "nts=true", "poll=1"];
    let Answer { code, error, .. } = daemon::ask(&daemon.page, &add);
    assert_eq!((code, error.as_str()), (0, ""));
    let mut watch = daemon.watch(Truth::host());
    watch.run_until_status(Status::Synchronised, SOON);
    assert_eq!(daemon.source()["authentication"], "nts");
    println!("{}", watch.summary());
}

/// Reply to a request for keys by a client that names these protocols.
fn asked_by(network: &Namespace, protocols: &[&str]) -> Vec<u8> {
    // Next protocol NTP, AEAD_AES_SIV_CMAC_256, end.
    const REQUEST: [u8; 16] = [0x80, 1, 0, 2, 0, 0, 0x80, 4, 0, 2, 0, 15, 0x80, 0, 0, 0];
    let mut command = network.command("openssl");
    command.args(["s_client", "-quiet", "-tls1_3", "-connect", "192.0.2.1:4461"]).args(protocols);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut client = command.spawn().expect("openssl runs");
    let mut input = client.stdin.take().expect("a pipe");
    // It may have ended already.
    let _ = input.write_all(&REQUEST);
    // It ends with the connection, which the server closes.
    let output = client.wait_with_output().expect("it ends");
    drop(input);
    output.stdout
}

#[test]
fn who_cannot_prove_itself_is_never_believed() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(by) = or_skip(Certificates::make(&dir, "ours", "192.0.2.1")) else { return };
    let Some(other) = or_skip(Certificates::make(&dir, "other", "192.0.2.1")) else { return };
    let lines = served(&by, &dir.join("keys"), "");
    let Some(_server) = or_skip(Chronyd::start(&net.server, &dir, &lines)) else { return };
    for (name, host, authority, why) in [
        ("issuer", "192.0.2.1", &other.authority, "by an authority that is not known here"),
        ("name", "[2001:db8::1]", &by.authority, "certificate is for another name"),
        ("port", "192.0.2.1:123", &by.authority, "refused"),
    ] {
        let sections = proven(host, authority);
        let setup = Setup { name, ..Setup::within(&net.client, &dir, &sections) };
        let mut daemon = setup.start();
        let source = daemon.source_when(|source| {
            source["trouble"].as_str().is_some_and(|trouble| trouble.contains(why))
        });
        assert_eq!(
            (number(&source, "requests"), number(&source, "accepted")),
            (0, 0),
            "{source:#}"
        );
        assert_eq!(source["status"], "unreachable", "{source:#}");
        ends(&mut daemon);
    }
}

/// Answers that are no TLS, or end in the middle of it: no keys, and so nothing is sent.
#[test]
fn who_answers_with_rubbish_gives_no_keys() {
    let dir = temp::Dir::new();
    // An HTTP server, records of TLS without sense, one that promises more than comes, and nothing.
    let rubbish: [(&str, &[u8]); 4] = [
        ("http", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        ("records", &[22; 300]),
        ("short", &[22, 3, 3, 0x40, 0, 2]),
        ("nothing", &[]),
    ];
    for (name, bytes) in rubbish {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let _ = stream.and_then(|mut stream| stream.write_all(bytes));
            }
        });
        let sections = format!("[[source]]\nhost = {place:?}\nnts = true\npoll = 1\n");
        let setup =
            Setup { name, servers: Vec::new(), sections: &sections, ..Setup::new(&dir, "") };
        let mut daemon = setup.start();
        let source = daemon.source_when(|source| {
            source["trouble"].as_str().is_some_and(|trouble| trouble.contains("no keys from"))
        });
        assert_eq!(number(&source, "requests"), 0, "{source:#}");
        ends(&mut daemon);
    }
}

/// Connections that are taken and never answered: the others are followed meanwhile, second by second.
#[test]
fn an_exchange_that_hangs_holds_nobody_up() {
    let dir = temp::Dir::new();
    let server = daemon::Server::start(&dir, &["--listen", "127.0.0.1:0"]);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = silent.local_addr().unwrap();
    let sections = format!("[[source]]\nhost = \"{place}\"\nnts = true\npoll = 1\n");
    let setup = Setup {
        sections: &sections,
        settings: "authentication = \"ignore\"",
        ..Setup::new(&dir, server.address.clone())
    };
    let mut daemon = setup.start();
    let (mut held, _) = silent.accept().unwrap();
    held.set_nonblocking(true).unwrap();
    let end = Instant::now() + SOON;
    // Whether the client has not yet given up on the connection.
    let mut waits = || loop {
        match held.read(&mut [0; 4096]) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(why) => return why.kind() == ErrorKind::WouldBlock,
        }
    };
    let sources = |daemon: &Daemon| daemon.ask(&["sources"]).json;
    let mut meanwhile = 0;
    while waits() {
        let found = sources(&daemon);
        if found.is_array() && waits() {
            meanwhile = number(&found[0], "accepted");
            assert_eq!(number(&found[1], "requests"), 0, "{found:#}");
        }
        assert!(Instant::now() < end, "it does not give up: {found:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("{meanwhile} replies while the exchange hung");
    // A time path that waited would have had one at most.
    assert!(meanwhile >= 3, "{:#}", sources(&daemon));
    let told =
        |found: &Value| found[1]["trouble"].as_str().is_some_and(|t| t.contains("no keys from"));
    while !told(&sources(&daemon)) {
        assert!(Instant::now() < end, "{:#}", sources(&daemon));
        std::thread::sleep(Duration::from_millis(50));
    }
    ends(&mut daemon);
}

/// One that proves who it is, and then sends nonsense without end.
#[test]
fn who_is_known_and_says_nonsense_gives_no_keys() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(by) = or_skip(Certificates::make(&dir, "ours", "192.0.2.1")) else { return };
    let mut command = net.server.command("sh");
    let openssl = binary::system("openssl");
    let options = "s_server -quiet -accept 4460 -tls1_3 -alpn ntske/1";
    command.args(["-c", &format!("exec \"$0\" {options} -cert \"$1\" -key \"$2\" </dev/zero")]);
    command.arg(openssl).args([&by.certificate, &by.key]);
    let mut server = Process::start(command, &dir.join("s_server.log"));
    let sections = proven("192.0.2.1", &by.authority);
    let setup = Setup::within(&net.client, &dir, &sections);
    let mut daemon = setup.start();
    // Refused connections are from before it listens.
    let source = daemon.source_when(|source| {
        let trouble = source["trouble"].as_str().unwrap_or_default();
        trouble.contains("no keys from") && !trouble.contains("refused")
    });
    println!("{}", source["trouble"]);
    assert_eq!(number(&source, "requests"), 0, "{source:#}");
    assert!(server.is_running(), "{}", server.output());
    ends(&mut daemon);
}

/// Lets no more than 600 bytes onto the wire at once.
fn narrow(net: &Pair) {
    for end in [&net.server, &net.client] {
        ip(end, &["link", "set", "wire", "mtu", "600"]);
    }
}

fn ip(network: &Namespace, arguments: &[&str]) {
    let mut ip = network.command(binary::system("ip"));
    assert!(ip.args(arguments).status().unwrap().success(), "{arguments:?}");
}

/// Requests and replies that are longer than the path takes at once are sent in pieces.
#[test]
fn a_narrow_path_carries_what_nts_adds() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(by) = or_skip(Certificates::make(&dir, "ours", "192.0.2.1")) else { return };
    narrow(&net);
    let lines = served(&by, &dir.join("keys"), "");
    let Some(_server) = or_skip(Chronyd::start(&net.server, &dir, &lines)) else { return };
    let sections = proven("192.0.2.1", &by.authority);
    let setup = Setup::within(&net.client, &dir, &sections);
    let mut daemon = setup.start();
    let source = daemon.source_when(|source| number(source, "accepted") >= 5);
    assert_eq!(source["authentication"], "nts", "{source:#}");
    ends(&mut daemon);
}

/// Address at the client's end whose datagrams and connections go on to the server.
const BY_WAY_OF: &str = "192.0.2.3";
/// Port of the NTP server behind it: a client that serves as well has 123 for itself.
const PORT: u16 = 1123;
/// Datagrams are lost each way. Which ones is a matter of the seed and of their number: each test meets the same.
const FIFTH: &str = "delay=1ms,jitter=200us,loss=0.2";
const SEED: &str = "7";

/// A narrow path to a server that loses a fifth of the datagrams each way, and no connection.
struct Lossy {
    datagrams: Process,
    connections: Process,
}

impl Lossy {
    fn to(net: &Pair, port: u16, dir: &temp::Dir) -> Lossy {
        narrow(net);
        ip(&net.client, &["address", "add", &format!("{BY_WAY_OF}/24"), "dev", "wire"]);
        let start = |arguments: &[&str], says: &str| {
            let mut command = net.client.command(binary::testbed());
            command.args(arguments);
            let mut process = Process::start(command, &dir.join(&format!("{says}.log")));
            process.expect_output(says, SOON);
            process
        };
        let [near, far] = [BY_WAY_OF.to_owned(), SERVER.to_string()]
            .map(|host| [format!("{host}:{port}"), format!("{host}:4460")]);
        Lossy {
            datagrams: start(&["relay", &near[0], &far[0], SEED, FIFTH, FIFTH], "relaying"),
            connections: start(&["pass", &near[1], &far[1]], "passing"),
        }
    }

    /// Number of times that keys were asked for.
    fn exchanges(&self) -> usize {
        self.connections.output().matches("a connection").count()
    }
}

/// Cookies that a daemon has kept at its end.
fn kept(dir: &temp::Dir) -> usize {
    let text = std::fs::read_to_string(dir.join("nts.json")).unwrap();
    let kept: Value = serde_json::from_str(&text).unwrap();
    kept[0]["cookies"].as_array().unwrap().len()
}

/// A daemon of ours that follows by way of what loses packets, with its state beside it.
fn follower(net: &Pair, dir: &temp::Dir, authority: &Path) -> Daemon {
    let setup = Setup {
        name: "follower",
        network: Some(&net.client),
        servers: Vec::new(),
        sections: &proven(BY_WAY_OF, authority),
        settings: &format!("state = {:?}", dir.join("state.json")),
        ..Setup::new(dir, "")
    };
    setup.start()
}

/// More packets are lost than there are cookies, and one exchange of keys is enough: each reply brings those back that
/// were lost before it.
fn cookies_come_back(lossy: &Lossy, mut daemon: Daemon, dir: &temp::Dir) {
    let mut watch = daemon.watch(Truth::host());
    watch.run_until_status(Status::Synchronised, SOON);
    let lost = |source: &Value| number(source, "requests") - number(source, "accepted");
    let source = daemon.source_when(|source| lost(source) > 12 && number(source, "accepted") > 12);
    assert!(source["refused"].as_object().is_some_and(serde_json::Map::is_empty), "{source:#}");
    assert!((1..=8).contains(&number(&source, "cookies")), "{source:#}");
    watch.run(Duration::from_secs(1));
    println!("{} of {} lost\n{}", lost(&source), source["requests"], watch.summary());
    ends(&mut daemon);
    assert_eq!(lossy.exchanges(), 1, "{source:#}");
    // The last few requests may not have been answered.
    assert!((3..=8).contains(&kept(dir)), "{}", kept(dir));
}

#[test]
fn of_a_chronyd_that_is_heard_two_times_in_three_cookies_come_back() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(by) = or_skip(Certificates::make(&dir, "ours", BY_WAY_OF)) else { return };
    let lines = served(&by, &dir.join("keys"), "");
    let place = SocketAddr::new(SERVER, PORT);
    let Some(_server) = or_skip(Chronyd::at(&net.server, &dir, place, &lines)) else { return };
    let lossy = Lossy::to(&net, PORT, &dir);
    cookies_come_back(&lossy, follower(&net, &dir, &by.authority), &dir);
    // With nothing but losses the cookies run out, and others are fetched, more and more patiently; once packets come
    // through again all is as before.
    lossy.datagrams.signal(Signal::Stop);
    std::fs::remove_file(dir.join("nts.json")).unwrap();
    let mut daemon = follower(&net, &dir, &by.authority);
    let before = lossy.exchanges();
    // Three times eight requests, and keys as often.
    let source = daemon.source_when(|source| number(source, "timeouts") >= 24);
    assert!((2..=4).contains(&(lossy.exchanges() - before)), "{source:#}");
    lossy.datagrams.signal(Signal::Continue);
    let source = daemon.source_when(|source| number(source, "accepted") > 5);
    assert!((2..=4).contains(&(lossy.exchanges() - before)), "{source:#}");
    ends(&mut daemon);
    assert!((3..=8).contains(&kept(&dir)), "{}", kept(&dir));
}

#[test]
fn of_an_ntpd_that_is_heard_two_times_in_three_cookies_come_back() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(by) = or_skip(Certificates::make(&dir, "ours", BY_WAY_OF)) else { return };
    let lines = proving(&by, &dir, "tos orphan 3 orphanwait 1\n");
    let Some(mut server) = or_skip(ntpd(&net.server, &dir, &lines)) else { return };
    answers_in_time(&net, &mut server);
    let lossy = Lossy::to(&net, 123, &dir);
    cookies_come_back(&lossy, follower(&net, &dir, &by.authority), &dir);
}

/// Waits until a server gives the time: an orphan waits for others first.
fn answers_in_time(net: &Pair, server: &mut Process) {
    let end = Instant::now() + SOON;
    while !ask(&net.client, SERVER).is_ok_and(|said| said["synchronised"] == true) {
        assert!(server.is_running() && Instant::now() < end, "{}", server.output());
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Lines for an ntpd that proves itself, by a key of cookies of its own.
fn proving(by: &Certificates, dir: &temp::Dir, more: &str) -> String {
    let (certificate, key) = (by.certificate.display(), by.key.display());
    let cookies = dir.join("cookie-keys");
    format!(
        "nts enable\nnts cert {certificate}\nnts key {key}\nnts cookie {}\n{more}",
        cookies.display()
    )
}

/// Number behind this word in what a server of ours said at its end.
fn tally(said: &str, word: &str) -> u64 {
    let mut words = said.split([' ', ',', '\n']).skip_while(|found| *found != word);
    words.nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[test]
fn to_a_chronyd_and_an_ntpd_that_hear_us_two_times_in_three_cookies_come_back() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(by) = or_skip(Certificates::make(&dir, "ours", BY_WAY_OF)) else { return };
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let (certificate, key) = (path(&by.certificate), path(&by.key));
    let place = SocketAddr::new(SERVER, PORT).to_string();
    let options = ["--listen", &place, "--allow", "192.0.2.0/24", "--nts-cert", &certificate];
    let options = [options.as_slice(), &["--nts-key", &key]].concat();
    let mut chain = Chain::start(&net.server, &dir, &options);
    let lossy = Lossy::to(&net, PORT, &dir);
    let authority = by.authority.display();
    let lines =
        format!("server {BY_WAY_OF} nts minpoll 0 maxpoll 0 iburst\nntstrustedcerts {authority}\n");
    let Some(mut chrony) = or_skip(Client::of(&net.client, &dir, &lines)) else { return };
    let number = |said: &str, row: &str| -> Option<i64> {
        said.lines().find(|line| line.starts_with(row))?.rsplit(' ').next()?.parse().ok()
    };
    let said = chrony.expect(&["ntpdata", BY_WAY_OF], |said| {
        number(said, "Total TX") > number(said, "Total RX").map(|heard| heard + 12)
    });
    println!("{said}");
    chrony.expect(&["sources"], |said| said.contains(&format!("^* {BY_WAY_OF}")));
    // The last but one is how many cookies there are, behind the attempts and the NAKs.
    let keys = chrony.expect(&["-c", "authdata"], |said| said.contains("NTS"));
    println!("{keys}");
    let counts: Vec<i64> = keys.trim().split(',').rev().take(4).flat_map(str::parse).collect();
    assert!(matches!(counts[..], [_, 1..=8, 0, 0]), "{keys}");
    assert_eq!(lossy.exchanges(), 1);
    drop(chrony);
    let lines = format!("server {BY_WAY_OF} nts ca {authority} iburst minpoll 3 maxpoll 3\n");
    let Some(mut process) = or_skip(ntpd(&net.client, &dir, &lines)) else { return };
    ntpd_follows(&net.client, &mut process, BY_WAY_OF.parse().unwrap());
    assert_eq!(lossy.exchanges(), 2);
    let said = chain.ends();
    println!("{said}");
    assert!(tally(&said, "nts") > 20 && !said.contains("nts_naks"), "{said}");
}

/// A machine without a battery: its system clock, years behind, calls the certificate not valid yet. It may be taken if
/// the user says so, and is judged anew once the clock is set; one that has expired by a clock that is ahead is not.
#[test]
fn a_clock_that_is_not_set_yet_speaks_against_no_certificate_if_the_user_says_so() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(by) = or_skip(Certificates::make(&dir, "ours", "192.0.2.1")) else { return };
    let lines = served(&by, &dir.join("keys"), "");
    let Some(_server) = or_skip(Chronyd::start(&net.server, &dir, &lines)) else { return };
    let plain = proven("192.0.2.1", &by.authority);
    let willing = format!("{plain}unset-clock = true\n");
    let year = 365 * 86_400;
    for (name, sections, years, trouble) in [
        ("strict", &plain, -8, Some("not valid yet")),
        ("ahead", &willing, 8, Some("has expired")),
        ("willing", &willing, -8, None),
    ] {
        let environment = warped(&format!("offset={}s", years * year), None);
        let setup = Setup { name, environment, ..Setup::within(&net.client, &dir, sections) };
        let mut daemon = setup.start();
        if let Some(why) = trouble {
            let source = daemon.source_when(|source| {
                source["trouble"].as_str().is_some_and(|trouble| trouble.contains(why))
            });
            assert_eq!(number(&source, "accepted"), 0, "{source:#}");
        } else {
            let mut watch = daemon.watch(Truth::host());
            daemon.process.expect_output("certificates (NTS) are judged anew", SOON);
            daemon.source_when(|s| s["trouble"].is_null() && number(s, "accepted") > 4);
            watch.run(Duration::from_secs(3));
            println!("{}", watch.summary());
        }
        ends(&mut daemon);
    }
}

/// Served time is proven to clients of both makes, also after the server has begun anew.
#[test]
fn our_server_proves_itself_to_chronyd_and_to_us() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(by) = or_skip(Certificates::make(&dir, "ours", "192.0.2.1")) else { return };
    let keys = dir.join("cookie-keys");
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let (certificate, key, keys) = (path(&by.certificate), path(&by.key), path(&keys));
    let options = ["--allow", "192.0.2.0/24", "--nts-cert", &certificate, "--nts-key", &key]
        .into_iter()
        .chain(["--nts-cookie-keys", &keys, "--nts-port", "4461", "--seccomp", "--lock-memory"])
        .collect::<Vec<_>>();
    let mut chain = Chain::start(&net.server, &dir, &options);
    let authority = by.authority.display();
    let lines = format!(
        "server 192.0.2.1 nts ntsport 4461 minpoll 0 maxpoll 0 iburst\nntstrustedcerts {authority}\n"
    );
    let Some(mut chrony) = or_skip(Client::of(&net.client, &dir, &lines)) else { return };
    let sections =
        proven("192.0.2.1:4461", &by.authority).replacen("poll", "interleaved = true\npoll", 1);
    let setup = Setup { name: "follower", ..Setup::within(&net.client, &dir, &sections) };
    let mut daemon = setup.start();
    let follows = |daemon: &mut Daemon, more: i64| {
        let before = daemon.source_when(|source| source["accepted"].is_i64());
        let before = number(&before, "accepted");
        daemon.source_when(|source| number(source, "accepted") >= before + more)
    };
    let source = follows(&mut daemon, 5);
    assert_eq!(source["refused"].as_object().map(serde_json::Map::len), Some(0), "{source:#}");
    // Selected (*), and its keys are by NTS.
    chrony.expect(&["sources"], |said| said.contains("^* 192.0.2.1"));
    chrony.expect(&["authdata"], |said| said.contains("NTS"));
    // The cookies are good for the server that comes after it.
    chain.restart(&net.server, &dir, &options);
    let source = follows(&mut daemon, 5);
    let refused = &source["refused"];
    assert!(refused["unauthentic"].is_null() && refused["unprotected"].is_null(), "{source:#}");
    chrony.expect(&["sources"], |said| said.contains("^* 192.0.2.1"));
    // A certificate that cannot be used changes nothing; one by another authority is used from then on, by
    // those who have no keys yet.
    let Some(renewed) = or_skip(Certificates::make(&dir, "renewed", "192.0.2.1")) else { return };
    std::fs::copy(&renewed.certificate, &by.certificate).unwrap();
    chain.renew("those of before stay in use");
    std::fs::copy(&renewed.key, &by.key).unwrap();
    chain.renew("certificate and keys were read again");
    let sections = proven("192.0.2.1:4461", &renewed.authority);
    let setup = Setup { name: "newcomer", sections: &sections, ..setup };
    let mut newcomer = setup.start();
    follows(&mut newcomer, 3);
    let source = follows(&mut daemon, 5);
    assert!(source["refused"]["unauthentic"].is_null(), "{source:#}");
    // Whoever does not say that it speaks NTS gets nothing (RFC 8915, section 4).
    assert!(asked_by(&net.client, &["-alpn", "ntske/1"]).len() > 8 * 100);
    assert_eq!(asked_by(&net.client, &[]), [0; 0]);
    let tally = chain.ends();
    assert!(tally.contains("nts_exchanges_refused "), "{tally}");
    // Who is root in a namespace of users alone has no such right, and is held to its limit.
    let refused = ["warning: memory is not locked: ", "; it takes LimitMEMLOCK=infinity"];
    let refused = refused.iter().all(|part| tally.contains(part));
    assert!(refused || tally.contains("info: memory is locked"), "{tally}");
    assert!(tally.contains("nts ") && !tally.contains("nts_naks"), "{tally}");
    // To ours, which asks for it, each reply with proof says when the one before left.
    assert!(tally.contains("interleaved "), "{tally}");
}

/// AES-128-GCM-SIV with a chronyd that has it, each way: our daemon takes it where a server has nothing else, and a
/// chronyd takes it from our server because it likes it best.
#[test]
fn chronyd_and_we_prove_ourselves_by_the_other_algorithm() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(ours) = or_skip(Certificates::make(&dir, "ours", "192.0.2.1")) else { return };
    let Some(theirs) = or_skip(Certificates::make(&dir, "theirs", "192.0.2.2")) else { return };
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let (certificate, key) = (path(&ours.certificate), path(&ours.key));
    let options = ["--allow", "192.0.2.0/24", "--nts-cert", &certificate, "--nts-key", &key];
    let mut chain = Chain::start(&net.server, &dir, &options);
    // The client of our server is the server of our daemon, which is beside it.
    let lines = format!(
        "server 192.0.2.1 nts minpoll 0 maxpoll 0 iburst\nntstrustedcerts {}\n",
        ours.authority.display()
    );
    let by = Client::by(WITH_GCM_SIV, &net.client, &dir, &lines);
    let Some(mut client) = or_skip(by) else { return };
    let lines = served(&theirs, &dir.join("keys"), "ntsaeads 30\n");
    let address = SocketAddr::new([192, 0, 2, 2].into(), PORT);
    let by = Chronyd::by(WITH_GCM_SIV, &net.client, &dir, address, &lines);
    let Some(_server) = or_skip(by) else { return };
    let sections = proven("192.0.2.2", &theirs.authority);
    let setup = Setup { name: "follower", ..Setup::within(&net.server, &dir, &sections) };
    let mut daemon = setup.start();
    let source = daemon.source_when(|source| number(source, "accepted") > 8);
    assert_eq!(source["authentication"], "nts", "{source:#}");
    assert_eq!(source["aead"], "AES-128-GCM-SIV", "{source:#}");
    assert_eq!(source["refused"].as_object().map(serde_json::Map::len), Some(0), "{source:#}");
    client.expect(&["sources"], |said| said.contains("^* 192.0.2.1"));
    // Name, mode, number of the key, algorithm of RFC 5297 and 8452, its bits.
    let said = client.expect(&["-c", "authdata"], |said| said.contains(",NTS,"));
    println!("{said}");
    assert!(said.starts_with("192.0.2.1,NTS,1,30,128,"), "{said}");
    ends(&mut daemon);
    let tally = chain.ends();
    assert!(tally.contains("nts ") && !tally.contains("nts_naks"), "{tally}");
}

/// ntpd follows our server with proof, and proves itself to a daemon of ours.
#[test]
fn ntpd_and_we_prove_ourselves_to_one_another() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(ours) = or_skip(Certificates::make(&dir, "ours", "192.0.2.1")) else { return };
    let Some(theirs) = or_skip(Certificates::make(&dir, "theirs", "192.0.2.2")) else { return };
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let (certificate, key) = (path(&ours.certificate), path(&ours.key));
    let options = ["--allow", "192.0.2.0/24", "--nts-cert", &certificate, "--nts-key", &key];
    let mut chain = Chain::start(&net.server, &dir, &options);
    let authority = ours.authority.display();
    let follow = format!("server 192.0.2.1 nts ca {authority} iburst minpoll 3 maxpoll 3\n");
    let lines = proving(&theirs, &dir, &follow);
    let Some(mut process) = or_skip(ntpd(&net.client, &dir, &lines)) else { return };
    ntpd_follows(&net.client, &mut process, SERVER);
    let sections = proven(&CLIENT.to_string(), &theirs.authority);
    let setup = Setup { name: "follower", ..Setup::within(&net.server, &dir, &sections) };
    let mut daemon = setup.start();
    let source = daemon.source_when(|source| source["accepted"].as_i64() > Some(5));
    assert_eq!(source["authentication"], "nts", "{source:#}");
    assert_eq!(source["refused"].as_object().map(serde_json::Map::len), Some(0), "{source:#}");
    ends(&mut daemon);
    let tally = chain.ends();
    assert!(tally.contains("nts ") && !tally.contains("nts_naks"), "{tally}");
}

/// Three servers without proof that say the same, so far off; whoever is asked at their ports.
pub fn alike(network: &Namespace, dir: &temp::Dir, offset: &str) -> Vec<Process> {
    let one = |port: &u16| {
        let mut command = network.command(binary::truechimer());
        let at = format!("192.0.2.1:{port}");
        command.args(["serve", "--clock", "system", "--listen", &at]);
        command.args(["--offset", offset]);
        let mut process = Process::start(command, &dir.join(&format!("{port}{offset}.log")));
        process.expect_output("serving on", SOON);
        process
    };
    PORTS.iter().map(one).collect()
}

const PORTS: [u16; 3] = [1123, 1124, 1125];

/// The words for the sources' statuses and reasons.
pub fn words(daemon: &Daemon) -> Vec<(String, String)> {
    let answer = daemon.ask(&["sources"]);
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |source: &Value| (word(&source["status"]), word(&source["reason"]["kind"]));
    // None as long as nobody answers.
    answer.json.as_array().into_iter().flatten().map(of).collect()
}

/// Three plain servers that lie alike have no say beside one that proves itself: not when it is not
/// there yet, not when it is, and not once they have been right.
#[test]
fn those_without_proof_are_held_within_what_one_with_proof_says() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(by) = or_skip(Certificates::make(&dir, "ours", "192.0.2.1")) else { return };
    let lines = served(&by, &dir.join("keys"), "");
    let liars = alike(&net.server, &dir, "80ms");
    let sections = proven("192.0.2.1", &by.authority);
    let setup = Setup {
        network: Some(&net.client),
        servers: PORTS.iter().map(|port| format!("192.0.2.1:{port}")).collect(),
        sections: &sections,
        ..Setup::new(&dir, "")
    };
    let mut daemon = setup.start();
    let clock = daemon.clock();
    let word = |status: &str, reason: &str| (status.to_owned(), reason.to_owned());
    let unvouched = [(); 3].map(|()| word("candidate", "unvouched"));
    let end = Instant::now() + SOON;
    while !words(&daemon).starts_with(&unvouched) {
        assert!(Instant::now() < end, "{:?}", words(&daemon));
        assert!(!clock.now().is_ok_and(|now| now.status.bound_holds()));
        std::thread::sleep(Duration::from_millis(50));
    }
    let Some(_server) = or_skip(Chronyd::start(&net.server, &dir, &lines)) else { return };
    // Readings are held against the truth, which chronyd serves.
    let mut watch = daemon.watch(Truth::host());
    let outvoted = [(); 3].map(|()| word("falseticker", "outvoted"));
    watch.run_until_so(SOON, "the liars are outvoted", || {
        let found = words(&daemon);
        found.starts_with(&outvoted) && found[3].0 == "selected"
    });
    watch.run(Duration::from_secs(10));
    println!("{}", watch.summary());
    ends(&mut daemon);
    drop(liars);
    // Right at first, they have a part; then they turn, all together.
    let honest = alike(&net.server, &dir, "0ms");
    let mut daemon = setup.start();
    let mut watch = daemon.watch(Truth::host());
    let agrees = |words: &[(String, String)]| {
        !words.is_empty()
            && words
                .iter()
                .all(|(status, _)| matches!(&**status, "selected" | "combined" | "truechimer"))
    };
    watch.run_until_so(SOON, "all four agree", || agrees(&words(&daemon)));
    drop(honest);
    let _liars = alike(&net.server, &dir, "-80ms");
    watch.run_until_so(SOON, "the three are outvoted again", || {
        let found = words(&daemon);
        let liars = found.iter().take(3);
        liars.filter(|(status, _)| status == "falseticker").count() == 3 && agrees(&found[3..])
    });
    watch.run(Duration::from_secs(10));
    watch.run_until_status(Status::Synchronised, SOON);
    println!("{}", watch.summary());
    let last = watch.samples.last().expect("there are some");
    assert!(last.error_ns().abs() < 10_000_000, "{last:?}");
}

#[test]
fn the_key_to_another_certificate_is_told_as_that() {
    let dir = temp::Dir::new();
    let Some(by) = or_skip(Certificates::make(&dir, "ours", "192.0.2.1")) else { return };
    let Some(other) = or_skip(Certificates::make(&dir, "other", "192.0.2.1")) else { return };
    let mut serve = Command::new(binary::truechimer());
    serve.args(["serve", "--listen", "127.0.0.1:0", "--page"]).arg(dir.join("clock"));
    serve.arg("--nts-cert").arg(&by.certificate).arg("--nts-key").arg(&other.key);
    let output = serve.stdin(Stdio::null()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("it is not the key to the first certificate in "), "{error}");
}
