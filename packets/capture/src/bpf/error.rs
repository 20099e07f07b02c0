//! Error of anything about BPF.

use std::fmt;
use std::io;

/// Error of anything about BPF.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BpfError {
    /// Attempt that failed: "loading the XDP program `stamp`".
    pub doing: String,
    /// Cause, in the system's words or ours.
    pub why: String,
    /// Remedy, if known.
    pub mend: Option<String>,
    /// Words of the verifier, where it refused a program; else empty.
    pub log: String,
    /// The system's error number, if there was one.
    pub errno: Option<i32>,
}

/// The lines of the verifier's log that are shown: the last ones say what was wrong.
const LOG_LINES: usize = 24;

impl BpfError {
    /// An error of our own finding.
    pub(crate) fn ours(doing: impl Into<String>, why: impl Into<String>) -> BpfError {
        BpfError {
            doing: doing.into(),
            why: why.into(),
            mend: None,
            log: String::new(),
            errno: None,
        }
    }

    /// A system call's error; `capabilities` are those it needs ("cap_bpf,cap_net_admin").
    pub(crate) fn system(
        doing: impl Into<String>,
        error: &io::Error,
        capabilities: &str,
    ) -> BpfError {
        let errno = error.raw_os_error();
        let mend = match errno {
            Some(libc::EPERM | libc::EACCES) => Some(permission(capabilities)),
            Some(libc::ENOSYS) => Some("the kernel was built without BPF".to_owned()),
            _ => None,
        };
        BpfError { doing: doing.into(), why: error.to_string(), mend, log: String::new(), errno }
    }

    pub(crate) fn mend(mut self, mend: impl Into<String>) -> BpfError {
        self.mend = Some(mend.into());
        self
    }

    /// True if more rights would help.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        matches!(self.errno, Some(libc::EPERM | libc::EACCES)) && self.log.is_empty()
    }
}

fn permission(capabilities: &str) -> String {
    let mut mend =
        format!("run as root, or give the program the right: setcap {capabilities}+ep FILE");
    let setting = std::fs::read_to_string("/proc/sys/kernel/unprivileged_bpf_disabled");
    if let Ok(setting) = setting {
        mend.push_str(&format!(" (kernel.unprivileged_bpf_disabled is {})", setting.trim()));
    }
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if counts_locked_memory(&release) {
        mend.push_str(
            "; before Linux 5.11, also raise the limit of locked memory: `ulimit -l unlimited`",
        );
    }
    mend
}

/// True if a kernel of this release counts what BPF takes against `RLIMIT_MEMLOCK`, and says
/// "not permitted" where that is too little.
fn counts_locked_memory(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse().ok());
    let version: Option<(u32, u32)> = numbers.next().zip(numbers.next());
    version.is_some_and(|version| version < (5, 11))
}

impl fmt::Display for BpfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.doing, self.why)?;
        if let Some(mend) = &self.mend {
            write!(f, "; {mend}")?;
        }
        let lines: Vec<&str> = self.log.lines().collect();
        let shown = lines.get(lines.len().saturating_sub(LOG_LINES)..).unwrap_or_default();
        for (n, line) in shown.iter().enumerate() {
            write!(f, "{}{line}", if n == 0 { "\nthe verifier says:\n  " } else { "\n  " })?;
        }
        Ok(())
    }
}

impl std::error::Error for BpfError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_count_locked_memory() {
        for (release, counts) in [
            ("5.10.0-28-amd64", true),
            ("4.19.0\n", true),
            ("5.11.0", false),
            ("6.1.0-18", false),
            ("6.18.44-x\n", false),
            ("", false),
            ("odd", false),
        ] {
            assert_eq!(counts_locked_memory(release), counts, "{release}");
        }
    }
}
