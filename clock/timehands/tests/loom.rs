//! The ring under every interleaving and every reordering that the memory model allows, with a
//! writer that may stop at any of its stores.
//!
//! The models run against the very code of the ring, with loom's atomics in place of the
//! machine's. Each ordering that the ring relies on is then taken away in turn, and the model has
//! to notice.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering as StdOrdering};

use loom::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicU64, fence};
use truechimer_timehands::{Cell, Ring, Writer};

/// Small, so that the writer comes round soon and the model stays tractable.
const SLOTS: usize = 2;
const WORDS: usize = 2;
/// Stores of one publication: generation, two words, generation, sequence.
const STORES: usize = 5;

type ModelRing<P> = Ring<ModelCell<P>, ModelCell<P>, SLOTS, WORDS>;

/// Which of the ring's orderings are kept.
trait Policy: 'static {
    const RELEASE_FENCE: bool = true;
    const RELEASE_STORE: bool = true;
    const FIRST_ACQUIRE_FENCE: bool = true;
    const SECOND_ACQUIRE_FENCE: bool = true;
    const ACQUIRE_LOAD: bool = true;
}

macro_rules! policy {
    ($name:ident $(, $without:ident)?) => {
        struct $name;
        impl Policy for $name {
            $(const $without: bool = false;)?
        }
    };
}

policy!(Whole);
policy!(NoReleaseFence, RELEASE_FENCE);
policy!(NoReleaseStore, RELEASE_STORE);
policy!(NoFirstAcquireFence, FIRST_ACQUIRE_FENCE);
policy!(NoSecondAcquireFence, SECOND_ACQUIRE_FENCE);
policy!(NoAcquireLoad, ACQUIRE_LOAD);

/// Number of stores that the writer may still make: it is stopped when this comes to 0.
static BUDGET: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Number of acquire fences that were asked for: a look has a first and a second, of which whoever
/// asks for the count that was kept has the first in the look before it.
static FENCES: AtomicUsize = AtomicUsize::new(0);
/// The statics above are one model's at a time.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

struct ModelCell<P>(AtomicU64, PhantomData<P>);

impl<P: Policy> Cell for ModelCell<P> {
    const LARGEST: u64 = u64::MAX;

    fn new(value: u64) -> Self {
        ModelCell(AtomicU64::new(value), PhantomData)
    }

    fn load(&self, order: Ordering) -> u64 {
        let kept = order != Acquire || P::ACQUIRE_LOAD;
        self.0.load(if kept { order } else { Relaxed })
    }

    fn store(&self, value: u64, order: Ordering) {
        let left = BUDGET.load(StdOrdering::Relaxed);
        if left == 0 {
            return;
        }
        BUDGET.store(left - 1, StdOrdering::Relaxed);
        self.0.store(value, if P::RELEASE_STORE { order } else { Relaxed });
    }

    fn fence(order: Ordering) {
        let kept = match order {
            Release => P::RELEASE_FENCE,
            Acquire => match FENCES.fetch_add(1, StdOrdering::Relaxed) % 2 {
                0 => P::FIRST_ACQUIRE_FENCE,
                _ => P::SECOND_ACQUIRE_FENCE,
            },
            _ => unreachable!("the ring has no other fences"),
        };
        if kept {
            fence(order);
        }
    }
}

/// Runs a model on its own. Its failure is handed on as a panic of this thread.
fn check(model: impl Fn() + Send + Sync + 'static) {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    loom::model(move || {
        BUDGET.store(usize::MAX, StdOrdering::Relaxed);
        FENCES.store(0, StdOrdering::Relaxed);
        model();
    });
}

/// The words of a record: they show to which generation they belong, and that they belong
/// together.
fn words(generation: u64) -> [u64; WORDS] {
    [generation * 10, generation * 10 + 1]
}

/// Another record of the same generation, by another writer.
fn other_words(generation: u64) -> [u64; WORDS] {
    [generation * 10 + 5, generation * 10 + 6]
}

/// One look: the generation of what was read whole.
fn look<P: Policy>(ring: &ModelRing<P>) -> Option<u64> {
    let look = ring.look()?;
    let [first, second] = [0, 1].map(|i: usize| look.words()[i].load(Relaxed));
    if !look.held() {
        return None;
    }
    assert_eq!((first / 10, second), (look.generation(), first + 1), "torn");
    Some(look.generation())
}

type ModelWriter<P> = Writer<'static, ModelCell<P>, ModelCell<P>, SLOTS, WORDS>;

/// A ring with generation 1 in it, and its writer.
fn ring<P: Policy>() -> (ModelWriter<P>, &'static ModelRing<P>) {
    let (mut writer, ring) = Box::leak(Box::new(ModelRing::<P>::new())).split();
    writer.publish(&words(1));
    (writer, ring)
}

/// The writer publishes generations 2 and 3, of which 3 goes where 1 was, while a reader looks.
fn reader_against_writer<P: Policy>() {
    check(|| {
        let (mut writer, ring) = ring::<P>();
        let thread = loom::thread::spawn(move || {
            writer.publish(&words(2));
            writer.publish(&words(3));
        });
        look(ring);
        thread.join().unwrap();
        assert_eq!(look(ring), Some(3));
    });
}

/// Writer against reader likewise, with one word and another beside it.
fn reader_against_writer_beside<P: Policy>() {
    type Beside<P> = Ring<ModelCell<P>, ModelCell<P>, SLOTS, 1, 1>;
    fn look<P: Policy>(ring: &Beside<P>) {
        let Some(look) = ring.look() else { return };
        let beside = look.beside().map(|beside| beside[0].load(Relaxed));
        let word = look.words()[0].load(Relaxed);
        if look.held() {
            assert_eq!((word / 10, beside), (look.generation(), Some(word + 1)), "torn");
        }
    }
    check(|| {
        let (mut writer, ring) = Box::leak(Box::new(Beside::<P>::new())).split();
        let publish = |writer: &mut Writer<'static, _, _, SLOTS, 1, 1>, generation| {
            let [word, beside] = words(generation);
            writer.publish_with_beside(&[word], &[beside]);
        };
        publish(&mut writer, 1);
        let thread = loom::thread::spawn(move || {
            publish(&mut writer, 2);
            publish(&mut writer, 3);
        });
        look(ring);
        thread.join().unwrap();
    });
}

#[test]
fn words_beside_are_never_another_records() {
    reader_against_writer_beside::<Whole>();
}

#[test]
#[should_panic(expected = "torn")]
fn words_beside_take_the_release_fence() {
    reader_against_writer_beside::<NoReleaseFence>();
}

#[test]
#[should_panic(expected = "torn")]
fn words_beside_take_the_second_acquire_fence() {
    reader_against_writer_beside::<NoSecondAcquireFence>();
}

#[test]
fn nothing_torn_is_taken_for_whole() {
    reader_against_writer::<Whole>();
}

#[test]
#[should_panic(expected = "torn")]
fn it_takes_the_release_fence() {
    reader_against_writer::<NoReleaseFence>();
}

#[test]
#[should_panic(expected = "torn")]
fn it_takes_the_release_store() {
    reader_against_writer::<NoReleaseStore>();
}

#[test]
#[should_panic(expected = "torn")]
fn it_takes_the_first_acquire_fence() {
    reader_against_writer::<NoFirstAcquireFence>();
}

#[test]
#[should_panic(expected = "torn")]
fn it_takes_the_second_acquire_fence() {
    reader_against_writer::<NoSecondAcquireFence>();
}

#[test]
fn generations_never_go_back() {
    check(|| {
        let (mut writer, ring) = ring::<Whole>();
        let thread = loom::thread::spawn(move || {
            writer.publish(&words(2));
            writer.publish(&words(3));
        });
        let (first, second) = (look(ring), look(ring));
        if let (Some(first), Some(second)) = (first, second) {
            assert!(second >= first);
        }
        thread.join().unwrap();
    });
}

#[test]
fn a_writer_stopped_anywhere_holds_nobody_up() {
    for stores in 0..=STORES {
        check(move || {
            let (mut writer, ring) = ring::<Whole>();
            writer.publish(&words(2));
            let thread = loom::thread::spawn(move || {
                BUDGET.store(stores, StdOrdering::Relaxed);
                writer.publish(&words(3));
            });
            if let Some(generation) = look(ring) {
                assert!(generation >= 2);
            }
            thread.join().unwrap();
            let newest = if stores == STORES { 3 } else { 2 };
            assert_eq!(look(ring), Some(newest), "at the first look, {stores} stores done");
        });
    }
}

#[test]
fn a_successor_takes_over_wherever_the_writer_stopped() {
    for stores in 0..=STORES {
        let newest = if stores == STORES { 4 } else { 3 };
        check(move || {
            let (mut writer, ring) = ring::<Whole>();
            writer.publish(&words(2));
            let thread = loom::thread::spawn(move || {
                BUDGET.store(stores, StdOrdering::Relaxed);
                writer.publish(&words(3));
                writer.resume();
                BUDGET.store(usize::MAX, StdOrdering::Relaxed);
                writer.publish(&other_words(newest));
            });
            look(ring);
            thread.join().unwrap();
            assert_eq!(look(ring), Some(newest));
        });
    }
}

/// Count made of its row and of when it was kept.
fn wide(row: u64, at: u64) -> u64 {
    row * 100 + at
}

/// The counts are older than the time that is said for them, and nobody notices, unless the time
/// is stored last and loaded first.
fn ages_are_never_understated<P: Policy>() {
    check(|| {
        let (mut writer, ring) = ring::<P>();
        writer.keep(wide(1, 1), 1);
        let thread = loom::thread::spawn(move || writer.keep(wide(1, 2), 2));
        if let Some((count, at)) = ring.kept() {
            assert!(count >= wide(1, at), "understated");
        }
        thread.join().unwrap();
        assert_eq!(ring.kept(), Some((wide(1, 2), 2)));
    });
}

#[test]
fn what_was_kept_is_at_least_as_new_as_it_says() {
    ages_are_never_understated::<Whole>();
}

#[test]
#[should_panic(expected = "understated")]
fn keeping_takes_the_release_store() {
    ages_are_never_understated::<NoReleaseStore>();
}

#[test]
#[should_panic(expected = "understated")]
fn keeping_takes_the_acquire_load() {
    ages_are_never_understated::<NoAcquireLoad>();
}

/// The writer begins a new row of counts with generation 2, and keeps one of them at the very time
/// at which it kept the last one of the old row; a reader takes a count for a generation that is
/// the newest before and after.
fn counts_go_with_their_generation<P: Policy>() {
    check(|| {
        let (mut writer, ring) = ring::<P>();
        writer.keep(wide(1, 1), 1);
        let thread = loom::thread::spawn(move || {
            writer.unkeep();
            writer.publish(&words(2));
            writer.heartbeat(wide(2, 0));
            writer.keep(wide(2, 1), 1);
        });
        let before = ring.look().unwrap().generation();
        let kept = ring.kept();
        if let Some((count, at)) = kept
            && ring.generation() == before
        {
            assert_eq!((count / 100, at), (before, 1), "of another row");
        }
        thread.join().unwrap();
        assert_eq!((ring.generation(), ring.kept()), (2, Some((wide(2, 1), 1))));
    });
}

#[test]
fn no_count_is_taken_for_one_of_another_row() {
    counts_go_with_their_generation::<Whole>();
}

#[test]
#[should_panic(expected = "of another row")]
fn another_row_takes_the_release_store() {
    counts_go_with_their_generation::<NoReleaseStore>();
}

#[test]
#[should_panic(expected = "of another row")]
fn another_row_takes_the_acquire_fence() {
    counts_go_with_their_generation::<NoSecondAcquireFence>();
}

/// The writer looks at the world, finds generation 1 void and publishes generation 2 before it says
/// that it looked; a reader takes no heartbeat of after that for one that vouches for generation 1.
fn heartbeats_vouch_for_the_newest<P: Policy>() {
    check(|| {
        let (mut writer, ring) = ring::<P>();
        writer.heartbeat(1);
        let thread = loom::thread::spawn(move || {
            writer.publish(&words(2));
            writer.heartbeat(2);
        });
        let look = ring.look().unwrap();
        let heartbeat = ring.heartbeat();
        if ring.stands(&look) {
            assert!(heartbeat <= look.generation(), "vouched for what is void");
        }
        thread.join().unwrap();
    });
}

#[test]
fn a_fresh_heartbeat_vouches_for_no_older_record() {
    heartbeats_vouch_for_the_newest::<Whole>();
}

#[test]
#[should_panic(expected = "vouched for what is void")]
fn vouching_takes_the_release_store() {
    heartbeats_vouch_for_the_newest::<NoReleaseStore>();
}

#[test]
#[should_panic(expected = "vouched for what is void")]
fn vouching_takes_the_acquire_fence() {
    heartbeats_vouch_for_the_newest::<NoSecondAcquireFence>();
}
