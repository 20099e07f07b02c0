//! Packets of STAMP (RFC 8762 section 4), without and with authentication.
//!
//! Those without are laid out as TWAMP's test packets (RFC 5357 section 4), which is what TWAMP Light sends.

use truechimer_keys::Key;

use crate::Estimate;

/// UDP port of reflectors (RFC 8762 section 4.1).
pub const PORT: u16 = 862;
/// Bytes that the code of a packet with authentication covers (RFC 8762 section 4.4).
const COVERED: usize = 96;
/// Bytes of the code: a half of HMAC-SHA-256.
pub(crate) const CODE: usize = 16;
/// Bytes of a TWAMP reflector's packet: STAMP's less three that must be zero at its end.
pub const TWAMP_LEN: usize = 41;

/// Layout of packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Layout {
    /// Without authentication.
    Open,
    /// With authentication.
    Keyed,
}

/// Places of the fields, in bytes from the start.
#[derive(Clone, Copy, Debug)]
struct Places {
    stamp: usize,
    estimate: usize,
    session: usize,
    received: usize,
    sender_sequence: usize,
    sender_stamp: usize,
    sender_estimate: usize,
    hop_limit: usize,
}

/// RFC 8762 figures 2 and 5.
const OPEN: Places = Places {
    stamp: 4,
    estimate: 12,
    session: 14,
    received: 16,
    sender_sequence: 24,
    sender_stamp: 28,
    sender_estimate: 36,
    hop_limit: 40,
};
/// RFC 8762 figures 4 and 6.
const KEYED: Places = Places {
    stamp: 16,
    estimate: 24,
    session: 26,
    received: 32,
    sender_sequence: 48,
    sender_stamp: 64,
    sender_estimate: 72,
    hop_limit: 80,
};

impl Layout {
    /// Bytes of a packet without extensions.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Layout::Open => 44,
            Layout::Keyed => COVERED + CODE,
        }
    }

    const fn places(self) -> Places {
        match self {
            Layout::Open => OPEN,
            Layout::Keyed => KEYED,
        }
    }
}

/// Packet of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Number of the packet.
    pub sequence: u32,
    /// When it was sent, in the format that the estimate says.
    pub stamp: u64,
    /// Error of `stamp`, as far as it may be off.
    pub estimate: Estimate,
    /// Identifier of the session (RFC 8972 section 3); 0: none.
    pub session: u16,
}

/// Packet of a reflector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// Number of the packet: its own count, or the sender's if it keeps none.
    pub sequence: u32,
    /// When it was sent.
    pub stamp: u64,
    /// Error of `stamp` and `received`, as far as they may be off.
    pub estimate: Estimate,
    /// Identifier of the session, as in the request.
    pub session: u16,
    /// When the request arrived.
    pub received: u64,
    /// Number of the request.
    pub sender_sequence: u32,
    /// When that was sent, as it says itself.
    pub sender_stamp: u64,
    /// Error of `sender_stamp`, as it says itself.
    pub sender_estimate: Estimate,
    /// Hop limit with which it arrived; 0 if not known.
    pub hop_limit: u8,
}

fn get<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Puts a field in; what has no room is left out.
fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    if let Some(room) = bytes.get_mut(at..at + field.len()) {
        room.copy_from_slice(field);
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    get(bytes, at).map(u64::from_be_bytes)
}

fn estimate(bytes: &[u8], at: usize) -> Option<Estimate> {
    get(bytes, at).map(u16::from_be_bytes).map(Estimate::from_bits)
}

impl Request {
    /// Reads one; `None` if it is too short.
    #[must_use]
    pub fn read(bytes: &[u8], layout: Layout) -> Option<Request> {
        let places = layout.places();
        Some(Request {
            sequence: get(bytes, 0).map(u32::from_be_bytes)?,
            stamp: word(bytes, places.stamp)?,
            estimate: estimate(bytes, places.estimate)?,
            session: get(bytes, places.session).map(u16::from_be_bytes)?,
        })
    }

    /// Writes it into a packet of zeros.
    pub fn write(&self, bytes: &mut [u8], layout: Layout) {
        let places = layout.places();
        put(bytes, 0, &self.sequence.to_be_bytes());
        put(bytes, places.stamp, &self.stamp.to_be_bytes());
        put(bytes, places.estimate, &self.estimate.to_bits().to_be_bytes());
        put(bytes, places.session, &self.session.to_be_bytes());
    }
}

impl Reply {
    /// Reads one; `None` if it is too short.
    #[must_use]
    pub fn read(bytes: &[u8], layout: Layout) -> Option<Reply> {
        let places = layout.places();
        let Request { sequence, stamp, estimate: error, session } = Request::read(bytes, layout)?;
        Some(Reply {
            sequence,
            stamp,
            estimate: error,
            session,
            received: word(bytes, places.received)?,
            sender_sequence: get(bytes, places.sender_sequence).map(u32::from_be_bytes)?,
            sender_stamp: word(bytes, places.sender_stamp)?,
            sender_estimate: estimate(bytes, places.sender_estimate)?,
            hop_limit: *bytes.get(places.hop_limit)?,
        })
    }

    /// Writes it over the base of a packet, which becomes zero where nothing stands. Three bytes of zeros may be missing
    /// at the end, as in TWAMP's.
    pub fn write(&self, bytes: &mut [u8], layout: Layout) {
        let places = layout.places();
        bytes.iter_mut().take(layout.size()).for_each(|byte| *byte = 0);
        let Reply { sequence, stamp, estimate, session, .. } = *self;
        Request { sequence, stamp, estimate, session }.write(bytes, layout);
        put(bytes, places.received, &self.received.to_be_bytes());
        put(bytes, places.sender_sequence, &self.sender_sequence.to_be_bytes());
        put(bytes, places.sender_stamp, &self.sender_stamp.to_be_bytes());
        put(bytes, places.sender_estimate, &self.sender_estimate.to_bits().to_be_bytes());
        put(bytes, places.hop_limit, &[self.hop_limit]);
    }
}

/// Writes the code of a packet with authentication into it.
pub fn seal(bytes: &mut [u8], key: &Key) {
    let code = bytes.get(..COVERED).and_then(|covered| key.hmac(&[covered]));
    if let Some(code) = code.as_ref().and_then(|code| code.get(..CODE)) {
        put(bytes, COVERED, code);
    }
}

/// Tells whether a packet has authentication by this key.
#[must_use]
pub fn is_by(bytes: &[u8], key: &Key) -> bool {
    let parts = bytes.split_at_checked(COVERED);
    let parts = parts.and_then(|(covered, rest)| Some((covered, rest.get(..CODE)?)));
    parts.is_some_and(|(covered, code)| key.hmac_fits(&[covered], code))
}

/// Tells whether a packet is laid out as those with authentication: twelve bytes of zeros stand where others have the time.
#[must_use]
pub fn looks_keyed(bytes: &[u8]) -> bool {
    bytes.len() >= Layout::Keyed.size() && get::<12>(bytes, 4) == Some([0; 12])
}

/// Seconds within which a reflector sends what it has received: far more than any takes.
const AT_HAND: u32 = 16;

/// Tells whether a packet looks like a reflector's: it says that it was received, and sent soon after that. Padding by chance
/// does so once in 2²⁷ packets; that of zeros does not.
#[must_use]
pub fn looks_reflected(bytes: &[u8], layout: Layout) -> bool {
    let Some(reply) = Reply::read(bytes, layout) else { return false };
    let seconds = |stamp: u64| (stamp >> 32) as u32;
    let took = seconds(reply.stamp).wrapping_sub(seconds(reply.received));
    let blank = (reply.received, reply.sender_stamp, reply.sender_sequence) == (0, 0, 0);
    !blank && (took <= AT_HAND || took >= AT_HAND.wrapping_neg())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use truechimer_keys::Algorithm;

    pub(crate) fn layouts() -> impl Strategy<Value = Layout> {
        prop_oneof![Just(Layout::Open), Just(Layout::Keyed)]
    }

    fn key() -> Key {
        Key::new(1, Algorithm::Sha256, b"sixteen bytes and more").unwrap()
    }

    fn reply() -> Reply {
        Reply {
            sequence: 0x0102_0304,
            stamp: 0x1112_1314_1516_1718,
            estimate: Estimate::from_bits(0x8102),
            session: 0x2122,
            received: 0x3132_3334_3536_3738,
            sender_sequence: 0x4142_4344,
            sender_stamp: 0x5152_5354_5556_5758,
            sender_estimate: Estimate::from_bits(0x6162),
            hop_limit: 64,
        }
    }

    /// Figures 2, 4, 5 and 6 of RFC 8762, byte by byte.
    #[test]
    fn fields_stand_where_the_rfc_has_them() {
        let mut open = [0xff; 44];
        reply().write(&mut open, Layout::Open);
        let mut wanted = vec![1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x81, 2];
        wanted.extend([0x21, 0x22, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x41, 0x42]);
        wanted.extend([0x43, 0x44, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x61, 0x62]);
        wanted.extend([0, 0, 64, 0, 0, 0]);
        assert_eq!(open.to_vec(), wanted);
        let mut keyed = [0xff; 112];
        reply().write(&mut keyed, Layout::Keyed);
        for (at, field) in [
            (0, &open[..4]),
            (4, &[0; 12]),
            (16, &open[4..16]),
            (28, &[0; 4]),
            (32, &open[16..24]),
            (40, &[0; 8]),
            (48, &open[24..28]),
            (52, &[0; 12]),
            (64, &open[28..38]),
            (74, &[0; 6]),
            (80, &[64]),
            (81, &[0; 31]),
        ] {
            assert_eq!(&keyed[at..at + field.len()], field, "{at}");
        }
        let request = Request::read(&open, Layout::Open).unwrap();
        let mut bytes = [0; 44];
        request.write(&mut bytes, Layout::Open);
        assert_eq!((&bytes[..16], &bytes[16..]), (&open[..16], &[0; 28][..]));
    }

    #[test]
    fn a_code_is_of_the_key_and_of_every_byte_before_it() {
        let mut bytes = [0; 150];
        reply().write(&mut bytes, Layout::Keyed);
        seal(&mut bytes, &key());
        assert!(is_by(&bytes, &key()) && bytes[112..] == [0; 38]);
        let other = Key::new(1, Algorithm::Sha256, b"sixteen bytes and less").unwrap();
        assert!(!is_by(&bytes, &other) && !is_by(&bytes[..111], &key()));
        for at in 0..112 {
            let mut changed = bytes;
            changed[at] ^= 1;
            assert!(!is_by(&changed, &key()), "{at}");
        }
        // A key for another algorithm makes no code, and fits none.
        let aes = Key::new(1, Algorithm::Aes128, &[1; 16]).unwrap();
        let mut bare = [0; 112];
        seal(&mut bare, &aes);
        assert!(bare == [0; 112] && !is_by(&bare, &aes));
        seal(&mut [0; 50], &key());
    }

    #[test]
    fn requests_do_not_look_reflected() {
        for layout in [Layout::Open, Layout::Keyed] {
            let mut bytes = vec![0; layout.size() + 100];
            let estimate = Estimate::at_least(None);
            let request = Request { sequence: 7, stamp: 0xe1 << 56, estimate, session: 3 };
            request.write(&mut bytes, layout);
            assert!(!looks_reflected(&bytes, layout));
            // A clock that begins in 1900.
            Request { stamp: 5, ..request }.write(&mut bytes, layout);
            assert!(!looks_reflected(&bytes, layout));
            let mut reply = Reply { received: 0xe1 << 56, ..reply() };
            for (stamp, looks) in
                [(0xe1u64 << 56, true), ((0xe1 << 56) - 1, true), (0xe2 << 56, false)]
            {
                reply.stamp = stamp;
                reply.write(&mut bytes, layout);
                assert_eq!(looks_reflected(&bytes, layout), looks, "{stamp:x}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            words: (u32, u64, u16, u16, u64, u32, u64, u16, u8), layout in layouts(), more in 0usize..50,
        ) {
            let reply = Reply {
                sequence: words.0,
                stamp: words.1,
                estimate: Estimate::from_bits(words.2),
                session: words.3,
                received: words.4,
                sender_sequence: words.5,
                sender_stamp: words.6,
                sender_estimate: Estimate::from_bits(words.7),
                hop_limit: words.8,
            };
            let mut bytes = vec![0xaa; layout.size() + more];
            reply.write(&mut bytes, layout);
            prop_assert_eq!(Reply::read(&bytes, layout), Some(reply));
            prop_assert!(bytes[layout.size()..].iter().all(|byte| *byte == 0xaa));
            let mut short = vec![0; TWAMP_LEN];
            reply.write(&mut short, Layout::Open);
            prop_assert_eq!(Reply::read(&short, Layout::Open), Some(reply));
        }

        #[test]
        fn hostile_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), layout in layouts()) {
            let read = Reply::read(&bytes, layout);
            prop_assert_eq!(read.is_some(), bytes.len() > layout.places().hop_limit);
            prop_assert!(!is_by(&bytes, &key()));
            let _ = (Request::read(&bytes, layout), looks_reflected(&bytes, layout), looks_keyed(&bytes));
            let mut bytes = bytes;
            seal(&mut bytes, &key());
            reply().write(&mut bytes, layout);
        }
    }
}
