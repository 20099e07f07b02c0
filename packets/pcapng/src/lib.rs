//! Capture files: pcapng read and written block by block, pcap read, and the records of our own
//! that pcapng carries.
//!
//! * [`Blocks`] reads pcapng one block at a time, every block with all its bytes, so that a file
//!   can be copied byte for byte but for what is to change. [`Section`] tells what a block says.
//! * [`write`](mod@write) makes blocks.
//! * [`edit`] changes blocks that were read; [`Converted`] makes pcapng of pcap.
//! * [`Frames`] reads the packets of a file of either format with their times.
//! * [`records`] are ours: each packet's raw count, and what it takes to turn it into time again;
//!   [`comment`] says a packet's in words.
//!
//! Files are taken for hostile: every length is checked, memory is bounded by [`MOST_BYTES`], and
//! errors say at which block and byte what is wrong. A file that ends in the midst of a block, as
//! one does whose writer was killed, can be read up to there ([`Torn`]).
//!
//! The format is that of draft-ietf-opsawg-pcapng; nothing is done here but reading and writing
//! bytes.
#![forbid(unsafe_code)]

mod block;
pub mod comment;
mod converted;
pub mod edit;
mod error;
mod frames;
mod options;
mod order;
mod pcap;
pub mod records;
mod section;
mod ticks;
pub mod write;

pub use block::{Block, Blocks, MOST_BYTES, Torn};
pub use converted::Converted;
pub use error::ReadError;
pub use frames::{Format, Frame, Frames};
pub use options::{Opt, Options};
pub use order::Order;
pub use pcap::{Pcap, PcapPacket};
pub use section::{Content, Interface, MOST_INTERFACES, PacketBlock, Section, Statistics};
pub use ticks::Resolution;

/// Block types.
pub mod kind {
    /// Section header; reads the same in either byte order.
    pub const SECTION: u32 = 0x0a0d_0d0a;
    /// Interface description.
    pub const INTERFACE: u32 = 1;
    /// Packet, obsolete.
    pub const OLD_PACKET: u32 = 2;
    /// Simple packet: no time.
    pub const SIMPLE_PACKET: u32 = 3;
    /// Interface statistics.
    pub const STATISTICS: u32 = 5;
    /// Enhanced packet.
    pub const PACKET: u32 = 6;
    /// Custom block that tools may copy.
    pub const CUSTOM: u32 = 0x0bad;
}

/// Option codes.
pub mod code {
    /// The end of a block's options.
    pub const END: u16 = 0;
    /// A comment, UTF-8; in any block.
    pub const COMMENT: u16 = 1;
    /// Custom bytes that tools may copy: an enterprise number and anything; in any block.
    pub const CUSTOM: u16 = 2989;
    /// Section: the hardware.
    pub const HARDWARE: u16 = 2;
    /// Section: the operating system.
    pub const SYSTEM: u16 = 3;
    /// Section: the program that wrote it.
    pub const APPLICATION: u16 = 4;
    /// Interface: its name.
    pub const NAME: u16 = 2;
    /// Interface: a description.
    pub const DESCRIPTION: u16 = 3;
    /// Interface: how fine its times are.
    pub const RESOLUTION: u16 = 9;
    /// Interface: the capture filter.
    pub const FILTER: u16 = 11;
    /// Interface: seconds to be added to its times.
    pub const OFFSET: u16 = 14;
    /// Packet: flags, of which the lowest two are the direction.
    pub const FLAGS: u16 = 2;
    /// Packet: the receive queue.
    pub const QUEUE: u16 = 6;
    /// Statistics: when the capture began.
    pub const START: u16 = 2;
    /// Statistics: when it ended.
    pub const STOP: u16 = 3;
    /// Statistics: packets that the interface received.
    pub const RECEIVED: u16 = 4;
    /// Statistics: packets that the interface dropped.
    pub const DROPPED: u16 = 5;
    /// Statistics: packets that passed the filter.
    pub const ACCEPTED: u16 = 6;
    /// Statistics: packets that the operating system dropped.
    pub const SYSTEM_DROPPED: u16 = 7;
    /// Statistics: packets that reached the user.
    pub const DELIVERED: u16 = 8;
}
