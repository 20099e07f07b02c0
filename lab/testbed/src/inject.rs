//! Frames sent as they are.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use truechimer_testbed::truth::Truth;

/// Sends each line of standard input on `interface`.
pub fn inject(interface: &str) -> Result<(), String> {
    let failed = |why: io::Error| format!("{interface}: {why}");
    let mut socket = File::from(socket(interface).map_err(failed)?);
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let frame = bytes(line.map_err(failed)?.trim())?;
        let before = Truth::host().now_ns();
        let sent = socket.write(&frame).map_err(failed)?;
        let after = Truth::host().now_ns();
        if sent != frame.len() {
            return Err(format!("{interface}: {sent} of {} bytes sent", frame.len()));
        }
        writeln!(out, "{before} {after}").map_err(failed)?;
    }
    Ok(())
}

fn bytes(hex: &str) -> Result<Vec<u8>, String> {
    let pair = |at: usize| {
        let digits = hex.get(at..at + 2)?;
        u8::from_str_radix(digits, 16).ok()
    };
    let bytes: Option<_> = (0..hex.len()).step_by(2).map(pair).collect();
    bytes.ok_or_else(|| format!("not hexadecimal: {hex}"))
}

/// A packet socket that sends on `interface` and receives nothing.
fn socket(interface: &str) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let index = name_to_index(&socket, interface)?;
    // SAFETY: all zeros are a valid address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = index as i32;
    // SAFETY: the address is as long as said.
    let bound = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if bound == 0 { Ok(socket) } else { Err(io::Error::last_os_error()) }
}
