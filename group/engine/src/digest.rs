//! FNV-1a with 64 bits: tells apart what differs by accident, not by intent.

/// A digest that goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest(pub u64);

impl Default for Digest {
    /// Of nothing.
    fn default() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Digest {
        Digest::default().and(bytes)
    }

    /// With these bytes after what was.
    #[must_use]
    pub fn and(mut self, bytes: &[u8]) -> Digest {
        self.bytes(bytes);
        self
    }

    /// With this number after what was.
    #[must_use]
    pub fn and_number(self, number: u64) -> Digest {
        self.and(&number.to_le_bytes())
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    /// Takes in a number, quicker than its bytes: each permutes what was before it.
    pub(crate) fn word(&mut self, word: u64) {
        let mixed = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 29;
    }

    pub(crate) fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::Digest;

    #[test]
    fn published_values() {
        assert_eq!(Digest::of(b"a").0, 0xaf63_dc4c_8601_ec8c);
        assert_eq!(Digest::of(b"foobar").0, 0x8594_4171_f739_67e8);
    }
}
