//! Changes of the sources that came by the control socket since the start.
//!
//! They lie over the configuration, also when that is read again, and end with the daemon.

use std::collections::BTreeMap;

use truechimer_config::printable;
use truechimer_engine::{Config, Origin, SourceConfig};

use crate::config;

/// The most sources that can be added.
const MOST: usize = 64;

/// Changes so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    added: Vec<SourceConfig>,
    /// Names of sources that are in the configuration and are not wanted.
    deleted: Vec<String>,
    /// Names of those that are, or are not, to be asked by the user's word, whatever the configuration says.
    asked: BTreeMap<String, bool>,
}

/// One change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    Add,
    Delete,
    Offline,
    Online,
}

impl Change {
    /// The one that a client means by this verb.
    pub(crate) fn named(verb: &str) -> Option<Change> {
        match verb {
            "add" => Some(Change::Add),
            "delete" => Some(Change::Delete),
            "offline" => Some(Change::Offline),
            "online" => Some(Change::Online),
            _ => None,
        }
    }

    /// For the log.
    pub(crate) fn told(self, names: &[String]) -> String {
        let names = names.join(", ");
        match self {
            Change::Add => format!("{names}: added by the control socket, until the daemon ends"),
            Change::Delete => {
                format!("{names}: deleted by the control socket, until the daemon ends")
            }
            Change::Offline => {
                format!("{names}: offline by the control socket: not asked any more")
            }
            Change::Online => format!("{names}: online by the control socket: asked again"),
        }
    }
}

impl Changes {
    /// Lays the changes over a configuration.
    pub(crate) fn apply(&self, config: &mut Config) {
        config.sources.retain(|source| !self.deleted.contains(&source.name()));
        for source in &self.added {
            if !config.sources.iter().any(|there| there.name() == source.name()) {
                config.sources.push(source.clone());
            }
        }
        for source in &mut config.sources {
            if let Some(asked) = self.asked.get(&source.name()) {
                source.offline = !asked;
            }
        }
    }

    /// Makes one change more. `there` is the configuration with those that were made before, and
    /// `source` a small document for one to add, or else a name; without one all are meant. Returns
    /// the names of those that changed.
    ///
    /// # Errors
    /// Why it cannot be made; nothing has changed then.
    pub(crate) fn make(
        &mut self,
        change: Change,
        source: Option<&str>,
        there: &Config,
        has_key_file: bool,
    ) -> Result<Vec<String>, String> {
        let names = match (change, source) {
            (Change::Add, Some(text)) => return self.add(text, there, has_key_file),
            (Change::Add, None) => return Err("which source is to be added?".into()),
            (Change::Delete, None) => return Err("which source is to be deleted?".into()),
            (_, Some(name)) => vec![find(name, there)?],
            (_, None) => {
                let asked = there.sources.iter().filter(|source| source.ptp.is_none());
                asked.map(SourceConfig::name).collect()
            }
        };
        match change {
            Change::Delete => {
                self.asked.retain(|name, _| !names.contains(name));
                self.added.retain(|added| !names.contains(&added.name()));
                let of_files = there.sources.iter().filter(|s| s.origin != Origin::RunTime);
                let names = of_files.map(SourceConfig::name).filter(|name| names.contains(name));
                self.deleted.extend(names);
            }
            Change::Offline => {
                let is_ptp = |source: &&SourceConfig| source.ptp.is_some();
                let ptp = there.sources.iter().filter(is_ptp).find(|s| names.contains(&s.name()));
                if let Some(port) = ptp {
                    return Err(format!("{} is a PTP port, which is not asked", port.name()));
                }
                self.asked.extend(names.iter().map(|name| (name.clone(), false)));
            }
            Change::Online => self.asked.extend(names.iter().map(|name| (name.clone(), true))),
            Change::Add => {}
        }
        Ok(names)
    }

    fn add(
        &mut self,
        text: &str,
        there: &Config,
        has_key_file: bool,
    ) -> Result<Vec<String>, String> {
        let new = config::added(text, "source", Origin::RunTime, has_key_file);
        let new = new.map_err(|why| why.to_string())?;
        if new.is_empty() {
            return Err("which source is to be added?".into());
        }
        let names: Vec<String> = new.iter().map(SourceConfig::name).collect();
        if let Some(name) =
            names.iter().find(|name| there.sources.iter().any(|s| s.name() == **name))
        {
            return Err(format!("{name} is a source already"));
        }
        if self.added.len() + new.len() > MOST {
            return Err(format!("{MOST} sources were added already: delete some first"));
        }
        self.asked.retain(|name, _| !names.contains(name));
        self.added.extend(new);
        Ok(names)
    }
}

/// The source that is meant by this name, `host:port` or `host`.
fn find(name: &str, there: &Config) -> Result<String, String> {
    let meant = |source: &&SourceConfig| source.name() == name || source.host == name;
    let found: Vec<String> = there.sources.iter().filter(meant).map(SourceConfig::name).collect();
    let list = |names: &[String]| names.join(", ");
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => {
            let all: Vec<String> = there.sources.iter().map(SourceConfig::name).collect();
            let name = printable(name);
            Err(format!(
                "no server or pool is configured by the name {name}; there are {}",
                list(&all)
            ))
        }
        several => Err(format!("which one? {}", list(several))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(hosts: &[&str]) -> Config {
        let sources = hosts.iter().map(|host| SourceConfig::new(*host)).collect();
        Config { sources, ..Config::default() }
    }

    /// Makes changes one after the other, and says what there is then.
    fn made(base: &Config, steps: &[(Change, Option<&str>)]) -> Result<(Changes, Config), String> {
        let (mut changes, mut now) = (Changes::default(), base.clone());
        for (change, source) in steps {
            changes.make(*change, *source, &now, false)?;
            now = base.clone();
            changes.apply(&mut now);
        }
        Ok((changes, now))
    }

    fn names(config: &Config) -> Vec<String> {
        config.sources.iter().map(SourceConfig::name).collect()
    }

    #[test]
    fn what_is_added_is_told_as_such_and_stays_when_the_file_is_read_again() {
        let base = config(&["a", "b"]);
        let text = "source = [{ pool = \"c:99\", max-sources = 2, poll = 64 }]";
        let (changes, now) = made(&base, &[(Change::Add, Some(text))]).unwrap();
        assert_eq!(names(&now), ["a:123", "b:123", "c:99"]);
        let pool = now.sources[2].clone();
        assert_eq!((pool.origin, pool.pool, pool.poll), (Origin::RunTime, Some(2), 64));
        let mut again = config(&["b", "d"]);
        changes.apply(&mut again);
        assert_eq!(names(&again), ["b:123", "d:123", "c:99"]);
        // The file has it by now: its word counts.
        let mut named = config(&[]);
        named.sources.push(SourceConfig { port: 99, ..SourceConfig::new("c") });
        changes.apply(&mut named);
        assert_eq!((named.sources.len(), named.sources[0].pool), (1, None));
    }

    #[test]
    fn one_that_is_deleted_stays_away_until_it_is_added_again() {
        let base = config(&["a", "b"]);
        let (changes, now) = made(&base, &[(Change::Delete, Some("a"))]).unwrap();
        assert_eq!(names(&now), ["b:123"]);
        let mut again = config(&["a", "c"]);
        changes.apply(&mut again);
        assert_eq!(names(&again), ["c:123"]);
        let add = (Change::Add, Some("source = [{ host = \"a\", poll = 8 }]"));
        let (_, now) = made(&base, &[(Change::Delete, Some("a:123")), add]).unwrap();
        assert_eq!((names(&now), now.sources[1].poll), (vec!["b:123".into(), "a:123".into()], 8));
        let steps = [(Change::Delete, Some("a")), add, (Change::Delete, Some("a"))];
        assert_eq!(names(&made(&base, &steps).unwrap().1), ["b:123"]);
    }

    #[test]
    fn offline_is_one_or_all() {
        let base = config(&["a", "b"]);
        let off = |now: &Config| now.sources.iter().map(|s| s.offline).collect::<Vec<_>>();
        let (_, now) = made(&base, &[(Change::Offline, Some("b"))]).unwrap();
        assert_eq!(off(&now), [false, true]);
        let (_, now) =
            made(&base, &[(Change::Offline, None), (Change::Online, Some("a"))]).unwrap();
        assert_eq!(off(&now), [false, true]);
        let (_, now) = made(&base, &[(Change::Offline, None), (Change::Online, None)]).unwrap();
        assert_eq!(off(&now), [false, false]);
        // Whatever the configuration says, until one is deleted and comes again.
        let mut base = base;
        base.sources[0].offline = true;
        let (_, now) = made(&base, &[(Change::Offline, Some("b"))]).unwrap();
        assert_eq!(off(&now), [true, true]);
        let (_, now) = made(&base, &[(Change::Online, None)]).unwrap();
        assert_eq!(off(&now), [false, false]);
        let add = (Change::Add, Some("source = [{ host = \"a\", offline = true }]"));
        let steps = [(Change::Online, None), (Change::Delete, Some("a")), add];
        assert_eq!(off(&made(&base, &steps).unwrap().1), [false, true]);
    }

    #[test]
    fn what_cannot_be_is_refused_and_changes_nothing() {
        let base = config(&["a", "a.example"]);
        let many: Vec<String> = (0..=MOST).map(|n| format!("{{ host = \"h{n}\" }}")).collect();
        let many = format!("source = [{}]", many.join(", "));
        for (change, source, why) in [
            (Change::Add, None, "which source is to be added?"),
            (Change::Add, Some(""), "which source is to be added?"),
            (Change::Add, Some("source = [{ host = \"a\" }]"), "a:123 is a source already"),
            (
                Change::Add,
                Some("source = [{ host = \"x\", pol = 4 }]"),
                "source:1: unknown key `pol`",
            ),
            (Change::Add, Some("source = [{ pps = \"/dev/pps0\" }]"), "only servers and pools"),
            (Change::Add, Some("source = [{ ptp = \"eth0\" }]"), "only servers and pools"),
            (Change::Add, Some("page = \"/p\""), "`page` belongs into the configuration"),
            (
                Change::Add,
                Some("source = [{ host = \"x\", key = 5 }]"),
                "`key` takes a file of keys",
            ),
            (Change::Add, Some("source = [{ pool = \"x\", nts = true }]"), "not for a pool"),
            (Change::Add, Some("\u{1}["), "source:1"),
            (Change::Add, Some(&many), "64 sources were added already"),
            (Change::Delete, None, "which source is to be deleted?"),
            (
                Change::Delete,
                Some("b\u{1b}"),
                "by the name b\u{fffd}; there are a:123, a.example:123",
            ),
        ] {
            let mut changes = Changes::default();
            let told = changes.make(change, source, &base, false).unwrap_err();
            assert!(told.contains(why), "{source:?}: {told}");
            let mut now = base.clone();
            changes.apply(&mut now);
            assert_eq!(now, base);
        }
    }
}
