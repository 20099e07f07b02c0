//! The ring in a file that any process can map: one writer, kept single by a lock, and readers
//! without any privilege.

mod error;
pub mod layout;
mod lock;
mod map;
pub mod places;
mod reader;
mod writer;

use truechimer_time::Count;

pub use error::PageError;
pub use reader::PageReader;
pub use writer::{Mended, PageWriter};

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!(
    "feature `page` needs Linux on a 64-bit machine: only there does a 64-bit load from read-only \
     memory work for certain, and in one piece"
);

/// Where a counter that rolls over was when the daemon last read it: what others continue from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    /// The 64-bit count then.
    pub wide: Count,
    /// `CLOCK_MONOTONIC_COARSE` then, ns, read before the count; never 0.
    pub at_ns: i64,
}

impl Kept {
    /// Place kept in a ring, if any.
    fn of(ring: &crate::HandRing) -> Option<Kept> {
        let (wide, at) = ring.kept()?;
        Some(Kept { wide: Count(wide), at_ns: at as i64 })
    }
}

/// A hand as it lies in a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Newest {
    /// Generation of the hand.
    pub generation: u64,
    /// The hand.
    pub hand: crate::Hand,
    /// When it was made.
    pub made: crate::Made,
    /// The hypervisor's disruption marker under which it was made, if there is one.
    pub marker: Option<crate::Marker>,
}

/// The newest hand of a ring.
fn newest(ring: &crate::HandRing) -> Result<Option<Newest>, crate::Corrupt> {
    match ring.newest_with_beside() {
        Ok((generation, words, beside)) => {
            let (hand, made) = crate::unpack(&words)?;
            let hand = crate::unpack_beside(hand, &beside)?;
            let marker = crate::Marker::get(&beside)?;
            Ok(Some(Newest { generation, hand, made, marker }))
        }
        Err(crate::Unreadable::Empty) => Ok(None),
        Err(crate::Unreadable::Damaged) => Err(crate::Corrupt { field: "generation" }),
    }
}
