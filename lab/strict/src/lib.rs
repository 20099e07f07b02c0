//! The rules of LD_PRELOAD clock simulators, for tests: `LD_PRELOAD` this library, and a process
//! that breaks one is told which and aborted.
//!
//! Simulators stand in for the few functions of libc that they know. A program runs in them if it
//! uses no others, and those as they expect; else it fails in ways that are hard to trace. Here
//! the network and the passing of time are real, and the rules are these:
//!
//! * Clocks ([`clocks`]) stand still between two calls of `poll`; there are three of them. Packet
//!   stamps are taken when they are read. No steering: `adjtimex` fails with `EPERM`.
//! * A socket is plain IPv4 and UDP, its type without flags; any other fails with `EINVAL`.
//! * What may be called when ([`rules`]): the process waits in `poll` alone, which reports one
//!   descriptor at a time, and receives with `recvmsg` alone what `poll` has just reported.
//! * All this is one thread's business, and none goes around libc by `syscall`.

#[cfg(not(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")))]
compile_error!("this knows the layouts of 64-bit Linux with glibc only");

pub mod clocks;
// The one file, as either library must hold no more than its own functions of libc.
#[path = "../../warp/src/control.rs"]
pub mod control;
pub mod rules;

// The test harness would have to obey.
#[cfg(not(test))]
mod interpose;
