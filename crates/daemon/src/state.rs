//! The rate of the counter, kept across boots.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use truechimer_engine::Saved;

use crate::config::Place;
use crate::text;

/// Where packages keep it.
const DEFAULT_DIRECTORY: &str = "/var/lib/truechimer";
const NAME: &str = "rate.json";
/// The largest file that is read, bytes.
const MAX_FILE: u64 = 64 << 10;

/// The file for this place: by default in `$STATE_DIRECTORY` (which systemd sets), else in
/// `/var/lib/truechimer` if that exists, else none.
pub(crate) fn path(place: &Place) -> Option<PathBuf> {
    match place {
        Place::None => None,
        Place::At(path) => Some(path.clone()),
        Place::Default => {
            let given = std::env::var_os("STATE_DIRECTORY").filter(|value| !value.is_empty());
            let directory = given.map_or_else(|| PathBuf::from(DEFAULT_DIRECTORY), PathBuf::from);
            directory.is_dir().then(|| directory.join(NAME))
        }
    }
}

/// What was saved; `None` if nothing was.
///
/// # Errors
/// If the file cannot be read or is not one of ours.
pub(crate) fn load(path: &Path) -> io::Result<Option<Saved>> {
    let text = match text::read(path, MAX_FILE) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        result => result?,
    };
    Ok(Some(serde_json::from_str(&text)?))
}

/// Saves it: whoever reads finds the old file or the new one. It is not forced to the disk, which
/// could take seconds: should the machine crash meanwhile, [`load`] tells a damaged file.
pub(crate) fn save(path: &Path, saved: &Saved) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&beside)?;
        serde_json::to_writer_pretty(&mut file, saved)?;
        file.write_all(b"\n")?;
        fs::rename(&beside, path)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&beside);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_time::{Period, Rate};

    #[test]
    fn what_is_saved_is_loaded_and_damage_is_told() {
        let path =
            std::env::temp_dir().join(format!("truechimer-state-{}.json", std::process::id()));
        assert_eq!(load(&path).unwrap(), None);
        let saved = Saved {
            counter: "tsc".into(),
            nominal: Period::from_hz(2_596_000_000),
            period: Period::from_hz(2_596_012_345),
            error: Rate::from_ppb(20),
            unix: 1_800_000_000,
            held: Vec::new(),
        };
        save(&path, &saved).unwrap();
        save(&path, &saved).unwrap();
        assert_eq!(load(&path).unwrap().as_ref(), Some(&saved));
        for damage in ["", "{", "{\"counter\":\"tsc\"}", "null", "\u{0}\u{0}"] {
            fs::write(&path, damage).unwrap();
            assert!(load(&path).is_err(), "{damage:?}");
        }
        let good = serde_json::to_string(&saved).unwrap();
        fs::write(&path, good.replace(&saved.period.mantissa().to_string(), "5")).unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("mantissa"));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn nowhere_to_save_is_an_error_without_leftovers() {
        let saved = Saved {
            counter: "raw".into(),
            nominal: Period::NANOSECOND,
            period: Period::NANOSECOND,
            error: Rate::ZERO,
            unix: 0,
            held: Vec::new(),
        };
        assert!(save(Path::new("/nonexistent/rate.json"), &saved).is_err());
        assert_eq!(path(&Place::None), None);
    }
}
