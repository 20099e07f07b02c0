//! The kernel's clock discipline, adjtimex(2): asked by many, told by the daemon alone.
#![allow(unsafe_code)]

use std::io;

/// A request that asks for everything and changes nothing, to be filled in.
#[must_use]
pub fn timex() -> libc::timex {
    // SAFETY: plain integers, for which all zero is valid.
    unsafe { std::mem::zeroed() }
}

/// Does what the request's `modes` say, which takes a privilege if they say anything, and answers
/// in it; returns the state of the clock, from `TIME_OK` to `TIME_ERROR`.
///
/// # Errors
/// As adjtimex(2).
pub fn adjtimex(request: &mut libc::timex) -> io::Result<libc::c_int> {
    // SAFETY: the kernel reads and writes one timex.
    let state = unsafe { libc::adjtimex(&raw mut *request) };
    if state < 0 { Err(io::Error::last_os_error()) } else { Ok(state) }
}

/// State of the kernel's clock discipline of `CLOCK_REALTIME`.
#[derive(Clone, Copy, Debug)]
pub struct Discipline {
    /// Nobody has synchronised it, or not for long (`STA_UNSYNC`).
    pub unsynchronised: bool,
    /// The claimed bound of its error in µs.
    pub max_error_us: i64,
    /// The correction of its rate in ppm · 2¹⁶, positive = made to run faster.
    pub frequency: i64,
    /// Microseconds per tick of a hundredth of a second: 10 000 but for a coarse correction.
    pub tick: i64,
    /// TAI − UTC in seconds; 0 usually means that nobody has told it.
    pub tai: i32,
}

/// Asks for it; nothing is changed, and no privilege needed.
///
/// # Errors
/// Where the kernel does not say.
pub fn discipline() -> io::Result<Discipline> {
    let mut answer = timex();
    adjtimex(&mut answer)?;
    #[allow(clippy::useless_conversion)] // c_long has 32 bits on some targets
    Ok(Discipline {
        unsynchronised: answer.status & libc::STA_UNSYNC != 0,
        max_error_us: answer.maxerror.into(),
        frequency: answer.freq.into(),
        tick: answer.tick.into(),
        tai: answer.tai,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_discipline_is_asked() {
        let answer = discipline().unwrap();
        assert!((9_000..=11_000).contains(&answer.tick), "{answer:?}");
    }
}
