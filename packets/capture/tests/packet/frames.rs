//! Frames of all kinds.

/// An Ethernet frame, with VLAN tags if there are any.
pub fn ethernet(tags: &[(u16, u16)], kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    for (protocol, tag) in tags {
        frame.extend(protocol.to_be_bytes());
        frame.extend(tag.to_be_bytes());
    }
    frame.extend(kind.to_be_bytes());
    frame.extend(payload);
    frame
}

pub fn ipv4(protocol: u8, source: [u8; 4], target: [u8; 4], fragment: u16, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((20 + body.len() as u16).to_be_bytes());
    packet.extend([0, 1]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(source);
    packet.extend(target);
    packet.extend(body);
    packet
}

pub fn ipv6(next: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((body.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    packet.extend(body);
    packet
}

pub fn udp(source: u16, target: u16, length: usize) -> Vec<u8> {
    let mut packet = source.to_be_bytes().to_vec();
    packet.extend(target.to_be_bytes());
    packet.extend((8 + length as u16).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend((0..length).map(|at| at as u8));
    packet
}

pub fn tcp(source: u16, target: u16, flags: u8) -> Vec<u8> {
    let mut packet = source.to_be_bytes().to_vec();
    packet.extend(target.to_be_bytes());
    packet.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    packet
}

/// A UDP packet over IPv6 in two fragments.
pub fn ipv6_fragments() -> [Vec<u8>; 2] {
    let whole = udp(4000, 5000, 64);
    let (first, second) = whole.split_at(40);
    let header = |offset: u16, more: u16| {
        let mut header = vec![17, 0];
        header.extend(((offset * 8) | more).to_be_bytes());
        header.extend([0, 0, 0, 9]);
        header
    };
    [(header(0, 1), first), (header(5, 0), second)].map(|(mut body, part)| {
        body.extend(part);
        ethernet(&[], 0x86dd, &ipv6(44, &body))
    })
}

/// A few of each.
pub fn all() -> Vec<Vec<u8>> {
    let (a, b) = ([192, 0, 2, 1], [198, 51, 100, 9]);
    let mut frames = vec![
        ethernet(&[], 0x0806, &[0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 192, 0, 2, 1]),
        ethernet(&[], 0x0800, &ipv4(17, a, b, 0, &udp(1234, 53, 10))),
        ethernet(&[], 0x0800, &ipv4(17, b, a, 0, &udp(53, 1234, 300))),
        ethernet(&[], 0x0800, &ipv4(17, b, a, 0, &udp(9, 9, 1458))),
        ethernet(&[], 0x0800, &ipv4(17, a, b, 0x2000, &udp(53, 53, 16))),
        ethernet(&[], 0x0800, &ipv4(17, a, b, 3, &[0, 53, 0, 53, 1, 2, 3, 4])),
        ethernet(&[], 0x0800, &ipv4(1, a, a, 0, &[8, 0, 1, 2, 3, 4, 5, 6])),
        ethernet(&[], 0x86dd, &ipv6(17, &udp(53, 7, 5))),
        ethernet(&[], 0x86dd, &ipv6(6, &tcp(443, 80, 0x12))),
        ethernet(&[], 0x86dd, &ipv6(58, &[135, 0, 0, 0, 0, 0, 0, 0])),
        // Tags: one, another, two, of priority alone.
        ethernet(&[(0x8100, 7)], 0x0800, &ipv4(17, a, b, 0, &udp(1, 53, 40))),
        ethernet(&[(0x8100, 0xe007)], 0x86dd, &ipv6(17, &udp(53, 2, 40))),
        ethernet(&[(0x8100, 8)], 0x0800, &ipv4(6, a, b, 0, &tcp(1, 2, 2))),
        ethernet(&[(0x88a8, 9), (0x8100, 7)], 0x0800, &ipv4(17, a, b, 0, &udp(1, 53, 40))),
        ethernet(&[(0x8100, 0x6000)], 0x0800, &ipv4(17, a, b, 0, &udp(1, 2, 1400))),
        // What nobody should send: cut short, lengths that lie, no protocol at all.
        ethernet(&[], 0x0800, &[]),
        ethernet(&[], 0x0800, &[0x4f, 0, 0xff, 0xff]),
        ethernet(&[], 0x0800, &[0x4f, 0, 0, 0, 0, 0, 0, 0, 1, 17, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ethernet(&[], 0x86dd, &[0x60; 12]),
        ethernet(&[], 0x88b5, &[0; 46]),
        ethernet(&[], 0x0040, &[0xff; 64]),
    ];
    for flags in [0x02, 0x12, 0x10, 0x18, 0x11, 0x04, 0x00, 0xff] {
        frames.push(ethernet(&[], 0x0800, &ipv4(6, a, b, 0, &tcp(40_000, 80, flags))));
    }
    frames.extend(ipv6_fragments());
    frames
}
