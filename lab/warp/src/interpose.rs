//! The functions of libc that this library stands in for.
//!
//! Each has the signature and the contract of its namesake, and calls the real one where there is
//! one to call.

use std::ffi::CStr;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use libc::{c_int, c_void, clockid_t, msghdr, ssize_t, time_t, timespec, timeval, timex};

use crate::ahead::Ahead;
use crate::control::warp_stamps;
use crate::schedule::Schedule;
use crate::state::State;
use crate::steer;

const SECOND: i64 = 1_000_000_000;

/// The real functions and the settings, found once.
struct Warp {
    clock_gettime: unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int,
    recvmsg: unsafe extern "C" fn(c_int, *mut msghdr, c_int) -> ssize_t,
    schedule: Schedule,
    state: Option<&'static State>,
    /// The host's CLOCK_REALTIME − CLOCK_MONOTONIC, ns; nobody sets the host's clock in a test.
    since_boot: OnceLock<i64>,
}

static WARP: OnceLock<Warp> = OnceLock::new();

fn warp() -> &'static Warp {
    WARP.get_or_init(|| Warp {
        // SAFETY: libc's function of this name has this signature.
        clock_gettime: unsafe {
            std::mem::transmute::<
                *mut c_void,
                unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int,
            >(next(c"clock_gettime"))
        },
        // SAFETY: as above.
        recvmsg: unsafe {
            std::mem::transmute::<
                *mut c_void,
                unsafe extern "C" fn(c_int, *mut msghdr, c_int) -> ssize_t,
            >(next(c"recvmsg"))
        },
        schedule: std::env::var("TRUECHIMER_WARP").map_or_else(
            |_| Schedule::default(),
            |text| Schedule::parse(&text).unwrap_or_else(|error| fail(&error)),
        ),
        state: std::env::var_os("TRUECHIMER_WARP_STATE")
            .map(|path| open(Path::new(std::ffi::OsStr::from_bytes(path.as_bytes())))),
        since_boot: OnceLock::new(),
    })
}

/// The next definition of `name` in the order of loading: libc's.
fn next(name: &CStr) -> *mut c_void {
    // SAFETY: `name` is a C string; RTLD_NEXT is meant for this.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if found.is_null() {
        fail("libc lacks a function");
    }
    found
}

fn open(path: &Path) -> &'static State {
    let size = size_of::<State>();
    let file =
        std::fs::File::options().read(true).write(true).create(true).truncate(false).open(path);
    let file = file.and_then(|file| file.set_len(size as u64).map(|()| file));
    let file = file.unwrap_or_else(|error| fail(&format!("{}: {error}", path.display())));
    // SAFETY: a new shared mapping of `size` bytes of a file that is that long; checked below.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if at == libc::MAP_FAILED {
        fail("cannot map the state");
    }
    // SAFETY: the mapping is page-aligned, `size` long and never undone; `State` is atomics only,
    // for which any bytes are valid and which other processes may change.
    unsafe { &*at.cast::<State>() }
}

/// A test that is set up wrongly must not pass by accident.
fn fail(why: &str) -> ! {
    let _ = writeln!(std::io::stderr(), "truechimer-warp: {why}");
    std::process::abort();
}

fn errno(error: c_int) -> c_int {
    // SAFETY: the address of the calling thread's errno.
    unsafe { *libc::__errno_location() = error };
    -1
}

impl Warp {
    /// One of the host's own clocks, ns.
    fn host_ns(&self, clock: clockid_t) -> i64 {
        let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the real function, given a place to write to.
        unsafe { (self.clock_gettime)(clock, &mut now) };
        now.tv_sec * SECOND + now.tv_nsec
    }

    /// The host's own CLOCK_REALTIME, Unix ns.
    fn real_ns(&self) -> i64 {
        self.host_ns(libc::CLOCK_REALTIME)
    }

    /// All that was done to the clock by this host time.
    fn ahead(&self, real_ns: i64) -> Ahead {
        self.schedule.at(real_ns) + self.state.map_or(Ahead::default(), |state| state.at(real_ns))
    }

    fn warped(&self, real_ns: i64) -> i64 {
        real_ns + self.ahead(real_ns).total()
    }

    fn now(&self) -> i64 {
        self.warped(self.real_ns())
    }

    /// Reading of this clock when the host's shows `ns`.
    fn shown(&self, clock: clockid_t, ns: i64) -> i64 {
        match clock {
            libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => self.warped(ns),
            libc::CLOCK_MONOTONIC | libc::CLOCK_MONOTONIC_COARSE | libc::CLOCK_BOOTTIME => {
                // A machine in a test is not suspended, so either clock tells the moment.
                let since_boot = self
                    .since_boot
                    .get_or_init(|| self.real_ns() - self.host_ns(libc::CLOCK_MONOTONIC));
                ns + self.ahead(ns + since_boot).slewed
            }
            _ => ns,
        }
    }
}

/// # Safety
/// As `clock_gettime(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: clockid_t, at: *mut timespec) -> c_int {
    let warp = warp();
    // SAFETY: the caller's own arguments.
    let result = unsafe { (warp.clock_gettime)(clock, at) };
    if result == 0 {
        // SAFETY: the real function has just written there.
        let at = unsafe { &mut *at };
        let shown = warp.shown(clock, at.tv_sec * SECOND + at.tv_nsec);
        at.tv_sec = shown.div_euclid(SECOND);
        at.tv_nsec = shown.rem_euclid(SECOND);
    }
    result
}

/// # Safety
/// As `gettimeofday(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn gettimeofday(at: *mut timeval, _zone: *mut c_void) -> c_int {
    let now = warp().now();
    // SAFETY: null or the caller's place for the answer.
    if let Some(at) = unsafe { at.as_mut() } {
        at.tv_sec = now.div_euclid(SECOND);
        at.tv_usec = now.rem_euclid(SECOND) / 1_000;
    }
    0
}

/// # Safety
/// As `time(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn time(at: *mut time_t) -> time_t {
    let now = warp().now().div_euclid(SECOND);
    // SAFETY: null or the caller's place for the answer.
    if let Some(at) = unsafe { at.as_mut() } {
        *at = now;
    }
    now
}

/// # Safety
/// As `recvmsg(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn recvmsg(socket: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    let warp = warp();
    // SAFETY: the caller's own arguments.
    let result = unsafe { (warp.recvmsg)(socket, message, flags) };
    if result >= 0 {
        // SAFETY: the call succeeded, so `message` is valid and says how much control data it
        // wrote at the address that the caller gave.
        let control = unsafe {
            let message = &*message;
            let length = message.msg_controllen;
            (length > 0 && !message.msg_control.is_null())
                .then(|| std::slice::from_raw_parts_mut(message.msg_control.cast::<u8>(), length))
        };
        warp_stamps(control.unwrap_or_default(), |real| {
            let warped = warp.warped(real);
            if let Some(state) = warp.state {
                state.remember(real, warped);
            }
            warped
        });
    }
    result
}

/// # Safety
/// As `adjtimex(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn adjtimex(request: *mut timex) -> c_int {
    let warp = warp();
    let Some(state) = warp.state else { return errno(libc::EPERM) };
    // SAFETY: null or the caller's request.
    let Some(request) = (unsafe { request.as_mut() }) else { return errno(libc::EFAULT) };
    let real = warp.real_ns();
    match steer::adjust(state, real, warp.schedule.at(real).total(), request) {
        Ok(status) => status,
        Err(error) => errno(error),
    }
}

/// # Safety
/// As `ntp_adjtime(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn ntp_adjtime(request: *mut timex) -> c_int {
    // SAFETY: the same contract.
    unsafe { adjtimex(request) }
}

/// # Safety
/// As `clock_adjtime(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_adjtime(clock: clockid_t, request: *mut timex) -> c_int {
    if clock != libc::CLOCK_REALTIME {
        return errno(libc::EINVAL);
    }
    // SAFETY: the same contract.
    unsafe { adjtimex(request) }
}

/// # Safety
/// As `clock_settime(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_settime(clock: clockid_t, to: *const timespec) -> c_int {
    // SAFETY: null or the caller's time.
    match unsafe { to.as_ref() } {
        Some(to) if clock == libc::CLOCK_REALTIME => set(to.tv_sec, to.tv_nsec),
        _ => errno(libc::EINVAL),
    }
}

/// # Safety
/// As `settimeofday(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn settimeofday(to: *const timeval, _zone: *const c_void) -> c_int {
    // SAFETY: null or the caller's time.
    match unsafe { to.as_ref() } {
        Some(to) => set(to.tv_sec, to.tv_usec.saturating_mul(1_000)),
        None => errno(libc::EINVAL),
    }
}

fn set(secs: i64, nanos: i64) -> c_int {
    let warp = warp();
    let Some(state) = warp.state else { return errno(libc::EPERM) };
    let real = warp.real_ns();
    let target = secs.saturating_mul(SECOND).saturating_add(nanos);
    if steer::set(state, real, warp.schedule.at(real).total(), target) {
        0
    } else {
        errno(libc::ENOSPC)
    }
}
