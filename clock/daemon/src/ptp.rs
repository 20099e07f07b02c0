//! Sockets of PTP ports: two of each with UDP, for messages that are stamped and for all others; one with
//! Ethernet (annexes C to E).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use truechimer_counter::Counter;
use truechimer_engine::{Delay, Event, PtpEvent, SourceId, Transport};
use truechimer_stamp::control::at;
use truechimer_stamp::interface::{self, Asker};
use truechimer_stamp::{Group, Name, PairLog, Received, Socket, Wire};
use truechimer_time::{CountSpan, Period, Stamp};

use crate::cards::{Cards, Of};
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
    /// Message of which kernel or card has yet to say when it left.
    leaving: Option<Leaving>,
    /// Newest question.
    asked: Option<Question>,
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
        let (leaving, asked, card) = (None, None, None);
        Ok(Port { source, event, general, to, to_general, padding, leaving, asked, card })
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
        self.send(source, Leaving::Question, to, packet, cards)
    }

    /// Sends an answer to the group, and says when it left as soon as that is known. A question whose
    /// departure is not known yet has left by now; an answer before this one no longer counts.
    pub(crate) fn answer(
        &mut self,
        source: SourceId,
        packet: &[u8],
        cards: &mut Cards,
    ) -> Vec<Event> {
        self.send(source, Leaving::Answer, None, packet, cards)
    }

    /// Sends an event message to one or to the group. Departures that are known are told: of one of the other kind before
    /// it, which has left by now, and its own.
    fn send(
        &mut self,
        source: SourceId,
        what: Leaving,
        to: Option<IpAddr>,
        packet: &[u8],
        cards: &mut Cards,
    ) -> Vec<Event> {
        let Some(port) = self.ports.iter_mut().find(|port| port.source == source) else {
            return Vec::new();
        };
        let other = port.leaving.is_some_and(|leaving| leaving != what);
        let mut events = Vec::from_iter(port.left(true, cards).filter(|_| other));
        let packet = [packet, port.padding].concat();
        if let (Leaving::Question, Some(card)) = (what, port.card) {
            cards.look(Of::Number(card));
        }
        let to = to.map_or(port.to, |to| Name::from(&SocketAddr::new(to, EVENT)));
        match port.event.send(self.counter, &mut self.log, to, &packet) {
            Ok(()) => {
                port.leaving = Some(what);
                if what == Leaving::Question {
                    port.asked = Question::of(&packet);
                }
                events.extend(port.left(false, cards));
            }
            Err(why) if what == Leaving::Question => {
                events.push(Event::Undelivered { source, error: why.to_string() });
            }
            // The neighbour asks again.
            Err(_) => {}
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
            let mut heard = Vec::new();
            if event & POLLIN != 0 {
                let got = read(&mut port.event, counter, log);
                heard.extend(port.stamped(got, cards));
            }
            if let Some(socket) = &mut port.general
                && general & POLLIN != 0
            {
                let told = |(got, packet)| Heard { from: got, received: None, packet };
                heard.extend(read(socket, counter, log).into_iter().map(told));
            }
            if event | general != 0 {
                events.extend(port.left(false, cards));
            }
            for message in heard {
                // What the answer is about must be known by then.
                let asked = port.asked.filter(|_| port.leaving == Some(Leaving::Question));
                if asked.is_some_and(|asked| asked.is_answered_by(&message.packet)) {
                    events.extend(port.left(true, cards));
                }
                events.push(message.event(port.source));
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
        self.card = index.filter(|_| cards.may_have(index) && self.event.ask_cards());
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

    /// Messages of the event socket, with when event messages came. The card's clock is read once for all of them: a flood
    /// must not cost a reading each.
    fn stamped(&self, got: Vec<(Received, Vec<u8>)>, cards: &mut Cards) -> Vec<Heard> {
        let events = got.iter().filter(|(_, packet)| is_event(packet));
        let wires: Vec<Wire> = events.map(|(got, _)| on(self.card, got.wires[1])).collect();
        if self.card.is_some() {
            cards.look(Of::Stamped(&wires));
        }
        let mut better = |got: &Received| match self.card {
            Some(_) => cards.arrival(on(self.card, got.wires[1]), got.received),
            None => got.received,
        };
        let stamped = |(got, packet): (Received, Vec<u8>)| {
            let received = is_event(&packet).then(|| better(&got));
            Heard { from: got, received, packet }
        };
        got.into_iter().map(stamped).collect()
    }
}

/// Message that came, and when if it is an event message.
struct Heard {
    from: Received,
    received: Option<Stamp>,
    packet: Vec<u8>,
}

impl Heard {
    fn event(self, source: SourceId) -> Event {
        let Heard { from, received, packet } = self;
        Event::Ptp(PtpEvent::Message { source, from: from.from.ip(), received, packet })
    }
}

/// Identity of the asking port, and number of the question, as answers repeat both (tables 35, 46 and 48).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Question {
    port: [u8; 10],
    number: [u8; 2],
}

impl Question {
    /// Identity and number in a message of ours.
    fn of(packet: &[u8]) -> Option<Question> {
        Some(Question { port: at(packet, 20)?, number: at(packet, 30)? })
    }

    /// Says whether a message is the answer: a Delay_Resp or a Pdelay_Resp.
    fn is_answered_by(self, packet: &[u8]) -> bool {
        let kind = packet.first().map(|first| first & 0xf);
        matches!(kind, Some(0x9 | 0x3))
            && at(packet, 30) == Some(self.number)
            && at(packet, 44) == Some(self.port)
    }
}

/// Passage over the wire of what went by the socket of a port, which hears one interface alone: with Ethernet
/// the kernel does not say which.
fn on(card: Option<u32>, wire: Wire) -> Wire {
    Wire { interface: wire.interface.or(card), ..wire }
}

/// Reads what a socket has, within reason.
fn read(socket: &mut Socket, counter: Counter, log: &mut PairLog) -> Vec<(Received, Vec<u8>)> {
    let mut all = Vec::new();
    let mut buffer = [0; BUFFER];
    for _ in 0..PER_TURN {
        // Until there is no more: that nothing had come by now bounds the next stamp.
        let Ok(Some(got)) = socket.receive(counter, log, &mut buffer) else { break };
        all.push((got, buffer.get(..got.len).unwrap_or(&buffer).to_vec()));
    }
    all
}

/// Says whether a message's type is one that is stamped (table 36).
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
            asked: None,
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
        // The departure of an answer is none of the next one's.
        late(&mut ports, Leaving::Answer);
        assert_eq!(ports.answer(source, b"answer", &mut cards).len(), 1);
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
    fn the_answer_to_a_question_is_told_from_others() {
        let mut asked = [0; 44];
        asked[20..30].copy_from_slice(&[7; 10]);
        asked[30..32].copy_from_slice(&[1, 2]);
        let question = Question::of(&asked).unwrap();
        let answer = |kind: u8, number: [u8; 2], port: u8| {
            let mut packet = [0; 54];
            packet[0] = 0x10 | kind;
            packet[30..32].copy_from_slice(&number);
            packet[44..54].copy_from_slice(&[port; 10]);
            packet
        };
        assert!(question.is_answered_by(&answer(0x9, [1, 2], 7)));
        assert!(question.is_answered_by(&answer(0x3, [1, 2], 7)));
        // The one before, another port's, a Sync, and one that is cut off.
        assert!(!question.is_answered_by(&answer(0x9, [1, 1], 7)));
        assert!(!question.is_answered_by(&answer(0x9, [1, 2], 8)));
        assert!(!question.is_answered_by(&answer(0x0, [1, 2], 7)));
        assert!(!question.is_answered_by(&answer(0x9, [1, 2], 7)[..53]));
        assert_eq!(Question::of(&asked[..31]), None);
    }

    #[test]
    fn a_card_s_stamp_of_a_question_is_waited_for_until_the_answer_comes() {
        let (mut cards, _) = crate::cards::tests::cards();
        let (counter, mut log) =
            (Counter::open(Choice::Raw).unwrap(), PairLog::new(Period::NANOSECOND, CountSpan(1)));
        let master = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = master.local_addr().unwrap();
        let mut event = Socket::open(&to).unwrap();
        let mut question = [0; 44];
        question[31] = 5;
        event.send(counter, &mut log, &to, &question).unwrap();
        let own = (Ipv4Addr::LOCALHOST, event.local_address().unwrap().port());
        let (source, to) = (SourceId(4), Name::from(&to));
        let port = Port {
            source,
            event,
            general: None,
            to,
            to_general: to,
            padding: &[],
            leaving: Some(Leaving::Question),
            asked: Question::of(&question),
            card: Some(3),
        };
        let mut ports = PtpPorts { counter, log, ports: vec![port] };
        let mut hear = |packet: &[u8]| {
            master.send_to(packet, own).unwrap();
            let mut fds = Vec::new();
            ports.interests(&mut fds);
            assert!(crate::sys::poll(&mut fds, 1000).unwrap());
            ports.receive(&fds, &mut cards)
        };
        let answer = |number| {
            let mut packet = [0; 54];
            (packet[0], packet[31]) = (0x9, number);
            packet
        };
        for other in [&[0; 44][..], &answer(4)] {
            let events = hear(other);
            assert!(
                matches!(events.as_slice(), [Event::Ptp(PtpEvent::Message { .. })]),
                "{events:?}"
            );
        }
        let events = hear(&answer(5));
        assert!(
            matches!(
                events.as_slice(),
                [Event::Ptp(PtpEvent::Sent { .. }), Event::Ptp(PtpEvent::Message { .. })]
            ),
            "{events:?}"
        );
        assert_eq!(hear(&answer(5)).len(), 1, "once");
        assert_eq!(cards.reports()[0].sent.missing, 1);
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
