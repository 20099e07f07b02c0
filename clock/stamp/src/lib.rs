//! Kernel packet stamps as counts, each with the bound of its own error.
//!
//! Linux stamps packets with `CLOCK_REALTIME`, which somebody may be slewing or stepping at that
//! very moment. Counts are what the stack wants, so every stamp is turned back into the count at
//! which `CLOCK_REALTIME` showed it:
//!
//! * a [`PairLog`] remembers pairs (count, `CLOCK_REALTIME`, count) taken around every packet;
//! * [`PairLog::invert`] asks at which counts, between the pairs around it and within the window
//!   that causality leaves, the clock can have shown that time. What cannot be excluded is in the
//!   error bound of the [`Stamp`](truechimer_time::Stamp);
//! * a [`Socket`] sends and receives datagrams and does all of that, for a [`Group`] by Ethernet as well;
//! * [`control`] and [`Name`] are what else travels between the kernel and a socket, for those who
//!   receive many datagrams with one call;
//! * [`CardLog`] does the same for stamps by a network card's own clock, which [`card`] has it take;
//! * [`pps`] does the same for the edges of a pulse per second;
//! * [`phc`] reads a card's clock beside the counter; [`shm`] and [`sock`] take samples from programs
//!   of receivers.
//!
//! Where the kernel gives no stamp, or one that no pair explains, the stamp is a user-space one:
//! its [`method`](truechimer_time::StampMethod) says so and its error is what the scheduler could
//! have done.
#![deny(unsafe_code)]

pub mod card;
mod card_log;
pub mod control;
mod group;
pub mod interface;
mod interval;
mod log;
mod name;
pub mod phc;
pub mod pps;
pub mod ptp;
pub mod shm;
pub mod sock;
mod socket;
mod sys;
mod undelivered;
mod wait;

pub use card_log::CardLog;
pub use control::Wire;
pub use group::{Group, bind_to_device};
pub use interval::{Interval, ORDINARY, Region, UNSEEN};
pub use log::{NoStamp, PairLog, Window};
pub use name::Name;
pub use socket::{Received, Socket};
pub use sys::set_option;
pub use undelivered::Undelivered;
pub use wait::{Ready, any, readable};
