//! The kernel's choice of clocksource: looked at, changed, put back.
//!
//! All of it goes through a folder of `/sys`. Writing a name there changes the clock of every
//! process on the machine at once; the kernel takes any name without complaint and goes on with
//! what it has if it does not like it, so that what was written is always read back.

mod error;
mod switch;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

pub use error::ClocksourceError;
pub use switch::{Restored, Switch};

/// Where the kernel tells of its clocksources.
pub const FOLDER: &str = "/sys/devices/system/clocksource/clocksource0";

/// File that is locked while the clocksource is changed for a while: in a directory that is root's
/// alone and empty after a boot. (Nothing is made in `/sys`, and its files can be locked by all.)
const LOCKED: &str = "/run/truechimer-clocksource";
const CURRENT: &str = "current_clocksource";
const AVAILABLE: &str = "available_clocksource";
/// A page of `/sys` is no longer.
const MOST_TEXT: usize = 4096;
/// Number of looks whether the kernel has followed, and the time between them.
const LOOKS: u32 = 20;
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The kernel's clocksources.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clocksources {
    folder: PathBuf,
    /// Where a name is written: in the folder, but for tests of a kernel that does not listen.
    file: PathBuf,
    /// File that is locked while it is changed for a while.
    locked: PathBuf,
}

impl Default for Clocksources {
    fn default() -> Clocksources {
        Clocksources::at(FOLDER)
    }
}

impl Clocksources {
    /// Those of another folder, for tests.
    #[must_use]
    pub fn at(folder: impl AsRef<Path>) -> Clocksources {
        let folder = folder.as_ref().to_owned();
        let file = folder.join(CURRENT);
        let locked = if folder == Path::new(FOLDER) { LOCKED.into() } else { file.clone() };
        Clocksources { file, locked, folder }
    }

    /// The file to which a name is written.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The clocksource in use.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn current(&self) -> Result<String, ClocksourceError> {
        let mut names = self.names(CURRENT)?;
        match (names.pop(), names.len()) {
            (Some(name), 0) => Ok(name),
            _ => Err(ClocksourceError::Odd(self.folder.join(CURRENT))),
        }
    }

    /// The clocksources that could be used, the kernel's best first. One that it found unstable is
    /// not among them.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn available(&self) -> Result<Vec<String>, ClocksourceError> {
        let names = self.names(AVAILABLE)?;
        if names.is_empty() {
            return Err(ClocksourceError::Odd(self.folder.join(AVAILABLE)));
        }
        Ok(names)
    }

    fn names(&self, file: &str) -> Result<Vec<String>, ClocksourceError> {
        let path = self.folder.join(file);
        let text = fs::read_to_string(&path)
            .map_err(|why| ClocksourceError::Unreadable(path.clone(), why))?;
        let names: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let plain = |name: &String| name.chars().all(|c| c.is_ascii_graphic());
        if text.len() > MOST_TEXT || !names.iter().all(plain) {
            return Err(ClocksourceError::Odd(path));
        }
        Ok(names)
    }

    /// Makes sure that the kernel has a clocksource of this name.
    ///
    /// # Errors
    /// Where it has not: with the one that may have been meant.
    pub fn check(&self, name: &str) -> Result<(), ClocksourceError> {
        let available = self.available()?;
        if available.iter().any(|other| other == name) {
            return Ok(());
        }
        Err(ClocksourceError::NotAvailable { name: name.to_owned(), available })
    }

    /// Makes sure that this process may change the clocksource, and changes nothing.
    ///
    /// # Errors
    /// Where it may not.
    pub fn writable(&self) -> Result<(), ClocksourceError> {
        let opened = fs::OpenOptions::new().write(true).open(&self.file);
        opened.map(drop).map_err(|why| ClocksourceError::Unwritable(self.file.clone(), why))
    }

    /// Makes the kernel keep time by this clocksource, for good (until the next boot), and makes
    /// sure that it does.
    ///
    /// # Errors
    /// Where there is none of this name, the right to change it is missing, or the kernel refuses.
    pub fn select(&self, name: &str) -> Result<(), ClocksourceError> {
        self.check(name)?;
        self.write(name)
    }

    fn write(&self, name: &str) -> Result<(), ClocksourceError> {
        let path = self.file.clone();
        // No file is made where there is none.
        let file = fs::OpenOptions::new().write(true).truncate(true).open(&path);
        let written = file.and_then(|mut file| {
            // In one go: the kernel takes each write for a whole name.
            std::io::Write::write_all(&mut file, format!("{name}\n").as_bytes())
        });
        written.map_err(|why| ClocksourceError::Unwritable(path, why))?;
        let mut found = self.current()?;
        for _ in 0..LOOKS {
            if found == name {
                return Ok(());
            }
            thread::sleep(LOOK_AGAIN);
            found = self.current()?;
        }
        Err(ClocksourceError::Refused { name: name.to_owned(), current: found })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A folder as the kernel's, which follows every write as a plain file does.
    pub(crate) struct Fake(PathBuf);

    impl Fake {
        pub(crate) fn new(current: &str, available: &str) -> Fake {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("truechimer-clocksource-test-{}-{n}", std::process::id());
            let fake = Fake(std::env::temp_dir().join(name));
            fs::create_dir(&fake.0).unwrap();
            fake.put(CURRENT, current);
            fake.put(AVAILABLE, available);
            fake
        }

        pub(crate) fn put(&self, file: &str, text: &str) {
            fs::write(self.0.join(file), format!("{text}\n")).unwrap();
        }

        pub(crate) fn remove(&self, file: &str) {
            fs::remove_file(self.0.join(file)).unwrap();
        }

        pub(crate) fn sources(&self) -> Clocksources {
            Clocksources::at(&self.0)
        }

        /// File with what that kernel was told last.
        pub(crate) fn deaf_file(&self) -> PathBuf {
            self.0.join("written")
        }

        /// Clocksources of a kernel that takes every name and goes on with what it has.
        pub(crate) fn deaf(&self) -> Clocksources {
            self.put("written", "");
            Clocksources { file: self.0.join("written"), ..self.sources() }
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_the_kernel_says_is_read() {
        let fake = Fake::new("tsc", "tsc hpet acpi_pm ");
        let sources = fake.sources();
        assert_eq!(sources.current().unwrap(), "tsc");
        assert_eq!(sources.available().unwrap(), ["tsc", "hpet", "acpi_pm"]);
    }

    #[test]
    fn what_it_never_says_is_refused() {
        let fake = Fake::new("tsc hpet", "");
        let sources = fake.sources();
        for odd in ["tsc hpet", "", "ts\u{1b}[2Jc", &"x".repeat(5000)] {
            fake.put(CURRENT, odd);
            let text = sources.current().unwrap_err().to_string();
            assert!(text.contains("current_clocksource") && !text.contains('\u{1b}'), "{text}");
        }
        assert!(sources.available().unwrap_err().to_string().contains("available_clocksource"));
        fake.remove(CURRENT);
        let text = sources.current().unwrap_err().to_string();
        assert!(text.contains("current_clocksource: No such file"), "{text}");
        assert!(sources.select("tsc").is_err());
    }

    #[test]
    fn selecting_is_verified() {
        let fake = Fake::new("tsc", "tsc hpet acpi_pm");
        let sources = fake.sources();
        sources.select("hpet").unwrap();
        assert_eq!(sources.current().unwrap(), "hpet");
        let text = sources.select("htep").unwrap_err().to_string();
        assert!(text.contains("'htep'") && text.contains("'hpet'"), "{text}");
        assert!(text.contains("tsc hpet acpi_pm"), "{text}");
        let text = sources.select("tsc\nhpet").unwrap_err().to_string();
        assert!(!text.contains('\n'), "{text}");
        assert_eq!(sources.current().unwrap(), "hpet");
    }

    #[test]
    fn a_refusal_is_noticed() {
        let fake = Fake::new("tsc", "tsc hpet");
        let text = fake.deaf().select("hpet").unwrap_err().to_string();
        assert!(text.contains("'hpet' and uses 'tsc'") && text.contains("dmesg"), "{text}");
        fake.deaf().select("tsc").unwrap();
    }

    #[test]
    fn this_machine_has_what_it_uses() {
        // Where there is a kernel without /sys, the error is all there is to look at.
        let sources = Clocksources::default();
        match (sources.current(), sources.available()) {
            (Ok(current), Ok(available)) => assert!(available.contains(&current), "{available:?}"),
            (Err(why), _) | (_, Err(why)) => assert!(why.to_string().contains(FOLDER)),
        }
    }
}
