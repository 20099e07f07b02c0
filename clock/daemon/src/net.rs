//! The sockets: a fresh one for every request, so that its port is random.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use truechimer_counter::Counter;
use truechimer_engine::{Event, SourceId};
use truechimer_stamp::{PairLog, Socket};
use truechimer_time::{Count, CountSpan, Period};

use crate::cards::{Cards, Of};
use crate::sys::{POLLIN, POLLNVAL, pollfd};

/// A request has one answer, perhaps a few copies of it. After this many datagrams or errors the
/// rest is left to the kernel to drop: the next request goes out from another port anyway.
const MAX_HEARD: u32 = 64;
/// Room for an NTP packet with the extension fields of NTS. The rest of a longer one is cut off.
const BUFFER: usize = 2048;

/// All sockets, and what it takes to stamp what goes through them.
#[derive(Debug)]
pub(crate) struct Net {
    counter: Counter,
    log: PairLog,
    cards: Cards,
    links: Vec<Link>,
    /// Never used, only kept: while one socket asks for stamps, the kernel takes them from the
    /// first packet on.
    _keeper: Option<Socket>,
    floods: u64,
}

/// The socket of a request.
#[derive(Debug)]
struct Link {
    source: SourceId,
    socket: Socket,
    heard: u32,
}

impl Net {
    pub(crate) fn new(
        counter: Counter,
        nominal: Period,
        resolution: CountSpan,
        cards: Cards,
    ) -> Net {
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Net {
            counter,
            log: PairLog::new(nominal, resolution),
            cards,
            links: Vec::new(),
            _keeper: Socket::open(&anywhere).ok(),
            floods: 0,
        }
    }

    /// Sends `packet` from a socket of its own, and closes those of the source but the newest `waiting`, this one
    /// included. If it fails, this is what the engine should hear.
    pub(crate) fn send(
        &mut self,
        (source, waiting): (SourceId, usize),
        to: &SocketAddr,
        interface: Option<&str>,
        packet: &[u8],
    ) -> Option<Event> {
        let sent = Socket::open(to).and_then(|mut socket| {
            if let Some(interface) = interface {
                let named = |why: io::Error| {
                    io::Error::new(why.kind(), format!("interface {interface}: {why}"))
                };
                socket.confine(interface).map_err(named)?;
            }
            if self.cards.are_asked() && socket.ask_cards() {
                self.cards.look(self.cards.below(interface));
            }
            socket.send(self.counter, &mut self.log, to, packet)?;
            self.cards.look(Of::Stamped(&[socket.departure()]));
            Ok(socket)
        });
        // Only now, so that the port is another one for certain.
        self.retire(source, waiting);
        match sent {
            Ok(socket) => {
                self.links.push(Link { source, socket, heard: 0 });
                None
            }
            Err(error) => Some(Event::Undelivered { source, error: error.to_string() }),
        }
    }

    /// Closes those of the source's sockets whose replies would be too late when another request is one of so
    /// many that wait. What has come by them says nothing of that: anybody may have sent it.
    fn retire(&mut self, source: SourceId, waiting: usize) {
        let own = self.links.iter().filter(|link| link.source == source).count();
        let mut late = own.saturating_sub(waiting.saturating_sub(1));
        self.links.retain(|link| {
            let closes = link.source == source && late > 0;
            late -= usize::from(closes);
            !closes
        });
    }

    /// Closes the source's sockets.
    pub(crate) fn close(&mut self, source: SourceId) {
        self.links.retain(|link| link.source != source);
    }

    /// Forgets how counts and the kernel's stamps went together: the counter lost its continuity.
    pub(crate) fn forget(&mut self) {
        self.log.clear();
        self.cards.forget();
    }

    /// Says whether a card's setting is to be put back at the end, which takes a right.
    pub(crate) fn restores(&self) -> bool {
        self.cards.restores()
    }

    /// Cards that stamp.
    pub(crate) fn cards(&mut self) -> &mut Cards {
        &mut self.cards
    }

    /// Number of times that there was too much to read.
    pub(crate) fn floods(&self) -> u64 {
        self.floods
    }

    /// Adds what to wait for.
    pub(crate) fn interests(&self, fds: &mut Vec<pollfd>) {
        let open = self.links.iter().filter(|link| link.heard < MAX_HEARD);
        fds.extend(open.map(|link| pollfd { fd: link.socket.fd(), events: POLLIN, revents: 0 }));
    }

    /// Reads one datagram and the errors of each socket that poll(2) reported: first the errors, then the
    /// datagrams in the order in which they came.
    pub(crate) fn receive(&mut self, fds: &[pollfd]) -> Vec<Event> {
        let mut events = Vec::new();
        let (counter, log, cards) = (self.counter, &mut self.log, &mut self.cards);
        self.links.retain_mut(|link| {
            let reported = |fd: &&pollfd| fd.fd == link.socket.fd() && fd.revents != 0;
            let Some(fd) = fds.iter().find(reported) else { return true };
            link.heard += 1;
            if link.heard == MAX_HEARD {
                self.floods += 1;
            }
            if fd.revents & POLLIN != 0 {
                events.extend(link.receive(counter, log, cards));
            }
            if fd.revents & !POLLIN != 0 {
                let before = link.socket.departure();
                if let Some(news) = link.socket.on_error_queue(counter, log) {
                    events.push(link.undelivered(news.to_string()));
                }
                // A stamp that came late: the sooner the card's clock is read, the better it is known.
                let now = link.socket.departure();
                if now.card_ns != before.card_ns {
                    cards.look(Of::Stamped(&[now]));
                }
            }
            // No descriptor at all: nothing more can come of it.
            fd.revents & POLLNVAL == 0
        });
        let now = counter.read();
        events.sort_by_key(|event| arrival(event, now));
        events
    }
}

/// Arrival of a reply, from `now` on; `None` of all else.
fn arrival(event: &Event, now: Count) -> Option<CountSpan> {
    if let Event::Reply { received, .. } = event { Some(received.count - now) } else { None }
}

impl Link {
    fn receive(&mut self, counter: Counter, log: &mut PairLog, cards: &mut Cards) -> Option<Event> {
        let mut buffer = [0; BUFFER];
        match self.socket.receive(counter, log, &mut buffer) {
            Ok(Some(got)) => {
                // Nothing arrives at a port that nothing has left from.
                let [sent, received] = cards.exchange(got.wires, got.sent?, got.received);
                Some(Event::Reply {
                    source: self.source,
                    from: got.from,
                    sent,
                    received,
                    packet: buffer.get(..got.len).unwrap_or(&buffer).to_vec(),
                })
            }
            Ok(None) => None,
            Err(error) => Some(self.undelivered(error.to_string())),
        }
    }

    fn undelivered(&self, error: String) -> Event {
        Event::Undelivered { source: self.source, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::HardwareStamps;
    use crate::sys;
    use std::net::UdpSocket;
    use truechimer_counter::Choice;
    use truechimer_time::StampMethod;

    const SOURCE: SourceId = SourceId(3);

    fn net() -> Net {
        let counter = Counter::open(Choice::Raw).unwrap();
        let (period, step) = (Period::NANOSECOND, CountSpan(1));
        let cards = Cards::open(&HardwareStamps::None, &[], counter, period, step);
        Net::new(counter, period, step, cards)
    }

    fn server() -> (UdpSocket, SocketAddr) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        (socket, address)
    }

    /// Events within a second: polls until there are events or nothing is left to wait for.
    fn wait(net: &mut Net) -> Vec<Event> {
        for _ in 0..10 {
            let mut fds = Vec::new();
            net.interests(&mut fds);
            if !sys::poll(&mut fds, 100).unwrap() {
                continue;
            }
            let events = net.receive(&fds);
            if !events.is_empty() {
                return events;
            }
        }
        Vec::new()
    }

    /// Sends a request that is one of so many that wait; returns where it came from.
    fn ask(net: &mut Net, waiting: usize, (server, to): &(UdpSocket, SocketAddr)) -> SocketAddr {
        assert_eq!(net.send((SOURCE, waiting), to, None, b"request"), None);
        let mut buffer = [0; 100];
        let (length, from) = server.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"request");
        from
    }

    fn open(net: &Net) -> usize {
        let mut fds = Vec::new();
        net.interests(&mut fds);
        fds.len()
    }

    #[test]
    fn each_request_has_a_port_of_its_own_and_is_heard_while_it_waits() {
        let (mut net, end) = (net(), server());
        let answered = |net: &mut Net, port| {
            end.0.send_to(b"answer", port).unwrap();
            let events = wait(net);
            let [Event::Reply { source, from, sent, received, packet }] = events.as_slice() else {
                panic!("{events:?}");
            };
            assert_eq!((*source, *from, packet.as_slice()), (SOURCE, end.1, b"answer".as_slice()));
            assert!((received.count - sent.count).0 > 0);
            sent.count
        };
        let ports: Vec<SocketAddr> = [1, 2, 3, 4, 4].map(|n| ask(&mut net, n, &end)).to_vec();
        assert!(ports.iter().skip(1).all(|port| *port != ports[0]));
        assert_eq!(open(&net), 4, "the oldest is deaf");
        let older = answered(&mut net, ports[2]);
        let newer = answered(&mut net, ports[3]);
        assert!((newer - older).0 > 0, "each with the departure of its own request");
        ask(&mut net, 2, &end);
        assert_eq!(open(&net), 2, "the newest, and the one that left after what was answered");
        net.close(SOURCE);
        assert_eq!(open(&net), 0);
    }

    #[test]
    fn whatever_else_comes_by_a_socket_leaves_it_open_while_its_request_waits() {
        let (mut net, end) = (net(), server());
        let first = ask(&mut net, 1, &end);
        // Anybody can send a datagram to a port.
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"junk", first).unwrap();
        assert!(
            matches!(wait(&mut net).as_slice(), [Event::Reply { packet, .. }] if packet == b"junk")
        );
        let second = ask(&mut net, 2, &end);
        // Something on the error queue, as a stamp that comes late, or an error.
        let mut fds = Vec::new();
        net.interests(&mut fds);
        fds.iter_mut().for_each(|fd| fd.revents = libc::POLLERR);
        assert_eq!(net.receive(&fds), []);
        ask(&mut net, 3, &end);
        assert_eq!(open(&net), 3);
        for port in [first, second] {
            end.0.send_to(b"answer", port).unwrap();
            let events = wait(&mut net);
            assert!(
                matches!(events.as_slice(), [Event::Reply { packet, .. }] if packet == b"answer")
            );
        }
    }

    #[test]
    fn replies_are_told_in_the_order_in_which_they_came() {
        let (mut net, end) = (net(), server());
        // Linux begins to stamp arrivals a moment after the first socket asks for that.
        let stamped = (0..1000).any(|_| {
            let port = ask(&mut net, 1, &end);
            end.0.send_to(b"?", port).unwrap();
            let kernel = |event: &Event| {
                matches!(event, Event::Reply { received, .. } if received.method == StampMethod::Kernel)
            };
            wait(&mut net).iter().any(kernel)
        });
        assert!(stamped);
        net.close(SOURCE);
        let ports = [1, 2, 3].map(|n| ask(&mut net, n, &end));
        for place in [2, 0, 1] {
            end.0.send_to(&[place], ports[usize::from(place)]).unwrap();
        }
        let mut fds = Vec::new();
        net.interests(&mut fds);
        // On loopback what was sent has come.
        assert!(sys::poll(&mut fds, 1000).unwrap());
        assert!(fds.iter().all(|fd| fd.revents == POLLIN), "{fds:?}");
        let events = net.receive(&fds);
        let first = |event: &Event| match event {
            Event::Reply { packet, .. } => packet[0],
            other => panic!("{other:?}"),
        };
        assert_eq!(events.iter().map(first).collect::<Vec<_>>(), [2, 0, 1]);
    }

    #[test]
    fn a_flood_is_read_for_a_while_and_then_left_alone_until_the_next_request() {
        let (mut net, (server, to)) = (net(), server());
        assert_eq!(net.send((SOURCE, 1), &to, None, b"x"), None);
        let (_, from) = server.recv_from(&mut [0; 10]).unwrap();
        let mut heard = 0;
        for _ in 0..1000 {
            server.send_to(&[0; 2000], from).unwrap();
            let mut fds = Vec::new();
            net.interests(&mut fds);
            if !fds.is_empty() && sys::poll(&mut fds, 0).unwrap() {
                let events = net.receive(&fds);
                assert!(events.len() <= 1);
                heard += events.len();
            }
        }
        assert!(heard <= MAX_HEARD as usize);
        assert_eq!(net.floods(), 1);
        assert_eq!(net.send((SOURCE, 1), &to, None, b"y"), None);
        let (_, from) = server.recv_from(&mut [0; 10]).unwrap();
        server.send_to(b"answer", from).unwrap();
        assert!(
            matches!(wait(&mut net).as_slice(), [Event::Reply { packet, .. }] if packet == b"answer")
        );
    }

    #[test]
    fn a_closed_port_and_an_impossible_address_are_told() {
        let mut net = net();
        let (_, closed) = server();
        assert_eq!(net.send((SOURCE, 1), &closed, None, b"x"), None);
        let events = wait(&mut net);
        let [Event::Undelivered { source: SOURCE, error }] = events.as_slice() else {
            panic!("{events:?}");
        };
        assert!(error.contains("refused"), "{error}");
        let broadcast = SocketAddr::from((Ipv4Addr::BROADCAST, 123));
        assert!(matches!(
            net.send((SOURCE, 1), &broadcast, None, b"x"),
            Some(Event::Undelivered { source: SOURCE, .. })
        ));
    }
}
