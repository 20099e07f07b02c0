//! Flows: which packets belong together, and what is kept of them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::bins::packet;
use crate::path::Path;
use crate::rtp::{Detector, Stream};
use crate::rtt::{Kind, Rtt, Stamp, TcpSide};
use crate::{Bins, DifferenceClock, Distribution, Parsed, Sequence, Transport};

pub(crate) fn protocol_name(protocol: u8) -> String {
    match protocol {
        1 => "icmp".into(),
        2 => "igmp".into(),
        6 => "tcp".into(),
        17 => "udp".into(),
        47 => "gre".into(),
        50 => "esp".into(),
        58 => "icmp6".into(),
        132 => "sctp".into(),
        other => format!("ip{other}"),
    }
}

/// Key that tells one flow from another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowKey {
    /// The protocol that IP carries.
    pub protocol: u8,
    /// Where packets come from; the port is 0 where there is none, and the identifier of ICMP echo.
    pub source: SocketAddr,
    /// Where they go.
    pub destination: SocketAddr,
    /// The source of RTP, where one 5-tuple carries several.
    pub ssrc: Option<u32>,
}

impl FlowKey {
    /// That of a packet.
    #[must_use]
    pub fn of(parsed: &Parsed<'_>) -> Option<FlowKey> {
        let ip = parsed.ip.as_ref()?;
        let (source, destination) = match parsed.transport {
            Transport::Udp { source, destination } => (source, destination),
            Transport::Tcp(tcp) => (tcp.source, tcp.destination),
            Transport::Echo { identifier, .. } => (identifier, identifier),
            Transport::Other => (0, 0),
        };
        Some(FlowKey {
            protocol: ip.protocol,
            source: SocketAddr::new(ip.source, source),
            destination: SocketAddr::new(ip.destination, destination),
            ssrc: None,
        })
    }

    /// The flow of the answers.
    #[must_use]
    pub fn reversed(&self) -> FlowKey {
        FlowKey { source: self.destination, destination: self.source, ssrc: None, ..*self }
    }

    /// The protocol's name, or its number.
    #[must_use]
    pub fn protocol_name(&self) -> String {
        protocol_name(self.protocol)
    }

    fn end(&self, socket: &SocketAddr) -> String {
        match (self.protocol, socket.ip()) {
            (6 | 17, _) if socket.port() != 0 => socket.to_string(),
            (_, IpAddr::V4(address)) => address.to_string(),
            (_, IpAddr::V6(address)) => address.to_string(),
        }
    }

    /// The sender, with its port if there is one.
    #[must_use]
    pub fn from(&self) -> String {
        self.end(&self.source)
    }

    /// The receiver, likewise.
    #[must_use]
    pub fn to(&self) -> String {
        self.end(&self.destination)
    }
}

impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} > {}", self.protocol_name(), self.from(), self.to())?;
        self.ssrc.iter().try_for_each(|ssrc| write!(f, " ssrc {ssrc:#010x}"))
    }
}

/// The largest IP packet of an ordinary Ethernet (IEEE 802.3), in bytes.
const ETHERNET: u32 = 1500;

/// Sightings of a flow at one point.
#[derive(Clone, PartialEq, Debug)]
pub struct Seen {
    /// Packets.
    pub packets: u64,
    /// Their bytes, as long as they were there.
    pub bytes: u64,
    /// Packets of which not all bytes were captured.
    pub cut: u64,
    /// The length of the largest packet with its IP header, as that says; 65536 of one too long
    /// to say.
    pub largest: u32,
    /// Unix ns of the first packet.
    pub first_ns: i64,
    /// Of the last.
    pub last_ns: i64,
    /// Times between packets, ns.
    pub gaps: Distribution,
    /// Packets and bytes over time.
    pub bins: Bins,
    /// RTP, if it is.
    pub rtp: Option<Stream>,
    /// Numbers that the user pointed out.
    pub numbers: Option<Sequence>,
    /// Round trips from packets of this flow to answers.
    pub rtts: BTreeMap<Kind, Rtt>,
    /// TCP segments sent again.
    pub retransmitted: u64,
    pub(crate) tcp: TcpSide,
    before: Option<Stamp>,
}

impl Seen {
    pub(crate) fn new(at_ns: i64, bin_ns: i64) -> Seen {
        Seen {
            packets: 0,
            bytes: 0,
            cut: 0,
            largest: 0,
            first_ns: at_ns,
            last_ns: at_ns,
            gaps: Distribution::default(),
            bins: Bins::new(bin_ns),
            rtp: None,
            numbers: None,
            rtts: BTreeMap::new(),
            retransmitted: 0,
            tcp: TcpSide::default(),
            before: None,
        }
    }

    pub(crate) fn passed(
        &mut self,
        stamp: Stamp,
        length: u32,
        cut: bool,
        clock: Option<&DifferenceClock>,
    ) {
        let at_ns = stamp.at.unix_ns;
        self.packets += 1;
        self.bytes += u64::from(length);
        self.cut += u64::from(cut);
        self.first_ns = self.first_ns.min(at_ns);
        self.last_ns = self.last_ns.max(at_ns);
        self.bins.add(at_ns, &packet(length));
        if let Some(before) = self.before.replace(stamp) {
            self.gaps.add(stamp.since(&before, clock).0.ns);
        }
    }

    /// When the only packet so far passed.
    pub(crate) fn only(&self) -> Option<Stamp> {
        self.before.filter(|_| self.packets == 1)
    }

    pub(crate) fn rtt(&mut self, kind: Kind) -> &mut Rtt {
        let bin_ns = self.bins.width_ns();
        self.rtts.entry(kind).or_insert_with(|| Rtt::new(bin_ns))
    }

    /// Sequence numbers, of RTP or of the user's pattern.
    #[must_use]
    pub fn sequence(&self) -> Option<&Sequence> {
        self.numbers.as_ref().or(self.rtp.as_ref().map(|stream| &stream.sequence))
    }
}

/// A flow.
#[derive(Clone, PartialEq, Debug)]
pub struct Flow {
    /// Key of the flow.
    pub key: FlowKey,
    /// Number in the order of first packets, from 1.
    pub number: u64,
    /// Which of the user's patterns its packets match.
    pub pattern: Option<usize>,
    /// Sightings at each point.
    pub seen: [Option<Box<Seen>>; 2],
    /// Path between the points, if there are two.
    pub path: Option<Box<Path>>,
    pub(crate) detector: Option<Box<Detector>>,
    pub(crate) rtp: Option<u32>,
    pub(crate) touched: bool,
}

impl Flow {
    /// Packets at all points.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.seen.iter().flatten().map(|seen| seen.packets).sum()
    }

    /// Bytes at all points.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.seen.iter().flatten().map(|seen| seen.bytes).sum()
    }

    /// True if packets were larger at one point than at the other, and larger than an Ethernet
    /// carries: there they are such as the network card has yet to cut up, or has joined.
    #[must_use]
    pub fn is_resized(&self) -> bool {
        let [Some(a), Some(b)] = &self.seen else { return false };
        a.largest != b.largest && a.largest.max(b.largest) > ETHERNET
    }

    pub(crate) fn seen_mut(&mut self, point: usize) -> Option<&mut Seen> {
        self.seen.get_mut(point)?.as_deref_mut()
    }
}
