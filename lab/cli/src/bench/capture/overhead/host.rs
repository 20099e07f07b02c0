//! Demands of the measurements on the system: to stand in another namespace, and to have packets
//! stamped.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::Stdio;

use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use rustix::time::{ClockId, clock_gettime};
use truechimer_stamp::set_option;
use truechimer_testbed::namespace::Namespace;

use truechimer_outcome::outcome::Failure;

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
        move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| Failure::of("entering a network namespace", io::Error::from(error)))
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
    let flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags as i32)
        .map_err(failed)?;
    Ok(socket)
}

/// The calling thread, and the processes it starts, go before others as long as this lives.
#[derive(Debug)]
pub struct Urgent(i32);

impl Urgent {
    /// If that is allowed.
    #[must_use]
    pub fn here() -> Option<Urgent> {
        let before = getpriority_process(None).ok()?;
        setpriority_process(None, -20).ok().map(|()| Urgent(before))
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        let _ = setpriority_process(None, self.0);
    }
}

/// `CLOCK_MONOTONIC`, ns.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}
