//! `truechimer-lab replay`: the decisions of a daemon once more, or a clock over a file of stamps.

mod drawn;
mod kind;
mod log;
mod stamps;
mod taken;

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use truechimer_estimators::Kind as Estimator;
use truechimer_time::{Rate, Span};

use truechimer_sim::replay::Spread;

use truechimer_command::output::{ready, save, save_report};
use truechimer_command::table::{Side, Table};
use truechimer_command::{Ended, Failure, Outcome};

use drawn::Drawn;
use taken::Taken;

use crate::estimator;
use clap::Args;
use kind::Kind;
use std::path::PathBuf;
use truechimer_command::parse;

/// Options of `truechimer-lab replay`.
#[derive(Args, Debug)]
#[command(after_help = "\
FILE is one of two things, told apart by how it begins: a replay log or a stamp file.

Replay log: what 'truechimer run --replay-log' wrote. Its events go to the engine once more, and
every action and every published hand is compared with those in the log, bit for bit. With
--estimator the same events go to an engine with that estimator; nothing is compared bit for bit
then, but how far its published clock is from the logged one is told. Its replies answer requests
of the logged engine: those that it would not have sent itself (it polls at other times) it takes
for strays, and goes without.

Stamp file: rows of Ta Tb Te Tf, with RefIn RefOut after them where a reference stamped the same
packets: counts when the request left and the reply arrived (Ta, Tf), Unix seconds by the server
(Tb, Te) and by the reference, comments after # or %. docs/reference/stamp-files.md has all of it.
Where the counter begins again (a reboot) a new epoch begins.

Several estimators, as in --estimator ours,published,pi: one after the other over the same file.
--report draws them into one HTML page, which needs no network: the clock - the reference, or - a
client without a filter, or - the log's own clock, and the bounds.

--stamps writes what a log's engine used of one source as a stamp file, to be replayed with other
tools; the server's times are its own, in UTC.

Rows, by --csv or --json: one for each reply, with the clock as it was once the reply had been
taken in. An offset or error is the clock - the other, positive = the clock is ahead: 'offset' the
clock - what a client without a filter believes (the reply took half of the round trip), 'error' -
the reference, 'logged' - the clock in the log, 'source_offset' - the source's own estimate (with
one source the published clock is just that, and it is 0). Skew is that of the counter, positive =
fast. The last line of JSON is the summary.

Units: spans are nanoseconds in CSV (_ns), whole picoseconds in rows of JSON (_ps), microseconds in
tables and in the summary of JSON (_us).

Examples:
  truechimer-lab replay /var/log/truechimer.replay
  truechimer-lab replay --estimator published --csv /var/log/truechimer.replay > published.csv
  truechimer-lab simulate lan --stamps lan.stamps; truechimer-lab replay --settle 7200 lan.stamps
  zcat trace.gz | truechimer-lab replay --hz 2400000000 --json -
  truechimer-lab replay --estimator ours,published,pi --report day.html day.stamps
  truechimer-lab replay --stamps day.stamps --source ntp.example.org:123 day.log

Exit status: 0, 1 if a decision is not the same as in the log, or if there was nothing to replay or
fewer than half of the rows could be used, 2 on an error.")]
pub struct Replay {
    /// A replay log or a stamp file; - reads standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// With these estimators, separated by commas [default: the log's own; ours for a stamp file]
    #[arg(long, value_name = "NAME", value_parser = estimator(), value_delimiter = ',')]
    pub estimator: Vec<Estimator>,
    /// Write plots to FILE, one HTML page
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Write what a log's engine used of one source to FILE, as a stamp file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["estimator", "csv", "json"])]
    pub stamps: Option<PathBuf>,
    /// Source whose exchanges --stamps writes, by its name in the log [default: its only source]
    #[arg(long, value_name = "NAME", requires = "stamps")]
    pub source: Option<String>,
    /// Print a row per reply, as comma-separated values with a header
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print a row per reply and the summary, a JSON object a line
    #[arg(long)]
    pub json: bool,
    /// Leave out the rows: of the JSON, print the summary alone
    #[arg(long, conflicts_with = "csv")]
    pub summary: bool,
    /// Leave the first so many seconds out of the statistics, though not out of the rows
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub settle: u32,
    /// Counts per second, nominally [default: by a comment, else by the first rows]
    #[arg(long, value_name = "HZ", help_heading = STAMPS, value_parser = whole_hz)]
    #[arg(allow_hyphen_values = true)]
    pub hz: Option<u64>,
    /// Bound of the error of each count [default: by a comment, else 1us]
    #[arg(long, value_name = "SPAN", value_parser = parse::not_negative, allow_hyphen_values = true)]
    #[arg(help_heading = STAMPS)]
    pub stamp_error: Option<Span>,
    /// The server's distance from true time [default: by a comment, else 0]
    #[arg(long, value_name = "SPAN", value_parser = parse::not_negative, allow_hyphen_values = true)]
    #[arg(help_heading = STAMPS)]
    pub root_distance: Option<Span>,
    /// Seconds between requests, 1 to 1024 [default: by the first rows]
    #[arg(long, value_name = "S", help_heading = STAMPS)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub poll: Option<u32>,
    /// Limit of the oscillator's wander, in ppm [default: 0.5]
    #[arg(long, value_name = "PPM", help_heading = STAMPS, value_parser = parse::positive_rate)]
    pub max_wander: Option<Rate>,
}

/// Heading of the options for stamp files only.
const STAMPS: &str = "Stamp files";

/// Form in which rows are printed, if at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rows {
    None,
    Csv,
    Json,
}

/// File to replay, and how it is shown.
struct Job<'a> {
    args: &'a Replay,
    /// Name by which the user knows the file.
    name: String,
    rows: Rows,
    /// With this estimator; `None`: the log's own.
    estimator: Option<Estimator>,
}

/// Parses the value of `--hz`.
pub fn whole_hz(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(hz) if hz >= 2 => Ok(hz),
        _ => Err("must be whole counts per second, 2 or more, with all digits written out: \
                  2400000000, not 2.4e9"
            .into()),
    }
}

/// Runs the command.
pub fn run(args: &Replay, out: &mut dyn Write) -> Ended {
    let standard = args.file.as_os_str() == "-";
    let name = if standard { "standard input".into() } else { args.file.display().to_string() };
    let rows = match (args.csv, args.json && !args.summary) {
        (true, _) => Rows::Csv,
        (_, true) => Rows::Json,
        _ => Rows::None,
    };
    let chosen: Vec<_> = if args.estimator.is_empty() {
        vec![None]
    } else {
        args.estimator.iter().copied().map(Some).collect()
    };
    if chosen.len() > 1 {
        several(args, standard, rows)?;
    }
    for path in [&args.report, &args.stamps].into_iter().flatten() {
        ready(path)?;
    }
    // A row at a time would be a system call at a time.
    let mut out = BufWriter::new(out);
    let mut kept =
        Kept { taken: args.stamps.as_ref().map(|_| Taken::default()), drawn: Vec::new() };
    let mut good = true;
    for (n, estimator) in chosen.into_iter().enumerate() {
        if n > 0 && !args.json {
            writeln!(out)?;
        }
        let job = Job { args, name: name.clone(), rows, estimator };
        let ended = if standard {
            job.replay(io::stdin().lock(), &mut kept, &mut out)
        } else {
            let file = File::open(&args.file).map_err(|why| job.failure(why))?;
            job.replay(BufReader::new(file), &mut kept, &mut out)
        };
        // What was found out before an error stands.
        out.flush()?;
        good &= ended? == Outcome::Good;
    }
    if let Some(path) = &args.report {
        save_report(path, &drawn::page(&name, &kept.drawn))?;
    }
    if let (Some(path), Some(taken)) = (&args.stamps, &kept.taken) {
        let text = taken.stamp_file(&name, args.source.as_deref())?;
        save(path, &text)?;
    }
    Ok(Outcome::of(good))
}

/// Finds out what several estimators at a time cannot be.
fn several(args: &Replay, standard: bool, rows: Rows) -> Result<(), Failure> {
    if standard {
        return Err(Failure::new(
            "--estimator",
            "standard input can be read only once: name a file",
        ));
    }
    match (rows, args.csv) {
        (Rows::None, _) => Ok(()),
        (_, true) => Err(Failure::new("--csv", "takes one estimator at a time")),
        _ => Err(Failure::new("--json", "prints rows of one estimator at a time: add --summary")),
    }
}

/// Outcome of a replay, for the report and for a stamp file.
struct Kept {
    taken: Option<Taken>,
    drawn: Vec<Drawn>,
}

impl Job<'_> {
    fn replay(&self, mut input: impl BufRead, kept: &mut Kept, out: &mut dyn Write) -> Ended {
        let begins = input.fill_buf().map_err(|why| self.failure(why))?;
        match kind::of(begins).map_err(|why| self.failure(why))? {
            Kind::Log => log::run(self, input, kept, out),
            Kind::Stamps if kept.taken.is_some() => {
                Err(Failure::new("--stamps", format!("{} is a stamp file already", self.name)))
            }
            Kind::Stamps => stamps::run(self, input, kept, out),
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
