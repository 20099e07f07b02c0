//! Manual pages, from the same text as `--help`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::{Ended, Failure, Outcome};

/// Options of the command `man`.
#[derive(Args, Debug)]
#[command(after_help = "Exit status: 0, or 2 on an error.")]
pub struct Man {
    /// The directory to write a page for the program and one for each command into, and those of the
    /// configurations that it reads (section 5)
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// A configuration with a page of its own, in section 5.
#[derive(Debug)]
pub struct Configuration {
    /// Name of the file, and of the page.
    pub name: &'static str,
    /// Purpose, in a few words.
    pub about: &'static str,
    /// Page of the command that reads it.
    pub command: &'static str,
    /// The commented file.
    pub text: &'static str,
}

/// Writes the pages of `program` and of its configurations.
///
/// # Errors
/// If that cannot be done: which, and why.
pub fn run(
    args: &Man,
    program: clap::Command,
    files: &[Configuration],
    out: &mut dyn Write,
) -> Ended {
    let failed = |why| Failure::new(args.directory.display(), why);
    let mut root = program.disable_help_subcommand(true);
    let name = args.directory.to_str().filter(|name| root.find_subcommand(name).is_some());
    if let Some(name) = name {
        let program = root.get_name();
        return Err(Failure::Said(format!(
            "{name} is a command, and DIR a directory to write pages into: '{program} help {name}' says \
             more about it; a directory of that name is ./{name}"
        )));
    }
    truechimer_files::make_folder(&args.directory, 0o755).map_err(failed)?;
    root.build();
    pages(&root, root.get_name(), &args.directory).map_err(failed)?;
    for file in files {
        let path = args.directory.join(format!("{}.5", file.name));
        truechimer_files::write(&path, of_configuration(file)).map_err(failed)?;
    }
    let page = args.directory.join(format!("{}.1", root.get_name()));
    writeln!(out, "manual pages written to {}", args.directory.display())?;
    writeln!(out, "to read one: man -l {}", page.display())?;
    Ok(Outcome::Good)
}

/// The page of a command and those of its subcommands.
fn pages(command: &clap::Command, name: &str, directory: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        pages(subcommand, &format!("{name}-{}", subcommand.get_name()), directory)?;
    }
    page(command, name, &mut truechimer_files::create(&directory.join(format!("{name}.1")), 0o666)?)
}

/// The page of a configuration: the commented file as it is.
fn of_configuration(file: &Configuration) -> String {
    let Configuration { name, about, command, text } = file;
    let lines: String = text.lines().map(|line| escaped(line) + "\n").collect();
    format!(
        ".TH {name} 5\n.SH NAME\n{name} \\- {about}\n.SH DESCRIPTION\n.nf\n{lines}.fi\n\
         .SH \"SEE ALSO\"\n{command}(1); what is named docs/ is in share/doc/truechimer, below the \
         directory of the installation\n"
    )
}

/// The page of one command.
pub(crate) fn page(command: &clap::Command, name: &str, out: &mut dyn Write) -> io::Result<()> {
    let page = clap_mangen::Man::new(
        command.clone().name(name.to_owned()).version(env!("CARGO_PKG_VERSION")),
    );
    page.render_title(out)?;
    page.render_name_section(out)?;
    let mut synopsis = Vec::new();
    page.render_synopsis_section(&mut synopsis)?;
    out.write_all(with_values(command, &String::from_utf8_lossy(&synopsis)).as_bytes())?;
    page.render_description_section(out)?;
    // What is no section of its own says more about the whole.
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let paragraphs = after.split("\n\n").filter(|p| !p.trim().is_empty());
    let (sections, plain): (Vec<_>, Vec<_>) =
        paragraphs.partition(|p| title(p).is_some_and(|title| SECTIONS.contains(&title)));
    for text in plain {
        paragraph(text, out)?;
    }
    if command.get_arguments().any(|a| !a.is_hide_set()) {
        page.render_options_section(out)?;
    }
    if command.has_subcommands() {
        page.render_subcommands_section(out)?;
    }
    for text in sections {
        paragraph(text, out)?;
    }
    if !after.contains("Exit status:") {
        paragraph("Exit status: 0, or 2 on an error.", out)?;
    }
    paragraph("See also: truechimer(1)", out)?;
    page.render_version_section(out)
}

/// A synopsis in which options show what their values are: the generator leaves that out.
fn with_values(command: &clap::Command, synopsis: &str) -> String {
    command.get_arguments().fold(synopsis.to_owned(), |synopsis, argument| {
        let (Some(long), Some(names)) = (argument.get_long(), argument.get_value_names()) else {
            return synopsis;
        };
        if !argument.get_action().takes_values() {
            return synopsis;
        }
        let option = format!("\\fB{}\\fR", escaped(&format!("--{long}")));
        let names: Vec<String> = names.iter().map(|name| escaped(name)).collect();
        let names = names.join(" ");
        // A value that may be left out stands after `=`.
        let value = match argument.is_require_equals_set() {
            true => format!("[=\\fI{names}\\fR]"),
            false => format!(" \\fI{names}\\fR"),
        };
        synopsis.replace(&option, &(option.clone() + &value))
    })
}

/// The titles that make a section, as they are known from other manual pages. All other paragraphs
/// stay together in their order, whatever they begin with.
const SECTIONS: [&str; 6] =
    ["Example", "Examples", "Environment", "Signals", "Exit status", "See also"];

/// A paragraph of the help. One that begins with the title of a section becomes one; another title,
/// as `Stamp file:`, is set off. Lines laid out by hand, which are indented, stay as they are.
fn paragraph(paragraph: &str, out: &mut dyn Write) -> io::Result<()> {
    let title = title(paragraph);
    let text =
        title.map_or(paragraph, |title| paragraph.get(title.len() + 1..).unwrap_or_default());
    let text = text.trim_start_matches('\n');
    let text = if text.starts_with("  ") { text } else { text.trim_start_matches(' ') };
    match title {
        Some(title) if SECTIONS.contains(&title) => {
            writeln!(out, ".SH \"{}\"", title.to_uppercase())?;
        }
        Some(title) => writeln!(out, ".PP\n.B \"{}:\"", escaped(title))?,
        None => writeln!(out, ".PP")?,
    }
    let examples = paragraph.starts_with("Example");
    let mut literal = false;
    for line in text.lines() {
        let laid_out = examples || line.starts_with("  ");
        if laid_out != literal {
            out.write_all(if laid_out { LITERAL } else { FILLED })?;
            literal = laid_out;
        }
        writeln!(out, "{}", escaped(line.strip_prefix("  ").unwrap_or(line)))?;
    }
    if literal {
        out.write_all(FILLED)?;
    }
    Ok(())
}

/// Begins what keeps its lines, indented as in the help, so that they are no longer than there.
const LITERAL: &[u8] = b".nf\n.in 2n\n";

/// Ends that.
const FILLED: &[u8] = b".in\n.fi\n";

/// A word or two before a colon at the beginning of a paragraph, with a capital.
pub(crate) fn title(paragraph: &str) -> Option<&str> {
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
        let made = |text| {
            let mut out = Vec::new();
            paragraph(text, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(made("Exit status: 0 well,\n2 not."), ".SH \"EXIT STATUS\"\n0 well,\n2 not.\n");
        assert_eq!(
            made("Examples:\n  a --b"),
            ".SH \"EXAMPLES\"\n.nf\n.in 2n\na \\-\\-b\n.in\n.fi\n"
        );
        assert_eq!(made("Stamp file: rows\nof."), ".PP\n.B \"Stamp file:\"\nrows\nof.\n");
        let columns = ".PP\n.B \"Columns:\"\nOf\n.nf\n.in 2n\na  b\n.in\n.fi\nit.\n";
        assert_eq!(made("Columns: Of\n  a  b\nit."), columns);
        assert_eq!(made("A long line without one"), ".PP\nA long line without one\n");
        assert_eq!(made(".hidden"), ".PP\n\\&.hidden\n");
    }

    #[test]
    fn a_configuration_is_shown_as_it_is() {
        let text = "# a \\ of it\n.key = \"--x\"\n\n'more' = 1\n";
        let file = Configuration { name: "a.toml", about: "settings", command: "a-run", text };
        let page = of_configuration(&file);
        let lines = "# a \\e of it\n\\&.key = \"\\-\\-x\"\n\n\\&'more' = 1\n";
        assert!(page.starts_with(".TH a.toml 5\n.SH NAME\na.toml \\- settings\n"), "{page}");
        assert!(
            page.contains(&format!(".nf\n{lines}.fi\n")) && page.contains("a-run(1)"),
            "{page}"
        );
    }

    #[test]
    fn a_synopsis_shows_values() {
        let log = clap::Arg::new("log").long("replay-log").value_name("FILE");
        let check = clap::Arg::new("check").long("check").action(clap::ArgAction::SetTrue);
        let mut run = clap::Command::new("run").arg(log).arg(check);
        run.build();
        let mut page = Vec::new();
        super::page(&run, "truechimer-run", &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        for says in ["[\\fB\\-\\-replay\\-log\\fR \\fIFILE\\fR]", "[\\fB\\-\\-check\\fR]"] {
            assert!(page.contains(says), "{says} is not in {page}");
        }
    }
}
