//! Output of a simulation in the terminal.

use std::io::{self, Write};

use truechimer_estimators::Kind;
use truechimer_sim::{Scenario, Statistics};

use truechimer_command::show::wrapped;
use truechimer_command::table::{Side, Table};

/// The scenarios and what each is.
pub fn list(scenarios: &[Scenario], out: &mut dyn Write) -> io::Result<()> {
    let width = scenarios.iter().map(|s| s.name.len()).max().unwrap_or(0);
    let indent = " ".repeat(width + 2);
    for scenario in scenarios {
        wrapped(&format!("{:width$}  {}", scenario.name, scenario.about), &indent, out)?;
    }
    writeln!(out, "\nStudies, each a series of scenarios:")?;
    writeln!(out, "{:width$}  the paper's experiments in one report", "case")?;
    writeln!(out, "{:width$}  all of the above under every estimator", "accuracy")?;
    let outage = "two hours alone, beside a filter knowing all";
    writeln!(out, "{:width$}  {outage}", "outage-end")?;
    let sync = "behind a PTP master, beside what is possible";
    writeln!(out, "{:width$}  {sync}", "sync-limit")?;
    writeln!(out, "{:width$}  what each part of our estimator buys", "ablation")?;
    writeln!(out, "{:width$}  what each constant of the model buys", "sensitivity")?;
    writeln!(out, "{:width$}  paths drawn from ranges, a day each", "drawn")?;
    writeln!(out, "{:width$}  figures to be kept, and to compare with", "figures")?;
    let wrong = "lone servers that are wrong, and honest ones";
    writeln!(out, "{:width$}  {wrong}", "wrong-servers")
}

/// Writes what stands above the table of one scenario.
pub fn heading(scenario: &Scenario, seeds: &[u64], out: &mut dyn Write) -> io::Result<()> {
    let seeds = match seeds {
        [one] => format!("seed {one}"),
        several => format!("seeds 1 to {}", several.len()),
    };
    let poll = match scenario.adaptive {
        Some([low, high]) => format!("poll {low} to {high} s"),
        None => format!("poll {} s", scenario.poll),
    };
    let about = if scenario.about.is_empty() { "a scenario of yours" } else { &scenario.about };
    wrapped(&format!("{}: {about}", scenario.name), "", out)?;
    let settle = match scenario.warm_up_hours {
        0.0 => String::new(),
        hours => format!(", the first {} h to settle", number(hours)),
    };
    writeln!(out, "{} h{settle}; {poll}; {seeds}", scenario.hours)?;
    for remark in remarks(scenario) {
        wrapped(&format!("note: {remark}"), "", out)?;
    }
    Ok(())
}

/// Remarks that the reader needs to judge the figures of a scenario.
pub fn remarks(scenario: &Scenario) -> Vec<String> {
    let broken = scenario.broken_conditions();
    let mut remarks = Vec::new();
    if !broken.is_empty() {
        let why = broken.join("; ");
        remarks.push(format!("the conditions of the bound do not hold all the time: {why}"));
    }
    let late = scenario.not_reached();
    let last = number(late.iter().copied().fold(0.0, f64::max));
    match late.len() {
        0 => {}
        1 => remarks.push(format!("one thing that it is about happens after its end, at {last} h")),
        n => remarks.push(format!(
            "{n} things that it is about happen after its end, the last at {last} h"
        )),
    }
    remarks
}

/// The clocks side by side; no wider than 80 columns.
pub fn table(rows: &[(Kind, Statistics)], out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new(&[
        ("µs", Side::Left),
        ("rms", Side::Right),
        ("median", Side::Right),
        ("iqr", Side::Right),
        ("1 %", Side::Right),
        ("99 %", Side::Right),
        ("max", Side::Right),
        ("<100", Side::Right),
        ("inside", Side::Right),
        ("bound", Side::Right),
        ("stat.", Side::Right),
    ]);
    for (estimator, statistics) in rows {
        let error = &statistics.error;
        table.row(vec![
            estimator.name().into(),
            number(error.rms_us),
            number(error.median_us),
            number(error.iqr_us),
            number(error.p1_us),
            number(error.p99_us),
            number(error.max_us),
            converged(statistics, 100.0),
            inside(statistics),
            number(statistics.bound_median_us),
            number(statistics.statistical_median_us),
        ]);
    }
    table.write(out)?;
    for (estimator, statistics) in rows {
        if statistics.error.seconds == 0 {
            writeln!(out, "{}: never had anything to say: no usable reply", estimator.name())?;
        }
        if let Some(system) = statistics.system_clock {
            writeln!(
                out,
                "system clock: {} µs rms from {}, {} at most; {} steps; {} ppm at most",
                number(system.rms_us),
                estimator.name(),
                number(system.max_us),
                system.steps,
                number(system.max_frequency_ppm)
            )?;
        }
        let inside = statistics.inside_bound;
        if inside.outside > 0 {
            writeln!(
                out,
                "{}: outside the bound in {} of {} seconds, by up to {} µs",
                estimator.name(),
                inside.outside,
                inside.seconds,
                number(inside.exceeded_us)
            )?;
        }
    }
    writeln!(out)
}

/// Three digits, or as many as stand before the point; below 0.1 those down to a thousandth.
pub fn number(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "-".into(),
        0.0 => "0".into(),
        small if small < 0.0995 => format!("{value:.3}"),
        small if small < 9.995 => format!("{value:.2}"),
        middle if middle < 99.95 => format!("{value:.1}"),
        large if large < 999_999.5 => format!("{value:.0}"),
        _ => format!("{value:.1e}"),
    }
}

/// Seconds until the error stayed below so many µs, in the median run.
pub fn converged(statistics: &Statistics, threshold_us: f64) -> String {
    let found = statistics.converged_s.iter().find(|c| (c.threshold_us - threshold_us).abs() < 0.5);
    found.and_then(|c| c.median_s).map_or_else(|| "-".into(), |s| format!("{s:.0}"))
}

/// 100 only if all of them were.
pub fn inside(statistics: &Statistics) -> String {
    let inside = statistics.inside_bound;
    if inside.seconds == 0 {
        "-".into()
    } else if inside.outside == 0 {
        "100".into()
    } else {
        format!("{:.2}", (inside.share * 1e4).floor().min(9999.0) / 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.123, "0.12"),
            (-1.234, "-1.23"),
            (9.996, "10.0"),
            (99.96, "100"),
            (123_456.7, "123457"),
            (5e7, "5.0e7"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn everything_has_a_line_in_the_list() {
        let mut out = Vec::new();
        let all = truechimer_sim::catalogue();
        list(&all, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for name in all.iter().map(|s| s.name.as_str()).chain([
            "case",
            "accuracy",
            "outage-end",
            "sync-limit",
            "ablation",
            "sensitivity",
            "drawn",
            "figures",
            "wrong-servers",
        ]) {
            assert!(text.lines().any(|l| l.starts_with(&format!("{name} "))), "{name}");
        }
    }
}
