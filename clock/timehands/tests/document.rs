//! `docs/reference/clock-page.md` against the code: a page is read by the document's tables and arithmetic
//! alone, and has to say what was written.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use std::collections::BTreeMap;
use std::fs;

use common::{Scratch, derived};
use truechimer_time::{Count, CountSpan, Leaps, Rate};
use truechimer_timehands::{
    ByRaw, Kept, Made, Marker, PATIENCE, PageReader, PageWriter, Reference, layout,
};

const DOCUMENT: &str = include_str!("../../../docs/reference/clock-page.md");

/// A field as the document has it.
#[derive(Clone, Debug)]
struct Field {
    offset: usize,
    size: usize,
    kind: String,
}

/// The fields in the table under a heading, by name.
fn table(heading: &str) -> BTreeMap<String, Field> {
    let section = DOCUMENT.split(heading).nth(1).unwrap();
    let section = section.split("\n#").next().unwrap();
    let rows = section.lines().filter_map(|line| {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let field = Field {
            offset: cells.get(1)?.parse().ok()?,
            size: cells.get(2)?.parse().ok()?,
            kind: (*cells.get(3)?).to_owned(),
        };
        Some((cells.get(4)?.trim_matches('`').to_owned(), field))
    });
    rows.collect()
}

fn file_table() -> BTreeMap<String, Field> {
    table("### The file: 4096 bytes")
}

fn hand_table() -> BTreeMap<String, Field> {
    table("### A hand: 256 bytes")
}

fn beside_table() -> BTreeMap<String, Field> {
    table("### Beside a hand: 64 bytes")
}

/// A page, or a hand in it, to be read by a table.
struct Bytes<'a>(&'a [u8], BTreeMap<String, Field>);

impl Bytes<'_> {
    fn get(&self, name: &str) -> i128 {
        let field = &self.1[name];
        let bytes = &self.0[field.offset..field.offset + field.size];
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
        match field.kind.as_str() {
            "u32" => u32::from_ne_bytes(bytes.try_into().unwrap()).into(),
            "u64" => word(0).into(),
            "i64" => (word(0) as i64).into(),
            // The upper half first; the few u128 that exceed an i128 are read as bits.
            "i128" | "u128" => ((u128::from(word(0)) << 64) | u128::from(word(8))) as i128,
            kind => panic!("type {kind}"),
        }
    }

    /// Bits `from..=to` of a field.
    fn bits(&self, name: &str, from: u32, to: u32) -> u64 {
        (self.get(name) as u64) << (63 - to) >> (63 - to + from)
    }
}

#[test]
fn every_byte_has_one_meaning() {
    for (table, size) in [
        (file_table(), layout::HANDS_OFFSET),
        (hand_table(), layout::HAND_SIZE),
        (beside_table(), layout::BESIDE_SIZE),
    ] {
        let mut used = vec![false; size];
        for (name, field) in &table {
            let width = match field.kind.as_str() {
                "u32" => 4,
                "u64" | "i64" => 8,
                _ => 16,
            };
            assert_eq!(width, field.size, "{name}");
            assert_eq!(field.offset % field.size.min(8), 0, "{name} is aligned");
            for byte in &mut used[field.offset..field.offset + field.size] {
                assert!(!std::mem::replace(byte, true), "{name} overlaps another field");
            }
        }
    }
    assert_eq!((file_table().len(), hand_table().len(), beside_table().len()), (12, 25, 6));
    assert!(DOCUMENT.contains(&format!(
        "at {} + *i* · {}.",
        layout::BESIDE_OFFSET,
        layout::BESIDE_SIZE
    )));
}

#[test]
fn a_page_reads_as_documented() {
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    let mut writer = PageWriter::create(&path).unwrap();
    // Two rounds of the ring, so that every slot was used twice.
    for generation in 1..=16 {
        let (hand, made) = derived(generation);
        writer.mark(marker(generation));
        writer.publish(&hand, &made);
    }
    writer.heartbeat(Count(4242));
    assert_eq!(Bytes(&fs::read(&path).unwrap(), file_table()).get("reference"), 0);
    let id = [192, 0, 2, 7];
    writer.follow(Some(Reference { stratum: 3, id, port: 1123, ipv6: true }));
    writer.deviate(Some(Rate(77)));
    assert_eq!(Bytes(&fs::read(&path).unwrap(), file_table()).get("kept-at"), 0);
    writer.keep(Kept { wide: Count(4243), at_ns: 77_000_000_000 });
    let bytes = fs::read(&path).unwrap();
    let page = Bytes(&bytes, file_table());

    assert_eq!(page.bits("reference", 0, 31), 0xc000_0207);
    assert_eq!((page.bits("reference", 32, 47), page.bits("reference", 48, 55)), (1123, 3));
    assert_eq!(page.bits("reference", 56, 63), 3);
    assert_eq!(page.get("difference-deviation"), 77);
    writer.deviate(None);
    assert_eq!(Bytes(&fs::read(&path).unwrap(), file_table()).get("difference-deviation"), 0);
    assert_eq!(page.get("magic"), layout::MAGIC.into());
    let magic = format!("0x{:016X}", layout::MAGIC);
    assert!(DOCUMENT.contains(&magic), "the document names {magic}");
    assert_eq!(page.get("version"), layout::VERSION.into());
    assert!(DOCUMENT.contains(&format!("\nVersion {}.", layout::VERSION)));
    assert_eq!(page.get("size"), bytes.len() as i128);
    assert_eq!(page.get("writer"), std::process::id().into());
    assert_eq!((page.get("sequence"), page.get("heartbeat")), (16, 4243));
    assert_eq!(page.get("kept-at"), 77_000_000_000);

    let (start, step) = (page.get("hands-offset") as usize, page.get("hand-size") as usize);
    let hands = page.get("hands") as usize;
    assert_eq!((start, step), (layout::HANDS_OFFSET, layout::HAND_SIZE));
    for generation in 9..=16 {
        let at = start + generation as usize % hands * step;
        documented(&bytes[at..at + step], generation);
        let at = layout::BESIDE_OFFSET + generation as usize % hands * layout::BESIDE_SIZE;
        documented_beside(&bytes[at..at + layout::BESIDE_SIZE], generation);
    }

    // Bytes that no table names are zero.
    let mut rest = bytes.clone();
    for field in file_table().values() {
        rest[field.offset..field.offset + field.size].fill(0);
    }
    for hand in 0..hands {
        for field in hand_table().values() {
            let at = start + hand * step + field.offset;
            rest[at..at + field.size].fill(0);
        }
        for field in beside_table().values() {
            let at = layout::BESIDE_OFFSET + hand * layout::BESIDE_SIZE + field.offset;
            rest[at..at + field.size].fill(0);
        }
    }
    assert!(rest.iter().all(|byte| *byte == 0));
}

/// Disruption marker of such a hand: none, one of a device in each of the places, the value 0.
fn marker(generation: u64) -> Option<Marker> {
    let device = [0, 7, Marker::ELSEWHERE][generation as usize % 3];
    let value = if generation.is_multiple_of(2) { 0 } else { generation << 50 | 1 };
    (!generation.is_multiple_of(5)).then_some(Marker { device, value })
}

/// A hand's bytes say what its fields do.
fn documented(bytes: &[u8], generation: u64) {
    let (hand, made) = derived(generation);
    let read = Bytes(bytes, hand_table());
    let get = |name| read.get(name);

    assert_eq!(get("generation"), generation.into());
    assert_eq!(get("base"), hand.base.0.into());
    assert_eq!(get("time"), hand.time.0);
    assert_eq!(get("growth"), hand.growth.0.into());
    assert_eq!(read.bits("state", 0, 7), hand.counter.kind as u64);
    assert_eq!(read.bits("state", 8, 15), hand.status as u64);
    assert_eq!(read.bits("state", 16, 31), 0);
    assert_eq!(read.bits("state", 32, 63), hand.counter.epoch.0.into());
    assert_eq!(get("bound"), hand.bound().0);
    assert_eq!(get("path-bound"), hand.path_bound.0);
    assert_eq!(get("disputed") << 32, hand.disputed.0);
    assert_eq!(get("void-after"), hand.void_after.0.into());
    assert_eq!(get("patience"), hand.period.counts(PATIENCE).0.into());
    assert_eq!(get("difference-error"), hand.difference_error.0.into());
    assert_eq!(get("boot") as u128, u128::from_be_bytes(hand.counter.boot.0));
    assert_eq!(get("made"), made.count.0.into());
    assert_eq!(get("made-monotonic"), made.monotonic_ns.into());
    assert_eq!(get("made-raw"), made.raw_ns.into());
    assert_eq!(get("made-suspended"), made.suspended_ns.into());

    assert_eq!(get("bits"), made.device.map_or(0, |device| device.bits.into()));
    let by_raw = made.device.and_then(|device| device.by_raw);
    assert_eq!(get("raw-period") != 0, by_raw.is_some());
    assert_eq!(get("raw-error"), by_raw.map_or(0, |by_raw| by_raw.error.0.into()));
    assert_eq!(get("raw-pair"), by_raw.map_or(0, |by_raw| by_raw.pair.0.into()));
    if let Some(by_raw) = by_raw {
        counts_by_the_raw_clock(&by_raw, &made, get("raw-period") as u128);
    }

    let Leaps { tai_offset, known, last, next } = hand.leaps;
    assert_eq!(read.bits("leaps", 0, 31) as i32, tai_offset);
    assert_eq!(read.bits("leaps", 32, 39) as i8, last.map_or(0, |leap| leap.step));
    assert_eq!(read.bits("leaps", 40, 47) as i8, next.map_or(0, |leap| leap.step));
    assert_eq!(read.bits("leaps", 48, 63), known.into());
    assert_eq!(get("last-leap"), last.map_or(0, |leap| leap.at).into());
    assert_eq!(get("next-leap"), next.map_or(0, |leap| leap.at).into());

    for d in [0, 1, -1, 26, 1 << 40, -(1 << 40), 1 << 58] {
        // ⌊d · period / 2⁶⁴⌋, as d · upper + ⌊d · lower / 2⁶⁴⌋.
        let product = |name| {
            let period = get(name) as u128;
            let (upper, lower) = ((period >> 64) as i128, i128::from(period as u64));
            d * upper + ((d * lower) >> 64)
        };
        let count = hand.base + CountSpan(d as i64);
        let span = product("period");
        assert_eq!(get("time") + span, hand.time_at(count).0);
        // Small enough here for one multiplication: |span| < 2⁹⁴, growth < 2²⁰.
        assert_eq!(get("bound") + ((span.abs() * get("growth")) >> 64), hand.bound_at(count).0);
        let (length, error) = hand.elapsed(CountSpan(d as i64));
        assert_eq!(product("difference"), length.0);
        assert_eq!((length.0.abs() * get("difference-error")) >> 64, error.0);
    }
}

/// Words beside a hand say the rest.
fn documented_beside(bytes: &[u8], generation: u64) {
    let hand = derived(generation).0;
    let read = Bytes(bytes, beside_table());
    assert_eq!(read.get("of"), generation.into());
    assert_eq!(read.get("imbalance") << 32, hand.imbalance.0);
    let marker = marker(generation);
    assert_eq!(read.get("vmclock"), marker.map_or(0, |marker| i128::from(marker.device) + 1));
    assert_eq!(read.get("marker"), marker.map_or(0, |marker| marker.value.into()));
    let (half, growth) = hand.likely.map_or((0, 0), |l| (l.half.0, l.growth.0));
    assert_eq!((read.get("likely") << 32, read.get("likely-growth")), (half, growth.into()));
    for d in [0, 1, -1, 1 << 40] {
        let count = hand.base + CountSpan(d);
        let (span, bound) = ((hand.time_at(count) - hand.time).0.abs(), hand.bound_at(count).0);
        let imbalance = read.get("imbalance") << 32;
        let [before, after] = hand.reach_at(count).map(|reach| reach.0);
        assert_eq!((before, after), (bound - imbalance.max(0), bound - (-imbalance).max(0)));
        let grown = (read.get("likely") << 32) + ((span * read.get("likely-growth")) >> 64);
        let likely = hand.likely_at(count).map(|likely| likely.0);
        assert_eq!(likely, (half > 0).then_some(grown.min(bound)));
    }
}

/// A daemon of before there was anything beside a hand leaves there what it found: it is not taken
/// for its own hand's.
#[test]
fn what_stands_beside_another_hand_does_not_count() {
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    let mut writer = PageWriter::create(&path).unwrap();
    let (hand, made) = derived(6);
    assert!(hand.imbalance != truechimer_time::Span::ZERO && hand.likely.is_some());
    writer.publish(&hand, &made);
    let beside = |reader: &PageReader| reader.read().map(|(hand, _)| (hand.imbalance, hand.likely));
    let reader = PageReader::open(&path).unwrap();
    assert_eq!(beside(&reader), Some((hand.imbalance, hand.likely)));
    // As that daemon would have left it: another generation's.
    let of = layout::BESIDE_OFFSET + layout::BESIDE_SIZE;
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &9u64.to_ne_bytes(), of as u64).unwrap();
    assert_eq!(beside(&reader), Some((truechimer_time::Span::ZERO, None)));
}

/// A writer that ends without having published anything says again what it found, marker and all.
#[test]
fn a_marker_lasts_until_another_is_said() {
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    let mut writer = PageWriter::create(&path).unwrap();
    let (hand, made) = derived(6);
    let hand =
        truechimer_timehands::Hand { status: truechimer_timehands::Status::Synchronised, ..hand };
    let marked = Some(Marker { device: 3, value: u64::MAX });
    writer.mark(marked);
    writer.publish(&hand, &made);
    drop(writer);
    let writer = PageWriter::create(&path).unwrap();
    assert_eq!(writer.marker(), marked);
    drop(writer);
    let reader = PageReader::open(&path).unwrap();
    let newest = |reader: &PageReader| reader.newest_in_full().unwrap().unwrap();
    assert_eq!((newest(&reader).marker, newest(&reader).hand.imbalance), (marked, hand.imbalance));
    let mut writer = PageWriter::create(&path).unwrap();
    writer.mark(None);
    writer.publish(&hand, &made);
    assert_eq!(newest(&reader).marker, None);
    // Numbers that no device has, and a value without a device.
    let generation = newest(&reader).generation as usize % 8;
    let at = layout::BESIDE_OFFSET + generation * layout::BESIDE_SIZE + 32;
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    for (device, value) in [(1u64 << 16, 1u64), (1 << 32, 0), (0, 1)] {
        let bytes = [device.to_ne_bytes(), value.to_ne_bytes()].concat();
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes, at as u64).unwrap();
        let corrupt = reader.newest_in_full().unwrap_err();
        assert_eq!(corrupt.field, "disruption marker", "{device} {value}");
    }
}

/// The document's formula for counts by the raw clock, in exact numbers, against the code's.
fn counts_by_the_raw_clock(by_raw: &ByRaw, made: &Made, raw_period: u128) {
    for r in [0u128, 1, 999_999_999, 64_000_000_000, 4_096_000_000_000] {
        // r ns are r · 2¹²⁸ / 10⁹ units of the period, of which 44 bits are dropped to make room.
        let counts = |ns: u128| (((ns << 84) / 1_000_000_000) / (raw_period >> 44)) as i64;
        let (count, within) = by_raw.count(made, made.raw_ns + r as i64).unwrap();
        let off = (count - (made.count + CountSpan(counts(r)))).0.abs();
        assert!(off <= 1, "{r} ns: {off} counts");
        let drift = (r * by_raw.error.0 as u128) >> 64;
        let said = counts(drift + 2) + by_raw.pair.0 + 2;
        assert!((within.0 - said).abs() <= 2, "{r} ns: within {within:?}, the document {said}");
    }
}
