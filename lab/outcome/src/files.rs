//! Where the figures go.

use std::path::{Path, PathBuf};

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
        let write = |path: &Path, text: &str| {
            truechimer_files::write(path, text).map_err(|error| Failure::of(path.display(), error))
        };
        if let Some(path) = &self.html {
            write(path, &page.sections(outcomes.iter().map(Outcome::section)).render())?;
        }
        if let Some(path) = &self.markdown {
            let text: Vec<String> = outcomes.iter().map(Outcome::markdown).collect();
            write(path, &text.join("\n"))?;
            for (name, plot) in outcomes.iter().flat_map(Outcome::plots) {
                write(&path.with_file_name(name), &plot.svg())?;
            }
        }
        Ok(())
    }
}
