//! Where the figures go.

use std::fs;
use std::path::{Path, PathBuf};

use truechimer_command::{output, program, report};
use truechimer_report::Page;

use crate::outcome::{Failure, Outcome};

/// The options of the command line that say where.
#[derive(clap::Args, Clone, PartialEq, Eq, Debug, Default)]
pub struct Files {
    /// Print one JSON array
    #[arg(long)]
    pub json: bool,
    /// Write a report to look at
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write what goes into a document: Markdown, with its pictures beside it
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
}

impl Files {
    /// Writes the files that were asked for; a report begins with `page`.
    ///
    /// # Errors
    /// Where one cannot be written.
    pub(crate) fn write(&self, page: Page, outcomes: &[Outcome]) -> Result<(), Failure> {
        let write = |path: &Path, text: &str| output::save(path, text).map_err(said);
        if let Some(path) = &self.html {
            let page = page.fact("machine", &machine());
            let page = Outcome::headline(outcomes)
                .into_iter()
                .fold(page, |page, (name, value)| page.highlight(&name, value));
            output::save_report(path, &page.sections(outcomes.iter().map(Outcome::section)))
                .map_err(said)?;
        }
        if let Some(path) = &self.markdown {
            let text: Vec<String> = outcomes.iter().map(Outcome::markdown).collect();
            write(path, &headed(&text.join("\n"), &measured()))?;
            for (name, plot) in outcomes.iter().flat_map(Outcome::plots) {
                write(&path.with_file_name(name), &plot.svg())?;
            }
        }
        Ok(())
    }
}

/// Failure of a command as one of a measurement.
fn said(why: truechimer_command::Failure) -> Failure {
    match why {
        truechimer_command::Failure::Said(text) => Failure(text),
        truechimer_command::Failure::Unread => Failure("nobody reads the output any more".into()),
    }
}

/// Text of a page with a line after its title that says when, by what and on what it was measured.
fn headed(page: &str, measured: &str) -> String {
    let (title, rest) = page.split_once('\n').unwrap_or((page, ""));
    format!("{title}\n\n{measured}\n{rest}")
}

/// Time, version, commit, kernel, processors and command of this measurement. Who measures by a script of its own says which,
/// in `TRUECHIMER_COMMAND`.
fn measured() -> String {
    let commit = std::env::var("TRUECHIMER_COMMIT").ok();
    let time = report::between(program::begun_ns(), program::now_ns());
    let commit = commit.map_or("commit not told".to_owned(), |commit| format!("commit {commit}"));
    format!(
        "*Measured {time} by Truechimer {}, {commit}, on {}:*\n`{}`",
        env!("CARGO_PKG_VERSION"),
        machine(),
        std::env::var("TRUECHIMER_COMMAND").unwrap_or_else(|_| program::line())
    )
}

/// Kernel and processors of this machine.
fn machine() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let (kernel, machine) = (read("/proc/sys/kernel/osrelease"), read("/proc/cpuinfo"));
    format!("Linux {}, {}", kernel.trim(), processors(&machine))
}

/// Number and model of the processors that the kernel has online.
fn processors(cpuinfo: &str) -> String {
    let of = |key: &str| {
        let lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        lines
            .filter(|(name, _)| name.trim() == key)
            .map(|(_, value)| value.trim())
            .collect::<Vec<_>>()
    };
    let number = of("processor").len();
    let plural = if number == 1 { "processor" } else { "processors" };
    match of("model name").first() {
        Some(model) => format!("{number} {plural} ({model})"),
        None => format!("{number} {plural}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_by_what_it_was_measured() {
        let page = headed("## Rates\n\nText.\n", &measured());
        let (title, rest) = page.split_once("\n\n").unwrap();
        let (head, text) = rest.split_once("\n\n").unwrap();
        assert_eq!((title, text), ("## Rates", "Text.\n"));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        for part in ["*Measured 2", " UTC by Truechimer ", "ommit ", kernel.trim(), " processor"] {
            assert!(head.contains(part), "{part}: {head}");
        }
        assert!(head.ends_with(&format!("\n`{}`", program::line())), "{head}");
    }

    #[test]
    fn processors_are_those_of_the_kernel() {
        let one = "processor\t: 0\nmodel name\t: Some CPU: 3 GHz\n\n";
        assert_eq!(processors(one), "1 processor (Some CPU: 3 GHz)");
        assert_eq!(processors(&one.repeat(2)), "2 processors (Some CPU: 3 GHz)");
        assert_eq!(processors("processor\t: 0\nBogoMIPS\t: 50\n"), "1 processor");
    }
}
