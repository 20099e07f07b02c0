//! `truechimer sources add`, `delete`, `offline`, `online` and `reload`: other sources until the daemon
//! ends.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::Write;

use clap::{Args, Subcommand};
use truechimer_command::clock::Page;
use truechimer_command::{Ended, Failure, Outcome};
use truechimer_command::{program, show};

use crate::daemon::{self, Control};
use crate::import::quoted;

/// Changes of the sources.
#[derive(Subcommand, Debug)]
pub enum What {
    /// Follow another server, or pool of servers
    Add(Add),
    /// Stop following a server or pool
    Delete(Delete),
    /// Stop asking a server or pool for now, as while there is no network
    Offline(Asked),
    /// Ask it again
    Online(Asked),
    /// Read the configuration and the files in `source-dir` again, as SIGHUP has it
    Reload(Reload),
}

/// Options of all of them.
#[derive(Args, Debug)]
pub struct Options {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub page: Page,
    #[command(flatten)]
    pub control: Control,
}

/// Options of `truechimer sources add`.
#[derive(Args, Debug)]
#[command(after_help = "\
It is followed until the daemon ends; what is to stay belongs into the configuration, or into a
file in its `source-dir`. Only root and the daemon's own user may do that. Servers and pools can be added,
other sources not: the daemon gives up the rights that they need at its start. The same holds for
nts=true, unless a server has it already or there is a `source-dir`.

Examples:
  truechimer sources add ntp.example.org
  truechimer sources add 192.0.2.7:1123 poll=64 prefer=true
  truechimer sources add --pool pool.ntp.org max-sources=3

Exit status: 0 it is followed, 2 error (no daemon, no right, a mistake).")]
pub struct Add {
    /// The server: a name or an address, with :PORT if need be
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Keys of [[source]] in the configuration, with their values
    #[allow(rustdoc::broken_intra_doc_links)]
    // The text of --help, in which brackets are brackets.
    #[arg(value_name = "KEY=VALUE")]
    pub keys: Vec<String>,
    /// The name is a pool's: follow several of the servers that it leads to
    #[arg(long)]
    pub pool: bool,
    #[command(flatten)]
    pub options: Options,
}

/// Options of `truechimer sources delete`.
#[derive(Args, Debug)]
#[command(after_help = "\
Of a source of the configuration that lasts until the daemon ends. The last one stays, as there
would be nothing left to follow. Only root and the daemon's own user may do that.

Exit status: 0 it is not followed any more, 2 error (no daemon, no right, no such source).")]
pub struct Delete {
    /// The server or pool, as it was configured or added
    #[arg(value_name = "NAME")]
    pub name: String,
    #[command(flatten)]
    pub options: Options,
}

/// Options of `truechimer sources offline` and `online`.
#[derive(Args, Debug)]
#[command(after_help = "\
What is known of a source that is offline stays, and its bound grows. One that comes back is asked
at once. Only root and the daemon's own user may do that.

Exit status: 0, or 2 on an error (no daemon, no right, no such source).")]
pub struct Asked {
    /// The server or pool, as it was configured or added [default: all]
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    #[command(flatten)]
    pub options: Options,
}

/// Options of `truechimer sources reload`.
#[derive(Args, Debug)]
#[command(after_help = "\
With a mistake the configuration stays as it was, and a file in `source-dir` is left out; what takes
a restart is named. Only root and the daemon's own user may do that. The file is the one that the
daemon was started with: after a change 'truechimer run --check' says what is wrong, and warns.

Exit status: 0 all of it is in force, 1 it was read but not all of it is, 2 error (a mistake in it, no
daemon, no right).")]
pub struct Reload {
    #[command(flatten)]
    pub options: Options,
}

/// Runs the command.
pub fn run(what: &What, out: &mut dyn Write) -> Ended {
    let (verb, source, options, done) = match what {
        What::Add(add) => ("add", Some(document(add)?), &add.options, "is followed now"),
        What::Delete(delete) => {
            ("delete", Some(delete.name.clone()), &delete.options, "is not followed any more")
        }
        What::Offline(asked) => {
            ("offline", asked.name.clone(), &asked.options, "is not asked any more")
        }
        What::Online(asked) => ("online", asked.name.clone(), &asked.options, "is asked again"),
        What::Reload(Reload { options }) => {
            let reloaded = daemon::reload(&options.page, &options.control)?;
            if options.json {
                writeln!(out, "{}", show::json(&reloaded)?)?;
            } else {
                writeln!(out, "the configuration was read again")?;
            }
            for text in &reloaded.warnings {
                program::complain(&format!("warning: {}", show::plain(text)));
            }
            return Ok(Outcome::of(reloaded.warnings.is_empty()));
        }
    };
    let changed = daemon::change(&options.page, &options.control, verb, source.as_deref())?;
    if options.json {
        writeln!(out, "{}", show::json(&changed)?)?;
    } else {
        for name in &changed.changed {
            writeln!(out, "{} {done}", show::plain(name))?;
        }
    }
    Ok(Outcome::Good)
}

/// The source as a small document of the configuration: who reads that says what is wrong with it.
fn document(add: &Add) -> Result<String, Failure> {
    let own = if add.pool { "pool" } else { "host" };
    let mut keys = vec![format!("{own} = {}", quoted(&add.name))];
    for text in &add.keys {
        let Some((key, value)) = text.split_once('=') else {
            return Err(Failure::Said(format!(
                "{}: write a key of [[source]] and its value, as in poll=64",
                show::plain(text)
            )));
        };
        let is_plain = value.parse::<i64>().is_ok() || matches!(value, "true" | "false");
        let value = if is_plain { value.to_owned() } else { quoted(value) };
        keys.push(format!("{} = {value}", quoted(key)));
    }
    Ok(format!("source = [{{ {} }}]", keys.join(", ")))
}

/// Keys of `[[source]]` that somebody may write as options.
const KEYS: [&str; 9] = [
    "poll",
    "max-poll",
    "max-sources",
    "family",
    "interface",
    "key",
    "asymmetry",
    "asymmetry-error",
    "port",
];
/// Keys of that kind that are true or false.
const SWITCHES: [&str; 8] =
    ["offline", "interleaved", "burst", "noselect", "nts", "trust", "prefer", "require"];

/// The hint for a command line of `sources add` that has a key written as an option.
pub fn key_as_option(line: &[OsString]) -> Option<String> {
    let words: Vec<_> = line.iter().skip(1).map(|word| word.to_string_lossy()).collect();
    let [sources, add, rest @ ..] = words.as_slice() else { return None };
    if sources != "sources" || add != "add" {
        return None;
    }
    let options = rest.iter().take_while(|word| *word != "--");
    let named = |word: &str| {
        let word = word.strip_prefix("--")?;
        let (name, value) = word.split_once('=').map_or((word, None), |(n, v)| (n, Some(v)));
        let key = KEYS.iter().chain(&SWITCHES).find(|key| **key == name)?;
        Some((*key, value.map(str::to_owned)))
    };
    let (at, (key, value)) = options.enumerate().find_map(|(at, word)| Some((at, named(word)?)))?;
    if key == "port" {
        return Some("--port is no option: the port stands behind the name, as in NAME:123".into());
    }
    let is_value = |next: &&Cow<'_, str>| match SWITCHES.contains(&key) {
        true => matches!(next.as_ref(), "true" | "false"),
        false => !next.starts_with('-') && !next.contains('='),
    };
    let next = rest.get(at + 1).filter(is_value);
    let missing = if SWITCHES.contains(&key) { "true" } else { "VALUE" };
    let value = value.or_else(|| next.map(ToString::to_string)).unwrap_or_else(|| missing.into());
    let value = show::plain(&value);
    Some(format!("--{key} is no option but a key of [[source]]: write {key}={value}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        add: Add,
    }

    fn made(words: &[&str]) -> Result<String, String> {
        let line = Line::parse_from(["add"].iter().chain(words));
        document(&line.add).map_err(|why| format!("{why:?}"))
    }

    #[test]
    fn a_source_is_written_as_the_configuration_has_it() {
        for (words, text) in [
            (&["a"][..], "source = [{ host = \"a\" }]"),
            (
                &["--pool", "p:99", "max-sources=3", "burst=false"],
                "source = [{ pool = \"p:99\", \"max-sources\" = 3, \"burst\" = false }]",
            ),
            (
                &["a\"}]", "asymmetry=1ms", "x\" = 1, y=2"],
                "source = [{ host = \"a\\\"}]\", \"asymmetry\" = \"1ms\", \"x\\\" \" = \" 1, y=2\" }]",
            ),
        ] {
            assert_eq!(made(words).unwrap(), text);
        }
        assert!(made(&["a", "poll"]).unwrap_err().contains("as in poll=64"));
    }

    #[test]
    fn a_key_as_an_option_is_told_how_it_is_written() {
        let hint =
            |line: &str| key_as_option(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        for (line, told) in [
            ("t sources add a --poll 1", "write poll=1"),
            ("t sources add a prefer=true --poll=2", "write poll=2"),
            ("t sources add --nts a=b", "write nts=true"),
            ("t sources add --nts time.example", "write nts=true"),
            ("t sources add a --burst false", "write burst=false"),
            ("t sources add --poll -- a", "write poll=VALUE"),
            ("t sources add a --port 11123", "as in NAME:123"),
        ] {
            let found = hint(line).unwrap();
            assert!(found.ends_with(told), "{line}: {found}");
        }
        for good in [
            "t sources add a poll=1 --json",
            "t sources add --pool a",
            "t run --poll 1",
            "t sources add -- --poll 1",
        ] {
            assert_eq!(hint(good), None, "{good}");
        }
    }
}
