//! What the tracepoints saw, put together: one journey for each packet.

use std::collections::{HashMap, VecDeque};

use super::datagrams::{Queues, Read};
use super::event::{Event, What};

/// Where on its way up a packet was seen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Layer {
    /// The driver handed it to the network stack.
    Driver,
    /// The stack began with it, on the processor that does its work: what packet sockets see is
    /// seen right after this.
    Stack,
    /// It was in the receive queue of a socket, and whoever waits there was woken.
    Socket,
    /// The application had read it.
    Application,
}

impl Layer {
    /// All, from the bottom up.
    pub const ALL: [Layer; 4] = [Layer::Driver, Layer::Stack, Layer::Socket, Layer::Application];

    /// The name, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Layer::Driver => "driver",
            Layer::Stack => "stack",
            Layer::Socket => "socket",
            Layer::Application => "application",
        }
    }
}

/// One packet's way from the driver to the program that read it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Journey {
    /// `CLOCK_MONOTONIC` at each layer, ns, from the bottom up; `None` where it was not seen.
    pub monotonic_ns: [Option<u64>; Layer::ALL.len()],
    /// The packet from its link layer on, as far as it was copied.
    pub bytes: Vec<u8>,
    /// Its length from the link layer on, in bytes.
    pub length: u32,
    /// The process that read it; 0 if none did.
    pub pid: u32,
}

impl Journey {
    /// `CLOCK_MONOTONIC` at a layer, ns.
    #[must_use]
    pub fn at(&self, layer: Layer) -> Option<u64> {
        self.monotonic_ns.get(layer as usize).copied().flatten()
    }

    /// It was seen there, unless it has been before.
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

/// How long the payload of a UDP datagram is that begins in this Ethernet or loopback frame;
/// `None` where that cannot be told, as with fragments.
fn payload(frame: &[u8]) -> Option<u32> {
    const HEADER: u16 = 8;
    let be16 = |at: usize| Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?));
    let mut at = 12;
    while matches!(be16(at)?, 0x8100 | 0x88a8) {
        at += 4;
    }
    let ip = at + 2;
    let udp = match be16(at)? {
        0x0800 if be16(ip + 6)? & 0x3fff == 0 => ip + usize::from(frame.get(ip)? & 0xf) * 4,
        0x86dd if *frame.get(ip + 6)? == 17 => ip + 40,
        _ => return None,
    };
    be16(udp + 4)?.checked_sub(HEADER).map(u32::from)
}

/// What could not be followed to the end, since the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unfollowed {
    /// Packets that no program read while they were remembered: forwarded, dropped, answered by
    /// the kernel, merged into others, or still in a socket that nobody reads.
    pub unread: u64,
    /// Reads that do not fit what should have been in the queue, as after one that was not seen:
    /// the queue was forgotten, and begun anew.
    pub misfits: u64,
}

/// How many packets may be on their way. The kernel's side remembers no more either.
const MOST: usize = 16_384;

/// Puts events together: by the buffer that a packet is in, from its arrival until it is read or
/// the kernel uses the buffer for another packet.
#[derive(Debug, Default)]
pub struct Follow {
    /// By buffer: the packet, and the number of its arrival.
    on_the_way: HashMap<u64, (Journey, u64)>,
    /// The buffers in the order of their arrival, to forget the oldest; some are gone by then.
    order: VecDeque<(u64, u64)>,
    arrivals: u64,
    /// Datagrams in the queues of sockets.
    queues: Queues<Journey>,
    unfollowed: Unfollowed,
}

impl Follow {
    /// One more event, nearly in the order of their times; the journey that it ends, if it does.
    pub fn see(&mut self, event: Event) -> Option<Journey> {
        match event.what {
            What::Arrived { buffer, driver_ns, length, bytes } => {
                let monotonic_ns = [driver_ns, Some(event.monotonic_ns), None, None];
                self.arrive(buffer, Journey { monotonic_ns, bytes, length, pid: 0 });
                None
            }
            What::Queued { buffer } => self.reach(buffer, Layer::Socket, event.monotonic_ns, None),
            What::Read { buffer, pid } => {
                self.reach(buffer, Layer::Application, event.monotonic_ns, Some(pid))
            }
            What::DatagramQueued { buffer, socket, waiting } => {
                let journey = buffer.and_then(|buffer| self.on_the_way.remove(&buffer));
                let journey = journey.map(|(mut journey, _)| {
                    journey.set(Layer::Socket, event.monotonic_ns);
                    journey
                });
                let queued = self.queues.queued(socket, journey, waiting);
                self.unfollowed.unread += queued.unread.len() as u64;
                queued.read.map(|(journey, read)| journey.read(&read))
            }
            What::Received { socket, length, pid } => {
                let read = Read { monotonic_ns: event.monotonic_ns, length, pid };
                // A buffer that is too short cuts a datagram; nothing makes it longer.
                let fits = |journey: &Journey| {
                    payload(&journey.bytes).is_none_or(|payload| length <= payload)
                };
                match self.queues.read(socket, read, fits) {
                    Ok(journey) => journey.map(|journey| journey.read(&read)),
                    Err(unread) => {
                        self.unfollowed.unread += unread.len() as u64;
                        self.unfollowed.misfits += 1;
                        None
                    }
                }
            }
        }
    }

    /// What could not be followed so far.
    #[must_use]
    pub fn unfollowed(&self) -> Unfollowed {
        self.unfollowed
    }

    fn arrive(&mut self, buffer: u64, journey: Journey) {
        self.arrivals += 1;
        if self.on_the_way.insert(buffer, (journey, self.arrivals)).is_some() {
            self.unfollowed.unread += 1;
        }
        self.order.push_back((buffer, self.arrivals));
        while self.order.len() > MOST {
            let Some((buffer, arrival)) = self.order.pop_front() else { break };
            if self.on_the_way.get(&buffer).is_some_and(|(_, number)| *number == arrival) {
                self.on_the_way.remove(&buffer);
                self.unfollowed.unread += 1;
            }
        }
    }

    /// A packet was seen at one of the upper layers. A program that does not wait to be woken may
    /// have read it before it is said to be in the socket: it is through when both are known.
    fn reach(&mut self, buffer: u64, layer: Layer, ns: u64, pid: Option<u32>) -> Option<Journey> {
        let (journey, _) = self.on_the_way.get_mut(&buffer)?;
        // Whatever has the buffer now, it is not in the state that it was seen in.
        if journey.at(Layer::Stack).is_none_or(|arrived| ns < arrived) {
            return None;
        }
        journey.set(layer, ns);
        journey.pid = pid.unwrap_or(journey.pid);
        let through =
            journey.at(Layer::Socket).is_some() && journey.at(Layer::Application).is_some();
        through.then(|| self.on_the_way.remove(&buffer)).flatten().map(|(journey, _)| journey)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arrived(monotonic_ns: u64, buffer: u64, number: u8) -> Event {
        let driver_ns = Some(monotonic_ns - 1);
        let what = What::Arrived { buffer, driver_ns, length: 60, bytes: vec![number; 60] };
        Event { monotonic_ns, what }
    }

    fn queued(monotonic_ns: u64, buffer: u64) -> Event {
        Event { monotonic_ns, what: What::Queued { buffer } }
    }

    fn read(monotonic_ns: u64, buffer: u64) -> Event {
        Event { monotonic_ns, what: What::Read { buffer, pid: 7 } }
    }

    #[test]
    fn a_packet_is_followed_from_driver_to_program() {
        let mut follow = Follow::default();
        assert_eq!(follow.see(arrived(10, 1, 3)), None);
        assert_eq!(follow.see(queued(20, 1)), None);
        let journey = follow.see(read(30, 1)).unwrap();
        assert_eq!(journey.monotonic_ns, [Some(9), Some(10), Some(20), Some(30)]);
        assert_eq!((journey.pid, journey.at(Layer::Socket)), (7, Some(20)));
        assert_eq!(follow.see(read(40, 1)), None, "nothing is left");
        assert_eq!(follow.unfollowed(), Unfollowed::default());
    }

    #[test]
    fn a_program_may_be_faster_than_the_one_that_wakes_it() {
        let mut follow = Follow::default();
        follow.see(arrived(10, 1, 3));
        assert_eq!(follow.see(read(18, 1)), None);
        let journey = follow.see(queued(20, 1)).unwrap();
        assert_eq!(journey.monotonic_ns, [Some(9), Some(10), Some(20), Some(18)]);
        assert_eq!(journey.pid, 7);
    }

    #[test]
    fn what_is_not_of_this_packet_is_left_alone() {
        let mut follow = Follow::default();
        follow.see(arrived(10, 1, 3));
        follow.see(queued(11, 1));
        // The buffer comes back with another packet, and a late word of the first.
        follow.see(arrived(30, 1, 4));
        assert_eq!(follow.see(read(29, 1)), None);
        assert_eq!(follow.see(queued(29, 1)), None);
        follow.see(queued(31, 1));
        let journey = follow.see(read(32, 1)).unwrap();
        assert_eq!((journey.bytes[0], journey.at(Layer::Socket)), (4, Some(31)));
        assert_eq!(follow.unfollowed().unread, 1);
    }

    /// A UDP datagram over IPv4 with so much payload.
    fn datagram(payload: u16, number: u8) -> Vec<u8> {
        let mut frame = vec![number; 12];
        frame.extend([0x81, 0, 0, 7]);
        frame.extend([8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        frame.extend([0, 1, 0, 2]);
        frame.extend((payload + 8).to_be_bytes());
        frame
    }

    /// Events as the kernel reports them.
    #[derive(Default)]
    struct Kernel {
        now: u64,
        follow: Follow,
    }

    impl Kernel {
        fn see(&mut self, what: What) -> Option<Journey> {
            self.now += 10;
            self.follow.see(Event { monotonic_ns: self.now, what })
        }

        fn arrive(&mut self, buffer: u64, payload: u16, number: u8) {
            let bytes = datagram(payload, number);
            self.see(What::Arrived { buffer, driver_ns: None, length: 60, bytes });
        }

        fn queue(&mut self, buffer: Option<u64>, waiting: u32) -> Option<Journey> {
            self.see(What::DatagramQueued { buffer, socket: 5, waiting })
        }

        /// The number of the datagram that was read.
        fn read(&mut self, length: u32) -> Option<u8> {
            self.see(What::Received { socket: 5, length, pid: 7 }).map(|journey| journey.bytes[0])
        }
    }

    #[test]
    fn datagrams_are_told_by_their_order() {
        let mut kernel = Kernel::default();
        kernel.arrive(1, 100, 1);
        // Two were there before, and one of another interface comes between.
        assert!(kernel.queue(Some(1), 3).is_none());
        assert!(kernel.queue(None, 4).is_none());
        kernel.arrive(2, 100, 2);
        assert!(kernel.queue(Some(2), 5).is_none());
        let reads: Vec<_> = (0..6).map(|_| kernel.read(100)).collect();
        assert_eq!(reads, [None, None, Some(1), None, Some(2), None]);
        assert_eq!(kernel.follow.unfollowed(), Unfollowed::default());
    }

    #[test]
    fn a_read_may_be_reported_before_the_arrival() {
        let mut kernel = Kernel::default();
        kernel.arrive(1, 100, 1);
        kernel.queue(Some(1), 1);
        assert_eq!(kernel.read(100), Some(1));
        kernel.arrive(2, 100, 2);
        assert_eq!(kernel.read(100), None);
        assert_eq!(
            kernel.queue(Some(2), 0).map(|journey| (journey.bytes[0], journey.pid)),
            Some((2, 7))
        );
        // Taken out, but not reported yet.
        kernel.arrive(3, 100, 3);
        assert!(kernel.queue(Some(3), 0).is_none());
        assert_eq!(kernel.read(100), Some(3));
    }

    #[test]
    fn a_read_that_nobody_saw_is_forgotten_when_the_queue_has_been_empty_twice() {
        let mut kernel = Kernel::default();
        for (number, waiting) in [(1, 1), (2, 1), (3, 1)] {
            kernel.arrive(number, 100, number as u8);
            assert!(kernel.queue(Some(number), waiting).is_none());
        }
        assert_eq!(kernel.follow.unfollowed().unread, 1);
        assert_eq!([kernel.read(100), kernel.read(100)], [Some(2), Some(3)]);
    }

    #[test]
    fn a_queue_that_does_not_fit_is_begun_anew() {
        let mut kernel = Kernel::default();
        for (number, payload) in [(1, 10), (2, 200)] {
            kernel.arrive(number, payload, number as u8);
            kernel.queue(Some(number), number as u32);
        }
        assert_eq!(kernel.read(200), None);
        assert_eq!(kernel.follow.unfollowed(), Unfollowed { unread: 2, misfits: 1 });
        // Of the two that were there, one is left.
        kernel.arrive(3, 40, 3);
        kernel.queue(Some(3), 2);
        assert_eq!([kernel.read(200), kernel.read(40)], [None, Some(3)]);
    }

    #[test]
    fn a_payload_is_read_of_whole_datagrams_only() {
        let mut fragment = datagram(100, 0);
        assert_eq!(payload(&fragment), Some(100));
        fragment[24] = 0x20;
        assert_eq!(payload(&fragment), None);
        for length in 0..datagram(1, 0).len() {
            assert_eq!(payload(&datagram(1, 0)[..length]), None);
        }
    }

    proptest! {
        /// A queue as the kernel keeps it, with readers that report late and strangers' datagrams
        /// among ours: every one of ours is found, and found right.
        #[test]
        fn every_datagram_is_found(steps in prop::collection::vec((any::<bool>(), any::<bool>()), 1..300)) {
            let mut kernel = Kernel::default();
            let mut inside: VecDeque<Option<u8>> = VecDeque::new();
            // What a reader has taken out and not reported.
            let mut taken: Option<Option<u8>> = None;
            for (n, (arrives, flag)) in steps.into_iter().enumerate() {
                let number = n as u8;
                if arrives {
                    let ours = flag || n == 0;
                    if ours {
                        kernel.arrive(n as u64 % 8, 50, number);
                    }
                    inside.push_back(ours.then_some(number));
                    let buffer = ours.then_some(n as u64 % 8);
                    prop_assert!(kernel.queue(buffer, inside.len() as u32).is_none());
                } else if let Some(place) = taken.take() {
                    prop_assert_eq!(kernel.read(50), place);
                } else if let Some(place) = inside.pop_front() {
                    if flag {
                        taken = Some(place);
                    } else {
                        prop_assert_eq!(kernel.read(50), place);
                    }
                }
            }
            prop_assert_eq!(kernel.follow.unfollowed().misfits, 0);
        }

        /// Any interleaving of packets in few buffers: what comes out is whole and in order.
        #[test]
        fn no_journey_is_made_of_two_packets(
            steps in prop::collection::vec((0u64..6, 0u8..3), 1..400),
        ) {
            let mut follow = Follow::default();
            let mut since: HashMap<u64, (u64, u8)> = HashMap::new();
            let (mut arrivals, mut through) = (0, 0);
            for (n, (buffer, what)) in steps.into_iter().enumerate() {
                let (at, number) = (10 * n as u64 + 10, n as u8);
                let journey = match what {
                    0 => {
                        arrivals += 1;
                        since.insert(buffer, (at, number));
                        follow.see(arrived(at, buffer, number))
                    }
                    1 => follow.see(queued(at, buffer)),
                    _ => follow.see(read(at, buffer)),
                };
                if let Some(journey) = journey {
                    through += 1;
                    let (arrival, number) = since[&buffer];
                    prop_assert_eq!((journey.at(Layer::Stack), journey.bytes[0]), (Some(arrival), number));
                    prop_assert!(journey.monotonic_ns.iter().flatten().all(|ns| *ns + 1 >= arrival));
                }
            }
            let waiting = follow.on_the_way.len() as u64;
            prop_assert_eq!(arrivals, through + waiting + follow.unfollowed().unread);
        }

        #[test]
        fn any_record_is_looked_at_without_harm(record in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Event::parse(&record);
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut follow = Follow::default();
        for n in 1..3 * MOST as u64 {
            follow.see(arrived(n, n, 0));
            if n % 3 == 0 {
                follow.see(queued(n, n));
            }
        }
        assert_eq!((follow.order.len(), follow.on_the_way.len()), (MOST, MOST));
        assert_eq!(follow.unfollowed().unread, 2 * MOST as u64 - 1);
    }
}
