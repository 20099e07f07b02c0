//! Encoding of what we know of packets and clocks, as blocks.

use truechimer_pcapng::records::{self, PacketRecord, StampedBy};
use truechimer_pcapng::{Order, code, kind, write};
use truechimer_time::Span;
use truechimer_timehands::Status;

use super::FileOptions;
use crate::convert::Change;
use crate::{Direction, Facts, KernelClock, Method, Packet, Quality, RawStamp, Stamped};

/// Where a VLAN tag belongs.
const TAG_AT: usize = 12;

/// The most bytes of a record that an option can hold, with the enterprise number.
const MOST_RECORD: usize = u16::MAX as usize - 4;

/// The number of a method in files.
pub fn method(method: Method) -> u8 {
    match method {
        Method::Packet => 1,
        Method::Hardware => 2,
        Method::Xdp => 3,
        Method::XdpCopy => 4,
    }
}

/// The record of a packet's stamp.
pub fn record(method: u8, stamp: RawStamp, stamped: &Stamped) -> PacketRecord {
    PacketRecord {
        method,
        stamped_by: match stamp {
            RawStamp::Count(_) => StampedBy::Counter,
            RawStamp::Clock(KernelClock::Realtime, _) => StampedBy::Realtime,
            RawStamp::Clock(KernelClock::Monotonic, _) => StampedBy::Monotonic,
            RawStamp::Clock(KernelClock::Device, _) => StampedBy::Device,
            RawStamp::Missing => StampedBy::Nothing,
        },
        quality: match (stamped.quality, stamped.counted) {
            (Quality::Bounded, Some(_)) => records::Quality::Bounded,
            (Quality::Unsynchronised, _) => records::Quality::Unsynchronised,
            (Quality::Bounded | Quality::Uncounted, _) => records::Quality::Uncounted,
        },
        counted: stamped.counted.map(|c| (c.count, c.error, c.epoch)),
        generation: stamped.generation,
        bound_ns: stamped.bound.and_then(bound_ns),
    }
}

/// A bound as a packet's record has it: in whole ns, rounded up; `None` if it is too large for
/// that, 4.29 s.
#[must_use]
pub fn bound_ns(bound: Span) -> Option<u32> {
    let nanos = bound.as_nanos();
    let up = i128::from(Span::from_nanos_wide(nanos) < bound);
    u32::try_from(nanos + up).ok().filter(|bound| *bound != u32::MAX)
}

/// Status of the clock in a packet's comment.
#[must_use]
pub fn clock(status: Option<Status>) -> String {
    status.map_or_else(|| "none".to_owned(), |status| status.to_string())
}

/// The record of a change; none if it is too long for an option, which no real one is.
pub fn change(change: &Change) -> Option<Vec<u8>> {
    let json = serde_json::to_string(change).ok()?;
    Some(records::change(&json)).filter(|record| record.len() <= MOST_RECORD)
}

/// Writes the block of a packet of the interface of this number.
pub fn packet(
    out: &mut Vec<u8>,
    (interface, packet): (u32, &Packet<'_>),
    stamped: &Stamped,
    record: &[u8],
    snap_length: u32,
    more: &[Attached],
) {
    let whole = packet.data;
    let [front, tag, rest] = match (&packet.tag, whole.split_at_checked(TAG_AT)) {
        (Some(tag), Some((front, rest))) => [front, tag.as_slice(), rest],
        _ => [whole, &[], &[]],
    };
    // With the tag it may be longer than asked for.
    let most = (snap_length as usize).max(TAG_AT).saturating_sub(front.len());
    let tag = tag.get(..most).unwrap_or(tag);
    let rest = rest.get(..most - tag.len().min(most)).unwrap_or(rest);
    let tagged = if packet.tag.is_some() { 4 } else { 0 };
    let length = packet.length.saturating_add(tagged);
    let mut block = write::packet(out, interface, stamped.unix_ns, &[front, tag, rest], length);
    block = match packet.direction {
        Direction::In => block.option(code::FLAGS, &1u32.to_le_bytes()),
        Direction::Out => block.option(code::FLAGS, &2u32.to_le_bytes()),
        Direction::Unknown => block,
    };
    if packet.queue != 0 {
        block = block.option(code::QUEUE, &u32::from(packet.queue).to_le_bytes());
    }
    block = block.record(record);
    attach(block, more).end();
}

/// Attachments to the next block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Attached {
    /// A record of ours.
    Record(Vec<u8>),
    /// A text for people.
    Comment(String),
}

/// Adds what travels with a block.
pub fn attach<'v>(block: write::Building<'v>, more: &[Attached]) -> write::Building<'v> {
    more.iter().fold(block, |block, attached| match attached {
        Attached::Record(record) => block.record(record),
        Attached::Comment(text) => block.comment(text),
    })
}

/// Writes what a file begins with.
pub fn head(out: &mut Vec<u8>, comments: &[String]) {
    let system = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let application = concat!("Truechimer ", env!("CARGO_PKG_VERSION"));
    let section = write::section(out)
        .text(code::HARDWARE, std::env::consts::ARCH)
        .text(code::SYSTEM, format!("Linux {}", system.trim()).trim())
        .text(code::APPLICATION, application);
    comments.iter().fold(section, |section, text| section.comment(text)).end();
}

/// Writes the block of the next interface, of a capture with these options. The host stands in its description: programs
/// that merge files keep interfaces apart whose descriptions differ, and of sections have the first one only.
pub fn interface(out: &mut Vec<u8>, facts: &Facts, options: &FileOptions, more: &[Attached]) {
    let Facts { interface, method, detail, link_type, snap_length, stamped_by, .. } = facts;
    let mut block = write::interface(out, *link_type, *snap_length).text(code::NAME, interface);
    if let Some(host) = &options.host {
        block = block.text(code::DESCRIPTION, &records::at_host(host));
    }
    if let Some(filter) = &options.filter {
        // 0: in the words of libpcap.
        let value = [&[0], filter.as_bytes()].concat();
        block = block.option(code::FILTER, &value);
    }
    let method = format!("method {method} ({detail}), stamped by {stamped_by}");
    attach(block.comment(&method), more).end();
}

/// Where each of these blocks ends.
pub fn ends(blocks: &[u8]) -> impl Iterator<Item = usize> + '_ {
    blocks_of(blocks).map(|(.., end)| end)
}

/// Number of these blocks that are packets of the interface of this number.
pub fn packets(blocks: &[u8], interface: u32) -> u64 {
    let wanted = (kind::PACKET, Some(interface));
    blocks_of(blocks).filter(|(block, of, _)| (*block, *of) == wanted).count() as u64
}

/// Type, interface (of a packet) and end of each of these blocks, which we wrote.
fn blocks_of(blocks: &[u8]) -> impl Iterator<Item = (u32, Option<u32>, usize)> + '_ {
    let mut at = 0usize;
    std::iter::from_fn(move || {
        let block = Order::Little.u32(blocks, at)?;
        let length = Order::Little.u32(blocks, at + 4)?;
        let interface = Order::Little.u32(blocks, at + 8);
        at = at.checked_add(length as usize).filter(|end| *end <= blocks.len() && length > 0)?;
        Some((block, interface, at))
    })
}
