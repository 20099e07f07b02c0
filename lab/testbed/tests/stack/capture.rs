//! `truechimer capture` beside tcpdump, tshark and everything that can go wrong.

mod broken;
mod check;
mod clock;
mod extcap;
mod layers;
mod life;
mod peer;
mod scales;
mod several;
pub mod tools;
pub mod traffic;

use std::time::{Duration, Instant};

use truechimer_testbed::binary;
use truechimer_testbed::daemon::SOON;
use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_testbed::namespace::{Means, Pair};
use truechimer_testbed::process;
use truechimer_testbed::process::Signal;
use truechimer_testbed::temp::Dir;

use tools::{assert_readable, installed, ours, theirs, truechimer};
use traffic::{OURS, inject, last, medley, number, numbered};

/// Two namespaces and what reads captures.
fn bed() -> Option<(Pair, Dir)> {
    let tools: Result<(), Lacking> =
        ["tcpdump", "tshark", "dumpcap"].iter().try_for_each(|name| installed(name));
    or_skip(tools)?;
    // Root in a user namespace can capture, but not steer packets.
    let net = Pair::by(Means::Root).or_else(|_| Pair::new());
    Some((or_skip(net)?, Dir::new()))
}

/// Asserts that the same traffic and filter, side by side, give the same packets, byte for byte, in
/// files that both tools read.
fn same_as_tcpdump(filter: &str) {
    let Some((net, dir)) = bed() else { return };
    // Whatever the filter, the last frame is seen. It stands in front, as `vlan` shifts what
    // follows.
    let filter = format!("ether proto 0x88b5 or ({OURS} and ({filter}))");
    let mut theirs = theirs(&net.client, &dir, "same", &filter);
    let mut us = truechimer(&net.client, &dir, "same", &["--json", &filter]);
    let mut frames = medley();
    frames.push(last());
    inject(&net.server, &frames);
    assert!(us.end().success(), "{}", us.process.output());
    // It may leave the last packet in its ring until another one comes.
    while !theirs.has(traffic::LAST_WORDS) {
        inject(&net.server, &[last()]);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(theirs.end().success(), "{}", theirs.process.output());
    let (found, mut expected) = (us.packets(), theirs.packets());
    let first = expected.iter().position(|packet| packet.data == last()).unwrap();
    expected.truncate(first + 1);
    assert!(expected.len() > 1, "nothing passes `{filter}`");
    let bare = |packets: &[tools::Packet]| {
        packets.iter().map(|packet| (packet.length, packet.data.clone())).collect::<Vec<_>>()
    };
    assert_eq!(bare(&found), bare(&expected), "`{filter}`");
    println!("{} of {} frames pass `{filter}`", found.len(), frames.len());
    let summary = us.summary();
    assert_eq!(summary["received"], found.len() as u64, "{summary:#}");
    assert!(found.iter().all(|packet| packet.record.is_some()), "each has its count");
    assert_readable(&us.file, found.len());
}

#[test]
fn filters_pass_what_tcpdumps_pass_all() {
    same_as_tcpdump("greater 1");
}

#[test]
fn filters_pass_what_tcpdumps_pass_ports() {
    same_as_tcpdump("udp port 53 or tcp dst portrange 40001-40003");
}

#[test]
fn filters_pass_what_tcpdumps_pass_fragments() {
    same_as_tcpdump("ip6 proto 44 or ip[6:2] & 0x3fff != 0");
}

#[test]
fn filters_pass_what_tcpdumps_pass_addresses() {
    same_as_tcpdump("src host 198.51.100.1 and not tcp or arp");
}

#[test]
fn filters_pass_what_tcpdumps_pass_vlans() {
    same_as_tcpdump("vlan 6 and udp");
}

#[test]
fn filters_pass_what_tcpdumps_pass_not_vlans() {
    same_as_tcpdump("not vlan and (tcp[tcpflags] & tcp-syn != 0 or icmp or len > 400)");
}

#[test]
fn a_known_trace_is_there_to_the_last_packet() {
    let Some((net, dir)) = bed() else { return };
    let mut capture = truechimer(&net.client, &dir, "known", &["--json", "-f", OURS]);
    let mut frames: Vec<_> =
        (0..3000).map(|n| numbered(n, 20 + (n as usize * 37) % 1400)).collect();
    frames.push(last());
    inject(&net.server, &frames);
    assert!(capture.end().success(), "{}", capture.process.output());
    let found = capture.packets();
    let summary = capture.summary();
    assert_eq!(found.len(), 3001, "{summary:#}");
    for (packet, frame) in found.iter().zip(&frames) {
        assert_eq!((&packet.data, packet.length as usize), (frame, frame.len()));
    }
    assert_eq!((&summary["packets"], &summary["received"]), (&3001.into(), &3001.into()));
    for lost in ["interface", "kernel", "ring", "writer"] {
        assert_eq!(summary["lost"][lost], 0, "{summary:#}");
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let described = tools::fields(&capture.file, &["-c", "1", "-e", "frame.interface_description"]);
    assert_eq!(described, format!("host {host}"));
    assert_readable(&capture.file, 3001);
}

#[test]
fn the_count_is_exact() {
    let Some((net, dir)) = bed() else { return };
    for inline in [false, true] {
        // One that writes another host's name, one that writes none.
        let (name, host, described) =
            if inline { ("inline", "", "\n") } else { ("threads", "beta", "host beta\n") };
        let mut arguments = vec!["-c", "37", "--host", host, OURS];
        if inline {
            arguments.push("--inline");
        }
        let mut capture = truechimer(&net.client, &dir, name, &arguments);
        let frames: Vec<_> = (0..100).map(|n| numbered(n, 20)).collect();
        inject(&net.server, &frames);
        assert!(capture.ended().success(), "{}", capture.process.output());
        let found: Vec<_> = capture.packets().iter().map(|packet| number(&packet.data)).collect();
        assert_eq!(found, (0..37).collect::<Vec<_>>());
        assert_eq!(
            tools::fields(&capture.file, &["-c", "1", "-e", "frame.interface_description"]),
            described
        );
        assert_readable(&capture.file, 37);
    }
}

#[test]
fn long_packets_are_cut_to_the_snap_length() {
    let Some((net, dir)) = bed() else { return };
    let mut capture = truechimer(&net.client, &dir, "cut", &["-s", "64", OURS]);
    // As long as the wire takes them: its MTU is 1500.
    let frames = [numbered(1, 1472), numbered(2, 20), last()];
    inject(&net.server, &frames);
    capture.until(b"this is the last fr");
    capture.process.signal(Signal::Term);
    assert!(capture.ended().success(), "{}", capture.process.output());
    let found: Vec<_> =
        capture.packets().iter().map(|packet| (packet.length, packet.data.len())).collect();
    assert_eq!(found, [(1514, 64), (62, 62), (49, 49)]);
    assert_readable(&capture.file, 3);
}

#[test]
fn rotated_files_hold_everything_once() {
    let Some((net, dir)) = bed() else { return };
    let arguments = ["--json", "--rotate-size", "100k", OURS];
    let mut capture = truechimer(&net.client, &dir, "row", &arguments);
    let mut frames: Vec<_> = (0..500).map(|n| numbered(n, 1000)).collect();
    frames.push(last());
    inject(&net.server, &frames);
    let end = Instant::now() + SOON;
    let numbers = loop {
        let mut files: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.to_string_lossy().ends_with(".pcapng"))
            .collect();
        files.sort();
        let bytes = files.iter().map(|file| std::fs::read(file).unwrap()).collect::<Vec<_>>();
        let words = traffic::LAST_WORDS;
        if bytes.iter().any(|bytes| bytes.windows(words.len()).any(|window| window == words)) {
            capture.process.signal(Signal::Term);
            assert!(capture.ended().success(), "{}", capture.process.output());
            assert!(files.len() > 3, "{files:?}");
            let found = files.iter().map(|file| (file, tools::packets(file)));
            break found
                .flat_map(|(file, packets)| {
                    assert_readable(file, packets.len());
                    ours(&packets)
                })
                .filter(|packet| packet.data.len() > 100)
                .map(|packet| number(&packet.data))
                .collect::<Vec<_>>();
        }
        assert!(Instant::now() < end, "{files:?}\n{}", capture.process.output());
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(numbers, (0..500).collect::<Vec<_>>());
}

/// Files of a row, in order.
fn row(dir: &Dir) -> Vec<std::path::PathBuf> {
    let there = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        there.filter(|path| path.extension().is_some_and(|end| end == "pcapng")).collect();
    files.sort();
    files
}

/// Numbers of the frames in these files, each of which tcpdump and tshark can read.
fn numbers_in(files: &[std::path::PathBuf]) -> Vec<u32> {
    let mut numbers = Vec::new();
    for file in files {
        let packets = tools::packets(file);
        assert_readable(file, packets.len());
        numbers.extend(ours(&packets).iter().map(|packet| number(&packet.data)));
    }
    numbers
}

#[test]
fn the_last_files_by_size_are_kept() {
    let Some((net, dir)) = bed() else { return };
    // 5.5 MB in files of one.
    let arguments = ["--json", "-C", "1", "-W", "2", "-c", "4000", OURS];
    let mut capture = truechimer(&net.client, &dir, "row", &arguments);
    inject(&net.server, &(0..4000).map(|n| numbered(n, 1300)).collect::<Vec<_>>());
    assert!(capture.ended().success(), "{}", capture.process.output());
    let files = row(&dir);
    assert_eq!(files.len(), 2, "{files:?}");
    assert!(capture.summary()["files"].as_u64().unwrap() >= 5, "{:#}", capture.summary());
    let full = std::fs::metadata(&files[0]).unwrap().len();
    assert!((1_000_000..1_300_000).contains(&full), "{full}");
    let found = numbers_in(&files);
    assert!(found.len() > 600, "{}", found.len());
    assert_eq!(found, (4000 - found.len() as u32..4000).collect::<Vec<_>>());
}

#[test]
fn a_row_by_time_ends_with_its_last_file() {
    let Some((net, dir)) = bed() else { return };
    let mut capture = truechimer(&net.client, &dir, "row", &["--json", "-G", "1", "-W", "3", OURS]);
    // Across the ends of files, until there is the last one, which ends by itself.
    let mut sent = 0;
    while row(&dir).len() < 3 {
        inject(&net.server, &[numbered(sent, 50)]);
        sent += 1;
        assert!(sent < 10_000, "never a third file");
    }
    assert!(capture.ended().success(), "{}", capture.process.output());
    let files = row(&dir);
    assert_eq!(files.len(), 3, "{files:?}");
    assert_eq!(capture.summary()["files"], 3, "{:#}", capture.summary());
    assert_eq!(numbers_in(&files), (0..sent).collect::<Vec<_>>());
}

/// Random bytes, many of them as headers that promise more than there is.
#[test]
fn nonsense_is_captured_like_anything_else() {
    let Some((net, dir)) = bed() else { return };
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut frames: Vec<Vec<u8>> = (0..400)
        .map(|_| {
            let kinds = [0x0800, 0x86dd, 0x8100, 0x0806, 0x88a8, 0x0001, 0xffff];
            let kind = kinds[random() as usize % kinds.len()];
            let length = random() as usize % 1400;
            let mut payload: Vec<u8> = (0..length).map(|_| random() as u8).collect();
            if let Some(first) = payload.first_mut()
                && random() % 2 == 0
            {
                *first = if kind == 0x86dd { 0x60 } else { 0x45 };
            }
            traffic::ethernet(kind, &payload)
        })
        .collect();
    frames.push(last());
    let mut file = truechimer(&net.client, &dir, "nonsense", &["--json", OURS]);
    let lines = |name: &str, more: &[&str]| {
        let mut command = net.client.command(binary::truechimer());
        command.args(["capture", "-i", "wire", OURS, "-c", &frames.len().to_string()]).args(more);
        tools::ready(command, &dir, name, dir.join(name))
    };
    let mut text = lines("text", &[]);
    let mut json = lines("json", &["--json"]);
    inject(&net.server, &frames);
    assert!(file.end().success(), "{}", file.process.output());
    let found: Vec<_> = file.packets().into_iter().map(|packet| packet.data).collect();
    // The kernel moves a tag to where it belongs; all else is as it was sent.
    assert_eq!(found.len(), frames.len());
    assert_eq!(found, frames);
    assert_eq!(tools::tshark(&file.file).0, frames.len());
    for capture in [&mut text, &mut json] {
        assert!(capture.ended().success(), "{}", capture.process.output());
    }
    assert!(text.process.output().contains("IP6 "), "{}", text.process.output());
    let packets = json.process.output().matches("\"type\":\"packet\"").count();
    assert_eq!(packets, frames.len());
}

/// Takes what the two XDP methods take, and counts it by other means.
fn by_xdp(method: &str, passes: bool) {
    let Some((net, dir)) = bed() else { return };
    if !process::is_root() {
        or_skip::<()>(Err(Lacking("XDP takes root outside of user namespaces".into())));
        return;
    }
    // Nobody's interface: one that the host uses is not taken away from it.
    for host in [&net.client, &net.server] {
        let ip = |arguments: &[&str]| {
            let status = host.command(binary::system("ip")).args(arguments).status().unwrap();
            assert!(status.success(), "ip {arguments:?}");
        };
        ip(&["address", "flush", "dev", "wire"]);
        ip(&["link", "set", "wire", "up"]);
    }
    let mut beyond =
        truechimer(&net.client, &dir, "beyond", &["--json", "--method", "packet", OURS]);
    // There is a listener: that one is taken away from is meant.
    let arguments = ["--json", "--method", method, "--take", OURS];
    let mut capture = truechimer(&net.client, &dir, method, &arguments);
    let mut frames: Vec<_> = (0..700).map(|n| numbered(n, 20 + n as usize * 2)).collect();
    frames.push(last());
    inject(&net.server, &frames);
    assert!(capture.end().success(), "{}", capture.process.output());
    let summary = capture.summary();
    let found = capture.packets();
    assert_eq!(found.len(), frames.len(), "{summary:#}");
    for (packet, frame) in found.iter().zip(&frames) {
        assert_eq!((&packet.data, packet.length as usize), (frame, frame.len()));
        let record = packet.record.unwrap();
        assert_eq!(truechimer_pcapng::records::method_name(record.method), method);
        assert!(record.counted.is_some(), "{record:?}");
    }
    assert_eq!((&summary["packets"], &summary["received"]), (&701.into(), &701.into()));
    assert_eq!((&summary["left"], &summary["surplus"]), (&0.into(), &0.into()), "{summary:#}");
    assert_readable(&capture.file, 701);
    // It is over: whatever method it was, packets pass again.
    inject(&net.server, &[numbered(9000, 20), last()]);
    assert!(beyond.end().success(), "{}", beyond.process.output());
    let passed = beyond.packets().iter().filter(|packet| packet.data.len() > 60).count();
    assert_eq!(passed, if passes { 701 } else { 1 }, "{:#}", beyond.summary());
}

#[test]
fn xdp_takes_everything_and_nobody_else_sees_it() {
    by_xdp("xdp", false);
}

#[test]
fn xdp_copies_everything_and_lets_it_pass() {
    by_xdp("xdp-copy", true);
}
