//! A device's registers, mapped to be read.
#![allow(unsafe_code)]

use std::fs::File;
use std::{io, ptr};

use memmap2::{MmapOptions, MmapRaw};

use super::Registers;

/// Pages of physical memory, mapped read-only until it is dropped.
#[derive(Debug)]
pub(crate) struct Mapping(MmapRaw);

impl Mapping {
    /// Maps `length` bytes from `at` of the file on, `at` being a multiple of four.
    pub(crate) fn new(file: &File, at: u64, length: usize) -> io::Result<Mapping> {
        MmapOptions::new().offset(at).len(length).map_raw_read_only(file).map(Mapping)
    }
}

impl Registers for Mapping {
    #[inline]
    fn word(&self, at: usize) -> u32 {
        assert!(at.is_multiple_of(4) && at + 4 <= self.0.len(), "no such register: {at}");
        // SAFETY: it lies within the mapping, which lasts as long as this value, and is aligned as
        // the start is. One load of 32 bits, which the device answers as one.
        u32::from_le(unsafe { ptr::read_volatile(self.0.as_ptr().add(at).cast::<u32>()) })
    }
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
