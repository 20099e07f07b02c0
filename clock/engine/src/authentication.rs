//! Proof of who a server is.

use serde::{Deserialize, Serialize};

/// Proof of who a server is, that requests to it and its replies carry. The engine knows no keys: those who send and
/// receive for it have them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Authentication {
    /// None: whoever can write packets on the path can answer for it.
    #[default]
    None,
    /// Network Time Security (RFC 8915): keys are exchanged first, and say where its NTP server is.
    Nts,
    /// The symmetric key of this number, from 1 on, which both ends have (RFC 5905 §7.3, RFC 8573).
    Key(u32),
}

impl Authentication {
    /// True if there is no proof.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        matches!(self, Authentication::None)
    }

    /// Name of its kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Authentication::None => "none",
            Authentication::Nts => "nts",
            Authentication::Key(_) => "key",
        }
    }

    /// The number of the symmetric key, if it is one.
    #[must_use]
    pub const fn key(self) -> Option<u32> {
        match self {
            Authentication::Key(number) => Some(number),
            Authentication::None | Authentication::Nts => None,
        }
    }
}
