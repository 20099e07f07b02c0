//! Output made of the rows: tables in Markdown, a comparison, and single runs.

use std::io::{self, Write};

use truechimer_sim::wrong::{Compared, Event, Group, Outcome, Row, Rows, Share, Spread, WAYS};

use super::super::screen;
use truechimer_command::table::{Side, Table};

/// A column: its head, and what stands in it.
type Column = (&'static str, fn(&Row) -> String);

/// Columns for the runs of a wrong server.
const WRONG: [Column; 9] = [
    ("held off, %", |row| share(row.held)),
    ("seen, %", |row| share(row.doubted)),
    ("after, s", |row| two(row.held_after_s)),
    ("led astray, %", |row| share(row.misled)),
    ("error meanwhile, µs", |row| three(row.during_us)),
    ("afterwards, µs", |row| three(row.after_us)),
    ("outside, %", |row| share(row.outside)),
    ("for, s", |row| worst_two(row.outside_s)),
    ("right after, s", |row| two(row.right_after_s)),
];

/// The last column where a server stays wrong.
const BELIEVED: Column = ("believed after, s", |row| two(row.believed_after_s));

/// Columns for the runs of an honest one.
const HONEST: [Column; 7] = [
    ("held off, %", |row| share(row.held)),
    ("for 10 min, %", |row| share(row.held_long)),
    ("longest hold, s", |row| worst_two(row.held_honest_s)),
    ("error, 10 min, µs", |row| three(row.during_us)),
    ("error, rest, µs", |row| three(row.after_us)),
    ("outside, %", |row| share(row.outside)),
    ("for, s", |row| worst_two(row.outside_s)),
];

/// Meaning of the columns.
const LEGEND: &str = "\
Pairs are the median and the 95th percentile over the seeds, threes the largest as well, where it \
says `for` or `longest` the 95th percentile and the largest. A run that ends before it is right \
again counts with its length.

| column | what |
|---|---|
| held off | runs in which an exchange was held off (`server-step`): while a wrong server was wrong, and at any time of an honest one |
| seen | runs in which that happened, or the server was seen to drift against what the oscillator promises (the bound covers both) |
| after | from when the server is wrong until it is held off, where it is |
| led astray | runs in which the clock was wrong by more than 30 µs (lan), 100 µs (4ms) or 150 µs (36ms), or believed a step that stays before its time; what merely going on without a server comes to shows with the largest step |
| error meanwhile | largest error until the server is right again, or may be believed |
| afterwards | largest error after that |
| outside | runs with the truth outside of the bound in a second of these, and for how many |
| right after | from when the server is right again until the error stays below those limits |
| for 10 min | runs in which a server that was right was held off for more than ten minutes |
";

/// The command that makes such rows.
pub fn made(rows: &[Row]) -> String {
    let seeds = rows.first().map_or(0, |row| row.seeds);
    format!("truechimer-lab simulate wrong-servers --seeds {seeds} --json")
}

/// All tables of one `accept-step-after`, or what each of several comes to. `made` is the command.
pub fn tables(rows: &[Row], made: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut waits: Vec<f64> = rows.iter().map(|row| row.accept_step_after_s).collect();
    waits.sort_by(f64::total_cmp);
    waits.dedup();
    let seeds = rows.first().map_or(0, |row| row.seeds);
    writeln!(
        out,
        "Made by `{made}`\n(version {}; seeds 1 to {seeds}).\n",
        env!("CARGO_PKG_VERSION")
    )?;
    let [wait] = waits.as_slice() else { return dial(rows, &waits, out) };
    writeln!(out, "`accept-step-after` is {}. {LEGEND}", minutes(*wait))?;
    for group in Group::ALL {
        let of: Vec<&Row> = rows.iter().filter(|row| row.group == group).collect();
        if of.is_empty() {
            continue;
        }
        writeln!(out, "### {}\n\n{}.\n", group.name(), group.about())?;
        let mut columns: Vec<Column> =
            if group.is_honest() { HONEST.to_vec() } else { WRONG.to_vec() };
        if group == Group::StepForGood {
            columns.retain(|(head, _)| !["afterwards, µs", "right after, s"].contains(head));
            columns.push(BELIEVED);
        }
        let clocks = several(rows);
        let heads = ["case", "path"].into_iter().chain(clocks.then_some("clock"));
        let mut lines = Vec::new();
        for row in of {
            let names = names(row, clocks);
            lines
                .push(names.into_iter().chain(columns.iter().map(|(_, cell)| cell(row))).collect());
        }
        table(
            &heads.chain(columns.iter().map(|(head, _)| *head)).collect::<Vec<_>>(),
            &lines,
            out,
        )?;
    }
    Ok(())
}

/// Writes the results of each `accept-step-after`.
fn dial(rows: &[Row], waits: &[f64], out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "What `accept-step-after` buys and costs. Of wrong servers: in how many per cent of the runs the\n\
         clock was led astray / for how long the truth was held off. Of honest ones: in how many per cent\n\
         they were held off / for how long. The time is the 95th percentile of the longest hold, s, in the\n\
         case in which that is longest.\n"
    )?;
    let clocks = several(rows);
    let heads: Vec<String> = ["what", "path"]
        .into_iter()
        .chain(clocks.then_some("clock"))
        .map(str::to_owned)
        .chain(waits.iter().map(|wait| minutes(*wait)))
        .collect();
    let mut estimators: Vec<&str> = rows.iter().map(|row| row.estimator.as_str()).collect();
    estimators.sort_unstable();
    estimators.dedup();
    let mut lines = Vec::new();
    for group in Group::ALL {
        for way in WAYS {
            for estimator in &estimators {
                let of = |wait: f64| {
                    rows.iter().filter(move |row| {
                        row.group == group
                            && row.path == way.name
                            && row.estimator == *estimator
                            && is(row, wait)
                    })
                };
                if waits.iter().all(|wait| of(*wait).next().is_none()) {
                    continue;
                }
                let cell = |wait: &f64| {
                    let first = |row: &Row| if group.is_honest() { row.held } else { row.misled };
                    let first = of(*wait).fold(Share::default(), |sum, row| sum.plus(first(row)));
                    let holds = of(*wait).filter_map(|row| row.held_honest_s);
                    let longest = holds.map(|hold| hold.p95.value).fold(0.0, f64::max);
                    format!("{} / {}", share(first), short(longest))
                };
                let names =
                    [group.name(), way.name].into_iter().chain(clocks.then_some(*estimator));
                let names = names.map(str::to_owned);
                lines.push(names.chain(waits.iter().map(cell)).collect());
            }
        }
    }
    table(&heads.iter().map(String::as_str).collect::<Vec<_>>(), &lines, out)
}

/// The rows beside those of before. Gives whether anything is worse.
pub fn comparison(rows: &[Row], before: &Rows, out: &mut dyn Write) -> io::Result<bool> {
    let mut lines = Vec::new();
    let (mut worse, mut unmatched) = (Vec::new(), 0);
    for row in rows {
        let Some(old) = before.like(row) else {
            unmatched += 1;
            continue;
        };
        for one in row.against(old) {
            if one.worse {
                let what =
                    format!("{} over {}, {}", row.case, row.path, minutes(row.accept_step_after_s));
                worse.push(format!("- {what}: {}: {}", one.name, change(&one)));
            }
            if one.old != one.new {
                let mut line = names(row, true);
                line.extend([minutes(row.accept_step_after_s), one.name.to_owned(), change(&one)]);
                line.push(if one.worse { "**worse**".into() } else { String::new() });
                lines.push(line);
            }
        }
    }
    if lines.is_empty() {
        writeln!(out, "Nothing has changed.\n")?;
    } else {
        table(&["case", "path", "clock", "dial", "figure", "before → now", ""], &lines, out)?;
    }
    let compared = rows.len() - unmatched;
    writeln!(
        out,
        "{compared} rows compared, {unmatched} without one before; {} figures are worse by more than \
         the seeds scatter",
        worse.len()
    )?;
    for line in &worse {
        writeln!(out, "{line}")?;
    }
    Ok(!worse.is_empty())
}

fn change(one: &Compared) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), screen::number);
    format!("{} → {}", number(one.old), number(one.new))
}

/// Writes what happened in a run, and what it came to.
pub fn events(events: &[Event], outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new(&[
        ("s", Side::Right),
        ("error, µs", Side::Right),
        ("bound, µs", Side::Right),
        ("", Side::Left),
    ]);
    for Event { at, error, bound, what } in events {
        let us = |value: f64| screen::number(1e6 * value);
        table.row(vec![format!("{at:.1}"), us(*error), us(*bound), what.clone()]);
    }
    table.write(out)?;
    let after = |value: Option<f64>| {
        value.map_or_else(|| "never".to_owned(), |s| format!("after {s:.0} s"))
    };
    writeln!(
        out,
        "held off {}; largest error {} µs meanwhile, {} µs afterwards; {} s outside of the bound\n\
         right again {}; longest hold of a server that was right {:.0} s; led astray: {}\n",
        after(outcome.held_after),
        screen::number(1e6 * outcome.during),
        screen::number(1e6 * outcome.after),
        outcome.outside,
        after(Some(outcome.right_after).filter(|s| !s.is_nan())),
        outcome.held_honest,
        if outcome.misled { "yes" } else { "no" },
    )
}

/// Case and path, and the estimator where there are several.
fn names(row: &Row, clocks: bool) -> Vec<String> {
    let clock = clocks.then(|| row.estimator.clone());
    [row.case.clone(), row.path.clone()].into_iter().chain(clock).collect()
}

fn several(rows: &[Row]) -> bool {
    rows.windows(2).any(|pair| matches!(pair, [a, b] if a.estimator != b.estimator))
}

fn is(row: &Row, wait: f64) -> bool {
    (row.accept_step_after_s - wait).abs() < 1e-3
}

fn table(heads: &[&str], lines: &[Vec<String>], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "| {} |\n|{}", heads.join(" | "), "---|".repeat(heads.len()))?;
    for line in lines {
        writeln!(out, "| {} |", line.join(" | "))?;
    }
    writeln!(out)
}

/// Per cent, without decimals unless that would hide something.
fn share(share: Share) -> String {
    let percent = share.percent();
    match percent {
        _ if share.of == 0 => "–".into(),
        _ if share.count == 0 || share.count == share.of => format!("{percent:.0}"),
        few if !(1.0..=99.0).contains(&few) => format!("{few:.2}"),
        some => format!("{some:.0}"),
    }
}

fn two(spread: Option<Spread>) -> String {
    spread.map_or_else(
        || "–".into(),
        |s| format!("{}, {}", short(s.median.value), short(s.p95.value)),
    )
}

fn worst_two(spread: Option<Spread>) -> String {
    let two = |s: Spread| format!("{}, {}", short(s.p95.value), short(s.worst));
    spread.map_or_else(|| "–".into(), two)
}

fn three(spread: Option<Spread>) -> String {
    spread.map_or_else(|| "–".into(), |s| format!("{}, {}", two(Some(s)), short(s.worst)))
}

/// Three digits; whole numbers as they are.
fn short(value: f64) -> String {
    if value.abs() >= 9.995 { format!("{value:.0}") } else { screen::number(value) }
}

/// A wait in its largest unit.
fn minutes(seconds: f64) -> String {
    match seconds {
        s if s >= 3600.0 && s % 3600.0 == 0.0 => format!("{:.0} h", s / 3600.0),
        s if s >= 60.0 && s % 60.0 == 0.0 => format!("{:.0} min", s / 60.0),
        s => format!("{s} s"),
    }
}
