//! The rate of the counter, kept across boots; and beside the clock page whose word that is.

use std::io::{self, ErrorKind, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use truechimer_engine::{Config, Level, Saved, SourceConfig};
use truechimer_files::{Durable, Entry};
use truechimer_time::{Count, Period, Span};
use truechimer_timehands::places;

use crate::config::Place;
use crate::sys;

/// Where the machine's own daemon keeps it.
const SYSTEM: &str = "/var/lib/truechimer";
const NAME: &str = "rate.json";
/// The largest file that is read, bytes, and so the largest that is written: what is held against a
/// thousand servers takes one and a half million.
const MAX_FILE: u64 = 4 << 20;

/// Where the rate is kept, or why it is not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Keeping {
    /// In this file.
    In(PathBuf),
    /// Nowhere, as the user wants it.
    Not,
    /// Beside the clock page alone: it is a trial, for this reason.
    WithPage(String),
    /// Cannot be kept as it should, in this file if there is one, for this reason.
    Cannot(Option<PathBuf>, String),
}

impl Keeping {
    /// Decides what to do at this place, by a daemon with this clock page that follows these
    /// sources. A folder that is not there yet is made where nobody has named it.
    pub(crate) fn at(place: &Place, page: &Path, follows: &Config) -> Keeping {
        match place {
            Place::None => Keeping::Not,
            Place::At(path) => Keeping::In(path.clone()).if_writable(),
            Place::Default => By::environment(page, follows).keeping(),
        }
    }

    /// The file that is read at the start, and written if that can be.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Keeping::In(path) => Some(path),
            Keeping::Cannot(path, _) => path.as_deref(),
            Keeping::Not | Keeping::WithPage(_) => None,
        }
    }

    /// For the user.
    pub(crate) fn note(&self) -> (Level, String) {
        match self {
            Keeping::In(path) => (
                Level::Info,
                format!(
                    "the measured rate, and what is held against servers, is kept in {}",
                    path.display()
                ),
            ),
            Keeping::Not => (
                Level::Info,
                "the measured rate, and what is held against servers, is not kept for the next \
                 start: by 'state' in the configuration"
                    .into(),
            ),
            Keeping::WithPage(why) => (
                Level::Info,
                format!(
                    "the measured rate, and what is held against servers, is kept beside the clock \
                     page alone: {why}"
                ),
            ),
            Keeping::Cannot(_, why) => (
                Level::Warning,
                format!(
                    "the measured rate cannot be kept for the next start: {why}; name a file that \
                     can be written to with 'state' in the configuration, or \"none\""
                ),
            ),
        }
    }

    /// Keeps to it, unless no file can be made there: better to hear that at the start than an hour
    /// later.
    fn if_writable(self) -> Keeping {
        let Keeping::In(path) = self else { return self };
        match Entry::at(&path).and_then(Entry::try_replace) {
            Ok(()) => Keeping::In(path),
            Err(why) => {
                let why = format!("{}: {why}", path.display());
                Keeping::Cannot(Some(path), why)
            }
        }
    }
}

/// Grounds that decide where the rate is kept if the user has not said it.
struct By {
    /// `$STATE_DIRECTORY`, which systemd sets.
    given: Option<PathBuf>,
    /// The machine's.
    system: PathBuf,
    is_root: bool,
    /// The user's own.
    own: Option<PathBuf>,
    /// Reason why this is a trial, if it is one: its server may have any rate, and what is learnt
    /// from it is no good for the next start but that of the same trial.
    trial: Option<&'static str>,
}

/// By what a trial is known.
fn trial(page_is_usual: bool, follows: &Config) -> Option<&'static str> {
    let is_here = |source: &SourceConfig| {
        let host = source.host.trim_end_matches('.');
        host.eq_ignore_ascii_case("localhost")
            || host.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback())
    };
    if !page_is_usual {
        Some("the clock page is not at its usual place")
    } else if follows.refclocks.is_empty() && follows.sources.iter().all(is_here) {
        Some("all servers are on this machine, which may be a trial")
    } else {
        None
    }
}

impl By {
    fn environment(page: &Path, follows: &Config) -> By {
        let named = |name| {
            // Who started a program with more rights does not tell it where to write.
            let value =
                if truechimer_counter::is_privileged() { None } else { std::env::var_os(name) };
            value.filter(|value| !value.is_empty())
        };
        let folder = |name| named(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || Some(folder("HOME")?.join(".local/state"));
        By {
            given: named("STATE_DIRECTORY").and_then(|all| std::env::split_paths(&all).next()),
            system: PathBuf::from(SYSTEM),
            is_root: sys::uid() == 0,
            own: folder("XDG_STATE_HOME").or_else(home).map(|state| state.join("truechimer")),
            trial: trial(
                named(places::VARIABLE).is_none() && page == places::for_daemon(),
                follows,
            ),
        }
    }

    /// Folder that is made where no other is found.
    fn made(&self) -> Option<&Path> {
        if self.is_root { Some(&self.system) } else { self.own.as_deref() }
    }

    /// Directory that is to be made, for [`folder_to_be`].
    fn folder_to_be(&self) -> Option<&Path> {
        let elsewhere = self.given.is_some() || self.trial.is_some();
        let service = !self.is_root && self.system.is_dir();
        if elsewhere || service { None } else { self.made() }
    }

    fn keeping(self) -> Keeping {
        let file = |folder: &Path| Keeping::In(folder.join(NAME)).if_writable();
        if let Some(given) = &self.given {
            return file(given);
        }
        if let Some(why) = self.trial {
            return Keeping::WithPage(format!(
                "{why} (to keep it elsewhere, name a file with 'state' in the configuration)"
            ));
        }
        // That of a service that is a user of its own.
        if !self.is_root && self.system.is_dir() {
            let system = file(&self.system);
            if matches!(system, Keeping::In(_)) {
                return system;
            }
        }
        let Some(folder) = self.made() else {
            let why = "neither XDG_STATE_HOME nor HOME names a folder (they do not count where the \
                       program's file has capabilities)";
            return Keeping::Cannot(None, why.into());
        };
        match truechimer_files::make_folder(folder, 0o755) {
            Ok(_) => file(folder),
            Err(why) => Keeping::Cannot(None, format!("{}: {why}", folder.display())),
        }
    }
}

/// Folder that a daemon of this user's would make for the state, if nobody has named a place.
pub(crate) fn folder_to_be(page: &Path, follows: &Config) -> Option<PathBuf> {
    By::environment(page, follows).folder_to_be().map(Path::to_owned)
}

/// State that goes with a clock page: beside it, the name ending in `.state`. It says whose word
/// the page is, so that a trial's is not taken for another server's.
pub(crate) fn beside_page(page: &Path) -> PathBuf {
    let mut beside = page.as_os_str().to_owned();
    beside.push(".state");
    PathBuf::from(beside)
}

/// State that was saved; `None` if none was.
///
/// # Errors
/// If the file cannot be read or is not one of ours.
pub(crate) fn load(path: &Path) -> io::Result<Option<Saved>> {
    saved(truechimer_config::read(path, MAX_FILE))
}

/// State in a file that lies where others may write: through no link, and nobody else's.
///
/// # Errors
/// Likewise.
pub(crate) fn load_own(path: &Path) -> io::Result<Option<Saved>> {
    saved(truechimer_config::read_own(path, MAX_FILE))
}

fn saved(text: io::Result<String>) -> io::Result<Option<Saved>> {
    match text {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        text => Ok(Some(serde_json::from_str(&text?)?)),
    }
}

/// Saves it: whoever reads finds the old file or the new one. It is not forced to the disk, which
/// could take seconds: should the machine crash meanwhile, [`load`] tells a damaged file.
pub(crate) fn save(path: &Path, saved: &Saved) -> io::Result<()> {
    let text = readable(saved, MAX_FILE)?;
    let mut new = Entry::at(path)?.replace(0o644)?;
    new.write_all(&text)?;
    new.commit(Durable::No)
}

/// Text of the file. It is never larger than what is read again: paths are left out first, then, of more
/// servers than there is room for, those that come last, and are then held off by the clock page alone.
fn readable(saved: &Saved, limit: u64) -> io::Result<Vec<u8>> {
    let mut part = saved.clone();
    loop {
        let mut text = serde_json::to_vec_pretty(&part)?;
        text.push(b'\n');
        if text.len() as u64 <= limit {
            return Ok(text);
        }
        let named = part.agreed.as_mut();
        if !part.paths.is_empty() {
            part.paths.truncate(part.paths.len() / 2);
        } else if let Some(agreed) =
            named.filter(|a| !a.servers.is_empty() || !a.overruled.is_empty())
        {
            agreed.servers.truncate(agreed.servers.len() / 2);
            agreed.overruled.truncate(agreed.overruled.len() / 2);
            let servers = &agreed.servers;
            agreed.since.retain(|name, _| servers.contains(name));
            agreed.told_by.retain(|name| servers.contains(name));
        } else if !part.held.is_empty() {
            part.held.truncate(part.held.len() / 2);
        } else {
            return Err(io::Error::other(format!("would be larger than {limit} bytes")));
        }
    }
}

/// When a file that could not be written is tried again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Retry {
    /// The last time it could be.
    #[default]
    None,
    /// At this count; if it fails again, so much later.
    At(Count, Span),
}

/// The first wait after a failure, and the longest: as long as from chore to chore.
const RETRIES: (Span, Span) = (Span::from_secs(16), Span::from_secs(3600));

impl Retry {
    /// True if it is time to try again.
    pub(crate) fn is_due(self, now: Count) -> bool {
        matches!(self, Retry::At(due, _) if now.at_or_after(due))
    }

    /// A counter that broke: the old count may be years away.
    pub(crate) fn in_new_epoch(self, now: Count) -> Retry {
        match self {
            Retry::None => Retry::None,
            Retry::At(_, wait) => Retry::At(now, wait),
        }
    }

    /// Next step after an attempt, by a counter of this nominal period; and what the user is told
    /// of it, once.
    pub(crate) fn after(
        self,
        attempt: &io::Result<()>,
        path: &Path,
        now: Count,
        nominal: Period,
    ) -> (Retry, Option<(Level, String)>) {
        let path = path.display();
        match (self, attempt) {
            (Retry::None, Ok(())) => (Retry::None, None),
            (Retry::At(..), Ok(())) => {
                let text = format!("{path} could be written again");
                (Retry::None, Some((Level::Info, text)))
            }
            (Retry::None, Err(why)) => {
                let text = format!(
                    "the rate, and what is held against servers, cannot be saved in {path}: {why}; \
                     it is tried again in {} s, and less and less often, without another word \
                     before it can",
                    RETRIES.0.as_nanos() / 1_000_000_000
                );
                let next = Retry::At(now + nominal.counts(RETRIES.0), RETRIES.0 * 2);
                (next, Some((Level::Warning, text)))
            }
            (Retry::At(_, wait), Err(_)) => {
                (Retry::At(now + nominal.counts(wait), (wait * 2).min(RETRIES.1)), None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use truechimer_engine::{Agreed, Asymmetry, Held, KeptPath};
    use truechimer_time::{BootId, CounterId, CounterKind, Epoch, Instant, Rate};

    fn saved() -> Saved {
        Saved {
            counter: "tsc".into(),
            nominal: Period::from_hz(2_596_000_000),
            period: Period::from_hz(2_596_012_345),
            error: Rate::from_ppb(20),
            unix: 1_800_000_000,
            held: Vec::new(),
            agreed: None,
            moved: Span::ZERO,
            rtc_offset: None,
            paths: Vec::new(),
        }
    }

    #[test]
    fn what_is_saved_is_loaded_and_damage_is_told() {
        let path =
            std::env::temp_dir().join(format!("truechimer-state-{}.json", std::process::id()));
        assert_eq!(load(&path).unwrap(), None);
        let saved = saved();
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
            agreed: None,
            moved: Span::ZERO,
            rtc_offset: None,
            paths: Vec::new(),
        };
        assert!(save(Path::new("/nonexistent/rate.json"), &saved).is_err());
    }

    /// State saved by a clock that holds something against so many servers, and agrees with as
    /// many.
    fn crowd(servers: u32) -> Saved {
        let counter = CounterId {
            kind: CounterKind::ArmGeneric,
            boot: BootId([255; 16]),
            epoch: Epoch(u32::MAX),
        };
        let name = |n: u32| format!("{n:0>253}.example.org:65535");
        let most = Count(u64::MAX);
        let held = |n| Held {
            counter,
            count: most,
            time: Instant(i128::MIN),
            bound: Span(i128::MIN),
            since: most,
            step: Span(i128::MIN),
            server: name(n),
            known: Some((most, most)),
        };
        let path = |n| KeptPath {
            server: name(n),
            address: "[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255%4294967295]:65535"
                .parse()
                .unwrap(),
            asymmetry: Asymmetry { by: Span(i128::MIN), error: Span(i128::MAX) },
            least: Span(i128::MIN),
            unix: i64::MIN,
        };
        let names: Vec<String> = (0..servers).map(name).collect();
        let since = names.iter().map(|name| (name.clone(), most)).collect();
        Saved {
            counter: "tsc".into(),
            nominal: Period::from_hz(2_596_000_000),
            period: Period::from_hz(2_596_012_345),
            error: Rate::from_ppb(20),
            unix: 1_800_000_000,
            held: (0..servers).map(held).collect(),
            agreed: Some(Agreed {
                counter,
                count: most,
                told_by: names.clone(),
                overruled: names.clone(),
                servers: names,
                since,
            }),
            moved: Span::MAX,
            rtc_offset: Some(Span::MAX),
            paths: (0..servers).map(path).collect(),
        }
    }

    #[test]
    fn what_is_written_can_be_read_again_however_many_servers_there_are() {
        let path = folder("crowd.json");
        for servers in [0, 1, 1000] {
            let saved = crowd(servers);
            save(&path, &saved).unwrap();
            assert_eq!(load(&path).unwrap(), Some(saved), "{servers} servers");
        }
        // More than there is room for.
        let limit = 40_000;
        let text = readable(&crowd(100), limit).unwrap();
        assert!((limit / 3..=limit).contains(&(text.len() as u64)), "{}", text.len());
        let part: Saved = serde_json::from_slice(&text).unwrap();
        let all = crowd(100);
        assert!(part.held.len() > 10 && part.held[..] == all.held[..part.held.len()]);
        assert_eq!((part.period, part.error), (all.period, all.error));
        let agreed = part.agreed.unwrap();
        assert!(agreed.since.keys().all(|name| agreed.servers.contains(name)));
        assert!(readable(&all, 100).is_err());
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_failed_write_is_tried_again_and_told_once() {
        let (path, nominal) = (Path::new("/x/rate.json"), Period::NANOSECOND);
        let second = |s: u64| Count(s * 1_000_000_000);
        let fails = || Err(io::Error::other("disk full"));
        let (mut retry, mut now) = (Retry::default(), 100);
        assert!(!retry.is_due(second(now)));
        let (mut told, mut waits) = (Vec::new(), Vec::new());
        for _ in 0..11 {
            let (next, note) = retry.after(&fails(), path, second(now), nominal);
            (retry, told) = (next, told.into_iter().chain(note).collect());
            let begun = now;
            while !retry.is_due(second(now)) {
                now += 1;
            }
            waits.push(now - begun);
        }
        assert_eq!(waits, [16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600, 3600]);
        let [(level, text)] = &told[..] else { panic!("{told:?}") };
        assert!(*level == Level::Warning && text.contains("/x/rate.json: disk full; it is tried"));
        // In another epoch it is tried at once.
        assert!(retry.in_new_epoch(second(5)).is_due(second(5)));
        let (retry, note) = retry.after(&Ok(()), path, second(now), nominal);
        assert_eq!(retry, Retry::None);
        assert!(note.unwrap().1.ends_with("could be written again"));
        assert_eq!(retry.after(&Ok(()), path, second(now), nominal), (Retry::None, None));
    }

    fn follows(hosts: &[&str]) -> Config {
        let source = |host: &&str| SourceConfig::new(*host);
        Config { sources: hosts.iter().map(source).collect(), ..Config::default() }
    }

    #[test]
    fn what_follows_servers_of_this_machine_only_is_a_trial() {
        for here in [&["127.0.0.1"][..], &["localhost", "::1"], &["::ffff:127.0.0.1", "LocalHost."]]
        {
            assert!(trial(true, &follows(here)).is_some(), "{here:?}");
        }
        for elsewhere in [&["192.0.2.1"][..], &["localhost", "ntp.example.org"], &["localhost.org"]]
        {
            assert_eq!(trial(true, &follows(elsewhere)), None, "{elsewhere:?}");
        }
        assert!(trial(false, &follows(&["192.0.2.1"])).is_some());
    }

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("truechimer-state-{name}-{}", std::process::id()))
    }

    #[test]
    fn whoever_has_not_said_where_gets_a_folder_of_his_own() {
        let all = folder("own");
        let by = |is_root, page_is_usual| By {
            given: None,
            system: all.join("system"),
            is_root,
            own: Some(all.join("home/truechimer")),
            trial: trial(page_is_usual, &follows(&["127.0.0.1", "192.0.2.1"])),
        };
        let kept = |folder: &str| Keeping::In(all.join(folder).join(NAME));
        // Not by a trial, which makes no folder either.
        let trial = by(true, false).keeping();
        assert!(matches!(&trial, Keeping::WithPage(why) if why.contains("'state'")), "{trial:?}");
        let to_be = |is_root, page| by(is_root, page).folder_to_be().map(Path::to_owned);
        assert_eq!(to_be(true, false), None);
        assert_eq!(to_be(true, true), Some(all.join("system")));
        assert_eq!(to_be(false, true), Some(all.join("home/truechimer")));
        assert!(!all.exists());
        assert_eq!(by(false, true).keeping(), kept("home/truechimer"));
        assert_eq!(by(true, true).keeping(), kept("system"));
        // A service that is a user of its own, whose folder it is.
        assert_eq!(by(false, true).keeping(), kept("system"));
        let given = Some(all.join("home"));
        assert_eq!(By { given, ..by(true, false) }.keeping(), kept("home"));
        let homeless = By { own: None, system: folder("none"), ..by(false, true) }.keeping();
        let (level, text) = homeless.note();
        assert!(level == Level::Warning && text.contains("HOME"), "{text}");
        assert!(text.contains("with 'state' in the configuration"), "{text}");
        assert_eq!(fs::read_dir(all.join("home")).unwrap().count(), 1, "no leftovers");
        fs::remove_dir_all(all).unwrap();
    }

    #[test]
    fn a_place_that_cannot_be_written_to_is_told_at_once() {
        let page = Path::new("/run/truechimer/clock");
        let wrong =
            Keeping::at(&Place::At("/nonexistent/rate.json".into()), page, &Config::default());
        // It is tried nevertheless: the disk may come.
        assert_eq!(wrong.path(), Some(Path::new("/nonexistent/rate.json")));
        let (level, text) = wrong.note();
        assert!(level == Level::Warning && text.contains("/nonexistent/rate.json: "), "{text}");
        let (level, text) = Keeping::at(&Place::None, page, &Config::default()).note();
        assert!(level == Level::Info && text.ends_with("by 'state' in the configuration"));
        let path = folder("here.json");
        let here = Keeping::at(&Place::At(path.clone()), page, &Config::default());
        assert_eq!(here, Keeping::In(path.clone()));
        assert!(!path.exists());
    }

    /// A directory that others can change, and in it what they have put in the way of a new file.
    #[test]
    fn nobody_elses_link_is_written_through() {
        let all = folder("links");
        fs::create_dir(&all).unwrap();
        let (open, precious) = (all.join("open"), all.join("precious"));
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(&precious, "precious").unwrap();
        let path = open.join(NAME);
        for name in ["rate.json.new", NAME] {
            symlink(&precious, open.join(name)).unwrap();
            let place = Keeping::at(
                &Place::At(path.clone()),
                Path::new("/run/truechimer/clock"),
                &Config::default(),
            );
            let result = save(&path, &saved());
            assert_eq!(fs::read_to_string(&precious).unwrap(), "precious", "{name}");
            // In place of the file itself, the user hears of it; beside it, it is in nobody's way.
            match name {
                NAME => {
                    let why = result.unwrap_err().to_string();
                    assert!(why.contains("symbolic link"), "{why}");
                    assert!(place.note().1.contains("symbolic link"), "{:?}", place.note());
                }
                _ => {
                    result.unwrap();
                    assert_eq!(place, Keeping::In(path.clone()));
                    assert_eq!(load(&path).unwrap(), Some(saved()));
                    fs::remove_file(&path).unwrap();
                }
            }
        }
        fs::remove_dir_all(all).unwrap();
    }
}
