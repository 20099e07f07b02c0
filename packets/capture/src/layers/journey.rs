//! Sightings at the tracepoints, put together: one journey for each packet.

use std::collections::{HashMap, VecDeque};

use super::datagrams::{Own, Read, Sockets, Taken};
use super::event::{Event, What};

/// Where on its way up, or down, a packet was seen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Layer {
    /// The driver handed it to the network stack.
    Driver,
    /// The stack began with it, on the processor that does its work: what packet sockets see is
    /// seen right after this.
    Stack,
    /// Entered the receive queue of a socket, and whoever waits there was woken.
    Socket,
    /// The application had read it.
    Application,
    /// The call began by which an application sends it.
    Send,
    /// In the queue of the interface, in the hands of its scheduler.
    Scheduler,
    /// The driver was given it.
    Transmit,
    /// The driver had it: it is the card's from then on.
    Sent,
}

impl Layer {
    /// All, from the bottom up and down again.
    pub const ALL: [Layer; 8] = [
        Layer::Driver,
        Layer::Stack,
        Layer::Socket,
        Layer::Application,
        Layer::Send,
        Layer::Scheduler,
        Layer::Transmit,
        Layer::Sent,
    ];

    /// The name, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Layer::Driver => "driver",
            Layer::Stack => "stack",
            Layer::Socket => "socket",
            Layer::Application => "application",
            Layer::Send => "send",
            Layer::Scheduler => "scheduler",
            Layer::Transmit => "transmit",
            Layer::Sent => "sent",
        }
    }
}

/// One packet's way: from the driver to the program that read it, or from the program that sent it, if one
/// did, to the driver.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Journey {
    /// `CLOCK_MONOTONIC` at each layer of [`Layer::ALL`], ns; `None` where it was not seen.
    pub monotonic_ns: [Option<u64>; Layer::ALL.len()],
    /// The packet from its link layer on, as far as it was copied.
    pub bytes: Vec<u8>,
    /// Length from the link layer on, in bytes.
    pub length: u32,
    /// The process that read it or sent it; 0 if none did.
    pub pid: u32,
}

impl Journey {
    /// `CLOCK_MONOTONIC` at a layer, ns.
    #[must_use]
    pub fn at(&self, layer: Layer) -> Option<u64> {
        self.monotonic_ns.get(layer as usize).copied().flatten()
    }

    /// Notes that it was seen there, unless it has been before.
    fn set(&mut self, layer: Layer, monotonic_ns: u64) {
        if let Some(place @ None) = self.monotonic_ns.get_mut(layer as usize) {
            *place = Some(monotonic_ns);
        }
    }

    fn read(mut self, read: &Read) -> Journey {
        self.set(Layer::Application, read.monotonic_ns);
        self.pid = read.pid;
        self
    }
}

/// Length in bytes of the payload of the UDP datagram that begins in this Ethernet or loopback
/// frame; `None` where that cannot be told, as with fragments.
fn payload(frame: &[u8]) -> Option<u32> {
    const HEADER: u16 = 8;
    let be16 = |at: usize| Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?));
    let mut at = 12;
    while matches!(be16(at)?, 0x8100 | 0x88a8) {
        at += 4;
    }
    let ip = at + 2;
    let udp = match be16(at)? {
        0x0800 if be16(ip + 6)? & 0x3fff == 0 && *frame.get(ip + 9)? == 17 => {
            ip + usize::from(frame.get(ip)? & 0xf) * 4
        }
        0x86dd if *frame.get(ip + 6)? == 17 => ip + 40,
        _ => return None,
    };
    be16(udp + 4)?.checked_sub(HEADER).map(u32::from)
}

/// Counts of what could not be followed to the end, since the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unfollowed {
    /// Packets that no program read while they were remembered: forwarded, dropped, answered by
    /// the kernel, merged into others, or still in a socket that nobody reads.
    pub unread: u64,
    /// Reads of more than was in the packet that was taken to be read.
    pub misfits: u64,
    /// Packets that threads read from the same socket at the same moment: which thread got which
    /// cannot be told.
    pub mixed: u64,
    /// Packets on their way down that were not seen to reach the driver: dropped before, cut into several
    /// there, or begun before the watch.
    pub unsent: u64,
}

/// Largest number of packets that may be on their way. The kernel's side remembers no more either.
const MOST: usize = 16_384;

/// Puts events together: by the buffer that a packet is in, from its arrival until it is read or
/// the kernel uses the buffer for another packet.
#[derive(Debug, Default)]
pub struct Follow {
    on_the_way: HashMap<u64, OnTheWay>,
    /// The buffers in the order of their arrival, to forget the oldest; some are gone by then.
    order: VecDeque<(u64, u64)>,
    arrivals: u64,
    sockets: Sockets,
    /// On their way down, by buffer.
    leaving: HashMap<u64, Journey>,
    unfollowed: Unfollowed,
}

/// Content of a buffer.
#[derive(Debug)]
struct OnTheWay {
    journey: Journey,
    /// The number of its arrival.
    arrival: u64,
    /// True if it is in the queue of a datagram socket: reads of it are told otherwise.
    is_datagram: bool,
}

impl Follow {
    /// One more event, nearly in the order of their times; the journey that it ends, if it does.
    pub fn see(&mut self, event: Event) -> Option<Journey> {
        match event.what {
            What::Arrived { buffer, driver_ns, length, bytes } => {
                let mut journey = Journey { bytes, length, ..Journey::default() };
                driver_ns.into_iter().for_each(|ns| journey.set(Layer::Driver, ns));
                journey.set(Layer::Stack, event.monotonic_ns);
                self.arrive(buffer, journey);
                None
            }
            What::Scheduled { buffer, begun_ns, pid } => {
                let pid = if begun_ns.is_some() { pid } else { 0 };
                let mut journey = Journey { pid, ..Journey::default() };
                begun_ns.into_iter().for_each(|ns| journey.set(Layer::Send, ns));
                journey.set(Layer::Scheduler, event.monotonic_ns);
                self.leave(buffer, journey);
                None
            }
            What::Transmitted { buffer, scheduled_ns, length, bytes } => {
                let journey = self.leaving.get_mut(&buffer)?;
                // Where the record of its way through the queue was lost, this is an older packet's.
                if journey.at(Layer::Scheduler) != Some(scheduled_ns) {
                    self.leaving.remove(&buffer);
                    self.unfollowed.unsent += 1;
                    return None;
                }
                journey.set(Layer::Transmit, event.monotonic_ns);
                (journey.length, journey.bytes) = (length, bytes);
                None
            }
            What::Sent { buffer, taken } => {
                let mut journey = self.leaving.remove(&buffer)?;
                if !taken || journey.at(Layer::Transmit).is_none() {
                    self.unfollowed.unsent += 1;
                    return None;
                }
                journey.set(Layer::Sent, event.monotonic_ns);
                Some(journey)
            }
            What::Queued { buffer } => self.reach(buffer, Layer::Socket, event.monotonic_ns, None),
            What::Read { buffer, pid } => {
                self.reach(buffer, Layer::Application, event.monotonic_ns, Some(pid))
            }
            What::DatagramQueued { buffer, socket, first } => {
                let own = buffer.and_then(|buffer| self.queue(buffer, event.monotonic_ns));
                let socket = (socket, self.arrivals);
                let read = self.sockets.queued(socket, own, first, event.monotonic_ns)?;
                self.take(own?.buffer, &read)
            }
            What::Received { socket, length, pid, thread, first } => {
                let read = Read { monotonic_ns: event.monotonic_ns, length, pid, thread };
                match self.sockets.read((socket, self.arrivals), &read, first) {
                    Taken::Buffer(buffer) => self.take(buffer, &read),
                    Taken::Unknown => None,
                    Taken::Mixed(buffers) => {
                        let gone =
                            buffers.iter().filter_map(|buffer| self.on_the_way.remove(buffer));
                        self.unfollowed.mixed += gone.count() as u64;
                        None
                    }
                }
            }
            What::Foreign { buffer } => {
                self.unfollowed.unread += u64::from(self.on_the_way.remove(&buffer).is_some());
                None
            }
        }
    }

    /// A datagram is in the queue of a socket.
    fn queue(&mut self, buffer: u64, monotonic_ns: u64) -> Option<Own> {
        let found = self.on_the_way.get_mut(&buffer)?;
        found.is_datagram = true;
        found.journey.set(Layer::Socket, monotonic_ns);
        let arrived_ns = found.journey.at(Layer::Stack)?;
        Some(Own { buffer, arrived_ns, arrival: found.arrival })
    }

    /// The datagram in a buffer was read.
    fn take(&mut self, buffer: u64, read: &Read) -> Option<Journey> {
        let journey = &self.on_the_way.get(&buffer)?.journey;
        // Whatever has the buffer now, it is not what was read.
        if journey.at(Layer::Stack).is_none_or(|arrived| read.monotonic_ns < arrived) {
            return None;
        }
        let OnTheWay { journey, .. } = self.on_the_way.remove(&buffer)?;
        let Some(length) = read.length else {
            self.unfollowed.unread += 1;
            return None;
        };
        // Where there is little room a datagram is cut; nothing makes it longer.
        if payload(&journey.bytes).is_some_and(|payload| length > payload) {
            self.unfollowed.misfits += 1;
            return None;
        }
        Some(journey.read(read))
    }

    /// Counts of what could not be followed so far.
    #[must_use]
    pub fn unfollowed(&self) -> Unfollowed {
        self.unfollowed
    }

    /// A packet begins its way down.
    fn leave(&mut self, buffer: u64, journey: Journey) {
        // What is dropped in the queue says nothing: all that wait are forgotten together, rather than the
        // order of all kept.
        if self.leaving.len() >= MOST {
            self.unfollowed.unsent += self.leaving.len() as u64;
            self.leaving.clear();
        }
        self.unfollowed.unsent += u64::from(self.leaving.insert(buffer, journey).is_some());
    }

    fn arrive(&mut self, buffer: u64, journey: Journey) {
        self.arrivals += 1;
        let new = OnTheWay { journey, arrival: self.arrivals, is_datagram: false };
        if self.on_the_way.insert(buffer, new).is_some() {
            self.unfollowed.unread += 1;
        }
        self.order.push_back((buffer, self.arrivals));
        while self.order.len() > MOST {
            let Some((buffer, arrival)) = self.order.pop_front() else { break };
            if self.on_the_way.get(&buffer).is_some_and(|found| found.arrival == arrival) {
                self.on_the_way.remove(&buffer);
                self.unfollowed.unread += 1;
            }
        }
    }

    /// A packet was seen at one of the upper layers. A program that does not wait to be woken may
    /// have read it before it is said to be in the socket: it is through when both are known.
    fn reach(&mut self, buffer: u64, layer: Layer, ns: u64, pid: Option<u32>) -> Option<Journey> {
        let OnTheWay { journey, is_datagram, .. } = self.on_the_way.get_mut(&buffer)?;
        if *is_datagram {
            return None;
        }
        // Whatever has the buffer now, it is not in the state that it was seen in.
        if journey.at(Layer::Stack).is_none_or(|arrived| ns < arrived) {
            return None;
        }
        journey.set(layer, ns);
        journey.pid = pid.unwrap_or(journey.pid);
        let through =
            journey.at(Layer::Socket).is_some() && journey.at(Layer::Application).is_some();
        through.then(|| self.on_the_way.remove(&buffer)).flatten().map(|found| found.journey)
    }
}

#[cfg(test)]
mod tests;
