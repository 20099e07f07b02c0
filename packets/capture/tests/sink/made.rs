//! Packets, clocks and files that are made up.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use truechimer_capture::convert::{Change, Continuity, Identity, Used};
use truechimer_capture::{
    Counted, Direction, Facts, KernelClock, Method, Packet, Quality, RawStamp, Stamped,
};
use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_time::{
    BootId, Count, CountSpan, CounterId, CounterKind, Epoch, Instant, Period, Rate, Span,
};
use truechimer_timehands::{Hand, Made, Status};

/// 2026-11-21T22:26:40Z, ns.
pub const START: i64 = 1_795_300_000_000_000_000;

/// A directory of this test's own, which goes with it.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("truechimer-sink-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The names in it, in order.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn facts() -> Facts {
    Facts {
        interface: "wire".into(),
        method: Method::Packet,
        detail: "ring of 1 MiB".into(),
        link_type: 1,
        snap_length: 200,
        stamped_by: "kernel at arrival (CLOCK_REALTIME)".into(),
        ring_bytes: 1 << 20,
        stamp_error: truechimer_time::CountSpan(0),
    }
}

/// A hand whose clock shows `START` at count 1 000 000, of a counter of 1 GHz.
pub fn used(generation: u64) -> Used {
    let counter = CounterId { kind: CounterKind::Tsc, boot: BootId([7; 16]), epoch: Epoch(3) };
    Used {
        generation,
        hand: Hand {
            difference_error: Rate::from_ppb(10),
            path_bound: Span::from_micros(20),
            statistical_bound: Span::from_micros(3),
            growth: Rate::from_ppb(500),
            ..Hand::exact(
                counter,
                Count(1_000_000),
                Instant::from_nanos(START.into()),
                Period::NANOSECOND,
                Count(1 << 50),
            )
        },
        made: Made {
            count: Count(1_000_000),
            monotonic_ns: 5,
            raw_ns: 6,
            suspended_ns: 0,
            device: None,
        },
    }
}

pub fn change(at: u64, status: Option<Status>, generation: Option<u64>) -> Change {
    Change {
        at: Count(at),
        counter: Identity {
            kind: CounterKind::Tsc,
            boot: BootId([7; 16]),
            period: Period::NANOSECOND,
            resolution: CountSpan(1),
        },
        epoch: Epoch(3),
        status,
        reason: status.is_none().then(|| "no daemon".to_owned()),
        hand: generation.map(used),
        continuity: Continuity {
            count: Count(at),
            raw_ns: at as i64,
            monotonic_ns: at as i64,
            suspended_ns: 0,
            width: CountSpan(30),
        },
    }
}

/// The stamp of a packet `ns` after [`START`].
pub fn stamped(ns: u64) -> Stamped {
    let instant = Instant::from_nanos(i128::from(START) + i128::from(ns));
    Stamped {
        counted: Some(Counted {
            count: Count(1_000_000 + ns),
            error: CountSpan(25),
            epoch: Epoch(3),
        }),
        unix_ns: START + ns as i64,
        instant: Some(instant),
        bound: Some(Span::from_micros(23)),
        quality: Quality::Bounded,
        generation: 5,
    }
}

/// An Ethernet frame of so many bytes: UDP from 10.0.0.1 to 10.0.0.2.
pub fn frame(length: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let ip = (length - 14) as u16;
    frame.extend([0x45, 0]);
    frame.extend(ip.to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum: u32 =
        frame[14..].chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend([0x30, 0x39, 0x26, 0x94]);
    frame.extend((ip - 20).to_be_bytes());
    frame.extend([0, 0]);
    frame.resize(length, b'.');
    frame
}

pub fn packet(data: &[u8]) -> Packet<'_> {
    Packet {
        stamp: RawStamp::Clock(KernelClock::Realtime, START),
        data,
        tag: None,
        length: data.len() as u32,
        direction: Direction::In,
        queue: 0,
    }
}

/// Fields of each packet as tshark sees them; `None`, and a word about it, where there is none.
pub fn tshark(file: &Path, fields: &[&str]) -> Option<Vec<String>> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-n", "-T", "fields"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = or_skip(command.output().map_err(|_| Lacking("tshark is not here".into())))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

/// Words of capinfos on a file.
pub fn capinfos(file: &Path) -> Option<String> {
    let output = Command::new("capinfos").arg(file).output();
    let output = or_skip(output.map_err(|_| Lacking("capinfos is not here".into())))?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}
