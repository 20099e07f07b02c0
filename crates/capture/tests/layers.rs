//! Real packets on the loopback interface, followed from layer to layer.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use truechimer_capture::layers::{Journey, Layer, Layers};

/// The layers of loopback, or a word on why not: it takes rights that not everybody has.
fn open() -> Option<Layers> {
    match Layers::open("lo") {
        Ok(layers) => Some(layers),
        Err(error) => {
            println!("SKIPPED layers: {error}");
            None
        }
    }
}

/// The journeys of packets to this port, until there are `wanted`.
fn journeys(layers: &mut Layers, port: u16, wanted: usize) -> Vec<Journey> {
    let mut found = Vec::new();
    let began = Instant::now();
    while found.len() < wanted && began.elapsed() < Duration::from_secs(20) {
        let each = |journey: Journey| {
            // Ethernet, IPv4 without options, ports.
            if journey.bytes.get(36..38) == Some(&port.to_be_bytes()) {
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
