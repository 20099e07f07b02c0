//! Real packets on the loopback interface, followed from layer to layer.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use truechimer_capture::layers::{Journey, Layer, Layers};
use truechimer_testbed::lacking::{Lacking, or_skip};

/// The layers of loopback, unless the calling test is skipped: it takes rights that not everybody has.
fn open() -> Option<Layers> {
    or_skip(Layers::open("lo").map_err(|error| Lacking(error.to_string())))
}

/// The journeys up of packets to this port, until there are `wanted`.
fn journeys(layers: &mut Layers, port: u16, wanted: usize) -> Vec<Journey> {
    journeys_within(layers, port, wanted, Duration::from_secs(20))
}

fn journeys_within(layers: &mut Layers, port: u16, wanted: usize, time: Duration) -> Vec<Journey> {
    journeys_by(layers, port, (Layer::Stack, wanted), time)
}

/// Journeys by this layer of packets to this port.
fn journeys_by(
    layers: &mut Layers,
    port: u16,
    (by, wanted): (Layer, usize),
    time: Duration,
) -> Vec<Journey> {
    let mut found = Vec::new();
    let began = Instant::now();
    while found.len() < wanted && began.elapsed() < time {
        let each = |journey: Journey| {
            // Ethernet, IPv4 without options, ports.
            if journey.at(by).is_some() && journey.bytes.get(36..38) == Some(&port.to_be_bytes()) {
                found.push(journey);
            }
        };
        layers.next(Duration::from_millis(100), each).unwrap();
    }
    found
}

/// `CLOCK_MONOTONIC` is what std's Instant shows; nothing here needs its absolute value.
fn in_order(journey: &Journey) {
    let at = |layer| journey.at(layer).unwrap_or_else(|| panic!("not seen there: {journey:?}"));
    assert!(at(Layer::Driver) <= at(Layer::Stack), "{journey:?}");
    assert!(at(Layer::Stack) <= at(Layer::Socket), "{journey:?}");
    assert!(at(Layer::Stack) <= at(Layer::Application), "{journey:?}");
    assert_eq!(journey.pid, std::process::id());
}

#[test]
fn every_datagram_is_followed_to_its_reader() {
    let Some(mut layers) = open() else { return };
    let to = UdpSocket::bind("127.0.0.1:0").unwrap();
    let from = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = to.local_addr().unwrap();
    const EACH: usize = 20;
    const WAIT: Duration = Duration::from_millis(30);
    let mut buffer = [0; 16_000];
    // Read one by one, then three at a time; small ones, and some too large for one page.
    for round in 0..EACH {
        let size = if round % 2 == 0 { 100 + round } else { 9000 + round };
        from.send_to(&vec![round as u8; size], address).unwrap();
        if round == 3 {
            std::thread::sleep(WAIT);
        }
        if round % 3 == 2 || round < 6 {
            to.set_nonblocking(true).unwrap();
            while to.recv(&mut buffer).is_ok() {}
        }
    }
    while to.recv(&mut buffer).is_ok() {}
    let found = journeys(&mut layers, address.port(), EACH);
    assert_eq!(found.len(), EACH, "{:?}, lost {}", layers.unfollowed(), layers.lost().unwrap());
    for (round, journey) in found.iter().enumerate() {
        in_order(journey);
        let size = if round % 2 == 0 { 100 + round } else { 9000 + round };
        assert_eq!(journey.length as usize, size + 42);
        assert_eq!(journey.bytes[42..], vec![round as u8; journey.bytes.len() - 42][..]);
    }
    let slept = found[3].at(Layer::Application).unwrap() - found[3].at(Layer::Stack).unwrap();
    assert!(slept >= WAIT.as_nanos() as u64, "read {slept} ns after it came");
}

#[test]
fn every_datagram_is_followed_from_its_sender() {
    let Some(mut layers) = open() else { return };
    let to = UdpSocket::bind("127.0.0.1:0").unwrap();
    let from = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = to.local_addr().unwrap();
    let calls: Vec<(u64, u64)> = (0..20_u8)
        .map(|number| {
            let before = now();
            from.send_to(&[number; 100], address).unwrap();
            (before, now())
        })
        .collect();
    let time = Duration::from_secs(20);
    let found = journeys_by(&mut layers, address.port(), (Layer::Scheduler, 20), time);
    assert_eq!(found.len(), 20, "{:?}", layers.unfollowed());
    for (number, (journey, (before, after))) in found.iter().zip(calls).enumerate() {
        let at = |layer| journey.at(layer).unwrap_or_else(|| panic!("not seen there: {journey:?}"));
        let times = [Layer::Send, Layer::Scheduler, Layer::Transmit, Layer::Sent].map(at);
        assert!(times.is_sorted(), "{journey:?}");
        assert!(before <= times[0] && times[3] <= after, "{before} to {after}: {journey:?}");
        assert_eq!(journey.bytes[42..], [number as u8; 86][..]);
        assert_eq!((journey.length, journey.pid), (142, std::process::id()));
    }
}

#[test]
fn what_the_kernel_sends_by_itself_has_no_call() {
    let Some(mut layers) = open() else { return };
    let from = UdpSocket::bind("127.0.0.1:0").unwrap();
    // Nobody listens: the kernel answers by ICMP, in the middle of our own call.
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    from.send_to(&[1; 100], closed).unwrap();
    let mut icmp = Vec::new();
    let began = Instant::now();
    while icmp.is_empty() && began.elapsed() < Duration::from_secs(20) {
        let each = |journey: Journey| {
            let is_icmp = journey.bytes.get(23) == Some(&1);
            // It quotes the datagram behind its own header: 14 + 20 + 8 + 20 + 2.
            if is_icmp && journey.bytes.get(64..66) == Some(&closed.port().to_be_bytes()) {
                icmp.extend(journey.at(Layer::Scheduler).map(|_| journey));
            }
        };
        layers.next(Duration::from_millis(100), each).unwrap();
    }
    let [journey, ..] = icmp.as_slice() else { panic!("no ICMP") };
    assert_eq!((journey.pid, journey.at(Layer::Send)), (0, None), "{journey:?}");
}

#[test]
fn a_segment_is_followed_to_its_reader() {
    let Some(mut layers) = open() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut from = TcpStream::connect(address).unwrap();
    from.set_nodelay(true).unwrap();
    let (mut to, _) = listener.accept().unwrap();
    let mut buffer = [0; 1000];
    for _ in 0..5 {
        from.write_all(&[7; 500]).unwrap();
        to.read_exact(&mut buffer[..500]).unwrap();
    }
    let found = journeys(&mut layers, address.port(), 5);
    assert!(found.len() >= 5, "{found:?}");
    // Words of the connection itself come through as well; those with bytes are ours.
    let with_bytes: Vec<_> = found.iter().filter(|journey| journey.length > 500).collect();
    assert!(with_bytes.len() >= 4, "{found:?}");
    with_bytes.into_iter().for_each(in_order);
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    let error = Layers::open("no-such-one").unwrap_err().to_string();
    assert!(error.contains("no-such-one"), "{error}");
}

/// `CLOCK_MONOTONIC`, ns.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for a time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sends a numbered datagram and reads it; when the read began and ended.
fn round(from: &UdpSocket, to: &UdpSocket, number: u8) -> (u64, u64) {
    from.send_to(&[number; 100], to.local_addr().unwrap()).unwrap();
    let before = now();
    let mut buffer = [0; 200];
    assert_eq!((to.recv(&mut buffer).unwrap(), buffer[0]), (100, number));
    (before, now())
}

/// No journey says that its datagram was read when another was.
fn none_is_mistaken(found: &[Journey], reads: &[(u64, u64)]) {
    for journey in found {
        let number = usize::from(journey.bytes[42]);
        let at = journey.at(Layer::Application).unwrap();
        let Some((from, to)) = reads.get(number) else { panic!("{number} was never read") };
        assert!((from..=to).contains(&&at), "{number} was read in {from}..{to}, not at {at}");
    }
}

/// Journeys that came through so far.
fn so_far(layers: &mut Layers, port: u16) -> Vec<Journey> {
    journeys_within(layers, port, usize::MAX, Duration::from_millis(300))
}

#[test]
fn a_read_that_nobody_sees_puts_no_other_out_of_place() {
    let Some(mut layers) = open() else { return };
    let (from, to) = (udp(), udp());
    let port = to.local_addr().unwrap().port();
    let mut reads = vec![(0, 0)];
    from.send_to(&[0; 100], to.local_addr().unwrap()).unwrap();
    // The datagram is gone with that, but no read has succeeded.
    // SAFETY: the kernel refuses to write there.
    let got = unsafe { libc::recv(to.as_raw_fd(), 8 as *mut libc::c_void, 100, 0) };
    assert_eq!((got, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EFAULT)));
    for number in 1..20 {
        reads.push(round(&from, &to, number));
    }
    let found = so_far(&mut layers, port);
    none_is_mistaken(&found, &reads);
    assert!(found.len() >= 18, "{} of 19", found.len());
}

#[test]
fn a_socket_that_was_closed_leaves_nothing_to_its_successor() {
    let Some(mut layers) = open() else { return };
    let from = udp();
    let mut all = Vec::new();
    // The kernel gives the memory of a socket to the next one.
    for _ in 0..5 {
        let closed = udp();
        (0..3).for_each(|_| {
            from.send_to(&[99; 100], closed.local_addr().unwrap()).unwrap();
        });
        let address = closed.local_addr().unwrap();
        drop(closed);
        let to = UdpSocket::bind(address).unwrap();
        let reads: Vec<_> = (0..5).map(|number| round(&from, &to, number)).collect();
        let found = so_far(&mut layers, address.port());
        none_is_mistaken(&found, &reads);
        all.extend(found);
    }
    assert!(all.len() >= 20, "{} of 25", all.len());
}

fn udp() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

#[test]
fn senders_on_several_processors_and_one_reader() {
    let Some(mut layers) = open() else { return };
    const EACH: u32 = 3000;
    let to = udp();
    to.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let address = to.local_addr().unwrap();
    let reader = std::thread::spawn(move || {
        let mut reads = std::collections::HashMap::new();
        let mut buffer = [0; 200];
        loop {
            let before = now();
            let Ok(100) = to.recv(&mut buffer) else { return reads };
            reads.insert(u32::from_be_bytes(buffer[..4].try_into().unwrap()), (before, now()));
        }
    });
    let cpus = std::thread::available_parallelism().unwrap().get().min(4) as u32;
    let senders: Vec<_> =
        (0..cpus).map(|of| std::thread::spawn(move || send(of, address))).collect();
    fn send(of: u32, address: SocketAddr) {
        let from = udp();
        for n in 0..EACH {
            let mut bytes = [0; 100];
            bytes[..4].copy_from_slice(&(of * EACH + n).to_be_bytes());
            from.send_to(&bytes, address).unwrap();
            if n % 8 == 0 {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }
    let mut found = Vec::new();
    while !reader.is_finished() {
        found.extend(so_far(&mut layers, address.port()));
    }
    found.extend(so_far(&mut layers, address.port()));
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    let reads = reader.join().unwrap();
    let mistaken = found.iter().filter(|journey| {
        let number = u32::from_be_bytes(journey.bytes[42..46].try_into().unwrap());
        let at = journey.at(Layer::Application).unwrap();
        reads.get(&number).is_none_or(|(from, to)| !(*from..=*to).contains(&at))
    });
    let mistaken = mistaken.count();
    println!(
        "{} datagrams, {} read, {} followed, {mistaken} mistaken, {:?}, lost {}",
        cpus * EACH,
        reads.len(),
        found.len(),
        layers.unfollowed(),
        layers.lost().unwrap()
    );
    // The order of reports of several processors is nearly that of what they report.
    assert!(mistaken * 200 <= found.len(), "{mistaken} of {}", found.len());
    assert!(found.len() * 2 > reads.len());
}

#[test]
fn a_segment_that_was_merged_is_read_by_nobody_else() {
    let Some(mut layers) = open() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut from = TcpStream::connect(address).unwrap();
    from.set_nodelay(true).unwrap();
    let (mut to, _) = listener.accept().unwrap();
    let mut reads = Vec::new();
    for _ in 0..20 {
        (0..5).for_each(|_| from.write_all(&[7; 500]).unwrap());
        // The kernel's buffers of the merged ones are used again for these.
        let (mine, other) = UnixDatagram::pair().unwrap();
        let mut buffer = [0; 3000];
        for _ in 0..20 {
            mine.send(&[1; 10]).unwrap();
        }
        for _ in 0..20 {
            other.recv(&mut buffer).unwrap();
        }
        let before = now();
        to.read_exact(&mut buffer[..2500]).unwrap();
        reads.push((before, now()));
    }
    let found = so_far(&mut layers, address.port());
    assert!(!found.is_empty());
    for journey in found {
        let at = journey.at(Layer::Application).unwrap();
        assert!(reads.iter().any(|(from, to)| (*from..=*to).contains(&at)), "{journey:?}");
    }
}

#[test]
fn what_the_kernel_answers_itself_is_read_by_nobody() {
    // Others' ICMP is not among it there.
    in_a_namespace(|| {
        let Some(mut layers) = open() else { return };
        // Gets a copy of every echo request; the kernel answers.
        // SAFETY: three numbers; the descriptor is checked, and ours.
        let raw = unsafe {
            let fd = libc::socket(
                libc::AF_INET,
                libc::SOCK_RAW | libc::SOCK_CLOEXEC,
                libc::IPPROTO_ICMP,
            );
            assert!(fd >= 0, "{}", std::io::Error::last_os_error());
            <std::net::UdpSocket as std::os::fd::FromRawFd>::from_raw_fd(fd)
        };
        let echo = [8, 0, 0xf7, 0xfd, 0, 1, 0, 1];
        for _ in 0..20 {
            raw.send_to(&echo, "127.0.0.1:0").unwrap();
        }
        std::thread::sleep(Duration::from_millis(50));
        let mut found = Vec::new();
        layers.next(Duration::from_millis(100), |journey| found.push(journey)).unwrap();
        found.retain(|journey| journey.bytes.get(23) == Some(&1));
        // On their way down there are both: requests, which our calls sent, and answers, which none did.
        let (asked, answered): (Vec<&Journey>, Vec<&Journey>) =
            found.iter().partition(|journey| journey.bytes.get(34) == Some(&8));
        assert!(asked.iter().all(|journey| journey.pid == std::process::id()), "{asked:?}");
        assert!(answered.iter().all(|journey| journey.at(Layer::Send).is_none()), "{answered:?}");
        assert_eq!((asked.len(), answered.len()), (20, 20));
        found.retain(|journey| journey.at(Layer::Stack).is_some());
        assert_eq!(found, [], "nothing was read");
    });
}

/// Runs a program that sets the network up.
fn set_up(line: &str) {
    let (program, words) = line.split_once(' ').unwrap();
    let status = std::process::Command::new(program).args(words.split(' ')).status();
    assert!(status.unwrap().success(), "{line}");
}

/// Runs this in a network namespace of its own, with loopback.
fn in_a_namespace(test: impl FnOnce() + Send + 'static) {
    let name = std::thread::current().name().unwrap_or("layers").to_owned();
    let inside = std::thread::Builder::new().name(name).spawn(|| {
        // SAFETY: it is about this thread alone, which does nothing else.
        let namespace = match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
            0 => Ok(()),
            _ => Err(Lacking(format!("no network namespace: {}", std::io::Error::last_os_error()))),
        };
        let Some(()) = or_skip(namespace) else { return };
        set_up("ip link set lo up");
        test();
    });
    inside.unwrap().join().unwrap();
}

/// An interface with a peer and the address 192.0.2.1; its neighbour is 192.0.2.2.
fn wire() {
    set_up("ip link add v0 type veth peer name v1");
    set_up("ip addr add 192.0.2.1/24 dev v0");
    set_up("ip link set v0 up");
    set_up("ip link set v1 up");
    set_up("ip neigh add 192.0.2.2 lladdr 02:00:00:00:00:02 dev v0");
}

/// The journeys down so far to this port, by any interface.
fn down_so_far(layers: &mut Layers, port: u16) -> Vec<Journey> {
    journeys_by(layers, port, (Layer::Scheduler, usize::MAX), Duration::from_millis(300))
}

#[test]
fn the_interface_is_that_of_the_thread_s_own_namespace() {
    in_a_namespace(|| {
        let Some(mut layers) = open() else { return };
        let (from, to) = (udp(), udp());
        let reads: Vec<_> = (0..5).map(|number| round(&from, &to, number)).collect();
        let found = so_far(&mut layers, to.local_addr().unwrap().port());
        none_is_mistaken(&found, &reads);
        assert_eq!(found.len(), 5);
    });
}

#[test]
fn what_is_dropped_in_the_queue_lends_nothing_to_another_interface() {
    in_a_namespace(|| {
        wire();
        set_up("tc qdisc replace dev v0 root blackhole");
        let Some(mut layers) = or_skip(Layers::open("v0").map_err(|e| Lacking(e.to_string())))
        else {
            return;
        };
        let (from, to) = (udp(), udp());
        let away = UdpSocket::bind("192.0.2.1:0").unwrap();
        for number in 0..50 {
            // The kernel takes the buffer that it has just freed for the next packet.
            let _ = away.send_to(&[number; 100], "192.0.2.2:9");
            round(&from, &to, number);
        }
        assert_eq!(down_so_far(&mut layers, to.local_addr().unwrap().port()), []);
        assert_eq!(down_so_far(&mut layers, 9), [], "dropped");
    });
}

#[test]
fn what_is_cut_below_the_queue_lends_its_time_to_no_part() {
    in_a_namespace(|| {
        wire();
        // The card takes one segment at a time, so that the kernel cuts what is longer.
        set_up("ip link set v0 gso_max_segs 1");
        let Some(mut layers) = or_skip(Layers::open("v0").map_err(|e| Lacking(e.to_string())))
        else {
            return;
        };
        let from = UdpSocket::bind("192.0.2.1:0").unwrap();
        let length: libc::c_int = 100;
        // SAFETY: the option is an int of this function's, and read only.
        let set = unsafe {
            let at = std::ptr::from_ref(&length).cast();
            let (level, option) = (libc::SOL_UDP, libc::UDP_SEGMENT);
            let size = size_of::<libc::c_int>() as libc::socklen_t;
            libc::setsockopt(from.as_raw_fd(), level, option, at, size)
        };
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
        for number in 0..50 {
            from.send_to(&[number; 1000], "192.0.2.2:9").unwrap();
        }
        assert_eq!(down_so_far(&mut layers, 9), []);
        // One that is not cut is followed.
        from.send_to(&[1; 100], "192.0.2.2:9").unwrap();
        assert_eq!(down_so_far(&mut layers, 9).len(), 1);
    });
}
