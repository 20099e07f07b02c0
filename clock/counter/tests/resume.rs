//! A narrow counter that changes hands: a process that takes over goes on in the same row of
//! counts.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU64, Ordering};

use truechimer_counter::{Cost, Counter, CounterError, Hardware, KeptAt, Nominal, NominalSource};
use truechimer_time::{Count, CountSpan, CounterKind, Period, Rate};

/// A device that counts when it is told to.
#[derive(Debug)]
struct Device {
    bits: u32,
    count: &'static AtomicU64,
}

impl Hardware for Device {
    fn kind(&self) -> CounterKind {
        CounterKind::AcpiPm
    }

    fn description(&self) -> &'static str {
        "a device of this test"
    }

    fn raw(&self) -> u64 {
        self.count.load(Ordering::SeqCst) & (u64::MAX >> (64 - self.bits))
    }

    fn bits(&self) -> u32 {
        self.bits
    }

    fn cost(&self) -> Cost {
        Cost::Device
    }

    fn stated(&self) -> Option<Nominal> {
        let (period, error) = (Period::from_hz(1_000), Rate::from_ppb(500_000));
        Some(Nominal { period, error, source: NominalSource::Definition })
    }
}

/// Two processes' counters of one device, and the device.
fn two(bits: u32) -> (Counter, Counter, &'static AtomicU64) {
    let count: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(5)));
    let open = || Counter::of_hardware(Device { bits, count }).unwrap();
    (open(), open(), count)
}

/// The device counts through so many quarters of a roll-over, and is read after each.
fn run(quarters: u32, device: &AtomicU64, counters: &[Counter]) {
    for _ in 0..quarters {
        device.fetch_add(1 << 22, Ordering::SeqCst);
        for counter in counters {
            let _ = counter.read();
        }
    }
}

#[test]
fn who_takes_over_goes_on_in_the_same_row() {
    // The row to go on in is ahead of one's own, or behind it.
    for (daemons, own) in [(40, 0), (0, 40)] {
        let (daemon, successor, device) = two(24);
        run(daemons, device, &[daemon]);
        run(own, device, &[successor]);
        let kept = daemon.keep().unwrap();
        run(1, device, &[]);
        assert_ne!(successor.read(), daemon.read(), "rows of their own");
        successor.resume(&kept).unwrap();
        for _ in 0..40 {
            run(1, device, &[]);
            assert_eq!(successor.read(), daemon.read());
            assert_eq!(daemon.read_from(&successor.keep().unwrap()), Ok(daemon.read()));
        }
        assert_eq!((daemon.lapses(), successor.lapses()), (0, 0));
    }
}

#[test]
fn what_cannot_be_continued_is_refused_and_changes_nothing() {
    let (daemon, successor, device) = two(24);
    run(8, device, &[successor]);
    let kept = daemon.keep().unwrap();
    let own = successor.read();
    let half = (1 << 23) * 1_000_000;
    for at_ns in [kept.at_ns - half, kept.at_ns + 1_000_000_000, i64::MIN, i64::MAX] {
        let why = successor.resume(&KeptAt { at_ns, ..kept });
        assert!(matches!(why, Err(CounterError::Stale { .. })), "{why:?}");
    }
    for wide in [1 << 57, 1 << 63] {
        let why = successor.resume(&KeptAt { wide: Count(wide), ..kept });
        assert!(matches!(why, Err(CounterError::Foreign(_))), "{why:?}");
    }
    run(1, device, &[]);
    assert_eq!(successor.read() - own, CountSpan(1 << 22));
    let raw = Counter::of_kind(CounterKind::Raw).unwrap();
    assert_eq!(raw.resume(&kept), Ok(()), "nothing to do");
}

#[test]
fn who_reads_more_bits_relies_on_those_that_were_kept() {
    let (keeper, _, device) = two(24);
    let reader = Counter::of_hardware(Device { bits: 32, count: device }).unwrap();
    // The device has gone round 24 bits by now; its upper ones are not in the row that is kept.
    device.fetch_add(0x5_a000_0000, Ordering::SeqCst);
    let kept = keeper.keep().unwrap();
    for _ in 0..2 {
        run(1, device, &[]);
        let count = reader.read_within(&kept, 24).unwrap();
        assert_eq!(count, keeper.read_from(&kept).unwrap());
        assert_ne!(reader.read_from(&kept), Ok(count));
    }
    let stale = KeptAt { at_ns: kept.at_ns - (1 << 23) * 1_000_000, ..kept };
    let why = reader.read_within(&stale, 24);
    assert!(matches!(why, Err(CounterError::Stale { .. })), "{why:?}");
    assert!(reader.read_within(&kept, 1).is_err());
    // Fewer bits than were kept do for a shorter time.
    let kept = reader.keep().unwrap();
    assert_eq!(keeper.read_within(&kept, 32), reader.read_from(&kept));
    assert!(
        keeper
            .read_within(&KeptAt { at_ns: kept.at_ns - (1 << 24) * 1_000_000, ..kept }, 32)
            .is_err()
    );
}
