//! `truechimer import-chrony`: a configuration from chrony's, and what has no counterpart here.

mod directives;
mod files;
mod source;

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Args;
use truechimer_command::program::complain;
use truechimer_command::show::plain;
use truechimer_command::{Ended, Failure, Outcome};

use files::Line;
pub(crate) use source::quoted;

/// Options of `truechimer import-chrony`.
#[derive(Args, Debug)]
#[command(after_help = "\
Prints a configuration for 'truechimer run --config FILE'. Above each value stands the line that it
comes from; below, as comments, stands what is not quite the same, what has no counterpart here and
what is not needed, and why.
Files that are included (include, confdir, sourcedir) are read as well. Nothing is changed, and
chronyd goes on.

The system clock is left to chronyd: who steers it is yours to say, once chronyd is stopped.

docs/use/chrony.md has the words of both, side by side.

Exit status: 0 a configuration is there, 1 no server and no pulse was found, 2 error (a file that
cannot be read, say).

Example:
  truechimer import-chrony /etc/chrony/chrony.conf > truechimer.toml
  truechimer run --config truechimer.toml --check")]
pub struct ImportChrony {
    /// chronyd's configuration; - is standard input
    #[arg(value_name = "FILE", default_value = "/etc/chrony/chrony.conf")]
    pub file: PathBuf,
}

/// Runs the command.
pub fn run(args: &ImportChrony, out: &mut dyn Write) -> Ended {
    let lines = files::read(&args.file).map_err(Failure::Said)?;
    let mut found = Found::default();
    for line in &lines {
        directives::take(line, &mut found);
    }
    found.finish();
    let text = found.text(&args.file);
    truechimer_daemon::config::parse(&text, "the configuration that was made")
        .map_err(|why| Failure::new(args.file.display(), why))?;
    write!(out, "{text}")?;
    if found.sources.is_empty() {
        complain(&found.nothing());
    }
    Ok(Outcome::of(!found.sources.is_empty()))
}

/// A part of the configuration to be: what it comes from, and its lines.
#[derive(Debug)]
struct Part {
    from: String,
    lines: Vec<String>,
}

impl Part {
    /// The part as one that a later line takes the place of.
    fn outdone(self) -> Left {
        Left { from: self.from, why: "a later line counts".to_owned() }
    }
}

/// The key of a line of the configuration.
fn key_of(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

/// A directive that is not carried over, and why.
#[derive(Debug)]
struct Left {
    from: String,
    why: String,
}

/// All that was found.
#[derive(Debug, Default)]
struct Found {
    /// Keys of the file as a whole.
    top: Vec<Part>,
    /// Servers and pulses.
    sources: Vec<Part>,
    /// Servers that are there already, to be named once.
    hosts: Vec<String>,
    /// Keys of `[system-clock]`.
    system_clock: Vec<Part>,
    /// Keys of `[nts]`.
    nts: Vec<Part>,
    /// The file of symmetric keys, and whether a server has one of them.
    key_file: Option<String>,
    by_key: bool,
    /// Options of `truechimer serve`.
    serve: Vec<String>,
    /// Addresses of `bindaddress`, one of each family: where servers listen.
    bound: Vec<(IpAddr, String)>,
    /// Lines of `hwtimestamp` with options, which are not kept.
    card_options: Vec<String>,
    /// Word that the authorities of the system are not to be trusted.
    nosystemcert: Option<String>,
    /// Port at which servers listen; with `port 0` chronyd serves nobody.
    served_port: Option<(u16, String)>,
    /// Directives that are carried over, and mean something else here.
    differs: Vec<Left>,
    /// Directives that have no counterpart.
    lost: Vec<Left>,
    /// The first server, pool or reference clock that is left out as a whole, and why.
    refused: Option<String>,
    /// Directives that nobody needs here.
    needless: Vec<Left>,
}

/// Port of NTP.
const NTP: u16 = 123;

impl Found {
    /// Settles what hangs on several lines.
    fn finish(&mut self) {
        let ca = self.nts.iter().find(|part| part.lines.iter().any(|line| line.starts_with("ca ")));
        match (ca, self.nosystemcert.take()) {
            (Some(part), None) => self.differs.push(Left {
                from: part.from.clone(),
                why: "[nts] ca takes the place of the system's authorities; chronyd has both"
                    .to_owned(),
            }),
            (Some(_), Some(from)) => self.needless.push(Left {
                from,
                why: "[nts] ca takes the place of the system's authorities".to_owned(),
            }),
            (None, Some(from)) => self.lost.push(Left {
                from,
                why: "the system's authorities are trusted, unless [nts] ca names others"
                    .to_owned(),
            }),
            (None, None) => {}
        }
        let cards = self.top.iter().flat_map(|part| &part.lines);
        let mut cards = cards.filter_map(|line| line.split_once("    #").map(|(key, _)| key));
        if let Some(key) = cards.rfind(|key| key.starts_with("hardware-stamps")) {
            let why = format!("{key} is written; the options have no counterpart");
            let left = |from| Left { from, why: why.clone() };
            self.differs.extend(self.card_options.drain(..).map(left));
        }
        let port = match self.served_port.take() {
            Some((0, from)) => {
                self.serve.clear();
                let why = "chronyd serves nobody with that, and 'truechimer run' never does";
                self.needless.push(Left { from, why: why.to_owned() });
                None
            }
            port => port,
        };
        let mut bound = std::mem::take(&mut self.bound);
        if self.serve.is_empty() {
            let lines = bound.into_iter().map(|(_, from)| from).chain(port.map(|(_, from)| from));
            let why = "says where servers listen, and nobody is served";
            self.needless.extend(lines.map(|from| Left { from, why: why.to_owned() }));
            return;
        }
        let port = port.map_or(NTP, |(port, _)| port);
        if bound.is_empty() && port != NTP {
            let all: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
            bound.extend(all.map(|address| (address, String::new())));
        }
        self.serve.extend(bound.into_iter().map(|(address, _)| match port {
            NTP => format!("--listen {address}"),
            _ => format!("--listen {}", SocketAddr::new(address, port)),
        }));
    }

    /// Says why nothing is there to be followed.
    fn nothing(&self) -> String {
        match &self.refused {
            Some(first) => {
                format!("no server was carried over: see \"Not carried over\" ({first})")
            }
            None => "no server was carried over: none is named there".to_owned(),
        }
    }

    fn differ(&mut self, line: &Line, why: impl Into<String>) {
        self.differs.push(Left { from: line.shown(), why: why.into() });
    }

    fn lose(&mut self, line: &Line, why: impl Into<String>) {
        self.lost.push(Left { from: line.shown(), why: why.into() });
    }

    /// Leaves a whole source out.
    fn refuse(&mut self, line: &Line, why: impl Into<String>) {
        let why = why.into();
        self.refused.get_or_insert_with(|| format!("{}: {}", line.shown(), plain(&why)));
        self.lose(line, why);
    }

    fn nts(&mut self, line: &Line, text: String) {
        if self.nts.iter().flat_map(|part| &part.lines).any(|own| key_of(own) == key_of(&text)) {
            return self.lose(line, "is there already: of several files of authorities make one");
        }
        self.nts.push(Part { from: line.shown(), lines: vec![text] });
    }

    /// Takes a key of `[nts]` back, for a later line.
    fn forget_nts(&mut self, key: &str) {
        let is_it = |part: &mut Part| part.lines.iter().any(|line| key_of(line) == key);
        self.needless.extend(self.nts.extract_if(.., is_it).map(Part::outdone));
    }

    fn top(&mut self, line: &Line, text: String) {
        // The last one counts, as for chronyd.
        let is_twin = |part: &mut Part| part.lines.iter().any(|own| key_of(own) == key_of(&text));
        self.needless.extend(self.top.extract_if(.., is_twin).map(Part::outdone));
        self.top.push(Part { from: line.shown(), lines: vec![text] });
    }

    fn text(&self, file: &Path) -> String {
        let mut text = format!(
            "# Made from {} by 'truechimer import-chrony'.\n\
             # Every key: man truechimer.toml, or docs/reference/configuration.md of the sources.\n",
            printable(&files::name(file))
        );
        let parts = |text: &mut String, parts: &[Part], apart: &str| {
            for Part { from, lines } in parts {
                text.push_str(&format!("{apart}# {from}\n"));
                lines.iter().for_each(|line| text.push_str(&format!("{line}\n")));
            }
        };
        if !self.top.is_empty() {
            text.push('\n');
        }
        parts(&mut text, &self.top, "");
        if self.by_key && self.key_file.is_none() {
            // Rather no time from a server than time without the proof that was asked for.
            text.push_str("\nkey-file = \"/etc/truechimer.keys\"    # no keyfile is named there: where is it?\n");
        }
        parts(&mut text, &self.sources, "\n");
        text.push_str(
            "\n[system-clock]\n\
             # chronyd steers the system clock. To have it done here, stop and disable chronyd first:\n\
             # discipline = true\n",
        );
        parts(&mut text, &self.system_clock, "");
        if !self.nts.is_empty() {
            text.push_str("\n[nts]\n");
        }
        parts(&mut text, &self.nts, "");
        if !self.serve.is_empty() {
            let keys = self.key_file.iter().map(|path| format!("--keys {}", printable(path)));
            let options: Vec<String> = self.serve.iter().cloned().chain(keys).collect();
            let options = options.join(" ");
            text.push_str(&format!(
                "\n# Serving is a program of its own:\n#   truechimer serve {options}\n"
            ));
        }
        let mut left = |title: &str, all: &[Left]| {
            if !all.is_empty() {
                text.push_str(&format!("\n# {title}:\n"));
            }
            for Left { from, why } in all {
                text.push_str(&format!("# {from}\n#     {}\n", plain(why)));
            }
        };
        left("Carried over, but not quite the same here", &self.differs);
        left("Not carried over", &self.lost);
        left("Not needed here", &self.needless);
        text
    }
}

/// The text on one line of a comment.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests;
