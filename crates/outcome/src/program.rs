//! A program that measures: what it prints and where it writes that, and how it ends.

use std::io::Write;
use std::process::ExitCode;

use serde_json::Value;
use truechimer_report::Page;

use crate::files::Files;
use crate::outcome::{Failure, Outcome};

/// 0 where all goals were met, 1 where one was not, 2 where it did not work, which is said on
/// standard error in the `name` of the program.
#[must_use]
pub fn exit_code(name: &str, met: Result<bool, Failure>) -> ExitCode {
    match met {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(failure) => {
            eprintln!("{name}: {failure}");
            ExitCode::from(2)
        }
    }
}

/// The beginning of the report of the program of this `name`, as it was called.
#[must_use]
pub fn page(name: &str, title: &str) -> Page {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    Page::new(title)
        .about("Figures of one machine; compare within a run, not between runs.")
        .version(concat!("truechimer ", env!("CARGO_PKG_VERSION")))
        .command(&format!("{name} {}", arguments.join(" ")))
}

/// Prints a line, or more than one.
///
/// # Errors
/// Where standard output cannot be written.
pub fn say(text: &str) -> Result<(), Failure> {
    writeln!(std::io::stdout(), "{text}").map_err(|error| Failure::of("standard output", error))
}

impl Files {
    /// Prints what has just been measured, unless [`Files::finish`] prints JSON.
    ///
    /// # Errors
    /// Where standard output cannot be written.
    pub fn print(&self, outcome: &Outcome) -> Result<(), Failure> {
        if self.json { Ok(()) } else { say(&outcome.text()) }
    }

    /// Prints JSON if that was asked for, and writes the files; a report begins with `page`.
    /// Whether all goals were met.
    ///
    /// # Errors
    /// Where one of them cannot be written.
    pub fn finish(&self, page: Page, outcomes: &[Outcome]) -> Result<bool, Failure> {
        if self.json {
            let all = Value::Array(outcomes.iter().map(Outcome::to_json).collect());
            say(&format!("{all:#}"))?;
        }
        self.write(page, outcomes)?;
        Ok(outcomes.iter().all(Outcome::is_met))
    }
}
