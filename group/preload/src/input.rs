//! The functions of libc by which a program takes its input and waits for more: the front learns
//! from them when a request has been dealt with. They change nothing; where there is no front they
//! are libc's.
//!
//! A thread is busy from when it takes input (or a connection) of the front's until it next begins
//! to wait. It becomes busy before what it has taken is counted, so that "all taken and nobody
//! busy" is never true in between.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, Ordering};

use libc::{
    epoll_event, fd_set, iovec, msghdr, nfds_t, pollfd, sigset_t, size_t, sockaddr, socklen_t,
    ssize_t, timespec, timeval,
};
use truechimer_group_client::delivery::Page;

use crate::descriptors::{port_of, set_port};
use crate::kernel::{self, Errno, set_errno};
use crate::loops;
use crate::process::{Part, part, process};
use crate::real::{self, Real};
use crate::thread::here;

/// The front's page, if there is one.
pub fn page() -> Option<&'static Page> {
    match part() {
        Part::Delivery | Part::Counting => process()?.page.as_ref(),
        Part::None | Part::Round => None,
    }
}

/// The calling thread begins to wait, or ends.
pub fn waits() {
    if let Some(page) = page()
        && here(|here| here.busy.replace(false))
    {
        page.busy_down();
    }
}

/// The calling thread has taken something and works on it.
fn works(page: &Page) {
    if !here(|here| here.busy.replace(true)) {
        page.busy_up();
        see_the_end();
    }
}

/// A wait for another thread, on a condition, a semaphore or a word in memory: whoever was busy is
/// so again when it goes on. A thread of a pool waits so for its next work, and would be busy for
/// ever if that counted as work.
pub fn wait_for_another<T>(call: impl FnOnce() -> T) -> T {
    let Some(page) = page().filter(|_| here(|here| here.busy.get())) else { return call() };
    // It may not wait at all: whoever sees that nobody is busy is to look closer.
    page.hand_on();
    waits();
    let result = call();
    let errno = Errno::keep();
    works(page);
    errno.restore();
    result
}

/// The calling thread may wake another, or makes one, which then works though nobody has seen it
/// begin: the front is to look closer.
pub fn hand_on() {
    if let Some(page) = page() {
        page.hand_on();
    }
}

/// The process is a child of one of the program's.
pub fn joined() {
    if let Some(page) = process().and_then(|process| process.page.as_ref()) {
        page.joined(kernel::pid());
    }
}

/// The key of 0 to 2³¹ by which a thread's end is seen, + 1; 0: not made yet.
static KEY: AtomicU32 = AtomicU32::new(0);

extern "C" fn end_of_thread(_: *mut c_void) {
    waits();
}

/// A busy thread that ends is busy no more.
fn see_the_end() {
    let mut key = KEY.load(Ordering::Acquire);
    if key == 0 {
        let mut made = 0;
        // SAFETY: a place for the key, and a function of this library, which is never unloaded.
        if unsafe { libc::pthread_key_create(&mut made, Some(end_of_thread)) } != 0 {
            return;
        }
        let ours = made + 1;
        key = match KEY.compare_exchange(0, ours, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => ours,
            Err(others) => {
                // SAFETY: made just now and used by nobody.
                unsafe { libc::pthread_key_delete(made) };
                others
            }
        };
    }
    // SAFETY: a key of ours; any value but null brings the function about.
    unsafe { libc::pthread_setspecific(key - 1, KEY.as_ptr().cast::<c_void>()) };
}

/// The process ends.
pub fn end_of_process() {
    waits();
}

/// A call that takes input from `fd`: waits, calls, and counts what came.
fn take(fd: c_int, wanted: bool, flags: c_int, call: impl FnOnce() -> ssize_t) -> ssize_t {
    let Some((page, port)) = page().zip(port_of(fd)) else { return call() };
    // It may have some of what it waits for, of which nothing is known yet.
    let takes_all = flags & libc::MSG_WAITALL != 0;
    let is_there = !takes_all && loops::is_there(page, fd, port);
    if flags & libc::MSG_DONTWAIT == 0 && !is_there && is_blocking(fd) {
        waits();
    }
    if takes_all {
        page.set_takes_all(port, true);
    }
    let result = call();
    if takes_all {
        page.set_takes_all(port, false);
    }
    if result >= 0 && flags & libc::MSG_PEEK == 0 && wanted {
        let errno = Errno::keep();
        works(page);
        match result {
            0 => page.took_end(port),
            bytes => {
                loops::took(page, fd, port);
                page.took(port, bytes as u64);
            }
        }
        errno.restore();
    }
    result
}

pub fn is_blocking(fd: c_int) -> bool {
    let arguments = [i64::from(fd), i64::from(libc::F_GETFL), 0, 0, 0, 0];
    // SAFETY: takes numbers only.
    let flags = unsafe { kernel::call(libc::SYS_fcntl, arguments) };
    flags >= 0 && flags & i64::from(libc::O_NONBLOCK) == 0
}

/// A connection was accepted: remembers whose it may be.
fn accepted(fd: c_int) {
    let Some(page) = page().filter(|_| fd >= 0) else { return };
    set_port(fd, 0);
    if let Some(port) = loopback_port(fd) {
        works(page);
        send_at_once(fd);
        set_port(fd, port);
        loops::accepted(page, port);
    }
}

/// A program that writes in pieces (head, body) sends the next one at once, not when the front has acknowledged this
/// one, which may take 40 ms: what it has written must be there when it is done.
fn send_at_once(fd: c_int) {
    let yes: c_int = 1;
    let (at, length) = ((&raw const yes) as i64, size_of::<c_int>() as i64);
    let (level, option) = (i64::from(libc::IPPROTO_TCP), i64::from(libc::TCP_NODELAY));
    // SAFETY: a number of that length.
    unsafe { kernel::call(libc::SYS_setsockopt, [i64::from(fd), level, option, at, length, 0]) };
}

/// The other end's port, if it is on this host.
fn loopback_port(fd: c_int) -> Option<u16> {
    let mut peer = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut length = size_of::<libc::sockaddr_storage>() as socklen_t;
    let (at, length_at) = (peer.as_mut_ptr() as i64, (&raw mut length) as i64);
    // SAFETY: places for an address and its length.
    let result =
        unsafe { kernel::call(libc::SYS_getpeername, [i64::from(fd), at, length_at, 0, 0, 0]) };
    if result != 0 {
        return None;
    }
    // SAFETY: zeroed, and large enough for either kind of address, which its family tells.
    unsafe {
        match c_int::from(peer.assume_init_ref().ss_family) {
            libc::AF_INET => {
                let peer = &*peer.as_ptr().cast::<libc::sockaddr_in>();
                let is_local = u32::from_be(peer.sin_addr.s_addr) >> 24 == 127;
                is_local.then(|| u16::from_be(peer.sin_port))
            }
            libc::AF_INET6 => {
                let peer = &*peer.as_ptr().cast::<libc::sockaddr_in6>();
                let address = core::net::Ipv6Addr::from(peer.sin6_addr.s6_addr);
                let is_local = address.is_loopback()
                    || address.to_ipv4_mapped().is_some_and(|address| address.is_loopback());
                is_local.then(|| u16::from_be(peer.sin6_port))
            }
            _ => None,
        }
    }
}

fn missing() -> c_int {
    set_errno(libc::ENOSYS);
    -1
}

/// Calls the function of libc, or says that there is none.
macro_rules! call {
    ($real:expr, ($($argument:expr),*)) => {
        match Real::get(&$real) {
            // SAFETY: the caller's own arguments.
            Some(real) => unsafe { real($($argument),*) },
            None => missing() as _,
        }
    };
}

/// # Safety
/// As `accept(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn accept(fd: c_int, at: *mut sockaddr, length: *mut socklen_t) -> c_int {
    if page().is_some() && is_blocking(fd) {
        waits();
    }
    let new = call!(real::ACCEPT, (fd, at, length));
    let errno = Errno::keep();
    accepted(new);
    errno.restore();
    new
}

/// # Safety
/// As `accept4(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn accept4(
    fd: c_int,
    at: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    if page().is_some() && is_blocking(fd) {
        waits();
    }
    let new = call!(real::ACCEPT4, (fd, at, length, flags));
    let errno = Errno::keep();
    accepted(new);
    errno.restore();
    new
}

/// # Safety
/// As `read(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn read(fd: c_int, into: *mut c_void, length: size_t) -> ssize_t {
    take(fd, length > 0, 0, || call!(real::READ, (fd, into, length)))
}

/// # Safety
/// As `read(2)`; `room` is how much there is.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn __read_chk(
    fd: c_int,
    into: *mut c_void,
    length: size_t,
    room: size_t,
) -> ssize_t {
    take(fd, length > 0, 0, || call!(real::READ_CHK, (fd, into, length, room)))
}

/// # Safety
/// As `readv(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    take(fd, count > 0, 0, || call!(real::READV, (fd, parts, count)))
}

/// # Safety
/// As `recv(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn recv(
    fd: c_int,
    into: *mut c_void,
    length: size_t,
    flags: c_int,
) -> ssize_t {
    take(fd, length > 0, flags, || call!(real::RECV, (fd, into, length, flags)))
}

/// # Safety
/// As `recv(2)`; `room` is how much there is.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn __recv_chk(
    fd: c_int,
    into: *mut c_void,
    length: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    take(fd, length > 0, flags, || call!(real::RECV_CHK, (fd, into, length, room, flags)))
}

/// # Safety
/// As `recvfrom(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    into: *mut c_void,
    length: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_length: *mut socklen_t,
) -> ssize_t {
    take(fd, length > 0, flags, || {
        call!(real::RECVFROM, (fd, into, length, flags, from, from_length))
    })
}

/// # Safety
/// As `recvfrom(2)`; `room` is how much there is.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    into: *mut c_void,
    length: size_t,
    room: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_length: *mut socklen_t,
) -> ssize_t {
    take(fd, length > 0, flags, || {
        call!(real::RECVFROM_CHK, (fd, into, length, room, flags, from, from_length))
    })
}

/// # Safety
/// As `recvmsg(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    take(fd, true, flags, || call!(real::RECVMSG, (fd, message, flags)))
}

/// # Safety
/// As `poll(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    waits_unless(timeout == 0);
    call!(real::POLL, (fds, count, timeout))
}

/// # Safety
/// As `poll(2)`; `room` is how much there is.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn __poll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: c_int,
    room: size_t,
) -> c_int {
    waits_unless(timeout == 0);
    call!(real::POLL_CHK, (fds, count, timeout, room))
}

/// # Safety
/// As `ppoll(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's own timeout.
    waits_unless(unsafe { is_zero(timeout) });
    call!(real::PPOLL, (fds, count, timeout, mask))
}

/// # Safety
/// As `ppoll(2)`; `room` is how much there is.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn __ppoll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    room: size_t,
) -> c_int {
    // SAFETY: the caller's own timeout.
    waits_unless(unsafe { is_zero(timeout) });
    call!(real::PPOLL_CHK, (fds, count, timeout, mask, room))
}

/// # Safety
/// As `select(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn select(
    count: c_int,
    readable: *mut fd_set,
    writable: *mut fd_set,
    exceptional: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    // SAFETY: null or the caller's own timeout.
    let timeout_is = unsafe { timeout.as_ref() };
    waits_unless(timeout_is.is_some_and(|timeout| timeout.tv_sec == 0 && timeout.tv_usec == 0));
    call!(real::SELECT, (count, readable, writable, exceptional, timeout))
}

/// # Safety
/// As `pselect(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn pselect(
    count: c_int,
    readable: *mut fd_set,
    writable: *mut fd_set,
    exceptional: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's own timeout.
    waits_unless(unsafe { is_zero(timeout) });
    call!(real::PSELECT, (count, readable, writable, exceptional, timeout, mask))
}

/// # Safety
/// As `epoll_wait(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn epoll_wait(
    fd: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
) -> c_int {
    let patience = loops::Patience::of_ms(timeout);
    // SAFETY: the caller's own arguments.
    if let Some(came) = unsafe { loops::wait(fd, events, most, patience, core::ptr::null()) } {
        return came;
    }
    waits_unless(timeout == 0);
    call!(real::EPOLL_WAIT, (fd, events, most, timeout))
}

/// # Safety
/// As `epoll_pwait(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn epoll_pwait(
    fd: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    let patience = loops::Patience::of_ms(timeout);
    // SAFETY: the caller's own arguments.
    if let Some(came) = unsafe { loops::wait(fd, events, most, patience, mask) } {
        return came;
    }
    waits_unless(timeout == 0);
    call!(real::EPOLL_PWAIT, (fd, events, most, timeout, mask))
}

/// # Safety
/// As `epoll_pwait2(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn epoll_pwait2(
    fd: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: null or the caller's own timeout.
    let patience = loops::Patience::of(unsafe { timeout.as_ref() });
    // SAFETY: the caller's own arguments.
    if let Some(came) = unsafe { loops::wait(fd, events, most, patience, mask) } {
        return came;
    }
    // SAFETY: the caller's own timeout.
    waits_unless(unsafe { is_zero(timeout) });
    call!(real::EPOLL_PWAIT2, (fd, events, most, timeout, mask))
}

/// # Safety
/// As `pause(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn pause() -> c_int {
    waits();
    call!(real::PAUSE, ())
}

/// # Safety
/// As `sigsuspend(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn sigsuspend(mask: *const sigset_t) -> c_int {
    waits();
    call!(real::SIGSUSPEND, (mask))
}

/// Ends the process without running its functions for that.
///
/// # Safety
/// As `_exit(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn _exit(status: c_int) -> ! {
    waits();
    kernel::end(status)
}

/// # Safety
/// As `_exit(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_snake_case)]
unsafe extern "C" fn _Exit(status: c_int) -> ! {
    waits();
    kernel::end(status)
}

/// Looking without waiting is no wait: an event loop that has more to do does so.
fn waits_unless(looks_only: bool) {
    if !looks_only {
        waits();
    }
}

unsafe fn is_zero(timeout: *const timespec) -> bool {
    // SAFETY: null or the caller's timeout.
    unsafe { timeout.as_ref() }.is_some_and(|timeout| timeout.tv_sec == 0 && timeout.tv_nsec == 0)
}
