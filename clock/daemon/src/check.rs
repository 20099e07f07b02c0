//! Test of a configuration without a daemon.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::path::Path;

use truechimer_clockbound::{Page, PageError as ClockBoundError};
use truechimer_counter::vmclock::Vmclock;
use truechimer_counter::{Counter, CounterError};
use truechimer_engine::RefClockKind;
use truechimer_stamp::phc;
use truechimer_stamp::pps::Pps;
use truechimer_stamp::pps::card::Input;
use truechimer_timehands::{PageError, PageWriter, places};

use truechimer_config::{ConfigError, Place, Problem};
use truechimer_files::Entry;

use crate::config::Settings;
use crate::options::Options;
use crate::run::DaemonError;
use crate::state::{self, Keeping};
use crate::{clockbound, leaps, nts, proof, sys};
use truechimer_metrics::Listen;

/// Findings about a configuration and what it names.
struct Findings<'s> {
    settings: &'s Settings,
    /// Reasons why the daemon would not start.
    problems: Vec<Problem>,
    /// Reasons why it would do without something, or might not start.
    warnings: Vec<String>,
}

impl Options {
    /// Does as [`Options::settings`], and looks at the files that it names as far as that is
    /// possible before the daemon runs. `warn` hears what the daemon would warn of, and why it might
    /// not start.
    ///
    /// # Errors
    ///
    /// Those of [`Options::settings`]; if the daemon would not start whoever starts it, for any reason that
    /// can be known; and if the list of leap seconds that is asked for is none. All of them at once.
    pub fn check(&self, warn: &mut dyn FnMut(&str)) -> Result<Settings, ConfigError> {
        let settings = self.settings()?;
        let warnings = self.relative(&settings);
        let mut found = Findings { settings: &settings, problems: Vec::new(), warnings };
        found.look();
        let Findings { problems, warnings, .. } = found;
        warnings.iter().for_each(|text| warn(text));
        ConfigError::unless_empty(problems).map(|()| settings)
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
                let text = format!(
                    "`{key}` = \"{path}\" depends on the directory in which the daemon is started: \
                     write the whole path"
                );
                settings.problem(key, text).to_string()
            })
            .collect()
    }
}

impl Findings<'_> {
    /// The daemon would not start; by `sure` it is said that nobody can change that but who writes the
    /// configuration, or makes what it names.
    fn fault(&mut self, sure: bool, key: &str, why: impl Into<String>) {
        match sure {
            true => self.problems.push(self.settings.problem(key, why)),
            false => self.warn(key, format!("the daemon would not start: {}", why.into())),
        }
    }

    /// The daemon would do without what a key asks for.
    fn warn(&mut self, key: &str, text: String) {
        let placed = self.settings.line(key).is_some();
        let text = if placed { self.settings.problem(key, text).to_string() } else { text };
        self.warnings.push(text);
    }

    fn look(&mut self) {
        self.idle();
        self.leap_file();
        self.warnings.extend(self.settings.left_out.iter().cloned());
        self.page();
        self.counter();
        self.clockbound();
        self.places();
        self.refclocks();
        self.proofs();
        self.state();
    }

    /// Tables that are there, and have nothing that turns on what they are for.
    fn idle(&mut self) {
        let tables = [
            ("audit", self.settings.audit.is_none(), "keep no record: [audit] has no `directory`"),
            (
                "metrics",
                self.settings.metrics.is_none(),
                "serve no metrics: [metrics] has no `listen`",
            ),
        ];
        for (key, is_off, what) in tables {
            if is_off && self.settings.line(key).is_some() {
                self.warn(key, format!("the daemon would {what}"));
            }
        }
    }

    fn leap_file(&mut self) {
        if let Err(why) = leaps::readable(&self.settings.leap_file) {
            self.fault(true, "leap-file", format!("`leap-file`: {why}"));
        }
    }

    fn page(&mut self) {
        let usual = places::for_daemon();
        let path = self.settings.page.as_ref().unwrap_or(&usual);
        let folder = folder_of(path);
        if let Some((sure, why)) = folder.and_then(|folder| obstacle(folder, *path == usual)) {
            let text = format!("cannot make the clock page {}: {why}", path.display());
            return self.fault(
                sure,
                "page",
                text + "; make that directory first, or name another page",
            );
        }
        if let Some(why) = folder.and_then(never_made) {
            return self.fault(false, "page", why);
        }
        // Links on the way may be in directories of the daemon's user.
        if let Some(why) = Entry::itself(path).err().filter(|why| why.kind() != ErrorKind::NotFound)
        {
            let why = DaemonError::PagePlace { path: path.clone(), why };
            return self.fault(false, "page", why.to_string());
        }
        // Owners are right for the daemon's user, who may be another than this one.
        if let Err(why @ (PageError::NotAFile { .. } | PageError::Foreign { .. })) =
            PageWriter::examine(path)
        {
            self.fault(true, "page", why.to_string());
        }
    }

    fn counter(&mut self) {
        let settings = self.settings;
        let counter = match Counter::open(settings.counter) {
            Ok(counter) => counter,
            Err(why) => {
                let by_rights = match &why {
                    CounterError::NoAccess(..) => true,
                    CounterError::NoTable(_, errno) => {
                        io::Error::from_raw_os_error(*errno).kind() == ErrorKind::PermissionDenied
                    }
                    _ => false,
                };
                return self.fault(!by_rights, "counter", why.to_string());
            }
        };
        let pages = settings.clockbound.iter().flat_map(|wanted| &wanted.pages);
        for why in pages.filter_map(|page| clockbound::unfit(*page, counter.kind())) {
            self.fault(true, "clockbound.pages", why);
        }
    }

    fn clockbound(&mut self) {
        let Some(wanted) = &self.settings.clockbound else { return };
        let folder = &wanted.directory;
        if let Some((sure, why)) = obstacle(folder, true) {
            let why =
                ClockBoundError::NoDirectory { path: folder.clone(), why: io::Error::other(why) };
            self.fault(sure, "clockbound.directory", why.to_string());
        } else if let Some(why) = never_made(folder) {
            self.fault(false, "clockbound.directory", why);
        }
        for page in &wanted.pages {
            if let Err(why @ ClockBoundError::InTheWay { .. }) = Page::examine(folder, *page) {
                self.fault(true, "clockbound.pages", why.to_string());
            }
        }
        if let Some(why) = clockbound::running(wanted) {
            self.fault(false, "clockbound.pages", why);
        }
    }

    /// Files and sockets without which the daemon would go on.
    fn places(&mut self) {
        let settings = self.settings;
        for (key, path) in [
            ("replay-log", settings.replay_log.as_deref()),
            ("control", at(&settings.control)),
            ("metrics.listen", settings.metrics.as_ref().and_then(Listen::path)),
        ] {
            if let Some(why) = path.and_then(no_folder) {
                self.warn(key, format!("the daemon would run without its {}: {why}", called(key)));
            }
        }
        // At any port: a daemon that runs has the one that is meant.
        if let Some(Listen::At(mut address)) = settings.metrics
            && let Err(why) = {
                address.set_port(0);
                TcpListener::bind(address)
            }
        {
            let text = format!("the daemon would serve no metrics: {}: {why}", address.ip());
            self.warn("metrics.listen", text);
        }
        let record = settings.audit.as_ref().map(|audit| audit.directory.as_path());
        if let Some(why) = record.and_then(never_made) {
            let key = "audit.directory";
            self.warn(
                key,
                format!("the daemon would run without its record ({}): {why}", called(key)),
            );
        }
    }

    fn refclocks(&mut self) {
        for refclock in &self.settings.engine.refclocks {
            let path = Path::new(&refclock.path);
            let why = match refclock.kind {
                RefClockKind::Pulse => match refclock.path.parse::<Input>() {
                    Ok(input) if Input::is_meant(&refclock.path) => unopened(&input.device),
                    _ => Pps::open(path).err().map(|why| why.to_string()),
                },
                RefClockKind::Phc => match phc::find(&refclock.path) {
                    Ok(device) => unopened(&device),
                    Err(why) => Some(why),
                },
                // The daemon would make it.
                RefClockKind::Shm => None,
                RefClockKind::Sock => no_folder(path),
                RefClockKind::Vmclock => Vmclock::open(path).err().map(|why| why.to_string()),
            };
            let what = refclock.kind.name();
            self.warnings.extend(why.map(|why| {
                format!("the daemon would wait for the {what} `{}`: {why}", refclock.name)
            }));
        }
    }

    fn proofs(&mut self) {
        let settings = self.settings;
        let Some(file) = &settings.key_file else { return };
        for source in &settings.engine.sources {
            let key = source.authentication.key();
            if let Some(why) = key.and_then(|number| proof::key(file, number).err()) {
                self.warn(
                    "key-file",
                    format!("the daemon would not ask `{}`: {why}", source.name()),
                );
            }
        }
    }

    fn state(&mut self) {
        let settings = self.settings;
        if let Some(why) = nts::trouble(settings) {
            let text =
                format!("the daemon would not ask servers that are to prove themselves: {why}");
            self.warn("nts.ca", text);
        }
        // Nothing is made where nobody has named a place: that is for the daemon to do.
        let page = settings.page.clone().unwrap_or_else(places::for_daemon);
        let why = match &settings.state {
            Place::At(path) => match Keeping::at(&settings.state, path, &settings.engine) {
                Keeping::Cannot(_, why) => Some(why),
                _ => None,
            },
            Place::Default => {
                let folder = state::folder_to_be(&page, &settings.engine);
                folder
                    .as_deref()
                    .and_then(never_made)
                    .map(|why| why + "; name a file with `state`, or \"none\"")
            }
            Place::None => None,
        };
        if let Some(why) = why {
            self.warn(
                "state",
                format!("the measured rate cannot be kept for the next start: {why}"),
            );
        }
    }
}

/// A key as it is written in messages: `control`, or `[metrics] listen`.
fn called(key: &str) -> String {
    match key.split_once('.') {
        Some((table, key)) => format!("`[{table}] {key}`"),
        None => format!("`{key}`"),
    }
}

/// Reason why a device cannot be opened.
fn unopened(device: &Path) -> Option<String> {
    let why = File::open(device).err()?;
    Some(format!("{}: {why}", device.display()))
}

/// Directory of a file, unless it is that in which the daemon is started.
fn folder_of(path: &Path) -> Option<&Path> {
    path.parent().filter(|folder| !folder.as_os_str().is_empty())
}

/// Obstacle on the way to a directory that is to be there, or whose parent is if the daemon
/// `makes` it; true with one that does not hang on who looks, and when.
fn obstacle(folder: &Path, makes: bool) -> Option<(bool, String)> {
    let (sure, why) = match folder.metadata() {
        Ok(found) if found.is_dir() => return None,
        Ok(_) => (true, "is no directory".to_owned()),
        Err(why) => {
            let is_to_be = makes && folder.symlink_metadata().is_err();
            let above = match why.kind() {
                ErrorKind::NotFound => folder.parent().filter(|_| is_to_be),
                ErrorKind::NotADirectory => folder.parent(),
                _ => None,
            };
            if let Some(above) = above {
                return obstacle(above, false);
            }
            // Directories that lack in /run may be made for a service when it starts (RuntimeDirectory=).
            // Others hardly: they are taken for a slip, as documented.
            let may_come = ["/run", "/var/run"].iter().any(|run| folder.starts_with(run));
            (why.kind() == ErrorKind::NotFound && !may_come, why.to_string())
        }
    };
    Some((sure, format!("{}: {why}", folder.display())))
}

/// Reason why a directory that is made if need be cannot be, or nothing be made in it, as far as
/// this user can tell.
fn never_made(folder: &Path) -> Option<String> {
    // By itself: a link that leads nowhere is in the way.
    let there = folder.ancestors().find(|path| path.symlink_metadata().is_ok())?;
    let why = match there.metadata() {
        Ok(found) if !found.is_dir() => "is no directory".to_owned(),
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

/// Reason why nothing can be made at a path: the folder in which it is to be is none.
fn no_folder(path: &Path) -> Option<String> {
    let (_, why) = obstacle(folder_of(path)?, false)?;
    Some(format!("cannot make {}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::atomic::AtomicBool;

    /// Warnings about a configuration, or the reason why it is none.
    fn checked(name: &str, more: &str) -> Result<Vec<String>, String> {
        let folder = std::env::temp_dir().join(format!("truechimer-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("c.toml");
        let here = folder.display().to_string();
        let text = more.replace("HERE", &here) + "\n[[source]]\nhost = \"a\"\n";
        fs::write(&file, text).unwrap();
        // Where this user may make one, whoever that is.
        let page = (!more.contains("page = ")).then(|| folder.join("clock"));
        let options = Options { config: Some(file), page, ..Options::default() };
        let mut warnings = Vec::new();
        let found = options.check(&mut |text| warnings.push(text.to_owned()));
        let left = fs::read_dir(&folder).unwrap().count();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(left, 1, "nothing is left behind");
        found.map(|_| warnings).map_err(|why| why.to_string())
    }

    #[test]
    fn files_that_are_named_are_looked_at() {
        let error = checked("nolist", "leap-file = \"HERE/none\"").unwrap_err();
        assert!(error.contains("c.toml:1: `leap-file`: ") && error.contains("No such"), "{error}");
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
        let named =
            "page = \"HERE/clock\"\nreplay-log = \"HERE/c.toml/a\"\ncontrol = \"HERE/no/c\"";
        let warnings = checked("noplaces", named).unwrap();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(
            warnings[0].contains("`replay-log`")
                && warnings[0].ends_with("c.toml: is no directory")
        );
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
        for (table, says) in [("audit", "keep no record"), ("metrics", "serve no metrics")] {
            let warnings = checked("idle", &format!("[{table}]")).unwrap();
            let told = format!("c.toml:1: the daemon would {says}: [{table}] has no `");
            assert!(warnings.len() == 1 && warnings[0].contains(&told), "{warnings:?}");
        }
        let elsewhere = checked("elsewhere", "[metrics]\nlisten = \"203.0.113.7:9924\"").unwrap();
        assert!(
            elsewhere[0]
                .contains("c.toml:2: the daemon would serve no metrics: 203.0.113.7: Cannot"),
            "{elsewhere:?}"
        );
        let warnings = checked("relative", "page = \"clock\"\ncontrol = \"none\"").unwrap();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("c.toml:1: `page` = \"clock\" depends"), "{warnings:?}");
    }

    /// Obstacles that `run` would meet at its start are told before, all at once, and by their lines.
    #[test]
    fn what_keeps_the_daemon_from_starting_is_an_error() {
        let refused = |name: &str, text: &str, line: usize, says: &[&str]| {
            let error = checked(name, text).unwrap_err();
            assert_eq!(error.lines().count(), 1, "{error}");
            assert!(error.contains(&format!("c.toml:{line}: ")), "{error}");
            says.iter().for_each(|part| assert!(error.contains(part), "{part}: {error}"));
        };
        let at = "cannot make the clock page";
        refused("nopage", "\npage = \"HERE/no/clock\"", 2, &[at, "/no: No such file", "make that"]);
        refused("filepage", "page = \"HERE/c.toml/clock\"", 1, &[at, "c.toml: is no directory"]);
        refused("apage", "page = \"HERE\"", 1, &["is not a regular file; name another page"]);
        refused("otherpage", "page = \"HERE/c.toml\"", 1, &["c.toml", "clock page"]);
        refused("barepage", "page = \"src\"", 1, &["src is not a regular file"]);
        // Good with whichever counter this machine has.
        let system = "[system-clock]\ndiscipline = true\n[clockbound]\npages = [\"shm0\"]";
        let pages = |more: &str| format!("{system}\n{more}");
        let deep = pages("directory = \"HERE/no/no\"");
        refused(
            "nopages",
            &deep,
            5,
            &["there is no directory ", "/no/no for ClockBound", "make it"],
        );
        let of_file = pages("directory = \"HERE/c.toml/no\"");
        refused("filepages", &of_file, 5, &["cannot be made", "c.toml: is no directory"]);
        let raw = "counter = \"raw\"\n[clockbound]\npages = [\"shm1\"]\ndirectory = \"HERE\"";
        refused("raw", raw, 3, &["the counter is raw", "leave the page out of [clockbound]"]);
        // One that is only missing is made, and below /run a service's manager may make some.
        assert_eq!(checked("makes", &pages("directory = \"HERE/no\"")), Ok(vec![]));
        let [warning] = &checked("run", "page = \"/run/not-there/clock\"").unwrap()[..] else {
            panic!("one thing is wrong")
        };
        assert!(warning.contains("c.toml:1: the daemon would not start: cannot make"), "{warning}");
        let both = format!("page = \"HERE/no/clock\"\n{system}\ndirectory = \"HERE/no/no\"");
        let error = checked("both", &both).unwrap_err();
        let lines: Vec<&str> = error.lines().collect();
        assert!(lines[0].contains("c.toml:1: ") && lines[1].contains("c.toml:6: "), "{error}");
    }

    /// Errors of `run` itself name the line, too.
    #[test]
    fn a_start_that_fails_names_the_line() {
        let folder = std::env::temp_dir().join(format!("truechimer-start-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (file, here) = (folder.join("c.toml"), folder.display().to_string());
        for (text, says) in [
            ("page = \"HERE/no/clock\"", ["c.toml:1: cannot", "is there a directory"]),
            (
                "page = \"HERE/clock\"\n[system-clock]\ndiscipline = true\n\
                 [clockbound]\npages = [\"shm0\"]\ndirectory = \"HERE/no/no\"",
                ["c.toml:6: there is no directory", "/no/no for ClockBound pages"],
            ),
            (
                "page = \"HERE/clock\"\ncounter = \"raw\"\n[clockbound]\npages = [\"shm1\"]",
                ["c.toml:4: clients of ClockBound's `shm1`", "the counter is raw"],
            ),
        ] {
            fs::write(&file, text.replace("HERE", &here)).unwrap();
            let servers = vec!["127.0.0.1:1".into()];
            let options = Options { config: Some(file.clone()), servers, ..Options::default() };
            let (stop, reload) = (AtomicBool::new(true), AtomicBool::new(false));
            let service = &mut crate::Service::none();
            let why = crate::run(&options, &stop, &reload, service, &mut |_, _| ()).unwrap_err();
            says.iter().for_each(|part| assert!(why.to_string().contains(part), "{part}: {why}"));
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_link_on_the_way_to_the_page_that_others_may_change_is_told() {
        let folder = std::env::temp_dir().join(format!("truechimer-led-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        symlink(&folder, folder.join("link")).unwrap();
        let is_told = |mode| {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            let page = Some(folder.join("link/clock"));
            let options = Options { page, servers: vec!["a".into()], ..Options::default() };
            let mut warned = Vec::new();
            options.check(&mut |text| warned.push(text.to_owned())).unwrap();
            let says = "the daemon would not start: cannot make the clock page";
            warned.iter().any(|text| text.starts_with(says))
        };
        let told = [0o700, 0o1777].map(is_told);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(told, [false, true]);
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
        assert!(warning.ends_with("c.toml: is no directory"), "{warning}");
        let [warning] = &audit("file", "HERE/c.toml")[..] else { panic!("one thing is wrong") };
        assert!(
            warning.contains("cannot write in ") && warning.ends_with("c.toml: is no directory")
        );
        let shut = std::env::temp_dir().join(format!("truechimer-shut-{}", std::process::id()));
        fs::create_dir_all(&shut).unwrap();
        fs::set_permissions(&shut, fs::Permissions::from_mode(0o500)).unwrap();
        let why = std::thread::scope(|scope| {
            // Root may write everywhere.
            let try_it = || {
                (sys::uid() != 0 || sys::become_user(65_534)).then(|| {
                    // So it is with a page there.
                    let page = Some(shut.join("clock"));
                    let options = Options { page, servers: vec!["a".into()], ..Options::default() };
                    let mut warned = Vec::new();
                    options.check(&mut |text| warned.push(text.to_owned())).unwrap();
                    let why =
                        format!("the daemon would not start: cannot write in {}", shut.display());
                    assert!(warned.iter().any(|text| text.starts_with(&why)), "{warned:?}");
                    never_made(&shut.join("audit"))
                })
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
