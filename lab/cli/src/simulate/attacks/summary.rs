//! Tables of many attacks.

use std::collections::BTreeMap;
use std::fmt::Write;

use truechimer_outcome::outcome::{Goal, Grid, Outcome};
use truechimer_outcome::verdict::Verdict;
use truechimer_sim::attack::{Judged, Kind, ranges};

use crate::simulate::drawn::{slashes, table_of_ranges};
use truechimer_command::program;

/// Fewer attacks that leave an honest majority cannot show that the goal is met.
const ENOUGH: usize = 10_000;

/// The longest warning in a table, characters.
const GIST: usize = 90;

/// Attacks of one kind.
type Group<'a> = (Kind, Vec<&'a Judged>);

fn groups(rows: &[Judged]) -> Vec<Group<'_>> {
    let of = |kind: Kind| (kind, rows.iter().filter(|row| row.kind == kind.name()).collect());
    let mut groups: Vec<Group<'_>> = Kind::ALL.into_iter().map(of).collect();
    groups.retain(|(_, rows)| !rows.is_empty());
    groups
}

/// Goal and tables.
pub fn outcome(rows: &[Judged]) -> Outcome {
    let groups = groups(rows);
    Outcome {
        name: "attacks",
        title: "Attacks".to_owned(),
        about: about(rows),
        goals: vec![goal(rows)],
        grids: vec![ours(&groups), said(&groups), others(&groups)],
        ..Outcome::default()
    }
}

fn about(rows: &[Judged]) -> Vec<String> {
    let seeds: std::collections::BTreeSet<u64> = rows.iter().map(|row| row.seed).collect();
    let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
    vec![
        format!(
            "{} attacks of seed {}; one by itself: `truechimer-lab simulate attacks --seed N --attack N`. \
             Errors are clock − truth, once a second, wherever a bound was promised. Three figures in a cell \
             are the median of the attacks, what 90 % of them have at most, and the worst.",
            rows.len(),
            seeds.join(", ")
        ),
        "Promise stands: an honest majority of the servers that vote is left, and the other conditions of \
         the bound hold. Outside: attacks with at least one reading outside of the bound."
            .to_owned(),
    ]
}

fn goal(rows: &[Judged]) -> Goal {
    let stands: Vec<&Judged> = rows.iter().filter(|row| row.must_hold).collect();
    let outside = stands.iter().filter(|row| row.outside_s > 0).count();
    let verdict = match Verdict::of(outside == 0) {
        Verdict::Met if stands.len() < ENOUGH => {
            Verdict::Open(format!("{} attacks, and it takes {ENOUGH}", stands.len()))
        }
        verdict => verdict,
    };
    let seconds: usize = stands.iter().map(|row| row.promised_s).sum();
    Goal {
        name: "attacks that leave an honest majority: the truth inside the bound".to_owned(),
        wanted: format!("0 of {ENOUGH} attacks outside"),
        measured: format!("{outside} of {} attacks outside ({seconds} readings)", stands.len()),
        verdict,
    }
}

fn figures(rows: &[&Judged], of: impl Fn(&Judged) -> Option<f64>) -> String {
    let values: Vec<f64> = rows.iter().filter_map(|row| of(row)).collect();
    slashes(&values)
}

fn count(rows: &[&Judged], of: impl Fn(&Judged) -> bool) -> String {
    rows.iter().filter(|row| of(row)).count().to_string()
}

/// Result of the daemon's clock.
fn ours(groups: &[Group<'_>]) -> Grid {
    let head = [
        "",
        "attacks",
        "promise stands",
        "outside, there",
        "outside, of all",
        "no time at all",
        "largest error, µs",
        "largest error ÷ widest bound",
        "median bound, µs",
        "widest bound, µs",
    ];
    let mut grid = Grid::new("The clock, by kind of attack", head);
    for (kind, rows) in groups {
        let stands: Vec<&Judged> = rows.iter().copied().filter(|row| row.must_hold).collect();
        let share = |row: &Judged| Some(row.largest_us? / row.widest_us?);
        grid.row([
            kind.name().to_owned(),
            rows.len().to_string(),
            stands.len().to_string(),
            count(&stands, |row| row.outside_s > 0),
            count(rows, |row| row.outside_s > 0),
            count(rows, |row| row.promised_s == 0),
            figures(rows, |row| row.largest_us),
            figures(rows, share),
            figures(rows, |row| row.bound_us),
            figures(rows, |row| row.widest_us),
        ]);
    }
    grid
}

/// Words of status and log.
fn said(groups: &[Group<'_>]) -> Grid {
    let head =
        ["", "synchronised, share of the time", "attacks with a warning", "the most frequent"];
    let mut grid = Grid::new("What status and log said", head);
    for (kind, rows) in groups {
        let mut times: BTreeMap<&str, usize> = BTreeMap::new();
        for warning in rows.iter().flat_map(|row| &row.warnings) {
            *times.entry(warning).or_default() += 1;
        }
        let most = times.into_iter().max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(a.0)));
        let most =
            most.map_or_else(String::new, |(text, times)| format!("{} ({times})", gist(text)));
        let mut share: Vec<f64> = rows.iter().map(|row| row.synchronised).collect();
        share.sort_by(f64::total_cmp);
        let at = |part: f64| {
            let place = part * (share.len().saturating_sub(1)) as f64;
            share.get(place as usize).copied().unwrap_or(f64::NAN)
        };
        grid.row([
            kind.name().to_owned(),
            format!("{:.3} (median), {:.3} (lowest tenth)", at(0.5), at(0.1)),
            count(rows, |row| !row.warnings.is_empty()),
            most,
        ]);
    }
    grid
}

/// The beginning of a warning, for a cell of a table.
fn gist(text: &str) -> String {
    let words = text.split_whitespace().scan(0, |length, word| {
        *length += word.chars().count() + 1;
        (*length <= GIST).then_some(word)
    });
    let words: Vec<&str> = words.collect();
    words.join(" ")
}

/// Result of others on the same packets.
fn others(groups: &[Group<'_>]) -> Grid {
    let head = [
        "",
        "model of chrony: largest error, µs",
        "its claim, median, µs",
        "beyond its claim: attacks",
        "by, µs",
        "trimmed mean: largest error, µs",
    ];
    let mut grid = Grid::new("Others on the same packets", head);
    for (kind, rows) in groups {
        // The model knows neither leap seconds nor kiss codes.
        let is_modelled = !matches!(kind, Kind::Leap | Kind::Kiss);
        let beyond = |row: &Judged| Some(row.chrony_beyond_us).filter(|by| *by > 0.0);
        let of_model = |cell: String| if is_modelled { cell } else { "-".to_owned() };
        grid.row([
            kind.name().to_owned(),
            of_model(figures(rows, |row| row.chrony_us)),
            of_model(figures(rows, |row| row.chrony_claim_us)),
            of_model(count(rows, |row| row.chrony_beyond_us > 0.0)),
            of_model(figures(rows, beyond)),
            figures(rows, |row| row.trimmed_us),
        ]);
    }
    grid
}

/// The page of the documentation.
pub fn page(outcome: &Outcome, rows: &[Judged]) -> String {
    // The kinds that are run by themselves have numbers of their own.
    let in_turns = rows.iter().filter(|row| row.attack >> 32 == 0).count();
    let mut page = format!(
        "# Attacks on the path\n\nMade by `truechimer-lab simulate attacks --seed {} --attacks {in_turns} --json > rows.jsonl`, \
         likewise\n`--kind KIND --attacks 300` for redirect, pool-minority and pool-half, and\n`{}`\n\
         (version {}). The same seed gives the same figures, to the last digit. What is defended, and what is\n\
         not: [SECURITY.md](../../SECURITY.md).\n\n",
        rows.first().map_or(1, |row| row.seed),
        program::line(),
        env!("CARGO_PKG_VERSION"),
    );
    let _ = writeln!(page, "{}", include_str!("page.txt"));
    let _ = writeln!(page, "## Kinds\n\n| | |\n|---|---|");
    for kind in Kind::ALL {
        let majority = if kind.leaves_majority() { "" } else { "; no honest majority" };
        let _ = writeln!(page, "| {} | {}{majority} |", kind.name(), kind.about());
    }
    let _ = write!(page, "\n{}\n## What is drawn\n\n", outcome.markdown());
    for (title, about, ranges) in ranges() {
        table_of_ranges(&mut page, title, about, &ranges);
    }
    page
}
