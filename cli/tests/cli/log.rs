//! Lines of those that keep a log: with a priority where the journal reads them, with a time in a
//! file.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::support::{Dir, Process, command};

/// Name of the file that everything goes to.
const LOG: &str = "log";

/// True if a line begins with a time.
fn is_timed(line: &str) -> bool {
    let like = "dddd-dd-ddTdd:dd:dd.dddZ ";
    line.len() > like.len()
        && like.chars().zip(line.chars()).all(|(like, is)| match like {
            'd' => is.is_ascii_digit(),
            _ => like == is,
        })
}

/// Runs a program until it has said `word`, with the journal at the other end or not, and ends it:
/// all that it said.
fn said(arguments: &[&str], word: &str, journal: bool) -> String {
    let dir = Dir::new();
    let place = dir.join("place");
    let arguments: Vec<String> =
        arguments.iter().map(|word| word.replace("PLACE", &place)).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut process = Process::start_in(&dir, LOG, &arguments, |command| {
        let there = fs::metadata(dir.join(LOG)).unwrap();
        let inode = if journal { there.ino() } else { there.ino() + 1 };
        command.env("JOURNAL_STREAM", format!("{}:{inode}", there.dev()));
    });
    process.wait_for(word);
    process.signal("TERM");
    assert_eq!(process.wait().code(), Some(0), "{}", process.output());
    process.output()
}

#[test]
fn daemon_agent_and_server_have_priorities_for_the_journal_and_times_elsewhere() {
    let daemon = ["run", "--server", "127.0.0.1:1", "--page", "PLACE", "--control", "none"];
    let agent = ["group", "agent", "--group", "g", "--local", "1", "--state", "none"];
    let agent = [&agent[..], &["--page", "PLACE.page", "--directory", "PLACE"]].concat();
    let server = ["serve", "--listen", "127.0.0.1:0", "--page", "PLACE"];
    for (arguments, info, warning) in [
        (&daemon[..], "truechimer: info: version ", None),
        (&agent, "truechimer: info: version ", Some("truechimer: warning: no UTC here")),
        (&server, "serving on 127.0.0.1:", Some("not synchronised: ")),
    ] {
        let word = warning.unwrap_or(info);
        let journal = said(arguments, word, true);
        let all = |line: &str| line.starts_with("<6>") || line.starts_with("<4>");
        assert!(journal.lines().all(all), "{journal}");
        assert!(journal.lines().any(|line| line.starts_with(&format!("<6>{info}"))), "{journal}");
        if let Some(warning) = warning {
            let warning = format!("<4>{warning}");
            assert!(journal.lines().any(|line| line.starts_with(&warning)), "{journal}");
        }
        let file = said(arguments, word, false);
        assert!(file.lines().all(is_timed), "{file}");
        assert!(file.contains(&format!("Z {info}")) && !file.contains('<'), "{file}");
    }
}

#[test]
fn whoever_cannot_start_says_why_as_an_error() {
    let dir = Dir::new();
    let (missing, log) = (dir.join("none.toml"), dir.join(LOG));
    for journal in [true, false] {
        let file = fs::File::create(&log).unwrap();
        let there = file.metadata().unwrap();
        let mut run = command(&["run", "--config", &missing]);
        if journal {
            run.env("JOURNAL_STREAM", format!("{}:{}", there.dev(), there.ino()));
        }
        assert_eq!(run.stderr(file).status().unwrap().code(), Some(2));
        let before = if journal { "<3>truechimer: " } else { "truechimer: " };
        let said = fs::read_to_string(&log).unwrap();
        assert!(said.starts_with(before) && said.contains(&missing), "{said}");
    }
}
