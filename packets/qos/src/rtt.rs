//! Round trips, seen from one point: the time from a packet that asks for an answer to that answer.

use std::collections::VecDeque;

use crate::bins::value;
use crate::path::Bounds;
use crate::{At, Bins, Counted, DifferenceClock, Distribution, Measured, Tcp};

/// Segments, and timestamps, that are timed at once in one direction of a connection.
const TIMED: usize = 64;

/// Kind of packet that was answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// SYN by SYN and ACK, or SYN and ACK by ACK.
    TcpHandshake,
    /// Data by the acknowledgement of its last byte, never of a segment that was sent again
    /// (RFC 6298 section 3). The receiver may delay it.
    TcpAck,
    /// A value of the timestamps option by its echo (RFC 7323 section 4).
    TcpTimestamp,
    /// An ICMP echo request.
    Echo,
    /// A DNS query.
    Dns,
    /// An NTP request: its transmit timestamp comes back as the answer's origin timestamp
    /// (RFC 5905).
    Ntp,
    /// A numbered packet by one with the same number that went back.
    Number,
    /// The first packet of a UDP conversation, if it was the only one until the first came back.
    /// Nothing but that says that the one answers the other.
    FirstAnswer,
}

impl Kind {
    /// For people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::TcpHandshake => "TCP handshake",
            Kind::TcpAck => "TCP data to ACK",
            Kind::TcpTimestamp => "TCP timestamp",
            Kind::Echo => "ICMP echo",
            Kind::Dns => "DNS",
            Kind::Ntp => "NTP",
            Kind::Number => "number",
            Kind::FirstAnswer => "UDP, first answer",
        }
    }
}

/// When a packet passed one point, by time and by count.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Stamp {
    pub(crate) at: At,
    pub(crate) counted: Option<Counted>,
}

impl Stamp {
    /// From `earlier` to this: by the difference clock if there is one, whose error is far below
    /// that of the difference of two times.
    pub(crate) fn since(
        &self,
        earlier: &Stamp,
        clock: Option<&DifferenceClock>,
    ) -> (Measured, bool) {
        let counted = clock
            .zip(self.counted.zip(earlier.counted))
            .and_then(|(clock, (to, from))| clock.span(&from, &to));
        match counted {
            Some(span) => (span, true),
            None => (self.at.since(&earlier.at), false),
        }
    }
}

/// Round-trip times of one kind.
#[derive(Clone, PartialEq, Debug)]
pub struct Rtt {
    /// ns.
    pub times: Distribution,
    /// Their bounds.
    pub bounds: Bounds,
    /// Number measured by the counter (the difference clock), and not by two times of day.
    pub by_counter: u64,
    /// Over time.
    pub bins: Bins,
}

impl Rtt {
    pub(crate) fn new(bin_ns: i64) -> Rtt {
        Rtt {
            times: Distribution::default(),
            bounds: Bounds::default(),
            by_counter: 0,
            bins: Bins::new(bin_ns),
        }
    }

    pub(crate) fn add(&mut self, asked: &Stamp, answered: &Stamp, clock: Option<&DifferenceClock>) {
        let (took, by_counter) = answered.since(asked, clock);
        self.times.add(took.ns);
        self.bounds.add(took.bound_ns);
        self.by_counter += u64::from(by_counter);
        self.bins.add(asked.at.unix_ns, &value(took.ns, took.bound_ns));
    }
}

/// One direction of a TCP connection at one point.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct TcpSide {
    highest: Option<u32>,
    timed: VecDeque<(u32, bool, Stamp)>,
    values: VecDeque<(u32, Stamp)>,
    newest_value: Option<u32>,
    /// Segments with data (or SYN, or FIN) sent again.
    pub(crate) retransmitted: u64,
    /// Segments with data that were not timed because enough others were.
    pub(crate) untimed: u64,
}

/// True if `a` is after `b` on the circle (RFC 7323 section 5.2).
fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

impl TcpSide {
    /// A segment goes out in this direction.
    pub(crate) fn sent(&mut self, tcp: &Tcp, stamp: Stamp) {
        if tcp.rst {
            *self = TcpSide {
                retransmitted: self.retransmitted,
                untimed: self.untimed,
                ..TcpSide::default()
            };
            return;
        }
        let takes =
            tcp.data_length.wrapping_add(u32::from(tcp.syn)).wrapping_add(u32::from(tcp.fin));
        if takes == 0 {
            return;
        }
        // A new connection between the same ports.
        if tcp.syn && self.highest.is_some_and(|highest| highest.wrapping_sub(tcp.sequence) != 1) {
            let retransmitted = self.retransmitted;
            *self = TcpSide { retransmitted, untimed: self.untimed, ..TcpSide::default() };
        }
        let end = tcp.sequence.wrapping_add(takes);
        if self.highest.is_some_and(|highest| !after(end, highest)) {
            // Karn: of a segment sent twice nobody knows which one is acknowledged. A keep-alive
            // probe looks the same.
            self.retransmitted += 1;
            self.timed.retain(|(timed, _, _)| !after(*timed, tcp.sequence));
            return;
        }
        self.highest = Some(end);
        if self.timed.len() < TIMED {
            self.timed.push_back((end, tcp.syn, stamp));
        } else {
            self.untimed += 1;
        }
        if let Some((now, _)) = tcp.timestamps
            && self.newest_value.is_none_or(|newest| after(now, newest))
        {
            self.newest_value = Some(now);
            if self.values.len() < TIMED {
                self.values.push_back((now, stamp));
            }
        }
    }

    /// A segment comes back: what it answers.
    pub(crate) fn answered(&mut self, tcp: &Tcp) -> Answered {
        let mut answered = Answered::default();
        if !tcp.ack {
            return answered;
        }
        while let Some(&(end, syn, stamp)) = self.timed.front()
            && !after(end, tcp.acknowledgement)
        {
            answered.acknowledged = Some((syn, stamp));
            self.timed.pop_front();
        }
        if let Some((_, echo)) = tcp.timestamps {
            while let Some(&(value, stamp)) = self.values.front()
                && !after(value, echo)
            {
                answered.echoed = (value == echo).then_some(stamp);
                self.values.pop_front();
            }
        }
        answered
    }
}

/// Segments that a segment answers: the last that it does, where it answers several.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Answered {
    /// A segment: whether it was SYN, and when it passed.
    pub(crate) acknowledged: Option<(bool, Stamp)>,
    /// When a timestamp first passed.
    pub(crate) echoed: Option<Stamp>,
}

/// A query and an answer of DNS, by the header alone (RFC 1035 section 4.1.1): the identifier and
/// whether it is an answer.
pub(crate) fn dns(ports: (u16, u16), payload: &[u8]) -> Option<(u16, bool)> {
    if ports.0 != 53 && ports.1 != 53 {
        return None;
    }
    let (&[high, low, flags, ..], _) = payload.split_first_chunk::<12>()?;
    Some((u16::from_be_bytes([high, low]), flags & 0x80 != 0))
}

/// Question or answer of a packet of NTP: the timestamp that comes back, and whether it has. Modes
/// other than client and server have no answers of this kind, interleaved ones another timestamp.
pub(crate) fn ntp(ports: (u16, u16), payload: &[u8]) -> Option<(u64, bool)> {
    if ports.0 != 123 && ports.1 != 123 {
        return None;
    }
    let header = payload.first_chunk::<48>()?;
    let stamp = |at: usize| Some(u64::from_be_bytes(*header.get(at..)?.first_chunk()?));
    let (stamp, answer) = match header.first()? & 7 {
        3 => (stamp(40)?, false),
        4 => (stamp(24)?, true),
        _ => return None,
    };
    (stamp != 0).then_some((stamp, answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(ns: i64) -> Stamp {
        Stamp { at: At::exact(ns, None), counted: None }
    }

    fn segment(sequence: u32, data_length: u32, acknowledgement: u32) -> Tcp {
        Tcp {
            source: 1,
            destination: 2,
            sequence,
            acknowledgement,
            syn: false,
            ack: true,
            fin: false,
            rst: false,
            timestamps: None,
            data_length,
        }
    }

    fn acknowledged(side: &mut TcpSide, number: u32) -> Option<i64> {
        let answered = side.answered(&segment(0, 0, number));
        answered.acknowledged.map(|(_, stamp)| stamp.at.unix_ns)
    }

    #[test]
    fn the_last_segment_acknowledged_counts() {
        let mut side = TcpSide::default();
        let start = u32::MAX - 50;
        for n in 0..3u32 {
            side.sent(&segment(start.wrapping_add(n * 100), 100, 0), stamp(n.into()));
        }
        assert_eq!(acknowledged(&mut side, start), None);
        assert_eq!(acknowledged(&mut side, start.wrapping_add(200)), Some(1));
        assert_eq!(acknowledged(&mut side, start.wrapping_add(200)), None);
        assert_eq!(acknowledged(&mut side, start.wrapping_add(300)), Some(2));
    }

    #[test]
    fn a_segment_sent_again_is_not_timed() {
        let mut side = TcpSide::default();
        side.sent(&segment(100, 100, 0), stamp(1));
        side.sent(&segment(200, 100, 0), stamp(2));
        side.sent(&segment(200, 100, 0), stamp(3));
        assert_eq!(side.retransmitted, 1);
        assert_eq!(acknowledged(&mut side, 300), Some(1), "the first part was sent once");
        side.sent(&segment(300, 10, 0), stamp(9));
        side.sent(&segment(300, 10, 0), stamp(10));
        assert_eq!(acknowledged(&mut side, 310), None);
    }

    #[test]
    fn timestamps_are_timed_when_first_seen() {
        let mut side = TcpSide::default();
        for (n, value) in [7, 7, 8].into_iter().enumerate() {
            let mut sent = segment(100 * n as u32, 100, 0);
            sent.timestamps = Some((value, 0));
            side.sent(&sent, stamp(n as i64));
        }
        let echo = |side: &mut TcpSide, value| {
            let mut answer = segment(0, 0, 0);
            answer.timestamps = Some((0, value));
            side.answered(&answer).echoed.map(|stamp| stamp.at.unix_ns)
        };
        assert_eq!(echo(&mut side, 7), Some(0));
        assert_eq!(echo(&mut side, 7), None);
        assert_eq!(echo(&mut side, 8), Some(2));
    }

    #[test]
    fn memory_is_bounded() {
        let mut side = TcpSide::default();
        for n in 0..1000u32 {
            let mut sent = segment(100 * n, 100, 0);
            sent.timestamps = Some((n + 1, 0));
            side.sent(&sent, stamp(0));
        }
        assert_eq!((side.timed.len(), side.values.len()), (TIMED, TIMED));
        assert_eq!(side.untimed, 1000 - TIMED as u64);
    }

    #[test]
    fn ntp_by_its_timestamps() {
        let mut packet = [0; 48];
        (packet[0], packet[31], packet[47]) = (0x23, 7, 9);
        assert_eq!(ntp((40_000, 123), &packet), Some((9, false)));
        packet[0] = 0x24;
        assert_eq!(ntp((123, 40_000), &packet), Some((7, true)));
        packet[0] = 0x25;
        assert_eq!(ntp((123, 40_000), &packet), None);
        assert_eq!(ntp((124, 40_000), &packet), None);
        assert_eq!(ntp((123, 40_000), &packet[..47]), None);
    }

    #[test]
    fn dns_by_its_header() {
        let query = [0xab, 0xcd, 0x01, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        assert_eq!(dns((40_000, 53), &query), Some((0xabcd, false)));
        assert_eq!(dns((40_000, 5353), &query), None);
        assert_eq!(dns((53, 40_000), &query[..11]), None);
    }
}
