//! Records of the key exchange (NTS-KE, RFC 8915 §4): what client and server say to each other inside
//! TLS.

use std::fmt;

use crate::aead::Aead;
use crate::field::two;

/// Name of the protocol in TLS (ALPN, §4).
pub const ALPN: &[u8] = b"ntske/1";
/// Label that keys are exported under (§5.1).
pub const LABEL: &[u8] = b"EXPORTER-network-time-security";
/// Longest message that is read, in bytes: eight cookies are a fifth of it.
pub const LONGEST: usize = 8192;

const NTP: u16 = 0;
const CRITICAL: u16 = 0x8000;

/// Types of records: §4.1, and one of chrony's.
mod kind {
    pub(super) const END: u16 = 0;
    pub(super) const PROTOCOL: u16 = 1;
    pub(super) const ERROR: u16 = 2;
    pub(super) const WARNING: u16 = 3;
    pub(super) const AEAD: u16 = 4;
    pub(super) const COOKIE: u16 = 5;
    pub(super) const SERVER: u16 = 6;
    pub(super) const PORT: u16 = 7;
    /// "Compliant AES-128-GCM-SIV exporter context": some releases of chrony derive the keys of that
    /// algorithm in a way of their own unless both sides send this.
    pub(super) const COMPLIANT: u16 = 1024;
}

/// Agreement that a client gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Agreement {
    /// The algorithm.
    pub aead: Aead,
    /// Cookies, at least one.
    pub cookies: Vec<Vec<u8>>,
    /// Name or address of the NTP server; `None`: the one that the exchange was with.
    pub server: Option<String>,
    /// Port of the NTP server; `None`: 123.
    pub port: Option<u16>,
}

/// Reason for which a message is of no use.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Mistake {
    /// Ends before its last record.
    Short,
    /// Longer than [`LONGEST`].
    Long,
    /// A record has a length that its type cannot have, or comes twice.
    Record(u16),
    /// A critical record of a type that is not known here.
    Unknown(u16),
    /// The server sent an error (§4.1.3).
    Error(u16),
    /// The server sent a warning that nobody here knows.
    Warning(u16),
    /// No protocol that both speak.
    NoProtocol,
    /// No algorithm that both speak.
    NoAlgorithm,
    /// No cookie.
    NoCookie,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mistake::Short => f.write_str("the server's message ends too early"),
            Mistake::Long => write!(f, "the message has more than {LONGEST} bytes"),
            Mistake::Record(kind) => write!(f, "a malformed record of type {kind}"),
            Mistake::Unknown(kind) => write!(f, "a critical record of unknown type {kind}"),
            Mistake::Error(0) => f.write_str("the server does not know a record that it must know"),
            Mistake::Error(1) => f.write_str("the server finds the request malformed"),
            Mistake::Error(2) => f.write_str("the server has trouble of its own"),
            Mistake::Error(code) => write!(f, "the server says error {code}"),
            Mistake::Warning(code) => write!(f, "the server says warning {code}"),
            Mistake::NoProtocol => f.write_str("the server does not offer NTPv4"),
            Mistake::NoAlgorithm => {
                write!(f, "the server has neither {} nor {}", Aead::ALL[0], Aead::ALL[1])
            }
            Mistake::NoCookie => f.write_str("the server gave no cookie that can be used"),
        }
    }
}

impl std::error::Error for Mistake {}

/// Context that the keys are exported with (§5.1): for requests, then for replies.
#[must_use]
pub fn contexts(aead: Aead) -> [[u8; 5]; 2] {
    let [high, low] = aead.number().to_be_bytes();
    [0, 1].map(|direction| [0, 0, high, low, direction])
}

fn push(to: &mut Vec<u8>, kind: u16, body: &[u8]) {
    to.extend_from_slice(&kind.to_be_bytes());
    to.extend_from_slice(&u16::try_from(body.len()).unwrap_or(u16::MAX).to_be_bytes());
    to.extend_from_slice(body);
}

/// Request of a client: NTPv4, with these algorithms, the preferred one first.
#[must_use]
pub fn request(algorithms: &[Aead]) -> Vec<u8> {
    let mut message = Vec::new();
    push(&mut message, CRITICAL | kind::PROTOCOL, &NTP.to_be_bytes());
    let numbers: Vec<u8> = algorithms.iter().flat_map(|a| a.number().to_be_bytes()).collect();
    push(&mut message, CRITICAL | kind::AEAD, &numbers);
    if algorithms.contains(&Aead::GcmSiv128) {
        push(&mut message, kind::COMPLIANT, &[]);
    }
    push(&mut message, CRITICAL | kind::END, &[]);
    message
}

/// Reads records up to the last one, whose place is not theirs to choose.
struct Records<'a> {
    bytes: &'a [u8],
}

struct Record<'a> {
    kind: u16,
    critical: bool,
    body: &'a [u8],
}

impl<'a> Records<'a> {
    fn next(&mut self) -> Option<Record<'a>> {
        let (first, length) = (two(self.bytes, 0)?, two(self.bytes, 2)?);
        let (record, rest) = self.bytes.split_at_checked(4 + usize::from(length))?;
        self.bytes = rest;
        let body = record.get(4..)?;
        Some(Record { kind: first & !CRITICAL, critical: first & CRITICAL != 0, body })
    }
}

/// True if a message has all its records: as it comes in pieces.
#[must_use]
pub fn is_whole(message: &[u8]) -> bool {
    let mut records = Records { bytes: message };
    while let Some(record) = records.next() {
        if record.kind == kind::END {
            return true;
        }
    }
    false
}

/// Numbers in a body.
fn numbers(body: &[u8]) -> impl Iterator<Item = u16> + '_ {
    body.chunks_exact(2).filter_map(|pair| two(pair, 0))
}

/// Sets what may come once.
fn once<T>(place: &mut Option<T>, value: Option<T>, kind: u16) -> Result<(), Mistake> {
    let new = value.filter(|_| place.is_none()).ok_or(Mistake::Record(kind))?;
    *place = Some(new);
    Ok(())
}

/// Agreement in a server's answer to [`request`] with these algorithms.
///
/// # Errors
/// Why there is none.
pub fn agreement(message: &[u8], algorithms: &[Aead]) -> Result<Agreement, Mistake> {
    let mut records = Records { bytes: message };
    let (mut protocol, mut aead, mut server, mut port) = (None, None, None, None);
    let mut cookies = Vec::new();
    loop {
        let Record { kind, critical, body } = records.next().ok_or(Mistake::Short)?;
        match kind {
            kind::END => break,
            kind::PROTOCOL => once(&mut protocol, Some(numbers(body).any(|one| one == NTP)), kind)?,
            kind::AEAD => once(&mut aead, Some(numbers(body).next()), kind)?,
            kind::ERROR => return Err(Mistake::Error(two(body, 0).unwrap_or(u16::MAX))),
            kind::WARNING => return Err(Mistake::Warning(two(body, 0).unwrap_or(u16::MAX))),
            kind::COOKIE => cookies.push(body.to_vec()),
            kind::SERVER => once(&mut server, name(body), kind)?,
            kind::PORT => {
                let number = two(body, 0).filter(|port| body.len() == 2 && *port != 0);
                once(&mut port, number, kind)?;
            }
            kind::COMPLIANT => {}
            _ if critical => return Err(Mistake::Unknown(kind)),
            _ => {}
        }
    }
    protocol.filter(|known| *known).ok_or(Mistake::NoProtocol)?;
    let aead = aead.flatten().and_then(Aead::of).filter(|aead| algorithms.contains(aead));
    let aead = aead.ok_or(Mistake::NoAlgorithm)?;
    if cookies.is_empty() {
        return Err(Mistake::NoCookie);
    }
    Ok(Agreement { aead, cookies, server, port })
}

/// The name of a server: letters, digits and what stands in addresses, nothing that a log or a resolver could
/// trip over.
fn name(body: &[u8]) -> Option<String> {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b".-:_".contains(byte);
    let whole = (1..=255).contains(&body.len()) && body.iter().all(fits);
    String::from_utf8(body.to_vec()).ok().filter(|_| whole)
}

/// Request that a server got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// The client's preferred algorithm of those that are spoken here.
    pub aead: Option<Aead>,
    /// Speaks NTPv4.
    pub ntp: bool,
    /// Has sent the record about the keys of AES-128-GCM-SIV.
    compliant: bool,
}

/// Request in a client's message.
///
/// # Errors
/// Why it is none; [`refuse`] says so to the client.
pub fn asked(message: &[u8]) -> Result<Asked, Mistake> {
    let mut records = Records { bytes: message };
    let (mut ntp, mut offered, mut compliant) = (None, None, false);
    loop {
        let Record { kind, critical, body } = records.next().ok_or(Mistake::Short)?;
        match kind {
            kind::END => break,
            kind::PROTOCOL => once(&mut ntp, Some(numbers(body).any(|one| one == NTP)), kind)?,
            kind::AEAD => once(&mut offered, Some(body), kind)?,
            kind::COMPLIANT => compliant = true,
            // What only servers send, or nobody knows.
            kind::ERROR | kind::WARNING | kind::COOKIE => return Err(Mistake::Record(kind)),
            kind::SERVER | kind::PORT => {}
            _ if critical => return Err(Mistake::Unknown(kind)),
            _ => {}
        }
    }
    let ntp = ntp.ok_or(Mistake::Record(kind::PROTOCOL))?;
    let offered = || numbers(offered.unwrap_or_default()).filter_map(Aead::of);
    // Who does not say how it derives the keys of the other may derive them in a way of its own.
    let sure = || offered().find(|aead| compliant || *aead == Aead::SivCmac256);
    let aead = sure().or_else(|| offered().next());
    Ok(Asked { aead, ntp, compliant })
}

/// Answer of a server: these cookies for what was asked, and the NTP server's port unless it is 123.
/// Where client and server have nothing in common it says so.
#[must_use]
pub fn answer(asked: &Asked, cookies: &[Vec<u8>], port: u16) -> Vec<u8> {
    let mut message = Vec::new();
    let protocol = NTP.to_be_bytes();
    push(&mut message, CRITICAL | kind::PROTOCOL, if asked.ntp { &protocol } else { &[] });
    let number = asked.aead.map(|aead| aead.number().to_be_bytes());
    push(&mut message, CRITICAL | kind::AEAD, number.as_ref().map_or(&[], |number| &number[..]));
    if asked.ntp && asked.aead.is_some() {
        if asked.compliant && asked.aead == Some(Aead::GcmSiv128) {
            push(&mut message, kind::COMPLIANT, &[]);
        }
        if port != 123 {
            push(&mut message, CRITICAL | kind::PORT, &port.to_be_bytes());
        }
        cookies.iter().for_each(|cookie| push(&mut message, kind::COOKIE, cookie));
    }
    push(&mut message, CRITICAL | kind::END, &[]);
    message
}

/// Answer of a server to a message that is none (§4.1.3).
#[must_use]
pub fn refuse(mistake: &Mistake) -> Vec<u8> {
    let code: u16 = if matches!(mistake, Mistake::Unknown(_)) { 0 } else { 1 };
    let mut message = Vec::new();
    push(&mut message, CRITICAL | kind::ERROR, &code.to_be_bytes());
    push(&mut message, CRITICAL | kind::END, &[]);
    message
}
