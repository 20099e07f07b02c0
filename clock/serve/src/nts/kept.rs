//! Keys that cookies are made with, and the file that they are kept in from start to start.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use truechimer_files::{Durable, Entry};
use truechimer_nts::Cookies;

use super::random;

/// Life of a key that cookies are made with. They are good for two such times at least.
const ROTATION: Duration = Duration::from_secs(86_400);
/// The largest file of keys, bytes.
const MAX_FILE: u64 = 4096;
/// Bytes of the moment at the end of the file.
const MOMENT: usize = 8;

/// Keys of cookies, and since when the newest of them is used.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) cookies: Cookies,
    /// File that they are kept in, if they are.
    path: Option<PathBuf>,
    /// Since when, Unix time in s.
    since: u64,
    /// When another key is due.
    due: Instant,
}

impl Kept {
    /// Reads the keys that were kept; without any, makes one. A server that is started anew every few hours has another
    /// key every day all the same.
    ///
    /// # Errors
    /// If they cannot be read or kept, in words for the user.
    pub(super) fn new(path: Option<PathBuf>) -> Result<Kept, String> {
        let found = path.as_deref().map(load).transpose()?.flatten();
        let kept = Kept::of(found, path, unix_now());
        kept.contents().map_or(Ok(()), |contents| contents.write())?;
        Ok(kept)
    }

    /// Takes over the keys of a file with their moment, when it is `now`.
    fn of(found: Option<(Cookies, u64)>, path: Option<PathBuf>, now: u64) -> Kept {
        let (mut cookies, since) = found.unwrap_or_else(|| (Cookies::new(&mut random), now));
        // A clock that is behind that moment, or was ahead then, says nothing of the key's age: a new day begins.
        let since = since.min(now);
        let age = Duration::from_secs(now - since);
        let is_due = age >= ROTATION;
        if is_due {
            cookies.rotate(&mut random);
        }
        let (since, left) = if is_due { (now, ROTATION) } else { (since, ROTATION - age) };
        Kept { cookies, path, since, due: Instant::now() + left }
    }

    /// Sets the keys aside for others, once they are a day old. Returns the file to write, if they are kept: the caller
    /// does so without the lock that requests wait for.
    pub(super) fn rotate(&mut self) -> Option<Contents> {
        self.cookies.rotate(&mut random);
        (self.since, self.due) = (unix_now(), Instant::now() + ROTATION);
        self.contents()
    }

    /// True once another key is due.
    pub(super) fn is_due(&self) -> bool {
        Instant::now() >= self.due
    }

    /// File of the keys as they are now, if they are kept.
    fn contents(&self) -> Option<Contents> {
        let bytes = [self.cookies.bytes(), self.since.to_be_bytes().into()].concat();
        self.path.clone().map(|path| Contents { path, bytes })
    }
}

/// File of keys as it is to be.
pub(super) struct Contents {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Contents {
    /// Keeps the keys for the next start, where nobody else reads them.
    ///
    /// # Errors
    /// If they cannot be kept, in words for the user: cookies of theirs are good until the next start.
    pub(super) fn write(&self) -> Result<(), String> {
        let write = || {
            let mut new = Entry::at(&self.path)?.replace(0o600)?;
            new.write_all(&self.bytes)?;
            new.commit(Durable::No)
        };
        write().map_err(|why: io::Error| {
            format!("NTS: keys cannot be kept in {}: {why}", self.path.display())
        })
    }
}

/// Unix time by the system clock, s; 0 before 1970.
fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Keys that were kept, and their moment; `None` if none were. A file of before there was a moment has keys of any age:
/// another is due at once.
fn load(path: &Path) -> Result<Option<(Cookies, u64)>, String> {
    let say = |why: &dyn fmt::Display| format!("NTS: the keys in {}: {why}", path.display());
    let bytes = match truechimer_config::read_secret(path, MAX_FILE) {
        Ok(bytes) => bytes,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(say(&why)),
    };
    let with_moment = || {
        let (keys, moment) = bytes.split_last_chunk::<MOMENT>()?;
        Some((Cookies::from_bytes(keys)?, u64::from_be_bytes(*moment)))
    };
    let of_before = Cookies::from_bytes(&bytes).map(|keys| (keys, 0));
    with_moment()
        .or(of_before)
        .map(Some)
        .ok_or_else(|| say(&"not what this server writes: remove the file, or name another"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600;

    /// A server that starts every hour for two days: each start goes on with the keys and the moment of the one before.
    #[test]
    fn starts_do_not_put_the_rotation_off() {
        let begun = 1_800_000_000;
        let mut kept = Kept::of(None, None, begun);
        let first = kept.cookies.bytes();
        let mut rotations = Vec::new();
        for hour in 1..=50 {
            let before = kept.cookies.bytes();
            kept = Kept::of(Some((kept.cookies, kept.since)), None, begun + hour * HOUR);
            if kept.cookies.bytes() != before {
                assert!(kept.cookies.bytes().ends_with(&before), "the old ones are still opened");
                rotations.push(hour);
            }
        }
        assert_eq!(rotations, [24, 48]);
        assert!(kept.cookies.bytes().ends_with(&first));
        // A clock that is not set yet.
        let before = kept.cookies.bytes();
        assert_eq!(Kept::of(Some((kept.cookies, kept.since)), None, 0).cookies.bytes(), before);
    }

    /// The file was written while the clock was years ahead.
    #[test]
    fn a_moment_that_is_to_come_does_not_end_the_rotation() {
        let begun = 1_800_000_000;
        let mut kept = Kept::of(None, None, begun + 100_000 * HOUR);
        let first = kept.cookies.bytes();
        for hour in 0..=24 {
            assert_eq!(kept.cookies.bytes(), first, "{hour}");
            kept = Kept::of(Some((kept.cookies, kept.since)), None, begun + hour * HOUR);
        }
        assert_ne!(kept.cookies.bytes(), first);
    }

    /// By the file itself: 25 hours old, of the version before, and one that was damaged.
    #[test]
    fn a_file_of_yesterday_brings_another_key() {
        let folder = std::env::temp_dir().join(format!("truechimer-kept-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("cookie-keys");
        let start = || Kept::new(Some(path.clone()));
        let first = start().unwrap().cookies.bytes();
        assert_eq!(start().unwrap().cookies.bytes(), first);
        let mut file = std::fs::read(&path).unwrap();
        let moment = file.len() - MOMENT;
        file[moment..].copy_from_slice(&(unix_now() - 25 * HOUR).to_be_bytes());
        std::fs::write(&path, &file).unwrap();
        let second = start().unwrap();
        assert!(second.cookies.bytes().len() > first.len(), "another key");
        assert_eq!(start().unwrap().cookies.bytes(), second.cookies.bytes(), "once");
        // Nothing is written before the caller says so, who has let the lock go by then.
        let kept = std::fs::read(&path).unwrap();
        let mut third = start().unwrap();
        let contents = third.rotate().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), kept, "not written yet");
        contents.write().unwrap();
        assert_eq!(start().unwrap().cookies.bytes(), third.cookies.bytes());
        // Without a moment: another key at once, and those of the file are opened still.
        std::fs::write(&path, &first).unwrap();
        let upgraded = start().unwrap().cookies.bytes();
        assert!(upgraded.len() > first.len() && upgraded.ends_with(&first));
        assert_eq!(start().unwrap().cookies.bytes(), upgraded, "once");
        std::fs::write(&path, &file[..moment - 1]).unwrap();
        assert!(start().unwrap_err().contains("not what this server writes"));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
