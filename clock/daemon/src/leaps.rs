//! Leap seconds as far as known: from the IERS list that tzdata installs, else from the kernel.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use truechimer_engine::LeapData;
use truechimer_time::{Leap, Leaps};

use crate::config::Place;

/// Where the list is by default.
const DEFAULT_LIST: &str = "/usr/share/zoneinfo/leap-seconds.list";
/// Unix time of the NTP era's beginning, negated: 1900-01-01.
const NTP_TO_UNIX: i64 = 2_208_988_800;
/// The largest list that is read, bytes; today's has 5 kB.
const MAX_LIST: u64 = 1 << 20;

/// A list of leap seconds.
#[derive(Clone, PartialEq, Eq, Debug)]
struct List {
    /// Unix time from which on TAI − UTC is the second number, in ascending order.
    entries: Vec<(i64, i32)>,
    /// Unix time of its making.
    updated: i64,
    /// Unix time until which nothing is missing.
    expires: i64,
}

/// Leap seconds in the list around Unix time `now`, and when it expires; `None` if there is no list and nobody asked for
/// one.
///
/// # Errors
/// Fault of the list, in a form for the user.
pub(crate) fn listed(place: &Place, now: i64) -> Result<Option<LeapData>, String> {
    let path = match place {
        Place::Default => PathBuf::from(DEFAULT_LIST),
        Place::At(path) => path.clone(),
        Place::None => return Ok(None),
    };
    let Some(list) = read(&path, matches!(place, Place::At(_)))? else { return Ok(None) };
    if now >= list.expires {
        return Err(format!("{} has expired; a newer tzdata mends it", path.display()));
    }
    if now < list.updated {
        // A machine without a battery for its clock. What it thinks is now says nothing.
        return Err(format!("{} was made after what this machine takes for now", path.display()));
    }
    Ok(Some(LeapData { leaps: list.around(now), until: list.expires }))
}

/// Checks that there is a list at this place, if one is asked for.
///
/// # Errors
/// As [`listed`], whatever the time.
pub(crate) fn readable(place: &Place) -> Result<(), String> {
    match place {
        Place::At(path) => read(path, true).map(|_| ()),
        Place::Default | Place::None => Ok(()),
    }
}

/// The list in a file; `None` if there is no file and none is `wanted`.
fn read(path: &Path, wanted: bool) -> Result<Option<List>, String> {
    match truechimer_config::read(path, MAX_LIST) {
        Err(error) if error.kind() == ErrorKind::NotFound && !wanted => Ok(None),
        Err(error) => Err(format!("{}: {error}", path.display())),
        Ok(text) => parse(&text).map(Some).map_err(|why| format!("{}: {why}", path.display())),
    }
}

/// TAI − UTC alone, if anybody has told the kernel.
pub(crate) fn from_kernel() -> Leaps {
    match truechimer_counter::discipline().map(|answer| answer.tai) {
        // TAI was 10 s ahead when leap seconds began.
        Ok(tai_offset @ 10..=255) => Leaps { tai_offset, known: true, last: None, next: None },
        _ => Leaps::default(),
    }
}

impl List {
    /// Leap seconds in the list around `now` (Unix time).
    fn around(&self, now: i64) -> Leaps {
        let after = self.entries.iter().position(|(at, _)| *at > now).unwrap_or(self.entries.len());
        // The entry that takes effect, and the leap it makes from the one before it.
        let leap = |index: usize| {
            let (_, before) = *self.entries.get(index.checked_sub(1)?)?;
            let (unix, offset) = *self.entries.get(index)?;
            let step = i8::try_from(offset.saturating_sub(before)).ok()?;
            Some(Leap { at: unix.saturating_add(i64::from(offset)), step })
        };
        let current = after.checked_sub(1);
        match current.and_then(|index| self.entries.get(index)) {
            Some((_, tai_offset)) => Leaps {
                tai_offset: *tai_offset,
                known: true,
                last: current.and_then(leap),
                next: leap(after),
            },
            // Before the first entry: the time cannot be right, and nothing is known about it.
            None => Leaps::default(),
        }
    }
}

/// Reads the IERS format: lines of NTP seconds and TAI − UTC; `#$` and `#@` with NTP seconds for
/// the making and the expiry; other lines that begin with `#` are remarks.
fn parse(text: &str) -> Result<List, String> {
    let mut list = List { entries: Vec::new(), updated: i64::MIN, expires: i64::MIN };
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let bad = |what: &str| format!("line {number}: {what}");
        if let Some(expiry) = line.strip_prefix("#@") {
            list.expires = unix_seconds(expiry.trim()).ok_or_else(|| bad("not an expiry"))?;
            continue;
        }
        if let Some(made) = line.strip_prefix("#$") {
            list.updated = unix_seconds(made.trim()).ok_or_else(|| bad("not a date of making"))?;
            continue;
        }
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let mut words = line.split_whitespace();
        let at = words.next().and_then(unix_seconds).ok_or_else(|| bad("not a time"))?;
        let offset: i32 = words
            .next()
            .and_then(|word| word.parse().ok())
            .filter(|offset| (0..=255).contains(offset))
            .ok_or_else(|| bad("TAI - UTC is missing or out of range"))?;
        if words.next().is_some() {
            return Err(bad("more than a time and TAI - UTC"));
        }
        if let Some((before, last)) = list.entries.last() {
            if *before >= at {
                return Err(bad("not later than the line before"));
            }
            if (offset - last).abs() != 1 {
                return Err(bad("a leap of other than one second"));
            }
        }
        list.entries.push((at, offset));
    }
    let (newest, _) = list.entries.last().ok_or("no leap seconds in it")?;
    if list.updated == i64::MIN {
        list.updated = *newest;
    }
    if list.expires == i64::MIN {
        return Err("no expiry (#@) in it".into());
    }
    Ok(list)
}

/// NTP seconds (of era 0 and as many more as it takes) as Unix time.
fn unix_seconds(word: &str) -> Option<i64> {
    let ntp: i64 = word.parse().ok().filter(|s| *s >= 0)?;
    ntp.checked_sub(NTP_TO_UNIX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use truechimer_time::Instant;

    const LIST: &str = "#\tremark\n#$\t3960835200\n#@\t3991593600\n#\n\
        3644697600      36      # 1 Jul 2015\n3692217600      37      # 1 Jan 2017\n#h 1 2 3\n";
    const NEW_YEAR_2017: i64 = 1_483_228_800;

    #[test]
    fn the_list_is_read() {
        let list = parse(LIST).unwrap();
        assert_eq!(list.entries, [(1_435_708_800, 36), (NEW_YEAR_2017, 37)]);
        assert_eq!((list.updated, list.expires), (1_751_846_400, 1_782_604_800));
    }

    #[test]
    fn before_between_and_after() {
        let list = parse(LIST).unwrap();
        let leap = Leap { at: NEW_YEAR_2017 + 37, step: 1 };
        assert_eq!(
            list.around(NEW_YEAR_2017 - 1),
            Leaps { tai_offset: 36, known: true, last: None, next: Some(leap) }
        );
        let after = Leaps { tai_offset: 37, known: true, last: Some(leap), next: None };
        assert_eq!(list.around(NEW_YEAR_2017), after);
        assert_eq!(list.around(i64::MAX), after);
        assert_eq!(list.around(0), Leaps::default());
        // Seen from either side it is the same second 60.
        let utc = |leaps: Leaps| leaps.utc(Instant::new(NEW_YEAR_2017 + 36, 0));
        assert!(utc(list.around(NEW_YEAR_2017 - 1)).leap_second);
        assert_eq!(utc(list.around(NEW_YEAR_2017 - 1)), utc(after));
    }

    #[test]
    fn errors_name_the_line() {
        for (text, error) in [
            ("#@ 3991593600\n3644697600 36\n3692217600 39\n", "line 3: a leap of other than"),
            ("#@ 3991593600\n3644697600 36\n3644697600 37\n", "line 3: not later"),
            ("x 36\n", "line 1: not a time"),
            ("3644697600\n", "line 1: TAI - UTC is missing"),
            ("3644697600 4000\n", "line 1: TAI - UTC is missing or out of range"),
            ("3644697600 36 37\n", "line 1: more than"),
            ("#@ soon\n", "line 1: not an expiry"),
            ("3644697600 36\n", "no expiry"),
            ("#@ 3991593600\n", "no leap seconds"),
        ] {
            let found = parse(text).unwrap_err();
            assert!(found.starts_with(error), "{text:?}: {found}");
        }
    }

    #[test]
    fn a_list_is_believed_from_its_making_to_its_expiry() {
        let path = std::env::temp_dir().join(format!("truechimer-leaps-{}", std::process::id()));
        std::fs::write(&path, LIST).unwrap();
        let at = |now| listed(&Place::At(path.clone()), now);
        let data = at(1_782_604_799).unwrap().unwrap();
        assert_eq!((data.leaps.tai_offset, data.until), (37, 1_782_604_800));
        assert!(at(1_782_604_800).unwrap_err().contains("has expired"));
        assert!(at(1_751_846_400).is_ok());
        assert!(at(1_751_846_399).unwrap_err().contains("takes for now"), "an unset clock");
        std::fs::remove_file(&path).unwrap();
        assert!(at(0).unwrap_err().contains("No such file"), "it was asked for");
        assert_eq!(listed(&Place::None, 0), Ok(None));
    }

    #[test]
    fn a_list_without_a_date_of_making_is_at_least_as_old_as_its_last_leap() {
        let list = parse("#@ 3991593600\n3692217600 37\n").unwrap();
        assert_eq!(list.updated, NEW_YEAR_2017);
    }

    #[test]
    fn the_kernel_knows_nothing_or_something_sensible() {
        let leaps = from_kernel();
        assert!(leaps == Leaps::default() || (10..=255).contains(&leaps.tai_offset));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "([#@$ \t\n]|[0-9]{1,25}|.){0,40}", now: i64) {
            if let Ok(list) = parse(&text) {
                let _ = list.around(now);
            }
        }
    }
}
