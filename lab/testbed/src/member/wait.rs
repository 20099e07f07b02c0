//! poll(2).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Waits until one of these is readable, or for so long; which are.
pub fn wait(descriptors: &[BorrowedFd<'_>], limit: Option<Duration>) -> Result<Vec<bool>, String> {
    let entry = |one: &BorrowedFd<'_>| libc::pollfd {
        fd: one.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut entries: Vec<libc::pollfd> = descriptors.iter().map(entry).collect();
    let limit = limit.map_or(-1, |limit| limit.as_millis().try_into().unwrap_or(i32::MAX));
    loop {
        // SAFETY: so many entries, which are written to.
        let ready = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as u64, limit) };
        if ready >= 0 {
            return Ok(entries.iter().map(|entry| entry.revents != 0).collect());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(format!("poll: {error}"));
        }
    }
}
