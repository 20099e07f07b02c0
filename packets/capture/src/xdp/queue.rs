//! One receive queue's socket.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::attach::Place;
use super::frames::Intake;
use super::memory::Mapping;
use super::socket::Socket;
use super::{RIGHTS, XdpOptions, system};
use crate::bpf::XdpMode;
use crate::tap::TapError;

/// Bytes of a frame; the kernel takes powers of two, no less.
pub(super) const FRAME: u32 = 2048;
/// Space that the kernel keeps free in front of each packet.
const HEADROOM: u32 = 256;
/// Ethernet header and two VLAN tags.
const FRAMING: u32 = 14 + 8;
/// A queue has as many frames as this at least.
const LEAST_FRAMES: u64 = 64;
/// Ring memory that nobody means: all of it is locked at once.
const MOST_RING: u64 = 4 << 30;
/// A queue that was only just given up is not free for a moment.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Queue {
    pub number: u32,
    pub intake: Intake,
    pub socket: Arc<Socket>,
}

/// Permission for the kernel to copy packets into our memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Copies {
    /// Permission.
    Allowed,
    /// Without the driver's help there is no point in it.
    Refused,
}

/// Plan of every queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub frames: u32,
    huge: bool,
    flags: u16,
}

impl Plan {
    pub fn new(
        options: &XdpOptions,
        place: &Place,
        mode: XdpMode,
        queues: usize,
        copies: Copies,
    ) -> Plan {
        let frames = options.ring_bytes.min(MOST_RING) / u64::from(FRAME) / queues.max(1) as u64;
        let frames = frames.max(LEAST_FRAMES) as u32;
        // In the stack a packet may be many segments in one, whatever the MTU.
        let long = place.mtu.saturating_add(FRAMING) > FRAME - HEADROOM || mode == XdpMode::Generic;
        let copy = !options.zero_copy || mode == XdpMode::Generic;
        let mut flags = libc::XDP_USE_NEED_WAKEUP;
        flags |= if long { libc::XDP_USE_SG } else { 0 };
        flags |= match copies {
            Copies::Refused => libc::XDP_ZEROCOPY,
            Copies::Allowed if copy => libc::XDP_COPY,
            Copies::Allowed => 0,
        };
        Plan { frames, huge: options.huge_pages, flags }
    }
}

impl Queue {
    pub fn open(interface: u32, number: u32, plan: &Plan) -> Result<Queue, TapError> {
        let error = |doing: &str| {
            system(format!("{doing} for queue {number}"), |errno| match errno {
                libc::EPERM | libc::EACCES => Some(RIGHTS),
                libc::EAFNOSUPPORT => Some("the kernel has no AF_XDP: use the method `packet`"),
                libc::ENOBUFS | libc::ENOMEM => Some(
                    "ask for a smaller ring, raise `ulimit -l`, or give CAP_IPC_LOCK: the memory is locked",
                ),
                libc::EBUSY => Some("another AF_XDP socket has this queue"),
                libc::EINVAL => Some("is there such a queue? `ethtool -l IF` tells"),
                _ => None,
            })
        };
        let socket = Socket::new().map_err(error("opening an AF_XDP socket"))?;
        let bytes = plan.frames as usize * FRAME as usize;
        let memory = Mapping::anonymous(bytes, plan.huge).map_err(error("getting memory"))?;
        socket.register(&memory, FRAME).map_err(error("registering memory"))?;
        // Room for all frames in either ring: giving back never waits, and packets are lost for
        // one reason only.
        let rings = socket.rings(plan.frames.next_power_of_two());
        let rings = rings.map_err(error("making the rings"))?;
        bind(&socket, interface, number, plan.flags).map_err(error("binding an AF_XDP socket"))?;
        let socket = Arc::new(socket);
        let intake = Intake::new(memory, FRAME, plan.frames, rings, Some(socket.clone()));
        Ok(Queue { number, intake, socket })
    }
}

/// Binds, without packets over several frames where the kernel has none, and patiently.
fn bind(socket: &Socket, interface: u32, queue: u32, flags: u16) -> std::io::Result<()> {
    let begin = Instant::now();
    let mut flags = flags;
    loop {
        let error = match socket.bind(interface, queue, flags) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let several = flags & libc::XDP_USE_SG;
        match error.raw_os_error() {
            Some(libc::EINVAL | libc::EOPNOTSUPP) if several != 0 => flags &= !several,
            Some(libc::EBUSY) if begin.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(10));
            }
            _ => return Err(error),
        }
    }
}
