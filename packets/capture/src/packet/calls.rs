//! The system calls of packet sockets, with everything unsafe about them kept inside.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_ushort};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use truechimer_stamp::set_option;

use crate::ask::{promiscuous, set};

/// A packet socket, and what waits for it.
#[derive(Debug)]
pub(super) struct Socket {
    socket: OwnedFd,
    epoll: OwnedFd,
}

/// Counts of the kernel since it was last asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Statistics {
    /// Packets that passed the filter, `drops` included.
    pub packets: u32,
    /// Of these, those for which there was no room.
    pub drops: u32,
}

/// Cause of the end of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Woken {
    /// Cut short.
    BySignal,
    /// There is news of the link, and maybe a block.
    ByLink,
    /// There may be a block, or the time is over.
    Otherwise,
}

/// The longest wait at a time.
const LONGEST: Duration = Duration::from_secs(86_400);

/// Mark of the link's events.
const LINK: u64 = 1;

/// The parts of `struct tpacket_req3` that are ours to choose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Request {
    pub block_size: u32,
    pub blocks: u32,
    /// ms
    pub retire: u32,
}

impl Socket {
    /// One that listens to nothing yet, of packets with their link-layer header or without.
    pub(super) fn new(is_cooked: bool) -> io::Result<Socket> {
        let kind = if is_cooked { SocketType::DGRAM } else { SocketType::RAW };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::PACKET, kind, flags, None)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let socket = Socket { socket, epoll };
        socket.set(libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V3 as c_int))?;
        Ok(socket)
    }

    /// Asks for stamps: the earliest that the kernel takes, or else the card's.
    pub(super) fn stamps(&self, hardware: bool) -> io::Result<()> {
        // What makes the kernel stamp at arrival is that a socket wants it, any socket.
        let mut wanted = libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_RX_SOFTWARE;
        // And this is which of a packet's stamps goes to the ring.
        let mut source = libc::SOF_TIMESTAMPING_SOFTWARE;
        if hardware {
            wanted |= libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
            source |= libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        }
        set_option(self.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPING, wanted as c_int)?;
        self.set(libc::PACKET_TIMESTAMP, &source)
    }

    /// Makes the ring.
    pub(super) fn ring(&self, request: Request) -> io::Result<()> {
        // One frame to a block: with this version they are only a formality.
        let request = libc::tpacket_req3 {
            tp_block_size: request.block_size,
            tp_block_nr: request.blocks,
            tp_frame_size: request.block_size,
            tp_frame_nr: request.blocks,
            tp_retire_blk_tov: request.retire,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        self.set(libc::PACKET_RX_RING, &request)
    }

    /// Leaves out what this host sends.
    pub(super) fn ignore_outgoing(&self) -> io::Result<()> {
        self.set(libc::PACKET_IGNORE_OUTGOING, &(1 as c_int))
    }

    /// Sees packets for others, or does not any more.
    pub(super) fn promiscuous(&self, index: u32, on: bool) -> io::Result<()> {
        promiscuous(self.as_fd(), index, on)
    }

    /// Begins to take packets of all protocols, of one interface or (0) of all.
    pub(super) fn bind(&self, index: u32) -> io::Result<()> {
        // SAFETY: all zeros is a valid `sockaddr_ll`.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as c_ushort;
        address.sll_protocol = (libc::ETH_P_ALL as c_ushort).to_be();
        address.sll_ifindex = c_int::try_from(index).map_err(|_| io::ErrorKind::InvalidInput)?;
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: a valid address of that length.
        check(unsafe { libc::bind(self.socket.as_raw_fd(), (&raw const address).cast(), length) })
    }

    /// The counters, which begin anew with that.
    pub(super) fn statistics(&self) -> io::Result<Statistics> {
        let mut now = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
        let mut length = size_of::<libc::tpacket_stats_v3>() as libc::socklen_t;
        // SAFETY: room for as much as is said.
        check(unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut now).cast(),
                &mut length,
            )
        })?;
        Ok(Statistics { packets: now.tp_packets, drops: now.tp_drops })
    }

    /// Chooses what [`Socket::wait`] waits for: blocks, and news of the link.
    ///
    /// Blocks are waited for by their *arrival*: while one that was handed over is in somebody's
    /// hands, the kernel keeps calling the socket readable.
    pub(super) fn watch(&self, link: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let add = |fd: BorrowedFd<'_>, events, mark| {
            epoll::add(&self.epoll, fd, epoll::EventData::new_u64(mark), events)
        };
        add(self.socket.as_fd(), epoll::EventFlags::IN | epoll::EventFlags::ET, 0)?;
        Ok(link.map_or(Ok(()), |link| add(link, epoll::EventFlags::IN, LINK))?)
    }

    /// Waits for news, at most so long.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> io::Result<Woken> {
        // It is rounded up to ms, of which there may not be too many.
        let timeout = timeout.map(|timeout| timeout.min(LONGEST));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let (flags, data) = (epoll::EventFlags::empty(), epoll::EventData::new_u64(0));
        let mut events = [epoll::Event { flags, data }; 2];
        match epoll::wait(&self.epoll, &mut events[..], timeout.as_ref()) {
            Ok(got) => {
                let of_link = events.iter().take(got).any(|event| event.data.u64() == LINK);
                Ok(if of_link { Woken::ByLink } else { Woken::Otherwise })
            }
            Err(Errno::INTR) => Ok(Woken::BySignal),
            Err(why) => Err(why.into()),
        }
    }

    fn set<T>(&self, option: c_int, value: &T) -> io::Result<()> {
        set(self.as_fd(), option, value)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

const _: () = assert!(size_of::<c_uint>() == 4);
