//! Size of a ring, and number of its blocks.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use super::calls::{Request, Socket};
use super::ring::Ring;

/// Size of a block, in bytes: a packet must fit in one, and offloads put packets of up to 64 KiB
/// together. Small ones make for many: at low rates each waits with the few packets of
/// [`PacketOptions::latency`](super::PacketOptions::latency), and a ring of n blocks bridges n
/// times that.
const BLOCK: u64 = 128 << 10;
/// A ring of fewer blocks is none.
const FEWEST: u64 = 4;
/// The kernel counts bytes of a ring in 32 bits in places.
const MOST: u64 = (1 << 32) / BLOCK - 1;

/// Layout of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    blocks: u64,
    /// The bytes that were asked for.
    asked: u64,
    /// Time that a block waits for more packets.
    pub latency: Duration,
}

impl Plan {
    /// One of `asked` bytes, rounded down to blocks, of what memory there is at most half.
    fn new(asked: u64, latency: Duration, available: Option<u64>) -> Plan {
        let most = available.map_or(MOST, |available| (available / 2 / BLOCK).min(MOST));
        let blocks = (asked / BLOCK).min(most).max(FEWEST);
        let latency = Duration::from_millis(latency.as_millis().clamp(1, 1000) as u64);
        Plan { blocks, asked, latency }
    }

    /// Half as much, if that is a ring still.
    fn half(self) -> Option<Plan> {
        (self.blocks / 2 >= FEWEST).then_some(Plan { blocks: self.blocks / 2, ..self })
    }

    /// Size in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.blocks * BLOCK
    }

    fn request(&self) -> Request {
        Request {
            block_size: BLOCK as u32,
            blocks: self.blocks as u32,
            retire: self.latency.as_millis() as u32,
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { blocks, asked, latency } = self;
        write!(f, "TPACKET_V3, {blocks} blocks of {} KiB, handed on after ", BLOCK >> 10)?;
        write!(f, "{} ms", latency.as_millis())?;
        if self.bytes() < asked / BLOCK * BLOCK {
            let mib = |bytes: u64| bytes >> 20;
            write!(f, "; {} MiB of memory were refused, ", mib(*asked))?;
            write!(f, "the ring has {} MiB", mib(self.bytes()))?;
        }
        Ok(())
    }
}

/// Makes and maps a ring of `asked` bytes, or as much as the kernel gives.
pub(super) fn ring(socket: &Socket, asked: u64, latency: Duration) -> io::Result<(Ring, Plan)> {
    let mut plan = Plan::new(asked, latency, available());
    loop {
        match socket.ring(plan.request()) {
            Ok(()) => break,
            Err(why) => match (why.raw_os_error(), plan.half()) {
                (Some(libc::ENOMEM | libc::EINVAL), Some(half)) => plan = half,
                _ => return Err(why),
            },
        }
    }
    let ring = Ring::map(socket.as_fd(), plan.blocks as usize, BLOCK as usize)?;
    Ok((ring, plan))
}

/// Memory that there is for the asking, in bytes. The kernel would rather end other programs than
/// refuse a ring.
fn available() -> Option<u64> {
    parse_available(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn parse_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn as_much_as_is_asked_for_in_whole_blocks() {
        let plan = Plan::new(64 << 20, MS, None);
        assert_eq!((plan.blocks, plan.bytes()), (512, 64 << 20));
        assert_eq!(Plan::new((64 << 20) + 5, MS, None), Plan { asked: (64 << 20) + 5, ..plan });
        assert!(!Plan::new((64 << 20) + 5, MS, None).to_string().contains("refused"));
        assert_eq!(Plan::new(0, MS, None).blocks, FEWEST);
    }

    #[test]
    fn never_more_than_half_of_what_there_is() {
        let plan = Plan::new(1 << 40, Duration::ZERO, Some(1 << 30));
        assert_eq!((plan.bytes(), plan.latency), (512 << 20, MS));
        let shown = plan.to_string();
        assert!(shown.ends_with("1048576 MiB of memory were refused, the ring has 512 MiB"));
        assert!(Plan::new(u64::MAX, MS, None).bytes() < 1 << 32);
        assert_eq!(Plan::new(1 << 30, MS, Some(0)).blocks, FEWEST);
        assert_eq!(plan.half().map(|half| half.bytes()), Some(256 << 20));
        assert_eq!(Plan::new(0, MS, None).half(), None);
    }

    #[test]
    fn the_kernel_s_word_on_memory() {
        let file = "MemTotal: 100 kB\nMemAvailable:    8123 kB\n";
        assert_eq!(parse_available(file), Some(8123 * 1024));
        for wrong in ["", "MemAvailable: x kB", "MemAvailable: 18446744073709551615 kB"] {
            assert_eq!(parse_available(wrong), None);
        }
        assert!(available().is_some());
    }
}
