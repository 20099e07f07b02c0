//! Following linuxptp's ptp4l, with nothing but PTP between it and us. It serves this host's time,
//! which is the truth.

use std::process::Command;
use std::time::Duration;

use truechimer::Status;
use truechimer_testbed::chrony::Chronyd;
use truechimer_testbed::daemon::{SOON, Setup};
use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_testbed::namespace::{Namespace, Pair};
use truechimer_testbed::process::{Process, Signal};
use truechimer_testbed::ptp4l::Ptp4l;
use truechimer_testbed::truth::Truth;
use truechimer_testbed::watch::{Sample, long};
use truechimer_testbed::{binary, temp};

use crate::{SETTLED, assert_kernel_stamps, assert_tight};

/// A grandmaster that says how good it is.
const GOOD: &str = "clockClass 6\nclockAccuracy 0x21";
/// ptp4l serves UTC where its stamps are software's.
const PORT: &str = "[[source]]\nptp = \"wire\"\ntimescale = \"utc\"\n";

#[test]
fn every_reading_is_within_its_bound() {
    follow(&[("two-step", "")]);
}

#[test]
fn a_domain_and_peer_to_peer_are_as_good() {
    follow(&[("domain", "domainNumber 24"), ("peer to peer", "delay_mechanism P2P")]);
}

#[test]
fn every_transport_is_as_good() {
    follow(&[
        ("udp6", "network_transport UDPv6"),
        ("udp6-link", "network_transport UDPv6\nudp6_scope 0x02"),
        ("ethernet", "network_transport L2"),
    ]);
}

#[test]
fn peer_to_peer_goes_by_every_transport() {
    follow(&[
        ("udp6 p2p", "network_transport UDPv6\ndelay_mechanism P2P"),
        ("ethernet p2p", "network_transport L2\ndelay_mechanism P2P"),
    ]);
}

fn follow(ways: &[(&str, &str)]) {
    for (name, more) in ways.iter().copied() {
        let Some(net) = or_skip(Pair::new()) else { return };
        let dir = temp::Dir::new();
        let more = format!("{GOOD}\n{more}");
        let Some(_master) = or_skip(Ptp4l::start(&net.server, &dir, (1, 128), &more)) else {
            return;
        };
        let keys = match name {
            "domain" => "domain = 24\n",
            "peer to peer" => "delay = \"p2p\"\n",
            "two-step" => "",
            // Transport, and the mechanism if it is another.
            way => &match way.split_once(' ') {
                Some((transport, delay)) => {
                    format!("transport = \"{transport}\"\ndelay = \"{delay}\"\n")
                }
                None => format!("transport = \"{way}\"\n"),
            },
        };
        let port = format!("{PORT}{keys}");
        let log = dir.join("log.jsonl");
        let settings = format!("replay-log = {log:?}\n");
        let with_log = Setup { settings: &settings, ..Setup::within(&net.client, &dir, &port) };
        let mut daemon = with_log.start();
        let mut watch = daemon.watch(Truth::host());
        watch.run(long(if name == "two-step" { SETTLED * 2 } else { Duration::from_secs(10) }));
        println!("{name}: {}", watch.summary());
        assert!(watch.samples.iter().all(|s| s.status == Status::Synchronised));
        assert_kernel_stamps(&daemon);
        let source = daemon.source();
        assert_eq!(source["kind"], "ptp", "{source:#}");
        assert_eq!(source["reference"], "01-01-01-01-01-01-01-01", "{source:#}");
        assert_eq!(source["ptp"]["master"]["grandmaster"], "01-01-01-01-01-01-01-01");
        assert_eq!(source["ptp"]["master"]["accuracy_ns"], 100, "{source:#}");
        let address = source["address"].as_str().unwrap();
        // Over Ethernet, and within the scope of the link, an address that is made of the card's.
        let from = match name.split(' ').next() {
            Some("udp6") => "[2001:db8::1]:319",
            Some("udp6-link" | "ethernet") => "[fe80::",
            _ => "192.0.2.1:319",
        };
        assert!(address.starts_with(from) && address.ends_with(":319"), "{source:#}");
        if name == "two-step" {
            assert_tight(&watch, &daemon, SETTLED);
        }
        // Every decision repeats from the log.
        daemon.process.signal(Signal::Term);
        assert!(daemon.process.wait(SOON).is_some());
        let replayed = Command::new(binary::lab()).arg("replay").arg(&log).output().unwrap();
        let said = String::from_utf8_lossy(&replayed.stdout);
        assert!(said.contains("every decision is the same to the last bit"), "{replayed:?}");
    }
}

#[test]
fn another_master_takes_over_and_without_one_the_bound_holds() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let start = |n: u8| or_skip(Ptp4l::start(&net.server, &dir, (n, n), GOOD));
    let (Some(mut first), Some(mut second)) = (start(1), start(2)) else { return };
    let mut daemon = Setup::within(&net.client, &dir, PORT).start();
    let mut watch = daemon.watch(Truth::host());
    let both = daemon.source_when(|source| {
        source["ptp"]["others"].as_array().is_some_and(|others| others.len() == 1)
    });
    assert_eq!(both["reference"], "01-01-01-01-01-01-01-01", "{both:#}");
    watch.run(Duration::from_secs(20));
    first.stop();
    daemon.source_when(|source| source["reference"] == "02-02-02-02-02-02-02-02");
    watch.run_until_status(Status::Synchronised, SOON);
    watch.run(Duration::from_secs(5));
    second.stop();
    watch.run_until_status(Status::Holdover, SOON);
    watch.run(Duration::from_secs(10));
    let alone = daemon.source();
    assert!(alone["trouble"].as_str().unwrap().contains("no PTP master"), "{alone:#}");
    second.resume();
    watch.run_until_status(Status::Synchronised, SOON);
    watch.run(Duration::from_secs(5));
    // The better one, back, is followed again.
    first.resume();
    daemon.source_when(|source| source["reference"] == "01-01-01-01-01-01-01-01");
    watch.run(Duration::from_secs(5));
    println!("{}", watch.summary());
    assert!(daemon.process.output().contains("follows the PTP master 01-01-01-01-01-01-01-01"));
}

/// ptp4l as it comes says nothing of its accuracy: it is followed once the user has.
#[test]
fn a_master_that_vouches_for_nothing_takes_the_users_word() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(_master) = or_skip(Ptp4l::start(&net.server, &dir, (1, 128), "")) else { return };
    let mut daemon = Setup::within(&net.client, &dir, PORT).start();
    let source = daemon.source_when(|source| source["refused"]["accuracy"].as_i64() > Some(2));
    assert!(source["trouble"].as_str().unwrap().contains("set `error`"), "{source:#}");
    assert_eq!(daemon.clock().status().unwrap(), Status::Unknown);
    drop(daemon);
    let sections = format!("{PORT}error = \"20us\"\n");
    let mut daemon = Setup::within(&net.client, &dir, &sections).start();
    let mut watch = daemon.watch(Truth::host());
    watch.run(Duration::from_secs(10));
    println!("{}", watch.summary());
    assert!(watch.samples.iter().all(|sample| sample.bound_ns() > 20_000));
}

#[test]
fn an_interface_that_is_not_there_is_told() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let sections = "[[source]]\nptp = \"nowire\"\n";
    let mut daemon = Setup::within(&net.client, &dir, sections).start();
    let source = daemon.source_when(|source| !source["trouble"].is_null());
    assert!(source["trouble"].as_str().unwrap().contains("no network interface nowire"));
}

/// The address of a host within the scope of the link.
fn link_local(host: &Namespace) -> String {
    let mut command = host.command(binary::system("ip"));
    command.args(["-6", "-o", "address", "show", "dev", "wire", "scope", "link"]);
    let shown = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let address = shown.split_whitespace().find_map(|word| word.strip_suffix("/64"));
    address.unwrap_or_else(|| panic!("no address: {shown}")).to_owned()
}

/// A transparent clock of our own that has each message for 5 ms: as it says so, the bound has little of that.
#[test]
fn what_a_transparent_clock_says_is_not_in_the_bound() {
    let [says, silent] = [true, false].map(|says| {
        let net = or_skip(Pair::new())?;
        let far = or_skip(net.behind_server())?;
        let dir = temp::Dir::new();
        let _master = or_skip(Ptp4l::start(&far, &dir, (1, 128), GOOD))?;
        let mut command = net.server.command(binary::testbed());
        command.args(["ptp-transparent", "198.51.100.2", "192.0.2.1", "5000"]);
        command.args((!says).then_some("silent"));
        let mut between = Process::start(command, &dir.join("transparent.log"));
        between.expect_output("is a transparent clock", SOON);
        let mut daemon = Setup::within(&net.client, &dir, PORT).start();
        let mut watch = daemon.watch(Truth::host());
        watch.run(long(Duration::from_secs(15)));
        println!("says: {says}: {}", watch.summary());
        assert!(watch.samples.iter().all(|sample| sample.status == Status::Synchronised));
        let source = daemon.source();
        assert_eq!(source["reference"], "01-01-01-01-01-01-01-01", "{source:#}");
        // The master sees no address of ours, nor we one of its.
        assert_eq!(source["address"], "192.0.2.1:319", "{source:#}");
        watch.samples.last().map(Sample::bound_ns)
    });
    let (Some(says), Some(silent)) = (says, silent) else { return };
    // Held for 5 ms and more on either way.
    assert!(silent >= 5_000_000, "{silent} ns");
    assert!(says < 2_500_000, "{says} ns");
}

/// A boundary clock on the way to the grandmaster adds what none of them states, 1 µs.
#[test]
fn a_grandmaster_behind_a_boundary_clock_is_followed() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(far) = or_skip(net.behind_server()) else { return };
    let Some(_grandmaster) = or_skip(Ptp4l::start(&far, &dir, (1, 128), GOOD)) else { return };
    let between = Ptp4l::on(&["far", "wire"], &net.server, &dir, (2, 200), "");
    let Some(_between) = or_skip(between) else { return };
    let mut daemon = Setup::within(&net.client, &dir, PORT).start();
    let mut watch = daemon.watch(Truth::host());
    watch.run(long(Duration::from_secs(15)));
    println!("{}", watch.summary());
    assert!(watch.samples.iter().all(|sample| sample.status == Status::Synchronised));
    let source = daemon.source();
    let master = &source["ptp"]["master"];
    assert_eq!(master["grandmaster"], "01-01-01-01-01-01-01-01", "{source:#}");
    assert_eq!(master["port"], "02-02-02-02-02-02-02-02 port 2", "{source:#}");
    assert_eq!((&master["steps_removed"], &source["stratum"]), (&1.into(), &2.into()));
    assert!(source["root_distance_ns"].as_i64() >= Some(1_100), "{source:#}");
}

/// A ptpd that serves this host's time on PTP's own timescale, and never touches it.
fn ptpd(network: &Namespace, dir: &temp::Dir) -> Result<Process, Lacking> {
    let program = binary::system("ptpd");
    Command::new(&program)
        .arg("--version")
        .output()
        .map_err(|why| Lacking(format!("ptpd (package ptpd): {why}")))?;
    let mut command = network.command(program);
    command.args(["-i", "wire", "-C", "-V", "-n", "-M", "--global:ignore_lock=1"]);
    command.args(
        [
            "delay_mechanism=E2E",
            "clock_class=6",
            "ptp_clock_accuracy=ACC_10US",
            "ptp_timescale=PTP",
        ]
        .into_iter()
        .chain(["utc_offset=37", "utc_offset_valid=Y"])
        .chain(["log_announce_interval=0", "log_sync_interval=0", "log_delayreq_interval=0"])
        .map(|setting| format!("--ptpengine:{setting}")),
    );
    let mut process = Process::start(command, &dir.join("ptpd.log"));
    process.expect_output("PTP_MASTER", SOON);
    Ok(process)
}

/// Another implementation, and another timescale than ptp4l has with stamps in software.
#[test]
fn a_ptpd_on_tai_is_followed() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(_master) = or_skip(ptpd(&net.server, &dir)) else { return };
    let mut daemon = Setup::within(&net.client, &dir, "[[source]]\nptp = \"wire\"\n").start();
    let mut watch = daemon.watch(Truth::host());
    watch.run(long(Duration::from_secs(15)));
    println!("{}", watch.summary());
    assert!(watch.samples.iter().all(|sample| sample.status == Status::Synchronised));
    assert_kernel_stamps(&daemon);
    let master = daemon.source()["ptp"]["master"].clone();
    assert_eq!(master["ptp_timescale"], true, "{master:#}");
    assert_eq!((&master["class"], &master["utc_offset_s"]), (&6.into(), &37.into()), "{master:#}");
    assert_eq!(master["accuracy_ns"], 10_000, "{master:#}");
}

/// Masters that speak to those alone who ask (16.1).
#[test]
fn masters_are_asked_by_address() {
    for (transport, network) in [("udp4", "UDPv4"), ("udp6", "UDPv6"), ("udp6-link", "UDPv6")] {
        let Some(net) = or_skip(Pair::new()) else { return };
        let dir = temp::Dir::new();
        let unicast = format!(
            "{GOOD}\nunicast_listen 1\ninhibit_multicast_service 1\nnetwork_transport {network}"
        );
        let start = Ptp4l::start(&net.server, &dir, (1, 128), &unicast);
        let Some(mut master) = or_skip(start) else { return };
        let address = match transport {
            "udp4" => "192.0.2.1".to_owned(),
            "udp6" => "2001:db8::1".to_owned(),
            _ => link_local(&net.server),
        };
        let sections = format!("{PORT}transport = \"{transport}\"\nmasters = [{address:?}]\n");
        let log = dir.join("log.jsonl");
        let settings = format!("replay-log = {log:?}\n");
        let mut daemon =
            Setup { settings: &settings, ..Setup::within(&net.client, &dir, &sections) }.start();
        let mut watch = daemon.watch(Truth::host());
        watch.run(long(Duration::from_secs(15)));
        println!("{transport}: {}", watch.summary());
        assert!(watch.samples.iter().all(|s| s.status == Status::Synchronised));
        assert_kernel_stamps(&daemon);
        let source = daemon.source();
        assert_eq!(source["reference"], "01-01-01-01-01-01-01-01", "{source:#}");
        for kind in ["announce", "sync", "delay_resp"] {
            assert_eq!(source["ptp"]["asked"][0][kind], "granted", "{source:#}");
        }
        // One that comes back has forgotten all, and is asked anew.
        master.stop();
        watch.run_until_status(Status::Holdover, SOON);
        master.resume();
        watch.run_until_status(Status::Synchronised, SOON);
        daemon.process.signal(Signal::Term);
        assert!(daemon.process.wait(SOON).is_some());
        let replayed = Command::new(binary::lab()).arg("replay").arg(&log).output().unwrap();
        let said = String::from_utf8_lossy(&replayed.stdout);
        assert!(said.contains("every decision is the same to the last bit"), "{replayed:?}");
    }
}

/// A grandmaster of IEEE 802.1AS as linuxptp ships it, which speaks to those alone who answer its own
/// questions. Its limit for the delay of the link is for stamps of hardware.
const GPTP: &str = "gmCapable 1\npriority2 248\nlogSyncInterval -3\nneighborPropDelayThresh 10000000\n\
                    min_neighbor_prop_delay -20000000\nassume_two_step 1\npath_trace_enabled 1\n\
                    follow_up_info 1\ntransportSpecific 0x1\nptp_dst_mac 01:80:C2:00:00:0E\n\
                    network_transport L2\ndelay_mechanism P2P\n";

#[test]
fn a_grandmaster_of_802_1as_is_followed() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let more = format!("{GOOD}\n{GPTP}");
    let Some(_master) = or_skip(Ptp4l::start(&net.server, &dir, (1, 246), &more)) else { return };
    let sections = format!("{PORT}profile = \"802.1as\"\n");
    let mut daemon = Setup::within(&net.client, &dir, &sections).start();
    let mut watch = daemon.watch(Truth::host());
    watch.run(long(Duration::from_secs(15)));
    println!("{}", watch.summary());
    assert!(watch.samples.iter().all(|sample| sample.status == Status::Synchronised));
    assert_kernel_stamps(&daemon);
    let source = daemon.source();
    assert_eq!(source["name"], "ptp:wire/ethernet/802.1as", "{source:#}");
    assert_eq!(source["reference"], "01-01-01-01-01-01-01-01", "{source:#}");
}

/// A master that serves a group alone is no master to those who ask it, and is not taken for one.
#[test]
fn a_master_that_is_not_asked_by_address_is_not_used() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(_master) = or_skip(Ptp4l::start(&net.server, &dir, (1, 128), GOOD)) else { return };
    let sections = format!("{PORT}masters = [\"192.0.2.1\", \"192.0.2.77\"]\n");
    let mut daemon = Setup::within(&net.client, &dir, &sections).start();
    let source = daemon.source_when(|source| {
        let trouble = source["trouble"].as_str().unwrap_or_default();
        trouble.contains("serves this port") && trouble.contains("192.0.2.77 does not answer")
    });
    println!("{}", source["trouble"]);
    assert_eq!(source["accepted"], 0, "{source:#}");
    assert_eq!(daemon.clock().status().unwrap(), Status::Unknown);
}

/// A master of our own that lies so, in the network of servers; and its log.
fn liar(net: &Pair, dir: &temp::Dir, lies: &str) -> Process {
    // Answered as soon as asked, where that is allowed: an exchange that takes longer than what a forged `Sync` lies by
    // makes it look true.
    let mut command = net.server.command("sh");
    command.args(["-c", "chrt --fifo --pid 1 $$ 2>&1; exec \"$@\"", "liar"]);
    command.arg(binary::testbed()).args(["ptp-master", "192.0.2.1", lies]);
    let mut process = Process::start(command, &dir.join("liar.log"));
    process.expect_output("is a master", SOON);
    process
}

/// An attack on a clock that follows an honest master of our own, and what comes of it.
struct Attack {
    /// Words of the master from then on; or, if `beside`, a second one, which has forged addresses and
    /// perhaps the name of the first.
    lies: &'static str,
    beside: bool,
    /// The status after 20 s of it; none: by chance, whether the forged or the true `Sync` comes first after a
    /// question.
    status: Option<Status>,
    /// A word of it in the log or under `refused`; empty: nothing is noticed, and the bound is wide enough.
    shows: &'static str,
    /// Distance by which the truth may be outside the bound, ns.
    beyond_ns: i64,
}

const fn attack(lies: &'static str, beside: bool, status: Status, shows: &'static str) -> Attack {
    Attack { lies, beside, status: Some(status), shows, beyond_ns: 0 }
}

/// All that docs/use/ptp.md has in its table of attacks.
const ATTACKS: [Attack; 14] = [
    // Rogue masters that announce themselves as better.
    attack("identity=2,priority=1", true, Status::Synchronised, "no longer 01-01"),
    attack("identity=2,priority=1,ahead=5000000", true, Status::Holdover, "step suspected"),
    attack(
        "identity=2,priority=1,ahead=3600000000000",
        true,
        Status::Holdover,
        "not accepted by itself",
    ),
    // Sync with the name and address of the master.
    Attack {
        lies: "identity=1,announce=0,answer=0,ahead=5000000",
        beside: true,
        status: None,
        shows: "",
        beyond_ns: 0,
    },
    attack("identity=1,announce=0,answer=0,ahead=-5000000", true, Status::Synchronised, ""),
    // One that says less than the exchange takes: the way there looks so much shorter.
    Attack {
        beyond_ns: 20_000,
        ..attack("identity=1,announce=0,answer=0,ahead=20000", true, Status::Synchronised, "")
    },
    // In numbers, so that each exchange is with one of them and all between the exchanges are.
    Attack {
        beyond_ns: 20_000,
        ..attack(
            "identity=1,announce=0,answer=0,ahead=20000,sync=100",
            true,
            Status::Synchronised,
            "",
        )
    },
    // Corrections that no clock on the way can have made.
    attack("identity=1,correction=2000000000", false, Status::Holdover, "\"correction\""),
    attack("identity=1,correction=10000000", false, Status::Holdover, "\"impossible-round-trip\""),
    attack("identity=1,correction=-10000000", false, Status::Synchronised, ""),
    // A path that holds up one direction, or both and says so.
    attack("identity=1,held=10000000", false, Status::Synchronised, ""),
    attack("identity=1,request-held=10000000", false, Status::Synchronised, ""),
    attack(
        "identity=1,held=10000000,request-held=10000000,correction=10000000",
        false,
        Status::Synchronised,
        "",
    ),
    // The master itself steps.
    attack("identity=1,ahead=5000000", false, Status::Holdover, "step suspected"),
];

/// The bound holds under every attack, to which the watch looks 20 times a second: but for a forged `Sync` that lies
/// by less than an exchange takes, by at most the lie.
#[test]
fn attacks_break_no_bound() {
    std::thread::scope(|threads| {
        for attack in &ATTACKS {
            threads.spawn(|| attack.run());
        }
    });
}

impl Attack {
    fn run(&self) {
        let Attack { lies, beside, beyond_ns, .. } = *self;
        let Some(net) = or_skip(Pair::new()) else { return };
        let dir = temp::Dir::new();
        let mut honest = liar(&net, &dir, "identity=1");
        let mut daemon = Setup::within(&net.client, &dir, PORT).start();
        let mut watch = daemon.watch(Truth::host());
        watch.run(Duration::from_secs(30));
        if !beside {
            honest.signal(Signal::Kill);
            assert!(honest.wait(SOON).is_some());
        }
        let _lying = liar(&net, &dir, lies);
        watch.beyond_ns = beyond_ns;
        watch.run(Duration::from_secs(20));
        println!("{lies}: {}", watch.summary());
        let told = || format!("{}{}", daemon.process.output(), daemon.source()["refused"]);
        watch.run_until_so(SOON, self.shows, || told().contains(self.shows));
        println!("{lies}: {}", daemon.source()["refused"]);
        // Not by one sample alone: a status may be in between.
        if let Some(status) = self.status {
            watch.run_until_status(status, SOON);
        }
    }
}

/// The better master gives no time; the other is followed again, and the bound holds meanwhile.
#[test]
fn a_master_that_gives_no_time_is_passed_over() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let _honest = liar(&net, &dir, "identity=1");
    let mut daemon = Setup::within(&net.client, &dir, PORT).start();
    let mut watch = daemon.watch(Truth::host());
    watch.run(Duration::from_secs(10));
    let _mute = liar(&net, &dir, "identity=2,priority=1,sync=0,answer=0");
    let follows = |clock: &str| {
        let clock = clock.to_owned();
        move |source: &serde_json::Value| {
            source["ptp"]["master"]["grandmaster"].as_str() == Some(clock.as_str())
        }
    };
    daemon.source_when(follows("02-02-02-02-02-02-02-02"));
    watch.run(Duration::from_secs(15));
    // Half a minute after the first announcements.
    daemon.source_when(follows("01-01-01-01-01-01-01-01"));
    watch.run_until_status(Status::Synchronised, SOON);
    watch.run(Duration::from_secs(10));
    println!("{}", watch.summary());
    let (told, master) = (daemon.process.output(), daemon.source()["ptp"]["master"].clone());
    assert!(told.contains("no longer 02-02-02-02-02-02-02-02"), "{told}");
    assert_eq!(master["grandmaster"], "01-01-01-01-01-01-01-01", "{master:#}");
}

/// Two servers outvote a master that is followed and lies: it does not even delay them.
#[test]
fn a_rogue_master_is_outvoted_by_servers() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dirs = [temp::Dir::new(), temp::Dir::new()];
    let addresses = ["192.0.2.1:1231", "192.0.2.1:1232"];
    let start = |place: usize| {
        let address: std::net::SocketAddr = addresses[place].parse().unwrap();
        or_skip(Chronyd::at(&net.server, &dirs[place], address, ""))
    };
    let (Some(_first), Some(_second)) = (start(0), start(1)) else { return };
    let dir = temp::Dir::new();
    let _honest = liar(&net, &dir, "identity=1");
    let with_servers = Setup {
        servers: addresses.map(String::from).to_vec(),
        ..Setup::within(&net.client, &dir, PORT)
    };
    let mut daemon = with_servers.start();
    let mut watch = daemon.watch(Truth::host());
    watch.run(Duration::from_secs(15));
    let _rogue = liar(&net, &dir, "identity=2,priority=1,ahead=5000000");
    let before = watch.samples.len();
    watch.run(Duration::from_secs(60));
    println!("{}", watch.summary());
    let status = |sample: &Sample| sample.status == Status::Synchronised;
    assert!(watch.samples[before..].iter().all(status), "{}", daemon.process.output());
    let sources = daemon.ask(&["sources"]).json;
    let port = sources.as_array().unwrap().iter().find(|source| source["kind"] == "ptp").unwrap();
    assert_eq!(port["status"], "falseticker", "{port:#}");
}
