//! Help texts of the command.

use std::process::Stdio;

use crate::support::{Dir, command, truechimer};

/// Names of all commands, as the help lists them: a name of small letters, two spaces or more, and
/// what it does.
fn commands() -> Vec<String> {
    let help = truechimer(&["--help"]);
    assert_eq!((help.code, help.err.as_str()), (0, ""));
    let listed = help.out.lines().take_while(|line| !line.starts_with("Options:"));
    let name = |line: &str| {
        let (name, what) = line.strip_prefix("  ")?.split_once("  ")?;
        let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        (is_name && !name.is_empty() && !what.trim().is_empty()).then(|| name.to_owned())
    };
    let names: Vec<String> = listed.filter_map(name).collect();
    for known in ["run", "now", "status", "sources", "waitsync", "demo", "serve", "group", "man"] {
        assert!(names.iter().any(|name| name == known), "{known} is not in {names:?}");
    }
    names
}

#[test]
fn help_lists_every_command_and_every_command_has_help() {
    for name in commands() {
        let own = truechimer(&[&name, "--help"]);
        assert_eq!(own.code, 0);
        assert!(own.out.contains(&format!("Usage: truechimer {name}")), "{}", own.out);
        assert!(own.out.lines().all(|line| line.chars().count() <= 100), "{}", own.out);
        // Those that are nothing but a heading for commands of their own.
        let is_heading = own.out.contains(&format!("Usage: truechimer {name} <COMMAND>"));
        assert_eq!(is_heading, ["counters", "group"].contains(&name.as_str()), "{}", own.out);
        assert!(
            is_heading || own.out.contains("Exit status: 0"),
            "{name} does not say: {}",
            own.out
        );
        // The other way to ask has the same answer, in the short form of `-h` or the long one.
        let help = truechimer(&["help", &name]);
        assert_eq!((help.code, help.err.as_str()), (0, ""), "help {name}");
        assert_eq!(help.out, own.out, "help {name}");
    }
}

#[test]
fn what_has_moved_says_where() {
    for name in ["simulate", "replay", "bench"] {
        truechimer(&[name, "lan"]).assert_error(&[&format!("truechimer-lab {name}")]);
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    let version = truechimer(&["--version"]);
    assert_eq!(version.out, format!("truechimer {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn without_a_command_it_helps_and_fails() {
    let nothing = truechimer(&[]);
    assert_eq!((nothing.code, nothing.out.as_str()), (2, ""));
    assert!(nothing.err.contains("Usage:") && !nothing.err.contains("truechimer: A"));
}

#[test]
fn a_manual_page_is_made_for_every_command() {
    let dir = Dir::new();
    let made = truechimer(&["man", &dir.join("man")]);
    assert_eq!(made.code, 0);
    assert!(made.out.contains(&format!("man -l {}", dir.join("man/truechimer.1"))), "{made:?}");
    for name in commands() {
        let page = std::fs::read_to_string(dir.join(&format!("man/truechimer-{name}.1"))).unwrap();
        assert!(page.contains(".TH"), "{page}");
    }
    assert!(std::fs::exists(dir.join("man/truechimer.1")).unwrap());
    for name in ["truechimer.toml", "truechimer-group.toml"] {
        let page = std::fs::read_to_string(dir.join(&format!("man/{name}.5"))).unwrap();
        assert!(page.starts_with(&format!(".TH {name} 5\n")), "{page}");
    }
}

#[test]
fn nobody_reading_is_no_reason_to_complain() {
    let dir = Dir::new();
    let page = dir.join("clock");
    for arguments in [&["--help"][..], &["waitsync", "--timeout", "100ms", "--page", &page]] {
        let mut child =
            command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.stderr.is_empty(), "{output:?}");
        assert!(output.status.code().is_some(), "{output:?}");
    }
}

/// Bash parts a word at an equals sign: the value behind it is completed as one after a space is.
#[test]
fn bash_completes_behind_an_equals_sign() {
    let script = truechimer(&["completions", "bash"]).out;
    let complete = |words: &str, last: &str, before: &str| {
        let call = format!(
            "{script}\nCOMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
             _truechimer truechimer '{last}' '{before}'; echo \"${{COMPREPLY[*]}}\""
        );
        let done = std::process::Command::new("bash").args(["-c", &call]).output().unwrap();
        String::from_utf8(done.stdout).unwrap()
    };
    assert_eq!(complete("truechimer audit --csv =", "", "--csv"), "intervals sources\n");
    assert_eq!(complete("truechimer audit --csv = so", "so", "="), "sources\n");
    assert_eq!(complete("truechimer run --seccomp = l", "l", "="), "log\n");
    assert_eq!(complete("truechimer run --seccomp l", "l", "--seccomp"), "log\n");
}

/// Words that an option takes, for a shell to complete; each is one that it takes.
#[test]
fn options_of_few_words_are_completed() {
    let script = truechimer(&["completions", "fish"]).out;
    for (option, word) in [
        ("counter", "acpi-pm-safe"),
        ("counter", "auto"),
        ("seccomp", "log"),
        ("stress", "cpu"),
        ("taus", "decade"),
        ("remove", "drift"),
        ("codec", "g729a"),
        ("mode", "semi-active"),
        ("order", "published"),
        ("clock", "system"),
    ] {
        let mut options = script.split("complete -c truechimer ");
        let begin = format!("-l {option} ");
        let found =
            options.any(|text| text.contains(&begin) && text.contains(&format!("{word}\\t")));
        assert!(found, "{option} {word}");
    }
}
