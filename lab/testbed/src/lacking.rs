//! Things that a machine may lack, and what becomes of the tests that need them.

use std::fmt;
use std::io::Write;

/// Reason why a test cannot run here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lacking(pub String);

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The value, or `None` once it has been said loudly that the calling test is skipped. Where
/// nothing may be skipped (`CI=true`) a lack fails the test.
///
/// The line goes past the test harness, which would keep it to itself; `make test` counts it.
pub fn or_skip<T>(result: Result<T, Lacking>) -> Option<T> {
    let lacking = match result {
        Ok(value) => return Some(value),
        Err(lacking) => lacking,
    };
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{test} cannot run: {lacking}");
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {lacking}");
    None
}
