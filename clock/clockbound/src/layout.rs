//! Bytes of the three layouts.

use truechimer_time::Period;

/// The first eight bytes of a page, as two words in the order of the processor.
pub(crate) const MAGIC: [u32; 2] = [0x414D_5A4E, 0x4342_0200];
/// Length of what comes before the record, bytes.
pub(crate) const HEADER: usize = 16;
/// Where the version is, bytes from the start.
pub(crate) const VERSION_AT: usize = 12;
/// Where the generation is, bytes from the start.
pub(crate) const GENERATION_AT: usize = 14;
/// The longest error that is written, ns (three years): clients add to it, and must not overflow.
const MOST: i64 = 100_000_000_000_000_000;

/// One of ClockBound's layouts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Layout {
    /// Layout 1, of clients 1.x: it bounds the error of `CLOCK_REALTIME`.
    One,
    /// Layout 2, of clients 2.x: it bounds the error of `CLOCK_REALTIME`.
    Two,
    /// Layout 3, of clients 3.x: a clock of its own, made of the TSC or the Arm generic timer.
    Three,
}

/// State of a page's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Nobody knows: the bound must not be trusted.
    Unknown = 0,
    /// Clock that follows its sources; the bound holds.
    Synchronized = 1,
    /// Clock without fresh word from any source; the bound holds.
    FreeRunning = 2,
    /// Clock that lost its continuity: the bound must not be trusted. (Layout 1 has no such word,
    /// and says [`Status::Unknown`].)
    Disrupted = 3,
}

/// Contents of a page after its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The count at which the rest was true. In layout 3 only.
    pub count: u64,
    /// When that was, ns: by layouts 1 and 2 of `CLOCK_MONOTONIC_COARSE`, by layout 3 of UTC since
    /// 1970, as this clock has it.
    pub as_of: i64,
    /// When the bound ends to be good for anything, ns of the same clock.
    pub void_after: i64,
    /// The most by which the clock was off then, either way, ns, ≥ 0: `CLOCK_REALTIME` by layouts
    /// 1 and 2, `as_of` itself by layout 3.
    pub bound: i64,
    /// Rate at which the bound grows from then on, parts in 10⁹.
    pub drift: u32,
    /// Length of a count. In layout 3 only.
    pub period: Period,
    /// Number of breaks of the counter so far: any change tells of one. Not in layout 1.
    pub disruptions: u64,
    /// The disruption marker of the machine's VMClock (`/dev/vmclock0`) under which the rest is true,
    /// if clients are to compare the two: it is written in place of `disruptions`. A client that
    /// cannot read the device then has an error for an answer. Not in layout 1.
    pub vmclock: Option<u64>,
    /// The status.
    pub status: Status,
}

impl Layout {
    /// All of them.
    pub const ALL: [Layout; 3] = [Layout::One, Layout::Two, Layout::Three];

    /// The name of its file in the directory of ClockBound.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Layout::One => "shm",
            Layout::Two => "shm0",
            Layout::Three => "shm1",
        }
    }

    /// The clients that read it, for people.
    #[must_use]
    pub const fn clients(self) -> &'static str {
        match self {
            Layout::One => "1.x",
            Layout::Two => "2.x",
            Layout::Three => "3.x",
        }
    }

    /// True if its bound is of `CLOCK_REALTIME`, so that somebody has to keep that near UTC.
    #[must_use]
    pub const fn bounds_system_clock(self) -> bool {
        !matches!(self, Layout::Three)
    }

    /// Length of a page, bytes.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Layout::One => HEADER + 56,
            Layout::Two => HEADER + 64,
            Layout::Three => HEADER + 88,
        }
    }

    /// Version in a page: from 3 on the oldest layout that its readers may know in the high byte,
    /// and the layout in the low one.
    pub(crate) const fn version(self) -> u16 {
        match self {
            Layout::One => 1,
            Layout::Two => 2,
            Layout::Three => 0x0303,
        }
    }

    /// Bytes before the record, with a generation.
    #[must_use]
    pub fn header(self, generation: u16) -> [u8; HEADER] {
        let mut bytes = Bytes::default();
        bytes.put(&MAGIC[0].to_ne_bytes());
        bytes.put(&MAGIC[1].to_ne_bytes());
        // No layout is longer than that.
        bytes.put(&u32::try_from(self.size()).unwrap_or(0).to_ne_bytes());
        bytes.put(&self.version().to_ne_bytes());
        bytes.put(&generation.to_ne_bytes());
        bytes.all()
    }

    /// The bytes of a record; with [`Layout::header`] before them they are a page.
    #[must_use]
    pub fn encode(self, record: &Record) -> Vec<u8> {
        let mut bytes = Bytes::default();
        if self == Layout::Three {
            bytes.put(&record.count.to_ne_bytes());
        }
        bytes.time(record.as_of);
        bytes.time(record.void_after);
        if self == Layout::Three {
            bytes.put(&record.period.mantissa().to_ne_bytes());
            // The error of the period, which is in the drift.
            bytes.put(&0u64.to_ne_bytes());
        }
        bytes.put(&record.bound.clamp(0, MOST).to_ne_bytes());
        if self != Layout::One {
            bytes.put(&record.vmclock.unwrap_or(record.disruptions).to_ne_bytes());
        }
        bytes.put(&record.drift.min(MOST_DRIFT).to_ne_bytes());
        if self == Layout::One {
            bytes.put(&[0; 4]);
        }
        let status = match (self, record.status) {
            (Layout::One, Status::Disrupted) => Status::Unknown,
            (_, status) => status,
        };
        bytes.put(&(status as i32).to_ne_bytes());
        // Whether disruptions are told by a VMClock as well.
        if self != Layout::One {
            bytes.put(&[record.vmclock.is_some().into()]);
        }
        if self == Layout::Three {
            bytes.put(&[record.period.shift(), 0]);
        }
        let Bytes(mut bytes) = bytes;
        bytes.resize(self.size() - HEADER, 0);
        bytes
    }
}

/// Clients take a drift of 1 and more for a damaged page.
const MOST_DRIFT: u32 = 999_999_999;

/// Bytes that are gathered.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn put(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// A `struct timespec` of 64-bit Linux.
    fn time(&mut self, nanos: i64) {
        self.put(&nanos.div_euclid(1_000_000_000).to_ne_bytes());
        self.put(&nanos.rem_euclid(1_000_000_000).to_ne_bytes());
    }

    fn all<const N: usize>(self) -> [u8; N] {
        self.0.try_into().unwrap_or([0; N])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Offsets of the fields by ClockBound's documents, from the start of a page: as-of,
    /// void-after, bound, drift, status, and the whole length.
    const PLACES: [(Layout, [usize; 6]); 3] = [
        (Layout::One, [16, 32, 48, 56, 64, 72]),
        (Layout::Two, [16, 32, 48, 64, 68, 80]),
        (Layout::Three, [24, 40, 72, 88, 92, 104]),
    ];

    fn word<const N: usize>(page: &[u8], at: usize) -> [u8; N] {
        page[at..at + N].try_into().unwrap()
    }

    fn time(page: &[u8], at: usize) -> i64 {
        let [secs, nanos] = [at, at + 8].map(|at| i64::from_ne_bytes(word(page, at)));
        assert!((0..1_000_000_000).contains(&nanos), "{nanos}");
        secs * 1_000_000_000 + nanos
    }

    const STATUSES: [Status; 4] =
        [Status::Unknown, Status::Synchronized, Status::FreeRunning, Status::Disrupted];

    fn records() -> impl Strategy<Value = Record> {
        let far = MOST * 50;
        let times = (any::<u64>(), -far..far, -far..far, any::<i64>());
        let disruptions = (any::<u64>(), proptest::option::of(any::<u64>()));
        let rest = (any::<u32>(), 1u64 << 63.., 0u8..64, disruptions, 0usize..4);
        (times, rest).prop_map(|((count, as_of, void_after, bound), rest)| {
            let (drift, mantissa, shift, (disruptions, vmclock), status) = rest;
            let period = Period::from_parts(mantissa, shift).unwrap();
            let status = STATUSES[status];
            Record { count, as_of, void_after, bound, drift, period, disruptions, vmclock, status }
        })
    }

    proptest! {
        #[test]
        fn every_field_is_where_the_documents_have_it(record in records(), generation: u16) {
            for (layout, [as_of, void_after, bound, drift, status, length]) in PLACES {
                let page = [&layout.header(generation)[..], &layout.encode(&record)].concat();
                prop_assert_eq!((page.len(), layout.size()), (length, length));
                // "AMZN", "CB", 2, 0 as one number each of the processor.
                prop_assert_eq!(u32::from_ne_bytes(word(&page, 0)), 0x414D_5A4E);
                prop_assert_eq!(u32::from_ne_bytes(word(&page, 4)), 0x4342_0200);
                prop_assert_eq!(u32::from_ne_bytes(word(&page, 8)) as usize, length);
                let version = u16::from_ne_bytes(word(&page, 12));
                prop_assert_eq!(usize::from(version & 0xff), 1 + layout as usize);
                prop_assert_eq!(version >> 8, if layout == Layout::Three { 3 } else { 0 });
                prop_assert_eq!(u16::from_ne_bytes(word(&page, 14)), generation);
                prop_assert_eq!(time(&page, as_of), record.as_of);
                prop_assert_eq!(time(&page, void_after), record.void_after);
                let found = i64::from_ne_bytes(word(&page, bound));
                prop_assert!(found == record.bound || (record.bound < 0 && found == 0)
                    || (record.bound > MOST && found == MOST));
                let found = u32::from_ne_bytes(word(&page, drift));
                prop_assert!(found < 1_000_000_000 && found == record.drift.min(999_999_999));
                let found = i32::from_ne_bytes(word(&page, status));
                let wanted = match (layout, record.status) {
                    (Layout::One, Status::Disrupted) => 0,
                    (_, status) => status as i32,
                };
                prop_assert_eq!(found, wanted);
                if layout != Layout::One {
                    let marker = u64::from_ne_bytes(word(&page, bound + 8));
                    prop_assert_eq!(marker, record.vmclock.unwrap_or(record.disruptions));
                    // Whether a client looks for a VMClock.
                    prop_assert_eq!(page[status + 4], u8::from(record.vmclock.is_some()));
                }
                if layout == Layout::Three {
                    prop_assert_eq!(u64::from_ne_bytes(word(&page, 16)), record.count);
                    // What a client makes of it: fraction / 2^(64 + shift).
                    let fraction = u64::from_ne_bytes(word(&page, 56));
                    prop_assert_eq!(fraction, record.period.mantissa());
                    prop_assert_eq!(page[status + 5], record.period.shift());
                    prop_assert_eq!(u64::from_ne_bytes(word(&page, 64)), 0);
                }
            }
        }
    }
}
