//! Keys that cookies are made with, and the file that they are kept in from start to start.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use truechimer_files::{Durable, Entry};
use truechimer_nts::Cookies;

use super::random;

/// How long cookies are made with one key. They are good for two such times at least.
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
        kept.keep()?;
        Ok(kept)
    }

    /// Takes over the keys of a file with their moment, when it is `now`.
    fn of(found: Option<(Cookies, u64)>, path: Option<PathBuf>, now: u64) -> Kept {
        let (mut cookies, since) = found.unwrap_or_else(|| (Cookies::new(&mut random), now));
        // A clock that is behind that moment says nothing of the key's age.
        let age = Duration::from_secs(now.saturating_sub(since));
        let is_due = age >= ROTATION;
        if is_due {
            cookies.rotate(&mut random);
        }
        let (since, left) = if is_due { (now, ROTATION) } else { (since, ROTATION - age) };
        Kept { cookies, path, since, due: Instant::now() + left }
    }

    /// Sets the keys aside for others, once they are a day old.
    ///
    /// # Errors
    /// If those cannot be kept, in words for the user: cookies of theirs are good until the next start.
    pub(super) fn rotate(&mut self) -> Result<(), String> {
        self.cookies.rotate(&mut random);
        (self.since, self.due) = (unix_now(), Instant::now() + ROTATION);
        self.keep()
    }

    /// Whether another key is due.
    pub(super) fn is_due(&self) -> bool {
        Instant::now() >= self.due
    }

    /// Keeps the keys for the next start, where nobody else reads them.
    fn keep(&self) -> Result<(), String> {
        let Some(path) = &self.path else { return Ok(()) };
        let write = || {
            let mut new = Entry::at(path)?.replace(0o600)?;
            new.write_all(&self.cookies.bytes())?;
            new.write_all(&self.since.to_be_bytes())?;
            new.commit(Durable::No)
        };
        write().map_err(|why: io::Error| {
            format!("NTS: keys cannot be kept in {}: {why}", path.display())
        })
    }
}

/// Unix time by the system clock, s; 0 before 1970.
fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Keys that were kept, and their moment; `None` if none were.
fn load(path: &Path) -> Result<Option<(Cookies, u64)>, String> {
    let say = |why: &dyn fmt::Display| format!("NTS: the keys in {}: {why}", path.display());
    let bytes = match truechimer_config::read_secret(path, MAX_FILE) {
        Ok(bytes) => bytes,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(say(&why)),
    };
    let found = bytes
        .split_last_chunk::<MOMENT>()
        .and_then(|(keys, moment)| Some((Cookies::from_bytes(keys)?, u64::from_be_bytes(*moment))));
    found
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

    /// By the file itself: 25 hours old, and one that was damaged.
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
        std::fs::write(&path, &file[..moment]).unwrap();
        assert!(start().unwrap_err().contains("not what this server writes"));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
