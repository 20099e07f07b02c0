//! Files that a program uses, keeps elsewhere, or does without.

use std::path::{Path, PathBuf};

/// Where something is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Place {
    /// Where it is by default.
    #[default]
    Default,
    /// Not wanted.
    None,
    /// Here.
    At(PathBuf),
}

/// The word `none` is [`Place::None`], anything else a path.
impl From<PathBuf> for Place {
    fn from(path: PathBuf) -> Place {
        if path == Path::new("none") { Place::None } else { Place::At(path) }
    }
}
