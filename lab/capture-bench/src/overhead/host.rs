//! What the measurements ask of the system: to stand in another namespace, and to have packets
//! stamped.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::Stdio;

use truechimer_testbed::namespace::Namespace;

use crate::outcome::Failure;

/// A network namespace as a file, so that a thread can go there.
#[derive(Debug)]
pub struct Place(File);

impl Place {
    /// That of `namespace`.
    ///
    /// # Errors
    /// Where no process can be started there.
    pub fn of(namespace: &Namespace) -> Result<Place, Failure> {
        let failed = |error: io::Error| Failure::of("looking for a network namespace", error);
        let mut command = namespace.command("cat");
        let mut cat =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        // Once it answers, it is there.
        let answered = (|| {
            let (Some(mut to), Some(from)) = (cat.stdin.take(), cat.stdout.take()) else {
                return Err(io::ErrorKind::BrokenPipe.into());
            };
            to.write_all(b"\n")?;
            let mut line = String::new();
            BufReader::new(from).read_line(&mut line)?;
            let file = File::open(format!("/proc/{}/ns/net", cat.id()))?;
            drop(to);
            if line.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(file) }
        })();
        // Its input has ended, and so does it.
        let _ = cat.wait();
        answered.map(Place).map_err(failed)
    }

    /// Takes the calling thread there.
    ///
    /// # Errors
    /// Where that is not allowed.
    pub fn enter(&self) -> Result<(), Failure> {
        // SAFETY: it takes a descriptor and touches no memory.
        match unsafe { libc::setns(self.0.as_raw_fd(), libc::CLONE_NEWNET) } {
            0 => Ok(()),
            _ => Err(Failure::of("entering a network namespace", io::Error::last_os_error())),
        }
    }
}

/// A socket that wants the kernel's stamps: as long as there is one, all arriving packets are
/// stamped.
///
/// # Errors
/// Where the kernel refuses.
pub fn stamping() -> Result<UdpSocket, Failure> {
    let failed = |error: io::Error| Failure::of("having packets stamped", error);
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(failed)?;
    let flags: u32 = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    let pointer: *const u32 = &flags;
    // SAFETY: the option's value is one valid integer.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            pointer.cast(),
            size_of::<u32>() as u32,
        )
    };
    if result == 0 { Ok(socket) } else { Err(failed(io::Error::last_os_error())) }
}

/// The calling thread, and the processes it starts, go before others as long as this lives.
#[derive(Debug)]
pub struct Urgent(i32);

impl Urgent {
    /// If that is allowed.
    #[must_use]
    pub fn here() -> Option<Urgent> {
        // SAFETY: it takes numbers only; 0 is the calling thread.
        let before = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        // SAFETY: as above.
        let set = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
        (set == 0).then_some(Urgent(before))
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        // SAFETY: it takes numbers only; 0 is the calling thread.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, self.0) };
    }
}

/// `CLOCK_MONOTONIC`, ns.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for one timespec. The clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}
