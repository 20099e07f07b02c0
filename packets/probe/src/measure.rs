//! The sender with its socket.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use truechimer_keys::Key;
use truechimer_stamp::{Socket, readable};
use truechimer_time::StampMethod;

use crate::keeper::Keeper;
use crate::session::{Departure, Session};

/// Largest number of bytes of a datagram.
const ROOM: usize = 1 << 16;
/// Longest wait at a time, so that it can be told to end.
const PATIENCE: Duration = Duration::from_millis(100);
/// Datagrams taken before it is looked whether the next packet is due.
const TURN: usize = 64;
/// Packets sent at the end, at most, to learn on which way packets were lost.
const CLOSING: u32 = 5;

/// Plan of a session.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The reflector.
    pub to: SocketAddr,
    /// Packets to send.
    pub count: u32,
    /// From one to the next.
    pub interval: Duration,
    /// Wait for an answer after the last.
    pub wait: Duration,
    /// Bytes of a packet.
    pub size: usize,
    /// Differentiated services code point of what is sent.
    pub code_point: u8,
    /// The key that both ends have.
    pub key: Option<Key>,
    /// Identifier of the session.
    pub identifier: u16,
}

/// A session as it runs.
pub struct Measurement {
    socket: Socket,
    keeper: Keeper,
    plan: Plan,
    session: Session,
    /// Reason why the system did not take the newest packet of those that it did not take.
    unsent: Option<io::Error>,
    /// The newest packet's departure may yet be known better.
    waits: bool,
    closing: u64,
    bytes: Vec<u8>,
    /// The counter that the socket stamps by.
    generation: u32,
}

impl Measurement {
    /// Opens the socket.
    ///
    /// # Errors
    /// If there is none to be had, or it cannot be marked.
    pub fn new(plan: Plan, mut keeper: Keeper) -> io::Result<Measurement> {
        let (counter, log) = keeper.parts();
        let socket = Socket::open_ahead(&plan.to, counter, log)?;
        if plan.code_point > 0 {
            socket.mark(plan.code_point)?;
        }
        let session = Session::new(plan.key.clone(), plan.size, plan.identifier);
        let (waits, closing, bytes) = (false, 0, vec![0; ROOM]);
        let generation = keeper.generation();
        let unsent = None;
        Ok(Measurement { socket, keeper, plan, session, unsent, waits, closing, bytes, generation })
    }

    /// Account of what was sent, and of what came back.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Packets of it that were sent at the end to learn of losses.
    #[must_use]
    pub fn closing(&self) -> u64 {
        self.closing
    }

    /// Reason why the system did not take the newest of the packets that it did not take ([`Session::unsent`]).
    #[must_use]
    pub fn unsent(&self) -> Option<&io::Error> {
        self.unsent.as_ref()
    }

    /// Sends all packets, and waits for answers; ends early if told to. Where an answer is missing in the end, a number
    /// is left out and a few packets more are sent: by the number that the reflector gives to one of them it is known
    /// how many it has answered before.
    ///
    /// # Errors
    /// Error of the system that does not pass, of sending or waiting. What was measured until then stays.
    pub fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut due = Instant::now();
        for _ in 0..self.plan.count {
            self.listen(due, stop, |_| false)?;
            if stop.load(Ordering::Relaxed) {
                break;
            }
            self.send()?;
            // After a hold-up the rate is what it was: packets that are late are not made up for.
            due = (due + self.plan.interval).max(Instant::now());
        }
        let all = |session: &Session| session.answered() == session.probes().len();
        self.listen(Instant::now() + self.plan.wait, stop, all)?;
        let some = self.session.answered() > 0;
        if some && !all(&self.session) && !stop.load(Ordering::Relaxed) {
            self.close(stop)?;
        }
        Ok(())
    }

    fn close(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let first = self.session.probes().len();
        let answered = move |session: &Session| {
            session.probes().iter().skip(first).any(|probe| !probe.echoes.is_empty())
        };
        self.session.skip();
        for _ in 0..CLOSING {
            if stop.load(Ordering::Relaxed) || answered(&self.session) {
                break;
            }
            self.send()?;
            self.closing += 1;
            self.listen(Instant::now() + self.plan.wait, stop, answered)?;
        }
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        let at = self.keeper.now();
        let request = self.session.ask(&at);
        self.waits = false;
        self.recount();
        let (counter, log) = self.keeper.parts();
        match self.socket.send(counter, log, &self.plan.to, &request) {
            Ok(()) => self.waits = true,
            Err(why) => {
                self.session.not_left();
                if !fleeting(&why) {
                    return Err(why);
                }
                self.unsent = Some(why);
            }
        }
        self.departed();
        Ok(())
    }

    /// Takes over what is known of the newest packet's departure.
    fn departed(&mut self) {
        if let (true, Some((stamp, waiting))) = (self.waits, self.socket.sent()) {
            let at = self.keeper.of(&stamp);
            let departure = match stamp.method {
                StampMethod::User => Departure::Call,
                _ => Departure::Kernel,
            };
            self.session.left(at, departure);
            self.waits = waiting;
        }
    }

    /// Takes what arrives until then, or until `enough`.
    fn listen(
        &mut self,
        until: Instant,
        stop: &AtomicBool,
        enough: impl Fn(&Session) -> bool,
    ) -> io::Result<()> {
        while !stop.load(Ordering::Relaxed) && !enough(&self.session) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            if readable(&self.socket, left.min(PATIENCE))? {
                let took = (0..TURN).take_while(|_| self.take()).count();
                if took == 0 {
                    let (counter, log) = self.keeper.parts();
                    let _ = self.socket.on_error_queue(counter, log);
                    self.departed();
                }
            }
        }
        Ok(())
    }

    /// Tells the socket if the counter is another one.
    fn recount(&mut self) {
        if self.generation != self.keeper.generation() {
            self.generation = self.keeper.generation();
            let (counter, log) = self.keeper.parts();
            self.socket.recount(counter, log);
            self.waits = false;
        }
    }

    /// Takes one datagram, and tells whether there was one.
    fn take(&mut self) -> bool {
        self.recount();
        let (counter, log) = self.keeper.parts();
        let received = self.socket.receive(counter, log, &mut self.bytes);
        self.departed();
        // What the network says of packets that were not delivered shows in the losses.
        let Ok(Some(received)) = received else { return false };
        if received.from == self.plan.to {
            let arrived = self.keeper.of(&received.received);
            let difference = self.keeper.difference();
            let bytes = self.bytes.get(..received.len).unwrap_or_default();
            // Others are counted by the session.
            let _ = self.session.accept(bytes, &arrived, difference.as_ref());
        } else {
            self.session.foreign();
        }
        true
    }
}

/// Tells whether an error of sending passes: a full queue, a link or route or host that was not there a moment ago, a
/// firewall that is being loaded. The packet is lost, the next may leave.
fn fleeting(why: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(why),
        Some(
            Errno::AGAIN
                | Errno::INTR
                | Errno::NOBUFS
                | Errno::NOMEM
                | Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::CONNREFUSED
                | Errno::PERM
        )
    )
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::Refused;

    #[test]
    fn what_passes_ends_no_session() {
        let of = |errno: Errno| fleeting(&errno.into());
        for errno in [
            Errno::AGAIN,
            Errno::NOBUFS,
            Errno::NETDOWN,
            Errno::NETUNREACH,
            Errno::HOSTUNREACH,
            Errno::CONNREFUSED,
            Errno::PERM,
        ] {
            assert!(of(errno), "{errno}");
        }
        for errno in [Errno::MSGSIZE, Errno::BADF, Errno::ACCESS, Errno::INVAL, Errno::AFNOSUPPORT]
        {
            assert!(!of(errno), "{errno}");
        }
    }

    fn measurement(to: SocketAddr) -> Measurement {
        let plan = Plan {
            to,
            count: 2,
            interval: Duration::from_millis(1),
            wait: Duration::from_millis(1),
            size: 44,
            code_point: 0,
            key: None,
            identifier: 7,
        };
        Measurement::new(plan, Keeper::new(None).unwrap()).unwrap()
    }

    #[test]
    fn what_was_measured_stays_when_an_error_ends_it() {
        let reflector = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut measurement = measurement(reflector.local_addr().unwrap());
        measurement.run(&AtomicBool::new(false)).unwrap();
        // A broadcast, which a socket may not send unless it is allowed to (EACCES).
        measurement.plan.to = "127.255.255.255:862".parse().unwrap();
        let why = measurement.run(&AtomicBool::new(false)).unwrap_err();
        assert_eq!(Errno::from_io_error(&why), Some(Errno::ACCESS));
        assert_eq!((measurement.session().probes().len(), measurement.session().unsent()), (2, 1));
    }

    #[test]
    fn a_reply_from_another_address_is_foreign() {
        let socket = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (reflector, other) = (socket(), socket());
        let mut measurement = measurement(reflector.local_addr().unwrap());
        measurement.send().unwrap();
        let port = measurement.socket.local_address().unwrap().port();
        other.send_to(b"of somebody else", ("127.0.0.1", port)).unwrap();
        assert!(readable(&measurement.socket, Duration::from_secs(10)).unwrap());
        // The stamp of the departure may be what is readable.
        for _ in 0..1000 {
            let _ = measurement.take();
        }
        assert_eq!(measurement.session().refused()[&Refused::Foreign], 1);
    }
}
