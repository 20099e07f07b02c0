//! Making blocks. All are little-endian.

use crate::order::filler;
use crate::records::ENTERPRISE;
use crate::{code, kind};

/// Longer texts are cut to this many bytes, at a character.
const MOST_TEXT: usize = 8192;

/// A block in the making, at the end of a buffer.
#[derive(Debug)]
pub struct Building<'v> {
    out: &'v mut Vec<u8>,
    start: usize,
    options: bool,
}

impl<'v> Building<'v> {
    fn new(out: &'v mut Vec<u8>, kind: u32, front: &[u8]) -> Building<'v> {
        let start = out.len();
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(front);
        Building { out, start, options: false }
    }

    /// Adds an option; one of more than 65 535 bytes is left out, as the format cannot hold it.
    #[must_use]
    pub fn option(self, code: u16, value: &[u8]) -> Building<'v> {
        self.parts(code, &[value])
    }

    /// Adds a text, without control characters, unless it is empty.
    #[must_use]
    pub fn text(self, code: u16, text: &str) -> Building<'v> {
        let mut plain = String::with_capacity(text.len().min(MOST_TEXT));
        for c in text.chars() {
            let c = if c.is_control() { ' ' } else { c };
            if plain.len() + c.len_utf8() > MOST_TEXT {
                break;
            }
            plain.push(c);
        }
        if plain.is_empty() { self } else { self.option(code, plain.as_bytes()) }
    }

    /// Adds a comment.
    #[must_use]
    pub fn comment(self, text: &str) -> Building<'v> {
        self.text(code::COMMENT, text)
    }

    /// Adds a count of packets.
    #[must_use]
    pub fn count(self, code: u16, value: u64) -> Building<'v> {
        self.option(code, &value.to_le_bytes())
    }

    /// Adds a time in ns, in two halves.
    #[must_use]
    pub fn time(self, code: u16, unix_ns: i64) -> Building<'v> {
        self.option(code, &halves(unix_ns))
    }

    /// Adds a record of ours.
    #[must_use]
    pub fn record(self, record: &[u8]) -> Building<'v> {
        self.parts(code::CUSTOM, &[&ENTERPRISE.to_le_bytes(), record])
    }

    fn parts(mut self, code: u16, parts: &[&[u8]]) -> Building<'v> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let Ok(short) = u16::try_from(length) else { return self };
        self.options = true;
        self.out.extend_from_slice(&code.to_le_bytes());
        self.out.extend_from_slice(&short.to_le_bytes());
        for part in parts {
            self.out.extend_from_slice(part);
        }
        self.pad(length);
        self
    }

    fn pad(&mut self, length: usize) {
        self.out.extend_from_slice(filler(length));
    }

    /// Completes the block; its length in bytes.
    pub fn end(self) -> usize {
        if self.options {
            self.out.extend_from_slice(&[0; 4]);
        }
        let length = self.out.len() + 4 - self.start;
        let bytes = u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
        self.out.extend_from_slice(&bytes);
        if let Some(field) = self.out.get_mut(self.start + 4..self.start + 8) {
            field.copy_from_slice(&bytes);
        }
        length
    }
}

/// A section header.
#[must_use]
pub fn section(out: &mut Vec<u8>) -> Building<'_> {
    let mut front = [0xff; 16];
    // Byte order, version 1.0, and a length that nobody knows yet: −1.
    for (to, from) in front.iter_mut().zip([0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0]) {
        *to = from;
    }
    Building::new(out, kind::SECTION, &front)
}

/// An interface whose times are in nanoseconds.
#[must_use]
pub fn interface(out: &mut Vec<u8>, link_type: u16, snap_length: u32) -> Building<'_> {
    interface_in(out, link_type, snap_length, 9)
}

/// An interface whose times are in units of 10 to the power of −`digits` s: where
/// [`packet`] takes ns, these are to be given.
#[must_use]
pub fn interface_in(
    out: &mut Vec<u8>,
    link_type: u16,
    snap_length: u32,
    digits: u8,
) -> Building<'_> {
    let [a, b] = link_type.to_le_bytes();
    let [e, f, g, h] = snap_length.to_le_bytes();
    Building::new(out, kind::INTERFACE, &[a, b, 0, 0, e, f, g, h])
        .option(code::RESOLUTION, &[digits])
}

/// A packet: its interface, Unix time in ns (0 if before 1970), bytes in parts, and length on the
/// wire.
#[must_use]
pub fn packet<'v>(
    out: &'v mut Vec<u8>,
    interface: u32,
    unix_ns: i64,
    data: &[&[u8]],
    length: u32,
) -> Building<'v> {
    let captured: usize = data.iter().map(|part| part.len()).sum();
    out.reserve(captured + 128);
    let [a, b, c, d] = interface.to_le_bytes();
    let [e, f, g, h, i, j, k, l] = halves(unix_ns);
    let [m, n, o, p] = u32::try_from(captured).unwrap_or(u32::MAX).to_le_bytes();
    let [q, r, s, t] = length.to_le_bytes();
    // In one piece: there are millions a second.
    let front = [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t];
    let mut building = Building::new(out, kind::PACKET, &front);
    for part in data {
        building.out.extend_from_slice(part);
    }
    building.pad(captured);
    building
}

/// Statistics of an interface, as of a Unix time in ns.
#[must_use]
pub fn statistics(out: &mut Vec<u8>, interface: u32, unix_ns: i64) -> Building<'_> {
    let building = Building::new(out, kind::STATISTICS, &interface.to_le_bytes());
    building.out.extend_from_slice(&halves(unix_ns));
    building
}

/// A time as the format has it: 64 bits in two halves, the upper one first.
fn halves(unix_ns: i64) -> [u8; 8] {
    let ticks = u64::try_from(unix_ns).unwrap_or(0);
    let [a, b, c, d] = ((ticks >> 32) as u32).to_le_bytes();
    let [e, f, g, h] = (ticks as u32).to_le_bytes();
    [a, b, c, d, e, f, g, h]
}
