//! Servers that lie, refuse, babble or vanish: counted refusals and no wrong time.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use truechimer::Status;
use truechimer_testbed::daemon::{SOON, Setup};
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::namespace::Pair;
use truechimer_testbed::temp;
use truechimer_testbed::truth::Truth;
use truechimer_testbed::udp::receive;
use truechimer_testbed::watch::Watch;

use crate::number;

/// A server whose answers are made up by a function of the request.
pub struct Server {
    pub address: SocketAddr,
    asked: Arc<AtomicU64>,
    socket: UdpSocket,
}

/// Where an answer goes: the server's own socket, one of another port, the client.
pub struct Client<'a> {
    own: &'a UdpSocket,
    other: &'a UdpSocket,
    address: SocketAddr,
}

impl Client<'_> {
    pub fn send(&self, bytes: &[u8]) {
        // The client may have closed its socket already.
        let _ = self.own.send_to(bytes, self.address);
    }
}

impl Server {
    pub fn start(mut answer: impl FnMut(&[u8], &Client<'_>) + Send + 'static) -> Server {
        let own = UdpSocket::bind("127.0.0.1:0").unwrap();
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        let asked = Arc::new(AtomicU64::new(0));
        let server = Server {
            address: own.local_addr().unwrap(),
            asked: Arc::clone(&asked),
            socket: own.try_clone().unwrap(),
        };
        std::thread::spawn(move || {
            let mut buffer = [0; 512];
            while let Ok((length, address)) = receive(&own, &mut buffer) {
                if length == 1 {
                    return;
                }
                asked.fetch_add(1, Ordering::Relaxed);
                answer(&buffer[..length], &Client { own: &own, other: &other, address });
            }
        });
        server
    }

    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    /// Ends the thread, and with it the last socket of that port.
    fn drop(&mut self) {
        let _ = self.socket.send_to(&[0], self.address);
    }
}

/// Fields of a reply, by their place in the packet.
const FIRST: usize = 0;
const STRATUM: usize = 1;
const ROOT_DISPERSION: usize = 8;
const REFERENCE_ID: usize = 12;
const ORIGIN: usize = 24;
const RECEIVE: usize = 32;
const TRANSMIT: usize = 40;

/// Answer of an honest server of stratum 2 if it were ahead of the truth by so much.
pub fn reply(request: &[u8], ahead: Duration) -> [u8; 48] {
    let now = Truth::host().now_ns() as u128 + ahead.as_nanos();
    let seconds = (now / 1_000_000_000) as u64 + 2_208_988_800;
    let fraction = ((now % 1_000_000_000) << 32) / 1_000_000_000;
    let timestamp = ((seconds << 32) | fraction as u64).to_be_bytes();
    let mut reply = [0; 48];
    reply[FIRST] = 0x24;
    reply[STRATUM] = 2;
    reply[3] = 0xe8;
    reply[REFERENCE_ID..][..4].copy_from_slice(&[192, 0, 2, 9]);
    reply[16..24].copy_from_slice(&timestamp);
    reply[ORIGIN..][..8].copy_from_slice(&request[TRANSMIT..][..8]);
    reply[RECEIVE..][..8].copy_from_slice(&timestamp);
    reply[TRANSMIT..][..8].copy_from_slice(&timestamp);
    reply
}

const HOUR: Duration = Duration::from_secs(3600);

/// A server that is an hour ahead and says so in a reply that `spoil` has made unacceptable.
fn liar(spoil: impl Fn(&mut [u8; 48]) + Send + 'static) -> Server {
    Server::start(move |request, client| {
        let mut reply = reply(request, HOUR);
        spoil(&mut reply);
        client.send(&reply);
    })
}

fn kiss(code: &'static [u8; 4]) -> Server {
    liar(move |reply| {
        reply[STRATUM] = 0;
        reply[REFERENCE_ID..][..4].copy_from_slice(code);
    })
}

#[test]
fn every_lie_is_refused_and_counted_by_its_name() {
    let liars = [
        ("wrong-origin", liar(|reply| reply[ORIGIN] ^= 1)),
        ("wrong-mode", liar(|reply| reply[FIRST] = 0x23)),
        ("bad-version", liar(|reply| reply[FIRST] = 0x3c)),
        ("unsynchronised", liar(|reply| reply[FIRST] |= 0xc0)),
        ("stratum", liar(|reply| reply[STRATUM] = 16)),
        ("zero-timestamp", liar(|reply| reply[TRANSMIT..].fill(0))),
        ("transmit-before-receive", liar(|reply| reply[RECEIVE + 3] += 1)),
        ("root-distance", liar(|reply| reply[ROOT_DISPERSION + 1] = 20)),
        ("kiss-other", kiss(b"XYZW")),
        ("kiss-rate", kiss(b"RATE")),
        ("kiss-deny", kiss(b"DENY")),
        ("kiss-rstr", kiss(b"RSTR")),
        ("too-short", Server::start(|request, client| client.send(&reply(request, HOUR)[..47]))),
        (
            "wrong-address",
            Server::start(|request, client| {
                let _ = client.other.send_to(&reply(request, HOUR), client.address);
            }),
        ),
    ];
    let dir = temp::Dir::new();
    let servers = liars.iter().map(|(_, liar)| liar.address.to_string()).collect();
    let mut daemon = Setup { servers, ..Setup::new(&dir, "") }.start();
    let patience = std::time::Instant::now() + SOON;
    loop {
        let sources = daemon.ask(&["sources"]);
        let seen = |i: usize, name: &str| sources.json[i]["refused"][name].as_u64();
        let missing: Vec<_> = liars
            .iter()
            .enumerate()
            .filter(|(i, (name, _))| seen(*i, name).is_none())
            .map(|(_, (name, _))| name)
            .collect();
        if missing.is_empty() {
            for source in sources.json.as_array().unwrap() {
                assert_eq!(source["accepted"], 0, "{source:#}");
                assert_eq!(source["selection"], "unusable", "{source:#}");
            }
            break;
        }
        assert!(daemon.process.is_running(), "{}", daemon.process.output());
        assert!(
            std::time::Instant::now() < patience,
            "never counted: {missing:?} {:#}",
            sources.json
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    let now = daemon.ask(&["now"]);
    assert_ne!(now.code, 0, "{now:?}");
    let wait = daemon.ask(&["waitsync", "--timeout", "100ms"]);
    assert_eq!(wait.code, 1, "{wait:?}");
}

#[test]
fn a_kiss_of_death_is_obeyed() {
    let (deny, rate, other) = (kiss(b"DENY"), kiss(b"RATE"), liar(|reply| reply[STRATUM] = 16));
    let dir = temp::Dir::new();
    let servers = [&deny, &rate, &other].map(|s| s.address.to_string()).into();
    let mut daemon = Setup { servers, ..Setup::new(&dir, "") }.start();
    while other.asked() < 12 {
        assert!(daemon.process.is_running(), "{}", daemon.process.output());
        assert!(daemon.started.elapsed() < 2 * SOON, "the third server is hardly asked");
        std::thread::sleep(Duration::from_millis(100));
    }
    println!("asked {} / {} / {} times", deny.asked(), rate.asked(), other.asked());
    assert_eq!(deny.asked(), 1, "DENY does not stop it");
    assert!((1..=5).contains(&rate.asked()), "RATE hardly slows it: {}", rate.asked());
}

/// An honest server whose every answer comes among forgeries that are an hour ahead, from an
/// attacker who knows all but the origin timestamp, and noise of every kind. Then so many of them
/// come first that the honest answer is drowned out.
#[test]
fn a_flood_of_forgeries_never_gives_wrong_time() {
    let mut noise = 88_172_645_463_325_252u64;
    let mut random = move || {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        noise
    };
    let before = Arc::new(AtomicU64::new(10));
    let server = Server::start({
        let before = Arc::clone(&before);
        move |request, client| {
            let mut forgeries = |count: u64| {
                for _ in 0..count {
                    let mut forged = reply(request, HOUR);
                    forged[ORIGIN..][..8].copy_from_slice(&random().to_be_bytes());
                    client.send(&forged);
                    let length = random() as usize % 120;
                    let babble: Vec<u8> = (0..length).map(|_| random() as u8).collect();
                    client.send(&babble);
                    let _ = client.other.send_to(&reply(request, HOUR), client.address);
                }
            };
            forgeries(before.load(Ordering::Relaxed));
            let honest = reply(request, Duration::ZERO);
            client.send(&honest);
            client.send(&honest);
            forgeries(100);
        }
    });
    let dir = temp::Dir::new();
    let mut daemon = Setup::new(&dir, server.address.to_string()).start();
    let mut watch = daemon.watch(Truth::host());
    watch.run(Duration::from_secs(20));
    let source = daemon.source_when(|source| {
        let refused = |name: &&str| source["refused"][name].as_i64() > Some(10);
        number(source, "accepted") > 10
            && ["wrong-origin", "too-short", "wrong-address", "duplicate"].iter().all(refused)
    });
    watch.run(Duration::from_secs(10));
    println!("{}", watch.summary());
    println!("refused {}", source["refused"]);

    before.store(300, Ordering::Relaxed);
    watch.run_until_status(Status::Holdover, SOON);
    watch.run(Duration::from_secs(5));
    println!("drowned out: {}", watch.summary());
    assert!(daemon.process.is_running() && !daemon.process.output().contains("panicked"));
}

#[test]
fn a_server_that_vanishes_is_outlived() {
    let server = Server::start(|request, client| client.send(&reply(request, Duration::ZERO)));
    let dir = temp::Dir::new();
    let mut daemon = Setup::new(&dir, server.address.to_string()).start();
    let mut watch = daemon.watch(Truth::host());
    watch.run(Duration::from_secs(12));
    drop(server);
    watch.run_until_status(Status::Holdover, SOON);
    watch.run(Duration::from_secs(5));
    println!("{}", watch.summary());
    let source = daemon.source();
    println!("trouble: {}", source["trouble"]);
    assert!(source["trouble"].is_string(), "{source:#}");
    assert!(daemon.process.is_running());
}

#[test]
fn a_name_that_cannot_be_resolved_is_said_and_waited_for() {
    // In a network without any way out: nobody is asked about the name.
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let mut daemon =
        Setup { network: Some(&net.client), ..Setup::new(&dir, "clock.invalid") }.start();
    let source = daemon.source_when(|source| source["trouble"].is_string());
    println!("trouble: {}", source["trouble"]);
    assert_eq!(source["requests"], 0, "{source:#}");
    let mut watch = Watch::new(daemon.clock(), Truth::host(), daemon.started);
    watch.run(Duration::from_secs(1));
    assert!(watch.samples.iter().all(|sample| sample.status == Status::Unknown));
}
