//! `truechimer man`: the manual pages, from the same text as `--help`.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::args::{self, Man};
use crate::failure::{Ended, Failure, Outcome};

/// Runs the command.
pub fn run(args: &Man, out: &mut dyn Write) -> Ended {
    let failed = |why| Failure::new(args.directory.display(), why);
    std::fs::create_dir_all(&args.directory).map_err(failed)?;
    let mut root = args::command().disable_help_subcommand(true);
    root.build();
    pages(&root, root.get_name(), &args.directory).map_err(failed)?;
    writeln!(out, "manual pages written to {}", args.directory.display())?;
    Ok(Outcome::Good)
}

/// The page of a command and those of its subcommands.
fn pages(command: &clap::Command, name: &str, directory: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        pages(subcommand, &format!("{name}-{}", subcommand.get_name()), directory)?;
    }
    page(command, name, &mut File::create(directory.join(format!("{name}.1")))?)
}

fn page(command: &clap::Command, name: &str, out: &mut dyn Write) -> io::Result<()> {
    let page = clap_mangen::Man::new(
        command.clone().name(name.to_owned()).version(env!("CARGO_PKG_VERSION")),
    );
    page.render_title(out)?;
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    // What has no title of its own says more about the whole.
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let paragraphs = after.split("\n\n").filter(|p| !p.trim().is_empty());
    let (titled, plain): (Vec<_>, Vec<_>) = paragraphs.partition(|p| title(p).is_some());
    for paragraph in plain {
        section(paragraph, out)?;
    }
    if command.get_arguments().any(|a| !a.is_hide_set()) {
        page.render_options_section(out)?;
    }
    if command.has_subcommands() {
        page.render_subcommands_section(out)?;
    }
    for paragraph in titled {
        section(paragraph, out)?;
    }
    if !after.contains("Exit status:") {
        section("Exit status: 0, or 2 on an error.", out)?;
    }
    section("See also: truechimer(1)", out)?;
    page.render_version_section(out)
}

/// A paragraph of the help. One that begins with a title, as `Examples:` does, becomes a section;
/// what was laid out by hand keeps its lines.
fn section(paragraph: &str, out: &mut dyn Write) -> io::Result<()> {
    let title = title(paragraph);
    let text =
        title.map_or(paragraph, |title| paragraph.get(title.len() + 1..).unwrap_or_default());
    let text = text.trim_start_matches([' ', '\n']);
    match title {
        Some(title) => writeln!(out, ".SH \"{}\"", title.to_uppercase())?,
        None => writeln!(out, ".PP")?,
    }
    let laid_out =
        text.lines().any(|line| line.starts_with("  ")) || paragraph.starts_with("Example");
    if laid_out {
        writeln!(out, ".nf")?;
    }
    for line in text.lines() {
        writeln!(out, "{}", escaped(line.strip_prefix("  ").unwrap_or(line)))?;
    }
    if laid_out {
        writeln!(out, ".fi")?;
    }
    Ok(())
}

/// A word or two before a colon at the beginning of a paragraph, with a capital.
fn title(paragraph: &str) -> Option<&str> {
    let (title, _) = paragraph.split_once(':')?;
    let word = |c: char| c.is_alphabetic() || c == ' ';
    let good = title.starts_with(char::is_uppercase)
        && title.split(' ').count() <= 2
        && title.chars().all(word);
    good.then_some(title)
}

/// A line of text as roff takes it literally.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    // A full stop or an apostrophe at the beginning would be a request.
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titled_paragraphs_become_sections() {
        let made = |paragraph| {
            let mut out = Vec::new();
            section(paragraph, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(made("Exit status: 0 well,\n2 not."), ".SH \"EXIT STATUS\"\n0 well,\n2 not.\n");
        assert_eq!(made("Examples:\n  a --b"), ".SH \"EXAMPLES\"\n.nf\na \\-\\-b\n.fi\n");
        assert_eq!(
            made("No title: here are many words"),
            ".SH \"NO TITLE\"\nhere are many words\n"
        );
        assert_eq!(made("A long line without one"), ".PP\nA long line without one\n");
        assert_eq!(made(".hidden"), ".PP\n\\&.hidden\n");
    }
}
