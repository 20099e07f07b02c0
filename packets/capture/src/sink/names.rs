//! The names of a row of files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use truechimer_time::Date;

/// The name of the file with this number, begun at that time: `NAME_00001_20261122103000.EXT`, as
/// dumpcap has it, but in UTC.
pub fn numbered(path: &Path, number: u64, begun: SystemTime) -> PathBuf {
    // Of "day.pcapng.zst" both.
    let compressed = path.extension().filter(|extension| *extension == "zst");
    let plain = if compressed.is_some() { path.with_extension("") } else { path.to_owned() };
    let mut name = plain.file_stem().map_or_else(OsString::new, OsString::from);
    name.push(format!("_{number:05}_{}", compact(begun)));
    for extension in plain.extension().into_iter().chain(compressed) {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// The first number from this one on whose name nobody has, with the name: a capture that is started
/// again within a second must not empty the files of the one before.
pub fn free(path: &Path, number: u64, begun: SystemTime) -> (u64, PathBuf) {
    let named = |number| (number, numbered(path, number, begun));
    let is_free = |(_, path): &(u64, PathBuf)| path.symlink_metadata().is_err();
    (number..u64::MAX).map(named).find(is_free).unwrap_or_else(|| named(number))
}

/// Unix time in ns, as the system clock has it.
pub fn unix_ns(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// `20261122103000`, in UTC.
fn compact(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let Date { year, month, day } = Date::of((seconds / 86_400).cast_signed());
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_name_that_somebody_has_is_passed_over() {
        let folder = std::env::temp_dir().join(format!("truechimer-names-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (path, begun) = (folder.join("row.pcapng"), UNIX_EPOCH + Duration::from_secs(9));
        std::fs::write(numbered(&path, 1, begun), "").unwrap();
        // A link that leads nowhere is somebody's, too.
        std::os::unix::fs::symlink("nowhere", numbered(&path, 2, begun)).unwrap();
        assert_eq!(free(&path, 1, begun), (3, numbered(&path, 3, begun)));
        assert_eq!(free(&path, 1, begun + Duration::from_secs(1)).0, 1);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn names_say_number_and_time() {
        let begun = UNIX_EPOCH + Duration::from_secs(1_795_343_400);
        let named = |path: &str, number| numbered(Path::new(path), number, begun);
        assert_eq!(
            named("/a/day.one.pcapng", 1),
            Path::new("/a/day.one_00001_20261122103000.pcapng")
        );
        assert_eq!(named("day.pcapng.zst", 2), Path::new("day_00002_20261122103000.pcapng.zst"));
        assert_eq!(named("plain", 123_456), Path::new("plain_123456_20261122103000"));
    }
}
