//! Stamps that an interface can take, measured: those of one packet against each other.
//!
//! Frames are sent, or are seen, and every stamp that the kernel and the card have for each is asked
//! for: as a frame enters the queue, as the driver hands it on, as the card sends it, as the card
//! and the kernel receive it; the program's own readings of the system clock stand around them.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use truechimer_stamp::interface;

use crate::choose::sought;
use crate::hardware::{self, Claims, claims};
use crate::tap::TapError;

mod socket;

use socket::{Place, Socket};

/// EtherType for experiments on one's own link (IEEE 802, 9.2.4).
const EXPERIMENT: u16 = 0x88b5;
/// Group address of the nearest bridge, which no bridge passes on (IEEE 802.1Q, table 8-1).
const NEAREST: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0x0e];
/// Least bytes of a frame without its check sequence.
const LENGTH: usize = 60;
/// Longest wait for stamps of the last frame.
const LATE: Duration = Duration::from_millis(200);
/// Frames that are looked at, either way; what comes after is not.
const MOST: usize = 1 << 20;
/// Messages that are taken before time and the user's wish are looked at again.
const TURN: usize = 128;
/// Longest wait until then.
const WAIT: Duration = Duration::from_millis(50);

/// Plan of a measurement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Interface.
    pub interface: String,
    /// Length of the check.
    pub duration: Duration,
    /// A frame is sent this often; `None`: only what others send is looked at.
    pub every: Option<Duration>,
}

/// A frame that was sent: ns since 1970, by the system clock unless said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sent {
    /// Program's reading before it.
    pub before: i64,
    /// Program's reading after it.
    pub after: i64,
    /// Entry into the interface's queue.
    pub queue: Option<i64>,
    /// Handing over to the card by the driver.
    pub driver: Option<i64>,
    /// By the card's clock.
    pub card: Option<i64>,
}

/// A frame that arrived: ns since 1970, by the system clock unless said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arrived {
    /// By the card's clock.
    pub card: Option<i64>,
    /// Receipt by the kernel.
    pub kernel: Option<i64>,
    /// Program's reading once it had it.
    pub program: i64,
}

/// Outcome of a measurement.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Measured {
    /// Stamps that the driver claims to take.
    pub claims: Claims,
    /// Frames that were sent, in order.
    pub sent: Vec<Sent>,
    /// Frames that arrived, in order.
    pub arrived: Vec<Arrived>,
    /// Notes, for people.
    pub notes: Vec<String>,
}

/// Measures. The card is asked to stamp all that it receives, if it claims to; its setting is put
/// back in the end.
///
/// # Errors
/// If the interface is not there, or the system refuses.
pub fn measure(plan: &Plan, stop: &AtomicBool) -> Result<Measured, TapError> {
    let failed = |doing: &str, why: io::Error| TapError {
        doing: format!("{doing} on {}", plan.interface),
        mend: (why.kind() == io::ErrorKind::PermissionDenied)
            .then(|| "run as root or with CAP_NET_RAW: 'truechimer capture --help'".to_owned()),
        why: why.to_string(),
    };
    let link = sought(&plan.interface)?;
    let mut measured = Measured::default();
    match claims(&plan.interface) {
        Ok(claims) => measured.claims = claims,
        Err(why) => measured.notes.push(format!("its driver does not say what it can: {why}")),
    }
    let is_ethernet = matches!(link.hardware, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK);
    let every = plan.every.filter(|_| is_ethernet);
    if every.is_none() && plan.every.is_some() {
        measured.notes.push("no Ethernet: nothing is sent, only what arrives is looked at".into());
    }
    let card = measured.claims.card_in_all.then(|| hardware::enable(&plan.interface));
    if let Some(Err(why)) = &card {
        measured.notes.push(format!("the card is not asked for stamps: {why}"));
    }
    let socket = Socket::open(link.index).map_err(|why| failed("opening a packet socket", why))?;
    let address = interface::address(socket.as_fd(), &plan.interface);
    let address = address.map_err(|why| failed("asking for its address", why))?;
    let numbers = Vec::new();
    let run = Run { socket, every, address, numbers, refused: 0, measured };
    run.go(plan.duration, stop).map_err(|why| failed("stamping", why))
}

/// A measurement under way.
struct Run {
    socket: Socket,
    every: Option<Duration>,
    address: [u8; 6],
    /// Indices in `measured.sent` by the kernel's numbers of frames.
    numbers: Vec<Option<usize>>,
    /// Frames for which a queue had no room.
    refused: u64,
    measured: Measured,
}

impl Run {
    fn go(mut self, duration: Duration, stop: &AtomicBool) -> io::Result<Measured> {
        let begun = Instant::now();
        let mut next = begun;
        loop {
            let now = Instant::now();
            let over = now.duration_since(begun);
            if over >= duration + LATE || stop.load(Ordering::Relaxed) {
                break;
            }
            let until = match self.every.filter(|_| over < duration) {
                Some(every) if now >= next => {
                    self.send()?;
                    next = (next + every).max(now);
                    next
                }
                Some(_) => next,
                None => now + WAIT,
            };
            self.drain()?;
            self.wait(until.saturating_duration_since(Instant::now()).min(WAIT))?;
        }
        self.drain()?;
        self.note();
        Ok(self.measured)
    }

    /// Notes what was left out.
    fn note(&mut self) {
        let Run { refused, numbers, measured, .. } = self;
        if *refused > 0 {
            let text = "frames were not sent, as a queue was full: send fewer, see --interval";
            measured.notes.push(format!("{refused} {text}"));
        }
        if numbers.len() >= MOST || measured.arrived.len() >= MOST {
            measured.notes.push(format!("only the first {MOST} frames either way were looked at"));
        }
    }

    fn send(&mut self) -> io::Result<()> {
        if self.numbers.len() >= MOST {
            return Ok(());
        }
        let mut frame = [0; LENGTH];
        let number = self.measured.sent.len() as u32;
        let parts = NEAREST.iter().chain(&self.address).copied().chain(EXPERIMENT.to_be_bytes());
        let parts = parts.chain(*b"truechimer check ").chain(number.to_be_bytes());
        frame.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
        let before = now();
        match self.socket.send(&frame).map_err(|why| (why.raw_os_error(), why)) {
            Ok(()) => {
                self.numbers.push(Some(self.measured.sent.len()));
                self.measured.sent.push(Sent { before, after: now(), ..Sent::default() });
            }
            Err((Some(libc::EAGAIN), _)) => self.refused += 1,
            // The interface's queue dropped it; the kernel has numbered it before.
            Err((Some(libc::ENOBUFS), _)) => {
                self.refused += 1;
                self.numbers.push(None);
            }
            Err((_, why)) => return Err(why),
        }
        Ok(())
    }

    /// True while frames that arrive are still looked at.
    fn looks(&self) -> bool {
        self.measured.arrived.len() < MOST
    }

    /// Takes what there is, as far as one turn goes.
    fn drain(&mut self) -> io::Result<()> {
        for _ in 0..TURN {
            let Some(stamps) = self.socket.reported()? else { break };
            for stamp in stamps {
                let index = self.numbers.get(stamp.number as usize).copied().flatten();
                let sent = index.and_then(|index| self.measured.sent.get_mut(index));
                let Some(sent) = sent else { continue };
                let field = match stamp.by {
                    Place::Queue => &mut sent.queue,
                    Place::Driver => &mut sent.driver,
                    Place::Card => &mut sent.card,
                };
                *field = Some(stamp.unix_ns);
            }
        }
        for _ in 0..TURN {
            if !self.looks() {
                break;
            }
            let Some(socket::Received { kernel, card }) = self.socket.arrived()? else { break };
            self.measured.arrived.push(Arrived { card, kernel, program: now() });
        }
        Ok(())
    }

    fn wait(&self, at_most: Duration) -> io::Result<()> {
        // Reports make it ready whatever is asked for.
        let wanted = if self.looks() { PollFlags::IN } else { PollFlags::empty() };
        let mut ready = [PollFd::from_borrowed_fd(self.socket.as_fd(), wanted)];
        let at_most = Timespec::try_from(at_most).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
        match poll(&mut ready, Some(&at_most)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(why) => Err(why.into()),
        }
    }
}

/// System clock, ns since 1970.
fn now() -> i64 {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    /// A run on a socket of loopback that so many datagrams wait at.
    fn run(waiting: usize) -> Run {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let address = socket.local_addr().unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..waiting {
            sender.send_to(b"x", address).unwrap();
        }
        let (numbers, measured) = (Vec::new(), Measured::default());
        Run {
            socket: Socket(socket.into()),
            every: None,
            address: [0; 6],
            numbers,
            refused: 0,
            measured,
        }
    }

    #[test]
    fn a_turn_has_an_end_however_much_waits() {
        // What waits fits into a receive buffer of Debian's.
        let mut run = run(TURN + 20);
        run.drain().unwrap();
        assert_eq!(run.measured.arrived.len(), TURN);
        run.drain().unwrap();
        assert_eq!(run.measured.arrived.len(), TURN + 20);
    }

    #[test]
    fn what_is_past_the_most_is_left_and_noted() {
        let mut run = run(5);
        run.measured.arrived = vec![Arrived::default(); MOST];
        run.drain().unwrap();
        assert_eq!(run.measured.arrived.len(), MOST);
        // Whatever waits there does not keep the processor busy.
        let begun = Instant::now();
        run.wait(Duration::from_millis(20)).unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(20));
        run.note();
        assert!(run.measured.notes.concat().contains("only the first 1048576"));
    }

    #[test]
    fn it_ends_at_once_when_it_is_told_to() {
        let begun = Instant::now();
        let measured = run(TURN * 2 / 3).go(Duration::from_secs(600), &AtomicBool::new(true));
        assert_eq!(measured.unwrap().arrived.len(), TURN * 2 / 3);
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}
