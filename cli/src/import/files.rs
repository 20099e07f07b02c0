//! chrony's configuration as lines of words: chrony.conf(5), and the files that it includes.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::printable;

/// Files that include each other end here, as in chrony.
const MOST_LEVELS: usize = 10;
/// No configuration is longer, bytes.
const LONGEST: u64 = 1 << 20;

/// Folders of what is there until the machine is switched off.
const RUN: [&str; 2] = ["/run/", "/var/run/"];

/// A directive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Line {
    /// Name of the file, and number of the line from 1.
    pub place: String,
    /// The directive in small letters, then its words.
    pub words: Vec<String>,
    /// Number of files that it names and that were read.
    pub read: usize,
}

impl Line {
    /// The line for a comment.
    pub fn shown(&self) -> String {
        format!("{}: {}", printable(&self.place), printable(&self.words.join(" ")))
    }

    /// The directive.
    pub fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// Words behind the directive.
    pub fn rest(&self) -> &[String] {
        self.words.get(1..).unwrap_or_default()
    }
}

/// Reads a file with all that it includes, in chrony's order.
///
/// # Errors
/// Which file cannot be read, and why.
pub(super) fn read(file: &Path) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    include(file, (0, None), &mut lines)?;
    Ok(lines)
}

/// The name of a file in messages: `-` is standard input.
pub(super) fn name(file: &Path) -> String {
    if file == Path::new("-") { "standard input".into() } else { file.display().to_string() }
}

/// Reads a file that a line asks for, the first one for none.
fn include(
    file: &Path,
    (level, place): (usize, Option<&str>),
    lines: &mut Vec<Line>,
) -> Result<(), String> {
    let by = |why: String, place: &str| format!("{why} ({} asks for it)", printable(place));
    if level > MOST_LEVELS {
        return Err(format!("{}: included more than {MOST_LEVELS} times over", file.display()));
    }
    let text = match place {
        None if file == Path::new("-") => text(std::io::stdin().lock(), &name(file))?,
        None => contents(file)?,
        Some(place) => contents(file).map_err(|why| by(why, place))?,
    };
    for mut line in parse(&text, &name(file)) {
        let place = line.place.clone();
        let asked = |why: String| by(why, &place);
        let folders = |ending: &str| listed(line.rest(), ending);
        let more = match line.name() {
            "include" => line
                .rest()
                .iter()
                .map(|path| matching(path))
                .collect::<Result<Vec<_>, _>>()
                .map_err(asked)?
                .concat(),
            "confdir" => folders("conf").map_err(asked)?,
            "sourcedir" => {
                // What comes at run time is none of the configuration.
                let lasts = |folder: &&String| !RUN.iter().any(|run| folder.starts_with(run));
                let lasting: Vec<String> = line.rest().iter().filter(lasts).cloned().collect();
                let files = listed(&lasting, "sources").map_err(asked)?;
                line.read = files.len();
                lines.push(line);
                files
            }
            _ => {
                lines.push(line);
                continue;
            }
        };
        for path in more {
            include(&path, (level + 1, Some(&place)), lines)?;
        }
    }
    Ok(())
}

fn contents(file: &Path) -> Result<String, String> {
    let opened = fs::File::open(file).map_err(|why| format!("{}: {why}", file.display()))?;
    text(opened, &name(file))
}

/// The text of what is open, unless it is too long.
fn text(opened: impl Read, name: &str) -> Result<String, String> {
    let failed = |why: &dyn std::fmt::Display| format!("{name}: {why}");
    let mut bytes = Vec::new();
    let whole = opened.take(LONGEST + 1).read_to_end(&mut bytes).map_err(|why| failed(&why))?;
    if whole as u64 > LONGEST {
        return Err(failed(&"longer than 1 MiB: that is no configuration of chronyd's"));
    }
    String::from_utf8(bytes).map_err(|_| failed(&"no text in UTF-8"))
}

/// Lines with something on them, but for comments.
pub(super) fn parse(text: &str, name: &str) -> Vec<Line> {
    let line = |(number, line): (usize, &str)| {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['!', ';', '#', '%']) {
            return None;
        }
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        words.first_mut()?.make_ascii_lowercase();
        Some(Line { place: format!("{name}:{}", number + 1), words, read: 0 })
    };
    text.lines().enumerate().filter_map(line).collect()
}

/// Files that a pattern names, in order: `*` and `?` may stand in the last part of the path.
fn matching(pattern: &str) -> Result<Vec<PathBuf>, String> {
    let path = Path::new(pattern);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let Some(name) = name.filter(|name| name.contains(['*', '?'])) else {
        return Ok(vec![path.to_owned()]);
    };
    let folder = path.parent().unwrap_or(Path::new("/"));
    names(folder, |found| matches(&name, found))
}

/// Files with the ending in these folders: of several with one name that of the first folder, in
/// the order of their names.
fn listed(folders: &[String], ending: &str) -> Result<Vec<PathBuf>, String> {
    let mut all: Vec<PathBuf> = Vec::new();
    for folder in folders {
        for path in names(Path::new(folder), |name| name.ends_with(&format!(".{ending}")))? {
            if !all.iter().any(|other| other.file_name() == path.file_name()) {
                all.push(path);
            }
        }
    }
    all.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    Ok(all)
}

/// Entries of a folder with such names, in order; a folder that is not there has none.
fn names(folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, String> {
    let failed = |why: std::io::Error| format!("{}: {why}", folder.display());
    let entries = match fs::read_dir(folder) {
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let entries = entries.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let named = entries.iter().filter(|entry| wanted(&entry.file_name().to_string_lossy()));
    let mut paths: Vec<PathBuf> = named.map(fs::DirEntry::path).collect();
    paths.sort();
    Ok(paths)
}

/// True if a name is as the pattern has it.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.chars().next() {
        None => name.is_empty(),
        Some('*') => {
            let rest = pattern.get(1..).unwrap_or_default();
            let mut tails = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            tails.any(|at| matches(rest, name.get(at..).unwrap_or_default()))
        }
        Some(first) => {
            let same = |c: char| first == '?' || first == c;
            let after = |text: &str| text.chars().next().map_or(0, char::len_utf8);
            name.chars().next().is_some_and(same)
                && matches(
                    pattern.get(after(pattern)..).unwrap_or_default(),
                    name.get(after(name)..).unwrap_or_default(),
                )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_a_shell() {
        for (pattern, name, same) in [
            ("*.conf", "a.conf", true),
            ("*.conf", ".conf", true),
            ("*.conf", "a.conf.old", false),
            ("a?c*", "abc", true),
            ("a?c*", "ac", false),
            ("*é*", "né", true),
            ("", "", true),
        ] {
            assert_eq!(matches(pattern, name), same, "{pattern} {name}");
        }
    }
}
