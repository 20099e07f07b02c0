//! A program that measures: what it prints and where it writes that, and how it ends.

use std::any::Any;
use std::io::Write;
use std::panic::{self, AssertUnwindSafe};
use std::thread::ScopedJoinHandle;

use serde_json::Value;
use truechimer_report::Page;

use crate::files::Files;
use crate::outcome::{Failure, Outcome};

/// Runs what measures on a test bed; whether no goal was missed.
///
/// The test bed was made for tests and asserts where a machine does not do as it must: that is a
/// failure here, in a line without a backtrace.
///
/// # Errors
/// Where it does not work.
pub fn caught(program: impl FnOnce() -> Result<bool, Failure>) -> Result<bool, Failure> {
    panic::set_hook(Box::new(|_| ()));
    let ended = panic::catch_unwind(AssertUnwindSafe(program));
    ended.unwrap_or_else(|why| Err(Failure(broken(&*why))))
}

/// Message of a panic.
fn broken(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<String>().map(String::as_str);
    let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("the test bed broke down: {}", said.unwrap_or("it does not say why").trim())
}

/// Result of a thread that has ended or will. Where it panicked, so does this one, by the same words: [`caught`] tells them.
pub fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
}

/// The beginning of the report of a program that ends now.
#[must_use]
pub fn page(title: &str) -> Page {
    truechimer_command::report::page(title)
        .about("Figures of one machine; compare within a run, not between runs.")
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
    /// Whether no goal was missed.
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
