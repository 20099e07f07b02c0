//! System calls without libc: its `syscall` is one of the functions that this library stands in
//! for, and nothing of libc may be needed before it is set up.

use core::ffi::{CStr, c_int, c_long};

/// One system call; what the kernel returns, a failure as −errno.
///
/// # Safety
/// The arguments are what that system call takes.
#[cfg(target_arch = "x86_64")]
pub unsafe fn call(number: c_long, [a, b, c, d, e, f]: [c_long; 6]) -> c_long {
    let result;
    // SAFETY: the kernel's convention on this architecture; it clobbers rcx and r11 and keeps the
    // rest. What it does with memory is the caller's word.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// One system call; what the kernel returns, a failure as −errno.
///
/// # Safety
/// The arguments are what that system call takes.
#[cfg(target_arch = "aarch64")]
pub unsafe fn call(number: c_long, [a, b, c, d, e, f]: [c_long; 6]) -> c_long {
    let result;
    // SAFETY: the kernel's convention on this architecture; it keeps all other registers. What it
    // does with memory is the caller's word.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack),
        );
    }
    result
}

/// The calling process.
pub fn pid() -> u32 {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { call(libc::SYS_getpid, [0; 6]) as u32 }
}

/// The calling thread, by the kernel's number.
pub fn tid() -> u32 {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { call(libc::SYS_gettid, [0; 6]) as u32 }
}

/// The parent process.
pub fn parent() -> u32 {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { call(libc::SYS_getppid, [0; 6]) as u32 }
}

/// True if there is such a process (one that waits to be reaped included).
pub fn is_alive(pid: u32) -> bool {
    // SAFETY: signal 0 is sent to nobody.
    let result = unsafe { call(libc::SYS_kill, [c_long::from(pid), 0, 0, 0, 0, 0]) };
    result != -c_long::from(libc::ESRCH)
}

/// A clock, by the kernel; ns, saturating.
pub fn clock(clock: libc::clockid_t) -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let at = (&raw mut now) as c_long;
    // SAFETY: a timespec for the kernel to fill.
    unsafe { call(libc::SYS_clock_gettime, [c_long::from(clock), at, 0, 0, 0, 0]) };
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

/// Lets others run for so long (or less, if a signal comes).
pub fn sleep_ms(ms: i64) {
    sleep_ns(ms.saturating_mul(1_000_000));
}

/// Lets others run for so long (or less, if a signal comes).
pub fn sleep_ns(ns: i64) {
    let pause = libc::timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 };
    let at = (&raw const pause) as c_long;
    // SAFETY: a timespec that outlives the call, and no place for the rest.
    unsafe { call(libc::SYS_nanosleep, [at, 0, 0, 0, 0, 0]) };
}

/// Writes to standard error what goes there in one call; there is nobody to tell if it fails.
pub fn complain(text: &[u8]) {
    // SAFETY: the kernel reads the text's own memory.
    unsafe {
        call(libc::SYS_write, [2, text.as_ptr() as c_long, text.len() as c_long, 0, 0, 0]);
    }
}

/// Ends the process, all threads of it, without running anything of its own.
pub fn end(status: c_int) -> ! {
    loop {
        // SAFETY: does not return.
        unsafe { call(libc::SYS_exit_group, [c_long::from(status), 0, 0, 0, 0, 0]) };
    }
}

/// Closes a descriptor of ours.
pub fn close(fd: c_int) {
    // SAFETY: takes no memory; the caller owns the descriptor.
    unsafe { call(libc::SYS_close, [c_long::from(fd), 0, 0, 0, 0, 0]) };
}

/// The beginning of a file that is shorter than `into`; none if it cannot be read.
pub fn read_file<'a>(path: &CStr, into: &'a mut [u8]) -> Option<&'a [u8]> {
    let at = path.as_ptr() as c_long;
    let how = c_long::from(libc::O_RDONLY | libc::O_CLOEXEC);
    // SAFETY: a C string.
    let fd = unsafe { call(libc::SYS_openat, [c_long::from(libc::AT_FDCWD), at, how, 0, 0, 0]) };
    if fd < 0 {
        return None;
    }
    // SAFETY: the kernel writes at most so many bytes there.
    let got = unsafe {
        call(libc::SYS_read, [fd, into.as_mut_ptr() as c_long, into.len() as c_long, 0, 0, 0])
    };
    close(fd as c_int);
    into.get(..usize::try_from(got).ok()?)
}

/// Keeps this thread's errno over what may change it, for the caller of a libc function.
#[must_use]
pub struct Errno(c_int);

impl Errno {
    /// Keeps errno as it is now.
    pub fn keep() -> Errno {
        // SAFETY: the calling thread's own errno.
        Errno(unsafe { *libc::__errno_location() })
    }

    /// Puts it back.
    pub fn restore(self) {
        set_errno(self.0);
    }
}

/// Sets this thread's errno.
pub fn set_errno(error: c_int) {
    // SAFETY: the calling thread's own errno.
    unsafe { *libc::__errno_location() = error };
}

/// Returns what the kernel says, as libc does: −1 and errno for a failure.
pub fn returned(result: c_long) -> c_long {
    if (-4095..0).contains(&result) {
        set_errno(-result as c_int);
        return -1;
    }
    result
}
