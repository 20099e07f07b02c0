//! The packet socket on real interfaces, beside tcpdump.
//!
//! Each test runs in a network namespace of its own; where none can be made it is skipped.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

use std::os::fd::AsFd;
use std::time::{Duration, Instant, SystemTime};

use truechimer_capture::filter::Filter;
use truechimer_capture::packet::{self, PacketOptions, PacketTap};
use truechimer_capture::{Chunk, Direction, KernelClock, Next, RawStamp, Tap};
use truechimer_counter::{Choice, Counter};
use truechimer_stamp::{PairLog, Window};
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::temp;

mod bed;
mod frames;

use bed::{
    Came, HERE, Seen, Sender, THERE, Tcpdump, chosen_from_file, inside, inside_with, ip, rest,
};

fn options(interface: &str) -> PacketOptions {
    PacketOptions { ring_bytes: 4 << 20, ..PacketOptions::new(interface) }
}

fn seen(came: &[Came]) -> Vec<Seen> {
    came.iter().map(Came::seen).collect()
}

/// The counters agree with what came.
fn settled(tap: &mut PacketTap, came: &[Came]) {
    let losses = tap.losses().unwrap();
    assert_eq!((losses.received, losses.ring), (came.len() as u64, 0));
}

#[test]
fn every_packet_of_a_known_trace_comes_as_it_was() {
    if !inside() {
        return;
    }
    let mut tap = PacketTap::open(&options(THERE)).unwrap();
    assert_eq!((tap.facts().link_type, tap.facts().ring_bytes), (1, 4 << 20));
    let sender = Sender::new(HERE);
    let sent = frames::all();
    sent.iter().for_each(|frame| sender.send(frame));
    let came = rest(&mut tap);
    assert_eq!(came.iter().map(|one| one.bytes.clone()).collect::<Vec<_>>(), sent);
    assert!(came.iter().all(|one| one.length as usize == one.bytes.len()));
    assert!(came.iter().all(|one| one.direction == Direction::In));
    settled(&mut tap, &came);
    // Stopped for good.
    sender.send(&sent[0]);
    assert_eq!(rest(&mut tap), []);
}

#[test]
fn filters_choose_what_tcpdump_s_choose() {
    const FILTERS: [&str; 22] = [
        "ip",
        "ip6",
        "arp or icmp6",
        "vlan",
        "vlan 7",
        "vlan and not vlan 7",
        "vlan 9 and vlan 7",
        "udp port 53",
        "vlan and udp port 53",
        "net 192.0.2.0/24",
        "src net 198.51.100.0/24 and not icmp",
        "len > 300",
        "less 60",
        "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
        "tcp[13] = 18 or ip6[53] = 0x12",
        "ip6 and tcp",
        "ip6[6] = 44",
        "ip[6:2] & 0x3fff != 0",
        "not ip and not ip6",
        "ether proto 0x88b5",
        "ether[14] = 0xff or llc",
        "dst host 198.51.100.9 and portrange 50-90",
    ];
    if !inside() {
        return;
    }
    let dir = temp::Dir::new();
    let sent = frames::all();
    let sender = Sender::new(HERE);
    for (at, text) in FILTERS.iter().enumerate() {
        // One with a short snap length, one tag more than fits.
        let snap_length = if at % 2 == 0 { 262_144 } else { 64 };
        let own = Filter::compile(text, Some(THERE), 1, snap_length).unwrap();
        let options = PacketOptions { filter: Some(own), snap_length, ..options(THERE) };
        let mut tap = PacketTap::open(&options).unwrap();
        let snap = format!("-s{snap_length}");
        let as_root = ["-Z", "root", snap.as_str()];
        let Some(tcpdump) = or_skip(Tcpdump::start(dir.path(), THERE, &as_root, text)) else {
            return;
        };
        sent.iter().for_each(|frame| sender.send(frame));
        let came = rest(&mut tap);
        let theirs = tcpdump.finish(came.len());
        assert_eq!(seen(&came), theirs, "{text}, {snap_length} bytes");
        assert!(!came.is_empty() && came.len() < sent.len(), "{text} chooses {}", came.len());
        settled(&mut tap, &came);

        // And in user space, with the tags inline, as in files.
        let own = Filter::compile(text, None, 1, snap_length).unwrap();
        let kept = |frame: &Vec<u8>| frame[..frame.len().min(snap_length as usize)].to_vec();
        let whole = |frame: &Vec<u8>| frame.len() as u32;
        let chosen: Vec<Seen> = sent
            .iter()
            .map(|frame| Seen { bytes: kept(frame), length: whole(frame) })
            .filter(|seen| own.matches(&seen.bytes, seen.length))
            .collect();
        let theirs = chosen_from_file(dir.path(), &sent, snap_length, text);
        assert_eq!(chosen, theirs, "{text}, in user space");
    }
}

#[test]
fn a_snap_length_below_the_mtu() {
    if !inside() {
        return;
    }
    let sender = Sender::new(HERE);
    for snap_length in [1, 14, 60, 1500] {
        let mut tap = PacketTap::open(&PacketOptions { snap_length, ..options(THERE) }).unwrap();
        let sent = frames::all();
        sent.iter().for_each(|frame| sender.send(frame));
        let came = rest(&mut tap);
        assert_eq!(came.len(), sent.len());
        for (came, sent) in came.iter().zip(&sent) {
            let kept = sent.len().min(snap_length as usize);
            assert_eq!(came.length as usize, sent.len());
            // A tag is four bytes; there is no half of one.
            if kept >= 16 {
                assert_eq!(came.bytes, sent[..kept]);
            }
        }
    }
}

#[test]
fn directions() {
    if !inside() {
        return;
    }
    let (here, there) = (Sender::new(HERE), Sender::new(THERE));
    let frame = |mark: u16| frames::ethernet(&[], 0x88b5, &mark.to_be_bytes());
    for (direction, expected) in [
        (Direction::Unknown, [Direction::In, Direction::Out].as_slice()),
        (Direction::In, &[Direction::In]),
        (Direction::Out, &[Direction::Out]),
    ] {
        let mut tap = PacketTap::open(&PacketOptions { direction, ..options(THERE) }).unwrap();
        here.send(&frame(1));
        there.send(&frame(2));
        let came = rest(&mut tap);
        assert_eq!(came.iter().map(|one| one.direction).collect::<Vec<_>>(), expected);
        settled(&mut tap, &came);
    }
}

#[test]
fn loopback_is_seen_once() {
    if !inside() {
        return;
    }
    for interface in ["lo", "any"] {
        let mut tap = PacketTap::open(&options(interface)).unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(b"once", socket.local_addr().unwrap()).unwrap();
        let came = rest(&mut tap);
        assert_eq!(came.len(), 1, "{interface}");
        assert!(came[0].bytes.ends_with(b"once") && came[0].direction == Direction::In);
    }
}

#[test]
fn all_interfaces_at_once_are_cooked_as_tcpdump_does() {
    if !inside() {
        return;
    }
    let dir = temp::Dir::new();
    let (here, sent) = (Sender::new(HERE), frames::all());
    for text in ["", "ip", "udp port 53", "outbound", "ip6 and tcp"] {
        let filter = (!text.is_empty())
            .then(|| Filter::compile(text, Some("any"), packet::link_type("any").unwrap(), 96));
        let filter = filter.transpose().unwrap();
        let options = PacketOptions { filter, snap_length: 96, ..options("any") };
        let mut tap = PacketTap::open(&options).unwrap();
        let arguments = ["-Z", "root", "-s", "96", "-y", "LINUX_SLL2"];
        let Some(tcpdump) = or_skip(Tcpdump::start(dir.path(), "any", &arguments, text)) else {
            return;
        };
        // Tagged packets, which libpcap shows as if they had no tag or not, are left out.
        for frame in sent.iter().filter(|frame| frame[12..14] != [0x81, 0] && frame[12] != 0x88) {
            here.send(frame);
        }
        let came = rest(&mut tap);
        let theirs = tcpdump.finish(came.len());
        assert_eq!(seen(&came), theirs, "{text:?}");
        assert!(!came.is_empty());
    }
}

#[test]
fn what_a_full_ring_loses_is_counted_to_the_packet() {
    if !inside() {
        return;
    }
    let mut tap =
        PacketTap::open(&PacketOptions { ring_bytes: 512 << 10, ..options(THERE) }).unwrap();
    let sender = Sender::new(HERE);
    let frame = frames::ethernet(&[], 0x88b5, &[0; 1000]);
    let count = 2000;
    (0..count).for_each(|_| sender.send(&frame));
    let halfway = tap.losses().unwrap();
    assert!(halfway.ring > 0);
    let came = rest(&mut tap).len() as u64;
    let losses = tap.losses().unwrap();
    assert_eq!((losses.received, losses.ring), (count, count - came));
    assert!(came > 100 && losses.ring >= halfway.ring);
}

#[test]
fn what_is_lost_before_the_tap_is_counted() {
    if !inside() {
        return;
    }
    let sender = Sender::new(HERE);
    // Larger than the other end takes: the kernel drops it there before anybody sees it.
    ip(&["link", "set", THERE, "mtu", "300"]);
    let (small, large) = (frames::ethernet(&[], 0x88b5, &[0; 200]), vec![0; 800]);
    let large = frames::ethernet(&[], 0x88b5, &large);
    assert!((0..5).all(|_| !sender.sends(&large)));
    let mut tap = PacketTap::open(&options(THERE)).unwrap();
    for _ in 0..40 {
        assert!(!sender.sends(&large));
        sender.send(&small);
    }
    let came = rest(&mut tap).len() as u64;
    let losses = tap.losses().unwrap();
    // Of those before nothing.
    let all = (losses.received, losses.ring, losses.kernel, losses.interface);
    assert_eq!((came, all), (40, (40, 0, 0, 40)));
}

#[test]
fn blocks_come_back_from_other_threads_in_any_order() {
    if !inside() {
        return;
    }
    // Four blocks, of which up to three are elsewhere.
    let mut tap =
        PacketTap::open(&PacketOptions { ring_bytes: 512 << 10, ..options(THERE) }).unwrap();
    let sender = Sender::new(HERE);
    let mut kept: Vec<Box<dyn Chunk>> = Vec::new();
    let (mut sent, mut came) = (0_u32, Vec::new());
    let note = |chunk: Box<dyn Chunk>| {
        std::thread::spawn(move || {
            let mut numbers = Vec::new();
            chunk.for_each(&mut |packet| {
                numbers.push(u32::from_be_bytes(packet.data[14..18].try_into().unwrap()));
            });
            numbers
        })
        .join()
        .unwrap()
    };
    for round in 0..40 {
        // More than would be copied.
        for _ in 0..60 {
            let mut body = sent.to_be_bytes().to_vec();
            body.resize(900, round);
            sender.send(&frames::ethernet(&[], 0x88b5, &body));
            sent += 1;
        }
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            match tap.next(Duration::from_millis(20)).unwrap() {
                Next::Chunk(chunk) => kept.push(chunk),
                _ if !kept.is_empty() || Instant::now() > end => break,
                _ => {}
            }
            if kept.len() >= 3 {
                break;
            }
        }
        while kept.len() > usize::from(round % 3) {
            // The newest first in some rounds, the oldest in others.
            let at = if round % 2 == 0 { kept.len() - 1 } else { 0 };
            came.extend(note(kept.remove(at)));
        }
    }
    kept.drain(..).for_each(|chunk| came.extend(note(chunk)));
    came.extend(
        rest(&mut tap).iter().map(|one| u32::from_be_bytes(one.bytes[14..18].try_into().unwrap())),
    );
    let losses = tap.losses().unwrap();
    assert_eq!((losses.received, losses.ring), (sent.into(), u64::from(sent) - came.len() as u64));
    came.sort_unstable();
    let delivered = came.len();
    came.dedup();
    assert_eq!(came.len(), delivered, "a block was read twice");
}

#[test]
fn who_keeps_packets_at_a_low_rate_does_not_keep_the_ring() {
    if !inside() {
        return;
    }
    // Eight blocks.
    let mut tap =
        PacketTap::open(&PacketOptions { ring_bytes: 1 << 20, ..options(THERE) }).unwrap();
    let sender = Sender::new(HERE);
    let sent = frames::all();
    let mut kept = Vec::new();
    for frame in &sent {
        sender.send(frame);
        match tap.next(Duration::from_secs(10)).unwrap() {
            Next::Chunk(chunk) => kept.push(chunk),
            _ => panic!("no packet"),
        }
    }
    let mut came = Vec::new();
    kept.iter().for_each(|chunk| bed::take(&**chunk, &mut came));
    assert_eq!(came.iter().map(|one| one.bytes.clone()).collect::<Vec<_>>(), sent);
    settled(&mut tap, &came);
}

#[test]
fn an_interface_is_let_go_though_packets_are_kept() {
    if !inside() {
        return;
    }
    let promiscuity = || {
        let flags = std::process::Command::new("ip").args(["-d", "link", "show", THERE]).output();
        let said = String::from_utf8(flags.unwrap().stdout).unwrap();
        said.split("promiscuity ").nth(1).unwrap().split_whitespace().next().unwrap().to_owned()
    };
    let mut tap = PacketTap::open(&options(THERE)).unwrap();
    let sender = Sender::new(HERE);
    // More than would be copied.
    (0..60).for_each(|_| sender.send(&frames::ethernet(&[], 0x88b5, &[0; 1400])));
    let Next::Chunk(chunk) = tap.next(Duration::from_secs(10)).unwrap() else { panic!("none") };
    assert_eq!(promiscuity(), "1");
    drop(tap);
    assert_eq!(promiscuity(), "0");
    let mut came = Vec::new();
    bed::take(&*chunk, &mut came);
    assert!(!came.is_empty() && came.iter().all(|one| one.length == 1414));
}

#[test]
fn what_queued_up_before_a_filter_does_not_come_through() {
    if !inside() {
        return;
    }
    let sender = Sender::new(HERE);
    let socket = bed::Listener::new(THERE);
    sender.send(&frames::ethernet(&[], 0x88b5, &[1; 50]));
    let wanted = frames::ethernet(&[], 0x0800, &frames::ipv4(17, [1; 4], [2; 4], 0, &[]));
    sender.send(&wanted);
    let filter = Filter::compile("udp", Some(THERE), 1, 96).unwrap();
    filter.attach(socket.as_fd()).unwrap();
    sender.send(&frames::ethernet(&[], 0x88b5, &[2; 50]));
    sender.send(&wanted);
    assert_eq!(socket.queued(), [wanted]);
}

#[test]
fn packets_larger_than_any_mtu_of_ethernet() {
    if !inside() {
        return;
    }
    for interface in [HERE, THERE] {
        ip(&["link", "set", interface, "mtu", "65535"]);
    }
    let mut tap = PacketTap::open(&options(THERE)).unwrap();
    let frame = frames::ethernet(&[], 0x88b5, &[7; 65_000]);
    let sender = Sender::new(HERE);
    (0..5).for_each(|_| sender.send(&frame));
    let came = rest(&mut tap);
    assert_eq!(came.len(), 5);
    assert!(came.iter().all(|one| one.bytes == frame));
}

#[test]
fn a_held_block_keeps_nobody_awake() {
    if !inside() {
        return;
    }
    let latency = Duration::from_millis(200);
    let mut tap = PacketTap::open(&PacketOptions { latency, ..options(THERE) }).unwrap();
    let sender = Sender::new(HERE);
    // The last block that was handed over is the one that makes the socket readable. It must not be
    // nearly empty, or it would be copied.
    let chunk = loop {
        (0..60).for_each(|_| sender.send(&frames::ethernet(&[], 0x88b5, &[0; 1400])));
        let mut last = None;
        while let Next::Chunk(chunk) = tap.next(Duration::from_millis(500)).unwrap() {
            last = Some(chunk);
        }
        match last {
            Some(chunk) if chunk.len() > 25 => break chunk,
            _ => {}
        }
    };
    let used = cpu_time();
    assert!(matches!(tap.next(Duration::from_millis(500)).unwrap(), Next::Nothing));
    let used = cpu_time() - used;
    assert!(used < Duration::from_millis(50), "{used:?} of half a second were spent waiting");
    assert!(chunk.len() > 25);
}

/// Processor time that this thread has used.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for a time.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn an_interface_goes_down_and_up_and_away() {
    if !inside() {
        return;
    }
    let mut tap = PacketTap::open(&options(THERE)).unwrap();
    let sender = Sender::new(HERE);
    let frame = &frames::all()[1];
    let next = |tap: &mut PacketTap| {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            match tap.next(Duration::from_millis(100)).unwrap() {
                Next::Nothing if Instant::now() < end => {}
                Next::Nothing => return "nothing",
                Next::Chunk(_) => return "packets",
                Next::Down => return "down",
                Next::Up => return "up",
                Next::Gone => return "gone",
            }
        }
    };
    sender.send(frame);
    // What came before the interface went down is told before that.
    ip(&["link", "set", THERE, "down"]);
    assert_eq!(next(&mut tap), "packets");
    assert_eq!(next(&mut tap), "down");
    ip(&["link", "set", THERE, "up"]);
    assert_eq!(next(&mut tap), "up");
    // The carrier comes back a moment after.
    let came = (0..100).any(|_| {
        sender.send(frame);
        matches!(tap.next(Duration::from_millis(50)).unwrap(), Next::Chunk(_))
    });
    assert!(came, "no packets after it came up again");
    while matches!(tap.next(Duration::from_millis(50)).unwrap(), Next::Chunk(_)) {}
    ip(&["link", "delete", THERE]);
    let last = [next(&mut tap), next(&mut tap)];
    assert!(last.contains(&"gone"), "{last:?}");
    assert!(matches!(tap.next(Duration::from_millis(50)).unwrap(), Next::Nothing));
    tap.stop().unwrap();
    assert!(PacketTap::open(&options(THERE)).is_err());
}

#[test]
fn an_interface_that_is_down_can_be_waited_for() {
    if !inside() {
        return;
    }
    ip(&["link", "set", THERE, "down"]);
    let mut tap = PacketTap::open(&options(THERE)).unwrap();
    assert!(matches!(tap.next(Duration::from_secs(10)).unwrap(), Next::Down));
    ip(&["link", "set", THERE, "up"]);
    assert!(matches!(tap.next(Duration::from_secs(20)).unwrap(), Next::Up));
    let filter = Filter::compile("udp", Some(THERE), 1, 96);
    assert!(filter.is_ok());
    ip(&["link", "set", THERE, "down"]);
    let why = Filter::compile("udp", Some(THERE), 1, 96).unwrap_err().to_string();
    assert!(why.contains("ip link set wire-c1 up"), "{why}");
}

#[test]
fn stamps_are_the_kernel_s_at_arrival() {
    if !inside() {
        return;
    }
    let counter = Counter::open(Choice::Auto).unwrap();
    let period = truechimer_counter::nominal(counter).unwrap().period;
    let resolution = truechimer_counter::resolution(counter);
    let mut tap = PacketTap::open(&options(THERE)).unwrap();
    let sender = Sender::new(HERE);
    let frame = frames::ethernet(&[], 0x88b5, &[0; 50]);
    // The kernel begins to stamp at arrival a moment after it was asked.
    std::thread::sleep(Duration::from_millis(50));
    let unix = || {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        i64::try_from(since.as_nanos()).unwrap()
    };
    let mut pairs = PairLog::new(period, resolution);
    let mut sent = Vec::new();
    for _ in 0..50 {
        let first = pairs.take(counter);
        let before = (first.end, unix());
        sender.send(&frame);
        sent.push((before, counter.fenced().read(), unix()));
    }
    pairs.take(counter);
    let came = rest(&mut tap);
    assert_eq!(came.len(), sent.len());
    let mut last = i64::MIN;
    for (came, ((earliest, from), latest, to)) in came.iter().zip(sent) {
        let RawStamp::Clock(KernelClock::Realtime, ns) = came.stamp else {
            panic!("{:?}", came.stamp)
        };
        assert!(last <= ns && from <= ns && ns <= to, "{from} {ns} {to}");
        last = ns;
        let stamp = pairs.invert(ns, Window { earliest, latest }).unwrap();
        assert!(stamp.count.at_or_after(earliest) && latest.at_or_after(stamp.count));
    }
    assert_eq!(tap.late_stamps(), 0);
}

/// Takes away the right to capture, however it was come by.
const WITHOUT: [&str; 6] =
    ["--bounding-set", "-net_raw", "--inh-caps", "-net_raw", "--ambient-caps", "-net_raw"];

#[test]
fn without_the_right_it_is_said_which_one_is_missing() {
    if !inside_with(&WITHOUT) {
        return;
    }
    let why = PacketTap::open(&options(THERE)).unwrap_err();
    assert!(why.doing.contains("packet socket"), "{why}");
    assert!(why.mend.as_ref().unwrap().contains("setcap cap_net_raw+ep"), "{why}");
    let why = Filter::compile("udp", Some(THERE), 1, 96).unwrap_err().to_string();
    assert!(why.contains("CAP_NET_RAW"), "{why}");
}

#[test]
fn an_interface_that_is_not_there() {
    let why = PacketTap::open(&options("no-such-link")).unwrap_err();
    assert!(why.to_string().contains("no-such-link"), "{why}");
    assert!(why.mend.unwrap().contains("ip link"));
}
