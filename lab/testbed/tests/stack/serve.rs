//! Serving our clock: other people's clients on the far end of a wire.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use truechimer_ntp::{LeapIndicator, Mode, Packet, RefId, Timestamp};
use truechimer_testbed::chrony;
use truechimer_testbed::daemon::{Daemon, SOON, Server, Setup};
use truechimer_testbed::exchange::exchange;
use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_testbed::namespace::{CLIENT, Namespace, Pair, SERVER, SERVER_V6};
use truechimer_testbed::process::{self, Process, Signal};
use truechimer_testbed::watch::{long, median};
use truechimer_testbed::{binary, temp};

use crate::number;

/// Lead of the time that is served over the host's, ns: clients that follow are seen to.
const AHEAD_NS: i64 = 1_000_000;
/// A second address of the server's.
const SECOND: &str = "192.0.2.77";

/// A source, a daemon that follows it, and a server of the daemon's clock, all in one namespace.
pub struct Chain {
    daemon: Daemon,
    _source: Process,
    server: Process,
}

impl Chain {
    pub fn start(network: &Namespace, dir: &temp::Dir, options: &[&str]) -> Chain {
        let mut command = network.command(binary::truechimer());
        command.args([
            "serve",
            "--clock",
            "system",
            "--listen",
            "127.0.0.1:11123",
            "--offset",
            "1ms",
        ]);
        let mut source = Process::start(command, &dir.join("source.log"));
        source.expect_output("serving on", SOON);
        let setup = Setup { network: Some(network), ..Setup::new(dir, "127.0.0.1:11123") };
        let daemon = setup.start();
        let server = served(network, dir, &daemon, options);
        Chain { daemon, _source: source, server }
    }

    /// Ends the server and starts another one; what the former said.
    pub fn restart(&mut self, network: &Namespace, dir: &temp::Dir, options: &[&str]) -> String {
        let said = self.ends();
        self.server = served(network, dir, &self.daemon, options);
        said
    }

    /// Tells the server to read certificate and keys again, and waits until it says this.
    pub fn renew(&mut self, said: &str) {
        self.server.signal(Signal::Hangup);
        self.server.expect_output(said, SOON);
    }

    /// Ends the server; what it said.
    pub fn ends(&mut self) -> String {
        self.server.signal(Signal::Term);
        assert!(self.server.wait(SOON).is_some(), "the server does not end");
        self.server.output()
    }
}

/// A server of the daemon's clock that is synchronised.
fn served(network: &Namespace, dir: &temp::Dir, daemon: &Daemon, options: &[&str]) -> Process {
    let mut command = network.command(binary::truechimer());
    command.args(["serve", "--clock", "page", "--page"]).arg(&daemon.page).args(options);
    let mut server = Process::start(command, &dir.join("server.log"));
    server.expect_output("Z synchronised: stratum 11", SOON);
    server
}

/// Asks a server from within `network`; the last word if it does not answer for a while.
pub fn ask(network: &Namespace, address: IpAddr) -> Result<Value, String> {
    let end = Instant::now() + Duration::from_secs(5);
    loop {
        let mut command = network.command(binary::testbed());
        let output =
            command.args(["exchange", &SocketAddr::new(address, 123).to_string()]).output();
        let output = output.expect("the test bed runs");
        if output.status.success() {
            return Ok(serde_json::from_slice(&output.stdout).expect("JSON"));
        }
        if Instant::now() >= end {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
    }
}

/// True time lies within what the server claims of itself and what the exchange may hide: its error
/// and the distance that it claims, ns.
fn assert_within(said: &Value, ahead_ns: i64) -> (i64, i64) {
    let distance = number(said, "root_delay_ns") / 2 + number(said, "root_dispersion_ns");
    let error = number(said, "offset_ns") - ahead_ns;
    // 20 ns for what is read of the host's clock and rounded.
    let allowed = distance + number(said, "rtt_ns") / 2 + 20;
    assert!(error.abs() <= allowed, "off by {error} ns, {allowed} ns allowed: {said:#}");
    (error, distance)
}

/// A client of another make, at the far end of the wire.
pub struct Client {
    process: Process,
    dir: PathBuf,
}

impl Client {
    /// chronyd with `-x`: its own idea of time is followed, and the system's left alone.
    fn chronyd(network: &Namespace, dir: &temp::Dir) -> Result<Client, Lacking> {
        let servers = format!(
            "server {SERVER} minpoll 0 maxpoll 0 xleave iburst\n\
             server {SERVER_V6} minpoll 0 maxpoll 0 iburst\n"
        );
        Client::of(network, dir, &servers)
    }

    /// Likewise, of the servers in these lines.
    pub fn of(network: &Namespace, dir: &temp::Dir, servers: &str) -> Result<Client, Lacking> {
        Client::by(chrony::PROGRAM, network, dir, servers)
    }

    /// Likewise, by this program.
    pub fn by(
        program: &str,
        network: &Namespace,
        dir: &temp::Dir,
        servers: &str,
    ) -> Result<Client, Lacking> {
        chrony::runs(program)?;
        let own = dir.join("client");
        std::fs::create_dir(&own).expect("a folder can be made");
        // It asks for a folder that nobody else can enter.
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&own, private).expect("the folder is ours");
        let text = format!(
            "{servers}allow 127.0.0.1\ncmdport 0\nbindcmdaddress {}\nuser root\npidfile {}\n",
            own.join("socket").display(),
            own.join("pid").display()
        );
        let configuration = own.join("chrony.conf");
        std::fs::write(&configuration, text).expect("the configuration can be written");
        let mut command = network.command(binary::system(program));
        command.args(["-d", "-x", "-f"]).arg(configuration);
        Ok(Client { process: Process::start(command, &own.join("log")), dir: own })
    }

    /// Output of chronyc.
    fn chronyc(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(binary::system("chronyc"));
        command.arg("-h").arg(self.dir.join("socket")).arg("-n").args(arguments);
        let output = command.output().expect("chronyc runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Waits until chronyc's answer is as wanted.
    pub fn expect(&mut self, arguments: &[&str], wanted: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + SOON;
        loop {
            let said = self.chronyc(arguments);
            if wanted(&said) {
                return said;
            }
            let running = self.process.is_running();
            assert!(
                running && Instant::now() < end,
                "{arguments:?}:\n{said}\n{}",
                self.process.output()
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

#[test]
fn chronyd_follows_our_clock_within_the_bound() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let mut command = net.server.command(binary::system("ip"));
    command.args(["address", "add", &format!("{SECOND}/24"), "dev", "wire"]);
    assert!(command.status().expect("ip runs").success());
    let options = ["--allow", "192.0.2.0/24", "--allow", "2001:db8::/64"];
    let _chain = Chain::start(&net.server, &dir, &options);
    let Some(mut client) = or_skip(Client::chronyd(&net.client, &dir)) else { return };
    // Both are fit to be followed, and one is.
    let sources = client.expect(&["-c", "sources"], |said| {
        let fit = |line: &&str| line.starts_with("^,*,") || line.starts_with("^,+,");
        said.lines().filter(fit).count() == 2 && said.contains("^,*,")
    });
    println!("{sources}");
    assert!(sources.lines().all(|line| line.split(',').nth(3) == Some("11")), "{sources}");
    let data = client.expect(&["ntpdata", &SERVER.to_string()], |said| {
        said.contains("Interleaved     : Yes") && said.contains("RX timestamping : Kernel")
    });
    println!("{data}");

    let (mut served, mut followed) = (Vec::new(), Vec::new());
    let end = Instant::now() + long(Duration::from_secs(15));
    while Instant::now() < end {
        for address in [SERVER, SERVER_V6, SECOND.parse().expect("an address")] {
            let said = ask(&net.client, address).expect("it answers");
            assert_eq!(
                (&said["synchronised"], &said["stratum"]),
                (&true.into(), &11.into()),
                "{said:#}"
            );
            served.push(assert_within(&said, AHEAD_NS).0.abs());
        }
        // The client's own time, as it serves it to itself.
        let said = ask(&net.client, IpAddr::from([127, 0, 0, 1])).expect("chronyd answers");
        assert_eq!(said["stratum"], 12, "{said:#}");
        followed.push(assert_within(&said, AHEAD_NS).0.abs());
        std::thread::sleep(Duration::from_millis(200));
    }
    println!(
        "looked at {} times: the served time was {} ns off, chronyd's behind it {} ns (medians, with \
         what the exchange itself adds)",
        followed.len(),
        median(served.into_iter()),
        median(followed.iter().copied()),
    );
    assert!(followed.len() > 3, "hardly looked");
}

#[test]
fn a_daemon_of_ours_is_told_when_our_replies_left() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let mut chain = Chain::start(&net.server, &dir, &["--allow", "192.0.2.0/24"]);
    let sections = "[[source]]\nhost = \"192.0.2.1\"\npoll = 1\ninterleaved = true\n";
    let setup = Setup { name: "follower", ..Setup::within(&net.client, &dir, sections) };
    let mut daemon = setup.start();
    daemon.source_when(|source| {
        source["interleaved"] == true && source["accepted"].as_i64() > Some(8)
    });
    let said = chain.ends();
    assert!(said.contains("interleaved "), "{said}");
}

#[test]
fn ntpd_accepts_our_clock() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let _chain = Chain::start(&net.server, &dir, &["--allow", &CLIENT.to_string()]);
    let lines = format!("server {SERVER} iburst minpoll 3 maxpoll 3\n");
    let Some(mut client) = or_skip(ntpd(&net.client, &dir, &lines)) else { return };
    ntpd_follows(&net.client, &mut client, SERVER);
}

/// ntpsec's ntpd with this configuration, if it is installed. (The clock it may not touch, so that
/// its own time stays what it was.)
pub fn ntpd(network: &Namespace, dir: &temp::Dir, lines: &str) -> Result<Process, Lacking> {
    let ntpd = binary::system("ntpd");
    let there = Command::new(&ntpd).arg("--version").output();
    there.map_err(|error| Lacking(format!("ntpd (package ntpsec): {error}")))?;
    let configuration = dir.join("ntp.conf");
    std::fs::write(&configuration, lines).expect("the configuration can be written");
    let mut command = network.command(ntpd);
    command.arg("-n").arg("-c").arg(&configuration).arg("-p").arg(dir.join("ntpd.pid"));
    Ok(Process::start(command, &dir.join("ntpd.log")))
}

/// Waits until it names our server, which it asks at this address, as its reference: its stratum is then ours + 1.
pub fn ntpd_follows(network: &Namespace, client: &mut Process, server: IpAddr) {
    let end = Instant::now() + SOON + Duration::from_secs(40);
    loop {
        let said = ask(network, IpAddr::from([127, 0, 0, 1]));
        if let Ok(said) = &said
            && said["stratum"] == 12
        {
            println!("{said:#}");
            assert_eq!(said["reference"], server.to_string());
            return;
        }
        let running = client.is_running();
        assert!(running && Instant::now() < end, "not followed: {said:?}\n{}", client.output());
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn who_is_not_allowed_gets_no_answer() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let mut chain = Chain::start(&net.server, &dir, &["--deny", "127.0.0.9"]);
    assert!(ask(&net.server, IpAddr::from([127, 0, 0, 1])).is_ok());
    assert!(ask(&net.client, SERVER).is_err());
    assert!(ask(&net.client, SERVER_V6).is_err());
    chain.server.signal(Signal::Term);
    assert_eq!(chain.server.wait(SOON).and_then(|status| status.code()), Some(0));
    let summary = chain.server.output();
    let summary = summary.lines().last().unwrap_or_default();
    println!("{summary}");
    assert!(summary.contains("denied ") && !summary.contains("kissed"), "{summary}");
}

#[test]
fn what_is_served_is_what_the_clock_is_worth() {
    let dir = temp::Dir::new();
    let source = Server::start(&dir, &["--listen", "127.0.0.1:0", "--offset", "1ms"]);
    let setup = Setup::new(&dir, &*source.address);
    // The server comes first, as it may at boot.
    let mut command = process::command(binary::truechimer());
    command.args(["serve", "--clock", "page", "--listen", "127.0.0.1:0", "--json", "--page"]);
    let mut server =
        Process::start(command_with(command, &dir.join("clock")), &dir.join("server.log"));
    server.expect_output("}\n", SOON);
    let output = server.output();
    let ready: Value = serde_json::from_str(output.lines().next().unwrap()).unwrap();
    let address: SocketAddr = ready["listen"][0].as_str().unwrap().parse().unwrap();
    let said = exchange(address).unwrap();
    assert_eq!(
        (&said["leap"], &said["stratum"], &said["reference"]),
        (&3.into(), &0.into(), &"INIT".into())
    );

    let mut daemon = setup.start();
    let fresh = until(address, |said| said["synchronised"] == true);
    assert_eq!((&fresh["leap"], &fresh["stratum"]), (&0.into(), &11.into()), "{fresh:#}");
    // Without its source the clock is worth less by the second, and still what it says.
    drop(source);
    let (_, before) = assert_within(&fresh, AHEAD_NS);
    let mut watch = daemon.watch(truechimer_testbed::truth::Truth {
        offset_ns: AHEAD_NS,
        ..truechimer_testbed::truth::Truth::host()
    });
    watch.run_until_status(truechimer::Status::Holdover, SOON);
    let later = until(address, |said| assert_within(said, AHEAD_NS).1 > before.max(100_000));
    assert_eq!(
        (&later["synchronised"], &later["stratum"]),
        (&true.into(), &11.into()),
        "{later:#}"
    );
    // Nor does it end with the daemon.
    daemon.process.signal(Signal::Kill);
    let (_, before) = assert_within(&later, AHEAD_NS);
    let last = until(address, |said| assert_within(said, AHEAD_NS).1 > 2 * before);
    assert_eq!(last["synchronised"], true);
    println!("root distance: {fresh:#} {later:#} {last:#}");

    server.signal(Signal::Term);
    assert_eq!(server.wait(SOON).and_then(|status| status.code()), Some(0));
    let output = server.output();
    let summary: Value = serde_json::from_str(output.lines().last().unwrap()).unwrap();
    assert!(number(&summary, "unsynchronised") >= 1, "{summary:#}");
    assert!(number(&summary, "answered") > number(&summary, "unsynchronised"), "{summary:#}");
}

fn command_with(mut command: Command, page: &std::path::Path) -> Command {
    command.arg(page);
    command
}

/// Asks until the answer is as wanted.
fn until(address: SocketAddr, wanted: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + SOON + SOON;
    loop {
        let said = exchange(address).expect("it answers");
        if wanted(&said) {
            return said;
        }
        assert!(Instant::now() < end, "not as wanted: {said:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn who_asks_too_often_is_told_so() {
    let dir = temp::Dir::new();
    let mut command = process::command(binary::truechimer());
    command.args(["serve", "--clock", "page", "--listen", "127.0.0.1:0", "--listen", "[::1]:0"]);
    command.args(["--threads", "2", "--rate", "1", "--burst", "8", "--json", "--page"]);
    let mut server =
        Process::start(command_with(command, &dir.join("none")), &dir.join("server.log"));
    server.expect_output("}\n", SOON);
    let output = server.output();
    let ready: Value = serde_json::from_str(output.lines().next().unwrap()).unwrap();
    let address: SocketAddr = ready["listen"][0].as_str().unwrap().parse().unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    socket.connect(address).unwrap();
    for id in 1..=100 {
        let request = Packet {
            version: 4,
            mode: Mode::Client,
            transmit_timestamp: Timestamp(id),
            ..Packet::default()
        };
        socket.send(&request.encode()).unwrap();
    }
    // Rubbish in between is passed over.
    for rubbish in [&[0x16; 12][..], &[0x17; 48], &[0x23; 47], &[0x2b; 48]] {
        socket.send(rubbish).unwrap();
    }
    let mut replies = Vec::new();
    let mut bytes = [0; 100];
    while let Ok(48) = socket.recv(&mut bytes) {
        replies.push(Packet::decode(&bytes).unwrap().0);
    }
    let kisses = replies.iter().filter(|reply| reply.reference_id == RefId(*b"RATE"));
    let kisses: Vec<_> = kisses.collect();
    println!("{} replies to 100 requests, {} kisses", replies.len(), kisses.len());
    assert!((9..90).contains(&replies.len()), "{}", replies.len());
    assert!((1..10).contains(&kisses.len()), "{kisses:?}");
    assert!(
        kisses.iter().all(|kiss| (kiss.stratum, kiss.leap) == (0, LeapIndicator::Unsynchronised))
    );

    server.signal(Signal::Term);
    assert_eq!(server.wait(SOON).and_then(|status| status.code()), Some(0));
    let output = server.output();
    let summary: Value = serde_json::from_str(output.lines().last().unwrap()).unwrap();
    let count = |name: &str| number(&summary, name);
    assert_eq!((count("received"), count("kissed")), (104, kisses.len() as i64), "{summary:#}");
    assert_eq!(count("answered") + count("limited") + count("kissed"), 100, "{summary:#}");
    assert_eq!((count("short"), count("mode"), count("version")), (2, 1, 1), "{summary:#}");
}
