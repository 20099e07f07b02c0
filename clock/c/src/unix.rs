//! Times of the client and of C.
#![forbid(unsafe_code)]

use std::ffi::c_long;

use libc::timespec;
use truechimer::UnixNanos;

/// The time in the client's words; `None` if the nanoseconds are out of range.
pub(crate) fn time(from: &timespec) -> Option<UnixNanos> {
    let nanos = u32::try_from(from.tv_nsec).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(UnixNanos { seconds: from.tv_sec, nanos })
}

/// A time of the client's as C has it.
#[inline(always)]
pub(crate) fn timespec_of(from: UnixNanos) -> timespec {
    timespec { tv_sec: from.seconds, tv_nsec: from.nanos as c_long }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_through_as_they_are() {
        for nanos in [0, 1, 999_999_999] {
            let time_of_c = timespec { tv_sec: -5, tv_nsec: nanos.into() };
            let said = time(&time_of_c).unwrap();
            assert_eq!(said, UnixNanos { seconds: -5, nanos });
            let again = timespec_of(said);
            assert_eq!((again.tv_sec, again.tv_nsec), (-5, nanos.into()));
        }
        for tv_nsec in [-1, 1_000_000_000, c_long::MIN, c_long::MAX] {
            assert_eq!(time(&timespec { tv_sec: 1, tv_nsec }), None);
        }
    }
}
