//! The bytes of a vmclock page, as anybody may have left them there, and how to read words that a
//! hypervisor may be changing.
//!
//! The layout is that of Linux (`include/uapi/linux/vmclock-abi.h`), all numbers little-endian. Its
//! published specification (UAPI.13) counts the flags of the generation counter and of
//! notifications one bit lower, and has the former at 0x64: kernel, QEMU and Firecracker go by the
//! header, and so does this.

use core::fmt;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::fence;

use truechimer_time::{Instant, Period, Rate, Span};

/// Number of words of eight bytes that are known.
pub const WORDS: usize = 14;
/// The known part of a page, as words in the processor's order.
pub type Words = [u64; WORDS];

/// `VCLK`.
const MAGIC: u32 = u32::from_le_bytes(*b"VCLK");
const VERSION: u16 = 1;
/// A page has its flags at least, bytes.
const MIN_SIZE: usize = 0x20;
/// Number of looks while the hypervisor changes the page.
pub(super) const TRIES: u32 = 1000;

// Where each word is; the sequence is the upper half of its own.
const IDENTITY: usize = 0;
const SEQUENCE: usize = 1;
pub(super) const MARKER: usize = 2;
pub(super) const FLAGS: usize = 3;
const STATE: usize = 4;
const COUNTER_VALUE: usize = 5;
const PERIOD: usize = 6;
const PERIOD_DEVIATION: usize = 7;
const PERIOD_ERROR: usize = 8;
const SECONDS: usize = 9;
const FRACTION: usize = 10;
const TIME_DEVIATION: usize = 11;
const TIME_ERROR: usize = 12;
pub(super) const GENERATION: usize = 13;

// Flags.
const TAI_OFFSET_VALID: u64 = 1;
const DISRUPTION_SOON: u64 = 1 << 1;
const DISRUPTION_IMMINENT: u64 = 1 << 2;
const PERIOD_DEVIATION_VALID: u64 = 1 << 3;
const PERIOD_ERROR_VALID: u64 = 1 << 4;
const TIME_DEVIATION_VALID: u64 = 1 << 5;
const TIME_ERROR_VALID: u64 = 1 << 6;
pub(super) const HAS_GENERATION: u64 = 1 << 8;

/// Reasons why bytes are no vmclock page, or cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Shorter than its own header says, or than any page is: so many bytes.
    Short(usize),
    /// The first bytes are not those of a vmclock page.
    Foreign,
    /// Layout of another version.
    Version(u16),
    /// The hypervisor never finished changing it.
    Unsettled,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Short(bytes) => write!(f, "{bytes} bytes are too few for a vmclock page"),
            Fault::Foreign => f.write_str("it is not a vmclock page"),
            Fault::Version(found) => {
                write!(f, "vmclock version {found}, where {VERSION} is the one known")
            }
            Fault::Unsettled => f.write_str("the hypervisor keeps changing the vmclock page"),
        }
    }
}

impl std::error::Error for Fault {}

/// Contents of a vmclock page at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// Disruption marker: another one means that the counter lost its continuity.
    pub marker: u64,
    /// Generation of the virtual machine, where the hypervisor counts them: another one means that
    /// the machine was restored from a snapshot, or cloned.
    pub generation: Option<u64>,
    /// Warning of a disruption to come.
    pub expected: Option<Expected>,
    /// Time of the hypervisor, if it gives any.
    pub time: Option<VmTime>,
}

/// Time within which a disruption is to be expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    /// Within a day or so.
    Soon,
    /// Within an hour or so.
    Imminent,
}

/// The counter that the hypervisor's time is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VmCounter {
    /// The Arm generic timer, virtual count.
    ArmVirtual,
    /// The x86 time stamp counter.
    Tsc,
}

/// Scale of the hypervisor's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VmScale {
    /// Unix time: leap seconds show in it.
    Utc,
    /// TAI, since 1970-01-01T00:00:00 TAI.
    Tai,
    /// Since some moment that nobody tells.
    Monotonic,
}

/// Leap second near the hypervisor's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VmLeap {
    /// None known.
    None,
    /// One comes at the end of the month: +1 is inserted, −1 left out.
    Coming(i8),
    /// An inserted one is under way.
    Now,
    /// One was at the end of the last month: +1 was inserted, −1 left out.
    Past(i8),
}

/// The hypervisor's time, which it takes for right: its status is synchronised or free-running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VmTime {
    /// The counter.
    pub counter: VmCounter,
    /// The scale.
    pub scale: VmScale,
    /// Without a reference just now.
    pub free_running: bool,
    /// The count at which it was `time`.
    pub count: u64,
    /// Time at `count`, in the scale.
    pub time: Instant,
    /// Bound of the error of `time`, ≥ 0, if one is stated.
    pub error: Option<Span>,
    /// Estimated error of `time`, ≥ 0, if one is stated.
    pub deviation: Option<Span>,
    /// Length of a count.
    pub period: Period,
    /// Bound of the relative error of `period`, ≥ 0, if one is stated.
    pub period_error: Option<Rate>,
    /// Estimated relative error of `period`, ≥ 0, if one is stated.
    pub period_deviation: Option<Rate>,
    /// Difference of TAI and UTC as the page has it, s. By the specification it is TAI − UTC (37 in
    /// 2026), while Linux's driver adds it to TAI: neither sign is to be taken for granted.
    pub tai_offset: Option<i16>,
    /// Leap second near `time`.
    pub leap: VmLeap,
}

/// Reads the bytes of a page that nobody changes meanwhile.
///
/// # Errors
/// If they are not those of a vmclock page, or were copied in the middle of a change.
pub fn parse(bytes: &[u8]) -> Result<Snapshot, Fault> {
    let (whole, _) = bytes.as_chunks::<8>();
    if bytes.len() < MIN_SIZE {
        return Err(Fault::Short(bytes.len()));
    }
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(whole) {
        *word = u64::from_le_bytes(*bytes);
    }
    if size(&words) > bytes.len() {
        return Err(Fault::Short(bytes.len()));
    }
    if !sequence(words[SEQUENCE]).is_multiple_of(2) {
        return Err(Fault::Unsettled);
    }
    snapshot(&words)
}

/// Copies the words of a page that a hypervisor may be changing, each by `word(place)`, in the order
/// of the processor.
///
/// # Errors
/// If it never comes to rest.
pub fn settled(word: impl Fn(usize) -> u64) -> Result<Words, Fault> {
    for _ in 0..TRIES {
        let before = sequence(word(SEQUENCE));
        fence(Acquire);
        if before.is_multiple_of(2) {
            let words: Words = core::array::from_fn(&word);
            fence(Acquire);
            let unchanged = sequence(words[SEQUENCE]) == before;
            if unchanged && sequence(word(SEQUENCE)) == before {
                return Ok(words);
            }
        }
        core::hint::spin_loop();
    }
    Err(Fault::Unsettled)
}

/// Meaning of the words.
///
/// # Errors
/// If they are not those of a vmclock page.
pub fn snapshot(words: &Words) -> Result<Snapshot, Fault> {
    check(words)?;
    let (flags, has) = (words[FLAGS], Has(size(words)));
    let generation =
        (flags & HAS_GENERATION != 0 && has.word(GENERATION)).then(|| words[GENERATION]);
    let expected = match (flags & DISRUPTION_IMMINENT != 0, flags & DISRUPTION_SOON != 0) {
        (true, _) => Some(Expected::Imminent),
        (false, true) => Some(Expected::Soon),
        (false, false) => None,
    };
    let time = if has.word(FRACTION) { time(words, has) } else { None };
    Ok(Snapshot { marker: words[MARKER], generation, expected, time })
}

/// Looks at the constant part of a page.
pub(super) fn check(words: &Words) -> Result<(), Fault> {
    if words[IDENTITY] as u32 != MAGIC {
        return Err(Fault::Foreign);
    }
    match words[SEQUENCE] as u16 {
        VERSION if size(words) < MIN_SIZE => Err(Fault::Short(size(words))),
        VERSION => Ok(()),
        other => Err(Fault::Version(other)),
    }
}

/// Length of the page by its own word, bytes.
pub(super) fn size(words: &Words) -> usize {
    usize::try_from(words[IDENTITY] >> 32).unwrap_or(usize::MAX)
}

fn sequence(word: u64) -> u32 {
    (word >> 32) as u32
}

/// Size of a page in bytes, by which it has a word or not.
#[derive(Clone, Copy)]
pub(super) struct Has(pub usize);

impl Has {
    pub fn word(self, at: usize) -> bool {
        (at + 1) * 8 <= self.0
    }
}

fn time(words: &Words, has: Has) -> Option<VmTime> {
    let counter = match (words[SEQUENCE] >> 16) as u8 {
        0 => VmCounter::ArmVirtual,
        1 => VmCounter::Tsc,
        _ => return None,
    };
    let scale = match (words[SEQUENCE] >> 24) as u8 {
        0 => VmScale::Utc,
        1 => VmScale::Tai,
        2 => VmScale::Monotonic,
        _ => return None,
    };
    let state = words[STATE];
    let free_running = match (state >> 16) as u8 {
        2 => false,
        3 => true,
        _ => return None,
    };
    let fine = words[PERIOD];
    let (more, shift) = (fine.leading_zeros(), (state >> 56) as u32);
    if fine == 0 {
        return None;
    }
    let period = Period::from_parts(fine << more, u8::try_from(shift + more).ok()?)?;
    let seconds = i64::try_from(words[SECONDS]).ok().filter(|seconds| *seconds < 1 << 40)?;
    let stated = |flag: u64, at: usize| {
        (words[FLAGS] & flag != 0 && has.word(at)).then(|| words.get(at).copied().unwrap_or(0))
    };
    let span = |ns: u64| Span::from_nanos_wide(ns.into());
    // Rounded up.
    let relative = |error: u64| {
        let rate = (u128::from(error) << 64).div_ceil(fine.into());
        Rate(i64::try_from(rate).unwrap_or(i64::MAX))
    };
    Some(VmTime {
        counter,
        scale,
        free_running,
        count: words[COUNTER_VALUE],
        time: Instant::new(seconds, words[FRACTION]),
        error: stated(TIME_ERROR_VALID, TIME_ERROR).map(span),
        deviation: stated(TIME_DEVIATION_VALID, TIME_DEVIATION).map(span),
        period,
        period_error: stated(PERIOD_ERROR_VALID, PERIOD_ERROR).map(relative),
        period_deviation: stated(PERIOD_DEVIATION_VALID, PERIOD_DEVIATION).map(relative),
        tai_offset: stated(TAI_OFFSET_VALID, STATE).map(|state| (state >> 32) as i16),
        leap: match (state >> 48) as u8 {
            1 => VmLeap::Coming(1),
            2 => VmLeap::Coming(-1),
            3 => VmLeap::Now,
            4 => VmLeap::Past(1),
            5 => VmLeap::Past(-1),
            _ => VmLeap::None,
        },
    })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
