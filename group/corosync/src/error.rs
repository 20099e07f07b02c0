//! Errors of Corosync, and what to do about them.

use std::error::Error;
use std::ffi::c_int;
use std::fmt;

/// Return codes of Corosync's functions (`cs_error_t`).
pub(crate) const OK: c_int = 1;
const ERR_LIBRARY: c_int = 2;
pub(crate) const ERR_TRY_AGAIN: c_int = 6;
const ERR_BAD_HANDLE: c_int = 9;
const ERR_ACCESS: c_int = 11;
pub(crate) const ERR_NOT_EXIST: c_int = 12;
pub(crate) const ERR_NO_SECTIONS: c_int = 27;
const ERR_SECURITY: c_int = 100;

/// Reason why something was not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CorosyncError {
    /// Corosync's libraries are not installed.
    NoLibrary {
        /// In the dynamic linker's words.
        why: String,
    },
    /// Nobody answers.
    NotRunning,
    /// This user may not connect.
    NoPermission {
        /// The user's number.
        user: u32,
    },
    /// Corosync has ended, or has closed the connection. The handle is dead.
    Gone,
    /// Corosync is too busy, or is still starting.
    Busy {
        /// Which function.
        call: &'static str,
    },
    /// A group's name is empty or too long.
    Name {
        /// The name.
        name: String,
    },
    /// Anything else.
    Other {
        /// Which function.
        call: &'static str,
        /// Code returned (`cs_error_t`).
        code: i32,
    },
}

impl CorosyncError {
    /// True if it may pass by itself, so that it is worth while to try again after a second.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, CorosyncError::NotRunning | CorosyncError::Gone | CorosyncError::Busy { .. })
    }
}

/// Checks the result of a function that opens a connection.
pub(crate) fn opened(call: &'static str, code: c_int) -> Result<(), CorosyncError> {
    match code {
        // Which of these it is when nobody listens differs from version to version.
        ERR_LIBRARY | ERR_NOT_EXIST => Err(CorosyncError::NotRunning),
        _ => checked(call, code),
    }
}

/// Checks the result of a function on a handle.
pub(crate) fn checked(call: &'static str, code: c_int) -> Result<(), CorosyncError> {
    Err(match code {
        OK => return Ok(()),
        ERR_LIBRARY | ERR_BAD_HANDLE => CorosyncError::Gone,
        ERR_TRY_AGAIN => CorosyncError::Busy { call },
        ERR_ACCESS | ERR_SECURITY => {
            CorosyncError::NoPermission { user: rustix::process::geteuid().as_raw() }
        }
        code => CorosyncError::Other { call, code },
    })
}

impl fmt::Display for CorosyncError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CorosyncError::NoLibrary { why } => write!(
                out,
                "Corosync's libraries: {why}; install them (`apt install libcpg4 libquorum5 \
                 libcmap4`, `dnf install corosynclib`)"
            ),
            CorosyncError::NotRunning => out.write_str(
                "Corosync does not answer: start it (`systemctl start corosync`), and see its log \
                 if it does not stay up",
            ),
            CorosyncError::NoPermission { user } => write!(
                out,
                "Corosync refuses user {user}: put `uidgid {{ uid: {user} }}` into \
                 /etc/corosync/uidgid.d/truechimer, then `corosync-cfgtool -R`; root needs none"
            ),
            CorosyncError::Gone => out.write_str(
                "Corosync has ended: this node is out of the ring until it is started again",
            ),
            CorosyncError::Busy { call } => {
                write!(out, "{call}: Corosync is busy or just starting: try again")
            }
            CorosyncError::Name { name } => write!(
                out,
                "a group's name has 1 to {} bytes, not {}: `{name}`",
                crate::LONGEST_NAME,
                name.len()
            ),
            CorosyncError::Other { call, code } => {
                write!(out, "{call}: Corosync's error {code} ({})", meaning(*code))
            }
        }
    }
}

/// In the words of `corotypes.h`.
fn meaning(code: i32) -> &'static str {
    match code {
        3 => "version",
        4 => "init",
        5 => "timeout",
        7 => "invalid parameter",
        8 => "no memory",
        10 => "busy",
        12 => "does not exist",
        13 => "name too long",
        14 => "exists",
        15 => "no space",
        16 => "interrupt",
        18 => "no resources",
        19 => "not supported",
        20 => "bad operation",
        21 => "failed operation",
        22 => "message error",
        26 => "too big",
        30 => "too many groups",
        _ => "see corotypes.h",
    }
}

impl Error for CorosyncError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_says_what_to_do() {
        let said = |error: CorosyncError| error.to_string();
        let lacking = said(CorosyncError::NoLibrary { why: "libcpg.so.4: none".to_owned() });
        assert!(lacking.contains("apt install libcpg4") && lacking.contains("libcpg.so.4"));
        assert!(said(CorosyncError::NotRunning).contains("systemctl start corosync"));
        let refused = said(CorosyncError::NoPermission { user: 990 });
        assert!(refused.contains("uidgid { uid: 990 }") && refused.contains("-R"), "{refused}");
        assert!(said(CorosyncError::Other { call: "cpg_join", code: 14 }).contains("exists"));
        let name = said(CorosyncError::Name { name: String::new() });
        assert!(name.contains("1 to 128"), "{name}");
    }

    #[test]
    fn what_may_pass_is_told_from_what_must_be_mended() {
        for (code, passing) in [(2, true), (6, true), (9, true), (11, false), (14, false)] {
            assert_eq!(checked("any", code).unwrap_err().is_passing(), passing, "{code}");
        }
        assert_eq!(opened("any", 2), Err(CorosyncError::NotRunning));
        assert_eq!(opened("any", 1), Ok(()));
    }
}
