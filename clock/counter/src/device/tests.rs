//! Simulated registers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use proptest::prelude::*;
use truechimer_time::{Count, CountSpan};

use super::*;
use crate::error::Fault;
use crate::hardware::{Cost, Hardware};
use crate::measure::NominalSource;
use crate::{Counter, nominal, resolution};

/// A block of registers of which one counts by itself whenever it is read.
#[derive(Debug)]
struct Block {
    words: Vec<(usize, u32)>,
    counter: (usize, AtomicU32),
    step: u32,
}

impl Registers for Block {
    fn word(&self, at: usize) -> u32 {
        if at == self.counter.0 {
            return self.counter.1.fetch_add(self.step, Ordering::Relaxed);
        }
        self.words.iter().find(|word| word.0 == at).map_or(0, |word| word.1)
    }
}

/// QEMU's HPET, as it counts at `step` a read.
fn hpet_block(period: u32, configuration: u32, step: u32) -> Block {
    Block {
        words: vec![(0, 0x8086_a201), (4, period), (0x10, configuration)],
        counter: (0xf0, AtomicU32::new(u32::MAX - 2)),
        step,
    }
}

fn simulated_hpet(block: Block) -> Result<Hpet<Block>, CounterError> {
    let said = HpetRegisters::read(&block, DEV_HPET)?;
    Hpet::new(block, &said)
}

#[test]
fn an_hpet_as_its_registers_say() {
    let said = HpetRegisters::read(&hpet_block(10_000_000, 1, 1), DEV_MEM).unwrap();
    let expected = HpetRegisters {
        path: DEV_MEM,
        period_fs: 10_000_000,
        vendor: 0x8086,
        comparators: 3,
        wide: true,
        enabled: true,
    };
    assert_eq!(said, expected);
    for (period, hz) in
        [(10_000_000, 100_000_000), (69_841_279, 14_318_180), (41_666_667, 24_000_000)]
    {
        let counter =
            Counter::of_hardware(simulated_hpet(hpet_block(period, 3, 7)).unwrap()).unwrap();
        let stated = nominal(counter).unwrap();
        assert!(stated.period.hz().abs_diff(hz) <= 1, "{}", stated.period.hz());
        assert_eq!((stated.source, stated.error.as_ppt()), (NominalSource::Register, 500_000_000));
        assert_eq!(
            (counter.kind(), counter.bits(), counter.cost()),
            (CounterKind::Hpet, 32, Cost::Device)
        );
        assert_eq!(resolution(counter), CountSpan(1));
        // It has rolled over while it was looked at.
        let (first, second) = (counter.read(), counter.read());
        assert_eq!((first.0 >> 32, second - first), (1, CountSpan(7)));
    }
}

#[test]
fn an_hpet_that_is_none() {
    let fault = |fault| Some(CounterError::Faulty(CounterKind::Hpet, fault));
    assert_eq!(simulated_hpet(hpet_block(10_000_000, 0, 1)).err(), fault(Fault::Disabled));
    assert_eq!(simulated_hpet(hpet_block(10_000_000, 1, 0)).err(), fault(Fault::Stopped));
    for period in [0, 99_999, 100_000_001, u32::MAX] {
        assert_eq!(simulated_hpet(hpet_block(period, 1, 1)).err(), fault(Fault::Period(period)));
    }
    for silent in [0, u32::MAX] {
        let words = [0, 4, 0x10].map(|at| (at, silent)).to_vec();
        let block = Block { words, counter: (0xf0, AtomicU32::new(silent)), step: 0 };
        assert_eq!(simulated_hpet(block).err(), fault(Fault::Silent));
    }
}

fn pm_block(first: u32, step: u32) -> Block {
    Block { words: Vec::new(), counter: (0, AtomicU32::new(first)), step }
}

fn said(bits: u32) -> PmTimer {
    PmTimer { place: Place::Port(0x608), bits }
}

#[test]
fn a_pm_timer_is_as_wide_as_it_shows() {
    let bits = |block, claimed| {
        Pm::new(block, said(claimed))
            .map(|timer| Read { timer: Box::leak(Box::new(timer)), safe: false }.bits())
    };
    assert_eq!(bits(pm_block(0x0100_0000, 1), 32), Ok(32));
    assert_eq!(bits(pm_block(0x00ff_0000, 1), 32), Ok(24), "promised, but never seen");
    assert_eq!(bits(pm_block(0xff00_0000, 1), 24), Ok(24), "the rest is not the counter's");
    let fault = |fault| Err(CounterError::Faulty(CounterKind::AcpiPm, fault));
    assert_eq!(bits(pm_block(u32::MAX, 0), 24), fault(Fault::Silent));
    assert_eq!(bits(pm_block(5, 0), 24), fault(Fault::Stopped));
}

#[test]
fn both_forms_count_the_same() {
    let [fast, safe] = pm_forms(pm_block(0xff_ff00, 1), said(24)).unwrap().map(Counter::device);
    assert_ne!(fast, safe);
    assert_eq!((fast.kind(), safe.kind()), (CounterKind::AcpiPm, CounterKind::AcpiPm));
    assert_eq!(fast.hardware().stated(), safe.hardware().stated());
    assert_eq!(nominal(fast).unwrap().period.hz(), 3_579_545);
    let mut last = fast.read();
    for counter in [fast, safe].repeat(400) {
        let next = counter.read();
        assert!((1..=3).contains(&(next - last).0), "{:?}", next - last);
        last = next;
    }
    let last = fast.read();
    assert_eq!(fast.keep().map(|kept| (kept.wide - last).0), Some(1));
    assert_eq!((fast.lapses(), safe.lapses()), (0, 0));
}

/// A timer that is now and then read while it carries.
#[derive(Debug)]
struct Unlatched {
    truth: Arc<AtomicU64>,
    /// Bits to flip in a reading, by its number.
    wrong: Vec<u32>,
    reads: AtomicU32,
}

impl Registers for Unlatched {
    fn word(&self, _at: usize) -> u32 {
        let truth = self.truth.fetch_add(3, Ordering::Relaxed) as u32;
        let n = self.reads.fetch_add(1, Ordering::Relaxed) as usize;
        let flip = self.wrong.get(n % self.wrong.len().max(1)).copied().unwrap_or(0);
        (truth ^ flip) & 0xff_ffff
    }
}

proptest! {
    /// One wrong reading in three, whatever is wrong with it, never shows in the safe form.
    #[test]
    fn the_safe_form_is_right_where_single_readings_are_not(
        start in 0u64..1 << 24,
        flips in prop::collection::vec((0u32..24, prop::bool::weighted(0.4)), 1..40),
    ) {
        // A wrong reading is followed by at least two right ones, as a carry is a rare thing.
        let wrong: Vec<u32> =
            flips.iter().flat_map(|(bit, is)| [u32::from(*is) << bit, 0, 0]).collect();
        let truth = Arc::new(AtomicU64::new(1 << 24 | start));
        let reads = AtomicU32::new(0);
        let timer = Pm { registers: Unlatched { truth: truth.clone(), wrong, reads }, bits: 24 };
        for _ in 0..50 {
            let before = truth.load(Ordering::Relaxed);
            let read = timer.believable();
            let after = truth.load(Ordering::Relaxed);
            // Between the two, as those are 3 × 13 counts apart at most.
            let ahead = read.wrapping_sub(before as u32) & 0xff_ffff;
            prop_assert!(u64::from(ahead) < after - before, "{} of {}", ahead, after - before);
        }
    }
}

#[test]
fn a_reading_that_is_half_a_roll_over_off_is_found_out() {
    let (truth, wrong) = (Arc::new(AtomicU64::new(0)), vec![1 << 23, 0, 0]);
    let registers = Unlatched { truth, wrong, reads: AtomicU32::new(0) };
    let timer = Pm { registers, bits: 24 };
    assert!((0..100).all(|_| timer.believable() < 100 * 13 * 3));
}

#[test]
fn a_fast_reading_that_is_a_little_low_does_not_roll_over() {
    let truth = Arc::new(AtomicU64::new(0x12_3456));
    let wrong = vec![0, 0, 4, 0];
    let registers = Unlatched { truth, wrong, reads: AtomicU32::new(0) };
    let timer: &Pm<_> = Box::leak(Box::new(Pm { registers, bits: 24 }));
    let counter = Counter::of_hardware(Read { timer, safe: false }).unwrap();
    let first = counter.read();
    for _ in 0..1000 {
        let step = (counter.read() - first).0;
        assert!((-8..4000).contains(&step), "{step}");
    }
}

#[test]
fn what_is_not_on_this_machine_has_a_reason() {
    for choice in [Choice::Hpet, Choice::AcpiPm { safe: false }, Choice::AcpiPm { safe: true }] {
        let Err(error) = Counter::open(choice) else { continue };
        let text = error.to_string();
        let mended = ["use --counter", "root", "boot with"].iter().any(|mend| text.contains(mend));
        assert!(mended, "{choice}: {text}");
    }
}

#[test]
fn other_processes_continue_what_one_keeps() {
    let [fast, _] = pm_forms(pm_block(0xff_fff0, 1), said(24)).unwrap().map(Counter::device);
    // The other process has its own counts: it begins later, after the roll-over.
    let other = Counter::of_hardware(Read {
        timer: Box::leak(Box::new(Pm::new(pm_block(0x0000_0040, 1), said(24)).unwrap())),
        safe: false,
    })
    .unwrap();
    let kept = fast.keep().unwrap();
    let read = other.read_from(&kept).unwrap();
    assert!((read - kept.wide).0 < 0x60 && read.0 & 0xff_ffff < 0x60, "{read:?} {kept:?}");
    let limit_ms = 2343;
    for (moved_ms, fresh) in [(-1000, true), (-limit_ms - 50, false), (60_000, false)] {
        let kept = crate::KeptAt { at_ns: kept.at_ns + moved_ms * 1_000_000, ..kept };
        let read = other.read_from(&kept);
        assert_eq!(read.is_ok(), fresh, "{moved_ms}: {read:?}");
        assert!(fresh || matches!(read, Err(CounterError::Stale { .. })));
    }
    // And takes over where it is told to.
    assert_eq!(other.resume(&kept), Ok(()));
    let next = other.read();
    assert!((next - read).0 > 0 && (next - read).0 < 0x60 && other.lapses() == 0, "{next:?}");
    let foreign = crate::KeptAt { wide: Count(1 << 60), ..kept };
    assert!(matches!(other.resume(&foreign), Err(CounterError::Foreign(_))));
}
