//! A server of the page's clock over loopback, as far as it goes without a clock.
#![allow(clippy::unwrap_used)]

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use truechimer_ntp::{LeapIndicator, Mode, Packet, RefId, Timestamp};
use truechimer_serve::{Access, Listen, PageServer, Rate, Responder, Upstream};

fn responder() -> Responder {
    Responder::new(Access::new(&[], &[]), Some(Rate { per_second: 1000, burst: 1000 }), true, 1)
}

fn listen(address: &str) -> Listen {
    Listen { address: address.parse().unwrap(), optional: false }
}

/// Asks with this many different sockets, each once.
fn ask(address: SocketAddr, times: u64) -> Vec<Packet> {
    let one = |id| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket.connect(address).unwrap();
        let request = Packet {
            version: 3,
            mode: Mode::Client,
            transmit_timestamp: Timestamp(id),
            ..Packet::default()
        };
        // With something behind the header, which is passed over.
        socket.send(&[&request.encode()[..], &[0xff; 20]].concat()).unwrap();
        let mut bytes = [0; 100];
        let len = socket.recv(&mut bytes).unwrap();
        assert_eq!(len, 48);
        let reply = Packet::decode(&bytes).unwrap().0;
        assert_eq!((reply.origin_timestamp, reply.version), (Timestamp(id), 3));
        reply
    };
    (1..=times).map(one).collect()
}

#[test]
fn without_a_clock_every_thread_says_so() {
    let server = PageServer::bind(&[listen("127.0.0.1:0")], 4, responder()).unwrap();
    let address = server.addresses()[0];
    let serving = server.start().unwrap();
    // What stands behind a clock is of no use without the clock.
    serving.set_upstream(Some(Upstream { stratum: 1, reference_id: RefId([192, 0, 2, 1]) }));
    for reply in ask(address, 50) {
        assert_eq!((reply.leap, reply.stratum), (LeapIndicator::Unsynchronised, 0));
        assert_eq!(reply.reference_id, RefId(*b"INIT"));
        assert!(reply.transmit_timestamp.since(reply.receive_timestamp).0 > 0);
    }
    assert_eq!(serving.state().leap, LeapIndicator::Unsynchronised);
    assert!(!serving.is_broken() && serving.clock().is_none());
    let tally = serving.stop().unwrap();
    assert_eq!((tally.received, tally.answered, tally.unsynchronised), (50, 50, 50));
    assert_eq!((tally.version3, tally.version4), (50, 0));
}

#[test]
fn an_address_is_taken_once_however_many_threads_share_it() {
    for (first, second) in [(1, 1), (1, 3), (3, 1), (3, 3)] {
        let one = PageServer::bind(&[listen("127.0.0.1:0")], first, responder()).unwrap();
        let again = Listen { address: one.addresses()[0], optional: true };
        let error = PageServer::bind(&[again], second, responder()).unwrap_err();
        assert_eq!((error.why.kind(), error.address), (ErrorKind::AddrInUse, again.address));
    }
}

#[test]
fn an_address_that_the_system_lacks_may_be_optional() {
    let absent = Listen { address: "192.0.2.1:0".parse().unwrap(), optional: true };
    let server = PageServer::bind(&[absent, listen("127.0.0.1:0")], 1, responder()).unwrap();
    assert_eq!(server.addresses().len(), 1);
    assert!(PageServer::bind(&[absent], 1, responder()).is_err());
    let needed = Listen { optional: false, ..absent };
    let error = PageServer::bind(&[listen("127.0.0.1:0"), needed], 1, responder()).unwrap_err();
    assert!(error.to_string().contains("192.0.2.1:0"), "{error}");
}
