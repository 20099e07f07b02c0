//! Round trips: what is written is read back, in either byte order, and damage is named.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::io::Cursor;

use proptest::prelude::*;
use truechimer_pcapng::records::{self, Mark, MarkKind, PacketRecord, Quality, Record, StampedBy};
use truechimer_pcapng::{
    Blocks, Content, Format, Frames, Options, Order, Pcap, ReadError, Section, code, comment, kind,
    write,
};
use truechimer_time::{Count, CountSpan, Epoch};

fn quality() -> impl Strategy<Value = Quality> {
    prop_oneof![Just(Quality::Uncounted), Just(Quality::Unsynchronised), Just(Quality::Bounded)]
}

fn stamped_by() -> impl Strategy<Value = StampedBy> {
    prop_oneof![
        Just(StampedBy::Counter),
        Just(StampedBy::Realtime),
        Just(StampedBy::Monotonic),
        Just(StampedBy::Device),
        Just(StampedBy::Unknown),
        Just(StampedBy::Nothing),
    ]
}

prop_compose! {
    fn record()(
        method in 1..6u8,
        stamped_by in stamped_by(),
        quality in quality(),
        counted: Option<(u64, u32, u32)>,
        generation: u64,
        bound: Option<u32>,
    ) -> PacketRecord {
        let counted = counted.map(|(count, error, epoch)| {
            (Count(count), CountSpan(error.min(u32::MAX - 1).into()), Epoch(epoch))
        });
        let quality = if counted.is_none() && quality == Quality::Bounded {
            Quality::Uncounted
        } else {
            quality
        };
        let bound_ns = bound.filter(|bound| *bound != u32::MAX);
        PacketRecord { method, stamped_by, quality, counted, generation, bound_ns }
    }
}

fn file(packets: &[(i64, Vec<u8>, Vec<u8>, PacketRecord)]) -> Vec<u8> {
    let mut out = Vec::new();
    write::section(&mut out).text(code::APPLICATION, "a test").comment("one").end();
    write::interface(&mut out, 1, 1000).text(code::NAME, "wire").end();
    for (unix_ns, front, rest, record) in packets {
        let length = (front.len() + rest.len()) as u32;
        write::packet(&mut out, 0, *unix_ns, &[front, rest], length)
            .option(code::FLAGS, &1u32.to_le_bytes())
            .record(&record.encode())
            .end();
    }
    write::statistics(&mut out, 0, 5).count(code::RECEIVED, 7).count(code::DROPPED, 2).end();
    out
}

/// Turns the file to the other byte order; nothing but our own records and texts in options.
fn turned(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let mut blocks = Blocks::new(bytes);
    while let Some(block) = blocks.next_block().unwrap() {
        let (start, length) = (block.offset as usize, block.bytes.len());
        let mut words: Vec<usize> = vec![0, 4, length - 4];
        let (mut shorts, mut longs) = (vec![], vec![]);
        let front = match block.kind {
            kind::SECTION => {
                words.push(8);
                shorts.extend([12, 14]);
                longs.push(16);
                24
            }
            kind::INTERFACE => {
                shorts.push(8);
                words.push(12);
                16
            }
            kind::PACKET => {
                words.extend([8, 12, 16, 20, 24]);
                let captured = Order::Little.u32(block.bytes, 20).unwrap() as usize;
                28 + captured.next_multiple_of(4)
            }
            kind::STATISTICS => {
                words.extend([8, 12, 16]);
                20
            }
            _ => unreachable!("not written"),
        };
        for option in Options::new(Order::Little, &block.bytes[front..length - 4], front) {
            let option = option.unwrap();
            shorts.extend([option.at - 4, option.at - 2]);
            match (block.kind, option.code) {
                (kind::PACKET, code::FLAGS) | (_, code::CUSTOM) => words.push(option.at),
                (kind::STATISTICS, _) => longs.push(option.at),
                _ => {}
            }
        }
        for (size, places) in [(2, shorts), (4, words), (8, longs)] {
            for at in places {
                out[start + at..start + at + size].reverse();
            }
        }
    }
    out
}

fn check(bytes: &[u8], packets: &[(i64, Vec<u8>, Vec<u8>, PacketRecord)]) {
    let mut frames = Frames::new(bytes).unwrap();
    assert_eq!(frames.format(), Format::Pcapng);
    for (unix_ns, front, rest, record) in packets {
        let frame = frames.next_frame().unwrap().expect("as many as were written");
        assert_eq!(frame.unix_ns, Some((*unix_ns).max(0)));
        assert_eq!(frame.data, [front.as_slice(), rest].concat());
        assert_eq!((frame.link_type, frame.direction, frame.record), (1, 1, Some(*record)));
    }
    assert_eq!(frames.next_frame().unwrap(), None);
    assert_eq!(frames.torn(), None);
    assert_eq!(frames.interface(0), "wire");
}

/// The file with a comment at its packet, where it is one still.
fn commented(bytes: &[u8], text: &str, add: bool) -> Result<Vec<u8>, String> {
    let (mut blocks, mut section, mut out) = (Blocks::new(bytes), Section::new(), Vec::new());
    while let Some(block) = blocks.next_block().map_err(|why| why.to_string())? {
        let mut copy = block.bytes.to_vec();
        if let Content::Packet(packet) = section.take(&block).map_err(|why| why.to_string())? {
            comment::put(&mut copy, block.order, packet.options.begin(), text, add)?;
        }
        out.extend(copy);
    }
    Ok(out)
}

/// The options of the only packet.
fn options(bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let (mut blocks, mut section, mut all) = (Blocks::new(bytes), Section::new(), Vec::new());
    while let Some(block) = blocks.next_block().unwrap() {
        if let Content::Packet(packet) = section.take(&block).unwrap() {
            all.extend(packet.options.map(Result::unwrap).map(|o| (o.code, o.value.to_vec())));
        }
    }
    all
}

proptest! {
    #[test]
    fn what_is_written_is_read(packets in proptest::collection::vec(
        (
            any::<i64>(),
            proptest::collection::vec(any::<u8>(), 0..20),
            proptest::collection::vec(any::<u8>(), 0..90),
            record(),
        ),
        0..8,
    )) {
        let bytes = file(&packets);
        check(&bytes, &packets);
        let other = turned(&bytes);
        check(&other, &packets);
        // Two sections, of either byte order.
        let mut both = bytes.clone();
        both.extend_from_slice(&other);
        let mut twice = packets.clone();
        twice.extend_from_slice(&packets);
        check(&both, &twice);
    }

    #[test]
    fn a_torn_file_is_read_up_to_there(cut in 0usize..400) {
        let record = PacketRecord {
            method: 1,
            stamped_by: StampedBy::Realtime,
            quality: Quality::Uncounted,
            counted: None,
            generation: 0,
            bound_ns: None,
        };
        let packets: Vec<_> =
            (0..3).map(|n| (n, vec![n as u8; 14], vec![1; 20], record)).collect();
        let bytes = file(&packets);
        let cut = cut.min(bytes.len());
        let mut ends = vec![0];
        let mut blocks = Blocks::new(bytes.as_slice());
        while blocks.next_block().unwrap().is_some() {
            ends.push(blocks.offset() as usize);
        }
        let mut blocks = Blocks::new(&bytes[..cut]);
        loop {
            match blocks.next_block() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(ReadError::Foreign(_)) => {
                    // Of less than a word nothing can be told.
                    prop_assert!(cut < 4);
                    return Ok(());
                }
                Err(why) => panic!("{why}"),
            }
        }
        let whole = ends.iter().copied().filter(|end| *end <= cut).max().unwrap();
        prop_assert_eq!(blocks.offset() as usize, whole);
        let torn = blocks.torn();
        prop_assert_eq!(torn.is_some(), whole != cut);
        if let Some(torn) = torn {
            prop_assert_eq!((torn.offset, torn.there), (whole as u64, (cut - whole) as u64));
        }
    }

    #[test]
    fn a_comment_takes_the_place_of_its_like_and_of_nothing_else(
        record in record(),
        data in proptest::collection::vec(any::<u8>(), 0..40),
        old in proptest::collection::vec("[^\\p{Cc}]{0,40}", 0..3),
        little: bool,
        add: bool,
        at: usize,
    ) {
        let mut bytes = Vec::new();
        write::section(&mut bytes).end();
        write::interface(&mut bytes, 1, 0).end();
        let mut packet = write::packet(&mut bytes, 0, 5, &[&data], 99).comment("of a person");
        for text in &old {
            packet = packet.comment(&format!("{}{text}", comment::BEGINNING));
        }
        packet.record(&record.encode()).end();
        let bytes = if little { bytes } else { turned(&bytes) };
        let text = comment::text(&record, Some("synchronised"));
        let anew = commented(&bytes, &text, add).unwrap();
        let mut expected = vec![(code::COMMENT, b"of a person".to_vec())];
        if !old.is_empty() {
            expected.push((code::COMMENT, text.clone().into_bytes()));
        }
        let ours = options(&bytes).pop().unwrap();
        expected.push(ours);
        if old.is_empty() && add {
            expected.push((code::COMMENT, text.clone().into_bytes()));
        }
        prop_assert_eq!(options(&anew), expected);
        // Once more changes nothing; the packet itself is what it was.
        prop_assert_eq!(&commented(&anew, &text, add).unwrap(), &anew);
        let mut frames = Frames::new(anew.as_slice()).unwrap();
        let frame = frames.next_frame().unwrap().unwrap();
        prop_assert_eq!((frame.data, frame.record), (data.as_slice(), Some(record)));
        // Damage anywhere is an error or none, and never a panic.
        let mut damaged = bytes.clone();
        let at = at % damaged.len();
        damaged[at] ^= 0x55;
        let _ = commented(&damaged, &text, add);
    }

    #[test]
    fn any_bytes_do_no_harm(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), good: bool) {
        if good {
            let mut front = file(&[]);
            front.append(&mut bytes);
            bytes = front;
        }
        if let Ok(mut frames) = Frames::new(bytes.as_slice()) {
            while let Ok(Some(_)) = frames.next_frame() {}
        }
        let _ = records::read(&bytes);
        if let Ok(mut pcap) = Pcap::new(bytes.as_slice()) {
            while let Ok(Some(_)) = pcap.next_packet() {}
        }
    }

    #[test]
    fn marks_go_there_and_back(unix_ns: i64, value: u64) {
        for kind in [MarkKind::Down, MarkKind::Up, MarkKind::Gone, MarkKind::Unwritten] {
            let mark = Mark { kind, unix_ns, value };
            let mut option = vec![0; 4];
            option.extend_from_slice(&mark.encode());
            prop_assert_eq!(records::read(&option), Ok(Some(Record::Mark(mark))));
        }
    }
}

#[test]
fn records_of_others_and_of_later_versions_are_left_alone() {
    assert_eq!(records::read(b"\0\0\0\0something"), Ok(None));
    assert_eq!(records::read(b""), Ok(None));
    assert_eq!(
        records::read(b"\0\0\0\0TChm\x02Pwhatever"),
        Ok(Some(Record::Unknown { version: 2, kind: b'P' }))
    );
    assert!(records::read(b"\0\0\0\0TChm\x01Pshort").is_err());
    assert!(records::read(b"\0\0\0\0TChm").is_err());
    let json = r#"{"a":1}"#;
    let mut option = vec![0; 4];
    option.extend_from_slice(&records::change(json));
    assert_eq!(records::read(&option), Ok(Some(Record::Change(json))));
}

#[test]
fn damage_is_named_with_its_place() {
    let told = |bytes: &[u8]| {
        let mut blocks = Blocks::new(bytes);
        let mut section = Section::new();
        loop {
            match blocks.next_block() {
                Ok(None) => return "nothing".to_owned(),
                Err(why) => return why.to_string(),
                Ok(Some(block)) => {
                    if let Err(why) = section.take(&block) {
                        return why.to_string();
                    }
                }
            }
        }
    };
    let good = file(&[]);
    assert_eq!(told(&good), "nothing");
    let with = |place: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[place] = byte;
        told(&bytes)
    };
    let first = Blocks::new(good.as_slice()).next_block().unwrap().unwrap().bytes.len();
    assert_eq!(
        with(4, 13),
        "block 1 at byte 0: type 0xa0d0d0a with a length of 13 bytes: must be a multiple of 4 \
         from 12 to 16777216"
    );
    assert_eq!(with(12, 7), "block 1 at byte 0: version 7 of pcapng, 1 is known");
    assert!(with(8, 7).starts_with("block 1 at byte 0: byte-order magic"));
    assert!(with(first - 4, 8).contains("bytes long, but 8 at its end"));
    let mut packet = good.clone();
    write::packet(&mut packet, 3, 0, &[b"x"], 1).end();
    assert!(told(&packet).ends_with("a packet of interface 3, of which there are 1"));
    let mut long = good.clone();
    let start = long.len();
    write::packet(&mut long, 0, 0, &[b"xxxx"], 4).end();
    long[start + 20] = 200;
    assert!(told(&long).ends_with("a packet of 200 bytes where 4 are left"), "{}", told(&long));
    assert_eq!(told(b"GIF89a.."), "no capture: it begins with 0x38464947, neither pcapng nor pcap");
    assert_eq!(told(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0]), "compressed by gzip; unpack it first (zcat)");
}

fn pcap(magic: u32, order: Order) -> Vec<u8> {
    let word = |value: u32| order.bytes(value);
    let mut out = Vec::new();
    let version = match order {
        Order::Little => [2, 0, 4, 0],
        Order::Big => [0, 2, 0, 4],
    };
    for field in [word(magic), version, word(0), word(0), word(100), word(113)] {
        out.extend_from_slice(&field);
    }
    for (seconds, part) in [(1_700_000_000, 123_456), (1_700_000_001, 7)] {
        for field in [seconds, part, 5, 50] {
            out.extend_from_slice(&word(field));
        }
        out.extend_from_slice(b"bytes");
    }
    out
}

#[test]
fn pcap_is_read_in_both_orders_and_units() {
    for order in [Order::Little, Order::Big] {
        for (magic, unit) in [(0xa1b2_c3d4, 1000), (0xa1b2_3c4d, 1)] {
            let bytes = pcap(magic, order);
            let mut frames = Frames::new(Cursor::new(&bytes)).unwrap();
            assert_eq!(frames.format(), Format::Pcap);
            let first = frames.next_frame().unwrap().unwrap();
            assert_eq!(first.unix_ns, Some(1_700_000_000_000_000_000 + 123_456 * unit));
            assert_eq!((first.data, first.length, first.link_type), (&b"bytes"[..], 50, 113));
            assert!(frames.next_frame().unwrap().is_some());
            assert!(frames.next_frame().unwrap().is_none());
            assert_eq!(frames.torn(), None);

            let mut torn = Frames::new(&bytes[..bytes.len() - 2]).unwrap();
            while torn.next_frame().unwrap().is_some() {}
            let told = torn.torn().unwrap().to_string();
            assert_eq!(
                told,
                "ends in the midst of block 2 at byte 45, after 19 of its 21 bytes: readable up \
                 to there"
            );
        }
        for magic in [0xa1b2_cd34, 0xa1b2_34cd] {
            let told = Frames::new(pcap(magic, order).as_slice()).unwrap_err().to_string();
            assert!(told.contains("is not read; make pcapng of it"), "{told}");
        }
    }
}

#[test]
fn texts_are_cut_and_made_plain() {
    let mut out = Vec::new();
    let long = "ä".repeat(10_000);
    write::section(&mut out).comment("a\nb\x1b[1m").comment(&long).end();
    let mut blocks = Blocks::new(out.as_slice());
    let block = blocks.next_block().unwrap().unwrap();
    let mut section = Section::new();
    let Content::Section(options) = section.take(&block).unwrap() else { panic!() };
    let texts: Vec<_> = options.map(|o| o.unwrap().value).collect();
    assert_eq!(texts[0], b"a b [1m");
    assert_eq!(texts[1].len(), 8192);
    assert!(std::str::from_utf8(texts[1]).is_ok());
}
