//! System calls, made directly: libc's functions set `errno`, and a preloaded library that uses
//! this crate has some of them replaced. All may be called from signal handlers.
#![allow(unsafe_code)]

use std::mem::{MaybeUninit, size_of};
use std::sync::atomic::AtomicU64;

/// An error number.
pub type Errno = i32;

/// Makes a system call. Does not touch `errno`.
///
/// # Safety
/// As the call's.
#[inline]
unsafe fn call(number: libc::c_long, [a, b, c, d, e, f]: [usize; 6]) -> Result<usize, Errno> {
    let result: isize;
    // SAFETY: the kernel's calling convention for this architecture; that the call itself is
    // sound is the caller's promise.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!("syscall", inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!("svc 0", in("x8") number, inlateout("x0") a as isize => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f, options(nostack));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        // SAFETY: the caller's promise; errno belongs to this thread, and is put back.
        unsafe {
            let errno = libc::__errno_location();
            let kept = *errno;
            let returned = libc::syscall(number, a, b, c, d, e, f);
            result = if returned == -1 { -(*errno as isize) } else { returned as isize };
            *errno = kept;
        }
    }
    match result {
        -4095..0 => Err(-result as Errno),
        _ => Ok(result as usize),
    }
}

fn timespec(ns: u64) -> libc::timespec {
    libc::timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ }
}

/// `CLOCK_MONOTONIC`, ns; not by way of libc, whose clocks may be replaced.
pub fn monotonic() -> u64 {
    let mut time = timespec(0);
    let at = (&raw mut time) as usize;
    // SAFETY: the kernel writes one timespec there.
    let _ =
        unsafe { call(libc::SYS_clock_gettime, [libc::CLOCK_MONOTONIC as usize, at, 0, 0, 0, 0]) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// This process.
#[inline]
pub fn process() -> u32 {
    // SAFETY: it takes nothing.
    unsafe { call(libc::SYS_getpid, [0; 6]) }.unwrap_or(0) as u32
}

/// True if a process with this identifier may exist.
pub fn lives(process: u32) -> bool {
    // SAFETY: signal 0 sends nothing.
    let sent = unsafe { call(libc::SYS_kill, [process as usize, 0, 0, 0, 0, 0]) };
    sent != Err(libc::ESRCH)
}

/// The half of the word that the kernel looks at.
fn half(word: &AtomicU64) -> usize {
    let at = word.as_ptr() as usize;
    if cfg!(target_endian = "big") { at + 4 } else { at }
}

/// Sleeps while the lower half of `word` is `value`, at most so many ns, unless woken. Whether the
/// time was up.
pub fn futex_wait(word: &AtomicU64, value: u32, ns: u64) -> bool {
    let limit = timespec(ns);
    let arguments =
        [half(word), libc::FUTEX_WAIT as usize, value as usize, (&raw const limit) as usize, 0, 0];
    // SAFETY: the address is that of an atomic that outlives the call, the limit's as well.
    let waited = unsafe { call(libc::SYS_futex, arguments) };
    waited == Err(libc::ETIMEDOUT)
}

/// Wakes all that sleep on `word`.
pub fn futex_wake(word: &AtomicU64) {
    let all = i32::MAX as usize;
    // SAFETY: the address is that of an atomic; the kernel only looks sleepers up by it.
    let _ = unsafe { call(libc::SYS_futex, [half(word), libc::FUTEX_WAKE as usize, all, 0, 0, 0]) };
}

/// Which file a descriptor is: device and inode.
pub fn identity(descriptor: i32) -> Option<(u64, u64)> {
    let stat = stat(descriptor)?;
    Some((stat.st_dev, stat.st_ino))
}

fn stat(descriptor: i32) -> Option<libc::stat> {
    let mut stat = MaybeUninit::<libc::stat>::zeroed();
    let at = stat.as_mut_ptr() as usize;
    // SAFETY: the kernel writes one `struct stat` there, which libc's is on these targets, and
    // for which zeros are valid as well.
    unsafe {
        call(libc::SYS_fstat, [descriptor as usize, at, 0, 0, 0, 0]).ok()?;
        Some(stat.assume_init())
    }
}

/// Length of a file, bytes.
pub fn length(descriptor: i32) -> Option<u64> {
    stat(descriptor).map(|stat| stat.st_size as u64)
}

/// The seals of a memory file.
pub fn seals(descriptor: i32) -> Option<i32> {
    let arguments = [descriptor as usize, libc::F_GET_SEALS as usize, 0, 0, 0, 0];
    // SAFETY: it takes numbers only.
    unsafe { call(libc::SYS_fcntl, arguments) }.ok().map(|seals| seals as i32)
}

/// Duplicates the file under a descriptor that is no less than `least`, closed on exec.
pub fn duplicate(descriptor: i32, least: i32) -> Result<i32, Errno> {
    let number = libc::F_DUPFD_CLOEXEC as usize;
    // SAFETY: it takes numbers only.
    unsafe { call(libc::SYS_fcntl, [descriptor as usize, number, least as usize, 0, 0, 0]) }
        .map(|new| new as i32)
}

/// Closes a descriptor that the caller owns.
pub fn close(descriptor: i32) {
    // SAFETY: it takes a number; that nobody else uses it is the caller's to know.
    let _ = unsafe { call(libc::SYS_close, [descriptor as usize, 0, 0, 0, 0, 0]) };
}

/// Maps that much of a file, shared, for reading and writing.
///
/// # Safety
/// The file must not get shorter while the mapping is in use.
pub unsafe fn map(size: usize, descriptor: i32) -> Result<*mut u8, Errno> {
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let arguments = [0, size, access, libc::MAP_SHARED as usize, descriptor as usize, 0];
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
    unsafe { call(libc::SYS_mmap, arguments) }.map(|address| address as *mut u8)
}

/// Takes a mapping away.
///
/// # Safety
/// It must be one of [`map`] with that size, and no longer in use.
pub unsafe fn unmap(address: *mut u8, size: usize) {
    // SAFETY: the caller's promise.
    let _ = unsafe { call(libc::SYS_munmap, [address as usize, size, 0, 0, 0, 0]) };
}

/// Adds 1 to an event counter.
pub fn ring(descriptor: i32) -> Result<(), Errno> {
    let one = 1_u64;
    // SAFETY: eight bytes that outlive the call.
    unsafe { call(libc::SYS_write, [descriptor as usize, (&raw const one) as usize, 8, 0, 0, 0]) }
        .map(|_| ())
}

/// Waits until the descriptor has one of `events`, at most so many ns. What it has.
pub fn poll(descriptor: i32, events: i16, ns: Option<u64>) -> Result<i16, Errno> {
    let mut polled = libc::pollfd { fd: descriptor, events, revents: 0 };
    let limit = ns.map(timespec);
    let limit = limit.as_ref().map_or(0, |limit| std::ptr::from_ref(limit) as usize);
    // SAFETY: one pollfd and one timespec (or none), which outlive the call; no signal mask.
    unsafe { call(libc::SYS_ppoll, [(&raw mut polled) as usize, 1, limit, 0, 8, 0]) }
        .map(|_| polled.revents)
}

/// Sleeps that long, ns.
pub fn nap(ns: u64) {
    let _ = poll(-1, 0, Some(ns));
}

/// A new socket of the kind that the link uses, non-blocking, closed on exec.
pub fn socket() -> Result<i32, Errno> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: it takes numbers only.
    unsafe { call(libc::SYS_socket, [libc::AF_UNIX as usize, kind as usize, 0, 0, 0, 0]) }
        .map(|socket| socket as i32)
}

/// Connects a socket.
pub fn connect(socket: i32, address: &libc::sockaddr_un) -> Result<(), Errno> {
    let (at, length) = (std::ptr::from_ref(address) as usize, size_of::<libc::sockaddr_un>());
    // SAFETY: an address of that length, with a terminating zero, that outlives the call.
    unsafe { call(libc::SYS_connect, [socket as usize, at, length, 0, 0, 0]) }.map(|_| ())
}

/// Room for control data with up to four descriptors, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Ancillary([u8; 48]);

const _: () = assert!(size_of::<libc::cmsghdr>() + 4 * 4 <= size_of::<Ancillary>());

/// Sends one packet, with descriptors if there are any (at most four). Never blocks.
pub fn send(socket: i32, packet: &[u8], descriptors: &[i32]) -> Result<(), Errno> {
    let mut part =
        libc::iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() };
    let mut control = Ancillary([0; 48]);
    // SAFETY: a structure of integers and pointers, for which zeros are valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if !descriptors.is_empty() {
        let bytes = descriptors.len().min(4) * 4;
        let header = size_of::<libc::cmsghdr>();
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = (header + bytes.next_multiple_of(8)) as _;
        // SAFETY: header and descriptors lie within `control`, which is aligned for the header.
        unsafe {
            let head: *mut libc::cmsghdr = (&raw mut control).cast();
            (*head).cmsg_len = (header + bytes) as _;
            (*head).cmsg_level = libc::SOL_SOCKET;
            (*head).cmsg_type = libc::SCM_RIGHTS;
            let data = head.cast::<u8>().add(header);
            data.copy_from_nonoverlapping(descriptors.as_ptr().cast(), bytes);
        }
    }
    let flags = (libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) as usize;
    // SAFETY: all that the message points to outlives the call, which only reads it.
    unsafe {
        call(libc::SYS_sendmsg, [socket as usize, (&raw const message) as usize, flags, 0, 0, 0])
    }
    .map(|_| ())
}

/// Data that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// Length of the packet, bytes; 0 at the end of the connection.
    pub length: usize,
    /// True if it was longer than the room for it, or had more descriptors than that for them.
    pub cut: bool,
    /// Number of descriptors that came with it: the caller's to close.
    pub descriptors: usize,
}

/// Receives one packet. Never blocks. Descriptors are closed on exec.
pub fn receive(
    socket: i32,
    packet: &mut [u8],
    descriptors: &mut [i32; 4],
) -> Result<Received, Errno> {
    let mut part = libc::iovec { iov_base: packet.as_mut_ptr().cast(), iov_len: packet.len() };
    let mut control = Ancillary([0; 48]);
    let header = size_of::<libc::cmsghdr>();
    // SAFETY: a structure of integers and pointers, for which zeros are valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = (header + 4 * 4) as _;
    let flags = (libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT) as usize;
    // SAFETY: the kernel writes within the buffers, whose lengths it is told.
    let length = unsafe {
        call(libc::SYS_recvmsg, [socket as usize, (&raw mut message) as usize, flags, 0, 0, 0])
    }?;
    let mut count = 0;
    #[allow(clippy::unnecessary_cast)] // it has 32 bits in some libcs
    let told = message.msg_controllen as usize;
    if told >= header {
        // SAFETY: the kernel has written a header at the beginning of `control`, then as many
        // descriptors as its length says, which is within the room that there was.
        unsafe {
            let head: *const libc::cmsghdr = (&raw const control).cast();
            if (*head).cmsg_level == libc::SOL_SOCKET && (*head).cmsg_type == libc::SCM_RIGHTS {
                #[allow(clippy::unnecessary_cast)] // likewise
                let own = (*head).cmsg_len as usize;
                count = (own.saturating_sub(header) / 4).min(4);
                let data = head.cast::<u8>().add(header);
                data.copy_to_nonoverlapping(descriptors.as_mut_ptr().cast(), count * 4);
            }
        }
    }
    let cut = message.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
    Ok(Received { length, cut, descriptors: count })
}

/// True if this program runs with more rights than whoever started it.
pub fn is_privileged() -> bool {
    // SAFETY: it takes a number and looks at what the kernel left in this process's memory.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Process and user at the other end of a connection, when it was made.
pub fn peer(socket: i32) -> Result<(u32, u32), Errno> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let (at, length) = ((&raw mut peer) as usize, (&raw mut length) as usize);
    let (level, option) = (libc::SOL_SOCKET as usize, libc::SO_PEERCRED as usize);
    // SAFETY: the kernel writes one ucred, the length of which it is told.
    unsafe { call(libc::SYS_getsockopt, [socket as usize, level, option, at, length, 0]) }?;
    Ok((peer.pid as u32, peer.uid))
}

/// Owns a descriptor that nobody else does.
pub fn own(descriptor: i32) -> std::os::fd::OwnedFd {
    use std::os::fd::FromRawFd;
    // SAFETY: callers have it from the kernel just now.
    unsafe { std::os::fd::OwnedFd::from_raw_fd(descriptor) }
}
