//! The relay: does it do to packets what it is told, and nothing else?

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use truechimer_testbed::relay::{Path, Relay};
use truechimer_testbed::udp::receive;

#[test]
fn fates_have_the_distribution_asked_for() {
    let path: Path = "delay=2ms,jitter=500us,loss=0.2,duplicate=0.1".parse().unwrap();
    let fates: Vec<Vec<Duration>> = (0..20_000).map(|n| path.fate(7, n)).collect();
    let share = |copies: usize| {
        fates.iter().filter(|fate| fate.len() == copies).count() as f64 / fates.len() as f64
    };
    assert!((share(0) - 0.2).abs() < 0.01, "lost {}", share(0));
    assert!((share(2) - 0.08).abs() < 0.01, "doubled {}", share(2));
    let delays: Vec<f64> = fates.iter().flatten().map(Duration::as_secs_f64).collect();
    assert!(delays.iter().all(|&d| d >= 2e-3));
    let mean = delays.iter().sum::<f64>() / delays.len() as f64;
    assert!((mean - 2.5e-3).abs() < 2e-5, "mean {mean}");
    assert_eq!(path.fate(7, 3), path.fate(7, 3));
    assert!((0..50).any(|n| path.fate(7, n) != path.fate(8, n)));
}

#[test]
fn nonsense_is_named() {
    for bad in ["loss=2", "delay=5", "speed=1ms", "loss"] {
        assert_eq!(bad.parse::<Path>(), Err(format!("cannot make sense of `{bad}`")));
    }
}

/// A server that doubles every byte, and two clients that must each get their own back.
#[test]
fn answers_find_their_client() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let relay = Relay {
        socket: UdpSocket::bind("127.0.0.1:0").unwrap(),
        server: server.local_addr().unwrap(),
        there: "delay=3ms".parse().unwrap(),
        back: "delay=4ms,duplicate=1".parse().unwrap(),
        seed: 1,
    };
    let entrance = relay.socket.local_addr().unwrap();
    std::thread::spawn(move || relay.run());
    std::thread::spawn(move || {
        let mut buffer = [0; 16];
        while let Ok((length, from)) = receive(&server, &mut buffer) {
            let answer: Vec<u8> = buffer[..length].iter().map(|b| b * 2).collect();
            server.send_to(&answer, from).unwrap();
        }
    });
    let clients = [10u8, 20].map(|byte| (byte, UdpSocket::bind("127.0.0.1:0").unwrap()));
    for (byte, client) in &clients {
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        client.send_to(&[*byte], entrance).unwrap();
    }
    let start = Instant::now();
    for (byte, client) in &clients {
        for _copy in 0..2 {
            let mut buffer = [0; 16];
            let (length, from) = receive(client, &mut buffer).unwrap();
            assert_eq!((&buffer[..length], from), (&[byte * 2][..], entrance));
        }
    }
    // The requests left before `start`, but each answer is held for 4 ms behind its request.
    assert!(start.elapsed() >= Duration::from_millis(4));
}
