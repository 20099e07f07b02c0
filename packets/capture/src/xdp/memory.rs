//! Memory that the kernel writes to while we read it, and the other way round. The only place where
//! pointers into it are made.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use memmap2::{MmapOptions, MmapRaw};

/// The size of a huge page, in bytes, where nobody says otherwise.
const HUGE_PAGE: usize = 2 << 20;

/// A stretch of mapped memory. What is done with it is `unsafe` or atomic, and says on its own why
/// it is no race.
#[derive(Debug)]
pub(super) struct Mapping(MmapRaw);

/// Type that may be moved through shared memory bit by bit.
///
/// # Safety
/// Every bit pattern of the type's size must be a value of it, and it must not drop.
pub(super) unsafe trait Plain: Copy {}

// SAFETY: an integer.
unsafe impl Plain for u64 {}

/// A received frame, as the kernel describes it (`struct xdp_desc`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(super) struct Descriptor {
    /// Where its first byte is, in bytes from the start of the frames' memory.
    pub address: u64,
    /// Length in bytes.
    pub length: u32,
    /// `XDP_PKT_CONTD`: the packet goes on in the next one.
    pub options: u32,
}

// SAFETY: three integers without padding.
unsafe impl Plain for Descriptor {}

impl Mapping {
    /// New memory of this process's, zeroed; in huge pages where `huge` and there are some free.
    /// `length` is rounded up to whole pages.
    pub fn anonymous(length: usize, huge: bool) -> io::Result<Mapping> {
        if huge {
            let whole = length.next_multiple_of(HUGE_PAGE);
            let map = MmapOptions::new().len(whole).populate().huge(None).map_anon();
            if let Ok(map) = map {
                return Ok(Mapping(map.into()));
            }
        }
        Ok(Mapping(MmapOptions::new().len(length).populate().map_anon()?.into()))
    }

    /// A socket's memory.
    pub fn of(socket: BorrowedFd<'_>, length: usize, offset: u64) -> io::Result<Mapping> {
        MmapOptions::new().offset(offset).len(length).populate().map_raw(&socket).map(Mapping)
    }

    /// Number of bytes.
    pub fn length(&self) -> usize {
        self.0.len()
    }

    /// Where they start, as the kernel wants to be told.
    pub fn address(&self) -> u64 {
        self.0.as_ptr() as u64
    }

    /// True if `count` values of a type lie inside from byte `at` on, aligned.
    fn holds<T>(&self, at: usize, count: usize) -> bool {
        at.is_multiple_of(align_of::<T>())
            && count
                .checked_mul(size_of::<T>())
                .and_then(|bytes| bytes.checked_add(at))
                .is_some_and(|end| end <= self.0.len())
    }

    /// The word at byte `at`, if it lies inside and aligned.
    #[inline]
    pub fn word(&self, at: usize) -> Option<&AtomicU32> {
        if !self.holds::<AtomicU32>(at, 1) {
            return None;
        }
        // SAFETY: it is inside the mapping, which lives as long as `self`; mappings start at a
        // page, so it is aligned. The kernel changes it by atomic stores, as we do.
        Some(unsafe { &*self.0.as_ptr().add(at).cast::<AtomicU32>() })
    }

    /// An array in this memory, if it lies inside and aligned.
    pub fn array<T: Plain>(&self, at: usize, count: usize) -> Option<Array<T>> {
        let start = NonNull::new(self.0.as_mut_ptr().wrapping_add(at).cast())?;
        self.holds::<T>(at, count).then_some(Array { start, count })
    }

    /// `length` bytes from byte `at` on, if they lie inside.
    ///
    /// # Safety
    /// Nobody, the kernel included, may write to them while the result lives.
    #[inline]
    pub unsafe fn bytes(&self, at: usize, length: usize) -> Option<&[u8]> {
        if !self.holds::<u8>(at, length) {
            return None;
        }
        // SAFETY: inside the mapping, which lives as long as `self`; the caller keeps writers off.
        Some(unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(at), length) })
    }
}

/// An array inside a [`Mapping`], which whoever has it must keep alive beside it.
#[derive(Debug)]
pub(super) struct Array<T> {
    start: NonNull<T>,
    count: usize,
}

// SAFETY: as for `Mapping`: reading and writing are `unsafe`.
unsafe impl<T: Plain> Send for Array<T> {}
// SAFETY: as above.
unsafe impl<T: Plain> Sync for Array<T> {}

impl<T: Plain> Array<T> {
    /// The value at `index`.
    ///
    /// # Safety
    /// `index` must be less than the array's length, the mapping must live, and the other side must
    /// not be writing to this place.
    #[inline]
    pub unsafe fn get(&self, index: usize) -> T {
        debug_assert!(index < self.count);
        // SAFETY: inside the array, says the caller; aligned, as was looked at when it was made.
        unsafe { self.start.as_ptr().add(index).read() }
    }

    /// Writes the value at `index`.
    ///
    /// # Safety
    /// `index` must be less than the array's length, the mapping must live, and the other side must
    /// not be reading or writing this place.
    #[inline]
    pub unsafe fn set(&self, index: usize, value: T) {
        debug_assert!(index < self.count);
        // SAFETY: as above.
        unsafe { self.start.as_ptr().add(index).write(value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_or_unaligned_is_reached() {
        let memory = Mapping::anonymous(4096, false).unwrap();
        assert!(memory.word(4092).is_some());
        assert!(memory.word(4093).is_none() && memory.word(4096).is_none());
        assert!(memory.word(2).is_none() && memory.word(usize::MAX - 3).is_none());
        assert!(memory.array::<u64>(0, 512).is_some() && memory.array::<u64>(8, 512).is_none());
        assert!(memory.array::<u64>(0, usize::MAX / 4).is_none());
        assert!(memory.array::<Descriptor>(4, 1).is_none());
        // SAFETY: nobody writes to this memory.
        unsafe {
            assert_eq!(memory.bytes(4000, 96).map(<[u8]>::len), Some(96));
            assert!(memory.bytes(4000, 97).is_none() && memory.bytes(usize::MAX, 2).is_none());
        }
    }

    #[test]
    fn memory_without_huge_pages_does_too() {
        let memory = Mapping::anonymous(1 << 20, true).unwrap();
        assert!(memory.length() >= 1 << 20 && memory.word(0).is_some());
    }
}
