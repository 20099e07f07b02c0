//! Packets made for tests.

use etherparse::PacketBuilder;
use truechimer_qos::{At, Direction, Engine, Observation, link};

/// An Ethernet frame with IPv4 and UDP.
pub fn udp(
    source: u8,
    destination: u8,
    ports: (u16, u16),
    identification: u16,
    payload: &[u8],
) -> Vec<u8> {
    let mut ip = etherparse::Ipv4Header::new(
        0,
        64,
        etherparse::IpNumber::UDP,
        [10, 0, 0, source],
        [10, 0, 0, destination],
    )
    .expect("fits");
    ip.identification = identification;
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ip(etherparse::IpHeaders::Ipv4(ip, Default::default()))
        .udp(ports.0, ports.1);
    let mut made = Vec::new();
    builder.write_to_vec(&mut made, payload).expect("fits");
    made
}

/// Frame of UDP by IPv6, which has no identification.
pub fn udp6(ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv6([1; 16], [2; 16], 64)
        .udp(ports.0, ports.1);
    let mut made = Vec::new();
    builder.write_to_vec(&mut made, payload).expect("fits");
    made
}

/// An RTP packet's payload.
pub fn rtp(payload_type: u8, sequence: u16, timestamp: u32, ssrc: u32) -> Vec<u8> {
    let mut made = vec![0x80, payload_type];
    made.extend(sequence.to_be_bytes());
    made.extend(timestamp.to_be_bytes());
    made.extend(ssrc.to_be_bytes());
    made.extend([0x55; 160]);
    made
}

/// A TCP segment: flags of "SAFR", and the timestamps option.
pub struct Segment<'a> {
    pub ports: (u16, u16),
    pub back: bool,
    pub flags: &'a str,
    pub sequence: u32,
    pub acknowledgement: u32,
    pub data: usize,
    pub timestamps: Option<(u32, u32)>,
}

pub fn tcp(segment: &Segment<'_>) -> Vec<u8> {
    let (source, destination) =
        if segment.back { ([10, 0, 0, 2], [10, 0, 0, 1]) } else { ([10, 0, 0, 1], [10, 0, 0, 2]) };
    let (from, to) = if segment.back { (segment.ports.1, segment.ports.0) } else { segment.ports };
    let mut header = etherparse::TcpHeader::new(from, to, segment.sequence, 1000);
    header.acknowledgment_number = segment.acknowledgement;
    header.syn = segment.flags.contains('S');
    header.ack = segment.flags.contains('A');
    header.fin = segment.flags.contains('F');
    header.rst = segment.flags.contains('R');
    if let Some((value, echo)) = segment.timestamps {
        header.set_options(&[etherparse::TcpOptionElement::Timestamp(value, echo)]).expect("fits");
    }
    let mut made = Vec::new();
    PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4(source, destination, 64)
        .tcp_header(header)
        .write_to_vec(&mut made, &vec![7; segment.data])
        .expect("fits");
    made
}

/// ICMP echo.
pub fn echo(request: bool, sequence: u16) -> Vec<u8> {
    let (source, destination) =
        if request { ([10, 0, 0, 1], [10, 0, 0, 2]) } else { ([10, 0, 0, 2], [10, 0, 0, 1]) };
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]).ipv4(
        source,
        destination,
        64,
    );
    let builder = if request {
        builder.icmpv4_echo_request(77, sequence)
    } else {
        builder.icmpv4_echo_reply(77, sequence)
    };
    let mut made = Vec::new();
    builder.write_to_vec(&mut made, &[9; 56]).expect("fits");
    made
}

pub fn observe(engine: &mut Engine, point: usize, at: At, frame: &[u8]) {
    observe_going(engine, point, at, frame, Direction::Unknown);
}

pub fn observe_going(
    engine: &mut Engine,
    point: usize,
    at: At,
    frame: &[u8],
    direction: Direction,
) {
    engine.observe(&Observation {
        point,
        at,
        counted: None,
        link_type: link::ETHERNET,
        data: frame,
        length: frame.len() as u32,
        direction,
    });
}
