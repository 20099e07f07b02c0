//! The older format.

use std::io::{self, Read};

use crate::block::{MOST_BYTES, Torn};
use crate::error::ReadError;
use crate::order::Order;

/// Microseconds, nanoseconds.
const MICRO: u32 = 0xa1b2_c3d4;
const NANO: u32 = 0xa1b2_3c4d;
/// Patched and private varieties, whose packets have other headers.
const OTHERS: [(u32, &str); 4] = [
    (0xa1b2_cd34, "Alexey Kuznetsov's modified pcap"),
    (0xa1b2_34cd, "Navtel's pcap"),
    (0xa1e2_cb12, "Alexey Kuznetsov's old modified pcap"),
    (0xa1b2_c3cd, "a pcap with another packet header"),
];

/// Kind of a file that is no pcapng, for people.
pub(crate) fn foreign(head: &[u8]) -> String {
    let Some(magic) = Order::Little.u32(head, 0) else {
        return "too short for a capture".to_owned();
    };
    for (known, name) in OTHERS {
        if magic == known || magic.swap_bytes() == known {
            return format!(
                "{name} (magic {magic:#010x}) is not read; make pcapng of it: editcap IN OUT"
            );
        }
    }
    if matches!(magic, MICRO | NANO) || matches!(magic.swap_bytes(), MICRO | NANO) {
        return "a pcap file, not a pcapng".to_owned();
    }
    match head {
        [0x1f, 0x8b, ..] => "compressed by gzip; unpack it first (zcat)".to_owned(),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "compressed by zstd; unpack it first (zstdcat)".to_owned(),
        _ => format!("no capture: it begins with {magic:#010x}, neither pcapng nor pcap"),
    }
}

/// One packet of a pcap file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PcapPacket<'a> {
    /// Unix time in ns; `None` beyond 2262.
    pub unix_ns: Option<i64>,
    /// Length on the wire, in bytes.
    pub length: u32,
    /// Bytes that were kept of it.
    pub data: &'a [u8],
}

/// Reads a pcap file, one packet at a time.
#[derive(Debug)]
pub struct Pcap<R> {
    input: R,
    order: Order,
    nanos: bool,
    link_type: u16,
    snap_length: u32,
    number: u64,
    offset: u64,
    buffer: Vec<u8>,
    torn: Option<Torn>,
    over: bool,
}

impl Pcap<&[u8]> {
    /// True if a file that begins so is one.
    #[must_use]
    pub fn is_one(head: &[u8]) -> bool {
        let magic = Order::Little.u32(head, 0).map(|m| (m, m.swap_bytes()));
        magic.is_some_and(|(a, b)| [MICRO, NANO].iter().any(|known| *known == a || *known == b))
    }
}

impl<R: Read> Pcap<R> {
    /// Reads the head of the file.
    ///
    /// # Errors
    /// If it is another file, or too short.
    pub fn new(mut input: R) -> Result<Pcap<R>, ReadError> {
        let mut head = Vec::new();
        input
            .by_ref()
            .take(24)
            .read_to_end(&mut head)
            .map_err(|why| ReadError::Io { offset: 0, why })?;
        let (order, nanos) = match Order::Little.u32(&head, 0).map(|m| (m, m.swap_bytes())) {
            Some((MICRO, _)) => (Order::Little, false),
            Some((NANO, _)) => (Order::Little, true),
            Some((_, MICRO)) => (Order::Big, false),
            Some((_, NANO)) => (Order::Big, true),
            _ => return Err(ReadError::Foreign(foreign(&head))),
        };
        let (Some(snap_length), Some(link), Some(major)) =
            (order.u32(&head, 16), order.u32(&head, 20), order.u16(&head, 4))
        else {
            return Err(ReadError::Foreign("a pcap file without a whole header".to_owned()));
        };
        if major != 2 {
            return Err(ReadError::Foreign(format!("version {major} of pcap, 2 is known")));
        }
        Ok(Pcap {
            input,
            order,
            nanos,
            // The upper half says how long frame check sequences are.
            link_type: link as u16,
            snap_length,
            number: 0,
            offset: 24,
            buffer: Vec::new(),
            torn: None,
            over: false,
        })
    }

    /// The link type of all packets.
    #[must_use]
    pub fn link_type(&self) -> u16 {
        self.link_type
    }

    /// At most so many bytes of each packet are kept.
    #[must_use]
    pub fn snap_length(&self) -> u32 {
        self.snap_length
    }

    /// True if times are in nanoseconds rather than microseconds.
    #[must_use]
    pub fn nanoseconds(&self) -> bool {
        self.nanos
    }

    /// Where the file ends in the midst of a packet, once that has shown.
    #[must_use]
    pub fn torn(&self) -> Option<Torn> {
        self.torn
    }

    /// The next packet; `None` at the end, or where the file ends in the midst of one
    /// ([`Pcap::torn`]).
    ///
    /// # Errors
    /// If what comes is no packet. Nothing more can be read then.
    pub fn next_packet(&mut self) -> Result<Option<PcapPacket<'_>>, ReadError> {
        if self.over {
            return Ok(None);
        }
        self.over = true;
        self.number += 1;
        self.buffer.clear();
        if !self.fill(16, None)? {
            return Ok(None);
        }
        let word = |at| self.order.u32(&self.buffer, at).unwrap_or(0);
        let (seconds, part, captured, length) = (word(0), word(4), word(8), word(12));
        if captured > MOST_BYTES {
            return Err(ReadError::Damaged {
                block: self.number,
                offset: self.offset,
                what: format!("a packet of {captured} bytes"),
            });
        }
        let whole = 16 + captured as usize;
        if !self.fill(whole, Some(whole as u64))? {
            return Ok(None);
        }
        self.over = false;
        self.offset += whole as u64;
        let part = i64::from(part) * if self.nanos { 1 } else { 1000 };
        let unix_ns = i64::from(seconds).checked_mul(1_000_000_000).map(|ns| ns + part);
        let data = self.buffer.get(16..).unwrap_or_default();
        Ok(Some(PcapPacket { unix_ns, length, data }))
    }

    fn fill(&mut self, length: usize, wanted: Option<u64>) -> Result<bool, ReadError> {
        let more = length.saturating_sub(self.buffer.len()) as u64;
        match self.input.by_ref().take(more).read_to_end(&mut self.buffer) {
            Ok(_) if self.buffer.len() >= length => Ok(true),
            Ok(_) => {
                let there = self.buffer.len() as u64;
                if there > 0 {
                    let (block, offset) = (self.number, self.offset);
                    self.torn = Some(Torn { block, offset, there, wanted });
                }
                Ok(false)
            }
            Err(why) if why.kind() == io::ErrorKind::Interrupted => self.fill(length, wanted),
            Err(why) => Err(ReadError::Io { offset: self.offset + self.buffer.len() as u64, why }),
        }
    }
}
