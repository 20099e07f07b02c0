//! Checks of a program's command line, for its tests.
#![allow(clippy::indexing_slicing, clippy::unwrap_used)] // For tests only: they are to fail.

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
