//! A server with clients that mean no good, and with names that are somebody else's.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use truechimer_metrics::{Family, Listen, Server, unbound};

const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
/// Patience with a machine that does much else.
const LONG: Duration = Duration::from_secs(60);

/// A folder of a test's own.
fn folder() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("truechimer-metrics-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    fs::create_dir(&path).unwrap();
    path
}

/// Runs a server on a thread while `client` runs: what that gives, and how often the text was made.
fn with_server<T>(listen: &Listen, client: impl FnOnce(&Listen) -> T) -> (T, u32) {
    let mut server = Server::bind(listen).unwrap();
    let place = server.place().clone();
    let (over, made) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            server.run(&over, &mut || {
                made.fetch_add(1, Ordering::Relaxed);
                // More than a socket holds.
                let help = "x";
                let many = (0..20_000).map(|n| (vec![("n", n.to_string())], 1.0));
                let kind = truechimer_metrics::MetricType::Gauge;
                vec![
                    Family::gauge("answer", "", help, 42.0),
                    Family::of(kind, "many", "", help, many),
                ]
            });
        });
        let result = client(&place);
        over.store(true, Ordering::Relaxed);
        (result, made.load(Ordering::Relaxed))
    })
}

fn address(place: &Listen) -> SocketAddr {
    place.to_string().parse().unwrap()
}

fn connect(place: &Listen) -> TcpStream {
    let stream = TcpStream::connect(address(place)).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

fn ask(mut stream: impl Read + Write) -> String {
    stream.write_all(REQUEST).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn whoever_hangs_is_in_nobodys_way() {
    let ((), made) = with_server(&"127.0.0.1:0".parse().unwrap(), |place| {
        // One in the midst of its request, some that never read, and more than there is room for.
        let mut half = connect(place);
        half.write_all(b"GET /metrics HT").unwrap();
        let deaf: Vec<TcpStream> = (0..8).map(|_| connect(place)).collect();
        deaf.iter().for_each(|mut stream| stream.write_all(REQUEST).unwrap());
        for _ in 0..20 {
            let idle: Vec<TcpStream> = (0..10).map(|_| connect(place)).collect();
            let answer = ask(connect(place));
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer:.100}");
            assert!(answer.contains("\ntruechimer_answer 42"), "{answer:.100}");
            drop(idle);
        }
        // The first ones had to go.
        assert!(matches!(half.read(&mut [0; 100]), Ok(0) | Err(_)));
        drop(deaf);
    });
    // Once a second.
    assert!((1..40).contains(&made), "{made}");
}

#[test]
fn a_name_that_is_somebody_elses_is_refused_and_left_alone() {
    let folder = folder();
    let path = folder.join("metrics");
    let listen = Listen::Socket(path.clone());
    let refused = |kind: ErrorKind, mend: &str| {
        let why = Server::bind(&listen).unwrap_err();
        assert_eq!(why.kind(), kind, "{why}");
        let told = unbound(&listen, &why, "--metrics");
        assert!(told.contains(mend), "{told}");
    };
    fs::write(&path, "precious").unwrap();
    refused(ErrorKind::AlreadyExists, "something else is in its place; move that away");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(folder.join("elsewhere"), &path).unwrap();
    refused(ErrorKind::AlreadyExists, "something else");
    fs::remove_file(&path).unwrap();
    // One that hangs: its queue is full, and nobody gets through.
    let hung = UnixListener::bind(&path).unwrap();
    refused(ErrorKind::AddrInUse, "another daemon answers there; end that one first");
    // What a dead one left is replaced, and nothing is left in the end.
    drop(hung);
    let (answer, _) = with_server(&listen, |_| ask(UnixStream::connect(&path).unwrap()));
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer:.100}");
    assert!(!path.exists());
    let nowhere = Listen::Socket(folder.join("no/metrics"));
    let told = unbound(&nowhere, &Server::bind(&nowhere).unwrap_err(), "--metrics");
    assert!(told.contains("make its directory"), "{told}");
    fs::remove_dir(folder).unwrap();
}

#[test]
fn a_port_that_is_taken_is_named() {
    let first = Server::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
    let why = Server::bind(first.place()).unwrap_err();
    let told = unbound(first.place(), &why, "--metrics");
    assert!(told.contains("somebody else listens there"), "{told}");
}
