//! Frames: memory that goes to the kernel empty and comes back with a packet in it.
//!
//! Every frame is at any time in exactly one place: in the fill ring (the kernel may write to it),
//! in the kernel, in the receive ring, or in a [`Held`], which alone may read it. Dropping a `Held`
//! puts its frames into the fill ring, whatever thread that happens on. The ring takes one
//! producer, so those who drop take turns at it (a lock, once per chunk and hardly ever contended:
//! the thread that captures only touches the receive ring). The ring has room for all frames there
//! are, so that giving back never waits and never fails.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::memory::{Descriptor, Mapping};
use super::ring::{Consumer, Producer};
use super::socket::{Rings, Socket};

/// Empty lists of descriptors that are kept for the next chunks: no allocation in the steady state.
const SPARE: usize = 64;

/// All frames of one socket.
#[derive(Debug)]
struct Frames {
    memory: Mapping,
    /// Bytes per frame: a power of two.
    size: u32,
    /// `None` once the socket is closed: what is held from then on goes nowhere.
    home: Mutex<Option<Home>>,
    /// Descriptors that pointed outside the memory.
    astray: AtomicU64,
}

/// Where frames go back to.
#[derive(Debug)]
struct Home {
    fill: Producer<u64>,
    socket: Option<Arc<Socket>>,
    spare: Vec<Vec<Descriptor>>,
}

impl Frames {
    fn home(&self) -> MutexGuard<'_, Option<Home>> {
        // Nothing panics half-way through a change of it.
        self.home.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The start of the frame that an address is in.
    fn start(&self, address: u64) -> u64 {
        address & !u64::from(self.size - 1)
    }

    /// True if a descriptor lies inside one frame.
    fn contains(&self, descriptor: &Descriptor) -> bool {
        let start = self.start(descriptor.address);
        let room = u64::from(self.size) - (descriptor.address - start);
        u64::from(descriptor.length) <= room
            && start.saturating_add(u64::from(self.size)) <= self.memory.length() as u64
    }
}

/// One socket's receiving side. Dropping it closes the socket; what is held stays readable.
#[derive(Debug)]
pub(super) struct Intake {
    frames: Arc<Frames>,
    receive: Consumer<Descriptor>,
}

impl Intake {
    /// Gives the first `count` frames of the memory to the kernel. The rings must be those of the
    /// socket that this memory is registered with (and have at least `count` entries); without a
    /// socket, nobody is woken.
    pub fn new(
        memory: Mapping,
        frame_size: u32,
        count: u32,
        rings: Rings,
        socket: Option<Arc<Socket>>,
    ) -> Intake {
        let Rings { mut fill, receive } = rings;
        let there = memory.length() as u64 / u64::from(frame_size);
        let count = u64::from(count).min(there) as usize;
        fill.put((0..count).map(|number| number as u64 * u64::from(frame_size)));
        let home = Mutex::new(Some(Home { fill, socket, spare: Vec::new() }));
        let frames = Frames { memory, size: frame_size, home, astray: AtomicU64::new(0) };
        Intake { frames: Arc::new(frames), receive }
    }

    /// Number of frames that have arrived and were not taken yet.
    pub fn waiting(&self) -> u32 {
        self.receive.waiting()
    }

    /// Descriptors that made no sense; their frames are lost.
    pub fn astray(&self) -> u64 {
        self.frames.astray.load(Ordering::Relaxed)
    }

    /// Takes what has arrived, `most` frames or a few more: a packet that goes on from one frame to
    /// the next is not cut.
    pub fn take(&mut self, most: u32) -> Held {
        let spare = match self.frames.home().as_mut() {
            Some(home) => home.spare.pop(),
            None => None,
        };
        let mut descriptors = spare.unwrap_or_else(|| Vec::with_capacity(most as usize));
        self.receive.take(most, &mut descriptors);
        while descriptors.last().is_some_and(Descriptor::continues)
            && self.receive.take(1, &mut descriptors) == 1
        {}
        if !descriptors.iter().all(|descriptor| self.frames.contains(descriptor)) {
            let all = descriptors.len();
            descriptors.retain(|descriptor| self.frames.contains(descriptor));
            let astray = (all - descriptors.len()) as u64;
            self.frames.astray.fetch_add(astray, Ordering::Relaxed);
        }
        Held { frames: self.frames.clone(), descriptors }
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        // Unmaps the fill ring, which would keep the socket open for as long as anybody holds a
        // chunk.
        *self.frames.home() = None;
    }
}

impl Descriptor {
    /// True if the packet goes on in the next frame.
    pub fn continues(&self) -> bool {
        self.options & libc::XDP_PKT_CONTD != 0
    }
}

/// Frames with packets in them, ours until it is dropped.
#[derive(Debug)]
pub(super) struct Held {
    frames: Arc<Frames>,
    descriptors: Vec<Descriptor>,
}

/// One frame's content.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    /// Bytes before the packet in its frame: the program's notes, the last of them nearest.
    pub before: &'a [u8],
    /// The packet, or this frame's part of it.
    pub bytes: &'a [u8],
    /// True if the packet goes on in the next frame.
    pub continues: bool,
}

impl Held {
    /// Number of packets that end in it.
    pub fn packets(&self) -> usize {
        self.descriptors.iter().filter(|descriptor| !descriptor.continues()).count()
    }

    #[inline]
    fn frame(&self, descriptor: &Descriptor) -> Frame<'_> {
        let Descriptor { address, length, .. } = *descriptor;
        let start = self.frames.start(address);
        let room = (address - start) as usize;
        // SAFETY: this frame came out of the receive ring and was not given back (that takes
        // `self` by value or mutably): neither the kernel nor another `Held` has it.
        let whole = unsafe { self.frames.memory.bytes(start as usize, room + length as usize) };
        let (before, bytes) = whole.unwrap_or_default().split_at_checked(room).unwrap_or_default();
        Frame { before, bytes, continues: descriptor.continues() }
    }

    /// The frames, in the order of their arrival.
    pub fn iter(&self) -> impl Iterator<Item = Frame<'_>> {
        self.descriptors.iter().map(|descriptor| self.frame(descriptor))
    }

    /// Keeps only the packets that `wanted` says, one after the other; the others' frames go back
    /// at once.
    pub fn retain(&mut self, wanted: &[bool]) {
        if wanted.iter().all(|&wanted| wanted) {
            return;
        }
        let mut back = Vec::new();
        let mut wanted = wanted.iter();
        let (mut is_within, mut stays) = (false, true);
        self.descriptors.retain(|descriptor| {
            if !is_within {
                stays = wanted.next().copied().unwrap_or(true);
            }
            is_within = descriptor.continues();
            if !stays {
                back.push(*descriptor);
            }
            stays
        });
        give_back(&self.frames, back);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        give_back(&self.frames, std::mem::take(&mut self.descriptors));
    }
}

/// The only way from a descriptor to the fill ring: takes them, so that none goes there twice.
fn give_back(frames: &Frames, mut descriptors: Vec<Descriptor>) {
    let mut home = frames.home();
    let Some(home) = home.as_mut() else { return };
    home.fill.put(descriptors.iter().map(|descriptor| frames.start(descriptor.address)));
    if home.fill.asks_to_be_woken() {
        home.socket.iter().for_each(|socket| socket.wake());
    }
    if home.spare.len() < SPARE {
        descriptors.clear();
        home.spare.push(descriptors);
    }
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
