//! A packet's headers, as far as they tell one packet from another.
//!
//! Addresses, ports and transport headers by `etherparse`; the link layers that it does not know
//! (cooked captures, loopback) are taken off here.

use std::net::IpAddr;

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TcpOptionElement, TransportSlice};

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

/// What is known of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Parsed<'a> {
    /// Its IP header; `None` for what is not IP, or is cut off before its end.
    pub ip: Option<Ip>,
    /// What IP carries.
    pub transport: Transport,
    /// What the transport carries (of fragments and unknown transports: what IP carries), as far as
    /// it was captured.
    pub payload: &'a [u8],
    /// Whether fewer bytes were captured than the headers say there were.
    pub cut: bool,
}

/// The IP header's part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ip {
    /// Who sent it.
    pub source: IpAddr,
    /// Whom it is for.
    pub destination: IpAddr,
    /// The protocol that it carries, after all extension headers.
    pub protocol: u8,
    /// The length that the header says: of the whole packet (IPv4), of what follows the fixed
    /// header (IPv6).
    pub length: u16,
    /// How many routers it may still pass.
    pub hop_limit: u8,
    /// The identification; of IPv6 that of the fragment header, if there is one.
    pub identification: Option<u32>,
    /// Of a fragment: its offset in bytes, and whether more follow.
    pub fragment: Option<(u16, bool)>,
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

/// Looks at a packet. Whatever is not understood is left out; nothing is an error.
#[must_use]
pub fn parse(link_type: u16, data: &[u8]) -> Parsed<'_> {
    let from = |kind: [u8; 2], rest| {
        Some(LaxSlicedPacket::from_ether_type(EtherType(u16::from_be_bytes(kind)), rest))
    };
    let sliced = match link_type {
        link::ETHERNET => LaxSlicedPacket::from_ethernet(data).ok(),
        link::RAW | link::IPV4 | link::IPV6 => LaxSlicedPacket::from_ip(data).ok(),
        // A family's number differs between systems: the IP version itself tells.
        link::NULL | link::LOOP => {
            data.get(4..).and_then(|rest| LaxSlicedPacket::from_ip(rest).ok())
        }
        link::LINUX_SLL => cooked(data, 14, 16).and_then(|(kind, rest)| from(kind, rest)),
        link::LINUX_SLL2 => cooked(data, 0, 20).and_then(|(kind, rest)| from(kind, rest)),
        _ => None,
    };
    sliced.map(|sliced| of(&sliced)).unwrap_or_default()
}

/// The EtherType at `at` of a header of `length` bytes, and what follows.
fn cooked(data: &[u8], at: usize, length: usize) -> Option<([u8; 2], &[u8])> {
    let kind = data.get(at..at + 2)?.try_into().ok()?;
    Some((kind, data.get(length..)?))
}

fn of<'a>(sliced: &LaxSlicedPacket<'a>) -> Parsed<'a> {
    let (ip, carried, cut, header) = match &sliced.net {
        Some(LaxNetSlice::Ipv4(slice)) => {
            let header = slice.header();
            let (offset, more) = (header.fragments_offset().byte_offset(), header.more_fragments());
            let length = header.total_len();
            let ip = Ip {
                source: header.source_addr().into(),
                destination: header.destination_addr().into(),
                protocol: slice.payload().ip_number.0,
                length,
                hop_limit: header.ttl(),
                identification: Some(header.identification().into()),
                fragment: (more || offset > 0).then_some((offset, more)),
            };
            let before = usize::from(header.ihl()) * 4
                + slice.extensions().auth.map_or(0, |auth| auth.slice().len());
            (ip, slice.payload(), slice.payload().incomplete, before)
        }
        Some(LaxNetSlice::Ipv6(slice)) => {
            let header = slice.header();
            let fragment =
                slice.extensions().clone().into_iter().find_map(|extension| match extension {
                    etherparse::Ipv6ExtensionSlice::Fragment(f) => Some(f),
                    _ => None,
                });
            let ip = Ip {
                source: header.source_addr().into(),
                destination: header.destination_addr().into(),
                protocol: slice.payload().ip_number.0,
                length: header.payload_length(),
                hop_limit: header.hop_limit(),
                identification: fragment.as_ref().map(|f| f.identification()),
                fragment: fragment
                    .filter(|f| f.is_fragmenting_payload())
                    .map(|f| (f.fragment_offset().byte_offset(), f.more_fragments())),
            };
            (ip, slice.payload(), slice.payload().incomplete, slice.extensions().slice().len())
        }
        _ => return Parsed::default(),
    };
    let mut parsed =
        Parsed { ip: Some(ip), transport: Transport::Other, payload: carried.payload, cut };
    if ip.fragment.is_some() {
        parsed.transport = ports_of_fragment(&ip, carried.payload);
        return parsed;
    }
    match &sliced.transport {
        Some(TransportSlice::Udp(udp)) => {
            let (source, destination) = (udp.source_port(), udp.destination_port());
            parsed.transport = Transport::Udp { source, destination };
            parsed.payload = carried.payload.get(8..).unwrap_or_default();
            // The rest of the IP packet may be longer than UDP says it is.
            let said = usize::from(udp.length()).saturating_sub(8);
            if said > 0 {
                parsed.payload = parsed.payload.get(..said).unwrap_or(parsed.payload);
            }
        }
        Some(TransportSlice::Tcp(tcp)) => {
            let timestamps = tcp.options_iterator().find_map(|option| match option {
                Ok(TcpOptionElement::Timestamp(value, echo)) => Some((value, echo)),
                _ => None,
            });
            // Of packets larger than the field holds (segmentation offload) the length is 0.
            let said = usize::from(ip.length)
                .checked_sub(header + tcp.header_slice().len())
                .unwrap_or(tcp.payload().len());
            parsed.transport = Transport::Tcp(Tcp {
                source: tcp.source_port(),
                destination: tcp.destination_port(),
                sequence: tcp.sequence_number(),
                acknowledgement: tcp.acknowledgment_number(),
                syn: tcp.syn(),
                ack: tcp.ack(),
                fin: tcp.fin(),
                rst: tcp.rst(),
                timestamps,
                data_length: said as u32,
            });
            parsed.payload = carried.payload.get(tcp.header_slice().len()..).unwrap_or_default();
        }
        _ => {
            if let Some((echo, rest)) = echo(ip.protocol, carried.payload) {
                parsed.transport = echo;
                parsed.payload = rest;
            }
        }
    }
    parsed
}

/// The first fragment has the ports.
fn ports_of_fragment(ip: &Ip, carried: &[u8]) -> Transport {
    match (ip.fragment, ip.protocol, carried) {
        (Some((0, _)), 17, &[a, b, c, d, ..]) => Transport::Udp {
            source: u16::from_be_bytes([a, b]),
            destination: u16::from_be_bytes([c, d]),
        },
        _ => Transport::Other,
    }
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
