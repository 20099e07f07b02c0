//! Records that we write into capture files beyond the format's own: a packet's raw count, and what
//! it takes to turn counts into time.
//!
//! All of it is in *custom options* (code 2989) of interfaces, packets and statistics, which
//! editcap, mergecap and Wireshark keep. The layout is in `docs/reference/capture-files.md`.

use truechimer_time::{Count, CountSpan, Epoch};

use crate::order::{Order, array};

/// The enterprise number that our options bear: the one that RFC 5612 sets aside for examples, as
/// nobody has given us one. Readers go by [`MAGIC`].
pub const ENTERPRISE: u32 = 32_473;

/// Beginning of every record of ours, after the enterprise number.
pub const MAGIC: [u8; 4] = *b"TChm";

/// The version of the layout.
pub const VERSION: u8 = 1;

/// Bytes of a packet's record, from the magic on.
pub const PACKET_BYTES: usize = 36;

/// Bytes of a mark, from the magic on.
pub const MARK_BYTES: usize = 24;

/// Method of a packet of others, whose time `restamp` has put on the scale of UTC: its count is its
/// first stamp, ns since 1970 by the clock that made it.
pub const RESTAMPED: u8 = 5;

/// The largest error of a count that is kept.
const LARGEST_ERROR: u32 = u32::MAX - 1;

const PACKET: u8 = b'P';
const CHANGE: u8 = b'C';
const MARK: u8 = b'M';

/// Beginning of an interface's description that names the host.
const AT_HOST: &str = "host ";

/// Description of an interface of this host.
#[must_use]
pub fn at_host(name: &str) -> String {
    format!("{AT_HOST}{name}")
}

/// Name of the host in the description of an interface that has a record of ours; those of others may begin so by chance.
#[must_use]
pub fn host_of(description: &str) -> Option<&str> {
    description.strip_prefix(AT_HOST).map(str::trim).filter(|name| !name.is_empty())
}

/// Quality of a packet's time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Quality {
    /// No count could be told: the time is the system clock's, if there is any.
    Uncounted,
    /// The time is the system clock's, and nothing is promised.
    Unsynchronised,
    /// True time is within the bound.
    Bounded,
}

/// Source of a packet's stamp.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StampedBy {
    /// The counter itself.
    Counter,
    /// `CLOCK_REALTIME`, which was turned into a count.
    Realtime,
    /// `CLOCK_MONOTONIC`, which was turned into a count.
    Monotonic,
    /// The network card's clock, which was turned into a count.
    Device,
    /// A clock that the file's writer did not name.
    Unknown,
    /// Nothing.
    Nothing,
}

/// A packet's count, and how its time came about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketRecord {
    /// Method of capture: 1 packet socket, 2 the same with hardware stamps, 3 AF_XDP, 4 copies by
    /// XDP, 5 by others ([`RESTAMPED`]); see [`method_name`].
    pub method: u8,
    /// Source of the stamp.
    pub stamped_by: StampedBy,
    /// Quality of its time.
    pub quality: Quality,
    /// The count at which it was stamped, the bound of its error, and the counter's epoch, if the
    /// count could be told to within 2³² − 2 counts.
    pub counted: Option<(Count, CountSpan, Epoch)>,
    /// The number of the hand that its time was worked out by; 0 for none.
    pub generation: u64,
    /// True time is within so many ns of the packet's; `None` if nothing is promised, or not
    /// within 4.29 s.
    pub bound_ns: Option<u32>,
}

/// The name of a method in a packet's record.
#[must_use]
pub const fn method_name(method: u8) -> &'static str {
    match method {
        1 => "packet",
        2 => "hw",
        3 => "xdp",
        4 => "xdp-copy",
        RESTAMPED => "restamp",
        _ => "unknown",
    }
}

/// Event between two packets. The numbers are part of the layout.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum MarkKind {
    /// The interface went down.
    Down = 1,
    /// Up again.
    Up = 2,
    /// Gone for good.
    Gone = 3,
    /// Packets could not be written here; the value says how many.
    Unwritten = 4,
}

/// A mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// Event that happened.
    pub kind: MarkKind,
    /// When by the system clock, Unix ns.
    pub unix_ns: i64,
    /// A number, for marks that have one.
    pub value: u64,
}

/// One record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record<'a> {
    /// A packet's.
    Packet(PacketRecord),
    /// The state of the clock from here on, as JSON.
    Change(&'a str),
    /// Something that happened.
    Mark(Mark),
    /// One of ours that this version does not know.
    Unknown {
        /// The version that it says.
        version: u8,
        /// Kind of the record.
        kind: u8,
    },
}

/// Reads a custom option (its value with the enterprise number); `None` if it is not ours.
///
/// # Errors
/// If it is ours but makes no sense: what is wrong with it.
pub fn read(value: &[u8]) -> Result<Option<Record<'_>>, String> {
    let Some(record) = value.get(4..).filter(|rest| rest.starts_with(&MAGIC)) else {
        return Ok(None);
    };
    let (Some(&version), Some(&kind)) = (record.get(4), record.get(5)) else {
        return Err(format!("a record of ours of {} bytes", record.len()));
    };
    if version != VERSION {
        return Ok(Some(Record::Unknown { version, kind }));
    }
    let whole = |length| match record.len() {
        there if there == length => Ok(()),
        there => Err(format!("a record '{}' of {there} bytes, not {length}", char::from(kind))),
    };
    match kind {
        PACKET => {
            whole(PACKET_BYTES)?;
            PacketRecord::decode(record).map(|record| Some(Record::Packet(record)))
        }
        CHANGE => match std::str::from_utf8(record.get(6..).unwrap_or_default()) {
            Ok(text) => Ok(Some(Record::Change(text))),
            Err(_) => Err("the state of the clock is no text".to_owned()),
        },
        MARK => {
            whole(MARK_BYTES)?;
            Mark::decode(record).map(|mark| Some(Record::Mark(mark)))
        }
        _ => Ok(Some(Record::Unknown { version, kind })),
    }
}

/// The record of a change, from the magic on.
#[must_use]
pub fn change(json: &str) -> Vec<u8> {
    let mut bytes = head(CHANGE).to_vec();
    bytes.extend_from_slice(json.as_bytes());
    bytes
}

impl PacketRecord {
    /// The record, from the magic on.
    #[must_use]
    pub fn encode(&self) -> [u8; PACKET_BYTES] {
        let PacketRecord { method, stamped_by, quality, counted, generation, bound_ns } = *self;
        let quality = match quality {
            Quality::Uncounted => 0,
            Quality::Unsynchronised => 1,
            Quality::Bounded => 2,
        };
        let stamped_by = match stamped_by {
            StampedBy::Counter => 0,
            StampedBy::Realtime => 1,
            StampedBy::Monotonic => 2,
            StampedBy::Device => 3,
            StampedBy::Unknown => 4,
            StampedBy::Nothing => 7,
        };
        let error = |error: CountSpan| u32::try_from(error.0).ok().filter(|e| *e != u32::MAX);
        let counted = counted.and_then(|(count, e, epoch)| Some((count, error(e)?, epoch)));
        let (count, error, epoch) = counted.unwrap_or((Count(0), u32::MAX, Epoch(0)));
        let flags: u8 = quality | (u8::from(counted.is_some()) << 2) | (stamped_by << 3);
        let mut bytes = [0; PACKET_BYTES];
        let mut rest = bytes.as_mut_slice();
        let mut put = |field: &[u8]| {
            let (front, behind) = std::mem::take(&mut rest).split_at_mut(field.len());
            front.copy_from_slice(field);
            rest = behind;
        };
        put(&head(PACKET));
        put(&[method, flags]);
        put(&epoch.0.to_le_bytes());
        put(&error.to_le_bytes());
        put(&count.0.to_le_bytes());
        put(&generation.to_le_bytes());
        put(&bound_ns.unwrap_or(u32::MAX).to_le_bytes());
        bytes
    }

    fn decode(record: &[u8]) -> Result<PacketRecord, String> {
        let short = || "a packet's record is too short".to_owned();
        let (word, long) = (|at| Order::Little.u32(record, at), |at| Order::Little.u64(record, at));
        let [method, flags] = array(record, 6).ok_or_else(short)?;
        let (epoch, error) = word(8).zip(word(12)).ok_or_else(short)?;
        let (count, generation) = long(16).zip(long(24)).ok_or_else(short)?;
        let bound = word(32).ok_or_else(short)?;
        let quality = match flags & 3 {
            0 => Quality::Uncounted,
            1 => Quality::Unsynchronised,
            2 => Quality::Bounded,
            _ => return Err("a packet's record of impossible quality".to_owned()),
        };
        let stamped_by = match flags >> 3 & 7 {
            0 => StampedBy::Counter,
            1 => StampedBy::Realtime,
            2 => StampedBy::Monotonic,
            3 => StampedBy::Device,
            4 => StampedBy::Unknown,
            7 => StampedBy::Nothing,
            other => return Err(format!("a packet's record of stamps by clock {other}")),
        };
        if flags >> 6 != 0 {
            return Err(format!("a packet's record with unknown flags {flags:#04x}"));
        }
        let counted = match (flags & 4 != 0, error) {
            (false, u32::MAX) if count == 0 && epoch == 0 => None,
            (true, 0..=LARGEST_ERROR) => {
                Some((Count(count), CountSpan(error.into()), Epoch(epoch)))
            }
            _ => return Err("a packet's record that is neither counted nor not".to_owned()),
        };
        if quality == Quality::Bounded && counted.is_none() {
            return Err("a packet's record with a bound but without a count".to_owned());
        }
        let bound_ns = Some(bound).filter(|bound| *bound != u32::MAX);
        Ok(PacketRecord { method, stamped_by, quality, counted, generation, bound_ns })
    }
}

impl Mark {
    /// The record, from the magic on.
    #[must_use]
    pub fn encode(&self) -> [u8; MARK_BYTES] {
        let [m0, m1, m2, m3, version, kind] = head(MARK);
        let [a, b, c, d, e, f, g, h] = self.unix_ns.to_le_bytes();
        let [i, j, k, l, m, n, o, p] = self.value.to_le_bytes();
        [
            m0,
            m1,
            m2,
            m3,
            version,
            kind,
            self.kind as u8,
            0,
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            h,
            i,
            j,
            k,
            l,
            m,
            n,
            o,
            p,
        ]
    }

    fn decode(record: &[u8]) -> Result<Mark, String> {
        let short = || "a mark is too short".to_owned();
        let [number, zero] = array(record, 6).ok_or_else(short)?;
        let kind = match (number, zero) {
            (1, 0) => MarkKind::Down,
            (2, 0) => MarkKind::Up,
            (3, 0) => MarkKind::Gone,
            (4, 0) => MarkKind::Unwritten,
            _ => return Err(format!("an unknown mark {number}")),
        };
        let at = |at| Order::Little.u64(record, at).ok_or_else(short);
        Ok(Mark { kind, unix_ns: at(8)? as i64, value: at(16)? })
    }
}

fn head(kind: u8) -> [u8; 6] {
    let [a, b, c, d] = MAGIC;
    [a, b, c, d, VERSION, kind]
}
