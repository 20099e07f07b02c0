//! Options that the user asked for: a configuration file, and what comes on top of it.

use std::path::PathBuf;

use truechimer_config::{ConfigError, Place, Problem};

use super::{Listen, Membership, Settings, UtcSource, parse, values};

/// The configuration file that is read if none is named.
const USUAL: &str = "/etc/truechimer-group.toml";
/// Names another.
const VARIABLE: &str = "TRUECHIMER_GROUP_CONFIG";
/// The largest configuration file that is read, bytes.
const MAX_FILE: u64 = 1 << 20;

/// Wishes of the command line (or a program) to an agent. What is left `None` is as the file says,
/// or at its default.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// One more group, besides those of the file.
    pub group: Option<Membership>,
    /// Where programs find the agent.
    pub directory: Option<PathBuf>,
    /// Where the clocks' floors are kept; the word `none` means nowhere.
    pub state: Option<PathBuf>,
    /// Where UTC comes from.
    pub utc: Option<UtcSource>,
    /// The real-time priority, 1 to 99.
    pub real_time: Option<u8>,
    /// Place where metrics are served.
    pub metrics: Option<Listen>,
}

impl Options {
    /// Looks for the configuration file where none is named: in `$TRUECHIMER_GROUP_CONFIG`, else at
    /// `/etc/truechimer-group.toml`, unless a group is named, which is then the only one.
    pub fn find_config(&mut self) {
        if self.config.is_none() {
            self.config =
                truechimer_config::unnamed(VARIABLE, USUAL.as_ref(), self.group.is_some());
        }
    }

    /// Reads the file, lays the options on top, and checks the whole.
    ///
    /// # Errors
    /// If the file cannot be read, or anything in it or in the options is wrong; if there is no
    /// group at all.
    pub fn settings(&self) -> Result<Settings, ConfigError> {
        let mut settings = match &self.config {
            Some(path) => {
                let text = truechimer_config::read(path, MAX_FILE)
                    .map_err(|why| ConfigError::unreadable(path, &why))?;
                parse(&text, &path.display().to_string())?
            }
            None => Settings::default(),
        };
        let mut problems = Vec::new();
        let mut problem = |option: &str, text: String| {
            problems.push(Problem::option(option, text));
        };
        if let Some(group) = &self.group {
            let name = &group.group.name;
            if let Err(why) = values::name(name) {
                problem("--group", why);
            } else if settings.groups.iter().any(|other| other.group.name == *name) {
                problem("--group", format!("'{name}' is in the configuration file already"));
            } else {
                settings.groups.push(group.clone());
            }
        }
        if let Some(priority) = self.real_time {
            if !values::REAL_TIME.contains(&priority) {
                problem("--realtime", "must be 1 to 99".to_owned());
            }
            settings.real_time = Some(priority);
        }
        if let Some(directory) = &self.directory {
            settings.directory = Some(directory.clone());
        }
        if let Some(state) = &self.state {
            settings.state = Place::from(state.clone());
        }
        if let Some(metrics) = &self.metrics {
            settings.metrics = Some(metrics.clone());
        }
        if let Some(utc) = &self.utc {
            settings.utc = Some(utc.clone());
        }
        if settings.groups.is_empty() && problems.is_empty() {
            problems.push(match &self.config {
                Some(path) => Problem::in_file(
                    &path.display().to_string(),
                    None,
                    "no group: add a [[group]] with name = \"…\", or use --group",
                ),
                None => Problem::option(
                    "--group",
                    "no group: use --group NAME, or --config FILE, or name groups in \
                     /etc/truechimer-group.toml",
                ),
            });
        }
        ConfigError::unless_empty(problems).map(|()| settings)
    }
}
