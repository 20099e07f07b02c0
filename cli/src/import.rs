//! `truechimer import-chrony`: a configuration from chrony's, and what has no counterpart here.

mod directives;
mod files;
mod source;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use truechimer_command::show::plain;
use truechimer_command::{Ended, Failure, Outcome};

use files::Line;
pub(crate) use source::quoted;

/// Options of `truechimer import-chrony`.
#[derive(Args, Debug)]
#[command(after_help = "\
Prints a configuration for 'truechimer run --config FILE'. Above each value stands the line that it
comes from; below, as comments, stands what has no counterpart here and what is not needed, and why.
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
    /// chronyd's configuration
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
    let text = found.text(&args.file);
    truechimer_daemon::config::parse(&text, "the configuration that was made")
        .map_err(|why| Failure::new(args.file.display(), why))?;
    write!(out, "{text}")?;
    Ok(Outcome::of(!found.sources.is_empty()))
}

/// A part of the configuration to be: what it comes from, and its lines.
#[derive(Debug)]
struct Part {
    from: String,
    lines: Vec<String>,
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
    /// Directives that have no counterpart.
    lost: Vec<Left>,
    /// Directives that nobody needs here.
    needless: Vec<Left>,
}

impl Found {
    fn lose(&mut self, line: &Line, why: impl Into<String>) {
        self.lost.push(Left { from: line.shown(), why: why.into() });
    }

    fn nts(&mut self, line: &Line, text: String) {
        let key = |text: &str| text.split(' ').next().map(str::to_owned);
        if self.nts.iter().flat_map(|part| &part.lines).any(|there| key(there) == key(&text)) {
            return self.lose(line, "is there already: of several files of authorities make one");
        }
        self.nts.push(Part { from: line.shown(), lines: vec![text] });
    }

    fn top(&mut self, line: &Line, text: String) {
        self.top.push(Part { from: line.shown(), lines: vec![text] });
    }

    fn text(&self, file: &Path) -> String {
        let mut text = format!(
            "# Made from {} by 'truechimer import-chrony'. Every key: man truechimer.toml.\n",
            printable(&file.display().to_string())
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
