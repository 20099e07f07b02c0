//! The names of a row of files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The name of the file with this number, begun at that time: `NAME_00001_20261122103000.EXT`, as
/// dumpcap has it, but in UTC.
pub fn numbered(path: &Path, number: u64, begun: SystemTime) -> PathBuf {
    let mut name = path.file_stem().map_or_else(OsString::new, OsString::from);
    name.push(format!("_{number:05}_{}", compact(begun)));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// Unix time in ns, as the system clock has it.
pub fn unix_ns(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// `20261122103000`, in UTC.
fn compact(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}")
}

/// Year, month and day of a day since 1970. Years are counted from March here, so that the leap day
/// is the last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since 0000-03-01
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153; // 0 is March
    let day = day - (153 * month + 2) / 5 + 1;
    let january = u64::from(month >= 10);
    (era * 400 + year + january, if january == 1 { month - 9 } else { month + 3 }, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn names_say_number_and_time() {
        let begun = UNIX_EPOCH + Duration::from_secs(1_795_343_400);
        let named = |path: &str, number| numbered(Path::new(path), number, begun);
        assert_eq!(
            named("/a/day.one.pcapng", 1),
            Path::new("/a/day.one_00001_20261122103000.pcapng")
        );
        assert_eq!(named("plain", 123_456), Path::new("plain_123456_20261122103000"));
    }

    #[test]
    fn dates_are_right() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (58, (1970, 2, 28)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_513, (2026, 3, 1)),
            (20_453, (2025, 12, 31)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(date(days), expected);
        }
    }
}
