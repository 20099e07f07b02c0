//! A socket whose datagrams come with counts.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::net;
use truechimer_counter::Counter;
use truechimer_time::{Count, Span, Stamp};

use crate::control::{self, Control, Origin, Via, Wire};
use crate::group::{self, Group};
use crate::log::{PairLog, Window};
use crate::name::Name;
use crate::sys::{self, ControlBuffer};
use crate::undelivered::Undelivered;

/// Number of messages of the error queue that are read in one go: a flood of ICMP messages must not
/// hold up the caller. What is left makes `poll` report the socket again.
const ERRORS_PER_CALL: u32 = 32;
/// Time that a datagram may take from where the kernel stamps it to where it can be received: some
/// microseconds, more when the machine is busy, never so much.
const IN_FLIGHT: Span = Span::from_secs(1);
/// Room for what comes with a message of the error queue: nothing where the kernel is as new as
/// ours, else the datagram, in a simulator with the frame around it.
const ECHO: usize = 2048;
/// Stamps of departures, each with the datagram's number and without the datagram.
const DEPARTURES: u32 = libc::SOF_TIMESTAMPING_TX_SOFTWARE
    | libc::SOF_TIMESTAMPING_OPT_ID
    | libc::SOF_TIMESTAMPING_OPT_TSONLY;
/// Stamps of cards, besides those of the kernel, with the interface that each is of. The latter comes with
/// a datagram alone, so that none is left out.
const BY_CARD: u32 = libc::SOF_TIMESTAMPING_RX_HARDWARE
    | libc::SOF_TIMESTAMPING_TX_HARDWARE
    | libc::SOF_TIMESTAMPING_RAW_HARDWARE
    | libc::SOF_TIMESTAMPING_OPT_TX_SWHW
    | libc::SOF_TIMESTAMPING_OPT_PKTINFO
    | libc::SOF_TIMESTAMPING_OPT_CMSG;
/// Number of tries of a receive that pending errors interrupt.
const RECEIVE_TRIES: u32 = 4;

/// A datagram that came, with the counts of its arrival and of the newest request's departure.
///
/// It is taken to have arrived after that departure. If it did not, it is no answer to that
/// request, and its stamp means nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// Number of bytes in the buffer.
    pub len: usize,
    /// Length of the datagram, bytes: more than `len` if the buffer was too short for it.
    pub size: usize,
    /// From where.
    pub from: SocketAddr,
    /// When the newest request on this socket left; `None` if there was none.
    pub sent: Option<Stamp>,
    /// When the datagram arrived.
    pub received: Stamp,
    /// Hop limit that it arrived with, if the socket asks for that ([`Socket::ask_headers`]).
    pub hop_limit: Option<u8>,
    /// To which of our addresses it came, likewise.
    pub via: Option<Via>,
    /// Passage of the newest request and of this, if the socket [asks cards](Socket::ask_cards).
    pub wires: [Wire; 2],
}

/// A socket, of UDP unless it is for a group of Ethernet, that asks the kernel to stamp what goes out and
/// comes in.
///
/// To be used with `poll(2)` on [`Socket::fd`]: on POLLIN call [`Socket::receive`] (it never
/// blocks), on POLLERR or POLLPRI [`Socket::on_error_queue`].
///
/// Within a clock simulator only what `poll` reported may be received, so `receive` is called once
/// per report there; elsewhere until it returns `None`, or once: `poll` reports the rest again.
///
/// Linux begins to stamp arrivals a moment after the first socket on the machine asks for it, so
/// the very first answer may come with a user-space stamp. A program that opens a fresh socket for
/// every request had better keep one open all the time.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    /// True if the kernel agreed to stamp.
    stamping: bool,
    /// True if that includes departures.
    departures: bool,
    /// Says whether cards are asked for stamps of both.
    cards: bool,
    /// The key that the kernel gives to the next datagram, counting from 0, and by how much that
    /// may be too low: some kernels count a datagram that they then fail to send.
    next_key: u32,
    key_slack: u32,
    request: Option<Request>,
    /// Count after which everything that is received has arrived.
    since: Option<Count>,
    /// Datagrams come that answer nothing.
    listens: bool,
    undelivered: Option<Undelivered>,
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The newest datagram sent.
#[derive(Debug)]
struct Request {
    /// The kernel's key for it; up to `key_slack` more.
    key: u32,
    /// A count from before the system call.
    entered: Count,
    /// The best that is known of its departure.
    sent: Stamp,
    /// True if the kernel's own stamp may yet come.
    waiting: bool,
    /// Passage onto the wire, as far as is known.
    wire: Wire,
    /// Copies left by several interfaces, and nothing tells which of the copies is answered: no card's stamp is of use.
    by_several: bool,
    /// Bytes of the datagram.
    bytes: Box<[u8]>,
}

impl Socket {
    /// A socket for requests to an address like `to`: not connected, and bound to a random port
    /// by the first send.
    ///
    /// # Errors
    /// If there is no such socket to be had. A kernel that does not stamp is no error: see
    /// [`Socket::stamping`].
    pub fn open(to: &SocketAddr) -> io::Result<Socket> {
        let mut socket = Socket::open_unstamped(to)?;
        socket.stamping = socket.ask_for_stamps(DEPARTURES);
        socket.departures = socket.stamping;
        Ok(socket)
    }

    /// Opens one without kernel stamps: every stamp will be a user-space one. For tests, and to
    /// show the difference.
    ///
    /// # Errors
    /// If there is no such socket to be had.
    pub fn open_unstamped(to: &SocketAddr) -> io::Result<Socket> {
        let socket = Socket::plain(to)?;
        let (level, option) = if to.is_ipv4() {
            (libc::IPPROTO_IP, libc::IP_RECVERR)
        } else {
            (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
        };
        // So that ICMP messages are heard of at all. Without it they are not, and that is all.
        let _ = sys::set_option(socket.fd.as_fd(), level, option, 1);
        Ok(socket)
    }

    /// Keeps it to a network interface: what it sends leaves by that, and nothing else is heard.
    ///
    /// # Errors
    /// `ENODEV` if there is none, `EPERM` on Linux before 5.7 without `CAP_NET_RAW`.
    pub fn confine(&self, interface: &str) -> io::Result<()> {
        group::bind_to_device(self.fd.as_fd(), interface)
    }

    /// A socket for requests that are sent before the answers to earlier ones have come: an answer is not
    /// taken to have arrived after the newest request left.
    ///
    /// # Errors
    /// As [`Socket::open`].
    pub fn open_ahead(to: &SocketAddr, counter: Counter, log: &mut PairLog) -> io::Result<Socket> {
        let mut socket = Socket::open(to)?;
        socket.listens = true;
        socket.since = Some(log.take(counter).end);
        Ok(socket)
    }

    /// Counts by another counter from now on, whose log this is: nothing that is known in the old one's counts is kept.
    /// For a second, in which datagrams may come that arrived before, stamps are known no better than that.
    pub fn recount(&mut self, counter: Counter, log: &mut PairLog) {
        self.request = None;
        self.since = Some(log.take(counter).before - log.period().counts(IN_FLIGHT));
    }

    /// Asks for hop limit and our own address of each datagram that arrives; what the system does not give does not come.
    pub fn ask_headers(&self) {
        let set = |level, option| sys::set_option(self.fd.as_fd(), level, option, 1);
        let _ = set(libc::IPPROTO_IP, libc::IP_RECVTTL);
        let _ = set(libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT);
        let _ = set(libc::IPPROTO_IP, libc::IP_PKTINFO);
        let _ = set(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO);
    }

    /// Asks network cards for stamps as well, each by its own clock. Those whose stamping is enabled
    /// ([`Stamping`](crate::card::Stamping)) give some. To be called before anything is sent; whether the kernel will.
    pub fn ask_cards(&mut self) -> bool {
        if !self.departures {
            return false;
        }
        let more = BY_CARD | DEPARTURES & !libc::SOF_TIMESTAMPING_OPT_TSONLY;
        self.cards = self.ask_for_stamps(more);
        // The interface of each.
        let set = |level, option| sys::set_option(self.fd.as_fd(), level, option, 1);
        let _ = set(libc::IPPROTO_IP, libc::IP_PKTINFO);
        let _ = set(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO);
        self.cards
    }

    /// Marks what is sent with this differentiated services code point (RFC 2474), 0 to 63.
    ///
    /// # Errors
    /// What the system says.
    pub fn mark(&self, code_point: u8) -> io::Result<()> {
        let class = i32::from(code_point & 0x3f) << 2;
        let (level, option) = match self.local_address()?.is_ipv4() {
            true => (libc::IPPROTO_IP, libc::IP_TOS),
            false => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        };
        sys::set_option(self.fd.as_fd(), level, option, class)
    }

    /// A socket bound to `address`, for those who answer requests: arrivals are stamped,
    /// departures ([`Socket::answer`]) are not, and nobody's ICMP message disturbs it.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn bind(address: &SocketAddr, counter: Counter, log: &mut PairLog) -> io::Result<Socket> {
        let mut socket = Socket::plain(address)?;
        socket.stamping = socket.ask_for_stamps(0);
        socket.since = Some(log.take(counter).end);
        net::bind(&socket.fd, address)?;
        Ok(socket)
    }

    /// A socket of one network interface that hears what is sent to a group there, and may send to it;
    /// nothing of that comes back or passes a router. If `stamped`, arrivals and departures are. Others may
    /// have a port of UDP as well, if they ask for that too.
    ///
    /// # Errors
    /// `ENODEV` if there is no such interface, `EACCES` if the port takes a capability, `EPERM` if Ethernet
    /// does, else what the system says.
    pub fn multicast(
        interface: &str,
        group: &Group,
        stamped: bool,
        counter: Counter,
        log: &mut PairLog,
    ) -> io::Result<Socket> {
        let everywhere = group.everywhere(interface)?;
        let mut socket = Socket::of(match group {
            Group::Udp(address) => sys::udp_socket(address)?,
            Group::Ethernet { .. } => sys::packet_socket()?,
        });
        socket.listens = true;
        group.confine(socket.fd.as_fd(), interface)?;
        if stamped {
            let stamping = socket.ask_for_stamps(DEPARTURES);
            (socket.stamping, socket.departures) = (stamping, stamping);
        }
        socket.since = Some(log.take(counter).end);
        sys::bind(socket.fd.as_fd(), &everywhere)?;
        socket.join(interface, group)?;
        Ok(socket)
    }

    /// Hears what is sent to this group as well, which is of the same kind.
    ///
    /// # Errors
    /// `ENODEV` if there is no such interface, else what the system says.
    pub fn join(&self, interface: &str, group: &Group) -> io::Result<()> {
        group.join(self.fd.as_fd(), interface)
    }

    /// When the newest datagram left, as far as is known, and whether the kernel may yet know
    /// better.
    #[must_use]
    pub fn sent(&self) -> Option<(Stamp, bool)> {
        self.request.as_ref().map(|request| (request.sent, request.waiting))
    }

    /// Passage of the newest datagram onto the wire, as far as is known.
    #[must_use]
    pub fn departure(&self) -> Wire {
        self.request.as_ref().map(|request| request.wire).unwrap_or_default()
    }

    fn plain(family: &SocketAddr) -> io::Result<Socket> {
        Ok(Socket::of(sys::udp_socket(family)?))
    }

    fn of(fd: OwnedFd) -> Socket {
        Socket {
            fd,
            stamping: false,
            departures: false,
            cards: false,
            next_key: 0,
            key_slack: 0,
            request: None,
            since: None,
            listens: false,
            undelivered: None,
        }
    }

    /// Asks the kernel for arrival stamps and what is in `more`; whether it will.
    fn ask_for_stamps(&self, more: u32) -> bool {
        let flags = libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_RX_SOFTWARE | more;
        let (level, option) = (libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
        sys::set_option(self.fd.as_fd(), level, option, flags as i32).is_ok()
    }

    /// Events to hand to `poll(2)`, as a number.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// True if the kernel agreed to stamp. Each stamp's own method says whether it did.
    #[must_use]
    pub fn stamping(&self) -> bool {
        self.stamping
    }

    /// The address that the socket is bound to; its port is 0 before the first send.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        Ok(net::getsockname(&self.fd)?.try_into()?)
    }

    /// Sends a request and takes note of when it left: a pair before, the kernel's stamp from the
    /// error queue right after, a pair after that.
    ///
    /// # Errors
    /// What the system says. The request before it is forgotten all the same.
    pub fn send(
        &mut self,
        counter: Counter,
        log: &mut PairLog,
        to: impl Into<Name>,
        bytes: &[u8],
    ) -> io::Result<()> {
        let to = to.into();
        self.request = None;
        log.take(counter);
        let mut entered = counter.fenced().read();
        if !self.listens {
            // An answer cannot arrive before that, and nothing else matters.
            self.since = Some(entered);
        }
        let mut result = self.send_to(&to, bytes);
        if result.is_err() {
            // It may have been the news that an earlier datagram could not be delivered.
            self.key_slack = self.key_slack.saturating_add(1);
            entered = counter.fenced().read();
            result = self.send_to(&to, bytes);
        }
        let returned = counter.fenced().read();
        if let Err(error) = result {
            self.key_slack = self.key_slack.saturating_add(1);
            return Err(error);
        }
        let window = Window { earliest: entered, latest: returned };
        self.request = Some(Request {
            key: self.next_key,
            entered,
            sent: window.stamp(entered.midpoint(returned), log.resolution()),
            waiting: self.departures,
            wire: Wire::default(),
            by_several: false,
            bytes: bytes.into(),
        });
        self.next_key = self.next_key.wrapping_add(1);
        if self.departures {
            self.drain(counter, log, true);
        }
        Ok(())
    }

    /// Sends an answer, of which nothing is noted.
    ///
    /// # Errors
    /// What the system says.
    pub fn answer(&self, to: &SocketAddr, bytes: &[u8]) -> io::Result<()> {
        self.send_to(&to.into(), bytes)
    }

    /// Sends an answer from the address of ours that was asked, if it is known.
    ///
    /// # Errors
    /// What the system says.
    pub fn answer_via(&self, to: &SocketAddr, via: Option<Via>, bytes: &[u8]) -> io::Result<()> {
        match via {
            Some(via) => sys::send_via(self.fd.as_fd(), bytes, &to.into(), via),
            None => self.answer(to, bytes),
        }
    }

    fn send_to(&self, to: &Name, bytes: &[u8]) -> io::Result<()> {
        sys::send(self.fd.as_fd(), bytes, to)
    }

    /// Receives one datagram into `buf`, if there is one: `None` if not.
    ///
    /// # Errors
    /// An [`Undelivered`] (inside the error) if the network said that a datagram sent from
    /// here could not be delivered; else what the system says.
    pub fn receive(
        &mut self,
        counter: Counter,
        log: &mut PairLog,
        buf: &mut [u8],
    ) -> io::Result<Option<Received>> {
        let mut control = ControlBuffer([0; 512]);
        for _ in 0..RECEIVE_TRIES {
            let asked = counter.fenced().read();
            let received = sys::receive(self.fd.as_fd(), buf, &mut control, libc::MSG_TRUNC);
            let message = match received {
                Ok(message) => message,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let quiet = asked - log.period().counts(IN_FLIGHT);
                    self.since = Some(self.since.map_or(quiet, |since| since.latest(quiet)));
                    return self.undelivered.take().map_or(Ok(None), |news| Err(news.into()));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    // A pending error is reported once, in the place of a datagram.
                    self.note(Undelivered {
                        errno: error.raw_os_error().unwrap_or(0),
                        to: None,
                        by: None,
                    });
                    self.drain(counter, log, false);
                    continue;
                }
            };
            let latest = counter.fenced().read();
            log.take(counter);
            let window = Window { earliest: self.since.unwrap_or(asked), latest };
            // Cards that sent copies of it may all have a word to say.
            if self.cards || self.awaits() {
                self.drain(counter, log, !self.cards);
            }
            let Some(from) = message.address else { continue };
            let said = control.0.get(..message.control).map(control::parse).unwrap_or_default();
            // An arrival that only user space saw was most likely at the very end of its window:
            // `poll` wakes the receiver as soon as there is something.
            let received = said
                .stamp
                .and_then(|unix_ns| log.invert(unix_ns, window).ok())
                .unwrap_or_else(|| window.stamp(window.latest, log.resolution()));
            return Ok(Some(Received {
                len: message.size.min(buf.len()),
                size: message.size,
                from,
                sent: self.request.as_ref().map(|request| request.sent),
                received,
                hop_limit: said.hop_limit,
                via: said.via,
                wires: [self.departure(), said.wire],
            }));
        }
        self.undelivered.take().map_or(Ok(None), |news| Err(news.into()))
    }

    /// Reads the error queue: transmit stamps that came late, and news of a datagram that could
    /// not be delivered (the newest, if there are several).
    pub fn on_error_queue(&mut self, counter: Counter, log: &mut PairLog) -> Option<Undelivered> {
        self.drain(counter, log, false);
        if let Ok(Err(pending)) = net::sockopt::socket_error(&self.fd) {
            self.note(Undelivered { errno: pending.raw_os_error(), to: None, by: None });
        }
        self.undelivered.take()
    }

    /// Says whether stamps of the newest request's departure may yet come.
    fn awaits(&self) -> bool {
        let by_card =
            |request: &Request| self.cards && request.wire.card_ns.is_none() && !request.by_several;
        self.request.as_ref().is_some_and(|request| request.waiting || by_card(request))
    }

    /// Reads messages from the error queue until there are no more, or until the newest request
    /// has its stamp if that is all that is wanted. (A simulator's error queue must not be read
    /// when it is empty; it never is before the stamp has been read.)
    fn drain(&mut self, counter: Counter, log: &mut PairLog, only_stamp: bool) {
        let mut bytes = [0; ECHO];
        let mut control = ControlBuffer([0; 512]);
        for _ in 0..ERRORS_PER_CALL {
            let Ok(message) =
                sys::receive(self.fd.as_fd(), &mut bytes, &mut control, libc::MSG_ERRQUEUE)
            else {
                return;
            };
            let said = control.0.get(..message.control).map(control::parse).unwrap_or_default();
            let echo = bytes.get(..message.size).unwrap_or(&bytes);
            let by_card = self.newest_by_card(&said, echo);
            let departure = self.newest_departure(&said, echo);
            if let Some(unix_ns) = departure {
                self.departed(counter, log, unix_ns);
            }
            if by_card || departure.is_some() {
                if only_stamp && !self.awaits() {
                    return;
                }
            } else if let Some(error) = said.error
                && error.origin != Origin::Timestamping
            {
                self.note(Undelivered {
                    errno: error.errno,
                    to: message.address,
                    by: error.offender.filter(|_| error.origin == Origin::Icmp),
                });
            }
        }
    }

    /// The transmit stamp in a message from the error queue, if it is of the newest request and
    /// that still waits for it: a late stamp of an older one must never be taken for it.
    fn newest_departure(&mut self, said: &Control, echo: &[u8]) -> Option<i64> {
        let unix_ns = said.stamp?;
        self.request.as_ref().filter(|request| request.waiting)?;
        self.is_newest(said, echo).then_some(unix_ns)
    }

    /// Takes the card's transmit stamp from a message of the error queue, if it is of the newest request; also
    /// the interface that this left by. Of one that left by several (a bond in mode broadcast, HSR, a bridge that floods)
    /// all have the same key, and none is taken. Says whether there was a stamp.
    fn newest_by_card(&mut self, said: &Control, echo: &[u8]) -> bool {
        if !self.cards || said.stamp.or(said.wire.card_ns).is_none() || !self.is_newest(said, echo)
        {
            return false;
        }
        let Some(request) = &mut self.request else { return false };
        let interfaces = request.wire.interface.zip(said.wire.interface);
        if request.by_several || interfaces.is_some_and(|(one, other)| one != other) {
            (request.by_several, request.wire) = (true, Wire::default());
        } else {
            request.wire.interface = request.wire.interface.or(said.wire.interface);
            request.wire.card_ns = request.wire.card_ns.or(said.wire.card_ns);
        }
        said.wire.card_ns.is_some()
    }

    /// Says whether a message of the error queue tells of the newest request's departure.
    fn is_newest(&mut self, said: &Control, echo: &[u8]) -> bool {
        let Some(request) = &mut self.request else { return false };
        // Simulators give no key, but the whole frame: it ends with what was sent.
        let Some(error) = said.error else { return echo.ends_with(&request.bytes) };
        let of_departure =
            error.origin == Origin::Timestamping && error.errno == libc::ENOMSG && error.info == 0;
        if !of_departure || error.data.wrapping_sub(request.key) > self.key_slack {
            return false;
        }
        // The other stamp of it has the very same.
        request.key = error.data;
        self.next_key = error.data.wrapping_add(1);
        self.key_slack = 0;
        true
    }

    /// The kernel says when the newest request left.
    fn departed(&mut self, counter: Counter, log: &mut PairLog, unix_ns: i64) {
        let latest = counter.fenced().read();
        log.take(counter);
        if let Some(request) = &mut self.request {
            request.waiting = false;
            if let Ok(stamp) = log.invert(unix_ns, Window { earliest: request.entered, latest }) {
                request.sent = stamp;
            }
        }
    }

    fn note(&mut self, news: Undelivered) {
        // What the error queue says has more to it than the bare number that announces it.
        let vague = news.by.is_none() && news.to.is_none();
        if !vague || self.undelivered.is_none() {
            self.undelivered = Some(news);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::QueuedError;
    use std::net::UdpSocket;
    use truechimer_counter::Choice;
    use truechimer_time::{CountSpan, Period, StampMethod};

    /// Bytes that those of [`socket`] have sent.
    const SENT: &[u8] = b"what time is it?";

    fn socket(next_key: u32, key_slack: u32) -> Socket {
        let mut socket = Socket::open_unstamped(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let sent = Stamp { count: Count(7), error: CountSpan(1), method: StampMethod::User };
        let key = next_key.wrapping_sub(1);
        let bytes = SENT.into();
        let (entered, wire) = (Count(6), Wire::default());
        let by_several = false;
        socket.request =
            Some(Request { key, entered, sent, waiting: true, wire, by_several, bytes });
        (socket.next_key, socket.key_slack) = (next_key, key_slack);
        socket
    }

    fn stamp_of(key: u32) -> Control {
        let error = QueuedError {
            errno: libc::ENOMSG,
            origin: Origin::Timestamping,
            info: 0,
            data: key,
            offender: None,
        };
        Control { stamp: Some(99), error: Some(error), ..Control::default() }
    }

    /// A socket, a server, and all that is needed to use them.
    fn bench() -> (Counter, PairLog, Socket, UdpSocket, SocketAddr) {
        let counter = Counter::open(Choice::Raw).unwrap();
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = server.local_addr().unwrap();
        let log = PairLog::new(Period::NANOSECOND, CountSpan(1));
        (counter, log, Socket::open(&to).unwrap(), server, to)
    }

    #[test]
    fn the_departure_is_known_when_send_returns() {
        let (counter, mut log, mut socket, _server, to) = bench();
        for _ in 0..3 {
            socket.send(counter, &mut log, &to, b"now").unwrap();
            let request = socket.request.as_ref().unwrap();
            assert!(!request.waiting);
            assert_eq!(request.sent.method, StampMethod::Kernel);
            assert!(request.sent.count.at_or_after(request.entered));
        }
    }

    #[test]
    fn a_late_departure_is_found_behind_that_of_an_older_request() {
        for by_poll in [false, true] {
            let (counter, mut log, mut socket, server, to) = bench();
            for _ in 0..2 {
                // As if no stamp had been there yet when the request was sent.
                socket.departures = false;
                socket.send(counter, &mut log, &to, b"late").unwrap();
                socket.request.as_mut().unwrap().waiting = true;
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            if by_poll {
                assert_eq!(socket.on_error_queue(counter, &mut log), None);
                assert!(!socket.request.as_ref().unwrap().waiting);
            }
            let mut port = to;
            port.set_port(socket.local_address().unwrap().port());
            server.send_to(b"?", port).unwrap();
            let entered = socket.request.as_ref().unwrap().entered;
            let received = (0..1000).find_map(|_| {
                std::thread::sleep(std::time::Duration::from_millis(1));
                socket.receive(counter, &mut log, &mut [0; 8]).unwrap()
            });
            let sent = received.unwrap().sent.unwrap();
            assert_eq!(sent.method, StampMethod::Kernel);
            assert!((sent.count + sent.error).at_or_after(entered));
        }
    }

    #[test]
    fn an_answer_may_have_come_before_the_newest_request_left() {
        let (counter, mut log, _, server, to) = bench();
        let mut socket = Socket::open_ahead(&to, counter, &mut log).unwrap();
        socket.ask_headers();
        socket.send(counter, &mut log, &to, b"first").unwrap();
        let mut port = to;
        port.set_port(socket.local_address().unwrap().port());
        server.send_to(b"answer", port).unwrap();
        // On loopback it has arrived by now.
        std::thread::sleep(std::time::Duration::from_millis(5));
        socket.send(counter, &mut log, &to, b"second").unwrap();
        let (left, _) = socket.sent().unwrap();
        let received = socket.receive(counter, &mut log, &mut [0; 8]).unwrap().unwrap();
        let arrived = received.received;
        assert_eq!((arrived.method, received.hop_limit), (StampMethod::Kernel, Some(64)));
        assert!((left.count - left.error).at_or_after(arrived.count + arrived.error));
    }

    #[test]
    fn another_counter_knows_nothing_of_the_old_ones_counts() {
        let (_, mut log, _, server, to) = bench();
        let raw = Counter::open(Choice::Raw).unwrap();
        let mut socket = Socket::bind(&"127.0.0.1:0".parse().unwrap(), raw, &mut log).unwrap();
        let address = socket.local_address().unwrap();
        // As if the old one had counted hours more.
        socket.since = socket.since.map(|since| since + CountSpan(30_000_000_000_000));
        let receive = |socket: &mut Socket, log: &mut PairLog| {
            server.send_to(b"?", address).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(2));
            socket.receive(raw, log, &mut [0; 8]).unwrap().unwrap().received
        };
        assert!(receive(&mut socket, &mut log).error > CountSpan(1_000_000_000_000));
        let mut log = PairLog::new(Period::NANOSECOND, CountSpan(1));
        socket.recount(raw, &mut log);
        let soon = receive(&mut socket, &mut log);
        assert!(soon.error > CountSpan(900_000_000) && soon.error < CountSpan(9_000_000_000));
        let _ = to;
    }

    #[test]
    fn what_is_sent_is_marked() {
        let (.., socket, _server, _) = bench();
        socket.mark(46).unwrap();
        assert_eq!(net::sockopt::ip_tos(&socket.fd).unwrap(), 46 << 2);
        let socket = Socket::open(&"[::1]:0".parse().unwrap()).unwrap();
        socket.mark(63).unwrap();
        assert_eq!(net::sockopt::ipv6_tclass(&socket.fd).unwrap(), 63 << 2);
    }

    #[test]
    fn only_the_newest_requests_stamp_counts() {
        let mut socket = socket(5, 0);
        for key in [3, 5, 0, u32::MAX] {
            assert_eq!(socket.newest_departure(&stamp_of(key), &[]), None, "{key}");
        }
        assert_eq!(socket.newest_departure(&stamp_of(4), &[]), Some(99));
        // And only while it is waited for.
        socket.request.as_mut().unwrap().waiting = false;
        assert_eq!(socket.newest_departure(&stamp_of(4), &[]), None);
        socket.request = None;
        assert_eq!(socket.newest_departure(&stamp_of(4), &[]), None);
    }

    #[test]
    fn a_card_s_stamp_counts_besides_the_kernel_s_and_of_the_newest_request_alone() {
        let by = |key, card_ns| {
            let wire = Wire { card_ns, interface: Some(3), frame: None };
            Control { stamp: card_ns.is_none().then_some(99), wire, ..stamp_of(key) }
        };
        let mut socket = socket(5, 1);
        // Not asked for: what comes is none of ours.
        assert!(!socket.newest_by_card(&by(4, Some(7)), &[]));
        socket.cards = true;
        for other in [3, 6, u32::MAX] {
            assert!(!socket.newest_by_card(&by(other, Some(7)), &[]), "{other}");
        }
        assert!(!socket.newest_by_card(&Control { stamp: None, ..stamp_of(5) }, &[]));
        // The kernel's, which comes first, tells key and interface.
        assert!(!socket.newest_by_card(&by(5, None), &[]));
        assert_eq!(socket.newest_departure(&by(5, None), &[]), Some(99));
        let wire = Wire { card_ns: None, interface: Some(3), frame: None };
        assert_eq!(socket.departure(), wire);
        socket.request.as_mut().unwrap().waiting = false;
        assert!(socket.awaits());
        assert!(!socket.newest_by_card(&by(4, Some(7)), &[]), "of the one before");
        assert!(socket.newest_by_card(&by(5, Some(8)), &[]));
        assert_eq!(socket.departure(), Wire { card_ns: Some(8), ..wire });
        assert!(!socket.awaits());
    }

    #[test]
    fn a_request_that_left_by_two_interfaces_has_no_card_s_stamp() {
        let by = |interface, stamp, card_ns| {
            let wire = Wire { card_ns, interface: Some(interface), frame: None };
            Control { stamp, wire, ..stamp_of(5) }
        };
        let [first, second] = [3, 4].map(|interface| by(interface, None, Some(7)));
        let kernel = by(4, Some(99), None);
        for told in [[first, second], [second, first], [kernel, first], [first, kernel]] {
            let mut socket = socket(5, 1);
            socket.cards = true;
            for said in told {
                socket.newest_by_card(&said, &[]);
            }
            assert_eq!(socket.departure(), Wire::default(), "{told:?}");
            // What comes of a third does not bring it back, and is not waited for.
            assert!(socket.newest_by_card(&first, &[]));
            assert_eq!(socket.departure(), Wire::default(), "{told:?}");
            socket.request.as_mut().unwrap().waiting = false;
            assert!(!socket.awaits());
        }
        // The same one twice is one.
        let mut socket = socket(5, 1);
        socket.cards = true;
        for said in [first, by(3, Some(99), None), by(3, None, Some(8))] {
            socket.newest_by_card(&said, &[]);
        }
        assert_eq!(socket.departure(), first.wire);
    }

    #[test]
    fn without_cards_the_kernel_stamps_a_socket_that_asks_them() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (counter, mut log, ..) = bench();
            let Ok(server) = UdpSocket::bind(address) else { continue };
            let to = server.local_addr().unwrap();
            let mut socket = Socket::open(&to).unwrap();
            assert!(socket.ask_cards());
            socket.send(counter, &mut log, &to, b"question").unwrap();
            assert_eq!(socket.sent().unwrap().0.method, StampMethod::Kernel);
            let (_, from) = server.recv_from(&mut [0; 8]).unwrap();
            server.send_to(b"answer", from).unwrap();
            let received = (0..1000).find_map(|_| {
                std::thread::sleep(std::time::Duration::from_millis(1));
                socket.receive(counter, &mut log, &mut [0; 8]).unwrap()
            });
            let [left, came] = received.unwrap().wires;
            // Loopback is the interface of both.
            assert_eq!((left.interface, left.card_ns), (Some(1), None), "{address}");
            assert_eq!((came.interface, came.card_ns), (Some(1), None), "{address}");
        }
    }

    #[test]
    fn keys_wrap_and_learn() {
        let mut wrapped = socket(0, 0);
        assert_eq!(wrapped.newest_departure(&stamp_of(u32::MAX), &[]), Some(99));
        assert_eq!(wrapped.next_key, 0);
        // Two sends failed: the kernel may have counted none, one or both.
        let mut unsure = socket(5, 2);
        assert_eq!(unsure.newest_departure(&stamp_of(7), &[]), None);
        assert_eq!(unsure.newest_departure(&stamp_of(3), &[]), None);
        assert_eq!(unsure.newest_departure(&stamp_of(5), &[]), Some(99));
        assert_eq!((unsure.next_key, unsure.key_slack), (6, 0));
    }

    #[test]
    fn icmp_and_other_stamps_are_no_departure() {
        let said = stamp_of(4);
        let with = |change: fn(&mut QueuedError)| {
            let mut error = said.error.unwrap();
            change(&mut error);
            Control { error: Some(error), ..said }
        };
        for strange in [
            with(|error| error.origin = Origin::Icmp),
            with(|error| error.origin = Origin::Other),
            with(|error| error.errno = libc::ECONNREFUSED),
            with(|error| error.info = 1), // SCM_TSTAMP_SCHED: entered the queue, not the wire
            Control { stamp: None, ..said },
        ] {
            assert_eq!(socket(5, 0).newest_departure(&strange, SENT), None, "{strange:?}");
        }
    }

    #[test]
    fn without_a_key_the_bytes_tell() {
        let said = Control { stamp: Some(99), ..Control::default() };
        let frame = |bytes: &[u8]| [&[0; 42], bytes].concat();
        assert_eq!(socket(5, 0).newest_departure(&said, &frame(SENT)), Some(99));
        assert_eq!(socket(5, 0).newest_departure(&said, SENT), Some(99));
        for other in [&frame(b"what time was it?"), &frame(SENT)[..57], &SENT[1..], &[]] {
            assert_eq!(socket(5, 0).newest_departure(&said, other), None, "{other:?}");
        }
    }

    #[test]
    fn detail_replaces_a_bare_number_but_not_the_other_way() {
        let mut socket = socket(1, 0);
        let bare = Undelivered { errno: libc::ECONNREFUSED, to: None, by: None };
        let full = Undelivered { by: Some("127.0.0.1".parse().unwrap()), ..bare };
        socket.note(bare);
        socket.note(full);
        socket.note(bare);
        assert_eq!(socket.undelivered, Some(full));
    }
}
