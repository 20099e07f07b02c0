//! Packets taken or copied by an XDP program, in the driver, before the network stack sees them.
//!
//! * [`open`] takes them *away from the host*, by whatever costs least: by AF_XDP ([`XdpTap`])
//!   where the driver writes into our memory itself (zero-copy) or has several queues, else by a
//!   program that copies them into a BPF ring buffer and drops them. An interface that the host
//!   itself uses is refused unless [`XdpOptions::take`] says that this is meant.
//! * [`XdpCopyTap`] copies their first bytes into a ring buffer and lets them pass.
//!
//! Both see what arrives, not what the host sends. The program is assembled here
//! ([`bpf`](crate::bpf)) and attached by a link that is a file descriptor: however this process
//! ends, the interface is left as it was.
//!
//! # Where the stamp comes from
//! See [`StampAt`]. In the program, with the driver's interrupt still being served, is the default.
//!
//! # When packets are fetched
//! Whoever waits for packets is woken up for every few of them, which costs the processor that
//! receives them as much as they do. While they come fast, less than 5 µs apart, we sleep instead,
//! 0.2 ms at a time (with stamps at dequeue, where that is in the stamp, some 70 µs), if the ring
//! has room for what comes meanwhile.
//!
//! # What is accounted for
//! A program that copies counts the packets that its ring buffer has no room for; all others are in
//! chunks, or were refused by the filter. With AF_XDP, the program counts every packet that it
//! sends to a socket. Each of them is in a chunk, was refused by the filter, or is in
//! [`Losses`](crate::Losses): the ring being full shows as the kernel's `rx_ring_full`, or as
//! `rx_dropped` with no frame free. [`XdpTap::counts`] has all of it. What a card drops before any
//! program sees it is in no such counter, whichever method captures; `ip -s link` and `ethtool -S`
//! have that. In zero-copy mode that includes packets for which no frame was free.
//!
//! # What does not come
//! Frames with VLAN tags come with the tag inline, unless the card takes it out first: then the tag
//! is lost to XDP (`ethtool -K IF rxvlan off` keeps it; [`Facts::detail`](crate::Facts) says so).
//! Checksums of packets that the other end of a virtual wire has not finished are unfinished.
//! Packets longer than a frame come in several, and are joined.

use truechimer_counter::Counter;

mod attach;
mod chunk;
mod copy;
mod counts;
mod frames;
mod guard;
mod memory;
mod open;
mod program;
mod queue;
mod queues;
mod rights;
mod ring;
mod socket;
mod stamp;
mod tap;

use crate::bpf::BpfError;
use crate::filter::Filter;
use crate::tap::TapError;

pub use copy::{CopyCounts, XdpCopyTap};
pub use counts::XdpCounts;
pub(crate) use guard::standing;
pub use guard::{Use, uses};
pub use open::open;
pub use tap::XdpTap;

/// Place where the interface runs the program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Mode {
    /// In the driver if it can, else in the stack.
    #[default]
    Auto,
    /// In the driver or not at all.
    Native,
    /// In the stack: any driver, slower, after the kernel has made a socket buffer.
    Generic,
}

/// Where packets are stamped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum StampAt {
    /// In the XDP program, by `CLOCK_MONOTONIC`.
    #[default]
    Xdp,
    /// In the XDP program, by the bare time stamp counter (a perf event, x86 only). What relates it
    /// to the counter read in user space is measured once, to [`XdpTap::stamp_error`].
    Tsc,
    /// In user space, when packets are taken out of the ring: one reading of the counter for all
    /// that have come until then. (One for each would tell when they were looked at, not when they
    /// came, and take longer.) The least work per packet, and the whole of the scheduler's delay in
    /// the stamp; while packets come fast, that of our sleep as well.
    Dequeue,
}

/// Options of taking packets by XDP.
#[derive(Clone, Debug)]
pub struct XdpOptions {
    /// The interface's name.
    pub interface: String,
    /// Largest number of bytes kept of each packet.
    pub snap_length: u32,
    /// Memory that packets wait in, in bytes, 4 GiB at the most; shared out among the queues.
    /// With AF_XDP a packet takes 2 KiB of it, however short it is; in a ring buffer as much as the
    /// next of a few sizes from 64 bytes on, and 24 bytes.
    pub ring_bytes: u64,
    /// Place where the program is run.
    pub mode: Mode,
    /// True if the driver may write into our memory itself, where it can. (Setting that up makes
    /// some cards lose their link for a moment.)
    pub zero_copy: bool,
    /// Where packets are stamped.
    pub stamp: StampAt,
    /// The receive queues to take from; `None`: all. Packets of other queues pass.
    pub queues: Option<Vec<u32>>,
    /// Which packets are handed on; compiled without an interface, for Ethernet. The others are
    /// taken away all the same.
    pub filter: Option<Filter>,
    /// The counter that stamps are of, where they are counts.
    pub counter: Counter,
    /// True if memory is asked for in huge pages; if there are none, it does without.
    pub huge_pages: bool,
    /// True if packets for others are to be seen.
    pub promiscuous: bool,
    /// True if packets may be taken away from a host that uses the interface.
    pub take: bool,
}

impl XdpOptions {
    /// The defaults, for an interface: everything that arrives, stamped in the program.
    #[must_use]
    pub fn new(interface: &str, counter: Counter) -> XdpOptions {
        XdpOptions {
            interface: interface.to_owned(),
            snap_length: crate::packet::SNAP_LENGTH,
            ring_bytes: crate::packet::RING_BYTES,
            mode: Mode::Auto,
            zero_copy: true,
            stamp: StampAt::Xdp,
            queues: None,
            filter: None,
            counter,
            huge_pages: false,
            promiscuous: true,
            take: false,
        }
    }
}

/// The shortest snap length: an Ethernet header. A program cannot cut a packet shorter.
const LEAST_SNAP: u32 = 14;
/// The link type of all that XDP sees.
const ETHERNET: u16 = 1;

/// All that XDP takes, so that nobody has to find out one by one.
const RIGHTS: &str = "run as root, or give them to a copy of the program that only a group may run: \
                      setcap cap_net_raw,cap_net_admin,cap_bpf,cap_perfmon+ep FILE \
                      (`truechimer capture --help` has the steps)";

fn failed(error: BpfError) -> TapError {
    let is_permission = error.is_permission();
    let BpfError { doing, mut why, mend, log, errno: _ } = error;
    let mend = if is_permission { Some(RIGHTS.to_owned()) } else { mend };
    if let Some(line) = log.lines().rev().find(|line| !line.starts_with("processed")) {
        why.push_str(": ");
        why.push_str(line);
    }
    TapError { doing, why, mend }
}

fn system<'a>(
    doing: impl Into<String>,
    mend: impl Fn(i32) -> Option<&'a str>,
) -> impl FnOnce(std::io::Error) -> TapError {
    let doing = doing.into();
    move |error| TapError {
        doing,
        why: error.to_string(),
        mend: error.raw_os_error().and_then(mend).map(str::to_owned),
    }
}
