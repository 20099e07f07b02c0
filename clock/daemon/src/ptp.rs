//! Sockets of PTP ports: two of each with UDP, for messages that are stamped and for all others; one with
//! Ethernet (annexes C to E).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use truechimer_counter::Counter;
use truechimer_engine::{Delay, Event, PtpEvent, SourceId, Transport};
use truechimer_stamp::interface::{self, Asker};
use truechimer_stamp::{Group, Name, PairLog, Socket, Wire};
use truechimer_time::{CountSpan, Period, Stamp};

use crate::cards::Cards;
use crate::sys::{POLLIN, POLLNVAL, pollfd};

const EVENT: u16 = 319;
const GENERAL: u16 = 320;
/// Type of Ethernet frames (E.2).
const ETHERTYPE: u16 = 0x88f7;
/// Scopes of IPv6 that masters may speak in (RFC 4291, 2.7): the link, the site, the organisation and all.
const SCOPES: [u16; 4] = [LINK, 0x5, 0x8, ALL];
const LINK: u16 = 0x2;
const ALL: u16 = 0xe;
/// Zeros behind an event message of UDP over IPv6, for clocks on the way to put their corrections right in the
/// checksum (D.2).
const ROOM: [u8; 2] = [0; 2];
/// The most datagrams that are read of a socket in one turn: a flood must not hold up the rest.
const PER_TURN: u32 = 64;
/// Room for a message with a few TLVs. The rest of a longer one is cut off, and it is refused.
const BUFFER: usize = 1024;

/// Carrier of a port's messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Carrier {
    pub(crate) transport: Transport,
    pub(crate) delay: Delay,
    /// To and from single receivers; no group is listened to.
    pub(crate) unicast: bool,
}

/// All PTP ports.
#[derive(Debug)]
pub(crate) struct PtpPorts {
    counter: Counter,
    log: PairLog,
    ports: Vec<Port>,
}

/// The sockets of a source.
#[derive(Debug)]
struct Port {
    source: SourceId,
    event: Socket,
    /// None with Ethernet, where the other hears all.
    general: Option<Socket>,
    /// Groups that questions, and all other messages, go to.
    to: Name,
    to_general: Name,
    /// Bytes that go behind a question.
    padding: &'static [u8],
    /// Message of which the kernel has yet to say when it left.
    leaving: Option<Leaving>,
    /// Number of the interface, if a card there stamps.
    card: Option<u32>,
}

/// Message that is on its way out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leaving {
    Question,
    Answer,
}

/// Groups of a transport for messages to that port: the one that questions go to first (tables C.1, D.1, E.1).
fn groups(Carrier { transport, delay, unicast }: Carrier, port: u16) -> Vec<Group> {
    if unicast {
        return vec![Group::Udp(match transport {
            Transport::Udp4 => SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
            _ => SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
        })];
    }
    let udp4 = |last: [u8; 4]| Group::Udp(SocketAddr::from((Ipv4Addr::from(last), port)));
    let udp6 = |scope: u16, last: u16| {
        let group = Ipv6Addr::new(0xff00 | scope, 0, 0, 0, 0, 0, 0, last);
        Group::Udp(SocketAddr::from((group, port)))
    };
    let ethernet = |address| Group::Ethernet { address, ethertype: ETHERTYPE };
    let (mut all, peers) = match transport {
        Transport::Udp4 => (vec![udp4([224, 0, 1, 129])], udp4([224, 0, 0, 107])),
        Transport::Udp6 | Transport::Udp6Link => {
            let asked = if transport == Transport::Udp6 { ALL } else { LINK };
            let others = SCOPES.into_iter().filter(|scope| *scope != asked);
            let all = [asked].into_iter().chain(others).map(|scope| udp6(scope, 0x181));
            (all.collect(), udp6(LINK, 0x6b))
        }
        Transport::Ethernet => {
            (vec![ethernet([0x01, 0x1b, 0x19, 0, 0, 0])], ethernet([0x01, 0x80, 0xc2, 0, 0, 0x0e]))
        }
    };
    if delay == Delay::P2p {
        all.insert(0, peers);
    }
    all
}

impl PtpPorts {
    pub(crate) fn new(counter: Counter, nominal: Period, resolution: CountSpan) -> PtpPorts {
        PtpPorts { counter, log: PairLog::new(nominal, resolution), ports: Vec::new() }
    }

    /// Opens the sockets of a source on this interface, in the place of those that it has. If that
    /// fails, this is what the engine should hear.
    pub(crate) fn listen(
        &mut self,
        source: SourceId,
        interface: &str,
        carrier: Carrier,
        cards: &Cards,
    ) -> Option<Event> {
        self.close(source);
        match self.open(source, interface, carrier) {
            Ok(mut port) => {
                port.ask_cards(interface, cards);
                self.ports.push(port);
                None
            }
            Err(why) => {
                let error = unopened(interface, carrier.transport, &why);
                Some(Event::Ptp(PtpEvent::Failed { source, error }))
            }
        }
    }

    fn open(&mut self, source: SourceId, interface: &str, carrier: Carrier) -> io::Result<Port> {
        let (counter, log) = (self.counter, &mut self.log);
        let mut open = |groups: &[Group], stamped| {
            let Some((first, others)) = groups.split_first() else {
                return Err(io::Error::from(io::ErrorKind::InvalidInput));
            };
            let socket = Socket::multicast(interface, first, stamped, counter, log)?;
            others.iter().try_for_each(|group| socket.join(interface, group))?;
            Ok((socket, first.on(interface)?))
        };
        let (event, to) = open(&groups(carrier, EVENT), true)?;
        let (general, to_general) = match carrier.transport {
            Transport::Ethernet => (None, to),
            _ => open(&groups(carrier, GENERAL), false).map(|(one, to)| (Some(one), to))?,
        };
        let padding: &[u8] = match carrier.transport {
            Transport::Udp6 | Transport::Udp6Link => &ROOM,
            Transport::Udp4 | Transport::Ethernet => &[],
        };
        Ok(Port { source, event, general, to, to_general, padding, leaving: None, card: None })
    }

    /// Sends a question to the group, or to that receiver alone, and says when it left as soon as that is
    /// known. An answer whose departure is not known yet has left by now; a question before this one no longer
    /// counts.
    pub(crate) fn ask(
        &mut self,
        source: SourceId,
        to: Option<IpAddr>,
        packet: &[u8],
        cards: &mut Cards,
    ) -> Vec<Event> {
        let Some(port) = self.ports.iter_mut().find(|port| port.source == source) else {
            return Vec::new();
        };
        let answered = port.leaving == Some(Leaving::Answer);
        let mut events = Vec::from_iter(port.left(true, cards).filter(|_| answered));
        let packet = [packet, port.padding].concat();
        if port.card.is_some() {
            cards.look(Some(&[on(port.card, Wire::default())]));
        }
        let to = to.map_or(port.to, |to| Name::from(&SocketAddr::new(to, EVENT)));
        if let Err(why) = port.event.send(self.counter, &mut self.log, to, &packet) {
            events.push(Event::Undelivered { source, error: why.to_string() });
            return events;
        }
        port.leaving = Some(Leaving::Question);
        events.extend(port.left(false, cards));
        events
    }

    /// Sends an answer to the group, and says when it left as soon as that is known. A question whose
    /// departure is not known yet has left by now.
    pub(crate) fn answer(
        &mut self,
        source: SourceId,
        packet: &[u8],
        cards: &mut Cards,
    ) -> Vec<Event> {
        let Some(port) = self.ports.iter_mut().find(|port| port.source == source) else {
            return Vec::new();
        };
        let mut events = Vec::from_iter(port.left(true, cards));
        let packet = [packet, port.padding].concat();
        // One that is lost is asked for again by the neighbour.
        if port.event.send(self.counter, &mut self.log, port.to, &packet).is_ok() {
            port.leaving = Some(Leaving::Answer);
            events.extend(port.left(false, cards));
        }
        events
    }

    /// Sends a message of the other kind to the group, or to that receiver alone. One that cannot be sent is
    /// as one that is lost: whoever does not answer is told of, and asked again. Where it goes by the socket of
    /// questions, says when that left whose departure was not known yet.
    pub(crate) fn tell(
        &mut self,
        source: SourceId,
        to: Option<IpAddr>,
        packet: &[u8],
        cards: &mut Cards,
    ) -> Option<Event> {
        let port = self.ports.iter_mut().find(|port| port.source == source)?;
        let before = if port.general.is_none() { port.left(true, cards) } else { None };
        let to = to.map_or(port.to_general, |to| Name::from(&SocketAddr::new(to, GENERAL)));
        let socket = port.general.as_mut().unwrap_or(&mut port.event);
        let _ = socket.send(self.counter, &mut self.log, to, &[packet, port.padding].concat());
        before
    }

    /// Closes the sockets of a source.
    pub(crate) fn close(&mut self, source: SourceId) {
        self.ports.retain(|port| port.source != source);
    }

    /// Forgets how counts and the kernel's stamps went together: the counter lost its continuity.
    pub(crate) fn forget(&mut self) {
        self.log.clear();
        for port in &mut self.ports {
            port.leaving = None;
        }
    }

    /// Adds what to wait for.
    pub(crate) fn interests(&self, fds: &mut Vec<pollfd>) {
        let sockets = self.ports.iter().flat_map(|port| [Some(&port.event), port.general.as_ref()]);
        let wanted = |socket: &Socket| pollfd { fd: socket.fd(), events: POLLIN, revents: 0 };
        fds.extend(sockets.flatten().map(wanted));
    }

    /// Reads what has come to the sockets that poll(2) reported.
    pub(crate) fn receive(&mut self, fds: &[pollfd], cards: &mut Cards) -> Vec<Event> {
        let mut events = Vec::new();
        let (counter, log) = (self.counter, &mut self.log);
        let reported =
            |socket: &Socket| fds.iter().find(|fd| fd.fd == socket.fd()).map_or(0, |fd| fd.revents);
        self.ports.retain_mut(|port| {
            let general = port.general.as_ref().map_or(0, reported);
            let event = reported(&port.event);
            if event & !POLLIN != 0 {
                let _ = port.event.on_error_queue(counter, log);
            }
            if event | general != 0 {
                events.extend(port.left(true, cards));
            }
            if event & POLLIN != 0 {
                let card = port.card;
                let mut stamped = |wire: Wire, kernel| match card {
                    Some(_) => cards.arrival(on(card, wire), kernel),
                    None => kernel,
                };
                let source = (port.source, Some(&mut stamped as Better<'_>));
                read(&mut port.event, source, counter, log, &mut events);
            }
            if let Some(socket) = &mut port.general
                && general & POLLIN != 0
            {
                read(socket, (port.source, None), counter, log, &mut events);
            }
            // No descriptor at all: nothing more can come of it.
            (event | general) & POLLNVAL == 0
        });
        events
    }
}

impl Port {
    /// Asks for stamps by the card of the interface, if one gives any.
    fn ask_cards(&mut self, interface: &str, cards: &Cards) {
        let index = Asker::new().and_then(|asker| interface::index(asker.as_fd(), interface)).ok();
        self.card = index.filter(|_| cards.has(index) && self.event.ask_cards());
    }

    /// Departure of the newest question or answer, once: if kernel and card have told it, or `now` in any
    /// case.
    fn left(&mut self, now: bool, cards: &mut Cards) -> Option<Event> {
        let leaving = self.leaving?;
        let Some((sent, waiting)) = self.event.sent() else {
            self.leaving = None;
            return None;
        };
        let wire = on(self.card, self.event.departure());
        let by_card = self.card.is_some() && cards.has(wire.interface);
        if (waiting || by_card && wire.card_ns.is_none()) && !now {
            return None;
        }
        self.leaving = None;
        let sent = if by_card { cards.departure(wire, sent) } else { sent };
        let answer = leaving == Leaving::Answer;
        Some(Event::Ptp(PtpEvent::Sent { source: self.source, sent, answer }))
    }
}

/// Passage over the wire of what went by the socket of a port, which hears one interface alone: with Ethernet
/// the kernel does not say which.
fn on(card: Option<u32>, wire: Wire) -> Wire {
    Wire { interface: wire.interface.or(card), ..wire }
}

/// Stamp of a message by its passage over the wire, given the kernel's.
type Better<'a> = &'a mut dyn FnMut(Wire, Stamp) -> Stamp;

/// Reads what a socket has, within reason; if `stamped`, which knows better than the kernel, with when event messages came.
fn read(
    socket: &mut Socket,
    (source, mut stamped): (SourceId, Option<Better<'_>>),
    counter: Counter,
    log: &mut PairLog,
    events: &mut Vec<Event>,
) {
    let mut buffer = [0; BUFFER];
    for _ in 0..PER_TURN {
        // Until there is no more: that nothing had come by now bounds the next stamp.
        let Ok(Some(got)) = socket.receive(counter, log, &mut buffer) else { return };
        let packet = buffer.get(..got.len).unwrap_or(&buffer);
        let stamped = stamped.as_mut().filter(|_| is_event(packet));
        events.push(Event::Ptp(PtpEvent::Message {
            source,
            from: got.from.ip(),
            received: stamped.map(|better| better(got.wires[1], got.received)),
            packet: packet.to_vec(),
        }));
    }
}

/// Whether a message's type is one that is stamped (table 36).
fn is_event(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first & 0xf < 4)
}

/// Reason why a port cannot be had, and what to do about it.
fn unopened(interface: &str, transport: Transport, why: &io::Error) -> String {
    let ethernet = transport == Transport::Ethernet;
    match why.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO) => {
            format!("there is no network interface {interface} (see 'ip link')")
        }
        Some(libc::EACCES | libc::EPERM) => {
            let (what, capability, small) = if ethernet {
                ("PTP over Ethernet takes".into(), "CAP_NET_RAW", "cap_net_raw")
            } else {
                let ports = format!("the UDP ports {EVENT} and {GENERAL} of PTP take");
                (ports, "CAP_NET_BIND_SERVICE", "cap_net_bind_service")
            };
            format!(
                "{what} a capability, {capability}: give the unit truechimer-ptp.conf as a drop-in, or run 'setcap \
                 {small}+ep' on the program"
            )
        }
        Some(libc::EAFNOSUPPORT) => format!(
            "PTP over {} is not to be had here: the unit needs truechimer-ptp.conf as a drop-in, or the kernel lacks \
             that protocol",
            transport.name()
        ),
        Some(libc::EADDRINUSE) => format!(
            "another program has the UDP ports {EVENT} and {GENERAL} of PTP for itself: see 'ss -ulpn'"
        ),
        _ => format!("cannot listen for PTP on {interface}: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::HardwareStamps;
    use truechimer_counter::Choice;

    fn by(transport: Transport, delay: Delay) -> Carrier {
        Carrier { transport, delay, unicast: false }
    }

    #[test]
    fn an_interface_that_is_not_there_is_told() {
        let counter = Counter::open(Choice::Raw).unwrap();
        let (period, step) = (Period::NANOSECOND, CountSpan(1));
        let mut ports = PtpPorts::new(counter, period, step);
        let mut cards = Cards::open(&HardwareStamps::None, &[], counter, period, step);
        for transport in [Transport::Udp4, Transport::Udp6, Transport::Ethernet] {
            let Some(Event::Ptp(PtpEvent::Failed { source, error })) =
                ports.listen(SourceId(4), "no-such-if", by(transport, Delay::E2e), &cards)
            else {
                panic!("opened");
            };
            assert_eq!(source, SourceId(4));
            assert!(error.contains("no network interface no-such-if"), "{error}");
        }
        assert_eq!(ports.ask(SourceId(4), None, b"x", &mut cards), []);
        let mut fds = Vec::new();
        ports.interests(&mut fds);
        assert!(fds.is_empty());
    }

    /// With Ethernet all goes by one socket: what is sent meanwhile takes nobody's departure.
    #[test]
    fn a_departure_is_of_its_own_message() {
        let counter = Counter::open(Choice::Raw).unwrap();
        let (period, step) = (Period::NANOSECOND, CountSpan(1));
        let mut cards = Cards::open(&HardwareStamps::None, &[], counter, period, step);
        let mut ports = PtpPorts::new(counter, period, step);
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let receiver = Socket::bind(&here, counter, &mut ports.log).unwrap();
        let to = Name::from(&receiver.local_address().unwrap());
        let source = SourceId(1);
        let event = Socket::open_ahead(&here, counter, &mut ports.log).unwrap();
        ports.ports.push(Port {
            source,
            event,
            general: None,
            to,
            to_general: to,
            padding: &[],
            leaving: None,
            card: None,
        });
        let sent = |event: Option<Event>| match event {
            Some(Event::Ptp(PtpEvent::Sent { sent, answer, .. })) => (sent.count, answer),
            other => panic!("{other:?}"),
        };
        // As if the kernel had yet to say when it left.
        let late = |ports: &mut PtpPorts, leaving| ports.ports[0].leaving = Some(leaving);
        let (asked, _) = sent(ports.ask(source, None, b"question", &mut cards).pop());
        late(&mut ports, Leaving::Question);
        assert_eq!(sent(ports.tell(source, None, b"told", &mut cards)), (asked, false));
        assert_eq!(ports.ports[0].left(true, &mut cards), None);
        let answered = sent(ports.answer(source, b"answer", &mut cards).pop()).0;
        late(&mut ports, Leaving::Answer);
        let mut events = ports.ask(source, None, b"question", &mut cards);
        assert_eq!(events.len(), 2);
        let asked = sent(events.pop());
        assert_eq!(sent(events.pop()), (answered, true));
        assert!(asked.0.at_or_after(answered) && !asked.1);
        // One that cannot be sent leaves never, and another's stamp is not taken for it.
        late(&mut ports, Leaving::Question);
        ports.ports[0].to = Name::from(&SocketAddr::from((Ipv6Addr::LOCALHOST, 9)));
        let failed = ports.ask(source, None, b"question", &mut cards);
        assert!(matches!(failed.as_slice(), [Event::Undelivered { .. }]), "{failed:?}");
        assert_eq!(ports.ports[0].leaving, None);
    }

    #[test]
    fn every_reason_has_a_mend() {
        let of = |errno| unopened("eth0", Transport::Udp6, &io::Error::from_raw_os_error(errno));
        assert!(of(libc::EACCES).contains("CAP_NET_BIND_SERVICE"));
        assert!(of(libc::EADDRINUSE).contains("ss -ulpn"));
        assert!(of(libc::ENETDOWN).contains("eth0"));
        let denied = io::Error::from_raw_os_error(libc::EPERM);
        assert!(unopened("eth0", Transport::Ethernet, &denied).contains("CAP_NET_RAW"));
    }

    #[test]
    fn a_unicast_port_is_in_no_group() {
        for (transport, any) in [(Transport::Udp4, "0.0.0.0:320"), (Transport::Udp6, "[::]:320")] {
            let carrier = Carrier { unicast: true, ..by(transport, Delay::E2e) };
            assert_eq!(groups(carrier, GENERAL), [Group::Udp(any.parse().unwrap())]);
        }
    }

    #[test]
    fn questions_go_to_the_standards_groups() {
        let first = |transport, delay| match groups(by(transport, delay), EVENT).remove(0) {
            Group::Udp(group) => group.to_string(),
            Group::Ethernet { address, ethertype } => format!("{address:02x?} {ethertype:x}"),
        };
        for (transport, e2e, p2p) in [
            (Transport::Udp4, "224.0.1.129:319", "224.0.0.107:319"),
            (Transport::Udp6, "[ff0e::181]:319", "[ff02::6b]:319"),
            (Transport::Udp6Link, "[ff02::181]:319", "[ff02::6b]:319"),
            (Transport::Ethernet, "[01, 1b, 19, 00, 00, 00] 88f7", "[01, 80, c2, 00, 00, 0e] 88f7"),
        ] {
            assert_eq!(first(transport, Delay::E2e), e2e);
            assert_eq!(first(transport, Delay::P2p), p2p);
            // Announcements are heard all the same.
            assert!(groups(by(transport, Delay::P2p), GENERAL).len() > 1);
        }
    }
}
