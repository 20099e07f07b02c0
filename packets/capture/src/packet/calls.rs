//! The system calls of packet sockets, with everything unsafe about them kept inside.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_ushort};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// A packet socket, and what waits for it.
#[derive(Debug)]
pub(super) struct Socket {
    socket: OwnedFd,
    epoll: OwnedFd,
}

/// What the kernel counted since it was last asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Statistics {
    /// Packets that passed the filter, `drops` included.
    pub packets: u32,
    /// Of these, those for which there was no room.
    pub drops: u32,
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Woken {
    /// Cut short.
    BySignal,
    /// There is news of the link, and maybe a block.
    ByLink,
    /// There may be a block, or the time is over.
    Otherwise,
}

/// What marks the link's events.
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
        let kind = if is_cooked { libc::SOCK_DGRAM } else { libc::SOCK_RAW };
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: three numbers.
        let socket = owned(unsafe { libc::socket(libc::AF_PACKET, kind | flags, 0) })?;
        // SAFETY: a number.
        let epoll = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
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
        self.set_at(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &wanted)?;
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
        let request = libc::packet_mreq {
            mr_ifindex: c_int::try_from(index).map_err(|_| io::ErrorKind::InvalidInput)?,
            mr_type: libc::PACKET_MR_PROMISC as c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        let option = if on { libc::PACKET_ADD_MEMBERSHIP } else { libc::PACKET_DROP_MEMBERSHIP };
        self.set(option, &request)
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
        let add = |fd: BorrowedFd<'_>, events: c_int, mark: u64| {
            let mut event = libc::epoll_event { events: events as u32, u64: mark };
            let (epoll, fd) = (self.epoll.as_raw_fd(), fd.as_raw_fd());
            // SAFETY: a valid event.
            check(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &mut event) })
        };
        add(self.socket.as_fd(), libc::EPOLLIN | libc::EPOLLET, 0)?;
        link.map_or(Ok(()), |link| add(link, libc::EPOLLIN, LINK))
    }

    /// Waits for news, at most so long.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> io::Result<Woken> {
        // Rounded up, so that nobody comes back too early again and again.
        let ms = timeout.map_or(-1, |timeout| {
            timeout.as_nanos().div_ceil(1_000_000).try_into().unwrap_or(c_int::MAX)
        });
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 2];
        // SAFETY: room for so many events.
        let got = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), 2, ms) };
        let Ok(got) = usize::try_from(got) else {
            let why = io::Error::last_os_error();
            let is_signal = why.kind() == io::ErrorKind::Interrupted;
            return if is_signal { Ok(Woken::BySignal) } else { Err(why) };
        };
        let of_link = events.iter().take(got).any(|event| event.u64 == LINK);
        Ok(if of_link { Woken::ByLink } else { Woken::Otherwise })
    }

    fn set<T>(&self, option: c_int, value: &T) -> io::Result<()> {
        self.set_at(libc::SOL_PACKET, option, value)
    }

    fn set_at<T>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        let length = size_of::<T>() as libc::socklen_t;
        // SAFETY: a value of that length, which the kernel only reads.
        check(unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                level,
                option,
                (value as *const T).cast(),
                length,
            )
        })
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn owned(fd: c_int) -> io::Result<OwnedFd> {
    check(fd)?;
    // SAFETY: just opened, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

const _: () = assert!(size_of::<c_uint>() == 4);
