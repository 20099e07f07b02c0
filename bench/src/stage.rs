//! The pages that are read, in a directory of their own.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fs, process};

use truechimer::{Hand, Instant, Leaps, Made, Rate, Span};
use truechimer_counter::{Choice, Counter, boot_id, host_reading, nominal};
use truechimer_time::{BootId, CounterId, Epoch, Leap, Period};
use truechimer_timehands::PageWriter;

use crate::segment::Segment;

/// Unix time of both clocks at the start, ns.
const START_NS: i128 = 1_790_000_000_123_456_789;
const PATH_BOUND_NS: i64 = 50_000;
const GROWTH_PPB: i64 = 500;
/// Leap seconds as a daemon has them that knows a list of them, as most do: the last one at the beginning of 2017, none to
/// come.
const LEAPS: Leaps = Leaps {
    tai_offset: 37,
    known: true,
    last: Some(Leap { at: 1_483_228_800 + 37, step: 1 }),
    next: None,
};

/// Both pages, and the thread that tends ours.
pub struct Stage {
    directory: PathBuf,
    counter: Counter,
    end: Arc<AtomicBool>,
    writer: Option<JoinHandle<()>>,
}

impl Stage {
    /// Makes the pages.
    pub fn new() -> Result<Stage, Box<dyn Error>> {
        let counter = Counter::open(Choice::Auto)?;
        if counter.is_fenced() {
            return Err("ClockBound reads the processor's counter, and this one is not to be \
                        relied on"
                .into());
        }
        let (period, boot) = (nominal(counter)?.period, boot_id()?);
        let directory = scratch()?;
        let mut page = PageWriter::create(directory.join("clock"))?;
        let start = hand(counter, boot, period, None);
        page.publish(&start.0, &start.1);
        Segment {
            count: start.0.base.0,
            as_of: ((START_NS / 1_000_000_000) as i64, (START_NS % 1_000_000_000) as i64),
            period,
            bound_ns: PATH_BOUND_NS,
            drift_ppb: GROWTH_PPB as u32,
        }
        .write(&directory.join("clockbound"))?;
        let end = Arc::new(AtomicBool::new(false));
        let writer = {
            let end = Arc::clone(&end);
            thread::spawn(move || {
                let mut last = start.0;
                while !end.load(Relaxed) {
                    thread::park_timeout(Duration::from_secs(1));
                    let next = hand(counter, boot, period, Some(&last));
                    page.publish(&next.0, &next.1);
                    last = next.0;
                }
            })
        };
        Ok(Stage { directory, counter, end, writer: Some(writer) })
    }

    /// Truechimer's page.
    pub fn page(&self) -> PathBuf {
        self.directory.join("clock")
    }

    /// ClockBound's segment.
    pub fn segment(&self) -> PathBuf {
        self.directory.join("clockbound")
    }

    /// The counter that both are about.
    pub fn counter(&self) -> Counter {
        self.counter
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.end.store(true, Relaxed);
        if let Some(writer) = self.writer.take() {
            writer.thread().unpark();
            let _ = writer.join();
        }
        // What cannot be removed is left to whoever cleans that directory.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The hand of this moment, which begins where the last one stands.
fn hand(counter: Counter, boot: BootId, period: Period, last: Option<&Hand>) -> (Hand, Made) {
    let host = host_reading(counter);
    let start = Instant::from_nanos(START_NS) + Span::from_secs(LEAPS.tai_offset.into());
    let hand = Hand {
        difference_error: Rate::from_ppb(GROWTH_PPB),
        path_bound: Span::from_nanos(PATH_BOUND_NS),
        growth: Rate::from_ppb(GROWTH_PPB),
        leaps: LEAPS,
        ..Hand::exact(
            CounterId { kind: counter.kind(), boot, epoch: Epoch(1) },
            host.count,
            last.map_or(start, |last| last.time_at(host.count)),
            period,
            host.count + period.counts(Span::from_secs(3600)),
        )
    };
    let made = Made {
        count: host.count,
        monotonic_ns: host.monotonic_ns,
        raw_ns: host.raw_ns,
        suspended_ns: host.suspended_ns,
        device: None,
    };
    (hand, made)
}

/// A new directory that only this user can enter.
fn scratch() -> std::io::Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    for n in 0..1000 {
        let name = format!("truechimer-peers-{}-{n}", process::id());
        let path = Path::new(&std::env::temp_dir()).join(name);
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| path),
        }
    }
    Err(std::io::Error::other("too many directories of this name already"))
}
