//! The clock on a microcontroller (Arm Cortex-M3, no operating system, no 64-bit atomics):
//!
//! * a hand is published in the ring, in words of 32 bits, and read back whole and at a glance;
//! * a clock with one hand runs on SysTick, the timer behind the tick: it is read through a
//!   thousand ticks, some of them late, and never goes back.
//!
//! ```text
//! rustup target add thumbv7m-none-eabi
//! cargo build --release --target thumbv7m-none-eabi
//! qemu-system-arm -machine lm3s6965evb -nographic -semihosting-config enable=on,target=native \
//!     -icount shift=4 -kernel target/thumbv7m-none-eabi/release/bare
//! ```
#![no_std]
#![no_main]

#[allow(dead_code)] // Other programs use more of it.
mod machine;

use core::sync::atomic::{AtomicU32, Ordering};

use machine::{SysTick, masked, say};
use truechimer_time::{
    BootId, Count, CountSpan, CounterId, CounterKind, Epoch, Instant, Period, Rate, Span,
};
use truechimer_timehands::{
    Glance, Hand, HandRing, Made, OneHand, Status, TickCounter, Told, pack, unpack,
};

/// Counts from tick to tick.
const INTERVAL: u32 = 10_000;
/// Rate of the timer, as far as this clock knows: 12.5 MHz.
const HZ: u64 = 12_500_000;

static TIMER: SysTick = SysTick::new(INTERVAL);
static CLOCK: OneHand = OneHand::new();
static TICKS: AtomicU32 = AtomicU32::new(0);

/// The tick's interrupt. The processor acknowledges it, and everything else has a lower priority.
fn tick() {
    assert!(CLOCK.tick(&TIMER, 1, || ()).is_ok());
    TICKS.store(TICKS.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

fn hand(base: Count) -> Hand {
    let period = Period::from_hz(HZ);
    // There is no kind of its own for such a timer, and nobody else to tell it from.
    let counter =
        CounterId { kind: CounterKind::Simulated, boot: BootId::default(), epoch: Epoch(1) };
    Hand {
        difference_error: Rate::from_ppb(20_000),
        path_bound: Span::from_micros(50),
        statistical_bound: Span::from_micros(5),
        growth: Rate::from_ppb(20_000),
        ..Hand::exact(
            counter,
            base,
            Instant::new(1_790_000_000, 0),
            period,
            base + CountSpan(HZ as i64 * 3600),
        )
    }
}

fn main() {
    a_ring();
    one_hand();
}

/// The ring of hands in words of 32 bits.
fn a_ring() {
    // What the type is here, said in full: it holds no 64-bit atomics.
    let mut ring: HandRing = HandRing::new();
    let (mut writer, ring) = ring.split();
    let hand = hand(Count(123_456_789_012));
    let (count, none) = (hand.base, None);
    let made = Made { count, monotonic_ns: 0, raw_ns: 0, suspended_ns: 0, device: none };
    for generation in 1..=20 {
        assert_eq!(writer.publish(&pack(&hand, &made)), generation);
    }
    let (generation, words) = ring.newest().unwrap();
    assert_eq!((generation, unpack(&words)), (20, Ok((hand, made))));
    let count = hand.base + CountSpan(HZ as i64 * 86_400 * 7);
    let look = ring.look().unwrap();
    let (time, bound) = Glance(look.words(), look.beside()).at(count);
    assert!(look.held());
    assert_eq!((time, bound), (hand.time_at(count), hand.bound_at(count)));
    let off = time - (hand.time + Span::from_secs(7 * 86_400));
    say(format_args!("a hand in a ring of {} bytes: a week on, {off} off", size_of::<HandRing>()));
    assert!(off.abs() < Span::from_nanos(1));
}

/// The clock over SysTick, through a thousand ticks.
fn one_hand() {
    TIMER.start();
    CLOCK.publish(&hand(Count(0)), |section| masked(section)).unwrap();
    let (mut reads, mut late) = (0_u32, 0_u32);
    let mut last = told();
    let first = (last.count, TICKS.load(Ordering::Relaxed));
    while TICKS.load(Ordering::Relaxed) < 1000 {
        let now = told();
        check(&last, &now);
        (last, reads) = (now, reads + 1);
        if reads % 50 == 0 {
            // Hold the tick up until it is pending, and read meanwhile.
            masked(|| {
                while !TIMER.pending() {
                    let now = told();
                    check(&last, &now);
                    last = now;
                }
                for _ in 0..20 {
                    let now = told();
                    check(&last, &now);
                    last = now;
                }
                late += 1;
            });
        }
    }
    let counted = (last.count - first.0).0;
    let ticked = i64::from(TICKS.load(Ordering::Relaxed) - first.1) * i64::from(INTERVAL);
    say(format_args!(
        "one hand of {} bytes: {reads} reads, {late} late ticks, {counted} counts in {ticked}",
        size_of::<OneHand>()
    ));
    assert!((counted - ticked).abs() <= i64::from(INTERVAL));
    assert!(reads > 1000 && late > 20);
    say(format_args!("never back; now {} ns, bound {}", last.time.as_nanos(), last.bound));
}

fn told() -> Told {
    CLOCK.now(&TIMER).unwrap()
}

/// No reading goes back, nor ahead by as much as a tick.
fn check(last: &Told, now: &Told) {
    let step = (now.count - last.count).0;
    assert!((0..i64::from(INTERVAL)).contains(&step), "a step of {step} counts");
    assert!(now.time >= last.time && now.status == Status::Synchronised);
}
