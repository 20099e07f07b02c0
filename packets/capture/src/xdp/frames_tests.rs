//! A kernel made of the rings' other sides, and every frame looked for after every step.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::ring::tests::ring;
use super::*;

const SIZE: u32 = 2048;

/// Kernel's side of a socket.
struct Kernel {
    fill: Consumer<u64>,
    receive: Producer<Descriptor>,
    /// Taken out of the fill ring and not delivered yet.
    has: Vec<u64>,
    sent: u64,
    dropped: u64,
}

fn bed(count: u32, start: u32) -> (Kernel, Intake) {
    let entries = count.next_power_of_two();
    let (fill, from_fill) = ring(entries, start);
    let (to_receive, receive) = ring(entries, start.wrapping_add(7));
    let memory = Mapping::anonymous((count * SIZE) as usize, false).unwrap();
    let kernel =
        Kernel { fill: from_fill, receive: to_receive, has: Vec::new(), sent: 0, dropped: 0 };
    (kernel, Intake::new(memory, SIZE, count, Rings { fill, receive }, None))
}

impl Kernel {
    /// A packet whose options tell its number (above the bit that says that it goes on).
    fn deliver(&mut self) {
        self.sent += 1;
        if self.has.is_empty() {
            self.fill.take(1, &mut self.has);
        }
        let Some(frame) = self.has.pop() else {
            self.dropped += 1;
            return;
        };
        let length = (self.sent % 1500) as u32;
        let options = (self.sent as u32) << 1;
        let descriptor = Descriptor { address: frame + 256, length, options };
        assert_eq!(self.receive.put([descriptor].into_iter()), 1, "room for all frames");
    }

    /// Every frame that the kernel can reach from the fill ring; they stay there in effect.
    fn free(&mut self) -> Vec<u64> {
        self.fill.take(u32::MAX, &mut self.has);
        self.has.clone()
    }
}

proptest! {
    /// However chunks are taken, kept and dropped: no frame is ever in two places, none is lost,
    /// packets come in order, and what was sent was delivered or dropped.
    #[test]
    fn every_frame_is_in_one_place(
        count in 1_u32..40,
        start in prop_oneof![Just(0_u32), (u32::MAX - 30)..=u32::MAX],
        steps in prop::collection::vec((0_u8..5, 0_usize..30), 1..150),
    ) {
        let (mut kernel, mut intake) = bed(count, start);
        let mut held: Vec<Held> = Vec::new();
        let mut last = 0;
        let mut delivered = 0;
        for (what, many) in steps {
            match what {
                0 | 1 => (0..many).for_each(|_| kernel.deliver()),
                2 => {
                    let chunk = intake.take(many as u32);
                    delivered += chunk.packets() as u64;
                    for (frame, descriptor) in chunk.iter().zip(&chunk.descriptors) {
                        prop_assert_eq!(frame.before.len(), 256);
                        prop_assert_eq!(frame.bytes.len(), descriptor.length as usize);
                        prop_assert!(descriptor.options > last, "in order");
                        last = descriptor.options;
                    }
                    held.push(chunk);
                }
                3 if !held.is_empty() => drop(held.swap_remove(many % held.len())),
                4 if !held.is_empty() => {
                    let at = many % held.len();
                    let wanted: Vec<bool> =
                        held[at].iter().map(|frame| frame.bytes.len() % 3 == 0).collect();
                    held[at].retain(&wanted);
                }
                _ => {}
            }
            let mut places: Vec<u64> = kernel.free();
            places.extend(held.iter().flat_map(|chunk| {
                chunk.descriptors.iter().map(|descriptor| descriptor.address - 256)
            }));
            let waiting = intake.waiting() as usize;
            let different: BTreeSet<u64> = places.iter().copied().collect();
            prop_assert_eq!(different.len(), places.len(), "a frame in two places");
            prop_assert_eq!(places.len() + waiting, count as usize, "a frame was lost");
            prop_assert_eq!(kernel.sent, kernel.dropped + delivered + waiting as u64);
        }
        drop(held);
        let waiting = intake.waiting() as usize;
        prop_assert_eq!(kernel.free().len() + waiting, count as usize);
    }

    /// Descriptors of any content: never outside the memory, never a panic.
    #[test]
    fn wild_descriptors_are_counted_and_left_alone(
        wild in prop::collection::vec((any::<u64>(), any::<u32>(), 0_u32..4), 1..8),
    ) {
        let (mut kernel, mut intake) = bed(8, 0);
        let inside = |address: u64, length: u32| {
            let start = address / 2048 * 2048;
            start < 8 * 2048 && address - start + u64::from(length) <= 2048
        };
        let sound = wild.iter().filter(|&&(address, length, _)| inside(address, length)).count();
        kernel.receive.put(
            wild.iter().map(|&(address, length, options)| Descriptor { address, length, options }),
        );
        let held = intake.take(8);
        prop_assert_eq!(held.descriptors.len(), sound);
        prop_assert_eq!(intake.astray(), (wild.len() - sound) as u64);
        let total: usize = held.iter().map(|frame| frame.before.len() + frame.bytes.len()).sum();
        prop_assert!(total <= 8 * 2048);
    }
}

#[test]
fn chunks_dropped_on_other_threads_come_back_once() {
    let (mut kernel, mut intake) = bed(64, u32::MAX - 500);
    let (to_others, chunks) = std::sync::mpsc::channel::<Held>();
    let chunks = Arc::new(Mutex::new(chunks));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let chunks = chunks.clone();
            scope.spawn(move || {
                loop {
                    let next = chunks.lock().unwrap().recv();
                    let Ok(chunk) = next else { break };
                    drop(chunk);
                }
            });
        }
        let mut delivered = 0;
        for _ in 0..2000 {
            (0..10).for_each(|_| kernel.deliver());
            let chunk = intake.take(16);
            delivered += chunk.packets() as u64;
            to_others.send(chunk).unwrap();
        }
        assert_eq!(kernel.sent, kernel.dropped + delivered + u64::from(intake.waiting()));
        drop(to_others);
    });
    let waiting = intake.take(64);
    let free = kernel.free();
    let different: BTreeSet<u64> = free.iter().copied().collect();
    assert_eq!(different.len(), free.len());
    assert_eq!(free.len() + waiting.packets(), 64);
}

#[test]
fn what_is_held_outlives_the_socket() {
    let (mut kernel, mut intake) = bed(4, 0);
    (0..3).for_each(|_| kernel.deliver());
    let held = intake.take(8);
    drop(intake);
    assert_eq!(held.iter().map(|frame| frame.bytes.len()).collect::<Vec<_>>(), [1, 2, 3]);
    drop(held);
    assert_eq!(kernel.free().len(), 1, "nothing goes back to a socket that is closed");
}

#[test]
fn a_long_packet_is_not_cut() {
    let (mut kernel, mut intake) = bed(8, 0);
    let part = |frame: u64, options| Descriptor { address: frame * 2048, length: 9, options };
    let parts = [part(0, 0), part(1, 1), part(2, 1), part(3, 0), part(4, 0)];
    kernel.receive.put(parts.into_iter());
    let mut held = intake.take(2);
    assert_eq!(held.descriptors.len(), 4, "up to the end of what the second frame begins");
    assert_eq!((held.packets(), intake.take(2).packets()), (2, 1));
    kernel.free();
    kernel.has.clear();
    held.retain(&[true, false]);
    assert_eq!(held.descriptors, [part(0, 0)], "a packet is kept or given up as a whole");
    assert_eq!(kernel.free(), [2048, 4096, 6144]);
}
