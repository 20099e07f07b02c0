//! A network namespace of a thread's own with a virtual wire in it, and frames to send along it.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use truechimer_capture::bpf;
use truechimer_testbed::lacking::{Lacking, or_skip};

/// Where packets arrive: a tap goes here.
pub const NEAR: &str = "nearB";
/// Where they are sent.
pub const FAR: &str = "farB";

/// Runs `test` in a thread with a network namespace of its own, with both ends of a wire that has
/// so many queues: up, without addresses and silent.
pub fn with_wire(queues: u32, test: impl FnOnce() + Send + 'static) {
    // A child that another test is about to start has copies of this one's descriptors until it
    // becomes another program: what this one has closed would go on for a moment.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let name = std::thread::current().name().unwrap_or("xdp").to_owned();
    let inside = std::thread::Builder::new().name(name).spawn(move || {
        if or_skip(namespace()).is_some() {
            wire(queues);
            carries();
            test();
        }
    });
    inside.unwrap().join().unwrap();
}

fn namespace() -> Result<(), Lacking> {
    // SAFETY: it takes a number, and concerns this thread alone, which ends with the test.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(Lacking(format!("a network namespace: {}", io::Error::last_os_error())));
    }
    // Seen from the calling thread's namespace.
    let quiet = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    if let Err(error) = quiet {
        return Err(Lacking(format!("a silent interface: {error}")));
    }
    let probe = bpf::probe::program_kind(bpf::ProgramKind::Xdp);
    probe.map_err(|error| Lacking(error.to_string()))
}

fn wire(queues: u32) {
    let count = queues.to_string();
    ip(&[
        "link",
        "add",
        NEAR,
        "numrxqueues",
        &count,
        "numtxqueues",
        &count,
        "type",
        "veth",
        "peer",
        "name",
        FAR,
        "numrxqueues",
        &count,
        "numtxqueues",
        &count,
    ]);
    for end in [NEAR, FAR] {
        ip(&["link", "set", end, "up"]);
    }
}

/// Waits until the wire carries: what is sent before is dropped.
pub fn carries() {
    for end in [NEAR, FAR] {
        until("the wire carries", || ip(&["link", "show", end]).contains("state UP"));
    }
}

/// `ip`, which must succeed; what it prints.
pub fn ip(arguments: &[&str]) -> String {
    let output = Command::new("ip").args(arguments).output().unwrap();
    assert!(output.status.success(), "ip {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Sends frames.
pub struct Sender {
    socket: OwnedFd,
}

impl Sender {
    pub fn on(interface: &str) -> Sender {
        let index = bpf::interface_index(interface).unwrap();
        // SAFETY: it takes numbers only.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        // SAFETY: the call has just made it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: zeros are a value of this structure of numbers.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = index as i32;
        // SAFETY: the kernel reads a structure that is alive, with its size.
        let bound = unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of_val(&address) as libc::socklen_t,
            )
        };
        assert_eq!(bound, 0, "{}", io::Error::last_os_error());
        Sender { socket }
    }

    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: as many bytes as there are.
        let sent =
            unsafe { libc::send(self.socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        match usize::try_from(sent) {
            Ok(sent) => {
                assert_eq!(sent, frame.len());
                Ok(())
            }
            Err(_) => Err(io::Error::last_os_error()),
        }
    }
}

/// A UDP frame of this length (42 at least) that carries its number at its end (if that has room).
pub fn frame(number: u32, length: usize) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, 0x08, 0x00];
    let payload = length - 14;
    frame.extend([0x45, 0, (payload >> 8) as u8, payload as u8, 0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend([192, 0, 2, 1, 192, 0, 2, 2]);
    frame.extend((1024 + (number % 20_000) as u16).to_be_bytes());
    frame.extend(9_u16.to_be_bytes());
    frame.extend(((payload - 20) as u16).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend((frame.len()..length).map(|at| at as u8));
    if let Some(end) = frame[42..].last_chunk_mut::<4>() {
        *end = number.to_be_bytes();
    }
    frame
}

/// The number of such a frame.
pub fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(*frame.last_chunk().unwrap())
}

/// Waits for something that must come to be.
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_secs(30), "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// `CLOCK_MONOTONIC`, ns.
pub fn monotonic() -> i64 {
    // SAFETY: zeros are a value of this structure of numbers, and the kernel fills it in.
    let mut now: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}
