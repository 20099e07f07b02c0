//! Mistakes in a configuration.

use std::path::Path;
use std::{fmt, io};

/// One or more problems of a configuration, in the order of their lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    problems: Vec<Problem>,
}

/// One thing that is wrong, where, and how to mend it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The file, or the option on the command line.
    place: String,
    /// The line in the file, from 1.
    line: Option<usize>,
    text: String,
}

impl Problem {
    /// In a file, at a line if there is one.
    #[must_use]
    pub fn in_file(name: &str, line: Option<usize>, text: impl Into<String>) -> Problem {
        Problem { place: name.into(), line, text: text.into() }
    }

    /// In an option of the command line.
    #[must_use]
    pub fn option(option: &str, text: impl Into<String>) -> Problem {
        Problem { place: option.into(), line: None, text: text.into() }
    }

    /// Says what is wrong, without the place.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The line in the file, from 1.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.line
    }
}

/// The place comes first, as compilers have it: that reads well in a list.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.place, self.text),
            None => write!(f, "{}: {}", self.place, self.text),
        }
    }
}

impl ConfigError {
    /// Checks that there are no problems.
    ///
    /// # Errors
    /// If there are.
    pub fn unless_empty(mut problems: Vec<Problem>) -> Result<(), ConfigError> {
        problems.sort_by_key(|problem| problem.line);
        if problems.is_empty() { Ok(()) } else { Err(ConfigError { problems }) }
    }

    /// The file itself cannot be read.
    #[must_use]
    pub fn unreadable(path: &Path, why: &io::Error) -> ConfigError {
        let text = format!("cannot be read: {why}");
        ConfigError { problems: vec![Problem::in_file(&path.display().to_string(), None, text)] }
    }

    /// The problems, in the order of their lines; never empty.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

/// One problem a line.
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
