//! The hypervisor's word that the machine was migrated or restored: its vmclock page, if there is
//! one.

use truechimer_config::Place;
use truechimer_counter::vmclock::{self, Vmclock};
use truechimer_engine::{Event, Level};
use truechimer_timehands::Marker;

/// A disruption marker that changed.
const MIGRATED: &str =
    "the hypervisor says that the machine was migrated or restored (disruption marker)";
/// A generation that changed alone.
const RESTORED: &str =
    "the hypervisor says that the machine was restored from a snapshot, or cloned (generation)";

/// The page, and what it said when the epoch of the clock's counts began.
#[derive(Debug)]
pub(crate) struct Hypervisor {
    page: Vmclock,
    marker: u64,
    generation: Option<u64>,
}

impl Hypervisor {
    /// Opens the page where the settings have it, and says what the user should know of that.
    pub(crate) fn open(place: &Place) -> (Option<Hypervisor>, Option<(Level, String)>) {
        let (path, wanted) = match place {
            Place::None => return (None, None),
            // Inside a simulator the counter is not the machine's.
            Place::Default if truechimer_counter::is_simulated() => return (None, None),
            Place::Default => (vmclock::place(), vmclock::chosen().is_some()),
            Place::At(path) => (path.clone(), true),
        };
        match Vmclock::open(path) {
            Ok(page) => {
                let (marker, generation) = (page.marker(), page.generation());
                let text = format!(
                    "{} tells when the machine was migrated or restored (vmclock)",
                    page.path().display()
                );
                (Some(Hypervisor { page, marker, generation }), Some((Level::Info, text)))
            }
            Err(why) if why.is_missing() && !wanted => (None, None),
            Err(why) => {
                let text = format!(
                    "a migration or a restored snapshot shows only when servers contradict it, as \
                     the vmclock cannot be read: {why}"
                );
                (None, Some((Level::Warning, text)))
            }
        }
    }

    /// Marker of the hands of this epoch.
    pub(crate) fn marker(&self) -> Marker {
        Marker { device: self.page.number(), value: self.marker }
    }

    /// True if the hypervisor says that counts from before mean nothing any more. What it says of a
    /// count holds if the count was read before.
    pub(crate) fn has_moved(&self) -> bool {
        self.page.marker() != self.marker || self.has_another_generation()
    }

    /// Event for the engine if that is so; from then on an epoch begins.
    pub(crate) fn moved(&mut self) -> Option<Event> {
        self.generation = self.generation.or_else(|| self.page.generation());
        let (marker, other) = (self.page.marker(), self.has_another_generation());
        let reason = match marker != self.marker {
            true => MIGRATED,
            false if other => RESTORED,
            false => return None,
        };
        (self.marker, self.generation) = (marker, self.page.generation());
        Some(Event::Moved { reason: reason.into() })
    }

    fn has_another_generation(&self) -> bool {
        let both = self.generation.zip(self.page.generation());
        both.is_some_and(|(before, now)| before != now)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs::{File, OpenOptions};
    use std::os::unix::fs::FileExt;
    use std::path::{Path, PathBuf};

    /// A file that stands for a device.
    pub(crate) struct Device {
        file: File,
        pub(crate) path: PathBuf,
    }

    impl Device {
        pub(crate) fn new(directory: &Path, marker: u64) -> Device {
            let path = directory.join("vmclock");
            let file = OpenOptions::new().write(true).create_new(true).open(&path).unwrap();
            file.set_len(65536).unwrap();
            let mut header = Vec::from(b"VCLK");
            header.extend(4096u32.to_le_bytes());
            header.extend([1, 0, 255, 1]);
            file.write_all_at(&header, 0).unwrap();
            let device = Device { file, path };
            device.put(0x10, marker);
            device
        }

        pub(crate) fn put(&self, at: u64, word: u64) {
            self.file.write_all_at(&word.to_le_bytes(), at).unwrap();
        }
    }

    fn reason(event: Option<Event>) -> String {
        match event {
            Some(Event::Moved { reason }) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn another_marker_or_generation_is_told_once() {
        let directory =
            std::env::temp_dir().join(format!("truechimer-hypervisor-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let device = Device::new(&directory, 7);
        let (own, note) = Hypervisor::open(&Place::At(device.path.clone()));
        assert_eq!(note.unwrap().0, Level::Info);
        let mut own = own.unwrap();
        assert!(!own.has_moved() && own.moved().is_none());
        assert_eq!(own.marker(), Marker { device: Marker::ELSEWHERE, value: 7 });
        device.put(0x10, 8);
        assert!(own.has_moved());
        assert!(reason(own.moved()).contains("migrated or restored"));
        assert!(!own.has_moved() && own.moved().is_none());
        assert_eq!(own.marker().value, 8);
        // A generation that nobody said before is no other one.
        device.put(0x68, 5);
        device.put(0x18, 1 << 8);
        assert!(!own.has_moved() && own.moved().is_none());
        device.put(0x10, 9);
        assert!(reason(own.moved()).contains("migrated or restored"));
        device.put(0x68, 6);
        assert!(own.has_moved() && reason(own.moved()).contains("or cloned"));
        assert!(!own.has_moved());
        // What is no device is told, unless nobody asked for it.
        std::fs::write(directory.join("none"), "nothing").unwrap();
        let (none, note) = Hypervisor::open(&Place::At(directory.join("none")));
        assert!(none.is_none() && note.unwrap().1.contains("7 bytes are too few"));
        let (none, note) = Hypervisor::open(&Place::At(directory.join("absent")));
        assert!(none.is_none() && note.unwrap().0 == Level::Warning);
        assert!(matches!(Hypervisor::open(&Place::None), (None, None)));
        std::fs::remove_dir_all(directory).unwrap();
    }
}
