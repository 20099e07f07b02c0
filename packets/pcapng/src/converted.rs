//! The older format as the newer one.

use std::io::{self, Read};

use crate::pcap::Pcap;
use crate::{code, kind, write};

/// A pcap file read as pcapng: one section, one interface in the file's own units, its packets.
#[derive(Debug)]
pub struct Converted<R> {
    pcap: Pcap<R>,
    /// Bytes that were not asked for yet.
    ready: Vec<u8>,
    /// Number of these that were taken.
    taken: usize,
    is_over: bool,
}

impl<R: Read> Converted<R> {
    /// All packets of a file whose head was read.
    #[must_use]
    pub fn new(pcap: Pcap<R>) -> Converted<R> {
        let mut ready = Vec::new();
        write::section(&mut ready).end();
        let digits = if pcap.nanoseconds() { 9 } else { 6 };
        let snap_length = pcap.snap_length();
        write::interface_in(&mut ready, pcap.link_type(), snap_length, digits)
            .text(code::DESCRIPTION, "from a pcap file")
            .end();
        Converted { pcap, ready, taken: 0, is_over: false }
    }

    /// The next packet as a block; false at the end.
    fn refill(&mut self) -> io::Result<bool> {
        let per_tick = if self.pcap.nanoseconds() { 1 } else { 1000 };
        self.ready.clear();
        self.taken = 0;
        let Some(packet) = self.pcap.next_packet().map_err(io::Error::other)? else {
            // Of a file that is cut off, half a block shows it.
            let is_torn = self.pcap.torn().is_some() && !self.is_over;
            self.is_over = true;
            if is_torn {
                self.ready.extend_from_slice(&kind::PACKET.to_le_bytes());
            }
            return Ok(is_torn);
        };
        // A time beyond 2262 is none.
        let ticks = packet.unix_ns.unwrap_or(0) / per_tick;
        write::packet(&mut self.ready, 0, ticks, &[packet.data], packet.length).end();
        Ok(true)
    }
}

impl<R: Read> Read for Converted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken >= self.ready.len() {
            if !self.refill()? {
                return Ok(0);
            }
        }
        let rest = self.ready.get(self.taken..).unwrap_or_default();
        let many = rest.len().min(buffer.len());
        let (to, from) = (buffer.get_mut(..many), rest.get(..many));
        if let (Some(to), Some(from)) = (to, from) {
            to.copy_from_slice(from);
        }
        self.taken += many;
        Ok(many)
    }
}
