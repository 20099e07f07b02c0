//! Checks of a program's command line, for its tests.
#![allow(clippy::indexing_slicing, clippy::unwrap_used)] // For tests only: they are to fail.

use std::fs;
use std::path::{Path, PathBuf};

use crate::man;
use crate::program::Group;

/// That the parser is sound, that no line below the options is wrapped by a terminal of 100 columns
/// (commands that are there to be copied among them), that each command stands under one heading,
/// and that the manual pages have all that the help has.
///
/// # Panics
/// If anything of that is not so.
pub fn command_line(command: &clap::Command, groups: &[Group]) {
    command.clone().debug_assert();
    narrow(command);
    let listed: Vec<_> = groups.iter().flat_map(|(_, names)| *names).copied().collect();
    let all = command.get_subcommands().filter(|c| !c.is_hide_set());
    assert_eq!(listed, all.map(clap::Command::get_name).collect::<Vec<_>>());
    let mut root = command.clone().disable_help_subcommand(true);
    root.build();
    let mut seen = 0;
    all_pages(&root, &mut seen);
    assert!(seen > 20, "{seen}");
}

fn narrow(command: &clap::Command) {
    let below = command.get_after_long_help().or(command.get_after_help());
    let text = below.map(ToString::to_string).unwrap_or_default();
    for line in text.lines() {
        let width = line.chars().count();
        assert!(width <= 100, "{}: {width} columns: {line}", command.get_name());
    }
    command.get_subcommands().for_each(narrow);
}

/// A page without its roff: the text of it, and sections' titles as in the help.
fn plain(page: &str) -> String {
    let mut text = String::new();
    for line in page.lines() {
        let line = line.strip_prefix("\\&").unwrap_or(line);
        let line = line.strip_prefix(".B ").or(line.strip_prefix(".SH ")).unwrap_or(line);
        text += &line.replace("\\-", "-").replace("\\e", "\\");
        text.push('\n');
    }
    text
}

/// That what a page lays out by hand, two columns in, is no wider than 100 columns either.
fn no_wider(page: &str) {
    for literal in page.split(".nf\n.in 2n\n").skip(1) {
        let lines = literal.lines().take_while(|line| *line != ".in");
        for line in lines {
            assert!(2 + line.chars().count() <= 100, "wider than 100 columns: {line}");
        }
    }
}

fn all_pages(command: &clap::Command, seen: &mut usize) {
    for subcommand in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        all_pages(subcommand, seen);
    }
    let mut page = Vec::new();
    man::page(command, "name", &mut page).unwrap();
    let page = plain(&String::from_utf8(page).unwrap());
    no_wider(&page);
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut before = 0;
    for paragraph in help.split("\n\n").filter(|p| !p.trim().is_empty()) {
        let mut text = paragraph;
        if let Some(title) = man::title(paragraph) {
            let section = format!("\"{}\"", title.to_uppercase());
            let set_off = format!("\"{title}:\"");
            assert!(page.contains(&section) || page.contains(&set_off), "{title}: {page}");
            text = &paragraph[title.len() + 1..];
            // Between other paragraphs it keeps its place.
            if let Some(at) = page.find(&set_off) {
                assert!(at > before, "{title} is out of its order in {page}");
                before = at;
            }
        }
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            assert!(page.lines().any(|l| l.trim() == line), "{line:?} is not in {page}");
            *seen += 1;
        }
    }
}

/// Checks that the program parses each of its commands that the repository's documents, units and `--help` show. Left out: those
/// with a word of `own`, which stand for the reader's.
///
/// # Panics
/// If one does not, or if there are hardly any.
pub fn shown_commands(command: &clap::Command, own: &[&str]) {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut files =
        vec![root.join("README.md"), root.join("CONTRIBUTING.md"), root.join("SECURITY.md")];
    for folder in ["docs", "contrib", "examples"] {
        collect(&root.join(folder), &mut files);
    }
    let mut texts: Vec<(String, String)> = files
        .iter()
        .filter_map(|file| Some((file.display().to_string(), fs::read_to_string(file).ok()?)))
        .collect();
    helps(command, &mut texts);
    let (mut seen, mut wrong) = (0, Vec::new());
    for (place, text) in &texts {
        let all = commands(text, command.get_name()).into_iter();
        for words in all.filter(|words| !words.iter().any(|word| own.contains(&word.as_str()))) {
            seen += 1;
            let parsed = command.clone().try_get_matches_from(&words);
            if let Some(why) = parsed.err().filter(clap::Error::use_stderr) {
                wrong.push(format!("{place}: {}: {why}", words.join(" ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 50, "{seen}");
}

/// Documents and units in a folder and those below it.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_one = |ending: &str| path.extension().is_some_and(|its| its == ending);
        if path.is_dir() {
            collect(&path, files);
        } else if ["md", "service", "conf", "env"].into_iter().any(is_one) {
            files.push(path);
        }
    }
}

/// Texts below the options of a command and of those below it.
fn helps(command: &clap::Command, texts: &mut Vec<(String, String)>) {
    let mut built = command.clone();
    built.build();
    let below = built.get_after_long_help().or(built.get_after_help());
    texts.extend(below.map(|text| (format!("{} --help", built.get_name()), text.to_string())));
    built.get_subcommands().for_each(|subcommand| helps(subcommand, texts));
}

/// Commands of this program in a text: lines in blocks of code, after `sudo` and what starts a service, each as its words. Not
/// those with an ellipsis, or with words that only a shell knows.
fn commands(text: &str, program: &str) -> Vec<Vec<String>> {
    let whole = text.replace("\\\n", " ");
    let mut fenced = false;
    let mut found = Vec::new();
    for line in whole.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let line = if fenced || line.starts_with("  ") || line.starts_with("Exec") {
            line.trim()
        } else {
            continue;
        };
        let line = line
            .split_once('=')
            .filter(|(key, _)| key.starts_with("Exec"))
            .map_or(line, |(_, rest)| rest);
        let line = line.strip_prefix("sudo ").unwrap_or(line);
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        if first.rsplit('/').next() == Some(program) && !rest.starts_with('(') {
            let rest = rest.split("   ").next().unwrap().split(" #").next().unwrap();
            if !rest.contains(['…', '$']) {
                found.push(std::iter::once(program.to_owned()).chain(words(rest)).collect());
            }
        }
    }
    found
}

/// Words of a shell's line, up to what redirects it or comes after it.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(mark), _) if mark == letter => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '>') => {
                // A number before it is what is redirected.
                word = word.filter(|word| word.parse::<u8>().is_err());
                break;
            }
            (None, '|' | '<' | ';' | '&') => break,
            (None, ' ') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}
