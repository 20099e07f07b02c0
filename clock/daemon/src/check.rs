//! Test of a configuration without a daemon.

use std::path::Path;

use truechimer_counter::vmclock::Vmclock;
use truechimer_engine::RefClockKind;
use truechimer_stamp::phc;
use truechimer_stamp::pps::Pps;
use truechimer_stamp::pps::card::Input;
use truechimer_timehands::places;

use truechimer_config::{ConfigError, Place, Problem};

use crate::config::Settings;
use crate::options::Options;
use crate::state::{self, Keeping};
use crate::{leaps, nts, proof, sys};
use truechimer_metrics::Listen;

impl Options {
    /// Does as [`Options::settings`], and looks at the files that it names as far as that is
    /// possible before the daemon runs. Beside the settings comes what the daemon would warn of.
    ///
    /// # Errors
    ///
    /// As [`Options::settings`], and if the list of leap seconds that is asked for is none.
    pub fn check(&self) -> Result<(Settings, Vec<String>), ConfigError> {
        let settings = self.settings()?;
        if let Err(why) = leaps::readable(&settings.leap_file) {
            let problem = match (&self.leap_file, &self.config) {
                (None, Some(file)) => Problem::in_file(
                    &file.display().to_string(),
                    None,
                    format!("`leap-file`: {why}"),
                ),
                _ => Problem::option("--leap-file", &why),
            };
            ConfigError::unless_empty(vec![problem])?;
        }
        let mut warnings = self.relative(&settings);
        warnings.extend(settings.left_out.iter().cloned());
        // A service's folder may be made when it starts.
        if let Some(why) = settings.page.as_deref().and_then(no_folder) {
            warnings
                .push(format!("the daemon does not start before its `page` has a folder: {why}"));
        }
        let beside = [
            ("replay-log", settings.replay_log.as_deref()),
            ("control", at(&settings.control)),
            ("[metrics] listen", settings.metrics.as_ref().and_then(Listen::path)),
        ];
        warnings.extend(beside.into_iter().filter_map(|(key, path)| {
            let why = path.and_then(no_folder)?;
            Some(format!("the daemon would run without its `{key}`: {why}"))
        }));
        warnings.extend(settings.engine.refclocks.iter().filter_map(|refclock| {
            let path = Path::new(&refclock.path);
            let why = match refclock.kind {
                RefClockKind::Pulse => match refclock.path.parse::<Input>() {
                    Ok(input) if Input::is_meant(&refclock.path) => {
                        let why = std::fs::File::open(&input.device).err()?;
                        format!("{}: {why}", input.device.display())
                    }
                    _ => Pps::open(path).err()?.to_string(),
                },
                RefClockKind::Phc => {
                    let device = phc::find(&refclock.path);
                    let opened = device.and_then(|device| {
                        let why = std::fs::File::open(&device).err();
                        why.map_or(Ok(()), |why| Err(format!("{}: {why}", device.display())))
                    });
                    opened.err()?
                }
                // It would be made.
                RefClockKind::Shm => return None,
                RefClockKind::Sock => no_folder(path)?,
                RefClockKind::Vmclock => Vmclock::open(path).err()?.to_string(),
            };
            let what = refclock.kind.name();
            Some(format!("the daemon would wait for the {what} `{}`: {why}", refclock.name))
        }));
        warnings.extend(settings.engine.sources.iter().filter_map(|source| {
            let number = source.authentication.key()?;
            let why = proof::key(settings.key_file.as_deref()?, number).err()?;
            Some(format!("the daemon would not ask `{}`: {why}", source.name()))
        }));
        warnings.extend(nts::trouble(&settings).map(|why| {
            format!("the daemon would not ask servers that are to prove themselves: {why}")
        }));
        // Nothing is made where nobody has named a place: that is for the daemon to do.
        if let Place::At(path) = &settings.state
            && let Keeping::Cannot(_, why) = Keeping::at(&settings.state, path, &settings.engine)
        {
            warnings.push(format!("the measured rate cannot be kept for the next start: {why}"));
        }
        warnings.extend(without_folder(&settings));
        Ok((settings, warnings))
    }

    /// Paths in the file that depend on where the daemon is started. On the command line that is
    /// what is meant.
    fn relative(&self, settings: &Settings) -> Vec<String> {
        let named = [
            ("page", settings.page.as_deref(), &self.page),
            ("control", at(&settings.control), &self.control),
            ("replay-log", settings.replay_log.as_deref(), &self.replay_log),
            ("state", at(&settings.state), &self.state),
            ("leap-file", at(&settings.leap_file), &self.leap_file),
        ];
        let of_file = named.into_iter().filter(|(_, _, option)| option.is_none());
        let relative = of_file.filter_map(|(key, path, _)| Some((key, path?)));
        relative
            .filter(|(_, path)| path.is_relative())
            .map(|(key, path)| {
                let path = path.display();
                format!(
                    "`{key}` = \"{path}\" depends on the directory in which the daemon is started: \
                     write the whole path"
                )
            })
            .collect()
    }
}

/// Warnings of directories that the daemon makes itself, and could not.
fn without_folder(settings: &Settings) -> Vec<String> {
    let record = settings.audit.as_ref().and_then(|audit| {
        let why = never_made(&audit.directory)?;
        Some(format!("the daemon would run without its record (`[audit] directory`): {why}"))
    });
    let page = settings.page.clone().unwrap_or_else(places::for_daemon);
    let state = match settings.state {
        Place::Default => state::folder_to_be(&page, &settings.engine),
        Place::At(_) | Place::None => None,
    };
    let state = state.and_then(|folder| never_made(&folder)).map(|why| {
        format!(
            "the measured rate cannot be kept for the next start: {why}; name a file with `state`, \
             or \"none\""
        )
    });
    record.into_iter().chain(state).collect()
}

/// Why a directory that is made if need be cannot be, or nothing be made in it, as far as this user
/// can tell.
fn never_made(folder: &Path) -> Option<String> {
    // By itself: a link that leads nowhere is in the way.
    let there = folder.ancestors().find(|path| path.symlink_metadata().is_ok())?;
    let why = match there.metadata() {
        Ok(found) if !found.is_dir() => "is no folder".to_owned(),
        Ok(_) => format!("{} (as this user)", sys::unwritable(there)?),
        Err(why) => why.to_string(),
    };
    let doing = if there == folder { "cannot write in" } else { "cannot make" };
    Some(format!("{doing} {}: {}: {why}", folder.display(), there.display()))
}

fn at(place: &Place) -> Option<&Path> {
    match place {
        Place::At(path) => Some(path),
        Place::Default | Place::None => None,
    }
}

/// Why nothing can be made at a path: the folder in which it is to be is none.
fn no_folder(path: &Path) -> Option<String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty())?;
    let why = match folder.metadata() {
        Ok(found) if found.is_dir() => return None,
        Ok(_) => "no folder".to_owned(),
        Err(why) => why.to_string(),
    };
    Some(format!("cannot make {}: {}: {why}", path.display(), folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn checked(name: &str, more: &str) -> Result<Vec<String>, String> {
        let folder = std::env::temp_dir().join(format!("truechimer-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("c.toml");
        let here = folder.display().to_string();
        let text = more.replace("HERE", &here) + "\n[[source]]\nhost = \"a\"\n";
        fs::write(&file, text).unwrap();
        let options = Options { config: Some(file), ..Options::default() };
        let found = options.check();
        let left = fs::read_dir(&folder).unwrap().count();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(left, 1, "nothing is left behind");
        match found {
            Ok((_, warnings)) => Ok(warnings),
            Err(why) => Err(why.to_string()),
        }
    }

    #[test]
    fn files_that_are_named_are_looked_at() {
        let error = checked("nolist", "leap-file = \"HERE/none\"").unwrap_err();
        assert!(error.contains("c.toml: `leap-file`: ") && error.contains("No such"), "{error}");
        let error = checked("badlist", "leap-file = \"HERE/c.toml\"").unwrap_err();
        assert!(error.contains("c.toml: line 1: not a time"), "{error}");
        let [warning] = &checked("nostate", "state = \"HERE/no/rate.json\"").unwrap()[..] else {
            panic!("one thing is wrong")
        };
        assert!(
            warning.contains("cannot be kept") && warning.contains("no/rate.json"),
            "{warning}"
        );
        let warnings = checked("folder", "state = \"HERE\"").unwrap();
        assert!(warnings[0].contains("directory"), "{warnings:?}");
        assert_eq!(checked("state", "state = \"HERE/rate.json\""), Ok(vec![]));
        assert_eq!(checked("none", "state = \"none\"\nleap-file = \"none\""), Ok(vec![]));
        let [warning] = &checked("nopage", "page = \"HERE/no/clock\"").unwrap()[..] else {
            panic!("one thing is wrong")
        };
        assert!(warning.contains("`page` has a folder: cannot make "), "{warning}");
        assert!(warning.contains("/no: No such"), "{warning}");
        let named =
            "page = \"HERE/clock\"\nreplay-log = \"HERE/c.toml/a\"\ncontrol = \"HERE/no/c\"";
        let warnings = checked("noplaces", named).unwrap();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].contains("`replay-log`") && warnings[0].ends_with("c.toml: no folder"));
        assert!(warnings[1].contains("`control`") && warnings[1].contains("No such"));
        let [warning] =
            &checked("nopulse", "[[source]]\npps = \"HERE/no\"\nname = \"gps\"").unwrap()[..]
        else {
            panic!("one thing is wrong")
        };
        assert!(warning.contains("the pulse `gps`: ") && warning.contains("No such"), "{warning}");
        let keyed = "key-file = \"HERE/no\"\n[[source]]\nhost = \"b\"\nkey = 5";
        let [warning] = &checked("nokeys", keyed).unwrap()[..] else {
            panic!("one thing is wrong")
        };
        assert!(
            warning.contains("would not ask `b:123`: ") && warning.contains("No such"),
            "{warning}"
        );
        let proven = |name: &str, ca: &str| {
            let text = format!("[nts]\nca = \"{ca}\"\n[[source]]\nhost = \"b\"\nnts = true");
            checked(name, &text).unwrap()
        };
        let [warning] = &proven("noca", "HERE/no.pem")[..] else { panic!("one thing is wrong") };
        assert!(warning.contains("prove themselves: NTS: ") && warning.contains("No such"));
        let [warning] = &proven("badca", "HERE/c.toml")[..] else { panic!("one thing is wrong") };
        assert!(warning.ends_with("no certificate in it (PEM)"), "{warning}");
        let warnings = checked("relative", "page = \"clock\"\ncontrol = \"none\"").unwrap();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].starts_with("`page` = \"clock\" depends"), "{warnings:?}");
    }
    #[test]
    fn folders_that_the_daemon_would_make() {
        let audit = |name: &str, folder: &str| {
            let text = format!("[audit]\ndirectory = \"{folder}\"");
            checked(name, &text).unwrap()
        };
        assert_eq!(audit("record", "HERE/audit/of/all"), [""; 0]);
        let [warning] = &audit("norecord", "HERE/c.toml/audit")[..] else {
            panic!("one thing is wrong")
        };
        assert!(warning.contains("without its record (`[audit] directory`): cannot make "));
        assert!(warning.ends_with("c.toml: is no folder"), "{warning}");
        let [warning] = &audit("file", "HERE/c.toml")[..] else { panic!("one thing is wrong") };
        assert!(warning.contains("cannot write in ") && warning.ends_with("c.toml: is no folder"));
        let shut = std::env::temp_dir().join(format!("truechimer-shut-{}", std::process::id()));
        fs::create_dir_all(&shut).unwrap();
        fs::set_permissions(&shut, fs::Permissions::from_mode(0o500)).unwrap();
        let why = std::thread::scope(|scope| {
            // Root may write everywhere.
            let try_it = || {
                (sys::uid() != 0 || sys::become_user(65_534))
                    .then(|| never_made(&shut.join("audit")))
            };
            scope.spawn(try_it).join().unwrap()
        });
        if let Some(why) = why {
            let why = why.unwrap();
            assert!(why.starts_with("cannot make ") && why.ends_with("(as this user)"), "{why}");
        }
        fs::remove_dir_all(shut).unwrap();
        let link = std::env::temp_dir().join(format!("truechimer-nowhere-{}", std::process::id()));
        symlink("not-there", &link).unwrap();
        let why = never_made(&link.join("audit")).unwrap();
        fs::remove_file(link).unwrap();
        assert!(why.contains("No such file"), "{why}");
    }
}
