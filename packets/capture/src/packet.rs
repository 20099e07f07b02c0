//! Packet sockets with a shared ring (TPACKET_V3).
//!
//! The kernel copies each packet into a ring of blocks that is mapped here, and hands over a block
//! at a time: when it is full, or when its oldest packet has waited for [`PacketOptions::latency`]
//! or a little more. A block travels on as it is, as one [`Chunk`]; dropping that gives it back.
//! (What is in a nearly empty block is copied, so that someone slow does not hold up the ring at
//! low rates.)
//!
//! # Where the stamp comes from
//! Left alone, such a socket reads `CLOCK_REALTIME` after it has copied the packet. As soon as any
//! socket on the host asks for receive stamps, the kernel reads the clock where the packet enters
//! the network stack, and the ring passes that on. So the tap asks. The status of each packet tells
//! the two kinds apart: see [`PacketTap::late_stamps`].
//!
//! # Link types
//! Ethernet and loopback are Ethernet (1), interfaces that carry bare IP are `RAW` (101). All
//! others, and `any`, are captured cooked, as `LINUX_SLL2` (276): 20 bytes that say protocol,
//! interface and direction stand before each packet, and no VLAN tags. What loopback carries is
//! seen once, as it arrives, as with tcpdump.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

mod block;
mod calls;
mod keep;
mod memory;
mod prepare;
mod ring;

use crate::filter::{Filter, Instruction, LINKTYPE_LINUX_SLL2, op};
use crate::hardware;
use crate::link::drops::{Before, Drops};
use crate::link::{Change, Watcher};
use crate::pace::{BLOCKS, Pace};
use crate::tap::{Chunk, Direction, Facts, Losses, Method, Next, Packet, Tap, TapError};
use block::View;
use calls::Woken;
use keep::{Kept, Spare};
use ring::Ring;

/// Options of a packet socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketOptions {
    /// The interface's name; `any` for all of them.
    pub interface: String,
    /// Largest number of bytes kept of each packet, with its VLAN tag.
    pub snap_length: u32,
    /// Memory that packets wait in, in bytes. If there is not so much to be had, it is less:
    /// [`Facts::ring_bytes`].
    pub ring_bytes: u64,
    /// Which packets are kept; compiled with [`Filter::compile`] for this interface and
    /// [`link_type`].
    pub filter: Option<Filter>,
    /// True if packets for others are to be seen. Has no meaning for `any`.
    pub promiscuous: bool,
    /// [`Direction::In`] or [`Direction::Out`]: only those; else both.
    pub direction: Direction,
    /// True if the card is asked to stamp all packets itself.
    pub hardware: bool,
    /// Time that a packet may wait for others before it is handed on, at least: whole milliseconds,
    /// ≥ 1 ms. The kernel may take one tick more.
    pub latency: Duration,
}

/// Snap length of tcpdump.
pub const SNAP_LENGTH: u32 = 262_144;
/// At a million packets of 64 bytes a second, a third of a second.
pub const RING_BYTES: u64 = 64 << 20;
/// The least the kernel knows. Waiting longer would save wake-ups at low rates alone, and widen the
/// bound of each stamp, which grows with the time until its packet is seen.
pub const LATENCY: Duration = Duration::from_millis(1);

/// Longest wait while the next block is in somebody's hands.
const HELD: Duration = Duration::from_millis(20);
/// Longest time that blocks which come fast may wait to be taken; and the part of the ring, one in
/// so many, that may fill meanwhile, whatever that means in time.
const LATE: Duration = Duration::from_micros(500);
const LATE_PART: u64 = 8;
/// Largest number of changes of the interface that wait to be told.
const REMEMBERED: usize = 64;

impl PacketOptions {
    /// The defaults, for an interface.
    #[must_use]
    pub fn new(interface: &str) -> PacketOptions {
        PacketOptions {
            interface: interface.to_owned(),
            snap_length: SNAP_LENGTH,
            ring_bytes: RING_BYTES,
            filter: None,
            promiscuous: true,
            direction: Direction::Unknown,
            hardware: false,
            latency: LATENCY,
        }
    }
}

/// The link type that packets of an interface come with, as tcpdump.org numbers them.
///
/// # Errors
/// If there is no such interface.
pub fn link_type(interface: &str) -> Result<u16, TapError> {
    Ok(prepare::find(interface)?.1)
}

/// A packet socket with its ring.
#[derive(Debug)]
pub struct PacketTap {
    socket: calls::Socket,
    ring: Arc<Ring>,
    spare: Arc<Spare>,
    /// The block that the kernel fills next.
    next: usize,
    view: View,
    late: Arc<AtomicU64>,
    link: Option<Watcher>,
    /// Changes of the interface, and when that may be told: packets from before come first.
    changes: VecDeque<(Change, Instant)>,
    latency: Duration,
    pace: Pace,
    losses: Losses,
    drops: Option<Drops>,
    facts: Facts,
    /// Restores the card's settings in the end.
    stamping: Option<hardware::Stamping>,
    /// The interface that sees packets for others because of this.
    promiscuous: Option<u32>,
}

impl PacketTap {
    /// Opens it; packets are captured from now on.
    ///
    /// # Errors
    /// Without the right to (CAP_NET_RAW), without the interface, where a filter does not fit the
    /// interface or the card cannot stamp though it was asked for.
    pub fn open(options: &PacketOptions) -> Result<PacketTap, TapError> {
        let (link, link_type) = prepare::find(&options.interface)?;
        let is_cooked = link_type == LINKTYPE_LINUX_SLL2;
        let code = prepare::code(options, link.as_ref(), link_type)?;
        let socket = calls::Socket::new(is_cooked).map_err(prepare::not_allowed)?;
        let failed = |doing: &'static str| {
            let interface = options.interface.clone();
            move |why: std::io::Error| TapError {
                doing: format!("{doing} {interface}"),
                why: why.to_string(),
                mend: None,
            }
        };
        // The socket listens to nothing until it is bound: the filter is there first.
        prepare::attach(&socket, &code, options)?;
        socket.stamps(options.hardware).map_err(failed("asking for stamps on"))?;
        let (ring, plan) = memory::ring(&socket, options.ring_bytes, options.latency)
            .map_err(|why| prepare::no_ring(options, why))?;
        let watcher = match &link {
            Some(link) => Some(Watcher::open(link.index).map_err(failed("watching"))?),
            None => None,
        };
        let stamping = match options.hardware {
            true => Some(hardware::enable(&options.interface)?),
            false => None,
        };
        let index = link.as_ref().map_or(0, |link| link.index);
        if options.direction == Direction::In || link.as_ref().is_some_and(|link| link.is_loopback)
        {
            // Saves making copies that the filter throws away; older kernels lack it.
            let _ = socket.ignore_outgoing();
        }
        socket.bind(index).map_err(|why| prepare::not_bound(options, &why))?;
        if options.promiscuous && index != 0 {
            socket.promiscuous(index, true).map_err(failed("seeing packets for others on"))?;
        }
        let is_down = watcher.as_ref().is_some_and(|watcher| !watcher.is_up());
        let changes = is_down.then(|| (Change::Down, Instant::now())).into_iter().collect();
        let facts = Facts {
            interface: options.interface.clone(),
            method: if options.hardware { Method::Hardware } else { Method::Packet },
            detail: plan.to_string(),
            link_type,
            snap_length: options.snap_length,
            stamped_by: match options.hardware {
                true => "the card's clock; the kernel at arrival (CLOCK_REALTIME) for what the \
                         card does not stamp"
                    .to_owned(),
                false => "kernel at arrival (CLOCK_REALTIME)".to_owned(),
            },
            ring_bytes: plan.bytes(),
            stamp_error: truechimer_time::CountSpan(0),
        };
        let view = View { is_cooked, snap_length: options.snap_length };
        let blocks = ring.blocks() as u64;
        let mut tap = PacketTap {
            socket,
            ring: Arc::new(ring),
            spare: Arc::new(Spare::new(plan.bytes())),
            next: 0,
            view,
            late: Arc::default(),
            link: watcher,
            changes,
            latency: plan.latency,
            pace: Pace::new(BLOCKS, LATE, blocks / LATE_PART),
            losses: Losses::default(),
            drops: Drops::open(index, Before::Stack),
            facts,
            stamping,
            promiscuous: (options.promiscuous && index != 0).then_some(index),
        };
        tap.watch_all()?;
        Ok(tap)
    }

    fn watch_all(&mut self) -> Result<(), TapError> {
        let link = self.link.as_ref().map(AsFd::as_fd);
        self.socket.watch(link).map_err(|why| self.failed("waiting for packets on", &why))
    }

    /// Number of packets, of those looked at so far, that were stamped late: by the socket, after
    /// the packet was copied, and not at arrival. A few at the start, before the kernel began to;
    /// more if another program's filter or a driver took stamps away.
    #[must_use]
    pub fn late_stamps(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
    }

    /// The number of the card's clock (`/dev/ptpN`), by which packets are stamped with
    /// [`PacketOptions::hardware`]: what [`open_clock`](hardware::open_clock) is to be opened
    /// with.
    #[must_use]
    pub fn device_clock(&self) -> Option<u32> {
        self.stamping.as_ref().map(hardware::Stamping::clock)
    }

    /// The next block, if the kernel has handed it over and nobody holds it.
    fn block(&mut self) -> Option<Block> {
        let mut held = Ring::take(&self.ring, self.next)?;
        self.next = if self.next + 1 < self.ring.blocks() { self.next + 1 } else { 0 };
        self.pace.took(1);
        if self.view.is_cooked {
            block::cook(held.bytes_mut());
        }
        let kept = Kept::of(held, &self.spare);
        let packets = block::packets(kept.bytes());
        Some(Block { kept, packets, view: self.view, late: Some(Arc::clone(&self.late)).into() })
    }

    /// Hears what became of the interface.
    fn hear(&mut self) -> Result<(), TapError> {
        while let Some(watcher) = &mut self.link {
            match watcher.next() {
                Ok(None) => break,
                Ok(Some(change)) => {
                    // The block that the last packets are in is handed over by then.
                    let wait = match change {
                        Change::Up => Duration::ZERO,
                        Change::Down | Change::Gone => 3 * self.latency + Duration::from_millis(10),
                    };
                    if self.changes.len() >= REMEMBERED {
                        // Down and up: what is told still alternates.
                        self.changes.drain(..2);
                    }
                    self.changes.push_back((change, Instant::now() + wait));
                }
                Err(why) => return Err(self.failed("hearing what becomes of", &why)),
            }
        }
        Ok(())
    }

    fn failed(&self, doing: &str, why: &std::io::Error) -> TapError {
        TapError {
            doing: format!("{doing} {}", self.facts.interface),
            why: why.to_string(),
            mend: None,
        }
    }
}

impl Drop for PacketTap {
    /// A chunk that lives on keeps the ring mapped, and with that the socket open: it is to do no
    /// more.
    fn drop(&mut self) {
        let _ = self.stop();
        if let Some(index) = self.promiscuous {
            let _ = self.socket.promiscuous(index, false);
        }
    }
}

impl Tap for PacketTap {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn next(&mut self, timeout: Duration) -> Result<Next, TapError> {
        let end = Instant::now().checked_add(timeout);
        loop {
            if let Some(block) = self.block() {
                return Ok(Next::Chunk(Box::new(block)));
            }
            let now = Instant::now();
            let due = self.changes.front().map(|(_, due)| *due);
            if due.is_some_and(|due| due <= now)
                && let Some((change, _)) = self.changes.pop_front()
            {
                return Ok(match change {
                    Change::Down => Next::Down,
                    Change::Up => Next::Up,
                    Change::Gone => Next::Gone,
                });
            }
            let until = end.into_iter().chain(due).min();
            if end.is_some_and(|end| end <= now) {
                return Ok(Next::Nothing);
            }
            if let Some(rest) = self.pace.rest(now) {
                let left = until.map(|until| until.saturating_duration_since(now));
                std::thread::sleep(left.map_or(rest, |left| rest.min(left)));
                continue;
            }
            // Whoever gives a block back is not heard of, and was perhaps about to.
            let until = match self.ring.is_held(self.next) {
                true => until.into_iter().chain(now.checked_add(HELD)).min(),
                false => until,
            };
            let left = until.map(|until| until.saturating_duration_since(now));
            match self.socket.wait(left) {
                Ok(Woken::Otherwise) => {}
                Ok(Woken::ByLink) => self.hear()?,
                // Whoever sent a signal may want to be heard.
                Ok(Woken::BySignal) => return Ok(Next::Nothing),
                Err(why) => return Err(self.failed("waiting for packets on", &why)),
            }
        }
    }

    /// The kernel counts in 32 bits and begins anew when asked: to be asked before 2³² packets have
    /// come, half a minute at the very fastest.
    fn losses(&mut self) -> Result<Losses, TapError> {
        let new =
            self.socket.statistics().map_err(|why| self.failed("counting losses on", &why))?;
        self.losses.received += u64::from(new.packets);
        self.losses.ring += u64::from(new.drops);
        self.losses.interface = self.drops.as_ref().map_or(0, Drops::lost);
        Ok(self.losses)
    }

    fn stop(&mut self) -> Result<(), TapError> {
        let nothing = [Instruction::plain(op::RETURN, 0)];
        crate::filter::exchange(self.socket.as_fd(), &nothing)
            .map_err(|why| self.failed("taking no more packets from", &why))?;
        self.drops.as_mut().into_iter().for_each(Drops::end);
        Ok(())
    }
}

/// A block of the ring.
struct Block {
    kept: Kept,
    packets: usize,
    view: View,
    /// Where late stamps are counted, until they have been.
    late: std::cell::Cell<Option<Arc<AtomicU64>>>,
}

impl Chunk for Block {
    fn len(&self) -> usize {
        self.packets
    }

    fn for_each(&self, each: &mut dyn FnMut(&Packet<'_>)) {
        let late = block::walk(self.kept.bytes(), self.view, each);
        if let Some(counter) = self.late.take() {
            counter.fetch_add(late, Ordering::Relaxed);
        }
    }
}
