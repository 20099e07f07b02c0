//! Numbers for errors and statuses, and their texts.
#![forbid(unsafe_code)]

use std::ffi::{CStr, c_int};

use truechimer::{OpenError, PageError, ReadError, WaitError};

/// Status: never synchronised, or too old to say; no bound is promised.
pub const TRUECHIMER_UNKNOWN: c_int = 0;
/// Status: the clock follows its sources; the bound holds.
pub const TRUECHIMER_SYNCHRONISED: c_int = 1;
/// Status: no fresh word from any source, or no daemon; the bound holds and grows.
pub const TRUECHIMER_HOLDOVER: c_int = 2;
/// Status: the counter lost its continuity (suspend, migration, a jump); nothing is promised until
/// the clock has synchronised again.
pub const TRUECHIMER_DISRUPTED: c_int = 3;

/// Error: an argument is a null pointer or out of range.
pub const TRUECHIMER_E_ARGUMENT: c_int = -1;
/// Error: there is no clock page where one was looked for.
pub const TRUECHIMER_E_NO_PAGE: c_int = -2;
/// Error: the system refused to open or map the page.
pub const TRUECHIMER_E_SYSTEM: c_int = -3;
/// Error: the page belongs to somebody, or can be written by somebody, who must not be trusted.
pub const TRUECHIMER_E_UNTRUSTED: c_int = -4;
/// Error: the file is not a clock page.
pub const TRUECHIMER_E_FOREIGN: c_int = -5;
/// Error: the file is too short for a clock page, or nobody has finished making it.
pub const TRUECHIMER_E_SHORT: c_int = -6;
/// Error: the page has another version of the layout.
pub const TRUECHIMER_E_VERSION: c_int = -7;
/// Error: the page holds what no daemon writes.
pub const TRUECHIMER_E_CORRUPT: c_int = -8;
/// Error: the page was left by another boot, and no daemon tends it.
pub const TRUECHIMER_E_OTHER_BOOT: c_int = -9;
/// Error: this process cannot read the counter that the clock goes by.
pub const TRUECHIMER_E_COUNTER: c_int = -10;
/// Error: the clock is not set yet.
pub const TRUECHIMER_E_NOT_YET: c_int = -11;
/// Error: the counter lost its continuity since that moment, so that nobody knows when it was; or
/// the moment is of another counter than the clock goes by now.
pub const TRUECHIMER_E_OTHER_EPOCH: c_int = -12;
/// Error: the counter has just lost its continuity, and no daemon has caught up with it yet.
pub const TRUECHIMER_E_DISRUPTED: c_int = -13;
/// Error: the page is so old that it promises nothing for that moment; or the moment is not over,
/// or of another boot.
pub const TRUECHIMER_E_VOID: c_int = -14;
/// Error: what was waited for did not come in time.
pub const TRUECHIMER_E_TIMEOUT: c_int = -15;
/// Error: something that this version of the library has no number for.
pub const TRUECHIMER_E_OTHER: c_int = -16;

/// The text of what a function returned.
pub(crate) fn text(code: c_int) -> &'static CStr {
    match code {
        0.. => c"no error",
        TRUECHIMER_E_ARGUMENT => c"an argument is a null pointer or out of range",
        TRUECHIMER_E_NO_PAGE => {
            c"there is no clock page: start a daemon (truechimer run --server HOST), or name its page ($TRUECHIMER_PAGE)"
        }
        TRUECHIMER_E_SYSTEM => c"the system refused to open or map the clock page",
        TRUECHIMER_E_UNTRUSTED => {
            c"the clock page belongs to, or can be written by, a user that must not be trusted"
        }
        TRUECHIMER_E_FOREIGN => c"the file is not a clock page",
        TRUECHIMER_E_SHORT => {
            c"the clock page is too short, or nobody has finished making it: is the daemon running?"
        }
        TRUECHIMER_E_VERSION => {
            c"the clock page is of another version: program and daemon do not go together"
        }
        TRUECHIMER_E_CORRUPT => {
            c"the clock page holds what no daemon writes: restart the daemon that writes it"
        }
        TRUECHIMER_E_OTHER_BOOT => {
            c"the clock page was left by another boot, and no daemon tends it: start one"
        }
        TRUECHIMER_E_COUNTER => c"this process cannot read the counter that the clock goes by",
        TRUECHIMER_E_NOT_YET => {
            c"the clock is not set yet: the daemon is starting, has not reached its servers, or is gone"
        }
        TRUECHIMER_E_OTHER_EPOCH => {
            c"the counter lost its continuity since that moment, or it is of another counter"
        }
        TRUECHIMER_E_DISRUPTED => {
            c"the counter lost its continuity: wait until the daemon has synchronised again"
        }
        TRUECHIMER_E_VOID => {
            c"the clock page is too old to say (is the daemon still running, and does it reach its servers?), or that moment is not over"
        }
        TRUECHIMER_E_TIMEOUT => c"what was waited for did not come in time",
        TRUECHIMER_E_OTHER => c"an error that this version of the library has no number for",
        _ => c"no number of an error",
    }
}

/// Text of an error for what is not C.
pub(crate) fn words(code: c_int) -> &'static str {
    text(code).to_str().unwrap_or_default()
}

/// The name of a status, in lower case.
pub(crate) fn status_name(status: c_int) -> &'static CStr {
    match status {
        TRUECHIMER_UNKNOWN => c"unknown",
        TRUECHIMER_SYNCHRONISED => c"synchronised",
        TRUECHIMER_HOLDOVER => c"holdover",
        TRUECHIMER_DISRUPTED => c"disrupted",
        _ => c"no status",
    }
}

pub(crate) fn of_open(error: &OpenError) -> c_int {
    match error {
        OpenError::NoPage { .. } => TRUECHIMER_E_NO_PAGE,
        OpenError::Page(page) => match page {
            PageError::Missing { .. } => TRUECHIMER_E_NO_PAGE,
            PageError::Owner { .. } | PageError::Writable { .. } => TRUECHIMER_E_UNTRUSTED,
            PageError::NotAFile { .. } | PageError::Foreign { .. } => TRUECHIMER_E_FOREIGN,
            PageError::Unfinished { .. } => TRUECHIMER_E_SHORT,
            PageError::Version { .. } => TRUECHIMER_E_VERSION,
            PageError::Damaged { .. } => TRUECHIMER_E_CORRUPT,
            _ => TRUECHIMER_E_SYSTEM,
        },
        OpenError::OtherBoot { .. } => TRUECHIMER_E_OTHER_BOOT,
        OpenError::Corrupt { .. } => TRUECHIMER_E_CORRUPT,
        OpenError::Counter(_) | OpenError::Unreadable(_) => TRUECHIMER_E_COUNTER,
        _ => TRUECHIMER_E_OTHER,
    }
}

/// The number of a wait in vain: why there was no time at all says more than that it was over.
pub(crate) fn of_wait(error: WaitError) -> c_int {
    error.last.map_or_else(of_read, |_| TRUECHIMER_E_TIMEOUT)
}

#[cold]
pub(crate) fn of_read(error: ReadError) -> c_int {
    of(&error)
}

pub(crate) fn of(error: &ReadError) -> c_int {
    match error {
        ReadError::NotYet { .. } => TRUECHIMER_E_NOT_YET,
        ReadError::Corrupt(_) => TRUECHIMER_E_CORRUPT,
        ReadError::Counter(_) | ReadError::Unreadable(_) => TRUECHIMER_E_COUNTER,
        ReadError::OtherEpoch { .. } | ReadError::OtherCounter { .. } => TRUECHIMER_E_OTHER_EPOCH,
        ReadError::Disrupted => TRUECHIMER_E_DISRUPTED,
        ReadError::Void | ReadError::NotOver => TRUECHIMER_E_VOID,
        _ => TRUECHIMER_E_OTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer::Status;

    #[test]
    fn every_error_has_a_text_of_its_own() {
        let texts: Vec<_> = (TRUECHIMER_E_OTHER - 1..=0).map(text).collect();
        for (i, one) in texts.iter().enumerate() {
            assert!(!texts[i + 1..].contains(one), "{one:?}");
        }
    }

    #[test]
    fn statuses_are_those_of_the_client() {
        for n in 0..=u8::MAX {
            let name = status_name(n.into()).to_str().unwrap();
            assert_eq!(name, Status::from_u8(n).map_or("no status", Status::name));
        }
    }
}
