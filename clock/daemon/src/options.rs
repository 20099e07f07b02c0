//! Wishes of the user: a configuration file, and what comes on top of it.

use std::path::PathBuf;

use truechimer_confine::Unlisted;
use truechimer_counter::Choice;
use truechimer_engine::{AuthenticationMode, Config, NTP_PORT, RefClockConfig, SourceConfig};

use truechimer_config::{ConfigError, Place, Problem, printable};

use crate::config::{self, Settings};
use crate::source_dir;

/// The configuration file that is read if none is named.
const USUAL: &str = "/etc/truechimer.toml";
/// Names another.
const VARIABLE: &str = "TRUECHIMER_CONFIG";
/// The largest configuration file that is read, bytes.
const MAX_FILE: u64 = 1 << 20;

/// Options of the daemon on the command line (or by a program). Everything left `None` or empty is
/// as the file says, or at its default.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Options {
    /// The configuration file, read again at each reload. Without one everything is at its
    /// default.
    pub config: Option<PathBuf>,
    /// More servers, as `HOST`, `HOST:PORT` or `[IPV6]:PORT`. They are followed besides those of
    /// the file.
    pub servers: Vec<String>,
    /// More pulses per second, as the path of a device or plain file, with the default latency.
    pub pps: Vec<String>,
    /// Seconds between requests to every server, within [`truechimer_engine::POLL_RANGE`].
    pub poll: Option<u32>,
    /// The counter.
    pub counter: Option<Choice>,
    /// Where the clock page is.
    pub page: Option<PathBuf>,
    /// Where the control socket is; the word `none` means that there is none.
    pub control: Option<PathBuf>,
    /// Where to write the replay log.
    pub replay_log: Option<PathBuf>,
    /// Where the rate is kept across boots; the word `none` means nowhere.
    pub state: Option<PathBuf>,
    /// The list of leap seconds; the word `none` means that none is read.
    pub leap_file: Option<PathBuf>,
    /// True to forget what the clock page and the state say.
    pub fresh: bool,
    /// True if the daemon may confine the thread that it runs on, and all that this starts, for
    /// good (`sandbox` in the file): for a program that is nothing but the daemon.
    pub sandbox: bool,
    /// Fate of system calls that no service makes (`seccomp` in the file).
    pub seccomp: Option<Unlisted>,
}

impl Options {
    /// Looks for the configuration file where none is named: in `$TRUECHIMER_CONFIG`, else at
    /// `/etc/truechimer.toml`, unless servers are named, which are then all that is followed.
    pub fn find_config(&mut self) {
        if self.config.is_none() {
            let enough = !self.servers.is_empty();
            self.config = truechimer_config::unnamed(VARIABLE, USUAL.as_ref(), enough);
        }
    }

    /// Reads the file, lays the options on top, and checks the whole.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or anything in it or in the options is wrong: every problem is
    /// named with its place. No server at all is an error too.
    pub fn settings(&self) -> Result<Settings, ConfigError> {
        let mut settings = match &self.config {
            Some(path) => {
                let name = path.display().to_string();
                let text = truechimer_config::read(path, MAX_FILE)
                    .map_err(|why| ConfigError::unreadable(path, &why))?;
                config::parse(&text, &name)?
            }
            None => Settings::default(),
        };
        let mut problems = Vec::new();
        self.servers(&mut settings, &mut problems);
        self.pulses(&mut settings, &mut problems);
        if let Some(directory) = settings.source_dir.clone() {
            let has_key_file = settings.key_file.is_some();
            settings.left_out = source_dir::read(&directory, &mut settings.engine, has_key_file);
        }
        settings.file.clone_from(&self.config);
        self.places(&mut settings);
        settings.fresh = self.fresh;
        settings.seccomp = self.seccomp.unwrap_or(settings.seccomp);
        if !settings.sandbox && settings.seccomp != Unlisted::Pass {
            let text =
                "seccomp is a part of the sandbox, and `sandbox = false`: leave one of the two out";
            problems.push(settings.problem("sandbox", text));
        }
        settings.sandbox &= self.sandbox;
        if problems.is_empty() && settings.source_dir.is_none() && is_mute(&settings.engine) {
            problems.push(match &self.config {
                Some(path) if !settings.engine.refclocks.is_empty() && self.pps.is_empty() => {
                    Problem::in_file(
                        &path.display().to_string(),
                        None,
                        format!(
                            "no [[source]] that has a vote: {}",
                            lonely("[[source]] with host = \"…\", or --server")
                        ),
                    )
                }
                _ if !settings.engine.refclocks.is_empty() => {
                    Problem::option("--pps", lonely("server (--server, or [[source]] with host)"))
                }
                Some(path) => Problem::in_file(
                    &path.display().to_string(),
                    None,
                    "no server to follow: add a [[source]] with host = \"…\", or use --server",
                ),
                None => Problem::option(
                    "--server",
                    "no server to follow: use --server HOST, or --config FILE, or name servers in \
                     /etc/truechimer.toml",
                ),
            });
        }
        // What is yet to come may make it whole.
        if settings.source_dir.is_none()
            && problems.is_empty()
            && let Some((key, why)) = never(&settings.engine)
        {
            problems.push(settings.problem(key, why));
        }
        ConfigError::unless_empty(problems).map(|()| settings)
    }

    fn servers(&self, settings: &mut Settings, problems: &mut Vec<Problem>) {
        let mut seen = Vec::new();
        for text in &self.servers {
            match config::host_and_port(text) {
                Ok((host, port)) => {
                    let port = port.unwrap_or(NTP_PORT);
                    if seen.contains(&(host.clone(), port)) {
                        let why = format!("{} is there twice", printable(text));
                        problems.push(Problem::option("--server", &why));
                        continue;
                    }
                    seen.push((host.clone(), port));
                    let source = SourceConfig { port, ..SourceConfig::new(host) };
                    let sources = &mut settings.engine.sources;
                    // The same server as in the file is no mistake here: it is the same wish.
                    if !sources.iter().any(|s| s.host == source.host && s.port == source.port) {
                        sources.push(source);
                    }
                }
                Err(why) => problems.push(Problem::option("--server", &why)),
            }
        }
        if let Some(poll) = self.poll {
            match config::check_poll(i128::from(poll)) {
                Ok(poll) => settings.engine.sources.iter_mut().for_each(|s| s.poll = poll),
                Err(why) => problems.push(Problem::option("--poll", &why)),
            }
        }
    }

    fn pulses(&self, settings: &mut Settings, problems: &mut Vec<Problem>) {
        for text in &self.pps {
            match config::pps_path(text) {
                Ok(path) => {
                    let pulses = &mut settings.engine.refclocks;
                    // As with servers.
                    let pulse = RefClockConfig::pulse(path);
                    if !pulses.iter().any(|p| p.is_same_clock(&pulse)) {
                        pulses.push(pulse);
                    }
                }
                Err(why) => problems.push(Problem::option("--pps", &why)),
            }
        }
    }

    fn places(&self, settings: &mut Settings) {
        if let Some(counter) = self.counter {
            settings.counter = counter;
            settings.lines.remove("counter");
        }
        for (key, option, place) in [
            ("page", &self.page, &mut settings.page),
            ("replay-log", &self.replay_log, &mut settings.replay_log),
        ] {
            if option.is_some() {
                place.clone_from(option);
                settings.lines.remove(key);
            }
        }
        for (key, option, place) in [
            ("control", &self.control, &mut settings.control),
            ("state", &self.state, &mut settings.state),
            ("leap-file", &self.leap_file, &mut settings.leap_file),
        ] {
            if let Some(path) = option {
                *place = Place::from(path.clone());
                settings.lines.remove(key);
            }
        }
    }
}

/// True if there is nothing to follow.
pub(crate) fn is_mute(config: &Config) -> bool {
    let selectable = config.sources.iter().any(|source| !source.no_select);
    !selectable && !config.refclocks.iter().any(|refclock| refclock.trust)
}

/// Key by which there would never be a time with these sources, if so, and the reason.
pub(crate) fn never(config: &Config) -> Option<(&'static str, String)> {
    let voters: Vec<&SourceConfig> =
        config.sources.iter().filter(|source| config.votes(source)).collect();
    if voters.is_empty()
        && !config.sources.is_empty()
        && config.authentication == AuthenticationMode::Require
    {
        let text = "`authentication` = \"require\", but no server proves who it is: add nts = true or a key \
                    to one";
        return Some(("authentication", text.into()));
    }
    let mut required = config.sources.iter().filter(|source| source.require).peekable();
    let by_refclock = config.refclocks.iter().any(|refclock| refclock.require);
    if let Some(name) = required.peek().map(|source| source.name())
        && !by_refclock
        && required.all(|source| !config.may_select(source))
    {
        let text = format!(
            "`require` of `{}` leaves no time ever: it is `noselect`, or has no proof",
            printable(&name)
        );
        return Some(("source.require", text));
    }
    let servers: u32 = voters.iter().map(|source| source.pool.unwrap_or(1)).sum();
    let trusted = config.refclocks.iter().filter(|refclock| refclock.trust).count();
    let voters = usize::try_from(servers).unwrap_or(usize::MAX).saturating_add(trusted);
    let least = config.min_sources?;
    usize::try_from(least).is_ok_and(|least| least > voters).then(|| {
        let text = format!(
            "`min-sources` = {least}, but only {voters} of the sources have a vote: there would never \
             be a time"
        );
        ("min-sources", text)
    })
}

/// Complaint about reference clocks without a vote and without a server, and what to add.
fn lonely(add: &str) -> String {
    format!(
        "a pulse says when a second begins, and not which, and others are believed alone with trust = \
         true only: add a {add}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A file with this text while `check` runs.
    fn with_file(name: &str, text: &[u8], check: impl FnOnce(PathBuf)) {
        let path =
            std::env::temp_dir().join(format!("truechimer-{name}-{}.toml", std::process::id()));
        fs::write(&path, text).unwrap();
        check(path.clone());
        fs::remove_file(path).unwrap();
    }

    fn error(options: &Options) -> String {
        options.settings().unwrap_err().to_string()
    }

    #[test]
    fn options_come_on_top_of_the_file() {
        let text = b"counter = \"raw\"\ncontrol = \"/c\"\n[[source]]\nhost = \"a\"\npoll = 64\n";
        with_file("merge", text, |path| {
            let mut options = Options { config: Some(path), ..Options::default() };
            let file = options.settings().unwrap();
            assert_eq!((file.counter, file.engine.sources[0].poll), (Choice::Raw, 64));
            options.servers = vec!["b:1".into(), "a".into()];
            options.poll = Some(2);
            options.control = Some("none".into());
            options.page = Some("/p".into());
            options.pps = vec!["/dev/pps0".into(), "/dev/pps0".into()];
            let both = options.settings().unwrap();
            let sources: Vec<_> =
                both.engine.sources.iter().map(|s| (s.host.as_str(), s.port, s.poll)).collect();
            assert_eq!(sources, [("a", 123, 2), ("b", 1, 2)]);
            assert_eq!((both.counter, both.control), (Choice::Raw, Place::None));
            assert_eq!(both.page, Some("/p".into()));
            assert_eq!(both.engine.refclocks, [RefClockConfig::pulse("/dev/pps0")]);
        });
    }

    #[test]
    fn what_is_wrong_says_where() {
        assert!(error(&Options::default()).starts_with("--server: no server to follow"));
        let options =
            Options { servers: vec!["a:b".into()], poll: Some(2000), ..Options::default() };
        let found = error(&options);
        assert_eq!(
            found,
            "--server: port `b` must be 1 to 65535\n--poll: must be 1 to 1024 seconds"
        );
        let lonely = Options { pps: vec!["/dev/pps0".into()], ..Options::default() };
        assert!(error(&lonely).starts_with("--pps: a pulse says when"));
        let pulse = b"[[source]]\npps = \"/dev/pps0\"\n";
        with_file("pulse", pulse, |path| {
            let found = error(&Options { config: Some(path.clone()), ..Options::default() });
            let says = format!("{}: no [[source]] that has a vote: a pulse", path.display());
            assert!(found.starts_with(&says), "{found}");
        });
        let twice = vec!["a".into(), "b".into(), "a:123".into()];
        let twice = Options { servers: twice, ..Options::default() };
        assert_eq!(error(&twice), "--server: a:123 is there twice");
        let nowhere = Options { pps: vec![String::new()], ..Options::default() };
        assert!(error(&nowhere).starts_with("--pps: must be a path"));
        let missing = Options { config: Some("/nonexistent".into()), ..Options::default() };
        assert!(error(&missing).starts_with("/nonexistent: cannot be read: No such file"));
        let directory = Options { config: Some("/".into()), ..Options::default() };
        assert!(error(&directory).contains("/: cannot be read: it is no regular file"));
        with_file("empty", b"", |path| {
            let found = error(&Options { config: Some(path), ..Options::default() });
            assert!(found.contains("add a [[source]]"), "{found}");
        });
        let few = b"min-sources = 2\n[[source]]\nhost = \"a\"\n[[source]]\nhost = \"b\"\nnoselect = true\n";
        with_file("few", few, |path| {
            let found = error(&Options { config: Some(path), ..Options::default() });
            assert!(found.contains("`min-sources` = 2, but only 1 of the sources"), "{found}");
        });
        let fenced =
            b"min-sources = 2\n[[source]]\nhost = \"a\"\nnts = true\n[[source]]\nhost = \"b\"\n";
        with_file("fenced", fenced, |path| {
            let found = error(&Options { config: Some(path), ..Options::default() });
            assert!(found.contains("`min-sources` = 2, but only 1 of the sources"), "{found}");
        });
        let watched = b"[[source]]\nhost = \"a\"\n[[source]]\nhost = \"b\"\nnoselect = true\nrequire = true\n";
        with_file("watched", watched, |path| {
            let found = error(&Options { config: Some(path), ..Options::default() });
            assert!(found.contains("`require` of `b:123` leaves no time ever"), "{found}");
        });
        // At the line of the one that is meant, if others are there as well or if it is a pool.
        for text in [
            "\n[[source]]\nhost = \"a\"\n[[source]]\nhost = \"b\"\nnoselect = true\nrequire = true\n",
            "source = [\n{ host = \"a\" },\n\n{ pool = \"b\", noselect = true, require = true },\n]",
        ] {
            with_file("lined", text.as_bytes(), |path| {
                let found = error(&Options { config: Some(path.clone()), ..Options::default() });
                let says = format!("{}:4: `require` of `b:123`", path.display());
                assert!(found.starts_with(&says), "{found}");
            });
        }
        with_file("plain", b"authentication = \"require\"\n", |path| {
            let servers = vec!["a".into(), "b".into()];
            let found = error(&Options { config: Some(path), servers, ..Options::default() });
            assert!(found.contains("no server proves who it is: add nts = true"), "{found}");
        });
        with_file("binary", b"\xff\xfe", |path| {
            let found = error(&Options { config: Some(path), ..Options::default() });
            assert!(found.contains("cannot be read: "), "{found}");
        });
        with_file("huge", &vec![b'\n'; 1 << 21], |path| {
            let found = error(&Options { config: Some(path), ..Options::default() });
            assert!(found.contains("is larger than"), "{found}");
        });
    }
}
