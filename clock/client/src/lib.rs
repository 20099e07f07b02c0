//! Reading the Truechimer clock from any program: the time with the bound of its error, at about
//! the cost of reading the counter.
//!
//! ```
//! use truechimer::Clock;
//!
//! match Clock::open() {
//!     Ok(clock) => match clock.now() {
//!         Ok(now) => println!("UTC {:?}, {}, ± {:?}", now.utc(), now.status, now.bound()),
//!         Err(error) => println!("no time yet: {error}"),
//!     },
//!     // The error says where a page was looked for, and what to start.
//!     Err(error) => println!("no clock: {error}"),
//! }
//! ```
//!
//! A daemon (`truechimer run`) follows time servers and keeps a page of shared memory up to date.
//! [`Clock::open`] maps that page, read-only and without any privilege. From then on reading the
//! clock takes neither a lock nor, with most counters, a system call, and it can never be held up
//! by the daemon: not if that is busy, stopped, killed, or started again.
//!
//! # What can be asked
//! * [`Clock::now`]: between which two instants true time is, and how that is known.
//! * [`Clock::now_monotone`]: the same, never stepping back.
//! * [`Clock::moment`]: this moment, to keep: about the cost of the bare counter. Later
//!   [`Clock::time_of`] tells when it was, and [`Clock::elapsed`] how long it was between two of
//!   them, by a clock that no correction of the time disturbs.
//! * [`Clock::status`], and [`Clock::view`] for all there is to know.
//! * [`Clock::uptime`]: a clock that no correction of the time moves.
//! * [`Clock::wait_synchronised`], for a program that cannot do without, and [`Clock::wait_after`],
//!   until a time is over for sure (commit wait); [`Clock::wait_for`] and [`Timer`] let the program
//!   choose the side: surely before it, likely at it, surely after it.
//!
//! ```no_run
//! # fn work() {}
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let clock = truechimer::Clock::open()?;
//! let start = clock.moment()?;
//! work();
//! let took = clock.elapsed(start, clock.moment()?)?;
//! println!("{} ± {}, begun at {:?}", took.span, took.bound, clock.time_of(start)?.utc());
//! # Ok(())
//! # }
//! ```
//!
//! # Looking after itself
//! A page can outlive its daemon, and a counter can lose its continuity: the machine is suspended,
//! a virtual machine is moved. The daemon looks for that every second. Where it has not looked for
//! [three seconds](truechimer_timehands::PATIENCE), a reader looks itself, at each reading, at the
//! cost of a microsecond: without a daemon [`Status::Synchronised`] turns into
//! [`Status::Holdover`], in time into [`Status::Unknown`], and after a break at once into
//! [`Status::Disrupted`]. The same goes for every new hand that the daemon publishes. So the one
//! window in which a break goes unseen is up to one second, or three if the daemon has just been
//! stopped.
//!
//! In a virtual machine whose hypervisor has a *vmclock* (`/dev/vmclock0`) that this process may read
//! there is no such window for a migration or a restored snapshot: its word is heard with each
//! reading, by one load of memory. [`View::hypervisor`] says whether it is.
//!
//! # Counters that are devices
//! An HPET or an ACPI power management timer rolls over, and only root may read it. A program that
//! may continues from where the daemon has kept the counter; any other makes the same counts of
//! `CLOCK_MONOTONIC_RAW`, with some microseconds more in the bound, as long as the kernel keeps
//! time by that device. [`View::read_by`] says which. Where neither will do there is no time but an
//! error ([`Unreadable`]) that says what to do. Each reading costs some microseconds then: there is
//! no quick way.
//!
//! # Fences
//! The processor may read an unfenced counter some instructions earlier or later than the program
//! has it: tens of nanoseconds at most, which the bound does not contain. For order against other
//! threads' readings finer than that, [`Clock::fenced`] makes each reading wait for what is before
//! it and hold up what is after it, for some 15 ns. Not with [`CounterKind::Raw`], where the
//! kernel's own read always is in order.
#![forbid(unsafe_code)]

mod clock;
mod device;
mod error;
mod hypervisor;
mod judge;
mod reading;
mod shown;
mod unix;
mod uptime;
mod view;
mod wait;

pub use clock::Clock;
pub use device::ReadBy;
pub use error::{NoDevice, NoRawClock, OpenError, ReadError, Unreadable};
pub use reading::{Elapsed, Moment, Reading};
pub use shown::UnixReading;
pub use truechimer_counter::CounterError;
pub use truechimer_time::{
    Count, CountSpan, CounterKind, Epoch, Instant, Leap, Leaps, Period, Rate, Span, Utc,
};
pub use truechimer_timehands::{
    Corrupt, Hand, Likely, Made, PageError, PageReader, Status, places,
};
pub use unix::{UnixNanos, UnixTick, UnixTimer};
pub use view::View;
pub use wait::{Side, Tick, Timer, WaitError};

/// Examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
