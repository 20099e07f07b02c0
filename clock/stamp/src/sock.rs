//! Samples of receivers' programs as datagrams: chrony's protocol SOCK (`refclock_sock.c`, chrony 4).
//!
//! A datagram is a `struct sock_sample` in the machine's own byte order. It says what
//! `CLOCK_REALTIME` showed at a moment, and by how much true time was ahead of that.

/// Longest datagram of the protocol, bytes.
pub const LONGEST: usize = 40;

/// Bytes where the seconds and microseconds have 64 bits each.
const WIDE: usize = 40;
/// Bytes where they have 32, as 32-bit programs write it.
const NARROW: usize = 32;
/// The last field: "SOCK".
const MAGIC: i32 = 0x534f_434b;
/// The furthest that a sample may be from 1970, s: far beyond what counts, far below what overflows.
const FURTHEST: i64 = 1 << 33;

/// A sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SockSample {
    /// `CLOCK_REALTIME` at the moment of the measurement: Unix time in ns.
    pub unix_ns: i64,
    /// Reference time then: Unix time in ns, UTC.
    pub true_ns: i64,
    /// Only the fraction of its second is told.
    pub pulse: bool,
    /// Leap indicator (0 none, 1 insert, 2 delete, 3 unsynchronised).
    pub leap: u8,
}

/// Reasons why a datagram is no sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SockError {
    /// Of another length.
    Length(usize),
    /// Without the protocol's mark.
    Magic,
    /// A time that no clock shows.
    Time,
    /// An offset that is no number, or leads nowhere.
    Offset,
    /// A leap indicator that there is not.
    Leap,
}

impl std::fmt::Display for SockError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SockError::Length(bytes) => write!(f, "{bytes} bytes, and a sample has {WIDE}"),
            SockError::Magic => f.write_str("without the mark of a sample (0x534f434b)"),
            SockError::Time => f.write_str("a time that no clock shows"),
            SockError::Offset => f.write_str("an offset that is no number of seconds"),
            SockError::Leap => f.write_str("a leap indicator that is not 0 to 3"),
        }
    }
}

impl std::error::Error for SockError {}

/// The bytes of a field, if they are there.
fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Reads a datagram. Nothing in it is trusted.
///
/// # Errors
/// If it is no sample.
pub fn parse(bytes: &[u8]) -> Result<SockSample, SockError> {
    let length = SockError::Length(bytes.len());
    let number = |at| field(bytes, at).map(i32::from_ne_bytes).ok_or(length);
    let (secs, micros, rest) = match bytes.len() {
        WIDE => {
            let wide = |at| field(bytes, at).map(i64::from_ne_bytes).ok_or(length);
            (wide(0)?, wide(8)?, 16)
        }
        NARROW => (number(0)?.into(), number(4)?.into(), 8),
        _ => return Err(length),
    };
    let offset = field(bytes, rest).map(f64::from_ne_bytes).ok_or(length)?;
    let [pulse, leap, magic] = [number(rest + 8)?, number(rest + 12)?, number(rest + 20)?];
    if magic != MAGIC {
        return Err(SockError::Magic);
    }
    if !(0..FURTHEST).contains(&secs) || !(0..1_000_000).contains(&micros) {
        return Err(SockError::Time);
    }
    let offset = offset * 1e9;
    let furthest = FURTHEST as f64 * 1e9;
    // What is no number is in no range.
    if !(-furthest..furthest).contains(&offset) {
        return Err(SockError::Offset);
    }
    let leap = u8::try_from(leap).ok().filter(|leap| *leap <= 3).ok_or(SockError::Leap)?;
    let unix_ns = secs * 1_000_000_000 + micros * 1000;
    let true_ns = unix_ns.checked_add(offset.round() as i64).ok_or(SockError::Offset)?;
    if !(0..FURTHEST * 1_000_000_000).contains(&true_ns) {
        return Err(SockError::Offset);
    }
    Ok(SockSample { unix_ns, true_ns, pulse: pulse != 0, leap })
}

/// Writes a sample as this machine's programs do.
#[must_use]
pub fn write(sample: &SockSample) -> [u8; WIDE] {
    let SockSample { unix_ns, true_ns, pulse, leap } = *sample;
    // Whole microseconds: the rest goes into the offset.
    let micros = unix_ns.div_euclid(1000);
    let offset = true_ns.saturating_sub(micros.saturating_mul(1000)) as f64 / 1e9;
    let mut bytes = [0; WIDE];
    let parts: [&[u8]; 7] = [
        &micros.div_euclid(1_000_000).to_ne_bytes(),
        &micros.rem_euclid(1_000_000).to_ne_bytes(),
        &offset.to_ne_bytes(),
        &i32::from(pulse).to_ne_bytes(),
        &i32::from(leap).to_ne_bytes(),
        &[0; 4],
        &MAGIC.to_ne_bytes(),
    ];
    for (to, from) in bytes.iter_mut().zip(parts.into_iter().flatten()) {
        *to = *from;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SAMPLE: SockSample = SockSample {
        unix_ns: 1_800_000_000_123_456_000,
        true_ns: 1_800_000_001_000_000_000,
        pulse: false,
        leap: 0,
    };

    #[test]
    fn a_sample_as_chrony_lays_it_out() {
        let bytes = write(&SAMPLE);
        assert_eq!(bytes[0..8], 1_800_000_000i64.to_ne_bytes());
        assert_eq!(bytes[8..16], 123_456i64.to_ne_bytes());
        assert_eq!(bytes[16..24], 0.876_544f64.to_ne_bytes());
        assert_eq!(bytes[36..40], 0x534f_434bi32.to_ne_bytes());
        assert_eq!(parse(&bytes), Ok(SAMPLE));
        // As a program of 32 bits has it.
        let narrow = [&1_800_000_000i32.to_ne_bytes()[..], &123_456i32.to_ne_bytes(), &bytes[16..]];
        assert_eq!(parse(&narrow.concat()), Ok(SAMPLE));
    }

    #[test]
    fn what_is_no_sample_is_refused_by_name() {
        let bytes = write(&SAMPLE);
        let with = |at: usize, new: &[u8]| {
            let mut bytes = bytes;
            bytes[at..at + new.len()].copy_from_slice(new);
            parse(&bytes).unwrap_err()
        };
        assert_eq!(parse(&bytes[..39]), Err(SockError::Length(39)));
        assert_eq!(parse(&[]), Err(SockError::Length(0)));
        assert_eq!(with(36, &[0]), SockError::Magic);
        assert_eq!(with(0, &(-1i64).to_ne_bytes()), SockError::Time);
        assert_eq!(with(0, &i64::MAX.to_ne_bytes()), SockError::Time);
        assert_eq!(with(8, &1_000_000i64.to_ne_bytes()), SockError::Time);
        for offset in [f64::NAN, f64::INFINITY, -f64::INFINITY, 1e300, -1e300, -2e9, 9e9] {
            assert_eq!(with(16, &offset.to_ne_bytes()), SockError::Offset, "{offset}");
        }
        for leap in [-1, 4, 256] {
            assert_eq!(with(28, &i32::to_ne_bytes(leap)), SockError::Leap, "{leap}");
        }
    }

    proptest! {
        #[test]
        fn no_datagram_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn any_sample_comes_back(
            unix_ns in 0i64..5_000_000_000_000_000_000,
            by in -1_000_000_000_000i64..1_000_000_000_000,
            (pulse, leap) in (any::<bool>(), 0u8..4),
        ) {
            let unix_ns = unix_ns / 1000 * 1000;
            let sample = SockSample { unix_ns, true_ns: (unix_ns + by).max(0), pulse, leap };
            let found = parse(&write(&sample)).unwrap();
            prop_assert!((found.true_ns - sample.true_ns).abs() <= 1, "{found:?}");
            prop_assert_eq!(SockSample { true_ns: sample.true_ns, ..found }, sample);
        }

        /// Whatever is taken is a time, and bytes that are changed at random are mostly refused.
        #[test]
        fn what_is_taken_is_sound(at in 0usize..40, byte in any::<u8>()) {
            let mut bytes = write(&SAMPLE);
            bytes[at] = byte;
            if let Ok(sample) = parse(&bytes) {
                prop_assert!(sample.leap <= 3 && sample.unix_ns >= 0 && sample.true_ns >= 0);
            }
        }
    }
}
