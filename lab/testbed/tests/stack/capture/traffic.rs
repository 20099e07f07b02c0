//! Frames that are made up, and sent as they are.

use std::io::Write;
use std::process::{Command, Stdio};

use truechimer_testbed::binary;
use truechimer_testbed::namespace::Namespace;

/// Sender of them: tells them from what the kernels say to each other.
pub const SENDER: [u8; 6] = [0x02, 0, 0, 0, 0x47, 1];
/// Filter for that sender.
pub const OURS: &str = "ether src 02:00:00:00:47:01";
/// The last one's EtherType, one for experiments.
pub const LAST: u16 = 0x88b5;
/// Payload of the last one.
pub const LAST_WORDS: &[u8] = b"this is the last frame of this test";

/// An Ethernet frame to everybody.
pub fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend(SENDER);
    frame.extend(kind.to_be_bytes());
    frame.extend(payload);
    frame
}

/// An Ethernet frame to everybody with a VLAN tag.
pub fn tagged(vlan: u16, kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut inner = vlan.to_be_bytes().to_vec();
    inner.extend(kind.to_be_bytes());
    inner.extend(payload);
    ethernet(0x8100, &inner)
}

/// An IPv4 packet from 198.51.100.1 to 198.51.100.2; `fragment` as in the header.
pub fn ipv4(protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(20 + payload.len()).unwrap();
    let mut packet = vec![0x45, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([0x12, 0x34]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0, 198, 51, 100, 1, 198, 51, 100, 2]);
    let sum =
        packet.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum::<u32>();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(payload);
    packet
}

/// An IPv6 packet.
pub fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
    packet.extend([next, 64]);
    for host in [1, 2] {
        packet.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    }
    packet.extend(payload);
    packet
}

/// A piece of an IPv6 packet; `offset` is a multiple of 8.
pub fn ipv6_fragment(next: u8, offset: u16, more: bool, payload: &[u8]) -> Vec<u8> {
    let mut piece = vec![next, 0];
    piece.extend((offset | u16::from(more)).to_be_bytes());
    piece.extend([0, 0, 0, 9]);
    piece.extend(payload);
    ipv6(44, &piece)
}

/// A UDP datagram, its checksum left out.
pub fn udp(source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + payload.len()).unwrap();
    let mut datagram = Vec::new();
    for word in [source, destination, length, 0] {
        datagram.extend(word.to_be_bytes());
    }
    datagram.extend(payload);
    datagram
}

/// A TCP segment: SYN or ACK.
pub fn tcp(source: u16, destination: u16, syn: bool) -> Vec<u8> {
    let mut segment = Vec::new();
    segment.extend(source.to_be_bytes());
    segment.extend(destination.to_be_bytes());
    segment.extend([0, 0, 0, 7, 0, 0, 0, 0, 0x50, if syn { 2 } else { 16 }, 1, 0, 0, 0, 0, 0]);
    segment
}

/// A datagram to port 7007 that carries a number, in `length` bytes.
pub fn numbered(number: u32, length: usize) -> Vec<u8> {
    let mut payload = format!("number {number:010}").into_bytes();
    payload.resize(length.max(payload.len()), b'.');
    ethernet(0x0800, &ipv4(17, 0, &udp(7, 7007, &payload)))
}

/// The number in such a frame.
pub fn number(frame: &[u8]) -> u32 {
    let text = std::str::from_utf8(&frame[42 + 7..42 + 17]).unwrap();
    text.parse().unwrap()
}

/// The last frame.
pub fn last() -> Vec<u8> {
    ethernet(LAST, LAST_WORDS)
}

/// Of everything some: IPv4, IPv6, fragments of both, TCP, ARP, VLANs, what nobody knows.
pub fn medley() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for n in 0..8_u8 {
        let payload = vec![n; 20 + 50 * usize::from(n)];
        let datagram = udp(1000 + u16::from(n), 53 + u16::from(n % 3), &payload);
        frames.push(ethernet(0x0800, &ipv4(17, 0, &datagram)));
        frames.push(ethernet(0x86dd, &ipv6(17, &datagram)));
        frames.push(tagged(5 + u16::from(n % 4), 0x0800, &ipv4(17, 0, &datagram)));
        frames.push(tagged(5 + u16::from(n % 4), 0x86dd, &ipv6(17, &datagram)));
        frames.push(ethernet(0x0800, &ipv4(6, 0, &tcp(80, 40_000 + u16::from(n), n % 2 == 0))));
        frames.push(ethernet(0x86dd, &ipv6(6, &tcp(443, 40_000 + u16::from(n), n % 2 == 1))));
        // In two pieces, of which only the first has the ports.
        frames.push(ethernet(0x0800, &ipv4(17, 0x2000, &datagram[..16])));
        frames.push(ethernet(0x0800, &ipv4(17, 2, &datagram[16..])));
        frames.push(ethernet(0x86dd, &ipv6_fragment(17, 0, true, &datagram[..16])));
        frames.push(ethernet(0x86dd, &ipv6_fragment(17, 16, false, &datagram[16..])));
        frames.push(ethernet(0x0800, &ipv4(1, 0, &[8, 0, 0, 0, 0, 1, 0, n])));
        let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1];
        arp.extend(SENDER);
        arp.extend([198, 51, 100, 1, 0, 0, 0, 0, 0, 0, 198, 51, 100, 2 + n]);
        frames.push(ethernet(0x0806, &arp));
        frames.push(ethernet(0x9000 + u16::from(n), &payload));
    }
    frames
}

/// When a frame was sent: the system clock before and after, ns.
pub type Sent = (i64, i64);

/// Sends frames from within a namespace, on `wire`.
pub fn inject(network: &Namespace, frames: &[Vec<u8>]) -> Vec<Sent> {
    inject_on(network, "wire", frames)
}

/// Sends frames from within a namespace, on a device of it.
pub fn inject_on(network: &Namespace, device: &str, frames: &[Vec<u8>]) -> Vec<Sent> {
    let mut command = network.command(binary::testbed());
    command.args(["inject", device]);
    fed(command, frames)
}

/// A second wire within a namespace: what is sent on `tap1` arrives on `tap0`.
pub fn tap(network: &Namespace) {
    for words in [
        &["link", "add", "tap0", "type", "veth", "peer", "name", "tap1"][..],
        &["link", "set", "tap0", "up"],
        &["link", "set", "tap1", "up"],
    ] {
        let status = network.command(binary::system("ip")).args(words).status().unwrap();
        assert!(status.success(), "ip {words:?}");
    }
}

fn fed(mut command: Command, frames: &[Vec<u8>]) -> Vec<Sent> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let text: String = frames
        .iter()
        .map(|frame| {
            let digits: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
            digits + "\n"
        })
        .collect();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let sent: Vec<_> = text
        .lines()
        .map(|line| {
            let (before, after) = line.split_once(' ').unwrap();
            (before.parse().unwrap(), after.parse().unwrap())
        })
        .collect();
    assert_eq!(sent.len(), frames.len());
    sent
}
