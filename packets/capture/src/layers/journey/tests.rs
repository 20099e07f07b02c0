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
    assert_eq!(journey.monotonic_ns[..4], [Some(9), Some(10), Some(20), Some(30)]);
    assert_eq!((journey.pid, journey.at(Layer::Socket)), (7, Some(20)));
    assert_eq!(follow.see(read(40, 1)), None, "nothing is left");
    assert_eq!(follow.unfollowed(), Unfollowed::default());
}

fn scheduled(monotonic_ns: u64, buffer: u64, begun_ns: Option<u64>) -> Event {
    Event { monotonic_ns, what: What::Scheduled { buffer, begun_ns, pid: 8 } }
}

fn transmitted(monotonic_ns: u64, buffer: u64, scheduled_ns: u64) -> Event {
    let what = What::Transmitted { buffer, scheduled_ns, length: 60, bytes: vec![5; 60] };
    Event { monotonic_ns, what }
}

fn sent(monotonic_ns: u64, buffer: u64, taken: bool) -> Event {
    Event { monotonic_ns, what: What::Sent { buffer, taken } }
}

#[test]
fn a_packet_is_followed_down_to_the_driver() {
    let mut follow = Follow::default();
    assert_eq!(follow.see(scheduled(20, 1, Some(10))), None);
    assert_eq!(follow.see(transmitted(30, 1, 20)), None);
    let journey = follow.see(sent(40, 1, true)).unwrap();
    assert_eq!(journey.monotonic_ns[4..], [Some(10), Some(20), Some(30), Some(40)]);
    assert_eq!((journey.pid, journey.length, journey.bytes.len()), (8, 60, 60));
    // What the kernel sends by itself has no program and no call.
    follow.see(scheduled(50, 1, None));
    follow.see(transmitted(51, 1, 50));
    let journey = follow.see(sent(52, 1, true)).unwrap();
    assert_eq!((journey.pid, journey.at(Layer::Send)), (0, None));
    assert_eq!(follow.unfollowed(), Unfollowed::default());
}

#[test]
fn what_does_not_leave_is_counted() {
    let mut follow = Follow::default();
    follow.see(scheduled(10, 1, None));
    follow.see(scheduled(20, 1, None));
    follow.see(transmitted(21, 1, 20));
    assert_eq!(follow.see(sent(22, 1, false)), None, "the driver dropped it");
    assert_eq!(follow.see(sent(23, 2, true)), None, "never seen before");
    follow.see(scheduled(30, 3, None));
    assert_eq!(follow.see(sent(31, 3, true)), None, "the driver was not seen to be given it");
    assert_eq!(follow.unfollowed().unsent, 3);
    for buffer in 0..=MOST as u64 {
        follow.see(scheduled(40, 100 + buffer, None));
    }
    assert_eq!(follow.unfollowed().unsent, 3 + MOST as u64);
    assert_eq!(follow.leaving.len(), 1);
}

#[test]
fn an_older_packet_of_the_buffer_lends_nothing_to_the_next() {
    let mut follow = Follow::default();
    follow.see(scheduled(20, 1, Some(10)));
    // The record of the next packet's way through the queue, at 25, found no room.
    assert_eq!(follow.see(transmitted(30, 1, 25)), None);
    assert_eq!(follow.see(sent(40, 1, true)), None);
    assert_eq!((follow.unfollowed().unsent, follow.leaving.len()), (1, 0));
}

#[test]
fn a_program_may_be_faster_than_the_one_that_wakes_it() {
    let mut follow = Follow::default();
    follow.see(arrived(10, 1, 3));
    assert_eq!(follow.see(read(18, 1)), None);
    let journey = follow.see(queued(20, 1)).unwrap();
    assert_eq!(journey.monotonic_ns[..4], [Some(9), Some(10), Some(20), Some(18)]);
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

/// Events as the kernel reports them, of one socket.
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

    fn queue(&mut self, buffer: Option<u64>, first: Option<u64>) -> Option<Journey> {
        self.see(What::DatagramQueued { buffer, socket: 5, first })
    }

    /// The number of the datagram that was read.
    fn read(&mut self, length: u32, first: Option<u64>) -> Option<u8> {
        self.read_by(1, Some(length), first)
    }

    fn read_by(&mut self, thread: u32, length: Option<u32>, first: Option<u64>) -> Option<u8> {
        let what = What::Received { socket: 5, length, pid: 7, thread, first };
        self.see(what).map(|journey| journey.bytes[0])
    }
}

#[test]
fn datagrams_are_told_by_what_stands_first() {
    let mut kernel = Kernel::default();
    kernel.arrive(1, 100, 1);
    // Two were there before, and one of another interface comes between.
    assert!(kernel.queue(Some(1), Some(81)).is_none());
    assert!(kernel.queue(None, Some(81)).is_none());
    kernel.arrive(2, 100, 2);
    assert!(kernel.queue(Some(2), Some(81)).is_none());
    let first = [Some(82), Some(1), Some(83), Some(2), None, None];
    let reads = first.map(|first| kernel.read(100, first));
    assert_eq!(reads, [None, None, Some(1), None, Some(2), None]);
    assert_eq!(kernel.follow.unfollowed(), Unfollowed::default());
}

#[test]
fn a_read_may_be_reported_before_the_arrival() {
    let mut kernel = Kernel::default();
    kernel.arrive(1, 100, 1);
    kernel.queue(Some(1), Some(1));
    assert_eq!(kernel.read(100, None), Some(1));
    kernel.arrive(2, 100, 2);
    kernel.now += 10;
    assert_eq!(kernel.read(100, None), None);
    let late = What::DatagramQueued { buffer: Some(2), socket: 5, first: None };
    let found = kernel.follow.see(Event { monotonic_ns: kernel.now - 10, what: late });
    assert_eq!(found.map(|journey| (journey.bytes[0], journey.pid)), Some((2, 7)));
    // Taken out, but not reported yet.
    kernel.arrive(3, 100, 3);
    assert!(kernel.queue(Some(3), None).is_none());
    assert_eq!(kernel.read(100, None), Some(3));
}
#[test]
fn a_read_too_early_to_be_reported_is_not_taken_for_another() {
    let mut kernel = Kernel::default();
    kernel.arrive(1, 100, 1);
    assert!(kernel.queue(Some(1), None).is_none());
    // It was read before anybody knew that the socket has one of ours. So is the next, but that is
    // reported.
    kernel.arrive(2, 100, 2);
    kernel.now += 10;
    assert_eq!(kernel.read(100, None), None);
    let late = What::DatagramQueued { buffer: Some(2), socket: 5, first: None };
    let found = kernel.follow.see(Event { monotonic_ns: kernel.now - 10, what: late });
    assert_eq!(found.map(|journey| journey.bytes[0]), Some(2));
}

#[test]
fn a_socket_knows_nothing_of_the_one_before_it() {
    let mut kernel = Kernel::default();
    for number in 1..=3 {
        kernel.arrive(number, 100, 99);
        kernel.queue(Some(number), Some(1));
    }
    // It was closed, and there is another in its place, whose reader is faster than the report.
    let queued = |buffer| What::DatagramQueued { buffer: Some(buffer), socket: 6, first: None };
    let received = What::Received { socket: 6, length: Some(100), pid: 7, thread: 1, first: None };
    kernel.arrive(4, 100, 4);
    assert_eq!(kernel.see(received.clone()), None);
    assert_eq!(kernel.see(queued(4)), None);
    kernel.arrive(5, 100, 5);
    kernel.now += 10;
    assert_eq!(kernel.see(received), None);
    let at = kernel.now - 10;
    let found = kernel.follow.see(Event { monotonic_ns: at, what: queued(5) });
    assert_eq!(found.map(|journey| journey.bytes[0]), Some(5));
}

#[test]
fn a_read_that_failed_takes_its_datagram_with_it() {
    let mut kernel = Kernel::default();
    for number in [1, 2] {
        kernel.arrive(number, 100, number as u8);
        kernel.queue(Some(number), Some(1));
    }
    assert_eq!(kernel.read_by(1, None, Some(2)), None);
    // One that took nothing.
    assert_eq!(kernel.read_by(1, None, Some(2)), None);
    assert_eq!(kernel.read(100, None), Some(2));
    assert_eq!(kernel.follow.unfollowed(), Unfollowed { unread: 1, ..Unfollowed::default() });
}

#[test]
fn what_does_not_fit_was_not_read() {
    let mut kernel = Kernel::default();
    kernel.arrive(1, 10, 1);
    kernel.queue(Some(1), Some(1));
    assert_eq!(kernel.read(11, None), None);
    assert_eq!(kernel.follow.unfollowed(), Unfollowed { misfits: 1, ..Unfollowed::default() });
}

#[test]
fn who_got_what_of_several_at_once_is_left_open() {
    let mut kernel = Kernel::default();
    for number in 1..=4 {
        kernel.arrive(number, 100, number as u8);
        kernel.queue(Some(number), Some(1));
    }
    // One after the other.
    assert_eq!(kernel.read_by(1, Some(100), Some(2)), Some(1));
    assert_eq!(kernel.read_by(2, Some(100), Some(3)), Some(2));
    for number in 5..=8 {
        kernel.arrive(number, 100, number as u8);
        kernel.queue(Some(number), Some(3));
    }
    assert_eq!(kernel.read_by(1, Some(100), Some(4)), Some(3));
    // Both at once: the first to report has 4 or 5.
    assert_eq!(kernel.read_by(2, Some(100), Some(5)), Some(4));
    assert_eq!(kernel.read_by(1, Some(100), Some(7)), None);
    assert_eq!(kernel.read_by(2, Some(100), Some(7)), None);
    assert_eq!(kernel.read_by(2, Some(100), Some(8)), Some(7));
    assert_eq!(kernel.follow.unfollowed(), Unfollowed { mixed: 2, ..Unfollowed::default() });
}

#[test]
fn a_buffer_that_comes_back_as_a_stranger_s_is_none_of_ours() {
    let mut kernel = Kernel::default();
    kernel.arrive(1, 100, 1);
    kernel.queue(Some(1), Some(1));
    // The socket is closed, the buffer comes by another interface.
    kernel.see(What::Foreign { buffer: 1 });
    kernel.queue(None, Some(1));
    assert_eq!(kernel.read(100, None), None);
    assert_eq!(kernel.follow.unfollowed(), Unfollowed { unread: 1, ..Unfollowed::default() });
}

/// Worker that puts datagrams in or takes them out: it does, looks at the clock, looks at the
/// queue, and reports, with whatever others do between.
#[derive(Clone, Copy, Default)]
struct Busy {
    /// The buffer, and what is in it if that is ours.
    with: Option<(u64, Option<u8>)>,
    at: Option<u64>,
    first: Option<Option<u64>>,
}

/// A new socket, two processors that put datagrams in its queue, and one thread that reads.
#[derive(Default)]
struct Machine {
    now: u64,
    follow: Follow,
    queue: VecDeque<(u64, Option<u8>)>,
    putting: [Busy; 2],
    reading: Busy,
    /// Reads of the socket are reported.
    known: bool,
    numbers: u8,
    /// When what was read of ours.
    truth: HashMap<(u8, u64), ()>,
    taken: usize,
    found: usize,
}

impl Machine {
    fn first(&self) -> Option<u64> {
        self.queue.front().map(|(buffer, _)| *buffer)
    }

    fn report(&mut self, monotonic_ns: u64, what: What) {
        let Some(journey) = self.follow.see(Event { monotonic_ns, what }) else { return };
        let key = (journey.bytes[0], journey.at(Layer::Application).unwrap());
        assert!(self.truth.contains_key(&key), "{key:?} was not read then: {:?}", self.truth);
        self.found += 1;
    }

    /// One of those that are busy goes on; `ours` says whose the next datagram is.
    fn step(&mut self, who: usize, ours: bool) {
        self.now += 1;
        let mut busy = self.putting.get(who).copied().unwrap_or(self.reading);
        let reads = who >= self.putting.len();
        match (busy.with, busy.at, busy.first) {
            (None, ..) if reads => busy.with = self.queue.pop_front(),
            (None, ..) => {
                let all = [self.putting[0], self.putting[1], self.reading];
                let used =
                    all.iter().filter_map(|busy| busy.with).chain(self.queue.iter().copied());
                let used: Vec<u64> = used.map(|(buffer, _)| buffer).collect();
                let buffer = (1..).find(|buffer| !used.contains(buffer)).unwrap();
                self.numbers = self.numbers.wrapping_add(1);
                let number = ours.then_some(self.numbers);
                let bytes = datagram(50, self.numbers);
                let what = match ours {
                    true => What::Arrived { buffer, driver_ns: None, length: 60, bytes },
                    false => What::Foreign { buffer },
                };
                self.report(self.now, what);
                busy.with = Some((buffer, number));
                self.queue.extend(busy.with);
            }
            // Too early for the programs at the tracepoints.
            (Some((_, number)), None, _) if !self.known && (reads || number.is_none()) => {
                busy = Busy::default();
            }
            (Some((_, number)), None, _) => {
                busy.at = Some(self.now);
                if let (true, Some(number)) = (reads, number) {
                    self.truth.insert((number, self.now), ());
                    self.taken += 1;
                }
            }
            (_, _, None) => {
                self.known = true;
                busy.first = Some(self.first());
            }
            (Some((buffer, number)), Some(at), Some(first)) => {
                let own = number.map(|_| buffer);
                self.report(
                    at,
                    match reads {
                        true => {
                            let (length, pid, thread) = (Some(50), 7, 1);
                            What::Received { socket: 5, length, pid, thread, first }
                        }
                        false => What::DatagramQueued { buffer: own, socket: 5, first },
                    },
                );
                busy = Busy::default();
            }
        }
        match self.putting.get_mut(who) {
            Some(place) => *place = busy,
            None => self.reading = busy,
        }
    }
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
    /// Whatever happens at once: no datagram is said to have been read when another was.
    #[test]
    fn no_datagram_is_taken_for_another(
        steps in prop::collection::vec((0_usize..3, any::<bool>()), 1..400),
    ) {
        let mut machine = Machine::default();
        steps.into_iter().for_each(|(who, ours)| machine.step(who, ours));
    }

    /// One after the other, all are found.
    #[test]
    fn every_datagram_is_found(
        turns in prop::collection::vec((0_usize..3, any::<bool>()), 1..200),
    ) {
        let mut machine = Machine { known: true, ..Machine::default() };
        for (who, ours) in turns {
            (0..4).for_each(|_| machine.step(who, ours));
        }
        prop_assert_eq!(machine.found, machine.taken);
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
