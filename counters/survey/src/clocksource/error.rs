//! Reasons why a clocksource cannot be looked at or changed.

use std::fmt;
use std::io;
use std::path::PathBuf;

use truechimer_config::nearest;

/// Reason why a clocksource cannot be looked at or changed. The text names the remedy.
#[derive(Debug)]
pub enum ClocksourceError {
    /// A file of `/sys` cannot be read.
    Unreadable(PathBuf, io::Error),
    /// A file of `/sys` does not hold what the kernel writes there.
    Odd(PathBuf),
    /// A file of `/sys` cannot be written.
    Unwritable(PathBuf, io::Error),
    /// This one is in use only until the kernel has measured the one that will follow.
    Early(String),
    /// Another process of this program is changing it (this file) for a while.
    Busy(PathBuf),
    /// Lock against other processes of this program cannot be taken, for this path.
    Unlocked(PathBuf, io::Error),
    /// The kernel has none of this name.
    NotAvailable {
        /// The name.
        name: String,
        /// Those that it has.
        available: Vec<String>,
    },
    /// The kernel was told, and did not follow.
    Refused {
        /// Name that it was told.
        name: String,
        /// Clocksource in use.
        current: String,
    },
    /// Somebody else has changed the clocksource meanwhile.
    Changed {
        /// Clocksource as it should have been.
        ours: String,
        /// Clocksource found.
        found: String,
    },
}

impl fmt::Display for ClocksourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ClocksourceError::*;
        match self {
            Unreadable(path, why) => write!(f, "{}: {}", path.display(), plain(why)),
            Odd(path) => {
                write!(f, "{}: this is not what the kernel writes there", path.display())
            }
            Unwritable(path, why) => {
                write!(f, "{}: {}", path.display(), plain(why))?;
                match why.kind() {
                    io::ErrorKind::PermissionDenied => {
                        f.write_str(": only root may change the clocksource (sudo)")
                    }
                    io::ErrorKind::ReadOnlyFilesystem => f.write_str(
                        ": /sys is read-only here, as in most containers; do it on the host",
                    ),
                    _ => Ok(()),
                }
            }
            Early(name) => write!(
                f,
                "the kernel keeps time by '{name}' for the first seconds after boot, and could not \
                 go back to it: try again in some seconds"
            ),
            Busy(path) => write!(
                f,
                "{}: another process of this program is changing the clocksource for a while: wait \
                 until it has put it back",
                path.display()
            ),
            Unlocked(path, why) => write!(f, "{}: {}", path.display(), plain(why)),
            NotAvailable { name, available } => {
                write!(f, "the kernel has no clocksource '{}'", name.escape_debug())?;
                let early = format!("{name}-early");
                if available.contains(&early) {
                    write!(
                        f,
                        " yet, only '{early}', which it still measures: try again in some seconds"
                    )?;
                } else if let Some(near) = nearest(name, available) {
                    write!(f, ", did you mean '{near}'?")?;
                }
                write!(f, " (available: {}", available.join(" "))?;
                if known(name) {
                    f.write_str(
                        "; one that it found unstable, or that the machine lacks, is not among them",
                    )?;
                }
                f.write_str(")")
            }
            Refused { name, current } => write!(
                f,
                "the kernel did not accept the clocksource '{name}' and uses '{current}': the \
                 kernel log (dmesg) says why, for instance that it is unstable"
            ),
            Changed { ours, found } => write!(
                f,
                "somebody else has changed the clocksource from '{ours}' to '{found}' meanwhile, or \
                 the kernel found '{ours}' unreliable (dmesg says so); it is left so"
            ),
        }
    }
}

impl std::error::Error for ClocksourceError {}

/// Without the number of the error, which tells nobody anything.
fn plain(why: &io::Error) -> String {
    let text = why.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// Names that the kernel's clocksources have on some machine.
fn known(name: &str) -> bool {
    ["tsc", "hpet", "acpi_pm", "kvm-clock", "arch_sys_counter", "jiffies"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_mend() {
        let denied = io::Error::from_raw_os_error(libc::EACCES);
        let text = ClocksourceError::Unwritable("/x".into(), denied).to_string();
        assert_eq!(text, "/x: Permission denied: only root may change the clocksource (sudo)");
        let early = ClocksourceError::NotAvailable {
            name: "tsc".into(),
            available: vec!["tsc-early".into(), "hpet".into()],
        };
        assert!(early.to_string().contains("try again in some seconds"), "{early}");
        let gone = ClocksourceError::NotAvailable {
            name: "tsc".into(),
            available: vec!["hpet".into(), "acpi_pm".into()],
        };
        assert!(gone.to_string().contains("found unstable"), "{gone}");
    }
}
