//! Reasons why a datagram was not taken for the server's time.

use core::fmt;
use core::net::SocketAddr;

use truechimer_time::Span;

use crate::client::MAX_ROOT_DISTANCE;
use crate::{HEADER_LEN, Mode, RefId};

/// Reasons for refusing a datagram, in the order of the checks: the first that fails is named.
///
/// `Display` says it in plain words, with what the user can do about it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refusal {
    /// Comes from another address or port than the request went to: from this one.
    WrongAddress(SocketAddr),
    /// Has so many bytes, fewer than a header.
    TooShort(usize),
    /// No server's reply, but of this mode.
    WrongMode(Mode),
    /// Version of NTP, which is neither 3 nor 4.
    BadVersion(u8),
    /// Answers no request that is remembered: forged, or very late.
    WrongOrigin,
    /// Answers a request that has been answered.
    Duplicate,
    /// Answers a request that was given up, or that another one followed.
    Late,
    /// The server refuses service: kiss code `DENY`.
    KissDeny,
    /// The server's policy refuses service: kiss code `RSTR`.
    KissRestrict,
    /// The server wants fewer requests: kiss code `RATE`.
    KissRate,
    /// Any other kiss code.
    KissOther(RefId),
    /// The server says that its clock is not synchronised: leap indicator 3, or kiss code `INIT`
    /// or `STEP`.
    Unsynchronised,
    /// The stratum is this, outside 1–15.
    Stratum(u8),
    /// The receive or the transmit timestamp is zero: unknown.
    ZeroTimestamp,
    /// By its own timestamps, the server replied before it was asked.
    TransmitBeforeReceive,
    /// The server's own distance from the reference is this, above [`MAX_ROOT_DISTANCE`].
    RootDistance(Span),
}

/// Demand that a server may make of its clients (RFC 5905 §7.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Demand {
    /// Send nothing more to this server in this association. RFC 5905 leaves open whether there may
    /// be another one later.
    Stop,
    /// Send less often, and again less at every further demand.
    SlowDown,
}

/// The names, in the order of [`Refusal::index`].
const NAMES: [&str; 16] = [
    "wrong-address",
    "too-short",
    "wrong-mode",
    "bad-version",
    "wrong-origin",
    "duplicate",
    "late",
    "kiss-deny",
    "kiss-rstr",
    "kiss-rate",
    "kiss-other",
    "unsynchronised",
    "stratum",
    "zero-timestamp",
    "transmit-before-receive",
    "root-distance",
];

impl Refusal {
    const fn index(self) -> usize {
        match self {
            Refusal::WrongAddress(_) => 0,
            Refusal::TooShort(_) => 1,
            Refusal::WrongMode(_) => 2,
            Refusal::BadVersion(_) => 3,
            Refusal::WrongOrigin => 4,
            Refusal::Duplicate => 5,
            Refusal::Late => 6,
            Refusal::KissDeny => 7,
            Refusal::KissRestrict => 8,
            Refusal::KissRate => 9,
            Refusal::KissOther(_) => 10,
            Refusal::Unsynchronised => 11,
            Refusal::Stratum(_) => 12,
            Refusal::ZeroTimestamp => 13,
            Refusal::TransmitBeforeReceive => 14,
            Refusal::RootDistance(_) => 15,
        }
    }

    /// A short name for tables and logs, the same for all refusals of a kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.get(self.index()).copied().unwrap_or("refused")
    }

    /// Demand of the server, if it makes one. Such a refusal is the server's own word as far as can
    /// be known without authentication: it came from the right address and answers our request.
    #[must_use]
    pub const fn demand(self) -> Option<Demand> {
        match self {
            Refusal::KissDeny | Refusal::KissRestrict => Some(Demand::Stop),
            Refusal::KissRate => Some(Demand::SlowDown),
            _ => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::WrongAddress(from) => write!(
                f,
                "a datagram came from {from}, which was not asked; if that is another address of \
                 the server, configure that one"
            ),
            Refusal::TooShort(n) => {
                write!(f, "{n} bytes are too few for an NTP packet of {HEADER_LEN}")
            }
            Refusal::WrongMode(mode) => {
                write!(f, "a packet in {mode} mode is not a server's reply; is this an NTP server?")
            }
            Refusal::BadVersion(version) => {
                write!(f, "the reply is in NTP version {version}; only 3 and 4 are understood")
            }
            Refusal::WrongOrigin => f.write_str("the reply answers no request of ours"),
            Refusal::Duplicate => f.write_str("a further reply to a request already answered"),
            Refusal::Late => f.write_str(
                "the reply came after its request was given up; if that goes on, poll less often",
            ),
            Refusal::KissDeny => {
                f.write_str("the server refuses us (DENY); choose another or talk to its operator")
            }
            Refusal::KissRestrict => f.write_str(
                "the server's policy shuts us out (RSTR); choose another or talk to its operator",
            ),
            Refusal::KissRate => {
                f.write_str("the server wants fewer requests (RATE); set a longer poll interval")
            }
            Refusal::KissOther(code) => {
                write!(f, "the server sent the code {} instead of time", code.text(0))
            }
            Refusal::Unsynchronised => f.write_str(
                "the server says that its own clock is not synchronised; give it time or choose \
                 another",
            ),
            Refusal::Stratum(stratum) => write!(
                f,
                "the server has no time to give: its stratum is {stratum}, which is not 1 to 15"
            ),
            Refusal::ZeroTimestamp => f.write_str("the reply lacks a timestamp"),
            Refusal::TransmitBeforeReceive => f.write_str(
                "by its own timestamps the server replied before it was asked: its clock was set \
                 back or is broken",
            ),
            Refusal::RootDistance(distance) => write!(
                f,
                "the server's own error may be {distance}, more than {MAX_ROOT_DISTANCE}; choose \
                 a better one"
            ),
        }
    }
}

impl core::error::Error for Refusal {}

/// Number of refusals of each kind. The numbers stop at their largest value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally([u64; NAMES.len()]);

impl Tally {
    /// Nothing was refused.
    pub const NONE: Tally = Tally([0; NAMES.len()]);

    /// Counts one more.
    pub fn add(&mut self, refusal: Refusal) {
        if let Some(n) = self.0.get_mut(refusal.index()) {
            *n = n.saturating_add(1);
        }
    }

    /// Number of refusals of the kind of `refusal`, whatever it carries.
    #[must_use]
    pub fn of(&self, refusal: Refusal) -> u64 {
        self.0.get(refusal.index()).copied().unwrap_or(0)
    }

    /// Number of refusals in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Names and numbers of the kinds that happened, in the order of the checks.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        NAMES.iter().copied().zip(self.0).filter(|(_, n)| *n > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::string::{String, ToString};
    use std::vec::Vec;

    fn one_of_each() -> Vec<Refusal> {
        std::vec![
            Refusal::WrongAddress(([192, 0, 2, 1], 123).into()),
            Refusal::TooShort(7),
            Refusal::WrongMode(Mode::Broadcast),
            Refusal::BadVersion(7),
            Refusal::WrongOrigin,
            Refusal::Duplicate,
            Refusal::Late,
            Refusal::KissDeny,
            Refusal::KissRestrict,
            Refusal::KissRate,
            Refusal::KissOther(RefId(*b"NKEY")),
            Refusal::Unsynchronised,
            Refusal::Stratum(16),
            Refusal::ZeroTimestamp,
            Refusal::TransmitBeforeReceive,
            Refusal::RootDistance(Span::from_secs(2)),
        ]
    }

    #[test]
    fn every_kind_has_its_own_name_number_and_words() {
        let all = one_of_each();
        assert_eq!(all.len(), NAMES.len());
        let names: BTreeSet<&str> = all.iter().map(|r| r.name()).collect();
        assert_eq!(names, NAMES.into_iter().collect());
        let words: BTreeSet<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(words.len(), all.len());
        for name in NAMES {
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'));
        }
        for text in words {
            assert!(!text.ends_with('.') && text.len() < 160, "{text}");
        }
    }

    #[test]
    fn the_tally_keeps_kinds_apart_and_saturates() {
        let mut tally = Tally::NONE;
        for (i, refusal) in one_of_each().into_iter().enumerate() {
            for _ in 0..=i {
                tally.add(refusal);
            }
            assert_eq!(tally.of(refusal), i as u64 + 1);
        }
        assert_eq!(tally.total(), (1..=16).sum());
        assert!(tally.iter().eq(NAMES.into_iter().zip(1..)));
        let mut full = Tally([u64::MAX; NAMES.len()]);
        full.add(Refusal::Late);
        assert_eq!((full.of(Refusal::Late), full.total()), (u64::MAX, u64::MAX));
        assert_eq!(Tally::NONE.iter().count(), 0);
    }
}
