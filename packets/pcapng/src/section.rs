//! Contents of blocks.

use crate::block::Block;
use crate::error::ReadError;
use crate::options::Options;
use crate::order::padding;
use crate::ticks::Resolution;
use crate::{code, kind};

/// More interfaces than this in one section are taken for damage.
pub const MOST_INTERFACES: usize = 65_536;

/// Longer names, filters and descriptions are cut here, in bytes.
const MOST_TEXT: usize = 1024;

/// An interface, as its block describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// The link type, as tcpdump.org numbers them.
    pub link_type: u16,
    /// At most so many bytes of a packet are kept; 0 for no limit.
    pub snap_length: u32,
    /// The units of its times.
    pub resolution: Resolution,
    /// Name; empty if there is none.
    pub name: String,
    /// Description; empty if there is none.
    pub description: String,
}

/// A packet, of any of the three kinds.
#[derive(Clone, Copy, Debug)]
pub struct PacketBlock<'a> {
    /// Which interface of the section it belongs to, from 0.
    pub interface: u32,
    /// Time in the interface's units; `None` for a simple packet, which has none.
    pub ticks: Option<u64>,
    /// Where the time stands, in bytes from the start of the block: two words, the upper first.
    pub ticks_at: usize,
    /// Length on the wire, in bytes.
    pub length: u32,
    /// Bytes that were kept of it.
    pub data: &'a [u8],
    /// Options of the block.
    pub options: Options<'a>,
}

/// Counts of an interface, as far as they are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Which interface of the section.
    pub interface: u32,
    /// Packets received by it.
    pub received: Option<u64>,
    /// Dropped by it.
    pub dropped: Option<u64>,
    /// Dropped by the operating system.
    pub system_dropped: Option<u64>,
    /// Delivered to the user.
    pub delivered: Option<u64>,
}

/// Content of a block.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// A section begins; its options.
    Section(Options<'a>),
    /// An interface, with this number; its options.
    Interface(u32, Options<'a>),
    /// A packet.
    Packet(PacketBlock<'a>),
    /// Statistics; the options they were taken from.
    Statistics(Statistics, Options<'a>),
    /// Anything else.
    Other,
}

/// Knowledge of the section that is being read.
#[derive(Clone, Debug, Default)]
pub struct Section {
    interfaces: Vec<Interface>,
    number: u64,
}

impl Section {
    /// No section yet.
    #[must_use]
    pub fn new() -> Section {
        Section::default()
    }

    /// Interfaces so far.
    #[must_use]
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// The interface with this number.
    #[must_use]
    pub fn interface(&self, number: u32) -> Option<&Interface> {
        self.interfaces.get(number as usize)
    }

    /// Which section it is, from 1; 0 before the first.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Unix time of a packet in ns, if it has any that can be told.
    #[must_use]
    pub fn nanos(&self, packet: &PacketBlock<'_>) -> Option<i64> {
        self.interface(packet.interface)?.resolution.nanos(packet.ticks?)
    }

    /// Reads the next block.
    ///
    /// # Errors
    /// If it breaks the rules.
    pub fn take<'a>(&mut self, block: &Block<'a>) -> Result<Content<'a>, ReadError> {
        let (order, body) = (block.order, block.body());
        let short = || block.damaged(format!("too short for a block of type {:#x}", block.kind));
        match block.kind {
            kind::SECTION => {
                let major = order.u16(body, 4).ok_or_else(short)?;
                if major != 1 {
                    return Err(block.damaged(format!("version {major} of pcapng, 1 is known")));
                }
                // The length of the section is of no use here, and often −1.
                let options = options_at(block, 16).ok_or_else(short)?;
                self.interfaces.clear();
                self.number += 1;
                Ok(Content::Section(options))
            }
            kind::INTERFACE => {
                let link_type = order.u16(body, 0).ok_or_else(short)?;
                let snap_length = order.u32(body, 4).ok_or_else(short)?;
                let options = options_at(block, 8).ok_or_else(short)?;
                let interface = interface(block, link_type, snap_length, options)?;
                if self.interfaces.len() >= MOST_INTERFACES {
                    let what = format!("more than {MOST_INTERFACES} interfaces in a section");
                    return Err(block.damaged(what));
                }
                self.interfaces.push(interface);
                Ok(Content::Interface(self.interfaces.len() as u32 - 1, options))
            }
            kind::PACKET | kind::OLD_PACKET | kind::SIMPLE_PACKET => {
                self.packet(block).map(Content::Packet)
            }
            kind::STATISTICS => {
                let interface = order.u32(body, 0).ok_or_else(short)?;
                let options = options_at(block, 12).ok_or_else(short)?;
                let count = |code| options.find(code).and_then(|option| order.u64(option.value, 0));
                let statistics = Statistics {
                    interface,
                    received: count(code::RECEIVED),
                    dropped: count(code::DROPPED),
                    system_dropped: count(code::SYSTEM_DROPPED),
                    delivered: count(code::DELIVERED),
                };
                Ok(Content::Statistics(statistics, options))
            }
            _ => Ok(Content::Other),
        }
    }

    fn packet<'a>(&self, block: &Block<'a>) -> Result<PacketBlock<'a>, ReadError> {
        let (order, body) = (block.order, block.body());
        let short = || block.damaged("too short for a packet".to_owned());
        let word = |at| order.u32(body, at).ok_or_else(short);
        let simple = block.kind == kind::SIMPLE_PACKET;
        let number = match block.kind {
            kind::PACKET => word(0)?,
            kind::OLD_PACKET => order.u16(body, 0).ok_or_else(short)?.into(),
            _ => 0,
        };
        let Some(interface) = self.interface(number) else {
            let there = self.interfaces.len();
            let what = format!("a packet of interface {number}, of which there are {there}");
            return Err(block.damaged(what));
        };
        let (captured, length, front) = if simple {
            let length = word(0)?;
            let limit = match interface.snap_length {
                0 => u32::MAX,
                limit => limit,
            };
            (length.min(limit), length, 4_usize)
        } else {
            (word(12)?, word(16)?, 20_usize)
        };
        let data = front.checked_add(captured as usize).and_then(|end| body.get(front..end));
        let Some(data) = data else {
            let there = body.len().saturating_sub(front);
            let what = format!("a packet of {captured} bytes where {there} are left");
            return Err(block.damaged(what));
        };
        let after = front + data.len() + padding(data.len());
        let options = match simple {
            true => Options::new(order, &[], 8 + after),
            false => Options::new(order, body.get(after..).unwrap_or_default(), 8 + after),
        };
        let ticks = if simple { None } else { order.halves(body, 4) };
        Ok(PacketBlock { interface: number, ticks, ticks_at: 8 + 4, length, data, options })
    }
}

/// The options of a block whose own fields take `front` bytes.
fn options_at<'a>(block: &Block<'a>, front: usize) -> Option<Options<'a>> {
    Some(Options::new(block.order, block.body().get(front..)?, 8 + front))
}

fn interface(
    block: &Block<'_>,
    link_type: u16,
    snap_length: u32,
    options: Options<'_>,
) -> Result<Interface, ReadError> {
    let (mut byte, mut offset) = (6, 0);
    let (mut name, mut description) = (String::new(), String::new());
    for option in options {
        let option = option.map_err(|what| block.damaged(what))?;
        match option.code {
            code::RESOLUTION => byte = option.value.first().copied().unwrap_or(byte),
            code::OFFSET => {
                offset = block.order.u64(option.value, 0).unwrap_or_default() as i64;
            }
            code::NAME => name = text(option.value),
            code::DESCRIPTION => description = text(option.value),
            _ => {}
        }
    }
    let resolution = Resolution::new(byte, offset)
        .ok_or_else(|| block.damaged(format!("if_tsresol {byte:#04x} is beyond all clocks")))?;
    Ok(Interface { link_type, snap_length, resolution, name, description })
}

/// Text of an option, as far as it is any.
fn text(value: &[u8]) -> String {
    let value = value.get(..MOST_TEXT).unwrap_or(value);
    String::from_utf8_lossy(value).chars().filter(|c| !c.is_control()).collect()
}
