//! The packets: one after the other at a fixed gap.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use super::probe::MARK;
use crate::bench::capture::bed::NOBODY;
use truechimer_outcome::outcome::Failure;

/// Ethernet, IPv4 and UDP.
const HEADERS: usize = 42;
/// Sleep ends so much early, and the rest is waited for awake.
const AWAKE: Duration = Duration::from_micros(150);

/// Packets of one size at one gap.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pattern {
    /// Name of the pattern.
    pub name: &'static str,
    /// Bytes of the Ethernet frame, without the frame check sequence.
    pub size: usize,
    /// From packet to packet.
    pub gap: Duration,
    /// Packets of a kind that follow each other before the next kind has its turn.
    pub block: usize,
    /// Number of turns of each kind in a full measurement.
    pub rounds: usize,
    /// And in a quick one.
    pub quick: usize,
}

/// A packet of 1368 bytes, and 169 631 byte times of gigabit Ethernet (8 ns each) to the next.
const GAP: Duration = Duration::from_nanos((169_631 + 1368) * 8);

/// Those of the paper.
pub const PATTERNS: [Pattern; 2] = [
    Pattern {
        name: "140 bytes every 20 ms",
        size: 140,
        gap: Duration::from_millis(20),
        block: 20,
        rounds: 20,
        quick: 2,
    },
    Pattern {
        name: "1368 bytes every 1.37 ms",
        size: 1368,
        gap: GAP,
        block: 100,
        rounds: 40,
        quick: 4,
    },
];

impl Pattern {
    /// The length that IP states.
    #[must_use]
    pub fn ip_length(&self) -> u32 {
        (self.size - 14) as u32
    }
}

/// Sends them from the namespace that the thread is in.
#[derive(Debug)]
pub struct Sender {
    socket: UdpSocket,
    pattern: Pattern,
    bytes: Vec<u8>,
    next: Instant,
    number: u32,
}

impl Sender {
    /// Ready to send.
    ///
    /// # Errors
    /// Where there is no way to the destination.
    pub fn new(pattern: Pattern) -> Result<Sender, Failure> {
        let failed = |error| Failure::of("sending", error);
        let socket = UdpSocket::bind("0.0.0.0:0").map_err(failed)?;
        socket.connect((NOBODY, 9)).map_err(failed)?;
        let mut bytes = vec![0; pattern.size - HEADERS];
        bytes.iter_mut().zip(MARK.to_ne_bytes()).for_each(|(to, from)| *to = from);
        Ok(Sender { socket, pattern, bytes, next: Instant::now(), number: 0 })
    }

    /// Sends `packets`; returns the number of the first.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn send(&mut self, packets: usize) -> Result<u32, Failure> {
        let first = self.number;
        // Late ones are not made up for: the gap never gets shorter.
        self.next = self.next.max(Instant::now());
        for _ in 0..packets {
            if let Some(rest) = self.next.checked_duration_since(Instant::now() + AWAKE) {
                std::thread::sleep(rest);
            }
            while Instant::now() < self.next {
                std::hint::spin_loop();
            }
            let number = self.number.to_ne_bytes();
            self.bytes.iter_mut().skip(4).zip(number).for_each(|(to, from)| *to = from);
            let sent = self.socket.send(&self.bytes);
            sent.map_err(|error| Failure::of("sending", error))?;
            self.number = self.number.wrapping_add(1);
            self.next = (self.next + self.pattern.gap).max(Instant::now());
        }
        Ok(first)
    }
}
