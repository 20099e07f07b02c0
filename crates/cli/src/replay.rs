//! `truechimer replay`: the decisions of a daemon, once more.

use std::fs::File;
use std::io::{BufReader, Write};

use serde::Serialize;
use truechimer_daemon::replay::{ReplayError, Summary, verify};

use crate::args;
use crate::failure::{Ended, Failure, Outcome};
use crate::show::json;

/// What came of it.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum Answer<'a> {
    Same(&'a Summary),
    Differs { line: u64, logged: &'a str, decided: &'a str },
}

/// Runs the command.
pub fn run(args: &args::Replay, out: &mut dyn Write) -> Ended {
    let name = args.file.display();
    let file = File::open(&args.file).map_err(|why| Failure::new(name, why))?;
    let (answer, text, same) = match &verify(BufReader::new(file)) {
        Ok(summary) => {
            let end =
                if summary.truncated { "; it breaks off in the middle of a line" } else { "" };
            let text = format!(
                "the same to the last bit: {} events, {} decisions, {} of them hands \
                 (written by version {}){end}",
                summary.events, summary.actions, summary.hands, summary.version
            );
            (json(&Answer::Same(summary))?, text, true)
        }
        Err(why @ ReplayError::Differs { line, logged, decided }) => {
            (json(&Answer::Differs { line: *line, logged, decided })?, why.to_string(), false)
        }
        Err(why) => return Err(Failure::new(args.file.display(), why)),
    };
    writeln!(out, "{}", if args.json { answer } else { text })?;
    Ok(Outcome::of(same))
}
