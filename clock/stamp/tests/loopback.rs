//! Real packets on loopback, stamped by the kernel at hand.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use truechimer_counter::{Choice, Counter, nominal, resolution};
use truechimer_stamp::{PairLog, Received, Socket, Undelivered};
use truechimer_time::{Count, CountSpan, Period, Stamp, StampMethod};

/// A counter, its pairs, and a socket that keeps the kernel's stamping switched on throughout.
struct Bench {
    counter: Counter,
    period: Period,
    log: PairLog,
    _keep: Socket,
}

impl Bench {
    fn new(choice: Choice) -> Bench {
        let counter = Counter::open(choice).unwrap();
        let period = nominal(counter).unwrap().period;
        let mut bench = Bench {
            counter,
            period,
            log: PairLog::new(period, resolution(counter)),
            _keep: Socket::open(&loopback()).unwrap(),
        };
        // The kernel switches stamping on from a work queue, in its own time.
        let server = server(loopback());
        for _ in 0..500 {
            let mut socket = Socket::open(&loopback()).unwrap();
            let exchange = bench.exchange(&mut socket, &server, Duration::ZERO);
            if exchange.received.method == StampMethod::Kernel {
                return bench;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("the kernel stamps nothing that arrives");
    }

    fn now(&self) -> Count {
        self.counter.fenced().read()
    }

    fn nanos(&self, span: CountSpan) -> i128 {
        self.period.span(span).as_nanos()
    }

    /// Waits for a datagram.
    fn receive(&mut self, socket: &mut Socket, buf: &mut [u8]) -> io::Result<Received> {
        for _ in 0..5_000 {
            if let Some(received) = socket.receive(self.counter, &mut self.log, buf)? {
                return Ok(received);
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("nothing came in five seconds");
    }

    /// Sends a request to `server`, answers it at once, and lets the answer lie for `wait` before
    /// it is received. Returns what came, the counts around everything but the waiting, and the
    /// count when it was received.
    fn exchange(&mut self, socket: &mut Socket, server: &UdpSocket, wait: Duration) -> Exchange {
        let mut buf = [0; 64];
        let begun = self.now();
        socket.send(self.counter, &mut self.log, &server.local_addr().unwrap(), b"when?").unwrap();
        let (len, from) = server.recv_from(&mut buf).unwrap();
        server.send_to(&buf[..len], from).unwrap();
        let answered = self.now();
        thread::sleep(wait);
        let received = self.receive(socket, &mut buf).unwrap();
        assert_eq!((received.len, received.size, &buf[..received.len]), (5, 5, &b"when?"[..]));
        assert_eq!(received.from, server.local_addr().unwrap());
        let sent = received.sent.unwrap();
        Exchange { begun, answered, sent, received: received.received, done: self.now() }
    }
}

struct Exchange {
    begun: Count,
    answered: Count,
    sent: Stamp,
    received: Stamp,
    done: Count,
}

impl Exchange {
    fn round_trip(&self) -> CountSpan {
        self.received.count - self.sent.count
    }

    fn errors(&self) -> CountSpan {
        self.sent.error + self.received.error
    }
}

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn server(address: SocketAddr) -> UdpSocket {
    let server = UdpSocket::bind(address).unwrap();
    server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    server
}

/// Is `stamp` from `earliest` to `latest`, as far as its error lets one say?
fn lies_within(stamp: Stamp, earliest: Count, latest: Count) -> bool {
    (stamp.count + stamp.error).at_or_after(earliest)
        && latest.at_or_after(stamp.count - stamp.error)
}

#[test]
fn the_kernel_stamps_both_ways() {
    for choice in [Choice::Auto, Choice::Raw] {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let mut bench = Bench::new(choice);
            let Ok(server) = UdpSocket::bind(address) else {
                // Past the harness, which would keep it to itself.
                use std::io::Write;
                let _ = writeln!(
                    std::io::stderr(),
                    "SKIPPED the_kernel_stamps_both_ways in part: {address} cannot be bound here"
                );
                continue;
            };
            let server_address = server.local_addr().unwrap();
            for _ in 0..20 {
                let mut socket = Socket::open(&server_address).unwrap();
                assert!(socket.stamping());
                let exchange = bench.exchange(&mut socket, &server, Duration::ZERO);
                assert_eq!(exchange.sent.method, StampMethod::Kernel, "{address}");
                assert_eq!(exchange.received.method, StampMethod::Kernel, "{address}");
                assert!(lies_within(exchange.sent, exchange.begun, exchange.answered));
                assert!(lies_within(exchange.received, exchange.begun, exchange.done));
                assert!(exchange.round_trip().0 > 0);
                println!(
                    "{choice:?} {address}: round trip {} ns, errors {} and {} ns",
                    bench.nanos(exchange.round_trip()),
                    bench.nanos(exchange.sent.error),
                    bench.nanos(exchange.received.error),
                );
            }
        }
    }
}

#[test]
fn a_starved_receiver_measures_the_same_round_trip() {
    let mut bench = Bench::new(Choice::Auto);
    let server = server(loopback());
    let wait = Duration::from_millis(100);

    let mut socket = Socket::open(&loopback()).unwrap();
    let stamped = bench.exchange(&mut socket, &server, wait);
    assert_eq!(stamped.received.method, StampMethod::Kernel);
    // The answer had arrived before the waiting began: so say the stamps, within their errors,
    // and what they are off by is nothing against the tenth of a second.
    let possible = (stamped.answered - stamped.begun) + stamped.errors();
    assert!(stamped.round_trip() <= possible);
    assert!(bench.nanos(stamped.errors()) < 1_000_000, "{}", bench.nanos(stamped.errors()));

    let mut socket = Socket::open_unstamped(&loopback()).unwrap();
    let unstamped = bench.exchange(&mut socket, &server, wait);
    assert!(bench.nanos(unstamped.round_trip()) > 100_000_000);
    println!(
        "after 100 ms: stamped {} ns, in user space {} ns",
        bench.nanos(stamped.round_trip()),
        bench.nanos(unstamped.round_trip())
    );
}

#[test]
fn without_the_kernel_stamps_say_so_and_are_honest() {
    let mut bench = Bench::new(Choice::Auto);
    let server = server(loopback());
    let mut socket = Socket::open_unstamped(&loopback()).unwrap();
    assert!(!socket.stamping());
    let exchange = bench.exchange(&mut socket, &server, Duration::from_millis(5));
    for stamp in [exchange.sent, exchange.received] {
        assert_eq!(stamp.method, StampMethod::User);
    }
    // The answer was there when `answered` was read; it may have come any time since the request.
    assert!((exchange.received.count - exchange.answered) <= exchange.received.error);
    assert!((exchange.answered - exchange.begun) >= exchange.sent.error);
}

#[test]
fn a_closed_port_is_reported_and_stamps_nothing() {
    let mut bench = Bench::new(Choice::Auto);
    // A socket that only listens to somebody else holds the port, but not for us.
    let holder = UdpSocket::bind(loopback()).unwrap();
    holder.connect("127.0.0.1:9").unwrap();
    let closed = holder.local_addr().unwrap();
    let mut socket = Socket::open(&closed).unwrap();
    socket.send(bench.counter, &mut bench.log, &closed, b"anyone?").unwrap();
    let error = bench.receive(&mut socket, &mut [0; 64]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    let news = *error.get_ref().and_then(|inner| inner.downcast_ref::<Undelivered>()).unwrap();
    assert_eq!((news.errno, news.to), (libc::ECONNREFUSED, Some(closed)));
    assert!(news.to_string().ends_with("says 127.0.0.1"), "{news}");
    // Said once, then over: the socket goes on to work.
    assert!(socket.receive(bench.counter, &mut bench.log, &mut [0; 64]).unwrap().is_none());
    assert_eq!(socket.on_error_queue(bench.counter, &mut bench.log), None);

    // The other way to hear of it, as `poll` reports it.
    socket.send(bench.counter, &mut bench.log, &closed, b"anyone?").unwrap();
    let news = (0..5_000).find_map(|_| {
        thread::sleep(Duration::from_millis(1));
        socket.on_error_queue(bench.counter, &mut bench.log)
    });
    assert_eq!(
        news,
        Some(Undelivered {
            errno: libc::ECONNREFUSED,
            to: Some(closed),
            by: Some("127.0.0.1".parse().unwrap())
        })
    );

    // A refusal that nobody asked for must not get in the way of the next request.
    socket.send(bench.counter, &mut bench.log, &closed, b"anyone?").unwrap();
    thread::sleep(Duration::from_millis(5));
    let server = server(loopback());
    let mut buf = [0; 64];
    socket.send(bench.counter, &mut bench.log, &server.local_addr().unwrap(), b"you?").unwrap();
    let (len, from) = server.recv_from(&mut buf).unwrap();
    server.send_to(&buf[..len], from).unwrap();
    let received = bench.receive(&mut socket, &mut buf).unwrap();
    assert_eq!(received.sent.map(|stamp| stamp.method), Some(StampMethod::Kernel));
}

#[test]
fn a_datagram_longer_than_the_buffer_is_delivered_with_its_length() {
    let mut bench = Bench::new(Choice::Auto);
    let server = server(loopback());
    let mut socket = Socket::open(&loopback()).unwrap();
    socket.send(bench.counter, &mut bench.log, &server.local_addr().unwrap(), b"?").unwrap();
    let (_, from) = server.recv_from(&mut [0; 8]).unwrap();
    server.send_to(&[7; 1000], from).unwrap();
    let mut buf = [0; 48];
    let received = bench.receive(&mut socket, &mut buf).unwrap();
    assert_eq!((received.len, received.size, buf), (48, 1000, [7; 48]));
}

#[test]
fn a_bound_socket_hears_requests_and_every_fresh_one_has_another_port() {
    let mut bench = Bench::new(Choice::Auto);
    let mut server = Socket::bind(&loopback(), bench.counter, &mut bench.log).unwrap();
    let address = server.local_address().unwrap();
    let mut ports = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let mut socket = Socket::open(&address).unwrap();
        assert_eq!(socket.local_address().unwrap().port(), 0);
        let begun = bench.now();
        socket.send(bench.counter, &mut bench.log, &address, b"when?").unwrap();
        ports.insert(socket.local_address().unwrap().port());
        let mut buf = [0; 64];
        let received = bench.receive(&mut server, &mut buf).unwrap();
        assert_eq!(received.sent, None);
        server.answer(&received.from, &buf[..received.len]).unwrap();
        // An answer is nothing that `poll` would report.
        assert_eq!(server.on_error_queue(bench.counter, &mut bench.log), None);
        assert_eq!(bench.receive(&mut socket, &mut buf).unwrap().from, address);
        assert_eq!(received.received.method, StampMethod::Kernel);
        assert!(lies_within(received.received, begun, bench.now()));
    }
    assert!(ports.len() > 10, "{ports:?}");
}
