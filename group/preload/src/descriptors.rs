//! The functions of libc that close and double descriptors: ours stay open, as a program that
//! closes all that it did not open itself cannot know of them; and which of the program's are
//! connections of the front is kept up to date.

use core::ffi::{c_int, c_long, c_uint};
use core::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use crate::kernel::set_errno;
use crate::loops;
use crate::process::{is_ours, ours, process};
use crate::real::{self, Real};

/// Descriptors beyond this are not looked after.
const MOST: usize = 1 << 16;

/// The front's port at the other end of each descriptor's connection; 0 = no such connection.
static PORTS: [AtomicU16; MOST] = [const { AtomicU16::new(0) }; MOST];

/// The descriptor of the connection from each of the front's ports, + 1; 0 = none.
static DESCRIPTORS: [AtomicU32; MOST] = [const { AtomicU32::new(0) }; MOST];

/// The descriptor of the connection from that port.
pub fn descriptor_of(port: u16) -> Option<c_int> {
    let at = DESCRIPTORS.get(usize::from(port))?.load(Ordering::Relaxed);
    at.checked_sub(1).and_then(|fd| c_int::try_from(fd).ok())
}

/// The front's port of that descriptor's connection.
pub fn port_of(fd: c_int) -> Option<u16> {
    let at = PORTS.get(usize::try_from(fd).ok()?)?;
    Some(at.load(Ordering::Relaxed)).filter(|port| *port != 0)
}

/// The descriptor is a connection from that port (0: of nobody's).
pub fn set_port(fd: c_int, port: u16) {
    if let Some(at) = usize::try_from(fd).ok().and_then(|fd| PORTS.get(fd)) {
        at.store(port, Ordering::Relaxed);
    }
    loops::forget(fd);
    if port != 0 {
        point(port, Some(fd));
    }
}

fn point(port: u16, fd: Option<c_int>) {
    if let Some(at) = DESCRIPTORS.get(usize::from(port)) {
        let fd = fd.and_then(|fd| u32::try_from(fd).ok());
        at.store(fd.map_or(0, |fd| fd + 1), Ordering::Relaxed);
    }
}

/// The descriptor is closed.
fn closed(fd: c_int) {
    let Some(port) = port_of(fd) else { return };
    set_port(fd, 0);
    let other = PORTS.iter().position(|at| at.load(Ordering::Relaxed) == port);
    point(port, other.and_then(|fd| c_int::try_from(fd).ok()));
    if let Some(page) = process().and_then(|process| process.page.as_ref())
        && other.is_none()
    {
        page.took_close(port);
    }
}

/// The descriptor has a twin.
fn doubled(fd: c_int, twin: c_int) {
    if twin >= 0 && twin != fd {
        closed(twin);
        if let Some(port) = port_of(fd) {
            set_port(twin, port);
            loops::leave(fd);
            loops::leave(twin);
        }
    }
}

fn error(error: c_int) -> c_int {
    set_errno(error);
    -1
}

/// # Safety
/// As `close(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    if is_ours(fd) {
        return error(libc::EBADF);
    }
    closed(fd);
    // SAFETY: the caller's own argument.
    Real::get(&real::CLOSE).map_or_else(|| error(libc::ENOSYS), |real| unsafe { real(fd) })
}

/// # Safety
/// As `close_range(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    const CLOEXEC: c_int = libc::CLOSE_RANGE_CLOEXEC as c_int;
    let Some(real) = Real::get(&real::CLOSE_RANGE) else { return error(libc::ENOSYS) };
    if flags & CLOEXEC == 0 {
        let most = usize::try_from(last).unwrap_or(MOST).min(MOST - 1);
        (first as usize..=most).for_each(|fd| closed(fd as c_int));
    }
    // Around ours, from below.
    let mut first = first;
    loop {
        let inside = |fd: &c_uint| (first..=last).contains(fd);
        let next = ours().filter_map(|fd| c_uint::try_from(fd).ok()).filter(inside).min();
        let Some(next) = next else {
            // SAFETY: the caller's own arguments, or a part of its range.
            return if first <= last { unsafe { real(first, last, flags) } } else { 0 };
        };
        if first < next {
            // SAFETY: a part of the caller's range.
            let result = unsafe { real(first, next - 1, flags) };
            if result != 0 {
                return result;
            }
        }
        first = next + 1;
    }
}

/// # Safety
/// As `closefrom(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn closefrom(first: c_int) {
    // SAFETY: the same contract.
    unsafe { close_range(c_uint::try_from(first).unwrap_or(0), c_uint::MAX, 0) };
}

/// # Safety
/// As `dup(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn dup(fd: c_int) -> c_int {
    let Some(real) = Real::get(&real::DUP) else { return error(libc::ENOSYS) };
    // SAFETY: the caller's own argument.
    let twin = unsafe { real(fd) };
    doubled(fd, twin);
    twin
}

/// # Safety
/// As `dup2(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn dup2(fd: c_int, to: c_int) -> c_int {
    let Some(real) = Real::get(&real::DUP2) else { return error(libc::ENOSYS) };
    if is_ours(to) {
        return error(libc::EBUSY);
    }
    // SAFETY: the caller's own arguments.
    let twin = unsafe { real(fd, to) };
    doubled(fd, twin);
    twin
}

/// # Safety
/// As `dup3(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    let Some(real) = Real::get(&real::DUP3) else { return error(libc::ENOSYS) };
    if is_ours(to) {
        return error(libc::EBUSY);
    }
    // SAFETY: the caller's own arguments.
    let twin = unsafe { real(fd, to, flags) };
    doubled(fd, twin);
    twin
}

/// Reads its third argument, which not all commands have, as libc does.
///
/// # Safety
/// As `fcntl(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int {
    let Some(real) = Real::get(&real::FCNTL) else { return error(libc::ENOSYS) };
    // SAFETY: the caller's own arguments.
    let result = unsafe { real(fd, command, argument) };
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
        doubled(fd, result);
    }
    result
}

/// # Safety
/// As `fcntl(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn fcntl64(fd: c_int, command: c_int, argument: c_long) -> c_int {
    // SAFETY: the same contract; offsets have 64 bits under either name here.
    unsafe { fcntl(fd, command, argument) }
}
