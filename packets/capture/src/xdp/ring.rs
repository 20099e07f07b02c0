//! The rings by which we and the kernel hand frames to each other: one writes, one reads, no locks.
//!
//! Both indices run freely over 2³² and are never reset; only a slot takes the remainder. The
//! producer owns the slots from its index up to the consumer's a lap later, the consumer those from
//! its own up to the producer's. An index is handed over by a *release* store, after the entries it
//! gives away were written (or read), and picked up by an *acquire* load, before they are touched:
//! the kernel does the same on its side (`smp_store_release`, `smp_load_acquire`). Whoever owns an
//! index may load it relaxed: nobody else stores it.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::memory::{Array, Mapping, Plain};

/// The arithmetic of indices that run over 2³².
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Indices {
    size: u32,
}

impl Indices {
    /// Of a ring of this many entries: a power of two, at most 2³¹.
    pub fn new(size: u32) -> Option<Indices> {
        size.is_power_of_two().then_some(Indices { size })
    }

    /// Which slot an index means.
    #[inline]
    pub fn slot(self, index: u32) -> usize {
        (index & (self.size - 1)) as usize
    }

    /// Number of entries that wait between the two. More than the ring holds cannot be: then it is
    /// not believed.
    #[inline]
    pub fn filled(self, producer: u32, consumer: u32) -> u32 {
        producer.wrapping_sub(consumer).min(self.size)
    }

    /// Number of entries that there is room for.
    #[inline]
    pub fn free(self, producer: u32, consumer: u32) -> u32 {
        self.size - self.filled(producer, consumer)
    }
}

/// Where in the mapped memory a ring's parts are, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub producer: usize,
    pub consumer: usize,
    pub flags: usize,
    pub entries: usize,
}

/// Ring that both sides see.
#[derive(Debug)]
struct Ring<T> {
    memory: Arc<Mapping>,
    layout: Layout,
    indices: Indices,
    entries: Array<T>,
}

impl<T: Plain> Ring<T> {
    /// `None` if it does not lie in the memory.
    fn new(memory: Arc<Mapping>, layout: Layout, size: u32) -> Option<Ring<T>> {
        let indices = Indices::new(size)?;
        let entries = memory.array(layout.entries, size as usize)?;
        [layout.producer, layout.consumer, layout.flags]
            .iter()
            .all(|&at| memory.word(at).is_some())
            .then_some(Ring { memory, layout, indices, entries })
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        self.memory.word(at).expect("looked at when the ring was made")
    }

    #[inline]
    fn producer(&self) -> &AtomicU32 {
        self.word(self.layout.producer)
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        self.word(self.layout.consumer)
    }
}

/// The reading side: ours on the receive ring.
#[derive(Debug)]
pub(super) struct Consumer<T> {
    ring: Ring<T>,
    /// Our own index: only we store it.
    next: u32,
}

impl<T: Plain> Consumer<T> {
    /// Goes on from where the ring is.
    ///
    /// # Safety
    /// There must be no other consumer of this ring, and what produces into it must keep to the
    /// protocol above.
    pub unsafe fn new(memory: Arc<Mapping>, layout: Layout, size: u32) -> Option<Consumer<T>> {
        let ring = Ring::new(memory, layout, size)?;
        let next = ring.consumer().load(Ordering::Relaxed);
        Some(Consumer { ring, next })
    }

    /// Number of entries that wait.
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.ring.indices.filled(self.ring.producer().load(Ordering::Acquire), self.next)
    }

    /// Moves what waits, `most` entries at the most, to the end of `into`.
    #[inline]
    pub fn take(&mut self, most: u32, into: &mut Vec<T>) -> u32 {
        // Acquire (in `waiting`): the entries up to the producer's index are there to be read.
        let count = self.waiting().min(most);
        into.extend((0..count).map(|past| {
            let slot = self.ring.indices.slot(self.next.wrapping_add(past));
            // SAFETY: the memory is kept by the ring, and a slot is less than its size; between our
            // index and the producer's the entries are ours until our index moves.
            unsafe { self.ring.entries.get(slot) }
        }));
        self.next = self.next.wrapping_add(count);
        // Release: we have read them before the producer may write there again.
        self.ring.consumer().store(self.next, Ordering::Release);
        count
    }
}

/// The writing side: ours on the fill ring.
#[derive(Debug)]
pub(super) struct Producer<T> {
    ring: Ring<T>,
    /// Our own index: only we store it.
    next: u32,
}

impl<T: Plain> Producer<T> {
    /// Goes on from where the ring is.
    ///
    /// # Safety
    /// There must be no other producer into this ring, and what consumes from it must keep to the
    /// protocol above.
    pub unsafe fn new(memory: Arc<Mapping>, layout: Layout, size: u32) -> Option<Producer<T>> {
        let ring = Ring::new(memory, layout, size)?;
        let next = ring.producer().load(Ordering::Relaxed);
        Some(Producer { ring, next })
    }

    /// Writes as many of the values as there is room for; says how many. (`&mut`: the ring takes
    /// one producer, so threads that share this one take turns.)
    #[inline]
    pub fn put(&mut self, values: impl ExactSizeIterator<Item = T>) -> usize {
        // Acquire: the consumer has read what it gave back before we write there again.
        let consumer = self.ring.consumer().load(Ordering::Acquire);
        let free = self.ring.indices.free(self.next, consumer) as usize;
        let mut count = 0;
        for value in values.take(free) {
            let slot = self.ring.indices.slot(self.next.wrapping_add(count));
            // SAFETY: the memory is kept by the ring, and a slot is less than its size; from our
            // index to the consumer's a lap later the entries are ours until our index moves, and
            // `take` keeps us within.
            unsafe { self.ring.entries.set(slot, value) };
            count += 1;
        }
        self.next = self.next.wrapping_add(count);
        // Release: the entries are written before the consumer sees the index.
        self.ring.producer().store(self.next, Ordering::Release);
        count as usize
    }

    /// True if the other side asks for a system call to go on.
    #[inline]
    pub fn asks_to_be_woken(&self) -> bool {
        let flags = self.ring.word(self.ring.layout.flags).load(Ordering::Relaxed);
        flags & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    pub const HERE: Layout = Layout { producer: 0, consumer: 64, flags: 128, entries: 192 };

    /// A ring whose indices begin anywhere, both sides of it.
    pub fn ring<T: Plain>(size: u32, start: u32) -> (Producer<T>, Consumer<T>) {
        let bytes = HERE.entries + size as usize * size_of::<T>();
        let memory = Arc::new(Mapping::anonymous(bytes, false).unwrap());
        memory.word(HERE.producer).unwrap().store(start, Ordering::Relaxed);
        memory.word(HERE.consumer).unwrap().store(start, Ordering::Relaxed);
        // SAFETY: one of each, both of them these.
        unsafe {
            let producer = Producer::new(memory.clone(), HERE, size).unwrap();
            (producer, Consumer::new(memory, HERE, size).unwrap())
        }
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        for size in [0, 3, 48, u32::MAX] {
            assert_eq!(Indices::new(size), None, "{size}");
        }
        assert!(Indices::new(1).is_some() && Indices::new(1 << 31).is_some());
    }

    #[test]
    fn a_ring_that_does_not_fit_its_memory_is_refused() {
        let memory = Arc::new(Mapping::anonymous(4096, false).unwrap());
        let place = Layout { producer: 0, consumer: 4, flags: 8, entries: 16 };
        // SAFETY: none is ever used.
        unsafe {
            assert!(Consumer::<u64>::new(memory.clone(), place, 256).is_some());
            assert!(Consumer::<u64>::new(memory.clone(), place, 512).is_none());
            let astray = Layout { producer: 1 << 40, ..place };
            assert!(Producer::<u64>::new(memory, astray, 256).is_none());
        }
    }

    proptest! {
        /// The indices tell what waits and what is free, wherever in 2³² they are.
        #[test]
        fn indices_wrap(power in 0_u32..=31, consumer: u32, part in 0.0_f64..=1.0) {
            let size = 1_u32 << power;
            let filled = (f64::from(size) * part) as u32;
            let indices = Indices::new(size).unwrap();
            let producer = consumer.wrapping_add(filled);
            prop_assert_eq!(indices.filled(producer, consumer), filled);
            prop_assert_eq!(indices.free(producer, consumer), size - filled);
            prop_assert!(indices.slot(producer) < size as usize);
            prop_assert_eq!(indices.slot(producer), (u64::from(producer) % u64::from(size)) as usize);
        }

        /// An impossible pair of indices never yields more than the ring holds.
        #[test]
        fn wild_indices_stay_inside(power in 0_u32..=31, producer: u32, consumer: u32) {
            let indices = Indices::new(1 << power).unwrap();
            let filled = indices.filled(producer, consumer);
            prop_assert!(filled <= 1 << power);
            prop_assert_eq!(filled + indices.free(producer, consumer), 1 << power);
        }

        /// Puts and takes in any order equal a queue's, across the wrap of the indices.
        #[test]
        fn a_ring_is_a_bounded_queue(
            power in 0_u32..=6,
            start in prop_oneof![any::<u32>(), (u32::MAX - 200)..=u32::MAX],
            steps in prop::collection::vec((any::<bool>(), 0_usize..100), 1..200),
        ) {
            let size = 1_usize << power;
            let (mut producer, mut consumer) = ring::<u64>(size as u32, start);
            let mut model = VecDeque::new();
            let mut next = 0_u64;
            for (put, count) in steps {
                if put {
                    let values: Vec<u64> = (next..).take(count).collect();
                    let went = producer.put(values.iter().copied());
                    prop_assert_eq!(went, count.min(size - model.len()));
                    model.extend(&values[..went]);
                    next += went as u64;
                } else {
                    let mut taken = Vec::new();
                    let came = consumer.take(count as u32, &mut taken) as usize;
                    prop_assert_eq!(came, taken.len());
                    prop_assert_eq!(came, count.min(model.len()));
                    prop_assert!(taken.iter().all(|&value| model.pop_front() == Some(value)));
                }
                prop_assert_eq!(consumer.waiting() as usize, model.len());
            }
        }
    }

    #[test]
    fn what_one_thread_puts_another_takes_once_and_in_order() {
        const MANY: u64 = 200_000;
        let (mut producer, mut consumer) = ring::<u64>(64, u32::MAX - 1000);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut next = 0;
                while next < MANY {
                    let upto = MANY.min(next + 50);
                    let went = producer
                        .put((next..upto).map(|value| value * 3).collect::<Vec<_>>().into_iter());
                    next += went as u64;
                    if went == 0 {
                        std::thread::yield_now();
                    }
                }
            });
            let mut taken = Vec::new();
            while taken.len() < MANY as usize {
                if consumer.take(40, &mut taken) == 0 {
                    std::thread::yield_now();
                }
            }
            assert!(taken.iter().enumerate().all(|(at, &value)| value == at as u64 * 3));
        });
    }
}
