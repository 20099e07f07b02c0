//! Events of the programs at the tracepoints, as they lay it out.

/// Something that happened to a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// When: `CLOCK_MONOTONIC`, ns.
    pub monotonic_ns: u64,
    /// Kind of event.
    pub what: What,
}

/// Events at the tracepoints. Buffers are told apart by their addresses, which mean nothing else;
/// sockets by numbers that are given once only, as a socket may have the address of one that was
/// closed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// The stack began with a packet.
    Arrived {
        /// The kernel's buffer.
        buffer: u64,
        /// When the driver handed it over: `CLOCK_MONOTONIC`, ns.
        driver_ns: Option<u64>,
        /// Length from the link layer on, in bytes.
        length: u32,
        /// First bytes, from the link layer on.
        bytes: Vec<u8>,
    },
    /// Put in a socket's queue.
    Queued {
        /// The buffer.
        buffer: u64,
    },
    /// A process has taken bytes out of a buffer.
    Read {
        /// The buffer.
        buffer: u64,
        /// The process.
        pid: u32,
    },
    /// A datagram is in a socket's queue.
    DatagramQueued {
        /// The buffer; `None` for one that did not come in by our interface.
        buffer: Option<u64>,
        /// The socket.
        socket: u64,
        /// The buffer that stood first in the queue after that; `None` if it was empty.
        first: Option<u64>,
    },
    /// A process has read from a datagram socket.
    Received {
        /// The socket.
        socket: u64,
        /// Length in bytes; `None` if it failed, which may have taken a datagram as well.
        length: Option<u32>,
        /// The process.
        pid: u32,
        /// Thread of the process.
        thread: u32,
        /// The buffer that stood first in the queue after that; `None` if it was empty.
        first: Option<u64>,
    },
    /// A buffer came in by another interface: what was in it before is gone.
    Foreign {
        /// The buffer.
        buffer: u64,
    },
    /// In the queue of our interface, to be sent.
    Scheduled {
        /// The buffer.
        buffer: u64,
        /// When the call began by which a program sends it, if one does: `CLOCK_MONOTONIC`, ns.
        begun_ns: Option<u64>,
        /// The process in whose turn that happened.
        pid: u32,
    },
    /// The driver was given a buffer to send.
    Transmitted {
        /// The buffer.
        buffer: u64,
        /// When it entered the queue: `CLOCK_MONOTONIC`, ns.
        scheduled_ns: u64,
        /// Length from the link layer on, in bytes.
        length: u32,
        /// First bytes, from the link layer on.
        bytes: Vec<u8>,
    },
    /// The driver returned.
    Sent {
        /// The buffer.
        buffer: u64,
        /// `true` if the driver took it; otherwise it was dropped.
        taken: bool,
    },
}

/// Numbers of the kinds, as the programs have them.
pub(super) mod kind {
    pub const ARRIVED: u32 = 1;
    pub const QUEUED: u32 = 2;
    pub const READ: u32 = 3;
    pub const DATAGRAM_QUEUED: u32 = 4;
    pub const RECEIVED: u32 = 5;
    pub const FOREIGN: u32 = 6;
    pub const SCHEDULED: u32 = 7;
    pub const TRANSMITTED: u32 = 8;
    pub const SENT: u32 = 9;
}

/// Where the fields of a record are, in bytes, and how long they are; numbers are in the machine's
/// byte order.
pub(super) mod layout {
    /// u32: which kind.
    pub const KIND: i16 = 0;
    /// u32: the length of the packet; what a read returned (signed).
    pub const LENGTH: i16 = 4;
    /// u64: `CLOCK_MONOTONIC`, ns.
    pub const MONOTONIC: i16 = 8;
    /// u64: the buffer.
    pub const BUFFER: i16 = 16;
    /// u64: the socket's number; for an arrival, when the driver handed it over, or 0; for what is in the
    /// queue to be sent, when its program's call began, or 0; for what the driver was given, when it entered the
    /// queue; for what was sent, the driver's answer.
    pub const SOCKET: i16 = 24;
    /// u32: the process.
    pub const PID: i16 = 32;
    /// u32: how many of the bytes count; the thread.
    pub const COPIED: i16 = 36;
    /// u64: the buffer that is first in the socket's queue, in records without bytes.
    pub const FIRST: i16 = 40;
    /// Length of a record without packet bytes, in bytes.
    pub const SHORT: i16 = 48;
    /// The packet's first bytes.
    pub const BYTES: i16 = 40;
    /// Room for those, in bytes: Ethernet, two tags, IPv6 with an extension, UDP, RTP and more.
    pub const MOST_BYTES: i16 = 128;
    /// Length of a record with packet bytes, in bytes.
    pub const LONG: i16 = BYTES + MOST_BYTES;
}

impl Event {
    /// The event in a record. `None` for one that is none of ours.
    #[must_use]
    pub fn parse(record: &[u8]) -> Option<Event> {
        let word = |at: i16| {
            let at = usize::try_from(at).ok()?;
            Some(u32::from_ne_bytes(record.get(at..at + 4)?.try_into().ok()?))
        };
        let long = |at: i16| {
            let at = usize::try_from(at).ok()?;
            Some(u64::from_ne_bytes(record.get(at..at + 8)?.try_into().ok()?))
        };
        let buffer = long(layout::BUFFER)?;
        let socket = long(layout::SOCKET)?;
        let length = word(layout::LENGTH)?;
        let pid = word(layout::PID)?;
        let some = |address: u64| (address != 0).then_some(address);
        let bytes = || {
            let copied = word(layout::COPIED)?.min(layout::MOST_BYTES as u32) as usize;
            Some(record.get(layout::BYTES as usize..)?.get(..copied)?.to_vec())
        };
        let what = match word(layout::KIND)? {
            kind::ARRIVED => {
                let bytes = bytes()?;
                let driver_ns = some(socket);
                What::Arrived { buffer, driver_ns, length, bytes }
            }
            kind::QUEUED => What::Queued { buffer },
            kind::READ => What::Read { buffer, pid },
            kind::DATAGRAM_QUEUED => {
                let first = some(long(layout::FIRST)?);
                What::DatagramQueued { buffer: some(buffer), socket, first }
            }
            kind::RECEIVED => {
                let length = u32::try_from(length.cast_signed()).ok();
                let (thread, first) = (word(layout::COPIED)?, some(long(layout::FIRST)?));
                What::Received { socket, length, pid, thread, first }
            }
            kind::FOREIGN => What::Foreign { buffer },
            kind::SCHEDULED => What::Scheduled { buffer, begun_ns: some(socket), pid },
            kind::TRANSMITTED => {
                let bytes = bytes()?;
                What::Transmitted { buffer, scheduled_ns: socket, length, bytes }
            }
            kind::SENT => What::Sent { buffer, taken: socket as u32 == 0 },
            _ => return None,
        };
        Some(Event { monotonic_ns: long(layout::MONOTONIC)?, what })
    }
}
