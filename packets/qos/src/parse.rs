//! A packet's headers, as far as they tell one packet from another.
//!
//! Bytes are hostile: every look is checked, and there is no `unsafe` below. That is why this is
//! our own: etherparse 0.21, which makes the packets of the tests, reads out of bounds where IPv6
//! extension headers are cut off.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Link types, as tcpdump.org numbers them.
pub mod link {
    /// BSD loopback: a family of four bytes, in the byte order of the host.
    pub const NULL: u16 = 0;
    /// Ethernet.
    pub const ETHERNET: u16 = 1;
    /// A bare IP packet.
    pub const RAW: u16 = 101;
    /// BSD loopback, in network byte order.
    pub const LOOP: u16 = 108;
    /// Linux cooked capture.
    pub const LINUX_SLL: u16 = 113;
    /// A bare IPv4 packet.
    pub const IPV4: u16 = 228;
    /// A bare IPv6 packet.
    pub const IPV6: u16 = 229;
    /// Linux cooked capture, version 2.
    pub const LINUX_SLL2: u16 = 276;
}

/// Knowledge of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Parsed<'a> {
    /// IP header; `None` for what is not IP, or is cut off before its end.
    pub ip: Option<Ip>,
    /// Transport that IP carries.
    pub transport: Transport,
    /// Payload of the transport (of fragments and unknown transports: what IP carries), as far as
    /// it was captured.
    pub payload: &'a [u8],
    /// True if fewer bytes were captured than the headers say there were.
    pub cut: bool,
}

/// The IP header's part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ip {
    /// Sender's address.
    pub source: IpAddr,
    /// Whom it is for.
    pub destination: IpAddr,
    /// The protocol that it carries, after all extension headers.
    pub protocol: u8,
    /// The length that the header says: of the whole packet (IPv4), of what follows the fixed
    /// header (IPv6).
    pub length: u16,
    /// The length of what it carries, after all extension headers, as the header says.
    pub carried: u32,
    /// Number of routers that it may still pass.
    pub hop_limit: u8,
    /// The identification; of IPv6 that of the fragment header, if there is one.
    pub identification: Option<u32>,
    /// Of a fragment: its offset in bytes, and whether more follow.
    pub fragment: Option<(u16, bool)>,
}

impl Ip {
    /// The length of the packet with its fixed header; 65536 if it is too long for the field.
    #[must_use]
    pub fn total(&self) -> u32 {
        match (self.length, self.source) {
            (0, _) => 65_536,
            (length, IpAddr::V4(_)) => length.into(),
            (length, IpAddr::V6(_)) => u32::from(length) + 40,
        }
    }
}

/// The transport's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Transport {
    /// UDP.
    Udp {
        /// Source port.
        source: u16,
        /// Destination port.
        destination: u16,
    },
    /// TCP.
    Tcp(Tcp),
    /// ICMP or ICMPv6 echo.
    Echo {
        /// A request, not a reply.
        request: bool,
        /// The identifier.
        identifier: u16,
        /// The sequence number.
        sequence: u16,
    },
    /// Any other, or none to be seen.
    #[default]
    Other,
}

/// A TCP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tcp {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    /// Sequence number of the first byte (of SYN, if set).
    pub sequence: u32,
    /// Acknowledgement number; means something if `ack`.
    pub acknowledgement: u32,
    /// SYN.
    pub syn: bool,
    /// ACK.
    pub ack: bool,
    /// FIN.
    pub fin: bool,
    /// RST.
    pub rst: bool,
    /// The timestamps option (RFC 7323): TSval, TSecr.
    pub timestamps: Option<(u32, u32)>,
    /// Bytes of data, by the IP header's length.
    pub data_length: u32,
}

/// More VLAN tags, or IPv6 extension headers, than this are nobody's honest packet.
const MOST_HEADERS: usize = 8;

/// Looks at a packet. Whatever is not understood is left out; nothing is an error.
#[must_use]
pub fn parse(link_type: u16, data: &[u8]) -> Parsed<'_> {
    let ip = match link_type {
        link::ETHERNET => ethernet(data),
        link::RAW | link::IPV4 | link::IPV6 => Some(data),
        // A family's number differs between systems: the IP version itself tells.
        link::NULL | link::LOOP => data.get(4..),
        link::LINUX_SLL => data.get(14..).and_then(tagged),
        // The protocol comes first there.
        link::LINUX_SLL2 => match (be16(data, 0), data.get(20..)) {
            (Some(IPV4 | IPV6), rest) => rest,
            (Some(kind), Some(rest)) if is_tag(kind) => rest.get(2..).and_then(tagged),
            _ => None,
        },
        _ => None,
    };
    let Some(ip) = ip else { return Parsed::default() };
    match ip.first().map(|first| first >> 4) {
        Some(4) => ipv4(ip),
        Some(6) => ipv6(ip),
        _ => None,
    }
    .map_or_else(Parsed::default, |(ip, carried, cut)| of(ip, carried, cut))
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

fn is_tag(kind: u16) -> bool {
    matches!(kind, 0x8100 | 0x88a8 | 0x9100)
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn ethernet(frame: &[u8]) -> Option<&[u8]> {
    tagged(frame.get(12..)?)
}

/// The IP packet behind an EtherType and VLAN tags (IEEE 802.1Q, 802.1ad).
fn tagged(mut rest: &[u8]) -> Option<&[u8]> {
    for _ in 0..MOST_HEADERS {
        match be16(rest, 0)? {
            IPV4 | IPV6 => return rest.get(2..),
            kind if is_tag(kind) => rest = rest.get(4..)?,
            _ => return None,
        }
    }
    None
}

/// The header, what is carried as far as it is there, and whether there was more of it.
type Carried<'a> = (Ip, &'a [u8], bool);

/// RFC 791.
fn ipv4(packet: &[u8]) -> Option<Carried<'_>> {
    let header = usize::from(packet.first()? & 0x0f) * 4;
    let length = be16(packet, 2)?;
    let place = be16(packet, 6)?;
    let source = Ipv4Addr::from(*packet.get(12..)?.first_chunk::<4>()?);
    let destination = Ipv4Addr::from(*packet.get(16..)?.first_chunk::<4>()?);
    let rest = packet.get(header.max(20)..)?;
    // Of packets larger than the field holds (segmentation offload) the length is 0.
    let said = usize::from(length).checked_sub(header).unwrap_or(rest.len());
    let (offset, more) = ((place & 0x1fff) * 8, place & 0x2000 != 0);
    let ip = Ip {
        source: source.into(),
        destination: destination.into(),
        protocol: *packet.get(9)?,
        length,
        carried: said as u32,
        hop_limit: *packet.get(8)?,
        identification: be16(packet, 4).map(u32::from),
        fragment: (more || offset > 0).then_some((offset, more)),
    };
    (header >= 20).then_some((ip, rest.get(..said).unwrap_or(rest), said > rest.len()))
}

/// RFC 8200, with its extension headers.
fn ipv6(packet: &[u8]) -> Option<Carried<'_>> {
    let length = be16(packet, 4)?;
    let source = Ipv6Addr::from(*packet.get(8..)?.first_chunk::<16>()?);
    let destination = Ipv6Addr::from(*packet.get(24..)?.first_chunk::<16>()?);
    let mut rest = packet.get(40..)?;
    // Of jumbograms (and of segmentation offload) the length is 0.
    let mut said = if length == 0 { rest.len() } else { usize::from(length) };
    let mut ip = Ip {
        source: source.into(),
        destination: destination.into(),
        protocol: *packet.get(6)?,
        length,
        carried: 0,
        hop_limit: *packet.get(7)?,
        identification: None,
        fragment: None,
    };
    for _ in 0..MOST_HEADERS {
        let Some(&[next, extra, ..]) = rest.first_chunk::<2>() else { break };
        let takes = match ip.protocol {
            // Hop-by-hop options, routing, destination options, mobility, HIP, shim6.
            0 | 43 | 60 | 135 | 139 | 140 => (usize::from(extra) + 1) * 8,
            // Authentication (RFC 4302).
            51 => (usize::from(extra) + 2) * 4,
            44 => {
                let Some((place, identification)) = be16(rest, 2).zip(be32(rest, 4)) else { break };
                ip.identification = Some(identification);
                let (offset, more) = (place & 0xfff8, place & 1 != 0);
                ip.fragment = (more || offset > 0).then_some((offset, more));
                8
            }
            _ => break,
        };
        let (Some(behind), Some(left)) = (rest.get(takes..), said.checked_sub(takes)) else {
            break;
        };
        (rest, said, ip.protocol) = (behind, left, next);
        if ip.fragment.is_some_and(|(offset, _)| offset > 0) {
            break;
        }
    }
    ip.carried = said as u32;
    Some((ip, rest.get(..said).unwrap_or(rest), said > rest.len()))
}

fn of(ip: Ip, carried: &[u8], cut: bool) -> Parsed<'_> {
    let mut parsed = Parsed { ip: Some(ip), transport: Transport::Other, payload: carried, cut };
    if ip.fragment.is_some_and(|(offset, _)| offset > 0) {
        return parsed;
    }
    let found = match ip.protocol {
        17 => udp(carried),
        6 => tcp(&ip, carried),
        1 | 58 => echo(ip.protocol, carried),
        _ => None,
    };
    if let Some((transport, payload)) = found {
        parsed.transport = transport;
        parsed.payload = payload;
    }
    // Whoever reads the first fragment must know that there is more.
    parsed.cut |= ip.fragment.is_some();
    parsed
}

/// RFC 768.
fn udp(carried: &[u8]) -> Option<(Transport, &[u8])> {
    let (source, destination) = be16(carried, 0).zip(be16(carried, 2))?;
    let payload = carried.get(8..).unwrap_or_default();
    // The IP packet may be longer than UDP says it is.
    let said = be16(carried, 4).and_then(|length| usize::from(length).checked_sub(8));
    let payload = said.and_then(|said| payload.get(..said)).unwrap_or(payload);
    Some((Transport::Udp { source, destination }, payload))
}

/// RFC 9293.
fn tcp<'a>(ip: &Ip, carried: &'a [u8]) -> Option<(Transport, &'a [u8])> {
    let header = usize::from(*carried.get(12)? >> 4) * 4;
    let flags = *carried.get(13)?;
    if header < 20 {
        return None;
    }
    let options = carried.get(20..header).or_else(|| carried.get(20..)).unwrap_or_default();
    let tcp = Tcp {
        source: be16(carried, 0)?,
        destination: be16(carried, 2)?,
        sequence: be32(carried, 4)?,
        acknowledgement: be32(carried, 8)?,
        syn: flags & 0x02 != 0,
        ack: flags & 0x10 != 0,
        fin: flags & 0x01 != 0,
        rst: flags & 0x04 != 0,
        timestamps: timestamps(options),
        data_length: (ip.carried as usize).saturating_sub(header) as u32,
    };
    Some((Transport::Tcp(tcp), carried.get(header..).unwrap_or_default()))
}

/// The timestamps option (RFC 7323 section 3.2) among others.
fn timestamps(mut options: &[u8]) -> Option<(u32, u32)> {
    while let Some((&kind, rest)) = options.split_first() {
        match kind {
            0 => return None,
            1 => options = rest,
            _ => {
                let length = usize::from(*rest.first()?);
                if kind == 8 && length == 10 {
                    return be32(options, 2).zip(be32(options, 6));
                }
                // One that says it has no length would be read for ever.
                options = options.get(length.max(2)..)?;
            }
        }
    }
    None
}

/// RFC 792, RFC 4443 section 4.
fn echo(protocol: u8, carried: &[u8]) -> Option<(Transport, &[u8])> {
    let (&[kind, _, _, _, i, d, s, q], rest) = carried.split_first_chunk::<8>()?;
    let request = match (protocol, kind) {
        (1, 8) | (58, 128) => true,
        (1, 0) | (58, 129) => false,
        _ => return None,
    };
    let (identifier, sequence) = (u16::from_be_bytes([i, d]), u16::from_be_bytes([s, q]));
    Some((Transport::Echo { request, identifier, sequence }, rest))
}
