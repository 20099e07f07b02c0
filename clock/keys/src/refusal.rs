//! Reasons for which a packet proves nothing.

use std::fmt;

/// Reason for which a reply is not used, or a request not answered with the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Shorter than a header.
    Malformed,
    /// Has no message authentication code.
    Unprotected,
    /// Key of this number: in a reply another than the request's, in a request one that is not known.
    OtherKey(u32),
    /// Code that does not fit: the packet was changed, or the other end has another key of this number.
    Forged(u32),
    /// The server knows no such key, or another one (crypto-NAK). It carries no proof, so that anybody on
    /// the path can send it.
    Nak,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Malformed => f.write_str("MAC: a malformed packet"),
            Refusal::Unprotected => f.write_str("MAC: a packet without proof of who made it"),
            Refusal::OtherKey(number) => write!(f, "MAC: a packet by another key, {number}"),
            Refusal::Forged(number) => {
                write!(f, "MAC: a packet that was changed, or made with another key {number}")
            }
            Refusal::Nak => f.write_str(
                "MAC: the server knows no such key, or another one (crypto-NAK): compare both files",
            ),
        }
    }
}

impl std::error::Error for Refusal {}
