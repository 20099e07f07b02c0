//! The packets of the control socket: how messages are cut into them and put together again, with
//! every doubt checked. Pure.
//!
//! A packet is a header of eight bytes (kind, flags, length of the rest) and a part of a message's
//! body. The parts of one message follow each other; all but the last say that there is more.

use std::fmt;

/// The longest packet, header included.
pub const LONGEST: usize = 32 << 10;
/// The header's length.
pub const HEADER: usize = 8;
/// The flag that more of the same message follows.
pub const MORE: u16 = 1;

/// Reason why bytes are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// Fault found.
    pub what: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.what)
    }
}

impl std::error::Error for Malformed {}

pub(crate) const fn malformed(what: &'static str) -> Malformed {
    Malformed { what }
}

/// The header of a packet.
#[must_use]
pub fn header(kind: u16, flags: u16, length: usize) -> [u8; HEADER] {
    let [a, b] = kind.to_le_bytes();
    let [c, d] = flags.to_le_bytes();
    let [e, f, g, h] = (length as u32).to_le_bytes();
    [a, b, c, d, e, f, g, h]
}

/// Kind, flags and body of a packet.
///
/// # Errors
/// If it is none.
pub fn open(packet: &[u8]) -> Result<(u16, u16, &[u8]), Malformed> {
    let Some(([a, b, c, d, e, f, g, h], body)) = packet.split_first_chunk::<HEADER>() else {
        return Err(malformed("a packet shorter than its header"));
    };
    let (kind, flags) = (u16::from_le_bytes([*a, *b]), u16::from_le_bytes([*c, *d]));
    let length = u32::from_le_bytes([*e, *f, *g, *h]);
    if length as usize != body.len() {
        return Err(malformed("a packet of another length than it says"));
    }
    if flags & !MORE != 0 {
        return Err(malformed("a packet with an unknown flag"));
    }
    Ok((kind, flags, body))
}

/// A message as packets.
#[must_use]
pub fn packets(kind: u16, body: &[u8]) -> Vec<Vec<u8>> {
    let room = LONGEST - HEADER;
    let count = body.len().div_ceil(room).max(1);
    (0..count)
        .map(|i| {
            let part = body.get(i * room..).unwrap_or_default();
            let part = part.get(..room).unwrap_or(part);
            let flags = if i + 1 < count { MORE } else { 0 };
            let mut packet = header(kind, flags, part.len()).to_vec();
            packet.extend_from_slice(part);
            packet
        })
        .collect()
}

/// Puts messages together again.
#[derive(Debug)]
pub struct Assembly {
    kind: u16,
    body: Vec<u8>,
    open: bool,
    /// Longest body of a message of a kind, bytes.
    limit: fn(u16, usize) -> Option<usize>,
    /// The largest checkpoint.
    checkpoint: usize,
}

impl Assembly {
    /// Without a message yet. `limit` says how long a body of a kind may be (given the longest
    /// checkpoint); none: there is no such kind.
    #[must_use]
    pub fn new(limit: fn(u16, usize) -> Option<usize>, checkpoint: usize) -> Assembly {
        Assembly { kind: 0, body: Vec::new(), open: false, limit, checkpoint }
    }

    /// Takes a packet. A kind and body once a message is complete.
    ///
    /// # Errors
    /// If the other side does not keep to the protocol: the connection is of no more use.
    pub fn take(&mut self, packet: &[u8]) -> Result<Option<(u16, Vec<u8>)>, Malformed> {
        let (kind, flags, part) = open(packet)?;
        if self.open && kind != self.kind {
            return Err(malformed("a message within another"));
        }
        let limit =
            (self.limit)(kind, self.checkpoint).ok_or(malformed("a message of no known kind"))?;
        if part.len() > limit.saturating_sub(self.body.len()) {
            return Err(malformed("a message that is too long"));
        }
        if flags & MORE != 0 && part.is_empty() {
            return Err(malformed("an empty part of a message"));
        }
        self.kind = kind;
        self.body.extend_from_slice(part);
        self.open = flags & MORE != 0;
        Ok((!self.open).then(|| (kind, std::mem::take(&mut self.body))))
    }
}

/// A body that is read from the front.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a>(pub &'a [u8]);

impl<'a> Body<'a> {
    /// The next `N` bytes.
    ///
    /// # Errors
    /// If there are not so many.
    pub fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (bytes, rest) =
            self.0.split_first_chunk::<N>().ok_or(malformed("a message that is too short"))?;
        self.0 = rest;
        Ok(*bytes)
    }

    /// The next byte.
    ///
    /// # Errors
    /// If there is none.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.bytes::<1>().map(|[byte]| byte)
    }

    /// The next two bytes.
    ///
    /// # Errors
    /// If there are not so many.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.bytes().map(u16::from_le_bytes)
    }

    /// The next four bytes.
    ///
    /// # Errors
    /// If there are not so many.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.bytes().map(u32::from_le_bytes)
    }

    /// The next eight bytes.
    ///
    /// # Errors
    /// If there are not so many.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.bytes().map(u64::from_le_bytes)
    }

    /// The next eight bytes.
    ///
    /// # Errors
    /// If there are not so many.
    pub fn i64(&mut self) -> Result<i64, Malformed> {
        self.bytes().map(i64::from_le_bytes)
    }

    /// The next `length` bytes.
    ///
    /// # Errors
    /// If there are not so many.
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) =
            self.0.split_at_checked(length).ok_or(malformed("a message that is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// That nothing is left.
    ///
    /// # Errors
    /// If something is.
    pub fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(malformed("a message that is too long")) }
    }
}
