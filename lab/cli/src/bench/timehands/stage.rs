//! A page and all the other clocks of the benchmark's own, and who writes them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant as HostInstant};

use truechimer::{Hand, Instant, Made, Period, Rate, Span};
use truechimer_counter::{Choice, Counter, boot_id, host_reading, nominal};
use truechimer_time::{BootId, CounterId, Epoch};
use truechimer_timehands::{PageWriter, pack};

use super::clocks::{Clocks, Old, TENDED};
use truechimer_command::Failure;
use truechimer_command::scratch::Scratch;

/// Longer than this the writer does not sleep, so that it notices what is asked of it.
const NAP: Duration = Duration::from_millis(50);

/// State of a writer: enough to make hand after hand, each beginning where the last one stands.
pub struct Hands {
    counter: Counter,
    period: Period,
    error: Rate,
    boot: BootId,
    last: Option<Hand>,
}

impl Hands {
    /// For the counter that the daemon would take.
    pub fn new() -> Result<Hands, Failure> {
        let failed = |why: &dyn std::fmt::Display| Failure::new("cannot make a clock page", why);
        let counter = Counter::open(Choice::Auto).map_err(|why| failed(&why))?;
        let nominal = nominal(counter).map_err(|why| failed(&why))?;
        let boot = boot_id().map_err(|why| failed(&why))?;
        Ok(Hands { counter, period: nominal.period, error: nominal.error, boot, last: None })
    }

    /// The next one.
    pub fn next(&mut self) -> (Hand, Made) {
        let host = host_reading(self.counter);
        let time = match &self.last {
            Some(last) => last.time_at(host.count),
            None => Instant::from_nanos(1_000_000_000_000_000_000),
        };
        let hand = Hand {
            difference_error: self.error,
            path_bound: Span::from_micros(50),
            statistical_bound: Span::from_micros(5),
            growth: Rate::from_ppb(500),
            ..Hand::exact(
                CounterId { kind: self.counter.kind(), boot: self.boot, epoch: Epoch(1) },
                host.count,
                time,
                self.period,
                host.count + self.period.counts(Span::from_secs(3600)),
            )
        };
        self.last = Some(hand);
        (hand, made(&host))
    }
}

fn made(host: &truechimer_counter::HostReading) -> Made {
    Made {
        count: host.count,
        monotonic_ns: host.monotonic_ns,
        raw_ns: host.raw_ns,
        suspended_ns: host.suspended_ns,
        device: None,
    }
}

/// Everything that is read, with its writer at work in a thread.
pub struct Stage {
    scratch: Scratch,
    clocks: Arc<Clocks>,
    orders: Arc<Orders>,
    writer: Option<JoinHandle<()>>,
}

/// Orders to the writer, and its reports.
#[derive(Default)]
struct Orders {
    /// Updates a second, ≥ 1.
    rate: AtomicU64,
    updates: AtomicU64,
    end: AtomicBool,
}

impl Stage {
    /// Makes it all in a directory of its own; the writer updates it once a second.
    pub fn new() -> Result<Stage, Failure> {
        let failed = |why: &dyn std::fmt::Display| Failure::new("cannot make a clock page", why);
        let scratch = Scratch::new().map_err(|why| failed(&why))?;
        let mut hands = Hands::new()?;
        let mut page =
            PageWriter::create(scratch.path().join("clock")).map_err(|why| failed(&why))?;
        let (hand, made) = hands.next();
        page.publish(&hand, &made);
        Clocks::prepare(scratch.path())?;
        let clocks = Arc::new(Clocks::open(scratch.path(), TENDED)?);
        let update = {
            let clocks = Arc::clone(&clocks);
            move || {
                let (hand, made) = hands.next();
                page.publish(&hand, &made);
                let old = Old::new(hand.base, hand.time, hand.period);
                clocks.publish(&pack(&hand, &made), old);
            }
        };
        let orders = Arc::new(Orders { rate: AtomicU64::new(1), ..Orders::default() });
        let writer = Writer { update, orders: Arc::clone(&orders) };
        let writer = thread::Builder::new()
            .name("writer".into())
            .spawn(writer.starting())
            .map_err(|why| failed(&why))?;
        Ok(Stage { scratch, clocks, orders, writer: Some(writer) })
    }

    /// Where its files are.
    pub fn directory(&self) -> &Path {
        self.scratch.path()
    }

    /// Clocks that can be read.
    pub fn clocks(&self) -> &Clocks {
        &self.clocks
    }

    /// Sets how often the writer updates, per second.
    pub fn set_rate(&self, rate: u32) {
        self.orders.rate.store(u64::from(rate).max(1), Relaxed);
        if let Some(writer) = &self.writer {
            writer.thread().unpark();
        }
    }

    /// Number of updates so far.
    pub fn updates(&self) -> u64 {
        self.orders.updates.load(Relaxed)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.orders.end.store(true, Relaxed);
        if let Some(writer) = self.writer.take() {
            writer.thread().unpark();
            let _ = writer.join();
        }
    }
}

struct Writer<F> {
    update: F,
    orders: Arc<Orders>,
}

impl<F: FnMut() + Send + 'static> Writer<F> {
    /// Updates once, then as ordered.
    fn starting(mut self) -> impl FnOnce() {
        (self.update)();
        move || self.run()
    }

    /// Updates as often as it should have since the rate was set: where it wakes up late, several
    /// times in a row.
    fn run(mut self) {
        let (mut rate, mut begun, mut done) = (0, HostInstant::now(), 0);
        while !self.orders.end.load(Relaxed) {
            let wanted = self.orders.rate.load(Relaxed);
            if wanted != rate {
                (rate, begun, done) = (wanted, HostInstant::now(), 0);
            }
            let due = (begun.elapsed().as_secs_f64() * rate as f64) as u64;
            // Never more than a second's worth: where it was stopped it does not make up for it.
            let first = due.saturating_sub(rate).max(done);
            for _ in first..due {
                (self.update)();
                self.orders.updates.fetch_add(1, Relaxed);
            }
            done = due;
            let next = Duration::from_secs_f64((done + 1) as f64 / rate as f64);
            thread::park_timeout(next.saturating_sub(begun.elapsed()).min(NAP));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_writer_writes_as_often_as_it_is_told() {
        let stage = Stage::new().unwrap();
        stage.set_rate(1000);
        let start = HostInstant::now();
        while stage.updates() < 50 {
            assert!(start.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(1));
        }
        // Not before its time.
        assert!(start.elapsed() >= Duration::from_millis(45));
    }
}
