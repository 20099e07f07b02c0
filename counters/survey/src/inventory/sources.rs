//! Where the facts about a machine are read: its own files, or a copy of another machine's.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::cpuid::Cpuid;

/// No file read here is larger than this; /proc/cpuinfo takes some 2 kB per CPU.
const LARGEST: u64 = 8 << 20;

/// The places that facts come from.
#[derive(Clone, Debug)]
pub struct Sources {
    /// Place of `/sys` of the machine described.
    pub sys: PathBuf,
    /// Place of `/proc`.
    pub proc: PathBuf,
    /// Place of `/dev/kmsg`: the device, or a file with what was read from it or what `dmesg` says.
    pub kmsg: PathBuf,
    /// The processor's own word.
    pub cpuid: Cpuid,
    /// True if this is the machine that the program runs on, so that counters can be measured.
    pub live: bool,
}

impl Sources {
    /// This machine.
    #[must_use]
    pub fn here() -> Sources {
        Sources {
            sys: "/sys".into(),
            proc: "/proc".into(),
            kmsg: "/dev/kmsg".into(),
            cpuid: Cpuid::Here,
            live: true,
        }
    }

    /// Another machine, from files copied off it: `ROOT/sys`, `ROOT/proc`, `ROOT/dev/kmsg` and
    /// `ROOT/cpuid` (what `cpuid -1 -r` prints), each of which may be missing.
    #[must_use]
    pub fn under(root: &Path) -> Sources {
        let table = text(&root.join("cpuid")).ok().map(|text| Cpuid::parse(&text));
        Sources {
            sys: root.join("sys"),
            proc: root.join("proc"),
            kmsg: root.join("dev/kmsg"),
            cpuid: table.unwrap_or(Cpuid::Nothing),
            live: false,
        }
    }

    /// The text of a file in `/sys`, without white space around it.
    pub(super) fn sys(&self, path: &str) -> Result<String, String> {
        text(&self.sys.join(path)).map(|text| text.trim().to_owned())
    }

    /// The text of a file in `/proc`.
    pub(super) fn proc(&self, path: &str) -> Result<String, String> {
        text(&self.proc.join(path))
    }
}

/// Opens a file without ever waiting for anybody (a pipe, say).
pub(super) fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Content of a file, as far as it is read here.
pub(super) fn bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of a file; bytes that are none become U+FFFD.
pub(super) fn text(path: &Path) -> Result<String, String> {
    let failed = |why: std::io::Error| format!("{}: {}", path.display(), plain(&why));
    Ok(String::from_utf8_lossy(&bytes(path).map_err(failed)?).into_owned())
}

/// Words for what went wrong, without the number that means nothing to people.
pub(super) fn plain(why: &std::io::Error) -> String {
    let text = why.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Single numbers and ranges as the kernel writes lists of CPUs (`0-3,8,10-11`); `None` if it is
/// anything else, or more CPUs than there can be.
pub(super) fn cpu_list(text: &str) -> Option<Vec<u32>> {
    const MOST: u32 = 1 << 16;
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if first > last || last >= MOST || cpus.len() > MOST as usize {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_of_cpus() {
        assert_eq!(cpu_list("0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(cpu_list("0"), Some(vec![0]));
        assert_eq!(cpu_list("\n"), Some(vec![]));
        for bad in ["3-1", "a", "0-4294967295", "-1", "1-", "0-70000"] {
            assert_eq!(cpu_list(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_list_of_cpus_is_read_back(mut cpus in proptest::collection::vec(0u32..5000, 0..40)) {
            cpus.sort_unstable();
            cpus.dedup();
            let text: Vec<String> = cpus.iter().map(u32::to_string).collect();
            prop_assert_eq!(cpu_list(&text.join(",")), Some(cpus));
        }

        #[test]
        fn no_text_upsets_the_list(text in "[-0-9, a]{0,40}") {
            if let Some(cpus) = cpu_list(&text) {
                prop_assert!(cpus.len() < 2 << 20);
            }
        }
    }
}
