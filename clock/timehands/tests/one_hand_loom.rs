//! The one hand under every interleaving and every reordering that the memory model allows: what a
//! reader takes for whole is whole, even on several processors. Each ordering is needed.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering as StdOrdering};

use loom::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicU32, fence};
use truechimer_timehands::{Cell, Counting, OneHand, TickCounter, Untold};

// What a model leaves out.
const NOTHING: u8 = 0;
const RELEASE_FENCE: u8 = 1;
const RELEASE_STORE: u8 = 2;
const FIRST_ACQUIRE_FENCE: u8 = 3;
const SECOND_ACQUIRE_FENCE: u8 = 4;

/// Number of acquire fences that were asked for: a read has a first and a second.
static FENCES: AtomicUsize = AtomicUsize::new(0);
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

struct ModelCell<const WITHOUT: u8>(AtomicU32);

impl<const WITHOUT: u8> Cell for ModelCell<WITHOUT> {
    const LARGEST: u64 = u32::MAX as u64;

    fn new(value: u64) -> Self {
        ModelCell(AtomicU32::new(value as u32))
    }

    fn load(&self, order: Ordering) -> u64 {
        self.0.load(order).into()
    }

    fn store(&self, value: u64, order: Ordering) {
        self.0.store(value as u32, if WITHOUT == RELEASE_STORE { Relaxed } else { order });
    }

    fn fence(order: Ordering) {
        let which = match order {
            Release => RELEASE_FENCE,
            Acquire if FENCES.fetch_add(1, StdOrdering::Relaxed).is_multiple_of(2) => {
                FIRST_ACQUIRE_FENCE
            }
            Acquire => SECOND_ACQUIRE_FENCE,
            _ => unreachable!("it has no other fences"),
        };
        if which != WITHOUT {
            fence(order);
        }
    }
}

/// A timer of so long an interval that each tick changes both halves of the count.
struct Timer;

impl TickCounter for Timer {
    fn interval(&self) -> u32 {
        u32::MAX
    }

    fn counting(&self) -> Counting {
        Counting::Up
    }

    fn value(&self) -> u32 {
        0
    }

    fn pending(&self) -> bool {
        false
    }
}

fn tick_against_reader<const WITHOUT: u8>() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    loom::model(|| {
        FENCES.store(0, StdOrdering::Relaxed);
        let clock: &'static OneHand<ModelCell<WITHOUT>> =
            Box::leak(Box::new(OneHand::with_cells()));
        clock.tick(&Timer, 1, || ()).unwrap();
        let interval = u64::from(Timer.interval());
        // The reader is the thread: loom finds where it may run from the stores before its loads.
        let reader = loom::thread::spawn(move || match clock.count(&Timer) {
            Ok(count) => {
                assert!(count.0 == interval || count.0 == 2 * interval, "torn: {}", count.0);
            }
            Err(why) => assert_eq!(why, Untold::Interrupted),
        });
        clock.tick(&Timer, 1, || ()).unwrap();
        reader.join().unwrap();
    });
}

#[test]
fn nothing_torn_is_taken_for_whole() {
    tick_against_reader::<NOTHING>();
}

#[test]
#[should_panic(expected = "torn")]
fn it_takes_the_release_fence() {
    tick_against_reader::<RELEASE_FENCE>();
}

#[test]
#[should_panic(expected = "torn")]
fn it_takes_the_release_store() {
    tick_against_reader::<RELEASE_STORE>();
}

#[test]
#[should_panic(expected = "torn")]
fn it_takes_the_first_acquire_fence() {
    tick_against_reader::<FIRST_ACQUIRE_FENCE>();
}

#[test]
#[should_panic(expected = "torn")]
fn it_takes_the_second_acquire_fence() {
    tick_against_reader::<SECOND_ACQUIRE_FENCE>();
}
