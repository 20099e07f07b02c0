//! One receive queue's socket.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use truechimer_bpf::XdpMode;

use super::attach::Place;
use super::cells::Cells;
use super::frames::Intake;
use super::memory::Mapping;
use super::socket::Socket;
use super::{RIGHTS, XdpOptions, system};
use crate::tap::TapError;

/// Ethernet header and two VLAN tags.
const FRAMING: u32 = 14 + 8;
/// Frames where packets may be longer than one should be: short packets take one, long ones several.
const SHORT: u32 = 240;
/// Frames that hold the longest packets are worth having up to this.
const LONGEST_WHOLE: u32 = 496;
/// Bytes of both rings for each frame.
const RINGS: u64 = 16 + 8;
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
    /// How much memory packets wait in, in bytes.
    pub bytes: u64,
    /// Packets may go over several frames.
    pub is_several: bool,
}

/// What every queue gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Bytes for the packets of one queue, and for its rings.
    bytes: u64,
    huge: bool,
    /// Whether the driver is asked to write into our memory itself.
    zero_copy: bool,
    /// The longest packets that are to come, in bytes.
    longest: u32,
    /// The same before the program cuts them.
    uncut: u32,
}

/// How a queue's memory is used.
#[derive(Clone, Copy, Debug)]
struct Way {
    cells: Cells,
    flags: u16,
}

impl Plan {
    /// `cut`: what the program cuts packets to.
    pub fn new(
        options: &XdpOptions,
        place: &Place,
        mode: XdpMode,
        queues: usize,
        cut: Option<u32>,
    ) -> Plan {
        let bytes = options.ring_bytes.min(MOST_RING) / queues.max(1) as u64;
        // In the stack a packet may be many segments in one, whatever the MTU.
        let uncut = match mode {
            XdpMode::Native => place.mtu.saturating_add(FRAMING),
            XdpMode::Generic => u32::MAX,
        };
        let longest = uncut.min(cut.unwrap_or(u32::MAX));
        let zero_copy = options.zero_copy && mode == XdpMode::Native;
        Plan { bytes, huge: options.huge_pages, zero_copy, longest, uncut }
    }

    /// In the order in which they are tried: that the kernel refuses one way means that it, or the
    /// driver, cannot.
    fn ways(self) -> impl Iterator<Item = Way> {
        let several = |is: bool| if is { libc::XDP_USE_SG } else { 0 };
        let long = self.uncut > Cells::WHOLE.room();
        let flags = libc::XDP_ZEROCOPY | several(long);
        let zero_copy = self.zero_copy.then_some(Way { cells: Cells::WHOLE, flags });
        let length = if self.longest > LONGEST_WHOLE { SHORT } else { self.longest };
        let cells = Cells::holding(length).unwrap_or(Cells::WHOLE);
        let small = Way { cells, flags: libc::XDP_COPY | several(true) };
        let whole = Way { cells: Cells::WHOLE, flags: libc::XDP_COPY };
        zero_copy.into_iter().chain([small, whole])
    }
}

impl Queue {
    /// Opens it. What the driver turns out not to be able to is not tried again by the same plan.
    pub fn open(interface: u32, number: u32, plan: &mut Plan) -> Result<Queue, TapError> {
        let mut refused = ("opening an AF_XDP socket", io::ErrorKind::Unsupported.into());
        for way in plan.ways() {
            match Queue::open_by(interface, number, plan, way) {
                Ok(queue) => {
                    plan.zero_copy = way.flags & libc::XDP_ZEROCOPY != 0;
                    return Ok(queue);
                }
                Err(error) => refused = error,
            }
            // Whatever else it is, another way may do without it.
            if matches!(
                refused.1.raw_os_error(),
                Some(libc::EPERM | libc::EACCES | libc::EBUSY | libc::EAFNOSUPPORT)
            ) {
                break;
            }
        }
        let (doing, error) = refused;
        Err(explain(doing, number)(error))
    }

    fn open_by(
        interface: u32,
        number: u32,
        plan: &Plan,
        Way { cells, flags }: Way,
    ) -> Result<Queue, (&'static str, io::Error)> {
        let doing = |what: &'static str| move |error| (what, error);
        let frames = plan.bytes / (u64::from(cells.size()) + RINGS);
        let frames = frames.max(LEAST_FRAMES) as u32;
        let socket = Socket::new().map_err(doing("opening an AF_XDP socket"))?;
        let memory = Mapping::anonymous(cells.memory(frames), plan.huge);
        let memory = memory.map_err(doing("getting memory"))?;
        socket.register(&memory, cells).map_err(doing("registering memory"))?;
        // Room for all frames in either ring: giving back never waits, and packets are lost for
        // one reason only.
        let rings = socket.rings(frames.next_power_of_two()).map_err(doing("making the rings"))?;
        let flags = flags | libc::XDP_USE_NEED_WAKEUP;
        bind(&socket, interface, number, flags).map_err(doing("binding an AF_XDP socket"))?;
        let socket = Arc::new(socket);
        let intake = Intake::new(memory, cells, frames, rings, Some(socket.clone()));
        let bytes = u64::from(frames) * u64::from(cells.size());
        let is_several = flags & libc::XDP_USE_SG != 0;
        Ok(Queue { number, intake, socket, bytes, is_several })
    }
}

fn explain(doing: &str, number: u32) -> impl FnOnce(io::Error) -> TapError {
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
}

/// Binds, patiently.
fn bind(socket: &Socket, interface: u32, queue: u32, flags: u16) -> io::Result<()> {
    let begin = Instant::now();
    loop {
        match socket.bind(interface, queue, flags) {
            Err(error)
                if error.raw_os_error() == Some(libc::EBUSY) && begin.elapsed() < PATIENCE =>
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            result => return result,
        }
    }
}
