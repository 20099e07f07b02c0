//! Extension fields of NTS (RFC 8915 §5).

use truechimer_ntp::extension::SHORTEST;
pub(crate) use truechimer_ntp::extension::{Field, Fields, HEAD, two};

/// Unique Identifier.
pub(crate) const UNIQUE: u16 = 0x0104;
/// NTS Cookie.
pub(crate) const COOKIE: u16 = 0x0204;
/// NTS Cookie Placeholder: as long as a cookie, and asks for one more.
pub(crate) const PLACEHOLDER: u16 = 0x0304;
/// NTS Authenticator and Encrypted Extension Fields.
pub(crate) const AUTHENTICATOR: u16 = 0x0404;

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
