//! The NTP header: 48 bytes, and what they mean.

use core::fmt;

use crate::{Log2, RefId, Short, Timestamp};

/// Length of the header in bytes. Extension fields and a message authentication code may follow.
pub const HEADER_LEN: usize = 48;

/// The version of NTP spoken here.
pub const VERSION: u8 = 4;

/// Word of a server on the coming leap second, and whether it is synchronised (RFC 5905 Figure 9).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum LeapIndicator {
    /// No leap second at the end of this day or month.
    #[default]
    None = 0,
    /// The last minute has 61 seconds.
    Insert = 1,
    /// The last minute has 59 seconds.
    Delete = 2,
    /// The clock is not synchronised.
    Unsynchronised = 3,
}

impl LeapIndicator {
    /// From the two lowest bits; the others are ignored.
    #[must_use]
    pub const fn from_bits(bits: u8) -> LeapIndicator {
        match bits & 3 {
            0 => LeapIndicator::None,
            1 => LeapIndicator::Insert,
            2 => LeapIndicator::Delete,
            _ => LeapIndicator::Unsynchronised,
        }
    }
}

/// Mode: who is talking to whom (RFC 5905 Figure 10).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Mode {
    /// Reserved.
    #[default]
    Reserved = 0,
    /// A peer that began the conversation.
    SymmetricActive = 1,
    /// A peer that was drawn into it.
    SymmetricPassive = 2,
    /// A client's request.
    Client = 3,
    /// A server's reply.
    Server = 4,
    /// A server that talks to everyone.
    Broadcast = 5,
    /// The control protocol of ntpq, whose packets have another format.
    Control = 6,
    /// The private protocol of ntpdc, whose packets have another format.
    Private = 7,
}

impl Mode {
    /// From the three lowest bits; the others are ignored.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Mode {
        match bits & 7 {
            0 => Mode::Reserved,
            1 => Mode::SymmetricActive,
            2 => Mode::SymmetricPassive,
            3 => Mode::Client,
            4 => Mode::Server,
            5 => Mode::Broadcast,
            6 => Mode::Control,
            _ => Mode::Private,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mode::Reserved => "reserved",
            Mode::SymmetricActive => "symmetric active",
            Mode::SymmetricPassive => "symmetric passive",
            Mode::Client => "client",
            Mode::Server => "server",
            Mode::Broadcast => "broadcast",
            Mode::Control => "control",
            Mode::Private => "private",
        })
    }
}

/// An NTP header (RFC 5905 §7.3), field by field as on the wire. Nothing in it has been judged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Packet {
    /// The coming leap second, or that the sender is not synchronised.
    pub leap: LeapIndicator,
    /// The version, 0–7; higher bits are lost in encoding.
    pub version: u8,
    /// The mode.
    pub mode: Mode,
    /// Distance of the sender from a reference clock: 1 has one, 2–15 follow, 0 stands for no
    /// usable time or a kiss code, 16 and above are unsynchronised or reserved.
    pub stratum: u8,
    /// The longest interval between messages.
    pub poll: Log2,
    /// The precision of the sender's clock.
    pub precision: Log2,
    /// The round trip to the reference clock, along the chain of servers.
    pub root_delay: Short,
    /// The error collected along that chain, apart from what the delay may hide.
    pub root_dispersion: Short,
    /// Source of the sender's time.
    pub reference_id: RefId,
    /// When the sender's clock was last set or corrected.
    pub reference_timestamp: Timestamp,
    /// In a reply, the transmit timestamp of the request.
    pub origin_timestamp: Timestamp,
    /// In a reply, when the request arrived by the server's clock.
    pub receive_timestamp: Timestamp,
    /// When this packet left by the sender's clock.
    pub transmit_timestamp: Timestamp,
}

impl Packet {
    /// Takes a datagram apart into the header and whatever follows it (extension fields, a
    /// message authentication code: neither is looked at). `None` if it is shorter than the
    /// header.
    #[must_use]
    pub fn decode(datagram: &[u8]) -> Option<(Packet, &[u8])> {
        let (header, rest) = datagram.split_first_chunk::<HEADER_LEN>()?;
        let mut words = [0; HEADER_LEN / 4];
        for (word, bytes) in words.iter_mut().zip(header.as_chunks().0) {
            *word = u32::from_be_bytes(*bytes);
        }
        let [first, delay, dispersion, id, r1, r0, o1, o0, a1, a0, t1, t0] = words;
        let [flags, stratum, poll, precision] = first.to_be_bytes();
        let stamp = |high, low| Timestamp((u64::from(high) << 32) | u64::from(low));
        let packet = Packet {
            leap: LeapIndicator::from_bits(flags >> 6),
            version: (flags >> 3) & 7,
            mode: Mode::from_bits(flags),
            stratum,
            poll: Log2(poll as i8),
            precision: Log2(precision as i8),
            root_delay: Short(delay),
            root_dispersion: Short(dispersion),
            reference_id: RefId(id.to_be_bytes()),
            reference_timestamp: stamp(r1, r0),
            origin_timestamp: stamp(o1, o0),
            receive_timestamp: stamp(a1, a0),
            transmit_timestamp: stamp(t1, t0),
        };
        Some((packet, rest))
    }

    /// The header's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let flags = ((self.leap as u8) << 6) | ((self.version & 7) << 3) | self.mode as u8;
        let first = [flags, self.stratum, self.poll.0 as u8, self.precision.0 as u8];
        let [r, o, a, t] = [
            self.reference_timestamp,
            self.origin_timestamp,
            self.receive_timestamp,
            self.transmit_timestamp,
        ]
        .map(|stamp| [(stamp.0 >> 32) as u32, stamp.0 as u32]);
        let words = [
            [u32::from_be_bytes(first), self.root_delay.0],
            [self.root_dispersion.0, u32::from_be_bytes(self.reference_id.0)],
            r,
            o,
            a,
            t,
        ];
        let mut bytes = [0; HEADER_LEN];
        for (to, word) in bytes.as_chunks_mut().0.iter_mut().zip(words.as_flattened()) {
            *to = word.to_be_bytes();
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A reply whose every field differs, and its bytes, written out by hand from Figure 8.
    const SAMPLE: Packet = Packet {
        leap: LeapIndicator::Insert,
        version: 4,
        mode: Mode::Server,
        stratum: 2,
        poll: Log2(6),
        precision: Log2(-24),
        root_delay: Short(0x0001_0203),
        root_dispersion: Short(0x0405_0607),
        reference_id: RefId([192, 0, 2, 1]),
        reference_timestamp: Timestamp(0x1011_1213_1415_1617),
        origin_timestamp: Timestamp(0x2021_2223_2425_2627),
        receive_timestamp: Timestamp(0x3031_3233_3435_3637),
        transmit_timestamp: Timestamp(0x4041_4243_4445_4647),
    };
    #[rustfmt::skip]
    const BYTES: [u8; 48] = [
        0b01_100_100, 2, 6, 0xe8,
        0x00, 0x01, 0x02, 0x03,
        0x04, 0x05, 0x06, 0x07,
        192, 0, 2, 1,
        0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17,
        0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27,
        0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37,
        0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47,
    ];

    #[test]
    fn the_layout_is_that_of_the_rfc() {
        assert_eq!(SAMPLE.encode(), BYTES);
        assert_eq!(Packet::decode(&BYTES), Some((SAMPLE, &[][..])));
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding(
            bits: (u8, u8, u8), small: (u8, i8, i8), shorts: (u32, u32, [u8; 4]), stamps: [u64; 4],
        ) {
            let packet = Packet {
                leap: LeapIndicator::from_bits(bits.0),
                version: bits.1 & 7,
                mode: Mode::from_bits(bits.2),
                stratum: small.0,
                poll: Log2(small.1),
                precision: Log2(small.2),
                root_delay: Short(shorts.0),
                root_dispersion: Short(shorts.1),
                reference_id: RefId(shorts.2),
                reference_timestamp: Timestamp(stamps[0]),
                origin_timestamp: Timestamp(stamps[1]),
                receive_timestamp: Timestamp(stamps[2]),
                transmit_timestamp: Timestamp(stamps[3]),
            };
            let bytes = packet.encode();
            prop_assert_eq!(Packet::decode(&bytes), Some((packet, &[][..])));
        }

        #[test]
        fn encoding_undoes_decoding(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            match Packet::decode(&bytes) {
                Some((packet, rest)) => {
                    prop_assert_eq!(&packet.encode()[..], &bytes[..HEADER_LEN]);
                    prop_assert_eq!(rest, &bytes[HEADER_LEN..]);
                }
                None => prop_assert!(bytes.len() < HEADER_LEN),
            }
        }
    }
}
