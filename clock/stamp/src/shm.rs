//! Samples of receivers' programs in shared memory: ntpd's driver 28 (`struct shmTime`), which gpsd,
//! chrony and others know.
//!
//! A segment of System V shared memory holds the newest sample: what `CLOCK_REALTIME` showed at a
//! moment, and what true time was then. Whoever may write there may write anything at any time.

mod segment;

use std::fmt;
use std::io;

use truechimer_time::Span;

use segment::Segment;

/// The first segment's key: "NTP0".
const KEY: i32 = 0x4e54_5030;
/// Segments that there may be.
pub const UNITS: std::ops::RangeInclusive<u8> = 0..=15;
/// From this one on anybody may write them, as ntpd and gpsd have it.
const PUBLIC: u8 = 2;
/// Bytes of a segment.
pub const SIZE: usize = 96;
/// The furthest that a sample may be from 1970, s: far beyond what counts, far below what overflows.
const FURTHEST: i64 = 1 << 33;

/// A sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShmSample {
    /// `CLOCK_REALTIME` at the moment of the measurement: Unix time in ns.
    pub unix_ns: i64,
    /// Reference time then: Unix time in ns, UTC.
    pub true_ns: i64,
    /// Leap indicator (0 none, 1 insert, 2 delete, 3 unsynchronised).
    pub leap: u8,
    /// Precision that the writer claims, ≥ 0.
    pub precision: Span,
}

/// Reasons why a segment has no sample that can be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShmError {
    /// Of a kind of writing that there is not.
    Mode(i32),
    /// A time that no clock shows.
    Time,
    /// A leap indicator that there is not.
    Leap(i32),
    /// A precision that is none: 2 to the power of this, s.
    Precision(i32),
}

impl fmt::Display for ShmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShmError::Mode(mode) => write!(f, "the segment has mode {mode}, and 0 and 1 are known"),
            ShmError::Time => f.write_str("the segment shows a time that no clock does"),
            ShmError::Leap(leap) => write!(f, "the segment has leap indicator {leap}, not 0 to 3"),
            ShmError::Precision(power) => {
                write!(f, "the segment has precision {power}: 2^{power} s")
            }
        }
    }
}

impl std::error::Error for ShmError {}

/// A segment that is attached.
#[derive(Debug)]
pub struct Shm {
    segment: Segment,
    /// Bytes that were read last, to see what is new.
    last: Option<[u8; SIZE]>,
}

impl Shm {
    /// Attaches segment `unit`, and makes it if it is not there yet: the first two for this user
    /// alone, the others for all, as ntpd has them.
    ///
    /// # Errors
    /// If it may not be read, is too small, or is one of the first two and others may write it.
    pub fn open(unit: u8) -> io::Result<Shm> {
        Shm::at(KEY + i32::from(unit), unit < PUBLIC)
    }

    fn at(key: i32, private: bool) -> io::Result<Shm> {
        let mode = if private { 0o600 } else { 0o666 };
        let segment = Segment::open(key, SIZE, mode)?;
        let (owner, found) = segment.status()?;
        let is_ours = owner == 0 || owner == rustix::process::geteuid().as_raw();
        if private && (!is_ours || found & 0o022 != 0) {
            let why = format!(
                "segment {key:#x} is of user {owner} with mode {found:03o}, so that others may write \
                 it: remove it (ipcrm -M {key:#x}), or use one from {PUBLIC} on"
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        // A sample from before is not reported.
        let last = segment.read();
        Ok(Shm { segment, last })
    }

    /// The sample, if there is one that was not there before. Never waits.
    ///
    /// # Errors
    /// If what is there is none.
    pub fn fetch(&mut self) -> Result<Option<ShmSample>, ShmError> {
        let Some(bytes) = self.segment.read() else { return Ok(None) };
        if self.last == Some(bytes) || number(&bytes, VALID) == 0 {
            return Ok(None);
        }
        self.last = Some(bytes);
        let sample = parse(&bytes);
        self.segment.take();
        sample
    }
}

/// Where the fields are, bytes.
const MODE: usize = 0;
const COUNT: usize = 4;
/// Bytes of the system's seconds, by a field of theirs: libc deprecates the name of the type on musl.
const WORD: usize = size_of_val(&libc::timeval { tv_sec: 0, tv_usec: 0 }.tv_sec);
const CLOCK_S: usize = 8;
const CLOCK_US: usize = CLOCK_S + WORD;
/// Seconds begin where their alignment has them.
const RECEIVE_S: usize = CLOCK_US + WORD;
const RECEIVE_US: usize = RECEIVE_S + WORD;
const LEAP: usize = RECEIVE_US + 4;
const PRECISION: usize = LEAP + 4;
/// After the number of samples.
const VALID: usize = PRECISION + 8;
const CLOCK_NS: usize = VALID + 4;
const RECEIVE_NS: usize = CLOCK_NS + 4;

fn number(bytes: &[u8; SIZE], at: usize) -> i32 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk().copied());
    i32::from_ne_bytes(word.unwrap_or_default())
}

fn seconds(bytes: &[u8; SIZE], at: usize) -> i64 {
    if WORD == 4 {
        return number(bytes, at).into();
    }
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk().copied());
    i64::from_ne_bytes(word.unwrap_or_default())
}

/// Reads the bytes of a segment. Nothing in them is trusted. `None`: no sample is there.
///
/// # Errors
/// If it is none that can be used.
pub fn parse(bytes: &[u8; SIZE]) -> Result<Option<ShmSample>, ShmError> {
    let mode = number(bytes, MODE);
    if number(bytes, VALID) == 0 {
        return Ok(None);
    }
    if !(0..=1).contains(&mode) {
        return Err(ShmError::Mode(mode));
    }
    let time = |secs: i64, micros: i32, nanos: i32| {
        // Writers from before there were nanoseconds leave something else in their place.
        let nanos =
            if nanos >= 0 && nanos / 1000 == micros { nanos } else { micros.checked_mul(1000)? };
        let sound = (0..FURTHEST).contains(&secs) && (0..1_000_000_000).contains(&nanos);
        sound.then(|| secs * 1_000_000_000 + i64::from(nanos))
    };
    let [clock, receive] = [(CLOCK_S, CLOCK_US, CLOCK_NS), (RECEIVE_S, RECEIVE_US, RECEIVE_NS)]
        .map(|(s, us, ns)| time(seconds(bytes, s), number(bytes, us), number(bytes, ns)));
    let (true_ns, unix_ns) = clock.zip(receive).ok_or(ShmError::Time)?;
    let leap = number(bytes, LEAP);
    let leap = u8::try_from(leap).ok().filter(|l| *l <= 3).ok_or(ShmError::Leap(leap))?;
    let power = number(bytes, PRECISION);
    if !(-40..=6).contains(&power) {
        return Err(ShmError::Precision(power));
    }
    let precision = Span(Span::from_secs(64).0 >> (6 - power));
    Ok(Some(ShmSample { unix_ns, true_ns, leap, precision }))
}

/// Bytes of a segment with this sample in it, as writers leave them. For tests, and programs that
/// are writers.
#[must_use]
pub fn bytes(sample: &ShmSample, mode: i32, count: i32, power: i32) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    let mut put = |at: usize, word: &[u8]| {
        if let Some(place) = bytes.get_mut(at..at + word.len()) {
            place.copy_from_slice(word);
        }
    };
    let second = 1_000_000_000;
    for (ns, at) in [
        (sample.true_ns, (CLOCK_S, CLOCK_US, CLOCK_NS)),
        (sample.unix_ns, (RECEIVE_S, RECEIVE_US, RECEIVE_NS)),
    ] {
        let (secs, nanos) = (ns.div_euclid(second), ns.rem_euclid(second) as i32);
        let secs = secs.to_ne_bytes();
        put(at.0, secs.get(..WORD).unwrap_or_default());
        put(at.1, &(nanos / 1000).to_ne_bytes());
        put(at.2, &nanos.to_ne_bytes());
    }
    for (at, word) in
        [(MODE, mode), (COUNT, count), (LEAP, sample.leap.into()), (PRECISION, power), (VALID, 1)]
    {
        put(at, &word.to_ne_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests;
