//! The frames that are sent, and how they are known again.

/// An Ethernet frame with IPv4 and UDP of `size` bytes, without the frame check sequence, as the
/// generator completes it: after the headers come
/// the mark, the number of the run, the frame's own number and the time at which it was sent.
///
/// It is for nobody: the destination is no host's address, so that the network stack drops it as
/// soon as it has looked at the Ethernet header.
#[must_use]
pub fn frame(size: usize, run: u32) -> Vec<u8> {
    let size = size.max(LEAST);
    let mut frame = vec![0_u8; size];
    let ip_length = (size - ETHERNET) as u16;
    let mut ip = [0_u8; 20];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&ip_length.to_be_bytes());
    ip[8] = 64;
    ip[9] = 17;
    ip[12..16].copy_from_slice(&[192, 0, 2, 1]);
    ip[16..20].copy_from_slice(&[192, 0, 2, 2]);
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut udp = [0_u8; 8];
    udp[0..2].copy_from_slice(&PORT.to_be_bytes());
    udp[2..4].copy_from_slice(&PORT.to_be_bytes());
    udp[4..6].copy_from_slice(&(ip_length - 20).to_be_bytes());
    let head: Vec<u8> = [0x02, 0, 0, 0, 0x48, 0x02, 0x02, 0, 0, 0, 0x48, 0x01, 0x08, 0x00]
        .into_iter()
        .chain(ip)
        .chain(udp)
        .chain(MARK)
        .chain(run.to_le_bytes())
        .collect();
    for (to, from) in frame.iter_mut().zip(head) {
        *to = from;
    }
    frame
}

const ETHERNET: usize = 14;
/// Discard.
const PORT: u16 = 9;
/// Mark that tells our frames from all others.
const MARK: [u8; 4] = *b"H:tc";
/// Where the mark stands; also where the payload of UDP begins.
pub const MARK_AT: usize = 42;
const RUN_AT: usize = MARK_AT + MARK.len();
/// Where the frame's number stands: eight bytes, little-endian.
pub const NUMBER_AT: usize = RUN_AT + 4;
/// Where the time stands at which it was sent: eight bytes, little-endian, `CLOCK_MONOTONIC`, ns.
pub const SENT_AT: usize = NUMBER_AT + 8;
/// A frame with all of that is at least so long where the time is wanted too; without, 60 bytes do.
pub const TIMED: usize = SENT_AT + 8;
/// The shortest frame on Ethernet.
const LEAST: usize = 60;

/// Contents of a frame of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marked {
    /// The run it is of.
    pub run: u32,
    /// Which of that run's frames it is.
    pub number: u64,
    /// When it was sent, `CLOCK_MONOTONIC`, ns; 0 where that was not wanted or is cut off.
    pub sent_ns: u64,
}

/// Reads what a captured frame says of itself; `None` if it is none of ours.
#[must_use]
pub fn marked(data: &[u8]) -> Option<Marked> {
    let long =
        |at: usize| Some(u64::from_le_bytes(data.get(at..at.checked_add(8)?)?.try_into().ok()?));
    if data.get(MARK_AT..RUN_AT)? != MARK {
        return None;
    }
    let run = u32::from_le_bytes(data.get(RUN_AT..NUMBER_AT)?.try_into().ok()?);
    Some(Marked { run, number: long(NUMBER_AT)?, sent_ns: long(SENT_AT).unwrap_or(0) })
}

/// Of the IPv4 header.
fn checksum(header: &[u8]) -> u16 {
    let words = header.chunks(2).map(|pair| {
        u32::from(pair.first().copied().unwrap_or(0)) << 8
            | u32::from(pair.get(1).copied().unwrap_or(0))
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_known_again() {
        let mut bytes = frame(128, 7);
        assert_eq!(bytes.len(), 128);
        bytes[NUMBER_AT..SENT_AT].copy_from_slice(&9_u64.to_le_bytes());
        bytes[SENT_AT..TIMED].copy_from_slice(&11_u64.to_le_bytes());
        assert_eq!(marked(&bytes), Some(Marked { run: 7, number: 9, sent_ns: 11 }));
        assert_eq!(marked(&bytes[..60]), Some(Marked { run: 7, number: 9, sent_ns: 0 }));
        bytes[MARK_AT] ^= 1;
        assert_eq!(marked(&bytes), None);
        assert_eq!(marked(&[]), None);
    }

    #[test]
    fn its_headers_are_right() {
        let bytes = frame(60, 0);
        assert_eq!(checksum(&bytes[14..34]), 0, "the IPv4 checksum holds");
        assert_eq!(bytes[16..18], 46_u16.to_be_bytes(), "IPv4 length");
        assert_eq!(bytes[38..40], 26_u16.to_be_bytes(), "UDP length");
    }
}
