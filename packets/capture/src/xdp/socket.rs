//! The system calls of an AF_XDP socket.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_UMEM_PGOFF_FILL_RING,
    XdpOptionsFlags, XdpRingOffset, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{self, AddressFamily, RecvFlags, SocketFlags, SocketType, sockopt};

use super::memory::{Descriptor, Mapping};
use super::ring::{Consumer, Layout, Producer};

/// An AF_XDP socket.
#[derive(Debug)]
pub(super) struct Socket(OwnedFd);

/// Counts of the kernel for one socket (`XDP_STATISTICS`). Each is the number of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Statistics {
    /// Dropped: for want of a free frame, or too long for one.
    pub dropped: u64,
    /// Dropped: the receive ring was full.
    pub ring_full: u64,
    /// Times that no free frame was there. In copy mode these packets are among `dropped`.
    pub fill_empty: u64,
    /// Free frames that we offered and that do not exist.
    pub invalid: u64,
}

/// The rings of a socket that receives.
#[derive(Debug)]
pub(super) struct Rings {
    pub fill: Producer<u64>,
    pub receive: Consumer<Descriptor>,
}

impl Socket {
    /// A new one.
    pub fn new() -> io::Result<Socket> {
        let flags = SocketFlags::CLOEXEC;
        Ok(Socket(net::socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)?))
    }

    /// Gives the socket memory for frames of this many bytes: 2048 or 4096, in whole pages.
    pub fn register(&self, frames: &Mapping, frame_size: u32) -> io::Result<()> {
        // Kernels that know a shorter structure read only that much.
        let wish = XdpUmemReg {
            addr: frames.address(),
            len: frames.length() as u64 / u64::from(frame_size) * u64::from(frame_size),
            chunk_size: frame_size,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        Ok(sockopt::set_xdp_umem_reg(&self.0, wish)?)
    }

    /// Makes the rings, both of this many entries (a power of two). Once per socket.
    pub fn rings(&self, entries: u32) -> io::Result<Rings> {
        sockopt::set_xdp_umem_fill_ring_size(&self.0, entries)?;
        // Nothing is sent, but no socket is bound without it.
        sockopt::set_xdp_umem_completion_ring_size(&self.0, 8)?;
        sockopt::set_xdp_rx_ring_size(&self.0, entries)?;
        let offsets = sockopt::xdp_mmap_offsets(&self.0)?;
        let map = |place: Layout, entry: usize, at| {
            let length = place.entries.checked_add(entry * entries as usize);
            let length = length.ok_or(io::ErrorKind::InvalidData)?;
            Mapping::of(self.as_fd(), length, at).map(Arc::new)
        };
        let place = layout(&offsets.fr)?;
        let memory = map(place, size_of::<u64>(), XDP_UMEM_PGOFF_FILL_RING)?;
        // SAFETY: nobody else maps this socket's rings, and the kernel keeps to the protocol.
        let fill = unsafe { Producer::new(memory, place, entries) };
        let place = layout(&offsets.rx)?;
        let memory = map(place, size_of::<Descriptor>(), XDP_PGOFF_RX_RING)?;
        // SAFETY: as above.
        let receive = unsafe { Consumer::new(memory, place, entries) };
        let (Some(fill), Some(receive)) = (fill, receive) else {
            let why = "the kernel's ring offsets make no sense";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        };
        Ok(Rings { fill, receive })
    }

    /// Binds it to a queue of an interface.
    pub fn bind(&self, interface: u32, queue: u32, flags: u16) -> io::Result<()> {
        let flags = SocketAddrXdpFlags::from_bits_retain(flags);
        Ok(net::bind(&self.0, &SocketAddrXdp::new(flags, interface, queue))?)
    }

    /// True if the driver writes into our frames itself. Only a bound socket knows.
    pub fn is_zero_copy(&self) -> io::Result<bool> {
        let options = sockopt::xdp_options(&self.0)?;
        Ok(options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY))
    }

    /// Counts so far.
    pub fn statistics(&self) -> io::Result<Statistics> {
        // Kernels that put programs on an interface by links, as we do, tell all of it.
        let told = sockopt::xdp_statistics(&self.0)?;
        Ok(Statistics {
            dropped: told.rx_dropped,
            ring_full: told.rx_ring_full.unwrap_or(0),
            fill_empty: told.rx_fill_ring_empty_descs.unwrap_or(0),
            invalid: told.rx_invalid_descs,
        })
    }

    /// Tells the kernel to look at the fill ring again.
    pub fn wake(&self) {
        // The outcome does not matter: what matters is that it looks.
        let _ = net::recv(&self.0, &mut [0_u8; 0][..], RecvFlags::DONTWAIT);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Where a ring's parts are. Linux has flags in them since 5.4.
fn layout(offset: &XdpRingOffset) -> io::Result<Layout> {
    let flags = offset.flags.ok_or(io::ErrorKind::Unsupported)?;
    let [producer, consumer, entries, flags] =
        [offset.producer, offset.consumer, offset.desc, flags]
            .map(|at| usize::try_from(at).unwrap_or(usize::MAX));
    Ok(Layout { producer, consumer, flags, entries })
}
