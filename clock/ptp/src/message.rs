//! Messages: a header of 34 bytes, a body by type, and what follows it (clause 13).

use core::fmt;

use crate::{ClockIdentity, Correction, LogInterval, PortIdentity, Timestamp, Tlvs};

/// Length of the common header in bytes (13.3).
pub const HEADER_LEN: usize = 34;
/// Major version of the protocol spoken here (13.3.2.4).
pub const VERSION: u8 = 2;

/// Type of a message (table 36).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A master's time, or notice of a `FollowUp` with it.
    Sync = 0,
    /// A slave's question for when it arrives at the master.
    DelayReq = 1,
    /// A question to the neighbour on the link.
    PdelayReq = 2,
    /// The neighbour's answer.
    PdelayResp = 3,
    /// The exact time at which a `Sync` left.
    FollowUp = 8,
    /// The master's answer to `DelayReq`.
    DelayResp = 9,
    /// The exact time at which a `PdelayResp` left.
    PdelayRespFollowUp = 10,
    /// A master's description of itself.
    Announce = 11,
    /// Requests between ports, made of TLVs.
    Signaling = 12,
    /// Management of clocks; never looked into here.
    Management = 13,
}

impl Kind {
    const ALL: [Kind; 10] = [
        Kind::Sync,
        Kind::DelayReq,
        Kind::PdelayReq,
        Kind::PdelayResp,
        Kind::FollowUp,
        Kind::DelayResp,
        Kind::PdelayRespFollowUp,
        Kind::Announce,
        Kind::Signaling,
        Kind::Management,
    ];

    fn from_bits(bits: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u8 == bits)
    }

    /// True if it is stamped, and so goes to the event port (319) rather than the general one
    /// (320).
    #[must_use]
    pub const fn is_event(self) -> bool {
        (self as u8) < 8
    }

    /// Value of the control field that clocks of version 1 go by (table 42).
    const fn control(self) -> u8 {
        match self {
            Kind::Sync => 0,
            Kind::DelayReq => 1,
            Kind::FollowUp => 2,
            Kind::DelayResp => 3,
            Kind::Management => 4,
            _ => 5,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Sync => "Sync",
            Kind::DelayReq => "Delay_Req",
            Kind::PdelayReq => "Pdelay_Req",
            Kind::PdelayResp => "Pdelay_Resp",
            Kind::FollowUp => "Follow_Up",
            Kind::DelayResp => "Delay_Resp",
            Kind::PdelayRespFollowUp => "Pdelay_Resp_Follow_Up",
            Kind::Announce => "Announce",
            Kind::Signaling => "Signaling",
            Kind::Management => "Management",
        })
    }
}

/// Flags of a header (table 37): the first byte on the wire in the upper half.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Flags(pub u16);

impl Flags {
    /// Sent by a master that is not the best (17.3).
    pub const ALTERNATE_MASTER: Flags = Flags(0x0100);
    /// A follow-up has the time.
    pub const TWO_STEP: Flags = Flags(0x0200);
    /// Sent to one receiver.
    pub const UNICAST: Flags = Flags(0x0400);
    /// The last minute of the UTC day has 61 seconds.
    pub const LEAP_61: Flags = Flags(0x0001);
    /// The last minute of the UTC day has 59 seconds.
    pub const LEAP_59: Flags = Flags(0x0002);
    /// The UTC offset is known to be right.
    pub const UTC_OFFSET_VALID: Flags = Flags(0x0004);
    /// The timescale is PTP's, which is TAI; otherwise an arbitrary one (ARB).
    pub const PTP_TIMESCALE: Flags = Flags(0x0008);
    /// Timescale and offset go back to a primary reference.
    pub const TIME_TRACEABLE: Flags = Flags(0x0010);
    /// The frequency goes back to a primary reference.
    pub const FREQUENCY_TRACEABLE: Flags = Flags(0x0020);
    /// The sender does not vouch for its synchronisation (2019).
    pub const SYNCHRONIZATION_UNCERTAIN: Flags = Flags(0x0040);

    /// True if all of these are set.
    #[must_use]
    pub const fn has(self, flags: Flags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// These and those.
    #[must_use]
    pub const fn and(self, flags: Flags) -> Flags {
        Flags(self.0 | flags.0)
    }
}

/// The common header (table 35), without what the body's type says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Header {
    /// Number of the standards organisation's profile, 12 bits; 0: none, 0x100: 802.1AS.
    pub sdo_id: u16,
    /// Minor version, 0 (2008) or 1 (2019); four bits.
    pub minor_version: u8,
    /// The domain.
    pub domain: u8,
    /// The flags.
    pub flags: Flags,
    /// The correction.
    pub correction: Correction,
    /// Four bytes whose meaning is the type's own (13.3.2.10).
    pub specific: [u8; 4],
    /// The sender's port.
    pub source: PortIdentity,
    /// Sequence number; answers and follow-ups have that of what they go with.
    pub sequence: u16,
    /// The interval that goes with the message.
    pub interval: LogInterval,
}

/// Quality of a grandmaster's clock (5.3.7).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ClockQuality {
    /// Class (table 4): 6 is locked to a primary reference, 7 was, 248 is none in particular.
    pub class: u8,
    /// Accuracy (table 5); see [`accuracy`](ClockQuality::accuracy).
    pub accuracy: u8,
    /// Variance of the clock's stability, logarithmic (7.6.3.5).
    pub variance: u16,
}

/// Body of an `Announce` (table 43).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Announce {
    /// The sender's time within a second or so, or 0.
    pub origin: Timestamp,
    /// TAI − UTC in s, as the grandmaster has it.
    pub utc_offset: i16,
    /// The grandmaster's first priority; less is better.
    pub priority1: u8,
    /// The grandmaster's quality.
    pub quality: ClockQuality,
    /// The grandmaster's second priority; less is better.
    pub priority2: u8,
    /// The grandmaster.
    pub grandmaster: ClockIdentity,
    /// Boundary clocks between the grandmaster and the sender, and the sender if it is one.
    pub steps_removed: u16,
    /// Source of the grandmaster's time (table 6).
    pub time_source: u8,
}

/// Body of a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Body {
    /// When it left, roughly if a follow-up comes.
    Sync(Timestamp),
    /// When it left, or 0.
    DelayReq(Timestamp),
    /// When it left, or 0.
    PdelayReq(Timestamp),
    /// When the question arrived, and whose it was.
    PdelayResp(Timestamp, PortIdentity),
    /// When the `Sync` left.
    FollowUp(Timestamp),
    /// When the question arrived, and whose it was.
    DelayResp(Timestamp, PortIdentity),
    /// When the answer left, and to whom.
    PdelayRespFollowUp(Timestamp, PortIdentity),
    /// A master's description.
    Announce(Announce),
    /// Port that it is for.
    Signaling(PortIdentity),
    /// Anything.
    Management,
}

impl Body {
    /// Type of the message.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Body::Sync(_) => Kind::Sync,
            Body::DelayReq(_) => Kind::DelayReq,
            Body::PdelayReq(_) => Kind::PdelayReq,
            Body::PdelayResp(..) => Kind::PdelayResp,
            Body::FollowUp(_) => Kind::FollowUp,
            Body::DelayResp(..) => Kind::DelayResp,
            Body::PdelayRespFollowUp(..) => Kind::PdelayRespFollowUp,
            Body::Announce(_) => Kind::Announce,
            Body::Signaling(_) => Kind::Signaling,
            Body::Management => Kind::Management,
        }
    }
}

/// A message. Nothing in it has been judged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Message<'m> {
    /// The header.
    pub header: Header,
    /// The body.
    pub body: Body,
    /// Bytes after the body: TLVs. Of a management message, all after the header.
    pub rest: &'m [u8],
}

/// Reason why bytes are no message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Malformed {
    /// Number of bytes, less than the message needs, or than it says that it has.
    TooShort(usize),
    /// The major version is this and not 2.
    Version(u8),
    /// No message has this type.
    Kind(u8),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::TooShort(n) => write!(f, "{n} bytes are too few for the PTP message"),
            Malformed::Version(version) => {
                write!(f, "a message in PTP version {version}; only version 2 is understood")
            }
            Malformed::Kind(bits) => write!(f, "a message of the unknown PTP type {bits}"),
        }
    }
}

impl core::error::Error for Malformed {}

/// Reader of a message's fields, one after the other.
struct Reader<'m> {
    rest: &'m [u8],
    whole: usize,
}

impl<'m> Reader<'m> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(Malformed::TooShort(self.whole))?;
        self.rest = rest;
        Ok(*bytes)
    }

    fn time(&mut self) -> Result<Timestamp, Malformed> {
        self.take().map(Timestamp::decode)
    }

    fn port(&mut self) -> Result<PortIdentity, Malformed> {
        self.take().map(PortIdentity::decode)
    }
}

impl<'m> Message<'m> {
    /// Takes a datagram apart. Bytes beyond the length that the header states are padding (annex
    /// D and E), and left out.
    ///
    /// # Errors
    /// If it is no message of version 2.
    pub fn decode(datagram: &'m [u8]) -> Result<Message<'m>, Malformed> {
        let too_short = Malformed::TooShort(datagram.len());
        let Some(&[first, second, high, low]) = datagram.first_chunk() else {
            return Err(too_short);
        };
        // Version 1 has another header, with the version elsewhere and 0 or 1 here.
        if second & 0x0f != VERSION {
            return Err(Malformed::Version(second & 0x0f));
        }
        let length = usize::from(u16::from_be_bytes([high, low]));
        let message = datagram.get(..length).ok_or(too_short)?;
        let mut reader = Reader { rest: message, whole: message.len() };
        reader.take::<4>()?;
        let [domain, minor_sdo] = reader.take()?;
        let flags = Flags(u16::from_be_bytes(reader.take()?));
        let correction = Correction(i64::from_be_bytes(reader.take()?));
        let specific = reader.take()?;
        let source = reader.port()?;
        let sequence = u16::from_be_bytes(reader.take()?);
        let [_control, interval] = reader.take()?;
        let header = Header {
            sdo_id: (u16::from(first >> 4) << 8) | u16::from(minor_sdo),
            minor_version: second >> 4,
            domain,
            flags,
            correction,
            specific,
            source,
            sequence,
            interval: LogInterval(interval as i8),
        };
        let kind = Kind::from_bits(first & 0x0f).ok_or(Malformed::Kind(first & 0x0f))?;
        let body = match kind {
            Kind::Sync => Body::Sync(reader.time()?),
            Kind::DelayReq => Body::DelayReq(reader.time()?),
            Kind::PdelayReq => {
                let origin = reader.time()?;
                reader.take::<10>()?;
                Body::PdelayReq(origin)
            }
            Kind::PdelayResp => Body::PdelayResp(reader.time()?, reader.port()?),
            Kind::FollowUp => Body::FollowUp(reader.time()?),
            Kind::DelayResp => Body::DelayResp(reader.time()?, reader.port()?),
            Kind::PdelayRespFollowUp => Body::PdelayRespFollowUp(reader.time()?, reader.port()?),
            Kind::Announce => Body::Announce(Announce::decode(&mut reader)?),
            Kind::Signaling => Body::Signaling(reader.port()?),
            Kind::Management => Body::Management,
        };
        Ok(Message { header, body, rest: reader.rest })
    }

    /// Writes the message into `buffer`; returns what was written, or `None` if there is no room
    /// for it.
    #[must_use]
    pub fn encode<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let Header { sdo_id, minor_version, domain, flags, correction, .. } = self.header;
        let kind = self.body.kind();
        let [major_sdo, minor_sdo] = sdo_id.to_be_bytes();
        let mut writer = Writer { buffer: &mut *buffer, at: 0 };
        writer.put(&[(major_sdo << 4) | kind as u8, (minor_version << 4) | VERSION, 0, 0])?;
        writer.put(&[domain, minor_sdo])?;
        writer.put(&flags.0.to_be_bytes())?;
        writer.put(&correction.0.to_be_bytes())?;
        writer.put(&self.header.specific)?;
        writer.put(&self.header.source.encode())?;
        writer.put(&self.header.sequence.to_be_bytes())?;
        writer.put(&[kind.control(), self.header.interval.0 as u8])?;
        match self.body {
            Body::Sync(time) | Body::DelayReq(time) | Body::FollowUp(time) => {
                writer.put(&time.encode())?;
            }
            Body::PdelayReq(time) => {
                writer.put(&time.encode())?;
                writer.put(&[0; 10])?;
            }
            Body::PdelayResp(time, port)
            | Body::DelayResp(time, port)
            | Body::PdelayRespFollowUp(time, port) => {
                writer.put(&time.encode())?;
                writer.put(&port.encode())?;
            }
            Body::Announce(announce) => announce.encode(&mut writer)?,
            Body::Signaling(port) => writer.put(&port.encode())?,
            Body::Management => {}
        }
        writer.put(self.rest)?;
        let length = writer.at;
        let stated = u16::try_from(length).ok()?;
        buffer.get_mut(2..4)?.copy_from_slice(&stated.to_be_bytes());
        buffer.get(..length)
    }

    /// TLVs after the body; none of a management message.
    #[must_use]
    pub fn tlvs(&self) -> Tlvs<'m> {
        Tlvs::new(if self.body == Body::Management { &[] } else { self.rest })
    }
}

/// Writer of a message's fields, one after the other.
struct Writer<'b> {
    buffer: &'b mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.at.checked_add(bytes.len())?;
        self.buffer.get_mut(self.at..end)?.copy_from_slice(bytes);
        self.at = end;
        Some(())
    }
}

impl Announce {
    fn decode(reader: &mut Reader<'_>) -> Result<Announce, Malformed> {
        let origin = reader.time()?;
        let utc_offset = i16::from_be_bytes(reader.take()?);
        let [_reserved, priority1, class, accuracy] = reader.take()?;
        let variance = u16::from_be_bytes(reader.take()?);
        let [priority2] = reader.take()?;
        let grandmaster = ClockIdentity(reader.take()?);
        let steps_removed = u16::from_be_bytes(reader.take()?);
        let [time_source] = reader.take()?;
        let quality = ClockQuality { class, accuracy, variance };
        Ok(Announce {
            origin,
            utc_offset,
            priority1,
            quality,
            priority2,
            grandmaster,
            steps_removed,
            time_source,
        })
    }

    fn encode(&self, writer: &mut Writer<'_>) -> Option<()> {
        let ClockQuality { class, accuracy, variance } = self.quality;
        writer.put(&self.origin.encode())?;
        writer.put(&self.utc_offset.to_be_bytes())?;
        writer.put(&[0, self.priority1, class, accuracy])?;
        writer.put(&variance.to_be_bytes())?;
        writer.put(&[self.priority2])?;
        writer.put(&self.grandmaster.0)?;
        writer.put(&self.steps_removed.to_be_bytes())?;
        writer.put(&[self.time_source])
    }
}
