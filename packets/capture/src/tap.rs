//! Types that taps, conversion, sinks and the pipeline share: what every method of capturing gives,
//! and what becomes of it.

use std::fmt;
use std::time::Duration;

use truechimer_time::{Count, CountSpan, Epoch, Instant, Span};

/// Method of taking packets off an interface.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Method {
    /// A packet socket with a shared ring (TPACKET_V3): the kernel's stamp, everywhere.
    Packet,
    /// Packet socket with the network card's own stamps.
    Hardware,
    /// AF_XDP: packets are taken before the network stack sees them, and away from it.
    Xdp,
    /// Copies made by an XDP program that lets the packets pass on.
    XdpCopy,
}

impl Method {
    /// The name that `--method` takes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Method::Packet => "packet",
            Method::Hardware => "hw",
            Method::Xdp => "xdp",
            Method::XdpCopy => "xdp-copy",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A clock of the kernel's, or of a device, that packets are stamped by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KernelClock {
    /// `CLOCK_REALTIME`: may be slewed and stepped.
    Realtime,
    /// `CLOCK_MONOTONIC`: may be slewed.
    Monotonic,
    /// The network card's own clock (PTP hardware clock).
    Device,
}

/// When a packet was stamped, as the fast path has it: not turned into anything yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RawStamp {
    /// The counter itself was read.
    Count(Count),
    /// A clock was read; ns on that clock's own scale (Unix ns for `Realtime`).
    Clock(KernelClock, i64),
    /// There is none.
    Missing,
}

/// Which way a packet went.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// Arrived, whomever it was for.
    In,
    /// This host sent it.
    Out,
    /// The method does not tell.
    Unknown,
}

/// One packet as it was taken.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// When.
    pub stamp: RawStamp,
    /// Bytes of the packet, at most the snap length, without `tag`.
    pub data: &'a [u8],
    /// The four bytes of a VLAN tag (TPID, TCI) that the kernel had taken out: they belong before
    /// byte 12 of `data`.
    pub tag: Option<[u8; 4]>,
    /// Length on the wire, in bytes, without `tag`; ≥ `data.len()`.
    pub length: u32,
    /// Which way it went.
    pub direction: Direction,
    /// The receive queue, where the method tells; else 0.
    pub queue: u16,
}

/// Packets that came together. Dropping it gives the memory back to whoever filled it, on whatever
/// thread that is done.
pub trait Chunk: Send {
    /// Number of packets.
    fn len(&self) -> usize;

    /// True if there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `each` with one packet after the other, in the order of their arrival.
    fn for_each(&self, each: &mut dyn FnMut(&Packet<'_>));
}

/// Result of waiting.
pub enum Next {
    /// Packets.
    Chunk(Box<dyn Chunk>),
    /// None until the time was over.
    Nothing,
    /// The interface went down; packets may come again.
    Down,
    /// Up again.
    Up,
    /// The interface is gone for good.
    Gone,
}

/// Facts about a tap; they do not change while it lives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// The interface's name; `any` for all.
    pub interface: String,
    /// The method.
    pub method: Method,
    /// The variety of it, for people: "native, copy, 2 queues, stamp in XDP".
    pub detail: String,
    /// The link type, as tcpdump.org numbers them: 1 is Ethernet.
    pub link_type: u16,
    /// At most so many bytes of each packet are kept.
    pub snap_length: u32,
    /// Maker of the stamps, for people: "kernel at arrival (CLOCK_REALTIME)".
    pub stamped_by: String,
    /// The memory that packets wait in, in bytes.
    pub ring_bytes: u64,
    /// Stamps that are counts may be off by so much because of the way they are made, ≥ 0; 0 where
    /// the counter itself is read.
    pub stamp_error: CountSpan,
}

/// Counts of what was taken and what was lost, since the tap was opened. Never goes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Losses {
    /// Packets that the kernel offered: those that passed the filter, lost ones included.
    pub received: u64,
    /// Lost because the ring was full.
    pub ring: u64,
    /// Lost in the kernel for any other reason (no descriptor, invalid, …).
    pub kernel: u64,
    /// Lost by the interface before the tap, and not in `received`: for want of buffers, or to a full
    /// backlog. Of all packets, whatever the filter; 0 where the kernel does not tell.
    pub interface: u64,
}

/// Takes packets off an interface.
pub trait Tap: Send {
    /// Facts about it.
    fn facts(&self) -> &Facts;

    /// Waits for packets, `timeout` at the most; returns what there is without delay.
    ///
    /// # Errors
    /// Where the interface cannot be captured from any more, other than by being down or gone.
    fn next(&mut self, timeout: Duration) -> Result<Next, TapError>;

    /// The counters.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    fn losses(&mut self) -> Result<Losses, TapError>;

    /// Takes no more packets; those that were taken already still come by [`Tap::next`], until it
    /// says [`Next::Nothing`] after a few milliseconds. After that `received` of [`Tap::losses`] is
    /// what was handed on and what was lost, to the packet. Does nothing where a method cannot.
    ///
    /// # Errors
    /// As the kernel has it.
    fn stop(&mut self) -> Result<(), TapError> {
        Ok(())
    }
}

/// Reason why an interface cannot be captured from.
#[derive(Debug)]
pub struct TapError {
    /// Attempt that failed: "opening a packet socket".
    pub doing: String,
    /// Cause, in the system's words or ours.
    pub why: String,
    /// Remedy, if known: "run as root or `setcap cap_net_raw+ep FILE`".
    pub mend: Option<String>,
}

impl fmt::Display for TapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.doing, self.why)?;
        self.mend.iter().try_for_each(|mend| write!(f, "; {mend}"))
    }
}

impl std::error::Error for TapError {}

/// A packet's count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counted {
    /// The count at which it was stamped.
    pub count: Count,
    /// Bound of |`count` − true count|, ≥ 0.
    pub error: CountSpan,
    /// In which unbroken stretch of the counter; [`Counted::NO_EPOCH`] where no clock page said.
    pub epoch: Epoch,
}

impl Counted {
    /// Stands for an epoch that nobody knows. No daemon gets there: they count from 0.
    pub const NO_EPOCH: Epoch = Epoch(u32::MAX);
}

/// Quality of a packet's time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Quality {
    /// True time is within the bound.
    Bounded,
    /// By a clock that promises nothing at the moment (not synchronised, disrupted), or without
    /// one: the time is the system clock's. The count may still be good.
    Unsynchronised,
    /// No count could be told: the time is the system clock's, if there is any.
    Uncounted,
}

/// When a packet was stamped, after conversion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamped {
    /// Count, unless that could not be told.
    pub counted: Option<Counted>,
    /// The best estimate of UTC, Unix ns (as POSIX counts, without leap seconds).
    pub unix_ns: i64,
    /// Time on the clock's leap-free scale; `None` unless `quality` is `Bounded`.
    pub instant: Option<Instant>,
    /// True time is within this of it, ≥ 0; `None` unless `quality` is `Bounded`.
    pub bound: Option<Span>,
    /// Quality of the time.
    pub quality: Quality,
    /// The number of the hand that it was worked out by; 0 for none.
    pub generation: u64,
}
