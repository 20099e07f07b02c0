//! Interfaces that go down, vanish or are used, processes that are killed, packets that pass.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::bed::{FAR, NEAR, Sender, carries, frame, ip, until, with_wire};
use super::{drain, exchange, options};
use truechimer_capture::choose::{Wish, open};
use truechimer_capture::xdp::{Use, XdpOptions, XdpTap, uses};
use truechimer_capture::{Chunk, Method, Next, Tap};

/// Set for the process that is to capture and be killed.
const CHILD: &str = "TRUECHIMER_XDP_CHILD";

/// News that come and are no packet.
fn news(tap: &mut impl Tap) -> &'static str {
    for _ in 0..100 {
        match tap.next(Duration::from_millis(100)).unwrap() {
            Next::Chunk(_) | Next::Nothing => {}
            Next::Down => return "down",
            Next::Up => return "up",
            Next::Gone => return "gone",
        }
    }
    panic!("no news");
}

#[test]
fn an_interface_may_go_down_come_back_and_vanish() {
    with_wire(1, || {
        let mut tap = XdpTap::open(&options()).unwrap();
        let frames: Vec<_> = (0..50).map(|n| frame(n, 100)).collect();
        assert_eq!(exchange(&mut tap, &Sender::on(FAR), &frames).len(), 50);
        ip(&["link", "set", NEAR, "down"]);
        assert_eq!(news(&mut tap), "down");
        ip(&["link", "set", NEAR, "up"]);
        assert_eq!(news(&mut tap), "up");
        carries();
        assert_eq!(exchange(&mut tap, &Sender::on(FAR), &frames).len(), 50);
        ip(&["link", "del", NEAR]);
        assert_eq!(news(&mut tap), "down");
        assert_eq!(news(&mut tap), "gone");
        assert_eq!(news(&mut tap), "gone", "for good");
        assert_eq!(tap.losses().unwrap().received, 100);
    });
}

#[test]
fn packets_outlive_tap_and_interface() {
    with_wire(1, || {
        let mut tap = XdpTap::open(&options()).unwrap();
        let sender = Sender::on(FAR);
        (0..10).for_each(|n| sender.send(&frame(n, 100)).unwrap());
        let (mut held, mut packets): (Vec<Box<dyn Chunk>>, usize) = (Vec::new(), 0);
        while packets < 10 {
            if let Next::Chunk(chunk) = tap.next(Duration::from_secs(20)).unwrap() {
                packets += chunk.len();
                held.push(chunk);
            }
        }
        drop(tap);
        ip(&["link", "del", NEAR]);
        // Read, and given back to nobody, on another thread.
        let read = std::thread::spawn(move || {
            let mut bytes = 0;
            for chunk in &held {
                chunk.for_each(&mut |packet| bytes += packet.data.len());
            }
            bytes
        });
        assert_eq!(read.join().unwrap(), 1000);
    });
}

/// Nothing stays of a tap. (A process that another test has just forked may hold its descriptors
/// for a moment, until it becomes something else.)
pub fn is_gone() {
    until("the program is gone", || !ip(&["link", "show", NEAR]).contains("xdp"));
}

#[test]
fn a_queue_given_up_can_be_had_again_at_once_and_no_other() {
    with_wire(1, || {
        for _ in 0..5 {
            let tap = XdpTap::open(&options()).unwrap();
            let error = XdpTap::open(&options()).unwrap_err().to_string();
            assert!(error.contains("another program is there"), "{error}");
            drop(tap);
            is_gone();
        }
        let wish = XdpOptions { queues: Some(vec![7]), ..options() };
        let error = XdpTap::open(&wish).unwrap_err().to_string();
        assert!(error.contains("queue 7") && error.contains("ethtool -l"), "{error}");
        is_gone();
    });
}

#[test]
fn packets_pass_again_when_the_capture_is_killed() {
    with_wire(1, || {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "life::captures_until_killed", "--nocapture"])
            .env(CHILD, "yes")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("capturing") {
            line.clear();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "it ended");
        }
        assert!(ip(&["link", "show", NEAR]).contains("xdp"));
        child.kill().unwrap();
        child.wait().unwrap();
        is_gone();
        // And so is the socket.
        let mut tap = XdpTap::open(&options()).unwrap();
        assert_eq!(exchange(&mut tap, &Sender::on(FAR), &[frame(1, 100)]).len(), 1);
    });
}

/// Not a test: what the one above starts.
#[test]
fn captures_until_killed() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let mut tap = XdpTap::open(&options()).unwrap();
    println!("capturing");
    loop {
        assert!(!matches!(tap.next(Duration::from_secs(1)).unwrap(), Next::Gone));
    }
}

#[test]
fn what_the_host_uses_is_not_taken() {
    with_wire(1, || {
        assert_eq!(uses(NEAR).unwrap(), []);
        let refused = |part: &str| {
            let error = XdpTap::open(&options()).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("--take"), "{error}");
        };
        ip(&["address", "add", "192.0.2.2/24", "dev", NEAR]);
        refused("it has the address 192.0.2.2");
        ip(&["route", "add", "default", "via", "192.0.2.1"]);
        refused("a default route goes out by it");
        refused("a route to 192.0.2.0 goes out by it");
        ip(&["address", "flush", "dev", NEAR]);
        ip(&["route", "add", "default", "dev", NEAR]);
        assert_eq!(uses(NEAR).unwrap(), [Use::DefaultRoute]);
        drop(XdpTap::open(&XdpOptions { take: true, ..options() }).unwrap());
        ip(&["route", "del", "default"]);
        assert_eq!(uses(NEAR).unwrap(), []);
        let other = Sender::on(NEAR);
        assert_eq!(uses(NEAR).unwrap(), [Use::PacketSockets(1)]);
        refused("a packet socket of another program");
        drop(other);
        // Kinds that a kernel may lack.
        let made = |arguments: &[&str]| {
            Command::new("ip").args(arguments).output().unwrap().status.success()
        };
        if made(&["link", "add", "bridgeB", "type", "bridge"]) {
            ip(&["link", "set", NEAR, "master", "bridgeB"]);
            assert_eq!(uses(NEAR).unwrap(), [Use::PortOf("bridgeB".to_owned())]);
            refused("it is a port of bridgeB");
            ip(&["link", "set", NEAR, "nomaster"]);
        } else {
            println!("no bridges here");
        }
        if made(&["link", "add", "overB", "link", NEAR, "type", "macvlan"]) {
            assert_eq!(uses(NEAR).unwrap(), [Use::Below("overB".to_owned())]);
            refused("overB stands on it");
            // It may be a container's: then it does not show from here.
            let there = elsewhere().to_string();
            ip(&["link", "set", "overB", "netns", &there]);
            let up = ["-n", "-t", &there, "ip", "link", "set", "overB", "up"];
            assert!(Command::new("nsenter").args(up).status().unwrap().success());
            let found = uses(NEAR).unwrap();
            assert!(matches!(found.as_slice(), [Use::FurtherAddresses(1)]), "{found:?}");
            refused("further MAC addresses");
        } else {
            println!("no macvlan here");
        }
    });
}

/// The number of a process that sleeps for a minute in a network namespace of its own.
fn elsewhere() -> u32 {
    let mut child = Command::new("unshare")
        .args(["-n", "sh", "-c", "echo there; exec sleep 60"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pid = child.id();
    std::thread::spawn(move || child.wait());
    pid
}

#[test]
fn programs_of_tc_are_a_use() {
    with_wire(1, || {
        let status = Command::new("tc").args(["qdisc", "add", "dev", NEAR, "clsact"]).status();
        if !status.is_ok_and(|status| status.success()) {
            return println!("no tc here");
        }
        assert_eq!(uses(NEAR).unwrap(), [Use::Inspected]);
        let error = XdpTap::open(&options()).unwrap_err().to_string();
        assert!(error.contains("programs of tc") && error.contains("--take"), "{error}");
    });
}

#[test]
fn without_rights_the_error_names_them() {
    with_wire(1, || {
        let output = Command::new("setpriv")
            .args(["--bounding-set=-all", "--inh-caps=-all"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "life::is_refused", "--nocapture"])
            .env(CHILD, "without rights")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said} {}", String::from_utf8_lossy(&output.stderr));
        println!("{said}");
        for (right, times) in [("cap_bpf", 2), ("cap_net_admin", 2), ("cap_net_raw", 3)] {
            assert_eq!(said.matches(right).count(), times, "{right}: {said}");
        }
    });
}

/// Not a test: what the one above starts.
#[test]
fn is_refused() {
    if std::env::var_os(CHILD).is_none_or(|value| value != "without rights") {
        return;
    }
    for method in [Some(Method::Xdp), Some(Method::XdpCopy), None] {
        let wish = Wish { method, ..Wish::new(NEAR, options().counter) };
        match open(&wish) {
            Ok(_) => panic!("{method:?} works without rights"),
            Err(error) => println!("{error}"),
        }
    }
}

#[test]
fn packets_pass_once_it_is_told_to_stop() {
    with_wire(2, || {
        let mut tap = XdpTap::open(&options()).unwrap();
        let (sender, frames) = (Sender::on(FAR), (0..60).map(|n| frame(n, 100)));
        let frames: Vec<_> = frames.collect();
        frames.iter().for_each(|frame| sender.send(frame).unwrap());
        until("all seen", || tap.counts().unwrap().seen == 60);
        tap.stop().unwrap();
        frames.iter().for_each(|frame| sender.send(frame).unwrap());
        assert_eq!(drain(&mut tap, 60).len(), 60, "those from before");
        assert_eq!((tap.losses().unwrap().received, tap.counts().unwrap().seen), (60, 60));
    });
}

#[test]
fn an_interface_that_is_down_says_so_first() {
    with_wire(1, || {
        ip(&["link", "set", NEAR, "down"]);
        let mut tap = XdpTap::open(&options()).unwrap();
        assert_eq!(news(&mut tap), "down");
        ip(&["link", "set", NEAR, "up"]);
        assert_eq!(news(&mut tap), "up");
        carries();
        assert_eq!(exchange(&mut tap, &Sender::on(FAR), &[frame(1, 100)]).len(), 1);
    });
}

#[test]
fn auto_takes_nothing_from_a_virtual_wire_and_says_why() {
    with_wire(1, || {
        let counter = options().counter;
        let mut opened = open(&Wish::new(NEAR, counter)).unwrap();
        assert_eq!(opened.choice.method, Method::Packet);
        assert!(opened.choice.to_string().contains("not xdp: it would take"), "{}", opened.choice);
        assert_eq!(exchange(&mut *opened.tap, &Sender::on(FAR), &[frame(1, 100)]).len(), 1);
        drop(opened);
        for method in [Method::Xdp, Method::XdpCopy] {
            let wish = Wish { method: Some(method), ..Wish::new(NEAR, counter) };
            let mut opened = open(&wish).unwrap();
            assert_eq!((opened.choice.method, opened.tap.facts().method), (method, method));
            assert!(opened.warnings[0].contains("only what arrives"));
            assert_eq!(exchange(&mut *opened.tap, &Sender::on(FAR), &[frame(1, 100)]).len(), 1);
        }
    });
}

#[test]
fn nonsense_is_refused_in_words() {
    with_wire(1, || {
        let open = |interface: &str| {
            let wish = XdpOptions { interface: interface.to_owned(), ..options() };
            XdpTap::open(&wish).unwrap_err().to_string()
        };
        assert!(open("no-such-one").contains("`ip link` lists them"), "{}", open("no-such-one"));
        assert!(open("lo").contains("loopback"), "{}", open("lo"));
        let wish = XdpOptions { queues: Some(Vec::new()), ..options() };
        assert!(XdpTap::open(&wish).unwrap_err().to_string().contains("no queue"));
    });
}

/// A right that the program's file lends is enough for copies, and not for taking packets away; a
/// right of the user's own is.
#[test]
fn a_lent_right_takes_nothing_away() {
    with_wire(1, || {
        let copy = std::env::temp_dir().join(format!("truechimer-lent-{}", std::process::id()));
        std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
        // `setcap cap_net_raw,cap_net_admin,cap_ipc_lock,cap_bpf,cap_perfmon+ep FILE`, version 2.
        let words: [u32; 5] = [0x0200_0001, 1 << 12 | 1 << 13 | 1 << 14, 0, 1 << 6 | 1 << 7, 0];
        let value: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(&copy, "security.capability", &value, flags).unwrap();
        let said = [("--inh-caps=-all", "lent"), ("--inh-caps=-all,+net_admin", "own")].map(
            |(own, mark)| {
                let output = Command::new("setpriv")
                    .args(["--reuid=54321", "--regid=54321", "--clear-groups", own])
                    .arg(&copy)
                    .args(["--exact", "life::is_lent", "--nocapture"])
                    .env(CHILD, mark)
                    .current_dir("/")
                    .output()
                    .unwrap();
                let said = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(output.status.success(), "{said} {:?}", output.stderr.escape_ascii());
                said
            },
        );
        std::fs::remove_file(&copy).unwrap();
        let [lent, own] = said;
        for take in ["false", "true"] {
            assert!(lent.contains(&format!("take {take}: taking packets off")), "{lent}");
            assert!(own.contains(&format!("take {take}: works")), "{own}");
        }
        assert_eq!(lent.matches("(cap_net_admin) is lent by the program's file").count(), 2);
        assert!(lent.contains("copies: works") && own.contains("copies: works"), "{lent} {own}");
    });
}

/// Not a test: what the one above starts.
#[test]
fn is_lent() {
    if std::env::var_os(CHILD).is_none_or(|value| value != "lent" && value != "own") {
        return;
    }
    let wish = |method| Wish { method: Some(method), ..Wish::new(NEAR, options().counter) };
    for take in [false, true] {
        match open(&Wish { take, ..wish(Method::Xdp) }) {
            Ok(_) => println!("take {take}: works"),
            Err(error) => println!("take {take}: {error}"),
        }
    }
    match open(&wish(Method::XdpCopy)) {
        Ok(_) => println!("copies: works"),
        Err(error) => println!("copies: {error}"),
    }
}
