//! FNV-1a with 64 bits: tells apart what differs by accident, not by intent.

/// A hash that goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hash(pub u64);

impl Hash {
    /// Of nothing.
    pub const fn new() -> Hash {
        Hash(0xcbf2_9ce4_8422_2325)
    }

    /// With these bytes after what was.
    pub fn and(self, bytes: &[u8]) -> Hash {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        Hash(bytes.iter().fold(self.0, step))
    }

    /// With this number after what was.
    pub fn and_number(self, number: u64) -> Hash {
        self.and(&number.to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::Hash;

    #[test]
    fn published_values() {
        assert_eq!(Hash::new().and(b"a").0, 0xaf63_dc4c_8601_ec8c);
        assert_eq!(Hash::new().and(b"foobar").0, 0x8594_4171_f739_67e8);
    }
}
