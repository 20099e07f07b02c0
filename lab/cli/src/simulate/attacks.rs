//! `truechimer-lab simulate attacks`: the clock while somebody on the path, or a server that is
//! bought, works against it.

mod summary;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use truechimer_sim::attack::{Attack, Judged, Kind, judge};
use truechimer_sim::drawn::Drew;
use truechimer_sim::{Options as Run, simulate};

use super::drawn::short;
use super::jobs::{self, Progress};
use super::{rows_of, screen};
use truechimer_command::show::json;
use truechimer_command::table::{Side, Table};
use truechimer_command::{Ended, Failure, Outcome};

/// Options of `truechimer-lab simulate attacks`.
#[derive(Args, Debug)]
#[command(after_help = "\
Each attack is a run of one and a half to three hours, with one to nine servers and paths drawn
from ranges: packets are delayed in one direction, slowly or at once, sent again, forged; leap
seconds and kiss codes are made up; servers are bought, a minority, half, a majority. What somebody
without keys makes up in the name of a server with proof is not believed by anybody; the rest goes
to the very engine of the daemon. Beside it, on the same packets: a model of chrony's client, and
the trimmed mean of all servers that Khronos takes. 'docs/results/attacks.md' has the ranges, and
what the models leave out.

Examples:
  truechimer-lab simulate attacks                       170 of them: ten of each of 17 kinds
  truechimer-lab simulate attacks --kind delay-slow     of one kind
  truechimer-lab simulate attacks --attack 37           one: what was drawn, log, figures
  truechimer-lab simulate attacks --attack 37 --print > mine.toml; truechimer-lab simulate mine.toml
  truechimer-lab simulate attacks --attacks 12155 --json > rows.jsonl
  truechimer-lab simulate attacks --rows rows.jsonl --markdown

Exit status: 0, 1 if the truth was outside the bound although an honest majority of those that vote
could be reached, 2 on an error.")]
pub struct Options {
    /// Where everything random comes from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Number of attacks; the kinds take turns, but for redirect, pool-minority and pool-half. The goal takes 10000 that
    /// leave an honest majority
    #[arg(long, value_name = "N", default_value_t = 170)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub attacks: u64,
    /// Only attacks of this kind; those three are run by it alone
    #[arg(long, value_name = "NAME", value_parser = Kind::named)]
    pub kind: Option<Kind>,
    /// The attack of this number by itself, with what was drawn for it
    #[arg(long, value_name = "N", conflicts_with_all = ["attacks", "kind"])]
    pub attack: Option<u64>,
    /// ... or print it as a scenario file, and end
    #[arg(long, requires = "attack", conflicts_with_all = ["json", "markdown"])]
    pub print: bool,
    /// Print one JSON object a line for each attack
    #[arg(long)]
    pub json: bool,
    /// Print Markdown, with all ranges
    #[arg(long, conflicts_with_all = ["json", "attack"])]
    pub markdown: bool,
    /// Take the rows from FILES that --json printed, separated by commas, instead of running
    #[arg(long, value_name = "FILES", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["json", "attack", "attacks", "kind", "seed"])]
    pub rows: Vec<PathBuf>,
    /// Number of attacks that are worked out side by side [default: as many as there are cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
}

/// Runs the study.
pub fn run(args: &Options, out: &mut dyn Write) -> Ended {
    if let Some(number) = args.attack {
        return one(&Attack::new(args.seed, number), args, out);
    }
    let rows = if args.rows.is_empty() {
        rows(args, out)?
    } else {
        let files = args.rows.iter().map(|path| rows_of(path, read));
        files.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect()
    };
    let outcome = summary::outcome(&rows);
    if args.markdown {
        write!(out, "{}", summary::page(&outcome, &rows))?;
    } else if !args.json {
        write!(out, "{}", outcome.text())?;
    }
    Ok(Outcome::of(outcome.is_met()))
}

/// Rows as --json printed them.
fn read(text: &str) -> Result<Vec<Judged>, String> {
    let row = |(n, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|why| format!("line {}: {why}", n + 1))
    };
    text.lines().enumerate().map(row).collect()
}

/// Runs all attacks, some at a time.
fn rows(args: &Options, out: &mut dyn Write) -> Result<Vec<Judged>, Failure> {
    let numbers = Attack::numbers(args.attacks, args.kind);
    let attacks: Vec<Attack> = numbers.into_iter().map(|n| Attack::new(args.seed, n)).collect();
    let mut rows = Vec::with_capacity(attacks.len());
    let mut progress = Progress::of("attacks", attacks.len());
    jobs::each(&attacks, jobs::width(args.jobs), judge, |attack, row| {
        let name = || format!("attack {}", attack.number);
        let row = row.map_err(|why| Failure::new(name(), why))?;
        if args.json {
            writeln!(out, "{}", json(&row)?)?;
        }
        rows.push(row);
        progress.one_more();
        Ok::<(), Failure>(())
    })?;
    Ok(rows)
}

/// One attack by itself.
fn one(attack: &Attack, args: &Options, out: &mut dyn Write) -> Ended {
    let (scenario, drew) = attack.scenario();
    if args.print {
        write!(out, "{}", scenario.to_toml())?;
        return Ok(Outcome::Good);
    }
    let failed = |why| Failure::new(format!("attack {}", attack.number), why);
    let row = judge(attack).map_err(failed)?;
    let good = Outcome::of(!row.must_hold || row.outside_s == 0);
    if args.json {
        writeln!(out, "{}", json(&row)?)?;
        return Ok(good);
    }
    let Attack { number, seed, kind, .. } = attack;
    writeln!(out, "attack {number} of seed {seed}, {}: {}\n", kind.name(), kind.about())?;
    let mut table = Table::new(&[
        ("part", Side::Left),
        ("drawn", Side::Left),
        ("", Side::Right),
        ("", Side::Left),
    ]);
    for Drew { part, range, value } in drew {
        table.row(vec![part, range.name.into(), short(value), range.unit.into()]);
    }
    table.write(out)?;
    writeln!(out)?;
    for broken in scenario.broken_conditions() {
        writeln!(out, "no promise: {broken}")?;
    }
    let run = Run { seed: attack.packet_seed(), ..Run::default() };
    for note in simulate(&scenario, &run).map_err(failed)?.trace.notes {
        writeln!(out, "{:8.1} s  {:?}: {}", note.at, note.level, note.text)?;
    }
    let number = |value: Option<f64>| screen::number(value.unwrap_or(f64::NAN));
    writeln!(
        out,
        "\nlargest error {} µs, bound {} µs (median; at most {}), {} of {} s outside, by up to {} µs\n\
         model of chrony: largest error {} µs, claim {} µs (median), beyond it by up to {} µs\n\
         trimmed mean: largest error {} µs",
        number(row.largest_us),
        number(row.bound_us),
        number(row.widest_us),
        row.outside_s,
        row.promised_s,
        screen::number(row.exceeded_us),
        number(row.chrony_us),
        number(row.chrony_claim_us),
        screen::number(row.chrony_beyond_us),
        number(row.trimmed_us),
    )?;
    Ok(good)
}
