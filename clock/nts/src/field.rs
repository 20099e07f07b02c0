//! Extension fields behind an NTP header (RFC 7822), and those of NTS (RFC 8915 §5).

use crate::HEADER;

/// Unique Identifier.
pub(crate) const UNIQUE: u16 = 0x0104;
/// NTS Cookie.
pub(crate) const COOKIE: u16 = 0x0204;
/// NTS Cookie Placeholder: as long as a cookie, and asks for one more.
pub(crate) const PLACEHOLDER: u16 = 0x0304;
/// NTS Authenticator and Encrypted Extension Fields.
pub(crate) const AUTHENTICATOR: u16 = 0x0404;

/// Bytes before a field's body.
pub(crate) const HEAD: usize = 4;
/// The shortest field, its head included.
const SHORTEST: usize = 16;

/// An extension field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) kind: u16,
    pub(crate) body: &'a [u8],
    /// Where it begins in what was read.
    pub(crate) start: usize,
}

/// Reads fields one after the other; `None` in the place of one that is malformed.
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    /// Those of a packet.
    pub(crate) fn of_packet(packet: &'a [u8]) -> Fields<'a> {
        Fields { bytes: packet, at: HEADER }
    }

    /// Those that were encrypted.
    pub(crate) fn of_text(text: &'a [u8]) -> Fields<'a> {
        Fields { bytes: text, at: 0 }
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
pub(crate) fn two(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes)
}

/// Appends a field; what is missing to its shortest length, or to a multiple of 4, is zeros.
pub(crate) fn push(to: &mut Vec<u8>, kind: u16, body: &[u8]) {
    let length = padded(body.len());
    to.extend_from_slice(&kind.to_be_bytes());
    to.extend_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
    to.extend_from_slice(body);
    to.resize(to.len() + length - HEAD - body.len(), 0);
}

/// Bytes of a field with a body of so many.
pub(crate) fn padded(body: usize) -> usize {
    (HEAD + body).max(SHORTEST).next_multiple_of(4)
}

/// Body of an authenticator: nonce and ciphertext, each to a multiple of 4 (§5.6).
pub(crate) fn authenticator(nonce: &[u8], sealed: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(4 + nonce.len() + sealed.len() + 6);
    for part in [nonce, sealed] {
        body.extend_from_slice(&u16::try_from(part.len()).unwrap_or(u16::MAX).to_be_bytes());
    }
    for part in [nonce, sealed] {
        body.extend_from_slice(part);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    body
}

/// Nonce and ciphertext of an authenticator; `None` if they do not fit into it. Padding behind them
/// is passed over.
pub(crate) fn sealed(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let nonce = usize::from(two(body, 0)?);
    let sealed = usize::from(two(body, 2)?);
    let from = HEAD + nonce.next_multiple_of(4);
    Some((body.get(HEAD..HEAD + nonce)?, body.get(from..from + sealed)?))
}
