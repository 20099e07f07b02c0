//! Reasons for which a packet is not taken in, or none can be made.

use std::fmt;

/// Reason for which a reply is not used, or a request not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Shorter than a header, or its extension fields are malformed.
    Malformed,
    /// No request is waiting for a reply: a copy, or an answer to nobody.
    Unasked,
    /// The unique identifier is missing, or is not the request's.
    NotOurs,
    /// Has no authenticator.
    Unprotected,
    /// The authenticator does not fit: it was changed, or made by somebody else.
    Forged,
    /// The server does not know the cookie (kiss code `NTSN`). It carries no proof, so that anybody on
    /// the path can send it: it counts only if nothing authentic comes until the next request.
    Nak,
    /// A request without a cookie, or with one that no key of ours opens.
    NoCookie,
}

impl Refusal {
    /// Short name, for counting.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Refusal::Malformed => "nts-malformed",
            Refusal::Unasked => "nts-unasked",
            Refusal::NotOurs => "nts-not-ours",
            Refusal::Unprotected => "nts-unprotected",
            Refusal::Forged => "nts-forged",
            Refusal::Nak => "nts-nak",
            Refusal::NoCookie => "nts-no-cookie",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Malformed => "NTS: a malformed packet",
            Refusal::Unasked => "NTS: a reply to nothing that was asked",
            Refusal::NotOurs => "NTS: a reply to another request",
            Refusal::Unprotected => "NTS: a reply without proof of who made it",
            Refusal::Forged => "NTS: a reply that was changed, or made by somebody else",
            Refusal::Nak => "NTS: the server does not know our cookie",
            Refusal::NoCookie => "NTS: no cookie that we made",
        })
    }
}

impl std::error::Error for Refusal {}

/// Reason for which no request can be made: new keys are needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unprotected {
    /// All cookies were used, and no reply brought another.
    NoCookies,
    /// The server has said that it does not know them, and nothing authentic came after that.
    Nak,
}

impl fmt::Display for Unprotected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unprotected::NoCookies => "NTS: no cookie is left, as replies are missing",
            Unprotected::Nak => "NTS: the server does not know our cookies any more",
        })
    }
}

impl std::error::Error for Unprotected {}
