//! The clock as a ring of hands: what the daemon knows, read by anyone at the cost of a few loads.
//!
//! ```
//! use truechimer_timehands::{HandRing, WORDS};
//!
//! let mut ring = HandRing::new();
//! let (mut writer, ring) = ring.split();
//! // The words of a hand (`pack`); whoever reads finds these or newer ones, and never waits.
//! let generation = writer.publish(&[7; WORDS]);
//! assert_eq!(ring.newest(), Ok((generation, [7; WORDS])));
//! ```
//!
//! * A [`Hand`] is everything that turns a count into time, with the bound of the error;
//!   [`Made`] says when it was made, by the host's own clocks.
//! * [`Passed`] is how writer and readers tell from those clocks that the counter ran on.
//! * A [`Ring`] publishes hands from one writer to any number of readers without locks. A reader
//!   is never held up by a writer, wherever that was stopped: it reads the newest complete hand.
//! * A [`OneHand`] is the clock of a machine without a free-running counter: a single hand over
//!   the periodic timer behind the clock tick ([`TickCounter`]).
//! * With feature `page` the ring lies in a file that any process can map: `PageWriter`,
//!   `PageReader`. The layout is described byte by byte in `docs/reference/clock-page.md`.
//!
//! Nothing here knows where time comes from, and nothing here reads a counter.
#![cfg_attr(not(any(feature = "page", test)), no_std)]
#![cfg_attr(not(feature = "page"), forbid(unsafe_code))]
#![cfg_attr(feature = "page", deny(unsafe_code))]

mod cell;
mod glance;
mod hand;
mod made;
mod one_hand;
mod packed;
#[cfg(feature = "page")]
mod page;
mod passed;
mod reference;
mod ring;
#[cfg(feature = "page")]
mod shared_words;

pub use cell::{Cell, Halves, Mark, Word};
pub use glance::Glance;
pub use hand::{Hand, Likely, Status};
pub use made::{ByRaw, Device, Made};
pub use one_hand::{Counting, OneHand, TickCounter, Told, Untold};
pub use packed::{
    BESIDE, Beside, Corrupt, Marker, PATIENCE, Packed, PackedLeaps, WORDS, pack, pack_beside,
    unpack, unpack_beside,
};
#[cfg(feature = "page")]
pub use page::{Kept, Mended, Newest, PageError, PageReader, PageWriter, layout, places};
pub use passed::{Allowed, Break, Passed};
pub use reference::Reference;
pub use ring::{HandRing, Look, Ring, SLOTS, TRIES, Unreadable, Writer};
#[cfg(feature = "page")]
pub use shared_words::SharedWords;

/// Examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
