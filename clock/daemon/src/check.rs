//! Test of a configuration without a daemon.

use std::path::Path;

use truechimer_stamp::pps::Pps;

use truechimer_config::{ConfigError, Place, Problem};

use crate::config::Settings;
use crate::leaps;
use crate::options::Options;
use crate::state::Keeping;
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
        warnings.extend(settings.engine.pps.iter().filter_map(|pulse| {
            let why = Pps::open(Path::new(&pulse.path)).err()?;
            Some(format!("the daemon would wait for the pulse `{}`: {why}", pulse.name))
        }));
        // Nothing is made where nobody has named a place: that is for the daemon to do.
        if let Place::At(path) = &settings.state
            && let Keeping::Cannot(_, why) = Keeping::at(&settings.state, path, &settings.engine)
        {
            warnings.push(format!("the measured rate cannot be kept for the next start: {why}"));
        }
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
        let warnings = checked("relative", "page = \"clock\"\ncontrol = \"none\"").unwrap();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].starts_with("`page` = \"clock\" depends"), "{warnings:?}");
    }
}
