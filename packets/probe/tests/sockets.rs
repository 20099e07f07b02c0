//! Both ends with sockets, on loopback, without a clock.
#![allow(clippy::indexing_slicing, clippy::unwrap_used)]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use truechimer_probe::measure::{Measurement, Plan};
use truechimer_probe::serve::{Server, Tally};
use truechimer_probe::{Access, Keeper, Report};
use truechimer_qos::Codec;

/// Report of packets to that host of a reflector that listens there, and what the reflector says of them.
fn measured(listen: &str, host: &str) -> (Report, Tally) {
    let access = Access { open: true, ..Access::default() };
    let listen = [(listen.parse().unwrap(), false)];
    let mut server = Server::bind(&listen, None, access).map_err(|failed| failed.why).unwrap();
    let to = SocketAddr::new(host.parse().unwrap(), server.addresses()[0].port());
    let stop = AtomicBool::new(false);
    let plan = Plan {
        to,
        count: 20,
        interval: Duration::from_millis(1),
        wait: Duration::from_secs(10),
        size: 300,
        code_point: 10,
        key: None,
        identifier: 7,
    };
    let report = std::thread::scope(|scope| {
        scope.spawn(|| server.run(&stop, |_| Ok(())).unwrap());
        let mut measurement = Measurement::new(plan, Keeper::new(None).unwrap()).unwrap();
        measurement.run(&AtomicBool::new(false)).unwrap();
        stop.store(true, Ordering::Relaxed);
        Report::of(measurement.session(), measurement.closing(), Codec::ALL[0])
    });
    (report, server.tally().clone())
}

/// Whichever of its addresses is asked, the reply comes from that: the sender takes no other.
#[test]
fn replies_come_from_the_address_that_was_asked() {
    for (listen, host) in [
        ("127.0.0.1:0", "127.0.0.1"),
        ("0.0.0.0:0", "127.0.0.2"),
        ("[::1]:0", "::1"),
        ("[::]:0", "::1"),
        ("[::]:0", "127.0.0.3"),
    ] {
        let (report, tally) = measured(listen, host);
        assert_eq!((report.sent, report.answered), (20, 20), "{listen} {host}: {tally:?}");
        assert_eq!((tally.received, tally.unsynchronised), (20, 20), "{listen} {host}");
        // Loopback says when packets leave.
        assert!(report.by_call < report.sent, "{} {:?}", report.by_call, report.notes);
        assert_eq!(report.hop_limits, Some([64, 64]), "{listen} {host}");
        // Without a clock there is a round trip without a bound, and nothing one way.
        assert!(report.round_trip.bound_max_ns.is_none(), "{listen} {host}");
        assert!(report.forward.delay.is_none() && report.own_bound_max_ns.is_none());
        assert!(report.round_trip.time.min_ns.unwrap() > 0, "{:?}", report.round_trip);
    }
}

#[test]
fn an_address_that_is_not_there_is_named() {
    let listen = [("192.0.2.99:8620".parse().unwrap(), false)];
    let failed = Server::bind(&listen, None, Access::default()).err().unwrap();
    assert_eq!(failed.address, listen[0].0);
}
