//! Reading an I/O port.
//!
//! Linux gives the permission to a thread, and to those that it starts afterwards. A counter may
//! be read by any thread. So each asks for the permission when it first reads; one that is refused,
//! as the process has given up its privilege since, has a thread read for it that was started
//! while there still was permission. (`/dev/port` is no way out: it reads byte by byte, which
//! timers of 32 bits do not answer sensibly.)
#![allow(unsafe_code)]

use std::cell::Cell;
use std::sync::mpsc::{self, Sender, SyncSender};
use std::{io, process, thread};

use super::Registers;

/// A port of four bytes.
#[derive(Debug)]
pub(crate) struct Port {
    port: u16,
    /// Where threads ask that may not read themselves.
    reader: Sender<SyncSender<u32>>,
    /// The process that has the reading thread: a fork has not.
    process: u32,
}

/// Permission of a thread for a port, as far as it knows.
#[derive(Clone, Copy, PartialEq)]
enum Permission {
    Unknown,
    Granted(u16),
    Refused(u16),
}

thread_local! {
    static PERMISSION: Cell<Permission> = const { Cell::new(Permission::Unknown) };
}

impl Port {
    /// Asks for the permission and starts the thread that reads for those who have none.
    pub(crate) fn open(port: u16) -> io::Result<Port> {
        permit(port)?;
        PERMISSION.set(Permission::Granted(port));
        let (reader, questions) = mpsc::channel::<SyncSender<u32>>();
        let read = move || {
            for question in questions {
                // SAFETY: this thread has inherited the permission of the one that started it.
                let _ = question.send(unsafe { input(port) });
            }
        };
        let _mask = Masked::all();
        thread::Builder::new().name("port".into()).spawn(read)?;
        Ok(Port { port, reader, process: process::id() })
    }

    #[cold]
    fn first(&self) -> u32 {
        let granted = permit(self.port).is_ok();
        PERMISSION.set(match granted {
            true => Permission::Granted(self.port),
            false => Permission::Refused(self.port),
        });
        self.word(0)
    }

    #[cold]
    fn by_the_reader(&self) -> u32 {
        if process::id() == self.process {
            let (question, answer) = mpsc::sync_channel(1);
            if self.reader.send(question).is_ok()
                && let Ok(value) = answer.recv()
            {
                return value;
            }
        }
        // SAFETY: in a fork, whose parent's thread may have had the permission without knowing.
        // Without it this is SIGSEGV, as where a process has forbidden itself the TSC.
        unsafe { input(self.port) }
    }
}

impl Registers for Port {
    #[inline]
    fn word(&self, _at: usize) -> u32 {
        match PERMISSION.get() {
            // SAFETY: this thread has the permission.
            Permission::Granted(port) if port == self.port => unsafe { input(port) },
            Permission::Refused(port) if port == self.port => self.by_the_reader(),
            _ => self.first(),
        }
    }
}

/// Keeps signals from the threads that are started while it is there: they are for others.
struct Masked(libc::sigset_t);

impl Masked {
    fn all() -> Masked {
        // SAFETY: both sets are plain memory that the calls fill; only this thread's mask changes.
        unsafe {
            let mut all = std::mem::zeroed();
            let mut before = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            Masked(before)
        }
    }
}

impl Drop for Masked {
    fn drop(&mut self) {
        // SAFETY: the mask that this thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

/// Asks for this thread's permission to read these four ports.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "x86")))]
fn permit(port: u16) -> io::Result<()> {
    // SAFETY: it takes numbers, and changes what this thread may do, not what it does.
    match unsafe { libc::ioperm(port.into(), 4, 1) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// There are no I/O ports here.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "x86"))))]
fn permit(_port: u16) -> io::Result<()> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}

/// Reads the port.
///
/// # Safety
/// Reading this port has no effect on the machine: it is a timer's. Without permission the kernel
/// sends SIGSEGV.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "x86")))]
#[inline]
unsafe fn input(port: u16) -> u32 {
    let value: u32;
    // SAFETY: by the caller's word. It touches neither memory nor flags, but keep it in order with
    // what reads memory: no `nomem`.
    unsafe {
        core::arch::asm!("in eax, dx", out("eax") value, in("dx") port,
            options(nostack, preserves_flags));
    }
    value
}

/// There are no I/O ports here, and nobody gets as far as this.
///
/// # Safety
/// None is needed.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "x86"))))]
unsafe fn input(_port: u16) -> u32 {
    0
}
