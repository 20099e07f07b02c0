//! The functions of libc that this library stands in for.
//!
//! Each has the signature of its namesake and calls the real one, if the rules allow it.

use std::ffi::{CStr, c_char};
use std::io::Write;
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::{
    c_int, c_long, c_void, clockid_t, msghdr, nfds_t, pollfd, size_t, sockaddr, socklen_t, ssize_t,
    time_t, timespec, timeval, timex,
};

use crate::clocks::{Clocks, Moment};
use crate::control::warp_stamps;
use crate::rules::{self, Broken, Rules};

const SECOND: i64 = 1_000_000_000;
/// A moment is read at once if that takes no longer than this, ns; it is tried so often.
const AT_ONCE: i64 = 1_000;
const TRIES: u32 = 64;
/// Longest time for the stamp of a datagram just sent to get into the error queue, ms. In a
/// simulator it is there at once.
const DEPARTURE: c_int = 1_000;

/// All that is remembered.
struct Process {
    clocks: Clocks,
    rules: Rules,
}

static PROCESS: Mutex<Process> = Mutex::new(Process { clocks: Clocks::new(), rules: Rules::new() });

/// The state, for the one thread that may have to do with it.
fn process(function: &str) -> MutexGuard<'static, Process> {
    // SAFETY: neither takes an argument or can fail.
    if unsafe { libc::gettid() != libc::getpid() } {
        broken(function, "keeps time and sockets to its first thread");
    }
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the process, and says why.
fn broken(function: &str, rule: Broken) -> ! {
    let _ = writeln!(
        std::io::stderr(),
        "truechimer-strict: {function}: a program in a simulator {rule}"
    );
    std::process::abort();
}

fn require(function: &str, result: Result<(), Broken>) {
    if let Err(rule) = result {
        broken(function, rule);
    }
}

fn errno(error: c_int) -> c_int {
    // SAFETY: the address of the calling thread's errno.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// libc's own function of this name and signature.
macro_rules! real {
    ($name:ident: $signature:ty) => {{
        static FOUND: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
        // SAFETY: libc's function of this name has this signature.
        unsafe {
            transmute::<*mut c_void, $signature>(next(&FOUND, concat!(stringify!($name), "\0")))
        }
    }};
}

/// The next definition of `name`, which ends with a zero, in the order of loading: libc's.
fn next(found: &AtomicPtr<c_void>, name: &str) -> *mut c_void {
    let known = found.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    let Ok(name) = CStr::from_bytes_with_nul(name.as_bytes()) else { std::process::abort() };
    // SAFETY: `name` is a C string; RTLD_NEXT is meant for this.
    let real = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr().cast::<c_char>()) };
    if real.is_null() {
        std::process::abort();
    }
    found.store(real, Ordering::Relaxed);
    real
}

/// One of the host's clocks, ns.
fn host_ns(clock: clockid_t) -> i64 {
    let real = real!(clock_gettime: unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int);
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the real function, given a place to write to.
    unsafe { real(clock, &mut now) };
    now.tv_sec * SECOND + now.tv_nsec
}

/// The host's clocks, all read at once as nearly as can be.
fn now() -> Moment {
    let mut best: Option<(i64, Moment)> = None;
    for _ in 0..TRIES {
        let before = host_ns(libc::CLOCK_MONOTONIC_RAW);
        let realtime = host_ns(libc::CLOCK_REALTIME);
        let monotonic = host_ns(libc::CLOCK_MONOTONIC);
        let width = host_ns(libc::CLOCK_MONOTONIC_RAW) - before;
        if best.is_none_or(|(least, _)| width < least) {
            best = Some((width, Moment { realtime, monotonic, raw: before + width / 2 }));
        }
        if width <= AT_ONCE {
            break;
        }
    }
    best.map_or(Moment { realtime: 0, monotonic: 0, raw: 0 }, |(_, moment)| moment)
}

/// Reading of the process on a clock, ns.
fn reading(function: &str, clock: clockid_t) -> i64 {
    match process(function).clocks.read(clock, now) {
        Some(ns) => ns,
        None => broken(function, "knows CLOCK_REALTIME, _MONOTONIC and _MONOTONIC_RAW only"),
    }
}

/// # Safety
/// As `clock_gettime(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: clockid_t, at: *mut timespec) -> c_int {
    let ns = reading("clock_gettime", clock);
    // SAFETY: null or the caller's place for the answer.
    let Some(at) = (unsafe { at.as_mut() }) else { return errno(libc::EFAULT) };
    *at = timespec { tv_sec: ns.div_euclid(SECOND), tv_nsec: ns.rem_euclid(SECOND) };
    0
}

/// # Safety
/// As `gettimeofday(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn gettimeofday(at: *mut timeval, _zone: *mut c_void) -> c_int {
    let ns = reading("gettimeofday", libc::CLOCK_REALTIME);
    // SAFETY: null or the caller's place for the answer.
    if let Some(at) = unsafe { at.as_mut() } {
        *at = timeval { tv_sec: ns.div_euclid(SECOND), tv_usec: ns.rem_euclid(SECOND) / 1_000 };
    }
    0
}

/// # Safety
/// As `time(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn time(at: *mut time_t) -> time_t {
    let now = reading("time", libc::CLOCK_REALTIME).div_euclid(SECOND);
    // SAFETY: null or the caller's place for the answer.
    if let Some(at) = unsafe { at.as_mut() } {
        *at = now;
    }
    now
}

#[unsafe(no_mangle)]
extern "C" fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int {
    let mut process = process("socket");
    if !rules::is_plain(family, kind, protocol) {
        return errno(libc::EINVAL);
    }
    let real = real!(socket: unsafe extern "C" fn(c_int, c_int, c_int) -> c_int);
    // SAFETY: no pointers.
    let fd = unsafe { real(family, kind, protocol) };
    process.rules.opened(fd);
    fd
}

#[unsafe(no_mangle)]
extern "C" fn socketpair(_family: c_int, _kind: c_int, _protocol: c_int, _at: *mut c_int) -> c_int {
    errno(libc::EINVAL)
}

/// # Safety
/// As `setsockopt(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    let _process = process("setsockopt");
    if level == libc::SOL_SOCKET {
        require("setsockopt", rules::socket_option(name));
    }
    let real = real!(
        setsockopt: unsafe extern "C" fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int
    );
    // SAFETY: the caller's own arguments.
    unsafe { real(fd, level, name, value, length) }
}

fn real_poll(fds: &mut [pollfd], timeout: c_int) -> c_int {
    let real = real!(poll: unsafe extern "C" fn(*mut pollfd, nfds_t, c_int) -> c_int);
    // SAFETY: pointer and length are those of an exclusive slice.
    unsafe { real(fds.as_mut_ptr(), fds.len() as nfds_t, timeout) }
}

fn is_socket(fd: c_int) -> bool {
    // SAFETY: plain integers, for which zeros are valid.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: there is room for the answer.
    let known = unsafe { libc::fstat(fd, &mut status) } == 0;
    known && status.st_mode & libc::S_IFMT == libc::S_IFSOCK
}

/// # Safety
/// As `poll(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    let mut process = process("poll");
    let fds = match fds.is_null() {
        true => &mut [][..],
        // SAFETY: the caller's own descriptors.
        false => unsafe { std::slice::from_raw_parts_mut(fds, count as usize) },
    };
    // Before `main` the standard library looks whether standard input and output are open.
    if !fds.is_empty() && fds.iter().all(|fd| fd.events == 0) {
        return real_poll(fds, timeout);
    }
    if !fds.iter().all(|fd| is_socket(fd.fd)) {
        broken("poll", "waits for sockets alone, not for pipes");
    }
    let result = real_poll(fds, timeout);
    process.clocks.pass(now());
    if result < 0 {
        process.rules.polled(&mut []);
        return result;
    }
    process.rules.polled(fds)
}

/// # Safety
/// As `sendto(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sendto(
    fd: c_int,
    bytes: *const c_void,
    length: size_t,
    flags: c_int,
    to: *const sockaddr,
    to_length: socklen_t,
) -> ssize_t {
    type Sendto = unsafe extern "C" fn(
        c_int,
        *const c_void,
        size_t,
        c_int,
        *const sockaddr,
        socklen_t,
    ) -> ssize_t;
    let mut process = process("sendto");
    let real = real!(sendto: Sendto);
    // SAFETY: the caller's own arguments.
    let result = unsafe { real(fd, bytes, length, flags, to, to_length) };
    if result >= 0 {
        process.clocks.sent();
        process.rules.sent(fd);
    }
    result
}

/// # Safety
/// As `recvmsg(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    let mut process = process("recvmsg");
    // SAFETY: null or the caller's message.
    let Some(message) = (unsafe { message.as_mut() }) else {
        return errno(libc::EFAULT) as ssize_t;
    };
    let control = if message.msg_control.is_null() { 0 } else { message.msg_controllen };
    require("recvmsg", rules::room(message.msg_iovlen, control));
    let queue = flags & libc::MSG_ERRQUEUE != 0;
    require(
        "recvmsg",
        if queue { process.rules.receive_error(fd) } else { process.rules.receive(fd) },
    );
    if queue {
        real_poll(&mut [pollfd { fd, events: 0, revents: 0 }], DEPARTURE);
    }
    let real = real!(recvmsg: unsafe extern "C" fn(c_int, *mut msghdr, c_int) -> ssize_t);
    // SAFETY: the caller's own arguments.
    let result = unsafe { real(fd, message, flags) };
    if result >= 0 && message.msg_controllen > 0 {
        // SAFETY: the call wrote so much control data to the address that the caller gave.
        let control = unsafe {
            std::slice::from_raw_parts_mut(message.msg_control.cast::<u8>(), message.msg_controllen)
        };
        let stamp = process.clocks.shown(now).realtime;
        warp_stamps(control, |_| stamp);
    }
    result
}

#[unsafe(no_mangle)]
extern "C" fn timerfd_create(clock: c_int, flags: c_int) -> c_int {
    let _process = process("timerfd_create");
    if flags & !libc::TFD_NONBLOCK != 0 {
        broken("timerfd_create", "gives timerfd_create no flag but TFD_NONBLOCK");
    }
    let real = real!(timerfd_create: unsafe extern "C" fn(c_int, c_int) -> c_int);
    // SAFETY: no pointers.
    unsafe { real(clock, flags) }
}

/// The real one takes as many arguments as the call has. Those that the caller did not give are
/// read as it would read them, and ignored by the kernel.
///
/// # Safety
/// As `syscall(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    require("syscall", rules::system_call(number, b, d != 0));
    type Syscall =
        unsafe extern "C" fn(c_long, c_long, c_long, c_long, c_long, c_long, c_long) -> c_long;
    let real = real!(syscall: Syscall);
    // SAFETY: the caller's own arguments.
    unsafe { real(number, a, b, c, d, e, f) }
}

#[unsafe(no_mangle)]
extern "C" fn adjtimex(_request: *mut timex) -> c_int {
    errno(libc::EPERM)
}

#[unsafe(no_mangle)]
extern "C" fn ntp_adjtime(_request: *mut timex) -> c_int {
    errno(libc::EPERM)
}

#[unsafe(no_mangle)]
extern "C" fn clock_adjtime(_clock: clockid_t, _request: *mut timex) -> c_int {
    errno(libc::EPERM)
}

#[unsafe(no_mangle)]
extern "C" fn clock_settime(_clock: clockid_t, _to: *const timespec) -> c_int {
    errno(libc::EPERM)
}

#[unsafe(no_mangle)]
extern "C" fn settimeofday(_to: *const timeval, _zone: *const c_void) -> c_int {
    errno(libc::EPERM)
}

/// Functions that must not be called, whatever their arguments, which none of these reads.
macro_rules! forbidden {
    ($rule:literal: $($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> c_int {
            broken(stringify!($name), $rule)
        }
    )*};
}

forbidden!("waits in poll alone": ppoll select pselect epoll_create epoll_create1 epoll_ctl
    epoll_wait epoll_pwait epoll_pwait2 eventfd signalfd
    nanosleep clock_nanosleep usleep sleep);
forbidden!("receives with recvmsg alone": recv recvfrom recvmmsg);
forbidden!("sends one datagram at a time": sendmmsg);
