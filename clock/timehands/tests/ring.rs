//! The ring within a process, with the words of this machine and with those of a smaller one.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use common::derived;
use truechimer_timehands::{
    Cell, Halves, Hand, HandRing, Mark, Ring, SLOTS, Unreadable, WORDS, Word, pack, pack_beside,
    unpack,
};

/// Words beside a hand, as far as there is room.
fn beside_of<const BESIDE: usize>(hand: &Hand) -> [u64; BESIDE] {
    let all = pack_beside(hand);
    std::array::from_fn(|i| all[i])
}

/// A writer as fast as it can be against three readers.
fn stress<W: Cell + Sync, M: Cell + Sync, const BESIDE: usize>(
    mut ring: Ring<W, M, SLOTS, WORDS, BESIDE>,
) {
    let (mut writer, ring) = ring.split();
    assert_eq!(ring.newest(), Err(Unreadable::Empty));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let (generation, words, beside) = match ring.newest_with_beside() {
                        Ok(newest) => newest,
                        Err(Unreadable::Empty) if last == 0 => continue,
                        Err(why) => panic!("{why:?} after {last}"),
                    };
                    assert!(generation >= last);
                    let (hand, made) = derived(generation);
                    let (main, _) = unpack(&words).unwrap();
                    assert_eq!((main, made), unpack(&pack(&hand, &made)).unwrap());
                    assert_eq!(beside, beside_of(&hand));
                    last = generation;
                }
            });
        }
        for generation in 1..=100_000 {
            let (hand, made) = derived(generation);
            let published = writer.publish_with_beside(&pack(&hand, &made), &beside_of(&hand));
            assert_eq!(published, generation);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(ring.newest().unwrap().0, 100_000);
}

#[test]
fn readers_get_whole_hands() {
    stress(HandRing::new());
}

#[test]
fn readers_get_whole_hands_in_32_bit_words() {
    stress(Ring::<Halves, AtomicU32, SLOTS, WORDS, 3>::new());
}

/// Cells that begin at a given value, so that a ring begins near its end.
struct Late<C>(C);

impl<C: Cell> Cell for Late<C> {
    const LARGEST: u64 = C::LARGEST;

    fn new(_: u64) -> Self {
        Late(C::new(C::LARGEST - 20))
    }

    fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, order);
    }

    fn fence(order: Ordering) {
        C::fence(order);
    }
}

/// Generations that come to their end begin again, and no two neighbours share a slot.
fn wrap<M: Cell>() {
    let mut ring = Ring::<Word, Late<M>, SLOTS, 1>::new();
    let (mut writer, ring) = ring.split();
    let mut last = ring.generation();
    for n in 0..60 {
        let generation = writer.publish(&[n]);
        assert_eq!(ring.newest(), Ok((generation, [n])));
        assert_ne!(generation, 0);
        assert_eq!(generation % SLOTS as u64, last.wrapping_add(1) % SLOTS as u64);
        last = generation;
    }
    assert!(last < 100);
}

#[test]
fn generations_come_round() {
    wrap::<AtomicU32>();
    wrap::<Mark>();
}

#[test]
fn a_heartbeat_is_just_that() {
    let mut ring = HandRing::new();
    let (mut writer, ring) = ring.split();
    writer.heartbeat(77);
    assert_eq!((ring.heartbeat(), ring.generation()), (77, 0));
}
