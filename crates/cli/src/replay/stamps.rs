//! A stamp file.

use std::io::{self, BufRead, Write};

use clap::ValueEnum;
use serde::Serialize;
use truechimer_sim::replay::{
    CSV_HEADER, From, Judged, ReplayError, ReplayOptions, Replayed, Spread, replay_stamps,
    write_csv, write_json,
};
use truechimer_time::Period;

use super::{Job, Rows, list, percent, write_facts};
use crate::args::Estimator;
use crate::failure::{Ended, Outcome};
use crate::show::{frequency, json};
use crate::table::{Side, Table};

#[derive(Serialize)]
struct Answer<'a> {
    summary: &'a Replayed,
}

pub fn run(job: &Job<'_>, input: impl BufRead, out: &mut dyn Write) -> Ended {
    let args = job.args;
    let options = ReplayOptions {
        estimator: args.estimator.unwrap_or(Estimator::Ours).kind(),
        nominal: args.hz.map(Period::from_hz),
        stamp_error: args.stamp_error,
        root_distance: args.root_distance,
        max_wander: args.max_wander,
        poll: args.poll,
    };
    if job.rows == Rows::Csv {
        writeln!(out, "{CSV_HEADER}")?;
    }
    let mut text = String::new();
    let mut each = |judged: &Judged| -> io::Result<()> {
        text.clear();
        match job.rows {
            Rows::None => return Ok(()),
            Rows::Csv => write_csv(judged, &mut text),
            Rows::Json => write_json(judged, &mut text),
        }
        .map_err(io::Error::other)?;
        writeln!(out, "{text}")
    };
    let sum = match replay_stamps(input, &options, &mut each) {
        Ok(sum) => sum,
        Err(ReplayError::Output(error)) => return Err(error.into()),
        Err(why) => return Err(job.failure(why)),
    };
    match job.rows {
        Rows::Csv => {}
        _ if args.json => writeln!(out, "{}", json(&Answer { summary: &sum })?)?,
        _ => show(&job.name, args.estimator.unwrap_or(Estimator::Ours), &sum, out)?,
    }
    Ok(Outcome::Good)
}

/// The summary for people.
fn show(name: &str, estimator: Estimator, sum: &Replayed, out: &mut dyn Write) -> io::Result<()> {
    let called = estimator.to_possible_value();
    let called = called.as_ref().map_or("?", |value| value.get_name());
    writeln!(out, "{name}: the estimator '{called}' over {}\n", rows(sum.rows))?;
    let refused = sum.refused.iter().map(|(reason, refusals)| {
        (format!("{reason} (first in line {})", refusals.first_line), refusals.rows)
    });
    let from = match sum.nominal.from {
        From::Given => "as given",
        From::Declared => "by the file",
        From::Inferred => "by the first rows",
    };
    let mut counter = format!("{}, {from}", frequency(sum.nominal.hz));
    if let Some(skew) = sum.skew_ppb {
        counter += &format!("; skew {:+.4} ppm in the end", skew / 1000.0);
    }
    let mut facts = vec![
        ("duration", format!("{} h, a row every {} s", hours(sum.duration_s), sum.poll)),
        ("used", sum.used.to_string()),
        ("refused", list(refused)),
        (
            "path",
            format!(
                "round trips of {:.3} µs and more, {}; {}",
                sum.rtt_least_us,
                times(sum.shifts, "shift"),
                times(sum.steps, "step of the server")
            ),
        ),
        ("counter", counter),
        ("bound", format!("median {:.3} µs, 99 % {:.3} µs", sum.bound.median_us, sum.bound.p99_us)),
        (
            "assumed",
            format!(
                "each count right within {:.3} µs, the server within {:.3} µs",
                sum.stamp_error_us, sum.root_distance_us
            ),
        ),
    ];
    if let Some(reference) = &sum.reference {
        facts.push(("reference", timescale(reference.offset_s)));
        if let Some(line) = reference.elsewhere_line {
            let away = format!(
                "in {} another number of seconds apart (a leap second, or a server that is \
                 wrong), first in line {line}",
                rows(reference.elsewhere)
            );
            facts.push(("", away));
        }
        if reference.backwards > 0 {
            let left = format!("RefOut before RefIn in {}, left out", rows(reference.backwards));
            facts.push(("", left));
        }
        let inside = percent(reference.inside_bound);
        facts.push(("inside", format!("{inside} % of errors within the bound")));
    }
    write_facts(&facts, out)?;
    writeln!(out)?;
    let mut table = Table::new(&[
        ("µs", Side::Left),
        ("median", Side::Right),
        ("iqr", Side::Right),
        ("1 %", Side::Right),
        ("99 %", Side::Right),
        ("rms", Side::Right),
        ("max", Side::Right),
    ]);
    if let Some(reference) = &sum.reference {
        table.row(cells("clock - reference", &reference.error));
        table.row(cells("naive - reference", &reference.naive));
    }
    table.row(cells("clock - naive", &sum.offset));
    table.write(out)?;
    if sum.offset.every > 1 {
        writeln!(out, "\npercentiles by one row of {}", sum.offset.every)?;
    }
    Ok(())
}

fn rows(n: u64) -> String {
    times(n, "row")
}

fn times(n: u64, what: &str) -> String {
    match (n, what.split_once(' ')) {
        (1, _) => format!("1 {what}"),
        (_, Some((noun, rest))) => format!("{n} {noun}s {rest}"),
        _ => format!("{n} {what}s"),
    }
}

fn hours(seconds: f64) -> String {
    format!("{:.2}", seconds / 3600.0)
}

/// What whole seconds between the two timescales probably mean.
fn timescale(offset_s: i64) -> String {
    let likely = match offset_s {
        0 => return "the same timescale as the server's".into(),
        -37 => ": it keeps TAI, the server UTC (since 2017)",
        -18 => ": it keeps GPS time, the server UTC (since 2017)",
        37 => ": it keeps UTC (since 2017), the server TAI",
        315_964_782 => ": it counts GPS time from 1980, the server is on UTC (since 2017)",
        _ => "",
    };
    let way = if offset_s < 0 { "ahead of" } else { "behind" };
    format!("{} s {way} the server's timescale{likely}", offset_s.unsigned_abs())
}

fn cells(name: &str, spread: &Spread) -> Vec<String> {
    let Spread { median_us, iqr_us, p1_us, p99_us, rms_us, max_us, .. } = *spread;
    let numbers = [median_us, iqr_us, p1_us, p99_us, rms_us, max_us];
    let shown = |us: &f64| if us.abs() < 1e6 { format!("{us:.3}") } else { format!("{us:.2e}") };
    std::iter::once(name.to_owned()).chain(numbers.iter().map(shown)).collect()
}
