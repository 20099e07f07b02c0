//! The sender on the other side of the wire: a thread that does nothing else.

use std::net::UdpSocket;

use super::{PERIOD_NS, SIZE};
use crate::bench::capture::bed::NOBODY;
use crate::bench::capture::frame::{MARK_AT, NUMBER_AT, SENT_AT, frame};
use crate::bench::capture::overhead::host::monotonic_ns;
use truechimer_outcome::outcome::Failure;

/// A sender that was held up for longer does not send what it owes in a burst.
const SLACK_NS: u64 = 10 * PERIOD_NS;

/// Sends frames at the constant rate from the namespace and on the processor that the thread is
/// in; each says when it was handed to the kernel. Returns how many went.
///
/// # Errors
/// Where there is no way to the destination.
pub fn send(run: u32, frames: u32) -> Result<u64, Failure> {
    let failed = |error: std::io::Error| Failure::of("sending", error);
    let socket = UdpSocket::bind(("0.0.0.0", 0)).map_err(failed)?;
    socket.connect((NOBODY, 9)).map_err(failed)?;
    let mut payload = frame(SIZE, run).get(MARK_AT..).unwrap_or_default().to_vec();
    let mut due = monotonic_ns() + PERIOD_NS;
    let mut sent = 0;
    for number in 0..u64::from(frames) {
        put(&mut payload, NUMBER_AT - MARK_AT, number);
        let mut now = monotonic_ns();
        if now > due + SLACK_NS {
            due = now;
        }
        while now < due {
            std::hint::spin_loop();
            now = monotonic_ns();
        }
        put(&mut payload, SENT_AT - MARK_AT, now);
        sent += u64::from(socket.send(&payload).is_ok());
        due += PERIOD_NS;
    }
    Ok(sent)
}

fn put(payload: &mut [u8], at: usize, value: u64) {
    if let Some(to) = payload.get_mut(at..at + 8) {
        to.copy_from_slice(&value.to_le_bytes());
    }
}
