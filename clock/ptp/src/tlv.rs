//! TLVs: extensions after a message's body (clause 14), of which those of unicast negotiation
//! (16.1) and the trace of a path (16.2) are understood, and all others skipped.

use crate::{Kind, LogInterval};

const REQUEST: u16 = 0x0004;
const GRANT: u16 = 0x0005;
const CANCEL: u16 = 0x0006;
const ACKNOWLEDGE: u16 = 0x0007;
const PATH_TRACE: u16 = 0x0008;

/// A TLV.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Tlv<'m> {
    /// Asks for messages of a type, one every interval, for so many seconds (16.1.4.1).
    Request(Wire, LogInterval, u32),
    /// Grants that; 0 s: denies it. `renewed`: it will likely be granted again (16.1.4.2).
    Grant {
        /// Type of message.
        kind: Wire,
        /// One every interval.
        interval: LogInterval,
        /// Length of the grant, s.
        seconds: u32,
        /// True if another request is welcome.
        renewed: bool,
    },
    /// Ends a grant (16.1.4.3).
    Cancel(Wire),
    /// Has taken note of that (16.1.4.4).
    Acknowledge(Wire),
    /// Clocks that an announcement went through, each in eight bytes (16.2).
    PathTrace(&'m [u8]),
    /// Any other: its type and value.
    Other(u16, &'m [u8]),
}

/// Type of a message in four bits, as a TLV names it; may be none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Wire(u8);

impl Wire {
    /// The name of this type.
    #[must_use]
    pub const fn of(kind: Kind) -> Wire {
        Wire(kind as u8)
    }

    /// The name in these bits; all but the lowest four are lost.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Wire {
        Wire(bits & 0x0f)
    }
}

impl<'m> Tlv<'m> {
    fn decode(kind: u16, value: &'m [u8]) -> Tlv<'m> {
        let wire = |first: u8| Wire::from_bits(first >> 4);
        match (kind, value) {
            (REQUEST, [first, interval, a, b, c, d]) => Tlv::Request(
                wire(*first),
                LogInterval(*interval as i8),
                u32::from_be_bytes([*a, *b, *c, *d]),
            ),
            (GRANT, [first, interval, a, b, c, d, _, flags]) => Tlv::Grant {
                kind: wire(*first),
                interval: LogInterval(*interval as i8),
                seconds: u32::from_be_bytes([*a, *b, *c, *d]),
                renewed: flags & 1 != 0,
            },
            (CANCEL, [first, _]) => Tlv::Cancel(wire(*first)),
            (ACKNOWLEDGE, [first, _]) => Tlv::Acknowledge(wire(*first)),
            (PATH_TRACE, _) => Tlv::PathTrace(value),
            _ => Tlv::Other(kind, value),
        }
    }

    /// Writes the TLV to the beginning of `buffer`; returns what was written, or `None` if there is
    /// no room for it, or its value is longer than any.
    #[must_use]
    pub fn encode<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let mut own = [0; 8];
        let (kind, value) = match self {
            Tlv::Request(wire, interval, seconds) => {
                let [a, b, c, d] = seconds.to_be_bytes();
                own = [wire.0 << 4, interval.0 as u8, a, b, c, d, 0, 0];
                (REQUEST, own.get(..6)?)
            }
            Tlv::Grant { kind, interval, seconds, renewed } => {
                let [a, b, c, d] = seconds.to_be_bytes();
                own = [kind.0 << 4, interval.0 as u8, a, b, c, d, 0, u8::from(*renewed)];
                (GRANT, own.get(..8)?)
            }
            Tlv::Cancel(wire) | Tlv::Acknowledge(wire) => {
                if let Some(first) = own.first_mut() {
                    *first = wire.0 << 4;
                }
                let cancels = matches!(self, Tlv::Cancel(_));
                (if cancels { CANCEL } else { ACKNOWLEDGE }, own.get(..2)?)
            }
            Tlv::PathTrace(value) => (PATH_TRACE, *value),
            Tlv::Other(kind, value) => (*kind, *value),
        };
        let length = u16::try_from(value.len()).ok()?;
        let whole = value.len().checked_add(4)?;
        let to = buffer.get_mut(..whole)?;
        to.get_mut(..2)?.copy_from_slice(&kind.to_be_bytes());
        to.get_mut(2..4)?.copy_from_slice(&length.to_be_bytes());
        to.get_mut(4..)?.copy_from_slice(value);
        Some(to)
    }
}

/// TLVs one after the other; ends at the first that is longer than what is there (14.1).
#[derive(Clone, Debug)]
pub struct Tlvs<'m> {
    rest: &'m [u8],
}

impl<'m> Tlvs<'m> {
    pub(crate) const fn new(rest: &'m [u8]) -> Tlvs<'m> {
        Tlvs { rest }
    }
}

impl<'m> Iterator for Tlvs<'m> {
    type Item = Tlv<'m>;

    fn next(&mut self) -> Option<Tlv<'m>> {
        let (&[a, b, c, d], rest) = self.rest.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes([c, d]));
        let (value, rest) = rest.split_at_checked(length)?;
        self.rest = rest;
        Some(Tlv::decode(u16::from_be_bytes([a, b]), value))
    }
}
