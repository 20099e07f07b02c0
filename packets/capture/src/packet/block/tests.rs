use proptest::prelude::*;

use super::*;

const ETHERNET: View = View { is_cooked: false, snap_length: 262_144 };

/// Packet as the kernel would write it.
#[derive(Clone)]
struct Written {
    bytes: Vec<u8>,
    length: u32,
    status: u32,
    tag: (u16, u16),
    kind: u8,
    ns: u64,
}

impl Written {
    fn new(bytes: &[u8]) -> Written {
        let status = libc::TP_STATUS_USER | libc::TP_STATUS_TS_SOFTWARE;
        let ns = 1_700_000_000_123_456_789;
        Written {
            bytes: bytes.to_vec(),
            length: bytes.len() as u32,
            status,
            tag: (0, 0),
            kind: 0,
            ns,
        }
    }
}

fn block(packets: &[Written]) -> Vec<u8> {
    let mut block = vec![0; 4096];
    block[PACKETS..PACKETS + 4].copy_from_slice(&(packets.len() as u32).to_ne_bytes());
    block[FIRST..FIRST + 4].copy_from_slice(&48_u32.to_ne_bytes());
    let mut at = 48;
    for (number, packet) in packets.iter().enumerate() {
        let start = 96_u16;
        let size = (usize::from(start) + packet.bytes.len()).next_multiple_of(16);
        let last = number + 1 == packets.len();
        let mut header = Vec::new();
        for word in [
            if last { 0 } else { size as u32 },
            (packet.ns / 1_000_000_000) as u32,
            (packet.ns % 1_000_000_000) as u32,
            packet.bytes.len() as u32,
            packet.length,
            packet.status,
        ] {
            header.extend(word.to_ne_bytes());
        }
        header.extend(start.to_ne_bytes());
        header.extend(start.to_ne_bytes());
        header.extend([0; 4]);
        header.extend(u32::from(packet.tag.1).to_ne_bytes());
        header.extend(packet.tag.0.to_ne_bytes());
        header.extend([0; 10]);
        header.extend([17, 0, 8, 0]);
        header.extend(5_i32.to_ne_bytes());
        header.extend(1_u16.to_ne_bytes());
        header.extend([packet.kind, 6, 1, 2, 3, 4, 5, 6, 0, 0]);
        block[at..at + header.len()].copy_from_slice(&header);
        let data = at + usize::from(start);
        block[data..data + packet.bytes.len()].copy_from_slice(&packet.bytes);
        at += size;
    }
    block[USED..USED + 4].copy_from_slice(&(at as u32).to_ne_bytes());
    block
}

/// A packet, its bytes owned.
type Owned = (RawStamp, Vec<u8>, Option<[u8; 4]>, u32, Direction);

fn read(block: &[u8], view: View) -> (Vec<Owned>, u64) {
    let mut all = Vec::new();
    let late = walk(block, view, &mut |packet| {
        let Packet { stamp, data, tag, length, direction, queue } = *packet;
        assert_eq!(queue, 0);
        all.push((stamp, data.to_vec(), tag, length, direction));
    });
    (all, late)
}

#[test]
fn packets_are_read_as_written() {
    let first = Written { length: 1500, ..Written::new(&[1; 60]) };
    let second = Written { kind: libc::PACKET_OUTGOING, ..Written::new(&[2; 33]) };
    let third = Written { kind: 7, ..Written::new(&[]) };
    let block = block(&[first, second, third]);
    assert_eq!(packets(&block), 3);
    let stamp = RawStamp::Clock(KernelClock::Realtime, 1_700_000_000_123_456_789);
    let expected = vec![
        (stamp, vec![1; 60], None, 1500, Direction::In),
        (stamp, vec![2; 33], None, 33, Direction::Out),
        (stamp, vec![], None, 0, Direction::Unknown),
    ];
    assert_eq!(read(&block, ETHERNET), (expected.clone(), 0));
    // All is in the part that is used.
    assert!(used(&block).len() < 512);
    assert_eq!(read(used(&block), ETHERNET), (expected, 0));
    assert_eq!((used(&[]).len(), used(&[0xff; 64]).len()), (0, 64));
}

#[test]
fn who_stamped_is_in_the_status() {
    let by = |status| Written { status, ..Written::new(&[0; 14]) };
    let wrong = Written { ns: 5_000_000_000, ..by(0) };
    let packets = [by(libc::TP_STATUS_TS_RAW_HARDWARE), by(libc::TP_STATUS_USER), wrong];
    let mut block = block(&packets);
    // The last one has 2³² − 1 ns in its second.
    let at = 48 + 2 * 112 + 8;
    block[at..at + 4].fill(0xff);
    let (all, late) = read(&block, ETHERNET);
    let ns = packets[0].ns as i64;
    assert_eq!(
        all.iter().map(|one| one.0).collect::<Vec<_>>(),
        [
            RawStamp::Clock(KernelClock::Device, ns),
            RawStamp::Clock(KernelClock::Realtime, ns),
            RawStamp::Missing
        ]
    );
    assert_eq!(late, 2);
}

#[test]
fn tags_that_the_kernel_took_out() {
    let tagged = |status, tag, length| Written {
        status: status | libc::TP_STATUS_VLAN_VALID,
        tag,
        ..Written::new(&vec![9; length])
    };
    let known = libc::TP_STATUS_VLAN_TPID_VALID;
    let packets = [
        tagged(known, (0x88a8, 0xe007), 60),
        tagged(0, (0x1234, 7), 60),
        tagged(known, (0x8100, 7), 11),
    ];
    let (all, _) = read(&block(&packets), View { snap_length: 40, ..ETHERNET });
    let short: Vec<_> = all.iter().map(|one| (one.2, one.1.len(), one.3)).collect();
    // What is kept of them is so much with the tag; a packet too short for it has it cut off.
    assert_eq!(
        short,
        [(Some([0x88, 0xa8, 0xe0, 7]), 36, 60), (Some([0x81, 0, 0, 7]), 36, 60), (None, 11, 15)]
    );
}

#[test]
fn cooked_headers() {
    let packet = Written { kind: libc::PACKET_OUTGOING, ..Written::new(&[0x45; 20]) };
    let mut block = block(&[packet.clone(), packet]);
    cook(&mut block);
    let (all, _) = read(&block, View { is_cooked: true, snap_length: 30 });
    assert_eq!(all.len(), 2);
    for (_, data, tag, length, direction) in all {
        assert_eq!(data[..20], [8, 0, 0, 0, 0, 0, 0, 5, 0, 1, 4, 6, 1, 2, 3, 4, 5, 6, 0, 0]);
        assert_eq!((&data[20..], tag, length), ([0x45; 10].as_slice(), None, 40));
        assert_eq!(direction, Direction::Out);
    }
}

proptest! {
    /// Whatever stands in a block, nothing outside it is read, and there is an end.
    #[test]
    fn a_block_of_anything(
        mut bytes in prop::collection::vec(any::<u8>(), 0..600),
        places in prop::collection::vec((0_usize..150, 0_u32..700), 0..12),
        is_cooked in any::<bool>(),
        snap_length in 0_u32..300,
    ) {
        // Random words are large: some are made small, so that they pass for offsets.
        for (place, value) in places {
            if let Some(word) = bytes.get_mut(place * 4..place * 4 + 4) {
                word.copy_from_slice(&value.to_ne_bytes());
            }
        }
        if is_cooked {
            cook(&mut bytes);
        }
        let said = packets(&bytes);
        let (all, late) = read(&bytes, View { is_cooked, snap_length });
        prop_assert!(all.len() <= said && late <= all.len() as u64);
        for (_, data, _, length, _) in all {
            prop_assert!(data.len() <= bytes.len() && data.len() as u32 <= length);
        }
    }
}
