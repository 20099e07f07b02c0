//! A stand-in for the daemon: it publishes whatever a test wants.
#![allow(dead_code)] // Each test binary uses its part.

pub mod vmclock;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use truechimer::{Clock, Epoch, Hand, Instant, Leaps, Made, Period, Rate, Span};
use truechimer_counter::{Choice, Counter, boot_id, host_reading, nominal};
use truechimer_time::{CountSpan, CounterId};
use truechimer_timehands::PageWriter;

/// Somewhere in 2026.
pub const TODAY: Instant = Instant::new(1_790_000_000, 0);

/// A page in a directory of its own, and its writer.
pub struct Daemon {
    pub writer: Option<PageWriter>,
    pub directory: PathBuf,
    pub counter: Counter,
    pub period: Period,
}

impl Daemon {
    pub fn new(choice: Choice) -> Daemon {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("clock-{}-{n}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).unwrap();
        let counter = Counter::open(choice).unwrap();
        let period = nominal(counter).unwrap().period;
        let writer = Some(PageWriter::create(directory.join("clock")).unwrap());
        Daemon { writer, directory, counter, period }
    }

    /// One with a synchronised hand.
    pub fn synchronised() -> Daemon {
        let mut daemon = Daemon::new(Choice::Auto);
        daemon.publish(|_, _| ());
        daemon
    }

    pub fn path(&self) -> PathBuf {
        self.directory.join("clock")
    }

    pub fn clock(&self) -> Clock {
        Clock::open_at(self.path()).unwrap()
    }

    pub fn writer(&mut self) -> &mut PageWriter {
        self.writer.as_mut().unwrap()
    }

    pub fn counts(&self, span: Span) -> CountSpan {
        self.period.counts(span)
    }

    /// A synchronised hand of this moment.
    pub fn hand(&self) -> (Hand, Made) {
        let host = host_reading(self.counter);
        let kind = self.counter.kind();
        let hand = Hand {
            difference_error: Rate::from_ppb(1000),
            path_bound: Span::from_micros(50),
            statistical_bound: Span::from_micros(5),
            growth: Rate::from_ppb(500),
            leaps: Leaps { tai_offset: 37, known: true, last: None, next: None },
            ..Hand::exact(
                CounterId { kind, boot: boot_id().unwrap(), epoch: Epoch(1) },
                host.count,
                TODAY,
                self.period,
                host.count + self.counts(Span::from_secs(1000)),
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

    /// Publishes such a hand after a change to it.
    pub fn publish(&mut self, change: impl Fn(&mut Hand, &mut Made)) -> Hand {
        let (mut hand, mut made) = self.hand();
        change(&mut hand, &mut made);
        self.writer().publish(&hand, &made);
        hand
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}
