#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
//! The server as a client sees it, over real sockets.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use truechimer_counter::{Choice, Counter};
use truechimer_ntp::{HEADER_LEN, LeapIndicator, Mode, Packet, Timestamp};
use truechimer_serve::{Running, ServedClock, Server};
use truechimer_time::{Rate, Span};

const OFFSET: Span = Span::from_secs(-86_400);
const SKEW: Rate = Rate::from_ppb(400_000_000);

fn start(listen: &str) -> Running {
    let clock = ServedClock::starting_now(OFFSET, SKEW).unwrap();
    Server::bind(listen.parse().unwrap(), clock, 3).unwrap().start().unwrap()
}

fn client(server: SocketAddr) -> UdpSocket {
    let any: SocketAddr = if server.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" }.parse().unwrap();
    let client = UdpSocket::bind(any).unwrap();
    client.connect(server).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    client
}

/// A request of this version and mode with nothing in it but a number to recognise it by.
fn request(version: u8, mode: u8, origin: u64) -> [u8; HEADER_LEN] {
    let mut bytes = [0; HEADER_LEN];
    bytes[0] = (version << 3) | mode;
    bytes[40..].copy_from_slice(&origin.to_be_bytes());
    bytes
}

fn reply(client: &UdpSocket) -> Packet {
    let mut bytes = [0; 1024];
    let len = client.recv(&mut bytes).unwrap();
    assert_eq!(len, HEADER_LEN);
    Packet::decode(&bytes[..len]).unwrap().0
}

fn unix_ns(timestamp: Timestamp) -> i64 {
    let (secs, frac) = timestamp.to_unix(1_800_000_000);
    secs * 1_000_000_000 + ((u128::from(frac) * 1_000_000_000) >> 64) as i64
}

/// A reply may be here before the server has counted it.
fn wait_for_answers(server: &Running, n: u64) {
    for _ in 0..1000 {
        if server.answered() == n {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} answers, not {n}", server.answered());
}

#[test]
fn replies_carry_the_served_time_over_both_protocols() {
    for listen in ["127.0.0.1:0", "[::1]:0"] {
        let server = start(listen);
        let client = client(server.address());
        let counter = Counter::open(Choice::Auto).unwrap();
        for n in 1..=20 {
            let before = server.clock().sandwich(counter).unix_ns;
            client.send(&request(4, 3, n)).unwrap();
            let reply = reply(&client);
            let after = server.clock().sandwich(counter).unix_ns;
            assert_eq!(reply.origin_timestamp, Timestamp(n));
            let (receive, transmit) =
                (unix_ns(reply.receive_timestamp), unix_ns(reply.transmit_timestamp));
            // A microsecond for what turning a kernel stamp into served time may cost.
            assert!(before - 1_000 <= receive, "{before} {receive}");
            assert!(receive <= transmit && transmit <= after, "{receive} {transmit} {after}");
            assert_eq!((reply.mode, reply.stratum), (Mode::Server, 3));
            assert_eq!(reply.leap, LeapIndicator::None);
            let claimed = reply.root_dispersion.span();
            assert!(claimed > Span::ZERO && claimed < Span::from_micros(20), "{claimed}");
        }
        wait_for_answers(&server, 20);
    }
}

#[test]
fn only_requests_are_answered() {
    let server = start("127.0.0.1:0");
    let client = client(server.address());
    for bytes in [&[][..], &[0x23; 47], &request(4, 4, 1), &request(0, 3, 2), &request(5, 3, 3)] {
        client.send(bytes).unwrap();
    }
    client.send(&request(3, 3, 4)).unwrap();
    let reply = reply(&client);
    assert_eq!((reply.origin_timestamp, reply.version), (Timestamp(4), 3));
    wait_for_answers(&server, 1);
}

#[test]
fn a_port_in_use_is_an_error_and_free_again_after_the_server() {
    let server = start("127.0.0.1:0");
    let clock = server.clock();
    let error = Server::bind(server.address(), clock, 3).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    let address = server.address();
    drop(server);
    Server::bind(address, clock, 3).unwrap();
}

/// The stamp of a request that waited in the queue while another was answered is the kernel's all
/// the same: how long it waited shows between its two times, and is no error of the first.
#[test]
fn requests_that_queue_are_stamped_when_they_came() {
    const WAIT: Duration = Duration::from_millis(150);
    let clock = ServedClock::starting_now(Span::ZERO, Rate::ZERO).unwrap();
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), clock, 3).unwrap();
    // The kernel begins to stamp a moment after it was asked to.
    std::thread::sleep(WAIT);
    let clients: Vec<UdpSocket> = (0..4).map(|_| client(server.address())).collect();
    for (client, n) in clients.iter().zip(1..) {
        client.send(&request(4, 3, n)).unwrap();
    }
    std::thread::sleep(WAIT);
    let _running = server.start().unwrap();
    for client in &clients {
        let reply = reply(client);
        let waited = unix_ns(reply.transmit_timestamp) - unix_ns(reply.receive_timestamp);
        assert!(waited >= WAIT.as_nanos() as i64, "{waited} ns");
    }
}
