//! A preloaded library through which unmodified programs read the group's clock.
//!
//! `truechimer group exec` preloads it. What libc tells of the time is then the group's: a round
//! of the group for each read ([`reads`]), or the agreed time of the message that the program is
//! processing, where a front gives it its input in the group's order ([`input`]). It never gives
//! a time that was not agreed on: it waits, or ends the process with a word on standard error.
//!
//! * [`settings`]: the environment that it is set up by.
//! * [`process`]: the set-up, before anything else of the process runs.
//! * [`thread`], [`births`], [`kin`]: the logical numbers of threads and processes.
//! * [`clocks`], [`waits`], [`timers`], [`gate`]: what it stands in for.
//! * [`descriptors`], [`input`]: what it watches; [`loops`]: how an event loop finds what it is given at once.
//!
//! What is called from signal handlers or before the program's memory is set up allocates nothing
//! and takes no lock; all of it keeps `errno`.
//!
//! Not here: programs linked statically, and those that ask the kernel or the counter without libc: they keep the host's time.

// In its own tests none of it is exported, or the test harness would be interposed itself.
#![cfg_attr(test, allow(dead_code))]

#[cfg(not(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")))]
compile_error!("this knows the layouts of 64-bit Linux with glibc only");
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("this knows how x86-64 and aarch64 enter the kernel only");

mod births;
mod clocks;
mod descriptors;
mod gate;
mod input;
mod kernel;
mod kin;
mod loops;
mod process;
mod reads;
mod real;
mod say;
mod settings;
mod spans;
mod surroundings;
mod thread;
mod timers;
mod waits;
