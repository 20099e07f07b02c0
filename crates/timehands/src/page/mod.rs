//! The ring in a file that any process can map: one writer, kept single by a lock, and readers
//! without any privilege.

mod error;
pub mod layout;
mod map;
pub mod places;
mod reader;
mod writer;

pub use error::PageError;
pub use reader::PageReader;
pub use writer::PageWriter;

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!(
    "feature `page` needs Linux on a 64-bit machine: only there does a 64-bit load from read-only \
     memory work for certain, and in one piece"
);

/// The newest hand of a ring with its generation.
fn newest(
    ring: &crate::HandRing,
) -> Result<Option<(u64, crate::Hand, crate::Made)>, crate::Corrupt> {
    match ring.newest() {
        Ok((generation, words)) => {
            let (hand, made) = crate::unpack(&words)?;
            Ok(Some((generation, hand, made)))
        }
        Err(crate::Unreadable::Empty) => Ok(None),
        Err(crate::Unreadable::Damaged) => Err(crate::Corrupt { field: "generation" }),
    }
}
