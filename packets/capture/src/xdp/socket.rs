//! The system calls of an AF_XDP socket.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use super::memory::{Descriptor, Mapping};
use super::ring::{Consumer, Layout, Producer};

/// Not in libc for every C library.
const AF_XDP: c_int = 44;

/// An AF_XDP socket.
#[derive(Debug)]
pub(super) struct Socket(OwnedFd);

/// What the kernel counts of one socket (`XDP_STATISTICS`). Each is the number of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Statistics {
    /// Dropped: for want of a free frame, or too long for one.
    pub dropped: u64,
    /// Dropped: the receive ring was full.
    pub ring_full: u64,
    /// How often no free frame was there. In copy mode these packets are among `dropped`.
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
        // SAFETY: it takes numbers only.
        let fd = unsafe { libc::socket(AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has just made it, and nobody else has it.
        Ok(Socket(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    fn set<T>(&self, option: c_int, value: &T) -> io::Result<()> {
        let length = size_of::<T>() as libc::socklen_t;
        // SAFETY: the kernel reads `length` bytes of a value that is alive and as long.
        check(unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                libc::SOL_XDP,
                option,
                std::ptr::from_ref(value).cast(),
                length,
            )
        })
    }

    /// What the kernel says, zeros where it says less than the type holds.
    fn get<T: Zeros>(&self, option: c_int) -> io::Result<T> {
        let mut value = MaybeUninit::<T>::zeroed();
        let mut length = size_of::<T>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to a place that is as long.
        check(unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_XDP,
                option,
                value.as_mut_ptr().cast(),
                &raw mut length,
            )
        })?;
        // SAFETY: zeros, and whatever bytes the kernel wrote, are a value of it: see `Zeros`.
        Ok(unsafe { value.assume_init() })
    }

    /// Gives the socket memory for frames of this many bytes: 2048 or 4096, in whole pages.
    pub fn register(&self, frames: &Mapping, frame_size: u32) -> io::Result<()> {
        // Kernels that know a shorter structure read only that much.
        let wish = libc::xdp_umem_reg {
            addr: frames.address(),
            len: frames.length() as u64 / u64::from(frame_size) * u64::from(frame_size),
            chunk_size: frame_size,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        self.set(libc::XDP_UMEM_REG, &wish)
    }

    /// Makes the rings, both of this many entries (a power of two). Once per socket.
    pub fn rings(&self, entries: u32) -> io::Result<Rings> {
        self.set(libc::XDP_UMEM_FILL_RING, &entries)?;
        // Nothing is sent, but no socket is bound without it.
        self.set(libc::XDP_UMEM_COMPLETION_RING, &8_u32)?;
        self.set(libc::XDP_RX_RING, &entries)?;
        let offsets: Offsets = self.get(libc::XDP_MMAP_OFFSETS)?;
        let map = |place: Layout, entry: usize, at| {
            let length = place.entries.checked_add(entry * entries as usize);
            let length = length.ok_or(io::ErrorKind::InvalidData)?;
            Mapping::of(self.as_fd(), length, at).map(Arc::new)
        };
        let place = offsets.fill.layout();
        let memory = map(place, size_of::<u64>(), libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t)?;
        // SAFETY: nobody else maps this socket's rings, and the kernel keeps to the protocol.
        let fill = unsafe { Producer::new(memory, place, entries) };
        let place = offsets.receive.layout();
        let memory = map(place, size_of::<Descriptor>(), libc::XDP_PGOFF_RX_RING)?;
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
        let address = libc::sockaddr_xdp {
            sxdp_family: AF_XDP as u16,
            sxdp_flags: flags,
            sxdp_ifindex: interface,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        // SAFETY: the kernel reads a structure that is alive, with its size.
        check(unsafe {
            libc::bind(
                self.0.as_raw_fd(),
                (&raw const address).cast(),
                size_of_val(&address) as libc::socklen_t,
            )
        })
    }

    /// Whether the driver writes into our frames itself. Only a bound socket knows.
    pub fn is_zero_copy(&self) -> io::Result<bool> {
        let options: u32 = self.get(libc::XDP_OPTIONS)?;
        Ok(options & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// What it has counted so far.
    pub fn statistics(&self) -> io::Result<Statistics> {
        let [dropped, invalid, _, ring_full, fill_empty, _]: [u64; 6] =
            self.get(libc::XDP_STATISTICS)?;
        Ok(Statistics { dropped, ring_full, fill_empty, invalid })
    }

    /// Tells the kernel to look at the fill ring again.
    pub fn wake(&self) {
        // SAFETY: no memory is given. The outcome does not matter: what matters is that it looks.
        unsafe {
            libc::recvfrom(
                self.0.as_raw_fd(),
                std::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            );
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What `XDP_MMAP_OFFSETS` tells (`struct xdp_mmap_offsets` of Linux 5.4 and later).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Offsets {
    receive: Offset,
    send: Offset,
    fill: Offset,
    completion: Offset,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Offset {
    producer: u64,
    consumer: u64,
    entries: u64,
    flags: u64,
}

impl Offset {
    fn layout(self) -> Layout {
        let Offset { producer, consumer, entries, flags } = self;
        let [producer, consumer, entries, flags] = [producer, consumer, entries, flags]
            .map(|at| usize::try_from(at).unwrap_or(usize::MAX));
        Layout { producer, consumer, flags, entries }
    }
}

/// What may be filled with any bytes.
///
/// # Safety
/// Every bit pattern must be a value of the type.
unsafe trait Zeros {}
// SAFETY: integers only, all three.
unsafe impl Zeros for Offsets {}
// SAFETY: as above.
unsafe impl Zeros for u32 {}
// SAFETY: as above.
unsafe impl Zeros for [u64; 6] {}

fn check(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Waits until one of the sockets has something or `timeout_ms` is over. Bit `n` of the result says
/// that the `n`th has; an interrupted wait says that none has.
pub(super) fn wait(sockets: &mut [libc::pollfd], timeout_ms: c_int) -> io::Result<usize> {
    // SAFETY: the kernel reads and writes as many structures as there are.
    let count =
        unsafe { libc::poll(sockets.as_mut_ptr(), sockets.len() as libc::nfds_t, timeout_ms) };
    if count >= 0 {
        return Ok(count as usize);
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        error => Err(error),
    }
}
