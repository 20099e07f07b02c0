//! The sockets of PTP ports: two of each, for messages that are stamped and for all others (annex C).

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use truechimer_counter::Counter;
use truechimer_engine::{Delay, Event, PtpEvent, SourceId};
use truechimer_stamp::{PairLog, Socket};
use truechimer_time::{CountSpan, Period};

use crate::sys::{POLLIN, POLLNVAL, pollfd};

/// Group of all messages but those of the peer-to-peer delay mechanism, and group of these (table
/// C.1).
const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 1, 129);
const PEERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 107);
const EVENT: u16 = 319;
const GENERAL: u16 = 320;
/// The most datagrams that are read of a socket in one turn: a flood must not hold up the rest.
const PER_TURN: u32 = 64;
/// Room for a message with a few TLVs. The rest of a longer one is cut off, and it is refused.
const BUFFER: usize = 1024;

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
    general: Socket,
    /// Group that questions go to.
    to: Ipv4Addr,
    /// The kernel has yet to say when the newest question left.
    leaving: bool,
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
        delay: Delay,
    ) -> Option<Event> {
        self.close(source);
        match self.open(source, interface, delay) {
            Ok(port) => {
                self.ports.push(port);
                None
            }
            Err(why) => {
                let error = unopened(interface, &why);
                Some(Event::Ptp(PtpEvent::Failed { source, error }))
            }
        }
    }

    fn open(&mut self, source: SourceId, interface: &str, delay: Delay) -> io::Result<Port> {
        let (counter, log) = (self.counter, &mut self.log);
        let mut open =
            |port, stamped| Socket::multicast(interface, (GROUP, port), stamped, counter, log);
        let (event, general) = (open(EVENT, true)?, open(GENERAL, false)?);
        let mut to = GROUP;
        if delay == Delay::P2p {
            to = PEERS;
            event.join(interface, PEERS)?;
            general.join(interface, PEERS)?;
        }
        Ok(Port { source, event, general, to, leaving: false })
    }

    /// Sends a question, and says when it left as soon as that is known.
    pub(crate) fn ask(&mut self, source: SourceId, packet: &[u8]) -> Option<Event> {
        let port = self.ports.iter_mut().find(|port| port.source == source)?;
        let to = SocketAddr::from((port.to, EVENT));
        if let Err(why) = port.event.send(self.counter, &mut self.log, &to, packet) {
            return Some(Event::Undelivered { source, error: why.to_string() });
        }
        port.leaving = true;
        port.left(false)
    }

    /// Closes the sockets of a source.
    pub(crate) fn close(&mut self, source: SourceId) {
        self.ports.retain(|port| port.source != source);
    }

    /// Forgets how counts and the kernel's stamps went together: the counter lost its continuity.
    pub(crate) fn forget(&mut self) {
        self.log.clear();
        for port in &mut self.ports {
            port.leaving = false;
        }
    }

    /// Adds what to wait for.
    pub(crate) fn interests(&self, fds: &mut Vec<pollfd>) {
        let sockets = self.ports.iter().flat_map(|port| [port.event.fd(), port.general.fd()]);
        fds.extend(sockets.map(|fd| pollfd { fd, events: POLLIN, revents: 0 }));
    }

    /// Reads what has come to the sockets that poll(2) reported.
    pub(crate) fn receive(&mut self, fds: &[pollfd]) -> Vec<Event> {
        let mut events = Vec::new();
        let (counter, log) = (self.counter, &mut self.log);
        let reported =
            |socket: &Socket| fds.iter().find(|fd| fd.fd == socket.fd()).map_or(0, |fd| fd.revents);
        self.ports.retain_mut(|port| {
            let (event, general) = (reported(&port.event), reported(&port.general));
            if event & !POLLIN != 0 {
                let _ = port.event.on_error_queue(counter, log);
            }
            if event | general != 0 {
                events.extend(port.left(true));
            }
            if event & POLLIN != 0 {
                read(&mut port.event, (port.source, true), counter, log, &mut events);
            }
            if general & POLLIN != 0 {
                read(&mut port.general, (port.source, false), counter, log, &mut events);
            }
            // No descriptor at all: nothing more can come of it.
            (event | general) & POLLNVAL == 0
        });
        events
    }
}

impl Port {
    /// When the newest question left, once: if the kernel has said so, or `now` in any case.
    fn left(&mut self, now: bool) -> Option<Event> {
        let (sent, waiting) = self.event.sent().filter(|_| self.leaving)?;
        if waiting && !now {
            return None;
        }
        self.leaving = false;
        Some(Event::Ptp(PtpEvent::Sent { source: self.source, sent }))
    }
}

/// Reads what a socket has, within reason; `stamped`: with when it came.
fn read(
    socket: &mut Socket,
    (source, stamped): (SourceId, bool),
    counter: Counter,
    log: &mut PairLog,
    events: &mut Vec<Event>,
) {
    let mut buffer = [0; BUFFER];
    for _ in 0..PER_TURN {
        // Until there is no more: that nothing had come by now bounds the next stamp.
        let Ok(Some(got)) = socket.receive(counter, log, &mut buffer) else { return };
        events.push(Event::Ptp(PtpEvent::Message {
            source,
            from: got.from.ip(),
            received: stamped.then_some(got.received),
            packet: buffer.get(..got.len).unwrap_or(&buffer).to_vec(),
        }));
    }
}

/// Reason why a port cannot be had, and what to do about it.
fn unopened(interface: &str, why: &io::Error) -> String {
    match why.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO) => {
            format!("there is no network interface {interface} (see 'ip link')")
        }
        Some(libc::EACCES | libc::EPERM) => format!(
            "the UDP ports {EVENT} and {GENERAL} of PTP take a capability: add \
             AmbientCapabilities=CAP_NET_BIND_SERVICE to the unit, or run 'setcap \
             cap_net_bind_service+ep' on the program"
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
    use truechimer_counter::Choice;

    #[test]
    fn an_interface_that_is_not_there_is_told() {
        let counter = Counter::open(Choice::Raw).unwrap();
        let mut ports = PtpPorts::new(counter, Period::NANOSECOND, CountSpan(1));
        let Some(Event::Ptp(PtpEvent::Failed { source, error })) =
            ports.listen(SourceId(4), "no-such-if", Delay::E2e)
        else {
            panic!("opened");
        };
        assert_eq!(source, SourceId(4));
        assert!(error.contains("no network interface no-such-if"), "{error}");
        assert_eq!(ports.ask(SourceId(4), b"x"), None);
        let mut fds = Vec::new();
        ports.interests(&mut fds);
        assert!(fds.is_empty());
    }

    #[test]
    fn every_reason_has_a_mend() {
        let of = |errno| unopened("eth0", &io::Error::from_raw_os_error(errno));
        assert!(of(libc::EACCES).contains("CAP_NET_BIND_SERVICE"));
        assert!(of(libc::EADDRINUSE).contains("ss -ulpn"));
        assert!(of(libc::ENETDOWN).contains("eth0"));
    }
}
