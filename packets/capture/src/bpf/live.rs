//! Frames that are made in the kernel and take the way of received ones: the one source that can
//! overload a machine.

use super::error::BpfError;
use super::program::{Program, ProgramKind};
use super::sys::Run;

/// The program's verdict on each frame is carried out.
const LIVE: u32 = 1 << 1;
/// The most frames that the kernel makes at a time.
const MOST_BATCH: u32 = 256;
const LEAST_FRAME: usize = 14;

/// Frames for [`Program::run_live`].
#[derive(Clone, Copy, Debug)]
pub struct LiveFrames<'a> {
    /// The frame, from the Ethernet header on.
    pub frame: &'a [u8],
    /// The interface that they are to have come in by (with `XDP_PASS` they go up its stack).
    pub ingress: u32,
    /// Number of frames.
    pub repeat: u32,
    /// Frames at a time, at most 256; 0: the kernel's choice (64).
    pub batch: u32,
}

impl Program {
    /// Runs an XDP program on live frames, and lets each go where the verdict says: up the stack
    /// (`XDP_PASS`), out where it came in (`XDP_TX`), elsewhere (`XDP_REDIRECT`). Returns when all
    /// are through, or at a signal. The frame's memory is used again: what the program writes into
    /// a frame may be in a later one.
    ///
    /// # Errors
    /// Where the kernel (before 5.18) cannot, rights are missing or the frame does not fit.
    pub fn run_live(&self, live: &LiveFrames<'_>) -> Result<(), BpfError> {
        let refuse = |why: &str| Err(BpfError::ours(self.doing("feeding live frames to"), why));
        if self.kind() != ProgramKind::Xdp {
            return refuse("only XDP programs take frames");
        }
        if live.frame.len() < LEAST_FRAME {
            return refuse("a frame has 14 bytes at least");
        }
        let Ok(len) = u32::try_from(live.frame.len()) else {
            return refuse("the frame is too long");
        };
        if live.batch > MOST_BATCH {
            return refuse("at most 256 frames at a time");
        }
        // xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex.
        let context = [0, len, 0, live.ingress, 0, 0];
        let context: Vec<u8> = context.iter().flat_map(|word: &u32| word.to_ne_bytes()).collect();
        let run = Run {
            data: live.frame,
            context: &context,
            repeat: live.repeat,
            flags: LIVE,
            cpu: 0,
            batch: live.batch,
            out: None,
        };
        self.run_raw(run).map(drop)
    }
}
