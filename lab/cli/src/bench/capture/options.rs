//! Options that every measurement has.

use std::path::PathBuf;

/// A part of what is measured of rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Part {
    /// The highest rate without loss, and the loss at overload.
    Most,
    /// Loss against the rate offered.
    Ladder,
    /// Jitter of stamps.
    Jitter,
}

/// Options that every measurement has.
#[derive(Clone, Debug)]
pub struct Options {
    /// Fewer sizes, rounds and packets: to see that it works, not for figures.
    pub quick: bool,
    /// The command `truechimer`.
    pub truechimer: PathBuf,
    /// Number of times that everything is repeated, all in turn; `None`: as the measurement thinks
    /// best.
    pub rounds: Option<usize>,
    /// Frame sizes in bytes, without the frame check sequence; empty: as the measurement thinks
    /// best.
    pub sizes: Vec<usize>,
    /// Keep to programs whose name contains one of these; empty: all.
    pub only: Vec<String>,
    /// Keep to these parts of the rates; empty: all.
    pub parts: Vec<Part>,
    /// Say on standard error what is going on.
    pub progress: bool,
}

impl Options {
    /// `full` rounds, or `quick` ones, unless the caller asked for a number.
    #[must_use]
    pub fn rounds(&self, full: usize, quick: usize) -> usize {
        self.rounds.unwrap_or(if self.quick { quick } else { full }).max(1)
    }

    /// The sizes asked for, else `full`, or `quick`.
    #[must_use]
    pub fn sizes(&self, full: &[usize], quick: &[usize]) -> Vec<usize> {
        let own = if self.quick { quick } else { full };
        if self.sizes.is_empty() { own.to_vec() } else { self.sizes.clone() }
    }

    /// True if something of this name is wanted.
    #[must_use]
    pub fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()))
    }

    /// True if this part is wanted.
    #[must_use]
    pub fn has(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    /// Says what is going on.
    pub fn say(&self, text: &str) {
        if self.progress {
            eprintln!("{text}");
        }
    }
}
