//! A hand as words, and back with every doubt checked.

use truechimer_time::{
    BootId, Count, CountSpan, CounterId, CounterKind, Epoch, Instant, Leap, Leaps, Period, Rate,
    Span,
};

use crate::{ByRaw, Device, Hand, Likely, Made, Status};

/// Number of words that a hand takes; those not in use are 0.
pub const WORDS: usize = 31;

/// A hand with its making, as words.
pub type Packed = [u64; WORDS];

/// Number of words beside those of a hand, for what came to it later; those not in use are 0.
pub const BESIDE: usize = 7;

/// Words beside those of a hand.
pub type Beside = [u64; BESIDE];

/// Time after the writer's last look at the world for which readers do not look themselves.
pub const PATIENCE: Span = Span::from_secs(3);

// Where each word is. A 128-bit quantity takes two, the upper half first. With the generation
// before them the first seven are one cache line, the next eight another, and to tell the time
// takes only these two.
pub(crate) const BASE: usize = 0;
pub(crate) const TIME: usize = 1;
pub(crate) const PERIOD: usize = 3;
pub(crate) const GROWTH: usize = 5;
pub(crate) const STATE: usize = 6;
pub(crate) const BOUND: usize = 7;
pub(crate) const VOID_AFTER: usize = 9;
pub(crate) const PATIENCE_COUNTS: usize = 10;
pub(crate) const LEAPS: usize = 11;
pub(crate) const LAST_LEAP: usize = 12;
pub(crate) const NEXT_LEAP: usize = 13;
pub(crate) const DIFFERENCE_ERROR: usize = 14;
pub(crate) const DIFFERENCE: usize = 15;
pub(crate) const PATH_BOUND: usize = 17;
pub(crate) const BOOT: usize = 19;
pub(crate) const MADE_COUNT: usize = 21;
pub(crate) const MADE_MONOTONIC: usize = 22;
pub(crate) const MADE_RAW: usize = 23;
pub(crate) const MADE_SUSPENDED: usize = 24;
pub(crate) const BITS: usize = 25;
pub(crate) const RAW_PERIOD: usize = 26;
pub(crate) const RAW_ERROR: usize = 28;
pub(crate) const RAW_PAIR: usize = 29;
pub(crate) const DISPUTED: usize = 30;

// Where each word beside them is.
pub(crate) const IMBALANCE: usize = 0;
pub(crate) const LIKELY: usize = 1;
pub(crate) const LIKELY_GROWTH: usize = 2;
pub(crate) const VMCLOCK: usize = 3;
pub(crate) const MARKER: usize = 4;

/// Times further than this from 1970, and bounds larger than this that are said to hold, are
/// taken for damage: 35 000 years.
const FARTHEST: Span = Span::from_secs(1 << 40);
/// The two periods of a hand are of one counter; further apart than this they are damage: 1 %.
const PERIODS_APART: Rate = Rate::from_ppb(10_000_000);
/// The disputed part of a bound, its imbalance and what is likely are in 2⁻³² s.
pub(crate) const COARSE: u32 = 32;
/// No pair of count and raw clock is of use that is known no better than to this.
const LOOSEST_PAIR: Span = Span::from_secs(1);

/// Reason why words are no hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corrupt {
    /// The field that cannot be.
    pub field: &'static str,
}

impl core::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "a hand with an impossible {}", self.field)
    }
}

impl core::error::Error for Corrupt {}

/// The words of a hand.
///
/// Of a bound beyond 2⁶³ s in all, only the whole and the part of the path are kept; of its
/// disputed part what is below 2⁻³² s is dropped.
#[must_use]
pub fn pack(hand: &Hand, made: &Made) -> Packed {
    let Hand {
        counter: CounterId { kind, boot, epoch },
        base,
        time,
        period,
        difference,
        difference_error,
        path_bound,
        statistical_bound: _,
        disputed,
        growth,
        status,
        leaps,
        void_after,
        imbalance: _,
        likely: _,
    } = *hand;
    let Made { count, monotonic_ns, raw_ns, suspended_ns, device } = *made;
    let mut words = [0; WORDS];
    words[BASE] = base.0;
    [words[TIME], words[TIME + 1]] = split(time.0);
    [words[PERIOD], words[PERIOD + 1]] = pack_period(period);
    words[GROWTH] = growth.0 as u64;
    words[STATE] = kind as u64 | ((status as u64) << 8) | (u64::from(epoch.0) << 32);
    [words[BOUND], words[BOUND + 1]] = split(hand.bound().0);
    words[VOID_AFTER] = void_after.0;
    words[PATIENCE_COUNTS] = period.counts(PATIENCE).0 as u64;
    [words[LEAPS], words[LAST_LEAP], words[NEXT_LEAP]] = PackedLeaps::from(leaps).0;
    words[DIFFERENCE_ERROR] = difference_error.0 as u64;
    [words[DIFFERENCE], words[DIFFERENCE + 1]] = pack_period(difference);
    [words[PATH_BOUND], words[PATH_BOUND + 1]] = split(path_bound.0);
    [words[BOOT], words[BOOT + 1]] = split(i128::from_be_bytes(boot.0));
    words[MADE_COUNT] = count.0;
    words[MADE_MONOTONIC] = monotonic_ns as u64;
    words[MADE_RAW] = raw_ns as u64;
    words[MADE_SUSPENDED] = suspended_ns as u64;
    words[DISPUTED] = pack_disputed(disputed);
    if let Some(Device { bits, by_raw }) = device {
        words[BITS] = bits.into();
        if let Some(ByRaw { period, error, pair }) = by_raw {
            [words[RAW_PERIOD], words[RAW_PERIOD + 1]] = pack_period(period);
            words[RAW_ERROR] = error.0 as u64;
            words[RAW_PAIR] = pair.0 as u64;
        }
    }
    words
}

/// Words beside those of a hand.
#[must_use]
pub fn pack_beside(hand: &Hand) -> Beside {
    let mut words = [0; BESIDE];
    let towards_zero = hand.imbalance.0 / (1 << COARSE);
    // What is too large for a word is left out: the interval is the wider for it.
    words[IMBALANCE] = i64::try_from(towards_zero).unwrap_or(0) as u64;
    if let Some(Likely { half, growth }) = hand.likely {
        let up = (half.0.max(1) - 1) >> COARSE;
        let fits = u64::try_from(up).ok().and_then(|up| up.checked_add(1));
        words[LIKELY] = fits.unwrap_or(0);
        words[LIKELY_GROWTH] = if fits.is_some() { growth.0 as u64 } else { 0 };
    }
    words
}

/// The hand with what stands beside its words.
///
/// # Errors
/// If that cannot be.
pub fn unpack_beside(hand: Hand, words: &Beside) -> Result<Hand, Corrupt> {
    let imbalance = imbalance(words[IMBALANCE]);
    let half = Span(i128::from(words[LIKELY]) << COARSE);
    let growth = Rate(words[LIKELY_GROWTH] as i64);
    let checks = [
        (imbalance.abs() <= hand.bound() || !hand.status.bound_holds(), "imbalance of the bound"),
        (growth >= Rate::ZERO && (half > Span::ZERO || growth == Rate::ZERO), "likely interval"),
    ];
    match checks.into_iter().find(|(right, _)| !right) {
        Some((_, field)) => Err(Corrupt { field }),
        None => {
            let likely = (half > Span::ZERO).then_some(Likely { half, growth });
            Ok(Hand { imbalance, likely, ..hand })
        }
    }
}

/// The hypervisor's disruption marker under which a hand was made: where it is another one, the
/// machine was migrated or restored since, and the hand means nothing any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marker {
    /// Number of the vmclock device: of `/dev/vmclockN`, or [`Marker::ELSEWHERE`].
    pub device: u16,
    /// Value of the marker.
    pub value: u64,
}

impl Marker {
    /// Number of a device that is elsewhere: who reads the hand knows where, or cannot look.
    pub const ELSEWHERE: u16 = u16::MAX - 1;

    /// Adds it to the words beside those of a hand.
    pub fn put(marker: Option<Marker>, words: &mut Beside) {
        if let Some(Marker { device, value }) = marker {
            words[VMCLOCK] = u64::from(device.min(Marker::ELSEWHERE)) + 1;
            words[MARKER] = value;
        }
    }

    /// Marker among the words beside those of a hand, if there is one.
    ///
    /// # Errors
    /// If what is there cannot be.
    pub fn get(words: &Beside) -> Result<Option<Marker>, Corrupt> {
        let (said, value) = (words[VMCLOCK], words[MARKER]);
        match u16::try_from(said) {
            Ok(0) if value == 0 => Ok(None),
            Ok(device @ 1..) => Ok(Some(Marker { device: device - 1, value })),
            _ => Err(Corrupt { field: "disruption marker" }),
        }
    }
}

/// The imbalance that a word is.
#[inline(always)]
pub(crate) fn imbalance(word: u64) -> Span {
    Span(i128::from(word as i64) << COARSE)
}

/// The hand that the words are of.
///
/// # Errors
/// If any field cannot be: words that are no hand never become time.
pub fn unpack(words: &Packed) -> Result<(Hand, Made), Corrupt> {
    let two = |at: usize| [word(words, at), word(words, at + 1)];
    let corrupt = |field| Corrupt { field };
    let state = State(words[STATE]);
    let (bound, path_bound) = (Span(join(two(BOUND))), Span(join(two(PATH_BOUND))));
    let hand = Hand {
        counter: CounterId {
            kind: CounterKind::from_u8(state.kind()).ok_or(corrupt("counter"))?,
            boot: BootId(join(two(BOOT)).to_be_bytes()),
            epoch: state.epoch(),
        },
        base: Count(words[BASE]),
        time: Instant(join(two(TIME))),
        period: unpack_period(two(PERIOD)).ok_or(corrupt("period"))?,
        difference: unpack_period(two(DIFFERENCE)).ok_or(corrupt("difference period"))?,
        difference_error: Rate(words[DIFFERENCE_ERROR] as i64),
        path_bound,
        statistical_bound: bound - path_bound,
        disputed: Span(i128::from(words[DISPUTED]) << COARSE),
        growth: Rate(words[GROWTH] as i64),
        status: Status::from_u8(state.status()).ok_or(corrupt("status"))?,
        leaps: PackedLeaps([words[LEAPS], words[LAST_LEAP], words[NEXT_LEAP]]).into(),
        void_after: Count(words[VOID_AFTER]),
        imbalance: Span::ZERO,
        likely: None,
    };
    let apart = hand.difference.relative_to(hand.period);
    let checks = [
        (state.0 & 0xffff_0000 == 0, "status"),
        (Span(hand.time.0).abs() < FARTHEST, "time"),
        (Rate(-PERIODS_APART.0) <= apart && apart <= PERIODS_APART, "difference period"),
        (hand.difference_error >= Rate::ZERO, "error of the difference period"),
        (!path_bound.is_negative() && path_bound <= bound, "bound"),
        (bound < FARTHEST || !hand.status.bound_holds(), "bound"),
        (hand.disputed <= hand.statistical_bound, "disputed part of the bound"),
        (hand.growth >= Rate::ZERO, "growth of the bound"),
        (words[PATIENCE_COUNTS] as i64 == hand.period.counts(PATIENCE).0, "patience"),
        (leaps_are_sane(words[LEAPS]), "leap second"),
    ];
    let made = Made {
        count: Count(words[MADE_COUNT]),
        monotonic_ns: words[MADE_MONOTONIC] as i64,
        raw_ns: words[MADE_RAW] as i64,
        suspended_ns: words[MADE_SUSPENDED] as i64,
        device: unpack_device(words, hand.period).map_err(corrupt)?,
    };
    match checks.into_iter().find(|(right, _)| !right) {
        Some((_, field)) => Err(corrupt(field)),
        None => Ok((hand, made)),
    }
}

/// Unpacks the means to read a counter that is a device, of which a count lasts `period`; or names
/// the field that cannot be.
fn unpack_device(words: &Packed, period: Period) -> Result<Option<Device>, &'static str> {
    let by_raw = [RAW_PERIOD, RAW_PERIOD + 1, RAW_ERROR, RAW_PAIR].map(|at| word(words, at));
    let bits = match u32::try_from(words[BITS]) {
        Ok(0) if by_raw == [0; 4] => return Ok(None),
        Ok(bits @ 1..=64) => bits,
        _ => return Err("width of the counter"),
    };
    let [high, low, error, pair] = by_raw;
    if by_raw == [0; 4] {
        return Ok(Some(Device { bits, by_raw: None }));
    }
    let by_raw = ByRaw {
        period: unpack_period([high, low]).ok_or("period by the raw clock")?,
        error: Rate(error as i64),
        pair: CountSpan(pair as i64),
    };
    let apart = by_raw.period.relative_to(period);
    let small = |rate| Rate(-PERIODS_APART.0) <= rate && rate <= PERIODS_APART;
    let checks = [
        (small(apart), "period by the raw clock"),
        (small(by_raw.error) && by_raw.error >= Rate::ZERO, "error of the period by the raw clock"),
        (
            by_raw.pair >= CountSpan::ZERO && period.span(by_raw.pair) <= LOOSEST_PAIR,
            "pair of count and raw clock",
        ),
    ];
    match checks.into_iter().find(|(right, _)| !right) {
        Some((_, field)) => Err(field),
        None => Ok(Some(Device { bits, by_raw: Some(by_raw) })),
    }
}

/// The small fields of a hand, side by side in one word.
#[derive(Clone, Copy)]
pub(crate) struct State(pub u64);

impl State {
    pub fn kind(self) -> u8 {
        self.0 as u8
    }

    pub fn status(self) -> u8 {
        (self.0 >> 8) as u8
    }

    pub fn epoch(self) -> Epoch {
        Epoch((self.0 >> 32) as u32)
    }
}

/// Disputed part in the page's unit: rounded down, so that it is never more than there is, and what
/// was known never less than was known; more than 2³² s is as good as that.
fn pack_disputed(disputed: Span) -> u64 {
    u64::try_from(disputed.0.max(0) >> COARSE).unwrap_or(u64::MAX)
}

fn word(words: &Packed, at: usize) -> u64 {
    words.get(at).copied().unwrap_or(0)
}

/// 128 bits as two words, the upper one first.
fn split(value: i128) -> [u64; 2] {
    [(value >> 64) as u64, value as u64]
}

/// Two words as 128 bits, the upper one first.
#[inline(always)]
pub(crate) fn join([high, low]: [u64; 2]) -> i128 {
    (i128::from(high as i64) << 64) | i128::from(low)
}

/// A period in units of 2⁻¹²⁸ s: then the upper half of a product with a count is in 2⁻⁶⁴ s, and
/// nothing is left to shift.
fn pack_period(period: Period) -> [u64; 2] {
    let fine = u128::from(period.mantissa()) << (64 - (u32::from(period.shift()) & 63));
    split(fine as i128)
}

/// The period that two words stand for, if there is one that packs into them.
fn unpack_period(words: [u64; 2]) -> Option<Period> {
    let fine = join(words) as u128;
    let shift = fine.leading_zeros();
    if shift > 63 {
        return None;
    }
    let mantissa = (fine >> (64 - shift)) as u64;
    Period::from_parts(mantissa, shift as u8).filter(|period| pack_period(*period) == words)
}

/// Leap seconds as three words, the way a hand holds them: offset, steps and a flag; the last
/// leap; the next. Cheap to carry about; any words stand for some [`Leaps`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackedLeaps(pub(crate) [u64; 3]);

/// A leap with a step of 0 is none and is left out.
impl From<Leaps> for PackedLeaps {
    fn from(leaps: Leaps) -> PackedLeaps {
        let real = |leap: Option<Leap>| leap.filter(|l| l.step != 0);
        let step = |leap| u64::from(real(leap).map_or(0, |l| l.step) as u8);
        let at = |leap| real(leap).map_or(0, |l| l.at) as u64;
        let word = u64::from(leaps.tai_offset as u32)
            | (step(leaps.last) << 32)
            | (step(leaps.next) << 40)
            | (u64::from(leaps.known) << 48);
        PackedLeaps([word, at(leaps.last), at(leaps.next)])
    }
}

impl From<PackedLeaps> for Leaps {
    fn from(PackedLeaps([word, last, next]): PackedLeaps) -> Leaps {
        let leap = |at: u64, step: i8| (step != 0).then_some(Leap { at: at as i64, step });
        Leaps {
            tai_offset: word as i32,
            known: (word >> 48) & 1 == 1,
            last: leap(last, (word >> 32) as i8),
            next: leap(next, (word >> 40) as i8),
        }
    }
}

/// Steps of one second or none, and nothing where nothing is known to be.
fn leaps_are_sane(word: u64) -> bool {
    let steps = [(word >> 32) as i8, (word >> 40) as i8];
    steps.iter().all(|s| (-1..=1).contains(s)) && word >> 49 == 0
}
