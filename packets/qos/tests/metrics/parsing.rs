use proptest::prelude::*;
use truechimer_qos::{Engine, Observation, Options, Transport, link, parse};

use crate::frames::{Segment, echo, rtp, tcp, udp};

const LINKS: [u16; 9] = [
    link::NULL,
    link::ETHERNET,
    link::RAW,
    link::LOOP,
    link::LINUX_SLL,
    link::IPV4,
    link::IPV6,
    link::LINUX_SLL2,
    9999,
];

fn ports(link_type: u16, data: &[u8]) -> Option<(u16, u16)> {
    match parse(link_type, data).transport {
        Transport::Udp { source, destination } => Some((source, destination)),
        _ => None,
    }
}

#[test]
fn the_same_packet_on_every_link() {
    let frame = udp(1, 2, (5, 6), 1, b"payload");
    let ip = &frame[14..];
    let with = |header: &[u8]| [header, ip].concat();
    let mut sll = [0; 16];
    sll[14] = 8;
    let mut sll2 = [0; 20];
    sll2[0] = 8;
    let tag = |kind: u16, rest: &[u8]| [&kind.to_be_bytes(), &[0, 42][..], rest].concat();
    let tagged = [&frame[..12], &tag(0x8100, &frame[12..])].concat();
    let twice = [&frame[..12], &tag(0x88a8, &tag(0x8100, &frame[12..]))].concat();
    for (link_type, data) in [
        (link::ETHERNET, frame.clone()),
        (link::ETHERNET, tagged),
        (link::ETHERNET, twice),
        (link::RAW, ip.to_vec()),
        (link::IPV4, ip.to_vec()),
        (link::NULL, with(&[2, 0, 0, 0])),
        (link::LOOP, with(&[0, 0, 0, 2])),
        (link::LINUX_SLL, with(&sll)),
        (link::LINUX_SLL2, with(&sll2)),
    ] {
        assert_eq!(ports(link_type, &data), Some((5, 6)), "{link_type}");
        assert_eq!(parse(link_type, &data).payload, b"payload", "{link_type}");
    }
    assert_eq!(ports(9999, &frame), None);
}

#[test]
fn ipv6_with_extension_headers_and_fragments() {
    let mut udp_part = vec![0, 5, 0, 6, 0, 12, 0, 0];
    udp_part.extend(b"data");
    let packet = |next: u8, extensions: &[u8], rest: &[u8]| {
        let length = (extensions.len() + rest.len()) as u16;
        let mut made = vec![0x60, 0, 0, 0];
        made.extend(length.to_be_bytes());
        made.extend([next, 60]);
        made.extend([1; 32]);
        made.extend(extensions);
        made.extend(rest);
        made
    };
    let hop_by_hop = packet(0, &[17, 0, 1, 4, 0, 0, 0, 0], &udp_part);
    assert_eq!(ports(link::RAW, &hop_by_hop), Some((5, 6)));
    let first = packet(44, &[17, 0, 0, 1, 0, 0, 0, 99], &udp_part);
    let parsed = parse(link::IPV6, &first);
    let ip = parsed.ip.expect("IPv6");
    assert_eq!((ip.identification, ip.fragment), (Some(99), Some((0, true))));
    assert_eq!(ports(link::RAW, &first), Some((5, 6)));
    let later = packet(44, &[17, 0, 0, 0x48, 0, 0, 0, 99], b"0123456789");
    let parsed = parse(link::RAW, &later);
    assert_eq!(parsed.ip.expect("IPv6").fragment, Some((72, false)));
    assert_eq!(parsed.transport, Transport::Other);
}

#[test]
fn what_is_cut_off_is_said() {
    let frame = udp(1, 2, (5, 6), 1, &[1; 100]);
    let cut = parse(link::ETHERNET, &frame[..60]);
    assert!(cut.cut && cut.payload.len() == 60 - 42);
    assert_eq!(ports(link::ETHERNET, &frame[..60]), Some((5, 6)));
    assert!(parse(link::ETHERNET, &frame[..30]).ip.is_none());
}

#[test]
fn padding_of_short_frames_is_no_payload() {
    let mut frame = udp(1, 2, (5, 6), 1, b"abc");
    frame.resize(60, 0);
    assert_eq!(parse(link::ETHERNET, &frame).payload, b"abc");
    let mut frame = tcp(&Segment {
        ports: (5, 6),
        back: false,
        flags: "A",
        sequence: 1,
        acknowledgement: 1,
        data: 0,
        timestamps: None,
    });
    frame.resize(60, 0);
    let Transport::Tcp(tcp) = parse(link::ETHERNET, &frame).transport else { panic!("no TCP") };
    assert_eq!(tcp.data_length, 0);
    assert!(parse(link::ETHERNET, &frame).payload.is_empty());
}

proptest! {
    /// Where etherparse understands a whole packet, we understand the same.
    #[test]
    fn as_etherparse_has_it(
        sizes in 0usize..300, ports: (u16, u16), sequence: u32, ack: u32, six: bool,
        stamps in prop::option::of(any::<(u32, u32)>()), is_udp: bool,
    ) {
        let frame = match (is_udp, six) {
            (true, true) => crate::frames::udp6(ports, &vec![1; sizes]),
            (true, false) => udp(1, 2, ports, 77, &vec![1; sizes]),
            _ => tcp(&Segment {
                ports, back: false, flags: "AF", sequence, acknowledgement: ack, data: sizes,
                timestamps: stamps,
            }),
        };
        let theirs = etherparse::SlicedPacket::from_ethernet(&frame).unwrap();
        let ours = parse(link::ETHERNET, &frame);
        match (theirs.transport.unwrap(), ours.transport) {
            (etherparse::TransportSlice::Udp(t), Transport::Udp { source, destination }) => {
                prop_assert_eq!((t.source_port(), t.destination_port()), (source, destination));
                prop_assert_eq!(t.payload(), ours.payload);
            }
            (etherparse::TransportSlice::Tcp(t), Transport::Tcp(tcp)) => {
                prop_assert_eq!((t.source_port(), t.destination_port()), (tcp.source, tcp.destination));
                prop_assert_eq!((t.sequence_number(), t.acknowledgment_number()), (tcp.sequence, tcp.acknowledgement));
                prop_assert_eq!((t.syn(), t.ack(), t.fin(), t.rst()), (tcp.syn, tcp.ack, tcp.fin, tcp.rst));
                prop_assert_eq!(t.payload(), ours.payload);
                prop_assert_eq!((tcp.data_length as usize, tcp.timestamps), (sizes, stamps));
            }
            other => prop_assert!(false, "{other:?}"),
        }
        prop_assert!(!ours.cut);
    }

    #[test]
    fn any_bytes_are_survived(
        data in prop::collection::vec(any::<u8>(), 0..200), which in 0usize..9,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        kind in 0..5, keep in any::<prop::sample::Index>(),
    ) {
        let mut engine = Engine::new(Options { points: 2, ..Options::default() });
        let mut frame = match kind {
            3 => [&[0u8; 12][..], &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 99, data.first().map_or(0, |b| b % 64), 9], &data].concat(),
            0 => udp(1, 2, (5004, 53), 1, &rtp(0, 1, 2, 3)),
            1 => echo(true, 1),
            2 => tcp(&Segment {
                ports: (5, 6), back: false, flags: "SA", sequence: 1, acknowledgement: 1, data: 9,
                timestamps: Some((1, 2)),
            }),
            _ => data,
        };
        for (at, byte) in flips {
            if !frame.is_empty() {
                *at.get_mut(&mut frame) = byte;
            }
        }
        if !frame.is_empty() {
            frame.truncate(keep.index(frame.len()) + 1);
        }
        for (point, link_type) in [(0, LINKS[which]), (1, LINKS[which]), (0, link::ETHERNET)] {
            engine.observe(&Observation {
                point,
                at: Default::default(),
                counted: None,
                link_type,
                data: &frame,
                length: frame.len() as u32,
                direction: Default::default(),
            });
        }
        engine.finish();
        let report = truechimer_qos::Report::of(&engine, &[]);
        prop_assert_eq!(report.points[0].packets, 2);
    }
}
