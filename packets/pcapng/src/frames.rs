//! The packets of a file of either format.

use std::io::{Chain, Cursor, Read};

use crate::block::{Blocks, Torn};
use crate::error::ReadError;
use crate::order::Order;
use crate::pcap::Pcap;
use crate::records::{self, PacketRecord, Record};
use crate::section::{Content, PacketBlock, Section};
use crate::{code, kind};

/// A capture format.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// The newer one.
    Pcapng,
    /// The older one.
    Pcap,
}

/// One packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// Unix time in ns, as the file has it; `None` if it has none.
    pub unix_ns: Option<i64>,
    /// Length on the wire, in bytes.
    pub length: u32,
    /// Bytes that were kept of it.
    pub data: &'a [u8],
    /// The link type, as tcpdump.org numbers them.
    pub link_type: u16,
    /// The interface's number in its section, from 0.
    pub interface: u32,
    /// The section's number in the file, from 1.
    pub section: u64,
    /// Which way it went: 0 not told, 1 it arrived, 2 it was sent.
    pub direction: u8,
    /// Our own record, if it bears one.
    pub record: Option<PacketRecord>,
}

type Input<R> = Chain<Cursor<Vec<u8>>, R>;

#[derive(Debug)]
enum Inner<R> {
    Pcapng(Box<(Blocks<Input<R>>, Section)>),
    Pcap(Box<Pcap<Input<R>>>),
}

/// Reads packets, one after the other.
#[derive(Debug)]
pub struct Frames<R> {
    inner: Inner<R>,
}

impl<R: Read> Frames<R> {
    /// Reads the beginning of a file to see what it is; `input` should be buffered.
    ///
    /// # Errors
    /// If it is no capture that can be read.
    pub fn new(mut input: R) -> Result<Frames<R>, ReadError> {
        let mut head = Vec::new();
        let read = input.by_ref().take(4).read_to_end(&mut head);
        read.map_err(|why| ReadError::Io { offset: 0, why })?;
        if head.is_empty() {
            return Err(ReadError::Foreign("the file is empty".to_owned()));
        }
        let pcapng = Order::Little.u32(&head, 0) == Some(kind::SECTION);
        let input = Cursor::new(head).chain(input);
        let inner = if pcapng {
            Inner::Pcapng(Box::new((Blocks::new(input), Section::new())))
        } else {
            Inner::Pcap(Box::new(Pcap::new(input)?))
        };
        Ok(Frames { inner })
    }

    /// Format of the file.
    #[must_use]
    pub fn format(&self) -> Format {
        match self.inner {
            Inner::Pcapng(_) => Format::Pcapng,
            Inner::Pcap(_) => Format::Pcap,
        }
    }

    /// Where the file ends in the midst of a packet, once that has shown.
    #[must_use]
    pub fn torn(&self) -> Option<Torn> {
        match &self.inner {
            Inner::Pcapng(both) => both.0.torn(),
            Inner::Pcap(pcap) => pcap.torn(),
        }
    }

    /// The name of the interface of a frame that was just read; empty if the file does not tell.
    #[must_use]
    pub fn interface(&self, number: u32) -> &str {
        match &self.inner {
            Inner::Pcapng(both) => both.1.interface(number).map_or("", |i| i.name.as_str()),
            Inner::Pcap(_) => "",
        }
    }

    /// The next packet; `None` at the end, or where the file ends in the midst of one
    /// ([`Frames::torn`]).
    ///
    /// # Errors
    /// If the file is damaged. Nothing more can be read then.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, ReadError> {
        let both = match &mut self.inner {
            Inner::Pcapng(both) => both,
            Inner::Pcap(pcap) => {
                let link_type = pcap.link_type();
                return Ok(pcap.next_packet()?.map(|packet| Frame {
                    unix_ns: packet.unix_ns,
                    length: packet.length,
                    data: packet.data,
                    link_type,
                    interface: 0,
                    section: 1,
                    direction: 0,
                    record: None,
                }));
            }
        };
        let (blocks, section) = &mut **both;
        while blocks.advance()? {
            let Some(block) = blocks.block() else { break };
            if let Content::Packet(_) = section.take(&block)? {
                break;
            }
        }
        let Some(block) = blocks.block() else { return Ok(None) };
        // Packets change nothing about the section, so that reading one twice does no harm.
        let Content::Packet(packet) = section.take(&block)? else { return Ok(None) };
        let (record, direction) =
            examine(&packet, block.order).map_err(|what| block.damaged(what))?;
        Ok(Some(Frame {
            unix_ns: section.nanos(&packet),
            length: packet.length,
            data: packet.data,
            link_type: section.interface(packet.interface).map_or(0, |i| i.link_type),
            interface: packet.interface,
            section: section.number(),
            direction,
            record,
        }))
    }
}

/// The record of ours and the direction among a packet's options.
fn examine(packet: &PacketBlock<'_>, order: Order) -> Result<(Option<PacketRecord>, u8), String> {
    let (mut record, mut direction) = (None, 0);
    for option in packet.options {
        let option = option?;
        match option.code {
            code::FLAGS => {
                direction = match order.u32(option.value, 0).map(|flags| flags & 3) {
                    Some(way @ (1 | 2)) => way as u8,
                    _ => 0,
                };
            }
            code::CUSTOM => {
                if let Some(Record::Packet(ours)) = records::read(option.value)? {
                    record = Some(ours);
                }
            }
            _ => {}
        }
    }
    Ok((record, direction))
}
