//! `truechimer replay`: the decisions of a daemon once more, or a clock over a file of stamps.

mod kind;
mod log;
mod stamps;

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};

use truechimer_sim::replay::Spread;

use crate::args;
use crate::failure::{Ended, Failure};
use crate::table::{Side, Table};

use kind::Kind;

/// How to print rows, if at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rows {
    None,
    Csv,
    Json,
}

/// What is replayed, and how it is shown.
struct Job<'a> {
    args: &'a args::Replay,
    /// As the user knows the file.
    name: String,
    rows: Rows,
}

/// What `--hz` takes.
pub fn whole_hz(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(hz) if hz >= 2 => Ok(hz),
        _ => Err("must be whole counts per second, 2 or more, with all digits written out: \
                  2400000000, not 2.4e9"
            .into()),
    }
}

/// Runs the command.
pub fn run(args: &args::Replay, out: &mut dyn Write) -> Ended {
    let standard = args.file.as_os_str() == "-";
    let name = if standard { "standard input".into() } else { args.file.display().to_string() };
    let rows = match (args.csv, args.json && !args.summary) {
        (true, _) => Rows::Csv,
        (_, true) => Rows::Json,
        _ => Rows::None,
    };
    let job = Job { args, name, rows };
    // A row at a time would be a system call at a time.
    let mut out = BufWriter::new(out);
    let ended = if standard {
        job.replay(io::stdin().lock(), &mut out)
    } else {
        let file = File::open(&args.file).map_err(|why| job.failure(why))?;
        job.replay(BufReader::new(file), &mut out)
    };
    // What was found out before an error stands.
    out.flush()?;
    ended
}

impl Job<'_> {
    fn replay(&self, mut input: impl BufRead, out: &mut dyn Write) -> Ended {
        let begins = input.fill_buf().map_err(|why| self.failure(why))?;
        match kind::of(begins).map_err(|why| self.failure(why))? {
            Kind::Log => log::run(self, input, out),
            Kind::Stamps => stamps::run(self, input, out),
        }
    }

    fn failure(&self, why: impl std::fmt::Display) -> Failure {
        Failure::new(&self.name, why)
    }
}

/// A share as a percentage that says 100 only of all.
fn percent(share: f64) -> String {
    let text = format!("{:.3}", share * 100.0);
    if share < 1.0 && text == "100.000" { "99.999".into() } else { text }
}

/// Several counts by name, as in `3 late, 1 duplicate`; `none` of none.
fn list<N: std::fmt::Display>(counts: impl IntoIterator<Item = (N, u64)>) -> String {
    let parts: Vec<String> = counts.into_iter().map(|(name, n)| format!("{n} {name}")).collect();
    if parts.is_empty() { "none".into() } else { parts.join(", ") }
}

/// A table of how these are spread, in µs; `-` where there is nothing.
fn spreads(rows: &[(&str, Option<Spread>)], out: &mut dyn Write) -> io::Result<()> {
    let numbers = ["median", "iqr", "1 %", "99 %", "rms", "max"].map(|name| (name, Side::Right));
    let columns: Vec<_> = std::iter::once(("µs", Side::Left)).chain(numbers).collect();
    let mut table = Table::new(&columns);
    let shown = |us: f64| if us.abs() < 1e6 { format!("{us:.3}") } else { format!("{us:.2e}") };
    for (name, spread) in rows {
        let cells = match spread {
            Some(s) => [s.median_us, s.iqr_us, s.p1_us, s.p99_us, s.rms_us, s.max_us].map(shown),
            None => std::array::from_fn(|_| "-".into()),
        };
        table.row(std::iter::once((*name).to_owned()).chain(cells).collect());
    }
    table.write(out)?;
    let every = rows.iter().filter_map(|(_, spread)| Some(spread.as_ref()?.every)).max();
    match every {
        Some(every) if every > 1 => writeln!(out, "\npercentiles by one row of {every}"),
        _ => Ok(()),
    }
}

/// Lines of `name  text`, the text broken between words at 80 columns.
fn write_facts(facts: &[(&str, String)], out: &mut dyn Write) -> io::Result<()> {
    const WIDTH: usize = 80;
    let longest = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let indent = if longest == 0 { 0 } else { longest + 2 };
    for (name, text) in facts {
        let mut line = format!("{name:<indent$}");
        let mut first = true;
        for word in text.split(' ') {
            if !first && line.chars().count() + 1 + word.chars().count() > WIDTH {
                writeln!(out, "{line}")?;
                line = " ".repeat(indent);
                first = true;
            }
            if !first {
                line.push(' ');
            }
            line.push_str(word);
            first = false;
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_broken_between_words() {
        let mut out = Vec::new();
        let text = "word ".repeat(20);
        write_facts(&[("a", "b".into()), ("name", text.trim().into())], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "a     b");
        assert!(lines[1].starts_with("name  word") && lines[2].starts_with("      word"), "{text}");
        assert!(lines.iter().all(|line| line.len() <= 80) && lines.len() == 3, "{text}");
    }

    #[test]
    fn rates_are_whole() {
        assert_eq!((whole_hz("2"), whole_hz("2400000000")), (Ok(2), Ok(2_400_000_000)));
        for bad in ["1", "2.4e9", "2.5", "-3", "", "99999999999999999999"] {
            assert!(whole_hz(bad).unwrap_err().contains("whole counts per second"), "{bad}");
        }
    }

    #[test]
    fn only_all_is_a_hundred_percent() {
        assert_eq!(percent(1.0), "100.000");
        assert_eq!(percent(0.999_999_99), "99.999");
        assert_eq!(percent(0.5), "50.000");
        assert_eq!(
            (list([("late", 3), ("other", 1)]), list::<&str>([])),
            ("3 late, 1 other".into(), "none".into())
        );
    }
}
