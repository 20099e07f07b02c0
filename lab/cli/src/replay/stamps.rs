//! A stamp file.

use std::io::{self, BufRead, Write};

use serde::Serialize;
use truechimer_estimators::OURS;
use truechimer_sim::replay::{
    CSV_HEADER, From, Judged, ReplayError, ReplayOptions, Replayed, replay_stamps, write_csv,
    write_json,
};
use truechimer_time::{Period, Span};

use super::drawn::{Against, Drawn};
use super::{Job, Kept, Rows, list, percent, spreads, write_facts};
use truechimer_command::show::{frequency, json};
use truechimer_command::{Ended, Outcome};

#[derive(Serialize)]
struct Answer<'a> {
    summary: &'a Replayed,
}

pub fn run(job: &Job<'_>, input: impl BufRead, kept: &mut Kept, out: &mut dyn Write) -> Ended {
    let args = job.args;
    let options = ReplayOptions {
        estimator: job.estimator.unwrap_or(OURS),
        nominal: args.hz.map(Period::from_hz),
        stamp_error: args.stamp_error,
        root_distance: args.root_distance,
        max_wander: args.max_wander,
        poll: args.poll,
        settle: Span::from_secs(i64::from(args.settle)),
    };
    if job.rows == Rows::Csv {
        writeln!(out, "{CSV_HEADER}")?;
    }
    let mut text = String::new();
    let mut drawn = Drawn::new(options.estimator.name());
    let reports = args.report.is_some();
    let mut each = |judged: &Judged| -> io::Result<()> {
        if reports && let Some(clock) = judged.clock {
            let reference = (Against::Reference, judged.error());
            let naive = (Against::Naive, judged.offset());
            drawn.add(clock.time, [reference, naive], Some(clock.bound));
        }
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
    let reference = sum.reference.as_ref().and_then(|reference| reference.error);
    let spread = [(Against::Reference, reference), (Against::Naive, sum.offset)];
    drawn.sum(&spread, sum.used);
    kept.drawn.push(drawn);
    let short = short(&sum);
    match job.rows {
        Rows::Csv => {}
        _ if args.json => writeln!(out, "{}", json(&Answer { summary: &sum })?)?,
        _ => show(&job.name, &sum, out)?,
    }
    match &short {
        // The rows so far are right; what they are worth must not go unsaid.
        Some(why) if job.rows == Rows::Csv || args.json => {
            out.flush()?;
            truechimer_command::program::complain(&format!("{}: {why}", job.name));
        }
        Some(why) => {
            writeln!(out)?;
            write_facts(&[("", why.clone())], out)?;
        }
        None => {}
    }
    Ok(Outcome::of(short.is_none()))
}

/// Reason why this is no replay to rely on, if it is not.
fn short(sum: &Replayed) -> Option<String> {
    let most = sum.refused.iter().max_by_key(|(_, refusals)| refusals.rows);
    let most = most.map_or_else(String::new, |(reason, refusals)| {
        format!(
            "; mostly {reason}, first in line {} (docs/reference/stamp-files.md explains the reasons)",
            refusals.first_line
        )
    });
    if sum.used == 0 {
        Some(format!("none of {} was used, so nothing was measured{most}", rows(sum.rows)))
    } else if sum.used < sum.rows.div_ceil(2) {
        let all = rows(sum.rows);
        Some(format!(
            "only {} of {all} were used, fewer than half: do not rely on it{most}",
            sum.used
        ))
    } else if sum.offset.is_none() {
        Some(format!(
            "all rows lie within the first {} s, which --settle leaves out of the statistics",
            sum.settle_s
        ))
    } else {
        None
    }
}

/// The summary for people.
fn show(name: &str, sum: &Replayed, out: &mut dyn Write) -> io::Result<()> {
    let called = sum.estimator.name();
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
    let least = sum
        .rtt_least_us
        .map_or_else(|| "-".into(), |us| format!("round trips of {us:.3} µs and more"));
    let bound = sum.bound.map_or_else(
        || "-".into(),
        |b| format!("median {:.3} µs, 99 % {:.3} µs", b.median_us, b.p99_us),
    );
    let mut facts = vec![
        (
            "duration",
            format!(
                "{} h, a row every {} s",
                sum.duration_s.map_or_else(|| "-".into(), hours),
                sum.poll
            ),
        ),
        ("used", sum.used.to_string()),
        ("refused", list(refused)),
        (
            "path",
            format!(
                "{least}, {}; {}",
                times(sum.shifts, "shift"),
                times(sum.steps, "step of the server")
            ),
        ),
        ("counter", counter),
        ("bound", bound),
        (
            "assumed",
            format!(
                "each count right within {:.3} µs, the server within {:.3} µs",
                sum.stamp_error_us, sum.root_distance_us
            ),
        ),
    ];
    if sum.restarts.count > 0 {
        facts.push(("restarts", restarts(sum)));
    }
    if sum.since_1900 {
        let text = "the server's times are after 2070, and look like seconds since 1900 (as in NTP \
                    packets): those since 1970 are 2208988800 less";
        facts.push(("times", text.into()));
    }
    if sum.settle_s > 0.0 {
        let again = if sum.restarts.count > 0 { ", and after every restart" } else { "" };
        facts.push(("left out", format!("the first {} s{again}: --settle", sum.settle_s)));
    }
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
        let inside = reference.inside_bound.map_or_else(|| "-".into(), percent);
        facts.push(("inside", format!("{inside} % of errors within the bound")));
    }
    write_facts(&facts, out)?;
    writeln!(out)?;
    let mut table = Vec::new();
    if let Some(reference) = &sum.reference {
        table.push(("clock - reference", reference.error));
        table.push(("naive - reference", reference.naive));
    }
    table.push(("clock - naive", sum.offset));
    spreads(&table, out)
}

/// Where the counter began again, and what that means.
fn restarts(sum: &Replayed) -> String {
    let lines: Vec<String> = sum.restarts.lines.iter().map(u64::to_string).collect();
    let more = if sum.restarts.count > lines.len() as u64 { " and more" } else { "" };
    format!(
        "the counter began again {} (in line {}{more}): a new epoch each time, with nothing known \
         of time from before",
        times(sum.restarts.count, "time"),
        lines.join(", ")
    )
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

/// Likely meaning of whole seconds between the two timescales.
fn timescale(offset_s: i64) -> String {
    let likely = match offset_s {
        0 => return "the same timescale as the server's".into(),
        -37 => ": it keeps TAI, the server UTC (since 2017)",
        -18 => ": it keeps GPS time, the server UTC (since 2017)",
        37 => ": it keeps UTC (since 2017), the server TAI",
        2_208_988_800 => ": it counts from 1970, the server from 1900 (as in NTP packets)",
        2_208_988_763 => ": it keeps TAI, the server counts from 1900 (as in NTP packets)",
        315_964_782 => ": it counts GPS time from 1980, the server is on UTC (since 2017)",
        _ => "",
    };
    let way = if offset_s < 0 { "ahead of" } else { "behind" };
    format!("{} s {way} the server's timescale{likely}", offset_s.unsigned_abs())
}
