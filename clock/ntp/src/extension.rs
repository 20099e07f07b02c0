//! Extension fields behind an NTP header (RFC 7822).

use crate::HEADER_LEN;

/// Bytes before a field's body: its type and its length.
pub const HEAD: usize = 4;
/// The shortest field, its head included, in bytes.
pub const SHORTEST: usize = 16;

/// An extension field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field<'a> {
    /// Type, of IANA's registry.
    pub kind: u16,
    /// Value, with whatever padding it has.
    pub body: &'a [u8],
    /// Where it begins in what was read, in bytes.
    pub start: usize,
}

/// Reads fields one after the other; `None` in the place of one that is malformed, which is the last.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    /// Fields of a packet, behind its header.
    #[must_use]
    pub const fn of_packet(packet: &'a [u8]) -> Fields<'a> {
        Fields { bytes: packet, at: HEADER_LEN }
    }

    /// Fields that follow one another from the first byte on.
    #[must_use]
    pub const fn of_text(text: &'a [u8]) -> Fields<'a> {
        Fields { bytes: text, at: 0 }
    }

    /// Bytes that were read so far, and those that are left.
    #[must_use]
    pub fn split(&self) -> (&'a [u8], &'a [u8]) {
        self.bytes.split_at(self.at.min(self.bytes.len()))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Option<Field<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.at;
        let rest = self.bytes.get(start..).filter(|rest| !rest.is_empty())?;
        let field = two(rest, 0).zip(two(rest, 2)).and_then(|(kind, length)| {
            let length = usize::from(length);
            let whole = length >= SHORTEST && length.is_multiple_of(4);
            let body = rest.get(HEAD..length).filter(|_| whole)?;
            Some(Field { kind, body, start })
        });
        // Behind one that is malformed nothing can be found.
        self.at = field.map_or(self.bytes.len(), |field| start + HEAD + field.body.len());
        Some(field)
    }
}

/// The number of two bytes at a place.
#[must_use]
pub fn two(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at.checked_add(2)?)?.try_into().ok().map(u16::from_be_bytes)
}
