//! Byte order.

/// The byte order of a section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The least byte first.
    Little,
    /// The greatest byte first.
    Big,
}

impl Order {
    /// The 16 bits at `at`, if there are so many bytes.
    #[must_use]
    pub fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let two = array(bytes, at)?;
        Some(match self {
            Order::Little => u16::from_le_bytes(two),
            Order::Big => u16::from_be_bytes(two),
        })
    }

    /// The 32 bits at `at`, if there are so many bytes.
    #[must_use]
    pub fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let four = array(bytes, at)?;
        Some(match self {
            Order::Little => u32::from_le_bytes(four),
            Order::Big => u32::from_be_bytes(four),
        })
    }

    /// The 64 bits at `at`, if there are so many bytes.
    #[must_use]
    pub fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        let eight = array(bytes, at)?;
        Some(match self {
            Order::Little => u64::from_le_bytes(eight),
            Order::Big => u64::from_be_bytes(eight),
        })
    }

    /// A number of 64 bits in two halves, the upper one first, as times are written.
    #[must_use]
    pub fn halves(self, bytes: &[u8], at: usize) -> Option<u64> {
        let (high, low) = (self.u32(bytes, at)?, self.u32(bytes, at.checked_add(4)?)?);
        Some((u64::from(high) << 32) | u64::from(low))
    }

    /// The bytes of 16 bits.
    #[must_use]
    pub fn short(self, value: u16) -> [u8; 2] {
        match self {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        }
    }

    /// The bytes of 32 bits.
    #[must_use]
    pub fn bytes(self, value: u32) -> [u8; 4] {
        match self {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        }
    }
}

/// `N` bytes from `at` on.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Number of bytes that fill up `length` to a multiple of four.
pub(crate) const fn padding(length: usize) -> usize {
    length.wrapping_neg() & 3
}

/// Zeros that follow `length` bytes to fill up four.
pub(crate) fn filler(length: usize) -> &'static [u8] {
    const ZEROS: &[u8] = &[0; 3];
    ZEROS.get(..padding(length)).unwrap_or_default()
}
