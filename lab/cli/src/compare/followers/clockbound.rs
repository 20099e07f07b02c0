//! ClockBound 3: its shared memory segment, at the count of the moment.
//!
//! The segment is read as a file, and time and bound are worked out as its own client does
//! (segment layout 3), only at a count of ours: so that all clocks are read at the same moment.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use truechimer_outcome::outcome::Failure;
use truechimer_testbed::process::Process;
use truechimer_time::CounterKind;

use super::{Follower, Said};
use crate::compare::bed::Bed;
use crate::compare::moment::{Counters, Moment};

/// Time that it has to make its segment.
const START: Duration = Duration::from_secs(20);
/// Number of times that a segment that changes while it is read is read again.
const TRIES: u32 = 8;
/// The magic numbers at its beginning.
const MAGIC: [u32; 2] = [0x414d_5a4e, 0x4342_0200];
const SIZE: usize = 104;
/// The layout that is read here.
const VERSION: u16 = 3;

/// Contents of the segment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Segment {
    count: u64,
    as_of_ns: i128,
    void_after_ns: i128,
    /// Length of a count, s.
    period: f64,
    period_error: f64,
    bound_ns: i64,
    drift_ppb: u32,
    /// 1 synchronised, 2 running free; else nothing is promised.
    status: i32,
}

impl Segment {
    /// Reads what a file holds; `None` if it is no complete segment.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Segment> {
        let bytes = bytes.get(..SIZE)?;
        let u16_at = |at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let u32_at = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let u64_at = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let time_at = |at: usize| {
            let (s, ns) = (u64_at(at)? as i64, u64_at(at + 8)? as i64);
            Some(i128::from(s) * 1_000_000_000 + i128::from(ns))
        };
        let generation = u16_at(14)?;
        let version = u16_at(12)? & 0xff;
        if [u32_at(0)?, u32_at(4)?] != MAGIC || version != VERSION {
            return None;
        }
        // Odd while it is being written, 0 before it ever was.
        if generation == 0 || generation % 2 == 1 {
            return None;
        }
        let fraction = |at: usize, shift: usize| {
            let shift = i32::from(*bytes.get(shift)?);
            Some(u64_at(at)? as f64 * 2_f64.powi(-64 - shift))
        };
        Some(Segment {
            count: u64_at(16)?,
            as_of_ns: time_at(24)?,
            void_after_ns: time_at(40)?,
            period: fraction(56, 97)?,
            period_error: fraction(64, 98)?,
            bound_ns: u64_at(72)? as i64,
            drift_ppb: u32_at(88)?,
            status: u32_at(92)? as i32,
        })
    }

    /// The time and its bound at a count.
    #[must_use]
    pub fn at(&self, count: u64) -> Option<Said> {
        // Its client takes a count of before the update for the update itself.
        let since_ns = count.saturating_sub(self.count) as f64 * self.period * 1e9;
        let unix_ns = i64::try_from(self.as_of_ns + since_ns as i128).ok()?;
        if !matches!(self.status, 1 | 2) || i128::from(unix_ns) > self.void_after_ns {
            return None;
        }
        let grown = since_ns * (f64::from(self.drift_ppb) * 1e-9 + self.period_error);
        Some(Said { unix_ns, bound_ns: Some(self.bound_ns as f64 + grown) })
    }
}

/// The daemon.
#[derive(Debug)]
pub struct ClockBound {
    segment: PathBuf,
    _daemon: Process,
}

impl ClockBound {
    /// Starts this program in a mount namespace whose `/run` is ours, and whose firmware says that
    /// it is an EC2 instance.
    ///
    /// # Errors
    /// If it makes no segment.
    pub fn start(bed: &Bed, program: &Path) -> Result<ClockBound, Failure> {
        let (run, virt, log) =
            (bed.dir.join("cb-run"), bed.dir.join("cb-sys"), bed.dir.join("clockbound.log"));
        let dmi = virt.join("dmi/id");
        let made = std::fs::create_dir_all(&dmi)
            .and_then(|()| std::fs::create_dir_all(run.join("clockbound")))
            .and_then(|()| std::fs::write(dmi.join("sys_vendor"), "Amazon EC2\n"))
            .and_then(|()| std::fs::write(dmi.join("product_name"), "made-up.metal\n"));
        made.map_err(|why| Failure::of(virt.display(), why))?;
        let mut command = bed.net.client.command("unshare");
        let script = "mount --bind \"$1\" /run && mount --bind \"$2\" /sys/devices/virtual && \
                      exec \"$3\"";
        command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]);
        command.arg(&run).arg(&virt).arg(program);
        let mut daemon = Process::start(command, &log);
        let segment = run.join("clockbound/shm1");
        let end = Instant::now() + START;
        while !segment.exists() {
            if !daemon.is_running() || Instant::now() >= end {
                return Err(Failure::of("ClockBound", daemon.output().trim()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(ClockBound { segment, _daemon: daemon })
    }

    fn read(&self) -> Option<Segment> {
        (0..TRIES).find_map(|_| {
            let first = std::fs::read(&self.segment).ok()?;
            // Twice the same: nobody wrote while it was read.
            let again = std::fs::read(&self.segment).ok()?;
            (first == again).then(|| Segment::parse(&first)).flatten()
        })
    }
}

impl Follower for ClockBound {
    fn name(&self) -> &str {
        "ClockBound 3"
    }

    fn ask(&mut self, _: &Counters) {}

    fn said(&mut self, counters: &Counters, moment: &Moment) -> Option<Said> {
        let counts = [CounterKind::Tsc, CounterKind::ArmGeneric];
        if !counts.contains(&counters.native.kind()) {
            return None;
        }
        self.read()?.at(moment.count.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(generation: u16, status: i32) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut put = |field: &[u8]| bytes.extend_from_slice(field);
        put(&MAGIC[0].to_ne_bytes());
        put(&MAGIC[1].to_ne_bytes());
        put(&(SIZE as u32).to_ne_bytes());
        put(&0x0303_u16.to_ne_bytes());
        put(&generation.to_ne_bytes());
        put(&1000_u64.to_ne_bytes());
        for seconds in [100_i64, 1100] {
            put(&seconds.to_ne_bytes());
            put(&5_i64.to_ne_bytes());
        }
        // 2⁻³⁰ s a count, wrong by 2⁻²⁰ of that.
        put(&(1_u64 << 63).to_ne_bytes());
        put(&(1_u64 << 63).to_ne_bytes());
        put(&700_i64.to_ne_bytes());
        put(&0_u64.to_ne_bytes());
        put(&15_000_u32.to_ne_bytes());
        put(&status.to_ne_bytes());
        put(&[0, 29, 19]);
        put(&[0; 5]);
        bytes
    }

    #[test]
    fn time_and_bound_go_on_from_the_update() {
        let segment = Segment::parse(&bytes(2, 1)).unwrap();
        let said = segment.at(1000 + (1 << 30)).unwrap();
        assert_eq!(said.unix_ns, 101_000_000_005);
        let bound = said.bound_ns.unwrap();
        assert!((bound - (700.0 + 15_000.0 + 1e9 / f64::from(1 << 20))).abs() < 1e-3, "{bound}");
        assert_eq!(segment.at(0).unwrap().unix_ns, 100_000_000_005);
    }

    #[test]
    fn nothing_is_made_of_what_is_no_segment() {
        assert!(Segment::parse(&bytes(3, 1)).is_none());
        assert!(Segment::parse(&bytes(0, 1)).is_none());
        assert!(Segment::parse(&bytes(2, 1)[..100]).is_none());
        assert!(Segment::parse(&[0; SIZE]).is_none());
        assert_eq!(Segment::parse(&bytes(2, 3)).unwrap().at(2000), None);
        let late = 1000 + (1001_u64 << 30);
        assert_eq!(Segment::parse(&bytes(2, 1)).unwrap().at(late), None);
    }
}
