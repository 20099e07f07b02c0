//! A device's registers, mapped to be read.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::{io, ptr};

use super::Registers;

/// Pages of physical memory, mapped read-only until it is dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: *mut libc::c_void,
    length: usize,
    /// Where the registers begin.
    offset: usize,
}

// SAFETY: the memory belongs to this value alone, is unmapped only when it is dropped, and is only
// ever read, by single loads that any processor may do.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `length` bytes from `at` of the file on, `at` being a multiple of four.
    pub(crate) fn new(file: &File, at: u64, length: usize) -> io::Result<Mapping> {
        let page = page_size();
        let offset = (at % page) as usize;
        let length = length + offset;
        let from = libc::off_t::try_from(at - at % page)
            .map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
        // SAFETY: a new mapping of a file that is open; nothing else of this process is touched.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                from,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { start, length, offset })
    }
}

impl Registers for Mapping {
    #[inline]
    fn word(&self, at: usize) -> u32 {
        let at = self.offset + at;
        assert!(at.is_multiple_of(4) && at + 4 <= self.length, "no such register: {at}");
        // SAFETY: it lies within the mapping, which lasts as long as this value, and is aligned as
        // the start, a page, is. One load of 32 bits, which the device answers as one.
        u32::from_le(unsafe { ptr::read_volatile(self.start.cast::<u8>().add(at).cast::<u32>()) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped like that, and nobody can have a reference into it.
        unsafe { libc::munmap(self.start, self.length) };
    }
}

fn page_size() -> u64 {
    // SAFETY: it takes a number and gives one.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(0).max(4096)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn registers_anywhere_in_a_file() {
        let path = std::env::temp_dir().join(format!("truechimer-map-{}", std::process::id()));
        let mut file = File::create_new(&path).unwrap();
        let words: Vec<u8> = (0..4096u32).flat_map(u32::to_le_bytes).collect();
        file.write_all(&words).unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        for at in [0, 8, 4092, 4096, 4104, 12_000] {
            let mapping = Mapping::new(&file, at, 8).unwrap();
            assert_eq!(u64::from(mapping.word(0)), at / 4);
            assert_eq!(u64::from(mapping.word(4)), at / 4 + 1);
            assert!(std::panic::catch_unwind(|| mapping.word(8)).is_err());
        }
        assert!(Mapping::new(&file, u64::MAX - 4095, 4).is_err());
    }
}
