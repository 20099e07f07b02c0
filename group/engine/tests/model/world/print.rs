//! Short names of states, by which it is known where one has been.

use std::hash::{Hash, Hasher};

/// A quick digest of 64 bits. Each word permutes what was before it, so that two states that differ
/// have the same one only by chance: with 10⁷ states, one in 10⁵ that any two do.
#[derive(Default)]
pub struct Print(u64);

impl Hasher for Print {
    fn finish(&self) -> u64 {
        let end = (self.0 ^ self.0 >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        end ^ end >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.write_u64(u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56);
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(word.into());
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 29;
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}

/// A digest of all that there is to a state.
pub fn print(value: &impl Hash) -> u64 {
    let mut hasher = Print::default();
    value.hash(&mut hasher);
    hasher.finish()
}
