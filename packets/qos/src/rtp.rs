//! RTP (RFC 3550): the header, how a stream is recognised, what its timestamps tell.

use std::collections::BTreeMap;

use crate::{Distribution, Jitter, Sequence, sequence::Fate};

/// Packets in a row that look like one stream before a flow is taken for RTP.
const IN_A_ROW: u32 = 3;

/// The fixed header (section 5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Payload type, 0 to 127.
    pub payload_type: u8,
    /// Marker.
    pub marker: bool,
    /// Sequence number.
    pub sequence: u16,
    /// Timestamp, in the clock of the payload type.
    pub timestamp: u32,
    /// Synchronisation source.
    pub ssrc: u32,
}

/// The header, if these bytes may be RTP: version 2, no payload type that RTCP would have (RFC 5761
/// section 4), and room for the CSRCs and the extension that it announces (`cut`: there were more
/// bytes than these).
#[must_use]
pub fn header(payload: &[u8], cut: bool) -> Option<Header> {
    let (&[first, second, a, b, c, d, e, f, g, h, i, j], rest) =
        payload.split_first_chunk::<12>()?;
    let payload_type = second & 0x7f;
    if first >> 6 != 2 || (64..96).contains(&payload_type) {
        return None;
    }
    let sources = usize::from(first & 0x0f) * 4;
    let extension = match (first & 0x10 != 0, rest.get(sources..)) {
        (true, Some(&[_, _, high, low, ..])) => {
            4 + usize::from(u16::from_be_bytes([high, low])) * 4
        }
        (true, _) => 4,
        (false, _) => 0,
    };
    if !cut && rest.len() < sources + extension {
        return None;
    }
    Some(Header {
        payload_type,
        marker: second & 0x80 != 0,
        sequence: u16::from_be_bytes([a, b]),
        timestamp: u32::from_be_bytes([c, d, e, f]),
        ssrc: u32::from_be_bytes([g, h, i, j]),
    })
}

/// The clock rate of a static payload type, Hz (RFC 3551 section 6).
#[must_use]
pub fn static_clock(payload_type: u8) -> Option<u32> {
    Some(match payload_type {
        0 | 3..=5 | 7..=9 | 12 | 13 | 15 | 18 => 8_000,
        6 => 16_000,
        10 | 11 => 44_100,
        14 | 25 | 26 | 28 | 31..=34 => 90_000,
        16 => 11_025,
        17 => 22_050,
        _ => return None,
    })
}

/// Clock rates of payload types, Hz.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Clocks {
    /// Of these payload types.
    pub of_type: BTreeMap<u8, u32>,
    /// Of those that are neither among them nor static.
    pub other: Option<u32>,
}

impl Clocks {
    /// The clock rate of a payload type, if it is known.
    #[must_use]
    pub fn of(&self, payload_type: u8) -> Option<u32> {
        let chosen = self.of_type.get(&payload_type).copied();
        chosen.or_else(|| static_clock(payload_type)).or(self.other).filter(|hz| *hz > 0)
    }
}

/// Looks for a stream of RTP in a flow.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Detector {
    /// Values that come next at each point, and how many came in a row.
    expected: [Option<(u32, u16, u32)>; 2],
    /// Packets of the stream so far: point, header, arrival.
    pub(crate) seen: Vec<(usize, Header, i64)>,
}

impl Detector {
    /// A packet that may be RTP.
    pub(crate) fn look(&mut self, point: usize, header: Header, at_ns: i64) {
        let other = self.expected.iter().flatten().any(|(ssrc, ..)| *ssrc != header.ssrc);
        let Some(place) = self.expected.get_mut(point) else { return };
        let row = match *place {
            // A loss or a swap is no reason to begin again.
            Some((ssrc, sequence, row))
                if ssrc == header.ssrc
                    && (header.sequence.wrapping_sub(sequence) as i16).unsigned_abs() < 16 =>
            {
                row + 1
            }
            _ => 1,
        };
        *place = Some((header.ssrc, header.sequence.wrapping_add(1), row));
        if other {
            self.seen.retain(|(_, seen, _)| seen.ssrc == header.ssrc);
        } else if row == 1 {
            self.seen.retain(|(at, ..)| *at != point);
        }
        self.seen.push((point, header, at_ns));
    }

    /// True if the flow is RTP.
    pub(crate) fn is_sure(&self) -> bool {
        self.expected.iter().flatten().any(|(.., row)| *row >= IN_A_ROW)
    }
}

/// Figures of one stream of RTP at one place.
#[derive(Clone, PartialEq, Debug)]
pub struct Stream {
    /// Source of the stream.
    pub ssrc: u32,
    /// The payload type of the last packet.
    pub payload_type: u8,
    /// Clock rate, Hz, if known.
    pub clock_hz: Option<u32>,
    /// True if it had more than one payload type.
    pub mixed: bool,
    /// Sequence numbers.
    pub sequence: Sequence,
    /// Jitter (RFC 3550); empty without a clock rate.
    pub jitter: Jitter,
    /// Arrival minus timestamp, ns, from an origin of its own since the stream began, or began
    /// anew.
    transit: Distribution,
    /// Transit before that, each time less its least value.
    earlier: Distribution,
    origin: Option<(u32, i64, i128)>,
}

impl Stream {
    pub(crate) fn new(ssrc: u32) -> Stream {
        Stream {
            ssrc,
            payload_type: 0,
            clock_hz: None,
            mixed: false,
            sequence: Sequence::new(16),
            jitter: Jitter::default(),
            transit: Distribution::default(),
            earlier: Distribution::default(),
            origin: None,
        }
    }

    pub(crate) fn arrived(&mut self, header: &Header, at_ns: i64, clocks: &Clocks) -> Fate {
        let fate = self.sequence.arrived(header.sequence.into(), at_ns);
        let changed = self.origin.is_some() && self.payload_type != header.payload_type;
        self.mixed |= changed;
        self.payload_type = header.payload_type;
        // Events and comfort noise among the media have its clock, known or not (RFC 4733).
        let Some(hz) = clocks.of(header.payload_type).or(self.clock_hz) else { return fate };
        if fate == Fate::Stray {
            return fate;
        }
        if self.clock_hz != Some(hz) || matches!(fate, Fate::Restart(_)) {
            self.clock_hz = Some(hz);
            self.origin = None;
            self.earlier = self.variation();
            self.transit = Distribution::default();
            self.jitter.interrupted();
        }
        let (timestamp, first_ns, ticks) = self.origin.unwrap_or((header.timestamp, at_ns, 0));
        let ticks = ticks + i128::from(header.timestamp.wrapping_sub(timestamp) as i32);
        self.origin = Some((header.timestamp, first_ns, ticks));
        let sent = ticks * 1_000_000_000 / i128::from(hz);
        let transit = i128::from(at_ns) - i128::from(first_ns) - sent;
        self.jitter.arrived(transit);
        self.transit.add(i64::try_from(transit).unwrap_or(i64::MAX));
        fate
    }

    /// Delay less the least delay (PDV) by the sender's clock, ns. A stream that begins anew has
    /// another least delay.
    #[must_use]
    pub fn variation(&self) -> Distribution {
        let mut all = self.earlier.clone();
        all.merge_less(&self.transit, self.transit.min().unwrap_or(0));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(first: u8, kind: u8, sequence: u16) -> Vec<u8> {
        let mut made = vec![first, kind];
        made.extend(sequence.to_be_bytes());
        made.extend([0, 0, 1, 0, 0xde, 0xad, 0xbe, 0xef]);
        made
    }

    #[test]
    fn headers_are_checked() {
        let good = header(&bytes(0x80, 0x80 | 8, 7), false).expect("RTP");
        assert_eq!((good.payload_type, good.marker, good.sequence), (8, true, 7));
        assert_eq!((good.timestamp, good.ssrc), (256, 0xdead_beef));
        for bad in
            [bytes(0x40, 8, 7), bytes(0x80, 0x80 | 72, 7), bytes(0x83, 8, 7), bytes(0x90, 8, 7)]
        {
            assert_eq!(header(&bad, false), None, "{bad:?}");
        }
        assert!(header(&bytes(0x83, 8, 7), true).is_some());
        assert_eq!(header(&[0x80; 11], true), None);
    }

    #[test]
    fn three_in_a_row_are_a_stream() {
        let mut detector = Detector::default();
        let mut look = |sequence, ssrc| {
            let mut seen = header(&bytes(0x80, 0, sequence), false).expect("RTP");
            seen.ssrc = ssrc;
            detector.look(0, seen, 0);
            detector.is_sure()
        };
        assert!(!look(1, 5) && !look(2, 5) && !look(9_000, 5) && !look(9_001, 6));
        assert!(!look(9_002, 6) && look(9_004, 6));
    }

    #[test]
    fn clock_rates() {
        let mut clocks = Clocks { other: Some(90_000), ..Clocks::default() };
        clocks.of_type.insert(0, 48_000);
        assert_eq!([0, 8, 96].map(|pt| clocks.of(pt)), [Some(48_000), Some(8_000), Some(90_000)]);
        assert_eq!(Clocks::default().of(96), None);
    }

    fn stream(packets: &[(u8, u16, u32, i64)]) -> Stream {
        let mut stream = Stream::new(1);
        for &(payload_type, sequence, timestamp, ms) in packets {
            let header = Header { payload_type, marker: false, sequence, timestamp, ssrc: 1 };
            stream.arrived(&header, ms * 1_000_000, &Clocks::default());
        }
        stream
    }

    #[test]
    fn events_of_a_type_without_a_clock_do_not_break_the_stream() {
        let made = stream(&[(0, 1, 0, 0), (0, 2, 160, 21), (101, 3, 320, 43), (0, 4, 480, 60)]);
        assert_eq!((made.clock_hz, made.mixed), (Some(8_000), true));
        let variation = made.variation();
        assert_eq!((variation.len(), variation.min()), (4, Some(0)));
        assert_eq!(variation.max(), Some(3_000_000));
    }

    #[test]
    fn each_beginning_has_a_least_delay_of_its_own() {
        // After the second beginning the first packet is the latest: 0 is not the least there.
        let made = stream(&[
            (0, 1, 0, 0),
            (0, 2, 160, 20),
            (0, 40_000, 777, 900),
            (0, 40_001, 937, 925),
            (0, 40_002, 1097, 940),
            (0, 40_003, 1257, 960),
        ]);
        assert_eq!(made.sequence.restarts, 1);
        let variation = made.variation();
        assert_eq!(
            (variation.len(), variation.min(), variation.max()),
            (5, Some(0), Some(5_000_000))
        );
    }

    #[test]
    fn a_perfect_stream_has_no_jitter_even_when_its_timestamp_rolls_over() {
        let mut stream = Stream::new(1);
        for n in 0..100u32 {
            let header = Header {
                payload_type: 0,
                marker: false,
                sequence: (65_500 + n) as u16,
                timestamp: (u32::MAX - 4_000).wrapping_add(n * 160),
                ssrc: 1,
            };
            stream.arrived(&header, i64::from(n) * 20_000_000, &Clocks::default());
        }
        assert_eq!(stream.jitter.max(), Some(0.0));
        let variation = stream.variation();
        assert_eq!((variation.min(), variation.max()), (Some(0), Some(0)));
        assert_eq!(stream.sequence.lost(), 0);
    }
}
