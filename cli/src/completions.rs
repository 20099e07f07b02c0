//! `truechimer completions`: what a shell needs to complete our command lines.

use std::io::Write;

use clap::Args;
use clap_complete::Shell;

use truechimer_command::{Ended, Outcome};

/// Options of `truechimer completions`.
#[derive(Args, Debug)]
#[command(after_help = "\
`make install` and the packages put these where the shells look for them. By hand, for yourself:
  truechimer completions bash > ~/.local/share/bash-completion/completions/truechimer
  truechimer completions zsh > ~/.zfunc/_truechimer      (with that folder in $fpath)
  truechimer completions fish > ~/.config/fish/completions/truechimer.fish

Exit status: 0, or 2 on an error.")]
pub struct Completions {
    /// The shell that is to read it
    #[arg(value_name = "SHELL", value_parser = ["bash", "zsh", "fish"])]
    pub shell: String,
}

/// Runs the command.
pub fn run(args: &Completions, program: &clap::Command, out: &mut dyn Write) -> Ended {
    let shell = match args.shell.as_str() {
        "bash" => Shell::Bash,
        "zsh" => Shell::Zsh,
        _ => Shell::Fish,
    };
    let name = program.get_name().to_owned();
    // Without what others call (extcap), which the generators would offer.
    let shown = program.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let mut shown = clap::Command::new(name.clone()).version("").subcommands(shown);
    // The generator panics where its writer fails.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut shown, name, &mut script);
    if args.shell == "bash" {
        script = with_equals(&String::from_utf8_lossy(&script)).into_bytes();
    }
    out.write_all(&script)?;
    Ok(Outcome::Good)
}

/// Line of the generator's script for bash that sets the word before the one to complete.
const BEFORE: &str = "    prev=\"$3\"\n";
/// Bash takes an equals sign for a word of its own: what stands behind it is a value of the option before it.
const EQUALS: &str = r#"    if [[ "${COMP_WORDS[COMP_CWORD]}" == "=" ]]; then
        cur=""
    elif [[ "$prev" == "=" ]]; then
        prev="${COMP_WORDS[COMP_CWORD-2]}"
    fi
"#;

/// The script for bash, by which values are completed behind an equals sign as well.
fn with_equals(script: &str) -> String {
    script.replacen(BEFORE, &format!("{BEFORE}{EQUALS}"), 1)
}
