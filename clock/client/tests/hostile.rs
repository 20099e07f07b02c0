//! The clock while others are at the page: a busy daemon, and one that writes nonsense.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::{Daemon, TODAY};
use proptest::prelude::*;
use truechimer::{Clock, Hand, Instant, Moment, Rate, ReadError, Reading, Span, Status};
use truechimer_counter::{Choice, host_reading};
use truechimer_time::CountSpan;
use truechimer_timehands::{WORDS, layout, pack};

#[test]
fn no_reading_mixes_two_hands() {
    let mut daemon = Daemon::new(Choice::Auto);
    // All hands are of one and the same clock, each from another base near or far and with a wider
    // bound than the one before: so every reading has to lie on the line.
    let (first, made) = daemon.hand();
    let nth = |n: i64| {
        let away = CountSpan(n.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) >> 30);
        Hand {
            base: first.base + away,
            time: first.time_at(first.base + away),
            path_bound: Span::from_nanos(n),
            statistical_bound: Span::ZERO,
            disputed: Span::ZERO,
            growth: Rate::ZERO,
            imbalance: Span::ZERO,
            likely: None,
            ..first
        }
    };
    daemon.writer().publish(&nth(0), &made);
    let clock = daemon.clock();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = Span::ZERO;
                while !done.load(Ordering::Relaxed) {
                    let now = clock.now().unwrap();
                    // But for the rounding of two products.
                    assert!((now.best - first.time_at(now.count)).abs() <= Span(2));
                    let bound = now.bound().unwrap();
                    assert_eq!((now.earliest, now.latest), (now.best - bound, now.best + bound));
                    assert!(bound >= last, "an older hand after a newer one");
                    last = bound;
                }
            });
        }
        for n in 1..200_000 {
            daemon.writer().publish(&nth(n), &made);
            // In bursts, with time in between to read the same hand more than once.
            for _ in 0..if n % 16 == 0 { 4000 } else { 0 } {
                std::hint::spin_loop();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn monotone_time_is_so_across_threads() {
    let mut daemon = Daemon::synchronised();
    let clock = daemon.clock();
    let (hand, made) = daemon.hand();
    let (done, latest) = (AtomicBool::new(false), Mutex::new(Instant(0)));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let mut latest = latest.lock().unwrap();
                    let now = clock.now_monotone().unwrap();
                    assert!(now.best >= *latest);
                    *latest = now.best;
                }
            });
        }
        for n in 0..20_000 {
            let jitter = Span::from_micros(n * 7919 % 40);
            daemon.writer().publish(&Hand { time: TODAY - jitter, ..hand }, &made);
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// Checks that a reading claims no more than may be believed.
fn honest(reading: &Result<Reading, ReadError>) -> Result<(), TestCaseError> {
    let Ok(now) = reading else { return Ok(()) };
    if now.status.bound_holds() {
        prop_assert!(now.earliest <= now.best && now.best <= now.latest, "{now:?}");
        prop_assert!(now.bound().is_some());
    } else {
        prop_assert_eq!((now.earliest, now.latest), (Instant(i128::MIN), Instant(i128::MAX)));
        prop_assert_eq!(now.bound(), None);
    }
    let _ = (now.utc(), now.leaps());
    Ok(())
}

/// Everything that can be asked of a clock.
fn ask(clock: &Clock, moments: [Moment; 2]) -> Result<(), TestCaseError> {
    for _ in 0..2 {
        honest(&clock.now())?;
        honest(&clock.now_monotone())?;
        let _ = clock.status();
    }
    let here = clock.moment().ok();
    for moment in moments.into_iter().chain(here) {
        honest(&clock.time_of(moment))?;
        if let Ok(elapsed) = clock.elapsed(moments[0], moment) {
            prop_assert!(!elapsed.bound.is_negative());
        }
    }
    if let Ok(view) = clock.view() {
        honest(&Ok(view.reading(view.count, view.status)))?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn nonsense_in_the_page_is_never_time(
        damage in proptest::collection::vec((0..WORDS, any::<u64>(), 0..64u32), 0..4),
        all: Option<[u64; WORDS]>,
        heartbeat in proptest::option::of(any::<u64>()),
        far: [u64; 2],
    ) {
        thread_local! {
            static DAEMON: Daemon = Daemon::synchronised();
        }
        DAEMON.with(|daemon| {
            let clock = daemon.clock();
            let mut moments = [clock.moment().unwrap(); 2];
            for (moment, count) in moments.iter_mut().zip(far) {
                moment.count.0 = count;
            }
            // As a writer gone mad would: over the page, behind the library's back. The hand is
            // right but for some words, or it is random throughout.
            let (hand, made) = daemon.hand();
            let mut words = all.unwrap_or_else(|| pack(&hand, &made));
            for (at, value, bit) in damage {
                words[at] = if bit < 32 { words[at] ^ (1 << (2 * bit)) } else { value };
            }
            let file = File::options().write(true).open(daemon.path()).unwrap();
            let put = |offset: usize, word: u64| {
                file.write_all_at(&word.to_ne_bytes(), offset as u64).unwrap();
            };
            let generation = clock.page().ring().generation() + 1;
            let slot = layout::HANDS_OFFSET + generation as usize % 8 * layout::HAND_SIZE;
            put(slot, generation);
            for (i, word) in words.into_iter().enumerate() {
                put(slot + 8 + 8 * i, word);
            }
            put(72, heartbeat.unwrap_or(daemon.counter.read().0));
            put(64, generation);
            let asked = ask(&clock, moments);
            // Right again for the next case, and so it is to the clock that saw the nonsense.
            let generation = generation + 1;
            let slot = layout::HANDS_OFFSET + generation as usize % 8 * layout::HAND_SIZE;
            for (i, word) in pack(&hand, &made).into_iter().enumerate() {
                put(slot + 8 + 8 * i, word);
            }
            put(slot, generation);
            put(64, generation);
            // The daemon looks until this thread has had the processor within three seconds of it.
            let looked = (0..100).map(|_| {
                put(72, host_reading(daemon.counter).count.0);
                clock.status()
            });
            let status = { looked }.find(|status| *status != Ok(Status::Holdover));
            prop_assert_eq!(status, Some(Ok(Status::Synchronised)));
            asked
        })?;
    }
}
